//! Options of `campanile standby`.

use super::StoreOptions;
use clap::{Args, Subcommand};

pub(super) const STANDBY_EXAMPLES: &str = "\
Examples:
  campanile standby status
  campanile standby promote --i-have-stopped first.example

Both are asked on the machine itself, by a socket in the store's folder, as the
user that the service runs as. docs/standby.md has the rest.";

const STATUS_EXAMPLES: &str = "\
Examples:
  campanile standby status
  campanile standby status --data /var/lib/campanile --json | jq .lag_batches

Exit status: 0 in step; 1 not in step, or there is no such process; 2 wrong usage.";

const PROMOTE_EXAMPLES: &str = "\
Examples:
  campanile standby promote --i-have-stopped first.example
  campanile standby promote --accept-loss

On the follower's machine. Make sure that the leader serves no more: its machine is
off, or its service stopped. While both serve, what each takes is not merged.
--i-have-stopped takes the host of standby.peer, and only a follower that was in
step when it heard of the leader last. It prints what may be lost.
--accept-loss on a leader has its record in etcd written anew, if it is gone or old.
Exit status: 0 it is promoted; 1 it is not; 2 wrong usage.";

const SWITCH_EXAMPLES: &str = "\
Examples:
  campanile standby switch

On the leader's machine, with a follower in step. The leader takes nothing
persistent more in, waits until the follower has everything, is a follower on its
disk, and has the other one take over. Clients connect anew.
Exit status: 0 the other machine takes over; 1 it does not, and why; 2 wrong usage.";

/// `campanile standby …`.
#[derive(Debug, Subcommand)]
pub(crate) enum StandbyCommand {
    /// Show role, epoch, and what the follower lacks
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StandbyOptions),
    /// Have the follower on this machine take over
    #[command(after_help = PROMOTE_EXAMPLES)]
    Promote(PromoteOptions),
    /// Have leader and follower change their roles, as planned
    #[command(after_help = SWITCH_EXAMPLES)]
    Switch(StandbyOptions),
}

#[derive(Debug, Args)]
pub(crate) struct StandbyOptions {
    #[command(flatten)]
    pub(crate) store: StoreOptions,
}

#[derive(Debug, Args)]
pub(crate) struct PromoteOptions {
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    #[command(flatten)]
    pub(crate) why: PromoteWhy,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PromoteWhy {
    /// The leader on this host, that of standby.peer, serves no more
    #[arg(long, value_name = "HOST")]
    pub(crate) i_have_stopped: Option<String>,
    /// Take over even where the follower was not in step
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

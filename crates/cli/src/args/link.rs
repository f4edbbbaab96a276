//! What an operator asks and does about links to other services.

use super::ServerOptions;
use clap::{Args, Subcommand};

pub(super) const LINK_EXAMPLES: &str = "\
Examples:
  campanile link ls
  campanile link pause lab
  campanile link resume lab

A link joins channels of this service with those of another Campanile
(docs/links.md). Only for Campanile.";

const LS_EXAMPLES: &str = "\
Examples:
  campanile link ls
  campanile link ls --json | jq '.links[] | select(.state != \"up\") | .reason'
  campanile link ls --json | jq '[.links[].lost] | add'

A line for each link, channel and direction: its state, the events that wait or
are not acknowledged (LAG), the octets of those in memory, the age of the oldest,
octets in flight of the window, and events lost. Beneath what is not up is why,
and for how long. On a terminal what is down, refused or has lost events is red.
Exit status: 0 shown, or there is none; 1 not; 2 wrong usage.";

const PAUSE_EXAMPLES: &str = "\
Examples:
  campanile link pause lab

No event crosses a paused link, in either direction; what comes meanwhile waits
as for a line that is down. Persistent events cross after `campanile link
resume`. A pause ends with the service's process.
Exit status: 0 done; 1 not, or there is no such link; 2 wrong usage.";

const RESUME_EXAMPLES: &str = "\
Examples:
  campanile link resume lab

Exit status: 0 done; 1 not, or there is no such link; 2 wrong usage.";

/// `campanile link …`.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Show links: state, lag, window, losses
    #[command(after_help = LS_EXAMPLES)]
    Ls(LinkLsOptions),
    /// Have no events cross a link until it is resumed
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(LinkOptions),
    /// Have events cross a paused link again
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(LinkOptions),
}

#[derive(Debug, Args)]
pub(crate) struct LinkLsOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LinkOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The link, by its name in `campanile link ls`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

//! What an operator does with what a service has kept.

use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const STORE_EXAMPLES: &str = "\
Examples:
  campanile store show
  campanile store check --data /var/lib/campanile
  campanile store compact
  campanile store salvage /var/lib/campanile /srv/salvaged

The service has to be stopped; one that runs is shown by `campanile ls`
and `campanile stats store`.";

const CHECK_EXAMPLES: &str = "\
Examples:
  campanile store check
  campanile store check --data /var/lib/campanile && systemctl start campanile
  campanile store check --json | jq .damaged

Reads everything, verifies checksums, and tries to restore what is configured.
Exit status: 0 whole; 1 damaged, with what is, or not to be had; 2 wrong usage.";

const SHOW_EXAMPLES: &str = "\
Examples:
  campanile store show
  campanile store show --data /var/lib/campanile
  campanile store show --json | jq .events.oldest

Its version and size, how much is configured, and the events that are not
yet confirmed, by channel.
Exit status: 0 shown; 1 not; 2 wrong usage.";

const COMPACT_EXAMPLES: &str = "\
Examples:
  campanile store compact
  campanile store compact --data /var/lib/campanile
  campanile store compact --to /srv/campanile && campanile serve --data /srv/campanile

A store fills the holes that events leave when they go, and seldom gives room
back by itself. What is stored is not changed. Where its disk is full, a new store
is made in a folder on another (--to), and the former one stays as it is.
Exit status: 0 done; 1 not; 2 wrong usage.";

const SALVAGE_EXAMPLES: &str = "\
Examples:
  campanile store salvage /var/lib/campanile /srv/salvaged
  campanile store salvage /var/lib/campanile /srv/salvaged --json | jq .events

Brings what is whole in a damaged store into a new one, and says what is not. A
page with one wrong bit is set right; what is worse is left out. The damaged
store stays as it is.
Exit status: 0 everything was brought out; 1 not, with what is missing; 2 wrong
usage.";

/// `campanile store …`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Verify everything, and say what is damaged
    #[command(after_help = CHECK_EXAMPLES)]
    Check(StoreOptions),
    /// Show its version and size, what is configured, and which events are kept
    #[command(after_help = SHOW_EXAMPLES)]
    Show(StoreOptions),
    /// Make its file as small as what is in it
    #[command(after_help = COMPACT_EXAMPLES)]
    Compact(CompactOptions),
    /// Bring what is whole in a damaged store into a new one
    #[command(after_help = SALVAGE_EXAMPLES)]
    Salvage(SalvageOptions),
}

#[derive(Debug, Args)]
pub(crate) struct CompactOptions {
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    /// Make a new store in this folder, which is empty or not there, and leave the former one as it is
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SalvageOptions {
    /// The damaged store's folder
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,
    /// The new store's folder, which is empty or not there
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreOptions {
    /// The service's folder [default: $STATE_DIRECTORY, else ~/.local/state/campanile/2809]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

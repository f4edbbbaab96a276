//! What an operator configures: channels, and everything at once.

use super::{ChannelArg, ServerOptions};
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const TOPOLOGY_EXAMPLES: &str = "\
Examples:
  campanile topology export > plant.json
  campanile topology diff plant.json
  campanile topology diff plant.json new.json
  campanile topology apply plant.json

What clients and files have configured: channels, admins and proxies with their
settings, event types, filters and clients, and the naming service. Restored in
a service that has just begun, every object has the reference that it had.
Only for Campanile.";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  campanile topology export
  campanile topology export plant.json
  campanile topology export | jq '.channels[].proxies | length'

One JSON object, in the same order every time. A service exports at most
16,384 admins, proxies, filters and names together.
Exit status: 0 done; 1 not; 2 wrong usage.";

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  campanile topology diff plant.json             against the local service
  campanile topology diff yesterday.json today.json
  campanile topology diff plant.json || echo something was changed

A line for each thing that came, went or is another.
Exit status: 0 nothing is different; 1 something is, or failed; 2 wrong usage.";

pub(super) const APPLY_EXAMPLES: &str = "\
Examples:
  campanile topology apply plant.json
  campanile topology export -s old:2809 | campanile topology apply -s new:2809 -

All of it or nothing, and only in a service that was not used since it began.
Clients that were connected are connected again, and called as ever.
Exit status: 0 done; 1 not; 2 wrong usage.";

pub(super) const CHANNEL_EXAMPLES: &str = "\
Examples:
  campanile channel ls
  campanile channel create Weather FullOutbox=Discard MaxEventsPerConsumer=1000
  campanile channel set Weather Timeout=5s MaxConsumers=100
  campanile channel rm Weather

A channel has a number, and it may have a name; commands take either.

Properties are those of docs/qos.md; `campanile info` shows what is in effect.";

pub(super) const CREATE_EXAMPLES: &str = "\
Examples:
  campanile channel create
  campanile channel create Weather HistoryEvents=100000
  campanile channel create FullOutbox=Reject MemoryBudget=64000000
  campanile channel create OrderPolicy=3 Timeout=2s PushWindow=16

Prints the number of the channel. Values are as the property has them: whole
numbers, true and false, text; times with their unit (ms, s, min, h, d).
Exit status: 0 made; 1 not, with what is wrong; 2 wrong usage.";

pub(super) const CHANNEL_LS_EXAMPLES: &str = "\
Examples:
  campanile channel ls
  campanile channel ls --json | jq '.[] | select(.name == \"Weather\").id'

Only Campanile shows how many clients are connected. `campanile ls` shows them.
Exit status: 0 done; 1 not; 2 wrong usage.";

pub(super) const SET_EXAMPLES: &str = "\
Examples:
  campanile channel set 3 FullOutbox=Discard
  campanile channel set 0 MaxQueueLength=100000 RejectNewEvents=true

All of them or none.
Exit status: 0 set; 1 not, with what is wrong; 2 wrong usage.";

pub(super) const RM_EXAMPLES: &str = "\
Examples:
  campanile channel rm Weather
  campanile channel rm 3 4 5 --yes

Its clients are disconnected and notified; what waits for them is gone. Asks for
confirmation; without a terminal that needs --yes.
Exit status: 0 gone; 1 not; 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum TopologyCommand {
    /// Print everything that is configured
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportOptions),
    /// Tell what is different between two, or between one and the service
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffOptions),
    /// Have a service that has just begun make everything that there was
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Where to write it [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// What was
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// What is [default: what the service has]
    #[arg(value_name = "NOW")]
    pub(crate) now: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// What there is to be; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChannelCommand {
    /// List channels: numbers, names, and how many clients each has
    #[command(after_help = CHANNEL_LS_EXAMPLES)]
    Ls(ChannelLsOptions),
    /// Make a channel
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateOptions),
    /// Set properties of a channel
    #[command(after_help = SET_EXAMPLES)]
    Set(SetOptions),
    /// Destroy channels
    #[command(after_help = RM_EXAMPLES)]
    Rm(RmOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ChannelLsOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CreateOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Its name, if it is to have one, and its properties
    #[arg(value_name = "NAME|PROPERTY=VALUE")]
    pub(crate) properties: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SetOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The channel, by its number or name
    #[arg(value_name = "CHANNEL")]
    pub(crate) channel: ChannelArg,
    /// What to set
    #[arg(value_name = "PROPERTY=VALUE", required = true)]
    pub(crate) properties: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RmOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The channels, by their numbers or names
    #[arg(value_name = "CHANNEL", required = true)]
    pub(crate) channels: Vec<ChannelArg>,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

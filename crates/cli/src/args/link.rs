//! What an operator asks and does about links to other services.

use super::ServerOptions;
use clap::{Args, Subcommand};
use serde::Serialize;

pub(super) const LINK_EXAMPLES: &str = "\
Examples:
  campanile link ls
  campanile link pause lab
  campanile link resume lab
  campanile link add lab --to lab.obs:2816 --channel Weather
  campanile link rm lab

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

const ADD_EXAMPLES: &str = "\
Examples:
  campanile link add lab --to lab.obs:2816 --channel Weather
  campanile link add lab --to lab.obs:2817 --tls --channel Weather
  campanile link add town --to town.obs:2816 --channel Weather --direction out \\
      --types 'Weather/*' --where '$speed > 20'
  campanile link add old --carrier iiop --channel Weather \\
      --to corbaloc:iiop:old.obs:2809/NotifyEventChannelFactory

The link is dialled at once, and is there after a restart of a service with a
store. It has to be as valid as a [[link]] of the configuration.
Exit status: 0 added; 1 not; 2 wrong usage.";

const RM_EXAMPLES: &str = "\
Examples:
  campanile link rm lab
  campanile link rm lab --drop-backlog

Only of links that were added: one of the configuration goes with its [[link]].
A link for which events wait stays, unless they are dropped.
Exit status: 0 removed; 1 not, or there is no such link; 2 wrong usage.";

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
    /// Add a link to another service
    #[command(after_help = ADD_EXAMPLES)]
    Add(Box<LinkAddOptions>),
    /// Remove a link that was added
    #[command(after_help = RM_EXAMPLES)]
    Rm(LinkRmOptions),
}

#[derive(Debug, Args)]
pub(crate) struct LinkAddOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) link: NewLink,
}

/// A `[[link]]` as the configuration has it.
#[derive(Debug, Args, Serialize)]
pub(crate) struct NewLink {
    /// What the link is called here
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Where the other service accepts links: its links.listen, or tls.links_listen; with `--carrier iiop` a reference as well, with `zenoh` its
    /// name there
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// A channel to join with the one of the same name there; more than once for several
    #[arg(long = "channel", value_name = "CHANNEL", required = true)]
    channels: Vec<String>,
    /// Which way events cross
    #[arg(long, value_parser = ["both", "out", "in"], default_value = "both")]
    direction: String,
    /// Event types that cross, as DOMAIN/NAME, separated by commas; default: all
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// Constraint that events have to meet to cross
    #[arg(long = "where", value_name = "CONSTRAINT", default_value = "")]
    #[serde(rename = "where")]
    constraint: String,
    /// Octets of events that may wait for it in each channel; default: 16 GiB
    #[arg(long, value_name = "OCTETS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog_bytes_max: Option<u64>,
    /// What happens when there is no room for events that wait
    #[arg(long, value_parser = ["drop", "refuse"], default_value = "drop")]
    when_full: String,
    /// Connect over TLS, with the certificates of [tls]
    #[arg(long)]
    tls: bool,
    /// What carries the events: a connection, datagrams, calls of a CORBA notification service, or Zenoh
    #[arg(long, value_parser = ["tcp", "udp", "multicast", "iiop", "zenoh"], default_value = "tcp")]
    carrier: String,
    /// With `--carrier multicast`: the group, which links may share
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// With `--carrier iiop`: number, name or reference of each channel there, in the order of `--channel`
    #[arg(long = "far-channel", value_name = "CHANNEL")]
    far_channels: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LinkRmOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The link, by its name in `campanile link ls`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Drop the events that wait for it
    #[arg(long)]
    pub(crate) drop_backlog: bool,
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

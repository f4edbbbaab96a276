//! Options of `campanile hz`, `bw`, `types` and `latency`.

use super::history::Selection;
use super::{ChannelArg, ServerOptions, rate, seconds};
use clap::Args;
use std::time::Duration;

pub(super) const HZ_EXAMPLES: &str = "\
Examples:
  campanile hz
  campanile hz --type Weather/Wind --interval 10 --json
  campanile hz --where '$speed > 10' -n 3

Every interval: events a second, the shortest, mean and longest time between two
of them, and their standard deviation. Events are received as `sub` receives
them. Exit status: 0 events came; 1 none did; 2 wrong usage.";

pub(super) const BW_EXAMPLES: &str = "\
Examples:
  campanile bw
  campanile bw --type Camera/'*' --interval 10

Every interval: octets of events a second, and the smallest, mean and largest
event, as they are marshalled. Exit status: 0 events came; 1 none did; 2 wrong
usage.";

pub(super) const TYPES_EXAMPLES: &str = "\
Examples:
  campanile types
  campanile types --seconds 10 --type Weather/'*'
  campanile types --json | jq -r '.types[] | select(.events > 0) | .type'
  campanile types --idl > seen.idl

Which event types suppliers offer and consumers subscribe to, and those of the
events that come meanwhile, with their fields. On a terminal, or with --idl, also
the IDL of what events carry: the body, and structs in fields. In a pipe each type
is a line: type, events, \"offered\" and \"subscribed\".
Exit status: 0 there are types; 1 there are none; 2 wrong usage.";

pub(super) const LATENCY_EXAMPLES: &str = "\
Examples:
  campanile latency
  campanile latency --channel 3 -n 10000 --rate 1000 --size 8192
  campanile latency --json | jq .delivery.p99_us

Publishes probes of type Campanile/Probe to the channel as it is, with its quality
of service and whatever else goes through it, and receives them here, so that one
clock tells both ends: how long until each was delivered, and until its push was
answered. Other consumers of all types get the probes, too.
`campanile bench latency` puts load on a channel of its own instead.
Exit status: 0 all probes came; 1 not all; 2 wrong usage.";

#[derive(Debug, Args)]
pub(crate) struct GaugeOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Seconds over which is counted
    #[arg(long, short = 'i', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// End after so many intervals
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Print one JSON object for each interval
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TypesOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Seconds to look at events for
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Print the IDL of what events carry also where the output is not a terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) idl: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LatencyOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The channel [default: the default channel]
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// Number of probes
    #[arg(long, short = 'n', value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) count: u32,
    /// Probes per second; the next leaves when the push before has returned, whatever is asked for
    #[arg(long, value_name = "HZ", default_value = "100", value_parser = rate)]
    pub(crate) rate: f64,
    /// Octets of a probe's body
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub(crate) size: u32,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

//! What an operator can ask: numbers, and that clients be disconnected.

use super::{ChannelArg, ServerOptions, seconds};
use clap::Args;
use std::time::Duration;

pub(super) const STATS_EXAMPLES: &str = "\
Examples:
  campanile stats                        every counter, one a line
  campanile stats dropped refused        those with one of these words in their name
  campanile stats --nonzero --long       what has happened, and what each means
  campanile stats --interval 5 lane_     with rates, every five seconds
  campanile stats --json | jq .lane_dropped

docs/operating-reference.md says at which limit each is counted. In a pipe each
line is NAME VALUE, with --interval NAME VALUE RATE (a second), and an empty
line behind each round; --json gives one object, with --interval one a line. On
a terminal q or Ctrl-C ends it. Only for Campanile.
Exit status: 0 done; 1 no such counter, or the service failed; 2 wrong usage.";

pub(super) const DISCONNECT_EXAMPLES: &str = "\
Examples:
  campanile ls                              shows the proxies with their clients
  campanile disconnect 12                   the client at proxy 12 of channel 0
  campanile disconnect -c 3 12 13           those at two proxies of channel 3
  campanile disconnect --client 10.0.0.7    all that come from there, or are there
  campanile disconnect --idle-for 7d --dry-run

A client that gave a reference is notified; its proxy is gone, and what waited
for it. --idle-for concerns suppliers of which it cannot be found out whether they
still exist: they push, gave no reference (or one that was never reached), and nothing came from them for so long. Several conditions
must all be true. What is not named by its number is shown first, and asked
about; without a terminal that needs --yes. Only for Campanile.
Exit status: 0 disconnected, or no client found; 1 not; 2 wrong usage.";

pub(super) const CONSUMERS_EXAMPLES: &str = "\
Examples:
  campanile consumers
  campanile consumers Weather
  campanile consumers --json | jq '.[] | select(.backlog_events > 1000).name'

The largest backlog first. `campanile top` shows rates as well. Only for
Campanile.
Exit status: 0 done; 1 not; 2 wrong usage.";

pub(super) const PING_EXAMPLES: &str = "\
Examples:
  campanile ping
  campanile ping -s events.example.org -n 100

Each answer is one of the service's, over one connection that is open already:
events do not take part (`campanile latency` has them do so).
Exit status: 0 answered; 1 not; 2 wrong usage.";

#[derive(Debug, Args)]
pub(crate) struct ConsumersOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Only those of this channel
    #[arg(value_name = "CHANNEL", allow_negative_numbers = true)]
    pub(crate) channel: Option<ChannelArg>,
    /// Consumers shown at most
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, conflicts_with = "json")]
    pub(crate) rows: usize,
    /// Print one JSON array, with all of them
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PingOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// How often to ask
    #[arg(long, short = 'n', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatsOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Only counters with one of these in their names
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Leave out those that are 0
    #[arg(long, short = 'z')]
    pub(crate) nonzero: bool,
    /// Say what each counts
    #[arg(long, short = 'l', conflicts_with = "json")]
    pub(crate) long: bool,
    /// Read them again and again, so many seconds apart, and show the rates
    #[arg(long, short = 'i', value_name = "SECONDS", value_parser = seconds)]
    pub(crate) interval: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true).multiple(true).args(["proxies", "client", "idle_for"]))]
pub(crate) struct DisconnectOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Proxies, by their numbers in `campanile ls`
    #[arg(value_name = "PROXY", conflicts_with_all = ["client", "idle_for"])]
    pub(crate) proxies: Vec<u32>,
    /// The channel [default: of proxies channel 0, else all]
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// All clients of this address, as `campanile ls` shows it
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) client: Option<String>,
    /// Suppliers not heard of for so long, such as 90s, 15min, 12h or 7d, that cannot be asked whether they exist
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) idle_for: Option<Duration>,
    /// Only show whom it would be
    #[arg(long, short = 'n', conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// A time with its unit.
fn span(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.strip_prefix(number) {
        Some("ms") => 0.001,
        Some("s") => 1.0,
        Some("m" | "min") => 60.0,
        Some("h") => 3_600.0,
        Some("d") => 86_400.0,
        Some("w") => 604_800.0,
        _ => f64::NAN,
    };
    let time = number.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * unit).ok());
    time.filter(|time| time.as_secs() <= 1_000_000_000)
        .ok_or_else(|| "expected a number with its unit, ms, s, min, h or d: 90s, 12h, 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        let seconds = |text| span(text).map(|time| time.as_secs_f64()).ok();
        assert_eq!(
            ["250ms", "90s", "1.5min", "2m", "12h", "7d", "1w", "0s"].map(seconds),
            [0.25, 90.0, 90.0, 120.0, 43_200.0, 604_800.0, 604_800.0, 0.0].map(Some)
        );
        for text in ["", "7", "d", "-1s", "7 days", "1e30d", "NaNs"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}

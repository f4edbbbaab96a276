//! Options of commands that begin in a channel's history, or keep it in a file.

use super::{ChannelArg, EventTypeArg, ServerOptions, event_type, seconds};
use crate::moment;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const RECORD_EXAMPLES: &str = "\
Examples:
  campanile record night.events
  campanile record night.events --first --wait 60
  campanile record alarms.events --type '*'/Alarm --since 2h -n 1000
  campanile record - | jq -r '[.came, .type, .fields.celsius] | @tsv'

Each event is one line of JSON as `sub --json` prints it, with its number and the
time when it came to the service where that says so, and with all of it in `cdr`:
`campanile replay` publishes just that. A file that is there is not written over;
--append adds to it.
Exit status: 0 after -n events, or when stopped without -n; 1 if fewer than -n
came, or the service failed; 2 wrong usage.";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  campanile replay night.events
  campanile replay night.events --speed 10 --channel 3
  zcat night.events.gz | campanile replay - --speed max
  campanile replay 3 --last 1000 --channel 4

Publishes what `campanile record` has written, or a channel's history, at the pace at
which it came: --speed 2 in half of the time, --speed max at once. StartTime and
StopTime are left out, since they are over, and so are the number and the time that
the service gave the event. A channel is one that stores its history (QoS
HistoryEvents, HistoryAge or HistoryBytes), and what is replayed ends with what it
had at the beginning.
Exit status: 0 all were published; 1 not all, or not all could be read; 2 wrong
usage.";

/// Where in a channel's history to begin.
#[derive(Debug, Clone, Args, Default)]
#[group(multiple = false)]
pub(crate) struct HistoryOptions {
    /// Begin with the oldest event that the channel stores
    #[arg(long)]
    pub(crate) first: bool,
    /// Begin with the last N events
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<u64>,
    /// Begin with what came since: 90s, 10m, 2h, 3d ago, or 2026-11-24T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<String>,
    /// Begin with the event of this number
    #[arg(long, value_name = "NUMBER")]
    pub(crate) from: Option<u64>,
    /// Begin with the last event of each value of this field of the filterable data
    #[arg(long, value_name = "FIELD", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) last_of_each: Option<String>,
    /// Begin with the last event of each event type
    #[arg(long)]
    pub(crate) last_of_each_type: bool,
}

impl HistoryOptions {
    /// The value of the property `StartFrom`, if anything is said.
    pub(crate) fn start_from(&self) -> Option<String> {
        let Self { first, last, since, from, last_of_each, last_of_each_type } = self;
        let simple = match (first, last_of_each_type) {
            (true, _) => Some("first".to_owned()),
            (_, true) => Some("last-of-each-type".to_owned()),
            _ => None,
        };
        simple
            .or_else(|| last.map(|last| format!("last:{last}")))
            .or_else(|| since.clone())
            .or_else(|| from.map(|from| format!("number:{from}")))
            .or_else(|| last_of_each.as_ref().map(|field| format!("last-of-each:{field}")))
    }
}

/// Which events of which channel are received.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// The channel [default: the default channel]
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// Event types to receive, with * as a pattern; may be given several times [default: all]
    #[arg(long = "type", short = 't', value_name = "DOMAIN/NAME", value_parser = event_type)]
    pub(crate) types: Vec<EventTypeArg>,
    /// A condition that the service applies, so that other events do not travel
    #[arg(long = "where", short = 'w', value_name = "CONSTRAINT")]
    pub(crate) constraint: Option<String>,
    #[command(flatten)]
    pub(crate) history: HistoryOptions,
}

/// When to end, if not by a signal.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Until {
    /// End after so many events
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// The file to write; - is standard output
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Add to the file if it is there
    #[arg(long)]
    pub(crate) append: bool,
    #[command(flatten)]
    pub(crate) until: Until,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// What to replay: a file that `campanile record` has written, - for standard input, or a channel
    #[arg(value_name = "FILE|CHANNEL")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The channel to publish to [default: the default channel]
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// How many times faster than it came; "max" for as fast as the service takes it
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub(crate) speed: Speed,
    #[command(flatten)]
    pub(crate) history: HistoryOptions,
}

/// How fast to replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    Times(f64),
    Max,
}

pub(super) fn speed(text: &str) -> Result<Speed, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(Speed::Max),
        Ok(value) if (1e-3..=1e6).contains(&value) => Ok(Speed::Times(value)),
        _ => Err("expected a number from 0.001 to 1000000, or max".to_owned()),
    }
}

/// `10m` or `2026-11-24T10:00:00Z` as `StartFrom` has it.
fn since(text: &str) -> Result<String, String> {
    const UNITS: [&str; 7] = ["d", "h", "m", "s", "ms", "us", "ns"];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if !number.is_empty() && number.len() < 10 && UNITS.contains(&unit) {
        return Ok(format!("since:{text}"));
    }
    match moment::ticks(text) {
        Some(ticks) => Ok(format!("time:{ticks}")),
        None => Err("expected a time such as 90s, 10m, 2h, 3d, or 2026-11-24T10:00:00Z".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ago_or_by_the_calendar() {
        assert_eq!(since("10m").as_deref(), Ok("since:10m"));
        assert_eq!(since("1970-01-01T00:00:01Z").as_deref(), Ok("time:122192928010000000"));
        for wrong in ["", "m", "10", "10 m", "1.5h", "yesterday", "9999999999999d", "2026-13-01T00:00:00Z"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn speeds_are_factors() {
        assert_eq!((speed("2.5"), speed("max")), (Ok(Speed::Times(2.5)), Ok(Speed::Max)));
        assert!(["0", "-1", "NaN", "inf", "fast", ""].iter().all(|wrong| speed(wrong).is_err()));
    }
}

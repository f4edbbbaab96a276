//! `campanile stats`: the service's counters.

use crate::args::StatsOptions;
use crate::failure::Failure;
use crate::signals::Waiter;
use crate::statistics::Statistics;
use crate::terminal::{self, Keys};
use crate::{json, show};
use client::InvokeError;
use service::Counter;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::Instant;

/// Counters at one moment.
struct Reading {
    taken: Instant,
    counters: Vec<(String, u64)>,
}

impl Reading {
    fn take(statistics: &Statistics, options: &StatsOptions) -> Result<Self, InvokeError> {
        let is_asked_for =
            |name: &str| options.names.is_empty() || options.names.iter().any(|part| name.contains(part));
        let mut counters = statistics.counters()?;
        counters.retain(|(name, _)| is_asked_for(name));
        Ok(Self { taken: Instant::now(), counters })
    }
}

/// Prints the counters once, or repeatedly.
pub(crate) fn run(options: &StatsOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(|error| Failure::message(format!("cannot wait for signals: {error}")))?;
    let statistics = Statistics::find(&options.server).map_err(|error| Failure::remote(&error, &options.server))?;
    let take = || Reading::take(&statistics, options).map_err(|error| statistics.failure(&error, &options.server));
    let mut before = take()?;
    if before.counters.is_empty() {
        return Err(Failure::message(format!(
            "no counter has {} in its name; `campanile stats` shows all",
            options.names.join(" or ")
        )));
    }
    let mut stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    let Some(interval) = options.interval else {
        return Ok(stdout.write_all(describe(None, &before, options, is_terminal).as_bytes())?);
    };
    let is_live = is_terminal && !options.json;
    let _keys = is_live.then(|| Keys::take(waiter.sender())).flatten();
    loop {
        if waiter.wait(Some(interval)).is_some() {
            return Ok(());
        }
        let now = take()?;
        let text = describe(Some(&before), &now, options, is_terminal);
        if is_live {
            terminal::show(&text)?;
        } else {
            stdout.write_all(text.as_bytes())?;
            stdout.flush()?;
        }
        before = now;
    }
}

/// Text of a reading, with rates if there is an earlier one.
fn describe(before: Option<&Reading>, now: &Reading, options: &StatsOptions, is_terminal: bool) -> String {
    let rates = before.map(|before| Rates::new(before, now));
    let rate = |name: &str, value| rates.as_ref().and_then(|rates| rates.of(name, value));
    let shown: Vec<&(String, u64)> = now.counters.iter().filter(|(_, value)| !options.nonzero || *value > 0).collect();
    let mut text = String::new();
    if options.json {
        let counters = json::Map(shown.iter().copied().cloned().collect());
        match &rates {
            None => text = serde_json::to_string(&counters).unwrap_or_default(),
            Some(rates) => {
                let of =
                    |(name, value): &&(String, u64)| Some((name.clone(), json::Fixed::<3>(rates.of(name, *value)?)));
                json::Object::new(&mut text)
                    .member("seconds", json::Fixed::<6>(rates.seconds))
                    .member("counters", counters)
                    .member("per_second", json::Map(shown.iter().filter_map(of).collect()))
                    .end();
            }
        }
        return text + "\n";
    }
    let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in shown {
        let name = show::clean(name);
        let rate = rates.as_ref().map(|_| rate(&name, *value).map_or_else(|| "-".to_owned(), show::rate));
        let _ = match (is_terminal, &rate) {
            (true, None) => write!(text, "{name:width$}  {:>18}", show::count(value)),
            (true, Some(rate)) => write!(text, "{name:width$}  {:>18}  {rate:>12}/s", show::count(value)),
            (false, None) => write!(text, "{name} {value}"),
            (false, Some(rate)) => write!(text, "{name} {value} {}", rate.replace(',', "")),
        };
        if let Some(meaning) = Some(&name).filter(|_| options.long).and_then(|name| meaning(name)) {
            let _ = write!(text, "  {meaning}");
        }
        text.push('\n');
    }
    if before.is_some() && !is_terminal {
        text.push('\n');
    }
    text
}

/// Meaning of a counter, if this version of the program knows it.
fn meaning(name: &str) -> Option<String> {
    let counter = Counter::named(name)?;
    let help = counter.help().split_whitespace().collect::<Vec<_>>().join(" ");
    Some(if counter.name() == name { help } else { format!("Deprecated name of {}. {help}", counter.name()) })
}

struct Rates<'r> {
    before: HashMap<&'r str, u64>,
    seconds: f64,
}

impl<'r> Rates<'r> {
    fn new(before: &'r Reading, now: &Reading) -> Self {
        let seconds = now.taken.duration_since(before.taken).as_secs_f64();
        Self { before: before.counters.iter().map(|(name, value)| (name.as_str(), *value)).collect(), seconds }
    }

    /// Increase per second. `None` for a maximum, or after a decrease.
    fn of(&self, name: &str, value: u64) -> Option<f64> {
        let is_maximum = name.ends_with("_max") || name.ends_with("_max_ns");
        let added = value.checked_sub(*self.before.get(name)?).filter(|_| !is_maximum && self.seconds > 0.0)?;
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let added = added as f64;
        Some(added / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::time::Duration;

    fn options(line: &str) -> StatsOptions {
        let line = format!("campanile stats {line}");
        let Command::Stats(options) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else { panic!() };
        options
    }

    fn readings() -> [Reading; 2] {
        let taken = Instant::now();
        let reading = |after, counters: [(&str, u64); 4]| Reading {
            taken: taken + Duration::from_secs(after),
            counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        };
        [
            reading(
                0,
                [("lane_events_in", 1_000), ("lane_dropped", 0), ("lane_cycle_max_ns", 1), ("connections_open", 9)],
            ),
            reading(
                2,
                [("lane_events_in", 4_000), ("lane_dropped", 0), ("lane_cycle_max_ns", 7), ("connections_open", 2)],
            ),
        ]
    }

    #[test]
    fn pipe_gets_names_values_and_rates() {
        let [before, now] = &readings();
        assert_eq!(
            describe(None, now, &options(""), false),
            "lane_events_in 4000\nlane_dropped 0\nlane_cycle_max_ns 7\nconnections_open 2\n"
        );
        assert_eq!(
            describe(Some(before), now, &options("--nonzero"), false),
            "lane_events_in 4000 1500\nlane_cycle_max_ns 7 -\nconnections_open 2 -\n\n"
        );
    }

    #[test]
    fn people_get_columns_and_meanings() {
        let [before, now] = &readings();
        let text = describe(Some(before), now, &options("--long"), true);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "lane_events_in                  4,000         1,500/s  Events of suppliers and timers that the service took."
        );
    }

    #[test]
    fn json_is_an_object() {
        let [before, now] = &readings();
        let told: serde_json::Value = serde_json::from_str(&describe(None, now, &options("--json"), false)).unwrap();
        assert_eq!(told["lane_events_in"], 4000);
        let told = describe(Some(before), now, &options("--json"), false);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["counters"]["lane_events_in"], &told["seconds"]), (&4000.into(), &2.0.into()));
        assert_eq!(told["per_second"]["lane_events_in"], 1500.0);
        assert!(told["per_second"]["lane_cycle_max_ns"].is_null());
    }
}

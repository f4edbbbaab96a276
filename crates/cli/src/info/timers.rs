//! Timers of channels, as Campanile's object `Statistics` reports them.

use crate::show::{self, clean};
use crate::statistics::Statistics;
use client::Unmarshal;
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Timer {
    #[serde(skip)]
    pub(crate) channel: u32,
    #[serde(skip)]
    place: u32,
    name: String,
    /// `every`, `after` or `silence`.
    kind: String,
    time_ns: u64,
    /// Time until it fires next; `None` if it does not as things are.
    next_ns: Option<u64>,
    fired: u64,
    missed: u64,
    dropped: u64,
}

impl Unmarshal for Timer {
    const BYTES_MIN: usize = 64;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        let (channel, place, name, kind) = (reader.u32()?, reader.u32()?, reader.text()?, reader.text()?);
        let is_pending = reader.bool()?;
        let (time_ns, next_ns) = (reader.u64()?, reader.u64()?);
        let (fired, missed, dropped) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let next_ns = is_pending.then_some(next_ns);
        Ok(Self { channel, place, name, kind, time_ns, next_ns, fired, missed, dropped })
    }
}

impl Timer {
    /// Timers of all channels; empty if the service does not report them.
    pub(crate) fn read(statistics: &Statistics) -> Vec<Self> {
        let mut timers: Vec<Self> = Vec::new();
        let _ = statistics.read_parts("get_timers", None, |timer| (timer.channel, timer.place), &mut timers);
        timers
    }

    /// Timers of a channel; empty if the service does not report them.
    pub(crate) fn of_channel(statistics: &Statistics, channel: u32) -> Vec<Self> {
        statistics.object.request("get_timers_of", &channel).unwrap_or_default()
    }

    /// Writes the timer for people.
    pub(super) fn write(&self, out: &mut String) {
        let Self { name, kind, time_ns, next_ns, fired, missed, dropped, .. } = self;
        let time = |nanos: u64| show::short_time(Duration::from_nanos(nanos));
        let next = match (next_ns, kind.as_str()) {
            (Some(next), "silence") => format!("next in {} unless an event comes", time(*next)),
            (Some(next), _) => format!("next in {}", time(*next)),
            (None, "silence") => "waits for an event".to_owned(),
            (None, _) => "fires no more".to_owned(),
        };
        let _ =
            write!(out, "  timer {}  {kind} {}; {next}; {} fired", clean(name), time(*time_ns), show::count(*fired));
        for (count, what) in [(*missed, "missed"), (*dropped, "dropped")] {
            if count > 0 {
                let _ = write!(out, ", {} {what}", show::count(count));
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_shown_with_when_it_fires_next_and_how_often_it_has() {
        let tick = Timer {
            channel: 3,
            place: 0,
            name: "tick".into(),
            kind: "every".into(),
            time_ns: 100_000_000,
            next_ns: Some(42_000_000),
            fired: 1_234,
            missed: 0,
            dropped: 0,
        };
        let written = |timer: &Timer| {
            let mut out = String::new();
            timer.write(&mut out);
            out
        };
        assert_eq!(written(&tick), "  timer tick  every 100 ms; next in 42.0 ms; 1,234 fired\n");
        let late = Timer { missed: 3, dropped: 2, ..tick.clone() };
        assert_eq!(written(&late), "  timer tick  every 100 ms; next in 42.0 ms; 1,234 fired, 3 missed, 2 dropped\n");
        let once = Timer { kind: "after".into(), next_ns: None, fired: 1, ..tick.clone() };
        assert_eq!(written(&once), "  timer tick  after 100 ms; fires no more; 1 fired\n");
        let quiet = Timer { kind: "silence".into(), fired: 0, ..tick.clone() };
        assert_eq!(written(&quiet), "  timer tick  silence 100 ms; next in 42.0 ms unless an event comes; 0 fired\n");
        let quiet = Timer { next_ns: None, ..quiet };
        assert_eq!(written(&quiet), "  timer tick  silence 100 ms; waits for an event; 0 fired\n");
        let json = serde_json::to_value(tick).unwrap();
        let expected = serde_json::json!({
            "name": "tick", "kind": "every", "time_ns": 100_000_000, "next_ns": 42_000_000, "fired": 1234, "missed": 0, "dropped": 0,
        });
        assert_eq!(json, expected);
    }
}

//! Stored history of a channel, as Campanile's object `Statistics` tells it.

use crate::{moment, show};
use client::{ObjectRef, Orb};
use giop::cdr::{ReadError, Reader};
use std::fmt::Write as _;

/// Octets of a `HistoryStatistic` at least.
const HISTORY_BYTES_MIN: usize = 52;

/// What is kept. Times are in 100 ns since 15 October 1582.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct History {
    /// The first event that a consumer can begin with, and the last.
    pub(super) first: Event,
    pub(super) last: Event,
    /// From the one to the other. 0 if all that is on disk is older than is to be kept.
    pub(super) events: u64,
    pub(super) octets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) number: u64,
    pub(super) came: u64,
}

impl History {
    /// That of a channel of the service at an address; nothing if it keeps none, or does not tell.
    pub(super) fn read(orb: &Orb, address: &str, channel: u32) -> Option<Self> {
        let statistics: ObjectRef = orb.resolve(&format!("corbaloc::{address}/Statistics")).ok()?;
        let answer = statistics.invoke("get_history", |writer| writer.u32(channel)).ok()?;
        answer
            .read("get_history", |reader| {
                let count = reader.seq_len(HISTORY_BYTES_MIN)?;
                (0..count).map(|_| Self::read_one(reader)).collect::<Result<Vec<_>, ReadError>>()
            })
            .ok()?
            .pop()
    }

    fn read_one(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        reader.u32()?;
        let mut event = || Ok(Event { number: reader.u64()?, came: reader.u64()? });
        let (first, last) = (event()?, event()?);
        Ok(Self { first, last, events: reader.u64()?, octets: reader.u64()? })
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let Self { first, last, events, octets } = self;
        let octets = show::bytes(*octets);
        match events {
            0 => format!("no events; {octets} on disk of some that are too old"),
            1 => format!("1 event, {} of {}; {octets} on disk", first.number, moment::of_ticks(first.came)),
            _ => format!(
                "{} events, {} of {} to {} of {}; {octets} on disk",
                show::count(events),
                first.number,
                moment::of_ticks(first.came),
                last.number,
                moment::of_ticks(last.came)
            ),
        }
    }

    /// As a JSON object.
    pub(super) fn write_json(&self, out: &mut String) {
        let Self { first, last, events, octets } = self;
        let _ = write!(out, "{{\"events\":{events},\"octets\":{octets}");
        for (key, event) in [("first", first), ("last", last)] {
            let _ = match events {
                0 => write!(out, ",\"{key}\":null"),
                _ => write!(
                    out,
                    ",\"{key}\":{{\"number\":{},\"time\":\"{}\"}}",
                    event.number,
                    moment::of_ticks(event.came)
                ),
            };
        }
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl History {
        /// One with these numbers, of the same second.
        pub(in crate::info) fn of(first: u64, last: u64) -> Self {
            let [first, last] =
                [first, last].map(|number| Event { number, came: moment::ticks("2026-11-20T21:43:05Z").unwrap() });
            Self { first, last, events: last.number + 1 - first.number, octets: 65_536 }
        }
    }

    #[test]
    fn what_is_kept_is_reported_with_its_ends_or_without_if_all_is_too_old() {
        let event = |number, came: &str| Event { number, came: moment::ticks(came).unwrap() };
        let first = event(41, "2026-11-20T21:43:05Z");
        let history = History { first, last: event(1_040, "2026-11-20T21:44:00.5Z"), events: 1_000, octets: 65_536 };
        let told = "1,000 events, 41 of 2026-11-20T21:43:05.000Z to 1040 of 2026-11-20T21:44:00.500Z; 65.5 kB on disk";
        assert_eq!(history.describe(), told);
        let one = History { last: first, events: 1, ..history };
        assert_eq!(one.describe(), "1 event, 41 of 2026-11-20T21:43:05.000Z; 65.5 kB on disk");
        let none = History { events: 0, ..history };
        assert_eq!(none.describe(), "no events; 65.5 kB on disk of some that are too old");
        let mut json = String::new();
        none.write_json(&mut json);
        assert_eq!(json, "{\"events\":0,\"octets\":65536,\"first\":null,\"last\":null}");
    }
}

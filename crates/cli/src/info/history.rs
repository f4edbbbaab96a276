//! Stored history of a channel, as Campanile's object `Statistics` reports it.

use crate::statistics::Statistics;
use crate::{moment, show};
use client::Unmarshal;
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use serde::{Serialize, Serializer};

/// Extent of a channel's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct History {
    /// Number of events from the first to the last. 0 if all events on disk are older than the limits allow.
    pub(super) events: u64,
    pub(super) octets: u64,
    /// The first event that a consumer can begin with, and the last; `None` without events.
    pub(super) first: Option<Event>,
    pub(super) last: Option<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) number: u64,
    /// Arrival, in 100 ns since 15 October 1582.
    pub(super) came: u64,
}

impl Serialize for Event {
    /// Serializes the arrival as `came`, and as `time` for readers of former versions.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (number, came) = (self.number, moment::of_ticks(self.came));
        serde_json::json!({ "number": number, "came": came, "time": came }).serialize(serializer)
    }
}

impl Unmarshal for History {
    const BYTES_MIN: usize = 52;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        reader.u32()?;
        let mut event = || Ok(Event { number: reader.u64()?, came: reader.u64()? });
        let (first, last) = (event()?, event()?);
        let (events, octets) = (reader.u64()?, reader.u64()?);
        let if_any = |event| (events > 0).then_some(event);
        Ok(Self { events, octets, first: if_any(first), last: if_any(last) })
    }
}

impl History {
    /// History of a channel; `None` if there is none, or the service does not report it.
    pub(super) fn read(statistics: &Statistics, channel: u32) -> Option<Self> {
        statistics.object.request::<Vec<Self>>("get_history", &channel).ok()?.pop()
    }

    /// The history as text for people.
    pub(super) fn describe(&self) -> String {
        let Self { first, last, events, octets } = self;
        let octets = show::bytes(*octets);
        let (Some(first), Some(last)) = (first, last) else {
            return format!("no events; {octets} on disk of some that are too old");
        };
        let (from, to) = (moment::of_ticks(first.came), moment::of_ticks(last.came));
        match events {
            1 => format!("1 event, {} of {from}; {octets} on disk", first.number),
            _ => format!(
                "{} events, {} of {from} to {} of {to}; {octets} on disk",
                show::count(events),
                first.number,
                last.number
            ),
        }
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
            Self { events: last.number + 1 - first.number, octets: 65_536, first: Some(first), last: Some(last) }
        }
    }

    #[test]
    fn what_is_kept_is_reported_with_its_ends_or_without_if_all_is_too_old() {
        let event = |number, came: &str| Event { number, came: moment::ticks(came).unwrap() };
        let first = Some(event(41, "2026-11-20T21:43:05Z"));
        let last = Some(event(1_040, "2026-11-20T21:44:00.5Z"));
        let history = History { first, last, events: 1_000, octets: 65_536 };
        let told = "1,000 events, 41 of 2026-11-20T21:43:05.000Z to 1040 of 2026-11-20T21:44:00.500Z; 65.5 kB on disk";
        assert_eq!(history.describe(), told);
        let one = History { last: first, events: 1, ..history };
        assert_eq!(one.describe(), "1 event, 41 of 2026-11-20T21:43:05.000Z; 65.5 kB on disk");
        let json = serde_json::to_value(first).unwrap();
        let came = "2026-11-20T21:43:05.000Z";
        assert_eq!(json, serde_json::json!({ "number": 41, "came": came, "time": came }));
        let none = History { events: 0, first: None, last: None, ..history };
        assert_eq!(none.describe(), "no events; 65.5 kB on disk of some that are too old");
        let json = serde_json::to_string(&none).unwrap();
        assert_eq!(json, "{\"events\":0,\"octets\":65536,\"first\":null,\"last\":null}");
    }
}

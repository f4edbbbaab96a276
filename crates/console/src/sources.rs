//! The last hour's events of suppliers and event types: a point for each half minute.

use core::mem::size_of;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use engine::ProxyKey;

use crate::figures::{COARSE, ENTRY_BYTES, code, number, points, put};

/// Maximum memory, names included, in octets: enough for some 1,400 of them.
pub(crate) const SOURCES_BYTES_MAX: usize = 320_000;
const UNKNOWN: u8 = u8::MAX;

/// A source of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Supplier(ProxyKey),
    /// An event type as `DOMAIN/NAME`, or `NAME` without a domain.
    Type(Box<str>),
}

impl Source {
    fn bytes(&self) -> usize {
        let name = if let Self::Type(name) = self { name.len() } else { 0 };
        ENTRY_BYTES + size_of::<Self>() + size_of::<Hour>() + name
    }
}

struct Hour {
    /// The half minute of the last reading, and the total events then.
    noted: u32,
    total: u64,
    points: [u8; COARSE],
}

/// The last hour of all sources.
#[derive(Default)]
pub(crate) struct Sources {
    hours: BTreeMap<Source, Box<Hour>>,
    bytes: usize,
    noted: Option<u32>,
    left_out: usize,
}

impl Sources {
    /// Notes the total events of all current sources; others are forgotten.
    pub(crate) fn note(&mut self, half: u32, totals: impl Iterator<Item = (Source, u64)>) {
        // What came before one was known is of this half minute, unless there was no room for it before.
        let are_new = self.left_out == 0;
        (self.noted, self.left_out) = (Some(half), 0);
        for (source, total) in totals {
            let bytes = source.bytes();
            let hour = match self.hours.entry(source) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(_) if self.bytes + bytes > SOURCES_BYTES_MAX => {
                    self.left_out += 1;
                    continue;
                }
                Entry::Vacant(place) => {
                    self.bytes += bytes;
                    let total = if are_new { 0 } else { total };
                    place.insert(Box::new(Hour { noted: half, total, points: [UNKNOWN; COARSE] }))
                }
            };
            let halves = half.saturating_sub(hour.noted).max(1);
            let grown = total.saturating_sub(hour.total) / u64::from(halves);
            put(&mut hour.points, hour.noted, half, UNKNOWN, code(grown));
            (hour.noted, hour.total) = (half, total);
        }
        let bytes = &mut self.bytes;
        self.hours.retain(|source, hour| {
            let stays = hour.noted == half;
            *bytes -= if stays { 0 } else { source.bytes() };
            stays
        });
    }

    /// The points: half minute, and events within it.
    pub(crate) fn points(&self, of: &Source) -> Option<Vec<(u32, Option<u64>)>> {
        let hour = self.hours.get(of)?;
        let known = points(&hour.points, hour.noted).skip_while(|(_, point)| *point == UNKNOWN);
        Some(known.map(|(half, point)| (half, (point != UNKNOWN).then(|| number(point)))).collect())
    }

    /// The half minute of the last reading.
    pub(crate) const fn noted(&self) -> Option<u32> {
        self.noted
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.hours.len()
    }

    /// Number of sources left out for want of room.
    pub(crate) const fn left_out(&self) -> usize {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, ProxyId};

    fn of_type(name: &str) -> Source {
        Source::Type(name.into())
    }

    fn supplier(proxy: u32) -> Source {
        Source::Supplier(ProxyKey { channel: ChannelId(0), proxy: ProxyId(proxy) })
    }

    fn events(sources: &Sources, of: &Source) -> Vec<Option<u64>> {
        sources.points(of).unwrap().into_iter().map(|(_, events)| events).collect()
    }

    #[test]
    fn each_half_minute_has_its_events_and_what_was_missed_is_a_gap() {
        let mut sources = Sources::default();
        sources.note(0, [(supplier(1), 5), (of_type("A/B"), 5)].into_iter());
        sources.note(1, [(supplier(1), 5), (of_type("A/B"), 12)].into_iter());
        // Nothing was answered for two half minutes.
        sources.note(4, [(of_type("A/B"), 18)].into_iter());
        assert_eq!(events(&sources, &of_type("A/B")), [Some(5), Some(7), None, None, Some(2)]);
        assert_eq!((sources.points(&supplier(1)), sources.len()), (None, 1), "what is gone is forgotten");
        // An hour on nothing of it is left.
        sources.note(4 + 300, [(of_type("A/B"), 18)].into_iter());
        assert_eq!(events(&sources, &of_type("A/B")), [Some(0)]);
    }

    #[test]
    fn very_many_and_long_names_take_no_more_than_there_is() {
        let mut sources = Sources::default();
        let long = "x".repeat(1_000);
        let all = || (0..20_000).map(|number| (of_type(&format!("{number}/{long}")), 7));
        sources.note(0, all());
        assert!(sources.bytes() <= SOURCES_BYTES_MAX && sources.len() > 200, "{}", sources.bytes());
        assert_eq!(sources.len() + sources.left_out(), 20_000);
        // What takes their place has room when they are forgotten.
        (1..3).for_each(|half| sources.note(half, (0..3).map(|number| (supplier(number), 0))));
        assert_eq!((sources.len(), sources.left_out(), sources.bytes()), (3, 0, 3 * supplier(0).bytes()));
    }
}

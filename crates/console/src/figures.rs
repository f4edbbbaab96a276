//! Figures of the last hour: of the service, of each channel, and of each consumer, so that a graph has data when first opened.
//!
//! A point covers [`STEP`]: an hour of them for the first [`CHANNELS_IN_FULL`] channels and for [`CONSUMERS_IN_FULL`] consumers, the
//! slowest and busiest. All others have a point for each half minute only. A point's numbers take an octet each ([`code`]): exact below 16,
//! within 1/16 above. The number of series bounds the memory; series beyond it are left out, and counted.

use core::cmp::Reverse;
use core::mem::size_of;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime};

use engine::{ChannelId, Latency, ProxyId};
use serde_json::{Map, Value, json};
use service::Counter;

use crate::metrics::is_behind;
use crate::shared::{Snapshot, read, unix_ms};
use crate::sources::{SOURCES_BYTES_MAX, Source, Sources};

/// Time covered by a point, and number of such points in an hour.
pub(crate) const STEP: Duration = Duration::from_secs(2);
const FINE: usize = 1_800;
/// Steps covered by a coarse point, and number of such points in an hour.
pub(crate) const COARSE_STEPS: u32 = 15;
pub(crate) const COARSE: usize = FINE / COARSE_STEPS as usize;
/// Maximum number of series, and of those with a point for each step.
const SERIES_MAX: usize = 11_000;
const CHANNELS_IN_FULL: usize = 1_000;
const CONSUMERS_IN_FULL: usize = 256;
/// Places among these that are reserved for the busiest consumers, however many are slow.
const BUSIEST: usize = CONSUMERS_IN_FULL / 2;
/// Maximum memory of all series, and memory of a series in map and allocator. Unit: octets.
pub(crate) const BYTES_MAX: usize = 16_000_000;
pub(crate) const ENTRY_BYTES: usize = 56;
const SERIES_BYTES: usize = size_of::<Series>() + ENTRY_BYTES;
const FINE_BYTES: usize = FINE * size_of::<Point>();
const WHOLE_BYTES: usize = FINE * size_of::<Whole>();
const _: () = assert!(
    SERIES_MAX * SERIES_BYTES + (CHANNELS_IN_FULL + CONSUMERS_IN_FULL) * FINE_BYTES + WHOLE_BYTES + SOURCES_BYTES_MAX
        <= BYTES_MAX,
    "an hour of figures has to fit"
);

/// A channel, or a consumer in it.
pub(crate) type Key = (ChannelId, Option<ProxyId>);

/// Events received, delivered and dropped during a point's time, and the backlog at its end.
type Point = [u8; 4];
const UNKNOWN: Point = [u8::MAX; 4];
const NAMES: [&str; 4] = ["events_in", "delivered", "dropped", "backlog_events"];

/// A point of the service: counts within a step by [`COUNTED`], then the backlog, and the 50th and 99th percentile of latency.
type Whole = [u64; 8];
const NOTHING: Whole = [u64::MAX; 8];
const COUNTED: [Counter; 5] =
    [Counter::EventsIn, Counter::Delivered, Counter::Dropped, Counter::EventsRefused, Counter::EventBytesIn];
const NAMES_OF_WHOLE: [&str; 8] = [
    "events_in",
    "delivered",
    "dropped",
    "events_refused",
    "event_bytes_in",
    "backlog_events",
    "p50_below_ns",
    "p99_below_ns",
];

/// A reading of a channel's or a consumer's counts.
struct Reading {
    key: Key,
    totals: [u64; 3],
    waits: u64,
    is_slow: bool,
}

struct Series {
    /// The step of the last reading, and its counts.
    noted: u32,
    totals: [u64; 3],
    /// Growth of the counts since the last coarse point, and the sum of that point's growth.
    grown: [u32; 3],
    lately: u32,
    coarse: [Point; COARSE],
    fine: Option<Box<[Point; FINE]>>,
}

/// The figures of the last hour.
pub(crate) struct Figures {
    began: Instant,
    began_at: SystemTime,
    noted: Option<u32>,
    whole: Vec<Whole>,
    counted: [u64; COUNTED.len()],
    latency: Latency,
    series: BTreeMap<Key, Box<Series>>,
    /// Number of channels, and of consumers, with a point for each step.
    in_full: [usize; 2],
    left_out: usize,
    sources: Sources,
}

/// Sets a ring's value for a time, and `unknown` for the times skipped before.
pub(crate) fn put<T: Copy>(ring: &mut [T], before: u32, now: u32, unknown: T, value: T) {
    let length = u32::try_from(ring.len()).unwrap_or(u32::MAX);
    let mut set = |at: u32, value| ring.get_mut((at % length) as usize).into_iter().for_each(|point| *point = value);
    ((before + 1).max(now.saturating_sub(length))..now).for_each(|at| set(at, unknown));
    set(now, value);
}

/// A ring's values with their times.
pub(crate) fn points<T: Copy>(ring: &[T], to: u32) -> impl Iterator<Item = (u32, T)> + '_ {
    let length = u32::try_from(ring.len()).unwrap_or(u32::MAX);
    ((to + 1).saturating_sub(length)..=to).filter_map(move |at| Some((at, *ring.get((at % length) as usize)?)))
}

/// Encodes a number in an octet: exact below 16, then rounded to steps of an eighth to a sixteenth, up to 2^33. 255 means none.
pub(crate) fn code(number: u64) -> u8 {
    let Some(power) = number.checked_ilog2().filter(|power| *power >= 4) else {
        return u8::try_from(number).unwrap_or(0);
    };
    let shift = power - 3;
    // Between 8 and 16, where 16 is 8 of the next power.
    let eighths = (number >> shift) + ((number >> (shift - 1)) & 1);
    u8::try_from(u64::from(power - 4) * 8 + eighths + 8).map_or(u8::MAX - 1, |code| code.min(u8::MAX - 1))
}

pub(crate) const fn number(code: u8) -> u64 {
    match code {
        0..16 => code as u64,
        _ => (8 + (code as u64 - 16) % 8) << (1 + (code - 16) / 8),
    }
}

fn point(grown: impl Iterator<Item = u64>, steps: u32, waits: u64) -> Point {
    let mut point = [0, 0, 0, code(waits)];
    let steps = u64::from(steps.max(1));
    point.iter_mut().zip(grown).for_each(|(octet, grown)| *octet = code((grown + steps / 2) / steps));
    point
}

impl Series {
    fn new(now: u32, reading: &Reading, in_full: bool) -> Self {
        Self {
            noted: now,
            totals: reading.totals,
            grown: [0; 3],
            lately: 0,
            coarse: [UNKNOWN; COARSE],
            fine: in_full.then(|| Box::new([UNKNOWN; FINE])),
        }
    }

    fn note(&mut self, now: u32, reading: &Reading) {
        let before = core::mem::replace(&mut self.noted, now);
        // What a lane had counted that has ended with its pool is gone.
        let grown = core::array::from_fn::<_, 3, _>(|at| {
            let of = |totals: &[u64; 3]| totals.get(at).copied().unwrap_or(0);
            of(&reading.totals).saturating_sub(of(&self.totals))
        });
        self.totals = reading.totals;
        for (sum, more) in self.grown.iter_mut().zip(grown) {
            *sum = sum.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        }
        if let Some(fine) = &mut self.fine {
            put(fine.as_mut_slice(), before, now, UNKNOWN, point(grown.into_iter(), now - before, reading.waits));
        }
        let (half_before, half) = (before / COARSE_STEPS, now / COARSE_STEPS);
        if half > half_before {
            let sums = core::mem::take(&mut self.grown);
            let point = point(sums.into_iter().map(u64::from), half - half_before, reading.waits);
            put(&mut self.coarse, half_before, half, UNKNOWN, point);
            self.lately = sums.into_iter().fold(0, u32::saturating_add);
        }
    }

    /// The points: time, steps covered, values. Coarse ones come first, up to the first fine one.
    fn points(&self) -> Vec<(u32, u32, Point)> {
        let fine = self.fine.iter().flat_map(|fine| points(fine.as_slice(), self.noted));
        let fine: Vec<_> = fine.skip_while(|(_, point)| *point == UNKNOWN).map(|(at, point)| (at, 1, point)).collect();
        let end = fine.first().map_or(u32::MAX, |(at, ..)| *at);
        let coarse = points(&self.coarse, self.noted / COARSE_STEPS).skip_while(|(_, point)| *point == UNKNOWN);
        let coarse = coarse.map(|(at, point)| (at * COARSE_STEPS, COARSE_STEPS, point));
        coarse.filter(|(at, ..)| *at < end).chain(fine).collect()
    }
}

impl Figures {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            began_at: SystemTime::now(),
            noted: None,
            whole: vec![NOTHING; FINE],
            counted: [0; COUNTED.len()],
            latency: Latency::default(),
            series: BTreeMap::new(),
            in_full: [0; 2],
            left_out: 0,
            sources: Sources::default(),
        }
    }

    /// Notes the readings of a snapshot.
    pub(crate) fn take(&mut self, snapshot: &Snapshot) {
        // The nearest: looks are not made to the millisecond.
        let now = (snapshot.taken.saturating_duration_since(self.began) + STEP / 2).as_millis() / STEP.as_millis();
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        let Some(before) = self.noted.map_or(Some(now), |noted| (noted < now).then_some(noted)) else { return };
        self.take_whole(before, now, snapshot);
        let channels = snapshot.channels.iter().map(|channel| {
            let traffic = channel.stats.traffic;
            Reading {
                key: (channel.listed.id, None),
                totals: [traffic.events_in, traffic.delivered, traffic.discards.total()],
                waits: channel.backlog_events,
                is_slow: false,
            }
        });
        let consumers = snapshot.consumers.iter().map(|outbox| Reading {
            key: (outbox.key.channel, Some(outbox.key.proxy)),
            totals: [0, outbox.delivered, outbox.discards.total()],
            waits: outbox.backlog_events,
            is_slow: is_behind(outbox, snapshot.now),
        });
        self.note(now, channels.chain(consumers));
    }

    fn take_whole(&mut self, before: u32, now: u32, snapshot: &Snapshot) {
        let (counted, latency) = (COUNTED.map(|counter| read(&snapshot.counters, counter)), snapshot.latency());
        if let Some(steps) = self.noted.map(|noted| u64::from(now - noted)) {
            let mut whole = NOTHING;
            let grown = counted.iter().zip(&self.counted).map(|(now, before)| now.saturating_sub(*before) / steps);
            let waits = snapshot.channels.iter().map(|channel| channel.backlog_events).sum();
            let grown_latency = latency.since(&self.latency);
            let bounds = [50, 99].map(|per_cent| plotted(&grown_latency, per_cent).unwrap_or(u64::MAX));
            whole.iter_mut().zip(grown.chain([waits]).chain(bounds)).for_each(|(kept, value)| *kept = value);
            put(&mut self.whole, before, now, NOTHING, whole);
        }
        (self.counted, self.latency) = (counted, latency);
    }

    /// Notes the readings of channels, and then of consumers, the slowest first.
    fn note(&mut self, now: u32, readings: impl Iterator<Item = Reading>) {
        let is_half = self.noted.is_some_and(|noted| noted / COARSE_STEPS < now / COARSE_STEPS);
        self.noted = Some(now);
        self.left_out = 0;
        let mut slow = BTreeSet::new();
        for reading in readings {
            if reading.is_slow && slow.len() < CONSUMERS_IN_FULL - BUSIEST {
                slow.insert(reading.key);
            }
            if let Some(series) = self.series.get_mut(&reading.key) {
                series.note(now, &reading);
            } else if self.series.len() < SERIES_MAX {
                let in_full = self.take_full(reading.key);
                self.series.insert(reading.key, Box::new(Series::new(now, &reading, in_full)));
            } else {
                self.left_out += 1;
            }
        }
        if is_half {
            let Self { series, in_full, .. } = self;
            series.retain(|key, series| {
                let stays = series.noted == now;
                if !stays && series.fine.is_some() {
                    *room(in_full, *key).0 -= 1;
                }
                stays
            });
            self.rank_consumers(&slow);
        }
    }

    /// Whether the series gets a point for each step, for which it takes a place.
    fn take_full(&mut self, key: Key) -> bool {
        let (taken, max) = room(&mut self.in_full, key);
        let has_room = *taken < max;
        *taken += usize::from(has_room);
        has_room
    }

    /// Gives the slowest and the busiest consumers a point for each step, in place of others.
    fn rank_consumers(&mut self, slow: &BTreeSet<Key>) {
        let consumers = self.series.iter().filter(|((_, proxy), _)| proxy.is_some());
        let mut ranked: Vec<_> = consumers
            .map(|(key, series)| (!slow.contains(key), Reverse(series.lately), series.fine.is_none(), *key))
            .collect();
        ranked.sort_unstable();
        let (wanted, others) = ranked.split_at(ranked.len().min(CONSUMERS_IN_FULL));
        let mut others = others.iter().filter(|(.., is_coarse, _)| !is_coarse).map(|(.., key)| *key).rev();
        for (.., key) in wanted.iter().filter(|(.., is_coarse, _)| *is_coarse) {
            if !self.take_full(*key) {
                let Some(other) = others.next().and_then(|other| self.series.get_mut(&other)) else { return };
                other.fine = None;
            }
            if let Some(series) = self.series.get_mut(key) {
                series.fine = Some(Box::new([UNKNOWN; FINE]));
            }
        }
    }

    /// Memory used, in octets.
    pub(crate) fn bytes(&self) -> usize {
        let in_full: usize = self.in_full.iter().sum();
        self.series.len() * SERIES_BYTES + in_full * FINE_BYTES + WHOLE_BYTES + self.sources.bytes()
    }

    /// Channels, consumers, suppliers and event types that are left out for want of room.
    pub(crate) const fn left_out(&self) -> usize {
        self.left_out + self.sources.left_out()
    }

    /// Whether suppliers and event types are due for a reading: another half minute has begun.
    pub(crate) fn are_sources_due(&self) -> bool {
        self.noted.is_some_and(|noted| noted > 0 && self.sources.noted() != Some(noted / COARSE_STEPS))
    }

    /// Notes the total events of all suppliers and event types.
    pub(crate) fn take_sources(&mut self, totals: impl Iterator<Item = (Source, u64)>) {
        self.sources.note(self.noted.unwrap_or(0) / COARSE_STEPS, totals);
    }

    /// The last hour of a supplier or an event type; `None` without data.
    pub(crate) fn source_json(&self, of: &Source) -> Option<Value> {
        let points = self.sources.points(of)?;
        let at: Value = points.iter().map(|(half, _)| self.millis(half * COARSE_STEPS)).collect();
        let events: Value = points.iter().map(|(_, events)| events.map(|events| rate(events, COARSE_STEPS))).collect();
        Some(json!({ "at_ms": at, "events": events, "kept": self.stored() }))
    }

    fn stored(&self) -> Value {
        json!({
            "bytes": self.bytes(), "bytes_max": BYTES_MAX, "series": self.series.len() + self.sources.len(),
            "left_out": self.left_out(),
        })
    }

    /// The last hour of a channel or consumer, or of the service; `None` without data.
    pub(crate) fn json(&self, of: Option<Key>) -> Option<Value> {
        let mut told = match of {
            Some(key) => {
                let points = self.series.get(&key)?.points();
                let rates = |at: usize, name: &str| {
                    let values = points.iter().map(|(_, steps, point)| {
                        let value = number(point.get(at).copied().filter(|code| *code != u8::MAX)?);
                        Some(if name == "backlog_events" { json!(value) } else { rate(value, *steps) })
                    });
                    json!(values.collect::<Vec<_>>())
                };
                // Nothing comes in from a consumer.
                let named = NAMES.iter().enumerate().skip(usize::from(key.1.is_some()));
                let mut told: Map<_, _> = named.map(|(at, name)| ((*name).to_owned(), rates(at, name))).collect();
                told.insert("at_ms".to_owned(), points.iter().map(|(at, ..)| self.millis(*at)).collect());
                told
            }
            None => self.whole_json(),
        };
        told.insert("kept".to_owned(), self.stored());
        Some(Value::Object(told))
    }

    fn whole_json(&self) -> Map<String, Value> {
        let points = points(&self.whole, self.noted.unwrap_or(0));
        let points: Vec<_> = points.skip_while(|(_, whole)| *whole == NOTHING).collect();
        let values = |at: usize| {
            let values = points.iter().map(|(_, whole)| {
                let value = whole.get(at).copied().filter(|value| *value != u64::MAX)?;
                Some(if at < COUNTED.len() { rate(value, 1) } else { json!(value) })
            });
            json!(values.collect::<Vec<_>>())
        };
        let named = NAMES_OF_WHOLE.iter().enumerate();
        let mut told: Map<_, _> = named.map(|(at, name)| ((*name).to_owned(), values(at))).collect();
        told.insert("at_ms".to_owned(), points.iter().map(|(at, _)| self.millis(*at)).collect());
        told
    }

    /// The time of a step, in milliseconds since 1970.
    fn millis(&self, step: u32) -> u64 {
        unix_ms(self.began_at + STEP * step)
    }
}

/// Number and maximum of series of this kind with a point for each step.
const fn room(in_full: &mut [usize; 2], key: Key) -> (&mut usize, usize) {
    let [channels, consumers] = in_full;
    if key.1.is_some() { (consumers, CONSUMERS_IN_FULL) } else { (channels, CHANNELS_IN_FULL) }
}

/// Events per second.
pub(crate) fn rate(events: u64, steps: u32) -> Value {
    let tenths = events.saturating_mul(10) / (STEP.as_secs() * u64::from(steps));
    json!(tenths as f64 / 10.0)
}

/// The latency's percentile bound for a plot: the last finite bound if that is exceeded. `None` without latencies.
pub(crate) fn plotted(latency: &Latency, per_cent: u64) -> Option<u64> {
    let last = Latency::BOUNDS_NS.last().copied().filter(|_| latency.count() > 0);
    latency.quantile(per_cent).or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(id: u32, events: u64) -> Reading {
        Reading { key: (ChannelId(id), None), totals: [events, events, 0], waits: 0, is_slow: false }
    }

    fn consumer(proxy: u32, delivered: u64, is_slow: bool) -> Reading {
        Reading {
            key: (ChannelId(0), Some(ProxyId(proxy))),
            totals: [0, delivered, 0],
            waits: u64::from(is_slow) * 300,
            is_slow,
        }
    }

    fn column(told: &Value, name: &str) -> Vec<Option<f64>> {
        told[name].as_array().unwrap().iter().map(Value::as_f64).collect()
    }

    #[test]
    fn an_octet_has_small_numbers_exactly_and_large_ones_within_a_sixteenth() {
        let mut before = 0;
        for value in (0..5_000).chain((0..33).map(|power| (1 << power) - 1)).chain((0..33).map(|power| 1 << power)) {
            let read = number(code(value));
            assert!(read.abs_diff(value) * 16 <= value && (value >= 16 || read == value), "{value} is read as {read}");
        }
        for read in (0..5_000).map(|value| number(code(value))) {
            assert!(read >= before, "{read} after {before}");
            before = read;
        }
        assert_eq!([u64::MAX, 1 << 34].map(code), [254; 2], "the largest is not the one that means nothing");
    }

    #[test]
    fn an_hour_of_1_000_channels_and_10_000_consumers_has_16_mb_for_ever() {
        let mut figures = Figures::new();
        let readings = |events: u64| {
            let consumers = (0..10_000).map(move |proxy| consumer(proxy, events * u64::from(proxy), proxy < 100));
            (0..1_000).map(move |id| channel(id, events)).chain(consumers)
        };
        (0..40).for_each(|now| figures.note(now, readings(u64::from(now))));
        let kept = figures.bytes();
        assert!(kept <= BYTES_MAX, "{kept}");
        assert_eq!((figures.series.len(), figures.in_full, figures.left_out()), (11_000, [1_000, 256], 0));
        // A day on.
        (43_200..43_230).for_each(|now| figures.note(now, readings(u64::from(now))));
        assert_eq!(figures.bytes(), kept);
        // Beyond the bound some are left out, and counted: not forgotten are those that were there before.
        let more = (20_000..20_500).map(|proxy| consumer(proxy, 0, false));
        figures.note(43_230, readings(43_230).chain(more));
        assert_eq!((figures.bytes(), figures.left_out()), (kept, 500));
        assert!(figures.json(Some(consumer(20_001, 0, false).key)).is_none());
        assert_eq!(column(&figures.json(Some(channel(999, 0).key)).unwrap(), "events_in"), [Some(0.5); 31]);
    }

    #[test]
    fn the_slowest_and_the_busiest_take_the_place_of_others() {
        let mut figures = Figures::new();
        for now in 0..=30 {
            // The first 256 came first and do nothing; of those behind, a few are slow, and the last are busy.
            let of = |proxy: u32| {
                consumer(proxy, u64::from(now * proxy * u32::from(proxy >= 900)), (300..305).contains(&proxy))
            };
            figures.note(now, (0..1_000).map(of));
        }
        let is_full = |proxy| figures.series[&consumer(proxy, 0, false).key].fine.is_some();
        assert!((300..305).chain(900..1_000).all(is_full));
        assert_eq!((0..1_000).filter(|proxy| is_full(*proxy)).count(), CONSUMERS_IN_FULL);
        // What is coarse of one that is now full is still told: the half minute before.
        let told = figures.json(Some(consumer(999, 0, false).key)).unwrap();
        assert_eq!(told["at_ms"].as_array().unwrap().len(), 1 + 15);
        assert!(told.get("events_in").is_none());
    }

    #[test]
    fn an_hour_is_told_and_no_more() {
        let mut figures = Figures::new();
        (0..4_000).for_each(|now| figures.note(now, [channel(0, 6 * u64::from(now))].into_iter()));
        assert_eq!(column(&figures.json(Some((ChannelId(0), None))).unwrap(), "events_in"), vec![Some(3.0); FINE]);
    }

    #[test]
    fn steps_that_were_missed_are_gaps_and_what_is_gone_is_not_kept() {
        let mut figures = Figures::new();
        figures.note(0, [channel(0, 0), channel(1, 0)].into_iter());
        figures.note(1, [channel(0, 8)].into_iter());
        // Administration did not answer for three steps, in which 12 events came.
        figures.note(4, [channel(0, 20)].into_iter());
        let told = figures.json(Some((ChannelId(0), None))).unwrap();
        assert_eq!(column(&told, "events_in"), [Some(4.0), None, None, Some(2.0)]);
        let at: Vec<u64> = told["at_ms"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!(at[3] - at[0], 6_000);
        // What a lane had counted that is gone leaves nothing below 0.
        figures.note(5, [channel(0, 3)].into_iter());
        assert_eq!(column(&figures.json(Some((ChannelId(0), None))).unwrap(), "events_in").last(), Some(&Some(0.0)));
        assert!(figures.json(Some((ChannelId(1), None))).is_some());
        figures.note(15, [channel(0, 3)].into_iter());
        assert!(figures.json(Some((ChannelId(1), None))).is_none());
        assert_eq!(figures.in_full, [1, 0]);
        // Nothing of an hour ago is left after an hour without an answer.
        figures.note(15 + 7_200, [channel(0, 3)].into_iter());
        assert_eq!(column(&figures.json(Some((ChannelId(0), None))).unwrap(), "events_in").len(), 1);
    }
}

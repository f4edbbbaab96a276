//! The stored form of an event: all that a later process needs to hand it to an engine again.
//!
//! All times are in UTC, since a lane's clock begins with the process. Whatever has a number valid in one process only, such as a type, is
//! stored by name.

use core::time::Duration;

use corba::event::UtcClock;
use engine::{ChannelId, Event, Form, Hops, Origin, ProxyId, ProxyKey, Time};

/// A stored event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'r> {
    /// The proxy of the supplier that sent the event.
    pub(crate) source: ProxyKey,
    form: Form,
    tag: u64,
    priority: Option<i16>,
    thread_priority: Option<i16>,
    timeout: Option<Duration>,
    /// UTC, in 100 ns since 15 October 1582.
    start: Option<u64>,
    stop: Option<u64>,
    arrived: u64,
    approved: bool,
    supplied_priority: i16,
    supplied_timeout: Option<Duration>,
    pub(crate) origin: Option<Origin>,
    /// The event's type.
    pub(crate) domain: &'r [u8],
    pub(crate) name: &'r [u8],
    bytes: &'r [u8],
}

const TICKS_PER_MS: u64 = 10_000;

/// Flags of the optional fields.
const PRIORITY: u8 = 1;
const THREAD_PRIORITY: u8 = 2;
const TIMEOUT: u8 = 4;
const START: u8 = 8;
const STOP: u8 = 16;
const SUPPLIED_TIMEOUT: u8 = 32;
const APPROVED: u8 = 64;
const ORIGIN: u8 = 128;

impl<'r> Record<'r> {
    /// The record of an event that was [completed](engine::Lane::complete_event) on a lane, and arrived at `arrived` by its clock.
    pub(crate) fn of(event: &'r Event, arrived: Time, clock: &UtcClock) -> Self {
        let (domain, name) = event.names();
        let (supplied_priority, supplied_timeout) = event.supplied();
        Self {
            source: event.source,
            form: event.form,
            tag: event.tag,
            priority: event.priority,
            thread_priority: event.thread_priority,
            timeout: event.timeout,
            start: event.start.map(|start| clock.utc_time(start)),
            stop: event.stop.map(|stop| clock.utc_time(stop)),
            arrived: clock.utc_time(arrived).saturating_sub(u64::from(event.older_by_ms) * TICKS_PER_MS),
            approved: event.approved,
            supplied_priority,
            supplied_timeout,
            origin: event.origin().copied(),
            domain,
            name,
            bytes: &event.bytes,
        }
    }

    /// Appends the encoded record.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Self {
            source: ProxyKey { channel, proxy },
            form,
            tag,
            priority,
            thread_priority,
            timeout,
            start,
            stop,
            arrived,
            approved,
            supplied_priority,
            supplied_timeout,
            origin,
            domain,
            name,
            bytes,
        } = *self;
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        out.push(
            flag(priority.is_some(), PRIORITY)
                | flag(thread_priority.is_some(), THREAD_PRIORITY)
                | flag(timeout.is_some(), TIMEOUT)
                | flag(start.is_some(), START)
                | flag(stop.is_some(), STOP)
                | flag(supplied_timeout.is_some(), SUPPLIED_TIMEOUT)
                | flag(approved, APPROVED)
                | flag(origin.is_some(), ORIGIN),
        );
        out.extend(channel.0.to_le_bytes());
        out.extend(proxy.0.to_le_bytes());
        out.extend(form.0.to_le_bytes());
        out.extend(tag.to_le_bytes());
        out.extend(arrived.to_le_bytes());
        out.extend(supplied_priority.to_le_bytes());
        [priority, thread_priority].into_iter().flatten().for_each(|priority| out.extend(priority.to_le_bytes()));
        let times = [timeout.map(nanos), start, stop, supplied_timeout.map(nanos)];
        times.into_iter().flatten().for_each(|time| out.extend(time.to_le_bytes()));
        if let Some(Origin { service, era, number, hops }) = origin {
            [service, era, number].into_iter().for_each(|number| out.extend(number.to_le_bytes()));
            out.push(u8::try_from(hops.len()).unwrap_or(0));
            hops.iter().for_each(|service| out.extend(service.to_le_bytes()));
        }
        for text in [domain, name] {
            // Longer names are refused on arrival.
            out.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
            out.extend_from_slice(text);
        }
        out.extend_from_slice(bytes);
    }

    /// Decodes a record. `None` if the octets are not a record.
    pub(crate) fn read(octets: &'r [u8]) -> Option<Self> {
        let mut rest = octets;
        let [flags] = take(&mut rest)?;
        let has = |flag| flags & flag != 0;
        let channel = ChannelId(u32::from_le_bytes(take(&mut rest)?));
        let proxy = ProxyId(u32::from_le_bytes(take(&mut rest)?));
        let form = Form(u16::from_le_bytes(take(&mut rest)?));
        let tag = u64::from_le_bytes(take(&mut rest)?);
        let arrived = u64::from_le_bytes(take(&mut rest)?);
        let supplied_priority = i16::from_le_bytes(take(&mut rest)?);
        let mut short = |flag| match has(flag) {
            true => take(&mut rest).map(|octets| Some(i16::from_le_bytes(octets))),
            false => Some(None),
        };
        let (priority, thread_priority) = (short(PRIORITY)?, short(THREAD_PRIORITY)?);
        let mut long = |flag| match has(flag) {
            true => take(&mut rest).map(|octets| Some(u64::from_le_bytes(octets))),
            false => Some(None),
        };
        let [timeout, start, stop, supplied_timeout] =
            [long(TIMEOUT)?, long(START)?, long(STOP)?, long(SUPPLIED_TIMEOUT)?];
        let origin = if has(ORIGIN) { Some(read_origin(&mut rest)?) } else { None };
        let mut text = || {
            let length = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
            let (text, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(text)
        };
        let (domain, name) = (text()?, text()?);
        Some(Self {
            source: ProxyKey { channel, proxy },
            form,
            tag,
            priority,
            thread_priority,
            timeout: timeout.map(Duration::from_nanos),
            start,
            stop,
            arrived,
            approved: has(APPROVED),
            supplied_priority,
            supplied_timeout: supplied_timeout.map(Duration::from_nanos),
            origin,
            domain,
            name,
            bytes: rest,
        })
    }

    /// Fills an event, except its type. Its arrival time is converted by `clock`, and its lifetime counts from then.
    pub(crate) fn fill(&self, event: &mut Event, clock: &UtcClock) {
        event.arrived = clock.lane_time(self.arrived);
        let before = clock.utc_time(Time(0)).saturating_sub(self.arrived);
        event.older_by_ms = u32::try_from(before / TICKS_PER_MS).unwrap_or(u32::MAX);
        (event.form, event.tag, event.source) = (self.form, self.tag, self.source);
        event.bytes.extend_from_slice(self.bytes);
        (event.priority, event.thread_priority) = (self.priority, self.thread_priority);
        event.timeout = self.timeout;
        event.start = self.start.map(|start| clock.lane_time(start));
        event.stop = self.stop.map(|stop| clock.lane_time(stop));
        event.approved = self.approved;
        event.set_supplied(self.supplied_priority, self.supplied_timeout);
        if let Some(Origin { service, era, number, hops }) = &self.origin {
            event.set_origin(*service, *era, *number, hops);
        }
    }

    /// The same event as if it arrived at `now`, in 100 ns since 15 October 1582, without lifetime and start time, which applied to its
    /// first arrival.
    pub(crate) const fn anew(self, now: u64) -> Self {
        Self { arrived: now, timeout: None, start: None, stop: None, supplied_timeout: None, ..self }
    }

    /// The form of the event's bytes.
    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    /// Arrival time in 100 ns since 15 October 1582.
    pub(crate) const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Octets of the event's bytes.
    pub(crate) const fn length(&self) -> usize {
        self.bytes.len()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn read_origin(rest: &mut &[u8]) -> Option<Origin> {
    let [service, era, number] = [take(rest)?, take(rest)?, take(rest)?].map(u64::from_le_bytes);
    let [count] = take(rest)?;
    let count = usize::from(count);
    if count > Origin::HOPS_MAX {
        return None;
    }
    let (hops, behind) = rest.split_at_checked(count * size_of::<u64>())?;
    *rest = behind;
    let hops = Hops::new(hops.as_chunks().0.iter().map(|service| u64::from_le_bytes(*service)));
    Some(Origin { service, era, number, hops })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

/// Encodes a list of unconfirmed consumers, in any order.
pub(crate) fn write_consumers(consumers: impl Iterator<Item = ProxyId>, out: &mut Vec<u8>) {
    consumers.for_each(|proxy| out.extend(proxy.0.to_le_bytes()));
}

/// A marker behind the unconfirmed consumers: dead letters follow. No proxy has this number.
const ASIDE: u32 = u32::MAX;
/// The only reason of a dead letter: it was undeliverable.
const UNDELIVERABLE: u32 = 0;
/// Octets of a dead letter in the list: the proxy's number, since when, and the reason.
const ASIDE_BYTES: usize = 16;

/// Appends dead letters to a list of unconfirmed consumers: each consumer, and since when in 100 ns since 15 October 1582.
pub(crate) fn write_aside(aside: impl Iterator<Item = (ProxyId, u64)>, out: &mut Vec<u8>) {
    for (at, (proxy, since)) in aside.enumerate() {
        if at == 0 {
            out.extend(ASIDE.to_le_bytes());
        }
        out.extend(proxy.0.to_le_bytes());
        out.extend(since.to_le_bytes());
        out.extend(UNDELIVERABLE.to_le_bytes());
    }
}

/// Decodes the dead letters of a list: each consumer, and since when.
pub(crate) fn read_aside(octets: &[u8]) -> impl Iterator<Item = (ProxyId, u64)> {
    let aside = octets.get((count_consumers(octets) + 1) * size_of::<u32>()..).unwrap_or(&[]);
    aside.as_chunks::<ASIDE_BYTES>().0.iter().filter_map(|octets| {
        let mut rest: &[u8] = octets;
        Some((ProxyId(u32::from_le_bytes(take(&mut rest)?)), u64::from_le_bytes(take(&mut rest)?)))
    })
}

/// The part of a list with the unconfirmed consumers.
pub(crate) fn consumers_of(octets: &[u8]) -> &[u8] {
    octets.get(..count_consumers(octets) * size_of::<u32>()).unwrap_or(octets)
}

/// Number of unconfirmed consumers in a list.
pub(crate) fn count_consumers(octets: &[u8]) -> usize {
    let numbers = octets.as_chunks::<4>().0;
    numbers.iter().position(|octets| u32::from_le_bytes(*octets) == ASIDE).unwrap_or(numbers.len())
}

/// Decodes the unconfirmed consumers of a list, in ascending order.
pub(crate) fn read_consumers(octets: &[u8]) -> Box<[ProxyId]> {
    let mut consumers: Vec<ProxyId> =
        consumers_of(octets).as_chunks::<4>().0.iter().map(|octets| ProxyId(u32::from_le_bytes(*octets))).collect();
    consumers.sort_unstable();
    consumers.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record<'static> {
        Record {
            source: ProxyKey { channel: ChannelId(7), proxy: ProxyId(70_000) },
            form: Form(3),
            tag: 0x0102_0304_0506_0708,
            priority: Some(-3),
            thread_priority: None,
            timeout: Some(Duration::from_millis(20)),
            start: None,
            stop: Some(9_000_000_000),
            arrived: 8_000_000_000,
            approved: true,
            supplied_priority: 12,
            supplied_timeout: Some(Duration::ZERO),
            origin: None,
            domain: b"Telecom",
            name: b"Alarm",
            bytes: b"what it says",
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_part_of_it_is_none() {
        let plain = Record { priority: None, timeout: None, stop: None, supplied_timeout: None, ..record() };
        let other = Record { thread_priority: Some(9), start: Some(1), approved: false, ..record() };
        let [came_first, came_through] = [0, 8].map(|hops| {
            let hops = Hops::new((1..=hops).map(|hop| hop << 56));
            Record { origin: Some(Origin { service: u64::MAX, era: 1 << 40, number: 7, hops }), ..record() }
        });
        for record in [record(), other, plain, came_first, came_through] {
            let mut octets = Vec::new();
            record.write(&mut octets);
            assert_eq!(Record::read(&octets).as_ref(), Some(&record));
            let header = octets.len() - record.length();
            assert!((0..header).all(|length| Record::read(&octets[..length]).is_none()));
            let mut event = Event::default();
            record.fill(&mut event, &UtcClock::default());
            assert_eq!(event.origin(), record.origin.as_ref());
            assert_eq!(Record::of(&event, event.arrived, &UtcClock::default()).anew(1).origin, record.origin);
        }
    }

    /// As it was written in a store of version 3.
    #[test]
    fn a_record_without_an_origin_is_read_as_before_there_were_origins() {
        let octets =
            b"\x75\x07\0\0\0\x70\x11\x01\0\x03\0\x08\x07\x06\x05\x04\x03\x02\x01\0\x50\xd6\xdc\x01\0\0\0\x0c\0\xfd\xff\
            \0\x2d\x31\x01\0\0\0\0\0\x1a\x71\x18\x02\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0Telecom\x05\0\0\0Alarmwhat it says";
        assert_eq!(Record::read(octets), Some(record()));
        let mut written = Vec::new();
        record().write(&mut written);
        assert_eq!(written, octets);
    }

    #[test]
    fn a_record_with_more_hops_than_there_may_be_is_none() {
        let hops = Hops::new(1..=8);
        let record = Record { origin: Some(Origin { service: 1, era: 2, number: 3, hops }), ..record() };
        let mut octets = Vec::new();
        record.write(&mut octets);
        let at = octets.windows(9).position(|octets| octets == [8, 1, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        octets[at] = 9;
        assert_eq!(Record::read(&octets), None);
    }

    #[test]
    fn a_lifetime_counts_from_the_arrival_whatever_the_process() {
        // This process began 5 ms after the event came, and this is a microsecond later.
        let clock = UtcClock { lane: Time(1_000), utc: 8_000_000_000 + 50_010 };
        let mut event = Event::default();
        record().fill(&mut event, &clock);
        assert_eq!(event.timeout, Some(Duration::from_millis(20)));
        assert_eq!((event.arrived, event.older_by_ms), (Time(0), 5));
        assert_eq!(event.stop, Some(Time(1_000 + (1_000_000_000 - 50_010) * 100)));
        assert_eq!(event.supplied(), (12, Some(Duration::ZERO)), "which is none");
        // It is written once more, and read by the same process, which is as old as the event by now.
        let octets = |event: &Event, clock: &UtcClock| {
            let mut octets = Vec::new();
            Record::of(event, event.arrived, clock).write(&mut octets);
            octets
        };
        let again = octets(&event, &clock);
        assert_eq!(Record::read(&again).unwrap().arrived(), record().arrived);
        let later = UtcClock { lane: Time(10_000_000), utc: 8_000_000_000 + 50_000 };
        let mut event = Event::default();
        record().fill(&mut event, &later);
        assert_eq!((event.arrived, event.older_by_ms), (Time(5_000_000), 0));
    }

    /// The clock was wrong when the event came, or is now: the event is neither lost nor kept for longer than it was to be.
    #[test]
    fn a_clock_that_was_set_back_meanwhile_leaves_a_lifetime_as_it_was() {
        for utc in [7_000_000_000, 0, 8_000_000_000] {
            let clock = UtcClock { lane: Time(1_000), utc };
            let mut event = Event::default();
            record().fill(&mut event, &clock);
            assert_eq!(event.timeout, Some(Duration::from_millis(20)), "{utc}");
            assert!(event.arrived >= Time(1_000) && event.older_by_ms == 0, "{utc}");
            // A moment of the world's clock comes when that shows it.
            assert_eq!(event.stop, Some(Time(1_000 + (9_000_000_000 - utc) * 100)), "{utc}");
        }
        let late = UtcClock { lane: Time(1_000), utc: u64::MAX };
        let mut event = Event::default();
        record().fill(&mut event, &late);
        assert_eq!(event.older_by_ms, u32::MAX);
        assert_eq!((event.arrived, event.stop), (Time(0), Some(Time(0))));
    }

    #[test]
    fn consumers_are_read_as_they_were_written() {
        let consumers = [3, 1, 70_000].map(ProxyId);
        let mut octets = Vec::new();
        write_consumers(consumers.into_iter(), &mut octets);
        assert_eq!(*read_consumers(&octets), [1, 3, 70_000].map(ProxyId));
        assert_eq!((count_consumers(&octets), read_aside(&octets).count()), (3, 0));
    }

    /// A moment may have the octets of what stands before the consumers for which an event is a dead letter.
    #[test]
    fn the_consumers_of_a_dead_letter_are_read_as_they_were_written() {
        for consumers in [&[][..], &[ProxyId(3), ProxyId(1)]] {
            let aside = [(ProxyId(7), u64::MAX), (ProxyId(3), 5)];
            let mut octets = Vec::new();
            write_consumers(consumers.iter().copied(), &mut octets);
            write_aside(aside.into_iter(), &mut octets);
            assert_eq!((count_consumers(&octets), read_consumers(&octets).len()), (consumers.len(), consumers.len()));
            assert_eq!(read_aside(&octets).collect::<Vec<_>>(), aside);
            assert!(octets.len().is_multiple_of(size_of::<u32>()), "as each list was before");
        }
    }
}

//! Origins of persistent events from other services, by which links find repeats after a restart.
//!
//! The store writes an origin in the batch of its event, so that both are on the disk or neither. Their number is bounded: beyond a bound,
//! the oldest origin is removed. An event without its origin is admitted again if it arrives again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::{ChannelId, Event, Origin};

use super::disk::{Batch, StoreError};

/// Maximum origins of one channel, service and era.
pub(crate) const NUMBERS_MAX: usize = 16_384;
/// Maximum eras of one channel and service: beyond it, the era written to longest ago is removed.
const ERAS_MAX: usize = 16;
/// Maximum origins of all channels. Beyond it, the channel with the most loses its oldest.
const ALL_MAX: usize = 1 << 18;
/// Maximum origins removed with a batch, beyond as many as it adds: a removed channel may have very many.
const REMOVED_AT_ONCE: usize = 4_096;

/// The origin of an event from another service, and the channel that admitted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeenOrigin {
    pub(crate) channel: ChannelId,
    pub(crate) service: u64,
    pub(crate) era: u64,
    pub(crate) number: u64,
}

impl SeenOrigin {
    /// Length of a key in octets.
    pub(super) const KEY_BYTES: usize = size_of::<u32>() + 3 * size_of::<u64>();

    fn of(event: &Event) -> Option<Self> {
        let Origin { service, era, number, .. } = *event.origin()?;
        Some(Self { channel: event.source.channel, service, era, number })
    }

    /// The key in the database: the fields in order, each big-endian.
    pub(super) fn key(&self) -> [u8; Self::KEY_BYTES] {
        let Self { channel, service, era, number } = self;
        let mut key = [0; Self::KEY_BYTES];
        let numbers = [service, era, number].into_iter().flat_map(|number| number.to_be_bytes());
        key.iter_mut().zip(channel.0.to_be_bytes().into_iter().chain(numbers)).for_each(|(to, octet)| *to = octet);
        key
    }

    /// Decodes a key. `None` for other keys.
    pub(super) fn of_key(key: &[u8]) -> Option<Self> {
        let (channel, numbers) = key.split_first_chunk()?;
        let (numbers, []) = numbers.as_chunks() else { return None };
        let [service, era, number] = *numbers else { return None };
        let [service, era, number] = [service, era, number].map(u64::from_be_bytes);
        Some(Self { channel: ChannelId(u32::from_be_bytes(*channel)), service, era, number })
    }
}

#[derive(Debug, Default)]
struct OfChannel {
    /// Origins by the numbers of their events, which rise with the batches.
    by_event: BTreeMap<u64, SeenOrigin>,
    /// Numbers of events by service and era.
    by_era: BTreeMap<(u64, u64), VecDeque<u64>>,
}

impl OfChannel {
    fn add(&mut self, event: u64, origin: SeenOrigin) {
        self.by_event.insert(event, origin);
        self.by_era.entry((origin.service, origin.era)).or_default().push_back(event);
    }

    fn remove(&mut self, event: u64) -> Option<SeenOrigin> {
        let origin = self.by_event.remove(&event)?;
        let era = (origin.service, origin.era);
        if let Some(events) = self.by_era.get_mut(&era) {
            // Events are removed at either end, except one that was not admitted.
            if events.front() == Some(&event) {
                events.pop_front();
            } else if events.back() == Some(&event) {
                events.pop_back();
            } else {
                events.retain(|kept| *kept != event);
            }
            if events.is_empty() {
                self.by_era.remove(&era);
            }
        }
        Some(origin)
    }

    /// The oldest event beyond a bound of this service and era, if any.
    fn first_beyond(&self, service: u64, era: u64) -> Option<u64> {
        let events = self.by_era.get(&(service, era))?;
        if events.len() > NUMBERS_MAX {
            return events.front().copied();
        }
        let eras = || self.by_era.range((service, 0)..=(service, u64::MAX)).map(|(_, events)| events);
        let oldest = (eras().count() > ERAS_MAX).then(|| eras().min_by_key(|events| events.back().copied()))??;
        oldest.front().copied()
    }
}

/// The origins that are on the disk or being written.
#[derive(Debug, Default)]
pub(super) struct SeenOrigins {
    /// This service's number: its own origins are not stored.
    own: u64,
    channels: BTreeMap<ChannelId, OfChannel>,
    count: usize,
    /// Origins in the batch being written, with the numbers of their events.
    writing: Vec<(u64, SeenOrigin)>,
    /// Origins to remove from the disk.
    gone: BTreeSet<SeenOrigin>,
    /// Whether the disk may have others, from batches that failed.
    is_unsure: bool,
    /// Origins removed at a bound, not counted yet.
    dropped: u64,
}

impl SeenOrigins {
    /// Restores a store's origins, in the order of their events. Those of channels that are gone are removed.
    pub(super) fn new(own: u64, origins: &[(u64, SeenOrigin)], is_there: impl Fn(ChannelId) -> bool) -> Self {
        let mut seen = Self { own, ..Self::default() };
        for (event, origin) in origins {
            if is_there(origin.channel) {
                seen.insert(*event, *origin);
            } else {
                seen.gone.insert(*origin);
            }
        }
        seen
    }

    /// The origin to write with an event of the batch, if that came from another service. It is noted from now on, unless the batch
    /// [fails](Self::note_failed).
    pub(super) fn add(&mut self, number: u64, event: &Event) -> Option<SeenOrigin> {
        let origin = SeenOrigin::of(event).filter(|origin| origin.service != self.own)?;
        self.gone.remove(&origin);
        self.writing.push((number, origin));
        self.insert(number, origin);
        Some(origin)
    }

    fn insert(&mut self, number: u64, origin: SeenOrigin) {
        let of_channel = self.channels.entry(origin.channel).or_default();
        of_channel.add(number, origin);
        self.count += 1;
        while let Some(first) =
            self.channels.get(&origin.channel).and_then(|of| of.first_beyond(origin.service, origin.era))
        {
            self.drop_beyond(origin.channel, first);
        }
        while self.count > ALL_MAX
            && let Some((&channel, most)) = self.channels.iter().max_by_key(|(_, of)| of.by_event.len())
            && let Some((&first, _)) = most.by_event.first_key_value()
        {
            self.drop_beyond(channel, first);
        }
    }

    fn drop_beyond(&mut self, channel: ChannelId, event: u64) {
        if let Some(origin) = self.remove(channel, event) {
            self.gone.insert(origin);
            self.dropped += 1;
        }
    }

    fn remove(&mut self, channel: ChannelId, event: u64) -> Option<SeenOrigin> {
        let of_channel = self.channels.get_mut(&channel)?;
        let origin = of_channel.remove(event)?;
        if of_channel.by_event.is_empty() {
            self.channels.remove(&channel);
        }
        self.count -= 1;
        Some(origin)
    }

    /// Removes the origin of an event that was stored, but not admitted by its channel.
    pub(super) fn forget(&mut self, origin: SeenOrigin) {
        let of_channel = self.channels.get(&origin.channel);
        let is_it = |entry: &(&u64, &SeenOrigin)| *entry.1 == origin;
        let events = of_channel.map(|of| of.by_event.iter().filter(is_it).map(|(event, _)| *event).collect::<Vec<_>>());
        for event in events.unwrap_or_default() {
            self.remove(origin.channel, event);
            self.gone.insert(origin);
        }
    }

    /// Removes the origins of a channel that is gone.
    pub(super) fn drop_channel(&mut self, channel: ChannelId) {
        let of_channel = self.channels.remove(&channel).unwrap_or_default();
        self.count -= of_channel.by_event.len();
        self.gone.extend(of_channel.by_event.into_values());
    }

    /// Adds removals of origins to the batch being written.
    pub(super) fn remove_gone(&self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        if self.is_unsure {
            return batch.retain_origins(|event, origin| self.has(event, origin));
        }
        self.to_remove().try_for_each(|origin| batch.forget_origin(origin))
    }

    fn to_remove(&self) -> impl Iterator<Item = &SeenOrigin> {
        self.gone.iter().take(REMOVED_AT_ONCE + self.writing.len())
    }

    fn has(&self, event: u64, origin: SeenOrigin) -> bool {
        self.channels.get(&origin.channel).is_some_and(|of_channel| of_channel.by_event.get(&event) == Some(&origin))
    }

    /// Whether origins have yet to be removed from the disk.
    pub(super) fn has_gone(&self) -> bool {
        self.is_unsure || !self.gone.is_empty()
    }

    /// Notes that the batch is on the disk.
    pub(super) fn note_written(&mut self) {
        let removed =
            if core::mem::take(&mut self.is_unsure) { usize::MAX } else { REMOVED_AT_ONCE + self.writing.len() };
        for _ in 0..removed {
            if self.gone.pop_first().is_none() {
                break;
            }
        }
        self.writing.clear();
    }

    /// Notes that the batch failed, though it may be on the disk: its origins are removed with its events.
    pub(super) fn note_failed(&mut self) {
        for (event, origin) in core::mem::take(&mut self.writing).into_iter().rev() {
            self.remove(origin.channel, event);
        }
        self.is_unsure = true;
    }

    pub(super) const fn count(&self) -> u64 {
        self.count as u64
    }

    /// Takes the number of origins removed at a bound since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ProxyId, ProxyKey};

    const OWN: u64 = 1;

    fn event(SeenOrigin { channel, service, era, number }: SeenOrigin) -> Event {
        let mut event = Event::default();
        event.source = ProxyKey { channel, proxy: ProxyId(1) };
        event.set_origin(service, era, number, &[]);
        event
    }

    fn origin(service: u64, era: u64, number: u64) -> SeenOrigin {
        SeenOrigin { channel: ChannelId(3), service, era, number }
    }

    /// What is on the disk after a batch with these, each with the number of its event.
    fn write(seen: &mut SeenOrigins, on_disk: &mut BTreeSet<SeenOrigin>, origins: &[(u64, SeenOrigin)]) {
        for (number, origin) in origins {
            on_disk.extend(seen.add(*number, &event(*origin)));
        }
        if seen.is_unsure {
            on_disk.retain(|origin| seen.channels.values().any(|of| of.by_event.values().any(|kept| kept == origin)));
        } else {
            let gone: Vec<SeenOrigin> = seen.to_remove().copied().collect();
            assert!(gone.iter().all(|gone| on_disk.remove(gone)), "nothing goes twice");
        }
        seen.note_written();
        assert_eq!(seen.count(), on_disk.len() as u64);
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_any_other_is_none() {
        let origin = SeenOrigin { channel: ChannelId(7), service: u64::MAX, era: 1 << 40, number: 9 };
        let key = origin.key();
        assert_eq!(SeenOrigin::of_key(&key), Some(origin));
        assert!((0..key.len()).all(|length| SeenOrigin::of_key(&key[..length]).is_none()));
        assert_eq!(SeenOrigin::of_key(&[&key[..], &[0]].concat()), None);
    }

    #[test]
    fn origins_of_the_service_itself_are_not_kept_and_neither_are_events_without_any() {
        let mut seen = SeenOrigins::new(OWN, &[], |_| true);
        assert_eq!(seen.add(1, &event(origin(OWN, 5, 5))), None);
        assert_eq!(seen.add(2, &Event::default()), None);
        assert_eq!(seen.add(3, &event(origin(2, 5, 5))), Some(origin(2, 5, 5)));
        assert_eq!(seen.count(), 1);
    }

    #[test]
    fn of_each_era_the_last_16384_are_kept_in_the_order_in_which_they_were_written() {
        let (mut seen, mut on_disk) = (SeenOrigins::new(OWN, &[], |_| true), BTreeSet::new());
        // The numbers fall, as where a higher priority overtakes.
        let all: Vec<_> = (1..=20_000).map(|event| (event, origin(2, 7, 30_000 - event))).collect();
        all.chunks(100).for_each(|batch| write(&mut seen, &mut on_disk, batch));
        write(&mut seen, &mut on_disk, &[(20_001, origin(2, 8, 1)), (20_002, origin(3, 7, 1))]);
        let expected: BTreeSet<SeenOrigin> = all[20_000 - 16_384..].iter().map(|(_, origin)| *origin).collect();
        assert!(expected.is_subset(&on_disk) && on_disk.len() == 16_384 + 2, "{}", on_disk.len());
        assert_eq!(seen.take_dropped(), 20_000 - 16_384);
    }

    #[test]
    fn of_each_service_the_last_16_eras_are_kept() {
        let (mut seen, mut on_disk) = (SeenOrigins::new(OWN, &[], |_| true), BTreeSet::new());
        let eras: Vec<_> = (0..16).map(|era| (1 + era, origin(2, 100 - era, 1))).collect();
        write(&mut seen, &mut on_disk, &eras);
        // The first era is written to again, and so the second goes.
        write(&mut seen, &mut on_disk, &[(17, origin(2, 100, 2)), (18, origin(3, 1, 1)), (19, origin(2, 7, 1))]);
        assert!(on_disk.contains(&origin(2, 100, 1)) && !on_disk.contains(&origin(2, 99, 1)));
        assert_eq!((on_disk.len(), seen.take_dropped()), (18, 1));
    }

    #[test]
    fn of_all_channels_the_one_that_has_most_loses_what_is_beyond_the_bound() {
        let (mut seen, mut on_disk) = (SeenOrigins::new(OWN, &[], |_| true), BTreeSet::new());
        let innocent = SeenOrigin { channel: ChannelId(4), ..origin(9, 9, 9) };
        write(&mut seen, &mut on_disk, &[(1, innocent)]);
        let hostile: Vec<_> = (0..ALL_MAX as u64).map(|at| (2 + at, origin(10 + at, 1, 1))).collect();
        hostile.chunks(4_096).for_each(|batch| write(&mut seen, &mut on_disk, batch));
        assert_eq!((on_disk.len(), seen.take_dropped()), (ALL_MAX, 1));
        assert!(on_disk.contains(&innocent) && !on_disk.contains(&hostile[0].1));
    }

    #[test]
    fn what_a_batch_that_failed_may_have_left_goes_unless_it_comes_again() {
        let (mut seen, mut on_disk) = (SeenOrigins::new(OWN, &[], |_| true), BTreeSet::new());
        write(&mut seen, &mut on_disk, &[(1, origin(2, 7, 1))]);
        for number in 2..5 {
            on_disk.extend(seen.add(number, &event(origin(2, 7, number))));
        }
        seen.note_failed();
        assert_eq!(seen.count(), 1);
        write(&mut seen, &mut on_disk, &[(5, origin(2, 7, 3))]);
        assert_eq!(on_disk, BTreeSet::from([origin(2, 7, 1), origin(2, 7, 3)]));
        assert!(!seen.has_gone());
    }

    #[test]
    fn the_origins_of_a_channel_go_with_it_some_at_a_time() {
        let all: Vec<_> = (1..=10_000).map(|event| (event, origin(2, 7, event))).collect();
        let other = SeenOrigin { channel: ChannelId(4), ..origin(2, 7, 1) };
        for is_at_start in [false, true] {
            let mut on_disk: BTreeSet<SeenOrigin> = all.iter().map(|(_, origin)| *origin).chain([other]).collect();
            let of_both = [&all[..], &[(10_001, other)]].concat();
            let mut seen = SeenOrigins::new(OWN, &of_both, |channel| !is_at_start || channel == other.channel);
            seen.drop_channel(ChannelId(3));
            let mut batches = 0;
            while seen.has_gone() {
                seen.to_remove().for_each(|gone| assert!(on_disk.remove(gone)));
                seen.note_written();
                batches += 1;
            }
            assert_eq!((seen.count(), on_disk, batches), (1, BTreeSet::from([other]), 3));
        }
    }
}

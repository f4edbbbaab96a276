//! Events that wait for confirmations only: their unconfirmed consumers are known, and listed on the disk.
//!
//! A consumer or a link that is away for days has many millions of them. So there is no entry for each: for each consumer, a run of numbers
//! takes 4 octets, in blocks of 65,536 numbers of a channel and of events whose sizes have the same number of bits. An event whose state
//! changes is taken out, and added again once the change is on the disk. Octets are counted for each block: one event counts with the
//! average, which is between half and twice its size.

use std::collections::{BTreeMap, VecDeque};

use engine::{ChannelId, ProxyId, ProxyKey};

/// An event that waits for confirmations only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnconfirmedEvent {
    /// Octets of the event's record.
    pub(super) bytes: u64,
    /// Unconfirmed consumers in ascending order; empty if all of them are gone.
    pub(super) consumers: Vec<ProxyId>,
    /// The lane to notify once all consumers have the event.
    pub(super) awaited_by: Option<u32>,
}

/// All events that wait for confirmations only.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    blocks: BTreeMap<Key, Block>,
    events: u64,
    /// Blocks with events of a consumer that is gone.
    leaving: VecDeque<Key>,
}

/// A channel, the events' numbers without their low 16 bits, and the number of bits of their sizes.
type Key = (ChannelId, u64, u32);

#[derive(Debug, Default)]
struct Block {
    events: u32,
    bytes: u64,
    consumers: BTreeMap<ProxyId, Numbers>,
    awaited: BTreeMap<u32, Numbers>,
    /// Events of a consumer that is gone, not taken out yet.
    leaving: Numbers,
}

impl Unconfirmed {
    /// Number of events.
    pub(super) const fn len(&self) -> u64 {
        self.events
    }

    pub(super) fn add(&mut self, channel: ChannelId, number: u64, event: &UnconfirmedEvent) {
        let (high, low) = place_of(number);
        let key = (channel, high, u64::BITS - event.bytes.leading_zeros());
        let block = self.blocks.entry(key).or_default();
        block.events += 1;
        block.bytes += event.bytes;
        for consumer in &event.consumers {
            block.consumers.entry(*consumer).or_default().insert(low);
        }
        if let Some(lane) = event.awaited_by {
            block.awaited.entry(lane).or_default().insert(low);
        }
        self.events += 1;
    }

    /// Takes an event out. `None` if it is not there.
    pub(super) fn take(&mut self, channel: ChannelId, number: u64) -> Option<UnconfirmedEvent> {
        let (high, low) = place_of(number);
        let mut of_sizes = self.blocks.range_mut((channel, high, 0)..=(channel, high, u64::BITS));
        let (key, event, is_last) =
            of_sizes.find_map(|(key, block)| block.take(low).map(|event| (*key, event, block.events == 0)))?;
        self.events -= 1;
        if is_last {
            self.blocks.remove(&key);
        }
        Some(event)
    }

    /// Removes a consumer that is gone: its unconfirmed events are returned by [`take_leaving`](Self::take_leaving).
    pub(super) fn leave(&mut self, consumer: ProxyKey) {
        let of_channel = (consumer.channel, 0, 0)..=(consumer.channel, u64::MAX, u64::BITS);
        for (key, block) in self.blocks.range_mut(of_channel) {
            let Some(numbers) = block.consumers.remove(&consumer.proxy) else { continue };
            if block.leaving.is_empty() {
                block.leaving = numbers;
                self.leaving.push_back(*key);
            } else {
                numbers.0.into_iter().flat_map(|(first, last)| first..=last).for_each(|low| block.leaving.insert(low));
            }
        }
    }

    /// Whether there are events of consumers that are gone.
    pub(super) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Takes out an event of a consumer that is gone, with its channel and number.
    pub(super) fn take_leaving(&mut self) -> Option<(ChannelId, u64, UnconfirmedEvent)> {
        while let Some(key @ (channel, high, _)) = self.leaving.front().copied() {
            if let Some(low) = self.blocks.get(&key).and_then(|block| block.leaving.first()) {
                let number = high << 16 | u64::from(low);
                return self.take(channel, number).map(|event| (channel, number, event));
            }
            self.leaving.pop_front();
        }
        None
    }
}

fn place_of(number: u64) -> (u64, u16) {
    let [.., high, low] = number.to_be_bytes();
    (number >> 16, u16::from_be_bytes([high, low]))
}

impl Block {
    fn take(&mut self, low: u16) -> Option<UnconfirmedEvent> {
        let mut consumers = Vec::new();
        self.consumers.retain(|consumer, numbers| {
            if numbers.remove(low) {
                consumers.push(*consumer);
            }
            !numbers.is_empty()
        });
        if !self.leaving.remove(low) && consumers.is_empty() {
            return None;
        }
        let mut awaited_by = None;
        self.awaited.retain(|lane, numbers| {
            if numbers.remove(low) {
                awaited_by = Some(*lane);
            }
            !numbers.is_empty()
        });
        let bytes = self.bytes / u64::from(self.events.max(1));
        self.events = self.events.saturating_sub(1);
        // The last event counts with the remainder.
        let bytes = if self.events == 0 { self.bytes } else { bytes };
        self.bytes -= bytes;
        Some(UnconfirmedEvent { bytes, consumers, awaited_by })
    }
}

/// The low 16 bits of numbers: first and last of each run, in order. No two runs are adjacent.
#[derive(Debug, Default)]
struct Numbers(VecDeque<(u16, u16)>);

impl Numbers {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn first(&self) -> Option<u16> {
        self.0.front().map(|(first, _)| *first)
    }

    /// Index of the first run that does not end before a number.
    fn place_of(&self, low: u16) -> usize {
        self.0.partition_point(|(_, last)| *last < low)
    }

    fn insert(&mut self, low: u16) {
        let (at, runs) = (self.place_of(low), &mut self.0);
        let next = runs.get(at).copied().filter(|(first, _)| u32::from(*first) <= u32::from(low) + 1);
        if next.is_some_and(|(first, _)| first <= low) {
            return;
        }
        if let Some(before) = at.checked_sub(1).and_then(|before| runs.get_mut(before))
            && before.1 + 1 == low
        {
            before.1 = next.map_or(low, |(_, last)| last);
            if next.is_some() {
                runs.remove(at);
            }
        } else if let Some(next) = runs.get_mut(at).filter(|_| next.is_some()) {
            next.0 = low;
        } else {
            runs.insert(at, (low, low));
        }
    }

    /// Removes a number. Returns whether it was there.
    fn remove(&mut self, low: u16) -> bool {
        let (at, runs) = (self.place_of(low), &mut self.0);
        let Some(run) = runs.get_mut(at).filter(|(first, _)| *first <= low) else { return false };
        match *run {
            (first, last) if first == last => _ = runs.remove(at),
            (first, _) if first == low => run.0 += 1,
            (_, last) if last == low => run.1 -= 1,
            (first, last) => {
                *run = (low + 1, last);
                runs.insert(at, (first, low - 1));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const CHANNELS: u32 = 2;

    /// Naive: an entry for each event.
    #[derive(Default)]
    struct Model {
        events: BTreeMap<(ChannelId, u64), (BTreeSet<ProxyId>, Option<u32>)>,
        sizes: BTreeMap<(ChannelId, u64), u64>,
        leaving: BTreeSet<(ChannelId, u64)>,
        bytes: u64,
    }

    #[test]
    fn what_is_taken_out_is_what_was_added_whatever_the_order() {
        for seed in 0..12 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut unconfirmed, mut model) = (Unconfirmed::default(), Model::default());
            // Dense, with gaps, and over the ends of blocks.
            let from = 65_536 * 3 - random.u64(..100);
            let reach = [100, 5_000, 400_000][usize::try_from(seed % 3).unwrap()];
            for _ in 0..30_000 {
                let (channel, number) = (ChannelId(random.u32(..CHANNELS)), from + random.u64(..reach));
                match random.u32(..100) {
                    0..60 if !model.events.contains_key(&(channel, number)) => {
                        let consumers: BTreeSet<_> = (0..random.u32(1..4)).map(|_| ProxyId(random.u32(..5))).collect();
                        let bits = random.u32(1..24);
                        let event = UnconfirmedEvent {
                            bytes: random.u64(..1 << bits),
                            consumers: consumers.iter().copied().collect(),
                            awaited_by: random.bool().then(|| random.u32(..2)),
                        };
                        unconfirmed.add(channel, number, &event);
                        model.bytes += event.bytes;
                        model.sizes.insert((channel, number), event.bytes);
                        model.events.insert((channel, number), (consumers, event.awaited_by));
                    }
                    60..95 => {
                        let event = unconfirmed.take(channel, number);
                        model.bytes -= event.as_ref().map_or(0, |event| event.bytes);
                        if let Some(event) = &event {
                            let size = model.sizes[&(channel, number)];
                            assert!((size / 2..=size * 2).contains(&event.bytes), "{size}: {event:?}");
                        }
                        let expected = model.events.remove(&(channel, number));
                        model.leaving.remove(&(channel, number));
                        assert_eq!(said(event.as_ref()), expected, "seed {seed}");
                    }
                    95 if random.u32(..400) == 0 => {
                        let consumer = ProxyKey { channel, proxy: ProxyId(random.u32(..5)) };
                        unconfirmed.leave(consumer);
                        for (key, (consumers, _)) in &mut model.events {
                            if key.0 == channel && consumers.remove(&consumer.proxy) {
                                model.leaving.insert(*key);
                            }
                        }
                    }
                    96..100 => take_leaving(&mut unconfirmed, &mut model),
                    _ => {}
                }
                assert_eq!(unconfirmed.len(), model.events.len() as u64);
            }
            while unconfirmed.is_leaving() {
                take_leaving(&mut unconfirmed, &mut model);
            }
            assert!(model.leaving.is_empty(), "seed {seed}");
            for ((channel, number), expected) in core::mem::take(&mut model.events) {
                let event = unconfirmed.take(channel, number);
                model.bytes -= event.as_ref().map_or(0, |event| event.bytes);
                assert_eq!(said(event.as_ref()), Some(expected), "seed {seed}");
            }
            assert!(model.bytes == 0 && unconfirmed.blocks.is_empty(), "no octet is left over");
        }
    }

    fn said(event: Option<&UnconfirmedEvent>) -> Option<(BTreeSet<ProxyId>, Option<u32>)> {
        event.map(|event| (event.consumers.iter().copied().collect(), event.awaited_by))
    }

    fn take_leaving(unconfirmed: &mut Unconfirmed, model: &mut Model) {
        let taken = unconfirmed.take_leaving();
        assert_eq!(taken.is_some(), !model.leaving.is_empty());
        let Some((channel, number, event)) = taken else { return };
        let key = (channel, number);
        assert!(model.leaving.remove(&key));
        model.bytes -= event.bytes;
        assert_eq!(said(Some(&event)), model.events.remove(&key));
    }
}

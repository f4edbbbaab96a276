//! Dead letters: undeliverable events of consumers in channels without a `DeadLetterChannel`.
//!
//! Such an event stays in its place on the disk, with a note in the list of its consumers. Each channel has limits of their number and
//! octets: beyond either, the oldest is dropped.

use std::collections::{BTreeMap, BTreeSet};

use engine::{ChannelId, ProxyId, ProxyKey};

/// Limits of one channel's dead letters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadLetterLimits {
    /// Maximum events, each counted for each consumer; 0 stores none.
    pub(crate) events_max: u64,
    /// Maximum octets of these events.
    pub(crate) bytes_max: u64,
}

/// A dead letter's key: the event's number, and the consumer.
pub(crate) type DeadLetterId = (u64, ProxyKey);

/// A dead letter, without its event's number.
#[derive(Debug, Clone, Copy)]
struct Entry {
    consumer: ProxyKey,
    /// Time at which it became one, in 100 ns since 15 October 1582.
    since: u64,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) struct DeadLetters {
    limits: DeadLetterLimits,
    by_event: BTreeMap<u64, Vec<Entry>>,
    by_channel: BTreeMap<ChannelId, OfChannel>,
    count: u64,
}

#[derive(Debug, Default)]
struct OfChannel {
    /// Dead letters by age: time, event's number, consumer.
    entries: BTreeSet<(u64, u64, ProxyId)>,
    bytes: u64,
}

impl DeadLetters {
    pub(crate) const fn new(limits: DeadLetterLimits) -> Self {
        Self { limits, by_event: BTreeMap::new(), by_channel: BTreeMap::new(), count: 0 }
    }

    /// Adds a dead letter of this many octets, unless it is one already. The limits may be exceeded afterwards: see
    /// [`first_beyond`](Self::first_beyond).
    pub(crate) fn add(&mut self, (number, consumer): DeadLetterId, since: u64, bytes: u64) {
        let entries = self.by_event.entry(number).or_default();
        if entries.iter().any(|entry| entry.consumer == consumer) {
            return;
        }
        entries.push(Entry { consumer, since, bytes });
        let channel = self.by_channel.entry(consumer.channel).or_default();
        channel.entries.insert((since, number, consumer.proxy));
        channel.bytes += bytes;
        self.count += 1;
    }

    /// Removes a dead letter. Returns whether it was one.
    pub(crate) fn remove(&mut self, (number, consumer): DeadLetterId) -> bool {
        let Some(entries) = self.by_event.get_mut(&number) else { return false };
        let Some(at) = entries.iter().position(|entry| entry.consumer == consumer) else { return false };
        let Entry { since, bytes, .. } = entries.swap_remove(at);
        if entries.is_empty() {
            self.by_event.remove(&number);
        }
        if let Some(channel) = self.by_channel.get_mut(&consumer.channel) {
            channel.entries.remove(&(since, number, consumer.proxy));
            channel.bytes -= bytes;
            if channel.entries.is_empty() {
                self.by_channel.remove(&consumer.channel);
            }
        }
        self.count -= 1;
        true
    }

    /// Whether an event of this many octets is within the limits by itself.
    pub(crate) const fn may_have(&self, bytes: u64) -> bool {
        self.limits.events_max > 0 && bytes <= self.limits.bytes_max
    }

    /// The oldest dead letter of a channel that is beyond its limits.
    pub(crate) fn first_beyond(&self, channel: ChannelId) -> Option<DeadLetterId> {
        let DeadLetterLimits { events_max, bytes_max } = self.limits;
        let of_channel = self.by_channel.get(&channel)?;
        let is_beyond = of_channel.entries.len() as u64 > events_max || of_channel.bytes > bytes_max;
        of_channel.first(channel).filter(|_| is_beyond)
    }

    /// The oldest dead letter of a channel.
    pub(crate) fn first_of(&self, channel: ChannelId) -> Option<DeadLetterId> {
        self.by_channel.get(&channel)?.first(channel)
    }

    /// The channels with dead letters.
    pub(crate) fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.by_channel.keys().copied()
    }

    /// Whether an event is a dead letter for some consumer.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.by_event.contains_key(&number)
    }

    /// Whether an event is a dead letter for this consumer.
    pub(crate) fn is_there(&self, (number, consumer): DeadLetterId) -> bool {
        self.of_event(number).any(|(stored, _)| stored == consumer)
    }

    /// The consumers for which an event is a dead letter, and since when.
    pub(crate) fn of_event(&self, number: u64) -> impl Iterator<Item = (ProxyKey, u64)> {
        let entries = self.by_event.get(&number).into_iter().flatten();
        entries.map(|entry| (entry.consumer, entry.since))
    }

    /// The dead letters behind one, by number and consumer, and since when each is one.
    pub(crate) fn behind(&self, (number, proxy): (u64, ProxyId)) -> impl Iterator<Item = (DeadLetterId, u64)> {
        self.by_event.range(number..).flat_map(move |(at, entries)| {
            let mut sorted: Vec<_> = entries.iter().map(|entry| ((*at, entry.consumer), entry.since)).collect();
            sorted.retain(|((at, consumer), _)| (*at, consumer.proxy) > (number, proxy));
            sorted.sort_unstable();
            sorted
        })
    }

    /// Number of dead letters in all channels.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}

impl OfChannel {
    fn first(&self, channel: ChannelId) -> Option<DeadLetterId> {
        let (_, number, proxy) = self.entries.first()?;
        Some((*number, ProxyKey { channel, proxy: *proxy }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: ChannelId = ChannelId(3);

    fn of(proxy: u32) -> ProxyKey {
        ProxyKey { channel: CHANNEL, proxy: ProxyId(proxy) }
    }

    #[test]
    fn at_either_bound_of_a_channel_the_first_dead_letter_is_beyond_it() {
        let mut entries = DeadLetters::new(DeadLetterLimits { events_max: 2, bytes_max: 100 });
        // The second event becomes a dead letter first, and the same one twice.
        entries.add((2, of(1)), 10, 40);
        entries.add((1, of(1)), 20, 40);
        entries.add((1, of(1)), 30, 40);
        assert_eq!((entries.count(), entries.first_beyond(CHANNEL)), (2, None));
        entries.add((1, of(2)), 40, 10);
        assert_eq!(entries.first_beyond(CHANNEL), Some((2, of(1))));
        assert!(entries.remove((2, of(1))) && !entries.remove((2, of(1))));
        assert_eq!(entries.first_beyond(CHANNEL), None);
        assert!(entries.remove((1, of(2))));
        entries.add((9, of(2)), 50, 61);
        assert_eq!(entries.first_beyond(CHANNEL), Some((1, of(1))), "by octets");
        // Another channel has room of its own.
        entries.add((9, ProxyKey { channel: ChannelId(4), proxy: ProxyId(2) }), 50, 61);
        assert_eq!(entries.first_beyond(ChannelId(4)), None);
    }

    #[test]
    fn dead_letters_are_listed_by_event_and_consumer_each_behind_the_one_before() {
        let mut entries = DeadLetters::new(DeadLetterLimits { events_max: 9, bytes_max: 100 });
        for (number, proxy) in [(5, 1), (3, 2), (3, 1), (4, 1)] {
            entries.add((number, of(proxy)), 10, 1);
        }
        let mut listed = Vec::new();
        let mut behind = (0, ProxyId(0));
        while let Some((number, consumer)) = entries.behind(behind).next().map(|(id, _)| id) {
            behind = (number, consumer.proxy);
            listed.push((number, consumer.proxy.0));
        }
        assert_eq!(listed, [(3, 1), (3, 2), (4, 1), (5, 1)]);
    }
}

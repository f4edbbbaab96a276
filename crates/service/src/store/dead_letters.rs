//! Events that are kept aside: each was undeliverable for a consumer, and its channel names none to which such events go.
//!
//! Such an event stays where it is on the medium; that it is kept aside is written beside the list of its consumers. Of each channel so
//! many are kept as may be, by number and by octets: at either bound the one goes that was kept aside first.

use std::collections::{BTreeMap, BTreeSet};

use engine::{ChannelId, ProxyId, ProxyKey};

/// What a channel may have kept aside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadLetterLimits {
    /// Events, each counted for each consumer; 0 keeps none aside.
    pub(crate) events_max: u64,
    /// Octets of these.
    pub(crate) bytes_max: u64,
}

/// By which an event that is kept aside is known: its number, and for which consumer it is.
pub(crate) type LetterId = (u64, ProxyKey);

/// For one consumer.
#[derive(Debug, Clone, Copy)]
struct Letter {
    consumer: ProxyKey,
    /// Since when, in 100 ns since 15 October 1582.
    since: u64,
    bytes: u64,
}

/// All events that are kept aside.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    limits: DeadLetterLimits,
    by_event: BTreeMap<u64, Vec<Letter>>,
    by_channel: BTreeMap<ChannelId, OfChannel>,
    count: u64,
}

#[derive(Debug, Default)]
struct OfChannel {
    /// By the time since when they are kept aside.
    letters: BTreeSet<(u64, u64, ProxyId)>,
    bytes: u64,
}

impl DeadLetters {
    pub(crate) const fn new(limits: DeadLetterLimits) -> Self {
        Self { limits, by_event: BTreeMap::new(), by_channel: BTreeMap::new(), count: 0 }
    }

    /// Keeps an event of so many octets aside for a consumer, unless it is already. More may be kept than may be:
    /// [`first_beyond`](Self::first_beyond).
    pub(crate) fn add(&mut self, (number, consumer): LetterId, since: u64, bytes: u64) {
        let letters = self.by_event.entry(number).or_default();
        if letters.iter().any(|letter| letter.consumer == consumer) {
            return;
        }
        letters.push(Letter { consumer, since, bytes });
        let channel = self.by_channel.entry(consumer.channel).or_default();
        channel.letters.insert((since, number, consumer.proxy));
        channel.bytes += bytes;
        self.count += 1;
    }

    /// An event is not kept aside for a consumer any more. Says whether it was.
    pub(crate) fn remove(&mut self, (number, consumer): LetterId) -> bool {
        let Some(letters) = self.by_event.get_mut(&number) else { return false };
        let Some(at) = letters.iter().position(|letter| letter.consumer == consumer) else { return false };
        let Letter { since, bytes, .. } = letters.swap_remove(at);
        if letters.is_empty() {
            self.by_event.remove(&number);
        }
        if let Some(channel) = self.by_channel.get_mut(&consumer.channel) {
            channel.letters.remove(&(since, number, consumer.proxy));
            channel.bytes -= bytes;
            if channel.letters.is_empty() {
                self.by_channel.remove(&consumer.channel);
            }
        }
        self.count -= 1;
        true
    }

    /// Whether an event of so many octets may be kept aside, if all others go.
    pub(crate) const fn may_have(&self, bytes: u64) -> bool {
        self.limits.events_max > 0 && bytes <= self.limits.bytes_max
    }

    /// The one that goes next, where a channel has more than it may.
    pub(crate) fn first_beyond(&self, channel: ChannelId) -> Option<LetterId> {
        let DeadLetterLimits { events_max, bytes_max } = self.limits;
        let of_channel = self.by_channel.get(&channel)?;
        let is_beyond = of_channel.letters.len() as u64 > events_max || of_channel.bytes > bytes_max;
        of_channel.first(channel).filter(|_| is_beyond)
    }

    /// The first of a channel, by the time since when it is kept aside.
    pub(crate) fn first_of(&self, channel: ChannelId) -> Option<LetterId> {
        self.by_channel.get(&channel)?.first(channel)
    }

    /// Channels of which some are kept aside.
    pub(crate) fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.by_channel.keys().copied()
    }

    /// Whether an event is kept aside for some consumer.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.by_event.contains_key(&number)
    }

    /// Whether it is for this one.
    pub(crate) fn is_there(&self, (number, consumer): LetterId) -> bool {
        self.of_event(number).any(|(kept, _)| kept == consumer)
    }

    /// The consumers for which an event is kept aside, and since when.
    pub(crate) fn of_event(&self, number: u64) -> impl Iterator<Item = (ProxyKey, u64)> {
        let letters = self.by_event.get(&number).into_iter().flatten();
        letters.map(|letter| (letter.consumer, letter.since))
    }

    /// Those behind one, by number and consumer, and since when each is kept aside.
    pub(crate) fn behind(&self, (number, proxy): (u64, ProxyId)) -> impl Iterator<Item = (LetterId, u64)> {
        self.by_event.range(number..).flat_map(move |(at, letters)| {
            let mut sorted: Vec<_> = letters.iter().map(|letter| ((*at, letter.consumer), letter.since)).collect();
            sorted.retain(|((at, consumer), _)| (*at, consumer.proxy) > (number, proxy));
            sorted.sort_unstable();
            sorted
        })
    }

    /// How many are kept aside, of all channels.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}

impl OfChannel {
    fn first(&self, channel: ChannelId) -> Option<LetterId> {
        let (_, number, proxy) = self.letters.first()?;
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
    fn at_either_bound_of_a_channel_the_one_that_was_kept_aside_first_is_beyond_it() {
        let mut letters = DeadLetters::new(DeadLetterLimits { events_max: 2, bytes_max: 100 });
        // The second event is kept aside first, and the same one twice.
        letters.add((2, of(1)), 10, 40);
        letters.add((1, of(1)), 20, 40);
        letters.add((1, of(1)), 30, 40);
        assert_eq!((letters.count(), letters.first_beyond(CHANNEL)), (2, None));
        letters.add((1, of(2)), 40, 10);
        assert_eq!(letters.first_beyond(CHANNEL), Some((2, of(1))));
        assert!(letters.remove((2, of(1))) && !letters.remove((2, of(1))));
        assert_eq!(letters.first_beyond(CHANNEL), None);
        assert!(letters.remove((1, of(2))));
        letters.add((9, of(2)), 50, 61);
        assert_eq!(letters.first_beyond(CHANNEL), Some((1, of(1))), "by octets");
        // Another channel has room of its own.
        letters.add((9, ProxyKey { channel: ChannelId(4), proxy: ProxyId(2) }), 50, 61);
        assert_eq!(letters.first_beyond(ChannelId(4)), None);
    }

    #[test]
    fn letters_are_listed_by_event_and_consumer_each_behind_the_one_before() {
        let mut letters = DeadLetters::new(DeadLetterLimits { events_max: 9, bytes_max: 100 });
        for (number, proxy) in [(5, 1), (3, 2), (3, 1), (4, 1)] {
            letters.add((number, of(proxy)), 10, 1);
        }
        let mut listed = Vec::new();
        let mut behind = (0, ProxyId(0));
        while let Some((number, consumer)) = letters.behind(behind).next().map(|(id, _)| id) {
            behind = (number, consumer.proxy);
            listed.push((number, consumer.proxy.0));
        }
        assert_eq!(listed, [(3, 1), (3, 2), (4, 1), (5, 1)]);
    }
}

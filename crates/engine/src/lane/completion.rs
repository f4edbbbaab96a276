//! When an event is complete: for a consumer, when it has left that consumer's outbox for good; for all, when it has left the lane.
//!
//! A caller that hands an event in and wants reports of it gives it a number ([`Event::watch`]): a journal that may forget the event then,
//! or a protocol that answers a supplier when all consumers have what it sent. Of events without a number nothing is noted, and where a
//! lane has none with one, that costs a comparison for each.

use alloc::collections::VecDeque;
use core::num::NonZeroU64;

use super::Lane;
use crate::event::EventAt;
use crate::{DiscardReason, Event, LaneId, ProxyKey};

/// What became of an event that [is watched](Event::watch), for [`Lane::poll_completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// It came in for one consumer, which is yet to confirm it. Reported for events with [`watch_each`](Event::watch_each) set.
    Begins {
        /// The event.
        watch: NonZeroU64,
        /// The consumer's proxy.
        consumer: ProxyKey,
    },
    /// All consumers that it is for on this lane were reported. Reported for events with [`watch_each`](Event::watch_each) set, once.
    Begun {
        /// The event.
        watch: NonZeroU64,
        /// How many other lanes it is to be handed over to: each of these reports the same, if it takes it over.
        bridges: u32,
    },
    /// For one consumer: it has the event, or will never get it. Reported for events with [`watch_each`](Event::watch_each) set, once for
    /// each consumer that it was for when it came in.
    ForConsumer {
        /// The event.
        watch: NonZeroU64,
        /// The consumer's proxy, which may be gone.
        consumer: ProxyKey,
        /// How it ended.
        how: Disposition,
    },
    /// Another lane has the event now, under the same number: that lane reports its consumers, and when it is complete for all of them.
    /// Reported before this lane reports the latter.
    TakenOver {
        /// The event.
        watch: NonZeroU64,
        /// The lane.
        by: LaneId,
    },
    /// For one consumer, of all events that came in before and were not reported as complete for it: it will never get them. Reported for a
    /// consumer that is gone and for which events were kept [elsewhere](crate::Overflow); and for one for which some were lost there, when
    /// it has all others.
    Gone {
        /// The consumer's proxy.
        consumer: ProxyKey,
    },
    /// For all consumers on this lane but those for which it is kept [elsewhere](crate::Overflow), and was reported to be: no other has it
    /// any more, or none wanted it. Reported once, and last. It is complete altogether when that has been reported by the lane to which it
    /// was handed in, and by each that took it over.
    ForAll {
        /// The event.
        watch: NonZeroU64,
    },
}

impl Completion {
    /// The event that it is about; nothing if it is about all that a consumer was yet to get.
    #[must_use]
    pub const fn watch(&self) -> Option<NonZeroU64> {
        match self {
            Self::Begins { watch, .. }
            | Self::Begun { watch, .. }
            | Self::ForConsumer { watch, .. }
            | Self::TakenOver { watch, .. }
            | Self::ForAll { watch } => Some(*watch),
            Self::Gone { .. } => None,
        }
    }
}

/// How an event ended for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The consumer has it, as far as its kind of delivery can tell: it answered or, of a one-way delivery, the event was handed to
    /// its socket.
    Delivered,
    /// Filters that were asked at the last moment say that the consumer does not want it.
    Unwanted,
    /// It was dropped.
    Dropped(DiscardReason),
}

/// Reports of watched events.
#[derive(Debug, Default)]
pub(super) struct Completions {
    /// Watched events that the lane has.
    watched: u64,
    reports: VecDeque<Completion>,
}

impl Completions {
    /// An event came in.
    #[inline]
    pub(super) fn begin(&mut self, event: &Event) {
        self.watched += u64::from(event.watch.is_some());
    }

    /// An event that came in has no holder any more.
    #[inline]
    pub(super) fn end(&mut self, event: &Event) {
        if let Some(watch) = event.watch {
            self.watched = self.watched.saturating_sub(1);
            if !event.returned {
                self.reports.push_back(Completion::ForAll { watch });
            }
        }
    }

    /// No consumer wanted an event, and it did not come in.
    #[inline]
    pub(super) fn note_unwanted(&mut self, event: &Event) {
        let Some(watch) = event.watch else { return };
        if event.watch_each {
            self.reports.push_back(Completion::Begun { watch, bridges: 0 });
        }
        self.reports.push_back(Completion::ForAll { watch });
    }

    /// For a consumer that is gone, or for which events were lost, each event cannot be reported.
    #[cold]
    pub(super) fn note_gone(&mut self, consumer: ProxyKey) {
        self.reports.push_back(Completion::Gone { consumer });
    }

    /// All consumers that an event is for were reported.
    #[cold]
    pub(super) fn note_begun(&mut self, watch: NonZeroU64, bridges: usize) {
        self.reports.push_back(Completion::Begun { watch, bridges: u32::try_from(bridges).unwrap_or(u32::MAX) });
    }
}

impl Lane {
    /// A watched event is in an outbox. (It may have left it already, if it made the consumer's outbox too full.)
    #[cold]
    pub(super) fn complete_begins(&mut self, watch: NonZeroU64, slot: u32) {
        let consumer = self.outboxes.get(slot).map(|outbox| outbox.key);
        self.news.completion.reports.extend(consumer.map(|consumer| Completion::Begins { watch, consumer }));
    }

    /// The next report of events that [are watched](Event::watch), in the order in which it happened.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.news.completion.reports.pop_front()
    }

    /// An event leaves an outbox for good, or does not come into it, and is still held by the lane.
    #[inline]
    pub(super) fn complete(&mut self, slot: u32, event: EventAt, how: Disposition) {
        if self.news.completion.watched > 0 {
            let outbox = self.outboxes.get(slot).map(|outbox| (outbox.key, outbox.bridge));
            if let Some((key, bridge)) = outbox {
                self.complete_for(key, bridge, event, how);
            }
        }
    }

    /// The same for the outbox of a consumer that is gone.
    pub(super) fn complete_orphaned(&mut self, consumer: ProxyKey, event: EventAt, reason: DiscardReason) {
        if self.news.completion.watched > 0 {
            self.complete_for(consumer, None, event, Disposition::Dropped(reason));
        }
    }

    #[cold]
    fn complete_for(&mut self, consumer: ProxyKey, bridge: Option<LaneId>, event: EventAt, how: Disposition) {
        let Some(event) = self.events.get(event) else { return };
        let Some(watch) = event.watch else { return };
        let completion = match (bridge, how) {
            (Some(by), Disposition::Delivered) => Some(Completion::TakenOver { watch, by }),
            // It was for no consumer in particular.
            (Some(_), _) => None,
            (None, how) => event.watch_each.then_some(Completion::ForConsumer { watch, consumer, how }),
        };
        self.news.completion.reports.extend(completion);
    }
}

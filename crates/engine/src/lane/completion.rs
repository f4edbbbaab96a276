//! Completion of events: for a consumer, when the event has left its outbox for good; for all, when the event has left
//! the lane.
//!
//! A caller that needs reports of an event gives it a number ([`Event::watch`]): a journal that may forget the event then, or a protocol
//! that answers a supplier when all consumers have taken its event. Events without a number are not tracked, and cost one comparison each
//! if the lane has none with a number.

use alloc::collections::VecDeque;
use core::num::NonZeroU64;

use super::Lane;
use crate::event::EventAt;
use crate::{DiscardReason, Event, LaneId, ProxyKey};

/// A report of an event that [is watched](Event::watch), from [`Lane::poll_completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// The event waits for one consumer to confirm it. Reported for events with [`watch_each`](Event::watch_each).
    Begins {
        /// The event.
        watch: NonZeroU64,
        /// The consumer's proxy.
        consumer: ProxyKey,
    },
    /// All consumers of the event on this lane were reported. Reported once for events with [`watch_each`](Event::watch_each).
    Begun {
        /// The event.
        watch: NonZeroU64,
        /// Number of other lanes that the event is to be handed over to: each reports the same, if it takes the event over.
        bridges: u32,
    },
    /// The event is complete for one consumer: delivered, or never to be delivered. Reported for events with
    /// [`watch_each`](Event::watch_each), once for each consumer that was a destination.
    ForConsumer {
        /// The event.
        watch: NonZeroU64,
        /// The consumer's proxy, which may be gone.
        consumer: ProxyKey,
        /// How the event ended.
        how: Disposition,
    },
    /// Another lane has taken the event over, under the same number: it reports the event's consumers there, and its
    /// completion for all of them. Reported before this lane's own `ForAll`.
    TakenOver {
        /// The event.
        watch: NonZeroU64,
        /// The lane that took it over.
        by: LaneId,
    },
    /// All earlier events not yet reported as complete for one consumer are never delivered to it. Reported for a
    /// consumer that is gone and had events stored [elsewhere](crate::Overflow), and for one that lost some there,
    /// once it has taken all others.
    Gone {
        /// The consumer's proxy.
        consumer: ProxyKey,
    },
    /// The event is complete for all consumers on this lane, or it had none; those for which it is reported as stored
    /// [elsewhere](crate::Overflow) do not count. Reported once, and last. It is complete altogether when the lane
    /// that it was handed in to, and each lane that took it over, have reported this.
    ForAll {
        /// The event.
        watch: NonZeroU64,
    },
}

impl Completion {
    /// The event of the report; `None` if the report is about all events left to a consumer.
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

/// Outcome of an event for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// Delivered, as far as the kind of delivery can tell: the consumer answered or, of a one-way delivery, the event
    /// was written to its socket.
    Delivered,
    /// Rejected for the consumer by remote filters that were called before the delivery.
    Unwanted,
    /// Dropped.
    Dropped(DiscardReason),
}

/// Reports of watched events.
#[derive(Debug, Default)]
pub(super) struct Completions {
    /// Number of watched events on the lane.
    watched: u64,
    reports: VecDeque<Completion>,
}

impl Completions {
    /// Counts an event that was admitted.
    #[inline]
    pub(super) fn begin(&mut self, event: &Event) {
        self.watched += u64::from(event.watch.is_some());
    }

    /// Reports an event that has no holder any more.
    #[inline]
    pub(super) fn end(&mut self, event: &Event) {
        if let Some(watch) = event.watch {
            self.watched = self.watched.saturating_sub(1);
            if !event.returned {
                self.reports.push_back(Completion::ForAll { watch });
            }
        }
    }

    /// Reports an event without destinations, which was not admitted.
    #[inline]
    pub(super) fn note_unwanted(&mut self, event: &Event) {
        let Some(watch) = event.watch else { return };
        if event.watch_each {
            self.reports.push_back(Completion::Begun { watch, bridges: 0 });
        }
        self.reports.push_back(Completion::ForAll { watch });
    }

    /// Reports a consumer that is gone or lost events, where single events cannot be reported.
    #[cold]
    pub(super) fn note_gone(&mut self, consumer: ProxyKey) {
        self.reports.push_back(Completion::Gone { consumer });
    }

    /// Reports that all consumers of an event were reported.
    #[cold]
    pub(super) fn note_begun(&mut self, watch: NonZeroU64, bridges: usize) {
        self.reports.push_back(Completion::Begun { watch, bridges: u32::try_from(bridges).unwrap_or(u32::MAX) });
    }
}

impl Lane {
    /// Reports a watched event in an outbox. (It may have left again, if it made the outbox too full.)
    #[cold]
    pub(super) fn complete_begins(&mut self, watch: NonZeroU64, slot: u32) {
        let consumer = self.outboxes.get(slot).map(|outbox| outbox.key);
        self.news.completion.reports.extend(consumer.map(|consumer| Completion::Begins { watch, consumer }));
    }

    /// The next report of [watched](Event::watch) events, in the order in which they happened.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.news.completion.reports.pop_front()
    }

    /// Reports an event that leaves an outbox for good, or is not put into it, while the lane still holds it.
    #[inline]
    pub(super) fn complete(&mut self, slot: u32, event: EventAt, how: Disposition) {
        if self.news.has_sets && self.outboxes.get(slot).is_some_and(|outbox| outbox.waiting.sets.is_some()) {
            return self.complete_of_set(slot, event, how);
        }
        if self.news.completion.watched > 0 {
            let outbox = self.outboxes.get(slot).map(|outbox| (outbox.key, outbox.bridge));
            if let Some((key, bridge)) = outbox {
                self.complete_for(key, bridge, event, how);
            }
        }
    }

    /// Reports an event that is dropped from the outbox of a consumer that is gone.
    pub(super) fn complete_orphaned(&mut self, consumer: ProxyKey, event: EventAt, reason: DiscardReason) {
        if self.news.completion.watched > 0 {
            self.complete_for(consumer, None, event, Disposition::Dropped(reason));
        }
    }

    #[cold]
    pub(super) fn complete_for(
        &mut self,
        consumer: ProxyKey,
        bridge: Option<LaneId>,
        event: EventAt,
        how: Disposition,
    ) {
        let Some(event) = self.events.get(event) else { return };
        let Some(watch) = event.watch else { return };
        let completion = match (bridge, how) {
            (Some(by), Disposition::Delivered) => Some(Completion::TakenOver { watch, by }),
            // A bridge stands for no consumer in particular.
            (Some(_), _) => None,
            (None, how) => event.watch_each.then_some(Completion::ForConsumer { watch, consumer, how }),
        };
        self.news.completion.reports.extend(completion);
    }
}

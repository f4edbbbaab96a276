//! Persistent events of a lane: they wait until the store has them, and then go on like any other.
//!
//! A supplier's events stay in order: an event that follows a waiting one waits too, whatever its own reliability.

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;

use engine::{ChannelId, Completion, DiscardReason, Disposition, Event, PendingEvent, ProxyKey};
use hashbrown::HashMap;

use crate::lane::context::Context;
use crate::lane::intake::acknowledgements;
use crate::lane::io::slots::Token;
use crate::protocols::Protocols;
use crate::protocols::forms;
use crate::store::journal::{
    Again, Chunk, EVENT_BYTES_MAX, EVENTS_MAX, FromStore, Link, Posting, StoreRefusal, ToStore,
};
use crate::store::origins::SeenOrigin;
use crate::store::record::Record;
use crate::time::UtcClock;

/// Events of a lane that wait for the store, or follow one that does.
#[derive(Default)]
pub(crate) struct Journal {
    /// `None` where there is no store.
    pub(super) link: Option<Link>,
    /// Waiting events in order. Those that can go on are in front; those to be posted, or with the store, are behind.
    waiting: VecDeque<Waiting>,
    /// Number of events, from the front, that have been examined for posting.
    examined: usize,
    /// Events that are with the store, and their octets.
    sent: usize,
    sent_bytes: usize,
    /// Number of the last posting, which its answer repeats.
    last_posting: u64,
    /// Number of waiting events by supplier.
    by_source: HashMap<ProxyKey, u32>,
}

pub(super) struct Waiting {
    pub(super) source: ProxyKey,
    pub(super) pending_ack: Token,
    pub(super) state: State,
    /// Time for which the acknowledgement waits for consumers afterwards, if it does.
    pub(super) within: Option<Duration>,
}

/// Message of the store.
pub(super) enum Received {
    /// Outcome of an event that was posted.
    Answer,
    /// A persistent event is complete for all consumers.
    Completed(NonZeroU64),
    /// A dead letter in the store is to be delivered once more.
    Again(Box<Again>),
}

pub(super) enum State {
    /// The event is persistent and has yet to be posted.
    ToSend(PendingEvent),
    /// The event is with the store.
    Sent { posting: u64, bytes: usize },
    /// The event is on disk, or not persistent.
    Done(PendingEvent),
    /// The store has refused the event.
    Failed(PendingEvent, StoreRefusal),
}

/// Time to wait for events being restored, before messages are looked at.
const RESTORED_WITHIN: Duration = Duration::from_millis(10);

impl Journal {
    pub(crate) fn new(link: Option<Link>) -> Self {
        Self { link, ..Self::default() }
    }

    pub(super) const fn is_there(&self) -> bool {
        self.link.is_some()
    }

    /// Whether events are still being restored, which are taken in before all others.
    pub(crate) fn is_restoring(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.restored.is_some())
    }

    /// The next restored events; `None` if there are none at the moment, or none any more.
    pub(super) fn next_restored(&mut self) -> Option<Chunk> {
        let link = self.link.as_mut()?;
        match link.restored.as_ref()?.recv_timeout(RESTORED_WITHIN) {
            Ok(chunk) => Some(chunk),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                link.restored = None;
                None
            }
        }
    }

    /// Whether events wait.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn is_waiting_for(&self, source: ProxyKey) -> bool {
        !self.waiting.is_empty() && self.by_source.get(&source).is_some_and(|count| *count > 0)
    }

    pub(super) fn wait(&mut self, waiting: Waiting) {
        *self.by_source.entry(waiting.source).or_default() += 1;
        self.waiting.push_back(waiting);
    }

    /// Posts waiting events, up to the maximum that may be with the store.
    pub(super) fn send(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(waiting) = self.waiting.get_mut(self.examined) {
            if let State::ToSend(pending_event) = &waiting.state {
                let bytes = pending_event.bytes.len();
                let is_first = self.sent == 0;
                if self.sent >= EVENTS_MAX || (self.sent_bytes + bytes > EVENT_BYTES_MAX && !is_first) {
                    return;
                }
                let (posting, is_awaited) = (self.last_posting + 1, waiting.within.is_some());
                let sent = core::mem::replace(&mut waiting.state, State::Sent { posting, bytes });
                let State::ToSend(pending_event) = sent else { return };
                let message = ToStore::Event(Posting { pending_event, posting, is_awaited });
                if let Err(ToStore::Event(back)) = link.messages.send(message) {
                    waiting.state = State::ToSend(back.pending_event);
                    return;
                }
                self.last_posting = posting;
                self.sent += 1;
                self.sent_bytes += bytes;
            }
            self.examined += 1;
        }
    }

    /// Whether there is room to report an event's outcome to the store, with places left for the events that may be posted.
    pub(super) fn has_room_for_news(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.messages.room() > EVENTS_MAX)
    }

    /// Reports an event's completion to the store, if the store numbered it. The store is not woken. `goes_elsewhere` says whether a
    /// channel passes undeliverable events to another channel.
    pub(super) fn tell(&mut self, completed: Completion, goes_elsewhere: impl FnOnce(ChannelId) -> bool) -> bool {
        let is_its = completed.watch().is_none_or(|watch| !acknowledgements::is_of_lanes(watch));
        let Some(link) = self.link.as_mut().filter(|_| is_its) else { return false };
        let message = match completed {
            Completion::ForConsumer { watch, consumer, how: Disposition::Dropped(DiscardReason::Undeliverable) }
                if !goes_elsewhere(consumer.channel) =>
            {
                ToStore::Undeliverable(watch, consumer)
            }
            completed => ToStore::Completion(completed),
        };
        link.messages.send_quietly(message).is_ok()
    }

    /// Has the store forget the origin of an event of another service that was stored, and then refused.
    pub(crate) fn forget_origin(&mut self, origin: SeenOrigin) {
        if let Some(link) = &mut self.link {
            let _ = link.messages.send_quietly(ToStore::NotTaken(origin));
        }
    }

    /// Wakes the store, if an acknowledgement depends on it or many messages wait.
    pub(super) fn notify(&mut self, is_awaited: bool) {
        if let Some(link) = self.link.as_mut().filter(|link| is_awaited || link.messages.room() <= EVENTS_MAX) {
            link.messages.notify();
        }
    }

    /// Handles the next message of the store, if there is one.
    pub(super) fn receive(&mut self) -> Option<Received> {
        let answer = self.link.as_mut().and_then(|link| link.answers.take())?;
        let (posting, state) = match answer {
            FromStore::Stored(pending_event, posting) => (posting, State::Done(pending_event)),
            FromStore::NotStored(pending_event, posting, why) => (posting, State::Failed(pending_event, why)),
            FromStore::Completion(watch) => return Some(Received::Completed(watch)),
            FromStore::Again(again) => return Some(Received::Again(again)),
        };
        // Answers come in the order of the requests, and an event that has one goes on: so it is the first, as a rule.
        let of_it = |waiting: &&mut Waiting| matches!(waiting.state, State::Sent { posting: of, .. } if of == posting);
        if let Some(waiting) = self.waiting.iter_mut().find(of_it)
            && let State::Sent { bytes, .. } = core::mem::replace(&mut waiting.state, state)
        {
            self.sent -= 1;
            self.sent_bytes -= bytes;
        }
        Some(Received::Answer)
    }

    /// Removes the first event if it need not wait any more.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        let is_over = |waiting: &mut Waiting| matches!(waiting.state, State::Done(_) | State::Failed(..));
        let first = self.waiting.pop_front_if(is_over)?;
        self.examined = self.examined.saturating_sub(1);
        if let Some(count) = self.by_source.get_mut(&first.source) {
            *count -= 1;
        }
        Some(first)
    }

    /// Forgets suppliers that are gone and have no waiting event.
    pub(crate) fn forget_but(&mut self, is_there: impl Fn(ProxyKey) -> bool) {
        self.by_source.retain(|source, count| *count > 0 || is_there(*source));
    }
}

impl Protocols {
    /// Builds the event of a record, which arrived at `came` by the world's clock.
    pub(crate) fn event_of(
        &mut self,
        record: &Record<'_>,
        (clock, came): (&UtcClock, u64),
        may_be_repeated: bool,
        cx: &mut Context,
    ) -> PendingEvent {
        let mut pending_event = cx.lane.begin_event_for(record.length());
        pending_event.keeps_names = forms::keeps_names(record.form());
        cx.lane.classify(&mut pending_event, record.domain, record.name);
        let event: &mut Event = &mut pending_event;
        record.fill(event, clock);
        if may_be_repeated {
            event.tag = forms::as_repeated(event.form, event.tag);
        }
        self.translate_that_came(record.source, event, came, cx);
        pending_event
    }
}

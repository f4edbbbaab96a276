//! Events that are to outlive the process: they wait until the store has them, and then go on like any other.
//!
//! Those of a supplier keep their order: what it sends behind one that waits does so too, whatever was promised of it.

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

/// The events of a lane that wait for the store, or behind one that does.
#[derive(Default)]
pub(crate) struct Journal {
    /// `None` where there is no store.
    pub(super) link: Option<Link>,
    /// In their order. Those that are with the store, or have yet to be posted, are behind those that can go on.
    waiting: VecDeque<Waiting>,
    /// How many of the first have been looked at for being posted.
    examined: usize,
    /// Events that are with the store, and octets of them.
    sent: usize,
    sent_bytes: usize,
    /// The number of the last that was posted: by it its answer is known.
    last_posting: u64,
    /// How many wait of each supplier.
    by_source: HashMap<ProxyKey, u32>,
}

pub(super) struct Waiting {
    pub(super) source: ProxyKey,
    pub(super) pending_ack: Token,
    pub(super) state: State,
    /// How long its answer waits for consumers afterwards, if it does.
    pub(super) within: Option<Duration>,
}

/// What the store has said.
pub(super) enum Received {
    /// What became of an event that is with it.
    Answer,
    /// All have an event that it kept.
    Completed(NonZeroU64),
    /// One that it kept as a dead letter is to be delivered once more.
    Again(Box<Again>),
}

pub(super) enum State {
    /// It is to be kept.
    ToSend(PendingEvent),
    /// The store has it.
    Sent { posting: u64, bytes: usize },
    /// It is on the disk, or is not to be kept.
    Done(PendingEvent),
    /// It is not kept.
    Failed(PendingEvent, StoreRefusal),
}

/// How long it is waited for events that were kept when the process began, until messages are looked at.
const RESTORED_WITHIN: Duration = Duration::from_millis(10);

impl Journal {
    pub(crate) fn new(link: Option<Link>) -> Self {
        Self { link, ..Self::default() }
    }

    pub(super) const fn is_there(&self) -> bool {
        self.link.is_some()
    }

    /// Whether there are events that were kept when the process began, and are to be taken in before all others.
    pub(crate) fn is_restoring(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.restored.is_some())
    }

    /// Some of them. Nothing if there are none at the moment, or none any more.
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

    /// Posts as many events as may be with the store.
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

    /// Whether there is room to report an event's outcome to the store. Places for as many events as may be posted are left.
    pub(super) fn has_room_for_news(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.messages.room() > EVENTS_MAX)
    }

    /// Tells the store what became of an event, if it is one of its own. It looks from time to time. `goes_elsewhere`: what is
    /// undeliverable for consumers of a channel goes to another one.
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

    /// An event of another service was kept, and then not taken: the store forgets that it was seen.
    pub(crate) fn forget_origin(&mut self, origin: SeenOrigin) {
        if let Some(link) = &mut self.link {
            let _ = link.messages.send_quietly(ToStore::NotTaken(origin));
        }
    }

    /// Has the store look now, if an answer waits for that or it has much to look at.
    pub(super) fn notify(&mut self, is_awaited: bool) {
        if let Some(link) = self.link.as_mut().filter(|link| is_awaited || link.messages.room() <= EVENTS_MAX) {
            link.messages.notify();
        }
    }

    /// Takes an answer of the store in. Nothing if there is none.
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

    /// The next that need not wait any more.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        let is_over = |waiting: &mut Waiting| matches!(waiting.state, State::Done(_) | State::Failed(..));
        let first = self.waiting.pop_front_if(is_over)?;
        self.examined = self.examined.saturating_sub(1);
        if let Some(count) = self.by_source.get_mut(&first.source) {
            *count -= 1;
        }
        Some(first)
    }

    /// Forgets suppliers that are gone and of which nothing waits.
    pub(crate) fn forget_but(&mut self, is_there: impl Fn(ProxyKey) -> bool) {
        self.by_source.retain(|source, count| *count > 0 || is_there(*source));
    }
}

impl Protocols {
    /// Makes the event again that a record is of, which came at `came` by the world's clock.
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

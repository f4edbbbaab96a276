//! The lane: events in, deliveries out.

mod counters;
mod notice;

use alloc::sync::Arc;

pub use counters::{ChannelStats, Counters, DiscardReason, Discards, OutboxState, OutboxStats};
pub use notice::{DisconnectReason, Notice};

use crate::{Draft, Event, EventPool, OutboxId, Peer, ProxyKey, Refusal, Snapshot, Ticket, Time, TypeId, Want};

/// What became of an event that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Taken.
    Accepted {
        /// How many consumers' outboxes it went to.
        destinations: u32,
    },
    /// Taken, but there is no room for more: the supplier's reply must be withheld, and nothing more read from it,
    /// until [`Lane::poll_release`] gives this ticket.
    Held(Ticket),
    /// Not taken.
    Refused(Refusal),
}

/// What to do next for one consumer: hand it this event.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The consumer's outbox, for [`Lane::handle_outcome`].
    pub outbox: OutboxId,
    /// The consumer's proxy.
    pub key: ProxyKey,
    /// Who is connected to it.
    pub peer: Peer,
    /// What the consumer's door needs the event translated to.
    pub want: Want,
    /// The event. Whoever lets go of it hands it to [`Lane::release`].
    pub event: Arc<Event>,
    /// The delivery's number in its outbox, for [`Lane::handle_outcome`]. A retry has a new one.
    pub serial: u32,
    /// Whether no answer is waited for.
    pub one_way: bool,
    /// When the lane gives up waiting for the outcome; `None` if it never does.
    pub deadline: Option<Time>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The consumer answered that it has it.
    Delivered,
    /// One-way: handed to the socket.
    Sent,
    /// The connection takes nothing more at present. The event is put back; nothing is delivered to this outbox until
    /// [`Lane::resume_outbox`].
    NoRoom,
    /// The consumer cannot be reached, or its connection broke. Retried after a wait.
    Unreachable,
    /// No answer in time. Retried after a wait.
    TimedOut,
    /// The consumer raised an exception worth a retry. Retried after a wait.
    Refused,
    /// The consumer will never take this event: dropped and counted; the next one follows.
    Rejected,
    /// The consumer is gone for good: disconnected.
    Gone,
    /// The event cannot be translated to what the consumer wants: dropped and counted; the next one follows.
    Untranslatable,
}

/// One lane (skeleton; the body follows).
#[derive(Debug)]
pub struct Lane {
    snapshot: Arc<Snapshot>,
    pool: EventPool,
    counters: Counters,
}

impl Lane {
    /// A lane with no channels yet.
    #[must_use]
    pub fn new(_now: Time) -> Self {
        Self { snapshot: Arc::default(), pool: EventPool::new(), counters: Counters::default() }
    }

    /// Picks up new routing.
    pub fn handle_snapshot(&mut self, snapshot: Arc<Snapshot>, _now: Time) {
        self.snapshot = snapshot;
    }

    /// The routing in use.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// An empty event to fill, from the pool. Where the size is known, [`Lane::begin_event_for`] is better.
    pub fn begin_event(&mut self) -> Draft {
        self.pool.take()
    }

    /// An empty event to fill, with a buffer that has room for `bytes` bytes.
    pub fn begin_event_for(&mut self, bytes: usize) -> Draft {
        self.pool.take_for(bytes)
    }

    /// Gives back a draft that came to nothing.
    pub fn abandon_event(&mut self, draft: Draft) {
        self.pool.give_back(draft.into_event());
    }

    /// Interns an event type. At most 65,536 are; every further one is [`TypeId::OTHER`], whose names
    /// [`Lane::classify`] keeps with the event.
    pub fn intern(&mut self, _domain: &[u8], _name: &[u8]) -> TypeId {
        TypeId::OTHER
    }

    /// Sets a draft's event type.
    pub fn classify(&mut self, draft: &mut Draft, domain: &[u8], name: &[u8]) {
        draft.event_type = self.intern(domain, name);
    }

    /// Takes an event in from a supplier's proxy.
    pub fn handle_event(&mut self, source: ProxyKey, draft: Draft, _now: Time) -> Admission {
        self.abandon_event(draft);
        Admission::Refused(Refusal::ProxyNotFound { proxy: source })
    }

    /// The next delivery.
    pub fn poll_delivery(&mut self, _now: Time) -> Option<Delivery> {
        None
    }

    /// Says what became of a delivery.
    pub fn handle_outcome(&mut self, _outbox: OutboxId, _serial: u32, _outcome: Outcome, _now: Time) {}

    /// The connection of an outbox takes deliveries again.
    pub fn resume_outbox(&mut self, _outbox: OutboxId, _now: Time) {}

    /// Lets go of an event.
    pub fn release(&mut self, event: Arc<Event>) {
        self.pool.give_back(event);
    }

    /// The next supplier whose reply need not be withheld any more.
    pub fn poll_release(&mut self) -> Option<Ticket> {
        None
    }

    /// The next thing worth telling people.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// The next delivery whose time is over: the door abandons it and every other unanswered one of that outbox.
    pub fn poll_timed_out(&mut self) -> Option<(OutboxId, u32)> {
        None
    }

    /// When [`Lane::handle_timeout`] is to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, _now: Time) {}

    /// How each consumer's outbox is doing.
    pub fn outboxes(&self) -> impl Iterator<Item = OutboxStats> {
        core::iter::empty()
    }

    /// How each channel is doing.
    pub fn channels(&self) -> impl Iterator<Item = ChannelStats> {
        core::iter::empty()
    }

    /// What the lane counted since it was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

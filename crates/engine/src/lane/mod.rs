//! The lane: events in, deliveries out.
//!
//! This file has the public types, the lane's state and the calls that only ask; each further module adds one subject's calls: `admission`
//! (events in), `suppliers` (where they come from), `handover` (from lane to lane), `pressure` (what happens when a channel's limits are
//! reached), `delivery` (deliveries and what becomes of them), `placement` (new routing), `orphaned_backlogs` (backlogs of consumers that
//! are gone), `drops` (what was dropped, by event type), `completion` (when an event is done with), `overflow` (backlogs that go on
//! elsewhere), `dead_letters` (events that a consumer never takes).

mod admission;
mod channel;
mod completion;
mod counters;
mod dead_letters;
mod delivery;
mod destinations;
mod drops;
mod events;
mod filtering;
mod handover;
mod history;
mod hold_budget;
mod holding;
mod latency;
mod memory_pool;
mod notice;
mod orphaned_backlogs;
mod outbox;
mod overflow;
mod placement;
mod pressure;
mod queue;
mod slab;
mod sorted;
mod suppliers;
mod tickets;
mod timers;
mod topic_queues;
mod topic_scheduler;
mod types;
mod undelivered;
mod verdict;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use hashbrown::HashMap;

pub use completion::{Completion, Disposition};
pub use counters::{
    ChannelStats, Counters, DeliveryCounters, DiscardReason, Discards, FilterCounters, HandoverCounters,
    HistoryCounters, Holding, OutboxState, OutboxStats, OverflowCounters, RoutingCounters, TakenCounters, Traffic,
};
pub use dead_letters::DeadLetter;
pub use drops::TypeDrops;
pub use handover::Handover;
pub use history::FetchedHistory;
pub use latency::Latency;
pub use memory_pool::MemoryPool;
pub use notice::{BlockedBy, DisconnectReason, Notice};
pub use overflow::{Away, Overflow};
pub use topic_scheduler::ScheduledEvent;
pub use undelivered::{Undelivered, WaitsFor};

use crate::event::EventAt;
use crate::{
    ChannelId, Event, EventPool, LaneId, OutboxId, OutputForm, Peer, PendingEvent, ProxyKey, Refusal,
    RemoteFilterGroups, Snapshot, Ticket, Time, TypeId,
};
use channel::ChannelState;
use completion::Completions;
use drops::Drops;
use events::Events;
use filtering::Filters;
use memory_pool::Part;
use orphaned_backlogs::OrphanedBacklog;
use outbox::Outbox;
use overflow::Errands;
use pressure::{Backlogs, LOOK_AT_ROOM_EVERY};
use slab::Slab;
use suppliers::Suppliers;
use tickets::Tickets;
use timers::Timers;
use topic_scheduler::TopicScheduler;
pub use types::TypeTraffic;
use types::Types;

/// What became of an event that was handed in.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Taken.
    Accepted {
        /// How many consumers' outboxes it went to.
        destinations: u32,
    },
    /// Taken, but there is no room for more: the supplier's reply must be withheld, and nothing more read from it,
    /// until [`Lane::poll_release`] gives this ticket.
    Withheld(Ticket),
    /// Not taken.
    Refused(Refusal),
    /// Not taken yet: filters that clients implement decide, on the supplier's side. They are to be asked: if they let
    /// the event pass, [`Event::approved`] is set and the pending event handed in again; if not, it is
    /// [abandoned](Lane::abandon_event).
    AwaitingFilter(PendingEvent, RemoteFilterGroups),
}

/// What to do next for one consumer: hand it the events that [`Lane::poll_delivery`] or [`Lane::pull`] gave with this.
/// One unit, however many events: one outcome, one serial.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The consumer's outbox, for [`Lane::handle_outcome`].
    pub outbox: OutboxId,
    /// The consumer's proxy.
    pub key: ProxyKey,
    /// The client connected to it; a consumer that pulls may have given no handle.
    pub peer: Option<Peer>,
    /// What the consumer's protocol needs the events translated to.
    pub output_form: OutputForm,
    /// The delivery's number in its outbox, for [`Lane::handle_outcome`]. A retry has a new one.
    pub serial: u32,
    /// Whether no answer is waited for.
    pub one_way: bool,
    /// When the lane gives up waiting for the outcome, of a one-way delivery too; `None` if it never does.
    pub deadline: Option<Time>,
    /// Whether a consumer asked for it: the answer to its [`Lane::pull`] or [`Lane::await_events`].
    pub pulled: bool,
    /// What is to be asked before the event may be handed to the consumer. Such an event comes alone.
    pub ask: Option<RemoteFilterGroups>,
    /// Whether the consumer may have processed its events: they were in a batch that it rejected, or behind one.
    pub repeated: bool,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The consumer answered that it has it.
    Delivered,
    /// One-way: handed to the socket.
    Sent,
    /// The connection takes nothing more at present. The event is put back, and nothing is delivered to this outbox
    /// until [`Lane::resume_outbox`]. No failure, unless it lasts for `reply_timeout`.
    NoRoom,
    /// The consumer cannot be reached: the delivery was not sent. Tried again after a wait, and no failure of the event's.
    Unreachable,
    /// The consumer's connection broke before it answered. Tried again after a wait.
    ConnectionLost,
    /// No answer in time. Tried again after a wait.
    TimedOut,
    /// The consumer raised an exception worth a retry. Tried again after a wait.
    Refused,
    /// The consumer will never take this event: dropped and counted; the next one follows. A batch is put back, with what is behind
    /// it, and delivered again in halves, down to single events: only what is rejected alone is dropped.
    Rejected,
    /// The consumer is gone for good: disconnected.
    Gone,
    /// The event cannot be translated to what the consumer wants: dropped and counted; the next one follows.
    Untranslatable,
    /// The remote filters that were asked said no: dropped as one that the consumer does not want; the next one
    /// follows.
    Filtered,
    /// The remote filters that were asked did not answer, or raised an exception, which counts as no: dropped and
    /// counted; the next one follows.
    FilterFailed,
}

/// The event path of the channels placed on it: events in, deliveries out. One thread owns it.
///
/// # The rule that drives it
///
/// After any `handle_*` or other command, call [`poll_timed_out`](Self::poll_timed_out),
/// [`poll_delivery`](Self::poll_delivery), [`poll_release`](Self::poll_release),
/// [`poll_notice`](Self::poll_notice) and, if events are [watched](Event::watch), [`poll_completion`](Self::poll_completion), and if
/// channels have [room elsewhere](crate::ChannelLimits::overflow_budget_bytes), [`poll_overflow`](Self::poll_overflow), and if they [name
/// another one for dead letters](crate::ChannelLimits::dead_letters), [`poll_dead_letter`](Self::poll_dead_letter) until each answers
/// `None`; then [`handle_timeout`](Self::handle_timeout) is to be called at [`next_timeout`](Self::next_timeout), which may be at once. A
/// delivery may be acted on, and its outcome handed in, before the next one is asked for.
///
/// Where [`schedules_topics`](Self::schedules_topics) says so, events go to [`schedule_event`](Self::schedule_event) first and are handed
/// in as [`poll_scheduled`](Self::poll_scheduled) gives them back; the protocol looks out for further events between two turns, so that
/// one that has an earlier deadline is not kept waiting by many that came before it.
///
/// # What it promises
///
/// - A consumer gets each supplier's events in the order in which they were handed in, unless its `order_policy` is
///   another; one that is retried comes before all that would come after it. When a delivery fails, every unanswered one
///   of that outbox is put back, and their outcomes are ignored if they come after all.
/// - No event is delivered that has expired when the delivery begins.
/// - Nothing waits for a consumer: a slow one fills its own outbox, within the channel's limits, and what happens at
///   each limit is that limit's documented outcome.
/// - Handing an event in costs as much as it has destinations, and every other call as little as one event; new routing
///   costs as much as there are channels, and consumers that changed. In the steady state nothing is allocated.
/// - Calls that make no sense (an outcome for a delivery long answered, an outbox that is gone) are ignored and counted.
#[derive(Debug)]
pub struct Lane {
    id: LaneId,
    /// The latest time that a call passed.
    now: Time,
    snapshot: Arc<Snapshot>,
    places: Places,
    pool: EventPool,
    types: Types,
    /// Suppliers of recent events.
    suppliers: Suppliers,
    events: Events,
    arrival: Arrival,
    topic_scheduler: TopicScheduler,

    channels: Slab<ChannelState>,
    outboxes: Slab<Outbox>,
    agenda: Agenda,
    memory_pool: MemoryPoolParts,

    tickets: Tickets,
    news: News,
    counters: Counters,
    drops: Drops,
    space: Space,
}

/// Where channels are.
#[derive(Debug, Default)]
struct Places {
    slots: HashMap<ChannelId, u32>,
    /// The slots of the channels in the order of `Lane::snapshot.channels`.
    placed: Vec<u32>,
    /// The number of the next event, of channels that were not met yet and have a past.
    histories: HashMap<ChannelId, NonZeroU64>,
}

/// How events come in.
#[derive(Debug, Default)]
struct Arrival {
    next_serial: u64,
    /// Set while an event comes in. Room that is made for it is not "room again", and is not looked for meanwhile.
    admitting: bool,
    /// Set while what comes in is handed over from another lane. Its supplier cannot be answered that it is refused.
    taking_over: bool,
    /// Set while what comes in was accepted before, by a lane that is no more: limits do not concern it.
    restoring: bool,
    /// When the last of those arrived.
    restored_until: Time,
    /// Whether events' lifetimes only put them in order.
    keeps_expired: bool,
}

/// What is to be done next, and when.
#[derive(Debug)]
struct Agenda {
    /// Outboxes that can begin a delivery, and bridges that can begin a hand-over; each is in its list at most once.
    ready: VecDeque<u32>,
    ready_bridges: VecDeque<u32>,
    timers: Timers,
    /// How many events may yet be dropped, or be released, because their time has come, until [`Lane::handle_timeout`] is called again.
    due_left: u64,
    timed_out: VecDeque<(OutboxId, u32)>,
}

/// The lane's parts of what the events of all channels may take together, of memory and elsewhere.
#[derive(Debug, Default)]
struct MemoryPoolParts {
    memory: Part,
    elsewhere: Part,
    /// Channels that have no room because of it, and when that was last looked at.
    short_of_room: VecDeque<u32>,
    room_looked_at: Option<Time>,
}

/// What its owner is to be notified of, and to do for it.
#[derive(Debug)]
struct News {
    notices: VecDeque<Notice>,
    orphaned_backlogs: VecDeque<OrphanedBacklog>,
    completion: Completions,
    /// What is to be done with events that are kept elsewhere, where that is possible.
    errands: Errands,
    may_overflow: bool,
    /// Events for their channels' `DeadLetterChannel`.
    dead_letters: VecDeque<DeadLetter>,
}

/// Working space, kept for its capacity.
#[derive(Debug)]
struct Space {
    filters: Filters,
    backlogs: Backlogs,
    /// The bridges that an event goes to.
    bridged: Vec<u32>,
    /// Those that are full and because of which its supplier is held.
    holders: Vec<u32>,
    doomed: Vec<u32>,
    shortened: Vec<u32>,
    unfinished: Vec<u32>,
    blocked_long: Vec<u32>,
    done: Vec<EventAt>,
}

impl Lane {
    /// The main lane, with no channels yet.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self::with_id(LaneId::MAIN, now)
    }

    /// A lane with no channels yet. It keeps the outboxes of the consumers that have a place on the lane of this id.
    #[must_use]
    pub fn with_id(id: LaneId, now: Time) -> Self {
        Self {
            id,
            now,
            snapshot: Arc::default(),
            places: Places::default(),
            pool: EventPool::new(),
            types: Types::default(),
            suppliers: Suppliers::default(),
            events: Events::new(),
            arrival: Arrival::default(),
            topic_scheduler: TopicScheduler::new(),
            channels: Slab::new(),
            outboxes: Slab::new(),
            agenda: Agenda {
                ready: VecDeque::new(),
                ready_bridges: VecDeque::new(),
                timers: Timers::default(),
                due_left: delivery::DUE_AT_ONCE,
                timed_out: VecDeque::new(),
            },
            memory_pool: MemoryPoolParts::default(),
            tickets: Tickets::default(),
            news: News {
                notices: VecDeque::new(),
                orphaned_backlogs: VecDeque::new(),
                completion: Completions::default(),
                errands: Errands::new(),
                may_overflow: false,
                dead_letters: VecDeque::new(),
            },
            counters: Counters::default(),
            drops: Drops::new(),
            space: Space {
                filters: Filters::default(),
                backlogs: Backlogs::new(),
                bridged: Vec::new(),
                holders: Vec::new(),
                doomed: Vec::new(),
                shortened: Vec::new(),
                unfinished: Vec::new(),
                blocked_long: Vec::new(),
                done: Vec::new(),
            },
        }
    }

    /// Has events that come in from now on never expire: their `Timeout` and `StopTime` only put them in order where a consumer has
    /// [`OrderPolicy::Deadline`](crate::OrderPolicy::Deadline).
    pub fn keep_expired(&mut self) {
        self.arrival.keeps_expired = true;
    }

    /// Whether events never expire.
    #[must_use]
    pub const fn keeps_expired(&self) -> bool {
        self.arrival.keeps_expired
    }

    /// Has what the events of all its channels take bounded together with that of other lanes. It is called before the lane has
    /// channels.
    pub fn set_memory_pool(&mut self, shared: Arc<MemoryPool>) {
        self.memory_pool.memory.set_shared(shared);
    }

    /// The driver of the lane does what [`poll_overflow`](Self::poll_overflow) wants: backlogs go on elsewhere, where their channels have
    /// [room for that](crate::ChannelLimits::overflow_budget_bytes). It is called before the lane has channels.
    pub fn allow_overflow(&mut self) {
        self.news.may_overflow = true;
    }

    /// Has what all its channels have kept elsewhere bounded together with that of other lanes. It is called before the lane has
    /// channels.
    pub fn set_overflow_pool(&mut self, shared: Arc<MemoryPool>) {
        self.memory_pool.elsewhere.set_shared(shared);
    }

    // ---- events in the making ----

    /// An empty event to fill, from the pool. It has the buffer of the event that was released last, which fits where
    /// events are of about one size; otherwise [`begin_event_for`](Self::begin_event_for) is better.
    pub fn begin_event(&mut self) -> PendingEvent {
        self.pool.take()
    }

    /// An empty event to fill, with a buffer that has room for `bytes` bytes and not for many more.
    pub fn begin_event_for(&mut self, bytes: usize) -> PendingEvent {
        self.pool.take_for(bytes)
    }

    /// Gives back a pending event that came to nothing. If it is [watched](Event::watch), it is reported as complete for all.
    pub fn abandon_event(&mut self, pending_event: PendingEvent) {
        self.news.completion.note_unwanted(&pending_event);
        self.pool.give_back(pending_event.into_event());
    }

    /// The number of an event type. The lane keeps at most 65,536 types (names of at most 1,024 bytes, 16 MiB in all);
    /// every further one is [`TypeId::OTHER`] and counted. A type goes when the channels to which its events came are gone.
    pub fn intern(&mut self, domain: &[u8], name: &[u8]) -> TypeId {
        let id = self.types.intern(domain, name);
        if id == TypeId::OTHER {
            self.counters.routing.types_not_interned += 1;
        }
        id
    }

    /// Sets a pending event's event type. Unlike setting it from [`intern`](Self::intern), it keeps the names with the event where there
    /// was no number left for the type, so that consumers that asked for it still get it.
    pub fn classify(&mut self, pending_event: &mut PendingEvent, domain: &[u8], name: &[u8]) {
        let event: &mut Event = pending_event;
        event.event_type = self.intern(domain, name);
        if event.event_type == TypeId::OTHER || event.keeps_names {
            event.set_names(domain, name);
        }
    }

    // ---- what to do ----

    /// The next supplier with a reply that need not be withheld any more.
    pub fn poll_release(&mut self) -> Option<Ticket> {
        self.tickets.poll()
    }

    /// The next thing worth telling people.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.news.notices.pop_front()
    }

    /// The next delivery, or connection without room, that timed out: its outbox and serial. The lane has counted it as
    /// [`Outcome::TimedOut`] already; the protocol abandons it together with every other unanswered one of that outbox.
    pub fn poll_timed_out(&mut self) -> Option<(OutboxId, u32)> {
        self.agenda.timed_out.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next: `None` if nothing is to happen of itself, a
    /// time that has come if there is work left for another turn. It may be earlier than anything is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        if !self.news.orphaned_backlogs.is_empty() || self.types.has_leaving() {
            return Some(self.now);
        }
        let look = self.memory_pool.room_looked_at.map(|last| last + LOOK_AT_ROOM_EVERY);
        look.into_iter().chain(self.agenda.timers.first()).min()
    }

    // ---- how it is doing ----

    /// Which lane it is.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// The routing in use.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// How many event types it knows by number.
    #[must_use]
    pub fn types_known(&self) -> usize {
        self.types.len()
    }

    /// How many event types it has released. Whenever this has changed, no number of a type that was found out before may be
    /// used for another event.
    #[must_use]
    pub fn types_released(&self) -> u64 {
        self.types.released_count()
    }

    /// The domain and name of an interned event type; `None` too when it has been released.
    #[must_use]
    pub fn type_names(&self, event_type: TypeId) -> Option<(&[u8], &[u8])> {
        self.types.names(event_type)
    }

    /// The event types at so many places with the events that were taken in of each, as [`outboxes_at`](Self::outboxes_at) says of outboxes.
    pub fn types_at(&self, first: u32, places: u32) -> Option<impl Iterator<Item = TypeTraffic<'_>>> {
        self.types.counted_at(first, places)
    }

    /// How each consumer's outbox is doing.
    pub fn outboxes(&self) -> impl Iterator<Item = OutboxStats> {
        self.outboxes.iter().filter(|outbox| outbox.bridge.is_none()).map(|outbox| self.stats_of(outbox))
    }

    /// How the consumers' outboxes at so many places from `first` on are doing; `None` if there are no places from there on. An outbox
    /// keeps its place for as long as it exists: looking at all places piece by piece, while others come and go, meets each that was there
    /// all the time exactly once.
    pub fn outboxes_at(&self, first: u32, places: u32) -> Option<impl Iterator<Item = OutboxStats>> {
        let outboxes = self.outboxes.range(first, places)?;
        Some(outboxes.filter(|outbox| outbox.bridge.is_none()).map(|outbox| self.stats_of(outbox)))
    }

    /// How the channels at so many places are doing, as [`outboxes_at`](Self::outboxes_at) says of outboxes.
    pub fn channels_at(&self, first: u32, places: u32) -> Option<impl Iterator<Item = ChannelStats>> {
        Some(self.channels.range(first, places)?.map(ChannelState::stats))
    }

    /// How a channel is doing; nothing if the lane does not have it.
    #[must_use]
    pub fn channel_stats(&self, channel: ChannelId) -> Option<ChannelStats> {
        Some(self.channels.get(*self.places.slots.get(&channel)?)?.stats())
    }

    /// How each channel is doing.
    pub fn channels(&self) -> impl Iterator<Item = ChannelStats> {
        self.channels.iter().map(ChannelState::stats)
    }

    /// What the lane counted since it was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Notes the time; it never goes back.
    fn advance_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}

#[cfg(test)]
mod tests;

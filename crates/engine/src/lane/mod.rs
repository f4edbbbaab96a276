//! The lane: events in, deliveries out.
//!
//! This file has the public types, the lane's state and the getters; each further module adds one subject's calls:
//! `admission` (events in), `suppliers` (their settings), `handover` (from lane to lane), `pressure` (limits of a
//! channel), `delivery` (deliveries and their outcomes), `placement` (new routing, backlogs of consumers that are
//! gone), `drops` (drops by event type), `completion` (reports of complete events), `overflow` (backlogs stored
//! elsewhere), `dead_letters` (events that a consumer never takes), `channel_timers` (events by the clock), `gathering`
//! (sets of events).

mod admission;
mod channel;
mod channel_timers;
mod completion;
mod counters;
mod dead_letters;
mod delivery;
mod destinations;
mod drops;
mod events;
mod filtering;
mod gathering;
mod handover;
mod history;
mod hold_budget;
mod holding;
mod latency;
mod memory_pool;
mod notice;
mod outbox;
mod overflow;
mod placement;
mod pressure;
mod queue;
mod ready;
mod sets;
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

pub use channel_timers::{DueTimer, TimerOutcome};
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
pub use sets::Correlated;
pub use topic_scheduler::ScheduledEvent;
pub use undelivered::{Undelivered, WaitsFor};

use crate::event::EventAt;
use crate::{
    ChannelId, Event, EventPool, Forms, LaneId, OutboxId, OutputForm, Peer, PendingEvent, ProxyId, ProxyKey, Refusal,
    RemoteFilterGroups, Snapshot, Ticket, Time, TypeId,
};
use channel::ChannelState;
use completion::Completions;
use drops::Drops;
use events::Events;
use filtering::Filters;
use memory_pool::Part;
use outbox::Outbox;
use overflow::Errands;
use placement::OrphanedBacklog;
use pressure::{Backlogs, LOOK_AT_ROOM_EVERY};
use ready::Ready;
use slab::Slab;
use suppliers::Suppliers;
use tickets::Tickets;
use timers::Timers;
use topic_scheduler::TopicScheduler;
pub use types::TypeTraffic;
use types::Types;

/// Result of handing an event in.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Taken.
    Accepted {
        /// Number of consumers' outboxes that have the event.
        destinations: u32,
    },
    /// Taken, but there is no room for more: the supplier's reply must be withheld, and nothing more read from it,
    /// until [`Lane::poll_release`] returns this ticket.
    Withheld(Ticket),
    /// Not taken.
    Refused(Refusal),
    /// Not taken yet: remote filters on the supplier's side decide. The protocol calls them. If they match, it sets
    /// [`Event::approved`] and hands the pending event in again; if not, it [abandons](Lane::abandon_event) the event.
    AwaitingFilter(PendingEvent, RemoteFilterGroups),
}

/// A delivery to one consumer: of the events that [`Lane::poll_delivery`] or [`Lane::pull`] returned with it. One
/// unit, however many events: one outcome, one serial.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The consumer's outbox, for [`Lane::handle_outcome`].
    pub outbox: OutboxId,
    /// The consumer's proxy.
    pub key: ProxyKey,
    /// The client connected to the proxy; a pull consumer may have given no handle.
    pub peer: Option<Peer>,
    /// Form that the consumer's protocol needs the events translated to.
    pub output_form: OutputForm,
    /// The delivery's number in its outbox, for [`Lane::handle_outcome`]. A retry has a new one.
    pub serial: u32,
    /// Whether no answer is expected.
    pub one_way: bool,
    /// When the lane stops waiting for the outcome, also of a one-way delivery; `None` if never.
    pub deadline: Option<Time>,
    /// Whether a consumer pulled the events: the answer to its [`Lane::pull`] or [`Lane::await_events`].
    pub pulled: bool,
    /// Remote filters to call before the event may be delivered. Such an event comes alone.
    pub ask: Option<RemoteFilterGroups>,
    /// Whether the consumer may have processed the events before: they were in a batch that it rejected, or after one.
    pub repeated: bool,
    /// Of a consumer with a [correlation](crate::Hierarchy::set_correlation): the set of the first event, and its place there. The others
    /// follow it there.
    pub correlated: Option<Correlated>,
}

/// Outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The consumer confirmed it.
    Delivered,
    /// One-way: written to the socket.
    Sent,
    /// The connection takes no more data at present. The events are put back, and nothing is delivered to this outbox
    /// until [`Lane::resume_outbox`]. Not a failure, unless it lasts for `reply_timeout`.
    NoRoom,
    /// The consumer cannot be reached: the delivery was not sent. Retried after a back-off, and not counted as an attempt of the event.
    Unreachable,
    /// The consumer's connection broke before it answered. Retried after a back-off.
    ConnectionLost,
    /// No answer in time. Retried after a back-off.
    TimedOut,
    /// The consumer raised an exception worth a retry. Retried after a back-off.
    Refused,
    /// The consumer will never take this event: dropped and counted; the next one follows. A batch is put back with all later
    /// deliveries, and delivered again in halves, down to single events: only an event that is rejected alone is dropped.
    Rejected,
    /// The client no longer exists: the consumer is disconnected.
    Gone,
    /// The event cannot be translated to the consumer's form: dropped and counted; the next one follows.
    Untranslatable,
    /// The remote filters did not match: dropped as one without a subscription; the next one follows.
    Filtered,
    /// The remote filters did not answer, or raised an exception, which counts as no match: dropped and counted; the
    /// next one follows.
    FilterFailed,
}

/// The event path of the channels placed on it: events in, deliveries out. One thread owns it.
///
/// # The rule that drives it
///
/// After any `handle_*` or other command, call [`poll_timed_out`](Self::poll_timed_out),
/// [`poll_delivery`](Self::poll_delivery), [`poll_release`](Self::poll_release), [`poll_notice`](Self::poll_notice)
/// and, if events are [watched](Event::watch), [`poll_completion`](Self::poll_completion), and if channels have
/// [storage elsewhere](crate::ChannelLimits::overflow_budget_bytes), [`poll_overflow`](Self::poll_overflow), and if
/// they [name another one for dead letters](crate::ChannelLimits::dead_letters),
/// [`poll_dead_letter`](Self::poll_dead_letter), and if they have [timers](crate::Hierarchy::set_timers),
/// [`poll_timer`](Self::poll_timer), until each returns `None`, and, if consumers have a
/// [correlation](crate::Hierarchy::set_correlation), [`gather_sets`](Self::gather_sets) before; then call
/// [`handle_timeout`](Self::handle_timeout) at [`next_timeout`](Self::next_timeout), which may be at once. A delivery
/// may be acted on, and its outcome handed in, before the next one is polled.
///
/// While [`schedules_topics`](Self::schedules_topics) is true, events go to [`schedule_event`](Self::schedule_event)
/// first and are handed in as [`poll_scheduled`](Self::poll_scheduled) returns them; the protocol reads further events
/// between two turns, so that one with an earlier deadline does not wait for many that came before it.
///
/// # What it promises
///
/// - A consumer gets each supplier's events in the order in which they were handed in, unless its `order_policy` is
///   another; a retried event comes before all later ones. When a delivery fails, every unanswered one of that outbox is
///   put back, and late outcomes of these are ignored.
/// - No event is delivered that has expired when the delivery begins.
/// - Nothing waits for a consumer: a slow one fills its own outbox, within the channel's limits, and each limit has
///   its documented outcome.
/// - Handing an event in costs as much as it has destinations, and every other call as little as one event; new
///   routing costs as much as there are channels, and consumers that changed. In the steady state nothing is allocated.
/// - Calls that make no sense (an outcome for a delivery long answered, an outbox that is gone) are ignored and counted.
#[derive(Debug)]
pub struct Lane {
    id: LaneId,
    /// Latest time passed by a call.
    now: Time,
    snapshot: Arc<Snapshot>,
    places: Places,
    pool: EventPool,
    types: Types,
    /// Cache of the suppliers of recent events.
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

/// Slots of channels.
#[derive(Debug, Default)]
struct Places {
    slots: HashMap<ChannelId, u32>,
    /// Slots of the channels in the order of `Lane::snapshot.channels`.
    placed: Vec<u32>,
    /// Number of the next event of channels with a stored history that are not on the lane yet.
    histories: HashMap<ChannelId, NonZeroU64>,
}

/// State of the admission in progress.
#[derive(Debug, Default)]
struct Arrival {
    next_serial: u64,
    /// Set while an event is admitted. Room made for it does not wake anything, and is checked afterwards.
    admitting: bool,
    /// Set while an event from another lane is admitted, whose supplier cannot be refused any more.
    taking_over: bool,
    /// Set while an event that an earlier process accepted is admitted: limits do not apply.
    restoring: bool,
    /// Arrival of the last of those events.
    restored_until: Time,
    /// Set while a timer's event is admitted, which has no supplier to block or refuse.
    unattended: bool,
    /// Whether events never expire, and their lifetimes only order them.
    keeps_expired: bool,
}

/// Pending work, and its times.
#[derive(Debug)]
struct Agenda {
    /// Outboxes that can begin a delivery, and bridges that can begin a hand-over; each is listed at most once.
    ready: Ready,
    ready_bridges: VecDeque<u32>,
    /// Outboxes of consumers with a correlation whose next event is to be looked at; each is listed at most once.
    gathering: VecDeque<u32>,
    timers: Timers,
    /// Channels with timers, by slot, and whether these fire no more.
    channel_timers: Timers,
    timers_stopped: bool,
    /// Number of events that may still be dropped or started because they are due, until the next [`Lane::handle_timeout`].
    due_left: u64,
    timed_out: VecDeque<(OutboxId, u32)>,
}

impl Agenda {
    /// Lists an outbox, if it can begin a delivery, or if its next event is to be looked at for a set.
    #[inline]
    fn list_if_ready(&mut self, outbox: &mut Outbox, events: &Events, now: Time) {
        if !outbox.listed && outbox.is_ready(events, now) {
            self.list(outbox);
        } else if outbox.waiting.sets.is_some() {
            self.list_to_gather(outbox);
        }
    }

    /// Lists an outbox that can begin a delivery.
    #[inline]
    fn list(&mut self, outbox: &mut Outbox) {
        outbox.listed = true;
        match outbox.bridge {
            None => self.ready.push(outbox.id.slot, outbox.terms.settings.dispatch_priority),
            Some(_) => self.ready_bridges.push_back(outbox.id.slot),
        }
    }
}

/// The lane's parts of the pools for events of all channels: of memory, and of storage elsewhere.
#[derive(Debug, Default)]
struct MemoryPoolParts {
    memory: Part,
    elsewhere: Part,
    /// Channels blocked for want of room in the pool, and when that was last checked.
    short_of_room: VecDeque<u32>,
    room_looked_at: Option<Time>,
}

/// Reports and instructions for the lane's owner.
#[derive(Debug)]
struct News {
    notices: VecDeque<Notice>,
    orphaned_backlogs: VecDeque<OrphanedBacklog>,
    completion: Completions,
    /// Whether there was ever a consumer with a correlation.
    has_sets: bool,
    /// Instructions for events stored elsewhere, where that is possible.
    errands: Errands,
    may_overflow: bool,
    /// Undeliverable events for the channels' `DeadLetterChannel`.
    dead_letters: VecDeque<DeadLetter>,
}

/// Working space, retained for its capacity.
#[derive(Debug)]
struct Space {
    filters: Filters,
    backlogs: Backlogs,
    /// Bridges that an event takes.
    bridged: Vec<u32>,
    /// Full outboxes for which an event's supplier is blocked.
    holders: Vec<u32>,
    doomed: Vec<u32>,
    shortened: Vec<u32>,
    unfinished: Vec<u32>,
    blocked_long: Vec<u32>,
    done: Vec<EventAt>,
}

impl Lane {
    /// A main lane without channels.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self::with_id(LaneId::MAIN, now)
    }

    /// A lane without channels. It serves the consumers that have a place on the lane of this id.
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
                ready: Ready::default(),
                ready_bridges: VecDeque::new(),
                gathering: VecDeque::new(),
                timers: Timers::default(),
                channel_timers: Timers::default(),
                timers_stopped: false,
                due_left: delivery::DUE_AT_ONCE,
                timed_out: VecDeque::new(),
            },
            memory_pool: MemoryPoolParts::default(),
            tickets: Tickets::default(),
            news: News {
                notices: VecDeque::new(),
                orphaned_backlogs: VecDeque::new(),
                completion: Completions::default(),
                has_sets: false,
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

    /// Makes events that are admitted from now on never expire: `Timeout` and `StopTime` only order them where a
    /// consumer has [`OrderPolicy::Deadline`](crate::OrderPolicy::Deadline).
    pub fn keep_expired(&mut self) {
        self.arrival.keeps_expired = true;
    }

    /// Whether events never expire.
    #[must_use]
    pub const fn keeps_expired(&self) -> bool {
        self.arrival.keeps_expired
    }

    /// Limits the memory of all channels' events to a pool shared with other lanes. To be called before the lane has
    /// channels.
    pub fn set_memory_pool(&mut self, shared: Arc<MemoryPool>) {
        self.memory_pool.memory.set_shared(shared);
    }

    /// Announces that the driver of the lane handles [`poll_overflow`](Self::poll_overflow): backlogs go on elsewhere, where their
    /// channels have [a budget for that](crate::ChannelLimits::overflow_budget_bytes). To be called before the lane has channels.
    pub fn allow_overflow(&mut self) {
        self.news.may_overflow = true;
    }

    /// Limits the storage elsewhere of all channels' events to a pool shared with other lanes. To be called before the
    /// lane has channels.
    pub fn set_overflow_pool(&mut self, shared: Arc<MemoryPool>) {
        self.memory_pool.elsewhere.set_shared(shared);
    }

    // ---- events in the making ----

    /// An empty event from the pool, to be filled. It has the buffer of the event released last, which fits where
    /// events are of about one size; otherwise [`begin_event_for`](Self::begin_event_for) is better.
    pub fn begin_event(&mut self) -> PendingEvent {
        self.pool.take()
    }

    /// An empty event to be filled, with a buffer for `bytes` bytes and not many more.
    pub fn begin_event_for(&mut self, bytes: usize) -> PendingEvent {
        self.pool.take_for(bytes)
    }

    /// Gives back a pending event that is not handed in. If it is [watched](Event::watch), it is reported as complete for all.
    pub fn abandon_event(&mut self, pending_event: PendingEvent) {
        self.news.completion.note_unwanted(&pending_event);
        self.pool.give_back(pending_event.into_event());
    }

    /// The number of an event type. The lane has at most 65,536 types (names of at most 1,024 bytes, 16 MiB in all); every
    /// further one is [`TypeId::OTHER`] and counted. A type is released when the channels that had its events are gone.
    pub fn intern(&mut self, domain: &[u8], name: &[u8]) -> TypeId {
        let id = self.types.intern(domain, name);
        if id == TypeId::OTHER {
            self.counters.routing.types_not_interned += 1;
        }
        id
    }

    /// Sets a pending event's type. Unlike a number from [`intern`](Self::intern), it keeps the names with the event
    /// where no number was left for the type, so that consumers with a subscription for it still get it.
    pub fn classify(&mut self, pending_event: &mut PendingEvent, domain: &[u8], name: &[u8]) {
        let event: &mut Event = pending_event;
        event.event_type = self.intern(domain, name);
        if event.event_type == TypeId::OTHER || event.keeps_names {
            event.set_names(domain, name);
        }
    }

    // ---- what to do ----

    /// The next ticket whose supplier's reply may be sent.
    pub fn poll_release(&mut self) -> Option<Ticket> {
        self.tickets.poll()
    }

    /// The next notice.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.news.notices.pop_front()
    }

    /// The next delivery, or connection without room, that timed out: its outbox and serial. The lane has counted it as
    /// [`Outcome::TimedOut`] already; the protocol abandons it together with every other unanswered one of that outbox.
    pub fn poll_timed_out(&mut self) -> Option<(OutboxId, u32)> {
        self.agenda.timed_out.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next: `None` if nothing is pending, a time in the
    /// past if work is left for another round. It may be earlier than anything is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        let has_work = !(self.news.orphaned_backlogs.is_empty() && self.agenda.gathering.is_empty());
        if has_work || self.types.has_leaving() {
            return Some(self.now);
        }
        let look = self.memory_pool.room_looked_at.map(|last| last + LOOK_AT_ROOM_EVERY);
        let timers = (!self.agenda.timers_stopped).then(|| self.agenda.channel_timers.first());
        look.into_iter().chain(self.agenda.timers.first()).chain(timers.flatten()).min()
    }

    // ---- timers of channels ----

    /// The source of timers' events in a channel, which has no proxy of this number. That of dead letters is the number above.
    #[must_use]
    pub const fn timer_source(channel: ChannelId) -> ProxyKey {
        ProxyKey { channel, proxy: ProxyId(u32::MAX - 1) }
    }

    /// The next timer that is due: its event is to be made and handed in by
    /// [`handle_timer_event`](Self::handle_timer_event). `looks` is the number of channels that may still be looked at
    /// in this round: `None` also means that it is 0.
    pub fn poll_timer(&mut self, now: Time, looks: &mut u32) -> Option<DueTimer> {
        self.advance_time(now);
        channel_timers::poll(self, looks)
    }

    /// Takes in the event of a timer that was due, best-effort, with the timer's priority. It is dropped for each consumer
    /// that a supplier would be blocked or refused for, and dropped for all while the channel blocks its suppliers.
    pub fn handle_timer_event<F: Forms>(
        &mut self,
        due: &DueTimer,
        pending_event: PendingEvent,
        forms: &F,
        now: Time,
    ) -> TimerOutcome {
        self.advance_time(now);
        channel_timers::admit(self, due, pending_event, forms)
    }

    /// Stops all timers, for a service that is about to end.
    pub fn stop_timers(&mut self) {
        self.agenda.timers_stopped = true;
    }

    // ---- how it is doing ----

    /// The lane's id.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// The routing snapshot in use.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Number of event types in the lane's table.
    #[must_use]
    pub fn types_known(&self) -> usize {
        self.types.len()
    }

    /// Number of event types released. Once it has changed, a type's number found out before must not be used for
    /// another event.
    #[must_use]
    pub fn types_released(&self) -> u64 {
        self.types.released_count()
    }

    /// Domain and name of an interned event type; `None` too if it was released.
    #[must_use]
    pub fn type_names(&self, event_type: TypeId) -> Option<(&[u8], &[u8])> {
        self.types.names(event_type)
    }

    /// Event types with their counts of events taken in, in a range of places, like [`outboxes_at`](Self::outboxes_at).
    pub fn types_at(&self, first: u32, places: u32) -> Option<impl Iterator<Item = TypeTraffic<'_>>> {
        self.types.counted_at(first, places)
    }

    /// Statistics of each consumer's outbox.
    pub fn outboxes(&self) -> impl Iterator<Item = OutboxStats> {
        self.outboxes.iter().filter(|outbox| outbox.bridge.is_none()).map(|outbox| self.stats_of(outbox))
    }

    /// Statistics of the consumers' outboxes in a range of places; `None` if there are no places from `first` on. An
    /// outbox keeps its place while it exists: a walk through all ranges, while outboxes come and go, meets each that
    /// existed all the time exactly once.
    pub fn outboxes_at(&self, first: u32, places: u32) -> Option<impl Iterator<Item = OutboxStats>> {
        let outboxes = self.outboxes.range(first, places)?;
        Some(outboxes.filter(|outbox| outbox.bridge.is_none()).map(|outbox| self.stats_of(outbox)))
    }

    /// Statistics of the channels in a range of places, like [`outboxes_at`](Self::outboxes_at).
    pub fn channels_at(&self, first: u32, places: u32) -> Option<impl Iterator<Item = ChannelStats>> {
        Some(self.channels.range(first, places)?.map(ChannelState::stats))
    }

    /// Statistics of a channel; `None` if it is not on the lane.
    #[must_use]
    pub fn channel_stats(&self, channel: ChannelId) -> Option<ChannelStats> {
        Some(self.channels.get(*self.places.slots.get(&channel)?)?.stats())
    }

    /// Statistics of each channel.
    pub fn channels(&self) -> impl Iterator<Item = ChannelStats> {
        self.channels.iter().map(ChannelState::stats)
    }

    /// Counters of the lane since it was created.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sets the time, which never goes back.
    fn advance_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}

#[cfg(test)]
mod tests;

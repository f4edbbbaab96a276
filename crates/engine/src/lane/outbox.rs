//! One consumer's outbox: the events that wait for it, those that are unanswered, and how its deliveries fare.
//!
//! It knows nothing of its channel or of other outboxes. Which event is next is its [`Queue`]'s matter; those that are
//! unanswered go back to where they were in line when one of them fails.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use super::counters::{Discards, Holding, OutboxState, OutboxStats};
use super::events::Events;
use super::history::CatchUp;
use super::latency::Latency;
use super::overflow::Elsewhere;
use super::queue::{Ask, Entry, Policy, Queue};
use super::tickets::Waiters;
use super::timers::Timers;
use crate::event::EventAt;
use crate::{
    ChannelId, ConsumerRoute, FullOutbox, HeldBy, LaneId, OutboxId, OutboxSettings, Peer, ProxyId, ProxyKey, Time, Want,
};

/// How many events may be under way from a channel to one other lane at once.
const HANDOVERS_MAX: u16 = 64;

/// A consumer that has taken nothing for so long does not keep up.
const KEEPS_UP_WITHIN: Duration = Duration::from_secs(1);

/// How many clients may wait for events of one outbox at once.
pub(super) const WAITING_PULLS_MAX: u32 = 4_096;

/// What the events of one delivery may weigh together, but for the first, which may be of any size. The rest come with the next.
const BATCH_BYTES_MAX: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) id: OutboxId,
    pub(super) key: ProxyKey,
    pub(super) peer: Option<Peer>,
    pub(super) want: Want,
    pub(super) connection: u64,
    /// The slot of its channel.
    pub(super) channel: u32,
    pub(super) settings: OutboxSettings,
    pub(super) suspended: bool,
    /// Of a bridge: the lane that its events are handed over to.
    pub(super) bridge: Option<LaneId>,
    /// How long a delivery may stay unanswered, in nanoseconds; `u64::MAX` if for ever.
    reply_nanos: u64,
    /// How old the next event may be until suppliers are held, in nanoseconds; `u64::MAX` if they are not for that.
    bound_nanos: u64,
    /// Whether it gets events as it asks for them, and whether several at a time.
    pub(super) pull: bool,
    batches: bool,
    /// Disconnected by the lane. It stays as a tombstone until routing no longer names its connection, so that a
    /// snapshot made before administration heard of it does not bring it back.
    pub(super) dead: bool,

    pub(super) waiting: Queue,
    /// The events of the deliveries that are unanswered, one's behind another's, and how many deliveries those are.
    unanswered: VecDeque<Unanswered>,
    in_flight: u32,
    /// What the events in `waiting` and `unanswered` weigh.
    pub(super) weight: u64,
    /// What comes behind those, and is not in memory.
    pub(super) elsewhere: Elsewhere,
    /// When the last arrived that came back from there, or from the past.
    pub(super) back_until: Time,
    /// Set while it is in its channel's past, and gets nothing that comes.
    pub(super) catch_up: Option<CatchUp>,
    /// Clients that wait for events to pull: how many each takes at most.
    credits: VecDeque<NonZeroU32>,
    next_serial: u32,
    /// When a delivery was last answered: the time limits of the others count from then on.
    pub(super) answered_at: Time,

    /// Since when it has taken nothing although it could have: it answered last then, or got something to take, or was resumed.
    pub(super) silent_since: Time,

    /// When the lane looks at it again at the latest; [`Entry::NEVER`] if it may not.
    pub(super) looked_at: Time,
    /// Whether it is in the lane's queue of ready outboxes.
    pub(super) listed: bool,
    /// Set while its connection takes nothing.
    pub(super) blocked: Option<Blocked>,
    /// Set while it waits after a failure.
    pub(super) retry_at: Option<Time>,
    pub(super) failures: u32,
    pub(super) failing_since: Time,

    /// Whether suppliers are held because it is full, those that are, and how many events that concerned so far.
    pub(super) holding: bool,
    /// Whether that is because its next event has waited for longer than its bound.
    pub(super) is_late: bool,
    pub(super) holding_since: Time,
    /// Whether that is so although it refuses events: those of suppliers on other lanes it cannot.
    pub(super) holds_handovers: bool,
    pub(super) waiters: Waiters,
    pub(super) held_events: u64,
    /// Set from when suppliers have waited for it for too long, and do not any more, until it takes something: how many events were
    /// dropped for that before.
    pub(super) waited_out: Option<u64>,
    /// Whether it is full at its own bound, or as its channel's laggard, and what was dropped since.
    pub(super) full_at_bound: bool,
    pub(super) full_as_laggard: bool,
    pub(super) dropped_while_full: u64,

    pub(super) delivered: u64,
    pub(super) discards: Discards,
    pub(super) delivered_bytes: u64,
    pub(super) latency: Latency,
}

/// An event that is unanswered, and the delivery that it is of.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    entry: Entry,
    /// When the delivery's time is over; [`Entry::NEVER`] if it never is.
    deadline: Time,
    serial: u32,
    /// Of a client that waited: how many events it takes at most.
    credit: Option<NonZeroU32>,
    /// Whether a consumer asked for it.
    pulled: bool,
}

/// An event that has come in, as outboxes are offered it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// What it is to a consumer who changes nothing of it.
    pub(super) entry: Entry,
    /// Whether it has a lifetime, or times at which it may be delivered at the earliest or latest.
    pub(super) is_timed: bool,
    pub(super) weight: u64,
    pub(super) serial: u64,
    pub(super) start: Option<Time>,
    pub(super) stop: Option<Time>,
    /// Its own, or its supplier's.
    pub(super) timeout: Option<Duration>,
    /// Of its lifetime this was over when it arrived, as far as this lane can say.
    pub(super) older_by: Duration,
    /// Whether its lifetime only puts it in order.
    pub(super) never_expires: bool,
}

/// How much later events expire that never do: after all that do, and still in the order of their lifetimes.
const NEVER_EXPIRES_LATER: Duration = Duration::from_secs(146 * 365 * 24 * 3600);

/// Everything an outbox had.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    unanswered: VecDeque<Unanswered>,
    waiting: Queue,
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        self.unanswered.len() + self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out one event: those that were unanswered first, then those that waited, in the order of delivery.
    pub(super) fn pop(&mut self, events: &Events) -> Option<EventAt> {
        let unanswered = self.unanswered.pop_front().map(|unanswered| unanswered.entry);
        unanswered.or_else(|| self.waiting.pop_any(events)).map(|entry| entry.event)
    }
}

/// A connection that takes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    /// The delivery that it did not take.
    pub(super) serial: u32,
    /// When that becomes a failure; [`Entry::NEVER`] if it does not.
    pub(super) deadline: Time,
}

/// A delivery as its outbox sees it.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) serial: u32,
    /// [`Entry::NEVER`] if there is none.
    pub(super) deadline: Time,
    pub(super) pulled: bool,
    pub(super) ask: Ask,
}

impl Outbox {
    pub(super) fn new(id: OutboxId, channel: u32, route: &ConsumerRoute) -> Self {
        let mut outbox = Self::empty(id, channel, route.key, *route.settings, route.batches);
        outbox.connection = route.connection;
        outbox.pull = route.pull;
        (outbox.peer, outbox.want, outbox.suspended) = (route.peer, route.want, route.suspended);
        outbox
    }

    /// The outbox for a channel's events that are handed over to another lane.
    pub(super) fn bridge(id: OutboxId, (slot, channel): (u32, ChannelId), lane: LaneId) -> Self {
        // It has no proxy; the key still says which channel it belongs to.
        let key = ProxyKey { channel, proxy: ProxyId(u32::MAX) };
        let settings = OutboxSettings {
            full_outbox: Some(FullOutbox::Hold),
            push_window: HANDOVERS_MAX,
            reply_timeout: Duration::ZERO,
            give_up_after: Duration::ZERO,
            hold_timeout: Some(Duration::ZERO),
            ..OutboxSettings::default()
        };
        let mut outbox = Self::empty(id, slot, key, settings, false);
        outbox.bridge = Some(lane);
        outbox
    }

    fn empty(id: OutboxId, channel: u32, key: ProxyKey, settings: OutboxSettings, batches: bool) -> Self {
        Self {
            id,
            key,
            peer: None,
            want: Want::default(),
            connection: 0,
            channel,
            settings,
            suspended: false,
            bridge: None,
            reply_nanos: nanos_of(settings.reply_timeout),
            bound_nanos: nanos_of(settings.latency_bound),
            pull: false,
            batches,
            dead: false,
            waiting: Queue::new(Policy::of(&settings, batches)),
            unanswered: VecDeque::new(),
            in_flight: 0,
            weight: 0,
            elsewhere: Elsewhere::default(),
            back_until: Time(0),
            catch_up: None,
            credits: VecDeque::new(),
            next_serial: 0,
            answered_at: Time(0),
            silent_since: Time(0),
            looked_at: Entry::NEVER,
            listed: false,
            blocked: None,
            retry_at: None,
            failures: 0,
            failing_since: Time(0),
            holding: false,
            is_late: false,
            holding_since: Time(0),
            holds_handovers: false,
            waiters: Waiters::new(),
            held_events: 0,
            waited_out: None,
            full_at_bound: false,
            full_as_laggard: false,
            dropped_while_full: 0,
            delivered: 0,
            discards: Discards::default(),
            delivered_bytes: 0,
            latency: Latency::default(),
        }
    }

    /// Takes over what routing says of it now.
    pub(super) fn update(&mut self, route: &ConsumerRoute, events: &Events, now: Time) {
        if self.suspended && !route.suspended {
            self.silent_since = now;
        }
        self.peer = route.peer;
        self.want = route.want;
        self.settings = *route.settings;
        self.reply_nanos = nanos_of(route.settings.reply_timeout);
        self.bound_nanos = nanos_of(route.settings.latency_bound);
        self.suspended = route.suspended;
        self.waiting.set_policy(Policy::of(&route.settings, self.batches), events);
    }

    /// Whose backlog it is, as people are told.
    pub(super) fn held_by(&self) -> HeldBy {
        self.bridge.map_or(HeldBy::Consumer(self.key), HeldBy::Lane)
    }

    // ---- suppliers that wait for it ----

    /// Whether it has something that it could take, or has yet to answer, unless it is suspended.
    #[inline]
    pub(super) fn can_take(&self) -> bool {
        self.waiting.ready() > 0 || !self.unanswered.is_empty()
    }

    /// Notes an answer.
    #[inline]
    pub(super) fn answered(&mut self, now: Time) {
        (self.answered_at, self.silent_since) = (now, now);
    }

    /// Since when it is the one that suppliers wait for, as becomes known now, who were held then for whomever. If it has taken nothing
    /// since, they have waited for it all the time.
    pub(super) fn waited_for_since(&self, held: Time, now: Time) -> Time {
        if self.silent_since <= held && !self.blocks() { held } else { now }
    }

    /// When suppliers that wait for it since then have waited for long enough; [`Entry::NEVER`] if never.
    pub(super) fn held_until(&self, since: Time) -> Time {
        if self.blocks() { since + self.settings.blocking } else { self.silent_until(since) }
    }

    /// When a consumer that they wait for since then has taken nothing for long enough.
    fn silent_until(&self, since: Time) -> Time {
        match self.settings.held_at_most() {
            limit if limit.is_zero() => Entry::NEVER,
            limit => since.max(self.silent_since) + limit,
        }
    }

    /// Whether suppliers wait for a time before events of this consumer are dropped.
    pub(super) fn blocks(&self) -> bool {
        let discards = matches!(self.settings.full_outbox, None | Some(FullOutbox::Discard));
        discards && !self.settings.blocking.is_zero() && self.bridge.is_none()
    }

    /// Whether suppliers wait where this is what is done because it is full; `taking_over` says that they have had their answer.
    pub(super) fn would_hold(&self, policy: FullOutbox, taking_over: bool) -> bool {
        match policy {
            FullOutbox::Hold => true,
            FullOutbox::Discard => self.blocks(),
            // The supplier's lane has accepted the event already.
            FullOutbox::Reject => taking_over,
            FullOutbox::Disconnect => false,
        }
    }

    /// The same for those that wait because it is full, or late.
    pub(super) fn held_until_for_itself(&self) -> Time {
        match (self.holding, self.is_late) {
            (false, _) => Entry::NEVER,
            (true, false) => self.held_until(self.holding_since),
            (true, true) => self.silent_until(self.holding_since),
        }
    }

    // ---- latency ----

    /// Whether suppliers are held because of how old its events are.
    #[inline]
    pub(super) fn is_bounded(&self) -> bool {
        self.bound_nanos != u64::MAX
    }

    /// Whether it keeps up, and the event that it gets next has waited for longer than it should. Of one that is late already: not much
    /// less long.
    pub(super) fn exceeds_bound(&self, events: &Events, now: Time) -> bool {
        let bound = if self.is_late { self.bound_nanos / 8 * 7 } else { self.bound_nanos };
        let keeps_up = self.failures == 0
            && !self.suspended
            && self.elsewhere.events == 0
            && self.catch_up.is_none()
            && self.waited_out.is_none()
            && now.since(self.silent_since) < KEEPS_UP_WITHIN;
        keeps_up && self.waiting.next_since(events).is_some_and(|since| now.0.saturating_sub(since.0) > bound)
    }

    /// Holds suppliers for that.
    #[cold]
    pub(super) fn begin_late_hold(&mut self, now: Time, timers: &mut Timers) {
        (self.holding, self.is_late, self.holding_since) = (true, true, now);
        self.look_at(self.keeps_up_until().min(self.held_until_for_itself()), timers);
    }

    /// When it does not keep up any more, unless it takes something.
    pub(super) fn keeps_up_until(&self) -> Time {
        self.silent_since + KEEPS_UP_WITHIN
    }

    // ---- the queue ----

    /// Whether as many events wait as may.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.settings.max_events_per_consumer.is_some_and(|max| self.waiting_anywhere() >= u64::from(max.get()))
    }

    /// Events that wait, those that are kept elsewhere included.
    fn waiting_anywhere(&self) -> u64 {
        self.waiting.len() as u64 + self.elsewhere.events
    }

    /// Whether more events wait than may, and some of them in memory.
    pub(super) fn is_overfull(&self) -> bool {
        let max = self.settings.max_events_per_consumer;
        !self.waiting.is_empty() && max.is_some_and(|max| self.waiting_anywhere() > u64::from(max.get()))
    }

    /// Whether there is room again, by an eighth of the bound so that "full" does not flutter.
    pub(super) fn has_room_again(&self) -> bool {
        self.settings.max_events_per_consumer.is_none_or(|max| {
            let max = max.get();
            self.waiting_anywhere() <= u64::from(max - max.div_ceil(8))
        })
    }

    /// What is done where it is full: if nothing is said, as the standard has it; or, where there is no room elsewhere, as where a
    /// channel's memory is spent.
    pub(super) fn full_policy(&self, has_room_elsewhere: bool) -> FullOutbox {
        let unset = if has_room_elsewhere { FullOutbox::Discard } else { FullOutbox::Hold };
        self.settings.full_outbox.unwrap_or(unset)
    }

    /// An event as it waits here.
    #[inline]
    pub(super) fn entry(&self, offer: &Offer, ask: Ask) -> Entry {
        let entry = Entry { ask, ..offer.entry };
        if offer.is_timed || self.settings.timeout.is_some() {
            return self.timed(entry, offer, self.lifetime(offer));
        }
        entry
    }

    /// How long after its arrival an event expires here, unless a mapping filter says otherwise.
    pub(super) fn lifetime(&self, offer: &Offer) -> Option<Duration> {
        offer.timeout.or(self.settings.timeout)
    }

    /// An event that has this lifetime here.
    pub(super) fn timed(&self, entry: Entry, offer: &Offer, lifetime: Option<Duration>) -> Entry {
        // OMG Notification Service 1.1, 2.5.5: `StartTime` and `StopTime` count where they are supported.
        let start = offer.start.filter(|_| self.settings.start_time_supported);
        let stop = offer.stop.filter(|_| self.settings.stop_time_supported);
        let arrived = offer.entry.since;
        let ends = |lifetime: Duration| arrived + lifetime.saturating_sub(offer.older_by);
        let end = lifetime.filter(|lifetime| !lifetime.is_zero()).map_or(Entry::NEVER, ends);
        let since = start.map_or(arrived, |start| start.max(arrived));
        let expiry = stop.map_or(end, |stop| stop.min(end));
        let expiry = if offer.never_expires { expiry + NEVER_EXPIRES_LATER } else { expiry };
        Entry { is_plain: since == arrived && expiry == Entry::NEVER, since, expiry, ..entry }
    }

    /// Queues an event.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, offer: &Offer, events: &Events, now: Time) {
        if !self.can_take() {
            self.silent_since = now;
        }
        self.weight += offer.weight;
        self.waiting.insert(entry, offer.serial, events, now);
    }

    /// Takes out the waiting event that its policy gives up first.
    pub(super) fn pop_discard(&mut self, events: &Events) -> Option<EventAt> {
        let entry = self.waiting.pop_discard(events)?;
        self.weight -= events.weight(entry.event);
        Some(entry.event)
    }

    /// Takes out a waiting event that has expired.
    pub(super) fn pop_expired(&mut self, events: &Events, now: Time) -> Option<EventAt> {
        let entry = self.waiting.pop_expired(now)?;
        self.weight -= events.weight(entry.event);
        Some(entry.event)
    }

    pub(super) fn backlog(&self) -> usize {
        self.waiting.len() + self.unanswered.len()
    }

    /// Takes out everything; leaves nothing that anybody waits for.
    pub(super) fn take_all(&mut self) -> Backlog {
        self.weight = 0;
        self.in_flight = 0;
        self.credits.clear();
        let empty = Queue::new(self.waiting.policy());
        let waiting = core::mem::replace(&mut self.waiting, empty);
        Backlog { unanswered: core::mem::take(&mut self.unanswered), waiting }
    }

    // ---- deliveries ----

    /// Whether a delivery can begin now. While deliveries fail, one at a time finds out whether they still do.
    #[inline]
    pub(super) fn is_ready(&self, events: &Events, now: Time) -> bool {
        // The commonest reasons not to be come first, so that it costs little to ask.
        self.waiting.ready() > 0
            && self.is_wanted()
            && !(self.suspended || self.dead || self.blocked.is_some() || self.retry_at.is_some())
            && (!self.waiting.is_special() || self.is_due(events, now))
    }

    #[inline]
    fn is_wanted(&self) -> bool {
        let window = if self.failures > 0 { 1 } else { u32::from(self.settings.push_window) };
        if self.pull { !self.credits.is_empty() } else { self.in_flight < window }
    }

    fn is_due(&self, events: &Events, now: Time) -> bool {
        self.is_batch_due(events, now) && !self.waiting.has_expired(now)
    }

    /// How many events the next delivery may have.
    #[inline]
    fn batch_max(&self) -> u32 {
        if !self.batches {
            return 1;
        }
        match self.credits.front() {
            Some(credit) => self.pull_max(credit.get()),
            None => self.settings.batch_size_max.get(),
        }
    }

    /// How many events a client gets that takes so many at most. `MaximumBatchSize` bounds it too, but for 1: that is
    /// the default, and would make taking several impossible for clients that never heard of it.
    fn pull_max(&self, most: u32) -> u32 {
        match self.settings.batch_size_max.get() {
            _ if !self.batches => 1,
            1 => most,
            bound => most.min(bound),
        }
    }

    /// OMG Notification Service 1.1, 2.5.5, `PacingInterval`: a batch leaves when it is full, or when the first of it has
    /// waited for that long. An event that others are asked about is a batch of its own, and so is full.
    fn is_batch_due(&self, events: &Events, now: Time) -> bool {
        !self.waiting.policy().paced
            || self.waiting.ready() >= self.batch_max() as usize
            || self.waiting.next_ask(events) != Ask::NONE
            || self.paced_until(events).is_none_or(|due| due <= now)
    }

    /// When the pacing interval of the event is over that has waited for longest.
    fn paced_until(&self, events: &Events) -> Option<Time> {
        let oldest = self.waiting.oldest(events).filter(|_| self.waiting.policy().paced)?;
        Some(oldest + self.settings.pacing_interval)
    }

    /// Whether a client waits for events.
    pub(super) fn pulls_wait(&self) -> bool {
        !self.credits.is_empty()
    }

    /// Begins the next delivery to a consumer that is pushed to, or to the client that has waited for longest. `taken` is
    /// told each of its events.
    #[inline]
    pub(super) fn hand_out(&mut self, events: &Events, now: Time, taken: impl FnMut(EventAt)) -> Option<Handed> {
        let most = self.batch_max();
        let credit = if self.pull { Some(self.credits.pop_front()?) } else { None };
        self.begin((self.pull, credit), most, (events, now), taken)
    }

    /// Begins a delivery to a client that takes what there is.
    pub(super) fn hand_out_now(
        &mut self,
        most: u32,
        events: &Events,
        now: Time,
        taken: impl FnMut(EventAt),
    ) -> Option<Handed> {
        if self.waiting.ready() == 0 || self.suspended || self.dead || self.waiting.has_expired(now) {
            return None;
        }
        self.begin((true, None), self.pull_max(most), (events, now), taken)
    }

    #[inline]
    fn begin(
        &mut self,
        (pulled, credit): (bool, Option<NonZeroU32>),
        most: u32,
        (events, now): (&Events, Time),
        mut taken: impl FnMut(EventAt),
    ) -> Option<Handed> {
        let entry = self.waiting.pop(events)?;
        let (serial, ask) = (self.next_serial, entry.ask);
        self.next_serial = serial.wrapping_add(1);
        // Whoever asked for it is told by its own connection what became of it.
        let deadline = if pulled { Entry::NEVER } else { self.deadline(now, ask != Ask::NONE) };
        self.in_flight += 1;
        taken(entry.event);
        self.unanswered.push_back(Unanswered { entry, deadline, serial, credit, pulled });
        // One that others are asked about comes alone.
        if most > 1 && ask == Ask::NONE {
            self.fill_batch(most - 1, Unanswered { entry, deadline, serial, credit: None, pulled }, events, taken);
        }
        Some(Handed { serial, deadline, pulled, ask })
    }

    /// Adds so many events to a delivery that has begun like this, if there are as many.
    fn fill_batch(&mut self, most: u32, begun: Unanswered, events: &Events, mut taken: impl FnMut(EventAt)) {
        let mut room = BATCH_BYTES_MAX.saturating_sub(events.weight(begun.entry.event));
        for _ in 0..most {
            let Some((ask, next)) = self.waiting.next(events) else { return };
            let weight = events.weight(next);
            if ask != Ask::NONE || weight > room {
                return;
            }
            room -= weight;
            let Some(entry) = self.waiting.pop(events) else { return };
            taken(entry.event);
            self.unanswered.push_back(Unanswered { entry, ..begun });
        }
    }

    /// Where the events of an unanswered delivery are: the first of them.
    #[inline]
    pub(super) fn position(&self, serial: u32) -> Option<usize> {
        // Serials rise from front to back, with gaps where a later one was answered first. They are compared by their
        // distance from the front because they wrap around.
        let front = self.unanswered.front()?.serial;
        if front == serial {
            return Some(0);
        }
        let distance = |of: u32| of.wrapping_sub(front);
        let at = self.unanswered.partition_point(|event| distance(event.serial) < distance(serial));
        self.unanswered.get(at).is_some_and(|event| event.serial == serial).then_some(at)
    }

    /// Notes that the delivery at `position` is done with. Says how many events it has.
    #[inline]
    pub(super) fn end(&mut self, position: usize) -> usize {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.count_of(position)
    }

    /// Takes out the unanswered event at the front.
    #[inline]
    pub(super) fn pop_unanswered(&mut self, events: &Events) -> Option<EventAt> {
        let event = self.unanswered.pop_front()?.entry.event;
        self.weight -= events.weight(event);
        Some(event)
    }

    /// Takes out so many unanswered events from `position` on.
    pub(super) fn take_unanswered(&mut self, position: usize, count: usize, events: &Events, into: &mut Vec<EventAt>) {
        for event in self.unanswered.drain(position..position + count) {
            self.weight -= events.weight(event.entry.event);
            into.push(event.entry.event);
        }
    }

    /// How many events the delivery at `position` has.
    #[inline]
    fn count_of(&self, position: usize) -> usize {
        if !self.batches {
            return 1;
        }
        let serial = |at: usize| self.unanswered.get(at).map(|event| event.serial);
        let (first, mut end) = (serial(position), position + 1);
        while serial(end) == first {
            end += 1;
        }
        end - position
    }

    /// Whether the delivery at `position` was asked for.
    #[inline]
    pub(super) fn is_pulled(&self, position: usize) -> bool {
        self.unanswered.get(position).is_some_and(|event| event.pulled)
    }

    /// Puts back the delivery at `position` and all later ones. Says how many events.
    pub(super) fn put_back_from(&mut self, position: usize, events: &Events, now: Time) -> u64 {
        let mut count = 0;
        let mut last = None;
        // The last first, so that each finds its place at the front of those that wait.
        while self.unanswered.len() > position
            && let Some(Unanswered { entry, serial, .. }) = self.unanswered.pop_back()
        {
            self.in_flight -= u32::from(last != Some(serial));
            last = Some(serial);
            self.waiting.put_back(entry, events, now);
            count += 1;
        }
        count
    }

    /// Puts back the delivery at `position` and no other. Says how many events.
    pub(super) fn put_back_one(&mut self, position: usize, events: &Events, now: Time) -> u64 {
        let count = self.end(position);
        for event in self.unanswered.drain(position..position + count).rev() {
            self.waiting.put_back(event.entry, events, now);
        }
        count as u64
    }

    // ---- clients that wait for events to pull ----

    /// Notes that one more waits; says whether there was room to note it.
    pub(super) fn wait(&mut self, most: u32) -> bool {
        let has_room = self.credits.len() < WAITING_PULLS_MAX as usize;
        if has_room {
            self.credits.push_back(NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN));
        }
        has_room
    }

    /// The client that began to wait last is gone.
    pub(super) fn cancel_wait(&mut self) {
        self.credits.pop_back();
    }

    /// The delivery at `position` comes to nothing: the client that waited for it goes on waiting, before all others.
    pub(super) fn wait_again(&mut self, position: usize) {
        if let Some(credit) = self.unanswered.get_mut(position).and_then(|event| event.credit.take()) {
            self.credits.push_front(credit);
        }
    }

    // ---- failures and time limits ----

    /// Notes a failure: everything unanswered goes back, and nothing is delivered for a while. Says how many events
    /// went back.
    pub(super) fn fail(&mut self, events: &Events, now: Time) -> u64 {
        let put_back = self.put_back_from(0, events, now);
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures = self.failures.saturating_add(1);
        self.blocked = None;
        self.retry_at = Some(now + self.settings.backoff(self.failures));
        put_back
    }

    /// Whether it has failed for so long that it is to be given up.
    pub(super) fn is_hopeless(&self, now: Time) -> bool {
        let limit = self.settings.gives_up_after();
        !limit.is_zero() && now.since(self.failing_since) >= limit
    }

    /// When a time limit that begins now is over; [`Entry::NEVER`] if it never is. If remote filters are asked first, they
    /// have theirs before it.
    #[inline]
    pub(super) fn deadline(&self, now: Time, asks: bool) -> Time {
        let begins = if asks { now + self.settings.filter_timeout } else { now };
        Time(begins.0.saturating_add(self.reply_nanos))
    }

    /// The delivery whose time is over, if one's is: an unanswered one's, or the one that found no room.
    pub(super) fn overdue(&self, now: Time) -> Option<u32> {
        let unanswered = self.unanswered.iter().find(|event| self.deadline_of(event) <= now);
        let blocked = || self.blocked.filter(|blocked| blocked.deadline <= now).map(|blocked| blocked.serial);
        unanswered.map(|event| event.serial).or_else(blocked)
    }

    /// When the time of a delivery is over. A consumer that answers one after the other has as long for each, however many
    /// are under way.
    fn deadline_of(&self, event: &Unanswered) -> Time {
        event.deadline.max(self.answered_at + self.settings.reply_timeout)
    }

    /// When something next becomes due of itself. (Later deliveries have later deadlines, but for a change of settings:
    /// all are looked at, which happens once for each time limit and not for each event.)
    pub(super) fn next_due(&self, events: &Events, now: Time) -> Option<Time> {
        let answers = self.unanswered.iter().map(|event| self.deadline_of(event));
        let room = self.blocked.map(|blocked| blocked.deadline);
        let limits = answers.chain(room).filter(|due| *due != Entry::NEVER);
        limits.chain(self.retry_at).chain(self.waiting_due(events, now)).min()
    }

    /// When something next becomes due of the events that wait: one expires, one may be delivered, or a batch need not
    /// be full any more. (If it need not be already, it waits for something else.)
    #[inline]
    pub(super) fn waiting_due(&self, events: &Events, now: Time) -> Option<Time> {
        if !self.waiting.policy().paced {
            return self.waiting.next_due();
        }
        let paced = self.paced_until(events).filter(|due| *due > now);
        self.waiting.next_due().into_iter().chain(paced).min()
    }

    /// Has the lane look at it at `due` or earlier.
    #[inline]
    pub(super) fn look_at(&mut self, due: Time, timers: &mut Timers) {
        if due < self.looked_at {
            self.looked_at = due;
            timers.set(self.id.slot, due);
        }
    }

    /// Lets a test see what happens when serials wrap around.
    #[cfg(test)]
    pub(super) fn start_serials_at(&mut self, serial: u32) {
        self.next_serial = serial;
    }

    // ---- what it is doing ----

    pub(super) fn stats(&self, holds: Option<Holding>, events: &Events) -> OutboxStats {
        let unanswered = self.unanswered.front().map(|first| events.turn(first.entry.event).0);
        let oldest = unanswered.or_else(|| self.waiting.oldest(events));
        let state = if self.dead {
            OutboxState::Disconnected
        } else if self.suspended {
            OutboxState::Suspended
        } else if self.retry_at.is_some() {
            OutboxState::BackingOff
        } else if self.blocked.is_some() {
            OutboxState::NoRoom
        } else {
            OutboxState::Active
        };
        OutboxStats {
            outbox: self.id,
            key: self.key,
            peer: self.peer,
            state,
            backlog_events: self.backlog() as u64 + self.elsewhere.events,
            elsewhere_events: self.elsewhere.events,
            backlog_bytes: self.weight,
            in_flight: u32::try_from(self.unanswered.len()).unwrap_or(u32::MAX),
            delayed: self.waiting.delayed() as u64,
            pulls_waiting: u32::try_from(self.credits.len()).unwrap_or(u32::MAX),
            delivered: self.delivered,
            delivered_bytes: self.delivered_bytes,
            latency: self.latency,
            discards: self.discards,
            failures: self.failures,
            holds,
            oldest,
        }
    }
}

/// A time limit in nanoseconds; of none, `u64::MAX`.
fn nanos_of(limit: Duration) -> u64 {
    if limit.is_zero() { u64::MAX } else { u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX) }
}

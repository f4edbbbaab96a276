//! One consumer's outbox: its waiting events, its unanswered events, and the state of its deliveries.
//!
//! It knows nothing of its channel or of other outboxes. Its [`Queue`] chooses the next event; unanswered events go
//! back to their place in line when one of them fails.

mod aside;
mod deliveries;
mod limits;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::num::NonZeroU32;
use core::time::Duration;

use self::aside::Aside;
use super::counters::{Discards, Holding, OutboxState, OutboxStats};
use super::events::Events;
use super::history::CatchUp;
use super::hold_budget::Charging;
use super::latency::Latency;
use super::overflow::Elsewhere;
use super::queue::{Ask, Entry, Policy, Queue};
use super::sets::{Correlated, Sets};
use super::tickets::Waiters;
use super::timers::Timers;
use crate::event::EventAt;
use crate::{
    BlockedBy, ChannelId, ClientAddress, ConsumerRoute, FullOutbox, LaneId, OutboxId, OutboxSettings, OutputForm, Peer,
    ProxyId, ProxyKey, Reliability, Time,
};

/// Most events under way from a channel to one other lane.
const HANDOVERS_MAX: u16 = 64;

/// A consumer that could take events and has taken none for this long does not keep up.
const KEEPS_UP_WITHIN: Duration = Duration::from_secs(1);

/// Most clients that wait for events of one outbox.
pub(super) const WAITING_PULLS_MAX: u32 = 4_096;

/// Time without a rejected event after which the next rejection is reported again.
const EPISODE_OVER_AFTER: Duration = Duration::from_secs(60);

/// Largest total weight of one delivery's events, except that the first may have any size. The rest follow with the next.
const BATCH_BYTES_MAX: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) id: OutboxId,
    pub(super) key: ProxyKey,
    pub(super) peer: Option<Peer>,
    pub(super) connection: u64,
    /// Slot of the outbox's channel.
    pub(super) channel: u32,
    /// Of a bridge: the lane that events are handed over to.
    pub(super) bridge: Option<LaneId>,
    pub(super) suspended: bool,
    /// Whether the lane disconnected the consumer. The outbox stays as a tombstone until routing no longer names the
    /// connection, so that a snapshot made before administration heard of it does not bring it back.
    pub(super) dead: bool,
    pub(super) terms: Terms,

    pub(super) waiting: Queue,
    pub(super) flight: Flight,
    /// Weight of the events in `waiting` and in flight.
    pub(super) weight: u64,
    /// Backlog stored elsewhere, which comes after those.
    pub(super) elsewhere: Elsewhere,
    /// Arrival of the last event that came back from there, or from the history.
    pub(super) back_until: Time,
    /// Position in the channel's history. While it is set, the consumer gets events of the history and no new ones.
    pub(super) catch_up: Option<CatchUp>,

    /// Latest time of the lane's next look at the outbox; [`Entry::NEVER`] if it may not come.
    pub(super) looked_at: Time,
    /// Whether it is in the lane's queue of ready outboxes.
    pub(super) listed: bool,
    pub(super) trouble: Trouble,
    pub(super) aside: Aside,
    pub(super) hold: OutboxHold,
    pub(super) full: Full,
    pub(super) counters: OutboxCounters,
}

/// Terms of delivery to the consumer.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) settings: OutboxSettings,
    pub(super) output_form: OutputForm,
    /// Client address that is charged for the time suppliers wait for the consumer.
    pub(super) client_address: Option<ClientAddress>,
    /// Whether the consumer [is durable](crate::Hierarchy::make_durable).
    pub(super) durable: bool,
    /// Whether the consumer pulls its events, and whether it takes several at a time.
    pub(super) pull: bool,
    batches: bool,
    /// Longest time for an answer, in nanoseconds; `u64::MAX` if unlimited.
    reply_nanos: u64,
    /// Age of the next event above which suppliers are blocked, in nanoseconds; `u64::MAX` if never.
    bound_nanos: u64,
}

/// Deliveries under way.
#[derive(Debug)]
pub(super) struct Flight {
    /// Events of these deliveries, in order, and the number of deliveries.
    unanswered: VecDeque<Unanswered>,
    in_flight: u32,
    /// Waiting pulls: how many events each takes at most.
    credits: VecDeque<NonZeroU32>,
    next_serial: u32,
    pub(super) split: Split,
    /// Time of the last answer, from which the time limits of the other deliveries count.
    pub(super) answered_at: Time,
}

/// A batch that was rejected or failed, and is delivered again in smaller ones to find the event that is the reason.
/// Meanwhile one delivery is under way at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Most events that were put back for this in the next delivery.
    batch_max: u32,
    /// Number of events that were put back for this and are not yet delivered.
    pub(super) left: u64,
}

impl Flight {
    /// Number of deliveries under way.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }
}

impl Split {
    const NONE: Self = Self { batch_max: u32::MAX, left: 0 };
}

/// State of a consumer that does not take its events.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Since when it has taken nothing although it could have: the last answer, the arrival of something to take, or the resumption.
    pub(super) silent_since: Time,
    /// Set while its connection takes no data.
    pub(super) blocked: Option<Blocked>,
    /// Time of the next attempt, while it waits after a failure.
    pub(super) retry_at: Option<Time>,
    pub(super) failures: u32,
    pub(super) failing_since: Time,
    /// Time of the last rejection.
    rejected_at: Option<Time>,
}

/// State of suppliers that the outbox blocks.
#[derive(Debug)]
pub(super) struct OutboxHold {
    /// Whether suppliers are blocked because the outbox is full, and since when.
    pub(super) holding: bool,
    pub(super) holding_since: Time,
    /// Whether they are blocked because its next event has waited for longer than its bound.
    pub(super) is_late: bool,
    /// Whether they are blocked although it refuses events: those of suppliers on other lanes it cannot refuse.
    pub(super) holds_handovers: bool,
    pub(super) waiters: Waiters,
    /// Number of events so far whose suppliers were blocked.
    pub(super) blocked_events: u64,
    /// Number of earlier drops for this reason, set while the outbox no longer blocks suppliers because it did for too
    /// long. Reset when its consumer takes something.
    pub(super) waited_out: Option<u64>,
    /// Whether that is because its `hold_budget` is spent: then taking one event does not end it.
    pub(super) is_spent: bool,
    /// Set while the budget is charged.
    pub(super) charging: Option<Charging>,
}

/// Whether the outbox is full at its own bound, or as its channel's slow consumer, and the drops since.
#[derive(Debug, Default)]
pub(super) struct Full {
    pub(super) at_bound: bool,
    pub(super) as_slow_consumer: bool,
    pub(super) dropped: u64,
}

/// Numbers of the outbox's events, by what became of them.
#[derive(Debug, Default)]
pub(super) struct OutboxCounters {
    pub(super) delivered: u64,
    pub(super) delivered_bytes: u64,
    pub(super) discards: Discards,
    pub(super) latency: Latency,
}

/// An unanswered event, and its delivery.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    entry: Entry,
    /// Deadline of the delivery; [`Entry::NEVER`] if none.
    deadline: Time,
    serial: u32,
    /// Of a waiting pull: how many events it takes at most.
    credit: Option<NonZeroU32>,
    /// Whether the delivery was pulled.
    pulled: bool,
}

/// An admitted event as it is offered to outboxes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Entry of the event for a consumer that changes nothing of it.
    pub(super) entry: Entry,
    /// Whether the event has a lifetime, or an earliest or latest time of delivery.
    pub(super) is_timed: bool,
    pub(super) weight: u64,
    pub(super) serial: u64,
    pub(super) start: Option<Time>,
    pub(super) stop: Option<Time>,
    /// Lifetime from the event or its supplier's settings.
    pub(super) timeout: Option<Duration>,
    /// Part of its lifetime that was over when it arrived, as far as this lane can say.
    pub(super) older_by: Duration,
    /// Whether its lifetime only orders it.
    pub(super) never_expires: bool,
}

/// Added to the expiry of events that never expire: they sort after all that do, and among themselves by their lifetimes.
const NEVER_EXPIRES_LATER: Duration = Duration::from_secs(146 * 365 * 24 * 3600);

/// All events of an outbox.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    unanswered: VecDeque<Unanswered>,
    waiting: Queue,
}

impl Backlog {
    /// Events of sets that a consumer gets no more.
    pub(super) fn of_sets(sets: Option<Box<Sets>>) -> Self {
        let mut waiting = Queue::default();
        waiting.sets = sets;
        Self { waiting, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.unanswered.len() + self.waiting.len() + self.waiting.gathered()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes one event: unanswered ones first, then waiting ones, in the order of delivery.
    pub(super) fn pop(&mut self, events: &Events) -> Option<EventAt> {
        let unanswered = self.unanswered.pop_front().map(|unanswered| unanswered.entry);
        unanswered.or_else(|| self.waiting.pop_any(events)).map(|entry| entry.event)
    }
}

/// A connection that takes no data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    /// Serial of the delivery that it did not take.
    pub(super) serial: u32,
    /// When that becomes a failure; [`Entry::NEVER`] if never.
    pub(super) deadline: Time,
}

/// A delivery that an outbox has begun.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) serial: u32,
    /// [`Entry::NEVER`] if there is none.
    pub(super) deadline: Time,
    pub(super) pulled: bool,
    pub(super) ask: Ask,
    /// Set of the first event, and its place there.
    pub(super) correlated: Option<Correlated>,
}

impl Outbox {
    pub(super) fn new(id: OutboxId, channel: u32, route: &ConsumerRoute) -> Self {
        let mut outbox = Self::empty(id, channel, route.key, *route.settings, route.batches);
        outbox.connection = route.connection;
        (outbox.terms.pull, outbox.terms.durable) = (route.pull, route.durable);
        (outbox.peer, outbox.terms.output_form, outbox.suspended) = (route.peer, route.output_form, route.suspended);
        outbox
    }

    /// An outbox for a channel's events that are handed over to another lane.
    pub(super) fn bridge(id: OutboxId, (slot, channel): (u32, ChannelId), lane: LaneId) -> Self {
        // A bridge has no proxy; the key still names the channel.
        let key = ProxyKey { channel, proxy: ProxyId(u32::MAX) };
        let settings = OutboxSettings {
            full_outbox: Some(FullOutbox::Hold),
            push_window: HANDOVERS_MAX,
            reply_timeout: Duration::ZERO,
            give_up_after: Duration::ZERO,
            hold_timeout: Some(Duration::ZERO),
            delivery_attempts: 0,
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
            connection: 0,
            channel,
            bridge: None,
            suspended: false,
            dead: false,
            waiting: Queue::new(Policy::of(&settings, batches)),
            terms: Terms {
                settings,
                output_form: OutputForm::default(),
                client_address: None,
                durable: false,
                pull: false,
                batches,
                reply_nanos: nanos_of(settings.reply_timeout),
                bound_nanos: nanos_of(settings.latency_bound),
            },
            flight: Flight {
                unanswered: VecDeque::new(),
                in_flight: 0,
                credits: VecDeque::new(),
                next_serial: 0,
                split: Split::NONE,
                answered_at: Time(0),
            },
            weight: 0,
            elsewhere: Elsewhere::default(),
            back_until: Time(0),
            catch_up: None,
            looked_at: Entry::NEVER,
            listed: false,
            trouble: Trouble {
                silent_since: Time(0),
                blocked: None,
                retry_at: None,
                failures: 0,
                failing_since: Time(0),
                rejected_at: None,
            },
            aside: Aside::NONE,
            hold: OutboxHold {
                holding: false,
                holding_since: Time(0),
                is_late: false,
                holds_handovers: false,
                waiters: Waiters::new(),
                blocked_events: 0,
                waited_out: None,
                is_spent: false,
                charging: None,
            },
            full: Full::default(),
            counters: OutboxCounters::default(),
        }
    }

    /// Updates the outbox from its route. Returns how many unanswered events of a durable consumer's former client were put back.
    pub(super) fn update(&mut self, route: &ConsumerRoute, events: &Events, now: Time) -> u64 {
        let has_other_client = route.durable && route.peer != self.peer;
        if self.suspended && !route.suspended {
            self.trouble.silent_since = now;
        }
        (self.peer, self.terms.durable) = (route.peer, route.durable);
        self.terms.output_form = route.output_form;
        self.terms.client_address = route.client_address;
        self.terms.settings = *route.settings;
        self.terms.reply_nanos = nanos_of(route.settings.reply_timeout);
        self.terms.bound_nanos = nanos_of(route.settings.latency_bound);
        self.suspended = route.suspended;
        self.waiting.set_policy(Policy::of(&route.settings, self.terms.batches), events);
        if !has_other_client {
            return 0;
        }
        (self.trouble.blocked, self.trouble.retry_at) = (None, None);
        self.end_aside(events, now)
    }

    /// The owner of the backlog, as notices name it.
    pub(super) fn blocked_by(&self) -> BlockedBy {
        self.bridge.map_or(BlockedBy::Consumer(self.key), BlockedBy::Lane)
    }

    // ---- suppliers that wait for it ----

    /// Whether the consumer has events to take or to answer, and is not suspended.
    #[inline]
    pub(super) fn can_take(&self) -> bool {
        self.waiting.ready() > 0 || !self.flight.unanswered.is_empty()
    }

    #[inline]
    pub(super) fn answered(&mut self, now: Time) {
        (self.flight.answered_at, self.trouble.silent_since) = (now, now);
    }

    /// Since when suppliers, blocked since `blocked_since` for any consumer, wait for this one, as becomes known now:
    /// all the time, if it has taken nothing since.
    pub(super) fn waited_for_since(&self, blocked_since: Time, now: Time) -> Time {
        if self.trouble.silent_since <= blocked_since && !self.blocks() { blocked_since } else { now }
    }

    /// When suppliers that have waited for it from `since` on have waited long enough; [`Entry::NEVER`] if never.
    pub(super) fn blocked_until(&self, since: Time) -> Time {
        if self.blocks() { since + self.terms.settings.blocking } else { self.silent_until(since) }
    }

    /// When the consumer, waited for from `since` on, has taken nothing for long enough.
    fn silent_until(&self, since: Time) -> Time {
        match self.terms.settings.max_blocked_time() {
            limit if limit.is_zero() => Entry::NEVER,
            limit => since.max(self.trouble.silent_since) + limit,
        }
    }

    /// Whether suppliers are blocked for a time before events of this consumer are dropped.
    pub(super) fn blocks(&self) -> bool {
        let discards = matches!(self.terms.settings.full_outbox, None | Some(FullOutbox::Discard));
        discards && !self.terms.settings.blocking.is_zero() && self.bridge.is_none()
    }

    /// The action taken where `policy` applies; `taking_over` means that the supplier has its reply already. Durable
    /// consumers never block suppliers.
    pub(super) fn policy_when(&self, policy: FullOutbox, taking_over: bool) -> FullOutbox {
        match policy {
            FullOutbox::Reject if self.terms.durable && taking_over => FullOutbox::Discard,
            policy => policy,
        }
    }

    /// Whether `policy` at a full outbox blocks suppliers; `taking_over` means that the supplier has its reply already.
    pub(super) fn would_hold(&self, policy: FullOutbox, taking_over: bool) -> bool {
        match policy {
            FullOutbox::Hold => true,
            FullOutbox::Discard => self.blocks(),
            // The supplier's lane has accepted the event already.
            FullOutbox::Reject => taking_over,
            FullOutbox::Disconnect => false,
        }
    }

    /// When suppliers that this outbox blocks, by being full or late, have waited long enough.
    pub(super) fn blocked_until_for_itself(&self) -> Time {
        match (self.hold.holding, self.hold.is_late) {
            (false, _) => Entry::NEVER,
            (true, false) => self.blocked_until(self.hold.holding_since),
            (true, true) => self.silent_until(self.hold.holding_since),
        }
    }

    // ---- latency ----

    /// Whether the outbox blocks suppliers by the age of its events.
    #[inline]
    pub(super) fn is_bounded(&self) -> bool {
        self.terms.bound_nanos != u64::MAX
    }

    /// Whether the consumer keeps up, and its next event has waited for longer than its bound. While suppliers are
    /// blocked for that, the bound is a little lower.
    pub(super) fn exceeds_bound(&self, events: &Events, now: Time) -> bool {
        let bound = if self.hold.is_late { self.terms.bound_nanos / 8 * 7 } else { self.terms.bound_nanos };
        let keeps_up = self.trouble.failures == 0
            && !self.suspended
            && self.elsewhere.events == 0
            && self.catch_up.is_none()
            && self.hold.waited_out.is_none()
            && now.since(self.trouble.silent_since) < KEEPS_UP_WITHIN;
        keeps_up && self.waiting.next_since(events).is_some_and(|since| now.0.saturating_sub(since.0) > bound)
    }

    /// Blocks suppliers because the next event is late.
    #[cold]
    pub(super) fn begin_late_hold(&mut self, now: Time, timers: &mut Timers) {
        (self.hold.holding, self.hold.is_late, self.hold.holding_since) = (true, true, now);
        self.look_at(self.keeps_up_until().min(self.blocked_until_for_itself()), timers);
    }

    /// When the consumer stops keeping up, unless it takes something.
    pub(super) fn keeps_up_until(&self) -> Time {
        self.trouble.silent_since + KEEPS_UP_WITHIN
    }

    // ---- the queue ----

    /// Whether the outbox is at its bound of events or bytes.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.has_all_events() || self.has_bytes(0)
    }

    /// Whether the outbox is at its bound of events.
    #[inline]
    pub(super) fn has_all_events(&self) -> bool {
        self.terms.settings.max_events_per_consumer.is_some_and(|max| self.waiting_anywhere() >= u64::from(max.get()))
    }

    /// Whether the outbox is at its bound of bytes, lowered by this many eighths.
    fn has_bytes(&self, eighths: u64) -> bool {
        let bytes = || self.weight.saturating_add(self.elsewhere.bytes);
        let max = self.terms.settings.max_bytes_per_consumer;
        max.is_some_and(|max| bytes() >= max.get() - max.get() / 8 * eighths)
    }

    /// Whether the outbox never has this event refused: a durable consumer refuses persistent events only.
    pub(super) fn spares(&self, reliability: Reliability) -> bool {
        self.terms.durable && reliability == Reliability::BestEffort
    }

    /// Number of waiting events, including those stored elsewhere.
    fn waiting_anywhere(&self) -> u64 {
        self.waiting.len() as u64 + self.elsewhere.events
    }

    /// Whether the outbox exceeds its bound, and some of its events are in memory.
    pub(super) fn is_overfull(&self) -> bool {
        let max = self.terms.settings.max_events_per_consumer;
        !self.waiting.is_empty() && max.is_some_and(|max| self.waiting_anywhere() > u64::from(max.get()))
    }

    /// Whether the outbox is below its bound again by an eighth, so that "full" does not flutter.
    pub(super) fn has_room_again(&self) -> bool {
        let has_places = self.terms.settings.max_events_per_consumer.is_none_or(|max| {
            let max = max.get();
            self.waiting_anywhere() <= u64::from(max - max.div_ceil(8))
        });
        has_places && !self.has_bytes(1)
    }

    /// The action at the outbox's bound. If no policy is set, it is the standard's; or, where there is no room
    /// elsewhere, that for a spent memory budget.
    pub(super) fn full_policy(&self, has_room_elsewhere: bool) -> FullOutbox {
        let unset = if has_room_elsewhere { FullOutbox::Discard } else { FullOutbox::Hold };
        self.terms.settings.policy_at_bound().unwrap_or(unset)
    }

    /// Whether the supplier of an admitted event is blocked by this outbox.
    pub(super) fn holds_one_more(&self) -> bool {
        self.hold.holding && (self.hold.is_late || (self.hold.waiters.len() as u64) < self.still_blocked())
    }

    /// Number of the suppliers waiting for room here that stay blocked: as many as there are events too many.
    pub(super) fn still_blocked(&self) -> u64 {
        let max = self.terms.settings.max_events_per_consumer;
        max.map_or(u64::MAX, |max| (self.waiting_anywhere() + 1).saturating_sub(max.get().into()))
    }

    /// Queue entry of an event in this outbox.
    #[inline]
    pub(super) fn entry(&self, offer: &Offer, ask: Ask) -> Entry {
        let entry = Entry { ask, ..offer.entry };
        if offer.is_timed || self.terms.settings.timeout.is_some() {
            return self.timed(entry, offer, self.lifetime(offer));
        }
        entry
    }

    /// Lifetime of an event in this outbox, unless a mapping filter sets another.
    pub(super) fn lifetime(&self, offer: &Offer) -> Option<Duration> {
        offer.timeout.or(self.terms.settings.timeout)
    }

    /// Queue entry of an event with this lifetime.
    pub(super) fn timed(&self, entry: Entry, offer: &Offer, lifetime: Option<Duration>) -> Entry {
        // OMG Notification Service 1.1, 2.5.5: `StartTime` and `StopTime` count where they are supported.
        let start = offer.start.filter(|_| self.terms.settings.start_time_supported);
        let stop = offer.stop.filter(|_| self.terms.settings.stop_time_supported);
        let arrived = offer.entry.since;
        let ends = |lifetime: Duration| arrived + lifetime.saturating_sub(offer.older_by);
        let end = lifetime.filter(|lifetime| !lifetime.is_zero()).map_or(Entry::NEVER, ends);
        let since = start.map_or(arrived, |start| start.max(arrived));
        let expiry = stop.map_or(end, |stop| stop.min(end));
        let expiry = if offer.never_expires { expiry + NEVER_EXPIRES_LATER } else { expiry };
        Entry { is_plain: since == arrived && expiry == Entry::NEVER, since, expiry, ..entry }
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry, offer: &Offer, events: &Events, now: Time) {
        if !self.can_take() {
            self.trouble.silent_since = now;
        }
        self.weight += offer.weight;
        self.waiting.insert(entry, offer.serial, events, now);
    }

    /// Removes the waiting event that the discard policy chooses.
    pub(super) fn pop_discard(&mut self, events: &Events) -> Option<EventAt> {
        let entry = self.waiting.pop_discard(events)?;
        self.weight -= events.weight(entry.event);
        Some(entry.event)
    }

    /// Whether the next event to be dropped must not be lost to this consumer: it is durable, and the event's journal
    /// still waits for the report of each consumer.
    pub(super) fn would_lose(&self, events: &Events) -> bool {
        let next = || events.get(self.waiting.first_to_discard(events)?);
        self.terms.durable && next().is_some_and(|event| event.watch_each)
    }

    /// Removes a waiting event that has expired.
    pub(super) fn pop_expired(&mut self, events: &Events, now: Time) -> Option<EventAt> {
        let entry = self.waiting.pop_expired(now)?;
        self.weight -= events.weight(entry.event);
        Some(entry.event)
    }

    /// Number of waiting and unanswered events, those not included that wait for others of their set.
    pub(super) fn backlog(&self) -> usize {
        self.waiting.len() + self.flight.unanswered.len()
    }

    /// Removes everything, and all that suppliers or clients wait for.
    pub(super) fn take_all(&mut self) -> Backlog {
        self.weight = 0;
        self.flight.in_flight = 0;
        self.aside = Aside::NONE;
        self.flight.credits.clear();
        let empty = Queue::new(self.waiting.policy());
        let waiting = core::mem::replace(&mut self.waiting, empty);
        Backlog { unanswered: core::mem::take(&mut self.flight.unanswered), waiting }
    }

    // ---- what it is doing ----

    pub(super) fn stats(&self, holds: Option<Holding>, events: &Events) -> OutboxStats {
        let unanswered = self.flight.unanswered.front().map(|first| events.arrival_order(first.entry.event).0);
        let of_set = || Some(events.arrival_order(self.waiting.sets.as_ref()?.next()?.event).0);
        let oldest = unanswered.or_else(of_set).or_else(|| self.waiting.oldest(events));
        let state = if self.dead {
            OutboxState::Disconnected
        } else if self.suspended {
            OutboxState::Suspended
        } else if self.trouble.retry_at.is_some() {
            OutboxState::BackingOff
        } else if self.trouble.blocked.is_some() {
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
            awaiting_set: self.waiting.gathered() as u64,
            sets: self.waiting.sets.as_ref().map_or(0, |sets| sets.counters().sets),
            in_flight: u32::try_from(self.flight.unanswered.len()).unwrap_or(u32::MAX),
            delayed: self.waiting.delayed() as u64,
            pulls_waiting: u32::try_from(self.flight.credits.len()).unwrap_or(u32::MAX),
            delivered: self.counters.delivered,
            delivered_bytes: self.counters.delivered_bytes,
            latency: self.counters.latency,
            discards: self.counters.discards,
            failures: self.trouble.failures,
            given_up_at: self.given_up_at(),
            holds,
            oldest,
        }
    }
}

/// A time limit in nanoseconds; `u64::MAX` if it is zero, for none.
fn nanos_of(limit: Duration) -> u64 {
    if limit.is_zero() { u64::MAX } else { u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX) }
}

//! One consumer's outbox: the events that wait for it, those that are unanswered, and how its deliveries fare.
//!
//! It knows nothing of its channel or of other outboxes. Which event is next is its [`Queue`]'s matter; those that are
//! unanswered go back to where they were in line when one of them fails.

mod aside;
mod deliveries;
mod limits;

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
use super::tickets::Waiters;
use super::timers::Timers;
use crate::event::EventAt;
use crate::{
    BlockedBy, ChannelId, ClientAddress, ConsumerRoute, FullOutbox, LaneId, OutboxId, OutboxSettings, OutputForm, Peer,
    ProxyId, ProxyKey, Reliability, Time,
};

/// How many events may be under way from a channel to one other lane at once.
const HANDOVERS_MAX: u16 = 64;

/// A consumer that has taken nothing for so long does not keep up.
const KEEPS_UP_WITHIN: Duration = Duration::from_secs(1);

/// How many clients may wait for events of one outbox at once.
pub(super) const WAITING_PULLS_MAX: u32 = 4_096;

/// How long a consumer rejects no event until the next that it rejects is announced again.
const EPISODE_OVER_AFTER: Duration = Duration::from_secs(60);

/// What the events of one delivery may weigh together, but for the first, which may be of any size. The rest come with the next.
const BATCH_BYTES_MAX: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) id: OutboxId,
    pub(super) key: ProxyKey,
    pub(super) peer: Option<Peer>,
    pub(super) connection: u64,
    /// The slot of its channel.
    pub(super) channel: u32,
    /// Of a bridge: the lane that its events are handed over to.
    pub(super) bridge: Option<LaneId>,
    pub(super) suspended: bool,
    /// Disconnected by the lane. It stays as a tombstone until routing no longer names its connection, so that a
    /// snapshot made before administration heard of it does not bring it back.
    pub(super) dead: bool,
    pub(super) terms: Terms,

    pub(super) waiting: Queue,
    pub(super) flight: Flight,
    /// What the events in `waiting` and in flight weigh.
    pub(super) weight: u64,
    /// What comes behind those, and is not in memory.
    pub(super) elsewhere: Elsewhere,
    /// When the last arrived that came back from there, or from the history.
    pub(super) back_until: Time,
    /// Position in the channel's history. While it is set, the consumer gets events of the history and no new ones.
    pub(super) catch_up: Option<CatchUp>,

    /// When the lane looks at it again at the latest; [`Entry::NEVER`] if it may not.
    pub(super) looked_at: Time,
    /// Whether it is in the lane's queue of ready outboxes.
    pub(super) listed: bool,
    pub(super) trouble: Trouble,
    pub(super) aside: Aside,
    pub(super) hold: OutboxHold,
    pub(super) full: Full,
    pub(super) counters: OutboxCounters,
}

/// How its consumer wants events.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) settings: OutboxSettings,
    pub(super) output_form: OutputForm,
    /// The client address that is charged for what suppliers wait for it.
    pub(super) client_address: Option<ClientAddress>,
    /// Whether it [is durable](crate::Hierarchy::make_durable).
    pub(super) durable: bool,
    /// Whether it gets events as it asks for them, and whether several at a time.
    pub(super) pull: bool,
    batches: bool,
    /// How long a delivery may stay unanswered, in nanoseconds; `u64::MAX` if for ever.
    reply_nanos: u64,
    /// How old the next event may be until suppliers are blocked, in nanoseconds; `u64::MAX` if they are not for that.
    bound_nanos: u64,
}

/// Deliveries under way.
#[derive(Debug)]
pub(super) struct Flight {
    /// Their events, one delivery's behind another's, and how many deliveries those are.
    unanswered: VecDeque<Unanswered>,
    in_flight: u32,
    /// Clients that wait for events to pull: how many each takes at most.
    credits: VecDeque<NonZeroU32>,
    next_serial: u32,
    pub(super) split: Split,
    /// When a delivery was last answered: the time limits of the others count from then on.
    pub(super) answered_at: Time,
}

/// A batch that its consumer rejected, or that failed, and that is delivered again in smaller ones to find the event that is the reason.
/// They come one at a time meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// How many events that were put back for it the next delivery may have at most.
    batch_max: u32,
    /// Events until it is over: as many as were put back.
    pub(super) left: u64,
}

impl Split {
    const NONE: Self = Self { batch_max: u32::MAX, left: 0 };
}

/// A consumer that does not take what it could.
#[derive(Debug)]
pub(super) struct Trouble {
    /// Since when it has taken nothing although it could have: it answered last then, or got something to take, or was resumed.
    pub(super) silent_since: Time,
    /// Set while its connection takes nothing.
    pub(super) blocked: Option<Blocked>,
    /// Set while it waits after a failure.
    pub(super) retry_at: Option<Time>,
    pub(super) failures: u32,
    pub(super) failing_since: Time,
    /// When it last rejected an event.
    rejected_at: Option<Time>,
}

/// Suppliers that wait for it.
#[derive(Debug)]
pub(super) struct OutboxHold {
    /// Whether suppliers are blocked because it is full, and since when.
    pub(super) holding: bool,
    pub(super) holding_since: Time,
    /// Whether that is because its next event has waited for longer than its bound.
    pub(super) is_late: bool,
    /// Whether that is so although it refuses events: those of suppliers on other lanes it cannot.
    pub(super) holds_handovers: bool,
    pub(super) waiters: Waiters,
    /// How many events that concerned so far.
    pub(super) blocked_events: u64,
    /// Set from when suppliers have waited for it for too long, and do not any more, until it takes something: how many events were
    /// dropped for that before.
    pub(super) waited_out: Option<u64>,
    /// Whether that is because its `hold_budget` is spent: then it takes more than an event.
    pub(super) is_spent: bool,
    /// Set while its budget is being spent.
    pub(super) charging: Option<Charging>,
}

/// Whether it is full at its own bound, or as its channel's slow consumer, and what was dropped since.
#[derive(Debug, Default)]
pub(super) struct Full {
    pub(super) at_bound: bool,
    pub(super) as_slow_consumer: bool,
    pub(super) dropped: u64,
}

/// What became of its events.
#[derive(Debug, Default)]
pub(super) struct OutboxCounters {
    pub(super) delivered: u64,
    pub(super) delivered_bytes: u64,
    pub(super) discards: Discards,
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
    /// What it is to a consumer that changes nothing of it.
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
        (outbox.terms.pull, outbox.terms.durable) = (route.pull, route.durable);
        (outbox.peer, outbox.terms.output_form, outbox.suspended) = (route.peer, route.output_form, route.suspended);
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

    /// Takes over what routing says of it now. Says how many events went back that the former client of a durable consumer did not answer.
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

    /// The owner of its backlog, as notices name it.
    pub(super) fn blocked_by(&self) -> BlockedBy {
        self.bridge.map_or(BlockedBy::Consumer(self.key), BlockedBy::Lane)
    }

    // ---- suppliers that wait for it ----

    /// Whether it has something that it could take, or has yet to answer, unless it is suspended.
    #[inline]
    pub(super) fn can_take(&self) -> bool {
        self.waiting.ready() > 0 || !self.flight.unanswered.is_empty()
    }

    /// Notes an answer.
    #[inline]
    pub(super) fn answered(&mut self, now: Time) {
        (self.flight.answered_at, self.trouble.silent_since) = (now, now);
    }

    /// Since when suppliers, held since `blocked_since` for any consumer, wait for this one, as becomes known now. If it has taken nothing
    /// since, they have waited for it all the time.
    pub(super) fn waited_for_since(&self, blocked_since: Time, now: Time) -> Time {
        if self.trouble.silent_since <= blocked_since && !self.blocks() { blocked_since } else { now }
    }

    /// When suppliers that wait for it since then have waited for long enough; [`Entry::NEVER`] if never.
    pub(super) fn blocked_until(&self, since: Time) -> Time {
        if self.blocks() { since + self.terms.settings.blocking } else { self.silent_until(since) }
    }

    /// When a consumer that they wait for since then has taken nothing for long enough.
    fn silent_until(&self, since: Time) -> Time {
        match self.terms.settings.max_blocked_time() {
            limit if limit.is_zero() => Entry::NEVER,
            limit => since.max(self.trouble.silent_since) + limit,
        }
    }

    /// Whether suppliers wait for a time before events of this consumer are dropped.
    pub(super) fn blocks(&self) -> bool {
        let discards = matches!(self.terms.settings.full_outbox, None | Some(FullOutbox::Discard));
        discards && !self.terms.settings.blocking.is_zero() && self.bridge.is_none()
    }

    /// What is done where this policy applies; `taking_over` says that suppliers have had their answer. Durable consumers never have them
    /// wait.
    pub(super) fn policy_when(&self, policy: FullOutbox, taking_over: bool) -> FullOutbox {
        match policy {
            FullOutbox::Reject if self.terms.durable && taking_over => FullOutbox::Discard,
            policy => policy,
        }
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
    pub(super) fn blocked_until_for_itself(&self) -> Time {
        match (self.hold.holding, self.hold.is_late) {
            (false, _) => Entry::NEVER,
            (true, false) => self.blocked_until(self.hold.holding_since),
            (true, true) => self.silent_until(self.hold.holding_since),
        }
    }

    // ---- latency ----

    /// Whether suppliers are blocked because of how old its events are.
    #[inline]
    pub(super) fn is_bounded(&self) -> bool {
        self.terms.bound_nanos != u64::MAX
    }

    /// Whether it keeps up, and the event that it gets next has waited for longer than it should. Of one that is late already: not much
    /// less long.
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

    /// Blocks suppliers for that.
    #[cold]
    pub(super) fn begin_late_hold(&mut self, now: Time, timers: &mut Timers) {
        (self.hold.holding, self.hold.is_late, self.hold.holding_since) = (true, true, now);
        self.look_at(self.keeps_up_until().min(self.blocked_until_for_itself()), timers);
    }

    /// When it does not keep up any more, unless it takes something.
    pub(super) fn keeps_up_until(&self) -> Time {
        self.trouble.silent_since + KEEPS_UP_WITHIN
    }

    // ---- the queue ----

    /// Whether as many events wait as may.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.has_all_events() || self.has_bytes(0)
    }

    /// The same by their number alone.
    #[inline]
    pub(super) fn has_all_events(&self) -> bool {
        self.terms.settings.max_events_per_consumer.is_some_and(|max| self.waiting_anywhere() >= u64::from(max.get()))
    }

    /// Whether as many bytes wait as may, less so many eighths.
    fn has_bytes(&self, eighths: u64) -> bool {
        let bytes = || self.weight.saturating_add(self.elsewhere.bytes);
        let max = self.terms.settings.max_bytes_per_consumer;
        max.is_some_and(|max| bytes() >= max.get() - max.get() / 8 * eighths)
    }

    /// Whether suppliers of this event are not to be refused because of it: a durable consumer refuses persistent events only.
    pub(super) fn spares(&self, reliability: Reliability) -> bool {
        self.terms.durable && reliability == Reliability::BestEffort
    }

    /// Events that wait, those that are kept elsewhere included.
    fn waiting_anywhere(&self) -> u64 {
        self.waiting.len() as u64 + self.elsewhere.events
    }

    /// Whether more events wait than may, and some of them in memory.
    pub(super) fn is_overfull(&self) -> bool {
        let max = self.terms.settings.max_events_per_consumer;
        !self.waiting.is_empty() && max.is_some_and(|max| self.waiting_anywhere() > u64::from(max.get()))
    }

    /// Whether there is room again, by an eighth of the bound so that "full" does not flutter.
    pub(super) fn has_room_again(&self) -> bool {
        let has_places = self.terms.settings.max_events_per_consumer.is_none_or(|max| {
            let max = max.get();
            self.waiting_anywhere() <= u64::from(max - max.div_ceil(8))
        });
        has_places && !self.has_bytes(1)
    }

    /// What is done where it is full: if nothing is said, as the standard has it; or, where there is no room elsewhere, as where a
    /// channel's memory is spent.
    pub(super) fn full_policy(&self, has_room_elsewhere: bool) -> FullOutbox {
        let unset = if has_room_elsewhere { FullOutbox::Discard } else { FullOutbox::Hold };
        self.terms.settings.policy_at_bound().unwrap_or(unset)
    }

    /// Whether the supplier of an event that has come in is blocked because of this consumer.
    pub(super) fn holds_one_more(&self) -> bool {
        self.hold.holding && (self.hold.is_late || (self.hold.waiters.len() as u64) < self.still_blocked())
    }

    /// Of those that wait for room here, how many do yet: as many as events are too many by.
    pub(super) fn still_blocked(&self) -> u64 {
        let max = self.terms.settings.max_events_per_consumer;
        max.map_or(u64::MAX, |max| (self.waiting_anywhere() + 1).saturating_sub(max.get().into()))
    }

    /// An event as it waits here.
    #[inline]
    pub(super) fn entry(&self, offer: &Offer, ask: Ask) -> Entry {
        let entry = Entry { ask, ..offer.entry };
        if offer.is_timed || self.terms.settings.timeout.is_some() {
            return self.timed(entry, offer, self.lifetime(offer));
        }
        entry
    }

    /// How long after its arrival an event expires here, unless a mapping filter says otherwise.
    pub(super) fn lifetime(&self, offer: &Offer) -> Option<Duration> {
        offer.timeout.or(self.terms.settings.timeout)
    }

    /// An event that has this lifetime here.
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

    /// Queues an event.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, offer: &Offer, events: &Events, now: Time) {
        if !self.can_take() {
            self.trouble.silent_since = now;
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

    /// Whether the next event to be dropped is one that is not to be lost to this consumer: it is durable, and the event's keeper is
    /// yet to hear of each consumer.
    pub(super) fn would_lose(&self, events: &Events) -> bool {
        let next = || events.get(self.waiting.first_to_discard(events)?);
        self.terms.durable && next().is_some_and(|event| event.watch_each)
    }

    /// Takes out a waiting event that has expired.
    pub(super) fn pop_expired(&mut self, events: &Events, now: Time) -> Option<EventAt> {
        let entry = self.waiting.pop_expired(now)?;
        self.weight -= events.weight(entry.event);
        Some(entry.event)
    }

    pub(super) fn backlog(&self) -> usize {
        self.waiting.len() + self.flight.unanswered.len()
    }

    /// Takes out everything; leaves nothing that a supplier or client waits for.
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
        let oldest = unanswered.or_else(|| self.waiting.oldest(events));
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

/// A time limit in nanoseconds; of none, `u64::MAX`.
fn nanos_of(limit: Duration) -> u64 {
    if limit.is_zero() { u64::MAX } else { u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX) }
}

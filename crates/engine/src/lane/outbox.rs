//! One consumer's outbox: the events that wait for it, those that are unanswered, and how its deliveries fare.
//!
//! It knows nothing of its channel or of other outboxes. Its order is that of arrival, always: unanswered events come
//! before those that wait, and go back to the front, in order, when one of them fails.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use super::Questions;
use super::counters::{Discards, OutboxState, OutboxStats};
use super::tickets::Waiters;
use crate::{
    ConsumerRoute, DiscardPolicy, Event, FullOutbox, OutboxId, OutboxSettings, Peer, ProxyKey, SupplierSettings, Time,
    Want,
};

/// Beyond this many places an outbox's queue is cut back when it has run empty.
const RETAINED_PLACES: usize = 4_096;

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
    /// Disconnected by the lane. It stays as a tombstone until routing no longer names its connection, so that a
    /// snapshot made before administration heard of it does not bring it back.
    pub(super) dead: bool,

    pub(super) waiting: VecDeque<Arc<Event>>,
    in_flight: VecDeque<InFlight>,
    /// What the events in `waiting` and `in_flight` weigh.
    pub(super) weight: u64,
    next_serial: u32,

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
    pub(super) waiters: Waiters,
    pub(super) held_events: u64,
    /// Whether it is full at its own bound, or as its channel's laggard, and what was dropped since.
    pub(super) full_at_bound: bool,
    pub(super) full_as_laggard: bool,
    pub(super) dropped_while_full: u64,

    pub(super) delivered: u64,
    pub(super) discards: Discards,
}

#[derive(Debug)]
struct InFlight {
    serial: u32,
    deadline: Option<Time>,
    event: Arc<Event>,
}

/// What an event is to one consumer: its priority and its lifetime there, and what must be asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    /// The consumer's priority mapping filter's value, else the event's own, else its supplier's.
    pub(super) priority: i16,
    /// How long after its arrival it expires: the consumer's lifetime mapping filter's value, else the event's own, else
    /// its supplier's, else the consumer's.
    pub(super) lifetime: Option<Duration>,
    /// What the consumer's remote filters are to be asked before it is delivered.
    pub(super) ask: Option<Questions>,
}

impl Attributes {
    /// What an event is to a consumer that maps nothing and asks nobody.
    pub(super) fn of(event: &Event, supplier: &SupplierSettings, consumer: &OutboxSettings) -> Self {
        Self {
            priority: event.priority.unwrap_or(supplier.priority),
            lifetime: event.timeout.or(supplier.timeout).or(consumer.timeout),
            ask: None,
        }
    }
}

/// A connection that takes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    /// The delivery that it did not take.
    pub(super) serial: u32,
    /// When that becomes a failure.
    pub(super) deadline: Option<Time>,
}

/// A delivery as its outbox sees it.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) event: Arc<Event>,
    pub(super) serial: u32,
    pub(super) deadline: Option<Time>,
}

impl Outbox {
    pub(super) fn new(id: OutboxId, channel: u32, route: &ConsumerRoute) -> Self {
        Self {
            id,
            key: route.key,
            peer: route.peer,
            want: route.want,
            connection: route.connection,
            channel,
            settings: route.settings,
            suspended: route.suspended,
            dead: false,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            weight: 0,
            next_serial: 0,
            listed: false,
            blocked: None,
            retry_at: None,
            failures: 0,
            failing_since: Time(0),
            holding: false,
            waiters: Waiters::new(),
            held_events: 0,
            full_at_bound: false,
            full_as_laggard: false,
            dropped_while_full: 0,
            delivered: 0,
            discards: Discards::default(),
        }
    }

    /// Takes over what routing says of it now.
    pub(super) fn update(&mut self, route: &ConsumerRoute) {
        self.peer = route.peer;
        self.want = route.want;
        self.settings = route.settings;
        self.suspended = route.suspended;
    }

    // ---- the queue ----

    /// Whether as many events wait as may.
    pub(super) fn is_full(&self) -> bool {
        self.settings.max_events_per_consumer.is_some_and(|max| self.waiting.len() >= max.get() as usize)
    }

    /// Whether there is room again, by an eighth of the bound so that "full" does not flutter.
    pub(super) fn has_room_again(&self) -> bool {
        self.settings.max_events_per_consumer.is_none_or(|max| {
            let max = max.get();
            self.waiting.len() <= (max - max.div_ceil(8)) as usize
        })
    }

    pub(super) fn full_policy(&self) -> FullOutbox {
        self.settings.full_outbox.unwrap_or(FullOutbox::Discard)
    }

    /// Queues an event.
    pub(super) fn push(&mut self, event: Arc<Event>, weight: u64, _attributes: Attributes) {
        self.weight += weight;
        self.waiting.push_back(event);
    }

    /// Takes out the waiting event that its policy gives up first.
    pub(super) fn pop_discard(&mut self) -> Option<Arc<Event>> {
        let event = match self.settings.discard_policy {
            DiscardPolicy::Any | DiscardPolicy::Fifo | DiscardPolicy::Priority | DiscardPolicy::Deadline => {
                self.waiting.pop_front()
            }
            DiscardPolicy::Lifo => self.waiting.pop_back(),
        }?;
        self.weight -= event.weight();
        Some(event)
    }

    pub(super) fn backlog(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    /// Takes out everything, unanswered events first.
    pub(super) fn take_all(&mut self) -> VecDeque<Arc<Event>> {
        self.put_back_from(0);
        self.weight = 0;
        core::mem::take(&mut self.waiting)
    }

    // ---- deliveries ----

    /// Whether a delivery can begin now. While deliveries fail, one at a time finds out whether they still do.
    pub(super) fn is_ready(&self) -> bool {
        let window = if self.failures > 0 { 1 } else { self.settings.push_window };
        !self.waiting.is_empty()
            && self.in_flight.len() < usize::from(window)
            && !self.suspended
            && !self.dead
            && self.blocked.is_none()
            && self.retry_at.is_none()
    }

    /// Begins the next delivery.
    pub(super) fn hand_out(&mut self, now: Time) -> Option<Handed> {
        let event = self.waiting.pop_front()?;
        if self.waiting.is_empty() && self.waiting.capacity() > RETAINED_PLACES {
            self.waiting.shrink_to(RETAINED_PLACES);
        }
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        let deadline = self.deadline(now);
        self.in_flight.push_back(InFlight { serial, deadline, event: Arc::clone(&event) });
        Some(Handed { event, serial, deadline })
    }

    /// Where an unanswered delivery is among them.
    pub(super) fn position(&self, serial: u32) -> Option<usize> {
        // Serials rise from front to back, with gaps where a later one was answered first. They are compared by their
        // distance from the front because they wrap around.
        let front = self.in_flight.front()?.serial;
        let distance = serial.wrapping_sub(front);
        self.in_flight.binary_search_by_key(&distance, |delivery| delivery.serial.wrapping_sub(front)).ok()
    }

    /// Ends the delivery at `position`; its event is done with here.
    pub(super) fn finish(&mut self, position: usize) -> Option<Arc<Event>> {
        let delivery = self.in_flight.remove(position)?;
        self.weight -= delivery.event.weight();
        Some(delivery.event)
    }

    /// Puts back the delivery at `position` and all later ones, in order, before those that wait. Says how many.
    pub(super) fn put_back_from(&mut self, position: usize) -> u64 {
        let mut count = 0;
        while self.in_flight.len() > position
            && let Some(delivery) = self.in_flight.pop_back()
        {
            self.waiting.push_front(delivery.event);
            count += 1;
        }
        count
    }

    /// Notes a failure: everything unanswered goes back, and nothing is delivered for a while. Says how many events
    /// went back.
    pub(super) fn fail(&mut self, now: Time) -> u64 {
        let put_back = self.put_back_from(0);
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
        let limit = self.settings.give_up_after;
        !limit.is_zero() && now.since(self.failing_since) >= limit
    }

    /// When a time limit that begins now is over.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let limit = self.settings.reply_timeout;
        if limit.is_zero() { None } else { Some(now + limit) }
    }

    /// The delivery whose time is over, if one's is: an unanswered one's, or the one that found no room.
    pub(super) fn overdue(&self, now: Time) -> Option<u32> {
        let is_over = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let unanswered = self.in_flight.iter().find(|delivery| is_over(delivery.deadline));
        let blocked = || self.blocked.filter(|blocked| is_over(blocked.deadline)).map(|blocked| blocked.serial);
        unanswered.map(|delivery| delivery.serial).or_else(blocked)
    }

    /// When something next becomes due of itself. (Later deliveries have later deadlines, but for a change of settings:
    /// all are looked at, which happens once for each time limit and not for each event.)
    pub(super) fn next_due(&self) -> Option<Time> {
        let answers = self.in_flight.iter().filter_map(|delivery| delivery.deadline);
        let room = self.blocked.and_then(|blocked| blocked.deadline);
        answers.chain(room).chain(self.retry_at).min()
    }

    /// Lets a test see what happens when serials wrap around.
    #[cfg(test)]
    pub(super) fn start_serials_at(&mut self, serial: u32) {
        self.next_serial = serial;
    }

    // ---- what it is doing ----

    pub(super) fn stats(&self) -> OutboxStats {
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
            backlog_events: self.backlog() as u64,
            backlog_bytes: self.weight,
            in_flight: u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX),
            delayed: 0,
            pulls_waiting: 0,
            delivered: self.delivered,
            discards: self.discards,
            failures: self.failures,
        }
    }
}

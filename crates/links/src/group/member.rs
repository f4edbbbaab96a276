//! A flow of a group: its state, and its events in flight with the group.

use alloc::collections::{BTreeSet, VecDeque};

use super::GroupSender;
use crate::{Nanos, Origin};

/// The state of a flow in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The flow's events go over its session. It may request to join from this time on.
    Behind(Nanos),
    /// The far side was requested to listen at this time, and has not answered.
    Requested(Nanos),
    /// The far side listens. The flow joins with the next event once its session has none in flight.
    Ready,
    /// The flow's events go with the group.
    InStep,
}

/// The path of an event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over the session, as without a group.
    Session,
    /// The event waits: for acknowledgements of events in flight over the session, or for room.
    Wait,
    /// With the group, under the number that the event has; a flow that is not in step joins with it.
    Numbered(u64),
    /// With the group, under a new number; a flow that is not in step joins with it.
    New,
}

/// A flow of a group, with an item of the caller's for each event in flight with the group.
#[derive(Debug)]
pub struct Member<T> {
    state: State,
    /// The number of the last attempt to join: answers to earlier attempts are ignored.
    join: u32,
    /// The number at which the flow joined.
    from: u64,
    /// The last number sent over the session when the flow joined: acknowledgements beyond it prove that datagrams arrive.
    proven: u64,
    acknowledged: u64,
    /// Events in flight with the group, in the order in which the outbox delivered them.
    items: VecDeque<Item<T>>,
    octets: usize,
    /// Rejected numbers above `acknowledged` that the outbox has not delivered yet.
    rejected: BTreeSet<u64>,
    retry_after: Nanos,
    /// Time since which an event waits for another member to have it numbered; `waits_again` is when the next may wait.
    waits_since: Option<Nanos>,
    waits_again: Nanos,
}

#[derive(Debug)]
struct Item<T> {
    number: u64,
    octets: usize,
    item: T,
}

/// The outcome at the far side of an event that the flow's outbox had not delivered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Acknowledged,
    Rejected,
}

impl<T> Member<T> {
    /// Maximum octets in flight with the group; a single larger event passes.
    pub const WINDOW_BYTES: usize = 512 << 10;
    /// Maximum events in flight with the group.
    pub const OUTSTANDING_MAX: usize = 1_024;
    /// Maximum time for the far side's answer to a request to join, in ns.
    pub const ANSWERED_WITHIN: Nanos = 5_000_000_000;

    /// Maximum time that an event waits for a member in step to have it numbered, in ns.
    const NUMBERED_WITHIN: Nanos = 50_000_000;
    const RETRY_AFTER: Nanos = 1_000_000_000;
    const RETRY_AFTER_MAX: Nanos = 60_000_000_000;
    const REJECTED_MAX: usize = 1_024;

    /// Creates a flow that is behind.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Behind(0),
            join: 0,
            from: 0,
            proven: 0,
            acknowledged: 0,
            items: VecDeque::new(),
            octets: 0,
            rejected: BTreeSet::new(),
            retry_after: Self::RETRY_AFTER,
            waits_since: None,
            waits_again: 0,
        }
    }

    /// The flow's state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether the flow's events go with the group.
    #[must_use]
    pub const fn is_in_step(&self) -> bool {
        matches!(self.state, State::InStep)
    }

    /// Whether the far side has acknowledged events that came in datagrams.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.is_in_step() && self.acknowledged > self.proven
    }

    /// The number of the current attempt to join.
    #[must_use]
    pub const fn join_number(&self) -> u32 {
        self.join
    }

    /// Begins an attempt to join, if one is due, and returns its number.
    pub const fn ask(&mut self, now: Nanos) -> Option<u32> {
        match self.state {
            State::Behind(at) if at <= now => {
                self.state = State::Requested(now);
                self.join = self.join.wrapping_add(1);
                Some(self.join)
            }
            _ => None,
        }
    }

    /// Whether the far side's answer is overdue. The caller then lets the flow [fall back](Self::fall_back).
    #[must_use]
    pub const fn is_unanswered(&self, now: Nanos) -> bool {
        matches!(self.state, State::Requested(at) if at.saturating_add(Self::ANSWERED_WITHIN) <= now)
    }

    /// Notes that the far side listens, in answer to the attempt `join`.
    pub fn answered(&mut self, join: u32) {
        if matches!(self.state, State::Requested(_)) && join == self.join {
            self.state = State::Ready;
        }
    }

    /// Decides the path of the next event of the outbox. `is_idle`: the session has no event of the flow in flight.
    pub fn way(&mut self, group: &GroupSender, origin: Origin, admitted: u64, (is_idle, now): (bool, Nanos)) -> Way {
        let number = group.number_of(origin);
        if number.is_some() {
            self.waits_since = None;
        }
        match (self.state, number) {
            (State::Behind(_) | State::Requested(_), _) => Way::Session,
            (State::Ready, Some(number)) if group.frame(number).is_none() => Way::Session,
            (State::Ready, None) if group.has_members() => self.await_number(group.is_newer(admitted), now),
            (State::Ready, _) if !is_idle => Way::Wait,
            // It was sent before the flow joined.
            (State::InStep, Some(number)) if number < self.from => Way::Session,
            (_, Some(number)) if number <= self.acknowledged && self.is_in_step() => Way::Numbered(number),
            _ if !self.has_room() => Way::Wait,
            (_, Some(number)) => Way::Numbered(number),
            (_, None) => Way::New,
        }
    }

    /// Lets an event wait for a member in step that is about to deliver it, but not for long: that member may be slow.
    fn await_number(&mut self, is_newer: bool, now: Nanos) -> Way {
        if !is_newer || self.waits_again > now {
            return Way::Session;
        }
        let since = *self.waits_since.get_or_insert(now);
        if since.saturating_add(Self::NUMBERED_WITHIN) > now {
            return Way::Wait;
        }
        self.waits_since = None;
        self.waits_again = now.saturating_add(Self::RETRY_AFTER);
        Way::Session
    }

    /// Time at which an event that waits to be numbered goes over the session instead; the caller then tries again.
    #[must_use]
    pub fn waits_until(&self) -> Option<Nanos> {
        Some(self.waits_since?.saturating_add(Self::NUMBERED_WITHIN))
    }

    fn has_room(&self) -> bool {
        self.octets < Self::WINDOW_BYTES && self.items.len() < Self::OUTSTANDING_MAX
    }

    /// Puts the flow in step from the number `from` on. Numbers up to `repaired` are sent over the session.
    pub fn join(&mut self, from: u64, repaired: u64) {
        (self.waits_since, self.proven) = (None, repaired);
        (self.state, self.from, self.acknowledged) = (State::InStep, from, from.saturating_sub(1));
        self.rejected.clear();
    }

    /// Notes an event sent with the group. If the far side has completed it already, returns its item and whether it was rejected.
    pub fn note(&mut self, number: u64, octets: usize, item: T) -> Option<(T, bool)> {
        let known = if self.rejected.remove(&number) {
            Some(Known::Rejected)
        } else {
            (number <= self.acknowledged).then_some(Known::Acknowledged)
        };
        if let Some(known) = known {
            return Some((item, known == Known::Rejected));
        }
        self.items.push_back(Item { number, octets, item });
        self.octets += octets;
        None
    }

    /// Acknowledges all numbers up to one that [`GroupSender::acknowledge`] accepted; `out` gets the items.
    pub fn acknowledge(&mut self, up_to: u64, out: &mut impl FnMut(T)) {
        if !self.is_in_step() || up_to <= self.acknowledged {
            return;
        }
        self.acknowledged = up_to;
        // After a window in step a far side that was slow once has another start.
        if up_to > self.proven.saturating_add(Self::OUTSTANDING_MAX as u64) {
            self.retry_after = Self::RETRY_AFTER;
        }
        // Flows take events in the order of their numbers, but where priorities or lifetimes change it.
        let is_done = |item: &Item<T>| item.number <= up_to;
        while let Some(done) = self.items.pop_front_if(|item| is_done(item)) {
            self.octets -= done.octets;
            out(done.item);
        }
        while let Some(at) = self.items.iter().position(is_done)
            && let Some(done) = self.items.remove(at)
        {
            self.octets -= done.octets;
            out(done.item);
        }
    }

    /// Notes a rejection, and returns the item of the event, which the far side will never take. False if too many rejected events have not
    /// been delivered by the outbox yet: the flow is to fall back.
    pub fn reject(&mut self, number: u64) -> (Option<T>, bool) {
        if let Some(at) = self.items.iter().position(|item| item.number == number) {
            let item = self.items.remove(at);
            self.octets -= item.as_ref().map_or(0, |item| item.octets);
            return (item.map(|item| item.item), true);
        }
        if self.is_in_step() && number > self.acknowledged {
            self.rejected.insert(number);
        }
        (None, self.rejected.len() <= Self::REJECTED_MAX)
    }

    /// Puts the flow behind; `out` gets the events to send again over the session, in order, with their octets.
    pub fn fall_back(&mut self, now: Nanos, out: &mut impl FnMut(usize, T)) {
        self.state = State::Behind(now.saturating_add(self.retry_after));
        self.retry_after = self.retry_after.saturating_mul(2).min(Self::RETRY_AFTER_MAX);
        self.octets = 0;
        self.waits_since = None;
        self.rejected.clear();
        self.items.drain(..).for_each(|Item { octets, item, .. }| out(octets, item));
    }

    /// Ends the session: like [`Self::fall_back`], but the flow may request to join at once in the next session.
    pub fn disconnect(&mut self, out: &mut impl FnMut(usize, T)) {
        self.retry_after = Self::RETRY_AFTER;
        self.fall_back(0, out);
        self.state = State::Behind(0);
        self.retry_after = Self::RETRY_AFTER;
    }

    /// Number of events in flight with the group.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.items.len()
    }

    /// Octets of the events [in flight](Self::in_flight) with the group.
    #[must_use]
    pub const fn in_flight_octets(&self) -> usize {
        self.octets
    }

    /// Items of the events [in flight](Self::in_flight) with the group.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|item| &item.item)
    }
}

impl<T> Default for Member<T> {
    fn default() -> Self {
        Self::new()
    }
}

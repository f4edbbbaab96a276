//! A flow of a group: whether it is in step, and what it waits for.

use alloc::collections::{BTreeSet, VecDeque};

use super::GroupSender;
use crate::{Nanos, Origin};

/// How a flow of a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its events go over its session. It may ask to join from that time on.
    Behind(Nanos),
    /// The far side was asked to listen, then, and has not answered.
    Requested(Nanos),
    /// The far side listens. The flow joins with the first event that it takes while nothing of it is in flight.
    Ready,
    /// Its events go with the group.
    InStep,
}

/// How an event of a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over the session, as if there were no group.
    Session,
    /// Not now: what is in flight over the session is to be acknowledged first, or there is no room.
    Wait,
    /// With the group, by a number that it has; the flow joins with it, if it is not in step.
    Numbered(u64),
    /// With the group, by a number that it is to get; the flow joins with it, if it is not in step.
    New,
}

/// A flow of a group, with an item of the caller's for each event that went with the group and is not acknowledged.
#[derive(Debug)]
pub struct Member<T> {
    state: State,
    /// How often it asked to join: what the far side says about an earlier time is ignored.
    join: u32,
    /// The number with which it joined.
    from: u64,
    /// The last number that was sent over the session as it joined: what is acknowledged beyond has come in datagrams.
    proven: u64,
    acknowledged: u64,
    /// In the order in which they were taken.
    items: VecDeque<Item<T>>,
    octets: usize,
    /// Numbers above the acknowledged that the far side will never take, and that the flow has not come to.
    rejected: BTreeSet<u64>,
    retry_after: Nanos,
    /// Since when an event waits for another member to have it numbered; and when one may wait for that again.
    waits_since: Option<Nanos>,
    waits_again: Nanos,
}

#[derive(Debug)]
struct Item<T> {
    number: u64,
    octets: usize,
    item: T,
}

/// What became of an event that went with the group before its flow came to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Acknowledged,
    Rejected,
}

impl<T> Member<T> {
    /// Octets in flight with the group, unless there is only one event.
    pub const WINDOW_BYTES: usize = 512 << 10;
    /// Events in flight with the group.
    pub const OUTSTANDING_MAX: usize = 1_024;
    /// How long the far side may take to say that it listens.
    pub const ANSWERED_WITHIN: Nanos = 5_000_000_000;

    /// How long an event waits for a member in step to have it numbered.
    const NUMBERED_WITHIN: Nanos = 50_000_000;
    const RETRY_AFTER: Nanos = 1_000_000_000;
    const RETRY_AFTER_MAX: Nanos = 60_000_000_000;
    const REJECTED_MAX: usize = 1_024;

    /// A flow that is behind.
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

    /// How it stands.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether its events go with the group.
    #[must_use]
    pub const fn is_in_step(&self) -> bool {
        matches!(self.state, State::InStep)
    }

    /// Whether it has acknowledged events that came in datagrams.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.is_in_step() && self.acknowledged > self.proven
    }

    /// The number of the attempt that is now.
    #[must_use]
    pub const fn join_number(&self) -> u32 {
        self.join
    }

    /// Begins to ask the far side to listen, if it is time for that. The number of the attempt.
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

    /// Whether the far side has not answered for too long. The flow is to [fall back](Self::fall_back).
    #[must_use]
    pub const fn is_unanswered(&self, now: Nanos) -> bool {
        matches!(self.state, State::Requested(at) if at.saturating_add(Self::ANSWERED_WITHIN) <= now)
    }

    /// The far side listens since the attempt of that number.
    pub fn answered(&mut self, join: u32) {
        if matches!(self.state, State::Requested(_)) && join == self.join {
            self.state = State::Ready;
        }
    }

    /// How the next event goes that the outbox delivers. `is_idle`: nothing of the flow is in flight over its session.
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

    /// An event that a member in step is about to come to waits for that, but not for long: that member may be slow.
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

    /// When an event that waits to be numbered goes over the session, and is to be tried again.
    #[must_use]
    pub fn waits_until(&self) -> Option<Nanos> {
        Some(self.waits_since?.saturating_add(Self::NUMBERED_WITHIN))
    }

    fn has_room(&self) -> bool {
        self.octets < Self::WINDOW_BYTES && self.items.len() < Self::OUTSTANDING_MAX
    }

    /// Is in step from this number on. Those up to another go over the session.
    pub fn join(&mut self, from: u64, repaired: u64) {
        (self.waits_since, self.proven) = (None, repaired);
        (self.state, self.from, self.acknowledged) = (State::InStep, from, from.saturating_sub(1));
        self.rejected.clear();
    }

    /// Notes an event that went with the group. It is given back, and whether it was rejected, if the far side was done with it before.
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

    /// Takes an acknowledgement of all numbers up to one, which the group has found right; `out` gets the items.
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

    /// Takes a rejection, and returns the item of the event that the far side will never take. False if too many are known of events that
    /// the flow has not come to: it is to fall back.
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

    /// Falls back to its session, or stays there; `out` gets what is to be sent again over it, in order, with its octets.
    pub fn fall_back(&mut self, now: Nanos, out: &mut impl FnMut(usize, T)) {
        self.state = State::Behind(now.saturating_add(self.retry_after));
        self.retry_after = self.retry_after.saturating_mul(2).min(Self::RETRY_AFTER_MAX);
        self.octets = 0;
        self.waits_since = None;
        self.rejected.clear();
        self.items.drain(..).for_each(|Item { octets, item, .. }| out(octets, item));
    }

    /// The session has ended: as [`Self::fall_back`], and it may ask at once in the next.
    pub fn disconnect(&mut self, out: &mut impl FnMut(usize, T)) {
        self.retry_after = Self::RETRY_AFTER;
        self.fall_back(0, out);
        self.state = State::Behind(0);
        self.retry_after = Self::RETRY_AFTER;
    }

    /// How many events are in flight with the group.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.items.len()
    }

    /// The octets of these events.
    #[must_use]
    pub const fn in_flight_octets(&self) -> usize {
        self.octets
    }

    /// The items of these events.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|item| &item.item)
    }
}

impl<T> Default for Member<T> {
    fn default() -> Self {
        Self::new()
    }
}

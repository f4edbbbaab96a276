//! The sets of a consumer with a [correlation](filter::correlation): events that wait for others, and the set to be delivered next.
//!
//! Events come into the outbox as those of any consumer, with its bounds and discards. From there they go into a [`Matcher`], in the order
//! of their arrival, until a set is complete: [`Lane::gather_sets`](super::Lane::gather_sets). The set is delivered before any further event
//! is looked at, so that what waits for a slow consumer waits in the outbox, where all limits apply.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use filter::Steps;
use filter::correlation::{Correlation, CorrelationCounters, Key, Matcher, Offered, Terms};

use super::Disposition;
use super::events::Events;
use super::queue::Entry;
use crate::event::EventAt;
use crate::{Event, EventType, Time};

/// Time 0 of the lane as time of a matcher: events that an earlier process took came before it, by 2^32 ms at most.
const BASE: Duration = Duration::from_millis(1 << 32);

/// How long after its time an event is dropped that found no others: an event that came before may still be on its way from another lane.
const GRACE: Duration = Duration::from_millis(20);

/// The same after an event that an earlier process took: the store brings others.
const GRACE_RESTORED: Duration = Duration::from_secs(1);

/// Most bytes of the events that wait for others in one outbox.
pub(super) const GATHERED_BYTES_MAX: u64 = 4 << 20;

/// An event's set, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correlated {
    /// Number of the set, from 1, in the order of delivery to this consumer.
    pub set: u64,
    /// The event's place in the set, from 0.
    pub index: u32,
}

/// An event of a set that is not over.
#[derive(Clone, Copy, Debug)]
struct Member {
    event: EventAt,
    place: Correlated,
    /// What became of it, if it has left the outbox and is to be reported with the last one of its set.
    done: Option<Disposition>,
}

/// What is to be done about an event that leaves its outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It belongs to no set. It is reported.
    Alone,
    /// Others of its set are left. It is reported with the last of them.
    Waits,
    /// It is the last one of this set: what became of the others is reported with it, as [`Sets::poll_done`] returns them.
    Last(u64),
}

/// Sets of one outbox.
#[derive(Debug)]
pub(super) struct Sets {
    pub(super) correlation: Arc<Correlation>,
    /// Types of its terms.
    types: Vec<EventType>,
    /// Steps to compare an event's type with them, beside those for its own names.
    types_cost: u32,
    matcher: Matcher<Entry>,
    /// What the channel is charged for the events that wait for others, and the most of it and of them.
    gathered_bytes: u64,
    allowed: (u64, u64),
    /// Earliest expiry of one of them; at times that of one that has left.
    expires: Time,
    /// Whether some have expired since all were looked at.
    has_expired: bool,
    /// Earliest time at which those are dropped that have waited for too long.
    drops_from: Time,
    /// Events of the set that is delivered next, in order.
    ready: VecDeque<Entry>,
    members: Vec<Member>,
    /// Whether the outbox is in the lane's list of those whose events are to be looked at.
    pub(super) listed: bool,
    /// Its place in the channel's list of them.
    pub(super) place: usize,
}

impl Sets {
    pub(super) fn new(correlation: Arc<Correlation>) -> Self {
        let types = correlation.terms().iter().map(|term| EventType::new(&*term.domain, &*term.name));
        let types: Vec<EventType> = types.collect();
        let octets = |kind: &EventType| steps_of(kind.domain.len() + kind.name.len());
        Self {
            types_cost: types.iter().map(octets).sum(),
            types,
            matcher: Matcher::new(&correlation),
            correlation,
            gathered_bytes: 0,
            allowed: (u64::MAX, u64::MAX),
            expires: Entry::NEVER,
            has_expired: false,
            drops_from: Time(0),
            ready: VecDeque::new(),
            members: Vec::new(),
            listed: false,
            place: 0,
        }
    }

    // ---- the set to be delivered ----

    /// Number of events of the set that are not under way.
    #[inline]
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Their weight.
    pub(super) fn ready_bytes(&self, events: &Events) -> u64 {
        self.ready.iter().map(|entry| events.weight(entry.event)).sum()
    }

    pub(super) fn next(&self) -> Option<&Entry> {
        self.ready.front()
    }

    pub(super) fn pop(&mut self) -> Option<Entry> {
        self.ready.pop_front()
    }

    /// Puts back an event of a set that was under way, in its place.
    pub(super) fn put_back(&mut self, entry: Entry) {
        let order = |entry: &Entry| self.place(entry.event).map(|place| (place.set, place.index));
        let place = order(&entry);
        let at = self.ready.iter().position(|other| order(other) > place).unwrap_or(self.ready.len());
        self.ready.insert(at, entry);
    }

    /// Removes an event that is not under way: of the set, or else of those that wait for others.
    pub(super) fn pop_any(&mut self) -> Option<Entry> {
        self.ready.pop_front().or_else(|| self.matcher.displace_oldest())
    }

    /// The set of an event of the outbox, and its place there.
    pub(super) fn place(&self, event: EventAt) -> Option<Correlated> {
        self.member(event).map(|member| member.place)
    }

    fn member(&self, event: EventAt) -> Option<&Member> {
        self.members.iter().find(|member| member.event == event && member.done.is_none())
    }

    // ---- events that wait for others ----

    /// Number of events that wait for others.
    pub(super) fn gathered(&self) -> usize {
        self.matcher.waiting()
    }

    pub(super) fn counters(&self) -> &CorrelationCounters {
        self.matcher.counters()
    }

    /// When an event is to be dropped that has waited for longer than the correlation says.
    pub(super) fn overdue_at(&self) -> Option<Time> {
        let due = Duration::from_nanos(self.matcher.next_expiry_ns()?).saturating_sub(BASE) + GRACE;
        Some((Time(0) + due).max(self.drops_from))
    }

    /// When an event is to be dropped for its own lifetime, or because more wait than may.
    pub(super) fn next_due(&self) -> Option<Time> {
        let due = if self.is_over() { Time(0) } else { self.expires };
        Some(due).filter(|due| *due != Entry::NEVER)
    }

    /// Says how many bytes and events may wait for others.
    pub(super) fn allow(&mut self, allowed: (u64, u64)) {
        self.allowed = allowed;
    }

    fn is_over(&self) -> bool {
        let (bytes, events) = self.allowed;
        self.gathered_bytes > bytes || self.matcher.waiting() as u64 > events
    }

    /// Drops an event that has waited for longer than the correlation says: [`poll_dropped`](Self::poll_dropped) returns it.
    pub(super) fn drop_overdue(&mut self, now: Time) {
        if self.overdue_at().is_some_and(|due| due <= now) {
            self.matcher.expire(time_of(now, 0).saturating_sub(nanos(GRACE)), 1);
        }
    }

    /// The next event that was dropped because it had waited for too long, or because too many wait.
    pub(super) fn poll_dropped(&mut self, events: &Events) -> Option<EventAt> {
        let entry = match self.matcher.poll_dropped() {
            Some((entry, _)) => entry,
            None if self.is_over() => self.matcher.displace_oldest()?,
            None => return None,
        };
        self.left(entry, events)
    }

    /// Removes the event that has waited for others for longest.
    pub(super) fn displace(&mut self, events: &Events) -> Option<EventAt> {
        let oldest = self.matcher.displace_oldest()?;
        self.left(oldest, events)
    }

    fn left(&mut self, entry: Entry, events: &Events) -> Option<EventAt> {
        self.gathered_bytes -= events.charge(entry.event);
        Some(entry.event)
    }

    /// The next event that waits for others and has expired by its lifetime.
    pub(super) fn pop_expired(&mut self, events: &Events, now: Time) -> Option<EventAt> {
        while self.expires <= now {
            let (mut looks, mut expires) = (u32::MAX, Entry::NEVER);
            let found = self.matcher.displace(&mut looks, |entry| {
                expires = expires.min(entry.expiry);
                entry.expiry <= now
            });
            if let Some(entry) = found {
                self.has_expired = true;
                return self.left(entry, events);
            }
            // Behind one that was found, the search does not look at all.
            if !core::mem::take(&mut self.has_expired) {
                self.expires = expires;
            }
        }
        None
    }

    /// Steps to find out which terms an event's type matches.
    pub(super) fn cost_of_type(&self, names_len: usize) -> u32 {
        let terms = u32::try_from(self.types.len()).unwrap_or(u32::MAX);
        self.types_cost.saturating_add(terms.saturating_mul(steps_of(names_len)))
    }

    /// Whether a term is of an event's type.
    pub(super) fn is_of(&self, place: usize, domain: &[u8], name: &[u8]) -> bool {
        self.types.get(place).is_some_and(|listed| listed.matches(domain, name))
    }

    /// Hands in an event. A set that it completes is what is delivered next.
    pub(super) fn offer(
        &mut self,
        (entry, event): (Entry, &Event),
        (terms, key): (Terms, Option<&Key>),
        (events, now): (&Events, Time),
        steps: &mut Steps,
    ) -> Gathered {
        let came_at = match entry.is_plain || entry.since <= event.arrived {
            true => time_of(event.arrived, event.older_by_ms),
            // From its start time on.
            false => time_of(entry.since, 0),
        };
        let charge = event.charged_bytes;
        match self.matcher.offer(terms, key, came_at, entry, steps) {
            offered @ (Offered::Waits | Offered::Cut) => {
                let is_cut = matches!(offered, Offered::Cut);
                self.gathered_bytes += charge;
                self.expires = self.expires.min(entry.expiry);
                if event.restored || event.older_by_ms > 0 {
                    self.drops_from = now + GRACE_RESTORED;
                }
                Gathered::Waits { is_cut }
            }
            Offered::Complete(set) => {
                self.gathered_bytes += charge;
                for (index, entry) in (0..).zip(set.events) {
                    let place = Correlated { set: set.number, index };
                    self.members.push(Member { event: entry.event, place, done: None });
                    self.ready.push_back(*entry);
                    self.gathered_bytes -= events.charge(entry.event);
                }
                Gathered::Complete
            }
            Offered::Unmatched(_) => Gathered::Unmatched,
            Offered::WithoutKey(_) => Gathered::WithoutKey,
        }
    }

    // ---- sets that are over ----

    /// Notes that an event leaves the outbox for good. `is_watched` says whether it is to be reported.
    pub(super) fn leave(&mut self, event: EventAt, how: Disposition, is_watched: bool) -> Leaving {
        let is_it = |member: &Member| member.event == event && member.done.is_none();
        let Some(at) = self.members.iter().position(is_it) else { return Leaving::Alone };
        let Some(member) = self.members.get_mut(at) else { return Leaving::Alone };
        member.done = Some(how);
        let set = member.place.set;
        let is_last = !self.members.iter().any(|member| member.place.set == set && member.done.is_none());
        if is_last || !is_watched {
            self.members.remove(at);
        }
        if is_last { Leaving::Last(set) } else { Leaving::Waits }
    }

    /// The next event of a set that is over, which left before the last one.
    pub(super) fn poll_done(&mut self, set: u64) -> Option<(EventAt, Disposition)> {
        let at = self.members.iter().position(|member| member.place.set == set)?;
        let Member { event, done, .. } = self.members.remove(at);
        Some((event, done?))
    }

    /// Any event that has left before others of its set.
    pub(super) fn poll_any_done(&mut self) -> Option<(EventAt, Disposition)> {
        let at = self.members.iter().position(|member| member.done.is_some())?;
        let Member { event, done, .. } = self.members.remove(at);
        Some((event, done?))
    }

    /// Takes the events of the set that are not under way, the last one first.
    pub(super) fn take_ready(&mut self) -> impl Iterator<Item = Entry> {
        core::mem::take(&mut self.ready).into_iter().rev()
    }
}

/// What has become of an event that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    /// It completes a set.
    Complete,
    /// It waits for others. `is_cut`: the steps were spent before the search ended.
    Waits {
        /// See there.
        is_cut: bool,
    },
    /// It is of no type of the correlation.
    Unmatched,
    /// It has no value to be correlated by.
    WithoutKey,
}

/// Steps to compare a text of so many octets.
fn steps_of(octets: usize) -> u32 {
    u32::try_from(1 + octets / 64).unwrap_or(u32::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A time of the lane, and the part of an event's age that an earlier process knew, as time of a matcher.
fn time_of(at: Time, older_by_ms: u32) -> u64 {
    let before = Duration::from_millis(older_by_ms.into());
    nanos(BASE).saturating_add(at.0).saturating_sub(nanos(before))
}

//! Complete sets of a consumer with a [correlation](filter::correlation): which events they have, and when a set is over.
//!
//! The events of a set wait in line as if they had arrived together when the set was complete, so that they stay side by side, also after a
//! failure. What became of them is reported when it is known of all of them: persistent events of a set are stored until the whole set is
//! over, and are a set again after a restart.
//!
//! Memory is that of the events in the outbox, which pay for it ([`CORRELATED_OVERHEAD_BYTES`]): the place of a set that is over is used by
//! the next one, however long sets before it wait.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::{Correlated, Disposition};
use crate::event::EventAt;
use crate::{CORRELATED_OVERHEAD_BYTES, SORTED_OVERHEAD_BYTES, Time};

/// The complete sets of an outbox that are not over.
#[derive(Debug)]
pub(super) struct Sets {
    /// Events in the outbox, and watched ones that have left it before others of their set.
    members: HashMap<EventAt, Member>,
    /// Sets that are not over, and free places.
    open: Vec<Open>,
    /// The first free place.
    free: u32,
    /// Number of sets so far.
    begun: u64,
    /// Place of the newest set.
    newest: u32,
    /// The first of the events to be reported with the last one of their set.
    finished: EventAt,
}

/// An event of a set.
#[derive(Clone, Copy, Debug)]
struct Member {
    place: Correlated,
    /// Sort key, instead of the event's arrival.
    order: (Time, u64),
    /// Place of its set.
    open: u32,
    /// What became of it, if it has left the outbox and is watched; and the event of the set that left next.
    done: Option<Disposition>,
    next: EventAt,
}

/// A set that is not over.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Number of events in the outbox.
    left: u32,
    /// Number of events so far; of a free place, the next free one.
    events: u32,
    /// The first and the last of the watched events that have left.
    first_done: EventAt,
    last_done: EventAt,
}

// The charge for an event must cover its place here: a table is doubled when it is full by seven eighths, a list when it is full.
const _: () = assert!(
    SORTED_OVERHEAD_BYTES
        + (16 * (size_of::<(EventAt, Member)>() as u64 + 1)).div_ceil(7)
        + 2 * size_of::<Open>() as u64
        <= CORRELATED_OVERHEAD_BYTES
);

/// No place, and no event.
const NONE: u32 = u32::MAX;
const NO_EVENT: EventAt = EventAt(NONE);

/// Capacity above which an empty table is shrunk.
const RETAINED_PLACES: usize = 1_024;

/// What became of an event of a set.
pub(super) type Done = (EventAt, Disposition);

/// What is to be done about an event that leaves its outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It belongs to no set.
    Alone,
    /// Others of its set are left. It is reported with the last of them.
    Waits,
    /// It is the last of its set: the others are to be reported with it, as [`Sets::poll_finished`] returns them.
    Last,
}

impl Default for Sets {
    fn default() -> Self {
        Self { members: HashMap::new(), open: Vec::new(), free: NONE, begun: 0, newest: NONE, finished: NO_EVENT }
    }
}

impl Sets {
    /// Begins a set. Returns its number, from 1.
    pub(super) fn begin(&mut self) -> u64 {
        let set = Open { left: 0, events: 0, first_done: NO_EVENT, last_done: NO_EVENT };
        self.newest = self.free;
        match self.open.get_mut(self.free as usize) {
            Some(free) => self.free = core::mem::replace(free, set).events,
            None => {
                self.open.push(set);
                // There are fewer sets than events, whose number is far below 2^32.
                self.newest = u32::try_from(self.open.len() - 1).unwrap_or(NONE);
            }
        }
        self.begun += 1;
        self.begun
    }

    /// Number of sets so far.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Adds an event to the newest set, with its sort key.
    pub(super) fn add(&mut self, event: EventAt, order: (Time, u64)) {
        let Some(set) = self.open.get_mut(self.newest as usize) else { return };
        let place = Correlated { set: self.begun, index: set.events };
        self.members.insert(event, Member { place, order, open: self.newest, done: None, next: NO_EVENT });
        set.left += 1;
        set.events += 1;
    }

    /// An event's sort key.
    pub(super) fn order(&self, event: EventAt) -> Option<(Time, u64)> {
        self.members.get(&event).map(|member| member.order)
    }

    /// An event's set, and its place there.
    pub(super) fn place(&self, event: EventAt) -> Option<Correlated> {
        self.members.get(&event).map(|member| member.place)
    }

    /// Notes that an event leaves the outbox for good. `is_watched` says whether it is to be reported.
    pub(super) fn leave(&mut self, event: EventAt, how: Disposition, is_watched: bool) -> Leaving {
        let Some(member) = self.members.get_mut(&event).filter(|member| member.done.is_none()) else {
            return Leaving::Alone;
        };
        let at = member.open;
        let Some(set) = self.open.get_mut(at as usize) else { return Leaving::Alone };
        set.left -= 1;
        if set.left > 0 && is_watched {
            member.done = Some(how);
            let before = core::mem::replace(&mut set.last_done, event);
            match self.members.get_mut(&before) {
                Some(before) => before.next = event,
                None => set.first_done = event,
            }
            return Leaving::Waits;
        }
        let is_last = set.left == 0;
        if is_last {
            self.finished = set.first_done;
            set.events = core::mem::replace(&mut self.free, at);
        }
        self.members.remove(&event);
        if !is_last {
            return Leaving::Waits;
        }
        self.shrink();
        Leaving::Last
    }

    /// The next event that is to be reported with the last one of its set.
    pub(super) fn poll_finished(&mut self) -> Option<Done> {
        let event = self.finished;
        let Member { done, next, .. } = self.members.remove(&event)?;
        self.finished = next;
        self.shrink();
        Some((event, done?))
    }

    /// Gives back the memory of a backlog that is gone.
    fn shrink(&mut self) {
        if self.members.is_empty() && self.open.capacity().max(self.members.capacity()) > 2 * RETAINED_PLACES {
            self.open.clear();
            self.open.shrink_to(RETAINED_PLACES);
            self.members.shrink_to(RETAINED_PLACES);
            self.free = NONE;
        }
    }

    /// Forgets all sets. Returns what became of events that had left.
    pub(super) fn clear(&mut self) -> Vec<Done> {
        let mut done = Vec::new();
        for set in self.open.drain(..).filter(|set| set.left > 0) {
            let mut event = set.first_done;
            while let Some(Member { done: Some(how), next, .. }) = self.members.get(&event) {
                done.push((event, *how));
                event = *next;
            }
        }
        self.members.clear();
        (self.free, self.newest) = (NONE, NONE);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiscardReason;

    const DELIVERED: Disposition = Disposition::Delivered;

    fn set(sets: &mut Sets, events: core::ops::Range<u32>) -> u64 {
        let number = sets.begin();
        events.for_each(|event| sets.add(EventAt(event), (Time(number), u64::from(event))));
        number
    }

    fn others(sets: &mut Sets) -> Vec<u32> {
        core::iter::from_fn(|| sets.poll_finished()).map(|(event, _)| event.0).collect()
    }

    #[test]
    fn a_set_is_over_with_its_last_event() {
        let mut sets = Sets::default();
        assert_eq!([set(&mut sets, 0..3), set(&mut sets, 3..5)], [1, 2]);
        assert_eq!(sets.place(EventAt(4)), Some(Correlated { set: 2, index: 1 }));
        assert_eq!(sets.leave(EventAt(2), DELIVERED, true), Leaving::Waits);
        assert_eq!(sets.leave(EventAt(3), DELIVERED, false), Leaving::Waits);
        // The second is over first.
        assert_eq!(sets.leave(EventAt(4), Disposition::Dropped(DiscardReason::Expired), true), Leaving::Last);
        assert_eq!(others(&mut sets), []);
        assert_eq!(sets.leave(EventAt(4), DELIVERED, true), Leaving::Alone);
        assert_eq!(sets.leave(EventAt(0), DELIVERED, true), Leaving::Waits);
        assert_eq!(sets.leave(EventAt(0), DELIVERED, true), Leaving::Alone, "it has left");
        assert_eq!(sets.leave(EventAt(1), DELIVERED, true), Leaving::Last);
        assert_eq!(others(&mut sets), [2, 0]);
        assert_eq!(sets.members.len(), 0);
        assert_eq!(set(&mut sets, 0..1), 3);
        assert_eq!(sets.leave(EventAt(0), DELIVERED, true), Leaving::Last);
        assert_eq!(others(&mut sets), []);
    }

    /// A set whose `StartTime` was a year ahead had every later one stay in memory.
    #[test]
    fn sets_that_are_over_take_no_memory_however_long_an_earlier_one_waits() {
        let mut sets = Sets::default();
        set(&mut sets, 0..2);
        for number in 0..10_000 {
            assert_eq!(set(&mut sets, 2..5), number + 2);
            assert_eq!(sets.place(EventAt(3)).map(|place| place.index), Some(1));
            assert_eq!(sets.leave(EventAt(2), DELIVERED, true), Leaving::Waits);
            assert_eq!(sets.leave(EventAt(3), DELIVERED, false), Leaving::Waits);
            assert_eq!(sets.leave(EventAt(4), DELIVERED, true), Leaving::Last);
            assert_eq!(others(&mut sets), [2]);
        }
        assert_eq!((sets.open.len(), sets.members.len()), (2, 2));
        assert_eq!(sets.place(EventAt(0)), Some(Correlated { set: 1, index: 0 }));
    }

    #[test]
    fn the_memory_of_a_long_backlog_is_given_back() {
        let mut sets = Sets::default();
        (0..10_000).for_each(|event| assert!(set(&mut sets, event..event + 1) > 0));
        (0..10_000).for_each(|event| assert_eq!(sets.leave(EventAt(event), DELIVERED, true), Leaving::Last));
        assert!(sets.open.capacity() <= RETAINED_PLACES && sets.members.capacity() <= 2 * RETAINED_PLACES);
        assert_eq!(set(&mut sets, 0..1), 10_001);
    }

    #[test]
    fn what_had_left_is_known_when_all_sets_are_forgotten() {
        let mut sets = Sets::default();
        set(&mut sets, 0..3);
        sets.leave(EventAt(1), DELIVERED, true);
        assert_eq!(sets.clear(), [(EventAt(1), DELIVERED)]);
        assert_eq!((sets.order(EventAt(0)), set(&mut sets, 0..1)), (None, 2));
    }
}

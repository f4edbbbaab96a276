//! Complete sets of a consumer with a [correlation](filter::correlation): which events they have, and when a set is over.
//!
//! The events of a set wait in line as if they had arrived together when the set was complete, so that they stay side by side, also after a
//! failure. What became of them is reported when it is known of all of them: persistent events of a set are stored until the whole set is
//! over, and are a set again after a restart.

use alloc::collections::VecDeque;

use hashbrown::HashMap;

use super::{Correlated, Disposition};
use crate::Time;
use crate::event::EventAt;

/// Most events of a set: a correlation has as many terms at most.
const EVENTS_MAX: usize = 16;

/// The complete sets of an outbox that are not over.
#[derive(Debug, Default)]
pub(super) struct Sets {
    members: HashMap<EventAt, Member>,
    /// From the oldest set to the newest; sets that are over are among them until those before are.
    open: VecDeque<Open>,
    /// Number of sets that are not in `open` any more.
    closed: u64,
}

/// An event of a set.
#[derive(Clone, Copy, Debug)]
struct Member {
    place: Correlated,
    /// Sort key, instead of the event's arrival.
    order: (Time, u64),
}

/// A set that is not over.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// Number of events in the outbox.
    left: u32,
    /// Number of events so far.
    events: u32,
    /// What became of the watched ones.
    done: [Option<Done>; EVENTS_MAX],
}

/// What became of an event of a set.
pub(super) type Done = (EventAt, Disposition);

/// What is to be done about an event that leaves its outbox.
#[derive(Debug)]
pub(super) enum Leaving {
    /// It belongs to no set.
    Alone,
    /// Others of its set are left. It is reported with the last of them.
    Waits,
    /// It is the last of its set: these others are to be reported with it.
    Last([Option<Done>; EVENTS_MAX]),
}

impl Sets {
    /// Begins a set. Returns its number, from 1.
    pub(super) fn begin(&mut self) -> u64 {
        self.open.push_back(Open::default());
        self.begun()
    }

    /// Number of sets so far.
    pub(super) fn begun(&self) -> u64 {
        self.closed + self.open.len() as u64
    }

    /// Adds an event to the newest set, with its sort key.
    pub(super) fn add(&mut self, event: EventAt, order: (Time, u64)) {
        let set = self.begun();
        let Some(open) = self.open.back_mut() else { return };
        self.members.insert(event, Member { place: Correlated { set, index: open.events }, order });
        open.left += 1;
        open.events += 1;
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
        let Some(Member { place, .. }) = self.members.remove(&event) else { return Leaving::Alone };
        let at = usize::try_from(place.set - self.closed - 1).unwrap_or(usize::MAX);
        let Some(open) = self.open.get_mut(at) else { return Leaving::Alone };
        open.left -= 1;
        if open.left > 0 {
            if is_watched && let Some(done) = open.done.get_mut(place.index as usize) {
                *done = Some((event, how));
            }
            return Leaving::Waits;
        }
        let others = core::mem::take(&mut open.done);
        while self.open.front().is_some_and(|open| open.left == 0) {
            self.open.pop_front();
            self.closed += 1;
        }
        Leaving::Last(others)
    }

    /// Forgets all sets. Returns what became of events that had left.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Done> {
        self.members.clear();
        self.closed += self.open.len() as u64;
        self.open.drain(..).flat_map(|open| open.done.into_iter().flatten())
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

    fn others(leaving: Leaving) -> usize {
        let Leaving::Last(others) = leaving else { panic!("it is not the last: {leaving:?}") };
        others.into_iter().flatten().count()
    }

    #[test]
    fn a_set_is_over_with_its_last_event() {
        let mut sets = Sets::default();
        assert_eq!([set(&mut sets, 0..3), set(&mut sets, 3..5)], [1, 2]);
        assert_eq!(sets.place(EventAt(4)), Some(Correlated { set: 2, index: 1 }));
        assert!(matches!(sets.leave(EventAt(2), DELIVERED, true), Leaving::Waits));
        assert!(matches!(sets.leave(EventAt(3), DELIVERED, false), Leaving::Waits));
        // The second is over first.
        assert_eq!(others(sets.leave(EventAt(4), Disposition::Dropped(DiscardReason::Expired), true)), 0);
        assert!(matches!(sets.leave(EventAt(4), DELIVERED, true), Leaving::Alone));
        assert!(matches!(sets.leave(EventAt(0), DELIVERED, true), Leaving::Waits));
        assert_eq!(others(sets.leave(EventAt(1), DELIVERED, true)), 2);
        assert_eq!((sets.open.len(), sets.members.len()), (0, 0));
        assert_eq!(set(&mut sets, 0..1), 3);
        assert_eq!(others(sets.leave(EventAt(0), DELIVERED, true)), 0);
    }

    #[test]
    fn what_had_left_is_known_when_all_sets_are_forgotten() {
        let mut sets = Sets::default();
        set(&mut sets, 0..3);
        sets.leave(EventAt(1), DELIVERED, true);
        assert_eq!(sets.clear().collect::<alloc::vec::Vec<_>>(), [(EventAt(1), DELIVERED)]);
        assert_eq!((sets.order(EventAt(0)), set(&mut sets, 0..1)), (None, 2));
    }
}

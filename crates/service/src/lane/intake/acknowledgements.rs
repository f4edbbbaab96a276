//! Acknowledgements that wait until all consumers have the event (`AcknowledgeAfter` `Delivered`), within the time that the supplier
//! allows.
//!
//! Such an event has a number, by which the engine reports [its completion](engine::Completion). The store gives a persistent event its
//! number, and reports when all consumers have it. The number of any other event names the lane where the acknowledgement waits; lanes that
//! take the event over notify that lane.

use core::num::NonZeroU64;
use std::collections::BTreeSet;

use engine::{Completion, Time};
use hashbrown::HashMap;

use crate::lane::intake::Token;
use crate::lane::links::messages::LaneThread;

/// Bit set in numbers that lanes give, and clear in those of the store.
const OF_LANES: u64 = 1 << 63;
/// Position of the lane in a number.
const LANE_SHIFT: u32 = 40;
const LANE_MASK: u64 = (1 << 23) - 1;

/// Acknowledgements of a lane that wait for consumers.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements {
    waiting: HashMap<u64, Awaited>,
    /// Time limit of each.
    due: BTreeSet<(Time, u64)>,
    last: u64,
    /// Notifications due to other lanes: the lane, and the event.
    to_tell: Vec<(LaneThread, NonZeroU64)>,
}

#[derive(Debug)]
struct Awaited {
    pending_ack: Token,
    until: Time,
    /// Number of lanes that have taken the event over, and of those that have completed it.
    taken_over: u32,
    done: u32,
    is_done_here: bool,
}

/// Whether the number was given by a lane, not by the store.
pub(crate) const fn is_of_lanes(watch: NonZeroU64) -> bool {
    watch.get() & OF_LANES != 0
}

/// The lane where the acknowledgement for this number waits.
const fn home_of(watch: NonZeroU64) -> LaneThread {
    LaneThread((watch.get() >> LANE_SHIFT & LANE_MASK) as u32)
}

impl Acknowledgements {
    /// Whether no answer waits, and no notification is due.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.to_tell.is_empty()
    }

    /// A number for an event of this lane.
    pub(crate) fn number(&mut self, thread: LaneThread) -> NonZeroU64 {
        self.last = (self.last + 1) & ((1 << LANE_SHIFT) - 1);
        let lane = u64::from(thread.0) & LANE_MASK;
        // The number has a bit set, so it is never 0.
        NonZeroU64::new(OF_LANES | lane << LANE_SHIFT | self.last).unwrap_or(NonZeroU64::MAX)
    }

    /// Has a pending acknowledgement wait until the event of that number is complete, or until that time.
    pub(crate) fn wait(&mut self, watch: NonZeroU64, pending_ack: Token, until: Time) {
        let awaited = Awaited { pending_ack, until, taken_over: 0, done: 0, is_done_here: false };
        self.waiting.insert(watch.get(), awaited);
        self.due.insert((until, watch.get()));
    }

    /// Handles the engine's report about an event. Returns the pending acknowledgement, if it waits for nothing more.
    pub(crate) fn note(&mut self, completed: Completion, here: LaneThread) -> Option<Token> {
        let (Completion::TakenOver { watch, .. } | Completion::ForAll { watch }) = completed else { return None };
        let is_elsewhere = is_of_lanes(watch) && home_of(watch) != here;
        if is_elsewhere {
            if matches!(completed, Completion::ForAll { .. }) {
                self.to_tell.push((home_of(watch), watch));
            }
            return None;
        }
        if !is_of_lanes(watch) {
            // The store tells.
            return None;
        }
        let awaited = self.waiting.get_mut(&watch.get())?;
        match completed {
            Completion::TakenOver { .. } => awaited.taken_over += 1,
            _ => (awaited.done, awaited.is_done_here) = (awaited.done + 1, true),
        }
        self.conclude(watch)
    }

    /// Notes that another lane has completed an event. Returns the pending acknowledgement, if it waits for nothing more.
    pub(crate) fn note_done_elsewhere(&mut self, watch: NonZeroU64) -> Option<Token> {
        self.waiting.get_mut(&watch.get())?.done += 1;
        self.conclude(watch)
    }

    fn conclude(&mut self, watch: NonZeroU64) -> Option<Token> {
        let awaited = self.waiting.get(&watch.get())?;
        if awaited.is_done_here && awaited.done > awaited.taken_over { self.end(watch) } else { None }
    }

    /// Ends the wait for an event that is complete for all consumers.
    pub(crate) fn end(&mut self, watch: NonZeroU64) -> Option<Token> {
        let Awaited { pending_ack, until, .. } = self.waiting.remove(&watch.get())?;
        self.due.remove(&(until, watch.get()));
        Some(pending_ack)
    }

    /// Removes a pending acknowledgement that is overdue at `now`, the earliest first.
    pub(crate) fn pop_overdue(&mut self, now: Time) -> Option<Token> {
        loop {
            let (until, watch) = *self.due.first().filter(|(until, _)| *until <= now)?;
            self.due.remove(&(until, watch));
            // An event without a waiting answer is passed over: there may be others behind it.
            if let Some(awaited) = self.waiting.remove(&watch) {
                return Some(awaited.pending_ack);
            }
        }
    }

    /// Passes the notifications due to other lanes to `tell`; those for which it returns true are removed.
    pub(crate) fn tell(&mut self, mut tell: impl FnMut(LaneThread, NonZeroU64) -> bool) {
        self.to_tell.retain(|(lane, watch)| !tell(*lane, *watch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::io::slots::Slots;
    use engine::LaneId;

    const HERE: LaneThread = LaneThread(3);

    fn token() -> Token {
        Slots::default().insert(())
    }

    #[test]
    fn a_pending_acknowledgement_waits_until_every_lane_that_took_the_event_over_has_done_with_it() {
        let mut all = Acknowledgements::default();
        let watch = all.number(HERE);
        assert!(is_of_lanes(watch) && home_of(watch) == HERE);
        all.wait(watch, token(), Time(10));
        assert_eq!(all.note(Completion::TakenOver { watch, by: LaneId(1) }, HERE), None);
        assert_eq!(all.note_done_elsewhere(watch), None);
        assert_eq!(all.note(Completion::ForAll { watch }, HERE), Some(token()));
        assert!(all.is_empty() && all.pop_overdue(Time(10)).is_none());
        // The other lane has it yet, or had it before.
        let next = all.number(HERE);
        all.wait(next, token(), Time(10));
        all.note(Completion::TakenOver { watch: next, by: LaneId(1) }, HERE);
        assert_eq!(all.note(Completion::ForAll { watch: next }, HERE), None);
        assert_eq!(all.note_done_elsewhere(next), Some(token()));
        assert_ne!(next, watch);
    }

    /// Each second number was that of the event before it: a supplier was never answered for that.
    #[test]
    fn each_event_has_a_number_of_its_own() {
        let mut all = Acknowledgements::default();
        for lane in [LaneThread(0), HERE] {
            let numbers: BTreeSet<_> = (0..1_000).map(|_| all.number(lane)).collect();
            assert_eq!(numbers.len(), 1_000);
            assert!(numbers.into_iter().all(|watch| is_of_lanes(watch) && home_of(watch) == lane));
        }
    }

    #[test]
    fn a_time_for_which_no_call_waits_keeps_no_other_waiting() {
        let mut all = Acknowledgements::default();
        let watch = all.number(HERE);
        all.wait(watch, token(), Time(10));
        all.due.insert((Time(5), watch.get() + 1));
        assert_eq!((all.pop_overdue(Time(10)), all.pop_overdue(Time(10))), (Some(token()), None));
    }

    #[test]
    fn it_waits_no_longer_than_that_and_late_news_is_nobodys() {
        let mut all = Acknowledgements::default();
        let watch = all.number(HERE);
        all.wait(watch, token(), Time(10));
        assert_eq!(all.pop_overdue(Time(9)), None);
        assert_eq!(all.pop_overdue(Time(10)), Some(token()));
        assert_eq!(all.note(Completion::ForAll { watch }, HERE), None);
        assert!(all.is_empty());
    }

    #[test]
    fn of_another_lanes_event_that_lane_is_notified_as_soon_as_there_is_room() {
        let mut all = Acknowledgements::default();
        let watch = all.number(HERE);
        assert_eq!(all.note(Completion::ForAll { watch }, LaneThread(4)), None);
        all.tell(|_, _| false);
        let mut reported = Vec::new();
        all.tell(|lane, watch| {
            reported.push((lane, watch));
            true
        });
        assert_eq!((reported, all.is_empty()), (vec![(HERE, watch)], true));
    }
}

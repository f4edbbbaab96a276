//! Timers of outboxes: a binary heap of slots by time, with at most one entry for each slot.
//!
//! An entry means "not before this", and may be too early: an outbox's deadline moves back with every answered
//! delivery, and updating the entry each time would cost more than one vain check. So a new time is only stored if it
//! is earlier, and an outbox sets its next time when it is woken.

use alloc::vec::Vec;

use crate::Time;

#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: Vec<(Time, u32)>,
    /// Position of each slot's entry in the heap; `ABSENT` if it has none.
    position: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Timers {
    /// Sets the timer of `slot` to `time`, unless it is earlier.
    pub(super) fn set(&mut self, slot: u32, time: Time) {
        let index = slot as usize;
        if self.position.len() <= index {
            self.position.resize(index + 1, ABSENT);
        }
        match self.position.get(index).copied() {
            Some(ABSENT) | None => {
                self.heap.push((time, slot));
                self.rise(self.heap.len() - 1);
            }
            Some(at) => {
                if let Some(entry) = self.heap.get_mut(at as usize)
                    && time < entry.0
                {
                    entry.0 = time;
                    self.rise(at as usize);
                }
            }
        }
    }

    pub(super) fn first(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.0)
    }

    /// Removes and returns the slot with the earliest time, if that is not after `now`.
    pub(super) fn pop(&mut self, now: Time) -> Option<u32> {
        let (time, slot) = *self.heap.first()?;
        if time > now {
            return None;
        }
        let last = self.heap.len() - 1;
        self.heap.swap(0, last);
        self.heap.pop();
        self.note(slot, ABSENT as usize);
        self.sink();
        Some(slot)
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.time(at) >= self.time(parent) {
                break;
            }
            self.heap.swap(at, parent);
            self.note_at(at);
            at = parent;
        }
        self.note_at(at);
    }

    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.heap.len() && self.time(child) < self.time(least) {
                    least = child;
                }
            }
            self.note_at(at);
            if least == at {
                break;
            }
            self.heap.swap(at, least);
            self.note_at(at);
            at = least;
        }
    }

    fn time(&self, at: usize) -> Time {
        self.heap.get(at).map_or(Time(u64::MAX), |entry| entry.0)
    }

    fn note_at(&mut self, at: usize) {
        if let Some((_, slot)) = self.heap.get(at).copied() {
            self.note(slot, at);
        }
    }

    fn note(&mut self, slot: u32, at: usize) {
        if let Some(position) = self.position.get_mut(slot as usize) {
            *position = u32::try_from(at).unwrap_or(ABSENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn gives_slots_in_order_of_time() {
        let mut timers = Timers::default();
        for (slot, time) in [(0, 30), (1, 10), (2, 20)] {
            timers.set(slot, Time(time));
        }
        assert_eq!(timers.first(), Some(Time(10)));
        assert_eq!(timers.pop(Time(9)), None);
        assert_eq!([timers.pop(Time(30)), timers.pop(Time(30)), timers.pop(Time(30))], [Some(1), Some(2), Some(0)]);
        assert_eq!(timers.pop(Time(99)), None);
    }

    #[test]
    fn an_earlier_time_replaces_a_later_one_and_not_the_other_way() {
        let mut timers = Timers::default();
        timers.set(5, Time(50));
        timers.set(5, Time(20));
        timers.set(5, Time(90));
        assert_eq!(timers.pop(Time(20)), Some(5));
        assert_eq!(timers.first(), None);
    }

    #[test]
    fn agrees_with_a_sorted_map_under_random_operations() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut timers, mut model) = (Timers::default(), BTreeMap::<u32, u64>::new());
        for _ in 0..20_000 {
            if random.u32(..3) > 0 {
                let (slot, time) = (random.u32(..40), random.u64(..1_000));
                timers.set(slot, Time(time));
                let kept = model.entry(slot).or_insert(time);
                *kept = (*kept).min(time);
            } else {
                let now = random.u64(..1_000);
                let least = model.values().min().copied().filter(|least| *least <= now);
                let popped = timers.pop(Time(now));
                assert_eq!(popped.and_then(|slot| model.remove(&slot)), least);
            }
            assert_eq!(timers.first().map(|time| time.0), model.values().min().copied());
        }
    }
}

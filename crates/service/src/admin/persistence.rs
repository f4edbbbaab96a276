//! Changes of objects are on disk before they are reported as done.
//!
//! Changes are gathered while the store writes earlier ones, so that very many changes cost few writes. Answers wait for the changes
//! gathered before them; operators' queries do not, so that a service with a stuck disk can be examined. Answers wait for a limited time;
//! then the answer to a change says that it is not on disk.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use crate::admin::waiting::Sending;
use crate::store::{Changes, Store};
use crate::time;

/// Parts gathered in a round: a filter that is destroyed can change 65,536 proxies.
pub(super) const PARTS_PER_ROUND: usize = 512;

/// Changes to be stored, and the answers that wait for them.
#[derive(Default)]
pub(crate) struct Persistence {
    store: Option<Store>,
    /// Gathered changes, and their number.
    gathered: Changes,
    number: u64,
    /// Whether changes have yet to be gathered.
    is_behind: bool,
    /// Answers that wait until all changes are gathered, and since when.
    early: Vec<(Instant, Sending)>,
    /// Answers that wait until the changes of that number are written, and since when.
    waiting: VecDeque<(u64, Instant, Sending)>,
    /// Maximum time that answers wait.
    answer_within: Duration,
}

impl Persistence {
    /// Storing of changes, if there is a store.
    pub(crate) fn new(store: Option<Store>, answer_within: Duration) -> Self {
        Self { store, answer_within, ..Self::default() }
    }

    /// Whether the configured objects outlive the process.
    pub(super) const fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Gathers some of the changes that `poll` returns, and hands them to the store if that is not busy.
    pub(super) fn gather(&mut self, mut poll: impl FnMut() -> Option<(Vec<u8>, Option<Vec<u8>>)>) {
        let Some(store) = &mut self.store else { return };
        let mut most = PARTS_PER_ROUND;
        self.is_behind = loop {
            if most == 0 {
                break true;
            }
            let Some((key, value)) = poll() else { break false };
            self.gathered.insert(key, value);
            most -= 1;
        };
        if !self.is_behind {
            let number = if self.gathered.is_empty() { self.number } else { self.number + 1 };
            self.waiting.extend(self.early.drain(..).map(|(since, answer)| (number, since, answer)));
        }
        if !self.gathered.is_empty() && store.is_free() {
            self.number += 1;
            store.write(self.number, core::mem::take(&mut self.gathered));
        }
    }

    /// Whether there are more changes to gather.
    pub(super) const fn has_to_gather(&self) -> bool {
        self.is_behind
    }

    /// Returns an answer that can be sent now; otherwise it waits for the changes before it.
    pub(super) fn admit(&mut self, answer: Sending) -> Option<Sending> {
        let written = self.store.as_ref().map_or(u64::MAX, Store::written);
        if self.is_behind {
            self.early.push((time::now(), answer));
            return None;
        }
        // The gathered changes are not handed over yet, and get the next number.
        let number = if self.gathered.is_empty() { self.number } else { self.number + 1 };
        if number <= written || self.store.is_none() {
            return Some(answer);
        }
        self.waiting.push_back((number, time::now(), answer));
        None
    }

    /// The next answer with all changes written.
    pub(super) fn poll(&mut self) -> Option<Sending> {
        let written = self.store.as_ref()?.written();
        let (.., answer) = self.waiting.pop_front_if(|(number, ..)| *number <= written)?;
        Some(answer)
    }

    /// The next answer that has waited for too long.
    pub(super) fn poll_late(&mut self, now: Instant) -> Option<Sending> {
        let within = self.answer_within;
        let (.., answer) = self.waiting.pop_front_if(|(_, since, _)| *since + within <= now)?;
        Some(answer)
    }

    /// When the next answer will have waited for too long, if nothing is written before.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, since, _)| *since + self.answer_within)
    }

    /// Writes the remaining changes. Returns the answers that waited for them, without those of changes that could not be written.
    pub(super) fn write_last(&mut self) -> Vec<Sending> {
        let Some(store) = &mut self.store else { return Vec::new() };
        if !self.gathered.is_empty() {
            self.number += 1;
            store.write(self.number, core::mem::take(&mut self.gathered));
        }
        let (number, written) = (self.number, store.wait());
        let early = self.early.drain(..).map(|(since, answer)| (number, since, answer));
        let waiting = self.waiting.drain(..).chain(early);
        waiting.filter(|(number, ..)| *number <= written).map(|(.., answer)| answer).collect()
    }

    /// Ends the store, when the lanes have ended.
    pub(super) fn end(&mut self) {
        if let Some(store) = self.store.take() {
            store.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use testing::wait_until;

    use super::*;
    use crate::admin::values::{Answer, Declined};
    use crate::admin::waiting::Late;
    use crate::counters::Counters;
    use crate::lane::io::net::Waker;
    use crate::store::tests::SimulatedDevice;

    const WITHIN: Duration = Duration::from_secs(10);

    /// An answer that is known by its number.
    fn answer(number: u32) -> Sending {
        Sending::ToProgram(sync_channel(1).0, Ok(Answer::Disconnected(number)))
    }

    fn number_of(answer: Option<Sending>) -> Option<u32> {
        match answer {
            Some(Sending::ToProgram(_, Ok(Answer::Disconnected(number)))) => Some(number),
            _ => None,
        }
    }

    fn changes(range: std::ops::Range<u16>) -> impl FnMut() -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut keys = range;
        move || keys.next().map(|key| (key.to_be_bytes().to_vec(), Some(vec![0; 10])))
    }

    #[test]
    fn without_a_store_nothing_waits() {
        let mut persistence = Persistence::new(None, WITHIN);
        persistence.gather(changes(0..10));
        assert!(!persistence.has_to_gather());
        assert_eq!(number_of(persistence.admit(answer(1))), Some(1));
        assert!(persistence.write_last().is_empty());
    }

    #[test]
    fn answers_wait_until_all_that_was_changed_before_is_written() {
        let device = SimulatedDevice::default();
        let (waker, counters) = (Arc::new(Waker::new().unwrap()), Counters::new(1));
        let mut persistence = Persistence::new(Some(device.store(&waker, &counters)), WITHIN);
        assert_eq!(number_of(persistence.admit(answer(0))), Some(0), "nothing was changed");
        device.fail_after(Some(0));
        persistence.gather(changes(0..1));
        assert!(persistence.admit(answer(1)).is_none());
        // More than one round takes, while the disk is full.
        let many = u16::try_from(PARTS_PER_ROUND).unwrap() + 1;
        let mut more = changes(1..1 + many);
        persistence.gather(&mut more);
        assert!(persistence.has_to_gather() && persistence.admit(answer(2)).is_none());
        persistence.gather(&mut more);
        assert!(!persistence.has_to_gather() && persistence.admit(answer(3)).is_none());
        assert!(persistence.poll().is_none());
        device.fail_after(None);
        let mut sent = Vec::new();
        wait_until("all to be written", || {
            persistence.gather(|| None);
            sent.extend(number_of(persistence.poll()));
            sent.len() == 3
        });
        assert_eq!(sent, [1, 2, 3]);
        assert_eq!(number_of(persistence.admit(answer(4))), Some(4));
        persistence.gather(changes(0..1));
        // Whenever it is written.
        let at_once = persistence.admit(answer(5));
        let sent = at_once.into_iter().chain(persistence.write_last());
        assert_eq!(sent.map(|stored| number_of(Some(stored))).collect::<Vec<_>>(), [Some(5)]);
    }

    #[test]
    fn what_could_not_be_written_at_the_end_is_not_answered() {
        let device = SimulatedDevice::default();
        let (waker, counters) = (Arc::new(Waker::new().unwrap()), Counters::new(1));
        let mut persistence = Persistence::new(Some(device.store(&waker, &counters)), WITHIN);
        device.fail_after(Some(0));
        persistence.gather(changes(0..1));
        assert!(persistence.admit(answer(1)).is_none());
        assert!(persistence.write_last().is_empty());
    }

    /// A client that had made a channel while the disk was full waited for ever.
    #[test]
    fn an_answer_that_has_waited_for_too_long_says_that_the_change_is_not_on_disk() {
        let device = SimulatedDevice::default();
        let (waker, counters) = (Arc::new(Waker::new().unwrap()), Counters::new(1));
        let mut persistence = Persistence::new(Some(device.store(&waker, &counters)), WITHIN);
        device.fail_after(Some(0));
        persistence.gather(changes(0..1));
        assert!(persistence.admit(answer(1)).is_none());
        let due = persistence.next_due().unwrap();
        assert!(persistence.poll_late(due - Duration::from_millis(1)).is_none());
        let Late { answer: late, is_change, made } = persistence.poll_late(due).unwrap().not_stored();
        assert!(made.is_nothing());
        let Sending::ToProgram(_, reply) = late else { panic!("{late:?}") };
        assert_eq!((reply.unwrap_err(), is_change), (Declined::NotStored, true));
        assert!(persistence.poll_late(due).is_none() && persistence.next_due().is_none());
        // It is written all the same, and later answers wait for it.
        assert!(persistence.admit(answer(2)).is_none());
        device.fail_after(None);
        wait_until("it to be written", || number_of(persistence.poll()) == Some(2));
        persistence.end();
        assert_eq!(device.image().len(), 1);
    }
}

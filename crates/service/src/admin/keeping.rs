//! What is done to objects is on disk before whoever asked for it is told that it is done.
//!
//! What has changed is gathered while the store writes what had changed before, so that very many changes cost few writes. Answers
//! wait for what was gathered until they were ready; queries of operators do not, so that a service whose disk is stuck can be looked at.

use std::collections::VecDeque;

use crate::admin::waiting::Sending;
use crate::store::{Changes, Store};

/// Parts that are gathered in a round: a filter that is destroyed can change 65,536 proxies.
pub(super) const PIECE: usize = 512;

/// What is to be kept, and the answers that wait for that.
#[derive(Default)]
pub(crate) struct Keeping {
    store: Option<Store>,
    /// What is gathered, and its number.
    gathered: Changes,
    number: u64,
    /// Whether all that has changed is gathered.
    is_behind: bool,
    /// Answers that wait until that is so.
    early: Vec<Sending>,
    /// Those that wait until what has that number is written.
    waiting: VecDeque<(u64, Sending)>,
}

impl Keeping {
    /// Keeps what changes there, if there is a store.
    pub(crate) fn new(store: Option<Store>) -> Self {
        Self { store, ..Self::default() }
    }

    /// Gathers some of what has changed, which `poll` tells of, and hands it to the store if that is not busy.
    pub(super) fn gather(&mut self, mut poll: impl FnMut() -> Option<(Vec<u8>, Option<Vec<u8>>)>) {
        let Some(store) = &mut self.store else { return };
        let mut most = PIECE;
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
            self.waiting.extend(self.early.drain(..).map(|answer| (number, answer)));
        }
        if !self.gathered.is_empty() && store.is_free() {
            self.number += 1;
            store.write(self.number, core::mem::take(&mut self.gathered));
        }
    }

    /// Whether there is more to gather.
    pub(super) const fn has_to_gather(&self) -> bool {
        self.is_behind
    }

    /// Gives an answer back that can be sent, as far as this is concerned; otherwise keeps it until it can.
    pub(super) fn admit(&mut self, answer: Sending) -> Option<Sending> {
        let written = self.store.as_ref().map_or(u64::MAX, Store::written);
        if self.is_behind {
            self.early.push(answer);
            return None;
        }
        // What is gathered is not handed over yet.
        let number = if self.gathered.is_empty() { self.number } else { self.number + 1 };
        if number <= written || self.store.is_none() {
            return Some(answer);
        }
        self.waiting.push_back((number, answer));
        None
    }

    /// The next answer that need not wait any more.
    pub(super) fn poll(&mut self) -> Option<Sending> {
        let written = self.store.as_ref()?.written();
        let (_, answer) = self.waiting.pop_front_if(|(number, _)| *number <= written)?;
        Some(answer)
    }

    /// Writes what is left, and ends the store. Gives the answers back that waited for it: those of what could not be written are not
    /// among them.
    pub(super) fn end(&mut self) -> Vec<Sending> {
        let Some(store) = self.store.take() else { return Vec::new() };
        let number = if self.gathered.is_empty() { self.number } else { self.number + 1 };
        let written = store.end((number, core::mem::take(&mut self.gathered)));
        let early = self.early.drain(..).map(|answer| (number, answer));
        let waiting = self.waiting.drain(..).chain(early);
        waiting.filter(|(number, _)| *number <= written).map(|(_, answer)| answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use testing::wait_until;

    use super::*;
    use crate::admin::values::Answer;
    use crate::counters::Counters;
    use crate::lane::io::net::Bell;
    use crate::store::tests::Medium;

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
        let mut keeping = Keeping::new(None);
        keeping.gather(changes(0..10));
        assert!(!keeping.has_to_gather());
        assert_eq!(number_of(keeping.admit(answer(1))), Some(1));
        assert!(keeping.end().is_empty());
    }

    #[test]
    fn answers_wait_until_all_that_was_changed_before_is_written() {
        let medium = Medium::default();
        let (bell, counters) = (Arc::new(Bell::new().unwrap()), Counters::new(1));
        let mut keeping = Keeping::new(Some(medium.store(&bell, &counters)));
        assert_eq!(number_of(keeping.admit(answer(0))), Some(0), "nothing was changed");
        medium.fail_after(Some(0));
        keeping.gather(changes(0..1));
        assert!(keeping.admit(answer(1)).is_none());
        // More than one round takes, while the disk is full.
        let many = u16::try_from(PIECE).unwrap() + 1;
        let mut more = changes(1..1 + many);
        keeping.gather(&mut more);
        assert!(keeping.has_to_gather() && keeping.admit(answer(2)).is_none());
        keeping.gather(&mut more);
        assert!(!keeping.has_to_gather() && keeping.admit(answer(3)).is_none());
        assert!(keeping.poll().is_none());
        medium.fail_after(None);
        let mut sent = Vec::new();
        wait_until("all to be written", || {
            keeping.gather(|| None);
            sent.extend(number_of(keeping.poll()));
            sent.len() == 3
        });
        assert_eq!(sent, [1, 2, 3]);
        assert_eq!(number_of(keeping.admit(answer(4))), Some(4));
        keeping.gather(changes(0..1));
        // Whenever it is written.
        let at_once = keeping.admit(answer(5));
        let sent = at_once.into_iter().chain(keeping.end());
        assert_eq!(sent.map(|kept| number_of(Some(kept))).collect::<Vec<_>>(), [Some(5)]);
    }

    #[test]
    fn what_could_not_be_written_at_the_end_is_not_answered() {
        let medium = Medium::default();
        let (bell, counters) = (Arc::new(Bell::new().unwrap()), Counters::new(1));
        let mut keeping = Keeping::new(Some(medium.store(&bell, &counters)));
        medium.fail_after(Some(0));
        keeping.gather(changes(0..1));
        assert!(keeping.admit(answer(1)).is_none());
        assert!(keeping.end().is_empty());
    }
}

//! Waiting callers of a connection, by reply.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Waiting callers, by request id.
///
/// Ids are given in order and most replies arrive in about that order, so that the callers are in a ring from the oldest to the newest. A
/// caller left unanswered while many later ones are answered is moved out of the ring, which so stays in proportion to the number of
/// waiting callers.
#[derive(Debug)]
pub struct PendingReplies<T> {
    /// The id that the ring begins with.
    first: u32,
    ring: VecDeque<Option<T>>,
    /// Waiting callers in the ring.
    waiting: usize,
    late: HashMap<u32, T>,
}

/// Empty slots allowed in the ring: a base, and a number for each occupied slot.
const EMPTY_PLACES: usize = 64;
const EMPTY_PLACES_EACH: usize = 8;

impl<T> Default for PendingReplies<T> {
    fn default() -> Self {
        Self { first: 0, ring: VecDeque::new(), waiting: 0, late: HashMap::new() }
    }
}

impl<T> PendingReplies<T> {
    /// Whether no caller waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0 && self.late.is_empty()
    }

    /// Number of waiting callers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting + self.late.len()
    }

    /// Adds a caller that waits for the reply to the newest request.
    pub fn insert(&mut self, request_id: u32, who: T) {
        if self.waiting == 0 {
            self.ring.clear();
            self.first = request_id;
        }
        let place = request_id.wrapping_sub(self.first) as usize;
        if place >= EMPTY_PLACES + EMPTY_PLACES_EACH * (self.waiting + 1) {
            self.move_out();
            self.first = request_id;
        }
        // One-way requests have ids as well.
        while self.ring.len() < request_id.wrapping_sub(self.first) as usize {
            self.ring.push_back(None);
        }
        self.ring.push_back(Some(who));
        self.waiting += 1;
    }

    /// The caller that waits for this reply.
    #[must_use]
    pub fn get(&self, request_id: u32) -> Option<&T> {
        let place = request_id.wrapping_sub(self.first) as usize;
        self.ring.get(place).and_then(Option::as_ref).or_else(|| self.late.get(&request_id))
    }

    /// The caller of this reply, mutable.
    pub fn get_mut(&mut self, request_id: u32) -> Option<&mut T> {
        let place = request_id.wrapping_sub(self.first) as usize;
        let in_ring = self.ring.get_mut(place).and_then(Option::as_mut);
        in_ring.or_else(|| self.late.get_mut(&request_id))
    }

    /// The reply has come, or is not waited for any more.
    pub fn remove(&mut self, request_id: u32) -> Option<T> {
        let place = request_id.wrapping_sub(self.first) as usize;
        let Some(who) = self.ring.get_mut(place).and_then(Option::take) else {
            return if self.late.is_empty() { None } else { self.late.remove(&request_id) };
        };
        self.waiting -= 1;
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        Some(who)
    }

    /// All waiting callers of a lost connection, in the order in which their requests were sent.
    #[must_use]
    pub fn into_last(mut self) -> LastPending<T> {
        self.move_out();
        let newest = self.first;
        let all = self.late.into_iter().map(|(request_id, who)| (newest.wrapping_sub(request_id), Some(who)));
        let mut oldest_last: Vec<(u32, Option<T>)> = all.collect();
        oldest_last.sort_unstable_by_key(|(age, _)| *age);
        LastPending { newest, oldest_last }
    }

    /// Empties the ring. Its callers are late.
    fn move_out(&mut self) {
        for who in self.ring.drain(..) {
            if let Some(who) = who {
                self.late.insert(self.first, who);
            }
            self.first = self.first.wrapping_add(1);
        }
        self.waiting = 0;
    }
}

/// Callers of a lost connection, until they have been notified.
#[derive(Debug)]
pub struct LastPending<T> {
    /// The id after the newest request's.
    newest: u32,
    /// Requests sent after each caller's, sorted, and the caller unless it has given up.
    oldest_last: Vec<(u32, Option<T>)>,
}

impl<T> LastPending<T> {
    /// The caller that has waited longest.
    pub fn pop(&mut self) -> Option<T> {
        while let Some((_, who)) = self.oldest_last.pop() {
            if who.is_some() {
                return who;
            }
        }
        None
    }

    /// The reply is not waited for any more.
    pub fn remove(&mut self, request_id: u32) -> Option<T> {
        let age = self.newest.wrapping_sub(request_id);
        let place = self.oldest_last.binary_search_by_key(&age, |(age, _)| *age).ok()?;
        self.oldest_last.get_mut(place)?.1.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_finds_its_caller_whatever_the_order_and_across_the_highest_id() {
        let mut pending = PendingReplies::default();
        let ids = || (0..10_u32).map(|number| number.wrapping_sub(5));
        for id in ids() {
            pending.insert(id, id);
        }
        assert_eq!(pending.get(0), Some(&0));
        for id in ids().filter(|id| id % 3 == 0).chain(ids().filter(|id| id % 3 != 0)) {
            assert_eq!((pending.remove(id), pending.remove(id)), (Some(id), None));
        }
        assert!(pending.is_empty());
    }

    #[test]
    fn one_that_is_never_answered_does_not_make_the_others_take_room() {
        let mut pending = PendingReplies::default();
        pending.insert(7, 'a');
        for id in 8..100_000 {
            pending.insert(id, 'b');
            assert_eq!(pending.remove(id), Some('b'));
            assert!(pending.ring.len() <= EMPTY_PLACES + EMPTY_PLACES_EACH * 2);
        }
        assert_eq!((pending.late.len(), pending.remove(7), pending.is_empty()), (1, Some('a'), true));
    }

    #[test]
    fn requests_without_a_waiting_client_take_no_room() {
        let mut pending = PendingReplies::default();
        pending.insert(1, 'a');
        pending.insert(2_000_000_000, 'b');
        assert_eq!(pending.ring.len(), 1);
        assert_eq!((pending.remove(1), pending.remove(2_000_000_000)), (Some('a'), Some('b')));
    }

    #[test]
    fn all_are_notified_in_the_order_in_which_they_began_to_wait() {
        let mut pending = PendingReplies::default();
        let first = u32::MAX - 1_000;
        let ids: Vec<u32> = [0, 1, 500, 1_500, 1_501, 9_000].map(|after| first.wrapping_add(after)).to_vec();
        for id in &ids {
            pending.insert(*id, *id);
        }
        assert!(!pending.late.is_empty());
        let mut last = pending.into_last();
        assert_eq!(
            (last.remove(ids[2]), last.remove(ids[2]), last.remove(first.wrapping_add(2))),
            (Some(ids[2]), None, None)
        );
        let told: Vec<u32> = core::iter::from_fn(|| last.pop()).collect();
        assert_eq!(told, [&ids[..2], &ids[3..]].concat());
    }
}

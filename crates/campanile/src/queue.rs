//! A queue between a callback and the threads that ask for its events: bounded, and with an end.

use crate::raw::RawSubscription;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Waits at both ends: a producer for room, a consumer for an item. When it is closed, no thread waits any more.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
}

/// What came of asking for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// It.
    Event(T),
    /// None came in time.
    Late,
    /// None will come any more.
    Ended,
}

impl<T> Queue<T> {
    /// One with room for so many, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let state = State { waiting: VecDeque::new(), is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), most: most.max(1) }
    }

    /// Puts one in, as soon as there is room; false once it is closed.
    pub fn put(&self, it: T) -> bool {
        let full = |state: &mut State<T>| state.waiting.len() >= self.most && !state.is_closed;
        let mut state = self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return false;
        }
        state.waiting.push_back(it);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Takes the next out, waiting for it for no longer than `limit`; without one, for as long as it takes. What is there when it is closed
    /// can still be taken.
    pub fn next(&self, limit: Option<Duration>) -> Next<T> {
        let ends = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lock();
        loop {
            if let Some(it) = state.waiting.pop_front() {
                drop(state);
                self.changed.notify_all();
                return Next::Event(it);
            }
            if state.is_closed {
                return Next::Ended;
            }
            state = match ends.map(|ends| ends.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Next::Late,
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Closes the queue: no thread waits any more.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a consumer, one after the other. It waits for the next; dropping it ends the subscription.
#[derive(Debug)]
pub struct Events<T> {
    queue: Arc<Queue<T>>,
    subscription: RawSubscription,
}

impl<T> Events<T> {
    pub(crate) const fn new(queue: Arc<Queue<T>>, subscription: RawSubscription) -> Self {
        Self { queue, subscription }
    }

    /// The next event, whenever it comes.
    pub fn wait(&self) -> Next<T> {
        self.queue.next(None)
    }

    /// The next event, if one comes within that time.
    pub fn next_within(&self, limit: Duration) -> Next<T> {
        self.queue.next(Some(limit))
    }

    /// Ends it for all threads: no more events come, and a thread that waits for one gets none once those that are here are taken.
    pub fn close(&self) {
        self.queue.close();
    }

    /// The subscription behind it.
    pub const fn subscription(&self) -> &RawSubscription {
        &self.subscription
    }
}

impl<T> Iterator for Events<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self.wait() {
            Next::Event(event) => Some(event),
            Next::Late | Next::Ended => None,
        }
    }
}

impl<T> Drop for Events<T> {
    fn drop(&mut self) {
        // So that a callback that waits for room ends.
        self.queue.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_sender_waits_for_room_and_a_receiver_for_something_until_it_is_closed() {
        let queue = Arc::new(Queue::new(2));
        let theirs = queue.clone();
        let putting = thread::spawn(move || (0..).find(|number| !theirs.put(*number)));
        assert_eq!(
            (0..100).map(|_| queue.next(None)).collect::<Vec<_>>(),
            (0..100).map(Next::Event).collect::<Vec<_>>()
        );
        queue.close();
        assert!(putting.join().unwrap().is_some_and(|number| number <= 103));
        while queue.next(None) != Next::Ended {}
        let empty = Arc::new(Queue::<()>::new(1));
        assert_eq!(empty.next(Some(Duration::ZERO)), Next::Late);
        let theirs = empty.clone();
        let taking = thread::spawn(move || theirs.next(None));
        empty.close();
        assert_eq!(taking.join().unwrap(), Next::Ended);
    }
}

//! A bounded queue between a callback and threads that take its events, which can be closed.

use crate::raw::RawSubscription;
use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A queue that blocks at both ends: producers wait for room, consumers for an item. Closing it ends all waits.
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
    /// The task that waits for an item.
    task: Option<Waker>,
    /// The signal, made on first use.
    signal: Option<Signal>,
}

/// A pipe with one octet in it while the queue has an item or is closed.
#[derive(Debug)]
struct Signal {
    reader: Arc<PipeReader>,
    writer: PipeWriter,
    is_set: bool,
}

impl<T> State<T> {
    /// Updates the signal after a change of the queue; the returned task is to be woken without the lock.
    fn announce(&mut self) -> Option<Waker> {
        let is_readable = !self.waiting.is_empty() || self.is_closed;
        if let Some(signal) = self.signal.as_mut().filter(|signal| signal.is_set != is_readable) {
            let outcome = if is_readable { signal.writer.write(&[1]) } else { signal.reader.as_ref().read(&mut [0]) };
            signal.is_set = is_readable == outcome.is_ok();
        }
        if is_readable { self.task.take() } else { None }
    }
}

/// The result of taking the next item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// The item.
    Event(T),
    /// No item arrived in time.
    Late,
    /// No item will arrive any more.
    Ended,
}

impl<T> Queue<T> {
    /// A queue with room for `most` items, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let state = State { waiting: VecDeque::new(), is_closed: false, task: None, signal: None };
        Self { state: Mutex::new(state), changed: Condvar::new(), most: most.max(1) }
    }

    /// Puts an item in, waiting for room; false once it is closed.
    pub fn put(&self, it: T) -> bool {
        let full = |state: &mut State<T>| state.waiting.len() >= self.most && !state.is_closed;
        let mut state = self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return false;
        }
        state.waiting.push_back(it);
        let task = state.announce();
        drop(state);
        self.changed.notify_all();
        if let Some(task) = task {
            task.wake();
        }
        true
    }

    /// Takes the next item, waiting no longer than `limit`; without one, for ever. Items left when it is closed can still be taken.
    pub fn next(&self, limit: Option<Duration>) -> Next<T> {
        let ends = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lock();
        loop {
            if let Some(it) = state.waiting.pop_front() {
                state.announce();
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

    /// Takes all items, without waiting: for callers that wait by [`descriptor`](Self::descriptor).
    pub fn take(&self) -> Next<VecDeque<T>> {
        let mut state = self.lock();
        if state.waiting.is_empty() {
            return if state.is_closed { Next::Ended } else { Next::Late };
        }
        let taken = core::mem::take(&mut state.waiting);
        state.announce();
        drop(state);
        self.changed.notify_all();
        Next::Event(taken)
    }

    /// Passes the next item to a task, or wakes the task when there is one; `None` once it is closed and empty. One task at a time waits.
    pub fn poll(&self, task: &Context<'_>) -> Poll<Option<T>> {
        let mut state = self.lock();
        if let Some(it) = state.waiting.pop_front() {
            state.announce();
            drop(state);
            self.changed.notify_all();
            return Poll::Ready(Some(it));
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        state.task = Some(task.waker().clone());
        Poll::Pending
    }

    /// A file descriptor that is readable while the queue has an item or is closed: for `poll`, `epoll` and the like. It belongs to the
    /// queue: wait for it, but never read it.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn descriptor(&self) -> io::Result<Arc<PipeReader>> {
        let mut state = self.lock();
        if state.signal.is_none() {
            let (reader, writer) = io::pipe()?;
            state.signal = Some(Signal { reader: Arc::new(reader), writer, is_set: false });
            state.announce();
        }
        state.signal.as_ref().map(|signal| signal.reader.clone()).ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Number of items in the queue.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Closes the queue, which ends all waits.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let task = state.announce();
        drop(state);
        self.changed.notify_all();
        if let Some(task) = task {
            task.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An iterator over a consumer's events. It waits for the next; dropping it ends the subscription.
#[derive(Debug)]
pub struct Events<T> {
    queue: Arc<Queue<T>>,
    subscription: RawSubscription,
}

impl<T> Events<T> {
    pub(crate) const fn new(queue: Arc<Queue<T>>, subscription: RawSubscription) -> Self {
        Self { queue, subscription }
    }

    /// Waits for the next event.
    pub fn wait(&self) -> Next<T> {
        self.queue.next(None)
    }

    /// Waits for the next event, up to that time.
    pub fn next_within(&self, limit: Duration) -> Next<T> {
        self.queue.next(Some(limit))
    }

    /// Takes all queued events, without waiting.
    pub fn take(&self) -> Next<VecDeque<T>> {
        self.queue.take()
    }

    /// Number of queued events.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// A file descriptor to wait by: see [`Queue::descriptor`](crate::raw::Queue::descriptor).
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn descriptor(&self) -> io::Result<Arc<PipeReader>> {
        self.queue.descriptor()
    }

    /// Converts it to a stream for a task, in any runtime.
    #[must_use]
    pub const fn into_stream(self) -> EventStream<T> {
        EventStream(self)
    }

    /// Ends it for all threads: no more events arrive, and a waiting thread gets none once the queued ones are taken.
    pub fn close(&self) {
        self.queue.close();
    }

    /// The underlying subscription.
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

/// The events of a consumer as a stream for one task: see [`Events::into_stream`].
#[derive(Debug)]
pub struct EventStream<T>(Events<T>);

impl<T> EventStream<T> {
    /// The underlying subscription.
    pub const fn subscription(&self) -> &RawSubscription {
        self.0.subscription()
    }
}

impl<T> futures_core::Stream for EventStream<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.queue.poll(task)
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

    #[test]
    fn the_descriptor_holds_one_octet_while_there_is_something_to_take_or_never_will_be() {
        let queue = Queue::new(4);
        queue.put(1);
        let descriptor = queue.descriptor().unwrap();
        let is_set = || queue.lock().signal.as_ref().unwrap().is_set;
        assert!(is_set(), "what came before it was made counts");
        queue.put(2);
        assert_eq!(queue.next(None), Next::Event(1));
        assert!(is_set());
        assert_eq!(queue.take(), Next::Event([2].into()));
        assert!(!is_set());
        assert_eq!(queue.take(), Next::Late);
        queue.close();
        let mut octets = [0; 2];
        assert_eq!(descriptor.as_ref().read(&mut octets).unwrap(), 1);
        assert_eq!((queue.take(), octets), (Next::Ended, [1, 0]));
    }

    #[test]
    fn a_task_is_woken_for_each_event_and_at_the_end() {
        struct Unparks(thread::Thread);
        impl std::task::Wake for Unparks {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let queue = Arc::new(Queue::new(2));
        let theirs = queue.clone();
        let putting = thread::spawn(move || {
            (0..1_000).for_each(|number| assert!(theirs.put(number)));
            theirs.close();
        });
        let waker = Arc::new(Unparks(thread::current())).into();
        let (task, mut got) = (Context::from_waker(&waker), Vec::new());
        loop {
            match queue.poll(&task) {
                Poll::Ready(Some(number)) => got.push(number),
                Poll::Ready(None) => break,
                Poll::Pending => thread::park(),
            }
        }
        putting.join().unwrap();
        assert_eq!(got, (0..1_000).collect::<Vec<_>>());
    }
}

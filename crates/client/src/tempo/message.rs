//! Messages as subscribers get them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use tempo::wire::Content;

use crate::lock;

/// A received message, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// The octets from the publisher.
    pub octets: &'m [u8],
    /// Format of the octets, if known.
    pub content: Content,
    /// Priority: of two queued messages, the larger one goes first.
    pub priority: i16,
    /// Sequence number of the topic's messages from that sender; some may be missing.
    pub sequence: u32,
    /// The publisher's monotonic clock, in nanoseconds, when it handed the message over. Between processes of one machine such
    /// clocks can be compared, by [`now`](super::now).
    pub sent_ns: u64,
    /// The session of the publisher, or of the broker before it.
    pub from: u32,
}

/// A message that owns its octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedMessage {
    octets: Vec<u8>,
    content: Content,
    priority: i16,
    sequence: u32,
    sent_ns: u64,
    from: u32,
}

impl OwnedMessage {
    /// The message, borrowed.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        let Self { octets, content, priority, sequence, sent_ns, from } = self;
        Message { octets, content: *content, priority: *priority, sequence: *sequence, sent_ns: *sent_ns, from: *from }
    }

    /// The octets from the publisher.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// The octets, without a copy.
    #[must_use]
    pub fn into_octets(self) -> Vec<u8> {
        self.octets
    }
}

impl From<&Message<'_>> for OwnedMessage {
    fn from(message: &Message<'_>) -> Self {
        let &Message { octets, content, priority, sequence, sent_ns, from } = message;
        Self { octets: octets.to_vec(), content, priority, sequence, sent_ns, from }
    }
}

/// A queue of messages until they are taken.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    came: Condvar,
    messages_max: usize,
    octets_max: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<OwnedMessage>,
    octets: usize,
    discarded: u64,
}

impl Queue {
    pub(super) fn new(messages_max: usize, octets_max: usize) -> Self {
        Self { state: Mutex::default(), came: Condvar::new(), messages_max: messages_max.max(1), octets_max }
    }

    /// Queues a message; the oldest are discarded to make room. A message larger than all the room is queued alone.
    pub(super) fn push(&self, message: &Message<'_>) {
        let owned = OwnedMessage::from(message);
        let mut state = lock(&self.state);
        while !state.waiting.is_empty()
            && (state.waiting.len() >= self.messages_max || state.octets + owned.octets.len() > self.octets_max)
        {
            state.take();
            state.discarded += 1;
        }
        state.octets += owned.octets.len();
        state.waiting.push_back(owned);
        drop(state);
        self.came.notify_one();
    }

    /// Takes the oldest message, waiting up to the timeout.
    pub(super) fn next(&self, timeout: Duration) -> Option<OwnedMessage> {
        let until = Instant::now().checked_add(timeout);
        let mut state = lock(&self.state);
        loop {
            if let Some(owned) = state.take() {
                return Some(owned);
            }
            // A time too long for the clock is waited for in parts.
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            let waited = self.came.wait_timeout(state, left.min(Duration::from_secs(3_600)));
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Messages discarded because they were not taken in time.
    pub(super) fn discarded(&self) -> u64 {
        lock(&self.state).discarded
    }
}

impl State {
    fn take(&mut self) -> Option<OwnedMessage> {
        let owned = self.waiting.pop_front()?;
        self.octets -= owned.octets.len();
        Some(owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use testing::EndInTime;

    fn push(queue: &Queue, sequence: u32, octets: &[u8]) {
        queue.push(&Message { octets, content: Content::Octets, priority: 0, sequence, sent_ns: 0, from: 1 });
    }

    fn sequences(queue: &Queue) -> Vec<u32> {
        std::iter::from_fn(|| queue.next(Duration::ZERO)).map(|owned| owned.message().sequence).collect()
    }

    #[test]
    fn the_oldest_messages_make_room_and_are_counted() {
        let queue = Queue::new(3, 10);
        (0..5).for_each(|sequence| push(&queue, sequence, b"a"));
        assert_eq!((sequences(&queue), queue.discarded()), (vec![2, 3, 4], 2));
        push(&queue, 5, b"12345");
        push(&queue, 6, b"12345");
        push(&queue, 7, b"1");
        assert_eq!((sequences(&queue), queue.discarded()), (vec![6, 7], 3));
        push(&queue, 8, b"1");
        push(&queue, 9, &[0; 100]);
        assert_eq!((sequences(&queue), queue.discarded()), (vec![9], 4));
    }

    #[test]
    fn a_message_ends_the_wait_for_it() {
        let queue = Queue::new(3, 10);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| queue.next(Duration::MAX));
            push(&queue, 7, b"x");
            assert_eq!(waiter.end_in_time().unwrap().into_octets(), b"x");
        });
    }
}

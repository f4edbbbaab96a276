//! Messages between two threads that never wait for each other.
//!
//! There is one ring for each pair of threads and direction. If all writers to a thread shared a queue, a lane at a real-time priority
//! could be blocked by a less important thread that was displaced in the middle of posting: on a single processor, for good. With a ring of
//! its own each thread can post at any time, whatever the others do.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::lane::io::net::Waker;

/// Writer's end of a ring.
pub(crate) struct Mailbox<T> {
    queue: Producer<T>,
    notify_at: Arc<AtomicUsize>,
    /// Messages posted since the reader last looked, without quiet ones.
    unnotified: usize,
    waker: Arc<Waker>,
}

/// Reader's end of a ring.
pub(crate) struct Inbox<T> {
    queue: Consumer<T>,
    /// Number of messages at which the reader is woken; [`NOTIFIED`] if it was woken since it last looked.
    notify_at: Arc<AtomicUsize>,
}

/// Value if the reader has been woken.
const NOTIFIED: usize = 0;
/// Value if the reader is woken for each message.
const EACH: usize = 1;

/// Makes a ring with room for `capacity` messages. `waker` wakes the thread that reads them.
pub(crate) fn mailbox<T>(waker: &Arc<Waker>, capacity: usize) -> (Mailbox<T>, Inbox<T>) {
    let (producer, consumer) = RingBuffer::new(capacity);
    let notify_at = Arc::new(AtomicUsize::new(EACH));
    let mailbox =
        Mailbox { queue: producer, notify_at: Arc::clone(&notify_at), unnotified: 0, waker: Arc::clone(waker) };
    (mailbox, Inbox { queue: consumer, notify_at })
}

impl<T> Mailbox<T> {
    /// Posts a message, and wakes the reader unless it was woken since it last looked, or [waits for more](Inbox::wait_for).
    ///
    /// # Errors
    /// The message is returned if there is no room for it.
    pub(crate) fn send(&mut self, message: T) -> Result<(), T> {
        self.queue.push(message).map_err(|PushError::Full(message)| message)?;
        // Writes what it reads, for the same reason as in `notify`: a reader that looks after this sees the message.
        let notify_at = self.notify_at.fetch_add(0, Ordering::AcqRel);
        self.unnotified = if notify_at == NOTIFIED { 0 } else { self.unnotified + 1 };
        if notify_at != NOTIFIED && self.unnotified >= notify_at {
            self.notify();
        }
        Ok(())
    }

    /// Posts a message without waking the reader.
    ///
    /// # Errors
    /// The message is returned if there is no room for it.
    pub(crate) fn send_quietly(&mut self, message: T) -> Result<(), T> {
        self.queue.push(message).map_err(|PushError::Full(message)| message)
    }

    /// Wakes the reader unless it has been woken since it last looked.
    pub(crate) fn notify(&mut self) {
        self.unnotified = 0;
        // Acquire and release, paired with `Inbox::look`: either the reader sees what was posted, or this sees that the
        // reader has looked, and wakes it. The mark is this pair's own: were it shared, the waker could be one that another
        // thread has yet to call, and was displaced before it did.
        if self.notify_at.swap(NOTIFIED, Ordering::AcqRel) != NOTIFIED {
            #[cfg(test)]
            if crate::simulation::goes_wrong(crate::simulation::Break::MissedWakeUp) {
                return;
            }
            self.waker.notify();
        }
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.queue.is_abandoned()
    }

    /// Posts a message, waiting for room: for threads that may wait, which lanes may not. `rest` is called to wait. False if the reader is
    /// gone.
    pub(crate) fn send_blocking(&mut self, mut message: T, mut rest: impl FnMut()) -> bool {
        while let Err(back) = self.send(message) {
            if self.queue.is_abandoned() {
                return false;
            }
            message = back;
            rest();
        }
        !self.queue.is_abandoned()
    }

    /// Maximum messages in the ring.
    pub(crate) fn capacity(&self) -> usize {
        self.queue.buffer().capacity()
    }

    /// Number of messages for which there is room.
    pub(crate) fn room(&self) -> usize {
        self.queue.slots()
    }
}

/// A mailbox that never waits: messages without room are buffered here in order.
pub(crate) struct BufferedMailbox<T> {
    mailbox: Mailbox<T>,
    waiting: VecDeque<T>,
}

impl<T> BufferedMailbox<T> {
    pub(crate) fn new(mailbox: Mailbox<T>) -> Self {
        Self { mailbox, waiting: VecDeque::new() }
    }

    pub(crate) fn send(&mut self, message: T) {
        let left = if self.waiting.is_empty() { self.mailbox.send(message).err() } else { Some(message) };
        self.waiting.extend(left);
    }

    pub(crate) fn send_all(&mut self, messages: impl IntoIterator<Item = T>) {
        messages.into_iter().for_each(|message| self.send(message));
    }

    /// Posts buffered messages. True if some still have no room: to be called again before long.
    pub(crate) fn send_waiting(&mut self) -> bool {
        while let Some(message) = self.waiting.pop_front() {
            if let Err(back) = self.mailbox.send(message) {
                self.waiting.push_front(back);
                return true;
            }
        }
        false
    }
}

impl<T> Drop for Mailbox<T> {
    /// Wakes the reader, which notices that the writer is gone.
    fn drop(&mut self) {
        self.waker.notify();
    }
}

impl<T> Inbox<T> {
    /// Notes that the reader looks: messages posted from now on wake it again. Called before messages are taken.
    pub(crate) fn look(&self) {
        self.notify_at.swap(EACH, Ordering::AcqRel);
    }

    /// Has the reader woken only when about `messages` more have been posted. Called by a reader that has looked, before it waits for a
    /// limited time. Quiet messages do not count. No effect if it was woken meanwhile.
    pub(crate) fn wait_for(&self, messages: usize) {
        // Whether it fails says nothing that the waker does not.
        let _ = self.notify_at.compare_exchange(EACH, messages.max(EACH), Ordering::AcqRel, Ordering::Acquire);
    }

    /// The next message.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.queue.pop().ok()
    }

    /// Number of messages that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.slots()
    }

    /// Whether the writer is gone and everything was read.
    pub(crate) fn has_ended(&self) -> bool {
        // In this order: what was posted before the end is seen after it.
        self.queue.is_abandoned() && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_looked_is_rung_for_again_and_only_then() {
        let waker = Arc::new(Waker::new().unwrap());
        let (mut mailbox, mut inbox) = mailbox(&waker, 4);
        let notifications = || waker.take_notifications();
        mailbox.send('a').unwrap();
        mailbox.send('b').unwrap();
        assert_eq!(notifications(), 1, "it has not looked since it was rung for");
        inbox.look();
        assert_eq!((inbox.take(), inbox.take(), inbox.take()), (Some('a'), Some('b'), None));
        mailbox.send('c').unwrap();
        assert_eq!(notifications(), 1);
    }

    #[test]
    fn a_reader_that_waits_for_more_is_rung_for_when_they_are_there_or_at_once_if_that_is_wanted() {
        let waker = Arc::new(Waker::new().unwrap());
        let (mut mailbox, mut inbox) = mailbox(&waker, 16);
        let notifications = || waker.take_notifications();
        inbox.look();
        inbox.wait_for(3);
        (0..2).for_each(|message| mailbox.send(message).unwrap());
        mailbox.send_quietly(2).unwrap();
        assert_eq!(notifications(), 0, "a quiet one does not count");
        mailbox.send(3).unwrap();
        mailbox.send(4).unwrap();
        assert_eq!(notifications(), 1);
        // It gives up, and looks: from then on each counts again.
        inbox.look();
        inbox.wait_for(3);
        mailbox.send(5).unwrap();
        inbox.look();
        mailbox.send(6).unwrap();
        assert_eq!(notifications(), 1);
        inbox.look();
        inbox.wait_for(2);
        mailbox.send(7).unwrap();
        mailbox.notify();
        assert_eq!(notifications(), 1, "something else is to be looked at now");
        // What came between looking and waiting is not overlooked.
        inbox.look();
        mailbox.send(8).unwrap();
        inbox.wait_for(2);
        assert_eq!(notifications(), 1);
        assert_eq!(core::iter::from_fn(|| inbox.take()).count(), 9);
    }

    #[test]
    fn a_thread_that_is_woken_by_one_is_woken_by_another_too() {
        // The first may have been displaced before it rang.
        let waker = Arc::new(Waker::new().unwrap());
        let (mut first, _first_inbox) = mailbox(&waker, 4);
        let (mut second, _second_inbox) = mailbox(&waker, 4);
        first.send('a').unwrap();
        second.send('b').unwrap();
        assert_eq!(waker.take_notifications(), 2);
    }

    #[test]
    fn a_message_without_room_comes_back() {
        let waker = Arc::new(Waker::new().unwrap());
        let (mut mailbox, mut inbox) = mailbox(&waker, 2);
        assert_eq!((mailbox.send(1), mailbox.send(2), mailbox.send(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!(inbox.take(), Some(1));
        assert_eq!((mailbox.room(), mailbox.send(3)), (1, Ok(())));
    }

    #[test]
    fn the_end_is_seen_when_all_has_been_read() {
        let waker = Arc::new(Waker::new().unwrap());
        let (mut mailbox, mut inbox) = mailbox(&waker, 2);
        mailbox.send(1).unwrap();
        drop(mailbox);
        assert!(!inbox.has_ended());
        assert_eq!(inbox.take(), Some(1));
        assert!(inbox.has_ended());
    }

    #[test]
    fn a_sender_that_waits_for_room_sends_when_there_is_some_and_gives_up_without_a_receiver() {
        let waker = Arc::new(Waker::new().unwrap());
        let (mut mailbox, mut inbox) = mailbox(&waker, 1);
        mailbox.send(1).unwrap();
        let mut taken = Vec::new();
        assert!(mailbox.send_blocking(2, || taken.extend(inbox.take())));
        assert_eq!((taken, inbox.take()), (vec![1], Some(2)));
        drop(inbox);
        assert!(!mailbox.send_blocking(3, || ()));
    }
}

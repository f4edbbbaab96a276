//! Letters between two threads that never wait for each other.
//!
//! There is one ring for each pair of threads and direction. With one queue for all writers to a thread, a lane at a real-time
//! priority could stand behind administration, at a lower one, that was displaced in the middle of posting, and on a single
//! processor it would stand there for good; and so could a lane behind a less important one. With a ring of its own each posts,
//! and is read, whatever the others are doing.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::lane::io::net::Bell;

/// The end at which letters are posted.
pub(crate) struct Post<T> {
    ring: Producer<T>,
    rings_at: Arc<AtomicUsize>,
    /// Letters that were posted since the reader last looked, but for quiet ones.
    unrung: usize,
    bell: Arc<Bell>,
}

/// The end at which they are read.
pub(crate) struct Inbox<T> {
    ring: Consumer<T>,
    /// For how many letters the reader is to be woken; [`RUNG`] if it has been rung for since it last looked.
    rings_at: Arc<AtomicUsize>,
}

/// It has been rung for the reader.
const RUNG: usize = 0;
/// The reader wants to be woken for each letter.
const EACH: usize = 1;

/// Both ends of a ring with room for so many letters. The bell is that of the thread that reads them.
pub(crate) fn post_to<T>(bell: &Arc<Bell>, capacity: usize) -> (Post<T>, Inbox<T>) {
    let (producer, consumer) = RingBuffer::new(capacity);
    let rings_at = Arc::new(AtomicUsize::new(EACH));
    let post = Post { ring: producer, rings_at: Arc::clone(&rings_at), unrung: 0, bell: Arc::clone(bell) };
    (post, Inbox { ring: consumer, rings_at })
}

impl<T> Post<T> {
    /// Posts a letter, and wakes the reader unless it has been rung for since it last looked, or [waits for more](Inbox::wait_for).
    ///
    /// # Errors
    /// Gives the letter back if there is no room for it.
    pub(crate) fn post(&mut self, letter: T) -> Result<(), T> {
        self.ring.push(letter).map_err(|PushError::Full(letter)| letter)?;
        // Writes what it reads, for the same reason as in `ring`: a reader that looks after this sees the letter.
        let rings_at = self.rings_at.fetch_add(0, Ordering::AcqRel);
        self.unrung = if rings_at == RUNG { 0 } else { self.unrung + 1 };
        if rings_at != RUNG && self.unrung >= rings_at {
            self.ring();
        }
        Ok(())
    }

    /// Posts a letter that the reader need not be woken for.
    ///
    /// # Errors
    /// Gives the letter back if there is no room for it.
    pub(crate) fn post_quietly(&mut self, letter: T) -> Result<(), T> {
        self.ring.push(letter).map_err(|PushError::Full(letter)| letter)
    }

    /// Wakes the reader unless it has been rung for since it last looked.
    pub(crate) fn ring(&mut self) {
        self.unrung = 0;
        // Acquire and release, paired with `Inbox::look`: either the reader sees what was posted, or this sees that the
        // reader has looked, and rings. The mark is this pair's own: were it shared, the bell could be one that another
        // thread has yet to ring, and was displaced before it did.
        if self.rings_at.swap(RUNG, Ordering::AcqRel) != RUNG {
            #[cfg(test)]
            if crate::simulation::goes_wrong(crate::simulation::Break::MissedWakeUp) {
                return;
            }
            self.bell.ring();
        }
    }

    /// Whether the reader is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Posts a letter, and waits for room if there is none: for threads that may wait, which lanes may not; `rest` is
    /// how. False if the reader is gone.
    pub(crate) fn post_in_time(&mut self, mut letter: T, mut rest: impl FnMut()) -> bool {
        while let Err(back) = self.post(letter) {
            if self.ring.is_abandoned() {
                return false;
            }
            letter = back;
            rest();
        }
        !self.ring.is_abandoned()
    }

    /// Letters that it can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.ring.buffer().capacity()
    }

    /// Letters for which there is room.
    pub(crate) fn room(&self) -> usize {
        self.ring.slots()
    }
}

/// A post that is not waited for: what there is no room for stays here, in its order, until there is.
pub(crate) struct PatientPost<T> {
    post: Post<T>,
    waiting: VecDeque<T>,
}

impl<T> PatientPost<T> {
    pub(crate) fn new(post: Post<T>) -> Self {
        Self { post, waiting: VecDeque::new() }
    }

    pub(crate) fn post(&mut self, letter: T) {
        let left = if self.waiting.is_empty() { self.post.post(letter).err() } else { Some(letter) };
        self.waiting.extend(left);
    }

    pub(crate) fn post_all(&mut self, letters: impl IntoIterator<Item = T>) {
        letters.into_iter().for_each(|letter| self.post(letter));
    }

    /// Posts those that have waited. True if there is no room for some yet: it is to be tried again before long.
    pub(crate) fn post_waiting(&mut self) -> bool {
        while let Some(letter) = self.waiting.pop_front() {
            if let Err(back) = self.post.post(letter) {
                self.waiting.push_front(back);
                return true;
            }
        }
        false
    }
}

impl<T> Drop for Post<T> {
    /// Has the reader notice.
    fn drop(&mut self) {
        self.bell.ring();
    }
}

impl<T> Inbox<T> {
    /// Notes that the reader looks: what is posted from now on rings again. To be called before letters are taken.
    pub(crate) fn look(&self) {
        self.rings_at.swap(EACH, Ordering::AcqRel);
    }

    /// To be called before it waits, for a limited time, by a reader that has looked: it is woken when there are about so many letters
    /// more, and not for each. Quiet ones do not count. Nothing changes if it has been rung for meanwhile.
    pub(crate) fn wait_for(&self, letters: usize) {
        // Whether it fails says nothing that the bell does not.
        let _ = self.rings_at.compare_exchange(EACH, letters.max(EACH), Ordering::AcqRel, Ordering::Acquire);
    }

    /// The next letter.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.ring.pop().ok()
    }

    /// Letters that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.ring.slots()
    }

    /// Whether the writer is gone and everything was read.
    pub(crate) fn has_ended(&self) -> bool {
        // In this order: what was posted before the end is seen after it.
        self.ring.is_abandoned() && self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_looked_is_rung_for_again_and_only_then() {
        let bell = Arc::new(Bell::new().unwrap());
        let (mut post, mut inbox) = post_to(&bell, 4);
        let rings = || bell.take_rings();
        post.post('a').unwrap();
        post.post('b').unwrap();
        assert_eq!(rings(), 1, "it has not looked since it was rung for");
        inbox.look();
        assert_eq!((inbox.take(), inbox.take(), inbox.take()), (Some('a'), Some('b'), None));
        post.post('c').unwrap();
        assert_eq!(rings(), 1);
    }

    #[test]
    fn a_reader_that_waits_for_more_is_rung_for_when_they_are_there_or_at_once_if_that_is_wanted() {
        let bell = Arc::new(Bell::new().unwrap());
        let (mut post, mut inbox) = post_to(&bell, 16);
        let rings = || bell.take_rings();
        inbox.look();
        inbox.wait_for(3);
        (0..2).for_each(|letter| post.post(letter).unwrap());
        post.post_quietly(2).unwrap();
        assert_eq!(rings(), 0, "a quiet one does not count");
        post.post(3).unwrap();
        post.post(4).unwrap();
        assert_eq!(rings(), 1);
        // It gives up, and looks: from then on each counts again.
        inbox.look();
        inbox.wait_for(3);
        post.post(5).unwrap();
        inbox.look();
        post.post(6).unwrap();
        assert_eq!(rings(), 1);
        inbox.look();
        inbox.wait_for(2);
        post.post(7).unwrap();
        post.ring();
        assert_eq!(rings(), 1, "something else is to be looked at now");
        // What came between looking and waiting is not overlooked.
        inbox.look();
        post.post(8).unwrap();
        inbox.wait_for(2);
        assert_eq!(rings(), 1);
        assert_eq!(core::iter::from_fn(|| inbox.take()).count(), 9);
    }

    #[test]
    fn who_is_rung_for_by_one_is_rung_for_by_another_too() {
        // The first may have been displaced before it rang.
        let bell = Arc::new(Bell::new().unwrap());
        let (mut first, _first_inbox) = post_to(&bell, 4);
        let (mut second, _second_inbox) = post_to(&bell, 4);
        first.post('a').unwrap();
        second.post('b').unwrap();
        assert_eq!(bell.take_rings(), 2);
    }

    #[test]
    fn a_letter_without_room_comes_back() {
        let bell = Arc::new(Bell::new().unwrap());
        let (mut post, mut inbox) = post_to(&bell, 2);
        assert_eq!((post.post(1), post.post(2), post.post(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!(inbox.take(), Some(1));
        assert_eq!((post.room(), post.post(3)), (1, Ok(())));
    }

    #[test]
    fn the_end_is_seen_when_all_has_been_read() {
        let bell = Arc::new(Bell::new().unwrap());
        let (mut post, mut inbox) = post_to(&bell, 2);
        post.post(1).unwrap();
        drop(post);
        assert!(!inbox.has_ended());
        assert_eq!(inbox.take(), Some(1));
        assert!(inbox.has_ended());
    }

    #[test]
    fn who_waits_for_room_posts_when_there_is_some_and_gives_up_when_nobody_reads() {
        let bell = Arc::new(Bell::new().unwrap());
        let (mut post, mut inbox) = post_to(&bell, 1);
        post.post(1).unwrap();
        let mut taken = Vec::new();
        assert!(post.post_in_time(2, || taken.extend(inbox.take())));
        assert_eq!((taken, inbox.take()), (vec![1], Some(2)));
        drop(inbox);
        assert!(!post.post_in_time(3, || ()));
    }
}

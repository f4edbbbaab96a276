//! Reassembly of one message from several frames.
//!
//! All fragments but the last have the same size; they may arrive in any order, and repeatedly. The state is the caller's buffer and a mark
//! for each fragment. A message with too many octets or fragments is refused at the first fragment that shows it.

use crate::wire::Fragment;

/// Effect of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentResult {
    /// Other fragments are missing.
    Incomplete,
    /// The fragment was there already. Its octets are ignored.
    Repeated,
    /// The message is complete: [`Reassembly::message`].
    Complete,
}

/// Why a fragment is refused. The stored part of its message stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// The message has more octets than the buffer.
    TooLarge,
    /// The message has more fragments than there are marks.
    TooMany,
    /// The fragment's size differs from the others, or its offset is no multiple of that size or outside the message.
    Uneven,
    /// Other fragments announced another size of the message.
    Total,
    /// There is no buffer for the message.
    NoRoom,
}

/// At most one unfinished message, in a buffer (`[u8; N]`, `&mut [u8]`, `Vec<u8>`, …), with marks in words (`[u64; N]`, …).
#[derive(Debug, Clone)]
pub struct Reassembly<B, M = [u64; 4]> {
    buffer: B,
    marks: M,
    /// The number of the unfinished message.
    number: Option<u32>,
    total: usize,
    /// Octets of each fragment but the last; 0 while only the last has arrived.
    size: usize,
    /// Offset and size of the last fragment, if it has arrived.
    last: Option<(usize, usize)>,
    /// Fragments that have arrived, the last one included.
    came: usize,
    is_complete: bool,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, M: AsRef<[u64]> + AsMut<[u64]>> Reassembly<B, M> {
    /// An empty reassembly.
    #[must_use]
    pub const fn new(buffer: B, marks: M) -> Self {
        Self { buffer, marks, number: None, total: 0, size: 0, last: None, came: 0, is_complete: false }
    }

    /// The number of the message with fragments here.
    #[must_use]
    pub const fn number(&self) -> Option<u32> {
        self.number
    }

    /// Releases the message; returns whether it was unfinished.
    pub fn clear(&mut self) -> bool {
        let was_unfinished = self.number.is_some() && !self.is_complete;
        self.marks.as_mut().fill(0);
        self.number = None;
        (self.total, self.size, self.last, self.came, self.is_complete) = (0, 0, None, 0, false);
        was_unfinished
    }

    /// Returns the buffer, for another use.
    pub fn into_buffer(self) -> B {
        self.buffer
    }

    /// Adds a fragment of the message with that number. Another message in the buffer is released.
    ///
    /// # Errors
    /// The reason why the fragment is refused.
    pub fn take(&mut self, number: u32, fragment: Fragment, octets: &[u8]) -> Result<FragmentResult, Unfit> {
        let (Ok(total), Ok(at)) = (usize::try_from(fragment.total), usize::try_from(fragment.at)) else {
            return Err(Unfit::TooLarge);
        };
        let end =
            at.checked_add(octets.len()).filter(|&end| end <= total && !octets.is_empty()).ok_or(Unfit::Uneven)?;
        if total > self.buffer.as_ref().len() {
            return Err(Unfit::TooLarge);
        }
        if self.number != Some(number) {
            self.clear();
        }
        if self.is_complete {
            return Ok(FragmentResult::Repeated);
        }
        if self.number.is_some() && self.total != total {
            return Err(Unfit::Total);
        }
        let is_last = end == total;
        let size = if is_last && at > 0 { self.size } else { octets.len() };
        if self.has(total, at, octets.len(), size)? {
            return Ok(FragmentResult::Repeated);
        }
        self.number = Some(number);
        self.total = total;
        self.size = size;
        if is_last {
            self.last = Some((at, octets.len()));
        } else if let Some(mark) = at.checked_div(size) {
            self.mark(mark);
        }
        self.came += 1;
        if let Some(place) = self.buffer.as_mut().get_mut(at..end) {
            place.copy_from_slice(octets);
        }
        self.is_complete = size > 0 && self.came == total.div_ceil(size);
        Ok(if self.is_complete { FragmentResult::Complete } else { FragmentResult::Incomplete })
    }

    /// The message, once complete; empty until then.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        let octets = if self.is_complete { self.total } else { 0 };
        self.buffer.as_ref().get(..octets).unwrap_or_default()
    }

    /// Whether the fragment is here already, provided it fits the others, which have this size.
    fn has(&self, total: usize, at: usize, octets: usize, size: usize) -> Result<bool, Unfit> {
        let is_last = at + octets == total;
        // The last fragment and the others must agree, whichever came first.
        let last = if is_last { Some((at, octets)) } else { self.last };
        if is_last && self.last.is_some() {
            return if self.last == last { Ok(true) } else { Err(Unfit::Uneven) };
        }
        if self.size != 0 && size != self.size {
            return Err(Unfit::Uneven);
        }
        if size == 0 {
            return Ok(false);
        }
        let is_even = |at: usize| at.is_multiple_of(size);
        if !is_even(at) || last.is_some_and(|(at, octets)| !is_even(at) || octets > size) {
            return Err(Unfit::Uneven);
        }
        let marks = self.marks.as_ref();
        if total.div_ceil(size) > marks.len().saturating_mul(64) {
            return Err(Unfit::TooMany);
        }
        let mark = at / size;
        Ok(!is_last && marks.get(mark / 64).is_some_and(|word| word >> (mark % 64) & 1 == 1))
    }

    fn mark(&mut self, mark: usize) {
        if let Some(word) = self.marks.as_mut().get_mut(mark / 64) {
            *word |= 1 << (mark % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn whole(octets: usize) -> Vec<u8> {
        (0..octets).map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    fn fragment(message: &[u8], at: usize) -> Fragment {
        Fragment { total: u32::try_from(message.len()).unwrap(), at: u32::try_from(at).unwrap() }
    }

    #[test]
    fn a_message_is_complete_when_all_its_fragments_have_come_in_whatever_order_and_how_often() {
        for seed in 0..2_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let message = whole(random.usize(1..1_000));
            let size = random.usize(message.len().div_ceil(100)..=message.len());
            let mut pieces: Vec<usize> = (0..message.len()).step_by(size).collect();
            let all = pieces.len();
            for _ in 0..random.usize(0..5) {
                pieces.push(pieces[random.usize(0..all)]);
            }
            random.shuffle(&mut pieces);
            let mut buffer = [0; 1_000];
            let mut reassembly = Reassembly::new(&mut buffer[..], [0; 2]);
            let (mut came, mut completed) = (vec![false; message.len()], 0);
            for &at in &pieces {
                let octets = &message[at..message.len().min(at + size)];
                let result = reassembly.take(9, fragment(&message, at), octets).unwrap();
                assert_eq!(result == FragmentResult::Repeated, came[at], "seed {seed}");
                came[at] = true;
                let are_all = came.iter().filter(|&&came| came).count() == all;
                assert_eq!(reassembly.message(), if are_all { &message[..] } else { b"" }, "seed {seed}");
                completed += usize::from(result == FragmentResult::Complete);
            }
            assert_eq!(completed, 1, "seed {seed}");
        }
    }

    #[test]
    fn fragments_that_do_not_fit_to_the_others_are_refused_and_the_others_stay() {
        let message = whole(25);
        let mut reassembly = Reassembly::new([0; 64], [0; 1]);
        let mut take = |at: usize, end: usize, total: u32| {
            reassembly.take(1, Fragment { total, at: u32::try_from(at).unwrap() }, &message[at..end])
        };
        assert_eq!(take(10, 20, 25), Ok(FragmentResult::Incomplete));
        assert_eq!(take(0, 9, 25), Err(Unfit::Uneven), "of another size");
        assert_eq!(take(5, 15, 25), Err(Unfit::Uneven), "not at a multiple");
        assert_eq!(take(21, 25, 25), Err(Unfit::Uneven), "the last, not at a multiple");
        assert_eq!(take(0, 25, 25), Err(Unfit::Uneven), "all of it");
        assert_eq!(take(0, 10, 24), Err(Unfit::Total));
        assert_eq!(take(20, 25, 25), Ok(FragmentResult::Incomplete));
        assert_eq!(take(0, 10, 25), Ok(FragmentResult::Complete));
        assert_eq!(take(0, 10, 25), Ok(FragmentResult::Repeated));
        assert_eq!(reassembly.message(), &message[..]);
    }

    #[test]
    fn the_last_fragment_alone_says_too_little_and_must_fit_to_what_comes_after_it() {
        let message = whole(25);
        let mut reassembly = Reassembly::new([0; 64], [0; 1]);
        assert_eq!(reassembly.take(1, fragment(&message, 20), &message[20..]), Ok(FragmentResult::Incomplete));
        assert_eq!(reassembly.take(1, fragment(&message, 0), &message[..9]), Err(Unfit::Uneven));
        assert_eq!(reassembly.take(1, fragment(&message, 0), &message[..4]), Err(Unfit::Uneven));
        assert_eq!(reassembly.take(1, fragment(&message, 10), &message[10..20]), Ok(FragmentResult::Incomplete));
        assert_eq!(reassembly.take(1, fragment(&message, 0), &message[..10]), Ok(FragmentResult::Complete));
    }

    #[test]
    fn a_message_beyond_the_buffer_or_the_marks_is_refused_by_its_first_fragment() {
        let mut reassembly = Reassembly::new([0; 200], [0; 1]);
        assert_eq!(reassembly.take(1, Fragment { total: 201, at: 0 }, &[0; 150]), Err(Unfit::TooLarge));
        assert_eq!(reassembly.take(1, Fragment { total: u32::MAX, at: 0 }, &[0; 150]), Err(Unfit::TooLarge));
        assert_eq!(reassembly.take(1, Fragment { total: 200, at: 128 }, &[0; 2]), Err(Unfit::TooMany));
        assert_eq!(reassembly.take(1, Fragment { total: 200, at: 6 }, &[0; 3]), Err(Unfit::TooMany));
        assert_eq!(reassembly.number(), None);
        assert_eq!(reassembly.take(1, Fragment { total: 192, at: 6 }, &[0; 3]), Ok(FragmentResult::Incomplete));
        assert_eq!(reassembly.take(2, Fragment { total: 200, at: 199 }, &[0; 2]), Err(Unfit::Uneven));
        assert_eq!(reassembly.take(2, Fragment { total: 200, at: 0 }, &[]), Err(Unfit::Uneven));
    }

    #[test]
    fn another_message_takes_the_place_of_an_unfinished_one() {
        let (first, second) = (whole(20), whole(3));
        let mut reassembly = Reassembly::new(vec![0; 20], vec![0; 1]);
        assert_eq!(reassembly.take(1, fragment(&first, 0), &first[..10]), Ok(FragmentResult::Incomplete));
        assert_eq!(reassembly.take(2, fragment(&second, 0), &second), Ok(FragmentResult::Complete));
        assert_eq!(reassembly.message(), &second[..]);
        assert_eq!(
            reassembly.take(1, fragment(&first, 10), &first[10..]),
            Ok(FragmentResult::Incomplete),
            "its first half is gone"
        );
        assert!(reassembly.clear() && !reassembly.clear());
        assert_eq!(reassembly.number(), None);
    }

    #[test]
    fn random_fragments_never_complete_what_is_not_there() {
        for seed in 0..3_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut reassembly = Reassembly::new([0xee_u8; 40], [0; 1]);
            for _ in 0..30 {
                let total = random.u32(0..42);
                let at = random.u32(0..42);
                let octets = vec![7; random.usize(0..20)];
                if reassembly.take(random.u32(0..2), Fragment { total, at }, &octets) == Ok(FragmentResult::Complete) {
                    assert!(reassembly.message().iter().all(|&octet| octet == 7), "seed {seed}");
                    reassembly.buffer = [0xee; 40];
                    reassembly.clear();
                }
            }
        }
    }
}

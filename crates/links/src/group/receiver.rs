//! The receiving end of a group's channel.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::Nanos;

/// The numbers of a group that came, and what is to be asked for and acknowledged.
///
/// Frames that came before their turn are retained, at most [`Self::RETAINED_MAX`] and [`Self::RETAINED_BYTES_MAX`] (those of the session
/// up to twice that); further ones are dropped and asked for again when it is their turn.
#[derive(Debug)]
pub struct GroupReceiver {
    /// The number that is taken next.
    next: u64,
    /// The highest number that is known to have been sent.
    highest: u64,
    retained: BTreeMap<u64, Vec<u8>>,
    octets: usize,
    /// Numbers up to this one that are missing were asked for.
    requested: u64,
    /// Since when a number is missing that was not asked for, and how many datagrams came since.
    missing: Option<(Nanos, u32)>,
    /// Numbers that were taken and are not acknowledged, from `acknowledged + 1` on: whether each is complete.
    outstanding: VecDeque<bool>,
    acknowledged: u64,
    acknowledged_sent: u64,
}

/// What is to be done with a frame that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the next: it is to be taken in now.
    Now,
    /// It waits for its turn.
    Later,
    /// It came before.
    Repeat,
    /// There is no room for it. It is asked for again.
    NoRoom,
}

impl GroupReceiver {
    /// Frames that wait for their turn, those that are missing between them among them.
    pub const RETAINED_MAX: u64 = 4_096;
    /// Octets of these.
    pub const RETAINED_BYTES_MAX: usize = 4 << 20;
    /// Events that were taken and are not complete.
    pub const OUTSTANDING_MAX: usize = 1_024;
    /// Ranges in one request.
    pub const RANGES_MAX: usize = 64;
    /// A number is missing when it has not come so long after a later one, or when so many datagrams came since.
    pub const REORDERED_WITHIN: Nanos = 2_000_000;
    /// See [`Self::REORDERED_WITHIN`].
    pub const REORDERED_DATAGRAMS: u32 = 3;

    /// A beginning at a number.
    #[must_use]
    pub const fn new(from: u64) -> Self {
        let before = from.saturating_sub(1);
        Self {
            next: from,
            highest: before,
            retained: BTreeMap::new(),
            octets: 0,
            requested: before,
            missing: None,
            outstanding: VecDeque::new(),
            acknowledged: before,
            acknowledged_sent: before,
        }
    }

    /// Notes a frame. One that is to be taken [now](Taken::Now) is outstanding from then on.
    pub fn take(&mut self, number: u64, frame: &[u8], is_of_session: bool, now: Nanos) -> Taken {
        if number < self.next || self.retained.contains_key(&number) {
            return Taken::Repeat;
        }
        if number == self.next && self.has_room() {
            self.advance();
            self.note_sent(number, now);
            return Taken::Now;
        }
        let octets_max = if is_of_session { 2 * Self::RETAINED_BYTES_MAX } else { Self::RETAINED_BYTES_MAX };
        let is_over = self.octets + frame.len() > octets_max && !self.retained.is_empty();
        if number - self.next >= Self::RETAINED_MAX || is_over {
            return Taken::NoRoom;
        }
        self.octets += frame.len();
        self.retained.insert(number, frame.to_vec());
        self.note_sent(number, now);
        if let Some((_, count)) = &mut self.missing {
            *count += 1;
        }
        Taken::Later
    }

    /// The last number that was sent, as the sender says. Numbers that there will be no room for are not noted.
    pub fn note_announced(&mut self, number: u64, now: Nanos) {
        self.note_sent(number.min(self.next.saturating_add(Self::RETAINED_MAX - 1)), now);
    }

    fn note_sent(&mut self, number: u64, now: Nanos) {
        self.highest = self.highest.max(number);
        // Between what is next and the highest number something is missing, unless all of it is retained.
        let is_missing = self.missing_from().is_some();
        if !is_missing {
            self.missing = None;
        } else if self.missing.is_none() {
            self.missing = Some((now, 0));
        }
    }

    /// The first number that is missing and was not asked for.
    fn missing_from(&self) -> Option<u64> {
        let mut number = self.next.max(self.requested + 1);
        for retained in self.retained.range(number..).map(|(number, _)| *number) {
            if retained != number {
                break;
            }
            number += 1;
        }
        (number <= self.highest).then_some(number)
    }

    /// The next frame in order that waited for its turn, if there is room for it. It is outstanding from then on.
    pub fn pop(&mut self) -> Option<(u64, Vec<u8>)> {
        if !self.has_room() {
            return None;
        }
        let number = self.next;
        let frame = self.retained.remove(&number)?;
        self.octets -= frame.len();
        self.advance();
        Some((number, frame))
    }

    fn has_room(&self) -> bool {
        self.outstanding.len() < Self::OUTSTANDING_MAX
    }

    fn advance(&mut self) {
        self.next += 1;
        self.outstanding.push_back(false);
    }

    /// What is to be asked for now: ranges of numbers, both ends included. Each number is asked for once, since the answer comes over a
    /// stream. Nothing if it is too early.
    pub fn take_request(&mut self, now: Nanos, out: &mut Vec<(u64, u64)>) -> bool {
        out.clear();
        if self.next_due().is_none_or(|at| at > now) {
            return false;
        }
        while out.len() < Self::RANGES_MAX
            && let Some(first) = self.missing_from()
        {
            let next_retained = self.retained.range(first..).next().map(|(number, _)| number - 1);
            let last = next_retained.unwrap_or(self.highest).min(self.highest);
            out.push((first, last));
            self.requested = last;
        }
        self.missing = self.missing_from().map(|_| (now, 0));
        !out.is_empty()
    }

    /// When [`Self::take_request`] has something.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        let (since, count) = self.missing?;
        if count >= Self::REORDERED_DATAGRAMS {
            Some(since)
        } else {
            Some(since.saturating_add(Self::REORDERED_WITHIN))
        }
    }

    /// Notes that an event is done with. False if it does not wait for that.
    pub fn complete(&mut self, number: u64) -> bool {
        let at = number.checked_sub(self.acknowledged + 1).and_then(|at| usize::try_from(at).ok());
        let Some(is_complete @ false) = at.and_then(|at| self.outstanding.get_mut(at)) else { return false };
        *is_complete = true;
        while self.outstanding.pop_front_if(|is_complete| *is_complete).is_some() {
            self.acknowledged += 1;
        }
        true
    }

    /// The number to acknowledge now, if there is more to acknowledge than the last time.
    pub const fn take_ack(&mut self) -> Option<u64> {
        if self.acknowledged == self.acknowledged_sent {
            return None;
        }
        self.acknowledged_sent = self.acknowledged;
        Some(self.acknowledged)
    }

    /// The number that is taken next.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.next
    }

    /// The octets of frames that wait for their turn.
    #[must_use]
    pub const fn retained_octets(&self) -> usize {
        self.octets
    }
}

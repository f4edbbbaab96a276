//! The receiving end of a group's channel.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::Nanos;

/// The numbers of a group that arrived, with pending requests and acknowledgements.
///
/// Frames that arrive out of order are retained, at most [`Self::RETAINED_MAX`] and [`Self::RETAINED_BYTES_MAX`] (twice that for frames
/// from the session); further ones are dropped and requested again later.
#[derive(Debug)]
pub struct GroupReceiver {
    /// The next number in order.
    next: u64,
    /// The highest number known to have been sent.
    highest: u64,
    retained: BTreeMap<u64, Vec<u8>>,
    octets: usize,
    /// Missing numbers up to this one were requested.
    requested: u64,
    /// Since when a number is missing that was not requested, and how many datagrams arrived since.
    missing: Option<(Nanos, u32)>,
    /// Numbers taken and not acknowledged, from `acknowledged + 1` on: whether each is complete.
    outstanding: VecDeque<bool>,
    acknowledged: u64,
    acknowledged_sent: u64,
}

/// What to do with a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The frame is the next in order: the caller takes it in now.
    Now,
    /// The frame is retained until those before it have arrived.
    Later,
    /// The frame arrived before.
    Repeat,
    /// The frame is dropped for lack of room. It is requested again.
    NoRoom,
}

impl GroupReceiver {
    /// Maximum span of numbers from the next in order to the last retained frame, missing ones included.
    pub const RETAINED_MAX: u64 = 4_096;
    /// Maximum octets of retained frames that came in datagrams.
    pub const RETAINED_BYTES_MAX: usize = 4 << 20;
    /// Maximum events taken and not complete.
    pub const OUTSTANDING_MAX: usize = 1_024;
    /// Maximum ranges in one request.
    pub const RANGES_MAX: usize = 64;
    /// Time after a later number's arrival until a number counts as missing, in ns.
    pub const REORDERED_WITHIN: Nanos = 2_000_000;
    /// Number of later datagrams after which a number counts as missing at once.
    pub const REORDERED_DATAGRAMS: u32 = 3;

    /// Creates a receiver that begins at this number.
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

    /// Notes a frame. The event of one that is taken [now](Taken::Now) is outstanding from then on.
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

    /// Notes the last number sent, as announced by the sender. Numbers beyond the room for retained frames are not noted.
    pub fn note_announced(&mut self, number: u64, now: Nanos) {
        self.note_sent(number.min(self.next.saturating_add(Self::RETAINED_MAX - 1)), now);
    }

    fn note_sent(&mut self, number: u64, now: Nanos) {
        self.highest = self.highest.max(number);
        // Unless all from the next number to the highest are retained, some are missing.
        let is_missing = self.missing_from().is_some();
        if !is_missing {
            self.missing = None;
        } else if self.missing.is_none() {
            self.missing = Some((now, 0));
        }
    }

    /// The first missing number that was not requested.
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

    /// Removes the retained frame that is next in order, if there is room. Its event is outstanding from then on.
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

    /// Fills `out` with the ranges of numbers to request now, both ends included. Each number is requested once, since the answer comes
    /// over a stream. False if nothing is to be requested yet.
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

    /// Time at which [`Self::take_request`] will have a request.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        let (since, count) = self.missing?;
        if count >= Self::REORDERED_DATAGRAMS {
            Some(since)
        } else {
            Some(since.saturating_add(Self::REORDERED_WITHIN))
        }
    }

    /// Completes an event. False if its completion was not pending.
    pub fn complete(&mut self, number: u64) -> bool {
        let at = number.checked_sub(self.acknowledged + 1).and_then(|at| usize::try_from(at).ok());
        let Some(is_complete @ false) = at.and_then(|at| self.outstanding.get_mut(at)) else { return false };
        *is_complete = true;
        while self.outstanding.pop_front_if(|is_complete| *is_complete).is_some() {
            self.acknowledged += 1;
        }
        true
    }

    /// The number to acknowledge now. `None` if it is the same as last time.
    pub const fn take_ack(&mut self) -> Option<u64> {
        if self.acknowledged == self.acknowledged_sent {
            return None;
        }
        self.acknowledged_sent = self.acknowledged;
        Some(self.acknowledged)
    }

    /// The next number in order.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.next
    }

    /// Octets of the retained frames.
    #[must_use]
    pub const fn retained_octets(&self) -> usize {
        self.octets
    }
}

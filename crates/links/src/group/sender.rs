//! The sending end of a group's channel.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::{Nanos, Origin, Violation};

/// The events of a channel as numbered for a group, and the acknowledgements of each member in step.
///
/// Frames are retained until all members have acknowledged them, at most [`Self::RETAINED_BYTES_MAX`] and [`Self::RETAINED_MAX`]: a member
/// that needs more is a [slow consumer](Self::slow_consumer). The latest frames are retained for members that are about to join.
#[derive(Debug, Default)]
pub struct GroupSender {
    /// The number of the last event.
    last: u64,
    /// The numbers of recent events by origin; `origins` has the same origins in the order of their numbers.
    numbers: BTreeMap<Origin, u64>,
    origins: VecDeque<Origin>,
    /// The frames of recent events.
    retained: VecDeque<Retained>,
    octets: usize,
    /// Admission time of the newest event with a number.
    newest: u64,
    members: BTreeMap<u64, Progress>,
    /// Time of the next announcement of the last number, and the interval before it in ns.
    announce: Option<(Nanos, Nanos)>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Retained {
    frame: Vec<u8>,
    sent_at: Nanos,
}

#[derive(Debug)]
struct Progress {
    acknowledged: u64,
    at: Nanos,
}

impl GroupSender {
    /// Maximum octets of retained frames that a member may lag behind.
    pub const RETAINED_BYTES_MAX: usize = 4 << 20;
    /// Maximum events that a member may lag behind.
    pub const RETAINED_MAX: usize = 4_096;
    /// Maximum origins remembered.
    pub const ORIGINS_MAX: usize = 16_384;
    /// Time after which a member that acknowledges nothing while events are pending counts as stalled, in ns.
    pub const STALLED_AFTER: Nanos = 3_000_000_000;
    /// Delay until the last number is first announced, in ns. It doubles with each repeat, up to a second.
    pub const ANNOUNCED_AFTER: Nanos = 20_000_000;

    const ANNOUNCED_AFTER_MAX: Nanos = 1_000_000_000;
    /// Octets retained for members that are about to join.
    const LATEST_BYTES: usize = 512 << 10;
    const LATEST: usize = 1_024;
    const SPARE_MAX: usize = 64;

    /// Creates a group in which nothing was sent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the last event, 0 if there was none.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The number of an event. `None` if it has none or its origin is forgotten.
    #[must_use]
    pub fn number_of(&self, origin: Origin) -> Option<u64> {
        self.numbers.get(&origin).copied()
    }

    /// Whether an event admitted then is newer than all with a number. Otherwise its number may have been forgotten.
    #[must_use]
    pub const fn is_newer(&self, admitted: u64) -> bool {
        admitted >= self.newest
    }

    /// Gives an event the next number and returns it. `write` appends the frame to its buffer.
    pub fn number(&mut self, origin: Origin, admitted: u64, now: Nanos, write: impl FnOnce(u64, &mut Vec<u8>)) -> u64 {
        if self.members.is_empty() {
            // Later events may have gone over sessions.
            self.numbers.clear();
            self.origins.clear();
            self.retained.clear();
            self.octets = 0;
        }
        self.last += 1;
        self.newest = self.newest.max(admitted);
        self.numbers.insert(origin, self.last);
        self.origins.push_back(origin);
        if self.origins.len() > Self::ORIGINS_MAX
            && let Some(oldest) = self.origins.pop_front()
            && self.numbers.get(&oldest).is_some_and(|number| number + Self::ORIGINS_MAX as u64 <= self.last)
        {
            self.numbers.remove(&oldest);
        }
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        write(self.last, &mut frame);
        self.octets += frame.len();
        self.retained.push_back(Retained { frame, sent_at: now });
        self.announce = Some((now.saturating_add(Self::ANNOUNCED_AFTER), Self::ANNOUNCED_AFTER));
        self.trim();
        self.last
    }

    /// The frame of a number, if it is retained.
    #[must_use]
    pub fn frame(&self, number: u64) -> Option<&[u8]> {
        self.retained_at(number).map(|retained| retained.frame.as_slice())
    }

    /// The range of numbers with retained frames.
    #[must_use]
    pub fn numbers(&self) -> core::ops::RangeInclusive<u64> {
        self.last + 1 - self.retained.len() as u64..=self.last
    }

    fn retained_at(&self, number: u64) -> Option<&Retained> {
        let first = self.last + 1 - self.retained.len() as u64;
        self.retained.get(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// Adds a member in step from this number on, which is retained or the next.
    pub fn join(&mut self, member: u64, from: u64, now: Nanos) {
        self.members.insert(member, Progress { acknowledged: from.saturating_sub(1), at: now });
        if from <= self.last && self.announce.is_none() {
            self.announce = Some((now.saturating_add(Self::ANNOUNCED_AFTER), Self::ANNOUNCED_AFTER));
        }
    }

    /// Removes a member, which is no longer in step.
    pub fn leave(&mut self, member: u64) {
        self.members.remove(&member);
        self.trim();
    }

    /// Whether any member is in step.
    #[must_use]
    pub fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// The members that are in step.
    pub fn members(&self) -> impl Iterator<Item = u64> {
        self.members.keys().copied()
    }

    /// Notes a member's acknowledgement of all numbers up to one. No effect if the member is not in step.
    ///
    /// # Errors
    /// When the number was not sent, or is lower than one acknowledged before.
    pub fn acknowledge(&mut self, member: u64, up_to: u64, now: Nanos) -> Result<(), Violation> {
        let last = self.last;
        let Some(progress) = self.members.get_mut(&member) else { return Ok(()) };
        if up_to > last {
            return Err(Violation::NotSent { number: up_to, sent: last });
        }
        if up_to < progress.acknowledged {
            return Err(Violation::Acknowledged { number: up_to, acknowledged: progress.acknowledged });
        }
        if up_to > progress.acknowledged {
            *progress = Progress { acknowledged: up_to, at: now };
            self.trim();
        }
        Ok(())
    }

    /// The member furthest behind, if it lags more than is retained. It is to fall back before another event is numbered.
    #[must_use]
    pub fn slow_consumer(&self) -> Option<u64> {
        if self.octets <= Self::RETAINED_BYTES_MAX && self.retained.len() <= Self::RETAINED_MAX {
            return None;
        }
        let slowest = self.members.iter().min_by_key(|(_, progress)| progress.acknowledged)?;
        (slowest.1.acknowledged < self.last).then_some(*slowest.0)
    }

    /// A member that has acknowledged nothing for [`Self::STALLED_AFTER`]. It is to fall back.
    #[must_use]
    pub fn stalled(&self, now: Nanos) -> Option<u64> {
        self.members.iter().find(|(_, of)| self.stalled_at(of).is_some_and(|at| at <= now)).map(|(member, _)| *member)
    }

    fn stalled_at(&self, progress: &Progress) -> Option<Nanos> {
        let waits_since = self.retained_at(progress.acknowledged + 1)?.sent_at.max(progress.at);
        Some(waits_since.saturating_add(Self::STALLED_AFTER))
    }

    /// The last number, if its announcement is due: it was sent a while ago, and a member has not acknowledged it.
    pub fn take_announcement(&mut self, now: Nanos) -> Option<u64> {
        let (_, after) = self.announce.filter(|(at, _)| *at <= now)?;
        if !self.members.values().any(|progress| progress.acknowledged < self.last) {
            // The group is idle, and all members have the last event.
            self.announce = None;
            self.retained.clear();
            self.octets = 0;
            return None;
        }
        let after = after.saturating_mul(2).min(Self::ANNOUNCED_AFTER_MAX);
        self.announce = Some((now.saturating_add(after), after));
        Some(self.last)
    }

    /// Earliest time at which [`Self::take_announcement`] or [`Self::stalled`] may return something.
    #[must_use]
    pub fn next_due(&self) -> Option<Nanos> {
        let stalled = self.members.values().filter_map(|progress| self.stalled_at(progress));
        stalled.chain(self.announce.map(|(at, _)| at)).min()
    }

    /// Drops the frames that all members have acknowledged, except the latest.
    fn trim(&mut self) {
        let needed = self.members.values().map(|progress| progress.acknowledged).min().unwrap_or(self.last);
        while (self.octets > Self::LATEST_BYTES || self.retained.len() > Self::LATEST)
            && self.last + 1 - self.retained.len() as u64 <= needed
            && let Some(Retained { frame, .. }) = self.retained.pop_front()
        {
            self.octets -= frame.len();
            if self.spare.len() < Self::SPARE_MAX && frame.capacity() <= 2_048 {
                self.spare.push(frame);
            }
        }
    }
}

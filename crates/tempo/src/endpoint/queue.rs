//! Queued messages, in blocks of a fixed size shared by all topics.

use crate::Nanos;
use crate::wire::Content;

/// Block size in octets.
pub const BLOCK: usize = 256;

/// Marks the absence of a block.
const NONE: u16 = u16::MAX;

/// Kind of a queued message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message(Content),
    Probe { number: u32 },
}

/// A queued message, without its octets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) kind: Kind,
    pub(super) sent: Nanos,
    pub(super) priority: i16,
    /// Rank in the queue: the message's priority, if its topic uses priorities.
    pub(super) rank: i16,
    pub(super) octets: usize,
    /// First block of the next message in the queue.
    behind: u16,
}

impl Waiting {
    pub(super) const fn new(kind: Kind, sent: Nanos, priority: i16) -> Self {
        Self { kind, sent, priority, rank: priority, octets: 0, behind: NONE }
    }
}

/// One topic's queue, by priority and then arrival.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    first: u16,
    last: u16,
    messages: usize,
    /// Blocks in use, those of the message being sent included.
    blocks: usize,
}

impl Lane {
    pub(super) const fn new() -> Self {
        Self { first: NONE, last: NONE, messages: 0, blocks: 0 }
    }

    pub(super) const fn messages(&self) -> usize {
        self.messages
    }

    pub(super) const fn blocks(&self) -> usize {
        self.blocks
    }
}

/// How far a message has been sent, and the block of that position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) at: usize,
    block: u16,
}

impl Progress {
    pub(super) const fn beginning(first: u16) -> Self {
        Self { at: 0, block: first }
    }
}

/// All blocks. A message's description is stored with its first block.
#[derive(Debug)]
pub(super) struct Blocks<const N: usize> {
    octets: [[u8; BLOCK]; N],
    next: [u16; N],
    messages: [Waiting; N],
    free: u16,
    are_free: usize,
    /// Blocks from this index on were never used.
    untouched: usize,
}

impl<const N: usize> Blocks<N> {
    pub(super) const fn new() -> Self {
        const { assert!(N < NONE as usize, "blocks are numbered in 16 bits") };
        Self {
            octets: [[0; BLOCK]; N],
            next: [NONE; N],
            messages: [Waiting::new(Kind::Probe { number: 0 }, 0, 0); N],
            free: NONE,
            are_free: N,
            untouched: 0,
        }
    }

    /// Blocks that a message of this size needs.
    pub(super) const fn needed(octets: usize) -> usize {
        if octets == 0 { 1 } else { octets.div_ceil(BLOCK) }
    }

    /// Queues a message behind all that are as important, if there is room.
    pub(super) fn put(&mut self, lane: &mut Lane, message: Waiting, octets: &[u8]) -> bool {
        let needed = Self::needed(octets.len());
        if needed > self.are_free {
            return false;
        }
        let mut first = NONE;
        // From the end, so that each block finds the one behind it.
        for at in (0..needed).rev() {
            let Some(block) = self.allocate() else { return false };
            let from = at * BLOCK;
            let part = octets.get(from..octets.len().min(from + BLOCK)).unwrap_or_default();
            if let Some(place) = self.octets.get_mut(usize::from(block)).and_then(|place| place.get_mut(..part.len())) {
                place.copy_from_slice(part);
            }
            self.set_next(block, first);
            first = block;
        }
        let before = self.before(lane, message.rank);
        let behind = self.message(before).map_or(lane.first, |message| message.behind);
        if let Some(place) = self.messages.get_mut(usize::from(first)) {
            *place = Waiting { octets: octets.len(), behind, ..message };
        }
        match self.messages.get_mut(usize::from(before)) {
            Some(before) => before.behind = first,
            None => lane.first = first,
        }
        if behind == NONE {
            lane.last = first;
        }
        lane.messages += 1;
        lane.blocks += needed;
        true
    }

    /// Takes the first message out of a topic's queue; its blocks stay until it is [released](Self::release).
    pub(super) fn take(&mut self, lane: &mut Lane) -> Option<u16> {
        let first = lane.first;
        let behind = self.message(first)?.behind;
        lane.first = behind;
        if behind == NONE {
            lane.last = NONE;
        }
        lane.messages -= 1;
        Some(first)
    }

    /// Frees the blocks of a message that was taken out of a queue and sent.
    pub(super) fn release(&mut self, lane: &mut Lane, first: u16) {
        let mut block = first;
        while let Some(next) = self.next.get_mut(usize::from(block)) {
            let behind = core::mem::replace(next, self.free);
            self.free = block;
            self.are_free += 1;
            lane.blocks = lane.blocks.saturating_sub(1);
            block = behind;
        }
    }

    /// The message that begins in this block.
    pub(super) fn message(&self, first: u16) -> Option<&Waiting> {
        self.messages.get(usize::from(first))
    }

    /// Copies the message's octets from this position on, and returns the position reached.
    pub(super) fn copy(&self, mut from: Progress, out: &mut [u8]) -> Progress {
        let mut rest = out;
        while !rest.is_empty() {
            let within = from.at % BLOCK;
            let Some(block) = self.octets.get(usize::from(from.block)).and_then(|block| block.get(within..)) else {
                break;
            };
            let (octets, _) = block.split_at(block.len().min(rest.len()));
            let (place, behind) = rest.split_at_mut(octets.len());
            place.copy_from_slice(octets);
            rest = behind;
            from.at += octets.len();
            if from.at.is_multiple_of(BLOCK) {
                from.block = self.next.get(usize::from(from.block)).copied().unwrap_or(NONE);
            }
        }
        from
    }

    /// The queued message behind which one of this rank belongs, usually the last.
    fn before(&self, lane: &Lane, rank: i16) -> u16 {
        if self.message(lane.last).is_none_or(|last| last.rank >= rank) {
            return lane.last;
        }
        let (mut before, mut at) = (NONE, lane.first);
        while let Some(message) = self.message(at).filter(|message| message.rank >= rank) {
            (before, at) = (at, message.behind);
        }
        before
    }

    fn allocate(&mut self) -> Option<u16> {
        let block = match self.next.get(usize::from(self.free)) {
            Some(&next) => core::mem::replace(&mut self.free, next),
            None => {
                let block = u16::try_from(self.untouched).ok().filter(|_| self.untouched < N)?;
                self.untouched += 1;
                block
            }
        };
        self.are_free -= 1;
        Some(block)
    }

    fn set_next(&mut self, block: u16, next: u16) {
        if let Some(place) = self.next.get_mut(usize::from(block)) {
            *place = next;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn message(priority: i16) -> Waiting {
        Waiting::new(Kind::Message(Content::Octets), 0, priority)
    }

    fn octets(blocks: &Blocks<8>, first: u16) -> Vec<u8> {
        let mut out = vec![0; blocks.message(first).unwrap().octets];
        let half = out.len() / 2;
        let progress = blocks.copy(Progress::beginning(first), &mut out[..half]);
        assert_eq!(blocks.copy(progress, &mut out[half..]).at, out.len());
        out
    }

    #[test]
    fn messages_come_by_priority_and_then_arrival_and_whole() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut blocks = Blocks::<8>::new();
            let mut lanes = [Lane::new(), Lane::new()];
            let mut model: [Vec<(i16, Vec<u8>)>; 2] = [vec![], vec![]];
            let mut used = 0;
            for _ in 0..60 {
                let at = random.usize(0..2);
                if random.bool() {
                    let (priority, bytes) = (random.i16(-2..2), vec![random.u8(..); random.usize(0..700)]);
                    let needed = Blocks::<8>::needed(bytes.len());
                    let is_put = blocks.put(&mut lanes[at], message(priority), &bytes);
                    assert_eq!(is_put, used + needed <= 8, "seed {seed}");
                    if is_put {
                        used += needed;
                        let place = model[at].iter().position(|(other, _)| *other < priority);
                        model[at].insert(place.unwrap_or(model[at].len()), (priority, bytes));
                    }
                } else if let Some(first) = blocks.take(&mut lanes[at]) {
                    let (priority, bytes) = model[at].remove(0);
                    assert_eq!(blocks.message(first).unwrap().priority, priority, "seed {seed}");
                    assert_eq!(octets(&blocks, first), bytes, "seed {seed}");
                    blocks.release(&mut lanes[at], first);
                    used -= Blocks::<8>::needed(bytes.len());
                } else {
                    assert!(model[at].is_empty(), "seed {seed}");
                }
                assert_eq!(blocks.are_free, 8 - used, "seed {seed}");
                assert_eq!(lanes.map(|lane| lane.blocks()).iter().sum::<usize>(), used, "seed {seed}");
                assert_eq!([0, 1].map(|at| lanes[at].messages()), [0, 1].map(|at| model[at].len()), "seed {seed}");
            }
        }
    }
}

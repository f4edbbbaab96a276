//! Messages that come in fragments: a few at a time, one at most of each publisher's topic.

use crate::Nanos;
use crate::reassembly::{FragmentResult, Reassembly, Unfit};
use crate::sequence::Sequence;
use crate::wire::Fragment;

/// A message of which nothing came for so long gives way to another one.
const GIVES_WAY_AFTER: Nanos = 100_000_000;

/// Fragments of a message, at most: 1,024.
const MARKS: usize = 16;

#[derive(Debug)]
struct Slot<const MESSAGE: usize> {
    message: Reassembly<[u8; MESSAGE], [u64; MARKS]>,
    last_came: Nanos,
}

impl<const MESSAGE: usize> Slot<MESSAGE> {
    const fn new() -> Self {
        Self { message: Reassembly::new([0; MESSAGE], [0; MARKS]), last_came: 0 }
    }
}

#[derive(Debug)]
pub(super) struct Unfinished<const MESSAGE: usize, const N: usize> {
    /// Which entry among the peers has which slot. Beside the slots, since it is looked at with each message, and they are far apart.
    peers: [Option<usize>; N],
    slots: [Slot<MESSAGE>; N],
}

impl<const MESSAGE: usize, const N: usize> Unfinished<MESSAGE, N> {
    pub(super) const fn new() -> Self {
        Self { peers: [None; N], slots: [const { Slot::new() }; N] }
    }

    /// The number of a peer's message of which fragments have come.
    pub(super) fn number(&self, peer: usize) -> Option<u32> {
        self.slots.get(self.slot_of(peer)?)?.message.number()
    }

    /// A fragment has come. Counts one up for each message that is released for it.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        peer: usize,
        number: u32,
        fragment: Fragment,
        octets: &[u8],
        discarded: &mut u64,
    ) -> Result<FragmentResult, Unfit> {
        if usize::try_from(fragment.total).is_ok_and(|total| total > MESSAGE) {
            return Err(Unfit::TooLarge);
        }
        let at = self.place(now, peer).ok_or(Unfit::NoRoom)?;
        let slot = self.slots.get_mut(at).ok_or(Unfit::NoRoom)?;
        let owner = self.peers.get_mut(at).ok_or(Unfit::NoRoom)?;
        if *owner != Some(peer) || slot.message.number() != Some(number) {
            *discarded += u64::from(slot.message.clear());
        }
        slot.last_came = now;
        let result = slot.message.take(number, fragment, octets);
        *owner = slot.message.number().map(|_| peer);
        result
    }

    /// A peer's message that is complete.
    pub(super) fn message(&self, peer: usize) -> &[u8] {
        self.slot_of(peer).and_then(|at| self.slots.get(at)).map_or(&[], |slot| slot.message.message())
    }

    /// Another message of a peer is handed on, or this one: it is released if it is not later. Says whether it was unfinished.
    pub(super) fn release_overtaken(&mut self, peer: usize, by: &Sequence) -> bool {
        self.number(peer).is_some_and(|begun| by.has_overtaken(begun)) && self.release(peer)
    }

    /// A peer is gone: says whether a message of it was unfinished.
    pub(super) fn release(&mut self, peer: usize) -> bool {
        let Some(at) = self.slot_of(peer) else { return false };
        if let Some(owner) = self.peers.get_mut(at) {
            *owner = None;
        }
        self.slots.get_mut(at).is_some_and(|slot| slot.message.clear())
    }

    fn slot_of(&self, peer: usize) -> Option<usize> {
        self.peers.iter().position(|owner| *owner == Some(peer))
    }

    /// Where the slot is that a peer has, or may have.
    fn place(&self, now: Nanos, peer: usize) -> Option<usize> {
        let free = || self.peers.iter().position(Option::is_none);
        let oldest = || {
            let (at, slot) = self.slots.iter().enumerate().min_by_key(|(_, slot)| slot.last_came)?;
            (now.saturating_sub(slot.last_came) >= GIVES_WAY_AFTER).then_some(at)
        };
        self.slot_of(peer).or_else(free).or_else(oldest)
    }
}

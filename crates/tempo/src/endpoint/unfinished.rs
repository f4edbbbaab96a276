//! Messages received in fragments: a few at a time, at most one of each publisher's topic.

use crate::Nanos;
use crate::reassembly::{FragmentResult, Reassembly, Unfit};
use crate::sequence::Sequence;
use crate::wire::Fragment;

/// Time without a fragment after which a message may be discarded for another one.
const GIVES_WAY_AFTER: Nanos = 100_000_000;

/// Words of marks for a message's fragments, at most 1,024.
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
    /// The peer of each slot. Apart from the slots, which are large, because it is searched for each message.
    peers: [Option<usize>; N],
    slots: [Slot<MESSAGE>; N],
}

impl<const MESSAGE: usize, const N: usize> Unfinished<MESSAGE, N> {
    pub(super) const fn new() -> Self {
        Self { peers: [None; N], slots: [const { Slot::new() }; N] }
    }

    /// The number of a peer's unfinished message.
    pub(super) fn number(&self, peer: usize) -> Option<u32> {
        self.slots.get(self.slot_of(peer)?)?.message.number()
    }

    /// Adds a fragment. Counts one up for each message that is released for it.
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

    /// A peer's complete message.
    pub(super) fn message(&self, peer: usize) -> &[u8] {
        self.slot_of(peer).and_then(|at| self.slots.get(at)).map_or(&[], |slot| slot.message.message())
    }

    /// Releases a peer's message once it is handed on or overtaken. Returns whether it was unfinished.
    pub(super) fn release_overtaken(&mut self, peer: usize, by: &Sequence) -> bool {
        self.number(peer).is_some_and(|begun| by.has_overtaken(begun)) && self.release(peer)
    }

    /// Releases the message of a peer that is gone; returns whether it was unfinished.
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

    /// Index of the slot that a peer has, or may take.
    fn place(&self, now: Nanos, peer: usize) -> Option<usize> {
        let free = || self.peers.iter().position(Option::is_none);
        let oldest = || {
            let (at, slot) = self.slots.iter().enumerate().min_by_key(|(_, slot)| slot.last_came)?;
            (now.saturating_sub(slot.last_came) >= GIVES_WAY_AFTER).then_some(at)
        };
        self.slot_of(peer).or_else(free).or_else(oldest)
    }
}

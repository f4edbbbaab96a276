//! Messages that come in fragments: a few at a time, one at most of each publisher's topic.

use crate::Nanos;
use crate::reassembly::{FragmentResult, Reassembly, Unfit};
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

/// What became of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The message is complete: it is in this slot.
    Complete(usize),
    Incomplete,
    Repeated,
    /// A later message of the publisher has been begun.
    Late,
    Unfit(Unfit),
    /// All slots are taken.
    Refused,
}

impl<const MESSAGE: usize, const N: usize> Unfinished<MESSAGE, N> {
    pub(super) const fn new() -> Self {
        Self { peers: [None; N], slots: [const { Slot::new() }; N] }
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
    ) -> Outcome {
        if usize::try_from(fragment.total).is_ok_and(|total| total > MESSAGE) {
            return Outcome::Unfit(Unfit::TooLarge);
        }
        let Some(at) = self.place(now, peer) else { return Outcome::Refused };
        let (Some(slot), Some(owner)) = (self.slots.get_mut(at), self.peers.get_mut(at)) else {
            return Outcome::Refused;
        };
        if *owner != Some(peer) {
            *discarded += u64::from(slot.message.clear());
            *owner = Some(peer);
        }
        match slot.message.number() {
            Some(before) if before != number => {
                if number.wrapping_sub(before) >= 1 << 31 {
                    return Outcome::Late;
                }
                *discarded += u64::from(slot.message.clear());
            }
            _ => {}
        }
        slot.last_came = now;
        match slot.message.take(number, fragment, octets) {
            Ok(FragmentResult::Incomplete) => Outcome::Incomplete,
            Ok(FragmentResult::Repeated) => Outcome::Repeated,
            Ok(FragmentResult::Complete) => Outcome::Complete(at),
            Err(unfit) => {
                if slot.message.number().is_none() {
                    *owner = None;
                }
                Outcome::Unfit(unfit)
            }
        }
    }

    /// A message that is complete.
    pub(super) fn message(&self, at: usize) -> &[u8] {
        self.slots.get(at).map_or(&[], |slot| slot.message.message())
    }

    /// A message of a peer is handed on: one that is not later is released. Says whether it was unfinished.
    pub(super) fn release_until(&mut self, peer: usize, number: u32) -> bool {
        let Some(at) = self.slot_of(peer) else { return false };
        let is_later = |begun: u32| (1..1 << 31).contains(&begun.wrapping_sub(number));
        match self.slots.get(at).and_then(|slot| slot.message.number()) {
            Some(begun) if is_later(begun) => false,
            _ => self.release(peer),
        }
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

//! What messages that have begun and are not complete may take together.
//!
//! Each takes memory until the rest of it has come, and a client that stalls keeps it for `limits.message_completion_ms`:
//! thousands of them could keep as many messages of the largest size. So a large message claims its size from a budget of
//! the lane's, `limits.incomplete_bytes_max`, once its header has told it. Where that is spent, the connection is not read
//! until others are complete or ended, in the order of their coming; the message's own time limit runs on, so that nobody
//! waits for ever. Small ones, up to what a buffer of the lane's holds, need no claim: they are bounded by the number of
//! connections.

use std::collections::VecDeque;

use super::buffers::READ_BYTES;
use super::slots::Token;

/// See the module.
#[derive(Debug)]
pub(super) struct Unfinished {
    claimed: usize,
    max: usize,
    waiting: VecDeque<Token>,
}

/// What one connection has of it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Claim {
    bytes: usize,
    /// It is not read, since there is no room for what has begun on it.
    pub(super) waits: bool,
}

impl Unfinished {
    pub(super) const fn new(max: usize) -> Self {
        Self { claimed: 0, max, waiting: VecDeque::new() }
    }

    /// What has begun on a connection and is not complete will take so many octets. False if it has to wait from now on.
    pub(super) fn claim(&mut self, token: Token, claim: &mut Claim, octets: usize) -> bool {
        if claim.waits {
            return true; // not from now on
        }
        // One that has something already goes on before those who have nothing.
        let is_served = octets <= READ_BYTES || claim.bytes > 0 || self.waiting.is_empty();
        if is_served && self.fit(claim, octets) {
            return true;
        }
        claim.waits = true;
        self.waiting.push_back(token);
        false
    }

    /// Who is first among those that wait, as long as some room has been given back; [`Self::admit`] says whether it is enough.
    pub(super) fn first(&self) -> Option<Token> {
        self.waiting.front().copied()
    }

    /// Whether there is room for the first that waits, which goes on then.
    pub(super) fn admit(&mut self, claim: &mut Claim, octets: usize) -> bool {
        let fits = self.fit(claim, octets);
        if fits {
            claim.waits = false;
            self.waiting.pop_front();
        }
        fits
    }

    /// The first that waits is gone.
    pub(super) fn skip(&mut self) {
        self.waiting.pop_front();
    }

    /// A connection ends or leaves the lane.
    pub(super) fn release(&mut self, claim: &mut Claim) {
        self.claimed -= claim.bytes;
        *claim = Claim::default();
    }

    fn fit(&mut self, claim: &mut Claim, octets: usize) -> bool {
        let octets = if octets <= READ_BYTES { 0 } else { octets };
        let others = self.claimed - claim.bytes;
        // Whoever is alone may have what it needs: a message is never too large for the budget as such.
        let fits = octets <= claim.bytes || others == 0 || others.saturating_add(octets) <= self.max;
        if fits {
            self.claimed = others.saturating_add(octets);
            claim.bytes = octets;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn token(number: u64) -> Token {
        Token::from_bits(number)
    }

    #[test]
    fn what_does_not_fit_waits_in_order_until_others_are_complete() {
        let mut unfinished = Unfinished::new(10 * MIB);
        let mut claims = [Claim::default(); 4];
        let [first, second, third, fourth] = &mut claims;
        assert!(unfinished.claim(token(0), first, 6 * MIB));
        assert!(!unfinished.claim(token(1), second, 6 * MIB));
        // It would fit, but it came later.
        assert!(!unfinished.claim(token(2), third, 2 * MIB));
        // Small ones are not counted.
        assert!(unfinished.claim(token(3), fourth, READ_BYTES));
        assert!(first.bytes == 6 * MIB && second.waits && third.waits && !fourth.waits);

        assert_eq!(unfinished.first(), Some(token(1)));
        assert!(!unfinished.admit(second, 6 * MIB));
        assert!(unfinished.claim(token(0), first, 0), "complete");
        assert!(unfinished.admit(second, 6 * MIB));
        assert_eq!(unfinished.first(), Some(token(2)));
        assert!(unfinished.admit(third, 2 * MIB));
        assert_eq!((unfinished.first(), unfinished.claimed), (None, 8 * MIB));
        claims.iter_mut().for_each(|claim| unfinished.release(claim));
        assert_eq!(unfinished.claimed, 0);
    }

    #[test]
    fn a_message_larger_than_the_budget_passes_when_it_is_alone() {
        let mut unfinished = Unfinished::new(MIB);
        let (mut one, mut other) = (Claim::default(), Claim::default());
        assert!(unfinished.claim(token(0), &mut one, 16 * MIB));
        assert!(!unfinished.claim(token(1), &mut other, 16 * MIB));
        unfinished.release(&mut one);
        assert!(unfinished.admit(&mut other, 16 * MIB));
    }

    #[test]
    fn what_grows_while_others_wait_may_take_what_is_left() {
        let mut unfinished = Unfinished::new(10 * MIB);
        let (mut fragments, mut other, mut waiting) = (Claim::default(), Claim::default(), Claim::default());
        assert!(unfinished.claim(token(0), &mut fragments, 2 * MIB));
        assert!(unfinished.claim(token(1), &mut other, 2 * MIB));
        assert!(!unfinished.claim(token(2), &mut waiting, 8 * MIB));
        assert!(unfinished.claim(token(0), &mut fragments, 8 * MIB));
        assert!(!unfinished.claim(token(1), &mut other, 3 * MIB));
        assert!(unfinished.claim(token(1), &mut other, 4 * MIB), "it waits already");
        assert_eq!(unfinished.claimed, 10 * MIB);
    }
}

//! Connections to clients that were lost, until everybody who waited on them has been told.
//!
//! Who is told may write to other clients and so lose the next connection: a client with many filters could have one loss told
//! within the other, as deep as it likes. So they are told one after the other, and nothing is delivered meanwhile.

use std::collections::VecDeque;

use engine::OutboxId;

use crate::doors::giop::pending::Pending;
use crate::lane::io::slots::Token;

/// One that was lost.
pub(crate) struct Loss {
    pub(crate) token: Token,
    pub(crate) why: String,
    /// Who waits for a reply on it, in the order in which the requests were sent.
    pub(crate) waiting: Vec<Pending>,
    /// Who waits for room on it.
    pub(crate) blocked: Vec<OutboxId>,
}

/// All of which not everybody has been told.
#[derive(Default)]
pub(crate) struct Losses {
    all: VecDeque<Loss>,
    is_telling: bool,
}

impl Losses {
    /// One more.
    pub(crate) fn add(&mut self, loss: Loss) {
        self.all.push_back(loss);
    }

    /// Whether somebody is being told.
    pub(crate) const fn is_telling(&self) -> bool {
        self.is_telling
    }

    /// False if somebody is being told already: whoever does that goes on until there are no more.
    pub(crate) fn begin_to_tell(&mut self) -> bool {
        !core::mem::replace(&mut self.is_telling, true)
    }

    /// The next of which to tell; at the end, nobody is being told any more.
    pub(crate) fn next(&mut self) -> Option<Loss> {
        let next = self.all.pop_front();
        self.is_telling = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(number: u64) -> Loss {
        Loss { token: Token::from_bits(number), why: String::new(), waiting: Vec::new(), blocked: Vec::new() }
    }

    #[test]
    fn what_is_lost_while_somebody_is_told_is_told_after_that_and_by_the_same() {
        let mut losses = Losses::default();
        losses.add(loss(1));
        assert!(losses.begin_to_tell());
        let told: Vec<u64> = core::iter::from_fn(|| {
            let token = losses.next()?.token;
            for number in [2, 3] {
                if token == Token::from_bits(1) {
                    losses.add(loss(number));
                    assert!(!losses.begin_to_tell(), "it is being told");
                }
            }
            Some(token.to_bits())
        })
        .collect();
        assert_eq!(told, [1, 2, 3]);
        assert!(!losses.is_telling() && losses.begin_to_tell(), "and the next time it begins anew");
    }
}

//! Requests that wait for replies on a connection, and lost connections with senders and outboxes that have yet to be notified.
//!
//! A notification may cause a write to other clients, and so the next loss: with many filters the reports would nest without bound. And a
//! client may have ten thousand consumers at one address. So the loss of a connection notifies nothing at once; notifications are made one
//! after the other, a limited number in each round.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::OutboxId;

use crate::lane::io::slots::Token;
use crate::protocols::giop::calls::{Asker, PendingCall};

/// A lost connection.
pub(crate) struct Loss {
    pub(crate) token: Token,
    pub(crate) lost: Lost,
    /// Senders of requests that wait for a reply on it.
    pub(crate) waiting: LastPending,
    /// Outboxes that wait for room on it.
    pub(crate) blocked: Vec<OutboxId>,
}

/// Reason why a connection was lost.
#[derive(Debug, Clone)]
pub(crate) struct Lost {
    /// The reason, for people.
    pub(crate) why: Arc<str>,
    /// Whether requests were sent on it: the loss was not while connecting.
    pub(crate) was_open: bool,
    /// Whether its client had made and offered it.
    pub(crate) was_accepted: bool,
}

/// A sender or an outbox to be notified of a loss.
pub(crate) enum LossRecipient {
    /// A sender that waits for a reply.
    Waiting(Pending, Lost),
    /// An outbox that waits for room on the connection.
    Blocked(OutboxId, Token, Arc<str>),
}

/// Losses that are not fully reported.
#[derive(Default)]
pub(crate) struct Losses(VecDeque<Loss>);

impl Losses {
    /// Adds a loss.
    pub(crate) fn add(&mut self, loss: Loss) {
        self.0.push_back(loss);
    }

    /// Whether all losses were reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a sender that does not wait any more for a reply on a lost connection.
    pub(crate) fn remove(&mut self, token: Token, request_id: u32) -> Option<Pending> {
        self.0.iter_mut().find(|loss| loss.token == token)?.waiting.remove(request_id)
    }

    /// The next recipient to notify: in the order of the losses, and on each connection the senders in the order of their requests, so that
    /// repeated requests keep that order.
    pub(crate) fn next(&mut self) -> Option<LossRecipient> {
        loop {
            let Loss { token, lost, waiting, blocked } = self.0.front_mut()?;
            if let Some(pending) = waiting.pop() {
                return Some(LossRecipient::Waiting(pending, lost.clone()));
            }
            if let Some(outbox) = blocked.pop() {
                return Some(LossRecipient::Blocked(outbox, *token, Arc::clone(&lost.why)));
            }
            self.0.pop_front();
        }
    }
}

/// Senders that wait for replies, by request id.
pub(crate) type PendingReplies<T = Pending> = giop::connection::PendingReplies<T>;

/// Senders that waited for replies on a connection that was lost, until they are notified.
pub(crate) type LastPending<T = Pending> = giop::connection::LastPending<T>;

/// The sender of a request, which waits for the reply.
pub(crate) enum Pending {
    /// A consumer's outbox.
    Push { outbox: OutboxId, serial: u32 },
    /// Administration.
    Call(Box<PendingCall>),
    /// The lane itself.
    Ask(Asker),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::giop::calls::Asker;
    use crate::protocols::giop::losses::PendingReplies;

    fn loss(number: u64, requests: core::ops::Range<u32>) -> Loss {
        let mut pending = PendingReplies::default();
        for request_id in requests {
            pending.insert(request_id, Pending::Ask(Asker::FilterCall(Token::from_bits(request_id.into()))));
        }
        Loss {
            token: Token::from_bits(number),
            lost: Lost { why: "".into(), was_open: true, was_accepted: false },
            waiting: pending.into_last(),
            blocked: Vec::new(),
        }
    }

    fn next_recipient(losses: &mut Losses) -> Option<u64> {
        match losses.next()? {
            LossRecipient::Waiting(Pending::Ask(Asker::FilterCall(filter_call)), _) => Some(filter_call.to_bits()),
            _ => None,
        }
    }

    /// A client with filters that were each at an address of their own had one loss reported within another; one with ten
    /// thousand consumers at one address had all of them notified in one go.
    #[test]
    fn all_that_still_wait_are_notified_one_after_the_other() {
        let mut losses = Losses::default();
        losses.add(loss(1, 10..13));
        assert_eq!(next_recipient(&mut losses), Some(10));
        // The notified one loses another connection.
        losses.add(loss(2, 10..12));
        assert!(losses.remove(Token::from_bits(1), 11).is_some());
        assert!(losses.remove(Token::from_bits(2), 12).is_none());
        let rest: Vec<u64> = core::iter::from_fn(|| next_recipient(&mut losses)).collect();
        assert_eq!((rest, losses.is_empty()), (vec![12, 10, 11], true));
    }
}

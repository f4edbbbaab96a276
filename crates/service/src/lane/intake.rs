//! Events on their way into the engine, and the acknowledgements pending for their suppliers.
//!
//! A request with several events is answered once: after there is room for each of its events, and after the remote filters on the
//! suppliers' side have answered about each. Until then its supplier's acknowledgement is *pending*. A [`Claim`] of the supplier's protocol
//! identifies it, and only the protocol knows how to answer it. A [`Refused`] says why an event was not taken; the protocol translates it.

pub(crate) mod acknowledgements;
pub(crate) mod admission;
pub(crate) mod awaiting_filter;
pub(crate) mod journal;
pub(crate) mod origins;

use std::collections::VecDeque;

use engine::{ProxyKey, Refusal, Ticket};
use hashbrown::HashMap;

use self::acknowledgements::Acknowledgements;
use self::awaiting_filter::AwaitingFilterQueues;
use self::journal::Journal;
use crate::lane::access::Permit;
use crate::lane::io::slots::{Slots, Token};
use crate::protocols::Claim;
use crate::store::journal::StoreRefusal;

/// Why an event was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Refused by the engine.
    ByEngine(Refusal),
    /// The bytes are no event of the form that they should have.
    Unreadable,
    /// The maximum number of events already waits for remote filters at this proxy.
    TooManyAwaitingFilter,
    /// The event is persistent, and the store does not have it.
    NotStored(StoreRefusal),
    /// The rules of access do not allow this event to its supplier.
    NotPermitted,
}

/// Verdict of remote filters on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterVerdict {
    Yes,
    No,
    /// A filter on which acceptance depended did not answer, or failed.
    Failed,
}

/// Receiver of an acknowledgement.
#[derive(Debug, Clone, Copy)]
enum AckRecipient {
    /// A protocol's client.
    Client(Claim),
    /// The lane that handed the event over.
    Peer(Token),
}

/// Acknowledgement that is due after a number of conditions are met.
#[derive(Debug, Clone, Copy)]
struct PendingAck {
    to: AckRecipient,
    /// Number of conditions that are not met yet.
    outstanding: u32,
    /// Refusal to send instead of an acknowledgement.
    refused: Option<Refused>,
}

/// The events of one request being taken in, one after the other.
#[derive(Clone)]
pub(crate) struct Submission {
    pub(crate) source: ProxyKey,
    claim: Claim,
    pending_ack: Option<Token>,
    refused: Option<Refused>,
    /// Priority given by the supplier.
    pub(crate) priority: Option<i16>,
    /// Event types that the supplier is limited to.
    permit: Permit,
}

impl Submission {
    pub(crate) const fn new(source: ProxyKey, claim: Claim, priority: Option<i16>) -> Self {
        Self { source, claim, pending_ack: None, refused: None, priority, permit: None }
    }

    pub(crate) const fn claim(&self) -> Claim {
        self.claim
    }

    /// Limits the submission to the event types of a permit.
    pub(crate) fn permitted(mut self, permit: Permit) -> Self {
        self.permit = permit;
        self
    }

    /// Event types that the supplier is limited to.
    #[inline]
    pub(crate) const fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Notes that an event was refused. Those after it are not looked at.
    pub(crate) const fn refuse(&mut self, why: Refused) {
        self.refused = Some(why);
    }

    /// Whether an event was not taken.
    pub(crate) const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }
}

/// Pending acknowledgements, and events that are not taken in yet.
#[derive(Default)]
pub(crate) struct Intake {
    /// Pending acknowledgements that are sent when the engine has room, by its ticket.
    blocked: HashMap<Ticket, Token>,
    pending_ack: Slots<PendingAck>,
    /// Acknowledgements that can be sent now.
    released: VecDeque<(Claim, Option<Refused>)>,
    /// Events that came through a proxy while remote filters are asked about one of its events.
    pub(crate) awaiting_filter: AwaitingFilterQueues,
    /// Events that wait for the store.
    pub(crate) journal: Journal,
    /// Acknowledgements that wait until all consumers have the event.
    pub(crate) acknowledgements: Acknowledgements,
}

impl Intake {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { journal, ..Self::default() }
    }

    /// Adds a condition to the submission's acknowledgement, which becomes pending if it is not yet.
    pub(crate) fn await_ack(&mut self, submission: &mut Submission) -> Token {
        if let Some(token) = submission.pending_ack
            && let Some(pending_ack) = self.pending_ack.get_mut(token)
        {
            pending_ack.outstanding += 1;
            return token;
        }
        // One of the conditions is that all events of the request have been looked at.
        let token = self.pending_ack.insert(PendingAck {
            to: AckRecipient::Client(submission.claim),
            outstanding: 2,
            refused: None,
        });
        submission.pending_ack = Some(token);
        token
    }

    /// Adds a condition to an acknowledgement that is pending already.
    pub(crate) fn await_more(&mut self, token: Token) {
        if let Some(pending_ack) = self.pending_ack.get_mut(token) {
            pending_ack.outstanding += 1;
        }
    }

    /// Ties a condition of an acknowledgement to a ticket: it is met when the engine says that there is room.
    pub(crate) fn block(&mut self, ticket: Ticket, pending_ack: Token) {
        self.blocked.insert(ticket, pending_ack);
    }

    /// Has another lane's event acknowledged when the engine says that there is room.
    pub(crate) fn block_for_peer(&mut self, ticket: Ticket, blocked: Token) {
        let pending_ack =
            self.pending_ack.insert(PendingAck { to: AckRecipient::Peer(blocked), outstanding: 1, refused: None });
        self.blocked.insert(ticket, pending_ack);
    }

    /// Removes the acknowledgement that is pending for a ticket, now that there is room.
    pub(crate) fn take_blocked(&mut self, ticket: Ticket) -> Option<Token> {
        self.blocked.remove(&ticket)
    }

    /// Ends a submission after all events of its request have been looked at. True if its supplier can be answered now that all were taken
    /// in, false if the answer comes later.
    ///
    /// # Errors
    /// The reason why not all of them were taken in.
    pub(crate) fn finish(&mut self, submission: &Submission) -> Result<bool, Refused> {
        let Some(token) = submission.pending_ack else { return submission.refused.map_or(Ok(true), Err) };
        if let Some(refused) = submission.refused {
            self.pending_ack.remove(token);
            return Err(refused);
        }
        let Some(pending_ack) = self.pending_ack.get_mut(token) else { return Ok(true) };
        pending_ack.outstanding -= 1;
        if pending_ack.outstanding > 0 {
            return Ok(false);
        }
        let refused = pending_ack.refused;
        self.pending_ack.remove(token);
        refused.map_or(Ok(true), Err)
    }

    /// Meets one condition of a pending acknowledgement, or refuses it. After the last condition a protocol's client is answered soon; for
    /// another lane, the token of its event that was blocked is returned.
    pub(crate) fn complete_ack(&mut self, token: Token, refused: Option<Refused>) -> Option<Token> {
        let pending_ack = self.pending_ack.get_mut(token)?;
        pending_ack.refused = refused.or(pending_ack.refused);
        pending_ack.outstanding -= 1;
        if pending_ack.outstanding > 0 {
            return None;
        }
        let PendingAck { to, refused, .. } = self.pending_ack.remove(token)?;
        match to {
            AckRecipient::Client(claim) => {
                self.release(claim, refused);
                None
            }
            AckRecipient::Peer(blocked) => Some(blocked),
        }
    }

    /// Queues an acknowledgement that can be sent.
    pub(crate) fn release(&mut self, claim: Claim, refused: Option<Refused>) {
        self.released.push_back((claim, refused));
    }

    /// The next acknowledgement to send.
    pub(crate) fn next_released(&mut self) -> Option<(Claim, Option<Refused>)> {
        self.released.pop_front()
    }

    /// Whether an acknowledgement can be sent.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{ChannelId, ProxyId};

    const SOURCE: ProxyKey = ProxyKey { channel: ChannelId(1), proxy: ProxyId(1) };

    fn submission() -> Submission {
        Submission::new(SOURCE, Claim::for_test(), None)
    }

    fn released(intake: &mut Intake) -> Vec<Option<Refused>> {
        core::iter::from_fn(|| intake.next_released()).map(|(_, refused)| refused).collect()
    }

    #[test]
    fn a_client_with_nothing_pending_is_answered_at_once() {
        let (mut intake, mut request) = (Intake::default(), submission());
        assert_eq!(intake.finish(&request), Ok(true));
        request.refuse(Refused::Unreadable);
        assert_eq!(intake.finish(&request), Err(Refused::Unreadable));
        assert!(!intake.has_released());
    }

    #[test]
    fn a_request_is_answered_once_when_all_of_its_events_have_room() {
        let (mut intake, mut request) = (Intake::default(), submission());
        let pending_ack = [intake.await_ack(&mut request), intake.await_ack(&mut request)];
        assert_eq!(intake.finish(&request), Ok(false));
        assert_eq!(intake.complete_ack(pending_ack[0], None), None);
        assert!(!intake.has_released());
        assert_eq!(intake.complete_ack(pending_ack[1], None), None);
        assert_eq!(released(&mut intake), [None]);
        assert_eq!(
            (intake.complete_ack(pending_ack[1], None), intake.has_released()),
            (None, false),
            "nothing is pending for it any more"
        );
    }

    #[test]
    fn what_comes_about_while_a_request_is_looked_at_is_not_waited_for() {
        let (mut intake, mut request) = (Intake::default(), submission());
        let pending_ack = intake.await_ack(&mut request);
        intake.complete_ack(pending_ack, None);
        assert_eq!((intake.finish(&request), intake.has_released()), (Ok(true), false));
    }

    #[test]
    fn one_refused_event_is_reported_to_its_supplier_whenever_it_is_refused() {
        let mut intake = Intake::default();
        // When one event is refused at once, no answer waits for the others any more.
        let mut early = submission();
        let pending_ack = intake.await_ack(&mut early);
        early.refuse(Refused::TooManyAwaitingFilter);
        assert_eq!(intake.finish(&early), Err(Refused::TooManyAwaitingFilter));
        assert_eq!((intake.complete_ack(pending_ack, None), intake.has_released()), (None, false));
        let mut late = submission();
        let pending_ack = [intake.await_ack(&mut late), intake.await_ack(&mut late)];
        assert_eq!(intake.finish(&late), Ok(false));
        intake.complete_ack(pending_ack[0], Some(Refused::Unreadable));
        intake.complete_ack(pending_ack[1], None);
        assert_eq!(released(&mut intake), [Some(Refused::Unreadable)]);
    }
}

//! Events on their way into the engine: their turns, and the acknowledgements that are pending for suppliers.
//!
//! A request with several events is answered once, when nothing speaks against it any more: not before there is room for each
//! of its events again, and not before the remote filters on the suppliers' side have been asked about each. Until then its
//! supplier has an acknowledgement *pending*. A [`Claim`] of the supplier's protocol identifies it; the protocol alone knows how it is
//! answered. A [`Refused`] says why an event was not taken; the protocol puts it into its own words.

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
    /// The engine does not take it.
    ByEngine(Refusal),
    /// It is not what it has to be.
    Unreadable,
    /// As many events as may wait for remote filters at its proxy.
    TooManyAwaitingFilter,
    /// It is to outlive the process, and the store does not have it.
    NotStored(StoreRefusal),
    /// The rules of access do not allow it to its supplier.
    NotPermitted,
}

/// What filters that are clients' objects say of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterVerdict {
    Yes,
    No,
    /// One that would have had to say yes did not answer, or failed.
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

/// Acknowledgement that is due when a number of things have come about.
#[derive(Debug, Clone, Copy)]
struct PendingAck {
    to: AckRecipient,
    /// How many.
    outstanding: u32,
    /// The refusal that is sent instead.
    refused: Option<Refused>,
}

/// The events of one request being taken in, one after the other.
#[derive(Clone)]
pub(crate) struct Submission {
    pub(crate) source: ProxyKey,
    claim: Claim,
    pending_ack: Option<Token>,
    refused: Option<Refused>,
    /// The priority that their supplier gave.
    pub(crate) priority: Option<i16>,
    /// What limits the event types.
    permit: Permit,
}

impl Submission {
    pub(crate) const fn new(source: ProxyKey, claim: Claim, priority: Option<i16>) -> Self {
        Self { source, claim, pending_ack: None, refused: None, priority, permit: None }
    }

    pub(crate) const fn claim(&self) -> Claim {
        self.claim
    }

    /// The same of a supplier that may supply some event types only.
    pub(crate) fn permitted(mut self, permit: Permit) -> Self {
        self.permit = permit;
        self
    }

    /// What limits the event types.
    #[inline]
    pub(crate) const fn permit(&self) -> &Permit {
        &self.permit
    }

    /// An event was not taken. Those after it are not to be looked at.
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
    /// Pending acknowledgements that go when the engine says so, by its ticket.
    blocked: HashMap<Ticket, Token>,
    pending_ack: Slots<PendingAck>,
    /// Acknowledgements that can be sent now.
    released: VecDeque<(Claim, Option<Refused>)>,
    /// Events that came through a proxy while remote filters are asked about one of its events.
    pub(crate) awaiting_filter: AwaitingFilterQueues,
    /// Events that wait for the store.
    pub(crate) journal: Journal,
    /// Answers that wait until all consumers have the event.
    pub(crate) acknowledgements: Acknowledgements,
}

impl Intake {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { journal, ..Self::default() }
    }

    /// Has an acknowledgement wait for one thing more.
    pub(crate) fn await_ack(&mut self, submission: &mut Submission) -> Token {
        if let Some(token) = submission.pending_ack
            && let Some(pending_ack) = self.pending_ack.get_mut(token)
        {
            pending_ack.outstanding += 1;
            return token;
        }
        // One of them is that all events of the request have been looked at.
        let token = self.pending_ack.insert(PendingAck {
            to: AckRecipient::Client(submission.claim),
            outstanding: 2,
            refused: None,
        });
        submission.pending_ack = Some(token);
        token
    }

    /// One thing more is to come about before what is pending already is.
    pub(crate) fn await_more(&mut self, token: Token) {
        if let Some(pending_ack) = self.pending_ack.get_mut(token) {
            pending_ack.outstanding += 1;
        }
    }

    /// It comes about when the engine says that there is room.
    pub(crate) fn block(&mut self, ticket: Ticket, pending_ack: Token) {
        self.blocked.insert(ticket, pending_ack);
    }

    /// Has another lane's event acknowledged when the engine says that there is room.
    pub(crate) fn block_for_peer(&mut self, ticket: Ticket, blocked: Token) {
        let pending_ack =
            self.pending_ack.insert(PendingAck { to: AckRecipient::Peer(blocked), outstanding: 1, refused: None });
        self.blocked.insert(ticket, pending_ack);
    }

    /// The acknowledgement pending for that, now that there is room.
    pub(crate) fn take_blocked(&mut self, ticket: Ticket) -> Option<Token> {
        self.blocked.remove(&ticket)
    }

    /// All events of a request have been looked at. True if its supplier can be answered that they were taken in, false
    /// if the answer comes later.
    ///
    /// # Errors
    /// Says why not all of them were taken in.
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

    /// One of the things has come about that an acknowledgement waits for, or an event was refused. After the last, a
    /// protocol's client is answered soon; of another lane the event is returned that was held for it.
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

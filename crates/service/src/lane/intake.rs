//! Events on their way into the engine: their turns, and the acknowledgements that suppliers are owed.
//!
//! A request with several events is answered once, when nothing speaks against it any more: not before there is room for each
//! of its events again, and not before the remote filters on the suppliers' side have been asked about each. Until then its
//! supplier is *owed* an answer. A [`Claim`] of the supplier's door identifies it; the door alone knows how it is answered. A
//! [`Refused`] says why an event was not taken; the door puts it into its protocol's words.

pub(crate) mod acknowledgements;
pub(crate) mod admission;
pub(crate) mod journal;
pub(crate) mod turns;
pub(crate) mod undecided;

use std::collections::VecDeque;

use engine::{ProxyKey, Refusal, Ticket};
use hashbrown::HashMap;

use self::acknowledgements::Acknowledgements;
use self::journal::Journal;
use self::undecided::UndecidedEvents;
use crate::doors::Claim;
use crate::lane::access::Permit;
use crate::lane::io::slots::{Slots, Token};
use crate::store::journal::Unkept;

/// Why an event was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The engine does not take it.
    ByEngine(Refusal),
    /// It is not what it has to be.
    Unreadable,
    /// As many events as may wait for remote filters at its proxy.
    TooManyUndecided,
    /// It is to outlive the process, and the store does not have it.
    NotKept(Unkept),
    /// The rules of access do not allow it to its supplier.
    NotPermitted,
}

/// What filters that are clients' objects say of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling {
    Yes,
    No,
    /// One that would have had to say yes did not answer, or failed.
    Failed,
}

/// Receiver of an acknowledgement.
#[derive(Debug, Clone, Copy)]
enum OwedTo {
    /// A door's client.
    Door(Claim),
    /// The lane that handed the event over.
    Peer(Token),
}

/// Acknowledgement that is due when a number of things have come about.
#[derive(Debug, Clone, Copy)]
struct Owed {
    to: OwedTo,
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
    owed: Option<Token>,
    refused: Option<Refused>,
    /// The priority that their supplier gave.
    pub(crate) priority: Option<i16>,
    /// What limits the event types.
    permit: Permit,
}

impl Submission {
    pub(crate) const fn new(source: ProxyKey, claim: Claim, priority: Option<i16>) -> Self {
        Self { source, claim, owed: None, refused: None, priority, permit: None }
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

/// What suppliers are owed, and events that are not taken in yet.
#[derive(Default)]
pub(crate) struct Intake {
    /// What is owed when the engine says so, by its ticket.
    held: HashMap<Ticket, Token>,
    owed: Slots<Owed>,
    /// Acknowledgements that can be sent now.
    released: VecDeque<(Claim, Option<Refused>)>,
    /// Events that came through a proxy while remote filters are asked about one of its events.
    pub(crate) undecided: UndecidedEvents,
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
    pub(crate) fn owe(&mut self, submission: &mut Submission) -> Token {
        if let Some(token) = submission.owed
            && let Some(owed) = self.owed.get_mut(token)
        {
            owed.outstanding += 1;
            return token;
        }
        // One of them is that all events of the request have been looked at.
        let token = self.owed.insert(Owed { to: OwedTo::Door(submission.claim), outstanding: 2, refused: None });
        submission.owed = Some(token);
        token
    }

    /// One thing more is to come about before what is owed already is.
    pub(crate) fn owe_more(&mut self, token: Token) {
        if let Some(owed) = self.owed.get_mut(token) {
            owed.outstanding += 1;
        }
    }

    /// It comes about when the engine says that there is room.
    pub(crate) fn hold(&mut self, ticket: Ticket, owed: Token) {
        self.held.insert(ticket, owed);
    }

    /// Has another lane's event acknowledged when the engine says that there is room.
    pub(crate) fn hold_for_peer(&mut self, ticket: Ticket, held: Token) {
        let owed = self.owed.insert(Owed { to: OwedTo::Peer(held), outstanding: 1, refused: None });
        self.held.insert(ticket, owed);
    }

    /// What is owed for that, now that there is room.
    pub(crate) fn take_held(&mut self, ticket: Ticket) -> Option<Token> {
        self.held.remove(&ticket)
    }

    /// All events of a request have been looked at. True if its supplier can be answered that they were taken in, false
    /// if the answer comes later.
    ///
    /// # Errors
    /// Says why not all of them were taken in.
    pub(crate) fn finish(&mut self, submission: &Submission) -> Result<bool, Refused> {
        let Some(token) = submission.owed else { return submission.refused.map_or(Ok(true), Err) };
        if let Some(refused) = submission.refused {
            self.owed.remove(token);
            return Err(refused);
        }
        let Some(owed) = self.owed.get_mut(token) else { return Ok(true) };
        owed.outstanding -= 1;
        if owed.outstanding > 0 {
            return Ok(false);
        }
        let refused = owed.refused;
        self.owed.remove(token);
        refused.map_or(Ok(true), Err)
    }

    /// One of the things has come about that an acknowledgement waits for, or an event was refused. After the last, a
    /// door's client is answered soon; of another lane the event is returned that was held for it.
    pub(crate) fn pay(&mut self, token: Token, refused: Option<Refused>) -> Option<Token> {
        let owed = self.owed.get_mut(token)?;
        owed.refused = refused.or(owed.refused);
        owed.outstanding -= 1;
        if owed.outstanding > 0 {
            return None;
        }
        let Owed { to, refused, .. } = self.owed.remove(token)?;
        match to {
            OwedTo::Door(claim) => {
                self.release(claim, refused);
                None
            }
            OwedTo::Peer(held) => Some(held),
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
    fn who_is_owed_nothing_is_answered_at_once() {
        let (mut intake, mut request) = (Intake::default(), submission());
        assert_eq!(intake.finish(&request), Ok(true));
        request.refuse(Refused::Unreadable);
        assert_eq!(intake.finish(&request), Err(Refused::Unreadable));
        assert!(!intake.has_released());
    }

    #[test]
    fn a_request_is_answered_once_when_all_of_its_events_have_room() {
        let (mut intake, mut request) = (Intake::default(), submission());
        let owed = [intake.owe(&mut request), intake.owe(&mut request)];
        assert_eq!(intake.finish(&request), Ok(false));
        assert_eq!(intake.pay(owed[0], None), None);
        assert!(!intake.has_released());
        assert_eq!(intake.pay(owed[1], None), None);
        assert_eq!(released(&mut intake), [None]);
        assert_eq!((intake.pay(owed[1], None), intake.has_released()), (None, false), "it is owed nothing any more");
    }

    #[test]
    fn what_comes_about_while_a_request_is_looked_at_is_not_waited_for() {
        let (mut intake, mut request) = (Intake::default(), submission());
        let owed = intake.owe(&mut request);
        intake.pay(owed, None);
        assert_eq!((intake.finish(&request), intake.has_released()), (Ok(true), false));
    }

    #[test]
    fn one_refused_event_is_what_its_supplier_is_told_whenever_it_is_refused() {
        let mut intake = Intake::default();
        // When one event is refused at once, no answer waits for the others any more.
        let mut early = submission();
        let owed = intake.owe(&mut early);
        early.refuse(Refused::TooManyUndecided);
        assert_eq!(intake.finish(&early), Err(Refused::TooManyUndecided));
        assert_eq!((intake.pay(owed, None), intake.has_released()), (None, false));
        let mut late = submission();
        let owed = [intake.owe(&mut late), intake.owe(&mut late)];
        assert_eq!(intake.finish(&late), Ok(false));
        intake.pay(owed[0], Some(Refused::Unreadable));
        intake.pay(owed[1], None);
        assert_eq!(released(&mut intake), [Some(Refused::Unreadable)]);
    }
}

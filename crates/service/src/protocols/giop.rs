//! Where lanes meet CORBA clients.
//!
//! What an event meets on its way through, in order: [`incoming`] (bytes become messages), [`push`] (a push is recognised),
//! [`crate::lane::intake`] (it becomes the engine's), [`delivery`] (what the engine says is due is written for the consumers), and
//! back: [`outgoing`] and [`replies`]. Events that are pulled come in by [`pull_suppliers`] and go out by [`pull_consumers`];
//! where filters of clients have a say, [`remote_filters`] asks them. Everything else that clients ask for is passed to
//! administration; [`calls`] are its own calls to clients.

pub(crate) mod admin_messages;
pub(crate) mod callers;
pub(crate) mod calls;
pub(crate) mod claims;
pub(crate) mod delivery;
pub(crate) mod foreign_pushes;
pub(crate) mod header_cache;
pub(crate) mod incoming;
pub(crate) mod large_answers;
pub(crate) mod losses;
pub(crate) mod moving;
pub(crate) mod objects;
pub(crate) mod outgoing;
pub(crate) mod outside_naming;
pub(crate) mod pull_consumers;
pub(crate) mod pull_suppliers;
pub(crate) mod push;
pub(crate) mod remote_filters;
pub(crate) mod replies;
pub(crate) mod routes;
mod statistics;
pub(crate) mod take_in;
pub(crate) mod unused;
pub(crate) mod waiting_pulls;

use core::time::Duration;
use std::collections::VecDeque;

use giop::framing;

use corba::event::{Batch, CorbaForms, UtcClock};

use self::foreign_pushes::ForeignPushes;
use self::header_cache::HeaderCache;
use self::large_answers::LargeAnswers;
use self::outgoing::{Outgoings, Resolver};
use self::pull_consumers::Due;
use self::pull_suppliers::Pullers;
use self::take_in::ChunkedBatches;
use self::waiting_pulls::WaitingPulls;
use crate::lane::clock::Clock;
use access::OutgoingPolicy;
use engine::Time;
use std::sync::Arc;

/// What this door is made with, the same for all lanes.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) framing: framing::Limits,
    /// What a request counts for at least while administration has it, in octets: many small ones are not free.
    pub(crate) request_bytes_min: u64,
    pub(crate) connect_timeout: Duration,
    /// Whether clients are called over TLS.
    pub(crate) tls: outgoing::Calls,
    /// See [`Outgoings::silence`].
    pub(crate) silence: Duration,
    /// See [`Listeners::outlive`](crate::protocols::Listeners::outlive).
    pub(crate) address_outlives: bool,
    /// Addresses at which no client is called.
    pub(crate) policy: Arc<OutgoingPolicy>,
}

/// What this door has of a lane, apart from the connections that clients made ([`callers::Clients`]).
pub(crate) struct Protocol {
    /// What was found out about the latest requests.
    pub(crate) header_cache: HeaderCache,
    /// Pushes from and to other lanes.
    pub(crate) foreign: ForeignPushes,
    /// See [`Settings::request_bytes_min`].
    request_bytes_min: u64,
    /// See [`Settings::address_outlives`].
    address_outlives: bool,
    /// Requests in administration, or on their way there, with answers that may be large.
    pub(crate) large_answers: LargeAnswers,
    pub(crate) outgoing: Outgoings,
    /// Suppliers that are asked for events.
    pub(crate) pullers: Pullers,
    /// Clients that wait for events, and what is due to those that asked for some.
    pub(crate) waiting: WaitingPulls,
    pub(crate) due: VecDeque<Due>,
    /// Where the events of a sequence lie that came in; used again.
    batch_in: Batch,
    /// Sequences of which some events have been taken in.
    pub(crate) chunked_batches: ChunkedBatches,
    /// How the events' bytes are read for filters.
    pub(crate) forms: CorbaForms,
    /// What time it is by the world's clock.
    utc: UtcClock,
    /// When it was last announced that events could not be put into what some consumers take.
    pub(crate) untranslatable_announced: Option<Time>,
    /// Where event type names are put into UTF-8; used again for each event that needs it.
    names: [String; 2],
}

impl Protocol {
    pub(crate) fn new(resolver: Resolver, settings: &Settings) -> Self {
        let Settings { framing, request_bytes_min, connect_timeout, tls, silence, address_outlives, .. } = *settings;
        let policy = Arc::clone(&settings.policy);
        Self {
            header_cache: HeaderCache::default(),
            foreign: ForeignPushes::default(),
            request_bytes_min,
            address_outlives,
            large_answers: LargeAnswers::default(),
            outgoing: Outgoings::new(resolver, outgoing::Limits { framing, connect_timeout, tls, silence }, policy),
            pullers: Pullers::default(),
            waiting: WaitingPulls::default(),
            due: VecDeque::with_capacity(64),
            batch_in: Batch::new(),
            chunked_batches: ChunkedBatches::default(),
            forms: CorbaForms::default(),
            utc: UtcClock::default(),
            untranslatable_announced: None,
            names: [String::new(), String::new()],
        }
    }

    /// What time it is now.
    #[inline]
    pub(crate) fn note_time(&mut self, clock: &Clock) {
        self.utc = UtcClock::new(clock.now, clock.since_1970);
        self.forms = CorbaForms::at(&self.utc, clock.now);
    }

    /// Whether it has something to do without a socket or a letter having to speak of it.
    pub(crate) fn goes_on(&self) -> bool {
        self.outgoing.is_due()
            || self.outgoing.have_resting()
            || !self.outgoing.losses.is_empty()
            || !self.chunked_batches.is_empty()
            || self.waiting.is_moving()
            || self.has_to_answer()
    }

    /// Whether an answer is due to a client that had to wait.
    pub(crate) fn has_to_answer(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether anything has to be looked after by the clock.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.outgoing.has_deadlines()
            || !self.outgoing.filter_calls.is_empty()
            || !self.pullers.is_empty()
            || self.large_answers.is_waiting()
    }

    /// Whether something is under way that is in no outbox, apart from what waits to be written.
    pub(crate) fn has_under_way(&self) -> bool {
        let is_waiting = !self.chunked_batches.is_empty() || !self.outgoing.filter_calls.is_empty();
        is_waiting || !self.foreign.are_quiet() || !self.due.is_empty()
    }

    /// Whether no sequence of events, loss of a connection, push of another lane or question to filters is left to be dealt with.
    /// For a lane that is to end.
    pub(crate) fn is_done(&self) -> bool {
        let are_reported = self.chunked_batches.is_empty() && self.outgoing.losses.is_empty();
        are_reported && self.foreign.serves_none() && self.outgoing.filter_calls.is_empty()
    }
}

#[cfg(test)]
mod tests;

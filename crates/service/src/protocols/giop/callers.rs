//! State of each connection that a client made.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::{LaneId, Time};
use giop::cdr::{CharSet, Version};
use giop::framing::{Inbound, Limits};
use giop::message::MessageKind;

use crate::lane::io::entrance::Arrival;
use crate::lane::io::output::Output;
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::lane::io::unfinished::{Claim, ReadingTime, Unfinished};
use crate::lane::run::Common;
use crate::protocols::giop::bidirectional::{Listing, OfferedConnection};
use crate::protocols::giop::foreign_pushes::ForeignPush;
use crate::protocols::giop::large_answers::LargeAnswerState;
use crate::protocols::giop::moving::LaneAffinity;
use crate::protocols::giop::pull_consumers::{Waiter, Written};
use accounts::{Account, Charge, Spent};
use corba::Line;

/// Maximum unanswered requests of a connection before it is not read any more: those with pending acknowledgements (the channel's budget is
/// spent) and those with administration. A client that multiplexes more waits; nothing is lost.
const UNANSWERED_MAX: u32 = 64;
/// Maximum octets of these requests and their events before the connection is not read any more, to bound them beyond a spent budget too.
const UNANSWERED_BYTES_MAX: usize = 1 << 20;
/// Maximum octets of replies that a client may leave unread before its requests are not read any more.
const REPLIES_UNREAD_MAX: usize = 1 << 20;
/// Maximum replies with pulled events that the socket has yet to take before no further requests are read: their events return to the
/// proxies at once if the client dies.
const WRITTEN_MAX: usize = 256;
/// A connection from a client.
pub(crate) struct Incoming {
    /// Input that has arrived.
    pub(crate) inbound: Inbound,
    /// The peer that sent the input, to which replies go.
    pub(crate) caller: Caller,
}

/// The peer of an [`Incoming`], apart from its input so that a message can be borrowed while it is answered.
pub(crate) struct Caller {
    pub(crate) stream: Stream,
    /// The connection's line, which shows administration that the client lives.
    pub(crate) line: Arc<Line>,
    pub(crate) address: SocketAddr,
    /// The connection's place, and its client's account.
    pub(crate) place: Charge,
    pub(crate) output: Output,
    pub(crate) speech: Speech,
    pub(crate) unanswered: Unanswered,
    pub(crate) input: Input,
    pub(crate) pulls: Pulling,
    /// The lane to which the connection's pushes belong.
    pub(crate) lane_affinity: LaneAffinity,
    /// A message that waits: a push for room on another lane, a pull for the connection to be on the main lane.
    pub(crate) parked: Option<(LaneId, Box<ForeignPush>)>,
    /// State of requests with possibly large answers.
    pub(crate) large: LargeAnswerState,
    /// Addresses that the client lists for calls over the connection.
    pub(crate) listing: Option<Box<Listing>>,
    /// The client's offer of the connection for calls to it, once it is taken up.
    pub(crate) offered: Option<Box<OfferedConnection>>,
    /// Since when the connection is closing: it is closed when its output is written.
    pub(crate) closing: Option<Time>,
    /// When the last input arrived.
    pub(crate) heard: Time,
    /// Whether events were pushed or pulled on it.
    pub(crate) uses_proxy: bool,
    pub(crate) rounds: Rounds,
}

/// Encoding of messages to a client.
pub(crate) struct Speech {
    /// Code set of narrow strings, from the code set service context.
    pub(crate) chars: CharSet,
    /// GIOP version of the client's last message.
    pub(crate) version: Version,
}

/// Number of a client's requests with pending answers, and their octets with those of their events.
#[derive(Default)]
pub(crate) struct Unanswered {
    pub(crate) requests: u32,
    pub(crate) bytes: usize,
}

/// State of a client's input, apart from the bytes.
#[derive(Default)]
pub(crate) struct Input {
    /// Clock for the time limit of incomplete messages.
    pub(crate) reading: ReadingTime,
    /// Claim of memory for incomplete messages.
    pub(crate) claim: Claim,
    /// Whether the client's stream has ended, with input that is not yet read.
    pub(crate) ended: bool,
    /// Whether it was paused, perhaps with complete messages unhandled.
    pub(crate) stalled: bool,
    /// Whether a sequence is taken in only in part: later messages wait until the rest is taken in.
    pub(crate) has_begun: bool,
    /// Whether a request comes next that waits for others to be answered, on a connection that the client has offered for calls.
    pub(crate) request_waits: bool,
}

/// State of a client's pulls.
#[derive(Default)]
pub(crate) struct Pulling {
    /// Requests that wait for events.
    pub(crate) waits: Vec<Token>,
    /// Requests with events available, set aside since the client has too much unread.
    pub(crate) set_aside: Vec<Waiter>,
    /// Replies with events that the socket has yet to take.
    pub(crate) written: VecDeque<Written>,
}

/// Connections that clients made to a lane, and work to do for them.
pub(crate) struct Clients {
    pub(crate) incoming: Slots<Incoming>,
    /// Number of open connections.
    pub(crate) open: usize,
    /// Connections that wait for room on the lane to which they move.
    pub(crate) movers: VecDeque<Token>,
    /// Time limit for a client to complete a message.
    pub(crate) message_completion: Duration,
    /// Memory for incomplete messages.
    pub(crate) unfinished: Unfinished,
}

impl Clients {
    pub(crate) fn new(common: &Common) -> Self {
        Self {
            incoming: Slots::new(),
            open: 0,
            movers: VecDeque::new(),
            message_completion: common.message_completion,
            unfinished: Unfinished::new(Arc::clone(&common.reserve)),
        }
    }

    /// Whether connections in `places` places from `from` on have unwritten output. `None` if there are no places from there on.
    pub(crate) fn has_output_at(&self, from: u32, places: u32) -> Option<bool> {
        Some(self.incoming.range(from, places)?.any(|incoming| !incoming.caller.output.is_empty()))
    }
}

impl Incoming {
    pub(crate) fn new(arrival: Arrival, limits: Limits) -> Self {
        let Arrival { stream, address, place, quota, at, .. } = arrival;
        Self {
            inbound: Inbound::new(limits),
            caller: Caller {
                stream,
                line: Arc::default(),
                address,
                place,
                output: Output::default(),
                speech: Speech { chars: CharSet::Latin1, version: Version::V1_2 },
                unanswered: Unanswered::default(),
                input: Input::default(),
                pulls: Pulling::default(),
                lane_affinity: LaneAffinity::default(),
                parked: None,
                large: LargeAnswerState::default(),
                listing: None,
                offered: None,
                closing: None,
                heard: at,
                uses_proxy: false,
                rounds: Rounds::new(quota, Interest::READ),
            },
        }
    }
}

impl Caller {
    /// Whether the client is not read for now, so that its pending work stays bounded.
    pub(crate) fn is_paused(&self) -> bool {
        self.closing.is_some()
            || self.lane_affinity.bound_for.is_some()
            || self.input.claim.waits
            || self.leaves_much_unread()
            || self.pulls.written.len() >= WRITTEN_MAX
            || self.has_enough_pending() && (self.offered.is_none() || self.input.request_waits)
    }

    /// Whether the client has the maximum of requests pending.
    fn has_enough_pending(&self) -> bool {
        self.parked.is_some()
            || self.large.has_deferred()
            || self.unanswered.requests >= UNANSWERED_MAX
            || self.unanswered.bytes > UNANSWERED_BYTES_MAX
    }

    /// Notes whether a request comes next, for which the client has to wait. On a connection over which it may be called, its replies up to
    /// there are read, or one that supplies and consumes over it could not acknowledge what makes room. The request stays in the input.
    #[inline]
    pub(crate) fn note_next(&mut self, inbound: &Inbound) {
        let is_request = || matches!(inbound.kind_ahead(), Some(MessageKind::Request | MessageKind::LocateRequest));
        self.input.request_waits = self.offered.is_some() && self.has_enough_pending() && is_request();
    }

    /// Whether the client has the maximum of unread replies.
    pub(crate) fn leaves_much_unread(&self) -> bool {
        self.output.queued_bytes() > REPLIES_UNREAD_MAX || self.large.unread.waits()
    }

    /// The account that is charged for this client.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// State of requests with possibly large answers, and the account that is charged for them.
    pub(crate) fn large(&mut self) -> (&mut LargeAnswerState, &Arc<Account>) {
        (&mut self.large, self.place.account())
    }

    /// Charges the client for its unread output.
    #[inline]
    pub(crate) fn note_unread(&mut self, now: Time) -> Result<(), Spent> {
        self.large.unread.note(self.place.account(), self.output.own_bytes(), self.output.taken(), now)
    }

    /// Releases its claim of memory for incomplete messages.
    pub(crate) fn release_room(&mut self, unfinished: &mut Unfinished) {
        unfinished.release(&mut self.input.claim, self.place.account());
    }

    pub(crate) fn release_answers(&mut self) {
        self.large.release(self.place.account());
    }

    /// Notes that a request of that size, with its event, is answered later.
    pub(crate) fn await_answer(&mut self, bytes: usize) {
        self.unanswered.requests += 1;
        self.unanswered.bytes += bytes;
    }

    /// Whether nothing is outstanding on the connection.
    pub(crate) fn can_move(&self) -> bool {
        self.unanswered.requests == 0
            && self.pulls.waits.is_empty()
            && self.pulls.written.is_empty()
            && self.closing.is_none()
            && !self.large.has_deferred()
    }

    /// Sets the address's quota on the lane to which the connection has moved.
    pub(crate) const fn set_quota(&mut self, quota: Token) {
        self.rounds.quota = quota;
    }

    /// Removes the state that belongs to this lane only.
    pub(crate) fn prepare_to_move(&mut self) {
        self.lane_affinity.arrive();
        self.input.stalled = false;
        self.rounds = Rounds::new(self.rounds.quota, Interest::READ);
    }

    pub(crate) fn note_answer(&mut self, bytes: usize) {
        self.unanswered.requests = self.unanswered.requests.saturating_sub(1);
        self.unanswered.bytes = self.unanswered.bytes.saturating_sub(bytes);
    }

    /// Removes a wait for events of one of its requests.
    pub(crate) fn forget_wait(&mut self, wait: Token) {
        if let Some(at) = self.pulls.waits.iter().position(|one| *one == wait) {
            self.pulls.waits.swap_remove(at);
        }
    }

    /// Since when the connection is idle; `None` if a request is pending, or if events are pushed or pulled on it or its client is called
    /// over it, unless `whatever_it_uses`.
    pub(crate) fn idle_since(&self, whatever_it_uses: bool) -> Option<Time> {
        let Pulling { waits, set_aside, written } = &self.pulls;
        let waits_for_events = !waits.is_empty() || !set_aside.is_empty() || !written.is_empty();
        let is_outstanding = self.unanswered.requests > 0 || !self.output.is_empty() || waits_for_events;
        let is_busy = is_outstanding || self.parked.is_some() || self.input.has_begun || self.closing.is_some();
        let carries = !whatever_it_uses && (self.uses_proxy || self.line.carries());
        (!is_busy && !carries).then_some(self.heard)
    }

    /// Has the connection closed when its output is written, or when the time limit for a message is over.
    pub(crate) fn close_soon(&mut self, now: Time) {
        self.closing = Some(now);
    }
}

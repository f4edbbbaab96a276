//! What is known of each connection that a client made to us.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::{LaneId, Time};
use giop::cdr::{CharSet, Version};
use giop::framing::{Inbound, Limits};

use crate::lane::io::entrance::Arrival;
use crate::lane::io::output::Output;
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::lane::io::unfinished::{Claim, ReadingTime, Unfinished};
use crate::lane::run::Common;
use crate::protocols::giop::foreign_pushes::ForeignPush;
use crate::protocols::giop::large_answers::LargeAnswerState;
use crate::protocols::giop::moving::LaneAffinity;
use crate::protocols::giop::pull_consumers::{Waiter, Written};
use accounts::{Account, Charge, Spent};
use corba::Line;

/// Requests a connection may have unanswered before it is not read any more: those with withheld replies (its channel's budget is
/// spent) and those that administration has yet to answer. A client that multiplexes more than this waits; nothing is lost.
const UNANSWERED_MAX: u32 = 64;
/// Bytes of those requests and events before their connection is not read any more, so that what comes on top of a spent
/// budget is bounded too.
const UNANSWERED_BYTES_MAX: usize = 1 << 20;
/// Bytes of replies that a client may leave unread before its requests are not read any more.
const REPLIES_UNREAD_MAX: usize = 1 << 20;
/// Replies with pulled events that the socket has yet to take before no further requests are read: what they hold goes back
/// to its proxies in one go if the client dies.
const WRITTEN_MAX: usize = 256;
/// A connection from a client.
pub(crate) struct Incoming {
    /// What has arrived.
    pub(crate) inbound: Inbound,
    /// The peer that sent it, to which replies go.
    pub(crate) caller: Caller,
}

/// The peer of an [`Incoming`], apart from its input so that a message can be borrowed while it is answered.
pub(crate) struct Caller {
    pub(crate) stream: Stream,
    /// What administration knows of it as a sign of life.
    pub(crate) line: Arc<Line>,
    pub(crate) address: SocketAddr,
    /// Its place among the connections, and with that its client's account.
    pub(crate) place: Charge,
    pub(crate) output: Output,
    pub(crate) speech: Speech,
    pub(crate) unanswered: Unanswered,
    pub(crate) input: Input,
    pub(crate) pulls: Pulling,
    /// Where it wants to be.
    pub(crate) lane_affinity: LaneAffinity,
    /// A message that waits: a push for another lane until there is room there, a pull until this is the main lane's.
    pub(crate) parked: Option<(LaneId, Box<ForeignPush>)>,
    /// What it has asked for, and not read, of what may be large.
    pub(crate) large: LargeAnswerState,
    /// To be closed once its output is written, since then.
    pub(crate) closing: Option<Time>,
    /// When something came from it last.
    pub(crate) heard: Time,
    /// Events were pushed or pulled on it.
    pub(crate) uses_proxy: bool,
    pub(crate) rounds: Rounds,
}

/// How a client is spoken to.
pub(crate) struct Speech {
    /// Code set of its narrow strings, from the code set service context.
    pub(crate) chars: CharSet,
    /// The version of its last message.
    pub(crate) version: Version,
}

/// Requests of a client that are to be answered later, and the bytes of them and of their events.
#[derive(Default)]
pub(crate) struct Unanswered {
    pub(crate) requests: u32,
    pub(crate) bytes: usize,
}

/// What a client sends, apart from the bytes.
#[derive(Default)]
pub(crate) struct Input {
    /// The time by which it has to send the rest of a message.
    pub(crate) reading: ReadingTime,
    /// What it has of the memory for messages that are not complete.
    pub(crate) claim: Claim,
    /// It sends nothing more, but has sent what is not read yet.
    pub(crate) ended: bool,
    /// It was paused with whole messages of it read, perhaps.
    pub(crate) stalled: bool,
    /// A sequence of its has been taken in in part: nothing behind it is looked at before the rest has been.
    pub(crate) has_begun: bool,
}

/// What a client has of pulls.
#[derive(Default)]
pub(crate) struct Pulling {
    /// Requests of its that wait for events.
    pub(crate) waits: Vec<Token>,
    /// Those of them for which there were events, but too much that it has not read.
    pub(crate) set_aside: Vec<Waiter>,
    /// Replies with events that the socket has yet to take.
    pub(crate) written: VecDeque<Written>,
}

/// The connections that clients made to a lane, and what is to be done for them.
pub(crate) struct Clients {
    pub(crate) incoming: Slots<Incoming>,
    /// How many are open.
    pub(crate) open: usize,
    /// Connections that wait for room on the lane that they have to move to.
    pub(crate) movers: VecDeque<Token>,
    /// How long a client may take to complete a message.
    pub(crate) message_completion: Duration,
    /// Messages that are not complete.
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

    /// Whether something waits to be written on the connections in so many places from one on. Nothing if there are no places
    /// from there on.
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
                closing: None,
                heard: at,
                uses_proxy: false,
                rounds: Rounds::new(quota, Interest::READ),
            },
        }
    }
}

impl Caller {
    /// Whether its requests are left unread for now, so that what is pending for it stays bounded.
    pub(crate) fn is_paused(&self) -> bool {
        self.closing.is_some()
            || self.parked.is_some()
            || self.large.has_deferred()
            || self.lane_affinity.bound_for.is_some()
            || self.input.claim.waits
            || self.unanswered.requests >= UNANSWERED_MAX
            || self.unanswered.bytes > UNANSWERED_BYTES_MAX
            || self.leaves_much_unread()
            || self.pulls.written.len() >= WRITTEN_MAX
    }

    /// Whether it has left as much unread as may be.
    pub(crate) fn leaves_much_unread(&self) -> bool {
        self.output.queued_bytes() > REPLIES_UNREAD_MAX || self.large.unread.waits()
    }

    /// The account that is charged for what it makes the service keep.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// What it has asked for of what may be large, and the account that is charged for that.
    pub(crate) fn large(&mut self) -> (&mut LargeAnswerState, &Arc<Account>) {
        (&mut self.large, self.place.account())
    }

    /// Charges what it has yet to read.
    #[inline]
    pub(crate) fn note_unread(&mut self, now: Time) -> Result<(), Spent> {
        self.large.unread.note(self.place.account(), self.output.own_bytes(), self.output.taken(), now)
    }

    /// Gives back what it has of the memory for messages that are not complete.
    pub(crate) fn release_room(&mut self, unfinished: &mut Unfinished) {
        unfinished.release(&mut self.input.claim, self.place.account());
    }

    pub(crate) fn release_answers(&mut self) {
        self.large.release(self.place.account());
    }

    /// A request of that size, event included, is to be answered later.
    pub(crate) fn await_answer(&mut self, bytes: usize) {
        self.unanswered.requests += 1;
        self.unanswered.bytes += bytes;
    }

    /// Whether nothing is outstanding on it.
    pub(crate) fn can_move(&self) -> bool {
        self.unanswered.requests == 0
            && self.pulls.waits.is_empty()
            && self.pulls.written.is_empty()
            && self.closing.is_none()
            && !self.large.has_deferred()
    }

    /// The lane that it has come to has addresses of its own.
    pub(crate) const fn set_quota(&mut self, quota: Token) {
        self.rounds.quota = quota;
    }

    /// Forgets what is of this lane only.
    pub(crate) fn prepare_to_move(&mut self) {
        self.lane_affinity.arrive();
        self.input.stalled = false;
        self.rounds = Rounds::new(self.rounds.quota, Interest::READ);
    }

    pub(crate) fn note_answer(&mut self, bytes: usize) {
        self.unanswered.requests = self.unanswered.requests.saturating_sub(1);
        self.unanswered.bytes = self.unanswered.bytes.saturating_sub(bytes);
    }

    /// One of its requests does not wait for events any more.
    pub(crate) fn forget_wait(&mut self, wait: Token) {
        if let Some(at) = self.pulls.waits.iter().position(|one| *one == wait) {
            self.pulls.waits.swap_remove(at);
        }
    }

    /// Since when nothing is asked or pending; nothing if something is, or if events pass on it, unless that does not count.
    pub(crate) fn idle_since(&self, whatever_it_uses: bool) -> Option<Time> {
        let Pulling { waits, set_aside, written } = &self.pulls;
        let waits_for_events = !waits.is_empty() || !set_aside.is_empty() || !written.is_empty();
        let is_outstanding = self.unanswered.requests > 0 || !self.output.is_empty() || waits_for_events;
        let is_busy = is_outstanding || self.parked.is_some() || self.input.has_begun || self.closing.is_some();
        let carries = self.uses_proxy && !whatever_it_uses;
        (!is_busy && !carries).then_some(self.heard)
    }

    /// Has it closed when it has taken its last bytes, or has not within the time limit for a message.
    pub(crate) fn close_soon(&mut self, now: Time) {
        self.closing = Some(now);
    }
}

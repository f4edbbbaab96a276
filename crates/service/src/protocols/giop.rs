//! The CORBA protocol of lanes.
//!
//! The path of an event, in order: [`incoming`] (bytes become messages), [`push`] (a push is recognised), [`crate::lane::intake`] (it is
//! handed to the engine), [`delivery`] (due deliveries are written for the consumers), and back: [`outgoing`] and [`replies`]. Events that
//! are pulled come in by [`pull_suppliers`] and go out by [`pull_consumers`]; [`remote_filters`] calls filters that are clients' objects.
//! All other requests are passed to administration; [`admin_calls`] are its own calls to clients.

pub(crate) mod admin_messages;
pub(crate) mod bidirectional;
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
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use giop::framing;

use corba::event::{self, Batch, CorbaForms, UtcClock};

use self::foreign_pushes::ForeignPushes;
use self::header_cache::HeaderCache;
use self::large_answers::LargeAnswers;
use self::outgoing::Outgoings;
use self::pull_consumers::Due;
use self::pull_suppliers::Pullers;
use self::take_in::ChunkedBatches;
use self::waiting_pulls::WaitingPulls;
use super::{Check, Client, Clients, CoreCheck, CoreStep, Given, NOBODY, Protocols, PutInto, Step, WireProtocol};
use crate::config::{Config, ConfigError};
use crate::lane::context::Context;
use crate::lane::intake::Refused;
use crate::lane::io::entrance::Arrival;
use crate::lane::io::net::Poll;
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Ready;
use crate::lane::run::{Common, Core, LaneEnds, Worker};
use access::OutgoingPolicy;
use engine::{Delivery, Event, Form, LaneId, OutputForm, Snapshot, Time};

/// Maximum octets that an idle connection keeps for its own use.
const OWN_BYTES: usize = 4 << 10;

/// Settings of this protocol, the same for all lanes.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) framing: framing::Limits,
    /// Minimum octets charged for a request while administration has it: many small ones are not free.
    pub(crate) request_bytes_min: u64,
    pub(crate) connect_timeout: Duration,
    /// Whether clients are called over TLS.
    pub(crate) tls: outgoing::Calls,
    /// Silence after which a connection is replaced: [`Outgoings::silence`].
    pub(crate) silence: Duration,
    /// Whether clients are called over connections that they offer: [`outgoing::Limits::bidirectional`].
    pub(crate) bidirectional: bool,
    /// Whether the listener outlives the service: [`Listeners::outlive`](crate::protocols::Listeners::outlive).
    pub(crate) address_outlives: bool,
    /// Addresses at which no client is called.
    pub(crate) policy: Arc<OutgoingPolicy>,
}

/// State of this protocol on a lane, except the connections that clients made ([`callers::Clients`]).
pub(crate) struct Protocol {
    /// Cached results of parsing the latest requests.
    pub(crate) header_cache: HeaderCache,
    /// Pushes from and to other lanes.
    pub(crate) foreign: ForeignPushes,
    /// Minimum charge for a request: [`Settings::request_bytes_min`].
    request_bytes_min: u64,
    /// Whether the listener outlives the service: [`Settings::address_outlives`].
    address_outlives: bool,
    /// Requests with possibly large answers that are with administration, or on their way there.
    pub(crate) large_answers: LargeAnswers,
    pub(crate) outgoing: Outgoings,
    /// Suppliers that are pulled from.
    pub(crate) pullers: Pullers,
    /// Clients that wait for events, and answers due to clients.
    pub(crate) waiting: WaitingPulls,
    pub(crate) due: VecDeque<Due>,
    /// Places of the events in an incoming sequence; reused.
    batch_in: Batch,
    /// Sequences with only some of their events taken in.
    pub(crate) chunked_batches: ChunkedBatches,
    /// Access of filters to the events' bytes.
    pub(crate) forms: CorbaForms,
    /// The world's clock.
    utc: UtcClock,
    /// Time of the last announcement that events could not be translated for some consumers.
    pub(crate) untranslatable_announced: Option<Time>,
    /// Buffers to convert event type names to UTF-8; reused for each event that needs it.
    names: [String; 2],
}

impl WireProtocol for Protocol {
    const NAME: &'static str = "GIOP";
    const HAS_RESERVE: bool = true;
    const MADE_ON: Option<LaneId> = None;
    type Settings = Settings;
    type Sockets = ();
    type Claim = claims::Claim;

    fn settings(given: &Given<'_>) -> Settings {
        let config = given.config;
        Settings {
            framing: framing::Limits {
                message_bytes_max: config.limits.message_bytes_max as usize,
                fragment_sets_max: config.limits.fragment_sets_max as usize,
                // A connection's own buffer is small: buffers are lent to it.
                read_bytes: OWN_BYTES,
                retained_bytes_max: OWN_BYTES,
                ..framing::Limits::default()
            },
            request_bytes_min: given.request_bytes_min,
            connect_timeout: Duration::from_millis(config.delivery.connect_timeout_ms.into()),
            tls: match &config.tls {
                tls if tls.required => outgoing::Calls::TlsOnly,
                tls if tls.ca.is_some() => outgoing::Calls::TlsWherePossible,
                _ => outgoing::Calls::Plain,
            },
            silence: Duration::from_millis(config.delivery.reply_timeout_ms.into()),
            bidirectional: config.giop.bidirectional,
            address_outlives: given.address_outlives,
            policy: Arc::clone(&given.policy),
        }
    }

    fn new(common: &Common, _ends: &mut LaneEnds, (): (), _poll: &Poll) -> io::Result<Self> {
        let settings = &common.protocols.giop;
        let Settings { framing, request_bytes_min, connect_timeout, tls, silence, bidirectional, .. } = *settings;
        let policy = Arc::clone(&settings.policy);
        Ok(Self {
            header_cache: HeaderCache::default(),
            foreign: ForeignPushes::default(),
            request_bytes_min,
            address_outlives: settings.address_outlives,
            large_answers: LargeAnswers::default(),
            outgoing: Outgoings::new(
                common.accounts.account_of(NOBODY),
                outgoing::Limits { framing, connect_timeout, tls, silence, bidirectional },
                policy,
            ),
            pullers: Pullers::default(),
            waiting: WaitingPulls::default(),
            due: VecDeque::with_capacity(64),
            batch_in: Batch::new(),
            chunked_batches: ChunkedBatches::default(),
            forms: CorbaForms::default(),
            utc: UtcClock::default(),
            untranslatable_announced: None,
            names: [String::new(), String::new()],
        })
    }

    const LISTEN_ADDRESS: fn(&Config, Layer) -> Result<Option<SocketAddr>, ConfigError> = |config, layer| match layer {
        Layer::Plain if config.tls.required => Ok(None),
        Layer::Plain => config.listen_address().map(Some),
        Layer::Tls => config.tls_listen_address(),
    };
    const LET_IN: fn(&mut Worker, Arrival) -> Option<usize> =
        |worker, arrival| worker.clients.giop.let_in_giop(arrival, &mut worker.core);
    const CLIENT: fn(&Worker, Token, bool) -> Option<Client<'_>> = |worker, token, in_reserve| {
        let caller = &worker.clients.giop.incoming.get(token)?.caller;
        let idle_since = caller.idle_since(in_reserve);
        Some(Client { address: caller.address, account: caller.account(), idle_since })
    };
    const CLOSE: fn(&mut Worker, Token) = |worker, token| worker.clients.giop.say_and_close(token, &mut worker.core);
    const SERVE: fn(&mut Worker, Ready) = |worker, ready| match ready.socket {
        Socket::Incoming(_, token) => worker.clients.giop.serve_incoming(token, ready, &mut worker.core),
        Socket::Outgoing(_, token) => worker.core.serve_outgoing(token, ready),
        _ => {}
    };
    const RESUME: fn(&mut Worker, Socket) = |worker, socket| match socket {
        Socket::Incoming(_, token) => worker.clients.giop.serve_backlog(token, &mut worker.core),
        Socket::Outgoing(_, token) => worker.core.protocols.giop.outgoing.begin_connecting(token, &mut worker.core.cx),
        _ => {}
    };
    const FLUSH: fn(&mut Worker, Token) = |worker, token| worker.clients.giop.flush_incoming(token, &mut worker.core);
    const ROUNDS: fn(&mut Worker, Socket) -> Option<&mut Rounds> = |worker, socket| {
        let rounds = match socket {
            Socket::Incoming(_, token) => &mut worker.clients.giop.incoming.get_mut(token)?.caller.rounds,
            Socket::Outgoing(_, token) => &mut worker.core.protocols.giop.outgoing.connections.get_mut(token)?.rounds,
            _ => return None,
        };
        Some(rounds)
    };
    const HAS_OUTPUT_AT: fn(&Worker, u32, u32) -> Option<bool> =
        |worker, from, places| worker.clients.giop.has_output_at(from, places);
    const RESOLVED: fn(&mut Core, Token, Result<Vec<SocketAddr>, String>) =
        |core, token, addresses| core.protocols.giop.outgoing.resolved(token, addresses, &mut core.cx);
    const SECURED: fn(&mut Core, Token, Result<Stream, String>) = |core, token, stream| {
        if core.protocols.giop.outgoing.handle_secured(token, stream, &mut core.cx) {
            core.begin_service(token);
        }
    };
    const CLOSE_ALL: Step = |worker| worker.clients.giop.close_all(&mut worker.core);

    const NOTE_TIME: CoreStep = |core| {
        let Core { cx: Context { clock, .. }, protocols: Protocols { giop, .. }, .. } = core;
        giop.utc = UtcClock::new(clock.now, clock.since_1970);
        giop.forms = CorbaForms::at(&giop.utc, clock.now);
    };
    const HANDLE_NEW_ROUTING: fn(&mut Core, &Snapshot) = |core, before| {
        core.protocols.giop.header_cache.forget();
        core.protocols.giop.place_pullers(&mut core.cx);
        core.protocols.giop.end_waits(before, &mut core.cx);
    };
    const FORGET_TYPES: CoreStep = |core| core.protocols.giop.header_cache.forget();
    const BEGIN_ROUND: Step = |worker| {
        worker.core.protocols.giop.outgoing.go_on_after_rest(&mut worker.core.cx);
    };
    const SERVE_DUE: CoreStep = |core| core.protocols.giop.serve_pullers(&mut core.cx);
    const GO_ON: Step = |worker| {
        let Worker { clients: Clients { giop: clients, .. }, core, .. } = worker;
        clients.serve_parked(core);
        clients.serve_deferred_requests(core);
        clients.serve_unfinished(core);
        core.protocols.giop.end_some_waits(&mut core.cx);
        core.tell_of_losses();
    };
    const TAKE_IN_MORE: Step = |worker| worker.clients.giop.serve_chunked_batches(&mut worker.core);
    const SWEEP: Step = |worker| {
        let Worker { clients: Clients { giop: clients, .. }, core, .. } = worker;
        core.sweep_outgoing();
        clients.send_movers_away(core);
        if clients.end_overdue(core) {
            core.cx.clock.plan_sweep();
        }
    };
    const WRITE_EVENTS: CoreStep = |core| core.protocols.giop.outgoing.flush_due(&mut core.cx);

    const IS_DUE: Check = |worker| worker.core.protocols.giop.outgoing.is_due();
    const GOES_ON: Check = |worker| {
        let Self { outgoing, chunked_batches, waiting, due, .. } = &worker.core.protocols.giop;
        outgoing.is_due()
            || outgoing.have_resting()
            || !outgoing.losses.is_empty()
            || !chunked_batches.is_empty()
            || waiting.is_moving()
            || !due.is_empty()
    };
    const HAS_TO_ANSWER: CoreCheck = |core| !core.protocols.giop.due.is_empty();
    const HAS_DEADLINES: Check = |worker| {
        let Self { outgoing, pullers, large_answers, .. } = &worker.core.protocols.giop;
        worker.clients.giop.unfinished.is_waiting()
            || outgoing.has_deadlines()
            || !outgoing.filter_calls.is_empty()
            || !pullers.is_empty()
            || large_answers.is_waiting()
    };
    const NEXT_DUE: fn(&Core) -> Option<Time> = |core| core.protocols.giop.pullers.next_due();
    const HAS_UNDER_WAY: CoreCheck = |core| {
        let Self { chunked_batches, outgoing, foreign, due, .. } = &core.protocols.giop;
        !chunked_batches.is_empty() || !outgoing.filter_calls.is_empty() || !foreign.are_quiet() || !due.is_empty()
    };
    const IS_DONE: Check = |worker| {
        let Self { chunked_batches, outgoing, foreign, .. } = &worker.core.protocols.giop;
        let are_reported = chunked_batches.is_empty() && outgoing.losses.is_empty();
        worker.clients.giop.open == 0 && are_reported && foreign.serves_none() && outgoing.filter_calls.is_empty()
    };

    const SEND: fn(&mut Core, &Delivery, &mut Vec<Arc<Event>>) =
        |core, delivery, events| core.protocols.giop.outgoing.send_push(delivery, events, &mut core.cx);
    const HAND_OVER: fn(&mut Core, Delivery, Vec<Arc<Event>>) = Core::hand_to_waiter;
    const ANSWER: fn(&mut Worker, claims::Claim, Option<Refused>) =
        |worker, claim, refused| worker.clients.giop.answer_claim(claim, refused, &mut worker.core);
    const FITS: fn(Form, u64, OutputForm) -> bool = event::fits;
    const PUT_INTO: PutInto =
        |_, _, (form, tag, bytes), to, out| event::translate(form, tag, bytes, to, out).map_err(Some);
}

#[cfg(test)]
mod tests;

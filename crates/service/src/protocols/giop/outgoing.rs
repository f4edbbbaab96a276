//! Connections that the service made to clients: pushes and calls out, replies in.
//!
//! One connection serves all consumers at the same host, port, GIOP version and code set: the code set belongs to a connection (CORBA 3.3
//! part 2, 9.7.2.6), and some ORBs settle the version with the first message. Connecting never blocks: names are looked up by the
//! resolver's thread, and messages wait meanwhile in the connection's output, bounded by the consumers' windows.
//!
//! A connection that a client made and offered for calls to it (`accepted`) is one of these, too; its socket is its maker's.

mod accepted;
mod connecting;
mod reachability;

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::{OutboxId, Time};
use giop::framing::{self, Inbound};
use hashbrown::HashMap;

pub(crate) use self::connecting::PROBE_KEY;
use self::connecting::Probe;
use self::reachability::Reachability;
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::gathered::Gathered;
use crate::lane::io::longest_idle::LongestIdle;
use crate::lane::io::net::Tcp;
use crate::lane::io::output::Output;
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::io::unread::Unread;
use crate::protocols::Tag;
use crate::protocols::giop::admin_messages;
use crate::protocols::giop::calls::{AwaitedReply, Ways};
use crate::protocols::giop::losses::{Loss, Losses, Lost, Pending, PendingReplies};
use crate::protocols::giop::remote_filters::OpenFilterCalls;
use crate::protocols::giop::routes::{Endpoint, Route, Routes, Sent};
use crate::protocols::giop::unused::{Around, Unused};
use crate::published::Published;
use access::OutgoingPolicy;
use accounts::{Account, Charge, Spent};
use corba::Peers;

/// Maximum connections written to without reading the clock.
const UNMETERED_WRITES: usize = 8;
enum State {
    /// Waiting for the addresses of a host name.
    Resolving,
    /// Waiting for its turn to connect to one of these addresses, the last one first.
    Found(Vec<SocketAddr>),
    /// Connecting to one address.
    Connecting(Tcp),
    /// Connected, and handed over for the TLS handshake.
    Shaking,
    /// Connected, and probing for a GIOP server.
    Probing(Probe),
    Open(Stream),
    /// The client made it, as this connection of the lane's, and offered it.
    Accepted(Token),
}

/// A connection to a client.
pub(crate) struct Outgoing {
    pub(crate) endpoint: Endpoint,
    /// The connection's place, charged to the account that needed it first.
    place: Charge,
    /// Whether it is over TLS.
    is_secure: bool,
    /// State in the rounds, charged to the host of the connection; until it is open, to the account that needed it first.
    pub(crate) rounds: Rounds,
    state: State,
    pub(crate) inbound: Inbound,
    pub(crate) output: Output,
    /// Output that the client has not read.
    unread: Unread,
    pub(crate) pending: PendingReplies,
    next_request: u32,
    numbers_began_anew: bool,
    sent_code_sets: bool,
    pub(crate) connect_deadline: Option<Time>,
    /// The address being tried, and those to be tried after it, the last one first.
    tried: Option<SocketAddr>,
    others: Vec<SocketAddr>,
    /// Time limit for all addresses of the host together.
    connects_until: Time,
    /// Since when replies are pending without input from the client.
    pub(crate) silent_since: Time,
    /// Outboxes that wait for room in the socket; some may not wait any more, as their routes say.
    blocked: Vec<OutboxId>,
    /// Maximum number of those that do not wait any more.
    blocked_no_more: usize,
    /// Whether its outboxes resume in the next round, and not before.
    rests: bool,
    pub(crate) usage: Usage,
}

/// Use of a connection.
#[derive(Default)]
pub(crate) struct Usage {
    pub(crate) unused_since: Option<Time>,
    /// Number of the last look that found it in use.
    pub(crate) used_in: u64,
}

impl Outgoing {
    fn new(
        endpoint: Endpoint,
        place: Charge,
        quota: Token,
        limits: framing::Limits,
        now: Time,
        timeout: Duration,
    ) -> Self {
        Self {
            endpoint,
            place,
            is_secure: false,
            rounds: Rounds::new(quota, Interest::NONE),
            state: State::Resolving,
            inbound: Inbound::new(limits),
            output: Output::default(),
            unread: Unread::default(),
            pending: PendingReplies::default(),
            next_request: 1,
            numbers_began_anew: false,
            sent_code_sets: false,
            connect_deadline: Some(now + timeout),
            tried: None,
            others: Vec::new(),
            connects_until: now + timeout,
            silent_since: now,
            blocked: Vec::new(),
            blocked_no_more: 0,
            rests: false,
            usage: Usage::default(),
        }
    }

    /// Whether replies were read but not handled. The flag is cleared.
    pub(crate) const fn take_backlog(&mut self) -> bool {
        core::mem::replace(&mut self.rounds.has_backlog, false)
    }

    fn stream(&self) -> Option<&Stream> {
        match &self.state {
            State::Open(stream) => Some(stream),
            _ => None,
        }
    }

    /// Whether connecting has begun.
    #[cfg(test)]
    pub(crate) const fn is_begun(&self) -> bool {
        matches!(self.state, State::Connecting(_) | State::Shaking | State::Probing(_) | State::Open(_))
    }

    /// Whether it is connected.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_) | State::Accepted(_))
    }

    /// Whether the client made it.
    pub(crate) const fn is_accepted(&self) -> bool {
        matches!(self.state, State::Accepted(_))
    }

    /// The socket and the input, once the connection is open.
    pub(crate) fn stream_and_inbound(&mut self) -> Option<(&mut Stream, &mut Inbound)> {
        match &mut self.state {
            State::Open(stream) => Some((stream, &mut self.inbound)),
            _ => None,
        }
    }

    /// The account that its place is charged to.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// Whether a request of that number has been sent on it.
    pub(crate) const fn has_sent(&self, request_id: u32) -> bool {
        request_id % 2 == 1 && (request_id < self.next_request || self.numbers_began_anew)
    }

    /// Since when the connection is idle; `None` if it is in use.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        (self.has_nothing_under_way() && self.stream().is_some()).then_some(self.silent_since)
    }

    /// Whether no reply is pending, no output unwritten, and no outbox waits for room.
    pub(crate) fn has_nothing_under_way(&self) -> bool {
        self.pending.is_empty() && self.output.is_empty() && self.blocked.is_empty()
    }

    /// Whether nothing more may be written before the client has read everything.
    pub(crate) const fn waits_for_reader(&self) -> bool {
        self.unread.waits()
    }

    /// Whether the socket had taken everything after the last write, and not too much was gathered since.
    pub(crate) fn has_room(&self) -> bool {
        !self.rounds.interest.write && self.is_open() && self.output.queued_bytes() < Budget::GATHERED.bytes
    }

    /// Charges the client for its unread output.
    fn note_unread(&mut self, now: Time) -> Result<(), Spent> {
        self.unread.note(self.place.account(), self.output.own_bytes(), self.output.taken(), now)
    }

    /// Charges for added output if no flush will do so: the socket is full, or not connected yet.
    pub(crate) fn note_added(&mut self, now: Time) -> Result<(), Spent> {
        if self.rounds.interest.write || !self.is_open() { self.note_unread(now) } else { Ok(()) }
    }

    /// The number of the next request, and whether it carries the code sets. On a connection that the client made, it is odd, since the
    /// client's are even (CORBA 3.3 part 2, 9.8).
    pub(crate) fn next_request(&mut self, now: Time) -> (u32, bool) {
        let request_id = self.next_request;
        let (next, is_over) = self.next_request.overflowing_add(1 + u32::from(self.is_accepted()));
        (self.next_request, self.numbers_began_anew) = (next, self.numbers_began_anew || is_over);
        let tell = self.endpoint.negotiates && !self.sent_code_sets;
        self.sent_code_sets = true;
        if self.pending.is_empty() {
            self.silent_since = now;
        }
        (request_id, tell)
    }
}

/// All connections to clients, the routes to all consumers, and all pushes, calls and remote filter calls under way. Nothing here admits an
/// event.
pub(crate) struct Outgoings {
    pub(crate) connections: Slots<Outgoing>,
    by_endpoint: HashMap<Endpoint, Token>,
    pub(crate) routes: Routes,
    pub(crate) ways: Ways,
    /// Results of the last attempts by address.
    pub(crate) reachability: Reachability,
    /// The clients of the snapshot in use.
    pub(crate) peers: Arc<Peers>,
    /// The account charged for work that no client requested.
    own: Arc<Account>,
    /// Addresses at which no client is called.
    policy: Arc<OutgoingPolicy>,
    pub(crate) limits: Limits,
    /// Administration's calls without a reply; time limits are checked while there are any.
    pub(crate) calls: HashMap<u64, AwaitedReply>,
    pub(crate) upkeep: Upkeep,
    /// Connections with gathered output, and the time of writing.
    gathered: Gathered,
    /// Connections with outboxes that resume in the next round.
    resting: VecDeque<Token>,
    /// Lost connections that are not fully reported.
    pub(crate) losses: Losses,
    /// Remote filter calls under way.
    pub(crate) filter_calls: OpenFilterCalls,
    /// Number of open connections that clients made and offered.
    accepted: u64,
    pub(crate) scratch: Scratch,
}

/// Limits of sizes and times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) framing: framing::Limits,
    pub(crate) connect_timeout: Duration,
    pub(crate) tls: Calls,
    /// Silence of a connection with pending replies after which it is replaced when a push on it is given up.
    pub(crate) silence: Duration,
    /// Whether clients are called over connections that they offer (`giop.bidirectional`).
    pub(crate) bidirectional: bool,
}

/// Use of TLS for calls to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Never.
    Plain,
    /// Use TLS if the client's reference names a port for it.
    TlsWherePossible,
    /// Use TLS; a client without such a port is not called.
    TlsOnly,
}

impl Calls {
    /// The port of an end point, and whether it is for TLS.
    ///
    /// # Errors
    /// The reason why it is not called.
    fn way_to(self, endpoint: &Endpoint) -> Result<(u16, bool), String> {
        match (self, endpoint.tls_port) {
            (Self::TlsWherePossible | Self::TlsOnly, Some(port)) => Ok((port, true)),
            (Self::TlsOnly, None) => {
                Err("its reference names no port for TLS, and nothing is called in the clear (tls.required)".into())
            }
            (Self::Plain, Some(_)) if endpoint.port == 0 => {
                Err("it is to be called over TLS, and tls.ca names no authority that is trusted for that".into())
            }
            (Self::Plain | Self::TlsWherePossible, _) => Ok((endpoint.port, false)),
        }
    }
}

/// Periodic work on connections.
#[derive(Default)]
pub(crate) struct Upkeep {
    /// Connections being made; time limits are checked while there are any.
    pub(crate) connecting: usize,
    /// Progress of the search for connections that were not made in time.
    pub(crate) connecting_at: Around,
    /// Whether some connection may have lost its last user.
    pub(crate) stale: bool,
    pub(crate) unused: Unused,
    pub(crate) longest_idle: LongestIdle,
}

/// Reusable buffers.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Outboxes that have just got room.
    pub(crate) unblocked: Vec<OutboxId>,
    /// Arguments of a call.
    pub(crate) arguments: Vec<u8>,
    /// Result of the last call.
    pub(crate) answer: admin_messages::Reply,
    /// Places of the events that could not be translated into the last sequence.
    pub(crate) left_out: Vec<u32>,
}

impl Outgoings {
    pub(crate) fn new(own: Arc<Account>, limits: Limits, policy: Arc<OutgoingPolicy>) -> Self {
        Self {
            connections: Slots::new(),
            by_endpoint: HashMap::new(),
            routes: Routes::default(),
            ways: Ways::default(),
            reachability: Reachability::default(),
            peers: Arc::default(),
            own,
            policy,
            limits,
            calls: HashMap::new(),
            upkeep: Upkeep::default(),
            gathered: Gathered::default(),
            resting: VecDeque::new(),
            losses: Losses::default(),
            filter_calls: OpenFilterCalls::default(),
            accepted: 0,
            scratch: Scratch::default(),
        }
    }

    /// Whether anything has a time limit.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.upkeep.connecting > 0 || !self.calls.is_empty() || self.upkeep.stale || self.upkeep.unused.is_looking()
    }

    /// Stops waiting for a reply, on an open connection or a lost one. Returns the sender, if it still waited.
    pub(crate) fn remove_pending(&mut self, token: Token, request_id: u32) -> Option<Pending> {
        match self.connections.get_mut(token) {
            Some(connection) => connection.pending.remove(request_id),
            None => self.losses.remove(token, request_id),
        }
    }

    /// Whether pushes on a route wait to be put back, since their connection was lost.
    pub(crate) fn awaits_loss_report(&mut self, outbox: OutboxId) -> bool {
        let Self { routes, losses, connections, .. } = self;
        let lost = |sent: &Sent| connections.get(sent.connection).is_none();
        !losses.is_empty() && routes.get_mut(outbox).is_some_and(|route| route.unanswered.iter().any(lost))
    }

    /// Takes over a publication's addresses of clients, and forgets clients that are gone.
    pub(crate) fn handle_published(&mut self, published: &Published) {
        let peers = &published.giop.peers;
        if Arc::ptr_eq(peers, &self.peers) {
            return;
        }
        let before = core::mem::replace(&mut self.peers, Arc::clone(peers));
        for gone in peers.gone_since(&before) {
            self.upkeep.stale |= self.ways.forget(gone);
            if let Some(route) = self.routes.take(gone) {
                self.forget(route);
            }
        }
    }

    /// Forgets a consumer and its unanswered pushes.
    pub(crate) fn forget(&mut self, route: Route) {
        self.upkeep.stale = true;
        if let Some(token) = route.waits_for {
            self.stop_waiting(token);
        }
        for sent in route.unanswered {
            if let Some(connection) = self.connections.get_mut(sent.connection) {
                connection.pending.remove(sent.request_id);
            }
        }
    }

    /// Notes that output was gathered for a connection. A socket that is full, or not connected yet, is written to when the poll says so.
    pub(crate) fn note_due(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.rounds.is_due || connection.rounds.interest.write {
            return;
        }
        connection.rounds.is_due = true;
        self.gathered.note_due(token);
    }

    /// Notes and counts a push that was gathered for a connection.
    pub(crate) fn note_push(&mut self, token: Token, one_way: bool, cx: &Context) {
        self.note_due(token);
        self.gathered.note_push(one_way);
        cx.counters.add(Counter::PushesSent, 1);
        let Some(connection) = self.connections.get(token) else { return };
        if !connection.rounds.interest.write && connection.output.queued_bytes() >= Budget::GATHERED.bytes {
            self.gathered.note_overfull(token);
        }
        if connection.is_accepted() {
            cx.counters.add(Counter::BidirectionalPushes, 1);
        }
    }

    /// Whether connections in `places` places from `from` on have unwritten output. `None` if there are no places from there on.
    pub(crate) fn has_output_at(&self, from: u32, places: u32) -> Option<bool> {
        let mut connections = self.connections.range(from, places)?;
        Some(connections.any(|connection| connection.is_open() && !connection.output.is_empty()))
    }

    /// Whether output was gathered.
    pub(crate) fn is_due(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Whether outboxes resume in the next round.
    pub(crate) fn have_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Has the outboxes of a connection resume in the next round.
    pub(crate) fn rest(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token)
            && !core::mem::replace(&mut connection.rests, true)
        {
            self.resting.push_back(token);
        }
    }

    /// Notes that an outbox does not wait for a connection's room any more. It stays in the list until half of the list is obsolete.
    pub(crate) fn stop_waiting(&mut self, token: Token) {
        let Self { connections, routes, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        connection.blocked_no_more += 1;
        if 2 * connection.blocked_no_more > connection.blocked.len() {
            connection.blocked_no_more = 0;
            connection
                .blocked
                .retain(|outbox| routes.get_mut(*outbox).is_some_and(|route| route.waits_for == Some(token)));
        }
    }

    /// Has a connection read again if more input has arrived than the poll reports.
    pub(crate) fn read_on(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let has_more = match &connection.state {
            State::Open(stream) => stream.has_more(),
            State::Probing(probe) => probe.has_more(),
            _ => false,
        };
        if has_more {
            cx.io.quotas.serve_later(&mut connection.rounds, Ready::to_read(Socket::Outgoing(Tag::Giop, token)));
        }
    }

    /// Defers a connection's unhandled input until its address has its turn.
    pub(crate) fn go_on_reading_later(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.rounds.has_backlog = true;
        cx.io.quotas.serve_later(&mut connection.rounds, Ready::to_read(Socket::Outgoing(Tag::Giop, token)));
    }

    /// Writes a connection's output, and watches for room if the socket does not take it all.
    pub(crate) fn flush_outgoing(&mut self, token: Token, cx: &mut Context) {
        let spares = &mut cx.io.spares;
        let Outgoings { connections, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        connection.rounds.is_due = false;
        let stream = match &mut connection.state {
            State::Open(stream) => stream,
            State::Accepted(incoming) => {
                // Once until it is written to, however many rounds its address has to wait.
                if !core::mem::replace(&mut connection.rounds.is_deferred, true) {
                    cx.io.quotas.write_first(Socket::Incoming(Tag::Giop, *incoming));
                }
                return;
            }
            _ => return,
        };
        if let Err(error) = connection.output.flush(stream, spares, usize::MAX) {
            return self.lose(token, &error.to_string(), cx);
        }
        self.note_written(token, cx);
        self.watch(token, cx);
    }

    /// Writes gathered output. A lane with topics writes short output first, so that an event does not wait behind another client's long
    /// sequence. Output for an address without quota left waits for the next round.
    pub(crate) fn flush_due(&mut self, cx: &mut Context) {
        let Outgoings { gathered, connections, .. } = self;
        if cx.lane.schedules_topics() {
            gathered.sort_by(|token| connections.get(token).map_or(0, |due| due.output.queued_bytes()));
        }
        let takes_long = cx.io.quotas.are_shared() && gathered.len() > UNMETERED_WRITES;
        let mut began = if takes_long { Some(cx.clock.time()) } else { None };
        // Connections that become due meanwhile are left out, or there might be no end.
        for _ in 0..self.gathered.len() {
            let Outgoings { gathered, connections, .. } = self;
            let Some(token) = gathered.next() else { break };
            let Some(connection) = connections.get(token).filter(|connection| connection.rounds.is_due) else {
                continue;
            };
            let quota = connection.rounds.quota;
            // One that its client made is only queued here, and metered when its socket is written.
            let is_metered = !connection.is_accepted();
            if began.is_some() && is_metered && !cx.io.quotas.may_write(quota) {
                gathered.note_due(token);
                continue;
            }
            self.flush_outgoing(token, cx);
            if let Some(began) = began.as_mut().filter(|_| is_metered) {
                let now = cx.clock.time();
                cx.io.quotas.charge_aside(quota, now.since(*began));
                *began = now;
            }
        }
        self.gathered.note_all_written();
    }

    /// Writes gathered output before the end of the round, if it is large or has waited for long.
    pub(crate) fn flush_if_much(&mut self, cx: &mut Context) {
        if let Some(token) = self.gathered.take_overfull() {
            self.flush_outgoing(token, cx);
        }
        if self.gathered.begin_look() {
            let began = cx.clock.time();
            self.flush_if_long(began, cx);
        }
    }

    /// Writes gathered output before the end of the round, if it has waited for long.
    pub(crate) fn flush_if_long(&mut self, began: Time, cx: &mut Context) {
        if self.gathered.has_waited(began, cx.clock.now) {
            self.flush_due(cx);
            let ended = cx.clock.time();
            self.gathered.note_written(began, ended);
        }
    }

    /// Charges for what a write has left of a connection's output, and resumes what waited for room on it.
    fn note_written(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let unread = connection.note_unread(cx.clock.now);
        let is_blocked = !connection.blocked.is_empty();
        cx.count_unread(unread);
        cx.release_written();
        if is_blocked {
            self.unblock_ready(token, cx);
        }
    }

    /// Resumes outboxes that waited for room on a connection, or for their withdrawn pushes to have left it.
    fn unblock_ready(&mut self, token: Token, cx: &mut Context) {
        if self.connections.get(token).is_some_and(|connection| !connection.rests) {
            self.unblock_some(token, false, cx);
        }
    }

    /// Resumes some of the outboxes that waited for a connection: any of them if it has rested, since they may not have waited for room.
    fn unblock_some(&mut self, token: Token, has_rested: bool, cx: &mut Context) {
        let Outgoings { routes, connections, scratch: Scratch { unblocked, .. }, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        let (all, taken) = (has_rested || connection.output.is_empty(), connection.output.taken());
        let may_go_on = |outbox: &mut OutboxId| {
            let has_left = |route: &mut Route| route.trouble.given_up.is_some() && !route.still_waits(token, taken);
            all || routes.get_mut(*outbox).is_none_or(has_left)
        };
        let mut blocked = core::mem::take(unblocked);
        blocked.extend(connection.blocked.extract_if(.., may_go_on).take(Budget::EVENTS.events as usize));
        connection.blocked_no_more = connection.blocked_no_more.min(connection.blocked.len());
        let are_left = all && !connection.blocked.is_empty();
        for outbox in blocked.drain(..) {
            self.unblock(outbox, token, None, cx);
        }
        self.scratch.unblocked = blocked;
        if are_left {
            self.rest(token);
        }
    }

    /// Resumes outboxes of connections that rested in the last round.
    pub(crate) fn go_on_after_rest(&mut self, cx: &mut Context) {
        for _ in 0..self.resting.len() {
            let Outgoings { resting, connections, .. } = self;
            let Some(token) = resting.pop_front() else { return };
            let Some(connection) = connections.get_mut(token) else { continue };
            connection.rests = false;
            self.unblock_some(token, true, cx);
        }
    }

    /// Updates a connection's interest in the poll.
    pub(crate) fn watch(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Open(stream) = &connection.state else { return };
        let interest = Interest { write: !connection.output.is_empty(), ..Interest::READ };
        if interest != connection.rounds.interest {
            connection.rounds.interest = interest;
            if cx.io.poll.change(stream.tcp(), Socket::Outgoing(Tag::Giop, token), interest).is_err() {
                self.lose(token, "the connection cannot be watched", cx);
            }
        }
    }

    /// Has an outbox wait until a connection has room.
    pub(crate) fn block(&mut self, outbox: OutboxId, token: Token) {
        let (Some(route), Some(connection)) = (self.routes.get_mut(outbox), self.connections.get_mut(token)) else {
            return;
        };
        if route.waits_for != Some(token) {
            route.waits_for = Some(token);
            connection.blocked.push(outbox);
        }
    }

    /// Ends an outbox's wait for a connection: there is room, or the connection was lost.
    pub(crate) fn unblock(&mut self, outbox: OutboxId, token: Token, lost: Option<&str>, cx: &mut Context) {
        let waits = |route: &&mut Route| route.waits_for == Some(token);
        let Some(route) = self.routes.get_mut(outbox).filter(waits) else { return };
        route.waits_for = None;
        route.trouble.lost = None;
        // A push that was put back is tried again, and then reported as failed, unless there is another address to try.
        let lost = lost.filter(|_| !self.aim_elsewhere(outbox, cx));
        if let (Some(why), Some(route)) = (lost, self.routes.get_mut(outbox)) {
            route.trouble.lost = Some(why.to_owned());
        }
        cx.lane.resume_outbox(outbox, cx.clock.now);
        cx.deliveries.undelivered = true;
    }

    /// Gives up an outbox's pushes, sent or waiting for room, from the one at `first` on. Returns their connections. Gathered output is
    /// still written.
    ///
    /// The consumer is not sent a CancelRequest: it need not heed one (CORBA 3.3 part 2, 9.4.4), no known ORB stops anything for it, and a
    /// thread of omniORB 4.2.5's can go round for ever when one arrives right behind its request.
    pub(crate) fn withdraw(&mut self, outbox: OutboxId, first: usize, cx: &mut Context) -> Vec<Token> {
        let mut touched = Vec::new();
        self.withdraw_filter_call(outbox, cx);
        let Outgoings { routes, connections, .. } = self;
        let Some(route) = routes.get_mut(outbox) else { return touched };
        let waited_for = route.waits_for.take();
        touched.extend(waited_for);
        for sent in route.unanswered.drain(first.min(route.unanswered.len())..) {
            let Some(connection) = connections.get_mut(sent.connection) else { continue };
            connection.pending.remove(sent.request_id);
            if !touched.contains(&sent.connection) {
                touched.push(sent.connection);
            }
        }
        if let Some(token) = waited_for {
            self.stop_waiting(token);
        }
        touched
    }

    /// Gives up a connection that its peer has ended without a message, as when a process dies: a server that closes a connection says so
    /// before (`CloseConnection`, CORBA 3.3 part 2, 9.4.7).
    pub(crate) fn lose_to_death(&mut self, token: Token, why: &str, cx: &mut Context) {
        if let Some(Outgoing { endpoint: Endpoint { host, port, .. }, .. }) = self.connections.get(token) {
            cx.reporting.reports.died(host, *port);
        }
        self.lose(token, why, cx);
    }

    /// Gives up a connection that could not be made: its address is tried after others for a while.
    pub(crate) fn fail_connecting(&mut self, token: Token, why: &str, cx: &mut Context) {
        let Outgoings { connections, reachability, .. } = self;
        if let Some(connection) = connections.get_mut(token) {
            reachability.note_failed(&connection.endpoint.host, connection.endpoint.port, cx.clock.now);
        }
        self.lose(token, why, cx);
    }

    /// Gives up a connection. All senders that wait for a reply on it are notified in this round or the next ones.
    pub(crate) fn lose(&mut self, token: Token, why: &str, cx: &mut Context) {
        let Some(mut connection) = self.connections.remove(token) else { return };
        cx.io.quotas.leave(connection.rounds.quota);
        self.upkeep.longest_idle.remove(token);
        let (was_open, was_accepted) = (connection.is_open(), connection.is_accepted());
        if let State::Accepted(incoming) = connection.state {
            self.note_accepted(-1, cx);
            // It is closed with what was being written.
            cx.io.quotas.write_first(Socket::Incoming(Tag::Giop, incoming));
        } else {
            self.by_endpoint.remove(&connection.endpoint);
        }
        if !was_open {
            self.upkeep.connecting -= 1;
            cx.counters.add(Counter::ConnectsFailed, 1);
        }
        cx.io.buffers.recover(&mut connection.inbound);
        connection.output.clear(&mut cx.io.spares);
        cx.release_written();
        cx.deliveries.undelivered = true;
        let Outgoing { pending, blocked, .. } = connection;
        let lost = Lost { why: why.into(), was_open, was_accepted };
        let loss = Loss { token, lost, waiting: pending.into_last(), blocked };
        self.losses.add(loss);
    }
}

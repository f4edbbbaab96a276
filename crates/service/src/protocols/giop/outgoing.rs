//! Connections that we made to clients: pushes and calls out, replies in.
//!
//! One connection serves all consumers at the same host, port, GIOP version and code set: the code set belongs to a
//! connection (CORBA 3.3 part 2, 9.7.2.6), and some ORBs settle the version with the first message. Connecting never
//! blocks: names are looked up by the resolver's thread, and what is due meanwhile waits in the connection's output,
//! bounded by the consumers' windows.

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
use crate::protocols::giop::losses::{Loss, Losses, Pending, PendingReplies};
use crate::protocols::giop::remote_filters::OpenFilterCalls;
use crate::protocols::giop::routes::{Endpoint, Route, Routes, Sent};
use crate::protocols::giop::unused::{Around, Unused};
use crate::published::Published;
use access::OutgoingPolicy;
use accounts::{Account, Charge, Spent};
use corba::Peers;

/// Most connections that are written to without a look at the clock.
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
    /// Connected, and asked whether a GIOP server is there.
    Probing(Probe),
    Open(Stream),
}

/// A connection to a client.
pub(crate) struct Outgoing {
    pub(crate) endpoint: Endpoint,
    /// Its place among the connections to clients, charged to the account that needed it first.
    place: Charge,
    /// Whether it is over TLS.
    is_secure: bool,
    /// Charged to the host that it leads to; until it is open, to the account that needed it first.
    pub(crate) rounds: Rounds,
    state: State,
    pub(crate) inbound: Inbound,
    pub(crate) output: Output,
    /// What of that the client has not read.
    unread: Unread,
    pub(crate) pending: PendingReplies,
    next_request: u32,
    sent_code_sets: bool,
    pub(crate) connect_deadline: Option<Time>,
    /// The address that is tried, and those that are tried after it, the last one first.
    tried: Option<SocketAddr>,
    others: Vec<SocketAddr>,
    /// Until when all addresses of its host together may be tried.
    connects_until: Time,
    /// Since when its replies have been pending without a byte from it.
    pub(crate) silent_since: Time,
    /// Outboxes that wait for room in the socket; and some that do not any more, which their routes know.
    blocked: Vec<OutboxId>,
    /// How many of these do not, at most.
    blocked_no_more: usize,
    /// Outboxes that wait for it go on in the next round, not before.
    rests: bool,
    pub(crate) usage: Usage,
}

/// Whether a connection is needed.
#[derive(Default)]
pub(crate) struct Usage {
    pub(crate) unused_since: Option<Time>,
    /// The last look through the users in which it was found to be used.
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

    /// Whether replies of it were read and not looked at. They are to be looked at now.
    pub(crate) const fn take_backlog(&mut self) -> bool {
        core::mem::replace(&mut self.rounds.has_backlog, false)
    }

    fn stream(&self) -> Option<&Stream> {
        match &self.state {
            State::Open(stream) => Some(stream),
            State::Resolving | State::Found(_) | State::Connecting(_) | State::Shaking | State::Probing(_) => None,
        }
    }

    /// Whether connecting has begun.
    #[cfg(test)]
    pub(crate) const fn is_begun(&self) -> bool {
        matches!(self.state, State::Connecting(_) | State::Shaking | State::Probing(_) | State::Open(_))
    }

    /// Whether it is connected.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The socket and what has arrived on it, once it is connected.
    pub(crate) fn stream_and_inbound(&mut self) -> Option<(&mut Stream, &mut Inbound)> {
        match &mut self.state {
            State::Open(stream) => Some((stream, &mut self.inbound)),
            State::Resolving | State::Found(_) | State::Connecting(_) | State::Shaking | State::Probing(_) => None,
        }
    }

    /// The account that its place is charged to.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// Since when nothing is under way on it, if nothing is.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        let is_idle = self.pending.is_empty() && self.output.is_empty() && self.blocked.is_empty();
        (is_idle && self.stream().is_some()).then_some(self.silent_since)
    }

    /// Whether nothing more is to be written before the client has read what was.
    pub(crate) const fn waits_for_reader(&self) -> bool {
        self.unread.waits()
    }

    /// Whether the socket had taken everything when it was last written to, and not too much was gathered since.
    pub(crate) fn has_room(&self) -> bool {
        !self.rounds.interest.write && self.stream().is_some() && self.output.queued_bytes() < Budget::GATHERED.bytes
    }

    /// Charges what is kept for the client and not read.
    fn note_unread(&mut self, now: Time) -> Result<(), Spent> {
        self.unread.note(self.place.account(), self.output.own_bytes(), self.output.taken(), now)
    }

    /// The same when something was added, where no flush will do it: the socket is full, or there is none yet.
    pub(crate) fn note_added(&mut self, now: Time) -> Result<(), Spent> {
        if self.rounds.interest.write || self.stream().is_none() { self.note_unread(now) } else { Ok(()) }
    }

    /// Numbers a request, and says whether it is the one that tells the peer about code sets.
    pub(crate) fn next_request(&mut self, now: Time) -> (u32, bool) {
        let request_id = self.next_request;
        self.next_request = self.next_request.wrapping_add(1);
        let tell = self.endpoint.negotiates && !self.sent_code_sets;
        self.sent_code_sets = true;
        if self.pending.is_empty() {
            self.silent_since = now;
        }
        (request_id, tell)
    }
}

/// All connections to clients, the ways to all consumers, and everything that is sent and awaited on them: pushes, calls, questions to
/// remote filters. Nothing here admits an event.
pub(crate) struct Outgoings {
    pub(crate) connections: Slots<Outgoing>,
    by_endpoint: HashMap<Endpoint, Token>,
    pub(crate) routes: Routes,
    pub(crate) ways: Ways,
    /// Which addresses were reached last, and which failed.
    pub(crate) reachability: Reachability,
    /// The clients of the snapshot in use.
    pub(crate) peers: Arc<Peers>,
    /// The account that is charged for what no client asked for.
    own: Arc<Account>,
    /// Addresses at which no client is called.
    policy: Arc<OutgoingPolicy>,
    pub(crate) limits: Limits,
    /// Calls of administration's without a reply: as long as there are any, deadlines run.
    pub(crate) calls: HashMap<u64, AwaitedReply>,
    pub(crate) upkeep: Upkeep,
    /// Connections for which something was gathered, and when that is written.
    gathered: Gathered,
    /// Connections for which outboxes wait that go on in the next round.
    resting: VecDeque<Token>,
    /// Connections that were lost, until that is reported.
    pub(crate) losses: Losses,
    /// Events about which remote filters are asked.
    pub(crate) filter_calls: OpenFilterCalls,
    pub(crate) scratch: Scratch,
}

/// What may be large, and what may take long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) framing: framing::Limits,
    pub(crate) connect_timeout: Duration,
    pub(crate) tls: Calls,
    /// A connection with pending replies that sends nothing for this long is replaced when a push is given up on it.
    pub(crate) silence: Duration,
}

/// Whether clients are called over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Never.
    Plain,
    /// Where their references name a port for it.
    TlsWherePossible,
    /// The same, and a client without such a port is not called.
    TlsOnly,
}

impl Calls {
    /// At which port an end point is called, and whether over TLS.
    ///
    /// # Errors
    /// Says why it is not called.
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

/// What is looked after from time to time.
#[derive(Default)]
pub(crate) struct Upkeep {
    /// Connections being made: as long as there are any, deadlines run.
    pub(crate) connecting: usize,
    /// Where connections are looked at next that may have been begun too long ago.
    pub(crate) connecting_at: Around,
    /// Some connection may have lost its last user.
    pub(crate) stale: bool,
    pub(crate) unused: Unused,
    pub(crate) longest_idle: LongestIdle,
}

/// Working space, kept for its capacity.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Outboxes that have just got room.
    pub(crate) unblocked: Vec<OutboxId>,
    /// The arguments of what is asked.
    pub(crate) arguments: Vec<u8>,
    /// The result that was heard last.
    pub(crate) answer: admin_messages::Reply,
    /// The places of the events that could not be put into the sequence that was written last.
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
            scratch: Scratch::default(),
        }
    }

    /// Whether anything has to be looked after by the clock.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.upkeep.connecting > 0 || !self.calls.is_empty() || self.upkeep.stale || self.upkeep.unused.is_looking()
    }

    /// Stops waiting for a reply, on a connection that is there or that was lost. Gives the sender that waited, if it still did.
    pub(crate) fn remove_pending(&mut self, token: Token, request_id: u32) -> Option<Pending> {
        match self.connections.get_mut(token) {
            Some(connection) => connection.pending.remove(request_id),
            None => self.losses.remove(token, request_id),
        }
    }

    /// Whether something that was pushed on a route waits to be put back, since its connection was lost.
    pub(crate) fn awaits_loss_report(&mut self, outbox: OutboxId) -> bool {
        let Self { routes, losses, connections, .. } = self;
        let lost = |sent: &Sent| connections.get(sent.connection).is_none();
        !losses.is_empty() && routes.get_mut(outbox).is_some_and(|route| route.unanswered.iter().any(lost))
    }

    /// Learns where clients are by now, and forgets those that are not there any more.
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

    /// Forgets a consumer, and what it was sent and has not answered.
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

    /// Something was gathered for a connection. A socket that is full, or not connected yet, is written to when the poll
    /// says so.
    pub(crate) fn note_due(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.rounds.is_due || connection.rounds.interest.write {
            return;
        }
        connection.rounds.is_due = true;
        self.gathered.note_due(token);
    }

    /// A push was gathered for a connection.
    pub(crate) fn note_push(&mut self, token: Token, one_way: bool) {
        self.note_due(token);
        self.gathered.note_push(one_way);
        let is_overfull = |connection: &Outgoing| {
            !connection.rounds.interest.write && connection.output.queued_bytes() >= Budget::GATHERED.bytes
        };
        if self.connections.get(token).is_some_and(is_overfull) {
            self.gathered.note_overfull(token);
        }
    }

    /// Whether something waits to be written on the connections in so many places from one on. Nothing if there are no places
    /// from there on.
    pub(crate) fn has_output_at(&self, from: u32, places: u32) -> Option<bool> {
        let mut connections = self.connections.range(from, places)?;
        Some(connections.any(|connection| connection.is_open() && !connection.output.is_empty()))
    }

    /// Whether something was gathered.
    pub(crate) fn is_due(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Whether outboxes go on in the next round.
    pub(crate) fn have_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Outboxes that wait for a connection go on in the next round.
    pub(crate) fn rest(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token)
            && !core::mem::replace(&mut connection.rests, true)
        {
            self.resting.push_back(token);
        }
    }

    /// An outbox of a connection's does not wait for room any more. It stays in the list until half of those in it do not.
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

    /// Has a connection read again of which more has arrived than a poll tells.
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

    /// What was read of a connection and not looked at waits for a turn of its address.
    pub(crate) fn go_on_reading_later(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.rounds.has_backlog = true;
        cx.io.quotas.serve_later(&mut connection.rounds, Ready::to_read(Socket::Outgoing(Tag::Giop, token)));
    }

    /// Writes what is due, and watches for room if the socket does not take it all.
    pub(crate) fn flush_outgoing(&mut self, token: Token, cx: &mut Context) {
        let spares = &mut cx.io.spares;
        let Outgoings { connections, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        connection.rounds.is_due = false;
        let State::Open(stream) = &mut connection.state else { return };
        if let Err(error) = connection.output.flush(stream, spares, usize::MAX) {
            return self.lose(token, &error.to_string(), cx);
        }
        let unread = connection.note_unread(cx.clock.now);
        let is_blocked = !connection.blocked.is_empty();
        cx.count_unread(unread);
        cx.release_written();
        if is_blocked {
            self.unblock_ready(token, cx);
        }
        self.watch(token, cx);
    }

    /// Writes what was gathered for consumers: where the lane takes turns, little before much, so that one event does not wait until
    /// another client's long sequence has been written. Output for an address that has had its quota waits for the next round.
    pub(crate) fn flush_due(&mut self, cx: &mut Context) {
        let Outgoings { gathered, connections, .. } = self;
        if cx.lane.schedules_topics() {
            gathered.sort_by(|token| connections.get(token).map_or(0, |due| due.output.queued_bytes()));
        }
        let takes_long = cx.io.quotas.are_shared() && gathered.len() > UNMETERED_WRITES;
        let mut began = if takes_long { Some(cx.clock.time()) } else { None };
        // Not those that become due meanwhile, or there might be no end.
        for _ in 0..self.gathered.len() {
            let Outgoings { gathered, connections, .. } = self;
            let Some(token) = gathered.next() else { break };
            let Some(connection) = connections.get(token).filter(|connection| connection.rounds.is_due) else {
                continue;
            };
            let quota = connection.rounds.quota;
            if began.is_some() && !cx.io.quotas.may_write(quota) {
                gathered.note_due(token);
                continue;
            }
            self.flush_outgoing(token, cx);
            if let Some(began) = &mut began {
                let now = cx.clock.time();
                cx.io.quotas.charge_aside(quota, now.since(*began));
                *began = now;
            }
        }
        self.gathered.note_all_written();
    }

    /// Writes what was gathered where that is so much, or was begun so long ago, that it is not to wait for the end of the
    /// round.
    pub(crate) fn flush_if_much(&mut self, cx: &mut Context) {
        if let Some(token) = self.gathered.take_overfull() {
            self.flush_outgoing(token, cx);
        }
        if self.gathered.begin_look() {
            let began = cx.clock.time();
            self.flush_if_long(began, cx);
        }
    }

    /// Writes what was gathered if that was begun so long ago that it is not to wait for the end of the round.
    pub(crate) fn flush_if_long(&mut self, began: Time, cx: &mut Context) {
        if self.gathered.has_waited(began, cx.clock.now) {
            self.flush_due(cx);
            let ended = cx.clock.time();
            self.gathered.note_written(began, ended);
        }
    }

    /// Resumes outboxes that waited for room on a connection that has it, or for their withdrawn pushes to have left it.
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

    /// Tells the poll what a connection waits for.
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

    /// An outbox need not wait for room any more: there is some, or the connection was lost.
    pub(crate) fn unblock(&mut self, outbox: OutboxId, token: Token, lost: Option<&str>, cx: &mut Context) {
        let waits = |route: &&mut Route| route.waits_for == Some(token);
        let Some(route) = self.routes.get_mut(outbox).filter(waits) else { return };
        route.waits_for = None;
        route.trouble.lost = None;
        // What was put back is tried once more, and then reported as failed, unless there is another address to try.
        let lost = lost.filter(|_| !self.aim_elsewhere(outbox, cx));
        if let (Some(why), Some(route)) = (lost, self.routes.get_mut(outbox)) {
            route.trouble.lost = Some(why.to_owned());
        }
        cx.lane.resume_outbox(outbox, cx.clock.now);
        cx.deliveries.undelivered = true;
    }

    /// Gives up whatever an outbox has on the way, sent or waiting for room, from the push at `first` on. Which
    /// connections it was on is said. What was gathered and not written yet goes out all the same.
    ///
    /// The consumer is not sent a CancelRequest: it need not heed one (CORBA 3.3 part 2, 9.4.4), no known ORB stops anything for
    /// it, and a thread of omniORB 4.2.5's can go round for ever when one arrives right behind its request.
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

    /// Gives a connection up that its peer has ended without a word, as the connections of a process end that dies: a server that closes
    /// one says so before (`CloseConnection`, CORBA 3.3 part 2, 9.4.7).
    pub(crate) fn lose_to_death(&mut self, token: Token, why: &str, cx: &mut Context) {
        if let Some(Outgoing { endpoint: Endpoint { host, port, .. }, .. }) = self.connections.get(token) {
            cx.reporting.reports.died(host, *port);
        }
        self.lose(token, why, cx);
    }

    /// Gives a connection up that could not be made: its address comes after others for a while.
    pub(crate) fn fail_connecting(&mut self, token: Token, why: &str, cx: &mut Context) {
        let Outgoings { connections, reachability, .. } = self;
        if let Some(connection) = connections.get_mut(token) {
            reachability.note_failed(&connection.endpoint.host, connection.endpoint.port, cx.clock.now);
        }
        self.lose(token, why, cx);
    }

    /// Gives a connection up. All senders that wait for a reply on it are notified before the round is over, or in the next ones.
    pub(crate) fn lose(&mut self, token: Token, why: &str, cx: &mut Context) {
        let Some(mut connection) = self.connections.remove(token) else { return };
        cx.io.quotas.leave(connection.rounds.quota);
        self.upkeep.longest_idle.remove(token);
        self.by_endpoint.remove(&connection.endpoint);
        let was_open = connection.stream().is_some();
        if !was_open {
            self.upkeep.connecting -= 1;
            cx.counters.add(Counter::ConnectsFailed, 1);
        }
        cx.io.buffers.recover(&mut connection.inbound);
        connection.output.clear(&mut cx.io.spares);
        cx.release_written();
        cx.deliveries.undelivered = true;
        let Outgoing { pending, blocked, .. } = connection;
        let loss = Loss { token, why: why.into(), was_open, waiting: pending.into_last(), blocked };
        self.losses.add(loss);
    }
}

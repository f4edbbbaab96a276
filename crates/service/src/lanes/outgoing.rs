//! Connections that we made to clients: pushes and calls out, replies in.
//!
//! One connection serves all consumers at the same host, port, GIOP version and code set: the code set belongs to a
//! connection (CORBA 3.3 part 2, 9.7.2.6), and some ORBs settle the version with the first message. Connecting never
//! blocks: names are looked up by the resolver's thread, and what is due meanwhile waits in the connection's output,
//! bounded by the consumers' windows.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use engine::{Event, OutboxId, Peer, ProxyKey, Time};
use giop::cdr::{CharSet, Version};
use giop::codeset;
use giop::framing::{self, Inbound};
use giop::ior::Ior;
use giop::message::{self, RequestHead, Response, ServiceContexts};
use hashbrown::{HashMap, HashSet};

use super::mail::{CallFailure, Lookup, OWN_ENDIAN, OWN_VERSION, ToAdministration};
use super::output::{Body, Output};
use super::replies::Verdict;
use super::slots::{Slots, Token};
use super::system::{self, Interest};
use super::worker::{Core, KIND_OUTGOING, datum};
use crate::corba::PeerAddress;
use crate::counters::Counter;

/// Times a request is sent on to where a `LOCATION_FORWARD` points before that is taken for a loop.
pub(crate) const FORWARDS_MAX: u8 = 8;

/// What a connection is shared by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) version: Version,
    pub(crate) chars: CharSet,
    /// Whether the peer's references say which code sets it knows; only then is it told which one is used.
    pub(crate) negotiates: bool,
}

enum State {
    /// Waiting for the address of a host name.
    Resolving,
    Connecting(TcpStream),
    Open(TcpStream),
}

/// Who waits for a reply.
pub(crate) enum Pending {
    /// A consumer's outbox.
    Push { outbox: OutboxId, serial: u32, peer: Peer },
    /// Administration.
    Call(Call),
}

/// A call of administration's, kept whole so that it can follow a forward.
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) operation: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) deadline: Time,
    pub(crate) forwards: u8,
}

/// A connection to a client.
pub(crate) struct Outgoing {
    pub(crate) endpoint: Endpoint,
    state: State,
    pub(crate) inbound: Inbound,
    pub(crate) output: Output,
    pub(crate) pending: HashMap<u32, Pending>,
    next_request: u32,
    told_code_sets: bool,
    connect_deadline: Option<Time>,
    /// One-way outboxes that wait for room in the socket.
    pub(crate) blocked: Vec<OutboxId>,
    interest: Interest,
}

impl Outgoing {
    /// The socket and what has arrived on it, once it is connected.
    pub(crate) fn stream_and_inbound(&mut self) -> Option<(&TcpStream, &mut Inbound)> {
        match &self.state {
            State::Open(stream) => Some((stream, &mut self.inbound)),
            State::Resolving | State::Connecting(_) => None,
        }
    }

    /// Sends a request header and an event's body behind it, or keeps them until the socket takes them.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn send(&mut self, head: &[u8], event: Arc<Event>, body: Body) -> io::Result<Option<Arc<Event>>> {
        let stream = match &self.state {
            State::Open(stream) => Some(stream),
            State::Resolving | State::Connecting(_) => None,
        };
        self.output.send(stream, head, event, body)
    }

    /// Numbers a request, and says whether it is the one that tells the peer about code sets.
    pub(crate) fn next_request(&mut self) -> (u32, bool) {
        let request_id = self.next_request;
        self.next_request = self.next_request.wrapping_add(1);
        let tell = self.endpoint.negotiates && !self.told_code_sets;
        self.told_code_sets = true;
        (request_id, tell)
    }
}

/// Where a consumer's pushes go.
pub(crate) struct Route {
    pub(crate) address: Arc<PeerAddress>,
    pub(crate) target: Target,
    connections: [Option<Token>; CONNECTIONS],
    pub(crate) forwards: u8,
}

/// One per GIOP version and narrow code set.
const CONNECTIONS: usize = 6;

/// What of a reference is needed to send to it.
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) version: Version,
    pub(crate) key: Vec<u8>,
    pub(crate) negotiates: bool,
    pub(crate) chars: CharSet,
}

impl Target {
    /// Reads the first IIOP profile of a reference.
    pub(crate) fn of(reference: &Ior) -> Option<Self> {
        let profile = reference.iiop()?;
        let code_sets = profile.code_sets();
        Some(Self {
            host: profile.host.clone(),
            port: profile.port,
            version: profile.version.min(OWN_VERSION),
            key: profile.key.clone(),
            negotiates: code_sets.is_some(),
            chars: codeset::negotiate(code_sets.as_ref()).unwrap_or(CharSet::Latin1),
        })
    }

    fn endpoint(&self, version: Version, chars: CharSet) -> Endpoint {
        Endpoint { host: self.host.clone(), port: self.port, version, chars, negotiates: self.negotiates }
    }
}

/// All connections to clients.
pub(crate) struct Outgoings {
    pub(crate) connections: Slots<Outgoing>,
    by_endpoint: HashMap<Endpoint, Token>,
    pub(crate) routes: HashMap<Peer, Route>,
    /// The consumers of the snapshot in use.
    peers: Arc<HashMap<Peer, Arc<PeerAddress>>>,
    resolver: SyncSender<Lookup>,
    pub(crate) framing: framing::Limits,
    connect_timeout: Duration,
    /// Connections being made, and calls of administration's without a reply: as long as there are any, deadlines run.
    connecting: usize,
    pub(crate) calls: usize,
    /// Some connection may have lost its last user.
    pub(crate) stale: bool,
    /// Request headers are written here, and the buffer used again.
    pub(crate) head: Vec<u8>,
}

impl Outgoings {
    pub(crate) fn new(resolver: SyncSender<Lookup>, framing: framing::Limits, connect_timeout: Duration) -> Self {
        Self {
            connections: Slots::new(),
            by_endpoint: HashMap::new(),
            routes: HashMap::new(),
            peers: Arc::default(),
            resolver,
            framing,
            connect_timeout,
            connecting: 0,
            calls: 0,
            stale: false,
            head: Vec::new(),
        }
    }

    /// Whether anything has to be looked after by the clock.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.connecting > 0 || self.calls > 0 || self.stale
    }

    /// Forgets where consumers were that are not there any more.
    pub(crate) fn forget_peers_but(&mut self, peers: &Arc<HashMap<Peer, Arc<PeerAddress>>>) {
        if Arc::ptr_eq(peers, &self.peers) {
            return;
        }
        self.peers = Arc::clone(peers);
        let before = self.routes.len();
        self.routes.retain(|peer, _| peers.contains_key(peer));
        self.stale |= self.routes.len() != before;
    }
}

impl Core {
    /// The connection on which a consumer gets events of one version and code set; made if there is none.
    ///
    /// # Errors
    /// Says why none can be made.
    pub(crate) fn connection_of(
        &mut self,
        key: ProxyKey,
        peer: Peer,
        version: Version,
        chars: CharSet,
    ) -> Result<Token, String> {
        let route = self.outgoing.routes.get_mut(&peer).ok_or("the consumer has no address")?;
        let slot = version as usize * 2 + usize::from(chars == CharSet::Utf8);
        if let Some(token) = route.connections.get(slot).copied().flatten()
            && self.outgoing.connections.get(token).is_some()
        {
            return Ok(token);
        }
        let endpoint = route.target.endpoint(version, chars);
        let timeout = self.connect_timeout_of(key);
        let token = self.connect(endpoint, timeout)?;
        if let Some(place) = self.outgoing.routes.get_mut(&peer).and_then(|route| route.connections.get_mut(slot)) {
            *place = Some(token);
        }
        Ok(token)
    }

    /// How long a consumer's connection may take to be made: its `ConnectTimeout`.
    fn connect_timeout_of(&self, key: ProxyKey) -> Duration {
        let consumers = self.lane.snapshot().channel(key.channel).map_or(&[][..], |channel| channel.consumers());
        consumers
            .binary_search_by_key(&key.proxy, |consumer| consumer.key.proxy)
            .ok()
            .and_then(|index| consumers.get(index))
            .map_or(self.outgoing.connect_timeout, |consumer| consumer.settings.connect_timeout)
    }

    /// Makes sure that the way to a consumer is known.
    pub(crate) fn find_route(&mut self, peer: Peer) -> bool {
        if self.outgoing.routes.contains_key(&peer) {
            return true;
        }
        let Some(address) = self.outgoing.peers.get(&peer).map(Arc::clone) else { return false };
        let Some(target) = Target::of(&address.ior) else { return false };
        let route = Route { address, target, connections: [None; CONNECTIONS], forwards: 0 };
        self.outgoing.routes.insert(peer, route);
        true
    }

    /// Sends a consumer's events to another place from now on. False when it has been sent about too often.
    pub(crate) fn forward_route(&mut self, peer: Peer, to: &Ior) -> bool {
        let Some(target) = Target::of(to) else { return false };
        let Some(route) = self.outgoing.routes.get_mut(&peer) else { return false };
        if route.forwards >= FORWARDS_MAX {
            return false;
        }
        route.forwards += 1;
        route.target = target;
        route.connections = [None; CONNECTIONS];
        self.outgoing.stale = true;
        true
    }

    fn connect(&mut self, endpoint: Endpoint, timeout: Duration) -> Result<Token, String> {
        if let Some(token) = self.outgoing.by_endpoint.get(&endpoint) {
            return Ok(*token);
        }
        self.counters.add(Counter::ConnectsBegun, 1);
        let ip = endpoint.host.parse::<IpAddr>().ok();
        let (host, port) = (endpoint.host.clone(), endpoint.port);
        let token = self.outgoing.connections.insert(Outgoing {
            endpoint: endpoint.clone(),
            state: State::Resolving,
            inbound: Inbound::new(self.outgoing.framing),
            output: Output::default(),
            pending: HashMap::new(),
            next_request: 1,
            told_code_sets: false,
            connect_deadline: Some(self.now + timeout),
            blocked: Vec::new(),
            interest: Interest::NONE,
        });
        self.outgoing.by_endpoint.insert(endpoint, token);
        self.outgoing.connecting += 1;
        let begun = match ip {
            Some(ip) => self.begin_connect(token, SocketAddr::new(ip, port)),
            None => self
                .outgoing
                .resolver
                .try_send(Lookup { connection: token, host, port })
                .map_err(|_| "too many host names are being looked up".to_owned()),
        };
        match begun {
            Ok(()) => Ok(token),
            Err(why) => {
                self.lose(token, &why);
                Err(why)
            }
        }
    }

    fn begin_connect(&mut self, token: Token, address: SocketAddr) -> Result<(), String> {
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return Ok(()) };
        let stream = system::begin_connect(address).map_err(|error| format!("{address}: {error}"))?;
        self.poll.add(&stream, datum(KIND_OUTGOING, token), Interest::WRITE).map_err(|error| error.to_string())?;
        connection.state = State::Connecting(stream);
        connection.interest = Interest::WRITE;
        Ok(())
    }

    /// The resolver has an answer.
    pub(crate) fn resolved(&mut self, token: Token, address: Result<SocketAddr, String>) {
        let waiting = self.outgoing.connections.get(token).is_some_and(|entry| matches!(entry.state, State::Resolving));
        if waiting && let Err(why) = address.and_then(|address| self.begin_connect(token, address)) {
            self.lose(token, &why);
        }
    }

    /// Serves a connection whose socket is ready.
    pub(crate) fn serve_outgoing(&mut self, token: Token, ready: system::Ready) {
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return };
        if let State::Connecting(stream) = &connection.state {
            match stream.take_error() {
                Ok(None) => self.connected(token),
                Ok(Some(error)) | Err(error) => return self.lose(token, &error.to_string()),
            }
        } else if ready.readable && !self.read_replies(token) {
            return;
        }
        if ready.writable {
            self.flush_outgoing(token);
        }
        self.deliver();
    }

    fn connected(&mut self, token: Token) {
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return };
        connection.state = match core::mem::replace(&mut connection.state, State::Resolving) {
            State::Connecting(stream) => State::Open(stream),
            other => other,
        };
        connection.connect_deadline = None;
        self.outgoing.connecting -= 1;
    }

    /// Writes what is due, and watches for room if the socket does not take it all.
    pub(crate) fn flush_outgoing(&mut self, token: Token) {
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return };
        let State::Open(stream) = &connection.state else { return };
        let mut done = Vec::new();
        let flushed = connection.output.flush(stream, &mut done);
        let blocked = if connection.output.is_empty() { core::mem::take(&mut connection.blocked) } else { Vec::new() };
        let broken = flushed.err().map(|error| error.to_string());
        for event in done {
            self.lane.release(event);
        }
        for outbox in blocked {
            self.lane.resume_outbox(outbox, self.now);
        }
        match broken {
            Some(why) => self.lose(token, &why),
            None => self.watch(token),
        }
    }

    /// Tells the poll what a connection waits for.
    pub(crate) fn watch(&mut self, token: Token) {
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return };
        let State::Open(stream) = &connection.state else { return };
        let interest = Interest { write: !connection.output.is_empty(), ..Interest::READ };
        if interest != connection.interest {
            connection.interest = interest;
            if self.poll.change(stream, datum(KIND_OUTGOING, token), interest).is_err() {
                self.lose(token, "the connection cannot be watched");
            }
        }
    }

    /// Gives a connection up. Everybody who waits for a reply on it is told.
    pub(crate) fn lose(&mut self, token: Token, why: &str) {
        let Some(mut connection) = self.outgoing.connections.remove(token) else { return };
        self.outgoing.by_endpoint.remove(&connection.endpoint);
        if !matches!(connection.state, State::Open(_)) {
            self.outgoing.connecting -= 1;
            self.counters.add(Counter::ConnectsFailed, 1);
        }
        let mut done = Vec::new();
        connection.output.clear(&mut done);
        for event in done {
            self.lane.release(event);
        }
        // In the order in which they were sent, so that what is tried again keeps its order.
        let mut pending: Vec<(u32, Pending)> = connection.pending.drain().collect();
        pending.sort_unstable_by_key(|(request_id, _)| *request_id);
        for (_, waiting) in pending {
            self.conclude(waiting, Verdict::Lost(why.to_owned()));
        }
        for outbox in connection.blocked {
            self.lane.resume_outbox(outbox, self.now);
        }
    }

    /// Sends a call of administration's.
    pub(crate) fn begin_call(&mut self, id: u64, to: &Ior, operation: &'static str, body: &[u8], timeout: Duration) {
        let call = Call { id, operation, body: body.to_vec(), deadline: self.now + timeout, forwards: 0 };
        self.outgoing.calls += 1;
        self.send_call(to, call);
    }

    /// Sends a call, for the first time or to where it was forwarded.
    pub(crate) fn send_call(&mut self, to: &Ior, call: Call) {
        let Some(target) = Target::of(to) else {
            return self.conclude(Pending::Call(call), Verdict::Lost("the reference has no IIOP profile".into()));
        };
        let timeout = self.outgoing.connect_timeout;
        let token = match self.connect(target.endpoint(target.version, target.chars), timeout) {
            Ok(token) => token,
            Err(why) => return self.conclude(Pending::Call(call), Verdict::Lost(why)),
        };
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return };
        let (request_id, tell) = connection.next_request();
        let context = codeset::context(target.chars, OWN_ENDIAN);
        let contexts: &[(u32, &[u8])] = if tell { &[(ServiceContexts::CODE_SETS, &context)] } else { &[] };
        let buffer = connection.output.bytes();
        let open = message::begin_request(
            buffer,
            &RequestHead {
                version: target.version,
                endian: OWN_ENDIAN,
                request_id,
                response: Response::Expected,
                key: &target.key,
                operation: call.operation.as_bytes(),
                contexts,
                body_phase: Some(0),
            },
        );
        open.body(buffer, target.chars).raw(&call.body);
        open.finish(buffer);
        connection.pending.insert(request_id, Pending::Call(call));
        self.flush_outgoing(token);
    }

    /// Ends what has waited too long, and closes connections that nobody uses. True when deadlines still run.
    pub(crate) fn sweep_outgoing(&mut self) -> bool {
        let now = self.now;
        let late: Vec<Token> = self
            .outgoing
            .connections
            .iter()
            .filter(|(_, connection)| connection.connect_deadline.is_some_and(|due| due <= now))
            .map(|(token, _)| token)
            .collect();
        for token in late {
            self.lose(token, "no connection within the time limit");
        }
        if self.outgoing.calls > 0 {
            self.end_late_calls();
        }
        if core::mem::take(&mut self.outgoing.stale) {
            self.close_unused();
        }
        self.outgoing.has_deadlines()
    }

    fn end_late_calls(&mut self) {
        let now = self.now;
        let is_late = |pending: &Pending| matches!(pending, Pending::Call(call) if call.deadline <= now);
        let late: Vec<(Token, u32)> = self
            .outgoing
            .connections
            .iter()
            .flat_map(|(token, connection)| {
                connection.pending.iter().filter(|(_, p)| is_late(p)).map(move |(id, _)| (token, *id))
            })
            .collect();
        for (token, request_id) in late {
            let pending = self.outgoing.connections.get_mut(token).and_then(|entry| entry.pending.remove(&request_id));
            if let Some(Pending::Call(call)) = pending {
                self.finish_call(&call, Err(CallFailure::TimedOut));
            }
        }
    }

    pub(crate) fn finish_call(&mut self, call: &Call, result: Result<(), CallFailure>) {
        self.outgoing.calls -= 1;
        self.outgoing.stale = true;
        self.post(ToAdministration::Answered { call: call.id, result });
    }

    fn close_unused(&mut self) {
        let used: HashSet<Token> =
            self.outgoing.routes.values().flat_map(|route| route.connections.iter().flatten().copied()).collect();
        let unused: Vec<Token> = self
            .outgoing
            .connections
            .iter()
            .filter(|(token, entry)| entry.pending.is_empty() && entry.output.is_empty() && !used.contains(token))
            .map(|(token, _)| token)
            .collect();
        for token in unused {
            self.lose(token, "nobody uses it any more");
        }
    }
}

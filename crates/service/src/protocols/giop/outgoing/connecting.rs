//! Connecting to clients: a place for the connection, the addresses of its host, and one attempt after the other.
//!
//! A probe finds out whether a GIOP server is at an address, before a client's data is sent there.
//!
//! A client chooses the address, the object key and the events that the service sends, so it could have the service say chosen octets to
//! any server that the service reaches. So each new connection begins with a `LocateRequest` for a key that is always the same. Any GIOP
//! message proves a GIOP server; until one has come, requests wait in the connection's output.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use access::CalledFor;
use accounts::{Account, Charge, Resource, SpentBy};
use giop::cdr::Endian;
use giop::message::{self, MessageKind};

use super::{Outgoing, Outgoings, State, Upkeep};
use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::net::{self, Tcp};
use crate::lane::io::output::would_block;
use crate::lane::io::quotas::Work;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::{Interest, Ready};
use crate::protocols::Tag;
use crate::protocols::giop::routes::Endpoint;
use crate::resolver;

impl Outgoings {
    /// The connection to an end point; made if there is none. It is charged to `by`, the account that gave the reference, or to the service
    /// itself.
    ///
    /// # Errors
    /// The reason why none can be made.
    pub(crate) fn connect(
        &mut self,
        mut endpoint: Endpoint,
        timeout: Duration,
        by: Option<&Arc<Account>>,
        cx: &mut Context,
    ) -> Result<Token, String> {
        let is_local = |account: &Arc<Account>| {
            let ip = account.ip().to_canonical();
            ip.is_loopback() || net::is_here(ip)
        };
        // A foreign client does not use what was connected for a local one.
        endpoint.called_for = if by.is_none_or(is_local) { CalledFor::Local } else { CalledFor::Foreign };
        let look = self.upkeep.unused.number();
        if let Some(token) = self.by_endpoint.get(&endpoint) {
            if let Some(connection) = self.connections.get_mut(*token) {
                connection.usage.used_in = look;
            }
            return Ok(*token);
        }
        let (port, is_secure) = self.limits.tls.way_to(&endpoint).inspect_err(|_| {
            let Outgoings { reachability, .. } = self;
            reachability.note_failed(&endpoint.host, endpoint.port, cx.clock.now);
        })?;
        let place = self.place_for_outgoing(by, cx)?;
        cx.counters.add(Counter::ConnectsBegun, 1);
        let host = endpoint.host.clone();
        let quota = cx.io.quotas.arrive(place.account().ip());
        let mut connection = Outgoing::new(endpoint.clone(), place, quota, self.limits.framing, cx.clock.now, timeout);
        connection.is_secure = is_secure;
        connection.usage.used_in = look;
        let ip = connection.account().ip();
        let token = self.connections.insert(connection);
        self.upkeep.longest_idle.add(token, ip, cx.clock.now);
        self.by_endpoint.insert(endpoint, token);
        self.upkeep.connecting += 1;
        let begun = match resolver::known_without_asking(&host) {
            Some(ips) => {
                let addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
                self.connect_within_budget(token, addresses, cx).inspect_err(|why| self.fail_connecting(token, why, cx))
            }
            None => cx
                .look_up((Tag::Giop, token), (host, port), timeout, by.unwrap_or(&self.own))
                .inspect_err(|why| self.lose(token, why, cx)),
        };
        begun.map(|()| token)
    }

    /// A place for one more connection; if there is none, the longest idle one makes room.
    fn place_for_outgoing(&mut self, by: Option<&Arc<Account>>, cx: &mut Context) -> Result<Charge, String> {
        let account = Arc::clone(by.unwrap_or(&self.own));
        let spent = match account.charge(Resource::Outgoing, 1) {
            Ok(place) => return Ok(place),
            Err(spent) => spent,
        };
        // A client that has spent its share makes room among its own connections only.
        let of = (spent.by == SpentBy::Client).then(|| account.ip());
        let Outgoings { upkeep: Upkeep { longest_idle, .. }, connections, .. } = self;
        let idle_since = |token| connections.get(token).and_then(Outgoing::idle_since);
        if let Some(token) = longest_idle.next(of, cx.clock.now, idle_since) {
            cx.counters.add(Counter::OutgoingIdleClosed, 1);
            self.lose(token, "it was idle, and its place was needed", cx);
            if let Ok(place) = account.charge(Resource::Outgoing, 1) {
                return Ok(place);
            }
        }
        cx.counters.add(Counter::of_refusal(spent), 1);
        Err(spent.to_string())
    }

    /// Begins to connect to one of these addresses. If there are several client addresses, the connection waits for the turn of its own,
    /// since connecting takes as long as many events.
    fn connect_within_budget(
        &mut self,
        token: Token,
        addresses: Vec<SocketAddr>,
        cx: &mut Context,
    ) -> Result<(), String> {
        if !cx.io.quotas.are_shared() {
            return self.begin_connect(token, addresses, cx);
        }
        if let Some(connection) = self.connections.get_mut(token) {
            connection.state = State::Found(addresses);
            cx.io.quotas.defer(connection.rounds.quota, Work::Resume(Socket::Outgoing(Tag::Giop, token)));
        }
        Ok(())
    }

    /// Begins to connect, in the turn of the connection's address.
    pub(crate) fn begin_connecting(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Found(addresses) = &mut connection.state else { return };
        let addresses = core::mem::take(addresses);
        if let Err(why) = self.begin_connect(token, addresses, cx) {
            self.fail_connecting(token, &why, cx);
        }
    }

    /// Handles the time limit of an attempt to connect to an address.
    pub(crate) fn connect_late(&mut self, token: Token, cx: &mut Context) {
        let why = "no connection within the time limit";
        match self.connections.get(token).map(|connection| &connection.state) {
            // The thread of handshakes has it, and might answer for this address when the next one is tried.
            Some(State::Shaking) => self.fail_connecting(token, why, cx),
            _ => self.connect_elsewhere(token, why, cx),
        }
    }

    /// Tries the next address of a host, for the reason given.
    pub(super) fn connect_elsewhere(&mut self, token: Token, why: &str, cx: &mut Context) {
        let Outgoings { connections, reachability, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        if let Some(address) = connection.tried {
            reachability.note_failed(&address.ip().to_string(), address.port(), cx.clock.now);
        }
        connection.state = State::Resolving;
        let others = core::mem::take(&mut connection.others);
        let begun = if others.is_empty() { Err(why.to_owned()) } else { self.begin_connect(token, others, cx) };
        if let Err(why) = begun {
            self.fail_connecting(token, &why, cx);
        }
    }

    /// Begins to connect to one of these addresses, from the last to the first; those that failed lately come last.
    fn begin_connect(&mut self, token: Token, mut others: Vec<SocketAddr>, cx: &mut Context) -> Result<(), String> {
        if self.connections.get(token).is_none() {
            return Ok(());
        }
        if others.len() > 1 {
            let Outgoings { reachability, .. } = self;
            let rank =
                |address: &SocketAddr| reachability.rank(&address.ip().to_string(), address.port(), cx.clock.now);
            others.sort_by_cached_key(|address| core::cmp::Reverse(rank(address)));
        }
        let called_for = self.connections.get(token).map(|connection| connection.endpoint.called_for);
        let called_for = called_for.unwrap_or(CalledFor::Foreign);
        let mut failure = "its host has no address".to_owned();
        while let Some(address) = others.pop() {
            let policy = &self.policy;
            if let Some(why) = policy.refuses(address, called_for, net::is_here) {
                cx.counters.add(Counter::OutgoingRefused, 1);
                failure = format!("{address} is not called: {why}");
                continue;
            }
            let begun = net::begin_connect(address).and_then(|stream| {
                cx.io.poll.add(&stream, Socket::Outgoing(Tag::Giop, token), Interest::WRITE)?;
                Ok(stream)
            });
            match begun {
                Ok(stream) => {
                    let Some(connection) = self.connections.get_mut(token) else {
                        return Ok(());
                    };
                    let now = cx.clock.now;
                    let places = u32::try_from(others.len() + 1).unwrap_or(u32::MAX);
                    connection.connect_deadline = Some(now + connection.connects_until.since(now) / places);
                    connection.state = State::Connecting(stream);
                    (connection.tried, connection.others) = (Some(address), others);
                    connection.rounds.interest = Interest::WRITE;
                    return Ok(());
                }
                Err(error) => failure = error.to_string(),
            }
        }
        Err(failure)
    }

    /// Handles the resolver's answer.
    pub(crate) fn resolved(&mut self, token: Token, addresses: Result<Vec<SocketAddr>, String>, cx: &mut Context) {
        let waiting = self.connections.get(token).is_some_and(|entry| matches!(entry.state, State::Resolving));
        if waiting && let Err(why) = addresses.and_then(|addresses| self.connect_within_budget(token, addresses, cx)) {
            self.fail_connecting(token, &why, cx);
        }
    }

    /// Continues after an attempt to connect has ended, or with input from a peer being probed. True if the connection is open.
    pub(crate) fn go_on_connecting(&mut self, token: Token, ready: Ready, cx: &mut Context) -> bool {
        let Some(connection) = self.connections.get_mut(token) else { return false };
        if matches!(connection.state, State::Probing(_)) {
            return self.go_on_probing(token, ready.readable, cx);
        }
        let stream = match core::mem::replace(&mut connection.state, State::Resolving) {
            State::Connecting(stream) => stream,
            other => {
                connection.state = other;
                return false;
            }
        };
        let why = match stream.take_error() {
            Ok(None) => {
                // Work for the connection is charged to its host, and not to the account that named that first.
                if let Ok(peer) = stream.peer_addr() {
                    cx.io.quotas.leave(connection.rounds.quota);
                    connection.rounds.quota = cx.io.quotas.arrive(peer.ip());
                }
                if !connection.is_secure {
                    return self.begin_probe(token, stream.into(), cx);
                }
                self.begin_handshake(token, stream, cx);
                return false;
            }
            Ok(Some(error)) | Err(error) => error.to_string(),
        };
        drop(stream);
        self.connect_elsewhere(token, &why, cx);
        false
    }

    /// Notes that a connection is made.
    pub(super) fn note_open(&mut self, token: Token, stream: Stream, cx: &mut Context) {
        let Outgoings { connections, reachability, upkeep, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        connection.state = State::Open(stream);
        connection.connect_deadline = None;
        connection.silent_since = cx.clock.now;
        connection.others = Vec::new();
        reachability.note_answered(&connection.endpoint.host, connection.endpoint.port);
        if let Some(address) = connection.tried {
            reachability.note_answered(&address.ip().to_string(), address.port());
        }
        upkeep.connecting -= 1;
    }

    /// Hands a connection over for its TLS handshake.
    fn begin_handshake(&mut self, token: Token, tcp: Tcp, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.state = State::Shaking;
        let (host, account) = (connection.endpoint.host.clone(), Arc::clone(connection.account()));
        if let Err(why) = cx.begin_handshake((Tag::Giop, token), tcp, host, &account) {
            self.lose(token, &why, cx);
        }
    }

    /// Handles the end of a connection's TLS handshake. True if the connection is open.
    pub(crate) fn handle_secured(&mut self, token: Token, stream: Result<Stream, String>, cx: &mut Context) -> bool {
        let Some(connection) = self.connections.get_mut(token) else { return false };
        if !matches!(connection.state, State::Shaking) {
            return false;
        }
        let opened = stream.and_then(|stream| {
            let socket = Socket::Outgoing(Tag::Giop, token);
            cx.io.poll.add(stream.tcp(), socket, Interest::READ).map_err(|error| error.to_string())?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => {
                connection.rounds.interest = Interest::READ;
                return self.begin_probe(token, stream, cx);
            }
            Err(why) => self.connect_elsewhere(token, &why, cx),
        }
        false
    }

    /// Probes whether a GIOP server is at the other end of a connection. True if it has answered: the connection is open.
    pub(super) fn begin_probe(&mut self, token: Token, stream: Stream, cx: &mut Context) -> bool {
        let Some(connection) = self.connections.get_mut(token) else { return false };
        let mut unsent = Vec::new();
        message::locate_request(&mut unsent, connection.endpoint.version, Endian::Big, PROBE_ID, PROBE_KEY);
        connection.state = State::Probing(Probe { stream, unsent });
        // The poll does not report input that TLS has opened already.
        self.go_on_probing(token, true, cx)
    }

    /// Writes the rest of a probe, and reads input. True if the connection is open.
    pub(super) fn go_on_probing(&mut self, token: Token, is_readable: bool, cx: &mut Context) -> bool {
        let look = match self.write_probe(token) {
            Err(why) => Look::IsLost(why),
            Ok(()) if is_readable => self.read_probed(token, cx),
            Ok(()) => Look::Waits,
        };
        match look {
            Look::Waits => self.watch_probed(token, cx),
            Look::IsLost(why) => {
                let connections = &mut self.connections;
                if let Some(connection) = connections.get_mut(token) {
                    cx.io.buffers.recover(&mut connection.inbound);
                }
                self.connect_elsewhere(token, &why, cx);
            }
            Look::IsGiop => return self.end_probe(token, cx),
        }
        false
    }

    /// Writes as much of a probe as the socket takes.
    ///
    /// # Errors
    /// The reason why the connection is lost.
    fn write_probe(&mut self, token: Token) -> Result<(), String> {
        let Outgoings { connections, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return Ok(()) };
        let State::Probing(Probe { stream, unsent }) = &mut connection.state else { return Ok(()) };
        while !unsent.is_empty() {
            match stream.write(unsent) {
                Ok(0) => break,
                Ok(count) => drop(unsent.drain(..count)),
                Err(error) if would_block(&error) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Reads input of a peer being probed.
    fn read_probed(&mut self, token: Token, cx: &mut Context) -> Look {
        let Some(connection) = self.connections.get_mut(token) else { return Look::Waits };
        let State::Probing(Probe { stream, .. }) = &mut connection.state else { return Look::Waits };
        let inbound = &mut connection.inbound;
        cx.io.buffers.lend(inbound);
        match stream.receive(inbound.vacant()) {
            Ok(0) => return Look::IsLost("it closed the connection before it showed that it speaks GIOP".to_owned()),
            Ok(count) => inbound.filled(count),
            Err(error) if would_block(&error) || error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Look::IsLost(error.to_string()),
        }
        let look = match inbound.poll_message() {
            Ok(None) => Look::Waits,
            Ok(Some(message)) if message.header.kind == MessageKind::CloseConnection => {
                Look::IsLost("the consumer closed the connection".to_owned())
            }
            Ok(Some(_)) => Look::IsGiop,
            Err(_) => {
                cx.counters.add(Counter::NotGiop, 1);
                Look::IsLost(
                    "what listens there does not speak GIOP; it was sent nothing but a LocateRequest".to_owned(),
                )
            }
        };
        cx.io.buffers.take_back(inbound);
        look
    }

    /// Updates the interest of a probed connection in the poll.
    fn watch_probed(&mut self, token: Token, cx: &mut Context) {
        let Outgoings { connections, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return };
        let State::Probing(Probe { stream, unsent }) = &connection.state else { return };
        let interest = Interest { write: !unsent.is_empty(), ..Interest::READ };
        if interest != connection.rounds.interest {
            connection.rounds.interest = interest;
            if cx.io.poll.change(stream.tcp(), Socket::Outgoing(Tag::Giop, token), interest).is_err() {
                return self.connect_elsewhere(token, "the connection cannot be watched", cx);
            }
        }
        self.read_on(token, cx);
    }

    /// Ends a probe that a GIOP server has answered: the connection is open.
    fn end_probe(&mut self, token: Token, cx: &mut Context) -> bool {
        let Outgoings { connections, .. } = self;
        let Some(connection) = connections.get_mut(token) else { return false };
        match core::mem::replace(&mut connection.state, State::Resolving) {
            State::Probing(Probe { stream, .. }) => self.note_open(token, stream, cx),
            other => {
                connection.state = other;
                return false;
            }
        }
        true
    }
}

/// Object key of the probe. No object has it.
pub(crate) const PROBE_KEY: &[u8] = b"Campanile-probe";
/// Request id of the probe; requests are numbered from 1.
const PROBE_ID: u32 = 0;

/// A connection to a peer being probed.
pub(super) struct Probe {
    stream: Stream,
    /// Octets of the probe that the socket has not taken.
    unsent: Vec<u8>,
}

impl Probe {
    /// Whether input has arrived that the poll does not report.
    pub(super) const fn has_more(&self) -> bool {
        self.stream.has_more()
    }
}

/// Result of reading from a probed connection.
enum Look {
    Waits,
    IsGiop,
    IsLost(String),
}

//! Whether a GIOP server is at an address, before anything of a client's is sent there.
//!
//! A client chooses the address, the object key and the events that the service sends, so it could have the service say chosen
//! octets to any server that the service reaches. So each new connection begins with a `LocateRequest` for a key that is always the
//! same. Any GIOP message proves a GIOP server; until one has come, requests wait in the connection's output.

use giop::cdr::Endian;
use giop::message::{self, MessageKind};

use super::{Outgoings, State};
use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::output::would_block;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::protocols::Tag;

/// The object key that servers are asked for. No object has it.
pub(crate) const PROBE_KEY: &[u8] = b"Campanile-probe";
/// Id of the probe; requests are numbered from 1.
const PROBE_ID: u32 = 0;

/// A connection to a peer that is probed.
pub(super) struct Probe {
    stream: Stream,
    /// What of the probe the socket has not taken.
    unsent: Vec<u8>,
}

impl Probe {
    /// Whether something has arrived of which the poll does not tell.
    pub(super) const fn has_more(&self) -> bool {
        self.stream.has_more()
    }
}

/// What came of a look at a probed connection.
enum Look {
    Waits,
    IsGiop,
    IsLost(String),
}

impl Outgoings {
    /// Asks whether a GIOP server is at the other end of a connection. True if it has answered: the connection is open.
    pub(super) fn begin_probe(&mut self, token: Token, stream: Stream, cx: &mut Context) -> bool {
        let Some(connection) = self.connections.get_mut(token) else { return false };
        let mut unsent = Vec::new();
        message::locate_request(&mut unsent, connection.endpoint.version, Endian::Big, PROBE_ID, PROBE_KEY);
        connection.state = State::Probing(Probe { stream, unsent });
        // Of what TLS has opened already the poll tells nothing.
        self.go_on_probing(token, true, cx)
    }

    /// Writes what is left of a probe, and reads what has come. True if the connection is open.
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

    /// Writes what the socket takes of a probe.
    ///
    /// # Errors
    /// Says why the connection is lost.
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

    /// Reads what a probed peer has sent.
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

    /// Has the poll tell what a probed connection waits for.
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

    /// A GIOP server has answered: the connection is open.
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

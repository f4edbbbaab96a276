//! Connections of clients: accepted, read a piece at a time, and closed.

use core::time::Duration;
use std::io;

use json::Heard;

use crate::counters::Counter;
use crate::lane::io::entrance::{Arrival, Named};
use crate::lane::io::output::would_block;
use crate::lane::io::slices::Work;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::run::{Common, Core, Worker};
use crate::protocols::Tag;
use crate::protocols::json::connection::Connection;

/// Octets read of a connection at once.
const READ_BYTES: usize = 64 << 10;
/// Lines of one connection that are looked at before others have their turn.
const LINES_PER_ROUND: usize = 64;

/// How long clients may take for a line.
pub(crate) struct Clients {
    line_completion: Duration,
}

impl Clients {
    pub(crate) const fn new(common: &Common) -> Self {
        Self { line_completion: common.message_completion }
    }
}

impl Worker {
    /// Keeps a connection that a client made. Says how many are open then; nothing if the poll does not take it.
    pub(crate) fn let_in_json(&mut self, arrival: Arrival) -> Option<usize> {
        let (ip, now) = (arrival.place.account().ip(), arrival.at);
        let protocol = &mut self.core.protocols.json;
        let token = protocol.connections.insert(Connection::new(arrival, protocol.settings.limits));
        let connection = protocol.connections.get(token)?;
        let socket = Socket::Incoming(Tag::Json, token);
        if self.core.cx.io.poll.add(connection.stream.tcp(), socket, Interest::READ).is_err() {
            protocol.connections.remove(token);
            return None;
        }
        if connection.stream.has_more() {
            // It came with the end of the handshake.
            protocol.note_due(token);
        }
        protocol.open += 1;
        let open = protocol.open;
        self.core.cx.io.occupied.arrive(Tag::Json, token, ip, now);
        self.core.cx.counters.add(Counter::JsonConnectionsAccepted, 1);
        self.core.note_json_open();
        Some(open)
    }

    /// Ends connections that have owed the rest of a line, or have been being closed, for too long.
    pub(crate) fn sweep_json(&mut self) {
        if !self.core.protocols.json.has_deadlines {
            return;
        }
        let (now, completion) = (self.core.cx.clock.now, self.clients.json.line_completion);
        let mut late = Vec::new();
        let mut has_deadlines = false;
        for (token, connection) in self.core.protocols.json.connections.iter() {
            let Some(since) = connection.closing.or(connection.input.began) else { continue };
            if since + completion <= now {
                late.push((token, connection.closing.is_some()));
            } else {
                has_deadlines = true;
            }
        }
        self.core.protocols.json.has_deadlines = has_deadlines;
        for (token, is_closing) in late {
            if is_closing {
                self.core.close_json(token);
                continue;
            }
            self.core.cx.counters.add(Counter::IncompleteMessages, 1);
            self.core.distrust_json(token, "a line was begun and not ended within limits.message_completion_ms");
        }
        if has_deadlines || self.core.protocols.json.has_deadlines {
            self.core.cx.clock.plan_sweep();
        }
    }
}

impl Core {
    /// Serves a connection when its socket is ready.
    #[inline(never)]
    pub(crate) fn serve_json(&mut self, token: Token, ready: Ready) {
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        if connection.interest.read {
            if ready.readable {
                self.read_json(token);
            }
        } else if ready.broken {
            return self.close_json(token);
        }
        if ready.writable || ready.ended {
            self.protocols.json.note_due(token);
        }
    }

    fn read_json(&mut self, token: Token) {
        let mut buffer = core::mem::take(&mut self.protocols.json.read);
        buffer.clear();
        buffer.reserve(READ_BYTES);
        if let Some(connection) = self.protocols.json.connections.get_mut(token) {
            connection.heard = self.cx.clock.now;
            match connection.stream.receive(&mut buffer) {
                Ok(0) => {
                    // It may have sent its last request and wait for the answer, or for events.
                    connection.input.has_ended = true;
                    self.process_json(token, &[]);
                }
                // No line begins so.
                Ok(_) if tls::is_hello(&buffer) => {
                    let address = connection.address;
                    self.note_tls_at_plain_port(Tag::Json, address);
                    self.close_json(token);
                }
                Ok(_) => self.process_json(token, &buffer),
                Err(error) if would_block(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.close_json(token),
            }
        }
        self.protocols.json.read = buffer;
    }

    /// Looks at what was read before, as far as others do not have their turn first.
    #[inline(never)]
    pub(crate) fn go_on_with_json(&mut self, token: Token) {
        if let Some(connection) = self.protocols.json.connections.get_mut(token) {
            connection.input.has_backlog = false;
            self.process_json(token, &[]);
        }
    }

    /// Looks at lines: those kept, and those of `input` behind them. What may not be looked at now is kept.
    fn process_json(&mut self, token: Token, mut input: &[u8]) {
        for number in 0.. {
            let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
            let is_over = number == LINES_PER_ROUND;
            connection.input.is_stalled = is_over || connection.is_paused();
            if connection.input.is_stalled {
                connection.input.session.keep(input);
                if is_over {
                    self.cx.counters.add(Counter::RoundBudgetsSpent, 1);
                    self.queue_json_backlog(token);
                }
                break;
            }
            let before = connection.input.session.retained_bytes() + input.len();
            let Some(heard) = connection.input.session.next(&mut input) else { break };
            connection.note_line();
            let bytes = before.saturating_sub(connection.input.session.retained_bytes() + input.len());
            match heard {
                Heard::Request(request) => self.handle_json(token, request, bytes),
                Heard::Refused(refused) => {
                    self.cx.counters.add(Counter::JsonLinesRefused, 1);
                    self.refuse_json(token, refused.id, &refused.reason);
                }
                Heard::End(reason) => self.distrust_json(token, &reason),
            }
        }
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        if connection.input.has_ended && !connection.input.is_stalled && connection.input.session.end() {
            // As `printf` sends it, without an end: its client is not to believe that it was carried out.
            self.cx.counters.add(Counter::JsonLinesRefused, 1);
            self.refuse_json(token, None, "the last line has no end, and was not carried out");
        }
        let now = self.cx.clock.now;
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        match connection.charge_incomplete(now) {
            Ok(()) => self.protocols.json.has_deadlines |= connection.input.began.is_some(),
            Err(spent) => {
                self.cx.counters.add(Counter::of_refusal(spent), 1);
                self.distrust_json(token, "there is no room for so much of a line that is not complete");
            }
        }
        self.protocols.json.note_due(token);
    }

    /// What was read of a connection and not looked at waits for a turn of its address.
    pub(super) fn queue_json_backlog(&mut self, token: Token) {
        if let Some(connection) = self.protocols.json.connections.get_mut(token)
            && !core::mem::replace(&mut connection.input.has_backlog, true)
        {
            self.cx.io.slices.defer(connection.slice, Work::Resume(Socket::Incoming(Tag::Json, token)));
        }
    }

    /// Ends a connection for what was heard on it, after the client was sent the reason.
    pub(crate) fn distrust_json(&mut self, token: Token, why: &str) {
        self.refuse_json(token, None, why);
        let now = self.cx.clock.now;
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        if connection.closing.replace(now).is_none() {
            let address = connection.address;
            self.cx.counters.add(Counter::ProtocolErrors, 1);
            self.cx.log(log::Level::Warn, || format!("closed the connection from {address}: {why}"));
        }
        self.protocols.json.has_deadlines = true;
        self.protocols.json.note_due(token);
    }

    /// Closes a connection. Its proxies go with it.
    pub(crate) fn close_json(&mut self, token: Token) {
        let Some(mut connection) = self.protocols.json.connections.remove(token) else { return };
        self.cx.io.occupied.leave(Tag::Json, token);
        connection.output.clear(&mut self.cx.io.spares);
        self.cx.release_written();
        self.dismiss_all(token, &connection);
        self.cx.io.slices.leave(connection.slice);
        self.protocols.json.open -= 1;
        self.note_json_open();
        let open = self.protocols.json.open;
        let client = Named(connection.address, connection.account());
        self.cx.log_debug(|| format!("the connection from {client} is closed; {open} open for lines of JSON"));
    }

    /// The service ends.
    pub(crate) fn close_all_json(&mut self) {
        let all: Vec<Token> = self.protocols.json.connections.iter().map(|(token, _)| token).collect();
        for token in all {
            self.close_json(token);
        }
    }

    fn note_json_open(&mut self) {
        self.cx.counters.set(Counter::JsonConnectionsOpen, self.protocols.json.open as u64);
    }
}

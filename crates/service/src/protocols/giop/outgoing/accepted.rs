//! Connections that clients made and offered for calls to them: bidirectional GIOP (CORBA 3.3 part 2, 9.8).
//!
//! Such a connection has a place among those to clients, with output, pending replies and blocked outboxes of its own, so that an event's
//! path is that of any consumer. Its socket stays with the connection that the client made ([`bidirectional`](super::super::bidirectional)),
//! which writes this output between its replies and hands over the replies that it reads. The handle in a client's address
//! ([`Offered`](corba::Offered)) is the place's token, so that nothing is looked up; the place of a connection that has ended has no token.

use core::num::NonZeroU64;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use access::CalledFor;
use accounts::{Account, Resource};
use corba::Offered;
use giop::cdr::{CharSet, Version};

use super::{Outgoing, Outgoings, State};
use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::output::Flushed;
use crate::lane::io::slots::Token;
use crate::lane::io::stream::Stream;
use crate::protocols::giop::routes::{Endpoint, Target};

impl Outgoings {
    /// Adds a connection that a client made and has offered. Its place is not one of those to clients: the connection has one already.
    pub(crate) fn accept(
        &mut self,
        incoming: Token,
        (address, account): (SocketAddr, &Arc<Account>),
        chars: CharSet,
        cx: &mut Context,
    ) -> Token {
        let endpoint = Endpoint {
            host: address.ip().to_string(),
            port: address.port(),
            tls_port: None,
            version: Version::V1_2,
            chars,
            called_for: CalledFor::Foreign,
            // The client chose the connection's code sets (CORBA 3.3 part 2, 7.10.2.6).
            negotiates: false,
        };
        let quota = cx.io.quotas.arrive(account.ip());
        let place = account.charge_anyway(Resource::Outgoing, 0);
        let mut connection = Outgoing::new(endpoint, place, quota, self.limits.framing, cx.clock.now, Duration::ZERO);
        connection.connect_deadline = None;
        connection.state = State::Accepted(incoming);
        self.note_accepted(1, cx);
        self.connections.insert(connection)
    }

    /// Changes the number of these connections.
    pub(super) fn note_accepted(&mut self, by: i64, cx: &Context) {
        self.accepted = self.accepted.saturating_add_signed(by);
        cx.counters.set(Counter::BidirectionalConnections, self.accepted);
    }

    /// The handle of such a connection in its client's address.
    pub(crate) fn handle(token: Token) -> NonZeroU64 {
        NonZeroU64::MIN.saturating_add(token.to_bits())
    }

    /// The latest open connection that a client has offered, for an object in that encoding, but for one that is to be left.
    pub(crate) fn find_accepted(
        &self,
        offered: &Offered,
        (version, chars): (Version, CharSet),
        but: Option<Token>,
    ) -> Option<Token> {
        let mut tokens = offered.connections().map(|handle| Token::from_bits(handle.get() - 1));
        tokens.find(|token| {
            let fits = |connection: &Outgoing| {
                connection.is_accepted() && version == Version::V1_2 && connection.endpoint.chars == chars
            };
            Some(*token) != but && self.connections.get(*token).is_some_and(fits)
        })
    }

    /// An open connection that the client of a call has offered, and the target there.
    pub(crate) fn find_accepted_for(
        &self,
        offered: Option<&Arc<Offered>>,
        reference: &giop::ior::Ior,
    ) -> Option<(Token, Target)> {
        let offered = offered.filter(|offered| !offered.is_empty())?;
        let target = Target::of(reference)?;
        let token = self.find_accepted(offered, (target.version, target.chars), None)?;
        Some((token, target))
    }

    /// Sets the code set that a client uses on its connection.
    pub(crate) fn set_chars(&mut self, token: Token, chars: CharSet) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.endpoint.chars = chars;
        }
    }

    /// Notes that something came from the client.
    pub(crate) fn note_input(&mut self, token: Token, cx: &Context) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.silent_since = cx.clock.now;
        }
    }

    /// Notes that the socket is full of the client's other output.
    pub(crate) fn note_full(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token) {
            (connection.rounds.interest.write, connection.rounds.is_deferred) = (true, false);
        }
    }

    /// Writes output for a client to its connection.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush_accepted(
        &mut self,
        token: Token,
        stream: &mut Stream,
        cx: &mut Context,
    ) -> io::Result<Flushed> {
        let Some(connection) = self.connections.get_mut(token) else { return Ok(Flushed::All) };
        let flushed = connection.output.flush(stream, &mut cx.io.spares, usize::MAX)?;
        (connection.rounds.interest.write, connection.rounds.is_deferred) = (flushed != Flushed::All, false);
        self.note_written(token, cx);
        Ok(flushed)
    }
}

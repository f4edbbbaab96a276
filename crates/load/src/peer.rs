//! A connection to a contender, on which whole GIOP messages are read.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use giop::connection::{Connection, Side};
use giop::framing::{Inbound, Limits, Message};
use giop::message::Reply;

use crate::wire::{self, Stamp};
use crate::{BenchError, Form, clock};

/// One end of a connection: a client's, or a consumer's that is called.
#[derive(Debug)]
pub struct Peer<W> {
    /// The other end, in error messages.
    pub name: &'static str,
    /// The connection.
    pub stream: TcpStream,
    inbound: Inbound,
    /// Requests that wait for their replies, and what their senders keep until then.
    pub requests: Connection<W>,
}

/// What came of reading once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// Octets; the clock right after it.
    At(u64),
    /// Nothing is there yet, or came in time.
    Nothing,
    /// The other end has closed the connection.
    Closed,
}

impl<W: Debug> Peer<W> {
    /// That side of a connection to an end of this name.
    pub fn new(name: &'static str, side: Side, stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        Ok(Self { name, stream, inbound: Inbound::new(Limits::default()), requests: Connection::new(side) })
    }

    /// Reads once.
    pub fn look(&mut self) -> Result<Came, BenchError> {
        loop {
            match self.stream.read(self.inbound.space()) {
                Ok(0) => return Ok(Came::Closed),
                Ok(count) => {
                    let at = clock::now();
                    self.inbound.filled(count);
                    return Ok(Came::At(at));
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(Came::Nothing),
                    ErrorKind::ConnectionReset => return Ok(Came::Closed),
                    _ => return Err(BenchError::Io { doing: "reading from a contender", source: error }),
                },
            }
        }
    }

    /// Reads once from an end that does not close; the clock right after it, or `None` where nothing came.
    pub fn read(&mut self) -> Result<Option<u64>, BenchError> {
        match self.look()? {
            Came::At(at) => Ok(Some(at)),
            Came::Nothing => Ok(None),
            Came::Closed => Err(self.broken("closed a connection")),
        }
    }

    /// Sends a request, and keeps that until its reply.
    pub fn send(&mut self, request: &[u8], kept: W) -> Result<(), BenchError> {
        self.stream.write_all(request).map_err(BenchError::io("writing to a contender"))?;
        self.requests.sent(Some(kept));
        Ok(())
    }

    /// The next reply that is complete, with what was kept for it; it must be a success.
    pub fn next_reply(&mut self) -> Result<Option<(W, Reply<'_>, Message<'_>)>, BenchError> {
        wire::next_reply(self.name, &mut self.requests, &mut self.inbound)
    }

    /// Waits until no more than so many requests are unanswered; the clock right after the last read.
    pub fn await_replies(&mut self, unanswered: usize) -> Result<u64, BenchError> {
        let mut last = 0;
        while self.requests.waiting() > unanswered {
            last = self.read()?.ok_or_else(|| self.broken("kept silent"))?;
            while self.next_reply()?.is_some() {}
        }
        Ok(last)
    }

    /// The error of an end that does what it should not.
    pub fn broken(&self, reason: impl Into<String>) -> BenchError {
        BenchError::Protocol { contender: self.name.to_owned(), reason: reason.into() }
    }
}

impl Peer<()> {
    /// Passes on the events of the next reply to a pull; false if there is no reply yet.
    pub fn next_pulled(&mut self, form: Form, found: &mut impl FnMut(Stamp)) -> Result<bool, BenchError> {
        wire::next_pulled(self.name, &mut self.requests, &mut self.inbound, form, found)
    }
}

impl Peer<Infallible> {
    /// The next request that is complete; none behind a `CloseConnection`. Whether GIOP is spoken here is answered.
    pub fn next_request(&mut self) -> Result<Option<Message<'_>>, BenchError> {
        wire::next_request(self.name, &mut self.requests, &mut self.inbound, &mut self.stream)
    }
}

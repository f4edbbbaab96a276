//! Connections of callers to a consumer's listener, and their requests.

use std::convert::Infallible;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use giop::connection::Side;
use giop::framing::Message;
use giop::message::{Request, Response};

use crate::peer::{Came, Peer};
use crate::poll::Poll;
use crate::{BenchError, wire};

/// Poll key of the listener; connections use their index.
const LISTENER: u64 = u64::MAX;

/// A consumer's listener and connections, on one poll.
#[derive(Debug)]
pub struct Callers {
    /// Name of the callers, in error messages.
    name: &'static str,
    listener: TcpListener,
    connections: Vec<Option<Peer<Infallible>>>,
    poll: Poll,
    /// Pending replies, and whether those to all requests of one read are written at once.
    replies: Vec<u8>,
    answers_at_once: bool,
}

impl Callers {
    /// Callers of that listener, with their `name` in error messages.
    pub fn new(name: &'static str, listener: TcpListener) -> Result<Self, BenchError> {
        listener.set_nonblocking(true).map_err(BenchError::io("making a consumer's listener not block"))?;
        let poll = Poll::new()?;
        poll.add(&listener, LISTENER)?;
        Ok(Self { name, listener, connections: Vec::new(), poll, replies: Vec::new(), answers_at_once: false })
    }

    /// Writes the replies to all requests of one read at once, as a consumer for many events a second does: otherwise each reply costs both
    /// sides as much as an event.
    #[must_use]
    pub fn answering_at_once(mut self) -> Self {
        self.answers_at_once = true;
        self
    }

    /// Address of the listener.
    pub fn address(&self) -> Result<SocketAddr, BenchError> {
        self.listener.local_addr().map_err(BenchError::io("reading the address of a consumer"))
    }

    /// Waits for input, for so many nanoseconds at most if given, and handles complete messages: `take` is called for each payload with the
    /// time right after the read that completed it. Calls that expect a reply get one if `answers`, after `take`.
    pub fn wait(
        &mut self,
        within: Option<u64>,
        answers: bool,
        mut take: impl FnMut(&[u8], u64) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        for key in self.poll.wait(within)? {
            if key == LISTENER {
                self.accept()?;
            } else {
                self.read(usize::try_from(key).unwrap_or(usize::MAX), answers, &mut take)?;
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<(), BenchError> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(source) => return Err(BenchError::Io { doing: "accepting a connection to a consumer", source }),
        };
        self.poll.add(&stream, u64::try_from(self.connections.len()).unwrap_or(LISTENER))?;
        self.connections.push(Some(Peer::new(self.name, Side::Server, stream)?));
        Ok(())
    }

    /// Reads once and handles complete messages. Only called when there is input.
    fn read(
        &mut self,
        index: usize,
        answers: bool,
        take: &mut impl FnMut(&[u8], u64) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let Some(slot) = self.connections.get_mut(index) else { return Ok(()) };
        let Some(caller) = slot else { return Ok(()) };
        let at = match caller.look()? {
            Came::At(at) => at,
            Came::Nothing => return Ok(()),
            Came::Closed => {
                *slot = None; // closing it also ends its being polled
                return Ok(());
            }
        };
        while let Some(message) = caller.next_request()? {
            let header = message.header;
            let Request { request_id, response, .. } =
                take_events(self.name, &message, &mut |payload| take(payload, at))?;
            if answers && response != Response::None {
                wire::write_reply(&mut self.replies, &header, request_id);
                if !self.answers_at_once {
                    answer(&mut caller.stream, &mut self.replies)?;
                }
            }
        }
        answer(&mut caller.stream, &mut self.replies)
    }
}

/// Writes the pending replies.
fn answer(stream: &mut TcpStream, replies: &mut Vec<u8>) -> Result<(), BenchError> {
    if !replies.is_empty() {
        stream.write_all(replies).map_err(BenchError::io("answering a contender"))?;
        replies.clear();
    }
    Ok(())
}

/// Passes on the payloads of a request's events.
fn take_events<'a>(
    name: &'static str,
    message: &Message<'a>,
    take: &mut impl FnMut(&[u8]) -> Result<(), BenchError>,
) -> Result<Request<'a>, BenchError> {
    let mut taken = Ok(());
    let mut next = |payload: &'a [u8]| {
        if taken.is_ok() {
            taken = take(payload);
        }
    };
    let request = wire::read_push(message.bytes, &message.header, &mut next).map_err(|error| BenchError::Protocol {
        contender: name.to_owned(),
        reason: format!("sent a request that cannot be read: {error}"),
    })?;
    taken.map(|()| request)
}

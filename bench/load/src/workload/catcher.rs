//! The consumers: each a thread of its own, so that its processor time is its own.
//!
//! A consumer takes connections on its listener, one from the service or one from each supplier, reads every event
//! to its end, checks it, and answers it where an answer is expected.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use giop::connection::{self, Side};
use giop::framing::{Inbound, Limits};
use giop::message::Response;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::intake::Intake;
use super::{CatcherShared, Shared};
use crate::wire::{self, Stamp};
use crate::{BenchError, clock};

/// What the poll answers for the listener; connections have their index.
const LISTENER: u64 = u64::MAX;

/// The poll returns at least this often, to see whether all has come that was sent.
const LOOK_UP_EVERY: u64 = clock::SECOND / 20;

/// One consumer that is pushed to.
pub(super) struct Catcher {
    pub(super) intake: Intake,
    listener: TcpListener,
    answers: bool,
    connections: Vec<Option<Connection>>,
    reply: Vec<u8>,
    poll: OwnedFd,
    found: Vec<Stamp>,
}

struct Connection {
    stream: TcpStream,
    inbound: Inbound,
    requests: connection::Connection<Infallible>,
}

impl Catcher {
    /// A consumer that waits on this listener.
    pub(super) fn new(intake: Intake, listener: TcpListener, answers: bool) -> Result<Self, BenchError> {
        listener.set_nonblocking(true).map_err(BenchError::io("making a consumer's listener not block"))?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(polling)?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).map_err(polling)?;
        Ok(Self { intake, listener, answers, connections: Vec::new(), reply: Vec::new(), poll, found: Vec::new() })
    }

    /// Takes events until everything that was sent has come, or nothing has for a while.
    pub(super) fn run(mut self, own: &CatcherShared, shared: &Shared) -> Result<Self, BenchError> {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        loop {
            let count = match epoll::wait(&self.poll, &mut events, Some(&clock::to_timespec(LOOK_UP_EVERY))) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => 0,
                Err(errno) => return Err(polling(errno)),
            };
            for event in events.iter().take(count) {
                let data = event.data;
                if data.u64() == LISTENER {
                    self.accept()?;
                } else {
                    self.read(usize::try_from(data.u64()).unwrap_or(usize::MAX), own)?;
                }
            }
            if self.intake.is_done(shared) {
                return Ok(self);
            }
        }
    }

    fn accept(&mut self) -> Result<(), BenchError> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(source) => return Err(BenchError::Io { doing: "accepting a connection to a consumer", source }),
        };
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        let data = EventData::new_u64(u64::try_from(self.connections.len()).unwrap_or(LISTENER));
        epoll::add(&self.poll, &stream, data, EventFlags::IN).map_err(polling)?;
        let (inbound, requests) = (Inbound::new(Limits::default()), connection::Connection::new(Side::Server));
        self.connections.push(Some(Connection { stream, inbound, requests }));
        Ok(())
    }

    /// Reads once and takes what has come whole. Only ever called when there is something to read.
    fn read(&mut self, index: usize, own: &CatcherShared) -> Result<(), BenchError> {
        let Some(slot) = self.connections.get_mut(index) else { return Ok(()) };
        let Some(connection) = slot else { return Ok(()) };
        match connection.stream.read(connection.inbound.space()) {
            Ok(0) => {
                *slot = None; // closing it also ends its being polled
                return Ok(());
            }
            Ok(count) => connection.inbound.filled(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                *slot = None;
                return Ok(());
            }
            Err(source) => return Err(BenchError::Io { doing: "reading from a contender", source }),
        }
        let at = clock::now();
        let contender = self.intake.contender;
        let broken = |reason: String| BenchError::Protocol { contender: contender.to_owned(), reason };
        let Connection { stream, inbound, requests } = connection;
        while let Some(message) = wire::next_request(contender, requests, inbound)? {
            let found = &mut self.found;
            let request =
                wire::read_push(message.bytes, &message.header, self.intake.form, &mut |stamp| found.push(stamp))
                    .map_err(|error| broken(format!("sent a request that cannot be read: {error}")))?;
            for stamp in self.found.drain(..) {
                self.intake.take(stamp, at, own)?;
            }
            if self.answers && request.response != Response::None {
                self.reply.clear();
                wire::write_reply(&mut self.reply, &message.header, request.request_id);
                stream.write_all(&self.reply).map_err(BenchError::io("answering a contender"))?;
            }
        }
        Ok(())
    }
}

fn polling(errno: rustix::io::Errno) -> BenchError {
    BenchError::Io { doing: "polling a consumer's connections", source: errno.into() }
}

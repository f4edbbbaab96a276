//! The consumers: each a thread of its own, so that its processor time is its own.
//!
//! A consumer takes connections on its listener, one from the service or one from each supplier, reads every event
//! to its end, checks it, and answers it where an answer is expected.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use giop::framing::{Inbound, Limits};
use giop::message::{MessageKind, Response};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::{CatcherShared, Shared};
use crate::loss::{Ledger, Losses};
use crate::wire::{self, Phase, Received};
use crate::{BenchError, clock};

/// What the poll answers for the listener; connections have their index.
const LISTENER: u64 = u64::MAX;

/// The poll returns at least this often, to see whether all has come that was sent.
const LOOK_UP_EVERY: u64 = clock::SECOND / 20;

/// When nothing has come for this long although something is missing, it is lost.
const LOST_AFTER: u64 = 3 * clock::SECOND;

/// One consumer.
pub(crate) struct Catcher {
    contender: &'static str,
    listener: TcpListener,
    answers: bool,
    /// Which of the traffics it takes.
    pub(super) traffic: usize,
    ledgers: Vec<Ledger>,
    connections: Vec<Option<Connection>>,
    reply: Vec<u8>,
    poll: OwnedFd,
    received: u64,
    last: u64,
}

struct Connection {
    stream: TcpStream,
    inbound: Inbound,
}

impl Catcher {
    /// A consumer of one traffic, which has so many suppliers, waiting on this listener.
    pub(crate) fn new(
        contender: &'static str,
        listener: TcpListener,
        answers: bool,
        traffic: usize,
        suppliers: u32,
    ) -> Result<Self, BenchError> {
        listener.set_nonblocking(true).map_err(BenchError::io("making a consumer's listener not block"))?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(polling)?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).map_err(polling)?;
        let suppliers = usize::try_from(suppliers).unwrap_or(0);
        Ok(Self {
            contender,
            listener,
            answers,
            traffic,
            ledgers: vec![Ledger::default(); suppliers],
            connections: Vec::new(),
            reply: Vec::new(),
            poll,
            received: 0,
            last: 0,
        })
    }

    /// Takes events until everything that was sent has come, or nothing has for a while; what each supplier's events
    /// came to, given how many each sent.
    pub(crate) fn run(mut self, own: &CatcherShared, shared: &Shared) -> Result<Self, BenchError> {
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
            if shared.sending_is_over.load(Ordering::Acquire) && self.is_done(shared) {
                return Ok(self);
            }
        }
    }

    fn is_done(&self, shared: &Shared) -> bool {
        let sent = shared.sent.get(self.traffic).map_or(0, |sent| sent.load(Ordering::Relaxed));
        let since = self.last.max(shared.over_since.load(Ordering::Relaxed));
        self.received >= sent || clock::now().saturating_sub(since) > LOST_AFTER
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
        self.connections.push(Some(Connection { stream, inbound: Inbound::new(Limits::default()) }));
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
        let contender = self.contender;
        let broken = |reason: String| BenchError::Protocol { contender: contender.to_owned(), reason };
        while let Some(message) = connection.inbound.poll_message().map_err(|error| broken(error.to_string()))? {
            if message.header.kind == MessageKind::CloseConnection {
                continue; // its end follows
            }
            if message.header.kind != MessageKind::Request {
                return Err(broken(format!("sent a {} to a consumer", message.header.kind)));
            }
            let (request, received) = wire::read_request(message.bytes, &message.header)
                .map_err(|error| broken(format!("sent a request that cannot be read: {error}")))?;
            if let Received::Event(stamp) = received {
                let supplier = usize::try_from(stamp.supplier).unwrap_or(usize::MAX);
                let change = self
                    .ledgers
                    .get_mut(supplier)
                    .and_then(|ledger| {
                        let before = ledger.missing();
                        ledger.enter(stamp.number).ok().map(|()| ledger.missing().wrapping_sub(before))
                    })
                    .ok_or_else(|| broken("delivered an event that nobody sent".to_owned()))?;
                if change != 0 {
                    own.missing.fetch_add(change, Ordering::Relaxed);
                }
                self.received += 1;
                self.last = at;
                own.received.fetch_add(1, Ordering::Relaxed);
                if stamp.phase == Phase::Measured {
                    let mut latency = own.latency.lock().unwrap_or_else(PoisonError::into_inner);
                    latency.since_sent.record(at.saturating_sub(stamp.sent));
                    latency.since_due.record(at.saturating_sub(stamp.due));
                }
            }
            if self.answers && request.response != Response::None {
                self.reply.clear();
                wire::write_reply(&mut self.reply, &message.header, request.request_id);
                connection.stream.write_all(&self.reply).map_err(BenchError::io("answering a contender"))?;
            }
        }
        Ok(())
    }

    /// What became of the events of each supplier, given how many each sent.
    pub(crate) fn losses(&self, sent: &[u64]) -> Losses {
        let mut losses = Losses::default();
        for (ledger, &sent) in self.ledgers.iter().zip(sent) {
            losses.add(ledger.balance(sent));
        }
        losses
    }
}

fn polling(errno: rustix::io::Errno) -> BenchError {
    BenchError::Io { doing: "polling a consumer's connections", source: errno.into() }
}

//! The consumers of a process: each a thread that takes what comes, does the work that it asks for, and answers.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use giop::connection::{self, Side};
use giop::framing::{Inbound, Limits};
use giop::message::Response;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::{Payload, Recording, Sample};
use crate::experiments::primes;
use crate::{BenchError, campanile, clock, wire};

/// Who pushes to it, in error messages.
const PEER: &str = "the one that pushes to a consumer";

/// What the poll answers for the listener; connections have their index.
const LISTENER: u64 = u64::MAX;

/// Room for the events of one run, taken in advance so that recording one takes no memory.
const SAMPLES_FIRST: usize = 1 << 12;

/// How long a path may take to come to its end, once the suppliers are done.
const END_WITHIN: Duration = Duration::from_secs(60);

/// All consumers of a process.
pub(super) struct Consumers {
    recording: Arc<Mutex<Recording>>,
    /// What each path's consumer got in the run that is recorded; or why it has ended.
    ended: Vec<mpsc::Receiver<Result<Vec<Sample>, BenchError>>>,
}

impl Consumers {
    /// Starts so many consumers, and says where they listen.
    pub(super) fn listen(count: usize) -> Result<(Self, Vec<SocketAddr>), BenchError> {
        let recording = Arc::new(Mutex::new(Recording { number: 0, divisions: 0, work_until: 0, every: 1 }));
        let mut consumers = Self { recording, ended: Vec::new() };
        let mut addresses = Vec::new();
        for _ in 0..count {
            let listener = campanile::listen()?;
            addresses.push(listener.local_addr().map_err(BenchError::io("reading the address of a consumer"))?);
            let (tell, ended) = mpsc::channel();
            let mut consumer = Consumer::new(listener, Arc::clone(&consumers.recording), tell.clone())?;
            let consume = move || {
                if let Err(error) = consumer.run() {
                    // Nobody listens only when the process is about to end.
                    let _ = tell.send(Err(error));
                }
            };
            thread::Builder::new().spawn(consume).map_err(BenchError::io("starting a consumer"))?;
            consumers.ended.push(ended);
        }
        Ok((consumers, addresses))
    }

    /// From now on, events of this run are recorded.
    pub(super) fn record(&self, recording: Recording) {
        *self.recording.lock().unwrap_or_else(PoisonError::into_inner) = recording;
    }

    /// What came on each path, once all have come to their end.
    pub(super) fn collect(&self) -> Result<Vec<Vec<Sample>>, BenchError> {
        let late = |_| broken("did not deliver the last event of a run within 60 s".to_owned());
        self.ended.iter().map(|ended| ended.recv_timeout(END_WITHIN).map_err(late)?).collect()
    }
}

struct Consumer {
    listener: TcpListener,
    poll: OwnedFd,
    connections: Vec<Option<Connection>>,
    reply: Vec<u8>,
    recording: Arc<Mutex<Recording>>,
    samples: Vec<Sample>,
    ended: mpsc::Sender<Result<Vec<Sample>, BenchError>>,
}

struct Connection {
    stream: TcpStream,
    inbound: Inbound,
    requests: connection::Connection<Infallible>,
}

impl Consumer {
    fn new(
        listener: TcpListener,
        recording: Arc<Mutex<Recording>>,
        ended: mpsc::Sender<Result<Vec<Sample>, BenchError>>,
    ) -> Result<Self, BenchError> {
        listener.set_nonblocking(true).map_err(BenchError::io("making a consumer's listener not block"))?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(polling)?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).map_err(polling)?;
        let samples = Vec::with_capacity(SAMPLES_FIRST);
        Ok(Self { listener, poll, connections: Vec::new(), reply: Vec::new(), recording, samples, ended })
    }

    /// Takes events until the process ends.
    fn run(&mut self) -> Result<(), BenchError> {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 16];
        loop {
            let count = match epoll::wait(&self.poll, &mut events, None) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => 0,
                Err(errno) => return Err(polling(errno)),
            };
            for event in events.iter().take(count) {
                let data = event.data;
                if data.u64() == LISTENER {
                    self.accept()?;
                } else {
                    self.read(usize::try_from(data.u64()).unwrap_or(usize::MAX))?;
                }
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
    fn read(&mut self, index: usize) -> Result<(), BenchError> {
        let Some(slot) = self.connections.get_mut(index) else { return Ok(()) };
        let Some(mut connection) = slot.take() else { return Ok(()) };
        match connection.stream.read(connection.inbound.space()) {
            // Closing it, as it is dropped here, also ends its being polled.
            Ok(0) => return Ok(()),
            Ok(count) => connection.inbound.filled(count),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(BenchError::Io { doing: "reading an event", source }),
        }
        let received = clock::now();
        let Connection { stream, inbound, requests } = &mut connection;
        while let Some(message) = wire::next_request(PEER, requests, inbound)? {
            let recording = *self.recording.lock().unwrap_or_else(PoisonError::into_inner);
            let mut take =
                |payload| Payload::read(payload).map_or((), |payload| self.take(recording, payload, received));
            let request = wire::read_pushed(message.bytes, &message.header, &mut take)
                .map_err(|error| broken(format!("sent a request that cannot be read: {error}")))?;
            if request.response != Response::None {
                self.reply.clear();
                wire::write_reply(&mut self.reply, &message.header, request.request_id);
                stream.write_all(&self.reply).map_err(BenchError::io("answering a push"))?;
            }
        }
        if let Some(slot) = self.connections.get_mut(index) {
            *slot = Some(connection);
        }
        Ok(())
    }

    /// Does an event's work and records it.
    fn take(&mut self, recording: Recording, payload: Payload, received: u64) {
        let Recording { number, divisions, work_until, every } = recording;
        let Payload { due, sent, run, load, end, number: event } = payload;
        if run != number {
            return;
        }
        if end {
            let samples = std::mem::replace(&mut self.samples, Vec::with_capacity(SAMPLES_FIRST));
            // Nobody listens only when the process is about to end.
            let _ = self.ended.send(Ok(samples));
            return;
        }
        if received < work_until {
            primes::compute(load, divisions);
        }
        if event.is_multiple_of(every.max(1)) {
            self.samples.push(Sample { due, sent, received, processed: clock::now() });
        }
    }
}

fn polling(errno: rustix::io::Errno) -> BenchError {
    BenchError::Io { doing: "polling a consumer's connections", source: errno.into() }
}

fn broken(reason: String) -> BenchError {
    BenchError::Protocol { contender: PEER.to_owned(), reason }
}

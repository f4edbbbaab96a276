//! Consumers: one thread that polls all their connections, takes what there is, and answers it in one write.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use load::poll::Poll;

use super::ends::{Answer, Order, Received, Recording, Subscribe, not_its_part};
use super::lines::Lines;
use super::protocol::{Subscribing, broken, unreachable_peer};
use super::record::Record;
use crate::process::say_answer;
use crate::{BenchError, Output, campanile, clock};

/// What epoll answers for the orders, and for the listener; connections have their index.
const ORDERS: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// Octets that a connection is read at once; grown for a larger message.
const READ_BYTES: usize = 256 * 1024;

/// The consumers of a process.
pub(super) struct Subscriber {
    subscribe: Subscribe,
    listener: Option<TcpListener>,
    poll: Poll,
    connections: Vec<Option<Connection>>,
    record: Record,
    collecting: Option<Collecting>,
}

struct Connection {
    stream: TcpStream,
    protocol: Box<dyn Subscribing>,
    buffer: Vec<u8>,
    /// What was read and not understood yet lies here.
    unread: std::ops::Range<usize>,
    answers: Vec<u8>,
    /// The last event's number, and how many copies of it have come, where copies stand for consumers.
    last: Option<u64>,
    copies: usize,
}

/// What is waited for before an answer is given.
struct Collecting {
    deliveries: u64,
    events: u64,
    quiet: u64,
    since: u64,
}

impl Subscriber {
    /// Listens, or connects.
    pub(super) fn new(subscribe: &Subscribe) -> Result<Self, BenchError> {
        let poll = Poll::new()?;
        let record = Record::new(subscribe.targets.len());
        let mut subscriber = Self {
            subscribe: subscribe.clone(),
            listener: None,
            poll,
            connections: Vec::new(),
            record,
            collecting: None,
        };
        if let Some(address) = subscribe.address {
            let stream = TcpStream::connect(address).map_err(|source| unreachable_peer(address, &source))?;
            subscriber.add(stream)?;
        } else {
            let listener = campanile::listen()?;
            listener.set_nonblocking(true).map_err(BenchError::io("making a consumer's listener not block"))?;
            subscriber.poll.add(&listener, LISTENER)?;
            subscriber.listener = Some(listener);
        }
        Ok(subscriber)
    }

    /// Takes events, and carries out orders, until nothing more comes.
    pub(super) fn obey(mut self, mut orders: Lines, out: &mut Output<'_>) -> Result<(), BenchError> {
        self.poll.add(&orders, ORDERS)?;
        let listening = self.listener.as_ref().map(TcpListener::local_addr).transpose();
        let listening = listening.map_err(BenchError::io("reading the address of a consumer"))?;
        say_answer(out, &listening.map_or(Answer::Ready, Answer::Listening))?;
        while !orders.ended() {
            let until = self.collecting.as_ref().map(|collecting| {
                self.silent_since(collecting).saturating_add(collecting.quiet).saturating_sub(clock::now())
            });
            for key in self.poll.wait(until)? {
                match key {
                    ORDERS => orders.read()?,
                    LISTENER => self.accept()?,
                    index => self.read(usize::try_from(index).unwrap_or(usize::MAX))?,
                }
            }
            while let Some(order) = orders.next()? {
                self.order(order, out)?;
            }
            self.tell(out)?;
        }
        Ok(())
    }

    fn order(&mut self, order: Order, out: &mut Output<'_>) -> Result<(), BenchError> {
        match order {
            Order::Record(recording) => {
                self.begin(recording);
                say_answer(out, &Answer::Ready)
            }
            Order::Collect { events, quiet } => {
                let consumers = u64::try_from(self.subscribe.targets.len()).unwrap_or(0);
                let deliveries = events.saturating_mul(consumers);
                self.collecting = Some(Collecting { deliveries, events, quiet, since: clock::now() });
                Ok(())
            }
            Order::TellLate => say_answer(out, &Answer::Late(self.record.take_late())),
            order => Err(not_its_part(&order)),
        }
    }

    fn begin(&mut self, recording: Recording) {
        self.record.begin(recording);
        for connection in self.connections.iter_mut().flatten() {
            connection.last = None;
        }
    }

    /// Since when nothing has come that is waited for.
    fn silent_since(&self, collecting: &Collecting) -> u64 {
        collecting.since.max(self.record.last_arrival())
    }

    /// Tells what came when all of it has, or nothing comes any more.
    fn tell(&mut self, out: &mut Output<'_>) -> Result<(), BenchError> {
        let Some(collecting) = &self.collecting else { return Ok(()) };
        let silent = clock::now().saturating_sub(self.silent_since(collecting)) >= collecting.quiet;
        if self.record.deliveries() < collecting.deliveries && !silent {
            return Ok(());
        }
        let received: Received = self.record.end(collecting.events);
        self.collecting = None;
        say_answer(out, &Answer::Received(Box::new(received)))
    }

    fn accept(&mut self) -> Result<(), BenchError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        match listener.accept() {
            Ok((stream, _)) => self.add(stream),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(source) => Err(BenchError::Io { doing: "accepting a connection to a consumer", source }),
        }
    }

    fn add(&mut self, mut stream: TcpStream) -> Result<(), BenchError> {
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        let protocol = self.subscribe.protocol.subscribing(&self.subscribe.targets);
        let greeting = protocol.greeting(&self.subscribe.targets);
        stream.write_all(&greeting).map_err(BenchError::io("greeting a contender"))?;
        self.poll.add(&stream, u64::try_from(self.connections.len()).unwrap_or(LISTENER))?;
        let buffer = vec![0; READ_BYTES];
        let connection =
            Connection { stream, protocol, buffer, unread: 0..0, answers: Vec::new(), last: None, copies: 0 };
        self.connections.push(Some(connection));
        Ok(())
    }

    /// Reads a connection once. Only ever called when there is something to read.
    fn read(&mut self, index: usize) -> Result<(), BenchError> {
        let Self { connections, record, subscribe, .. } = self;
        let Some(slot) = connections.get_mut(index) else { return Ok(()) };
        let Some(connection) = slot else { return Ok(()) };
        match connection.stream.read(connection.buffer.get_mut(connection.unread.end..).unwrap_or_default()) {
            Ok(0) => {
                // Closing it also ends its being polled.
                *slot = None;
                return Ok(());
            }
            Ok(count) => connection.unread.end += count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                *slot = None;
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(source) => return Err(BenchError::Io { doing: "reading events", source }),
        }
        connection.take(record, subscribe.copies)
    }
}

impl Connection {
    /// Takes what has come whole.
    fn take(&mut self, record: &mut Record, copied: bool) -> Result<(), BenchError> {
        let arrival = clock::now();
        let Self { protocol, buffer, unread, answers, last, copies, stream } = self;
        let mut implausible = false;
        let mut found = |consumer: usize, stamp: crate::wire::Stamp| {
            let consumer = if copied {
                *copies = if *last == Some(stamp.number) { *copies + 1 } else { 0 };
                *last = Some(stamp.number);
                *copies
            } else {
                consumer
            };
            implausible |= record.enter(consumer, stamp, arrival).is_err();
        };
        let taken = protocol.take(buffer.get(unread.clone()).unwrap_or_default(), answers, &mut found)?;
        if implausible {
            return Err(broken("delivered an event with an impossible number"));
        }
        unread.start += taken;
        if !answers.is_empty() {
            stream.write_all(answers).map_err(BenchError::io("answering events"))?;
            answers.clear();
        }
        if unread.start == unread.end {
            *unread = 0..0;
        } else if buffer.len() - unread.end < READ_BYTES / 4 {
            buffer.copy_within(unread.clone(), 0);
            *unread = 0..unread.len();
            if buffer.len() - unread.end < READ_BYTES / 4 {
                buffer.resize(buffer.len() * 2, 0);
            }
        }
        Ok(())
    }
}

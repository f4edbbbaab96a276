//! The suppliers and consumers of an experiment: processes of their own, ordered what to do line by line.
//!
//! The experimenter starts `bench party-process` (hidden), leashed, confined to a core and at a real-time priority where
//! the experiment wants that, and talks to it in lines of JSON: an [`Order`] in, its answer out. A process is either
//! all suppliers or all consumers of one kind of path; each path has a thread. While events flow nothing is said: when
//! to send what is part of the order, and what happened is reported when all of it is over. So the experimenter needs no
//! processor time while it matters, and a party of low priority may take as long as it has to.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ability::Seat;
use super::primes;
use crate::campanile::ProxyAddress;
use crate::process::{Subordinate, take_orders};
use crate::{BenchError, Output, system};

mod consumer;
mod supplier;

use consumer::Consumers;
use supplier::Suppliers;

pub(crate) const COMMAND: &str = "party-process";

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Be the suppliers of these paths, and connect.
    Supply(Vec<SupplierPath>),
    /// Be the consumers of so many paths, and listen; answered by where, in the order of the paths.
    Consume(usize),
    /// Find out what a unit of load is: how many divisions make it, and how many nanoseconds it takes.
    Calibrate,
    /// Record the events of this run, and do their work.
    Record(Recording),
    /// Send a run's events; answered by what each path [sent](Sent), when the last has left.
    Send(Run),
    /// Tell what came in the run that is recorded, the [`Sample`]s of each path; answered when every path has come to its end.
    Collect,
}

/// Where a supplier's events go and what they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SupplierPath {
    /// Address of the peer that they are pushed to.
    pub(super) address: SocketAddr,
    /// The object key there.
    pub(super) key: Vec<u8>,
    /// The name of their type.
    pub(super) event_type: String,
    /// The CORBA priority sent with each request (`RTCorbaPriority`); `None`: none is sent.
    pub(super) priority: Option<i16>,
    pub(super) payload_bytes: usize,
    /// Pushes that may be unanswered. 1: the next leaves when the one before has returned.
    pub(super) unanswered_max: u32,
    /// Whether it pushes sequences, of as many events as a [`Piece`] says.
    pub(super) sequences: bool,
}

impl SupplierPath {
    /// One to that proxy, or that client, without a priority: each event is answered before the next one leaves.
    pub(super) fn to(ProxyAddress { address, key }: ProxyAddress, event_type: &str) -> Self {
        Self {
            address,
            key,
            event_type: event_type.to_owned(),
            priority: None,
            payload_bytes: super::PAYLOAD_BYTES,
            unanswered_max: 1,
            sequences: false,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Run {
    /// Its number; every event carries it.
    pub(super) number: u32,
    /// What each path's supplier sends.
    pub(super) paths: Vec<Schedule>,
}

/// What a supplier sends in a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Schedule {
    /// The load that each event carries.
    pub(super) load: u32,
    /// One after the other.
    pub(super) pieces: Vec<Piece>,
}

/// Events at equal distances. What is late leaves as soon as it can; what has not left when the piece is over never does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Piece {
    /// When the first is due, on the monotonic clock.
    pub(super) from: u64,
    /// None leaves at this time or later.
    pub(super) until: u64,
    /// From one to the next, in nanoseconds. 0: each leaves as soon as the one before has returned.
    pub(super) period: u64,
    /// Events that are pushed at once, due at the same time. More than 1 only where sequences are pushed.
    pub(super) events: u32,
}

/// A run, for one process of consumers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Recording {
    /// Its number; events that carry another are answered and otherwise ignored.
    pub(super) number: u32,
    /// Divisions in a unit of load.
    pub(super) divisions: u64,
    /// No work is done from this time on: what then still waits goes by quickly.
    pub(super) work_until: u64,
    /// One event in so many is recorded, by its number.
    pub(super) every: u32,
}

/// What a supplier did in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) events: u64,
    /// Of these, how many left late because a push before had not returned.
    pub(super) late: u64,
}

/// One event that came, in nanoseconds of the monotonic clock. It travels as four short numbers: there may be many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 4]", into = "[u64; 4]")]
pub(super) struct Sample {
    pub(super) due: u64,
    /// When it was sent: read right before the write.
    pub(super) sent: u64,
    /// When it was received: read right after the read that completed the message.
    pub(super) received: u64,
    /// When its work was done.
    pub(super) processed: u64,
}

impl From<[u64; 4]> for Sample {
    fn from([due, waited, travelled, worked]: [u64; 4]) -> Self {
        let sent = due.saturating_add(waited);
        let received = sent.saturating_add(travelled);
        Self { due, sent, received, processed: received.saturating_add(worked) }
    }
}

impl From<Sample> for [u64; 4] {
    fn from(sample: Sample) -> Self {
        let Sample { due, sent, received, processed } = sample;
        [due, sent.saturating_sub(due), received.saturating_sub(sent), processed.saturating_sub(received)]
    }
}

/// What is at the beginning of a payload, in the machine's byte order.
///
/// ```text
/// 0      8      16       20    24     28   32
/// | due  | sent | number | run | load | end |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Payload {
    due: u64,
    sent: u64,
    /// Counts the path's events in the run.
    number: u32,
    run: u32,
    load: u32,
    /// Whether it is no event but says that the run is over.
    end: bool,
}

const PAYLOAD_LEN: usize = 32;

impl Payload {
    fn to_bytes(self) -> [u8; PAYLOAD_LEN] {
        let Self { due, sent, number, run, load, end } = self;
        let mut bytes = [0; PAYLOAD_LEN];
        let times = [due.to_ne_bytes(), sent.to_ne_bytes()];
        let rest = [number.to_ne_bytes(), run.to_ne_bytes(), load.to_ne_bytes(), u32::from(end).to_ne_bytes()];
        for (byte, &field) in bytes.iter_mut().zip(times.iter().flatten().chain(rest.iter().flatten())) {
            *byte = field;
        }
        bytes
    }

    fn read(payload: &[u8]) -> Option<Self> {
        let (&due, rest) = payload.split_first_chunk()?;
        let (&sent, rest) = rest.split_first_chunk()?;
        let (&number, rest) = rest.split_first_chunk()?;
        let (&run, rest) = rest.split_first_chunk()?;
        let (&load, rest) = rest.split_first_chunk()?;
        let (&end, _) = rest.split_first_chunk()?;
        Some(Self {
            due: u64::from_ne_bytes(due),
            sent: u64::from_ne_bytes(sent),
            number: u32::from_ne_bytes(number),
            run: u32::from_ne_bytes(run),
            load: u32::from_ne_bytes(load),
            end: u32::from_ne_bytes(end) != 0,
        })
    }
}

/// The suppliers and the consumers of some paths: a process of each. Ended in this order.
pub(super) struct Group {
    suppliers: Subordinate,
    consumers: Subordinate,
}

impl Group {
    /// Starts so many consumers, lets `connect` put something between, and starts suppliers, which push to where that says.
    pub(super) fn start(
        Seat { core, fifo }: Seat,
        paths: usize,
        connect: impl FnMut(SocketAddr) -> Result<SupplierPath, BenchError>,
    ) -> Result<Self, BenchError> {
        let mut consumers = Subordinate::start("the consumers' process", COMMAND, core, fifo)?;
        let addresses: Vec<SocketAddr> = consumers.ask(&Order::Consume(paths))?;
        let paths = addresses.into_iter().map(connect).collect::<Result<_, _>>()?;
        let mut suppliers = Subordinate::start("the suppliers' process", COMMAND, core, fifo)?;
        suppliers.ask::<()>(&Order::Supply(paths))?;
        Ok(Self { suppliers, consumers })
    }

    pub(super) fn record(&mut self, recording: Recording) -> Result<(), BenchError> {
        self.consumers.ask(&Order::Record(recording))
    }

    /// Orders a run, and returns at once.
    pub(super) fn send(&mut self, run: Run) -> Result<(), BenchError> {
        self.suppliers.order(&Order::Send(run))
    }

    /// Waits until the run is over; what was sent and what came on each path.
    pub(super) fn collect(&mut self) -> Result<Vec<(Sent, Vec<Sample>)>, BenchError> {
        let sent: Vec<Sent> = self.suppliers.answer()?;
        let received: Vec<Vec<Sample>> = self.consumers.ask(&Order::Collect)?;
        Ok(sent.into_iter().zip(received).collect())
    }

    pub(super) fn cpu(&self) -> Result<u64, BenchError> {
        let both = [&self.suppliers, &self.consumers].map(|party| system::process_cpu(party.pid()));
        both.into_iter().sum::<io::Result<u64>>().map_err(BenchError::io("reading a party's processor time"))
    }
}

/// What the process is, once it has its order.
enum Role {
    None,
    Suppliers(Suppliers),
    Consumers(Consumers),
}

/// Runs a party until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut role = Role::None;
    take_orders(out, |order| role.obey(order))
}

impl Role {
    fn obey(&mut self, order: Order) -> Result<Value, BenchError> {
        match (order, &mut *self) {
            (Order::Supply(paths), _) => {
                *self = Self::Suppliers(Suppliers::connect(paths)?);
                Ok(Value::Null)
            }
            (Order::Consume(paths), _) => {
                let (consumers, addresses) = Consumers::listen(paths)?;
                *self = Self::Consumers(consumers);
                Ok(json!(addresses))
            }
            (Order::Calibrate, _) => {
                let divisions = primes::divisions_per_unit();
                Ok(json!((divisions, primes::unit_ns(divisions))))
            }
            (Order::Send(run), Self::Suppliers(suppliers)) => Ok(json!(suppliers.send(&run)?)),
            (Order::Record(recording), Self::Consumers(consumers)) => {
                consumers.record(recording);
                Ok(Value::Null)
            }
            (Order::Collect, Self::Consumers(consumers)) => Ok(json!(consumers.collect()?)),
            (order, _) => Err(BenchError::Process {
                name: COMMAND.to_owned(),
                reason: format!("was told what is not its part: {order:?}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: Payload = Payload { due: 1, sent: u64::MAX, number: 3, run: 4, load: 5, end: true };

    #[test]
    fn reads_back_the_payload_it_wrote() {
        for payload in [PAYLOAD, Payload { end: false, ..PAYLOAD }] {
            assert_eq!(Payload::read(&payload.to_bytes()), Some(payload));
        }
        assert_eq!(Payload::read(&[0; PAYLOAD_LEN - 1]), None);
    }

    #[test]
    fn a_sample_travels_as_differences() {
        let sample = Sample { due: 10, sent: 12, received: 15, processed: 21 };
        assert_eq!(serde_json::to_string(&sample).unwrap(), "[10,2,3,6]");
        assert_eq!(serde_json::from_str::<Sample>("[10,2,3,6]").unwrap(), sample);
    }

    #[test]
    fn a_role_that_was_not_given_is_not_played() {
        let recording = Recording { number: 1, divisions: 1, work_until: 0, every: 1 };
        assert!(Role::None.obey(Order::Record(recording)).is_err());
        assert!(Role::None.obey(Order::Send(Run { number: 1, paths: Vec::new() })).is_err());
    }
}

//! The suppliers and consumers of an experiment: processes of their own, ordered what to do line by line.
//!
//! The experimenter starts `bench party-process` (hidden), leashed, confined to a core and at a real-time priority where
//! the experiment wants that, and talks to it in lines of JSON: an [`Order`] in, an [`Answer`] out. A process is either
//! all suppliers or all consumers of one kind of path; each path has a thread. While events flow nothing is said: when
//! to send what is part of the order, and what happened is reported when all of it is over. So the experimenter needs no
//! processor time while it matters, and a party of low priority may take as long as it has to.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::primes;
use crate::process::{Subordinate, take_orders};
use crate::{BenchError, Output};

mod consumer;
mod supplier;

use consumer::Consumers;
use supplier::Suppliers;

/// The name of the hidden sub-command.
pub(crate) const COMMAND: &str = "party-process";

/// An order to a party.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Be the suppliers of these paths, and connect.
    Supply(Vec<SupplierPath>),
    /// Be the consumers of so many paths, and listen.
    Consume(usize),
    /// Find out what a unit of load is: how many divisions make it (0: find that out, too) and how long it takes.
    Calibrate {
        /// Divisions in a unit, or 0.
        divisions: u64,
    },
    /// Record the events of this run, and do their work.
    Record(Recording),
    /// Send a run's events; answered when the last has left.
    Send(Run),
    /// Tell what came in the run that is recorded; answered when every path has come to its end.
    Collect,
}

/// What a party answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The suppliers are connected, or the consumers record.
    Ready,
    /// The consumers listen there, in the order of the paths.
    Listening(Vec<SocketAddr>),
    /// What a unit of load is.
    Calibrated {
        /// Divisions in a unit.
        divisions: u64,
        /// How long it takes, in nanoseconds.
        unit_ns: u64,
    },
    /// The run's events have been sent.
    Sent(Vec<Sent>),
    /// The run's events have come, of each path in their order.
    Received(Vec<Vec<Sample>>),
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
    /// Octets of payload.
    pub(super) payload_bytes: usize,
    /// Pushes that may be unanswered. 1: the next leaves when the one before has returned.
    pub(super) unanswered_max: u32,
    /// Whether it pushes sequences, of as many events as a [`Piece`] says.
    pub(super) sequences: bool,
}

/// A run, for one process of suppliers.
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
    /// Events sent.
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

/// Octets of it.
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

/// Starts a party's process, on this core only and at this `SCHED_FIFO` priority where there is one, and gives it its role.
pub(super) fn start(
    name: &'static str,
    core: Option<usize>,
    fifo: Option<u8>,
    role: &Order,
) -> Result<(Subordinate, Answer), BenchError> {
    let mut party = Subordinate::start(name, COMMAND, core, fifo)?;
    let answer = party.ask(role)?;
    Ok((party, answer))
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
    fn obey(&mut self, order: Order) -> Result<Answer, BenchError> {
        match (order, &mut *self) {
            (Order::Supply(paths), _) => {
                *self = Self::Suppliers(Suppliers::connect(paths)?);
                Ok(Answer::Ready)
            }
            (Order::Consume(paths), _) => {
                let (consumers, addresses) = Consumers::listen(paths)?;
                *self = Self::Consumers(consumers);
                Ok(Answer::Listening(addresses))
            }
            (Order::Calibrate { divisions }, _) => {
                let divisions = if divisions == 0 { primes::divisions_per_unit() } else { divisions };
                Ok(Answer::Calibrated { divisions, unit_ns: primes::unit_ns(divisions) })
            }
            (Order::Send(run), Self::Suppliers(suppliers)) => suppliers.send(&run).map(Answer::Sent),
            (Order::Record(recording), Self::Consumers(consumers)) => {
                consumers.record(recording);
                Ok(Answer::Ready)
            }
            (Order::Collect, Self::Consumers(consumers)) => consumers.collect().map(Answer::Received),
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

//! The publishers and subscribers of every contender: processes of their own, ordered what to do line by line.
//!
//! The harness starts `bench end-process` (hidden) and talks to it in lines of JSON: an [`Order`] in, an [`Answer`] out. A
//! process is one publisher, or any number of consumers. Both are one thread that builds nothing, and that reads and writes
//! as much at once as there is: on a machine of two cores, what is measured has to be the process in the middle. How they
//! speak is a [`Protocol`]; what an event says of itself, its number and when it was due, is the same in all.

use std::ffi::OsString;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::protocol::{Protocol, Settings};
use super::publisher::Publisher;
use super::subscriber::Subscriber;
use crate::latency::Recorder;
use crate::process::{Subordinate, say_started};
use crate::{BenchError, Losses, Output};

pub(crate) const COMMAND: &str = "end-process";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Be a publisher, and connect.
    Publish(Publish),
    /// Be consumers, and listen or connect.
    Subscribe(Subscribe),
    /// Send a run's events; answered when the last has been sent, and acknowledged where that is asked for.
    Send(Run),
    /// Forget what came, and record this run.
    Record(Recording),
    /// Tell what came; answered when all has, or nothing has for so long.
    Collect {
        /// Events that each consumer is to have.
        events: u64,
        /// After so many nanoseconds without one, the rest is lost.
        quiet: u64,
    },
    /// Tell which events came late since this was asked last.
    TellLate,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Connected, or ready to record.
    Ready,
    /// The consumers listen there.
    Listening(SocketAddr),
    Sent(Sent),
    /// What came.
    Received(Box<Received>),
    /// Number, due time and arrival of events that came late.
    Late(Vec<LateEvent>),
}

/// Number, due time and arrival of an event.
pub(crate) type LateEvent = (u64, u64, u64);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Publish {
    /// How to speak.
    pub(crate) protocol: Protocol,
    /// Where to send.
    pub(crate) address: SocketAddr,
    /// What it is sent to there: an object key, a subject.
    pub(crate) target: Vec<u8>,
    /// Octets of payload of an event.
    pub(crate) payload_bytes: usize,
    /// Messages that may be unacknowledged; 0 asks for no acknowledgement.
    pub(crate) window: u32,
}

/// How many consumers to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Subscribe {
    /// How to speak.
    pub(crate) protocol: Protocol,
    /// Where to connect to, with protocols in which consumers connect. The others listen.
    pub(crate) address: Option<SocketAddr>,
    /// What each consumer goes by: an object key, a subject.
    pub(crate) targets: Vec<Vec<u8>>,
    /// The server does not tell consumers apart: each event comes as often as there are, one copy right behind the other.
    pub(crate) copies: bool,
}

/// What is sent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Its number; every event carries it.
    pub(crate) number: u32,
    /// When the first event is due, in nanoseconds of the monotonic clock.
    pub(crate) from: u64,
    /// None is sent from then on.
    pub(crate) until: u64,
    /// From one event to the next, in nanoseconds. 0: as many as get through.
    pub(crate) period: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// The run's number; other events are answered and otherwise ignored.
    pub(crate) run: u32,
    /// Latencies are those of events that were due from then on,
    pub(crate) from: u64,
    /// until then. Deliveries are counted by when they came, in the same window.
    pub(crate) until: u64,
    /// Whether to note when each event came first and last.
    pub(crate) spans: bool,
    /// Events later than this many nanoseconds are written down one by one; 0: none is.
    pub(crate) late: u64,
}

/// What a publisher did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) events: u64,
    /// When the first left.
    pub(crate) began: u64,
    /// When the last left, or was acknowledged.
    pub(crate) ended: u64,
    /// Of a paced run: events that left late because those before were not yet acknowledged.
    pub(crate) late: u64,
    /// Nanoseconds of the publisher's processor time meanwhile.
    pub(crate) cpu: u64,
}

/// What came to the consumers of a process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Received {
    /// Deliveries, all of the run.
    pub(crate) deliveries: u64,
    /// Deliveries in the window.
    pub(crate) in_window: u64,
    /// When the last came.
    pub(crate) ended: u64,
    /// What was lost, repeated or out of order, all of the run.
    pub(crate) losses: Losses,
    /// From when an event was due until it came: nanoseconds and how often, as the histogram tells them apart.
    pub(crate) since_due: Vec<(u64, u64)>,
    pub(crate) since_sent: Vec<(u64, u64)>,
    /// Of each event: its number, when it was due, when it came first and last, and how often.
    pub(crate) spans: Vec<Span>,
    /// Those events that came late and were not reported yet.
    pub(crate) late: Vec<LateEvent>,
    /// Nanoseconds of the process's processor time since the recording began.
    pub(crate) cpu: u64,
}

/// When an event came to the consumers of a process, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 5]", into = "[u64; 5]")]
pub(crate) struct Span {
    pub(crate) number: u64,
    pub(crate) due: u64,
    /// When it came first.
    pub(crate) first: u64,
    /// When it came last.
    pub(crate) last: u64,
    /// How often it came.
    pub(crate) count: u64,
}

impl From<[u64; 5]> for Span {
    fn from([number, due, first, last, count]: [u64; 5]) -> Self {
        Self { number, due, first, last, count }
    }
}

impl From<Span> for [u64; 5] {
    fn from(Span { number, due, first, last, count }: Span) -> Self {
        [number, due, first, last, count]
    }
}

impl Received {
    /// The latencies from when events were due, of several processes together.
    pub(crate) fn recorder<'a>(all: impl IntoIterator<Item = &'a [(u64, u64)]>) -> Recorder {
        let mut recorder = Recorder::default();
        for &(nanoseconds, count) in all.into_iter().flatten() {
            recorder.record_many(nanoseconds, count);
        }
        recorder
    }
}

/// Runs an end until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    say_started(out)?;
    let mut orders = super::lines::Lines::of_input()?;
    match orders.wait()? {
        None => Ok(()),
        Some(Order::Publish(publish)) => Publisher::connect(&publish)?.obey(orders, out),
        Some(Order::Subscribe(subscribe)) => Subscriber::new(&subscribe)?.obey(orders, out),
        Some(order) => Err(not_its_part(&order)),
    }
}

/// Error for an order that reached the wrong end.
pub(super) fn not_its_part(order: &Order) -> BenchError {
    BenchError::Process { name: COMMAND.to_owned(), reason: format!("was told what is not its part: {order:?}") }
}

/// Starts an end and gives it its part: this program, unless another is named.
pub(crate) fn start(
    part: &Order,
    program: Option<Vec<OsString>>,
    core: Option<usize>,
) -> Result<(Subordinate, Answer), BenchError> {
    let name = if matches!(part, Order::Publish(_)) { "a publisher" } else { "a subscriber" };
    let mut process = Subordinate::start_program(name, COMMAND, program, core)?;
    let answer = process.ask(part)?;
    Ok((process, answer))
}

pub(crate) fn record(subscribers: &mut [Subordinate], recording: Recording) -> Result<(), BenchError> {
    subscribers.iter_mut().try_for_each(|subscriber| subscriber.ask::<Answer>(&Order::Record(recording)).map(drop))
}

/// What a publisher did that was told to send, and what came of it, when all has, or nothing has for so many nanoseconds.
pub(crate) fn collect(
    publisher: &Subordinate,
    subscribers: &mut [Subordinate],
    quiet: u64,
) -> Result<(Sent, Vec<Received>), BenchError> {
    let answer = publisher.answer()?;
    let Answer::Sent(sent) = answer else { return Err(publisher.confused(&answer)) };
    let order = Order::Collect { events: sent.events, quiet };
    subscribers.iter_mut().try_for_each(|subscriber| subscriber.order(&order))?;
    let received = |subscriber: &Subordinate| match subscriber.answer()? {
        Answer::Received(received) => Ok(*received),
        answer => Err(subscriber.confused(&answer)),
    };
    Ok((sent, subscribers.iter().map(received).collect::<Result<_, _>>()?))
}

impl Publish {
    /// What the protocol has to know.
    pub(super) fn settings(&self) -> Settings<'_> {
        Settings { target: &self.target, payload_bytes: self.payload_bytes, acknowledged: self.window > 0 }
    }
}

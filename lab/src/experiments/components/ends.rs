//! The processes of the experiment: a source and its sinks in one, or either of them. Each is told what it is, and then what to do, by lines
//! of JSON.

use std::any::Any;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ::campanile::{Consumer, Event, PublishOptions, Publisher, Settings, Supplier};
use component::{
    Failure, Input, Plan, PortSettings, Ports, QueueSettings, Registry, SendError, Server, ServerSettings, Sink,
    Source, component,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::campanile::setup;
use crate::crash::settle;
use crate::process::take_orders;
use crate::{BenchError, Output, clock};

pub(crate) const COMMAND: &str = "components-process";
/// Events of a turn in one process before those that count.
const WARM_UP: u64 = 200;
/// Events that may wait for a sink: a machine that stands still for a moment is to lose none.
pub(super) const QUEUE: u32 = 4_096;

/// What a process is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Role {
    /// A container's source and so many sinks.
    Collocated(u32),
    /// A source of a channel.
    Source(Way),
    /// So many sinks of a channel.
    Sinks(Way, u32),
    /// A server of a plan: that of the source, or that of the sinks.
    Planned(String, String),
}

/// A channel of a service, and whether a container or the simple API alone is at its ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Way {
    pub(super) server: String,
    pub(super) channel: String,
    pub(super) has_container: bool,
}

/// An order to a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Be(Role),
    /// To a source; answered by what was [`Sent`].
    Send(Turn),
    /// To sinks: so many events come now.
    Expect(u64),
    /// To sinks: wait for these, and tell what [`Came`].
    Tell,
}

/// What came to the sinks of a turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Came {
    /// Nanoseconds until the last sink had each event; of those that came to all.
    pub(super) latencies: Vec<u64>,
    /// From when the first event was sent to when the last one came.
    pub(super) elapsed_ns: u64,
}

/// So many events of so many octets.
#[derive(Event, Debug, Clone, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) events: u64,
    pub(super) octets: u32,
    /// From one event to the next; 0: the next is sent when the one before has been handled, in this process.
    pub(super) period_ns: u64,
    /// Consumers that are called directly; 0: the container sends.
    pub(super) called: u32,
}

/// What a turn in one process took, until the last sink had handled an event: all of them together, and each of as many more.
#[derive(Event, Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) all_ns: u64,
    pub(super) each_ns: Vec<u64>,
    /// What went wrong; empty if nothing did.
    problem: String,
}

#[derive(Event, Debug, Clone)]
struct Sample {
    number: u64,
    sent_ns: u64,
    octets: Vec<u8>,
}

impl Sample {
    fn of(turn: &Turn) -> Self {
        Self { number: 0, sent_ns: 0, octets: vec![1; usize::try_from(turn.octets).unwrap_or(0)] }
    }
}

/// Sends one event after the other, first all of them under one reading of the clock, then each between two.
fn time<E>(turn: &Turn, mut send: impl FnMut(&Sample) -> Result<(), E>) -> Result<Sent, E> {
    let mut sample = Sample::of(turn);
    let mut next = |number| {
        sample.number = number;
        send(black_box(&sample))
    };
    (0..WARM_UP).try_for_each(&mut next)?;
    let began = clock::now();
    (0..turn.events).try_for_each(&mut next)?;
    let all_ns = clock::now() - began;
    let mut each_ns = Vec::with_capacity(usize::try_from(turn.events).unwrap_or(0));
    for number in 0..turn.events {
        let sent = clock::now();
        next(number)?;
        each_ns.push(clock::now() - sent);
    }
    Ok(Sent { all_ns, each_ns, ..Sent::default() })
}

/// Sends events at an even pace, each stamped right before it is sent.
fn pace<E: ToString>(turn: &Turn, mut send: impl FnMut(&Sample) -> Result<(), E>) -> Result<Sent, String> {
    let (mut sample, began) = (Sample::of(turn), clock::now());
    for number in 0..turn.events {
        clock::sleep_until(began + (number + 1) * turn.period_ns).map_err(|error| error.to_string())?;
        (sample.number, sample.sent_ns) = (number, clock::now());
        send(&sample).map_err(|error| error.to_string())?;
    }
    Ok(Sent::default())
}

/// What a program without a container has for each of its consumers.
trait Called {
    fn push(&mut self, event: &dyn Any, sent: Instant);
}

/// Does by itself what a container does of an event: looks up its type, counts it, and keeps the time at which it was sent.
#[derive(Default)]
struct Direct {
    sum: u64,
    latest: Option<Instant>,
    delivered: AtomicU64,
}

impl Called for Direct {
    #[inline(never)]
    fn push(&mut self, event: &dyn Any, sent: Instant) {
        let Some(sample) = event.downcast_ref::<Sample>() else { return };
        self.delivered.store(self.delivered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.latest = Some(sent);
        self.sum += sample.number;
    }
}

#[component]
struct Sending {
    #[sink]
    turn: Sink<Turn>,
    #[source]
    sample: Source<Sample>,
    #[source]
    sent: Source<Sent>,
}

impl Sending {
    fn on_turn(&mut self, turn: &Turn, _: &Ports) -> Result<(), Failure> {
        let mut called: Vec<Box<dyn Called>> =
            (0..turn.called).map(|_| Box::<Direct>::default() as Box<dyn Called>).collect();
        let direct = |sample: &Sample| {
            let sent = Instant::now();
            called.iter_mut().for_each(|consumer| consumer.push(sample, sent));
            Ok::<_, SendError>(())
        };
        let by_container = |sample: &Sample| self.sample.send(sample);
        let sent = match turn {
            Turn { called: 1.., .. } => time(turn, direct).map_err(|error| error.to_string()),
            Turn { period_ns: 0, .. } => time(turn, by_container).map_err(|error| error.to_string()),
            _ => pace(turn, by_container),
        };
        black_box(&mut called);
        Ok(self.sent.send(&sent.unwrap_or_else(|problem| Sent { problem, ..Sent::default() }))?)
    }
}

/// The sink of an event that does not leave its process.
#[component]
struct Taking {
    #[sink]
    sample: Sink<Sample>,
    #[state]
    sum: u64,
    #[state]
    latest: Option<Instant>,
}

impl Taking {
    fn on_sample(&mut self, sample: &Sample, ports: &Ports) {
        self.latest = Some(ports.sent());
        self.sum += sample.number;
    }
}

/// The sink of an event from another process.
#[component]
struct Noting {
    #[sink]
    sample: Sink<Sample>,
}

impl Noting {
    fn on_sample(&mut self, sample: &Sample, _: &Ports) {
        arrive(sample);
    }
}

/// What has come to the sinks of this process.
struct Arrivals {
    /// Events that were sent before this time belong to an earlier turn, and are ignored.
    since_ns: u64,
    /// Of each event the latency to the sink that had it last, and how many sinks had it.
    events: Vec<(u64, u32)>,
    deliveries: u64,
    /// When the first of these events was sent, and when the last one came.
    span_ns: Option<(u64, u64)>,
}

static ARRIVALS: Mutex<Arrivals> =
    Mutex::new(Arrivals { since_ns: 0, events: Vec::new(), deliveries: 0, span_ns: None });

fn arrivals() -> MutexGuard<'static, Arrivals> {
    ARRIVALS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn arrive(sample: &Sample) {
    let now = clock::now();
    let mut arrivals = arrivals();
    if sample.sent_ns < arrivals.since_ns {
        return;
    }
    let number = usize::try_from(sample.number).unwrap_or(usize::MAX);
    if let Some((latency, sinks)) = arrivals.events.get_mut(number) {
        *latency = now.saturating_sub(sample.sent_ns).max(*latency);
        *sinks += 1;
        arrivals.deliveries += 1;
        let (first, last) = arrivals.span_ns.unwrap_or((u64::MAX, 0));
        arrivals.span_ns = Some((first.min(sample.sent_ns), last.max(now)));
    }
}

/// What a process has become.
enum End {
    Container { turns: Input<Turn>, sent: Receiver<Sent>, _server: Box<Server> },
    Alone { publisher: Publisher, _supplier: Supplier },
    Sinks { count: u32, _connected: Box<dyn Any> },
}

impl End {
    fn of(role: &Role) -> Result<Self, BenchError> {
        match role {
            Role::Collocated(count) => Self::container(|server| {
                (0..*count).try_for_each(|number| {
                    let sink = format!("sink-{number}");
                    server.configure::<Taking>(&sink, Default::default())?;
                    server.connect("sending.sample", &format!("{sink}.sample"))
                })
            }),
            Role::Source(way) if way.has_container => {
                Self::container(|server| server.publish("sending.sample", &way.channel, &way.settings()))
            }
            Role::Source(way) => {
                let supplier = Supplier::with(&way.channel, &way.settings()).map_err(setup("connecting a supplier"))?;
                let publisher = supplier.publisher(PublishOptions::default()).map_err(setup("making a publisher"))?;
                Ok(Self::Alone { publisher, _supplier: supplier })
            }
            Role::Sinks(way, count) if way.has_container => {
                let server = sinks(way, *count).map_err(setup("making components that subscribe"))?;
                Ok(Self::Sinks { count: *count, _connected: Box::new(server) })
            }
            Role::Planned(plan, server) => Self::planned(plan, server),
            Role::Sinks(way, count) => {
                let one = |_| {
                    let consumer = Consumer::new(&way.channel).settings(way.settings());
                    consumer.on(|sample: Sample| arrive(&sample)).and_then(Consumer::ready)
                };
                let all = (0..*count).map(one).collect::<Result<Vec<_>, _>>().map_err(setup("subscribing"))?;
                Ok(Self::Sinks { count: *count, _connected: Box::new(all) })
            }
        }
    }

    fn container(connect: impl FnOnce(&mut Server) -> Result<(), component::Error>) -> Result<Self, BenchError> {
        let make = || {
            let mut server = Server::new("source", ServerSettings::default())?;
            server.configure::<Sending>("sending", Default::default())?;
            connect(&mut server)?;
            Self::sending(server)
        };
        make().map_err(setup("making components that send"))
    }

    /// A server that has the sending component, with the program's ends of that.
    fn sending(mut server: Server) -> Result<Self, component::Error> {
        let (sender, sent) = channel();
        server.output("sending.sent", move |of_turn: &Sent| {
            // The process may be about to end.
            let _ = sender.send(of_turn.clone());
        })?;
        let turns = server.input("sending.turn")?;
        server.start()?;
        Ok(Self::Container { turns, sent, _server: Box::new(server) })
    }

    fn planned(plan: &str, server: &str) -> Result<Self, BenchError> {
        let doing = "deploying a plan";
        let registry = Registry::new().with::<Sending>().with::<Noting>();
        let plan = Plan::parse(plan).map_err(setup(doing))?;
        let mut server = Server::deploy(&plan, server, &registry, ServerSettings::default()).map_err(setup(doing))?;
        if server.life("sending").is_some() {
            return Self::sending(server).map_err(setup(doing));
        }
        server.start().map_err(setup(doing))?;
        let count = u32::try_from(server.status().len()).unwrap_or(u32::MAX);
        Ok(Self::Sinks { count, _connected: Box::new(server) })
    }

    fn send(&self, turn: &Turn) -> Result<Sent, BenchError> {
        let doing = "sending events";
        let sent = match self {
            Self::Container { turns, sent, .. } => {
                turns.send(turn).map_err(setup(doing))?;
                sent.recv().map_err(setup(doing))?
            }
            Self::Alone { publisher, .. } => pace(turn, |sample| {
                // As a container does when it has no more to send.
                publisher.publish(sample).map(|_| publisher.flush())
            })
            .map_err(setup(doing))?,
            Self::Sinks { .. } => return Err(unasked()),
        };
        if sent.problem.is_empty() { Ok(sent) } else { Err(setup(doing)(sent.problem)) }
    }

    /// Waits for what was announced, unless nothing more comes.
    fn tell(&self) -> Result<Came, BenchError> {
        let Self::Sinks { count, .. } = self else { return Err(unasked()) };
        settle(|| {
            let arrivals = arrivals();
            Ok((arrivals.events.len() as u64 * u64::from(*count)).saturating_sub(arrivals.deliveries))
        })?;
        let mut arrivals = arrivals();
        let came = std::mem::take(&mut arrivals.events).into_iter();
        let latencies = came.filter(|(_, sinks)| sinks == count).map(|(latency, _)| latency).collect();
        Ok(Came { latencies, elapsed_ns: arrivals.span_ns.map_or(0, |(first, last)| last - first) })
    }
}

impl Way {
    fn settings(&self) -> Settings {
        Settings { server: self.server.clone(), ..Settings::default() }
    }
}

/// A container of sinks that a channel's events come to.
fn sinks(way: &Way, count: u32) -> Result<Server, component::Error> {
    let mut server = Server::new("sinks", ServerSettings::default())?;
    let queue = QueueSettings { events_max: QUEUE, ..QueueSettings::default() };
    for number in 0..count {
        let (sink, port) = (format!("sink-{number}"), format!("sink-{number}.sample"));
        server.configure::<Noting>(&sink, Default::default())?;
        server.set_port(&port, PortSettings { queue: Some(queue.clone()), ..PortSettings::default() })?;
        server.subscribe(&port, &way.channel, &way.settings())?;
    }
    server.start()?;
    Ok(server)
}

fn unasked() -> BenchError {
    setup("obeying an order")("it was not told to be what does this")
}

/// Is what it is told to be, until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut end: Option<End> = None;
    take_orders(out, |order| {
        let there = || end.as_ref().ok_or_else(unasked);
        Ok(match order {
            Order::Be(role) => {
                end = Some(End::of(&role)?);
                Value::Null
            }
            Order::Send(turn) => json!(there()?.send(&turn)?),
            Order::Expect(events) => {
                let events = vec![(0, 0); usize::try_from(events).unwrap_or(0)];
                *arrivals() = Arrivals { since_ns: clock::now(), events, deliveries: 0, span_ns: None };
                Value::Null
            }
            Order::Tell => json!(there()?.tell()?),
        })
    })
}

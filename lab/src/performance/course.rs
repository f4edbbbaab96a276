//! One contender in one scenario, from the start of its processes to what came of a run.

use super::contender::{Absence, Contender, OURS, Scenario, Server};
use super::ends::{self, Answer, LateEvent, Order, Received, Recording, Run, Sent};
use super::meters::{Meters, Usage, memory_and_threads};
use crate::campanile::Campanile;
use crate::floor::Counted;
use crate::floor::counting::Counting;
use crate::latency::Recorder;
use crate::process::Subordinate;
use crate::{BenchError, Losses, clock};

/// After so long without an event, the rest of a run is lost.
const QUIET: u64 = 3 * clock::SECOND;

/// How often it is asked for late events.
const GLANCE: u64 = 2 * clock::SECOND;

/// So long before the window the server's counters are read, if its warm-up is long enough.
const COUNT_LEAD: u64 = clock::SECOND / 20;

/// From the order to send to the first event.
pub(super) const LEAD: u64 = clock::SECOND / 20;

/// A server with its publisher and its subscribers, connected.
pub(super) struct Course {
    // In the order in which they are to end.
    publisher: Subordinate,
    subscribers: Vec<Subordinate>,
    server: Server,
    /// The name under which the server's threads are reported.
    in_the_middle: &'static str,
    run: u32,
}

/// What is to be sent and recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// From one event to the next, in nanoseconds; 0: as many as get through.
    pub(super) period: u64,
    /// Nanoseconds of events that do not count, before those that do.
    pub(super) warm_up: u64,
    /// Nanoseconds of events that count.
    pub(super) window: u64,
    /// Whether to note when each event came first and last.
    pub(super) spans: bool,
    /// Events later than this many nanoseconds are written down one by one; 0: none is.
    pub(super) late: u64,
    /// Whether to read the server's own counters: some times before the first event, which takes some ms, and once at each end of
    /// the window.
    pub(super) counted: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// What the publisher did.
    pub(super) sent: Sent,
    /// What came, by process.
    pub(super) received: Vec<Received>,
    pub(super) usage: Usage,
    /// Octets that it had resident at the window's end,
    pub(super) resident_bytes: u64,
    /// and its threads then.
    pub(super) threads: u64,
    /// What it counted itself, in the window.
    pub(super) counted: Option<Counted>,
    /// Length of the window, in seconds.
    pub(super) seconds: f64,
}

impl Course {
    /// Starts the server, the subscribers and the publisher.
    pub(super) fn lay(contender: &'static Contender, scenario: &Scenario) -> Result<Self, Absence> {
        let mut server = (contender.start)(scenario)?;
        let in_the_middle = if contender.key == OURS { "service" } else { contender.key };
        let mut subscribers = Vec::new();
        for process in 0..scenario.processes {
            let (subscribe, program) = server.subscribe(scenario.consumers_of(process));
            let part = Order::Subscribe(subscribe.clone());
            let (subscriber, answer) = ends::start(&part, program, scenario.ends_core)?;
            let listening = if let Answer::Listening(address) = answer { Some(address) } else { None };
            server.subscribed(&subscribe, listening)?;
            subscribers.push(subscriber);
        }
        let (publish, program) = server.publish()?;
        let (publisher, _) = ends::start(&Order::Publish(publish), program, scenario.ends_core)?;
        Ok(Self { publisher, subscribers, server, in_the_middle, run: 0 })
    }

    /// The processes in the middle.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.server.pids()
    }

    /// All processes, with their part: `publisher`, `subscriber`, and between them `service` or another contender's key.
    pub(super) fn parties(&self) -> Vec<(u32, &'static str)> {
        let servers = self.server.pids().into_iter().map(|pid| (pid, self.in_the_middle));
        let subscribers = self.subscribers.iter().map(|subscriber| (subscriber.pid(), "subscriber"));
        servers.chain(subscribers).chain([(self.publisher.pid(), "publisher")]).collect()
    }

    /// Sends and records.
    pub(super) fn run(&mut self, plan: &Plan) -> Result<Outcome, BenchError> {
        self.run_watched(plan, None, |_, _| Ok(()))
    }

    /// The same while others do so too. The first event is due then, which is at least [`LEAD`] away.
    pub(super) fn run_beside(&mut self, plan: &Plan, began: u64) -> Result<Outcome, BenchError> {
        self.run_watched(plan, Some(began), |_, _| Ok(()))
    }

    /// Sends and records, and tells every two seconds which events came late since: when the first event was due, and them. If it
    /// is not said when the first is to be due, it is soon.
    pub(super) fn run_watched(
        &mut self,
        plan: &Plan,
        began: Option<u64>,
        mut watch: impl FnMut(u64, &[LateEvent]) -> Result<(), BenchError>,
    ) -> Result<Outcome, BenchError> {
        self.run += 1;
        let at_rest = self.count(plan, Counting::take)?;
        let at_once = began.is_some();
        let began = began.unwrap_or_else(|| clock::now() + LEAD);
        let from = began + plan.warm_up;
        let until = from + plan.window;
        let recording = Recording { run: self.run, from, until, spans: plan.spans, late: plan.late };
        ends::record(&mut self.subscribers, recording)?;
        let run = Run { number: self.run, from: began, until, period: plan.period };
        self.publisher.order(&Order::Send(run))?;
        let pids = self.server.pids();
        // Before the window, so that the processor time of the reading is not in it.
        clock::sleep_until(from.saturating_sub(COUNT_LEAD.min(plan.warm_up / 2)))?;
        let earlier = self.count(plan, Counting::glance)?;
        clock::sleep_until(from)?;
        let used = Meters::read(&pids)?;
        while plan.late > 0 && clock::now() + GLANCE < until {
            clock::sleep_until(clock::now() + GLANCE)?;
            watch(began, &self.late()?)?;
        }
        clock::sleep_until(until)?;
        let usage = Meters::read(&pids)?.since(&used);
        let later = self.count(plan, Counting::glance)?;
        let (resident_bytes, threads) = memory_and_threads(&pids)?;
        if at_once {
            // Asking what came is not to make late what the others have yet to send: their last event is due within a period.
            clock::sleep_until(until + 2 * plan.period)?;
        }
        let (sent, received) = ends::collect(&self.publisher, &mut self.subscribers, QUIET)?;
        let late: Vec<LateEvent> = received.iter().flat_map(|received| received.late.iter().copied()).collect();
        if plan.late > 0 {
            watch(began, &late)?;
        }
        let counted =
            at_rest.zip(earlier.zip(later)).map(|(at_rest, (earlier, later))| at_rest.between(&earlier, &later));
        Ok(Outcome { sent, received, usage, resident_bytes, threads, counted, seconds: clock::seconds(plan.window) })
    }

    /// The server's own counters, where the plan wants them.
    fn count(
        &self,
        plan: &Plan,
        read: fn(&Campanile) -> Result<Counting, BenchError>,
    ) -> Result<Option<Counting>, BenchError> {
        if plan.counted { self.server.count(read) } else { Ok(None) }
    }

    fn late(&mut self) -> Result<Vec<LateEvent>, BenchError> {
        let mut late = Vec::new();
        for subscriber in &mut self.subscribers {
            let answer = subscriber.ask(&Order::TellLate)?;
            let Answer::Late(of_process) = answer else { return Err(subscriber.confused(&answer)) };
            late.extend(of_process);
        }
        Ok(late)
    }
}

impl Outcome {
    /// A figure of all processes of consumers together.
    pub(super) fn total(&self, figure: fn(&Received) -> u64) -> u64 {
        self.received.iter().map(figure).sum()
    }

    /// The latencies from when events were due, of all consumers.
    pub(super) fn since_due(&self) -> Recorder {
        Received::recorder(self.received.iter().map(|received| received.since_due.as_slice()))
    }

    /// The latencies from when events were sent, of all consumers.
    pub(super) fn since_sent(&self) -> Recorder {
        Received::recorder(self.received.iter().map(|received| received.since_sent.as_slice()))
    }

    /// What was lost, repeated or out of order.
    pub(super) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        for received in &self.received {
            losses.add(received.losses);
        }
        losses
    }
}

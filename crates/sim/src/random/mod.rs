//! Random operations on the engine and its model side by side.

mod administration;
mod choices;
mod completion;
mod filters;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    AdminId, Admission, ChannelId, Delivery, DiscardPolicy, DiscardReason, Event, Form, Hierarchy, Lane, Notice,
    OrderPolicy, OutboxId, Outcome, OutputForm, ProxyKey, Side, Snapshot, Time, TypeId,
};
use fastrand::Rng;

use crate::model::{Content, Counts, Expected, Model, Said};
use choices::{DISCARD_POLICIES, ORDER_POLICIES};
use completion::Reports;
pub(crate) use filters::Bytes;
use filters::FIELDS_AT;

/// A difference of the engine and its model.
#[derive(Debug)]
pub struct Mismatch {
    /// Seed of the run.
    pub seed: u64,
    /// Number of operations before it.
    pub operation: u32,
    /// Results of both.
    pub difference: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, operation, difference } = self;
        writeln!(f, "seed {seed}, operation {operation}: {difference}")?;
        writeln!(f, "rerun it with every step shown:  cargo run -p campanile-sim --example rerun -- {seed}")?;
        write!(f, "and add {seed} to REGRESSION_SEEDS in crates/sim/tests/random.rs")
    }
}

/// Counts of a run, so that a caller with many runs can check that they reach everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events taken.
    pub accepted: u64,
    /// Events taken with a withheld reply.
    pub withheld: u64,
    /// Events refused.
    pub refused: u64,
    /// Deliveries begun.
    pub deliveries: u64,
    /// Deliveries answered.
    pub delivered: u64,
    /// Deliveries that failed.
    pub failures: u64,
    /// Deliveries that timed out.
    pub timed_out: u64,
    /// Consumers disconnected by the lane.
    pub disconnected: u64,
    /// Deliveries that a consumer pulled.
    pub pulled: u64,
    /// Deliveries of more than one event.
    pub batches: u64,
    /// Events that the filters on their supplier's side rejected.
    pub filtered_in: u64,
    /// Events that remote filters on their supplier's side decided.
    pub remote_admissions: u64,
    /// Deliveries that remote filters decided.
    pub remote_deliveries: u64,
    /// Constraints evaluated.
    pub evaluations: u64,
    /// Events with their filtering cut short.
    pub cuts: u64,
    /// Events dropped, by reason in the order of [`DiscardReason::ALL`].
    pub discards: [u64; 13],
    /// Watched events that were complete for all.
    pub completed: u64,
    /// Suppliers blocked because a consumer's next event was late.
    pub late: u64,
    /// Full consumers that blocked suppliers for their full time limit.
    pub blocked: u64,
    /// Number of times a consumer stopped blocking suppliers and stayed connected.
    pub waited_out: u64,
}

/// Runs `operations` random operations from `seed`; `trace` is called with each one.
///
/// # Errors
///
/// [`Mismatch`] at the first operation after which the engine and its model differ.
pub fn run(seed: u64, operations: u32, trace: &mut dyn FnMut(&str)) -> Result<Summary, Mismatch> {
    let mut run = Run::new(seed);
    for operation in 0..operations {
        let at = |difference| Mismatch { seed, operation, difference };
        let done = run.operate().map_err(at)?;
        trace(&format!("{operation:4} at {:>12}: {done}", run.now.0));
        run.poll(trace).map_err(at)?;
        run.compare().map_err(at)?;
    }
    Ok(run.summary())
}

pub(crate) const DOMAINS: [&str; 2] = ["a", "b"];
pub(crate) const NAMES: [&str; 3] = ["x", "xy", "z"];
pub(crate) const PATTERNS: [(&str, &str); 10] = [
    ("*", "*"),
    ("", "%ALL"),
    ("a", "x"),
    ("a", "*"),
    ("b", "x*"),
    ("*", "z"),
    ("b*", ""),
    ("", "xy"),
    ("*", "*y"),
    ("*b", "x*y"),
];

/// A delivery that is unanswered, as far as the protocol knows.
#[derive(Clone, Copy)]
struct Unanswered {
    outbox: OutboxId,
    serial: u32,
    /// Index of the outbox in the model.
    at: usize,
    /// Label of its first event.
    first: usize,
}

struct Run {
    seed: u64,
    random: Rng,
    now: Time,
    hierarchy: Hierarchy,
    lane: Lane,
    /// Routing of the lane.
    snapshot: Arc<Snapshot>,
    model: Model,
    unanswered: Vec<Unanswered>,
    /// Answered or abandoned deliveries, to hand their outcomes in again now and then.
    stale: Vec<Unanswered>,
    /// Events that the protocol has not yet released.
    unreleased: Vec<(Arc<Event>, usize)>,
    /// The lane's id of each outbox in the model.
    names: BTreeMap<usize, OutboxId>,
    /// Notices of the lane since the last comparison.
    heard: Vec<Notice>,
    reports: Reports,
    next_peer: u64,
    pulled: u64,
    batches: u64,
    remote_admissions: u64,
    remote_deliveries: u64,
}

/// Policies of a seed's first channel: each combination is used by every twentieth seed.
#[must_use]
pub fn policies(seed: u64) -> (OrderPolicy, DiscardPolicy) {
    let nth = usize::try_from(seed % 20).unwrap_or(0);
    let order = ORDER_POLICIES.get(nth % 4).copied().unwrap_or_default();
    (order, DISCARD_POLICIES.get(nth / 4).copied().unwrap_or_default())
}

/// Labels of a delivery's events.
pub(crate) fn labels(events: &[Arc<Event>]) -> Vec<usize> {
    let label = |event: &Arc<Event>| event.bytes.first_chunk().map_or(u64::MAX, |label| u64::from_le_bytes(*label));
    events.iter().map(|event| usize::try_from(label(event)).unwrap_or(usize::MAX)).collect()
}

/// Compares two results; the error has both.
fn same<T: PartialEq + fmt::Debug>(what: &str, engine: &T, model: &T) -> Result<(), String> {
    if engine == model { Ok(()) } else { Err(format!("{what}: the engine says {engine:?}, the model {model:?}")) }
}

impl Run {
    fn new(seed: u64) -> Self {
        let now = Time(1_000_000);
        // One seed of eight, whatever its policies.
        let keeps_expired = seed / 20 % 8 == 7;
        let mut lane = Lane::new(now);
        if keeps_expired {
            lane.keep_expired();
        }
        let mut run = Self {
            seed,
            random: Rng::with_seed(seed),
            now,
            hierarchy: Hierarchy::default(),
            lane,
            snapshot: Arc::default(),
            model: Model::new(now, keeps_expired),
            unanswered: vec![],
            stale: vec![],
            unreleased: vec![],
            names: BTreeMap::new(),
            heard: vec![],
            reports: Reports::default(),
            next_peer: 0,
            pulled: 0,
            batches: 0,
            remote_admissions: 0,
            remote_deliveries: 0,
        };
        run.begin();
        run
    }

    /// Creates a channel with a supplier and two consumers, so that events flow from the start.
    fn begin(&mut self) {
        let (mut patch, limits) = (self.patch(), self.limits());
        let (order, discard) = policies(self.seed);
        (patch.order_policy, patch.discard_policy) = (Some(order), Some(discard));
        let channel = self.model.world.create_channel(patch, limits);
        let _ = self.hierarchy.create_channel(patch, limits);
        self.populate(channel);
        self.route();
    }

    fn populate(&mut self, channel: ChannelId) {
        for side in [Side::Suppliers, Side::Consumers, Side::Consumers, Side::Consumers] {
            let kind = self.kind(side);
            if let Ok(proxy) = self.model.world.create_proxy(channel, side, AdminId::DEFAULT, kind) {
                let _ = self.hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), kind);
                let _ = self.connect(ProxyKey { channel, proxy });
            }
        }
    }

    // ---- one operation ----

    fn operate(&mut self) -> Result<String, String> {
        match self.random.u32(..100) {
            0..34 => self.publish(),
            34..66 => Ok(self.answer()),
            66..73 => Ok(self.release_one()),
            73..76 => {
                let done = self.change_filters()?;
                if self.random.bool() {
                    self.route();
                }
                Ok(done)
            }
            76..79 => Ok(self.repeat_outcome()),
            79..81 => Ok(self.resume_outbox()),
            81..85 => self.pull(),
            85..90 => self.advance(),
            90..98 => {
                let done = self.administer()?;
                if self.random.u32(..4) > 0 {
                    self.route();
                }
                Ok(done)
            }
            _ => {
                self.route();
                Ok("route".into())
            }
        }
    }

    fn publish(&mut self) -> Result<String, String> {
        let events = (0..self.random.u32(1..=4)).map(|_| self.publish_one()).collect::<Result<Vec<_>, _>>()?;
        Ok(events.join(", "))
    }

    fn publish_one(&mut self) -> Result<String, String> {
        let source = self.source();
        let domain = self.pick(&DOMAINS);
        let name = self.pick(&NAMES);
        let padding = self.pick(&[0, 3, 30, 200, 700]);
        let label = self.model.next_label();
        let mut pending_event =
            if self.random.bool() { self.lane.begin_event() } else { self.lane.begin_event_for(8 + padding) };
        pending_event.bytes.extend_from_slice(&(label as u64).to_le_bytes());
        pending_event.bytes.resize(FIELDS_AT + padding, 0);
        for field in pending_event.bytes.iter_mut().skip(FIELDS_AT) {
            *field = self.random.u8(..4);
        }
        let fields = pending_event.bytes.get(FIELDS_AT..).unwrap_or_default().to_vec();
        let mut content = 8 + padding as u64;
        for output_form in 0..self.random.u32(..3) {
            pending_event.alternates.push(OutputForm(output_form)).bytes.extend_from_slice(b"translated");
            content += 10;
        }
        self.lane.classify(&mut pending_event, domain.as_bytes(), name.as_bytes());
        let header = self.header();
        (pending_event.priority, pending_event.timeout, pending_event.start, pending_event.stop) =
            (header.priority, header.timeout, header.start, header.stop);
        content += self.reports.watch(label, &mut pending_event);
        let read = Content { domain: domain.into(), name: name.into(), fields, cut: false };
        let said = read.fields.get(..3).unwrap_or_default();
        let shown = format!("publish {label} ({content} bytes) from {source} as {domain}:{name} {said:?}, {header:?}");
        let engine = self.lane.handle_event(source, pending_event, &Bytes, self.now);
        let disconnected = self.disconnected();
        let model = self.model.publish(source, (read, content), header, &disconnected);
        let said = self.decide(source, engine, model).map_err(|difference| format!("{shown}: {difference}"))?;
        Ok(format!("{shown}: {said:?}"))
    }

    /// Compares admissions. An event that awaits a filter is handed in again, or abandoned.
    fn decide(&mut self, source: ProxyKey, engine: Admission, model: Said) -> Result<Said, String> {
        let Admission::AwaitingFilter(mut pending_event, filter_groups) = engine else {
            let engine = Said::Decided(engine);
            return same("admission", &engine, &model).map(|()| engine);
        };
        same("admission", &Said::AwaitingFilter(filter_groups), &model)?;
        self.remote_admissions += 1;
        if self.random.u32(..3) == 0 {
            self.lane.abandon_event(pending_event);
            return Ok(model);
        }
        pending_event.approved = true;
        let engine = self.lane.handle_event(source, pending_event, &Bytes, self.now);
        let disconnected = self.disconnected();
        let model = self.model.approve(source, &disconnected);
        self.decide(source, engine, model)
    }

    fn pull(&mut self) -> Result<String, String> {
        let pulls = (0..self.random.u32(1..=4)).map(|_| self.pull_one()).collect::<Result<Vec<_>, _>>()?;
        Ok(pulls.join(", "))
    }

    /// Pulls events for a client, adds a waiting pull, or removes one.
    fn pull_one(&mut self) -> Result<String, String> {
        let key = self.puller();
        let most = self.random.u32(1..5);
        match self.random.u32(..6) {
            0 => {
                self.lane.cancel_wait(key);
                self.model.cancel_wait(key);
                Ok(format!("a client of {key} waits no more"))
            }
            1..4 => {
                let engine = self.lane.await_events(key, most, self.now);
                same("waiting for events", &engine, &self.model.await_events(key, most))?;
                Ok(format!("a client of {key} waits for {most} events: {engine:?}"))
            }
            _ => {
                let mut events = vec![];
                let engine = self.lane.pull(key, most, &mut events, self.now);
                let done = format!("a client of {key} pulls {most} events: {engine:?}");
                match (engine, self.model.pull(key, most)) {
                    (Ok(None), Ok(None)) => {}
                    (Ok(Some(delivery)), Ok(Some(expected))) => self.take(delivery, events, expected)?,
                    (Err(engine), Err(model)) => same("pulling", &engine, &model)?,
                    (engine, model) => {
                        let model = model.map(|expected| expected.map(|(_, expected)| expected));
                        return Err(format!("pulling {key}: the engine says {engine:?}, the model {model:?}"));
                    }
                }
                Ok(done)
            }
        }
    }

    fn answer(&mut self) -> String {
        let mut done = vec![];
        for _ in 0..self.random.u32(1..=4) {
            if self.unanswered.is_empty() {
                break;
            }
            let place = if self.random.bool() { 0 } else { self.random.usize(..self.unanswered.len()) };
            let answered = self.unanswered.remove(place);
            done.push(self.outcome(answered));
        }
        done.join(", ")
    }

    fn outcome(&mut self, answered: Unanswered) -> String {
        let outcome = match self.random.u32(..100) {
            // Some events are hardly ever taken.
            0..90 if answered.first % 16 == 3 => {
                self.pick(&[Outcome::ConnectionLost, Outcome::TimedOut, Outcome::Refused])
            }
            0..66 => Outcome::Delivered,
            66..72 => Outcome::Sent,
            72..79 => Outcome::NoRoom,
            79..82 => Outcome::Unreachable,
            82..84 => Outcome::ConnectionLost,
            84..87 => Outcome::TimedOut,
            87..92 => Outcome::Refused,
            92..94 => Outcome::Rejected,
            94..96 => Outcome::Untranslatable,
            96 => Outcome::Filtered,
            97 => Outcome::FilterFailed,
            _ if self.random.u32(..4) == 0 => Outcome::Gone,
            _ => Outcome::Delivered,
        };
        self.lane.handle_outcome(answered.outbox, answered.serial, outcome, self.now);
        self.model.outcome(answered.at, answered.serial, outcome);
        self.stale.push(answered);
        format!("outcome of {:?} serial {}: {outcome:?}", answered.outbox, answered.serial)
    }

    fn release_one(&mut self) -> String {
        for _ in 0..8 {
            if !self.unreleased.is_empty() {
                let (event, label) = self.unreleased.swap_remove(self.random.usize(..self.unreleased.len()));
                self.lane.release(event);
                self.model.release(label);
            }
        }
        "release up to eight events".into()
    }

    fn repeat_outcome(&mut self) -> String {
        if self.stale.is_empty() {
            return "no outcome to repeat".into();
        }
        let stale = self.stale.swap_remove(self.random.usize(..self.stale.len()));
        self.outcome(stale)
    }

    fn resume_outbox(&mut self) -> String {
        let all: Vec<(usize, OutboxId)> = self.names.iter().map(|(at, outbox)| (*at, *outbox)).collect();
        if all.is_empty() {
            return "no outbox to resume".into();
        }
        // The latest ones more often: those are there.
        let back = self.random.usize(..all.len().min(4));
        let (at, outbox) = self.pick(all.get(all.len() - 1 - back..).unwrap_or_default());
        self.lane.resume_outbox(outbox, self.now);
        self.model.resume(at);
        format!("resume {outbox:?}")
    }

    fn advance(&mut self) -> Result<String, String> {
        let next = self.lane.next_timeout();
        // Overdue work is due now.
        if let Some(due) = self.model.next_due().map(|due| due.max(self.now))
            && next.is_none_or(|next| next > due)
        {
            return Err(format!("the engine wants to be woken at {next:?}, something is due at {due:?}"));
        }
        let step = Duration::from_millis(self.random.u64(..700));
        self.now = match (self.random.u32(..3), next) {
            (0, _) => self.now + step / 10,
            // Where nothing expires, that may be in a hundred years.
            (1, Some(next)) if next.since(self.now) < Duration::from_secs(3_600) => next.max(self.now),
            _ => self.now + step,
        };
        self.model.now = self.now;
        self.lane.handle_timeout(self.now);
        let disconnected = self.disconnected();
        self.model.timeout(&disconnected);
        let mut engine: Vec<(OutboxId, u32)> = std::iter::from_fn(|| self.lane.poll_timed_out()).collect();
        let mut model: Vec<(OutboxId, u32)> = vec![];
        for (at, serial) in std::mem::take(&mut self.model.timed_out) {
            model.extend(self.names.get(&at).map(|outbox| (*outbox, serial)));
        }
        engine.sort_unstable();
        model.sort_unstable();
        same("timed out", &engine, &model)?;
        Ok(format!("time passes, {} timed out", engine.len()))
    }

    fn route(&mut self) {
        let snapshot = self.hierarchy.snapshot();
        // Of several consumers that are gone at once, the order in which their backlogs are released is not promised.
        let gone = snapshot.consumers_gone_since(&self.snapshot);
        self.snapshot = Arc::clone(&snapshot);
        self.lane.handle_snapshot(snapshot, self.now);
        self.model.route(&gone);
    }

    // ---- what the lane says to do ----

    /// Polls the lane by its rule; now and then some deliveries are left for the next time.
    fn poll(&mut self, trace: &mut dyn FnMut(&str)) -> Result<(), String> {
        let limit = if self.random.u32(..6) == 0 { self.random.u32(..3) } else { u32::MAX };
        let mut count = 0;
        while count < limit {
            count += 1;
            let mut events = vec![];
            let Some(delivery) = self.lane.poll_delivery(self.now, &mut events) else {
                return match self.model.someone_waits() {
                    None => Ok(()),
                    Some(key) => Err(format!("no delivery, although {key} could have one")),
                };
            };
            let Some(expected) = self.model.deliver(delivery.key) else {
                return Err(format!("a delivery to {}, which should get none", delivery.key));
            };
            trace(&format!("        deliver {:?} to {} as serial {}", labels(&events), delivery.key, delivery.serial));
            self.take(delivery, events, expected)?;
            if let Some(key) = self.model.someone_starves() {
                return Err(format!("{key} was passed over too often"));
            }
        }
        Ok(())
    }

    /// Checks and takes a delivery, which must be the expected one.
    fn take(
        &mut self,
        delivery: Delivery,
        events: Vec<Arc<Event>>,
        (at, expected): (usize, Expected),
    ) -> Result<(), String> {
        let said = Expected {
            labels: labels(&events),
            event_serials: events.iter().map(|event| event.serial).collect(),
            peer: delivery.peer,
            output_form: delivery.output_form,
            serial: delivery.serial,
            one_way: delivery.one_way,
            deadline: delivery.deadline,
            pulled: delivery.pulled,
            ask: delivery.ask,
            repeated: delivery.repeated,
        };
        same(&format!("delivery to {}", delivery.key), &said, &expected)?;
        self.pulled += u64::from(said.pulled);
        self.batches += u64::from(said.labels.len() > 1);
        self.remote_deliveries += u64::from(said.ask.is_some());
        self.name(at, delivery.outbox)?;
        let first = expected.labels.first().copied().unwrap_or_default();
        self.unanswered.push(Unanswered { outbox: delivery.outbox, serial: delivery.serial, at, first });
        for (event, label) in events.into_iter().zip(expected.labels) {
            // The protocol keeps some events for longer than it takes to write them.
            if self.random.u32(..4) == 0 {
                self.unreleased.push((event, label));
            } else {
                self.lane.release(event);
                self.model.release(label);
            }
        }
        Ok(())
    }

    /// Consumers that the lane disconnected in this operation, in that order. The order of several to be disconnected
    /// at once is not specified. It shows in the order in which backlogs are released.
    fn disconnected(&mut self) -> Vec<ProxyKey> {
        self.hear_notices();
        let disconnected = self.heard.iter().filter_map(|notice| match notice {
            Notice::ConsumerDisconnected { key, .. } => Some(*key),
            _ => None,
        });
        disconnected.collect()
    }

    fn hear_notices(&mut self) {
        self.heard.extend(std::iter::from_fn(|| self.lane.poll_notice()).map(|notice| match notice {
            // The model has no numbers for types.
            Notice::EventRejected { key, number, .. } => {
                Notice::EventRejected { key, event_type: TypeId::OTHER, number }
            }
            Notice::EventUndeliverable { key, number, .. } => {
                Notice::EventUndeliverable { key, event_type: TypeId::OTHER, number }
            }
            notice => notice,
        }));
    }

    /// Notes the lane's id of an outbox in the model. It must always be the same, and no other outbox's.
    fn name(&mut self, at: usize, outbox: OutboxId) -> Result<(), String> {
        let known = *self.names.entry(at).or_insert(outbox);
        same("name of an outbox", &outbox, &known)?;
        match self.names.iter().find(|(other, name)| **other != at && **name == outbox) {
            None => Ok(()),
            Some(_) => Err(format!("{outbox:?} is the name of two outboxes")),
        }
    }

    // ---- comparing ----

    fn compare(&mut self) -> Result<(), String> {
        let mut engine: Vec<_> = std::iter::from_fn(|| self.lane.poll_release()).collect();
        let mut model = std::mem::take(&mut self.model.released);
        // Which of several outboxes ends first at one moment is not promised; that each keeps its suppliers' order is,
        // and tickets count up.
        engine.sort_unstable();
        model.sort_unstable();
        same("released", &engine, &model)?;
        // Whether an outbox had room again before its consumer was disconnected at the same moment is not promised.
        let disconnected = self.disconnected();
        let is_promised = |notice: &Notice| match notice {
            Notice::OutboxRecovered { key, .. } => !disconnected.contains(key),
            _ => true,
        };
        let said = |notices: &mut Vec<Notice>| -> Vec<String> {
            notices.drain(..).filter(is_promised).map(|notice| format!("{notice:?}")).collect()
        };
        let (mut engine, mut model) = (said(&mut self.heard), said(&mut self.model.notices));
        engine.sort_unstable();
        model.sort_unstable();
        same("notices", &engine, &model)?;
        self.compare_completed()?;
        self.compare_outboxes()?;
        let mut engine: Vec<_> = self.lane.channels().collect();
        engine.sort_by_key(|stats| stats.channel);
        same("channels", &engine.iter().map(|stats| stats.channel).collect::<Vec<_>>(), &self.model.channels())?;
        for stats in engine {
            let said = (stats.events, stats.memory_bytes, stats.withheld);
            let what = format!("events, bytes and withheld replies of {:?}", stats.channel);
            same(&what, &said, &self.model.usage(stats.channel))?;
        }
        same("counters", &self.counts(), &self.model.counts)
    }

    fn compare_outboxes(&mut self) -> Result<(), String> {
        let mut engine: Vec<_> = self.lane.outboxes().collect();
        engine.sort_by_key(|stats| stats.key);
        let present = self.model.present();
        same("number of outboxes", &engine.len(), &present.len())?;
        for (stats, at) in engine.into_iter().zip(present) {
            self.name(at, stats.outbox)?;
            let outbox = self.model.outboxes.get(at).ok_or("no such outbox")?;
            same("outbox", &(stats.key, stats.peer), &(outbox.key, outbox.peer))?;
            let said = (stats.delivered, stats.failures, DiscardReason::ALL.map(|reason| stats.discards.of(reason)));
            let what = format!("delivered, failures and discards of {}", stats.key);
            same(&what, &said, &(outbox.delivered, outbox.failures, outbox.discards))?;
            let said = (stats.backlog_events, stats.in_flight, stats.backlog_bytes);
            same(&format!("backlog of {}", stats.key), &said, &self.model.backlog(at))?;
            same(&format!("waits of {}", stats.key), &(stats.delayed, stats.pulls_waiting), &self.model.waits(at))?;
            same(&format!("state of {}", stats.key), &stats.state, &self.model.state(at))?;
        }
        // What is left behind is counted by type as it is released.
        let by_type: u64 = self.lane.type_drops().map(|drops| drops.events).sum();
        let said = by_type + self.lane.type_drops_beyond() + self.model.orphaned_events() as u64;
        same("discards by type", &said, &self.lane.counters().discards.total())?;
        Ok(())
    }

    fn counts(&self) -> Counts {
        let counters = self.lane.counters();
        Counts {
            snapshots: counters.routing.snapshots,
            accepted: counters.taken.accepted,
            withheld: counters.taken.withheld,
            refused: counters.taken.refused,
            unwanted: counters.taken.unwanted,
            queued: counters.deliveries.queued,
            deliveries: counters.deliveries.begun,
            delivered: counters.deliveries.delivered,
            put_back: counters.deliveries.put_back,
            failures: counters.deliveries.failures,
            timed_out: counters.deliveries.timed_out,
            disconnected: counters.deliveries.disconnected,
            stale: counters.deliveries.stale_outcomes,
            unknown: counters.deliveries.unknown_outboxes,
            filtered: counters.deliveries.filtered,
            filtered_in: counters.taken.filtered,
            discards: DiscardReason::ALL.map(|reason| counters.discards.of(reason)),
        }
    }

    fn summary(&self) -> Summary {
        let counts = self.counts();
        Summary {
            accepted: counts.accepted,
            withheld: counts.withheld,
            refused: counts.refused,
            deliveries: counts.deliveries,
            delivered: counts.delivered,
            failures: counts.failures,
            timed_out: counts.timed_out,
            disconnected: counts.disconnected,
            pulled: self.pulled,
            batches: self.batches,
            filtered_in: counts.filtered_in,
            remote_admissions: self.remote_admissions,
            remote_deliveries: self.remote_deliveries,
            evaluations: self.lane.counters().filters.evaluations,
            cuts: self.lane.counters().filters.cuts,
            discards: counts.discards,
            completed: self.reports.completed(),
            late: self.model.late,
            blocked: self.model.blocked,
            waited_out: self.model.waited_out,
        }
    }
}

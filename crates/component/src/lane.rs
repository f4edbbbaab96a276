//! A lane: the instances that one thread runs, their timers and their restarts.
//!
//! # The rule that drives it
//!
//! Whoever owns a lane carries out commands on it and calls [`Lane::step`] until that has nothing to do, then waits for a command or for the
//! time that it answers. Nothing here waits, and nothing is locked.

use crate::counters::PortCounters;
use crate::declaration::{Blueprint, Parts, TimerPart};
use crate::error::{Error, Failure};
use crate::instance::{AnyInstance, AnySink, Hook, InstanceState, Shown};
use crate::life::{Life, Step};
use crate::notice::{Change, NeighbourChange, Notice, Notices};
use crate::port::{EventSet, SendOptions, Tick};
use crate::queue::QueueSettings;
use crate::recording::SinkRecorder;
use crate::route::{AnyEnd, AnyQueue, AnyRoute, Deliver, Origin, Route};
use crate::sets::{EventSets, SetTerms};
use crate::settings::{PortSettings, RestartPolicy};
use crate::threads::{Busy, Waker};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events that each queue may have handled before the lane looks after its timers and commands again.
const ROUNDS_MAX: u32 = 64;

/// What tells the time.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    System,
    /// A time that stands still until it is advanced: a beginning, and nanoseconds since.
    Manual(Instant, Arc<AtomicU64>),
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Manual(base, elapsed) => *base + Duration::from_nanos(elapsed.load(Ordering::Relaxed)),
        }
    }

    /// Sets a clock that is advanced by hand.
    pub(crate) fn set(&self, now: Instant) {
        if let Self::Manual(base, elapsed) = self {
            let since = now.saturating_duration_since(*base).as_nanos();
            elapsed.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

/// What all instances of a lane use.
pub(crate) struct LaneContext {
    pub(crate) clock: Clock,
    pub(crate) notices: Notices,
    pub(crate) restart: RestartPolicy,
    pub(crate) waker: Arc<Waker>,
    pub(crate) busy: Arc<Busy>,
    /// The beginning of the server.
    pub(crate) base: Instant,
    /// The name of no source.
    pub(crate) no_source: Arc<str>,
    /// Instances that panicked, with what the panic said, until the lane attends to them.
    pub(crate) failed: RefCell<Vec<(Arc<str>, String)>>,
}

struct ArmedTimer {
    instance: Rc<InstanceState>,
    /// The timer, as `instance.port`.
    name: Arc<str>,
    interval: Duration,
    due: Option<Instant>,
    end: Rc<dyn Deliver<Tick>>,
    counters: Arc<PortCounters>,
}

/// An instance with its parts.
struct Entry {
    instance: Rc<dyn AnyInstance>,
    state: Rc<InstanceState>,
    parts: Parts,
    /// To the ports [`Neighbours`](crate::Neighbours) of connected instances.
    changes: Route<NeighbourChange>,
    /// Failures since the component ran without one for [`RestartPolicy::within`].
    failures: u32,
    failed_last: Option<Instant>,
    restart_due: Option<Instant>,
    /// The state that a restart leads to.
    resume: Life,
}

/// What an instance is made of.
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) name: Arc<str>,
    pub(crate) blueprint: Blueprint,
    pub(crate) properties: toml::Table,
    pub(crate) shown: Arc<Shown>,
    pub(crate) counters: Vec<Arc<PortCounters>>,
}

/// The instances of one thread.
pub(crate) struct Lane {
    context: Rc<LaneContext>,
    entries: BTreeMap<Arc<str>, Entry>,
    timers: Vec<ArmedTimer>,
    /// Sinks that have a queue.
    queued: Vec<Rc<dyn AnySink>>,
    /// Of sinks that have a queue and sets.
    sets: Vec<EventSets>,
    /// The earliest of all timers and restarts.
    next_due: Option<Instant>,
}

impl Lane {
    pub(crate) fn new(context: LaneContext) -> Self {
        Self {
            context: Rc::new(context),
            entries: BTreeMap::new(),
            timers: Vec::new(),
            queued: Vec::new(),
            sets: Vec::new(),
            next_due: None,
        }
    }

    /// Makes an instance.
    pub(crate) fn configure(&mut self, order: Order) -> Result<(), Error> {
        let Order { number, name, blueprint, properties, shown, counters } = order;
        // One that was made after the server had given up waiting for it.
        self.remove(&name);
        let state = InstanceState {
            number,
            name: name.clone(),
            context: self.context.clone(),
            shown,
            takes_events: false.into(),
            may_send: false.into(),
            resume: Life::Configured.into(),
        };
        let state = Rc::new(state);
        let (instance, mut parts) = blueprint.assemble(state.clone(), properties, counters);
        instance.build(&parts.routes)?;
        if let Err(failure) = instance.hook(Hook::Configured) {
            instance.clear();
            self.context.failed.borrow_mut().retain(|(failed, _)| *failed != name);
            return Err(Error::Failed { instance: name.to_string(), reason: failure.to_string() });
        }
        for TimerPart { port, interval, end, counters } in parts.timers.drain(..) {
            let (instance, name) = (state.clone(), format!("{name}.{port}").into());
            self.timers.push(ArmedTimer { instance, name, interval, due: None, end, counters });
        }
        let changes = Route::new(state.clone(), "", Arc::default());
        let entry = Entry {
            instance,
            state,
            parts,
            changes,
            failures: 0,
            failed_last: None,
            restart_due: None,
            resume: Life::Configured,
        };
        self.entries.insert(name.clone(), entry);
        self.context.notices.report(&name, Change::Configured);
        Ok(())
    }

    fn route(&self, (instance, port): (&str, &str)) -> Option<&Rc<dyn AnyRoute>> {
        let routes = &self.entries.get(instance)?.parts.routes;
        routes.iter().find(|(name, _)| *name == port).map(|(_, route)| route)
    }

    fn sink(&self, (instance, port): (&str, &str)) -> Option<&Rc<dyn AnySink>> {
        let sinks = &self.entries.get(instance)?.parts.sinks;
        sinks.iter().find(|(name, _)| *name == port).map(|(_, sink)| sink)
    }

    /// Connects a source with a sink of this lane; false if they are of different types, or not there.
    pub(crate) fn connect(&self, source: (&str, &str), sink: (&str, &str), name: &Arc<str>) -> bool {
        let (Some(route), Some(sink)) = (self.route(source), self.sink(sink)) else { return false };
        route.connect(name, sink.clone().end())
    }

    /// Connects a source with the queue of a sink of any lane.
    pub(crate) fn connect_queue(&self, source: (&str, &str), name: &Arc<str>, queue: AnyQueue) -> bool {
        self.route(source).is_some_and(|route| route.connect_queue(name, queue))
    }

    /// Connects a source with what is no port: a function of the program, or a replay.
    pub(crate) fn connect_end(&self, source: (&str, &str), name: &Arc<str>, end: AnyEnd) -> bool {
        self.route(source).is_some_and(|route| route.connect(name, end))
    }

    /// The queue of a sink.
    pub(crate) fn queue(&mut self, sink: (&str, &str), settings: &QueueSettings) -> Result<AnyQueue, String> {
        let sink = self.sink(sink).ok_or("it is gone")?.clone();
        let queue = sink.queue(settings)?;
        self.serve(sink);
        Ok(queue)
    }

    /// Has the queue of a sink served from now on.
    fn serve(&mut self, sink: Rc<dyn AnySink>) {
        let is_there = |other: &Rc<dyn AnySink>| std::ptr::addr_eq(Rc::as_ptr(other), Rc::as_ptr(&sink));
        if !sink.is_gathered() && !self.queued.iter().any(is_there) {
            self.queued.push(sink);
        }
    }

    /// Gives a sink a queue and a filter, where they are asked for.
    pub(crate) fn set_port(&mut self, name: (&str, &str), settings: &PortSettings) -> Result<(), String> {
        let sink = self.sink(name).ok_or("it is gone")?;
        if settings.queue.is_some() && sink.is_queued() {
            return Err("it has a queue already: give it one once, and before its inputs and subscriptions".to_owned());
        }
        if let Some(text) = &settings.when {
            sink.set_filter(text)?;
        }
        settings.queue.as_ref().map_or(Ok(()), |queue| self.queue(name, queue).map(drop))
    }

    /// Has the events of sinks of an instance come in sets.
    pub(crate) fn correlate(
        &mut self,
        instance: &str,
        ports: &[(String, QueueSettings)],
        terms: SetTerms,
    ) -> Result<(), String> {
        let mut sinks = Vec::new();
        for (port, _) in ports {
            let sink = self.sink((instance, port)).ok_or("it is gone")?;
            if sink.is_gathered() {
                return Err(format!("{instance}.{port} has sets already: name all of its sources in one"));
            }
            sink.check_queue()?;
            sinks.push(sink.clone());
        }
        for (sink, (_, queue)) in sinks.iter().zip(ports) {
            sink.queue(queue)?;
        }
        let is_one = |queued: &Rc<dyn AnySink>| sinks.iter().any(|sink| Rc::ptr_eq(sink, queued));
        self.queued.retain(|queued| !is_one(queued));
        self.sets.push(EventSets::new(terms, sinks, self.context.base));
        Ok(())
    }

    /// Has a sink record what it hands to its component.
    pub(crate) fn record(&self, sink: (&str, &str), recorder: SinkRecorder) {
        if let Some(sink) = self.sink(sink) {
            sink.record(recorder);
        }
    }

    /// Has a recorded event of a source, with its priority, handled by a sink.
    pub(crate) fn feed(
        &self,
        sink: (&str, &str),
        value: &[u8],
        (source, priority): (Arc<str>, i16),
        set: Option<EventSet>,
    ) -> Result<(), String> {
        let (instance, port) = sink;
        let sink = self.sink(sink).ok_or_else(|| format!("{instance} has no sink {port}"))?;
        let origin = Origin { source: &source, sent: self.context.clock.now(), priority, expires: None, set };
        sink.feed(value, &origin)
    }

    /// The queues in which an instance gets what happens to its neighbours.
    pub(crate) fn neighbour_queues(&mut self, instance: &str) -> Vec<AnyQueue> {
        let Some(entry) = self.entries.get(instance) else { return Vec::new() };
        let sinks = entry.parts.neighbours.clone();
        let queues = sinks.iter().filter_map(|sink| sink.queue(&QueueSettings::default()).ok()).collect();
        sinks.into_iter().for_each(|sink| self.serve(sink));
        queues
    }

    /// Has a neighbour get what happens to an instance.
    pub(crate) fn add_neighbour(&self, instance: &str, neighbour: &Arc<str>, queues: Vec<AnyQueue>) {
        let Some(entry) = self.entries.get(instance) else { return };
        entry.changes.disconnect(&|sink| *sink == **neighbour);
        for queue in queues {
            entry.changes.connect_queue(neighbour, queue);
        }
    }

    /// Ends the connections that lead to an instance.
    pub(crate) fn disconnect(&self, instance: &str) {
        let prefix = format!("{instance}.");
        for entry in self.entries.values() {
            for (_, route) in &entry.parts.routes {
                route.disconnect(&|sink| sink.starts_with(&prefix));
            }
            entry.changes.disconnect(&|sink| *sink == *instance);
        }
    }

    /// Takes a step in the life of an instance, from a state that has it.
    pub(crate) fn take(&mut self, name: &str, step: Step) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(name) else { return Ok(()) };
        let before = entry.state.life();
        let Some(after) = before.after(step) else {
            return Err(Error::Life { instance: name.to_owned(), step, life: before });
        };
        let outcome = if before == Life::Failed && step == Step::Activate {
            entry.failures = 0;
            entry.resume = Life::Activated;
            entry.remake()
        } else {
            entry.step(step, after)
        };
        let (failed, changed) = (entry.state.name.clone(), entry.state.life());
        match step {
            Step::Remove => self.remove(name),
            _ if outcome.is_ok() && changed == after => {
                entry.restart_due = None;
                let change = match after {
                    Life::Connected => Change::Connected,
                    Life::Activated => Change::Activated,
                    _ => Change::Passivated,
                };
                self.context.notices.report(&failed, change);
                self.arm(name, after);
            }
            _ => {}
        }
        self.attend();
        outcome.map_err(|failure| Error::Failed { instance: name.to_owned(), reason: failure.to_string() })
    }

    /// Has no more events come to an instance that refuses to be passivated.
    pub(crate) fn silence(&mut self, name: &str) {
        if let Some(entry) = self.entries.get(name) {
            entry.state.set_life(Life::Passivated);
            self.arm(name, Life::Passivated);
        }
    }

    /// Arms the timers of an instance, or disarms them.
    fn arm(&mut self, name: &str, life: Life) {
        let now = self.context.clock.now();
        for timer in self.timers.iter_mut().filter(|timer| *timer.instance.name == *name) {
            timer.due = (life == Life::Activated).then(|| now + timer.interval);
        }
        self.find_next_due();
    }

    fn find_next_due(&mut self) {
        let timers = self.timers.iter().filter_map(|timer| timer.due);
        self.next_due = timers.chain(self.entries.values().filter_map(|entry| entry.restart_due)).min();
    }

    fn remove(&mut self, name: &str) {
        let Some(entry) = self.entries.remove(name) else { return };
        self.disconnect(name);
        self.queued.retain(|sink| *sink.owner() != *name);
        self.sets.retain(|sets| !sets.is_of(name));
        self.timers.retain(|timer| *timer.instance.name != *name);
        entry.instance.clear();
        // Panics of the removed component are no failures any more.
        self.context.failed.borrow_mut().retain(|(failed, _)| **failed != *name);
        entry.state.set_life(Life::Removed);
        let notice = self.context.notices.report(&entry.state.name, Change::Removed);
        entry.tell_neighbours(&notice, self.context.clock.now());
        self.find_next_due();
    }

    /// Does what is due, and answers when something will be.
    pub(crate) fn step(&mut self) -> Option<Instant> {
        let now = self.context.clock.now();
        if self.next_due.is_some_and(|due| due <= now) {
            self.restart_due(now);
            self.tick(now);
            self.find_next_due();
        }
        for _ in 0..ROUNDS_MAX {
            let mut has_served = false;
            for sink in &self.queued {
                has_served |= sink.serve();
            }
            for sets in &mut self.sets {
                has_served |= sets.serve(&self.context);
            }
            if !has_served {
                break;
            }
        }
        self.attend();
        self.context.busy.end();
        let sets = self.sets.iter_mut().filter_map(|sets| sets.expire(now)).min();
        self.next_due.into_iter().chain(sets).min()
    }

    /// Whether events wait in queues for active instances.
    pub(crate) fn has_queued(&self) -> bool {
        self.queued.iter().any(|sink| sink.has_queued()) || self.sets.iter().any(EventSets::has_queued)
    }

    /// Sends the ticks that are due.
    fn tick(&mut self, now: Instant) {
        for timer in &mut self.timers {
            let Some(due) = timer.due.filter(|due| *due <= now) else { continue };
            let late = now.saturating_duration_since(due).as_nanos() / timer.interval.as_nanos().max(1);
            let missed = u32::try_from(late).unwrap_or(u32::MAX);
            let latest = due + timer.interval * missed;
            timer.due = Some(latest + timer.interval);
            timer.counters.sent.count();
            let sent = self.context.clock.now();
            self.context.busy.begin(sent.saturating_duration_since(self.context.base));
            let origin = Origin { source: &timer.name, sent, priority: 0, expires: None, set: None };
            // A timer is the first of a chain, so that no handler runs.
            let _ = timer.end.deliver(&Tick { due: latest, missed: missed.into() }, &origin);
        }
    }

    fn restart_due(&mut self, now: Instant) {
        let due = |entry: &Entry| entry.restart_due.is_some_and(|due| due <= now);
        let names: Vec<_> = self.entries.iter().filter(|(_, entry)| due(entry)).map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            entry.restart_due = None;
            match entry.remake() {
                Ok(()) => {
                    let life = entry.state.life();
                    entry.state.shown.restarts.fetch_add(1, Ordering::Relaxed);
                    let notice = self.context.notices.report(&name, Change::Restarted);
                    entry.tell_neighbours(&notice, now);
                    self.arm(&name, life);
                }
                Err(failure) => {
                    let mut failed = self.context.failed.borrow_mut();
                    if !failed.iter().any(|(failed, _)| *failed == name) {
                        failed.push((name, failure.to_string()));
                    }
                }
            }
        }
    }

    /// Does what follows panics.
    pub(crate) fn attend(&mut self) {
        loop {
            // Not in the condition: the handlers below may fail, too.
            let failed = self.context.failed.borrow_mut().pop();
            let Some((name, reason)) = failed else { return };
            let now = self.context.clock.now();
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            let restart_after = entry.note_failure(now, &self.context.restart);
            let notice = self.context.notices.report(&name, Change::Failed { reason, restart_after });
            entry.tell_neighbours(&notice, now);
            self.arm(&name, Life::Failed);
        }
    }
}

impl Entry {
    /// Has the component do what it does at a step, and changes the state.
    fn step(&mut self, step: Step, after: Life) -> Result<(), Failure> {
        let before = self.state.life();
        match step {
            Step::Activate => self.state.may_send.set(true),
            Step::Passivate => self.state.takes_events.set(false),
            Step::Connect | Step::Remove => {}
        }
        let outcome = self.instance.hook(Hook::Step(step));
        if self.state.life() == before {
            // It did not panic.
            self.state.set_life(if outcome.is_ok() { after } else { before });
        }
        outcome
    }

    /// Makes the component anew, and leads it to the state that it was in.
    fn remake(&mut self) -> Result<(), Failure> {
        self.instance.clear();
        self.state.resume.set(self.resume);
        self.instance.build(&self.parts.routes).map_err(|error| Failure::new(error.to_string()))?;
        self.instance.hook(Hook::Configured)?;
        self.state.set_life(Life::Configured);
        let steps: &[Step] = match self.resume {
            Life::Configured => &[],
            Life::Activated => &[Step::Connect, Step::Activate],
            _ => &[Step::Connect],
        };
        for step in steps {
            let Some(after) = self.state.life().after(*step) else { continue };
            if let Err(failure) = self.step(*step, after) {
                self.state.set_life(Life::Failed);
                // A panic has noted the state before this step.
                self.state.resume.set(self.resume);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Counts a failure, and decides when the component is made again.
    fn note_failure(&mut self, now: Instant, policy: &RestartPolicy) -> Option<Duration> {
        self.resume = self.state.resume.get();
        self.state.set_life(Life::Failed);
        let is_new = self.failed_last.is_none_or(|last| now.saturating_duration_since(last) > policy.within);
        self.failures = if is_new { 1 } else { self.failures.saturating_add(1) };
        self.failed_last = Some(now);
        let pause = (self.failures <= policy.restarts_max).then(|| policy.pause(self.failures));
        self.restart_due = pause.map(|pause| now + pause);
        pause
    }

    fn tell_neighbours(&self, notice: &Notice, now: Instant) {
        if let Some(change) = notice.for_neighbours() {
            // A full queue has counted it.
            let _ = self.changes.send_always(&change, now, SendOptions::default());
        }
    }
}

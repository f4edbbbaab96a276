//! A component server: containers with their lanes, instances and connections, in one process.

use crate::counters::{PortCounters, PortStatus};
use crate::declaration::{Blueprint, Component, EventType, PortDeclaration, PortKind};
use crate::error::Error;
use crate::graph::{Connection, Graph, PortName};
use crate::instance::Shown;
use crate::lane::{Clock, Lane, LaneContext, Order};
use crate::life::{Life, Step};
use crate::notice::Notices;
use crate::remote::{RemoteEnd, RemotePort};
use crate::sets::SetTerms;
use crate::settings::{Placement, PortSettings, ServerSettings};
use crate::threads::{Busy, LaneThread, Names, Waker, Watch, Watched};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The longest name of an instance or container, in octets.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// How often all lanes of a server on the caller's thread are run at one time: events that go round by a queue have no end.
const PASSES_MAX: u32 = 1_000;

/// The container of instances for which none is named.
pub(crate) const FIRST_CONTAINER: &str = "main";

/// What an instance is and has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceStatus {
    /// The name.
    pub name: String,
    /// The name of the component's struct.
    pub component: &'static str,
    /// The lane: the name of its container, and its place there.
    pub lane: String,
    /// The state.
    pub life: Life,
    /// How often the component was made again.
    pub restarts: u64,
}

struct Record {
    blueprint: Blueprint,
    /// The place of its lane among those of the server.
    lane: usize,
    shown: Arc<Shown>,
    /// One for each port, in the order of the declaration.
    counters: Vec<Arc<PortCounters>>,
    /// Of sinks that were given some.
    ports: BTreeMap<String, PortSettings>,
}

/// Where a lane is run.
enum LaneHandle {
    /// By the caller.
    Here(Rc<RefCell<Lane>>),
    Thread(LaneThread),
}

struct LaneSlot {
    container: String,
    name: String,
    /// The priority; `None` for an ordinary thread.
    priority: Option<i32>,
    handle: LaneHandle,
}

/// Containers, instances and connections, in one process. It ends when this is dropped: instances that are active are passivated, sources
/// before sinks, and all are removed.
pub struct Server {
    /// Subscriptions, and sources that are published: they end with their instances, or first.
    pub(crate) remote_ends: Vec<RemoteEnd>,
    settings: ServerSettings,
    notices: Notices,
    pub(crate) clock: Clock,
    base: Instant,
    lanes: Vec<LaneSlot>,
    instances: BTreeMap<String, Record>,
    graph: Graph,
    names: Names,
    /// The thread that looks for handlers that do not return, and how it gets lanes; `None` on the caller's thread.
    watch: Option<(Watch, Sender<Watched>)>,
}

impl Server {
    /// A server whose lanes have threads of their own.
    ///
    /// # Errors
    /// [`Error::Thread`]: no thread can be started.
    pub fn new(name: &str, settings: ServerSettings) -> Result<Self, Error> {
        let mut server = Self::with_clock(name, settings, Clock::System);
        let (more, lanes) = channel();
        let (notices, names) = (server.notices.clone(), server.names.clone());
        let watch = Watch::start(notices, names, server.base, server.settings.slow_after, lanes)
            .map_err(|error| Error::Thread { lane: "watch".to_owned(), reason: error.to_string() })?;
        server.watch = Some((watch, more));
        Ok(server)
    }

    /// A server whose instances run on the caller's thread, by a clock that the caller advances: in [`advance`](Self::advance).
    #[must_use]
    pub fn manual(name: &str) -> Self {
        Self::manual_with(name, ServerSettings::default())
    }

    /// As [`manual`](Self::manual), with settings.
    #[must_use]
    pub fn manual_with(name: &str, settings: ServerSettings) -> Self {
        Self::with_clock(name, settings, Clock::Manual(Instant::now(), Arc::default()))
    }

    fn with_clock(name: &str, settings: ServerSettings, clock: Clock) -> Self {
        let notices = Notices { server: name.into(), listener: settings.listener.clone() };
        Self {
            remote_ends: Vec::new(),
            settings,
            notices,
            base: clock.now(),
            clock,
            lanes: Vec::new(),
            instances: BTreeMap::new(),
            graph: Graph::default(),
            names: Names::default(),
            watch: None,
        }
    }

    /// Sets how long a lane may take to answer a command from now on, as [`ServerSettings::answer_within`] does.
    pub fn set_answer_within(&mut self, limit: Duration) {
        self.settings.answer_within = limit;
    }

    /// Makes a container with a lane for each priority, from 1 to 99; without any, with one at ordinary priority.
    ///
    /// # Errors
    /// The name is none or taken, or a thread cannot be started.
    pub fn container(&mut self, name: &str, priorities: &[i32]) -> Result<(), Error> {
        check_name(name)?;
        if self.lanes.iter().any(|lane| lane.container == name) {
            return Err(Error::Exists { name: name.to_owned() });
        }
        let mut made = Vec::new();
        let ordinary = priorities.is_empty().then_some(None);
        for priority in ordinary.into_iter().chain(priorities.iter().copied().map(Some)) {
            made.push(self.make_lane(name, priority)?);
        }
        self.lanes.extend(made);
        Ok(())
    }

    fn make_lane(&self, container: &str, priority: Option<i32>) -> Result<LaneSlot, Error> {
        let name = priority.map_or_else(|| container.to_owned(), |priority| format!("{container}/{priority}"));
        let (waker, busy) = (Arc::<Waker>::default(), Arc::<Busy>::default());
        let (clock, base, notices) = (self.clock.clone(), self.base, self.notices.clone());
        let (restart, priorities) = (self.settings.restart.clone(), self.settings.priorities.clone());
        let context = {
            let (waker, busy) = (waker.clone(), busy.clone());
            move || {
                let (no_source, failed) = ("".into(), RefCell::default());
                LaneContext { clock, notices, restart, waker, busy, base, no_source, failed }
            }
        };
        let handle = match &self.watch {
            None => LaneHandle::Here(Rc::new(RefCell::new(Lane::new(context())))),
            Some((_, watched)) => {
                let lane = name.clone();
                let make = move || {
                    let set = |priority| {
                        priorities.map_or_else(
                            || Err("none was asked for by the program".to_owned()),
                            |set| set(priority).map_err(|error| error.to_string()),
                        )
                    };
                    if let Some(Err(reason)) = priority.map(set) {
                        log::warn!("the lane {lane} of components runs at ordinary priority: {reason}");
                    }
                    Lane::new(context())
                };
                let thread = LaneThread::start(name.clone(), busy.clone(), waker, make)
                    .map_err(|error| Error::Thread { lane: name.clone(), reason: error.to_string() })?;
                // The watch ends with the server only.
                let _ = watched.send(Watched { busy, reported_ns: 0 });
                LaneHandle::Thread(thread)
            }
        };
        Ok(LaneSlot { container: container.to_owned(), name, priority, handle })
    }

    /// Makes an instance of a component in the first lane, with its properties.
    ///
    /// # Errors
    /// The name is none or taken, a property is missing, unknown or of another type, or the component refuses.
    pub fn configure<C: Component>(&mut self, name: &str, properties: toml::Table) -> Result<(), Error> {
        self.place(name, &Blueprint::of::<C>(), Placement::default(), properties)
    }

    /// Makes an instance of a blueprint in a lane.
    ///
    /// # Errors
    /// As [`configure`](Self::configure), or there is no such container or lane.
    pub fn place(
        &mut self,
        name: &str,
        blueprint: &Blueprint,
        placement: Placement<'_>,
        properties: toml::Table,
    ) -> Result<(), Error> {
        check_name(name)?;
        if self.instances.contains_key(name) {
            return Err(Error::Exists { name: name.to_owned() });
        }
        check_properties(name, blueprint, &properties)?;
        let lane = self.find_lane(placement)?;
        let counters: Vec<_> = blueprint.declaration().ports.iter().map(|_| Arc::default()).collect();
        let shown = Arc::new(Shown::new());
        let number = {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            names.push(name.into());
            u64::try_from(names.len()).unwrap_or(u64::MAX)
        };
        let order = Order {
            number,
            name: name.into(),
            blueprint: blueprint.clone(),
            properties,
            shown: shown.clone(),
            counters: counters.clone(),
        };
        self.on_lane(lane, |lane| lane.configure(order))??;
        let record = Record { blueprint: blueprint.clone(), lane, shown, counters, ports: BTreeMap::new() };
        self.instances.insert(name.to_owned(), record);
        Ok(())
    }

    fn find_lane(&mut self, placement: Placement<'_>) -> Result<usize, Error> {
        if self.lanes.is_empty() && placement == Placement::default() {
            self.container(FIRST_CONTAINER, &[])?;
        }
        let is_it = |lane: &LaneSlot| {
            placement.container.is_none_or(|container| lane.container == container)
                && placement.lane.is_none_or(|priority| lane.priority == Some(priority))
        };
        self.lanes.iter().position(is_it).ok_or_else(|| {
            let name = placement.container.unwrap_or(FIRST_CONTAINER);
            let name = placement.lane.map_or_else(|| name.to_owned(), |priority| format!("{name}/{priority}"));
            let known = self.lanes.iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>().join(", ");
            Error::NoContainer { name, known }
        })
    }

    /// Gives a sink, as `instance.port`, a queue and a filter. This comes before its connections.
    ///
    /// # Errors
    /// There is no such sink, it is connected or has a queue already, or the settings cannot be.
    pub fn set_port(&mut self, sink: &str, settings: PortSettings) -> Result<(), Error> {
        let (name, _) = self.find(sink, PortKind::Sink)?;
        let problem = |reason| Error::Port { port: sink.to_owned(), reason };
        if self.graph.leads_to(&name) {
            return Err(problem("it is connected already: give it settings before".to_owned()));
        }
        if let Some(reason) = settings.queue.as_ref().and_then(|queue| queue.problem()) {
            return Err(problem(reason));
        }
        let lane = self.record(&name.instance)?.lane;
        let (set, given) = (name.clone(), settings.clone());
        self.on_lane(lane, move |lane| lane.set_port(set.as_pair(), &given))?.map_err(problem)?;
        if let Some(record) = self.instances.get_mut(&name.instance) {
            let known = record.ports.entry(name.port).or_default();
            known.queue = settings.queue.or(known.queue.take());
            known.when = settings.when.or(known.when.take());
        }
        Ok(())
    }

    /// Has the events of sinks of one instance, each as `instance.port`, come in sets: `camera.frame and mount.state within 50ms`. This comes
    /// before their connections. The text is a correlation, as `crates/filter/spec/8-correlation.md` has it, whose names are sources, as
    /// [`Ports::source`](crate::Ports::source) says them. What is in no set is dropped, and counted. The sinks have queues: those of their
    /// settings, or of 64 events.
    ///
    /// # Errors
    /// There is no such sink, they are of several instances, one is connected or has sets already, or the text is no correlation.
    pub fn correlate(&mut self, sinks: &[&str], correlation: &str) -> Result<(), Error> {
        let first = sinks.first().copied().unwrap_or_default();
        let (PortName { instance, .. }, _) = self.find(first, PortKind::Sink)?;
        let problem = |port: &str, reason: String| Error::Port { port: port.to_owned(), reason };
        let terms = SetTerms::parse(correlation).map_err(|reason| problem(first, reason))?;
        let mut ports = BTreeMap::new();
        for sink in sinks {
            let (name, _) = self.find(sink, PortKind::Sink)?;
            if name.instance != instance {
                return Err(problem(sink, format!("{first} is of another instance: a set is for sinks of one")));
            }
            if self.graph.leads_to(&name) {
                return Err(problem(sink, "it is connected already: give it sets before".to_owned()));
            }
            let queue = self.port_settings(&name).queue.unwrap_or_default();
            ports.insert(name.port, queue);
        }
        let (owner, of_lane) = (instance.clone(), ports.clone().into_iter().collect::<Vec<_>>());
        self.on_lane(self.lane_of(&instance)?, move |lane| lane.correlate(&owner, &of_lane, terms))?
            .map_err(|reason| problem(first, reason))?;
        if let Some(record) = self.instances.get_mut(&instance) {
            for (port, queue) in ports {
                record.ports.entry(port).or_default().queue = Some(queue);
            }
        }
        Ok(())
    }

    /// Connects a source with a sink, each as `instance.port`. This is possible in every state; a connection that is made while both are
    /// active has the next event.
    ///
    /// # Errors
    /// There is no such instance or port, the types differ, the connection exists, an instance would call itself, or the instances are on
    /// two lanes and the events cannot be copied.
    pub fn connect(&mut self, source: &str, sink: &str) -> Result<(), Error> {
        let (source, giving) = self.find(source, PortKind::Source)?;
        let (sink, taking) = self.find(sink, PortKind::Sink)?;
        if giving.event != taking.event {
            let code = |port: &PortDeclaration| port.event.map(|of| of.type_code());
            let (gives, takes) = match (code(giving), code(taking)) {
                (Some(gives), Some(takes)) => crate::plan::apart(gives, takes),
                _ => <(String, String)>::default(),
            };
            return Err(Error::Type { source: source.to_string(), sink: sink.to_string(), gives, takes });
        }
        let (from, to) = (self.record(&source.instance)?, self.record(&sink.instance)?);
        let (from_lane, to_lane) = (from.lane, to.lane);
        let is_queued = from_lane != to_lane || to.ports.get(&sink.port).is_some_and(|port| port.queue.is_some());
        self.graph.check(&source, &sink, is_queued)?;
        let name = Arc::from(sink.to_string());
        let giving = source.clone();
        let taking = sink.clone();
        let is_connected = if is_queued {
            let settings = self.port_settings(&sink).queue.unwrap_or_default();
            let problem = |reason| Error::Port { port: sink.to_string(), reason };
            let queue = self.on_lane(to_lane, move |lane| lane.queue(taking.as_pair(), &settings))?.map_err(problem)?;
            self.introduce_both(&source, &sink)?;
            self.on_lane(from_lane, move |lane| lane.connect_queue(giving.as_pair(), &name, queue))?
        } else {
            self.introduce_both(&source, &sink)?;
            self.on_lane(from_lane, move |lane| lane.connect(giving.as_pair(), taking.as_pair(), &name))?
        };
        debug_assert!(is_connected, "the types were compared");
        self.graph.add(Connection { source, sink, is_queued });
        Ok(())
    }

    /// Has two instances get what happens to each other. This comes before their connection: to do it twice changes nothing.
    fn introduce_both(&self, source: &PortName, sink: &PortName) -> Result<(), Error> {
        let (source, sink) = (&*source.instance, &*sink.instance);
        if self.graph.are_neighbours(source, sink) {
            return Ok(());
        }
        let (from_lane, to_lane) = (self.lane_of(source)?, self.lane_of(sink)?);
        self.introduce((source, from_lane), (sink, to_lane))?;
        self.introduce((sink, to_lane), (source, from_lane))
    }

    /// Has an instance get what happens to another.
    fn introduce(&self, to: (&str, usize), of: (&str, usize)) -> Result<(), Error> {
        let (name, other) = (to.0.to_owned(), of.0.to_owned());
        let neighbour: Arc<str> = to.0.into();
        let queues = self.on_lane(to.1, move |lane| lane.neighbour_queues(&name))?;
        self.on_lane(of.1, move |lane| lane.add_neighbour(&other, &neighbour, queues))
    }

    /// Says that the connections of an instance are made.
    ///
    /// # Errors
    /// The state does not allow it, or the component refuses.
    pub fn complete(&mut self, instance: &str) -> Result<(), Error> {
        self.take(instance, Step::Connect)
    }

    /// Has events come to an instance, and lets it send.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn activate(&mut self, instance: &str) -> Result<(), Error> {
        self.take(instance, Step::Activate)
    }

    /// Has no more events come to an instance, and lets it send none. Those that wait in its queues stay there.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn passivate(&mut self, instance: &str) -> Result<(), Error> {
        self.take(instance, Step::Passivate)
    }

    /// Removes an instance with its connections and what waits in its queues. Its name is free then.
    ///
    /// # Errors
    /// The state does not allow it. What the component answers is logged.
    pub fn remove(&mut self, instance: &str) -> Result<(), Error> {
        let Record { lane, shown, .. } = self.record(instance)?;
        let lane = *lane;
        // It may have been removed after this server had given up waiting for it.
        let outcome = if shown.life() == Life::Removed { Ok(()) } else { self.take(instance, Step::Remove) };
        if let Err(Error::Failed { reason, .. }) = &outcome {
            log::warn!("component {instance} failed while it was removed: {reason}");
        } else {
            outcome?;
        }
        self.remote_ends.iter().filter(|end| end.owner == instance).for_each(RemoteEnd::stop);
        self.remote_ends.retain(|end| end.owner != instance);
        self.instances.remove(instance);
        self.graph.remove(instance);
        for other in (0..self.lanes.len()).filter(|other| *other != lane) {
            let name = instance.to_owned();
            self.enqueue(other, move |lane| lane.disconnect(&name));
        }
        Ok(())
    }

    /// Takes a step in the life of an instance.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn take(&mut self, instance: &str, step: Step) -> Result<(), Error> {
        let record = self.record(instance)?;
        let life = record.shown.life();
        if life.after(step).is_none() {
            return Err(Error::Life { instance: instance.to_owned(), step, life });
        }
        let name = instance.to_owned();
        self.on_lane(record.lane, move |lane| lane.take(&name, step))?
    }

    /// Connects and activates all instances that are only configured: sinks before the sources that reach them.
    ///
    /// # Errors
    /// The first instance that refuses; those before it are active.
    pub fn start(&mut self) -> Result<(), Error> {
        self.remote_ends.iter().try_for_each(RemoteEnd::make_link)?;
        let order = self.sinks_first();
        for name in &order {
            if self.life(name) == Some(Life::Configured) {
                self.complete(name)?;
            }
        }
        for name in &order {
            if self.life(name) == Some(Life::Connected) {
                self.activate(name)?;
            }
        }
        Ok(())
    }

    /// Advances the clock of a server on the caller's thread, and has happen what is due on the way, each at its time.
    pub fn advance(&mut self, by: Duration) {
        let target = self.clock.now() + by;
        while let Some(due) = self.run_until_idle().filter(|due| *due <= target) {
            self.clock.set(due.max(self.clock.now()));
        }
        self.clock.set(target);
    }

    /// Has all lanes do what they can at this time, and answers when something will be due.
    fn run_until_idle(&self) -> Option<Instant> {
        let mut next = None::<Instant>;
        for _ in 0..PASSES_MAX {
            let mut is_idle = true;
            next = None;
            for slot in &self.lanes {
                let LaneHandle::Here(lane) = &slot.handle else { continue };
                let Ok(mut lane) = lane.try_borrow_mut() else { continue };
                let due = lane.step();
                next = next.into_iter().chain(due).min();
                is_idle &= !lane.has_queued();
            }
            let others = self.lanes.iter().any(|slot| match &slot.handle {
                LaneHandle::Here(lane) => lane.try_borrow().is_ok_and(|lane| lane.has_queued()),
                LaneHandle::Thread(_) => false,
            });
            if is_idle && !others {
                break;
            }
        }
        next
    }

    /// The state of an instance; `None` if there is no such instance.
    #[must_use]
    pub fn life(&self, instance: &str) -> Option<Life> {
        self.instances.get(instance).map(|record| record.shown.life())
    }

    /// All instances, by name.
    #[must_use]
    pub fn status(&self) -> Vec<InstanceStatus> {
        let status = |(name, record): (&String, &Record)| InstanceStatus {
            name: name.clone(),
            component: record.blueprint.declaration().name,
            lane: self.lanes.get(record.lane).map(|lane| lane.name.clone()).unwrap_or_default(),
            life: record.shown.life(),
            restarts: record.shown.restarts.load(Ordering::Relaxed),
        };
        self.instances.iter().map(status).collect()
    }

    /// What a port, as `instance.port`, has done; `None` if there is no such port.
    #[must_use]
    pub fn port(&self, port: &str) -> Option<PortStatus> {
        let (instance, port) = port.split_once('.')?;
        let record = self.instances.get(instance)?;
        let place = record.blueprint.declaration().ports.iter().position(|it| it.name == port)?;
        record.counters.get(place).map(|counters| counters.status())
    }

    /// The ports of a kind, as `instance.port`, each with its type.
    fn ports_of(&self, kind: PortKind) -> impl Iterator<Item = (String, EventType)> {
        self.instances.iter().flat_map(move |(name, record)| {
            let ports = record.blueprint.declaration().ports.iter().filter(move |port| port.kind == kind);
            ports.filter_map(move |port| Some((format!("{name}.{}", port.name), port.event?)))
        })
    }

    /// All sinks, each with its type.
    pub(crate) fn sinks(&self) -> Vec<(String, EventType)> {
        self.ports_of(PortKind::Sink).collect()
    }

    /// The names of all sources.
    pub(crate) fn sources(&self) -> Vec<String> {
        self.ports_of(PortKind::Source).map(|(name, _)| name).collect()
    }

    fn record(&self, name: &str) -> Result<&Record, Error> {
        self.instances.get(name).ok_or_else(|| {
            let known = self.instances.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Error::NoInstance { name: name.to_owned(), known }
        })
    }

    pub(crate) fn lane_of(&self, instance: &str) -> Result<usize, Error> {
        self.record(instance).map(|record| record.lane)
    }

    /// The settings that a sink was given.
    pub(crate) fn port_settings(&self, sink: &PortName) -> PortSettings {
        let settings = self.instances.get(&sink.instance).and_then(|record| record.ports.get(&sink.port));
        settings.cloned().unwrap_or_default()
    }

    /// How the events of a port travel, and its counters.
    pub(crate) fn remote(&self, port: &PortName) -> Option<(Arc<dyn RemotePort>, Arc<PortCounters>)> {
        let record = self.instances.get(&port.instance)?;
        let place = record.blueprint.declaration().ports.iter().position(|it| it.name == port.port)?;
        Some((record.blueprint.remote(place)?, record.counters.get(place)?.clone()))
    }

    /// A port of a kind.
    pub(crate) fn find(&self, name: &str, kind: PortKind) -> Result<(PortName, &PortDeclaration), Error> {
        let (instance, port) = name.split_once('.').unwrap_or((name, ""));
        let declaration = self.record(instance)?.blueprint.declaration();
        let Some(found) = declaration.port(port) else {
            let known = declaration.port_names();
            return Err(Error::NoPort { instance: instance.to_owned(), port: port.to_owned(), known });
        };
        if found.kind != kind {
            return Err(Error::Kind { port: name.to_owned(), is: found.kind.name(), needs: kind.name() });
        }
        Ok((PortName { instance: instance.to_owned(), port: port.to_owned() }, found))
    }

    fn sinks_first(&self) -> Vec<String> {
        self.graph.sinks_first(self.instances.keys().map(String::as_str))
    }

    pub(crate) fn on_lane<R: Send + 'static>(
        &self,
        lane: usize,
        command: impl FnOnce(&mut Lane) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let busy = |name: &str| Error::Busy { lane: name.to_owned() };
        let slot = self.lanes.get(lane).ok_or_else(|| busy("of the instance"))?;
        match &slot.handle {
            LaneHandle::Here(lane) => {
                lane.try_borrow_mut().map(|mut lane| command(&mut lane)).map_err(|_| busy(&slot.name))
            }
            LaneHandle::Thread(thread) => thread.run(self.settings.answer_within, command),
        }
    }
}

impl Server {
    /// Has a command carried out without waiting for it.
    fn enqueue(&self, lane: usize, command: impl FnOnce(&mut Lane) + Send + 'static) {
        match self.lanes.get(lane).map(|slot| &slot.handle) {
            Some(LaneHandle::Here(lane)) => {
                // A lane on the caller's thread is borrowed only while one of its handlers calls, which has no server.
                if let Ok(mut lane) = lane.try_borrow_mut() {
                    command(&mut lane);
                }
            }
            Some(LaneHandle::Thread(thread)) => thread.enqueue(command),
            None => {}
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let order: Vec<_> = self.sinks_first().into_iter().rev().collect();
        // Lanes that did not answer once are not asked again, for each of their instances.
        let mut stuck = BTreeSet::new();
        for name in &order {
            let lane = self.record(name).map_or(0, |record| record.lane);
            if !stuck.contains(&lane)
                && self.life(name) == Some(Life::Activated)
                && let Err(error) = self.passivate(name)
            {
                log::warn!("{error}");
                let silenced = name.clone();
                if matches!(error, Error::Busy { .. }) {
                    stuck.insert(lane);
                } else {
                    let _ = self.on_lane(lane, move |lane| lane.silence(&silenced));
                }
            }
        }
        self.remote_ends.iter().for_each(RemoteEnd::stop);
        for name in &order {
            let lane = self.record(name).map_or(0, |record| record.lane);
            if !stuck.contains(&lane)
                && let Err(error) = self.remove(name)
            {
                log::warn!("{error}");
                if matches!(error, Error::Busy { .. }) {
                    stuck.insert(lane);
                }
            }
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("instances", &self.status()).finish_non_exhaustive()
    }
}

/// Refuses what is no name.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_letter) {
        return Err(Error::Name { name: name.to_owned() });
    }
    Ok(())
}

/// Refuses properties that the component does not have.
fn check_properties(instance: &str, blueprint: &Blueprint, properties: &toml::Table) -> Result<(), Error> {
    let declared = &blueprint.declaration().properties;
    let Some(unknown) = properties.keys().find(|key| !declared.iter().any(|of| of.name == *key)) else { return Ok(()) };
    let known = declared.iter().map(|of| format!("{}: {}", of.name, of.of)).collect::<Vec<_>>().join(", ");
    let reason = format!("the component {} has no such property; it has: {known}", blueprint.declaration().name);
    Err(Error::Property { instance: instance.to_owned(), property: unknown.clone(), reason })
}

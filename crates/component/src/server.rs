//! A component server: instances with their connections, in one process.

use crate::counters::{PortCounters, PortStatus};
use crate::declaration::{Blueprint, Component, PortDeclaration, PortKind};
use crate::error::Error;
use crate::instance::Shown;
use crate::lane::{Clock, Lane, Order};
use crate::life::{Life, Step};
use crate::notice::{Listener, Notice, Notices};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest chain of instances that call each other without a queue between.
const CHAIN_MAX: usize = 64;

/// The longest name of an instance, in octets.
const NAME_BYTES_MAX: usize = 64;

/// How a component that panicked is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The pause before the first restart; each further one doubles it. Default 100 ms.
    pub pause_first: Duration,
    /// The longest pause. Default 10 s.
    pub pause_max: Duration,
    /// Restarts before the instance stays failed. Default 10.
    pub restarts_max: u32,
    /// The time without a failure after which earlier ones do not count any more. Default 60 s.
    pub within: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            pause_first: Duration::from_millis(100),
            pause_max: Duration::from_secs(10),
            restarts_max: 10,
            within: Duration::from_secs(60),
        }
    }
}

impl RestartPolicy {
    /// The pause after so many failures.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.pause_first.saturating_mul(doubled).min(self.pause_max)
    }
}

/// Settings of a server.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ServerSettings {
    /// How components that panicked are made again.
    pub restart: RestartPolicy,
    listener: Option<Listener>,
}

impl ServerSettings {
    /// With this restart policy.
    #[must_use]
    pub fn restart(mut self, restart: RestartPolicy) -> Self {
        self.restart = restart;
        self
    }

    /// With a function that is called for what happens to instances, beside the log. It runs on the instances' threads.
    #[must_use]
    pub fn on_notice(mut self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").field("restart", &self.restart).finish_non_exhaustive()
    }
}

/// What an instance is and has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceStatus {
    /// The name.
    pub name: String,
    /// The name of the component's struct.
    pub component: &'static str,
    /// The state.
    pub life: Life,
    /// How often the component was made again.
    pub restarts: u64,
}

struct Record {
    blueprint: Blueprint,
    shown: Arc<Shown>,
    /// One for each port, in the order of the declaration.
    counters: Vec<Arc<PortCounters>>,
}

/// A port, as `instance.port`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PortName {
    instance: String,
    port: String,
}

/// A direction along connections.
#[derive(Clone, Copy)]
enum Way {
    Called,
    Calling,
}

struct Connection {
    source: PortName,
    sink: PortName,
}

/// Instances and their connections, in one process. It ends when this is dropped: instances that are active are passivated, sources before
/// sinks, and all are removed.
pub struct Server {
    clock: Clock,
    lane: Rc<RefCell<Lane>>,
    instances: BTreeMap<String, Record>,
    connections: Vec<Connection>,
}

impl Server {
    /// A server whose instances run on the caller's thread, by a clock that the caller advances: in [`advance`](Self::advance).
    #[must_use]
    pub fn manual(name: &str) -> Self {
        Self::manual_with(name, ServerSettings::default())
    }

    /// As [`manual`](Self::manual), with settings.
    #[must_use]
    pub fn manual_with(name: &str, settings: ServerSettings) -> Self {
        let clock = Clock::Manual(Instant::now(), Arc::default());
        let notices = Notices { server: name.into(), listener: settings.listener };
        let lane = Rc::new(RefCell::new(Lane::new(clock.clone(), notices, settings.restart)));
        Self { clock, lane, instances: BTreeMap::new(), connections: Vec::new() }
    }

    /// Makes an instance of a component, with its properties.
    ///
    /// # Errors
    /// The name is none or taken, a property is missing, unknown or of another type, or the component refuses.
    pub fn configure<C: Component>(&mut self, name: &str, properties: toml::Table) -> Result<(), Error> {
        self.place(name, &Blueprint::of::<C>(), properties)
    }

    /// Makes an instance of a blueprint.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub fn place(&mut self, name: &str, blueprint: &Blueprint, properties: toml::Table) -> Result<(), Error> {
        check_name(name)?;
        if self.instances.contains_key(name) {
            return Err(Error::Exists { name: name.to_owned() });
        }
        check_properties(name, blueprint, &properties)?;
        let counters: Vec<_> = blueprint.declaration().ports.iter().map(|_| Arc::default()).collect();
        let shown = Arc::new(Shown::new());
        let order = Order {
            name: name.into(),
            blueprint: blueprint.clone(),
            properties,
            shown: shown.clone(),
            counters: counters.clone(),
        };
        self.on_lane(|lane| lane.configure(order))??;
        self.instances.insert(name.to_owned(), Record { blueprint: blueprint.clone(), shown, counters });
        Ok(())
    }

    /// Connects a source with a sink, each as `instance.port`. This is possible in every state; a connection that is made while both are
    /// active has the next event.
    ///
    /// # Errors
    /// There is no such instance or port, the types differ, the connection exists, or an instance would call itself.
    pub fn connect(&mut self, source: &str, sink: &str) -> Result<(), Error> {
        let (source, giving) = self.find(source, PortKind::Source)?;
        let (sink, taking) = self.find(sink, PortKind::Sink)?;
        if giving.event != taking.event {
            let shown = |port: &PortDeclaration| port.event.map(|of| of.type_code().to_string()).unwrap_or_default();
            let (gives, takes) = (shown(giving), shown(taking));
            return Err(Error::Type { source: source.to_string(), sink: sink.to_string(), gives, takes });
        }
        if self.connections.iter().any(|other| other.source == source && other.sink == sink) {
            return Err(Error::Connected { source: source.to_string(), sink: sink.to_string() });
        }
        self.check_calls(&source, &sink)?;
        let name = sink.to_string().into();
        let (from, to) = (source.clone(), sink.clone());
        self.on_lane(move |lane| lane.connect((&from.instance, &from.port), (&to.instance, &to.port), &name))?;
        self.connections.push(Connection { source, sink });
        Ok(())
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

    /// Has no more events come to an instance, and lets it send none.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn passivate(&mut self, instance: &str) -> Result<(), Error> {
        self.take(instance, Step::Passivate)
    }

    /// Removes an instance with its connections. Its name is free then.
    ///
    /// # Errors
    /// The state does not allow it. What the component answers is logged.
    pub fn remove(&mut self, instance: &str) -> Result<(), Error> {
        let outcome = self.take(instance, Step::Remove);
        if matches!(outcome, Ok(()) | Err(Error::Failed { .. })) {
            self.instances.remove(instance);
            self.connections.retain(|it| it.source.instance != instance && it.sink.instance != instance);
        }
        match outcome {
            Err(Error::Failed { reason, .. }) => {
                log::warn!("component {instance} failed while it was removed: {reason}")
            }
            outcome => outcome?,
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
        self.on_lane(move |lane| lane.take(&name, step))?
    }

    /// Connects and activates all instances that are only configured: sinks before the sources that call them.
    ///
    /// # Errors
    /// The first instance that refuses; those before it are active.
    pub fn start(&mut self) -> Result<(), Error> {
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

    /// Advances the clock, and has happen what is due on the way, each at its time.
    pub fn advance(&mut self, by: Duration) {
        let target = self.clock.now() + by;
        while let Some(due) = self.step().filter(|due| *due <= target) {
            self.clock.set(due.max(self.clock.now()));
        }
        self.clock.set(target);
    }

    fn step(&self) -> Option<Instant> {
        self.lane.try_borrow_mut().ok()?.step()
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

    fn record(&self, name: &str) -> Result<&Record, Error> {
        self.instances.get(name).ok_or_else(|| {
            let known = self.instances.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Error::NoInstance { name: name.to_owned(), known }
        })
    }

    /// A port of a kind.
    fn find(&self, name: &str, kind: PortKind) -> Result<(PortName, &PortDeclaration), Error> {
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

    /// The instances that one calls, or that call it.
    fn next_to<'s>(&'s self, instance: &'s str, way: Way) -> impl Iterator<Item = &'s str> {
        self.connections.iter().filter_map(move |it| {
            let (from, to) = match way {
                Way::Called => (&it.source.instance, &it.sink.instance),
                Way::Calling => (&it.sink.instance, &it.source.instance),
            };
            (from == instance).then_some(to.as_str())
        })
    }

    /// Refuses a connection with which an instance would call itself, or a chain of calls be too long.
    fn check_calls(&self, source: &PortName, sink: &PortName) -> Result<(), Error> {
        let mut path = vec![source.instance.clone(), sink.instance.clone()];
        if source.instance == sink.instance {
            return Err(Error::Cycle { path });
        }
        if let Some(back) = self.way(&sink.instance, &source.instance) {
            path.extend(back.into_iter().skip(1));
            return Err(Error::Cycle { path });
        }
        let before = self.depth(&source.instance, Way::Calling, &mut BTreeMap::new());
        if before + self.depth(&sink.instance, Way::Called, &mut BTreeMap::new()) > CHAIN_MAX {
            return Err(Error::Depth { source: source.to_string(), sink: sink.to_string(), max: CHAIN_MAX });
        }
        Ok(())
    }

    /// The longest chain of calls that begins with an instance, or ends with it.
    fn depth<'s>(&'s self, at: &'s str, way: Way, depths: &mut BTreeMap<&'s str, usize>) -> usize {
        if let Some(depth) = depths.get(at) {
            return *depth;
        }
        let mut deepest = 0;
        for next in self.next_to(at, way) {
            deepest = deepest.max(self.depth(next, way, depths));
        }
        depths.insert(at, deepest + 1);
        deepest + 1
    }

    /// The instances between two, both included, by which one calls the other.
    fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut seen = vec![(from, None)];
        let mut next = 0;
        while let Some((at, _)) = seen.get(next).copied() {
            if at == to {
                let mut way = Vec::new();
                let mut place = Some(next);
                while let Some((name, before)) = place.and_then(|place| seen.get(place)) {
                    way.push((*name).to_owned());
                    place = *before;
                }
                way.reverse();
                return Some(way);
            }
            for called in self.next_to(at, Way::Called) {
                if !seen.iter().any(|(name, _)| *name == called) {
                    seen.push((called, Some(next)));
                }
            }
            next += 1;
        }
        None
    }

    /// All instances, sinks before the sources that call them.
    fn sinks_first(&self) -> Vec<String> {
        let mut depths = BTreeMap::new();
        let mut order: Vec<_> =
            self.instances.keys().map(|name| (self.depth(name, Way::Called, &mut depths), name.clone())).collect();
        order.sort();
        order.into_iter().map(|(_, name)| name).collect()
    }

    fn on_lane<R>(&self, command: impl FnOnce(&mut Lane) -> R) -> Result<R, Error> {
        let busy = |_| Error::Busy { lane: "main".to_owned() };
        self.lane.try_borrow_mut().map(|mut lane| command(&mut lane)).map_err(busy)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for name in self.sinks_first().into_iter().rev() {
            if self.life(&name) == Some(Life::Activated)
                && let Err(error) = self.passivate(&name)
            {
                log::warn!("{error}");
                let _ = self.on_lane(|lane| lane.silence(&name));
            }
        }
        for name in self.sinks_first().into_iter().rev() {
            if let Err(error) = self.remove(&name) {
                log::warn!("{error}");
            }
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("instances", &self.status()).finish_non_exhaustive()
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.instance, self.port)
    }
}

/// Refuses what is no name.
fn check_name(name: &str) -> Result<(), Error> {
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

//! What a component declares: the ports and properties that `#[component]` reads of its struct.

use crate::counters::PortCounters;
use crate::edge::export::{self, Entry};
use crate::error::{Error, Failure};
use crate::instance::{AnyInstance, AnySink, EventKind, Filter, Instance, InstanceState, SinkEnd, SinkKind};
use crate::life::Lifecycle;
use crate::notice::NeighbourChange;
use crate::port::{Ports, Source, Tick};
use crate::queue::Queueing;
use crate::remote::{Remote, RemotePort, read_value, write_value};
use crate::route::{AnyRoute, Deliver, Route};
use campanile::raw::with_fields;
use campanile::{Event, EventFilter, TypeCode};
use serde::de::DeserializeOwned;
use std::any::TypeId;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A struct that is a component, by `#[component]`.
///
/// Members with an attribute are ports; all others are properties, which a plan or a program gives:
///
/// - `#[sink] frame: Sink<Frame>`: events of the type go to `fn on_frame(&mut self, frame: &Frame, ports: &Ports)`.
/// - `#[source] offset: Source<Offset>`: events are sent by `self.offset.send(&offset)`.
/// - `#[timer("100ms")] tick: Timer`: ticks go to `fn on_tick(&mut self, tick: &Tick, ports: &Ports)`. Units: `ns`, `us`, `ms`, `s`.
/// - `#[neighbours] peers: Neighbours`: what happens to connected components goes to
///   `fn on_peers(&mut self, change: &NeighbourChange, ports: &Ports)`.
/// - `#[state] seen: u64`: is no property; begins as `Default::default()`, after a restart as well.
/// - `gain: f64`: a property that has to be given; `#[property(default)]` or `#[property(default = 0.5)]`: one that may be.
///
/// A handler returns nothing, or a `Result<(), E>` of any error: it is counted and logged. `#[component(lifecycle)]` leaves the trait
/// [`Lifecycle`] to the component.
pub trait Component: Lifecycle + Sized + 'static {
    /// The name of the struct.
    const NAME: &'static str;

    /// Says which ports and properties there are.
    #[doc(hidden)]
    fn declare(declaring: &mut Declaring<Self>);

    /// Makes the component.
    ///
    /// # Errors
    /// A property is missing, or of another type.
    #[doc(hidden)]
    fn build(setup: &Setup<'_>) -> Result<Self, Error>;
}

/// A kind of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortKind {
    /// Takes events.
    Sink,
    /// Gives events.
    Source,
    /// Takes a tick at this interval.
    Timer(Duration),
    /// Takes what happens to connected components.
    Neighbours,
}

impl PortKind {
    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sink => "sink",
            Self::Source => "source",
            Self::Timer(_) => "timer",
            Self::Neighbours => "port for neighbours",
        }
    }
}

/// The type of a port's events.
#[derive(Clone, Copy)]
pub struct EventType {
    /// The name of the type.
    pub name: &'static str,
    /// The domain of its events; `None` for that of the settings.
    pub(crate) domain: Option<&'static str>,
    id: TypeId,
    code: &'static TypeCode,
}

impl EventType {
    fn of<T: Event>() -> Self {
        Self { name: T::NAME, domain: T::DOMAIN, id: TypeId::of::<T>(), code: T::event_type() }
    }

    /// A type that is known at run time only, whose events are values of `T` all the same.
    pub(crate) fn described<T: 'static>(code: &'static TypeCode, domain: Option<&'static str>) -> Self {
        Self { name: code.name(), domain, id: TypeId::of::<T>(), code }
    }

    pub(crate) const fn id(&self) -> TypeId {
        self.id
    }

    /// The type as in IDL.
    #[must_use]
    pub fn type_code(&self) -> &'static TypeCode {
        self.code
    }
}

/// Equal are those that are one type of Rust, and, where that stands for several, one type of IDL.
impl PartialEq for EventType {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && (std::ptr::eq(self.code, other.code) || self.code == other.code)
    }
}

impl Eq for EventType {}

impl fmt::Debug for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A port that a component declares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortDeclaration {
    /// The name of the member.
    pub name: &'static str,
    /// The kind.
    pub kind: PortKind,
    /// The type of the events; `None` for timers.
    pub event: Option<EventType>,
}

/// A property that a component declares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PropertyDeclaration {
    /// The name of the member.
    pub name: &'static str,
    /// The type in Rust.
    pub of: &'static str,
    /// Whether there is a default.
    pub has_default: bool,
}

/// All that a component declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Declaration {
    /// The name of the struct.
    pub name: &'static str,
    /// The ports.
    pub ports: Vec<PortDeclaration>,
    /// The properties.
    pub properties: Vec<PropertyDeclaration>,
}

impl Declaration {
    /// The port of that name.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<&PortDeclaration> {
        self.ports.iter().find(|port| port.name == name)
    }

    /// The names of all ports, for people.
    pub(crate) fn port_names(&self) -> String {
        self.ports.iter().map(|port| port.name).collect::<Vec<_>>().join(", ")
    }
}

/// A timer of an instance.
pub(crate) struct TimerPart {
    pub(crate) port: &'static str,
    pub(crate) interval: Duration,
    pub(crate) end: Rc<dyn Deliver<Tick>>,
    pub(crate) counters: Arc<PortCounters>,
}

/// What was made of a declaration for one instance.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) routes: Vec<(&'static str, Rc<dyn AnyRoute>)>,
    pub(crate) sinks: Vec<(&'static str, Rc<dyn AnySink>)>,
    pub(crate) timers: Vec<TimerPart>,
    pub(crate) neighbours: Vec<Rc<dyn AnySink>>,
}

/// What [`Component::declare`] writes to: the declaration, and the parts of an instance, if they are for one.
#[doc(hidden)]
pub struct Declaring<C> {
    pub(crate) declaration: Declaration,
    instance: Option<Rc<Instance<C>>>,
    counters: Vec<Arc<PortCounters>>,
    parts: Parts,
    remotes: Vec<Option<Arc<dyn RemotePort>>>,
    /// Where the component is in a shared object and its server elsewhere: one for each port, in the order of the declaration.
    pub(crate) entries: Option<Vec<Entry<C>>>,
}

impl<C> Declaring<C> {
    /// One for the declaration alone.
    pub(crate) fn describing(name: &'static str) -> Self {
        Self {
            declaration: Declaration { name, ..Declaration::default() },
            instance: None,
            counters: Vec::new(),
            parts: Parts::default(),
            remotes: Vec::new(),
            entries: None,
        }
    }

    /// One for the edge to a server that loads this component's shared object.
    pub(crate) fn exporting(name: &'static str) -> Self {
        Self { entries: Some(Vec::new()), ..Self::describing(name) }
    }
}

impl<C: Lifecycle + 'static> Declaring<C> {
    fn port(
        &mut self,
        name: &'static str,
        kind: PortKind,
        event: Option<EventType>,
        remote: Option<Arc<dyn RemotePort>>,
    ) -> Option<Arc<PortCounters>> {
        self.remotes.push(remote);
        let counters = self.counters.get(self.declaration.ports.len()).cloned();
        self.declaration.ports.push(PortDeclaration { name, kind, event });
        counters
    }

    /// Declares a sink.
    pub fn sink<T: Event, F>(&mut self, name: &'static str, queueing: Option<Queueing<T>>, handler: F)
    where
        F: Fn(&mut C, &T, &Ports<'_>) -> Result<(), Failure> + 'static,
    {
        let (event, remote) = (EventType::of::<T>(), Arc::new(Remote::of(queueing)));
        if let Some(entries) = &mut self.entries {
            entries.push(export::sink(handler));
            self.port(name, PortKind::Sink, Some(event), Some(remote));
        } else {
            let kind = SinkKind { event: Some(EventKind::of()), queueing };
            self.sink_of(name, event, remote, kind, handler);
        }
    }

    /// Declares a sink of a type that is not known as one of events.
    pub(crate) fn sink_of<T: 'static, F>(
        &mut self,
        name: &'static str,
        event: EventType,
        remote: Arc<dyn RemotePort>,
        kind: SinkKind<T>,
        handler: F,
    ) where
        F: Fn(&mut C, &T, &Ports<'_>) -> Result<(), Failure> + 'static,
    {
        let counters = self.port(name, PortKind::Sink, Some(event), Some(remote));
        if let (Some(instance), Some(counters)) = (&self.instance, counters) {
            let sink = SinkEnd::<C, T, F>::new(instance.clone(), name, handler, counters, kind);
            self.parts.sinks.push((name, Rc::new(sink)));
        }
    }

    /// Declares a source.
    pub fn source<T: Event>(&mut self, name: &'static str, queueing: Option<Queueing<T>>) {
        if let Some(entries) = &mut self.entries {
            entries.push(export::source::<C, T>());
        }
        self.source_of::<T>(name, EventType::of::<T>(), Arc::new(Remote::of(queueing)));
    }

    /// Declares a source of a type that is not known as one of events.
    pub(crate) fn source_of<T: 'static>(&mut self, name: &'static str, event: EventType, remote: Arc<dyn RemotePort>) {
        let counters = self.port(name, PortKind::Source, Some(event), Some(remote));
        if let (Some(instance), Some(counters)) = (&self.instance, counters) {
            self.parts.routes.push((name, Rc::new(Route::<T>::new(instance.state.clone(), name, counters))));
        }
    }

    /// Declares a timer.
    pub fn timer<F>(&mut self, name: &'static str, interval_ns: u64, handler: F)
    where
        F: Fn(&mut C, &Tick, &Ports<'_>) -> Result<(), Failure> + 'static,
    {
        let interval = Duration::from_nanos(interval_ns);
        let counters = self.port(name, PortKind::Timer(interval), None, None);
        if let Some(entries) = &mut self.entries {
            entries.push(export::timer(handler));
        } else if let (Some(instance), Some(counters)) = (&self.instance, counters) {
            let kind = SinkKind { event: None, queueing: None };
            let sink = SinkEnd::<C, Tick, F>::new(instance.clone(), name, handler, counters.clone(), kind);
            self.parts.timers.push(TimerPart { port: name, interval, end: Rc::new(sink), counters });
        }
    }

    /// Declares a port for what happens to neighbours.
    pub fn neighbours<F>(&mut self, name: &'static str, handler: F)
    where
        F: Fn(&mut C, &NeighbourChange, &Ports<'_>) -> Result<(), Failure> + 'static,
    {
        let counters = self.port(name, PortKind::Neighbours, Some(EventType::of::<NeighbourChange>()), None);
        if let Some(entries) = &mut self.entries {
            entries.push(export::sink(handler));
        } else if let (Some(instance), Some(counters)) = (&self.instance, counters) {
            let kind = SinkKind { event: Some(EventKind::of()), queueing: Some(Queueing::new()) };
            let sink = SinkEnd::<C, NeighbourChange, F>::new(instance.clone(), name, handler, counters, kind);
            self.parts.neighbours.push(Rc::new(sink));
        }
    }

    /// Declares a property.
    pub fn property(&mut self, name: &'static str, of: &'static str, has_default: bool) {
        self.declaration.properties.push(PropertyDeclaration { name, of, has_default });
    }
}

impl<T: Event> EventKind<T> {
    fn of() -> Self {
        Self {
            filter: Box::new(|text| {
                let filter = EventFilter::<T>::new(text).map_err(|error| error.to_string())?;
                let filter: Filter<T> = Box::new(move |event, origin| filter.matches_with(event, origin.qos()));
                Ok(filter)
            }),
            fields: Box::new(|event, qos, look| with_fields(event, qos, look)),
            write: write_value,
            read: Box::new(read_value),
        }
    }
}

/// What [`Component::build`] makes a component of.
#[doc(hidden)]
pub struct Setup<'s> {
    pub(crate) instance: &'s str,
    pub(crate) routes: &'s [(&'static str, Rc<dyn AnyRoute>)],
    pub(crate) properties: &'s toml::Table,
}

impl Setup<'_> {
    fn error(&self, property: &str, reason: String) -> Error {
        Error::Property { instance: self.instance.to_owned(), property: property.to_owned(), reason }
    }

    /// The source of that name.
    ///
    /// # Errors
    /// It was not declared.
    pub fn source<T: 'static>(&self, name: &str) -> Result<Source<T>, Error> {
        self.route(name).map(Source::new).ok_or_else(|| Error::NoPort {
            instance: self.instance.to_owned(),
            port: name.to_owned(),
            known: String::new(),
        })
    }

    /// The connections of the source of that name.
    pub(crate) fn route<T: 'static>(&self, name: &str) -> Option<Rc<Route<T>>> {
        let (_, route) = self.routes.iter().find(|(port, _)| *port == name)?;
        route.clone().into_any().downcast().ok()
    }

    /// The property of that name; `None` if it is not given.
    ///
    /// # Errors
    /// It is of another type.
    pub fn property<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.properties.get(name) else { return Ok(None) };
        value.clone().try_into().map(Some).map_err(|error| {
            let reason = error.message().trim().to_owned();
            self.error(name, format!("{reason}; it is {value} here, and a {} there", core::any::type_name::<T>()))
        })
    }

    /// The property of that name, which has to be given.
    ///
    /// # Errors
    /// It is missing, or of another type.
    pub fn required<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        self.property(name)?
            .ok_or_else(|| self.error(name, format!("it is missing: give it, a {}", core::any::type_name::<T>())))
    }
}

/// Makes an instance, without its component, of its state, properties and counters.
type Assemble =
    dyn Fn(Rc<InstanceState>, toml::Table, Vec<Arc<PortCounters>>) -> (Rc<dyn AnyInstance>, Parts) + Send + Sync;

/// A type of components, from which instances are made: what a registry has under a name.
#[derive(Clone)]
pub struct Blueprint {
    declaration: Arc<Declaration>,
    assemble: Arc<Assemble>,
    /// One for each port, in the order of the declaration.
    remotes: Arc<[Option<Arc<dyn RemotePort>>]>,
}

impl Blueprint {
    /// The one of a type.
    #[must_use]
    pub fn of<C: Component>() -> Self {
        Self::made(C::NAME, C::declare, C::build)
    }

    /// The one of components that are declared and built so.
    pub(crate) fn made<C: Lifecycle + 'static>(
        name: &'static str,
        declare: impl Fn(&mut Declaring<C>) + Send + Sync + 'static,
        build: impl Fn(&Setup<'_>) -> Result<C, Error> + Clone + Send + Sync + 'static,
    ) -> Self {
        let mut declaring = Declaring::describing(name);
        declare(&mut declaring);
        let (declaration, remotes) = (Arc::new(declaring.declaration), declaring.remotes.into());
        let assemble = move |state: Rc<InstanceState>, properties: toml::Table, counters: Vec<Arc<PortCounters>>| {
            let instance = Rc::new(Instance::new(state, properties, Box::new(build.clone())));
            let mut declaring = Declaring { instance: Some(instance.clone()), counters, ..Declaring::describing(name) };
            declare(&mut declaring);
            let instance: Rc<dyn AnyInstance> = instance;
            (instance, declaring.parts)
        };
        Self { declaration, assemble: Arc::new(assemble), remotes }
    }

    pub(crate) fn remote(&self, place: usize) -> Option<Arc<dyn RemotePort>> {
        self.remotes.get(place)?.clone()
    }

    /// What the type declares.
    #[must_use]
    pub fn declaration(&self) -> &Arc<Declaration> {
        &self.declaration
    }

    pub(crate) fn assemble(
        &self,
        state: Rc<InstanceState>,
        properties: toml::Table,
        counters: Vec<Arc<PortCounters>>,
    ) -> (Rc<dyn AnyInstance>, Parts) {
        (self.assemble)(state, properties, counters)
    }
}

impl fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Blueprint").field(&self.declaration.name).finish()
    }
}

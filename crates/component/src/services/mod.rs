//! Services between servers: each carries the events of a source to sinks in other processes.
//!
//! A container of a plan names one by a word, so that components move from one to another unchanged. A service has a file here, with a
//! [`Kind`], and its line in [`ALL`]. It is opened for the first connection that needs it, and closed with the last: until then it has no
//! thread and no socket.

mod dds;
mod notification;
mod qos;
mod rtes;
mod simple;
mod tempo;

pub use qos::ChannelQos;
pub(crate) use simple::Simple;

use crate::plan::{ContainerPlan, PlacedPlan};
use campanile::raw::EventQos;
use campanile::{Declared, Settings};
use client::notify::Property;
use client::tempo::Order;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::any::Any;
use std::fmt;
use std::time::{Duration, Instant};

/// The services that plans can name.
static ALL: [&Kind; 4] = [&notification::KIND, &dds::KIND, &tempo::KIND, &rtes::KIND];

/// A service that plans can name.
pub(crate) struct Kind {
    name: &'static str,
    /// Whether this build has it.
    is_built: bool,
    /// Whether it makes links to others of its kind.
    has_links: bool,
    /// What is wrong with the keys of a container that names it, and what to do.
    problem: fn(&ContainerPlan) -> Option<String>,
    /// Sets what it has for a property of channels and its value, or says why it has nothing, and the nearest that it has.
    set: fn(&mut SourceQos, &'static str, i64) -> Result<(), &'static str>,
    /// Properties that it has where the plan does not say them.
    always: &'static [(&'static str, i64)],
    /// Opens it with a container's keys and the environment's settings, of which the name is that of the connections.
    open: fn(&ContainerPlan, Settings) -> Opened,
}

/// A service that was opened, or why it was not.
type Opened = Result<Box<dyn Service>, String>;

/// What the end of a source has of its container's `qos`, for the service beneath.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceQos {
    /// Of a channel of a notification service.
    qos: Vec<Property>,
    admin: Vec<Property>,
    /// Whether a channel that `rtes` had has what this has set taken back.
    is_reset: bool,
    /// Of writers of DDS.
    lifespan_ms: Option<u32>,
    history_depth: Option<u32>,
    transport_priority: Option<i32>,
    /// Of a topic of Tempo, with the priority of events that have none.
    order: Order,
    priority: i16,
}

/// An open service.
pub(crate) trait Service {
    /// The end of a source in a channel of this name.
    fn publisher(&self, channel: &str, of: &Declared, qos: &SourceQos) -> Result<Box<dyn Publisher>, String>;

    /// Has the service make a link, with the keys of a `[[link]]` in TOML; it may have it already.
    fn link(&self, _entry: &str) -> Result<(), String> {
        Err("it makes no links".to_owned())
    }

    /// Has the service remove a link, once no events wait for it.
    fn unlink(&self, _name: &str, _until: Instant) -> Result<(), String> {
        Err("it has no links".to_owned())
    }

    /// Hands the events of a channel of this name over, until the answer is dropped: all, or those for which `when` holds.
    fn subscribe(&self, channel: &str, of: &Declared, when: Option<&str>, take: Take) -> Result<Box<dyn Any>, String>;
}

/// The end of a source. It is closed before it is dropped.
pub(crate) trait Publisher: Send {
    /// Publishes a value. A service that has no priorities or timeouts for single events ignores them.
    fn publish(&mut self, value: &[u8], qos: EventQos) -> Result<(), String>;

    /// Publishes a value if it can leave at once, and answers whether it did: it waits for nothing.
    fn publish_at_once(&mut self, _: &[u8], _: EventQos) -> Result<bool, String> {
        Ok(false)
    }

    /// Sends what was gathered.
    fn flush(&mut self) {}

    /// Events that were published and are lost, or perhaps lost, since this was last asked.
    fn lost(&mut self) -> Option<Lost> {
        None
    }

    /// Waits for what is on its way, until nothing has happened for so long. What has not arrived then is [`lost`](Self::lost).
    fn close(&mut self, within: Duration);
}

/// Events that are lost, or that are none.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) events: u64,
    pub(crate) reason: String,
}

impl Lost {
    pub(crate) const fn one(reason: String) -> Self {
        Self { events: 1, reason }
    }
}

/// Takes a value of the declared type, which was checked, and what its event asks for; or what is lost.
pub(crate) type Take = Box<dyn FnMut(Result<(&[u8], EventQos), Lost>) + Send>;

/// A service between servers, by its name in plans.
#[derive(Clone, Copy)]
pub struct ServicePlan(&'static Kind);

impl ServicePlan {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Whether it makes links to others of its kind.
    pub(crate) const fn has_links(self) -> bool {
        self.0.has_links
    }

    /// Opens the service with a container's keys and the environment's settings, of which the name is that of the connections.
    pub(crate) fn open(self, container: &ContainerPlan, settings: Settings) -> Opened {
        if !self.0.is_built {
            return Err(format!("this build has no {}: build the program with it", self.name()));
        }
        (self.0.open)(container, settings)
    }

    /// What the ends of a container's sources have.
    pub(crate) fn source_qos(self, container: &ContainerPlan) -> Result<SourceQos, String> {
        let mut qos = SourceQos::default();
        container.qos.set(self.0, &mut qos).into_iter().next().map_or(Ok(qos), Err)
    }

    /// The names of the services that this build has.
    pub(crate) fn built() -> Vec<String> {
        ALL.iter().filter(|kind| kind.is_built).map(|kind| kind.name.to_owned()).collect()
    }
}

impl PartialEq for ServicePlan {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ServicePlan {}

impl fmt::Debug for ServicePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ServicePlan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        ALL.iter().find(|kind| kind.name == name).map(|kind| Self(kind)).ok_or_else(|| {
            let known = ALL.map(|kind| kind.name).join(", ");
            D::Error::custom(format!("there is no service {name:?}; there are: {known}"))
        })
    }
}

/// What is wrong with the keys of a container for its service, and what to do.
pub(crate) fn problems(container: &ContainerPlan) -> Vec<String> {
    if let Some(ServicePlan(kind)) = container.service {
        let keys = (kind.problem)(container).into_iter();
        return keys.chain(container.qos.set(kind, &mut SourceQos::default())).collect();
    }
    let has_keys = container.at.is_some()
        || container.domain.is_some()
        || container.placed != PlacedPlan::default()
        || container.qos != ChannelQos::default();
    has_keys
        .then(|| "at, domain, placed and qos are of a service: name one by `service`, or leave them out".to_owned())
        .into_iter()
        .collect()
}

/// The problem of a container that gives a domain to another service than DDS.
fn domain_problem(container: &ContainerPlan) -> Option<String> {
    container.domain.map(|domain| format!("domain is {domain}, and only dds has domains: leave it out"))
}

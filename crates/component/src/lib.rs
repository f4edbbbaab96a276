//! Components: structs with typed ports, and containers that own their events, life cycles and threads.
//!
//! A component says what it takes and gives; which instances there are, and how they are connected, is said beside it:
//!
//! ```
//! use campanile::Event;
//! use campanile_component::{Failure, Ports, Server, Sink, Source, Tick, Timer, component};
//! use std::time::Duration;
//!
//! #[derive(Event)]
//! struct Frame {
//!     brightness: f64,
//! }
//!
//! #[component]
//! struct Camera {
//!     #[timer("100ms")]
//!     shutter: Timer,
//!     #[source]
//!     frame: Source<Frame>,
//! }
//!
//! impl Camera {
//!     fn on_shutter(&mut self, _: &Tick, _: &Ports) -> Result<(), Failure> {
//!         Ok(self.frame.send(&Frame { brightness: 0.5 })?)
//!     }
//! }
//!
//! #[component]
//! struct Guider {
//!     #[sink]
//!     frame: Sink<Frame>,
//!     gain: f64,
//!     #[state]
//!     offset: f64,
//! }
//!
//! impl Guider {
//!     fn on_frame(&mut self, frame: &Frame, _: &Ports) {
//!         self.offset += self.gain * frame.brightness;
//!     }
//! }
//!
//! let mut server = Server::manual("control");
//! server.configure::<Camera>("camera", Default::default())?;
//! server.configure::<Guider>("guider", toml::toml! { gain = 0.3 })?;
//! server.connect("camera.frame", "guider.frame")?;
//! server.start()?;
//! server.advance(Duration::from_secs(1));
//! assert_eq!(server.port("guider.frame").map(|port| port.delivered), Some(10));
//! # Ok::<(), campanile_component::Error>(())
//! ```
//!
//! # In this crate
//!
//! - `#[component]`, [`Sink`], [`Source`], [`Timer`], [`Neighbours`], [`Ports`]: what a component is made of.
//! - [`Lifecycle`]: what a component does when it is configured, connected, activated, passivated and removed.
//! - [`Server`]: containers, their lanes, instances and connections, in one process.
//! - [`Plan`], [`Registry`], [`run_program`]: what a TOML file says of them, checked, and carried out in one process or several.
//! - [`import_plan`]: plans made of the OMG's deployment plans.
//! - [`ResponseTimes`]: whether the deadlines of a plan hold.
//! - [`export!`], [`serve_objects`]: components in shared objects, in Rust, or by the headers of `include`, in C and C++.
//!
//! # Threads
//!
//! An instance belongs to one lane of its container, which one thread runs: it is made there, and all its handlers run there, one at a time.
//! So no component is locked, and none waits for another. A connection within a lane is a call with a reference to the event, unless the
//! sink asks for a queue; one between two lanes is a queue always, since to wait for another lane would turn priorities round.
//!
//! What is left to others: the types of events and channels ([`campanile`]).

mod artifacts;
mod counters;
mod declaration;
mod deploy;
mod dot;
#[doc(hidden)]
pub mod edge;
mod error;
mod flow;
mod graph;
mod import;
mod instance;
mod lane;
mod launch;
mod life;
mod node;
mod nodes;
mod notice;
mod plan;
mod port;
mod process;
mod program;
mod queue;
mod recording;
mod remote;
mod replay;
mod response_times;
mod route;
mod server;
mod services;
mod sets;
mod settings;
mod threads;

pub use counters::PortStatus;
pub use declaration::{Blueprint, Component, Declaration, EventType, PortDeclaration, PortKind, PropertyDeclaration};
pub use deploy::{Registry, describe_object, run_program, serve_objects, serve_program};
pub use derive::component;
pub use dot::Arrow;
pub use error::{Error, Failure, SendError};
pub use import::{Descriptor, Imported, import_plan};
pub use launch::{PlanFile, Running};
pub use life::{Life, Lifecycle, Step};
pub use node::{
    Changed, Difference, Digests, GiopSettings, Node, NodeAnswer, NodeRequest, NodeSettings, NodeStatus, NodeTls,
    PlanStatus, ServerStatus,
};
pub use notice::{Change, NeighbourChange, Notice};
pub use plan::federation::{FederateBy, FederatePlan};
pub use plan::{
    ContainerPlan, Description, Descriptions, FIRST_SERVER, InstancePlan, PLAN_BYTES_MAX, PlacedPlan, Plan, PoolPlan,
    PortPlan, Problem, ServerPlan,
};
pub use port::{EventSet, Neighbours, Ports, SendOptions, Sink, Source, Tick, Timer};
pub use program::Input;
pub use queue::QueueSettings;
pub use recording::{Recorded, RecordedEvent, Recording, RecordingReader};
pub use remote::ServiceStatus;
pub use replay::{Replay, Replayed, SentEvent};
pub use response_times::{PortTime, Processor, Processors, ResponseTimes, Verdict};
pub use server::{InstanceStatus, Server};
pub use services::{ChannelQos, ServicePlan};
pub use settings::{Placement, PortSettings, RestartPolicy, ServerSettings};

/// What `#[component]` writes of.
#[doc(hidden)]
pub mod derived {
    pub use crate::declaration::{Declaring, Setup};
    pub use crate::error::Outcome;
    pub use crate::port::Port;
    pub use crate::queue::{CanBeQueued, CannotBeQueued, Probe, Queueing};
}

/// The examples of the pages for users.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/components.md")]
mod components {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/deployment.md")]
mod deployment {}

// What `#[component]` and `#[derive(Event)]` write names this crate as programs do.
#[cfg(test)]
extern crate self as campanile_component;

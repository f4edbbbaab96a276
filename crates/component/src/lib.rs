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
//!
//! # Threads
//!
//! An instance belongs to one lane, which one thread runs: it is made there, and all its handlers run there, one at a time. So no component
//! is locked, and none waits for another. A connection within a lane is a call with a reference to the event.
//!
//! What is left to others: the types of events and channels ([`campanile`]).

mod counters;
mod declaration;
mod error;
mod instance;
mod lane;
mod life;
mod notice;
mod port;
mod route;
mod server;

pub use counters::PortStatus;
pub use declaration::{Blueprint, Component, Declaration, EventType, PortDeclaration, PortKind, PropertyDeclaration};
pub use derive::component;
pub use error::{Error, Failure, SendError};
pub use life::{Life, Lifecycle, Step};
pub use notice::{Change, NeighbourChange, Notice};
pub use port::{Neighbours, Ports, Sink, Source, Tick, Timer};
pub use server::{InstanceStatus, RestartPolicy, Server, ServerSettings};

/// What `#[component]` writes of.
#[doc(hidden)]
pub mod derived {
    pub use crate::declaration::{Declaring, Setup};
    pub use crate::error::Outcome;
    pub use crate::port::Port;
}

/// The examples of the page for users.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/components.md")]
mod page {}

// What `#[component]` and `#[derive(Event)]` write names this crate as programs do.
#[cfg(test)]
extern crate self as campanile_component;

//! What a component has for ports, and what its handlers are handed.

use crate::error::SendError;
use crate::notice::NeighbourChange;
use crate::route::{Origin, Route};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A type of ports, each with the events that it takes or gives.
#[doc(hidden)]
pub trait Port {
    type Event: 'static;
}

/// A port that takes events. Each is handed to the component's method `on_NAME`, by reference.
pub struct Sink<T>(PhantomData<fn(&T)>);

/// A port that gives events.
pub struct Source<T> {
    route: Rc<Route<T>>,
}

/// A port that takes a [`Tick`] at an interval, which `#[timer("100ms")]` says.
#[derive(Debug, Default)]
pub struct Timer(());

/// A port that takes a [`NeighbourChange`] when a component that is connected to this one fails, comes back, or leaves.
#[derive(Debug, Default)]
pub struct Neighbours(());

/// An event of a [`Timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// When it was due.
    pub due: Instant,
    /// Ticks before it that were left out, since the lane was busy for more than an interval.
    pub missed: u64,
}

impl<T: 'static> Port for Sink<T> {
    type Event = T;
}

impl<T: 'static> Port for Source<T> {
    type Event = T;
}

impl Port for Timer {
    type Event = Tick;
}

impl Port for Neighbours {
    type Event = NeighbourChange;
}

impl<T> Default for Sink<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> fmt::Debug for Sink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

/// What an event may have beside its value. It matters where a sink has a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// The priority, from -32,767 to 32,767. Default 0.
    pub priority: i16,
    /// How long the event may wait before it is discarded. Default: without end.
    pub timeout: Option<Duration>,
}

impl<T: 'static> Source<T> {
    pub(crate) fn new(route: Rc<Route<T>>) -> Self {
        Self { route }
    }

    /// Sends an event to all sinks that are connected, in the order in which they were. Those of the same lane that have no queue have
    /// handled it when this returns. Without any sink, the event is counted and that is all.
    ///
    /// # Errors
    /// [`SendError::Inactive`]: no sink got it. [`SendError::Reentrant`], [`SendError::Full`]: all others did.
    #[inline]
    pub fn send(&self, event: &T) -> Result<(), SendError> {
        self.route.send(event, SendOptions::default())
    }

    /// As [`send`](Self::send), with a priority and a timeout.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_with(&self, event: &T, options: SendOptions) -> Result<(), SendError> {
        self.route.send(event, options)
    }
}

/// The set that an event belongs to, at a sink that has [sets](crate::Server::correlate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSet {
    /// The set's number, from 1 in steps of 1.
    pub number: u64,
    /// The event's place in the set, from 0, in the order in which its events came.
    pub index: u32,
    /// Number of events in the set.
    pub size: u32,
}

impl EventSet {
    /// Whether the event is the last one of its set.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.index + 1 == self.size
    }
}

/// What a handler is handed beside the event: which port it came to, from where, and when it was sent.
///
/// It sends nothing: that is done by the sources, which are members of the component.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'c> {
    pub(crate) instance: &'c str,
    pub(crate) port: &'c str,
    pub(crate) origin: &'c Origin<'c>,
}

impl<'c> Ports<'c> {
    /// The name of this instance.
    #[must_use]
    pub fn instance(&self) -> &'c str {
        self.instance
    }

    /// The name of the port that the event came to; empty at a step of the instance's life.
    #[must_use]
    pub fn port(&self) -> &'c str {
        self.port
    }

    /// The source that sent the event, as `instance.port`; empty at a step of the instance's life.
    #[must_use]
    pub fn source(&self) -> &'c str {
        self.origin.source
    }

    /// When the event was sent, by the clock of the server.
    #[must_use]
    pub fn sent(&self) -> Instant {
        self.origin.sent
    }

    /// The priority with which the event was sent.
    #[must_use]
    pub fn priority(&self) -> i16 {
        self.origin.priority
    }

    /// The set that the event belongs to, if the port has sets.
    #[must_use]
    pub fn set(&self) -> Option<EventSet> {
        self.origin.set
    }
}

//! What is refused, and why.

use crate::life::{Life, Step};
use std::any::Any;
use std::fmt;

/// What a handler or a step of a component's life says went wrong. It is counted and logged; the component goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    reason: String,
    /// Whether the component's state cannot be trusted any more: what follows is that of a panic.
    is_broken: bool,
}

impl Failure {
    /// A failure for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_broken: false }
    }

    /// One after which the component is made again.
    pub(crate) fn broken(reason: String) -> Self {
        Self { reason, is_broken: true }
    }

    pub(crate) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// What a panic would have had for this reason.
    pub(crate) fn into_panic(self) -> Box<dyn Any + Send> {
        Box::new(self.reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// Results of handlers: nothing, or a `Result` of nothing.
#[doc(hidden)]
pub trait Outcome {
    /// As a result.
    ///
    /// # Errors
    /// The handler failed.
    fn outcome(self) -> Result<(), Failure>;
}

impl Outcome for () {
    #[inline]
    fn outcome(self) -> Result<(), Failure> {
        Ok(())
    }
}

impl<E: Into<Failure>> Outcome for Result<(), E> {
    #[inline]
    fn outcome(self) -> Result<(), Failure> {
        self.map_err(Into::into)
    }
}

/// Why an event was not sent, or not by all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The instance is not active: it sends before it was activated, after it was passivated, or while it is dropped.
    Inactive,
    /// A sink's instance is in a handler already, further up in the same chain of calls.
    Reentrant,
    /// The queue of a sink is full, and is set to refuse events then.
    Full,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inactive => "nothing was sent, since the instance is not active",
            Self::Reentrant => "a sink did not get the event, since its instance is in a handler already",
            Self::Full => "a sink did not get the event, since its queue is full",
        })
    }
}

impl std::error::Error for SendError {}

/// What a [`Server`](crate::Server) refuses. Nothing is changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A name that is empty, or has characters other than letters, digits, `_` and `-`.
    Name {
        /// The name.
        name: String,
    },
    /// A second instance or container of one name.
    Exists {
        /// The name.
        name: String,
    },
    /// No such instance.
    NoInstance {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// No such container or lane.
    NoContainer {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// No such port.
    NoPort {
        /// The instance.
        instance: String,
        /// The port's name.
        port: String,
        /// The ports that the component has.
        known: String,
    },
    /// A port of another kind: a connection goes from a source to a sink.
    Kind {
        /// The port, as `instance.port`.
        port: String,
        /// What it is.
        is: &'static str,
        /// What it would have to be.
        needs: &'static str,
    },
    /// A source and a sink of different types.
    Type {
        /// The source, as `instance.port`.
        source: String,
        /// The sink.
        sink: String,
        /// The type that the source gives.
        gives: String,
        /// The type that the sink takes.
        takes: String,
    },
    /// A connection that exists.
    Connected {
        /// The source, as `instance.port`.
        source: String,
        /// The sink.
        sink: String,
    },
    /// A connection that would have an instance call itself, by itself or through others.
    Cycle {
        /// The instances, from the first back to it.
        path: Vec<String>,
    },
    /// A connection that would make a chain of calls too long.
    Depth {
        /// The source, as `instance.port`.
        source: String,
        /// The sink.
        sink: String,
        /// The longest chain that may be.
        max: usize,
    },
    /// A property that is missing, unknown or of another type.
    Property {
        /// The instance.
        instance: String,
        /// The property.
        property: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A step that cannot be taken from the state that the instance is in.
    Life {
        /// The instance.
        instance: String,
        /// The step.
        step: Step,
        /// The state.
        life: Life,
    },
    /// A component that answered a failure to a step, or panicked in it.
    Failed {
        /// The instance.
        instance: String,
        /// The failure, or what the panic said.
        reason: String,
    },
    /// Settings of a port that cannot be.
    Port {
        /// The port, as `instance.port`.
        port: String,
        /// What is wrong with them, and what to do.
        reason: String,
    },
    /// A thread that cannot be started.
    Thread {
        /// The lane.
        lane: String,
        /// What the system says.
        reason: String,
    },
    /// A lane that does not answer, since a handler does not return.
    Busy {
        /// The lane.
        lane: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => {
                write!(f, "{name:?} is no name: use letters, digits, _ and -, at least one and at most 64")
            }
            Self::Exists { name } => write!(f, "there is a {name} already: give the second one another name"),
            Self::NoInstance { name, known } => write!(f, "there is no instance {name}; there are: {known}"),
            Self::NoContainer { name, known } => write!(f, "there is no container or lane {name}; there are: {known}"),
            Self::NoPort { instance, port, known } => write!(f, "{instance} has no port {port}; it has: {known}"),
            Self::Kind { port, is, needs } => {
                write!(f, "{port} is a {is}, and here a {needs} is needed: connections go from a source to a sink")
            }
            Self::Type { source, sink, gives, takes } => write!(
                f,
                "{source} gives {gives}, {sink} takes {takes}: both ports need one type, or a component between them"
            ),
            Self::Connected { source, sink } => {
                write!(f, "{source} and {sink} are connected already: remove one of the two")
            }
            Self::Cycle { path } => write!(
                f,
                "{} would call themselves in a circle: give a sink among them a queue, or leave out a connection",
                path.join(" -> ")
            ),
            Self::Depth { source, sink, max } => write!(
                f,
                "with {source} to {sink} a chain of calls is longer than {max} instances: give a sink in the chain a queue"
            ),
            Self::Property { instance, property, reason } => write!(f, "{instance}, property {property}: {reason}"),
            Self::Life { instance, step, life } => write!(f, "{instance} is {life} and cannot {step}"),
            Self::Failed { instance, reason } => write!(f, "{instance} failed: {reason}"),
            Self::Port { port, reason } => write!(f, "{port}: {reason}"),
            Self::Thread { lane, reason } => write!(f, "the thread of the lane {lane} cannot be started: {reason}"),
            Self::Busy { lane } => write!(f, "the lane {lane} does not answer: a handler on it does not return"),
        }
    }
}

impl std::error::Error for Error {}

//! What is reported of instances: logged, counted, and handed to the program.

use campanile::Event;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// What happened to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It was made, and has its properties.
    Configured,
    /// Its connections are made.
    Connected,
    /// Events come to it.
    Activated,
    /// Events come to it no more.
    Passivated,
    /// It is gone.
    Removed,
    /// Its component panicked, or, in a shared object, said that it is broken.
    Failed {
        /// What the panic said.
        reason: String,
        /// When the component is made again; `None` if it failed too often and stays as it is.
        restart_after: Option<Duration>,
    },
    /// Its component was made again, with the properties that the instance was configured with.
    Restarted,
    /// One of its handlers has not returned for so long. It is reported once for each such handler.
    Slow {
        /// How long the handler has run.
        elapsed: Duration,
    },
}

/// A change of an instance, as it is handed to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// The server.
    pub server: Arc<str>,
    /// The instance.
    pub instance: Arc<str>,
    /// What happened to it.
    pub change: Change,
}

/// The event that the ports [`Neighbours`](crate::Neighbours) of connected components get.
#[derive(Event, Clone, Debug, PartialEq, Eq)]
#[event(module = "campanile", domain = "Campanile")]
pub struct NeighbourChange {
    /// The instance that changed.
    pub instance: String,
    /// `failed`, `restarted`, `given up` or `removed`.
    pub change: String,
    /// What a panic said; empty otherwise.
    pub reason: String,
}

impl Notice {
    /// What the neighbours are sent; `None` for steps of a life without failures.
    pub(crate) fn for_neighbours(&self) -> Option<NeighbourChange> {
        let (change, reason) = match &self.change {
            Change::Failed { reason, restart_after: Some(_) } => ("failed", reason.as_str()),
            Change::Failed { reason, restart_after: None } => ("given up", reason.as_str()),
            Change::Restarted => ("restarted", ""),
            Change::Removed => ("removed", ""),
            _ => return None,
        };
        Some(NeighbourChange {
            instance: self.instance.to_string(),
            change: change.to_owned(),
            reason: reason.to_owned(),
        })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, instance, change } = self;
        write!(f, "component {instance} of server {server} ")?;
        match change {
            Change::Configured => f.write_str("is configured"),
            Change::Connected => f.write_str("is connected"),
            Change::Activated => f.write_str("is activated"),
            Change::Passivated => f.write_str("is passivated"),
            Change::Removed => f.write_str("is removed"),
            Change::Failed { reason, restart_after: Some(after) } => {
                write!(f, "failed and is made again after {} ms: {reason}", after.as_millis())
            }
            Change::Failed { reason, restart_after: None } => {
                write!(f, "failed too often and stays so, until it is activated or removed: {reason}")
            }
            Change::Slow { elapsed } => {
                write!(f, "has a handler that has not returned for {} ms", elapsed.as_millis())
            }
            Change::Restarted => f.write_str("is there again, with its properties"),
        }
    }
}

/// The function of a program that gets notices, on the lanes' threads.
pub(crate) type Listener = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Where notices go.
#[derive(Clone)]
pub(crate) struct Notices {
    pub(crate) server: Arc<str>,
    pub(crate) listener: Option<Listener>,
}

impl Notices {
    /// Logs a change, hands it to the program, and gives it back.
    pub(crate) fn report(&self, instance: &Arc<str>, change: Change) -> Notice {
        let notice = Notice { server: self.server.clone(), instance: instance.clone(), change };
        match &notice.change {
            Change::Failed { .. } | Change::Slow { .. } => log::warn!("{notice}"),
            _ => log::info!("{notice}"),
        }
        // A lane outlives a panic of the program's function.
        if let Some(listener) = &self.listener
            && catch_unwind(AssertUnwindSafe(|| listener(&notice))).is_err()
        {
            log::warn!("the program's function for notices panicked");
        }
        notice
    }
}

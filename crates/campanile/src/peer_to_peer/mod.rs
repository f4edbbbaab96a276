//! Events over DDS: from program to program, without a service between.
//!
//! An event's domain is a DDS domain, its type's name a topic with that type, its channel a partition. Subscriptions to other types work as
//! with a notification service: a writer of the same topic with another type gets a reader of that type, and its values are projected.
//!
//! The process has one participant in each domain for each name that its settings give it, and one more for each further type that a topic has.

mod listeners;
mod once;
mod participants;
mod watching;
mod writers;

pub(crate) use listeners::Listeners;
pub(crate) use writers::WriterCounters;
pub(crate) use writers::Writers;

use crate::error::{Error, Trouble};
use crate::settings::Settings;
use dds::{Difference, History, Incompatibility, Options, Qos, Role};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Options of the process in DDS domains.
fn options(settings: &Settings) -> Options {
    let of = &settings.dds;
    let mut options = Options::default();
    options.interface.clone_from(&of.interface);
    options.peers.clone_from(&of.peers);
    if !of.peers.is_empty() {
        options.multicast = dds::Multicast::Never;
    }
    options.writer_bytes_max = of.writer_bytes_max;
    options
}

/// The quality of service of writers and readers.
fn qos(channel: &str, settings: &Settings) -> Qos {
    let of = &settings.dds;
    let partition = of.partition(channel);
    Qos {
        reliable: of.reliable,
        history: if of.history_depth == 0 { History::KeepAll } else { History::KeepLast(of.history_depth) },
        samples_max: of.samples_max,
        blocking_max: Duration::from_millis(of.slowed_ms_max.into()),
        late_joiners: of.late_joiners,
        deadline: time(of.deadline_ms),
        lifespan: time(of.lifespan_ms),
        transport_priority: of.priority,
        user_data: dds::OWN_USER_DATA.to_vec(),
        // The empty one is DDS's default.
        partitions: if partition.is_empty() { Vec::new() } else { vec![partition.to_owned()] },
        ..Qos::default()
    }
}

impl From<dds::Error> for Error {
    fn from(error: dds::Error) -> Self {
        match error {
            dds::Error::Type { path, reason } => {
                let name = path.split(['.', '[']).next().unwrap_or_default().to_owned();
                Self::Type { name, reason: format!("{path}: {reason}") }
            }
            error => Self::Dds(error.to_string()),
        }
    }
}

impl From<&Incompatibility> for Trouble {
    fn from(found: &Incompatibility) -> Self {
        let Incompatibility { topic: name, peer, role, difference, advice } = found.clone();
        let Difference { policy, offered, requested } = difference;
        let (is_reader, policy) = (role == Role::Reader, policy.name());
        Self::Incompatible { name, peer, is_reader, policy, offered, requested, advice }
    }
}

/// Converts milliseconds, of which 0 means none.
fn time(ms: u32) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms.into()))
}

/// Waits for a moment, since nothing notifies of a change.
fn pause(time: Duration) {
    let (lock, nobody) = (Mutex::new(()), Condvar::new());
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = nobody.wait_timeout(guard, time);
}

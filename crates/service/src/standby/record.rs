//! The record of who leads: one value in something that has a majority, such as etcd.
//!
//! A leader renews it by compare-and-swap, and says in it whether its follower has everything that was acknowledged. A follower that saw no
//! change for long enough swaps the epoch up, and leads. [`right`](super::right) has the rules.

use rustix::system::uname;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::Config;
use crate::random;

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The number of the service.
    pub(crate) service: u64,
    pub(crate) epoch: u64,
    /// The leader's machine: its name, for people, and its number.
    pub(crate) holder: String,
    pub(crate) machine: u64,
    /// The leader's process.
    pub(crate) run: u64,
    /// Raised by each renewal in an epoch.
    pub(crate) counter: u64,
    /// The number of the machine that has everything that was acknowledged, if one has.
    pub(crate) in_step: Option<u64>,
}

/// A record as it was read, and its version there, which each write changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versioned {
    pub(crate) record: Record,
    pub(crate) version: String,
}

/// What became of a compare-and-swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Swapped {
    /// It was done, and this is the version now.
    Done(String),
    /// There is another record, or none.
    Other(Option<Versioned>),
}

/// Where the record is: a key of etcd with its revision, or, as fits as well, a Lease of Kubernetes with its `resourceVersion`. Reads and swaps are linearizable, and each call ends within a time shorter than the lease. After an error a swap may
/// have been done, or be done later.
pub(crate) trait RecordStore: Send {
    /// The record, if there is one.
    fn read(&mut self) -> Result<Option<Versioned>, String>;

    /// Writes the record if the one there has the `expected` version; without one, if there is none.
    fn swap(&mut self, expected: Option<&str>, record: &Record) -> Result<Swapped, String>;
}

/// A machine and its process, as the record names them.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) name: String,
    /// Never 0.
    pub(crate) number: u64,
    pub(crate) run: u64,
}

impl Machine {
    /// This machine and process.
    pub(crate) fn of(config: &Config) -> Self {
        let listen = config.standby.listen.as_deref().unwrap_or_default();
        Self::named(format!("{} ({listen})", uname().nodename().to_string_lossy()), random::identity())
    }

    pub(crate) fn named(name: String, run: u64) -> Self {
        Self { number: xxh3_64(name.as_bytes()).max(1), name, run }
    }
}

//! Quality of service of a writer or a reader, as far as this workspace has a use for it.

use std::ffi::CString;
use std::time::Duration;

use crate::error::Error;
use crate::raw::{RawPolicies, RawQos};

/// What a writer keeps for readers that are there, and a reader for its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Everything, until it is taken: an endpoint without room has those before it wait.
    KeepAll,
    /// The latest that many, and older ones are lost.
    KeepLast(u32),
}

/// Quality of service of a writer or a reader.
///
/// What is kept for readers that are there and what is kept for those that come later are two things: the first is
/// `history`, the second `late_joiners`. One limited history for both loses samples of readers that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qos {
    /// What a reader misses is sent again, and what it has no room for waits. Default: true.
    pub reliable: bool,
    /// How long a write waits for room, where it is reliable and keeps all, before it is
    /// [`Slowed`](crate::WriteError::Slowed). Default: a second.
    pub blocking_max: Duration,
    /// Default: [`History::KeepAll`].
    pub history: History,
    /// How many samples a reader that keeps all has room for. Default: 4096. A writer's room is measured in octets
    /// ([`Options::writer_bytes_max`](crate::Options::writer_bytes_max)).
    pub samples_max: u32,
    /// Of a writer: how many of its latest samples it keeps for readers that come later (DDS: transient-local
    /// durability, and the depth of the durability service's history). Of a reader: above 0, it wants those. Default: 0.
    pub late_joiners: u32,
    /// The longest between two samples. Default: none.
    pub deadline: Option<Duration>,
    /// How long a sample is of use. Default: for ever.
    pub lifespan: Option<Duration>,
    /// The transport priority: what is higher goes first where the network tells them apart. Default: 0.
    pub transport_priority: i32,
    /// Default: the one without a name. Readers may use `*` and `?`.
    pub partitions: Vec<String>,
    /// Of a reader: samples of writers of the same participant are not for it. Default: false.
    pub ignore_own: bool,
    /// What others learn with the endpoint, at most 256 octets. Default: nothing.
    pub user_data: Vec<u8>,
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            reliable: true,
            blocking_max: Duration::from_secs(1),
            history: History::KeepAll,
            samples_max: 4096,
            late_joiners: 0,
            deadline: None,
            lifespan: None,
            transport_priority: 0,
            partitions: Vec::new(),
            ignore_own: false,
            user_data: Vec::new(),
        }
    }
}

impl Qos {
    fn raw(&self) -> RawQos {
        let depth = |depth: u32| i32::try_from(depth.max(1)).unwrap_or(i32::MAX);
        RawQos {
            reliable: i32::from(self.reliable),
            blocking_max: nanoseconds(self.blocking_max),
            keep_all: i32::from(self.history == History::KeepAll),
            depth: match self.history {
                History::KeepAll => 1,
                History::KeepLast(count) => depth(count),
            },
            transient_local: i32::from(self.late_joiners > 0),
            late_depth: if self.late_joiners > 0 { depth(self.late_joiners) } else { 0 },
            deadline: self.deadline.map_or(0, nanoseconds),
            lifespan: self.lifespan.map_or(0, nanoseconds),
            transport_priority: self.transport_priority,
            ..RawQos::NOTHING
        }
    }

    pub(crate) fn raw_of_writer(&self) -> RawQos {
        RawQos { representations: 1, ..self.raw() }
    }

    pub(crate) fn raw_of_reader(&self) -> RawQos {
        let samples_max = match self.history {
            History::KeepAll => i32::try_from(self.samples_max.max(1)).unwrap_or(i32::MAX),
            History::KeepLast(_) => -1,
        };
        let late_depth = 0; // a writer's own affair
        RawQos { samples_max, late_depth, lifespan: 0, ignore_own: i32::from(self.ignore_own), ..self.raw() }
    }

    /// What a writer with it offers, and a reader asks for.
    pub(crate) fn policies(&self) -> RawPolicies {
        RawPolicies {
            reliability: i32::from(self.reliable),
            durability: i32::from(self.late_joiners > 0),
            ownership: 0,
            destination_order: 0,
            liveliness: 0,
            presentation: 0,
            representation: 0,
            representations: 1,
            deadline: self.deadline.map_or(i64::MAX, nanoseconds),
            latency_budget: 0,
            lease: i64::MAX,
        }
    }

    pub(crate) fn c_partitions(&self) -> Result<Vec<CString>, Error> {
        self.partitions.iter().map(|partition| c_name("partition", partition)).collect()
    }
}

/// A name as C has it.
pub(crate) fn c_name(of: &'static str, name: &str) -> Result<CString, Error> {
    match CString::new(name) {
        Ok(name) if name.as_bytes().len() <= 255 => Ok(name),
        _ => Err(Error::Name { of, name: name.to_owned() }),
    }
}

/// Cyclone's durations; what is longer than 292 years is for ever.
pub(crate) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

//! Quality of service of writers and readers, as far as this workspace uses it.

use std::ffi::CString;
use std::time::Duration;

use crate::error::Error;
use crate::raw::{RawPolicies, RawQos};

/// Samples that a writer stores for current readers, and a reader for its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// All samples until taken: an endpoint without room makes its writers wait.
    KeepAll,
    /// The latest so many samples; older ones are lost.
    KeepLast(u32),
}

/// Quality of service of a writer or a reader.
///
/// Samples stored for current readers (`history`) and for late joiners (`late_joiners`) are limited separately: one limit for both would
/// lose samples of current readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Missed samples are sent again, and writers wait for room. Default: true.
    pub reliable: bool,
    /// Time that a reliable, keep-all write waits for room before it is [`Slowed`](crate::WriteError::Slowed). Default: a second.
    pub blocking_max: Duration,
    /// Stored samples. Default: [`History::KeepAll`].
    pub history: History,
    /// Samples that a keep-all reader has room for. Default: 4096. A writer's room is measured in octets
    /// ([`Options::writer_bytes_max`](crate::Options::writer_bytes_max)).
    pub samples_max: u32,
    /// Of a writer: number of latest samples stored for late joiners (DDS: transient-local durability, and the depth of the durability
    /// service's history). Of a reader: above 0, it requests those. Default: 0.
    pub late_joiners: u32,
    /// Longest time between two samples. Default: none.
    pub deadline: Option<Duration>,
    /// Time for which a sample is valid. Default: for ever.
    pub lifespan: Option<Duration>,
    /// Transport priority: higher goes first where the network distinguishes priorities. Default: 0.
    pub transport_priority: i32,
    /// Partitions. Default: the unnamed one. Readers may use `*` and `?`.
    pub partitions: Vec<String>,
    /// Of a reader: samples of writers of the same participant are ignored. Default: false.
    pub ignore_own: bool,
    /// User data announced with the endpoint, at most 256 octets. Default: none.
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

    /// The policies that a writer offers or a reader requests.
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

/// Converts a name to a C string.
pub(crate) fn c_name(of: &'static str, name: &str) -> Result<CString, Error> {
    match CString::new(name) {
        Ok(name) if name.as_bytes().len() <= 255 => Ok(name),
        _ => Err(Error::Name { of, name: name.to_owned() }),
    }
}

/// Converts a duration to Cyclone's; beyond 292 years it is for ever.
pub(crate) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

//! A client that does nothing wrong, and asks administration something now and then.

use crate::campanile::{Campanile, setup};
use crate::latency::Recorder;
use crate::{BenchError, clock};

/// How often it asks, in nanoseconds.
const EVERY: u64 = clock::SECOND / 50;

/// What it saw.
#[derive(Default)]
pub(super) struct Seen {
    /// How long answers took.
    pub(super) answers: Recorder,
    /// The most memory that the service had resident, in octets.
    pub(super) resident_bytes_max: u64,
    pub(super) threads_max: u64,
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        self.answers.merge(&other.answers);
        self.resident_bytes_max = self.resident_bytes_max.max(other.resident_bytes_max);
        self.threads_max = self.threads_max.max(other.threads_max);
    }
}

pub(super) fn look(service: &Campanile, until: u64) -> Result<Seen, BenchError> {
    let mut seen = Seen::default();
    let factory = service.factory()?;
    let mut due = clock::now();
    while due < until {
        clock::sleep_until(due)?;
        let began = clock::now();
        factory.get_all_channels().map_err(setup("asking administration for its channels"))?;
        seen.answers.record(clock::now() - began);
        seen.resident_bytes_max = seen.resident_bytes_max.max(service.process().resident_bytes()?);
        seen.threads_max = seen.threads_max.max(service.process().threads()?);
        // A question that was late does not put off the next one more than it must.
        due = (due + EVERY).max(clock::now());
    }
    Ok(seen)
}

//! What a service says of itself at one moment.

use crate::info::status::{self, ConsumerStatus};
use client::{InvokeError, ObjectRef};
use giop::cdr::{ReadError, Reader};
use std::collections::HashMap;
use std::time::Instant;

/// Octets of the shortest `Statistic` and `LaneStatistic`.
const STATISTIC_BYTES_MIN: usize = 16;
const LANE_BYTES_MIN: usize = 16;

/// One moment of a service.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) taken: Instant,
    pub(super) counters: HashMap<String, u64>,
    pub(super) lanes: Vec<Lane>,
    pub(super) consumers: Vec<ConsumerStatus>,
}

/// One `LaneStatistic`.
#[derive(Clone, Default)]
pub(super) struct Lane {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) counters: HashMap<String, u64>,
}

impl Sample {
    /// Asks the object `Statistics`.
    pub(super) fn take(statistics: &ObjectRef) -> Result<Self, InvokeError> {
        let consumers = status::read_all(statistics)?;
        let counters = statistics.invoke("get_statistics", |_| ())?.read("get_statistics", read_counters)?;
        let lanes = statistics.invoke("get_lanes", |_| ())?.read("get_lanes", |reader| {
            let count = reader.seq_len(LANE_BYTES_MIN)?;
            (0..count).map(|_| read_lane(reader)).collect::<Result<Vec<_>, ReadError>>()
        })?;
        Ok(Self { taken: Instant::now(), counters, lanes, consumers })
    }
}

fn read_counters(reader: &mut Reader<'_>) -> Result<HashMap<String, u64>, ReadError> {
    let count = reader.seq_len(STATISTIC_BYTES_MIN)?;
    (0..count).map(|_| Ok((reader.text()?, reader.u64()?))).collect()
}

fn read_lane(reader: &mut Reader<'_>) -> Result<Lane, ReadError> {
    Ok(Lane { id: reader.u32()?, name: reader.text()?, counters: read_counters(reader)? })
}

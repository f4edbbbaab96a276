//! Figures of a service at one moment.

use crate::info::status::ConsumerStatus;
use crate::statistics::Statistics;
use client::InvokeError;
use std::collections::HashMap;
use std::time::Instant;

/// Figures of one moment.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) taken: Instant,
    pub(super) counters: HashMap<String, u64>,
    pub(super) lanes: Vec<Lane>,
    pub(super) consumers: Vec<ConsumerStatus>,
}

/// One `Statistic`.
type Counted = (String, u64);

/// One `LaneStatistic`.
#[derive(Clone, Default)]
pub(super) struct Lane {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) counters: HashMap<String, u64>,
}

impl Sample {
    /// Reads the figures from the object `Statistics`.
    pub(super) fn take(statistics: &Statistics) -> Result<Self, InvokeError> {
        let consumers = statistics.consumers()?;
        let counters = statistics.counters()?.into_iter().collect();
        let lanes: Vec<((u32, String), Vec<Counted>)> = statistics.object.request("get_lanes", &())?;
        let lane = |((id, name), counters): ((u32, String), Vec<_>)| {
            let counters = counters.into_iter().collect();
            Lane { id, name, counters }
        };
        let lanes = lanes.into_iter().map(lane).collect();
        Ok(Self { taken: Instant::now(), counters, lanes, consumers })
    }
}

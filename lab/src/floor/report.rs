//! What `bench floor` reports: the shape of its JSON, and how rounds become figures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::latency::ratio;
use crate::{Losses, Percentiles, Spread};

/// One contender's turn: paced or back-to-back traffic in one round of one series.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Turn {
    pub(crate) events_per_second: f64,
    pub(crate) latency: Percentiles,
    pub(crate) latency_from_schedule: Option<Percentiles>,
    pub(crate) round_trip: Percentiles,
    pub(crate) late_pushes: Option<u64>,
    pub(crate) losses: Losses,
    pub(crate) cpu_us_per_event: Option<f64>,
    pub(crate) supplier_cpu_us_per_event: f64,
    pub(crate) consumer_cpu_us_per_event: f64,
    pub(crate) counted: Option<Counted>,
}

/// What the service counted while a turn's events passed through it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Counted {
    pub(crate) events: u64,
    pub(crate) allocations: u64,
    pub(crate) system_calls: u64,
    pub(crate) cycles: u64,
    pub(crate) allocations_of_a_reading: u64,
    pub(crate) system_calls_of_a_reading: u64,
    pub(crate) allocations_per_event: f64,
    pub(crate) system_calls_per_event: f64,
    pub(crate) cycles_per_event: f64,
}

/// A contender under one load in one series, over all rounds. Each figure is the median over the rounds of that
/// round's figure, with the smallest and the largest beside it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) latency_min_us: Spread,
    pub(crate) latency_p50_us: Spread,
    pub(crate) latency_p99_us: Spread,
    pub(crate) latency_p999_us: Spread,
    pub(crate) latency_max_us: Spread,
    pub(crate) events_per_second: Spread,
    pub(crate) cpu_us_per_event: Option<Spread>,
    pub(crate) allocations_per_event: Option<f64>,
    pub(crate) system_calls_per_event: Option<f64>,
    pub(crate) losses: Losses,
    pub(crate) rounds: Vec<Turn>,
}

impl Figures {
    /// Figures of these turns; `None` when there are none.
    pub(super) fn of(rounds: Vec<Turn>) -> Option<Self> {
        let spread = |figure: fn(&Turn) -> f64| Spread::of(rounds.iter().map(figure));
        let mut losses = Losses::default();
        for turn in &rounds {
            losses.add(turn.losses);
        }
        let counted: Vec<Counted> = rounds.iter().filter_map(|turn| turn.counted).collect();
        let per_event = |figure: fn(&Counted) -> u64| {
            let events: u64 = counted.iter().map(|counted| counted.events).sum();
            (events > 0).then(|| ratio(counted.iter().map(figure).sum(), events))
        };
        Some(Self {
            latency_min_us: spread(|turn| turn.latency.min)?,
            latency_p50_us: spread(|turn| turn.latency.median)?,
            latency_p99_us: spread(|turn| turn.latency.p99)?,
            latency_p999_us: spread(|turn| turn.latency.p999)?,
            latency_max_us: spread(|turn| turn.latency.max)?,
            events_per_second: spread(|turn| turn.events_per_second)?,
            cpu_us_per_event: Spread::of(rounds.iter().filter_map(|turn| turn.cpu_us_per_event)),
            allocations_per_event: per_event(|counted| counted.allocations),
            system_calls_per_event: per_event(|counted| counted.system_calls),
            losses,
            rounds,
        })
    }
}

/// A contender's figures by series and load; `null` where it had no turn.
pub(crate) type Both = BTreeMap<&'static str, BTreeMap<&'static str, Option<Figures>>>;

/// Campanile's figures divided by the bare relay's, medians over the rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Ratios {
    pub(crate) latency_p50: Option<f64>,
    pub(crate) latency_p999: Option<f64>,
    pub(crate) cpu_per_event: Option<f64>,
    pub(crate) allocations_per_event: Option<f64>,
    pub(crate) syscalls_per_event: Option<f64>,
}

impl Ratios {
    /// Of two contenders in the same series under the same load.
    pub(super) fn of(campanile: Option<&Figures>, relay: Option<&Figures>) -> Self {
        let divide = |figure: fn(&Figures) -> Option<f64>| {
            let (above, below) = (figure(campanile?)?, figure(relay?)?);
            (below > 0.0).then_some(above / below)
        };
        Self {
            latency_p50: divide(|figures| Some(figures.latency_p50_us.median)),
            latency_p999: divide(|figures| Some(figures.latency_p999_us.median)),
            cpu_per_event: divide(|figures| figures.cpu_us_per_event.map(|spread| spread.median)),
            allocations_per_event: campanile.and_then(|figures| figures.allocations_per_event),
            syscalls_per_event: campanile.and_then(|figures| figures.system_calls_per_event),
        }
    }
}

//! What `bench floor` reports: the shape of its JSON, and how rounds become figures.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Contender, Load, Series};
use crate::latency::ratio;
use crate::{FloorOptions, Losses, Machine, Percentiles, Spread};

/// One contender's turn: paced or back-to-back traffic in one round of one series.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Turn {
    /// Events received, divided by the time from the first one's sending to the last one's receipt.
    pub(crate) events_per_second: f64,
    /// From the supplier's stamp, taken right before the write of the request, to the consumer's, taken right after the
    /// read that completed it.
    pub(crate) latency: Percentiles,
    /// The same from the moment at which the event was due by the schedule: what a supplier's lateness, its own and
    /// that caused by a push that had not returned, adds (no coordinated omission). `null` for omniORB: its program
    /// does not report it, and without meaning back to back, where every event is due when it is sent.
    pub(crate) latency_from_schedule: Option<Percentiles>,
    /// From right before the write of a push to right after the read of its reply, at the supplier. The relay's reply
    /// comes from the consumer, Campanile's as soon as the service has taken the event: these two differ by design.
    pub(crate) round_trip: RoundTrip,
    /// Paced pushes that left late because the one before had not returned. `null` for omniORB.
    pub(crate) late_pushes: Option<u64>,
    /// What became of the events.
    pub(crate) losses: Losses,
    /// Processor time of the process in the middle, user and system, in microseconds, divided by the events. `null`
    /// where there is none.
    pub(crate) cpu_us_per_event: Option<f64>,
    /// The same of the supplier's thread, or of omniORB's supplier process.
    pub(crate) supplier_cpu_us_per_event: f64,
    /// The same of the consumer's thread, or of omniORB's consumer process.
    pub(crate) consumer_cpu_us_per_event: f64,
    /// What the service itself counted. `null` for contenders that do not count.
    pub(crate) counted: Option<Counted>,
}

/// Percentiles of the supplier's round trip, in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RoundTrip {
    /// Half took at most this long.
    pub(crate) median_us: f64,
    /// 99 in 100 took at most this long.
    pub(crate) p99_us: f64,
    /// 999 in 1000 took at most this long.
    pub(crate) p999_us: f64,
    /// The longest.
    pub(crate) max_us: f64,
}

impl From<Percentiles> for RoundTrip {
    fn from(figures: Percentiles) -> Self {
        let Percentiles { median, p99, p999, max, .. } = figures;
        Self { median_us: median, p99_us: p99, p999_us: p999, max_us: max }
    }
}

/// What the service counted while a turn's events passed through it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Counted {
    /// Events it took.
    pub(crate) events: u64,
    /// Allocations of the lane's thread, less what reading the counters itself costs (found by several readings before
    /// and after).
    pub(crate) allocations: u64,
    /// System calls of the lane's thread, less the same.
    pub(crate) system_calls: u64,
    /// Rounds of the lane's duty cycle, less the same.
    pub(crate) cycles: u64,
    /// Allocations that one reading of the counters costs, already subtracted above.
    pub(crate) allocations_of_a_reading: u64,
    /// System calls that one reading of the counters costs, already subtracted above.
    pub(crate) system_calls_of_a_reading: u64,
    /// Allocations divided by events.
    pub(crate) allocations_per_event: f64,
    /// System calls divided by events.
    pub(crate) system_calls_per_event: f64,
    /// Rounds divided by events.
    pub(crate) cycles_per_event: f64,
}

/// A contender under one load in one series, over all rounds. Each figure is the median over the rounds of that
/// round's figure, with the smallest and the largest beside it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    /// Latency: the least.
    pub(crate) latency_min_us: Spread,
    /// Latency: the median.
    pub(crate) latency_p50_us: Spread,
    /// Latency: the 99th percentile.
    pub(crate) latency_p99_us: Spread,
    /// Latency: the 99.9th percentile.
    pub(crate) latency_p999_us: Spread,
    /// Latency: the longest.
    pub(crate) latency_max_us: Spread,
    /// Throughput.
    pub(crate) events_per_second: Spread,
    /// Processor time of the process in the middle.
    pub(crate) cpu_us_per_event: Option<Spread>,
    /// Allocations of the service, all rounds together, divided by its events.
    pub(crate) allocations_per_event: Option<f64>,
    /// System calls of the service, all rounds together, divided by its events.
    pub(crate) system_calls_per_event: Option<f64>,
    /// What became of the events of all rounds.
    pub(crate) losses: Losses,
    /// Every round.
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

/// A contender's figures under each load.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Loads {
    /// At the paced rate.
    pub(crate) paced: Option<Figures>,
    /// Back to back: the supplier pushes the next event when the push before has returned.
    pub(crate) saturated: Option<Figures>,
    /// As fast as goes with one event under way: supplier and consumer are one thread, which sends the next event when the
    /// consumer has answered the one before and its push has returned. `null` for omniORB.
    pub(crate) lockstep: Option<Figures>,
}

/// A contender's figures in both series.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct BothSeries {
    /// The machine as it is: cores that have nothing to do go to sleep.
    pub(crate) as_is: Loads,
    /// A thread of the idle class spins on each core, so that none goes to sleep; and, unless `--no-pin` was given, the
    /// process in the middle has a core of its own and the ends have the others.
    pub(crate) cores_awake: Loads,
}

impl BothSeries {
    pub(super) fn get(&self, series: Series, load: Load) -> Option<&Figures> {
        let loads = match series {
            Series::AsIs => &self.as_is,
            Series::CoresAwake => &self.cores_awake,
        };
        match load {
            Load::Paced => loads.paced.as_ref(),
            Load::Saturated => loads.saturated.as_ref(),
            Load::Lockstep => loads.lockstep.as_ref(),
        }
    }

    pub(super) fn set(&mut self, series: Series, load: Load, figures: Option<Figures>) {
        let loads = match series {
            Series::AsIs => &mut self.as_is,
            Series::CoresAwake => &mut self.cores_awake,
        };
        match load {
            Load::Paced => loads.paced = figures,
            Load::Saturated => loads.saturated = figures,
            Load::Lockstep => loads.lockstep = figures,
        }
    }
}

/// Campanile's figures divided by the bare relay's, medians over the rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Ratios {
    /// Of the median latencies.
    pub(crate) latency_p50: Option<f64>,
    /// Of the 99.9th percentiles of latency.
    pub(crate) latency_p999: Option<f64>,
    /// Of the processor times of the process in the middle.
    pub(crate) cpu_per_event: Option<f64>,
    /// Not a ratio: the service's allocations in an event.
    pub(crate) allocations_per_event: Option<f64>,
    /// Not a ratio: the service's system calls in an event.
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

/// How the run was set up.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settings {
    /// Whether `--quick` was given.
    pub(crate) quick: bool,
    /// Whether the parties were pinned to cores while these were kept awake.
    pub(crate) pinned: bool,
    /// Rounds; in each, every contender has its turns, one contender after the other.
    pub(crate) rounds: u32,
    /// Seconds of paced traffic in a turn.
    pub(crate) paced_seconds: f64,
    /// Seconds of back-to-back traffic in a turn.
    pub(crate) saturated_seconds: f64,
    /// Seconds of traffic in lockstep in a turn.
    pub(crate) lockstep_seconds: f64,
    /// Events per second of the paced traffic.
    pub(crate) rate: f64,
    /// Octets of an event's payload.
    pub(crate) payload_bytes: u32,
    /// Pushes that may be unanswered on Campanile's consumer; `null` is the service's default, 1.
    pub(crate) push_window: Option<u16>,
    /// Octets of the request as the supplier sends it, the same for Campanile and the relay.
    pub(crate) request_bytes: usize,
    /// Octets of the request as Campanile's consumer receives it.
    pub(crate) request_bytes_behind_campanile: usize,
    /// Octets of the consumer's reply.
    pub(crate) reply_bytes: usize,
}

impl Settings {
    pub(super) fn of(options: &FloorOptions) -> Self {
        let pick = |given: Option<f64>, quick, full| given.unwrap_or(if options.quick { quick } else { full });
        Self {
            quick: options.quick,
            pinned: !options.no_pin,
            rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 5 }),
            paced_seconds: pick(options.paced_seconds, 1.2, 10.0),
            saturated_seconds: pick(options.saturated_seconds, 0.3, 2.0),
            lockstep_seconds: pick(options.lockstep_seconds, 0.3, 2.0),
            rate: options.rate,
            payload_bytes: options.bytes,
            push_window: options.delivery.push_window,
            request_bytes: 0,
            request_bytes_behind_campanile: 0,
            reply_bytes: 0,
        }
    }
}

/// System calls of the service as strace counts them from outside.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Strace {
    /// Events that passed meanwhile.
    pub(crate) events: u64,
    /// Calls by name, all threads of the service.
    pub(crate) calls: BTreeMap<String, u64>,
    /// All calls divided by the events.
    pub(crate) system_calls_per_event: f64,
}

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `floor`.
    pub(crate) benchmark: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// How it was set up.
    pub(crate) settings: Settings,
    /// Campanile over the relay, by `ratios_are`.
    pub(crate) ratios: Ratios,
    /// From which series and load `ratios` come, in a sentence.
    pub(crate) ratios_are: String,
    /// The same ratios in each series under each load, `SERIES.LOAD`.
    pub(crate) all_ratios: BTreeMap<String, Ratios>,
    /// Campanile between supplier and consumer.
    pub(crate) campanile: BothSeries,
    /// A bare relay in its place.
    pub(crate) relay: BothSeries,
    /// omniORB to omniORB with nothing between; `null` where its programs are not built.
    pub(crate) omniorb_direct: Option<BothSeries>,
    /// Why there is nothing of omniORB; `null` where there is.
    pub(crate) omniorb_note: Option<String>,
    /// System calls counted from outside, with `--strace`.
    pub(crate) strace: Option<Strace>,
    /// Whole seconds the run took.
    pub(crate) seconds: f64,
}

impl Report {
    pub(super) fn contender(&self, contender: Contender) -> Option<&BothSeries> {
        match contender {
            Contender::Campanile => Some(&self.campanile),
            Contender::Relay => Some(&self.relay),
            Contender::OmniOrb => self.omniorb_direct.as_ref(),
        }
    }
}

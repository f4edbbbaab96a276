//! The experiments of two papers, each one command: `paths-load`, `paths-latency`, `paths-jitter`, `paths-number` and `overhead`
//! (Gore, Pyarali, Gill and Schmidt: *The Design and Performance of a Real-time Notification Service*, section 4), and `isolation`
//! (Bauer, Garcés-Erice and Rooney: *Tempo: A Simple Time-Sensitive Messaging System*, section VI).
//!
//! Each runs with the service as real-time and as plain service side by side, both in turn throughout. Suppliers, consumers and
//! services are processes of their own; `--one-cpu` confines all of them to one core, as the paper's testbed was, and leaves
//! the experimenter on another where there is one.

use std::io::Write;

use serde::Serialize;
use serde_json::json;

use crate::process::Subordinate;
use crate::report::{Aim, Reported, add};
use crate::{BenchError, Options, Output, clock, scenarios};

pub(crate) mod ability;
mod line;
mod paired;
pub(crate) mod party;
mod primes;
mod rig;
mod samples;

pub(crate) mod alma;
pub(crate) mod component_crashes;
pub(crate) mod components;
pub(crate) mod event_path;
pub(crate) mod isolation;
pub(crate) mod languages;
pub(crate) mod overhead;
pub(crate) mod paths;
pub(crate) mod predicted;
pub(crate) mod soak;
pub(crate) mod tempo;

pub(crate) use paired::PairedRatio;
pub(crate) use rig::{Class, Service};

use ability::{Cores, Lifted, RealTime};
use rig::{Outcome, Plan, Rig};

/// Octets of payload of every event: what the paper's section 4.4 has.
const PAYLOAD_BYTES: usize = 64;

/// Where and how an experiment was run: part of every report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Circumstances {
    pub(crate) real_time: RealTime,
    pub(crate) one_cpu: bool,
    pub(crate) core: Option<usize>,
    pub(crate) quick: bool,
    pub(crate) build: &'static str,
    pub(crate) divisions_per_unit: u64,
    pub(crate) unit_us: f64,
}

/// What all experiments of a run stand on.
pub(crate) struct Bed {
    circumstances: Circumstances,
    cores: Cores,
    /// Puts the kernel's limit back when the experiments are over.
    _lifted: Option<Lifted>,
}

impl Bed {
    /// Finds out what the machine grants, and what a unit of load is.
    fn make(options: &Options) -> Result<Self, BenchError> {
        clock::wake_on_time();
        let cores = Cores::choose(options.one_cpu)?;
        let (real_time, lifted) = RealTime::find_out(options.lift_throttling)?;
        let fifo = real_time.fifo(Class::High.priority());
        let name = "the process that calibrates the load";
        let mut party = Subordinate::start(name, party::COMMAND, cores.parties, fifo)?;
        let (divisions, unit_ns): (u64, u64) = party.ask(&party::Order::Calibrate)?;
        let circumstances = Circumstances {
            real_time,
            one_cpu: options.one_cpu,
            core: cores.parties,
            quick: options.quick,
            build: if cfg!(debug_assertions) { "development" } else { "release" },
            divisions_per_unit: divisions,
            unit_us: crate::latency::ratio(unit_ns, 1000),
        };
        Ok(Self { circumstances, cores, _lifted: lifted })
    }

    fn real_time(&self) -> &RealTime {
        &self.circumstances.real_time
    }

    fn quick(&self) -> bool {
        self.circumstances.quick
    }

    /// How long, in seconds, a run warms up and events count: when it has to be quick and when not. A duration from the command
    /// line takes the place of the second, and bounds the first.
    fn times(&self, options: &Options, quick: (f64, f64), full: (f64, f64)) -> (f64, f64) {
        let (warm_up, window) = if self.quick() { quick } else { full };
        options.seconds.map_or((warm_up, window), |seconds| (warm_up.min(seconds), seconds))
    }

    /// How long a turn is, in seconds: when it has to be quick and when not, and at most.
    fn seconds(&self, options: &Options, quick: f64, full: f64, most: f64) -> Result<f64, BenchError> {
        let (_, seconds) = self.times(options, (0.0, quick), (0.0, full));
        Options::check("--seconds", seconds, most)?;
        Ok(seconds)
    }

    /// The loads to try: those of the command line, or else the experiment's.
    fn loads<'a>(&self, options: &'a Options, quick: &'a [u32], full: &'a [u32]) -> &'a [u32] {
        match (options.loads.is_empty(), self.quick()) {
            (false, _) => &options.loads,
            (true, true) => quick,
            (true, false) => full,
        }
    }
}

/// Both services, each with the same paths; they take turns.
struct Pair {
    real_time: Rig,
    plain: Rig,
}

impl Pair {
    /// Starts both, with so many paths of each class.
    fn start(bed: &Bed, paths: &[(Class, usize)]) -> Result<Self, BenchError> {
        let start = |service| Rig::start(bed, service, paths);
        Ok(Self { real_time: start(Service::RealTime)?, plain: start(Service::Plain)? })
    }

    /// A turn of each, all paths with that load.
    fn turns(&mut self, load: u32, plan: Plan, out: &mut Output<'_>) -> Result<[(Service, Outcome); 2], BenchError> {
        let mut turn = |service: Service| {
            out.progress(&format!("load {load}: {}", service.name()))?;
            Ok::<_, BenchError>((service, self.of(service).run(plan, |_| Some(load))?))
        };
        let [first, second] = Service::ALL;
        Ok([turn(first)?, turn(second)?])
    }

    fn of(&mut self, service: Service) -> &mut Rig {
        match service {
            Service::RealTime => &mut self.real_time,
            Service::Plain => &mut self.plain,
        }
    }
}

/// Measures on a bed, which is made for it: where and how is part of what was found.
pub(crate) fn on_bed(
    measure: fn(&Bed, &Options, &mut Output<'_>) -> Reported,
    options: &Options,
    out: &mut Output<'_>,
) -> Reported {
    if let Some(seconds) = options.seconds {
        Options::check("--seconds", seconds, 3600.0)?;
    }
    let bed = Bed::make(options)?;
    let began = clock::now();
    let (aims, mut found) = measure(&bed, options, out)?;
    add(&mut found, json!({"seconds": (clock::seconds(clock::now() - began) * 10.0).round() / 10.0}));
    add(&mut found, json!(bed.circumstances));
    Ok((aims, found))
}

/// `campanile-bench experiments`: the papers' six, those that use all cores first, and figure 13 once more without throttling, where
/// the kernel lifts it. Fails when all have run, if an aim of one was missed.
pub(crate) fn run_all(options: &Options, out: &mut Output<'_>) -> Result<(), BenchError> {
    const CONFINED: [&str; 4] = ["paths-load", "paths-latency", "paths-jitter", "paths-number"];
    let with = |one_cpu| Options { one_cpu, ..options.clone() };
    let lifted = Options { lift_throttling: true, only: vec!["rows".to_owned()], ..with(true) };
    let all = ["overhead", "isolation"].map(|name| (name, with(false))).into_iter();
    let all = all.chain(CONFINED.map(|name| (name, with(true))));
    let mut missed = Vec::new();
    for (name, options) in all.chain((!options.lift_throttling).then_some(("paths-jitter", lifted))) {
        let Some(scenario) = scenarios::ALL.iter().find(|scenario| scenario.name == name) else { continue };
        match scenario.run(&options, out) {
            Err(BenchError::NotShown { found }) => missed.push(found),
            // It takes a privilege that not everybody has.
            Err(error) if options.lift_throttling => writeln!(out, "left out without throttling: {error}")?,
            other => other?,
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(BenchError::NotShown { found: missed.join("\n") }) }
}

/// A figure divided by another, if there are both.
fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    Some(above? / below.filter(|below| *below > 0.0)?)
}

/// Judges a ratio that is to be small.
fn at_most(aim: &str, ratio: Option<f64>, bound: f64) -> Aim {
    let found = match ratio {
        None => "no events to compare".to_owned(),
        Some(ratio) if ratio > 0.0 && ratio < 0.1 => format!("1/{:.0}", 1.0 / ratio),
        Some(ratio) => format!("{ratio:.3} ×"),
    };
    Aim::new(aim, found, ratio.map(|ratio| ratio <= bound))
}

//! A service with its paths: for each a supplier, an event type of its own, and a consumer that subscribes to that type only
//! (Gore et al., figure 8). Suppliers, service and consumers are processes of their own.

use client::notify::{EventType, Property, ThreadPoolLanes};
use giop::realtime::{PriorityModel, PriorityModelPolicy};

use super::Bed;
use super::ability::Seat;
use super::party::{Group, Piece, Recording, Run, Sample, Schedule, Sent, SupplierPath};
use super::samples::Window;
use crate::campanile::{self, Campanile, Channel};
use crate::{BenchError, CarriageOptions, Percentiles, clock, wire};

/// How long before the first event is due a run is ordered: until then all parties know what to do.
const LEAD: u64 = clock::SECOND / 20;
/// And for each path beyond the first.
const LEAD_PER_PATH: u64 = clock::SECOND / 1000;

crate::report::kinds! {
    /// How an event's way through the service and its ends is scheduled.
    pub(crate) enum Service {
        /// Lanes, priorities that travel with the events, and parties at the matching real-time priorities.
        RealTime = "real-time",
        /// No pools, no priorities, ordinary scheduling.
        Plain = "plain",
    }
}

crate::report::kinds! {
    /// What a path's events are worth.
    pub(crate) enum Class {
        High = "high",
        Medium = "medium",
        Low = "low",
    }
}

impl Class {
    /// Its CORBA priority, from 0 to 32767.
    pub(super) const fn priority(self) -> i16 {
        match self {
            Self::High => 24_000,
            Self::Medium => 16_000,
            Self::Low => 8_000,
        }
    }
}

/// A service and the parties of its paths, running.
pub(super) struct Rig {
    /// The paths of each class, and how many there are. Ended first: parties must not see their connections break.
    groups: Vec<(Class, usize, Group)>,
    service: Campanile,
    runs: u32,
    /// Divisions in a unit of load.
    divisions: u64,
}

/// What is to happen in a run. Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// From one event of a path to its next.
    pub(super) period: u64,
    /// Before events count.
    pub(super) warm_up: u64,
    /// While they do.
    pub(super) window: u64,
    /// After it, so that what was due in the window is processed under the same load.
    pub(super) cool_down: u64,
}

impl Plan {
    /// 100 events a second on each path, counted for so many seconds.
    pub(super) fn at_100_hz(warm_up: f64, window: f64) -> Self {
        Self {
            period: clock::SECOND / 100,
            warm_up: clock::nanoseconds(warm_up),
            window: clock::nanoseconds(window),
            cool_down: super::samples::KEEPS_UP_WITHIN + clock::SECOND / 20,
        }
    }
}

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) window: Window,
    pub(super) paths: Vec<PathOutcome>,
    /// Nanoseconds of processor time of the service and of the high path's parties, from before the run until after it.
    pub(super) service_cpu: u64,
    pub(super) high_cpu: u64,
}

#[derive(Debug)]
pub(super) struct PathOutcome {
    pub(super) class: Class,
    pub(super) sent: Sent,
    pub(super) samples: Vec<Sample>,
}

impl Outcome {
    fn of(&self, class: Class) -> impl Iterator<Item = &PathOutcome> {
        self.paths.iter().filter(move |path| path.class == class)
    }

    /// Events a second on each path of a class, the mean over its paths; 0 where there is none.
    pub(super) fn rate(&self, class: Class) -> f64 {
        let (count, sum) =
            self.of(class).fold((0_u32, 0.0), |(count, sum), path| (count + 1, sum + self.window.rate(&path.samples)));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }

    /// The latencies of all paths of a class, in nanoseconds.
    pub(super) fn latencies(&self, class: Class) -> Vec<u64> {
        self.of(class).flat_map(|path| self.window.latencies(&path.samples)).collect()
    }

    /// The same in figures.
    pub(super) fn latency(&self, class: Class) -> Option<Percentiles> {
        Percentiles::of(self.latencies(class))
    }

    /// The same, counted from when each event was due.
    pub(super) fn latency_from_schedule(&self, class: Class) -> Option<Percentiles> {
        Percentiles::of(self.of(class).flat_map(|path| self.window.latencies_from_schedule(&path.samples)))
    }
}

impl Rig {
    /// Starts a service and as many paths of each class, and lets a few events through each.
    pub(super) fn start(bed: &Bed, kind: Service, paths: &[(Class, usize)]) -> Result<Self, BenchError> {
        let service = Campanile::start_on(bed.cores.parties)?;
        let channel = service.new_channel_with(&qualities(kind))?;
        let mut groups = Vec::new();
        for &(class, count) in paths.iter().filter(|(_, count)| *count > 0) {
            groups.push((class, count, connect(bed, kind, (class, count), &channel)?));
        }
        let mut rig = Self { groups, service, runs: 0, divisions: bed.circumstances.divisions_per_unit };
        // Connections settle on their lanes, buffers are made.
        rig.run(Plan::at_100_hz(0.0, 0.1), |_| Some(0))?;
        Ok(rig)
    }

    /// Lets events flow: each path of a class with this load; `None` leaves the class out.
    pub(super) fn run(&mut self, plan: Plan, load: impl Fn(Class) -> Option<u32>) -> Result<Outcome, BenchError> {
        self.runs += 1;
        let number = self.runs;
        let all: usize = self.groups.iter().map(|(_, paths, _)| paths).sum();
        let paths = u64::try_from(all).unwrap_or(u64::MAX).max(1);
        let start = clock::now() + LEAD + LEAD_PER_PATH * paths + plan.period;
        let window = Window { from: start + plan.warm_up, until: start + plan.warm_up + plan.window };
        let end = window.until + plan.cool_down;
        let before = self.cpu()?;
        let recording = Recording { number, divisions: self.divisions, work_until: end, every: 1 };
        self.groups.iter_mut().try_for_each(|(.., group)| group.record(recording))?;
        let mut index = 0_u64;
        for (class, count, group) in &mut self.groups {
            let schedule = (0..*count).map(|_| {
                // Paths take turns within a period.
                let from = start + plan.period * index / paths;
                index += 1;
                let piece = Piece { from, until: end, period: plan.period, events: 1 };
                let load = load(*class);
                Schedule { load: load.unwrap_or(0), pieces: load.map(|_| piece).into_iter().collect() }
            });
            group.send(Run { number, paths: schedule.collect() })?;
        }
        clock::sleep_until(end)?;
        let mut outcome = Outcome { window, paths: Vec::new(), service_cpu: 0, high_cpu: 0 };
        for (class, _, group) in &mut self.groups {
            let paths = group.collect()?.into_iter();
            outcome.paths.extend(paths.map(|(sent, samples)| PathOutcome { class: *class, sent, samples }));
        }
        let after = self.cpu()?;
        (outcome.service_cpu, outcome.high_cpu) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        Ok(outcome)
    }

    /// Processor time of the service, and of the parties of the high path.
    fn cpu(&self) -> Result<(u64, u64), BenchError> {
        let high = self.groups.iter().filter(|(class, ..)| *class == Class::High);
        Ok((self.service.process().cpu()?, high.map(|(.., group)| group.cpu()).sum::<Result<u64, _>>()?))
    }
}

/// What a channel of the real-time side has: a lane for each class.
fn qualities(kind: Service) -> Vec<Property> {
    match kind {
        Service::Plain => Vec::new(),
        Service::RealTime => {
            let mut lanes = Class::ALL.map(|class| (class.priority(), 1));
            lanes.reverse(); // from the lowest priority up, as Real-time CORBA wants them
            vec![ThreadPoolLanes::new(PriorityModel::ClientPropagated, Class::Low.priority(), &lanes).into()]
        }
    }
}

/// Starts so many paths of a class, on the core and at the priority that are theirs.
fn connect(bed: &Bed, kind: Service, (class, count): (Class, usize), channel: &Channel) -> Result<Group, BenchError> {
    let prioritised = kind == Service::RealTime;
    let seat = Seat { core: bed.cores.parties, fifo: bed.real_time().fifo(class.priority()).filter(|_| prioritised) };
    let policy = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: class.priority() };
    let components: Vec<_> = prioritised.then(|| policy.to_component()).into_iter().collect();
    let mut event_types = (0..).map(|index| format!("{}-{index}", class.name()));
    Group::start(seat, count, |address| {
        let event_type = event_types.next().unwrap_or_default();
        let proxy = channel.add_supplier(CarriageOptions::default())?;
        let subscription = EventType::new(wire::EVENT_DOMAIN, &event_type);
        channel.add_consumer_of(&subscription, address, &campanile::key_as_long_as(&proxy.key), &components)?;
        let priority = prioritised.then(|| class.priority());
        Ok(SupplierPath { priority, ..SupplierPath::to(proxy, &event_type) })
    })
}

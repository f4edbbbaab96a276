//! `campanile bench overhead`: what real-time costs, and what a service costs beside the least that can be between supplier
//! and consumer (paper 000, 4.4, figure 15).
//!
//! All parties of all contenders run in the real-time scheduling class where that is granted, as the paper's did (4.1): what is
//! compared is what priorities add, and not two of the kernel's schedulers.

use std::ffi::OsString;
use std::net::SocketAddr;

use client::notify::{EventType, Property, ThreadPoolLanes};
use giop::realtime::{PriorityModel, PriorityModelPolicy};
use serde::Serialize;

use super::chart::Bars;
use super::line::{Ends, Line};
use super::party::SupplierPath;
use super::{Aim, Bed, Circumstances, Class, Latency, quotient};
use crate::campanile::{self, Campanile};
use crate::process::Process;
use crate::spin::Awake;
use crate::table::Table;
use crate::{BenchError, CarriageOptions, ExperimentOptions, Output, Spread, clock, relay, wire};

/// Events a second at which latencies are taken.
const RATE: u64 = 250;

/// Rounds; each contender has its turn in each.
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 3;

/// What real-time may cost: its latency at most this much of the plain service's, its throughput at least the inverse.
const REAL_TIME_AT_MOST: f64 = 1.05;
/// What a service's latency is to be at most, as a multiple of the relay's.
const SERVICE_AT_MOST: f64 = 1.5;

/// Who stands between supplier and consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Between {
    /// Nobody.
    #[serde(rename = "2 hops")]
    Nobody,
    /// A relay that forwards each request to the consumer and each reply to the supplier (`bench floor`'s).
    #[serde(rename = "3 hops")]
    Relay,
    /// The service.
    #[serde(rename = "service")]
    Service,
}

impl Between {
    const ALL: [Self; 3] = [Self::Nobody, Self::Relay, Self::Service];

    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "2 hops",
            Self::Relay => "3 hops",
            Self::Service => "service",
        }
    }
}

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Always `overhead`.
    pub benchmark: &'static str,
    /// Where and how it was run.
    #[serde(flatten)]
    pub circumstances: Circumstances,
    /// Octets of an event's payload.
    pub payload_bytes: usize,
    /// How the cores were kept from dozing off: by asking the kernel (`/dev/cpu_dma_latency`), or, where that was refused, by threads
    /// of the idle class that spin. Those make every switch to a real-time thread a few microseconds longer.
    pub cores_awake: &'static str,
    /// One for each contender: medians of the rounds.
    pub rows: Vec<Row>,
    /// Median latency of the real-time service / of the plain one.
    pub real_time_latency_ratio: Option<f64>,
    /// Events a second of the real-time service / of the plain one.
    pub real_time_throughput_ratio: Option<f64>,
    /// Median latency of the plain service / of 3 hops.
    pub service_latency_ratio: Option<f64>,
    /// Median latency of the real-time service / of 3 hops with priorities.
    pub real_time_service_latency_ratio: Option<f64>,
    /// What was to be shown.
    pub aims: Vec<Aim>,
    #[serde(skip)]
    subtitle: String,
}

/// The figures of one contender.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Who stands between supplier and consumer.
    pub between: Between,
    /// Whether requests carry their priority, and the service has a lane for it.
    pub real_time: bool,
    /// Events a second that arrived when the next is sent as soon as the push before has returned.
    pub events_per_second: Option<Spread>,
    /// Latency at 250 events a second: each round's median.
    pub median_us: Option<Spread>,
    /// The same, each round's p99.
    pub p99_us: Option<Spread>,
}

/// Runs it and writes its report to `out`.
///
/// # Errors
///
/// When a party cannot be started, breaks off, or answers what it should not.
pub fn run(options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    super::conduct(options, out, |bed, out| measure(bed, options, out))
}

/// One configuration, running. Its ends are ended before what is between them.
pub(super) struct Contender {
    between: Between,
    real_time: bool,
    line: Line,
    middle: Middle,
    rates: Vec<f64>,
    medians: Vec<f64>,
    p99s: Vec<f64>,
}

enum Middle {
    Nobody,
    Relay(#[expect(dead_code, reason = "kept running")] Process),
    Service(Campanile),
}

pub(super) fn measure(bed: &Bed, options: &ExperimentOptions, out: &mut Output<'_>) -> Result<Report, BenchError> {
    out.progress("starting all contenders")?;
    let mut contenders = Vec::new();
    for between in Between::ALL {
        for real_time in [false, true] {
            contenders.push(Contender::start(bed, between, real_time)?);
        }
    }
    let (warm_up, window) = bed.times(options, (0.1, 0.6), (0.3, 2.0));
    let (warm_up, window) = (clock::nanoseconds(warm_up), clock::nanoseconds(window));
    let rounds = if bed.quick() { ROUNDS_QUICK } else { ROUNDS };
    // A core that dozes off and has to be woken would be most of the latency at this rate.
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    for round in 1..=rounds {
        for contender in &mut contenders {
            out.progress(&format!("round {round} of {rounds}: {}", contender.name()))?;
            contender.turn(warm_up, window)?;
        }
    }
    Ok(assemble(bed, &contenders, awake.how()))
}

fn assemble(bed: &Bed, contenders: &[Contender], cores_awake: &'static str) -> Report {
    let rows: Vec<Row> = contenders.iter().map(Contender::row).collect();
    let figure = |between: Between, real_time: bool, figure: fn(&Row) -> Option<Spread>| {
        let row = rows.iter().find(|row| (row.between, row.real_time) == (between, real_time));
        row.and_then(figure).map(|spread| spread.median)
    };
    let latency = |between, real_time| figure(between, real_time, |row| row.median_us);
    let rate = |real_time| figure(Between::Service, real_time, |row| row.events_per_second);
    let service = |real_time| latency(Between::Service, real_time);
    let real_time_latency_ratio = quotient(service(true), service(false));
    let real_time_throughput_ratio = quotient(rate(true), rate(false));
    let service_latency_ratio = quotient(service(false), latency(Between::Relay, false));
    let real_time_service_latency_ratio = quotient(service(true), latency(Between::Relay, true));
    let inverse = real_time_throughput_ratio.and_then(|ratio| quotient(Some(1.0), Some(ratio)));
    Report {
        benchmark: "overhead",
        circumstances: bed.circumstances.clone(),
        payload_bytes: super::PAYLOAD_BYTES,
        cores_awake,
        real_time_latency_ratio,
        real_time_throughput_ratio,
        service_latency_ratio,
        real_time_service_latency_ratio,
        aims: vec![
            super::at_most(
                "the real-time service's latency is at most 5 % above the plain one's",
                real_time_latency_ratio,
                REAL_TIME_AT_MOST,
            ),
            super::at_most(
                "the plain service's throughput is at most 5 % above the real-time one's",
                inverse,
                REAL_TIME_AT_MOST,
            ),
            super::at_most(
                "the plain service's latency is at most 1.5 × that of 3 hops",
                service_latency_ratio,
                SERVICE_AT_MOST,
            ),
            super::at_most(
                "the real-time service's latency is at most 1.5 × that of 3 hops with priorities",
                real_time_service_latency_ratio,
                SERVICE_AT_MOST,
            ),
        ],
        rows,
        subtitle: bed.subtitle("structured events of 64 octets, one supplier, one consumer"),
    }
}

/// The real-time service with a supplier and a consumer, for whoever wants to look at it.
pub(super) fn real_time_service(bed: &Bed) -> Result<Contender, BenchError> {
    Contender::start(bed, Between::Service, true)
}

impl Contender {
    /// Lets so many events through.
    pub(super) fn pass(&mut self, events: u64, period: u64) -> Result<(), BenchError> {
        self.line.run(period, 0, events * period).map(|_| ())
    }

    fn service(&self) -> Result<&Campanile, BenchError> {
        match &self.middle {
            Middle::Service(service) => Ok(service),
            Middle::Nobody | Middle::Relay(_) => Err(BenchError::Setup {
                doing: "looking at the service".to_owned(),
                reason: "there is none between this supplier and this consumer".to_owned(),
            }),
        }
    }

    /// The id of the service's process.
    pub(super) fn service_pid(&self) -> Result<u32, BenchError> {
        Ok(self.service()?.process().pid())
    }

    /// Allocations of the service's lanes of pools, as they count them.
    pub(super) fn lane_allocations(&self) -> Result<u64, BenchError> {
        let lanes = self.service()?.lane_counters()?;
        let of_pools = lanes.iter().filter(|lane| lane.name.starts_with("lane-"));
        Ok(of_pools.filter_map(|lane| lane.counters.get("lane_allocations")).sum())
    }

    fn start(bed: &Bed, between: Between, real_time: bool) -> Result<Self, BenchError> {
        let fifo = bed.real_time().fifo(Class::High.priority());
        let ends = Ends { core: bed.cores.ends, fifo };
        let mut middle = Middle::Nobody;
        let core = bed.cores.middle;
        let line = Line::start(ends, |consumer| {
            let (path, process) = match between {
                Between::Nobody => (direct(consumer, real_time), Middle::Nobody),
                Between::Relay => {
                    let (process, address) = start_relay(core, fifo, consumer)?;
                    (direct(address, real_time), Middle::Relay(process))
                }
                Between::Service => {
                    let (path, service) = start_service(core, fifo, consumer, real_time)?;
                    (path, Middle::Service(service))
                }
            };
            middle = process;
            Ok(path)
        })?;
        let mut contender =
            Self { between, real_time, line, middle, rates: Vec::new(), medians: Vec::new(), p99s: Vec::new() };
        // Connections settle, buffers are made.
        contender.line.run(clock::SECOND / 1000, 0, clock::SECOND / 10)?;
        Ok(contender)
    }

    fn name(&self) -> String {
        name(self.between, self.real_time)
    }

    /// Back to back, then at an even pace.
    fn turn(&mut self, warm_up: u64, window: u64) -> Result<(), BenchError> {
        let (span, samples) = self.line.run(0, warm_up, window)?;
        let received = samples.iter().filter(|sample| (span.from..span.until).contains(&sample.received)).count();
        self.rates.push(super::samples::whole(received) / span.seconds());
        let (span, samples) = self.line.run(clock::SECOND / RATE, warm_up, window)?;
        if let Some(latency) = Latency::of(span.latencies(&samples)) {
            self.medians.push(latency.median_us);
            self.p99s.push(latency.p99_us);
        }
        Ok(())
    }

    fn row(&self) -> Row {
        Row {
            between: self.between,
            real_time: self.real_time,
            events_per_second: Spread::of(self.rates.iter().copied()),
            median_us: Spread::of(self.medians.iter().copied()),
            p99_us: Spread::of(self.p99s.iter().copied()),
        }
    }
}

fn name(between: Between, real_time: bool) -> String {
    match (between, real_time) {
        (Between::Service, false) => "plain service".to_owned(),
        (Between::Service, true) => "real-time service".to_owned(),
        (_, false) => between.name().to_owned(),
        (_, true) => format!("{} with priorities", between.name()),
    }
}

/// What a supplier pushes to a consumer, or a relay, at that address.
fn direct(address: SocketAddr, real_time: bool) -> SupplierPath {
    SupplierPath {
        address,
        // As long as a proxy's, so that requests have the same size.
        key: campanile::key_as_long_as(&[0; 40]),
        event_type: Class::High.name().to_owned(),
        priority: real_time.then(|| Class::High.priority()),
        payload_bytes: super::PAYLOAD_BYTES,
        unanswered_max: 1,
    }
}

fn start_relay(
    core: Option<usize>,
    fifo: Option<u8>,
    consumer: SocketAddr,
) -> Result<(Process, SocketAddr), BenchError> {
    let arguments = ["bench", relay::COMMAND, "--consumer", &consumer.to_string()].map(OsString::from);
    let ready = |line: &str| line.strip_prefix(relay::READY)?.parse::<SocketAddr>().ok();
    Process::start_confined(relay::COMMAND, core, fifo, &arguments, ready)
}

fn start_service(
    core: Option<usize>,
    fifo: Option<u8>,
    consumer: SocketAddr,
    real_time: bool,
) -> Result<(SupplierPath, Campanile), BenchError> {
    let priority = Class::High.priority();
    let model = PriorityModel::ClientPropagated;
    let lanes = || -> Property { ThreadPoolLanes::new(model, priority, &[(priority, 1)]).into() };
    let policy = PriorityModelPolicy { model, server_priority: priority };
    // The lanes of a pool give themselves their priority; without one, the whole service is given it.
    let service = Campanile::start_at(core, fifo.filter(|_| !real_time))?;
    let channel = service.new_channel_with(&real_time.then(lanes).into_iter().collect::<Vec<_>>())?;
    let proxy = channel.add_supplier(CarriageOptions::default())?;
    let components: Vec<_> = real_time.then(|| policy.to_component()).into_iter().collect();
    let event_type = EventType::new(wire::EVENT_DOMAIN, Class::High.name());
    channel.add_consumer_of(&event_type, consumer, &campanile::key_as_long_as(&proxy.key), &components)?;
    let path = SupplierPath { address: proxy.address, key: proxy.key, ..direct(proxy.address, real_time) };
    Ok((path, service))
}

impl super::Report for Report {
    fn circumstances(&mut self) -> &mut Circumstances {
        &mut self.circumstances
    }

    fn tables(&self) -> Vec<(String, Table)> {
        let mut table = Table::new([
            "between supplier and consumer",
            "events/s",
            "median µs",
            "p99 µs",
            "median µs, lowest round",
            "highest round",
        ]);
        for row in &self.rows {
            table.row([
                name(row.between, row.real_time).into(),
                row.events_per_second.map(|spread| spread.median).into(),
                row.median_us.map(|spread| spread.median).into(),
                row.p99_us.map(|spread| spread.median).into(),
                row.median_us.map(|spread| spread.min).into(),
                row.median_us.map(|spread| spread.max).into(),
            ]);
        }
        let title = format!(
            "Events of {} octets back to back (events/s) and at {RATE} a second (latency); medians of the rounds",
            self.payload_bytes
        );
        vec![(title, table)]
    }

    fn charts(&self) -> Vec<(String, String)> {
        let bars = |title: &str, label: &str, figure: fn(&Row) -> Option<Spread>| {
            let bar = |row: &Row| {
                Some((name(row.between, row.real_time), figure(row)?.median, usize::from(!row.real_time) * 5))
            };
            let bars = Bars {
                title: title.to_owned(),
                subtitle: self.subtitle.clone(),
                label: label.to_owned(),
                bars: self.rows.iter().filter_map(bar).collect(),
            };
            bars.to_svg()
        };
        vec![
            (
                "overhead-throughput".to_owned(),
                bars("Highest throughput", "events per second", |row| row.events_per_second),
            ),
            (
                "overhead-latency".to_owned(),
                bars("Latency at 250 events per second", "median latency, µs", |row| row.median_us),
            ),
        ]
    }

    fn aims(&self) -> &[Aim] {
        &self.aims
    }
}

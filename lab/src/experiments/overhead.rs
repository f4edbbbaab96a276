//! `campanile-bench overhead`: what real-time costs, and what a service costs beside the least that can be between supplier
//! and consumer (Gore et al., 4.4, figure 15).
//!
//! All parties of all contenders run in the real-time scheduling class where that is granted, as the paper's did (4.1): what is
//! compared is what priorities add, and not two of the kernel's schedulers.
//!
//! All contenders are up at the same time and take short turns one after the other, in an order that brings those that are
//! compared next to each other and is turned round from one round to the next. A figure is the median of the pairs' ratios, with
//! its interval ([`PairedRatio`]). Processes differ from start to start, so all of them are started anew several times.

use std::net::SocketAddr;

use client::notify::{EventType, Property, ThreadPoolLanes};
use giop::realtime::{PriorityModel, PriorityModelPolicy};
use serde_json::{Value, json};

use super::ability::Seat;
use super::line::Line;
use super::paired::PairedRatio;
use super::party::SupplierPath;
use super::{Bed, Class};
use crate::campanile::{self, Campanile, ProxyAddress};
use crate::process::Process;
use crate::report::{Aim, Reported};
use crate::spin::Awake;
use crate::{BenchError, CarriageOptions, Options, Output, Percentiles, Spread, clock, relay, wire};

/// Events a second at which latencies are taken.
const RATE: u64 = 1000;

/// Seconds that a turn warms up, and that its events count at that rate; back to back, a fifth of them.
const TURN: (f64, f64) = (0.02, 0.25);
const OF_TURN_BACK_TO_BACK: u64 = 5;

/// How often all contenders are started, and rounds with each start; each contender has its turn in each round.
const STARTS: usize = 4;
const ROUNDS: usize = 8;
const STARTS_QUICK: usize = 2;
const ROUNDS_QUICK: usize = 4;

/// What real-time may cost: its latency at most this much of the plain service's, its throughput at least the inverse.
const REAL_TIME_AT_MOST: f64 = 1.05;
/// What a service's latency is to be at most, as a multiple of the relay's.
const SERVICE_AT_MOST: f64 = 1.5;

crate::report::kinds! {
    /// The process between supplier and consumer.
    enum Between {
        Nobody = "2 hops",
        /// A relay that forwards each request to the consumer and each reply to the supplier (`bench floor`'s).
        Relay = "3 hops",
        Service = "service",
    }
}

/// The contenders, in this order and the reverse one: each that is compared with another stands next to it.
const CONTENDERS: [(Between, bool); 6] = [
    (Between::Nobody, false),
    (Between::Relay, false),
    (Between::Service, false),
    (Between::Service, true),
    (Between::Relay, true),
    (Between::Nobody, true),
];

/// One configuration, running. Its ends are ended before what is between them.
pub(super) struct Contender {
    line: Line,
    middle: Middle,
}

enum Middle {
    Nobody,
    Relay(#[expect(dead_code, reason = "kept running")] Process),
    Service(Campanile),
}

/// What one contender did in each of its turns; `None` where nothing came.
#[derive(Debug, Default)]
struct Turns {
    rates: Vec<Option<f64>>,
    medians: Vec<Option<f64>>,
    p99s: Vec<Option<f64>>,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (warm_up, window) = bed.times(options, TURN, TURN);
    let (warm_up, window) = (clock::nanoseconds(warm_up), clock::nanoseconds(window));
    let (starts, rounds) = if bed.quick() { (STARTS_QUICK, ROUNDS_QUICK) } else { (STARTS, ROUNDS) };
    // A core that dozes off and has to be woken would be most of the latency at this rate.
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    let mut turns: [Turns; CONTENDERS.len()] = std::array::from_fn(|_| Turns::default());
    for start in 1..=starts {
        out.progress(&format!("start {start} of {starts}: starting all contenders"))?;
        let started = CONTENDERS.iter().map(|&(between, real_time)| Contender::start(bed, between, real_time));
        let mut contenders = started.collect::<Result<Vec<_>, _>>()?;
        for round in 1..=rounds {
            out.progress(&format!("start {start} of {starts}: round {round} of {rounds}"))?;
            let mut order: Vec<_> = contenders.iter_mut().zip(&mut turns).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for (contender, turns) in &mut order {
                turns.rates.push(contender.rate(warm_up, window / OF_TURN_BACK_TO_BACK)?);
            }
            for (contender, turns) in &mut order {
                let latency = contender.latency(warm_up, window)?;
                turns.medians.push(latency.map(|latency| latency.median));
                turns.p99s.push(latency.map(|latency| latency.p99));
            }
        }
    }
    Ok(assemble(starts, &turns, awake.how()))
}

fn assemble(starts: usize, turns: &[Turns; CONTENDERS.len()], cores_awake: &'static str) -> (Vec<Aim>, Value) {
    let [_, relay, plain, real_time, relay_with_priorities, _] = turns;
    let latency = |above: &Turns, below: &Turns| PairedRatio::of(&above.medians, &below.medians);
    let real_time_latency_ratio = latency(real_time, plain);
    let plain_throughput_ratio = PairedRatio::of(&plain.rates, &real_time.rates);
    let service_latency_ratio = latency(plain, relay);
    let real_time_service_latency_ratio = latency(real_time, relay_with_priorities);
    let aim = |ratio: &Option<PairedRatio>, aim, bound| PairedRatio::at_most(ratio.as_ref(), aim, bound);
    let aims = vec![
        aim(
            &real_time_latency_ratio,
            "the real-time service's latency is at most 5 % above the plain one's",
            REAL_TIME_AT_MOST,
        ),
        aim(
            &plain_throughput_ratio,
            "the plain service's throughput is at most 5 % above the real-time one's",
            REAL_TIME_AT_MOST,
        ),
        aim(&service_latency_ratio, "the plain service's latency is at most 1.5 × that of 3 hops", SERVICE_AT_MOST),
        aim(
            &real_time_service_latency_ratio,
            "the real-time service's latency is at most 1.5 × that of 3 hops with priorities",
            SERVICE_AT_MOST,
        ),
    ];
    let mut all: Vec<_> = CONTENDERS.iter().zip(turns).collect();
    all.sort_by_key(|(contender, _)| **contender);
    let spread = |figures: &[Option<f64>]| Spread::of(figures.iter().copied().flatten());
    let row = |((between, real_time), turns): (&(Between, bool), &Turns)| {
        json!({
            "between": between, "real_time": real_time, "events_per_second": spread(&turns.rates),
            "median_us": spread(&turns.medians), "p99_us": spread(&turns.p99s),
        })
    };
    let rows: Vec<Value> = all.into_iter().map(row).collect();
    let report = json!({
        "payload_bytes": super::PAYLOAD_BYTES,
        "cores_awake": cores_awake,
        "starts": starts,
        "rounds": relay.medians.len(),
        "rows": rows,
        "real_time_latency_ratio": real_time_latency_ratio,
        "plain_throughput_ratio": plain_throughput_ratio,
        "service_latency_ratio": service_latency_ratio,
        "real_time_service_latency_ratio": real_time_service_latency_ratio,
    });
    (aims, report)
}

/// The real-time service with a supplier and a consumer, for other experiments that look at it.
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
        let ends = Seat { core: bed.cores.ends, fifo };
        let mut middle = Middle::Nobody;
        let core = bed.cores.middle;
        let line = Line::start(ends, |consumer| {
            let (path, process) = match between {
                Between::Nobody => (direct(consumer, real_time), Middle::Nobody),
                Between::Relay => {
                    let (process, address) = relay::start(consumer, (core, fifo))?;
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
        let mut contender = Self { line, middle };
        // Connections settle, buffers are made.
        contender.line.run(clock::SECOND / 1000, 0, clock::SECOND / 10)?;
        Ok(contender)
    }

    /// Events a second that arrive back to back.
    fn rate(&mut self, warm_up: u64, window: u64) -> Result<Option<f64>, BenchError> {
        let (span, samples) = self.line.run(0, warm_up, window)?;
        let received = samples.iter().filter(|sample| (span.from..span.until).contains(&sample.received)).count();
        Ok((received > 0).then(|| super::samples::whole(received) / span.seconds()))
    }

    fn latency(&mut self, warm_up: u64, window: u64) -> Result<Option<Percentiles>, BenchError> {
        let (span, samples) = self.line.run(clock::SECOND / RATE, warm_up, window)?;
        Ok(Percentiles::of(span.latencies(&samples)))
    }
}

fn path(proxy: ProxyAddress, real_time: bool) -> SupplierPath {
    let priority = real_time.then(|| Class::High.priority());
    SupplierPath { priority, ..SupplierPath::to(proxy, Class::High.name()) }
}

/// What a supplier pushes to a consumer, or a relay, at that address.
fn direct(address: SocketAddr, real_time: bool) -> SupplierPath {
    // As long as a proxy's, so that requests have the same size.
    path(ProxyAddress { address, key: campanile::key_as_long_as(&[0; 40]) }, real_time)
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
    Ok((path(proxy, real_time), service))
}

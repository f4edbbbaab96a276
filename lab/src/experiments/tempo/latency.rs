//! `campanile-bench tempo-latency`: how long a message of 128 octets takes at 250 a second (tables I to III) and at 4,000, the rate at
//! which the paper's CORBA event service gave up: from end to end, through a broker, through the CORBA door, beside bare sockets.

use serde::Serialize;
use serde_json::json;

use super::ends::{Pair, Transport, Way};
use super::{Broker, after, pair, take_seat};
use crate::campanile::{self, Campanile};
use crate::experiments::line::{Ends, Line};
use crate::experiments::party::SupplierPath;
use crate::experiments::{Bed, PairedRatio};
use crate::latency::Recorder;
use crate::report::{Aim, Reported};
use crate::spin::Awake;
use crate::{BenchError, CarriageOptions, Options, Output, clock, wire};

/// The rates, in messages a second.
const RATES: [f64; 2] = [250.0, 4_000.0];

/// What the tables' lines say: the part that took less than so many microseconds.
const BOUNDS_US: [u64; 5] = [300, 500, 1_000, 2_000, 10_000];

/// The median from end to end is to be so many times a bare loop's at most, and a broker's a relay's.
const MEDIAN_AT_MOST: f64 = 1.2;

/// The report, beside what all of them begin with.
#[derive(Debug, Serialize)]
struct Report {
    cores_awake: &'static str,
    rows: Vec<Row>,
    ratios: Vec<Ratio>,
}

/// How long messages took.
#[derive(Debug, Serialize)]
struct Row {
    mode: &'static str,
    transport: &'static str,
    rate: f64,
    messages: u64,
    lost: u64,
    disordered: u64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    below_300us: f64,
    below_500us: f64,
    below_1000us: f64,
    below_2000us: f64,
    below_10000us: f64,
}

#[derive(Debug, Serialize)]
struct Ratio {
    mode: &'static str,
    to: &'static str,
    transport: &'static str,
    rate: f64,
    p50: Option<PairedRatio>,
}

/// A side of the comparison.
enum Contender {
    Pair(Way, Transport, Box<Pair>),
    Corba(Box<Line>, #[expect(dead_code, reason = "kept running")] Box<Campanile>),
}

impl Contender {
    const fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Pair(way, transport, _) => (way.name(), transport.name()),
            Self::Corba(..) => ("corba", "tcp"),
        }
    }

    /// Publishes for so long, after a tenth of that which does not count; the latencies.
    fn turn(&mut self, rate: f64, seconds: f64) -> Result<Recorder, BenchError> {
        match self {
            Self::Pair(_, _, pair) => {
                pair.pace(rate, after(seconds / 10.0))?;
                pair.settle()?;
                pair.intake.take_latency();
                pair.pace(rate, after(seconds))?;
                pair.settle()?;
                Ok(pair.intake.take_latency())
            }
            Self::Corba(line, _) => {
                let period = clock::nanoseconds(1.0 / rate);
                let (warm_up, window) = (clock::nanoseconds(seconds / 10.0), clock::nanoseconds(seconds));
                let (window, samples) = line.run(period, warm_up, window)?;
                let mut recorder = Recorder::default();
                window.latencies(&samples).into_iter().for_each(|latency| recorder.record(latency));
                Ok(recorder)
            }
        }
    }
}

fn contenders(bed: &Bed, broker: &Broker) -> Result<Vec<Contender>, BenchError> {
    let mut all = Vec::new();
    for (transport, number) in Transport::ALL.into_iter().zip(0..) {
        for way in Way::ALL {
            let connected = pair(bed, way, transport, broker, number)?;
            all.push(Contender::Pair(way, transport, Box::new(connected)));
        }
    }
    all.push(corba(bed)?);
    Ok(all)
}

/// The same through the CORBA door, of a service of its own.
fn corba(bed: &Bed) -> Result<Contender, BenchError> {
    let service = Campanile::start_on(bed.cores.middle)?;
    let channel = service.new_channel()?;
    let ends = Ends { core: bed.cores.ends, fifo: None };
    let line = Line::start(ends, |consumer| {
        let proxy = channel.add_supplier(CarriageOptions::default())?;
        channel.connect_consumer(consumer, &campanile::key_as_long_as(&proxy.key), crate::Form::Structured, &[])?;
        Ok(SupplierPath {
            address: proxy.address,
            key: proxy.key,
            event_type: wire::EVENT_TYPE.to_owned(),
            priority: None,
            payload_bytes: super::ends::PAYLOAD,
            unanswered_max: 1,
            sequences: false,
        })
    })?;
    Ok(Contender::Corba(Box::new(line), Box::new(service)))
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let rounds = if bed.quick() { 5 } else { 20 };
    let (_, seconds) = bed.times(options, (0.0, 0.2), (0.0, 5.0));
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    let broker = Broker::start(bed)?;
    let mut contenders = contenders(bed, &broker)?;
    take_seat(bed)?;
    let mut report = Report { cores_awake: awake.how(), rows: Vec::new(), ratios: Vec::new() };
    let mut aims = Vec::new();
    for rate in RATES {
        let mut turns: Vec<Vec<Recorder>> = contenders.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds {
            out.progress(&format!("{rate} messages/s, round {} of {rounds}", round + 1))?;
            // Forth and back, so that no contender always comes after the same one.
            let count = contenders.len();
            for at in 0..count {
                let at = if round % 2 == 0 { at } else { count - 1 - at };
                if let (Some(contender), Some(turns)) = (contenders.get_mut(at), turns.get_mut(at)) {
                    turns.push(contender.turn(rate, seconds)?);
                }
            }
        }
        report.enter(rate, &contenders, &turns);
        aims.extend(report.judge(rate));
    }
    Ok((aims, json!(report)))
}

impl Report {
    fn enter(&mut self, rate: f64, contenders: &[Contender], turns: &[Vec<Recorder>]) {
        for (contender, recorders) in contenders.iter().zip(turns) {
            let (mode, transport) = contender.names();
            let mut all = Recorder::default();
            recorders.iter().for_each(|recorder| all.merge(recorder));
            let (lost, disordered) = match contender {
                Contender::Pair(_, _, pair) => {
                    (pair.sent.saturating_sub(pair.intake.received()), pair.intake.disordered())
                }
                Contender::Corba(..) => (0, 0),
            };
            self.rows.extend(Row::of(&all, (mode, transport, rate), (lost, disordered)));
        }
        for (contender, recorders) in contenders.iter().zip(turns) {
            let Contender::Pair(way, transport, _) = contender else { continue };
            let Some(to) = way.floor() else { continue };
            let floor = contenders.iter().zip(turns).find(|(other, _)| other.names() == (to.name(), transport.name()));
            let Some((_, below)) = floor else { continue };
            let median = |turns: &[Recorder]| -> Vec<Option<f64>> {
                turns.iter().map(|turn| turn.percentiles().map(|figures| figures.median)).collect()
            };
            let p50 = PairedRatio::of(&median(recorders), &median(below));
            self.ratios.push(Ratio { mode: way.name(), to: to.name(), transport: transport.name(), rate, p50 });
        }
    }

    /// What was to be shown at the paper's rate, over TCP.
    fn judge(&self, rate: f64) -> Vec<Aim> {
        if rate > RATES[0] {
            return Vec::new();
        }
        let mut aims = Vec::new();
        for ratio in self.ratios.iter().filter(|ratio| ratio.rate <= rate && ratio.transport == "tcp") {
            let aim = format!("tcp, {rate}/s: the median of {} is at most 1.2 × that of {}", ratio.mode, ratio.to);
            aims.push(PairedRatio::at_most(ratio.p50.as_ref(), &aim, MEDIAN_AT_MOST));
        }
        let beyond = |mode: &str| {
            let row = self.rows.iter().find(|row| row.mode == mode && row.transport == "tcp" && row.rate <= rate)?;
            Some((100.0 - row.below_500us, 100.0 / crate::latency::ratio(row.messages, 1)))
        };
        if let (Some((peer, one)), Some((bare, _))) = (beyond("peer"), beyond("bare")) {
            aims.push(Aim {
                aim: format!("tcp, {rate}/s: the part of peer beyond 500 µs is no larger than bare's (paper: 0.015 %)"),
                found: format!("{peer:.3} % and {bare:.3} %"),
                // One message more or less tells nothing.
                met: Some(peer <= bare + one * 1.5),
            });
        }
        aims
    }
}

impl Row {
    fn of(
        recorder: &Recorder,
        (mode, transport, rate): (&'static str, &'static str, f64),
        (lost, disordered): (u64, u64),
    ) -> Option<Self> {
        let figures = recorder.percentiles()?;
        let counts = recorder.counts();
        let below = |bound_us: u64| {
            let within = counts.iter().filter(|(latency, _)| *latency < bound_us * 1_000).map(|(_, count)| count);
            100.0 * crate::latency::ratio(within.sum(), figures.events)
        };
        let [below_300us, below_500us, below_1000us, below_2000us, below_10000us] = BOUNDS_US.map(below);
        Some(Self {
            mode,
            transport,
            rate,
            messages: figures.events,
            lost,
            disordered,
            mean_us: super::mean_us(recorder),
            p50_us: figures.median,
            p99_us: figures.p99,
            p999_us: figures.p999,
            max_us: figures.max,
            below_300us,
            below_500us,
            below_1000us,
            below_2000us,
            below_10000us,
        })
    }
}

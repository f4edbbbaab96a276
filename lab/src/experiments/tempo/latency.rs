//! `campanile-bench tempo-latency`: how long a message of 128 octets takes at 250 a second (tables I to III) and at 4,000, the rate at
//! which the paper's CORBA event service gave up: from end to end, through a broker, through the CORBA door, beside bare sockets.

use serde_json::{Value, json};

use super::ends::{Pair, Transport, Way};
use super::{Broker, after, pair, take_seat};
use crate::campanile::{self, Campanile};
use crate::experiments::ability::Seat;
use crate::experiments::line::Line;
use crate::experiments::party::SupplierPath;
use crate::experiments::{Bed, PairedRatio};
use crate::latency::Recorder;
use crate::report::{Aim, Reported, add};
use crate::spin::Awake;
use crate::{BenchError, CarriageOptions, Options, Output, clock, wire};

/// The rates, in messages a second.
const RATES: [f64; 2] = [250.0, 4_000.0];

/// The bounds of the tables' lines: the part that took less than so many microseconds.
const BOUNDS_US: [u64; 5] = [300, 500, 1_000, 2_000, 10_000];

/// The median from end to end is to be so many times a bare loop's at most, and a broker's a relay's.
const MEDIAN_AT_MOST: f64 = 1.2;

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
    let ends = Seat { core: bed.cores.ends, fifo: None };
    let line = Line::start(ends, |consumer| {
        let proxy = channel.add_supplier(CarriageOptions::default())?;
        channel.connect_consumer(consumer, &campanile::key_as_long_as(&proxy.key), crate::Form::Structured, &[])?;
        Ok(SupplierPath { payload_bytes: super::ends::PAYLOAD, ..SupplierPath::to(proxy, wire::EVENT_TYPE) })
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
    let (mut aims, mut rows, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
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
        rows.extend(contenders.iter().zip(&turns).filter_map(|(contender, turns)| row(contender, rate, turns)));
        let compared = compare(&contenders, &turns);
        // What was to be shown is at the paper's rate.
        if rate <= RATES[0] {
            aims = judge(rate, &compared, &rows);
        }
        ratios.extend(compared.into_iter().map(|(mode, to, transport, p50)| {
            json!({"mode": mode, "to": to, "transport": transport, "rate": rate, "p50": p50})
        }));
    }
    Ok((aims, json!({"cores_awake": awake.how(), "rows": rows, "ratios": ratios})))
}

/// What one contender did in its turns; nothing where no message came.
fn row(contender: &Contender, rate: f64, turns: &[Recorder]) -> Option<Value> {
    let mut all = Recorder::default();
    turns.iter().for_each(|turn| all.merge(turn));
    let (figures, counts, (mode, transport)) = (all.percentiles()?, all.counts(), contender.names());
    let (lost, disordered) = match contender {
        Contender::Pair(_, _, pair) => (pair.sent.saturating_sub(pair.intake.received()), pair.intake.disordered()),
        Contender::Corba(..) => (0, 0),
    };
    let mut row = json!({
        "mode": mode, "transport": transport, "rate": rate, "messages": figures.events, "lost": lost,
        "disordered": disordered, "mean_us": super::mean_us(&all), "p50_us": figures.median, "p99_us": figures.p99,
        "p999_us": figures.p999, "max_us": figures.max,
    });
    for bound_us in BOUNDS_US {
        let within = counts.iter().filter(|(latency, _)| *latency < bound_us * 1_000).map(|(_, count)| count);
        let percent = 100.0 * crate::latency::ratio(within.sum(), figures.events);
        add(&mut row, json!({(format!("below_{bound_us}us")): percent}));
    }
    Some(row)
}

/// A way, its floor, the transport of both, and the ratio of their medians.
type Compared = (&'static str, &'static str, &'static str, Option<PairedRatio>);

fn compare(contenders: &[Contender], turns: &[Vec<Recorder>]) -> Vec<Compared> {
    let medians = |turns: &[Recorder]| -> Vec<Option<f64>> {
        turns.iter().map(|turn| turn.percentiles().map(|figures| figures.median)).collect()
    };
    let compared = contenders.iter().zip(turns).filter_map(|(contender, above)| {
        let Contender::Pair(way, transport, _) = contender else { return None };
        let floor = (way.floor()?.name(), transport.name());
        let (_, below) = contenders.iter().zip(turns).find(|(other, _)| other.names() == floor)?;
        Some((way.name(), floor.0, floor.1, PairedRatio::of(&medians(above), &medians(below))))
    });
    compared.collect()
}

fn judge(rate: f64, compared: &[Compared], rows: &[Value]) -> Vec<Aim> {
    let over_tcp = compared.iter().filter(|(_, _, transport, _)| *transport == "tcp");
    let mut aims: Vec<Aim> = over_tcp
        .map(|(mode, to, _, p50)| {
            let aim = format!("tcp, {rate}/s: the median of {mode} is at most 1.2 × that of {to}");
            PairedRatio::at_most(p50.as_ref(), &aim, MEDIAN_AT_MOST)
        })
        .collect();
    let beyond = |mode: &str| {
        let row = rows.iter().find(|row| row["mode"] == mode && row["transport"] == "tcp")?;
        Some((100.0 - row["below_500us"].as_f64()?, 100.0 / row["messages"].as_f64()?))
    };
    if let (Some((peer, one)), Some((bare, _))) = (beyond("peer"), beyond("bare")) {
        aims.push(Aim::new(
            format!("tcp, {rate}/s: the part of peer beyond 500 µs is no larger than bare's (paper: 0.015 %)"),
            format!("{peer:.3} % and {bare:.3} %"),
            // One message more or less tells nothing.
            peer <= bare + one * 1.5,
        ));
    }
    aims
}

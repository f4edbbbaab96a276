//! `campanile-bench tempo-isolation`: what a publisher of 1,000 messages a second suffers from another one's flood through the same broker
//! (figures 11 and 12), beside what it suffers from the same flood through another broker on the same core.
//!
//! The flood is 0.8 of what the broker takes, and both publishers announce 1,000 a second. Before, beside and during take turns. The
//! well-behaved pair runs at a real-time priority, as if it had a machine of its own.

use std::thread;

use serde_json::{Value, json};

use super::ends::{Pair, Transport};
use super::{Broker, after};
use crate::experiments::ability::Seat;
use crate::experiments::{Bed, PairedRatio, quotient};
use crate::latency::Recorder;
use crate::report::{Aim, Reported, add};
use crate::spin::Awake;
use crate::{BenchError, Options, Output, Percentiles, clock, system};

/// Messages a second of the well-behaved publisher.
const RATE: f64 = 1_000.0;
/// The flood's part of what the broker takes, and how much is sent with a call.
const PART: f64 = 0.8;
const AT_ONCE: usize = 64;
const WINDOW: u64 = 8_192;
/// What the p99 during the flood is to be at most, in those beside the same flood elsewhere.
const P99_AT_MOST: f64 = 1.3;
/// The CORBA priority to which the well-behaved pair's corresponds.
const CLIENT_PRIORITY: i16 = 24_000;

/// When the well-behaved publisher is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    Before,
    /// While the other one floods another broker.
    Beside,
    /// While it floods this one.
    During,
}

impl Time {
    const ALL: [Self; 3] = [Self::Before, Self::Beside, Self::During];
}

/// The pairs of a transport, and the brokers they use.
struct Scene {
    well_behaved: Pair,
    beside: Pair,
    during: Pair,
    flood: f64,
}

impl Scene {
    fn set(bed: &Bed, transport: Transport, (here, elsewhere): (&Broker, &Broker)) -> Result<(Self, f64), BenchError> {
        let ends = Seat { core: bed.cores.ends, fifo: None };
        let first = Seat { fifo: bed.real_time().fifo(CLIENT_PRIORITY), ..ends };
        let well_behaved = Pair::tempo(transport, Some(here.address), 0, first)?;
        let beside = Pair::tempo(transport, Some(elsewhere.address), 1, ends)?;
        let mut during = Pair::tempo(transport, Some(here.address), 1, ends)?;
        // What the broker takes.
        during.flood(AT_ONCE, WINDOW, after(0.3))?;
        let (received, from) = (during.intake.received(), clock::now());
        during.flood(AT_ONCE, WINDOW, after(1.0))?;
        let saturation =
            crate::latency::ratio(during.intake.received() - received, 1) / clock::seconds(clock::now() - from);
        during.settle()?;
        Ok((Self { well_behaved, beside, during, flood: PART * saturation }, saturation))
    }

    /// The latencies of the well-behaved publisher's messages.
    fn turn(&mut self, bed: &Bed, time: Time, seconds: f64) -> Result<Recorder, BenchError> {
        let (rate, until) = (self.flood, after(seconds * 1.2));
        let Self { well_behaved, beside, during, .. } = self;
        let flood = match time {
            Time::Before => None,
            Time::Beside => Some(beside),
            Time::During => Some(during),
        };
        let ends = Seat { core: bed.cores.ends, fifo: None };
        let first = Seat { fifo: bed.real_time().fifo(CLIENT_PRIORITY), ..ends };
        thread::scope(|scope| {
            let flooding = flood.map(|pair| {
                scope.spawn(move || {
                    ends.take()?;
                    pair.pour(rate, AT_ONCE, until)?;
                    pair.settle()?;
                    pair.intake.take_latency();
                    Ok::<(), BenchError>(())
                })
            });
            first.take()?;
            // The flood begins first.
            well_behaved.pace(RATE, after(seconds * 0.2))?;
            well_behaved.intake.take_latency();
            well_behaved.pace(RATE, until)?;
            let latency = well_behaved.intake.take_latency();
            if bed.real_time().privileged {
                system::run_as_usual().map_err(BenchError::io("giving up a thread's real-time priority"))?;
            }
            match flooding.map(thread::ScopedJoinHandle::join) {
                Some(Ok(Err(error))) => Err(error),
                Some(Err(_)) => Err(BenchError::Setup {
                    doing: "flooding a broker".to_owned(),
                    reason: "its thread panicked".to_owned(),
                }),
                None | Some(Ok(Ok(()))) => Ok(latency),
            }
        })
    }
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let rounds = if bed.quick() { 6 } else { 20 };
    let (_, seconds) = bed.times(options, (0.0, 0.5), (0.0, 2.0));
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    super::take_seat(bed)?;
    let (mut aims, mut rows) = (Vec::new(), Vec::new());
    for transport in Transport::ALL {
        let (here, elsewhere) = (Broker::start(bed)?, Broker::start(bed)?);
        let (mut scene, saturation) = Scene::set(bed, transport, (&here, &elsewhere))?;
        let mut turns: [Vec<Recorder>; 3] = Default::default();
        for round in 0..rounds {
            out.progress(&format!("{}: round {} of {rounds}", transport.name(), round + 1))?;
            for (time, turns) in Time::ALL.into_iter().zip(&mut turns) {
                turns.push(scene.turn(bed, time, seconds)?);
            }
        }
        let (aim, row) = compare(transport, (saturation, scene.flood), &turns, &scene.well_behaved);
        aims.push(aim);
        rows.push(row);
    }
    let worst = rows.iter().max_by(|a, b| {
        let [a, b] = [a, b].map(|row| row["ratio"].as_f64().unwrap_or(0.0));
        a.total_cmp(&b)
    });
    let mut report = json!({"cores_awake": awake.how()});
    for figure in ["p99_before_us", "p99_beside_us", "p99_during_us", "ratio"] {
        add(&mut report, json!({(figure): worst.map(|worst| &worst[figure])}));
    }
    add(&mut report, json!({"rows": rows}));
    Ok((aims, report))
}

fn compare(
    transport: Transport,
    (saturation, flood): (f64, f64),
    turns: &[Vec<Recorder>; 3],
    pair: &Pair,
) -> (Aim, Value) {
    let [before, beside, during] = turns.each_ref().map(|turns| {
        let mut all = Recorder::default();
        turns.iter().for_each(|turn| all.merge(turn));
        all.percentiles()
    });
    let p50 = |figures: Option<Percentiles>| figures.map(|figures| figures.median);
    let p99 = |figures: Option<Percentiles>| figures.map(|figures| figures.p99);
    let [_, beside_turns, during_turns] =
        turns.each_ref().map(|turns| turns.iter().map(|turn| p99(turn.percentiles())).collect::<Vec<_>>());
    let paired = PairedRatio::of(&during_turns, &beside_turns);
    let row = json!({
        "transport": transport.name(), "saturation": saturation, "flood": flood,
        "p50_before_us": p50(before), "p50_beside_us": p50(beside), "p50_during_us": p50(during),
        "p99_before_us": p99(before), "p99_beside_us": p99(beside), "p99_during_us": p99(during),
        "ratio": quotient(p99(during), p99(beside)), "paired": paired,
        "lost": pair.sent.saturating_sub(pair.intake.received()), "disordered": pair.intake.disordered(),
    });
    let aim = format!(
        "{}: the well-behaved publisher's p99 during the flood is at most 1.3 × that beside the same flood through another broker",
        transport.name()
    );
    (PairedRatio::at_most(paired.as_ref(), &aim, P99_AT_MOST), row)
}

//! The simple API on DDS and Cyclone DDS alone, turn by turn: with as many readers, in as many processes, each with a thread that takes
//! what comes. The suppliers are on the first core and all readers on the last: on which core threads happen to be otherwise decides of a
//! turn.

use serde_json::{Value, json};

use super::{Crowd, LAYOUTS, Transport};
use crate::experiments::PairedRatio;
use crate::report::Aim;
use crate::{BenchError, Output, Percentiles, Spread};

/// Events a second in the turns that measure latency.
const RATE: f64 = 500.0;

/// What the simple API may cost on DDS: of the latency at most so much more, and of the throughput at least so much left.
const LATENCY_MOST: f64 = 1.15;
const THROUGHPUT_LEAST: f64 = 0.85;

/// What a turn gave.
struct Turn {
    per_second: f64,
    p50_us: f64,
}

/// Compares them in each layout.
pub(super) fn measure(is_quick: bool, out: &mut Output<'_>) -> Result<(Vec<Aim>, Vec<Value>), BenchError> {
    let (mut aims, mut rows) = (Vec::new(), Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = [Some(0), Some(cores - 1)];
    let (turns, seconds) = if is_quick { (64, 0.05) } else { (300, 0.1) };
    for (subscribers, of_a_process) in LAYOUTS {
        let mut crowds = [Transport::Dds, Transport::Cyclone]
            .map(|transport| Crowd::gather_on(cores, transport, subscribers, of_a_process));
        let [Ok(dds), Ok(cyclone)] = &mut crowds else {
            return crowds.into_iter().try_for_each(|crowd| crowd.map(drop)).map(|()| (aims, rows));
        };
        let (mut of_dds, mut of_cyclone) = (Vec::new(), Vec::new());
        for turn in 0..=turns {
            if turn % 32 == 0 {
                out.progress(&format!("{subscribers} subscribers, turn {turn} of {turns}"))?;
            }
            // Each begins half of the time.
            let (first, second) = if turn % 2 == 0 {
                let first = take_turn(dds, seconds)?;
                (first, take_turn(cyclone, seconds)?)
            } else {
                let second = take_turn(cyclone, seconds)?;
                (take_turn(dds, seconds)?, second)
            };
            // The first are for warming up.
            if turn > 0 {
                of_dds.push(first);
                of_cyclone.push(second);
            }
        }
        rows.push(compare((subscribers, of_a_process), &of_dds, &of_cyclone, &mut aims));
    }
    Ok((aims, rows))
}

fn take_turn(crowd: &mut Crowd, seconds: f64) -> Result<Turn, BenchError> {
    let per_second = crowd.publish(None, seconds)?.per_second();
    let taken = crowd.publish(Some(RATE), seconds)?;
    Ok(Turn { per_second, p50_us: Percentiles::of(taken.latencies).unwrap_or_default().median })
}

fn compare((subscribers, of_a_process): (u32, u32), dds: &[Turn], cyclone: &[Turn], aims: &mut Vec<Aim>) -> Value {
    let rates = |turns: &[Turn]| turns.iter().map(|turn| Some(turn.per_second)).collect::<Vec<_>>();
    let latencies = |turns: &[Turn]| turns.iter().map(|turn| Some(turn.p50_us)).collect::<Vec<_>>();
    let median =
        |figures: Vec<Option<f64>>| Spread::of(figures.into_iter().flatten()).map_or(0.0, |spread| spread.median);
    let latency = PairedRatio::of(&latencies(dds), &latencies(cyclone));
    let throughput = PairedRatio::of(&rates(dds), &rates(cyclone));
    let of = format!("on DDS with {subscribers} subscribers, {of_a_process} a process, beside Cyclone");
    let aim = format!("{of}: the latency is at most {LATENCY_MOST} ×");
    aims.push(PairedRatio::at_most(latency.as_ref(), &aim, LATENCY_MOST));
    let aim = format!("{of}: the throughput is at least {THROUGHPUT_LEAST} ×");
    let met = throughput.as_ref().map(|ratio| ratio.median >= THROUGHPUT_LEAST);
    aims.push(Aim { met, ..PairedRatio::at_most(throughput.as_ref(), &aim, THROUGHPUT_LEAST) });
    json!({
        "subscribers": subscribers, "subscribers_of_a_process": of_a_process, "dds_per_second": median(rates(dds)),
        "cyclone_per_second": median(rates(cyclone)), "throughput": throughput, "dds_p50_us": median(latencies(dds)),
        "cyclone_p50_us": median(latencies(cyclone)), "latency": latency,
    })
}

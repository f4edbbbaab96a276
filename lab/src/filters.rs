//! `campanile-bench filters`: what filters cost.
//!
//! Two questions. How fast is the language: a short, a typical and a long constraint against one event's bytes, beside the
//! same condition written in Rust over the same bytes. And what do many filters cost: one, a hundred and ten thousand
//! consumers, each with a filter of its own, of which one matches.

mod consumers;
mod language;

use std::hint::black_box;

use serde_json::json;

pub(crate) use consumers::ConsumersReport;

use crate::report::Reported;
use crate::{BenchError, Options, Output, clock, latency};

/// How often and how long each is measured.
#[derive(Debug, Clone, Copy)]
struct Pace {
    rounds: u32,
    turn_ns: u64,
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let pace =
        if options.quick { Pace { rounds: 3, turn_ns: 50_000_000 } } else { Pace { rounds: 11, turn_ns: 200_000_000 } };
    out.progress("filters: the language")?;
    let language = language::run(pace)?;
    out.progress("filters: many consumers")?;
    let consumers = consumers::run(pace)?;
    let at = |count| consumers.iter().find(move |report| report.consumers == count);
    let ratio = |cost: fn(&ConsumersReport) -> f64| at(10_000).map_or(f64::NAN, cost) / at(100).map_or(f64::NAN, cost);
    let report = json!({
        "rounds": pace.rounds,
        "cost_at_10000_over_100": ratio(|report| report.event_ns),
        "spread_cost_at_10000_over_100": ratio(|report| report.spread_event_ns),
        "language": language,
        "consumers": consumers,
    });
    Ok((Vec::new(), report))
}

/// Nanoseconds of one call, over so many between two readings of the clock, for as long as the pace asks for.
fn timed<T>(pace: Pace, turn: u32, mut call: impl FnMut() -> Result<T, BenchError>) -> Result<f64, BenchError> {
    let (began, mut calls) = (clock::now(), 0_u64);
    loop {
        for _ in 0..turn {
            black_box(call()?);
        }
        calls += u64::from(turn);
        let elapsed = clock::now() - began;
        if elapsed >= pace.turn_ns {
            return Ok(latency::ratio(elapsed, calls));
        }
    }
}

//! `campanile-bench json`: what one event takes by the door for lines of JSON, beside CORBA's.

use serde_json::json;

use super::cells::Ratio;
use super::contender::{CAMPANILE, Contender, LINES_OF_JSON, Scenario};
use super::experiments::plan;
use super::pool::Kept;
use super::race::{Missing, Race};
use super::whole::cores;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};

/// What the median latency may be, as a multiple of that by CORBA's door.
const P50_AT_MOST: f64 = 1.5;
static OURS: Contender = CAMPANILE;
static LINES: Contender = LINES_OF_JSON;
/// Octets of payload of an event.
const PAYLOAD: u32 = 128;

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    Options::check("--rate", options.rate, 1e4)?;
    clock::wake_on_time();
    let scenario = Scenario::one_to_one(PAYLOAD).on(cores()?);
    let (warm_up, seconds) = if options.quick { (0.1, 0.4) } else { (0.5, 1.0) };
    let race = Race {
        rounds: options.rounds,
        pooled: Some(Kept::ButTheWorst),
        plans: vec![plan(options.rate, 0.1, seconds)],
        ..Race::new("latency", (options.quick, warm_up), vec![&OURS, &LINES], scenario)
    };
    let rows = race.run(&mut Missing::new(), out)?;
    if let Some((cell, note)) = rows.iter().find_map(|cell| Some((cell, cell.note.clone()?))) {
        return Err(BenchError::Process { name: cell.contender.to_owned(), reason: format!("failed: {note}") });
    }
    let [giop, json] = rows.as_slice() else {
        return Err(BenchError::NotShown { found: "one of the doors took no part".to_owned() });
    };
    let ratio = |figure| Ratio::of(Some(json), Some(giop), figure);
    let p50 = ratio("sent_p50_us");
    let aims = vec![Aim::new(
        format!("p50 by lines of JSON at most {P50_AT_MOST} × that by CORBA's door"),
        p50.map_or_else(|| "–".to_owned(), |ratio| format!("{:.2} ({ratio})", ratio.value)),
        p50.map(|ratio| ratio.value <= P50_AT_MOST),
    )];
    let figures =
        [("latency_p50", "sent_p50_us"), ("latency_p99", "sent_p99_us"), ("cpu_per_event", "cpu_us_per_event")];
    let ratios: std::collections::BTreeMap<&str, Option<f64>> =
        figures.into_iter().map(|(name, figure)| (name, ratio(figure).map(|ratio| ratio.value))).collect();
    let report = json!({"ratios": ratios, "rows": rows});
    Ok((aims, report))
}

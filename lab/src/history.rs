//! `campanile-bench history`: a consumer that comes late to a channel that keeps its past.
//!
//! Suppliers fill the past as fast as they are answered, while one consumer takes what comes: that is the live rate. Then they go on at a
//! part of that, and another consumer begins with the first event. Shown is how fast it gets the past, that it gets every event once and
//! each supplier's in order, and that the consumer which was there all the time does not wait for it.

use std::io::Write;
use std::path::PathBuf;

use client::notify::Property;
use load::table::Table;
use serde::Serialize;

use crate::durable::load::{Consumer, Flood};
use crate::latency::{Recorder, ratio};
use crate::output::write_json;
use crate::overflow::{SUPPLIERS, Sleeper, counter};
use crate::persistent::{Folder, Setting};
use crate::report::{Aim, judge, table_of_aims};
use crate::{BenchError, Machine, Output, ReportOptions, clock};

pub(crate) const EXAMPLES: &str = "\
Examples:
  campanile-bench history --quick                    a past of 100,000 events
  campanile-bench history --events 10000000 --json
  campanile-bench history --on /var/lib              on the disk that this folder is on";

/// How fast the past comes, of the live rate.
const RATE_MIN: f64 = 0.5;
/// What of the live rate goes on while it comes.
const GOES_ON: u64 = 4;

/// Options of `campanile-bench history`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HistoryOptions {
    /// A past of 100,000 events
    #[arg(long)]
    quick: bool,
    /// Events of the past
    #[arg(long, value_name = "N", default_value_t = 1_000_000, conflicts_with = "quick")]
    events: u64,
    /// Octets of an event's payload
    #[arg(long, value_name = "N", default_value_t = 128)]
    payload: usize,
    /// Where the store's folder is made: on the disk that is to be measured
    #[arg(long, value_name = "DIR")]
    on: Option<PathBuf>,
    #[command(flatten)]
    report: ReportOptions,
}

/// The whole report: the one JSON object.
#[derive(Debug, Serialize)]
struct Report {
    /// Always `history`.
    benchmark: &'static str,
    machine: Machine,
    /// Events of the past, and of all.
    past: u64,
    published: u64,
    /// What the late consumer got, and how many out of their supplier's order.
    received: u64,
    disordered: u64,
    /// Events that should have been kept and were not.
    missed: u64,
    /// Events a second that came while all consumers kept up, that went on coming afterwards, and that the late consumer got meanwhile.
    live_per_second: f64,
    going_on_per_second: f64,
    late_per_second: f64,
    ratio: f64,
    /// The other consumer's 99th percentile while another one was in the past, in µs.
    p99_us: f64,
    history_bytes: u64,
    resident_bytes: u64,
    aims: Vec<Aim>,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &HistoryOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let past_min = if options.quick { 100_000 } else { options.events };
    let mut machine = Machine::describe();
    let folder = Folder::new("history", options.on.as_deref())?;
    let (serving, _) = Setting::new(&folder, "")?.start()?;
    let channel = serving.service.new_channel_with(&[Property::new("HistoryEvents", past_min.saturating_mul(4))])?;
    let consumer = Consumer::connect(&channel)?;
    let mut flood = Flood::connect(&channel, SUPPLIERS, options.payload)?;
    let (mut past, began) = (0, clock::now());
    while past < past_min {
        out.progress(&format!("{past} of {past_min} events"))?;
        past += flood.run(clock::SECOND, None)?.count();
    }
    let live_per_second = ratio(past, 1) / clock::seconds(clock::now() - began);
    out.progress("a consumer begins with the first of them")?;
    consumer.take_latency(&mut Recorder::default());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate far below 2^53")]
    let going_on = (live_per_second as u64 / GOES_ON).max(1);
    let mut late = Sleeper::connect(&channel, &[Property::new("StartFrom", "first")])?;
    let (mut published, began) = (past, clock::now());
    let (caught_up, going_on_per_second) = std::thread::scope(|scope| {
        let late = &mut late;
        let taking = scope.spawn(move || late.take(past).map(|()| clock::now()));
        let began = clock::now();
        while !taking.is_finished() {
            published += flood.run(clock::SECOND / 4, Some(going_on))?.count();
        }
        let went_on = ratio(published - past, 1) / clock::seconds(clock::now() - began);
        let ended = |_| BenchError::Process { name: "the late consumer".into(), reason: "its thread ended".into() };
        let taken = taking.join().map_err(ended)??;
        Ok::<_, BenchError>((taken, went_on))
    })?;
    let late_per_second = ratio(past, 1) / clock::seconds(caught_up - began);
    late.take(published)?;
    let mut latency = Recorder::default();
    consumer.take_latency(&mut latency);
    out.end_progress()?;
    machine.note_stolen();
    let report = Report {
        benchmark: "history",
        machine,
        past,
        published,
        received: late.received,
        disordered: late.disordered,
        missed: counter(&serving, "lane_history_missed")?,
        live_per_second,
        going_on_per_second,
        late_per_second,
        ratio: late_per_second / live_per_second,
        p99_us: latency.quantile_us(0.99),
        history_bytes: counter(&serving, "history_bytes")?,
        resident_bytes: serving.process.resident_bytes()?,
        aims: Vec::new(),
    };
    let report = Report { aims: aims(&report), ..report };
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_text(&report, out)?;
    }
    judge(&report.aims)
}

fn aims(report: &Report) -> Vec<Aim> {
    let Report { published, received, disordered, missed, ratio, .. } = report;
    let aim = |aim: String, found: String, met| Aim { aim, found, met: Some(met) };
    vec![
        aim("the late consumer gets every event".into(), format!("{received} of {published}"), received == published),
        aim("each supplier's in order".into(), format!("{disordered} out of order"), *disordered == 0),
        aim("every event is kept".into(), format!("{missed} are not"), *missed == 0),
        aim(format!("the past: at least {RATE_MIN} × the live rate"), format!("{ratio:.2}"), *ratio >= RATE_MIN),
    ]
}

fn write_text(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut table = Table::new(["", ""]);
    table.row(["events of the past".into(), report.past.into()]);
    table.row(["events/s while they came".into(), report.live_per_second.into()]);
    table.row(["events/s of the past".into(), report.late_per_second.into()]);
    table.row(["events/s that came meanwhile".into(), report.going_on_per_second.into()]);
    table.row(["the other consumer's p99 meanwhile (µs)".into(), report.p99_us.into()]);
    table.row(["on disk (MiB)".into(), (report.history_bytes >> 20).into()]);
    table.row(["the service's memory (MiB)".into(), (report.resident_bytes >> 20).into()]);
    table.write(out)?;
    writeln!(out)?;
    table_of_aims(&report.aims).write(out)?;
    report.machine.write_remarks(out)?;
    Ok(())
}

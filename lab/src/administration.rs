//! `campanile-bench administration`: what administration takes from the events.
//!
//! One supplier pushes small events at a fixed rate to one consumer. Meanwhile clients administer, each kind of work in
//! turn: proxies are made and connected, the hierarchy is walked, constraints are replaced, statistics are read, channels
//! come and go. Such clients take processor time of the machine too, whichever service they keep busy; therefore each
//! kind of work is done to another service of the same machine as well, and what counts is the difference. The three,
//! nothing, work elsewhere, work here, alternate within each round.
//!
//! And in this process, without threads: what one snapshot of the routing, and the first event after it, cost a lane that
//! has 10,000 consumers.

mod lane;
mod work;

use std::io::Write;

use serde::Serialize;

pub(crate) use lane::LaneReport;

use crate::campanile::Campanile;
use crate::latency::Recorder;
use crate::output::write_json;
use crate::table::{Cell, Table};
use crate::workload::{self, Carrier, Lasting, Traffic, View};
use crate::{AdministrationOptions, BenchError, CarriageOptions, Machine, Output, Percentiles, clock};
use work::{Clients, Work};

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `administration`.
    pub(crate) benchmark: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// Events per second.
    pub(crate) rate: f64,
    /// Proxies that were made and connected in the first round, and were there from then on.
    pub(crate) proxies: u32,
    /// Rounds; the figures are over all of them.
    pub(crate) rounds: u32,
    /// Each kind of work.
    pub(crate) rows: Vec<Row>,
    /// What it costs a lane.
    pub(crate) lane: Vec<LaneReport>,
}

/// One kind of work, and what the events went through meanwhile.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// `plain`: one lane does everything. `real-time`: a pool of one thread has the channel that carries the events.
    pub(crate) service: &'static str,
    /// `proxies`, `walk`, `constraints`, `statistics` or `channels`.
    pub(crate) work: &'static str,
    /// Calls that were answered by the service that carries the events.
    pub(crate) calls: u64,
    /// How many a second.
    pub(crate) calls_per_second: f64,
    /// Latency, from the supplier's write to the consumer's read, without administration.
    pub(crate) quiet: Option<Percentiles>,
    /// While the same work was done to another service.
    pub(crate) elsewhere: Option<Percentiles>,
    /// While it was done to the service that carries the events.
    pub(crate) here: Option<Percentiles>,
}

const REAL_TIME: &str = "real-time";
const KINDS: [&str; 2] = ["plain", REAL_TIME];
/// The CORBA priority of the pool's thread.
const PRIORITY: i16 = 20_000;

/// How much of everything.
struct Plan {
    rounds: u32,
    phase_ns: u64,
    proxies: u32,
}

/// Events of one kind of work by what happened meanwhile: nothing, work elsewhere, work here.
struct Phases {
    latencies: [Recorder; 3],
    calls: u64,
    busy_ns: u64,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &AdministrationOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let plan = Plan {
        rounds: if options.quick { 1 } else { 5 },
        phase_ns: if options.quick { clock::SECOND } else { 5 * clock::SECOND },
        proxies: options.proxies,
    };
    let mut machine = Machine::describe();
    out.progress("administration: a lane alone")?;
    let lane = lane::measure(options.proxies, if options.quick { 100 } else { 1_000 })?;
    let traffic =
        Traffic { name: "events", suppliers: 1, payload_bytes: 128, rate: options.rate, stagger_ms: 0.0, consumers: 1 };
    let mut rows = Vec::new();
    for kind in KINDS {
        let (mut service, mut other) = (Campanile::start()?, Campanile::start()?);
        if kind == REAL_TIME {
            service.pool_for_channels(PRIORITY);
            other.pool_for_channels(PRIORITY);
        }
        other.new_channel()?;
        let carrier = Carrier::Campanile(&service, CarriageOptions::default());
        workload::run(&carrier, std::slice::from_ref(&traffic), Lasting::until_told(), |view| {
            let (mut here, mut elsewhere) = (Clients::of(&service)?, Clients::of(&other)?);
            rows.extend(rounds((&plan, kind), view, &mut here, &mut elsewhere, out)?);
            Ok(())
        })?;
    }
    machine.note_stolen();
    out.end_progress()?;
    let report = Report {
        benchmark: "administration",
        machine,
        rate: options.rate,
        proxies: plan.proxies,
        rounds: plan.rounds,
        rows,
        lane,
    };
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_tables(&report, out)?;
        report.machine.write_remarks(out)?;
    }
    Ok(())
}

fn rounds(
    (plan, kind): (&Plan, &'static str),
    view: &View<'_>,
    here: &mut Clients,
    elsewhere: &mut Clients,
    out: &mut Output<'_>,
) -> Result<Vec<Row>, BenchError> {
    let phases = || Phases { latencies: [(); 3].map(|()| Recorder::default()), calls: 0, busy_ns: 0 };
    let mut all = Work::ALL.map(|work| (work, phases()));
    for round in 1..=plan.rounds {
        for (work, phases) in &mut all {
            out.progress(&format!("administration: {kind}, round {round} of {}: {}", plan.rounds, work.name()))?;
            // The proxies of the first round are there for all that follows.
            if *work == Work::Proxies && round > 1 {
                continue;
            }
            let until = |time: u64| move || clock::now() < time;
            // All proxies are wanted, however long making them takes.
            let here_ns = if *work == Work::Proxies { u64::MAX / 2 } else { plan.phase_ns };
            view.take_latencies(None);
            clock::sleep_until(clock::now() + plan.phase_ns)?;
            view.take_latencies(phases.latencies.first_mut());
            elsewhere.work(*work, plan.proxies, until(clock::now() + plan.phase_ns))?;
            view.take_latencies(phases.latencies.get_mut(1));
            let began = clock::now();
            phases.calls += here.work(*work, plan.proxies, until(began + here_ns))?;
            phases.busy_ns += clock::now() - began;
            view.take_latencies(phases.latencies.get_mut(2));
        }
    }
    let rows = all.into_iter().map(|(work, Phases { latencies: [quiet, elsewhere, here], calls, busy_ns })| Row {
        service: kind,
        work: work.name(),
        calls,
        #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
        calls_per_second: calls as f64 / clock::seconds(busy_ns.max(1)),
        quiet: quiet.percentiles(),
        elsewhere: elsewhere.percentiles(),
        here: here.percentiles(),
    });
    Ok(rows.collect())
}

fn write_tables(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    writeln!(
        out,
        "{} events/s from one supplier to one consumer while clients administer; latencies in µs",
        report.rate
    )?;
    let mut table = Table::new(["service", "work", "calls/s", "meanwhile", "events", "median", "p99", "p99.9", "max"]);
    for row in &report.rows {
        for (meanwhile, latency) in [("nothing", row.quiet), ("elsewhere", row.elsewhere), ("here", row.here)] {
            let here = meanwhile == "here";
            let figure = |of: fn(&Percentiles) -> f64| Cell::from(latency.as_ref().map(of));
            table.row([
                row.service.into(),
                row.work.into(),
                if here { row.calls_per_second.into() } else { Cell::Absent },
                meanwhile.into(),
                Cell::from(latency.map(|latency| latency.events)),
                figure(|latency| latency.median),
                figure(|latency| latency.p99),
                figure(|latency| latency.p999),
                figure(|latency| latency.max),
            ]);
        }
    }
    table.write(out)?;
    writeln!(
        out,
        "\nOne lane, {} consumers, no threads: µs for a snapshot, and for the first event after it",
        report.proxies
    )?;
    let mut table = Table::new([
        "change",
        "publishing",
        "lane median",
        "lane max",
        "event median",
        "event max",
        "consumers visited",
    ]);
    for row in &report.lane {
        table.row([
            row.change.into(),
            row.publish_us.median.into(),
            row.lane_us.median.into(),
            row.lane_us.max.into(),
            row.event_us.median.into(),
            row.event_us.max.into(),
            row.members_visited.into(),
        ]);
    }
    table.write(out)?;
    Ok(())
}

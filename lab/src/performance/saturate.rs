//! `campanile-bench saturate`: as many events as get through the service, in one configuration, and what each costs.

use std::io::Write;

use serde::Serialize;

use super::contender::{self, Consume, Contender, Scenario, Supply};
use super::course::{Course, Outcome, Plan};
use super::experiments::arrivals;
use super::meters::Usage;
use crate::floor::Counted;
use crate::latency::{Percentiles, ratio};
use crate::output::write_json;
use crate::table::Table;
use crate::{BenchError, ConsumerKind, DeliveryOptions, Losses, Machine, Output, SaturateOptions, clock};

/// From the first event to the window: buffers fill meanwhile.
const WARM_UP: u64 = clock::SECOND / 2;

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `saturate`.
    pub(crate) benchmark: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// The contender that carried the events.
    pub(crate) contender: &'static str,
    /// What that is, and how it is configured.
    pub(crate) about: String,
    /// What was asked for.
    pub(crate) configuration: String,
    /// Seconds for which figures were taken.
    pub(crate) seconds: f64,
    /// Events that the publisher sent, all of the run.
    pub(crate) events: u64,
    /// Events the publisher sent each second, on average over the run.
    pub(crate) sent_per_second: f64,
    /// Deliveries to consumers each second, in the window.
    pub(crate) received_per_second: f64,
    /// The same divided by the number of consumers.
    pub(crate) events_per_second: f64,
    /// Processor time of the service for an event, in µs, in the window.
    pub(crate) cpu_us_per_event: f64,
    /// Processor time of the service for a delivery, in µs, in the window.
    pub(crate) cpu_us_per_delivery: f64,
    /// What part of a core the service used in the window.
    pub(crate) service_cores: f64,
    /// Processor time of the publisher for an event, in µs, all of the run.
    pub(crate) publisher_cpu_us_per_event: f64,
    /// Processor time of the consumers' processes for a delivery, in µs, all of the run.
    pub(crate) consumer_cpu_us_per_delivery: f64,
    /// What the service used in the window.
    pub(crate) usage: Usage,
    /// Context switches of the service for an event, in the window.
    pub(crate) switches_per_event: f64,
    /// What the service's lane counted in the window; `null` for another contender.
    pub(crate) counted: Option<Counted>,
    /// Octets of memory that the service had resident at the window's end.
    pub(crate) resident_bytes: u64,
    /// Threads of the service then.
    pub(crate) threads: u64,
    /// From when an event was handed to the publisher's socket, to its arrival; waiting in sockets and queues included.
    pub(crate) latency: Option<Percentiles>,
    /// From when an event was due to its arrival at the first of the consumers, and at the last, in µs, of the median event.
    /// `null` where as many were sent as get through.
    pub(crate) first_us: Option<f64>,
    /// See `first_us`.
    pub(crate) last_us: Option<f64>,
    /// What was lost, repeated or out of order.
    pub(crate) losses: Losses,
}

/// Runs the benchmark and writes its report to `out`.
pub(crate) fn run(options: &SaturateOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(BenchError::Option { name: "--seconds", must_be: "above 0 and at most 3600" });
    }
    if options.processes > options.consumers {
        return Err(BenchError::Option { name: "--processes", must_be: "at most the number of consumers" });
    }
    if options.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e6)) {
        return Err(BenchError::Option { name: "--rate", must_be: "above 0 and at most 1000000" });
    }
    let contenders = contender::all();
    let Some(contender) = contenders.iter().find(|contender| contender.key() == options.contender) else {
        return Err(BenchError::Option {
            name: "--contender",
            must_be: "one of those that `bench performance --help` names",
        });
    };
    let machine = Machine::describe();
    out.progress("starting the contender")?;
    let scenario = scenario(options);
    let mut course =
        Course::lay(contender.as_ref(), &scenario).map_err(|absence| absence.into_error(contender.name()))?;
    out.progress("events flow")?;
    let window = clock::nanoseconds(options.seconds);
    let period = options.rate.map_or(0, |rate| clock::nanoseconds(1.0 / rate));
    let plan = Plan { period, warm_up: WARM_UP, window, spans: period > 0, late: 0, counted: true };
    let outcome = course.run(&plan)?;
    let mut report = report(machine, contender.as_ref(), &scenario, &outcome);
    if period > 0 {
        let arrivals = arrivals(&scenario, &outcome);
        report.first_us = arrivals.get("first_us").copied();
        report.last_us = arrivals.get("last_us").copied();
    }
    report.machine.note_stolen();
    out.end_progress()?;
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_table(&report, out)?;
    }
    Ok(())
}

fn scenario(options: &SaturateOptions) -> Scenario {
    let DeliveryOptions { push_window } = options.delivery;
    let window = if options.one_way { 0 } else { options.window };
    Scenario {
        supply: match (options.sequence, window) {
            (Some(events), window) => Supply::Sequences(events, window),
            (None, 0) => Supply::OneWay,
            (None, 1) => Supply::TwoWay,
            (None, window) => Supply::Windowed(window),
        },
        consume: match options.consumer {
            ConsumerKind::TwoWay => Consume::TwoWay(push_window),
            ConsumerKind::OneWay => Consume::OneWay,
            ConsumerKind::Sequence => Consume::Sequences(options.batch, push_window),
        },
        anys: options.any,
        consumers: options.consumers,
        processes: options.processes,
        queue: options.queue,
        server_core: options.service_core.map(usize::from),
        ends_core: options.ends_core.map(usize::from),
        ..Scenario::one_to_one(options.payload)
    }
}

fn report(machine: Machine, contender: &dyn Contender, scenario: &Scenario, outcome: &Outcome) -> Report {
    let Outcome { sent, usage, seconds, .. } = outcome;
    let deliveries = outcome.total(|received| received.deliveries);
    let received_per_second = ratio(outcome.total(|received| received.in_window), 1) / seconds;
    let consumers = f64::from(scenario.consumers);
    let events = (received_per_second * seconds / consumers).max(1.0);
    Report {
        benchmark: "saturate",
        machine,
        contender: contender.name(),
        about: contender.about(),
        configuration: scenario.describe(),
        seconds: *seconds,
        events: sent.events,
        sent_per_second: ratio(sent.events, 1) / clock::seconds(sent.ended.saturating_sub(sent.began).max(1)),
        received_per_second,
        events_per_second: received_per_second / consumers,
        cpu_us_per_event: usage.cpu_us / events,
        cpu_us_per_delivery: usage.cpu_us / events / consumers,
        service_cores: usage.cpu_us / 1e6 / seconds,
        publisher_cpu_us_per_event: ratio(sent.cpu, 1000 * sent.events.max(1)),
        consumer_cpu_us_per_delivery: ratio(outcome.total(|received| received.cpu), 1000 * deliveries.max(1)),
        usage: *usage,
        switches_per_event: ratio(usage.voluntary_switches + usage.involuntary_switches, 1) / events,
        counted: outcome.counted,
        resident_bytes: outcome.resident_bytes,
        threads: outcome.threads,
        latency: outcome.since_due().percentiles(),
        first_us: None,
        last_us: None,
        losses: outcome.losses(),
    }
}

fn write_table(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    writeln!(out, "{}: {}; {} s", report.contender, report.configuration, report.seconds)?;
    let mut table = Table::new(["figure", "value"]);
    let counted = |pick: fn(&Counted) -> f64| report.counted.as_ref().map(pick);
    let latency = |pick: fn(&Percentiles) -> f64| report.latency.as_ref().map(pick);
    for (figure, value) in [
        ("events/s sent", Some(report.sent_per_second)),
        ("events/s received (by each consumer)", Some(report.events_per_second)),
        ("deliveries/s", Some(report.received_per_second)),
        ("service CPU µs/event", Some(report.cpu_us_per_event)),
        ("service CPU µs/delivery", Some(report.cpu_us_per_delivery)),
        ("service cores used", Some(report.service_cores)),
        ("service system calls/event", counted(|counted| counted.system_calls_per_event)),
        ("service rounds/event", counted(|counted| counted.cycles_per_event)),
        ("service allocations/event", counted(|counted| counted.allocations_per_event)),
        ("service context switches/event", Some(report.switches_per_event)),
        ("service resident MB", Some(ratio(report.resident_bytes, 1_000_000))),
        ("service threads", Some(ratio(report.threads, 1))),
        ("publisher CPU µs/event", Some(report.publisher_cpu_us_per_event)),
        ("consumers' CPU µs/delivery", Some(report.consumer_cpu_us_per_delivery)),
        ("latency p50 µs", latency(|latency| latency.median)),
        ("latency p99 µs", latency(|latency| latency.p99)),
        ("first consumer µs", report.first_us),
        ("last consumer µs", report.last_us),
        ("lost", Some(ratio(report.losses.lost, 1))),
        ("out of order", Some(ratio(report.losses.out_of_order, 1))),
    ] {
        table.row([figure.into(), value.into()]);
    }
    table.write(out)?;
    report.machine.write_remarks(out)?;
    Ok(())
}

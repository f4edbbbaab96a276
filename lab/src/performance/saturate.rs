//! `campanile-bench saturate`: as many events as get through the service, in one configuration, and what each costs.

use serde_json::{Value, json};

use super::contender::{self, Consume, Contender, Scenario, Supply};
use super::course::{Course, Outcome, Plan};
use super::experiments::arrivals;
use crate::latency::ratio;
use crate::options::ConsumerKind;
use crate::report::Reported;
use crate::{BenchError, Options, Output, clock};

/// From the first event to the window: buffers fill meanwhile.
const WARM_UP: u64 = clock::SECOND / 2;

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let seconds = options.seconds.unwrap_or_default();
    Options::check("--seconds", seconds, 3600.0)?;
    if options.processes > options.consumers {
        return Err(BenchError::Option { name: "--processes", must_be: "at most the number of consumers".into() });
    }
    let period = if options.rate == 0.0 { 0 } else { clock::nanoseconds(1.0 / options.rate) };
    if period > 0 || options.rate != 0.0 {
        Options::check("--rate", options.rate, 1e6)?;
    }
    let Some(contender) = contender::ALL.iter().find(|contender| contender.key == options.contender) else {
        return Err(BenchError::Option {
            name: "--contender",
            must_be: "one of those that `bench performance --help` names".into(),
        });
    };
    out.progress("starting the contender")?;
    let scenario = scenario(options);
    let mut course = Course::lay(contender, &scenario).map_err(|absence| absence.into_error(contender.name))?;
    out.progress("events flow")?;
    let window = clock::nanoseconds(seconds);
    let plan = Plan { period, warm_up: WARM_UP, window, spans: period > 0, late: 0, counted: true };
    let outcome = course.run(&plan)?;
    Ok((Vec::new(), found(period > 0, contender, &scenario, &outcome)))
}

fn scenario(options: &Options) -> Scenario {
    let push_window = options.carriage.delivery.push_window;
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

fn found(is_paced: bool, contender: &'static Contender, scenario: &Scenario, outcome: &Outcome) -> Value {
    let Outcome { sent, usage, seconds, .. } = outcome;
    let deliveries = outcome.total(|received| received.deliveries);
    let received_per_second = ratio(outcome.total(|received| received.in_window), 1) / seconds;
    let consumers = f64::from(scenario.consumers);
    let events = (received_per_second * seconds / consumers).max(1.0);
    let arrivals = if is_paced { arrivals(scenario, outcome) } else { super::cells::Figures::new() };
    json!({
        "contender": contender.name,
        "about": (contender.about)(),
        "configuration": scenario.describe(),
        "seconds": *seconds,
        "events": sent.events,
        "sent_per_second": ratio(sent.events, 1) / clock::seconds(sent.ended.saturating_sub(sent.began).max(1)),
        "received_per_second": received_per_second,
        "events_per_second": received_per_second / consumers,
        "cpu_us_per_event": usage.cpu_us / events,
        "cpu_us_per_delivery": usage.cpu_us / events / consumers,
        "service_cores": usage.cpu_us / 1e6 / seconds,
        "publisher_cpu_us_per_event": ratio(sent.cpu, 1000 * sent.events.max(1)),
        "consumer_cpu_us_per_delivery": ratio(outcome.total(|received| received.cpu), 1000 * deliveries.max(1)),
        "usage": *usage,
        "switches_per_event": ratio(usage.voluntary_switches + usage.involuntary_switches, 1) / events,
        "counted": outcome.counted,
        "resident_bytes": outcome.resident_bytes,
        "threads": outcome.threads,
        "latency": outcome.since_due().percentiles(),
        "first_us": arrivals.get("first_us"),
        "last_us": arrivals.get("last_us"),
        "losses": outcome.losses(),
    })
}

//! `campanile bench saturate`: as many events as get through the service, in one configuration, and what each costs.

use std::io::Write;

use client::notify::Property;
use serde::Serialize;

use super::ends::{Publish, PublisherProcess, Received, Recording, Run, Sent, Subscribe, SubscriberProcess};
use super::meters::{Meters, Usage, memory_and_threads};
use super::protocol::Protocol;
use crate::campanile::{self, Campanile};
use crate::floor::Counted;
use crate::floor::counting::Counting;
use crate::latency::{Percentiles, ratio};
use crate::output::write_json;
use crate::table::Table;
use crate::{
    BenchError, CarriageOptions, ConsumerKind, DeliveryOptions, Form, Losses, Machine, Output, SaturateOptions, clock,
};

/// From the orders to the first event, and from the first event to the window: buffers fill meanwhile.
const SETTLE: u64 = clock::SECOND / 2;

/// After so long without an event, the rest is lost.
const QUIET: u64 = 3 * clock::SECOND;

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Always `saturate`.
    pub benchmark: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// What was asked for.
    pub configuration: String,
    /// Seconds for which figures were taken.
    pub seconds: f64,
    /// Events that the publisher sent, all of the run.
    pub events: u64,
    /// Events the publisher sent each second, on average over the run.
    pub sent_per_second: f64,
    /// Deliveries to consumers each second, in the window.
    pub received_per_second: f64,
    /// The same divided by the number of consumers.
    pub events_per_second: f64,
    /// Processor time of the service for an event, in µs, in the window.
    pub cpu_us_per_event: f64,
    /// Processor time of the service for a delivery, in µs, in the window.
    pub cpu_us_per_delivery: f64,
    /// What part of a core the service used in the window.
    pub service_cores: f64,
    /// Processor time of the publisher for an event, in µs, all of the run.
    pub publisher_cpu_us_per_event: f64,
    /// Processor time of the consumers' processes for a delivery, in µs, all of the run.
    pub consumer_cpu_us_per_delivery: f64,
    /// What the service used in the window.
    pub usage: Usage,
    /// Context switches of the service for an event, in the window.
    pub switches_per_event: f64,
    /// What the service's lane counted over the whole run.
    pub counted: Counted,
    /// Octets of memory that the service had resident at the window's end.
    pub resident_bytes: u64,
    /// Threads of the service then.
    pub threads: u64,
    /// From when an event was handed to the publisher's socket, to its arrival; waiting in sockets and queues included.
    pub latency: Option<Percentiles>,
    /// What was lost, repeated or out of order.
    pub losses: Losses,
}

/// Runs the benchmark and writes its report to `out`.
///
/// # Errors
///
/// When the service cannot be started, breaks off, or answers what it should not.
pub fn run(options: &SaturateOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(BenchError::Option { name: "--seconds", must_be: "above 0 and at most 3600" });
    }
    if options.processes > options.consumers {
        return Err(BenchError::Option { name: "--processes", must_be: "at most the number of consumers" });
    }
    let mut machine = Machine::describe();
    out.progress("starting the service")?;
    let mut bed = Bed::start(options)?;
    let mut report = bed.measure(options, out)?;
    machine.note_stolen();
    report.machine = machine;
    out.end_progress()?;
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_table(&report, out)?;
    }
    Ok(())
}

/// A service, a publisher and consumers, connected.
struct Bed {
    service: Campanile,
    publisher: PublisherProcess,
    subscribers: Vec<SubscriberProcess>,
}

impl Bed {
    fn start(options: &SaturateOptions) -> Result<Self, BenchError> {
        let service = Campanile::start_on(options.service_core.map(usize::from))?;
        let channel = service.new_channel_with(&channel_qos(options))?;
        let form = if options.sequence.is_some() { Form::Sequence } else { Form::Structured };
        let proxy = channel.add_supplier(CarriageOptions { form, ..CarriageOptions::default() })?;
        let (form, qos) = consumers_form_and_qos(options);
        let mut subscribers = Vec::new();
        for process in 0..options.processes {
            let numbers = share(options.consumers, options.processes, process);
            let targets: Vec<Vec<u8>> =
                numbers.map(|number| campanile::consumer_key(number, proxy.key.len())).collect();
            let subscribe =
                Subscribe { protocol: Protocol::Giop(form), address: None, targets: targets.clone(), copies: false };
            let (subscriber, listening) = SubscriberProcess::start(subscribe, options.ends_core.map(usize::from))?;
            let Some(address) = listening else { continue };
            for target in &targets {
                channel.connect_consumer(address, target, form, &qos)?;
            }
            subscribers.push(subscriber);
        }
        let protocol = options.sequence.map_or(Protocol::Giop(Form::Structured), Protocol::GiopBatch);
        let publish = Publish {
            protocol,
            address: proxy.address,
            target: proxy.key,
            payload_bytes: usize::try_from(options.payload).unwrap_or(usize::MAX),
            window: if options.one_way { 0 } else { options.window },
        };
        let publisher = PublisherProcess::start(publish, options.ends_core.map(usize::from))?;
        Ok(Self { service, publisher, subscribers })
    }

    /// Sends for a while; what came, and what was used in the window.
    fn measure(&mut self, options: &SaturateOptions, out: &mut Output<'_>) -> Result<Report, BenchError> {
        let before = Counting::take(&self.service)?;
        let began = clock::now() + SETTLE;
        let from = began + SETTLE;
        let until = from + clock::nanoseconds(options.seconds);
        for subscriber in &mut self.subscribers {
            subscriber.record(Recording { run: 1, from, until, spans: false, late: 0 })?;
        }
        self.publisher.send(Run { number: 1, from: began, until, period: 0 })?;
        out.progress("events flow")?;
        let pids = [self.service.process().pid()];
        clock::sleep_until(from)?;
        let used = Meters::read(&pids)?;
        clock::sleep_until(until)?;
        let usage = Meters::read(&pids)?.since(&used);
        let (resident_bytes, threads) = memory_and_threads(&pids)?;
        let sent = self.publisher.sent()?;
        let received = collect(&mut self.subscribers, sent.events)?;
        let counted = before.until(&Counting::take(&self.service)?);
        Ok(report(options, &sent, &received, usage, counted, (resident_bytes, threads)))
    }
}

/// Has consumers tell what came of so many events.
fn collect(subscribers: &mut [SubscriberProcess], events: u64) -> Result<Vec<Received>, BenchError> {
    for subscriber in &mut *subscribers {
        subscriber.collect(events, QUIET)?;
    }
    subscribers.iter().map(SubscriberProcess::received).collect()
}

fn report(
    options: &SaturateOptions,
    sent: &Sent,
    received: &[Received],
    usage: Usage,
    counted: Counted,
    (resident_bytes, threads): (u64, u64),
) -> Report {
    let total = |figure: fn(&Received) -> u64| received.iter().map(figure).sum::<u64>();
    let in_window = total(|received| received.in_window);
    let deliveries = total(|received| received.deliveries);
    let received_per_second = ratio(in_window, 1) / options.seconds;
    let mut losses = Losses::default();
    for process in received {
        losses.add(process.losses);
    }
    let consumers = f64::from(options.consumers);
    let events = (ratio(in_window, 1) / consumers).max(1.0);
    let latencies = Received::recorder(received.iter().map(|received| received.since_due.as_slice()));
    Report {
        benchmark: "saturate",
        machine: Machine::describe(),
        configuration: configuration(options),
        seconds: options.seconds,
        events: sent.events,
        sent_per_second: ratio(sent.events, 1) / clock::seconds(sent.ended.saturating_sub(sent.began).max(1)),
        received_per_second,
        events_per_second: received_per_second / consumers,
        cpu_us_per_event: usage.cpu_us / events,
        cpu_us_per_delivery: usage.cpu_us / events / consumers,
        service_cores: usage.cpu_us / 1e6 / options.seconds,
        publisher_cpu_us_per_event: ratio(sent.cpu, 1000 * sent.events.max(1)),
        consumer_cpu_us_per_delivery: ratio(total(|received| received.cpu), 1000 * deliveries.max(1)),
        usage,
        switches_per_event: ratio(usage.voluntary_switches + usage.involuntary_switches, 1) / events,
        counted,
        resident_bytes,
        threads,
        latency: latencies.percentiles(),
        losses,
    }
}

/// The numbers of the consumers that are in this process.
fn share(consumers: u32, processes: u32, process: u32) -> std::ops::Range<u32> {
    let first = |process: u32| {
        let first = u64::from(consumers) * u64::from(process) / u64::from(processes);
        u32::try_from(first).unwrap_or(consumers)
    };
    first(process)..first(process + 1)
}

fn channel_qos(options: &SaturateOptions) -> Vec<Property> {
    if options.queue == 0 {
        return Vec::new();
    }
    // Publishers that are faster than the service wait then, and memory stays bounded.
    vec![Property::new("MaxEventsPerConsumer", options.queue), Property::new("FullOutbox", "Hold")]
}

fn consumers_form_and_qos(options: &SaturateOptions) -> (Form, Vec<Property>) {
    let DeliveryOptions { push_window } = options.delivery;
    let mut qos: Vec<Property> = push_window.map(|window| Property::new("PushWindow", window)).into_iter().collect();
    match options.consumer {
        ConsumerKind::TwoWay => (Form::Structured, qos),
        ConsumerKind::OneWay => {
            qos.push(Property::new("PushOneWay", true));
            (Form::Structured, qos)
        }
        ConsumerKind::Sequence => {
            qos.push(Property::new("MaximumBatchSize", options.batch));
            (Form::Sequence, qos)
        }
    }
}

fn configuration(options: &SaturateOptions) -> String {
    let supplier = match (options.one_way, options.window) {
        (true, _) => "one-way".to_owned(),
        (false, 1) => "two-way".to_owned(),
        (false, window) => format!("window {window}"),
    };
    let sequence = options.sequence.map_or(String::new(), |events| format!(", sequences of {events}"));
    let window = options.delivery.push_window.map_or(String::new(), |window| format!(", push window {window}"));
    let consumer = match options.consumer {
        ConsumerKind::TwoWay => "two-way".to_owned(),
        ConsumerKind::OneWay => "one-way".to_owned(),
        ConsumerKind::Sequence => format!("sequences of up to {}", options.batch),
    };
    format!(
        "{} B; supplier {supplier}{sequence}; {} in {}, {consumer}{window}",
        options.payload,
        crate::table::counted(options.consumers, "consumer"),
        if options.processes == 1 { "1 process".to_owned() } else { format!("{} processes", options.processes) }
    )
}

fn write_table(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    writeln!(out, "{}; {} s", report.configuration, report.seconds)?;
    let mut table = Table::new(["figure", "value"]);
    let Counted { allocations_per_event, system_calls_per_event, cycles_per_event, .. } = report.counted;
    let latency = |pick: fn(&Percentiles) -> f64| report.latency.as_ref().map(pick);
    for (figure, value) in [
        ("events/s sent", Some(report.sent_per_second)),
        ("events/s received (by each consumer)", Some(report.events_per_second)),
        ("deliveries/s", Some(report.received_per_second)),
        ("service CPU µs/event", Some(report.cpu_us_per_event)),
        ("service CPU µs/delivery", Some(report.cpu_us_per_delivery)),
        ("service cores used", Some(report.service_cores)),
        ("service system calls/event", Some(system_calls_per_event)),
        ("service rounds/event", Some(cycles_per_event)),
        ("service allocations/event", Some(allocations_per_event)),
        ("service context switches/event", Some(report.switches_per_event)),
        ("service resident MB", Some(ratio(report.resident_bytes, 1_000_000))),
        ("service threads", Some(ratio(report.threads, 1))),
        ("publisher CPU µs/event", Some(report.publisher_cpu_us_per_event)),
        ("consumers' CPU µs/delivery", Some(report.consumer_cpu_us_per_delivery)),
        ("latency p50 µs", latency(|latency| latency.median)),
        ("latency p99 µs", latency(|latency| latency.p99)),
        ("lost", Some(ratio(report.losses.lost, 1))),
        ("out of order", Some(ratio(report.losses.out_of_order, 1))),
    ] {
        table.row([figure.into(), value.into()]);
    }
    table.write(out)?;
    report.machine.write_remarks(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_consumers_evenly_and_completely() {
        for (consumers, processes) in [(1, 1), (10, 3), (100, 10), (1000, 100)] {
            let shares: Vec<_> = (0..processes).map(|process| share(consumers, processes, process)).collect();
            assert_eq!(shares.iter().map(ExactSizeIterator::len).sum::<usize>(), consumers as usize);
            assert!(
                shares
                    .windows(2)
                    .all(|pair| pair[0].end == pair[1].start && pair[0].len().abs_diff(pair[1].len()) <= 1)
            );
        }
    }
}

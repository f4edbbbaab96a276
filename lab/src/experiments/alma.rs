//! `campanile-bench alma`: one supplier of 8 KB at 10 Hz and up to a hundred subscribers, through the simple API on a notification service
//! and on DDS, with a bare relay and Cyclone DDS alone beside them; then as many events as get through, and what memory and threads it
//! takes; then the simple API on DDS and Cyclone alone, turn by turn.
//!
//! The supplier is a process of its own; each process of subscribers has ten of them at most. For round trips the last subscriber publishes
//! into another channel what has come, and the supplier subscribes there. DDS needs the feature `dds`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Bed;
use crate::campanile::{Campanile, setup};
use crate::performance::contender::peers::spawn_jacorb;
use crate::process::{Process, Subordinate, take_orders};
use crate::report::{Aim, Reported, add};
use crate::{BenchError, Options, Output, Percentiles, clock, system};
use ends::{Sink, Source};

#[cfg(feature = "dds")]
mod bare;
#[cfg(feature = "dds")]
mod compared;
mod ends;
mod relay;

/// The name of the hidden sub-command that has subscribers, or a supplier.
pub(crate) const COMMAND: &str = "alma-process";
/// Octets of an event, and events a second.
const OCTETS: usize = 8_192;
const RATE: f64 = 10.0;
/// As in the paper's figures.
const SUBSCRIBERS: [u32; 8] = [1, 10, 20, 30, 50, 60, 75, 100];
const SUBSCRIBERS_OF_A_PROCESS: u32 = 10;
/// Subscribers of a flood, and how many of them each process has.
const LAYOUTS: [(u32, u32); 3] = [(1, 1), (10, 1), (10, 10)];
/// What the mean latency is to be below, at a hundred subscribers.
const MEAN_BELOW_US: f64 = 1_000.0;
/// How long nothing comes before what is missing is held to be lost.
const PATIENCE: u64 = 5 * clock::SECOND;
/// Seconds for which a Java machine gets as much as goes through before anything counts.
const JAVA_WARM_UP: f64 = 3.0;
/// Between two looks at what has come.
const LOOK_EVERY: u64 = clock::SECOND / 1000;

/// What carries events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    Notification,
    /// The same, with one connection and one thread for the subscribers of a process.
    NotificationShared,
    /// As the first, published without waiting for each event's answer.
    Gathered,
    /// JacORB's notification service, with the simple API.
    Jacorb,
    /// No service, but a process that writes to all what it reads from one.
    Relay,
    Dds,
    /// The same, with one thread for the subscribers of a process.
    DdsShared,
    /// Cyclone DDS without the simple API.
    Cyclone,
}

/// A part of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// 8 KB at 10 Hz, and what programs take meanwhile
    Rows,
    /// As many events as get through
    Floods,
    /// The simple API on DDS and Cyclone alone, turn by turn
    Compared,
}

impl Transport {
    /// Whether it is to be judged.
    fn is_ours(self) -> bool {
        !matches!(self, Self::Cyclone | Self::Relay | Self::Jacorb)
    }
}

/// A way from one to others: what carries events, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Way {
    transport: Transport,
    /// The service, as the simple API's settings have it, or the relay; empty where there is none.
    server: String,
    /// Another naming service than the one there.
    naming: Option<String>,
    /// The channel, or the topic.
    channel: String,
}

/// Orders for a process of subscribers, a supplier or a relay.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Relay one way; answered by the address.
    Relay,
    /// Have so many subscribers.
    Subscribe { way: Way, count: u32 },
    /// Have a supplier, for so many subscribers.
    Supply { way: Way, subscribers: u32 },
    /// Have the supplier publish what reaches the last subscriber from now on, or no more.
    SendBack(bool),
    /// Publish so many a second for so long; without a rate, one after the other. Answered by how many events that were, and when it began.
    Publish { rate: Option<f64>, seconds: f64 },
    /// Wait for so many deliveries, and forget them. Answered by the nanoseconds that each took, and when the last one came.
    Take { deliveries: usize },
}

/// What has come to a subscriber.
#[derive(Default)]
struct Arrivals {
    /// How long each took, and when the last came.
    taken: Mutex<(Vec<u64>, u64)>,
    /// The source that sends it back, if it is to be sent back.
    back: OnceLock<Mutex<Source>>,
    sends_back: AtomicBool,
}

impl Arrivals {
    /// An event that was sent then has come.
    fn take(&self, sent: u64) {
        let now = clock::now();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.0.push(now.saturating_sub(sent));
        taken.1 = now;
        drop(taken);
        if self.sends_back.load(Ordering::Relaxed)
            && let Some(back) = self.back.get()
        {
            // The receiver misses what cannot be sent.
            let _ = back.lock().unwrap_or_else(PoisonError::into_inner).publish(sent);
        }
    }

    fn count(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).0.len()
    }

    fn forget(&self) -> (Vec<u64>, u64) {
        std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits for so many deliveries to all of them, or until nothing more comes, and forgets them.
fn wait_for(all: &[Arc<Arrivals>], deliveries: usize) -> Result<Value, BenchError> {
    let count = || all.iter().map(|arrivals| arrivals.count()).sum::<usize>();
    let (mut before, mut since) = (count(), clock::now());
    while before < deliveries && clock::now() - since < PATIENCE {
        clock::sleep_until(clock::now() + LOOK_EVERY)?;
        let there = count();
        if there > before {
            (before, since) = (there, clock::now());
        }
    }
    let (mut latencies, mut last) = (Vec::new(), 0);
    for (of_one, at) in all.iter().map(|arrivals| arrivals.forget()) {
        latencies.extend(of_one);
        last = last.max(at);
    }
    Ok(json!((latencies, last)))
}

/// Publishes so many a second for so long, or one after the other; how many events that were, and when it began.
fn publish(source: &mut Source, rate: Option<f64>, seconds: f64) -> Result<Value, BenchError> {
    let (began, mut events) = (clock::now(), 0);
    let (end, period) = (began + clock::nanoseconds(seconds), rate.map(|rate| clock::nanoseconds(1.0 / rate)));
    let mut due = began;
    while due < end {
        if period.is_some() {
            clock::sleep_until(due)?;
        }
        source.publish(clock::now())?;
        events += 1;
        due = period.map_or_else(clock::now, |period| due + period);
    }
    Ok(json!((events, began)))
}

/// Has subscribers or a supplier as ordered, until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let (mut arrivals, mut sinks, mut source) = (Vec::<Arc<Arrivals>>::new(), Vec::new(), None);
    let unasked = || setup("obeying an order")("it was not told to have a supplier or a subscriber");
    take_orders(out, |order| {
        Ok(match order {
            Order::Relay => json!(relay::begin()?),
            Order::Subscribe { way, count } => {
                let fresh: Vec<_> = (0..count).map(|_| Arc::new(Arrivals::default())).collect();
                sinks.extend(Sink::connect(&way, &fresh)?);
                arrivals.extend(fresh);
                Value::Null
            }
            Order::Supply { way, subscribers } => {
                source = Some(Source::connect(&way, subscribers)?);
                Value::Null
            }
            Order::SendBack(wanted) => {
                let last = arrivals.last().ok_or_else(unasked)?;
                if let Some(source) = source.take() {
                    let _ = last.back.set(Mutex::new(source));
                }
                last.sends_back.store(wanted, Ordering::Relaxed);
                Value::Null
            }
            Order::Publish { rate, seconds } => publish(source.as_mut().ok_or_else(unasked)?, rate, seconds)?,
            Order::Take { deliveries } => wait_for(&arrivals, deliveries)?,
        })
    })
}

/// The process between a supplier and its subscribers.
enum Between {
    Nobody,
    Campanile(Campanile),
    /// Its channel is found by the naming service of the other.
    Jacorb(Process, #[expect(dead_code, reason = "kept naming")] Campanile),
    Relay(#[expect(dead_code, reason = "kept relaying")] Subordinate),
}

impl Between {
    /// Starts the process, and gives the ways there and back.
    fn start(transport: Transport, subscribers: u32) -> Result<(Self, [Way; 2]), BenchError> {
        let way = |channel: &str, server: &str, naming: Option<&str>| Way {
            transport,
            server: server.to_owned(),
            naming: naming.map(str::to_owned),
            channel: channel.to_owned(),
        };
        let ways =
            |server: &str, naming: Option<&str>| ["Alma", "AlmaBack"].map(|channel| way(channel, server, naming));
        match transport {
            Transport::Notification | Transport::NotificationShared | Transport::Gathered => {
                let service = Campanile::start()?;
                let ways = ways(&service.address().to_string(), None);
                Ok((Self::Campanile(service), ways))
            }
            Transport::Jacorb => {
                let names = Campanile::start()?;
                let (process, server) = spawn_jacorb(None, subscribers)
                    .map_err(|absence| absence.into_error("JacORB's notification service"))?;
                let ways = ways(&server, Some(&names.address().to_string()));
                Ok((Self::Jacorb(process, names), ways))
            }
            Transport::Relay => {
                let mut process = Subordinate::start("a bare relay", COMMAND, None, None)?;
                let mut relay = || Ok::<_, BenchError>(way("", &process.ask::<String>(&Order::Relay)?, None));
                let ways = [relay()?, relay()?];
                Ok((Self::Relay(process), ways))
            }
            Transport::Dds | Transport::DdsShared | Transport::Cyclone => Ok((Self::Nobody, ways("", None))),
        }
    }

    fn service(&self) -> Option<&Process> {
        match self {
            Self::Campanile(service) => Some(service.process()),
            Self::Jacorb(process, _) => Some(process),
            Self::Nobody | Self::Relay(_) => None,
        }
    }
}

/// A supplier and its subscribers.
struct Crowd {
    supplier: Subordinate,
    processes: Vec<(Subordinate, u32)>,
    subscribers: u32,
    between: Between,
    back: Way,
}

struct Taken {
    latencies: Vec<u64>,
    last: u64,
    /// Deliveries that there should have been and were not.
    lost: u64,
    /// Events, and when the first was published.
    events: u64,
    began: u64,
}

impl Taken {
    fn received(&self) -> u64 {
        self.latencies.len() as u64
    }

    fn per_second(&self) -> f64 {
        crate::latency::ratio(self.received(), 1) / clock::seconds(self.last.saturating_sub(self.began))
    }
}

impl Crowd {
    fn gather(transport: Transport, subscribers: u32, of_a_process: u32) -> Result<Self, BenchError> {
        Self::gather_on([None, None], transport, subscribers, of_a_process)
    }

    /// With the supplier on one core and subscribers on another one.
    fn gather_on(
        [supplier_core, core]: [Option<usize>; 2],
        transport: Transport,
        subscribers: u32,
        of_a_process: u32,
    ) -> Result<Self, BenchError> {
        let (between, [there, back]) = Between::start(transport, subscribers)?;
        let mut processes = Vec::new();
        let mut left = subscribers;
        while left > 0 {
            let count = left.min(of_a_process);
            let mut process = Subordinate::start("a process of subscribers", COMMAND, core, None)?;
            process.order(&Order::Subscribe { way: there.clone(), count })?;
            processes.push((process, count));
            left -= count;
        }
        processes.iter().try_for_each(|(process, _)| process.answer::<()>())?;
        let mut supplier = Subordinate::start("a supplier", COMMAND, supplier_core, None)?;
        supplier.ask::<()>(&Order::Supply { way: there, subscribers })?;
        Ok(Self { supplier, processes, subscribers, between, back })
    }

    /// Publishes so many a second for so long, or one after the other; what came.
    fn publish(&mut self, rate: Option<f64>, seconds: f64) -> Result<Taken, BenchError> {
        let (events, began): (u64, u64) = self.supplier.ask(&Order::Publish { rate, seconds })?;
        for (process, count) in &mut self.processes {
            let deliveries = usize::try_from(events * u64::from(*count)).unwrap_or(usize::MAX);
            process.order(&Order::Take { deliveries })?;
        }
        let mut all = Taken { latencies: Vec::new(), last: 0, lost: 0, events, began };
        for (process, _) in &self.processes {
            let (latencies, last): (Vec<u64>, u64) = process.answer()?;
            all.latencies.extend(latencies);
            all.last = all.last.max(last);
        }
        all.lost = (events * u64::from(self.subscribers)).saturating_sub(all.received());
        Ok(all)
    }

    /// As [`Self::publish`], and the last subscriber sends back what comes; how long that took, there and back.
    fn send_back(&mut self, rate: f64, seconds: f64) -> Result<Percentiles, BenchError> {
        let Some((last, _)) = self.processes.last_mut() else { return Ok(Percentiles::default()) };
        self.supplier.ask::<()>(&Order::Subscribe { way: self.back.clone(), count: 1 })?;
        last.ask::<()>(&Order::Supply { way: self.back.clone(), subscribers: 1 })?;
        last.ask::<()>(&Order::SendBack(true))?;
        // The first ones find out the types.
        self.publish(Some(rate), 0.3)?;
        self.supplier.ask::<Value>(&Order::Take { deliveries: 3 })?;
        let events = self.publish(Some(rate), seconds)?.events;
        let deliveries = usize::try_from(events).unwrap_or(usize::MAX);
        let (latencies, _): (Vec<u64>, u64) = self.supplier.ask(&Order::Take { deliveries })?;
        Ok(Percentiles::of(latencies).unwrap_or_default())
    }

    /// What programs take.
    fn takes(&self) -> Result<Value, BenchError> {
        let of = |pid: u32| {
            let both = system::resident_bytes(pid).and_then(|bytes| Ok((bytes, system::threads(pid)?)));
            let both = both.map_err(BenchError::io("reading what a process takes"));
            both.map(|(bytes, threads)| (crate::latency::ratio(bytes, 1 << 20), threads))
        };
        let (resident_mib, threads) = of(self.processes.first().map_or(0, |(process, _)| process.pid()))?;
        let (supplier_resident_mib, supplier_threads) = of(self.supplier.pid())?;
        let service = self.between.service().map(|process| of(process.pid())).transpose()?;
        let (service_resident_mib, service_threads) = service.unzip();
        Ok(json!({
            "resident_mib": resident_mib, "threads": threads, "supplier_resident_mib": supplier_resident_mib,
            "supplier_threads": supplier_threads, "service_resident_mib": service_resident_mib,
            "service_threads": service_threads,
        }))
    }
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let parts = options.only_of::<Part>()?;
    let has = |part| parts.is_empty() || parts.contains(&part);
    let (warm_up, seconds) = bed.times(options, (0.3, 2.0), (2.0, 30.0));
    let flood_seconds = if bed.quick() { 0.5 } else { 10.0 };
    let (mut aims, mut rows, mut floods, mut skipped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut transports =
        vec![Transport::Notification, Transport::NotificationShared, Transport::Gathered, Transport::Relay];
    match spawn_jacorb(None, 1) {
        Ok(_) => transports.push(Transport::Jacorb),
        Err(absence) => {
            let reason = absence.into_error("JacORB's notification service").to_string();
            skipped.push(json!({"contender": "jacorb", "reason": reason}));
        }
    }
    if cfg!(feature = "dds") {
        transports.extend([Transport::Dds, Transport::DdsShared, Transport::Cyclone]);
    } else {
        let reason = "built without the feature `dds`";
        skipped.extend(["dds", "dds-shared", "cyclone"].map(|name| json!({"contender": name, "reason": reason})));
    }
    transports.retain(|transport| options.transports.is_empty() || options.transports.contains(transport));
    #[cfg(feature = "dds")]
    let (of_compared, compared) =
        if has(Part::Compared) { compared::measure(bed.quick(), out)? } else { (Vec::new(), Vec::new()) };
    #[cfg(not(feature = "dds"))]
    let (of_compared, compared) = (Vec::new(), Vec::<Value>::new());
    for (subscribers, of_a_process) in if has(Part::Floods) { &LAYOUTS[..] } else { &[] } {
        for &transport in &transports {
            out.progress(&format!("{transport:?}, as much as gets through to {subscribers}"))?;
            floods.push(flood(transport, (*subscribers, *of_a_process), flood_seconds, &mut aims)?);
        }
    }
    // Gathering is for floods.
    transports.retain(|transport| *transport != Transport::Gathered);
    let all = || bed.loads(options, &SUBSCRIBERS, &SUBSCRIBERS);
    for &subscribers in if has(Part::Rows) { all() } else { &[] } {
        for &transport in &transports {
            out.progress(&format!("{transport:?}, {subscribers} subscribers"))?;
            rows.push(row(transport, subscribers, (warm_up, seconds), &mut aims)?);
        }
    }
    aims.extend(of_compared);
    Ok((aims, json!({"rows": rows, "floods": floods, "compared": compared, "skipped": skipped})))
}

/// Publishes at the rate to so many for so long; then again, and the last sends back what comes.
fn row(
    transport: Transport,
    subscribers: u32,
    (warm_up, seconds): (f64, f64),
    aims: &mut Vec<Aim>,
) -> Result<Value, BenchError> {
    let mut crowd = Crowd::gather(transport, subscribers, SUBSCRIBERS_OF_A_PROCESS)?;
    if transport == Transport::Jacorb {
        // Its Java machine compiles what runs often.
        crowd.publish(None, JAVA_WARM_UP)?;
    }
    crowd.publish(Some(RATE), warm_up)?;
    let taken = crowd.publish(Some(RATE), seconds)?;
    let (lost, takes) = (taken.lost, crowd.takes()?);
    let figures = Percentiles::of(taken.latencies).unwrap_or_default();
    let round_trip = crowd.send_back(RATE, seconds)?;
    if subscribers == 100 && transport.is_ours() {
        let mean_us = figures.mean.unwrap_or(f64::INFINITY);
        aims.push(Aim::new(
            format!("{transport:?}: the mean at 100 subscribers is below 1 ms, and nothing is lost"),
            format!("{mean_us:.0} µs, {lost} lost"),
            mean_us < MEAN_BELOW_US && lost == 0,
        ));
    }
    let mut row = json!({
        "transport": transport, "subscribers": subscribers, "mean_us": figures.mean, "sd_us": figures.standard_deviation,
        "p99_us": figures.p99, "max_us": figures.max, "lost": lost, "round_trip_mean_us": round_trip.mean,
        "round_trip_sd_us": round_trip.standard_deviation, "round_trip_p99_us": round_trip.mean.map(|_| round_trip.p99),
    });
    add(&mut row, takes);
    Ok(row)
}

/// Publishes one event after the other for so long.
fn flood(
    transport: Transport,
    (subscribers, of_a_process): (u32, u32),
    seconds: f64,
    aims: &mut Vec<Aim>,
) -> Result<Value, BenchError> {
    let mut crowd = Crowd::gather(transport, subscribers, of_a_process)?;
    crowd.publish(Some(RATE), 0.3)?;
    let taken = crowd.publish(None, seconds)?;
    let (received, lost) = (taken.received(), taken.lost);
    if transport.is_ours() {
        aims.push(Aim::new(
            format!("{transport:?}: nothing is lost of as much as gets through to {subscribers}"),
            format!("{lost} of {} lost", received + lost),
            lost == 0,
        ));
    }
    let mut flood = json!({
        "transport": transport, "subscribers": subscribers, "subscribers_of_a_process": of_a_process,
        "sent": taken.events, "received": received, "lost": lost, "received_per_second": taken.per_second(),
        "highest_latency_us": Percentiles::of(taken.latencies).unwrap_or_default().max,
    });
    add(&mut flood, crowd.takes()?);
    Ok(flood)
}

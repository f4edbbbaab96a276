//! `campanile-bench alma`: one supplier of 8 KB at 10 Hz and up to a hundred subscribers, through the simple API on a notification service
//! and on DDS, with a bare relay and Cyclone DDS alone beside them; then as many events as get through, and what memory and threads it
//! takes; then the simple API on DDS and Cyclone alone, turn by turn.
//!
//! The supplier is this process; each process of subscribers has ten of them at most. DDS needs the feature `dds`.

use std::io::{self, BufRead};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Bed, Kind, PairedRatio};
use crate::campanile::{Campanile, setup};
use crate::performance::contender::jacorb;
use crate::process::{Process, Subordinate, json, say_answer, say_started};
use crate::report::{Aim, Charts, Tables, rows, table};
use crate::{BenchError, ExperimentOptions, Output, Percentiles, clock, system};
use ends::{Sink, Source};

#[cfg(feature = "dds")]
mod bare;
#[cfg(feature = "dds")]
mod compared;
mod ends;
mod relay;

const KIND: Kind = Kind { name: "alma", tables, charts: |_| Charts::new() };

/// The name of the hidden sub-command that has subscribers.
const COMMAND: &str = "alma-process";
/// Octets of an event, and events a second.
const OCTETS: usize = 8_192;
const RATE: f64 = 10.0;
/// As in the paper's figures.
const SUBSCRIBERS: [u32; 8] = [1, 10, 20, 30, 50, 60, 75, 100];
const SUBSCRIBERS_OF_A_PROCESS: u32 = 10;
/// Subscribers of a flood, and how many of them each process has.
const LAYOUTS: [(u32, u32); 3] = [(1, 1), (10, 1), (10, 10)];
/// What the simple API may cost on DDS: of the latency at most so much more, and of the throughput at least so much left.
const LATENCY_MOST: f64 = 1.15;
const THROUGHPUT_LEAST: f64 = 0.85;
/// What the mean latency is to be below, at a hundred subscribers.
const MEAN_BELOW_US: f64 = 1_000.0;
/// How long nothing comes before what is missing is held to be lost.
const PATIENCE: u64 = 5 * clock::SECOND;
/// Between two looks at what has come.
const LOOK_EVERY: u64 = clock::SECOND / 1000;

/// What carries events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Transport {
    Notification,
    /// The same, published without waiting for each event's answer.
    Gathered,
    /// JacORB's notification service, with the simple API.
    Jacorb,
    /// No service, but a process that writes to all what it reads from one.
    Relay,
    Dds,
    /// Cyclone DDS without the simple API.
    Cyclone,
}

/// The report, beside what all of them begin with.
#[derive(Debug, Serialize)]
struct Report {
    rows: Vec<Row>,
    /// Events one after the other, as fast as they are taken.
    floods: Vec<Flood>,
    /// The simple API on DDS beside Cyclone alone, turn by turn.
    compared: Vec<Compared>,
    /// Who had no turn, and why.
    skipped: Vec<Skipped>,
}

#[derive(Debug, Serialize)]
struct Row {
    transport: Transport,
    subscribers: u32,
    mean_us: f64,
    sd_us: f64,
    p99_us: f64,
    max_us: f64,
    lost: u64,
}

#[derive(Debug, Serialize)]
struct Flood {
    transport: Transport,
    subscribers: u32,
    subscribers_of_a_process: u32,
    sent: u64,
    received: u64,
    lost: u64,
    /// Deliveries to all subscribers together.
    received_per_second: f64,
    highest_latency_us: f64,
    /// Of a process of subscribers, when all had come.
    resident_mib: f64,
    threads: u64,
    /// Of the service between; `null` where there is none.
    service_resident_mib: Option<f64>,
    service_threads: Option<u64>,
}

/// The simple API on DDS and Cyclone alone, with as many threads that read.
#[derive(Debug, Serialize)]
struct Compared {
    subscribers: u32,
    subscribers_of_a_process: u32,
    /// Deliveries a second, the medians of the turns.
    dds_per_second: f64,
    cyclone_per_second: f64,
    /// Deliveries through the simple API for each of Cyclone's, in turns of as many events as get through.
    throughput: Option<PairedRatio>,
    /// Median latencies in microseconds, the medians of the turns.
    dds_p50_us: f64,
    cyclone_p50_us: f64,
    /// The one divided by the other, in turns of 500 events a second.
    latency: Option<PairedRatio>,
}

#[derive(Debug, Serialize)]
struct Skipped {
    contender: &'static str,
    reason: String,
}

/// Where the service is; empty where there is none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Server {
    /// As the simple API's settings have it.
    address: String,
    /// Another naming service than the one there.
    naming: Option<String>,
}

/// What a process of subscribers is told.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Be the bare relay.
    Relay,
    Subscribe {
        transport: Transport,
        server: Server,
        count: u32,
    },
    /// Wait for so many deliveries, tell of them and forget them.
    Take {
        deliveries: usize,
    },
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Ready,
    Relaying {
        address: String,
    },
    /// Nanoseconds that each delivery took, and when the last one came.
    Taken {
        latencies: Vec<u64>,
        last: u64,
    },
}

/// What has come to a subscriber: how long each took, and when the last came.
#[derive(Debug, Default)]
struct Arrivals(Mutex<(Vec<u64>, u64)>);

impl Arrivals {
    /// An event that was sent then has come.
    fn take(&self, sent: u64) {
        let now = clock::now();
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.0.push(now.saturating_sub(sent));
        taken.1 = now;
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.len()
    }

    fn forget(&self) -> (Vec<u64>, u64) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits for so many deliveries to all of them, or until nothing more comes, and forgets them.
fn wait_for(all: &[Arc<Arrivals>], deliveries: usize) -> Result<Answer, BenchError> {
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
    Ok(Answer::Taken { latencies, last })
}

/// Has subscribers as it is told, until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let (mut arrivals, mut sinks) = (Vec::new(), Vec::new());
    say_started(out)?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(BenchError::io("reading an order"))?;
        let answer = match serde_json::from_str(&line).map_err(json("reading an order"))? {
            Order::Relay => Answer::Relaying { address: relay::begin()? },
            Order::Subscribe { transport, server, count } => {
                let fresh: Vec<_> = (0..count).map(|_| Arc::new(Arrivals::default())).collect();
                sinks.extend(Sink::connect(transport, &server, &fresh)?);
                arrivals.extend(fresh);
                Answer::Ready
            }
            Order::Take { deliveries } => wait_for(&arrivals, deliveries)?,
        };
        say_answer(out, &answer)?;
    }
    drop(sinks);
    Ok(())
}

/// Who is between a supplier and its subscribers.
enum Between {
    Nobody,
    Campanile(Campanile),
    /// Its channel is found by the naming service of the other.
    Jacorb(Process, #[expect(dead_code, reason = "kept naming")] Campanile),
    Relay(#[expect(dead_code, reason = "kept relaying")] Subordinate),
}

impl Between {
    fn start(transport: Transport, subscribers: u32) -> Result<(Self, Server), BenchError> {
        match transport {
            Transport::Notification | Transport::Gathered => {
                let service = Campanile::start()?;
                let address = service.address().to_string();
                Ok((Self::Campanile(service), Server { address, naming: None }))
            }
            Transport::Jacorb => {
                let names = Campanile::start()?;
                let naming = Some(names.address().to_string());
                let (process, address) = jacorb::start(subscribers)
                    .map_err(|absence| absence.into_error("JacORB's notification service"))?;
                Ok((Self::Jacorb(process, names), Server { address, naming }))
            }
            Transport::Relay => {
                let mut process = Subordinate::start("a bare relay", COMMAND, None, None)?;
                let answer = process.ask(&Order::Relay)?;
                let Answer::Relaying { address } = answer else { return Err(process.confused(&answer)) };
                Ok((Self::Relay(process), Server { address, naming: None }))
            }
            Transport::Dds | Transport::Cyclone => Ok((Self::Nobody, Server::default())),
        }
    }

    /// The process of a service.
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
    source: Source,
    processes: Vec<(Subordinate, u32)>,
    subscribers: u32,
    between: Between,
}

/// What came of a run.
struct Taken {
    latencies: Vec<u64>,
    last: u64,
}

impl Crowd {
    fn gather(transport: Transport, subscribers: u32, of_a_process: u32) -> Result<Self, BenchError> {
        let (between, server) = Between::start(transport, subscribers)?;
        let mut processes = Vec::new();
        let mut left = subscribers;
        while left > 0 {
            let count = left.min(of_a_process);
            let mut process = Subordinate::start("a process of subscribers", COMMAND, None, None)?;
            process.order(&Order::Subscribe { transport, server: server.clone(), count })?;
            processes.push((process, count));
            left -= count;
        }
        for (process, _) in &processes {
            let answer = process.answer()?;
            let Answer::Ready = answer else { return Err(process.confused(&answer)) };
        }
        let source = Source::connect(transport, &server, subscribers)?;
        Ok(Self { source, processes, subscribers, between })
    }

    /// All that has come of so many events.
    fn take(&mut self, events: u64) -> Result<Taken, BenchError> {
        for (process, count) in &mut self.processes {
            let deliveries = usize::try_from(events * u64::from(*count)).unwrap_or(usize::MAX);
            process.order(&Order::Take { deliveries })?;
        }
        let mut all = Taken { latencies: Vec::new(), last: 0 };
        for (process, _) in &self.processes {
            let answer = process.answer()?;
            let Answer::Taken { latencies, last } = answer else { return Err(process.confused(&answer)) };
            all.latencies.extend(latencies);
            all.last = all.last.max(last);
        }
        Ok(all)
    }

    /// Publishes so many a second; what came, and how many events there were.
    fn pace(&mut self, rate: f64, seconds: f64) -> Result<(Taken, u64), BenchError> {
        let (period, end) = (clock::nanoseconds(1.0 / rate), clock::now() + clock::nanoseconds(seconds));
        let (mut due, mut events) = (clock::now(), 0);
        while due < end {
            clock::sleep_until(due)?;
            self.source.publish(clock::now())?;
            events += 1;
            due += period;
        }
        Ok((self.take(events)?, events))
    }

    /// Publishes one event after the other for so long; what came, how many events there were, and how many deliveries a second.
    fn flood(&mut self, seconds: f64) -> Result<(Taken, u64, f64), BenchError> {
        let began = clock::now();
        let end = began + clock::nanoseconds(seconds);
        let mut sent = 0;
        while clock::now() < end {
            self.source.publish(clock::now())?;
            sent += 1;
        }
        let taken = self.take(sent)?;
        let deliveries = crate::latency::ratio(taken.latencies.len() as u64, 1);
        let rate = deliveries / clock::seconds(taken.last.saturating_sub(began));
        Ok((taken, sent, rate))
    }

    fn lost(&self, taken: &Taken, events: u64) -> u64 {
        (events * u64::from(self.subscribers)).saturating_sub(taken.latencies.len() as u64)
    }
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    super::conduct(&KIND, options, out, |bed, out| measure(bed, options, out))
}

fn measure(bed: &Bed, options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(Vec<Aim>, Report), BenchError> {
    let (warm_up, seconds) = bed.times(options, (0.3, 2.0), (2.0, 30.0));
    let flood_seconds = if bed.quick() { 0.5 } else { 10.0 };
    let mut report = Report { rows: Vec::new(), floods: Vec::new(), compared: Vec::new(), skipped: Vec::new() };
    let mut transports = vec![Transport::Notification, Transport::Gathered, Transport::Relay];
    match jacorb::start(1) {
        Ok(_) => transports.push(Transport::Jacorb),
        Err(absence) => {
            let reason = absence.into_error("JacORB's notification service").to_string();
            report.skipped.push(Skipped { contender: "jacorb", reason });
        }
    }
    if cfg!(feature = "dds") {
        transports.extend([Transport::Dds, Transport::Cyclone]);
    } else {
        let reason = || "built without the feature `dds`".to_owned();
        report.skipped.extend(["dds", "cyclone"].map(|contender| Skipped { contender, reason: reason() }));
    }
    #[cfg(feature = "dds")]
    compared::measure(bed.quick(), &mut report.compared, out)?;
    for (subscribers, of_a_process) in LAYOUTS {
        for &transport in &transports {
            out.progress(&format!("{transport:?}, as much as gets through to {subscribers}"))?;
            report.floods.push(flood(transport, subscribers, of_a_process, flood_seconds)?);
        }
    }
    // Gathering is for floods.
    transports.retain(|transport| *transport != Transport::Gathered);
    for &subscribers in bed.loads(options, &SUBSCRIBERS, &SUBSCRIBERS) {
        for &transport in &transports {
            out.progress(&format!("{transport:?}, {subscribers} subscribers"))?;
            report.rows.push(row(transport, subscribers, warm_up, seconds)?);
        }
    }
    Ok((report.judge(), report))
}

fn row(transport: Transport, subscribers: u32, warm_up: f64, seconds: f64) -> Result<Row, BenchError> {
    let mut crowd = Crowd::gather(transport, subscribers, SUBSCRIBERS_OF_A_PROCESS)?;
    crowd.pace(RATE, warm_up)?;
    let (taken, events) = crowd.pace(RATE, seconds)?;
    let lost = crowd.lost(&taken, events);
    let figures = Percentiles::of(taken.latencies).unwrap_or_default();
    Ok(Row {
        transport,
        subscribers,
        mean_us: figures.mean.unwrap_or(f64::INFINITY),
        sd_us: figures.standard_deviation.unwrap_or(f64::INFINITY),
        p99_us: figures.p99,
        max_us: figures.max,
        lost,
    })
}

/// Publishes one event after the other for so long.
fn flood(transport: Transport, subscribers: u32, of_a_process: u32, seconds: f64) -> Result<Flood, BenchError> {
    let mut crowd = Crowd::gather(transport, subscribers, of_a_process)?;
    crowd.pace(RATE, 0.3)?;
    let (taken, sent, received_per_second) = crowd.flood(seconds)?;
    let mib = |bytes: u64| crate::latency::ratio(bytes, 1 << 20);
    let pid = crowd.processes.first().map_or(0, |(process, _)| process.pid());
    let of_process = BenchError::io("reading what a process takes");
    let (resident, threads) =
        system::resident_bytes(pid).and_then(|bytes| Ok((bytes, system::threads(pid)?))).map_err(of_process)?;
    let service = crowd.between.service();
    Ok(Flood {
        transport,
        subscribers,
        subscribers_of_a_process: of_a_process,
        sent,
        received: taken.latencies.len() as u64,
        lost: crowd.lost(&taken, sent),
        received_per_second,
        highest_latency_us: Percentiles::of(taken.latencies).unwrap_or_default().max,
        resident_mib: mib(resident),
        threads,
        service_resident_mib: service.map(|process| process.resident_bytes().map(mib)).transpose()?,
        service_threads: service.map(Process::threads).transpose()?,
    })
}

impl Report {
    fn judge(&self) -> Vec<Aim> {
        let ours =
            |transport: Transport| !matches!(transport, Transport::Cyclone | Transport::Relay | Transport::Jacorb);
        let most = self.rows.iter().filter(|row| row.subscribers == 100 && ours(row.transport)).map(|row| Aim {
            aim: format!("{:?}: the mean at 100 subscribers is below 1 ms, and nothing is lost", row.transport),
            found: format!("{:.0} µs, {} lost", row.mean_us, row.lost),
            met: Some(row.mean_us < MEAN_BELOW_US && row.lost == 0),
        });
        let floods = self.floods.iter().filter(|flood| ours(flood.transport)).map(|flood| Aim {
            aim: format!("{:?}: nothing is lost of as much as gets through to {}", flood.transport, flood.subscribers),
            found: format!("{} of {} lost", flood.lost, flood.received + flood.lost),
            met: Some(flood.lost == 0),
        });
        let compared = self.compared.iter().flat_map(|compared| {
            let Compared { subscribers, subscribers_of_a_process, .. } = compared;
            let of =
                format!("on DDS with {subscribers} subscribers, {subscribers_of_a_process} a process, beside Cyclone");
            let latency = PairedRatio::at_most(
                compared.latency.as_ref(),
                &format!("{of}: the latency is at most {LATENCY_MOST} ×"),
                LATENCY_MOST,
            );
            let aim = format!("{of}: the throughput is at least {THROUGHPUT_LEAST} ×");
            let mut throughput = PairedRatio::at_most(compared.throughput.as_ref(), &aim, THROUGHPUT_LEAST);
            throughput.met = compared.throughput.as_ref().map(|ratio| ratio.median >= THROUGHPUT_LEAST);
            [latency, throughput]
        });
        most.chain(floods).chain(compared).collect()
    }
}

fn tables(report: &Value) -> Tables {
    let columns = [
        ("transport", "transport"),
        ("subscribers", "subscribers"),
        ("mean µs", "mean_us"),
        ("sd µs", "sd_us"),
        ("p99 µs", "p99_us"),
        ("longest µs", "max_us"),
        ("lost", "lost"),
    ];
    let floods = [
        ("transport", "transport"),
        ("subscribers", "subscribers"),
        ("of a process", "subscribers_of_a_process"),
        ("sent", "sent"),
        ("received", "received"),
        ("lost", "lost"),
        ("received/s", "received_per_second"),
        ("longest µs", "highest_latency_us"),
        ("subscribers' MiB", "resident_mib"),
        ("threads", "threads"),
        ("service's MiB", "service_resident_mib"),
        ("threads", "service_threads"),
    ];
    let compared = [
        ("subscribers", "subscribers"),
        ("of a process", "subscribers_of_a_process"),
        ("DDS/s", "dds_per_second"),
        ("Cyclone/s", "cyclone_per_second"),
        ("ratio", "throughput.median"),
        ("DDS µs", "dds_p50_us"),
        ("Cyclone µs", "cyclone_p50_us"),
        ("ratio", "latency.median"),
    ];
    vec![
        ("The simple API on DDS and Cyclone alone".to_owned(), table(rows(report, "compared"), &compared)),
        ("8 KB ten times a second".to_owned(), table(rows(report, "rows"), &columns)),
        ("As many events of 8 KB as get through".to_owned(), table(rows(report, "floods"), &floods)),
        (
            "Who had no turn".to_owned(),
            table(rows(report, "skipped"), &[("contender", "contender"), ("reason", "reason")]),
        ),
    ]
}

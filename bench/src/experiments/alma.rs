//! `campanile-bench alma`: one supplier of 8 KB at 10 Hz and up to a hundred subscribers, through the simple API on a notification service
//! and on DDS, with Cyclone DDS alone beside them; then as many events as get through, and what memory and threads it takes.
//!
//! The supplier is this process; each process of subscribers has ten of them at most. DDS needs the feature `dds`.

use std::io::{self, BufRead};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Bed, Kind};
use crate::campanile::{Campanile, setup};
use crate::process::{Subordinate, json, say_answer, say_started};
use crate::report::{Aim, Charts, Tables, rows, table};
use crate::{BenchError, ExperimentOptions, Output, Percentiles, clock, system};
use ends::{Sink, Source};

#[cfg(feature = "dds")]
mod bare;
mod ends;

const KIND: Kind = Kind { name: "alma", tables, charts: |_| Charts::new() };

/// The name of the hidden sub-command that has subscribers.
const COMMAND: &str = "alma-process";
/// Octets of an event, and events a second.
const OCTETS: usize = 8_192;
const RATE: f64 = 10.0;
/// As in the paper's figures.
const SUBSCRIBERS: [u32; 8] = [1, 10, 20, 30, 50, 60, 75, 100];
const SUBSCRIBERS_OF_A_PROCESS: u32 = 10;
/// Subscribers of the flood.
const FLOODED: u32 = 10;
/// What the mean latency is to be below, at a hundred subscribers.
const MEAN_BELOW_US: f64 = 1_000.0;
/// How long nothing comes before what is missing is held to be lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// What carries events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Transport {
    Notification,
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
    sent: u64,
    received: u64,
    lost: u64,
    /// Deliveries to all subscribers together.
    received_per_second: f64,
    highest_latency_us: f64,
    /// Of the process of ten subscribers, when all had come.
    resident_mib: f64,
    threads: u64,
    /// Of the service between; `null` where there is none.
    service_resident_mib: Option<f64>,
    service_threads: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Skipped {
    contender: &'static str,
    reason: &'static str,
}

/// What a process of subscribers is told.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Subscribe {
        transport: Transport,
        server: String,
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
    /// Nanoseconds that each delivery took, and when the last one came.
    Taken {
        latencies: Vec<u64>,
        last: u64,
    },
}

/// What has come to the subscribers of a process.
#[derive(Debug, Default)]
struct Arrivals {
    taken: Mutex<(Vec<u64>, u64)>,
    more: Condvar,
}

impl Arrivals {
    /// An event that was sent then has come.
    fn take(&self, sent: u64) {
        let now = clock::now();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.0.push(now.saturating_sub(sent));
        taken.1 = now;
        self.more.notify_one();
    }

    /// So many, or those that have come when nothing more does.
    fn wait_for(&self, deliveries: usize) -> (Vec<u64>, u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while taken.0.len() < deliveries {
            let before = taken.0.len();
            let (now, wait) = self.more.wait_timeout(taken, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            taken = now;
            if wait.timed_out() && taken.0.len() == before {
                break;
            }
        }
        std::mem::take(&mut *taken)
    }
}

/// Has subscribers as it is told, until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let arrivals = Arc::new(Arrivals::default());
    let mut sinks = Vec::new();
    say_started(out)?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(BenchError::io("reading an order"))?;
        let answer = match serde_json::from_str(&line).map_err(json("reading an order"))? {
            Order::Subscribe { transport, server, count } => {
                sinks.extend(Sink::connect(transport, &server, count, &arrivals)?);
                Answer::Ready
            }
            Order::Take { deliveries } => {
                let (latencies, last) = arrivals.wait_for(deliveries);
                Answer::Taken { latencies, last }
            }
        };
        say_answer(out, &answer)?;
    }
    drop(sinks);
    Ok(())
}

/// A supplier and its subscribers.
struct Crowd {
    source: Source,
    processes: Vec<(Subordinate, u32)>,
    subscribers: u32,
    service: Option<Campanile>,
}

/// What came of a run.
struct Taken {
    latencies: Vec<u64>,
    last: u64,
}

impl Crowd {
    fn gather(transport: Transport, subscribers: u32) -> Result<Self, BenchError> {
        let service = (transport == Transport::Notification).then(Campanile::start).transpose()?;
        let server = service.as_ref().map(|service| service.address().to_string()).unwrap_or_default();
        let mut processes = Vec::new();
        let mut left = subscribers;
        while left > 0 {
            let count = left.min(SUBSCRIBERS_OF_A_PROCESS);
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
        Ok(Self { source, processes, subscribers, service })
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

    /// Publishes at the paper's rate; what came, and how many events there were.
    fn pace(&mut self, seconds: f64) -> Result<(Taken, u64), BenchError> {
        let (period, end) = (clock::nanoseconds(1.0 / RATE), clock::now() + clock::nanoseconds(seconds));
        let (mut due, mut events) = (clock::now(), 0);
        while due < end {
            clock::sleep_until(due)?;
            self.source.publish(clock::now())?;
            events += 1;
            due += period;
        }
        Ok((self.take(events)?, events))
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
    let flood_seconds = if bed.quick() { 1.0 } else { 10.0 };
    let reason = "this experiment does not drive it yet";
    let mut report =
        Report { rows: Vec::new(), floods: Vec::new(), skipped: vec![Skipped { contender: "jacorb", reason }] };
    let mut transports = vec![Transport::Notification];
    if cfg!(feature = "dds") {
        transports.extend([Transport::Dds, Transport::Cyclone]);
    } else {
        let reason = "built without the feature `dds`";
        report.skipped.extend(["dds", "cyclone"].map(|contender| Skipped { contender, reason }));
    }
    for subscribers in SUBSCRIBERS {
        for &transport in &transports {
            out.progress(&format!("{transport:?}, {subscribers} subscribers"))?;
            let mut crowd = Crowd::gather(transport, subscribers)?;
            crowd.pace(warm_up)?;
            let (taken, events) = crowd.pace(seconds)?;
            let lost = crowd.lost(&taken, events);
            let figures = Percentiles::of(taken.latencies).unwrap_or_default();
            report.rows.push(Row {
                transport,
                subscribers,
                mean_us: figures.mean.unwrap_or(f64::INFINITY),
                sd_us: figures.standard_deviation.unwrap_or(f64::INFINITY),
                p99_us: figures.p99,
                max_us: figures.max,
                lost,
            });
        }
    }
    for &transport in &transports {
        out.progress(&format!("{transport:?}, as much as gets through"))?;
        report.floods.push(flood(transport, flood_seconds)?);
    }
    Ok((report.judge(), report))
}

/// Publishes one event after the other for so long.
fn flood(transport: Transport, seconds: f64) -> Result<Flood, BenchError> {
    let mut crowd = Crowd::gather(transport, FLOODED)?;
    crowd.pace(0.3)?;
    let began = clock::now();
    let end = began + clock::nanoseconds(seconds);
    let mut sent = 0;
    while clock::now() < end {
        crowd.source.publish(clock::now())?;
        sent += 1;
    }
    let taken = crowd.take(sent)?;
    let mib = |bytes: u64| crate::latency::ratio(bytes, 1 << 20);
    let pid = crowd.processes.first().map_or(0, |(process, _)| process.pid());
    let of_process = BenchError::io("reading what a process takes");
    let (resident, threads) =
        system::resident_bytes(pid).and_then(|bytes| Ok((bytes, system::threads(pid)?))).map_err(of_process)?;
    let service = crowd.service.as_ref().map(Campanile::process);
    let received = taken.latencies.len() as u64;
    Ok(Flood {
        transport,
        subscribers: FLOODED,
        sent,
        received,
        lost: crowd.lost(&taken, sent),
        received_per_second: crate::latency::ratio(received, 1) / clock::seconds(taken.last.saturating_sub(began)),
        highest_latency_us: Percentiles::of(taken.latencies).unwrap_or_default().max,
        resident_mib: mib(resident),
        threads,
        service_resident_mib: service.map(|process| process.resident_bytes().map(mib)).transpose()?,
        service_threads: service.map(crate::process::Process::threads).transpose()?,
    })
}

impl Report {
    fn judge(&self) -> Vec<Aim> {
        let ours = |transport: Transport| transport != Transport::Cyclone;
        let most = self.rows.iter().filter(|row| row.subscribers == 100 && ours(row.transport)).map(|row| Aim {
            aim: format!("{:?}: the mean at 100 subscribers is below 1 ms, and nothing is lost", row.transport),
            found: format!("{:.0} µs, {} lost", row.mean_us, row.lost),
            met: Some(row.mean_us < MEAN_BELOW_US && row.lost == 0),
        });
        let floods = self.floods.iter().filter(|flood| ours(flood.transport)).map(|flood| Aim {
            aim: format!("{:?}: nothing is lost of as much as gets through", flood.transport),
            found: format!("{} of {} lost", flood.lost, flood.received + flood.lost),
            met: Some(flood.lost == 0),
        });
        most.chain(floods).collect()
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
    vec![
        ("8 KB ten times a second".to_owned(), table(rows(report, "rows"), &columns)),
        ("As many events of 8 KB as get through".to_owned(), table(rows(report, "floods"), &floods)),
        (
            "Who had no turn".to_owned(),
            table(rows(report, "skipped"), &[("contender", "contender"), ("reason", "reason")]),
        ),
    ]
}

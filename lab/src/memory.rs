//! `campanile-bench memory`: what the service keeps in memory for consumers that wait.
//!
//! Very many consumers' proxies, made over very many connections, some by each; each client has its proxies lead to one
//! listener of its own, as a process with several consumers does, so that the service has one connection to each. Resident
//! memory of the service's process is read after each step, and divided. What the kernel keeps for sockets is not in it.
//!
//! A proxy's memory is what the second and further proxies of each client add; what the first adds above that is
//! the connection to the client's listener. It is done three times in one process of the service, since what is freed
//! has to be used again.

mod clients;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;
use serde_json::json;

use crate::campanile::Campanile;
use crate::durable::load::Flood;
use crate::report::Reported;
use crate::{BenchError, Options, Output, clock, latency};
use clients::Clients;

/// Clients of a full measurement of performance, and of a quick one.
pub(crate) const CONNECTIONS: u32 = 1_000;
pub(crate) const QUICK_CONNECTIONS: u32 = 200;
/// Consumers' proxies of each client, where nothing else is asked for.
pub(crate) const PROXIES_EACH: u32 = 10;
/// How often all clients come and go in one process of the service.
const CYCLES: u32 = 3;
/// Descriptors of this process for each client: its connection, its listener, the connection that this accepts, and what polls both.
const DESCRIPTORS_PER_CLIENT: u64 = 4;
/// Octets of payload of an event.
const PAYLOAD: usize = 128;
/// Descriptors for everything else.
const DESCRIPTORS: u64 = 100;

/// What a service keeps for consumers that wait.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Found {
    pub(crate) connections: u32,
    pub(crate) proxies_per_connection: u32,
    pub(crate) created_proxy_bytes: f64,
    pub(crate) connected_proxy_bytes: f64,
    pub(crate) idle_proxy_bytes: f64,
    pub(crate) idle_connection_bytes: f64,
    pub(crate) idle_consumer_connection_bytes: f64,
    pub(crate) threads: [u64; 2],
    pub(crate) after_each_cycle: Vec<u64>,
    pub(crate) steps: Vec<Step>,
}

/// The service after one step.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Step {
    pub(crate) cycle: u32,
    pub(crate) step: &'static str,
    pub(crate) connections: u32,
    pub(crate) proxies: u32,
    pub(crate) resident_bytes: u64,
    pub(crate) threads: u64,
}

const READY: &str = "started, one event delivered";
const OPENED: &str = "connections opened";
const FIRST: &str = "one proxy each, one event";
const CREATED: &str = "all proxies made";
const CONNECTED: &str = "all proxies connected";
const IDLE: &str = "one event to all";
const GONE: &str = "all destroyed and closed";

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let found = measure(options.connections, options.proxies_each, out)?;
    Ok((crate::performance::of_memory(Some(&found)).into(), json!(found)))
}

/// Has so many clients come and go, each with so many proxies.
pub(crate) fn measure(connections: u32, each: u32, out: &mut Output<'_>) -> Result<Found, BenchError> {
    allow_descriptors(u64::from(connections) * DESCRIPTORS_PER_CLIENT + DESCRIPTORS)?;
    let service = Campanile::start()?;
    let mut steps = Vec::new();
    for cycle in 1..=CYCLES {
        let mut scene = Scene { service: &service, cycle, connections: 0, proxies: 0, steps: &mut steps };
        scene.play(connections, each, out)?;
    }
    found((connections, each), steps)
}

/// One coming and going of all clients.
struct Scene<'s> {
    service: &'s Campanile,
    cycle: u32,
    connections: u32,
    proxies: u32,
    steps: &'s mut Vec<Step>,
}

impl Scene<'_> {
    fn play(&mut self, connections: u32, each: u32, out: &mut Output<'_>) -> Result<(), BenchError> {
        let channel = self.service.new_channel()?;
        let mut supplier = Flood::connect(&channel, 1, PAYLOAD)?;
        let mut push = || supplier.run_at_most(1, clock::SECOND, None).map(drop);
        let mut first = Clients::open(&channel, 1)?;
        first.make_proxies(1)?;
        first.connect_proxies()?;
        push()?;
        first.take_events()?;
        (self.connections, self.proxies) = (2, 1);
        self.note(READY, out)?;
        let mut clients = Clients::open(&channel, connections)?;
        self.connections += connections;
        self.note(OPENED, out)?;
        clients.make_proxies(1)?;
        clients.connect_proxies()?;
        push()?;
        first.take_events()?;
        clients.take_events()?;
        self.proxies += connections;
        self.note(FIRST, out)?;
        clients.make_proxies(each - 1)?;
        self.proxies += connections * (each - 1);
        self.note(CREATED, out)?;
        clients.connect_proxies()?;
        self.note(CONNECTED, out)?;
        push()?;
        first.take_events()?;
        clients.take_events()?;
        self.note(IDLE, out)?;
        clients.destroy()?;
        first.destroy()?;
        drop(supplier);
        channel.destroy()?;
        (self.connections, self.proxies) = (0, 0);
        self.note(GONE, out)
    }

    fn note(&mut self, step: &'static str, out: &mut Output<'_>) -> Result<(), BenchError> {
        out.progress(&format!("memory: {} of {CYCLES}: {step}", self.cycle))?;
        let process = self.service.process();
        self.steps.push(Step {
            cycle: self.cycle,
            step,
            connections: self.connections,
            proxies: self.proxies,
            resident_bytes: process.resident_bytes()?,
            threads: process.threads()?,
        });
        Ok(())
    }
}

fn allow_descriptors(wanted: u64) -> Result<(), BenchError> {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let limit = rustix::process::Rlimit { current: Some(wanted), ..before };
    if before.maximum.is_none_or(|maximum| maximum >= wanted) && setrlimit(Resource::Nofile, limit).is_ok() {
        return Ok(());
    }
    let may = before.maximum.unwrap_or(u64::MAX);
    Err(BenchError::Setup {
        doing: format!("getting {wanted} descriptors"),
        reason: format!(
            "this process may have {may}: raise the hard limit (`prlimit --nofile={wanted}:{wanted} campanile-bench memory` as \
             root, or `LimitNOFILE=` of the unit), or take fewer with --connections"
        ),
    })
}

fn found((connections, each): (u32, u32), steps: Vec<Step>) -> Result<Found, BenchError> {
    let first_cycle = |step: &'static str| {
        let found = steps.iter().find(|reading| reading.cycle == 1 && reading.step == step);
        found.map(|reading| reading.resident_bytes).ok_or_else(|| missing(step))
    };
    let per = |from: &'static str, to: &'static str, count: u32| {
        let grown = first_cycle(to)?.saturating_sub(first_cycle(from)?);
        Ok::<f64, BenchError>(latency::ratio(grown, u64::from(count)))
    };
    let further = connections * (each - 1);
    let idle_proxy_bytes = per(FIRST, IDLE, further)?;
    let with_threads = |largest: bool| {
        let threads = steps.iter().map(|step| step.threads);
        if largest { threads.max() } else { threads.min() }.unwrap_or(0)
    };
    Ok(Found {
        connections,
        proxies_per_connection: each,
        created_proxy_bytes: per(FIRST, CREATED, further)?,
        connected_proxy_bytes: per(FIRST, CONNECTED, further)?,
        idle_proxy_bytes,
        idle_connection_bytes: per(READY, OPENED, connections)?,
        idle_consumer_connection_bytes: per(OPENED, FIRST, connections)? - idle_proxy_bytes,
        threads: [with_threads(false), with_threads(true)],
        after_each_cycle: steps.iter().filter(|step| step.step == GONE).map(|step| step.resident_bytes).collect(),
        steps,
    })
}

fn missing(step: &'static str) -> BenchError {
    BenchError::Setup { doing: "dividing what was read".to_owned(), reason: format!("nothing was read after: {step}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_to_do_where_too_many_descriptors_are_needed() {
        let refused = allow_descriptors(1 << 40).unwrap_err().to_string();
        assert!(refused.contains("--connections") && refused.contains("1099511627776"), "{refused}");
    }

    #[test]
    fn what_the_first_proxy_adds_above_the_others_is_its_connection() {
        let step = |step, resident_bytes, threads| Step {
            cycle: 1,
            step,
            connections: 0,
            proxies: 0,
            resident_bytes,
            threads,
        };
        let steps = vec![
            step(READY, 1_000, 5),
            step(OPENED, 3_000, 5),
            step(FIRST, 10_000, 5),
            step(CREATED, 14_000, 5),
            step(CONNECTED, 22_000, 5),
            step(IDLE, 28_000, 6),
            step(GONE, 28_000, 6),
        ];
        let report = found((2, 4), steps).unwrap();
        let proxies = [report.created_proxy_bytes, report.connected_proxy_bytes, report.idle_proxy_bytes];
        let expected = [4_000.0, 12_000.0, 18_000.0].map(|bytes: f64| bytes / 6.0);
        assert!(proxies.iter().zip(expected).all(|(got, wanted)| (got - wanted).abs() < 1e-9), "{proxies:?}");
        assert!((report.idle_connection_bytes - 1_000.0).abs() < 1e-9);
        assert!((report.idle_consumer_connection_bytes - 500.0).abs() < 1e-9);
        assert_eq!((report.threads, report.after_each_cycle), ([5, 6], vec![28_000]));
    }
}

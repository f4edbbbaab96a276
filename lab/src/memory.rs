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

use std::io::Write;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::campanile::Campanile;
use crate::output::write_json;
use crate::table::{Cell, Table};
use crate::{BenchError, Machine, MemoryOptions, Output, latency};
use clients::{Clients, Supplier};

/// Clients of a full measurement, and of a quick one.
pub(crate) const CONNECTIONS: u32 = 1_000;
pub(crate) const QUICK_CONNECTIONS: u32 = 200;
/// Consumers' proxies of each client, where nothing else is asked for.
pub(crate) const PROXIES_EACH: u32 = 10;
/// How often all clients come and go in one process of the service.
const CYCLES: u32 = 3;
/// Descriptors of this process for each client: its connection, its listener, and the connection that this accepts.
const DESCRIPTORS_PER_CLIENT: u64 = 3;
/// Descriptors for everything else.
const DESCRIPTORS: u64 = 100;

/// The whole report: the one JSON object.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Always `memory`.
    pub(crate) benchmark: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What was found.
    #[serde(flatten)]
    pub(crate) found: Found,
}

/// What a service keeps for consumers that wait.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Found {
    /// Clients, each with one connection to the service and one from it.
    pub(crate) connections: u32,
    /// Consumers' proxies of each.
    pub(crate) proxies_per_connection: u32,
    /// Octets for a proxy that was made and is not connected.
    pub(crate) created_proxy_bytes: f64,
    /// Octets for one that is connected and has not had an event.
    pub(crate) connected_proxy_bytes: f64,
    /// Octets for one that has had an event and waits for the next.
    pub(crate) idle_proxy_bytes: f64,
    /// Octets for a connection from a client that has asked something and been answered.
    pub(crate) idle_connection_bytes: f64,
    /// Octets for a connection to a client that has taken an event.
    pub(crate) idle_consumer_connection_bytes: f64,
    /// Threads of the service with the fewest and with the most consumers; more with more consumers would be a defect.
    pub(crate) threads: [u64; 2],
    /// Octets at the end of each time, with all clients gone.
    pub(crate) after_each_cycle: Vec<u64>,
    /// Every reading.
    pub(crate) steps: Vec<Step>,
}

/// The service after one step.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Step {
    /// Counts from 1.
    pub(crate) cycle: u32,
    /// What was done.
    pub(crate) step: &'static str,
    /// Connections of clients that are open.
    pub(crate) connections: u32,
    /// Consumers' proxies there are.
    pub(crate) proxies: u32,
    /// Octets of memory that its process has resident.
    pub(crate) resident_bytes: u64,
    /// Threads of its process.
    pub(crate) threads: u64,
}

const READY: &str = "started, one event delivered";
const OPENED: &str = "connections opened";
const FIRST: &str = "one proxy each, one event";
const CREATED: &str = "all proxies made";
const CONNECTED: &str = "all proxies connected";
const IDLE: &str = "one event to all";
const GONE: &str = "all destroyed and closed";

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &MemoryOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let connections = options.connections.unwrap_or(if options.quick { QUICK_CONNECTIONS } else { CONNECTIONS });
    let mut machine = Machine::describe();
    let found = measure(connections, options.proxies_each, out)?;
    machine.note_stolen();
    out.end_progress()?;
    let report = Report { benchmark: "memory", machine, found };
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_tables(&report, out)?;
    }
    crate::report::judge(&crate::performance::of_memory(Some(&report.found)))
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
        let mut supplier = Supplier::new(&channel)?;
        let mut first = Clients::open(&channel, 1)?;
        first.make_proxies(1)?;
        first.connect_proxies()?;
        supplier.push()?;
        first.take_events()?;
        (self.connections, self.proxies) = (2, 1);
        self.note(READY, out)?;
        let mut clients = Clients::open(&channel, connections)?;
        self.connections += connections;
        self.note(OPENED, out)?;
        clients.make_proxies(1)?;
        clients.connect_proxies()?;
        supplier.push()?;
        first.take_events()?;
        clients.take_events()?;
        self.proxies += connections;
        self.note(FIRST, out)?;
        clients.make_proxies(each - 1)?;
        self.proxies += connections * (each - 1);
        self.note(CREATED, out)?;
        clients.connect_proxies()?;
        self.note(CONNECTED, out)?;
        supplier.push()?;
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

/// Has this process be allowed so many descriptors.
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

impl Found {
    /// What each proxy and each connection takes.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(["what", "bytes each"]);
        for (what, bytes) in [
            ("proxy, made", self.created_proxy_bytes),
            ("proxy, connected", self.connected_proxy_bytes),
            ("proxy, has had an event", self.idle_proxy_bytes),
            ("connection from a client", self.idle_connection_bytes),
            ("connection to a consumer", self.idle_consumer_connection_bytes),
        ] {
            table.row([Cell::from(what), bytes.into()]);
        }
        table
    }
}

fn missing(step: &'static str) -> BenchError {
    BenchError::Setup { doing: "dividing what was read".to_owned(), reason: format!("nothing was read after: {step}") }
}

fn write_tables(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    let found = &report.found;
    writeln!(
        out,
        "{} connections with {} consumers' proxies each; resident memory of the service's process, what the kernel keeps \
         for sockets not included",
        found.connections, found.proxies_per_connection
    )?;
    found.table().write(out)?;
    let [fewest, most] = found.threads;
    writeln!(out, "\nThreads of the service: {fewest} to {most}\n")?;
    let mut table = Table::new(["time", "after", "connections", "proxies", "resident bytes", "threads"]);
    for step in &found.steps {
        table.row([
            u64::from(step.cycle).into(),
            step.step.into(),
            u64::from(step.connections).into(),
            u64::from(step.proxies).into(),
            step.resident_bytes.into(),
            step.threads.into(),
        ]);
    }
    table.write(out)?;
    Ok(())
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

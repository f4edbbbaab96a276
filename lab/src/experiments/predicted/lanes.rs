//! The process of a plan: its lanes share one core, and its components take their time from the processor.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ::campanile::Event;
use component::{
    Failure, Lifecycle, Plan, Ports, Processors, Registry, Server, ServerSettings, Sink, Source, Tick, Timer, component,
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::campanile::setup;
use crate::process::take_orders;
use crate::{BenchError, Output, clock, system};

pub(crate) const COMMAND: &str = "predicted-process";

/// An order to the process: run this plan for so long.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) plan: String,
    pub(super) seconds: f64,
}

/// What was computed of a port, and what it took.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) port: String,
    pub(super) priority: Option<i32>,
    /// Longest response that was computed.
    pub(super) predicted_ns: u64,
    /// Each response that was measured.
    pub(super) measured_ns: Vec<u64>,
}

/// When the tick was due that led to an event, since the beginning.
#[derive(Event, Clone, Debug)]
struct Due {
    at_ns: u64,
}

/// The responses of each port, which components leave here when they are passivated: no lane waits for another one meanwhile.
static RESPONSES: Mutex<BTreeMap<String, Vec<u64>>> = Mutex::new(BTreeMap::new());

fn nanoseconds_at(at: Instant) -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let since = at.saturating_duration_since(*BEGAN.get_or_init(Instant::now));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Takes so much of the processor.
fn work(time_us: u64) {
    let now = || {
        let of_thread = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(of_thread.tv_sec).unwrap_or(0), u32::try_from(of_thread.tv_nsec).unwrap_or(0))
    };
    let end = now() + Duration::from_micros(time_us);
    while now() < end {}
}

fn leave(ports: &Ports, port: &str, responses: &mut Vec<u64>) {
    let port = format!("{}.{port}", ports.instance());
    RESPONSES.lock().unwrap_or_else(PoisonError::into_inner).insert(port, std::mem::take(responses));
}

macro_rules! timers {
    ($($name:ident $interval:literal)*) => {$(
        #[component(lifecycle)]
        struct $name {
            #[timer($interval)]
            tick: Timer,
            #[source]
            done: Source<Due>,
            time_us: u64,
            #[state]
            responses: Vec<u64>,
        }

        impl $name {
            fn on_tick(&mut self, tick: &Tick, _: &Ports) -> Result<(), Failure> {
                let due = Due { at_ns: nanoseconds_at(tick.due) };
                work(self.time_us);
                let sent = self.done.send(&due);
                self.responses.push(nanoseconds_at(Instant::now()).saturating_sub(due.at_ns));
                Ok(sent?)
            }
        }

        impl Lifecycle for $name {
            fn on_passivated(&mut self, ports: &Ports) -> Result<(), Failure> {
                leave(ports, "tick", &mut self.responses);
                Ok(())
            }
        }
    )*};
}

timers! { Every5 "5ms" Every10 "10ms" Every20 "20ms" Every40 "40ms" Every80 "80ms" }

#[component(lifecycle)]
struct Work {
    #[sink]
    due: Sink<Due>,
    #[source]
    done: Source<Due>,
    time_us: u64,
    #[state]
    responses: Vec<u64>,
}

impl Work {
    fn on_due(&mut self, due: &Due, _: &Ports) -> Result<(), Failure> {
        work(self.time_us);
        let sent = self.done.send(due);
        self.responses.push(nanoseconds_at(Instant::now()).saturating_sub(due.at_ns));
        Ok(sent?)
    }
}

impl Lifecycle for Work {
    fn on_passivated(&mut self, ports: &Ports) -> Result<(), Failure> {
        leave(ports, "due", &mut self.responses);
        Ok(())
    }
}

/// Computes the response times of a plan, and runs it.
fn run(order: &Order) -> Result<Vec<Taken>, BenchError> {
    nanoseconds_at(Instant::now());
    let doing = "running a plan";
    let registry = Registry::new()
        .with::<Every5>()
        .with::<Every10>()
        .with::<Every20>()
        .with::<Every40>()
        .with::<Every80>()
        .with::<Work>();
    let plan = Plan::parse(&order.plan).map_err(setup(doing))?;
    let components = [("main".to_owned(), registry.descriptions())].into();
    let times = plan
        .response_times(&components, Processors::One)
        .map_err(|problems| setup(doing)(format!("{problems:?}")))?
        .unwrap_or_default();
    let fifo = |priority| system::run_fifo(u8::try_from(priority).unwrap_or(u8::MAX));
    let mut server =
        Server::deploy(&plan, "main", &registry, ServerSettings::default().priorities(fifo)).map_err(setup(doing))?;
    server.start().map_err(setup(doing))?;
    clock::sleep_until(clock::now() + clock::nanoseconds(order.seconds))?;
    for instance in server.status() {
        server.passivate(&instance.name).map_err(setup(doing))?;
    }
    let mut responses = std::mem::take(&mut *RESPONSES.lock().unwrap_or_else(PoisonError::into_inner));
    let taken = times.ports.into_iter().filter_map(|port| {
        let measured_ns = responses.remove(&port.port)?;
        Some(Taken { predicted_ns: port.response_ns?, priority: port.priority, port: port.port, measured_ns })
    });
    Ok(taken.collect())
}

/// Runs the plans that it is told, until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    take_orders(out, |order| run(&order))
}

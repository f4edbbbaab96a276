//! `campanile-bench component-crashes`: what a component that crashes a thousand times costs its neighbours.
//!
//! A server has a source of a steady stream, two neighbours, and a component that panics when it is told to. Every tenth crash is that of a
//! component in a server of its own, to which the stream goes through a service: its process is killed, and started again by this program.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::set_hook;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::campanile::Event;
use component::{
    Failure, Input, NeighbourChange, Neighbours, Plan, Ports, Registry, RestartPolicy, Server, ServerSettings, Sink,
    Source, Tick, Timer, component,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Bed, Class, PairedRatio};
use crate::campanile::{Campanile, setup};
use crate::crash::settle;
use crate::process::{Subordinate, take_orders};
use crate::report::{Aim, Reported};
use crate::spin::Awake;
use crate::{BenchError, Options, Output, Percentiles, clock, system};

pub(crate) const COMMAND: &str = "component-crashes-process";

const PLAN: &str = include_str!("component_crashes.toml");
/// The neighbours: in another lane than the component that panics, and in its own.
const NEIGHBOURS: [&str; 2] = ["beside", "within"];
/// Interval of the stream.
const INTERVAL_NS: u64 = 1_000_000;
/// Pause before a restart: a thousand of them are not to take longer and longer, nor to end.
const PAUSE: Duration = Duration::from_millis(1);
/// Crashes of a turn, of which the last one is a kill.
const OF_TURN: u32 = 10;
const SECONDS_MAX: f64 = 10.0;

/// The aims.
const P99_MAX: f64 = 1.2;
const GROWTH_MAX: u64 = 256 << 10;

/// A neighbour, and the latencies of its events in each turn without crashes, and with them.
#[derive(Default)]
struct Neighbour {
    quiet: Vec<Vec<u64>>,
    crashing: Vec<Vec<u64>>,
}

/// What the server and the service have resident after so many crashes.
#[derive(Debug, Serialize)]
struct Memory {
    crashes: u32,
    server_bytes: u64,
    service_bytes: u64,
}

struct Stand {
    plan: String,
    main: Subordinate,
    apart: Subordinate,
    /// Where the latter runs.
    core: Option<usize>,
    service: Campanile,
    panics: u64,
    kills: u64,
    /// Crashes after which the component was there again.
    restarts: u64,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    if cfg!(panic = "abort") {
        let reason = "a panic ends this program: build it with `cargo build --profile unwinding` in lab/".to_owned();
        return Err(BenchError::Setup { doing: "having a component panic".to_owned(), reason });
    }
    let seconds = bed.seconds(options, 0.2, 0.5, SECONDS_MAX)?;
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    let mut stand = Stand::start(bed)?;
    // The first turn is for connections and buffers.
    stand.take_turn(0, seconds)?;
    let (mut neighbours, mut memory, mut crashes) = (NEIGHBOURS.map(|_| Neighbour::default()), Vec::new(), 0);
    while crashes < options.rounds {
        out.progress(&format!("{crashes} of {} crashes", options.rounds))?;
        let more = OF_TURN.min(options.rounds - crashes);
        crashes += more;
        let (quiet, crashing) = (stand.take_turn(0, seconds)?, stand.take_turn(more, seconds)?);
        for ((neighbour, quiet), crashing) in neighbours.iter_mut().zip(quiet).zip(crashing) {
            neighbour.quiet.push(quiet);
            neighbour.crashing.push(crashing);
        }
        memory.push(Memory {
            crashes,
            server_bytes: system::resident_bytes(stand.main.pid()).map_err(BenchError::io("reading memory"))?,
            service_bytes: stand.service.process().resident_bytes()?,
        });
    }
    let happened: Happened = stand.main.ask(&Order::End)?;
    let (mut aims, mut rows) = (Vec::new(), Vec::new());
    for (name, Neighbour { quiet, crashing }) in NEIGHBOURS.into_iter().zip(neighbours) {
        let p99 = |turn: &Vec<u64>| Percentiles::of(turn.iter().copied()).map(|latency| latency.p99);
        let [quiet_p99_us, crashing_p99_us] = [&quiet, &crashing].map(|of| of.iter().map(p99).collect::<Vec<_>>());
        let ratio = PairedRatio::of(&crashing_p99_us, &quiet_p99_us);
        let aim = format!("`{name}`: p99 while a component crashes, of that without: at most {P99_MAX} ×");
        aims.push(PairedRatio::at_most(ratio.as_ref(), &aim, P99_MAX));
        let lost = happened.sent.abs_diff(happened.heard.get(name).map_or(0, |heard| heard.events));
        aims.push(Aim::new(format!("`{name}`: no event is lost"), format!("{lost} of {}", happened.sent), lost == 0));
        rows.push(json!({
            "neighbour": name, "lost": lost, "p99_ratio": ratio.map(|ratio| ratio.in_figures()),
            "quiet": Percentiles::of(quiet.into_iter().flatten()), "quiet_p99_us": quiet_p99_us,
            "crashing": Percentiles::of(crashing.into_iter().flatten()), "crashing_p99_us": crashing_p99_us,
        }));
    }
    aims.extend(judge(&stand, &happened, &memory));
    let Stand { panics, kills, restarts, .. } = stand;
    let report = json!({
        "cores_awake": awake.how(),
        "panics": panics, "kills": kills, "restarts": restarts, "told_failed": happened.failed,
        "told_restarted": happened.restarted, "sent": happened.sent, "ticks_left_out": happened.missed,
        "rows": rows, "rounds": memory,
    });
    Ok((aims, report))
}

impl Stand {
    fn start(bed: &Bed) -> Result<Self, BenchError> {
        let (core, fifo) = (bed.cores.middle, bed.real_time().fifo(Class::High.priority()));
        let service = Campanile::start_at(core, fifo)?;
        let plan = PLAN.replace("ADDRESS", &service.address().to_string());
        let (main, _) = deploy(&plan, "main", (bed.cores.ends, fifo))?;
        let (apart, _) = deploy(&plan, "apart", (core, None))?;
        Ok(Self { plan, main, apart, core, service, panics: 0, kills: 0, restarts: 0 })
    }

    /// Lets the stream flow for so long, with so many crashes: the neighbours' latencies.
    fn take_turn(&mut self, crashes: u32, seconds: f64) -> Result<[Vec<u64>; 2], BenchError> {
        self.main.ask::<Happened>(&Order::Tell)?;
        let (began, all_ns) = (clock::now(), clock::nanoseconds(seconds));
        for number in 1..=crashes {
            clock::sleep_until(began + all_ns * u64::from(number) / u64::from(OF_TURN + 1))?;
            let is_there = if number < OF_TURN {
                self.panics += 1;
                self.main.ask(&Order::Crash)?
            } else {
                self.kills += 1;
                self.apart.kill();
                let is_there;
                (self.apart, is_there) = deploy(&self.plan, "apart", (self.core, None))?;
                is_there
            };
            self.restarts += u64::from(is_there);
        }
        clock::sleep_until(began + all_ns)?;
        let mut happened: Happened = self.main.ask(&Order::Tell)?;
        Ok(NEIGHBOURS.map(|name| happened.heard.remove(name).unwrap_or_default().latencies))
    }
}

/// Starts a server of the plan, and says whether the stream has come to it.
fn deploy(plan: &str, server: &str, place: (Option<usize>, Option<u8>)) -> Result<(Subordinate, bool), BenchError> {
    let mut process = Subordinate::start("a server of components", COMMAND, place.0, place.1)?;
    let is_there = process.ask(&Order::Deploy { plan: plan.to_owned(), server: server.to_owned() })?;
    Ok((process, is_there))
}

fn judge(stand: &Stand, happened: &Happened, memory: &[Memory]) -> Vec<Aim> {
    let Stand { panics, kills, restarts, .. } = stand;
    let Happened { failed, restarted, .. } = happened;
    let mut aims = vec![Aim::new(
        "after each crash the component is there again; its neighbour is told of each panic and restart",
        format!("{restarts} of {} times; {failed} and {restarted} of {panics}", panics + kills),
        *restarts == panics + kills && [failed, restarted] == [panics; 2],
    )];
    let early = memory.iter().find(|memory| memory.crashes >= 100);
    if let (Some(early), Some(last)) = (early, memory.last()) {
        let growth = last.server_bytes.saturating_sub(early.server_bytes);
        let kib = |bytes: u64| bytes >> 10;
        aims.push(Aim::new(
            format!("from 100 crashes on the server's resident memory grows by at most {} KiB", kib(GROWTH_MAX)),
            format!(
                "{} KiB, then {}; the service's {} and {}",
                kib(early.server_bytes),
                kib(last.server_bytes),
                kib(early.service_bytes),
                kib(last.service_bytes)
            ),
            (last.crashes > early.crashes).then_some(growth <= GROWTH_MAX),
        ));
    }
    aims
}

/// An order to the process of a server.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Be this server of this plan, and wait for the stream.
    Deploy { plan: String, server: String },
    /// Have the component panic, and wait until it is there again.
    Crash,
    /// Say what has happened.
    Tell,
    /// End the stream, wait until the neighbours have all of it, and say what has happened.
    End,
}

/// What has happened in a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Happened {
    /// Events, and ticks that were left out.
    sent: u64,
    missed: u64,
    /// Changes of the component that panics of which its neighbour was told.
    failed: u64,
    restarted: u64,
    heard: BTreeMap<String, Heard>,
}

/// What an instance got.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Heard {
    events: u64,
    /// Nanoseconds from when an event was due, since they were last told.
    latencies: Vec<u64>,
}

static HAPPENED: Mutex<Happened> =
    Mutex::new(Happened { sent: 0, missed: 0, failed: 0, restarted: 0, heard: BTreeMap::new() });

fn happened() -> MutexGuard<'static, Happened> {
    HAPPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Event, Clone)]
struct Beat {
    due_ns: u64,
}

#[component]
struct Pulse {
    #[timer("1ms")]
    tick: Timer,
    #[source]
    beat: Source<Beat>,
    #[neighbours]
    peers: Neighbours,
}

impl Pulse {
    fn on_tick(&mut self, tick: &Tick, _: &Ports) -> Result<(), Failure> {
        let late_ns = u64::try_from(tick.due.elapsed().as_nanos())?;
        happened().sent += 1;
        happened().missed += tick.missed;
        Ok(self.beat.send(&Beat { due_ns: clock::now().saturating_sub(late_ns + tick.missed * INTERVAL_NS) })?)
    }

    fn on_peers(&mut self, change: &NeighbourChange, _: &Ports) {
        match change.change.as_str() {
            "failed" => happened().failed += 1,
            "restarted" => happened().restarted += 1,
            _ => {}
        }
    }
}

#[component]
struct Hearer {
    #[sink]
    beat: Sink<Beat>,
    #[sink]
    crash: Sink<Beat>,
}

impl Hearer {
    fn on_beat(&mut self, beat: &Beat, ports: &Ports) {
        let latency = clock::now().saturating_sub(beat.due_ns);
        let mut happened = happened();
        let heard = happened.heard.entry(ports.instance().to_owned()).or_default();
        heard.events += 1;
        heard.latencies.push(latency);
    }

    fn on_crash(&mut self, _: &Beat, _: &Ports) {
        panic!("as ordered");
    }
}

/// A server of the plan, with the program's way to the component that panics where that is.
fn start(plan: &str, name: &str) -> Result<(Server, Option<Input<Beat>>), BenchError> {
    let doing = "deploying a plan";
    let restart = RestartPolicy { pause_first: PAUSE, pause_max: PAUSE, restarts_max: u32::MAX, within: PAUSE };
    let registry = Registry::new().with::<Pulse>().with::<Hearer>();
    let plan = Plan::parse(plan).map_err(setup(doing))?;
    let settings = ServerSettings::default().restart(restart);
    let mut server = Server::deploy(&plan, name, &registry, settings).map_err(setup(doing))?;
    let has_brittle = server.life("brittle").is_some();
    let crash = has_brittle.then(|| server.input("brittle.crash")).transpose().map_err(setup(doing))?;
    server.start().map_err(setup(doing))?;
    Ok((server, crash))
}

/// Waits for something, unless nothing comes of it.
fn wait_for(is_there: impl Fn(&Happened) -> bool) -> Result<bool, BenchError> {
    Ok(settle(|| Ok(u64::from(!is_there(&happened()))))? == 0)
}

/// What has happened; latencies are forgotten.
fn tell() -> Happened {
    let mut happened = happened();
    let told = happened.clone();
    happened.heard.values_mut().for_each(|heard| heard.latencies.clear());
    told
}

/// Is a server of the plan, until its input ends.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut deployed: Option<(Server, Option<Input<Beat>>)> = None;
    // Where RUST_BACKTRACE is set, the lane would write a backtrace: 60 ms for the first one.
    set_hook(Box::new(|panic| drop(writeln!(io::stderr(), "{panic}"))));
    take_orders(out, |order| {
        let unasked = || setup("obeying an order")("this server has no such component");
        Ok(match order {
            Order::Deploy { plan, server } => {
                deployed = Some(start(&plan, &server)?);
                json!(wait_for(|happened| !happened.heard.is_empty())?)
            }
            Order::Crash => {
                let before = happened().restarted;
                let crash = deployed.as_ref().and_then(|(_, crash)| crash.as_ref()).ok_or_else(unasked)?;
                crash.send(&Beat { due_ns: 0 }).map_err(setup("having a component crash"))?;
                json!(wait_for(|happened| happened.restarted > before)?)
            }
            Order::Tell => json!(tell()),
            Order::End => {
                let (server, _) = deployed.as_mut().ok_or_else(unasked)?;
                server.passivate("pulse").map_err(setup("ending the stream"))?;
                let has_all = |Happened { sent, heard, .. }: &Happened, name: &str| {
                    heard.get(name).is_some_and(|of_it| of_it.events == *sent)
                };
                wait_for(|happened| NEIGHBOURS.iter().all(|name| has_all(happened, name)))?;
                json!(tell())
            }
        })
    })
}

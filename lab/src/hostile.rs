//! `campanile-bench hostile`: what clients that mean harm, or die, cost everybody else.
//!
//! One supplier pushes small events at a fixed rate to one consumer. Meanwhile another client, from an address of its own,
//! attacks. An attacker takes processor time of the machine whichever service it attacks; therefore each attack is made on
//! another service of the same machine as well, and what counts is the difference. The two, elsewhere and here, alternate
//! in each round. An onlooker asks administration of the service that is attacked something 50 times a second, and reads the memory
//! that it has.
//!
//! With `--together` all attacks are made at once on the one service; a minute after their end it must be at rest. Meanwhile a second
//! service, without attackers, is asked as often, and what counts is how much longer answers take than there.

mod attacks;
mod contention;
mod foe;
mod onlooker;
mod scrapes;

use std::thread;

use serde::Serialize;
use serde_json::json;

use crate::campanile::{Campanile, Ports};
use crate::latency::{Recorder, ratio};
use crate::performance::pool::{Counts, Kept, interval_95};
use crate::report::{Aim, Reported};
use crate::workload::{self, Carrier, Lasting, RunReport, Traffic, View};
use crate::{BenchError, CarriageOptions, Losses, Options, Output, Percentiles, clock, system};
use attacks::{Attack, Scene, Target};
use onlooker::Seen;
use scrapes::Consumers;

/// What an attack came to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) attack: &'static str,
    pub(crate) story: &'static str,
    pub(crate) tries: u64,
    pub(crate) refusals: u64,
    pub(crate) elsewhere: Option<Percentiles>,
    pub(crate) here: Option<Percentiles>,
    pub(crate) p99_ratio: Option<f64>,
    pub(crate) p99_ratio_95: Option<(f64, f64)>,
    pub(crate) flood_rate: Option<f64>,
    pub(crate) administration: Option<Percentiles>,
    pub(crate) administration_beside: Option<Percentiles>,
    pub(crate) administration_ratios: Option<(f64, f64)>,
    pub(crate) resident_bytes_max: u64,
    pub(crate) threads_max: u64,
    pub(crate) losses: Losses,
}

/// At most this many times the p99 beside the same attack on another service; and beside the same flood on another service.
const P99_RATIO_MAX: f64 = 2.0;
const P99_RATIO_OF_FLOOD_MAX: f64 = 1.5;
/// And beside the same scrapes.
const P99_RATIO_OF_SCRAPES_MAX: f64 = 1.2;
/// The `SCHED_FIFO` priority of the clients that are to suffer nothing.
const CLIENTS_PRIORITY: u8 = 50;
/// What part of what the service takes a flood publishes, and for how long that is found out, in nanoseconds.
const OF_SATURATION: f64 = 0.8;
const SATURATED_FOR: u64 = 2 * clock::SECOND;
/// Administration's answers, in microseconds, while all attacks are made together: each, and half of them.
const ANSWER_MAX_US: f64 = 1e6;
/// At most this many times those of a service without attackers, median and p99.
const ANSWER_RATIO_MAX: f64 = 2.0;
const ANSWER_MEDIAN_MAX_US: f64 = 2e4;
/// Processor time, in percent of a core, of a service that is at rest.
const AT_REST_PERCENT: f64 = 0.5;

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let mut chosen = choose(&options.only)?;
    if options.together && options.only.is_empty() {
        // It is measured by itself: what the service takes beside all others is no pace.
        // Nor is being looked at an attack.
        chosen.retain(|attack| ![attacks::FLOOD, attacks::SCRAPES].contains(&attack.name));
    }
    let traffic =
        Traffic { name: "others", suppliers: 1, payload_bytes: 128, rate: options.rate, stagger_ms: 0.0, consumers: 1 };
    traffic.check()?;
    let rounds = if options.together { 1 } else { options.rounds };
    let usual = match (options.together, options.quick) {
        (false, false) => 2.0,
        (false, true) => 1.0,
        (true, false) => 600.0,
        (true, true) => 10.0,
    };
    let seconds = options.seconds.unwrap_or(usual);
    let plan = Plan { traffic, rounds, turn_ns: clock::nanoseconds(seconds), options };
    let (mut rows, mut at_rest) = (Vec::new(), None);
    if options.together {
        let (row, percent) = plan.together(&chosen, out)?;
        (rows, at_rest) = (vec![row], Some(percent));
    } else {
        for attack in &chosen {
            rows.push(plan.alternate(attack, out)?);
        }
    }
    let aims = aims(&rows, at_rest);
    let report = json!({
        "rate": options.rate,
        "clients_real_time": clients_real_time(),
        "attackers_ordinary": options.ordinary,
        "rounds": rounds,
        "seconds": seconds,
        "attacks": rows,
        "cpu_percent_at_rest": at_rest,
    });
    Ok((aims, report))
}

fn choose(only: &[String]) -> Result<Vec<Attack>, BenchError> {
    for key in only {
        if !attacks::ALL.iter().any(|attack| attack.name == key) {
            let told = |of: &Attack| format!("{:<13} {}", of.name, if key == "help" { of.story } else { "" });
            let keys = attacks::ALL.iter().map(|attack| told(attack).trim_end().to_owned()).collect();
            return Err(BenchError::NoContender { option: "--only", key: key.clone(), keys });
        }
    }
    let wanted = |attack: &&Attack| only.is_empty() || only.iter().any(|key| key == attack.name);
    Ok(attacks::ALL.iter().filter(wanted).copied().collect())
}

/// How much of everything.
struct Plan<'a> {
    traffic: Traffic,
    rounds: u32,
    turn_ns: u64,
    options: &'a Options,
}

/// What was measured of one attack.
struct Turns {
    elsewhere: Latencies,
    here: Latencies,
    /// Sequences a second that a flood is held to.
    pace: Option<f64>,
    seen: Seen,
    /// Of the service without attackers.
    beside: Seen,
    tries: u64,
    refusals: u64,
}

/// Latencies of all turns together, and of each.
#[derive(Default)]
struct Latencies {
    all: Recorder,
    turns: Vec<Counts>,
}

impl Latencies {
    /// Takes those of the turn that has ended.
    fn take(&mut self, view: &View<'_>) {
        let mut turn = Recorder::default();
        view.take_latencies(Some(&mut turn));
        self.all.merge(&turn);
        self.turns.push(turn.counts());
    }
}

/// A service that is attacked.
struct Victim {
    service: Campanile,
    ports: Ports,
    /// The consumers that the metrics report by name.
    _scraped: Option<Consumers>,
}

impl Victim {
    fn target(&self) -> Target {
        let Ports { json, tempo, http } = self.ports;
        Target { service: self.service.address(), http, json, tempo }
    }
}

impl Plan<'_> {
    fn start(&self) -> Result<Victim, BenchError> {
        let Options { service, config, .. } = self.options;
        let (service, ports) = Campanile::start_with_ports(service.as_deref(), config.as_deref())?;
        Ok(Victim { service, ports, _scraped: None })
    }

    fn start_for(&self, attack: &Attack, name: &str) -> Result<Victim, BenchError> {
        if attack.name == attacks::SCRAPES {
            scrapes::start(self.options.service.as_deref(), name)
        } else {
            self.start()
        }
    }

    /// One attack on either service in turns.
    fn alternate(&self, attack: &Attack, out: &mut Output<'_>) -> Result<Row, BenchError> {
        let (service, other) = (self.start_for(attack, "here")?, self.start_for(attack, "elsewhere")?);
        let mut turns = Turns::new();
        let run = self.carry(&service.service, |view| {
            if attack.name == attacks::FLOOD {
                out.progress("hostile: flood, what the service takes")?;
                // Of a service that carries the others' events as well: where several addresses have connections, they take turns.
                turns.pace = Some(self.saturation(attack, &service)? * OF_SATURATION);
                settle(&[&service.service])?;
            }
            let pace = turns.pace;
            for round in 1..=self.rounds {
                out.progress(&format!("hostile: {}, round {round} of {}", attack.name, self.rounds))?;
                view.take_latencies(None);
                // It is looked at as well: the onlooker, too, takes processor time, whichever service it asks.
                self.attack(std::slice::from_ref(attack), (&other, None), &mut Turns { pace, ..Turns::new() })?;
                turns.elsewhere.take(view);
                settle(&[&service.service, &other.service])?;
                view.take_latencies(None);
                self.attack(std::slice::from_ref(attack), (&service, None), &mut turns)?;
                turns.here.take(view);
                settle(&[&service.service, &other.service])?;
            }
            Ok(())
        })?;
        Ok(turns.row(attack.name, attack.story, &run))
    }

    /// All of them at once. Also, how much processor time the service takes a minute later.
    fn together(&self, chosen: &[Attack], out: &mut Output<'_>) -> Result<(Row, f64), BenchError> {
        let (service, beside) = (self.start()?, self.start()?);
        let mut turns = Turns::new();
        out.progress("hostile: all attacks at once")?;
        let run = self.carry(&service.service, |view| {
            view.take_latencies(None);
            self.attack(chosen, (&service, Some(&beside)), &mut turns)?;
            turns.here.take(view);
            Ok(())
        })?;
        out.progress("hostile: the service comes to rest")?;
        let rest_ns = clock::nanoseconds(self.options.rest);
        clock::sleep_until(clock::now().saturating_add(rest_ns))?;
        let percent = cpu_percent(&service.service, rest_ns.clamp(clock::SECOND, 10 * clock::SECOND))?;
        Ok((turns.row("together", "all attacks at once", &run), percent))
    }

    fn carry(
        &self,
        service: &Campanile,
        watch: impl FnOnce(&View<'_>) -> Result<(), BenchError>,
    ) -> Result<RunReport, BenchError> {
        let carrier = Carrier::Campanile(service, CarriageOptions::default());
        // The two clients stand for machines of their own. Their threads have the class of this one when they begin.
        let _ = system::run_fifo(CLIENTS_PRIORITY);
        let run = workload::run(&carrier, std::slice::from_ref(&self.traffic), Lasting::until_stopped(), |view| {
            run_as_usual()?;
            watch(view)
        });
        run_as_usual()?;
        run
    }

    /// Attacks a service; the other one is only asked.
    fn attack(
        &self,
        chosen: &[Attack],
        (service, beside): (&Victim, Option<&Victim>),
        turns: &mut Turns,
    ) -> Result<(), BenchError> {
        let until = clock::now() + self.turn_ns;
        let (scenes, seen, of_other) = thread::scope(|scope| {
            let look = |at| move || onlooker::look(at, until);
            let looking = scope.spawn(look(&service.service));
            let beside = beside.map(|beside| scope.spawn(look(&beside.service)));
            let scenes = self.assault(chosen, service.target(), self.turn_ns, turns.pace);
            (scenes, joined(looking), beside.map(joined))
        });
        turns.seen.add(&seen?);
        if let Some(seen) = of_other {
            turns.beside.add(&seen?);
        }
        for scene in scenes? {
            turns.tries += scene.tries;
            turns.refusals += scene.refusals;
        }
        Ok(())
    }

    /// Sequences a second that come through a service when it is flooded with them.
    fn saturation(&self, attack: &Attack, service: &Victim) -> Result<f64, BenchError> {
        let scenes = self.assault(std::slice::from_ref(attack), service.target(), SATURATED_FOR, None)?;
        let events = scenes.iter().map(|scene| scene.received).sum();
        Ok((ratio(events, attacks::FLOOD_BATCH.into()) / clock::seconds(SATURATED_FOR)).max(1.0))
    }

    /// Makes these attacks at the same time, each on a thread of its own.
    fn assault(
        &self,
        chosen: &[Attack],
        target: Target,
        turn_ns: u64,
        pace: Option<f64>,
    ) -> Result<Vec<Scene>, BenchError> {
        let until = clock::now() + turn_ns;
        thread::scope(|scope| {
            let attackers: Vec<_> = chosen
                .iter()
                .map(|attack| {
                    scope.spawn(move || {
                        if !self.options.ordinary {
                            // Attackers stand for other machines, and get of this one what no other process wants. Should that be
                            // refused, they are only stronger.
                            let _ = system::run_only_when_idle();
                        }
                        attack.run(target, until, pace)
                    })
                })
                .collect();
            attackers.into_iter().map(joined).collect()
        })
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn clients_real_time() -> bool {
    let may = system::run_fifo(CLIENTS_PRIORITY).is_ok();
    may && run_as_usual().is_ok()
}

fn run_as_usual() -> Result<(), BenchError> {
    system::run_as_usual().map_err(BenchError::io("giving a real-time priority back"))
}

/// Waits until neither service is busy with what an attack has left behind, but for 10 s at most.
fn settle(services: &[&Campanile]) -> Result<(), BenchError> {
    let until = clock::now() + 10 * clock::SECOND;
    while clock::now() < until {
        let mut busy = false;
        for service in services {
            busy |= cpu_percent(service, clock::SECOND / 10)? > 25.0;
        }
        if !busy {
            break;
        }
    }
    Ok(())
}

/// Processor time that the service takes from now on, for so long, in percent of one core.
fn cpu_percent(service: &Campanile, nanoseconds: u64) -> Result<f64, BenchError> {
    let (began, before) = (clock::now(), service.process().cpu()?);
    clock::sleep_until(began + nanoseconds)?;
    let taken = service.process().cpu()?.saturating_sub(before);
    Ok(100.0 * ratio(taken, clock::now() - began))
}

impl Turns {
    fn new() -> Self {
        let (elsewhere, here) = (Latencies::default(), Latencies::default());
        let (seen, beside) = (Seen::default(), Seen::default());
        Self { elsewhere, here, pace: None, seen, beside, tries: 0, refusals: 0 }
    }

    fn row(&self, attack: &'static str, story: &'static str, run: &RunReport) -> Row {
        let (elsewhere, here) = (self.elsewhere.all.percentiles(), self.here.all.percentiles());
        let (administration, administration_beside) =
            (self.seen.answers.percentiles(), self.beside.answers.percentiles());
        let ratios = |(here, beside): (Percentiles, Percentiles)| (here.median / beside.median, here.p99 / beside.p99);
        let both = [&self.here, &self.elsewhere].map(|latencies| (latencies.turns.as_slice(), Kept::All));
        Row {
            attack,
            story,
            tries: self.tries,
            refusals: self.refusals,
            elsewhere,
            here,
            p99_ratio: elsewhere.zip(here).map(|(elsewhere, here)| here.p99 / elsewhere.p99),
            p99_ratio_95: interval_95(both, 0.99),
            flood_rate: self.pace.map(|pace| pace * f64::from(attacks::FLOOD_BATCH)),
            administration,
            administration_beside,
            administration_ratios: administration.zip(administration_beside).map(ratios),
            resident_bytes_max: self.seen.resident_bytes_max,
            threads_max: self.seen.threads_max,
            losses: run.traffics.first().map(|traffic| traffic.losses).unwrap_or_default(),
        }
    }
}

/// That no other client suffers.
fn aims(rows: &[Row], at_rest: Option<f64>) -> Vec<Aim> {
    let mut aims = Vec::new();
    for row in rows {
        let (name, Losses { lost, out_of_order, .. }) = (row.attack, row.losses);
        let found = format!("{lost} events of others lost, {out_of_order} out of order");
        aims.push(Aim::new(format!("{name}: no event is lost, and all are in order"), found, lost + out_of_order == 0));
        if name == attacks::SCRAPES {
            let found = format!("{} of {} did not", row.refusals, row.tries);
            let aim = format!("{name}: metrics tell of all consumers");
            aims.push(Aim::new(aim, found, row.refusals == 0 && row.tries > 0));
        }
        let times_max = match name {
            attacks::FLOOD => P99_RATIO_OF_FLOOD_MAX,
            attacks::SCRAPES => P99_RATIO_OF_SCRAPES_MAX,
            _ => P99_RATIO_MAX,
        };
        if let Some(times) = row.p99_ratio {
            let aim =
                format!("{name}: the p99 is at most {times_max} times that beside the same attack on another service");
            aims.push(Aim::new(aim, format!("{times:.2}"), times <= times_max));
        }
        if let Some(answers) = row.administration.filter(|_| at_rest.is_some()) {
            let (median, max) = (answers.median / 1e3, answers.max / 1e3);
            aims.push(Aim::new(
                format!("{name}: administration answers within 1 s, half of the time within 20 ms"),
                format!("within {max:.0} ms, half of the time within {median:.1} ms"),
                answers.max <= ANSWER_MAX_US && answers.median <= ANSWER_MEDIAN_MAX_US,
            ));
        }
        if let Some((median, p99)) = row.administration_ratios {
            aims.push(Aim::new(
                format!("administration's answers take at most {ANSWER_RATIO_MAX} times as long as those of a service that is not attacked"),
                format!("a median of {median:.1} times and a p99 of {p99:.1} times"),
                median <= ANSWER_RATIO_MAX && p99 <= ANSWER_RATIO_MAX,
            ));
        }
    }
    aims.extend(at_rest.map(|percent| {
        let aim = format!("after its rest, the service takes at most {AT_REST_PERCENT} % of a core");
        Aim::new(aim, format!("{percent:.2} %"), percent <= AT_REST_PERCENT)
    }));
    aims
}

//! `campanile-bench durable`: what it costs that events outlive the service.
//!
//! Three comparisons; the sides of each take turns within a round. First, persistent throughput of suppliers that may have several
//! unanswered pushes, and of such as wait for each answer, with the store's own engine, driven bare (redb, group commits of as many
//! records of the same size, of which as many are removed again), and with what the same suppliers reach where nothing is kept. Second,
//! the latency of one supplier with one such commit of one record. Third, a best-effort channel's latency beside a busy persistent
//! channel of the same service, with the same alone, and beside one that is as busy and keeps nothing.

mod bare;
pub(crate) mod load;

use std::collections::BTreeMap;

use client::notify::Property;
use serde::Serialize;
use serde_json::{Value, json};

use self::bare::{Bare, Committed};
use self::load::{Consumer, Flood, Paced};
use crate::latency::{Recorder, ratio};
use crate::persistent::{Folder, Serving, Setting};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};
use ::load::campanile::listen;
use ::load::{Form, system};

/// Suppliers of the busy channel, and octets of an event's payload.
const SUPPLIERS: u32 = 64;
/// Pushes that each of them may have unanswered where throughput is measured, as clients do that send asynchronously. With one, how many
/// there can be is a matter of how often the clients are woken.
const WINDOW: usize = 16;
const PAYLOAD: usize = 128;
/// Best-effort events a second, beside which the other channel is busy, and the busy one's.
const BEST_EFFORT_RATE: u64 = 1_000;
const BUSY_RATE: u64 = 4_000;
/// The `SCHED_FIFO` priority of the clients that measure latency; they stand for machines of their own.
const CLIENTS_PRIORITY: u8 = 50;
/// Turns of each side in a round.
const TURNS: u64 = 4;
/// Events that the service is started again with, and those of `--quick`.
const KEPT: u64 = 1_000_000;
const KEPT_QUICK: u64 = 50_000;
/// How long they are waited for.
const KEEPING_AT_MOST: u64 = 180 * clock::SECOND;
/// What is to be shown.
const THROUGHPUT_MIN: f64 = 0.7;
const LATENCY_MAX_US: f64 = 100.0;
const BEST_EFFORT_MAX: f64 = 1.3;
const RECOVERY_MAX_MS: f64 = 1_000.0;

type Counters = BTreeMap<String, u64>;

/// A start after a kill, with events that a consumer has not confirmed.
#[derive(Debug, Serialize)]
struct Recovery {
    events: u64,
    empty_ms: f64,
    full_ms: f64,
    ms_per_million: f64,
    resident_bytes: u64,
}

/// Medians of the rounds' ratios.
#[derive(Debug, Serialize)]
struct Ratios {
    throughput: f64,
    throughput_windowed_within_reach: f64,
    throughput_one_at_a_time: f64,
    throughput_within_reach: f64,
    latency: f64,
    besteffort_p99: f64,
    besteffort_p99_of_busy: f64,
}

/// What one round found.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Round {
    windowed: Throughput,
    #[serde(flatten)]
    one_at_a_time: Throughput,
    bare_commit_us: f64,
    persistent_us: f64,
    besteffort_p99_us: f64,
    besteffort_beside_unkept_p99_us: f64,
    besteffort_beside_p99_us: f64,
    allocations_per_event: f64,
}

/// What a round found of suppliers with so many unanswered pushes each.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Throughput {
    unanswered: usize,
    unkept_per_second: f64,
    persistent_per_second: f64,
    events_per_commit: f64,
    bare_per_second: f64,
    bare_written_per_event: f64,
    persistent_written_per_event: f64,
}

/// What there is to measure.
struct Rig {
    serving: Serving,
    bare: Bare,
    /// The store's channel and one as busy that keeps nothing, and their consumers; and the one that is measured.
    persistent: ::load::campanile::Channel,
    unkept: ::load::campanile::Channel,
    _consumers: [Consumer; 2],
    besteffort: Paced,
    turn_ns: u64,
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let (rounds, turn_ns) = if options.quick { (3, clock::SECOND) } else { (9, 2 * clock::SECOND) };
    let folder = Folder::new("durable", options.on.as_deref())?;
    let mut setting = Setting::new(&folder, "")?;
    let (serving, _) = setting.start()?;
    let persistent = serving.service.new_channel_with(&[Property::new("EventReliability", 1_i16)])?;
    let unkept = serving.service.new_channel_with(&[])?;
    let consumers = [Consumer::connect(&persistent)?, Consumer::connect(&unkept)?];
    // Threads have the class of the one that begins them.
    let clients_real_time = system::run_fifo(CLIENTS_PRIORITY).is_ok();
    let besteffort = Paced::connect(&serving.service.new_channel_with(&[])?);
    run_as_usual()?;
    let record_bytes = record_bytes(&serving, &persistent)?;
    let bare = Bare::open(&folder.file("bare.redb"), record_bytes)?;
    let besteffort = besteffort?;
    let mut rig = Rig { serving, bare, persistent, unkept, _consumers: consumers, besteffort, turn_ns };
    let mut found = Vec::new();
    for round in 0..rounds {
        out.progress(&format!("round {} of {rounds}", round + 1))?;
        found.push(rig.round()?);
    }
    drop(rig);
    out.progress("a start with many events")?;
    let recovery = recover(&folder, if options.quick { KEPT_QUICK } else { KEPT })?;
    let (report, aims) = made((record_bytes, clients_real_time), &found, &recovery);
    Ok((aims, report))
}

/// Octets that the store writes for an event.
fn record_bytes(serving: &Serving, channel: &::load::campanile::Channel) -> Result<u64, BenchError> {
    let counter = |name: &str| Ok::<_, BenchError>(serving.service.counters()?.get(name).copied().unwrap_or(0));
    let before = counter("store_bytes")?;
    let taken = Flood::connect(channel, 1, PAYLOAD)?.run(clock::SECOND / 5, None)?.count();
    let written = counter("store_bytes")?.saturating_sub(before);
    // Beside the record there are its number and, of some, the number of a consumer that is yet to confirm it.
    Ok((written / taken.max(1)).saturating_sub(size_of::<u64>() as u64))
}

impl Rig {
    fn round(&mut self) -> Result<Round, BenchError> {
        let (one_at_a_time, windowed) = (self.throughput(1)?, self.throughput(WINDOW)?);
        let mut round = Round { windowed, one_at_a_time, ..Round::default() };
        let mut one = Flood::connect(&self.persistent, 1, PAYLOAD)?;
        let (mut bare, mut took) = (Committed::default(), Recorder::default());
        for _ in 0..TURNS {
            self.bare.run(1, self.turn_ns / TURNS, &mut bare)?;
            took.merge(&one.run(self.turn_ns / TURNS, None)?);
        }
        (round.bare_commit_us, round.persistent_us) = (bare.commit.quantile_us(0.5), took.quantile_us(0.5));
        self.beside(&mut round)?;
        Ok(round)
    }

    /// Of suppliers with so many unanswered pushes each. Bare commits have as many records as there are suppliers or, if these have several,
    /// as the service's had in the same turn.
    fn throughput(&mut self, unanswered: usize) -> Result<Throughput, BenchError> {
        let mut flood = Flood::with_window(&self.persistent, SUPPLIERS, PAYLOAD, unanswered)?;
        let mut unkept = Flood::with_window(&self.unkept, SUPPLIERS, PAYLOAD, unanswered)?;
        let turn_ns = self.turn_ns / TURNS;
        let mut bare = Committed::default();
        let [mut without, mut with] = [(0, 0); 2];
        let (mut writes, mut written) = (0, 0);
        let run = |flood: &mut Flood, (taken, nanoseconds): &mut (u64, u64)| {
            let began = clock::now();
            *taken += flood.run(turn_ns, None)?.count();
            *nanoseconds += clock::now() - began;
            Ok::<_, BenchError>(())
        };
        for _ in 0..TURNS {
            run(&mut unkept, &mut without)?;
            let (before, taken) = (self.counters()?, with.0);
            let written_before = bare::written_by(self.serving.process.pid());
            run(&mut flood, &mut with)?;
            written += bare::written_by(self.serving.process.pid()).saturating_sub(written_before);
            let commits = by(&before, &self.counters()?, "store_writes");
            writes += commits;
            let at_once = u32::try_from((with.0 - taken) / commits.max(1)).unwrap_or(u32::MAX);
            self.bare.run(if unanswered == 1 { SUPPLIERS } else { at_once.max(1) }, turn_ns, &mut bare)?;
        }
        Ok(Throughput {
            unanswered,
            unkept_per_second: ratio(without.0, 1) / clock::seconds(without.1.max(1)),
            persistent_per_second: ratio(with.0, 1) / clock::seconds(with.1.max(1)),
            events_per_commit: ratio(with.0, writes.max(1)),
            bare_per_second: ratio(bare.records, 1) / clock::seconds(bare.nanoseconds.max(1)),
            bare_written_per_event: ratio(bare.written, bare.records.max(1)),
            persistent_written_per_event: ratio(written, with.0.max(1)),
        })
    }

    fn counters(&self) -> Result<Counters, BenchError> {
        self.serving.service.counters()
    }

    /// Alone, beside a busy channel that keeps nothing and beside one that does, in short turns.
    fn beside(&mut self, round: &mut Round) -> Result<(), BenchError> {
        let turn_ns = self.turn_ns / TURNS;
        let mut unkept = Flood::connect(&self.unkept, SUPPLIERS, PAYLOAD)?;
        let mut kept = Flood::connect(&self.persistent, SUPPLIERS, PAYLOAD)?;
        let [mut alone, mut beside_unkept, mut beside] = [(); 3].map(|()| Recorder::default());
        let (mut allocations, mut events) = (0, 0);
        for _ in 0..TURNS {
            measured(|| self.besteffort.run(turn_ns, BEST_EFFORT_RATE, &mut alone))?;
            self.busily(&mut unkept, &mut beside_unkept)?;
            // Reading them allocates, too.
            let (unread, before) = (self.counters()?, self.counters()?);
            let reading = by(&unread, &before, "lane_allocations");
            self.busily(&mut kept, &mut beside)?;
            let after = self.counters()?;
            allocations += by(&before, &after, "lane_allocations").saturating_sub(reading);
            events += by(&before, &after, "lane_events_in");
        }
        round.besteffort_p99_us = alone.quantile_us(0.99);
        round.besteffort_beside_unkept_p99_us = beside_unkept.quantile_us(0.99);
        round.besteffort_beside_p99_us = beside.quantile_us(0.99);
        round.allocations_per_event = ratio(allocations, events.max(1));
        Ok(())
    }

    /// A turn of the best-effort channel, while these suppliers keep another one busy: they stand for other machines, and get of this one
    /// what no other process wants.
    fn busily(&mut self, busy: &mut Flood, beside: &mut Recorder) -> Result<(), BenchError> {
        let turn_ns = self.turn_ns / TURNS;
        std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let _ = system::run_only_when_idle();
                busy.run(turn_ns, Some(BUSY_RATE))
            });
            measured(|| self.besteffort.run(turn_ns, BEST_EFFORT_RATE, beside))?;
            flood.join().unwrap_or_else(|_| Ok(Recorder::default()))
        })?;
        Ok(())
    }
}

/// Runs the clients that measure latency at a real-time priority, where that may be.
fn measured<R>(run: impl FnOnce() -> Result<R, BenchError>) -> Result<R, BenchError> {
    let _ = system::run_fifo(CLIENTS_PRIORITY);
    let result = run();
    run_as_usual()?;
    result
}

fn run_as_usual() -> Result<(), BenchError> {
    system::run_as_usual().map_err(BenchError::io("giving a real-time priority back"))
}

/// Has so many events kept for a consumer that answers nothing, kills the service and starts it again.
fn recover(folder: &Folder, events: u64) -> Result<Recovery, BenchError> {
    let mut setting = Setting::new(folder, "")?;
    setting.data = folder.file("many");
    let (serving, _) = setting.start()?;
    let qos = [Property::new("EventReliability", 1_i16), Property::new("MemoryBudget", 1_u64 << 30)];
    let channel = serving.service.new_channel_with(&qos)?;
    serving.kill();
    let (serving, empty) = setting.start()?;
    let mute = listen()?;
    let address = mute.local_addr().map_err(BenchError::io("reading the address of a consumer"))?;
    channel.connect_consumer(address, b"mute", Form::Structured, &[])?;
    let mut flood = Flood::connect(&channel, SUPPLIERS, PAYLOAD)?;
    let mut taken = 0;
    // A slow disk has fewer of them.
    let until = clock::now() + KEEPING_AT_MOST;
    while taken < events && clock::now() < until {
        taken += flood.run(clock::SECOND / 2, None)?.count();
    }
    serving.kill();
    let (serving, full) = setting.start()?;
    let events = serving.service.counters()?.get("events_restored").copied().unwrap_or(0);
    let [empty_ms, full_ms] = [empty, full].map(|took| clock::seconds(took) * 1e3);
    let ms_per_million = (full_ms - empty_ms).max(0.0) / ratio(events.max(1), 1_000_000);
    let resident_bytes = serving.process.resident_bytes()?;
    Ok(Recovery { events, empty_ms, full_ms, ms_per_million, resident_bytes })
}

fn by(before: &Counters, after: &Counters, name: &str) -> u64 {
    let of = |counters: &Counters| counters.get(name).copied().unwrap_or(0);
    of(after).saturating_sub(of(before))
}

pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// The middle one of each figure; the figures of figures, too.
fn middle(rounds: &[Value]) -> Value {
    match rounds.first() {
        Some(Value::Object(members)) => {
            let of = |name: &str| middle(&rounds.iter().map(|round| round[name].clone()).collect::<Vec<Value>>());
            members.keys().map(|name| (name.clone(), of(name))).collect()
        }
        _ => json!(median(rounds.iter().filter_map(Value::as_f64))),
    }
}

fn made((record_bytes, clients_real_time): (u64, bool), rounds: &[Round], recovery: &Recovery) -> (Value, Vec<Aim>) {
    let of = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick));
    let throughput = |of_round: fn(&Round) -> &Throughput, is_within_reach: bool| {
        median(rounds.iter().map(of_round).map(|found| {
            let most = if is_within_reach { found.unkept_per_second } else { f64::INFINITY };
            found.persistent_per_second / found.bare_per_second.min(most)
        }))
    };
    let ratios = Ratios {
        throughput: throughput(|round| &round.windowed, false),
        throughput_windowed_within_reach: throughput(|round| &round.windowed, true),
        throughput_one_at_a_time: throughput(|round| &round.one_at_a_time, false),
        throughput_within_reach: throughput(|round| &round.one_at_a_time, true),
        latency: of(|round| round.persistent_us / round.bare_commit_us),
        besteffort_p99: of(|round| round.besteffort_beside_p99_us / round.besteffort_p99_us),
        besteffort_p99_of_busy: of(|round| round.besteffort_beside_p99_us / round.besteffort_beside_unkept_p99_us),
    };
    let middle = middle(&rounds.iter().map(|round| json!(round)).collect::<Vec<Value>>());
    let allocations = of(|round| round.allocations_per_event);
    let added = of(|round| round.persistent_us - round.bare_commit_us);
    let aims = aims(&ratios, (allocations, added), recovery);
    let report = json!({
        "record_bytes": record_bytes, "clients_real_time": clients_real_time, "ratios": ratios, "middle": middle,
        "recovery": recovery, "rounds": rounds
    });
    (report, aims)
}

/// What is to be shown, and what was found. `allocations`: of lanes for an event; `added`: how much longer one supplier waits than a commit takes, in µs.
fn aims(ratios: &Ratios, (allocations, added): (f64, f64), recovery: &Recovery) -> Vec<Aim> {
    vec![
        Aim::new(
            format!(
                "persistent throughput of 64 suppliers with up to {WINDOW} unanswered pushes, of the engine's: at least {THROUGHPUT_MIN}"
            ),
            format!("{:.2}", ratios.throughput),
            ratios.throughput >= THROUGHPUT_MIN,
        ),
        Aim::new(
            format!(
                "the same of what the machine lets them have (the engine, or suppliers of which nothing is kept): at least \
                 {THROUGHPUT_MIN}"
            ),
            format!("{:.2}", ratios.throughput_windowed_within_reach),
            ratios.throughput_windowed_within_reach >= THROUGHPUT_MIN,
        ),
        Aim::new(
            format!("one supplier's latency above that of a commit: at most {LATENCY_MAX_US} µs"),
            format!("{added:.0} µs"),
            added <= LATENCY_MAX_US,
        ),
        Aim::new(
            format!(
                "a best-effort channel's p99 beside a busy persistent one, of that alone: at most {BEST_EFFORT_MAX}"
            ),
            format!("{:.2}", ratios.besteffort_p99),
            ratios.besteffort_p99 <= BEST_EFFORT_MAX,
        ),
        Aim::new("allocations of lanes for an event then: below 0.01", format!("{allocations:.4}"), allocations < 0.01),
        Aim::new(
            format!("recovery for a million events kept: at most {RECOVERY_MAX_MS} ms"),
            format!("{:.0} ms ({} events)", recovery.ms_per_million, recovery.events),
            recovery.events > 0 && recovery.ms_per_million <= RECOVERY_MAX_MS,
        ),
    ]
}

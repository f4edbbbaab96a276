//! `campanile-bench components`: what a container costs its components, in one process and in two that a channel joins (Deng et al., 4.2,
//! figures 13 to 16).
//!
//! In one process the container's calls stand beside direct calls of `dyn` consumers that do the same work; in two processes a channel with
//! containers at its ends stands beside the same channel with the simple API alone. The latency of an event is that to the last sink.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Bed, Class, PairedRatio, quotient};
use crate::campanile::Campanile;
use crate::latency::ratio;
use crate::process::Subordinate;
use crate::report::{Aim, Reported};
use crate::spin::Awake;
use crate::{BenchError, Options, Output, Percentiles, Spread, clock};
use ends::{Came, Order, Role, Sent, Turn, Way};

pub(crate) mod ends;
pub(crate) mod placements;

/// Sinks of a source, and octets of an event.
const SINKS: [u32; 5] = [1, 5, 10, 20, 50];
const SINKS_QUICK: [u32; 2] = [1, 50];
const PAYLOADS: [u32; 4] = [64, 1_024, 8_192, 65_536];
const PAYLOADS_QUICK: [u32; 2] = [64, 65_536];
/// Events of a turn in one process.
const EVENTS: u64 = 2_000;
const EVENTS_QUICK: u64 = 200;
/// Between two processes, events a second, and deliveries to all sinks together: a part of what these cores could carry.
const RATE_MAX: u64 = 1_000;
const DELIVERIES_MAX: u64 = 2_500;
/// Events of a turn at least, and seconds of a turn at most: a process answers within half a minute.
const EVENTS_MIN: u64 = 5;
const SECONDS_MAX: f64 = 10.0;

/// The aims.
const DIRECT_MAX: f64 = 1.25;
const CHANNEL_MAX: f64 = 1.05;
const PAPER_MAX: f64 = 1.25;

crate::report::kinds! {
    /// Where a source and its sinks are.
    enum Place {
        /// In one process.
        Collocated = "collocated",
        /// The source in one and all sinks in another.
        TwoProcesses = "two processes",
    }
}

/// A turn: its median latency, and in one process the time of an event, without a reading of the clock for each.
#[derive(Debug, Serialize)]
struct Round {
    median_us: Option<f64>,
    event_ns: Option<f64>,
}

/// One contender with so many sinks and events of so many octets.
struct Row {
    place: Place,
    contender: &'static str,
    sinks: u32,
    payload_bytes: u32,
    rounds: Vec<Round>,
    latencies: Vec<u64>,
    lost: u64,
}

/// What is compared: the contender without a container, and the one with it.
type Pair = [Row; 2];

/// The processes of a number of sinks.
struct Contest {
    collocated: Subordinate,
    /// A source and its sinks, without containers and with them.
    apart: [(Subordinate, Subordinate); 2],
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let seconds = bed.seconds(options, 0.1, 0.25, SECONDS_MAX)?;
    let of_one = if bed.quick() { EVENTS_QUICK } else { EVENTS };
    let payloads = if bed.quick() { &PAYLOADS_QUICK[..] } else { &PAYLOADS };
    // A core that dozes off and has to be woken would be most of a latency.
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    let service = Campanile::start_at(bed.cores.middle, bed.real_time().fifo(Class::High.priority()))?;
    let mut pairs = Vec::new();
    for &sinks in bed.loads(options, &SINKS_QUICK, &SINKS) {
        Options::check("--loads", f64::from(sinks), 100.0)?;
        out.progress(&format!("connecting {sinks} sinks"))?;
        let mut contest = Contest::start(bed, &service, sinks)?;
        let pairs_of = || {
            let of = |place| payloads.iter().map(move |payload| pair(place, sinks, *payload));
            Place::ALL.into_iter().flat_map(of).collect::<Vec<_>>()
        };
        // The first turns are for connections and buffers.
        pairs_of().iter_mut().try_for_each(|pair| contest.take_turns(pair, of_one, seconds, false))?;
        let mut of_these = pairs_of();
        for round in 1..=options.rounds {
            out.progress(&format!("{sinks} sinks, round {round} of {}", options.rounds))?;
            for pair in &mut of_these {
                contest.take_turns(pair, of_one, seconds, round % 2 == 0)?;
            }
        }
        pairs.extend(of_these);
    }
    let aims = judge(&pairs);
    let small = |place| pairs.iter().find(|[row, _]| row.place == place).and_then(|[_, row]| row.median_us());
    let report = json!({
        "cores_awake": awake.how(), "turns": options.rounds,
        "two_processes_ratio": quotient(small(Place::TwoProcesses), small(Place::Collocated)),
        "ratios": {
            "collocated_one": collocated(&pairs, 1).map(|ratio| ratio.median),
            "collocated_fifty": collocated(&pairs, 50).map(|ratio| ratio.median),
            "two_processes": two_processes(&pairs).map(|ratio| ratio.median),
        },
        "rows": pairs.iter().flat_map(in_figures).collect::<Vec<_>>(),
    });
    Ok((aims, report))
}

impl Contest {
    fn start(bed: &Bed, service: &Campanile, sinks: u32) -> Result<Self, BenchError> {
        let place = place_of_ends(bed);
        let apart = |has_container: bool| {
            let channel = format!("Components-{sinks}-{has_container}");
            let way = Way { server: service.address().to_string(), channel, has_container };
            // Sinks first: what is published before they are there is not for them.
            let sinks = start("the process of sinks", Role::Sinks(way.clone(), sinks), place)?;
            Ok::<_, BenchError>((start("the process of a source", Role::Source(way), place)?, sinks))
        };
        // One thread that is always busy would be throttled at a real-time priority.
        let collocated = start("components in one process", Role::Collocated(sinks), (bed.cores.ends, None))?;
        Ok(Self { collocated, apart: [apart(false)?, apart(true)?] })
    }

    /// Has both contenders take a turn, the container first if that is said. In one process a turn has this many events.
    fn take_turns(&mut self, pair: &mut Pair, of_one: u64, seconds: f64, is_reversed: bool) -> Result<(), BenchError> {
        let [floor, container] = pair;
        let [without, with] = &mut self.apart;
        let mut contenders = [(floor, without, false), (container, with, true)];
        if is_reversed {
            contenders.reverse();
        }
        for (row, (source, sinks), has_container) in contenders {
            let (events, period_ns) = match row.place {
                Place::Collocated => (of_one, 0),
                Place::TwoProcesses => pace(row.sinks, seconds),
            };
            let called = if has_container || period_ns > 0 { 0 } else { row.sinks };
            let turn = Turn { events, octets: row.payload_bytes, period_ns, called };
            let (latencies, event_ns) = if period_ns == 0 {
                let sent: Sent = self.collocated.ask(&Order::Send(turn))?;
                (sent.each_ns, Some(ratio(sent.all_ns, events)))
            } else {
                (carry(source, sinks, turn)?.latencies, None)
            };
            let median_us = Percentiles::of(latencies.iter().copied()).map(|of_turn| of_turn.median);
            row.rounds.push(Round { median_us, event_ns });
            row.lost += events.saturating_sub(latencies.len() as u64);
            row.latencies.extend(latencies);
        }
        Ok(())
    }
}

/// The core of both ends between processes, and their real-time priority.
fn place_of_ends(bed: &Bed) -> (Option<usize>, Option<u8>) {
    (bed.cores.ends, bed.real_time().fifo(Class::High.priority()))
}

fn start(name: &'static str, role: Role, (core, fifo): (Option<usize>, Option<u8>)) -> Result<Subordinate, BenchError> {
    let mut process = Subordinate::start(name, ends::COMMAND, core, fifo)?;
    process.ask::<()>(&Order::Be(role))?;
    Ok(process)
}

/// Events of a turn to so many sinks in another process, and nanoseconds from one to the next.
fn pace(sinks: u32, seconds: f64) -> (u64, u64) {
    let period = clock::SECOND / (DELIVERIES_MAX / u64::from(sinks)).clamp(1, RATE_MAX);
    ((clock::nanoseconds(seconds) / period).max(EVENTS_MIN), period)
}

/// Has a source send to sinks in another process.
fn carry(source: &mut Subordinate, sinks: &mut Subordinate, turn: Turn) -> Result<Came, BenchError> {
    sinks.ask::<()>(&Order::Expect(turn.events))?;
    source.ask::<Sent>(&Order::Send(turn))?;
    sinks.ask(&Order::Tell)
}

fn pair(place: Place, sinks: u32, payload_bytes: u32) -> Pair {
    let contenders = match place {
        Place::Collocated => ["direct calls", "container"],
        Place::TwoProcesses => ["channel alone", "containers at the channel"],
    };
    let row =
        |contender| Row { place, contender, sinks, payload_bytes, rounds: Vec::new(), latencies: Vec::new(), lost: 0 };
    contenders.map(row)
}

impl Row {
    fn latency(&self) -> Option<Percentiles> {
        Percentiles::of(self.latencies.iter().copied())
    }

    fn median_us(&self) -> Option<f64> {
        self.latency().map(|latency| latency.median)
    }
}

/// The figures of both over all turns, those of a container with their ratios to the contender without.
fn in_figures(pair: &Pair) -> [Value; 2] {
    let ratio =
        |of_turn: fn(&Round) -> Option<f64>| pooled([pair].into_iter(), of_turn).map(|ratio| ratio.in_figures());
    let ratios = [ratio(|turn| turn.median_us), ratio(|turn| turn.event_ns)];
    let row = |row: &Row, [latency_ratio, event_ratio]: [Option<Value>; 2]| {
        let event_ns = Spread::of(row.rounds.iter().filter_map(|turn| turn.event_ns)).map(|spread| spread.median);
        json!({
            "place": row.place, "contender": row.contender, "sinks": row.sinks, "payload_bytes": row.payload_bytes,
            "latency": row.latency(), "event_ns": event_ns, "lost": row.lost, "latency_ratio": latency_ratio,
            "event_ratio": event_ratio, "rounds": row.rounds,
        })
    };
    let [floor, container] = pair;
    [row(floor, [None, None]), row(container, ratios)]
}

/// The ratio of containers to the contenders without, over all turns of these pairs.
fn pooled<'p>(pairs: impl Iterator<Item = &'p Pair>, of_turn: fn(&Round) -> Option<f64>) -> Option<PairedRatio> {
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for [floor, container] in pairs {
        below.extend(floor.rounds.iter().map(of_turn));
        above.extend(container.rounds.iter().map(of_turn));
    }
    PairedRatio::of(&above, &below)
}

/// The ratio of the time of an event to so many sinks in one process.
fn collocated(pairs: &[Pair], sinks: u32) -> Option<PairedRatio> {
    let of = pairs.iter().filter(|[row, _]| row.place == Place::Collocated && row.sinks == sinks);
    pooled(of, |turn| turn.event_ns)
}

/// The ratio of the median latencies between two processes.
fn two_processes(pairs: &[Pair]) -> Option<PairedRatio> {
    pooled(pairs.iter().filter(|[row, _]| row.place == Place::TwoProcesses), |turn| turn.median_us)
}

fn judge(pairs: &[Pair]) -> Vec<Aim> {
    let at = |place| pairs.iter().filter(move |[row, _]| row.place == place);
    let mut all_sinks: Vec<u32> = at(Place::Collocated).map(|[row, _]| row.sinks).collect();
    all_sinks.dedup();
    let at_most = |ratio: Option<PairedRatio>, aim: &str, bound: f64| {
        PairedRatio::at_most(ratio.as_ref(), &format!("{aim} at most {bound} ×"), bound)
    };
    let mut aims = Vec::new();
    for sinks in [1, 50].into_iter().filter(|sinks| all_sinks.contains(sinks)) {
        let aim = format!("collocated, sinks: {sinks}: the time of an event, of as many direct dynamic calls':");
        aims.push(at_most(collocated(pairs, sinks), &aim, DIRECT_MAX));
    }
    for &sinks in &all_sinks {
        let of_these = at(Place::TwoProcesses).filter(|[row, _]| row.sinks == sinks);
        let aim = format!("two processes, sinks: {sinks}: the median latency, of the channel's alone:");
        aims.push(at_most(pooled(of_these, |turn| turn.median_us), &aim, CHANNEL_MAX));
    }
    let all = two_processes(pairs);
    let aim = "two processes: as the paper's (figures 15 and 16: 70 to 80 % of the performance without a container):";
    aims.push(at_most(all, aim, PAPER_MAX));
    let most = all_sinks.iter().copied().max().unwrap_or(1);
    for place in Place::ALL.into_iter().filter(|_| most > 1 && all_sinks.contains(&1)) {
        let of = |sinks| at(place).filter(move |[row, _]| row.sinks == sinks).filter_map(|[_, row]| row.median_us());
        let worst = of(most).zip(of(1)).map(|(most, one)| most / one).max_by(f64::total_cmp);
        let aim = format!(
            "{}: the latency to the last of {most} sinks, of that to one (figures 14 and 16: \"less than linear\"):",
            place.name()
        );
        let found = worst.map_or_else(|| "no events to compare".to_owned(), |worst| format!("{worst:.1} ×"));
        aims.push(Aim::new(format!("{aim} below {most} ×"), found, worst.map(|worst| worst < f64::from(most))));
    }
    let lost: u64 = pairs.iter().flatten().map(|row| row.lost).sum();
    aims.push(Aim::new("every event comes to all sinks", format!("{lost} did not"), lost == 0));
    aims
}

//! What is measured: latency at fixed rates, throughput, and time to the first and the last of many consumers.

use super::cells::{Cell, Figures};
use super::contender::{Consume, Contender, OURS, Scenario, Supply};
use super::course::{Outcome, Plan};
use super::ends::Span;
use super::pool::{Kept, percentiles};
use super::race::{Missing, Race};
use crate::latency::{Recorder, ratio};
use crate::{BenchError, Output, clock};

/// Octets of payload of an event.
const PAYLOADS: [u32; 5] = [SMALL, 128, 1024, 8 * 1024, 34 * 1024];

/// The smallest of them.
const SMALL: u32 = 64;

/// The payload by which contenders are judged.
const JUDGED: u32 = 128;

/// Events a second.
const RATES: [f64; 3] = [250.0, 1000.0, 10_000.0];

/// Consumers, each given every event.
const CONSUMERS: [u32; 10] = [1, 10, 20, 30, 50, 60, 75, 100, 300, 1000];

/// Payload and rate of the fan-out, and of what it is compared by.
const FAN_OUT_PAYLOAD: u32 = 8 * 1024;
const FAN_OUT_RATE: f64 = 10.0;

/// The consumers, and their processes, by which a fan-out is judged.
const JUDGED_CROWD: (u32, u32) = (100, 10);

/// What may wait for a consumer of the service until the publisher has to, where as many events are sent as get through.
const QUEUE: u32 = 4096;

/// Window of a publisher that does not wait for each acknowledgement, and of the pushes to a consumer of it.
const WINDOW: u32 = 256;
const PUSH_WINDOW: u16 = 256;

/// Events of a sequence, and sequences that may be unacknowledged.
const SEQUENCE: u32 = 64;
const SEQUENCES: u32 = 8;
const SEQUENCE_WINDOW: u16 = 8;

/// The relay, once more: what the harness says of two contenders that are the same.
pub(super) const AGAIN: &str = "relay-again";

/// What two are measured in that run at the same time.
pub(super) const SIDE_BY_SIDE: &str = "side by side";

/// The contenders that run with Campanile: its latency is judged by them.
const BESIDE_OURS: [&str; 4] = ["relay", "jacorb", "omnievents", "nats"];

/// Events a second of each of the two.
pub(super) const SIDE_BY_SIDE_RATE: f64 = 250.0;

/// The contenders in the whole of the fan-out; the others are in a part of it.
const IN_WHOLE_FAN_OUT: [&str; 2] = ["campanile", "writev"];

/// Contenders with queues without bound: to a hundred consumers, a publisher that asks for no acknowledgement fills them for minutes.
const UNBOUNDED: [&str; 2] = ["jacorb", "omnievents"];

/// What a run does, and how long.
pub(super) struct Bench<'a> {
    pub(super) contenders: &'a [&'static Contender],
    pub(super) quick: bool,
    /// Rounds of most scenarios.
    pub(super) rounds: u32,
    /// The first and the last core, if there are two.
    pub(super) cores: Option<(usize, usize)>,
    pub(super) missing: Missing,
    pub(super) cells: Vec<Cell>,
}

/// Seconds of a turn, with events that do not count before.
pub(super) fn plan(rate: f64, warm_up: f64, window: f64) -> Plan {
    Plan {
        period: if rate > 0.0 { clock::nanoseconds(1.0 / rate) } else { 0 },
        warm_up: clock::nanoseconds(warm_up),
        window: clock::nanoseconds(window),
        spans: false,
        late: 0,
        counted: false,
    }
}

impl Bench<'_> {
    /// Measures everything.
    pub(super) fn measure(&mut self, out: &mut Output<'_>) -> Result<(), BenchError> {
        let payloads: &[u32] = if self.quick { &[SMALL, JUDGED, 8 * 1024] } else { &PAYLOADS };
        for &payload in payloads {
            self.latency(payload, true, out)?;
        }
        self.latency(JUDGED, false, out)?;
        self.side_by_side(out)?;
        for &payload in payloads {
            self.throughput(payload, out)?;
        }
        self.delivery(out)?;
        self.steadiness(out)?;
        self.fan_out(out)
    }

    /// A race of those contenders that take part, which is as most are: as many rounds, and the usual warm-up.
    fn race_of(&self, experiment: &'static str, take_part: impl Fn(&str) -> bool, scenario: Scenario) -> Race {
        let those = self.contenders.iter().copied().filter(|contender| take_part(contender.key)).collect();
        Race { rounds: self.rounds, ..Race::new(experiment, (self.quick, self.warm_up()), those, scenario) }
    }

    fn race(&mut self, race: &Race, out: &mut Output<'_>) -> Result<(), BenchError> {
        let cells = race.run(&mut self.missing, out)?;
        self.cells.extend(cells);
        Ok(())
    }

    /// One publisher, one consumer, events at fixed times.
    fn latency(&mut self, payload: u32, pinned: bool, out: &mut Output<'_>) -> Result<(), BenchError> {
        let scenario = Scenario::one_to_one(payload).on(self.cores.filter(|_| pinned));
        // What contenders are judged by is taken in many short turns. Else a thousand events at least, so that p99.9 is one of
        // several; half of that at the lowest rate, where it takes longest.
        let judged = payload == JUDGED && pinned;
        let events = if payload == JUDGED { 1100.0 } else { 550.0 };
        let seconds = |rate: f64| match (self.quick, judged) {
            (true, _) => 0.3,
            (false, true) if rate < 500.0 => 1.0,
            (false, true) if rate < 5000.0 => 0.2,
            (false, true) => 0.5,
            (false, false) => (events / rate).max(1.0),
        };
        let rates: &[f64] = if self.quick { &[250.0, 10_000.0] } else { &RATES };
        let race = Race {
            rounds: match (self.quick, judged) {
                (_, false) => self.rounds,
                (true, true) => 3 * self.rounds,
                (false, true) => 10 * self.rounds,
            },
            pooled: judged.then_some(Kept::ButTheWorst),
            plans: rates.iter().map(|&rate| plan(rate, 0.1, seconds(rate))).collect(),
            ..self.race_of("latency", |key| key != "writev" && (key != AGAIN || payload == JUDGED), scenario)
        };
        self.race(&race, out)
    }

    /// The latency by which contenders are judged at the lowest rate, of two that run at the same time: what this machine does
    /// every second or two decides it, and thus falls on both. The last two are the same.
    fn side_by_side(&mut self, out: &mut Output<'_>) -> Result<(), BenchError> {
        if self.cores.is_none() {
            return Ok(());
        }
        let pairs = BESIDE_OURS.map(|other| [OURS, other]);
        for pair in pairs.into_iter().chain([["relay", AGAIN]]) {
            let scenario = Scenario::one_to_one(JUDGED).on(self.cores);
            let race = Race {
                rounds: 3 * self.rounds,
                pooled: Some(Kept::All),
                at_once: true,
                plans: vec![plan(SIDE_BY_SIDE_RATE, 0.1, if self.quick { 0.3 } else { 10.0 })],
                ..self.race_of(SIDE_BY_SIDE, |key| pair.contains(&key), scenario)
            };
            if race.contenders.len() == pair.len() {
                self.race(&race, out)?;
            }
        }
        Ok(())
    }

    /// One publisher, one consumer, as many events as get through.
    fn throughput(&mut self, payload: u32, out: &mut Output<'_>) -> Result<(), BenchError> {
        for (supply, consume) in [
            (Supply::TwoWay, Consume::TwoWay(None)),
            (Supply::Windowed(WINDOW), Consume::TwoWay(Some(PUSH_WINDOW))),
            (Supply::OneWay, Consume::OneWay),
            (Supply::Sequences(SEQUENCE, SEQUENCES), Consume::Sequences(SEQUENCE, Some(SEQUENCE_WINDOW))),
        ] {
            let is_two_way = supply == Supply::TwoWay;
            let again = payload == JUDGED && is_two_way;
            // One event at a time is at one party at a time: how many get through is first of all a matter of which of
            // the three share a core, and how soundly the other one sleeps. That is decided here and not by the scheduler.
            let cores = self.cores.filter(|_| is_two_way);
            let scenario = Scenario { supply, consume, queue: QUEUE, ..Scenario::one_to_one(payload) }.on(cores);
            self.saturate(scenario, |key| key != "writev" && (key != AGAIN || again), out)?;
        }
        if payload == SMALL {
            // The third kind of proxy. The peers' events are as before, whatever they are.
            let one = Scenario { anys: true, queue: QUEUE, ..Scenario::one_to_one(payload) };
            let (supply, consume) = (Supply::Windowed(WINDOW), Consume::TwoWay(Some(PUSH_WINDOW)));
            for scenario in [one, Scenario { supply, consume, ..one }] {
                self.saturate(scenario, |key| ["campanile", "relay"].contains(&key), out)?;
            }
        }
        Ok(())
    }

    /// What a delivery costs to each of a hundred consumers in ten processes.
    fn delivery(&mut self, out: &mut Output<'_>) -> Result<(), BenchError> {
        for (supply, consume) in [
            (Supply::TwoWay, Consume::TwoWay(None)),
            (Supply::Windowed(WINDOW), Consume::TwoWay(Some(PUSH_WINDOW))),
            (Supply::OneWay, Consume::OneWay),
        ] {
            let (consumers, processes) = JUDGED_CROWD;
            let crowd = Scenario { consumers, processes, ..Scenario::one_to_one(SMALL) };
            let scenario = Scenario { supply, consume, queue: QUEUE, ..crowd };
            let bounded = |key: &str| supply != Supply::OneWay || !UNBOUNDED.contains(&key);
            self.saturate(scenario, |key| key != AGAIN && bounded(key), out)?;
        }
        Ok(())
    }

    /// What the service allocates once its queue is as long as it may be: until then, each event that finds more of them waiting
    /// than ever before has new memory. A short queue is that long before the window begins.
    fn steadiness(&mut self, out: &mut Output<'_>) -> Result<(), BenchError> {
        const QUEUE: u32 = 64;
        let one = Scenario { queue: QUEUE, ..Scenario::one_to_one(SMALL) };
        let windowed = (Supply::Windowed(WINDOW), Consume::TwoWay(Some(PUSH_WINDOW)));
        let sequences = (Supply::Sequences(SEQUENCE, SEQUENCES), Consume::Sequences(SEQUENCE, Some(SEQUENCE_WINDOW)));
        let of = |(supply, consume), scenario| Scenario { supply, consume, ..scenario };
        let any = Scenario { anys: true, ..one };
        for scenario in [
            one,
            of(windowed, one),
            of((Supply::OneWay, Consume::OneWay), one),
            of(sequences, Scenario { queue: QUEUE * SEQUENCES, ..one }),
            any,
            of(windowed, any),
            of(windowed, Scenario { consumers: 100, processes: 10, ..one }),
        ] {
            let warm_up = if self.quick { 0.2 } else { 0.5 };
            let race = Race {
                rounds: 1,
                // As long in a check: what a queue takes as it grows comes after 0.2 s too.
                warm_up: Plan { counted: true, ..plan(0.0, 0.0, 0.5) },
                plans: vec![Plan { counted: true, ..plan(0.0, warm_up, if self.quick { 0.25 } else { 2.0 }) }],
                figures: allocations,
                ..self.race_of("steady state", |key| key == "campanile", scenario)
            };
            self.race(&race, out)?;
        }
        Ok(())
    }

    fn saturate(
        &mut self,
        scenario: Scenario,
        take_part: impl Fn(&str) -> bool,
        out: &mut Output<'_>,
    ) -> Result<(), BenchError> {
        let turn = |window| plan(0.0, if self.quick { 0.1 } else { 0.3 }, window);
        let race = Race {
            judged: if scenario.consumers > 1 { self.judged() } else { (&[], 0) },
            warm_up: turn(self.warm_up()),
            plans: vec![Plan { counted: true, ..turn(if self.quick { 0.25 } else { 0.7 }) }],
            figures: throughput,
            system_calls: Some(turn(0.1)),
            ..self.race_of("throughput", take_part, scenario)
        };
        self.race(&race, out)
    }

    /// Many consumers in one process, in ten, and in one each: when an event reaches the first and the last.
    fn fan_out(&mut self, out: &mut Output<'_>) -> Result<(), BenchError> {
        let counts: &[u32] = if self.quick { &[1, 10, 100] } else { &CONSUMERS };
        let seconds = match (self.quick, self.rounds) {
            (true, _) => 0.5,
            (false, 1) => 1.2,
            (false, _) => 2.0,
        };
        let mut done = Vec::new();
        for processes_max in [10, 1, 100] {
            for &consumers in counts {
                let processes = processes_max.min(consumers);
                let beyond = processes_max == 100 && consumers > 100 || self.quick && processes_max != 10;
                if beyond || done.contains(&(consumers, processes)) {
                    continue;
                }
                done.push((consumers, processes));
                let judged = (consumers, processes) == JUDGED_CROWD;
                let in_part = processes_max == 10 && [1, 10, 100, 1000].contains(&consumers);
                let scenario = Scenario { consumers, processes, ..Scenario::one_to_one(FAN_OUT_PAYLOAD) };
                let take_part = |key: &str| IN_WHOLE_FAN_OUT.contains(&key) || in_part && key != AGAIN;
                let race = Race {
                    rounds: if judged { self.rounds } else { self.rounds.saturating_sub(1).max(1) },
                    judged: if judged { self.judged() } else { (&[], 0) },
                    warm_up: plan(5.0 * FAN_OUT_RATE, 0.0, 0.4),
                    plans: vec![Plan { spans: true, ..plan(FAN_OUT_RATE, 0.1, seconds) }],
                    figures: arrivals,
                    ..self.race_of("fan-out", take_part, scenario)
                };
                self.race(&race, out)?;
            }
        }
        Ok(())
    }

    /// The contenders that are judged by the floor of a fan-out, the floor, and how many rounds these two have.
    const fn judged(&self) -> (&'static [&'static str], u32) {
        (&IN_WHOLE_FAN_OUT, if self.quick { 2 } else { 3 * self.rounds })
    }

    /// Seconds of events before the first round.
    fn warm_up(&self) -> f64 {
        match (self.quick, self.rounds) {
            (true, _) => 0.1,
            (false, 1) => 0.5,
            (false, _) => 0.8,
        }
    }
}

/// Figures of a turn of events at fixed times.
pub(super) fn latencies(_: &Scenario, outcome: &Outcome) -> Figures {
    let mut figures = percentiles(&outcome.since_due(), &outcome.since_sent());
    figures.insert("late_pushes", ratio(outcome.sent.late, 1));
    common(outcome, 1.0, &mut figures);
    figures
}

fn throughput(scenario: &Scenario, outcome: &Outcome) -> Figures {
    let consumers = f64::from(scenario.consumers);
    let events = ratio(outcome.total(|received| received.in_window), 1) / consumers;
    let mut figures = Figures::from([("events_per_second", events / outcome.seconds)]);
    figures.insert("deliveries_per_second", events * consumers / outcome.seconds);
    figures.insert("publisher_cpu_us_per_event", ratio(outcome.sent.cpu, 1000 * outcome.sent.events.max(1)));
    let deliveries = outcome.total(|received| received.deliveries).max(1);
    let cpu = outcome.total(|received| received.cpu);
    figures.insert("consumer_cpu_us_per_delivery", ratio(cpu, 1000 * deliveries));
    if let Some(counted) = &outcome.counted {
        figures.insert("allocations_per_event", counted.allocations_per_event);
    }
    common(outcome, consumers, &mut figures);
    figures
}

fn allocations(_: &Scenario, outcome: &Outcome) -> Figures {
    let Some(counted) = &outcome.counted else { return Figures::new() };
    Figures::from([
        ("events", ratio(counted.events, 1)),
        ("allocations", ratio(counted.allocations, 1)),
        ("allocations_per_event", counted.allocations_per_event),
    ])
}

/// Figures of every turn.
fn common(outcome: &Outcome, consumers: f64, figures: &mut Figures) {
    let events = (ratio(outcome.total(|received| received.in_window), 1) / consumers).max(1.0);
    if outcome.threads > 0 {
        figures.insert("cpu_us_per_event", outcome.usage.cpu_us / events);
        figures.insert("cpu_us_per_delivery", outcome.usage.cpu_us / events / consumers);
        let switches = outcome.usage.voluntary_switches + outcome.usage.involuntary_switches;
        figures.insert("switches_per_event", ratio(switches, 1) / events);
        figures.insert("resident_mb", ratio(outcome.resident_bytes, 1_000_000));
        figures.insert("threads", ratio(outcome.threads, 1));
    }
    let losses = outcome.losses();
    figures.insert("lost", ratio(losses.lost, 1));
    figures.insert("repeated", ratio(losses.repeated, 1));
    figures.insert("out_of_order", ratio(losses.out_of_order, 1));
}

/// When events came to the first and to the last of all consumers, from when they were due.
pub(super) fn arrivals(scenario: &Scenario, outcome: &Outcome) -> Figures {
    let (mut first, mut last) = (Recorder::default(), Recorder::default());
    let all = u64::from(scenario.consumers);
    let spans = merge(outcome.received.iter().map(|received| received.spans.as_slice()));
    for span in spans.iter().filter(|span| span.count >= all) {
        first.record(span.first.saturating_sub(span.due));
        last.record(span.last.saturating_sub(span.due));
    }
    let mut figures = Figures::from([("complete_events", ratio(last.count(), 1))]);
    if last.count() > 0 {
        figures.insert("first_us", first.quantile_us(0.5));
        figures.insert("last_us", last.quantile_us(0.5));
        figures.insert("last_p90_us", last.quantile_us(0.9));
        figures.insert("last_max_us", last.quantile_us(1.0));
    }
    common(outcome, f64::from(scenario.consumers), &mut figures);
    figures
}

/// The arrivals of all processes together, by event.
fn merge<'s>(processes: impl IntoIterator<Item = &'s [Span]>) -> Vec<Span> {
    let mut all = std::collections::BTreeMap::<u64, Span>::new();
    for span in processes.into_iter().flatten() {
        all.entry(span.number)
            .and_modify(|found| {
                found.first = found.first.min(span.first);
                found.last = found.last.max(span.last);
                found.count += span.count;
            })
            .or_insert(*span);
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_first_and_last_over_all_processes() {
        let span = |number, first, last, count| Span { number, due: 5, first, last, count };
        let processes = [vec![span(0, 10, 20, 2), span(1, 30, 31, 2)], vec![span(0, 9, 15, 3)]];
        let merged = merge(processes.iter().map(Vec::as_slice));
        assert_eq!(merged, [span(0, 9, 20, 5), span(1, 30, 31, 2)]);
    }
}

//! What was to be shown, what was found, and whether that is it.

use Bound::{AtLeast, AtMost};

use super::cells::{Cell, Fit, Ratio};
use super::contender::OURS;
use super::experiments::{AGAIN, SIDE_BY_SIDE};
use super::pool::P999_OF_ALL;
use crate::memory;
use crate::report::Aim;
use serde::Serialize;

/// A line through times to the last consumer, over the number of consumers.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Growth {
    pub(crate) contender: &'static str,
    pub(crate) processes: u32,
    pub(crate) consumers: (u32, u32),
    pub(crate) line: Fit,
}

/// What latency is judged by: a figure, its name, and how many times the bare relay's it may be.
const LATENCIES: [(&str, &str, f64); 2] = [("p50_us", "p50", 1.3), ("p999_us", "p99.9", 1.5)];

/// Cells, to be found by what they are.
pub(super) struct Found<'a>(pub(super) &'a [Cell]);

impl<'a> Found<'a> {
    fn find(&self, experiment: &str, contender: &str, is: impl Fn(&Cell) -> bool) -> Option<&'a Cell> {
        self.0.iter().find(|cell| (cell.experiment, cell.contender) == (experiment, contender) && is(cell))
    }

    fn latency(&self, contender: &str, rate: f64) -> Option<&'a Cell> {
        let is = |cell: &Cell| cell.payload_bytes == 128 && (cell.rate - rate).abs() < 0.5 && cell.pinned;
        self.find("latency", contender, is)
    }

    /// The cell of the contender that had its turns at the same time as that other one.
    fn side_by_side(&self, contender: &str, beside: &str) -> Option<&'a Cell> {
        self.find(SIDE_BY_SIDE, contender, |cell| cell.beside == Some(beside))
    }

    /// As many events as get through; `supplier` is how a publisher's description begins.
    fn throughput(&self, contender: &str, payload: u32, supplier: &str, consumers: u32) -> Option<&'a Cell> {
        let of = (payload, consumers);
        let is = |cell: &Cell| (cell.payload_bytes, cell.consumers) == of && cell.supplier.starts_with(supplier);
        self.find("throughput", contender, is)
    }

    fn fan_out(&self, contender: &str, consumers: u32, processes: u32) -> Option<&'a Cell> {
        self.find("fan-out", contender, |cell| (cell.consumers, cell.processes) == (consumers, processes))
    }

    /// How time to the last consumer grows, for each contender that was measured with several numbers of consumers.
    pub(super) fn growth(&self) -> Vec<Growth> {
        let mut growth = Vec::new();
        let mut contenders: Vec<&'static str> = self.0.iter().map(|cell| cell.contender).collect();
        contenders.sort_unstable();
        contenders.dedup();
        for contender in contenders {
            for processes in [1, 10, 100] {
                let cells = self.0.iter().filter(|cell| {
                    cell.experiment == "fan-out"
                        && cell.contender == contender
                        && cell.processes == processes.min(cell.consumers)
                });
                let points: Vec<(u32, f64)> =
                    cells.filter_map(|cell| Some((cell.consumers, cell.figure("last_us")?))).collect();
                let line: Vec<(f64, f64)> = points.iter().map(|&(consumers, us)| (f64::from(consumers), us)).collect();
                let Some(line) = Fit::of(&line) else { continue };
                let numbers = || points.iter().map(|point| point.0);
                let consumers = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
                growth.push(Growth { contender, processes, consumers, line });
            }
        }
        growth
    }

    /// All aims that can be judged by these cells, and what the harness itself makes of two that are the same.
    pub(super) fn aims(&self) -> Vec<Aim> {
        let mut aims = Vec::new();
        for (rate, name) in [(250.0, "250/s"), (10_000.0, "10,000/s")] {
            let harness = format!("{name} of the bare relay against itself, in turns");
            let pair = |one: &str, other: &str| (self.latency(one, rate), self.latency(other, rate));
            latency_aims([&format!("at {name}"), ", in turns", &harness], pair, &mut aims);
            if rate < 500.0 {
                // The same of two at the same time.
                let harness = format!("{name} of the bare relay beside itself, at the same time");
                let pair = |one: &str, other: &str| (self.side_by_side(one, other), self.side_by_side(other, one));
                latency_aims([&format!("at {name}, both at the same time"), "", &harness], pair, &mut aims);
            }
        }
        self.throughput_aims(&mut aims);
        self.fan_out_aims(&mut aims);
        aims
    }

    fn throughput_aims(&self, aims: &mut Vec<Aim>) {
        const RATE: &str = "events_per_second";
        let two_way = |contender, payload| self.throughput(contender, payload, "two-way", 1);
        let aim = "1 → 1, 128 B: two-way throughput at least 0.8 × the bare relay's".to_owned();
        aims.push(judge(aim, (two_way("campanile", 128), two_way("relay", 128)), RATE, AtLeast(0.8), "/s"));
        let aim = "(the harness: two-way throughput of the bare relay against itself)".to_owned();
        let again = (two_way(AGAIN, 128), two_way("relay", 128));
        aims.push(Aim { met: None, ..judge(aim, again, RATE, AtLeast(1.0), "/s") });
        let ways = [("windowed", "window"), ("one-way", "one-way")];
        let best = ways.map(|(_, supplier)| self.throughput("campanile", 64, supplier, 1));
        let best = best
            .into_iter()
            .flatten()
            .max_by(|one, other| one.figure(RATE).unwrap_or(0.0).total_cmp(&other.figure(RATE).unwrap_or(0.0)));
        let aim = "windowed or one-way 64 B throughput at least 20 × JacORB's two-way".to_owned();
        aims.push(judge(aim, (best, two_way("jacorb", 64)), RATE, AtLeast(20.0), "/s"));
        let aim = "windowed or one-way 64 B throughput at least NATS's".to_owned();
        let nats = self.throughput("nats", 64, "one-way", 1);
        aims.push(judge(aim, (best, nats), RATE, AtLeast(1.0), "/s"));
        let sequences = self.throughput("campanile", 64, "sequences", 1).and_then(|cell| cell.figure(RATE));
        aims.push(Aim::new(
            "sequence supplier to sequence consumer, 64 B: at least 1,000,000 events/s",
            sequences.map_or_else(|| "not measured".to_owned(), |rate| format!("{rate:.0} events/s")),
            sequences.map(|rate| rate >= 1e6),
        ));
        aims.push(self.steady_aim());
    }

    /// Each kind of proxy that passes events through, and single events to many consumers.
    fn steady_aim(&self) -> Aim {
        // Something that does not happen for an event, such as a round's log line, may happen all the same.
        const MOST: f64 = 0.001;
        let steady = self.0.iter().filter(|cell| cell.experiment == "steady state");
        let found: Vec<(&Cell, f64)> =
            steady.filter_map(|cell| Some((cell, cell.figure("allocations_per_event")?))).collect();
        let told = found.iter().map(|(cell, per_event)| {
            let [allocations, events] = ["allocations", "events"].map(|figure| cell.figure(figure).unwrap_or(0.0));
            let to = if cell.consumers > 1 { format!(" to {}", cell.consumers) } else { String::new() };
            match *per_event {
                0.0 => format!("{}{to}: none", cell.supplier),
                _ => format!("{}{to}: {allocations:.0} in {events:.0} events", cell.supplier),
            }
        });
        Aim::new(
            "0 allocations per event in steady state, for each kind of proxy that passes events through (less than one in a \
                  thousand events)",
            if found.is_empty() { "not measured".to_owned() } else { told.collect::<Vec<String>>().join("; ") },
            (!found.is_empty()).then(|| found.iter().all(|(_, per_event)| *per_event < MOST)),
        )
    }

    fn fan_out_aims(&self, aims: &mut Vec<Aim>) {
        let ours = self.fan_out("campanile", 100, 10);
        let aim = "1 → 100, 8 KB, 10 Hz, 10 processes: time to the last consumer at most 1.3 × the `writev` floor's"
            .to_owned();
        aims.push(judge(aim, (ours, self.fan_out("writev", 100, 10)), "last_us", AtMost(1.3), "µs"));
        let growth = self.growth().into_iter().find(|growth| (growth.contender, growth.processes) == ("campanile", 10));
        aims.push(Aim::new(
            "growth linear in deliveries from 1 to 1000 consumers (r² at least 0.99)",
            growth.as_ref().map_or_else(
                || "not measured".to_owned(),
                |Growth { line, consumers, .. }| {
                    format!(
                        "{:.0} µs + {:.2} µs per consumer, r² {:.4}, {} to {} consumers",
                        line.intercept, line.slope, line.r_squared, consumers.0, consumers.1
                    )
                },
            ),
            growth.filter(|growth| growth.consumers == (1, 1000)).map(|growth| growth.line.r_squared >= 0.99),
        ));
        for (supplier, name) in [("two-way", "two-way"), ("window", "windowed"), ("one-way", "one-way")] {
            let aim = format!("CPU per delivery at fan-out 100, 64 B, {name}: at most 1.5 × the `writev` floor's");
            let cell = |contender| self.throughput(contender, 64, supplier, 100);
            let both = (cell("campanile"), cell("writev"));
            aims.push(judge(aim, both, "cpu_us_per_delivery", AtMost(1.5), "µs"));
        }
        let threads = |consumers: u32| self.fan_out("campanile", consumers, 10.min(consumers))?.figure("threads");
        aims.push(Aim::new(
            "threads unchanged from 1 to 1000 consumers",
            match (threads(1), threads(1000)) {
                (Some(one), Some(thousand)) => format!("{one:.0} and {thousand:.0}"),
                _ => "not measured".to_owned(),
            },
            threads(1).zip(threads(1000)).map(|(one, thousand)| (one - thousand).abs() < 0.5),
        ));
    }
}

/// What is aimed at in latency: `what` is measured, how that is said behind an aim, and of the harness; `pair` finds two contenders.
fn latency_aims<'a>(
    [what, after, harness]: [&str; 3],
    pair: impl Fn(&str, &str) -> (Option<&'a Cell>, Option<&'a Cell>),
    aims: &mut Vec<Aim>,
) {
    for (figure, name, bound) in LATENCIES {
        let judged = |aim, both: (Option<&Cell>, Option<&Cell>), bound| {
            let mut judged = judge(aim, both, figure, AtMost(bound), "µs");
            let of_all = |cell: Option<&Cell>| cell?.figure(P999_OF_ALL);
            // Of two at the same time none is left out.
            if figure == "p999_us"
                && !after.is_empty()
                && let Some((above, below)) = of_all(both.0).zip(of_all(both.1))
            {
                judged.found += &format!("; {:.2} × with no turn left out", above / below);
            }
            judged
        };
        let aim = format!("1 → 1, 128 B {what}: {name} at most {bound} × the bare relay's{after}");
        aims.push(judged(aim, pair(OURS, "relay"), bound));
        for peer in ["jacorb", "omnievents", "nats"] {
            aims.push(judged(format!("1 → 1, 128 B {what}: {name} below {peer}'s{after}"), pair(OURS, peer), 1.0));
        }
        let aim = format!("(the harness: {name} at {harness})");
        aims.push(Aim { met: None, ..judged(aim, pair(AGAIN, "relay"), 1.0) });
    }
}

/// What consumers that wait may cost.
pub(crate) fn of_memory(found: Option<&memory::Found>) -> [Aim; 3] {
    const PROXY_MAX: f64 = 4.0 * 1024.0;
    const CONNECTION_MAX: f64 = 16.0 * 1024.0;
    let aim = |aim: &str, judge: &dyn Fn(&memory::Found) -> (String, bool)| {
        let judged = found.map(judge);
        let met = judged.as_ref().map(|judged| judged.1);
        let found = judged.map_or_else(|| "not measured".to_owned(), |judged| judged.0);
        Aim::new(aim.to_owned(), found, met)
    };
    [
        aim("idle proxy: at most 4 KB", &|found| {
            (format!("{:.0} B", found.idle_proxy_bytes), found.idle_proxy_bytes <= PROXY_MAX)
        }),
        aim("idle connection: at most 16 KB beyond the kernel's", &|found| {
            let (from, to) = (found.idle_connection_bytes, found.idle_consumer_connection_bytes);
            let text = format!("{from:.0} B from a client, {to:.0} B to a consumer");
            (text, from.max(to) <= CONNECTION_MAX)
        }),
        aim("threads unchanged with all consumers that wait", &|found| {
            let [fewest, most] = found.threads;
            let proxies = u64::from(found.connections) * u64::from(found.proxies_per_connection);
            (format!("{fewest} to {most}, to {proxies} proxies of {} clients", found.connections), fewest == most)
        }),
    ]
}

/// What one contender's figure is to be, divided by another's.
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

fn judge(aim: String, (ours, other): (Option<&Cell>, Option<&Cell>), figure: &str, bound: Bound, unit: &str) -> Aim {
    let found = Ratio::of(ours, other, figure);
    let met = found.map(|found| match bound {
        AtMost(bound) => found.value <= bound,
        AtLeast(bound) => found.value >= bound,
    });
    Aim::new(aim, describe(found, ours, other, figure, unit), met)
}

fn describe(found: Option<Ratio>, ours: Option<&Cell>, other: Option<&Cell>, figure: &str, unit: &str) -> String {
    let median = |cell: Option<&Cell>| cell.and_then(|cell| cell.figure(figure)).unwrap_or(f64::NAN);
    let Some(ratio) = found else {
        let missing = match [ours, other].map(|cell| cell.is_none_or(|cell| cell.rounds.is_empty())) {
            [true, true] => "either",
            [true, false] => "Campanile",
            _ => "the other",
        };
        return format!("not measured: no figures of {missing}");
    };
    let written = |value: f64| match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    };
    format!("{:.2} × ({ratio}; {} against {} {unit})", ratio.value, written(median(ours)), written(median(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::performance::cells::Figures;
    use crate::performance::contender::Scenario;

    fn cell(contender: &'static str, figure: &'static str, values: &[f64]) -> Cell {
        let mut cell = Cell::new("latency", contender, &Scenario::one_to_one(128), 250.0, true);
        cell.rounds = values.iter().map(|&value| Figures::from([(figure, value)])).collect();
        cell.sum_up();
        cell
    }

    fn fan_out(contender: &'static str, consumers: u32, last: f64) -> Cell {
        let scenario = Scenario { consumers, processes: consumers.min(10), ..Scenario::one_to_one(8192) };
        let mut cell = Cell::new("fan-out", contender, &scenario, 10.0, false);
        cell.rounds = vec![Figures::from([("last_us", last), ("threads", 6.0)])];
        cell.sum_up();
        cell
    }

    fn judged(cells: &[Cell], beginning: &str) -> Aim {
        let aims = Found(cells).aims();
        aims.into_iter().find(|aim| aim.aim.starts_with(beginning)).unwrap()
    }

    #[test]
    fn judges_ratios_and_says_what_was_not_measured() {
        let aim = "1 → 1, 128 B at 250/s: p50 at most 1.3";
        let (ours, floor) =
            (cell("campanile", "p50_us", &[12.0, 13.0, 30.0]), cell("relay", "p50_us", &[10.0, 10.0, 10.0]));
        let found = judged(&[ours.clone(), floor], aim);
        assert_eq!((found.met, found.found.starts_with("1.30 × (1.20 to 3.00")), (Some(true), true), "{}", found.found);
        assert_eq!(judged(std::slice::from_ref(&ours), aim).met, None);
        let faster = cell("nats", "p50_us", &[1.0, 1.0, 1.0]);
        assert_eq!(judged(&[ours, faster], "1 → 1, 128 B at 250/s: p50 below nats").met, Some(false));
    }

    #[test]
    fn what_was_taken_at_the_same_time_is_compared_with_its_own_neighbour_and_never_with_turns() {
        let beside = |contender, beside, p999: f64| {
            let mut cell = cell(contender, "p999_us", &[p999, p999]);
            (cell.experiment, cell.beside) = (SIDE_BY_SIDE, Some(beside));
            cell
        };
        let cells = [
            beside("campanile", "nats", 500.0),
            beside("nats", "campanile", 1000.0),
            beside("campanile", "relay", 300.0),
            beside("relay", "campanile", 200.0),
            beside("relay", "relay-again", 70.0),
            beside("relay-again", "relay", 77.0),
        ];
        let aim = |what: &str| judged(&cells, &format!("1 → 1, 128 B at 250/s, both at the same time: {what}"));
        let found = aim("p99.9 at most 1.5 × the bare relay's");
        assert_eq!((found.met, found.found.starts_with("1.50 × ")), (Some(true), true), "{}", found.found);
        let found = aim("p99.9 below nats's");
        assert_eq!((found.met, found.found.starts_with("0.50 × ")), (Some(true), true), "{}", found.found);
        assert_eq!(aim("p99.9 below jacorb's").met, None);
        let found = judged(&cells, "(the harness: p99.9 at 250/s of the bare relay beside itself");
        assert_eq!((found.met, found.found.starts_with("1.10 × ")), (None, true), "{}", found.found);
        // Nothing was taken in turns here; and of what was, none is found at the same time.
        let in_turns = "1 → 1, 128 B at 250/s: p99.9 at most 1.5 × the bare relay's";
        assert_eq!(judged(&cells, in_turns).found, "not measured: no figures of either");
        let turns = [cell("campanile", "p999_us", &[2.0]), cell("relay", "p999_us", &[1.0])];
        assert_eq!(judged(&turns, in_turns).met, Some(false));
        let at_once = "1 → 1, 128 B at 250/s, both at the same time: p99.9 at most";
        assert_eq!(judged(&turns, at_once).found, "not measured: no figures of either");
    }

    #[test]
    fn growth_is_judged_over_the_whole_range_only() {
        let line = |consumers: u32| fan_out("campanile", consumers, 50.0 + 2.0 * f64::from(consumers));
        let cells: Vec<Cell> = [1, 10, 100, 1000].map(line).into();
        assert_eq!(judged(&cells, "growth").met, Some(true));
        assert_eq!(judged(&cells[..3], "growth").met, None);
        assert_eq!(judged(&cells, "threads").met, Some(true));
        let growth = Found(&cells).growth();
        assert_eq!((growth.len(), growth[0].consumers), (1, (1, 1000)));
    }

    #[test]
    fn judges_memory_by_the_dearer_kind_of_connection() {
        let found = |idle_consumer_connection_bytes, threads| memory::Found {
            connections: 10,
            proxies_per_connection: 10,
            created_proxy_bytes: 360.0,
            connected_proxy_bytes: 2000.0,
            idle_proxy_bytes: 4096.0,
            idle_connection_bytes: 800.0,
            idle_consumer_connection_bytes,
            threads,
            after_each_cycle: Vec::new(),
            steps: Vec::new(),
        };
        let met = |found: Option<&memory::Found>| of_memory(found).map(|aim| aim.met);
        assert_eq!(met(Some(&found(16_384.0, [6, 6]))), [Some(true); 3]);
        assert_eq!(met(Some(&found(16_385.0, [6, 7]))), [Some(true), Some(false), Some(false)]);
        assert_eq!(met(None), [None; 3]);
    }

    #[test]
    fn every_kind_of_proxy_has_to_do_without_allocations() {
        let steady = |allocations: f64| {
            let mut cell = Cell::new("steady state", "campanile", &Scenario::one_to_one(64), 0.0, false);
            let figures = [("events", 1e4), ("allocations", allocations), ("allocations_per_event", allocations / 1e4)];
            cell.rounds = vec![Figures::from(figures)];
            cell.sum_up();
            cell
        };
        let aim = judged(&[steady(0.0), steady(9.0)], "0 allocations");
        assert_eq!((aim.met, aim.found.as_str()), (Some(true), "two-way: none; two-way: 9 in 10000 events"));
        assert_eq!(judged(&[steady(0.0), steady(10.0)], "0 allocations").met, Some(false));
        assert_eq!(judged(&[], "0 allocations").met, None);
    }
}

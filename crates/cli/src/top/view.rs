//! Rates between two moments of a service, for people and for programs.

use super::sample::{Lane, Sample};
use super::trends::Trends;
use crate::color::Tone;
use crate::info::status::{ConsumerStatus, given_name};
use crate::show;
use serde_json::{Value as Json, json};
use service::Counter;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Minimum columns of a terminal for trends of consumers beside their names.
const TRENDS_FROM: usize = 120;

/// Changes from one moment to another.
pub(super) struct View {
    address: String,
    /// Interval in seconds; `None` if both moments are one.
    interval: Option<f64>,
    service: Rates,
    connections: u64,
    suppliers_blocked: u64,
    /// Failures to write to the disk, or to read from it.
    disk_failures: u64,
    is_disk_full: bool,
    lanes: Vec<LaneRow>,
    consumers: Vec<ConsumerRow>,
}

/// Rates in events per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    events_in: f64,
    delivered: f64,
    dropped: f64,
    refused: f64,
}

struct LaneRow {
    id: u32,
    name: String,
    rates: Rates,
    handed_over: f64,
    taken_over: f64,
    /// Longest round of the lane so far, in nanoseconds.
    cycle_max_ns: u64,
    /// How often it was saturated: with endless work for a second or more.
    saturated: u64,
    /// For a time-driven lane: its periods, and those in which the budget was not enough.
    periods: u64,
    budgets_spent: u64,
}

struct ConsumerRow {
    status: ConsumerStatus,
    delivered: f64,
    dropped: f64,
}

impl View {
    pub(super) fn new(before: &Sample, now: &Sample, address: &str, channel: Option<u32>) -> Self {
        let interval = now.taken.duration_since(before.taken).as_secs_f64();
        let per_second = PerSecond { interval };
        let lanes = now.lanes.iter().map(|lane| {
            let earlier = before.lanes.iter().find(|earlier| (earlier.id, &earlier.name) == (lane.id, &lane.name));
            per_second.lane(earlier, lane)
        });
        let of_channel = now.consumers.iter().filter(|status| channel.is_none_or(|id| status.channel == id));
        let key = |status: &ConsumerStatus| (status.channel, status.proxy);
        let earlier: HashMap<(u32, u32), &ConsumerStatus> =
            before.consumers.iter().map(|status| (key(status), status)).collect();
        let consumers = of_channel.map(|status| per_second.consumer(earlier.get(&key(status)).copied(), status));
        let mut consumers: Vec<ConsumerRow> = consumers.collect();
        // The largest backlog first, as the service gives them; of those without, the one that loses most.
        consumers.sort_by(|a, b| {
            let backlog = b.status.backlog_bytes.cmp(&a.status.backlog_bytes);
            backlog.then(b.dropped.total_cmp(&a.dropped)).then(b.delivered.total_cmp(&a.delivered))
        });
        let counter = |counter: Counter| {
            // A service of an earlier version knows the former name only.
            let value = now.counters.get(counter.name());
            value.or_else(|| now.counters.get(counter.former_name()?)).copied().unwrap_or(0)
        };
        Self {
            address: address.to_owned(),
            interval: (interval > 0.0).then_some(interval),
            service: per_second.rates(Some(&before.counters), &now.counters),
            connections: counter(Counter::ConnectionsOpen),
            suppliers_blocked: counter(Counter::SuppliersBlocked),
            disk_failures: counter(Counter::StoreFailures) + counter(Counter::OverflowFailures),
            is_disk_full: counter(Counter::StoreFull) > 0,
            lanes: lanes.collect(),
            consumers,
        }
    }

    /// Rates of incoming and of delivered events, per second.
    pub(super) fn rates(&self) -> (f64, f64) {
        (self.service.events_in, self.service.delivered)
    }

    /// Figures of each consumer, by channel and proxy: events delivered per second, and waiting events.
    pub(super) fn consumer_figures(&self) -> impl Iterator<Item = ((u32, u32), f64, f64)> {
        let figures = |row: &ConsumerRow| {
            let ConsumerRow { status, delivered, .. } = row;
            ((status.channel, status.proxy), *delivered, as_f64(status.backlog_events))
        };
        self.consumers.iter().map(figures)
    }

    /// Text about the service, its lanes, and `rows` consumers; with trends, on a terminal of the given number of columns.
    pub(super) fn describe(&self, rows: usize, trends: Option<(&Trends, Option<usize>)>) -> String {
        let Rates { events_in, delivered, dropped, refused } = self.service;
        let mut text = format!(
            "{}: events a second: {} in, {} delivered, {} dropped, {} refused; {} connections; suppliers blocked {} times{}{}\n",
            self.address,
            self.rate(events_in),
            self.rate(delivered),
            self.rate(dropped),
            self.rate(refused),
            show::count(self.connections),
            show::count(self.suppliers_blocked),
            match self.disk_failures {
                0 => String::new(),
                failures => format!("; the disk has failed {} times", show::count(failures)),
            },
            if self.is_disk_full { "; the disk is full, and persistent events are refused" } else { "" }
        );
        if let Some((Trends { events_in, delivered, .. }, _)) = trends {
            let _ = writeln!(text, "in {}  delivered {}", events_in.bars(), delivered.bars());
        }
        text.push('\n');
        let headings = ["LANE", "IN", "DELIVERED", "DROPPED", "HANDED OVER", "TAKEN OVER", "WORST ROUND", ""];
        let lanes = self.lanes.iter().map(|lane| {
            [
                show::clean(&lane.name),
                self.rate(lane.rates.events_in),
                self.rate(lane.rates.delivered),
                self.rate(lane.rates.dropped),
                self.rate(lane.handed_over),
                self.rate(lane.taken_over),
                format!("{} µs", show::count(lane.cycle_max_ns / 1000)),
                lane.notes(),
            ]
        });
        show::table(&mut text, (&headings, true), &[0, 7], &lanes.collect::<Vec<_>>());
        text.push('\n');
        let has_room = |(_, columns): &(_, Option<usize>)| columns.is_some_and(|columns| columns >= TRENDS_FROM);
        text + &self.describe_consumers(rows, trends.filter(has_room).map(|(trends, _)| trends))
    }

    /// A line for each of `rows` consumers: figures first, since names may be long.
    pub(super) fn describe_consumers(&self, rows: usize, trends: Option<&Trends>) -> String {
        if self.consumers.is_empty() {
            return "no consumers\n".to_owned();
        }
        let mut text = String::new();
        const STATE: usize = 5;
        let headings = ["BACKLOG", "BYTES", "DELIVERED", "DROPPED", "IN ALL", "STATE", "CONSUMER", "MOST DROPPED FOR"];
        let mut headings = Vec::from(headings);
        if trends.is_some() {
            headings.splice(STATE..STATE, ["LAST RATES", "LAST BACKLOGS"]);
        }
        let mut table = Vec::new();
        for ConsumerRow { status, delivered, dropped } in self.consumers.iter().take(rows) {
            let most = status.reasons.iter().max_by_key(|(_, count)| *count);
            let mut row = vec![
                show::count(status.backlog_events),
                show::bytes(status.backlog_bytes),
                self.rate(*delivered),
                self.rate(*dropped),
                show::count(status.dropped),
                status.describe(),
                shown_name(status),
                most.map(|(reason, _)| show::clean(reason)).unwrap_or_default(),
            ];
            if let Some(trends) = trends {
                let bars = trends.of((status.channel, status.proxy));
                let bars = bars.map(|trend| [trend.delivered.bars(), trend.backlog.bars()]).unwrap_or_default();
                row.splice(STATE..STATE, bars);
            }
            table.push(row);
        }
        let state = headings.len() - 3;
        let tone = |row: usize, column: usize| {
            let ConsumerRow { status, dropped, .. } = self.consumers.get(row)?;
            match column {
                // Events are being lost now.
                3 => (*dropped > 0.0).then_some(Tone::Lost),
                _ => (column == state).then(|| status.tone()),
            }
        };
        show::painted_table(&mut text, (&headings, true), &[state, state + 1, state + 2], &table, tone);
        if self.consumers.len() > rows {
            let _ = writeln!(text, "and {} more (--rows)", self.consumers.len() - rows);
        }
        text
    }

    /// All consumers, as a JSON array.
    pub(super) fn consumers(&self) -> Json {
        self.consumers.iter().map(ConsumerRow::report).collect()
    }

    /// JSON object with everything; rates in events per second.
    pub(super) fn report(&self) -> Json {
        let lanes: Vec<Json> = self.lanes.iter().map(LaneRow::report).collect();
        json!({
            "address": self.address,
            "interval_seconds": self.interval,
            "events_in_per_second": self.service.events_in,
            "delivered_per_second": self.service.delivered,
            "dropped_per_second": self.service.dropped,
            "refused_per_second": self.service.refused,
            "connections": self.connections,
            "suppliers_held": self.suppliers_blocked,
            "disk_failures": self.disk_failures,
            "disk_full": self.is_disk_full,
            "lanes": lanes,
            "consumers": self.consumers(),
        })
    }

    fn rate(&self, per_second: f64) -> String {
        if self.interval.is_some() { show::rate(per_second) } else { "-".to_owned() }
    }
}

/// Name of a consumer, with its address if it gave one.
fn name(status: &ConsumerStatus) -> String {
    if status.name.is_empty() {
        return format!("consumer proxy {} of channel {}", status.proxy, status.channel);
    }
    show::clean(&status.name)
}

/// Name of a consumer for people: the name that its client gave comes first.
fn shown_name(status: &ConsumerStatus) -> String {
    match given_name(&status.name) {
        None => name(status),
        Some(given) => {
            let client = status.client().map_or_else(String::new, |client| format!(" ({})", show::clean(client)));
            format!("{}, proxy {} of channel {}{client}", show::clean(given), status.proxy, status.channel)
        }
    }
}

impl LaneRow {
    fn notes(&self) -> String {
        let saturated = (self.saturated > 0).then(|| format!("saturated {} times", self.saturated));
        let spent = (self.budgets_spent > 0).then(|| {
            let (spent, periods) = (show::count(self.budgets_spent), show::count(self.periods));
            format!("budget spent in {spent} of {periods} periods")
        });
        saturated.into_iter().chain(spent).collect::<Vec<_>>().join("; ")
    }

    fn report(&self) -> Json {
        json!({
            "lane": self.id,
            "name": self.name,
            "events_in_per_second": self.rates.events_in,
            "delivered_per_second": self.rates.delivered,
            "dropped_per_second": self.rates.dropped,
            "handed_over_per_second": self.handed_over,
            "taken_over_per_second": self.taken_over,
            "worst_round_ns": self.cycle_max_ns,
            "saturated": self.saturated,
            "periods": self.periods,
            "budgets_spent": self.budgets_spent,
        })
    }
}

impl ConsumerRow {
    fn report(&self) -> Json {
        let Self { status, delivered, dropped } = self;
        let reasons: HashMap<&str, u64> =
            status.reasons.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        json!({
            "channel": status.channel,
            "proxy": status.proxy,
            "name": name(status),
            "state": status.state.label(),
            "behind_seconds": status.state.behind_s,
            "unreachable_seconds": status.state.unreachable_s,
            "holds_suppliers": status.state.holds,
            "backlog_events": status.backlog_events,
            "backlog_bytes": status.backlog_bytes,
            "in_flight": status.in_flight,
            "failures": status.failures,
            "delivered": status.delivered,
            "delivered_per_second": delivered,
            "dropped": status.dropped,
            "dropped_per_second": dropped,
            "dropped_by_reason": reasons,
        })
    }
}

/// Differences over an interval.
struct PerSecond {
    interval: f64,
}

impl PerSecond {
    fn of(&self, before: u64, now: u64) -> f64 {
        if self.interval > 0.0 { as_f64(now.saturating_sub(before)) / self.interval } else { 0.0 }
    }

    fn counter(&self, before: Option<&HashMap<String, u64>>, now: &HashMap<String, u64>, counter: Counter) -> f64 {
        let value = |counters: &HashMap<String, u64>| counters.get(counter.name()).copied().unwrap_or(0);
        self.of(before.map_or(0, value), value(now))
    }

    fn rates(&self, before: Option<&HashMap<String, u64>>, now: &HashMap<String, u64>) -> Rates {
        Rates {
            events_in: self.counter(before, now, Counter::EventsIn),
            delivered: self.counter(before, now, Counter::Delivered),
            dropped: self.counter(before, now, Counter::Dropped),
            refused: self.counter(before, now, Counter::EventsRefused),
        }
    }

    fn lane(&self, before: Option<&Lane>, now: &Lane) -> LaneRow {
        let earlier = before.map(|lane| &lane.counters);
        let value = |counter: Counter| now.counters.get(counter.name()).copied().unwrap_or(0);
        LaneRow {
            id: now.id,
            name: now.name.clone(),
            rates: self.rates(earlier, &now.counters),
            handed_over: self.counter(earlier, &now.counters, Counter::HandedOver),
            taken_over: self.counter(earlier, &now.counters, Counter::TakenOver),
            cycle_max_ns: value(Counter::CycleMax),
            saturated: value(Counter::LaneSaturated),
            periods: value(Counter::LanePeriods),
            budgets_spent: value(Counter::LaneBudgetsSpent),
        }
    }

    fn consumer(&self, before: Option<&ConsumerStatus>, now: &ConsumerStatus) -> ConsumerRow {
        let (delivered, dropped) = before.map_or((0, 0), |status| (status.delivered, status.dropped));
        ConsumerRow {
            status: now.clone(),
            delivered: self.of(delivered, now.delivered),
            dropped: self.of(dropped, now.dropped),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::status::ConsumerState;
    use std::time::{Duration, Instant};

    fn counters(all: &[(&str, u64)]) -> HashMap<String, u64> {
        all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn consumer(channel: u32, proxy: u32, backlog: u64, delivered: u64, dropped: u64) -> ConsumerStatus {
        ConsumerStatus {
            channel,
            proxy,
            name: format!("{channel}/{proxy} 10.0.0.{proxy}:1"),
            state: ConsumerState { doing: "keeping up".to_owned(), ..ConsumerState::default() },
            backlog_events: backlog,
            backlog_bytes: backlog * 100,
            delivered,
            dropped,
            reasons: vec![("outbox_full".to_owned(), dropped)],
            ..ConsumerStatus::default()
        }
    }

    fn moments() -> (Sample, Sample) {
        let taken = Instant::now();
        let lane = |events| Lane {
            id: 3,
            name: "lane-3-p100".to_owned(),
            counters: counters(&[
                ("lane_events_in", events),
                ("lane_handed_over", 2 * events),
                ("lane_cycle_max_ns", 50_000),
                ("lane_periods", 2_000),
                ("lane_budgets_spent", 3 * events),
            ]),
        };
        let before = Sample {
            taken,
            counters: counters(&[("lane_events_in", 100), ("lane_delivered", 10), ("connections_open", 3)]),
            lanes: vec![lane(10)],
            consumers: vec![consumer(0, 7, 5, 100, 10), consumer(0, 8, 0, 50, 0)],
        };
        let now = Sample {
            taken: taken + Duration::from_secs(2),
            counters: counters(&[("lane_events_in", 300), ("lane_delivered", 30), ("connections_open", 4)]),
            lanes: vec![lane(30)],
            consumers: vec![consumer(0, 7, 1, 120, 50), consumer(0, 8, 9, 50, 0), consumer(1, 9, 0, 4, 0)],
        };
        (before, now)
    }

    #[test]
    fn rates_are_differences_over_the_interval() {
        let (before, now) = moments();
        let report = View::new(&before, &now, "a:1", None).report();
        assert_eq!((&report["events_in_per_second"], &report["connections"]), (&100.0.into(), &4.into()));
        let lane = &report["lanes"][0];
        assert_eq!((&lane["name"], &lane["handed_over_per_second"]), (&"lane-3-p100".into(), &20.0.into()));
        assert_eq!((&lane["periods"], &lane["budgets_spent"]), (&2_000.into(), &90.into()));
        let text = View::new(&before, &now, "a:1", None).describe(2, None);
        assert!(text.contains("budget spent in 90 of 2,000 periods"), "{text}");
        let slow = &report["consumers"][1];
        assert_eq!((&slow["proxy"], &slow["delivered_per_second"]), (&7.into(), &10.0.into()));
        assert_eq!(
            (&slow["dropped_per_second"], &slow["dropped_by_reason"]["outbox_full"]),
            (&20.0.into(), &50.into())
        );
    }

    #[test]
    fn consumers_come_by_backlog_and_as_many_as_there_are_rows() {
        let (before, now) = moments();
        let text = View::new(&before, &now, "a:1", None).describe(2, None);
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
        assert!(place("0/8 10.0.0.8:1") < place("0/7 10.0.0.7:1"));
        assert!(text.ends_with("and 1 more (--rows)\n"), "{text}");
        let text = View::new(&before, &now, "a:1", Some(1)).describe(2, None);
        assert!(text.contains("1/9") && !text.contains("0/8"), "{text}");
    }

    /// At 80 columns a long name left no room for anything else.
    #[test]
    fn numbers_and_state_have_room_whatever_the_name() {
        let (before, mut now) = moments();
        let client = "x".repeat(100);
        now.consumers[1].name = format!("consumer proxy 8 \"archive\" of channel 0 ({client})");
        let text = View::new(&before, &now, "a:1", None).describe_consumers(9, None);
        let row = text.lines().nth(1).unwrap();
        let begin: String = row.chars().take(80).collect();
        assert!(begin.contains(" 9 ") && begin.contains("keeping up") && begin.contains("archive, proxy 8"), "{begin}");
    }

    #[test]
    fn what_the_last_refreshes_showed_stands_beside_it_where_there_is_room() {
        let (before, mut now) = moments();
        let mut trends = Trends::default();
        for backlog in [0, 3, 9] {
            now.consumers[1].backlog_events = backlog;
            trends.note(&View::new(&before, &now, "a:1", None));
        }
        let view = View::new(&before, &now, "a:1", None);
        let wide = view.describe(1, Some((&trends, Some(TRENDS_FROM))));
        assert!(wide.contains("in ███  delivered ███\n"), "{wide}");
        let row = wide.lines().last().unwrap_or_default();
        assert!(wide.contains("LAST BACKLOGS  STATE"), "{wide}");
        assert!(wide.lines().any(|line| line.contains(" ▁▄█  keeping up") && line.contains("0/8")), "{row}");
        let narrow = view.describe(1, Some((&trends, Some(80))));
        assert!(narrow.contains("in ███") && !narrow.contains("LAST") && !narrow.contains('▁'), "{narrow}");
        // One that is gone is forgotten, and no more than so many are remembered.
        now.consumers.remove(1);
        (0..100).for_each(|_| trends.note(&View::new(&before, &now, "a:1", None)));
        assert!(trends.of((0, 8)).is_none());
        assert_eq!(trends.of((0, 7)).unwrap().backlog.bars().chars().count(), 12);
    }

    #[test]
    fn what_was_not_there_before_is_new_and_one_moment_has_no_rates() {
        let (before, now) = moments();
        let report = View::new(&before, &now, "a:1", Some(1)).report();
        assert_eq!(report["consumers"][0]["delivered_per_second"], 2.0);
        let view = View::new(&now, &now, "a:1", None);
        assert!(view.report()["interval_seconds"].is_null());
        assert!(
            view.describe(9, None).starts_with("a:1: events a second: - in, - delivered"),
            "{}",
            view.describe(9, None)
        );
    }
}

//! `/metrics`: the service's counters in the formats of Prometheus and OpenMetrics.
//!
//! Nothing is counted here. Totals are the counters of [`service::Counter`], renamed by rule ([`name_of`]); the series of channels,
//! consumers and lanes come from the lanes' own reports. `http.consumers_max` and `http.channels_max` limit the series; those left out are
//! summed up in gauges and not in counters, since their sum falls when one of them is shown again.

use std::collections::BTreeMap;

use engine::{DiscardReason, Latency, OutboxState, OutboxStats, Time};
use service::{Counter, DdsJoinStatus, reason_name};

use crate::links::write_links;
use crate::openmetrics::{Kind, Labels, Seconds, Text};
use crate::shared::{Channel, Lane, Shared, Snapshot, read};

/// Content type of OpenMetrics,
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// and of the former format of Prometheus.
const FORMER_KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a client with this `Accept` header gets the former format, and its content type. As in other exporters, a client gets it unless
/// it requests the other, so that any tool can read what `curl` prints.
pub(crate) fn format(accepts: &str) -> (bool, &'static str) {
    let is_former = !accepts.contains("application/openmetrics-text");
    (is_former, if is_former { FORMER_KIND } else { KIND })
}

/// Writes all metrics.
pub(crate) fn write(snapshot: &Snapshot, shared: &Shared, is_former: bool) -> String {
    let mut text = Text::new(is_former);
    write_totals(&mut text, snapshot);
    write_lanes(&mut text, &snapshot.lanes);
    write_channels(&mut text, snapshot, shared.channels_max);
    write_consumers(&mut text, snapshot, shared.consumers_max);
    write_dds_joins(&mut text, &snapshot.dds_joins);
    write_links(&mut text, &snapshot.links, shared.consumers_max);
    text.family("campanile_build", Kind::Info, "", "Which version serves.");
    text.sample("_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.end()
}

/// Name, kind and unit of the family of a counter's exported name: that name without `lane_`, with the unit last.
pub(crate) fn family_of((name, counter): (&'static str, Counter)) -> (String, Kind, &'static str) {
    let (name, unit) = match name {
        "lane_event_bytes_in" => ("events_in_bytes", "bytes"),
        "lane_cycle_max_ns" => ("longest_round_seconds", "seconds"),
        "event_bytes_stored" => ("events_stored_bytes", "bytes"),
        "event_bytes_kept" => ("events_kept_bytes", "bytes"),
        "store_bytes" => ("store_written_bytes", "bytes"),
        "standby_lag_ns" => ("standby_lag_seconds", "seconds"),
        "standby_record_age_ns" => ("standby_record_age_seconds", "seconds"),
        "overflow_bytes" | "history_bytes" | "store_disk_bytes" | "http_figures_bytes" | "standby_lag_bytes" => {
            (name, "bytes")
        }
        other => (other.strip_prefix("lane_").unwrap_or(other), ""),
    };
    let kind = if counter.is_level() || counter.is_maximum() { Kind::Gauge } else { Kind::Counter };
    (format!("campanile_{name}"), kind, unit)
}

/// A counter's description; for a deprecated name, also its replacement.
fn help_of((name, counter): (&str, Counter)) -> String {
    if name == counter.name() {
        return counter.help().trim_start().to_owned();
    }
    format!("Deprecated, replaced by {}:{}", family_of((counter.name(), counter)).0, counter.help())
}

const fn suffix(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "_total",
        _ => "",
    }
}

fn write_totals(text: &mut Text, snapshot: &Snapshot) {
    for (exported, (_, value)) in Counter::exported().zip(&snapshot.counters) {
        let (name, kind, unit) = family_of(exported);
        write_each(text, (&name, kind, unit, &help_of(exported)), &[(Vec::new(), value)], |value| *value);
    }
}

/// Counters of single lanes.
const OF_LANES: [Counter; 14] = [
    Counter::Cycles,
    Counter::CycleMax,
    Counter::LaneSaturated,
    Counter::Allocations,
    Counter::SystemCalls,
    Counter::EventsIn,
    Counter::Delivered,
    Counter::Dropped,
    Counter::EventsQueued,
    Counter::EventsQueuedMax,
    Counter::LanePeriods,
    Counter::LaneBudgetsSpent,
    Counter::HandedOver,
    Counter::TakenOver,
];

fn exported_of_lanes() -> impl Iterator<Item = (&'static str, Counter)> {
    Counter::exported().filter(|(_, counter)| OF_LANES.contains(counter))
}

fn write_lanes(text: &mut Text, lanes: &[Lane]) {
    let of: Vec<_> = lanes.iter().map(|lane| (vec![("lane", lane.name.as_str())], lane)).collect();
    for exported in exported_of_lanes() {
        let (name, kind, unit) = family_of(exported);
        let name = name.replacen("campanile_", "campanile_lane_", 1);
        let help = format!("Of one lane: {}", help_of(exported));
        write_each(text, (&name, kind, unit, &help), &of, |lane| read(&lane.counters, exported.1));
    }
}

/// Writes a family with a number for each item.
pub(crate) fn write_each<T>(
    text: &mut Text,
    (name, kind, unit, help): (&str, Kind, &str, &str),
    of: &[(Vec<(&str, &str)>, &T)],
    value: impl Fn(&T) -> u64,
) {
    text.family(name, kind, unit, help);
    for (labels, thing) in of {
        match unit {
            "seconds" => text.sample(suffix(kind), labels, Seconds(value(thing))),
            _ => text.sample(suffix(kind), labels, value(thing)),
        }
    }
}

fn write_drops(text: &mut Text, labels: Labels<'_>, count: impl Fn(DiscardReason) -> u64) {
    for reason in DiscardReason::ALL {
        let events = count(reason);
        if events > 0 {
            let labels = [labels, &[("reason", reason_name(reason))]].concat();
            text.sample("_total", &labels, events);
        }
    }
}

fn write_latency(text: &mut Text, labels: Labels<'_>, latency: &Latency) {
    if latency.count() == 0 {
        return;
    }
    for (bound, so_far) in latency.cumulative() {
        let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| Seconds(bound).to_string());
        text.sample("_bucket", &[labels, &[("le", bound.as_str())]].concat(), so_far);
    }
    text.sample("_count", labels, latency.count());
    text.sample("_sum", labels, Seconds(latency.sum_ns()));
}

/// Channel numbers, as labels.
fn numbers(all: &[Channel]) -> Vec<String> {
    all.iter().map(|channel| channel.listed.id.0.to_string()).collect()
}

fn write_channels(text: &mut Text, snapshot: &Snapshot, most: usize) {
    let (told, others) = snapshot.channels.split_at(most.min(snapshot.channels.len()));
    let ids = numbers(told);
    let of: Vec<(Vec<(&str, &str)>, &Channel)> = told
        .iter()
        .zip(&ids)
        .map(|(channel, id)| {
            let name = channel.listed.name.as_deref().unwrap_or_default();
            (vec![("channel", id.as_str()), ("name", name)], channel)
        })
        .collect();
    for (name, kind, unit, help, value) in OF_CHANNELS {
        write_each(text, (name, kind, unit, help), &of, value);
    }
    let now = snapshot.now;
    let name = "campanile_channel_oldest_event_age_seconds";
    let help = "How long ago the oldest event came that a consumer of the channel has yet to get; 0 if there is none.";
    write_each(text, (name, Kind::Gauge, "seconds", help), &of, |channel| age(channel.oldest, now));
    let help = "Events dropped for consumers of the channel, by reason; reasons for which there are none are left out.";
    text.family("campanile_channel_dropped", Kind::Counter, "", help);
    for (labels, channel) in &of {
        write_drops(text, labels, |reason| channel.stats.traffic.discards.of(reason));
    }
    let help = "From an event's arrival until its consumer has taken it, of the channel's consumers together.";
    text.family("campanile_channel_delivery_latency_seconds", Kind::Histogram, "seconds", help);
    for (labels, channel) in &of {
        write_latency(text, labels, &channel.stats.traffic.latency);
    }
    text.family("campanile_channels", Kind::Gauge, "", "Channels that there are.");
    text.sample("", &[], snapshot.channels.len());
    text.family("campanile_other_channels", Kind::Gauge, "", "Channels without series of their own.");
    text.sample("", &[], others.len());
    let sum = |of: fn(&Channel) -> u64| others.iter().map(of).sum::<u64>();
    let help = "Events that channels without series of their own took.";
    text.family("campanile_other_channels_events_in", Kind::Gauge, "", help);
    text.sample("", &[], sum(|channel| channel.stats.traffic.events_in));
    let help = "Events that wait for consumers of channels without series of their own.";
    text.family("campanile_other_channels_backlog_events", Kind::Gauge, "", help);
    text.sample("", &[], sum(|channel| channel.backlog_events));
}

type OfChannel = (&'static str, Kind, &'static str, &'static str, fn(&Channel) -> u64);

const OF_CHANNELS: [OfChannel; 12] = [
    (
        "campanile_channel_events_in",
        Kind::Counter,
        "",
        "Events that suppliers pushed, or timers published, and the channel took.",
        |of| of.stats.traffic.events_in,
    ),
    ("campanile_channel_events_in_bytes", Kind::Counter, "bytes", "Octets of those events.", |of| {
        of.stats.traffic.event_bytes_in
    }),
    ("campanile_channel_events_refused", Kind::Counter, "", "Events refused to their supplier.", |of| {
        of.stats.traffic.refused
    }),
    ("campanile_channel_delivered", Kind::Counter, "", "Events delivered, counted once for each consumer.", |of| {
        of.stats.traffic.delivered
    }),
    ("campanile_channel_delivered_bytes", Kind::Counter, "bytes", "Octets of those, as they arrived.", |of| {
        of.stats.traffic.delivered_bytes
    }),
    ("campanile_channel_consumers", Kind::Gauge, "", "Connected consumers.", |of| of.consumers),
    ("campanile_channel_consumers_behind", Kind::Gauge, "", "Of these, those that do not keep up.", |of| of.behind),
    (
        "campanile_channel_backlog_events",
        Kind::Gauge,
        "",
        "Events that wait or are unanswered, counted once for each consumer.",
        |of| of.backlog_events,
    ),
    ("campanile_channel_backlog_bytes", Kind::Gauge, "bytes", "What those in memory weigh.", |of| of.backlog_bytes),
    ("campanile_channel_memory_bytes", Kind::Gauge, "bytes", "What the channel's events take of its budget.", |of| {
        of.stats.memory_bytes
    }),
    ("campanile_channel_blocked_suppliers", Kind::Gauge, "", "Answers to suppliers that are withheld now.", |of| {
        of.stats.withheld
    }),
    (
        "campanile_channel_held_suppliers",
        Kind::Gauge,
        "",
        "Deprecated, replaced by campanile_channel_blocked_suppliers: answers to suppliers that are withheld now.",
        |of| of.stats.withheld,
    ),
];

fn age(since: Option<Time>, now: Time) -> u64 {
    since.map_or(0, |since| u64::try_from(now.since(since).as_nanos()).unwrap_or(u64::MAX))
}

/// States of a consumer, as in metrics, the console and the command line; these show spaces for `_`.
pub(crate) const STATES: [&str; 7] =
    ["keeping_up", "behind", "socket_full", "retrying", "suspended", "holding", "disconnected"];

/// The consumer's state: the worst that applies.
pub(crate) fn state_of(outbox: &OutboxStats, now: Time) -> &'static str {
    match outbox.state {
        OutboxState::Disconnected => "disconnected",
        _ if outbox.holds.is_some() => "holding",
        OutboxState::Suspended => "suspended",
        OutboxState::BackingOff => "retrying",
        OutboxState::NoRoom => "socket_full",
        OutboxState::Active if service::behind_for(outbox, now).is_some() => "behind",
        OutboxState::Active => "keeping_up",
    }
}

/// Whether a consumer does not keep up, for any reason.
pub(crate) fn is_behind(outbox: &OutboxStats, now: Time) -> bool {
    state_of(outbox, now) != "keeping_up"
}

/// Number of consumers in each state.
pub(crate) fn by_state(snapshot: &Snapshot) -> [(&'static str, u64); STATES.len()] {
    let mut counts = STATES.map(|state| (state, 0));
    for outbox in &snapshot.consumers {
        let is = state_of(outbox, snapshot.now);
        counts.iter_mut().filter(|(state, _)| *state == is).for_each(|(_, count)| *count += 1);
    }
    counts
}

type OfConsumer = (&'static str, Kind, &'static str, &'static str, fn(&OutboxStats) -> u64);

const OF_CONSUMERS: [OfConsumer; 7] = [
    ("campanile_consumer_delivered", Kind::Counter, "", "Events delivered.", |of| of.delivered),
    ("campanile_consumer_delivered_bytes", Kind::Counter, "bytes", "Octets of those, as they arrived.", |of| {
        of.delivered_bytes
    }),
    ("campanile_consumer_backlog_events", Kind::Gauge, "", "Events that wait or are unanswered.", |of| {
        of.backlog_events
    }),
    ("campanile_consumer_backlog_bytes", Kind::Gauge, "bytes", "What those in memory weigh.", |of| of.backlog_bytes),
    ("campanile_consumer_overflow_events", Kind::Gauge, "", "Of those, the ones that wait on disk.", |of| {
        of.elsewhere_events
    }),
    ("campanile_consumer_unanswered", Kind::Gauge, "", "Of those, the ones that were sent.", |of| of.in_flight.into()),
    ("campanile_consumer_failures", Kind::Gauge, "", "Times in a row that deliveries failed.", |of| of.failures.into()),
];

fn write_consumers(text: &mut Text, snapshot: &Snapshot, most: usize) {
    let (_, others) = snapshot.consumers.split_at(most.min(snapshot.consumers.len()));
    let keys: Vec<(String, Option<String>)> = snapshot
        .series
        .iter()
        .map(|series| (series.channel.0.to_string(), series.proxy.map(|proxy| proxy.0.to_string())))
        .collect();
    let of: Vec<(Vec<(&str, &str)>, &OutboxStats)> = snapshot
        .series
        .iter()
        .zip(&keys)
        .map(|(series, (channel, proxy))| {
            let proxy = proxy.as_deref().map(|proxy| ("proxy", proxy));
            let name = ("consumer", &*series.name);
            ([("channel", channel.as_str())].into_iter().chain(proxy).chain([name]).collect(), &series.stats)
        })
        .collect();
    for (name, kind, unit, help, value) in OF_CONSUMERS {
        write_each(text, (name, kind, unit, help), &of, value);
    }
    let now = snapshot.now;
    let help = "How long ago the oldest event came that it has yet to get; 0 if there is none.";
    let family = ("campanile_consumer_oldest_event_age_seconds", Kind::Gauge, "seconds", help);
    write_each(text, family, &of, |outbox| age(outbox.oldest, now));
    let help = "How long suppliers have waited for it; 0 if they do not.";
    let family = ("campanile_consumer_holds_suppliers_seconds", Kind::Gauge, "seconds", help);
    write_each(text, family, &of, |outbox| age(outbox.holds.map(|holds| holds.since), now));
    let help = "Events dropped for it, by reason; reasons for which there are none are left out.";
    text.family("campanile_consumer_dropped", Kind::Counter, "", help);
    of.iter().for_each(|(labels, outbox)| write_drops(text, labels, |reason| outbox.discards.of(reason)));
    let help = "What it is doing: the worst that is true.";
    text.family("campanile_consumer_state", Kind::StateSet, "", help);
    for (labels, outbox) in &of {
        let is = state_of(outbox, now);
        for state in STATES {
            let labels = [labels.as_slice(), &[("campanile_consumer_state", state)]].concat();
            text.sample("", &labels, u8::from(is == state));
        }
    }
    let help = "From an event's arrival until it has taken it.";
    text.family("campanile_consumer_delivery_latency_seconds", Kind::Histogram, "seconds", help);
    of.iter().for_each(|(labels, outbox)| write_latency(text, labels, &outbox.latency));
    write_others(text, snapshot, others);
}

/// Writes mismatches by topic and policy, for each join at most as many as it distinguishes.
fn write_dds_joins(text: &mut Text, joins: &[DdsJoinStatus]) {
    let help = "Times that a writer or reader in DDS did not match the channel's joins, by topic and policy.";
    text.family("campanile_dds_topic_incompatible", Kind::Counter, "", help);
    let mut all: BTreeMap<(u32, &str, &str), u64> = BTreeMap::new();
    for join in joins {
        for (topic, policy, count) in &join.totals {
            *all.entry((join.channel.0, topic, policy)).or_default() += count;
        }
    }
    for ((channel, topic, policy), count) in all {
        let channel = channel.to_string();
        text.sample("_total", &[("channel", channel.as_str()), ("topic", topic), ("policy", policy)], count);
    }
}

type OfOthers = (&'static str, &'static str, fn(&OutboxStats) -> u64);

fn write_others(text: &mut Text, snapshot: &Snapshot, others: &[OutboxStats]) {
    text.family("campanile_consumers", Kind::Gauge, "", "Connected consumers, by what they are doing.");
    for (state, count) in by_state(snapshot) {
        text.sample("", &[("state", state)], count);
    }
    text.family("campanile_other_consumers", Kind::Gauge, "", "Consumers without series of their own.");
    text.sample("", &[], others.len());
    let sums: [OfOthers; 3] = [
        ("delivered", "Events delivered to consumers without series of their own.", |outbox| outbox.delivered),
        ("dropped", "Events dropped for them.", |outbox| outbox.discards.total()),
        ("backlog_events", "Events that wait for them or are unanswered.", |outbox| outbox.backlog_events),
    ];
    for (name, help, of) in sums {
        text.family(&format!("campanile_other_consumers_{name}"), Kind::Gauge, "", help);
        text.sample("", &[], others.iter().map(of).sum::<u64>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_counter_has_a_name_of_its_own_that_ends_with_its_unit() {
        let mut names = HashSet::new();
        for exported in Counter::exported() {
            let (name, kind, unit) = family_of(exported);
            assert!(name.ends_with(unit), "{name}");
            assert!(!name.ends_with("_total") && !name.ends_with("_info") && !name.ends_with("_count"), "{name}");
            // Octets of what was refused are counted by how often.
            let of_octets = exported.0.contains("_bytes") && !exported.0.ends_with("_reached");
            assert_eq!(of_octets, unit == "bytes", "{name}");
            assert_eq!(
                ["_ns", "_us", "_ms"].iter().any(|unit| exported.0.ends_with(unit)),
                unit == "seconds",
                "{name}"
            );
            assert!(kind == Kind::Gauge || kind == Kind::Counter);
            assert!(names.insert(name.clone()), "{name}");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit()),
                "{name}"
            );
        }
        for exported in exported_of_lanes() {
            let name = family_of(exported).0.replacen("campanile_", "campanile_lane_", 1);
            assert!(names.insert(name.clone()), "{name}");
        }
    }
}

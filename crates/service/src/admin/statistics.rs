//! Status of consumers, and drops, made of the lanes' reports.

use core::cmp::Reverse;
use core::time::Duration;

use engine::{ChannelId, DiscardReason, Holding, OutboxState, OutboxStats, ProxyKey, Time};

use crate::admin::values::{ChannelStatus, ConsumerStatus, Dropped, LinkDirection, LinkStatus, TypeEvents};
use crate::counters::Counter;
use crate::lane::links::messages::NamedDrops;

/// Maximum consumers in one answer.
const CONSUMERS_MAX: usize = 8_192;

/// Facts about a consumer's client beside its deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfClient {
    /// How long the client has been unreachable, if that is announced.
    pub(super) unreachable_for: Option<Duration>,
    /// Another proxy of the same channel with the same object connected.
    pub(super) duplicate_of: Option<ProxyKey>,
    /// Whether the client has offered a connection of its own for calls to it.
    pub(super) offers_connection: bool,
}

/// Status of the consumers in one answer.
pub(super) fn consumers(
    outboxes: Vec<OutboxStats>,
    now: Time,
    name: impl Fn(ProxyKey) -> String,
    of_client: impl Fn(ProxyKey) -> OfClient,
) -> Vec<ConsumerStatus> {
    let status = |outbox: OutboxStats| {
        let mut state = status((outbox.state, of_client(outbox.key)), outbox.holds, now);
        if let Some(behind) = behind_for(&outbox, now).filter(|_| outbox.holds.is_none()) {
            state.push_str(&format!(", BEHIND for {} s", behind.as_secs()));
        }
        ConsumerStatus { name: name(outbox.key), state, outbox }
    };
    largest_backlogs(outboxes).into_iter().map(status).collect()
}

/// Maximum consumers named as a channel's slowest.
const SLOWEST_MAX: usize = 16;

/// Status of one channel, made of `outboxes`, which may have other channels' too.
pub(super) fn channel(
    channel: ChannelId,
    outboxes: &[OutboxStats],
    now: Time,
    named: (Option<String>, impl Fn(ProxyKey) -> String),
) -> ChannelStatus {
    const LOST_AT_LIMITS: [DiscardReason; 3] =
        [DiscardReason::OutboxFull, DiscardReason::MemorySpent, DiscardReason::QueueFull];
    let outboxes = join(outboxes.iter().filter(|outbox| outbox.key.channel == channel).copied().collect());
    let most = outboxes.iter().map(|outbox| outbox.backlog_events).max().unwrap_or(0);
    let mut slowest: Vec<&OutboxStats> =
        outboxes.iter().filter(|outbox| most > 0 && outbox.backlog_events >= most.div_ceil(2)).collect();
    slowest.sort_by_key(|outbox| (Reverse(outbox.backlog_events), outbox.key));
    let (name, called) = named;
    ChannelStatus {
        channel,
        name,
        backlog_events: outboxes.iter().map(|outbox| outbox.backlog_events).sum(),
        backlog_bytes: outboxes.iter().map(|outbox| outbox.backlog_bytes).sum(),
        oldest: outboxes.iter().filter_map(|outbox| outbox.oldest).min().map(|since| now.since(since)),
        slowest: slowest.iter().take(SLOWEST_MAX).map(|outbox| (outbox.key, called(outbox.key))).collect(),
        overflows: outboxes.iter().flat_map(|outbox| LOST_AT_LIMITS.map(|reason| outbox.discards.of(reason))).sum(),
    }
}

/// Drops by consumer, and of each consumer the largest number first.
pub(super) fn drops(mut drops: Vec<NamedDrops>, name: impl Fn(ProxyKey) -> String) -> Vec<Dropped> {
    let order = |named: &NamedDrops| (named.drops.key, Reverse(named.drops.events));
    drops.sort_by(|one, other| {
        let by_name = || (&one.domain, &one.name).cmp(&(&other.domain, &other.name));
        order(one).cmp(&order(other)).then_with(by_name)
    });
    let dropped = |NamedDrops { drops, domain, name: event_type }: NamedDrops| Dropped {
        key: drops.key,
        name: name(drops.key),
        domain,
        event_type,
        reason: reason_name(drops.reason),
        events: drops.events,
    };
    drops.into_iter().map(dropped).collect()
}

/// Events by type, on all lanes together.
pub(super) fn types(mut types: Vec<TypeEvents>) -> Vec<TypeEvents> {
    types.sort_by(|one, other| (&one.domain, &one.name).cmp(&(&other.domain, &other.name)));
    types.dedup_by(|other, first| {
        let same = (&other.domain, &other.name) == (&first.domain, &first.name);
        if same {
            first.events += other.events;
        }
        same
    });
    types
}

/// Links in the order of an answer, each once: one that was added again during the survey may have been reported twice.
pub(crate) fn links(mut links: Vec<LinkStatus>) -> Vec<LinkStatus> {
    // Links of several services to this one may have one name.
    const fn key(link: &LinkStatus) -> (&str, &str, LinkDirection, u64, &str) {
        (link.name.as_str(), link.channel.as_str(), link.direction, link.peer_service, link.peer.as_str())
    }
    links.sort_by(|one, other| key(one).cmp(&key(other)));
    links.dedup_by(|other, first| key(other) == key(first));
    links
}

/// Merges the lanes' outboxes of each consumer.
pub(super) fn join(mut outboxes: Vec<OutboxStats>) -> Vec<OutboxStats> {
    // Of several outboxes, the one with the largest backlog comes first, and determines the state.
    outboxes.sort_by_key(|outbox| (outbox.key, Reverse(outbox.backlog_bytes)));
    outboxes.dedup_by(|other, first| {
        let same = other.key == first.key;
        if same {
            first.join(other);
        }
        same
    });
    outboxes
}

/// The consumers of one answer: those with the largest backlogs, the largest first, up to the maximum.
fn largest_backlogs(outboxes: Vec<OutboxStats>) -> Vec<OutboxStats> {
    let mut outboxes = join(outboxes);
    let by_backlog = |outbox: &OutboxStats| (Reverse(outbox.backlog_bytes), outbox.key);
    if outboxes.len() > CONSUMERS_MAX {
        // Before they are put in order, so that this takes time in proportion to their number only.
        outboxes.select_nth_unstable_by_key(CONSUMERS_MAX, by_backlog);
        outboxes.truncate(CONSUMERS_MAX);
    }
    outboxes.sort_unstable_by_key(by_backlog);
    outboxes
}

/// Name of a reason: that of its counter without `lane_dropped_`.
#[must_use]
pub fn reason_name(reason: DiscardReason) -> &'static str {
    let counter = Counter::of_discard(reason).name();
    counter.strip_prefix("lane_dropped_").unwrap_or(counter)
}

/// Status of a consumer in words: its state, whether it offers a connection that it made, whether its object is connected to another proxy
/// too, how long it has been unreachable, and how long suppliers have waited and may wait for it.
fn status((state, client): (OutboxState, OfClient), holds: Option<Holding>, now: Time) -> String {
    let mut text = state_name(state).to_owned();
    if client.offers_connection {
        text.push_str(", OFFERS ITS OWN CONNECTION");
    }
    if let Some(other) = client.duplicate_of {
        text.push_str(&format!(", SAME REFERENCE as proxy {}", other.proxy.0));
    }
    if let Some(time) = client.unreachable_for {
        text.push_str(&format!(", UNREACHABLE for {} s", time.as_secs()));
    }
    let state = text;
    let Some(Holding { since, until }) = holds else { return state };
    let held = now.since(since).as_secs();
    let left = match until {
        Some(until) => format!("for {} s more at most", until.since(now).as_secs()),
        None => "and it is not disconnected for that".to_owned(),
    };
    format!("{state}, HOLDS SUPPLIERS for {held} s, {left}")
}

/// Age of a due event above which its consumer is behind.
const BEHIND_AFTER: Duration = Duration::from_secs(1);

/// How long an otherwise healthy consumer has been behind; `None` if it keeps up.
#[must_use]
pub fn behind_for(outbox: &OutboxStats, now: Time) -> Option<Duration> {
    // Events that wait for their `StartTime` are not late.
    let is_due = outbox.backlog_events > outbox.delayed;
    let waited = now.since(outbox.oldest?);
    (outbox.state == OutboxState::Active && is_due && waited >= BEHIND_AFTER).then_some(waited)
}

/// State of an outbox in words.
#[must_use]
pub const fn state_name(state: OutboxState) -> &'static str {
    match state {
        OutboxState::Active => "active",
        OutboxState::Suspended => "suspended",
        OutboxState::NoRoom => "socket full",
        OutboxState::BackingOff => "failing",
        OutboxState::Disconnected => "disconnected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{
        AdminId, ChannelLimits, Form, Hierarchy, Lane, OutputForm, Peer, ProxyId, ProxyKind, SettingsPatch, Side,
    };

    /// How the outbox of a consumer stands that has just connected.
    fn idle() -> OutboxStats {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let (side, form, kind) = (Side::Consumers, Form(1), ProxyKind::default());
        let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, form, kind).unwrap();
        hierarchy.connect(ProxyKey { channel, proxy }, Some(Peer(1)), OutputForm(0)).unwrap();
        let mut lane = Lane::new(Time(0));
        lane.handle_snapshot(hierarchy.snapshot(), Time(0));
        lane.outboxes_at(0, 1).unwrap().next().unwrap()
    }

    /// A client can have many thousand consumers, and each query of their status had all of them copied, put in order and
    /// written down in one go: administration did nothing else meanwhile.
    #[test]
    fn of_many_consumers_those_with_the_largest_backlogs_are_reported() {
        let (idle, number_of) = (idle(), |number: usize| u32::try_from(number).unwrap());
        let consumer = |number: usize| OutboxStats {
            key: ProxyKey { proxy: ProxyId(number_of(number)), ..idle.key },
            // Neither rising nor falling; 7,919 is a prime.
            backlog_bytes: u64::from(number_of(number) * 7_919 % 10_007),
            ..idle
        };
        let largest = largest_backlogs((0..10_007).map(consumer).collect());
        let backlogs: Vec<u64> = largest.iter().map(|outbox| outbox.backlog_bytes).collect();
        let largest: Vec<u64> = (0..10_007).rev().take(CONSUMERS_MAX).collect();
        assert_eq!(backlogs, largest);
        assert_eq!(largest_backlogs((0..5).map(consumer).collect()).len(), 5);
    }

    #[test]
    fn a_consumer_whose_oldest_event_is_due_for_a_second_is_behind() {
        let now = Time(0) + Duration::from_secs(20);
        let since = |seconds| Some(Time(0) + Duration::from_secs(seconds));
        let waiting = |backlog_events, delayed, oldest| OutboxStats { backlog_events, delayed, oldest, ..idle() };
        for (outbox, expected) in [
            (waiting(3, 0, since(8)), Some(12)),
            (waiting(3, 3, since(8)), None),
            (waiting(1, 0, since(20)), None),
            (waiting(0, 0, None), None),
            (OutboxStats { state: OutboxState::BackingOff, ..waiting(3, 0, since(8)) }, None),
        ] {
            assert_eq!(behind_for(&outbox, now), expected.map(Duration::from_secs));
            let told = &consumers(vec![outbox], now, |_| String::new(), |_| OfClient::default())[0].state;
            assert_eq!(told.ends_with(", BEHIND for 12 s"), expected.is_some(), "{told}");
        }
    }

    #[test]
    fn a_consumer_that_blocks_suppliers_is_reported_with_since_when_and_until_when() {
        let since = Time(0) + Duration::from_secs(5);
        let now = since + Duration::from_secs(12);
        assert_eq!(status((OutboxState::Active, OfClient::default()), None, now), "active");
        let gone = OfClient { unreachable_for: Some(Duration::from_secs(75)), ..OfClient::default() };
        assert_eq!(status((OutboxState::BackingOff, gone), None, now), "failing, UNREACHABLE for 75 s");
        let twice = ProxyKey { channel: ChannelId(0), proxy: ProxyId(12) };
        let both = OfClient { duplicate_of: Some(twice), ..gone };
        let text = "failing, SAME REFERENCE as proxy 12, UNREACHABLE for 75 s";
        assert_eq!(status((OutboxState::BackingOff, both), None, now), text);
        let holds = Holding { since, until: Some(since + Duration::from_secs(30)) };
        let text = "active, HOLDS SUPPLIERS for 12 s, for 18 s more at most";
        assert_eq!(status((OutboxState::Active, OfClient::default()), Some(holds), now), text);
        let holds = Holding { since, until: None };
        let text = "suspended, HOLDS SUPPLIERS for 12 s, and it is not disconnected for that";
        assert_eq!(status((OutboxState::Suspended, OfClient::default()), Some(holds), now), text);
    }
}

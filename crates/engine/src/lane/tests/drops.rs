//! What was dropped, by event type and reason.

use super::*;
use alloc::string::String;

impl Rig {
    fn publish_type(&mut self, name: &str, timeout: Option<Duration>) -> Admission {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.push(0);
        pending_event.timeout = timeout;
        self.lane.classify(&mut pending_event, b"domain", name.as_bytes());
        self.lane.handle_event(self.source, pending_event, &NoFields, self.now)
    }

    /// Each type's name, reason and count, sorted by name.
    fn drops_of(&self, key: ProxyKey) -> Vec<(String, DiscardReason, u64)> {
        let drops = self.lane.type_drops().filter(|drops| drops.key == key);
        let name = |event_type| self.lane.type_names(event_type).map_or(&b"none"[..], |(_, name)| name);
        let named = drops
            .map(|drops| (String::from_utf8_lossy(name(drops.event_type)).into_owned(), drops.reason, drops.events));
        let mut named: Vec<_> = named.collect();
        named.sort_by(|one, other| one.0.cmp(&other.0));
        named
    }
}

fn named<const N: usize>(drops: [(&str, DiscardReason, u64); N]) -> Vec<(String, DiscardReason, u64)> {
    drops.map(|(name, reason, events)| (name.into(), reason, events)).into()
}

#[test]
fn events_that_make_place_or_find_none_are_counted_by_their_type() {
    let mut rig = Rig::plain();
    let fifo = rig.consumer(max_events(2));
    let lifo = SettingsPatch { discard_policy: Some(DiscardPolicy::Lifo), ..max_events(2) };
    let lifo = rig.consumer(lifo);
    for name in ["a", "b", "c", "d", "d"] {
        rig.publish_type(name, None);
    }
    let reason = DiscardReason::OutboxFull;
    assert_eq!(rig.drops_of(fifo), named([("a", reason, 1), ("b", reason, 1), ("c", reason, 1)]));
    assert_eq!(rig.drops_of(lifo), named([("c", reason, 1), ("d", reason, 2)]));
}

#[test]
fn events_that_a_channels_limit_drops_are_counted_by_their_type() {
    let two = ChannelLimits { max_queue_length: NonZeroU32::new(2), ..ChannelLimits::default() };
    for (limits, reason) in [(two, DiscardReason::QueueFull), (budget(2 * charge(1)), DiscardReason::MemorySpent)] {
        let mut rig = Rig::new(full(FullOutbox::Discard), limits);
        let key = rig.consumer(SettingsPatch::default());
        for name in ["a", "b", "c", "d"] {
            rig.publish_type(name, None);
        }
        assert_eq!(rig.drops_of(key), named([("a", reason, 1), ("b", reason, 1)]));
    }
}

#[test]
fn events_that_expire_are_counted_by_their_type() {
    let mut rig = Rig::plain();
    let key = rig.sleeper(SettingsPatch::default());
    for name in ["a", "b", "a"] {
        rig.publish_type(name, Some(Duration::from_millis(1)));
    }
    rig.publish_type("stays", None);
    rig.advance(Duration::from_millis(2));
    let mut pending_event = rig.lane.begin_event();
    pending_event.stop = Some(Time(1));
    rig.lane.classify(&mut pending_event, b"domain", b"late");
    rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
    let reason = DiscardReason::Expired;
    assert_eq!(rig.drops_of(key), named([("a", reason, 2), ("b", reason, 1), ("late", reason, 1)]));
}

#[test]
fn events_that_cannot_be_delivered_are_counted_by_their_type() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    let dropped = [
        ("a", Outcome::Rejected, DiscardReason::Rejected),
        ("b", Outcome::Untranslatable, DiscardReason::Untranslatable),
        ("c", Outcome::FilterFailed, DiscardReason::FilterFailed),
    ];
    for (name, outcome, _) in dropped {
        rig.publish_type(name, None);
        rig.answer(outcome);
    }
    for outcome in [Outcome::Filtered, Outcome::Delivered] {
        rig.publish_type("d", None);
        rig.answer(outcome);
    }
    assert_eq!(rig.drops_of(key), named(dropped.map(|(name, _, reason)| (name, reason, 1))));
}

#[test]
fn a_backlog_that_goes_is_counted_by_type_as_it_is_released() {
    let mut rig = Rig::plain();
    let (gone, removed) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    for name in ["a", "b"] {
        for _ in 0..200 {
            rig.publish_type(name, None);
        }
    }
    rig.answer(Outcome::Gone);
    rig.hierarchy.destroy_proxy(removed).unwrap();
    rig.route();
    assert_eq!(rig.lane.counters().discards.total(), 800);
    assert_eq!(rig.lane.type_drops().count(), 0, "the others are not kept waiting");
    rig.advance(Duration::ZERO);
    let events: u64 = rig.lane.type_drops().map(|drops| drops.events).sum();
    assert!(0 < events && events < 800, "{events}");
    while rig.lane.next_timeout() == Some(rig.now) {
        rig.advance(Duration::ZERO);
    }
    for (key, reason) in [(gone, DiscardReason::Disconnected), (removed, DiscardReason::Removed)] {
        assert_eq!(rig.drops_of(key), named([("a", reason, 200), ("b", reason, 200)]));
    }
}

#[test]
fn types_without_a_number_are_counted_together() {
    let mut rig = Rig::plain();
    let key = rig.consumer(max_events(1));
    for length in [2_000, 3_000, 4_000] {
        rig.publish_type(&"x".repeat(length), None);
    }
    assert_eq!(rig.drops_of(key), named([("none", DiscardReason::OutboxFull, 2)]));
}

#[test]
fn drops_beyond_the_bound_are_counted_in_one_number_until_consumers_that_are_gone_make_place() {
    let mut rig = Rig::plain();
    let key = rig.consumer(max_events(1));
    for number in 0..1_100 {
        rig.publish_type(&format!("{number}"), None);
    }
    let sum = |lane: &Lane| lane.type_drops().map(|drops| drops.events).sum::<u64>();
    assert_eq!((rig.lane.type_drops().count(), sum(&rig.lane), rig.lane.type_drops_beyond()), (1_024, 1_024, 75));
    rig.publish_type("0", None);
    rig.publish_type("again", None);
    assert_eq!((rig.lane.type_drops().count(), sum(&rig.lane), rig.lane.type_drops_beyond()), (1_024, 1_025, 76));

    let other = rig.consumer(max_events(1));
    assert_eq!(rig.lane.type_drops().count(), 1_024, "no consumer is gone");
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    for name in ["a", "b"] {
        rig.publish_type(name, None);
    }
    assert_eq!(rig.drops_of(other), named([("a", DiscardReason::OutboxFull, 1)]));
    assert_eq!((rig.drops_of(key), rig.lane.type_drops_beyond()), (named([]), 76 + 1_025));
}

//! What administration does costs the event path as much as it changes: counted, not timed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use campanile_engine as engine;
use engine::{
    AdminId, Admission, ChannelId, ChannelLimits, EventType, FilterConstraint, FilterId, FilterRef, FilterTarget,
    Hierarchy, Lane, NoFields, Operator, OutputForm, Peer, ProxyKey, ProxyKind, SettingsPatch, Side,
    SubscriptionTarget, Time,
};

const CONSUMERS: u32 = 10_000;
const NOW: Time = Time(0);

/// A channel with a supplier and very many consumers of events of type `telescope:status`, and its lane.
struct Scene {
    hierarchy: Hierarchy,
    lane: Lane,
    channel: ChannelId,
    source: ProxyKey,
    consumers: Vec<ProxyKey>,
}

impl Scene {
    fn new() -> Self {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let mut scene =
            Self { hierarchy, lane: Lane::new(NOW), channel, source: ProxyKey::default(), consumers: Vec::new() };
        scene.source = scene.connect(Side::Suppliers);
        for _ in 0..CONSUMERS {
            let key = scene.connect(Side::Consumers);
            scene.subscribe(key, "status");
            scene.consumers.push(key);
        }
        scene.publish();
        scene
    }

    fn proxy(&mut self, side: Side) -> ProxyKey {
        let kind = ProxyKind::default();
        let proxy = self.hierarchy.create_proxy(self.channel, side, AdminId::DEFAULT, engine::Form(1), kind).unwrap();
        ProxyKey { channel: self.channel, proxy }
    }

    fn connect(&mut self, side: Side) -> ProxyKey {
        let key = self.proxy(side);
        self.hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
        key
    }

    /// Has a consumer want events of one type and no others.
    fn subscribe(&mut self, key: ProxyKey, name: &str) {
        let (added, removed) = ([EventType::new("telescope", name)], [EventType::everything()]);
        self.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &added, &removed).unwrap();
    }

    fn filter(&mut self, target: FilterTarget, text: &str) -> FilterId {
        let filter = self.hierarchy.create_filter(self.channel).unwrap();
        self.hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
        self.constrain(filter, text);
        filter
    }

    fn constrain(&mut self, filter: FilterId, text: &str) {
        let program = Arc::new(filter::Constraint::parse(text, &filter::Limits::default()).unwrap());
        let constraint = FilterConstraint { types: Arc::new([]), program, value: 0 };
        self.hierarchy.set_constraints(filter, [constraint].into(), None).unwrap();
    }

    /// Publishes what changed; says how many consumers the lane looked at for it.
    fn publish(&mut self) -> u64 {
        let before = self.lane.counters().routing.members_visited;
        let mut snapshot = self.hierarchy.snapshot();
        while self.hierarchy.has_work() {
            snapshot = self.hierarchy.snapshot();
        }
        self.lane.handle_snapshot(snapshot, NOW);
        self.lane.counters().routing.members_visited - before
    }

    /// Sends an event; says how many consumers it goes to.
    fn send(&mut self, name: &str) -> u32 {
        let mut pending_event = self.lane.begin_event();
        self.lane.classify(&mut pending_event, b"telescope", name.as_bytes());
        match self.lane.handle_event(self.source, pending_event, &NoFields, NOW) {
            Admission::Accepted { destinations } => destinations,
            other => panic!("{other:?}"),
        }
    }

    /// The same, saying how many times all consumers were looked at, and how many changes were taken in.
    fn send_counting(&mut self, name: &str) -> (u32, u64, u64) {
        let counted = |lane: &Lane| (lane.counters().routing.misses, lane.counters().routing.amendments);
        let before = counted(&self.lane);
        let destinations = self.send(name);
        let after = counted(&self.lane);
        (destinations, after.0 - before.0, after.1 - before.1)
    }
}

#[test]
fn what_an_event_need_not_know_of_is_not_published() {
    let mut scene = Scene::new();
    let before = scene.hierarchy.snapshot();
    for _ in 0..100 {
        let unconnected = scene.proxy(Side::Consumers);
        scene.subscribe(unconnected, "alarm");
        scene.filter(FilterTarget::Proxy(unconnected), "$a == 1");
        scene.hierarchy.set_proxy_settings(unconnected, SettingsPatch::default()).unwrap();
    }
    scene.hierarchy.create_admin(scene.channel, Side::Consumers, Operator::Or).unwrap();
    let came_and_went = scene.connect(Side::Consumers);
    scene.hierarchy.disconnect(came_and_went).unwrap();
    assert!(Arc::ptr_eq(&before, &scene.hierarchy.snapshot()));
}

#[test]
fn a_consumer_that_comes_changes_or_goes_is_the_only_one_looked_at() {
    let mut scene = Scene::new();
    assert_eq!(scene.send("status"), CONSUMERS);
    let comes = scene.connect(Side::Consumers);
    assert_eq!(scene.publish(), 1);
    assert_eq!(scene.send_counting("status"), (CONSUMERS + 1, 0, 1));
    scene.subscribe(comes, "alarm");
    assert_eq!(scene.publish(), 1);
    assert_eq!(scene.send_counting("status"), (CONSUMERS, 0, 1));
    scene.hierarchy.suspend(comes).unwrap();
    assert_eq!(scene.publish(), 1);
    assert_eq!(scene.send_counting("status"), (CONSUMERS, 0, 0), "it wants what it wanted");
    let middle = scene.consumers.len() / 2;
    scene.hierarchy.destroy_proxy(scene.consumers[middle]).unwrap();
    assert_eq!(scene.publish(), 1);
    assert_eq!(scene.send_counting("status"), (CONSUMERS - 1, 0, 1));
    scene.connect(Side::Suppliers);
    assert_eq!(scene.publish(), 0);
    assert_eq!(scene.send_counting("status"), (CONSUMERS - 1, 0, 0));
}

#[test]
fn many_changes_at_once_are_taken_in_one_by_one_until_it_is_cheaper_to_begin_anew() {
    let mut scene = Scene::new();
    assert_eq!(scene.send("status"), CONSUMERS);
    (0..500).for_each(|_| _ = scene.connect(Side::Consumers));
    assert_eq!(scene.publish(), 500);
    assert_eq!(scene.send_counting("status"), (CONSUMERS + 500, 0, 500));
    (0..2_000).for_each(|_| _ = scene.connect(Side::Consumers));
    assert_eq!(scene.publish(), 2_000);
    assert_eq!(scene.send_counting("status"), (CONSUMERS + 2_500, 1, 0));
}

#[test]
fn a_constraint_that_is_replaced_concerns_those_that_have_its_filter() {
    let mut scene = Scene::new();
    assert_eq!(scene.send("status"), CONSUMERS);
    let filtered = FilterTarget::Proxy(scene.consumers[17]);
    let filter = scene.filter(filtered, "$a == 1");
    assert_eq!(scene.publish(), 1);
    assert_eq!((scene.send("status"), scene.lane.counters().routing.misses), (CONSUMERS - 1, 1));
    for (text, passes) in [("$a == 2", 0), ("TRUE", 1), ("$a == 3 or $b == 4", 0), ("FALSE", 0), ("", 1)] {
        scene.constrain(filter, text);
        assert_eq!(scene.publish(), 0, "the consumer's route is as it was");
        assert_eq!((scene.send("status"), scene.lane.counters().routing.misses), (CONSUMERS - 1 + passes, 1), "{text}");
    }
    scene.hierarchy.remove_all_filters(filtered).unwrap();
    assert_eq!(scene.publish(), 1);
    assert_eq!((scene.send("status"), scene.lane.counters().routing.misses), (CONSUMERS, 1));
}

#[test]
fn a_constraint_of_an_admin_that_is_replaced_by_one_of_its_kind_concerns_no_client() {
    let mut scene = Scene::new();
    let target = FilterTarget::Admin { channel: scene.channel, side: Side::Consumers, admin: AdminId::DEFAULT };
    let filter = scene.filter(target, "$a == 1");
    assert_eq!(scene.publish(), u64::from(CONSUMERS));
    assert_eq!((scene.send("status"), scene.lane.counters().routing.misses), (0, 1));
    scene.constrain(filter, "$a == 2");
    assert_eq!(scene.publish(), 0);
    assert_eq!((scene.send("status"), scene.lane.counters().routing.misses), (0, 1));
    scene.constrain(filter, "TRUE");
    assert_eq!(scene.publish(), 0);
    assert_eq!(
        (scene.send("status"), scene.lane.counters().routing.misses),
        (CONSUMERS, 2),
        "now it is another verdict"
    );
}

#[test]
fn types_that_are_not_met_are_not_amended() {
    let mut scene = Scene::new();
    for name in ["status", "alarm", "log"] {
        scene.send(name);
    }
    let comes = scene.connect(Side::Consumers);
    scene.publish();
    assert_eq!(scene.lane.counters().routing.amendments, 0, "administration alone takes nothing from the events");
    assert_eq!(scene.send_counting("alarm"), (1, 0, 1));
    scene.hierarchy.destroy_proxy(comes).unwrap();
    scene.publish();
    assert_eq!(scene.send_counting("log"), (0, 0, 2));
    assert_eq!(scene.send_counting("alarm"), (0, 0, 1));
}

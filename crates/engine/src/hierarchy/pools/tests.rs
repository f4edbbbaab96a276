//! Pools and places, one sentence a test.

use alloc::vec;

use super::*;
use crate::{
    AdminId, ChannelId, ChannelLimits, Discipline, Form, HierarchyLimits, LaneSpec, Operator, OutputForm, Peer,
    ProxyKind, Side,
};

fn spec(model: PriorityModel, lanes: &[(i16, u16)]) -> PoolSpec {
    let lanes = lanes.iter().map(|(priority, threads)| LaneSpec { priority: *priority, threads: *threads }).collect();
    let (discipline, queue_events_max) = (Discipline::default(), PoolSpec::QUEUE_EVENTS_MAX);
    PoolSpec { model, server_priority: 20, lanes, discipline, queue_events_max }
}

struct Rig {
    hierarchy: Hierarchy,
    channel: ChannelId,
}

impl Rig {
    fn new() -> Self {
        let mut hierarchy = Hierarchy::new(HierarchyLimits { lane_threads_max: 8, ..HierarchyLimits::default() });
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        Self { hierarchy, channel }
    }

    fn pool(&mut self, lanes: &[(i16, u16)]) -> SettingsPatch {
        let pool = self.hierarchy.create_pool(spec(PriorityModel::ClientPropagated, lanes)).unwrap();
        SettingsPatch { pool: Some(pool), ..SettingsPatch::default() }
    }

    fn proxy(&mut self, side: Side, admin: AdminId, kind: ProxyKind) -> ProxyKey {
        let channel = self.channel;
        let proxy = self.hierarchy.create_proxy(channel, side, admin, Form(1), kind).unwrap();
        ProxyKey { channel, proxy }
    }

    fn consumer(&mut self) -> ProxyKey {
        let key = self.proxy(Side::Consumers, AdminId::DEFAULT, ProxyKind::default());
        self.connect(key);
        key
    }

    fn connect(&mut self, key: ProxyKey) {
        self.hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
    }

    /// The places of a proxy, on whichever side it is.
    fn places(&mut self, key: ProxyKey) -> Vec<(i16, u16)> {
        let snapshot = self.hierarchy.snapshot();
        let mut consumers = snapshot.channel(key.channel).unwrap().consumers();
        let consumer = consumers.find(|route| route.key == key).map(|route| &route.places);
        let places = consumer.or_else(|| snapshot.supplier(key).map(|route| &route.places)).unwrap();
        places.iter().map(|place| (place.from_priority, place.lane.0)).collect()
    }

    fn changes(&mut self) -> Vec<(bool, u16)> {
        let mut changes = vec![];
        while let Some(change) = self.hierarchy.poll_lane() {
            changes.push(match change {
                LaneChange::Started(info) => (true, info.id.0),
                LaneChange::Ended(lane) => (false, lane.0),
            });
        }
        changes
    }
}

#[test]
fn a_client_that_has_no_pool_is_served_by_the_main_lane() {
    let mut rig = Rig::new();
    let consumer = rig.consumer();
    assert_eq!(rig.places(consumer), [(i16::MIN, 0)]);
    assert_eq!(rig.hierarchy.priority_model(consumer), None);
    assert!(rig.hierarchy.snapshot().lanes().is_empty());
}

#[test]
fn the_lane_is_the_one_with_the_highest_priority_that_is_not_above_the_events() {
    let mut rig = Rig::new();
    let patch = rig.pool(&[(10, 1), (20, 1), (300, 1)]);
    rig.hierarchy.set_channel_settings(rig.channel, patch).unwrap();
    let supplier = rig.proxy(Side::Suppliers, AdminId::DEFAULT, ProxyKind::default());
    assert_eq!(rig.places(supplier), [(i16::MIN, 1), (20, 2), (300, 3)]);
    let snapshot = rig.hierarchy.snapshot();
    let lane_for = |priority| snapshot.supplier(supplier).unwrap().lane_for(priority).0;
    assert_eq!([i16::MIN, 9, 10, 19, 20, 299, 300, i16::MAX].map(lane_for), [1, 1, 1, 1, 2, 2, 3, 3]);
    assert_eq!(rig.hierarchy.priority_model(supplier), Some((PriorityModel::ClientPropagated, 20)));
}

#[test]
fn a_declared_priority_makes_one_place_whatever_the_event_says() {
    for (server_priority, lane) in [(0, 1), (10, 1), (19, 1), (20, 2), (32_767, 2)] {
        let mut rig = Rig::new();
        let spec = spec(PriorityModel::ServerDeclared, &[(10, 1), (20, 1)]);
        let pool = rig.hierarchy.create_pool(PoolSpec { server_priority, ..spec }).unwrap();
        let patch = SettingsPatch { pool: Some(pool), ..SettingsPatch::default() };
        rig.hierarchy.set_channel_settings(rig.channel, patch).unwrap();
        let consumer = rig.consumer();
        assert_eq!(rig.places(consumer), [(i16::MIN, lane)], "declared: {server_priority}");
    }
}

#[test]
fn the_nearest_pool_counts() {
    let mut rig = Rig::new();
    let of = |rig: &mut Rig| rig.pool(&[(5, 1)]);
    let patches = [of(&mut rig), of(&mut rig), of(&mut rig)];
    let (channel, side) = (rig.channel, Side::Consumers);
    let admin = rig.hierarchy.create_admin(channel, side, Operator::And).unwrap();
    let keys = [AdminId::DEFAULT, admin, admin].map(|admin| rig.proxy(side, admin, ProxyKind::default()));
    rig.hierarchy.set_channel_settings(channel, patches[0]).unwrap();
    rig.hierarchy.set_admin_settings(channel, side, admin, patches[1]).unwrap();
    rig.hierarchy.set_proxy_settings(keys[2], patches[2]).unwrap();
    keys.iter().for_each(|key| rig.connect(*key));
    assert_eq!(keys.map(|key| rig.places(key)), [1, 2, 3].map(|lane| vec![(i16::MIN, lane)]));
}

#[test]
fn proxies_are_shared_out_among_the_threads_of_each_priority() {
    let mut rig = Rig::new();
    let patch = rig.pool(&[(1, 2), (2, 3)]);
    rig.hierarchy.set_channel_settings(rig.channel, patch).unwrap();
    let mut counts = [0; 6];
    for at in 0..1_200 {
        // Consumers and suppliers in turn, as clients that are both make them.
        let key = if at % 2 == 0 {
            rig.consumer()
        } else {
            rig.proxy(Side::Suppliers, AdminId::DEFAULT, ProxyKind::default())
        };
        if at % 2 == 0 {
            for (_, lane) in rig.places(key) {
                counts[usize::from(lane)] += 1;
            }
        }
    }
    assert_eq!(counts.iter().sum::<u32>(), 1_200);
    assert!(counts[1..3].iter().all(|count| (240..360).contains(count)), "{counts:?}");
    assert!(counts[3..6].iter().all(|count| (150..250).contains(count)), "{counts:?}");
}

#[test]
fn a_client_that_pulls_or_is_pulled_from_or_is_reached_there_only_is_on_the_main_lane() {
    let mut rig = Rig::new();
    let patch = rig.pool(&[(1, 1), (2, 1)]);
    rig.hierarchy.set_channel_settings(rig.channel, patch).unwrap();
    let plain = ProxyKind::default();
    let kinds = [ProxyKind { pull: true, ..plain }, ProxyKind { on_main_lane: true, ..plain }];
    for (side, kind) in [Side::Consumers, Side::Suppliers].into_iter().flat_map(|side| kinds.map(|kind| (side, kind))) {
        let key = rig.proxy(side, AdminId::DEFAULT, kind);
        rig.connect(key);
        assert_eq!((rig.places(key), rig.hierarchy.priority_model(key)), (vec![(i16::MIN, 0)], None));
    }
}

#[test]
fn a_pool_is_set_or_taken_away_only_while_no_client_is_connected_beneath() {
    let mut rig = Rig::new();
    let (patch, none, channel, side) = (rig.pool(&[(1, 1)]), SettingsPatch::default(), rig.channel, Side::Consumers);
    let admin = rig.hierarchy.create_admin(channel, side, Operator::And).unwrap();
    let (key, beside) = (rig.consumer(), rig.proxy(side, admin, ProxyKind::default()));
    let refused = Err(Refusal::PoolInUse { proxy: key });
    assert_eq!(rig.hierarchy.set_channel_settings(channel, patch), refused);
    assert_eq!(rig.hierarchy.set_admin_settings(channel, side, AdminId::DEFAULT, patch), refused);
    assert_eq!(rig.hierarchy.set_proxy_settings(key, patch), refused);
    assert_eq!(rig.hierarchy.set_admin_settings(channel, side, admin, patch), Ok(()));
    rig.connect(beside);
    let refused = Err(Refusal::PoolInUse { proxy: beside });
    assert_eq!(rig.hierarchy.set_admin_settings(channel, side, admin, none), refused);
    let same_pool = SettingsPatch { push_window: Some(7), ..patch };
    assert_eq!(rig.hierarchy.set_admin_settings(channel, side, admin, same_pool), Ok(()));
    rig.hierarchy.disconnect(beside).unwrap();
    assert_eq!(rig.hierarchy.set_admin_settings(channel, side, admin, none), Ok(()));
}

#[test]
fn a_pool_that_nothing_refers_to_ends_with_the_next_snapshot_and_its_lanes_are_used_again() {
    let mut rig = Rig::new();
    let first = rig.pool(&[(1, 2)]);
    assert_eq!(rig.changes(), [(true, 1), (true, 2)]);
    rig.hierarchy.set_channel_settings(rig.channel, first).unwrap();
    let version = rig.hierarchy.snapshot().version;
    let second = rig.pool(&[(3, 1)]);
    rig.hierarchy.set_channel_settings(rig.channel, second).unwrap();
    assert_eq!(rig.changes(), [(true, 3)]);
    assert!(rig.hierarchy.pool(first.pool.unwrap()).is_some(), "no snapshot was made since");
    let snapshot = rig.hierarchy.snapshot();
    assert!(snapshot.version > version);
    assert_eq!(snapshot.lanes().iter().map(|lane| (lane.id.0, lane.priority)).collect::<Vec<_>>(), [(3, 3)]);
    assert_eq!(snapshot.lane(LaneId(3)).map(|lane| lane.pool), second.pool);
    assert_eq!(rig.changes(), [(false, 1), (false, 2)]);
    assert_eq!(rig.hierarchy.pool(first.pool.unwrap()), None);
    let refused = rig.hierarchy.create_channel(first, ChannelLimits::default());
    assert_eq!(refused, Err(Refusal::PoolNotFound { pool: first.pool.unwrap() }));
    rig.pool(&[(1, 1)]);
    assert_eq!(rig.changes(), [(true, 4)], "the threads of the others may still be there");
    rig.hierarchy.lane_gone(LaneId(1));
    let third = rig.pool(&[(1, 1)]);
    assert_ne!(third.pool, first.pool);
    assert_eq!(rig.changes(), [(true, 1)]);
}

#[test]
fn whatever_is_destroyed_lets_go_of_its_pool() {
    let mut rig = Rig::new();
    let (channel, side) = (rig.channel, Side::Consumers);
    let admin = rig.hierarchy.create_admin(channel, side, Operator::And).unwrap();
    let proxy = rig.proxy(side, admin, ProxyKind::default());
    let patches = [rig.pool(&[(1, 1)]), rig.pool(&[(1, 1)]), rig.pool(&[(1, 1)])];
    rig.hierarchy.set_channel_settings(channel, patches[0]).unwrap();
    rig.hierarchy.set_admin_settings(channel, side, admin, patches[1]).unwrap();
    rig.hierarchy.set_proxy_settings(proxy, patches[2]).unwrap();
    rig.hierarchy.snapshot();
    rig.changes();
    rig.hierarchy.destroy_proxy(proxy).unwrap();
    rig.hierarchy.snapshot();
    assert_eq!(rig.changes(), [(false, 3)]);
    rig.hierarchy.destroy_admin(channel, side, admin).unwrap();
    rig.hierarchy.snapshot();
    assert_eq!(rig.changes(), [], "its proxies may be served there yet");
    while rig.hierarchy.poll_removed().is_some() {}
    rig.hierarchy.snapshot();
    assert_eq!(rig.changes(), [(false, 2)]);
    rig.hierarchy.destroy_channel(channel).unwrap();
    rig.hierarchy.snapshot();
    assert_eq!(rig.changes(), [(false, 1)]);
}

#[test]
fn refuses_pools_that_make_no_sense_and_says_what_would() {
    let mut rig = Rig::new();
    let good = spec(PriorityModel::ClientPropagated, &[(0, 1), (32_767, 1)]);
    let lanes = |lanes: &[(i16, u16)]| spec(PriorityModel::ClientPropagated, lanes);
    for (spec, setting) in [
        (lanes(&[]), "lanes"),
        (lanes(&[(1, 1), (1, 1)]), "lanes"),
        (lanes(&[(2, 1), (1, 1)]), "lanes"),
        (lanes(&[(1, 0)]), "threads"),
        (lanes(&[(-1, 1)]), "priority"),
        (PoolSpec { server_priority: -1, ..good.clone() }, "priority"),
        (PoolSpec { queue_events_max: 0, ..good.clone() }, "queue_events_max"),
    ] {
        match rig.hierarchy.create_pool(spec) {
            Err(Refusal::BadSetting { setting: named, .. }) => assert_eq!(named, setting),
            other => panic!("{setting}: {other:?}"),
        }
    }
    assert_eq!(rig.hierarchy.create_pool(lanes(&[(1, 5), (2, 4)])), Err(Refusal::TooManyThreads { limit: 8 }));
    assert!(rig.hierarchy.create_pool(lanes(&[(1, 4), (2, 4)])).is_ok());
    assert_eq!(rig.hierarchy.create_pool(good), Err(Refusal::TooManyThreads { limit: 8 }));
    rig.hierarchy.snapshot();
    assert!(rig.hierarchy.create_pool(lanes(&[(1, 8)])).is_ok(), "the others had no users and have ended");
}

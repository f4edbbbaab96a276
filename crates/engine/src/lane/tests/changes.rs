//! New routing: what becomes of what waits when consumers, suppliers and channels come and go.

use super::*;

#[test]
fn a_suspended_consumer_keeps_its_events() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.hierarchy.suspend(key).unwrap();
    rig.route();
    rig.publish(1);
    assert!(rig.poll().is_none());
    assert_eq!(rig.stats(key).state, OutboxState::Suspended);
    rig.hierarchy.resume(key).unwrap();
    rig.route();
    assert_eq!(rig.drain(), [1]);
}

#[test]
fn a_destroyed_consumers_backlog_is_counted_and_its_memory_comes_back() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    for number in 0..4 {
        rig.publish(number);
    }
    rig.poll();
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Removed), 4);
    assert_eq!(rig.lane.next_timeout(), Some(rig.now), "there is something left to do");
    rig.advance(Duration::ZERO);
    assert_eq!((rig.memory(), rig.lane.next_timeout().filter(|time| *time <= rig.now)), (0, None));
}

#[test]
fn a_large_backlog_is_let_go_of_a_little_at_a_time() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    for _ in 0..1_000 {
        rig.publish(0);
    }
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    let mut turns = 0;
    while rig.lane.next_timeout() == Some(rig.now) {
        rig.advance(Duration::ZERO);
        turns += 1;
    }
    assert_eq!((turns, rig.memory()), (4, 0));
}

#[test]
fn a_snapshot_from_before_a_disconnection_does_not_bring_the_consumer_back() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.answer(Outcome::Gone);
    // Something else changes before administration hears of it.
    rig.consumer(SettingsPatch::default());
    assert_eq!(rig.publish(2), Admission::Accepted { destinations: 1 });
    // It hears of it, and the client connects anew.
    rig.hierarchy.disconnect(key).unwrap();
    rig.hierarchy.connect(key, Some(Peer(50)), Want(0)).unwrap();
    rig.route();
    assert_eq!(rig.publish(3), Admission::Accepted { destinations: 2 });
}

#[test]
fn a_consumer_connected_anew_does_not_get_the_old_ones_backlog() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.hierarchy.disconnect(key).unwrap();
    rig.hierarchy.connect(key, Some(Peer(50)), Want(0)).unwrap();
    rig.route();
    rig.publish(2);
    assert_eq!(rig.drain(), [2]);
}

#[test]
fn a_channel_that_did_not_change_is_left_alone() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let misses = rig.lane.counters().route_misses;
    rig.hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    rig.route();
    rig.publish(2);
    assert_eq!(rig.lane.counters().route_misses, misses);
    assert_eq!(rig.drain(), [1, 2]);
}

#[test]
fn a_destroyed_channel_lets_its_suppliers_go() {
    let mut rig = Rig::new(full(FullOutbox::Hold), budget(charge(1)));
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let Admission::Held(ticket) = rig.publish(2) else { panic!("no room") };
    rig.hierarchy.destroy_channel(rig.channel).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(rig.lane.channels().count(), 0);
    rig.advance(Duration::ZERO);
    assert_eq!(rig.lane.next_timeout(), None);
}

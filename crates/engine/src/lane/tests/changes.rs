//! New routing: what becomes of what waits when consumers, suppliers and channels come and go.

use super::*;

#[test]
fn a_suspended_consumer_keeps_its_events() {
    let mut rig = Rig::plain();
    let key = rig.sleeper(SettingsPatch::default());
    rig.publish(1);
    assert!(rig.poll().is_none());
    assert_eq!(rig.stats(key).state, OutboxState::Suspended);
    rig.resume(key);
    assert_eq!(rig.drain(), [1]);
}

#[test]
fn a_destroyed_consumers_backlog_is_counted_and_its_memory_comes_back() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish_all(0..4);
    rig.poll();
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Removed), 4);
    assert_eq!(rig.lane.next_timeout(), Some(rig.now), "there is something left to do");
    rig.advance(Duration::ZERO);
    assert_eq!((rig.memory(), rig.lane.next_timeout().filter(|time| *time <= rig.now)), (0, None));
}

#[test]
fn a_large_backlog_is_released_a_little_at_a_time() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    for _ in 0..1_000 {
        rig.publish(0);
    }
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    let mut rounds = 0;
    while rig.lane.next_timeout() == Some(rig.now) {
        rig.advance(Duration::ZERO);
        rounds += 1;
    }
    assert_eq!((rounds, rig.memory()), (4, 0));
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
    rig.hierarchy.connect(key, Some(Peer(50)), OutputForm(0)).unwrap();
    rig.route();
    assert_eq!(rig.publish(3), Admission::Accepted { destinations: 2 });
}

#[test]
fn a_consumer_connected_anew_does_not_get_the_old_ones_backlog() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.hierarchy.disconnect(key).unwrap();
    rig.hierarchy.connect(key, Some(Peer(50)), OutputForm(0)).unwrap();
    rig.route();
    rig.publish(2);
    assert_eq!(rig.drain(), [2]);
}

#[test]
fn a_channel_that_did_not_change_is_left_alone() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let misses = rig.lane.counters().routing.misses;
    rig.hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    rig.route();
    rig.publish(2);
    assert_eq!(rig.lane.counters().routing.misses, misses);
    assert_eq!(rig.drain(), [1, 2]);
}

#[test]
fn a_destroyed_channel_lets_its_suppliers_go() {
    let mut rig = Rig::new(full(FullOutbox::Hold), budget(charge(1)));
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let Admission::Withheld(ticket) = rig.publish(2) else { panic!("no room") };
    rig.hierarchy.destroy_channel(rig.channel).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(rig.lane.channels().count(), 0);
    rig.advance(Duration::ZERO);
    // It may be looked at once more how long suppliers have waited, and for which consumer.
    rig.advance(Duration::from_secs(30));
    assert_eq!(rig.lane.next_timeout(), None);
}

#[test]
fn a_survey_of_outboxes_chunk_by_chunk_meets_each_that_stays_once() {
    let mut rig = Rig::plain();
    let consumers: Vec<ProxyKey> = (0..10).map(|_| rig.consumer(SettingsPatch::default())).collect();
    let mut met = Vec::new();
    let mut first = 0;
    let keys = |rig: &Rig, first| Some(rig.lane.outboxes_at(first, 3)?.map(|stats| stats.key).collect::<Vec<_>>());
    while let Some(chunk) = keys(&rig, first) {
        met.extend(chunk);
        first += 3;
        // Between any two pieces one goes that was met, or would have been, and another comes in its place.
        if first == 6 {
            rig.hierarchy.destroy_proxy(consumers[0]).unwrap();
            rig.hierarchy.destroy_proxy(consumers[8]).unwrap();
            rig.route();
            rig.consumer(SettingsPatch::default());
        }
    }
    for stays in consumers.iter().filter(|key| ![consumers[0], consumers[8]].contains(key)) {
        assert_eq!(met.iter().filter(|key| *key == stays).count(), 1);
    }
    assert!(rig.lane.outboxes_at(first, 3).is_none());
}

#[test]
fn a_snapshot_names_the_consumers_that_are_not_connected_as_before() {
    let mut rig = Rig::plain();
    let [stays, goes, comes_again] = [(); 3].map(|()| rig.consumer(SettingsPatch::default()));
    let other = rig.hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    let kind = ProxyKind { pull: true, ..ProxyKind::default() };
    let proxy = rig.hierarchy.create_proxy(other, Side::Consumers, AdminId::DEFAULT, Form(1), kind).unwrap();
    let elsewhere = ProxyKey { channel: other, proxy };
    rig.hierarchy.connect(elsewhere, None, OutputForm(0)).unwrap();
    let before = rig.hierarchy.snapshot();
    assert_eq!(before.consumers_gone_since(&before), []);
    rig.hierarchy.set_proxy_settings(stays, max_events(3)).unwrap();
    rig.hierarchy.destroy_proxy(goes).unwrap();
    rig.hierarchy.disconnect(comes_again).unwrap();
    rig.hierarchy.connect(comes_again, Some(Peer(9)), OutputForm(0)).unwrap();
    rig.hierarchy.destroy_channel(other).unwrap();
    assert_eq!(rig.hierarchy.snapshot().consumers_gone_since(&before), [goes, comes_again, elsewhere]);
}

#[test]
fn consumers_that_go_while_their_turn_waits_leave_nothing_for_those_that_get_their_places() {
    // Each that went was looked for in the list of those that wait for a turn: 65,000 that went together kept their lane for 15 s.
    let mut rig = Rig::plain();
    let gone: Vec<ProxyKey> = (0..8).map(|_| rig.consumer(SettingsPatch::default())).collect();
    rig.publish(1);
    for key in gone {
        rig.hierarchy.destroy_proxy(key).unwrap();
    }
    rig.route();
    let heirs: Vec<ProxyKey> = (0..8).map(|_| rig.consumer(SettingsPatch::default())).collect();
    rig.publish(2);
    let mut served = Vec::new();
    while let Some((key, number, ..)) = rig.poll() {
        served.push((key, number));
    }
    served.sort_unstable();
    assert_eq!(served, heirs.into_iter().map(|key| (key, 2)).collect::<Vec<_>>());
}

#[test]
fn a_slow_consumer_that_goes_is_not_reported_again_nor_is_another_in_its_place() {
    let mut rig = Rig::new(
        SettingsPatch { full_outbox: Some(FullOutbox::Discard), ..SettingsPatch::default() },
        ChannelLimits { memory_budget_bytes: 64 << 10, ..ChannelLimits::default() },
    );
    for round in 0..16 {
        let key = rig.consumer(SettingsPatch::default());
        for _ in 0..80 {
            rig.publish_bytes(&[round; 1_024]);
        }
        let full = |notice: &Notice| matches!(notice, Notice::OutboxFull { key: of, .. } if *of == key);
        assert_eq!(rig.notices().iter().filter(|notice| full(notice)).count(), 1, "{round}");
        // It goes while the channel has no room, and another gets its place.
        rig.hierarchy.destroy_proxy(key).unwrap();
        rig.route();
    }
    let last = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.drain();
    let of_last = |notice: &Notice| matches!(notice, Notice::OutboxRecovered { key, .. } if *key == last);
    assert!(!rig.notices().iter().any(of_last), "it never was full");
}

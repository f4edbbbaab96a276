//! Consumers that ask for what waits.

use super::*;

#[test]
fn a_consumer_that_pulls_gets_nothing_unasked() {
    let mut rig = Rig::plain();
    let key = rig.puller();
    assert!(rig.pull(key, 1).is_none());
    rig.publish(0);
    rig.publish(1);
    assert!(rig.get().is_none());
    let got = rig.pull(key, 1).unwrap();
    assert!(got.delivery.pulled && got.delivery.deadline.is_none());
    assert_eq!(got.numbers, [0]);
    rig.conclude(&got, Outcome::Delivered);
    assert_eq!((rig.stats(key).delivered, rig.stats(key).backlog_events), (1, 1));
}

#[test]
fn only_a_connected_consumer_that_pulls_can_be_asked() {
    let mut rig = Rig::plain();
    let (pushed, puller) = (rig.consumer(SettingsPatch::default()), rig.puller());
    rig.hierarchy.disconnect(puller).unwrap();
    rig.route();
    for key in [pushed, puller, rig.source] {
        let refusal = Refusal::NotConnected { proxy: key };
        assert_eq!(rig.lane.pull(key, 1, &mut Vec::new(), rig.now).err(), Some(refusal));
        assert_eq!(rig.lane.await_events(key, 1, rig.now), Err(refusal));
    }
}

#[test]
fn clients_that_wait_are_served_in_turn() {
    let mut rig = Rig::plain();
    let key = rig.puller();
    rig.lane.await_events(key, 1, rig.now).unwrap();
    rig.lane.await_events(key, 1, rig.now).unwrap();
    rig.lane.await_events(key, 1, rig.now).unwrap();
    rig.lane.cancel_wait(key);
    assert_eq!(rig.stats(key).pulls_waiting, 2);
    rig.publish_all(0..3);
    let (first, second) = (rig.get().unwrap(), rig.get().unwrap());
    assert_eq!((first.numbers.clone(), second.numbers.clone()), (vec![0], vec![1]));
    assert!(rig.get().is_none());
    // The first client is gone before it could be answered; the second is none the worse for it.
    rig.conclude(&first, Outcome::Unreachable);
    rig.conclude(&second, Outcome::Delivered);
    assert_eq!((rig.stats(key).failures, rig.notices()), (0, vec![]));
    assert_eq!(rig.pull(key, 1).unwrap().numbers, [0]);
}

#[test]
fn a_client_whose_event_is_filtered_out_goes_on_waiting() {
    let mut rig = Rig::plain();
    let key = rig.puller();
    rig.publish_all(0..4);
    rig.lane.await_events(key, 1, rig.now).unwrap();
    for outcome in [Outcome::Filtered, Outcome::FilterFailed, Outcome::Untranslatable, Outcome::Delivered] {
        let got = rig.get().unwrap();
        rig.conclude(&got, outcome);
    }
    assert!(rig.get().is_none());
    let counters = rig.lane.counters();
    assert_eq!((counters.deliveries.filtered, counters.discards.of(DiscardReason::FilterFailed)), (1, 1));
    assert_eq!((counters.deliveries.delivered, rig.stats(key).pulls_waiting), (1, 0));
}

#[test]
fn a_client_that_pulls_takes_as_many_as_it_says_unless_the_batch_size_bounds_it() {
    let mut rig = Rig::plain();
    let key =
        rig.consumer_of(ProxyKind { pull: true, batches: true, ..ProxyKind::default() }, SettingsPatch::default());
    rig.publish_all(0..9);
    assert_eq!(rig.pull(key, 3).unwrap().numbers, [0, 1, 2]);
    rig.set(key, batches(2, Duration::ZERO));
    assert_eq!(rig.pull(key, 3).unwrap().numbers, [3, 4]);
    rig.lane.await_events(key, 3, rig.now).unwrap();
    assert_eq!(rig.get().unwrap().numbers, [5, 6]);
}

#[test]
fn a_pulled_batch_is_no_larger_than_asked_for_and_waits_for_its_pacing() {
    let mut rig = Rig::plain();
    let key = rig.consumer_of(ProxyKind { pull: true, batches: true, ..ProxyKind::default() }, batches(4, millis(100)));
    rig.publish_all(0..3);
    assert_eq!(rig.pull(key, 2).unwrap().numbers, [0, 1], "a try takes what there is");
    rig.lane.await_events(key, 9, rig.now).unwrap();
    assert!(rig.get().is_none());
    rig.lane.cancel_wait(key);
    rig.lane.await_events(key, 1, rig.now).unwrap();
    assert_eq!(rig.get().unwrap().numbers, [2], "that is as many as were asked for");
    rig.lane.await_events(key, 9, rig.now).unwrap();
    rig.publish(3);
    rig.advance(millis(100));
    assert_eq!(rig.get().unwrap().numbers, [3]);
}

#[test]
fn no_more_clients_wait_than_may() {
    let mut rig = Rig::plain();
    let key = rig.puller();
    for _ in 0..4_096 {
        rig.lane.await_events(key, 1, rig.now).unwrap();
    }
    let refusal = Refusal::TooManyWaiting { proxy: key, limit: 4_096 };
    assert_eq!(rig.lane.await_events(key, 1, rig.now), Err(refusal));
}

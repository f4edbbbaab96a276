//! Consumers that stay when their clients go.

use super::*;
use core::num::NonZeroU64;

impl Rig {
    fn durable(&mut self, patch: SettingsPatch) -> ProxyKey {
        let key = self.consumer(patch);
        self.hierarchy.make_durable(key).unwrap();
        self.route();
        key
    }

    fn leave(&mut self, key: ProxyKey) {
        self.hierarchy.leave(key).unwrap();
        self.route();
    }

    fn publish_persistent(&mut self, number: u8) -> Admission {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.push(number);
        pending_event.reliability = Some(Reliability::Persistent);
        self.lane.classify(&mut pending_event, b"domain", b"name");
        self.lane.handle_event(self.source, pending_event, &NoFields, self.now)
    }

    fn rejoin(&mut self, key: ProxyKey, peer: u64) {
        self.hierarchy.rejoin(key, Peer(peer), OutputForm(0)).unwrap();
        self.route();
    }
}

fn window(push_window: u16) -> SettingsPatch {
    SettingsPatch { push_window: Some(push_window), reply_timeout: Some(Duration::ZERO), ..SettingsPatch::default() }
}

#[test]
fn what_comes_while_its_client_is_away_and_what_was_unanswered_is_delivered_to_the_next_in_order() {
    let mut rig = Rig::plain();
    let key = rig.durable(window(4));
    rig.publish_all(0..3);
    let (.., outbox, serial) = rig.poll().unwrap();
    assert!(rig.poll().is_some());
    rig.leave(key);
    rig.publish_all(3..5);
    assert_eq!((rig.poll(), rig.stats(key).state), (None, OutboxState::Suspended));
    // An answer of the former client that comes late is none.
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    rig.rejoin(key, 77);
    assert_eq!(rig.stats(key).peer, Some(Peer(77)));
    assert_eq!(rig.drain(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_client_that_comes_in_the_same_batch_as_the_last_one_goes_gets_what_was_unanswered_and_waits_for_nothing() {
    for outcome in [Outcome::NoRoom, Outcome::ConnectionLost] {
        let mut rig = Rig::plain();
        let key = rig.durable(window(4));
        rig.publish_all(0..3);
        assert!(rig.poll().is_some());
        // The last connection took nothing, or failed, when it ended.
        assert!(rig.answer(outcome).is_some());
        assert_eq!(rig.poll(), None);
        rig.hierarchy.leave(key).unwrap();
        rig.rejoin(key, 77);
        assert_eq!(rig.drain(), [0, 1, 2], "{outcome:?}");
    }
}

#[test]
fn an_operators_suspension_outlasts_its_client() {
    let mut rig = Rig::plain();
    let key = rig.durable(window(1));
    rig.suspend(key);
    rig.leave(key);
    rig.rejoin(key, 77);
    rig.publish(1);
    assert_eq!(rig.poll(), None);
    rig.resume(key);
    assert_eq!(rig.drain(), [1]);
}

#[test]
fn there_is_one_client_at_a_time_and_a_consumer_that_is_not_durable_has_none_to_leave() {
    let mut rig = Rig::plain();
    let (key, other) = (rig.durable(window(1)), rig.consumer(window(1)));
    let again = |rig: &mut Rig, key| rig.hierarchy.rejoin(key, Peer(77), OutputForm(0));
    assert_eq!(again(&mut rig, key), Err(Refusal::AlreadyConnected { proxy: key }));
    assert_eq!(rig.hierarchy.leave(other), Err(Refusal::NotConnected { proxy: other }));
    assert_eq!(again(&mut rig, other), Err(Refusal::NotConnected { proxy: other }));
}

#[test]
fn its_own_refusal_of_events_is_granted_and_suppliers_never_wait() {
    for (policy, accepted) in [(FullOutbox::Reject, 2), (FullOutbox::Discard, 5)] {
        let mut rig = Rig::plain();
        let key = rig.durable(SettingsPatch { full_outbox: Some(policy), ..max_events(2) });
        rig.leave(key);
        let taken = (0..5).filter(|number| match rig.publish_persistent(*number) {
            Admission::Accepted { .. } => true,
            Admission::Refused(Refusal::OutboxFull { proxy, capacity_events: 2 }) if proxy == key => false,
            other => panic!("{other:?}"),
        });
        assert_eq!(taken.count(), accepted, "{policy:?}");
        assert_eq!(rig.stats(key).backlog_events, 2);
    }
}

/// Suppliers of best-effort events were refused because of a link that was down.
#[test]
fn it_refuses_persistent_events_and_others_are_dropped_for_it_alone() {
    let mut rig = Rig::plain();
    let key = rig.durable(SettingsPatch { full_outbox: Some(FullOutbox::Reject), ..max_events(2) });
    let other = rig.durable(window(1));
    [key, other].into_iter().for_each(|key| rig.leave(key));
    for number in 0..4 {
        assert!(matches!(rig.publish(number), Admission::Accepted { .. }));
    }
    assert!(matches!(rig.publish_persistent(9), Admission::Refused(Refusal::OutboxFull { proxy, .. }) if proxy == key));
    let dropped = |rig: &Rig, key| rig.stats(key).discards.of(DiscardReason::OutboxFull);
    assert_eq!((dropped(&rig, key), dropped(&rig, other)), (2, 0));
    assert_eq!((rig.stats(key).backlog_events, rig.stats(other).backlog_events), (2, 4));
    rig.rejoin(key, 77);
    assert_eq!(rig.drain(), [0, 1], "what waits is not dropped for what comes");
}

#[test]
fn its_bound_in_bytes_refuses_or_drops_as_its_bound_in_events_does() {
    let bytes = |max| SettingsPatch { max_bytes_per_consumer: Some(NonZeroU64::new(max)), ..window(1) };
    for (policy, accepted) in [(FullOutbox::Reject, 10), (FullOutbox::Discard, 40)] {
        let mut rig = Rig::plain();
        let reference = rig.durable(window(1));
        rig.leave(reference);
        rig.publish_all(0..10);
        let max = rig.stats(reference).backlog_bytes;
        let key = rig.durable(SettingsPatch { full_outbox: Some(policy), ..bytes(max) });
        rig.leave(key);
        let is_taken = |number: &u8| match rig.publish_persistent(*number) {
            Admission::Accepted { .. } => true,
            Admission::Refused(Refusal::MemorySpent { budget_bytes, .. }) if budget_bytes == max => false,
            other => panic!("{other:?}"),
        };
        assert_eq!((0..40).filter(is_taken).count(), accepted, "{policy:?}");
        assert_eq!((rig.stats(key).backlog_events, rig.stats(key).backlog_bytes), (10, max));
        rig.rejoin(key, 77);
        rig.drain();
        assert!(matches!(rig.publish_persistent(9), Admission::Accepted { destinations: 2 }));
    }
}

#[test]
fn one_that_is_destroyed_is_reported_with_what_went_with_it() {
    let mut rig = Rig::plain();
    let (key, other) = (rig.durable(window(1)), rig.consumer(window(1)));
    rig.leave(key);
    rig.publish_all(0..3);
    for gone in [key, other] {
        rig.hierarchy.destroy_proxy(gone).unwrap();
    }
    rig.route();
    assert_eq!(rig.notices(), [Notice::DurableRemoved { key, discarded: 3 }]);
}

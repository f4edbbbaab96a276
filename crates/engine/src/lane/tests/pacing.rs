//! Suppliers that are held so that a consumer which keeps up gets what is new (`LatencyBound`).

use super::*;

fn bounded(millis: u64) -> SettingsPatch {
    SettingsPatch { latency_bound: Some(Duration::from_millis(millis)), ..SettingsPatch::default() }
}

#[test]
fn a_supplier_waits_while_the_next_event_of_a_consumer_that_keeps_up_is_too_old() {
    let mut rig = Rig::plain();
    let consumer = rig.consumer(bounded(10));
    let accepted = Admission::Accepted { destinations: 1 };
    // The first is under way, and the second waits.
    assert_eq!([rig.publish(1), rig.publish(2)], [accepted, Admission::Accepted { destinations: 1 }]);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.advance(Duration::from_millis(11));
    let Admission::Withheld(ticket) = rig.publish(3) else { panic!("it is not blocked") };
    assert_eq!(rig.lane.poll_release(), None);
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    // The second goes, and the third has just come.
    let (_, number, outbox, serial) = rig.poll().unwrap();
    assert_eq!((number, rig.lane.poll_release()), (2, Some(ticket)));
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.drain(), [3]);
    assert_eq!(rig.publish(4), Admission::Accepted { destinations: 1 });
    assert_eq!(rig.notices(), [], "nothing is reported of each event");
    assert_eq!(rig.stats(consumer).delivered, 3);
}

#[test]
fn one_that_does_not_keep_up_blocks_no_supplier_for_longer_than_a_second() {
    let mut rig = Rig::plain();
    rig.consumer(bounded(10));
    rig.publish(1);
    rig.publish(2);
    rig.poll().unwrap();
    rig.advance(Duration::from_millis(500));
    let Admission::Withheld(ticket) = rig.publish(3) else { panic!("it is not blocked") };
    rig.advance(Duration::from_millis(400));
    assert_eq!(rig.lane.poll_release(), None);
    let due = rig.lane.next_timeout().unwrap();
    assert!(due <= rig.now + Duration::from_millis(100), "{due:?}");
    rig.advance(Duration::from_millis(100));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(rig.publish(4), Admission::Accepted { destinations: 1 });
}

#[test]
fn one_that_is_suspended_or_fails_blocks_no_supplier_and_without_a_bound_none_does() {
    let mut rig = Rig::plain();
    let suspended = rig.consumer(bounded(10));
    rig.hierarchy.suspend(suspended).unwrap();
    let failing = rig.consumer(bounded(10));
    rig.consumer(SettingsPatch::default());
    rig.route();
    rig.publish(1);
    while let Some((key, _, outbox, serial)) = rig.poll() {
        let outcome = if key == failing { Outcome::Unreachable } else { Outcome::Delivered };
        rig.lane.handle_outcome(outbox, serial, outcome, rig.now);
    }
    rig.publish(2);
    rig.now = rig.now + Duration::from_millis(20);
    assert_eq!(rig.publish(3), Admission::Accepted { destinations: 3 });
}

#[test]
fn taking_the_bound_away_lets_suppliers_go() {
    let mut rig = Rig::plain();
    let consumer = rig.consumer(bounded(10));
    rig.publish(1);
    rig.publish(2);
    rig.poll().unwrap();
    rig.advance(Duration::from_millis(11));
    let Admission::Withheld(ticket) = rig.publish(3) else { panic!("it is not blocked") };
    rig.hierarchy.set_proxy_settings(consumer, SettingsPatch::default()).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

/// The same, and no more than two may wait.
fn bounded_for_two() -> SettingsPatch {
    SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(2)), ..bounded(10) }
}

fn ticket(admission: Admission) -> Ticket {
    match admission {
        Admission::Withheld(ticket) => ticket,
        other => panic!("it is not blocked: {other:?}"),
    }
}

/// One is under way, and the other has waited for longer than it should.
fn late(rig: &mut Rig) -> (OutboxId, u32) {
    rig.publish(1);
    rig.publish(2);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.advance(Duration::from_millis(11));
    (outbox, serial)
}

/// They went on when the event that was late had been sent, and the outbox grew beyond its bound.
#[test]
fn where_a_late_consumer_is_full_too_suppliers_wait_for_room() {
    let mut rig = Rig::new(granted(), ChannelLimits::default());
    rig.consumer(SettingsPatch { full_outbox: Some(FullOutbox::Hold), ..bounded_for_two() });
    let (outbox, serial) = late(&mut rig);
    let tickets = [ticket(rig.publish(3)), ticket(rig.publish(4))];
    let by = Some(BlockedBy::Consumer(rig.lane.outboxes().next().unwrap().key));
    assert!(rig.notices().contains(&Notice::SuppliersBlocked { channel: rig.channel, by }));
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.answer(Outcome::Delivered), Some(2));
    for ticket in tickets {
        assert_eq!([rig.lane.poll_release(), rig.lane.poll_release()], [Some(ticket), None], "a place for each");
        rig.poll();
        rig.answer(Outcome::Delivered);
    }
}

#[test]
fn how_long_suppliers_are_blocked_says_nothing_of_consumers_that_are_late() {
    let mut rig = Rig::plain();
    let patch = SettingsPatch { blocking: Some(Duration::from_millis(100)), ..bounded(10) };
    let key = rig.consumer(patch);
    late(&mut rig);
    let ticket = ticket(rig.publish(3));
    // It is looked at how long they wait.
    rig.hierarchy.set_proxy_settings(key, SettingsPatch { push_window: Some(2), ..patch }).unwrap();
    rig.route();
    rig.advance(Duration::from_millis(200));
    assert_eq!(rig.lane.poll_release(), None);
    rig.advance(Duration::from_millis(800));
    assert_eq!(rig.lane.poll_release(), Some(ticket), "it does not keep up");
}

/// It was looked at after a second only.
#[test]
fn a_late_consumer_that_takes_nothing_for_its_hold_timeout_is_disconnected() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch { hold_timeout: Some(Duration::from_millis(300)), ..bounded(10) });
    late(&mut rig);
    let ticket = ticket(rig.publish(3));
    assert!(rig.lane.next_timeout().is_some_and(|due| due <= rig.now + Duration::from_millis(300)));
    rig.advance(Duration::from_millis(300));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(rig.stats(key).state, OutboxState::Disconnected);
}

#[test]
fn suppliers_go_on_as_soon_as_a_late_consumer_fails() {
    let mut rig = Rig::plain();
    rig.consumer(bounded(10));
    let (outbox, serial) = late(&mut rig);
    let ticket = ticket(rig.publish(3));
    rig.lane.handle_outcome(outbox, serial, Outcome::Unreachable, rig.now);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

/// They waited for the one that was late, however long that took, although others were delivered first.
#[test]
fn suppliers_go_on_as_soon_as_something_that_is_not_late_is_the_next() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch { order_policy: Some(OrderPolicy::Priority), ..bounded(10) });
    late(&mut rig);
    let ticket = ticket(rig.publish(3));
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.push(4);
    pending_event.priority = Some(1);
    rig.lane.classify(&mut pending_event, b"domain", b"name");
    let admission = rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
    assert_eq!((admission, rig.lane.poll_release()), (Admission::Accepted { destinations: 1 }, Some(ticket)));
}

#[test]
fn suppliers_go_on_as_soon_as_the_event_that_is_late_is_dropped() {
    let mut rig = Rig::plain();
    rig.consumer(bounded_for_two());
    late(&mut rig);
    let ticket = ticket(rig.publish(3));
    rig.advance(Duration::from_millis(1));
    // The second makes place for it, and the third has not waited for long.
    rig.publish(4);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn that_a_late_consumer_has_room_again_is_reported_at_once() {
    let mut rig = Rig::plain();
    let key = rig.consumer(bounded_for_two());
    let (outbox, serial) = late(&mut rig);
    ticket(rig.publish(3));
    rig.publish(4);
    rig.notices();
    rig.advance(Duration::from_millis(20));
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    rig.poll().unwrap();
    assert_eq!(rig.notices(), [Notice::OutboxRecovered { key, dropped: 1 }]);
}

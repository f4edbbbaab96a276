//! Order, windows and failures: what follows from how deliveries end.

use super::*;
use crate::lane::delivery::OUTBOXES_PER_TIMEOUT;

#[test]
fn a_window_of_one_waits_for_the_answer() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish_all(0..3);
    let (_, number, outbox, serial) = rig.poll().unwrap();
    assert_eq!(number, 0);
    assert!(rig.poll().is_none());
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.drain(), [1, 2]);
    assert_eq!(rig.memory(), 0);
}

#[test]
fn outboxes_take_turns() {
    let mut rig = Rig::plain();
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    rig.publish_all(0..3);
    let mut order = Vec::new();
    while let Some((key, number, outbox, serial)) = rig.poll() {
        order.push((key, number));
        rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    }
    assert_eq!(order, [(a, 0), (b, 0), (a, 1), (b, 1), (a, 2), (b, 2)]);
}

#[test]
fn a_failure_puts_all_unanswered_events_back_in_order() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch { push_window: Some(3), ..SettingsPatch::default() });
    rig.publish_all(0..5);
    let handed: Vec<_> = core::iter::from_fn(|| rig.poll()).collect();
    assert_eq!(handed.iter().map(|handed| handed.1).collect::<Vec<_>>(), [0, 1, 2]);
    rig.lane.handle_outcome(handed[1].2, handed[1].3, Outcome::Delivered, rig.now);
    rig.lane.handle_outcome(handed[0].2, handed[0].3, Outcome::Unreachable, rig.now);
    // The answer to the third comes although it was put back: too late, it will be delivered again.
    rig.lane.handle_outcome(handed[2].2, handed[2].3, Outcome::Delivered, rig.now);
    assert_eq!(rig.lane.counters().deliveries.stale_outcomes, 1);
    assert!(rig.poll().is_none(), "waits before it tries again");
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.drain(), [0, 2, 3, 4]);
}

#[test]
fn a_consumer_that_answers_one_after_the_other_has_the_whole_time_for_each() {
    // With a window, the last of those under way is answered when all before it have been.
    let mut rig = Rig::plain();
    let reply_timeout = Some(Duration::from_secs(10));
    rig.consumer(SettingsPatch { push_window: Some(3), reply_timeout, ..SettingsPatch::default() });
    (0..3).for_each(|number| {
        rig.publish(number);
    });
    let handed: Vec<_> = core::iter::from_fn(|| rig.poll()).collect();
    for (_, _, outbox, serial) in handed.iter().take(2) {
        rig.advance(Duration::from_secs(9));
        rig.lane.handle_outcome(*outbox, *serial, Outcome::Delivered, rig.now);
    }
    rig.advance(Duration::from_secs(9));
    assert_eq!(rig.lane.counters().deliveries.timed_out, 0, "27 s after it was handed out, 9 s after the last answer");
    rig.advance(Duration::from_secs(1));
    assert_eq!(rig.lane.counters().deliveries.timed_out, 1);
}

#[test]
fn while_deliveries_fail_one_at_a_time_finds_out() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch { push_window: Some(3), ..SettingsPatch::default() });
    rig.publish_all(0..5);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.lane.handle_outcome(outbox, serial, Outcome::Unreachable, rig.now);
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.answer(Outcome::Delivered), Some(0));
    assert_eq!(core::iter::from_fn(|| rig.poll()).count(), 3);
}

/// Ten thousand consumers that had died together were tried again together, all in one go: those that were alive waited for them.
#[test]
fn consumers_that_are_due_together_are_looked_at_so_many_at_a_time() {
    let mut rig = Rig::plain();
    let consumers = 2 * OUTBOXES_PER_TIMEOUT + 1;
    for _ in 0..consumers {
        rig.consumer(SettingsPatch::default());
    }
    rig.publish(0);
    while rig.answer(Outcome::Unreachable).is_some() {}
    let mut tried = Vec::new();
    rig.advance(Duration::from_millis(50));
    loop {
        tried.push(core::iter::from_fn(|| rig.poll()).count());
        if rig.lane.next_timeout().is_none_or(|due| due > rig.now) {
            break;
        }
        rig.lane.handle_timeout(rig.now);
    }
    assert_eq!(tried, [OUTBOXES_PER_TIMEOUT, OUTBOXES_PER_TIMEOUT, 1]);
}

#[test]
fn waits_double_up_to_their_cap_and_begin_anew_after_a_success() {
    let mut rig = Rig::plain();
    let patch = SettingsPatch {
        backoff_max: Some(Duration::from_millis(150)),
        give_up_after: Some(Duration::ZERO),
        ..SettingsPatch::default()
    };
    rig.consumer(patch);
    rig.publish(1);
    rig.publish(2);
    for wait in [50, 100, 150, 150] {
        assert_eq!(rig.answer(Outcome::Refused), Some(1));
        assert_eq!(rig.lane.next_timeout(), Some(rig.now + Duration::from_millis(wait)));
        rig.advance(Duration::from_millis(wait - 1));
        assert_eq!(rig.answer(Outcome::Refused), None);
        rig.advance(Duration::from_millis(1));
    }
    assert_eq!(rig.answer(Outcome::Delivered), Some(1));
    assert_eq!(rig.answer(Outcome::Unreachable), Some(2));
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.drain(), [2]);
}

#[test]
fn a_consumer_that_fails_too_long_is_given_up_and_notified_once() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.publish(2);
    let mut failures = 0;
    while rig.answer(Outcome::ConnectionLost).is_some() {
        failures += 1;
        // What is tried instead once the first has had its attempts.
        core::iter::from_fn(|| rig.answer(Outcome::ConnectionLost)).for_each(|_| failures += 1);
        rig.advance(Duration::from_secs(5));
    }
    let failing_for = Duration::from_secs(60);
    assert_eq!(failures, 22);
    let peer = Some(Peer(u64::from(key.proxy.0)));
    let expected = [
        Notice::ConsumerFailing { key, failures: 1, retry_in: Duration::from_millis(50) },
        Notice::ConsumerDisconnected {
            key,
            peer,
            reason: DisconnectReason::GivenUp { failures, failing_for },
            discarded: 2,
        },
    ];
    assert_eq!(rig.notices(), expected);
    assert_eq!(rig.stats(key).discards.of(DiscardReason::Disconnected), 2);
    assert_eq!(rig.publish(3), Admission::Accepted { destinations: 0 });
    assert_eq!(rig.memory(), 0);
}

#[test]
fn a_recovery_is_reported_once() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.publish(2);
    rig.answer(Outcome::Unreachable);
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.drain(), [1, 2]);
    let recovered = Notice::ConsumerRecovered { key, failures: 1, after: Duration::from_millis(50) };
    assert_eq!(rig.notices()[1..], [recovered]);
}

#[test]
fn an_unanswered_delivery_times_out() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.publish(2);
    assert_eq!(rig.lane.next_timeout(), Some(rig.now + Duration::from_secs(30)));
    rig.advance(Duration::from_secs(30) - Duration::from_nanos(1));
    assert_eq!(rig.lane.poll_timed_out(), None);
    rig.advance(Duration::from_nanos(1));
    assert_eq!(rig.lane.poll_timed_out(), Some((outbox, serial)));
    assert_eq!(rig.lane.poll_timed_out(), None);
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.drain(), [1, 2]);
}

#[test]
fn an_answered_deliverys_deadline_does_not_fire() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.drain();
    rig.advance(Duration::from_secs(20));
    rig.publish(2);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.advance(Duration::from_secs(10));
    assert_eq!(rig.lane.poll_timed_out(), None);
    rig.advance(Duration::from_secs(20));
    assert_eq!(rig.lane.poll_timed_out(), Some((outbox, serial)));
}

#[test]
fn a_delivery_without_room_waits_for_the_connection() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch { one_way: Some(true), push_window: Some(4), ..SettingsPatch::default() });
    rig.publish_all(0..3);
    assert_eq!(rig.answer(Outcome::Sent), Some(0));
    assert_eq!(rig.answer(Outcome::NoRoom), Some(1));
    assert!(rig.poll().is_none());
    assert_eq!(rig.stats(key).state, OutboxState::NoRoom);
    let outbox = rig.stats(key).outbox;
    rig.lane.resume_outbox(outbox, rig.now);
    assert_eq!(rig.drain(), [1, 2]);
    assert_eq!(rig.lane.counters().deliveries.failures, 0);
}

#[test]
fn a_connection_that_takes_nothing_for_too_long_times_out() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.lane.handle_outcome(outbox, serial, Outcome::NoRoom, rig.now);
    rig.advance(Duration::from_secs(30));
    assert_eq!(rig.lane.poll_timed_out(), Some((outbox, serial)));
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.drain(), [1]);
}

#[test]
fn a_rejected_event_is_dropped_and_the_next_follows() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish_all(0..3);
    rig.answer(Outcome::Rejected);
    rig.answer(Outcome::Untranslatable);
    assert_eq!(rig.drain(), [2]);
    let discards = rig.stats(key).discards;
    assert_eq!((discards.of(DiscardReason::Rejected), discards.of(DiscardReason::Untranslatable)), (1, 1));
}

#[test]
fn a_consumer_that_is_gone_is_disconnected_and_the_others_never_notice() {
    let mut rig = Rig::plain();
    let (gone, other) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    rig.publish(1);
    rig.publish(2);
    let (key, _, outbox, serial) = rig.poll().unwrap();
    assert_eq!(key, gone);
    rig.lane.handle_outcome(outbox, serial, Outcome::Gone, rig.now);
    assert_eq!(rig.drain(), [1, 2]);
    assert_eq!(rig.stats(other).delivered, 2);
    assert!(matches!(rig.notices()[..], [Notice::ConsumerDisconnected { discarded: 2, .. }]));
}

#[test]
fn calls_that_make_no_sense_are_ignored_and_counted() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.lane.handle_outcome(outbox, serial.wrapping_add(1), Outcome::Gone, rig.now);
    rig.lane.handle_outcome(outbox, serial.wrapping_sub(1), Outcome::Gone, rig.now);
    let wrong = OutboxId { generation: outbox.generation.wrapping_add(1), ..outbox };
    rig.lane.handle_outcome(wrong, serial, Outcome::Gone, rig.now);
    rig.lane.resume_outbox(OutboxId { slot: 77, generation: 0 }, rig.now);
    rig.lane.resume_outbox(outbox, rig.now);
    assert_eq!(rig.stats(key).in_flight, 1);
    rig.lane.handle_outcome(outbox, serial, Outcome::Gone, rig.now);
    rig.lane.resume_outbox(outbox, rig.now);
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    let counters = rig.lane.counters();
    assert_eq!((counters.deliveries.stale_outcomes, counters.deliveries.unknown_outboxes), (2, 4));
}

#[test]
fn serials_may_wrap_around() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch { push_window: Some(8), ..SettingsPatch::default() });
    let slot = rig.stats(key).outbox.slot;
    rig.lane.outboxes.get_mut(slot).unwrap().start_serials_at(u32::MAX - 2);
    rig.publish_all(0..6);
    let handed: Vec<_> = core::iter::from_fn(|| rig.poll()).collect();
    for (_, _, outbox, serial) in handed.into_iter().rev() {
        rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    }
    assert_eq!((rig.stats(key).delivered, rig.lane.counters().deliveries.stale_outcomes), (6, 0));
}

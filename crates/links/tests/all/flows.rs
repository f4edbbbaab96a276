//! The two ends of a flow: numbers, acknowledgements, windows, sessions.

use links::{Limits, Receiver, Sender, Violation, WINDOW_BYTES_START};

const LIMITS: Limits = Limits { frame_bytes_max: 1 << 20, window_bytes_max: 64 << 10, outstanding_max: 100 };
const SECOND: u64 = 1_000_000_000;

fn sender(events: u64) -> Sender<u64> {
    let mut sender = Sender::new(LIMITS);
    for event in 1..=events {
        assert_eq!(sender.push(1_000, 0, event), event);
    }
    sender
}

fn acknowledge(sender: &mut Sender<u64>, up_to: u64, now: u64) -> Result<Vec<u64>, Violation> {
    let mut items = Vec::new();
    sender.acknowledge(up_to, now, &mut |item| items.push(item)).map(|()| items)
}

#[test]
fn an_acknowledgement_completes_all_events_up_to_it_in_order() {
    let mut sender = sender(5);
    assert_eq!(acknowledge(&mut sender, 2, 1), Ok(vec![1, 2]));
    assert_eq!(acknowledge(&mut sender, 2, 1), Ok(vec![]), "a repeat of the last");
    assert_eq!((sender.in_flight(), sender.in_flight_octets()), (3, 3_000));
    assert_eq!(acknowledge(&mut sender, 5, 1), Ok(vec![3, 4, 5]));
    assert_eq!((sender.in_flight(), sender.in_flight_octets(), sender.oldest_since()), (0, 0, None));
}

#[test]
fn acknowledgements_from_the_future_and_backwards_are_violations_and_change_nothing() {
    let mut sender = sender(5);
    acknowledge(&mut sender, 3, 1).unwrap();
    for number in [6, 1 << 63, u64::MAX] {
        assert_eq!(acknowledge(&mut sender, number, 1), Err(Violation::NotSent { number, sent: 5 }));
        assert_eq!(sender.reject(number), Err(Violation::NotSent { number, sent: 5 }));
    }
    for number in [0, 1, 2] {
        assert_eq!(acknowledge(&mut sender, number, 1), Err(Violation::Acknowledged { number, acknowledged: 3 }));
        assert_eq!(sender.reject(number), Err(Violation::Acknowledged { number, acknowledged: 3 }));
    }
    assert_eq!(sender.reject(3), Err(Violation::Acknowledged { number: 3, acknowledged: 3 }));
    assert_eq!(acknowledge(&mut sender, 5, 1), Ok(vec![4, 5]));
}

#[test]
fn a_rejected_event_is_given_back_once_and_never_sent_again() {
    let mut sender = sender(3);
    assert_eq!(sender.reject(2), Ok(Some(2)));
    assert_eq!(sender.reject(2), Ok(None));
    assert_eq!(sender.items().map(|(sequence, item)| (sequence, *item)).collect::<Vec<_>>(), [(1, 1), (3, 3)]);
    sender.restart(|_| true, &mut |item| panic!("{item} was dropped"));
    assert_eq!(sender.resend(0), Some((1, &1)));
    assert_eq!(sender.resend(0), Some((2, &3)));
    assert_eq!(sender.resend(0), None);
}

#[test]
fn one_event_is_always_admitted_and_others_within_the_window() {
    let mut sender = Sender::new(LIMITS);
    assert!(sender.has_room(10 << 20));
    sender.push(10 << 20, 0, 0);
    assert!(!sender.has_room(1));
    acknowledge(&mut sender, 1, 1).unwrap();
    sender.restart(|_| true, &mut |_| ());
    sender.push(16_000, 0, 1);
    assert_eq!(sender.window(), WINDOW_BYTES_START);
    assert!(sender.has_room(384) && !sender.has_room(385));
}

#[test]
fn no_more_events_are_in_flight_than_either_end_allows() {
    let mut sender = Sender::new(LIMITS);
    sender.set_limits(Limits { outstanding_max: 2, ..LIMITS });
    for item in 0..2 {
        sender.push(1, 0, item);
    }
    assert!(!sender.has_room(1));
    sender.set_limits(Limits { outstanding_max: u32::MAX, window_bytes_max: 1 << 63, ..LIMITS });
    for item in 2..100 {
        sender.push(1, 0, item);
    }
    assert!(!sender.has_room(1), "its own limit is 100");
}

#[test]
fn a_new_session_numbers_from_1_what_is_left_and_sends_it_before_anything_else() {
    let mut sender = sender(10);
    acknowledge(&mut sender, 3, 1).unwrap();
    let mut dropped = Vec::new();
    sender.restart(|item| item % 2 == 0, &mut |item| dropped.push(item));
    assert_eq!(dropped, [5, 7, 9]);
    assert_eq!((sender.in_flight(), sender.unsent()), (0, 4));
    assert!(!sender.has_room(1), "others are first");
    assert_eq!(acknowledge(&mut sender, 1, 1), Err(Violation::NotSent { number: 1, sent: 0 }));
    for (sequence, item) in [(1, 4), (2, 6), (3, 8), (4, 10)] {
        assert_eq!(sender.resend(2), Some((sequence, &item)));
    }
    assert_eq!(sender.resend(2), None);
    assert_eq!(sender.unsent(), 0);
    assert_eq!(sender.push(1_000, 2, 11), 5);
    assert_eq!(acknowledge(&mut sender, 5, 3), Ok(vec![4, 6, 8, 10, 11]));
}

#[test]
fn what_is_sent_again_keeps_to_the_window_of_the_new_session() {
    let mut sender = Sender::new(LIMITS);
    // A line of 1 ms has the window at its maximum soon.
    let mut now = 0;
    while sender.window() < LIMITS.window_bytes_max {
        while sender.has_room(1_000) {
            sender.push(1_000, now, 0);
        }
        now += 1_000_000;
        let last = sender.items().last().unwrap().0;
        acknowledge(&mut sender, last, now).unwrap();
    }
    while sender.has_room(1_000) {
        sender.push(1_000, now, 0);
    }
    assert_eq!(sender.in_flight(), 65);
    sender.restart(|_| true, &mut |_| ());
    let sent = core::iter::from_fn(|| sender.resend(now).map(|_| ())).count();
    assert_eq!((sent, sender.unsent()), (16, 49));
    acknowledge(&mut sender, 16, now + 1).unwrap();
    assert!(sender.resend(now + 1).is_some() && !sender.has_room(1));
}

#[test]
fn a_flow_is_stalled_for_as_long_as_nothing_was_acknowledged_of_what_is_in_flight() {
    let mut sender = sender(0);
    let mut now = 100 * SECOND;
    assert_eq!(sender.stalled_for(now), 0, "nothing is in flight");
    sender.push(1_000, now, 1);
    now += 29 * SECOND;
    assert_eq!(sender.stalled_for(now), 29 * SECOND);
    acknowledge(&mut sender, 1, now).unwrap();
    assert_eq!(sender.stalled_for(u64::MAX), 0);
    now += SECOND;
    sender.push(1_000, now, 2);
    sender.push(1_000, now + 2 * SECOND, 3);
    assert_eq!((sender.oldest_since(), sender.stalled_for(now + 2 * SECOND)), (Some(now), 2 * SECOND));
    acknowledge(&mut sender, 2, now + 2 * SECOND).unwrap();
    acknowledge(&mut sender, 2, now + 4 * SECOND).unwrap();
    assert_eq!(sender.stalled_for(now + 4 * SECOND), 2 * SECOND, "a repeat is no progress");
    sender.restart(|_| true, &mut |_| ());
    assert_eq!(sender.stalled_for(u64::MAX), 0, "nothing is sent in the next session yet");
    sender.resend(now).unwrap();
    assert_eq!(sender.stalled_for(now + SECOND), SECOND);
}

#[test]
fn an_event_that_takes_a_narrow_line_minutes_is_no_stall() {
    let mut sender = Sender::new(LIMITS);
    sender.push(16 << 20, 0, 1);
    assert_eq!(sender.stalled_for(84 * SECOND), 0, "84 s are what 200 KB/s take");
    assert!(sender.stalled_for(3_600 * SECOND) > Sender::<u32>::STALLED_AFTER);
}

#[test]
fn events_complete_in_any_order_and_are_acknowledged_in_theirs() {
    let mut receiver = Receiver::new(LIMITS);
    (1..=5).for_each(|sequence| receiver.accept(sequence, 10).unwrap());
    assert_eq!(receiver.take_ack(), None);
    assert!(receiver.complete(3) && receiver.complete(2));
    assert_eq!((receiver.take_ack(), receiver.outstanding(), receiver.outstanding_octets()), (None, 5, 50));
    assert!(receiver.complete(1));
    assert_eq!((receiver.take_ack(), receiver.outstanding(), receiver.outstanding_octets()), (Some(3), 2, 20));
    assert_eq!(receiver.take_ack(), None, "nothing new");
    for sequence in [0, 1, 3, 6, 1 << 63, u64::MAX] {
        assert!(!receiver.complete(sequence), "{sequence} does not wait");
    }
    assert!(receiver.complete(5) && !receiver.complete(5) && receiver.complete(4));
    assert_eq!((receiver.take_ack(), receiver.received()), (Some(5), 5));
}

#[test]
fn an_event_out_of_sequence_is_a_violation() {
    let mut receiver = Receiver::new(LIMITS);
    receiver.accept(1, 10).unwrap();
    for found in [0, 1, 3, 1 << 63, u64::MAX] {
        assert_eq!(receiver.accept(found, 10), Err(Violation::OutOfSequence { expected: 2, found }));
    }
    receiver.accept(2, 10).unwrap();
}

#[test]
fn a_peer_that_exceeds_the_window_or_the_number_of_events_is_a_violation() {
    let mut receiver = Receiver::new(LIMITS);
    receiver.accept(1, 1 << 30).unwrap();
    let violation = receiver.accept(2, 1);
    assert_eq!(violation, Err(Violation::WindowExceeded { octets: (1 << 30) + 1, limit: LIMITS.window_bytes_max }));
    receiver.complete(1);
    (2..=101).for_each(|sequence| receiver.accept(sequence, 1).unwrap());
    assert_eq!(receiver.accept(102, 1), Err(Violation::TooManyOutstanding { limit: 100 }));
    receiver.complete(2);
    receiver.accept(102, 1).unwrap();
}

//! Several events in a delivery, and how long they are waited for.

use super::*;

#[test]
fn a_batch_has_what_waits_up_to_its_maximum() {
    let mut rig = Rig::plain();
    let key = rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, batches(3, Duration::ZERO));
    rig.publish(0);
    assert_eq!(rig.get().unwrap().numbers, [0], "nothing is waited for");
    rig.publish_all(1..=5);
    assert!(rig.get().is_none(), "a batch is one delivery of the window");
    rig.lane.handle_outcome(rig.stats(key).outbox, 0, Outcome::Delivered, rig.now);
    let got = rig.get().unwrap();
    assert_eq!((got.numbers.clone(), rig.stats(key).in_flight), (vec![1, 2, 3], 3));
    rig.conclude(&got, Outcome::Delivered);
    let got = rig.get().unwrap();
    assert_eq!(got.numbers, [4, 5]);
    rig.conclude(&got, Outcome::Delivered);
    assert_eq!((rig.stats(key).delivered, rig.lane.counters().deliveries.begun), (6, 3));
}

/// A batch had no bound in octets: 62.9 MB went out in one message.
#[test]
fn a_batch_weighs_256_kib_at_most_unless_its_first_event_weighs_more() {
    let mut rig = Rig::plain();
    let key = rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, batches(100, Duration::ZERO));
    let sizes = [1_usize, 75_000, 75_000, 75_000, 75_000, 500_000, 1, 1];
    for size in sizes {
        rig.publish_bytes(&vec![0; size]);
    }
    let mut got = Vec::new();
    while let Some(delivery) = rig.get() {
        got.push(delivery.numbers.len());
        rig.conclude(&delivery, Outcome::Delivered);
    }
    assert_eq!(got, [4, 1, 1, 2], "events of {sizes:?}");
    assert_eq!(rig.stats(key).delivered, 8);
}

/// An event that could not be put into what its consumer takes was left out of its batch, and counted as delivered with the others.
#[test]
fn an_event_that_is_left_out_of_a_batch_is_dropped_and_not_delivered() {
    for pull in [false, true] {
        let mut rig = Rig::plain();
        let kind = ProxyKind { batches: true, pull, ..ProxyKind::default() };
        let key = rig.consumer_of(kind, batches(4, Duration::ZERO));
        (0..8).for_each(|number| _ = rig.publish(number));
        let begin = |rig: &mut Rig| if pull { rig.pull(key, 4) } else { rig.get() };
        let mut got = begin(&mut rig).unwrap();
        rig.lane.leave_out(got.delivery.outbox, got.delivery.serial, &[0, 2], rig.now);
        let untranslatable = |rig: &mut Rig| rig.stats(key).discards.of(DiscardReason::Untranslatable);
        assert_eq!((untranslatable(&mut rig), rig.stats(key).in_flight), (2, 2));
        rig.conclude(&got, Outcome::Delivered);
        assert_eq!((rig.stats(key).delivered, rig.lane.counters().deliveries.delivered), (2, 2));
        // Those that are left fail and come again like any others, without what was left out.
        got = begin(&mut rig).unwrap();
        rig.lane.leave_out(got.delivery.outbox, got.delivery.serial, &[1, 3, 9], rig.now);
        rig.conclude(&got, Outcome::Unreachable);
        rig.advance(Duration::from_secs(1));
        got = begin(&mut rig).unwrap();
        assert_eq!((&got.numbers[..], untranslatable(&mut rig)), (&[4, 6][..], 4));
        // One stays whatever is said; that nothing of it can be delivered is an outcome.
        rig.lane.leave_out(got.delivery.outbox, got.delivery.serial, &[0, 1], rig.now);
        rig.conclude(&got, Outcome::Untranslatable);
        assert_eq!((untranslatable(&mut rig), rig.stats(key).in_flight, rig.memory()), (6, 0, 0));
    }
}

/// What was left out of the repeats of a batch that was rejected counts among them, or its later events came one at a time for ever.
#[test]
fn an_event_that_is_left_out_of_a_batch_that_was_rejected_ends_its_repeats_with_the_others() {
    let mut rig = Rig::plain();
    rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, batches(4, Duration::ZERO));
    (0..8).for_each(|number| _ = rig.publish(number));
    let got = rig.get().unwrap();
    rig.conclude(&got, Outcome::Rejected);
    let got = rig.get().unwrap();
    assert_eq!(got.numbers, [0, 1]);
    rig.lane.leave_out(got.delivery.outbox, got.delivery.serial, &[1], rig.now);
    rig.conclude(&got, Outcome::Delivered);
    let got = rig.get().unwrap();
    assert_eq!(got.numbers, [2, 3]);
    rig.conclude(&got, Outcome::Delivered);
    assert_eq!(rig.get().unwrap().numbers, [4, 5, 6, 7]);
}

#[test]
fn a_consumer_that_takes_no_sequences_gets_one_at_a_time() {
    let mut rig = Rig::plain();
    rig.consumer(batches(3, millis(100)));
    rig.publish(0);
    rig.publish(1);
    assert_eq!(rig.get().unwrap().numbers, [0]);
}

/// It came back whole: an event in it that no consumer takes had it fail again, and nothing said which event that was.
#[test]
fn a_batch_that_fails_comes_back_in_order_and_in_parts_that_grow() {
    let mut rig = Rig::plain();
    rig.consumer_of(
        ProxyKind { batches: true, ..ProxyKind::default() },
        SettingsPatch { push_window: Some(2), ..batches(4, Duration::ZERO) },
    );
    rig.publish_all(0..12);
    let (first, second) = (rig.get().unwrap(), rig.get().unwrap());
    rig.conclude(&second, Outcome::Rejected);
    rig.conclude(&first, Outcome::ConnectionLost);
    rig.advance(millis(50));
    let mut got = Vec::new();
    while let Some(delivery) = rig.get() {
        got.push((delivery.numbers.clone(), delivery.delivery.repeated));
        rig.conclude(&delivery, Outcome::Delivered);
    }
    let expected: [(&[u8], bool); 5] =
        [(&[0], true), (&[1, 2], true), (&[3, 4, 5, 6], true), (&[7], true), (&[8, 9, 10, 11], false)];
    assert_eq!(got.iter().map(|(numbers, repeated)| (&numbers[..], *repeated)).collect::<Vec<_>>(), expected);
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Rejected), 0);
}

/// What the consumer gets that rejects each delivery with one of these, and how many events are dropped for it.
fn taken_but_for(bad: &[u8], window: u16, events: u8) -> (Vec<u8>, u64, usize) {
    let mut rig = Rig::plain();
    let patch = SettingsPatch { push_window: Some(window), ..batches(16, Duration::ZERO) };
    let key = rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, patch);
    // The first is alone on its way until all others wait.
    (0..events).for_each(|number| _ = rig.publish(number));
    let (mut taken, mut calls) = (Vec::new(), 0);
    loop {
        // As many as may be on their way at once.
        let flight: Vec<Got> = core::iter::from_fn(|| rig.get()).collect();
        if flight.is_empty() {
            break;
        }
        let mut withdrawn = false;
        for got in flight {
            let is_bad = got.numbers.iter().any(|number| bad.contains(number));
            calls += 1;
            if withdrawn {
                continue;
            }
            withdrawn = is_bad && got.numbers.len() > 1;
            rig.conclude(&got, if is_bad { Outcome::Rejected } else { Outcome::Delivered });
            if !is_bad {
                taken.extend(got.numbers);
            }
        }
    }
    assert_eq!(rig.stats(key).delivered, taken.len() as u64);
    (taken, rig.stats(key).discards.of(DiscardReason::Rejected), calls)
}

/// A sequence consumer that answered `MARSHAL` to a batch of ten because of one event in it lost all ten, without a log line.
#[test]
fn of_a_batch_that_is_rejected_only_the_event_is_dropped_that_is_rejected_alone() {
    for window in [1, 4] {
        for bad in [&[][..], &[7], &[0], &[63], &[7, 8], &[3, 9, 40], &[1, 3, 5, 7, 9, 11, 13, 15]] {
            let (taken, dropped, calls) = taken_but_for(bad, window, 64);
            let good: Vec<u8> = (0..64).filter(|number| !bad.contains(number)).collect();
            assert_eq!((taken, dropped), (good, bad.len() as u64), "{bad:?}, window {window}");
            assert!(calls <= 24 + bad.len() * 14, "{calls} deliveries for {bad:?}");
        }
        let all: Vec<u8> = (0..64).collect();
        let (taken, dropped, _) = taken_but_for(&all, window, 64);
        assert_eq!((taken.len(), dropped), (0, 64));
    }
}

/// What a consumer had processed before it raised came again, and nothing said so.
#[test]
fn what_is_delivered_again_of_a_rejected_batch_says_so_and_nothing_else_does() {
    let mut rig = Rig::plain();
    rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, batches(4, Duration::ZERO));
    (0..6).for_each(|number| _ = rig.publish(number));
    let first = rig.get().unwrap();
    assert_eq!((first.numbers.as_slice(), first.delivery.repeated), (&[0, 1, 2, 3][..], false));
    rig.conclude(&first, Outcome::Rejected);
    let mut got = Vec::new();
    while let Some(delivery) = rig.get() {
        got.push((delivery.numbers.clone(), delivery.delivery.repeated));
        rig.conclude(&delivery, Outcome::Delivered);
    }
    assert_eq!(got, [(vec![0, 1], true), (vec![2, 3], true), (vec![4, 5], false)]);
}

/// Nothing in the log said that events were dropped, nor which.
#[test]
fn a_rejected_event_is_announced_once_until_none_was_rejected_for_a_minute() {
    let mut rig = Rig::plain();
    let key = rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, batches(4, Duration::ZERO));
    let mut announced = Vec::new();
    for wait in [0, 59, 59, 60] {
        rig.advance(Duration::from_secs(wait));
        rig.publish(0);
        let got = rig.get().unwrap();
        rig.conclude(&got, Outcome::Rejected);
        let rejected = |notice| match notice {
            Notice::EventRejected { key: of, event_type, number } => {
                assert!(of == key && event_type != TypeId::OTHER);
                Some(number)
            }
            _ => None,
        };
        announced.push(rig.notices().into_iter().filter_map(rejected).count());
    }
    assert_eq!(announced, [1, 0, 0, 1]);
    assert_eq!(rig.stats(key).discards.of(DiscardReason::Rejected), 4);
}

#[test]
fn pacing_waits_for_a_full_batch_or_for_the_interval() {
    let mut rig = Rig::plain();
    rig.consumer_of(
        ProxyKind { batches: true, ..ProxyKind::default() },
        SettingsPatch { push_window: Some(9), ..batches(3, millis(100)) },
    );
    rig.publish(0);
    rig.advance(millis(60));
    rig.publish(1);
    assert!(rig.get().is_none());
    rig.publish(2);
    rig.publish(3);
    assert_eq!(rig.get().unwrap().numbers, [0, 1, 2], "it is full");
    assert!(rig.get().is_none());
    assert_eq!(rig.lane.next_timeout(), Some(rig.now + millis(40)), "an answer's time limit, or pacing: no later");
    rig.advance(millis(99));
    assert!(rig.get().is_none(), "the one that waits came with the last");
    rig.advance(millis(1));
    assert_eq!(rig.get().unwrap().numbers, [3]);
}

#[test]
fn pacing_counts_from_the_oldest_whatever_the_order() {
    let mut rig = Rig::plain();
    let patch = SettingsPatch { order_policy: Some(OrderPolicy::Priority), ..batches(3, millis(100)) };
    rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, patch);
    rig.prior(0, 1);
    rig.advance(millis(50));
    rig.prior(1, 2);
    rig.advance(millis(49));
    assert!(rig.get().is_none());
    rig.advance(millis(1));
    assert_eq!(rig.get().unwrap().numbers, [1, 0]);
}

/// When its time would be over was not looked at: it waited for the next event.
#[test]
fn an_event_has_its_pacing_also_where_all_that_stood_before_it_were_dropped() {
    let mut rig = Rig::plain();
    rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, batches(3, millis(100)));
    rig.publish_all(0..3);
    let got = rig.get().unwrap();
    rig.conclude(&got, Outcome::NoRoom);
    rig.advance(millis(60));
    rig.publish(3);
    rig.advance(millis(50));
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(2), ..ChannelLimits::default() };
    rig.hierarchy.set_limits(rig.channel, limits).unwrap();
    rig.route();
    // There is no place for it in the channel, and it is late, and so comes in for no consumer.
    rig.publish_with(4, |event| event.stop = Some(Time(1)));
    rig.lane.resume_outbox(got.delivery.outbox, rig.now);
    assert!(rig.get().is_none());
    assert_eq!(rig.lane.next_timeout(), Some(rig.now + millis(50)));
    rig.advance(millis(50));
    assert_eq!(rig.get().unwrap().numbers, [3]);
}

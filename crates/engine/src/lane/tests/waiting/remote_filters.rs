//! Events that clients' filters are to be asked about before they go.

use super::*;

/// Has a filter that a client implements look at all events for this consumer.
fn ask_about(rig: &mut Rig, key: ProxyKey) {
    rig.hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Remote(Peer(99))).unwrap();
    rig.route();
}

fn no_filter(rig: &mut Rig, key: ProxyKey) {
    rig.hierarchy.remove_all_filters(FilterTarget::Proxy(key)).unwrap();
    rig.route();
}

#[test]
fn an_event_that_others_are_asked_about_comes_alone_and_is_not_paced() {
    let mut rig = Rig::plain();
    let patch = SettingsPatch { push_window: Some(9), ..batches(3, millis(100)) };
    let key = rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, patch);
    rig.publish(0);
    ask_about(&mut rig, key);
    rig.publish(1);
    rig.publish(2);
    no_filter(&mut rig, key);
    rig.publish(3);
    let got: Vec<Got> = core::iter::from_fn(|| rig.get()).collect();
    let numbers: Vec<&[u8]> = got.iter().map(|got| &got.numbers[..]).collect();
    assert_eq!(numbers, [&[0][..], &[1], &[2]], "the last one may still get company");
    let asked: Vec<bool> = got.iter().map(|got| got.delivery.ask.is_some()).collect();
    assert_eq!(asked, [false, true, true]);
}

/// It was the next when what stood before it was dropped, and was not looked at: it waited for the batch that it is itself.
#[test]
fn an_event_that_others_are_asked_about_goes_when_what_stood_before_it_is_dropped() {
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(2), ..ChannelLimits::default() };
    let mut rig = Rig::new(SettingsPatch::default(), limits);
    let patch = SettingsPatch { push_window: Some(9), ..batches(3, millis(100)) };
    let patch = SettingsPatch { order_policy: Some(OrderPolicy::Priority), ..patch };
    let key = rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, patch);
    rig.prior(0, 5);
    ask_about(&mut rig, key);
    rig.prior(1, 1);
    no_filter(&mut rig, key);
    assert!(rig.get().is_none(), "the first may still get company");
    // There is no place for it in the channel, and it is late, and so comes in for no consumer.
    rig.publish_with(2, |event| event.stop = Some(Time(1)));
    assert_eq!(rig.get().map(|got| got.numbers), Some(vec![1]));
}

#[test]
fn it_goes_also_when_the_event_for_which_that_was_dropped_finds_no_place_after_all() {
    let mut rig = Rig::plain();
    let patch = SettingsPatch { discard_policy: Some(DiscardPolicy::Priority), ..batches(3, millis(100)) };
    let patch = SettingsPatch { order_policy: Some(OrderPolicy::Deadline), push_window: Some(9), ..patch };
    let key = rig.consumer_of(ProxyKind { batches: true, ..ProxyKind::default() }, patch);
    let prior_and_mortal = |rig: &mut Rig, number, priority| {
        rig.publish_with(number, |event| {
            (event.priority, event.timeout) = (Some(priority), Some(millis(1_000 + u64::from(number))));
        });
    };
    prior_and_mortal(&mut rig, 0, 1);
    ask_about(&mut rig, key);
    prior_and_mortal(&mut rig, 1, 9);
    no_filter(&mut rig, key);
    rig.set(key, SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(1)), ..patch });
    assert!(rig.get().is_none(), "the first may still get company");
    prior_and_mortal(&mut rig, 2, 5);
    assert_eq!(rig.get().map(|got| got.numbers), Some(vec![1]));
    assert_eq!(rig.stats(key).discards.of(DiscardReason::OutboxFull), 2);
}

#[test]
fn remote_filters_have_their_time_before_the_consumer_has_its_own() {
    let mut rig = Rig::plain();
    let patch = SettingsPatch {
        filter_timeout: Some(millis(300)),
        reply_timeout: Some(millis(1_000)),
        ..SettingsPatch::default()
    };
    let key = rig.consumer(patch);
    ask_about(&mut rig, key);
    rig.publish(0);
    let got = rig.get().unwrap();
    assert_eq!(got.delivery.deadline, Some(rig.now + millis(1_300)));
    rig.conclude(&got, Outcome::Unreachable);
    rig.advance(millis(50));
    assert!(rig.get().unwrap().delivery.ask.is_some(), "asked again, for the answer may be another");
}

#[test]
fn one_that_remote_filters_refuse_makes_way_for_the_next() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    ask_about(&mut rig, key);
    rig.publish_all(0..3);
    assert_eq!(rig.answer(Outcome::Filtered), Some(0));
    assert_eq!(rig.answer(Outcome::FilterFailed), Some(1));
    assert_eq!(rig.answer(Outcome::Delivered), Some(2));
    let discards = rig.stats(key).discards;
    assert_eq!((discards.total(), discards.of(DiscardReason::FilterFailed), rig.memory()), (1, 1, 0));
    assert_eq!((rig.lane.counters().deliveries.filtered, rig.stats(key).failures), (1, 0));
}

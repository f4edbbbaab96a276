//! When an event is reported as complete to the caller that handed it in.

use super::*;
use core::num::NonZeroU64;

const WATCH: NonZeroU64 = NonZeroU64::new(7).unwrap();
const FOR_ALL: Completion = Completion::ForAll { watch: WATCH };

fn completed_for(consumer: ProxyKey, how: Disposition) -> Completion {
    Completion::ForConsumer { watch: WATCH, consumer, how }
}

impl Rig {
    /// Publishes an event that is reported when it is complete, for each consumer too.
    fn publish_watched(&mut self, with: impl FnOnce(&mut Event)) -> Admission {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.push(1);
        self.lane.classify(&mut pending_event, b"domain", b"name");
        (pending_event.watch, pending_event.watch_each) = (Some(WATCH), true);
        with(&mut pending_event);
        self.lane.handle_event(self.source, pending_event, &NoFields, self.now)
    }

    /// How it ended, as far as it was reported.
    fn completions(&mut self) -> Vec<Completion> {
        let mut completion_reports = self.completion_reports();
        completion_reports
            .retain(|completions| !matches!(completions, Completion::Begins { .. } | Completion::Begun { .. }));
        completion_reports
    }

    fn completion_reports(&mut self) -> Vec<Completion> {
        core::iter::from_fn(|| self.lane.poll_completion()).collect()
    }
}

#[test]
fn the_consumers_of_an_event_are_reported_before_anything_else_of_it() {
    let mut rig = Rig::plain();
    let [first, second] = [(); 2].map(|()| rig.consumer(SettingsPatch::default()));
    rig.publish_watched(|_| ());
    let [one, other] = [first, second].map(|consumer| Completion::Begins { watch: WATCH, consumer });
    assert_eq!(rig.completion_reports(), [one, other, Completion::Begun { watch: WATCH, bridges: 0 }]);
    rig.drain();
    rig.publish_watched(|event| event.only = Some([second.proxy].into()));
    let ends = [first, second].map(|consumer| completed_for(consumer, Disposition::Delivered));
    assert_eq!(rig.completion_reports()[..3], [ends[0], ends[1], FOR_ALL]);
}

/// As one is that a process before this took.
#[test]
fn a_restored_event_goes_to_those_only_that_should_have_it_yet_and_need_no_supplier() {
    let mut rig = Rig::plain();
    let [first, second, third] = [(); 3].map(|()| rig.consumer(SettingsPatch::default()));
    let gone = ProxyKey { proxy: ProxyId(900), ..rig.source };
    let restore = |rig: &mut Rig, only: Option<&[ProxyKey]>| {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.push(1);
        rig.lane.classify(&mut pending_event, b"domain", b"name");
        (pending_event.watch, pending_event.watch_each) = (Some(WATCH), true);
        pending_event.only = only.map(|only| only.iter().map(|key| key.proxy).collect());
        rig.lane.restore_event(gone, pending_event, &NoFields, rig.now)
    };
    assert_eq!(restore(&mut rig, Some(&[second, gone, third])), Admission::Accepted { destinations: 2 });
    assert_eq!(rig.drain().len(), 2);
    let ends = [second, third].map(|consumer| completed_for(consumer, Disposition::Delivered));
    assert_eq!(rig.completions(), [ends[0], ends[1], FOR_ALL]);
    // If it was not written which consumers should have it, those that want it.
    assert_eq!(restore(&mut rig, None), Admission::Accepted { destinations: 3 });
    rig.drain();
    assert_eq!(rig.completions()[0], completed_for(first, Disposition::Delivered));
    // All are gone that should have it.
    assert_eq!(restore(&mut rig, Some(&[gone])), Admission::Accepted { destinations: 0 });
    assert_eq!(rig.completions(), [FOR_ALL]);
}

/// They were accepted when there was room: some of them were in flight, which bounds do not count, and limits may be lower now.
#[test]
fn a_restored_event_comes_in_whatever_there_is_room_for() {
    for policy in [None, Some(FullOutbox::Discard), Some(FullOutbox::Reject), Some(FullOutbox::Disconnect)] {
        for max in [None, NonZeroU32::new(2)] {
            let mut rig = Rig::new(SettingsPatch::default(), budget(1_500));
            let patch =
                SettingsPatch { full_outbox: policy, max_events_per_consumer: Some(max), ..SettingsPatch::default() };
            let consumer = rig.consumer(patch);
            for number in 0..10 {
                let mut pending_event = rig.lane.begin_event();
                // The sixth is larger than the channel's memory.
                pending_event.bytes.resize(if number == 5 { 5_000 } else { 100 }, number);
                rig.lane.classify(&mut pending_event, b"domain", b"name");
                pending_event.only = Some([consumer.proxy].into());
                let admission = rig.lane.restore_event(rig.source, pending_event, &NoFields, rig.now);
                assert_eq!(admission, Admission::Accepted { destinations: 1 }, "{policy:?}, {max:?}");
            }
            assert_eq!(rig.notices(), [], "{policy:?}, {max:?}");
            assert_eq!(rig.drain(), (0..10).collect::<Vec<u8>>(), "{policy:?}, {max:?}");
            assert_eq!(rig.lane.counters().discards.total(), 0);
            // Limits are those of any other then.
            assert!(matches!(rig.publish(10), Admission::Accepted { .. }));
            assert_eq!((rig.drain(), rig.memory()), (vec![10], 0));
        }
    }
}

/// Each restart had it wait for as long as its supplier's `Timeout` once more, if that was there.
#[test]
fn a_restored_event_has_what_is_left_of_its_suppliers_timeout_though_that_is_there() {
    let mut rig = Rig::plain();
    let timeout = Some(Duration::from_secs(60));
    rig.hierarchy
        .set_proxy_settings(rig.source, SettingsPatch { timeout: Some(timeout), ..SettingsPatch::default() })
        .unwrap();
    rig.route();
    rig.consumer(SettingsPatch::default());
    for left in [Some(10), None] {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.push(1);
        rig.lane.classify(&mut pending_event, b"domain", b"name");
        pending_event.set_supplied(0, left.map(Duration::from_secs));
        rig.lane.restore_event(rig.source, pending_event, &NoFields, rig.now);
    }
    rig.advance(Duration::from_secs(11));
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Expired), 1);
    rig.advance(Duration::from_secs(100));
    assert_eq!(rig.drain(), [1], "its supplier had none when it came");
}

/// A consumer's `Timeout` began anew with each start.
#[test]
fn a_restored_event_is_as_old_as_it_is_though_it_came_before_the_clock_began() {
    let mut rig = Rig::plain();
    let timeout = Some(Some(Duration::from_secs(60)));
    let consumer = rig.consumer(SettingsPatch { timeout, ..SettingsPatch::default() });
    for (older_by, arrived) in [(50_u32, 0), (70, 0), (0, 500_000_000), (0, 400_000_000)] {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.push(u8::try_from(older_by).unwrap());
        rig.lane.classify(&mut pending_event, b"domain", b"name");
        pending_event.set_supplied(0, None);
        (pending_event.older_by_ms, pending_event.arrived) = (older_by * 1_000, Time(arrived));
        rig.lane.restore_event(rig.source, pending_event, &NoFields, rig.now);
    }
    assert_eq!(rig.stats(consumer).oldest, Some(Time(0)));
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Expired), 1, "that which is 71 s old");
    rig.advance(Duration::from_millis(9_100));
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Expired), 2);
    assert_eq!(rig.stats(consumer).oldest, Some(Time(500_000_000)), "and the one behind it is not older");
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.stats(consumer).oldest, Some(Time(500_000_000)));
}

#[test]
fn of_an_event_that_is_not_watched_nothing_is_reported() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.drain();
    assert_eq!(rig.completions(), []);
}

#[test]
fn an_event_is_complete_for_each_consumer_that_answers_and_for_all_with_the_last() {
    let mut rig = Rig::plain();
    let [first, second] = [(); 2].map(|()| rig.consumer(SettingsPatch::default()));
    // One that is not watched waits before it and after it.
    rig.publish(1);
    rig.publish_watched(|_| ());
    rig.publish(2);
    assert_eq!(rig.answer(Outcome::Delivered), Some(1));
    assert_eq!(rig.answer(Outcome::Delivered), Some(1));
    assert_eq!(rig.completions(), []);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    assert_eq!(rig.answer(Outcome::Sent), Some(1));
    assert_eq!(rig.completions(), [completed_for(second, Disposition::Delivered)]);
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.completions(), [completed_for(first, Disposition::Delivered), FOR_ALL]);
    rig.drain();
    assert_eq!(rig.completions(), []);
}

#[test]
fn without_a_report_for_each_consumer_there_is_one_report() {
    let mut rig = Rig::plain();
    (0..3).for_each(|_| _ = rig.consumer(SettingsPatch::default()));
    rig.publish_watched(|event| event.watch_each = false);
    rig.drain();
    assert_eq!(rig.completions(), [FOR_ALL]);
}

#[test]
fn an_event_without_consumers_or_that_is_refused_is_complete_at_once() {
    let mut rig = Rig::plain();
    assert_eq!(rig.publish_watched(|_| ()), Admission::Accepted { destinations: 0 });
    assert_eq!(rig.completions(), [FOR_ALL]);
    rig.consumer(SettingsPatch::default());
    let too_large = rig.publish_watched(|event| event.bytes.resize(300 << 20, 0));
    assert!(matches!(too_large, Admission::Refused(_)), "{too_large:?}");
    assert_eq!(rig.completions(), [FOR_ALL]);
}

#[test]
fn an_event_that_is_tried_again_is_not_settled_and_one_that_is_dropped_is_with_the_reason() {
    let mut rig = Rig::plain();
    let consumer = rig.consumer(SettingsPatch::default());
    rig.publish_watched(|_| ());
    rig.answer(Outcome::Unreachable);
    assert_eq!(rig.completions(), []);
    rig.advance(Duration::from_secs(60));
    rig.answer(Outcome::Rejected);
    assert_eq!(rig.completions(), [completed_for(consumer, Disposition::Dropped(DiscardReason::Rejected)), FOR_ALL]);
    rig.publish_watched(|_| ());
    rig.answer(Outcome::Filtered);
    assert_eq!(rig.completions(), [completed_for(consumer, Disposition::Unwanted), FOR_ALL]);
    rig.publish_watched(|event| event.timeout = Some(Duration::from_secs(1)));
    rig.advance(Duration::from_secs(2));
    assert_eq!(rig.completions(), [completed_for(consumer, Disposition::Dropped(DiscardReason::Expired)), FOR_ALL]);
}

#[test]
fn what_a_full_outbox_does_not_take_is_complete() {
    for (policy, reason) in [
        (FullOutbox::Discard, DiscardReason::OutboxFull),
        // The consumer goes because of this event.
        (FullOutbox::Disconnect, DiscardReason::Disconnected),
    ] {
        let discard = SettingsPatch { discard_policy: Some(DiscardPolicy::Lifo), ..full(policy) };
        let mut rig = Rig::plain();
        let consumer = rig.consumer(SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(1)), ..discard });
        rig.publish(1);
        rig.publish_watched(|_| ());
        assert_eq!(rig.completions(), [completed_for(consumer, Disposition::Dropped(reason)), FOR_ALL]);
    }
}

#[test]
fn the_backlog_of_a_consumer_that_is_gone_is_complete_as_it_is_released() {
    let mut rig = Rig::plain();
    let [goes, stays] = [(); 2].map(|()| rig.consumer(SettingsPatch::default()));
    rig.publish_watched(|_| ());
    rig.hierarchy.destroy_proxy(goes).unwrap();
    rig.route();
    assert_eq!(rig.completions(), []);
    rig.advance(Duration::ZERO);
    assert_eq!(rig.completions(), [completed_for(goes, Disposition::Dropped(DiscardReason::Removed))]);
    rig.drain();
    assert_eq!(rig.completions(), [completed_for(stays, Disposition::Delivered), FOR_ALL]);
}

#[test]
fn it_is_not_complete_for_all_while_the_protocol_has_it() {
    let mut rig = Rig::plain();
    let consumer = rig.consumer(SettingsPatch::default());
    rig.publish_watched(|_| ());
    let mut events = Vec::new();
    let delivery = rig.lane.poll_delivery(rig.now, &mut events).unwrap();
    rig.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Sent, rig.now);
    assert_eq!(rig.completions(), [completed_for(consumer, Disposition::Delivered)]);
    events.into_iter().for_each(|event| rig.lane.release(event));
    assert_eq!(rig.completions(), [FOR_ALL]);
}

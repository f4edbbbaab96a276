//! When whoever handed an event in is told that it is settled.

use super::*;
use core::num::NonZeroU64;

const WATCH: NonZeroU64 = NonZeroU64::new(7).unwrap();
const FOR_ALL: Settled = Settled::ForAll { watch: WATCH };

fn settled_for(consumer: ProxyKey, how: Settlement) -> Settled {
    Settled::ForConsumer { watch: WATCH, consumer, how }
}

impl Rig {
    /// Publishes an event of which it is to be told when it is settled, for each consumer too.
    fn publish_watched(&mut self, with: impl FnOnce(&mut Event)) -> Admission {
        let mut draft = self.lane.begin_event();
        draft.bytes.push(1);
        self.lane.classify(&mut draft, b"domain", b"name");
        (draft.watch, draft.watch_each) = (Some(WATCH), true);
        with(&mut draft);
        self.lane.handle_event(self.source, draft, &NoFields, self.now)
    }

    fn settled(&mut self) -> Vec<Settled> {
        core::iter::from_fn(|| self.lane.poll_settled()).collect()
    }
}

#[test]
fn of_an_event_that_nobody_watches_nothing_is_told() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.drain();
    assert_eq!(rig.settled(), []);
}

#[test]
fn an_event_is_settled_for_each_consumer_that_answers_and_for_all_with_the_last() {
    let mut rig = Rig::plain();
    let [first, second] = [(); 2].map(|()| rig.consumer(SettingsPatch::default()));
    // One that is not watched waits before it and after it.
    rig.publish(1);
    rig.publish_watched(|_| ());
    rig.publish(2);
    assert_eq!(rig.answer(Outcome::Delivered), Some(1));
    assert_eq!(rig.answer(Outcome::Delivered), Some(1));
    assert_eq!(rig.settled(), []);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    assert_eq!(rig.answer(Outcome::Sent), Some(1));
    assert_eq!(rig.settled(), [settled_for(second, Settlement::Delivered)]);
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.settled(), [settled_for(first, Settlement::Delivered), FOR_ALL]);
    rig.drain();
    assert_eq!(rig.settled(), []);
}

#[test]
fn whoever_does_not_ask_for_each_consumer_is_told_once() {
    let mut rig = Rig::plain();
    (0..3).for_each(|_| _ = rig.consumer(SettingsPatch::default()));
    rig.publish_watched(|event| event.watch_each = false);
    rig.drain();
    assert_eq!(rig.settled(), [FOR_ALL]);
}

#[test]
fn an_event_that_nobody_wants_is_settled_at_once_and_one_that_is_refused_is_not_told_of() {
    let mut rig = Rig::plain();
    assert_eq!(rig.publish_watched(|_| ()), Admission::Accepted { destinations: 0 });
    assert_eq!(rig.settled(), [FOR_ALL]);
    rig.consumer(SettingsPatch::default());
    let too_large = rig.publish_watched(|event| event.bytes.resize(300 << 20, 0));
    assert!(matches!(too_large, Admission::Refused(_)), "{too_large:?}");
    assert_eq!(rig.settled(), []);
}

#[test]
fn an_event_that_is_tried_again_is_not_settled_and_one_that_is_dropped_is_with_the_reason() {
    let mut rig = Rig::plain();
    let consumer = rig.consumer(SettingsPatch::default());
    rig.publish_watched(|_| ());
    rig.answer(Outcome::Unreachable);
    assert_eq!(rig.settled(), []);
    rig.advance(Duration::from_secs(60));
    rig.answer(Outcome::Rejected);
    assert_eq!(rig.settled(), [settled_for(consumer, Settlement::Dropped(DiscardReason::Rejected)), FOR_ALL]);
    rig.publish_watched(|_| ());
    rig.answer(Outcome::Filtered);
    assert_eq!(rig.settled(), [settled_for(consumer, Settlement::Unwanted), FOR_ALL]);
    rig.publish_watched(|event| event.timeout = Some(Duration::from_secs(1)));
    rig.advance(Duration::from_secs(2));
    assert_eq!(rig.settled(), [settled_for(consumer, Settlement::Dropped(DiscardReason::Expired)), FOR_ALL]);
}

#[test]
fn what_a_full_outbox_does_not_take_is_settled() {
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
        assert_eq!(rig.settled(), [settled_for(consumer, Settlement::Dropped(reason)), FOR_ALL]);
    }
}

#[test]
fn the_backlog_of_a_consumer_that_is_gone_is_settled_as_it_is_let_go_of() {
    let mut rig = Rig::plain();
    let [goes, stays] = [(); 2].map(|()| rig.consumer(SettingsPatch::default()));
    rig.publish_watched(|_| ());
    rig.hierarchy.destroy_proxy(goes).unwrap();
    rig.route();
    assert_eq!(rig.settled(), []);
    rig.advance(Duration::ZERO);
    assert_eq!(rig.settled(), [settled_for(goes, Settlement::Dropped(DiscardReason::Removed))]);
    rig.drain();
    assert_eq!(rig.settled(), [settled_for(stays, Settlement::Delivered), FOR_ALL]);
}

#[test]
fn it_is_not_settled_for_all_while_the_door_has_it() {
    let mut rig = Rig::plain();
    let consumer = rig.consumer(SettingsPatch::default());
    rig.publish_watched(|_| ());
    let mut events = Vec::new();
    let delivery = rig.lane.poll_delivery(rig.now, &mut events).unwrap();
    rig.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Sent, rig.now);
    assert_eq!(rig.settled(), [settled_for(consumer, Settlement::Delivered)]);
    events.into_iter().for_each(|event| rig.lane.release(event));
    assert_eq!(rig.settled(), [FOR_ALL]);
}

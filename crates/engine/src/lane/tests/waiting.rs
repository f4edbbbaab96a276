//! What becomes of events while they wait: order, time and discarding; and what they go in (batches) or wait for (pulls, filters), beneath.

use super::*;
use crate::lane::delivery::DUE_AT_ONCE;

mod batches;
mod pull;
mod remote_filters;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn ordered(order: OrderPolicy) -> SettingsPatch {
    SettingsPatch { order_policy: Some(order), ..SettingsPatch::default() }
}

fn discarding(policy: DiscardPolicy, events: u32) -> SettingsPatch {
    SettingsPatch { discard_policy: Some(policy), ..max_events(events) }
}

fn batches(size: u32, pacing: Duration) -> SettingsPatch {
    SettingsPatch { batch_size_max: NonZeroU32::new(size), pacing_interval: Some(pacing), ..SettingsPatch::default() }
}

/// A delivery's events by their first bytes, and what its outcome needs.
struct Got {
    numbers: Vec<u8>,
    delivery: Delivery,
}

impl Rig {
    fn publish_with(&mut self, number: u8, set: impl FnOnce(&mut Event)) -> Admission {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.push(number);
        self.lane.classify(&mut pending_event, b"domain", b"name");
        set(&mut pending_event);
        self.lane.handle_event(self.source, pending_event, &NoFields, self.now)
    }

    fn prior(&mut self, number: u8, priority: i16) {
        self.publish_with(number, |event| event.priority = Some(priority));
    }

    fn mortal(&mut self, number: u8, lifetime: Duration) {
        self.publish_with(number, |event| event.timeout = Some(lifetime));
    }

    fn consumer_of(&mut self, kind: ProxyKind, patch: SettingsPatch) -> ProxyKey {
        let (channel, side) = (self.channel, Side::Consumers);
        let proxy = self.hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), kind).unwrap();
        let key = ProxyKey { channel, proxy };
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
        self.set(key, patch);
        key
    }

    fn puller(&mut self) -> ProxyKey {
        self.consumer_of(ProxyKind { pull: true, ..ProxyKind::default() }, SettingsPatch::default())
    }

    fn set(&mut self, key: ProxyKey, patch: SettingsPatch) {
        self.hierarchy.set_proxy_settings(key, patch).unwrap();
        self.route();
    }

    fn get(&mut self) -> Option<Got> {
        let mut events = Vec::new();
        let delivery = self.lane.poll_delivery(self.now, &mut events)?;
        Some(self.note(delivery, events))
    }

    fn pull(&mut self, key: ProxyKey, most: u32) -> Option<Got> {
        let mut events = Vec::new();
        let delivery = self.lane.pull(key, most, &mut events, self.now).unwrap()?;
        Some(self.note(delivery, events))
    }

    fn note(&mut self, delivery: Delivery, events: Vec<Arc<Event>>) -> Got {
        let numbers = events.iter().map(|event| event.bytes[0]).collect();
        events.into_iter().for_each(|event| self.lane.release(event));
        Got { numbers, delivery }
    }

    fn conclude(&mut self, got: &Got, outcome: Outcome) {
        self.lane.handle_outcome(got.delivery.outbox, got.delivery.serial, outcome, self.now);
    }

    fn expired(&self) -> u64 {
        self.lane.counters().discards.of(DiscardReason::Expired)
    }
}

// ---- order ----

#[test]
fn the_highest_priority_goes_first_and_among_equals_the_oldest() {
    let mut rig = Rig::plain();
    rig.consumer(ordered(OrderPolicy::Priority));
    for (number, priority) in [(0, 0), (1, 5), (2, -5), (3, 5), (4, i16::MAX), (5, -i16::MAX), (6, 0)] {
        rig.prior(number, priority);
    }
    assert_eq!(rig.drain(), [4, 1, 3, 0, 6, 2, 5]);
}

#[test]
fn what_expires_first_goes_first_and_what_never_does_goes_last() {
    let mut rig = Rig::plain();
    rig.consumer(ordered(OrderPolicy::Deadline));
    rig.publish(0);
    for (number, lifetime) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
        rig.mortal(number, millis(lifetime));
    }
    rig.publish(5);
    assert_eq!(rig.drain(), [2, 4, 3, 1, 0, 5]);
}

#[test]
fn by_default_neither_priority_nor_timeout_changes_the_order() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(0);
    rig.prior(1, 9);
    rig.mortal(2, millis(5));
    rig.publish(3);
    rig.mortal(4, millis(1));
    assert_eq!(rig.drain(), [0, 1, 2, 3, 4]);
}

#[test]
fn an_event_that_is_retried_comes_before_its_equals_and_after_its_betters() {
    let mut rig = Rig::plain();
    rig.consumer(ordered(OrderPolicy::Priority));
    rig.prior(0, 3);
    let got = rig.get().unwrap();
    rig.prior(1, 3);
    rig.prior(2, 4);
    rig.conclude(&got, Outcome::Unreachable);
    rig.advance(millis(50));
    assert_eq!(rig.drain(), [2, 0, 1]);
}

#[test]
fn another_order_sorts_what_waits_already() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    for (number, priority) in [(0, 1), (1, 2), (2, 3), (3, 2)] {
        rig.prior(number, priority);
    }
    rig.set(key, ordered(OrderPolicy::Priority));
    assert_eq!(rig.answer(Outcome::Delivered), Some(2));
    rig.set(key, SettingsPatch::default());
    rig.prior(4, 9);
    assert_eq!(rig.drain(), [0, 1, 3, 4]);
}

#[test]
fn an_event_that_left_by_priority_comes_back_by_arrival() {
    let mut rig = Rig::plain();
    let key = rig.consumer(ordered(OrderPolicy::Priority));
    for (number, priority) in [(0, 1), (1, 2), (2, 1)] {
        rig.prior(number, priority);
    }
    let got = rig.get().unwrap();
    assert_eq!(got.numbers, [1]);
    rig.set(key, SettingsPatch::default());
    rig.publish(3);
    rig.conclude(&got, Outcome::NoRoom);
    rig.lane.resume_outbox(got.delivery.outbox, rig.now);
    assert_eq!(rig.drain(), [0, 1, 2, 3]);
}

// ---- discarding ----

#[test]
fn the_lowest_priority_is_discarded_first_and_among_equals_the_oldest() {
    let mut rig = Rig::plain();
    let key = rig.consumer(discarding(DiscardPolicy::Priority, 3));
    for (number, priority) in [(0, 1), (1, 0), (2, 0), (3, 0), (4, 2)] {
        rig.prior(number, priority);
    }
    // The lowest of all is the one that arrives.
    assert_eq!(rig.publish_with(5, |event| event.priority = Some(-1)), Admission::Accepted { destinations: 0 });
    assert_eq!(rig.stats(key).discards.of(DiscardReason::OutboxFull), 3);
    assert_eq!(rig.drain(), [0, 3, 4]);
}

#[test]
fn what_expires_first_is_discarded_first() {
    let mut rig = Rig::plain();
    rig.consumer(discarding(DiscardPolicy::Deadline, 2));
    rig.mortal(0, millis(30));
    rig.mortal(1, millis(10));
    rig.mortal(2, millis(20));
    assert_eq!(rig.publish_with(3, |event| event.timeout = Some(millis(5))), Admission::Accepted { destinations: 0 });
    rig.publish(4);
    assert_eq!(rig.drain(), [0, 4]);
}

#[test]
fn another_discard_policy_holds_for_what_waits_already() {
    let mut rig = Rig::plain();
    let key = rig.consumer(max_events(3));
    for (number, priority) in [(0, 3), (1, 1), (2, 2)] {
        rig.prior(number, priority);
    }
    rig.set(key, discarding(DiscardPolicy::Priority, 3));
    rig.prior(3, 5);
    assert_eq!(rig.drain(), [0, 2, 3]);
}

#[test]
fn the_slow_consumer_discards_by_its_policy_too() {
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(3), ..ChannelLimits::default() };
    let patch = SettingsPatch { discard_policy: Some(DiscardPolicy::Priority), ..SettingsPatch::default() };
    let mut rig = Rig::new(patch, limits);
    rig.consumer(SettingsPatch::default());
    for (number, priority) in [(0, 3), (1, 1), (2, 2), (3, 0)] {
        rig.prior(number, priority);
    }
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::QueueFull), 1);
    assert_eq!(rig.drain(), [0, 2, 3]);
}

#[test]
fn the_oldest_and_the_newest_are_found_among_those_that_expire_and_those_that_do_not() {
    for (policy, left) in [(DiscardPolicy::Fifo, [2, 3]), (DiscardPolicy::Lifo, [0, 1])] {
        let limits = ChannelLimits { max_queue_length: NonZeroU32::new(4), ..ChannelLimits::default() };
        let patch = SettingsPatch { discard_policy: Some(policy), ..SettingsPatch::default() };
        let mut rig = Rig::new(patch, limits);
        let key = rig.sleeper(SettingsPatch::default());
        rig.publish(0);
        rig.mortal(1, millis(10));
        rig.publish(2);
        rig.mortal(3, millis(10));
        let limits = ChannelLimits { max_queue_length: NonZeroU32::new(3), ..ChannelLimits::default() };
        rig.hierarchy.set_limits(rig.channel, limits).unwrap();
        rig.route();
        rig.publish(4);
        rig.resume(key);
        assert_eq!(rig.drain(), [left[0], left[1], 4], "{policy:?}");
    }
}

// ---- time ----

#[test]
fn an_event_expires_behind_a_consumer_that_is_stuck() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch { reply_timeout: Some(Duration::ZERO), ..SettingsPatch::default() });
    rig.mortal(0, millis(10));
    let got = rig.get().unwrap();
    rig.mortal(1, millis(10));
    rig.mortal(2, millis(20));
    rig.publish(3);
    assert_eq!(rig.lane.next_timeout(), Some(rig.now + millis(10)));
    rig.advance(millis(10));
    assert_eq!((rig.stats(key).backlog_events, rig.expired()), (3, 1), "one that is unanswered does not expire");
    rig.conclude(&got, Outcome::Delivered);
    rig.advance(millis(9));
    assert_eq!(rig.drain(), [2, 3]);
}

#[test]
fn an_event_that_is_put_back_too_late_expires_at_once() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch { push_window: Some(2), ..SettingsPatch::default() });
    rig.mortal(0, millis(10));
    rig.mortal(1, millis(10));
    let got = rig.get().unwrap();
    rig.get().unwrap();
    rig.advance(millis(10));
    assert_eq!(rig.expired(), 0);
    rig.conclude(&got, Outcome::Refused);
    assert_eq!((rig.expired(), rig.memory()), (2, 0));
}

#[test]
fn the_nearest_timeout_wins() {
    let patch = SettingsPatch { timeout: Some(Some(millis(10))), ..SettingsPatch::default() };
    let mut rig = Rig::new(patch, ChannelLimits::default());
    let key = rig.sleeper(patch);
    rig.publish(0);
    rig.mortal(1, millis(20));
    rig.mortal(2, millis(5));
    rig.mortal(3, Duration::ZERO);
    rig.advance(millis(9));
    assert_eq!(rig.expired(), 1);
    rig.advance(millis(1));
    assert_eq!(rig.expired(), 2);
    rig.resume(key);
    assert_eq!(rig.drain(), [1, 3], "a Timeout of zero is none");
}

/// As in TAO, where some clients say that their events live for a millisecond.
#[test]
fn lifetimes_only_put_events_in_order_where_nothing_is_to_expire() {
    let by_deadline = SettingsPatch { order_policy: Some(OrderPolicy::Deadline), ..SettingsPatch::default() };
    for is_stored in [false, true] {
        let mut rig = Rig::plain();
        if is_stored {
            rig.lane.keep_expired();
        }
        let key = rig.sleeper(by_deadline);
        rig.publish(0);
        rig.mortal(1, millis(20));
        rig.mortal(2, millis(5));
        let stop = Some(rig.now + millis(10));
        rig.publish_with(3, |event| event.stop = stop);
        rig.advance(Duration::from_secs(1_000_000));
        let late = rig.now;
        rig.publish_with(4, |event| event.stop = Some(late));
        rig.resume(key);
        let (got, expired) = if is_stored { (vec![2, 3, 1, 4, 0], 0) } else { (vec![0], 4) };
        assert_eq!((rig.drain(), rig.expired()), (got, expired));
    }
}

#[test]
fn a_consumers_events_expire_while_it_is_suspended() {
    let mut rig = Rig::plain();
    rig.sleeper(SettingsPatch::default());
    rig.mortal(0, millis(10));
    rig.advance(millis(10));
    assert_eq!((rig.expired(), rig.memory()), (1, 0));
}

#[test]
fn stop_time_counts_unless_it_is_not_supported() {
    let mut rig = Rig::plain();
    let ignores = SettingsPatch { stop_time_supported: Some(false), ..SettingsPatch::default() };
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(ignores));
    for key in [a, b] {
        rig.hierarchy.suspend(key).unwrap();
    }
    rig.route();
    let stop = Some(rig.now + millis(10));
    rig.publish_with(0, |event| event.stop = stop);
    rig.publish_with(1, |event| (event.stop, event.timeout) = (stop, Some(millis(5))));
    rig.advance(millis(5));
    assert_eq!((rig.stats(a).backlog_events, rig.stats(b).backlog_events), (1, 1), "whichever comes first");
    rig.advance(millis(5));
    assert_eq!((rig.stats(a).backlog_events, rig.stats(b).backlog_events), (0, 1));
    // Too late from the start.
    let admission = rig.publish_with(2, |event| event.stop = stop);
    assert_eq!((admission, rig.expired()), (Admission::Accepted { destinations: 1 }, 4));
}

#[test]
fn an_event_waits_for_its_start_time_and_then_queues_as_if_it_had_just_arrived() {
    let mut rig = Rig::plain();
    let ignores = SettingsPatch { start_time_supported: Some(false), ..SettingsPatch::default() };
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(ignores));
    let start = Some(rig.now + millis(10));
    rig.publish_with(0, |event| event.start = start);
    let got = rig.get().unwrap();
    assert_eq!((got.delivery.key, rig.stats(a).delayed), (b, 1));
    rig.conclude(&got, Outcome::Delivered);
    assert!(rig.get().is_none());
    assert_eq!(rig.lane.next_timeout(), start);
    rig.hierarchy.suspend(a).unwrap();
    rig.suspend(b);
    rig.now = rig.now + millis(5);
    rig.publish(1);
    rig.advance(millis(5));
    rig.publish(2);
    rig.resume(a);
    assert_eq!(rig.drain(), [1, 0, 2]);
}

#[test]
fn an_event_that_waits_for_its_start_time_counts_and_expires_like_any_other() {
    let mut rig = Rig::plain();
    let key = rig.consumer(max_events(2));
    let start = Some(rig.now + millis(100));
    rig.publish_with(0, |event| (event.start, event.timeout) = (start, Some(millis(10))));
    rig.publish_with(1, |event| event.start = start);
    rig.publish_with(2, |event| event.start = start);
    assert_eq!((rig.stats(key).delayed, rig.stats(key).discards.of(DiscardReason::OutboxFull)), (2, 1));
    rig.publish_with(3, |event| (event.start, event.timeout) = (start, Some(millis(10))));
    rig.advance(millis(10));
    assert_eq!((rig.stats(key).delayed, rig.expired()), (1, 1));
    rig.advance(millis(90));
    assert_eq!(rig.drain(), [2]);
}

#[test]
fn suppliers_go_on_when_expiry_makes_room() {
    let mut rig = Rig::new(granted(), ChannelLimits::default());
    let patch = SettingsPatch { full_outbox: Some(FullOutbox::Hold), ..max_events(1) };
    let key = rig.consumer(patch);
    rig.publish(0);
    rig.get().unwrap();
    rig.mortal(1, millis(10));
    let admission = rig.publish_with(2, |event| event.timeout = Some(millis(10)));
    let Admission::Withheld(ticket) = admission else { panic!("{admission:?}") };
    rig.advance(millis(10));
    assert_eq!((rig.lane.poll_release(), rig.stats(key).backlog_events), (Some(ticket), 1));
}

#[test]
fn suppliers_blocked_by_the_budget_go_on_when_expiry_makes_room() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(1_100));
    rig.sleeper(SettingsPatch::default());
    rig.mortal(0, millis(10));
    rig.mortal(1, millis(20));
    let admission = rig.publish_with(2, |event| event.timeout = Some(millis(30)));
    let Admission::Withheld(ticket) = admission else { panic!("{admission:?}") };
    rig.advance(millis(10));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn a_flood_of_expired_events_is_dropped_a_turn_at_a_time_and_none_is_delivered() {
    let mut rig = Rig::plain();
    let key = rig.sleeper(SettingsPatch::default());
    for number in 0..3_000_u32 {
        rig.mortal(number.to_le_bytes()[0], millis(10));
    }
    rig.publish(7);
    rig.hierarchy.resume(key).unwrap();
    rig.now = rig.now + millis(10);
    rig.route();
    let mut rounds = 0;
    while rig.lane.next_timeout().is_some_and(|due| due <= rig.now) {
        assert!(rig.get().is_none());
        rig.advance(Duration::ZERO);
        rounds += 1;
    }
    assert!(rounds > 1, "the others have their turns in between");
    assert_eq!(rig.expired(), 3_000);
    assert_eq!(rig.drain(), [7]);
}

/// Each outbox dropped a thousand expired events at most in one turn, but two hundred and fifty outboxes did so in the same turn: a
/// lane was away for a quarter of a million events.
#[test]
fn what_expires_in_many_outboxes_together_is_bounded_together() {
    let mut rig = Rig::plain();
    let keys: Vec<ProxyKey> = (0..10).map(|_| rig.consumer(SettingsPatch::default())).collect();
    keys.iter().for_each(|key| rig.hierarchy.suspend(*key).unwrap());
    rig.route();
    for number in 0..1_000_u32 {
        rig.mortal(number.to_le_bytes()[0], millis(10));
    }
    rig.publish(7);
    keys.iter().for_each(|key| rig.hierarchy.resume(*key).unwrap());
    rig.now = rig.now + millis(10);
    rig.route();
    let (mut polled, mut timed) = (Vec::new(), Vec::new());
    while rig.lane.next_timeout().is_some_and(|due| due <= rig.now) {
        let before = rig.expired();
        assert!(rig.get().is_none_or(|got| got.numbers == [7]));
        polled.push(rig.expired() - before);
        let before = rig.expired();
        rig.advance(Duration::ZERO);
        timed.push(rig.expired() - before);
    }
    assert_eq!(rig.expired(), 10_000);
    let most = DUE_AT_ONCE + keys.len() as u64;
    assert!(polled.iter().chain(&timed).all(|count| *count <= most), "{polled:?} {timed:?}");
    assert_eq!(polled.iter().chain(&timed).filter(|count| **count > 10).count(), 3, "{polled:?} {timed:?}");
}

/// An event for many consumers, each with a backlog that had just expired, dropped all of these before it was in.
#[test]
fn an_event_that_comes_in_drops_no_more_than_a_turn_of_what_has_expired() {
    let mut rig = Rig::plain();
    let keys: Vec<ProxyKey> = (0..10).map(|_| rig.consumer(max_events(1_000))).collect();
    keys.iter().for_each(|key| rig.hierarchy.suspend(*key).unwrap());
    rig.route();
    for number in 0..1_000_u32 {
        rig.mortal(number.to_le_bytes()[0], millis(10));
    }
    rig.now = rig.now + millis(10);
    assert_eq!(rig.publish(7), Admission::Accepted { destinations: 10 });
    // One of each is dropped in any case, so that there is room.
    let dropped = rig.expired();
    assert!(dropped <= DUE_AT_ONCE + keys.len() as u64, "{dropped}");
    while rig.lane.next_timeout().is_some_and(|due| due <= rig.now) {
        rig.advance(Duration::ZERO);
    }
    assert_eq!((rig.expired(), rig.lane.counters().discards.of(DiscardReason::OutboxFull)), (10_000, 0));
    assert!(keys.iter().all(|key| rig.stats(*key).backlog_events == 1));
}

#[test]
fn consumers_of_a_higher_dispatch_priority_are_served_first_and_leave_others_some() {
    let mut rig = Rig::plain();
    let of = |priority| SettingsPatch { dispatch_priority: Some(priority), ..SettingsPatch::default() };
    let [low, high, middle] = [0, 7, 3].map(|priority| rig.consumer(of(priority)));
    rig.publish_all(0..70);
    let served: Vec<ProxyKey> = core::iter::from_fn(|| {
        let (key, _, outbox, serial) = rig.poll()?;
        rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
        Some(key)
    })
    .collect();
    assert_eq!(served.len(), 210);
    assert!(served[..64].iter().all(|key| *key == high));
    assert_eq!(served[64..72], [&[middle][..], &[high; 6], &[middle]].concat(), "one of the others, then what is left");
    assert_eq!(served[200..], [low; 10]);
    let wrong = rig.hierarchy.set_proxy_settings(low, of(8));
    assert!(matches!(wrong, Err(Refusal::BadSetting { setting: "dispatch_priority", .. })));
}

//! Consumers with a correlation, which get sets of events.

mod harm;

use super::*;
use core::num::NonZeroU64;
use filter::correlation::{Correlation, CorrelationLimits};
use filter::{Fields, Path, Steps, Value};

/// Reads an event's second octet as the field `key`, whatever the name.
#[derive(Clone, Copy, Debug)]
struct Keyed;

/// An event's fields: one.
struct Key(Option<u8>);

impl Forms for Keyed {
    type Fields<'e> = Key;

    fn fields<'e>(&'e self, event: &'e Event) -> Key {
        Key(event.bytes.get(1).copied())
    }
}

impl Fields for Key {
    fn field<'f>(&'f self, _: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        steps.take(1).then_some(self.0.map(|key| Value::UInt(key.into())))?
    }

    fn contains(&self, _: &Path, _: &Value<'_>, _: &mut Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

/// First octet of an event, its set, and its place there.
type Got = (u8, u64, u32);

impl Rig {
    fn correlated(&mut self, kind: ProxyKind, patch: SettingsPatch, text: &str) -> ProxyKey {
        let proxy =
            self.hierarchy.create_proxy(self.channel, Side::Consumers, AdminId::DEFAULT, Form(1), kind).unwrap();
        let key = ProxyKey { channel: self.channel, proxy };
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
        self.hierarchy.set_proxy_settings(key, patch).unwrap();
        self.correlate(key, Some(text));
        key
    }

    fn correlate(&mut self, key: ProxyKey, text: Option<&str>) {
        let parse = |text| Arc::new(Correlation::parse(text, &CorrelationLimits::default()).unwrap());
        self.hierarchy.set_correlation(key, text.map(parse)).unwrap();
        self.route();
    }

    /// Publishes an event of a type, by its number.
    fn send(&mut self, name: &str, bytes: &[u8]) -> Admission {
        self.send_with(name, bytes, |_| ())
    }

    fn send_with(&mut self, name: &str, bytes: &[u8], with: impl FnOnce(&mut Event)) -> Admission {
        let mut pending_event = self.lane.begin_event();
        pending_event.bytes.extend_from_slice(bytes);
        self.lane.classify(&mut pending_event, b"Site", name.as_bytes());
        with(&mut pending_event);
        let admission = self.lane.handle_event(self.source, pending_event, &Keyed, self.now);
        self.lane.gather_sets(&Keyed, self.now);
        admission
    }

    /// Lets time pass, and has the lane do what is due.
    fn pass(&mut self, time: Duration) {
        self.advance(time);
        self.lane.gather_sets(&Keyed, self.now);
    }

    fn watched(&mut self, name: &str, number: u8) {
        self.send_with(name, &[number], |event| {
            (event.watch, event.watch_each) = (NonZeroU64::new(number.into()), true);
        });
    }

    /// The next delivery, which stays unanswered.
    fn batch(&mut self) -> Option<(Vec<u8>, Option<Correlated>, OutboxId, u32)> {
        let mut events = Vec::new();
        self.lane.gather_sets(&Keyed, self.now);
        let delivery = self.lane.poll_delivery(self.now, &mut events)?;
        let numbers = events.iter().map(|event| event.bytes[0]).collect();
        events.into_iter().for_each(|event| self.lane.release(event));
        Some((numbers, delivery.correlated, delivery.outbox, delivery.serial))
    }

    fn answer_batch(&mut self, outcome: Outcome) -> Option<(Vec<u8>, Option<Correlated>)> {
        let (numbers, correlated, outbox, serial) = self.batch()?;
        self.lane.handle_outcome(outbox, serial, outcome, self.now);
        Some((numbers, correlated))
    }

    /// Delivers all there is to a consumer of single events.
    fn drain_sets(&mut self) -> Vec<Got> {
        let next = || {
            let (numbers, correlated) = self.answer_batch(Outcome::Delivered)?;
            let Correlated { set, index } = correlated.unwrap();
            assert_eq!(numbers.len(), 1);
            Some((numbers[0], set, index))
        };
        core::iter::from_fn(next).collect()
    }

    fn uncorrelated(&self, key: ProxyKey) -> u64 {
        self.stats(key).discards.of(DiscardReason::Uncorrelated)
    }

    /// What was reported of watched events: their numbers, and whether they were delivered; 255 for all.
    fn reported(&mut self) -> Vec<(u64, Option<bool>)> {
        let report = |completion| match completion {
            Completion::ForConsumer { watch, how, .. } => Some((watch.get(), Some(how == Disposition::Delivered))),
            Completion::ForAll { watch } => Some((watch.get(), None)),
            _ => None,
        };
        core::iter::from_fn(|| self.lane.poll_completion()).filter_map(report).collect()
    }
}

const SEQUENCES: ProxyKind = ProxyKind { pull: false, batches: true, on_main_lane: false };

fn hold_at(events: u32) -> SettingsPatch {
    SettingsPatch { full_outbox: Some(FullOutbox::Hold), ..max_events(events) }
}

#[test]
fn the_events_of_a_set_come_side_by_side_in_the_order_in_which_they_came() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "Site/A and B");
    assert_eq!(rig.send("A", &[1]), Admission::Accepted { destinations: 1 });
    rig.send("A", &[2]);
    rig.send("C", &[3]);
    assert_eq!((rig.batch(), rig.stats(consumer).awaiting_set), (None, 2));
    rig.send("B", &[4]);
    rig.send("B", &[5]);
    let stats = rig.stats(consumer);
    // The next set is looked for when this one is delivered.
    assert_eq!((stats.awaiting_set, stats.sets, stats.backlog_events), (1, 1, 3));
    assert_eq!(rig.drain_sets(), [(1, 1, 0), (4, 1, 1), (2, 2, 0), (5, 2, 1)]);
    assert_eq!((rig.memory(), rig.uncorrelated(consumer)), (0, 0));
}

#[test]
fn events_are_correlated_by_their_fields() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B same antenna");
    for (name, bytes) in [("A", [1, 7]), ("A", [2, 8]), ("B", [3, 8]), ("B", [4, 9])] {
        rig.send(name, &bytes);
    }
    rig.send("A", &[5]);
    assert_eq!(rig.drain_sets(), [(2, 1, 0), (3, 1, 1)]);
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (2, 1), "the last has no antenna");
}

#[test]
fn a_consumer_of_sequences_gets_each_set_as_one_batch() {
    let mut rig = Rig::plain();
    let two = SettingsPatch { batch_size_max: NonZeroU32::new(2), ..SettingsPatch::default() };
    rig.correlated(SEQUENCES, two, "A and B and C or D");
    for (number, name) in (1..).zip(["A", "B", "D", "D", "C"]) {
        rig.send(name, &[number]);
    }
    let set = |set| Some(Correlated { set, index: 0 });
    let expected = [(vec![3], set(1)), (vec![4], set(2)), (vec![1, 2, 5], set(3))];
    let got: Vec<_> = core::iter::from_fn(|| rig.answer_batch(Outcome::Delivered)).collect();
    assert_eq!(got, expected);
}

#[test]
fn a_client_that_pulls_gets_no_more_than_it_takes_and_no_two_sets_together() {
    let mut rig = Rig::plain();
    let kind = ProxyKind { pull: true, batches: true, on_main_lane: false };
    let consumer = rig.correlated(kind, SettingsPatch::default(), "A and B and C");
    for (number, name) in (1..).zip(["A", "B", "A", "C", "B", "C"]) {
        rig.send(name, &[number]);
    }
    let mut pull = |most| {
        let mut events = Vec::new();
        rig.lane.gather_sets(&Keyed, rig.now);
        let delivery = rig.lane.pull(consumer, most, &mut events, rig.now).unwrap().unwrap();
        let numbers: Vec<u8> = events.iter().map(|event| event.bytes[0]).collect();
        events.into_iter().for_each(|event| rig.lane.release(event));
        rig.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, rig.now);
        (numbers, delivery.correlated.unwrap())
    };
    assert_eq!(pull(2), (vec![1, 2], Correlated { set: 1, index: 0 }));
    assert_eq!(pull(9), (vec![4], Correlated { set: 1, index: 2 }));
    assert_eq!(pull(9), (vec![3, 5, 6], Correlated { set: 2, index: 0 }));
}

#[test]
fn a_set_stays_together_after_a_failure() {
    let mut rig = Rig::plain();
    let window = SettingsPatch { push_window: Some(3), order_policy: Some(OrderPolicy::Priority), ..hold_at(100) };
    rig.correlated(ProxyKind::default(), window, "A and B and C or D");
    for (number, name) in (1..).zip(["A", "C", "D", "A", "B", "B"]) {
        rig.send_with(name, &[number], |event| event.priority = Some(number.into()));
    }
    assert_eq!(rig.answer_batch(Outcome::Delivered), Some((vec![3], Some(Correlated { set: 1, index: 0 }))));
    let begun: Vec<_> = core::iter::from_fn(|| rig.batch()).collect();
    assert_eq!(begun.iter().map(|(numbers, ..)| numbers[0]).collect::<Vec<_>>(), [1, 2, 5]);
    let (_, _, outbox, serial) = begun[1];
    rig.lane.handle_outcome(outbox, serial, Outcome::ConnectionLost, rig.now);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.drain_sets(), [(1, 2, 0), (2, 2, 1), (5, 2, 2)]);
    rig.send("C", &[7]);
    assert_eq!(rig.drain_sets(), [(4, 3, 0), (6, 3, 1), (7, 3, 2)]);
    assert_eq!(rig.memory(), 0);
}

#[test]
fn events_that_find_no_others_in_time_are_dropped_and_counted() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B within 50ms");
    rig.send("A", &[1]);
    rig.pass(Duration::from_millis(30));
    rig.send("A", &[2]);
    // 20 ms later, since another lane may still hand over what came in time.
    let due = rig.lane.next_timeout().unwrap();
    assert_eq!(due, rig.now + Duration::from_nanos(40_000_001));
    rig.pass(Duration::from_millis(40));
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (2, 0));
    rig.pass(Duration::from_nanos(1));
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (1, 1));
    assert!(rig.memory() > 0);
    rig.send("B", &[3]);
    assert_eq!(rig.drain_sets(), [(2, 1, 0), (3, 1, 1)]);
    rig.send("A", &[4]);
    rig.pass(Duration::from_millis(51));
    rig.send("B", &[5]);
    assert_eq!(rig.drain_sets(), [], "whenever it is dropped");
    rig.pass(Duration::from_secs(1));
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer), rig.memory()), (0, 3, 0));
}

#[test]
fn at_most_so_many_events_wait_as_the_text_says() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B keep 2");
    for number in 1..=5 {
        rig.send("A", &[number]);
    }
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (2, 3));
    assert_eq!(rig.memory(), 2 * charge(1));
    rig.send("B", &[6]);
    assert_eq!(rig.drain_sets(), [(4, 1, 0), (6, 1, 1)]);
}

#[test]
fn a_consumer_that_is_slow_with_its_sets_is_like_any_slow_one() {
    let mut rig = Rig::new(granted(), ChannelLimits::default());
    let consumer = rig.correlated(ProxyKind::default(), hold_at(4), "A and B");
    for (number, name) in (1..).zip(["A", "B", "A", "A"]) {
        assert_eq!(rig.send(name, &[number]), Admission::Accepted { destinations: 1 }, "{number}");
    }
    // A set is complete, and two events wait behind it.
    assert!(matches!(rig.send("B", &[5]), Admission::Withheld(_)));
    assert_eq!(rig.drain_sets(), [(1, 1, 0), (2, 1, 1), (3, 2, 0), (5, 2, 1)]);
    assert!(rig.lane.poll_release().is_some());
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (1, 0));
}

#[test]
fn an_event_whose_lifetime_ends_before_its_set_is_complete_takes_no_other_with_it() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B and C");
    for (number, millis) in [(1, 10), (2, 30), (3, 20), (4, 10)] {
        rig.send_with("A", &[number], |event| event.timeout = Some(Duration::from_millis(millis)));
    }
    rig.send("B", &[5]);
    rig.pass(Duration::from_millis(21));
    rig.send("C", &[6]);
    assert_eq!(rig.drain_sets(), [(2, 1, 0), (5, 1, 1), (6, 1, 2)]);
    let stats = rig.stats(consumer);
    assert_eq!((stats.discards.of(DiscardReason::Expired), stats.awaiting_set, rig.memory()), (3, 0, 0));
}

#[test]
fn an_event_is_in_a_set_from_its_start_time_on() {
    let mut rig = Rig::plain();
    let patch = SettingsPatch { start_time_supported: Some(true), ..SettingsPatch::default() };
    rig.correlated(ProxyKind::default(), patch, "A and B or C");
    let start = rig.now + Duration::from_millis(10);
    rig.send_with("A", &[1], |event| event.start = Some(start));
    rig.send("B", &[2]);
    rig.send("C", &[3]);
    assert_eq!(rig.drain_sets(), [(3, 1, 0)]);
    rig.pass(Duration::from_millis(10));
    assert_eq!(rig.drain_sets(), [(2, 2, 0), (1, 2, 1)]);
}

#[test]
fn persistent_events_of_a_set_are_complete_together() {
    let mut rig = Rig::plain();
    rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B and C");
    rig.watched("A", 1);
    rig.watched("B", 2);
    rig.send("C", &[3]);
    assert_eq!(rig.answer_batch(Outcome::Delivered).unwrap().0, [1]);
    assert_eq!(rig.answer_batch(Outcome::Rejected).unwrap().0, [2]);
    assert_eq!(rig.reported(), []);
    assert_eq!(rig.answer_batch(Outcome::Delivered).unwrap().0, [3]);
    assert_eq!(rig.reported(), [(1, Some(true)), (1, None), (2, Some(false)), (2, None)]);
    assert_eq!(rig.memory(), 0);
}

#[test]
fn persistent_events_that_find_no_others_are_complete_when_they_are_dropped() {
    let mut rig = Rig::plain();
    rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B within 1ms same antenna");
    rig.send_with("A", &[1, 1], |event| (event.watch, event.watch_each) = (NonZeroU64::new(1), true));
    rig.watched("A", 2);
    assert_eq!(rig.reported(), [(2, Some(false)), (2, None)], "it has no antenna");
    rig.pass(Duration::from_millis(22));
    assert_eq!(rig.reported(), [(1, Some(false)), (1, None)]);
}

#[test]
fn what_an_earlier_process_took_is_correlated_by_its_arrival() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B within 50ms");
    rig.now = rig.now + Duration::from_secs(1);
    let restore = |rig: &mut Rig, name: &str, number: u8, before: u64| {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.push(number);
        rig.lane.classify(&mut pending_event, b"Site", name.as_bytes());
        pending_event.arrived = Time(rig.now.0 - before * 1_000_000);
        pending_event.only = Some([consumer.proxy].into());
        rig.lane.restore_event(rig.source, pending_event, &Keyed, rig.now);
        rig.lane.gather_sets(&Keyed, rig.now);
    };
    for (name, number, before) in [("A", 1, 300), ("B", 2, 200), ("A", 3, 160), ("A", 4, 20)] {
        restore(&mut rig, name, number, before);
    }
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (0, 1));
    rig.send("B", &[5]);
    assert_eq!(rig.drain_sets(), [(2, 1, 0), (3, 1, 1), (4, 2, 0), (5, 2, 1)]);
}

#[test]
fn a_consumer_that_goes_leaves_nothing_behind() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B");
    rig.watched("A", 1);
    rig.watched("A", 3);
    rig.watched("B", 2);
    assert_eq!(rig.answer_batch(Outcome::Delivered).unwrap().0, [1]);
    assert_eq!(rig.reported(), []);
    rig.hierarchy.destroy_proxy(consumer).unwrap();
    rig.route();
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.reported(), [(1, Some(true)), (1, None), (2, Some(false)), (2, None), (3, Some(false)), (3, None)]);
    assert_eq!((rig.memory(), rig.batch()), (0, None));
}

#[test]
fn another_correlation_begins_anew_and_none_ends_it() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B");
    rig.send("A", &[1]);
    rig.send("B", &[2]);
    rig.send("A", &[3]);
    assert_eq!(rig.drain_sets(), [(1, 1, 0), (2, 1, 1)]);
    rig.correlate(consumer, Some("A and B"));
    assert_eq!(rig.stats(consumer).awaiting_set, 1, "the same text changes nothing");
    rig.correlate(consumer, Some("A and C"));
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (0, 1));
    rig.send("A", &[4]);
    rig.send("A", &[5]);
    rig.send("C", &[6]);
    // Of the set that is complete one is under way; the others are single events again.
    let (numbers, _, outbox, serial) = rig.batch().unwrap();
    assert_eq!(numbers, [4]);
    rig.correlate(consumer, None);
    assert_eq!((rig.stats(consumer).awaiting_set, rig.uncorrelated(consumer)), (0, 2));
    rig.send("A", &[7]);
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    let rest: Vec<_> = core::iter::from_fn(|| rig.answer_batch(Outcome::Delivered)).collect();
    rig.pass(Duration::from_millis(1));
    assert_eq!((rest, rig.memory()), (vec![(vec![6], None), (vec![7], None)], 0));
}

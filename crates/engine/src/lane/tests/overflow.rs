//! Backlogs that go on elsewhere.

use super::*;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::num::NonZeroU64;

mod durable;
mod shared;
mod shelf;

use shelf::Shelf;

impl Rig {
    fn overflowing(memory: u64, elsewhere: u64) -> Self {
        let limits = ChannelLimits { overflow_budget_bytes: elsewhere, ..budget(memory) };
        let mut rig = Self::new(SettingsPatch::default(), ChannelLimits::default());
        rig.lane.allow_overflow();
        rig.hierarchy.set_limits(rig.channel, limits).unwrap();
        rig.route();
        rig
    }

    fn publish_number(&mut self, number: u32) -> Admission {
        let mut bytes = vec![0; 100];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        self.publish_bytes(&bytes)
    }

    /// The next delivery of a consumer that answers.
    fn take(&mut self, sleeping: Option<ProxyKey>) -> Option<(ProxyKey, u32)> {
        let mut events = Vec::new();
        loop {
            let delivery = self.lane.poll_delivery(self.now, &mut events)?;
            let number = u32::from_le_bytes(events[0].bytes[..4].try_into().unwrap());
            events.drain(..).for_each(|event| self.lane.release(event));
            if Some(delivery.key) != sleeping {
                self.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, self.now);
                return Some((delivery.key, number));
            }
        }
    }

    fn suspended(&mut self, key: ProxyKey, suspended: bool) {
        let _ = if suspended { self.hierarchy.suspend(key) } else { self.hierarchy.resume(key) };
        self.route();
    }
}

#[test]
fn a_consumer_that_sleeps_costs_no_other_anything_and_gets_everything_in_order() {
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    let mut shelf = Shelf::default();
    let (sleeper, other) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    rig.suspended(sleeper, true);
    for number in 0..2_000 {
        assert!(matches!(rig.publish_number(number), Admission::Accepted { destinations: 2 }));
        assert_eq!(rig.take(None), Some((other, number)));
        shelf.work_until_quiet(&mut rig);
        assert!(rig.memory() <= 11_000, "{}", rig.memory());
    }
    let stats = rig.stats(sleeper);
    assert_eq!((stats.backlog_events, stats.elsewhere_events > 1_900), (2_000, true));
    assert_eq!(rig.lane.counters().discards.total(), 0);
    rig.suspended(sleeper, false);
    for number in 0..2_000 {
        assert_eq!(rig.take(None), Some((sleeper, number)));
        shelf.work_until_quiet(&mut rig);
    }
    // Then it goes on as before.
    rig.publish_number(2_000);
    assert_eq!([(); 2].map(|()| rig.take(None).map(|(_, number)| number)), [Some(2_000); 2]);
    assert!(shelf.stored.is_empty());
    let reports = rig.notices();
    assert!(matches!(reports[..], [Notice::Overflows { .. }, Notice::OverflowOver { .. }]), "{reports:?}");
    assert_eq!(rig.memory(), 0);
}

/// With 64 KiB it had one: what came for it was late from then on, as long as the sleeper slept.
#[test]
fn a_consumer_that_hesitates_for_a_moment_while_another_one_sleeps_has_no_backlog() {
    let mut rig = Rig::overflowing(40 << 20, 1 << 30);
    let mut shelf = Shelf::default();
    let (sleeper, other) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    rig.suspended(sleeper, true);
    while rig.stats(sleeper).elsewhere_events == 0 {
        rig.publish_bytes(&[0; 10_000]);
        assert_eq!(rig.take(None).map(|(key, _)| key), Some(other));
    }
    // Of a quarter of the memory, divided among as many as there are places for, that is less than its part; and then more.
    for (events, has_backlog) in [(10, false), (10, true)] {
        (0..events).for_each(|_| _ = rig.publish_bytes(&[0; 10_000]));
        assert_eq!(rig.stats(other).elsewhere_events > 0, has_backlog);
    }
    shelf.work_until_quiet(&mut rig);
}

#[test]
fn when_there_is_no_room_elsewhere_either_full_outbox_decides_and_room_comes_back() {
    let mut rig = Rig::overflowing(20_000, 20_000);
    let mut shelf = Shelf::default();
    let sleeper = rig.sleeper(SettingsPatch::default());
    let mut number = 0;
    let ticket = loop {
        match rig.publish_number(number) {
            Admission::Withheld(ticket) => break ticket,
            Admission::Accepted { .. } => number += 1,
            other => panic!("{other:?}"),
        }
        shelf.work_until_quiet(&mut rig);
        assert!(number < 300);
    };
    assert!(rig.stats(sleeper).elsewhere_events > 50);
    rig.suspended(sleeper, false);
    let mut released = None;
    for expected in 0..=number {
        assert_eq!(rig.take(None), Some((sleeper, expected)));
        shelf.work_until_quiet(&mut rig);
        released = released.or_else(|| rig.lane.poll_release());
    }
    assert_eq!(released, Some(ticket));
    // Or it discards what comes then, or that is refused to its supplier.
    for policy in [FullOutbox::Discard, FullOutbox::Reject] {
        let mut rig = Rig::overflowing(20_000, 20_000);
        let mut shelf = Shelf::default();
        rig.hierarchy.set_channel_settings(rig.channel, granted()).unwrap();
        let sleeper = rig.sleeper(full(policy));
        let mut refused = 0;
        for number in 0..1_000 {
            refused += u64::from(matches!(rig.publish_number(number), Admission::Refused(Refusal::MemorySpent { .. })));
            shelf.work_until_quiet(&mut rig);
        }
        let gone = rig.lane.counters().discards.of(DiscardReason::OutboxFull);
        assert_eq!(gone + refused + rig.stats(sleeper).backlog_events, 1_000, "{policy:?}: {gone}, {refused}");
        assert!([gone, refused][usize::from(policy == FullOutbox::Reject)] > 700, "{policy:?}: {gone}, {refused}");
    }
}

/// A persistent event that no consumer is to get any more would stay in the store for ever.
#[test]
fn a_consumer_that_stays_although_there_is_no_room_elsewhere_either_loses_what_comes_and_that_is_complete() {
    let mut rig = Rig::overflowing(20_000, 20_000);
    let mut shelf = Shelf::default();
    let persistent =
        SettingsPatch { connection_reliability: Some(Reliability::Persistent), ..SettingsPatch::default() };
    let sleeper = rig.consumer(persistent);
    let (mut number, mut withheld) = (0, None);
    while withheld.is_none() {
        number += 1;
        withheld = match publish_watched(&mut rig, number) {
            Admission::Withheld(ticket) => Some(ticket),
            _ => None,
        };
        shelf.work_until_quiet(&mut rig);
    }
    // It is sent the first, and says nothing.
    let (delivery, _) = begin(&mut rig).unwrap();
    rig.advance(Duration::from_secs(30));
    rig.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Unreachable, rig.now);
    assert_eq!(rig.lane.poll_release(), withheld, "suppliers go on");
    let last = number + 50;
    for number in number + 1..=last {
        assert!(matches!(publish_watched(&mut rig, number), Admission::Accepted { .. }), "{number}");
        shelf.work_until_quiet(&mut rig);
    }
    let dropped = rig.stats(sleeper).discards.of(DiscardReason::WaitedOut);
    assert_eq!(dropped, 50, "what was there stays");
    // It comes back, and gets all the others.
    rig.advance(Duration::from_secs(60));
    for expected in 1..=u32::try_from(number).unwrap() {
        assert_eq!(rig.take(None), Some((sleeper, expected)));
        shelf.work_until_quiet(&mut rig);
    }
    assert_eq!(rig.take(None), None);
    let reports: Vec<Completion> = core::iter::from_fn(|| rig.lane.poll_completion()).collect();
    let mut over: Vec<u64> = reports
        .iter()
        .filter(|completion| matches!(completion, Completion::ForAll { .. }))
        .filter_map(number_of)
        .collect();
    over.sort_unstable();
    assert_eq!(over, (1..=last).collect::<Vec<_>>(), "the log can forget them all");
}

fn publish_watched(rig: &mut Rig, number: u64) -> Admission {
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.resize(100, 0);
    pending_event.bytes[..4].copy_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
    rig.lane.classify(&mut pending_event, b"domain", b"name");
    (pending_event.watch, pending_event.watch_each) = (NonZeroU64::new(number), true);
    rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now)
}

/// That there had been no room elsewhere stuck to a consumer, until others released what they had there.
#[test]
fn a_consumer_that_has_caught_up_is_not_full_though_others_take_all_room_elsewhere() {
    let mut rig = Rig::overflowing(20_000, 20_000);
    let mut shelf = Shelf::default();
    let (sleeper, other) = (rig.consumer(full(FullOutbox::Discard)), rig.consumer(SettingsPatch::default()));
    rig.suspended(sleeper, true);
    let mut published = 0;
    let mut got = Vec::new();
    while rig.stats(sleeper).discards.total() == 0 {
        assert!(matches!(rig.publish_number(published), Admission::Accepted { .. }));
        published += 1;
        got.extend(rig.take(None).map(|(_, number)| number));
        shelf.work_until_quiet(&mut rig);
    }
    rig.suspended(other, true);
    let ticket = loop {
        let admission = rig.publish_number(published);
        published += 1;
        shelf.work_until_quiet(&mut rig);
        if let Admission::Withheld(ticket) = admission {
            break ticket;
        }
    };
    rig.suspended(other, false);
    while let Some((key, number)) = rig.take(None) {
        assert_eq!(key, other);
        got.push(number);
        shelf.work_until_quiet(&mut rig);
    }
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert!(rig.stats(sleeper).elsewhere_events > 50);
    for _ in 0..100 {
        assert!(matches!(rig.publish_number(published), Admission::Accepted { .. }));
        published += 1;
        got.extend(rig.take(None).map(|(_, number)| number));
        shelf.work_until_quiet(&mut rig);
    }
    assert!(got.iter().copied().eq(0..published), "{got:?}");
}

/// A consumer that was away took all the room that there was elsewhere for the channel.
#[test]
fn a_bound_in_bytes_counts_what_is_elsewhere_and_leaves_the_rest_of_the_room_to_others() {
    const MAX: u64 = 60_000;
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    let mut shelf = Shelf::default();
    let max_bytes_per_consumer = Some(NonZeroU64::new(MAX));
    let bounded = rig.sleeper(SettingsPatch { max_bytes_per_consumer, ..full(FullOutbox::Discard) });
    let other = rig.sleeper(SettingsPatch::default());
    shelf.publish_released(&mut rig, 1_000);
    let stats = rig.stats(bounded);
    let dropped = stats.discards.of(DiscardReason::OutboxFull);
    assert_eq!(stats.backlog_events + dropped, 1_000);
    let elsewhere = stats.elsewhere_events * (100 + 128);
    assert!(
        (MAX - 500..MAX + 500).contains(&(stats.backlog_bytes + elsewhere)),
        "{} and {elsewhere}",
        stats.backlog_bytes
    );
    assert_eq!(rig.stats(other).backlog_events, 1_000);
    rig.suspended(bounded, false);
    let mut got = Vec::new();
    while rig.stats(bounded).backlog_events > 0 {
        got.extend(rig.take(None).map(|(_, number)| number));
        shelf.work_until_quiet(&mut rig);
    }
    assert!(got.is_sorted() && got.len() as u64 + dropped == 1_000);
    assert!(matches!(rig.publish_number(1_000), Admission::Accepted { destinations: 2 }));
    assert_eq!(rig.stats(bounded).discards.of(DiscardReason::OutboxFull), dropped);
}

#[test]
fn suppliers_go_on_when_there_may_be_more_elsewhere() {
    let mut rig = Rig::overflowing(20_000, 20_000);
    let mut shelf = Shelf::default();
    rig.sleeper(SettingsPatch::default());
    let mut withheld = false;
    for number in 0..300 {
        withheld |= matches!(rig.publish_number(number), Admission::Withheld(_));
        shelf.work_until_quiet(&mut rig);
        if withheld {
            break;
        }
    }
    assert!(withheld && rig.lane.poll_release().is_none());
    let limits = ChannelLimits { overflow_budget_bytes: 1 << 20, ..budget(20_000) };
    rig.hierarchy.set_limits(rig.channel, limits).unwrap();
    rig.route();
    assert!(rig.lane.poll_release().is_some());
    assert!(matches!(rig.publish_number(300), Admission::Accepted { destinations: 1 }));
}

/// Its consumer got nothing any more, for good.
#[test]
fn an_event_that_is_larger_than_all_there_may_be_elsewhere_is_dropped_and_others_are_not() {
    let mut rig = Rig::overflowing(20_000, 2_000);
    let mut shelf = Shelf::default();
    let sleeper = rig.sleeper(full(FullOutbox::Discard));
    let mut number = 0;
    while rig.stats(sleeper).elsewhere_events == 0 {
        rig.publish_number(number);
        number += 1;
        shelf.work_until_quiet(&mut rig);
    }
    rig.publish_bytes(&[255; 5_000]);
    shelf.work_until_quiet(&mut rig);
    assert_eq!(rig.stats(sleeper).discards.of(DiscardReason::OutboxFull), 1);
    rig.publish_number(number);
    shelf.work_until_quiet(&mut rig);
    assert_eq!(rig.stats(sleeper).discards.total(), 1, "there is room for that");
    rig.suspended(sleeper, false);
    for expected in 0..=number {
        assert_eq!(rig.take(None), Some((sleeper, expected)));
        shelf.work_until_quiet(&mut rig);
    }
}

/// What was there was not asked for, since nothing was delivered that would have.
#[test]
fn what_is_elsewhere_comes_back_when_all_that_was_in_memory_was_dropped() {
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    let mut shelf = Shelf::default();
    let [sleeper, other] = [(); 2].map(|()| rig.consumer(full(FullOutbox::Discard)));
    rig.suspended(sleeper, true);
    while rig.stats(sleeper).elsewhere_events < 20 {
        publish_for(&mut rig, sleeper);
        shelf.look(&mut rig.lane);
    }
    // Memory is spent by what is yet to be kept, so that what waits there is dropped, the largest backlog first.
    while rig.stats(sleeper).backlog_events > rig.stats(sleeper).elsewhere_events {
        publish_for(&mut rig, other);
    }
    let stats = rig.stats(sleeper);
    shelf.work_until_quiet(&mut rig);
    rig.suspended(sleeper, false);
    let mut got = 0;
    while let Some((key, _)) = rig.take(None) {
        got += u64::from(key == sleeper);
        shelf.work_until_quiet(&mut rig);
    }
    assert_eq!(got, stats.elsewhere_events);
}

fn publish_for(rig: &mut Rig, consumer: ProxyKey) {
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.extend_from_slice(&[0; 100]);
    rig.lane.classify(&mut pending_event, b"domain", b"name");
    pending_event.only = Some([consumer.proxy].into());
    rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
}

/// A consumer's lifetime began anew, however long it had been there.
#[test]
fn what_comes_back_is_as_old_as_it_is() {
    let mut rig = Rig::overflowing(4_000, 1 << 20);
    let mut shelf = Shelf::default();
    let timeout = Some(Some(Duration::from_secs(60)));
    let sleeper = rig.sleeper(SettingsPatch { timeout, ..SettingsPatch::default() });
    let first = rig.now;
    for number in 0..100 {
        rig.publish_number(number);
        shelf.look(&mut rig.lane);
        shelf.writing.drain(..).for_each(|event| rig.lane.note_stored(event));
        rig.advance(Duration::from_millis(500));
    }
    assert!(rig.stats(sleeper).elsewhere_events > 50);
    assert_eq!(rig.stats(sleeper).oldest, Some(first));
    rig.suspended(sleeper, false);
    let mut taken = 0;
    while rig.stats(sleeper).backlog_events > rig.stats(sleeper).elsewhere_events {
        assert_eq!(rig.take(None), Some((sleeper, taken)));
        taken += 1;
    }
    shelf.look(&mut rig.lane);
    shelf.work(&mut rig.lane, rig.now);
    assert_eq!(rig.stats(sleeper).oldest, Some(first + Duration::from_millis(500 * u64::from(taken))));
    // Half of them are older than a minute then.
    rig.advance(Duration::from_secs(35));
    shelf.work_until_quiet(&mut rig);
    let mut got = Vec::new();
    while let Some((_, number)) = rig.take(None) {
        got.push(number);
        shelf.work_until_quiet(&mut rig);
    }
    assert_eq!(got, (51..100).collect::<Vec<u32>>());
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Expired), u64::from(51 - taken));
}

/// What is read goes with the whole file that it is in, which may be long afterwards.
#[test]
fn what_was_brought_back_counts_no_more_before_there_is_room_for_others() {
    let mut rig = Rig::overflowing(4_000, 1 << 20);
    let max_queue_length = NonZeroU32::new(150);
    let limits = ChannelLimits { overflow_budget_bytes: 1 << 20, max_queue_length, ..budget(4_000) };
    rig.hierarchy.set_limits(rig.channel, limits).unwrap();
    rig.route();
    let mut shelf = Shelf { frees_nothing: true, ..Shelf::default() };
    let sleeper = rig.consumer(full(FullOutbox::Hold));
    for times in 0..3 {
        rig.suspended(sleeper, true);
        for number in 0..100 {
            assert!(matches!(rig.publish_number(number), Admission::Accepted { .. }), "{times}: {number}");
            shelf.work_until_quiet(&mut rig);
        }
        assert!(rig.stats(sleeper).elsewhere_events > 50);
        rig.suspended(sleeper, false);
        for number in 0..100 {
            assert_eq!(rig.take(None), Some((sleeper, number)));
            shelf.work_until_quiet(&mut rig);
        }
    }
}

#[test]
fn what_is_elsewhere_counts_when_suppliers_have_waited_for_long_enough() {
    let mut rig = Rig::overflowing(4_000, 1 << 20);
    let mut shelf = Shelf::default();
    let patch = SettingsPatch { blocking: Some(Duration::from_millis(10)), ..max_events(40) };
    let sleeper = rig.sleeper(patch);
    let mut number = 0;
    while !matches!(rig.publish_number(number), Admission::Withheld(_)) {
        number += 1;
        shelf.work_until_quiet(&mut rig);
    }
    assert!(rig.stats(sleeper).elsewhere_events > 20);
    rig.advance(Duration::from_millis(11));
    assert!(rig.lane.poll_release().is_some());
    let stats = rig.stats(sleeper);
    assert_eq!((stats.backlog_events, stats.discards.of(DiscardReason::OutboxFull)), (40, 1));
}

/// It was said to wait for its `StartTime`, for which a service that ends does not wait.
#[test]
fn a_consumer_whose_next_events_are_being_brought_back_is_waited_for() {
    let mut rig = Rig::overflowing(4_000, 1 << 20);
    let mut shelf = Shelf::default();
    let sleeper = rig.sleeper(SettingsPatch::default());
    shelf.publish_released(&mut rig, 100);
    rig.suspended(sleeper, false);
    while rig.take(None).is_some() {}
    shelf.look(&mut rig.lane);
    let mut left = Vec::new();
    rig.lane.undelivered_at(0, 100, rig.now, &mut left);
    let events = rig.stats(sleeper).elsewhere_events;
    assert!(events > 0 && !shelf.requests.is_empty());
    assert_eq!(left, [Undelivered { of: BlockedBy::Consumer(sleeper), events, waits_for: WaitsFor::Consumer }]);
}

#[test]
fn what_is_slow_to_keep_events_takes_memory_and_is_bounded_by_that() {
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    rig.sleeper(SettingsPatch::default());
    // Nothing releases what is to be kept.
    let mut shelf = Shelf::default();
    let accepted = (0..1_000).take_while(|number| {
        let admission = rig.publish_number(*number);
        shelf.look(&mut rig.lane);
        matches!(admission, Admission::Accepted { .. })
    });
    let accepted = accepted.count();
    assert!(accepted < 50 && rig.memory() > 19_000, "{accepted}, {}", rig.memory());
    shelf.work_until_quiet(&mut rig);
    assert!(rig.lane.poll_release().is_some(), "it was written");
}

#[test]
fn what_was_kept_for_a_consumer_that_is_gone_is_forgotten_and_counted() {
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    let mut shelf = Shelf::default();
    let [sleeper, other] = [(); 2].map(|()| rig.consumer(SettingsPatch::default()));
    rig.suspended(sleeper, true);
    rig.suspended(other, true);
    let watch = NonZeroU64::new(7).unwrap();
    for number in 0..100 {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.extend_from_slice(&[number; 100]);
        rig.lane.classify(&mut pending_event, b"domain", b"name");
        (pending_event.watch, pending_event.watch_each) = (Some(watch), true);
        rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
        shelf.work_until_quiet(&mut rig);
    }
    rig.hierarchy.disconnect(sleeper).unwrap();
    rig.route();
    shelf.work_until_quiet(&mut rig);
    assert_eq!(shelf.read.keys().copied().collect::<Vec<_>>(), [other.proxy]);
    rig.advance(Duration::ZERO);
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Removed), 100);
    let reports: Vec<Completion> = core::iter::from_fn(|| rig.lane.poll_completion()).collect();
    assert!(reports.contains(&Completion::Gone { consumer: sleeper }));
    let begun = reports.iter().filter(|completion| matches!(completion, Completion::Begins { .. })).count();
    assert_eq!(begun, 200, "each was reported to be for both");
}

#[test]
fn an_event_that_was_elsewhere_is_complete_for_its_consumer_when_that_has_it() {
    let mut rig = Rig::overflowing(4_000, 1 << 20);
    let mut shelf = Shelf::default();
    let sleeper = rig.sleeper(SettingsPatch::default());
    for number in 1..=20_u64 {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.extend_from_slice(&[1; 100]);
        rig.lane.classify(&mut pending_event, b"domain", b"name");
        (pending_event.watch, pending_event.watch_each) = (NonZeroU64::new(number), true);
        rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
        shelf.work_until_quiet(&mut rig);
    }
    rig.suspended(sleeper, false);
    while rig.take(None).is_some() {
        shelf.work_until_quiet(&mut rig);
    }
    let reports: Vec<Completion> = core::iter::from_fn(|| rig.lane.poll_completion()).collect();
    let of = |kind: fn(&Completion) -> Option<u64>| {
        let mut numbers: Vec<u64> = reports.iter().filter_map(kind).collect();
        numbers.sort_unstable();
        numbers
    };
    let all: Vec<u64> = (1..=20).collect();
    let begins = |completion: &Completion| {
        matches!(completion, Completion::Begins { .. }).then(|| number_of(completion)).flatten()
    };
    let ends = |completion: &Completion| {
        matches!(completion, Completion::ForConsumer { .. }).then(|| number_of(completion)).flatten()
    };
    let over = |completion: &Completion| {
        matches!(completion, Completion::ForAll { .. }).then(|| number_of(completion)).flatten()
    };
    assert_eq!([of(begins), of(ends), of(over)], [all.clone(), all.clone(), all]);
}

fn number_of(completion: &Completion) -> Option<u64> {
    match completion {
        Completion::Begins { watch, .. } | Completion::ForConsumer { watch, .. } | Completion::ForAll { watch } => {
            Some(watch.get())
        }
        _ => None,
    }
}

/// What cannot be read back is reported as dropped, and nothing waits for it.
#[test]
fn what_is_lost_elsewhere_is_counted_and_the_consumer_goes_on() {
    let mut rig = Rig::overflowing(4_000, 1 << 20);
    let mut shelf = Shelf::default();
    let sleeper = rig.sleeper(SettingsPatch::default());
    shelf.publish_released(&mut rig, 100);
    let away = rig.stats(sleeper).elsewhere_events;
    rig.suspended(sleeper, false);
    shelf.look(&mut rig.lane);
    while shelf.requests.is_empty() {
        rig.take(None).unwrap();
        shelf.look(&mut rig.lane);
    }
    let (outbox, ..) = shelf.requests.pop_front().unwrap();
    rig.lane.end_return(outbox, away, rig.now);
    assert_eq!(rig.stats(sleeper).discards.of(DiscardReason::OverflowLost), away);
    // Which those were is unknown: all that it does not get.
    let gone = Completion::Gone { consumer: sleeper };
    let mut reports = Vec::new();
    assert!(rig.stats(sleeper).backlog_events > 0);
    while rig.stats(sleeper).backlog_events > 0 {
        reports.extend(core::iter::from_fn(|| rig.lane.poll_completion()));
        assert!(!reports.contains(&gone), "it is yet to get some");
        rig.take(None).unwrap();
    }
    reports.extend(core::iter::from_fn(|| rig.lane.poll_completion()));
    assert_eq!(reports.iter().filter(|reports| **reports == gone).count(), 1);
    rig.publish_number(100);
    assert_eq!(rig.take(None), Some((sleeper, 100)));
}

/// It was taken out of those that have something there twice, so that nothing was kept apart any more for the others.
#[test]
fn a_consumer_that_goes_while_its_backlog_comes_back_leaves_the_order_of_others_alone() {
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    let mut shelf = Shelf::default();
    let [leaver, sleeper] = [(); 2].map(|()| rig.consumer(SettingsPatch::default()));
    rig.suspended(leaver, true);
    rig.suspended(sleeper, true);
    shelf.publish_released(&mut rig, 500);
    rig.suspended(leaver, false);
    while shelf.requests.is_empty() {
        assert_eq!(rig.take(Some(sleeper)).map(|(key, _)| key), Some(leaver));
        shelf.look(&mut rig.lane);
    }
    let mut events = Vec::new();
    let delivery = rig.lane.poll_delivery(rig.now, &mut events).unwrap();
    events.drain(..).for_each(|event| rig.lane.release(event));
    rig.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Gone, rig.now);
    shelf.work_until_quiet(&mut rig);
    let over = rig.notices().into_iter().filter(|notice| matches!(notice, Notice::OverflowOver { .. })).count();
    assert_eq!(over, 0, "nothing of it came back");
    rig.suspended(sleeper, false);
    let mut got = Vec::new();
    for number in 500.. {
        // The channel has hardly anything in memory when one of these comes.
        rig.publish_number(number);
        got.extend(rig.take(None).map(|(_, number)| number));
        got.extend(rig.take(None).map(|(_, number)| number));
        shelf.work_until_quiet(&mut rig);
        if got.len() == number as usize + 1 {
            break;
        }
    }
    assert!(got.iter().copied().eq(0..u32::try_from(got.len()).unwrap()), "{got:?}");
}

/// It came back when something else came for the consumer, and not before.
#[test]
fn what_is_elsewhere_comes_back_also_where_all_that_stood_before_it_was_dropped() {
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    let mut shelf = Shelf::default();
    let (sleeper, other) = (rig.consumer(full(FullOutbox::Discard)), rig.consumer(SettingsPatch::default()));
    for (key, name) in [(sleeper, "name"), (other, "other")] {
        let types = [EventType::new("domain", name)];
        rig.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &types, &[EventType::everything()]).unwrap();
    }
    rig.suspended(sleeper, true);
    for number in 0..100 {
        rig.publish_number(number);
        shelf.work_until_quiet(&mut rig);
    }
    let stats = rig.stats(sleeper);
    let in_memory = stats.backlog_events - stats.elsewhere_events;
    assert!(in_memory > 0 && stats.elsewhere_events > 0);
    // There is no room in memory for one of the other's.
    rig.hierarchy.set_limits(rig.channel, ChannelLimits { overflow_budget_bytes: 1 << 20, ..budget(1_000) }).unwrap();
    rig.route();
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.resize(500, 0);
    rig.lane.classify(&mut pending_event, b"domain", b"other");
    assert_eq!(
        rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now),
        Admission::Accepted { destinations: 1 }
    );
    assert_eq!(rig.stats(sleeper).discards.of(DiscardReason::MemorySpent), in_memory);
    assert_eq!(rig.take(None), Some((other, 0)));
    rig.suspended(sleeper, false);
    for number in u32::try_from(in_memory).unwrap()..100 {
        shelf.work_until_quiet(&mut rig);
        assert_eq!(rig.take(None), Some((sleeper, number)));
    }
}

/// They waited for ever, if nothing was left in memory by then.
#[test]
fn suppliers_go_on_when_what_made_the_queue_too_long_has_been_read_elsewhere() {
    let mut rig = Rig::overflowing(20_000, 1 << 20);
    let limits =
        ChannelLimits { max_queue_length: NonZeroU32::new(30), overflow_budget_bytes: 1 << 20, ..budget(20_000) };
    rig.hierarchy.set_limits(rig.channel, limits).unwrap();
    let consumer = rig.sleeper(SettingsPatch::default());
    while rig.stats(consumer).elsewhere_events == 0 {
        rig.publish_number(0);
    }
    // It has taken what was in memory. The rest is being written.
    rig.suspended(consumer, false);
    while rig.take(None).is_some() {}
    let ticket = (0..100).find_map(|_| match rig.publish_number(0) {
        Admission::Withheld(ticket) => Some(ticket),
        _ => None,
    });
    let (mut stored, mut requests) = (Vec::new(), None);
    while let Some(errand) = rig.lane.poll_overflow() {
        match errand {
            Overflow::Keep { event, .. } => stored.push(event),
            Overflow::Fetch { outbox, .. } => requests = Some(outbox),
            _ => {}
        }
    }
    let (events, outbox) = (stored.len() as u64, requests.unwrap());
    for event in stored {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.extend_from_slice(&event.bytes);
        rig.lane.classify(&mut pending_event, b"domain", b"name");
        rig.lane.return_event((outbox, 0), (event.source, None), pending_event, &NoFields, rig.now);
        rig.lane.release(event);
        assert_eq!(rig.take(None), Some((consumer, 0)));
    }
    rig.lane.end_return(outbox, 0, rig.now);
    assert_eq!((rig.memory(), rig.lane.poll_release()), (0, Some(ticket.unwrap())));
    rig.lane.note_freed(rig.channel, events, 0, rig.now);
    assert_eq!(rig.lane.poll_release(), None);
}

#[test]
fn whatever_consumers_do_each_gets_what_it_should_in_order() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig =
            Rig::overflowing([3_000, 10_000, 40_000][random.usize(..3)], [20_000, 1 << 20][random.usize(..2)]);
        let mut shelf = Shelf::default();
        let consumers: Vec<ProxyKey> = (0..4)
            .map(|_| {
                let push_window = Some([1, 1, 8][random.usize(..3)]);
                rig.consumer(SettingsPatch {
                    push_window,
                    hold_timeout: Some(Duration::ZERO),
                    ..SettingsPatch::default()
                })
            })
            .collect();
        let mut got: BTreeMap<ProxyKey, Vec<u32>> = BTreeMap::new();
        let mut gone: BTreeSet<ProxyKey> = BTreeSet::new();
        let (mut published, mut withheld, mut unanswered) = (0, 0_u32, VecDeque::new());
        for _ in 0..3_000 {
            match random.u32(..12) {
                0..5 if withheld == 0 => match rig.publish_number(published) {
                    Admission::Accepted { destinations } if destinations as usize == 4 - gone.len() => published += 1,
                    Admission::Withheld(_) => (published, withheld) = (published + 1, withheld + 1),
                    other => panic!("{other:?}"),
                },
                // Some go: they are disconnected, or found to be no more.
                5 if gone.len() < 3 && random.u32(..30) == 0 => {
                    let leaver = consumers[random.usize(..4)];
                    if leaves(&mut rig, leaver, &unanswered, random.bool()) {
                        gone.insert(leaver);
                    }
                }
                5 => rig.suspended(consumers[random.usize(..4)], random.bool()),
                6 => rig.advance(Duration::from_millis(random.u64(..100))),
                7 | 8 => shelf.work(&mut rig.lane, rig.now),
                9 => unanswered.extend(begin(&mut rig)),
                _ => answer(&mut rig, &mut unanswered, &mut got, random.u32(..6) == 0),
            }
            shelf.look(&mut rig.lane);
            withheld -= u32::from(rig.lane.poll_release().is_some());
        }
        consumers.iter().for_each(|key| rig.suspended(*key, false));
        let lacks = |got: &BTreeMap<ProxyKey, Vec<u32>>| {
            let mut there = consumers.iter().filter(|key| !gone.contains(*key));
            there.any(|key| got.get(key).map_or(0, Vec::len) < published as usize)
        };
        while lacks(&got) {
            let before = (rig.lane.counters().deliveries.delivered, rig.lane.counters().overflow.brought_back);
            rig.advance(Duration::from_secs(6));
            unanswered.extend(core::iter::from_fn(|| begin(&mut rig)));
            while !unanswered.is_empty() {
                answer(&mut rig, &mut unanswered, &mut got, false);
            }
            shelf.work_until_quiet(&mut rig);
            let after = (rig.lane.counters().deliveries.delivered, rig.lane.counters().overflow.brought_back);
            assert!(before != after, "seed {seed}: nothing goes on any more");
        }
        for (key, numbers) in got {
            let all = if gone.contains(&key) { u32::try_from(numbers.len()).unwrap() } else { published };
            assert!(numbers.iter().copied().eq(0..all), "seed {seed}: {key}: {numbers:?}");
        }
        assert_eq!(rig.memory(), 0, "seed {seed}");
        assert!(shelf.stored.is_empty() && shelf.read.is_empty(), "seed {seed}");
    }
}

/// Begins the next delivery.
fn begin(rig: &mut Rig) -> Option<(Delivery, u32)> {
    let mut events = Vec::new();
    let delivery = rig.lane.poll_delivery(rig.now, &mut events)?;
    let number = u32::from_le_bytes(events[0].bytes[..4].try_into().unwrap());
    events.into_iter().for_each(|event| rig.lane.release(event));
    Some((delivery, number))
}

/// A consumer is found to be no more, if it has something to answer, or is disconnected. Says whether it is gone.
fn leaves(rig: &mut Rig, leaver: ProxyKey, unanswered: &VecDeque<(Delivery, u32)>, is_found: bool) -> bool {
    let delivery = unanswered.iter().map(|(delivery, _)| delivery).rfind(|delivery| delivery.key == leaver);
    match delivery.filter(|_| is_found) {
        Some(delivery) => rig.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Gone, rig.now),
        None => {
            let _ = rig.hierarchy.disconnect(leaver);
            rig.route();
        }
    }
    rig.lane.outboxes().all(|stats| stats.key != leaver || stats.state == OutboxState::Disconnected)
}

fn answer(
    rig: &mut Rig,
    unanswered: &mut VecDeque<(Delivery, u32)>,
    got: &mut BTreeMap<ProxyKey, Vec<u32>>,
    fails: bool,
) {
    let Some((delivery, number)) = unanswered.pop_front() else { return };
    let before = rig.lane.counters().deliveries.stale_outcomes;
    let outcome = if fails { Outcome::Refused } else { Outcome::Delivered };
    rig.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, rig.now);
    if !fails && rig.lane.counters().deliveries.stale_outcomes == before {
        got.entry(delivery.key).or_default().push(number);
    }
}

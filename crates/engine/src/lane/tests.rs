//! The lane's behaviour, one sentence a test. (Every combination of settings under random operations is compared with a
//! naive model in the crate `sim`.)

use super::*;
use crate::*;
use alloc::format;
use alloc::vec;
use core::num::NonZeroU32;
use core::time::Duration;

mod drops;
mod filters;
mod handover;
mod turns;
mod waiting;

/// What an event of `bytes` bytes to one consumer is charged.
fn charge(bytes: u64) -> u64 {
    bytes + EVENT_OVERHEAD_BYTES + HOLDER_OVERHEAD_BYTES
}

fn max_events(events: u32) -> SettingsPatch {
    SettingsPatch { max_events_per_consumer: Some(NonZeroU32::new(events)), ..SettingsPatch::default() }
}

fn full(policy: FullOutbox) -> SettingsPatch {
    SettingsPatch { full_outbox: Some(policy), ..SettingsPatch::default() }
}

fn budget(bytes: u64) -> ChannelLimits {
    ChannelLimits { memory_budget_bytes: bytes, ..ChannelLimits::default() }
}

/// One channel with one supplier, and a clock.
struct Rig {
    hierarchy: Hierarchy,
    lane: Lane,
    channel: ChannelId,
    source: ProxyKey,
    now: Time,
}

impl Rig {
    fn new(patch: SettingsPatch, limits: ChannelLimits) -> Self {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(patch, limits).unwrap();
        let proxy =
            hierarchy.create_proxy(channel, Side::Suppliers, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
        let source = ProxyKey { channel, proxy };
        hierarchy.connect(source, None, Want(0)).unwrap();
        let now = Time(1_000_000_000);
        let mut rig = Self { hierarchy, lane: Lane::new(now), channel, source, now };
        rig.route();
        rig
    }

    fn plain() -> Self {
        Self::new(SettingsPatch::default(), ChannelLimits::default())
    }

    fn consumer(&mut self, patch: SettingsPatch) -> ProxyKey {
        let proxy = self
            .hierarchy
            .create_proxy(self.channel, Side::Consumers, AdminId::DEFAULT, Form(1), ProxyKind::default())
            .unwrap();
        let key = ProxyKey { channel: self.channel, proxy };
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), Want(0)).unwrap();
        self.hierarchy.set_proxy_settings(key, patch).unwrap();
        self.route();
        key
    }

    fn route(&mut self) {
        let snapshot = self.hierarchy.snapshot();
        self.lane.handle_snapshot(snapshot, self.now);
    }

    fn publish_bytes(&mut self, bytes: &[u8]) -> Admission {
        let mut draft = self.lane.begin_event();
        draft.bytes.extend_from_slice(bytes);
        self.lane.classify(&mut draft, b"domain", b"name");
        self.lane.handle_event(self.source, draft, &NoFields, self.now)
    }

    fn publish(&mut self, number: u8) -> Admission {
        self.publish_bytes(&[number])
    }

    /// The next delivery's consumer and first byte; the delivery stays unanswered.
    fn poll(&mut self) -> Option<(ProxyKey, u8, OutboxId, u32)> {
        let mut events = Vec::new();
        let delivery = self.lane.poll_delivery(self.now, &mut events)?;
        let got = (delivery.key, events[0].bytes[0], delivery.outbox, delivery.serial);
        events.into_iter().for_each(|event| self.lane.release(event));
        Some(got)
    }

    /// Answers the next delivery; says its first byte.
    fn answer(&mut self, outcome: Outcome) -> Option<u8> {
        let (_, number, outbox, serial) = self.poll()?;
        self.lane.handle_outcome(outbox, serial, outcome, self.now);
        Some(number)
    }

    /// Delivers all there is; says the first bytes.
    fn drain(&mut self) -> Vec<u8> {
        core::iter::from_fn(|| self.answer(Outcome::Delivered)).collect()
    }

    fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        self.lane.handle_timeout(self.now);
    }

    fn notices(&mut self) -> Vec<Notice> {
        core::iter::from_fn(|| self.lane.poll_notice()).collect()
    }

    fn memory(&self) -> u64 {
        self.lane.channels().next().unwrap().memory_bytes
    }

    fn stats(&self, key: ProxyKey) -> OutboxStats {
        self.lane.outboxes().find(|stats| stats.key == key).unwrap()
    }
}

#[test]
fn a_lane_can_move_to_its_thread_and_a_snapshot_be_shared_between_threads() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Lane>();
    moves::<Hierarchy>();
    is_shared::<Snapshot>();
    is_shared::<Event>();
}

// ---- routing ----

#[test]
fn delivers_to_every_consumer_in_their_order() {
    let mut rig = Rig::plain();
    let keys: Vec<ProxyKey> = (0..3).map(|_| rig.consumer(SettingsPatch::default())).collect();
    assert_eq!(rig.publish(7), Admission::Accepted { destinations: 3 });
    let got: Vec<ProxyKey> = core::iter::from_fn(|| rig.poll().map(|(key, ..)| key)).collect();
    assert_eq!(got, keys);
}

#[test]
fn refuses_events_of_suppliers_that_are_not_there_or_not_connected() {
    let mut rig = Rig::plain();
    let stranger = ProxyKey { channel: rig.channel, proxy: ProxyId(99) };
    let nowhere = ProxyKey { channel: ChannelId(9), proxy: ProxyId(0) };
    rig.hierarchy.disconnect(rig.source).unwrap();
    rig.route();
    let source = rig.source;
    for (key, refusal) in [
        (stranger, Refusal::ProxyNotFound { proxy: stranger }),
        (nowhere, Refusal::ChannelNotFound { channel: ChannelId(9) }),
        (source, Refusal::NotConnected { proxy: source }),
    ] {
        let draft = rig.lane.begin_event();
        assert_eq!(rig.lane.handle_event(key, draft, &NoFields, rig.now), Admission::Refused(refusal));
    }
    assert_eq!(rig.lane.counters().events_refused, 3);
}

#[test]
fn an_event_goes_only_to_those_who_want_its_type() {
    let mut rig = Rig::plain();
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    let wanted = [EventType::new("domain", "other")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(a), &wanted, &[EventType::everything()]).unwrap();
    rig.route();
    assert_eq!(rig.publish(1), Admission::Accepted { destinations: 1 });
    assert_eq!(rig.poll().unwrap().0, b);
    assert!(rig.poll().is_none());
}

#[test]
fn an_event_that_nobody_wants_takes_no_memory() {
    let mut rig = Rig::plain();
    assert_eq!(rig.publish(1), Admission::Accepted { destinations: 0 });
    assert_eq!((rig.memory(), rig.lane.counters().events_unwanted), (0, 1));
}

#[test]
fn types_beyond_the_table_are_still_matched_by_name() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    let wanted = [EventType::new("d", "late"), EventType::new("d", "1*")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &wanted, &[EventType::everything()]).unwrap();
    rig.route();
    for number in 0..65_536 {
        rig.lane.intern(b"d", format!("{number}").as_bytes());
    }
    for (name, destinations) in [("late", 1), ("later", 0), ("1x", 1), ("late", 1), ("2", 0)] {
        let mut draft = rig.lane.begin_event();
        rig.lane.classify(&mut draft, b"d", name.as_bytes());
        let admission = rig.lane.handle_event(rig.source, draft, &NoFields, rig.now);
        assert_eq!(admission, Admission::Accepted { destinations }, "{name}");
    }
    assert_eq!(rig.lane.counters().types_not_interned, 4);
}

// ---- order, windows, failures ----

#[test]
fn a_window_of_one_waits_for_the_answer() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    for number in 0..3 {
        rig.publish(number);
    }
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
    for number in 0..3 {
        rig.publish(number);
    }
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
    for number in 0..5 {
        rig.publish(number);
    }
    let handed: Vec<_> = core::iter::from_fn(|| rig.poll()).collect();
    assert_eq!(handed.iter().map(|handed| handed.1).collect::<Vec<_>>(), [0, 1, 2]);
    rig.lane.handle_outcome(handed[1].2, handed[1].3, Outcome::Delivered, rig.now);
    rig.lane.handle_outcome(handed[0].2, handed[0].3, Outcome::Unreachable, rig.now);
    // The answer to the third comes although it was put back: too late, it will be delivered again.
    rig.lane.handle_outcome(handed[2].2, handed[2].3, Outcome::Delivered, rig.now);
    assert_eq!(rig.lane.counters().stale_outcomes, 1);
    assert!(rig.poll().is_none(), "waits before it tries again");
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.drain(), [0, 2, 3, 4]);
}

#[test]
fn while_deliveries_fail_one_at_a_time_finds_out() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch { push_window: Some(3), ..SettingsPatch::default() });
    for number in 0..5 {
        rig.publish(number);
    }
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.lane.handle_outcome(outbox, serial, Outcome::Unreachable, rig.now);
    rig.advance(Duration::from_millis(50));
    assert_eq!(rig.answer(Outcome::Delivered), Some(0));
    assert_eq!(core::iter::from_fn(|| rig.poll()).count(), 3);
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
fn a_consumer_that_fails_too_long_is_given_up_and_told_once() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.publish(2);
    let mut failures = 0;
    while rig.answer(Outcome::Unreachable).is_some() {
        failures += 1;
        rig.advance(Duration::from_secs(5));
    }
    let failing_for = Duration::from_secs(60);
    assert_eq!(failures, 13);
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
fn a_recovery_is_told_once() {
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
    for number in 0..3 {
        rig.publish(number);
    }
    assert_eq!(rig.answer(Outcome::Sent), Some(0));
    assert_eq!(rig.answer(Outcome::NoRoom), Some(1));
    assert!(rig.poll().is_none());
    assert_eq!(rig.stats(key).state, OutboxState::NoRoom);
    let outbox = rig.stats(key).outbox;
    rig.lane.resume_outbox(outbox, rig.now);
    assert_eq!(rig.drain(), [1, 2]);
    assert_eq!(rig.lane.counters().failures, 0);
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
    for number in 0..3 {
        rig.publish(number);
    }
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
    assert_eq!((counters.stale_outcomes, counters.unknown_outboxes), (2, 4));
}

#[test]
fn serials_may_wrap_around() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch { push_window: Some(8), ..SettingsPatch::default() });
    let slot = rig.stats(key).outbox.slot;
    rig.lane.outboxes.get_mut(slot).unwrap().start_serials_at(u32::MAX - 2);
    for number in 0..6 {
        rig.publish(number);
    }
    let handed: Vec<_> = core::iter::from_fn(|| rig.poll()).collect();
    for (_, _, outbox, serial) in handed.into_iter().rev() {
        rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    }
    assert_eq!((rig.stats(key).delivered, rig.lane.counters().stale_outcomes), (6, 0));
}

// ---- new routing ----

#[test]
fn a_suspended_consumer_keeps_its_events() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.hierarchy.suspend(key).unwrap();
    rig.route();
    rig.publish(1);
    assert!(rig.poll().is_none());
    assert_eq!(rig.stats(key).state, OutboxState::Suspended);
    rig.hierarchy.resume(key).unwrap();
    rig.route();
    assert_eq!(rig.drain(), [1]);
}

#[test]
fn a_destroyed_consumers_backlog_is_counted_and_its_memory_comes_back() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    for number in 0..4 {
        rig.publish(number);
    }
    rig.poll();
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Removed), 4);
    assert_eq!(rig.lane.next_timeout(), Some(rig.now), "there is something left to do");
    rig.advance(Duration::ZERO);
    assert_eq!((rig.memory(), rig.lane.next_timeout().filter(|time| *time <= rig.now)), (0, None));
}

#[test]
fn a_large_backlog_is_let_go_of_a_little_at_a_time() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    for _ in 0..1_000 {
        rig.publish(0);
    }
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    let mut turns = 0;
    while rig.lane.next_timeout() == Some(rig.now) {
        rig.advance(Duration::ZERO);
        turns += 1;
    }
    assert_eq!((turns, rig.memory()), (4, 0));
}

#[test]
fn a_snapshot_from_before_a_disconnection_does_not_bring_the_consumer_back() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.answer(Outcome::Gone);
    // Something else changes before administration hears of it.
    rig.consumer(SettingsPatch::default());
    assert_eq!(rig.publish(2), Admission::Accepted { destinations: 1 });
    // It hears of it, and the client connects anew.
    rig.hierarchy.disconnect(key).unwrap();
    rig.hierarchy.connect(key, Some(Peer(50)), Want(0)).unwrap();
    rig.route();
    assert_eq!(rig.publish(3), Admission::Accepted { destinations: 2 });
}

#[test]
fn a_consumer_connected_anew_does_not_get_the_old_ones_backlog() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(1);
    rig.hierarchy.disconnect(key).unwrap();
    rig.hierarchy.connect(key, Some(Peer(50)), Want(0)).unwrap();
    rig.route();
    rig.publish(2);
    assert_eq!(rig.drain(), [2]);
}

#[test]
fn a_channel_that_did_not_change_is_left_alone() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let misses = rig.lane.counters().route_misses;
    rig.hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    rig.route();
    rig.publish(2);
    assert_eq!(rig.lane.counters().route_misses, misses);
    assert_eq!(rig.drain(), [1, 2]);
}

#[test]
fn a_destroyed_channel_lets_its_suppliers_go() {
    let mut rig = Rig::new(full(FullOutbox::Hold), budget(charge(1)));
    rig.consumer(SettingsPatch::default());
    rig.publish(1);
    let Admission::Held(ticket) = rig.publish(2) else { panic!("no room") };
    rig.hierarchy.destroy_channel(rig.channel).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(rig.lane.channels().count(), 0);
    rig.advance(Duration::ZERO);
    assert_eq!(rig.lane.next_timeout(), None);
}

// ---- the outbox's bound ----

#[test]
fn at_its_bound_an_outbox_drops_the_oldest_by_default() {
    let mut rig = Rig::plain();
    let key = rig.consumer(max_events(2));
    for number in 0..5 {
        rig.publish(number);
    }
    assert_eq!(rig.notices().len(), 1);
    assert_eq!(rig.drain(), [3, 4]);
    assert_eq!(rig.stats(key).discards.of(DiscardReason::OutboxFull), 3);
    assert_eq!(rig.notices(), [Notice::OutboxRecovered { key, dropped: 3 }]);
}

#[test]
fn under_lifo_the_event_that_just_arrived_is_dropped() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch { discard_policy: Some(DiscardPolicy::Lifo), ..max_events(2) });
    rig.publish(0);
    rig.publish(1);
    assert_eq!(rig.publish(2), Admission::Accepted { destinations: 0 });
    assert_eq!(rig.drain(), [0, 1]);
    assert_eq!(rig.memory(), 0);
}

#[test]
fn an_event_in_flight_does_not_count_towards_the_bound() {
    let mut rig = Rig::plain();
    rig.consumer(max_events(1));
    rig.publish(0);
    let (_, _, outbox, serial) = rig.poll().unwrap();
    rig.publish(1);
    rig.publish(2);
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.drain(), [2]);
}

#[test]
fn under_reject_no_outbox_takes_the_event() {
    let mut rig = Rig::plain();
    let other = rig.consumer(SettingsPatch::default());
    let key = rig.consumer(SettingsPatch { full_outbox: Some(FullOutbox::Reject), ..max_events(1) });
    rig.publish(0);
    let refusal = Refusal::OutboxFull { proxy: key, capacity_events: 1 };
    assert_eq!(rig.publish(1), Admission::Refused(refusal));
    assert_eq!((rig.stats(other).backlog_events, rig.lane.counters().events_refused), (1, 1));
}

#[test]
fn under_hold_nothing_is_dropped_and_the_supplier_waits() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch { full_outbox: Some(FullOutbox::Hold), ..max_events(2) });
    rig.publish(0);
    rig.publish(1);
    let Admission::Held(first) = rig.publish(2) else { panic!("full") };
    let Admission::Held(second) = rig.publish(3) else { panic!("full") };
    assert_eq!(rig.lane.channels().next().unwrap().held, 2);
    rig.answer(Outcome::Delivered);
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.lane.poll_release(), None);
    rig.answer(Outcome::Delivered);
    assert_eq!(
        [rig.lane.poll_release(), rig.lane.poll_release(), rig.lane.poll_release()],
        [Some(first), Some(second), None]
    );
    assert_eq!(rig.drain(), [3]);
    assert_eq!(rig.lane.channels().next().unwrap().held, 0);
}

#[test]
fn under_disconnect_the_full_consumer_goes() {
    let mut rig = Rig::plain();
    let key = rig.consumer(SettingsPatch { full_outbox: Some(FullOutbox::Disconnect), ..max_events(1) });
    let other = rig.consumer(SettingsPatch::default());
    rig.publish(0);
    assert_eq!(rig.publish(1), Admission::Accepted { destinations: 1 });
    let notices = rig.notices();
    let [Notice::ConsumerDisconnected { key: gone, reason, .. }] = notices[..] else { panic!("{notices:?}") };
    assert_eq!((gone, reason), (key, DisconnectReason::OutboxFull));
    assert_eq!(rig.drain(), [0, 1]);
    assert_eq!(rig.stats(other).delivered, 2);
}

// ---- the channel's limits ----

#[test]
fn the_budget_counts_an_event_once_until_its_last_holder_lets_go() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    rig.consumer(SettingsPatch::default());
    rig.publish_bytes(&[0; 1_000]);
    let once = 1_000 + EVENT_OVERHEAD_BYTES + 2 * HOLDER_OVERHEAD_BYTES;
    assert_eq!(rig.memory(), once);
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.memory(), once);
    let mut events = Vec::new();
    let last = rig.lane.poll_delivery(rig.now, &mut events).unwrap();
    rig.lane.handle_outcome(last.outbox, last.serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.memory(), once, "the door still has it");
    rig.lane.release(events.remove(0));
    assert_eq!(rig.memory(), 0);
}

#[test]
fn by_default_suppliers_are_held_at_the_budget_and_nothing_is_dropped() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(8 * charge(1)));
    let key = rig.consumer(SettingsPatch::default());
    for number in 0..8 {
        assert_eq!(rig.publish(number), Admission::Accepted { destinations: 1 });
    }
    let Admission::Held(ticket) = rig.publish(8) else { panic!("no room") };
    assert_eq!(rig.notices()[0], Notice::SuppliersHeld { channel: rig.channel, by: Some(HeldBy::Consumer(key)) });
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.lane.poll_release(), None, "at the budget is not below it");
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(rig.drain(), [2, 3, 4, 5, 6, 7, 8]);
    let released = Notice::SuppliersReleased { channel: rig.channel, by: Some(HeldBy::Consumer(key)), held_events: 1 };
    assert_eq!(rig.notices(), [released, Notice::OutboxRecovered { key, dropped: 0 }]);
}

#[test]
fn suppliers_that_go_on_while_held_are_refused_at_twice_the_budget() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(4 * charge(1)));
    rig.consumer(SettingsPatch::default());
    let admissions: Vec<Admission> = (0..9).map(|number| rig.publish(number)).collect();
    assert!(admissions[..4].iter().all(|admission| matches!(admission, Admission::Accepted { .. })));
    assert!(admissions[4..8].iter().all(|admission| matches!(admission, Admission::Held(_))));
    assert!(matches!(admissions[8], Admission::Refused(Refusal::MemorySpent { .. })));
    assert_eq!(rig.drain(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn an_event_larger_than_the_whole_budget_is_refused() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(charge(10)));
    rig.consumer(SettingsPatch::default());
    let refusal = Refusal::EventTooLarge { charged_bytes: charge(11), budget_bytes: charge(10) };
    assert_eq!(rig.publish_bytes(&[0; 11]), Admission::Refused(refusal));
    assert_eq!(rig.publish_bytes(&[0; 10]), Admission::Accepted { destinations: 1 });
}

#[test]
fn at_the_budget_the_laggards_own_backlog_goes_under_discard() {
    let shared = 1 + EVENT_OVERHEAD_BYTES + 2 * HOLDER_OVERHEAD_BYTES;
    let mut rig = Rig::new(full(FullOutbox::Discard), budget(4 * shared));
    let slow = rig.consumer(SettingsPatch::default());
    let quick = rig.consumer(SettingsPatch::default());
    for number in 0..6 {
        rig.publish(number);
        // The slow one's delivery stays unanswered; the quick one answers.
        while let Some((key, _, outbox, serial)) = rig.poll() {
            if key == quick {
                rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
            }
        }
    }
    assert_eq!(rig.stats(quick).delivered, 6);
    assert_eq!(rig.stats(slow).discards.of(DiscardReason::MemorySpent), 2);
    assert_eq!(rig.stats(quick).discards.total(), 0);
    assert!(rig.memory() <= 4 * shared);
    // The first is in flight; of those that waited the oldest went.
    let outbox = rig.stats(slow).outbox;
    rig.lane.handle_outcome(outbox, 0, Outcome::Delivered, rig.now);
    assert_eq!(rig.drain(), [3, 4, 5]);
}

#[test]
fn consumers_with_the_same_backlog_give_up_the_same_events() {
    let shared = 1 + EVENT_OVERHEAD_BYTES + 2 * HOLDER_OVERHEAD_BYTES;
    let mut rig = Rig::new(full(FullOutbox::Discard), budget(4 * shared));
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    for number in 0..6 {
        assert_eq!(rig.publish(number), Admission::Accepted { destinations: 2 });
    }
    assert_eq!((rig.stats(a).discards.total(), rig.stats(b).discards.total()), (2, 2));
    assert_eq!(rig.drain(), [2, 2, 3, 3, 4, 4, 5, 5]);
}

#[test]
fn the_laggard_is_the_one_with_the_most_bytes_not_the_most_events() {
    let mut rig = Rig::new(full(FullOutbox::Disconnect), budget(20_000));
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    let large = [EventType::new("d", "large")];
    let small = [EventType::new("d", "small")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(a), &small, &[EventType::everything()]).unwrap();
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(b), &large, &[EventType::everything()]).unwrap();
    rig.route();
    let mut publish = |name: &str, bytes: usize| {
        let mut draft = rig.lane.begin_event_for(bytes);
        draft.bytes.resize(bytes, 0);
        rig.lane.classify(&mut draft, b"d", name.as_bytes());
        rig.lane.handle_event(rig.source, draft, &NoFields, rig.now)
    };
    publish("large", 15_000);
    for _ in 0..20 {
        assert!(matches!(publish("small", 10), Admission::Accepted { .. }));
    }
    let notices = rig.notices();
    assert!(
        matches!(notices[..], [Notice::ConsumerDisconnected { key, reason: DisconnectReason::MemorySpent, .. }] if key == b)
    );
}

#[test]
fn at_the_budget_the_event_is_refused_under_reject_and_told_once() {
    let mut rig = Rig::new(full(FullOutbox::Reject), budget(2 * charge(1)));
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(0);
    rig.publish(1);
    for number in 2..5 {
        let budget_bytes = 2 * charge(1);
        let refusal = Refusal::MemorySpent { channel: rig.channel, budget_bytes };
        assert_eq!(rig.publish(number), Admission::Refused(refusal));
    }
    let notices = rig.notices();
    assert!(matches!(notices[..], [Notice::OutboxFull { key: full, policy: FullOutbox::Reject, .. }] if full == key));
    assert_eq!(rig.drain(), [0, 1]);
    assert_eq!(rig.notices(), [Notice::OutboxRecovered { key, dropped: 0 }]);
}

#[test]
fn suppliers_are_let_go_when_the_laggard_is_destroyed() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(2 * charge(1)));
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(0);
    rig.publish(1);
    let Admission::Held(ticket) = rig.publish(2) else { panic!("no room") };
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn suppliers_are_let_go_when_the_laggard_may_be_discarded_after_all() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(2 * charge(1)));
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(0);
    rig.publish(1);
    let Admission::Held(ticket) = rig.publish(2) else { panic!("no room") };
    rig.hierarchy.set_proxy_settings(key, full(FullOutbox::Discard)).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    rig.publish(3);
    assert_eq!(rig.drain(), [2, 3]);
}

#[test]
fn a_larger_budget_lets_suppliers_go() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(charge(1)));
    rig.consumer(SettingsPatch::default());
    rig.publish(0);
    let Admission::Held(ticket) = rig.publish(1) else { panic!("no room") };
    rig.hierarchy.set_limits(rig.channel, budget(100_000)).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn at_max_queue_length_the_laggards_oldest_goes_or_the_event_is_refused() {
    for reject in [false, true] {
        let limits = ChannelLimits {
            max_queue_length: NonZeroU32::new(3),
            reject_new_events: reject,
            ..ChannelLimits::default()
        };
        let mut rig = Rig::new(SettingsPatch::default(), limits);
        let key = rig.consumer(SettingsPatch::default());
        for number in 0..3 {
            rig.publish(number);
        }
        let admission = rig.publish(3);
        if reject {
            let refusal = Refusal::QueueFull { channel: rig.channel, capacity_events: 3 };
            assert_eq!(admission, Admission::Refused(refusal));
            assert_eq!(rig.drain(), [0, 1, 2]);
        } else {
            assert_eq!(admission, Admission::Accepted { destinations: 1 });
            assert_eq!(rig.stats(key).discards.of(DiscardReason::QueueFull), 1);
            assert_eq!(rig.drain(), [1, 2, 3]);
        }
    }
}

#[test]
fn a_small_event_in_a_large_buffer_does_not_escape_the_budget() {
    let mut rig = Rig::plain();
    rig.consumer(SettingsPatch::default());
    let mut draft = rig.lane.begin_event();
    draft.bytes.resize(1 << 20, 0);
    rig.lane.classify(&mut draft, b"domain", b"name");
    rig.lane.handle_event(rig.source, draft, &NoFields, rig.now);
    rig.drain();
    rig.publish(1);
    let mut events = Vec::new();
    rig.lane.poll_delivery(rig.now, &mut events).unwrap();
    assert!(events[0].bytes.capacity() < 1_024);
    assert_eq!(vec![1], events[0].bytes);
}

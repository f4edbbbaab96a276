//! What happens when an outbox is full, or its channel.

use super::*;

#[test]
fn at_its_bound_an_outbox_drops_the_oldest_by_default() {
    let mut rig = Rig::plain();
    let key = rig.consumer(max_events(2));
    rig.publish_all(0..5);
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
    let mut rig = Rig::new(granted(), ChannelLimits::default());
    let other = rig.consumer(SettingsPatch::default());
    let key = rig.consumer(SettingsPatch { full_outbox: Some(FullOutbox::Reject), ..max_events(1) });
    rig.publish(0);
    let refusal = Refusal::OutboxFull { proxy: key, capacity_events: 1 };
    assert_eq!(rig.publish(1), Admission::Refused(refusal));
    assert_eq!((rig.stats(other).backlog_events, rig.lane.counters().taken.refused), (1, 1));
}

#[test]
fn under_hold_nothing_is_dropped_and_the_supplier_waits() {
    let mut rig = Rig::new(granted(), ChannelLimits::default());
    rig.consumer(SettingsPatch { full_outbox: Some(FullOutbox::Hold), ..max_events(2) });
    rig.publish(0);
    rig.publish(1);
    let Admission::Withheld(first) = rig.publish(2) else { panic!("full") };
    let Admission::Withheld(second) = rig.publish(3) else { panic!("full") };
    assert_eq!(rig.lane.channels().next().unwrap().withheld, 2);
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.lane.poll_release(), None);
    // One after the other, as events leave.
    for ticket in [first, second] {
        rig.answer(Outcome::Delivered);
        assert_eq!([rig.lane.poll_release(), rig.lane.poll_release()], [Some(ticket), None]);
    }
    assert_eq!(rig.drain(), [3]);
    assert_eq!(rig.lane.channels().next().unwrap().withheld, 0);
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
    assert_eq!(rig.memory(), once, "the protocol still has it");
    rig.lane.release(events.remove(0));
    assert_eq!(rig.memory(), 0);
}

#[test]
fn by_default_suppliers_are_blocked_at_the_budget_and_nothing_is_dropped() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(8 * charge(1)));
    let key = rig.consumer(SettingsPatch::default());
    for number in 0..8 {
        assert_eq!(rig.publish(number), Admission::Accepted { destinations: 1 });
    }
    let Admission::Withheld(ticket) = rig.publish(8) else { panic!("no room") };
    assert_eq!(rig.notices()[0], Notice::SuppliersBlocked { channel: rig.channel, by: Some(BlockedBy::Consumer(key)) });
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.lane.poll_release(), None, "at the budget is not below it");
    rig.answer(Outcome::Delivered);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(rig.drain(), [2, 3, 4, 5, 6, 7, 8]);
    let released =
        Notice::SuppliersReleased { channel: rig.channel, by: Some(BlockedBy::Consumer(key)), blocked_events: 1 };
    assert_eq!(rig.notices(), [released, Notice::OutboxRecovered { key, dropped: 0 }]);
}

#[test]
fn suppliers_that_go_on_while_blocked_are_refused_at_twice_the_budget() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(4 * charge(1)));
    rig.consumer(SettingsPatch::default());
    let admissions: Vec<Admission> = (0..9).map(|number| rig.publish(number)).collect();
    assert!(admissions[..4].iter().all(|admission| matches!(admission, Admission::Accepted { .. })));
    assert!(admissions[4..8].iter().all(|admission| matches!(admission, Admission::Withheld(_))));
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
fn at_the_budget_the_slow_consumers_own_backlog_goes_under_discard() {
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
fn the_slow_consumer_is_the_one_with_the_most_bytes_not_the_most_events() {
    let mut rig = Rig::new(full(FullOutbox::Disconnect), budget(20_000));
    let (a, b) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    let large = [EventType::new("d", "large")];
    let small = [EventType::new("d", "small")];
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(a), &small, &[EventType::everything()]).unwrap();
    rig.hierarchy.subscribe(SubscriptionTarget::Proxy(b), &large, &[EventType::everything()]).unwrap();
    rig.route();
    let mut publish = |name: &str, bytes: usize| {
        let mut pending_event = rig.lane.begin_event_for(bytes);
        pending_event.bytes.resize(bytes, 0);
        rig.lane.classify(&mut pending_event, b"d", name.as_bytes());
        rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now)
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
fn at_the_budget_the_event_is_refused_under_reject_and_reported_once() {
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
fn suppliers_go_on_when_the_slow_consumer_is_destroyed() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(2 * charge(1)));
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(0);
    rig.publish(1);
    let Admission::Withheld(ticket) = rig.publish(2) else { panic!("no room") };
    rig.hierarchy.destroy_proxy(key).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn suppliers_go_on_when_the_slow_consumer_may_be_discarded_after_all() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(2 * charge(1)));
    let key = rig.consumer(SettingsPatch::default());
    rig.publish(0);
    rig.publish(1);
    let Admission::Withheld(ticket) = rig.publish(2) else { panic!("no room") };
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
    let Admission::Withheld(ticket) = rig.publish(1) else { panic!("no room") };
    rig.hierarchy.set_limits(rig.channel, budget(100_000)).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn at_max_queue_length_the_slow_consumers_oldest_goes_or_the_event_is_refused() {
    for reject in [false, true] {
        let limits = ChannelLimits {
            max_queue_length: NonZeroU32::new(3),
            reject_new_events: reject,
            ..ChannelLimits::default()
        };
        let mut rig = Rig::new(SettingsPatch::default(), limits);
        let key = rig.consumer(SettingsPatch::default());
        rig.publish_all(0..3);
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
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.resize(1 << 20, 0);
    rig.lane.classify(&mut pending_event, b"domain", b"name");
    rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now);
    rig.drain();
    rig.publish(1);
    let mut events = Vec::new();
    rig.lane.poll_delivery(rig.now, &mut events).unwrap();
    assert!(events[0].bytes.capacity() < 1_024);
    assert_eq!(vec![1], events[0].bytes);
}

// ---- what all channels take together ----

/// A second channel on the rig's lane, with one supplier and one consumer that never answers.
fn another_channel(rig: &mut Rig, budget: ChannelLimits) -> ProxyKey {
    let channel = rig.hierarchy.create_channel(SettingsPatch::default(), budget).unwrap();
    let mut connect = |side| {
        let kind = ProxyKind::default();
        let proxy = rig.hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), kind).unwrap();
        let key = ProxyKey { channel, proxy };
        rig.hierarchy.connect(key, Some(Peer(1_000 + u64::from(proxy.0))), OutputForm(0)).unwrap();
        key
    };
    connect(Side::Consumers);
    let source = connect(Side::Suppliers);
    rig.route();
    source
}

fn publish_from(rig: &mut Rig, source: ProxyKey, bytes: usize) -> Admission {
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.resize(bytes, 0);
    rig.lane.handle_event(source, pending_event, &NoFields, rig.now)
}

/// Twelve channels with 256 MiB each took 3.1 GB: only each one's own budget counted.
#[test]
fn channels_together_keep_to_what_there_is_whatever_their_budgets() {
    const MIB: u64 = 1 << 20;
    let shared = Arc::new(MemoryPool::new(32 * MIB, 75));
    let mut rig = Rig::new(SettingsPatch::default(), budget(1 << 40));
    let mut sources = vec![rig.source];
    rig.lane = Lane::new(rig.now);
    rig.lane.set_memory_pool(Arc::clone(&shared));
    rig.consumer(SettingsPatch::default());
    for _ in 0..5 {
        sources.push(another_channel(&mut rig, budget(1 << 40)));
    }
    for source in &sources {
        // Each supplier goes on until it is held, and has some events under way then.
        let mut taken = 0;
        while matches!(publish_from(&mut rig, *source, 10_000), Admission::Accepted { .. }) {
            taken += 1;
        }
        assert!(taken > 0, "something is left for each");
        for _ in 0..5_000 {
            publish_from(&mut rig, *source, 10_000);
        }
    }
    let memory: u64 = rig.lane.channels().map(|channel| channel.memory_bytes).sum();
    assert!((20 * MIB..=32 * MIB).contains(&memory), "{memory}");
    assert!(shared.taken_bytes() <= 33 * MIB);
    assert!(rig.lane.counters().taken.channels_short > 0);
    drop(rig);
    assert_eq!(shared.taken_bytes(), 0);
}

/// It may be another channel, or another lane, that releases something.
#[test]
fn a_channel_that_is_blocked_because_of_others_goes_on_when_those_release_memory() {
    const MIB: u64 = 1 << 20;
    let shared = Arc::new(MemoryPool::new(8 * MIB, 75));
    let mut rig = Rig::new(SettingsPatch::default(), budget(1 << 40));
    rig.lane = Lane::new(rig.now);
    rig.lane.set_memory_pool(Arc::clone(&shared));
    rig.consumer(SettingsPatch::default());
    let mut other_lane = Part::default();
    other_lane.set_shared(Arc::clone(&shared));
    other_lane.add(7 * MIB);
    let ticket = loop {
        if let Admission::Withheld(ticket) = rig.publish_bytes(&vec![0; 100_000]) {
            break ticket;
        }
    };
    rig.advance(Duration::from_millis(5));
    assert_eq!(rig.lane.poll_release(), None, "nothing has changed");
    assert!(rig.lane.next_timeout().is_some());
    other_lane.remove(7 * MIB);
    rig.advance(Duration::from_millis(5));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    rig.advance(Duration::from_millis(5));
    assert!(
        rig.lane.memory_pool.short_of_room.is_empty() && rig.lane.memory_pool.room_looked_at.is_none(),
        "no supplier waits any more"
    );
}

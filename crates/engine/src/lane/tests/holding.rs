//! A consumer that stopped held all suppliers of its channel for 86 seconds, until it was given up: 30 s for its answer, and 60 s
//! of failing. Two ORBs' clients had given up meanwhile.

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// What two events need.
fn room_for_two() -> ChannelLimits {
    budget(2 * charge(1) + 2 * HOLDER_OVERHEAD_BYTES)
}

fn blocked_for(time: Duration) -> DisconnectReason {
    DisconnectReason::BlockedSuppliers { blocked_for: time }
}

impl Rig {
    /// Publishes until suppliers are blocked.
    fn fill(&mut self) -> Ticket {
        (0..100)
            .find_map(|number| match self.publish(number) {
                Admission::Withheld(ticket) => Some(ticket),
                _ => None,
            })
            .expect("suppliers to be blocked")
    }

    fn disconnected(&mut self) -> Vec<(ProxyKey, DisconnectReason)> {
        let notices = self.notices().into_iter();
        let disconnected = notices.filter_map(|notice| match notice {
            Notice::ConsumerDisconnected { key, reason, .. } => Some((key, reason)),
            _ => None,
        });
        disconnected.collect()
    }
}

#[test]
fn a_client_that_takes_nothing_while_suppliers_wait_for_it_is_disconnected_after_its_hold_timeout() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let consumer = rig.consumer(SettingsPatch::default());
    let ticket = rig.fill();
    assert!(rig.poll().is_some(), "it is sent an event, and does not answer");
    rig.advance(seconds(29));
    assert_eq!(rig.disconnected(), []);
    let since = Time(1_000_000_000);
    assert_eq!(rig.stats(consumer).holds, Some(Holding { since, until: Some(since + seconds(30)) }));
    rig.advance(seconds(1));
    assert_eq!(rig.disconnected(), [(consumer, blocked_for(seconds(30)))]);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn a_consumer_that_takes_an_event_now_and_then_is_waited_for_and_one_that_does_not_is_not() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let (slow, mute) = (rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default()));
    // Both have the same backlog. That of the slow one is looked at first.
    let ticket = rig.fill();
    let mut under_way = Vec::new();
    for _ in 0..2 {
        under_way.extend(rig.poll());
    }
    rig.advance(seconds(20));
    let (.., outbox, serial) = *under_way.iter().find(|(key, ..)| *key == slow).unwrap();
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    rig.advance(seconds(10));
    assert_eq!(rig.disconnected(), [(mute, blocked_for(seconds(30)))]);
    assert_eq!(rig.lane.poll_release(), Some(ticket));
}

#[test]
fn the_same_holds_for_one_that_is_full_and_its_own_hold_timeout_counts() {
    let hold = SettingsPatch { hold_timeout: Some(seconds(5)), ..full(FullOutbox::Hold) };
    let patch = SettingsPatch { max_events_per_consumer: max_events(1).max_events_per_consumer, ..hold };
    let mut rig = Rig::new(granted(), ChannelLimits::default());
    let consumer = rig.consumer(patch);
    rig.fill();
    rig.advance(seconds(5));
    assert_eq!(rig.disconnected(), [(consumer, blocked_for(seconds(5)))]);
}

#[test]
fn several_that_are_silent_go_together_as_suppliers_go_on() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let consumers = [rig.consumer(SettingsPatch::default()), rig.consumer(SettingsPatch::default())];
    rig.fill();
    rig.advance(seconds(30));
    assert_eq!(rig.disconnected(), [(consumers[0], blocked_for(seconds(30)))]);
    // Suppliers go on; the channel has had no room since, so that they wait for the second no longer than for the first.
    rig.fill();
    rig.advance(Duration::ZERO);
    assert_eq!(rig.disconnected(), [(consumers[1], blocked_for(seconds(30)))]);
}

/// The hold of a consumer that had become the largest counted from when suppliers were first held for another one.
#[test]
fn a_consumer_that_becomes_the_largest_has_its_own_time_unless_it_took_nothing_all_the_while() {
    let hasty = SettingsPatch { hold_timeout: Some(seconds(5)), ..SettingsPatch::default() };
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let (mute, slow) = (rig.consumer(SettingsPatch::default()), rig.consumer(hasty));
    rig.fill();
    let mut under_way: Vec<_> = (0..2).filter_map(|_| rig.poll()).collect();
    under_way.retain(|(key, ..)| *key == slow);
    rig.advance(seconds(20));
    let (.., outbox, serial) = under_way[0];
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    rig.advance(seconds(10));
    assert_eq!(rig.disconnected(), [(mute, blocked_for(seconds(30)))]);
    // It has taken nothing for ten seconds, and suppliers have waited for it for none.
    rig.fill();
    let since = rig.now;
    assert_eq!(rig.stats(slow).holds, Some(Holding { since, until: Some(since + seconds(5)) }));
    rig.advance(seconds(4));
    assert_eq!(rig.disconnected(), []);
    rig.advance(seconds(1));
    assert_eq!(rig.disconnected(), [(slow, blocked_for(seconds(5)))]);
}

/// Settings of a consumer with a connection that is there to stay.
fn persistent() -> SettingsPatch {
    SettingsPatch { connection_reliability: Some(Reliability::Persistent), ..SettingsPatch::default() }
}

/// Only its own word, an expiry or an operator ends a persistent connection; suppliers held up were another reason.
#[test]
fn a_persistent_consumer_that_holds_suppliers_for_its_hold_timeout_stays_and_loses_what_there_is_no_room_for() {
    for policy in [DiscardPolicy::Fifo, DiscardPolicy::Lifo] {
        // Its answer may take for ever.
        let hold_timeout = Some(seconds(30));
        let patch = SettingsPatch { hold_timeout, reply_timeout: Some(Duration::ZERO), ..persistent() };
        let patch = SettingsPatch { discard_policy: Some(policy), push_window: Some(1), ..patch };
        let mut rig = Rig::new(SettingsPatch::default(), budget(4 * charge(1)));
        let consumer = rig.consumer(patch);
        for number in 0..4 {
            assert!(matches!(rig.publish(number), Admission::Accepted { .. }));
        }
        let (.., outbox, serial) = rig.poll().unwrap();
        let Admission::Withheld(ticket) = rig.publish(4) else { panic!("there is no room") };
        rig.advance(seconds(30));
        assert_eq!(rig.lane.poll_release(), Some(ticket), "suppliers go on");
        let waited = Notice::WaitedOut { key: consumer, blocked_for: seconds(30) };
        assert_eq!(rig.notices().iter().filter(|notice| **notice == waited).count(), 1);
        assert_eq!(discarded(&rig, consumer, DiscardReason::WaitedOut), 1, "no more than has to");
        // They do not wait for it again.
        for number in 5..10 {
            assert!(matches!(rig.publish(number), Admission::Accepted { .. }), "{number}");
            rig.advance(seconds(30));
        }
        assert_eq!((rig.notices(), rig.lane.poll_release()), (vec![], None));
        assert_eq!(rig.lane.counters().discards.of(DiscardReason::WaitedOut), 6);
        // It takes something: it is as it was.
        rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
        assert!(rig.notices().contains(&Notice::WaitedForAgain { key: consumer, dropped: 6 }));
        let left = if policy == DiscardPolicy::Fifo { [7, 8, 9] } else { [1, 2, 9] };
        assert!(matches!(rig.publish(10), Admission::Accepted { .. }));
        assert!(matches!(rig.publish(11), Admission::Withheld(_)), "suppliers wait for it again");
        assert_eq!(rig.drain(), [&left[..], &[10, 11]].concat(), "{policy:?}");
        assert_eq!(rig.disconnected(), []);
    }
}

#[test]
fn the_same_holds_for_a_persistent_one_that_is_full_and_for_several_at_once() {
    let patch = SettingsPatch { full_outbox: Some(FullOutbox::Hold), ..max_events(2) };
    let patch = SettingsPatch { connection_reliability: Some(Reliability::Persistent), ..patch };
    let mut rig = Rig::new(granted(), ChannelLimits::default());
    let consumers = [rig.consumer(patch), rig.consumer(patch)];
    let ticket = rig.fill();
    rig.advance(seconds(30));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    for number in 0..5 {
        assert!(matches!(rig.publish(number), Admission::Accepted { .. }));
    }
    for consumer in consumers {
        assert_eq!(rig.stats(consumer).backlog_events, 2);
        assert_eq!(discarded(&rig, consumer, DiscardReason::WaitedOut), 6);
    }
    let waited_out = |notice: &Notice| matches!(notice, Notice::WaitedOut { .. });
    assert_eq!(rig.notices().into_iter().filter(waited_out).count(), 2);
}

#[test]
fn several_persistent_ones_that_are_silent_hold_suppliers_for_no_longer_than_one() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(6 * charge(1)));
    let consumers = [rig.consumer(persistent()), rig.consumer(persistent()), rig.consumer(persistent())];
    rig.fill();
    rig.advance(seconds(30));
    // What one loses is the others' yet, and takes its room.
    for number in 0..20 {
        rig.publish(number);
        rig.advance(Duration::ZERO);
    }
    assert!(matches!(rig.publish(20), Admission::Accepted { .. }));
    let total: u64 = consumers.iter().map(|key| discarded(&rig, *key, DiscardReason::WaitedOut)).sum();
    assert!(total >= 50, "{total}");
    assert_eq!(rig.disconnected(), []);
}

#[test]
fn a_consumer_that_is_not_to_be_waited_out_any_more_blocks_suppliers_again() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let consumer = rig.consumer(persistent());
    let ticket = rig.fill();
    rig.advance(seconds(30));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert!(matches!(rig.publish(1), Admission::Accepted { .. }));
    let for_ever = SettingsPatch { hold_timeout: Some(Duration::ZERO), ..persistent() };
    rig.hierarchy.set_proxy_settings(consumer, for_ever).unwrap();
    rig.route();
    assert!(matches!(rig.publish(2), Admission::Withheld(_)));
    rig.advance(seconds(86_400));
    assert_eq!((rig.disconnected(), rig.lane.poll_release()), (vec![], None));
}

#[test]
fn a_client_that_cannot_take_anything_is_named_and_stays() {
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    let consumer = rig.sleeper(SettingsPatch::default());
    rig.fill();
    for round in 1..3 {
        rig.advance(seconds(30));
        let goes_on = Notice::HoldGoesOn { key: consumer, blocked_for: seconds(30 * round), suspended: true };
        assert!(rig.notices().contains(&goes_on));
    }
    rig.advance(seconds(29));
    rig.resume(consumer);
    rig.advance(seconds(29));
    assert_eq!(rig.disconnected(), [], "its time begins when it is resumed");
    rig.advance(seconds(1));
    assert_eq!(rig.disconnected(), [(consumer, blocked_for(seconds(119)))]);
}

#[test]
fn a_hold_timeout_of_0_is_for_ever() {
    let patch = SettingsPatch {
        hold_timeout: Some(Duration::ZERO),
        reply_timeout: Some(Duration::ZERO),
        ..full(FullOutbox::Hold)
    };
    let mut rig = Rig::new(SettingsPatch::default(), room_for_two());
    rig.consumer(patch);
    rig.fill();
    rig.advance(seconds(86_400));
    assert_eq!(rig.disconnected(), []);
}

fn discarded(rig: &Rig, consumer: ProxyKey, reason: DiscardReason) -> u64 {
    rig.stats(consumer).discards.of(reason)
}

/// As in TAO: a supplier waits for room for as long as `BlockingPolicy` says, and only then is something dropped.
#[test]
fn where_a_consumer_is_full_suppliers_are_blocked_for_a_time_and_then_events_go() {
    let blocking = SettingsPatch { blocking: Some(seconds(5)), ..max_events(2) };
    let mut rig = Rig::plain();
    let consumer = rig.consumer(blocking);
    let withheld = |admission| match admission {
        Admission::Withheld(ticket) => ticket,
        other => panic!("{other:?}"),
    };
    // One is sent, two wait, and the next has no place.
    assert!(matches!(rig.publish(0), Admission::Accepted { .. }));
    rig.poll().unwrap();
    assert!(matches!(rig.publish(1), Admission::Accepted { .. }));
    assert!(matches!(rig.publish(2), Admission::Accepted { .. }));
    let ticket = withheld(rig.publish(3));
    rig.advance(seconds(4));
    assert_eq!((rig.lane.poll_release(), discarded(&rig, consumer, DiscardReason::OutboxFull)), (None, 0));
    rig.advance(seconds(1));
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(discarded(&rig, consumer, DiscardReason::OutboxFull), 1);
    assert_eq!((rig.stats(consumer).backlog_events, rig.disconnected().len()), (3, 0));
    // The next waits for as long again, and is let in at once when there is room.
    let ticket = withheld(rig.publish(4));
    rig.advance(seconds(4));
    assert_eq!(rig.lane.poll_release(), None);
    rig.hierarchy.set_proxy_settings(consumer, max_events(9)).unwrap();
    rig.route();
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert_eq!(discarded(&rig, consumer, DiscardReason::OutboxFull), 1);
}

#[test]
fn where_a_channel_has_no_room_suppliers_are_blocked_for_a_time_and_then_events_go() {
    for (limits, reason) in [
        (ChannelLimits { max_queue_length: NonZeroU32::new(2), ..ChannelLimits::default() }, DiscardReason::QueueFull),
        (room_for_two(), DiscardReason::MemorySpent),
    ] {
        let blocking = SettingsPatch { blocking: Some(seconds(5)), ..SettingsPatch::default() };
        let mut rig = Rig::new(SettingsPatch::default(), limits);
        let consumer = rig.sleeper(blocking);
        for round in 1..4 {
            let ticket = rig.fill();
            rig.advance(seconds(4));
            assert_eq!(rig.lane.poll_release(), None, "{reason:?}");
            rig.advance(seconds(1));
            assert_eq!(rig.lane.poll_release(), Some(ticket), "{reason:?}");
            assert!(discarded(&rig, consumer, reason) >= round, "{reason:?}");
            assert!(rig.stats(consumer).backlog_events >= 1, "no more goes than has to");
        }
        assert_eq!(rig.disconnected(), []);
    }
}

/// A client that came, went or changed something in the channel had the suppliers go on although there was no room, and they were held
/// anew.
#[test]
fn suppliers_that_are_blocked_stay_so_whatever_changes_elsewhere_in_the_channel() {
    for policy in [None, Some(FullOutbox::Discard)] {
        let limits = ChannelLimits { max_queue_length: NonZeroU32::new(2), ..ChannelLimits::default() };
        let blocking = SettingsPatch { blocking: Some(seconds(5)), full_outbox: policy, ..SettingsPatch::default() };
        let mut rig = Rig::new(SettingsPatch::default(), limits);
        let consumer = rig.consumer(blocking);
        let ticket = rig.fill();
        rig.consumer(SettingsPatch::default());
        assert_eq!(rig.lane.poll_release(), None);
        rig.advance(seconds(5));
        assert_eq!((rig.lane.poll_release(), discarded(&rig, consumer, DiscardReason::QueueFull)), (Some(ticket), 1));
    }
}

/// They are no consumer's, and take the room that is waited for.
#[test]
fn backlogs_of_consumers_that_are_gone_go_before_events_that_a_consumer_waits_for() {
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(300), ..ChannelLimits::default() };
    let mut rig = Rig::new(SettingsPatch::default(), limits);
    let blocking = SettingsPatch { blocking: Some(seconds(5)), ..SettingsPatch::default() };
    let (consumer, gone) = (rig.consumer(blocking), rig.consumer(SettingsPatch::default()));
    for (key, name) in [(consumer, "large"), (gone, "small")] {
        let types = [EventType::new("domain", name)];
        rig.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &types, &[EventType::everything()]).unwrap();
    }
    rig.route();
    let mut publish = |name: &str, bytes: usize| {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.resize(bytes, 0);
        rig.lane.classify(&mut pending_event, b"domain", name.as_bytes());
        rig.lane.handle_event(rig.source, pending_event, &NoFields, rig.now)
    };
    // The large one is why suppliers are blocked. What they had under way comes in, twice as much as there is room for.
    publish("large", 1_000_000);
    let admissions: Vec<Admission> = (0..598).map(|_| publish("small", 1)).collect();
    let withheld = |admission: &&Admission| matches!(admission, Admission::Withheld(_));
    assert_eq!(admissions.iter().filter(withheld).count(), 299);
    rig.hierarchy.disconnect(gone).unwrap();
    rig.route();
    rig.advance(seconds(5));
    assert!(rig.lane.poll_release().is_some());
    assert_eq!((rig.stats(consumer).backlog_events, discarded(&rig, consumer, DiscardReason::QueueFull)), (1, 0));
}

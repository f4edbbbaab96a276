//! What a consumer with a correlation costs others: no work, no memory and no waiting beyond bounds.

use super::*;

impl Rig {
    fn awaiting(&self, key: ProxyKey) -> u64 {
        self.stats(key).awaiting_set
    }

    fn dropped(&self, key: ProxyKey) -> u64 {
        self.stats(key).discards.total()
    }

    fn plain_sets(&mut self, text: &str) -> ProxyKey {
        self.correlated(ProxyKind::default(), SettingsPatch::default(), text)
    }
}

/// 64 alternatives, none of which is complete without a second B.
const COSTLY: &str = "(A or A) and (A or A) and (A or A) and (A or A) and (B or B) and (B or B) keep 1024";

#[test]
fn the_search_for_a_set_ends_when_its_steps_are_spent_and_the_event_waits() {
    let mut rig = Rig::plain();
    let costly = rig.plain_sets(COSTLY);
    rig.send("B", &[0]);
    for _ in 0..1_000 {
        rig.send("A", &[1]);
    }
    assert_eq!((rig.awaiting(costly), rig.dropped(costly)), (1_001, 0));
    assert!(rig.lane.counters().filters.cuts > 500);
}

#[test]
fn a_round_looks_at_so_many_events_and_the_consumers_take_turns() {
    let mut rig = Rig::plain();
    let consumers = [rig.plain_sets("A and B keep 1024"), rig.plain_sets("A and C keep 1024")];
    for key in consumers {
        rig.hierarchy.suspend(key).unwrap();
    }
    rig.route();
    (0..500).for_each(|_| assert_eq!(rig.send("A", &[1]), Admission::Accepted { destinations: 2 }));
    for key in consumers {
        rig.hierarchy.resume(key).unwrap();
    }
    rig.route();
    let mut rounds = 0;
    while consumers.iter().any(|key| rig.awaiting(*key) < 500) {
        assert_eq!(rig.lane.next_timeout(), Some(rig.now), "there is more to do");
        let before = consumers.map(|key| rig.awaiting(key));
        rig.lane.gather_sets(&Keyed, rig.now);
        let grown: Vec<u64> = consumers.iter().zip(before).map(|(key, before)| rig.awaiting(*key) - before).collect();
        assert!(grown.iter().sum::<u64>() <= 256 && grown[0].abs_diff(grown[1]) <= 32, "{grown:?}");
        rounds += 1;
    }
    assert!((4..=8).contains(&rounds), "{rounds}");
}

#[test]
fn events_that_wait_for_others_take_a_quarter_of_the_memory_and_block_no_supplier() {
    let mut rig = Rig::new(granted(), budget(40 * charge(1)));
    let one = rig.correlated(ProxyKind::default(), hold_at(1), "A and B");
    for number in 0..100 {
        assert_eq!(rig.send("A", &[number]), Admission::Accepted { destinations: 1 }, "{number}");
    }
    assert!((9..=11).contains(&rig.awaiting(one)), "{}", rig.awaiting(one));
    assert_eq!(rig.awaiting(one) + rig.uncorrelated(one), 100);
    // A second one has its equal part, of what the first has, too.
    let other = rig.plain_sets("A and C");
    rig.pass(Duration::ZERO);
    assert!((4..=6).contains(&rig.awaiting(one)), "{}", rig.awaiting(one));
    for number in 0..100 {
        assert_eq!(rig.send("A", &[number]), Admission::Accepted { destinations: 2 }, "{number}");
    }
    assert!((4..=6).contains(&rig.awaiting(other)) && rig.memory() <= 10 * charge(1) + charge(1), "{}", rig.memory());
    rig.send("B", &[200]);
    assert_eq!(rig.drain_sets().len(), 2);
}

#[test]
fn they_take_a_quarter_of_the_places_of_a_channel_too_and_none_where_there_are_hardly_any() {
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(20), ..budget(1 << 20) };
    let mut rig = Rig::new(granted(), limits);
    let sets = rig.plain_sets("A and B");
    for number in 0..50 {
        assert_eq!(rig.send("A", &[number]), Admission::Accepted { destinations: 1 });
    }
    assert_eq!((rig.awaiting(sets), rig.uncorrelated(sets)), (5, 45));
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(3), ..limits };
    rig.hierarchy.set_limits(rig.channel, limits).unwrap();
    rig.route();
    rig.pass(Duration::ZERO);
    assert_eq!((rig.awaiting(sets), rig.uncorrelated(sets)), (0, 50), "as soon as the limit is lowered");
    rig.send("A", &[1]);
    rig.send("B", &[2]);
    assert_eq!((rig.drain_sets(), rig.uncorrelated(sets), rig.memory()), (vec![], 52, 0));
}

#[test]
fn large_events_that_wait_for_others_take_four_megabytes() {
    let mut rig = Rig::new(granted(), budget(1 << 30));
    let sets = rig.plain_sets("A and B");
    for number in 0..10 {
        rig.send("A", &vec![number; 1 << 20]);
    }
    assert_eq!((rig.awaiting(sets), rig.uncorrelated(sets)), (3, 7));
    rig.send("B", &vec![10; 5 << 20]);
    assert_eq!(rig.drain_sets(), [(7, 1, 0), (10, 1, 1)]);
}

#[test]
fn a_supplier_that_waits_for_a_slow_consumer_goes_on_when_that_goes_on() {
    let mut rig = Rig::new(granted(), budget(8 * (charge(1) + HOLDER_OVERHEAD_BYTES)));
    let sets = rig.plain_sets("A and B");
    rig.consumer(full(FullOutbox::Hold));
    let ticket = (1..100).find_map(|number| match rig.send("A", &[number]) {
        Admission::Withheld(ticket) => Some(ticket),
        _ => None,
    });
    assert!(rig.awaiting(sets) > 0);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.lane.poll_release(), None);
    while rig.answer_batch(Outcome::Delivered).is_some() {}
    assert_eq!(rig.lane.poll_release(), ticket);
    assert_eq!(rig.send("A", &[200]), Admission::Accepted { destinations: 2 });
}

#[test]
fn where_the_memory_of_all_channels_is_short_events_that_wait_for_others_make_room() {
    let shared = Arc::new(MemoryPool::new(4 << 20, 75));
    let mut rig = Rig::plain();
    rig.lane = Lane::new(rig.now);
    rig.lane.set_memory_pool(Arc::clone(&shared));
    rig.hierarchy.set_channel_settings(rig.channel, granted()).unwrap();
    rig.route();
    let sets = rig.plain_sets("A and B keep 1024");
    for number in 0..200 {
        assert!(matches!(rig.send("A", &[1; 50_000]), Admission::Accepted { .. }), "{number}");
    }
    assert!(rig.awaiting(sets) > 10 && rig.uncorrelated(sets) > 100, "{}", rig.awaiting(sets));
    // A slow consumer is in the way, and then it is not.
    let slow = rig.sleeper(full(FullOutbox::Hold));
    let ticket = (0..200).find_map(|_| match rig.send("C", &[1; 50_000]) {
        Admission::Withheld(ticket) => Some(ticket),
        _ => None,
    });
    assert!(ticket.is_some());
    rig.hierarchy.destroy_proxy(slow).unwrap();
    rig.route();
    (0..4).for_each(|_| rig.pass(Duration::from_millis(5)));
    assert_eq!(rig.lane.poll_release(), ticket);
}

#[test]
fn a_full_outbox_disconnects_its_consumer_once() {
    let mut rig = Rig::plain();
    let disconnect = SettingsPatch { full_outbox: Some(FullOutbox::Disconnect), ..max_events(1) };
    let consumer = rig.correlated(ProxyKind::default(), disconnect, "A and B");
    rig.watched("A", 1);
    rig.watched("B", 2);
    rig.watched("A", 3);
    rig.watched("A", 4);
    let is_end = |notice: &Notice| matches!(notice, Notice::ConsumerDisconnected { key, .. } if *key == consumer);
    assert_eq!(rig.notices().iter().filter(|notice| is_end(notice)).count(), 1);
    rig.pass(Duration::from_millis(1));
    assert_eq!((rig.memory(), rig.batch()), (0, None));
    let reported = rig.reported();
    for number in 1..=3 {
        assert!(reported.contains(&(number, Some(false))) && reported.contains(&(number, None)), "{reported:?}");
    }
}

#[test]
fn many_events_that_have_waited_for_too_long_are_dropped_in_several_rounds() {
    let mut rig = Rig::plain();
    let consumers: [_; 20] = core::array::from_fn(|_| rig.plain_sets("A and B within 1ms keep 1024"));
    for _ in 0..400 {
        rig.send("A", &[1]);
    }
    let left = |rig: &Rig| consumers.iter().map(|key| rig.awaiting(*key)).sum::<u64>();
    while left(&rig) < 8_000 {
        rig.lane.gather_sets(&Keyed, rig.now);
    }
    rig.pass(Duration::from_millis(22));
    assert!((1..=4_000).contains(&left(&rig)), "{}", left(&rig));
    assert!(rig.lane.next_timeout().unwrap() <= rig.now);
    (0..3).for_each(|_| rig.pass(Duration::ZERO));
    assert_eq!((left(&rig), rig.memory()), (0, 0));
}

#[test]
fn what_waits_for_others_of_a_consumer_that_goes_is_released_in_several_rounds() {
    let mut rig = Rig::plain();
    let consumer = rig.plain_sets("A and B keep 1024");
    for _ in 0..1_000 {
        rig.send("A", &[1]);
    }
    rig.hierarchy.destroy_proxy(consumer).unwrap();
    rig.route();
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Removed), 1_000);
    assert_eq!(rig.memory(), 1_000 * charge(1));
    rig.pass(Duration::ZERO);
    assert_eq!(rig.memory(), (1_000 - 256) * charge(1));
    (0..3).for_each(|_| rig.pass(Duration::ZERO));
    assert_eq!(rig.memory(), 0);
}

/// A lane's time begins with its process: all that came before had arrived at time 0, together.
#[test]
fn what_came_long_before_a_restart_is_not_within_what_came_just_before_it() {
    let mut rig = Rig::plain();
    let consumer = rig.plain_sets("A and B within 50ms");
    let restore = |rig: &mut Rig, name: &str, number: u8, before_ms: u32| {
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes.push(number);
        rig.lane.classify(&mut pending_event, b"Site", name.as_bytes());
        (pending_event.arrived, pending_event.older_by_ms) = (Time(0), before_ms);
        pending_event.only = Some([consumer.proxy].into());
        rig.lane.restore_event(rig.source, pending_event, &Keyed, rig.now);
    };
    for (name, number, before_ms) in
        [("A", 1, 4_000_000_000), ("A", 2, 900), ("B", 3, 851), ("A", 4, 100), ("B", 5, 40)]
    {
        restore(&mut rig, name, number, before_ms);
        // A round of the lane between two of them drops nothing for which the other has yet to come.
        rig.pass(Duration::from_millis(100));
    }
    assert_eq!(rig.drain_sets(), [(2, 1, 0), (3, 1, 1)]);
    assert_eq!((rig.awaiting(consumer), rig.uncorrelated(consumer)), (1, 2), "the last waits, two found no others");
    rig.pass(Duration::from_secs(1));
    assert_eq!((rig.awaiting(consumer), rig.uncorrelated(consumer), rig.memory()), (0, 3, 0));
}

#[test]
fn a_backlog_on_disk_comes_back_into_sets_in_order() {
    let mut rig = Rig::plain();
    rig.lane.allow_overflow();
    rig.hierarchy.set_limits(rig.channel, ChannelLimits { overflow_budget_bytes: 1 << 30, ..budget(1 << 20) }).unwrap();
    rig.route();
    let sets = rig.plain_sets("A and B within 10ms");
    rig.suspend(sets);
    let (mut stored, mut sent) = (Vec::new(), 0);
    while stored.len() < 4 {
        sent += 1;
        rig.send(if sent % 2 == 1 { "A" } else { "B" }, &vec![u8::try_from(sent).unwrap(); 100_000]);
        while let Some(errand) = rig.lane.poll_overflow() {
            if let Overflow::Keep { event, .. } = errand {
                stored.push((event.bytes.clone(), event.arrived, sent));
                rig.lane.note_stored(event);
            }
        }
    }
    rig.pass(Duration::from_secs(1));
    rig.resume(sets);
    let mut got = Vec::new();
    loop {
        got.extend(rig.drain_sets().into_iter().map(|(number, ..)| u64::from(number)));
        let fetches = core::iter::from_fn(|| rig.lane.poll_overflow()).filter_map(|errand| match errand {
            Overflow::Fetch { outbox, .. } => Some(outbox),
            _ => None,
        });
        let Some(outbox) = fetches.last() else { break };
        let (bytes, arrived, number) = stored.remove(0);
        let mut pending_event = rig.lane.begin_event();
        pending_event.bytes = bytes;
        pending_event.arrived = arrived;
        let name = if number % 2 == 1 { b"A" } else { b"B" };
        rig.lane.classify(&mut pending_event, b"Site", name);
        rig.lane.return_event((outbox, 0), (rig.source, None), pending_event, &Keyed, rig.now);
        // Between two chunks nothing is given up for which the other is still on disk.
        rig.pass(Duration::from_millis(100));
        rig.lane.end_return(outbox, 0, rig.now);
    }
    let pairs = u64::from(u8::try_from(sent / 2 * 2).unwrap());
    assert_eq!((got, rig.uncorrelated(sets)), ((1..=pairs).collect(), 0));
}

/// A channel is charged for an event by its consumers; a quarter of its memory by octets alone would be all of it.
#[test]
fn events_that_many_others_have_had_count_as_their_channel_is_charged_for_them() {
    let mut rig = Rig::new(granted(), budget(64 << 10));
    let sets = rig.plain_sets("A and B keep 1024");
    for _ in 0..100 {
        rig.consumer(SettingsPatch::default());
    }
    for number in 0..100 {
        assert!(matches!(rig.send("A", &[number]), Admission::Accepted { .. }), "{number}");
        while rig.answer_batch(Outcome::Delivered).is_some() {}
    }
    assert!(
        (1..=5).contains(&rig.awaiting(sets)) && rig.memory() <= 17 << 10,
        "{} {}",
        rig.awaiting(sets),
        rig.memory()
    );
}

#[test]
fn a_complete_set_that_is_not_under_way_is_discarded_as_any_backlog_is() {
    let mut rig = Rig::new(granted(), budget(1 << 20));
    let kind = ProxyKind { pull: true, batches: true, on_main_lane: false };
    let sets = rig.correlated(kind, full(FullOutbox::Discard), "A and B");
    rig.send("A", &[1]);
    rig.send("B", &vec![2; 900 << 10]);
    assert_eq!((rig.stats(sets).sets, rig.stats(sets).backlog_events), (1, 2));
    let other = rig.consumer(SettingsPatch::default());
    assert!(matches!(rig.send("C", &vec![3; 200 << 10]), Admission::Accepted { .. }));
    assert!(rig.stats(sets).discards.of(DiscardReason::MemorySpent) > 0);
    assert_eq!(rig.stats(other).backlog_events, 1);
}

#[test]
fn an_event_that_its_consumer_never_takes_is_set_aside_for_the_next_set() {
    for bad_alone in [true, false] {
        let mut rig = Rig::plain();
        let attempts = SettingsPatch { delivery_attempts: Some(2), ..SettingsPatch::default() };
        let sets = rig.correlated(ProxyKind::default(), attempts, "Fault or A and B");
        if !bad_alone {
            rig.send("A", &[8]);
        }
        rig.send(if bad_alone { "Fault" } else { "B" }, &[9]);
        for number in 0..4 {
            rig.send("A", &[number]);
            rig.send("B", &[10 + number]);
        }
        let mut taken = Vec::new();
        for _ in 0..100 {
            while let Some((numbers, _, outbox, serial)) = rig.batch() {
                let is_bad = numbers == [9];
                let outcome = if is_bad { Outcome::ConnectionLost } else { Outcome::Delivered };
                rig.lane.handle_outcome(outbox, serial, outcome, rig.now);
                if is_bad {
                    break;
                }
                taken.extend(numbers);
            }
            rig.pass(Duration::from_secs(1));
        }
        let first: &[u8] = if bad_alone { &[] } else { &[8] };
        assert_eq!(taken, [first, &[0, 10, 1, 11, 2, 12, 3, 13]].concat(), "{bad_alone}");
        assert_eq!((rig.stats(sets).discards.of(DiscardReason::Undeliverable), rig.memory()), (1, 0));
    }
}

#[test]
fn an_expired_event_uses_up_no_other_whatever_the_order_of_lifetimes() {
    let mut rig = Rig::plain();
    rig.plain_sets("A and B same antenna");
    for (number, key, millis) in [(1, 1, 100), (2, 7, 50), (3, 1, 10), (4, 1, 0)] {
        let lifetime = (millis > 0).then(|| Duration::from_millis(millis));
        rig.send_with("A", &[number, key], |event| event.timeout = lifetime);
    }
    rig.now = rig.now + Duration::from_millis(20);
    rig.send("A", &[5, 1]);
    rig.now = rig.now + Duration::from_millis(40);
    rig.send("B", &[6, 7]);
    assert_eq!(rig.drain_sets(), []);
}

#[test]
fn an_event_that_waits_for_others_expires_though_nothing_else_comes() {
    let mut rig = Rig::plain();
    rig.plain_sets("A and B");
    let lifetime = |event: &mut Event| {
        (event.watch, event.watch_each, event.timeout) = (NonZeroU64::new(1), true, Some(Duration::from_secs(1)));
    };
    rig.send_with("A", &[1], lifetime);
    assert_eq!(rig.lane.next_timeout(), Some(rig.now + Duration::from_secs(1)));
    rig.pass(Duration::from_secs(1));
    assert_eq!((rig.reported(), rig.memory()), (vec![(1, Some(false)), (1, None)], 0));
    assert_eq!(rig.lane.next_timeout(), None, "nothing is left to do");
}

#[test]
fn a_start_time_is_the_events_time_and_keeps_no_other_waiting() {
    let mut rig = Rig::plain();
    let sets = rig.plain_sets("A and B within 50ms");
    let (hour, now) = (Duration::from_secs(3_600), rig.now);
    rig.send_with("A", &[1], |event| event.start = Some(now + hour));
    rig.send("A", &[2]);
    rig.pass(Duration::from_millis(71));
    assert_eq!((rig.awaiting(sets), rig.uncorrelated(sets)), (0, 1), "the other is dropped in time");
    rig.pass(hour - Duration::from_millis(71));
    assert_eq!(rig.awaiting(sets), 1);
    rig.send("B", &[3]);
    assert_eq!(rig.drain_sets(), [(1, 1, 0), (3, 1, 1)]);
}

#[test]
fn what_was_under_way_before_a_consumer_had_a_correlation_comes_back_as_single_events_of_sets() {
    let mut rig = Rig::plain();
    let window = SettingsPatch { push_window: Some(64), ..SettingsPatch::default() };
    let kind = SEQUENCES;
    let proxy = rig.hierarchy.create_proxy(rig.channel, Side::Consumers, AdminId::DEFAULT, Form(1), kind).unwrap();
    let key = ProxyKey { channel: rig.channel, proxy };
    rig.hierarchy.connect(key, Some(Peer(5)), OutputForm(0)).unwrap();
    rig.hierarchy.set_proxy_settings(key, window).unwrap();
    rig.route();
    for (number, name) in (1..).zip(["A", "A", "B", "B"]) {
        rig.send(name, &[number]);
    }
    let begun: Vec<_> = core::iter::from_fn(|| rig.batch()).collect();
    assert_eq!(begun.len(), 4);
    rig.correlate(key, Some("A and B"));
    let (_, _, outbox, serial) = begun[0];
    rig.lane.handle_outcome(outbox, serial, Outcome::ConnectionLost, rig.now);
    rig.pass(Duration::from_secs(1));
    let got: Vec<_> = core::iter::from_fn(|| rig.answer_batch(Outcome::Delivered)).map(|(got, _)| got).collect();
    assert_eq!(got, [[1, 3], [2, 4]]);
}

#[test]
fn parts_of_a_set_that_clients_did_not_get_are_in_order_again() {
    let mut rig = Rig::plain();
    let kind = ProxyKind { pull: true, batches: true, on_main_lane: false };
    let consumer = rig.correlated(kind, SettingsPatch::default(), "A and B and C");
    for (number, name) in (1..).zip(["A", "B", "C"]) {
        rig.send(name, &[number]);
    }
    let pull = |rig: &mut Rig, most| {
        let mut events = Vec::new();
        let delivery = rig.lane.pull(consumer, most, &mut events, rig.now).unwrap().unwrap();
        let numbers: Vec<u8> = events.iter().map(|event| event.bytes[0]).collect();
        events.into_iter().for_each(|event| rig.lane.release(event));
        (numbers, delivery.outbox, delivery.serial)
    };
    let parts = [pull(&mut rig, 1), pull(&mut rig, 1)];
    for (_, outbox, serial) in parts {
        rig.lane.handle_outcome(outbox, serial, Outcome::Unreachable, rig.now);
    }
    assert_eq!(pull(&mut rig, 9).0, [1, 2, 3]);
}

#[test]
fn consumers_that_come_and_go_leave_the_others_their_shares() {
    let mut rig = Rig::new(granted(), budget(400 * charge(1)));
    let keys: Vec<_> = (0..4).map(|_| rig.plain_sets("A and B")).collect();
    for key in [keys[1], keys[3]] {
        rig.hierarchy.destroy_proxy(key).unwrap();
    }
    rig.route();
    (0..200).for_each(|_| assert!(matches!(rig.send("A", &[1]), Admission::Accepted { .. })));
    for key in [keys[0], keys[2]] {
        assert!((40..=50).contains(&rig.awaiting(key)), "{}", rig.awaiting(key));
    }
    assert!(rig.memory() <= 101 * (charge(1) + HOLDER_OVERHEAD_BYTES));
}

/// The clock of the sets went on with the lifetime of an event, while others had yet to be looked at.
#[test]
fn what_waits_behind_a_slow_consumer_keeps_its_time_whatever_expires_meanwhile() {
    let mut rig = Rig::plain();
    let sets = rig.plain_sets("C or A and B within 50ms");
    rig.send("C", &[1]);
    let (_, _, outbox, serial) = rig.batch().unwrap();
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    rig.send("A", &[2]);
    rig.send_with("A", &[3], |event| event.timeout = Some(Duration::from_millis(430)));
    rig.send("C", &[4]);
    let (_, _, outbox, serial) = rig.batch().unwrap();
    rig.pass(Duration::from_millis(30));
    rig.send("A", &[5]);
    rig.pass(Duration::from_millis(300));
    rig.send("B", &[6]);
    rig.pass(Duration::from_millis(150));
    assert_eq!(rig.awaiting(sets), 1, "one has expired, and another may find one that has yet to be looked at");
    rig.lane.handle_outcome(outbox, serial, Outcome::Delivered, rig.now);
    assert_eq!(rig.drain_sets(), [], "300 ms are not 50");
}

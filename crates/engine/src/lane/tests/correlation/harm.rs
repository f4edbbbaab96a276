//! What a consumer with a correlation costs others: no work, no memory and no waiting beyond bounds.

use super::*;

impl Rig {
    fn awaiting(&self, key: ProxyKey) -> u64 {
        self.stats(key).awaiting_set
    }

    fn dropped(&self, key: ProxyKey) -> u64 {
        self.stats(key).discards.total()
    }

    /// The first octets of all deliveries to any consumer.
    fn deliver_all(&mut self) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| self.answer_batch(Outcome::Delivered)).map(|(numbers, _)| numbers).collect()
    }

    fn disconnections(&mut self) -> Vec<ProxyKey> {
        let key = |notice| match notice {
            Notice::ConsumerDisconnected { key, .. } => Some(key),
            _ => None,
        };
        self.notices().into_iter().filter_map(key).collect()
    }
}

/// 64 alternatives, none of which is complete without a second B.
const COSTLY: &str = "(A or A) and (A or A) and (A or A) and (A or A) and (B or B) and (B or B) keep 1024";

/// One event took 10.6 ms of its lane.
#[test]
fn the_search_of_one_consumer_ends_with_its_part_of_the_steps_and_leaves_others_theirs() {
    let limits = ChannelLimits { filter_steps_max: 1_000, ..ChannelLimits::default() };
    let mut rig = Rig::new(SettingsPatch::default(), limits);
    let costly = rig.correlated(ProxyKind::default(), SettingsPatch::default(), COSTLY);
    let modest = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and A");
    rig.send("B", &[0]);
    for _ in 0..200 {
        assert_eq!(rig.send("A", &[1]), Admission::Accepted { destinations: 2 });
    }
    assert_eq!((rig.awaiting(costly), rig.awaiting(modest), rig.stats(modest).sets), (201, 0, 100));
    let cuts = rig.lane.counters().filters.cuts;
    assert!((150..=200).contains(&cuts), "each of the costly one, none of the other: {cuts}");
}

#[test]
fn a_supplier_that_waited_goes_on_when_what_it_waited_for_only_waits_for_others() {
    let both = awaiting_charge(1) + HOLDER_OVERHEAD_BYTES;
    let mut rig = Rig::new(granted(), budget(8 * both));
    let sets = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B");
    let slow = rig.consumer(full(FullOutbox::Hold));
    let ticket = (1..100).find_map(|number| match rig.send("A", &[number]) {
        Admission::Withheld(ticket) => Some(ticket),
        _ => None,
    });
    assert_eq!((rig.awaiting(sets), rig.dropped(sets)), (9, 0), "the drop of what the other has frees nothing");
    rig.advance(Duration::from_secs(1));
    assert_eq!((rig.lane.poll_release(), rig.dropped(sets)), (None, 0));
    // The slow one takes all, so that all nine do nothing but wait.
    assert_eq!(rig.deliver_all().len(), 9);
    let due = rig.lane.next_timeout().unwrap();
    assert!(due <= rig.now + Duration::from_millis(5), "the lane looks again soon");
    rig.advance(Duration::from_millis(5));
    assert_eq!(rig.lane.poll_release(), ticket);
    assert_eq!((rig.awaiting(sets), rig.dropped(slow)), (7, 0), "no more than what makes room again");
    assert_eq!(rig.send("A", &[200]), Admission::Accepted { destinations: 2 });
}

#[test]
fn events_that_wait_for_several_consumers_block_no_supplier() {
    let both = awaiting_charge(1) + CORRELATED_OVERHEAD_BYTES;
    let mut rig = Rig::new(granted(), budget(4 * both));
    let consumers = ["A and B", "A and C"].map(|text| rig.correlated(ProxyKind::default(), hold_at(1), text));
    for number in 1..=20 {
        assert_eq!(rig.send("A", &[number]), Admission::Accepted { destinations: 2 }, "{number}");
    }
    assert_eq!(consumers.map(|key| (rig.awaiting(key), rig.dropped(key))), [(4, 16); 2]);
    rig.send("B", &[21]);
    assert_eq!(rig.drain_sets(), [(18, 1, 0), (21, 1, 1)], "the oldest that is left");
}

#[test]
fn a_full_channel_drops_no_more_events_that_wait_than_it_needs_and_none_that_others_hold() {
    let mut rig =
        Rig::new(SettingsPatch::default(), ChannelLimits { max_queue_length: NonZeroU32::new(10), ..budget(1 << 20) });
    let sets = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B");
    rig.send("A", &[1]);
    let slow = rig.sleeper(full(FullOutbox::Discard));
    for number in 2..=10 {
        rig.send("A", &[number]);
    }
    assert_eq!((rig.awaiting(sets), rig.dropped(sets)), (10, 0));
    // The first one only waits. All others are in the backlog, too, which loses one then; and that only waits now.
    rig.send("A", &[11]);
    assert_eq!((rig.awaiting(sets), rig.dropped(sets), rig.dropped(slow)), (10, 1, 0));
    rig.send("A", &[12]);
    assert_eq!((rig.awaiting(sets), rig.dropped(sets), rig.dropped(slow)), (10, 2, 1));
}

#[test]
fn one_admission_drops_few_events_that_wait_and_the_supplier_waits_until_the_rest_is_dropped() {
    let small = awaiting_charge(1);
    let mut rig = Rig::new(granted(), budget(1_000 * small));
    let sets = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B keep 1024");
    for _ in 0..1_000 {
        rig.send("A", &[1]);
    }
    assert_eq!((rig.awaiting(sets), rig.dropped(sets)), (1_000, 0));
    rig.consumer(full(FullOutbox::Disconnect));
    let large = vec![2; usize::try_from(800 * small).unwrap()];
    let Admission::Withheld(ticket) = rig.send("C", &large) else { panic!("there is no room") };
    assert_eq!(rig.awaiting(sets), 1_000 - 256);
    for _ in 0..3 {
        assert!(rig.lane.next_timeout().is_some_and(|due| due <= rig.now + Duration::from_millis(5)));
        rig.advance(Duration::from_millis(5));
    }
    assert_eq!(rig.lane.poll_release(), Some(ticket));
    assert!((50..100).contains(&rig.awaiting(sets)), "{}", rig.awaiting(sets));
    assert_eq!((rig.disconnections(), rig.deliver_all()), (vec![], vec![vec![2]]), "the other consumer loses nothing");
}

#[test]
fn a_full_outbox_disconnects_its_consumer_once_and_the_rest_of_the_set_is_not_put() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(
        ProxyKind::default(),
        SettingsPatch { full_outbox: Some(FullOutbox::Disconnect), ..max_events(1) },
        "A and B and C and D",
    );
    rig.watched("A", 1);
    for (name, number) in [("B", 2), ("C", 3), ("D", 4)] {
        rig.send(name, &[number]);
    }
    assert_eq!(rig.disconnections(), [consumer]);
    assert_eq!(rig.lane.counters().deliveries.disconnected, 1);
    rig.advance(Duration::from_millis(1));
    assert_eq!((rig.memory(), rig.batch()), (0, None));
    assert_eq!(rig.reported(), [(1, Some(false)), (1, None)]);
}

#[test]
fn a_set_of_large_events_comes_in_several_sequences_of_bounded_octets() {
    let mut rig = Rig::plain();
    rig.correlated(
        SEQUENCES,
        SettingsPatch { push_window: Some(9), ..SettingsPatch::default() },
        "A and B and C and D",
    );
    for (number, name) in (1..).zip(["A", "B", "C", "D"]) {
        rig.send(name, &vec![number; 300 << 10]);
    }
    let got: Vec<_> = core::iter::from_fn(|| rig.answer_batch(Outcome::Delivered)).collect();
    let part = |index| Some(Correlated { set: 1, index });
    assert_eq!(got, [(vec![1, 2, 3], part(0)), (vec![4], part(3))]);
    for (number, name) in (5..).zip(["A", "B", "C", "D"]) {
        rig.send(name, &vec![number; 2 << 20]);
    }
    assert_eq!(rig.deliver_all(), [[5], [6], [7], [8]], "any event has room alone");
}

#[test]
fn each_event_pays_for_its_place_in_a_set() {
    let mut rig = Rig::plain();
    rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B");
    rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and C");
    rig.consumer(SettingsPatch::default());
    rig.send("A", &[1]);
    assert_eq!(rig.memory(), awaiting_charge(1) + CORRELATED_OVERHEAD_BYTES + HOLDER_OVERHEAD_BYTES);
}

#[test]
fn many_events_that_have_waited_for_too_long_are_dropped_in_several_rounds() {
    let mut rig = Rig::plain();
    let text = "A and B within 1ms keep 1024";
    let consumers: [_; 6] =
        core::array::from_fn(|_| rig.correlated(ProxyKind::default(), SettingsPatch::default(), text));
    for _ in 0..1_000 {
        rig.send("A", &[1]);
    }
    let left = |rig: &Rig| consumers.iter().map(|key| rig.awaiting(*key)).sum::<u64>();
    rig.advance(Duration::from_millis(2));
    assert!((1..=2_000).contains(&left(&rig)), "{}", left(&rig));
    assert!(rig.lane.next_timeout().unwrap() <= rig.now);
    for _ in 0..2 {
        rig.advance(Duration::ZERO);
    }
    assert_eq!((left(&rig), rig.memory()), (0, 0));
}

#[test]
fn what_waits_for_others_of_consumers_that_go_together_is_released_in_several_rounds() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B keep 1024");
    for _ in 0..1_000 {
        rig.send("A", &[1]);
    }
    rig.hierarchy.destroy_proxy(consumer).unwrap();
    rig.route();
    assert_eq!(rig.lane.counters().discards.of(DiscardReason::Removed), 1_000);
    assert_eq!(rig.memory(), 1_000 * awaiting_charge(1));
    rig.advance(Duration::ZERO);
    assert_eq!(rig.memory(), (1_000 - 256) * awaiting_charge(1));
    for _ in 0..3 {
        rig.advance(Duration::ZERO);
    }
    assert_eq!(rig.memory(), 0);
}

/// A lane's time begins with its process: all that came before had arrived at time 0, together.
#[test]
fn what_came_long_before_a_restart_is_not_within_what_came_just_before_it() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B within 50ms");
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
        rig.advance(Duration::from_millis(100));
    }
    assert_eq!(rig.drain_sets(), [(2, 1, 0), (3, 1, 1)]);
    assert_eq!((rig.awaiting(consumer), rig.uncorrelated(consumer)), (1, 2), "the last waits, two found no others");
    rig.advance(Duration::from_secs(1));
    assert_eq!((rig.awaiting(consumer), rig.uncorrelated(consumer), rig.memory()), (0, 3, 0));
}

#[test]
fn a_consumer_that_gets_a_correlation_while_it_reads_the_history_leaves_it() {
    let mut rig = Rig::plain();
    rig.lane.allow_overflow();
    let history = HistoryLimits { events: 1_000, ..HistoryLimits::default() };
    rig.hierarchy.set_limits(rig.channel, ChannelLimits { history, ..budget(1 << 20) }).unwrap();
    rig.route();
    let proxy = rig
        .hierarchy
        .create_proxy(rig.channel, Side::Consumers, AdminId::DEFAULT, Form(1), ProxyKind::default())
        .unwrap();
    let consumer = ProxyKey { channel: rig.channel, proxy };
    let first = SettingsPatch { start_from: Some(StartFrom::First), ..SettingsPatch::default() };
    rig.hierarchy.set_proxy_settings(consumer, first).unwrap();
    rig.hierarchy.connect(consumer, Some(Peer(9)), OutputForm(0)).unwrap();
    rig.hierarchy.note_start(consumer, None).unwrap();
    rig.route();
    rig.send("A", &[1]);
    let fetches = core::iter::from_fn(|| rig.lane.poll_overflow()).filter_map(|errand| match errand {
        Overflow::FetchHistory { outbox, .. } => Some(outbox),
        _ => None,
    });
    let outbox = fetches.last().expect("it reads the history");
    rig.correlate(consumer, Some("A and B"));
    let errands: Vec<_> = core::iter::from_fn(|| rig.lane.poll_overflow()).collect();
    assert!(errands.iter().any(|errand| matches!(errand, Overflow::Forget { consumer: who } if *who == consumer)));
    // What was fetched comes too late, and what comes now is correlated.
    let mut pending_event = rig.lane.begin_event();
    pending_event.bytes.push(1);
    rig.lane.return_history_event(outbox, (rig.source, 1), pending_event, &Keyed, rig.now);
    rig.lane.end_history_fetch(outbox, FetchedHistory::default(), &Keyed, rig.now);
    rig.send("A", &[2]);
    rig.send("B", &[3]);
    assert_eq!(rig.drain_sets(), [(2, 1, 0), (3, 1, 1)]);
}

#[test]
fn a_consumer_with_remote_filters_gets_single_events() {
    let mut rig = Rig::plain();
    let consumer = rig.correlated(ProxyKind::default(), SettingsPatch::default(), "A and B");
    rig.send("A", &[1]);
    rig.hierarchy.add_filter(FilterTarget::Proxy(consumer), FilterRef::Remote(Peer(77))).unwrap();
    rig.route();
    assert_eq!((rig.awaiting(consumer), rig.uncorrelated(consumer)), (0, 1));
    rig.send("B", &[2]);
    let (numbers, correlated) = rig.answer_batch(Outcome::Filtered).unwrap();
    assert_eq!((numbers, correlated), (vec![2], None));
}

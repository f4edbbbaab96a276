//! Turns: which event is handed in next, where a lane has more than one topic. (The schedules themselves: `lane::poll_tokens`.)

use super::*;

/// Lets an event of a supplier wait for its turn.
fn queue(rig: &mut Rig, source: ProxyKey, name: &str, priority: Option<i16>, number: u64) {
    let mut pending_event = rig.lane.begin_event();
    rig.lane.classify(&mut pending_event, b"domain", name.as_bytes());
    pending_event.bytes.push(u8::try_from(number).unwrap());
    pending_event.priority = priority;
    rig.lane.schedule_event(source, pending_event, number, rig.now);
}

/// The tokens of all that wait, as their turns come; each is handed in.
fn poll_tokens(rig: &mut Rig) -> Vec<u64> {
    let mut tokens = Vec::new();
    while let Some(ScheduledEvent { source, pending_event, token }) = rig.lane.poll_scheduled(rig.now) {
        rig.lane.handle_event(source, pending_event.unwrap(), &NoFields, rig.now);
        tokens.push(token);
    }
    tokens
}

/// A further channel with a connected supplier.
fn further_channel(rig: &mut Rig, patch: SettingsPatch) -> ProxyKey {
    let channel = rig.hierarchy.create_channel(patch, ChannelLimits::default()).unwrap();
    let proxy =
        rig.hierarchy.create_proxy(channel, Side::Suppliers, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
    let source = ProxyKey { channel, proxy };
    rig.hierarchy.connect(source, None, OutputForm(0)).unwrap();
    rig.route();
    source
}

fn share(share: u32) -> TopicSettings {
    TopicSettings { share, ..TopicSettings::default() }
}

fn set_topics(rig: &mut Rig, channel: ChannelId, rest: TopicSettings, by_type: &[(&str, TopicSettings)]) {
    let by_type = by_type.iter().map(|(name, settings)| (EventType::new("domain", *name), *settings)).collect();
    rig.hierarchy.set_topics(channel, Topics { rest, by_type }).unwrap();
    rig.route();
}

#[test]
fn no_turn_is_taken_where_one_topic_is_all_there_is() {
    let mut rig = Rig::plain();
    assert!(!rig.lane.schedules_topics());
    // A channel without a supplier has no events.
    let idle = rig.hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    rig.route();
    assert!(!rig.lane.schedules_topics());
    let source = further_channel(&mut rig, SettingsPatch::default());
    assert!(rig.lane.schedules_topics());
    rig.hierarchy.disconnect(source).unwrap();
    rig.route();
    assert!(!rig.lane.schedules_topics());
    rig.hierarchy.destroy_channel(idle).unwrap();
    let channel = rig.channel;
    set_topics(&mut rig, channel, share(1), &[("alarm", share(1))]);
    assert!(rig.lane.schedules_topics());
    set_topics(&mut rig, channel, share(1), &[]);
    assert!(!rig.lane.schedules_topics());
}

#[test]
fn turns_are_taken_until_nothing_waits_any_more() {
    let mut rig = Rig::plain();
    let (first, second) = (rig.source, further_channel(&mut rig, SettingsPatch::default()));
    queue(&mut rig, first, "a", None, 1);
    rig.hierarchy.destroy_channel(second.channel).unwrap();
    rig.route();
    assert!(rig.lane.schedules_topics(), "what comes now must not overtake what waits");
    assert_eq!(poll_tokens(&mut rig), [1]);
    assert!(!rig.lane.schedules_topics());
}

#[test]
fn channels_take_turns_by_their_shares() {
    let mut rig = Rig::plain();
    let (two, three) = (rig.source, further_channel(&mut rig, SettingsPatch::default()));
    set_topics(&mut rig, two.channel, share(2), &[]);
    set_topics(&mut rig, three.channel, share(3), &[]);
    for number in 0..4 {
        queue(&mut rig, two, "a", None, 20 + number);
        queue(&mut rig, three, "a", None, 30 + number);
    }
    assert_eq!(rig.lane.queued_events(), 8);
    assert_eq!(poll_tokens(&mut rig), [30, 20, 31, 21, 32, 33, 22, 23]);
    assert_eq!((rig.lane.counters().taken.queued, rig.lane.counters().taken.queued_max), (7, 8));
}

#[test]
fn types_without_a_share_of_their_own_stay_in_their_order() {
    let mut rig = Rig::plain();
    let (source, channel) = (rig.source, rig.channel);
    set_topics(&mut rig, channel, share(1), &[("alarm", share(100))]);
    for (number, name) in ["x", "y", "alarm", "x", "alarm", "y"].into_iter().enumerate() {
        queue(&mut rig, source, name, None, number as u64);
    }
    assert_eq!(poll_tokens(&mut rig), [2, 4, 0, 1, 3, 5]);
}

#[test]
fn a_type_that_has_no_number_is_found_by_its_names() {
    let mut rig = Rig::plain();
    let (source, channel) = (rig.source, rig.channel);
    for at in 0..65_536 {
        rig.lane.intern(b"filler", format!("{at}").as_bytes());
    }
    set_topics(&mut rig, channel, share(1), &[("alarm", share(100))]);
    queue(&mut rig, source, "x", None, 0);
    queue(&mut rig, source, "alarm", None, 1);
    assert_eq!(poll_tokens(&mut rig), [1, 0]);
}

#[test]
fn within_a_topic_priority_counts_where_the_supplier_orders_by_it() {
    let mut rig = Rig::plain();
    let by_priority =
        SettingsPatch { order_policy: Some(OrderPolicy::Priority), priority: Some(3), ..SettingsPatch::default() };
    let (fifo, ordered) = (rig.source, further_channel(&mut rig, by_priority));
    for (number, priority) in [None, Some(7), Some(-2), None].into_iter().enumerate() {
        queue(&mut rig, fifo, "a", priority, number as u64);
        queue(&mut rig, ordered, "a", priority, 10 + number as u64);
    }
    let (of_fifo, of_ordered): (Vec<u64>, Vec<u64>) = poll_tokens(&mut rig).into_iter().partition(|token| *token < 10);
    assert_eq!(of_fifo, [0, 1, 2, 3]);
    assert_eq!(of_ordered, [11, 10, 13, 12]);
}

#[test]
fn what_waits_is_not_lost_or_reordered_when_topics_change() {
    let mut rig = Rig::plain();
    let (source, channel) = (rig.source, rig.channel);
    set_topics(&mut rig, channel, share(1), &[("alarm", share(1_000)), ("old", share(1))]);
    for (number, name) in ["old", "new", "alarm", "old", "new", "x"].into_iter().enumerate() {
        queue(&mut rig, source, name, None, number as u64);
    }
    set_topics(&mut rig, channel, share(1), &[("new", share(1_000))]);
    assert_eq!(rig.lane.queued_events(), 6);
    assert_eq!(poll_tokens(&mut rig), [1, 4, 0, 2, 3, 5]);
    assert_eq!(rig.lane.counters().taken.accepted, 6);
}

#[test]
fn a_changed_share_of_the_same_types_counts_for_what_waits() {
    let mut rig = Rig::plain();
    let (source, channel) = (rig.source, rig.channel);
    set_topics(&mut rig, channel, share(1), &[("a", share(1)), ("b", share(1))]);
    for number in 0..10 {
        queue(&mut rig, source, if number < 5 { "a" } else { "b" }, None, number);
    }
    set_topics(&mut rig, channel, share(1), &[("a", share(1)), ("b", share(1_000))]);
    assert_eq!(poll_tokens(&mut rig), [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]);
}

#[test]
fn events_of_a_channel_that_is_gone_are_refused_when_their_turn_comes() {
    let mut rig = Rig::plain();
    let gone = further_channel(&mut rig, SettingsPatch::default());
    queue(&mut rig, gone, "a", None, 1);
    queue(&mut rig, gone, "a", None, 2);
    rig.hierarchy.destroy_channel(gone.channel).unwrap();
    rig.route();
    assert_eq!(poll_tokens(&mut rig), [1, 2]);
    assert_eq!(rig.lane.counters().taken.refused, 2);
}

#[test]
fn a_channel_that_is_blocked_does_not_keep_the_others_waiting() {
    let mut rig = Rig::new(SettingsPatch::default(), budget(1_000));
    rig.consumer(SettingsPatch::default());
    let (held, other) = (rig.source, further_channel(&mut rig, SettingsPatch::default()));
    while !matches!(rig.publish(0), Admission::Withheld(_)) {}
    for number in 0..3 {
        queue(&mut rig, held, "a", None, number);
        queue(&mut rig, other, "a", None, 10 + number);
    }
    let mut admitted = Vec::new();
    while let Some(ScheduledEvent { source, pending_event, token }) = rig.lane.poll_scheduled(rig.now) {
        let admission = rig.lane.handle_event(source, pending_event.unwrap(), &NoFields, rig.now);
        admitted.push((token, matches!(admission, Admission::Accepted { .. })));
    }
    assert_eq!(admitted, [(0, false), (10, true), (1, false), (11, true), (2, false), (12, true)]);
}

#[test]
fn the_discipline_of_a_pool_comes_with_the_routing_and_the_main_lanes_is_set() {
    let mut rig = Rig::plain();
    let discipline = Discipline::MaximumUrgency;
    let lanes = vec![LaneSpec { priority: 10, threads: 1 }];
    let spec = PoolSpec {
        model: PriorityModel::ServerDeclared,
        server_priority: 10,
        lanes,
        discipline,
        queue_events_max: PoolSpec::QUEUE_EVENTS_MAX,
    };
    let pool = rig.hierarchy.create_pool(spec).unwrap();
    let patch = SettingsPatch { pool: Some(pool), ..SettingsPatch::default() };
    let further = further_channel(&mut rig, patch);
    let urgent = TopicSettings { criticality: 1, ..share(1) };
    set_topics(&mut rig, further.channel, share(1_000), &[("urgent", urgent)]);
    let id = rig.hierarchy.snapshot().lanes()[0].id;
    let of_pool = Lane::with_id(id, rig.now);
    let main = core::mem::replace(&mut rig.lane, of_pool);
    rig.route();
    for (lane, expected) in [(None, [1, 0]), (Some(main), [0, 1])] {
        if let Some(lane) = lane {
            rig.lane = lane;
        }
        queue(&mut rig, further, "a", None, 0);
        queue(&mut rig, further, "urgent", None, 1);
        assert_eq!(poll_tokens(&mut rig), expected);
    }
    rig.lane.set_discipline(discipline);
    queue(&mut rig, further, "a", None, 0);
    queue(&mut rig, further, "urgent", None, 1);
    assert_eq!(poll_tokens(&mut rig), [1, 0]);
}

#[test]
fn events_that_another_lane_hands_over_take_their_turn_with_the_others() {
    let mut rig = Rig::plain();
    let (source, channel) = (rig.source, rig.channel);
    let lanes = vec![LaneSpec { priority: 10, threads: 1 }];
    let (model, discipline) = (PriorityModel::ServerDeclared, Discipline::Shares);
    let queue_events_max = PoolSpec::QUEUE_EVENTS_MAX;
    let spec = PoolSpec { model, server_priority: 10, lanes, discipline, queue_events_max };
    let pool = rig.hierarchy.create_pool(spec).unwrap();
    let kind = ProxyKind::default();
    let proxy = rig.hierarchy.create_proxy(channel, Side::Consumers, AdminId::DEFAULT, Form(1), kind).unwrap();
    let consumer = ProxyKey { channel, proxy };
    let patch = SettingsPatch { pool: Some(pool), ..SettingsPatch::default() };
    rig.hierarchy.set_proxy_settings(consumer, patch).unwrap();
    rig.hierarchy.connect(consumer, Some(Peer(7)), OutputForm(0)).unwrap();
    set_topics(&mut rig, channel, share(1), &[("alarm", share(100))]);
    let mut other = Lane::with_id(rig.hierarchy.snapshot().lanes()[0].id, rig.now);
    // So that the types have other numbers there.
    other.intern(b"domain", b"alarm");
    other.handle_snapshot(rig.hierarchy.snapshot(), rig.now);
    for (number, name) in ["x", "x", "alarm"].into_iter().enumerate() {
        queue(&mut rig, source, name, None, number as u64);
        poll_tokens(&mut rig);
    }
    let handed: Vec<Handover> = core::iter::from_fn(|| rig.lane.poll_handover(rig.now)).collect();
    for (token, handover) in handed.iter().enumerate() {
        other.schedule_handover(&handover.event, token as u64, rig.now);
    }
    assert!(other.schedules_topics());
    // What is handed over keeps its topic when topics change.
    set_topics(&mut rig, channel, share(1), &[("other", share(100)), ("alarm", share(100))]);
    other.handle_snapshot(rig.hierarchy.snapshot(), rig.now);
    let mut tokens = Vec::new();
    while let Some(scheduled) = other.poll_scheduled(rig.now) {
        assert_eq!((scheduled.source, scheduled.pending_event), (source, None));
        let event = &handed[usize::try_from(scheduled.token).unwrap()].event;
        let pending_event = other.begin_handover(event);
        assert_eq!(
            other.handle_handover(event, pending_event, &NoFields, rig.now),
            Admission::Accepted { destinations: 1 }
        );
        tokens.push(scheduled.token);
    }
    assert_eq!(tokens, [2, 0, 1]);
    assert_eq!(other.outboxes().map(|stats| (stats.key, stats.backlog_events)).collect::<Vec<_>>(), [(consumer, 3)]);
}

#[test]
fn settings_out_of_range_are_refused_and_change_nothing() {
    let mut rig = Rig::plain();
    let topics = Topics { rest: share(0), ..Topics::default() };
    let refused = rig.hierarchy.set_topics(rig.channel, topics);
    assert!(matches!(refused, Err(Refusal::BadSetting { setting: "share", .. })));
    assert_eq!(**rig.hierarchy.channel(rig.channel).unwrap().topics(), Topics::default());
}

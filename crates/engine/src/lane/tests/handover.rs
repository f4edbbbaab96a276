//! From lane to lane, one sentence a test.

use super::*;
use alloc::collections::VecDeque;

/// A hand-over on its way to another lane, or taken in there and held.
struct Under {
    from: usize,
    handover: Handover,
    withheld: Option<Ticket>,
}

/// Several lanes by id, and a protocol between them with queues that take so many events.
struct Lanes {
    hierarchy: Hierarchy,
    lanes: Vec<Lane>,
    queues: Vec<VecDeque<Under>>,
    withheld: Vec<Vec<Under>>,
    queue_max: usize,
    /// Of suppliers.
    released: Vec<Ticket>,
    channel: ChannelId,
    /// How many hand-overs were posted.
    sent: usize,
    now: Time,
}

impl Lanes {
    /// A channel without a pool, on a main lane and lanes 1, 2, … of these priorities in a pool of its own.
    fn new(priorities: &[i16], patch: SettingsPatch, limits: ChannelLimits) -> (Self, SettingsPatch) {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(patch, limits).unwrap();
        let lanes = priorities.iter().map(|priority| LaneSpec { priority: *priority, threads: 1 }).collect();
        let spec = PoolSpec {
            model: PriorityModel::ClientPropagated,
            server_priority: 0,
            lanes,
            discipline: Discipline::default(),
            queue_events_max: PoolSpec::QUEUE_EVENTS_MAX,
        };
        let pool = hierarchy.create_pool(spec).unwrap();
        let patch = SettingsPatch { pool: Some(pool), ..patch };
        // So that the pool does not end before it is used.
        let admin = hierarchy.create_admin(channel, Side::Consumers, Operator::And).unwrap();
        hierarchy.set_admin_settings(channel, Side::Consumers, admin, patch).unwrap();
        let now = Time(1_000_000_000);
        let ids = 0..=u16::try_from(priorities.len()).unwrap();
        let lanes: Vec<Lane> = ids.map(|id| Lane::with_id(LaneId(id), now)).collect();
        let queues = lanes.iter().map(|_| VecDeque::new()).collect();
        let withheld = lanes.iter().map(|_| Vec::new()).collect();
        let lanes =
            Self { hierarchy, lanes, queues, withheld, queue_max: 1_000, released: Vec::new(), channel, sent: 0, now };
        (lanes, patch)
    }

    fn proxy(&mut self, side: Side, patch: SettingsPatch) -> ProxyKey {
        let (channel, kind) = (self.channel, ProxyKind::default());
        let proxy = self.hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), kind).unwrap();
        let key = ProxyKey { channel, proxy };
        self.hierarchy.set_proxy_settings(key, patch).unwrap();
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
        self.route();
        key
    }

    fn route(&mut self) {
        let snapshot = self.hierarchy.snapshot();
        for lane in &mut self.lanes {
            lane.handle_snapshot(Arc::clone(&snapshot), self.now);
        }
    }

    /// Publishes on a lane; `priority` is in the header.
    fn publish(&mut self, lane: usize, source: ProxyKey, number: u8, priority: Option<i16>) -> Admission {
        self.publish_with(lane, source, number, |event| event.priority = priority)
    }

    fn publish_with(&mut self, lane: usize, source: ProxyKey, number: u8, with: impl FnOnce(&mut Event)) -> Admission {
        let lane = &mut self.lanes[lane];
        let mut pending_event = lane.begin_event();
        pending_event.bytes.push(number);
        lane.classify(&mut pending_event, b"domain", b"name");
        with(&mut pending_event);
        lane.handle_event(source, pending_event, &NoFields, self.now)
    }

    /// Carries hand-overs until nothing is left to be carried.
    fn carry(&mut self) {
        while self.send_ready() | self.take_over() {}
    }

    /// Posts what can be posted. Says whether there was anything.
    fn send_ready(&mut self) -> bool {
        let mut any = false;
        for from in 0..self.lanes.len() {
            while let Some(handover) = self.lanes[from].poll_handover(self.now) {
                let queue = &mut self.queues[usize::from(handover.to.0)];
                if queue.len() >= self.queue_max {
                    let lane = &mut self.lanes[from];
                    lane.handle_outcome(handover.outbox, handover.serial, Outcome::NoRoom, self.now);
                    lane.release(handover.event);
                    continue;
                }
                queue.push_back(Under { from, handover, withheld: None });
                (self.sent, any) = (self.sent + 1, true);
            }
        }
        any
    }

    /// Takes in what was posted. Says whether there was anything.
    fn take_over(&mut self) -> bool {
        let mut any = false;
        for to in 0..self.lanes.len() {
            while let Some(under) = self.queues[to].pop_front() {
                any = true;
                let (lane, event) = (&mut self.lanes[to], &under.handover.event);
                let pending_event = lane.begin_handover(event);
                match lane.handle_handover(event, pending_event, &NoFields, self.now) {
                    Admission::Accepted { .. } => self.conclude(under, Outcome::Delivered),
                    Admission::Withheld(ticket) => self.withheld[to].push(Under { withheld: Some(ticket), ..under }),
                    Admission::Refused(_) => self.conclude(under, Outcome::Rejected),
                    Admission::AwaitingFilter(..) => panic!("no filter is called twice"),
                }
            }
            while let Some(ticket) = self.lanes[to].poll_release() {
                any = true;
                match self.withheld[to].iter().position(|under| under.withheld == Some(ticket)) {
                    Some(at) => {
                        let under = self.withheld[to].remove(at);
                        self.conclude(under, Outcome::Delivered);
                    }
                    None => self.released.push(ticket),
                }
            }
        }
        any
    }

    fn conclude(&mut self, under: Under, outcome: Outcome) {
        let Handover { outbox, serial, event, .. } = under.handover;
        let lane = &mut self.lanes[under.from];
        lane.handle_outcome(outbox, serial, outcome, self.now);
        lane.resume_outbox(outbox, self.now);
        lane.release(event);
    }

    /// Delivers all that a lane has; returns each consumer with what it got.
    fn drain(&mut self, lane: usize) -> Vec<(ProxyKey, u8)> {
        let (lane, mut events, mut got) = (&mut self.lanes[lane], Vec::new(), Vec::new());
        while let Some(delivery) = lane.poll_delivery(self.now, &mut events) {
            got.push((delivery.key, events[0].bytes[0]));
            lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, self.now);
            events.drain(..).for_each(|event| lane.release(event));
        }
        got
    }

    fn memory(&self, lane: usize) -> (u64, u64) {
        let stats = self.lanes[lane].channels().next().unwrap();
        (stats.events, stats.memory_bytes)
    }

    fn notices(&mut self, lane: usize) -> Vec<Notice> {
        core::iter::from_fn(|| self.lanes[lane].poll_notice()).collect()
    }
}

fn plain(priorities: &[i16]) -> (Lanes, SettingsPatch) {
    Lanes::new(priorities, SettingsPatch::default(), ChannelLimits::default())
}

#[test]
fn an_event_is_handed_over_once_to_each_lane_however_many_consumers_want_it_there() {
    let (mut lanes, pool) = plain(&[1, 2]);
    let main = SettingsPatch::default();
    let source = lanes.proxy(Side::Suppliers, main);
    let here = lanes.proxy(Side::Consumers, main);
    let there: Vec<ProxyKey> = (0..3).map(|_| lanes.proxy(Side::Consumers, pool)).collect();
    assert_eq!(lanes.publish(0, source, 7, Some(2)), Admission::Accepted { destinations: 1 });
    lanes.carry();
    assert_eq!(lanes.sent, 1);
    assert_eq!((lanes.drain(0), lanes.drain(1)), (vec![(here, 7)], vec![]));
    assert_eq!(lanes.drain(2), there.iter().map(|key| (*key, 7)).collect::<Vec<_>>());
    let counters = lanes.lanes.iter().map(|lane| *lane.counters()).collect::<Vec<_>>();
    assert_eq!((counters[0].handovers.given, counters[0].handovers.taken, counters[0].taken.accepted), (1, 0, 1));
    assert_eq!(
        (counters[0].deliveries.begun, counters[0].deliveries.delivered, counters[0].deliveries.queued),
        (1, 1, 1)
    );
    assert_eq!((counters[2].handovers.given, counters[2].handovers.taken, counters[2].taken.accepted), (0, 1, 0));
    assert_eq!(
        (counters[2].deliveries.begun, counters[2].deliveries.delivered, counters[2].deliveries.queued),
        (3, 3, 3)
    );
    assert_eq!([0, 1, 2].map(|lane| lanes.memory(lane)), [(0, 0); 3]);
    assert!(lanes.lanes[0].outboxes().map(|stats| stats.key).eq([here]), "a bridge is no consumer's");
}

#[test]
fn a_consumer_with_several_places_gets_an_event_on_the_lane_of_its_priority_only() {
    let (mut lanes, pool) = plain(&[1, 10, 100]);
    let source = lanes.proxy(Side::Suppliers, pool);
    let consumer = lanes.proxy(Side::Consumers, pool);
    for (number, priority, lane) in [(1, 1, 1), (2, 9, 1), (3, 10, 2), (4, 99, 2), (5, 100, 3), (6, -5, 1)] {
        assert_eq!(lanes.publish(lane, source, number, Some(priority)), Admission::Accepted { destinations: 1 });
        lanes.carry();
        assert_eq!(lanes.drain(lane), [(consumer, number)]);
    }
    assert_eq!(lanes.sent, 0);
    // Wherever it was admitted, and whichever priority counts: the thread's before the header's before the supplier's.
    for (number, priority, thread_priority, lane) in
        [(1, Some(1), Some(10), 2), (2, Some(100), Some(0), 1), (3, Some(100), None, 3), (4, None, None, 1)]
    {
        lanes.publish_with(0, source, number, |event| {
            (event.priority, event.thread_priority) = (priority, thread_priority);
        });
        lanes.carry();
        let got = [0, 1, 2, 3].map(|lane| lanes.drain(lane));
        assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 1, "{number}: {got:?}");
        assert_eq!(got[lane], [(consumer, number)]);
    }
    assert_eq!(lanes.sent, 4);
}

#[test]
fn what_a_supplier_gives_its_events_goes_with_them() {
    let (mut lanes, pool) = plain(&[1, 10]);
    let timeout = Some(Duration::from_millis(5));
    let patch = SettingsPatch { priority: Some(10), timeout: Some(timeout), ..SettingsPatch::default() };
    let source = lanes.proxy(Side::Suppliers, patch);
    let consumer = lanes.proxy(Side::Consumers, pool);
    lanes.publish(0, source, 1, None);
    lanes.carry();
    lanes.publish(0, source, 2, None);
    lanes.now = lanes.now + Duration::from_millis(4);
    assert_eq!(lanes.drain(2), [(consumer, 1)], "the supplier's priority");
    lanes.now = lanes.now + Duration::from_millis(1);
    lanes.carry();
    assert_eq!(lanes.drain(2), [], "the supplier's timeout, since the event arrived at the first lane");
    assert_eq!(lanes.lanes[2].counters().discards.of(DiscardReason::Expired), 1);
}

#[test]
fn a_handed_over_event_is_the_same_event() {
    let (mut lanes, pool) = plain(&[1]);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    lanes.proxy(Side::Consumers, pool);
    let arrived = lanes.now;
    lanes.publish_with(0, source, 9, |event| {
        (event.form, event.tag, event.thread_priority, event.priority) = (Form(3), 77, Some(5), Some(-4));
        (event.timeout, event.start) = (Some(Duration::from_secs(9)), Some(Time(1)));
        event.stop = Some(Time(1 << 60));
        event.set_origin(1, 2, 3, &[4, 5]);
        let alternate = event.alternates.push(OutputForm(4));
        (alternate.tag, alternate.bytes) = (6, b"other".to_vec());
    });
    lanes.now = lanes.now + Duration::from_millis(2);
    // Another number for the type than on the first lane.
    lanes.lanes[1].intern(b"first", b"first");
    lanes.carry();
    let mut events = Vec::new();
    lanes.lanes[1].poll_delivery(lanes.now, &mut events).unwrap();
    let event = &events[0];
    assert_eq!((event.form, event.tag, &event.bytes[..]), (Form(3), 77, &[9][..]));
    assert_eq!((event.priority, event.thread_priority), (Some(-4), Some(5)));
    assert_eq!(
        (event.timeout, event.start, event.stop),
        (Some(Duration::from_secs(9)), Some(Time(1)), Some(Time(1 << 60)))
    );
    assert_eq!((event.arrived, event.source), (arrived, source));
    assert_eq!(event.origin(), Some(&Origin { service: 1, era: 2, number: 3, hops: Hops::new([4, 5]) }));
    let alternate = event.alternates.find(OutputForm(4)).unwrap();
    assert_eq!((alternate.tag, &alternate.bytes[..]), (6, &b"other"[..]));
    assert_eq!(lanes.lanes[1].type_names(event.event_type), Some((&b"domain"[..], &b"name"[..])));
}

#[test]
fn only_lanes_with_consumers_that_may_want_the_type_get_an_event() {
    let (mut lanes, pool) = plain(&[1]);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    let consumer = lanes.proxy(Side::Consumers, pool);
    let target = SubscriptionTarget::Proxy(consumer);
    lanes.hierarchy.subscribe(target, &[EventType::new("domain", "another")], &[EventType::everything()]).unwrap();
    lanes.route();
    assert_eq!(lanes.publish(0, source, 1, None), Admission::Accepted { destinations: 0 });
    lanes.carry();
    assert_eq!((lanes.sent, lanes.lanes[0].counters().taken.unwanted), (0, 1));
    lanes.hierarchy.subscribe(target, &[EventType::new("domain", "name")], &[]).unwrap();
    lanes.route();
    assert_eq!(lanes.publish(0, source, 2, None), Admission::Accepted { destinations: 0 });
    lanes.carry();
    assert_eq!((lanes.drain(1), lanes.lanes[0].counters().taken.unwanted), (vec![(consumer, 2)], 1));
}

#[test]
fn a_queue_without_room_holds_events_back_in_order_until_it_has_room() {
    let (mut lanes, pool) = plain(&[1]);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    let consumer = lanes.proxy(Side::Consumers, pool);
    lanes.queue_max = 2;
    for number in 0..9 {
        lanes.publish(0, source, number, None);
    }
    lanes.send_ready();
    assert_eq!(lanes.sent, 2);
    lanes.send_ready();
    assert_eq!(lanes.sent, 2, "nothing more until it is resumed");
    lanes.carry();
    assert_eq!(lanes.drain(1), (0..9).map(|number| (consumer, number)).collect::<Vec<_>>());
    assert_eq!(lanes.lanes[0].counters().deliveries.failures, 0);
}

#[test]
fn at_most_sixty_four_events_of_a_channel_are_under_way_to_one_lane() {
    let (mut lanes, pool) = plain(&[1]);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    lanes.proxy(Side::Consumers, pool);
    for number in 0..100 {
        lanes.publish(0, source, number, None);
    }
    lanes.send_ready();
    assert_eq!(lanes.sent, 64);
    lanes.carry();
    assert_eq!((lanes.sent, lanes.drain(1).len()), (100, 100));
}

#[test]
fn what_a_lane_refuses_because_the_channel_is_gone_is_dropped_and_counted() {
    let (mut lanes, pool) = plain(&[1]);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    lanes.proxy(Side::Consumers, pool);
    lanes.publish(0, source, 1, None);
    lanes.lanes[1].handle_snapshot(Arc::default(), lanes.now);
    lanes.carry();
    let counters = lanes.lanes[0].counters();
    assert_eq!((counters.handovers.given, counters.handovers.refused, counters.discards.total()), (0, 1, 0));
    assert_eq!(lanes.memory(0), (0, 0));
}

#[test]
fn a_full_outbox_on_another_lane_holds_the_supplier_once_as_much_waits_for_that_lane() {
    for policy in [FullOutbox::Hold, FullOutbox::Reject] {
        let (mut lanes, pool) = Lanes::new(&[1], granted(), ChannelLimits::default());
        let patch = SettingsPatch { pool: pool.pool, ..SettingsPatch { full_outbox: Some(policy), ..max_events(4) } };
        let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
        let consumer = lanes.proxy(Side::Consumers, patch);
        let mut number = 0;
        let ticket = loop {
            match lanes.publish(0, source, number, None) {
                Admission::Accepted { .. } => lanes.carry(),
                Admission::Withheld(ticket) => break ticket,
                other => panic!("{other:?}"),
            }
            number += 1;
        };
        // Four wait for the consumer, 64 are under way and held, four wait for the lane, and one more was taken.
        assert_eq!(number, 4 + 64 + 4, "{policy:?}");
        let channel = lanes.channel;
        let withheld = Notice::SuppliersBlocked { channel, by: Some(BlockedBy::Lane(LaneId(1))) };
        assert_eq!(lanes.notices(0), [withheld]);
        let mut got = Vec::new();
        for _ in 0..=number {
            got.extend(lanes.drain(1));
            lanes.carry();
        }
        assert_eq!(lanes.released, [ticket]);
        let released = Notice::SuppliersReleased { channel, by: Some(BlockedBy::Lane(LaneId(1))), blocked_events: 1 };
        assert_eq!(lanes.notices(0), [released]);
        assert_eq!(got, (0..=number).map(|number| (consumer, number)).collect::<Vec<_>>());
        assert_eq!([0, 1].map(|lane| lanes.memory(lane)), [(0, 0); 2]);
    }
}

#[test]
fn a_channels_limits_are_divided_among_the_lanes_that_it_is_on() {
    let limits =
        ChannelLimits { max_queue_length: NonZeroU32::new(5), reject_new_events: true, ..ChannelLimits::default() };
    let (mut lanes, pool) = Lanes::new(&[1], SettingsPatch::default(), limits);
    let main = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    lanes.proxy(Side::Consumers, SettingsPatch::default());
    let fits = |lanes: &mut Lanes, lane, source| {
        (0..9)
            .take_while(|number| matches!(lanes.publish(lane, source, *number, None), Admission::Accepted { .. }))
            .count()
    };
    assert_eq!(fits(&mut lanes, 0, main), 5);
    lanes.drain(0);
    let source = lanes.proxy(Side::Suppliers, pool);
    assert_eq!(fits(&mut lanes, 0, main), 3);
    assert_eq!(fits(&mut lanes, 1, source), 2);
    let refused = lanes.publish(1, source, 0, None);
    assert_eq!(refused, Admission::Refused(Refusal::QueueFull { channel: lanes.channel, capacity_events: 2 }));
    let budget = limits.memory_budget_bytes;
    let weight = usize::try_from(budget / 2).unwrap();
    let mut pending_event = lanes.lanes[0].begin_event();
    pending_event.bytes.resize(weight, 0);
    let refused = lanes.lanes[0].handle_event(main, pending_event, &NoFields, lanes.now);
    let charged_bytes = weight as u64 + EVENT_OVERHEAD_BYTES + HOLDER_OVERHEAD_BYTES;
    assert_eq!(refused, Admission::Refused(Refusal::EventTooLarge { charged_bytes, budget_bytes: budget / 2 }));
}

#[test]
fn what_another_lane_has_too_much_of_blocks_and_is_not_refused() {
    let limits =
        ChannelLimits { max_queue_length: NonZeroU32::new(4), reject_new_events: true, ..ChannelLimits::default() };
    let (mut lanes, pool) = Lanes::new(&[1], SettingsPatch::default(), limits);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    let consumer = lanes.proxy(Side::Consumers, pool);
    for number in 0..4 {
        assert_eq!(lanes.publish(0, source, number, None), Admission::Accepted { destinations: 0 });
        lanes.carry();
    }
    assert_eq!((lanes.memory(1).0, lanes.withheld[1].len()), (4, 2), "two are beyond what the lane is to have");
    let refused = lanes.publish(0, source, 4, None);
    assert_eq!(refused, Admission::Refused(Refusal::QueueFull { channel: lanes.channel, capacity_events: 2 }));
    assert_eq!(lanes.drain(1), (0..4).map(|number| (consumer, number)).collect::<Vec<_>>());
    lanes.carry();
    assert_eq!([0, 1].map(|lane| lanes.memory(lane)), [(0, 0); 2]);
    assert_eq!(lanes.publish(0, source, 5, None), Admission::Accepted { destinations: 0 });
}

#[test]
fn a_mapping_filter_says_the_same_lane_wherever_it_is_asked() {
    let (mut lanes, pool) = plain(&[1, 10]);
    let source = lanes.proxy(Side::Suppliers, pool);
    let [high, low, plain] = [(); 3].map(|()| lanes.proxy(Side::Consumers, pool));
    for (consumer, value) in [(high, 50), (low, -3)] {
        let program = filter::Constraint::parse("TRUE", &filter::Limits::default()).unwrap();
        let constraint = FilterConstraint { types: Arc::new([]), program: Arc::new(program), value };
        let filter = lanes.hierarchy.create_filter(lanes.channel).unwrap();
        lanes.hierarchy.set_constraints(filter, vec![constraint], Some(0)).unwrap();
        let target = FilterTarget::Proxy(consumer);
        lanes.hierarchy.set_mapping(target, Mapping::Priority, Some(filter)).unwrap();
    }
    lanes.route();
    for (admitted, priority) in [(1, 5), (2, 10)] {
        lanes.publish(admitted, source, 1, Some(priority));
        lanes.carry();
        let at = |key, lane: i16| if lane == if priority < 10 { 1 } else { 2 } { vec![(key, 1)] } else { vec![] };
        let sorted = |mut got: Vec<_>| {
            got.sort_unstable();
            got
        };
        let expected = |mapped, lane| sorted([vec![(mapped, 1)], at(plain, lane)].concat());
        assert_eq!(sorted(lanes.drain(1)), expected(low, 1));
        assert_eq!(sorted(lanes.drain(2)), expected(high, 2));
    }
    // The thread's priority is asked before any filter.
    lanes.publish_with(1, source, 2, |event| event.thread_priority = Some(10));
    lanes.carry();
    assert_eq!((lanes.drain(1).len(), lanes.drain(2).len()), (0, 3));
}

#[test]
fn a_bridge_goes_with_the_last_consumer_that_it_leads_to() {
    let (mut lanes, pool) = plain(&[1]);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    let consumer = lanes.proxy(Side::Consumers, pool);
    lanes.publish(0, source, 1, None);
    let stale = lanes.lanes[0].poll_handover(lanes.now).unwrap();
    lanes.publish(0, source, 2, None);
    lanes.hierarchy.disconnect(consumer).unwrap();
    lanes.route();
    assert!(lanes.lanes[0].poll_handover(lanes.now).is_none());
    lanes.lanes[0].handle_outcome(stale.outbox, stale.serial, Outcome::Delivered, lanes.now);
    lanes.lanes[0].release(stale.event);
    lanes.lanes[0].handle_timeout(lanes.now);
    let counters = lanes.lanes[0].counters();
    assert_eq!((counters.handovers.given, counters.deliveries.unknown_outboxes, counters.discards.total()), (0, 1, 0));
    assert_eq!((lanes.memory(0), lanes.lanes[0].type_drops().count()), ((0, 0), 0));
    assert_eq!(lanes.publish(0, source, 3, None), Admission::Accepted { destinations: 0 });
    assert_eq!(lanes.lanes[0].counters().taken.unwanted, 1);
}

#[test]
fn a_lane_without_a_thread_is_replaced_by_the_main_lane() {
    let (mut lanes, pool) = plain(&[1, 10]);
    lanes.hierarchy.lane_unavailable(LaneId(2));
    let source = lanes.proxy(Side::Suppliers, pool);
    let consumer = lanes.proxy(Side::Consumers, pool);
    let snapshot = lanes.hierarchy.snapshot();
    assert_eq!(snapshot.lanes().iter().map(|lane| lane.id).collect::<Vec<_>>(), [LaneId(1)]);
    let lane_for = |priority| snapshot.supplier(source).unwrap().lane_for(priority);
    assert_eq!([1, 9, 10].map(lane_for), [LaneId(1), LaneId(1), LaneId::MAIN]);
    lanes.publish(1, source, 1, Some(10));
    lanes.carry();
    assert_eq!(lanes.drain(0), [(consumer, 1)]);
}

#[test]
fn what_arrives_out_of_order_from_other_lanes_is_delivered_in_the_order_of_arrival() {
    let (mut lanes, pool) = plain(&[1]);
    let [main, side] = [SettingsPatch::default(), pool].map(|patch| lanes.proxy(Side::Suppliers, patch));
    let consumer = lanes.proxy(Side::Consumers, pool);
    lanes.publish(0, main, 1, None);
    lanes.now = lanes.now + Duration::from_millis(1);
    lanes.publish(1, side, 2, None);
    lanes.publish(1, side, 3, None);
    lanes.carry();
    assert_eq!(lanes.drain(1), [1, 2, 3].map(|number| (consumer, number)));
}

#[test]
fn lanes_that_are_both_full_of_what_is_for_each_other_do_not_wait_for_each_other() {
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(8), ..ChannelLimits::default() };
    let (mut lanes, pool) = Lanes::new(&[1], full(FullOutbox::Hold), limits);
    let patches = [SettingsPatch { pool: None, ..pool }, pool];
    let sources = patches.map(|patch| lanes.proxy(Side::Suppliers, patch));
    let consumers = patches.map(|patch| lanes.proxy(Side::Consumers, patch));
    let mut tickets = Vec::new();
    for (lane, source) in sources.into_iter().enumerate() {
        for number in 0..9 {
            if let Admission::Withheld(ticket) = lanes.publish(lane, source, number, None) {
                tickets.push((lane, ticket, number));
            }
        }
    }
    // Each has room for four. One more is taken and held, and with it those that the supplier has under way.
    assert_eq!(
        tickets.iter().map(|(lane, _, number)| (*lane, *number)).collect::<Vec<_>>(),
        [(0, 4), (0, 5), (0, 6), (0, 7), (1, 4), (1, 5), (1, 6), (1, 7)]
    );
    let mut got = [Vec::new(), Vec::new()];
    for _ in 0..40 {
        lanes.carry();
        for (lane, got) in got.iter_mut().enumerate() {
            got.extend(lanes.drain(lane));
        }
    }
    assert_eq!(lanes.released.len(), tickets.len());
    assert_eq!([0, 1].map(|lane| lanes.memory(lane)), [(0, 0); 2]);
    for (lane, mut got) in got.into_iter().enumerate() {
        got.sort_unstable_by_key(|(_, number)| *number);
        let twice = (0..8).flat_map(|number| [(consumers[lane], number); 2]);
        assert!(got.into_iter().eq(twice), "each lane's consumer gets both suppliers' events");
    }
}

#[test]
fn what_waits_for_a_slow_lane_is_dropped_if_all_its_consumers_would_have_it_so() {
    let limits = ChannelLimits { max_queue_length: NonZeroU32::new(8), ..ChannelLimits::default() };
    for (policies, is_dropped) in [
        ([Some(FullOutbox::Discard), Some(FullOutbox::Discard)], true),
        // Unset is `Discard` at `MaxQueueLength`.
        ([Some(FullOutbox::Discard), None], true),
        ([None, None], true),
        ([Some(FullOutbox::Discard), Some(FullOutbox::Hold)], false),
        ([Some(FullOutbox::Reject), None], false),
    ] {
        let (mut lanes, pool) = Lanes::new(&[1], SettingsPatch::default(), limits);
        let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
        let consumers = policies.map(|full_outbox| lanes.proxy(Side::Consumers, SettingsPatch { full_outbox, ..pool }));
        let admissions: Vec<Admission> = (0..6).map(|number| lanes.publish(0, source, number, None)).collect();
        let (channel, lane) = (lanes.channel, LaneId(1));
        let counters = *lanes.lanes[0].counters();
        assert_eq!((counters.handovers.dropped, counters.discards.total()), (if is_dropped { 2 } else { 0 }, 0));
        let notices = lanes.notices(0);
        if !is_dropped {
            assert!(matches!(admissions[4..], [Admission::Withheld(_), Admission::Withheld(_)]), "{policies:?}");
            assert_eq!(notices, [Notice::SuppliersBlocked { channel, by: Some(BlockedBy::Lane(lane)) }]);
            continue;
        }
        assert!(admissions.iter().all(|admission| *admission == Admission::Accepted { destinations: 0 }));
        assert!(matches!(notices[..], [Notice::LaneBehind { backlog_events: 4, .. }]), "{notices:?}");
        lanes.carry();
        let got: Vec<u8> = lanes.drain(1).into_iter().filter(|(key, _)| *key == consumers[0]).map(|(_, n)| n).collect();
        assert_eq!(got, [2, 3, 4, 5]);
        assert_eq!(lanes.notices(0), [Notice::LaneCaughtUp { channel, lane, dropped: 2 }]);
    }
}

#[test]
fn each_lane_reports_when_an_event_is_complete_for_its_consumers_and_the_first_which_lanes_took_it_over() {
    let (mut lanes, pool) = plain(&[1, 2]);
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    lanes.proxy(Side::Consumers, SettingsPatch::default());
    let there = lanes.proxy(Side::Consumers, pool);
    let watch = NonZeroU64::new(9).unwrap();
    lanes.publish_with(0, source, 1, |event| {
        (event.priority, event.watch, event.watch_each) = (Some(2), Some(watch), true);
    });
    let completions = |lanes: &mut Lanes, lane: usize| -> Vec<Completion> {
        core::iter::from_fn(|| lanes.lanes[lane].poll_completion()).collect()
    };
    let begun = |consumer, bridges| [Completion::Begins { watch, consumer }, Completion::Begun { watch, bridges }];
    let here = lanes.drain(0)[0].0;
    let how = Disposition::Delivered;
    let reports = completions(&mut lanes, 0);
    assert_eq!(reports[..2], begun(here, 1));
    assert_eq!(reports[2..], [Completion::ForConsumer { watch, consumer: here, how }]);
    lanes.carry();
    assert_eq!(
        completions(&mut lanes, 0),
        [Completion::TakenOver { watch, by: LaneId(2) }, Completion::ForAll { watch }]
    );
    assert_eq!([completions(&mut lanes, 1), completions(&mut lanes, 2)], [vec![], begun(there, 0).to_vec()]);
    lanes.drain(2);
    let for_consumer = Completion::ForConsumer { watch, consumer: there, how };
    assert_eq!(completions(&mut lanes, 2), [for_consumer, Completion::ForAll { watch }]);
}

/// Suppliers on other lanes have had their answer, so that nothing can be refused to them.
#[test]
fn a_durable_consumer_that_is_full_has_no_other_lane_wait() {
    let (mut lanes, _) = Lanes::new(&[1], SettingsPatch::default(), ChannelLimits::default());
    let source = lanes.proxy(Side::Suppliers, SettingsPatch::default());
    let consumer = lanes.proxy(
        Side::Consumers,
        SettingsPatch {
            full_outbox: Some(FullOutbox::Reject),
            discard_policy: Some(DiscardPolicy::Fifo),
            ..max_events(2)
        },
    );
    lanes.hierarchy.make_durable(consumer).unwrap();
    lanes.hierarchy.leave(consumer).unwrap();
    lanes.route();
    for number in 0..5 {
        assert!(matches!(lanes.publish(1, source, number, None), Admission::Accepted { .. }));
        lanes.carry();
    }
    lanes.hierarchy.rejoin(consumer, Peer(77), OutputForm(0)).unwrap();
    lanes.route();
    assert_eq!(lanes.drain(0), [(consumer, 3), (consumer, 4)]);
}

/// A channel with a timer, on the main lane and lane 1.
fn with_timer(schedule: TimerSchedule, patch: SettingsPatch) -> (Lanes, SettingsPatch) {
    let (mut lanes, pool) = Lanes::new(&[1], patch, ChannelLimits::default());
    let timer = TimerSettings { name: "timer".into(), schedule, priority: None };
    lanes.hierarchy.set_timers(lanes.channel, vec![timer]).unwrap();
    lanes.route();
    (lanes, pool)
}

#[test]
fn an_event_on_another_lane_ends_a_silence_and_the_main_lane_publishes_the_next() {
    let ms = Duration::from_millis(1);
    let silence = TimerSchedule::Silence { period: ms * 50, types: Vec::new() };
    let (mut lanes, pool) = with_timer(silence, SettingsPatch::default());
    let source = lanes.proxy(Side::Suppliers, pool);
    lanes.now = lanes.now + ms * 40;
    lanes.publish(1, source, 7, None);
    let mut looks = u32::MAX;
    lanes.now = lanes.now + ms * 40;
    assert!(lanes.lanes[0].poll_timer(lanes.now, &mut looks).is_none());
    lanes.now = lanes.now + ms * 10;
    assert!(lanes.lanes[1].poll_timer(lanes.now, &mut looks).is_none(), "the main lane fires all");
    assert!(lanes.lanes[0].poll_timer(lanes.now, &mut looks).is_some());
}

/// A consumer that was full on another lane had the hand-overs of timers' events withheld, and all consumers there missed two of three.
#[test]
fn a_full_consumer_on_another_lane_gets_no_events_of_timers_and_the_others_there_get_all() {
    let ms = Duration::from_millis(1);
    let (mut lanes, pool) = with_timer(TimerSchedule::Every(ms * 10), granted());
    let three = NonZeroU32::new(3);
    let bounded = SettingsPatch { max_events_per_consumer: Some(three), full_outbox: Some(FullOutbox::Hold), ..pool };
    let slow = lanes.proxy(Side::Consumers, bounded);
    lanes.hierarchy.suspend(slow).unwrap();
    let fast = lanes.proxy(Side::Consumers, pool);
    let mut got = 0;
    for number in 0..200 {
        lanes.now = lanes.now + ms * 10;
        let due = lanes.lanes[0].poll_timer(lanes.now, &mut 1).unwrap();
        let mut pending_event = lanes.lanes[0].begin_event();
        pending_event.bytes.push(number);
        lanes.lanes[0].classify(&mut pending_event, TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes());
        let outcome = lanes.lanes[0].handle_timer_event(&due, pending_event, &NoFields, lanes.now);
        assert_eq!(outcome, TimerOutcome::Published);
        lanes.carry();
        got += lanes.drain(1).iter().filter(|(key, _)| *key == fast).count();
    }
    assert_eq!((got, lanes.lanes[0].counters().handovers.dropped), (200, 0));
    let notices = lanes.notices(1);
    assert!(!notices.iter().any(|notice| matches!(notice, Notice::SuppliersBlocked { .. })), "{notices:?}");
    assert_eq!(lanes.lanes[1].counters().discards.of(DiscardReason::OutboxFull), 197);
}

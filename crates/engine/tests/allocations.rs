//! In the steady state the event path allocates nothing: counted, not estimated.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use campanile_engine as engine;
use engine::{
    AdminId, Admission, ChannelId, ChannelLimits, Delivery, DiscardPolicy, DiscardReason, Discipline, Event, EventType,
    FilterConstraint, FilterRef, FilterTarget, Forms, FullOutbox, Handover, Hierarchy, Lane, LaneId, LaneSpec, Mapping,
    NoFields, OrderPolicy, Outcome, OutputForm, Peer, PoolSpec, PriorityModel, ProxyKey, ProxyKind, Refusal,
    SettingsPatch, Side, TIMER_DOMAIN, TIMER_TYPE, Time, TimerOutcome, TimerSchedule, TimerSettings, TopicSettings,
    Topics,
};
use filter::correlation::{Correlation, CorrelationLimits};
use testing::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_during(work: impl FnOnce()) -> u64 {
    let before = allocations();
    work();
    allocations() - before
}

/// A lane with one supplier and some consumers, and a protocol that answers as it is set to.
struct Rig {
    lane: Lane,
    source: ProxyKey,
    unanswered: VecDeque<(Delivery, Arc<Event>)>,
    events: Vec<Arc<Event>>,
    /// The consumers.
    keys: Vec<ProxyKey>,
    /// Says what an event's header says, by its number.
    header: fn(u64, Time, &mut Event),
    tickets: u64,
    now: Time,
}

impl Rig {
    fn new(consumers: u32, patch: SettingsPatch, limits: ChannelLimits) -> Result<Self, Refusal> {
        Self::with(ProxyKind::default(), consumers, patch, limits)
    }

    fn with(kind: ProxyKind, consumers: u32, patch: SettingsPatch, limits: ChannelLimits) -> Result<Self, Refusal> {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(patch, limits)?;
        Self::of(hierarchy, channel, kind, consumers)
    }

    fn with_topics(topics: Topics, consumers: u32) -> Result<Self, Refusal> {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default())?;
        hierarchy.set_topics(channel, topics)?;
        Self::of(hierarchy, channel, ProxyKind::default(), consumers)
    }

    fn of(hierarchy: Hierarchy, channel: ChannelId, kind: ProxyKind, consumers: u32) -> Result<Self, Refusal> {
        Self::correlated((hierarchy, channel), kind, consumers, None)
    }

    fn correlated(
        (mut hierarchy, channel): (Hierarchy, ChannelId),
        kind: ProxyKind,
        consumers: u32,
        correlation: Option<Arc<Correlation>>,
    ) -> Result<Self, Refusal> {
        let mut connect = |side, peer| {
            let kind = if side == Side::Consumers { kind } else { ProxyKind::default() };
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, engine::Form(1), kind)?;
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(peer)), OutputForm(0))?;
            Ok::<ProxyKey, Refusal>(key)
        };
        let source = connect(Side::Suppliers, 0)?;
        let keys = (1..=consumers).map(|consumer| connect(Side::Consumers, u64::from(consumer)));
        let keys = keys.collect::<Result<Vec<ProxyKey>, Refusal>>()?;
        keys.iter().try_for_each(|key| hierarchy.set_correlation(*key, correlation.clone()))?;
        let now = Time(0);
        let mut lane = Lane::new(now);
        lane.handle_snapshot(hierarchy.snapshot(), now);
        let unanswered = VecDeque::with_capacity(64);
        Ok(Self { lane, source, unanswered, events: Vec::new(), keys, header: |_, _, _| (), tickets: 0, now })
    }

    fn schedule_event(&mut self, number: u64) {
        let mut pending_event = self.lane.begin_event_for(368);
        pending_event.bytes.resize(368, 0);
        let name: &[u8] = if number.is_multiple_of(2) { b"Status" } else { b"Alarm" };
        self.lane.classify(&mut pending_event, b"Telescope", name);
        self.now = Time(self.now.0 + 1_000);
        self.lane.schedule_event(self.source, pending_event, number, self.now);
    }

    fn publish(&mut self, bytes: usize, number: u64) -> Admission {
        let mut pending_event = self.lane.begin_event_for(bytes);
        pending_event.bytes.resize(bytes, 0);
        pending_event.alternates.push(OutputForm(9)).bytes.extend_from_slice(b"translated");
        let name: &[u8] = if number.is_multiple_of(2) { b"Status" } else { b"Alarm" };
        self.lane.classify(&mut pending_event, b"Telescope", name);
        self.now = Time(self.now.0 + 1_000);
        (self.header)(number, self.now, &mut pending_event);
        self.lane.handle_event(self.source, pending_event, &NoFields, self.now)
    }

    fn poll(&mut self) {
        self.lane.gather_sets(&NoFields, self.now);
        while let Some(delivery) = self.lane.poll_delivery(self.now, &mut self.events) {
            self.unanswered.extend(self.events.pop().map(|event| (delivery, event)));
            self.events.drain(..).for_each(|event| self.lane.release(event));
        }
        while self.lane.poll_release().is_some() {
            self.tickets += 1;
        }
        while self.lane.poll_notice().is_some() {}
        while self.lane.poll_timed_out().is_some() {}
    }

    fn answer(&mut self, outcome: Outcome) {
        if let Some((delivery, event)) = self.unanswered.pop_front() {
            self.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, self.now);
            self.lane.release(event);
        }
    }

    fn drain(&mut self) {
        self.poll();
        while !self.unanswered.is_empty() {
            self.answer(Outcome::Delivered);
            self.poll();
        }
    }
}

#[test]
fn events_delivered_at_once_allocate_nothing() {
    let mut rig = Rig::new(3, SettingsPatch::default(), ChannelLimits::default()).unwrap();
    let mut run = |events: u64| {
        for number in 0..events {
            rig.publish(368, number);
            rig.drain();
        }
    };
    run(10);
    assert_eq!(allocations_during(|| run(10_000)), 0);
}

#[test]
fn timers_and_the_events_that_end_silences_allocate_nothing() {
    let millis = Duration::from_millis(1);
    let timer = |name: &str, schedule| TimerSettings { name: name.into(), schedule, priority: Some(3) };
    let silence = |types| TimerSchedule::Silence { period: 3 * millis, types };
    let timers = vec![
        timer("tick", TimerSchedule::Every(millis)),
        timer("quiet", silence(Vec::new())),
        timer("calm", silence(vec![EventType::new("Telescope", "Al*")])),
    ];
    let mut hierarchy = Hierarchy::default();
    let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    hierarchy.set_timers(channel, timers).unwrap();
    let mut rig = Rig::of(hierarchy, channel, ProxyKind::default(), 3).unwrap();
    let mut fired = 0;
    let mut run = |rounds: u64| {
        for number in 0..rounds {
            // Every few rounds nothing comes.
            if number % 16 < 8 {
                rig.publish(368, number);
            }
            rig.now = rig.now + millis;
            rig.lane.handle_timeout(rig.now);
            let mut looks = u32::MAX;
            while let Some(due) = rig.lane.poll_timer(rig.now, &mut looks) {
                let mut pending_event = rig.lane.begin_event_for(256);
                pending_event.bytes.resize(128, 0);
                rig.lane.classify(&mut pending_event, TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes());
                let outcome = rig.lane.handle_timer_event(&due, pending_event, &NoFields, rig.now);
                assert_eq!(outcome, TimerOutcome::Published);
                fired += 1;
            }
            rig.drain();
        }
    };
    run(64);
    assert_eq!(allocations_during(|| run(10_000)), 0);
    assert!(fired > 11_000, "{fired}");
}

#[test]
fn events_of_changing_size_allocate_nothing() {
    let mut rig = Rig::new(3, SettingsPatch::default(), ChannelLimits::default()).unwrap();
    let mut run = |events: u64| {
        for (number, bytes) in (0..events).zip([64, 34_000, 700, 1_000_000].into_iter().cycle()) {
            rig.publish(bytes, number);
            rig.drain();
        }
    };
    run(10);
    assert_eq!(allocations_during(|| run(1_000)), 0);
}

/// Some events wait for others, some are displaced, and each set is taken after the next is complete.
#[test]
fn sets_of_events_allocate_nothing() {
    for batches in [false, true] {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let text = "Telescope/Status and Alarm and Alarm keep 5";
        let correlation = Arc::new(Correlation::parse(text, &CorrelationLimits::default()).unwrap());
        let kind = ProxyKind { batches, ..ProxyKind::default() };
        let mut rig = Rig::correlated((hierarchy, channel), kind, 3, Some(correlation)).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut run = |events: u64| {
            for number in 0..events {
                rig.publish(368, random.u64(0..4));
                if number.is_multiple_of(8) {
                    rig.drain();
                }
            }
            rig.drain();
        };
        run(4_000);
        assert_eq!(allocations_during(|| run(10_000)), 0, "{batches}");
        let discards = rig.lane.counters().discards;
        let delivered = rig.lane.counters().deliveries.delivered;
        assert!(discards.of(DiscardReason::Uncorrelated) > 1_000 && delivered > 10_000, "{discards:?}, {delivered}");
    }
}

#[test]
fn events_that_wait_for_their_turn_allocate_nothing() {
    let disciplines =
        [Discipline::Shares, Discipline::EarliestDeadline, Discipline::LeastLaxity, Discipline::MaximumUrgency];
    for discipline in disciplines {
        let topics = Topics {
            by_type: vec![(
                EventType::new("Telescope", "Alarm"),
                TopicSettings { share: 7, ..TopicSettings::default() },
            )],
            ..Topics::default()
        };
        let mut rig = Rig::with_topics(topics, 3).unwrap();
        rig.lane.set_discipline(discipline);
        assert!(rig.lane.schedules_topics());
        let mut run = |bursts: u64| {
            for burst in 0..bursts {
                (0..64).for_each(|number| rig.schedule_event(burst * 64 + number));
                while let Some(scheduled) = rig.lane.poll_scheduled(rig.now) {
                    rig.lane.handle_event(scheduled.source, scheduled.pending_event.unwrap(), &NoFields, rig.now);
                    rig.drain();
                }
            }
        };
        run(10);
        assert_eq!(allocations_during(|| run(200)), 0, "{discipline:?}");
        assert_eq!(rig.lane.counters().taken.queued_max, 64);
    }
}

/// Events of which every field is a number: the first byte of the event.
struct FirstByte;

struct Numbers(i64);

impl Forms for FirstByte {
    type Fields<'e> = Numbers;

    fn fields<'e>(&'e self, event: &'e Event) -> Numbers {
        Numbers(event.bytes.first().copied().unwrap_or(0).into())
    }
}

impl filter::Fields for Numbers {
    fn field<'f>(&'f self, _: &filter::Path, steps: &mut filter::Steps) -> Option<filter::Value<'f>> {
        steps.take(1).then_some(filter::Value::Int(self.0))
    }

    fn contains(&self, _: &filter::Path, _: &filter::Value<'_>, _: &mut filter::Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

#[test]
fn filters_allocate_nothing() {
    let mut hierarchy = Hierarchy::default();
    let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    let kind = ProxyKind::default();
    let mut connect = |side, texts: &[String]| {
        let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, engine::Form(1), kind).unwrap();
        let key = ProxyKey { channel, proxy };
        hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
        let constraints = texts.iter().zip(1..).map(|(text, value)| {
            let program = filter::Constraint::parse(text, &filter::Limits::default()).unwrap();
            FilterConstraint { types: Arc::new([]), program: Arc::new(program), value }
        });
        let filter = hierarchy.create_filter(channel).unwrap();
        hierarchy.set_constraints(filter, constraints.collect(), None).unwrap();
        hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter)).unwrap();
        if side == Side::Consumers {
            hierarchy.set_mapping(FilterTarget::Proxy(key), Mapping::Priority, Some(filter)).unwrap();
        }
        key
    };
    let source = connect(Side::Suppliers, &["$n < 50".into()]);
    for consumer in 0..20 {
        connect(Side::Consumers, &[format!("$n == {consumer}"), format!("$n % 7 == {consumer}"), "$n > 40".into()]);
    }
    let now = Time(0);
    let mut lane = Lane::new(now);
    lane.handle_snapshot(hierarchy.snapshot(), now);
    let mut events = Vec::with_capacity(64);
    let mut delivered = 0;
    let mut run = |rounds: u64| {
        for number in (0..60).cycle().take(60 * usize::try_from(rounds).unwrap()) {
            let mut pending_event = lane.begin_event();
            pending_event.bytes.push(number);
            lane.classify(&mut pending_event, b"Telescope", b"Status");
            lane.handle_event(source, pending_event, &FirstByte, now);
            while let Some(delivery) = lane.poll_delivery(now, &mut events) {
                lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, now);
                events.drain(..).for_each(|event| lane.release(event));
                delivered += 1;
            }
        }
    };
    run(2);
    assert_eq!(allocations_during(|| run(50)), 0);
    assert!(delivered > 52 * 100, "{delivered}");
}

#[test]
fn a_backlog_that_comes_and_goes_allocates_nothing() {
    let patch = SettingsPatch { push_window: Some(4), ..SettingsPatch::default() };
    let mut rig = Rig::new(3, patch, ChannelLimits::default()).unwrap();
    let mut run = |cycles: u64| {
        for _ in 0..cycles {
            for number in 0..500 {
                rig.publish(368, number);
                rig.poll();
            }
            rig.drain();
        }
    };
    run(2);
    assert_eq!(allocations_during(|| run(20)), 0);
}

#[test]
fn failures_and_retries_allocate_nothing() {
    let patch = SettingsPatch { push_window: Some(4), ..SettingsPatch::default() };
    let mut rig = Rig::new(3, patch, ChannelLimits::default()).unwrap();
    let mut run = |cycles: u64| {
        let outcomes = [Outcome::Refused, Outcome::Delivered, Outcome::Unreachable].into_iter().cycle();
        for (number, outcome) in (0..cycles).zip(outcomes) {
            rig.publish(368, number);
            rig.poll();
            rig.answer(outcome);
            rig.now = Time(rig.now.0 + 6_000_000_000);
            rig.lane.handle_timeout(rig.now);
            rig.drain();
        }
    };
    run(100);
    assert_eq!(allocations_during(|| run(3_000)), 0);
}

#[test]
fn holding_suppliers_and_letting_them_go_allocates_nothing() {
    let limits = ChannelLimits { memory_budget_bytes: 100_000, ..ChannelLimits::default() };
    for policy in [FullOutbox::Hold, FullOutbox::Discard, FullOutbox::Reject] {
        let patch = SettingsPatch { full_outbox: Some(policy), ..SettingsPatch::default() };
        let mut rig = Rig::new(3, patch, limits).unwrap();
        let mut run = |cycles: u64| {
            for _ in 0..cycles {
                for number in 0..200 {
                    rig.publish(368, number);
                    rig.poll();
                }
                rig.drain();
            }
        };
        run(3);
        assert_eq!(allocations_during(|| run(20)), 0, "{policy:?}");
        assert_eq!(rig.tickets > 0, policy == FullOutbox::Hold);
    }
}

#[test]
fn events_that_are_sorted_discarded_and_expire_allocate_nothing() {
    for order in [OrderPolicy::Fifo, OrderPolicy::Priority, OrderPolicy::Deadline] {
        for discard in [DiscardPolicy::Fifo, DiscardPolicy::Lifo, DiscardPolicy::Priority, DiscardPolicy::Deadline] {
            let patch = SettingsPatch {
                order_policy: Some(order),
                discard_policy: Some(discard),
                max_events_per_consumer: Some(NonZeroU32::new(100)),
                start_time_supported: Some(true),
                stop_time_supported: Some(true),
                ..SettingsPatch::default()
            };
            let mut rig = Rig::new(3, patch, ChannelLimits::default()).unwrap();
            rig.header = |number, now, event| {
                event.priority = i16::try_from(number * 7 % 11).ok();
                event.timeout = number.is_multiple_of(3).then_some(Duration::from_micros(number % 90));
                event.start = number.is_multiple_of(5).then_some(now + Duration::from_micros(number % 40));
                event.stop = number.is_multiple_of(7).then_some(now + Duration::from_micros(number % 70));
            };
            let mut run = |cycles: u64| {
                for _ in 0..cycles {
                    for number in 0..300 {
                        rig.publish(368, number);
                        rig.lane.handle_timeout(rig.now);
                        rig.poll();
                    }
                    rig.drain();
                }
                rig.lane.counters().discards
            };
            let discards = run(3);
            assert!(discards.of(DiscardReason::Expired) > 0 && discards.of(DiscardReason::OutboxFull) > 0);
            assert_eq!(allocations_during(|| _ = run(20)), 0, "{order:?} {discard:?}");
        }
    }
}

#[test]
fn batches_pushed_and_pulled_allocate_nothing() {
    for pull in [false, true] {
        let patch = SettingsPatch {
            batch_size_max: NonZeroU32::new(8),
            pacing_interval: Some(Duration::from_micros(20)),
            push_window: Some(3),
            ..SettingsPatch::default()
        };
        let kind = ProxyKind { pull, batches: true, ..ProxyKind::default() };
        let mut rig = Rig::with(kind, 3, patch, ChannelLimits::default()).unwrap();
        let outcomes = [Outcome::Delivered, Outcome::Filtered, Outcome::Unreachable, Outcome::Delivered];
        let mut run = |cycles: u64| {
            for (_, outcome) in (0..cycles).zip(outcomes.into_iter().cycle()) {
                for key in rig.keys.iter().filter(|_| pull) {
                    rig.lane.await_events(*key, 5, rig.now).unwrap();
                }
                for number in 0..20 {
                    rig.publish(368, number);
                    rig.lane.handle_timeout(rig.now);
                    rig.poll();
                }
                rig.answer(outcome);
                rig.now = Time(rig.now.0 + 6_000_000_000);
                rig.lane.handle_timeout(rig.now);
                for at in 0..3 {
                    while pull && let Some(key) = rig.keys.get(at).copied() {
                        let Some(delivery) = rig.lane.pull(key, 8, &mut rig.events, rig.now).unwrap() else { break };
                        rig.unanswered.extend(rig.events.pop().map(|event| (delivery, event)));
                        rig.events.drain(..).for_each(|event| rig.lane.release(event));
                    }
                }
                rig.drain();
            }
        };
        run(100);
        assert_eq!(allocations_during(|| run(1_000)), 0, "pull: {pull}");
        assert!(rig.lane.counters().deliveries.delivered > 2 * rig.lane.counters().deliveries.begun);
    }
}

/// A service grew by 52 KiB for each thousand consumers that had gone without all of their events: the table of what was dropped was made
/// anew.
#[test]
fn consumers_that_go_without_their_events_cost_no_new_table() {
    let mut hierarchy = Hierarchy::default();
    let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
    let connect = |hierarchy: &mut Hierarchy, side| {
        let proxy =
            hierarchy.create_proxy(channel, side, AdminId::DEFAULT, engine::Form(1), ProxyKind::default()).unwrap();
        let key = ProxyKey { channel, proxy };
        hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
        key
    };
    let source = connect(&mut hierarchy, Side::Suppliers);
    let now = Time(0);
    let mut lane = Lane::new(now);
    let mut visit = || {
        let key = connect(&mut hierarchy, Side::Consumers);
        let come = hierarchy.snapshot();
        let mut allocations = allocations_during(|| lane.handle_snapshot(come, now));
        let mut pending_event = lane.begin_event_for(368);
        pending_event.bytes.resize(368, 0);
        lane.classify(&mut pending_event, b"Telescope", b"Status");
        lane.handle_event(source, pending_event, &NoFields, now);
        hierarchy.destroy_proxy(key).unwrap();
        let gone = hierarchy.snapshot();
        allocations += allocations_during(|| lane.handle_snapshot(gone, now));
        while lane.next_timeout() == Some(now) {
            lane.handle_timeout(now);
        }
        allocations
    };
    // With each snapshot a list of channels; what consumers that come and go need at most, the first ones have made.
    assert_eq!((0..5_000).map(|_| visit()).skip(1_000).max(), Some(2));
    assert_eq!(lane.counters().discards.of(DiscardReason::Removed), 5_000);
    assert!(lane.type_drops_beyond() >= 3_000, "the table was full more than once: {}", lane.type_drops_beyond());
}

/// Two lanes, one with the supplier and one with the consumers, and a queue between them.
struct Pair {
    here: Lane,
    there: Lane,
    source: ProxyKey,
    queue: VecDeque<Handover>,
    events: Vec<Arc<Event>>,
    now: Time,
}

impl Pair {
    fn new() -> Result<Self, Refusal> {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default())?;
        let spec = PoolSpec {
            model: PriorityModel::ClientPropagated,
            server_priority: 0,
            lanes: vec![LaneSpec { priority: 1, threads: 1 }],
            discipline: Discipline::default(),
            queue_events_max: 64,
        };
        let pool = Some(hierarchy.create_pool(spec)?);
        let patch = SettingsPatch { pool, ..SettingsPatch::default() };
        hierarchy.set_admin_settings(channel, Side::Consumers, AdminId::DEFAULT, patch)?;
        let mut connect = |side| {
            let kind = ProxyKind::default();
            let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, engine::Form(1), kind)?;
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(1)), OutputForm(0))?;
            Ok::<ProxyKey, Refusal>(key)
        };
        let source = connect(Side::Suppliers)?;
        for _ in 0..3 {
            connect(Side::Consumers)?;
        }
        let (now, snapshot) = (Time(0), hierarchy.snapshot());
        let [here, there] = [LaneId::MAIN, LaneId(1)].map(|id| {
            let mut lane = Lane::with_id(id, now);
            lane.handle_snapshot(Arc::clone(&snapshot), now);
            lane
        });
        Ok(Self { here, there, source, queue: VecDeque::with_capacity(64), events: Vec::new(), now })
    }

    /// Publishes some events, one after the other, and hands them over together.
    fn publish(&mut self, events: u64) {
        for number in 0..events {
            self.now = Time(self.now.0 + 1_000);
            let mut pending_event = self.here.begin_event_for(300);
            pending_event.bytes.resize(300, 0);
            pending_event.alternates.push(OutputForm(9)).bytes.extend_from_slice(b"translated");
            let name: &[u8] = if number.is_multiple_of(2) { b"Status" } else { b"Alarm" };
            self.here.classify(&mut pending_event, b"Telescope", name);
            let admission = self.here.handle_event(self.source, pending_event, &NoFields, self.now);
            assert_eq!(admission, Admission::Accepted { destinations: 0 });
        }
        while let Some(handover) = self.here.poll_handover(self.now) {
            self.queue.push_back(handover);
        }
        while let Some(handover) = self.queue.pop_front() {
            let pending_event = self.there.begin_handover(&handover.event);
            let admission = self.there.handle_handover(&handover.event, pending_event, &NoFields, self.now);
            assert_eq!(admission, Admission::Accepted { destinations: 3 });
            self.here.handle_outcome(handover.outbox, handover.serial, Outcome::Delivered, self.now);
            self.here.release(handover.event);
        }
        while let Some(delivery) = self.there.poll_delivery(self.now, &mut self.events) {
            self.there.handle_outcome(delivery.outbox, delivery.serial, Outcome::Delivered, self.now);
            self.events.drain(..).for_each(|event| self.there.release(event));
        }
    }
}

#[test]
fn hand_overs_allocate_nothing_on_either_side() {
    let mut pair = Pair::new().unwrap();
    let mut run = |rounds: u64| {
        for round in 0..rounds {
            pair.publish(round % 7 + 1);
        }
    };
    run(50);
    assert_eq!(allocations_during(|| run(3_000)), 0);
}

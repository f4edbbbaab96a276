//! Several lanes side by side, with hand-overs between them through bounded queues, in random order.
//!
//! [`run`](crate::run) compares a single lane with the model, operation by operation. Here the interaction of lanes is
//! checked: each consumer gets every event of its subscription exactly once, in order, on the lane of the priority
//! that the event has for it; each event goes to another lane at most once and for a consumer there; lanes block each
//! other where there is no room, and release each other again.

mod model;
mod transport;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    AdminId, Admission, ChannelId, ChannelLimits, Discipline, EventType, FilterConstraint, FilterId, FilterRef,
    FilterTarget, Form, FullOutbox, Hierarchy, HierarchyLimits, LaneChange, LaneSpec, Mapping, Operator, Outcome,
    OutputForm, Peer, PoolSpec, PriorityModel, ProxyKey, ProxyKind, Refusal, SettingsPatch, Side, Snapshot,
    SubscriptionTarget, Time,
};
use fastrand::Rng;

use crate::Mismatch;
use crate::model::FIELD_NAMES;
use crate::random::{Bytes, DOMAINS, NAMES, PATTERNS};
use model::{Consumer, MapsPriority, Model, Pool, Published, Supplier};
use transport::Node;

/// Counts of a run with several lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanesSummary {
    /// Lanes, the main one included.
    pub lanes: u64,
    /// Events taken.
    pub accepted: u64,
    /// Events taken with a withheld reply.
    pub withheld: u64,
    /// Events refused.
    pub refused: u64,
    /// Events handed over, counted once for each lane.
    pub handed_over: u64,
    /// Hand-overs that the other lane blocked.
    pub handed_and_withheld: u64,
    /// Hand-overs that found a queue full.
    pub no_room: u64,
    /// Events delivered, counted once for each consumer.
    pub delivered: u64,
    /// Events dropped, by the consumers' own settings.
    pub dropped: u64,
    /// Events dropped while they waited to be handed over, as the settings of all consumers there require.
    pub dropped_on_the_way: u64,
    /// Consumers disconnected while events were on their way.
    pub disconnected: u64,
    /// Consumers reconnected to the same proxy, mostly on another lane.
    pub reconnected: u64,
    /// Subscriptions that changed while events were on their way.
    pub subscribed: u64,
}

/// Runs `operations` random operations from `seed` on several lanes, then drains everything; `trace` is called with
/// each one.
///
/// # Errors
///
/// The first [`Mismatch`].
pub fn run_lanes(seed: u64, operations: u32, trace: &mut dyn FnMut(&str)) -> Result<LanesSummary, Mismatch> {
    let at = |operation| move |difference| Mismatch { seed, operation, difference };
    let mut run = Run::new(seed).map_err(|refusal| at(0)(refusal.to_string()))?;
    for operation in 0..operations {
        let done = run.operate().map_err(at(operation))?;
        trace(&format!("{operation:4} at {:>12}: {done}", run.now.0));
    }
    run.drain().map_err(at(operations))?;
    run.conclude_all().map_err(at(operations))
}

/// Policies of consumers' full outboxes. Only with the last two may events be lost.
const POLICIES: [Option<FullOutbox>; 4] =
    [Some(FullOutbox::Hold), Some(FullOutbox::Reject), Some(FullOutbox::Discard), None];

pub(crate) struct Run {
    random: Rng,
    now: Time,
    hierarchy: Hierarchy,
    /// The published snapshot; each lane picks it up in its own time.
    current: Arc<Snapshot>,
    nodes: Vec<Node>,
    queue_max: usize,
    channel: ChannelId,
    patches: Vec<SettingsPatch>,
    policy: Option<FullOutbox>,
    model: Model,
    summary: LanesSummary,
}

impl Run {
    fn new(seed: u64) -> Result<Self, Refusal> {
        let (random, now) = (Rng::with_seed(seed), Time(1_000_000));
        let hierarchy = Hierarchy::new(HierarchyLimits::default());
        let policy = POLICIES[usize::try_from(seed % 4).unwrap_or(0)];
        let mut run = Self {
            random,
            now,
            hierarchy,
            current: Arc::default(),
            nodes: vec![Node::new(0, now)],
            queue_max: 1,
            channel: ChannelId(0),
            patches: vec![],
            policy,
            model: Model::default(),
            summary: LanesSummary::default(),
        };
        run.set_up()?;
        Ok(run)
    }

    fn set_up(&mut self) -> Result<(), Refusal> {
        self.queue_max = [1, 2, 5, 100][self.random.usize(..4)];
        let limits = self.limits();
        let max_events = [None, NonZeroU32::new(1), NonZeroU32::new(3)][self.random.usize(..3)];
        let patch = SettingsPatch {
            full_outbox: self.policy,
            max_events_per_consumer: Some(max_events),
            give_up_after: Some(Duration::ZERO),
            ..SettingsPatch::default()
        };
        let patch = SettingsPatch { hold_granted: Some(true), ..patch };
        self.channel = self.hierarchy.create_channel(patch, limits)?;
        for _ in 0..self.random.usize(1..3) {
            self.create_pool(patch)?;
        }
        if self.random.bool() {
            let patch = self.patches[0];
            self.hierarchy.set_channel_settings(self.channel, patch)?;
        }
        for _ in 0..self.random.u32(1..4) {
            self.create_supplier()?;
        }
        for _ in 0..self.random.u32(1..7) {
            self.create_consumer()?;
        }
        self.publish_routing();
        (0..self.nodes.len()).for_each(|at| self.pick_up(at));
        self.summary.lanes = self.nodes.len() as u64;
        Ok(())
    }

    fn limits(&mut self) -> ChannelLimits {
        ChannelLimits {
            memory_budget_bytes: [16_000, 60_000, 1 << 24][self.random.usize(..3)],
            max_queue_length: [None, None, NonZeroU32::new(3), NonZeroU32::new(12)][self.random.usize(..4)],
            reject_new_events: self.random.u32(..4) == 0,
            ..ChannelLimits::default()
        }
    }

    /// Creates a pool for some proxies, used by an admin so that it does not end.
    fn create_pool(&mut self, patch: SettingsPatch) -> Result<(), Refusal> {
        let priorities: &[i16] = [&[0][..], &[5], &[0, 5], &[0, 2, 5], &[1, 2]][self.random.usize(..5)];
        let lanes: Vec<LaneSpec> = priorities
            .iter()
            .map(|priority| LaneSpec { priority: *priority, threads: self.random.u16(1..3) })
            .collect();
        let propagated = self.random.u32(..4) > 0;
        let model = if propagated { PriorityModel::ClientPropagated } else { PriorityModel::ServerDeclared };
        let (declared, discipline) = (self.random.i16(0..7), Discipline::default());
        let spec = PoolSpec { model, server_priority: declared, lanes, discipline, queue_events_max: 9 };
        let pool = self.hierarchy.create_pool(spec)?;
        let mut known =
            Pool { model, declared, lanes: priorities.iter().map(|priority| (*priority, vec![])).collect() };
        while let Some(change) = self.hierarchy.poll_lane() {
            if let LaneChange::Started(info) = change {
                self.nodes.push(Node::new(info.id.0, self.now));
                let level = known.lanes.iter_mut().find(|(priority, _)| *priority == info.priority);
                level.into_iter().for_each(|(_, threads)| threads.push(info.id));
            }
        }
        self.model.pools.push(known);
        let patch = SettingsPatch { pool: Some(pool), ..patch };
        let admin = self.hierarchy.create_admin(self.channel, Side::Consumers, Operator::And)?;
        self.hierarchy.set_admin_settings(self.channel, Side::Consumers, admin, patch)?;
        self.patches.push(patch);
        Ok(())
    }

    // ---- suppliers and consumers ----

    /// Creates a proxy with a pool of its own or the channel's, unless it is on the main lane. Returns it with the index of its pool.
    fn create_proxy(&mut self, side: Side, priority: Option<i16>) -> Result<(ProxyKey, Option<usize>), Refusal> {
        let channel = self.channel;
        let kind = ProxyKind { on_main_lane: self.random.u32(..6) == 0, ..ProxyKind::default() };
        let proxy = self.hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), kind)?;
        let key = ProxyKey { channel, proxy };
        let of_channel = self.hierarchy.channel(channel)?.patch().pool.map(|_| 0);
        let own = (self.random.u32(..3) > 0).then(|| self.random.usize(..self.patches.len()));
        let pool = own.and_then(|own| self.patches[own].pool);
        self.hierarchy.set_proxy_settings(key, SettingsPatch { pool, priority, ..SettingsPatch::default() })?;
        Ok((key, own.or(of_channel).filter(|_| !kind.on_main_lane)))
    }

    fn create_supplier(&mut self) -> Result<(), Refusal> {
        let priority = [0, 0, 2, 9][self.random.usize(..4)];
        let (key, pool) = self.create_proxy(Side::Suppliers, Some(priority))?;
        self.hierarchy.connect(key, None, OutputForm(0))?;
        self.model.suppliers.push(Supplier { key, pool, priority, ticket: None });
        Ok(())
    }

    /// Creates a consumer for some types, perhaps with a filter and a mapping filter for priority.
    fn create_consumer(&mut self) -> Result<ProxyKey, Refusal> {
        let (key, pool) = self.create_proxy(Side::Consumers, None)?;
        let mut consumer = Consumer::new(key, pool, self.current.version + 1);
        if self.random.bool() {
            consumer.types = vec![(consumer.version, self.subscribe(key)?)];
        }
        if self.random.u32(..3) == 0 {
            consumer.from_number = self.random.u8(1..3);
            let filter = self.filter(consumer.from_number, 0, None)?;
            self.hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter))?;
        }
        if self.random.u32(..3) == 0 {
            let default = self.random.bool().then(|| self.random.i16(-1..7));
            let maps = MapsPriority { from_number: self.random.u8(1..3), value: self.random.i16(-1..7), default };
            let filter = self.filter(maps.from_number, maps.value, maps.default)?;
            self.hierarchy.set_mapping(FilterTarget::Proxy(key), Mapping::Priority, Some(filter))?;
            consumer.maps = Some(maps);
        }
        self.hierarchy.connect(key, Some(Peer(1)), OutputForm(0))?;
        self.model.consumers.push(consumer);
        Ok(key)
    }

    /// Changes a consumer's subscription to types of one pattern.
    fn subscribe(&mut self, key: ProxyKey) -> Result<Vec<EventType>, Refusal> {
        let (domain, name) = PATTERNS[self.random.usize(..PATTERNS.len())];
        let types = vec![EventType::new(domain, name)];
        self.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &types, &[EventType::everything()])?;
        Ok(types)
    }

    /// Reconnects a consumer's proxy, on its current lanes.
    fn reconnect(&mut self, at: usize) -> Result<(), Refusal> {
        let former = &self.model.consumers[at];
        let key = former.key;
        let pool = self.random.usize(..self.patches.len());
        let is_pooled = !self.hierarchy.proxy(key)?.kind.on_main_lane;
        let mut consumer = Consumer::new(key, is_pooled.then_some(pool), self.current.version + 1);
        consumer.types = former.types.last().map(|(_, types)| (consumer.version, types.clone())).into_iter().collect();
        (consumer.from_number, consumer.maps) = (former.from_number, former.maps);
        let patch = SettingsPatch { pool: self.patches[pool].pool, ..SettingsPatch::default() };
        self.hierarchy.set_proxy_settings(key, patch)?;
        self.hierarchy.connect(key, Some(Peer(2)), OutputForm(0))?;
        self.model.consumers.push(consumer);
        self.summary.reconnected += 1;
        Ok(())
    }

    /// Creates a filter that passes events with a number of at least `from_number`.
    fn filter(&mut self, from_number: u8, value: i16, default: Option<i16>) -> Result<FilterId, Refusal> {
        let filter = self.hierarchy.create_filter(self.channel)?;
        let text = format!("${} >= {from_number}", FIELD_NAMES[0]);
        if let Ok(program) = filter::Constraint::parse(&text, &filter::Limits::default()) {
            let constraint = FilterConstraint { types: Arc::new([]), program: Arc::new(program), value: value.into() };
            self.hierarchy.set_constraints(filter, vec![constraint], default.map(i64::from))?;
        }
        Ok(filter)
    }

    fn publish_routing(&mut self) {
        self.current = self.hierarchy.snapshot();
    }

    fn pick_up(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.lane.handle_snapshot(Arc::clone(&self.current), self.now);
    }

    // ---- one operation ----

    fn operate(&mut self) -> Result<String, String> {
        let at = self.random.usize(..self.nodes.len());
        let done = |what: &str, done: bool| Ok(format!("{what} {at}: {done}"));
        match self.random.u32(..100) {
            0..25 => self.publish(),
            25..40 => done("post", self.send_next(at)),
            40..52 => self.take_over(at).and_then(|any| done("take over", any)),
            52..62 => done("conclude", self.conclude(at)),
            62..74 => done("begin", self.begin(at)),
            74..86 => {
                let outcomes = [Outcome::Delivered, Outcome::NoRoom, Outcome::Unreachable, Outcome::Refused];
                let outcome = if self.random.u32(..6) > 0 { outcomes[0] } else { outcomes[self.random.usize(..4)] };
                self.answer(at, outcome).and_then(|any| done("answer", any))
            }
            86..91 => self.release(at).and_then(|any| done("release", any)),
            91..93 => done("resume", self.resume(at)),
            93..95 => {
                let time = Duration::from_millis(self.random.u64(..100));
                self.pass_time(time);
                Ok("time passes".into())
            }
            95..98 => {
                self.pick_up(at);
                done("pick up", true)
            }
            _ => self.administer().map_err(|refusal| refusal.to_string()),
        }
    }

    fn pass_time(&mut self, time: Duration) {
        self.now = self.now + time;
        for node in &mut self.nodes {
            node.lane.handle_timeout(self.now);
            while node.lane.poll_timed_out().is_some() {}
            while node.lane.poll_notice().is_some() {}
        }
    }

    fn administer(&mut self) -> Result<String, Refusal> {
        let done = match self.random.u32(..7) {
            0 | 1 => format!("connect {}", self.create_consumer()?),
            2 => {
                let limits = self.limits();
                self.hierarchy.set_limits(self.channel, limits)?;
                format!("{limits:?}")
            }
            other => {
                let at = self.random.usize(..self.model.consumers.len());
                let key = self.model.consumers[at].key;
                if self.model.consumers.iter().rposition(|consumer| consumer.key == key) != Some(at) {
                    return Ok(format!("{key} was connected again"));
                }
                if self.model.consumers[at].gone {
                    self.reconnect(at)?;
                    self.publish_routing();
                    return Ok(format!("connect {key} again"));
                }
                let consumer = &mut self.model.consumers[at];
                match other {
                    3 => {
                        consumer.gone = true;
                        self.summary.disconnected += 1;
                        self.hierarchy.disconnect(key)?;
                        self.publish_routing();
                        // A consumer is disconnected once every lane has the routing that says so: each releases it first.
                        (0..self.nodes.len()).for_each(|at| self.pick_up(at));
                        format!("disconnect {key}")
                    }
                    4 => {
                        let types = self.subscribe(key)?;
                        let said = format!("{key} subscribes to {types:?}");
                        let version = self.current.version + 1;
                        self.model.consumers[at].types.push((version, types));
                        self.summary.subscribed += 1;
                        said
                    }
                    5 => format!("suspend {key}: {:?}", self.hierarchy.suspend(key)),
                    _ => format!("resume {key}: {:?}", self.hierarchy.resume(key)),
                }
            }
        };
        self.publish_routing();
        Ok(done)
    }

    fn publish(&mut self) -> Result<String, String> {
        let supplier = self.random.usize(..self.model.suppliers.len());
        if self.model.suppliers[supplier].ticket.is_some() {
            return Ok(format!("supplier {supplier} is blocked"));
        }
        let own = |random: &mut Rng| random.bool().then(|| random.i16(-1..7));
        let mut event = Published {
            supplier,
            lane: self.nodes[0].lane.id(),
            version: 0,
            domain: DOMAINS[self.random.usize(..DOMAINS.len())],
            name: NAMES[self.random.usize(..NAMES.len())],
            number: self.random.u8(..4),
            priority: own(&mut self.random),
            thread_priority: own(&mut self.random).filter(|priority| *priority >= 0),
            handed_to: [].into(),
        };
        let Supplier { key, pool, .. } = self.model.suppliers[supplier];
        let (_, threads) = self.model.threads(pool, self.model.own_priority(&event));
        let route = self.current.supplier(key).ok_or("a supplier has no route")?;
        event.lane = route.lane_for(self.model.own_priority(&event));
        if !threads.contains(&event.lane) {
            return Err(format!("{key} is served by {}, and should be by one of {threads:?}", event.lane));
        }
        let node = &mut self.nodes[usize::from(event.lane.0)];
        event.version = node.lane.snapshot().version;
        let label = self.model.published.len();
        let mut pending_event = node.lane.begin_event();
        pending_event.bytes.extend_from_slice(&(label as u64).to_le_bytes());
        pending_event.bytes.push(event.number);
        (pending_event.priority, pending_event.thread_priority) = (event.priority, event.thread_priority);
        node.lane.classify(&mut pending_event, event.domain.as_bytes(), event.name.as_bytes());
        let lane = event.lane;
        match node.lane.handle_event(key, pending_event, &Bytes, self.now) {
            Admission::Accepted { .. } => self.summary.accepted += 1,
            Admission::Withheld(ticket) => {
                (self.summary.accepted, self.summary.withheld) = (self.summary.accepted + 1, self.summary.withheld + 1);
                self.model.suppliers[supplier].ticket = Some((lane, ticket));
            }
            Admission::Refused(Refusal::EventTooLarge { .. }) => return Err("an event is too large".into()),
            Admission::Refused(refusal) => {
                self.summary.refused += 1;
                return Ok(format!("{key} publishes on {lane}: {refusal}"));
            }
            Admission::AwaitingFilter(..) => return Err("no filter is to be called".into()),
        }
        self.model.published.push(event);
        Ok(format!("{key} publishes {label} on {lane}"))
    }

    // ---- the end ----

    /// Drains everything.
    fn drain(&mut self) -> Result<(), String> {
        for consumer in &self.model.consumers {
            // Refused for all but those that are suspended.
            let _ = self.hierarchy.resume(consumer.key);
        }
        self.publish_routing();
        (0..self.nodes.len()).for_each(|at| self.pick_up(at));
        let (mut rounds_left, mut quiet) = (20_000, 0);
        // Retries after failures, and orphaned backlogs, go on as time passes.
        while quiet < 10 {
            let mut any = false;
            for at in 0..self.nodes.len() {
                any |= self.resume(at) | self.send_next(at) | self.conclude(at) | self.begin(at);
                any |= self.take_over(at)? | self.answer(at, Outcome::Delivered)? | self.release(at)?;
            }
            quiet = if any { 0 } else { quiet + 1 };
            if !any {
                self.pass_time(Duration::from_secs(10));
            }
            rounds_left -= 1;
            if rounds_left == 0 {
                return Err("it does not drain".into());
            }
        }
        Ok(())
    }

    /// Checks that nothing is left, and that each consumer has its events.
    fn conclude_all(mut self) -> Result<LanesSummary, String> {
        if let Some(withheld) = self.model.suppliers.iter().find(|supplier| supplier.ticket.is_some()) {
            return Err(format!("{} is still blocked", withheld.key));
        }
        let (mut handed, mut taken) = (0, 0);
        for node in &self.nodes {
            let id = node.lane.id();
            if !node.is_idle() {
                return Err(format!("something is still on its way to or from {id}"));
            }
            for stats in node.lane.channels() {
                if (stats.events, stats.memory_bytes, stats.withheld) != (0, 0, 0) {
                    return Err(format!("{id} still has {stats:?}"));
                }
            }
            let counters = node.lane.counters();
            handed += counters.handovers.given;
            taken += counters.handovers.taken;
            if counters.handovers.refused > 0 {
                return Err(format!("a hand-over of {id} was refused"));
            }
            let gone = counters.discards.of(engine::DiscardReason::Removed);
            self.summary.dropped += counters.discards.total() - gone;
            self.summary.dropped_on_the_way += counters.handovers.dropped;
        }
        let taken_over: usize = self.model.published.iter().map(|event| event.handed_to.len()).sum();
        // Hand-overs on their way when the last consumer of a bridge went are taken over, and their sender no longer counts them.
        if taken != taken_over as u64 || handed > taken || (self.summary.disconnected == 0 && handed < taken) {
            return Err(format!("{taken_over} were taken over, and the lanes count {handed} and {taken}"));
        }
        self.summary.handed_over = taken;
        let missing = self.model.missing();
        // An event dropped on its way to a lane is missing for all consumers there.
        let consumers = self.model.consumers.len() as u64;
        let dropped = self.summary.dropped + self.summary.dropped_on_the_way * consumers;
        let is_lossless = matches!(self.policy, Some(FullOutbox::Hold | FullOutbox::Reject));
        if missing.len() as u64 > dropped || (is_lossless && dropped > 0) {
            return Err(format!("{missing:?} are missing (consumer, event), and {dropped} were dropped"));
        }
        Ok(self.summary)
    }
}

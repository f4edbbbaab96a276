//! One lane that stores part of its backlogs elsewhere, on a slow store that loses some events, while consumers act at
//! random.
//!
//! Which events are stored elsewhere, and when, is not specified, so there is no model of it. Checked is: every lost event is counted, no
//! consumer gets an event twice, those with order of arrival get theirs in it, each completion is reported truly and completely, and at the
//! end no supplier or consumer waits and nothing is left.

mod shelf;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use engine::{
    AdminId, Admission, ChannelId, ChannelLimits, Completion, Delivery, DisconnectReason, Disposition, Event, Form,
    FullOutbox, Hierarchy, Lane, Notice, OrderPolicy, OutboxId, OutboxState, OutboxStats, Outcome, OutputForm, Peer,
    ProxyKey, ProxyKind, ProxyState, Refusal, Reliability, SettingsPatch, Side, Ticket, Time,
};
use fastrand::Rng;

use crate::Mismatch;
use crate::random::{Bytes, NAMES, labels};
use shelf::Shelf;

/// Counts of a run with backlogs elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverflowSummary {
    /// Events taken.
    pub accepted: u64,
    /// Events taken with a withheld reply.
    pub withheld: u64,
    /// Events refused.
    pub refused: u64,
    /// Events stored elsewhere, counted once for each consumer.
    pub stored: u64,
    /// Events fetched.
    pub brought_back: u64,
    /// Events lost elsewhere.
    pub lost: u64,
    /// Events delivered.
    pub delivered: u64,
    /// Events dropped.
    pub dropped: u64,
    /// Deliveries that failed.
    pub failures: u64,
    /// Number of times a consumer stopped blocking suppliers and stayed connected.
    pub waited_out: u64,
    /// Consumers disconnected with events stored elsewhere.
    pub gone: u64,
    /// Events reported as complete for all.
    pub completed: u64,
}

/// Runs `operations` random operations from `seed` on a lane with storage elsewhere, then drains everything; `trace`
/// is called with each one.
///
/// # Errors
///
/// The first [`Mismatch`].
pub fn run_overflow(seed: u64, operations: u32, trace: &mut dyn FnMut(&str)) -> Result<OverflowSummary, Mismatch> {
    let at = |operation| move |difference| Mismatch { seed, operation, difference };
    let mut run = Run::new(seed).map_err(|refusal| at(0)(refusal.to_string()))?;
    for operation in 0..operations {
        let done = run.operate().map_err(at(operation))?;
        trace(&format!("{operation:4} at {:>12}: {done}", run.now.0));
        run.compare().map_err(at(operation))?;
    }
    run.drain().map_err(at(operations))?;
    Ok(run.summary())
}

/// Expected state of a connected consumer.
#[derive(Default)]
struct Consumer {
    /// Number of accepted events when the lane picked it up.
    since: u64,
    /// Events received.
    has: BTreeSet<usize>,
    /// The latest event received.
    latest: Option<usize>,
    /// Whether several deliveries could be under way, so that a later one may have been answered before an earlier one failed.
    had_window: bool,
}

struct Run {
    random: Rng,
    now: Time,
    hierarchy: Hierarchy,
    lane: Lane,
    channel: ChannelId,
    source: ProxyKey,
    budget_bytes: u64,
    /// Whether events have times or significant priorities; else they come in order of arrival.
    is_sorted: bool,
    /// Reliability of consumers' connections: whether consumers that block suppliers for too long stay connected.
    reliability: Reliability,
    shelf: Shelf,
    /// All proxies of consumers.
    proxies: Vec<ProxyKey>,
    /// Consumers that the lane has as connected.
    consumers: BTreeMap<ProxyKey, Consumer>,
    unanswered: Vec<(Delivery, Vec<usize>)>,
    next_label: usize,
    accepted: u64,
    tickets: BTreeSet<Ticket>,
    reports: Reports,
    summary: OverflowSummary,
}

/// Reports of complete events. All events are watched.
#[derive(Default)]
struct Reports {
    begun: BTreeSet<(usize, ProxyKey)>,
    ended: BTreeSet<(usize, ProxyKey)>,
    for_all: BTreeSet<usize>,
    taken: BTreeSet<usize>,
}

impl Run {
    fn new(seed: u64) -> Result<Self, Refusal> {
        let (mut random, now) = (Rng::with_seed(seed), Time(1_000_000));
        let mut lane = Lane::new(now);
        lane.allow_overflow();
        let mut hierarchy = Hierarchy::default();
        let budget_bytes = [3_000, 12_000, 40_000][random.usize(..3)];
        let limits = ChannelLimits {
            memory_budget_bytes: budget_bytes,
            overflow_budget_bytes: [5_000, 30_000, 1 << 20, 1 << 20][random.usize(..4)],
            max_queue_length: [None, None, None, NonZeroU32::new(60)][random.usize(..4)],
            ..ChannelLimits::default()
        };
        let is_sorted = random.u32(..3) == 0;
        let order_policy = if is_sorted { Some(OrderPolicy::Priority) } else { None };
        let patch = SettingsPatch { order_policy, ..SettingsPatch::default() };
        let patch = SettingsPatch { hold_granted: Some(true), ..patch };
        let channel = hierarchy.create_channel(patch, limits)?;
        let proxy =
            hierarchy.create_proxy(channel, Side::Suppliers, AdminId::DEFAULT, Form(1), ProxyKind::default())?;
        let source = ProxyKey { channel, proxy };
        hierarchy.connect(source, None, OutputForm(0))?;
        let mut run = Self {
            random,
            now,
            hierarchy,
            lane,
            channel,
            source,
            budget_bytes,
            is_sorted,
            reliability: if seed % 4 == 1 { Reliability::Persistent } else { Reliability::BestEffort },
            shelf: Shelf::default(),
            proxies: vec![],
            consumers: BTreeMap::new(),
            unanswered: vec![],
            next_label: 0,
            accepted: 0,
            tickets: BTreeSet::new(),
            reports: Reports::default(),
            summary: OverflowSummary::default(),
        };
        for _ in 0..run.random.u32(2..6) {
            run.create_consumer()?;
        }
        run.route();
        Ok(run)
    }

    fn create_consumer(&mut self) -> Result<(), Refusal> {
        let kind =
            ProxyKind { pull: self.random.u32(..4) == 0, batches: self.random.u32(..3) == 0, ..ProxyKind::default() };
        let proxy = self.hierarchy.create_proxy(self.channel, Side::Consumers, AdminId::DEFAULT, Form(1), kind)?;
        let key = ProxyKey { channel: self.channel, proxy };
        self.proxies.push(key);
        self.set(key)?;
        self.hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0))
    }

    /// Changes a consumer's settings.
    fn set(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        let millis = Duration::from_millis;
        let policies = [None, None, Some(FullOutbox::Hold), Some(FullOutbox::Discard), Some(FullOutbox::Reject)];
        let rare = if self.random.u32(..8) == 0 { Some(FullOutbox::Disconnect) } else { None };
        let patch = SettingsPatch {
            full_outbox: rare.or(policies[self.random.usize(..5)]),
            max_events_per_consumer: Some([None, None, NonZeroU32::new(20)][self.random.usize(..3)]),
            push_window: Some([1, 1, 4][self.random.usize(..3)]),
            batch_size_max: NonZeroU32::new(self.random.u32(1..5)),
            timeout: Some([None, None, Some(millis(2_000))][self.random.usize(..3)].filter(|_| self.is_sorted)),
            give_up_after: Some([Duration::ZERO, millis(1_000)][self.random.usize(..2)]),
            hold_timeout: Some([Duration::ZERO, millis(1_500)][self.random.usize(..2)]),
            blocking: Some([Duration::ZERO, Duration::ZERO, millis(200)][self.random.usize(..3)]),
            connection_reliability: Some(self.reliability),
            latency_bound: Some([Duration::ZERO, Duration::ZERO, millis(50)][self.random.usize(..3)]),
            ..SettingsPatch::default()
        };
        let patch = match self.reliability {
            Reliability::BestEffort => patch,
            // Some of these consumers block suppliers until the time limit.
            Reliability::Persistent => SettingsPatch {
                full_outbox: patch.full_outbox.or(Some(FullOutbox::Hold)),
                hold_timeout: patch.hold_timeout.map(|limit| limit.min(millis(60))),
                ..patch
            },
        };
        self.hierarchy.set_proxy_settings(key, patch)
    }

    // ---- one operation ----

    fn operate(&mut self) -> Result<String, String> {
        match self.random.u32(..100) {
            // A supplier that is held waits.
            0..30 if self.tickets.len() < 4 => self.publish(),
            0..42 => {
                self.shelf.look(&mut self.lane);
                self.shelf.work(&mut self.random);
                Ok("elsewhere something is done".into())
            }
            42..58 => {
                self.shelf.answer(&mut self.lane, self.now);
                Ok("elsewhere something is answered".into())
            }
            58..76 => {
                let taken = self.take_one()?;
                Ok(format!("deliver {taken:?}"))
            }
            76..93 => self.answer(),
            93..96 => {
                self.now = self.now + Duration::from_millis(self.random.u64(..200));
                self.lane.handle_timeout(self.now);
                Ok("time passes".into())
            }
            96..99 => {
                let suspend = self.random.u32(..3) == 0;
                let key = self.proxies[self.random.usize(..self.proxies.len())];
                let _ = if suspend { self.hierarchy.suspend(key) } else { self.hierarchy.resume(key) };
                self.route();
                Ok(format!("{key} is suspended: {suspend}"))
            }
            _ => self.administer(),
        }
    }

    fn publish(&mut self) -> Result<String, String> {
        let label = self.next_label;
        self.next_label += 1;
        let padding = [0, 10, 100, 400][self.random.usize(..4)];
        let mut pending_event = self.lane.begin_event_for(8 + padding);
        pending_event.bytes.extend_from_slice(&(label as u64).to_le_bytes());
        pending_event.bytes.resize(8 + padding, 0);
        let name = NAMES[self.random.usize(..NAMES.len())];
        self.lane.classify(&mut pending_event, b"domain", name.as_bytes());
        if self.is_sorted {
            let millis = Duration::from_millis;
            pending_event.priority = Some(self.random.i16(-2..3));
            pending_event.timeout = [None, None, Some(millis(300)), Some(millis(5_000))][self.random.usize(..4)];
            pending_event.start = [None, None, Some(self.now + millis(100))][self.random.usize(..3)];
            pending_event.stop = [None, None, Some(self.now + millis(400))][self.random.usize(..3)];
        }
        // No number is 0.
        (pending_event.watch, pending_event.watch_each) = (NonZeroU64::new(label as u64 + 1), true);
        let admission = self.lane.handle_event(self.source, pending_event, &Bytes, self.now);
        match &admission {
            Admission::Accepted { .. } => {}
            Admission::Withheld(ticket) => {
                self.summary.withheld += 1;
                self.tickets.insert(*ticket);
            }
            Admission::Refused(_) => {
                self.summary.refused += 1;
                return Ok(format!("publish {label}: {admission:?}"));
            }
            Admission::AwaitingFilter(..) => return Err("there are no filters to be asked".into()),
        }
        self.accepted += 1;
        self.reports.taken.insert(label);
        Ok(format!("publish {label}: {admission:?}"))
    }

    /// Begins or pulls a delivery.
    fn take_one(&mut self) -> Result<Vec<usize>, String> {
        let mut events = vec![];
        let key = self.proxies[self.random.usize(..self.proxies.len())];
        let pulled = if self.random.u32(..3) == 0 { self.lane.pull(key, 3, &mut events, self.now) } else { Ok(None) };
        let delivery = match pulled {
            Ok(Some(delivery)) => delivery,
            _ => match self.lane.poll_delivery(self.now, &mut events) {
                Some(delivery) => delivery,
                None => return Ok(vec![]),
            },
        };
        self.begin(delivery, events)
    }

    fn begin(&mut self, delivery: Delivery, events: Vec<Arc<Event>>) -> Result<Vec<usize>, String> {
        let key = delivery.key;
        let taken = labels(&events);
        events.into_iter().for_each(|event| self.lane.release(event));
        let consumer = self.consumers.get(&key).ok_or_else(|| format!("a delivery to {key}, which is gone"))?;
        if let Some(label) = taken.iter().find(|label| consumer.has.contains(label)) {
            return Err(format!("{key} gets {label} a second time"));
        }
        if !self.is_sorted && !delivery.pulled {
            let under_way = self.unanswered.iter().filter(|(other, _)| other.outbox == delivery.outbox);
            let before = under_way.flat_map(|(_, labels)| labels).max().copied();
            // With several under way, a later one may have been answered before an earlier one failed.
            let latest = before.or(consumer.latest.filter(|_| !consumer.had_window));
            if !taken.is_sorted() || taken.first().copied() <= latest {
                return Err(format!("{key} gets {taken:?} behind {latest:?}"));
            }
        }
        self.unanswered.push((delivery, taken.clone()));
        Ok(taken)
    }

    fn answer(&mut self) -> Result<String, String> {
        if self.unanswered.is_empty() {
            return Ok("nothing to answer".into());
        }
        let place = if self.random.bool() { 0 } else { self.random.usize(..self.unanswered.len()) };
        let outcome = match self.random.u32(..20) {
            0 => Outcome::NoRoom,
            1 => Outcome::Unreachable,
            2 => Outcome::Refused,
            _ => Outcome::Delivered,
        };
        self.conclude(place, outcome)
    }

    fn conclude(&mut self, place: usize, outcome: Outcome) -> Result<String, String> {
        let (delivery, labels) = self.unanswered.remove(place);
        let (outbox, key) = (delivery.outbox, delivery.key);
        let unheard =
            |lane: &Lane| lane.counters().deliveries.stale_outcomes + lane.counters().deliveries.unknown_outboxes;
        let before = unheard(&self.lane);
        self.lane.handle_outcome(outbox, delivery.serial, outcome, self.now);
        let is_heard = unheard(&self.lane) == before;
        if outcome == Outcome::NoRoom && self.random.bool() {
            self.lane.resume_outbox(outbox, self.now);
        }
        match outcome {
            Outcome::Delivered if is_heard => {
                let consumer = self.consumers.get_mut(&key).ok_or_else(|| format!("{key} is gone, and was heard"))?;
                consumer.latest = consumer.latest.max(labels.last().copied());
                consumer.has.extend(labels.iter().copied());
            }
            // Later deliveries are put back with it, or all.
            Outcome::NoRoom if is_heard && !delivery.pulled => self.forget_from(outbox, delivery.serial),
            Outcome::Unreachable | Outcome::Refused if is_heard && !delivery.pulled => self.forget_from(outbox, 0),
            _ => {}
        }
        Ok(format!("{key} has {labels:?}: {outcome:?}"))
    }

    /// Removes an outbox's deliveries from this one on, which are not under way any more.
    fn forget_from(&mut self, outbox: OutboxId, serial: u32) {
        self.unanswered.retain(|(delivery, _)| delivery.outbox != outbox || delivery.serial < serial);
    }

    fn administer(&mut self) -> Result<String, String> {
        let key = self.proxies[self.random.usize(..self.proxies.len())];
        let done = match self.random.u32(..4) {
            0 => self.hierarchy.disconnect(key).map(drop),
            1 | 2 => self.hierarchy.connect(key, Some(Peer(self.random.u64(..))), OutputForm(0)),
            _ => self.set(key),
        };
        self.route();
        Ok(format!("{key} comes, goes or changes: {done:?}"))
    }

    /// Hands new routing to the lane, and notes connected and disconnected consumers.
    fn route(&mut self) {
        let snapshot = self.hierarchy.snapshot();
        let is_connected =
            |key: &ProxyKey| self.hierarchy.proxy(*key).is_ok_and(|proxy| proxy.state != ProxyState::Unconnected);
        let gone: Vec<ProxyKey> = self.consumers.keys().filter(|key| !is_connected(key)).copied().collect();
        let came: Vec<ProxyKey> = self.proxies.iter().filter(|key| is_connected(key)).copied().collect();
        self.lane.handle_snapshot(snapshot, self.now);
        gone.into_iter().for_each(|key| self.lose(key));
        for key in came {
            let since = self.accepted;
            let is_alive = self.stats(key).is_some_and(|stats| stats.state != OutboxState::Disconnected);
            if is_alive {
                let consumer = self.consumers.entry(key).or_insert_with(|| Consumer { since, ..Consumer::default() });
                consumer.had_window |= self.hierarchy.effective(key).is_ok_and(|settings| settings.push_window > 1);
            }
        }
    }

    fn lose(&mut self, key: ProxyKey) {
        if self.consumers.remove(&key).is_some() {
            self.unanswered.retain(|(delivery, _)| delivery.key != key);
        }
    }

    fn stats(&self, key: ProxyKey) -> Option<OutboxStats> {
        self.lane.outboxes().find(|stats| stats.key == key)
    }

    // ---- what must be so ----

    fn compare(&mut self) -> Result<(), String> {
        self.hear()?;
        let used = self.lane.channels().next().map_or(0, |stats| stats.memory_bytes);
        // Twice the budget while suppliers are blocked, and what is being brought back.
        let most = 3 * self.budget_bytes + 8_192 * self.proxies.len() as u64;
        if used > most {
            return Err(format!("{used} bytes in memory, which are more than {most}"));
        }
        for (key, consumer) in &self.consumers {
            let stats = self.stats(*key).ok_or_else(|| format!("{key} has no outbox"))?;
            let accounted = stats.delivered + stats.discards.total() + stats.backlog_events;
            if accounted != self.accepted - consumer.since {
                let due = self.accepted - consumer.since;
                return Err(format!("{key} was to get {due} events, and {accounted} are accounted for: {stats:?}"));
            }
        }
        Ok(())
    }

    /// Checks the lane's notices and reports.
    fn hear(&mut self) -> Result<(), String> {
        while let Some(ticket) = self.lane.poll_release() {
            if !self.tickets.remove(&ticket) {
                return Err(format!("{ticket:?} is released, and was not held"));
            }
        }
        while let Some((outbox, _)) = self.lane.poll_timed_out() {
            self.forget_from(outbox, 0);
        }
        let mut disconnected = vec![];
        while let Some(notice) = self.lane.poll_notice() {
            match notice {
                Notice::ConsumerDisconnected { key, reason: DisconnectReason::BlockedSuppliers { .. }, .. }
                    if self.reliability == Reliability::Persistent =>
                {
                    return Err(format!(
                        "{key} was disconnected for holding suppliers, and its connection is persistent"
                    ));
                }
                Notice::ConsumerDisconnected { key, .. } => disconnected.push(key),
                Notice::WaitedOut { .. } => self.summary.waited_out += 1,
                _ => {}
            }
        }
        // Reports about these consumers' events come first.
        self.take_completions()?;
        for key in disconnected {
            self.lose(key);
            let _ = self.hierarchy.disconnect(key);
            self.route();
        }
        Ok(())
    }

    fn take_completions(&mut self) -> Result<(), String> {
        while let Some(completed) = self.lane.poll_completion() {
            let number = completed.watch().and_then(|watch| usize::try_from(watch.get()).ok());
            let label = number.map_or(usize::MAX, |number| number - 1);
            match completed {
                Completion::Begins { consumer, .. } => {
                    if !self.reports.begun.insert((label, consumer)) {
                        return Err(format!("{label} was reported twice to be for {consumer}"));
                    }
                }
                Completion::Begun { bridges: 0, .. } => {}
                Completion::ForConsumer { consumer, how, .. } => {
                    let is_of_use = !matches!(how, Disposition::Dropped(_));
                    if is_of_use && !self.reports.begun.contains(&(label, consumer)) {
                        return Err(format!("{label} ended for {consumer}, and it was not reported to be for it"));
                    }
                    let is_new = self.reports.ended.insert((label, consumer));
                    if !is_new && is_of_use {
                        return Err(format!("{label} was reported twice to be complete for {consumer}"));
                    }
                }
                Completion::Gone { consumer } => {
                    self.summary.gone += 1;
                    let its = self.reports.begun.iter().filter(|(_, of)| *of == consumer);
                    self.reports.ended.extend(its.copied());
                }
                Completion::ForAll { .. } => {
                    if !self.reports.for_all.insert(label) {
                        return Err(format!("{label} was reported twice to be complete for all"));
                    }
                    let its = self.reports.begun.range((label, key_min())..).take_while(|(of, _)| *of == label);
                    let has_it =
                        |of: &&(usize, ProxyKey)| !self.reports.ended.contains(of) && !self.shelf.ever.contains(of);
                    if let Some((_, consumer)) = its.into_iter().find(has_it) {
                        return Err(format!(
                            "{label} was reported to be complete for all, and {consumer} has it in memory"
                        ));
                    }
                }
                other => return Err(format!("{other:?}, although there is one lane only")),
            }
        }
        Ok(())
    }

    // ---- the end ----

    /// Lets all consumers take events until nothing is left.
    fn drain(&mut self) -> Result<(), String> {
        for key in self.proxies.clone() {
            let _ = self.hierarchy.resume(key);
        }
        self.route();
        for _ in 0..2_000 {
            self.shelf.look(&mut self.lane);
            while !self.shelf.is_idle() {
                self.shelf.work(&mut self.random);
                self.shelf.answer(&mut self.lane, self.now);
                self.shelf.look(&mut self.lane);
            }
            self.take_all()?;
            self.now = self.now + Duration::from_millis(500);
            self.lane.handle_timeout(self.now);
            self.compare()?;
            let is_left = self.lane.outboxes().any(|stats| stats.backlog_events > 0);
            if !is_left && self.shelf.is_idle() && self.tickets.is_empty() {
                return self.check_end();
            }
        }
        let left: Vec<_> = self.lane.outboxes().filter(|stats| stats.backlog_events > 0).collect();
        Err(format!("nothing goes on any more: {:?} are held, and {left:?} are left", self.tickets))
    }

    fn take_all(&mut self) -> Result<(), String> {
        let mut events = vec![];
        for stats in self.lane.outboxes().collect::<Vec<_>>() {
            self.lane.resume_outbox(stats.outbox, self.now);
        }
        for key in self.proxies.clone() {
            while let Ok(Some(delivery)) = self.lane.pull(key, 4, &mut events, self.now) {
                self.begin(delivery, std::mem::take(&mut events))?;
                self.conclude(self.unanswered.len() - 1, Outcome::Delivered)?;
            }
        }
        while let Some(delivery) = self.lane.poll_delivery(self.now, &mut events) {
            self.begin(delivery, std::mem::take(&mut events))?;
        }
        while !self.unanswered.is_empty() {
            self.conclude(0, Outcome::Delivered)?;
        }
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), String> {
        // Backlogs of disconnected consumers are released a little at a time.
        for _ in 0..100 {
            self.lane.handle_timeout(self.now);
        }
        self.compare()?;
        let used = self.lane.channels().next().map_or(0, |stats| stats.memory_bytes);
        if used > 0 || !self.shelf.is_empty() {
            return Err(format!("{used} bytes are left in memory; elsewhere nothing: {}", self.shelf.is_empty()));
        }
        if let Some(label) = self.reports.taken.iter().find(|label| !self.reports.for_all.contains(label)) {
            return Err(format!("{label} is complete for all, and that was not reported"));
        }
        // The numbers of events lost elsewhere are unknown.
        let open = self.reports.begun.iter().filter(|of| !self.reports.ended.contains(of)).count() as u64;
        if open > self.shelf.lost {
            return Err(format!("{open} settlements were not reported, and {} events were lost", self.shelf.lost));
        }
        Ok(())
    }

    fn summary(&self) -> OverflowSummary {
        let counters = self.lane.counters();
        OverflowSummary {
            accepted: self.accepted,
            stored: counters.overflow.stored,
            brought_back: counters.overflow.brought_back,
            lost: self.shelf.lost,
            delivered: counters.deliveries.delivered,
            dropped: counters.discards.total(),
            failures: counters.deliveries.failures,
            completed: self.reports.for_all.intersection(&self.reports.taken).count() as u64,
            ..self.summary
        }
    }
}

fn key_min() -> ProxyKey {
    ProxyKey { channel: ChannelId(0), proxy: engine::ProxyId(0) }
}

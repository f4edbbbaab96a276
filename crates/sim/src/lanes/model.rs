//! Which consumer must get which event, on which lane, said as simply as it can be.

use std::collections::{BTreeMap, BTreeSet};

use engine::{EventType, LaneId, PriorityModel, ProxyKey, Ticket};

use crate::model::matches;

/// A pool: its lanes by priority, each with its threads.
pub(super) struct Pool {
    pub(super) model: PriorityModel,
    pub(super) declared: i16,
    pub(super) lanes: Vec<(i16, Vec<LaneId>)>,
}

pub(super) struct Supplier {
    pub(super) key: ProxyKey,
    pub(super) pool: Option<usize>,
    pub(super) priority: i16,
    /// While it is held: where, and by which ticket.
    pub(super) ticket: Option<(LaneId, Ticket)>,
}

/// Maps the priority of events with a number that is large enough.
#[derive(Clone, Copy)]
pub(super) struct MapsPriority {
    pub(super) from_number: u8,
    pub(super) value: i16,
    pub(super) default: Option<i16>,
}

pub(super) struct Consumer {
    pub(super) key: ProxyKey,
    pub(super) pool: Option<usize>,
    /// The first routing that has it.
    pub(super) version: u64,
    pub(super) gone: bool,
    /// What it has subscribed to, each with the first routing that says so; any type if there are none.
    pub(super) types: Vec<(u64, Vec<EventType>)>,
    /// It wants events with this number or a greater one.
    pub(super) from_number: u8,
    pub(super) maps: Option<MapsPriority>,
    /// Which of a priority's threads serves it, once that is known.
    served_by: BTreeMap<usize, LaneId>,
    pub(super) got: BTreeSet<usize>,
    /// The last event that it got of those that must come in order.
    last: BTreeMap<(usize, Option<i16>, Option<i16>, usize), usize>,
}

pub(super) struct Published {
    pub(super) supplier: usize,
    /// Where it was admitted, by which routing.
    pub(super) lane: LaneId,
    pub(super) version: u64,
    pub(super) domain: &'static str,
    pub(super) name: &'static str,
    pub(super) number: u8,
    pub(super) priority: Option<i16>,
    pub(super) thread_priority: Option<i16>,
    /// The lanes that took it over.
    pub(super) handed_to: BTreeSet<LaneId>,
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) pools: Vec<Pool>,
    pub(super) suppliers: Vec<Supplier>,
    pub(super) consumers: Vec<Consumer>,
    pub(super) published: Vec<Published>,
}

impl Consumer {
    pub(super) fn new(key: ProxyKey, pool: Option<usize>, version: u64) -> Self {
        let (served_by, got, last) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let (types, from_number, maps) = (vec![(version, vec![])], 0, None);
        Self { key, pool, version, gone: false, types, from_number, maps, served_by, got, last }
    }

    /// For each of its subscriptions that counted since an event was admitted, whether the event is in it.
    fn verdicts(&self, event: &Published) -> impl Iterator<Item = bool> {
        let first = self.types.iter().rposition(|(version, _)| *version <= event.version).unwrap_or(0);
        let counting = self.types.iter().skip(first);
        counting
            .map(|(_, types)| types.is_empty() || types.iter().any(|wanted| matches(wanted, event.domain, event.name)))
    }

    /// Whether it may get an event. Lanes pick routing up each in its time, so that one that knows a later subscription
    /// may be handed an event that was admitted before it.
    fn may_match(&self, event: &Published) -> bool {
        self.verdicts(event).any(|wants| wants)
    }

    fn may_get(&self, event: &Published) -> bool {
        self.may_match(event) && event.number >= self.from_number
    }

    fn must_get(&self, event: &Published) -> bool {
        event.version >= self.version && self.verdicts(event).all(|wants| wants) && event.number >= self.from_number
    }
}

impl Model {
    /// The threads of the lane that serves a priority, and which lane of the pool it is.
    pub(super) fn threads(&self, pool: Option<usize>, priority: i16) -> (usize, Vec<LaneId>) {
        let Some(pool) = pool.map(|pool| &self.pools[pool]) else { return (0, vec![LaneId::MAIN]) };
        let priority = match pool.model {
            PriorityModel::ClientPropagated => priority,
            PriorityModel::ServerDeclared => pool.declared,
        };
        let mut level = 0;
        for (at, (from, _)) in pool.lanes.iter().enumerate() {
            if *from <= priority {
                level = at;
            }
        }
        (level, pool.lanes[level].1.clone())
    }

    /// The priority that an event has for its supplier's lane.
    pub(super) fn own_priority(&self, event: &Published) -> i16 {
        event.thread_priority.or(event.priority).unwrap_or(self.suppliers[event.supplier].priority)
    }

    /// The priority that an event has for the lane of one of its consumers.
    fn priority_for(&self, consumer: &Consumer, event: &Published) -> i16 {
        let own = self.own_priority(event);
        let Some(maps) = consumer.maps.filter(|_| event.thread_priority.is_none()) else { return own };
        let says_itself = event.priority.is_some() || self.suppliers[event.supplier].priority != 0;
        match maps.default {
            _ if event.number >= maps.from_number => maps.value,
            Some(default) if !says_itself => default,
            _ => own,
        }
    }

    /// A consumer got an event on a lane.
    pub(super) fn got(&mut self, key: ProxyKey, label: usize, lane: LaneId) -> Result<(), String> {
        // A consumer that was connected there before is gone.
        let Some(at) = self.consumers.iter().rposition(|consumer| consumer.key == key) else {
            return Err(format!("{key} belongs to no channel"));
        };
        let event = self.published.get(label).ok_or_else(|| format!("{key} got {label}, which is no event"))?;
        let consumer = &self.consumers[at];
        let priority = self.priority_for(consumer, event);
        let (level, threads) = self.threads(consumer.pool, priority);
        let order = (event.supplier, event.priority, event.thread_priority, level);
        let wrong = |what: &str| Err(format!("{key} got event {label} on {lane}: {what}"));
        if consumer.gone {
            return wrong("it is disconnected");
        }
        if !consumer.may_get(event) {
            return wrong("it does not want it");
        }
        if !threads.contains(&lane) {
            return wrong(&format!("its priority there is {priority}, which is for {threads:?}"));
        }
        let consumer = &mut self.consumers[at];
        if *consumer.served_by.entry(level).or_insert(lane) != lane {
            return wrong("another thread of the same priority serves it");
        }
        if !consumer.got.insert(label) {
            return wrong("it has it already");
        }
        if consumer.last.insert(order, label).is_some_and(|last| last > label) {
            return wrong("it had a later one of the same supplier and priority before");
        }
        Ok(())
    }

    /// A lane took an event over.
    pub(super) fn handed_over(&mut self, label: usize, to: LaneId) -> Result<(), String> {
        let event = &self.published[label];
        let may_match = |consumer: &&Consumer| {
            consumer.may_match(event) && self.threads(consumer.pool, self.priority_for(consumer, event)).1.contains(&to)
        };
        if event.lane == to || !self.consumers.iter().any(|consumer| may_match(&consumer)) {
            return Err(format!("event {label} was handed over to {to} for no consumer"));
        }
        if !self.published[label].handed_to.insert(to) {
            return Err(format!("event {label} was handed over to {to} twice"));
        }
        Ok(())
    }

    /// The events that consumers still connected should have and have not: consumer and event.
    pub(super) fn missing(&self) -> Vec<(ProxyKey, usize)> {
        let mut missing = vec![];
        for consumer in self.consumers.iter().filter(|consumer| !consumer.gone) {
            for (label, event) in self.published.iter().enumerate() {
                if consumer.must_get(event) && !consumer.got.contains(&label) {
                    missing.push((consumer.key, label));
                }
            }
        }
        missing
    }
}

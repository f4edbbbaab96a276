//! Expected consumers and lanes of each event, computed as simply as possible.

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
    /// Lane and ticket while its reply is withheld.
    pub(super) ticket: Option<(LaneId, Ticket)>,
}

/// Maps the priority of events from a number on.
#[derive(Clone, Copy)]
pub(super) struct MapsPriority {
    pub(super) from_number: u8,
    pub(super) value: i16,
    pub(super) default: Option<i16>,
}

pub(super) struct Consumer {
    pub(super) key: ProxyKey,
    pub(super) pool: Option<usize>,
    /// First routing version that has the consumer.
    pub(super) version: u64,
    pub(super) gone: bool,
    /// Its subscriptions, each with the first routing version that has it; any type if there are none.
    pub(super) types: Vec<(u64, Vec<EventType>)>,
    /// Smallest number of events that pass its filter.
    pub(super) from_number: u8,
    pub(super) maps: Option<MapsPriority>,
    /// Thread that serves each priority, once known.
    served_by: BTreeMap<usize, LaneId>,
    pub(super) got: BTreeSet<usize>,
    /// Last event received, for each group of events that must come in order.
    last: BTreeMap<(usize, Option<i16>, Option<i16>, usize), usize>,
}

pub(super) struct Published {
    pub(super) supplier: usize,
    /// Lane that admitted it, and the version of its routing.
    pub(super) lane: LaneId,
    pub(super) version: u64,
    pub(super) domain: &'static str,
    pub(super) name: &'static str,
    pub(super) number: u8,
    pub(super) priority: Option<i16>,
    pub(super) thread_priority: Option<i16>,
    /// Lanes that took it over.
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

    /// For each subscription in effect since an event was admitted, whether it matches the event.
    fn verdicts(&self, event: &Published) -> impl Iterator<Item = bool> {
        let first = self.types.iter().rposition(|(version, _)| *version <= event.version).unwrap_or(0);
        let counting = self.types.iter().skip(first);
        counting
            .map(|(_, types)| types.is_empty() || types.iter().any(|wanted| matches(wanted, event.domain, event.name)))
    }

    /// Whether the consumer may get an event. Lanes pick routing up at different times, so that one with a later
    /// subscription may be handed an event admitted before it.
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
    /// Threads of the lane that serves a priority, and the index of the lane in its pool.
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

    /// Priority of an event for its supplier's lane.
    pub(super) fn own_priority(&self, event: &Published) -> i16 {
        event.thread_priority.or(event.priority).unwrap_or(self.suppliers[event.supplier].priority)
    }

    /// Priority of an event for the lane of one of its consumers.
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

    /// Checks a delivery to a consumer on a lane.
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

    /// Checks a hand-over to a lane.
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

    /// Events that connected consumers should have received and have not: consumer and event.
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

//! Scheduling of topics: where a lane has more than one, events wait for their topic's turn before they are handed in.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::topic_queues::{TopicQueues, Waiting};
use super::types::Types;
use super::{Lane, Snapshot};
use crate::{
    ChannelId, ChannelRoutes, Discipline, Event, LaneId, OrderPolicy, PendingEvent, ProxyKey, Time, TopicSettings,
    Topics, TypeId,
};

/// An event whose turn has come.
#[derive(Debug)]
pub struct ScheduledEvent {
    /// The supplier's proxy.
    pub source: ProxyKey,
    /// The event, to be handed in now by [`Lane::handle_event`]. `None` for a hand-over of another lane, which the
    /// protocol has: it is for [`Lane::begin_handover`].
    pub pending_event: Option<PendingEvent>,
    /// The protocol's own note, passed with the event.
    pub token: u64,
}

/// An event that waits for its turn.
#[derive(Debug)]
struct Queued {
    scheduled: ScheduledEvent,
    event_type: TypeId,
}

impl Lane {
    /// Sets the discipline from now on: for the main lane; other lanes get theirs with the routing. Default
    /// [`Discipline::Shares`].
    pub fn set_discipline(&mut self, discipline: Discipline) {
        self.topic_scheduler.topic_queues.set_discipline(discipline);
    }

    /// Whether events have to wait for their turn: there are several topics of channels with connected suppliers, or
    /// events wait already. Otherwise they are handed in as they come.
    #[must_use]
    pub fn schedules_topics(&self) -> bool {
        self.topic_scheduler.in_use > 1 || self.queued_events() > 0
    }

    /// Queues an event for its turn. Its type and priority are set already. Waiting events are not charged to the
    /// channel's memory budget: the protocol limits them by what it reads.
    pub fn schedule_event(&mut self, source: ProxyKey, pending_event: PendingEvent, token: u64, now: Time) {
        self.note_submitted(source, &pending_event, now);
        let topic =
            self.topic_scheduler.topic_of(source.channel, pending_event.event_type, &pending_event, &self.types);
        let (event_type, priority) = (pending_event.event_type, self.scheduling_priority(source, &pending_event));
        self.enqueue_scheduled(
            topic,
            priority,
            Queued { scheduled: ScheduledEvent { source, pending_event: Some(pending_event), token }, event_type },
        );
    }

    /// Queues a hand-over of another lane for its turn. The protocol stores the event; at most as many of a channel
    /// wait as one lane may have under way to another.
    pub fn schedule_handover(&mut self, event: &Event, token: u64, now: Time) {
        self.advance_time(now);
        let source = event.source;
        let (domain, name) = event.names();
        let event_type = self.intern(domain, name);
        let topic = self.topic_scheduler.topic_of(source.channel, event_type, event, &self.types);
        let priority = self.scheduling_priority(source, event);
        self.enqueue_scheduled(
            topic,
            priority,
            Queued { scheduled: ScheduledEvent { source, pending_event: None, token }, event_type },
        );
    }

    fn enqueue_scheduled(&mut self, topic: u32, priority: i16, queued: Queued) {
        self.counters.taken.queued += u64::from(self.queued_events() > 0);
        self.types.hold(queued.event_type);
        self.topic_scheduler.topic_queues.push(topic, priority, queued, self.now);
        let waiting = self.queued_events() as u64;
        self.counters.taken.queued_max = self.counters.taken.queued_max.max(waiting);
    }

    /// The event with the next turn; `None` if none waits.
    pub fn poll_scheduled(&mut self, now: Time) -> Option<ScheduledEvent> {
        self.advance_time(now);
        let queued = self.topic_scheduler.topic_queues.pop()?;
        self.types.pass_on(queued.event_type);
        Some(queued.scheduled)
    }

    /// Number of events that wait for their turn.
    #[must_use]
    pub fn queued_events(&self) -> usize {
        self.topic_scheduler.topic_queues.len()
    }

    /// Priority of an event within its topic: the same for all, so that the order of arrival counts, unless its
    /// supplier's order policy is by priority.
    fn scheduling_priority(&self, source: ProxyKey, event: &Event) -> i16 {
        match self.snapshot.supplier(source) {
            Some(route) if route.settings.order_policy == OrderPolicy::Priority => {
                event.priority.unwrap_or(route.settings.priority)
            }
            _ => 0,
        }
    }
}

/// A lane's topics, and the events that wait for their turn.
#[derive(Debug)]
pub(super) struct TopicScheduler {
    topic_queues: TopicQueues<Queued>,
    channels: HashMap<ChannelId, ChannelTopics>,
    /// Topic of events of channels that do not exist (any more): they are refused when their turn comes.
    strays: u32,
    /// Number of topics of channels with connected suppliers.
    in_use: usize,
    /// Working space, retained for its capacity.
    moved: Vec<Waiting<Queued>>,
}

/// One channel's topics.
#[derive(Debug)]
struct ChannelTopics {
    settings: Arc<Topics>,
    rest: u32,
    /// Topics in the order of `settings.by_type`.
    by_type: Vec<u32>,
    /// Cache of types' topics.
    known: HashMap<TypeId, u32>,
    /// Number of the channel's topics in use.
    in_use: usize,
}

impl ChannelTopics {
    /// Whether the listed types are the same, so that each event's topic is too.
    fn has_types_of(&self, topics: &Topics) -> bool {
        let listed = topics.by_type.iter().map(|(listed, _)| listed);
        self.settings.by_type.iter().map(|(listed, _)| listed).eq(listed)
    }

    /// Updates the settings of unchanged topics.
    fn set(&mut self, topics: &Arc<Topics>, topic_queues: &mut TopicQueues<Queued>) {
        for (slot, (_, settings)) in self.by_type.iter().zip(&topics.by_type) {
            topic_queues.set(*slot, *settings);
        }
        topic_queues.set(self.rest, topics.rest);
        self.settings = Arc::clone(topics);
    }
}

/// Most cached types for each channel. Beyond it the cache is cleared.
const KNOWN_MAX: usize = 4_096;

impl TopicScheduler {
    pub(super) fn new() -> Self {
        let mut topic_queues = TopicQueues::new(Discipline::default());
        let strays = topic_queues.add(TopicSettings::default(), u64::MAX);
        Self { topic_queues, channels: HashMap::new(), strays, in_use: 0, moved: Vec::new() }
    }

    /// Takes the lane's discipline from the routing, except on the main lane.
    pub(super) fn follow(&mut self, lane: LaneId, snapshot: &Snapshot) {
        if let Some(info) = snapshot.lane(lane) {
            self.topic_queues.set_discipline(info.discipline);
        }
    }

    /// Updates a channel that is new or changed.
    pub(super) fn update(&mut self, routes: &ChannelRoutes, types: &Types) {
        match self.channels.get_mut(&routes.id) {
            Some(channel) if Arc::ptr_eq(&channel.settings, &routes.topics) => {}
            Some(channel) if channel.has_types_of(&routes.topics) => {
                channel.set(&routes.topics, &mut self.topic_queues)
            }
            _ => self.replace(routes, types),
        }
        let Some(channel) = self.channels.get_mut(&routes.id) else { return };
        let in_use = if routes.connected_suppliers > 0 { 1 + channel.by_type.len() } else { 0 };
        self.in_use = self.in_use + in_use - core::mem::replace(&mut channel.in_use, in_use);
    }

    /// Rebuilds a channel's topics. Its waiting events move to their new topics.
    fn replace(&mut self, routes: &ChannelRoutes, types: &Types) {
        let in_use = self.take_out(routes.id);
        let settings = Arc::clone(&routes.topics);
        let order = |at: usize| (u64::from(routes.id.0) << 16) | at as u64;
        let add = |topic_queues: &mut TopicQueues<Queued>, (at, of): (usize, &TopicSettings)| {
            topic_queues.add(*of, order(at))
        };
        let listed = settings.by_type.iter().map(|(_, of)| of).enumerate();
        let by_type: Vec<u32> = listed.map(|of| add(&mut self.topic_queues, of)).collect();
        let rest = add(&mut self.topic_queues, (by_type.len(), &settings.rest));
        let known = HashMap::new();
        self.channels.insert(routes.id, ChannelTopics { settings, rest, by_type, known, in_use });
        self.put_back(types);
    }

    /// Removes a channel that is gone. Its waiting events keep their order.
    pub(super) fn remove(&mut self, channel: ChannelId, types: &Types) {
        self.in_use -= self.take_out(channel);
        self.put_back(types);
    }

    /// Removes a channel's topics and its waiting events, to be put back. Returns the number of topics that were in use.
    fn take_out(&mut self, channel: ChannelId) -> usize {
        let Some(gone) = self.channels.remove(&channel) else { return 0 };
        for slot in gone.by_type.iter().copied().chain([gone.rest]) {
            self.topic_queues.take_all(slot, &mut self.moved);
            self.topic_queues.remove(slot);
        }
        gone.in_use
    }

    fn put_back(&mut self, types: &Types) {
        let mut moved = core::mem::take(&mut self.moved);
        for waiting in moved.drain(..) {
            let Queued { scheduled, event_type } = &waiting.message;
            // An event that is not here and has a type without a number by now goes with the rest.
            let nameless = Event::default();
            let event = scheduled.pending_event.as_deref().unwrap_or(&nameless);
            let topic = self.topic_of(scheduled.source.channel, *event_type, event, types);
            self.topic_queues.put_back(topic, waiting);
        }
        self.moved = moved;
    }

    /// Topic of an event, by the number of its type or the names in the event.
    fn topic_of(&mut self, channel: ChannelId, event_type: TypeId, event: &Event, types: &Types) -> u32 {
        let Some(channel) = self.channels.get_mut(&channel) else { return self.strays };
        if channel.by_type.is_empty() {
            return channel.rest;
        }
        if let Some(topic) = channel.known.get(&event_type) {
            return *topic;
        }
        let names = types.names(event_type);
        let (domain, name) = names.unwrap_or_else(|| event.names());
        let at = channel.settings.find(domain, name);
        let topic = at.and_then(|at| channel.by_type.get(at)).copied().unwrap_or(channel.rest);
        if names.is_some() {
            if channel.known.len() >= KNOWN_MAX {
                channel.known.clear();
            }
            channel.known.insert(event_type, topic);
        }
        topic
    }
}

//! Events on their way from the engine to a door.

use std::sync::Arc;

use engine::Event;

use crate::lane::run::Core;

/// Lists for the events of deliveries that are made in advance and kept, and events for which each has room at first.
const LISTS: usize = 64;
const LIST_EVENTS: usize = 16;

/// What is used for deliveries again and again, and whether there are more.
pub(crate) struct Deliveries {
    /// The engine may have more deliveries due than were begun at one go.
    pub(crate) undelivered: bool,
    /// Lists for the events of deliveries: as many as are usually in use at once, so that none has to be made on an event's path.
    lists: Vec<Vec<Arc<Event>>>,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self { undelivered: false, lists: (0..LISTS).map(|_| Vec::with_capacity(LIST_EVENTS)).collect() }
    }
}

impl Core {
    /// A list for events, used again.
    pub(crate) fn take_events(&mut self) -> Vec<Arc<Event>> {
        self.deliveries.lists.pop().unwrap_or_default()
    }

    /// Lets go of events and keeps their list.
    pub(crate) fn recycle(&mut self, mut events: Vec<Arc<Event>>) {
        self.let_go(&mut events);
        if self.deliveries.lists.len() < LISTS {
            self.deliveries.lists.push(events);
        }
    }

    /// Lets go of events.
    pub(crate) fn let_go(&mut self, events: &mut Vec<Arc<Event>>) {
        for event in events.drain(..) {
            self.lane.release(event);
        }
    }
}

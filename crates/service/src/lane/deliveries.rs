//! Events on their way from the engine to a protocol.

use std::sync::Arc;

use engine::{Delivery, Event, Outcome};

use crate::lane::run::Core;
use crate::protocols::{Tag, WireProtocol, by_tag};

/// Deliveries begun at one go: a one-way consumer with a long backlog and a fast connection must not keep the others
/// waiting. An event for more consumers than that reaches the rest of them in the next rounds.
const DELIVERIES_PER_BATCH: usize = 256;

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
    /// Sends what the engine says is due. There may be more if `undelivered` says so.
    pub(crate) fn deliver(&mut self) {
        // First, since the other lanes can work on it while this one goes on.
        self.send_handovers();
        let mut events = self.take_events();
        for _ in 0..DELIVERIES_PER_BATCH {
            // Looked at where it was written, and the list kept in hand: copies of what was just written in smaller pieces stall
            // the processor: a profiler found it there for a twelfth of its samples at deliveries of 64 octets.
            let delivery = self.lane.poll_delivery(self.clock.now, &mut events);
            let Some(next) = &delivery else {
                self.recycle(events);
                self.deliveries.undelivered = false;
                return;
            };
            if next.pulled || next.ask.is_some() {
                if let Some(delivery) = delivery {
                    let events = core::mem::replace(&mut events, self.take_events());
                    self.deliver_specially(delivery, events);
                }
            } else if self.protocols.waits_for_filters(next.outbox) {
                self.leave_waiting(next, &mut events);
            } else {
                self.send(next, &mut events);
            }
            self.flush_if_much();
        }
        self.recycle(events);
        self.deliveries.undelivered = true;
    }

    /// Hands over a delivery that was pulled, or has remote filters asked about any other.
    #[inline(never)]
    fn deliver_specially(&mut self, delivery: Delivery, mut events: Vec<Arc<Event>>) {
        if delivery.pulled {
            by_tag!(Tag::of_output_form(delivery.output_form), P => P::HAND_OVER(self, delivery, events));
        } else if self.protocols.waits_for_filters(delivery.outbox) {
            self.leave_waiting(&delivery, &mut events);
            self.recycle(events);
        } else {
            self.call_filters_for_delivery(delivery, events, None);
        }
    }

    /// Remote filters are being asked about an earlier event, which is to stay the earlier one.
    #[cold]
    fn leave_waiting(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) {
        self.release_events(events);
        self.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::NoRoom, self.clock.now);
    }

    /// A list for events, used again.
    pub(crate) fn take_events(&mut self) -> Vec<Arc<Event>> {
        self.deliveries.lists.pop().unwrap_or_default()
    }

    /// Releases events and keeps their list.
    pub(crate) fn recycle(&mut self, mut events: Vec<Arc<Event>>) {
        self.release_events(&mut events);
        if self.deliveries.lists.len() < LISTS {
            self.deliveries.lists.push(events);
        }
    }

    /// Releases the events that sockets have taken.
    pub(crate) fn release_written(&mut self) {
        while let Some(event) = self.io.spares.events.pop() {
            self.lane.release(event);
        }
    }

    /// Releases events.
    pub(crate) fn release_events(&mut self, events: &mut Vec<Arc<Event>>) {
        for event in events.drain(..) {
            self.lane.release(event);
        }
    }
}

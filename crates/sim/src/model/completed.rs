//! Location and outcome of each event, to check reports of completion.

use std::collections::BTreeSet;

use engine::{Outcome, ProxyKey};

use super::{Model, Outbox};

/// Outcome of an event for a consumer that does not have it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Delivered,
    Unwanted,
    Dropped,
}

impl Outbox {
    fn labels(&self) -> impl Iterator<Item = usize> {
        let in_flight = self.in_flight.iter().flat_map(|flight| &flight.events);
        self.waiting.iter().chain(in_flight).map(|waiting| waiting.event)
    }
}

impl Model {
    /// Whether an event was accepted.
    pub(crate) fn is_taken(&self, label: usize) -> bool {
        self.events[label].taken
    }

    /// Consumers of an event when it was admitted.
    pub(crate) fn consumers_of(&self, label: usize) -> &[ProxyKey] {
        &self.events[label].consumers
    }

    /// Whether an event is in a consumer's outbox.
    pub(crate) fn has(&self, key: ProxyKey, label: usize) -> bool {
        self.outboxes.iter().any(|outbox| outbox.key == key && outbox.labels().any(|other| other == label))
    }

    /// Whether an event is in an orphaned backlog that is not yet released.
    pub(crate) fn is_left_over(&self, label: usize) -> bool {
        self.orphaned_events.contains(&label)
    }

    /// Events in the lane or the protocol.
    pub(crate) fn everywhere(&self) -> BTreeSet<usize> {
        let outboxes = self.outboxes.iter().flat_map(Outbox::labels);
        self.orphaned_events.iter().chain(&self.handed_out).copied().chain(outboxes).collect()
    }

    /// Outcome of an event for a consumer that does not have it any more.
    pub(crate) fn end_of(&self, key: ProxyKey, label: usize) -> End {
        let outcome = self.concluded.iter().find(|(of, ..)| *of == (key, label)).map(|(_, outcome)| *outcome);
        match outcome {
            Some(Outcome::Delivered | Outcome::Sent) => End::Delivered,
            Some(Outcome::Filtered) => End::Unwanted,
            _ => End::Dropped,
        }
    }
}

//! Orphaned backlogs: that of a consumer that is gone can be a million events, and releasing them all at once would
//! keep every other consumer waiting. They are released a few at a time, and at once only as far as their channel
//! needs the room.

use super::Lane;
use super::outbox::Backlog;
use crate::{DiscardReason, ProxyKey};

/// The backlog of a consumer that is gone.
#[derive(Debug)]
pub(super) struct OrphanedBacklog {
    /// Its proxy, and the reason of the drops; of a bridge, whose events are dropped for no consumer, no reason.
    key: ProxyKey,
    reason: Option<DiscardReason>,
    events: Backlog,
}

/// Orphaned events released per round.
const EVENTS_PER_ROUND: usize = 256;

impl Lane {
    pub(super) fn leave(&mut self, key: ProxyKey, reason: Option<DiscardReason>, events: Backlog) {
        if !events.is_empty() {
            self.news.orphaned_backlogs.push_back(OrphanedBacklog { key, reason, events });
        }
    }

    /// Releases the events of one round.
    pub(super) fn release_orphaned(&mut self) {
        for _ in 0..EVENTS_PER_ROUND {
            if !self.release_orphaned_at(0) {
                // No drops are left to be counted by the types of removed channels.
                return self.types.release_leaving();
            }
        }
    }

    /// Releases one orphaned event of this channel. Returns whether there was one.
    pub(super) fn release_orphaned_of(&mut self, channel: u32) -> bool {
        let Some(id) = self.channels.get(channel).map(|state| state.id) else { return false };
        let at = self.news.orphaned_backlogs.iter().position(|orphaned| orphaned.key.channel == id);
        at.is_some_and(|at| self.release_orphaned_at(at))
    }

    fn release_orphaned_at(&mut self, at: usize) -> bool {
        let Some(orphaned) = self.news.orphaned_backlogs.get_mut(at) else { return false };
        let (key, reason) = (orphaned.key, orphaned.reason);
        let event = orphaned.events.pop(&self.events);
        if orphaned.events.is_empty() {
            self.news.orphaned_backlogs.remove(at);
        }
        if let Some(event) = event {
            if let Some(reason) = reason {
                self.drops.count(key, self.events.event_type(event), reason, &mut self.types);
                self.complete_orphaned(key, event, reason);
            }
            self.release_holder(event);
        }
        true
    }
}

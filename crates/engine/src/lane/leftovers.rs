//! What consumers leave behind: the backlog of one that is gone can be a million events, and letting go of them all at
//! once would keep every other consumer waiting. They are let go of a few at a time, and at once only as far as their
//! channel needs the room.

use super::Lane;
use super::outbox::Backlog;
use crate::{DiscardReason, ProxyKey};

/// A backlog that is no consumer's any more.
#[derive(Debug)]
pub(super) struct Leftover {
    /// The proxy that had it, and why it goes; of a bridge, with events that are dropped for no consumer, no reason.
    key: ProxyKey,
    reason: Option<DiscardReason>,
    events: Backlog,
}

/// How many leftover events one turn of the lane lets go of.
const EVENTS_PER_TURN: usize = 256;

impl Lane {
    pub(super) fn leave(&mut self, key: ProxyKey, reason: Option<DiscardReason>, events: Backlog) {
        if !events.is_empty() {
            self.news.leftovers.push_back(Leftover { key, reason, events });
        }
    }

    /// Lets go of one turn's worth.
    pub(super) fn let_go_leftovers(&mut self) {
        for _ in 0..EVENTS_PER_TURN {
            if !self.let_go_leftover_at(0) {
                // Then the types of what gone channels had are not asked for any more.
                return self.types.let_go_leaving();
            }
        }
    }

    /// Lets go of one event that was left behind in this channel. Says whether there was one.
    pub(super) fn let_go_leftover_of(&mut self, channel: u32) -> bool {
        let Some(id) = self.channels.get(channel).map(|state| state.id) else { return false };
        let at = self.news.leftovers.iter().position(|leftover| leftover.key.channel == id);
        at.is_some_and(|at| self.let_go_leftover_at(at))
    }

    fn let_go_leftover_at(&mut self, at: usize) -> bool {
        let Some(leftover) = self.news.leftovers.get_mut(at) else { return false };
        let (key, reason) = (leftover.key, leftover.reason);
        let event = leftover.events.pop(&self.events);
        if leftover.events.is_empty() {
            self.news.leftovers.remove(at);
        }
        if let Some(event) = event {
            if let Some(reason) = reason {
                self.drops.count(key, self.events.event_type(event), reason, &mut self.types);
                self.settle_leftover(key, event, reason);
            }
            self.let_go(event);
        }
        true
    }
}

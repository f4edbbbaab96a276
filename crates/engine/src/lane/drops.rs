//! What was dropped by consumer, event type and reason: [`Discards`](super::Discards) for whoever wants to know which
//! data is missing.
//!
//! The table is bounded, and made when the lane is: nothing in it allocates later, or takes another piece of memory. What finds no place
//! in it is counted in one number; when new routing comes while it is full, the consumers that are gone make room.

use alloc::vec::Vec;

use super::types::Types;
use super::{DiscardReason, Lane};
use crate::{ProxyKey, Snapshot, TypeId};

/// How many events of one type were dropped for one consumer for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeDrops {
    /// The consumer's proxy, which may be gone.
    pub key: ProxyKey,
    /// The type; [`TypeId::OTHER`] stands for all that have no number.
    pub event_type: TypeId,
    /// Why they were dropped.
    pub reason: DiscardReason,
    /// How many.
    pub events: u64,
}

impl TypeDrops {
    /// By what the table is sorted.
    const fn place(&self) -> (ProxyKey, TypeId, u8) {
        (self.key, self.event_type, self.reason as u8)
    }
}

#[derive(Debug)]
pub(super) struct Drops {
    /// Rises by consumer, type and reason. A sorted vector, because places that are emptied in a hash map make it allocate later, and a new
    /// map for each thousand consumers that went with events of theirs undelivered had the allocator take memory for good, since small
    /// things had been put where the last one was.
    counts: Vec<TypeDrops>,
    others: u64,
}

impl Drops {
    const ENTRIES_MAX: usize = 1_024;

    pub(super) fn new() -> Self {
        Self { counts: Vec::with_capacity(Self::ENTRIES_MAX), others: 0 }
    }

    pub(super) fn count(&mut self, key: ProxyKey, event_type: TypeId, reason: DiscardReason, types: &mut Types) {
        // One whose channel is gone longer than what waited for its consumers.
        let event_type = types.names(event_type).map_or(TypeId::OTHER, |_| event_type);
        let one = TypeDrops { key, event_type, reason, events: 1 };
        match self.counts.binary_search_by_key(&one.place(), TypeDrops::place) {
            Ok(at) => self.counts.get_mut(at).into_iter().for_each(|drops| drops.events += 1),
            Err(at) if self.counts.len() < Self::ENTRIES_MAX => {
                self.counts.insert(at, one);
                types.hold(event_type);
            }
            Err(_) => self.others += 1,
        }
    }

    /// If there is no place left, makes some: what was dropped for consumers that are not routed to is counted with the
    /// others.
    pub(super) fn make_place(&mut self, snapshot: &Snapshot, types: &mut Types) {
        if self.counts.len() < Self::ENTRIES_MAX {
            return;
        }
        self.counts.retain(|drops| {
            let at = snapshot.channels.binary_search_by_key(&drops.key.channel, |routes| routes.id).ok();
            let routes = at.and_then(|at| snapshot.channels.get(at));
            let is_routed = routes.is_some_and(|routes| routes.consumers.place_of(drops.key.proxy).is_some());
            if !is_routed {
                self.others += drops.events;
                types.let_go(drops.event_type);
            }
            is_routed
        });
    }
}

impl Lane {
    /// What was dropped by consumer, event type and reason, in their order: 1,024 entries at most. The backlog of a consumer that is gone is in
    /// [`Discards`](crate::Discards) at once and here as it is let go of, a little each turn.
    pub fn type_drops(&self) -> impl Iterator<Item = TypeDrops> {
        self.drops.counts.iter().copied()
    }

    /// How many more events were dropped than [`type_drops`](Self::type_drops) has places for.
    #[must_use]
    pub fn type_drops_beyond(&self) -> u64 {
        self.drops.others
    }
}

//! Drops by consumer, event type and reason: more detailed than [`Discards`](super::Discards), so that missing data
//! can be named.
//!
//! The table is bounded, and allocated with the lane, so that counting allocates nothing. Drops that find it full are counted in one
//! number; when new routing comes while it is full, entries of consumers that are gone make room.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::types::Types;
use super::{DiscardReason, Lane};
use crate::{ProxyKey, Snapshot, TypeId};

/// Events of one type dropped for one consumer for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeDrops {
    /// The consumer's proxy, which may be gone.
    pub key: ProxyKey,
    /// The event type; [`TypeId::OTHER`] stands for all without a number.
    pub event_type: TypeId,
    /// Reason of the drops.
    pub reason: DiscardReason,
    /// Number of events.
    pub events: u64,
}

type Of = (ProxyKey, TypeId, DiscardReason);

#[derive(Debug)]
pub(super) struct Drops {
    counts: HashMap<Of, u64>,
    /// Scratch space for entries that stay while others make room; empty otherwise.
    stay: Vec<(Of, u64)>,
    others: u64,
}

impl Drops {
    const ENTRIES_MAX: usize = 1_024;

    pub(super) fn new() -> Self {
        let (counts, stay) = (HashMap::with_capacity(Self::ENTRIES_MAX), Vec::with_capacity(Self::ENTRIES_MAX));
        Self { counts, stay, others: 0 }
    }

    pub(super) fn count(&mut self, key: ProxyKey, event_type: TypeId, reason: DiscardReason, types: &mut Types) {
        // The type has no names if its channel is gone longer than what waited for its consumers.
        let event_type = types.names(event_type).map_or(TypeId::OTHER, |_| event_type);
        let of = (key, event_type, reason);
        if let Some(count) = self.counts.get_mut(&of) {
            *count += 1;
        } else if self.counts.len() < Self::ENTRIES_MAX {
            self.counts.insert(of, 1);
            types.hold(event_type);
        } else {
            self.others += 1;
        }
    }

    /// Makes room in a full table: entries of consumers that are not in the routing are added to the common number.
    pub(super) fn make_place(&mut self, snapshot: &Snapshot, types: &mut Types) {
        if self.counts.len() < Self::ENTRIES_MAX {
            return;
        }
        let is_routed = |key: ProxyKey| {
            let at = snapshot.channels.binary_search_by_key(&key.channel, |routes| routes.id).ok();
            let routes = at.and_then(|at| snapshot.channels.get(at));
            routes.is_some_and(|routes| routes.consumers.place_of(key.proxy).is_some())
        };
        let gone: u64 = self.counts.iter().filter(|((key, ..), _)| !is_routed(*key)).map(|(_, events)| *events).sum();
        if gone == 0 {
            return;
        }
        self.others += gone;
        // All are taken out, because places that are emptied one by one could make the map allocate later. A new map would lie elsewhere,
        // once something small has been put where the one before it was.
        for (of, events) in self.counts.drain() {
            if is_routed(of.0) {
                self.stay.push((of, events));
            } else {
                types.release(of.1);
            }
        }
        self.counts.extend(self.stay.drain(..));
    }
}

impl Lane {
    /// Drops by consumer, event type and reason, in no order: 1,024 entries at most. The backlog of a consumer that is
    /// gone is in [`Discards`](crate::Discards) at once, and here as it is released, some of it each round.
    pub fn type_drops(&self) -> impl Iterator<Item = TypeDrops> {
        let drops = self.drops.counts.iter();
        drops.map(|(&(key, event_type, reason), &events)| TypeDrops { key, event_type, reason, events })
    }

    /// Number of drops beyond the entries of [`type_drops`](Self::type_drops).
    #[must_use]
    pub fn type_drops_beyond(&self) -> u64 {
        self.drops.others
    }
}

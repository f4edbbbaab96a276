//! What was dropped by consumer, event type and reason: [`Discards`](super::Discards) in such detail that it shows which data is missing.
//!
//! The table is bounded, and made when the lane is, so that counting allocates nothing. What finds no place in it is
//! counted in one number; when new routing comes while it is full, the consumers that are gone make room.

use alloc::vec::Vec;

use hashbrown::HashMap;

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

/// The consumer, the type and the reason.
type Of = (ProxyKey, TypeId, DiscardReason);

#[derive(Debug)]
pub(super) struct Drops {
    counts: HashMap<Of, u64>,
    /// Where counts are put aside while others make room; empty otherwise.
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

    /// If there is no place left, makes some: what was dropped for consumers that are not routed to is counted with the
    /// others.
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
    /// What was dropped by consumer, event type and reason, in no order: 1,024 entries at most. The backlog of a consumer
    /// that is gone is in [`Discards`](crate::Discards) at once and here as it is released, a little each turn.
    pub fn type_drops(&self) -> impl Iterator<Item = TypeDrops> {
        let drops = self.drops.counts.iter();
        drops.map(|(&(key, event_type, reason), &events)| TypeDrops { key, event_type, reason, events })
    }

    /// How many more events were dropped than [`type_drops`](Self::type_drops) has places for.
    #[must_use]
    pub fn type_drops_beyond(&self) -> u64 {
        self.drops.others
    }
}

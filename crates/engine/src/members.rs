//! The connected consumers of a channel as the event path knows them: each at a place that it keeps for as long as it is
//! connected.

use alloc::sync::Arc;

use crate::shared::{SharedMap, SharedSlots};
use crate::{ConsumerRoute, ProxyId};

/// Consumers by place. Places that were left are taken again, so that their number is the most that there were at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    routes: SharedSlots<Arc<ConsumerRoute>, 64>,
    places: SharedMap<u32>,
}

impl Members {
    /// The consumer at a place.
    pub(crate) fn get(&self, place: u32) -> Option<&Arc<ConsumerRoute>> {
        self.routes.get(place)
    }

    /// The place of a proxy's consumer.
    pub(crate) fn place_of(&self, proxy: ProxyId) -> Option<u32> {
        self.places.get(proxy).copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many places there may be; those beyond were never taken.
    pub(crate) fn places(&self) -> usize {
        self.routes.len()
    }

    /// All of them with their places, which rise.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<ConsumerRoute>)> {
        (0..).zip(self.routes.iter()).filter_map(|(place, route)| Some((place, route?)))
    }

    /// The places at which something is different from `before`: with the consumer there then, and now.
    pub(crate) fn changes_from<'m>(
        &'m self,
        before: &'m Self,
    ) -> impl Iterator<Item = (u32, Option<&'m Arc<ConsumerRoute>>, Option<&'m Arc<ConsumerRoute>>)> {
        self.routes.changes_from(&before.routes)
    }

    /// Puts a consumer at a place that is its own or free.
    pub(crate) fn put(&mut self, place: u32, route: ConsumerRoute) {
        if self.place_of(route.key.proxy).is_none() {
            self.places.insert(route.key.proxy, place);
        }
        self.routes.set(place, Some(Arc::new(route)));
    }

    /// Releases a piece of them, where none is asked for any more. Says whether nothing else had it; nothing if there is none.
    pub(crate) fn release(&mut self) -> Option<bool> {
        self.routes.release().or_else(|| self.places.release())
    }

    /// Frees a proxy's place.
    pub(crate) fn remove(&mut self, proxy: ProxyId) {
        if let Some(place) = self.place_of(proxy) {
            self.routes.set(place, None);
            self.places.remove(proxy);
        }
    }
}

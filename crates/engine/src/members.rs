//! The connected consumers of a channel as the event path sees them, each with a place that is its own while it is
//! connected.

use alloc::sync::Arc;

use crate::shared::{SharedMap, SharedSlots};
use crate::{ConsumerRoute, ProxyId};

/// Consumers by place. Free places are reused, so that there are never more than the most consumers connected at once.
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

    /// The place of the consumer connected to `proxy`.
    pub(crate) fn place_of(&self, proxy: ProxyId) -> Option<u32> {
        self.places.get(proxy).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Upper bound of the places in use.
    pub(crate) fn places(&self) -> usize {
        self.routes.len()
    }

    /// All consumers with their places, in rising order of place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<ConsumerRoute>)> {
        (0..).zip(self.routes.iter()).filter_map(|(place, route)| Some((place, route?)))
    }

    /// Places that differ from `before`, each with the old and the new consumer.
    pub(crate) fn changes_from<'m>(
        &'m self,
        before: &'m Self,
    ) -> impl Iterator<Item = (u32, Option<&'m Arc<ConsumerRoute>>, Option<&'m Arc<ConsumerRoute>>)> {
        self.routes.changes_from(&before.routes)
    }

    /// Puts a consumer at a place that is free or its own already.
    pub(crate) fn put(&mut self, place: u32, route: ConsumerRoute) {
        if self.place_of(route.key.proxy).is_none() {
            self.places.insert(route.key.proxy, place);
        }
        self.routes.set(place, Some(Arc::new(route)));
    }

    /// Releases one chunk, when no lookup will follow. Returns whether this was its last holder; `None` if no chunk is left.
    pub(crate) fn release(&mut self) -> Option<bool> {
        self.routes.release().or_else(|| self.places.release())
    }

    /// Frees the place of `proxy`.
    pub(crate) fn remove(&mut self, proxy: ProxyId) {
        if let Some(place) = self.place_of(proxy) {
            self.routes.set(place, None);
            self.places.remove(proxy);
        }
    }
}

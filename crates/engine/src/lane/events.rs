//! Events that wait in outboxes or are unanswered, each once, in slots: each holder has the slot number, and counting
//! the holders takes no atomic operation, however many consumers an event goes to.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::event::{EventAt, PLACE_BYTES};
use crate::{Event, PendingEvent, Time, TypeId};

/// A lane's events by slot.
#[derive(Debug)]
pub(super) struct Events {
    places: Vec<Place>,
    /// The first free slot.
    free: u32,
}

#[derive(Debug)]
struct Place {
    event: Option<Arc<Event>>,
    /// Number of holders in the lane; of a free slot, the next free one.
    holders: u32,
}

// There may be as many spare places as used ones.
const _: () = assert!(2 * size_of::<Place>() <= PLACE_BYTES);

/// End of the list of free slots.
const LAST: u32 = u32::MAX;

impl Events {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: LAST }
    }

    /// The slot of the next event, to be noted in it.
    pub(super) fn next(&self) -> EventAt {
        // Memory budgets keep the number of events far below 2^32.
        EventAt(if self.free == LAST { u32::try_from(self.places.len()).unwrap_or(LAST) } else { self.free })
    }

    /// Inserts a finished pending event, with one holder.
    pub(super) fn insert(&mut self, pending_event: PendingEvent) -> EventAt {
        let at = self.next();
        let content = Place { event: Some(pending_event.into_event()), holders: 1 };
        match self.places.get_mut(at.0 as usize) {
            Some(place) => self.free = core::mem::replace(place, content).holders,
            None => self.places.push(content),
        }
        at
    }

    #[inline]
    pub(super) fn get(&self, at: EventAt) -> Option<&Arc<Event>> {
        self.places.get(at.0 as usize)?.event.as_ref()
    }

    /// Mutable access to an event without a holder outside the lane.
    pub(super) fn get_mut(&mut self, at: EventAt) -> Option<&mut Event> {
        Arc::get_mut(self.places.get_mut(at.0 as usize)?.event.as_mut()?)
    }

    /// Sort key of an event in order of arrival.
    #[inline]
    pub(super) fn arrival_order(&self, at: EventAt) -> (Time, u64) {
        self.get(at).map_or((Time(0), 0), |event| (event.arrived, event.serial))
    }

    /// Weight of an event.
    #[inline]
    pub(super) fn weight(&self, at: EventAt) -> u64 {
        self.get(at).map_or(0, |event| event.weight_bytes)
    }

    /// Bytes that an event's channel is charged until nobody holds it.
    pub(super) fn charge(&self, at: EventAt) -> u64 {
        self.get(at).map_or(0, |event| event.charged_bytes)
    }

    pub(super) fn event_type(&self, at: EventAt) -> TypeId {
        self.get(at).map_or(TypeId::OTHER, |event| event.event_type)
    }

    /// An event's type and number for log lines: its number in the channel's history, if one is stored, else in its lane.
    pub(super) fn named(&self, at: EventAt) -> (TypeId, u64) {
        let event = self.get(at);
        let number = event.map_or(0, |event| event.number.map_or(event.serial, NonZeroU64::get));
        (self.event_type(at), number)
    }

    /// Adds a holder.
    #[inline]
    pub(super) fn hold(&mut self, at: EventAt) {
        if let Some(place) = self.places.get_mut(at.0 as usize) {
            place.holders += 1;
        }
    }

    /// Removes a holder. Returns the event if this was the last and there is none outside the lane either.
    #[inline]
    pub(super) fn release_holder(&mut self, at: EventAt) -> Option<Arc<Event>> {
        let place = self.places.get_mut(at.0 as usize).filter(|place| place.event.is_some())?;
        place.holders = place.holders.saturating_sub(1);
        if place.holders == 0 { self.take(at) } else { None }
    }

    /// Releases a holder outside the lane. Returns the event if it has no holder any more.
    pub(super) fn release_outside(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        let at = event.place;
        let place = self.places.get(at.0 as usize)?;
        if place.event.as_ref().is_none_or(|kept| !Arc::ptr_eq(kept, &event)) {
            return None;
        }
        let holders = place.holders;
        drop(event);
        if holders == 0 { self.take(at) } else { None }
    }

    fn take(&mut self, at: EventAt) -> Option<Arc<Event>> {
        let place = self.places.get_mut(at.0 as usize)?;
        if place.event.as_ref().is_none_or(|event| Arc::strong_count(event) > 1) {
            return None;
        }
        place.holders = core::mem::replace(&mut self.free, at.0);
        place.event.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(events: &mut Events, serial: u64) -> EventAt {
        let mut pending_event = PendingEvent::default();
        (pending_event.serial, pending_event.place) = (serial, events.next());
        events.insert(pending_event)
    }

    #[test]
    fn an_event_leaves_with_its_last_holder() {
        let mut events = Events::new();
        let at = event(&mut events, 7);
        events.hold(at);
        assert!(events.release_holder(at).is_none());
        assert_eq!(events.release_holder(at).map(|event| event.serial), Some(7));
        assert!(events.get(at).is_none());
        assert!(events.release_holder(at).is_none());
    }

    #[test]
    fn places_are_used_again() {
        let mut events = Events::new();
        let (one, other) = (event(&mut events, 1), event(&mut events, 2));
        events.release_holder(one);
        events.release_holder(other);
        assert_eq!([event(&mut events, 3), event(&mut events, 4)], [other, one]);
        assert_eq!(events.places.len(), 2);
    }

    #[test]
    fn an_event_that_is_held_outside_leaves_when_it_is_released_there() {
        let mut events = Events::new();
        let at = event(&mut events, 7);
        let outside = Arc::clone(events.get(at).unwrap());
        let twice = Arc::clone(&outside);
        assert!(events.release_holder(at).is_none());
        assert!(events.release_outside(outside).is_none());
        assert_eq!(events.release_outside(twice).map(|event| event.serial), Some(7));
    }

    #[test]
    fn an_event_of_another_supplier_changes_nothing() {
        let mut events = Events::new();
        let at = event(&mut events, 7);
        assert!(events.release_outside(Arc::new(Event { place: at, ..Event::default() })).is_none());
        assert!(events.release_outside(Arc::new(Event::default())).is_none());
        assert_eq!(events.arrival_order(at), (Time(0), 7));
    }
}

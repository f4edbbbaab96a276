//! Origins of the events that this process admits first, by which links know them wherever they go.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use engine::Event;

use crate::random;

/// The era of events that the store had before events were numbered. No process has it.
const OF_STORE: u64 = 0;

/// What origins are made of. Clones number together.
#[derive(Debug, Clone)]
pub(crate) struct Origins {
    /// The number by which other services know this one: that of the store, where there is one. Never 0.
    pub(crate) service: u64,
    /// The number of this process: its incarnation, and the era of its origins. Never 0.
    pub(crate) incarnation: u64,
    /// The last number that an event got. It is of all lanes: receivers keep what they have seen above a low mark, and take what is far
    /// below that for seen, so that numbers have to rise from one lane to the next, too.
    last: Arc<AtomicU64>,
    /// Whether events are numbered: where there is a link, or may be one.
    is_on: Arc<AtomicBool>,
}

impl Origins {
    /// Those of a service in this process.
    pub(crate) fn new(service: u64, is_on: bool) -> Self {
        Self { service, incarnation: random::identity(), last: Arc::default(), is_on: Arc::new(is_on.into()) }
    }

    /// Has all lanes number events from now on. One that a lane admits at this moment may get none, and is known by its serial.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Gives an event an origin, unless it has one, where events are numbered.
    #[inline]
    pub(crate) fn assign(&self, event: &mut Event) {
        if self.is_on() && event.origin().is_none() {
            let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
            event.set_origin(self.service, self.incarnation, number, &[]);
        }
    }

    /// The same of an event that the store has: the origin is the same after each restart.
    pub(crate) fn assign_stored(&self, event: &mut Event, number: u64) {
        if self.is_on() && event.origin().is_none() {
            event.set_origin(self.service, OF_STORE, number, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(event: &Event) -> (u64, u64, u64) {
        event.origin().map(|origin| (origin.service, origin.era, origin.number)).unwrap()
    }

    #[test]
    fn numbers_rise_over_all_lanes_and_an_event_that_has_an_origin_keeps_it() {
        let origins = Origins::new(7, false);
        let mut event = Event::default();
        origins.assign(&mut event);
        assert!(event.origin().is_none(), "there is no link");
        origins.clone().begin();
        let lanes = [origins.clone(), origins.clone()];
        for number in 1..=4_u64 {
            let mut event = Event::default();
            lanes[usize::from(number % 2 == 0)].assign(&mut event);
            let expected = (7, origins.incarnation, number);
            assert_eq!(origin(&event), expected);
            origins.assign(&mut event);
            origins.assign_stored(&mut event, 9);
            assert_eq!(origin(&event), expected);
        }
        let mut event = Event::default();
        origins.assign_stored(&mut event, 9);
        assert_eq!(origin(&event), (7, 0, 9));
        assert!(origins.incarnation != 0 && origins.incarnation != Origins::new(7, true).incarnation);
    }
}

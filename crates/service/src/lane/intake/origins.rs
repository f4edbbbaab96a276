//! Origins of the events that this process admits first, by which links recognise them everywhere.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use engine::Event;

use crate::random;

/// Era of events stored before events were numbered. No process has it.
const OF_STORE: u64 = 0;

/// Source of origins. Its clones share one sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Origins {
    /// Number by which other services know this one: the store's, where there is a store. Never 0.
    pub(crate) service: u64,
    /// Number of this process: its incarnation, and the era of its origins. Never 0.
    pub(crate) incarnation: u64,
    /// Last number given, shared by all lanes. Numbers have to rise across lanes: receivers remember numbers above a low mark, and take
    /// those far below it for seen.
    last: Arc<AtomicU64>,
    /// Whether events are numbered: only where a link exists or may exist.
    is_on: Arc<AtomicBool>,
}

impl Origins {
    /// Origins of a service in this process.
    pub(crate) fn new(service: u64, is_on: bool) -> Self {
        Self { service, incarnation: random::identity(), last: Arc::default(), is_on: Arc::new(is_on.into()) }
    }

    /// Has all lanes number events from now on. An event admitted at this moment may get no number, and is known by its serial.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Gives an event an origin, if events are numbered and it has none.
    #[inline]
    pub(crate) fn assign(&self, event: &mut Event) {
        if self.is_on() && event.origin().is_none() {
            let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
            event.set_origin(self.service, self.incarnation, number, &[]);
        }
    }

    /// Gives a stored event its origin, as [`Self::assign`] does, but the same one after each restart.
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

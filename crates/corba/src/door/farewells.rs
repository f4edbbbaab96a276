//! Farewells: a request that destroys a channel or an admin is answered when the clients of its proxies have been notified.
//!
//! Programs destroy a channel and look at once whether their consumers were disconnected, or end: JacORB's own tests do, and
//! its service and TAO's tell the clients first. A client that does not answer holds the reply back for a second at most.

use super::Door;
use engine::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Longest wait for the clients to be notified.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Requests that may wait for it at once; a further one is answered without.
const WAITING_MAX: usize = 256;

/// A request that is answered when clients have been notified of what it did. Opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Farewell(u64);

/// The clients that requests wait for.
#[derive(Debug, Default)]
pub(super) struct Farewells {
    next: u64,
    /// What the request that is being executed waits for, and how many there are of these.
    begun: Option<(Farewell, usize)>,
    /// Waiting requests. Those that began first end first, because time only goes forward.
    waiting: BTreeMap<Farewell, Waiting>,
    over: VecDeque<(Farewell, bool)>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Time,
    untold: usize,
}

impl Farewells {
    /// Begins a request, which has nothing to wait for yet.
    pub(super) fn begin(&mut self) {
        self.begun = None;
    }

    /// The request that is being executed waits for one thing more.
    pub(super) fn hold(&mut self) -> Farewell {
        let next = &mut self.next;
        let (farewell, count) = self.begun.get_or_insert_with(|| {
            *next += 1;
            (Farewell(*next), 0)
        });
        *count += 1;
        *farewell
    }

    /// Adds a client for which a request waits, unless the request has been answered: then nothing waits.
    fn one_more(&mut self, farewell: Farewell) -> Option<Farewell> {
        let begun = self.begun.as_mut().filter(|(begun, _)| *begun == farewell).map(|(_, count)| count);
        let count = begun.or_else(|| self.waiting.get_mut(&farewell).map(|waiting| &mut waiting.untold))?;
        *count += 1;
        Some(farewell)
    }

    /// The request has been executed; what it waits for, if it waits.
    fn take(&mut self, now: Time) -> Option<Farewell> {
        let (farewell, untold) = self.begun.take().filter(|(_, untold)| *untold > 0)?;
        if self.waiting.len() < WAITING_MAX {
            self.waiting.insert(farewell, Waiting { until: now + WAIT_MAX, untold });
        } else {
            self.over.push_back((farewell, false));
        }
        Some(farewell)
    }

    /// Counts off a client that has been notified, or cannot be, or something else that was waited for.
    pub(super) fn told(&mut self, farewell: Farewell) {
        if let Some((_, count)) = self.begun.as_mut().filter(|(begun, _)| *begun == farewell) {
            *count = count.saturating_sub(1);
            return;
        }
        let Some(waiting) = self.waiting.get_mut(&farewell) else { return };
        waiting.untold = waiting.untold.saturating_sub(1);
        if waiting.untold == 0 {
            self.waiting.remove(&farewell);
            self.over.push_back((farewell, true));
        }
    }

    /// Ends the waits that took too long.
    pub(super) fn handle_time(&mut self, now: Time) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.get().until <= now) {
            self.over.push_back((first.remove_entry().0, false));
        }
    }

    /// When the first one's time is over.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.values().next().map(|waiting| waiting.until)
    }
}

impl Door {
    /// Says, after [`Door::handle`], whether the request's reply is to be kept until [`Door::poll_farewell`] names it.
    pub fn take_farewell(&mut self) -> Option<Farewell> {
        self.farewells.take(self.time)
    }

    /// Takes note that a client has answered an [`Effect::Call`](super::Effect::Call), or cannot be reached.
    pub fn handle_told(&mut self, farewell: Farewell) {
        self.farewells.told(farewell);
    }

    /// Takes the next request with a reply that need not wait any longer, and whether all its clients have been notified.
    pub fn poll_farewell(&mut self) -> Option<(Farewell, bool)> {
        self.farewells.over.pop_front()
    }

    /// Has a request wait for the client that is notified now, unless it has been answered.
    pub(super) fn farewell(&mut self, by: Farewell) -> Option<Farewell> {
        self.farewells.one_more(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(farewells: &mut Farewells, clients: usize, now: Time) -> Option<Farewell> {
        farewells.begin();
        (0..clients).for_each(|_| _ = farewells.hold());
        farewells.take(now)
    }

    #[test]
    fn a_request_waits_until_all_have_been_told_or_a_second_is_over() {
        let mut farewells = Farewells::default();
        assert_eq!(begun(&mut farewells, 0, Time(0)), None);
        let one = begun(&mut farewells, 1, Time(0)).unwrap();
        let two = begun(&mut farewells, 2, Time(0) + WAIT_MAX / 2).unwrap();
        farewells.told(two);
        farewells.handle_time(Time(0) + WAIT_MAX / 2);
        assert!(farewells.over.is_empty());
        assert_eq!(farewells.next(), Some(Time(0) + WAIT_MAX));
        farewells.told(two);
        farewells.handle_time(Time(0) + WAIT_MAX);
        assert_eq!(farewells.over, [(two, true), (one, false)]);
        // An answer that comes too late changes nothing.
        farewells.told(one);
        assert_eq!((farewells.over.len(), farewells.next()), (2, None));
    }

    #[test]
    fn of_more_requests_than_may_wait_the_last_do_not() {
        let mut farewells = Farewells::default();
        let all: Vec<Farewell> = (0..=WAITING_MAX).filter_map(|_| begun(&mut farewells, 1, Time(0))).collect();
        assert_eq!(farewells.over, [(all[WAITING_MAX], false)]);
        farewells.told(all[0]);
        assert_eq!(farewells.over.back(), Some(&(all[0], true)));
        assert!(begun(&mut farewells, 1, Time(0)).is_some() && farewells.over.len() == 2);
    }
}

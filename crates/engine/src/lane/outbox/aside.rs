//! Set-aside events: trying a later event distinguishes an event that its consumer never takes from a consumer that
//! takes none.
//!
//! A failure puts everything back, and does not show what is at fault: a consumer may close the connection, answer
//! with the same exception, or not at all. So the failed deliveries of each event are counted. After
//! `delivery_attempts` failures, over [`ATTEMPTS_TAKE`] at least, an event is set aside at its next failure, and the
//! one behind it is tried at once. If the consumer takes that, the first is undeliverable. If not, the first is put
//! back in its place: the consumer is ill, and is retried as ever. Of several bad events in a row each has its
//! attempts: one after the other they fail, are set aside together, and the next is tried. Alone in the backlog, an
//! event waits.
//!
//! Deliveries set aside stay at the front of the unanswered ones: putting those back, or dropping them, includes these.

use alloc::vec::Vec;
use core::time::Duration;

use super::{EPISODE_OVER_AFTER, Outbox, Unanswered};
use crate::lane::events::Events;
use crate::lane::queue::Entry;
use crate::{OrderPolicy, Time};

/// Shortest time over which the attempts for an event are spread.
pub(in crate::lane) const ATTEMPTS_TAKE: Duration = Duration::from_secs(5);

/// Attempts after which a consumer that is about to be disconnected has a later event tried first.
const ATTEMPTS_BEFORE_THE_END: u32 = 2;

/// Most events of one outbox with counted attempts, and so most events set aside.
const ASIDE_MAX: usize = 8;

/// An event with failed deliveries.
#[derive(Clone, Copy, Debug)]
struct Blamed {
    serial: u64,
    attempts: u32,
    since: Time,
    last: Time,
}

/// Events that failed, and events set aside while a later one is tried.
#[derive(Debug)]
pub(in crate::lane) struct Aside {
    /// Number of deliveries set aside, at the front of the unanswered ones.
    pub(in crate::lane) deliveries: u32,
    /// When they are put back, unless a later event is under way.
    until: Time,
    blamed: Vec<Blamed>,
    /// Time of the last undeliverable event.
    undeliverable_at: Option<Time>,
}

impl Aside {
    pub(super) const NONE: Self =
        Self { deliveries: 0, until: Entry::NEVER, blamed: Vec::new(), undeliverable_at: None };
}

impl Outbox {
    /// Counts a failed attempt for an event.
    fn blame(&mut self, serial: u64, now: Time) {
        let blamed = &mut self.aside.blamed;
        if let Some(known) = blamed.iter_mut().find(|known| known.serial == serial) {
            (known.attempts, known.last) = (known.attempts.saturating_add(1), now);
            return;
        }
        if blamed.len() == ASIDE_MAX {
            let longest_ago = blamed.iter().enumerate().min_by_key(|(_, known)| known.last);
            if let Some((at, _)) = longest_ago {
                blamed.remove(at);
            }
        }
        blamed.push(Blamed { serial, attempts: 1, since: now, last: now });
    }

    /// Whether an event has used up its attempts.
    fn is_exhausted(&self, serial: u64, now: Time) -> bool {
        let attempts = self.terms.settings.delivery_attempts;
        self.aside.blamed.iter().find(|known| known.serial == serial).is_some_and(|known| {
            let has_had_them = known.attempts >= attempts && now.since(known.since) >= ATTEMPTS_TAKE;
            has_had_them || (self.is_hopeless(now) && known.attempts >= attempts.min(ATTEMPTS_BEFORE_THE_END))
        })
    }

    /// The event of the failed delivery at `position`, if it has only one. Events of a batch are delivered alone from
    /// now on, and then in batches that grow with each one taken: only one event may be the reason.
    pub(super) fn failed_event(&mut self, position: Option<usize>, events: &Events) -> Option<u64> {
        let position = position?;
        if self.is_batch(position) {
            self.single_out(position);
            return None;
        }
        self.first_of(position).map(|event| events.arrival_order(event).1)
    }

    /// Counts an attempt of the `failed` event, after all unanswered deliveries were put back, `was_aside` of them
    /// from aside. If the event has used up its attempts, it is set aside with those before it, provided that there is
    /// another event to try; true then. `until` is the time of the next attempt.
    pub(super) fn set_aside(
        &mut self,
        (failed, was_aside): (Option<u64>, u32),
        events: &Events,
        until: Time,
        now: Time,
    ) -> bool {
        let Some(failed) = failed else { return false };
        self.blame(failed, now);
        if !self.is_exhausted(failed, now) {
            return false;
        }
        while self.aside.deliveries <= was_aside
            && let Some((_, next)) = self.waiting.next(events)
            && self.is_exhausted(events.arrival_order(next).1, now)
            && let Some(entry) = self.waiting.pop(events)
        {
            let serial = self.flight.next_serial;
            self.flight.next_serial = serial.wrapping_add(1);
            self.flight.in_flight += 1;
            let unanswered = Unanswered { entry, deadline: Entry::NEVER, serial, credit: None, pulled: false };
            self.flight.unanswered.push_back(unanswered);
            self.aside.deliveries += 1;
        }
        // Where no set is left, the next one is tried.
        let has_another = self.waiting.ready() > 0 || (self.waiting.sets.is_some() && self.waiting.started() > 0);
        if !has_another {
            self.end_aside(events, now);
        }
        self.aside.until = until;
        self.aside.deliveries > 0
    }

    /// Puts back the deliveries set aside, and all later unanswered ones. Returns the number of events.
    pub(in crate::lane) fn end_aside(&mut self, events: &Events, now: Time) -> u64 {
        self.aside.deliveries = 0;
        self.put_back_from(0, events, now)
    }

    /// When the deliveries set aside are put back, if nothing else is under way.
    pub(in crate::lane) fn aside_until(&self) -> Option<Time> {
        let is_idle = self.flight.in_flight == self.aside.deliveries && self.trouble.blocked.is_none();
        (is_idle && self.aside.deliveries > 0).then_some(self.aside.until)
    }

    /// Resets counted attempts after an event was taken: by order of arrival those of all events, since the consumer was ill then.
    #[cold]
    pub(in crate::lane) fn forget_blame(&mut self, position: usize, events: &Events) {
        if matches!(self.terms.settings.order_policy, OrderPolicy::Any | OrderPolicy::Fifo) {
            return self.aside.blamed.clear();
        }
        let taken = self.flight.unanswered.get(position).map(|event| events.arrival_order(event.entry.event).1);
        self.aside.blamed.retain(|known| Some(known.serial) != taken);
    }

    /// Whether failed attempts are counted for any event.
    #[inline]
    pub(in crate::lane) fn blames(&self) -> bool {
        !self.aside.blamed.is_empty()
    }

    /// Whether deliveries of everything in the outbox have failed, however large it is: events stored elsewhere are to be tried instead.
    pub(in crate::lane) fn lacks_another(&self) -> bool {
        self.trouble.failures > 0 && self.backlog() <= self.aside.blamed.len().max(1)
    }

    /// Notes an undeliverable event. Returns whether it begins an episode: the first for [`EPISODE_OVER_AFTER`].
    pub(in crate::lane) fn begins_undeliverable(&mut self, now: Time) -> bool {
        let before = self.aside.undeliverable_at.replace(now);
        before.is_none_or(|before| now.since(before) >= EPISODE_OVER_AFTER)
    }
}

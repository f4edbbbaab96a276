//! The sending end of a flow.

use alloc::collections::VecDeque;

use crate::window::{Sample, Window};
use crate::{Limits, Nanos, Violation, WINDOW_BYTES_START};

/// The events of a flow in flight, each with an item of the caller's. It outlives sessions: events not acknowledged in one session are sent
/// again in the next.
///
/// It allocates nothing in the steady state. Its memory is bounded by [`Limits::window_bytes_max`] (or one event) and
/// [`Limits::outstanding_max`].
#[derive(Debug)]
pub struct Sender<T> {
    /// Unacknowledged events, from number `acknowledged + 1` on. The first `sent` of them were sent in this session.
    events: VecDeque<InFlight<T>>,
    sent: usize,
    octets_sent: u64,
    acknowledged: u64,
    own: Limits,
    outstanding_max: usize,
    window: Window,
    /// Time of the peer's last acknowledgement, or of the first event in flight after an idle time.
    progress_at: Nanos,
}

#[derive(Debug)]
struct InFlight<T> {
    sample: Sample,
    /// `None` once the peer has rejected the event.
    item: Option<T>,
}

impl<T> Sender<T> {
    /// Time without an acknowledgement after which a flow [is stalled](Self::stalled_for), in nanoseconds.
    pub const STALLED_AFTER: Nanos = 3_000_000_000;

    /// Creates a flow without events, with the limits of this end.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            events: VecDeque::new(),
            sent: 0,
            octets_sent: 0,
            acknowledged: 0,
            own: limits,
            outstanding_max: limits.outstanding_max as usize,
            window: Window::new(limits.window_bytes_max),
            progress_at: 0,
        }
    }

    /// Appends an event and returns its number on the wire. The caller has checked that there [is room](Self::has_room). `octets` is the
    /// length of its frame, as [`Event::octets`](crate::wire::Event::octets) counts it.
    pub fn push(&mut self, octets: usize, now: Nanos, item: T) -> u64 {
        debug_assert!(self.has_room(octets), "an event without room in the window");
        let sample = Sample { sent_at: now, octets: octets as u64, in_flight: 0, filled_window: false };
        self.events.push_back(InFlight { sample, item: Some(item) });
        self.send_next(now);
        self.sequence_of(self.events.len())
    }

    /// Appends an event that was sent another way, for [`Self::resend`] to send. It is appended even where there is no room for it.
    pub fn push_unsent(&mut self, octets: usize, item: T) {
        let sample = Sample { sent_at: 0, octets: octets as u64, in_flight: 0, filled_window: false };
        self.events.push_back(InFlight { sample, item: Some(item) });
    }

    /// The number that the next [pushed](Self::push) event will have.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.sequence_of(self.events.len()) + 1
    }

    /// Returns the next event left from the last session and its number, to be sent now. `None` if there is no room for it.
    pub fn resend(&mut self, now: Nanos) -> Option<(u64, &T)> {
        let octets = self.events.get(self.sent)?.sample.octets;
        if !self.fits(octets) {
            return None;
        }
        self.send_next(now);
        let event = self.events.get(self.sent - 1)?;
        Some((self.sequence_of(self.sent), event.item.as_ref()?))
    }

    /// Acknowledges all events up to a number and gives their items to `out`. A repeated acknowledgement has no effect.
    ///
    /// # Errors
    /// When the number was not sent in this session, or is lower than the last acknowledged.
    pub fn acknowledge(&mut self, up_to: u64, now: Nanos, out: &mut impl FnMut(T)) -> Result<(), Violation> {
        let Some(count) = up_to.checked_sub(self.acknowledged) else {
            return Err(Violation::Acknowledged { number: up_to, acknowledged: self.acknowledged });
        };
        if count > self.sent as u64 {
            return Err(Violation::NotSent { number: up_to, sent: self.sequence_of(self.sent) });
        }
        let (mut newest, mut newest_that_filled) = (None, None);
        while self.acknowledged < up_to
            && let Some(InFlight { sample, item }) = self.events.pop_front()
        {
            self.acknowledged += 1;
            self.sent -= 1;
            self.octets_sent -= sample.octets;
            item.into_iter().for_each(&mut *out);
            newest = Some(sample);
            newest_that_filled = newest.filter(|sample| sample.filled_window).or(newest_that_filled);
        }
        if let Some(sample) = newest_that_filled.or(newest) {
            self.window.note(sample, now);
            self.progress_at = now;
        }
        Ok(())
    }

    /// Notes a rejection and returns the item of the event, which the peer will never take. The event stays in flight until it is
    /// acknowledged with those before it. `None` if it was rejected before.
    ///
    /// # Errors
    /// When the event was not sent in this session, or was acknowledged.
    pub fn reject(&mut self, sequence: u64) -> Result<Option<T>, Violation> {
        let sent = self.sequence_of(self.sent);
        if sequence > sent {
            return Err(Violation::NotSent { number: sequence, sent });
        }
        let at = sequence.checked_sub(self.acknowledged + 1).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| self.events.get_mut(at)) {
            Some(event) => Ok(event.item.take()),
            None => Err(Violation::Acknowledged { number: sequence, acknowledged: self.acknowledged }),
        }
    }

    /// Begins a session: the events that `keep` chooses are numbered from 1 again, in the same order; `dropped` gets the items of the
    /// others. The caller sends the remaining events by [`Self::resend`] before anything else.
    pub fn restart(&mut self, mut keep: impl FnMut(&T) -> bool, dropped: &mut impl FnMut(T)) {
        for _ in 0..self.events.len() {
            let Some(InFlight { sample, item: Some(item) }) = self.events.pop_front() else { continue };
            if keep(&item) {
                self.events.push_back(InFlight { sample, item: Some(item) });
            } else {
                dropped(item);
            }
        }
        (self.sent, self.octets_sent, self.acknowledged) = (0, 0, 0);
        self.set_limits(self.own);
    }

    /// Applies the limits in the peer's Hello together with this end's own, until the next [`Self::restart`]. Called before a session's
    /// first event.
    pub fn set_limits(&mut self, peer: Limits) {
        self.window = Window::new(self.own.window_bytes_max.min(peer.window_bytes_max));
        self.outstanding_max = self.own.outstanding_max.min(peer.outstanding_max) as usize;
    }

    fn send_next(&mut self, now: Nanos) {
        if self.sent == 0 {
            self.progress_at = now;
        }
        if let Some(event) = self.events.get_mut(self.sent) {
            self.sent += 1;
            self.octets_sent += event.sample.octets;
            event.sample = self.window.sample(now, event.sample.octets, self.octets_sent);
        }
    }

    /// Whether an event with a frame of this many octets may be pushed. With nothing in flight, any event may.
    #[must_use]
    pub fn has_room(&self, octets: usize) -> bool {
        self.sent == self.events.len() && self.fits(octets as u64)
    }

    fn fits(&self, octets: u64) -> bool {
        let is_within = self.octets_sent + octets <= self.window.octets() && self.sent < self.outstanding_max;
        self.sent == 0 || is_within
    }

    fn sequence_of(&self, count: usize) -> u64 {
        self.acknowledged + count as u64
    }

    /// Number of events sent in this session and not yet acknowledged.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.sent
    }

    /// Octets of the frames of the events [in flight](Self::in_flight).
    #[must_use]
    pub const fn in_flight_octets(&self) -> u64 {
        self.octets_sent
    }

    /// Number of events left from the last session and not yet sent in this one.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.events.len() - self.sent
    }

    /// All events neither acknowledged nor rejected, with their numbers, in order.
    pub fn items(&self) -> impl Iterator<Item = (u64, &T)> {
        let numbered = (self.acknowledged + 1..).zip(&self.events);
        numbered.filter_map(|(sequence, event)| Some((sequence, event.item.as_ref()?)))
    }

    /// The current window: maximum octets in flight.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window.octets()
    }

    /// The smallest round trip of the last 10 s. `None` if none was measured.
    #[must_use]
    pub fn round_trip(&self) -> Option<Nanos> {
        self.window.round_trip()
    }

    /// Time at which the oldest event in flight was sent in this session.
    #[must_use]
    pub fn oldest_since(&self) -> Option<Nanos> {
        self.events.front().filter(|_| self.sent > 0).map(|event| event.sample.sent_at)
    }

    /// Nanoseconds without an acknowledgement while events are in flight, 0 if none are. Twice the transmission time of the octets in
    /// flight beyond [`WINDOW_BYTES_START`] is subtracted.
    #[must_use]
    pub fn stalled_for(&self, now: Nanos) -> Nanos {
        if self.sent == 0 {
            return 0;
        }
        let octets = u128::from(self.octets_sent.saturating_sub(WINDOW_BYTES_START));
        let line = octets * 2 * 1_000_000_000 / u128::from(self.window.rate());
        now.saturating_sub(self.progress_at).saturating_sub(u64::try_from(line).unwrap_or(u64::MAX))
    }
}

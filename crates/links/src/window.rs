//! The window of a flow: how many octets of it may be in flight.

use crate::Nanos;

/// The window at the beginning of a session: a larger one would delay high priorities on a narrow line.
pub const WINDOW_BYTES_START: u64 = 16 << 10;

/// The smallest window of a line that was measured, in octets.
const OCTETS_MIN: u64 = 4 << 10;
const SECOND: u128 = 1_000_000_000;
/// Maximum time in ns that a flow's octets queue in the line, beside half a round trip: on a narrow line a high priority waits as long.
/// as long.
const QUEUE: u128 = 10_000_000;
/// Validity of a measured round trip and of a measured rate, in ns.
const MEASURED_FOR: Nanos = 10_000_000_000;
/// Minimum interval between two probes for why round trips have become longer, in ns.
const CHANGES_EVERY: Nanos = 1_000_000_000;
/// The assumed rate of a line that was not measured, in octets a second.
const RATE_MIN: u64 = 16 << 10;

/// A measurement of the line, taken when the event is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) sent_at: Nanos,
    /// Octets of the event's frame.
    pub(crate) octets: u64,
    /// Octets in flight when the event was sent, including its own.
    pub(crate) in_flight: u64,
    /// Whether the window had no room for a second event of this size.
    pub(crate) filled_window: bool,
}

/// The window of one flow in one session: rate × (1.5 × smallest round trip + 10 ms), changed only where the flow filled it.
///
/// A flow's own queue in the line lengthens its round trips, and a window computed from those would grow without end. So every 10 s the
/// window closes to [`OCTETS_MIN`] until one event was measured with no more than that ahead of it.
///
/// Round trips that the flow's own queue does not explain close the window at once. The measurement then shows whether the line has become
/// longer; if not, it has become narrower.
#[derive(Debug)]
pub(crate) struct Window {
    octets: u64,
    octets_max: u64,
    /// The smallest round trip and the time of its measurement.
    round_trip: Option<(Nanos, Nanos)>,
    is_probing: bool,
    /// Start of the current run of round trips that the queue does not explain. `None` after one that it explains.
    long_since: Option<Nanos>,
    /// A round trip that the queue did not explain and the rate of its event, while the window probes for the cause.
    unexplained: Option<(Nanos, u64)>,
    /// End of the last such probe.
    looked_into_at: Option<Nanos>,
    /// The highest rates in octets a second, of the current 5 s and of the 5 s before; `rates_since` is when the current began.
    rates: [u64; 2],
    rates_since: Nanos,
}

impl Window {
    pub(crate) const fn new(octets_max: u64) -> Self {
        Self {
            octets: if octets_max < WINDOW_BYTES_START { octets_max } else { WINDOW_BYTES_START },
            octets_max,
            round_trip: None,
            is_probing: false,
            long_since: None,
            unexplained: None,
            looked_into_at: None,
            rates: [0; 2],
            rates_since: 0,
        }
    }

    /// Maximum octets in flight now.
    pub(crate) const fn octets(&self) -> u64 {
        if self.is_probing { OCTETS_MIN } else { self.octets }
    }

    /// The rate of the line in octets a second: the highest measured one, at least [`RATE_MIN`].
    pub(crate) fn rate(&self) -> u64 {
        self.rates.into_iter().fold(RATE_MIN, u64::max)
    }

    /// The smallest round trip of the last 10 s.
    pub(crate) fn round_trip(&self) -> Option<Nanos> {
        self.round_trip.map(|(round_trip, _)| round_trip)
    }

    pub(crate) fn sample(&self, sent_at: Nanos, octets: u64, in_flight: u64) -> Sample {
        let filled_window = !self.is_probing && in_flight + octets > self.octets;
        Sample { sent_at, octets, in_flight, filled_window }
    }

    /// Notes the acknowledgement of an event.
    pub(crate) fn note(&mut self, sample: Sample, now: Nanos) {
        let round_trip = now.saturating_sub(sample.sent_at).max(1);
        let rate = u128::from(sample.in_flight) * SECOND / u128::from(round_trip);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.look_for_change(sample, (round_trip, rate), now);
        self.note_round_trip(sample, round_trip, now);
        if !sample.filled_window {
            return;
        }
        self.note_rate(rate, now);
        if !self.is_probing {
            self.fit(sample.octets);
        }
    }

    /// Recomputes the window from the measured rate and round trip. It has room for two events, so that it grows where one fills it.
    fn fit(&mut self, event_octets: u64) {
        let Some((smallest, _)) = self.round_trip else { return };
        let [rate, before] = self.rates;
        let product = u128::from(rate.max(before)) * waits(smallest) / SECOND;
        let octets = u64::try_from(product).unwrap_or(u64::MAX).max(event_octets.saturating_mul(2));
        self.octets = octets.max(OCTETS_MIN).min(self.octets_max);
    }

    /// Starts a probe when events took too long for a whole round trip, at most once in eight round trips and in a second.
    fn look_for_change(&mut self, sample: Sample, (round_trip, rate): (Nanos, u64), now: Nanos) {
        let Some((smallest, _)) = self.round_trip.filter(|_| sample.filled_window && !self.is_probing) else { return };
        let queue = u128::from(sample.in_flight) * SECOND / u128::from(self.rate());
        if u128::from(round_trip) <= waits(smallest) + queue {
            self.long_since = None;
            return;
        }
        let since = *self.long_since.get_or_insert(now);
        let rests_for = (8 * round_trip).max(CHANGES_EVERY);
        let has_rested = self.looked_into_at.is_none_or(|at| now.saturating_sub(at) >= rests_for);
        if sample.sent_at >= since && has_rested {
            (self.is_probing, self.unexplained) = (true, Some((round_trip, rate)));
        }
    }

    fn note_round_trip(&mut self, sample: Sample, round_trip: Nanos, now: Nanos) {
        let has_queue = sample.in_flight > OCTETS_MIN.max(sample.octets);
        let is_old = |at: Nanos| now.saturating_sub(at) >= MEASURED_FOR;
        if let Some((smallest, at)) = self.round_trip
            && round_trip > smallest
        {
            if has_queue {
                self.is_probing |= is_old(at);
                return;
            }
            if !is_old(at) && !self.is_probing {
                return;
            }
        }
        self.round_trip = Some((round_trip, now));
        self.is_probing = false;
        let Some((unexplained, rate)) = self.unexplained.take() else { return };
        (self.long_since, self.looked_into_at) = (None, Some(now));
        if round_trip < unexplained / 2 {
            // The round trip was a queue: the line has become narrower.
            (self.rates, self.rates_since) = ([rate, 0], now);
        }
        self.fit(sample.octets);
    }

    fn note_rate(&mut self, rate: u64, now: Nanos) {
        let elapsed = now.saturating_sub(self.rates_since);
        if elapsed >= MEASURED_FOR / 2 {
            let [current, _] = self.rates;
            self.rates = [0, if elapsed >= MEASURED_FOR { 0 } else { current }];
            self.rates_since = now;
        }
        let [current, _] = &mut self.rates;
        *current = rate.max(*current);
    }
}

/// Permitted time in flight on a line with this round trip, in ns.
fn waits(round_trip: Nanos) -> u128 {
    u128::from(round_trip) * 3 / 2 + QUEUE
}

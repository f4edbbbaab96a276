//! How many octets of a flow may be in flight.

use crate::Nanos;

/// Octets that each flow may have in flight at the beginning of a session: more would delay high priorities on a narrow line.
pub const WINDOW_BYTES_START: u64 = 16 << 10;

/// The smallest window of a line that was measured.
const OCTETS_MIN: u64 = 4 << 10;
const SECOND: u128 = 1_000_000_000;
/// How long what a flow has in flight may wait in the line, beside half a round trip: on a narrow line that is what a high priority waits.
const QUEUE: u128 = 10_000_000;
/// How long a measured round trip and a measured rate hold.
const MEASURED_FOR: Nanos = 10_000_000_000;
/// The shortest time between two looks at why round trips have become longer.
const CHANGES_EVERY: Nanos = 1_000_000_000;
/// The rate of a line that was not measured, in octets a second.
const RATE_MIN: u64 = 16 << 10;

/// What an event in flight says of the line when it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) sent_at: Nanos,
    /// Its octets.
    pub(crate) octets: u64,
    /// The octets in flight when it was sent, with its own.
    pub(crate) in_flight: u64,
    /// Whether the window had no room for another like it.
    pub(crate) filled_window: bool,
}

/// The window of one flow in one session: rate × (1.5 × smallest round trip + 10 ms), changed only where the flow filled it.
///
/// The queue that a flow has in the line lengthens its own round trips, and a window made of those would grow without end. So each 10 s
/// the window closes to [`OCTETS_MIN`] until the round trip of an event is measured that had no more than that before it.
///
/// Round trips that the flow's own queue does not explain have the window closed at once: the line has become longer, which that
/// measurement shows, or else narrower.
#[derive(Debug)]
pub(crate) struct Window {
    octets: u64,
    octets_max: u64,
    /// The smallest round trip, and when it was measured.
    round_trip: Option<(Nanos, Nanos)>,
    is_probing: bool,
    /// When the first of the round trips came that the queue does not explain; none since one that it does.
    long_since: Option<Nanos>,
    /// A round trip that the queue did not explain, and the rate of its event, while that is looked into.
    unexplained: Option<(Nanos, u64)>,
    /// When the last such measurement ended.
    looked_into_at: Option<Nanos>,
    /// The highest rates in octets a second of the current 5 s and of those before, and since when they are the current ones.
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

    /// The octets that may be in flight now.
    pub(crate) const fn octets(&self) -> u64 {
        if self.is_probing { OCTETS_MIN } else { self.octets }
    }

    /// The rate of the line in octets a second: measured, or the lowest that is expected.
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

    /// Makes the window of what was measured, with room for two events, so that it grows where a single one fills it.
    fn fit(&mut self, event_octets: u64) {
        let Some((smallest, _)) = self.round_trip else { return };
        let [rate, before] = self.rates;
        let product = u128::from(rate.max(before)) * waits(smallest) / SECOND;
        let octets = u64::try_from(product).unwrap_or(u64::MAX).max(event_octets.saturating_mul(2));
        self.octets = octets.max(OCTETS_MIN).min(self.octets_max);
    }

    /// Has the round trip measured anew when events took too long for a whole one, at most once in eight of them and in a second.
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
            // It was a queue: the line has become narrower.
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

/// How long an event in flight may take of a line with this round trip, in ns.
fn waits(round_trip: Nanos) -> u128 {
    u128::from(round_trip) * 3 / 2 + QUEUE
}

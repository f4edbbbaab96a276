//! What the consumers of a process record of a run.

use super::ends::{LateEvent, Received, Recording, Span};
use crate::clock;
use crate::latency::Recorder;
use crate::loss::{Implausible, Ledger, Losses};
use crate::wire::Stamp;

/// Late events that are written down; more are only counted by the histogram.
const LATE_MAX: usize = 100_000;

/// What came.
pub(super) struct Record {
    recording: Recording,
    /// Of each consumer.
    ledgers: Vec<Ledger>,
    received: Received,
    since_due: Recorder,
    since_sent: Recorder,
    cpu: u64,
}

impl Record {
    /// A record for so many consumers, of no run.
    pub(super) fn new(consumers: usize) -> Self {
        Self {
            // No event says that it is of this run.
            recording: Recording { run: u32::MAX, from: 0, until: 0, spans: false, late: 0 },
            ledgers: vec![Ledger::default(); consumers],
            received: Received::default(),
            since_due: Recorder::default(),
            since_sent: Recorder::default(),
            cpu: 0,
        }
    }

    /// Begins with a new run.
    pub(super) fn begin(&mut self, recording: Recording) {
        self.recording = recording;
        self.ledgers.fill(Ledger::default());
        self.received = Received::default();
        self.since_due.clear();
        self.since_sent.clear();
        self.cpu = clock::thread_cpu();
    }

    /// Enters an event that came to a consumer at that time.
    pub(super) fn enter(&mut self, consumer: usize, stamp: Stamp, arrival: u64) -> Result<(), Implausible> {
        let Recording { run, from, until, spans, late } = self.recording;
        let Stamp { sent, due, number, supplier, .. } = stamp;
        if supplier != run {
            return Ok(());
        }
        let received = &mut self.received;
        received.deliveries += 1;
        received.ended = arrival;
        if (from..until).contains(&arrival) {
            received.in_window += 1;
        }
        if (from..until).contains(&due) {
            self.since_due.record(arrival.saturating_sub(due));
            self.since_sent.record(arrival.saturating_sub(sent));
            if spans {
                enter_span(&mut received.spans, number, due, arrival);
            }
            if late > 0 && arrival.saturating_sub(due) > late && received.late.len() < LATE_MAX {
                received.late.push((number, due, arrival));
            }
        }
        // A copy more than there are consumers is entered for the last, and thus found to be repeated.
        let last = self.ledgers.len().saturating_sub(1);
        self.ledgers.get_mut(consumer.min(last)).map_or(Ok(()), |ledger| ledger.enter(number))
    }

    /// The late events that were not taken yet.
    pub(super) fn take_late(&mut self) -> Vec<LateEvent> {
        std::mem::take(&mut self.received.late)
    }

    /// Deliveries of the run.
    pub(super) const fn deliveries(&self) -> u64 {
        self.received.deliveries
    }

    /// When the last event of the run came; 0 before the first.
    pub(super) const fn last_arrival(&self) -> u64 {
        self.received.ended
    }

    /// What came of a run that had so many events.
    pub(super) fn end(&mut self, events: u64) -> Received {
        let mut received = std::mem::take(&mut self.received);
        let mut losses = Losses::default();
        for ledger in &self.ledgers {
            losses.add(ledger.balance(events));
        }
        received.losses = losses;
        received.since_due = self.since_due.counts();
        received.since_sent = self.since_sent.counts();
        received.cpu = clock::thread_cpu() - self.cpu;
        received
    }
}

/// Notes one more arrival of an event. They come nearly in order, so the place is looked for from the end.
fn enter_span(spans: &mut Vec<Span>, number: u64, due: u64, arrival: u64) {
    let place = spans.iter().rposition(|span| span.number <= number);
    if let Some(span) = place.and_then(|place| spans.get_mut(place)).filter(|span| span.number == number) {
        span.first = span.first.min(arrival);
        span.last = span.last.max(arrival);
        span.count += 1;
        return;
    }
    spans.insert(place.map_or(0, |place| place + 1), Span { number, due, first: arrival, last: arrival, count: 1 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Phase;

    fn stamp(number: u64, due: u64) -> Stamp {
        Stamp { sent: due + 5, due, number, supplier: 3, phase: Phase::Measured }
    }

    #[test]
    fn counts_latency_from_when_an_event_was_due_and_deliveries_when_they_came() {
        let mut record = Record::new(2);
        record.begin(Recording { run: 3, from: 1000, until: 2000, spans: true, late: 900 });
        for (number, due, arrivals) in [(0, 900, [910, 1010]), (1, 1000, [1020, 1030]), (2, 1900, [2500, 2900])] {
            for (consumer, arrival) in arrivals.into_iter().enumerate() {
                record.enter(consumer, stamp(number, due), arrival).unwrap();
            }
        }
        let other = Stamp { supplier: 2, ..stamp(3, 1000) };
        record.enter(0, other, 1500).unwrap();
        let received = record.end(4);
        assert_eq!((received.deliveries, received.in_window, received.ended), (6, 3, 2900));
        assert_eq!((received.losses.sent, received.losses.received, received.losses.lost), (8, 6, 2));
        assert_eq!(received.since_due, [(20, 1), (30, 1), (600, 1), (1000, 1)]);
        assert_eq!(received.since_sent, [(15, 1), (25, 1), (595, 1), (995, 1)]);
        assert_eq!(received.late, [(2, 1900, 2900)]);
        let spans = [
            Span { number: 1, due: 1000, first: 1020, last: 1030, count: 2 },
            Span { number: 2, due: 1900, first: 2500, last: 2900, count: 2 },
        ];
        assert_eq!(received.spans, spans);
    }

    #[test]
    fn finds_spans_of_events_that_overtake_each_other() {
        let mut spans = Vec::new();
        for (number, arrival) in [(5, 10), (4, 11), (5, 12), (6, 13), (4, 9)] {
            enter_span(&mut spans, number, 0, arrival);
        }
        let found: Vec<[u64; 5]> = spans.into_iter().map(Into::into).collect();
        assert_eq!(found, [[4, 0, 9, 11, 2], [5, 0, 10, 12, 2], [6, 0, 13, 13, 1]]);
    }
}

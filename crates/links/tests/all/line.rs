//! The window on lines of a given rate and delay, simulated: wide lines are filled, narrow ones have no queue.

use std::collections::VecDeque;
use std::ops::Range;

use links::{Limits, Nanos, Sender};

const SECOND: Nanos = 1_000_000_000;
const MS: Nanos = 1_000_000;

/// A line with a queue without end.
#[derive(Clone, Copy)]
struct Line {
    octets_per_second: u64,
    /// One way.
    delay: Nanos,
    /// The far side acknowledges at multiples of this.
    round: Nanos,
}

struct Outcome {
    /// What part of the line's rate was used.
    utilisation: f64,
    /// How long events of the high priority took, from when they came to the far end, rising.
    high: Vec<Nanos>,
    window_max: u64,
}

impl Outcome {
    fn high_p50_ms(&self) -> u64 {
        self.high[self.high.len() / 2] / MS
    }
}

/// A low priority that always has more, and now and then an event of a high one.
fn saturate(line: Line, octets: usize, duration: Nanos, high_every: Nanos) -> Outcome {
    saturate_changing(|_| line, octets, 0..duration, high_every)
}

/// The same over a line that changes. What crosses before `counted` begins is not counted.
fn saturate_changing(line: impl Fn(Nanos) -> Line, octets: usize, counted: Range<Nanos>, high_every: Nanos) -> Outcome {
    let limits = Limits::default();
    let mut sender = Sender::new(limits);
    let mut random = fastrand::Rng::with_seed(3);
    // When acknowledgements come, and the number in them.
    let mut acknowledgements = VecDeque::<(Nanos, u64)>::new();
    let mut waiting = VecDeque::<Nanos>::new();
    let (mut now, mut free_at, mut next_high) = (0, 0, 0);
    let mut outcome = Outcome { utilisation: 0.0, high: Vec::new(), window_max: 0 };
    let mut crossed = 0;
    while now < counted.end {
        let line = line(now);
        while next_high <= now {
            waiting.push_back(next_high);
            next_high += random.u64(1..2 * high_every);
        }
        while sender.has_room(octets) {
            let sequence = sender.push(octets, now, ());
            free_at = now.max(free_at) + octets as u64 * SECOND / line.octets_per_second;
            let arrival = free_at + line.delay;
            let high = waiting.pop_front().filter(|since| *since >= counted.start);
            outcome.high.extend(high.map(|since| arrival - since));
            acknowledgements.push_back(((arrival / line.round + 1) * line.round + line.delay, sequence));
            assert!(sender.in_flight_octets() <= limits.window_bytes_max || sender.in_flight() == 1);
            outcome.window_max = outcome.window_max.max(sender.in_flight_octets());
        }
        let (at, _) = *acknowledgements.front().expect("something is in flight");
        now = at.min(next_high);
        let mut last = None;
        while let Some((_, sequence)) = acknowledgements.pop_front_if(|(at, _)| *at <= now) {
            last = Some(sequence);
            crossed += if now >= counted.start { octets as u64 } else { 0 };
        }
        if let Some(last) = last {
            sender.acknowledge(last, now, &mut |()| ()).unwrap();
        }
        assert!(sender.stalled_for(now) < Sender::<()>::STALLED_AFTER, "a line that moves is not stalled");
    }
    let duration = (counted.end - counted.start) as f64 / SECOND as f64;
    outcome.utilisation = crossed as f64 / (line(now).octets_per_second as f64 * duration);
    outcome.high.sort_unstable();
    outcome
}

#[test]
fn a_line_of_100_ms_and_100_mbit_is_filled_to_four_fifths() {
    let line = Line { octets_per_second: 12_500_000, delay: 50 * MS, round: MS / 10 };
    for octets in [200, 1_500, 60_000, 1 << 20] {
        let outcome = saturate(line, octets, 40 * SECOND, SECOND);
        assert!(outcome.utilisation > 0.8, "{octets} octets: {}", outcome.utilisation);
    }
}

#[test]
fn a_narrow_full_line_has_no_queue_before_a_high_priority_however_long_it_is_full() {
    let line = Line { octets_per_second: 200_000, delay: MS / 2, round: MS };
    for octets in [100, 1_000, 3_000] {
        let outcome = saturate(line, octets, 300 * SECOND, SECOND / 5);
        assert!(outcome.high_p50_ms() <= 50, "{octets} octets: {} ms", outcome.high_p50_ms());
        assert!(outcome.window_max <= 17 << 10, "{octets} octets: {}", outcome.window_max);
        assert!(outcome.utilisation > 0.8, "{octets} octets: {}", outcome.utilisation);
    }
}

#[test]
fn a_narrow_line_of_long_delay_is_filled_without_a_long_queue() {
    let line = Line { octets_per_second: 200_000, delay: 100 * MS, round: MS };
    let outcome = saturate(line, 1_000, 300 * SECOND, SECOND);
    assert!(outcome.utilisation > 0.8, "{}", outcome.utilisation);
    assert!(outcome.high_p50_ms() <= 100 + 150, "{} ms", outcome.high_p50_ms());
}

#[test]
fn a_fast_line_is_filled_whatever_its_delay() {
    for (delay, round) in [(MS / 50, MS / 50), (MS, MS / 10), (10 * MS, MS / 10)] {
        let line = Line { octets_per_second: 100_000_000, delay, round };
        let outcome = saturate(line, 500, 5 * SECOND, SECOND);
        assert!(outcome.utilisation > 0.75, "{delay} ns: {}", outcome.utilisation);
        assert!(outcome.window_max <= 8 << 20);
    }
}

/// A line that became longer was used to 0.012 of it for some seconds.
#[test]
fn a_line_that_becomes_longer_is_filled_again_within_2_s() {
    for (before, after) in [(MS, 100 * MS), (MS / 10, 20 * MS), (10 * MS, 200 * MS)] {
        for octets in [200, 1_500, 60_000] {
            let line = |now| {
                let delay = if now < 5 * SECOND { before } else { after };
                Line { octets_per_second: 12_500_000, delay, round: MS / 10 }
            };
            let outcome = saturate_changing(line, octets, 7 * SECOND..9 * SECOND, SECOND);
            let used = outcome.utilisation;
            assert!(used > 0.5, "{octets} octets, {before} to {after} ns: {used}");
        }
    }
}

#[test]
fn a_line_that_becomes_narrower_has_a_short_queue_soon() {
    let line = |now| {
        let octets_per_second = if now < 5 * SECOND { 12_500_000 } else { 200_000 };
        Line { octets_per_second, delay: MS, round: MS }
    };
    let outcome = saturate_changing(line, 1_000, 9 * SECOND..60 * SECOND, SECOND / 5);
    assert!(outcome.high_p50_ms() <= 50, "{} ms", outcome.high_p50_ms());
    let longest = *outcome.high.last().unwrap();
    assert!(longest <= 200 * MS, "{longest} ns");
    assert!(outcome.utilisation > 0.8, "{}", outcome.utilisation);
}

#[test]
fn a_flow_that_does_not_fill_its_window_does_not_change_it() {
    let mut sender = Sender::new(Limits::default());
    let before = sender.window();
    for event in 1..=1_000 {
        let now = event * MS;
        sender.push(1_000, now, ());
        sender.acknowledge(event, now + MS / 2, &mut |()| ()).unwrap();
    }
    assert_eq!(sender.window(), before);
    assert_eq!(sender.round_trip(), Some(MS / 2));
}

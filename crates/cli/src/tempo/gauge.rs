//! `campanile tempo hz` and `bw`.

use super::meeting::{self, MISSED_AFTER, Meeting, failure, meet, time};
use crate::args::TempoGaugeOptions;
use crate::failure::Failure;
use crate::show;
use crate::signals::{Waiter, Wake};
use client::tempo::now;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// How often messages come.
    Rate,
    /// How much comes.
    Octets,
}

/// Measures until there were enough intervals or a signal asks to stop.
pub(crate) fn run(options: &TempoGaugeOptions, what: What) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let Meeting { node, address, .. } = meet(options.from.as_ref(), meeting::on_network(options.interface))?;
    let gauge = Arc::new(Mutex::new(Gauge::default()));
    let count = Arc::clone(&gauge);
    let subscriber = node
        .subscriber(&options.topic)
        .on(move |message| {
            count.lock().unwrap_or_else(PoisonError::into_inner).count(now(), message.octets.len() as u64);
        })
        .map_err(|error| failure(&error))?;
    eprintln!("campanile: measuring {} at {address}; Ctrl-C ends", options.topic);
    let (mut intervals, mut messages, mut lost_before, mut is_missed) = (0, 0, 0, false);
    let (began, mut since) = (Instant::now(), Instant::now());
    while options.count != Some(intervals) {
        let left = options.interval.saturating_sub(since.elapsed());
        match waiter.wait(Some(left)) {
            Some(Wake::Signal | Wake::HangUp) => break,
            _ if !options.interval.saturating_sub(since.elapsed()).is_zero() => continue,
            _ => {}
        }
        let seen = gauge.lock().unwrap_or_else(PoisonError::into_inner).next_interval();
        let took = since.elapsed();
        since = Instant::now();
        if messages == 0 && seen.messages == 0 {
            // Nothing has begun yet that could be measured.
            if !is_missed && began.elapsed() > MISSED_AFTER {
                is_missed = true;
                eprintln!("campanile: nothing has come on {} yet; still listening", options.topic);
            }
            continue;
        }
        messages += seen.messages;
        intervals += 1;
        let lost = subscriber.report().lost;
        let line = seen.line(what, took, lost.saturating_sub(lost_before), Style::of(options));
        lost_before = lost;
        io::stdout().write_all(line.as_bytes())?;
    }
    if messages == 0 {
        return Err(Failure::Message(format!("no message came on {} at {address}", options.topic)));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Style {
    People,
    Pipe,
    Json,
}

impl Style {
    fn of(options: &TempoGaugeOptions) -> Self {
        match options.json {
            true => Self::Json,
            false if io::stdout().is_terminal() => Self::People,
            false => Self::Pipe,
        }
    }
}

/// What came in an interval.
#[derive(Clone, Debug, Default)]
struct Gauge {
    messages: u64,
    octets: u64,
    smallest: u64,
    largest: u64,
    /// Nanoseconds; the last message of the interval before counts as the first one's predecessor.
    last: Option<u64>,
    gaps: u64,
    least: u64,
    most: u64,
    sum: f64,
    sum_of_squares: f64,
}

impl Gauge {
    fn count(&mut self, now: u64, octets: u64) {
        self.smallest = if self.messages == 0 { octets } else { self.smallest.min(octets) };
        self.largest = self.largest.max(octets);
        self.messages += 1;
        self.octets += octets;
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_sub(last);
            self.least = if self.gaps == 0 { gap } else { self.least.min(gap) };
            self.most = self.most.max(gap);
            self.gaps += 1;
            #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
            let gap = gap as f64;
            self.sum += gap;
            self.sum_of_squares += gap * gap;
        }
    }

    /// What there is, and begins anew.
    fn next_interval(&mut self) -> Self {
        std::mem::replace(self, Self { last: self.last, ..Self::default() })
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "three digits are shown"
    )]
    fn line(&self, what: What, took: Duration, lost: u64, style: Style) -> String {
        let seconds = took.as_secs_f64();
        let rate = self.messages as f64 / seconds;
        let octets = self.octets as f64 / seconds;
        let mean_octets = self.octets.checked_div(self.messages).unwrap_or(0);
        let Self { messages, smallest, largest, least, most, .. } = self;
        let gaps = self.gaps.max(1) as f64;
        let mean = self.sum / gaps;
        let deviation = (self.sum_of_squares / gaps - mean * mean).max(0.0).sqrt();
        let us = |nanos: f64| format!("{:.1}", nanos / 1e3);
        let (least_us, mean_us, most_us, deviation_us) = (us(*least as f64), us(mean), us(*most as f64), us(deviation));
        let nanos = |nanos: f64| time(Duration::from_secs_f64(nanos / 1e9));
        match (what, style) {
            (What::Rate, Style::People) => format!(
                "{}/s  between two: least {}, mean {}, most {}, deviation {}  lost {}\n",
                show::rate(rate),
                nanos(*least as f64),
                nanos(mean),
                nanos(*most as f64),
                nanos(deviation),
                show::count(lost)
            ),
            (What::Rate, Style::Pipe) => {
                format!("{rate:.3}\t{least_us}\t{mean_us}\t{most_us}\t{deviation_us}\t{lost}\n")
            }
            (What::Rate, Style::Json) => format!(
                "{{\"rate\":{rate:.3},\"messages\":{messages},\"least_us\":{least_us},\"mean_us\":{mean_us},\
                 \"most_us\":{most_us},\"deviation_us\":{deviation_us},\"lost\":{lost}}}\n"
            ),
            (What::Octets, Style::People) => format!(
                "{}/s  {}/s  octets: least {}, mean {}, most {}  lost {}\n",
                show::bytes(octets.round() as u64),
                show::rate(rate),
                show::count(smallest),
                show::count(mean_octets),
                show::count(largest),
                show::count(lost)
            ),
            (What::Octets, Style::Pipe) => {
                format!("{octets:.0}\t{rate:.3}\t{smallest}\t{mean_octets}\t{largest}\t{lost}\n")
            }
            (What::Octets, Style::Json) => format!(
                "{{\"octets_per_s\":{octets:.0},\"rate\":{rate:.3},\"messages\":{messages},\"smallest\":{smallest},\
                 \"mean\":{mean_octets},\"largest\":{largest},\"lost\":{lost}}}\n"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_tell_rate_gaps_and_sizes() {
        let mut gauge = Gauge::default();
        for (at, octets) in [(0, 10), (1_000_000, 20), (3_000_000, 30)] {
            gauge.count(at, octets);
        }
        let first = gauge.next_interval();
        let second = Duration::from_secs(1);
        let line = |gauge: &Gauge, what, style| gauge.line(what, second, 4, style);
        assert_eq!(
            line(&first, What::Rate, Style::People),
            "3.00/s  between two: least 1.00 ms, mean 1.50 ms, most 2.00 ms, deviation 500 µs  lost 4\n"
        );
        assert_eq!(line(&first, What::Rate, Style::Pipe), "3.000\t1000.0\t1500.0\t2000.0\t500.0\t4\n");
        assert_eq!(
            line(&first, What::Octets, Style::People),
            "60 B/s  3.00/s  octets: least 10, mean 20, most 30  lost 4\n"
        );
        assert_eq!(line(&first, What::Octets, Style::Pipe), "60\t3.000\t10\t20\t30\t4\n");
        for what in [What::Rate, What::Octets] {
            let json: serde_json::Value = serde_json::from_str(&line(&first, what, Style::Json)).unwrap();
            assert_eq!((&json["messages"], &json["lost"]), (&3.into(), &4.into()));
        }
        // The time since the last message of the first interval counts in the second.
        gauge.count(7_000_000, 5);
        assert!(line(&gauge.next_interval(), What::Rate, Style::Pipe).starts_with("1.000\t4000.0\t"));
        assert!(line(&Gauge::default(), What::Rate, Style::Json).contains("\"rate\":0.000"));
    }
}

//! Rates and volumes of messages, as printed by `campanile hz`, `bw` and their counterparts in `campanile tempo`.

use crate::signals::{Waiter, Wake};
use crate::{json, show};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Number of messages per second.
    Rate,
    /// Octets per second.
    Octets,
}

/// Measured subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Messages,
    Events,
}

/// Intervals to measure, and the form of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    pub(crate) what: What,
    pub(crate) of: Of,
    pub(crate) interval: Duration,
    pub(crate) count: Option<u64>,
    pub(crate) style: Style,
}

/// Time without messages after which that is reported.
const MISSED_AFTER: Duration = Duration::from_secs(2);
/// Interval in which the subscription is checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Measure {
    /// Prints a line for each interval, until there were enough or a signal asks to stop. Returns the number of messages. `look` returns
    /// the number lost, if known, and may end the measurement.
    pub(crate) fn run<F>(
        &self,
        waiter: &Waiter,
        gauge: &Mutex<Gauge>,
        name: &str,
        mut look: impl FnMut() -> Result<Option<u64>, F>,
    ) -> Result<u64, F>
    where
        F: From<io::Error>,
    {
        let (mut intervals, mut messages, mut lost_before, mut is_missed) = (0, 0, Some(0), false);
        let (began, mut since) = (Instant::now(), Instant::now());
        while self.count != Some(intervals) {
            let left = self.interval.saturating_sub(since.elapsed()).min(LOOK_EVERY);
            if let Some(Wake::Signal | Wake::HangUp) = waiter.wait(Some(left)) {
                break;
            }
            let lost = look()?;
            if since.elapsed() < self.interval {
                continue;
            }
            let seen = gauge.lock().unwrap_or_else(PoisonError::into_inner).next_interval();
            let took = since.elapsed();
            since = Instant::now();
            if messages == 0 && seen.messages == 0 {
                // No message has arrived yet.
                if !is_missed && began.elapsed() > MISSED_AFTER {
                    is_missed = true;
                    eprintln!("campanile: nothing has come {name} yet; still listening");
                }
                continue;
            }
            messages += seen.messages;
            intervals += 1;
            let now = lost.zip(lost_before).map(|(now, before)| now.saturating_sub(before));
            lost_before = lost;
            io::stdout().write_all(seen.line(self, took, now).as_bytes())?;
        }
        Ok(messages)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    People,
    Pipe,
    Json,
}

impl Style {
    pub(crate) fn of(json: bool) -> Self {
        match json {
            true => Self::Json,
            false if io::stdout().is_terminal() => Self::People,
            false => Self::Pipe,
        }
    }
}

/// Messages of an interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge {
    messages: u64,
    octets: u64,
    smallest: u64,
    largest: u64,
    /// Time of the last message in nanoseconds. That of the previous interval is the predecessor of the first message.
    last: Option<u64>,
    gaps: u64,
    least: u64,
    most: u64,
    sum: f64,
    sum_of_squares: f64,
}

impl Gauge {
    /// Counts a message at a time in nanoseconds.
    pub(crate) fn count(&mut self, now: u64, octets: u64) {
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

    /// Returns the current interval, and begins the next.
    fn next_interval(&mut self) -> Self {
        std::mem::replace(self, Self { last: self.last, ..Self::default() })
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "three digits are shown"
    )]
    fn line(&self, measure: &Measure, took: Duration, lost: Option<u64>) -> String {
        let Measure { what, of, style, .. } = *measure;
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
        let nanos = |nanos: f64| show::short_time(Duration::from_secs_f64(nanos / 1e9));
        let messages_key = if of == Of::Events { "events" } else { "messages" };
        let number_lost = lost;
        let lost = match (lost, style) {
            (None, _) | (_, Style::Json) => String::new(),
            (Some(lost), Style::People) => format!("  lost {}", show::count(lost)),
            (Some(lost), Style::Pipe) => format!("\t{lost}"),
        };
        match (what, style) {
            (What::Rate, Style::People) => format!(
                "{}/s  between two: least {}, mean {}, most {}, deviation {}{lost}\n",
                show::rate(rate),
                nanos(*least as f64),
                nanos(mean),
                nanos(*most as f64),
                nanos(deviation)
            ),
            (What::Rate, Style::Pipe) => {
                format!("{rate:.3}\t{least_us}\t{mean_us}\t{most_us}\t{deviation_us}{lost}\n")
            }
            (What::Octets, Style::People) => format!(
                "{}/s  {}/s  octets: least {}, mean {}, most {}{lost}\n",
                show::bytes(octets.round() as u64),
                show::rate(rate),
                show::count(smallest),
                show::count(mean_octets),
                show::count(largest)
            ),
            (What::Octets, Style::Pipe) => {
                format!("{octets:.0}\t{rate:.3}\t{smallest}\t{mean_octets}\t{largest}{lost}\n")
            }
            (what, Style::Json) => {
                let (mut out, fixed) = (String::new(), |nanos: f64| json::Fixed::<1>(nanos / 1e3));
                let object = json::Object::new(&mut out);
                let object = match what {
                    What::Rate => object,
                    What::Octets => object.member("octets_per_s", json::Fixed::<0>(octets)),
                };
                let object = object.member("rate", json::Fixed::<3>(rate)).member(messages_key, messages);
                let object = match what {
                    What::Rate => object
                        .member("least_us", fixed(*least as f64))
                        .member("mean_us", fixed(mean))
                        .member("most_us", fixed(*most as f64))
                        .member("deviation_us", fixed(deviation)),
                    What::Octets => {
                        object.member("smallest", smallest).member("mean", mean_octets).member("largest", largest)
                    }
                };
                object.optional("lost", number_lost).end();
                out + "\n"
            }
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
        let measure = |what, style| Measure { what, of: Of::Messages, interval: second, count: None, style };
        let line = |gauge: &Gauge, what, style| gauge.line(&measure(what, style), second, Some(4));
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

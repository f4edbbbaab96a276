//! Measurement of late wake-ups: one thread on each processor, at `SCHED_FIFO` if allowed, repeatedly sleeps until the next full
//! millisecond, as cyclictest does.

use hdrhistogram::Histogram;
use rustix::thread::{ClockId, CpuSet, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity};
use rustix::time::{Timespec, clock_gettime};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Interval of wake-ups.
const INTERVAL_NS: u64 = 1_000_000;
/// Native priority of the threads: the highest of a lane.
const PRIORITY: i32 = 98;
/// Maximum recorded lateness, a minute; longer ones count as a minute.
const LATE_NS_MAX: u64 = 60 * SECOND;

/// Result of the measurement.
pub(super) struct Latency {
    /// Whether the threads ran at `SCHED_FIFO`.
    pub(super) real_time: bool,
    /// Each processor's number, and the lateness of its wake-ups in nanoseconds.
    processors: Vec<(usize, Histogram<u64>)>,
}

/// Measures on every processor that this process may use.
pub(super) fn measure(time: Duration) -> io::Result<Latency> {
    let allowed = sched_getaffinity(None)?;
    let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect();
    let until = now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let threads: Vec<_> = numbers
        .into_iter()
        .map(|number| {
            let name = format!("wake-up {number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || wake_up_on(number, until))?;
            Ok((number, thread))
        })
        .collect::<io::Result<_>>()?;
    let mut latency = Latency { real_time: true, processors: Vec::new() };
    for (number, thread) in threads {
        let measured = thread.join().map_err(|_| io::Error::other("a measuring thread failed"))?;
        let (real_time, histogram) = measured?;
        latency.real_time &= real_time;
        latency.processors.push((number, histogram));
    }
    Ok(latency)
}

/// Wakes up each millisecond on one processor until a given time.
fn wake_up_on(processor: usize, until: u64) -> io::Result<(bool, Histogram<u64>)> {
    let mut histogram = new_histogram();
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)?;
    let real_time = service::run_at_fifo(PRIORITY).is_ok();
    let mut next = now().saturating_add(INTERVAL_NS);
    // Once at least, however late this thread began.
    loop {
        sleep_until(next);
        let late = now().saturating_sub(next);
        histogram.saturating_record(late);
        // Wake-ups that were slept through are skipped.
        next = next.saturating_add(INTERVAL_NS * (1 + late / INTERVAL_NS));
        if next > until {
            return Ok((real_time, histogram));
        }
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATE_NS_MAX, 3).expect("constants are bounds that make sense")
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, rest) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(SECOND).saturating_add(rest)
}

fn sleep_until(moment: u64) {
    let seconds = i64::try_from(moment / SECOND).unwrap_or(i64::MAX);
    let rest = i64::try_from(moment % SECOND).unwrap_or(0);
    let until = Timespec { tv_sec: seconds, tv_nsec: rest };
    // A signal ends it early: it is begun again until the moment has come.
    while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
}

/// Upper ends of the rows of the printed histogram, in nanoseconds.
const ROWS: [u64; 14] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    u64::MAX,
];
/// Characters of the longest bar.
const BAR: u64 = 40;

impl Latency {
    /// The latest wake-up of all, in nanoseconds.
    pub(super) fn worst(&self) -> u64 {
        self.processors.iter().map(|(_, histogram)| histogram.max()).max().unwrap_or(0)
    }

    /// Text with a table, and a histogram of all processors together.
    pub(super) fn describe(&self) -> String {
        let mut text =
            format!("{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "wake-ups", "min", "p50", "p99", "p99.9", "max");
        let mut all = new_histogram();
        for (number, histogram) in &self.processors {
            let _ = all.add(histogram);
            let _ = writeln!(text, "{:>9}{}", format!("cpu {number}"), figures(histogram));
        }
        if self.processors.len() > 1 {
            let _ = writeln!(text, "{:>9}{}", "all", figures(&all));
        }
        text.push('\n');
        text.push_str(&bars(&all));
        text
    }

    /// JSON object, with times in nanoseconds.
    pub(super) fn report(&self) -> Json {
        let processors: Vec<Json> = self
            .processors
            .iter()
            .map(|(number, histogram)| {
                json!({
                    "cpu": number,
                    "wake_ups": histogram.len(),
                    "min_ns": histogram.min(),
                    "p50_ns": histogram.value_at_quantile(0.5),
                    "p99_ns": histogram.value_at_quantile(0.99),
                    "p999_ns": histogram.value_at_quantile(0.999),
                    "max_ns": histogram.max(),
                })
            })
            .collect();
        json!({ "real_time": self.real_time, "interval_ns": INTERVAL_NS, "worst_ns": self.worst(), "processors": processors })
    }

    #[cfg(test)]
    pub(super) fn made_up(real_time: bool, late: &[u64]) -> Self {
        let mut histogram = new_histogram();
        late.iter().for_each(|late| histogram.saturating_record(*late));
        Self { real_time, processors: vec![(0, histogram)] }
    }
}

fn figures(histogram: &Histogram<u64>) -> String {
    let quantile = |quantile| microseconds(histogram.value_at_quantile(quantile));
    format!(
        " {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        histogram.len(),
        microseconds(histogram.min()),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        microseconds(histogram.max())
    )
}

/// A row for each range, from the first to the last that is not empty.
fn bars(histogram: &Histogram<u64>) -> String {
    let mut counts = [0_u64; ROWS.len()];
    for value in histogram.iter_recorded() {
        let row = ROWS.partition_point(|end| *end <= value.value_iterated_to());
        if let Some(count) = counts.get_mut(row) {
            *count += value.count_since_last_iteration();
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let mut text = String::new();
    for (row, (count, end)) in counts.iter().zip(ROWS).enumerate() {
        if !(first..=last).contains(&row) {
            continue;
        }
        let end = if end == u64::MAX { "more".to_owned() } else { format!("< {}", microseconds(end)) };
        let bar = usize::try_from((count * BAR).div_ceil(most)).unwrap_or(0);
        let _ = writeln!(text, "{end:>12} {count:>9} {}", "#".repeat(bar));
    }
    text
}

/// A time in microseconds or milliseconds, for people.
pub(super) fn microseconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0..100_000 => format!("{}.{} µs", nanoseconds / 1000, nanoseconds % 1000 / 100),
        100_000..10_000_000 => format!("{} µs", nanoseconds / 1000),
        _ => format!("{} ms", nanoseconds / 1_000_000),
    }
}

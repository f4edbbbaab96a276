//! `campanile latency`: times of events through a channel with its own settings.

use crate::args::LatencyOptions;
use crate::failure::Failure;
use crate::publish::Pace;
use crate::show::{self, short_time};
use crate::signals::{Waiter, Wake};
use crate::{channels, fields, json, ls, subscribe};
use client::notify::{EventType, Property, StructuredEvent};
use client::{ConsumerOptions, SimpleConsumer, SimpleSupplier, SupplierOptions};
use giop::value::Value;
use hdrhistogram::Histogram;
use std::io::{self, Write as _};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Event type of probes.
const PROBE: [&str; 2] = ["Campanile", "Probe"];
/// Time to wait for missing probes after all are sent.
const LATE_AFTER: Duration = Duration::from_secs(5);
/// Interval in which the arrival of all probes is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Sent and arrived probes.
struct Probes {
    began: Instant,
    /// Time at which each was sent, in nanoseconds; `None` once it has arrived.
    sent: Vec<Option<u64>>,
    times: Histogram<u64>,
}

impl Probes {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn send(&mut self) -> i32 {
        let now = self.now();
        self.sent.push(Some(now));
        i32::try_from(self.sent.len() - 1).unwrap_or(i32::MAX)
    }

    /// Notes the arrival of a probe. Repeats, and probes of other runs, are ignored.
    fn arrive(&mut self, number: i32) {
        let now = self.now();
        if let Ok(number) = usize::try_from(number)
            && let Some(sent) = self.sent.get_mut(number).and_then(Option::take)
        {
            self.times.saturating_record(now.saturating_sub(sent));
        }
    }

    fn missing(&self) -> usize {
        self.sent.iter().filter(|sent| sent.is_some()).count()
    }
}

fn lock(probes: &Mutex<Probes>) -> std::sync::MutexGuard<'_, Probes> {
    probes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn histogram() -> Result<Histogram<u64>, Failure> {
    // Up to an hour, which is beyond any wait.
    Histogram::new_with_max(3_600_000_000_000, 3).map_err(Failure::message)
}

/// Sends probes, and prints their times.
pub(crate) fn run(options: &LatencyOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let channel = channels::number(options.channel.as_ref(), &options.server)?;
    let probes = Arc::new(Mutex::new(Probes { began: Instant::now(), sent: Vec::new(), times: histogram()? }));
    // The token distinguishes runs at the same time.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let token = format!("{}-{}", process::id(), since_1970.as_nanos());
    let arrived = Arc::clone(&probes);
    let settings = ConsumerOptions {
        orb: ls::orb_options(&options.server),
        types: vec![EventType::new(PROBE[0], PROBE[1])],
        constraint: Some(format!("$run == '{token}'")),
        ends_when_disconnected: true,
        best_effort: true,
        ..ConsumerOptions::default()
    };
    let consumer = SimpleConsumer::connect(&options.server.server, channel, settings, move |received| {
        if let Ok(event) = received.event()
            && let Some(Value::Long(number)) = event.field("probe")
        {
            lock(&arrived).arrive(*number);
        }
        Ok(())
    })
    .map_err(|error| subscribe::refused(&error, (None, channel), &options.server))?;
    let settings = SupplierOptions { orb: ls::orb_options(&options.server), ..SupplierOptions::default() };
    let supplier = SimpleSupplier::connect_with(&options.server.server, channel, settings)
        .map_err(|error| Failure::remote(&error, &options.server))?;
    eprintln!("campanile: sending {} probes; Ctrl-C ends", show::count(options.count));
    let pushes = send(options, &token, &probes, &supplier, &waiter)?;
    let sent_all = Instant::now();
    while lock(&probes).missing() > 0 && sent_all.elapsed() < LATE_AFTER && !consumer.has_ended() {
        if let Some(Wake::Signal | Wake::HangUp) = waiter.wait(Some(LOOK_EVERY)) {
            break;
        }
    }
    drop((consumer.close(), supplier.close()));
    let probes = lock(&probes);
    let (sent, lost) = (probes.sent.len(), probes.missing());
    let text = match options.json {
        true => {
            let mut line = String::new();
            let object = json::Object::new(&mut line).member("sent", sent).member("lost", lost);
            object
                .written("delivery", |out| report(out, &probes.times))
                .written("push", |out| report(out, &pushes))
                .end();
            line + "\n"
        }
        false => format!(
            "delivery  {}\npush      {}\n{} sent, {} did not come\n",
            people(&probes.times),
            people(&pushes),
            show::count(sent),
            show::count(lost)
        ),
    };
    io::stdout().write_all(text.as_bytes())?;
    match (sent, lost) {
        (1.., 0) => Ok(()),
        _ => Err(Failure::Quiet),
    }
}

/// Sends probes until all are sent or a signal comes. Returns the times of the pushes.
fn send(
    options: &LatencyOptions,
    token: &str,
    probes: &Mutex<Probes>,
    supplier: &SimpleSupplier,
    waiter: &Waiter,
) -> Result<Histogram<u64>, Failure> {
    let mut pushes = histogram()?;
    let mut event = StructuredEvent::new(PROBE[0], PROBE[1], "");
    event.remainder = fields::octets(vec![0; usize::try_from(options.size).unwrap_or(usize::MAX)]);
    let mut pace = Pace::new(Some(options.rate));
    for _ in 0..options.count {
        if let Some(Wake::Signal | Wake::HangUp) = waiter.wait(Some(pace.wait())) {
            break;
        }
        let number = lock(probes).send();
        event.filterable_data = vec![Property::new("run", token), Property::new("probe", number)];
        let began = Instant::now();
        supplier.publish(&event).map_err(|error| Failure::remote(&error, &options.server))?;
        pushes.saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        pace.events += 1;
    }
    Ok(pushes)
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

fn people(times: &Histogram<u64>) -> String {
    if times.is_empty() {
        return "none".to_owned();
    }
    let time = |nanos: u64| short_time(Duration::from_nanos(nanos));
    let quantiles: Vec<String> =
        QUANTILES.iter().map(|(name, at)| format!("{name} {}", time(times.value_at_quantile(*at)))).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "three digits are shown")]
    let mean = time(times.mean() as u64);
    format!("least {}, mean {mean}, {}, most {}", time(times.min()), quantiles.join(", "), time(times.max()))
}

fn report(out: &mut String, times: &Histogram<u64>) {
    #[expect(clippy::cast_precision_loss, reason = "three digits count")]
    let us = |nanos: u64| json::Fixed::<1>(nanos as f64 / 1e3);
    if times.is_empty() {
        out.push_str("null");
        return;
    }
    let mut object = json::Object::new(out)
        .member("events", times.len())
        .member("least_us", us(times.min()))
        .member("mean_us", json::Fixed::<1>(times.mean() / 1e3));
    for (name, at) in QUANTILES {
        object = object.member(&format!("{name}_us"), us(times.value_at_quantile(at)));
    }
    object.member("most_us", us(times.max())).end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_counts_once_and_only_if_it_was_sent() {
        let times = histogram().unwrap();
        let mut probes = Probes { began: Instant::now(), sent: Vec::new(), times };
        assert_eq!([probes.send(), probes.send()], [0, 1]);
        for number in [1, 1, -1, 7] {
            probes.arrive(number);
        }
        assert_eq!((probes.times.len(), probes.missing()), (1, 1));
    }

    #[test]
    fn times_are_reported_for_people_and_as_json() {
        let mut times = histogram().unwrap();
        let json = |times: &Histogram<u64>| {
            let mut out = String::new();
            report(&mut out, times);
            out
        };
        assert_eq!((people(&times).as_str(), json(&times).as_str()), ("none", "null"));
        times.record(1_000).unwrap();
        assert!(people(&times).starts_with("least 1.00 µs, mean 1.00 µs, p50 1.00 µs, p90 "), "{}", people(&times));
        let told: serde_json::Value = serde_json::from_str(&json(&times)).unwrap();
        assert_eq!((&told["events"], &told["p99_us"]), (&1.into(), &1.0.into()));
    }
}

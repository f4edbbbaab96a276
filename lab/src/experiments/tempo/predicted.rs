//! `campanile-bench tempo-predicted`: what the analysis (section IV.E, `campanile plan tempo`) says of a broker that runs by the clock, beside what
//! is measured: the rate that is guaranteed, how long messages wait, how often some are carried over into another period, and what
//! priorities do where messages wait.
//!
//! A broker that runs by the clock is a polling server: released every period, for a budget of its core. It is full at a rate that its clients
//! can send, so that its queues can be looked at. Times are those through the broker less the median of a message that meets nothing.

use std::fs;
use std::io::Write;

use planning::tempo::{PollingServer, Queue};
use serde::Serialize;
use serde_json::json;

use super::ends::{Pair, Transport, Way};
use super::{Broker, after, pair, take_seat};
use crate::campanile::Campanile;
use crate::experiments::Bed;
use crate::latency::Recorder;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};

/// Periods and budgets, in microseconds.
const SERVERS: [(u64, u64); 3] = [(5_000, 1_000), (10_000, 1_000), (20_000, 2_000)];
/// Parts of the guaranteed rate at which messages come as if by chance.
const INTENSITIES: [f64; 2] = [0.5, 0.8];
/// A rate at which periods and messages do not keep step, in messages a second.
const PACED: f64 = 977.0;
/// How far the measured may be from the predicted, as a part of that.
const ERROR_AT_MOST: f64 = 0.15;
/// Messages that may be on their way while the broker is filled.
const WINDOW: u64 = 16_384;

#[derive(Debug, Serialize)]
struct Report {
    service_rate: f64,
    way_us: f64,
    rows: Vec<Row>,
    priorities: Vec<Priorities>,
}

#[derive(Debug, Serialize)]
struct Row {
    period_us: u64,
    budget_us: u64,
    what: String,
    predicted: f64,
    measured: f64,
    is: Is,
}

/// What the predicted figure is.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Is {
    /// What is to be measured.
    About,
    AtMost,
    /// A guarantee: a broker by the clock finds many messages at once, which cost it less each than they do one by one.
    AtLeast,
}

#[derive(Debug, Serialize)]
struct Priorities {
    period_us: u64,
    budget_us: u64,
    sent: f64,
    received: f64,
    p50_first_us: f64,
    p50_others_us: f64,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (_, seconds) = bed.times(options, (0.0, 1.0), (0.0, 5.0));
    take_seat(bed)?;
    out.progress("a broker that always runs")?;
    let (service_rate, way_us) = {
        let broker = Broker::start(bed)?;
        let mut pair = pair(bed, Way::Broker, Transport::Udp, &broker, 0)?;
        pair.pace(PACED, after(seconds))?;
        pair.settle()?;
        let way_us = median(&pair.intake.take_latency());
        (full(&mut pair, &broker, seconds)?.of_core, way_us)
    };
    let mut report = Report { service_rate, way_us, rows: Vec::new(), priorities: Vec::new() };
    for (period_us, budget_us) in SERVERS {
        out.progress(&format!("released every {period_us} µs for {budget_us} µs"))?;
        report.look_at(bed, (period_us, budget_us), seconds)?;
    }
    Ok((report.judge(), json!(report)))
}

/// What a broker carries that is sent more than it takes, one message with a call.
struct Full {
    rate: f64,
    /// Messages for each second of its core's time.
    of_core: f64,
}

fn full(pair: &mut Pair, broker: &Broker, seconds: f64) -> Result<Full, BenchError> {
    pair.flood(1, WINDOW, after(seconds / 4.0))?;
    let (cpu, received, from) = (broker.service.process().cpu()?, pair.intake.received(), clock::now());
    pair.flood(1, WINDOW, after(seconds))?;
    let received = crate::latency::ratio(pair.intake.received() - received, 1);
    let (took, cpu) = (clock::now() - from, broker.service.process().cpu()? - cpu);
    pair.settle()?;
    pair.intake.take_latency();
    Ok(Full { rate: received / clock::seconds(took), of_core: received / clock::seconds(cpu) })
}

fn median(recorder: &Recorder) -> f64 {
    recorder.percentiles().map_or(f64::NAN, |figures| figures.median)
}

/// A broker that runs by the clock.
fn timed_broker(bed: &Bed, (period_us, budget_us): (u64, u64)) -> Result<Broker, BenchError> {
    let path = std::env::temp_dir().join(format!("campanile-bench-{}-lanes.toml", std::process::id()));
    // What comes between two releases has room: it waits, and is not discarded.
    let text = format!(
        "[lanes]\nmain_period_us = {period_us}\nmain_budget_us = {budget_us}\n\
         [tempo]\ninput_messages = 65536\ninput_bytes = 67108864\n"
    );
    let mut file = fs::File::create(&path).map_err(BenchError::io("writing a configuration"))?;
    file.write_all(text.as_bytes()).map_err(BenchError::io("writing a configuration"))?;
    let address = super::free_address()?;
    let service = Campanile::start_with_tempo(bed.cores.middle, &address.to_string(), Some(&path));
    let _ = fs::remove_file(&path);
    Ok(Broker { service: service?, address })
}

impl Report {
    fn look_at(&mut self, bed: &Bed, server: (u64, u64), seconds: f64) -> Result<(), BenchError> {
        let broker = timed_broker(bed, server)?;
        let mut pair = pair(bed, Way::Broker, Transport::Udp, &broker, 0)?;
        let polling = PollingServer {
            period_s: crate::latency::ratio(server.0, 1_000_000),
            budget_s: crate::latency::ratio(server.1, 1_000_000),
        };
        let mut add = |what: &str, predicted, measured, is| {
            let (period_us, budget_us) = server;
            self.rows.push(Row { period_us, budget_us, what: what.to_owned(), predicted, measured, is });
        };
        pair.pace(PACED, after(seconds))?;
        pair.settle()?;
        let recorder = pair.intake.take_latency();
        let (mean, longest) =
            (super::mean_us(&recorder), recorder.percentiles().map_or(f64::NAN, |figures| figures.p99));
        add("mean wait of paced messages, µs", polling.mean_wait_s() * 1e6, mean - self.way_us, Is::About);
        add(
            "p99 wait of paced messages, µs, at most",
            polling.longest_wait_s() * 1e6,
            longest - self.way_us,
            Is::AtMost,
        );
        let guaranteed = polling.reduced(self.service_rate);
        let most = full(&mut pair, &broker, seconds)?.rate;
        add("guaranteed rate, messages/s, at least", guaranteed, most, Is::AtLeast);
        for intensity in INTENSITIES {
            let rate = most * intensity;
            let before = counters(&broker)?;
            pair.scatter(rate, after(seconds))?;
            pair.settle()?;
            let after = counters(&broker)?;
            pair.intake.take_latency();
            let queue = Queue { arrival_rate: rate, service_rate: most / polling.fraction() };
            let mut steps = 100_000_000;
            if let Some(probability) = polling.nothing_carried_over(&queue, &mut steps) {
                let (periods, spent) = (after.0 - before.0, after.1 - before.1);
                let measured = 1.0 - crate::latency::ratio(spent, periods.max(1));
                add(&format!("nothing carried over, at {intensity} of that"), probability.value, measured, Is::About);
            }
        }
        self.priorities.push(priorities(&mut pair, server, most, seconds)?);
        Ok(())
    }

    fn judge(&self) -> Vec<Aim> {
        let judge = |row: &Row| {
            let Row { period_us, budget_us, what, predicted, measured, is } = row;
            let error = (measured - predicted) / predicted;
            Aim::new(
                format!("{budget_us} of {period_us} µs: {what}: {predicted:.3}, within 15 %"),
                format!("{measured:.3}"),
                match is {
                    Is::About => error.abs() <= ERROR_AT_MOST,
                    Is::AtMost => error <= ERROR_AT_MOST,
                    Is::AtLeast => error >= -ERROR_AT_MOST,
                },
            )
        };
        let mut aims: Vec<Aim> = self.rows.iter().map(judge).collect();
        for row in &self.priorities {
            aims.push(Aim::new(
                format!(
                    "{} of {} µs, overfull: messages with a priority wait less than others",
                    row.budget_us, row.period_us
                ),
                format!("{:.0} and {:.0} µs", row.p50_first_us, row.p50_others_us),
                row.p50_first_us < row.p50_others_us,
            ));
        }
        aims
    }
}

/// Periods, and budgets that were spent with work left.
fn counters(broker: &Broker) -> Result<(u64, u64), BenchError> {
    let counters = broker.service.counters()?;
    let of = |name| counters.get(name).copied().unwrap_or(0);
    Ok((of("lane_periods"), of("lane_budgets_spent")))
}

/// Sends more than is taken, one message in 64 with a priority.
fn priorities(pair: &mut Pair, server: (u64, u64), most: f64, seconds: f64) -> Result<Priorities, BenchError> {
    let rate = most * 1.5;
    pair.intake.separate(true);
    let (received, from) = (pair.intake.received(), clock::now());
    pair.pour_with_priorities(rate, after(seconds))?;
    let took = clock::seconds(clock::now() - from);
    let came = crate::latency::ratio(pair.intake.received() - received, 1) / took;
    pair.settle()?;
    let first = pair.intake.separate(false).map_or(f64::NAN, |first| median(&first));
    Ok(Priorities {
        period_us: server.0,
        budget_us: server.1,
        sent: rate,
        received: came,
        p50_first_us: first,
        p50_others_us: median(&pair.intake.take_latency()),
    })
}

//! `campanile-bench tempo-saturation`: how many messages of 128 octets get through in a second, from end to end and through a broker, over
//! TCP and UDP, beside bare sockets and a bare relay (the paper's broker carried 10,000).

use serde::Serialize;
use serde_json::Value;

use super::ends::{Pair, Transport, Way};
use super::{Broker, after, pair, take_seat};
use crate::experiments::{Bed, Kind, PairedRatio};
use crate::report::{Aim, Charts, Tables, rows, table};
use crate::{BenchError, ExperimentOptions, Output, Spread, clock};

const KIND: Kind = Kind { name: "tempo-saturation", tables, charts: |_| Charts::new() };

/// Messages that are sent with a call.
const AT_ONCE: usize = 64;
/// Messages that may be on their way.
const WINDOW: u64 = 8_192;
/// What part of the bare way's throughput is to be reached at least, from end to end, and by datagrams.
const PART_AT_LEAST: f64 = 0.8;
/// Messages a second that a broker is to carry over TCP at least.
const BROKER_AT_LEAST: f64 = 1_000_000.0;

/// The report, beside what all of them begin with.
#[derive(Debug, Serialize)]
struct Report {
    rows: Vec<Row>,
    /// Each way's throughput by that of the bare way with as many hops, turn by turn.
    ratios: Vec<Ratio>,
}

#[derive(Debug, Serialize)]
struct Row {
    mode: &'static str,
    transport: &'static str,
    /// Messages received in a second.
    rate: Option<Spread>,
    /// Microseconds of processor time that whoever is between spent on a message.
    cpu_us: Option<f64>,
    lost: u64,
    disordered: u64,
}

#[derive(Debug, Serialize)]
struct Ratio {
    mode: &'static str,
    to: &'static str,
    transport: &'static str,
    throughput: Option<PairedRatio>,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    crate::experiments::conduct(&KIND, options, out, |bed, out| measure(bed, options, out))
}

struct Contender {
    way: Way,
    transport: Transport,
    pair: Pair,
    rates: Vec<Option<f64>>,
    cpu: u64,
    received: u64,
    lost: u64,
}

impl Contender {
    /// Floods for so long, and counts what comes in the later half.
    fn turn(&mut self, seconds: f64, broker: &Broker) -> Result<(), BenchError> {
        let cpu = |pair: &Pair| match (self.way, &pair.relay) {
            (Way::Broker, _) => broker.service.process().cpu(),
            (_, Some(relay)) => relay.cpu(),
            _ => Ok(0),
        };
        self.pair.flood(AT_ONCE, WINDOW, after(seconds / 2.0))?;
        let (before, received, from) = (cpu(&self.pair)?, self.pair.intake.received(), clock::now());
        self.pair.flood(AT_ONCE, WINDOW, after(seconds))?;
        let (spent, received) = (cpu(&self.pair)? - before, self.pair.intake.received() - received);
        self.rates.push(Some(crate::latency::ratio(received, 1) / clock::seconds(clock::now() - from)));
        self.cpu += spent;
        self.received += received;
        self.lost = self.pair.settle()?;
        self.pair.intake.take_latency();
        Ok(())
    }
}

fn measure(bed: &Bed, options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(Vec<Aim>, Report), BenchError> {
    let rounds = if bed.quick() { 3 } else { 9 };
    let (_, seconds) = bed.times(options, (0.0, 0.5), (0.0, 2.0));
    let broker = Broker::start(bed)?;
    let mut all = Vec::new();
    for (transport, number) in Transport::ALL.into_iter().zip(0..) {
        for way in Way::ALL {
            let pair = pair(bed, way, transport, &broker, number)?;
            all.push(Contender { way, transport, pair, rates: Vec::new(), cpu: 0, received: 0, lost: 0 });
        }
    }
    take_seat(bed)?;
    for round in 0..rounds {
        for contender in &mut all {
            out.progress(&format!("round {} of {rounds}: {}", round + 1, contender.way.name()))?;
            contender.turn(seconds, &broker)?;
        }
    }
    let report = Report::of(&all);
    Ok((report.judge(), report))
}

impl Report {
    fn of(all: &[Contender]) -> Self {
        let row = |contender: &Contender| Row {
            mode: contender.way.name(),
            transport: contender.transport.name(),
            rate: Spread::of(contender.rates.iter().copied().flatten()),
            cpu_us: (contender.cpu > 0)
                .then(|| crate::latency::ratio(contender.cpu, 1_000) / crate::latency::ratio(contender.received, 1)),
            lost: contender.lost,
            disordered: contender.pair.intake.disordered(),
        };
        let mut ratios = Vec::new();
        for contender in all {
            let Some(to) = contender.way.floor() else { continue };
            let floor = all.iter().find(|other| (other.way, other.transport) == (to, contender.transport));
            let throughput = floor.and_then(|floor| PairedRatio::of(&contender.rates, &floor.rates));
            let (mode, transport) = (contender.way.name(), contender.transport.name());
            ratios.push(Ratio { mode, to: to.name(), transport, throughput });
        }
        Self { rows: all.iter().map(row).collect(), ratios }
    }

    fn judge(&self) -> Vec<Aim> {
        let mut aims = Vec::new();
        for Ratio { mode, to, transport, throughput } in &self.ratios {
            if (*mode, *transport) == ("broker", "tcp") {
                continue;
            }
            let found = throughput.as_ref().map(|ratio| ratio.median);
            aims.push(Aim {
                aim: format!("{transport}: {mode} carries at least 0.8 × what {to} does"),
                found: found.map_or_else(|| "nothing to compare".to_owned(), |ratio| format!("{ratio:.3} ×")),
                met: found.map(|ratio| ratio >= PART_AT_LEAST),
            });
        }
        let broker = self.rows.iter().find(|row| (row.mode, row.transport) == ("broker", "tcp"));
        let rate = broker.and_then(|row| Some(row.rate?.median));
        aims.push(Aim {
            aim: "tcp: a broker carries at least 1,000,000 messages/s".to_owned(),
            found: rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate:.0}")),
            met: rate.map(|rate| rate >= BROKER_AT_LEAST),
        });
        aims
    }
}

fn tables(report: &Value) -> Tables {
    let columns = [
        ("mode", "mode"),
        ("transport", "transport"),
        ("messages/s", "rate.median"),
        ("least", "rate.min"),
        ("most", "rate.max"),
        ("between, µs/message", "cpu_us"),
        ("lost", "lost"),
        ("out of order", "disordered"),
    ];
    let ratios = [
        ("mode", "mode"),
        ("compared with", "to"),
        ("transport", "transport"),
        ("ratio of throughputs", "throughput.median"),
    ];
    vec![
        (format!("Messages of 128 octets, {AT_ONCE} with a call"), table(rows(report, "rows"), &columns)),
        ("Beside bare sockets, turn by turn".to_owned(), table(rows(report, "ratios"), &ratios)),
    ]
}

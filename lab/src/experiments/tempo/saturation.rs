//! `campanile-bench tempo-saturation`: how many messages of 128 octets get through in a second, from end to end and through a broker, over
//! TCP and UDP, beside bare sockets and a bare relay (the paper's broker carried 10,000).
//!
//! Messages are sent one with a call, as a program does that has one after the other, and 64 with a call. A bare TCP loop that writes 64 at
//! once copies ten thousand octets it never looks at: there the ratio is shown and not judged.

use serde_json::{Value, json};

use super::ends::{Pair, Transport, Way};
use super::{Broker, after, pair, take_seat};
use crate::experiments::{Bed, PairedRatio};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, Spread, clock};

/// Messages that are sent with a call: alone, and gathered.
const AT_ONCE: [usize; 2] = [1, 64];
/// Messages that may be on their way.
const WINDOW: u64 = 8_192;
/// What part of the bare way's throughput is to be reached at least, from end to end, and by datagrams.
const PART_AT_LEAST: f64 = 0.8;
/// Messages a second that a broker is to carry over TCP at least.
const BROKER_AT_LEAST: f64 = 1_000_000.0;

struct Contender {
    way: Way,
    transport: Transport,
    pair: Pair,
    /// By how many are sent with a call.
    found: [Found; 2],
}

/// What came of it, with so many sent with a call.
#[derive(Debug, Default)]
struct Found {
    rates: Vec<Option<f64>>,
    cpu: u64,
    received: u64,
    lost: u64,
}

impl Contender {
    /// Floods for so long, and counts what comes in the later half.
    fn turn(&mut self, at_once: usize, seconds: f64, broker: &Broker) -> Result<(), BenchError> {
        let cpu = |pair: &Pair| match (self.way, &pair.relay) {
            (Way::Broker, _) => broker.service.process().cpu(),
            (_, Some(relay)) => relay.cpu(),
            _ => Ok(0),
        };
        let missing = self.pair.sent - self.pair.intake.received();
        self.pair.flood(at_once, WINDOW, after(seconds / 2.0))?;
        let (before, received, from) = (cpu(&self.pair)?, self.pair.intake.received(), clock::now());
        self.pair.flood(at_once, WINDOW, after(seconds))?;
        let (spent, received) = (cpu(&self.pair)? - before, self.pair.intake.received() - received);
        let rate = crate::latency::ratio(received, 1) / clock::seconds(clock::now() - from);
        let lost = self.pair.settle()? - missing;
        let found = AT_ONCE.into_iter().zip(&mut self.found).find(|(count, _)| *count == at_once);
        if let Some((_, found)) = found {
            found.rates.push(Some(rate));
            found.cpu += spent;
            found.received += received;
            found.lost += lost;
        }
        Ok(())
    }
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let rounds = if bed.quick() { 3 } else { 9 };
    let (_, seconds) = bed.times(options, (0.0, 0.5), (0.0, 2.0));
    let broker = Broker::start(bed)?;
    let mut all = Vec::new();
    for (transport, number) in Transport::ALL.into_iter().zip(0..) {
        for way in Way::ALL {
            let pair = pair(bed, way, transport, &broker, number)?;
            // A histogram would take as long as what is measured.
            pair.intake.record(false);
            all.push(Contender { way, transport, pair, found: Default::default() });
        }
    }
    take_seat(bed)?;
    for round in 0..rounds {
        for at_once in AT_ONCE {
            for contender in &mut all {
                out.progress(&format!("round {} of {rounds}: {}", round + 1, contender.way.name()))?;
                contender.turn(at_once, seconds, &broker)?;
            }
        }
    }
    Ok(compare(&all))
}

fn compare(all: &[Contender]) -> (Vec<Aim>, Value) {
    let (mut aims, mut rows, mut ratios, mut by_broker) = (Vec::new(), Vec::new(), Vec::new(), None);
    for Contender { way, transport, pair, found } in all {
        let (mode, over) = (way.name(), transport.name());
        let floor =
            way.floor().and_then(|to| all.iter().find(|other| (other.way, other.transport) == (to, *transport)));
        for (place, (at_once, found)) in AT_ONCE.into_iter().zip(found).enumerate() {
            let rate = Spread::of(found.rates.iter().copied().flatten());
            if (*way, *transport, at_once) == (Way::Broker, Transport::Tcp, AT_ONCE[1]) {
                by_broker = rate.map(|rate| rate.median);
            }
            let cpu_us = crate::latency::ratio(found.cpu, 1_000) / crate::latency::ratio(found.received.max(1), 1);
            rows.push(json!({
                "mode": mode, "transport": over, "at_once": at_once, "rate": rate,
                "cpu_us": (found.cpu > 0).then_some(cpu_us), "lost": found.lost, "disordered": pair.intake.disordered(),
            }));
            let Some((to, floor)) = floor.and_then(|to| Some((to.way.name(), to.found.get(place)?))) else { continue };
            let throughput = PairedRatio::of(&found.rates, &floor.rates);
            if *transport == Transport::Udp || (*way != Way::Broker && at_once == 1) {
                let ratio = throughput.as_ref().map(|ratio| ratio.median);
                aims.push(Aim::new(
                    format!("{over}, {at_once} with a call: {mode} carries at least 0.8 × what {to} does"),
                    ratio.map_or_else(|| "nothing to compare".to_owned(), |ratio| format!("{ratio:.3} ×")),
                    ratio.map(|ratio| ratio >= PART_AT_LEAST),
                ));
            }
            ratios.push(json!({
                "mode": mode, "to": to, "transport": over, "at_once": at_once, "throughput": throughput,
            }));
        }
    }
    aims.push(Aim::new(
        "tcp, gathered: a broker carries at least 1,000,000 messages/s",
        by_broker.map_or_else(|| "none".to_owned(), |rate| format!("{rate:.0}")),
        by_broker.map(|rate| rate >= BROKER_AT_LEAST),
    ));
    (aims, json!({"rows": rows, "ratios": ratios}))
}

//! omniORB to omniORB, with nothing in between: the programs of `interop/`, driven over their standard input.
//!
//! The same event, pushed two-way on one connection by a supplier process to a consumer process. There is one hop
//! where the others have two, and no process in the middle with processor time of its own.

use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::report::Turn;
use super::{Load, divide_us, middle};
use crate::latency::ratio;
use crate::places::Places;
use crate::process::Dialogue;
use crate::{BenchError, Losses, Options, Percentiles, clock};

/// Events that are sent before those that count, in every turn.
const WARM_UP: u64 = 200;

/// The two programs, connected.
pub(super) struct OmniOrb {
    consumer: Dialogue,
    supplier: Dialogue,
}

/// What the consumer program prints.
#[derive(Debug, Deserialize)]
struct Arrived {
    events: u64,
    min_ns: f64,
    p50_ns: f64,
    p99_ns: f64,
    p999_ns: f64,
    max_ns: f64,
    cpu_ns: u64,
}

/// What the supplier program prints.
#[derive(Debug, Deserialize)]
struct Pushed {
    events: u64,
    elapsed_ns: u64,
    round_trip_p50_ns: f64,
    round_trip_p99_ns: f64,
    round_trip_p999_ns: f64,
    round_trip_max_ns: f64,
    cpu_ns: u64,
}

impl OmniOrb {
    /// Starts both programs; `Err` with the reason when they are not there.
    pub(super) fn start(options: &Options) -> Result<Result<Self, String>, BenchError> {
        let program = options.omniorb_dir.join("peer");
        if !program.exists() {
            let reason = format!("{} is not built: run `make test` or interop/install.sh", program.display());
            return Ok(Err(reason));
        }
        let mut command = Command::new(&program);
        command.arg("direct-consumer");
        let ior = |line: &str| line.strip_prefix("ior ").map(str::to_owned);
        let (consumer, ior) = Dialogue::spawn("omniORB consumer", command, ior)?;
        let ready = |line: &str| (line == "ready").then_some(());
        consumer.wait_for(ready)?;
        let mut command = Command::new(&program);
        command.args(["direct-supplier", "--consumer", &ior, "--payload", &options.payload.to_string()]);
        let (supplier, ()) = Dialogue::spawn("omniORB supplier", command, ready)?;
        Ok(Ok(Self { consumer, supplier }))
    }

    /// Moves both programs to these cores; the consumer is on the other side of the one hop there is.
    pub(super) fn place(&self, places: Places) -> Result<(), BenchError> {
        places.middle.give(self.consumer.pid())?;
        places.supplier.give(self.supplier.pid())
    }

    /// Carries one turn's events; `None` in lockstep, which takes one program at both ends.
    pub(super) fn turn(&mut self, load: Load, options: &Options) -> Result<Option<Turn>, BenchError> {
        if load == Load::Lockstep {
            return Ok(None);
        }
        let (warm, _) = self.run(WARM_UP, 0.0)?;
        let (count, rate) = if load == Load::Paced {
            (middle::event_count(options.paced_seconds, options.rate), options.rate)
        } else {
            // The program takes a number of events: as many as fit at the pace of the warm-up.
            let each = warm.elapsed_ns.max(1) / warm.events.max(1);
            (clock::nanoseconds(options.saturated_seconds) / each.max(1), 0.0)
        };
        let (pushed, arrived) = self.run(count.max(1), rate)?;
        Ok(Some(report(&pushed, &arrived)))
    }

    fn run(&mut self, count: u64, rate: f64) -> Result<(Pushed, Arrived), BenchError> {
        self.supplier.say(&format!("run {count} {rate}"))?;
        let pushed = self.supplier.wait_for(json::<Pushed>)?;
        self.consumer.say("report")?;
        let arrived = self.consumer.wait_for(json::<Arrived>)?;
        Ok((pushed, arrived))
    }
}

fn json<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

fn report(pushed: &Pushed, arrived: &Arrived) -> Turn {
    let losses = Losses {
        sent: pushed.events,
        received: arrived.events,
        lost: pushed.events.saturating_sub(arrived.events),
        repeated: arrived.events.saturating_sub(pushed.events),
        out_of_order: 0,
    };
    Turn {
        events_per_second: ratio(arrived.events, 1) / clock::seconds(pushed.elapsed_ns.max(1)),
        latency: Percentiles {
            events: arrived.events,
            min: arrived.min_ns / 1e3,
            median: arrived.p50_ns / 1e3,
            p99: arrived.p99_ns / 1e3,
            p999: arrived.p999_ns / 1e3,
            max: arrived.max_ns / 1e3,
            ..Percentiles::default()
        },
        latency_from_schedule: None,
        round_trip: Percentiles {
            events: pushed.events,
            median: pushed.round_trip_p50_ns / 1e3,
            p99: pushed.round_trip_p99_ns / 1e3,
            p999: pushed.round_trip_p999_ns / 1e3,
            max: pushed.round_trip_max_ns / 1e3,
            ..Percentiles::default()
        },
        late_pushes: None,
        losses,
        cpu_us_per_event: None,
        supplier_cpu_us_per_event: divide_us(pushed.cpu_ns, pushed.events),
        consumer_cpu_us_per_event: divide_us(arrived.cpu_ns, arrived.events),
        counted: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_to_do_when_the_programs_are_not_built() {
        let options = crate::floor::tests::options(&["--omniorb-dir", "/nowhere"]);
        let reason = OmniOrb::start(&options).unwrap().err().unwrap();
        assert_eq!(reason, "/nowhere/peer is not built: run `make test` or interop/install.sh");
    }

    #[test]
    fn reads_what_the_programs_print() {
        let pushed: Pushed = json(
            r#"{"events":2500,"elapsed_ns":10000000000,"round_trip_p50_ns":50000,"round_trip_p99_ns":60000,"round_trip_p999_ns":70000,"round_trip_max_ns":80000,"cpu_ns":25000000}"#,
        )
        .unwrap();
        let arrived: Arrived = json(
            r#"{"events":2499,"min_ns":20000,"p50_ns":30000.5,"p99_ns":40000,"p999_ns":50000,"max_ns":60000,"mean_ns":31000,"cpu_ns":24990000}"#,
        )
        .unwrap();
        let turn = report(&pushed, &arrived);
        assert_eq!(turn.losses.lost, 1);
        assert!((turn.latency.median - 30.0005).abs() < 1e-9);
        assert!((turn.supplier_cpu_us_per_event - 10.0).abs() < 1e-9);
        assert!((turn.events_per_second - 249.9).abs() < 1e-9);
    }
}

//! `campanile-bench administration`: what administration takes from the events.
//!
//! One supplier pushes small events at a fixed rate to one consumer. Meanwhile clients administer, each kind of work in
//! turn: proxies are made and connected, the hierarchy is walked, constraints are replaced, statistics are read, channels
//! come and go. Such clients take processor time of the machine too, whichever service they keep busy; therefore each
//! kind of work is done to another service of the same machine as well, and what counts is the difference. The three,
//! nothing, work elsewhere, work here, alternate within each round.
//!
//! And in this process, without threads: what one snapshot of the routing, and the first event after it, cost a lane that
//! has 10,000 consumers.

mod lane;
mod work;

use serde_json::{Value, json};

use crate::campanile::Campanile;
use crate::latency::{Recorder, ratio};
use crate::report::Reported;
use crate::workload::{self, Carrier, Lasting, Traffic, View};
use crate::{BenchError, CarriageOptions, Options, Output, clock};
use work::{Clients, Work};

const REAL_TIME: &str = "real-time";
const KINDS: [&str; 2] = ["plain", REAL_TIME];
/// The CORBA priority of the pool's thread.
const PRIORITY: i16 = 20_000;

/// How much of everything.
struct Plan {
    rounds: u32,
    phase_ns: u64,
    proxies: u32,
}

/// Events of one kind of work by what happened meanwhile: nothing, work elsewhere, work here.
struct Phases {
    latencies: [Recorder; 3],
    calls: u64,
    busy_ns: u64,
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let plan = Plan {
        rounds: if options.quick { 1 } else { 5 },
        phase_ns: if options.quick { clock::SECOND } else { 5 * clock::SECOND },
        proxies: options.proxies,
    };
    out.progress("administration: a lane alone")?;
    let lane = lane::measure(options.proxies, if options.quick { 100 } else { 1_000 })?;
    let traffic =
        Traffic { name: "events", suppliers: 1, payload_bytes: 128, rate: options.rate, stagger_ms: 0.0, consumers: 1 };
    let mut rows = Vec::new();
    for kind in KINDS {
        let (mut service, mut other) = (Campanile::start()?, Campanile::start()?);
        if kind == REAL_TIME {
            service.pool_for_channels(PRIORITY);
            other.pool_for_channels(PRIORITY);
        }
        other.new_channel()?;
        let carrier = Carrier::Campanile(&service, CarriageOptions::default());
        workload::run(&carrier, std::slice::from_ref(&traffic), Lasting::until_stopped(), |view| {
            let (mut here, mut elsewhere) = (Clients::of(&service)?, Clients::of(&other)?);
            rows.extend(rounds((&plan, kind), view, &mut here, &mut elsewhere, out)?);
            Ok(())
        })?;
    }
    let report = json!({
        "rate": options.rate,
        "proxies": plan.proxies,
        "rounds": plan.rounds,
        "rows": rows,
        "lane": lane,
    });
    Ok((Vec::new(), report))
}

fn rounds(
    (plan, kind): (&Plan, &'static str),
    view: &View<'_>,
    here: &mut Clients,
    elsewhere: &mut Clients,
    out: &mut Output<'_>,
) -> Result<Vec<Value>, BenchError> {
    let phases = || Phases { latencies: [(); 3].map(|()| Recorder::default()), calls: 0, busy_ns: 0 };
    let mut all = Work::ALL.map(|work| (work, phases()));
    for round in 1..=plan.rounds {
        for (work, phases) in &mut all {
            out.progress(&format!("administration: {kind}, round {round} of {}: {}", plan.rounds, work.name()))?;
            // The proxies of the first round are there for all that follows.
            if *work == Work::Proxies && round > 1 {
                continue;
            }
            let until = |time: u64| move || clock::now() < time;
            // All proxies are wanted, however long making them takes.
            let here_ns = if *work == Work::Proxies { u64::MAX / 2 } else { plan.phase_ns };
            view.take_latencies(None);
            clock::sleep_until(clock::now() + plan.phase_ns)?;
            view.take_latencies(phases.latencies.first_mut());
            elsewhere.work(*work, plan.proxies, until(clock::now() + plan.phase_ns))?;
            view.take_latencies(phases.latencies.get_mut(1));
            let began = clock::now();
            phases.calls += here.work(*work, plan.proxies, until(began + here_ns))?;
            phases.busy_ns += clock::now() - began;
            view.take_latencies(phases.latencies.get_mut(2));
        }
    }
    let rows = all.into_iter().map(|(work, Phases { latencies: [quiet, elsewhere, here], calls, busy_ns })| {
        json!({
            "service": kind,
            "work": work.name(),
            "calls": calls,
            "calls_per_second": ratio(calls, 1) / clock::seconds(busy_ns.max(1)),
            "quiet": quiet.percentiles(),
            "elsewhere": elsewhere.percentiles(),
            "here": here.percentiles(),
        })
    });
    Ok(rows.collect())
}

//! `campanile-bench placements`: a service's connections and threads for each component, container or server (Deng et al., 2.2).
//!
//! One plan with a source in one server and its sinks in another, in two containers there: only its word `placed` differs. The contenders
//! have a service each and take turns. The latency of an event is that to the last sink.

use std::io;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use super::ends::{Came, QUEUE, Role, Turn};
use super::{SECONDS_MAX, carry, pace, place_of_ends, start};
use crate::campanile::Campanile;
use crate::experiments::tempo::Broker;
use crate::experiments::{Bed, PairedRatio};
use crate::latency::ratio;
use crate::process::Subordinate;
use crate::report::{Aim, Reported};
use crate::spin::Awake;
use crate::{BenchError, Options, Output, Percentiles, Spread, clock, system};

const SINKS: [u32; 3] = [1, 10, 50];
const SINKS_QUICK: [u32; 2] = [1, 10];
/// Payload of an event.
const OCTETS: u32 = 64;
/// Events sent at once for the throughput: fewer than may wait at a source.
const BURST: u64 = 500;

crate::report::kinds! {
    /// The service of the containers.
    #[derive(ValueEnum)]
    enum Service {
        /// A notification service.
        Notification = "notification",
        /// The same, as TAO's real-time event service.
        Rtes = "rtes",
        /// A broker of Tempo, over TCP.
        Tempo = "tempo",
    }
}

crate::report::kinds! {
    /// What shares connections to the service.
    enum Placed {
        /// All components of a server.
        Server = "server",
        Container = "container",
        /// Each has its own.
        Component = "component",
    }
}

/// What processes take.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Resources {
    resident_bytes: u64,
    threads: u64,
    sockets: u64,
}

/// The figures of a placement.
#[derive(Debug, Serialize)]
struct Row {
    service: Service,
    sinks: u32,
    placed: Placed,
    latency: Option<Percentiles>,
    /// To [`Placed::Server`].
    latency_ratio: Option<Value>,
    events_per_second: Option<f64>,
    of_servers: Resources,
    of_service: Resources,
    lost: u64,
    /// Of each turn: the median latency in microseconds, and the events a second of its burst.
    rounds: Vec<(Option<f64>, f64)>,
}

/// A placement at work.
struct Contender {
    placed: Placed,
    source: Subordinate,
    sinks: Subordinate,
    broker: Campanile,
    rounds: Vec<(Option<f64>, f64)>,
    latencies: Vec<u64>,
    lost: u64,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let seconds = bed.seconds(options, 0.1, 0.25, SECONDS_MAX)?;
    let mut services = options.only_of()?;
    if services.is_empty() {
        services = if bed.quick() { vec![Service::Notification] } else { Service::ALL.to_vec() };
    }
    let awake = Awake::keep(&[bed.cores.ends, bed.cores.middle])?;
    let (mut rows, mut aims) = (Vec::new(), Vec::new());
    for service in services {
        for &sinks in bed.loads(options, &SINKS_QUICK, &SINKS) {
            Options::check("--loads", f64::from(sinks), 100.0)?;
            out.progress(&format!("{}, {sinks} sinks", service.name()))?;
            let contenders = Placed::ALL.into_iter().map(|placed| Contender::start(bed, service, placed, sinks));
            let mut contenders = contenders.collect::<Result<Vec<_>, _>>()?;
            for round in 0..=options.rounds {
                for contender in &mut contenders {
                    contender.take_turn(sinks, seconds, round > 0)?;
                }
                // Each is the first as often as the others.
                contenders.rotate_left(1);
            }
            contenders.sort_by_key(|contender| contender.placed);
            let of_these = figures(contenders, service, sinks)?;
            aims.extend(judge(&of_these, service, sinks));
            rows.extend(of_these);
        }
    }
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    aims.push(Aim::new("every event comes to all sinks", format!("{lost} did not"), lost == 0));
    Ok((aims, json!({"cores_awake": awake.how(), "turns": options.rounds, "rows": rows})))
}

impl Contender {
    fn start(bed: &Bed, service: Service, placed: Placed, sinks: u32) -> Result<Self, BenchError> {
        let place = place_of_ends(bed);
        let (broker, at) = if service == Service::Tempo {
            let Broker { service, address } = Broker::start(bed)?;
            (service, format!("tcp://{address}"))
        } else {
            let service = Campanile::start_at(bed.cores.middle, place.1)?;
            let at = service.address().to_string();
            (service, at)
        };
        let plan = plan(service, &at, placed, sinks);
        let of = |name, server: &str| start(name, Role::Planned(plan.clone(), server.to_owned()), place);
        let sinks = of("the server of sinks", "sinks")?;
        let source = of("the server of a source", "source")?;
        Ok(Self { placed, source, sinks, broker, rounds: Vec::new(), latencies: Vec::new(), lost: 0 })
    }

    /// Carries events at an even pace and then a burst; the first turn, for connections and buffers, does not count.
    fn take_turn(&mut self, sinks: u32, seconds: f64, counts: bool) -> Result<(), BenchError> {
        let (events, period_ns) = pace(sinks, seconds);
        let mut carry = |events, period_ns| {
            let turn = Turn { events, octets: OCTETS, period_ns, called: 0 };
            carry(&mut self.source, &mut self.sinks, turn)
        };
        let paced = carry(events, period_ns)?.latencies;
        // A period that is over when the next event is to be sent.
        let Came { latencies, elapsed_ns } = carry(BURST, 1)?;
        if counts {
            let came = latencies.len() as u64;
            let median_us = Percentiles::of(paced.iter().copied()).map(|latency| latency.median);
            self.rounds.push((median_us, ratio(came, 1) / clock::seconds(elapsed_ns.max(1))));
            self.lost += (events + BURST).saturating_sub(paced.len() as u64 + came);
            self.latencies.extend(paced);
        }
        Ok(())
    }
}

/// The plan with so many sinks.
fn plan(service: Service, at: &str, placed: Placed, sinks: u32) -> String {
    let (service, placed) = (service.name(), placed.name());
    let container =
        |number| format!("[containers.c{number}]\nservice = \"{service}\"\nat = \"{at}\"\nplaced = \"{placed}\"\n");
    let sink = |number| {
        format!(
            "[instances.sink-{number}]\ncomponent = \"Noting\"\nserver = \"sinks\"\ncontainer = \"c{}\"\n\
             [ports.\"sink-{number}.sample\"]\nqos = {{ MaxEventsPerConsumer = {QUEUE} }}\n",
            number % 2
        )
    };
    let ports: Vec<String> = (0..sinks).map(|number| format!("\"sink-{number}.sample\"")).collect();
    let parts = (0..2).map(container).chain((0..sinks).map(sink)).collect::<String>();
    format!(
        "[instances.sending]\ncomponent = \"Sending\"\nserver = \"source\"\ncontainer = \"c0\"\n\
         {parts}[connections]\n\"sending.sample\" = [{}]\n",
        ports.join(", ")
    )
}

impl Resources {
    fn of(processes: &[u32]) -> io::Result<Self> {
        processes.iter().try_fold(Self::default(), |sum, &pid| {
            Ok(Self {
                resident_bytes: sum.resident_bytes + system::resident_bytes(pid)?,
                threads: sum.threads + system::threads(pid)?,
                sockets: sum.sockets + system::sockets(pid)?,
            })
        })
    }
}

fn figures(contenders: Vec<Contender>, service: Service, sinks: u32) -> Result<Vec<Row>, BenchError> {
    let medians = |of: &Contender| of.rounds.iter().map(|(median, _)| *median).collect::<Vec<_>>();
    let by_server = contenders.first().map(medians).unwrap_or_default();
    let row = |of: Contender| {
        let ratio = PairedRatio::of(&medians(&of), &by_server).filter(|_| of.placed != Placed::Server);
        Ok(Row {
            service,
            sinks,
            placed: of.placed,
            latency: Percentiles::of(of.latencies),
            latency_ratio: ratio.map(|ratio| ratio.in_figures()),
            events_per_second: Spread::of(of.rounds.iter().map(|(_, rate)| *rate)).map(|rate| rate.median),
            of_servers: Resources::of(&[of.source.pid(), of.sinks.pid()])?,
            of_service: Resources::of(&[of.broker.process().pid()])?,
            lost: of.lost,
            rounds: of.rounds,
        })
    };
    contenders.into_iter().map(row).collect::<io::Result<_>>().map_err(BenchError::io("reading what a process takes"))
}

/// Judges what can be told of three sinks and more: with fewer, not all placements differ.
fn judge(rows: &[Row], service: Service, sinks: u32) -> Option<Aim> {
    let of = |row: &Row| {
        let (servers, service) = (row.of_servers, row.of_service);
        [servers.threads + service.threads, servers.sockets + service.sockets]
    };
    let found = rows.iter().map(|row| {
        let ([threads, sockets], kib) = (of(row), row.of_servers.resident_bytes >> 10);
        format!("{}: {threads} and {sockets}, and {kib} KiB of the servers", row.placed.name())
    });
    let is_more = |(one, next): (u64, u64)| one <= next;
    let grows = rows.is_sorted_by(|one, next| of(one).into_iter().zip(of(next)).all(is_more));
    let aim = format!(
        "{}, {sinks} sinks: fewer threads and sockets of all processes, the more components share (section 2.2.3: \"the savings may be \
         substantial if sharing is desired\")",
        service.name()
    );
    (sinks > 2).then(|| Aim::new(aim, found.collect::<Vec<_>>().join("; "), grows))
}

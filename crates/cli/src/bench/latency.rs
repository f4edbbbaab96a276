//! `campanile bench latency`: delivery times of a running service, with a user's own load.

use giop::url::{Address, Corbaloc, Url};
use load::campanile::Service;
use load::output::write_json;
use load::workload::{self, Carrier, Lasting, RunReport, Traffic};
use load::{BenchError, Machine, Output};
use serde::Serialize;

use super::options::LatencyOptions;

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
struct Report {
    /// Always `latency`.
    benchmark: &'static str,
    /// Machine on which suppliers and consumers ran.
    machine: Machine,
    /// The service.
    server: String,
    /// Result of the run.
    run: RunReport,
}

/// Address of a service, as far as its name shows that. The name may have any form that commands understand.
fn socket_of(server: &str) -> String {
    let of = |host: &str, port: u16| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let text = std::fs::read_to_string(server).unwrap_or_else(|_| server.to_owned());
    match text.trim().parse() {
        Ok(Url::Corbaloc(Corbaloc { addresses, .. }) | Url::Corbaname { location: Corbaloc { addresses, .. }, .. }) => {
            addresses.first().map(|address| of(&address.host, address.port))
        }
        Ok(Url::Ior(ior)) => ior.iiop().map(|profile| of(&profile.host, profile.port)),
        Err(_) if !server.contains(':') => Some(of(server, Address::DEFAULT_PORT)),
        Err(_) => None,
    }
    .unwrap_or_else(|| server.to_owned())
}

/// Runs the benchmark and writes its report to `out`.
pub(super) fn run(options: &LatencyOptions, server: &str, out: &mut Output<'_>) -> Result<(), BenchError> {
    let lasting = Lasting::of_seconds(options.duration)?;
    options.carriage.check()?;
    let mut machine = Machine::describe();
    let service = Service::find(&socket_of(server))?;
    let traffic = Traffic {
        name: "latency",
        suppliers: options.suppliers,
        payload_bytes: options.bytes,
        rate: options.rate,
        stagger_ms: 0.0,
        consumers: options.consumers,
    };
    out.progress(&format!("events flow through {}", service.address()))?;
    let run = workload::run(&Carrier::Running(&service, options.carriage), &[traffic], lasting, workload::wait_out)?;
    machine.note_stolen();
    out.end_progress()?;
    let report = Report { benchmark: "latency", machine, server: service.address().to_string(), run };
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        workload::write_table(std::slice::from_ref(&report.run), out)?;
        report.machine.write_warnings(out)?;
    }
    let lost: u64 = report.run.traffics.iter().map(|report| report.losses.lost).sum();
    match lost {
        0 => Ok(()),
        _ => Err(BenchError::NotShown { found: format!("{lost} events did not come to every consumer") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_however_it_is_named() {
        for (server, socket) in [
            (client::LOCAL_SERVICE, "127.0.0.1:2809"),
            ("h:1", "h:1"),
            ("h", "h:2809"),
            ("corbaloc:iiop:1.2@[::1]:7/X", "[::1]:7"),
            ("corbaname::h:7#X", "h:7"),
        ] {
            assert_eq!(socket_of(server), socket);
        }
    }
}

//! `campanile ping`: response times of a service.

use crate::args::PingOptions;
use crate::failure::Failure;
use crate::ls::orb_options;
use client::{InvokeError, Orb};
use serde_json::json;
use std::io::{self, Write as _};
use std::time::Instant;

/// Sends requests, and prints each answer when it arrives.
pub(crate) fn run(options: &PingOptions) -> Result<(), Failure> {
    let remote = |error: InvokeError| Failure::remote(&error, &options.server);
    let service = Orb::new(orb_options(&options.server)).resolve_service(&options.server.server).map_err(remote)?;
    let address = service.connect().map_err(remote)?;
    let mut out = io::stdout();
    let mut all = Vec::new();
    for number in 1..=options.count {
        let asked = Instant::now();
        if service.non_existent().map_err(remote)? {
            return Err(Failure::Message(format!("{address} answers, and has no service of that name")));
        }
        let took = asked.elapsed().as_secs_f64() * 1e3;
        all.push(took);
        if !options.json {
            writeln!(out, "{address}: answer {number} after {took:.3} ms")?;
        }
    }
    let (least, most) = all.iter().fold((f64::MAX, 0.0_f64), |(least, most), took| (least.min(*took), most.max(*took)));
    let mean = all.iter().sum::<f64>() / f64::from(options.count);
    if options.json {
        let report =
            json!({"address": address, "answers": options.count, "min_ms": least, "mean_ms": mean, "max_ms": most});
        writeln!(out, "{report}")?;
    } else {
        writeln!(out, "min {least:.3} ms, mean {mean:.3} ms, max {most:.3} ms")?;
    }
    Ok(())
}

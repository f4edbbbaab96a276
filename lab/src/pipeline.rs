//! `campanile-bench pipeline`: a correlator pipeline, alone and beside the monitor system.
//!
//! The workload of CARMA memorandum 22, section 4.2: sixteen suppliers that each push 13 KB twice a second, first with
//! the service to themselves, then while the monitor system's fifty suppliers use it too, on a channel of their own.

use serde_json::json;

use crate::campanile::Campanile;
use crate::report::Reported;
use crate::workload::{self, Carrier, Lasting, PLAIN_SOCKETS_ARE, Traffic};
use crate::{Options, Output};

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let lasting = Lasting::of_seconds(options.seconds.unwrap_or_default())?;
    options.carriage.check()?;
    let mut runs = Vec::new();
    let alone = vec![pipeline(options)];
    let beside = vec![pipeline(options), monitor()];
    for traffics in [alone, beside] {
        let case = if traffics.len() == 1 { "pipeline alone" } else { "pipeline beside the monitor system" };
        out.progress(&format!("{case}: Campanile"))?;
        let service = Campanile::start()?;
        runs.push(workload::run(
            &Carrier::Campanile(&service, options.carriage),
            &traffics,
            lasting,
            workload::wait_out,
        )?);
        drop(service);
        if !options.no_sockets {
            out.progress(&format!("{case}: plain sockets"))?;
            runs.push(workload::run(&Carrier::Sockets, &traffics, lasting, workload::wait_out)?);
        }
    }
    Ok((Vec::new(), json!({"plain_sockets_are": PLAIN_SOCKETS_ARE, "runs": runs})))
}

fn pipeline(options: &Options) -> Traffic {
    Traffic {
        name: "pipeline",
        suppliers: options.suppliers,
        payload_bytes: options.payload,
        rate: options.rate,
        stagger_ms: options.stagger_ms,
        consumers: options.consumers,
    }
}

/// The monitor system as the memorandum has it.
fn monitor() -> Traffic {
    Traffic { name: "monitor", suppliers: 50, payload_bytes: 34 * 1024, rate: 2.0, stagger_ms: 5.0, consumers: 1 }
}

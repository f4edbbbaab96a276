//! `campanile-bench order`: that a supplier's events stay in order and none is lost, with default settings, at full speed.
//!
//! Suppliers push numbered events back to back, each as soon as its push before has returned; consumers read as fast as
//! they can. Every consumer must get every supplier's events, each once and in the order in which they were pushed. No
//! figure here is a measurement: the rate is shown so that a reader sees that it was not a trickle.

use serde_json::json;

use crate::campanile::Campanile;
use crate::latency::ratio;
use crate::report::{Aim, Reported};
use crate::workload::{self, Carrier, Lasting, Traffic};
use crate::{Losses, Options, Output};

/// Events are due faster than any service takes them: each leaves when the push before has returned.
const RATE: f64 = 100_000.0;

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    options.carriage.check()?;
    let events = options.events;
    let traffic = Traffic {
        name: "order",
        suppliers: options.suppliers,
        payload_bytes: options.payload,
        rate: RATE,
        stagger_ms: 0.0,
        consumers: options.consumers,
    };
    let sent = events.saturating_mul(u64::from(options.suppliers));
    let wanted = sent.saturating_mul(u64::from(options.consumers));
    let service = Campanile::start()?;
    let carrier = Carrier::Campanile(&service, options.carriage);
    let result = workload::run(&carrier, std::slice::from_ref(&traffic), Lasting::events(events), |view| {
        workload::wait_for_all(view, sent, |received| {
            Ok(out.progress(&format!("{:.0} % of {wanted} deliveries", 100.0 * ratio(received, wanted)))?)
        })
    })?;
    let losses = result.traffics.first().map(|report| report.losses).unwrap_or_default();
    let complete = losses.sent == wanted && losses.received == wanted && losses.lost == 0;
    let is_shown = complete && losses.repeated == 0 && losses.out_of_order == 0;
    let aim = "every consumer gets every supplier's events, each once and in order";
    let Losses { sent, lost, repeated, out_of_order, .. } = losses;
    let found = format!("of {sent} deliveries {lost} lost, {repeated} repeated, {out_of_order} out of order");
    let report = json!({
        "events_per_supplier": events,
        "complete_and_in_order": is_shown,
        "deliveries_per_second": ratio(losses.received, 1) / result.seconds,
        "run": result,
    });
    Ok((vec![Aim::new(aim, found, is_shown)], report))
}

//! `campanile-bench tempo-rates`: the delay through a broker as the rate is raised step by step until it is not reached any more, with what
//! the broker uses of its core and of memory (figure 10).

use serde_json::json;

use super::ends::{Transport, Way};
use super::{Broker, after, pair, take_seat};
use crate::experiments::Bed;
use crate::report::Reported;
use crate::{Options, Output, clock};

/// The first rate, in messages a second, and by what each next one is larger.
const FIRST: f64 = 1_000.0;
const STEP: f64 = 1.5;
/// Rates beyond this are not tried.
const LAST: f64 = 10_000_000.0;
/// A rate is reached when this part of it arrives.
const REACHED: f64 = 0.95;

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (_, seconds) = bed.times(options, (0.0, 0.3), (0.0, 3.0));
    take_seat(bed)?;
    let mut rows = Vec::new();
    for transport in Transport::ALL {
        let broker = Broker::start(bed)?;
        let mut pair = pair(bed, Way::Broker, transport, &broker, 0)?;
        let mut rate = FIRST;
        loop {
            out.progress(&format!("{}: {rate:.0} messages/s", transport.name()))?;
            // A hundredth of a millisecond's worth is sent with a call, as any program with so many would.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 1 to 64")]
            let at_once = (rate / 20_000.0).clamp(1.0, 64.0) as usize;
            let (cpu, before, from) = (broker.service.process().cpu()?, pair.intake.received(), clock::now());
            pair.pour(rate, at_once, after(seconds))?;
            let took = clock::seconds(clock::now() - from);
            let received = crate::latency::ratio(pair.intake.received() - before, 1) / took;
            let used = clock::seconds(broker.service.process().cpu()? - cpu) / took;
            pair.settle()?;
            let recorder = pair.intake.take_latency();
            let Some(figures) = recorder.percentiles() else { break };
            rows.push(json!({
                "transport": transport.name(),
                "rate": rate,
                "received": received,
                "mean_us": super::mean_us(&recorder),
                "p50_us": figures.median,
                "p99_us": figures.p99,
                "max_us": figures.max,
                "cpu": used,
                "resident_mib": crate::latency::ratio(broker.service.process().resident_bytes()?, 1 << 20),
            }));
            if received < rate * REACHED || rate > LAST {
                break;
            }
            rate *= STEP;
        }
    }
    Ok((Vec::new(), json!({"rows": rows, "aims": []})))
}

//! Takes a snapshot of the service every [`STEP`], whether or not a client asks, so that graphs have a history.

use std::rc::Rc;
use std::time::SystemTime;

use service::{Answer, Counter, HttpCounters, Principal, Query};
use tokio::time::{MissedTickBehavior, interval};

use crate::directory::type_text;
use crate::figures::STEP;
use crate::shared::{Shared, Snapshot, read, unix_ms};
use crate::sources::Source;

/// Notes the figures of each step, until the runtime ends.
pub(crate) async fn sample(shared: Rc<Shared>, http_counters: HttpCounters) {
    let mut times = interval(STEP);
    times.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut dropped = 0;
    loop {
        times.tick().await;
        // What administration does not answer is a gap.
        let Ok(snapshot) = shared.sample().await else { continue };
        shared.figures.borrow_mut().take(&snapshot);
        let are_sources_due = shared.figures.borrow().are_sources_due();
        if are_sources_due {
            note_sources(&shared).await;
        }
        note_drops(&shared, &snapshot, &mut dropped).await;
        let figures = shared.figures.borrow();
        http_counters.set(Counter::HttpFiguresLeftOut, figures.left_out() as u64);
        http_counters.set(Counter::HttpFiguresBytes, figures.bytes() as u64);
    }
}

async fn note_sources(shared: &Shared) {
    let (Ok(suppliers), Ok(types)) = (shared.suppliers().await, shared.types().await) else { return };
    let suppliers = suppliers.iter().map(|(status, _)| (Source::Supplier(status.key), status.events));
    let types = types
        .iter()
        .filter(|known| known.events > 0)
        .map(|known| (Source::Type(type_text(&known.domain, &known.name).into()), known.events));
    shared.figures.borrow_mut().take_sources(suppliers.chain(types));
}

/// Queries the dropped events, if the counters show new ones.
async fn note_drops(shared: &Shared, snapshot: &Snapshot, dropped: &mut u64) {
    let now = read(&snapshot.counters, Counter::Dropped);
    if now == *dropped {
        return;
    }
    if let Ok(Answer::Drops { drops, .. }) = shared.ask(Principal::Service, Query::Drops).await {
        shared.drops.borrow_mut().take(unix_ms(SystemTime::now()), drops);
        *dropped = now;
    }
}

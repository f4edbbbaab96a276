//! `campanile-bench history`: a consumer that comes late to a channel that keeps its past.
//!
//! Suppliers fill the past as fast as they are answered, while one consumer takes what comes: that is the live rate. Then they go on at a
//! part of that, and another consumer begins with the first event. Shown is how fast it gets the past, that it gets every event once and
//! each supplier's in order, and that the consumer which was there all the time does not wait for it.

use client::notify::Property;
use serde_json::json;

use crate::durable::load::{Consumer, Flood};
use crate::latency::{Recorder, ratio};
use crate::overflow::{SUPPLIERS, Sleeper};
use crate::persistent::{Folder, Setting};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock};

/// How fast the past comes, of the live rate.
const RATE_MIN: f64 = 0.5;
/// What of the live rate goes on while it comes.
const GOES_ON: u64 = 4;

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    let past_min = options.events;
    let folder = Folder::new("history", options.on.as_deref())?;
    let (serving, _) = Setting::new(&folder, "")?.start()?;
    let channel = serving.service.new_channel_with(&[Property::new("HistoryEvents", past_min.saturating_mul(4))])?;
    let consumer = Consumer::connect(&channel)?;
    let mut flood = Flood::connect(&channel, SUPPLIERS, options.payload as usize)?;
    let (mut past, began) = (0, clock::now());
    while past < past_min {
        out.progress(&format!("{past} of {past_min} events"))?;
        past += flood.run(clock::SECOND, None)?.count();
    }
    let live_per_second = ratio(past, 1) / clock::seconds(clock::now() - began);
    out.progress("a consumer begins with the first of them")?;
    consumer.take_latency(&mut Recorder::default());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate far below 2^53")]
    let going_on = (live_per_second as u64 / GOES_ON).max(1);
    let mut late = Sleeper::connect(&channel, &[Property::new("StartFrom", "first")])?;
    let (mut published, began) = (past, clock::now());
    let (caught_up, going_on_per_second) = std::thread::scope(|scope| {
        let late = &mut late;
        let taking = scope.spawn(move || late.take(past).map(|()| clock::now()));
        let began = clock::now();
        while !taking.is_finished() {
            published += flood.run(clock::SECOND / 4, Some(going_on))?.count();
        }
        let went_on = ratio(published - past, 1) / clock::seconds(clock::now() - began);
        let ended = |_| BenchError::Process { name: "the late consumer".into(), reason: "its thread ended".into() };
        let taken = taking.join().map_err(ended)??;
        Ok::<_, BenchError>((taken, went_on))
    })?;
    let late_per_second = ratio(past, 1) / clock::seconds(caught_up - began);
    late.take(published)?;
    let mut latency = Recorder::default();
    consumer.take_latency(&mut latency);
    let (missed, ratio) = (serving.service.counter("lane_history_missed")?, late_per_second / live_per_second);
    let Sleeper { received, disordered, .. } = late;
    let aims = [
        Aim::new("the late consumer gets every event", format!("{received} of {published}"), received == published),
        Aim::new("each supplier's in order", format!("{disordered} out of order"), disordered == 0),
        Aim::new("every event is kept", format!("{missed} are not"), missed == 0),
        Aim::new(format!("the history: at least {RATE_MIN} × the live rate"), format!("{ratio:.2}"), ratio >= RATE_MIN),
    ];
    let report = json!({
        "past": past,
        "published": published,
        "received": received,
        "disordered": disordered,
        "missed": missed,
        "live_per_second": live_per_second,
        "going_on_per_second": going_on_per_second,
        "late_per_second": late_per_second,
        "ratio": ratio,
        "p99_us": latency.quantile_us(0.99),
        "history_bytes": serving.service.counter("history_bytes")?,
        "resident_bytes": serving.process.resident_bytes()?,
    });
    Ok((aims.into(), report))
}

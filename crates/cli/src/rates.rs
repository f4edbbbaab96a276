//! `campanile hz` and `bw`.

use crate::args::GaugeOptions;
use crate::failure::Failure;
use crate::gauge::{Gauge, Measure, Of, Style, What};
use crate::signals::Waiter;
use crate::{channels, subscribe};
use client::SimpleConsumer;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Measures until there were enough intervals or a signal asks to stop.
pub(crate) fn run(options: &GaugeOptions, what: What) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let gauge = Arc::new(Mutex::new(Gauge::default()));
    let (count, began) = (Arc::clone(&gauge), Instant::now());
    let selection = &options.selection;
    let channel = channels::number(selection.channel.as_ref(), &options.server)?;
    let settings = subscribe::consumer_options(&options.server, selection);
    let consumer = SimpleConsumer::connect(&options.server.server, channel, settings, move |received| {
        let now = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        count.lock().unwrap_or_else(PoisonError::into_inner).count(now, received.bytes().len() as u64);
        Ok(())
    })
    .map_err(|error| subscribe::refused(&error, (selection.constraint.as_deref(), channel), &options.server))?;
    eprintln!("campanile: measuring; Ctrl-C ends");
    let (interval, count, style) = (options.interval, options.count, Style::of(options.json));
    let measure = Measure { what, of: Of::Events, interval, count, style };
    let mut reachable = true;
    let look = || {
        reachable = subscribe::tell_trouble(&consumer, reachable);
        match consumer.has_ended() {
            true => Err(Failure::message(subscribe::DISCONNECTED)),
            // How many events are missing is not known.
            false => Ok(None),
        }
    };
    let events = measure.run(&waiter, &gauge, "of what is asked for", look)?;
    let farewell = consumer.close();
    match events {
        0 => Err(Failure::message("no event came")),
        _ => farewell.map_err(|error| Failure::remote(&error, &options.server)),
    }
}

//! `campanile tempo hz` and `bw`.

use super::meeting::{self, Meeting, failure, meet};
use crate::args::TempoGaugeOptions;
use crate::failure::Failure;
use crate::gauge::{Gauge, Measure, Of, Style, What};
use crate::signals::Waiter;
use client::tempo::now;
use std::sync::{Arc, Mutex, PoisonError};

/// Measures until there were enough intervals or a signal asks to stop.
pub(crate) fn run(options: &TempoGaugeOptions, what: What) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let set = |builder| meeting::with_tls(&options.tls)(meeting::on_network(options.interface)(builder));
    let Meeting { node, address, .. } = meet(options.from.as_ref(), set)?;
    let gauge = Arc::new(Mutex::new(Gauge::default()));
    let count = Arc::clone(&gauge);
    let subscriber = node
        .subscriber(&options.topic)
        .on(move |message| {
            count.lock().unwrap_or_else(PoisonError::into_inner).count(now(), message.octets.len() as u64);
        })
        .map_err(|error| failure(&error))?;
    eprintln!("campanile: measuring {} at {address}; Ctrl-C ends", options.topic);
    let (interval, count, style) = (options.interval, options.count, Style::of(options.json));
    let measure = Measure { what, of: Of::Messages, interval, count, style };
    let look = || Ok::<_, Failure>(Some(subscriber.report().lost));
    match measure.run(&waiter, &gauge, &format!("on {}", options.topic), look)? {
        0 => Err(Failure::Message(format!("no message came on {} at {address}", options.topic))),
        _ => Ok(()),
    }
}

//! `campanile replay`: publishes recorded events, or a channel's history, again.

use crate::args::{ChannelArg, ReplayOptions, Speed};
use crate::failure::Failure;
use crate::progress::{Progress, Work};
use crate::record::{Recorder, events, read_line};
use crate::signals::{Waiter, Wake};
use crate::{channels, ls, subscribe};
use client::notify::StructuredEvent;
use client::{ConsumerOptions, Received, SimpleConsumer, SimpleSupplier, SupplierOptions};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Silence of a channel after which its history is complete.
const QUIET: Duration = Duration::from_secs(2);
/// Interval in which a wait checks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Publishes the events again.
pub(crate) fn run(options: &ReplayOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let channel = channels::number(options.channel.as_ref(), &options.server)?;
    let mut total = None;
    let source: Box<dyn BufRead> = match channel_of(options) {
        Some(replayed) => match history_of((options, channel), replayed, &waiter)? {
            Some((file, events)) => {
                total = Some(events);
                Box::new(BufReader::new(file))
            }
            None => return Err(Failure::Quiet),
        },
        None if options.history.start_from().is_some() => {
            return Err(Failure::Usage("--first, --last, --since and --from are for the history of a channel".into()));
        }
        None if options.source == "-" => Box::new(io::stdin().lock()),
        None => {
            let file = File::open(&options.source).map_err(|error| {
                Failure::Message(format!(
                    "{} cannot be read: {error}; there is no channel of that name either",
                    options.source
                ))
            })?;
            Box::new(BufReader::new(file))
        }
    };
    let settings = SupplierOptions { orb: ls::orb_options(&options.server), ..SupplierOptions::default() };
    let supplier = SimpleSupplier::connect_with(&options.server.server, channel, settings)
        .map_err(|error| Failure::remote(&error, &options.server))?;
    let (mut published, started) = (0, Instant::now());
    let progress = Progress::begin(Work { doing: "replaying", unit: Some("events"), total });
    let outcome = publish((options, &progress), source, &supplier, &waiter, &mut published);
    let farewell = supplier.close();
    drop(progress);
    eprintln!("campanile: {} replayed in {:.1} s", events(published), started.elapsed().as_secs_f64());
    outcome?;
    farewell.map_err(|error| Failure::remote(&error, &options.server))
}

/// Channel of the history to be replayed: a number, or the name of a channel if there is no such file.
fn channel_of(options: &ReplayOptions) -> Option<i32> {
    let source = &options.source;
    let named: ChannelArg = source.parse().ok()?;
    let is_file = source == "-" || Path::new(source).exists();
    match named {
        ChannelArg::Number(number) => Some(number),
        ChannelArg::Name(_) if is_file => None,
        ChannelArg::Name(_) => channels::number(Some(&named), &options.server).ok().flatten(),
    }
}

fn publish(
    (options, progress): (&ReplayOptions, &Progress),
    source: Box<dyn BufRead>,
    supplier: &SimpleSupplier,
    waiter: &Waiter,
    published: &mut u64,
) -> Result<(), Failure> {
    let mut pace = Pace::new(options.speed);
    for (nth, line) in source.lines().enumerate() {
        let line = line.map_err(|error| Failure::Message(format!("{}: {error}", options.source)))?;
        if line.trim().is_empty() {
            continue;
        }
        let (mut event, came) = read_line(&line)
            .map_err(|why| Failure::Message(format!("line {} of {} {why}", nth + 1, options.source)))?;
        while let Some(wait) = pace.wait(came) {
            if waiter.wait(Some(wait.min(LOOK_EVERY))).is_some() {
                return Err(Failure::Quiet);
            }
        }
        strip(&mut event);
        supplier.publish(&event).map_err(|error| Failure::remote(&error, &options.server))?;
        *published += 1;
        progress.set(*published);
    }
    Ok(())
}

/// Removes properties that were valid at the time, and would now cause the event to be dropped.
fn strip(event: &mut StructuredEvent) {
    event.variable_header.retain(|property| !matches!(property.name.as_str(), "StartTime" | "StopTime"));
}

/// Time of the next event.
pub(crate) struct Pace {
    speed: Speed,
    /// When the first event was published, and when it had arrived.
    began: Option<(Instant, u64)>,
}

impl Pace {
    pub(crate) const fn new(speed: Speed) -> Self {
        Self { speed, began: None }
    }

    /// Time to wait; `None` if the event is due.
    pub(crate) fn wait(&mut self, came: u64) -> Option<Duration> {
        let Speed::Times(speed) = self.speed else { return None };
        let (began, first) = *self.began.get_or_insert((Instant::now(), came));
        let due = Duration::from_nanos(came.saturating_sub(first)).div_f64(speed);
        Some(due.saturating_sub(began.elapsed())).filter(|wait| !wait.is_zero())
    }
}

/// Copies a channel's present history into an anonymous file. Returns it with the number of events; `None` if a signal came.
fn history_of(
    (options, channel): (&ReplayOptions, Option<i32>),
    channel_id: i32,
    waiter: &Waiter,
) -> Result<Option<(File, u64)>, Failure> {
    if channel.unwrap_or(0) == channel_id {
        let text = format!("channel {channel_id} would be replayed into itself; --channel names another one");
        return Err(Failure::Usage(text));
    }
    let path = std::env::temp_dir().join(format!("campanile-replay-{}", std::process::id()));
    let failed = |error: io::Error| Failure::Message(format!("{} cannot be written: {error}", path.display()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    let Some(last) = last_of(options, channel_id, waiter)? else { return Ok(None) };
    let count = Arc::new(AtomicU64::new(0));
    let _progress =
        Progress::of(Work { doing: "reading the history", unit: Some("events"), total: None }, Arc::clone(&count));
    let (wake, woken) = mpsc::channel();
    let out = BufWriter::new(file.try_clone().map_err(failed)?);
    let through = Some(last);
    let recorder = Recorder { out, line: String::new(), count: Arc::clone(&count), limit: None, through, wake };
    let recorder = Arc::new(Mutex::new(recorder));
    let start = options.history.start_from().unwrap_or_else(|| "first".into());
    let consumer = {
        let recorder = Arc::clone(&recorder);
        subscribe_to(options, channel_id, start, move |received| {
            recorder.lock().unwrap_or_else(PoisonError::into_inner).handle(&received)
        })?
    };
    let (mut seen, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET {
        match woken.recv_timeout(LOOK_EVERY) {
            Ok(Wake::Output(error)) => return Err(failed(error)),
            Ok(_) => break,
            Err(_) => {}
        }
        if waiter.wait(Some(Duration::ZERO)).is_some() {
            return Ok(None);
        }
        let now = count.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    drop(consumer);
    recorder.lock().unwrap_or_else(PoisonError::into_inner).out.flush().map_err(failed)?;
    let mut file = file;
    file.rewind().map_err(failed)?;
    Ok(Some((file, count.load(Ordering::Relaxed))))
}

/// Number of the last event of a channel. `None` if a signal came.
fn last_of(options: &ReplayOptions, channel_id: i32, waiter: &Waiter) -> Result<Option<u64>, Failure> {
    let (tell, told) = mpsc::channel();
    let _consumer = subscribe_to(options, channel_id, "last:1".into(), move |received| {
        let _ = tell.send(received.number()?);
        Ok(())
    })?;
    let since = Instant::now();
    loop {
        match told.recv_timeout(LOOK_EVERY) {
            Ok(Some(number)) => return Ok(Some(number.number)),
            _ if waiter.wait(Some(Duration::ZERO)).is_some() => return Ok(None),
            _ if since.elapsed() >= QUIET => {
                return Err(Failure::Message(format!("channel {channel_id} has no history")));
            }
            _ => {}
        }
    }
}

fn subscribe_to(
    options: &ReplayOptions,
    channel_id: i32,
    start: String,
    callback: impl FnMut(Received<'_>) -> Result<(), client::ServantError> + Send + 'static,
) -> Result<SimpleConsumer, Failure> {
    let settings = ConsumerOptions {
        orb: ls::orb_options(&options.server),
        start_from: Some(start),
        best_effort: true,
        ..ConsumerOptions::default()
    };
    SimpleConsumer::connect(&options.server.server, Some(channel_id), settings, callback)
        .map_err(|error| subscribe::refused(&error, (None, Some(channel_id)), &options.server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_an_hour_is_due_in_six_minutes_at_ten_times_the_speed() {
        let mut pace = Pace { speed: Speed::Times(10.0), began: None };
        assert_eq!(pace.wait(5_000_000_000_000), None, "the first");
        let wait = pace.wait(5_000_000_000_000 + 3_600_000_000_000).unwrap();
        assert!((359..=360).contains(&wait.as_secs()), "{wait:?}");
        assert_eq!(pace.wait(4_000_000_000_000), None, "one with its clock set back");
        let mut pace = Pace { speed: Speed::Max, began: None };
        assert_eq!((pace.wait(0), pace.wait(u64::MAX)), (None, None));
    }
}

//! `campanile tempo pub`.

use super::meeting::{self, Meeting, failure, meet, plural, rate, time};
use crate::args::TempoPubOptions;
use crate::failure::Failure;
use crate::publish::{Input, Pace, next_line, read_lines};
use crate::show;
use crate::signals::{Waiter, Wake};
use client::tempo::{Error, Publisher, PublisherReport};
use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time for published messages to leave this process.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

/// Publishes messages.
pub(crate) fn run(options: &TempoPubOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let meeting = meet(options.to.as_ref(), meeting::settings(&options.meet))?;
    let mut builder = meeting.node.publisher(&options.topic).patience(options.wait);
    if let Some(rate) = options.rate {
        builder = builder.rate(rate);
    }
    if let Some(deadline) = options.deadline {
        builder = builder.deadline(deadline);
    }
    let publisher = builder.open().map_err(|error| failure(&error))?;
    let followed = Arc::new(Mutex::new(options.rate));
    if let Some(intended) = options.rate.filter(|_| options.follow) {
        let followed = Arc::clone(&followed);
        publisher.follow_lowest_rate(intended, move |rate| {
            *followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(rate);
        });
    }
    if options.report {
        publisher.on_report(|report| eprintln!("campanile: {}", report_line(report)));
    }
    if !options.goes_on() && !publisher.wait_for_subscribers(1, options.wait) {
        return Err(nobody(options, &meeting));
    }
    let began = Instant::now();
    let mut run =
        Run { options, publisher: &publisher, waiter: &waiter, published: 0, pace: Pace::new(options.rate), followed };
    let outcome = run.publish();
    let published = run.published;
    let has_left = publisher.flush(LEAVES_WITHIN);
    let report = publisher.report();
    if published != 1 || io::stderr().is_terminal() {
        eprintln!("{}", summary(published, began.elapsed(), &report));
    }
    outcome?;
    if !has_left {
        return Err(Failure::Message(format!(
            "not everything was taken within {} s: a subscriber has stopped reading",
            LEAVES_WITHIN.as_secs()
        )));
    }
    let too_large = meeting.node.counters().too_large_for_peer;
    if too_large > 0 {
        return Err(Failure::Message(format!(
            "subscribers do not take messages so large: {} not sent to one",
            plural(too_large, "message")
        )));
    }
    match report.unheard {
        0 => Ok(()),
        _ if options.goes_on() => Ok(()),
        unheard => Err(Failure::Message(format!("no end point listened to {}", plural(unheard, "message")))),
    }
}

impl TempoPubOptions {
    /// Whether it publishes until it is stopped, with or without subscribers.
    fn goes_on(&self) -> bool {
        self.count == Some(0)
    }

    fn reads_lines(&self) -> bool {
        self.message.as_deref() == Some("-")
    }

    /// Number of messages, if known.
    fn limit(&self) -> Option<u64> {
        match self.count {
            Some(0) => None,
            Some(count) => Some(count),
            None => (!self.reads_lines()).then_some(1),
        }
    }

    /// The message of that number.
    fn message(&self, number: u64, line: Option<String>) -> Vec<u8> {
        match (line, self.size, &self.message) {
            (Some(line), _, _) => line.into_bytes(),
            (None, Some(size), _) => (0_u8..=255).cycle().take(size).collect(),
            (None, None, Some(text)) => text.replace("{n}", &number.to_string()).into_bytes(),
            (None, None, None) => number.to_string().into_bytes(),
        }
    }
}

struct Run<'r> {
    options: &'r TempoPubOptions,
    publisher: &'r Publisher,
    waiter: &'r Waiter,
    published: u64,
    pace: Pace,
    /// The rate to keep, which may change.
    followed: Arc<Mutex<Option<f64>>>,
}

impl Run<'_> {
    /// Publishes until all is published, a signal comes, or there is no room.
    fn publish(&mut self) -> Result<(), Failure> {
        let options = self.options;
        let limit = options.limit();
        let mut lines = options.reads_lines().then(read_lines);
        while limit != Some(self.published) {
            if matches!(self.waiter.wait(Some(self.pace.wait())), Some(Wake::Signal)) {
                return if limit.is_some() { Err(Failure::Quiet) } else { Ok(()) };
            }
            let line = match &mut lines {
                None => None,
                Some(lines) => match next_line(lines, self.waiter) {
                    Input::Line(line) => Some(line),
                    Input::End => return Ok(()),
                    Input::Stopped => return Err(Failure::Quiet),
                    Input::Failed(error) => {
                        return Err(Failure::Message(format!("cannot read standard input: {error}")));
                    }
                },
            };
            let message = options.message(self.published + 1, line);
            match self.publisher.publish_with(options.priority, &message) {
                Ok(()) => self.published += 1,
                Err(error @ Error::Full { .. }) => {
                    let next = self.published + 1;
                    return Err(Failure::Message(format!("{error}; message {next} was not taken, nor any behind it")));
                }
                Err(error) => return Err(failure(&error)),
            }
            self.pace.events += 1;
            let followed = *self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            self.pace.keep_to(followed);
        }
        Ok(())
    }
}

/// Why there are no subscribers, as far as known.
fn nobody(options: &TempoPubOptions, meeting: &Meeting) -> Failure {
    let (topic, waited) = (&options.topic, options.wait.as_secs_f64());
    let Meeting { address, waits, .. } = meeting;
    let hint = match options.to {
        None => format!("start `campanile tempo sub {topic}` in another terminal"),
        Some(_) if *waits => format!("subscribers are to be given the address {}", address.replacen('@', "", 1)),
        Some(_) => "see whether a subscriber of just that topic runs there; --wait waits longer".to_owned(),
    };
    match meeting.node.trouble() {
        Some(why) => Failure::Message(format!("no connection to {address} (waited {waited} s): {why}")),
        None => {
            Failure::Message(format!("no end point subscribes to {topic} at {address} (waited {waited} s): {hint}"))
        }
    }
}

fn summary(published: u64, took: Duration, report: &PublisherReport) -> String {
    let seconds = took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let per_second = published as f64 / seconds;
    let mut text =
        format!("published {} in {seconds:.3} s ({}/s)", plural(published, "message"), show::rate(per_second));
    if report.unheard > 0 {
        text += &format!("; no end point listened to {}", show::count(report.unheard));
    }
    text
}

/// A report in one line.
fn report_line(report: &PublisherReport) -> String {
    let mut text = plural(report.subscribers.into(), "subscriber");
    if report.lowest_rate.is_some() {
        text += &format!(", wish for {} to {}", rate(report.lowest_rate), rate(report.highest_rate));
    }
    if let Some(deadline) = report.deadline {
        text += &format!(", deadline {}", time(deadline));
    }
    if let (Some(delay), Some(slowest)) = (report.delay, report.slowest) {
        text +=
            &format!("; delay at most {}, mean {}, highest {}", time(slowest), time(delay.mean), time(delay.highest));
    }
    text += &format!(
        "; sent {}, received {}, lost {}",
        show::count(report.sent),
        show::count(report.received),
        show::count(report.lost)
    );
    if report.waiting > 0 {
        text += &format!(", {} wait", show::count(report.waiting));
    }
    text
}

//! `campanile pub`.

use crate::args::{ChannelArg, PubOptions};
use crate::failure::Failure;
use crate::outgoing::{Maker, Outgoing};
use crate::signals::{Waiter, Wake};
use crate::{channels, ls, over_dds, show};
use campanile::Transport;
use client::notify::ClientType;
use client::{InvokeError, SimpleSupplier, SupplierOptions};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum event types listed in the summary.
const TYPES_LISTED_MAX: usize = 4;

/// Maximum lines read ahead of publishing.
const LINES_AHEAD: usize = 64;

/// Interval in which a wait for input checks for a signal.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// First and longest pause between two attempts to publish while there is no service.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Publishes events.
pub(crate) fn run(options: &PubOptions) -> Result<(), Failure> {
    if options.server.settings.transport == Transport::Dds {
        return over_dds::publish(options);
    }
    // Invalid options are refused before any connection is made.
    let maker = Maker::new(options)?;
    if !options.json {
        maker.build(1, options.lines.then_some(""))?;
    }
    let lines = match (options.json, options.lines) {
        (true, _) => Some(Lines::open(options.fields.first().map_or("-", String::as_str))?),
        (false, true) => Some(Lines::open("-")?),
        (false, false) => None,
    };
    let waiter = Waiter::install().map_err(Failure::message)?;
    let form = if options.any { ClientType::Any } else { ClientType::Structured };
    let settings = SupplierOptions { orb: ls::orb_options(&options.server), form, ..SupplierOptions::default() };
    if options.idl.is_none() {
        channels::refuse_mistaken(options.channel.as_ref(), &options.event_type, &options.server)?;
    }
    let place = channels::number_or_new(options.channel.as_ref(), &options.server)?;
    if let (true, Some(ChannelArg::Name(name))) = (place.is_new() && !options.quiet, &options.channel) {
        eprintln!("campanile: made the channel {} (number {})", show::clean(name), place.number.unwrap_or_default());
    }
    let supplier = SimpleSupplier::connect_with(&options.server.server, place.number, settings).map_err(|error| {
        place.undo();
        Failure::remote(&error, &options.server)
    })?;
    let started = Instant::now();
    let mut run = Run {
        options,
        maker: &maker,
        supplier: &supplier,
        waiter: &waiter,
        counters: Counters::default(),
        pace: Pace::new(options.rate),
    };
    let outcome = run.publish(lines);
    let counters = Counters { reconnections: supplier.reconnections(), ..run.counters };
    let took = started.elapsed();
    let farewell = supplier.close();
    if says_nothing(options) && counters.published == 1 && !options.quiet {
        eprintln!(
            "published 1 event of type {} without any field; `campanile pub Weather/Wind speed=12.5` gives it a type and fields, --help \
             has more",
            maker.event_type().join("/")
        );
    } else if !options.quiet {
        eprintln!("{}", counters.summary(took, lines_are_read(options)));
    }
    let farewell = match farewell {
        // A service that is away has lost the proxy, too.
        Err(_) if options.goes_on() => Ok(()),
        farewell => farewell.map_err(|error| Failure::remote(&error, &options.server)),
    };
    outcome.and(farewell)
}

const fn lines_are_read(options: &PubOptions) -> bool {
    options.lines || options.json
}

/// Whether the options contain nothing about the event.
fn says_nothing(options: &PubOptions) -> bool {
    let PubOptions { event_type, name, header, body, size, lines, json, count, fields, idl, .. } = options;
    let contents = (event_type, name.as_str(), header.as_slice(), body, size, fields.as_slice(), idl);
    matches!(contents, (None, "", [], None, None, [], None)) && !lines && !json && *count == 1
}

impl PubOptions {
    /// Whether it publishes until it is stopped, and waits for a service that has gone.
    const fn goes_on(&self) -> bool {
        self.count == 0 && !lines_are_read(self)
    }
}

/// Counts of events, by their fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counters {
    published: u64,
    /// Types of the published events.
    sent: Sent,
    /// Events that the service may have: it went away before it answered.
    unconfirmed: u64,
    /// Number and duration of the times without a service.
    outages: u64,
    without_service: Duration,
    /// How often the service had forgotten its proxy, usually after a restart.
    reconnections: u64,
}

impl Counters {
    /// Counts an event that the service has taken.
    fn count(&mut self, event: &Outgoing) {
        self.published += 1;
        self.sent.count(event.type_name());
    }

    /// Summary text; `confirms` adds how many were sent.
    fn summary(&self, took: Duration, confirms: bool) -> String {
        let seconds = took.as_secs_f64();
        let mut text = if self.published == 1 {
            format!("published 1 event in {:.2} ms", seconds * 1e3) + &self.sent.types()
        } else {
            #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
            let rate = self.published as f64 / seconds;
            let events = show::count(self.published);
            format!("published {events} events in {seconds:.3} s ({}/s){}", show::rate(rate), self.sent.types())
        };
        if confirms {
            let sent = self.published + self.unconfirmed;
            text += &format!("; {} sent, {} confirmed", show::count(sent), show::count(self.published));
        } else if self.unconfirmed > 0 {
            text += &format!("; {} more sent but not confirmed", show::count(self.unconfirmed));
        }
        if self.outages > 0 {
            let times = if self.outages == 1 { "once" } else { "several times" };
            text += &format!("; without the service {times}, for {:.1} s in all", self.without_service.as_secs_f64());
        }
        if self.reconnections > 0 {
            let times = if self.reconnections == 1 { "once".into() } else { format!("{} times", self.reconnections) };
            text += &format!("; connected again {times}, since the service had forgotten this supplier");
        }
        text
    }
}

/// Published events by type: the first few types, and the number of all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    types: BTreeMap<String, u64>,
    of_other_types: u64,
}

impl Sent {
    /// Counts an event of a type.
    pub(crate) fn count(&mut self, type_name: String) {
        let has_room = self.types.len() < TYPES_LISTED_MAX;
        match self.types.entry(type_name) {
            Entry::Occupied(known) => *known.into_mut() += 1,
            Entry::Vacant(new) if has_room => _ = new.insert(1),
            Entry::Vacant(_) => self.of_other_types += 1,
        }
    }

    /// Summary of their number and types.
    pub(crate) fn summary(&self, took: Duration) -> String {
        let published = self.types.values().sum::<u64>() + self.of_other_types;
        Counters { published, sent: self.clone(), ..Counters::default() }.summary(took, false)
    }

    /// Summary of their types.
    fn types(&self) -> String {
        if let (Some((only, _)), 1, 0) = (self.types.iter().next(), self.types.len(), self.of_other_types) {
            return format!("; type {}", show::clean(only));
        }
        let each: Vec<String> =
            self.types.iter().map(|(name, count)| format!("{} {}", show::count(*count), show::clean(name))).collect();
        let others = match self.of_other_types {
            0 => String::new(),
            count => format!(", {} of others", show::count(count)),
        };
        if each.is_empty() { String::new() } else { format!("; types {}{others}", each.join(", ")) }
    }
}

/// Time of the next event or message.
pub(crate) struct Pace {
    rate: Option<f64>,
    since: Instant,
    pub(crate) events: u64,
}

impl Pace {
    pub(crate) fn new(rate: Option<f64>) -> Self {
        Self { rate, since: Instant::now(), events: 0 }
    }

    /// Changes the rate, if it is different.
    pub(crate) fn keep_to(&mut self, rate: Option<f64>) {
        if rate != self.rate {
            *self = Self { events: 1, ..Self::new(rate) };
        }
    }

    pub(crate) fn wait(&self) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 events")]
        let due = self.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(self.events as f64 / rate));
        due.saturating_sub(self.since.elapsed())
    }
}

struct Run<'r> {
    options: &'r PubOptions,
    maker: &'r Maker<'r>,
    supplier: &'r SimpleSupplier,
    waiter: &'r Waiter,
    counters: Counters,
    pace: Pace,
}

impl Run<'_> {
    /// Publishes until all is published, a signal comes, the service refuses, or it is gone and not waited for.
    fn publish(&mut self, mut lines: Option<Lines>) -> Result<(), Failure> {
        let options = self.options;
        loop {
            if lines.is_none() && options.count > 0 && self.counters.published == options.count {
                return Ok(());
            }
            if self.is_stopped_within(self.pace.wait()) {
                return interrupted(options);
            }
            let number = self.counters.published + self.counters.unconfirmed + 1;
            let event = match &mut lines {
                None => self.maker.build(number, None)?,
                Some(lines) => match lines.next_event(self.maker, self.waiter, options.lines.then_some(number))? {
                    Next::Event(event) => *event,
                    Next::End => return Ok(()),
                    Next::Stopped => return interrupted(options),
                },
            };
            match self.send(&event) {
                Ok(()) => self.counters.count(&event),
                Err(error) if options.goes_on() && is_of_an_outage(&error) => {
                    eprintln!("campanile: {error}; trying again until Ctrl-C");
                    if !self.gives_up(&error) && self.outlast(&event) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    // The summary reports whether it has arrived.
                    if options.json {
                        self.gives_up(&error);
                    }
                    let at = lines.as_ref().filter(|_| options.json).map(|lines| lines.place());
                    return Err(self.broken_off(&error, at));
                }
            }
            self.pace.events += 1;
        }
    }

    /// Failure in the middle of several events, with the place at which to continue when the service is back.
    fn broken_off(&self, error: &InvokeError, at: Option<String>) -> Failure {
        let failure = Failure::remote(error, &self.options.server);
        let is_one = self.options.count == 1 && !lines_are_read(self.options);
        match failure {
            Failure::Message(said) if at.is_some() => Failure::Message(format!("{}: {said}", at.unwrap_or_default())),
            Failure::Message(said) if error.is_connection_failure() && !is_one => {
                let next = self.counters.published + 1;
                let fate = if error.was_not_carried_out() { "was not taken" } else { "may have been taken, or not" };
                Failure::Message(format!("{said}. Number {next} {fate}, and none behind it was sent"))
            }
            failure => failure,
        }
    }

    fn send(&self, event: &Outgoing) -> Result<(), InvokeError> {
        match event {
            Outgoing::Structured(event) => self.supplier.publish(event),
            Outgoing::Any(event) => self.supplier.publish_any(event),
        }
    }

    /// Whether publishing ends. An event of unknown fate is counted as unconfirmed.
    fn gives_up(&mut self, error: &InvokeError) -> bool {
        let is_unknown = !error.was_not_carried_out();
        self.counters.unconfirmed += u64::from(is_unknown);
        is_unknown
    }

    /// Tries again until there is a service, with an event that it certainly does not have, so that none is published twice. True if a
    /// signal came first.
    fn outlast(&mut self, event: &Outgoing) -> bool {
        let began = Instant::now();
        self.counters.outages += 1;
        let mut pause = RETRY_FIRST;
        let stopped = loop {
            if self.is_stopped_within(pause) {
                break true;
            }
            pause = (pause * 2).min(RETRY_MAX);
            match self.send(event) {
                Ok(()) => {
                    self.counters.count(event);
                    break false;
                }
                Err(error) if self.gives_up(&error) => break false,
                Err(_) => {}
            }
        };
        self.counters.without_service += began.elapsed();
        if !stopped {
            eprintln!("campanile: the service is back after {:.1} s", began.elapsed().as_secs_f64());
        }
        // Events due meanwhile are not sent in a burst.
        self.pace = Pace::new(self.options.rate);
        stopped
    }

    /// Waits. Returns whether a signal came.
    fn is_stopped_within(&self, time: Duration) -> bool {
        matches!(self.waiter.wait(Some(time)), Some(Wake::Signal))
    }
}

/// Whether the service may be back later: it is away, or back but without its channel yet.
fn is_of_an_outage(error: &InvokeError) -> bool {
    error.is_connection_failure() || matches!(error, InvokeError::NoChannel { .. })
}

/// Result after a signal: a failure if a number of events was given, otherwise the normal end.
fn interrupted(options: &PubOptions) -> Result<(), Failure> {
    if lines_are_read(options) || options.count > 0 { Err(Failure::Quiet) } else { Ok(()) }
}

/// Next item of the lines.
pub(crate) enum Next {
    Event(Box<Outgoing>),
    End,
    Stopped,
}

/// Lines of a file or of standard input, each an event.
pub(crate) struct Lines {
    lines: Receiver<io::Result<String>>,
    /// Name in messages.
    name: String,
    /// Number of the last line read, from 1.
    number: u64,
}

impl Lines {
    pub(crate) fn open(path: &str) -> Result<Self, Failure> {
        if path == "-" {
            return Ok(Self { lines: read_lines(), name: "standard input".to_owned(), number: 0 });
        }
        let file = File::open(path).map_err(|error| Failure::Usage(format!("cannot read {path}: {error}")))?;
        Ok(Self { lines: lines_of(move || BufReader::new(file)), name: path.to_owned(), number: 0 })
    }

    /// The event of the next line: of JSON, or of text with a number.
    pub(crate) fn next_event(
        &mut self,
        maker: &Maker<'_>,
        waiter: &Waiter,
        of_text: Option<u64>,
    ) -> Result<Next, Failure> {
        loop {
            let line = match next_line(&self.lines, waiter) {
                Input::Line(line) => line,
                Input::End => return Ok(Next::End),
                Input::Stopped => return Ok(Next::Stopped),
                Input::Failed(error) => return Err(Failure::Message(format!("cannot read {}: {error}", self.name))),
            };
            self.number += 1;
            let event = match of_text {
                Some(number) => maker.build(number, Some(&line))?,
                None if line.trim().is_empty() => continue,
                None => {
                    maker.of_json(&line).map_err(|reason| Failure::Message(format!("{}: {reason}", self.place())))?
                }
            };
            return Ok(Next::Event(Box::new(event)));
        }
    }

    pub(crate) fn place(&self) -> String {
        format!("{}, line {}", self.name, self.number)
    }
}

/// Next item of standard input.
pub(crate) enum Input {
    Line(String),
    End,
    Stopped,
    Failed(io::Error),
}

/// Reads standard input on a thread of its own, so that a signal is noticed while it is idle.
pub(crate) fn read_lines() -> Receiver<io::Result<String>> {
    lines_of(|| io::stdin().lock())
}

/// Reads another input, as [`read_lines`] does.
fn lines_of<R: BufRead>(open: impl FnOnce() -> R + Send + 'static) -> Receiver<io::Result<String>> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    thread::spawn(move || {
        for line in open().lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The next line, or why there is none.
pub(crate) fn next_line(lines: &Receiver<io::Result<String>>, waiter: &Waiter) -> Input {
    loop {
        match lines.recv_timeout(SIGNAL_CHECK) {
            Ok(Ok(line)) => return Input::Line(line),
            Ok(Err(error)) => return Input::Failed(error),
            Err(RecvTimeoutError::Disconnected) => return Input::End,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(Wake::Signal) = waiter.wait(Some(Duration::ZERO)) {
                    return Input::Stopped;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_tells_what_is_not_known_to_have_arrived() {
        let took = Duration::from_secs(2);
        let all = Counters { published: 10, ..Counters::default() };
        assert_eq!(all.summary(took, false), "published 10 events in 2.000 s (5.00/s)");
        let types = BTreeMap::from([("A/B".to_owned(), 7), ("C/D".to_owned(), 2)]);
        let typed = Counters { sent: Sent { types, of_other_types: 1 }, unconfirmed: 1, ..all.clone() };
        assert_eq!(
            typed.summary(took, true),
            "published 10 events in 2.000 s (5.00/s); types 7 A/B, 2 C/D, 1 of others; 11 sent, 10 confirmed"
        );
        let without_service = Duration::from_millis(1500);
        let some = Counters { unconfirmed: 1, outages: 1, without_service, reconnections: 1, ..all };
        assert_eq!(
            some.summary(took, false),
            "published 10 events in 2.000 s (5.00/s); 1 more sent but not confirmed; without the service once, for 1.5 s in all; \
             connected again once, since the service had forgotten this supplier"
        );
    }
}

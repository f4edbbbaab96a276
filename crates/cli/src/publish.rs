//! `campanile pub`.

use crate::args::PubOptions;
use crate::failure::Failure;
use crate::signals::{Waiter, Wake};
use crate::{fields, ls, show};
use client::notify::{ClientType, Property, StructuredEvent};
use client::{InvokeError, SimpleSupplier, SupplierOptions};
use giop::value::AnyValue;
use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines read ahead of the service.
const LINES_AHEAD: usize = 64;

/// How often a wait for input looks at whether a signal came.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Between two attempts to publish while there is no service: at first, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Publishes events.
pub(crate) fn run(options: &PubOptions) -> Result<(), Failure> {
    // What makes no sense is told before anybody is called.
    build(options, 1, None)?;
    let waiter = Waiter::install().map_err(Failure::message)?;
    let form = if options.any { ClientType::Any } else { ClientType::Structured };
    let settings = SupplierOptions { orb: ls::orb_options(&options.server), form, ..SupplierOptions::default() };
    let supplier = SimpleSupplier::connect_with(&options.server.server, options.channel, settings)
        .map_err(|error| Failure::remote(&error, &options.server))?;
    let started = Instant::now();
    let mut run =
        Run { options, supplier: &supplier, waiter: &waiter, tally: Tally::default(), pace: Pace::new(options.rate) };
    let outcome = run.publish();
    let tally = Tally { reconnections: supplier.reconnections(), ..run.tally };
    let took = started.elapsed();
    let farewell = supplier.close();
    if says_nothing(options) && tally.published == 1 {
        eprintln!(
            "published 1 event of type {} without any field; `campanile pub --type Weather/Wind speed=12.5` gives it a type \
             and fields, --help has more",
            type_of(options)
        );
    } else if tally.published != 1 || tally.unconfirmed + tally.reconnections > 0 || io::stderr().is_terminal() {
        eprintln!("{}", tally.summary(took));
    }
    let farewell = match farewell {
        // A service that is away has lost the proxy, too.
        Err(_) if options.goes_on() => Ok(()),
        farewell => farewell.map_err(|error| Failure::remote(&error, &options.server)),
    };
    outcome.and(farewell)
}

/// Whether nothing was said of the event at all.
fn says_nothing(options: &PubOptions) -> bool {
    let PubOptions { event_type, name, header, body, size, lines, count, fields, .. } = options;
    let contents = (event_type, name.as_str(), header.as_slice(), body, size, fields.as_slice());
    matches!(contents, (None, "", [], None, None, [])) && !lines && *count == 1
}

fn type_of(options: &PubOptions) -> String {
    options.event_type.as_ref().map_or_else(|| DEFAULT_TYPE.join("/"), |t| format!("{}/{}", t.domain, t.name))
}

/// The type of events of which none is given.
const DEFAULT_TYPE: [&str; 2] = ["Campanile", "Test"];

impl PubOptions {
    /// Whether it publishes until it is stopped, and waits for the service to come back if it goes.
    const fn goes_on(&self) -> bool {
        self.count == 0 && !self.lines
    }
}

/// What became of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    published: u64,
    /// Those that the service may have, or not: it went away before it answered.
    unconfirmed: u64,
    /// How often and for how long there was no service.
    outages: u64,
    without_service: Duration,
    /// How often the service had forgotten its proxy, mostly because it was restarted.
    reconnections: u64,
}

impl Tally {
    fn summary(&self, took: Duration) -> String {
        let seconds = took.as_secs_f64();
        let mut text = if self.published == 1 {
            format!("published 1 event in {:.2} ms", seconds * 1e3)
        } else {
            #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
            let rate = self.published as f64 / seconds;
            format!("published {} events in {seconds:.3} s ({}/s)", show::count(self.published), show::rate(rate))
        };
        if self.unconfirmed > 0 {
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

/// When the next event or message is due.
pub(crate) struct Pace {
    rate: Option<f64>,
    since: Instant,
    pub(crate) events: u64,
}

impl Pace {
    pub(crate) fn new(rate: Option<f64>) -> Self {
        Self { rate, since: Instant::now(), events: 0 }
    }

    /// Goes on at another rate, if it is one.
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
    supplier: &'r SimpleSupplier,
    waiter: &'r Waiter,
    tally: Tally,
    pace: Pace,
}

impl Run<'_> {
    /// Publishes until all is published, a signal comes, the service refuses, or it is gone and not waited for.
    fn publish(&mut self) -> Result<(), Failure> {
        let options = self.options;
        let mut lines = options.lines.then(read_lines);
        loop {
            if !options.lines && options.count > 0 && self.tally.published == options.count {
                return Ok(());
            }
            if self.is_stopped_within(self.pace.wait()) {
                return interrupted(options);
            }
            let line = match &mut lines {
                None => None,
                Some(lines) => match next_line(lines, self.waiter) {
                    Input::Line(line) => Some(line),
                    Input::End => return Ok(()),
                    Input::Stopped => return interrupted(options),
                    Input::Failed(error) => {
                        return Err(Failure::Message(format!("cannot read standard input: {error}")));
                    }
                },
            };
            let event = build(options, self.tally.published + self.tally.unconfirmed + 1, line.as_deref())?;
            match self.send(&event) {
                Ok(()) => self.tally.published += 1,
                Err(error) if options.goes_on() && is_of_an_outage(&error) => {
                    eprintln!("campanile: {error}; trying again until Ctrl-C");
                    if !self.gives_up(&error) && self.outlast(&event) {
                        return Ok(());
                    }
                }
                Err(error) => return Err(self.broken_off(&error)),
            }
            self.pace.events += 1;
        }
    }

    /// Where to go on when the service is back, of several events.
    fn broken_off(&self, error: &InvokeError) -> Failure {
        let failure = Failure::remote(error, &self.options.server);
        let is_one = self.options.count == 1 && !self.options.lines;
        match failure {
            Failure::Message(said) if error.is_connection_failure() && !is_one => {
                let next = self.tally.published + 1;
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

    /// Counts an event whose fate is unknown, and lets it be.
    fn gives_up(&mut self, error: &InvokeError) -> bool {
        let is_unknown = !error.was_not_carried_out();
        self.tally.unconfirmed += u64::from(is_unknown);
        is_unknown
    }

    /// Tries again until there is a service, with an event that it certainly does not have: none is published twice. True if a
    /// signal came first.
    fn outlast(&mut self, event: &Outgoing) -> bool {
        let began = Instant::now();
        self.tally.outages += 1;
        let mut pause = RETRY_FIRST;
        let stopped = loop {
            if self.is_stopped_within(pause) {
                break true;
            }
            pause = (pause * 2).min(RETRY_MAX);
            match self.send(event) {
                Ok(()) => {
                    self.tally.published += 1;
                    break false;
                }
                Err(error) if self.gives_up(&error) => break false,
                Err(_) => {}
            }
        };
        self.tally.without_service += began.elapsed();
        if !stopped {
            eprintln!("campanile: the service is back after {:.1} s", began.elapsed().as_secs_f64());
        }
        // What was due meanwhile does not come in a burst.
        self.pace = Pace::new(self.options.rate);
        stopped
    }

    /// Waits, and tells whether a signal came.
    fn is_stopped_within(&self, time: Duration) -> bool {
        matches!(self.waiter.wait(Some(time)), Some(Wake::Signal))
    }
}

/// Whether the service may be back later: it is away, or back and has not got its channel yet.
fn is_of_an_outage(error: &InvokeError) -> bool {
    error.is_connection_failure() || matches!(error, InvokeError::NoChannel { .. })
}

/// Stopped before the count was reached is a failure; stopped where there is no count is how it ends.
fn interrupted(options: &PubOptions) -> Result<(), Failure> {
    if options.lines || options.count > 0 { Err(Failure::Quiet) } else { Ok(()) }
}

enum Outgoing {
    Structured(StructuredEvent),
    Any(AnyValue),
}

/// Makes the event of that number.
fn build(options: &PubOptions, number: u64, line: Option<&str>) -> Result<Outgoing, Failure> {
    let number = Number(number.to_string());
    let body = match (line, &options.body, options.size) {
        (Some(line), _, _) => Some(AnyValue::from(line)),
        (None, Some(body), _) => Some(fields::inferred(&number.fill(body)).map_err(Failure::Usage)?),
        (None, None, Some(size)) => {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            Some(fields::octets((0_u8..=255).cycle().take(size).collect()))
        }
        (None, None, None) => None,
    };
    if options.any {
        return any(options, body, &number).map(Outgoing::Any).map_err(Failure::Usage);
    }
    let [domain, name] =
        options.event_type.as_ref().map_or(DEFAULT_TYPE, |event_type| [&*event_type.domain, &*event_type.name]);
    let mut event = StructuredEvent::new(domain, name, &number.fill(&options.name));
    event.variable_header = number.properties(&options.header).map_err(Failure::Usage)?;
    event.filterable_data = number.properties(&options.fields).map_err(Failure::Usage)?;
    event.remainder = body.unwrap_or_default();
    Ok(Outgoing::Structured(event))
}

/// The number of an event, as text.
struct Number(String);

impl Number {
    /// The text with the number in its places.
    fn fill(&self, text: &str) -> String {
        text.replace("{n}", &self.0)
    }

    fn properties(&self, texts: &[String]) -> Result<Vec<Property>, String> {
        texts.iter().map(|text| fields::field(&self.fill(text))).collect()
    }
}

/// A single value stands for itself; fields become a struct.
fn any(options: &PubOptions, body: Option<AnyValue>, number: &Number) -> Result<AnyValue, String> {
    match (body, options.fields.as_slice()) {
        (Some(body), []) => Ok(body),
        (Some(_), _) => Err("with --any, give either fields or one of --lines and --size".to_owned()),
        (None, []) => Err("--any needs a VALUE or KEY=VALUE fields".to_owned()),
        (None, [value]) if !value.contains('=') || value.starts_with(['{', '[', '"']) => {
            fields::inferred(&number.fill(value))
        }
        (None, members) => {
            let members = number.properties(members)?;
            Ok(fields::structure(members.into_iter().map(|property| (property.name, property.value)).collect()))
        }
    }
}

/// What standard input has.
pub(crate) enum Input {
    Line(String),
    End,
    Stopped,
    Failed(io::Error),
}

/// Reads standard input on a thread of its own, so that a signal is noticed while nothing comes.
pub(crate) fn read_lines() -> Receiver<io::Result<String>> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
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
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn outgoing(line: &str) -> Result<Outgoing, Failure> {
        let Command::Pub(options) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!() };
        build(&options, 7, options.lines.then_some("a line"))
    }

    fn structured(line: &str) -> StructuredEvent {
        match outgoing(line).unwrap() {
            Outgoing::Structured(event) => event,
            Outgoing::Any(_) => panic!(),
        }
    }

    fn any_text(line: &str) -> String {
        match outgoing(line).unwrap() {
            Outgoing::Any(event) => format!("{} {event}", event.type_code.root()),
            Outgoing::Structured(_) => panic!(),
        }
    }

    #[test]
    fn event_has_type_name_header_fields_and_body() {
        let event = structured("campanile pub -t A/B --name n{n} --header Priority:short=3 --body true x=1 y={n}");
        assert_eq!((event.domain.as_str(), event.type_name.as_str(), event.event_name.as_str()), ("A", "B", "n7"));
        assert_eq!(event.variable_header, [Property::new("Priority", 3_i16)]);
        assert_eq!(event.filterable_data, [Property::new("x", 1), Property::new("y", 7)]);
        assert_eq!(event.remainder, AnyValue::from(true));
    }

    #[test]
    fn options_may_stand_behind_fields() {
        let event = structured("campanile pub x=1 --type A/B y=-2 --name n");
        assert_eq!((event.domain.as_str(), event.type_name.as_str(), event.event_name.as_str()), ("A", "B", "n"));
        assert_eq!(event.filterable_data, [Property::new("x", 1), Property::new("y", -2)]);
    }

    #[test]
    fn summary_tells_what_is_not_known_to_have_arrived() {
        let took = Duration::from_secs(2);
        let all = Tally { published: 10, ..Tally::default() };
        assert_eq!(all.summary(took), "published 10 events in 2.000 s (5.00/s)");
        let without_service = Duration::from_millis(1500);
        let some = Tally { unconfirmed: 1, outages: 1, without_service, reconnections: 1, ..all };
        assert_eq!(
            some.summary(took),
            "published 10 events in 2.000 s (5.00/s); 1 more sent but not confirmed; without the service once, for 1.5 s in all; \
             connected again once, since the service had forgotten this supplier"
        );
    }

    #[test]
    fn line_of_input_is_the_body() {
        assert_eq!(structured("campanile pub --lines").remainder, AnyValue::from("a line"));
        assert_eq!(any_text("campanile pub --any --lines"), "string \"a line\"");
    }

    #[test]
    fn any_is_a_value_or_a_struct_of_fields() {
        assert_eq!(any_text("campanile pub --any 11.5"), "double 11.5");
        assert_eq!(any_text("campanile pub --any [1,2]"), "sequence<long> [1, 2]");
        assert_eq!(any_text("campanile pub --any x=1 y=z"), "Object {x: 1, y: \"z\"}");
        assert_eq!(any_text("campanile pub --any --size 2"), "sequence<octet> 0x0001");
    }

    #[test]
    fn what_makes_no_sense_is_wrong_usage() {
        for line in ["pub nonsense", "pub --any", "pub --any a b", "pub --header x", "pub --body [1"] {
            assert!(matches!(outgoing(&format!("campanile {line}")), Err(Failure::Usage(_))), "{line}");
        }
    }
}

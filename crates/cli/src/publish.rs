//! `campanile pub`.

use crate::args::PubOptions;
use crate::failure::Failure;
use crate::signals::{Waiter, Wake};
use crate::{fields, ls, show};
use client::notify::{ClientType, Property, StructuredEvent};
use client::{SimpleSupplier, SupplierOptions};
use giop::value::AnyValue;
use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines read ahead of the service.
const LINES_AHEAD: usize = 64;

/// How often a wait for input looks at whether a signal came.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

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
    let (published, outcome) = publish(options, &supplier, &waiter, started);
    let took = started.elapsed();
    let farewell = supplier.close().map_err(|error| Failure::remote(&error, &options.server));
    if published != 1 || io::stderr().is_terminal() {
        summary(published, took);
    }
    outcome.and(farewell)
}

/// Publishes until all is published, a signal comes or the service refuses; gives how many were published.
fn publish(
    options: &PubOptions,
    supplier: &SimpleSupplier,
    waiter: &Waiter,
    started: Instant,
) -> (u64, Result<(), Failure>) {
    let mut lines = options.lines.then(read_lines);
    let mut published = 0;
    loop {
        if !options.lines && options.count > 0 && published == options.count {
            return (published, Ok(()));
        }
        if asked_to_stop(options, waiter, started, published) {
            return (published, interrupted(options));
        }
        let line = match &mut lines {
            None => None,
            Some(lines) => match next_line(lines, waiter) {
                Input::Line(line) => Some(line),
                Input::End => return (published, Ok(())),
                Input::Stopped => return (published, interrupted(options)),
                Input::Failed(error) => {
                    return (published, Err(Failure::Message(format!("cannot read standard input: {error}"))));
                }
            },
        };
        let sent = build(options, published + 1, line.as_deref()).and_then(|event| {
            let sent = match &event {
                Outgoing::Structured(event) => supplier.publish(event),
                Outgoing::Any(event) => supplier.publish_any(event),
            };
            sent.map_err(|error| Failure::remote(&error, &options.server))
        });
        if let Err(failure) = sent {
            return (published, Err(failure));
        }
        published += 1;
    }
}

/// Waits for the next event's turn, and tells whether a signal came before it.
fn asked_to_stop(options: &PubOptions, waiter: &Waiter, started: Instant, published: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 events")]
    let due = options.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(published as f64 / rate));
    matches!(waiter.wait(Some(due.saturating_sub(started.elapsed()))), Some(Wake::Signal))
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
    let event_type = &options.event_type;
    let mut event = StructuredEvent::new(&event_type.domain, &event_type.name, &number.fill(&options.name));
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

enum Input {
    Line(String),
    End,
    Stopped,
    Failed(io::Error),
}

/// Reads standard input on a thread of its own, so that a signal is noticed while nothing comes.
fn read_lines() -> Receiver<io::Result<String>> {
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

fn next_line(lines: &Receiver<io::Result<String>>, waiter: &Waiter) -> Input {
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

fn summary(published: u64, took: Duration) {
    let seconds = took.as_secs_f64();
    if published == 1 {
        eprintln!("published 1 event in {:.2} ms", seconds * 1e3);
        return;
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let rate = published as f64 / seconds;
    eprintln!("published {} events in {seconds:.3} s ({}/s)", show::count(published), show::rate(rate));
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

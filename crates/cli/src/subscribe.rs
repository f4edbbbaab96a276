//! `campanile sub`.

use crate::args::{Selection, ServerOptions, SubOptions};
use crate::failure::Failure;
use crate::select::{self, Field};
use crate::signals::{Waiter, Wake};
use crate::{channels, json, ls, moment, over_dds, show};
use campanile::Transport;
use client::notify::{CallbackConsumer, ClientType, FilterRefusal, QosErrorCode, filter_refusal, property_errors};
use client::{
    ConsumerOptions, EventNumber, Gap, InvokeError, OrbOptions, Received, ReceivedBody, ServantError, SimpleConsumer,
};
use giop::value::Value;
use std::io::{self, Stdout, Write};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Interval in which loss, renewal and end of the subscription are checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Prints events until there were enough, time is up or a signal asks to stop.
pub(crate) fn run(options: &SubOptions) -> Result<(), Failure> {
    if options.server.settings.transport == Transport::Dds {
        return over_dds::subscribe(options);
    }
    let waiter = Waiter::install().map_err(Failure::message)?;
    let counters = Arc::new(Mutex::new(Counters::default()));
    let mut printer = Printer {
        format: Format::of(options),
        field: options.field.clone(),
        limit: options.until.count,
        out: io::stdout(),
        text: String::new(),
        counters: counters.clone(),
        wake: waiter.sender(),
        requested: options.selection.history.from,
    };
    let settings = ConsumerOptions {
        orb: OrbOptions {
            listen: options.listen.clone(),
            advertise: options.advertise.clone(),
            ..ls::orb_options(&options.server)
        },
        form: if options.any { ClientType::Any } else { ClientType::Structured },
        ..consumer_options(&options.server, &options.selection)
    };
    let named = options.selection.channel.as_ref();
    channels::refuse_mistaken(named, &options.selection.types, &options.server)?;
    let place = match options.create {
        true => channels::number_or_new(named, &options.server)?,
        false => channels::number(named, &options.server)?.into(),
    };
    let channel = place.number;
    let consumer = SimpleConsumer::connect(&options.server.server, channel, settings, move |r| printer.handle(&r));
    let consumer = consumer.map_err(|error| {
        place.undo();
        refused(&error, (options.selection.constraint.as_deref(), channel), &options.server)
    })?;
    eprintln!("campanile: subscribed; Ctrl-C ends");
    let started = Instant::now();
    let ended = wait(options, &waiter, &consumer, started)?;
    tell_gaps(&consumer);
    // A failure to close matters only to a command that was stopped: the service may have been away.
    let farewell = consumer.close();
    let counters = counters.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if ended != Ended::Enough || options.quiet {
        eprintln!("{}", counters.summary(started.elapsed()));
    }
    if ended == Ended::Stopped
        && let Err(error) = &farewell
    {
        return Err(Failure::Message(format!("{error}; events may be missing since the service went away")));
    }
    if ended == Ended::Disconnected {
        return Err(Failure::message(DISCONNECTED));
    }
    match options.until.count {
        Some(count) if counters.events < count => Err(Failure::Quiet),
        _ => Ok(()),
    }
}

/// Options to receive the selected events; the service forgets the consumer when its connection ends.
pub(crate) fn consumer_options(server: &ServerOptions, selection: &Selection) -> ConsumerOptions {
    ConsumerOptions {
        orb: ls::orb_options(server),
        types: selection.types.iter().map(Into::into).collect(),
        constraint: selection.constraint.clone(),
        start_from: selection.history.start_from(),
        // A consumer that an operator disconnected does not come back at once.
        ends_when_disconnected: true,
        best_effort: true,
        ..ConsumerOptions::default()
    }
}

/// Message when the service has ended a subscription.
pub(crate) const DISCONNECTED: &str = "the service has disconnected this consumer: an operator did, its channel was destroyed, or it took \
                                       nothing for too long; the service's log says which";

/// Why a subscription failed: with the error in a refused constraint, or with the setting that would store a missing history.
pub(crate) fn refused(
    error: &InvokeError,
    (constraint, channel): (Option<&str>, Option<i32>),
    server: &ServerOptions,
) -> Failure {
    if let Some(wrong) =
        property_errors(error).and_then(|errors| errors.into_iter().find(|error| error.name == "StartFrom"))
    {
        let channel = channel.unwrap_or(0);
        return Failure::Message(match wrong.code {
            QosErrorCode::UnavailableValue => format!(
                "channel {channel} stores no history; `campanile channel set {channel} HistoryEvents=100000` has it stored from then \
                 on"
            ),
            QosErrorCode::BadProperty | QosErrorCode::UnsupportedProperty => {
                "this service stores no history of channels".to_owned()
            }
            _ => error.to_string(),
        });
    }
    // There are services that answer a constraint they cannot read with UNKNOWN.
    let of_constraint = match error {
        InvokeError::System { operation, .. } => operation == "add_constraints",
        _ => matches!(filter_refusal(error), Some(FilterRefusal::InvalidConstraint(_))),
    };
    if of_constraint && let Some(text) = constraint {
        return Failure::Message(match filter::Constraint::parse(text, &filter::Limits::default()) {
            Err(reason) => format!("--where: {}", crate::constraint::explain_error(&reason)),
            Ok(_) => format!("--where: {error}"),
        });
    }
    Failure::remote(error, server)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The requested number of events has arrived.
    Enough,
    /// A signal came, or time is up.
    Stopped,
    /// The service has disconnected the consumer.
    Disconnected,
}

/// Waits for the end, and reports losses of the subscription meanwhile.
fn wait(options: &SubOptions, waiter: &Waiter, consumer: &SimpleConsumer, started: Instant) -> Result<Ended, Failure> {
    let mut reachable = true;
    loop {
        let left = options.until.wait.map(|wait| wait.saturating_sub(started.elapsed()));
        // If the callback wants no more, it has reported the reason before.
        let is_over = consumer.has_ended();
        let pause = if is_over { Duration::ZERO } else { left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)) };
        match waiter.wait(Some(pause)) {
            Some(Wake::Signal | Wake::Request | Wake::HangUp) => return Ok(Ended::Stopped),
            Some(Wake::Done) => return Ok(Ended::Enough),
            Some(Wake::Output(error)) => return Err(error.into()),
            None if options.until.wait.is_some_and(|wait| started.elapsed() >= wait) => return Ok(Ended::Stopped),
            None if is_over => return Ok(Ended::Disconnected),
            None => {}
        }
        reachable = tell_trouble(consumer, reachable);
    }
}

/// Prints changes of the subscription since the last check; `was_reachable` is the state then, and the result is the state now.
pub(crate) fn tell_trouble(consumer: &SimpleConsumer, was_reachable: bool) -> bool {
    let reachable = tell_gaps(consumer) || was_reachable;
    match consumer.trouble() {
        Some(trouble) if reachable => {
            eprintln!("campanile: {trouble}; trying again");
            false
        }
        None if !reachable => {
            eprintln!("campanile: the service answers again, and still has this subscription");
            true
        }
        _ => reachable,
    }
}

/// Prints the gaps since the last check. Returns whether there were any.
fn tell_gaps(consumer: &SimpleConsumer) -> bool {
    let gaps = std::iter::from_fn(|| consumer.next_gap());
    gaps.inspect(|gap| eprintln!("campanile: {}", missed(gap))).count() > 0
}

/// Meaning of a gap for the reader of the events.
pub(crate) fn missed(gap: &Gap) -> String {
    format!(
        "the service had forgotten this subscription; subscribed again. Events between {} and {} are missing, their number \
         is unknown",
        moment::time_of_day(gap.since),
        moment::time_of_day(gap.until)
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    People,
    Json,
    Nothing,
}

impl Format {
    fn of(options: &SubOptions) -> Self {
        match (options.quiet, options.json) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Json,
            (false, false) => Self::People,
        }
    }
}

/// Counts of received events.
#[derive(Clone, Debug, Default)]
struct Counters {
    events: u64,
    bytes: u64,
    /// Arrival of the first and of the last event.
    span: Option<(SystemTime, SystemTime)>,
}

impl Counters {
    fn count(&mut self, bytes: usize, now: SystemTime) {
        self.events += 1;
        self.bytes += bytes as u64;
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
    }

    fn summary(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let Some((first, last)) = self.span else { return format!("no events in {seconds:.1} s") };
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let rate = self.events as f64 / seconds;
        let events = if self.events == 1 { "event" } else { "events" };
        format!(
            "{} {events}, {} in {seconds:.1} s ({}/s), first at {}, last at {}",
            show::count(self.events),
            show::bytes(self.bytes),
            show::rate(rate),
            moment::time_of_day(first),
            moment::time_of_day(last)
        )
    }
}

/// Prints each event when it arrives. The service waits for it: a slow reader of the output delays the delivery to this consumer only.
struct Printer<W = Stdout> {
    format: Format,
    /// Field to print instead of the whole event.
    field: Option<filter::Path>,
    limit: Option<u64>,
    out: W,
    text: String,
    counters: Arc<Mutex<Counters>>,
    wake: Sender<Wake>,
    /// Number of the requested first event, until an event has arrived.
    requested: Option<u64>,
}

impl<W: Write> Printer<W> {
    fn handle(&mut self, received: &Received<'_>) -> Result<(), ServantError> {
        let now = SystemTime::now();
        if let Some(requested) = self.requested.take() {
            tell_missing(requested, received);
        }
        let field = match &self.field {
            // An event without the field is as if it had not come.
            Some(path) => match select::field(received, path) {
                Some(field) => Some(field),
                None => return Ok(()),
            },
            None => None,
        };
        let events = {
            let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
            if self.limit.is_some_and(|limit| counters.events >= limit) {
                return Err(CallbackConsumer::disconnected());
            }
            counters.count(received.bytes().len(), now);
            counters.events
        };
        self.text.clear();
        match (self.format, field) {
            (Format::Nothing, _) => {}
            (format, Some(field)) => print_field(&mut self.text, format, &field),
            (Format::People, None) => people(&mut self.text, now, received),
            (Format::Json, None) => line(&mut self.text, now, received),
        }
        if let Err(error) = self.out.write_all(self.text.as_bytes()).and_then(|()| self.out.flush()) {
            // The receiver may be gone if the command is ending.
            let _ = self.wake.send(Wake::Output(error));
            return Err(CallbackConsumer::disconnected());
        }
        if self.limit == Some(events) {
            let _ = self.wake.send(Wake::Done);
        }
        Ok(())
    }
}

/// Prints which of the requested events are not stored any more.
fn tell_missing(requested: u64, received: &Received<'_>) {
    if let Ok(Some(EventNumber { number, .. })) = received.number()
        && number > requested
    {
        eprintln!(
            "campanile: events {requested} to {} are no longer stored, or were not for this subscription",
            number - 1
        );
    }
}

/// Prints one field in a line; for people, text without quotes.
fn print_field(out: &mut String, format: Format, field: &Field) {
    match (format, field) {
        (_, Field::Derived(text)) => out.push_str(text),
        (Format::Json, Field::Value(value)) => json::value(out, value),
        (_, Field::Value(Value::String(text) | Value::Wstring(text))) => out.push_str(&show::clean(text)),
        (_, Field::Value(value)) => show::value(out, value),
    }
    out.push('\n');
}

fn people(out: &mut String, now: SystemTime, received: &Received<'_>) {
    let time = moment::time_of_day(now);
    let shown = match received.body() {
        ReceivedBody::Structured(_) => received.event().map(|event| show::event(out, &time, &event)),
        ReceivedBody::Any(_) => received.any().map(|event| show::any_event(out, &time, &event)),
    };
    if let Err(error) = shown {
        out.push_str(&format!("{time}  event of {} octets that cannot be read: {error}\n", received.bytes().len()));
    }
}

fn line(out: &mut String, now: SystemTime, received: &Received<'_>) {
    let time = moment::rfc3339(now);
    let shown = match received.body() {
        ReceivedBody::Structured(_) => received.event().map(|event| {
            // Events have numbers if the subscription began in the history.
            let number = received.number().ok().flatten();
            let object = json::Object::new(out).event(&time, &event).optional("number", number.map(|of| of.number));
            object.optional("came", number.and_then(|of| of.came).map(moment::rfc3339)).end();
        }),
        ReceivedBody::Any(_) => received.any().map(|event| {
            json::Object::new(out).member("received", &time).written("body", |out| json::any(out, &event)).end();
        }),
    };
    if let Err(error) = shown {
        let object = json::Object::new(out).member("received", &time).member("error", error.to_string());
        object.hex("octets", received.bytes()).end();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn field_is_a_line_of_its_own() {
        let shown = |format, value: Value| {
            let mut out = String::new();
            print_field(&mut out, format, &Field::Value(value));
            out
        };
        assert_eq!(shown(Format::People, Value::String("a\u{1b}b".into())), "a\\u{1b}b\n");
        assert_eq!(shown(Format::Json, Value::String("a".into())), "\"a\"\n");
        assert_eq!(shown(Format::People, Value::Double(11.5)), "11.5\n");
    }

    #[test]
    fn summary_tells_count_size_rate_and_span() {
        let mut counters = Counters::default();
        assert_eq!(counters.summary(Duration::from_secs(2)), "no events in 2.0 s");
        counters.count(1000, UNIX_EPOCH + Duration::from_secs(1));
        counters.count(500, UNIX_EPOCH + Duration::from_secs(2));
        assert_eq!(
            counters.summary(Duration::from_secs(2)),
            "2 events, 1.5 kB in 2.0 s (1.00/s), first at 00:00:01.000Z, last at 00:00:02.000Z"
        );
    }
}

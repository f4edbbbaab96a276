//! `campanile record`: a channel's events in a file.
//!
//! Each event is a line of JSON as `campanile sub` prints it, with the whole marshalled event in a member of its own: that is what
//! `campanile replay` publishes.

use crate::args::RecordOptions;
use crate::failure::Failure;
use crate::outgoing::OF_THE_SERVICE;
use crate::progress::{Progress, Work};
use crate::signals::{Waiter, Wake};
use crate::{channels, json, moment, show, subscribe};
use client::notify::{CallbackConsumer, Property, StructuredEvent};
use client::{ConsumerOptions, EventNumber, Received, ServantError, SimpleConsumer};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version, Writer};
use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval in which buffered lines are written to the file, and the subscription is checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Encoding of the marshalled events in a file.
const ENCODING: Encoding = Encoding { endian: Endian::Little, version: Version::V1_2, chars: CharSet::Utf8 };

/// Records events until there were enough, time is up or a signal asks to stop.
pub(crate) fn run(options: &RecordOptions) -> Result<(), Failure> {
    let out = open(&options.file, options.append)?;
    let waiter = Waiter::install().map_err(Failure::message)?;
    let count = Arc::new(AtomicU64::new(0));
    let recorder = Recorder {
        out,
        line: String::new(),
        count: Arc::clone(&count),
        limit: options.until.count,
        through: None,
        wake: waiter.sender(),
    };
    let recorder = Arc::new(Mutex::new(recorder));
    let settings = ConsumerOptions {
        start_from: Some(options.selection.history.start_from().unwrap_or_else(|| "new".into())),
        best_effort: false,
        ..subscribe::consumer_options(&options.server, &options.selection)
    };
    let channel = channels::number(options.selection.channel.as_ref(), &options.server)?;
    let mut consumer = connect((options, channel), settings.clone(), &recorder);
    if options.selection.history.start_from().is_none()
        && consumer.as_ref().is_err_and(|error| error.is("UnsupportedQoS"))
    {
        // A service that keeps no history at all, and numbers nothing.
        consumer = connect((options, channel), ConsumerOptions { start_from: None, ..settings }, &recorder);
    }
    let consumer = consumer.map_err(|error| {
        subscribe::refused(&error, (options.selection.constraint.as_deref(), channel), &options.server)
    })?;
    eprintln!("campanile: recording; Ctrl-C ends");
    let started = Instant::now();
    let work = Work { doing: "recording", unit: Some("events"), total: options.until.count };
    // Lines of events on the same terminal would be written over.
    let is_in_the_way = options.file == Path::new("-") && io::stdout().is_terminal();
    let progress = (!is_in_the_way).then(|| Progress::of(work, Arc::clone(&count)));
    let outcome = wait((options, progress.as_ref()), &waiter, &consumer, &recorder, started);
    drop(progress);
    let farewell = consumer.close();
    let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
    recorder.out.flush()?;
    let recorded = count.load(Ordering::Relaxed);
    eprintln!("campanile: {} recorded in {:.1} s", events(recorded), started.elapsed().as_secs_f64());
    outcome?;
    if options.until.count.is_some_and(|count| recorded < count) {
        return Err(Failure::Quiet);
    }
    farewell.map_err(|error| Failure::remote(&error, &options.server))
}

pub(crate) fn events(count: u64) -> String {
    format!("{} {}", show::count(count), if count == 1 { "event" } else { "events" })
}

/// Opens the file, which is not overwritten.
fn open(path: &Path, appends: bool) -> Result<BufWriter<Box<dyn Write + Send>>, Failure> {
    if path == Path::new("-") {
        return Ok(BufWriter::new(Box::new(io::stdout())));
    }
    let file = OpenOptions::new().append(true).create(appends).create_new(!appends).open(path);
    match file {
        Ok(file) => Ok(BufWriter::new(Box::new(file))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::Message(format!("{} is there already; --append adds to it", path.display())))
        }
        Err(error) => Err(Failure::Message(format!("{} cannot be written: {error}", path.display()))),
    }
}

fn connect<W: Write + Send + 'static>(
    (options, channel): (&RecordOptions, Option<i32>),
    settings: ConsumerOptions,
    recorder: &Arc<Mutex<Recorder<W>>>,
) -> Result<SimpleConsumer, client::InvokeError> {
    let recorder = Arc::clone(recorder);
    SimpleConsumer::connect(&options.server.server, channel, settings, move |received| {
        recorder.lock().unwrap_or_else(PoisonError::into_inner).handle(&received)
    })
}

fn wait<W: Write>(
    (options, progress): (&RecordOptions, Option<&Progress>),
    waiter: &Waiter,
    consumer: &SimpleConsumer,
    recorder: &Mutex<Recorder<W>>,
    started: Instant,
) -> Result<(), Failure> {
    loop {
        let left = options.until.wait.map_or(LOOK_EVERY, |wait| wait.saturating_sub(started.elapsed()));
        match waiter.wait(Some(left.min(LOOK_EVERY))) {
            Some(Wake::Output(error)) => return Err(error.into()),
            Some(_) => return Ok(()),
            None if options.until.wait.is_some_and(|wait| started.elapsed() >= wait) => return Ok(()),
            None if consumer.has_ended() => {
                return Err(Failure::message("the service has disconnected this consumer; its log says why"));
            }
            None => recorder.lock().unwrap_or_else(PoisonError::into_inner).out.flush()?,
        }
        while let Some(gap) = consumer.next_gap() {
            let text = format!("campanile: {}", subscribe::missed(&gap));
            progress.map_or_else(|| eprintln!("{text}"), |progress| progress.say(&text));
        }
    }
}

/// Writes each event when it arrives.
pub(crate) struct Recorder<W> {
    pub(crate) out: W,
    pub(crate) line: String,
    pub(crate) count: Arc<AtomicU64>,
    pub(crate) limit: Option<u64>,
    /// Number of the event after which it ends.
    pub(crate) through: Option<u64>,
    pub(crate) wake: Sender<Wake>,
}

impl<W: Write> Recorder<W> {
    pub(crate) fn handle(&mut self, received: &Received<'_>) -> Result<(), ServantError> {
        let recorded = self.count.load(Ordering::Relaxed);
        let number = received.number()?;
        let is_behind = self.through.zip(number).is_some_and(|(through, number)| number.number > through);
        if self.limit.is_some_and(|limit| recorded >= limit) || is_behind {
            let _ = self.wake.send(Wake::Done);
            return Err(CallbackConsumer::disconnected());
        }
        let event = received.event()?;
        self.line.clear();
        line(&mut self.line, number, SystemTime::now(), &event);
        if let Err(error) = self.out.write_all(self.line.as_bytes()) {
            // The receiver may be gone if the command is ending.
            let _ = self.wake.send(Wake::Output(error));
            return Err(CallbackConsumer::disconnected());
        }
        self.count.store(recorded + 1, Ordering::Relaxed);
        let is_last = self.through.zip(number).is_some_and(|(through, number)| number.number == through);
        if self.limit == Some(recorded + 1) || is_last {
            let _ = self.wake.send(Wake::Done);
        }
        Ok(())
    }
}

/// Writes the line of an event.
fn line(out: &mut String, number: Option<EventNumber>, now: SystemTime, event: &StructuredEvent) {
    let came = number.and_then(|number| number.came).unwrap_or(now);
    let since = came.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut own = event.clone();
    own.variable_header.retain(|property| !is_of_the_service(property));
    let mut octets = Vec::new();
    // The event was read from octets, so its values fit their types.
    if own.write(&mut Writer::new(&mut octets, ENCODING)).is_err() {
        octets.clear();
    }
    json::Object::new(out)
        .member("came", moment::rfc3339(came))
        .member("came_ns", since.as_nanos())
        .optional("number", number.map(|number| number.number))
        .event(&moment::rfc3339(now), &own)
        .hex("cdr", &octets)
        .end();
    out.push('\n');
}

fn is_of_the_service(property: &Property) -> bool {
    OF_THE_SERVICE.contains(&property.name.as_str())
}

/// The event of a line, and its arrival in nanoseconds since 1970.
pub(crate) fn read_line(text: &str) -> Result<(StructuredEvent, u64), String> {
    let line: serde_json::Value = ::json::strict::parse(text).map_err(|error| format!("is no JSON: {error}"))?;
    let member = |name: &str| line.get(name).ok_or_else(|| format!("has no `{name}`: it is no recording"));
    let came = member("came_ns")?.as_u64().ok_or("`came_ns` is no number")?;
    let octets =
        json::octets_from_hex(member("cdr")?.as_str().unwrap_or("?")).map_err(|error| format!("`cdr`: {error}"))?;
    let mut reader = Reader::new(&octets, ENCODING);
    let event = StructuredEvent::read(&mut reader).map_err(|error| format!("`cdr` is no event: {error}"))?;
    Ok((event, came))
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::value::AnyValue;

    #[test]
    fn a_line_is_json_and_has_the_whole_event() {
        let mut event = StructuredEvent::new("Telescope", "Temperature", "dome \"3\"");
        event.variable_header.push(Property::new("Timeout", 70_u64));
        event.variable_header.push(Property::new("EventTime", 7_u64));
        event.variable_header.push(Property::new("EventNumber", 7_u64));
        event.filterable_data.push(Property::new("celsius", f64::NAN));
        let number = EventNumber { number: 7, came: Some(UNIX_EPOCH + Duration::from_nanos(1_500_000_000)) };
        for body in [AnyValue::default(), "text }".into(), ::json::read::from_json(&serde_json::json!({"a": {"b": 1}}))]
        {
            event.remainder = body;
            let mut text = String::new();
            line(&mut text, Some(number), UNIX_EPOCH, &event);
            let told: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&told["number"], &told["came"]), (&7.into(), &"1970-01-01T00:00:01.500Z".into()), "{text}");
            assert_eq!(told["name"], "dome \"3\"");
            let (read, came) = read_line(&text).unwrap();
            assert_eq!((read.variable_header.len(), came), (1, 1_500_000_000));
            assert_eq!((&read.event_name, &read.remainder), (&event.event_name, &event.remainder));
        }
    }

    #[test]
    fn what_is_no_line_says_what_is_wrong() {
        for (text, why) in [
            ("", "no JSON"),
            ("{}", "no recording"),
            ("{\"came_ns\":-1,\"cdr\":\"\"}", "no number"),
            ("{\"came_ns\":1,\"cdr\":\"0\"}", "hexadecimal"),
            ("{\"came_ns\":1,\"cdr\":\"00\"}", "no event"),
            ("{\"came_ns\":1,\"cdr\":7}", "hexadecimal"),
        ] {
            let said = read_line(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}

//! `campanile tempo sub`.

use super::meeting::{self, MISSED_AFTER, Meeting, failure, meet, plural, rate, time};
use crate::args::TempoSubOptions;
use crate::failure::Failure;
use crate::signals::{Waiter, Wake};
use crate::{json, moment, show};
use client::tempo::{Content, Message, Subscriber, SubscriberReport};
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often publishers and losses are checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Maximum octets shown on a terminal of a message that is no text.
const OCTETS_SHOWN: usize = 32;

/// Prints messages until there were enough, time is up or a signal asks to stop.
pub(crate) fn run(options: &TempoSubOptions) -> Result<(), Failure> {
    let waiter = Waiter::install().map_err(Failure::message)?;
    let meeting = meet(options.from.as_ref(), meeting::settings(&options.meet))?;
    let mut builder = meeting.node.subscriber(&options.topic);
    if let Some(rate) = options.rate {
        builder = builder.rate(rate);
    }
    if let Some(deadline) = options.deadline {
        builder = builder.deadline(deadline);
    }
    let counters = Arc::new(Mutex::new(Counters::default()));
    let mut printer = Printer {
        format: Format::of(options),
        topic: options.topic.clone(),
        limit: options.count,
        out: BufWriter::new(io::stdout()),
        text: Vec::new(),
        counters: Arc::clone(&counters),
        wake: waiter.sender(),
    };
    let subscriber = builder.on(move |message| printer.handle(message)).map_err(|error| failure(&error))?;
    if let Some(highest) = options.rate.filter(|_| options.loss_free) {
        subscriber.find_loss_free_rate(highest);
    }
    if options.report {
        subscriber.on_report(|report| eprintln!("campanile: {}", report_line(report)));
    }
    let how = if meeting.waits { "waits for publishers" } else { "subscribed" };
    eprintln!("campanile: {how} at {}; Ctrl-C ends", meeting.address);
    let began = Instant::now();
    let ended = wait(options, &waiter, &meeting, &subscriber, began)?;
    let report = subscriber.report();
    drop(subscriber);
    let counters = lock(&counters).clone();
    if ended != Ended::Enough || options.quiet {
        eprintln!("{}", counters.summary(began.elapsed(), &report));
    }
    match options.count {
        Some(count) if counters.messages < count => Err(Failure::Quiet),
        _ => Ok(()),
    }
}

fn lock(counters: &Mutex<Counters>) -> std::sync::MutexGuard<'_, Counters> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The requested number of messages has arrived.
    Enough,
    /// A signal came, or time is up.
    Stopped,
}

/// Waits for the end, and reports a missing publisher and losses meanwhile.
fn wait(
    options: &TempoSubOptions,
    waiter: &Waiter,
    meeting: &Meeting,
    subscriber: &Subscriber,
    began: Instant,
) -> Result<Ended, Failure> {
    let (mut is_missed, mut lost) = (false, 0);
    loop {
        let left = options.wait.map(|wait| wait.saturating_sub(began.elapsed()));
        match waiter.wait(Some(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)))) {
            Some(Wake::Signal | Wake::Request | Wake::HangUp) => return Ok(Ended::Stopped),
            Some(Wake::Done) => return Ok(Ended::Enough),
            Some(Wake::Output(error)) => return Err(error.into()),
            None if left == Some(Duration::ZERO) => return Ok(Ended::Stopped),
            None => {}
        }
        let report = subscriber.report();
        if report.lost > lost {
            eprintln!("campanile: {} lost", plural(report.lost - lost, "message"));
        }
        lost = report.lost;
        if report.publishers == 0 && report.received == 0 && !is_missed && began.elapsed() > MISSED_AFTER {
            is_missed = true;
            let Meeting { address, waits, .. } = meeting;
            let topic = &options.topic;
            match (options.from.is_some(), waits) {
                (false, true) => {
                    eprintln!("campanile: no end point publishes {topic} yet: `campanile tempo pub {topic} hello` does")
                }
                _ => {
                    let trouble = meeting.trouble();
                    eprintln!(
                        "campanile: no publisher of {topic} has been heard at {address}; still listening{trouble}"
                    );
                }
            }
        }
    }
}

/// A report in one line.
fn report_line(report: &SubscriberReport) -> String {
    let mut text = format!("{}, announce {}", plural(report.publishers.into(), "publisher"), rate(report.rate));
    if let Some(deadline) = report.deadline {
        text += &format!(", deadline {}", time(deadline));
    }
    text + &format!(
        "; received {}, lost {}, late {}",
        show::count(report.received),
        show::count(report.lost),
        show::count(report.late)
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// With the time, shortened to a line.
    People,
    /// Each message as a line.
    Lines,
    Json,
    Raw,
    Nothing,
}

impl Format {
    fn of(options: &TempoSubOptions) -> Self {
        match options {
            TempoSubOptions { quiet: true, .. } => Self::Nothing,
            TempoSubOptions { json: true, .. } => Self::Json,
            TempoSubOptions { raw: true, .. } => Self::Raw,
            _ if io::stdout().is_terminal() => Self::People,
            _ => Self::Lines,
        }
    }
}

/// Counts of received messages.
#[derive(Clone, Debug, Default)]
struct Counters {
    messages: u64,
    octets: u64,
}

impl Counters {
    fn summary(&self, elapsed: Duration, report: &SubscriberReport) -> String {
        let seconds = elapsed.as_secs_f64();
        let lost = if report.lost > 0 { format!("; {} lost", show::count(report.lost)) } else { String::new() };
        if self.messages == 0 {
            return format!("no messages in {seconds:.1} s{lost}");
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let rate = self.messages as f64 / seconds;
        let (messages, octets) = (plural(self.messages, "message"), show::bytes(self.octets));
        format!("{messages}, {octets} in {seconds:.1} s ({}/s){lost}", show::rate(rate))
    }
}

/// Prints each message when it arrives, on the end point's thread: a slow reader of the output delays this subscriber.
struct Printer<W: Write = Stdout> {
    format: Format,
    topic: String,
    limit: Option<u64>,
    out: BufWriter<W>,
    text: Vec<u8>,
    counters: Arc<Mutex<Counters>>,
    wake: Sender<Wake>,
}

impl<W: Write> Printer<W> {
    fn handle(&mut self, message: &Message<'_>) {
        let messages = {
            let mut counters = lock(&self.counters);
            if self.limit.is_some_and(|limit| counters.messages >= limit) {
                return;
            }
            counters.messages += 1;
            counters.octets += message.octets.len() as u64;
            counters.messages
        };
        self.text.clear();
        write(&mut self.text, self.format, &self.topic, message, SystemTime::now());
        if let Err(error) = self.out.write_all(&self.text).and_then(|()| self.out.flush()) {
            // The receiver may be gone if the command is ending.
            let _ = self.wake.send(Wake::Output(error));
            self.limit = Some(0);
        } else if self.limit == Some(messages) {
            let _ = self.wake.send(Wake::Done);
        }
    }
}

fn write(out: &mut Vec<u8>, format: Format, topic: &str, message: &Message<'_>, now: SystemTime) {
    let text = std::str::from_utf8(message.octets);
    let mut line = String::new();
    match format {
        Format::Nothing => return,
        Format::Raw => {
            out.extend_from_slice(message.octets);
            return;
        }
        Format::Json => object(&mut line, topic, message, now),
        Format::People | Format::Lines => {
            if format == Format::People {
                line.push_str(&moment::time_of_day(now));
                line.push_str("  ");
            }
            match text {
                Ok(text) => line.push_str(&show::clean(text)),
                Err(_) => hexadecimal(&mut line, format, message.octets),
            }
        }
    }
    line.push('\n');
    out.extend_from_slice(line.as_bytes());
}

fn hexadecimal(out: &mut String, format: Format, octets: &[u8]) {
    let (shown, rest) = match format {
        Format::People => octets.split_at_checked(OCTETS_SHOWN).unwrap_or((octets, &[])),
        _ => (octets, &[][..]),
    };
    out.push_str("0x");
    json::hex(out, shown);
    if !rest.is_empty() {
        out.push_str(&format!("… {} octets", show::count(octets.len())));
    }
}

fn object(out: &mut String, topic: &str, message: &Message<'_>, now: SystemTime) {
    let Message { sequence, priority, from, .. } = message;
    let content = match message.content {
        Content::Octets => None,
        Content::Typed => Some("cdr"),
        Content::Structured => Some("structured"),
    };
    let object = json::Object::new(out)
        .member("received", moment::rfc3339(now))
        .member("topic", topic)
        .member("publisher", format!("{from:08x}"))
        .member("sequence", sequence)
        .member("priority", priority)
        .optional("content", content);
    match std::str::from_utf8(message.octets) {
        Ok(text) if content.is_none() => object.member("text", text),
        _ => object.hex("octets", message.octets),
    }
    .end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn written(format: Format, octets: &[u8]) -> String {
        let message = Message { octets, content: Content::Octets, priority: -3, sequence: 7, sent_ns: 0, from: 0x1a2b };
        let mut out = Vec::new();
        write(&mut out, format, "Weather/\"Wind\"", &message, UNIX_EPOCH);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_is_text_and_what_is_none_is_hexadecimal() {
        assert_eq!(written(Format::People, b"11.5\x1b[2J"), "00:00:00.000Z  11.5\\u{1b}[2J\n");
        assert_eq!(written(Format::Lines, "Grüße\n".as_bytes()), "Grüße\\n\n");
        assert_eq!(written(Format::Lines, &[0xff; 40]), format!("0x{}\n", "ff".repeat(40)));
        assert_eq!(written(Format::People, &[0xff; 40]), format!("00:00:00.000Z  0x{}… 40 octets\n", "ff".repeat(32)));
        assert_eq!(written(Format::Raw, b"a\nb"), "a\nb");
        assert_eq!(written(Format::Nothing, b"a"), "");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let expected = concat!(
            r#"{"received":"1970-01-01T00:00:00.000Z","topic":"Weather/\"Wind\"","publisher":"00001a2b","#,
            r#""sequence":7,"priority":-3,"text":"a\nb"}"#,
            "\n"
        );
        assert_eq!(written(Format::Json, b"a\nb"), expected);
        assert!(written(Format::Json, &[0xca, 0xfe]).ends_with(",\"octets\":\"cafe\"}\n"));
    }

    #[test]
    fn the_summary_tells_what_was_lost() {
        let report = SubscriberReport { lost: 3, ..SubscriberReport::default() };
        let counters = Counters { messages: 1_000, octets: 34_816 };
        let took = Duration::from_secs(2);
        assert_eq!(counters.summary(took, &report), "1,000 messages, 34.8 kB in 2.0 s (500/s); 3 lost");
        assert_eq!(Counters::default().summary(took, &SubscriberReport::default()), "no messages in 2.0 s");
    }
}

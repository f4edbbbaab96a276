//! A channel's live events, for browsers: a normal consumer with a limited queue, which never blocks suppliers.
//!
//! It is connected internally, as a client for lines of JSON with the HTTP client's principal: so its constraint is evaluated as any
//! consumer's, rules of access apply to it, the hierarchy shows it, and it disconnects with the browser.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::ChannelId;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::live::message;
use crate::shared::millis;

/// Maximum octets shown of an event's line; a longer one shows its size.
const SHOWN_BYTES_MAX: usize = 16 << 10;
/// Octets read at once.
const READ_BYTES: usize = 64 << 10;
/// Time limit for the service to make a consumer.
const WITHIN: Duration = Duration::from_secs(5);
/// Prefix of an event's members in its line.
const BEFORE: &[u8] = b"{\"event\":{";
const BEHIND: &[u8] = b"}}";

/// A browser's consumer on a channel. Dropping it disconnects it.
pub(crate) struct Watching {
    stream: UnixStream,
    lines: Lines,
}

/// Why the first line on a connection was not carried out.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The service refused it; the text has the reason.
    Refused(String),
    /// The service did not answer in time.
    Late,
    /// The connection was closed before an answer.
    NoRoom,
    /// The operating system reported an error.
    Broken(io::Error),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => f.write_str(why),
            Self::Late => f.write_str("the service has not answered in time"),
            Self::NoRoom => f.write_str("there is no room for another connection from there"),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

/// Received lines, each truncated to the shown size.
#[derive(Default)]
struct Lines {
    arrived: Vec<u8>,
    /// Number of octets scanned.
    at: usize,
    line: Line,
}

/// A line without its end.
#[derive(Default, Debug, PartialEq, Eq)]
struct Line {
    text: Vec<u8>,
    /// Full size of the line, which may be truncated.
    bytes: usize,
}

impl Line {
    fn add(&mut self, bytes: &[u8]) {
        let room = SHOWN_BYTES_MAX.saturating_sub(self.text.len());
        self.text.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        self.bytes += bytes.len();
    }

    /// The line as an answer, if it is not an event.
    fn answer(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }
}

impl Lines {
    /// The next received line.
    fn next(&mut self) -> Option<Line> {
        let rest = self.arrived.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'\n');
        self.line.add(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
        match end {
            Some(end) => {
                self.at += end + 1;
                Some(core::mem::take(&mut self.line))
            }
            None => {
                self.arrived.clear();
                self.at = 0;
                None
            }
        }
    }
}

impl Watching {
    /// Subscribes to a channel's events: new ones, or those from a position in its history on.
    ///
    /// # Errors
    /// The reason why no events come.
    pub(crate) async fn begin(
        stream: UnixStream,
        ChannelId(channel): ChannelId,
        constraint: &str,
        from: Option<&str>,
    ) -> Result<Self, Unanswered> {
        let mut request = json!({ "op": "subscribe", "id": 1, "channel": channel, "where": constraint });
        if let (Some(from), Some(members)) = (from, request.as_object_mut()) {
            members.insert("from".to_owned(), json!(from));
        }
        Self::ask(stream, &format!("{request}\n"), WITHIN).await
    }

    /// Sends the first line on a connection and waits for the answer.
    ///
    /// # Errors
    /// The reason why it was not carried out, as far as known.
    pub(crate) async fn ask(stream: UnixStream, line: &str, within: Duration) -> Result<Self, Unanswered> {
        let mut watching = Self { stream, lines: Lines::default() };
        watching.write(line.as_bytes()).await.map_err(Unanswered::Broken)?;
        let answer = tokio::time::timeout(within, watching.next()).await;
        let answer = answer.map_err(|_| Unanswered::Late)?.map_err(Unanswered::Broken)?;
        let answer = answer.ok_or(Unanswered::NoRoom)?.answer();
        match answer.get("reason").and_then(Value::as_str) {
            Some(reason) => Err(Unanswered::Refused(reason.to_owned())),
            None => Ok(watching),
        }
    }

    /// Passes events to the stream while it has room, then the number left out; also regular keep-alives, so that a lost client is noticed.
    pub(crate) async fn run(mut self, to: mpsc::Sender<Bytes>, every: Duration) {
        let mut left_out = 0_u64;
        while !to.is_closed() {
            let stream_item = match tokio::time::timeout(every, self.next()).await {
                Ok(Ok(Some(line))) => stream_item(&line, left_out),
                Ok(Ok(None) | Err(_)) => return,
                Err(_) => StreamItem::Event(Bytes::from_static(b": still here\n\n")),
            };
            match stream_item {
                StreamItem::Event(event) => match to.try_send(event) {
                    Ok(()) => left_out = 0,
                    Err(TrySendError::Full(_)) => left_out += 1,
                    Err(TrySendError::Closed(_)) => return,
                },
                // The stream ends with it, whenever there is room.
                StreamItem::End(why) => return drop(to.send(why).await),
            }
        }
    }

    /// The next event's members as an object; a too long event only has its size. `None` at the end.
    pub(crate) async fn next_event(&mut self) -> io::Result<Option<String>> {
        let Some(line) = self.next().await? else { return Ok(None) };
        let members = line.text.strip_prefix(BEFORE).map(|rest| members_of(&line, rest));
        Ok(members.map(|members| format!("{{{}}}", String::from_utf8_lossy(&members))))
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next line; `None` at the end. Cancellation-safe: no line is lost.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.lines.next() {
                return Ok(Some(line));
            }
            self.stream.readable().await?;
            let arrived = &mut self.lines.arrived;
            arrived.resize(READ_BYTES, 0);
            let read = self.stream.try_read(arrived);
            arrived.truncate(*read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A message made from a line.
enum StreamItem {
    Event(Bytes),
    /// The end of the stream.
    End(Bytes),
}

fn stream_item(line: &Line, left_out: u64) -> StreamItem {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (at, mut received) = (millis(now), String::new());
    service::rfc3339(&mut received, now);
    let Some(rest) = line.text.strip_prefix(BEFORE) else {
        let why = line.answer().get("reason").cloned().unwrap_or_default();
        return StreamItem::End(message("ended", &json!({ "error": why })));
    };
    let text = format!("event: event\ndata: {{\"at_ms\":{at},\"received\":\"{received}\",\"left_out\":{left_out},");
    let mut text = text.into_bytes();
    text.extend_from_slice(&members_of(line, rest));
    text.extend_from_slice(b"}\n\n");
    StreamItem::Event(Bytes::from(text))
}

/// The shown part of an event; `rest` is the line behind [`BEFORE`].
fn members_of<'l>(line: &Line, rest: &'l [u8]) -> Cow<'l, [u8]> {
    match rest.strip_suffix(BEHIND).filter(|_| line.bytes <= SHOWN_BYTES_MAX) {
        Some(members) => members.into(),
        None => format!("\"bytes\":{}", line.bytes).into_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<(String, usize)> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        for piece in pieces {
            lines.arrived.extend_from_slice(piece);
            while let Some(line) = lines.next() {
                all.push((String::from_utf8(line.text).unwrap(), line.bytes));
            }
        }
        all
    }

    #[test]
    fn lines_are_the_same_however_they_arrive_and_no_more_of_them_is_kept_than_is_shown() {
        let long = vec![b'x'; 3 * SHOWN_BYTES_MAX];
        let text = [b"one\n\n".as_slice(), &long, b"\nlast\nrest"].concat();
        let expected = [
            ("one".to_owned(), 3),
            (String::new(), 0),
            ("x".repeat(SHOWN_BYTES_MAX), long.len()),
            ("last".to_owned(), 4),
        ];
        for at in [1, 3, 7, 1_000, text.len()] {
            assert_eq!(lines(&text.chunks(at).collect::<Vec<_>>()), expected, "{at} at once");
        }
    }

    #[test]
    fn an_event_is_read_as_its_line_has_it_and_what_is_no_event_ends_the_stream() {
        let line = |text: &str| {
            let mut line = Line::default();
            line.add(text.as_bytes());
            line
        };
        let event = |line: &Line, left_out| match stream_item(line, left_out) {
            StreamItem::Event(bytes) | StreamItem::End(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        };
        let short = line(r#"{"event":{"channel":0,"type":"A/B","name":"","fields":{"x":{}},"body":null}}"#);
        let text = event(&short, 3);
        let data = text.strip_prefix("event: event\ndata: ").and_then(|data| data.strip_suffix("\n\n")).unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["type"], &data["left_out"], &data["fields"]["x"]), (&json!("A/B"), &json!(3), &json!({})));
        let (received, at) = (data["received"].as_str().unwrap(), data["at_ms"].as_u64().unwrap());
        assert!(received.len() == 24 && received.ends_with(&format!(".{:03}Z", at % 1_000)), "{data}");
        let long = line(&format!(r#"{{"event":{{"channel":0,"type":"A/B","name":"{}"}}}}"#, "x".repeat(20_000)));
        assert!(event(&long, 0).ends_with(&format!("\"left_out\":0,\"bytes\":{}}}\n\n", long.bytes)));
        let end = line(r#"{"error":1,"reason":"the channel is gone"}"#);
        assert!(matches!(stream_item(&end, 0), StreamItem::End(_)));
        assert_eq!(event(&end, 0), "event: ended\ndata: {\"error\":\"the channel is gone\"}\n\n");
    }
}

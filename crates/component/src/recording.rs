//! Recordings of what comes to the sinks of a plan: in each server a queue and a thread, in the command that runs the plan the file.
//!
//! A recording is a file of lines of JSON, as `campanile record` makes them of channels: a first line with the plan, then one for each sink
//! with its type, and one for each event that was handed to a component, in the order in which they came to the command. A server's lanes put
//! events into a bounded queue, and wait for nothing; a thread sends them as lines to the command by a unix socket, whose path is in the
//! server's environment ([`SOCKET`]). What does not fit is dropped and counted, and the last line of the server has the number: a server
//! without one was cut short.

mod file;
mod read;

pub(crate) use file::socket;
pub use file::{Recorded, Recording};
pub use read::{RecordedEvent, RecordingReader};

use crate::error::Error;
use crate::port::EventSet;
use crate::remote::contained;
use crate::route::Origin;
use crate::server::Server;
use crate::threads::Waker;
use crossbeam_queue::ArrayQueue;
use serde::{Deserialize, Serialize};
use std::io::{self, BufWriter, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The variable of a server's environment with the socket to which it sends what its sinks get.
pub(crate) const SOCKET: &str = "CAMPANILE_COMPONENT_RECORD";

/// Events of a server that wait until they are sent.
const EVENTS_MAX: usize = 4_096;

/// Octets of their values.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Time from the end of a server until what it has not sent of its recording is dropped.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A line of a recording. [`Line::parse`] finds its kind by its first key.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Head(HeadLine),
    /// The first that a server sends, which is not in the file: its name.
    Server(ServerLine),
    Sink(SinkLine),
    Event(EventLine),
    Dropped(DroppedLine),
}

impl Line {
    /// The line that a text is.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let key = text.strip_prefix("{\"")?.split('"').next()?;
        // The kinds are not tried one after the other, for which serde would first store all of a line that may be anything.
        match key {
            "recording" => serde_json::from_str(text).map(Self::Head),
            "server" => serde_json::from_str(text).map(Self::Server),
            "sink" => serde_json::from_str(text).map(Self::Sink),
            "came" => serde_json::from_str(text).map(Self::Event),
            "dropped" => serde_json::from_str(text).map(Self::Dropped),
            _ => return None,
        }
        .ok()
    }
}

/// The first line: the file of the plan.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeadLine {
    pub(crate) recording: u32,
    pub(crate) plan: String,
    pub(crate) endian: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerLine {
    pub(crate) server: String,
}

/// A sink with its type in IDL.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SinkLine {
    pub(crate) sink: String,
    pub(crate) idl: String,
}

/// The last line of a server: the number of events that were not recorded. It is not in the file if that is 0.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DroppedLine {
    pub(crate) dropped: u64,
}

/// The line of an event that was handed to a component.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EventLine {
    /// As in RFC 3339.
    pub(crate) came: String,
    /// Nanoseconds since 1970.
    pub(crate) came_ns: u64,
    pub(crate) instance: String,
    pub(crate) port: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
    /// As `instance.port`.
    pub(crate) source: String,
    pub(crate) priority: i16,
    /// Number, place and size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) set: Option<(u64, u32, u32)>,
    /// The value in hexadecimal digits.
    pub(crate) cdr: String,
}

/// A line with its end.
pub(crate) fn written(line: &Line) -> String {
    // What has text keys only cannot fail.
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

/// The byte order of values that this machine records.
pub(crate) const ENDIAN: &str = if cfg!(target_endian = "big") { "big" } else { "little" };

/// An event that was handed to a component.
struct Handed {
    sink: Arc<SinkName>,
    source: Arc<str>,
    came: Duration,
    priority: i16,
    set: Option<EventSet>,
    value: Vec<u8>,
}

#[derive(Debug)]
struct SinkName {
    instance: String,
    port: String,
    type_name: String,
}

struct Shared {
    events: ArrayQueue<Handed>,
    bytes: AtomicUsize,
    dropped: AtomicU64,
    /// Whether nothing is sent any more.
    is_over: AtomicBool,
    stop: AtomicBool,
    waker: Waker,
    /// When the recording began: since 1970, and by a clock that is never set.
    began: (Duration, Instant),
}

impl Shared {
    fn new() -> Self {
        Self {
            events: ArrayQueue::new(EVENTS_MAX),
            bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            waker: Waker::default(),
            began: (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO), Instant::now()),
        }
    }

    fn pop(&self) -> Option<Handed> {
        let handed = self.events.pop()?;
        self.bytes.fetch_sub(handed.value.len(), Ordering::Relaxed);
        Some(handed)
    }

    /// Ends the sending: what waits, and what comes from now on, is dropped.
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        while self.pop().is_some() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a sink records its events by.
pub(crate) struct SinkRecorder {
    shared: Arc<Shared>,
    name: Arc<SinkName>,
}

impl SinkRecorder {
    /// Records an event, of which `write` writes the value, or drops and counts it. Waits for nothing.
    pub(crate) fn record(&self, origin: &Origin<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        let shared = &*self.shared;
        if shared.is_over.load(Ordering::Relaxed) {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut value = Vec::new();
        let written = contained(|| {
            write(&mut value);
            Ok(())
        });
        if written.is_err() {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let octets = value.len();
        let has_room = shared.bytes.fetch_add(octets, Ordering::Relaxed) + octets <= BYTES_MAX;
        let handed = Handed {
            sink: self.name.clone(),
            source: origin.source.clone(),
            came: shared.began.0 + shared.began.1.elapsed(),
            priority: origin.priority,
            set: origin.set,
            value,
        };
        if !has_room || shared.events.push(handed).is_err() {
            shared.bytes.fetch_sub(octets, Ordering::Relaxed);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        shared.waker.wake();
    }
}

/// The recording of a server: it ends when this is dropped, with what waits sent, or dropped after [`END_LIMIT`].
pub(crate) struct ServerRecording {
    shared: Arc<Shared>,
    stream: UnixStream,
    /// Disconnected when the thread has sent all, or cannot.
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl ServerRecording {
    /// Begins to record what the sinks of a server get.
    pub(crate) fn start(server: &Server, name: &str, socket: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the recording cannot begin: {}: {error}", socket.display());
        let stream = UnixStream::connect(socket).map_err(failed)?;
        let shared = Arc::new(Shared::new());
        let mut out = BufWriter::new(stream.try_clone().map_err(failed)?);
        let first = Line::Server(ServerLine { server: name.to_owned() });
        out.write_all(written(&first).as_bytes()).map_err(failed)?;
        for (sink, event) in server.sinks() {
            let Some((instance, port)) = sink.split_once('.') else { continue };
            let idl = crate::plan::line(&::idl::text(event.type_code()));
            let name =
                SinkName { instance: instance.to_owned(), port: port.to_owned(), type_name: event.name.to_owned() };
            let recorder = SinkRecorder { shared: shared.clone(), name: Arc::new(name) };
            server.record_sink(&sink, recorder).map_err(|error| error.to_string())?;
            out.write_all(written(&Line::Sink(SinkLine { sink, idl })).as_bytes()).map_err(failed)?;
        }
        let (of_thread, (sender, done)) = (shared.clone(), channel::<()>());
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn(move || {
            if let Err(error) = send(&of_thread, &mut out) {
                of_thread.end();
                log::warn!("events of this server are not recorded any more: {error}");
            }
            drop(sender);
        });
        Ok(Self { shared, stream, done, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for ServerRecording {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if self.done.recv_timeout(END_LIMIT) == Err(RecvTimeoutError::Timeout) {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if self.shared.is_over.load(Ordering::Relaxed) {
            // A lane may have put one in behind the thread.
            self.shared.end();
            let dropped = self.shared.dropped.load(Ordering::Relaxed);
            log::warn!("the recording of this server was cut short: events that it has not sent: {dropped}");
        }
    }
}

/// Sends what is put into the queue, until the recording ends.
fn send(shared: &Shared, out: &mut impl Write) -> io::Result<()> {
    shared.waker.attach();
    let mut is_told = false;
    loop {
        let stops = shared.stop.load(Ordering::Acquire);
        if let Some(handed) = shared.pop() {
            out.write_all(written(&Line::Event(line_of(&handed))).as_bytes()).inspect_err(|_| {
                shared.dropped.fetch_add(1, Ordering::Relaxed);
            })?;
            continue;
        }
        let dropped = shared.dropped.load(Ordering::Relaxed);
        if dropped > 0 && !is_told {
            is_told = true;
            log::warn!(
                "events come faster than they are recorded: {dropped} were left out, and further ones are counted"
            );
        }
        if stops {
            // A server that ends without this line was cut short.
            out.write_all(written(&Line::Dropped(DroppedLine { dropped })).as_bytes())?;
            return out.flush();
        }
        out.flush()?;
        shared.waker.sleep(|| !shared.events.is_empty() || shared.stop.load(Ordering::Acquire), None);
    }
}

fn line_of(handed: &Handed) -> EventLine {
    let (mut came, mut cdr) = (String::new(), String::with_capacity(2 * handed.value.len()));
    json::time::rfc3339(&mut came, handed.came);
    json::write::hex(&mut cdr, &handed.value);
    EventLine {
        came,
        came_ns: u64::try_from(handed.came.as_nanos()).unwrap_or(u64::MAX),
        instance: handed.sink.instance.clone(),
        port: handed.sink.port.clone(),
        type_name: handed.sink.type_name.clone(),
        source: handed.source.to_string(),
        priority: handed.priority,
        set: handed.set.map(|EventSet { number, index, size }| (number, index, size)),
        cdr,
    }
}

impl Server {
    /// Has a sink record what it hands to its component.
    fn record_sink(&self, sink: &str, recorder: SinkRecorder) -> Result<(), Error> {
        let (instance, port) = sink.split_once('.').unwrap_or((sink, ""));
        let (lane, instance, port) = (self.lane_of(instance)?, instance.to_owned(), port.to_owned());
        self.on_lane(lane, move |lane| lane.record((&instance, &port), recorder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_the_queue_is_dropped_and_counted() {
        let shared = Arc::new(Shared::new());
        let name = SinkName { instance: "guider".into(), port: "frame".into(), type_name: "Frame".into() };
        let recorder = SinkRecorder { shared: shared.clone(), name: Arc::new(name) };
        let source: Arc<str> = "camera.frame".into();
        let origin = Origin { source: &source, sent: Instant::now(), priority: 3, expires: None, set: None };
        let record = |octets: usize| recorder.record(&origin, |to| to.resize(octets, 7));
        (0..EVENTS_MAX + 2).for_each(|_| record(1));
        assert_eq!((shared.events.len(), shared.dropped.load(Ordering::Relaxed)), (EVENTS_MAX, 2));
        shared.stop.store(true, Ordering::Relaxed);
        let mut out = Vec::new();
        send(&shared, &mut out).unwrap();
        let lines: Vec<_> = std::str::from_utf8(&out).unwrap().lines().collect();
        assert_eq!((lines.len(), lines[EVENTS_MAX]), (EVENTS_MAX + 1, "{\"dropped\":2}"));
        assert!(
            lines[0].ends_with("\"type\":\"Frame\",\"source\":\"camera.frame\",\"priority\":3,\"cdr\":\"07\"}"),
            "{}",
            lines[0]
        );
        // By their octets, too.
        record(BYTES_MAX - 1);
        record(2);
        record(1);
        assert_eq!((shared.events.len(), shared.dropped.load(Ordering::Relaxed)), (2, 3));
        // The code of the event panics where it is written.
        recorder.record(&origin, |_| panic!("no value"));
        assert_eq!((shared.events.len(), shared.dropped.load(Ordering::Relaxed)), (2, 4));
        shared.end();
        record(1);
        assert_eq!((shared.events.len(), shared.dropped.load(Ordering::Relaxed)), (0, 7));
    }
}

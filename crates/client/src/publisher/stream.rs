//! The connection of a publisher: requests written behind each other, replies read when available.
//!
//! Only [`Stream::wait`] blocks. Requests are written into one buffer, each behind a copy of the same header with its number and size
//! filled in.

use super::ledger::{Fate, Ledger};
use crate::connection::limits;
use crate::orb::Opened;
use core::time::Duration;
use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::connection::{Closed, Connection, Event, Side};
use giop::exception::{Completed, Kind, SystemException};
use giop::framing::Inbound;
use giop::message::{self, Reply, ReplyStatus, RequestHead, RequestTemplate, Response, ServiceContexts};
use giop::realtime;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;

/// Maximum written octets left in the buffer, and its capacity after large events.
const WRITTEN_MAX: usize = 64 * 1024;
const OUTPUT_BYTES_RETAINED: usize = 1024 * 1024;

/// Why a connection is unusable.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) reason: String,
    /// Whether the server closed it in order: it did not carry out any unanswered request (CORBA 3.3 part 2, 9.4.7).
    pub(super) orderly: bool,
}

impl Broken {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), orderly: false }
    }
}

impl From<Closed> for Broken {
    fn from(closed: Closed) -> Self {
        let reason = match closed {
            Closed::Violation(violation) => format!("what came is not a reply: {violation}"),
            _ => closed.to_string(),
        };
        Self { reason, orderly: closed.completed() == Completed::No }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<Errno> for Broken {
    fn from(error: Errno) -> Self {
        let error = io::Error::from(error);
        Self::new(error.to_string())
    }
}

/// A request that awaits its answer.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// The number of its first event, and the count of its events.
    first: u64,
    events: u64,
    /// Whether it is a probe: it asks whether the object exists, behind all those events.
    is_probe: bool,
}

/// A request in the buffer.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    first: u64,
    /// Its end in the buffer.
    end: usize,
}

pub(super) struct Stream {
    line: Opened,
    inbound: Inbound,
    /// Unanswered requests, with their events.
    requests: Connection<InFlight>,
    templates: Templates,
    two_way: bool,
    output: Vec<u8>,
    /// Octets of the buffer that the socket has taken.
    written: usize,
    /// Two-way: the highest number of an answered event, plus one.
    answered: u64,
    gathered: Vec<Gathered>,
    /// One-way: the outcome of events before this number is known.
    resolved: u64,
    /// Events before this number are in complete requests.
    finished: u64,
    /// Whether the service has said that the proxy does not exist any more.
    proxy_is_gone: bool,
}

/// Heads of requests, with number and size to be filled in.
struct Templates {
    /// The head of the first request, with the connection's service contexts.
    first: Option<RequestTemplate>,
    others: RequestTemplate,
}

/// A request being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) start: usize,
    pub(super) body: usize,
}

impl Stream {
    /// A stream on a new connection; `resolved` events belong to earlier ones.
    pub(super) fn new(
        line: Opened,
        operation: &str,
        two_way: bool,
        priority: Option<i16>,
        (message_bytes_max, resolved): (usize, u64),
    ) -> io::Result<Self> {
        line.stream.tcp().set_nodelay(true)?;
        let response = if two_way { Response::Expected } else { Response::None };
        let priority = priority.map(|priority| realtime::priority_context(priority, Endian::NATIVE));
        let priority = priority.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
        let template = |contexts: &[(u32, &[u8])]| {
            RequestTemplate::new(&RequestHead {
                version: line.version,
                endian: Endian::NATIVE,
                request_id: 0,
                response,
                key: &line.key,
                operation: operation.as_bytes(),
                contexts,
                body_phase: None,
            })
        };
        let first: Vec<_> = line.first.iter().map(|(id, data)| (*id, data.as_slice())).chain(priority).collect();
        let templates = Templates {
            first: (!line.first.is_empty()).then(|| template(&first)),
            others: template(priority.as_slice()),
        };
        Ok(Self {
            line,
            inbound: Inbound::new(limits(message_bytes_max)),
            requests: Connection::new(Side::Caller),
            templates,
            two_way,
            output: Vec::new(),
            written: 0,
            answered: resolved,
            gathered: Vec::new(),
            resolved,
            finished: resolved,
            proxy_is_gone: false,
        })
    }

    /// Number of unanswered requests.
    pub(super) fn unanswered(&self) -> usize {
        self.requests.waiting()
    }

    /// Whether the service has said that the proxy is gone: it will take nothing more.
    pub(super) fn proxy_is_gone(&self) -> bool {
        self.proxy_is_gone
    }

    /// Octets that the socket has not taken.
    pub(super) fn pending_bytes(&self) -> usize {
        self.output.len() - self.written
    }

    // ---- requests ----

    #[inline]
    pub(super) fn begin(&mut self) -> Begun {
        let template = self.templates.first.as_ref().unwrap_or(&self.templates.others);
        let open = template.begin(&mut self.output, self.requests.next_id());
        Begun { start: open.start(), body: open.body_start() }
    }

    /// A writer that appends to the body of the last request begun.
    #[inline]
    pub(super) fn writer(&mut self, begun: Begun) -> Writer<'_> {
        let encoding = Encoding { endian: Endian::NATIVE, version: self.line.version, chars: self.line.chars };
        let phase = self.output.len() - begun.start;
        Writer::with_phase(&mut self.output, phase, encoding)
    }

    /// Truncates the buffer to `len` octets.
    pub(super) fn take_back(&mut self, len: usize) {
        self.output.truncate(len);
    }

    /// The buffer's end.
    pub(super) fn end(&self) -> usize {
        self.output.len()
    }

    /// Overwrites a number.
    pub(super) fn patch(&mut self, at: usize, value: u32) {
        patch(&mut self.output, at, value);
    }

    /// Ends a request with `events` events from the number `first` on.
    #[inline]
    pub(super) fn finish(&mut self, begun: Begun, first: u64, events: u64) {
        let size = u32::try_from(self.output.len() - begun.start - message::HEADER_LEN).unwrap_or(u32::MAX);
        patch(&mut self.output, begun.start + 8, size);
        self.templates.first = None;
        self.finished = first + events;
        let request = InFlight { first, events, is_probe: false };
        self.note(first, self.two_way.then_some(request));
    }

    /// Notes a gathered request with the first event `first`; `request` if it will be answered.
    #[inline]
    fn note(&mut self, first: u64, request: Option<InFlight>) {
        self.requests.sent(request);
        self.gathered.push(Gathered { first, end: self.output.len() });
    }

    /// Writes a probe: its answer comes when everything before it has arrived.
    pub(super) fn ask(&mut self, published: u64) {
        let head = RequestHead {
            version: self.line.version,
            endian: Endian::NATIVE,
            request_id: self.requests.next_id(),
            response: Response::Expected,
            key: &self.line.key,
            operation: b"_non_existent",
            contexts: &[],
            body_phase: None,
        };
        message::begin_request(&mut self.output, &head).finish(&mut self.output);
        let events = published - self.resolved;
        let probe = InFlight { first: self.resolved, events, is_probe: true };
        self.note(published, Some(probe));
    }

    // ---- the socket ----

    /// Writes as much of the buffer as the socket takes.
    pub(super) fn write(&mut self) -> Result<(), Broken> {
        while self.written < self.output.len() {
            let rest = self.output.get(self.written..).unwrap_or_default();
            match self.line.stream.try_write(rest) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.drop_written();
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.gathered.clear();
        self.written = 0;
        if self.output.capacity() > OUTPUT_BYTES_RETAINED {
            self.output = Vec::new();
        }
        Ok(())
    }

    /// Removes written octets from the buffer, in case the socket never takes all of it.
    fn drop_written(&mut self) {
        let written = self.written;
        if written < WRITTEN_MAX {
            return;
        }
        self.output.drain(..written);
        self.gathered.retain_mut(|request| {
            let is_pending = request.end > written;
            request.end = request.end.saturating_sub(written);
            is_pending
        });
        self.written = 0;
    }

    /// Reads the available replies.
    pub(super) fn read(&mut self, ledger: &mut Ledger) -> Result<(), Broken> {
        let space = self.inbound.space();
        let room = space.len();
        let count = match self.line.stream.try_read(space) {
            Ok(0) => return Err(Closed::Cut.into()),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.inbound.filled(count);
        self.take_messages(ledger)?;
        // What filled the buffer may not have been all.
        if count == room { self.read(ledger) } else { Ok(()) }
    }

    /// Waits until the socket is readable, or writable if there is output. Returns false on timeout.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Result<bool, Broken> {
        if self.line.stream.has_more() {
            return Ok(true);
        }
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let flags = if self.pending_bytes() > 0 { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        match poll(&mut [PollFd::new(self.line.stream.tcp(), flags)], limit.as_ref()) {
            Ok(0) => Ok(false),
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the server that nothing more follows.
    pub(super) fn send_close(&mut self) {
        let mut close_message = Vec::new();
        if self.pending_bytes() == 0 && self.requests.close(self.line.version, &mut close_message) {
            // The peer may be gone already.
            let _ = self.line.stream.try_write(&close_message);
        }
    }

    // ---- answers ----

    fn take_messages(&mut self, ledger: &mut Ledger) -> Result<(), Broken> {
        while let Some(event) = self.requests.poll(&mut self.inbound) {
            let (asked, reply, message) = match event {
                Event::Reply { who, reply, message } => (who, reply, message),
                Event::Closed(closed) => return Err(closed.into()),
                // Nothing is given up here, and the others are none that a caller gets.
                Event::LateReply { .. } | Event::Request(_) | Event::Locate { .. } | Event::Cancel { .. } => continue,
            };
            let events = asked.first..asked.first + asked.events;
            if asked.is_probe {
                self.resolved = events.end;
            }
            self.answered = self.answered.max(events.end);
            let body = || reply.body(message.bytes, &message.header, self.line.chars);
            match fate(&reply, body, asked.is_probe) {
                None => ledger.counters.confirmed += asked.events,
                Some(fate) => {
                    self.proxy_is_gone |= fate.is_of_a_proxy_that_is_gone();
                    ledger.lose(events, fate);
                }
            }
        }
        Ok(())
    }

    /// Ends a lost connection: reports the outcome of everything unanswered. `published` events were numbered.
    pub(super) fn give_up(self, broken: &Broken, published: u64, ledger: &mut Ledger) {
        let unknown = || Fate::Unknown(broken.reason.clone());
        let unsent = self.gathered.iter().find(|request| request.end > self.written).map(|request| request.first);
        // One that is too large is answered before it is written whole.
        let end = unsent.unwrap_or(self.finished).max(if self.two_way { self.answered } else { 0 });
        if self.two_way {
            for request in self.requests.into_waiting().filter(|request| request.first < end) {
                let events = request.first..request.first + request.events;
                let fate = if broken.orderly { Fate::NotSent(broken.reason.clone()) } else { unknown() };
                ledger.lose(events, fate);
            }
        } else {
            ledger.lose(self.resolved..end, unknown());
        }
        ledger.lose(end..published, Fate::NotSent(broken.reason.clone()));
    }
}

impl core::fmt::Debug for Stream {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stream")
            .field("line", &self.line)
            .field("pending_bytes", &self.pending_bytes())
            .field("unanswered", &self.unanswered())
            .finish_non_exhaustive()
    }
}

/// The outcome that a reply reports for its request's events, unless they arrived.
#[inline]
fn fate<'a>(reply: &Reply<'_>, body: impl FnOnce() -> Reader<'a>, is_probe: bool) -> Option<Fate> {
    let went_well = reply.status == ReplyStatus::NoException && !is_probe;
    if went_well { None } else { unlucky_fate(reply.status, body(), is_probe) }
}

fn unlucky_fate(status: ReplyStatus, mut body: Reader<'_>, is_probe: bool) -> Option<Fate> {
    let id = match status {
        ReplyStatus::NoException => match body.bool() {
            Ok(false) => return None,
            _ => return Some(Fate::Unknown(PROXY_IS_GONE.to_owned())),
        },
        ReplyStatus::SystemException => match SystemException::read(&mut body) {
            Ok(exception) => exception.kind.repository_id().to_owned(),
            Err(error) => return Some(Fate::Unknown(format!("the reply cannot be read: {error}"))),
        },
        ReplyStatus::UserException => match body.text() {
            Ok(id) => id,
            Err(error) => return Some(Fate::Unknown(format!("the reply cannot be read: {error}"))),
        },
        ReplyStatus::LocationForward | ReplyStatus::LocationForwardPerm | ReplyStatus::NeedsAddressingMode => {
            FORWARDED.to_owned()
        }
    };
    // A question that is not answered leaves open what became of the events before it.
    Some(if is_probe { Fate::Unknown(id) } else { Fate::Refused(id) })
}

/// The exception that stands for a `LOCATION_FORWARD`, which a publisher does not follow.
const FORWARDED: &str = "IDL:omg.org/CORBA/TRANSIENT:1.0";

/// Error text of a probe for events without a proxy.
const PROXY_IS_GONE: &str = "the proxy is gone";

impl Fate {
    /// Whether nothing more will arrive at the proxy: it does not exist, or no supplier is connected to it.
    fn is_of_a_proxy_that_is_gone(&self) -> bool {
        const EXCEPTIONS: [&str; 2] =
            [Kind::ObjectNotExist.repository_id(), "IDL:omg.org/CosEventComm/Disconnected:1.0"];
        match self {
            Self::Refused(id) | Self::Unknown(id) => EXCEPTIONS.contains(&id.as_str()) || id == PROXY_IS_GONE,
            Self::NotSent(_) => false,
        }
    }
}

fn patch(output: &mut [u8], at: usize, value: u32) {
    if let Some(place) = output.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *place = value.to_ne_bytes();
    }
}

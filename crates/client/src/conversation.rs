//! One connection on which servants are called.
//!
//! All requests of one `read` are carried out one after the other, from the read buffer. Their replies are gathered and leave with one
//! `write`, at the latest with the first request that ends a millisecond after the first reply was ready (checked every eight requests,
//! while they take almost no time). Requests that are answered early ([`Servant::early_operations`]) are answered together, before any of
//! them is carried out.
//!
//! # Order
//!
//! Requests are carried out in order of arrival. If a request is refused so that the caller will repeat it, the requests already sent
//! behind it are refused, too: the caller repeats them behind it. The caller marks where it begins anew, by
//! [`ServiceContexts::FLOW_START`]; without marks this does not apply.

use crate::connection::limits;
use crate::servant::{Servant, ServantError};
use crate::server::Table;
use crate::wire::Wire;
use core::convert::Infallible;
use giop::cdr::{CharSet, Endian, ReadError, Reader, Version, Writer};
use giop::codeset;
use giop::connection::{Closed, Connection, Event, Side};
use giop::exception::{Completed, Kind, OMG_MINOR, SystemException};
use giop::framing::{Inbound, Message};
use giop::message::{
    self, Header, LocateStatus, MessageKind, Open, ReplyHead, ReplyStatus, Request, Response, ServiceContexts,
};
use giop::realtime;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum octets of replies gathered while more requests are at hand.
const GATHER_BYTES_MAX: usize = 64 * 1024;
const GATHER_TIME_MAX: Duration = Duration::from_millis(1);

/// Requests between two looks at the clock, while they take almost no time.
const CLOCK_EVERY: u32 = 8;

/// The output buffer is shrunk to this after larger replies.
const OUTPUT_BYTES_RETAINED: usize = 1024 * 1024;

const OBJECT_ID: &str = "IDL:omg.org/CORBA/Object:1.0";

/// One connection's state.
pub(crate) struct Conversation<'a> {
    stream: &'a Wire,
    table: &'a Table,
    answers: Answers<'a>,
}

/// Unsent replies, and the state that they depend on.
struct Answers<'a> {
    table: &'a Table,
    /// Whether the peer may call servants.
    is_admitted: bool,
    output: Vec<u8>,
    chars: CharSet,
    gathering_since: Option<Instant>,
    /// Requests left until the next look at the clock.
    clock_in: u32,
    directory: Directory,
    /// The head of the last push, to recognize the next one.
    memo: Option<Memo>,
    /// Requests that are answered but not yet carried out.
    answered: VecDeque<u32>,
    counts: Counts,
}

/// Counts not yet added to the server's.
#[derive(Default)]
struct Counts {
    requests: u64,
    one_ways: u64,
    answered_early: u64,
    refused: u64,
}

/// A request's service contexts.
#[derive(Default)]
struct RequestContext {
    priority: Option<i16>,
    starts_flow: bool,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(stream: &'a Wire, table: &'a Table, is_admitted: bool) -> Self {
        let answers = Answers {
            table,
            is_admitted,
            output: Vec::new(),
            chars: CharSet::Latin1,
            gathering_since: None,
            clock_in: 0,
            directory: Directory::default(),
            memo: None,
            answered: VecDeque::new(),
            counts: Counts::default(),
        };
        Self { stream, table, answers }
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut inbound = Inbound::new(limits(self.table.message_bytes_max));
        let mut connection = Connection::<Infallible>::new(Side::Server);
        // Since when a message that is not whole is coming, where that has a limit.
        let mut begun: Option<Instant> = None;
        loop {
            if self.answers.is_admitted && self.table.answers_early() && self.answers.answer_ahead(inbound.ahead()) {
                self.flush()?;
            }
            while let Some(event) = connection.poll(&mut inbound) {
                begun = None;
                if let Err(malformed) = self.answers.handle(&event) {
                    connection.malformed(malformed);
                } else if self.answers.are_due() {
                    self.flush()?;
                }
            }
            connection.refuse(&mut self.answers.output);
            let is_refused = !self.answers.is_admitted && self.answers.counts.refused > 0;
            self.answers.tell_counts();
            self.flush()?;
            if is_refused {
                connection.close(Version::V1_2, &mut self.answers.output);
                return self.flush();
            }
            if let Some(closed) = connection.closed() {
                if matches!(closed, Closed::Violation(_)) {
                    self.table.counters.connections_dropped.fetch_add(1, Ordering::Relaxed);
                }
                return Ok(());
            }
            let is_late = |begun: Instant| self.table.idle_limit.is_some_and(|limit| begun.elapsed() >= limit);
            let read = match begun.is_some_and(is_late) {
                true => Err(io::ErrorKind::TimedOut.into()),
                false => self.stream.read(inbound.space()),
            };
            let is_cut = begun.is_some() || !inbound.ahead().is_empty();
            match read {
                Ok(0) => {
                    self.table.counters.connections_dropped.fetch_add(u64::from(is_cut), Ordering::Relaxed);
                    return Ok(());
                }
                Ok(n) => {
                    inbound.filled(n);
                    begun = begun.or_else(|| self.table.idle_limit.map(|_| Instant::now()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nothing came for too long. What has come in part is not carried out.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    self.table.counters.connections_dropped.fetch_add(u64::from(is_cut), Ordering::Relaxed);
                    connection.close(Version::V1_2, &mut self.answers.output);
                    return self.flush();
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.answers.gathering_since = None;
        let output = &mut self.answers.output;
        if output.is_empty() {
            return Ok(());
        }
        self.stream.write_all(output)?;
        output.clear();
        if output.capacity() > OUTPUT_BYTES_RETAINED {
            *output = Vec::new();
        }
        Ok(())
    }
}

impl Answers<'_> {
    /// Whether the gathered replies have to be sent now.
    #[inline]
    fn are_due(&mut self) -> bool {
        if self.output.is_empty() {
            return false;
        }
        if self.clock_in > 0 && self.output.len() < GATHER_BYTES_MAX {
            self.clock_in -= 1;
            return false;
        }
        self.look_at_clock()
    }

    fn look_at_clock(&mut self) -> bool {
        let now = Instant::now();
        let since = *self.gathering_since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        // Where requests take next to no time, not for each of them.
        self.clock_in = if waited < GATHER_TIME_MAX / 8 { CLOCK_EVERY - 1 } else { 0 };
        self.output.len() >= GATHER_BYTES_MAX || waited >= GATHER_TIME_MAX
    }

    fn tell_counts(&mut self) {
        let Counts { requests, one_ways, answered_early, refused } = core::mem::take(&mut self.counts);
        let counters = &self.table.counters;
        let add = |counter: &AtomicU64, count| {
            if count > 0 {
                counter.fetch_add(count, Ordering::Release);
            }
        };
        // The sum last: a thread that has read it (`Orb::served`, with Acquire) reads no less of the others.
        add(&counters.one_ways, one_ways);
        add(&counters.answered_early, answered_early);
        add(&counters.refused, refused);
        add(&counters.requests, requests);
    }

    /// Answers all received requests that are answered early. Returns whether there were any.
    fn answer_ahead(&mut self, mut bytes: &[u8]) -> bool {
        while let Ok(header) = Header::parse(bytes) {
            let Some(message) = bytes.get(..header.message_len()) else { break };
            // Those behind a message in fragments wait for it.
            if header.more_fragments || header.kind == MessageKind::Fragment {
                break;
            }
            if header.kind == MessageKind::Request
                && let Some(request_id) = self.early_request(&Message { header, bytes: message })
            {
                let head = head_of_reply(request_id, &header);
                message::begin_reply(&mut self.output, &head).finish(&mut self.output);
                self.answered.push_back(request_id);
            }
            bytes = bytes.get(header.message_len()..).unwrap_or_default();
        }
        !self.answered.is_empty()
    }

    /// The number of a request that is answered early.
    fn early_request(&mut self, message: &Message<'_>) -> Option<u32> {
        let known = self.memo.as_ref().filter(|memo| memo.knows(message.bytes));
        if let Some(memo) = known.filter(|_| self.directory.version == self.table.version()) {
            return memo.is_early.then(|| Memo::request_id(message));
        }
        let request = Request::parse(message.bytes, &message.header).ok()?;
        let is_early = request.response != Response::None && self.is_answered_early(&request);
        is_early.then_some(request.request_id)
    }

    fn is_answered_early(&mut self, request: &Request<'_>) -> bool {
        let Some(key) = request.target.key() else { return false };
        let Some(called) = self.directory.find(key, self.table) else { return false };
        called.servant.early_operations().iter().any(|early| early.as_bytes() == request.operation)
    }

    #[inline]
    fn handle(&mut self, event: &Event<'_, Infallible>) -> Result<(), ReadError> {
        match event {
            Event::Request(message) if self.handle_known(message) => {}
            Event::Request(message) => self.handle_request(message)?,
            Event::Locate { message, request } => {
                let found = self.is_admitted && request.target.key().is_some_and(|key| self.table.find(key).is_some());
                let status = if found { LocateStatus::ObjectHere } else { LocateStatus::UnknownObject };
                let Header { version, endian, .. } = message.header;
                message::locate_reply(&mut self.output, version, endian, request.request_id, status);
            }
            // Requests are carried out in the order they come, so one that is cancelled has been answered or will be:
            // CORBA leaves the choice to the server. Replies are none that a server gets.
            Event::Cancel { .. } | Event::Reply { .. } | Event::LateReply { .. } | Event::Closed(_) => {}
        }
        Ok(())
    }

    /// Carries out a push with the same head as an earlier one but for its number and size. Returns false for another head, or a fragmented
    /// message.
    fn handle_known(&mut self, message: &Message<'_>) -> bool {
        let Some(memo) = self.memo.as_ref().filter(|memo| memo.knows(message.bytes)) else { return false };
        let Directory { called, version, .. } = &mut self.directory;
        if *version != self.table.version() {
            return false;
        }
        let Some(called) = called.get_mut(memo.place).filter(|called| called.flow != Flow::Stopped) else {
            return false;
        };
        let Some(body) = message.bytes.get(memo.head.len()..).filter(|body| !body.is_empty()) else { return false };
        let (header, chars) = (&message.header, self.chars);
        let mut args = Reader::with_phase(body, memo.head.len(), header.encoding(chars)).with_origin(memo.head.len());
        let head = head_of_reply(Memo::request_id(message), header);
        let start = self.output.len();
        let open = message::begin_reply(&mut self.output, &head);
        let mut reply = open.body(&mut self.output, chars);
        let outcome = called.servant.invoke_at(None, &memo.operation, &mut args, &mut reply);
        let outcome = outcome.and_then(|()| sayable(&reply));
        let outcome = outcome.inspect_err(|error| called.flow.note(error));
        let (is_early, expects_reply) = (memo.is_early, memo.expects_reply);
        let is_answered = is_early && self.cross_off(head.request_id);
        self.count(expects_reply);
        self.end_reply(open, head, start, outcome, expects_reply && !is_answered);
        true
    }

    /// Remembers the head of a push, to recognise the next one by it, if it has no service contexts.
    fn memorize(&mut self, message: &Message<'_>, request: &Request<'_>) {
        let whole = message.header.version == Version::V1_2 && request.operation.starts_with(b"push");
        let head = message.bytes.get(..request.body_offset);
        let operation = core::str::from_utf8(request.operation);
        let (Some(head), Ok(operation), true, None) = (head, operation, whole, request.contexts.iter().next()) else {
            return;
        };
        let is_early = request.response != Response::None && self.is_answered_early(request);
        let memo = self.memo.get_or_insert_with(Memo::default);
        memo.head.clear();
        memo.head.extend_from_slice(head);
        memo.operation.clear();
        memo.operation.push_str(operation);
        memo.expects_reply = request.response != Response::None;
        memo.is_early = is_early;
        memo.place = self.directory.last;
    }

    fn handle_request(&mut self, message: &Message<'_>) -> Result<(), ReadError> {
        let header = &message.header;
        let request = Request::parse(message.bytes, header)?;
        let context = self.hear(&request);
        let expects_reply = request.response != Response::None;
        self.count(expects_reply);
        let is_answered = self.cross_off(request.request_id);
        // The reply tells the priority of the request, as Real-time CORBA has it.
        let echo = context.priority.map(|priority| realtime::priority_context(priority, Endian::NATIVE));
        let echo = echo.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
        let head = ReplyHead { contexts: echo.as_slice(), ..head_of_reply(request.request_id, header) };
        let start = self.output.len();
        let open = message::begin_reply(&mut self.output, &head);
        let mut args = request.body(message.bytes, header, self.chars);
        let called = request.target.key().and_then(|key| self.directory.find(key, self.table));
        let outcome = match called {
            _ if !self.is_admitted => {
                self.counts.refused += 1;
                Err(ServantError::system(Kind::NoPermission))
            }
            Some(called) => {
                let mut reply = open.body(&mut self.output, self.chars);
                if called.flow.stops(&request, context.starts_flow) {
                    self.counts.refused += 1;
                    Err(ServantError::system(Kind::Transient))
                } else {
                    let outcome = invoke(&*called.servant, context.priority, request.operation, &mut args, &mut reply);
                    let outcome = outcome.and_then(|()| sayable(&reply));
                    outcome.inspect_err(|error| called.flow.note(error))
                }
            }
            None => Err(ServantError::system(Kind::ObjectNotExist)),
        };
        if outcome.is_ok() {
            self.memorize(message, &request);
        }
        self.end_reply(open, head, start, outcome, expects_reply && !is_answered);
        Ok(())
    }

    fn count(&mut self, expects_reply: bool) {
        self.counts.requests += 1;
        self.counts.one_ways += u64::from(!expects_reply);
    }

    /// Removes a request that is carried out now from those answered early. Returns whether it was one.
    #[inline]
    fn cross_off(&mut self, request_id: u32) -> bool {
        let is_answered = self.answered.front() == Some(&request_id);
        if is_answered {
            self.answered.pop_front();
            self.counts.answered_early += 1;
        }
        is_answered
    }

    /// Ends the reply that was begun at `start`: with the servant's result or exception, or with nothing if no reply is expected. Answering
    /// `SYNC_WITH_SERVER` with the results is harmless: no client reads them.
    #[inline]
    fn end_reply(
        &mut self,
        open: Open,
        head: ReplyHead<'_>,
        start: usize,
        outcome: Result<(), ServantError>,
        is_wanted: bool,
    ) {
        match outcome {
            Ok(()) if is_wanted => open.finish(&mut self.output),
            Err(error) if is_wanted => {
                self.output.truncate(start);
                self.raise(head, &error);
            }
            _ => self.output.truncate(start),
        }
    }

    /// Reads a request's service contexts.
    fn hear(&mut self, request: &Request<'_>) -> RequestContext {
        let mut context = RequestContext::default();
        for (id, data) in request.contexts.iter() {
            match id {
                ServiceContexts::CODE_SETS => self.chars = codeset::parse_context(data).unwrap_or(self.chars),
                ServiceContexts::RT_CORBA_PRIORITY => context.priority = realtime::parse_priority_context(data).ok(),
                ServiceContexts::FLOW_START => context.starts_flow = true,
                _ => {}
            }
        }
        context
    }

    fn raise(&mut self, mut head: ReplyHead<'_>, error: &ServantError) {
        head.status = match error {
            ServantError::System(_) => ReplyStatus::SystemException,
            ServantError::User(_) | ServantError::UserWith(..) => ReplyStatus::UserException,
        };
        let open = message::begin_reply(&mut self.output, &head);
        let mut body = open.body(&mut self.output, self.chars);
        match error {
            ServantError::System(exception) => exception.write(&mut body),
            ServantError::User(id) => body.string(id),
            ServantError::UserWith(id, write) => {
                body.string(id);
                write(&mut body);
            }
        }
        open.finish(&mut self.output);
    }
}

/// Checks a written reply: an error if the caller's code set lacks one of its characters (CORBA 3.3 part 1, annex A.5: minor code 1).
fn sayable(reply: &Writer<'_>) -> Result<(), ServantError> {
    let exception = SystemException::new(Kind::DataConversion, OMG_MINOR | 1);
    reply.lacking().map_or(Ok(()), |_| Err(ServantError::System(exception)))
}

/// Offsets of a request's size and number, and of what follows them, in GIOP 1.2.
const SIZE_AT: usize = 8;
const ID_AT: usize = 12;
const BEHIND_ID: usize = 16;

/// A push to recognize later ones by, which differ in size and number only.
#[derive(Default)]
struct Memo {
    /// The whole message before the body.
    head: Vec<u8>,
    operation: String,
    expects_reply: bool,
    /// Whether the push is answered early.
    is_early: bool,
    /// The servant's index in the directory.
    place: usize,
}

impl Memo {
    #[inline]
    fn knows(&self, message: &[u8]) -> bool {
        message.len() > self.head.len()
            && message.first_chunk::<SIZE_AT>() == self.head.first_chunk::<SIZE_AT>()
            && message.get(BEHIND_ID..self.head.len()) == self.head.get(BEHIND_ID..)
    }

    #[inline]
    fn request_id(message: &Message<'_>) -> u32 {
        let octets = message.bytes.get(ID_AT..).and_then(|rest| rest.first_chunk::<4>());
        let octets = octets.copied().unwrap_or_default();
        match message.header.endian {
            Endian::Big => u32::from_be_bytes(octets),
            Endian::Little => u32::from_le_bytes(octets),
        }
    }
}

fn head_of_reply(request_id: u32, header: &Header) -> ReplyHead<'static> {
    ReplyHead {
        version: header.version,
        endian: Endian::NATIVE,
        request_id,
        status: ReplyStatus::NoException,
        contexts: &[],
    }
}

/// The servants called on a connection, found without the lock that all connections share.
#[derive(Default)]
struct Directory {
    called: Vec<Called>,
    places: HashMap<Vec<u8>, usize>,
    /// Index of the servant called last, usually the next one, too.
    last: usize,
    /// The table's version at the lookup.
    version: u64,
}

struct Called {
    key: Vec<u8>,
    servant: Arc<dyn Servant>,
    flow: Flow,
}

impl Directory {
    #[inline]
    fn find(&mut self, key: &[u8], table: &Table) -> Option<&mut Called> {
        if table.version() != self.version {
            self.look_up_again(table);
        }
        if self.called.get(self.last).is_none_or(|called| called.key != key) {
            self.last = self.place_of(key, table)?;
        }
        self.called.get_mut(self.last)
    }

    fn place_of(&mut self, key: &[u8], table: &Table) -> Option<usize> {
        if let Some(place) = self.places.get(key) {
            return Some(*place);
        }
        let servant = table.find(key)?;
        let place = self.called.len();
        self.called.push(Called { key: key.to_vec(), servant, flow: Flow::default() });
        self.places.insert(key.to_vec(), place);
        Some(place)
    }

    /// Repeats the lookups after servants came or went: removed ones must not be called any more.
    fn look_up_again(&mut self, table: &Table) {
        self.version = table.version();
        self.called.retain(|called| table.find(&called.key).is_some());
        self.places.clear();
        self.places.extend(self.called.iter().enumerate().map(|(place, called)| (called.key.clone(), place)));
        self.last = 0;
    }
}

/// Flow of pushes of which several may be unanswered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flow {
    /// The caller has never marked a beginning.
    #[default]
    Unmarked,
    Runs,
    /// A push was refused, and the pushes sent behind it are refused, too.
    Stopped,
}

impl Flow {
    /// Whether to refuse a request without calling the servant.
    #[inline]
    fn stops(&mut self, request: &Request<'_>, starts: bool) -> bool {
        if starts {
            *self = Self::Runs;
        }
        *self == Self::Stopped && request.operation.starts_with(b"push")
    }

    /// Notes a servant's exception.
    fn note(&mut self, error: &ServantError) {
        if *self == Self::Runs && comes_again(error) {
            *self = Self::Stopped;
        }
    }
}

/// Whether the caller repeats a request after this exception, or stops. After other exceptions the next event follows.
fn comes_again(error: &ServantError) -> bool {
    match error {
        ServantError::System(SystemException { kind, .. }) => {
            kind.says_not_now() || matches!(kind, Kind::ObjectNotExist | Kind::Unknown)
        }
        ServantError::User(id) | ServantError::UserWith(id, _) => *id == crate::notify::DISCONNECTED,
    }
}

/// Calls the operations of every object first, then the servant's own.
fn invoke(
    servant: &dyn Servant,
    priority: Option<i16>,
    operation: &[u8],
    args: &mut Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), ServantError> {
    let Ok(operation) = core::str::from_utf8(operation) else { return Err(ServantError::bad_operation()) };
    match operation {
        "_is_a" => {
            let id = args.text()?;
            reply.bool(id == servant.type_id() || id == OBJECT_ID || servant.supports(&id));
            Ok(())
        }
        "_non_existent" | "_not_existent" => {
            reply.bool(false);
            Ok(())
        }
        "_interface" | "_component" | "_domain_managers" => {
            Err(ServantError::System(SystemException { kind: Kind::NoImplement, minor: 0, completed: Completed::No }))
        }
        _ => servant.invoke_at(priority, operation, args, reply),
    }
}

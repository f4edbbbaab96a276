//! One connection to a server: requests out, replies in, shared by any number of threads.
//!
//! It has no thread. A caller writes its request with one `write`. If no other thread is reading, the caller then reads until its reply
//! arrives and hands over the replies of other callers; when it leaves, another waiting caller takes over the reading. A single caller
//! therefore costs one `write` and one `read` per call and no switch between threads, and buffers are reused, so that nothing is allocated
//! in the steady state.
//!
//! Locks: `output` before `replies`; neither is held while reading.

use crate::object::sayable;
use crate::orb::Opened;
use crate::wire::Wire;
use crate::{OrbOptions, lock};
use giop::cdr::{CharSet, Endian, Version, Writer};
use giop::connection::{self, Closed, Event, Side};
use giop::exception::Completed;
use giop::framing::{Inbound, Limits};
use giop::message::{self, Header, ReplyStatus, RequestHead, Response, ServiceContexts};
use giop::realtime;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A connection unused for this long is checked before it is used again: servers close idle connections.
const IDLE_BEFORE_CHECK: Duration = Duration::from_secs(1);

/// Maximum number of reply buffers retained for reuse, and maximum size of each.
const SPARE_BUFFERS_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// The output buffer is shrunk to this after a request larger than it.
const OUTPUT_BYTES_RETAINED: usize = 4 * 1024 * 1024;

/// How a call on one connection failed. [`crate::ObjectRef`] adds the operation and decides whether to try again.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The request never reached the server completely: it can be repeated.
    NotSent { reason: String },
    /// The request was written and the connection broke.
    Lost { reason: String, completed: Completed },
    /// No reply in time, or the server did not read the request in time.
    TimedOut { limit: Duration },
    /// The received message is not a reply to the request.
    Bad { reason: String },
    /// The arguments could not be encoded.
    Arguments { reason: String },
}

/// A received reply, parsed up to its body.
#[derive(Debug)]
pub(crate) struct RawReply {
    pub(crate) header: Header,
    pub(crate) status: ReplyStatus,
    pub(crate) body_offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// The parameters of a call.
pub(crate) struct Call<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) operation: &'a str,
    pub(crate) response: Response,
    /// How long to wait for the reply; `None` waits for ever.
    pub(crate) limit: Option<Duration>,
    /// Real-time CORBA priority sent beside the arguments.
    pub(crate) priority: Option<i16>,
}

/// Writes the arguments; called again if the request has to be repeated.
pub(crate) type WriteArguments<'a> = &'a dyn Fn(&mut Writer<'_>) -> Result<(), String>;

/// A connection: see the module's description.
#[derive(Debug)]
pub(crate) struct Connection {
    address: String,
    stream: Wire,
    version: Version,
    chars: CharSet,
    /// Service contexts sent with the first request.
    first: Vec<(u32, Vec<u8>)>,
    output: Mutex<Output>,
    replies: Mutex<Replies>,
    arrived: Condvar,
    broken: AtomicBool,
}

#[derive(Debug)]
struct Output {
    buffer: Vec<u8>,
    last_used: Instant,
}

#[derive(Debug)]
struct Replies {
    /// The input; `None` while a caller is reading.
    input: Option<Box<Input>>,
    requests: connection::Connection<()>,
    /// Replies that have arrived for callers that have not taken them yet.
    arrived: Vec<(u32, RawReply)>,
    spare: Vec<Vec<u8>>,
    broken: Option<Broken>,
}

struct Input {
    inbound: Inbound,
    /// The socket's receive time limit as last set.
    timeout: Option<Duration>,
}

impl core::fmt::Debug for Input {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Input").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Broken {
    reason: String,
    closed: Closed,
}

impl Connection {
    /// Takes over a connected socket.
    pub(crate) fn new(line: Opened, options: &OrbOptions) -> io::Result<Self> {
        let Opened { stream, address, version, chars, first, key: _ } = line;
        let tcp = stream.tcp();
        tcp.set_nodelay(true)?;
        tcp.set_write_timeout(options.reply_timeout)?;
        tcp.set_read_timeout(options.reply_timeout)?;
        let input = Input { inbound: Inbound::new(limits(options.message_bytes_max)), timeout: options.reply_timeout };
        Ok(Self {
            address,
            stream,
            version,
            chars,
            first,
            output: Mutex::new(Output { buffer: Vec::with_capacity(1024), last_used: Instant::now() }),
            replies: Mutex::new(Replies {
                input: Some(Box::new(input)),
                requests: connection::Connection::new(Side::Caller),
                arrived: Vec::with_capacity(4),
                spare: Vec::new(),
                broken: None,
            }),
            arrived: Condvar::new(),
            broken: AtomicBool::new(false),
        })
    }

    /// The peer as `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The char set of strings on this connection.
    pub(crate) fn chars(&self) -> CharSet {
        self.chars
    }

    /// Whether a new connection is needed.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Sends a request and, if a response is expected, waits for it.
    pub(crate) fn call(&self, call: &Call<'_>, write: WriteArguments<'_>) -> Result<Option<RawReply>, CallError> {
        let started = Instant::now();
        let id = self.send(call, started, write)?;
        if call.response == Response::None { Ok(None) } else { self.wait(id, call.limit, started).map(Some) }
    }

    /// Returns a reply's buffer for reuse.
    pub(crate) fn recycle(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BYTES_MAX {
            let mut replies = lock(&self.replies);
            if replies.spare.len() < SPARE_BUFFERS_MAX {
                replies.spare.push(buffer);
            }
        }
    }

    fn send(&self, call: &Call<'_>, now: Instant, write: WriteArguments<'_>) -> Result<u32, CallError> {
        let mut guard = lock(&self.output);
        let output = &mut *guard;
        if now.saturating_duration_since(output.last_used) > IDLE_BEFORE_CHECK {
            self.look_at_idle_socket();
        }
        if self.is_broken() {
            return Err(CallError::NotSent { reason: self.broken_reason() });
        }
        output.last_used = now;
        output.buffer.clear();
        self.encode(&mut output.buffer, call, write)?;
        let id = lock(&self.replies).requests.sent((call.response != Response::None).then_some(()));
        if let Err(error) = (&self.stream).write_all(&output.buffer) {
            return self.write_failed((id, call), output.buffer.len(), &error);
        }
        if output.buffer.capacity() > OUTPUT_BYTES_RETAINED {
            output.buffer = Vec::with_capacity(1024);
        }
        Ok(id)
    }

    fn encode(&self, buffer: &mut Vec<u8>, call: &Call<'_>, write: WriteArguments<'_>) -> Result<(), CallError> {
        let (id, is_first) = {
            let replies = lock(&self.replies);
            (replies.requests.next_id(), replies.requests.is_first())
        };
        let priority = call.priority.map(|priority| realtime::priority_context(priority, Endian::NATIVE));
        let priority = priority.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
        let all: Vec<_>;
        let contexts = if is_first {
            all = self.first.iter().map(|(id, data)| (*id, data.as_slice())).chain(priority).collect();
            &all
        } else {
            priority.as_slice()
        };
        let head = RequestHead {
            version: self.version,
            endian: Endian::NATIVE,
            request_id: id,
            response: call.response,
            key: call.key,
            operation: call.operation.as_bytes(),
            contexts,
            body_phase: None,
        };
        let open = message::begin_request(buffer, &head);
        let mut writer = open.body(buffer, self.chars);
        let written = write(&mut writer);
        sayable(written, &writer).map_err(|reason| CallError::Arguments { reason })?;
        open.finish(buffer);
        Ok(())
    }

    /// The error for a request of that size that could not be written, or its id if the server has answered it all the same.
    ///
    /// `write_all` fails only before the kernel took the last byte, so the server cannot have carried the request out. A server that
    /// rejects a request before reading all of it may have sent the reason before it closed: the reason is in the socket, or with the
    /// thread that reads.
    fn write_failed(&self, (id, call): (u32, &Call<'_>), octets: usize, error: &io::Error) -> Result<u32, CallError> {
        let (is_answered, closed) = {
            let mut replies = lock(&self.replies);
            if !is_timeout(error) {
                // Ends the wait of another thread that reads, behind what has arrived.
                let _ = self.stream.shutdown();
                let mut input = loop {
                    match replies.input.take() {
                        Some(input) => break input,
                        None => replies = self.wait_for_reader(replies, None),
                    }
                };
                // Whether the connection is whole is known already.
                let _ = self.read_what_is_there(&mut input.inbound).and_then(|()| replies.dispatch(&mut input.inbound));
                replies.input = Some(input);
            }
            (replies.arrived.iter().any(|(of, _)| *of == id), replies.requests.closed())
        };
        self.fail(Broken::cut(error));
        match (call.limit, closed) {
            _ if is_answered => Ok(id),
            (_, Some(Closed::Refused)) => {
                let reason = format!("{}, while a request of {octets} octets was sent to it", Closed::Refused);
                Err(CallError::Lost { reason, completed: Completed::Maybe })
            }
            (Some(limit), _) if is_timeout(error) => Err(CallError::TimedOut { limit }),
            _ => Err(CallError::NotSent { reason: error.to_string() }),
        }
    }

    fn wait(&self, id: u32, limit: Option<Duration>, started: Instant) -> Result<RawReply, CallError> {
        let mut left = limit;
        let mut replies = lock(&self.replies);
        loop {
            if let Some(reply) = replies.take_reply(id) {
                if replies.awaited() > 0 {
                    // Another caller has to read on.
                    self.arrived.notify_all();
                }
                return Ok(reply);
            }
            if let Some(broken) = replies.broken.clone() {
                return Err(broken.into());
            }
            if left == Some(Duration::ZERO) {
                replies.requests.give_up(id);
                let closed = replies.requests.closed();
                drop(replies);
                if let Some(closed) = closed {
                    self.fail(closed.into());
                }
                self.arrived.notify_all();
                self.cancel(id);
                return Err(CallError::TimedOut { limit: limit.unwrap_or_default() });
            }
            replies = match replies.input.take() {
                Some(mut input) => {
                    drop(replies);
                    let outcome = self.read_once(&mut input, left);
                    let mut replies = lock(&self.replies);
                    let outcome = outcome.and_then(|()| replies.dispatch(&mut input.inbound));
                    replies.input = Some(input);
                    if let Err(broken) = outcome {
                        drop(replies);
                        self.fail(broken);
                        replies = lock(&self.replies);
                    }
                    if replies.awaited() > 1 {
                        self.arrived.notify_all();
                    }
                    replies
                }
                None => self.wait_for_reader(replies, left),
            };
            left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        }
    }

    /// Cancels the request at the server (CORBA 3.3 part 2, 9.4.4), so that a waiting `pull` does not take the next event.
    fn cancel(&self, id: u32) {
        let mut cancel = Vec::with_capacity(16);
        message::cancel_request(&mut cancel, self.version, Endian::NATIVE, id);
        let _output = lock(&self.output);
        if self.is_broken() {
            return;
        }
        if let Err(error) = (&self.stream).write_all(&cancel) {
            self.fail(Broken::cut(&error));
        }
    }

    fn wait_for_reader<'a>(
        &self,
        replies: std::sync::MutexGuard<'a, Replies>,
        left: Option<Duration>,
    ) -> std::sync::MutexGuard<'a, Replies> {
        match left {
            None => self.arrived.wait(replies).unwrap_or_else(PoisonError::into_inner),
            Some(left) => self.arrived.wait_timeout(replies, left).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    /// One `read`. A time limit that passes is not an error here: the caller looks at the clock.
    fn read_once(&self, input: &mut Input, left: Option<Duration>) -> Result<(), Broken> {
        if !close_enough(input.timeout, left) {
            let timeout = left.map(|left| left.max(Duration::from_millis(1)));
            self.stream.tcp().set_read_timeout(timeout).map_err(|error| Broken::cut(&error))?;
            input.timeout = timeout;
        }
        match (&self.stream).read(input.inbound.space()) {
            Ok(0) => Err(Closed::Cut.into()),
            Ok(n) => {
                input.inbound.filled(n);
                Ok(())
            }
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(Broken::cut(&error)),
        }
    }

    /// Notices that the server closed the connection while it was idle, so that the next request goes over a new one
    /// instead of being lost. Called with `output` held, so no thread writes; skipped if a caller waits for a reply.
    fn look_at_idle_socket(&self) {
        let mut replies = lock(&self.replies);
        if replies.awaited() > 0 || replies.broken.is_some() {
            return;
        }
        let Some(mut input) = replies.input.take() else { return };
        let outcome = self.read_what_is_there(&mut input.inbound).and_then(|()| replies.dispatch(&mut input.inbound));
        replies.input = Some(input);
        drop(replies);
        if let Err(broken) = outcome {
            self.fail(broken);
        }
    }

    fn read_what_is_there(&self, inbound: &mut Inbound) -> Result<(), Broken> {
        self.stream.tcp().set_nonblocking(true).map_err(|error| Broken::cut(&error))?;
        let outcome = match (&self.stream).read(inbound.space()) {
            // No caller waits: nothing is lost.
            Ok(0) => Err(Closed::Orderly.into()),
            Ok(n) => {
                inbound.filled(n);
                Ok(())
            }
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(Broken::cut(&error)),
        };
        self.stream.tcp().set_nonblocking(false).map_err(|error| Broken::cut(&error))?;
        outcome
    }

    fn fail(&self, broken: Broken) {
        let mut farewell = Vec::new();
        {
            let mut replies = lock(&self.replies);
            replies.requests.cut();
            if replies.broken.is_none() {
                replies.requests.refuse(&mut farewell);
                replies.broken = Some(broken);
            }
        }
        if !farewell.is_empty() {
            // The peer may be gone already.
            let _ = (&self.stream).write(&farewell);
        }
        self.broken.store(true, Ordering::Release);
        let _ = self.stream.shutdown();
        self.arrived.notify_all();
    }

    fn broken_reason(&self) -> String {
        lock(&self.replies).broken.as_ref().map_or_else(String::new, |broken| broken.reason.clone())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Tells the server that nothing is lost: GIOP 1.2 clients close in an orderly way too (CORBA 3.3 part 2, 9.4.7).
        let mut farewell = Vec::new();
        if lock(&self.replies).requests.close(self.version, &mut farewell) {
            let _ = (&self.stream).write(&farewell);
        }
    }
}

impl Replies {
    /// Hands every complete message to its waiting caller.
    fn dispatch(&mut self, inbound: &mut Inbound) -> Result<(), Broken> {
        while let Some(event) = self.requests.poll(inbound) {
            match event {
                Event::Reply { reply, message, .. } => {
                    let mut bytes = self.spare.pop().unwrap_or_default();
                    bytes.clear();
                    bytes.extend_from_slice(message.bytes);
                    let (header, status, body_offset) = (message.header, reply.status, reply.body_offset);
                    self.arrived.push((reply.request_id, RawReply { header, status, body_offset, bytes }));
                }
                Event::Closed(closed) => return Err(closed.into()),
                // No caller waits for a late reply, and the others are none that a caller gets.
                Event::LateReply { .. } | Event::Request(_) | Event::Locate { .. } | Event::Cancel { .. } => {}
            }
        }
        Ok(())
    }

    /// Number of callers without their reply, arrived or not.
    fn awaited(&self) -> usize {
        self.requests.waiting() + self.arrived.len()
    }

    fn take_reply(&mut self, id: u32) -> Option<RawReply> {
        let at = self.arrived.iter().position(|(of, _)| *of == id)?;
        Some(self.arrived.swap_remove(at).1)
    }
}

impl Broken {
    fn cut(error: &io::Error) -> Self {
        Self { reason: error.to_string(), closed: Closed::Cut }
    }
}

impl From<Closed> for Broken {
    fn from(closed: Closed) -> Self {
        Self { reason: closed.to_string(), closed }
    }
}

impl From<Broken> for CallError {
    fn from(broken: Broken) -> Self {
        match (broken.closed, broken.closed.completed()) {
            (Closed::Violation(_), _) => Self::Bad { reason: broken.reason },
            (_, Completed::No) => Self::NotSent { reason: broken.reason },
            (_, completed) => Self::Lost { reason: broken.reason, completed },
        }
    }
}

/// Limits for a peer: one message of that size, in fragments or whole.
pub(crate) fn limits(message_bytes_max: usize) -> Limits {
    Limits { message_bytes_max, fragment_bytes_max: message_bytes_max, ..Limits::default() }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether the socket's time limit can stay: a saved system call per call is worth a limit up to an eighth too long.
fn close_enough(set: Option<Duration>, wanted: Option<Duration>) -> bool {
    match (set, wanted) {
        (None, None) => true,
        (Some(set), Some(wanted)) => set >= wanted && set - wanted <= set / 8,
        _ => false,
    }
}

/// A connection shared by objects.
pub(crate) type SharedConnection = Arc<Connection>;

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use testing::AcceptInTime;

    use super::*;

    #[test]
    fn time_limit_is_set_again_only_when_it_differs_much() {
        let seconds = |s| Some(Duration::from_secs(s));
        assert!(close_enough(seconds(8), seconds(8)));
        assert!(close_enough(seconds(8), seconds(7)));
        assert!(!close_enough(seconds(8), seconds(6)));
        assert!(!close_enough(seconds(8), seconds(9)));
        assert!(!close_enough(None, seconds(9)));
        assert!(close_enough(None, None));
    }

    const PING: Call<'_> =
        Call { key: b"key", operation: "ping", response: Response::Expected, limit: None, priority: None };

    fn reply(stream: &mut TcpStream, request_id: u32) {
        let (version, endian, status) = (Version::V1_2, Endian::Big, ReplyStatus::NoException);
        let mut buffer = Vec::new();
        let head = message::ReplyHead { version, endian, request_id, status, contexts: &[] };
        message::begin_reply(&mut buffer, &head).finish(&mut buffer);
        stream.write_all(&buffer).unwrap();
    }

    /// A connection to a server that answers `replies` requests and then does `finally`.
    fn connected(replies: u32, finally: impl FnOnce(&mut TcpStream) + Send + 'static) -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut stream = listener.accept_in_time();
            let mut inbound = Inbound::new(Limits::default());
            for request_id in 1..=replies {
                while inbound.poll_message().unwrap().is_none() {
                    let n = stream.read(inbound.space()).unwrap();
                    inbound.filled(n);
                }
                reply(&mut stream, request_id);
            }
            finally(&mut stream);
        });
        let stream = TcpStream::connect(address).unwrap();
        let address = address.to_string();
        let (version, chars) = (Version::V1_2, CharSet::Latin1);
        let line =
            Opened { stream: Wire::Plain(stream), address, version, chars, first: Vec::new(), key: Arc::default() };
        Connection::new(line, &OrbOptions::default()).unwrap()
    }

    fn ping(connection: &Connection) -> Result<Option<RawReply>, CallError> {
        connection.call(&PING, &|_| Ok(()))
    }

    /// Makes the connection look unused for long, once what the server did last has arrived.
    fn grow_idle(connection: &Connection) {
        connection.stream.tcp().peek(&mut [0]).unwrap();
        lock(&connection.output).last_used -= IDLE_BEFORE_CHECK * 2;
    }

    #[test]
    fn connection_closed_while_idle_is_noticed_before_a_request_is_lost() {
        let connection = connected(1, |_| ());
        ping(&connection).unwrap();
        grow_idle(&connection);
        assert!(matches!(ping(&connection), Err(CallError::NotSent { .. })));
        assert!(connection.is_broken());
    }

    #[test]
    fn a_close_received_while_idle_is_noticed() {
        let connection = connected(1, |stream| {
            let mut farewell = Vec::new();
            message::close_connection(&mut farewell, Version::V1_2);
            stream.write_all(&farewell).unwrap();
            // Still open: it is the message that counts.
            let _ = stream.read(&mut [0; 64]);
        });
        ping(&connection).unwrap();
        grow_idle(&connection);
        assert!(matches!(ping(&connection), Err(CallError::NotSent { .. })));
    }

    /// The refusal of a request that is too large was lost where another thread was reading: it looked like a restart.
    #[test]
    fn what_the_server_said_before_a_write_failed_counts_although_another_thread_reads_it() {
        let connection = connected(0, |stream| {
            reply(stream, 1);
            let _ = stream.read(&mut [0; 64]);
        });
        let id = lock(&connection.replies).requests.sent(Some(()));
        let mut input = lock(&connection.replies).input.take().unwrap();
        connection.stream.tcp().peek(&mut [0]).unwrap();
        std::thread::scope(|scope| {
            let failing =
                scope.spawn(|| connection.write_failed((id, &PING), 1 << 20, &io::ErrorKind::BrokenPipe.into()));
            // The one that reads has got it, and is slow to hand it over.
            while connection.read_once(&mut input, None).is_ok() {}
            let mut replies = lock(&connection.replies);
            let _ = replies.dispatch(&mut input.inbound);
            replies.input = Some(input);
            drop(replies);
            connection.arrived.notify_all();
            assert_eq!(failing.join().unwrap().unwrap(), id);
        });
        assert_eq!(connection.wait(id, None, Instant::now()).unwrap().status, ReplyStatus::NoException);
    }

    #[test]
    fn connection_that_was_only_idle_is_used_again() {
        let connection = connected(2, |_| ());
        ping(&connection).unwrap();
        lock(&connection.output).last_used -= IDLE_BEFORE_CHECK * 2;
        ping(&connection).unwrap();
    }
}

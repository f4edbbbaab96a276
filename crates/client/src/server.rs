//! The listening socket behind servants: a thread that accepts, and one for each connection accepted.
//!
//! Everything a peer can send is answered or ends its connection only: bytes that are not GIOP and replies nobody asked
//! for get `MessageError`, an unknown key `OBJECT_NOT_EXIST`, unreadable arguments `MARSHAL`. What a header announces is
//! not allocated before it arrives (the framing sees to that), and connections are bounded
//! ([`OrbOptions::connections_max`](crate::OrbOptions::connections_max)).
//!
//! Replies to requests that arrived together leave together, but not later than a millisecond after the first of them
//! was ready.

use crate::connection::limits;
use crate::servant::{Activation, Servant, ServantError};
use crate::{Orb, OrbOptions, lock};
use giop::cdr::{CharSet, Endian, Reader, Version};
use giop::codeset::{self, CodeSetInfo};
use giop::exception::{Completed, Kind, SystemException};
use giop::framing::{Inbound, Message};
use giop::ior::{IiopProfile, Ior, Profile};
use giop::message::{
    self, LocateRequest, LocateStatus, MessageKind, ReplyHead, ReplyStatus, Request, Response, ServiceContexts,
};
use giop::realtime::{self, PriorityModelPolicy};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Replies gathered before they are written although more requests are at hand.
const GATHER_BYTES_MAX: usize = 64 * 1024;
const GATHER_TIME_MAX: Duration = Duration::from_millis(1);

/// The output buffer is shrunk to this after larger replies.
const OUTPUT_BYTES_RETAINED: usize = 1024 * 1024;

/// Pause after `accept` failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const OBJECT_ID: &str = "IDL:omg.org/CORBA/Object:1.0";

/// The socket and its threads; they end when this is dropped.
pub(crate) struct Server {
    table: Arc<Table>,
    address: SocketAddr,
    host: String,
    prefix: Vec<u8>,
    next_key: AtomicU64,
}

/// What the threads share: servants by object key, and the connections open.
pub(crate) struct Table {
    servants: RwLock<HashMap<Vec<u8>, Arc<dyn Servant>>>,
    connections: Mutex<HashMap<u64, TcpStream>>,
    stopping: AtomicBool,
    stopped: Condvar,
    message_bytes_max: usize,
    connections_max: usize,
}

impl Table {
    pub(crate) fn remove(&self, key: &[u8]) {
        self.servants.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn find(&self, key: &[u8]) -> Option<Arc<dyn Servant>> {
        self.servants.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

impl Server {
    /// Listens. `reached_from` goes into references if neither `listen` nor the options name an address.
    pub(crate) fn start(listen: &str, reached_from: IpAddr, options: &OrbOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let table = Arc::new(Table {
            servants: RwLock::default(),
            connections: Mutex::default(),
            stopping: AtomicBool::new(false),
            stopped: Condvar::new(),
            message_bytes_max: options.message_bytes_max,
            connections_max: options.connections_max,
        });
        let shared = table.clone();
        thread::Builder::new().name("client-accept".to_owned()).spawn(move || accept(&listener, &shared))?;
        let ip = if address.ip().is_unspecified() { reached_from } else { address.ip() };
        let host = options.advertise.clone().unwrap_or_else(|| ip.to_string());
        // Keys of another run of the program must not reach this one's objects, so they differ from run to run.
        let nonce = RandomState::new().build_hasher().finish();
        let prefix = format!("client-{nonce:016x}-").into_bytes();
        Ok(Self { table, address, host, prefix, next_key: AtomicU64::new(0) })
    }

    /// `policy` is told in the reference, as the priority model of the servant.
    pub(crate) fn activate(
        &self,
        orb: Orb,
        servant: Arc<dyn Servant>,
        policy: Option<PriorityModelPolicy>,
    ) -> Activation {
        let mut key = self.prefix.clone();
        key.extend_from_slice(self.next_key.fetch_add(1, Ordering::Relaxed).to_string().as_bytes());
        let code_sets = CodeSetInfo::campanile().to_component();
        let profile = IiopProfile {
            version: Version::V1_2,
            host: self.host.clone(),
            port: self.address.port(),
            key: key.clone(),
            components: std::iter::once(code_sets).chain(policy.map(PriorityModelPolicy::to_component)).collect(),
        };
        let ior = Ior { type_id: servant.type_id().to_owned(), profiles: vec![Profile::Iiop(profile)] };
        self.table.servants.write().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), servant);
        Activation { reference: orb.object(ior), orb, table: self.table.clone(), key }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.table.stopping.store(true, Ordering::Release);
        {
            let connections = lock(&self.table.connections);
            #[expect(clippy::iter_over_hash_type, reason = "the order in which connections are closed does not matter")]
            for stream in connections.values() {
                let _ = stream.shutdown(Shutdown::Both);
            }
            self.table.stopped.notify_all();
        }
        // `accept` has no time limit: a connection of our own wakes it up.
        let ip = match self.address {
            SocketAddr::V4(address) if address.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(address) if address.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            address => address.ip(),
        };
        let _ = TcpStream::connect_timeout(&SocketAddr::new(ip, self.address.port()), Duration::from_secs(1));
    }
}

fn accept(listener: &TcpListener, table: &Arc<Table>) {
    let mut next_id = 0_u64;
    loop {
        let accepted = listener.accept();
        if table.stopping.load(Ordering::Acquire) {
            return;
        }
        let opened = accepted.and_then(|(stream, _peer)| open(stream, next_id, table));
        next_id += 1;
        if opened.is_err() {
            // Not in a tight circle: what is lacking, descriptors or threads, comes back with time.
            let connections = lock(&table.connections);
            drop(table.stopped.wait_timeout(connections, ACCEPT_PAUSE));
        }
    }
}

fn open(stream: TcpStream, id: u64, table: &Arc<Table>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    {
        let mut connections = lock(&table.connections);
        if connections.len() >= table.connections_max {
            return Ok(());
        }
        connections.insert(id, stream.try_clone()?);
    }
    let shared = table.clone();
    let spawned = thread::Builder::new().name("client-servant".to_owned()).spawn(move || {
        let _registered = Registered { id, table: shared.clone() };
        // However the connection ended, there is nobody to tell: the peer sees it closed.
        let _ = Conversation::new(&stream, &shared).run();
        let _ = stream.shutdown(Shutdown::Both);
    });
    if spawned.is_err() {
        lock(&table.connections).remove(&id);
    }
    spawned.map(|_| ())
}

/// Takes the connection off the list even if a servant panics.
struct Registered {
    id: u64,
    table: Arc<Table>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.table.connections).remove(&self.id);
    }
}

/// One connection's state.
struct Conversation<'a> {
    stream: &'a TcpStream,
    table: &'a Table,
    answers: Answers<'a>,
}

/// Replies not written yet, and what they depend on.
struct Answers<'a> {
    table: &'a Table,
    output: Vec<u8>,
    chars: CharSet,
    gathering_since: Option<Instant>,
}

/// What to do after a message.
enum Next {
    Continue,
    Close,
}

impl<'a> Conversation<'a> {
    fn new(stream: &'a TcpStream, table: &'a Table) -> Self {
        let answers = Answers { table, output: Vec::new(), chars: CharSet::Latin1, gathering_since: None };
        Self { stream, table, answers }
    }

    fn run(mut self) -> io::Result<()> {
        let mut inbound = Inbound::new(limits(self.table.message_bytes_max));
        loop {
            loop {
                match inbound.poll_message() {
                    Ok(Some(message)) => match self.answers.handle(&message) {
                        Next::Continue => {
                            if self.answers.are_due() {
                                self.flush()?;
                            }
                        }
                        Next::Close => return self.flush(),
                    },
                    Ok(None) => break,
                    Err(_) => {
                        message::message_error(&mut self.answers.output, Version::V1_0);
                        return self.flush();
                    }
                }
            }
            self.flush()?;
            match self.stream.read(inbound.space()) {
                Ok(0) => return Ok(()),
                Ok(n) => inbound.filled(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
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
    /// Whether replies have waited long enough for others to join them.
    fn are_due(&mut self) -> bool {
        if self.output.is_empty() {
            return false;
        }
        let now = Instant::now();
        let since = *self.gathering_since.get_or_insert(now);
        self.output.len() >= GATHER_BYTES_MAX || now.saturating_duration_since(since) >= GATHER_TIME_MAX
    }

    fn handle(&mut self, message: &Message<'_>) -> Next {
        match message.header.kind {
            MessageKind::Request => self.handle_request(message),
            MessageKind::LocateRequest => match LocateRequest::parse(message.bytes, &message.header) {
                Ok(request) => {
                    let found = request.target.key().is_some_and(|key| self.table.find(key).is_some());
                    let status = if found { LocateStatus::ObjectHere } else { LocateStatus::UnknownObject };
                    let header = &message.header;
                    message::locate_reply(&mut self.output, header.version, header.endian, request.request_id, status);
                    Next::Continue
                }
                Err(_) => self.refuse_message(message),
            },
            // Requests are carried out in the order they come, so one that is cancelled has been answered or will be:
            // CORBA leaves the choice to the server.
            MessageKind::CancelRequest => Next::Continue,
            MessageKind::CloseConnection | MessageKind::MessageError => Next::Close,
            MessageKind::Reply | MessageKind::LocateReply | MessageKind::Fragment => self.refuse_message(message),
        }
    }

    fn refuse_message(&mut self, message: &Message<'_>) -> Next {
        message::message_error(&mut self.output, message.header.version);
        Next::Close
    }

    fn handle_request(&mut self, message: &Message<'_>) -> Next {
        let header = &message.header;
        let Ok(request) = Request::parse(message.bytes, header) else { return self.refuse_message(message) };
        if let Some(data) = request.contexts.find(ServiceContexts::CODE_SETS)
            && let Ok(chars) = codeset::parse_context(data)
        {
            self.chars = chars;
        }
        let priority = request.contexts.find(ServiceContexts::RT_CORBA_PRIORITY);
        let priority = priority.and_then(|data| realtime::parse_priority_context(data).ok());
        // The reply tells the priority of the request, as Real-time CORBA has it.
        let echo = priority.map(|priority| realtime::priority_context(priority, Endian::NATIVE));
        let echo = echo.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
        let head = ReplyHead {
            version: header.version,
            endian: Endian::NATIVE,
            request_id: request.request_id,
            status: ReplyStatus::NoException,
            contexts: echo.as_slice(),
        };
        let start = self.output.len();
        let open = message::begin_reply(&mut self.output, &head);
        let mut args = request.body(message.bytes, header, self.chars);
        // Looked up for each request, since a servant may have been deactivated meanwhile.
        let outcome = match request.target.key().and_then(|key| self.table.find(key)) {
            Some(servant) => {
                let mut reply = open.body(&mut self.output, self.chars);
                invoke(&*servant, priority, request.operation, &mut args, &mut reply)
            }
            None => Err(ServantError::system(Kind::ObjectNotExist)),
        };
        match outcome {
            // To answer SYNC_WITH_SERVER with the results does no harm: nobody reads them.
            Ok(()) if request.response != Response::None => open.finish(&mut self.output),
            Err(error) if request.response != Response::None => {
                self.output.truncate(start);
                self.raise(head, &error);
            }
            _ => self.output.truncate(start),
        }
        Next::Continue
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

/// The operations of every object first, then the servant's own.
fn invoke(
    servant: &dyn Servant,
    priority: Option<i16>,
    operation: &[u8],
    args: &mut Reader<'_>,
    reply: &mut giop::cdr::Writer<'_>,
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

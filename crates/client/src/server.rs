//! The listening socket of servants: a thread that accepts, and one for each accepted connection, which is a [`Conversation`].
//!
//! Any input of a peer is answered or ends its connection only: bytes that are not GIOP and unrequested replies get `MessageError`, an
//! unknown key `OBJECT_NOT_EXIST`, unreadable arguments `MARSHAL`. A size in a header is not allocated before the octets arrive (see the
//! framing), and connections are limited ([`OrbOptions::connections_max`](crate::OrbOptions::connections_max)).

use crate::conversation::Conversation;
use crate::servant::{Activation, Servant};
use crate::simple::Waker;
use crate::wire::{ServantTls, Wire};
use crate::{Orb, OrbOptions, lock, random};
use giop::cdr::{CharSet, Version};
use giop::codeset::CodeSetInfo;
use giop::ior::{Component, IiopProfile, Ior, ORB_TYPE_CAMPANILE, Profile, SecureTransport};
use giop::realtime::PriorityModelPolicy;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

/// Pause after a failed `accept`, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time limit of a peer for each step of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The socket and its threads, which end on drop.
pub(crate) struct Server {
    table: Arc<Table>,
    address: SocketAddr,
    host: String,
    prefix: Vec<u8>,
    next_key: AtomicU64,
}

/// State shared by the threads: servants by object key, and the open connections.
pub(crate) struct Table {
    servants: RwLock<HashMap<Vec<u8>, Arc<dyn Servant>>>,
    /// Number of servants with early operations.
    early: AtomicU64,
    connections: Mutex<HashMap<u64, TcpStream>>,
    stopping: AtomicBool,
    stopped: Condvar,
    pub(crate) message_bytes_max: usize,
    connections_max: usize,
    pub(crate) idle_limit: Option<Duration>,
    /// TLS; if set, no connection is served in the clear.
    tls: Option<Arc<dyn ServantTls>>,
    /// Changes with each change of the servants.
    version: AtomicU64,
    pub(crate) counters: Counters,
    /// Woken when a connection ends.
    waker: Arc<Waker>,
}

/// Counts of all connections together.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) one_ways: AtomicU64,
    pub(crate) answered_early: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) connections_dropped: AtomicU64,
}

impl Table {
    pub(crate) fn remove(&self, key: &[u8]) {
        let removed = self.servants.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        if removed.is_some_and(|servant| !servant.early_operations().is_empty()) {
            self.early.fetch_sub(1, Ordering::Relaxed);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    fn add(&self, key: Vec<u8>, servant: Arc<dyn Servant>) {
        if !servant.early_operations().is_empty() {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        self.servants.write().unwrap_or_else(PoisonError::into_inner).insert(key, servant);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Whether any servant has early operations. A servant counts from its activation, before its reference is given away.
    pub(crate) fn answers_early(&self) -> bool {
        self.early.load(Ordering::Relaxed) > 0
    }

    /// The version, read before servants are looked up: while it stays the same, the lookups are valid.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether the peer of a connection may call servants.
    fn admits(&self, wire: &Wire) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.admits(wire.peer_names().as_ref()))
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<Arc<dyn Servant>> {
        self.servants.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

impl Server {
    /// Listens. `reached_from` is used in references if neither `listen` nor the options name an address; `waker` is woken when a
    /// connection ends.
    pub(crate) fn start(
        listen: &str,
        reached_from: IpAddr,
        options: &OrbOptions,
        tls: Option<Arc<dyn ServantTls>>,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let table = Arc::new(Table {
            servants: RwLock::default(),
            early: AtomicU64::new(0),
            connections: Mutex::default(),
            stopping: AtomicBool::new(false),
            stopped: Condvar::new(),
            message_bytes_max: options.message_bytes_max,
            connections_max: options.connections_max,
            idle_limit: options.idle_limit.filter(|limit| !limit.is_zero()),
            tls,
            version: AtomicU64::new(0),
            counters: Counters::default(),
            waker,
        });
        let shared = table.clone();
        thread::Builder::new().name("client-accept".to_owned()).spawn(move || accept(&listener, &shared))?;
        let ip = if address.ip().is_unspecified() { reached_from } else { address.ip() };
        let host = options.advertise.clone().unwrap_or_else(|| ip.to_string());
        // Keys of another run of the program must not reach this one's objects, nor may others guess them.
        let nonce = u128::from_ne_bytes(random::octets()?);
        let prefix = format!("client-{nonce:032x}-").into_bytes();
        Ok(Self { table, address, host, prefix, next_key: AtomicU64::new(0) })
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.table.counters
    }

    /// Activates a servant; `policy` is its priority model in the reference.
    pub(crate) fn activate(
        &self,
        orb: Orb,
        servant: Arc<dyn Servant>,
        policy: Option<PriorityModelPolicy>,
    ) -> Activation {
        let mut key = self.prefix.clone();
        key.extend_from_slice(self.next_key.fetch_add(1, Ordering::Relaxed).to_string().as_bytes());
        self.activate_as(orb, key, servant, policy)
    }

    /// Whether a servant has that key.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.table.find(key).is_some()
    }

    /// Activates a servant with that key.
    pub(crate) fn activate_as(
        &self,
        orb: Orb,
        key: Vec<u8>,
        servant: Arc<dyn Servant>,
        policy: Option<PriorityModelPolicy>,
    ) -> Activation {
        let code_sets = CodeSetInfo::preferring(CharSet::Utf8).to_component();
        let port = self.address.port();
        let secure = self.table.tls.as_ref().map(|_| {
            let options = SecureTransport::PROTECTION | SecureTransport::TRUST_IN_CLIENT;
            SecureTransport { supports: options | SecureTransport::TRUST_IN_TARGET, requires: options, port }
        });
        let profile = IiopProfile {
            version: Version::V1_2,
            host: self.host.clone(),
            port: if secure.is_some() { 0 } else { port },
            key: key.clone(),
            components: [Component::orb_type(ORB_TYPE_CAMPANILE), code_sets]
                .into_iter()
                .chain(policy.map(PriorityModelPolicy::to_component))
                .chain(secure.map(SecureTransport::to_component))
                .collect(),
        };
        let ior = Ior { type_id: servant.type_id().to_owned(), profiles: vec![Profile::Iiop(profile)] };
        self.table.add(key.clone(), servant);
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
    stream.set_read_timeout(table.idle_limit)?;
    stream.set_write_timeout(table.idle_limit)?;
    {
        let mut connections = lock(&table.connections);
        if connections.len() >= table.connections_max {
            table.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        connections.insert(id, stream.try_clone()?);
    }
    let shared = table.clone();
    let spawned = thread::Builder::new().name("client-servant".to_owned()).spawn(move || {
        let _registered = Registered { id, table: shared.clone() };
        let Ok(wire) = wire(stream, &shared) else {
            shared.counters.connections_dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // However the connection ended, no error is reported: the peer sees it closed.
        let _ = Conversation::new(&wire, &shared, shared.admits(&wire)).run();
        let _ = wire.shutdown();
    });
    if spawned.is_err() {
        lock(&table.connections).remove(&id);
    }
    spawned.map(|_| ())
}

/// The connection, after its handshake if TLS is on.
fn wire(stream: TcpStream, table: &Table) -> io::Result<Wire> {
    let Some(tls) = &table.tls else { return Ok(Wire::Plain(stream)) };
    let end = tls.end().map_err(io::Error::other)?;
    let session = end.session().map_err(io::Error::other)?;
    Wire::secure(stream, session, Some(HANDSHAKE))
}

/// Removes the connection from the list, even if a servant panics.
struct Registered {
    id: u64,
    table: Arc<Table>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.table.connections).remove(&self.id);
        self.table.waker.wake();
    }
}

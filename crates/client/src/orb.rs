//! The orb: resolves references, shares connections and serves servants.

use crate::connection::{Connection, SharedConnection};
use crate::error::InvokeError;
use crate::object::{ObjectRef, Target};
use crate::servant::{Activation, Servant};
use crate::server::{Counters, Server};
use crate::simple::Watch;
use crate::wire::{Ends, OrbTls, ServantTls, Wire};
use crate::{lock, naming};
use core::fmt;
use giop::cdr::{CharSet, Endian, Version};
use giop::ior::{IiopProfile, Ior, Profile};
use giop::message::ServiceContexts;
use giop::realtime::PriorityModelPolicy;
use giop::url::{Corbaloc, Url};
use giop::{client_name, codeset};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// The default port of CORBA services found by `corbaloc`, and of `campanile serve`.
pub const DEFAULT_PORT: u16 = 2809;

/// Settings of an [`Orb`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrbOptions {
    /// The client's name in the service's logs, statistics and metrics. `None`, the default, is the program's name, `@` and the host's. An
    /// empty or invalid text ([`client_name::check`]) is not sent. The name gives no rights.
    pub name: Option<String>,
    /// Where to listen for calls on servants, `host:port`; port 0 takes a free one. `None`, the default, listens on a
    /// free port of the address over which the first server was reached, or of the loopback if there was none: the
    /// address at which that server can call back. The socket is opened for the first servant.
    pub listen: Option<String>,
    /// The host name or address written into references to servants. Default: the address listened on; when that is a
    /// wildcard such as `0.0.0.0`, the address over which the first server was reached.
    pub advertise: Option<String>,
    /// The address of this host from which connections are made, for services that know their clients by it. Default: the operating
    /// system's choice.
    pub from: Option<IpAddr>,
    /// Longest time to connect to one address. Default 5 s.
    pub connect_timeout: Duration,
    /// Longest time from a request to its reply, and to hand a request to the operating system; `None` waits for ever.
    /// Default 60 s: a service may hold a supplier back for a slow consumer.
    pub reply_timeout: Option<Duration>,
    /// Largest message accepted, in octets. Default 64 MiB.
    pub message_bytes_max: usize,
    /// Connections to servants accepted at a time; further ones are closed at once. Default 256.
    pub connections_max: usize,
    /// Longest time for which a connection to servants may send nothing, take to send a message, or take no reply; then it is closed. Default: no
    /// limit.
    pub idle_limit: Option<Duration>,
    /// TLS for all calls and for all connections to servants. Default: none, everything in the clear.
    pub tls: Option<OrbTls>,
}

impl Default for OrbOptions {
    fn default() -> Self {
        Self {
            name: None,
            listen: None,
            advertise: None,
            from: None,
            connect_timeout: Duration::from_secs(5),
            reply_timeout: Some(Duration::from_secs(60)),
            message_bytes_max: 64 * 1024 * 1024,
            connections_max: 256,
            idle_limit: None,
            tls: None,
        }
    }
}

/// The default name of a program: its own name and its host's.
#[must_use]
pub fn default_name() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    let host = rustix::system::uname();
    format!("{program}@{}", host.nodename().to_string_lossy()).chars().take(client_name::CHARS_MAX).collect()
}

/// Counts of requests to an orb's servants; from [`Orb::served`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests carried out, one-way or not.
    pub requests: u64,
    /// Requests carried out without a reply.
    pub one_ways: u64,
    /// Requests answered before they were carried out ([`Servant::early_operations`]).
    pub answered_early: u64,
    /// Requests refused without calling the servant: an earlier one had been refused, and the caller repeats them behind it; or the caller
    /// is not admitted ([`ServantTls::admits`]).
    pub refused: u64,
    /// Connections closed at once, beyond [`OrbOptions::connections_max`].
    pub connections_refused: u64,
    /// Connections ended for what came: it was not GIOP, too large, or did not come to its end in time.
    pub connections_dropped: u64,
}

/// Resolves references, shares connections among the objects at one address, and holds the program's servants.
///
/// A handle: clones are the same orb. Connections and servants' threads end with the last handle (objects and
/// activations hold one).
#[derive(Clone)]
pub struct Orb {
    inner: Arc<OrbInner>,
}

struct OrbInner {
    options: OrbOptions,
    /// The name sent to services.
    name: Option<String>,
    connections: Mutex<HashMap<EndPoint, SharedConnection>>,
    server: Mutex<Option<Server>>,
    /// Local address of the first connection.
    local_ip: Mutex<Option<IpAddr>>,
    /// TLS configuration, once needed, or the error of reading it.
    ends: OnceLock<Result<Ends, String>>,
    /// TLS of connections to servants, instead of that of the options.
    servant_tls: Option<Arc<dyn ServantTls>>,
    /// The watch over consumers; woken when a connection to servants ends.
    watch: Watch,
}

/// Properties that must be equal for objects to share a connection: code sets belong to the connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EndPoint {
    host: String,
    port: u16,
    version: Version,
    chars: CharSet,
    negotiated: bool,
}

/// The orbs shared by the consumers of one service, and by its suppliers.
static SHARED: Mutex<Vec<SharedOrb>> = Mutex::new(Vec::new());

/// Role of a shared orb. A supplier's objects are asked whether they exist, and must not wait for consumers' callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Consumers,
    Suppliers,
}

struct SharedOrb {
    /// The process that made it: after a fork, the child finds its parent's orb here, connections included.
    process: u32,
    role: Role,
    address: String,
    options: OrbOptions,
    orb: Weak<OrbInner>,
}

impl Orb {
    /// The process's orb for that service and role, with these settings; made if it does not exist. It carries connections and end point,
    /// so that a service has one connection to all consumers of the process.
    ///
    /// Chosen by address: an orb listens where the first service that it connected to can connect back.
    pub(crate) fn of_process(role: Role, address: &str, options: &OrbOptions) -> Self {
        let mut shared = lock(&SHARED);
        shared.retain(|shared| shared.orb.strong_count() > 0);
        let process = std::process::id();
        let is_it =
            |s: &&SharedOrb| s.process == process && s.role == role && s.address == address && s.options == *options;
        let found = shared.iter().find(is_it);
        if let Some(inner) = found.and_then(|shared| shared.orb.upgrade()) {
            return Self { inner };
        }
        let orb = Self::new(options.clone());
        let (address, options) = (address.to_owned(), options.clone());
        shared.push(SharedOrb { process, role, address, options, orb: Arc::downgrade(&orb.inner) });
        orb
    }

    /// Makes an orb. Opens nothing yet.
    #[must_use]
    pub fn new(options: OrbOptions) -> Self {
        Self::with_servant_tls(options, None)
    }

    /// Makes an orb whose servants have a TLS of their own, instead of that of the options.
    #[must_use]
    pub fn with_servant_tls(options: OrbOptions, servant_tls: Option<Arc<dyn ServantTls>>) -> Self {
        let name = options.name.clone().unwrap_or_else(default_name);
        Self {
            inner: Arc::new(OrbInner {
                name: client_name::check(&name).is_ok().then_some(name),
                options,
                connections: Mutex::default(),
                server: Mutex::default(),
                local_ip: Mutex::default(),
                ends: OnceLock::new(),
                servant_tls,
                watch: Watch::default(),
            }),
        }
    }

    /// The settings it was made with.
    #[must_use]
    pub fn options(&self) -> &OrbOptions {
        &self.inner.options
    }

    /// Makes an object from `IOR:…`, `corbaloc:…`, `corbaname:…`, or the path of a file with one of those, as it is or behind `file:` or
    /// `file://`.
    ///
    /// `corbaloc:rir:/KEY` means the local service: `corbaloc::127.0.0.1:2809/KEY`.
    ///
    /// # Errors
    /// [`InvokeError::BadAddress`] if the text is none of those; for `corbaname` also errors of the naming service.
    pub fn resolve(&self, text: &str) -> Result<ObjectRef, InvokeError> {
        let text = text.trim();
        if is_url(text) {
            return self.resolve_url(text);
        }
        let path = text.strip_prefix("file://").or_else(|| text.strip_prefix(FILE)).unwrap_or(text);
        match std::fs::read_to_string(Path::new(path)) {
            Ok(contents) if is_url(contents.trim()) => self.resolve_url(contents.trim()),
            Ok(_) => Err(bad_address(text, "the file holds no IOR:…, corbaloc:… or corbaname:…")),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.ends_with(IOR_FILE) => Err(bad_address(
                text,
                "there is no such file; the service writes it where its option --ior-file says so, when it is ready",
            )),
            Err(error) => Err(bad_address(
                text,
                &format!(
                    "it is neither IOR:…, corbaloc:… nor corbaname:…, and reading it as a file failed: {error}; write for \
                     example corbaloc::HOST:PORT/NotificationService"
                ),
            )),
        }
    }

    /// Makes an object as [`resolve`](Self::resolve) does, and also from `HOST` and `HOST:PORT` (default port 2809), which stand for
    /// `corbaloc::HOST:PORT/NotificationService`. An existing file of that name takes precedence.
    ///
    /// # Errors
    /// The same as of [`resolve`](Self::resolve).
    pub fn resolve_service(&self, text: &str) -> Result<ObjectRef, InvokeError> {
        let text = text.trim();
        if is_url(text)
            || text.starts_with(FILE)
            || Path::new(text).exists()
            || text.contains(['/', '\\'])
            || text.ends_with(IOR_FILE)
            || text.is_empty()
        {
            return self.resolve(text);
        }
        self.resolve_at(text, "NotificationService").map_err(|_| {
            bad_address(text, "expected HOST, HOST:PORT, corbaloc:…, corbaname:…, IOR:… or the path of an IOR file")
        })
    }

    /// The object with that key at `HOST` or `HOST:PORT`; the port is that of TLS if the orb uses it.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn resolve_at(&self, address: &str, key: &str) -> Result<ObjectRef, InvokeError> {
        let protocol = if self.inner.options.tls.is_some() { "ssliop:1.2@" } else { ":" };
        self.resolve_url(&format!("corbaloc:{protocol}{address}/{key}"))
    }

    /// Makes an object of a reference received in a reply or made by hand.
    #[must_use]
    pub fn object(&self, ior: Ior) -> ObjectRef {
        ObjectRef::new(self.clone(), ior)
    }

    /// Counts of requests to the servants so far. A connection's requests are counted after all that it read are carried out.
    #[must_use]
    pub fn served(&self) -> Served {
        let slot = lock(&self.inner.server);
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Acquire);
        slot.as_ref().map_or_else(Served::default, |server| {
            let Counters { requests, one_ways, answered_early, refused, connections_refused, connections_dropped } =
                server.counters();
            // In this order: a request that is in `requests` is in the other counts, too.
            Served {
                requests: read(requests),
                one_ways: read(one_ways),
                answered_early: read(answered_early),
                refused: read(refused),
                connections_refused: read(connections_refused),
                connections_dropped: read(connections_dropped),
            }
        })
    }

    /// Makes a servant callable and returns its reference. Opens the listening socket for the first one.
    ///
    /// The servant is called until the [`Activation`] is dropped; calls under way are finished.
    ///
    /// # Errors
    /// [`InvokeError::Listen`] if the socket cannot be opened.
    pub fn activate(&self, servant: Arc<dyn Servant>) -> Result<Activation, InvokeError> {
        self.activate_at(servant, None)
    }

    /// Makes a servant callable as [`activate`](Self::activate) does, with a key that callers know, as in `corbaloc`.
    ///
    /// # Errors
    /// The same as of [`activate`](Self::activate), or another servant has the key.
    pub fn activate_as(&self, key: &str, servant: Arc<dyn Servant>) -> Result<Activation, InvokeError> {
        self.with_server(|server| match server.has(key.as_bytes()) {
            false => Ok(server.activate_as(self.clone(), key.into(), servant, None)),
            true => Err(InvokeError::Listen {
                address: key.to_owned(),
                error: io::Error::new(io::ErrorKind::AlreadyExists, "another servant has this key"),
            }),
        })?
    }

    /// Makes a servant callable as [`activate`](Self::activate) does, with a Real-time CORBA priority model in the reference. With
    /// [`PriorityModel::ClientPropagated`](giop::realtime::PriorityModel::ClientPropagated) its callers send their priority, which
    /// [`Servant::invoke_at`] gets. The thread that serves a connection keeps its scheduling.
    ///
    /// # Errors
    /// The same as of [`activate`](Self::activate).
    pub fn activate_at(
        &self,
        servant: Arc<dyn Servant>,
        policy: Option<PriorityModelPolicy>,
    ) -> Result<Activation, InvokeError> {
        self.with_server(|server| server.activate(self.clone(), servant, policy))
    }

    /// Calls a function with the server, which is started for the first one.
    fn with_server<T>(&self, call: impl FnOnce(&Server) -> T) -> Result<T, InvokeError> {
        let mut slot = lock(&self.inner.server);
        if slot.is_none() {
            *slot = Some(self.listen()?);
        }
        let Some(server) = slot.as_ref() else {
            return Err(InvokeError::Listen { address: String::new(), error: io::Error::other("no socket") });
        };
        Ok(call(server))
    }

    /// The watch over the orb's consumers.
    pub(crate) fn watch(&self) -> &Watch {
        &self.inner.watch
    }

    fn listen(&self) -> Result<Server, InvokeError> {
        let options = &self.inner.options;
        let reached_from = lock(&self.inner.local_ip).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let address = options.listen.clone().unwrap_or_else(|| SocketAddr::new(reached_from, 0).to_string());
        let waker = self.inner.watch.waker().clone();
        let end: Result<Option<Arc<dyn ServantTls>>, _> = match (&self.inner.servant_tls, self.ends()) {
            (Some(tls), _) => Ok(Some(tls.clone())),
            (None, None) => Ok(None),
            (None, Some(Ok(Ends { server: Some(end), .. }))) => Ok(Some(Arc::new(end.clone()))),
            (None, Some(Ok(_))) => Err("over TLS, servants need a certificate and its key".to_owned()),
            (None, Some(Err(why))) => Err(why.clone()),
        };
        let started =
            end.map_err(io::Error::other).and_then(|end| Server::start(&address, reached_from, options, end, waker));
        started.map_err(|error| InvokeError::Listen { address, error })
    }

    /// The TLS configuration, or the error of reading it; `None` without TLS.
    fn ends(&self) -> Option<&Result<Ends, String>> {
        let tls = self.inner.options.tls.as_ref()?;
        Some(self.inner.ends.get_or_init(|| tls.read().map_err(|error| error.to_string())))
    }

    fn resolve_url(&self, text: &str) -> Result<ObjectRef, InvokeError> {
        let url: Url = text.parse().map_err(|error: giop::url::ParseUrlError| bad_address(text, &error.to_string()))?;
        match url {
            Url::Ior(ior) => Ok(self.object(ior)),
            Url::Corbaloc(location) => Ok(self.object(corbaloc_ior(&location))),
            Url::Corbaname { location, name } => {
                let context = naming::NamingContext::unchecked(self.object(corbaloc_ior(&location)));
                if name.is_empty() { Ok(context.object().clone()) } else { context.resolve_text(&name) }
            }
        }
    }

    /// Connects to the first reachable address of the reference.
    pub(crate) fn connect(&self, ior: &Ior, private: bool) -> Result<Target, InvokeError> {
        let (connection, key) = self.reach(ior, &|end_point| self.connection(end_point, private))?;
        Ok(Target { connection, key })
    }

    /// Connects as [`connect`](Self::connect) does, and leaves the protocol to the caller.
    pub(crate) fn connect_line(&self, ior: &Ior) -> Result<Opened, InvokeError> {
        let timeout = self.inner.options.connect_timeout;
        let (mut line, key) = self.reach(ior, &|end_point| self.dial(&end_point, timeout))?;
        line.key = key;
        Ok(line)
    }

    /// Connects as [`connect`](Self::connect) does, over a connection of its own, waiting for each address no longer than `limit`.
    pub(crate) fn connect_within(&self, ior: &Ior, limit: Duration) -> Result<Target, InvokeError> {
        let (connection, key) = self.reach(ior, &|end_point| self.open(&end_point, limit).map(Arc::new))?;
        Ok(Target { connection, key })
    }

    /// Opens the first reachable address of the reference; returns the result and the object's key there.
    fn reach<T>(&self, ior: &Ior, open: Open<'_, T>) -> Result<(T, Arc<[u8]>), InvokeError> {
        if ior.is_nil() {
            return Err(InvokeError::NoAddress { reason: "it is nil".to_owned() });
        }
        let mut failure = InvokeError::NoAddress { reason: "it has no IIOP profile".to_owned() };
        for profile in &ior.profiles {
            let Profile::Iiop(profile) = profile else { continue };
            match reach_profile(profile, &self.inner.options, open) {
                Ok(opened) => return Ok((opened, profile.key.as_slice().into())),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn connection(&self, end_point: EndPoint, private: bool) -> Result<SharedConnection, InvokeError> {
        let timeout = self.inner.options.connect_timeout;
        if private {
            return self.open(&end_point, timeout).map(Arc::new);
        }
        if let Some(connection) = lock(&self.inner.connections).get(&end_point)
            && !connection.is_broken()
        {
            return Ok(connection.clone());
        }
        // Connected without the lock, so that one dead server does not keep others from being reached. Should two
        // threads get here at once, the later connection replaces the earlier, which lives on with its caller.
        let connection = Arc::new(self.open(&end_point, timeout)?);
        lock(&self.inner.connections).insert(end_point, connection.clone());
        Ok(connection)
    }

    fn open(&self, end_point: &EndPoint, timeout: Duration) -> Result<Connection, InvokeError> {
        let line = self.dial(end_point, timeout)?;
        let address = line.address.clone();
        Connection::new(line, &self.inner.options).map_err(|error| InvokeError::NotReachable { address, error })
    }

    fn dial(&self, end_point: &EndPoint, timeout: Duration) -> Result<Opened, InvokeError> {
        let EndPoint { host, port, version, chars, negotiated } = end_point;
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let code_sets = negotiated.then(|| (ServiceContexts::CODE_SETS, codeset::context(*chars, Endian::NATIVE)));
        let name = self.inner.name.as_deref().map(|name| (ServiceContexts::CLIENT_NAME, client_name::context(name)));
        let dialled = dial(self.inner.options.from, host, *port, timeout);
        let stream = match dialled.and_then(|stream| self.secured(stream, host, timeout)) {
            Ok(stream) => stream,
            Err(error) => return Err(InvokeError::NotReachable { address, error }),
        };
        let mut local_ip = lock(&self.inner.local_ip);
        if local_ip.is_none() {
            *local_ip = stream.tcp().local_addr().ok().map(|address| address.ip());
        }
        let first = code_sets.into_iter().chain(name).collect();
        Ok(Opened { stream, address, version: *version, chars: *chars, first, key: Arc::default() })
    }
}

impl Orb {
    /// A connection after its TLS handshake, if TLS is on.
    fn secured(&self, stream: TcpStream, host: &str, timeout: Duration) -> io::Result<Wire> {
        match self.ends() {
            None => Ok(Wire::Plain(stream)),
            Some(Ok(ends)) => {
                stream.set_nodelay(true)?;
                let session = ends.client.session(host).map_err(io::Error::other)?;
                Wire::secure(stream, session, Some(timeout))
            }
            Some(Err(why)) => Err(io::Error::other(why.clone())),
        }
    }
}

/// A new, unused connection.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) stream: Wire,
    /// The peer as `host:port`.
    pub(crate) address: String,
    pub(crate) version: Version,
    pub(crate) chars: CharSet,
    /// Service contexts for the first request: the negotiated code sets, and the client's name, if any.
    pub(crate) first: Vec<(u32, Vec<u8>)>,
    /// Key of the object.
    pub(crate) key: Arc<[u8]>,
}

/// Opens a connection to a server.
type Open<'o, T> = &'o dyn Fn(EndPoint) -> Result<T, InvokeError>;

fn reach_profile<T>(profile: &IiopProfile, options: &OrbOptions, open: Open<'_, T>) -> Result<T, InvokeError> {
    // Code sets are negotiated from GIOP 1.1 on. CORBA 3.3 part 2, 7.10.2.
    let offered = if profile.version > Version::V1_0 { profile.code_sets() } else { None };
    let chars = codeset::negotiate_utf8(offered.as_ref())
        .map_err(|error| InvokeError::NoAddress { reason: error.to_string() })?;
    let mut failure = None;
    let secure = profile.secure_transport().map(|secure| secure.port);
    let addresses: Vec<(String, u16)> = match (options.tls.is_some(), secure) {
        (true, Some(port)) => vec![(profile.host.clone(), port)],
        (true, None) => {
            let reason = "it names no port for TLS, and nothing is called in the clear".to_owned();
            return Err(InvokeError::NoAddress { reason });
        }
        (false, Some(_)) if profile.port == 0 => {
            let reason = "it is to be called over TLS, for which no authority is named".to_owned();
            return Err(InvokeError::NoAddress { reason });
        }
        (false, _) => profile.addresses().collect(),
    };
    for (host, port) in addresses {
        let end_point = EndPoint { host, port, version: profile.version, chars, negotiated: offered.is_some() };
        match open(end_point) {
            Ok(opened) => return Ok(opened),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| InvokeError::NoAddress { reason: "its profile names no host".to_owned() }))
}

impl fmt::Debug for Orb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orb").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

fn dial(from: Option<IpAddr>, host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        let dialled = match from {
            None => TcpStream::connect_timeout(&address, timeout),
            Some(from) => connect_from(from, address, timeout),
        };
        match dialled {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects from a given address of this host, which the standard library cannot.
fn connect_from(from: IpAddr, to: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(net::ipproto::TCP))?;
    net::bind(&socket, &SocketAddr::new(from, 0))?;
    // On Linux this bounds connecting, too.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    net::connect(&socket, &to)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(TcpStream::from(socket))
}

fn corbaloc_ior(location: &Corbaloc) -> Ior {
    if location.rir {
        let profile = IiopProfile {
            version: Version::V1_2,
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: DEFAULT_PORT,
            key: location.key.clone(),
            components: Vec::new(),
        };
        return Ior { type_id: String::new(), profiles: vec![Profile::Iiop(profile)] };
    }
    location.to_ior("")
}

/// Optional prefix of the path of a file with a reference.
const FILE: &str = "file:";

/// Usual ending of files with references.
const IOR_FILE: &str = ".ior";

fn is_url(text: &str) -> bool {
    let lower = text.get(..9).unwrap_or(text).to_ascii_lowercase();
    ["ior:", "corbaloc:", "corbaname"].iter().any(|scheme| lower.starts_with(scheme))
}

fn bad_address(text: &str, reason: &str) -> InvokeError {
    InvokeError::BadAddress { text: text.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_address_is_refused_with_what_would_be() {
        let orb = Orb::new(OrbOptions::default());
        let error = orb.resolve("nonsense").unwrap_err().to_string();
        assert!(error.contains("corbaloc:"), "{error}");
        let error = orb.resolve_service("host:notaport").unwrap_err().to_string();
        assert!(error.contains("HOST:PORT"), "{error}");
    }

    #[test]
    fn host_and_port_stand_for_the_notification_service_there() {
        let orb = Orb::new(OrbOptions::default());
        let object = orb.resolve_service("example.org:4711").unwrap();
        let profile = object.ior().iiop().unwrap();
        assert_eq!((profile.host.as_str(), profile.port), ("example.org", 4711));
        assert_eq!(profile.key, b"NotificationService");
        let object = orb.resolve_service("example.org").unwrap();
        assert_eq!(object.ior().iiop().unwrap().port, DEFAULT_PORT);
    }

    #[test]
    fn initial_reference_means_the_local_service() {
        let orb = Orb::new(OrbOptions::default());
        let object = orb.resolve("corbaloc:rir:/NameService").unwrap();
        let profile = object.ior().iiop().unwrap();
        assert_eq!((profile.host.as_str(), profile.port), ("127.0.0.1", DEFAULT_PORT));
        assert_eq!(profile.key, b"NameService");
    }

    #[test]
    fn nil_reference_cannot_be_called() {
        let orb = Orb::new(OrbOptions::default());
        let object = orb.object(Ior { type_id: String::new(), profiles: Vec::new() });
        assert!(matches!(object.invoke("push", |_| ()), Err(InvokeError::NoAddress { .. })));
    }
}

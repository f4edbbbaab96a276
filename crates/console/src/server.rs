//! The HTTP server: accepts connections, and ends those that take too long.

use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use core::future::poll_fn;
use core::pin::Pin;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::CertifiedName;
use hyper::server::conn::http1::{self, Parts};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use service::{Config, Counter, HandshakeFailure, HandshakeReports, HttpCounters, Operators, TlsServer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::ConsoleError;
use crate::access::Access;
use crate::http::Open;
use crate::places::{Places, Slot};
use crate::routes::{Client, Routes};
use crate::sampling::sample;
use crate::shared::Shared;
use crate::stream::{Overdue, Patience, Stream, Watch};
use crate::websocket;

/// Maximum octets of a request's head, and maximum number of its fields.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEAD_FIELDS_MAX: usize = 64;
/// Send buffer of the system for a client that does not read, in octets.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// Maximum time that a connection may stay idle.
const IDLE: Duration = Duration::from_secs(60);
/// Interval between two checks for overdue connections.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// Wait for the end of a connection when no descriptor is free: some are freed elsewhere, without notice.
const PAUSE: Duration = Duration::from_millis(100);

/// The server's name in log lines.
const HTTP: &str = "HTTP";
/// Answer to a client that speaks plain HTTP at the port of TLS.
const SPEAKS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n\
    this port speaks TLS: write https:// and not http://\n";

/// A stream after its handshake.
type Secured = TlsStream<TcpStream>;
/// The peer's name in its certificate.
type Certified = Option<Arc<CertifiedName>>;

/// A listening socket.
pub(crate) struct Listening {
    listener: TcpListener,
    at: SocketAddr,
    /// The handshake's configuration, if it speaks TLS.
    secure: Option<TlsServer>,
}

impl Listening {
    /// Listens on the address of that setting.
    ///
    /// # Errors
    /// The address is taken, or is not an address of this host.
    pub(crate) fn open(
        key: &'static str,
        address: SocketAddr,
        secure: Option<TlsServer>,
    ) -> Result<Self, ConsoleError> {
        let failed = |error| ConsoleError::Listen { key, address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let at = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, at, secure })
    }

    /// The address, with the actual port.
    pub(crate) const fn at(&self) -> SocketAddr {
        self.at
    }
}

/// The server's state, shared by its connections.
struct Server {
    routes: Routes,
    patience: Patience,
    /// Time limit of a handshake.
    handshake_within: Duration,
    /// Connections of each address.
    places: RefCell<Places>,
    /// Notified when a connection has ended.
    freed: Notify,
    handshakes: Cell<usize>,
    reports: RefCell<HandshakeReports>,
}

/// The parts of a server, handed to its thread.
pub(crate) struct Plan {
    access: Access,
    operators: Operators,
    shared: Shared,
    http_counters: HttpCounters,
    patience: Patience,
    handshake_within: Duration,
    websockets: websocket::Limits,
    reports: HandshakeReports,
}

impl Plan {
    pub(crate) fn new(
        config: &Config,
        access: Access,
        operators: Operators,
        shared: Shared,
        http_counters: HttpCounters,
        reports: HandshakeReports,
    ) -> Self {
        let patience = Patience {
            request: Duration::from_millis(config.http.request_within_ms.into()),
            answer: Duration::from_millis(config.http.answer_within_ms.into()),
            idle: IDLE,
        };
        let handshake_within = Duration::from_millis(config.tls.handshake_ms.into());
        let websockets = websocket::Limits::of(config);
        Self { access, operators, shared, http_counters, patience, handshake_within, websockets, reports }
    }

    /// Serves until `ended` is true.
    pub(crate) async fn run(self, listening: Vec<Listening>, mut ended: watch::Receiver<bool>) {
        let Self { access, operators, shared, http_counters, patience, handshake_within, websockets, reports } = self;
        let places = RefCell::new(Places::new(operators.addresses()));
        let open = Open::new(http_counters.clone());
        let shared = Rc::new(shared);
        tokio::task::spawn_local(sample(Rc::clone(&shared), http_counters.clone()));
        let request_within = patience.request;
        let routes = Routes { access, operators, shared, http_counters, open, request_within, websockets };
        let reports = RefCell::new(reports);
        let (freed, handshakes) = (Notify::new(), Cell::new(0));
        let server = Rc::new(Server { routes, patience, handshake_within, places, freed, handshakes, reports });
        for listening in listening {
            tokio::task::spawn_local(accept(Rc::clone(&server), listening));
        }
        // If it fails, the sender is gone, too. What was spawned ends with the runtime.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

/// Accepts connections.
async fn accept(server: Rc<Server>, listening: Listening) {
    let Listening { listener, at, secure } = listening;
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return log::error!("HTTP is not served at {at}: {error}"),
    };
    loop {
        let Ok((socket, from)) = listener.accept().await else {
            // There is no descriptor for another one.
            server.have_one_give_way();
            let _ = tokio::time::timeout(PAUSE, server.freed.notified()).await;
            continue;
        };
        let watch = Watch::new();
        let Some(slot) = server.let_in(from, &watch) else { continue };
        let (server, secure) = (Rc::clone(&server), secure.clone());
        tokio::task::spawn_local(async move {
            let is_outside = !at.ip().is_loopback();
            let _ = socket.set_nodelay(true);
            // What a client does not read is to be seen here, and not by the system alone.
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
            let (watched, upgrade) = (Rc::clone(&watch), Rc::default());
            let client =
                Client { from, is_outside, certified: None, is_reserved: slot.is_reserved, watch: watched, upgrade };
            let served = async {
                match secure {
                    None => server.serve(socket, client).await,
                    Some(secure) => {
                        if let Some((stream, certified)) = server.secure(socket, from, &secure).await {
                            client.watch.begin_request();
                            server.serve(stream, Client { certified, ..client }).await;
                        }
                    }
                }
            };
            watch.unless_it_gives_way(served).await;
            server.let_out(&slot);
        });
    }
}

impl Server {
    /// Takes a place for a connection, if one is free.
    fn let_in(&self, from: SocketAddr, watch: &Rc<Watch>) -> Option<Slot> {
        let http_counters = &self.routes.http_counters;
        let taken = self.places.borrow_mut().take(from, watch);
        let refused = taken.as_ref().map_or_else(|spent| Some(*spent), |slot| slot.spent);
        if let Some(spent) = refused {
            http_counters.add(Counter::of_refusal(spent), 1);
        }
        if taken.as_ref().is_ok_and(|slot| slot.displaced) {
            http_counters.add(Counter::HttpConnectionsGaveWay, 1);
        }
        self.note_open();
        // Last: what became of the accepted ones is counted before.
        http_counters.add(Counter::HttpConnectionsAccepted, 1);
        taken.ok()
    }

    fn let_out(&self, slot: &Slot) {
        self.places.borrow_mut().give_back(slot.number);
        self.note_open();
        self.freed.notify_waiters();
    }

    /// Ends the connection that has been idle for longest, to free a descriptor.
    fn have_one_give_way(&self) {
        if self.places.borrow_mut().have_one_give_way(false) {
            self.routes.http_counters.add(Counter::HttpConnectionsGaveWay, 1);
        }
    }

    fn note_open(&self) {
        self.routes.http_counters.set(Counter::HttpConnectionsOpen, self.places.borrow().open() as u64);
    }

    /// Makes a handshake. Returns the stream, and the name in the peer's certificate, if one was shown.
    async fn secure(&self, socket: TcpStream, from: SocketAddr, with: &TlsServer) -> Option<(Secured, Certified)> {
        self.count_handshakes(1);
        let made = tokio::time::timeout(self.handshake_within, self.shake(socket, from, with)).await;
        self.count_handshakes(-1);
        let failure = match made.unwrap_or(Err(HandshakeFailure::Overdue)) {
            Ok(made) => return Some(made),
            Err(failure) => failure,
        };
        let mut reports = self.reports.borrow_mut();
        reports.count_failure(&failure);
        match failure {
            HandshakeFailure::Tls(tls::Trouble::NotTls) => reports.tell_plain(from, HTTP),
            failure => reports.tell_failure(from, HTTP, &failure),
        }
        None
    }

    async fn shake(
        &self,
        socket: TcpStream,
        from: SocketAddr,
        with: &TlsServer,
    ) -> Result<(Secured, Certified), HandshakeFailure> {
        let broken = |error: io::Error| match tls::Trouble::of_stream(&error) {
            Some(trouble) => HandshakeFailure::Tls(trouble),
            None => HandshakeFailure::Connection(error),
        };
        let mut first = [0; 3];
        let octets = socket.peek(&mut first).await.map_err(broken)?;
        if tls::is_plain(first.get(..octets).unwrap_or_default()) {
            answer_plain(&socket);
            return Err(HandshakeFailure::Tls(tls::Trouble::NotTls));
        }
        let missing = || HandshakeFailure::Tls(tls::Trouble::Protocol("there is no certificate to show".to_owned()));
        let end = with.end().ok_or_else(missing)?;
        let stream = TlsAcceptor::from(end.config()).accept(socket).await.map_err(broken)?;
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates().and_then(|shown| shown.first());
        let names = shown.and_then(|certificate| tls::CertificateNames::of(certificate));
        let described = format!("{:?}, {:?}", session.protocol_version(), session.negotiated_cipher_suite());
        let certified = self.reports.borrow().note_made(from, described, names);
        Ok((stream, certified))
    }

    fn count_handshakes(&self, more: isize) {
        self.handshakes.set(self.handshakes.get().saturating_add_signed(more));
        self.reports.borrow().note_under_way(self.handshakes.get());
    }

    /// Serves a connection until it ends or has to end.
    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin, client: Client) {
        let watch = Rc::clone(&client.watch);
        let from = client.from;
        // In the reserve there is a place for one request.
        let patience =
            if client.is_reserved { Patience { idle: Duration::ZERO, ..self.patience } } else { self.patience };
        let answering = service_fn(|request| {
            client.watch.begin_answer();
            let client = client.clone();
            Box::pin(async move { Ok::<_, Infallible>(self.routes.answer(request, client).await) })
        });
        let stream = TokioIo::new(Stream::new(stream, Rc::clone(&watch)));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEAD_FIELDS_MAX)
            .header_read_timeout(None);
        let mut connection = http.serve_connection(stream, answering);
        let ends = poll_fn(|cx| connection.poll_without_shutdown(cx));
        let Some(ended) = self.unless_overdue(&watch, patience, ends).await else { return };
        self.note_end(from, &watch, ended);
        let Parts { io, read_buf, .. } = connection.into_parts();
        let mut stream = io.into_inner();
        match client.upgrade.take() {
            Some(websocket) => websocket.run(stream, &read_buf).await,
            None => {
                let shut = poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx));
                // A client that is gone has its end already.
                let _ = self.unless_overdue(&watch, patience, shut).await;
            }
        }
    }

    /// Runs the work for a connection; `None` if it takes too long, which is counted.
    async fn unless_overdue<T>(&self, watch: &Watch, patience: Patience, work: impl Future<Output = T>) -> Option<T> {
        let mut work = core::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(LOOKS_EVERY, work.as_mut()).await {
                return Some(done);
            }
            let Some(overdue) = watch.overdue(patience, Instant::now()) else { continue };
            let counter = match overdue {
                Overdue::Request => Counter::HttpSlowRequests,
                Overdue::Answer => Counter::HttpSlowReaders,
                Overdue::Idle => Counter::HttpIdleClosed,
            };
            self.routes.http_counters.add(counter, 1);
            return None;
        }
    }

    /// Counts unreadable input.
    fn note_end(&self, from: SocketAddr, watch: &Watch, ended: Result<(), hyper::Error>) {
        if !ended.is_err_and(|error| error.is_parse() || error.is_parse_too_large()) {
            return;
        }
        if watch.begins_tls() {
            return self.reports.borrow_mut().tell_tls_at_plain_port(from, HTTP);
        }
        self.routes.http_counters.add(Counter::HttpMalformed, 1);
    }
}

/// Answers that this port speaks TLS, since the client's user does not read the log. Does not block.
fn answer_plain(socket: &TcpStream) {
    let _ = socket.try_write(SPEAKS_TLS);
    // What is closed with something unread is reset, answer and all.
    let mut unread = [0; HEAD_BYTES_MAX];
    let _ = socket.try_read(&mut unread);
}

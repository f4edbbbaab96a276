//! `/api/v1/events` as a WebSocket: another transport of [lines of JSON](service::Json), one line in each text message, both ways.
//!
//! Its client is connected within the service for lines of JSON ([`service::Operators::visit`]), as a browser that watches events is: a
//! lane has one end of a pair of sockets, and this module carries lines between the other end and frames. So limits, accounts, rights,
//! names and back-pressure are those of that protocol, without duplicated code, and no lane knows of HTTP or frames. Handing the client's
//! own socket to a lane would save a copy each way on HTTP's thread, but put TLS, frames and their deadlines into the lane, for a protocol
//! that is not a fast one.
//!
//! If the client does not read, nothing is read from the lane: its connection becomes full there as any other's, and its requests are not
//! read either. There is no limit to that; a silent client is pinged, and closed if no answer comes.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::borrow::Cow;
use std::io;
use std::time::Instant;

use data_encoding::BASE64URL_NOPAD;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use service::{Config, Counter, HttpCounters, VisitPurpose};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::handshake::server::create_response_with_body;
use tungstenite::protocol::frame::coding::CloseCode;

use crate::access::Asking;
use crate::frames::{End, Frames};
use crate::http::{Answer, Body, WebSocketSlot};
use crate::routes::{Client, Failure, Routes};

/// Name of the protocol, for clients that offer any.
const PROTOCOL: &str = "campanile.json";
/// Prefix of a token, in base64url, in the protocol field of a browser: its scripts can set no other field.
const TOKEN_PROTOCOL: &str = "campanile.bearer.";
/// Octets read at once.
const READ_BYTES: usize = 16 << 10;
/// Time limit for the last octets of either side.
const LINGER: Duration = Duration::from_secs(1);

/// Limits of WebSockets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    open_max: u32,
    message_bytes_max: usize,
    message_within: Duration,
    ping_every: Duration,
}

impl Limits {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            open_max: config.http.websockets_max,
            message_bytes_max: usize::try_from(config.json.line_bytes_max).unwrap_or(usize::MAX),
            message_within: Duration::from_millis(config.http.request_within_ms.into()),
            ping_every: Duration::from_millis(config.http.websocket_ping_ms.into()),
        }
    }

    /// Interval of the checks for exceeded limits.
    fn look_every(&self) -> Duration {
        (self.message_within.min(self.ping_every) / 4).min(Duration::from_secs(1))
    }
}

/// A WebSocket after its handshake.
pub(crate) struct WebSocket {
    service: UnixStream,
    limits: Limits,
    http_counters: HttpCounters,
    /// Its place, held until it is dropped.
    _slot: WebSocketSlot,
}

/// Whether a request asks to become a WebSocket.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    headers.get_all(UPGRADE).into_iter().any(|name| name.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The token offered among the names of protocols. Two tokens count as one that is never valid.
pub(crate) fn offered_token(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let mut tokens = offered(headers).filter_map(|name| name.strip_prefix(TOKEN_PROTOCOL));
    let (token, other) = (tokens.next()?, tokens.next());
    let token = other.is_none().then(|| BASE64URL_NOPAD.decode(token.as_bytes()).ok()).flatten();
    Some(Cow::Owned(token.unwrap_or_default()))
}

fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let fields = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|field| field.to_str().ok());
    fields.flat_map(|field| field.split(',')).map(str::trim)
}

/// Answers a handshake (RFC 6455, 4.2). The connection becomes the WebSocket's once the answer is written.
pub(crate) async fn open(
    routes: &Routes,
    request: &Request<Incoming>,
    client: Client,
    asking: Asking,
) -> Result<Answer, Failure> {
    let headers = request.headers();
    routes.access.check_origin(headers)?;
    let answer = create_response_with_body(request, || Body::Whole(None));
    let mut answer = answer.map_err(|error| match error {
        Error::Protocol(ProtocolError::MissingSecWebSocketVersionHeader) => Failure::WebSocketVersion,
        error => Failure::Bad(error.to_string()),
    })?;
    if !request.body().is_end_stream() {
        return Err(Failure::Bad("a request for a WebSocket has no body".to_owned()));
    }
    if headers.contains_key(SEC_WEBSOCKET_PROTOCOL) {
        if !offered(headers).any(|name| name == PROTOCOL) {
            return Err(Failure::Bad(format!("Sec-WebSocket-Protocol is to have {PROTOCOL}, or to be left out")));
        }
        answer.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    let limits = routes.websockets;
    let slot = routes.open.take_websocket(limits.open_max, &client.watch).ok_or_else(|| {
        routes.http_counters.add(Counter::HttpWebSocketsRefused, 1);
        Failure::Busy(format!("{} WebSockets are open, and no more can be (http.websockets_max)", limits.open_max))
    })?;
    let purpose = VisitPurpose::Lines { may_publish: asking.has_token || asking.has_right.is_some() };
    let service = routes.visit(asking.by, client.from, purpose).await?;
    let http_counters = routes.http_counters.clone();
    client.upgrade.set(Some(WebSocket { service, limits, http_counters, _slot: slot }));
    Ok(answer)
}

impl WebSocket {
    /// Carries lines until either side ends. `early` are octets that followed the handshake.
    pub(crate) async fn run(self, client: impl AsyncRead + AsyncWrite + Unpin, early: &[u8]) {
        let Self { service, limits, http_counters, _slot } = self;
        let frames = Frames::new(limits.message_bytes_max);
        let buffer = vec![0; READ_BYTES];
        let mut bridge =
            Bridge { client, service, frames, buffer, is_flushed: true, alive: Alive::new(Instant::now()) };
        bridge.frames.receive(early);
        while timeout(limits.look_every(), poll_fn(|cx| bridge.poll(cx))).await.is_err() {
            if let Some(counter) = bridge.look(limits, Instant::now()) {
                http_counters.add(counter, 1);
                break;
            }
        }
        if bridge.frames.end() == Some(End::Broken) {
            http_counters.add(Counter::HttpWebSocketsBroken, 1);
        }
        let _ = timeout(LINGER, bridge.end()).await;
    }
}

/// The state of both directions: client and service.
struct Bridge<S> {
    client: S,
    service: UnixStream,
    frames: Frames,
    buffer: Vec<u8>,
    /// Whether all output for the client has been passed to the system.
    is_flushed: bool,
    alive: Alive,
}

/// Deadlines of the client.
struct Alive {
    /// Time of the last input.
    heard: Instant,
    /// Time of the last ping, if nothing arrived since.
    pinged: Option<Instant>,
    /// The incomplete message, and since when it is known.
    under_way: Option<(u64, Instant)>,
}

impl Alive {
    const fn new(now: Instant) -> Self {
        Self { heard: now, pinged: None, under_way: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Bridge<S> {
    /// Carries lines while possible. Ready when the WebSocket has ended, or its client is gone.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let steps = [Self::write_client, Self::read_service, Self::write_service, Self::read_client];
            let mut goes_on = false;
            for step in steps {
                match step(self, cx) {
                    Poll::Ready(Ok(())) => goes_on = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            if self.frames.end().is_some() {
                return Poll::Ready(());
            }
            if !goes_on {
                return Poll::Pending;
            }
        }
    }

    fn write_client(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let output = self.frames.output();
        if !output.rest().is_empty() {
            self.is_flushed = false;
            let written = core::task::ready!(Pin::new(&mut self.client).poll_write(cx, output.rest()))?;
            output.take(written);
            return Poll::Ready(if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) });
        }
        if self.is_flushed {
            return Poll::Pending;
        }
        core::task::ready!(Pin::new(&mut self.client).poll_flush(cx))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Reads lines once the client has taken the previous ones.
    fn read_service(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.takes_output() {
            return Poll::Pending;
        }
        let mut read = ReadBuf::new(&mut self.buffer);
        core::task::ready!(Pin::new(&mut self.service).poll_read(cx, &mut read))?;
        match read.filled() {
            [] => self.frames.close(CloseCode::Away, "the service has ended the connection"),
            lines => self.frames.send(lines),
        }
        Poll::Ready(Ok(()))
    }

    fn write_service(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let lines = self.frames.lines();
        if lines.rest().is_empty() {
            return Poll::Pending;
        }
        let written = core::task::ready!(Pin::new(&mut self.service).poll_write(cx, lines.rest()))?;
        lines.take(written);
        Poll::Ready(Ok(()))
    }

    /// Reads frames once the service has taken the previous lines and the client most of its output, which may be only pongs.
    fn read_client(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.takes_input() {
            return Poll::Pending;
        }
        let mut read = ReadBuf::new(&mut self.buffer);
        core::task::ready!(Pin::new(&mut self.client).poll_read(cx, &mut read))?;
        if read.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.alive.heard = Instant::now();
        self.alive.pinged = None;
        self.frames.receive(read.filled());
        Poll::Ready(Ok(()))
    }

    fn takes_output(&mut self) -> bool {
        self.is_flushed && self.frames.output().rest().is_empty()
    }

    fn takes_input(&mut self) -> bool {
        self.frames.lines().rest().is_empty() && self.frames.output().rest().len() < READ_BYTES
    }

    /// Pings a silent client. Ends the WebSocket when a limit is exceeded, and returns its counter. Time does not count while the client is
    /// not read, or does not read.
    fn look(&mut self, limits: Limits, now: Instant) -> Option<Counter> {
        if !self.takes_input() || !self.takes_output() {
            self.alive = Alive { heard: self.alive.heard, ..Alive::new(now) };
            return None;
        }
        let since = |then: Instant| now.saturating_duration_since(then);
        let before = self.alive.under_way;
        self.alive.under_way = self.frames.under_way().map(|message| match before {
            Some((same, began)) if same == message => (message, began),
            _ => (message, now),
        });
        if self.alive.under_way.is_some_and(|(_, began)| since(began) >= limits.message_within) {
            self.frames.close(CloseCode::Policy, "a message was begun and not ended within http.request_within_ms");
            return Some(Counter::HttpSlowRequests);
        }
        match self.alive.pinged {
            Some(pinged) if since(pinged) >= limits.ping_every => {
                self.frames.close(CloseCode::Policy, "no answer to a ping came within http.websocket_ping_ms");
                return Some(Counter::HttpWebSocketsSilent);
            }
            None if since(self.alive.heard) >= limits.ping_every => {
                self.alive.pinged = Some(now);
                self.frames.ping();
            }
            _ => {}
        }
        None
    }

    /// Delivers received lines and sends the reason for the end. Waits for the ends of both sides, since closing a socket with unread input
    /// discards its output.
    async fn end(mut self) -> io::Result<()> {
        let lines = self.frames.lines().rest();
        if self.service.write_all(lines).await.is_ok() {
            let _ = self.service.shutdown().await;
        }
        let output = self.frames.output().rest();
        if self.client.write_all(output).await.is_ok() && self.client.shutdown().await.is_ok() {
            while self.client.read(&mut self.buffer).await? > 0 {}
        }
        while self.service.read(&mut self.buffer).await? > 0 {}
        Ok(())
    }
}

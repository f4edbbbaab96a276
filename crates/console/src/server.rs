//! Takes connections, and ends those that take too long.

use core::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use service::{Counter, Http, HttpTally, Operators};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::access::Access;
use crate::http::Open;
use crate::routes::{Client, Routes};
use crate::shared::Shared;
use crate::stream::{Overdue, Patience, Stream, Watch};

/// Octets of a request's head, and fields in it.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEAD_FIELDS_MAX: usize = 64;
/// Octets of answers that the system keeps for a client that does not read.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// How long a connection may stay on which nothing is asked.
const IDLE: Duration = Duration::from_secs(60);
/// How often it is looked at who takes too long.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// A pause when there is no descriptor for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// What serves connections.
struct Server {
    routes: Rc<Routes>,
    patience: Patience,
    connections_max: usize,
}

/// What a server is made of, on its thread.
pub(crate) struct Plan {
    access: Access,
    operators: Operators,
    shared: Shared,
    tally: HttpTally,
    patience: Patience,
    connections_max: usize,
}

impl Plan {
    pub(crate) fn new(http: &Http, access: Access, operators: Operators, shared: Shared, tally: HttpTally) -> Self {
        let patience = Patience {
            request: Duration::from_millis(http.request_within_ms.into()),
            answer: Duration::from_millis(http.answer_within_ms.into()),
            idle: IDLE,
        };
        Self { access, operators, shared, tally, patience, connections_max: http.connections_max as usize }
    }

    /// Serves until it is told to end.
    pub(crate) async fn run(self, listener: TcpListener, mut ended: watch::Receiver<bool>) {
        let Self { access, operators, shared, tally, patience, connections_max } = self;
        let open = Open::new(tally.clone());
        let shared = Rc::new(shared);
        let routes = Routes { access, operators, shared, tally, open, request_within: patience.request };
        let server = Server { routes: Rc::new(routes), patience, connections_max };
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                tokio::task::spawn_local(server.accept(listener));
                // If it fails, whoever could say so is gone, too. What was spawned ends with the runtime.
                let _ = ended.wait_for(|ended| *ended).await;
            }
            Err(error) => log::error!("HTTP is not served: {error}"),
        }
    }
}

impl Server {
    async fn accept(self, listener: tokio::net::TcpListener) {
        let connections = Rc::new(());
        // Where it is not known, it is the one of which less is told.
        let is_outside = !listener.local_addr().is_ok_and(|here| here.ip().is_loopback());
        loop {
            let Ok((socket, from)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let tally = &self.routes.tally;
            tally.add(Counter::HttpConnectionsAccepted, 1);
            let open = Rc::strong_count(&connections) - 1;
            if open >= self.connections_max {
                tally.add(Counter::HttpConnectionsRefused, 1);
                continue;
            }
            tally.set(Counter::HttpConnectionsOpen, open as u64 + 1);
            let (routes, patience, connection) = (Rc::clone(&self.routes), self.patience, Rc::clone(&connections));
            tokio::task::spawn_local(async move {
                serve(&routes, socket, (from, is_outside), patience).await;
                let left = Rc::strong_count(&connection) - 2;
                drop(connection);
                routes.tally.set(Counter::HttpConnectionsOpen, left as u64);
            });
        }
    }
}

/// Serves a connection until it ends or has to.
async fn serve(routes: &Rc<Routes>, socket: TcpStream, (from, is_outside): (SocketAddr, bool), patience: Patience) {
    let _ = socket.set_nodelay(true);
    // What a client does not read is to be seen here, and not by the system alone.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
    let watch = Watch::new();
    let client = Client { from, is_outside, certified: None, watch: Rc::clone(&watch) };
    let answering = service_fn(|request| {
        client.watch.begin_answer();
        let (routes, client) = (Rc::clone(routes), client.clone());
        async move { Ok::<_, Infallible>(routes.answer(request, client).await) }
    });
    // Where TLS is to be, the stream is wrapped here.
    let stream = TokioIo::new(Stream::new(socket, Rc::clone(&watch)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(HEAD_BYTES_MAX).max_headers(HEAD_FIELDS_MAX).header_read_timeout(None);
    let mut connection = core::pin::pin!(http.serve_connection(stream, answering));
    loop {
        if let Ok(ended) = tokio::time::timeout(LOOKS_EVERY, connection.as_mut()).await {
            return note_end(routes, ended);
        }
        let Some(overdue) = watch.overdue(patience, Instant::now()) else { continue };
        let counter = match overdue {
            Overdue::Request => Counter::HttpSlowRequests,
            Overdue::Answer => Counter::HttpSlowReaders,
            Overdue::Idle => Counter::HttpIdleClosed,
        };
        return routes.tally.add(counter, 1);
    }
}

/// Counts what could not be read.
fn note_end(routes: &Routes, ended: Result<(), hyper::Error>) {
    if ended.is_err_and(|error| error.is_parse() || error.is_parse_too_large()) {
        routes.tally.add(Counter::HttpMalformed, 1);
    }
}

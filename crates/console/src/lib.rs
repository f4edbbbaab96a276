//! HTTP beside a running service: metrics for machines, an API for programs, and the console for people.
//!
//! [`Console::start`] gives it a port and a thread of its own, at ordinary scheduling, on which tokio's runtime lives: it never touches an
//! event. It is one more caller of administration ([`service::Query`], [`service::Command`]), each call with the [`service::Principal`] of
//! the client. Common queries are shared ([`shared`]): a scrape, or ten at the same time, costs each lane a little work in several rounds,
//! and administration next to nothing.
//!
//! It listens for plain HTTP, TLS, or both (`http.listen`, `tls.http_listen`): [`server`] passes either stream to hyper. Handshakes are
//! made on the same thread, far from the lanes.

mod access;
mod api;
mod channels;
mod directory;
mod figures;
mod frames;
mod history;
mod http;
mod journal;
mod links;
mod live;
mod metrics;
mod openmetrics;
mod pages;
mod places;
mod publish;
mod routes;
mod sampling;
mod series;
mod server;
mod shared;
mod sources;
mod stream;
mod watching;
mod websocket;

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use service::{Config, ConfigError, HandshakeReports, Service};
use tokio::sync::watch;

pub use crate::journal::note_line;

use crate::access::{Access, Token, read_token};
use crate::server::{Listening, Plan};
use crate::shared::Shared;

/// The HTTP server. Dropping it stops the server.
pub struct Console {
    address: Option<SocketAddr>,
    secure_address: Option<SocketAddr>,
    token: Arc<Token>,
    ends: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("address", &self.address)
            .field("secure_address", &self.secure_address)
            .finish_non_exhaustive()
    }
}

/// Why HTTP is not served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The configuration cannot be used.
    Config(ConfigError),
    /// The address cannot be listened on.
    Listen {
        /// The setting.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
    /// The token cannot be read, or is invalid.
    Token {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The operating system refuses a thread or the runtime's resources.
    Resources(io::Error),
}

impl fmt::Display for ConsoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen { key, address, error } if error.kind() == io::ErrorKind::AddrInUse => {
                let setting = if *key == "http.listen" { "--http" } else { key };
                write!(f, "{address}, for HTTP, is in use; choose another port with {setting} {}:PORT", address.ip())
            }
            Self::Listen { key, address, error } => write!(f, "cannot listen on {address} for HTTP ({key}): {error}"),
            Self::Token { path, why } => write!(f, "http.token_file = \"{}\": {why}", path.display()),
            Self::Resources(error) => write!(f, "HTTP cannot be served: {error}"),
        }
    }
}

impl std::error::Error for ConsoleError {}

impl ConsoleError {
    /// Whether the configuration is at fault.
    #[must_use]
    pub const fn is_of_configuration(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Token { .. })
    }
}

impl Console {
    /// Serves HTTP beside a service, if its configuration says so.
    ///
    /// # Errors
    /// The configuration cannot be used, the port is taken, or the operating system refuses a thread.
    pub fn start(config: &Config, service: &Service) -> Result<Option<Self>, ConsoleError> {
        let addresses = [config.http_listen_address(), config.https_listen_address()];
        let [plain, secure] = addresses.map(|address| address.map_err(ConsoleError::Config));
        let plain = plain?.map(|address| Listening::open("http.listen", address, None)).transpose()?;
        let secure = secure?.map(|address| Listening::open("tls.http_listen", address, service.tls_server()));
        let secure = secure.transpose()?;
        let (address, secure_address) = (plain.as_ref().map(Listening::at), secure.as_ref().map(Listening::at));
        let listening: Vec<Listening> = plain.into_iter().chain(secure).collect();
        if listening.is_empty() {
            return Ok(None);
        }
        let token = Arc::new(Token::from_pointee(token_of(config)?));
        let access = Access::new(&config.http, listening.iter().map(Listening::at), Arc::clone(&token));
        let shared = Shared::new(config, service);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(ASKING_AT_ONCE)
            .thread_name("http-asks")
            .build()
            .map_err(ConsoleError::Resources)?;
        let (ends, ended) = watch::channel(false);
        let reports = HandshakeReports::of_http(service.counters());
        let server = Plan::new(config, access, service.operators(), shared, service.counters().of_http(), reports);
        let serve = move || {
            tokio::task::LocalSet::new().block_on(&runtime, server.run(listening, ended));
            // Threads that still ask administration are not waited for.
            runtime.shutdown_background();
        };
        let thread = Builder::new().name("http".into()).spawn(serve).map_err(ConsoleError::Resources)?;
        Ok(Some(Self { address, secure_address, token, ends, thread: Some(thread) }))
    }

    /// Checks the configuration of HTTP, including its files, without opening a port, as [`Service::check`] does for a service.
    ///
    /// # Errors
    /// HTTP could not be served with this configuration.
    pub fn check(config: &Config) -> Result<(), ConsoleError> {
        token_of(config).map(drop)
    }

    /// Reads the file of HTTP's token again. The new token replaces the old one; without a configured file there is none any more. Returns
    /// whether it has changed.
    ///
    /// # Errors
    /// The file cannot be read, or has no token; the old one stays.
    pub fn reload(&self, config: &Config) -> Result<bool, ConsoleError> {
        let token = token_of(config)?.map(Arc::new);
        let before = self.token.swap(token.clone());
        Ok(before != token)
    }

    /// The address for plain HTTP, with the actual port, if enabled.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The address for TLS, with the actual port, if enabled.
    #[must_use]
    pub const fn secure_address(&self) -> Option<SocketAddr> {
        self.secure_address
    }
}

/// HTTP's own token, if the configuration names a file with one.
fn token_of(config: &Config) -> Result<Option<String>, ConsoleError> {
    config.http.token_file.as_deref().map(read_token).transpose()
}

/// Maximum number of threads that wait for administration; further queries wait for one of them.
const ASKING_AT_ONCE: usize = 4;

impl Drop for Console {
    fn drop(&mut self) {
        // Sending fails if the server's thread has ended.
        let _ = self.ends.send(true);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

//! Outcomes of handshakes, counted and logged for the operator. Each thread that makes some has its own.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tls::{CertificateNames, Trouble};

use crate::counters::{Block, Counter, Counters};
use crate::lane::io::logged_once::LoggedOnce;
use crate::lane::reports::Allowance;
use crate::time;
use accounts::CertifiedName;
use engine::Time;

/// Maximum lines per second about handshakes.
const LINES: u32 = 10;

/// Counts and log lines of one thread's handshakes.
pub struct HandshakeReports {
    counters: Arc<Block>,
    logged_once: LoggedOnce,
    lines: Allowance,
    began: Instant,
}

/// Reason for which there is no TLS with a peer.
#[derive(Debug)]
pub enum HandshakeFailure {
    /// The connection has ended.
    Connection(io::Error),
    /// The peer violates TLS, or rejects this side.
    Tls(Trouble),
    /// The handshake takes longer than `tls.handshake_ms`.
    Overdue,
}

impl fmt::Debug for HandshakeReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeReports").finish_non_exhaustive()
    }
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("it closed the connection during the TLS handshake")
            }
            Self::Connection(error) => write!(f, "the TLS handshake ended: {error}"),
            Self::Tls(trouble) => write!(f, "there is no TLS with it: {trouble}"),
            Self::Overdue => {
                f.write_str("there is no TLS with it: the TLS handshake was not over within tls.handshake_ms")
            }
        }
    }
}

impl HandshakeReports {
    pub(super) fn new(counters: Arc<Block>) -> Self {
        Self {
            counters,
            logged_once: LoggedOnce::default(),
            lines: Allowance::new("handshakes", LINES),
            began: time::now(),
        }
    }

    /// Reports of the thread that serves HTTP.
    #[must_use]
    pub fn of_http(counters: &Counters) -> Self {
        Self::new(counters.of_http().into())
    }

    /// Sets the number of handshakes under way.
    pub fn note_under_way(&self, handshakes: usize) {
        self.counters.set(Counter::TlsHandshakesUnderWay, handshakes as u64);
    }

    /// Notes that a handshake was made. Returns the peer's name by the certificate that was shown.
    pub fn note_made(
        &self,
        address: SocketAddr,
        described: impl fmt::Display,
        names: Option<CertificateNames>,
    ) -> Option<Arc<CertifiedName>> {
        self.counters.add(Counter::TlsHandshakes, 1);
        let name = names.map(|CertificateNames { subject, sans }| CertifiedName { subject, sans });
        log::debug!(
            "TLS with {address}: {described}, {}",
            name.as_ref().map_or_else(|| "no certificate".to_owned(), ToString::to_string)
        );
        name.map(Arc::new)
    }

    /// Counts a failed handshake.
    pub fn count_failure(&self, failure: &HandshakeFailure) {
        self.counters.add(Counter::TlsHandshakesFailed, 1);
        match failure {
            HandshakeFailure::Tls(Trouble::Certificate(_)) => self.counters.add(Counter::TlsCertificatesRefused, 1),
            HandshakeFailure::Overdue => self.counters.add(Counter::TlsHandshakesOverdue, 1),
            _ => {}
        }
    }

    /// Logs why there is no TLS with a client of a protocol.
    pub fn tell_failure(&mut self, address: SocketAddr, protocol: impl fmt::Display, failure: &HandshakeFailure) {
        self.log(|| format!("closed a connection from {address} for {protocol}: {failure}"));
    }

    /// Logs, once for each address, that a client does not speak TLS at a port with TLS.
    pub fn tell_plain(&mut self, address: SocketAddr, protocol: impl fmt::Display) {
        self.counters.add(Counter::TlsPlain, 1);
        let what = "it does not speak TLS, and this port does; have it use the other port, or TLS";
        self.tell_once(address, protocol, what, "tls_plain");
    }

    /// Logs, once for each address, that a client speaks TLS at a port without.
    pub fn tell_tls_at_plain_port(&mut self, address: SocketAddr, protocol: impl fmt::Display) {
        self.counters.add(Counter::TlsAtPlainPort, 1);
        let what = "it speaks TLS, and this port does not; have it use the port of [tls]";
        self.tell_once(address, protocol, what, "tls_at_plain_port");
    }

    fn tell_once(&mut self, address: SocketAddr, protocol: impl fmt::Display, what: &str, counter: &str) {
        let ip = address.ip();
        if self.logged_once.is_first(ip) {
            self.log(|| {
                format!("closed a connection from {address} for {protocol}: {what} (said once of {ip}; see {counter})")
            });
        }
    }

    fn log(&mut self, text: impl FnOnce() -> String) {
        let now = u64::try_from(time::since(self.began).as_nanos()).unwrap_or(u64::MAX);
        if self.lines.take(Time(now), true) {
            log::warn!("{}", text());
        } else {
            self.counters.add(Counter::LogLinesLeftOut, 1);
        }
    }
}

//! A connection as a stream, for callers that wait: over anything that can be read and written.

use std::io::{self, Read, Write};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use crate::name::{CertificateNames, is_for};

/// A connection with TLS over a socket. [`Trouble::of_stream`](crate::Trouble::of_stream) has the TLS error in an I/O error.
#[derive(Debug)]
pub struct Stream<T: Read + Write>(Side<T>);

#[derive(Debug)]
enum Side<T: Read + Write> {
    Server(StreamOwned<ServerConnection, T>),
    Client(StreamOwned<ClientConnection, T>),
}

impl<T: Read + Write> Stream<T> {
    pub(crate) fn of_server(connection: ServerConnection, socket: T) -> Self {
        Self(Side::Server(StreamOwned::new(connection, socket)))
    }

    pub(crate) fn of_client(connection: ClientConnection, socket: T) -> Self {
        Self(Side::Client(StreamOwned::new(connection, socket)))
    }

    /// Performs the handshake, which reading and writing do otherwise.
    ///
    /// # Errors
    /// The socket fails, or the peer is refused or refuses.
    pub fn handshake(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Side::Server(stream) => stream.conn.complete_io(&mut stream.sock).map(drop),
            Side::Client(stream) => stream.conn.complete_io(&mut stream.sock).map(drop),
        }
    }

    /// The names in the peer's certificate, after the handshake. `None` if it has shown none, or that has none.
    #[must_use]
    pub fn peer_names(&self) -> Option<CertificateNames> {
        CertificateNames::of(self.peer_certificate()?)
    }

    /// Whether the peer's certificate is for a host, a name or an address.
    #[must_use]
    pub fn peer_is(&self, host: &str) -> bool {
        self.peer_certificate().is_some_and(|certificate| is_for(certificate, host))
    }

    fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        let certificates = match &self.0 {
            Side::Server(stream) => stream.conn.peer_certificates(),
            Side::Client(stream) => stream.conn.peer_certificates(),
        };
        certificates?.first()
    }

    /// The socket.
    pub fn socket_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Side::Server(stream) => &mut stream.sock,
            Side::Client(stream) => &mut stream.sock,
        }
    }
}

impl<T: Read + Write> Read for Stream<T> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Side::Server(stream) => stream.read(space),
            Side::Client(stream) => stream.read(space),
        }
    }
}

impl<T: Read + Write> Write for Stream<T> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Side::Server(stream) => stream.write(octets),
            Side::Client(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Side::Server(stream) => stream.flush(),
            Side::Client(stream) => stream.flush(),
        }
    }
}

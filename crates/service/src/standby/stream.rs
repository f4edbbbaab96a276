//! A connection between leader and follower, used by one thread: frames over TCP, or TLS on it.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Instant;

use tls::{Session, sealed_bytes_max};

use super::frame::{Frame, LENGTH_BYTES};
use crate::config::Ends;
use crate::time;

/// Octets read at a time, and sealed at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum time for a connection to be made.
const CONNECTS_WITHIN: Duration = Duration::from_secs(3);

pub(crate) struct Stream {
    tcp: TcpStream,
    session: Option<Session>,
    /// Received plaintext, from the next frame on.
    received: Vec<u8>,
    chunk: Vec<u8>,
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// The session of an end, if there are ends. Nothing goes on in the clear where TLS is configured.
fn of_end<'e, E>(
    ends: Option<&'e Ends>,
    session: impl FnOnce(&'e Ends) -> Option<Result<Session, E>>,
) -> io::Result<Option<Session>>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Some(ends) = ends else { return Ok(None) };
    let session = session(ends).ok_or_else(|| invalid("[tls] has no certificate for this end"))?;
    session.map(Some).map_err(invalid)
}

impl Stream {
    /// Connects to a peer. `silent`: maximum time for each answer. `connected` is called with the connection before the handshake.
    pub(crate) fn connect(
        peer: &str,
        ends: Option<&Ends>,
        silent: Duration,
        connected: impl FnOnce(&TcpStream) -> io::Result<()>,
    ) -> io::Result<Self> {
        let (host, _) = peer.rsplit_once(':').unwrap_or((peer, ""));
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for address in peer.to_socket_addrs()? {
            if ends.is_none() && !address.ip().is_loopback() {
                failed = invalid(format!("without TLS it has to be a loopback address, and {peer} is {address} now"));
                continue;
            }
            match TcpStream::connect_timeout(&address, CONNECTS_WITHIN.min(silent)) {
                Err(error) => failed = error,
                Ok(tcp) => {
                    connected(&tcp)?;
                    let host = host.trim_start_matches('[').trim_end_matches(']');
                    let session = of_end(ends, |ends| ends.client.as_ref().map(|client| client.session(host)))?;
                    return Self::begin(tcp, session, silent);
                }
            }
        }
        Err(failed)
    }

    /// Performs the handshake on an accepted connection.
    pub(crate) fn accept(tcp: TcpStream, ends: Option<&Ends>, silent: Duration) -> io::Result<Self> {
        let session = of_end(ends, |ends| ends.server.as_ref().map(tls::ServerEnd::session))?;
        Self::begin(tcp, session, silent)
    }

    fn begin(tcp: TcpStream, session: Option<Session>, silent: Duration) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(silent))?;
        tcp.set_write_timeout(Some(silent))?;
        let mut stream = Self { tcp, session, received: Vec::new(), chunk: vec![0; CHUNK_BYTES] };
        stream.take_in(0)?;
        let until = time::now() + silent;
        while stream.session.as_ref().is_some_and(Session::is_handshaking) {
            stream.receive(until, "the TLS handshake was not over in time")?;
        }
        Ok(stream)
    }

    /// A handle that ends the connection from another thread.
    pub(crate) fn closer(&self) -> io::Result<TcpStream> {
        self.tcp.try_clone()
    }

    /// The host names and addresses in the peer's certificate, or `None` in the clear.
    pub(crate) fn peer_names(&self) -> Option<Vec<String>> {
        let session = self.session.as_ref()?;
        Some(session.peer_names().map(|names| names.sans).unwrap_or_default())
    }

    /// Sends encoded frames.
    pub(crate) fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.session else { return self.tcp.write_all(octets) };
        for chunk in octets.chunks(CHUNK_BYTES) {
            let mut sealed = vec![0; sealed_bytes_max(chunk.len())];
            let length = session.seal(chunk, &mut sealed).map_err(invalid)?;
            self.tcp.write_all(sealed.get(..length).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Sends a frame.
    pub(crate) fn send_frame(&mut self, frame: &Frame) -> io::Result<()> {
        let mut octets = Vec::new();
        frame.write(&mut octets);
        self.send(&octets)
    }

    /// Receives a frame of at most that many octets, within that time.
    pub(crate) fn frame(&mut self, bytes_max: usize, within: Duration) -> io::Result<Frame> {
        let until = time::now() + within;
        loop {
            if let Some((length, rest)) = self.received.split_first_chunk::<LENGTH_BYTES>() {
                let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
                if length > bytes_max {
                    return Err(invalid(format!("a frame of {length} octets is too long")));
                }
                if let Some(body) = rest.get(..length) {
                    let frame = Frame::read(body).ok_or_else(|| invalid("a frame cannot be read"));
                    self.received.drain(..LENGTH_BYTES + length);
                    return frame;
                }
            }
            self.receive(until, "it does not answer")?;
        }
    }

    /// Receives more. The time limit is looked at whenever something comes, so that a peer that sends an octet at a time meets it, too.
    fn receive(&mut self, until: Instant, why: &str) -> io::Result<()> {
        let left = until.saturating_duration_since(time::now());
        if left.is_zero() {
            return Err(late(why));
        }
        self.tcp.set_read_timeout(Some(left))?;
        match self.tcp.read(&mut self.chunk) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has closed the connection")),
            Ok(octets) => self.take_in(octets),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(late(why)),
            Err(error) => Err(error),
        }
    }

    fn take_in(&mut self, octets: usize) -> io::Result<()> {
        let Self { tcp, session, received, chunk } = self;
        let arrived = chunk.get_mut(..octets).unwrap_or_default();
        let Some(session) = session else {
            received.extend_from_slice(arrived);
            return Ok(());
        };
        let mut answer = Vec::new();
        let taken = session.take_in(arrived, |plain| received.extend_from_slice(plain), &mut answer);
        // An alert tells the peer what is wrong with it.
        let sent = tcp.write_all(&answer);
        taken.map_err(invalid)?;
        sent?;
        if session.has_ended() && received.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has closed the connection"));
        }
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

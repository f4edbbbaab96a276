//! Lines of JSON over a connection, each with a time limit: the same for the unix socket and for TLS.

use crate::plan::PLAN_BYTES_MAX;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tls::Trouble;

/// The most octets of a line: a plan, with what JSON adds to it.
pub(crate) const LINE_BYTES_MAX: usize = 2 * PLAN_BYTES_MAX;

/// How long a client may take for its handshake, to send its request, and to read the answer.
pub(crate) const CLIENT_LIMIT: Duration = Duration::from_secs(10);

/// A socket with time limits.
pub(crate) trait Socket: Read + Write + Send + AsFd {
    fn set_limit(&self, limit: Duration) -> io::Result<()>;

    /// Whether the peer has closed it, or is gone, as far as that is known now.
    fn is_closed(&self) -> bool {
        match recv(self, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((read, _)) => read == 0,
            Err(error) => error != Errno::AGAIN,
        }
    }
}

impl Socket for UnixStream {
    fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit)).and_then(|()| self.set_write_timeout(Some(limit)))
    }
}

impl Socket for TcpStream {
    fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(limit)).and_then(|()| self.set_write_timeout(Some(limit)))
    }
}

/// A socket at which nothing is waited for after a moment, however slowly the peer goes on.
#[derive(Debug)]
pub(crate) struct Timed<S> {
    socket: S,
    until: Instant,
}

impl<S: Socket> Timed<S> {
    pub(crate) fn new(socket: S, limit: Duration) -> Self {
        Self { socket, until: Instant::now() + limit }
    }

    fn arm(&self) -> io::Result<()> {
        match self.until.saturating_duration_since(Instant::now()) {
            left if left.is_zero() => Err(ErrorKind::TimedOut.into()),
            left => self.socket.set_limit(left),
        }
    }
}

impl<S: Socket> Read for Timed<S> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        self.socket.read(space)
    }
}

impl<S: Socket> Write for Timed<S> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.arm()?;
        self.socket.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// What lines go over.
trait Carrier: Read + Write + Send {
    fn set_until(&mut self, moment: Instant);

    /// Whether the peer has shown a certificate for a host.
    fn peer_is(&self, host: &str) -> bool;

    fn is_closed(&mut self) -> bool;
}

impl<S: Socket> Carrier for Timed<S> {
    fn set_until(&mut self, moment: Instant) {
        self.until = moment;
    }

    fn peer_is(&self, _: &str) -> bool {
        false
    }

    fn is_closed(&mut self) -> bool {
        self.socket.is_closed()
    }
}

impl<S: Socket> Carrier for tls::Stream<Timed<S>> {
    fn set_until(&mut self, moment: Instant) {
        self.socket_mut().until = moment;
    }

    fn peer_is(&self, host: &str) -> bool {
        Self::peer_is(self, host)
    }

    fn is_closed(&mut self) -> bool {
        self.socket_mut().socket.is_closed()
    }
}

/// A connection on which each side waits for the other's line.
pub(crate) struct Connection {
    carrier: Box<dyn Carrier>,
    /// What came after the last line.
    rest: Vec<u8>,
}

impl Connection {
    pub(crate) fn unix(socket: UnixStream) -> Self {
        Self { carrier: Box::new(Timed::new(socket, CLIENT_LIMIT)), rest: Vec::new() }
    }

    pub(crate) fn tls(stream: tls::Stream<Timed<TcpStream>>) -> Self {
        Self { carrier: Box::new(stream), rest: Vec::new() }
    }

    /// Whether the peer has shown a certificate for a host.
    pub(crate) fn peer_is(&self, host: &str) -> bool {
        self.carrier.peer_is(host)
    }

    /// Whether the peer is known to be gone.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.carrier.is_closed()
    }

    /// Reads a line, for so long at most.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, within: Duration) -> Result<T, String> {
        self.read_line(within, LINE_BYTES_MAX).and_then(|line| understand(&line))
    }

    /// Reads a line. Of one that has more octets than are stored, some in its middle are lost, so that it is not understood.
    pub(crate) fn read_line(&mut self, within: Duration, stored_max: usize) -> Result<Vec<u8>, String> {
        self.carrier.set_until(Instant::now() + within);
        let (mut line, mut chunk) = (std::mem::take(&mut self.rest), vec![0; 64 * 1024]);
        let (mut searched, mut lost) = (0, 0);
        loop {
            if let Some(end) = line.iter().skip(searched).position(|octet| *octet == b'\n') {
                self.rest = line.split_off(searched + end + 1);
                line.pop();
                return Ok(line);
            }
            if lost + line.len() > LINE_BYTES_MAX {
                return Err(format!("a line has at most {LINE_BYTES_MAX} octets"));
            }
            lost += line.len().saturating_sub(stored_max);
            line.truncate(stored_max);
            searched = line.len();
            match self.carrier.read(&mut chunk) {
                Ok(0) if line.is_empty() => return Err("the connection was closed".to_owned()),
                Ok(0) => return Err("the connection ended within a line".to_owned()),
                Ok(read) => line.extend_from_slice(chunk.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(words(&error, || format!("no line came within {} s", within.as_secs()))),
            }
        }
    }

    /// Writes a line. A peer that does not read it in time does not get it.
    pub(crate) fn send(&mut self, value: &impl Serialize) -> Result<(), String> {
        self.carrier.set_until(Instant::now() + CLIENT_LIMIT);
        let mut out = BufWriter::with_capacity(64 * 1024, &mut self.carrier);
        serde_json::to_writer(&mut out, value)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush())
            .map_err(|error| words(&error, || format!("a line was not read within {} s", CLIENT_LIMIT.as_secs())))
    }
}

/// What a line says.
pub(crate) fn understand<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| format!("the line is not understood: {error}"))
}

/// What has gone wrong with a connection.
pub(crate) fn words(error: &io::Error, late: impl FnOnce() -> String) -> String {
    match (error.kind(), Trouble::of_stream(error)) {
        (_, Some(trouble)) => trouble.to_string(),
        (ErrorKind::WouldBlock | ErrorKind::TimedOut, None) => late(),
        (ErrorKind::UnexpectedEof, None) => "the connection was closed".to_owned(),
        (_, None) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Connection, LINE_BYTES_MAX};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn a_peer_that_is_gone_is_known_before_anything_is_read() {
        let (mut client, node) = UnixStream::pair().unwrap();
        let mut node = Connection::unix(node);
        assert!(!node.is_closed());
        client.write_all(b"{}\n").unwrap();
        assert!(!node.is_closed());
        assert_eq!(node.read_line(Duration::from_secs(60), 256).as_deref(), Ok(&b"{}"[..]));
        drop(client);
        assert!(node.is_closed());
    }

    #[test]
    fn lines_that_are_late_or_too_long_are_refused() {
        let (mut client, node) = UnixStream::pair().unwrap();
        let mut node = Connection::unix(node);
        client.write_all(b"{}\n[]\nmore").unwrap();
        let far = Duration::from_secs(60);
        assert_eq!(node.read_line(far, 256).as_deref(), Ok(&b"{}"[..]));
        assert_eq!(node.read_line(far, 256).as_deref(), Ok(&b"[]"[..]));
        // Less than a line, and its time is over.
        assert_eq!(node.read_line(Duration::ZERO, 256).unwrap_err(), "no line came within 0 s");
        std::thread::scope(|scope| {
            let mut other = client.try_clone().unwrap();
            // It is read to its end, and not stored.
            scope.spawn(move || other.write_all(&[&vec![b' '; 1 << 20][..], b"\n{}\n"].concat()));
            let line = node.read_line(far, 256).unwrap();
            assert!(line.len() < 128 * 1024 && line.capacity() < 256 * 1024, "{} octets", line.capacity());
            assert_eq!(node.read_line(far, 256).as_deref(), Ok(&b"{}"[..]));
            // It is not read to its end.
            scope.spawn(|| client.write_all(&vec![b' '; LINE_BYTES_MAX + (1 << 20)]));
            assert!(node.read_line(far, LINE_BYTES_MAX).unwrap_err().contains("a line has at most"));
            drop(node);
        });
    }
}

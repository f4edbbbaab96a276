//! A connection's bytes, in the clear or through TLS.
//!
//! As with a socket, one thread may read while another writes. A writer encrypts under a lock of its own and then writes without the
//! session's lock, so that a reader never waits for a peer that does not read.

use crate::lock;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;
use tls::{
    CertificateNames, ClientEnd, Clients, Identity, LoadError, ServerEnd, Session, Trouble, Trust, sealed_bytes_max,
};

/// Octets read from a socket, or encrypted for one, at once.
const AT_ONCE: usize = 16 << 10;

/// TLS for an [`Orb`](crate::Orb): calls and served connections all use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrbTls {
    /// PEM file with the authorities that sign the certificates of called servers, and of the clients of servants.
    pub ca: PathBuf,
    /// PEM files with the own certificate, shown on request, and its key. Without them there are no servants. Default: none.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// PEM file with lists of revoked certificates. Default: none.
    pub crl: Option<PathBuf>,
    /// Whether a called server's certificate must name the host in its reference. Default true.
    pub check_names: bool,
}

impl OrbTls {
    /// Trusts these authorities, without an own certificate.
    #[must_use]
    pub fn trusting(ca: impl Into<PathBuf>) -> Self {
        Self { ca: ca.into(), identity: None, crl: None, check_names: true }
    }

    /// Adds an own certificate.
    #[must_use]
    pub fn with_identity(self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { identity: Some((certificate.into(), key.into())), ..self }
    }

    /// Reads the files.
    pub(crate) fn read(&self) -> Result<Ends, LoadError> {
        let trust = Trust::read(&self.ca, self.crl.as_deref())?;
        let identity = self.identity.as_ref().map(|(certificate, key)| Identity::read(certificate, key)).transpose()?;
        let client = ClientEnd::new(trust.clone(), self.check_names, identity.clone())?;
        let server = identity.map(|identity| ServerEnd::new(identity, Clients::Required(trust))).transpose()?;
        Ok(Ends { client, server })
    }
}

/// TLS of connections to servants, of a program that decides on them itself.
pub trait ServantTls: Send + Sync {
    /// The accepting side for the next connection.
    ///
    /// # Errors
    /// Its files are not right: the connection is closed.
    fn end(&self) -> Result<ServerEnd, LoadError>;

    /// Whether a client with these names in its certificate may call servants; `None` if they cannot be read. Others get `NO_PERMISSION`.
    fn admits(&self, names: Option<&CertificateNames>) -> bool;
}

/// One for all connections, and for all clients with valid certificates.
impl ServantTls for ServerEnd {
    fn end(&self) -> Result<ServerEnd, LoadError> {
        Ok(self.clone())
    }

    fn admits(&self, _: Option<&CertificateNames>) -> bool {
        true
    }
}

/// TLS configurations of both sides.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) client: ClientEnd,
    pub(crate) server: Option<ServerEnd>,
}

/// A connection, in the clear or with TLS: see the module.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<Secure>),
}

/// A connection with TLS.
#[derive(Debug)]
pub(crate) struct Secure {
    tcp: TcpStream,
    state: Mutex<State>,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct State {
    session: Session,
    /// Received plaintext that did not fit into the caller's buffer.
    surplus: Vec<u8>,
    /// Octets to send for TLS itself.
    answers: Vec<u8>,
}

#[derive(Debug, Default)]
struct Writer {
    sealed: Vec<u8>,
    /// Position of the unsent octets.
    from: usize,
    end: usize,
    /// Buffered plaintext bytes not yet acknowledged as written.
    plain: usize,
}

impl Wire {
    /// Performs the handshake of a connection within that time.
    pub(crate) fn secure(tcp: TcpStream, session: Session, limit: Option<Duration>) -> io::Result<Self> {
        let wire = Self::to_secure(tcp, session)?;
        let end = limit.map(|limit| Instant::now() + limit);
        while !wire.try_handshake()? {
            let out = if wire.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(wire.tcp(), PollFlags::IN | out)], left.as_ref()) {
                Ok(0) => return Err(io::Error::new(ErrorKind::TimedOut, "the TLS handshake was not over in time")),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(wire)
    }

    /// A connection before its handshake, which [`try_handshake`](Self::try_handshake) performs.
    pub(crate) fn to_secure(tcp: TcpStream, mut session: Session) -> io::Result<Self> {
        let mut answers = Vec::new();
        session.take_in(&mut [], |_| (), &mut answers).map_err(invalid)?;
        let state = State { session, surplus: Vec::new(), answers };
        Ok(Self::Tls(Box::new(Secure { tcp, state: Mutex::new(state), writer: Mutex::default() })))
    }

    /// Continues the handshake without waiting. Returns true once it is complete; in the clear there is none.
    pub(crate) fn try_handshake(&self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(secure) => secure.try_handshake(),
        }
    }

    /// Whether the socket has not taken all encrypted octets.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(secure) => lock(&secure.writer).end > 0,
        }
    }

    /// Tells the peer that the output has ended.
    pub(crate) fn say_end(&self) {
        if let Self::Tls(secure) = self {
            secure.say_end();
        }
        // It may be gone already.
        let _ = self.tcp().shutdown(Shutdown::Write);
    }

    /// The socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(secure) => &secure.tcp,
        }
    }

    /// The names in the peer's verified certificate, if it showed one.
    pub(crate) fn peer_names(&self) -> Option<CertificateNames> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(secure) => lock(&secure.state).session.peer_names(),
        }
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        self.tcp().shutdown(Shutdown::Both)
    }

    /// Whether there is input that the socket does not report.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(secure) => {
                let state = lock(&secure.state);
                !state.surplus.is_empty() || state.session.has_ended()
            }
        }
    }

    /// Reads available input, without waiting.
    pub(crate) fn try_read(&self, space: &mut [u8]) -> io::Result<usize> {
        let read = |tcp: &TcpStream, space: &mut [u8]| recv(tcp, space, RecvFlags::DONTWAIT).map(|(count, _)| count);
        match self {
            Self::Plain(tcp) => Ok(read(tcp, space)?),
            Self::Tls(secure) => secure.read(space, |tcp, arrived| Ok(read(tcp, arrived)?)),
        }
    }

    /// Writes what the socket takes, without waiting. The caller offers the rest again, beginning with the same octets.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => Ok(send(tcp, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?),
            Self::Tls(secure) => secure.try_write(bytes),
        }
    }
}

impl Read for &Wire {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(tcp) => (&*tcp).read(space),
            Wire::Tls(secure) => secure.read(space, |mut tcp, arrived| tcp.read(arrived)),
        }
    }
}

impl Write for &Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(tcp) => (&*tcp).write(bytes),
            Wire::Tls(secure) => secure.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn invalid(trouble: Trouble) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, trouble)
}

fn broken_off() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the TLS handshake was broken off")
}

impl Secure {
    fn try_handshake(&self) -> io::Result<bool> {
        let mut arrived = [0; AT_ONCE];
        let (mut count, mut result) = (0, Ok(()));
        loop {
            let is_over = {
                let writer = &mut *lock(&self.writer);
                let State { session, surplus, answers } = &mut *lock(&self.state);
                if count > 0 {
                    let octets = arrived.get_mut(..count).unwrap_or_default();
                    result = session.take_in(octets, |plain| surplus.extend_from_slice(plain), answers);
                }
                writer.put(answers);
                match self.send(writer) {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                    _ => !session.is_handshaking(),
                }
            };
            core::mem::replace(&mut result, Ok(())).map_err(invalid)?;
            if is_over {
                return Ok(true);
            }
            count = match recv(&self.tcp, &mut arrived, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(broken_off()),
                Ok((count, _)) => count,
                Err(Errno::INTR) => 0,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
        }
    }

    fn read(
        &self,
        space: &mut [u8],
        mut read: impl FnMut(&TcpStream, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut arrived = [0; AT_ONCE];
        loop {
            {
                let State { session, surplus, .. } = &mut *lock(&self.state);
                if !surplus.is_empty() {
                    let count = surplus.len().min(space.len());
                    let (now, _) = surplus.split_at(count);
                    space.get_mut(..count).unwrap_or_default().copy_from_slice(now);
                    surplus.drain(..count);
                    return Ok(count);
                }
                if session.has_ended() {
                    return Ok(0);
                }
            }
            let count = read(&self.tcp, &mut arrived)?;
            if count == 0 {
                return Ok(0);
            }
            let mut filled = 0;
            {
                let State { session, surplus, answers } = &mut *lock(&self.state);
                let plain = |plain: &[u8]| {
                    let rest = space.get_mut(filled..).unwrap_or_default();
                    let (fits, beyond) = plain.split_at(plain.len().min(rest.len()));
                    rest.get_mut(..fits.len()).unwrap_or_default().copy_from_slice(fits);
                    filled += fits.len();
                    surplus.extend_from_slice(beyond);
                };
                session.take_in(arrived.get_mut(..count).unwrap_or_default(), plain, answers).map_err(invalid)?;
            }
            if filled > 0 {
                return Ok(filled);
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut writer = lock(&self.writer);
        let chosen = bytes.get(..AT_ONCE).unwrap_or(bytes);
        self.seal(&mut writer, chosen)?;
        let Writer { sealed, from, end, plain } = &mut *writer;
        *plain = 0;
        (&self.tcp).write_all(sealed.get(*from..*end).unwrap_or_default())?;
        (*from, *end) = (0, 0);
        Ok(chosen.len())
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut writer = lock(&self.writer);
        self.send(&mut writer)?;
        // Octets that were sealed before are the first that are offered again.
        let mut taken = core::mem::take(&mut writer.plain).min(bytes.len());
        while taken < bytes.len() {
            let rest = bytes.get(taken..).unwrap_or_default();
            let chosen = rest.get(..AT_ONCE).unwrap_or(rest);
            self.seal(&mut writer, chosen)?;
            match self.send(&mut writer) {
                Ok(()) => taken += chosen.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    writer.plain = chosen.len();
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if taken == 0 && !bytes.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Encrypts the octets, behind pending ones.
    fn seal(&self, writer: &mut Writer, plain: &[u8]) -> io::Result<()> {
        let State { session, answers, .. } = &mut *lock(&self.state);
        writer.put(answers);
        let Writer { sealed, end, .. } = writer;
        let room = *end + sealed_bytes_max(plain.len());
        if sealed.len() < room {
            sealed.resize(room, 0);
        }
        let count = session.seal(plain, sealed.get_mut(*end..).unwrap_or_default());
        *end += count.map_err(|trouble| io::Error::new(ErrorKind::BrokenPipe, trouble))?;
        Ok(())
    }

    /// Tells the peer that the output has ended, if its socket takes that now.
    fn say_end(&self) {
        let mut end = Vec::new();
        lock(&self.state).session.close(&mut end);
        if lock(&self.writer).end == 0 {
            let _ = send(&self.tcp, &end, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Writes encrypted octets to the socket, without waiting.
    fn send(&self, writer: &mut Writer) -> io::Result<()> {
        let Writer { sealed, from, end, .. } = writer;
        while from < end {
            let rest = sealed.get(*from..*end).unwrap_or_default();
            match send(&self.tcp, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => *from += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        (*from, *end) = (0, 0);
        Ok(())
    }
}

impl Writer {
    /// Appends octets to the pending ones.
    fn put(&mut self, octets: &mut Vec<u8>) {
        let Self { sealed, end, .. } = self;
        let rest = sealed.len() - *end;
        if rest < octets.len() {
            sealed.resize(*end + octets.len(), 0);
        }
        sealed.get_mut(*end..*end + octets.len()).unwrap_or_default().copy_from_slice(octets);
        *end += octets.len();
        octets.clear();
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.say_end();
    }
}

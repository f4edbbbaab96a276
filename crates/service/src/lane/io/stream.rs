//! A connection's bytes, in the clear or through TLS.
//!
//! Protocols read and write both in the same way. With TLS, plaintext may have arrived that the poll does not report any more
//! ([`Stream::has_more`]), and the socket may have taken only part of a sealed record. Plaintext counts as written when the socket has all
//! of its ciphertext: until then it stays in the connection's output, is charged there, and has the poll report room.
//!
//! Handshakes are not made here but on [a thread of their own](crate::handshakes): a lane only opens and seals records.

use core::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};

use tls::{Session, sealed_bytes_max};

use crate::lane::io::net::{self, Tcp};
use crate::lane::io::output::would_block;

/// Maximum octets read from a socket, or sealed for one, at once.
const AT_ONCE: usize = 64 << 10;
/// Minimum octets read, however little room there is for their plaintext.
const READ_MIN: usize = 4 << 10;

/// Working buffers of a thread that has connections with TLS.
struct Scratch {
    read: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        read: Vec::with_capacity(AT_ONCE),
        plain: Vec::with_capacity(AT_ONCE),
        sealed: vec![0; sealed_bytes_max(AT_ONCE)],
    });
}

/// A connection's byte stream, in the clear or through TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Tcp),
    Secure(Box<Secure>),
}

/// A connection with TLS.
#[derive(Debug)]
pub(crate) struct Secure {
    tcp: Tcp,
    session: Session,
    /// Received plaintext for which the reader's buffer had no room.
    surplus: Vec<u8>,
    /// Records that the socket has not taken; the first may have been sent in part.
    unsent: Vec<u8>,
    /// Octets of plaintext in `unsent` that are not yet reported as written.
    sealed: usize,
}

impl From<Tcp> for Stream {
    fn from(tcp: Tcp) -> Self {
        Self::Plain(tcp)
    }
}

#[cfg(test)]
impl From<std::net::TcpStream> for Stream {
    fn from(tcp: std::net::TcpStream) -> Self {
        Self::Plain(tcp.into())
    }
}

impl Stream {
    /// The socket, for the poll.
    pub(crate) const fn tcp(&self) -> &Tcp {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Secure(secure) => &secure.tcp,
        }
    }

    /// Appends what has arrived, as far as the buffer has room without growing. 0 at the end of the peer's stream.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has arrived; otherwise the connection is broken, or the peer violates TLS.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => net::receive(tcp, buffer),
            Self::Secure(secure) => secure.receive(buffer),
        }
    }

    /// Writes as much as the socket takes.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => net::write(tcp, bytes),
            Self::Secure(secure) => secure.write(&[IoSlice::new(bytes)]),
        }
    }

    /// Writes as [`Self::write`] does, from several slices one behind the other.
    #[inline]
    pub(crate) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => net::write_vectored(tcp, slices),
            Self::Secure(secure) => secure.write(slices),
        }
    }

    /// Whether input has arrived that the poll does not report.
    #[inline]
    pub(crate) const fn has_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Secure(secure) => !secure.surplus.is_empty() || secure.session.has_ended(),
        }
    }

    /// Whether unread input has arrived. False at the end of the peer's stream.
    pub(crate) fn has_unread(&self) -> bool {
        match self {
            Self::Plain(tcp) => net::has_unread(tcp),
            Self::Secure(secure) => {
                !secure.surplus.is_empty() || !secure.session.has_ended() && net::has_unread(&secure.tcp)
            }
        }
    }
}

impl Secure {
    /// A connection before its handshake.
    pub(crate) const fn new(tcp: Tcp, session: Session) -> Self {
        Self { tcp, session, surplus: Vec::new(), unsent: Vec::new(), sealed: 0 }
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) const fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// Whether the handshake waits for room in the socket.
    pub(crate) const fn is_full(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Continues the handshake as far as the input allows. `first` is given the first octets of the connection. True when the handshake is
    /// over.
    ///
    /// # Errors
    /// The reason why there is no TLS.
    pub(crate) fn shake(&mut self, first: &mut impl FnMut(&[u8])) -> Result<bool, Broken> {
        if self.send().map_err(Broken::Socket)? && self.session.is_handshaking() {
            let mut nothing = Vec::with_capacity(0);
            match self.open(&mut nothing, READ_MIN, first) {
                Ok(0) => return Err(Broken::Socket(ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(Broken::Socket(error)) if would_block(&error) || error.kind() == ErrorKind::Interrupted => {}
                Err(broken) => return Err(broken),
            }
            self.send().map_err(Broken::Socket)?;
        }
        Ok(!self.session.is_handshaking() && self.unsent.is_empty())
    }

    /// Starts a client's handshake.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn greet(&mut self) -> Result<(), tls::Trouble> {
        self.session.take_in(&mut [], |_| (), &mut self.unsent)
    }

    #[inline(never)]
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let room = buffer.capacity() - buffer.len();
        if !self.surplus.is_empty() {
            let count = room.min(self.surplus.len());
            buffer.extend(self.surplus.drain(..count));
            if self.surplus.is_empty() {
                self.surplus = Vec::new();
            }
            return Ok(count);
        }
        if self.session.has_ended() {
            return Ok(0);
        }
        let before = buffer.len();
        let opened = self.open(buffer, room.clamp(READ_MIN, AT_ONCE), &mut |_| ());
        // An answer, or an alert about the peer's mistake; if there is no room for it, it goes with what is written next.
        let _ = self.send();
        let arrived = opened.map_err(io::Error::from)?;
        let count = buffer.len() - before;
        if count == 0 && arrived > 0 && !self.session.has_ended() {
            Err(ErrorKind::WouldBlock.into())
        } else {
            Ok(count)
        }
    }

    /// Reads up to `most` octets, and opens the records that they complete. Returns how many octets were read.
    fn open(&mut self, buffer: &mut Vec<u8>, most: usize, first: &mut impl FnMut(&[u8])) -> Result<usize, Broken> {
        let Self { tcp, session, surplus, unsent, .. } = self;
        SCRATCH.with_borrow_mut(|Scratch { read, .. }| {
            // The socket fills what is left of it.
            let from = AT_ONCE - most.min(AT_ONCE);
            read.resize(from, 0);
            let count = net::receive(tcp, read).map_err(Broken::Socket)?;
            let arrived = read.get_mut(from..).unwrap_or_default();
            first(arrived);
            let plain = |plain: &[u8]| {
                let (fits, rest) = plain.split_at(plain.len().min(buffer.capacity() - buffer.len()));
                buffer.extend_from_slice(fits);
                surplus.extend_from_slice(rest);
            };
            session.take_in(arrived, plain, unsent).map_err(Broken::Tls)?;
            Ok(count)
        })
    }

    /// Writes unsent records to the socket. True if it has taken all.
    fn send(&mut self) -> io::Result<bool> {
        while !self.unsent.is_empty() {
            match net::write(&self.tcp, &self.unsent) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) if count == self.unsent.len() => self.unsent = Vec::new(),
                Ok(count) => _ = self.unsent.drain(..count),
                Err(error) if would_block(&error) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    #[inline(never)]
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.send()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        // Octets that were sealed before are offered again first.
        let mut taken = self.sealed.min(offered);
        self.sealed -= taken;
        while taken < offered {
            let sealed = self.write_some(slices, taken)?;
            if !self.unsent.is_empty() {
                self.sealed = sealed;
                break;
            }
            taken += sealed;
        }
        if taken == 0 && offered > 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Seals some of the slices from octet `from` on, and writes the records to the socket. Returns how many octets were sealed.
    fn write_some(&mut self, slices: &[IoSlice<'_>], from: usize) -> io::Result<usize> {
        let Self { tcp, session, unsent, .. } = self;
        SCRATCH.with_borrow_mut(|Scratch { plain, sealed, .. }| {
            let chosen = if let [one] = slices {
                let rest = one.get(from..).unwrap_or_default();
                rest.get(..AT_ONCE).unwrap_or(rest)
            } else {
                plain.clear();
                let mut skipped = from;
                for slice in slices {
                    let rest = slice.get(skipped.min(slice.len())..).unwrap_or_default();
                    skipped -= slice.len() - rest.len();
                    let room = AT_ONCE - plain.len();
                    plain.extend_from_slice(rest.get(..room).unwrap_or(rest));
                }
                plain.as_slice()
            };
            let octets = session.seal(chosen, sealed).map_err(|trouble| io::Error::from(Broken::Tls(trouble)))?;
            let record = sealed.get(..octets).unwrap_or_default();
            let gone = match net::write(tcp, record) {
                Ok(gone) => gone,
                Err(error) if would_block(&error) || error.kind() == ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
            };
            unsent.extend_from_slice(record.get(gone..).unwrap_or_default());
            Ok(chosen.len())
        })
    }
}

impl Drop for Secure {
    /// Announces the end of the stream to the peer, if the socket has room now.
    fn drop(&mut self) {
        if self.unsent.is_empty() {
            self.session.close(&mut self.unsent);
            let _ = self.send();
        }
    }
}

/// Why a connection with TLS has failed.
#[derive(Debug)]
pub(crate) enum Broken {
    Socket(io::Error),
    Tls(tls::Trouble),
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Socket(error) => error,
            Broken::Tls(trouble) => Self::new(ErrorKind::InvalidData, trouble),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use testing::AcceptInTime;
    use testing::certificates::Authority;
    use tls::{ClientEnd, Clients, Identity, ServerEnd, Trust};

    use super::*;
    use crate::lane::io::output::{Flushed, Output, Spares};

    /// Both ends of a connection, neither of which waits, with their handshake made; the first one's socket takes little at once.
    fn pair(authority: &Authority) -> (Stream, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept_in_time();
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 8 << 10).unwrap();
        for tcp in [&ours, &theirs] {
            tcp.set_nonblocking(true).unwrap();
        }
        let certified = authority.certify("lane");
        let identity = Identity::read(&certified.certificate, &certified.key).unwrap();
        let server = ServerEnd::new(identity, Clients::NotRequested).unwrap().session().unwrap();
        let trust = Trust::read(&authority.file(), None).unwrap();
        let client = ClientEnd::new(trust, true, None).unwrap().session("localhost").unwrap();
        let (mut ours, mut theirs) = (Secure::new(ours.into(), server), Secure::new(theirs.into(), client));
        theirs.greet().unwrap();
        while !(ours.shake(&mut |_| ()).unwrap() & theirs.shake(&mut |_| ()).unwrap()) {
            std::thread::yield_now();
        }
        (Stream::Secure(Box::new(ours)), Stream::Secure(Box::new(theirs)))
    }

    /// What has arrived, into a buffer with so much room.
    fn receive(stream: &mut Stream, room: usize, all: &mut Vec<u8>) -> usize {
        let mut buffer = Vec::with_capacity(room);
        let room = buffer.capacity();
        match stream.receive(&mut buffer) {
            Ok(count) => {
                assert_eq!((count, buffer.capacity()), (buffer.len(), room), "it has not grown");
                all.extend_from_slice(&buffer);
                count
            }
            Err(error) => {
                assert!(would_block(&error), "{error}");
                assert!(!stream.has_more());
                0
            }
        }
    }

    #[test]
    fn what_is_written_arrives_in_order_however_little_the_socket_takes_and_there_is_room_for() {
        let authority = Authority::new("stream-order");
        for (room, bytes_max) in [(1, 3_000), (100, 50_000), (5_000, 1_000), (128 << 10, usize::MAX)] {
            let (mut ours, mut theirs) = pair(&authority);
            let (mut output, mut spares) = (Output::default(), Spares::default());
            let octets = if room == 1 { 30_000 } else { 700_000 };
            let sent: Vec<u8> =
                (0..octets).map(|number: u32| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
            for chunk in sent.chunks(20_011) {
                output.bytes().extend_from_slice(b"head");
                output.push_bytes(chunk.to_vec());
            }
            let expected: Vec<u8> = sent.chunks(20_011).flat_map(|chunk| [b"head", chunk].concat()).collect();
            let (mut received, mut was_full) = (Vec::new(), false);
            while received.len() < expected.len() {
                let flushed = output.flush(&mut ours, &mut spares, bytes_max).unwrap();
                // What the socket has not taken keeps the poll asked.
                assert_eq!(flushed == Flushed::All, output.is_empty());
                was_full |= flushed == Flushed::Full;
                receive(&mut theirs, room, &mut received);
            }
            assert!(received == expected && output.is_empty(), "room for {room}, {bytes_max} at once");
            assert!(was_full || octets < 100_000);
        }
    }

    #[test]
    fn plaintext_for_which_there_was_no_room_is_reported_without_the_socket() {
        let authority = Authority::new("stream-surplus");
        let (mut ours, mut theirs) = pair(&authority);
        assert_eq!(ours.write(&[7; 3_000]).unwrap(), 3_000);
        let mut received = Vec::new();
        while receive(&mut theirs, 1_000, &mut received) == 0 {
            std::thread::yield_now();
        }
        assert!(theirs.has_more() && theirs.has_unread() && !net::has_unread(theirs.tcp()));
        while theirs.has_more() {
            receive(&mut theirs, 1_000, &mut received);
        }
        assert_eq!((received, theirs.has_unread()), (vec![7; 3_000], false));
    }

    #[test]
    fn end_comes_behind_what_was_written_and_is_reported_without_the_socket() {
        let authority = Authority::new("stream-end");
        let (mut ours, mut theirs) = pair(&authority);
        assert_eq!(ours.write(b"last").unwrap(), 4);
        drop(ours);
        let mut received = Vec::new();
        while received.is_empty() {
            receive(&mut theirs, 100, &mut received);
        }
        let mut buffer = Vec::with_capacity(100);
        while !matches!(theirs.receive(&mut buffer), Ok(0)) {
            std::thread::yield_now();
        }
        assert_eq!((received.as_slice(), buffer.len(), theirs.has_unread()), (&b"last"[..], 0, false));
    }

    #[test]
    fn what_was_changed_on_its_way_breaks_the_connection() {
        let authority = Authority::new("stream-changed");
        let (ours, mut theirs) = pair(&authority);
        net::write(ours.tcp(), &[0x17, 3, 3, 0, 32].into_iter().chain([0; 32]).collect::<Vec<u8>>()).unwrap();
        let mut buffer = Vec::with_capacity(100);
        let error = loop {
            match theirs.receive(&mut buffer) {
                Err(error) if would_block(&error) => std::thread::yield_now(),
                other => break other.unwrap_err(),
            }
        };
        assert_eq!((error.kind(), buffer.len()), (ErrorKind::InvalidData, 0));
        assert!(theirs.write(b"x").is_err());
    }
}

//! One hop: what a process in the middle needs that understands nothing but where a GIOP message ends.
//!
//! One thread, one level-triggered epoll. The floors are made of it, [`relay`](crate::relay) and
//! [`fan_out`](crate::performance::fan_out), so it has to be as lean as such a program honestly is: it neither spins nor
//! batches, and allocates nothing in the steady state.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use crate::process::Process;
use crate::{BenchError, Output};

/// Octets of a GIOP header (CORBA 3.3 part 2, 9.4.1).
const HEADER_LEN: usize = 12;

/// Where a message's size stands in its header.
const SIZE_OFFSET: usize = 8;

/// Room that each direction starts with; grown only for a message that is larger.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// The largest message that is relayed.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a hop says when it listens; the address follows.
const READY: &str = "listening on ";

/// Starts one: a hidden sub-command and its arguments, on this core only and at this `SCHED_FIFO` priority if given. Says where it listens.
pub(crate) fn start(
    words: &[OsString],
    confined: (Option<usize>, Option<u8>),
) -> Result<(Process, SocketAddr), BenchError> {
    Process::start_confined("the bare relay", None, confined, words, |line| line.strip_prefix(READY)?.parse().ok())
}

/// Says, as a hop, where it listens.
pub(crate) fn say_ready(address: io::Result<SocketAddr>, out: &mut Output<'_>) -> Result<(), BenchError> {
    let address = address.map_err(BenchError::io("reading the address to listen on"))?;
    writeln!(out, "{READY}{address}")?;
    Ok(out.flush()?)
}

/// Listens on a port of its own on loopback, says so in one line, and takes the first supplier that connects.
pub(crate) fn accept_supplier(out: &mut Output<'_>) -> Result<TcpStream, BenchError> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .map_err(BenchError::io("listening for the supplier"))?;
    say_ready(listener.local_addr(), out)?;
    let (supplier, _) = listener.accept().map_err(BenchError::io("accepting the supplier"))?;
    Ok(supplier)
}

/// Bytes that a peer has sent and that were not passed on yet.
pub(crate) struct Pending {
    bytes: Vec<u8>,
    /// How much of them is filled.
    filled: usize,
}

impl Pending {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; BUFFER_BYTES], filled: 0 }
    }

    /// Reads once and has the whole messages that are there passed on, if there are any; `false` when the peer has closed.
    pub(crate) fn forward(
        &mut self,
        mut from: &TcpStream,
        pass: impl FnOnce(&[u8]) -> Result<(), BenchError>,
    ) -> Result<bool, BenchError> {
        match from.read(self.bytes.get_mut(self.filled..).unwrap_or_default()) {
            Ok(0) => return Ok(false),
            Ok(count) => self.filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(source) => return Err(BenchError::Io { doing: "reading from a peer", source }),
        }
        let Whole { bytes: whole, next } = whole_messages(self.bytes.get(..self.filled).unwrap_or_default())?;
        if let Some(messages) = self.bytes.get(..whole).filter(|messages| !messages.is_empty()) {
            pass(messages)?;
            self.bytes.copy_within(whole..self.filled, 0);
            self.filled -= whole;
        }
        if next > self.bytes.len() {
            self.bytes.resize(next, 0);
        }
        Ok(true)
    }
}

/// How far a buffer holds whole messages.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    /// Octets of all whole messages at the buffer's start.
    bytes: usize,
    /// Octets of the message after those, as far as its header has come; 0 when unknown.
    next: usize,
}

/// Finds where the last whole message of `bytes` ends.
fn whole_messages(bytes: &[u8]) -> Result<Whole, BenchError> {
    let mut end = 0;
    loop {
        let rest = bytes.get(end..).unwrap_or_default();
        let Some(length) = message_length(rest)? else {
            return Ok(Whole { bytes: end, next: 0 });
        };
        if rest.len() < length {
            return Ok(Whole { bytes: end, next: length });
        }
        end += length;
    }
}

/// The length of the message that `bytes` begin, header included; `None` while its header is incomplete.
pub(crate) fn message_length(bytes: &[u8]) -> Result<Option<usize>, BenchError> {
    let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let [b'G', b'I', b'O', b'P', _, _, flags, _, ..] = header else {
        return Err(not_giop("does not start with GIOP"));
    };
    let size = header.last_chunk::<{ HEADER_LEN - SIZE_OFFSET }>().copied().unwrap_or_default();
    let size = if flags & 1 == 0 { u32::from_be_bytes(size) } else { u32::from_le_bytes(size) };
    let length = usize::try_from(size).ok().and_then(|size| size.checked_add(HEADER_LEN));
    match length {
        Some(length) if length <= MESSAGE_BYTES_MAX => Ok(Some(length)),
        _ => Err(not_giop("claims more than 64 MiB")),
    }
}

fn not_giop(what: &str) -> BenchError {
    BenchError::Protocol { contender: "a peer of the relay".to_owned(), reason: format!("sent a message that {what}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The two ends of a connection.
    pub(crate) fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    pub(crate) fn message(endian: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = b"GIOP\x01\x02\x00\x00".to_vec();
        bytes[6] = endian;
        let size = u32::try_from(body.len()).unwrap();
        bytes.extend_from_slice(&if endian == 0 { size.to_be_bytes() } else { size.to_le_bytes() });
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn finds_the_end_of_whole_messages_at_every_cut() {
        let first = message(1, b"abc");
        let second = message(0, &[7; 300]);
        let both = [first.clone(), second.clone()].concat();
        for cut in 0..=both.len() {
            let found = whole_messages(&both[..cut]).unwrap();
            let whole = if cut < first.len() {
                0
            } else if cut < both.len() {
                first.len()
            } else {
                both.len()
            };
            assert_eq!(found.bytes, whole, "cut at {cut}");
            let rest = cut - whole;
            let next = if rest < HEADER_LEN {
                0
            } else if whole == 0 {
                first.len()
            } else {
                second.len()
            };
            assert_eq!(found.next, next, "cut at {cut}");
        }
    }

    #[test]
    fn refuses_what_is_not_giop_and_what_claims_too_much() {
        assert!(whole_messages(b"HTTP/1.1 200 OK\r\n").is_err());
        assert!(whole_messages(b"GIOP\x01\x02\x01\x00\xff\xff\xff\xff").is_err());
    }
}

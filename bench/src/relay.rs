//! The floor: what it costs to have any process at all between supplier and consumer.
//!
//! One thread, one level-triggered epoll, two connections. A request that the supplier sends is written to the
//! consumer, the reply that the consumer sends is written to the supplier; nothing is understood but where a GIOP
//! message ends. An exchange costs two `epoll_wait`, two `read` and two `write`, which is the least a relay of this
//! kind can do, and no allocation. It is the yardstick of `campanile bench floor`, so it has to be as lean as
//! such a program honestly is: it neither spins nor batches.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use rustix::event::epoll;

use crate::{BenchError, Output, RelayOptions};

/// The name of the hidden sub-command.
pub(crate) const COMMAND: &str = "relay-process";

/// What its ready line starts with; the address it listens on follows.
pub(crate) const READY: &str = "relay listening on ";

/// Octets of a GIOP header (CORBA 3.3 part 2, 9.4.1).
const HEADER_LEN: usize = 12;

/// Where a message's size stands in its header.
const SIZE_OFFSET: usize = 8;

/// Room that each direction starts with; grown only for a message that is larger.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// The largest message that is relayed.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Runs the relay until one of its two peers closes its connection.
///
/// Connects to the consumer, then listens on a port of its own on loopback, says so in one line, and takes the
/// first supplier that connects.
///
/// # Errors
///
/// When a socket fails, or a peer sends what is not GIOP.
pub fn run_process(options: &RelayOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let consumer = TcpStream::connect(options.consumer).map_err(BenchError::io("connecting to the consumer"))?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .map_err(BenchError::io("listening for the supplier"))?;
    let address = listener.local_addr().map_err(BenchError::io("reading the address of the relay"))?;
    writeln!(out, "{READY}{address}")?;
    out.flush()?;
    let (supplier, _) = listener.accept().map_err(BenchError::io("accepting the supplier"))?;
    drop(listener);
    relay(supplier, consumer)
}

/// Carries whole messages between `supplier` and `consumer`, in both directions, until one of them closes.
///
/// # Errors
///
/// When a socket fails, or a peer sends what is not GIOP.
pub fn relay(supplier: TcpStream, consumer: TcpStream) -> Result<(), BenchError> {
    let mut supplier = End::new(supplier)?;
    let mut consumer = End::new(consumer)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(errno("creating an epoll"))?;
    epoll::add(&poll, &supplier.stream, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
        .map_err(errno("polling the supplier"))?;
    epoll::add(&poll, &consumer.stream, epoll::EventData::new_u64(1), epoll::EventFlags::IN)
        .map_err(errno("polling the consumer"))?;
    let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 2];
    loop {
        let count = match epoll::wait(&poll, &mut events, None) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(other) => return Err(errno("waiting for the peers")(other)),
        };
        for event in events.iter().take(count) {
            let data = event.data;
            let open = if data.u64() == 0 {
                supplier.forward_to(&mut consumer.stream)?
            } else {
                consumer.forward_to(&mut supplier.stream)?
            };
            if !open {
                return Ok(());
            }
        }
    }
}

/// One of the two connections, with what it has sent and nobody has been given yet.
struct End {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How much of `buffer` is filled.
    filled: usize,
}

impl End {
    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES], filled: 0 })
    }

    /// Reads once and writes the whole messages that are there to `other`; `false` when this end has closed.
    ///
    /// Both sockets block. A read never does, since epoll said that there is something; a write does when `other`
    /// does not read, which two-way traffic bounds to one message.
    fn forward_to(&mut self, other: &mut TcpStream) -> Result<bool, BenchError> {
        let space = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let count = match self.stream.read(space) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(source) => return Err(BenchError::Io { doing: "reading from a peer", source }),
        };
        self.filled += count;
        let Whole { bytes: whole, next } = whole_messages(self.buffer.get(..self.filled).unwrap_or_default())?;
        if let Some(messages) = self.buffer.get(..whole).filter(|messages| !messages.is_empty()) {
            other.write_all(messages).map_err(BenchError::io("writing to a peer"))?;
            self.buffer.copy_within(whole..self.filled, 0);
            self.filled -= whole;
        }
        if next > self.buffer.len() {
            self.buffer.resize(next, 0);
        }
        Ok(true)
    }
}

/// How far a buffer holds whole messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Octets of all whole messages at the buffer's start.
    pub(crate) bytes: usize,
    /// Octets of the message after those, as far as its header has come; 0 when unknown.
    pub(crate) next: usize,
}

/// Finds where the last whole message of `bytes` ends.
pub(crate) fn whole_messages(bytes: &[u8]) -> Result<Whole, BenchError> {
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

/// Wraps rustix's errors like those of the standard library.
fn errno(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> BenchError {
    move |errno| BenchError::Io { doing, source: errno.into() }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn message(endian: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = b"GIOP\x01\x02\x00\x00".to_vec();
        bytes[6] = endian;
        let size = u32::try_from(body.len()).unwrap();
        bytes.extend_from_slice(&if endian == 0 { size.to_be_bytes() } else { size.to_le_bytes() });
        bytes.extend_from_slice(body);
        bytes
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        (near, far)
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

    #[test]
    fn carries_requests_and_replies_unchanged_whatever_the_size_of_the_pieces() {
        let (mut supplier, relay_supplier) = pair();
        let (mut consumer, relay_consumer) = pair();
        let running = thread::spawn(move || relay(relay_supplier, relay_consumer));
        let large: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        for body in [&b""[..], b"x", &large] {
            let request = message(1, body);
            let sent = request.clone();
            let mut writer = supplier.try_clone().unwrap();
            let writing = thread::spawn(move || {
                for piece in sent.chunks(7001) {
                    writer.write_all(piece).unwrap();
                }
            });
            let mut received = vec![0; request.len()];
            consumer.read_exact(&mut received).unwrap();
            writing.join().unwrap();
            assert!(received == request, "request of {} octets", request.len());
            let reply = message(0, &[1, 2, 3]);
            consumer.write_all(&reply).unwrap();
            let mut received = vec![0; reply.len()];
            supplier.read_exact(&mut received).unwrap();
            assert_eq!(received, reply);
        }
        drop(supplier);
        running.join().unwrap().unwrap();
    }
}

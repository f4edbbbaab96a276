//! The floor of a fan-out: what it costs at least to write each event to many consumers.
//!
//! One thread, one level-triggered epoll. What has come whole from the supplier goes to each process of consumers in one
//! `writev`, each message as often as there are consumers in that process; then the supplier is answered, where it asked
//! for that, all at once. The consumers' replies are read and thrown away. Nothing is understood but where a message ends,
//! its number, and whether a reply is wanted, and nothing is allocated in the steady state.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};

use load::poll::Poll;
use rustix::event::{PollFd, PollFlags, poll};

use crate::hop::{BUFFER_BYTES, Pending, accept_supplier, message_length};
use crate::wire::REQUEST_ID;
use crate::{BenchError, Output};

pub(crate) const COMMAND: &str = "fan-out-process";

/// Pieces of one `writev`: what the kernel takes (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

/// Where a request of GIOP 1.2 says whether a reply is wanted.
const RESPONSE_FLAGS: usize = 16;

/// A reply without result; the request's number is written over that in it.
const REPLY: [u8; 24] = *b"GIOP\x01\x02\x01\x01\x0c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The supplier's key; a consumer's is its index.
const SUPPLIER: u64 = u64::MAX;

/// Runs the fan-out until the supplier closes its connection.
///
/// Connects to the consumers, then listens on a port of its own on loopback, says so in one line, and takes the first
/// supplier that connects.
pub(crate) fn run_process(consumers: &[String], out: &mut Output<'_>) -> Result<(), BenchError> {
    let consumers = consumers.iter().map(|consumer| Consumer::connect(consumer)).collect::<Result<_, _>>()?;
    fan_out(accept_supplier(out)?, consumers)
}

pub(crate) struct Consumer {
    stream: TcpStream,
    copies: usize,
}

impl Consumer {
    /// Connects to `ADDRESS`, or `ADDRESSxCOPIES`.
    fn connect(consumer: &str) -> Result<Self, BenchError> {
        let (address, copies) = consumer.split_once('x').unwrap_or((consumer, "1"));
        let bad = BenchError::Option { name: "--consumer", must_be: "ADDRESS:PORT or ADDRESS:PORTxCOPIES".into() };
        let (Ok(address), Ok(copies)) = (address.parse::<SocketAddr>(), copies.parse()) else { return Err(bad) };
        let stream = TcpStream::connect(address).map_err(BenchError::io("connecting to a consumer"))?;
        Self::new(stream, copies)
    }

    fn new(stream: TcpStream, copies: usize) -> Result<Self, BenchError> {
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        // A consumer that answers more than it reads must not stop this, and itself with it.
        stream.set_nonblocking(true).map_err(BenchError::io("making a consumer's connection not block"))?;
        Ok(Self { stream, copies })
    }

    /// Reads and discards what it answered.
    fn drain(&mut self, scratch: &mut [u8]) -> Result<(), BenchError> {
        match self.stream.read(scratch) {
            Ok(0) => Err(BenchError::Protocol { contender: "a consumer".to_owned(), reason: "closed".to_owned() }),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(source) => Err(BenchError::Io { doing: "reading a consumer's replies", source }),
        }
    }

    /// Writes it all of these messages: at once to one consumer; to several in one process, each message that often.
    fn take(&mut self, messages: &[u8], scratch: &mut [u8]) -> Result<(), BenchError> {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut rest = messages;
        while !rest.is_empty() {
            let count = pieces_of(&mut rest, self.copies, &mut pieces)?;
            self.write(pieces.get_mut(..count).unwrap_or_default(), scratch)?;
        }
        Ok(())
    }

    /// Writes all of these pieces, however long that takes.
    fn write(&mut self, mut pieces: &mut [IoSlice<'_>], scratch: &mut [u8]) -> Result<(), BenchError> {
        while !pieces.is_empty() {
            let most = pieces.len().min(PIECES_MAX);
            match self.stream.write_vectored(pieces.get(..most).unwrap_or_default()) {
                Ok(count) => IoSlice::advance_slices(&mut pieces, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut waiting = [PollFd::new(&self.stream, PollFlags::IN | PollFlags::OUT)];
                    poll(&mut waiting, None).map_err(BenchError::errno("waiting for a consumer"))?;
                    self.drain(scratch)?;
                }
                Err(source) => return Err(BenchError::Io { doing: "writing to a consumer", source }),
            }
        }
        Ok(())
    }
}

/// Writes whole messages of the supplier to all consumers, until it closes.
pub(crate) fn fan_out(supplier: TcpStream, mut consumers: Vec<Consumer>) -> Result<(), BenchError> {
    supplier.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
    let peers = Poll::new()?;
    peers.add(&supplier, SUPPLIER)?;
    for (index, consumer) in (0..).zip(&consumers) {
        peers.add(&consumer.stream, index)?;
    }
    let (mut pending, mut answers) = (Pending::new(), Vec::new());
    let mut scratch = vec![0; BUFFER_BYTES];
    peers.serve(|key| {
        if key == SUPPLIER {
            return pending.forward(&supplier, |messages| {
                consumers.iter_mut().try_for_each(|consumer| consumer.take(messages, &mut scratch))?;
                replies(messages, &mut answers)?;
                (&supplier).write_all(&answers).map_err(BenchError::io("answering the supplier"))?;
                answers.clear();
                Ok(())
            });
        }
        let consumer = usize::try_from(key).ok().and_then(|index| consumers.get_mut(index));
        consumer.map_or(Ok(()), |consumer| consumer.drain(&mut scratch)).map(|()| true)
    })
}

/// Fills pieces with messages, each that often, as long as there is room for all copies of one (or it is the first); how many
/// pieces that were. `rest` is what is left.
fn pieces_of<'a>(rest: &mut &'a [u8], copies: usize, pieces: &mut [IoSlice<'a>]) -> Result<usize, BenchError> {
    if copies == 1 {
        if let Some(piece) = pieces.first_mut() {
            *piece = IoSlice::new(rest);
        }
        *rest = &[];
        return Ok(1);
    }
    let mut count = 0;
    while !rest.is_empty() && (count == 0 || count + copies <= pieces.len()) {
        let length = message_length(rest)?.unwrap_or(rest.len());
        let (message, behind) = rest.split_at(length.min(rest.len()));
        for piece in pieces.iter_mut().skip(count).take(copies) {
            *piece = IoSlice::new(message);
        }
        count = (count + copies).min(pieces.len());
        *rest = behind;
    }
    Ok(count)
}

/// Writes the replies to those requests that want one.
fn replies(mut messages: &[u8], replies: &mut Vec<u8>) -> Result<(), BenchError> {
    while let Some(length) = message_length(messages)? {
        let (message, rest) = messages.split_at(length.min(messages.len()));
        messages = rest;
        if message.get(RESPONSE_FLAGS).is_some_and(|flags| *flags != 0) {
            let at = replies.len();
            replies.extend_from_slice(&REPLY);
            let id = replies.get_mut(at..).and_then(|reply| reply.get_mut(REQUEST_ID));
            if let (Some(id), Some(asked)) = (id, message.get(REQUEST_ID)) {
                id.copy_from_slice(asked);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::hop::tests::pair;
    use crate::wire::PushMessage;

    #[test]
    fn every_consumer_gets_every_message_and_the_supplier_its_replies() {
        for (payload, copies) in [(64, 1), (64, 3), (300_000, 2), (64, 1000)] {
            let (mut supplier, far_supplier) = pair();
            let ends: Vec<_> = [copies, 1].map(|copies| (pair(), copies)).into();
            let (mut near, mut consumers) = (Vec::new(), Vec::new());
            for ((stream, far), copies) in ends {
                consumers.push(Consumer::new(far, copies).unwrap());
                near.push((stream, copies));
            }
            let fanning_out = thread::spawn(move || fan_out(far_supplier, consumers));
            let mut message = PushMessage::new(b"a key of 24 octets in all", payload);
            for id in [7, 8] {
                message.fill(id, b"first octets");
                supplier.write_all(message.bytes()).unwrap();
                for (stream, copies) in &mut near {
                    for _ in 0..*copies {
                        let mut received = vec![0; message.bytes().len()];
                        stream.read_exact(&mut received).unwrap();
                        assert!(received == message.bytes());
                        stream.write_all(&REPLY).unwrap();
                    }
                }
                let mut reply = REPLY;
                supplier.read_exact(&mut reply).unwrap();
                assert_eq!(reply[REQUEST_ID], id.to_ne_bytes());
            }
            drop(supplier);
            fanning_out.join().unwrap().unwrap();
        }
    }

    #[test]
    fn the_reply_is_one_without_result() {
        let mut message = PushMessage::new(b"key", 64);
        message.fill(5, b"");
        let header = giop::message::Header::parse(message.bytes()).unwrap();
        let mut reply = Vec::new();
        crate::wire::write_reply(&mut reply, &header, 5);
        let mut ours = Vec::new();
        replies(message.bytes(), &mut ours).unwrap();
        assert_eq!(ours, reply);
    }
}

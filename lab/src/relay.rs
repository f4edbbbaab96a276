//! The floor: what it costs to have any process at all between supplier and consumer.
//!
//! One thread, one level-triggered epoll, two connections. A request that the supplier sends is written to the
//! consumer, the reply that the consumer sends is written to the supplier; nothing is understood but where a GIOP
//! message ends. An exchange costs two `epoll_wait`, two `read` and two `write`, which is the least a relay of this
//! kind can do, and no allocation. It is the yardstick of `campanile-bench floor`, so it has to be as lean as
//! such a program honestly is: it neither spins nor batches.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use load::poll::Poll;

use crate::hop::{Pending, accept_supplier};
use crate::process::{Process, arguments};
use crate::{BenchError, Output, hop};

pub(crate) const COMMAND: &str = "relay-process";

/// The peers' keys.
const SUPPLIER: u64 = 0;
const CONSUMER: u64 = 1;

/// Starts one in front of the consumer there, on this core only and at this `SCHED_FIFO` priority if given. Says where it listens.
pub(crate) fn start(
    consumer: SocketAddr,
    confined: (Option<usize>, Option<u8>),
) -> Result<(Process, SocketAddr), BenchError> {
    hop::start(&arguments([COMMAND, "--consumer", &consumer.to_string()]), confined)
}

/// Runs the relay until one of its two peers closes its connection.
///
/// Connects to the consumer, then listens on a port of its own on loopback, says so in one line, and takes the
/// first supplier that connects.
pub(crate) fn run_process(consumer: SocketAddr, out: &mut Output<'_>) -> Result<(), BenchError> {
    let consumer = TcpStream::connect(consumer).map_err(BenchError::io("connecting to the consumer"))?;
    let supplier = accept_supplier(out)?;
    relay(supplier, consumer)
}

/// Carries whole messages between `supplier` and `consumer`, in both directions, until one of them closes.
pub(crate) fn relay(supplier: TcpStream, consumer: TcpStream) -> Result<(), BenchError> {
    let mut supplier = End::new(supplier)?;
    let mut consumer = End::new(consumer)?;
    let peers = Poll::new()?;
    peers.add(&supplier.stream, SUPPLIER)?;
    peers.add(&consumer.stream, CONSUMER)?;
    peers.serve(|key| {
        let (from, to) = if key == SUPPLIER { (&mut supplier, &mut consumer) } else { (&mut consumer, &mut supplier) };
        from.forward_to(&mut to.stream)
    })
}

/// One of the two connections, with bytes that it sent and that were not passed on yet.
struct End {
    stream: TcpStream,
    pending: Pending,
}

impl End {
    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_nodelay(true).map_err(BenchError::io("switching off Nagle's algorithm"))?;
        Ok(Self { stream, pending: Pending::new() })
    }

    /// Reads once and writes the whole messages that are there to `other`; `false` when this end has closed.
    ///
    /// Both sockets block. A read never does, since epoll said that there is something; a write does when `other`
    /// does not read, which two-way traffic bounds to one message.
    fn forward_to(&mut self, other: &mut TcpStream) -> Result<bool, BenchError> {
        let pass = |messages: &[u8]| other.write_all(messages).map_err(BenchError::io("writing to a peer"));
        self.pending.forward(&self.stream, pass)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;
    use crate::hop::tests::{message, pair};

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

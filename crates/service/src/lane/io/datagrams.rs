//! A UDP socket, read and written many datagrams at a time.
//!
//! One system call takes up to 32 buffers' worth of what has arrived (`recvmmsg`), each of which may have several datagrams of one sender
//! in it (UDP GRO). One system call sends all that is gathered for one receiver, as datagrams of one size of which the last may be shorter
//! (UDP GSO).

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, sendto, sockopt};

use super::system::count;

/// Size of the system's receive buffer and of its send buffer, in octets; the system lowers them to its own limit (`net.core.rmem_max`).
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// Size of a read buffer, in octets: the largest datagram, or all that arrived together from one sender.
const BUFFER_BYTES: usize = 64 << 10;

/// A UDP socket of the lane.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
}

/// Datagrams of one read, and the buffers that sockets are read into.
#[derive(Debug, Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    meta: Vec<RecvMeta>,
    count: usize,
}

impl Datagrams {
    /// Takes over a socket and makes it non-blocking.
    ///
    /// # Errors
    /// The system refuses a socket option.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        if socket.local_addr()?.is_ipv4() {
            // How each datagram was marked on its way is not used.
            sockopt::set_ip_recvtos(&socket, false)?;
        }
        // The system gives what it may.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        Ok(Self { socket, state })
    }

    /// Maximum datagrams that one system call can send.
    pub(crate) fn at_once(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Reads what has arrived, as much as one system call takes. True if there may be more.
    ///
    /// # Errors
    /// Nothing has arrived, or the socket fails.
    pub(crate) fn receive(&self, into: &mut Received) -> io::Result<bool> {
        count();
        into.bytes.resize(BATCH_SIZE * BUFFER_BYTES, 0);
        into.meta.resize(BATCH_SIZE, RecvMeta::default());
        into.count = 0;
        let mut rest = into.bytes.chunks_exact_mut(BUFFER_BYTES);
        let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
            core::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        into.count = self.state.recv((&self.socket).into(), &mut buffers, &mut into.meta)?;
        Ok(into.count == BATCH_SIZE)
    }

    /// Sends datagrams of `size` octets each to one address, of which the last may be shorter.
    ///
    /// # Errors
    /// The socket has no room now (`WouldBlock`), or the datagrams cannot be sent.
    pub(crate) fn send(&self, to: SocketAddr, octets: &[u8], size: usize) -> io::Result<()> {
        count();
        if octets.len() <= size {
            // Alone it needs nothing said beside it, which the system would read for each.
            return Ok(retry_on_intr(|| sendto(&self.socket, octets, SendFlags::empty(), &to)).map(drop)?);
        }
        let transmit =
            Transmit { destination: to, ecn: None, contents: octets, segment_size: Some(size), src_ip: None };
        self.state.try_send((&self.socket).into(), &transmit)
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Received {
    /// Stores datagrams that arrived in a simulation, as many as one system call takes. Returns their number.
    #[cfg(test)]
    pub(crate) fn fill(&mut self, datagrams: impl Iterator<Item = (SocketAddr, Vec<u8>)>) -> usize {
        self.bytes.resize(BATCH_SIZE * BUFFER_BYTES, 0);
        self.meta.clear();
        for ((addr, datagram), buffer) in datagrams.take(BATCH_SIZE).zip(self.bytes.chunks_exact_mut(BUFFER_BYTES)) {
            buffer[..datagram.len()].copy_from_slice(&datagram);
            let mut meta = RecvMeta::default();
            (meta.addr, meta.len, meta.stride) = (addr, datagram.len(), datagram.len());
            self.meta.push(meta);
        }
        self.count = self.meta.len();
        self.count
    }

    /// Whether there is one datagram, or none.
    pub(crate) fn is_single(&self) -> bool {
        self.iter().nth(1).is_none()
    }

    /// The datagrams, in the order in which they arrived, with their senders.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let all = self.meta.iter().take(self.count).zip(self.bytes.chunks_exact(BUFFER_BYTES));
        all.flat_map(|(meta, buffer)| {
            let octets = buffer.get(..meta.len).unwrap_or_default();
            let from = plain(meta.addr);
            octets.chunks(meta.stride.max(1)).map(move |datagram| (from, datagram))
        })
    }
}

/// The address without the parts that may differ between datagrams of one sender.
fn plain(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(address) = &mut address {
        address.set_flowinfo(0);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_that_are_sent_together_arrive_each_as_it_was() {
        let [ours, theirs] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let (from, to) = (ours.local_addr().unwrap(), theirs.local_addr().unwrap());
        let [ours, theirs] = [ours, theirs].map(|socket| Datagrams::new(socket).unwrap());
        let octets: Vec<u8> = (0..250).collect();
        ours.send(to, &octets, 100).unwrap();
        ours.send(to, &octets[..7], 7).unwrap();
        let mut all: Vec<Vec<u8>> = Vec::new();
        let mut received = Received::default();
        testing::wait_until("four datagrams", || {
            if theirs.receive(&mut received).is_ok() {
                all.extend(received.iter().map(|(sender, datagram)| {
                    assert_eq!(sender, from);
                    datagram.to_vec()
                }));
            }
            all.len() == 4
        });
        let expected = [&octets[..100], &octets[100..200], &octets[200..], &octets[..7]];
        assert!(all.iter().zip(expected).all(|(arrived, sent)| arrived == sent), "{all:?}");
    }
}

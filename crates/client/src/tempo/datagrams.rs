//! UDP: sockets for a peer, for a group, and for any sender; many datagrams with one system call, in either direction.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with, sockopt};

use super::address::any_like;
use super::gather::Send;

/// Octets of the largest datagram; also of the datagrams of one size that the system may return at once.
const BUFFER: usize = 65_536;
/// Maximum octets of several datagrams sent with one system call: with their headers they are less than 64 KiB.
pub(super) const AT_ONCE: usize = 64_000;
/// Maximum number of datagrams of one size sent with one system call.
const SEGMENTS_MAX: usize = 64;
/// Requested receive buffer of the system, in octets.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Octets of the headers of IP and UDP.
const HEADERS_V4: usize = 28;
const HEADERS_V6: usize = 48;

/// Options of a multicast group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupOptions {
    /// The group's network, by an address of this machine there; for IPv6 by number, in the address's zone.
    pub(super) interface: Option<IpAddr>,
    /// Maximum number of routers on the way to the group, plus one.
    pub(super) ttl: u32,
}

/// The sockets of an end point.
#[derive(Debug)]
pub(super) struct Datagrams {
    /// The socket for sending, so that peers that share a group's port have different source ports.
    own: Socket,
    /// The socket that receives what is sent to the group.
    group: Option<Socket>,
}

#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Datagrams {
    /// Opens a socket at an address, for sending or listening.
    pub(super) fn at(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { own: Socket::of(UdpSocket::bind(address)?)?, group: None })
    }

    /// Joins a group, to send to it and receive from it.
    pub(super) fn of_multicast(group: SocketAddr, own: SocketAddr, options: GroupOptions) -> io::Result<Self> {
        let sender = UdpSocket::bind(own)?;
        let receiver = shared(group)?;
        match group {
            SocketAddr::V4(group) => {
                let interface = match options.interface {
                    Some(IpAddr::V4(interface)) => interface,
                    Some(IpAddr::V6(_)) => return Err(wrong_family()),
                    None => Ipv4Addr::UNSPECIFIED,
                };
                if !interface.is_unspecified() {
                    sockopt::set_ip_multicast_if(&sender, &interface)?;
                }
                sockopt::set_ip_multicast_ttl(&sender, options.ttl)?;
                sockopt::set_ip_add_membership(&receiver, group.ip(), &interface)?;
            }
            SocketAddr::V6(group) => {
                if options.interface.is_some() {
                    return Err(wrong_family());
                }
                if group.scope_id() != 0 {
                    sockopt::set_ipv6_multicast_if(&sender, group.scope_id())?;
                }
                sockopt::set_ipv6_multicast_hops(&sender, options.ttl)?;
                sockopt::set_ipv6_add_membership(&receiver, group.ip(), group.scope_id())?;
            }
        }
        Ok(Self { own: Socket::of(sender)?, group: Some(Socket::of(receiver)?) })
    }

    /// Opens sockets to send to a network's broadcast address and receive from it.
    pub(super) fn of_broadcast(broadcast: SocketAddr, own: SocketAddr) -> io::Result<Self> {
        let sender = UdpSocket::bind(own)?;
        sender.set_broadcast(true)?;
        Ok(Self { own: Socket::of(sender)?, group: Some(Socket::of(shared(broadcast)?)?) })
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.own.socket.local_addr()
    }

    /// The sockets, to wait for.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        std::iter::once(&self.own.socket).chain(self.group.as_ref().map(|group| &group.socket))
    }

    /// Reads the datagrams at one of the sockets. Never waits.
    pub(super) fn receive(&self, number: usize, into: &mut Received) -> io::Result<()> {
        let socket = match number {
            0 => Some(&self.own),
            _ => self.group.as_ref(),
        };
        into.count = 0;
        let Some(Socket { socket, state }) = socket else { return Ok(()) };
        let mut buffers = into.octets.chunks_mut(BUFFER);
        let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        into.count = state.recv(UdpSockRef::from(socket), &mut buffers, &mut into.about)?;
        Ok(())
    }
}

impl Send for Datagrams {
    fn send(&self, to: SocketAddr, contents: &[u8], segment: usize) -> io::Result<()> {
        let Socket { socket, state } = &self.own;
        if contents.len() <= segment {
            return send_one(socket, to, contents);
        }
        let transmit = Transmit { destination: to, ecn: None, contents, segment_size: Some(segment), src_ip: None };
        match state.try_send(UdpSockRef::from(socket), &transmit) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                // Some networks cannot take several at once, and it may also have been one that is too large for a path. A socket that
                // is full in the midst of it loses the rest, as a network might.
                let mut outcome = Ok(());
                for one in contents.chunks(segment) {
                    outcome = send_one(socket, to, one).map_err(|_| error.kind().into()).and(outcome);
                }
                outcome
            }
            outcome => outcome,
        }
    }

    fn segments_max(&self) -> usize {
        self.own.state.max_gso_segments().min(SEGMENTS_MAX)
    }
}

/// Sends one datagram, without the control data of several.
fn send_one(socket: &UdpSocket, to: SocketAddr, contents: &[u8]) -> io::Result<()> {
    Ok(retry_on_intr(|| sendto(socket, contents, SendFlags::empty(), &to)).map(drop)?)
}

impl Socket {
    fn of(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // It is set to refuse what is larger than a path takes, for programs that look for that size themselves.
        if socket.local_addr()?.is_ipv4() {
            sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::WANT)?;
            // How each datagram was marked on its way is of no use here.
            sockopt::set_ip_recvtos(&socket, false)?;
        } else {
            sockopt::set_ipv6_mtu_discover(&socket, sockopt::Ipv6PathMtuDiscovery::WANT)?;
        }
        // As much as the system lets; it need not.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER);
        Ok(Self { socket, state })
    }
}

/// Buffer for received datagrams.
pub(super) struct Received {
    octets: Vec<u8>,
    about: [RecvMeta; BATCH_SIZE],
    count: usize,
}

impl Received {
    pub(super) fn new() -> Self {
        // The system gives the memory when it is written to, and most of it never is.
        Self { octets: vec![0; BUFFER * BATCH_SIZE], about: [RecvMeta::default(); BATCH_SIZE], count: 0 }
    }

    /// Whether the buffer was filled, so that there may be more.
    pub(super) const fn is_full(&self) -> bool {
        self.count == BATCH_SIZE
    }

    /// Each datagram with its sender, and its position among all octets.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, usize, &[u8])> {
        let filled = self.octets.chunks(BUFFER).zip(&self.about).take(self.count).enumerate();
        filled.flat_map(|(number, (octets, about))| {
            let octets = octets.get(..about.len).unwrap_or_default();
            // A datagram of no octets has no stride.
            let stride = about.stride.max(1);
            let each = octets.chunks(stride).enumerate();
            each.map(move |(index, octets)| (about.addr, number * BUFFER + index * stride, octets))
        })
    }

    /// All octets.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }
}

/// A socket at an address that other sockets on this machine may share.
fn shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket.into())
}

/// Largest datagram that fits the path to an address unfragmented, as far as this machine knows.
pub(super) fn datagram_towards(address: SocketAddr) -> Option<usize> {
    let socket = UdpSocket::bind((any_like(address), 0)).ok()?;
    let _ = socket.set_broadcast(true);
    socket.connect(address).ok()?;
    let (octets, headers) = match address {
        SocketAddr::V4(_) => (sockopt::ip_mtu(&socket).ok()?, HEADERS_V4),
        SocketAddr::V6(_) => (sockopt::ipv6_mtu(&socket).ok()?, HEADERS_V6),
    };
    usize::try_from(octets).ok()?.checked_sub(headers)
}

fn wrong_family() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the interface of a group of IPv4 is one of its addresses of IPv4; of IPv6 it is its number, as in [ff02::1%2]",
    )
}

/// The wildcard address of another address's family, with any port.
pub(super) fn any_port_like(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives until `count` datagrams have arrived.
    fn receive(datagrams: &Datagrams, number: usize, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let (mut received, mut all) = (Received::new(), Vec::new());
        testing::wait_until(format_args!("{count} datagrams"), || {
            match datagrams.receive(number, &mut received) {
                Ok(()) => all.extend(received.datagrams().map(|(from, at, octets)| {
                    assert_eq!(&received.octets()[at..at + octets.len()], octets);
                    (from, octets.to_vec())
                })),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            all.len() >= count
        });
        all
    }

    #[test]
    fn several_datagrams_go_with_one_call_and_are_distinguished() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (one, other) = (Datagrams::at(any).unwrap(), Datagrams::at(any).unwrap());
        let from = one.local_address().unwrap();
        let contents: Vec<u8> = (0..250).collect();
        one.send(other.local_address().unwrap(), &contents, 100).unwrap();
        one.send(other.local_address().unwrap(), &contents, 1_000).unwrap();
        let came: Vec<_> = receive(&other, 0, 4);
        assert!(came.iter().all(|(sender, _)| *sender == from));
        let octets: Vec<&[u8]> = came.iter().map(|(_, octets)| &octets[..]).collect();
        assert_eq!(octets, [&contents[..100], &contents[100..200], &contents[200..], &contents[..]]);
    }

    #[test]
    fn broadcast_on_the_loopback_network_comes_to_all_and_from_where_it_can_be_answered() {
        let broadcast: SocketAddr = "127.255.255.255:0".parse().unwrap();
        let own = "127.0.0.1:0".parse().unwrap();
        let port = Datagrams::of_broadcast(broadcast, own).unwrap().group.unwrap().socket.local_addr().unwrap().port();
        let group = SocketAddr::new(broadcast.ip(), port);
        let (one, other) = (Datagrams::of_broadcast(group, own).unwrap(), Datagrams::of_broadcast(group, own).unwrap());
        one.send(group, b"to all", 100).unwrap();
        for end in [&one, &other] {
            assert_eq!(receive(end, 1, 1), [(one.local_address().unwrap(), b"to all".to_vec())]);
        }
        other.send(one.local_address().unwrap(), b"to one", 100).unwrap();
        assert_eq!(receive(&one, 0, 1), [(other.local_address().unwrap(), b"to one".to_vec())]);
    }

    #[test]
    fn the_way_to_this_machine_itself_takes_large_datagrams() {
        assert!(datagram_towards("127.0.0.1:9".parse().unwrap()).is_some_and(|octets| octets > 1_472));
    }
}

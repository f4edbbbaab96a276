//! Sockets for the datagrams of links.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::lane::io::net::Datagrams;

/// Opens a socket for sending from a local address, over the network with that address.
pub(super) fn sending(own: IpAddr, ttl: u8) -> io::Result<Datagrams> {
    let socket = UdpSocket::bind((own, 0))?;
    if own.is_ipv4() {
        socket.set_multicast_ttl_v4(ttl.into())?;
    } else {
        sockopt::set_ipv6_multicast_hops(&socket, ttl.into())?;
    }
    Datagrams::new(socket)
}

/// Opens a socket that receives datagrams to a local address. Returns it with its port.
pub(super) fn receiving(own: IpAddr, port: u16) -> io::Result<(Datagrams, u16)> {
    let socket = UdpSocket::bind((own, port))?;
    let port = socket.local_addr()?.port();
    Ok((Datagrams::new(socket)?, port))
}

/// Opens a socket that receives datagrams to a multicast group, over the network of a local address. Other sockets may use that port as
/// well.
pub(super) fn receiving_group(group: SocketAddr, own: IpAddr) -> io::Result<Datagrams> {
    let family = if group.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &group)?;
    match (group, own) {
        (SocketAddr::V4(group), IpAddr::V4(own)) => sockopt::set_ip_add_membership(&socket, group.ip(), &own)?,
        (SocketAddr::V4(group), IpAddr::V6(_)) => {
            sockopt::set_ip_add_membership(&socket, group.ip(), &Ipv4Addr::UNSPECIFIED)?;
        }
        (SocketAddr::V6(group), _) => sockopt::set_ipv6_add_membership(&socket, group.ip(), group.scope_id())?,
    }
    Datagrams::new(socket.into())
}

//! The group that the protocol for Tempo listens to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::StartError;
use crate::lane::io::net::Datagrams;

/// Takes a port for datagrams that others have as well.
pub(super) fn bind_shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

/// Takes datagrams that are sent to a group, on the network of the service's own address, or on the one that the system chooses where that
/// is any.
pub(super) fn join(group: SocketAddr, own: SocketAddr) -> Result<Datagrams, StartError> {
    let joined = || {
        let socket = bind_shared(group)?;
        match (group, own) {
            (SocketAddr::V4(group), SocketAddr::V4(own)) if group.ip().is_multicast() => {
                sockopt::set_ip_add_membership(&socket, group.ip(), own.ip())?;
            }
            (SocketAddr::V4(group), _) if group.ip().is_multicast() => {
                sockopt::set_ip_add_membership(&socket, group.ip(), &Ipv4Addr::UNSPECIFIED)?;
            }
            (SocketAddr::V6(group), _) if group.ip().is_multicast() => {
                sockopt::set_ipv6_add_membership(&socket, group.ip(), group.scope_id())?;
            }
            // A broadcast address.
            _ => {}
        }
        Datagrams::new(socket)
    };
    joined().map_err(|error| StartError::Listen { setting: "tempo.group", address: group, error })
}

//! The groups that protocols listen to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

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

/// Takes datagrams of a federation's group on an interface, and sends there, to this network alone.
pub(super) fn join_federation(group: SocketAddrV4, interface: Option<Ipv4Addr>) -> Result<Datagrams, StartError> {
    let joined = || {
        let socket = bind_shared(group.into())?;
        let interface = interface.unwrap_or(Ipv4Addr::UNSPECIFIED);
        sockopt::set_ip_add_membership(&socket, group.ip(), &interface)?;
        sockopt::set_ip_multicast_if(&socket, &interface)?;
        sockopt::set_ip_multicast_ttl(&socket, 1)?;
        // Services of one host find each other, too.
        sockopt::set_ip_multicast_loop(&socket, true)?;
        Datagrams::new(socket)
    };
    joined().map_err(|error| StartError::Listen { setting: "federation.group", address: group.into(), error })
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

//! The ports of a service: taken at once, so that one that is in use is said before anything else is done, and opened when the store was
//! found good. Until then a client's connection is refused, as where there is no service: to look through a large store takes a while, and
//! one that is damaged ends the start.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::group::bind_shared;
use super::{Bound, StartError};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Sockets that have their addresses, and do not listen yet.
#[derive(Default)]
pub(super) struct Ports(Vec<Bound>);

impl Ports {
    /// Takes an address, and says which it is. The returned socket takes connections from [`open`](Self::open) on.
    pub(super) fn bind(&mut self, address: SocketAddr) -> Result<Bound, StartError> {
        let bound = bind(address)?;
        let again = bound.0.try_clone()?;
        self.0.push((again, bound.1));
        Ok(bound)
    }

    /// Takes one port for connections and for datagrams.
    pub(super) fn bind_both(
        &mut self,
        address: SocketAddr,
        group: Option<SocketAddr>,
    ) -> Result<(Bound, UdpSocket), StartError> {
        // A port of the system's choice may be taken for datagrams.
        const TRIES: usize = 16;
        let mut tried = 0;
        loop {
            let (socket, bound) = bind(address)?;
            tried += 1;
            // Where it listens at all addresses, that of a group is among them.
            let is_shared = bound.ip().is_unspecified() && group.is_some_and(|group| group.port() == bound.port());
            match if is_shared { bind_shared(bound) } else { UdpSocket::bind(bound) } {
                Ok(datagrams) => {
                    self.0.push((socket.try_clone()?, bound));
                    return Ok(((socket, bound), datagrams));
                }
                Err(_) if address.port() == 0 && tried < TRIES => {}
                Err(error) => return Err(StartError::Listen { address: bound, error }),
            }
        }
    }

    /// Has all of them take connections from now on.
    pub(super) fn open(self) -> Result<(), StartError> {
        for (socket, address) in self.0 {
            // The standard library asks for room for 128 that are not accepted yet. Each that finds none tries again after a
            // second, which a storm of connections would cost every client. The system takes off what is beyond its own limit.
            rustix::net::listen(&socket, BACKLOG)
                .map_err(|error| StartError::Listen { address, error: io::Error::from(error) })?;
        }
        Ok(())
    }
}

/// A socket that has an address, and that address.
fn bind(address: SocketAddr) -> Result<Bound, StartError> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let bound = || {
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        let socket = TcpListener::from(socket);
        let address = socket.local_addr()?;
        Ok((socket, address))
    };
    bound().map_err(|error| StartError::Listen { address, error })
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_port_that_is_taken_refuses_connections_until_it_is_opened() {
        let mut ports = Ports::default();
        let (socket, address) = ports.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        ports.open().unwrap();
        TcpStream::connect(address).unwrap();
        // While it listens it is said at once that it does.
        let refused = Ports::default().bind(address).unwrap_err();
        assert!(refused.to_string().contains("is in use"), "{refused}");
        drop(socket);
    }
}

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
pub(super) struct Ports(Vec<(Bound, &'static str)>);

impl Ports {
    /// Takes an address that a setting names, and says which it is. The returned socket takes connections from [`open`](Self::open) on.
    pub(super) fn bind(&mut self, setting: &'static str, address: SocketAddr) -> Result<Bound, StartError> {
        let bound = bind(setting, address)?;
        let again = bound.0.try_clone()?;
        self.0.push(((again, bound.1), setting));
        Ok(bound)
    }

    /// Takes one port for connections and for datagrams.
    pub(super) fn bind_both(
        &mut self,
        setting: &'static str,
        address: SocketAddr,
        group: Option<SocketAddr>,
    ) -> Result<(Bound, UdpSocket), StartError> {
        // A port of the system's choice may be taken for datagrams.
        const TRIES: usize = 16;
        let mut tried = 0;
        loop {
            let (socket, bound) = bind(setting, address)?;
            tried += 1;
            // Where it listens at all addresses, that of a group is among them.
            let is_shared = bound.ip().is_unspecified() && group.is_some_and(|group| group.port() == bound.port());
            match if is_shared { bind_shared(bound) } else { UdpSocket::bind(bound) } {
                Ok(datagrams) => {
                    self.0.push(((socket.try_clone()?, bound), setting));
                    return Ok(((socket, bound), datagrams));
                }
                Err(_) if address.port() == 0 && tried < TRIES => {}
                Err(error) => return Err(StartError::Listen { setting, address: bound, error }),
            }
        }
    }

    /// Has all of them take connections from now on.
    pub(super) fn open(self) -> Result<(), StartError> {
        for ((socket, address), setting) in self.0 {
            // The standard library asks for room for 128 that are not accepted yet. Each that finds none tries again after a
            // second, which a storm of connections would cost every client. The system takes off what is beyond its own limit.
            rustix::net::listen(&socket, BACKLOG).map_err(|error| StartError::Listen {
                setting,
                address,
                error: io::Error::from(error),
            })?;
        }
        Ok(())
    }
}

/// A socket that has an address, and that address.
fn bind(setting: &'static str, address: SocketAddr) -> Result<Bound, StartError> {
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
    bound().map_err(|error| StartError::Listen { setting, address, error })
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_port_that_is_taken_refuses_connections_until_it_is_opened() {
        let mut ports = Ports::default();
        let (socket, address) = ports.bind("--listen", "127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        ports.open().unwrap();
        TcpStream::connect(address).unwrap();
        // While it listens it is said at once that it does.
        let refused = Ports::default().bind("--json-listen", address).unwrap_err().to_string();
        assert!(refused.contains("is in use") && refused.contains("with --json-listen 127.0.0.1:PORT"), "{refused}");
        drop(socket);
    }
}

//! The ports of a service: taken at once, so that one that is in use is said before anything else is done, and opened when the store was
//! found good. Until then a client's connection is refused, as where there is no service: to look through a large store takes a while, and
//! one that is damaged ends the start.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::group::{bind_shared, join};
use super::limits::{ConnectionsMax, make_room_for_descriptors};
use super::{Sockets, StartError};
use crate::config::{Config, ConfigError};
use crate::lane::io::net::{self, Datagrams};
use crate::lane::io::socket::Layer;
use crate::protocols::{Layered, Listeners, Tag, WireProtocol, by_tag, tempo};

/// A socket that listens, and on which address.
type Bound = (TcpListener, SocketAddr);

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

/// Takes the ports of all protocols, and gives their addresses. `given` are sockets that are open already.
pub(super) fn bind_ports(
    config: &Config,
    given: Sockets,
    connections_max: ConnectionsMax,
    ports: &mut Ports,
) -> Result<(Listeners, Layered<SocketAddr>), StartError> {
    let Sockets { giop, json, tempo } = given;
    if config.tls.required && (json.is_some() || tempo.is_some()) {
        let why = "tls.required: a socket that was passed for lines of JSON or for Tempo is in the clear; use tls.json_listen and \
                   tls.tempo_listen";
        return Err(ConfigError::Tls { why }.into());
    }
    let mut listeners = Listeners { outlive: giop.is_some(), ..Listeners::default() };
    let mut addresses = Layered::<SocketAddr>::default();
    let (tempo, mut datagrams) = tempo.unzip();
    let group = config.tempo_group()?;
    // Where nothing is in the clear, a socket that was handed over is meant for TLS.
    let of_giop = if config.tls.required { Layer::Tls } else { Layer::Plain };
    let mut given = [(Tag::Giop, of_giop, giop), (Tag::Json, Layer::Plain, json), (Tag::Tempo, Layer::Plain, tempo)];
    for protocol in Tag::ALL {
        for (place, layer) in addresses.of(protocol).iter_mut().zip(Layer::ALL) {
            let given = given.iter_mut().find(|(of, on, _)| (*of, *on) == (protocol, layer));
            let (socket, address) = if let Some(socket) = given.and_then(|(_, _, socket)| socket.take()) {
                taken_over(socket)?
            } else {
                let Some(address) = by_tag!(protocol, P => P::LISTEN_ADDRESS(config, layer))? else { continue };
                let setting = listen_setting(protocol, layer);
                if (protocol, layer) == (Tag::Tempo, Layer::Plain) {
                    let (bound, of_datagrams) = ports.bind_both(setting, address, group)?;
                    datagrams = Some(of_datagrams);
                    bound
                } else {
                    ports.bind(setting, address)?
                }
            };
            if protocol == Tag::Giop {
                make_room_for_descriptors(&socket, connections_max);
            }
            *place = Some(address);
            listeners = listeners.with(protocol, layer, Some(net::listener(socket)));
        }
    }
    let [tempo, _] = addresses.of(Tag::Tempo);
    listeners.sockets.tempo = tempo::Sockets {
        datagrams: datagrams.map(Datagrams::new).transpose()?,
        group: tempo.zip(group).map(|(own, group)| join(group, own)).transpose()?,
    };
    Ok((listeners, addresses))
}

/// What says at which address a protocol listens.
const fn listen_setting(protocol: Tag, layer: Layer) -> &'static str {
    match (protocol, layer) {
        (Tag::Json, Layer::Plain) => "--json-listen",
        (Tag::Json, Layer::Tls) => "tls.json_listen",
        (Tag::Tempo, Layer::Plain) => "--tempo-listen",
        (Tag::Tempo, Layer::Tls) => "tls.tempo_listen",
        (Tag::Link, Layer::Plain) => "links.listen",
        (Tag::Link, Layer::Tls) => "tls.links_listen",
        (_, Layer::Plain) => "--listen",
        (_, Layer::Tls) => "--tls-listen",
    }
}

/// A socket that listens already, and on which address.
fn taken_over(listener: TcpListener) -> Result<(TcpListener, SocketAddr), StartError> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Makes the warning for a port without security that other hosts can reach. Such ports are meant for programs of this host.
pub(super) fn open_port_warning(setting: &str, address: SocketAddr) -> Option<String> {
    let warning = format!(
        "{setting}: every client that can reach {address} can publish and read events there; nothing is encrypted, and no client \
         is authenticated"
    );
    (!address.ip().is_loopback()).then(|| {
        log::warn!("{warning}");
        warning
    })
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

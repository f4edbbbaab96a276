//! Addresses of end points: `udp://HOST:PORT`, `tcp://HOST:PORT`, `tls://HOST:PORT`, with `@` before the host to listen there.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

use tempo::wire::PORT;

/// The transport of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Least delay; losses are counted and reported.
    Udp,
    /// No loss while a connection lasts; delays may be long.
    Tcp,
    /// TCP, encrypted and authenticated.
    Tls,
}

impl Transport {
    const fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

/// An address in the form `udp://HOST[:PORT][/CHANNEL]`, `tcp://…` or `tls://…`. The default port is 2811.
///
/// With `@` before the host, as in `udp://@:2811` or `tcp://@10.0.0.1:2811`, an end point listens there, and connects to no peer itself.
/// Without a host it listens at all IPv4 addresses of the machine; `udp://@[::]:2811` includes IPv6.
///
/// `/CHANNEL` is for brokers: the number of the notification channel with the topics; 0 by default.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The transport.
    pub transport: Transport,
    /// A name, or an address, of IPv6 without brackets. Empty stands for all addresses, when listening.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether the end point listens there.
    pub waits: bool,
    /// A broker's channel.
    pub channel: Option<u32>,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// The text begins with none of `udp://`, `tcp://` and `tls://`.
    Scheme(String),
    /// The host is missing.
    Host(String),
    /// The port is not a number from 0 to 65,535.
    Port(String),
    /// The channel is not a number.
    Channel(String),
    /// The address is a group or a broadcast address, which TCP and TLS do not support.
    GroupOverTcp(String),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(text) => {
                write!(f, "{text:?} is no address: it is written udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT")
            }
            Self::Host(text) => {
                write!(f, "{text:?} has no host: write udp://HOST:PORT, or udp://@:PORT to wait there for others")
            }
            Self::Port(text) => write!(f, "{text:?} has no port from 0 to 65535 behind its last colon"),
            Self::Channel(text) => write!(f, "{text:?} has something else than a channel's number behind the slash"),
            Self::GroupOverTcp(text) => {
                write!(f, "{text} is a group, to which only datagrams can be sent: write udp://{text}")
            }
        }
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (transport, rest) = [Transport::Udp, Transport::Tcp, Transport::Tls]
            .into_iter()
            .find_map(|transport| {
                let rest = text.strip_prefix(transport.scheme())?.strip_prefix("://")?;
                Some((transport, rest))
            })
            .ok_or_else(|| AddressError::Scheme(text.to_owned()))?;
        let (waits, rest) = match rest.strip_prefix('@') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (place, channel) = match rest.split_once('/') {
            Some((place, "")) => (place, None),
            Some((place, channel)) => {
                (place, Some(channel.parse().map_err(|_| AddressError::Channel(text.to_owned()))?))
            }
            None => (rest, None),
        };
        let port = |port: &str| match port {
            "" => Err(AddressError::Port(text.to_owned())),
            port => port.parse().map_err(|_| AddressError::Port(text.to_owned())),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, rest) = bracketed.split_once(']').ok_or_else(|| AddressError::Host(text.to_owned()))?;
                match rest.strip_prefix(':') {
                    Some(number) => (host, port(number)?),
                    None if rest.is_empty() => (host, PORT),
                    None => return Err(AddressError::Port(text.to_owned())),
                }
            }
            None => match place.rsplit_once(':') {
                // An address of IPv6 without brackets: its end looks like a port.
                Some((host, _)) if host.contains(':') => return Err(AddressError::Host(text.to_owned())),
                Some((host, number)) => (host, port(number)?),
                None => (place, PORT),
            },
        };
        if host.is_empty() && !waits {
            return Err(AddressError::Host(text.to_owned()));
        }
        let address = Self { transport, host: host.to_owned(), port, waits, channel };
        match host.parse::<IpAddr>() {
            Ok(ip) if transport != Transport::Udp && is_surely_group(ip) => {
                Err(AddressError::GroupOverTcp(address.place()))
            }
            _ => Ok(address),
        }
    }
}

impl Address {
    /// Formats it as `HOST:PORT`.
    fn place(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// All addresses of the host's name.
    ///
    /// # Errors
    /// If the system does not know that name.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        if self.host.is_empty() {
            return Ok(vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.port))]);
        }
        // What a zone is called is a number here, as in `fe80::1%2`.
        if let Ok(address) = self.place().parse() {
            return Ok(vec![address]);
        }
        let found: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(found)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.waits { "@" } else { "" };
        write!(f, "{}://{at}{}", self.transport.scheme(), self.place())?;
        match self.channel {
            Some(channel) => write!(f, "/{channel}"),
            None => Ok(()),
        }
    }
}

/// Whether the address alone shows that it is a group's. For others see [`is_broadcast`].
fn is_surely_group(ip: IpAddr) -> bool {
    ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Whether an address is a broadcast address, of any network. The system is queried: it knows the networks, and refuses to send to a
/// broadcast address without `SO_BROADCAST`.
pub(crate) fn is_broadcast(address: SocketAddr) -> bool {
    address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST)
        || address.is_ipv4()
            && UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).is_ok_and(|socket| {
                socket.connect(address).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
            })
}

/// The wildcard address of the same family.
pub(crate) fn any_like(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Address {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("udp://127.0.0.1:2811", "udp://127.0.0.1:2811"),
            ("udp://example.org", "udp://example.org:2811"),
            ("tcp://10.0.0.1:99/7", "tcp://10.0.0.1:99/7"),
            ("tcp://10.0.0.1/0", "tcp://10.0.0.1:2811/0"),
            ("udp://10.0.0.1:0/", "udp://10.0.0.1:0"),
            ("udp://[::1]", "udp://[::1]:2811"),
            ("udp://[fe80::1%2]:5/3", "udp://[fe80::1%2]:5/3"),
            ("udp://@:2811", "udp://@:2811"),
            ("tcp://@", "tcp://@:2811"),
            ("tls://example.org/7", "tls://example.org:2811/7"),
            ("udp://@[::]:9", "udp://@[::]:9"),
            ("udp://239.1.2.3:2811", "udp://239.1.2.3:2811"),
        ] {
            assert_eq!(read(text).to_string(), written);
            assert_eq!(read(written), read(text));
        }
        let address = read("udp://@:7");
        assert!(address.waits && address.host.is_empty() && address.port == 7);
    }

    #[test]
    fn what_is_no_address_says_what_one_looks_like() {
        use AddressError::{Channel, GroupOverTcp, Host, Port, Scheme};
        let refused = |text: &str| text.parse::<Address>().unwrap_err();
        for text in ["127.0.0.1:2811", "", "http://x", "udp:/x", "UDP://x"] {
            assert!(matches!(refused(text), Scheme(_)), "{text}");
            assert!(refused(text).to_string().contains("udp://HOST:PORT"));
        }
        for text in ["udp://", "udp://:2811", "tcp:///7", "udp://::1", "udp://[::1"] {
            assert!(matches!(refused(text), Host(_)), "{text}");
        }
        for text in ["udp://x:", "udp://x:y", "udp://x:65536", "udp://[::1]5"] {
            assert!(matches!(refused(text), Port(_)), "{text}");
        }
        for text in ["udp://x/y", "udp://x/-1", "udp://x/1/2"] {
            assert!(matches!(refused(text), Channel(_)), "{text}");
        }
        for text in ["tcp://239.1.2.3", "tls://239.1.2.3", "tcp://255.255.255.255", "tcp://[ff02::1]"] {
            assert!(matches!(refused(text), GroupOverTcp(_)), "{text}");
        }
    }

    #[test]
    fn names_become_addresses() {
        let v4 = |text: &str| read(text).resolve().unwrap().into_iter().find(SocketAddr::is_ipv4).unwrap().to_string();
        assert_eq!(v4("udp://127.0.0.1:5"), "127.0.0.1:5");
        assert_eq!(v4("udp://localhost:5"), "127.0.0.1:5");
        assert_eq!(v4("udp://@:5"), "0.0.0.0:5");
        assert_eq!(read("udp://[fe80::1%2]:5").resolve().unwrap()[0].to_string(), "[fe80::1%2]:5");
        assert!(read("udp://nobody.invalid").resolve().is_err());
    }

    #[test]
    fn broadcast_is_recognised_by_asking_the_system() {
        assert!(is_broadcast("255.255.255.255:9".parse().unwrap()));
        assert!(is_broadcast("127.255.255.255:9".parse().unwrap()));
        for not in ["127.0.0.1:9", "239.1.2.3:9", "[::1]:9"] {
            assert!(!is_broadcast(not.parse().unwrap()), "{not}");
        }
    }
}

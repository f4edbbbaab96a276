//! Where the service listens, and what its references say of that.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::{Config, ConfigError};

impl Config {
    /// The socket address to listen on.
    ///
    /// # Errors
    /// When `listen` is not `HOST:PORT` or its host has no address.
    pub fn listen_address(&self) -> Result<SocketAddr, ConfigError> {
        let listen = self.listen.clone();
        match self.listen.to_socket_addrs().map(|mut found| found.next()) {
            Ok(Some(address)) => Ok(address),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(ConfigError::BadAddress { key: "listen", value: listen })
            }
            Err(error) => Err(ConfigError::UnknownHost { listen, error }),
            Ok(None) => Err(ConfigError::UnknownHost { listen, error: io::ErrorKind::NotFound.into() }),
        }
    }

    /// The socket address for HTTP, if any.
    ///
    /// # Errors
    /// When `http.listen` is neither a port nor `HOST:PORT`, or its host has no address. When it is no loopback address, and there is
    /// neither a token nor an access rule, or `tls.required` is set.
    pub fn http_listen_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(address) = self.of_http("http.listen", self.http.listen.as_deref())? else { return Ok(None) };
        if !address.ip().is_loopback() && self.tls.required {
            let why =
                "tls.required: http.listen is in the clear, token included; use tls.http_listen, or a loopback address";
            return Err(ConfigError::Tls { why });
        }
        Ok(Some(address))
    }

    /// An address for HTTP. Any but a loopback address needs a token or access rules.
    pub(super) fn of_http(&self, key: &'static str, listen: Option<&str>) -> Result<Option<SocketAddr>, ConfigError> {
        if let Some(value) = self.http.origins.iter().find(|origin| !is_origin(origin)) {
            return Err(ConfigError::BadOrigin { value: value.clone() });
        }
        let Some(address) = parse_listen(key, listen)? else { return Ok(None) };
        let nobody_may = self.http.token_file.is_none() && self.access.is_empty();
        if !address.ip().is_loopback() && nobody_may {
            return Err(ConfigError::HttpWithoutToken { key, listen: address });
        }
        Ok(Some(address))
    }

    /// The group that the protocol for Tempo listens to, if any.
    ///
    /// # Errors
    /// When `tempo.group` is not `ADDRESS:PORT`, or there is one and no `tempo.listen`.
    pub(crate) fn tempo_group(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(group) = &self.tempo.group else { return Ok(None) };
        let bad = || ConfigError::BadGroup { value: group.clone() };
        if self.tempo.listen.is_none() {
            return Err(ConfigError::GroupAlone);
        }
        let address: SocketAddr = group.parse().map_err(|_| bad())?;
        if address.port() == 0 || address.ip().is_unspecified() {
            return Err(bad());
        }
        Ok(Some(address))
    }

    /// The host and port that references carry, given the address that was really bound.
    ///
    /// # Errors
    /// When the bound address is a wildcard and nothing was configured, or what was configured is not an address.
    pub fn advertised(&self, bound: SocketAddr) -> Result<(String, u16), ConfigError> {
        let Some(advertise) = &self.advertise else {
            if bound.ip().is_unspecified() {
                return Err(ConfigError::NothingToAdvertise { listen: bound.to_string() });
            }
            return Ok((bound.ip().to_string(), bound.port()));
        };
        let bad = || ConfigError::BadAddress { key: "advertise", value: advertise.clone() };
        let (host, port) = split_host(advertise, bound.port()).ok_or_else(bad)?;
        let wildcard = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        if host.is_empty() || host.contains(char::is_whitespace) || wildcard || port == 0 {
            return Err(bad());
        }
        Ok((host, port))
    }
}

/// Whether a text is `SCHEME://HOST` or `SCHEME://HOST:PORT`, as browsers write the origin of a page.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"+-.".contains(&octet));
    let is_host = |octet: u8| octet.is_ascii_alphanumeric() || b".:-_[]".contains(&octet);
    is_scheme && !authority.is_empty() && authority.bytes().all(is_host)
}

/// The address to listen on, if any, by the value of a key: a port on the loopback address, or `HOST:PORT`.
pub(crate) fn parse_listen(key: &'static str, listen: Option<&str>) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(listen) = listen else { return Ok(None) };
    if let Ok(port) = listen.parse::<u16>() {
        return Ok(Some(SocketAddr::from(([127, 0, 0, 1], port))));
    }
    let found = listen.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.map(Some).ok_or_else(|| ConfigError::BadAddress { key, value: listen.to_owned() })
}

/// Splits `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT` or a bare IPv6 address.
fn split_host(text: &str, default_port: u16) -> Option<(String, u16)> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some((ip.to_string(), default_port));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        let port = match after.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if after.is_empty() => default_port,
            None => return None,
        };
        return Some((host.to_owned(), port));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => Some((host.to_owned(), port.parse().ok()?)),
        Some(_) => None,
        None => Some((text.to_owned(), default_port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn wildcard_listening_needs_an_address_to_advertise() {
        let mut config = Config::default();
        assert!(matches!(config.advertised(bound("0.0.0.0:2809")), Err(ConfigError::NothingToAdvertise { .. })));
        assert!(matches!(config.advertised(bound("[::]:2809")), Err(ConfigError::NothingToAdvertise { .. })));
        config.advertise = Some("192.0.2.10".into());
        assert_eq!(config.advertised(bound("0.0.0.0:2809")).unwrap(), ("192.0.2.10".into(), 2809));
        config.advertise = Some("0.0.0.0".into());
        assert!(config.advertised(bound("0.0.0.0:2809")).is_err());
    }

    /// `campanile serve --listen nosuch.invalid:2809` was answered with the advice to write HOST:PORT, which it had.
    #[test]
    fn a_host_without_an_address_is_distinguished_from_what_is_no_address() {
        let error = |listen: &str| Config { listen: listen.into(), ..Config::default() }.listen_address().unwrap_err();
        // No name server is asked for a name with an empty part.
        let unknown = error("nosuch..invalid:2809");
        assert!(matches!(unknown, ConfigError::UnknownHost { .. }), "{unknown}");
        let unknown = unknown.to_string();
        assert!(unknown.starts_with("cannot listen on nosuch..invalid:2809: no address is found"), "{unknown}");
        assert!(unknown.contains("--listen 127.0.0.1:2809"), "{unknown}");
        for wrong in ["127.0.0.1", "host:port", "127.0.0.1:70000", ""] {
            let refused = error(wrong).to_string();
            assert!(refused.contains("write HOST:PORT"), "{wrong}: {refused}");
        }
    }

    #[test]
    fn advertised_addresses_may_carry_a_port() {
        let with = |text: &str| {
            let config = Config { advertise: Some(text.into()), ..Config::default() };
            config.advertised(bound("127.0.0.1:2809"))
        };
        assert_eq!(with("gw.example:5000").unwrap(), ("gw.example".into(), 5000));
        assert_eq!(with("[2001:db8::1]:5000").unwrap(), ("2001:db8::1".into(), 5000));
        assert_eq!(with("2001:db8::1").unwrap(), ("2001:db8::1".into(), 2809));
        for bad in ["", "host:port", "a b", ":5000", "[::1", "host:0"] {
            assert!(with(bad).is_err(), "{bad:?}");
        }
    }
}

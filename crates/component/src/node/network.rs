//! Connections between node managers: TLS with certificates on both sides, which say what each may do.

use crate::node::connection::{CLIENT_LIMIT, Connection, Timed, words};
use access::CertificatePattern;
use accounts::CertifiedName;
use client::ServantTls;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use serde::Deserialize;
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tls::{CertificateNames, ClientEnd, Clients, Identity, LoadError, ServerEnd, Trust};

/// Keep-alive of TCP: idle time before the first probe, time between probes, and unanswered probes until the connection is broken.
const PROBE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);

/// The network's side of a node manager: `[tls]` of `node.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NodeTls {
    /// Address and port at which other node managers are served. Default: they are not, and this one takes no part in plans over several.
    pub listen: Option<String>,
    /// Host and port by which they find this one: plans and the others' records name it. Default: `listen`.
    pub address: Option<String>,
    /// PEM file with the node's certificate, and those that vouch for it behind it. It is shown to both sides' peers.
    pub certificate: PathBuf,
    /// PEM file with its key, without a passphrase.
    pub key: PathBuf,
    /// PEM file with the authorities that sign the certificates of the others.
    pub ca: PathBuf,
    /// PEM file with lists of revoked certificates. Default: none.
    pub crl: Option<PathBuf>,
    /// Names of certificates, with `*` as in rules of access, that have the right `deploy`. Default: none.
    #[serde(default)]
    pub deploy: Vec<String>,
}

impl NodeTls {
    /// The paths of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key, &self.ca].into_iter().chain(&self.crl)
    }
}

/// What connects node managers. Files are read for each connection, so that renewed certificates count from the next one on.
pub(crate) struct Network {
    settings: NodeTls,
    deploy: Vec<CertificatePattern>,
    /// The address by which others find this node manager, where it listens.
    pub(crate) address: String,
}

impl Network {
    /// Listens, where the settings say so, and they and their files are right.
    pub(crate) fn listen(settings: &NodeTls) -> Result<(Self, Option<TcpListener>), String> {
        let pattern = |name: &String| {
            name.parse().map_err(|()| {
                format!("tls.deploy: {name:?} is no name of certificates: give a subject as CN=dome,O=Obs, or dns:NAME")
            })
        };
        let deploy = settings.deploy.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
        let Some(listen) = &settings.listen else {
            let network = Self { settings: settings.clone(), deploy, address: String::new() };
            network.check()?;
            return Ok((network, None));
        };
        let failed = |error: &dyn std::fmt::Display| format!("tls.listen, {listen}: {error}");
        let listener = TcpListener::bind(listen).map_err(|error| failed(&error))?;
        let at = listener.local_addr().map_err(|error| failed(&error))?;
        let address = match &settings.address {
            Some(address) if address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => {
                address.clone()
            }
            Some(address) => return Err(format!("tls.address: {address:?} is no HOST:PORT")),
            None if at.ip().is_unspecified() => {
                return Err(
                    "tls.listen is at all addresses: say with tls.address by which HOST:PORT others find it".to_owned()
                );
            }
            None => at.to_string(),
        };
        let network = Self { settings: settings.clone(), deploy, address };
        network.check()?;
        let (identity, _) = network.ends().map_err(|error| format!("tls: {error}"))?;
        if !identity.is_for(host(&network.address)) {
            return Err(format!(
                "tls.address, {}: the certificate {} is for another host: set tls.address to a HOST:PORT with a host among the \
                 certificate's alternative names, or have a certificate made for this one",
                network.address,
                settings.certificate.display()
            ));
        }
        log::info!("other node managers are served at {at}, and find this one at {}", network.address);
        Ok((network, Some(listener)))
    }

    fn check(&self) -> Result<(), String> {
        self.server().and_then(|_| self.client()).map(drop).map_err(|error| format!("tls: {error}"))
    }

    fn ends(&self) -> Result<(Identity, Trust), LoadError> {
        let NodeTls { certificate, key, ca, crl, .. } = &self.settings;
        Ok((Identity::read(certificate, key)?, Trust::read(ca, crl.as_deref().map(Path::new))?))
    }

    fn server(&self) -> Result<ServerEnd, LoadError> {
        let (identity, trust) = self.ends()?;
        ServerEnd::new(identity, Clients::Required(trust))
    }

    fn client(&self) -> Result<ClientEnd, LoadError> {
        let (identity, trust) = self.ends()?;
        ClientEnd::new(trust, true, Some(identity))
    }

    /// Whether a certificate has the right to deploy.
    pub(crate) fn may_deploy(&self, name: &CertifiedName) -> bool {
        self.deploy.iter().any(|pattern| pattern.matches(name))
    }

    /// Performs the handshake with a client. Returns the names in its certificate.
    pub(crate) fn accept(&self, socket: TcpStream) -> Result<(Connection, CertifiedName), String> {
        probe(&socket).map_err(|error| error.to_string())?;
        let end = self.server().map_err(|error| format!("[tls] of node.toml: {error}"))?;
        let mut stream = end.stream(Timed::new(socket, CLIENT_LIMIT)).map_err(|trouble| trouble.to_string())?;
        stream.handshake().map_err(|error| words(&error, late))?;
        let names = stream.peer_names().ok_or("the names in its certificate cannot be read")?;
        Ok((Connection::tls(stream), CertifiedName { subject: names.subject, sans: names.sans }))
    }

    /// Connects with the node manager at `HOST:PORT`, and performs the handshake.
    pub(crate) fn connect(&self, address: &str) -> Result<Connection, String> {
        let end = self.client().map_err(|error| format!("[tls] of node.toml: {error}"))?;
        let socket = reach(address).map_err(|error| words(&error, || "it does not answer".to_owned()))?;
        probe(&socket).map_err(|error| error.to_string())?;
        let mut stream =
            end.stream(host(address), Timed::new(socket, CLIENT_LIMIT)).map_err(|trouble| trouble.to_string())?;
        stream.handshake().map_err(|error| words(&error, late))?;
        Ok(Connection::tls(stream))
    }
}

/// Connections over GIOP: as those of other node managers.
impl ServantTls for Network {
    fn end(&self) -> Result<ServerEnd, LoadError> {
        self.server()
    }

    fn admits(&self, names: Option<&CertificateNames>) -> bool {
        names.is_some_and(|CertificateNames { subject, sans }| {
            self.may_deploy(&CertifiedName { subject: subject.clone(), sans: sans.clone() })
        })
    }
}

/// The host of `HOST:PORT`.
pub(crate) fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']'])
}

fn late() -> String {
    format!("its TLS handshake was not over within {} s", CLIENT_LIMIT.as_secs())
}

/// Connects with one of the addresses of a host. Each has its part of the time.
fn reach(address: &str) -> io::Result<TcpStream> {
    let limit = Instant::now() + CLIENT_LIMIT;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let addresses: Vec<_> = address.to_socket_addrs()?.collect();
    for (address, others) in addresses.iter().zip((0..addresses.len()).rev()) {
        let left = limit.saturating_duration_since(Instant::now()) / u32::try_from(others + 1).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, left.max(Duration::from_millis(1))) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Has the end of a connection noticed when its machine is gone.
fn probe(socket: &TcpStream) -> io::Result<()> {
    let (after, every, count) = PROBE;
    socket.set_nodelay(true)?;
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, after)?;
    set_tcp_keepintvl(socket, every)?;
    set_tcp_keepcnt(socket, count)?;
    let silent = after + every * count;
    Ok(set_tcp_user_timeout(socket, u32::try_from(silent.as_millis()).unwrap_or(u32::MAX))?)
}

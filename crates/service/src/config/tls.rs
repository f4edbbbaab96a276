//! `[tls]`: which certificates the service shows, which authorities it trusts, and where it speaks TLS.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tls::{ClientEnd, Clients, Identity, LoadError, ServerEnd, Trust};

use super::{Config, ConfigError};

/// TLS: SSLIOP for CORBA clients and consumers, and the same records beneath lines of JSON, Tempo's connections, and HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Address and port at which CORBA clients are served over TLS, beside `listen`; references name it. Default: none.
    pub listen: Option<String>,
    /// The same for lines of JSON; a port alone means the loopback address. Default: none.
    pub json_listen: Option<String>,
    /// The same for Tempo's connections; its datagrams are never encrypted. Default: none.
    pub tempo_listen: Option<String>,
    /// The same for links of other services. Default: none.
    pub links_listen: Option<String>,
    /// The same for metrics, the API and the console, beside `http.listen` or alone; a port alone means the loopback address. Another
    /// address than a loopback one needs `http.token_file` or rules of access, without which nothing is answered there. Default: none.
    pub http_listen: Option<String>,
    /// PEM file with the service's certificate, and those that vouch for it behind it. Needed to listen. Default: none.
    pub certificate: Option<PathBuf>,
    /// PEM file with its key, without a passphrase. Default: none.
    pub key: Option<PathBuf>,
    /// PEM file with the authorities that sign clients' certificates. Default: none, and clients are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// Whether clients show certificates: `none`, `asked` (a client without one is let in all the same) or `required`. Default: `required`
    /// where `client_ca` names a file, else `none`.
    pub clients: Option<ClientCertificates>,
    /// PEM file with the authorities that sign the certificates of the peers that the service calls: consumers, filters, suppliers that are
    /// pulled from. Default: none, and the service makes no calls over TLS.
    pub ca: Option<PathBuf>,
    /// PEM file with lists of revoked certificates, one for each authority of `client_ca` and `ca`. Default: none.
    pub crl: Option<PathBuf>,
    /// Whether a called peer's certificate has to name the host that its reference names. Default true.
    pub check_names: bool,
    /// Whether nothing is served or called in the clear: `listen` is left out, and peers without a TLS port are not called. Default false.
    pub required: bool,
    /// Milliseconds that a handshake may take, 100 to 600,000. Default 10,000. A slower one ends its connection.
    pub handshake_ms: u32,
}

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificates {
    /// Clients are not asked.
    None,
    /// Clients are asked. A wrong certificate is refused; a client without one is let in.
    #[serde(rename = "asked")]
    Requested,
    /// Clients without one are refused.
    Required,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            listen: None,
            json_listen: None,
            tempo_listen: None,
            links_listen: None,
            http_listen: None,
            certificate: None,
            key: None,
            client_ca: None,
            clients: None,
            ca: None,
            crl: None,
            check_names: true,
            required: false,
            handshake_ms: 10_000,
        }
    }
}

/// What handshakes are made with.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// For accepted connections.
    pub(crate) server: Option<ServerEnd>,
    /// For outgoing connections.
    pub(crate) client: Option<ClientEnd>,
}

impl Tls {
    /// Whether anything is done over TLS.
    pub(crate) const fn is_used(&self) -> bool {
        self.listens() || self.ca.is_some()
    }

    const fn listens(&self) -> bool {
        self.listen.is_some()
            || self.json_listen.is_some()
            || self.tempo_listen.is_some()
            || self.links_listen.is_some()
            || self.http_listen.is_some()
    }

    /// Whether clients show certificates.
    pub(crate) fn clients(&self) -> ClientCertificates {
        let default = if self.client_ca.is_some() { ClientCertificates::Required } else { ClientCertificates::None };
        self.clients.unwrap_or(default)
    }

    /// Checks that what belongs together is there.
    pub(crate) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        let wrong = |why| Err(ConfigError::Tls { why });
        if self.certificate.is_some() != self.key.is_some() {
            return wrong("tls.certificate and tls.key go together: name both files");
        }
        if self.listens() && self.certificate.is_none() {
            return wrong("to listen for TLS, name the files of tls.certificate and tls.key");
        }
        if self.client_ca.is_none() && self.clients() != ClientCertificates::None {
            return wrong("to ask clients for certificates, name the file of tls.client_ca");
        }
        if self.crl.is_some() && self.client_ca.is_none() && self.ca.is_none() {
            return wrong("tls.crl says which certificates are revoked, and neither tls.client_ca nor tls.ca is set");
        }
        if self.required && self.listen.is_none() {
            return wrong("tls.required leaves out what is in the clear: set tls.listen");
        }
        if self.required && (config.json.listen.is_some() || config.tempo.listen.is_some()) {
            return wrong(
                "tls.required: json.listen and tempo.listen are in the clear; use tls.json_listen and tls.tempo_listen",
            );
        }
        if self.required && (config.links.listen.is_some() || config.link.iter().any(|link| !link.tls)) {
            return wrong(
                "tls.required: links.listen is in the clear, use tls.links_listen; and each [[link]] needs tls = true",
            );
        }
        if self.ca.is_none() && config.link.iter().any(|link| link.tls) {
            return wrong(
                "a [[link]] with tls = true needs tls.ca, the authorities that sign the other service's certificate",
            );
        }
        Ok(())
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Names the first that cannot be used, and says why.
    pub(crate) fn read(&self) -> Result<Ends, LoadError> {
        let identity = self.certificate.as_deref().zip(self.key.as_deref());
        let identity = identity.map(|(certificate, key)| Identity::read(certificate, key)).transpose()?;
        let trust = |authorities: &Option<PathBuf>| {
            authorities.as_deref().map(|authorities| Trust::read(authorities, self.crl.as_deref())).transpose()
        };
        let clients = match (self.clients(), trust(&self.client_ca)?) {
            (ClientCertificates::None, _) | (_, None) => Clients::NotRequested,
            (ClientCertificates::Requested, Some(trust)) => Clients::Requested(trust),
            (ClientCertificates::Required, Some(trust)) => Clients::Required(trust),
        };
        let client =
            trust(&self.ca)?.map(|trust| ClientEnd::new(trust, self.check_names, identity.clone())).transpose()?;
        let server = identity.map(|identity| ServerEnd::new(identity, clients)).transpose()?;
        Ok(Ends { server, client })
    }

    /// Reads the files, for connections on which both sides show certificates, and servers' name their hosts.
    ///
    /// # Errors
    /// Names the first that cannot be used, and says why.
    pub(crate) fn read_mutual(&self) -> Result<Ends, LoadError> {
        let clients = Some(ClientCertificates::Required);
        Self { clients, check_names: true, ..self.clone() }.read()
    }
}

impl Config {
    /// The socket address for HTTP over TLS, if any.
    ///
    /// # Errors
    /// When `tls.http_listen` is neither a port nor `HOST:PORT`, or its host has no address. When it is no loopback address, and there is
    /// neither a token nor an access rule.
    pub fn https_listen_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        self.of_http("tls.http_listen", self.tls.http_listen.as_deref())
    }

    /// Where the service listens for CORBA clients over TLS.
    pub(crate) fn tls_listen_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(listen) = &self.tls.listen else { return Ok(None) };
        let found = listen.to_socket_addrs().ok().and_then(|mut found| found.next());
        found.map(Some).ok_or_else(|| ConfigError::BadAddress { key: "tls.listen", value: listen.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        toml::from_str::<Config>(text).unwrap().check().unwrap_err().to_string()
    }

    #[test]
    fn what_belongs_together_has_to_be_there() {
        assert!(why("[tls]\nlisten = \"127.0.0.1:0\"").contains("name the files of tls.certificate"));
        assert!(why("[tls]\nkey = \"k\"").contains("go together"));
        assert!(why("[tls]\nclients = \"asked\"").contains("tls.client_ca"));
        assert!(why("[tls]\ncrl = \"c\"").contains("tls.crl"));
        assert!(why("[tls]\nrequired = true").contains("set tls.listen"));
        let all = "[tls]\nrequired = true\nlisten = \"127.0.0.1:0\"\ncertificate = \"c\"\nkey = \"k\"\n";
        toml::from_str::<Config>(all).unwrap().check().unwrap();
        assert!(why(&format!("{all}[json]\nlisten = \"1\"")).contains("tls.json_listen"));
    }

    #[test]
    fn clients_have_to_show_certificates_where_an_authority_is_named_and_nothing_else_is_said() {
        let clients = |text: &str| toml::from_str::<Tls>(text).unwrap().clients();
        assert_eq!(clients(""), ClientCertificates::None);
        assert_eq!(clients("client_ca = \"a\""), ClientCertificates::Required);
        assert_eq!(clients("client_ca = \"a\"\nclients = \"asked\""), ClientCertificates::Requested);
    }
}

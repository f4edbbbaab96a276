//! Handshake parameters: certificates and keys, trusted authorities, expected names.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};

use crate::error::{LoadError, Trouble};
use crate::name::is_for;
use crate::session::Session;
use crate::stream::Stream;

/// A certificate with its chain, and its key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Trusted authorities, and the certificates that they revoked.
#[derive(Debug, Clone)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

/// Requests for clients' certificates.
#[derive(Debug, Clone)]
pub enum Clients {
    /// Clients are not asked for a certificate.
    NotRequested,
    /// Clients are asked: one without a certificate is accepted, one with an invalid certificate is refused.
    Requested(Trust),
    /// Clients without a certificate are refused.
    Required(Trust),
}

/// The accepting side. Clones share everything.
#[derive(Debug, Clone)]
pub struct ServerEnd(Arc<ServerConfig>);

/// The connecting side. Clones share everything.
#[derive(Debug, Clone)]
pub struct ClientEnd(Arc<ClientConfig>);

impl Identity {
    /// Reads PEM files: the certificate first, then its chain; and the key (PKCS #8, PKCS #1 or SEC1, without a passphrase).
    ///
    /// # Errors
    /// The error names the file and the problem.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, LoadError> {
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, format!("no private key: {error}")))?;
        Ok(Self { chain, key })
    }

    /// Whether the certificate is for a host, a name or an address.
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        self.chain.first().is_some_and(|certificate| is_for(certificate, host))
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

impl Trust {
    /// Reads PEM files: the certificates of authorities, and lists of certificates that they have revoked. With such lists, there must be
    /// one for each authority in the chain from a certificate to a trusted one.
    ///
    /// # Errors
    /// The error names the file and the problem.
    pub fn read(authorities: &Path, revoked: Option<&Path>) -> Result<Self, LoadError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate).map_err(|error| wrong(authorities, error.to_string()))?;
        }
        let lists = |path: &Path| {
            let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_file_iter(path)
                .and_then(Iterator::collect)
                .map_err(|error| wrong(path, format!("no list of revoked certificates: {error}")));
            let lists = lists?;
            if lists.is_empty() {
                return Err(wrong(path, "it has no list of revoked certificates".into()));
            }
            Ok(lists)
        };
        let revoked = revoked.map(lists).transpose()?.unwrap_or_default();
        Ok(Self { roots: Arc::new(roots), revoked })
    }
}

impl ServerEnd {
    /// An accepting side with that certificate.
    ///
    /// # Errors
    /// Key and certificate do not match, or the lists of revoked certificates cannot be read.
    pub fn new(identity: Identity, clients: Clients) -> Result<Self, LoadError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.map_err(together)?;
        let (trust, is_required) = match clients {
            Clients::NotRequested => (None, false),
            Clients::Requested(trust) => (Some(trust), false),
            Clients::Required(trust) => (Some(trust), true),
        };
        let builder = match trust {
            None => builder.with_no_client_auth(),
            Some(Trust { roots, revoked }) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).with_crls(revoked);
                let verifier = if is_required { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().map_err(together)?)
            }
        };
        let Identity { chain, key } = identity;
        let mut config = builder.with_single_cert(chain, key).map_err(together)?;
        // A resumed session is not verified again: a client with a certificate revoked meanwhile would be let in.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// The rustls configuration, for callers that use a stream instead of records.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }

    /// A session with a connected client.
    ///
    /// # Errors
    /// rustls refuses the configuration.
    pub fn session(&self) -> Result<Session, Trouble> {
        Session::of_server(Arc::clone(&self.0))
    }

    /// A stream with a connected client.
    ///
    /// # Errors
    /// rustls refuses the configuration.
    pub fn stream<T: Read + Write>(&self, socket: T) -> Result<Stream<T>, Trouble> {
        Ok(Stream::of_server(ServerConnection::new(Arc::clone(&self.0))?, socket))
    }
}

impl ClientEnd {
    /// A connecting side: trusts certificates of these authorities, checks the server's host name if `checks_names`, and shows its own
    /// certificate to servers that ask.
    ///
    /// # Errors
    /// Key and certificate do not match, or the lists of revoked certificates cannot be read.
    pub fn new(trust: Trust, checks_names: bool, identity: Option<Identity>) -> Result<Self, LoadError> {
        let provider = provider();
        let Trust { roots, revoked } = trust;
        let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).with_crls(revoked);
        let verifier = Arc::new(Verifier { inner: inner.build().map_err(together)?, checks_names });
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(together)?.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match identity {
            Some(Identity { chain, key }) => builder.with_client_auth_cert(chain, key).map_err(together)?,
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// The rustls configuration, for callers that use a stream instead of records.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }

    /// A session with that host, a name or an address.
    ///
    /// # Errors
    /// `host` is neither a name nor an address.
    pub fn session(&self, host: &str) -> Result<Session, Trouble> {
        Session::of_client(Arc::clone(&self.0), name_of(host)?)
    }

    /// A stream with that host, a name or an address.
    ///
    /// # Errors
    /// `host` is neither a name nor an address.
    pub fn stream<T: Read + Write>(&self, host: &str, socket: T) -> Result<Stream<T>, Trouble> {
        Ok(Stream::of_client(ClientConnection::new(Arc::clone(&self.0), name_of(host)?)?, socket))
    }
}

fn name_of(host: &str) -> Result<ServerName<'static>, Trouble> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| Trouble::Protocol(format!("{host:?} is neither a host name nor an address")))
}

/// Verifies servers, with or without their host names: certificates of CORBA clients, which act as servers when events are pushed to them,
/// often name a person or a program instead of a host.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    checks_names: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is what is looked at last, when everything else was found right.
        match self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_names => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| wrong(path, format!("no certificate: {error}")))?;
    if found.is_empty() { Err(wrong(path, "it has no certificate in PEM".into())) } else { Ok(found) }
}

fn wrong(path: &Path, why: String) -> LoadError {
    LoadError::File { path: PathBuf::from(path), why }
}

fn together(error: impl core::fmt::Display) -> LoadError {
    LoadError::Together { why: error.to_string() }
}

//! Names in a client's or peer's certificate.

use core::fmt;

/// Names in the verified certificate of a client or peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CertifiedName {
    /// The subject's distinguished name by RFC 4514, the most specific part first: `CN=plant 7,O=Example`. Empty if it has none.
    pub subject: String,
    /// Alternative names, each with its kind: `DNS:plant7.example`, `IP:192.0.2.7`, `URI:urn:plant:7`, `email:plant7@example.com`.
    pub sans: Vec<String>,
}

impl fmt::Display for CertifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sans.first() {
            Some(san) if self.subject.is_empty() => f.write_str(san),
            _ => f.write_str(&self.subject),
        }
    }
}

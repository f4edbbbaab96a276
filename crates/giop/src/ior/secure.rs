//! TLS beside IIOP, as SSLIOP has it in references: a component with a second port.

use super::{Component, IiopProfile, tag};
use crate::cdr::Reader;

/// TLS information in a reference: `SSLIOP::SSL` of the CORBA Security Service 1.8, 3.7.3 (CSIv1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecureTransport {
    /// Options that the server supports, see below.
    pub supports: u16,
    /// Options that the server requires.
    pub requires: u16,
    /// The TCP port for TLS.
    pub port: u16,
}

impl SecureTransport {
    /// No protection: messages in the clear.
    pub const NO_PROTECTION: u16 = 1;
    /// Integrity, confidentiality, and detection of replay and misordering, as in TLS.
    pub const PROTECTION: u16 = 2 | 4 | 8 | 16;
    /// The server shows a certificate.
    pub const TRUST_IN_TARGET: u16 = 32;
    /// The client shows a certificate.
    pub const TRUST_IN_CLIENT: u16 = 64;

    /// Encodes it as a component of a profile.
    #[must_use]
    pub fn to_component(self) -> Component {
        let Self { supports, requires, port } = self;
        Component::encapsulated(tag::SSL_SEC_TRANS, |w| {
            w.u16(supports);
            w.u16(requires);
            w.u16(port);
        })
    }

    /// Decodes a component; `None` if it cannot be read or names no port.
    #[must_use]
    pub fn from_component(component: &Component) -> Option<Self> {
        if component.tag != tag::SSL_SEC_TRANS {
            return None;
        }
        let mut r = Reader::over_encapsulation(&component.data).ok()?;
        let read = Self { supports: r.u16().ok()?, requires: r.u16().ok()?, port: r.u16().ok()? };
        (read.port != 0).then_some(read)
    }
}

impl IiopProfile {
    /// The profile's TLS information; `None` without valid information.
    #[must_use]
    pub fn secure_transport(&self) -> Option<SecureTransport> {
        SecureTransport::from_component(self.component(tag::SSL_SEC_TRANS)?)
    }
}

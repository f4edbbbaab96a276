//! TLS beside IIOP, as SSLIOP has it in references: a component with a second port.

use super::{Component, IiopProfile, tag};
use crate::cdr::Reader;

/// What a reference says of TLS: `SSLIOP::SSL` of the CORBA Security Service 1.8, 3.7.3 (CSIv1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecureTransport {
    /// What the server can do, of the options below.
    pub supports: u16,
    /// What it insists on.
    pub requires: u16,
    /// The TCP port at which it speaks TLS.
    pub port: u16,
}

impl SecureTransport {
    /// Nothing: messages in the clear.
    pub const NO_PROTECTION: u16 = 1;
    /// That messages are whole, secret, and neither repeated nor put into another order: what TLS does.
    pub const PROTECTION: u16 = 2 | 4 | 8 | 16;
    /// That the server shows a certificate.
    pub const TRUST_IN_TARGET: u16 = 32;
    /// That the client shows one.
    pub const TRUST_IN_CLIENT: u16 = 64;

    /// As a component of a profile.
    #[must_use]
    pub fn to_component(self) -> Component {
        let Self { supports, requires, port } = self;
        Component::encapsulated(tag::SSL_SEC_TRANS, |w| {
            w.u16(supports);
            w.u16(requires);
            w.u16(port);
        })
    }

    /// What a component says, if it can be read and names a port.
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
    /// What it says of TLS; `None` if it says nothing that can be understood.
    #[must_use]
    pub fn secure_transport(&self) -> Option<SecureTransport> {
        SecureTransport::from_component(self.component(tag::SSL_SEC_TRANS)?)
    }
}

//! Identity that a client shows beside its address, and its name.

use std::sync::{Arc, OnceLock};

use crate::CertifiedName;

/// What a client has shown on its connection. Each item is shown once, on the thread that owns the connection, and
/// stays; later requests are judged by it.
#[derive(Debug, Default)]
pub struct Identity {
    certified: OnceLock<Arc<CertifiedName>>,
    token: OnceLock<Arc<str>>,
    protocol: OnceLock<&'static str>,
    pub(crate) own_name: OnceLock<Arc<str>>,
    given_names: GivenName,
}

/// Names that the configuration has given a client, in order: the last one counts. A name once returned stays in place, so that it can
/// be lent. There are as many as the client has shown identities and the operator has changed its name.
#[derive(Debug, Default)]
struct GivenName {
    name: Option<Arc<str>>,
    next: OnceLock<Box<Self>>,
}

impl GivenName {
    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }
}

impl Identity {
    /// The names in its certificate, if it has shown a valid one.
    #[must_use]
    pub fn certified(&self) -> Option<&Arc<CertifiedName>> {
        self.certified.get()
    }

    /// Name of the token that the client has shown.
    #[must_use]
    pub fn token(&self) -> Option<&Arc<str>> {
        self.token.get()
    }

    /// The protocol, if that itself is the client because its events have no client of the service behind them.
    #[must_use]
    pub fn protocol(&self) -> Option<&'static str> {
        self.protocol.get().copied()
    }

    /// The client's name in logs, statistics and metrics: the name it gave itself, else the one from the
    /// configuration. It proves nothing: rules of access ignore it, and several clients may have the same one.
    #[must_use]
    pub fn name(&self) -> Option<&Arc<str>> {
        self.own_name.get().or_else(|| self.given_names.last().name.as_ref())
    }

    /// Sets the name from the configuration; `None` removes it. A name that the client gave itself takes precedence.
    pub fn give_name(&self, name: Option<&Arc<str>>) {
        let mut next = Box::new(GivenName { name: name.cloned(), next: OnceLock::new() });
        // Another thread may be faster.
        while self.given_names.last().name != next.name {
            match self.given_names.last().next.set(next) {
                Ok(()) => return,
                Err(again) => next = again,
            }
        }
    }

    /// Notes the certificate that the client has shown. False if it had shown one before, which stays.
    pub fn certify(&self, name: Arc<CertifiedName>) -> bool {
        self.certified.set(name).is_ok()
    }

    /// Notes the name of the token that the client has shown. False if it had shown one before, which stays.
    pub fn show_token(&self, name: Arc<str>) -> bool {
        self.token.set(name).is_ok()
    }

    /// Notes that the client is a protocol itself. False if that was noted before.
    pub fn note_protocol(&self, name: &'static str) -> bool {
        self.protocol.set(name).is_ok()
    }
}

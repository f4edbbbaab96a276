//! What a client shows to identify itself, beside the address that it comes from, and what it is called.

use std::sync::{Arc, OnceLock};

use crate::CertifiedName;

/// What a client has shown on its connection. Each of these is shown once, on the thread that has the connection, and stays; later requests
/// are judged by it.
#[derive(Debug, Default)]
pub struct Identity {
    certified: OnceLock<Arc<CertifiedName>>,
    token: OnceLock<Arc<str>>,
    protocol: OnceLock<&'static str>,
    pub(crate) own_name: OnceLock<Arc<str>>,
    given_names: GivenName,
}

/// What the configuration calls a client, in the order in which it did: the last one counts. A name that was shown stays where it is, so
/// that it can be lent. There are as many as the client has shown identities and the operator has changed its name.
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
    /// What its certificate says, if it has shown one that holds.
    #[must_use]
    pub fn certified(&self) -> Option<&Arc<CertifiedName>> {
        self.certified.get()
    }

    /// The name of the token that it has shown.
    #[must_use]
    pub fn token(&self) -> Option<&Arc<str>> {
        self.token.get()
    }

    /// The protocol that it is itself: what comes there has no client of ours behind it.
    #[must_use]
    pub fn protocol(&self) -> Option<&'static str> {
        self.protocol.get().copied()
    }

    /// What the client is called in logs, statistics and metrics: what it says of itself, else what the configuration calls it.
    /// It proves nothing: no rule of access looks at it, and several clients may have the same one.
    #[must_use]
    pub fn name(&self) -> Option<&Arc<str>> {
        self.own_name.get().or_else(|| self.given_names.last().name.as_ref())
    }

    /// Sets the name that the configuration gives the client; `None` removes it. A name that the client says of itself goes first.
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

    /// It has shown a certificate. False if it had shown one before: that counts.
    pub fn certify(&self, name: Arc<CertifiedName>) -> bool {
        self.certified.set(name).is_ok()
    }

    /// It has shown a token of that name. False if it had shown one before: that counts.
    pub fn show_token(&self, name: Arc<str>) -> bool {
        self.token.set(name).is_ok()
    }

    /// It is no client but a protocol.
    pub fn note_protocol(&self, name: &'static str) -> bool {
        self.protocol.set(name).is_ok()
    }
}

//! Where clients connect.

use std::net::TcpListener;
use std::sync::Arc;

use accounts::{Accounts, Addresses};

/// A socket that listens, and whom it takes connections from.
pub(crate) struct Entrance {
    pub(crate) listener: Option<TcpListener>,
    pub(crate) addresses: Option<Addresses>,
    /// Connections are being refused; that has been logged.
    pub(crate) refusing: bool,
    /// Not listening for connections, for want of descriptors.
    pub(crate) deaf: bool,
}

impl Entrance {
    /// One that is open, or none.
    pub(crate) fn new(listener: Option<TcpListener>, accounts: &Arc<Accounts>) -> Self {
        Self { addresses: listener.as_ref().map(|_| Addresses::new(accounts)), listener, refusing: false, deaf: false }
    }

    /// Closes it: whoever connects from now on is refused by the system.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.deaf = false;
    }
}

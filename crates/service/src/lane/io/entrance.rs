//! Where clients connect.

use crate::lane::io::net::Listener;

/// A socket that listens.
pub(crate) struct Entrance {
    pub(crate) listener: Option<Listener>,
    /// Connections are being refused; that has been logged.
    pub(crate) refusing: bool,
    /// Not listening for connections, for want of descriptors.
    pub(crate) deaf: bool,
}

impl Entrance {
    /// One that is open, or none.
    pub(crate) const fn new(listener: Option<Listener>) -> Self {
        Self { listener, refusing: false, deaf: false }
    }

    /// Closes it: whoever connects from now on is refused by the system.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.deaf = false;
    }
}

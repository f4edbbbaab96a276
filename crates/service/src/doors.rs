//! The ways in: a folder for each protocol.

pub(crate) mod giop;

/// What the doors have of a lane, apart from the connections that clients made.
pub(crate) struct Doors {
    pub(crate) giop: giop::Door,
}

/// The connections that clients made to a lane.
pub(crate) struct Clients {
    pub(crate) giop: giop::incoming::Clients,
}

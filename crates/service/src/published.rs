//! What administration publishes for lanes, all of one moment: the routing, and beside it a table for each protocol.
//!
//! It is never changed. Administration swaps the pointer to it, a lane looks at that pointer once in each round, and
//! administration keeps what it has published until no lane uses it any more.

use std::sync::Arc;

use engine::Snapshot;

/// The routing, and how each protocol's clients are named in it.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The suppliers and consumers of each channel.
    pub(crate) routing: Arc<Snapshot>,
    /// For the CORBA protocol: which object keys name proxies, and where the clients are that are called.
    pub(crate) giop: corba::Directory,
    /// The access rules; nothing if every client may do everything.
    pub(crate) access: Option<corba::Access>,
}

impl From<corba::Published> for Published {
    fn from(corba::Published { routing, directory, access }: corba::Published) -> Self {
        Self { routing, giop: directory, access }
    }
}

#[cfg(test)]
impl Published {
    /// Publishes routing alone, without peers to call.
    pub(crate) fn of(routing: Arc<Snapshot>) -> Self {
        Self {
            routing,
            giop: corba::Directory {
                peers: Arc::default(),
                nonces: corba::ProxyNonces::default(),
                aliases: Arc::default(),
            },
            access: None,
        }
    }
}

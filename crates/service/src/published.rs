//! Publication of administration for lanes, of one moment: the routing, and a table for each protocol.
//!
//! It is immutable. Administration swaps the pointer to it, a lane checks that pointer once in each round, and administration keeps each
//! publication until no lane uses it any more.

use std::sync::Arc;

use engine::Snapshot;

/// The routing, and each protocol's names of clients in it.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The suppliers and consumers of each channel.
    pub(crate) routing: Arc<Snapshot>,
    /// Directory of the CORBA protocol: object keys of proxies, and addresses of clients to call.
    pub(crate) giop: corba::Directory,
    /// The access rules; `None` if every client may do everything.
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

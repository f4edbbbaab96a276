//! What administration publishes for lanes, all of one moment: the routing, and beside it a table for each door.
//!
//! It is never changed. Administration swaps the pointer to it, a lane looks at that pointer once in each round, and
//! administration keeps what it has published until no lane uses it any more.

use std::sync::Arc;

use engine::Snapshot;

/// The routing, and how each door's clients are named in it.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// Who supplies and who consumes.
    pub(crate) routing: Arc<Snapshot>,
    /// For the CORBA door: which object keys name proxies, and where the clients are that are called.
    pub(crate) giop: corba::Directory,
    /// Who may what; nothing if everybody may everything.
    pub(crate) access: Option<corba::Access>,
}

impl From<corba::Published> for Published {
    fn from(corba::Published { routing, directory, access }: corba::Published) -> Self {
        Self { routing, giop: directory, access }
    }
}

#[cfg(test)]
impl Published {
    /// What is published where nobody is called.
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

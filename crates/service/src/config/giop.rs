//! `[giop]`: how CORBA's messages are exchanged.

use serde::{Deserialize, Serialize};

/// How CORBA's messages are exchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Giop {
    /// Whether clients are called over connections that they made and offer for that (bidirectional GIOP), as those behind a firewall or
    /// NAT have to be. Default true.
    pub bidirectional: bool,
}

impl Default for Giop {
    fn default() -> Self {
        Self { bidirectional: true }
    }
}

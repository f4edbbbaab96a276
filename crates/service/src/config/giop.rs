//! `[giop]`: how CORBA's messages are exchanged.

use serde::{Deserialize, Serialize};

/// How CORBA's messages are exchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Giop {
    /// Whether clients are called over connections that they made and offer for that (bidirectional GIOP), as those behind a firewall or
    /// NAT have to be. Default false: some clients offer it without a need, and one that supplies and consumes over the one connection may
    /// then wait for itself.
    pub bidirectional: bool,
}

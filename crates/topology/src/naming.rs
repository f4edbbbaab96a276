//! Naming service.

use serde::{Deserialize, Serialize};

/// Contents of the naming service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Naming {
    /// Random number in the keys of all contexts but the root.
    #[serde(with = "crate::nonce")]
    pub nonce: u128,
    /// Number of the next context.
    pub next_context: u32,
    /// Contexts, by rising number; the root, which always exists, has 0.
    pub contexts: Vec<Context>,
}

/// A naming context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Number of the context.
    pub id: u32,
    /// Names, by identifier and kind.
    pub bindings: Vec<Binding>,
}

/// A name in a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Identifier of the name.
    pub name: String,
    /// Kind of the name, mostly empty.
    pub kind: String,
    /// Object or context of this name.
    pub bound: Bound,
}

/// Object or context of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// An object, by its reference.
    Object(String),
    /// A context, by its reference.
    Context {
        /// Reference as it was bound.
        reference: String,
        /// Number, if it is a context of this naming service.
        here: Option<u32>,
    },
}

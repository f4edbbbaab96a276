//! The naming service's part.

use serde::{Deserialize, Serialize};

/// What the naming service holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Naming {
    /// In the keys of all contexts but the root.
    #[serde(with = "crate::nonce")]
    pub nonce: u128,
    /// The number of the context that is made next.
    pub next_context: u32,
    /// By rising number; the root, which is always there, has 0.
    pub contexts: Vec<Context>,
}

/// A naming context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Its number.
    pub id: u32,
    /// By identifier and kind.
    pub bindings: Vec<Binding>,
}

/// A name in a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The identifier.
    pub name: String,
    /// The kind, mostly empty.
    pub kind: String,
    /// What it stands for.
    pub bound: Bound,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// An object, by its reference.
    Object(String),
    /// A context, by its reference.
    Context {
        /// As it was bound.
        reference: String,
        /// Its number where it is one of this naming service.
        here: Option<u32>,
    },
}

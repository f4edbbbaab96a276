//! Events on their way into the engine: whose turn it is, and what suppliers are owed.

pub(crate) mod admission;
pub(crate) mod turns;

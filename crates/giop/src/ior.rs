//! Object references.

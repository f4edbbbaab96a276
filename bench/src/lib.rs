//! See the crate description; the contents are being built.

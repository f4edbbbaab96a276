//! The ways in: a folder for each protocol.

pub(crate) mod giop;

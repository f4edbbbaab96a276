//! HTTP on real sockets: a client that is nothing but a socket, honest ones and others.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod access;
mod access_matrix;
mod api;
mod grammar;
mod hostile;
mod memory;
mod metrics;
mod packaging;
mod publish;
mod secure;
mod support;
mod websocket;

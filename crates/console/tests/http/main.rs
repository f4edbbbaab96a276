//! HTTP on real sockets: a client that is nothing but a socket, honest ones and others.

mod api;
mod grammar;
mod hostile;
mod metrics;
mod packaging;
mod support;

//! Tempo over real sockets of the loopback network: every way of running, and what goes wrong on each.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod groups;
mod load;
mod peers;
mod reports;
mod support;
mod tls;

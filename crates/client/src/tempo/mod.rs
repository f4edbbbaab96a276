//! Tempo, the small protocol: publishers and subscribers that find each other by topic, over UDP or TCP, with or without a broker.
//!
//! - [`Publisher`] and [`Subscriber`]: with one call, an end point of its own each.
//! - [`Node`]: an end point for many of them, with settings: one socket, one thread.
//! - [`PublisherReport`] and [`SubscriberReport`]: delays, rates and losses, once in an announcement period; and what to make of
//!   them.
//!
//! An address says how it is spoken: to a peer, to a group, to a broker ([`Address`]); nothing else in a program differs.
//! `docs/tempo-guide.md` is for users, `docs/tempo.md` specifies the protocol.
//!
//! A message is sent on the thread that publishes it, and taken on the end point's own: no queue and no thread in between. What
//! that thread calls back does not hold anything up but itself. Nothing is allocated for a message in the steady state but where it
//! waits to be asked for.

mod address;
mod core;
mod datagrams;
mod driver;
mod error;
mod gather;
mod handler;
mod message;
mod node;
mod publisher;
mod report;
mod shared;
mod streams;
mod subscriber;
mod wake;

pub use ::tempo::adaptation::Target;
pub use ::tempo::endpoint::{Counters, Order, Place, Refused};
pub use ::tempo::wire::{self, Content};
pub use address::{Address, AddressError, Transport};
pub use core::{MESSAGE_MAX, PEERS_MAX, TOPICS_MAX};
pub use error::Error;
pub use message::{Message, OwnedMessage};
pub use node::{Node, NodeBuilder};
pub use publisher::{Publisher, PublisherBuilder};
pub use report::{Delay, Peer, PublisherReport, SubscriberReport};
pub use subscriber::{Subscriber, SubscriberBuilder};

use std::net::SocketAddr;

use rustix::time::{ClockId, clock_gettime};

/// Whether an address is a group's: multicast, or broadcast to all of a network. The system is asked which addresses are a network's.
#[must_use]
pub fn is_group(address: SocketAddr) -> bool {
    address.ip().is_multicast() || address::is_broadcast(address)
}

/// The clock of [`Message::sent_ns`]: this machine's monotonic clock, in nanoseconds. All processes of one machine have the same.
#[must_use]
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}

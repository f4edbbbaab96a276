//! Tempo, the small protocol: publishers and subscribers that find each other by topic, over UDP or TCP, with or without a broker.
//!
//! - [`Publisher`] and [`Subscriber`]: made with one call, each with its own end point.
//! - [`Node`]: an end point for many of them, with settings: one socket, one thread.
//! - [`PublisherReport`] and [`SubscriberReport`]: delays, rates and losses, once per announcement period.
//!
//! Only the [`Address`] says whether the counterpart is a peer, a group or a broker; nothing else in a program differs.
//! `docs/tempo-guide.md` is for users, `docs/tempo.md` specifies the protocol.
//!
//! A message is sent on the thread that publishes it, and taken on the end point's own: no queue and no thread in between. A slow callback
//! delays only that thread. In the steady state only queued messages are allocated.

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

/// Whether an address is a group's: multicast, or a network's broadcast address. The system is queried for the networks' addresses.
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

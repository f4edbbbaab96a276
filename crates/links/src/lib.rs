//! The protocol of a link: a channel of one service joined with the channel of that name of another, over a stream of bytes.
//!
//! A *flow* is one channel in one direction. Its events are numbered contiguously from 1 in each session: these numbers find loss and are
//! acknowledged. Each event has a second number, by the process that admitted it first ([`Origin`]): it finds repeats, over whatever path
//! and session the event comes.
//!
//! - [`wire`]: frames, read in place and appended to a buffer. [`Framer`] cuts a stream of bytes into them.
//! - [`Sender`]: the events of a flow in flight; it outlives sessions. [`Receiver`]: pending acknowledgements of a flow in one session.
//! - [`Seen`]: the origins that a channel has admitted, to find repeats.
//! - [`announce`]: the datagrams by which services find each other.
//! - [`group`]: the same events in datagrams for many services at once, beside the sessions.
//! - [`hops`]: the loop check. [`Interest`]: the event types that are subscribed, here and beyond.
//!
//! No socket, clock or thread: nanoseconds of a monotonic clock are given with each call. What a peer sends is bounded before it is
//! retained; whatever breaks the protocol is a [`Violation`], after which the session is closed.
//!
//! # The rule that drives a session
//!
//! Each side sends [`wire::Hello`], then what it likes. After both Hellos, the side that sends a flow's events calls
//! [`Sender::restart`] and [`Sender::set_limits`], writes what [`Sender::resend`] gives until that is nothing, and from then on
//! what the engine delivers, as long as [`Sender::has_room`]. The other side calls [`Receiver::accept`] for each event, [`Seen::check`] and
//! [`Seen::begin`], has its channel admit the event, calls [`Seen::commit`] and [`Receiver::complete`] when that is done (on disk, if the
//! event is persistent), and writes [`Receiver::take_ack`] once a round.
#![no_std]

extern crate alloc;

pub mod announce;
pub mod group;
pub mod hops;
pub mod wire;

mod framer;
mod interest;
mod receiver;
mod seen;
mod sender;
mod violation;
mod window;

pub use framer::Framer;
pub use hops::{Forwarding, Hops};
pub use interest::{DISTANCE_MAX, Interest, Published};
pub use receiver::Receiver;
pub use seen::{Forgotten, Seen, Verdict};
pub use sender::Sender;
pub use violation::Violation;
pub use window::WINDOW_BYTES_START;

/// Nanoseconds of the caller's monotonic clock.
pub type Nanos = u64;

/// The versions of the protocol that this crate speaks, the lowest and the highest.
pub const VERSIONS: (u16, u16) = (1, 1);

/// The identity of an event: the process that admitted it first, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The identity of the admitting service, never 0.
    pub service: u64,
    /// The incarnation of that service's process.
    pub era: u64,
    /// The event's number in that process, at least 1.
    pub number: u64,
}

impl Origin {
    /// Length of [`Self::to_bytes`] in octets.
    pub const BYTES: usize = 3 * size_of::<u64>();

    /// Encodes service, era and number in this order, each little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let fields = [self.service, self.era, self.number].map(u64::to_le_bytes);
        bytes.copy_from_slice(fields.as_flattened());
        bytes
    }

    pub(crate) fn of_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let mut fields = bytes.as_chunks().0.iter().map(|field| u64::from_le_bytes(*field));
        let mut next = || fields.next().unwrap_or_default();
        Self { service: next(), era: next(), number: next() }
    }
}

/// The limits of one end of a link. [`wire::Hello`] announces them, and the other end keeps to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum octets of a frame, without its length field. Default 16 MiB + 64 KiB, at least 512 KiB.
    pub frame_bytes_max: u32,
    /// Maximum octets of a flow's frames in flight; a single larger event passes. Default 8 MiB, at least 16 KiB.
    pub window_bytes_max: u64,
    /// Maximum events of a flow in flight. Default 16,384, at least 1.
    pub outstanding_max: u32,
}

impl Limits {
    /// Smallest permitted `frame_bytes_max`: every frame other than an event fits in it.
    pub const FRAME_BYTES_MIN: u32 = 512 << 10;
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_bytes_max: (16 << 20) + (64 << 10), window_bytes_max: 8 << 20, outstanding_max: 16_384 }
    }
}

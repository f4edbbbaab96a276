//! The frames of a session.
//!
//! ```text
//! length u32 │ kind u8 │ fields …            little-endian; the length counts what follows it
//! ```
//!
//! A text, a name and a list begin with the number of their octets or entries (u32). An event's bytes are the rest of the frame and have no
//! length field.

mod fields;
mod group;
mod list;
mod names;
mod read;
mod types;
mod write;

pub use group::{GroupJoin, Ranges, Security};
pub use names::{NameEntries, NameEntry};
pub use types::{Origins, TypeInterest, Types};

use crate::{Hops, Limits, Origin, VERSIONS};

/// Octets of a frame's length field.
pub const LENGTH_BYTES: usize = 4;
/// Maximum octets of a Hello, the first frame.
pub const HELLO_BYTES_MAX: u32 = 1 << 10;
/// Maximum octets of a service's name, a token, and a channel's name.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum octets of each of the two names of an event's type.
pub const EVENT_NAME_BYTES_MAX: usize = 64 << 10;
/// Maximum octets of a constraint.
pub const CONSTRAINT_BYTES_MAX: usize = 64 << 10;
/// Maximum octets of a reason. A longer one is cut when written.
pub const REASON_BYTES_MAX: usize = 512;
/// Maximum entries of a list of event types.
pub const TYPES_MAX: usize = 1_024;
/// Maximum entries of a list of origins.
pub const ORIGINS_MAX: usize = 256;
/// Maximum octets of all names in a list of event types.
pub const TYPES_BYTES_MAX: usize = 256 << 10;
/// Maximum entries of a [`Frame::Directory`].
pub const DIRECTORY_ENTRIES_MAX: usize = 128;
/// Maximum octets of a channel's reference, which is text (`IOR:…`).
pub const REFERENCE_BYTES_MAX: usize = 2 << 10;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the variants of Frame of the same names say it")]
pub enum Kind {
    Hello = 1,
    Open = 2,
    Opened = 3,
    Refused = 4,
    Event = 5,
    Ack = 6,
    Reject = 7,
    Interest = 8,
    Ping = 9,
    Pong = 10,
    Goodbye = 11,
    Acknowledged = 12,
    Forgotten = 13,
    Directory = 14,
    GroupJoin = 32,
    GroupListening = 33,
    GroupStart = 34,
    GroupLeave = 35,
    GroupEvent = 36,
    GroupAck = 37,
    GroupRequest = 38,
    GroupReject = 39,
}

/// One frame, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The first frame of each side.
    Hello(Hello<'a>),
    /// A request to begin a flow.
    Open(Open<'a>),
    /// The answer that the flow has begun.
    Opened {
        /// The flow's number in this session.
        flow: u32,
    },
    /// The answer that the flow does not begin, or the end of the flow.
    Refused {
        /// The flow's number in this session.
        flow: u32,
        /// The reason.
        reason: &'a str,
    },
    /// An event of a flow.
    Event(Event<'a>),
    /// An acknowledgement: all events of a flow up to one are complete.
    Ack {
        /// The flow's number in this session.
        flow: u32,
        /// The number of the last complete event.
        up_to: u64,
    },
    /// The receiver will never take an event. It acknowledges the event afterwards, with those before it.
    Reject {
        /// The flow's number in this session.
        flow: u32,
        /// The event's number in the flow, at least 1.
        sequence: u64,
        /// The reason, as a number that the service defines.
        reason: u8,
        /// The reason in words.
        text: &'a str,
    },
    /// The subscriptions of the receiver of a flow. They replace those in its last frame.
    Interest {
        /// The flow's number in this session.
        flow: u32,
        /// The distance of the nearest subscription of all types, if there is one.
        everything: Option<u8>,
        /// The subscribed types.
        types: Types<'a>,
    },
    /// A request for a [`Frame::Pong`].
    Ping {
        /// A number to be repeated in the answer.
        number: u64,
    },
    /// The answer to [`Frame::Ping`].
    Pong {
        /// The number in the Ping.
        number: u64,
    },
    /// The end of the session.
    Goodbye {
        /// The reason.
        reason: &'a str,
    },
    /// The last persistent events that earlier processes of a flow's receiver have acknowledged. Sent once, behind [`Frame::Opened`], where
    /// the receiver [has a store](Hello::has_store).
    Acknowledged {
        /// The flow's number in this session.
        flow: u32,
        /// The events.
        origins: Origins<'a>,
    },
    /// The receiver has lost some of the events in [`Frame::Acknowledged`], or their numbers.
    Forgotten {
        /// The flow's number in this session.
        flow: u32,
        /// Number of lost events, at least 1.
        events: u32,
    },
    /// Changes of the channel names reachable through the sender, since its last such frame; before the first there are none.
    Directory {
        /// Further changes follow in another frame.
        more: bool,
        /// The changed names.
        names: NameEntries<'a>,
    },
    /// A request to the receiver of a flow to listen to a [group](crate::group)'s datagrams.
    GroupJoin(GroupJoin<'a>),
    /// The answer that the receiver of a flow listens.
    GroupListening {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The port for datagrams sent to the receiver's own address.
        port: u16,
    },
    /// The flow's events go with the group from now on.
    GroupStart {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The number of the first event in the group, at least 1.
        from: u64,
    },
    /// The flow's events go over the session alone, as either side decides. Unacknowledged ones are sent again.
    GroupLeave {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The reason.
        reason: &'a str,
    },
    /// An event of the group, sent over the session because it was requested or is too long for a datagram. Its `sequence` is its number in
    /// the group.
    GroupEvent(Event<'a>),
    /// An acknowledgement: all events of the group up to one are complete.
    GroupAck {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The number of the last complete event in the group.
        up_to: u64,
    },
    /// A request to send events of the group that did not arrive over the session.
    GroupRequest {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The missing numbers in the group.
        ranges: Ranges<'a>,
    },
    /// The receiver will never take an event of the group. It acknowledges the event afterwards, with those before it.
    GroupReject {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The event's number in the group, at least 1.
        number: u64,
        /// The reason in words.
        text: &'a str,
    },
}

/// The first frame: `magic [u8; 6] │ version_min u16 │ version_max u16 │ service u64 │ incarnation u64 │ frame_bytes_max u32 │
/// window_bytes_max u64 │ outstanding_max u32 │ has_store u8 │ name │ token`. Higher versions may append fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The lowest version that the peer speaks.
    pub version_min: u16,
    /// The highest version that the peer speaks, not below the lowest.
    pub version_max: u16,
    /// The identity of the service, not 0.
    pub service: u64,
    /// The incarnation of the service's process.
    pub incarnation: u64,
    /// The limits that the service accepts.
    pub limits: Limits,
    /// Whether the service keeps persistent events and its identity over restarts.
    pub has_store: bool,
    /// The service's name for people, at most [`NAME_BYTES_MAX`].
    pub name: &'a str,
    /// The federation's token, at most [`NAME_BYTES_MAX`]. Empty if there is none.
    pub token: &'a str,
}

impl Hello<'_> {
    /// The first octets of a link.
    pub const MAGIC: &'static [u8] = b"CmpLnk";

    /// The highest version that both sides speak. `None` if there is none: the session ends with a [`Frame::Goodbye`].
    #[must_use]
    pub fn version(&self) -> Option<u16> {
        let (min, max) = VERSIONS;
        let version = self.version_max.min(max);
        (version >= self.version_min.max(min)).then_some(version)
    }
}

/// A request to begin a flow: `flow u32 │ direction u8 │ channel │ types │ constraint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// The flow's number in this session, chosen by the sender of this frame.
    pub flow: u32,
    /// Which side sends the events.
    pub direction: Direction,
    /// The channel's name, at most [`NAME_BYTES_MAX`].
    pub channel: &'a str,
    /// The types that the opener subscribes to, all if empty. Only with [`Direction::In`].
    pub types: Types<'a>,
    /// The constraint on the events, at most [`CONSTRAINT_BYTES_MAX`]. Only with [`Direction::In`].
    pub constraint: &'a str,
}

/// The direction of a flow, as the opener sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// The opener sends events.
    Out = 1,
    /// The opener receives events.
    In = 2,
}

/// An event: `flow u32 │ sequence u64 │ service u64 │ era u64 │ number u64 │ hops u8 │ hop u64 … │ flags u16 │ form u32 │ tag u64 │ age u64 │
/// [priority i16] │ [thread_priority i16] │ [timeout u64] │ [start u64] │ [stop u64] │ domain │ name │ bytes …`. The flags say which of the
/// fields in brackets are present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The flow's number in this session.
    pub flow: u32,
    /// The event's number in the flow, contiguous from 1 in each session.
    pub sequence: u64,
    /// The process that admitted the event first.
    pub origin: Origin,
    /// The services that the event passed through since.
    pub hops: Hops,
    /// Whether the event survives restarts.
    pub is_persistent: bool,
    /// The form of `bytes`, as a number that both services know.
    pub form: u32,
    /// The protocol's note about `bytes`.
    pub tag: u64,
    /// The priority in the event's header.
    pub priority: Option<i16>,
    /// The priority of the supplier's thread.
    pub thread_priority: Option<i16>,
    /// Lifetime from the first admission, in nanoseconds.
    pub timeout_ns: Option<u64>,
    /// Earliest delivery: UTC in 100 ns since 15 October 1582.
    pub start: Option<u64>,
    /// Expiry at the latest: UTC in 100 ns since 15 October 1582.
    pub stop: Option<u64>,
    /// Time since the first admission, in nanoseconds: the services' clocks may differ.
    pub age_ns: u64,
    /// The domain of the event's type, at most [`EVENT_NAME_BYTES_MAX`].
    pub domain: &'a [u8],
    /// The name of the event's type, at most [`EVENT_NAME_BYTES_MAX`].
    pub name: &'a [u8],
    /// The event as encoded by its protocol.
    pub bytes: &'a [u8],
}

impl Event<'_> {
    /// Octets of the fields of every event, with the length field, the kind, and the lengths of the names.
    const FIXED_BYTES: usize = LENGTH_BYTES + 1 + 4 + 4 * 8 + 1 + 2 + 4 + 8 + 8 + 2 * 4;

    /// Octets of the event's frame, with the length field. Windows count these.
    #[must_use]
    pub fn octets(&self) -> usize {
        let short = [self.priority, self.thread_priority].into_iter().flatten().count();
        let long = [self.timeout_ns, self.start, self.stop].into_iter().flatten().count();
        let names = self.domain.len() + self.name.len();
        Self::FIXED_BYTES + 8 * self.hops.as_slice().len() + 2 * short + 8 * long + names + self.bytes.len()
    }

    /// Whether the event is within a peer's limits. Otherwise it must not be sent.
    #[must_use]
    pub fn fits(&self, peer: Limits) -> bool {
        let name = self.domain.len().max(self.name.len());
        name <= EVENT_NAME_BYTES_MAX && self.octets() - LENGTH_BYTES <= peer.frame_bytes_max as usize
    }
}

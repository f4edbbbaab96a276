//! Frames.
//!
//! ```text
//! length u32 │ kind u8 │ fields …            little-endian; the length counts what follows it
//! ```
//!
//! A text, a name and a list begin with the number of their octets or entries (u32). An event's bytes come last and have no length:
//! they are the rest of the frame.

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

/// The octets of a frame's length field.
pub const LENGTH_BYTES: usize = 4;
/// Maximum octets of the frame that comes first.
pub const HELLO_BYTES_MAX: u32 = 1 << 10;
/// Maximum octets of a service's name, a token, and a channel's name.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum octets of each of the two names of an event's type.
pub const EVENT_NAME_BYTES_MAX: usize = 64 << 10;
/// Maximum octets of a constraint.
pub const CONSTRAINT_BYTES_MAX: usize = 64 << 10;
/// Maximum octets of a reason. One that is longer is cut when it is written.
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

/// One frame. It is read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The first frame of each side, and only the first.
    Hello(Hello<'a>),
    /// A flow is to begin.
    Open(Open<'a>),
    /// The flow began.
    Opened {
        /// The flow's number in this session.
        flow: u32,
    },
    /// The flow does not begin, or it ends.
    Refused {
        /// The flow's number in this session.
        flow: u32,
        /// Why.
        reason: &'a str,
    },
    /// An event of a flow.
    Event(Event<'a>),
    /// All events of a flow up to one are done with.
    Ack {
        /// The flow's number in this session.
        flow: u32,
        /// The number of the last such event.
        up_to: u64,
    },
    /// An event will never be taken. The receiver acknowledges it afterwards, with those before it.
    Reject {
        /// The flow's number in this session.
        flow: u32,
        /// The event's number in the flow, at least 1.
        sequence: u64,
        /// Why, as a number of the service's.
        reason: u8,
        /// Why, in words.
        text: &'a str,
    },
    /// What the receiver of a flow subscribes now. It replaces what it said before.
    Interest {
        /// The flow's number in this session.
        flow: u32,
        /// The distance of the nearest subscription of all types, if there is one.
        everything: Option<u8>,
        /// The types that are subscribed.
        types: Types<'a>,
    },
    /// The peer answers with [`Frame::Pong`].
    Ping {
        /// A number for the answer.
        number: u64,
    },
    /// The answer to [`Frame::Ping`].
    Pong {
        /// The number in the Ping.
        number: u64,
    },
    /// The session ends.
    Goodbye {
        /// Why.
        reason: &'a str,
    },
    /// The last persistent events that former processes of the receiver of a flow have acknowledged. Once, behind [`Frame::Opened`], where
    /// the receiver [has a store](Hello::has_store).
    Acknowledged {
        /// The flow's number in this session.
        flow: u32,
        /// The events.
        origins: Origins<'a>,
    },
    /// Of the events in [`Frame::Acknowledged`] the receiver does not have some, or of their numbers.
    Forgotten {
        /// The flow's number in this session.
        flow: u32,
        /// How many it does not have, at least 1.
        events: u32,
    },
    /// Changes of the names of channels that the sender leads to, since its last frame of this kind: at first there are none.
    Directory {
        /// Further changes follow in another frame.
        more: bool,
        /// The names.
        names: NameEntries<'a>,
    },
    /// The receiver of a flow is to listen to a [group](crate::group)'s datagrams.
    GroupJoin(GroupJoin<'a>),
    /// The receiver of a flow listens.
    GroupListening {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The port at which it takes datagrams that are sent to its own address.
        port: u16,
    },
    /// Events of a flow go with the group from now on.
    GroupStart {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The number of the first event in the group, at least 1.
        from: u64,
    },
    /// Either side: the flow's events go over the session alone. Those that the receiver has not acknowledged are sent again.
    GroupLeave {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// Why.
        reason: &'a str,
    },
    /// An event of a flow that goes with the group and comes over the session: it was asked for, or is too long for a datagram. Its
    /// `sequence` is its number in the group.
    GroupEvent(Event<'a>),
    /// All events of the group up to one are done with.
    GroupAck {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The number of the last such event in the group.
        up_to: u64,
    },
    /// Events of the group that did not come. They are to be sent over the session.
    GroupRequest {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// Their numbers in the group.
        ranges: Ranges<'a>,
    },
    /// An event of the group will never be taken. It is acknowledged afterwards, with those before it.
    GroupReject {
        /// The flow's number in this session.
        flow: u32,
        /// The number in the [`GroupJoin`].
        join: u32,
        /// The event's number in the group, at least 1.
        number: u64,
        /// Why, in words.
        text: &'a str,
    },
}

/// The first frame: `magic [u8; 6] │ version_min u16 │ version_max u16 │ service u64 │ incarnation u64 │ frame_bytes_max u32 │
/// window_bytes_max u64 │ outstanding_max u32 │ has_store u8 │ name │ token`. Higher versions have more behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The lowest version that the peer speaks.
    pub version_min: u16,
    /// The highest version that the peer speaks, not below the lowest.
    pub version_max: u16,
    /// The identity of the service, not 0.
    pub service: u64,
    /// The incarnation of its process.
    pub incarnation: u64,
    /// What it accepts.
    pub limits: Limits,
    /// Whether it keeps persistent events and its identity over its processes.
    pub has_store: bool,
    /// The service's name for people, at most [`NAME_BYTES_MAX`].
    pub name: &'a str,
    /// The federation's token, at most [`NAME_BYTES_MAX`]. Empty if there is none.
    pub token: &'a str,
}

impl Hello<'_> {
    /// What a link begins with.
    pub const MAGIC: &'static [u8] = b"CmpLnk";

    /// The highest version that both sides speak. `None` if there is none: the session is to end with a [`Frame::Goodbye`].
    #[must_use]
    pub fn version(&self) -> Option<u16> {
        let (min, max) = VERSIONS;
        let version = self.version_max.min(max);
        (version >= self.version_min.max(min)).then_some(version)
    }
}

/// A flow that is to begin: `flow u32 │ direction u8 │ channel │ types │ constraint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// The flow's number in this session, chosen by the sender of this frame.
    pub flow: u32,
    /// Which side sends the events.
    pub direction: Direction,
    /// The channel's name, at most [`NAME_BYTES_MAX`].
    pub channel: &'a str,
    /// The types that the opener subscribes, all if there are none. Only with [`Direction::In`].
    pub types: Types<'a>,
    /// The constraint that the events fulfil, at most [`CONSTRAINT_BYTES_MAX`]. Only with [`Direction::In`].
    pub constraint: &'a str,
}

/// The direction of a flow, as the opener sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// The opener sends events.
    Out = 1,
    /// The opener gets events.
    In = 2,
}

/// An event: `flow u32 │ sequence u64 │ service u64 │ era u64 │ number u64 │ hops u8 │ hop u64 … │ flags u16 │ form u32 │ tag u64 │ age u64 │
/// [priority i16] │ [thread_priority i16] │ [timeout u64] │ [start u64] │ [stop u64] │ domain │ name │ bytes …`. The flags say which of
/// the fields in brackets there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The flow's number in this session.
    pub flow: u32,
    /// The event's number in the flow, contiguous from 1 in each session.
    pub sequence: u64,
    /// Where it was admitted first.
    pub origin: Origin,
    /// The services that it came through since.
    pub hops: Hops,
    /// Whether it outlives processes.
    pub is_persistent: bool,
    /// The form of `bytes`, as a number that both services know.
    pub form: u32,
    /// The protocol's note about `bytes`.
    pub tag: u64,
    /// The priority that its header says.
    pub priority: Option<i16>,
    /// The priority that its supplier's thread had.
    pub thread_priority: Option<i16>,
    /// How long after it was first admitted it expires, in nanoseconds.
    pub timeout_ns: Option<u64>,
    /// When it may be delivered at the earliest: UTC in 100 ns since 15 October 1582.
    pub start: Option<u64>,
    /// When it expires at the latest: UTC in 100 ns since 15 October 1582.
    pub stop: Option<u64>,
    /// How long ago it was first admitted, in nanoseconds: the services' clocks may differ.
    pub age_ns: u64,
    /// The domain of its type, at most [`EVENT_NAME_BYTES_MAX`].
    pub domain: &'a [u8],
    /// The name of its type, at most [`EVENT_NAME_BYTES_MAX`].
    pub name: &'a [u8],
    /// The event as its protocol has it.
    pub bytes: &'a [u8],
}

impl Event<'_> {
    /// Octets of the fields that each event has, with the length field, the kind, and the lengths of the names.
    const FIXED_BYTES: usize = LENGTH_BYTES + 1 + 4 + 4 * 8 + 1 + 2 + 4 + 8 + 8 + 2 * 4;

    /// The octets of its frame, with the length field. Windows count these.
    #[must_use]
    pub fn octets(&self) -> usize {
        let short = [self.priority, self.thread_priority].into_iter().flatten().count();
        let long = [self.timeout_ns, self.start, self.stop].into_iter().flatten().count();
        let names = self.domain.len() + self.name.len();
        Self::FIXED_BYTES + 8 * self.hops.as_slice().len() + 2 * short + 8 * long + names + self.bytes.len()
    }

    /// Whether a peer with these limits reads it. Otherwise it is not to be sent.
    #[must_use]
    pub fn fits(&self, peer: Limits) -> bool {
        let name = self.domain.len().max(self.name.len());
        name <= EVENT_NAME_BYTES_MAX && self.octets() - LENGTH_BYTES <= peer.frame_bytes_max as usize
    }
}

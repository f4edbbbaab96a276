//! Reports of an end point to its application: known peers, received messages, discarded messages with the reason.

use core::net::SocketAddr;

use super::TopicId;
use crate::Nanos;
use crate::presence::{Announced, Summary};
use crate::wire::{Content, Role};

/// Source or destination of octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A UDP address.
    Datagram(SocketAddr),
    /// A connection, by the driver's number.
    Stream(u32),
}

/// Destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum To {
    /// One peer.
    Place(Place),
    /// A multicast group or a broadcast address.
    Group(SocketAddr),
}

/// Octets to send: the first ones of the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Destination.
    pub to: To,
    /// Number of octets: one datagram, or a part of a stream.
    pub octets: usize,
}

/// A message of a topic.
#[derive(Debug, Clone, Copy)]
pub struct Message<'b> {
    /// The topic's id at this end point.
    pub topic: TopicId,
    /// Session of the publisher, or of the broker.
    pub publisher: u32,
    /// The number that the publisher gave it.
    pub sequence: u32,
    /// The first sender's clock when the message was published, in nanoseconds. Not comparable with any other clock.
    pub sent: u64,
    /// Priority that the message was published with.
    pub priority: i16,
    /// Format of the octets.
    pub content: Content,
    /// The message's octets.
    pub octets: &'b [u8],
}

/// Receives messages and notices.
pub trait Receive {
    /// Handles a received message.
    fn message(&mut self, message: Message<'_>);

    /// Handles any other change.
    fn noticed(&mut self, _notice: Notice) {}
}

/// A receiver that ignores everything.
impl Receive for () {
    fn message(&mut self, _message: Message<'_>) {}
}

/// A change on a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A counterpart has been found.
    Found {
        /// The topic.
        topic: TopicId,
        /// The counterpart.
        peer: Peer,
    },
    /// A counterpart's announcement has changed.
    Changed {
        /// The topic.
        topic: TopicId,
        /// The counterpart.
        peer: Peer,
    },
    /// A counterpart has moved to another place.
    Moved {
        /// The topic.
        topic: TopicId,
        /// The counterpart, with its new place.
        peer: Peer,
    },
    /// A counterpart has been forgotten.
    Gone {
        /// The topic.
        topic: TopicId,
        /// The counterpart.
        peer: Peer,
        /// The reason.
        why: Gone,
    },
    /// Messages of a publisher were skipped.
    Lost {
        /// The topic.
        topic: TopicId,
        /// The publisher's session.
        publisher: u32,
        /// Number of messages skipped.
        messages: u32,
    },
    /// An announcement period of this topic has ended: time to read its report.
    Period {
        /// The topic.
        topic: TopicId,
    },
}

/// Why a peer is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gone {
    /// It missed its announcements for three of its periods.
    Expired,
    /// It said goodbye.
    Bye,
    /// Its connection was closed.
    Closed,
    /// Another session has proven to be at its place: the peer was restarted.
    Replaced,
    /// It gave its number for the topic to another topic.
    Rebound,
    /// Its connection had no room for three of our periods and blocked its topic for other subscribers.
    Stalled,
}

/// A counterpart on a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its session.
    pub session: u32,
    /// Its place.
    pub place: Place,
    /// Its role on the topic.
    pub role: Role,
    /// Whether it is a broker.
    pub is_broker: bool,
    /// Its announcement.
    pub announced: Announced,
    /// The delay to a subscriber, if it echoes.
    pub delay: Option<Delay>,
    /// Messages received: from a publisher, or by a subscriber as reported.
    pub received: u64,
    /// Messages lost: of a publisher, or by a subscriber as reported.
    pub lost: u64,
}

/// Round-trip time of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// The last one, in nanoseconds.
    pub last_ns: u64,
    /// The highest, in nanoseconds.
    pub highest_ns: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// Number of probes echoed.
    pub echoes: u64,
}

/// Sums from which [`Delay`] is computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Delays {
    last_ns: u64,
    highest_ns: u64,
    total_ns: u64,
    echoes: u64,
}

impl Delays {
    pub(super) fn add(&mut self, delay: Nanos) {
        self.last_ns = delay;
        self.highest_ns = self.highest_ns.max(delay);
        self.total_ns = self.total_ns.saturating_add(delay);
        self.echoes += 1;
    }

    pub(super) fn described(&self) -> Option<Delay> {
        let &Self { last_ns, highest_ns, total_ns, echoes } = self;
        let mean_ns = total_ns.checked_div(echoes)?;
        Some(Delay { last_ns, highest_ns, mean_ns, echoes })
    }
}

/// A publisher's view of its topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublisherReport {
    /// Number of known subscribers; [`announced`](Self::announced) sums up their announcements.
    pub subscribers: u32,
    /// The lowest and highest rate that subscribers wish for, the shortest deadline, the number of end points.
    pub announced: Summary,
    /// Round-trip time of probes, over all subscribers.
    pub delay: Option<Delay>,
    /// Longest round trip of the last echoed probe, in nanoseconds: to the slowest subscriber. 0 without one.
    pub slowest_ns: u64,
    /// Messages received, the sum over the subscribers as they report.
    pub received: u64,
    /// Messages lost, the sum over the subscribers as they report.
    pub lost: u64,
    /// Messages sent; one that went to several subscribers counts once.
    pub sent: u64,
    /// Probes sent.
    pub probes: u64,
    /// Messages queued.
    pub waiting: u32,
    /// Messages refused because the queue was full.
    pub refused: u64,
    /// Messages discarded because there was no subscriber.
    pub unheard: u64,
}

/// A subscriber's view of its topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubscriberReport {
    /// Number of known publishers; [`announced`](Self::announced) sums up their announcements.
    pub publishers: u32,
    /// The sum of the publishers' rates, the highest rate, the shortest deadline, the number of end points.
    pub announced: Summary,
    /// Messages received, including those of publishers that are gone, excluding probes.
    pub received: u64,
    /// Messages and probes lost, including those of publishers that are gone.
    pub lost: u64,
    /// Messages and probes that arrived too late, including those of publishers that are gone.
    pub late: u64,
    /// Messages and probes that arrived more than once, including those of publishers that are gone.
    pub repeated: u64,
}

/// Declares [`Counters`], which begin at 0.
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Discarded and refused items, counted by reason. Counters never decrease.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Counters {
            pub(super) const fn new() -> Self {
                Self { $($name: 0,)+ }
            }
        }
    };
}

counters! {
    /// Datagrams and connections with octets that are not a frame.
    unreadable,
    /// Frames of another version of the protocol.
    other_versions,
    /// Frames of an unknown kind, or with a payload that does not fit their kind.
    unknown_frames,
    /// Frames of our own session that came back.
    own_frames,
    /// Announcements of topics, or roles, that have no counterpart here.
    other_topics,
    /// Announcements answered because their sender has not proven its address.
    unproven,
    /// Answers and echoes dropped because too many were queued, or their connection had no room.
    replies_dropped,
    /// Peers refused because the table of peers was full.
    peers_refused,
    /// Sessions that claim a new address while still active at the previous one.
    moves_refused,
    /// Peers that stopped announcing themselves.
    peers_expired,
    /// Sessions that were replaced by another one at their place.
    peers_replaced,
    /// Topics for which a session gave the number to another topic.
    peers_rebound,
    /// Subscribers released, or refused, because their connection had no room for too long.
    peers_stalled,
    /// Data and probes under a number that is not bound.
    unbound,
    /// Frames of a known session and topic from another place than its own.
    elsewhere,
    /// Messages and fragments larger than the accepted size.
    too_large,
    /// Fragments that do not fit to the others of their message.
    fragments_unfit,
    /// Fragments of messages that later ones overtook, or that had arrived before.
    fragments_late,
    /// Fragments refused because too many messages are unfinished.
    fragments_refused,
    /// Messages that were released unfinished.
    unfinished,
    /// Echoes of probes that are not ours, are too old, or were echoed before.
    echoes_unknown,
    /// Reports and byes of peers unknown at that place.
    strangers,
    /// Messages not sent to a subscriber because they exceed its largest message.
    too_large_for_peer,
    /// Probes left out because there was no room for them.
    probes_left_out,
    /// Queued messages of topics that were removed.
    abandoned,
    /// Frames for which the caller's send buffer is too short.
    buffer_too_short,
}

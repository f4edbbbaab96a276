//! Reports of an end point to its application: which peers are there, what has come, what was discarded, and why.

use core::net::SocketAddr;

use super::TopicId;
use crate::Nanos;
use crate::presence::{Announced, Summary};
use crate::wire::{Content, Role};

/// Where octets come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A UDP address.
    Datagram(SocketAddr),
    /// A connection; the number is the driver's.
    Stream(u32),
}

/// Where to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum To {
    /// One peer.
    Place(Place),
    /// A multicast group or a broadcast address.
    Group(SocketAddr),
}

/// What is to be sent: the first octets of the buffer that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: To,
    /// How many octets: one datagram, or a piece of a stream.
    pub octets: usize,
}

/// A message of a topic.
#[derive(Debug, Clone, Copy)]
pub struct Message<'b> {
    /// The topic here.
    pub topic: TopicId,
    /// Session of the publisher, or of the broker.
    pub publisher: u32,
    /// The number that the publisher gave it.
    pub sequence: u32,
    /// The clock of the first sender when it was published, in nanoseconds. No other clock is comparable with it.
    pub sent: u64,
    /// What it was published with.
    pub priority: i16,
    /// What the octets are.
    pub content: Content,
    /// The message.
    pub octets: &'b [u8],
}

/// Takes what comes.
pub trait Receive {
    /// A message has come.
    fn message(&mut self, message: Message<'_>);

    /// Something else has happened.
    fn noticed(&mut self, _notice: Notice) {}
}

/// A receiver that wants nothing.
impl Receive for () {
    fn message(&mut self, _message: Message<'_>) {}
}

/// What happened to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A counterpart has announced itself.
    Found {
        /// The topic.
        topic: TopicId,
        /// The counterpart.
        peer: Peer,
    },
    /// A counterpart announces something else than before.
    Changed {
        /// The topic.
        topic: TopicId,
        /// The counterpart.
        peer: Peer,
    },
    /// A counterpart is at another place now.
    Moved {
        /// The topic.
        topic: TopicId,
        /// The counterpart, and where it is now.
        peer: Peer,
    },
    /// A counterpart is forgotten.
    Gone {
        /// The topic.
        topic: TopicId,
        /// The counterpart.
        peer: Peer,
        /// Why.
        why: Gone,
    },
    /// Messages of a publisher were skipped.
    Lost {
        /// The topic.
        topic: TopicId,
        /// The publisher's session.
        publisher: u32,
        /// How many.
        messages: u32,
    },
    /// An announcement period of this topic is over: time to look at its report.
    Period {
        /// The topic.
        topic: TopicId,
    },
}

/// Why a peer is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gone {
    /// It did not announce itself for three of its periods.
    Expired,
    /// It said so.
    Bye,
    /// Its connection was closed.
    Closed,
    /// Another session has proven that it is at its place: it began anew.
    Replaced,
    /// It gave its number for the topic to another topic.
    Rebound,
    /// Its connection had no room for three of our periods, and held its topic up for others.
    Stalled,
}

/// A counterpart on a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its session.
    pub session: u32,
    /// Where it is.
    pub place: Place,
    /// What it is on the topic.
    pub role: Role,
    /// Whether it is a broker.
    pub is_broker: bool,
    /// What it announces.
    pub announced: Announced,
    /// The delay to a subscriber, if it echoes.
    pub delay: Option<Delay>,
    /// Messages received: from a publisher; or by a subscriber, as it reports.
    pub received: u64,
    /// Messages lost: of a publisher; or by a subscriber, as it reports.
    pub lost: u64,
}

/// How long probes took, there and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// The last one, in nanoseconds.
    pub last_ns: u64,
    /// The highest, in nanoseconds.
    pub highest_ns: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// How many have been echoed.
    pub echoes: u64,
}

/// The sum of what [`Delay`] tells.
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

/// What a publisher knows of its topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublisherReport {
    /// Subscribers that are known here; what they announce is in [`announced`](Self::announced).
    pub subscribers: u32,
    /// The lowest and highest rate they wish for, the shortest deadline, how many end points they are.
    pub announced: Summary,
    /// How long probes took, over all subscribers.
    pub delay: Option<Delay>,
    /// The longest that the last probe took which was echoed, in nanoseconds: to the slowest subscriber. 0 if there is none.
    pub slowest_ns: u64,
    /// Messages received, the sum over the subscribers as they report.
    pub received: u64,
    /// Messages lost, the sum over the subscribers as they report.
    pub lost: u64,
    /// Messages sent: those that went to all, counted once.
    pub sent: u64,
    /// Probes sent.
    pub probes: u64,
    /// Messages that wait to be sent.
    pub waiting: u32,
    /// Messages refused for want of room.
    pub refused: u64,
    /// Messages discarded for want of subscribers.
    pub unheard: u64,
}

/// What a subscriber knows of its topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubscriberReport {
    /// Publishers that are known here; what they announce is in [`announced`](Self::announced).
    pub publishers: u32,
    /// The sum of their rates, the highest, the shortest deadline, how many end points they are.
    pub announced: Summary,
    /// Messages received, of publishers that are gone as well; probes are none.
    pub received: u64,
    /// Messages and probes lost, likewise.
    pub lost: u64,
    /// Messages and probes that came too late, likewise.
    pub late: u64,
    /// Messages and probes that came more than once, likewise.
    pub repeated: u64,
}

/// Declares [`Counters`], all of which begin with 0.
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Everything that is discarded or refused, by reason. Each counts up and never back.
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
    /// Datagrams and connections with octets that are no frame.
    unreadable,
    /// Frames of another version of the protocol.
    other_versions,
    /// Frames of a kind that is not known, or with a payload that its kind does not have.
    unknown_frames,
    /// Frames of our own session that came back.
    own_frames,
    /// Announcements of topics, or roles, that have no counterpart here.
    other_topics,
    /// Announcements answered because their sender has not proven its address.
    unproven,
    /// Answers and echoes dropped because too many waited, or their connection had no room.
    replies_dropped,
    /// Peers refused because as many as there is room for are known.
    peers_refused,
    /// Sessions that claim to be at a new address while they are heard at the one before.
    moves_refused,
    /// Peers that were not announced any more.
    peers_expired,
    /// Sessions that were replaced by another one at their place.
    peers_replaced,
    /// Topics for which a session gave the number to another topic.
    peers_rebound,
    /// Subscribers release, or refused, because their connection had no room for too long.
    peers_stalled,
    /// Data and probes under a number that is not bound.
    unbound,
    /// Frames of a known session and topic from another place than its own.
    elsewhere,
    /// Messages and fragments larger than what is taken here.
    too_large,
    /// Fragments that do not fit to the others of their message.
    fragments_unfit,
    /// Fragments of messages that others have overtaken, or that came before.
    fragments_late,
    /// Fragments refused because too many messages are unfinished.
    fragments_refused,
    /// Messages that were released unfinished.
    unfinished,
    /// Echoes of probes that are not ours, are too old, or came before.
    echoes_unknown,
    /// Reports and byes of peers not known at that place.
    strangers,
    /// Messages not sent to a subscriber because it does not take so large ones.
    too_large_for_peer,
    /// Probes left out because there was no room for them.
    probes_left_out,
    /// Messages that waited on topics that were removed.
    abandoned,
    /// Frames for which the buffer that was given for sending is too short.
    buffer_too_short,
}

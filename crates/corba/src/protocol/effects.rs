//! What follows from requests: what is to be done outside, and what clients answer to what they are asked.

use super::{AdvertisedName, DelayedReply, Subscribed};
use accounts::Account;
use engine::{FilterId, Peer, ProxyKey, Side};
use giop::ior::Ior;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What follows from a request beside its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An operation to be called on a client. It returns nothing, and how it ends is of interest to the log only.
    Call {
        /// The client's object.
        to: Ior,
        /// Account of the client that gave the reference, if known.
        by: Option<Arc<Account>>,
        /// The operation.
        operation: &'static str,
        /// Its arguments, in this machine's byte order from position 0 of a body of GIOP 1.2. Empty for those that take none.
        body: Vec<u8>,
        /// What waits for its end ([`DelayedReplies::notified`](super::DelayedReplies::notified)).
        delayed_reply: Option<DelayedReply>,
    },
    /// The same, with the outcome handed back to the protocol ([`Protocol::handle_answer`](super::Protocol::handle_answer)).
    Ask {
        /// To be handed back with the answer.
        client_call: ClientCall,
        /// The client's object.
        to: Ior,
        /// Account of the client that gave the reference, if known.
        by: Option<Arc<Account>>,
        /// The operation.
        operation: &'static str,
        /// Its arguments, as those of [`Effect::Call`].
        body: Vec<u8>,
    },
    /// A client was found dead and its proxy is gone.
    Reaped {
        /// The proxy.
        proxy: ProxyKey,
        /// What the client is called in logs.
        name: String,
        /// How long it could not be reached; nothing if it said, or its server did, that it is no more.
        unreachable_for: Option<Duration>,
    },
    /// A client has been out of reach for a minute, and stays connected. Reported once in each episode.
    Unreachable {
        /// Its proxy.
        proxy: ProxyKey,
        /// What it is called in logs.
        name: String,
        /// How long it has been out of reach.
        unreachable_for: Duration,
        /// Further time out of reach after which the client is disconnected; `None`: it never is.
        left: Option<Duration>,
    },
    /// Such a client has answered again.
    Reached {
        /// Its proxy.
        proxy: ProxyKey,
        /// What it is called in logs.
        name: String,
        /// How long it was out of reach.
        after: Duration,
    },
    /// A client was not heard of for so long that it was disconnected.
    IdleDisconnected {
        /// The proxy.
        proxy: ProxyKey,
        /// Whether it supplied or consumed.
        side: Side,
        /// The address from which it connected.
        address: Option<IpAddr>,
        /// How long it was not heard of.
        idle: Duration,
    },
    /// A client has disconnected another one, as an operator.
    Dismissed {
        /// What the other one was called in logs.
        name: String,
        /// Address of the client that caused it.
        by: IpAddr,
    },
    /// `Persistent`, to which only a store gives effect, was taken without one
    /// ([`Compatibility::persistent_without_store`](super::Compatibility)).
    WithoutStore {
        /// What it was set on, as logs call it.
        of: String,
        /// The client that set it, if one did.
        by: Option<IpAddr>,
        /// Whether it is the first one: that there is no store is one episode, from the start to the end.
        is_first: bool,
    },
    /// A client that may has asked for the end of the service.
    End {
        /// Address of the client.
        by: IpAddr,
    },
    /// The proxy of a client of another protocol ([`Protocol::register_local_proxy`](super::Protocol::register_local_proxy)) is gone, and that client has not said so.
    LocalProxyGone(Peer),
    /// The sum of the subscriptions of a channel that the client with this handle watches.
    Subscribed(Peer, Subscribed),
    /// All names of channels that the far side of the link with this handle is told.
    Names(Peer, Vec<AdvertisedName>),
    /// A client came or went: a log line for troubleshooting. Made only where such lines are logged.
    DebugLine(String),
    /// No client goes by this handle any more: what was kept for it, such as its connection, can go.
    ReleasePeer(Peer),
}

/// A call of a client's object that ends the connection on its side, as the client itself has ended it on this one. It goes behind the
/// reply, once, and its outcome is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// The client's object.
    pub to: Ior,
    /// The client that gave its reference, if that is known.
    pub by: Option<Arc<Account>>,
    /// The operation, which has no arguments.
    pub operation: &'static str,
}

/// What a client was asked. Opaque; only the protocol knows what to make of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCall(pub(crate) CallPurpose);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPurpose {
    /// To take note of a change of offers or subscriptions.
    Change(Peer),
    /// Whether it does not exist.
    Probe(Peer),
    /// To take note that the service is there again.
    Reconnect(u32),
    /// Whether a reconnection callback does not exist.
    Registered(u32),
    /// To take note of other event types of a filter that it is a callback of.
    FilterChange { filter: FilterId, callback: u32 },
}

/// How a client answered, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAnswer {
    /// The operation returned; with a boolean, if the reply begins with one.
    Returned(Option<bool>),
    /// `NO_IMPLEMENT` or `BAD_OPERATION`: it has no such operation.
    NotImplemented,
    /// `OBJECT_NOT_EXIST`: there is no such object any more.
    Gone,
    /// Any other exception.
    Raised,
    /// It could not be connected to, or the connection was lost.
    Unreachable,
    /// It was called and did not answer in time.
    TimedOut,
}

//! Effects of requests: actions outside, and clients' answers to calls.

use super::{AdvertisedName, DelayedReply, Offered, Subscribed};
use accounts::Account;
use engine::{FilterId, Peer, ProxyKey, Side};
use giop::ior::Ior;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// An effect of a request beside its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Calls an operation on a client. It has no result, and its outcome is only logged.
    Call {
        /// The client's object.
        to: Ior,
        /// Account of the client that gave the reference, if known.
        by: Option<Arc<Account>>,
        /// Connections that the client has offered for calls to the object, if it may be called so.
        offered: Option<Arc<Offered>>,
        /// The operation.
        operation: &'static str,
        /// The arguments, in this machine's byte order from position 0 of a body of GIOP 1.2. Empty without any.
        body: Vec<u8>,
        /// The reply that waits for its end ([`DelayedReplies::notified`](super::DelayedReplies::notified)).
        delayed_reply: Option<DelayedReply>,
    },
    /// Calls an operation on a client, and passes the outcome to the protocol
    /// ([`Protocol::handle_answer`](super::Protocol::handle_answer)).
    Ask {
        /// Passed back with the answer.
        client_call: ClientCall,
        /// The client's object.
        to: Ior,
        /// Account of the client that gave the reference, if known.
        by: Option<Arc<Account>>,
        /// Offered connections, as in [`Effect::Call`].
        offered: Option<Arc<Offered>>,
        /// The operation.
        operation: &'static str,
        /// The arguments, as in [`Effect::Call`].
        body: Vec<u8>,
    },
    /// A client was found dead and its proxy is gone.
    Reaped {
        /// The proxy.
        proxy: ProxyKey,
        /// The client's name in logs.
        name: String,
        /// Time for which it was unreachable; `None` if it, or its server, said that it does not exist.
        unreachable_for: Option<Duration>,
    },
    /// A client has been unreachable for a minute, and stays connected. Reported once per episode.
    Unreachable {
        /// The client's proxy.
        proxy: ProxyKey,
        /// The client's name in logs.
        name: String,
        /// Time for which it has been unreachable.
        unreachable_for: Duration,
        /// Time until the client is disconnected; `None` for never.
        left: Option<Duration>,
    },
    /// An announced client has answered again.
    Reached {
        /// The client's proxy.
        proxy: ProxyKey,
        /// The client's name in logs.
        name: String,
        /// Time for which it was unreachable.
        after: Duration,
    },
    /// A client was disconnected because of its silence.
    IdleDisconnected {
        /// The proxy.
        proxy: ProxyKey,
        /// The client's side.
        side: Side,
        /// Its address when it connected.
        address: Option<IpAddr>,
        /// Duration of its silence.
        idle: Duration,
    },
    /// A client has disconnected another one, as an operator.
    Dismissed {
        /// The disconnected client's name in logs.
        name: String,
        /// Address of the client that did so.
        by: IpAddr,
    },
    /// `Persistent`, which needs a store, was accepted without one ([`Compatibility::persistent_without_store`](super::Compatibility)).
    WithoutStore {
        /// The name in logs of the object that was configured.
        of: String,
        /// The client that set it, if one did.
        by: Option<IpAddr>,
        /// Whether it is the first one: the lack of a store is one episode, from start to end.
        is_first: bool,
    },
    /// A client that has to be called has connected, gave only private addresses of another network than the one it connects from, and has
    /// not offered its connection.
    Hidden {
        /// The client's name in logs.
        name: String,
        /// Address from which it connects.
        from: IpAddr,
        /// Whether it is the first one from there, or since one from there has offered its connection.
        is_first: bool,
    },
    /// A client with that right has requested the end of the service.
    End {
        /// Address of the client.
        by: IpAddr,
    },
    /// The proxy of another protocol's client ([`Protocol::register_local_proxy`](super::Protocol::register_local_proxy)) is gone, without
    /// the client's request.
    LocalProxyGone(Peer),
    /// The sum of a channel's subscriptions, for the watching client with this handle.
    Subscribed(Peer, Subscribed),
    /// All names of channels to advertise to the far side of the link with this handle.
    Names(Peer, Vec<AdvertisedName>),
    /// A debug line about a client that appeared or went. Made only if such lines are logged.
    DebugLine(String),
    /// The handle is unused now: data stored for it, such as its connection, can be dropped.
    ReleasePeer(Peer),
}

/// A call that ends the connection on a client's object, after the client has ended it here. It is made after the reply, once, and its
/// outcome is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// The client's object.
    pub to: Ior,
    /// The client that gave its reference, if known.
    pub by: Option<Arc<Account>>,
    /// Connections that the client has offered for calls to it, if it may be called so.
    pub offered: Option<Arc<Offered>>,
    /// The operation, which has no arguments.
    pub operation: &'static str,
}

/// The purpose of a client call. Opaque; only the protocol interprets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCall(pub(crate) CallPurpose);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPurpose {
    /// To notify of a change of offers or subscriptions.
    Change(Peer),
    /// To ask whether it exists.
    Probe(Peer),
    /// To notify that the service is available again.
    Reconnect(u32),
    /// Whether a reconnection callback does not exist.
    Registered(u32),
    /// To notify a filter's callback of changed event types.
    FilterChange { filter: FilterId, callback: u32 },
}

/// A client's answer, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAnswer {
    /// The operation returned; with the boolean at the beginning of the reply, if any.
    Returned(Option<bool>),
    /// `NO_IMPLEMENT` or `BAD_OPERATION`: the operation is not supported.
    NotImplemented,
    /// `OBJECT_NOT_EXIST`: the object does not exist any more.
    Gone,
    /// Any other exception.
    Raised,
    /// Connecting failed, or the connection was lost.
    Unreachable,
    /// The call was not answered in time.
    TimedOut,
}

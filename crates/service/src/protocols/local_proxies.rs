//! Messages between administration and the protocols with clients that are no CORBA objects: proxies are requested, made, released, and
//! ended by others. The [`Peer`] of a proxy identifies its client, in each protocol's own terms.

use corba::{
    AdvertisedName, FarNames, ListedLocally, LocalChannel, LocalChannels, LocalProxy, NOT_PERMITTED, Part,
    RegisterError, Subscribed,
};
use engine::{ChannelId, EventType, Peer, ProxyId, ProxyKey};

use super::{Answered, Fault, Objects, Tag, ToProtocol, WireProtocol, by_tag};
use crate::admin::values::Declined;
use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::intake::Refused;
use crate::lane::links::messages::{LaneThread, ToAdministration, ToLane};
use crate::lane::run::Worker;
use crate::store::journal::StoreRefusal;
use accounts::{Account, Charge, Resource};
use core::time::Duration;
use std::sync::Arc;

/// Request of a client to administration.
#[derive(Debug)]
pub(crate) struct Request {
    /// The client, in its protocol's terms. Requests of one client are served in order.
    pub(crate) client: u64,
    pub(crate) action: Action,
    /// Charge on the client until the request is answered.
    pub(crate) charge: Charge,
}

/// Requested action.
#[derive(Debug)]
pub(crate) enum Action {
    /// Make a proxy.
    Proxy(Box<LocalProxy>),
    /// Remove a proxy.
    Dismissal(ProxyKey),
    /// Disconnect the client with this handle: its proxy is removed, or stays without a client if it is a durable consumer.
    Disconnection(ProxyKey, Peer),
    /// Limit a local proxy to events of these types, or to all or none. If the types are too many it gets all events. The client with this
    /// handle is told when that is in force, by [`Notice::Limited`].
    Subscribe { peer: Peer, key: ProxyKey, everything: bool, types: Vec<EventType> },
    /// Report the sum of a channel's subscriptions, without these consumers', to the client with this handle: now and after each change, by
    /// [`Notice::Subscribed`]. This replaces the client's earlier watch.
    WatchSubscribed { peer: Peer, channel: ChannelId, except: Vec<ProxyKey> },
    /// End a watch.
    UnwatchSubscribed(Peer),
    /// Report the channel names to which this service leads to the linked service with that identity: now and after each change, by
    /// [`Notice::Names`].
    WatchNames { peer: Peer, service: u64 },
    /// All channel names that a linked service has announced.
    FarNames { peer: Peer, names: Box<FarNames> },
    /// End the watch of a link that is gone, and forget the other service's names after that time.
    EndNames { peer: Peer, forgotten_after: Duration },
    /// List channels that the client may know of, behind one of them or from the start. The answer has the handle.
    Channels { peer: Peer, behind: Option<ChannelId> },
}

/// Message from administration to a protocol.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The requested proxy, or why there is none; with the client's charge.
    Registered { peer: Peer, proxy: Result<ProxyKey, String>, charge: Charge },
    /// The requested channels, or why there are none.
    Channels { peer: Peer, channels: Result<LocalChannels, String> },
    /// A proxy that was not needed any more is removed.
    Dismissed,
    /// The proxy of the client with this handle gets what it was limited to.
    Limited { peer: Peer, key: ProxyKey },
    /// A proxy was ended elsewhere.
    Gone(Peer),
    /// The sum of the subscriptions of a channel that the client with this handle watches.
    Subscribed { peer: Peer, subscribed: Subscribed },
    /// All channel names for a linked service.
    Names { peer: Peer, names: Vec<AdvertisedName> },
}

impl Request {
    /// The message with the answer, and the lane that gets it.
    pub(crate) fn answered(self, bytes: &[u8]) -> (LaneThread, ToLane) {
        let Self { action, charge, client: _ } = self;
        let notice = match action {
            Action::Proxy(local_proxy) => Notice::Registered { peer: local_proxy.peer, proxy: decode(bytes), charge },
            Action::Dismissal(_)
            | Action::Disconnection(..)
            | Action::WatchSubscribed { .. }
            | Action::UnwatchSubscribed(_)
            | Action::WatchNames { .. }
            | Action::FarNames { .. }
            | Action::EndNames { .. } => Notice::Dismissed,
            Action::Subscribe { peer, key, .. } => Notice::Limited { peer, key },
            Action::Channels { peer, .. } => Notice::Channels { peer, channels: decode_channels(bytes) },
        };
        (LaneThread::MAIN, ToLane::Protocol(ToProtocol::LocalProxy(notice)))
    }

    /// Executes the action on the objects.
    pub(crate) fn execute(&self, objects: &mut Objects) -> Answered {
        match &self.action {
            Action::Proxy(local_proxy) => {
                let proxy = objects.register_local_proxy(LocalProxy::clone(local_proxy), self.charge.account());
                Answered { bytes: encode(&proxy), fault: proxy.is_err().then_some(Fault::Other) }
            }
            Action::Dismissal(key) => {
                objects.remove_local_proxy(*key);
                Answered::default()
            }
            Action::Disconnection(key, peer) => {
                objects.disconnect_local_proxy(*key, *peer);
                Answered::default()
            }
            Action::Subscribe { key, everything, types, .. } => {
                objects.subscribe_local_proxy(*key, (*everything, types), self.charge.account());
                Answered::default()
            }
            Action::WatchSubscribed { peer, channel, except } => {
                objects.watch_subscribed(*peer, *channel, except.clone());
                Answered::default()
            }
            Action::UnwatchSubscribed(peer) => {
                objects.unwatch_subscribed(*peer);
                Answered::default()
            }
            Action::WatchNames { peer, service } => {
                objects.protocol().watch_names(*peer, *service, self.charge.account());
                Answered::default()
            }
            Action::FarNames { peer, names } => {
                objects.protocol().set_far_names(*peer, FarNames::clone(names), self.charge.account());
                Answered::default()
            }
            Action::EndNames { peer, forgotten_after } => {
                objects.protocol().end_names(*peer, *forgotten_after);
                Answered::default()
            }
            Action::Channels { behind, .. } => {
                let channels = objects.local_channels(*behind, self.charge.account());
                Answered { bytes: encode_channels(&channels), fault: None }
            }
        }
    }

    /// Whether the action may make something that outlives the process.
    pub(crate) fn may_create(&self) -> bool {
        let Action::Proxy(local_proxy) = &self.action else { return false };
        let is_durable = matches!(local_proxy.part, Part::Consumer { durable: Some(_), .. });
        is_durable || matches!(local_proxy.channel, LocalChannel::Name { create: true, .. })
    }

    /// Answers why the request was declined.
    pub(crate) fn decline(why: Declined) -> Answered {
        Answered { bytes: refusal(&why), fault: Some(Fault::Other) }
    }
}

impl Notice {
    /// Changes the notice to a refusal, with the reason in an answer.
    pub(crate) fn set_refusal(&mut self, bytes: &[u8]) {
        match self {
            Self::Registered { proxy, .. } => *proxy = decode(bytes),
            Self::Channels { channels, .. } => *channels = decode_channels(bytes),
            Self::Dismissed | Self::Limited { .. } | Self::Gone(_) | Self::Subscribed { .. } | Self::Names { .. } => {}
        }
    }
}

/// The answer as administration passes it on, in octets like every protocol's: a proxy's key, or why there is none.
fn encode(proxy: &Result<ProxyKey, RegisterError>) -> Vec<u8> {
    match proxy {
        Ok(ProxyKey { channel, proxy }) => [&b"+"[..], &channel.0.to_le_bytes(), &proxy.0.to_le_bytes()].concat(),
        Err(refused) => refusal(refused),
    }
}

/// The answer that there is none, and why.
fn refusal(why: &dyn core::fmt::Display) -> Vec<u8> {
    format!("-{why}").into_bytes()
}

fn decode(bytes: &[u8]) -> Result<ProxyKey, String> {
    match bytes.split_first() {
        Some((b'+', key))
            if let Some((channel, proxy)) = key.split_first_chunk::<4>()
                && let Some(proxy) = proxy.first_chunk::<4>() =>
        {
            let (channel, proxy) = (u32::from_le_bytes(*channel), u32::from_le_bytes(*proxy));
            Ok(ProxyKey { channel: ChannelId(channel), proxy: ProxyId(proxy) })
        }
        _ => Err(reason_of(bytes)),
    }
}

/// The answer with channels: the number behind which the next page begins, then each channel's numbers and name.
fn encode_channels(LocalChannels { channels, next }: &LocalChannels) -> Vec<u8> {
    let mut bytes = b"+".to_vec();
    bytes.extend_from_slice(&next.map_or([0xff; 8], |next| u64::from(next.0).to_le_bytes()));
    for ListedLocally { id, name, consumers, suppliers } in channels {
        let name = name.as_deref().unwrap_or_default();
        for number in [id.0, *consumers, *suppliers, u32::try_from(name.len()).unwrap_or_default()] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(name.as_bytes());
    }
    bytes
}

fn decode_channels(bytes: &[u8]) -> Result<LocalChannels, String> {
    let Some((next, mut rest)) = bytes.strip_prefix(b"+").and_then(|bytes| bytes.split_first_chunk::<8>()) else {
        return Err(reason_of(bytes));
    };
    let next = u32::try_from(u64::from_le_bytes(*next)).ok().map(ChannelId);
    let mut channels = Vec::new();
    while let Some((numbers, behind)) = rest.split_first_chunk::<16>() {
        let mut numbers =
            numbers.chunks_exact(4).map(|number| u32::from_le_bytes(number.try_into().unwrap_or_default()));
        let [id, consumers, suppliers, length] = core::array::from_fn(|_| numbers.next().unwrap_or_default());
        let (name, behind) = behind.split_at_checked(length as usize).unwrap_or_default();
        let name = (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned());
        channels.push(ListedLocally { id: ChannelId(id), name, consumers, suppliers });
        rest = behind;
    }
    Ok(LocalChannels { channels, next })
}

/// The reason in an answer.
fn reason_of(bytes: &[u8]) -> String {
    match bytes.split_first() {
        Some((_, reason)) => String::from_utf8_lossy(reason).into_owned(),
        None => "the service could not do it".to_owned(),
    }
}

impl From<Request> for ToAdministration {
    fn from(request: Request) -> Self {
        Self::Request(super::Request::LocalProxy(Box::new(request)))
    }
}

/// Reason why a proxy cannot be requested now.
pub(crate) const NO_ROOM: &str = "the service has no room for this request now; it may come again";

impl Context {
    /// Requests a proxy from administration, on behalf of a client, which is charged for the given number of octets.
    ///
    /// # Errors
    /// There is no room for another request, which is counted.
    pub(crate) fn request_local_proxy(
        &mut self,
        client: u64,
        local_proxy: LocalProxy,
        charged: (&Arc<Account>, u64),
    ) -> Result<(), &'static str> {
        self.request_of_administration(client, Action::Proxy(Box::new(local_proxy)), charged)
    }

    /// Requests an action of administration, as [`request_local_proxy`](Self::request_local_proxy) does.
    ///
    /// # Errors
    /// There is no room for another request, which is counted.
    pub(crate) fn request_of_administration(
        &mut self,
        client: u64,
        action: Action,
        (account, octets): (&Arc<Account>, u64),
    ) -> Result<(), &'static str> {
        let charge = account.charge(Resource::RequestBytes, octets).map_err(|spent| {
            self.counters.add(Counter::of_refusal(spent), 1);
            NO_ROOM
        })?;
        self.counters.add(Counter::Requests, 1);
        let request = Request { client, action, charge };
        self.reporting.administration.send(request.into()).map_err(|_| {
            self.counters.add(Counter::AdministrationFull, 1);
            NO_ROOM
        })
    }

    /// Has administration remove a client's proxy that is not needed any more.
    pub(crate) fn remove_local_proxy(&mut self, client: u64, key: ProxyKey, account: &Arc<Account>) {
        self.tell_administration(client, Action::Dismissal(key), account);
    }

    /// Has administration execute an action that cannot be refused, and has no answer.
    pub(crate) fn tell_administration(&mut self, client: u64, action: Action, account: &Arc<Account>) {
        let charge = account.charge_anyway(Resource::RequestBytes, 0);
        self.reporting.reports.send(Request { client, action, charge }.into());
    }
}

impl Worker {
    /// Handles a message of administration.
    pub(crate) fn handle_proxy_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Registered { peer, proxy, charge } => {
                by_tag!(Tag::of_peer(peer), P => P::PROXY_REGISTERED(&mut self.core, peer, proxy, charge.account()));
            }
            Notice::Channels { peer, channels } => {
                by_tag!(Tag::of_peer(peer), P => P::CHANNELS_LISTED(&mut self.core, peer, channels));
            }
            Notice::Dismissed => {}
            Notice::Limited { peer, key } => by_tag!(Tag::of_peer(peer), P => P::LIMITED(&mut self.core, key)),
            Notice::Subscribed { peer, subscribed } => {
                by_tag!(Tag::of_peer(peer), P => P::SUBSCRIBED(&mut self.core, peer, subscribed))
            }
            Notice::Names { peer, names } => by_tag!(Tag::of_peer(peer), P => P::NAMES(&mut self.core, peer, names)),
            Notice::Gone(peer) => by_tag!(Tag::of_peer(peer), P => P::PROXY_GONE(&mut self.core, peer)),
        }
    }
}

/// Why an event was not taken, for people.
pub(crate) fn refused_because(refused: &Refused) -> String {
    match refused {
        Refused::ByEngine(refusal) => refusal.to_string(),
        Refused::NotPermitted => NOT_PERMITTED.to_owned(),
        Refused::Unreadable => "the event cannot be read".to_owned(),
        Refused::NotStored(StoreRefusal::Full) => "as many events are stored on disk as may be".to_owned(),
        Refused::NotStored(StoreRefusal::Failed) => "the event cannot be stored: the disk fails".to_owned(),
        Refused::TooManyAwaitingFilter => "too many events wait for filters that clients implement".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_same_behind_administration() {
        let key = ProxyKey { channel: ChannelId(7), proxy: ProxyId(0x0102_0304) };
        assert_eq!(decode(&encode(&Ok(key))), Ok(key));
        let refused = RegisterError::TooManyConstraints;
        assert_eq!(decode(&encode(&Err(refused.clone()))), Err(refused.to_string()));
        for bytes in [&b""[..], b"+", b"+123"] {
            assert!(decode(bytes).is_err());
            assert!(decode_channels(bytes).is_err());
        }
        let listed = |id, name: &str| ListedLocally {
            id: ChannelId(id),
            name: (!name.is_empty()).then(|| name.to_owned()),
            consumers: 7,
            suppliers: 8,
        };
        for next in [None, Some(ChannelId(u32::MAX))] {
            let channels = LocalChannels { channels: vec![listed(0, ""), listed(3, "Wétter\n")], next };
            assert_eq!(decode_channels(&encode_channels(&channels)), Ok(channels));
        }
    }
}

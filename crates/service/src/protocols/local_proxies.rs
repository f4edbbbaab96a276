//! Messages between administration and the protocols with clients that are no CORBA objects: proxies are asked for, made, released, and
//! ended by others. The [`Peer`] of a proxy names its client: each protocol gives its own.

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

/// What a client needs of administration.
#[derive(Debug)]
pub(crate) struct Request {
    /// The client that asks, in its protocol's terms. Requests of one client are served in their order.
    pub(crate) client: u64,
    pub(crate) action: Action,
    /// What its client is charged until it is answered.
    pub(crate) charge: Charge,
}

/// What is needed.
#[derive(Debug)]
pub(crate) enum Action {
    /// A proxy.
    Proxy(Box<LocalProxy>),
    /// A proxy less.
    Dismissal(ProxyKey),
    /// The connection of the client with this handle has ended: its proxy goes, or stays without a client if it is a durable consumer.
    Disconnection(ProxyKey, Peer),
    /// A local proxy gets events of these types alone from now on: of all, or of none. Where they are too many it gets all.
    Subscribe { key: ProxyKey, everything: bool, types: Vec<EventType> },
    /// The sum of a channel's subscriptions without these consumers' is reported to the client with this handle, now and whenever it has
    /// changed, by [`Notice::Subscribed`]. The watch takes the place of the client's former one.
    WatchSubscribed { peer: Peer, channel: ChannelId, except: Vec<ProxyKey> },
    /// A watch ends.
    UnwatchSubscribed(Peer),
    /// The linked service of that identity is told which names of channels this one leads to, now and whenever they have changed, by
    /// [`Notice::Names`].
    WatchNames { peer: Peer, service: u64 },
    /// All names of channels that a linked service has told.
    FarNames { peer: Peer, names: Box<FarNames> },
    /// The link is gone: its watch ends, and what the other service told is forgotten after that time.
    EndNames { peer: Peer, forgotten_after: Duration },
    /// A look at the channels that the client may know of, behind one of them if that is said. The answer names the handle.
    Channels { peer: Peer, behind: Option<ChannelId> },
}

/// From administration to a protocol.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The proxy that was asked for, or why there is none; and what its client was charged meanwhile.
    Registered { peer: Peer, proxy: Result<ProxyKey, String>, charge: Charge },
    /// The channels that were asked for, or why there are none.
    Channels { peer: Peer, channels: Result<LocalChannels, String> },
    /// A proxy is gone that was not needed any more.
    Dismissed,
    /// A proxy was ended by another than its client.
    Gone(Peer),
    /// The sum of the subscriptions of a channel that the client with this handle watches.
    Subscribed { peer: Peer, subscribed: Subscribed },
    /// All names of channels that a linked service is told.
    Names { peer: Peer, names: Vec<AdvertisedName> },
}

impl Request {
    /// The lane that gets the answer, and the message for it.
    pub(crate) fn answered(self, bytes: &[u8]) -> (LaneThread, ToLane) {
        let Self { action, charge, client: _ } = self;
        let notice = match action {
            Action::Proxy(local_proxy) => Notice::Registered { peer: local_proxy.peer, proxy: decode(bytes), charge },
            Action::Dismissal(_)
            | Action::Disconnection(..)
            | Action::Subscribe { .. }
            | Action::WatchSubscribed { .. }
            | Action::UnwatchSubscribed(_)
            | Action::WatchNames { .. }
            | Action::FarNames { .. }
            | Action::EndNames { .. } => Notice::Dismissed,
            Action::Channels { peer, .. } => Notice::Channels { peer, channels: decode_channels(bytes) },
        };
        (LaneThread::MAIN, ToLane::Protocol(ToProtocol::LocalProxy(notice)))
    }

    /// Makes a proxy, or lets one go.
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
            Action::Subscribe { key, everything, types } => {
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

    /// Whether it may make what outlives the process.
    pub(crate) fn may_create(&self) -> bool {
        let Action::Proxy(local_proxy) = &self.action else { return false };
        let is_durable = matches!(local_proxy.part, Part::Consumer { durable: Some(_), .. });
        is_durable || matches!(local_proxy.channel, LocalChannel::Name { create: true, .. })
    }

    /// Says why it is not done.
    pub(crate) fn decline(why: Declined) -> Answered {
        Answered { bytes: refusal(&why), fault: Some(Fault::Other) }
    }
}

impl Notice {
    /// Has it say that nothing was done, for the reason in an answer.
    pub(crate) fn set_refusal(&mut self, bytes: &[u8]) {
        match self {
            Self::Registered { proxy, .. } => *proxy = decode(bytes),
            Self::Channels { channels, .. } => *channels = decode_channels(bytes),
            Self::Dismissed | Self::Gone(_) | Self::Subscribed { .. } | Self::Names { .. } => {}
        }
    }
}

/// The answer as administration passes it on: octets, as every protocol's. A proxy's key, or why there is none.
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

/// The same of channels: each one's numbers and its name, behind the number of the channel that the next page is behind.
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

/// Why something was not done.
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

/// Why a proxy cannot be asked for now.
pub(crate) const NO_ROOM: &str = "the service has no room for this request now; it may come again";

impl Context {
    /// Asks administration for a proxy, on behalf of a client. The request counts as so many octets.
    ///
    /// # Errors
    /// When there is no room for another request: it is counted.
    pub(crate) fn request_local_proxy(
        &mut self,
        client: u64,
        local_proxy: LocalProxy,
        charged: (&Arc<Account>, u64),
    ) -> Result<(), &'static str> {
        self.request_of_administration(client, Action::Proxy(Box::new(local_proxy)), charged)
    }

    /// Asks administration for something, as [`request_local_proxy`](Self::request_local_proxy).
    ///
    /// # Errors
    /// The same.
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

    /// A client's proxy is not needed any more.
    pub(crate) fn remove_local_proxy(&mut self, client: u64, key: ProxyKey, account: &Arc<Account>) {
        self.tell_administration(client, Action::Dismissal(key), account);
    }

    /// Has administration do what cannot be refused, and is not answered.
    pub(crate) fn tell_administration(&mut self, client: u64, action: Action, account: &Arc<Account>) {
        let charge = account.charge_anyway(Resource::RequestBytes, 0);
        self.reporting.reports.send(Request { client, action, charge }.into());
    }
}

impl Worker {
    /// Serves what administration has posted.
    pub(crate) fn handle_proxy_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Registered { peer, proxy, charge } => {
                by_tag!(Tag::of_peer(peer), P => P::PROXY_REGISTERED(&mut self.core, peer, proxy, charge.account()));
            }
            Notice::Channels { peer, channels } => {
                by_tag!(Tag::of_peer(peer), P => P::CHANNELS_LISTED(&mut self.core, peer, channels));
            }
            Notice::Dismissed => {}
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

//! Offers and subscriptions: consumers are notified of their channel's offers, suppliers of its subscriptions (OMG Notification Service
//! 1.1, `offer_change` and `subscription_change`).
//!
//! A client is notified of the *sum* of the other side's connected clients. A consumer without a subscription counts as subscribed to
//! everything; a supplier without an offer announces nothing, though its events pass all the same. A supplier assumes that everything is
//! subscribed to until it is notified or asks, so that everything is no news to it: in JacORB's and TAO's services, too, a consumer without
//! a subscription is not announced.
//!
//! The sum is computed once for each batch of requests, for the channels in which it may have changed (also by filters, since their
//! constraints name event types). Each client on the other side gets the difference to its last notification, beginning with the state at
//! its connection. A client has at most one such call unanswered, so that a slow one delays no other; changes meanwhile are merged into one
//! call. A client without the operation is not called again.
//!
//! With `tao_event_types` notifications are as in TAO's service: only named types, never everything; all of them to a client that connects;
//! and for a client that has named types itself, other added types and its own removed types.

use super::clients::Client;
use super::{CallPurpose, ClientAnswer, ClientCall, Effect, Objects};
use crate::exceptions::Raised;
use crate::notify_comm::{NOTIFY_PUBLISH, NOTIFY_SUBSCRIBE};
use crate::proxy_kind::ProxyKind;
use crate::table::client_has;
use engine::{ChannelId, EventType, Peer, ProxyKey, Side};
use giop::cdr::{CharSet, Encoding, Endian, Writer};
use giop::codeset::negotiate;
use giop::ior::Ior;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum unanswered calls about changes; further ones wait.
const CALLS_MAX: usize = 256;

/// Maximum event types in a notification. Beyond it, the client is notified of everything.
const TYPES_MAX: usize = 4096;

/// Maximum octets of these types, for the same purpose. A client with a call unanswered has a list of its own, and the previous one.
const TYPES_OCTETS_MAX: usize = 256 << 10;

/// An `ObtainInfoMode`, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InfoMode {
    /// Whether the client asks for the current types.
    pub(crate) all_now: bool,
    /// Whether the client asks to be notified of later changes.
    pub(crate) updates: bool,
}

/// Sums of offers and subscriptions of each side of a channel.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    known: BTreeMap<(ChannelId, Side), Known>,
    /// Knowledge of clients that asked before they connected.
    requested_types: BTreeMap<ProxyKey, Knowledge>,
    calls: usize,
    waiting: VecDeque<Peer>,
    /// The last encoded change; most clients get the same.
    written: Option<Written>,
}

/// A side's sum of offers or subscriptions, with the version of the engine's lists it was computed from.
#[derive(Debug)]
struct Known {
    version: u64,
    types: Arc<[EventType]>,
}

/// A change and its encoding.
#[derive(Debug)]
struct Written {
    before: Arc<[EventType]>,
    now: Arc<[EventType]>,
    chars: CharSet,
    body: Vec<u8>,
}

/// A client's knowledge of the other side.
#[derive(Clone, Debug, Default)]
struct Knowledge {
    /// Types against which the next difference is computed.
    types: Arc<[EventType]>,
    /// Whether the client has received at least one list, by notification or request.
    was_informed: bool,
}

/// Progress of notifying a client of changes.
#[derive(Clone, Debug)]
pub(super) struct NotifyProgress {
    /// Whether it supports the operation, as far as known.
    hears: bool,
    last: Knowledge,
    /// Its knowledge before the unanswered call.
    before: Option<Knowledge>,
    waits: bool,
}

impl NotifyProgress {
    pub(super) fn has_pending_call(&self) -> bool {
        self.before.is_some()
    }
}

impl Changes {
    pub(super) fn forget_channel(&mut self, channel: ChannelId) {
        for side in SIDES {
            self.known.remove(&(channel, side));
        }
    }

    pub(super) fn forget_proxy(&mut self, proxy: ProxyKey, client: Option<&Client>) {
        self.requested_types.remove(&proxy);
        if client.is_some_and(|client| client.notifying.has_pending_call()) {
            self.calls = self.calls.saturating_sub(1);
        }
    }
}

impl Changes {
    fn difference(&mut self, before: &Arc<[EventType]>, now: &Arc<[EventType]>, chars: CharSet) -> Vec<u8> {
        let is_it = |written: &&Written| {
            Arc::ptr_eq(&written.before, before) && Arc::ptr_eq(&written.now, now) && written.chars == chars
        };
        if let Some(written) = self.written.as_ref().filter(is_it) {
            return written.body.clone();
        }
        let body = difference(before, now, chars);
        let (before, now) = (Arc::clone(before), Arc::clone(now));
        self.written = Some(Written { before, now, chars, body: body.clone() });
        body
    }

    /// Initial knowledge of a connecting client: the current state counts as known, unless it asked before.
    pub(super) fn initial_progress(
        &mut self,
        objects: &Objects,
        key: ProxyKey,
        kind: ProxyKind,
        side: Side,
        client: &Ior,
    ) -> NotifyProgress {
        let interface = match side {
            Side::Consumers => &NOTIFY_PUBLISH,
            Side::Suppliers => &NOTIFY_SUBSCRIBE,
        };
        let hears = !kind.is_plain() && client_has(&client.type_id, interface) != Some(false);
        let requested_types = self.requested_types.remove(&key);
        let last = match requested_types {
            // TAO notifies each client that connects of what there is, asked or not.
            _ if tells_as_tao(objects) => Knowledge::default(),
            Some(requested_types) => requested_types,
            None => {
                let types = self.types_for(key.channel, side, &Knowledge::default());
                Knowledge { types, was_informed: false }
            }
        };
        NotifyProgress { hears, last, before: None, waits: false }
    }

    /// Notifies a newly connected client that may have asked before, of changes since.
    pub(super) fn notify_of_changes_since_request(&mut self, objects: &mut Objects, peer: Peer) {
        let Some(client) = objects.clients.by_peer.get(&peer) else { return };
        if *client.notifying.last.types != *self.types_for(client.proxy.channel, client.side, &client.notifying.last) {
            self.queue_notification(objects, peer);
        }
    }

    /// Answers `obtain_offered_types` and `obtain_subscription_types`: returns the other side's current types, if requested, and sets
    /// whether the client is notified of changes.
    pub(crate) fn obtain_types(
        &mut self,
        objects: &mut Objects,
        key: ProxyKey,
        mode: InfoMode,
    ) -> Result<Vec<EventType>, Raised> {
        let (side, peer) = objects.hierarchy.proxy(key).map(|proxy| (proxy.side, proxy.peer))?;
        self.find_out(objects, key.channel);
        let types = self.types_known(key.channel, other(side));
        let is_new =
            if mode.updates { objects.proxies.silenced.remove(&key) } else { objects.proxies.silenced.insert(key) };
        if is_new {
            objects.hierarchy.note_changed_part(engine::HierarchyPart::Proxy(key));
        }
        let connected =
            peer.and_then(|peer| objects.clients.by_peer.get(&peer)).map(|client| client.notifying.last.was_informed);
        let before = connected.or_else(|| self.requested_types.get(&key).map(|knowledge| knowledge.was_informed));
        let was_informed = mode.all_now || before.unwrap_or(false);
        let nothing = Knowledge { was_informed, ..Knowledge::default() };
        // Without updates nothing is remembered: the list that the client knows might be stored for it alone.
        let remembered = if mode.updates { self.types_for(key.channel, side, &nothing) } else { Arc::from([]) };
        let knowledge = Knowledge { types: remembered, was_informed };
        match peer.and_then(|peer| objects.clients.by_peer.get_mut(&peer)) {
            Some(client) => {
                client.notifying.last = knowledge.clone();
                client.notifying.before = client.notifying.before.take().map(|_| knowledge);
            }
            None => _ = self.requested_types.insert(key, knowledge),
        }
        Ok(if mode.all_now { types.to_vec() } else { Vec::new() })
    }

    /// Notifies clients of the changes since the last call.
    pub(super) fn tell_changes(&mut self, objects: &mut Objects) {
        let channels: Vec<ChannelId> = objects.hierarchy.changed().map(engine::Channel::id).collect();
        for channel in channels {
            self.find_out(objects, channel);
        }
        self.tell_waiting(objects);
    }

    /// Whether a client waits for a notification and a call may be made now.
    pub(crate) fn has_more_to_tell(&self) -> bool {
        self.calls < CALLS_MAX && !self.waiting.is_empty()
    }

    /// Notifies waiting clients while calls may be made. Visits at most [`CALLS_MAX`]: some of them may have no news.
    pub(super) fn tell_waiting(&mut self, objects: &mut Objects) {
        for _ in 0..CALLS_MAX {
            if !self.has_more_to_tell() {
                break;
            }
            let Some(peer) = self.waiting.pop_front() else { break };
            if let Some(client) = objects.clients.by_peer.get_mut(&peer) {
                client.notifying.waits = false;
                self.tell(objects, peer);
            }
        }
    }

    /// Queues a client for notification, until there is room for a call.
    pub(super) fn queue_notification(&mut self, objects: &mut Objects, peer: Peer) {
        let Some(client) = objects.clients.by_peer.get_mut(&peer) else { return };
        if client.notifying.hears && !client.notifying.waits && !client.notifying.has_pending_call() {
            client.notifying.waits = true;
            self.waiting.push_back(peer);
        }
    }

    /// Computes both sums of a channel, and queues the clients with news.
    fn find_out(&mut self, objects: &mut Objects, channel: ChannelId) {
        for side in SIDES {
            let Ok(version) = objects.hierarchy.types_version(channel, side) else { continue };
            let known = self.known.get(&(channel, side));
            if known.map_or(0, |known| known.version) == version {
                continue;
            }
            let types: Arc<[EventType]> = types_of(objects, channel, side).into();
            let is_news = *types != *self.types_known(channel, side);
            self.known.insert((channel, side), Known { version, types });
            let Ok(channel) = objects.hierarchy.channel(channel) else { continue };
            let others = channel.proxies().filter(|proxy| is_news && proxy.side != side);
            let peers: Vec<Peer> = others.filter_map(|proxy| proxy.peer).collect();
            for peer in peers {
                self.queue_notification(objects, peer);
            }
        }
    }

    fn tell(&mut self, objects: &mut Objects, peer: Peer) {
        let Some(client) = objects.clients.by_peer.get(&peer) else { return };
        let types = self.types_for(client.proxy.channel, client.side, &client.notifying.last);
        if !client.notifying.hears
            || objects.proxies.silenced.contains(&client.proxy)
            || *types == *client.notifying.last.types
        {
            return;
        }
        let operation = match client.side {
            Side::Consumers => "offer_change",
            Side::Suppliers => "subscription_change",
        };
        let (to, by) = (client.address.ior.clone(), client.address.by.clone());
        let offered = Some(Arc::clone(&client.address.offered));
        let (before, chars) = (&client.notifying.last.types, code_set(&to));
        let own = own_types(objects, client.proxy);
        let body = match own {
            None => Some(self.difference(before, &types, chars)),
            Some(own) => difference_for(&own, before, &types, chars),
        };
        let Some(client) = objects.clients.by_peer.get_mut(&peer) else { return };
        let was_informed = client.notifying.last.was_informed || body.is_some();
        let before = core::mem::replace(&mut client.notifying.last, Knowledge { types, was_informed });
        let Some(body) = body else { return };
        client.notifying.before = Some(before);
        objects.effects.push_back(Effect::Ask {
            client_call: ClientCall(CallPurpose::Change(peer)),
            to,
            by,
            offered,
            operation,
            body,
        });
        self.calls += 1;
    }

    /// The computed sum of a side.
    fn types_known(&self, channel: ChannelId, side: Side) -> Arc<[EventType]> {
        self.known.get(&(channel, side)).map_or_else(|| Arc::from([]), |known| Arc::clone(&known.types))
    }

    /// The next state for a client of a side. A subscription to everything is no news to a supplier that was not yet notified of any type.
    fn types_for(&self, channel: ChannelId, side: Side, known: &Knowledge) -> Arc<[EventType]> {
        let types = self.types_known(channel, other(side));
        let assumes = side == Side::Suppliers && !known.was_informed && known.types.is_empty();
        let is_assumed = assumes && types.iter().any(EventType::is_everything);
        if is_assumed { Arc::from([]) } else { types }
    }

    /// Handles a client's answer to a notification, or the lack of one. False if the client is gone.
    pub(super) fn change_answered(&mut self, objects: &mut Objects, peer: Peer, answer: ClientAnswer) -> bool {
        let Some(client) = objects.clients.by_peer.get_mut(&peer) else { return true };
        let Some(before) = client.notifying.before.take() else { return true };
        self.calls = self.calls.saturating_sub(1);
        match answer {
            ClientAnswer::NotImplemented => {
                log::debug!(target: "campanile::corba", "{} takes no changes of offers or subscriptions", client.address.name);
                client.notifying.hears = false;
                client.notifying.last.types = Arc::from([]);
            }
            ClientAnswer::Gone => return false,
            // The client may have missed it: the next change includes it.
            ClientAnswer::Unreachable | ClientAnswer::TimedOut => client.notifying.last = before,
            ClientAnswer::Returned(_) | ClientAnswer::Raised => self.queue_notification(objects, peer),
        }
        self.tell_waiting(objects);
        true
    }
}

/// Whether clients are notified of offers and subscriptions as in TAO.
fn tells_as_tao(objects: &Objects) -> bool {
    objects.settings.hierarchy.tao_event_types
}

/// The types that a client has named itself, sorted, if these limit its notifications; `None` if not.
fn own_types(objects: &Objects, proxy: ProxyKey) -> Option<Vec<EventType>> {
    if tells_as_tao(objects) { objects.hierarchy.types_named_by(proxy).ok().flatten() } else { None }
}

/// The sum of offers or subscriptions of a side's connected clients, sorted.
fn types_of(objects: &Objects, channel: ChannelId, side: Side) -> Vec<EventType> {
    let types = match side {
        _ if tells_as_tao(objects) => objects.hierarchy.named_types(channel, side),
        Side::Consumers => objects.hierarchy.subscribed_types(channel),
        Side::Suppliers => objects.hierarchy.offered_types(channel),
    };
    let types = types.unwrap_or_default();
    if is_much(&types) { vec![EventType::everything()] } else { types }
}

/// Whether event types are too many for a notification.
pub(super) fn is_much(types: &[EventType]) -> bool {
    let octets = || types.iter().map(|kind| kind.domain.len() + kind.name.len()).sum::<usize>();
    types.len() > TYPES_MAX || octets() > TYPES_OCTETS_MAX
}

const SIDES: [Side; 2] = [Side::Consumers, Side::Suppliers];

const fn other(side: Side) -> Side {
    match side {
        Side::Consumers => Side::Suppliers,
        Side::Suppliers => Side::Consumers,
    }
}

/// The code set in which a client is called.
pub(crate) fn code_set(client: &Ior) -> CharSet {
    let code_sets = client.iiop().and_then(giop::ior::IiopProfile::code_sets);
    negotiate(code_sets.as_ref()).unwrap_or(CharSet::Latin1)
}

fn is_sayable(text: &str, chars: CharSet) -> bool {
    chars == CharSet::Utf8 || text.chars().all(|c| u8::try_from(c).is_ok())
}

/// The arguments of a change: added and removed types. Both lists are sorted.
pub(crate) fn difference(before: &[EventType], now: &[EventType], chars: CharSet) -> Vec<u8> {
    change([only(now, before).collect(), only(before, now).collect()], chars)
}

/// Arguments of a change for a client that has named the types `own` itself, as in TAO: other types among the added, these among the
/// removed. All lists are sorted. `None` if nothing is left.
fn difference_for(own: &[EventType], before: &[EventType], now: &[EventType], chars: CharSet) -> Option<Vec<u8>> {
    let is_own = |kind: &EventType| own.binary_search(kind).is_ok();
    let came: Vec<&EventType> = only(now, before).filter(|kind| !is_own(kind)).collect();
    let went: Vec<&EventType> = only(before, now).filter(|kind| is_own(kind)).collect();
    (!came.is_empty() || !went.is_empty()).then(|| change([came, went], chars))
}

/// The items of the first list missing in the second, both sorted.
fn only<'a>(these: &'a [EventType], those: &'a [EventType]) -> impl Iterator<Item = &'a EventType> {
    these.iter().filter(|kind| those.binary_search(kind).is_err())
}

fn change(lists: [Vec<&EventType>; 2], chars: CharSet) -> Vec<u8> {
    let mut body = Vec::new();
    let mut out = Writer::new(&mut body, Encoding { chars, ..Encoding::new(Endian::NATIVE) });
    for mut list in lists {
        // A type name that the client's code set cannot express is left out: no other name stands for it.
        list.retain(|kind| is_sayable(&kind.domain, chars) && is_sayable(&kind.name, chars));
        out.length(list.len());
        for EventType { domain, name } in list {
            out.string(domain);
            out.string(name);
        }
    }
    body
}

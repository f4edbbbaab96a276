//! Clients: their connections to proxies, and the calls that notify them of the end.

use super::changes::NotifyProgress;
use super::liveness::Health;
use super::takeover::Line;
use super::teardown::DelayedReply;
use super::{
    Effect, LocalProxyState, Objects, Parting, PeerAddress, Protocol, SupplierStatus, Thing, octets_of_reference,
    weights,
};
use crate::event::{output_form_for, pull_output_form};
use crate::exceptions::{Raised, UserException};
use crate::log_lines::log_line;
use crate::peers::Peers;
use crate::proxy_kind::ProxyKind;
use crate::references::log_name;
use crate::table::{Target, client_has};
use accounts::Resource;
use engine::{ChannelId, FilterTarget, OutputForm, Peer, ProxyKey, ProxyState, Removed, Side, Time};
use giop::ior::{Ior, ORB_TYPE_CAMPANILE};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A client that gave a reference when it connected.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) proxy: ProxyKey,
    pub(super) side: Side,
    pub(super) address: Arc<PeerAddress>,
    /// Progress of notifying it of changes on the other side.
    pub(super) notifying: NotifyProgress,
    /// Its health, as far as known.
    pub(super) health: Health,
    /// Its connection when it connected to the proxy, if known.
    pub(super) line: Option<Arc<Line>>,
    /// Time of its connection to the proxy.
    pub(super) connected: Time,
    /// Since when deliveries or calls to it fail, if they do.
    pub(super) failing_since: Option<Time>,
    /// Whether the owner of its proxy, who may have it called over another connection, is still the one that connected it.
    pub(super) may_offer: bool,
    /// If it is a proxy of this service: the two channels that it links.
    link: Option<Link>,
}

impl Client {
    /// Whether it is a proxy of this service.
    pub(super) const fn is_link(&self) -> bool {
        self.link.is_some()
    }
}

/// Connected clients, and other objects called by the event path.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// Clients with a reference, by peer.
    pub(super) by_peer: HashMap<Peer, Client>,
    /// Clients that the service calls to transfer events.
    pub(super) called: Peers,
    pub(super) called_changed: bool,
    next: u64,
}

/// Two channels of this service, one of which supplies the other.
#[derive(Clone, Copy, Debug)]
struct Link {
    from: ChannelId,
    to: ChannelId,
}

/// Whether to notify the client of a proxy that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// No: it knows, or does not exist any more.
    No,
    Yes,
    /// Yes, and the request is answered afterwards.
    AndWait(DelayedReply),
}

impl Objects {
    /// Forgets the local proxy, if any, of a proxy that is gone. Its protocol is notified unless it knows.
    fn forget_local_proxy(&mut self, removed: &Removed, tell: Tell) {
        let is_durable = self.proxies.local.get(&removed.key).is_some_and(|local_proxy| local_proxy.durable.is_some());
        let called = is_durable.then(|| self.name(side_name(removed.side), removed.key));
        let Some(LocalProxyState { filter, durable, .. }) = self.proxies.local.remove(&removed.key) else { return };
        if let Some((name, called)) = durable.zip(called) {
            self.proxies.durables.remove(&name, removed.key, called);
        }
        if let Some(filter) = filter {
            self.destroy_filter_of_local_proxy(filter);
        }
        if let Some(peer) = removed.peer.filter(|_| tell != Tell::No) {
            self.effects.push_back(Effect::LocalProxyGone(peer));
        }
    }

    pub(crate) fn is_connected(&self, key: ProxyKey) -> Result<bool, Raised> {
        Ok(self.hierarchy.proxy(key)?.state != ProxyState::Unconnected)
    }

    pub(crate) fn suspend(&mut self, key: ProxyKey) -> Result<(), Raised> {
        Ok(self.hierarchy.suspend(key)?)
    }

    pub(crate) fn resume(&mut self, key: ProxyKey) -> Result<(), Raised> {
        Ok(self.hierarchy.resume(key)?)
    }

    pub(super) fn next_peer(&mut self) -> Peer {
        let peer = Peer(self.clients.next);
        self.clients.next += 1;
        peer
    }

    /// Adds an object of another server for the event path to call.
    pub(crate) fn add_peer(&mut self, address: PeerAddress) -> Result<Peer, Raised> {
        let claim = self.ledger.charge_octets(weights::CALLBACK + octets_of_reference(&address.ior))?;
        let peer = self.next_peer();
        self.clients.called.insert(peer, Arc::new(address));
        self.clients.called_changed = true;
        self.adjust(Thing::Remote(peer), claim);
        Ok(peer)
    }

    pub(crate) fn peer(&self, peer: Peer) -> Option<&PeerAddress> {
        self.clients.called.get(peer).map(AsRef::as_ref)
    }

    /// Forgets a peer that will not be called any more.
    pub(crate) fn drop_peer(&mut self, peer: Peer) {
        self.ledger.remove(Thing::Remote(peer));
        if self.clients.called.remove(peer) {
            self.clients.called_changed = true;
            self.effects.push_back(Effect::ReleasePeer(peer));
        }
    }

    /// Whether the client of a proxy has offered a connection of its own for calls to it.
    #[must_use]
    pub fn offers_connection(&self, key: ProxyKey) -> bool {
        let peer = self.hierarchy.proxy(key).ok().and_then(|proxy| proxy.peer);
        peer.and_then(|peer| self.clients.by_peer.get(&peer)).is_some_and(|client| !client.address.offered.is_empty())
    }

    /// Time for which the client of a proxy has been unreachable, if announced.
    #[must_use]
    pub fn unreachable_for(&self, key: ProxyKey) -> Option<Duration> {
        let client = self.clients.by_peer.get(&self.hierarchy.proxy(key).ok()?.peer?)?;
        client.health.announced_for(self.clock.time)
    }

    /// Refuses a client that has to be called but cannot be, or has a reference to another interface.
    pub(super) fn check_called(&self, key: ProxyKey, kind: ProxyKind, side: Side, client: &Ior) -> Result<(), Raised> {
        if client.iiop().is_none() {
            // Nowhere to push to or to pull from: the IDL of the Event Service asks for this exception.
            return Err(Raised::bad_param());
        }
        let interface = kind.client_interface(side);
        if client_has(&client.type_id, interface) == Some(false) {
            log_line!(
                Info,
                "a client cannot connect to {key}: it is a {}, not a {}",
                client.type_id.escape_debug(),
                interface.name
            );
            return Err(UserException::TypeError.into());
        }
        Ok(())
    }

    /// The link that a client within this service makes: it must be a proxy of another channel, so that the one channel supplies the other,
    /// and events must never return to their original channel.
    fn link(&self, key: ProxyKey, kind: ProxyKind, side: Side, client: &Ior) -> Result<Option<Link>, Raised> {
        let refused = |why: &str| {
            log_line!(Warn, "a client cannot connect to {key}: its reference {why}");
            Err(Raised::bad_param())
        };
        let mut proxies = client.iiop_profiles().filter_map(|profile| match self.target(&profile.key) {
            Some(Target::Proxy(other, side)) => Some((other, side)),
            _ => None,
        });
        let Some((other, other_side)) = proxies.next() else {
            if client.iiop_profiles().any(|profile| self.references.is_here(profile)) {
                return refused("points at this service, and at no proxy of it");
            }
            return Ok(None);
        };
        // Any of its profiles may be the one that is called, and events may come back from each.
        if proxies.any(|proxy| proxy != (other, other_side)) {
            return refused("points at several proxies of this service");
        }
        let requested = kind.client_interface(side);
        let servant = self.proxy_kind(other)?.servant(other_side);
        if !servant.iter().any(|interface| interface.id == requested.id) {
            return refused("points at a proxy of another kind");
        }
        let (from, to) = match side {
            Side::Consumers => (key.channel, other.channel),
            Side::Suppliers => (other.channel, key.channel),
        };
        if self.reaches(to, from) {
            return refused("points at a channel from which events come back");
        }
        Ok(Some(Link { from, to }))
    }

    /// Whether events of one channel reach the other within this service: through links, or as dead letters.
    pub(super) fn reaches(&self, from: ChannelId, to: ChannelId) -> bool {
        let links: Vec<Link> = self.clients.by_peer.values().filter_map(|client| client.link).collect();
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(channel) = next.pop() {
            if channel == to {
                return true;
            }
            if seen.insert(channel) {
                next.extend(links.iter().filter(|link| link.from == channel).map(|link| link.to));
                next.extend(self.hierarchy.channel(channel).ok().and_then(|channel| channel.limits().dead_letters));
            }
        }
        false
    }
}

impl Protocol {
    /// Connects a client to a proxy. The reference may be nil if this service never calls the client.
    pub(crate) fn connect(&mut self, key: ProxyKey, client: Ior) -> Result<(), Raised> {
        self.connect_as(key, client, true)
    }

    /// Reconnects a client that was connected when an earlier process ended.
    pub(crate) fn connect_again(&mut self, key: ProxyKey, client: Ior) -> Result<(), Raised> {
        self.connect_as(key, client, false)
    }

    fn connect_as(&mut self, key: ProxyKey, client: Ior, anew: bool) -> Result<(), Raised> {
        if self.lives.given_up.contains(&key) {
            return Err(Raised::object_not_exist());
        }
        if anew && self.succeed(key, &client)? {
            return Ok(());
        }
        let octets = weights::CLIENT + octets_of_reference(&client);
        let reconnects = self.objects.compatibility().allow_reconnect
            && self.objects.is_connected(key)?
            && !self.objects.proxies.local.contains_key(&key);
        let claim = self.objects.ledger.claim(Thing::Proxy(key), Resource::RetainedBytes, octets)?;
        self.connect_client(key, client, reconnects)?;
        self.objects.adjust(Thing::Proxy(key), claim);
        if self.objects.hierarchy.proxy(key)?.side == Side::Consumers && !reconnects {
            self.objects.hierarchy.note_start(key, (!anew).then_some(self.objects.clock.utc))?;
        }
        Ok(())
    }

    /// Connects a client to a proxy, or replaces the connected client.
    fn connect_client(&mut self, key: ProxyKey, client: Ior, reconnects: bool) -> Result<(), Raised> {
        let kind = self.objects.proxy_kind(key)?;
        let side = self.objects.hierarchy.proxy(key)?.side;
        let operation = kind.event_operation(side);
        if operation.is_some() {
            self.objects.check_called(key, kind, side, &client)?;
            // Without its own connection it is called at its address, which is checked there, too.
            if !self.is_offered(&client) {
                self.guard.check_outgoing(&self.objects, &client)?;
            }
        }
        let link = self.objects.link(key, kind, side, &client)?;
        if let Some(Link { from, to }) = link {
            self.guard.authorize_link(&self.objects, from, to)?;
        }
        let output_form = output_form(kind, side, &client)?;
        let peer = client.iiop().is_some().then(|| self.objects.next_peer());
        if reconnects {
            let former = self.objects.hierarchy.proxy(key)?.peer;
            self.objects.hierarchy.reconnect(key, peer, output_form)?;
            self.leave(key, former);
            self.objects.ledger.note_owner(Thing::Proxy(key));
            self.guard.permit_connected(&mut self.objects, key);
        } else {
            let earlier = self.earlier_lives(key, side, &client);
            let leaving = super::takeover::places_of(&self.objects, &earlier, key);
            self.objects
                .hierarchy
                .connect_in_place_of(leaving, key, peer, output_form)
                .map_err(Raised::from_connect)?;
            self.objects.ledger.note_owner(Thing::Proxy(key));
            self.guard.permit_connected(&mut self.objects, key);
            self.take_over(key, side, &client, &earlier);
        }
        self.have_namesake_give_way(key);
        if side == Side::Consumers && !kind.pull && client.orb_type() == Some(ORB_TYPE_CAMPANILE) {
            self.objects.hierarchy.note_in_order(key)?;
        }
        if let Some(activity) = &self.objects.hierarchy.proxy(key)?.activity {
            activity.note(self.objects.clock.time);
        }
        if side == Side::Suppliers || (kind.pull && peer.is_none()) {
            self.idle.note_caller(&mut self.objects, key, side);
        }
        if let Some(peer) = peer {
            self.note_client(peer, (key, side, kind), client, link);
        }
        self.objects.log_debug(|objects| {
            let from = objects.ledger.principal.as_ref().map_or_else(String::new, |who| format!(" from {}", who.ip()));
            format!("{} is connected{from}", objects.name(side_name(side), key))
        });
        Ok(())
    }

    /// Notes a client that has connected to a proxy.
    fn note_client(
        &mut self,
        peer: Peer,
        (key, side, kind): (ProxyKey, Side, ProxyKind),
        client: Ior,
        link: Option<Link>,
    ) {
        let operation = kind.event_operation(side);
        let name = client.iiop().map(log_name).unwrap_or_default();
        let notifying = self.changes.initial_progress(&self.objects, key, kind, side, &client);
        let by = self.objects.ledger.principal();
        let (operation_name, offered) = (operation.unwrap_or_default(), Arc::default());
        let address = Arc::new(PeerAddress { ior: client, by, name, operation: operation_name, offered });
        if operation.is_some() {
            self.objects.clients.called.insert(peer, Arc::clone(&address));
            self.objects.clients.called_changed = true;
        }
        self.lives.known.note(key, side, &address.ior);
        let (health, line, connected) = (Health::default(), self.lives.line.clone(), self.objects.clock.time);
        let (failing_since, may_offer) = (None, true);
        let client =
            Client { proxy: key, side, address, notifying, health, line, connected, failing_since, may_offer, link };
        self.objects.clients.by_peer.insert(peer, client);
        self.take_up_offer(key);
        self.note_hidden(peer);
        self.changes.notify_of_changes_since_request(&mut self.objects, peer);
        self.probes.begin_probes(&mut self.objects, peer);
    }

    /// Forgets a proxy's former client after another one has taken its place. The former is not called, since it may be the same program.
    fn leave(&mut self, key: ProxyKey, former: Option<Peer>) {
        let Some((peer, client)) = former.and_then(|peer| Some((peer, self.objects.clients.by_peer.remove(&peer)?)))
        else {
            return;
        };
        let name = &client.address.name;
        log_line!(Info, "proxy {} of channel {} has another client in the place of {name}", key.proxy.0, key.channel.0);
        self.objects.proxies.silenced.remove(&key);
        self.changes.forget_proxy(key, Some(&client));
        self.lives.known.forget(key, client.side, &client.address.ior);
        self.lives.former.remove(&key);
        self.probes.forget(peer, client.health);
        if self.objects.clients.called.remove(peer) {
            self.objects.clients.called_changed = true;
            self.objects.effects.push_back(Effect::ReleasePeer(peer));
        }
    }

    /// Destroys a proxy that its client has disconnected. The object with which it connected, which may be another program's, is called
    /// after the reply.
    pub(crate) fn disconnected_by_client(&mut self, key: ProxyKey) -> Result<(), Raised> {
        let removed = self.objects.hierarchy.destroy_proxy(key)?;
        let counterpart =
            removed.peer.and_then(|peer| self.objects.clients.by_peer.get(&peer)).map(|client| &client.address);
        if let (Some(PeerAddress { ior, by, offered, .. }), Some(kind)) =
            (counterpart.map(AsRef::as_ref), self.objects.proxies.kinds.get(&key))
            && self.objects.compatibility().tell_on_disconnect
        {
            let operation = kind.disconnect_operation(removed.side);
            let offered = Some(Arc::clone(offered));
            self.partings.push_back(Parting { to: ior.clone(), by: by.clone(), offered, operation });
        }
        self.forget(&removed, Tell::No);
        Ok(())
    }

    /// Disconnects a proxy's client on an operator's command. A client with a reference is notified. Returns the proxy's name in logs;
    /// `None` if there is no such proxy.
    pub fn dismiss(&mut self, key: ProxyKey) -> Option<String> {
        let side = self.objects.hierarchy.proxy(key).ok()?.side;
        let name = self.objects.name(side_name(side), key);
        self.disconnect(key).then_some(name)
    }

    /// Disconnects a proxy's client for another client with the right to do so. False if there is no such proxy.
    pub(crate) fn dismiss_for_client(&mut self, key: ProxyKey) -> bool {
        let dismissed = self.dismiss(key);
        let is_gone = dismissed.is_some();
        let by = self.objects.asker();
        self.objects.effects.extend(dismissed.map(|name| Effect::Dismissed { name, by }));
        is_gone
    }

    fn disconnect(&mut self, key: ProxyKey) -> bool {
        let removed = self.objects.hierarchy.destroy_proxy(key);
        if let Ok(removed) = &removed {
            self.forget(removed, Tell::Yes);
        }
        removed.is_ok()
    }

    /// Disconnects suppliers that cannot be probed and have been silent for so long, on an operator's command, up to a maximum. Returns
    /// their number.
    pub fn disconnect_idle(&mut self, idle_for: Duration) -> usize {
        let idle = self.idle.idle_suppliers(&self.objects, idle_for);
        let count = idle.len();
        idle.into_iter().for_each(|supplier| self.disconnect_silent(supplier));
        count
    }

    /// Disconnects a client that was silent for too long.
    pub(super) fn disconnect_silent(&mut self, SupplierStatus { key: proxy, address, idle, .. }: SupplierStatus) {
        let Ok(side) = self.objects.hierarchy.proxy(proxy).map(|proxy| proxy.side) else { return };
        if self.disconnect(proxy) {
            self.objects.effects.push_back(Effect::IdleDisconnected { proxy, side, address, idle });
        }
    }

    /// Disconnects a dead client: at once, or after it was unreachable for so long. It is not notified.
    pub(super) fn reap(&mut self, peer: Peer, unreachable_for: Option<Duration>) {
        let Some(client) = self.objects.clients.by_peer.get(&peer) else { return };
        let (proxy, name) = (client.proxy, client.address.name.clone());
        match self.objects.hierarchy.destroy_proxy(proxy) {
            Ok(removed) => {
                self.forget(&removed, Tell::No);
                self.objects.effects.push_back(Effect::Reaped { proxy, name, unreachable_for });
            }
            Err(refusal) => log::debug!(target: "campanile::corba", "nothing to disconnect: {refusal}"),
        }
    }

    /// Removes stored data of a proxy that is gone, and notifies its client as `tell` says.
    pub(super) fn forget(&mut self, removed: &Removed, tell: Tell) {
        let Some(kind) = self.objects.proxies.kinds.remove(&removed.key) else { return };
        self.objects.names.forget_proxy(removed.key, removed.side);
        self.objects.forget_thing(Thing::Proxy(removed.key));
        self.objects.forget_filters_of(FilterTarget::Proxy(removed.key));
        self.idle.callers_mut(removed.side).forget(removed.key);
        self.lives.former.remove(&removed.key);
        self.objects.keys.aliases.forget(removed.key);
        self.lives.given_up.remove(&removed.key);
        self.objects.forget_local_proxy(removed, tell);
        removed.peer.into_iter().for_each(|peer| self.unwatch_subscribed(peer));
        let client = removed.peer.and_then(|peer| Some((peer, self.objects.clients.by_peer.remove(&peer)?)));
        self.objects.proxies.silenced.remove(&removed.key);
        self.changes.forget_proxy(removed.key, client.as_ref().map(|(_, client)| client));
        self.objects.log_debug(|_| {
            let whose = client.as_ref().map_or_else(String::new, |(_, client)| format!(" ({})", client.address.name));
            let ProxyKey { channel, proxy } = removed.key;
            format!("{} proxy {} of channel {}{whose} is gone", side_name(removed.side), proxy.0, channel.0)
        });
        let Some((peer, client)) = client else { return };
        self.probes.forget(peer, client.health);
        self.lives.known.forget(removed.key, removed.side, &client.address.ior);
        if tell != Tell::No {
            let to = client.address.ior.clone();
            let by = client.address.by.clone();
            let operation = kind.disconnect_operation(removed.side);
            let delayed_reply = match tell {
                Tell::AndWait(delayed_reply) => self.delayed_replies.one_more(delayed_reply),
                Tell::Yes | Tell::No => None,
            };
            let (offered, body) = (Some(Arc::clone(&client.address.offered)), Vec::new());
            self.objects.effects.push_back(Effect::Call { to, by, offered, operation, body, delayed_reply });
        }
        // Only then, so that the call can use the connection that is there.
        if self.objects.clients.called.remove(peer) {
            self.objects.clients.called_changed = true;
            self.objects.effects.push_back(Effect::ReleasePeer(peer));
        }
    }
}

/// Name for a client of that side.
pub(super) const fn side_name(side: Side) -> &'static str {
    match side {
        Side::Consumers => "consumer",
        Side::Suppliers => "supplier",
    }
}

/// Requirements of a client on events.
fn output_form(kind: ProxyKind, side: Side, client: &Ior) -> Result<OutputForm, Raised> {
    match (side, kind.pull) {
        (Side::Suppliers, _) => Ok(OutputForm::default()),
        (Side::Consumers, false) => output_form_for(kind.form(), kind.batches(), client),
        (Side::Consumers, true) => Ok(pull_output_form(kind.form())),
    }
}

//! Proxies of this protocol's clients: requested, made, released, ended by others.

use std::sync::Arc;

use corba::LocalProxy;
use engine::{EventType, Peer, ProxyKey};

use super::Protocol;
use super::delivery::shown;
use super::form::OUTPUT_FORM;
use super::input::Item;
use super::sessions::{Is, Part, Place, Proxy, Purpose, Session, Way};
use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use accounts::{Account, Resource};

/// State of a part's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyStatus {
    /// The proxy is open.
    Open,
    /// The proxy was requested.
    Waits,
    /// The proxy cannot be requested now: the part is refused, and may be announced again.
    Refused,
}

impl Protocol {
    /// The name of a session in logs and in views of the hierarchy.
    fn name_of(&self, session: &Session) -> String {
        match session.place {
            Place::Datagram(address) => format!("Tempo {} {session}", shown(address)),
            Place::Stream(connection) => {
                let connection = self.out.connections.get(connection);
                let address = connection.map(|connection| shown(connection.address).to_string()).unwrap_or_default();
                format!("Tempo tcp {address} {session}")
            }
        }
    }

    /// The proxy that a part needs.
    fn proxy_of(part: &Part) -> Option<Peer> {
        match &part.is {
            Is::Subscriber(subscriber) => Some(subscriber.peer),
            Is::Publisher(publisher) => publisher.proxy,
        }
    }

    /// Whether a part's proxy is open.
    pub(super) fn is_open(&self, part: Token) -> bool {
        let peer = self.sessions.part(part).and_then(Self::proxy_of);
        peer.and_then(|peer| self.proxies.get(&peer)).is_some_and(|proxy| proxy.key.is_some())
    }

    /// Requests the proxy that a new part needs from administration.
    pub(super) fn ask_for_part(&mut self, part: Token, cx: &mut Context) -> ProxyStatus {
        let Some(known) = self.sessions.part(part) else { return ProxyStatus::Refused };
        let (session, topic) = (known.session, known.topic);
        let Some((holder, topic)) = self.sessions.get(session).zip(self.topics.get(topic)) else {
            return ProxyStatus::Refused;
        };
        let (channel, account, name) = (topic.channel, Arc::clone(&holder.account), self.name_of(holder));
        let (domain, of_type) = topic.name().event_type();
        let about = EventType::new(domain, of_type);
        let (purpose, requested_part, octets) = match &known.is {
            Is::Publisher(_) => (Purpose::Supplier, corba::Part::Supplier, 0),
            Is::Subscriber(_) => {
                let types = vec![about.clone()];
                let octets = domain.len() + of_type.len() + 64;
                let requested_part = corba::Part::Consumer {
                    types,
                    constraint: String::new(),
                    output_form: OUTPUT_FORM,
                    start: None,
                    correlation: None,
                    looks_on: false,
                    durable: None,
                    confirms: false,
                    refuses: false,
                    backlog_bytes_max: None,
                };
                (Purpose::Consumer(part), requested_part, octets)
            }
        };
        let peer = match &known.is {
            Is::Subscriber(subscriber) => subscriber.peer,
            Is::Publisher(_) => {
                let (peer, is_new) = match holder.supplier(channel) {
                    Some(peer) => (peer, false),
                    None => (self.new_peer(), true),
                };
                let Some((known, holder)) = self.sessions.both(part) else { return ProxyStatus::Refused };
                holder.use_supplier(channel, peer);
                if let Some(publisher) = known.publisher() {
                    publisher.proxy = Some(peer);
                }
                if !is_new {
                    let is_open = self.proxies.get(&peer).is_some_and(|proxy| proxy.key.is_some());
                    return if is_open { ProxyStatus::Open } else { ProxyStatus::Waits };
                }
                peer
            }
        };
        self.proxies.insert(peer, Proxy { session, purpose, key: None, blocked: None });
        let octets = (octets as u64).max(self.settings.request_bytes_min);
        let local_proxy = LocalProxy { channel: channel.into(), peer, name, part: requested_part, about: Some(about) };
        match cx.request_local_proxy(client(session), local_proxy, (&account, octets)) {
            Ok(()) => ProxyStatus::Waits,
            Err(_) => ProxyStatus::Refused,
        }
    }

    /// Releases the proxy of a part that is gone, if no other part needs it.
    pub(super) fn dismiss_part(&mut self, gone: &Part, token: Token, cx: &mut Context) {
        let peer = match &gone.is {
            Is::Subscriber(subscriber) => Some(subscriber.peer),
            Is::Publisher(publisher) => {
                let session = self.sessions.get_mut(gone.session);
                publisher.proxy.filter(|peer| session.is_some_and(|session| session.leave_supplier(*peer)))
            }
        };
        self.discard_waiting(gone, token, cx);
        if let Some(peer) = peer {
            self.dismiss_tempo(gone.session, peer, cx);
        }
    }

    /// Discards the items that waited for the proxy of a part that is gone.
    fn discard_waiting(&mut self, gone: &Part, token: Token, cx: &mut Context) {
        let Protocol { topics, sessions, .. } = self;
        let Some(topic) = topics.get_mut(gone.topic) else { return };
        let away = topic.input.discard_waiting(token);
        for waiting in away {
            if let Some(session) = sessions.get(gone.session) {
                session.account.give(Resource::InputBytes, waiting.octets as u64);
            }
            cx.counters.add(Counter::TempoRefused, 1);
            if let Item::Message(pending_event, _) = waiting.item {
                cx.lane.abandon_event(pending_event);
            }
        }
    }

    fn dismiss_tempo(&mut self, session: Token, peer: Peer, cx: &mut Context) {
        let Some(proxy) = self.proxies.remove(&peer) else { return };
        proxy.key.iter().for_each(|key| _ = self.grouped.remove(key));
        let account = self.sessions.get(session).map(|session| Arc::clone(&session.account));
        if let Some((key, account)) = proxy.key.zip(account) {
            cx.remove_local_proxy(client(session), key, &account);
        }
    }

    /// Handles a proxy that administration has made or refused.
    pub(crate) fn tempo_proxy_registered(
        &mut self,
        peer: Peer,
        made: Result<ProxyKey, String>,
        account: &Arc<Account>,
        cx: &mut Context,
    ) {
        let Some(proxy) = self.proxies.get_mut(&peer) else {
            // The client has gone.
            if let Ok(key) = made {
                cx.remove_local_proxy(OF_TEMPO, key, account);
            }
            return;
        };
        match made {
            Ok(key) => {
                proxy.key = Some(key);
                let (session, is_supplier) = (proxy.session, proxy.purpose == Purpose::Supplier);
                let blocked = proxy.blocked.take();
                self.said.of_proxies = false;
                if is_supplier && self.sessions.get(session).is_some_and(|session| session.way == Way::Group) {
                    self.grouped.insert(key);
                }
                let parts = self.parts_with(peer);
                for part in parts {
                    self.count_subscriber(part);
                    self.let_in(part, cx);
                    if !self.is_leaving(part) {
                        self.announce(part, cx);
                    }
                }
                if let Some(outbox) = blocked {
                    cx.lane.resume_outbox(outbox, cx.clock.now);
                    cx.deliveries.undelivered = true;
                }
            }
            Err(reason) => {
                cx.counters.add(Counter::TempoTopicsRefused, 1);
                if !core::mem::replace(&mut self.said.of_proxies, true) {
                    cx.log(log::Level::Warn, || {
                        format!("a topic that a client of Tempo announces is not taken: {reason}")
                    });
                }
                self.remove_parts_with(peer, cx);
            }
        }
    }

    /// Has a subscriber announced to publishers from now on: what they publish comes to it.
    fn count_subscriber(&mut self, part: Token) {
        let Protocol { sessions, topics, .. } = self;
        let Some(known) = sessions.part_mut(part) else { return };
        let (topic, announced) = (known.topic, *known.presence.announced());
        if let (Some(subscriber), Some(topic)) = (known.subscriber(), topics.get_mut(topic)) {
            subscriber.is_open = true;
            topic.subscribers.count(&announced);
        }
    }

    fn is_leaving(&self, part: Token) -> bool {
        let known = self.sessions.part(part).map(|part| &part.is);
        matches!(known, Some(Is::Publisher(publisher)) if publisher.is_leaving)
    }

    /// Lets items go on that a publisher sent before its proxy was open.
    fn let_in(&mut self, part: Token, cx: &mut Context) {
        let Protocol { sessions, topics, .. } = self;
        let Some(topic) = sessions.part(part).map(|part| part.topic) else { return };
        if let Some(known) = topics.get_mut(topic) {
            known.input.let_in(part);
        }
        self.go_on_with_input(topic, cx);
    }

    /// The parts that need a proxy, including those given up meanwhile. (This allocates, but only when a client comes or goes.)
    fn parts_with(&mut self, peer: Peer) -> Vec<Token> {
        let Protocol { proxies, sessions, .. } = self;
        let Some(&Proxy { session, purpose, .. }) = proxies.get(&peer) else { return Vec::new() };
        match purpose {
            Purpose::Consumer(part) => vec![part],
            Purpose::Supplier => {
                let early = sessions.get_mut(session).map(|session| core::mem::take(&mut session.early));
                let has_it = |part: &Token| {
                    let is = sessions.part(*part).map(|part| &part.is);
                    matches!(is, Some(Is::Publisher(publisher)) if publisher.proxy == Some(peer))
                };
                let (mut parts, others): (Vec<_>, Vec<_>) = early.unwrap_or_default().into_iter().partition(has_it);
                parts.extend(sessions.get(session).into_iter().flat_map(Session::parts).filter(has_it));
                if let Some(session) = sessions.get_mut(session) {
                    session.early = others;
                }
                parts
            }
        }
    }

    /// Removes a proxy that does not exist, and the parts that need it. They may be announced again.
    fn remove_parts_with(&mut self, peer: Peer, cx: &mut Context) {
        let parts = self.parts_with(peer);
        if let Some(gone) = self.proxies.remove(&peer) {
            gone.key.iter().for_each(|key| _ = self.grouped.remove(key));
            if let Some(session) = self.sessions.get_mut(gone.session) {
                session.forget_supplier(peer);
            }
        }
        for part in parts {
            // Items that waited for the proxy get their turn, in which they are discarded.
            self.let_in(part, cx);
            self.give_up_part(part, cx);
        }
    }

    /// Notes that a proxy was ended elsewhere.
    pub(crate) fn tempo_proxy_gone(&mut self, peer: Peer, cx: &mut Context) {
        self.remove_parts_with(peer, cx);
    }
}

/// Marks a request's client as one of Tempo's, among those of all protocols.
const OF_TEMPO: u64 = 1 << 63;

const fn client(session: Token) -> u64 {
    OF_TEMPO | session.to_bits()
}

//! Proxies of this door's clients: asked for, made, let go, ended by others.

use std::sync::Arc;

use corba::Guest;
use engine::{EventType, Peer, ProxyKey};

use super::Door;
use super::delivery::shown;
use super::form::WANT;
use super::input::Item;
use super::sessions::{Is, Part, Place, Proxy, Purpose, Session, Way};
use crate::counters::Counter;
use crate::lane::io::slots::Token;
use crate::lane::run::Core;
use accounts::{Account, Resource};

/// How a part stands with its proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is there.
    Open,
    /// It was asked for.
    Waits,
    /// It cannot be asked for now: it is not taken, and may be announced again.
    Refused,
}

impl Door {
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
    fn proxy_of(&self, part: &Part) -> Option<Peer> {
        match &part.is {
            Is::Subscriber(subscriber) => Some(subscriber.peer),
            Is::Publisher(publisher) => publisher.proxy,
        }
    }
}

/// Marks a request's client as one of Tempo's, among those of all doors.
const OF_TEMPO: u64 = 1 << 63;

const fn client(session: Token) -> u64 {
    OF_TEMPO | session.to_bits()
}

impl Core {
    /// Whether a part's proxy is there.
    pub(super) fn is_open(&self, part: Token) -> bool {
        let door = &self.doors.tempo;
        let peer = door.sessions.part(part).and_then(|part| door.proxy_of(part));
        peer.and_then(|peer| door.proxies.get(&peer)).is_some_and(|proxy| proxy.key.is_some())
    }

    /// Asks administration for the proxy that a new part needs.
    pub(super) fn ask_for_part(&mut self, part: Token) -> Asked {
        let door = &mut self.doors.tempo;
        let Some(known) = door.sessions.part(part) else { return Asked::Refused };
        let (session, topic) = (known.session, known.topic);
        let Some((holder, topic)) = door.sessions.get(session).zip(door.topics.get(topic)) else {
            return Asked::Refused;
        };
        let (channel, account, name) = (topic.channel, Arc::clone(&holder.account), door.name_of(holder));
        let (domain, of_type) = topic.name().event_type();
        let about = EventType::new(domain, of_type);
        let (purpose, wanted, octets) = match &known.is {
            Is::Publisher(_) => (Purpose::Supplier, corba::Part::Supplier, 0),
            Is::Subscriber(_) => {
                let types = vec![about.clone()];
                let octets = domain.len() + of_type.len() + 64;
                let wanted = corba::Part::Consumer {
                    types,
                    constraint: String::new(),
                    want: WANT,
                    start: None,
                    looks_on: false,
                };
                (Purpose::Consumer(part), wanted, octets)
            }
        };
        let peer = match &known.is {
            Is::Subscriber(subscriber) => subscriber.peer,
            Is::Publisher(_) => {
                let (peer, is_new) = match holder.supplier(channel) {
                    Some(peer) => (peer, false),
                    None => (door.new_peer(), true),
                };
                let Some((known, holder)) = door.sessions.both(part) else { return Asked::Refused };
                holder.use_supplier(channel, peer);
                if let Some(publisher) = known.publisher() {
                    publisher.proxy = Some(peer);
                }
                if !is_new {
                    let is_open = door.proxies.get(&peer).is_some_and(|proxy| proxy.key.is_some());
                    return if is_open { Asked::Open } else { Asked::Waits };
                }
                peer
            }
        };
        door.proxies.insert(peer, Proxy { session, purpose, key: None, blocked: None });
        let octets = (octets as u64).max(door.settings.request_bytes_min);
        let guest = Guest { channel, peer, name, part: wanted, about: Some(about) };
        match self.ask_for_guest(client(session), guest, (&account, octets)) {
            Ok(()) => Asked::Waits,
            Err(_) => Asked::Refused,
        }
    }

    /// A part is gone: so is its proxy, if no other part needs it.
    pub(super) fn dismiss_part(&mut self, gone: &Part, token: Token) {
        let door = &mut self.doors.tempo;
        let peer = match &gone.is {
            Is::Subscriber(subscriber) => Some(subscriber.peer),
            Is::Publisher(publisher) => {
                let session = door.sessions.get_mut(gone.session);
                publisher.proxy.filter(|peer| session.is_some_and(|session| session.leave_supplier(*peer)))
            }
        };
        self.turn_away(gone, token);
        if let Some(peer) = peer {
            self.dismiss_tempo(gone.session, peer);
        }
    }

    /// What waited for the proxy of a part that is gone is lost.
    fn turn_away(&mut self, gone: &Part, token: Token) {
        let Door { topics, sessions, .. } = &mut self.doors.tempo;
        let Some(topic) = topics.get_mut(gone.topic) else { return };
        let away = topic.input.turn_away(token);
        for waiting in away {
            if let Some(session) = sessions.get(gone.session) {
                session.account.give(Resource::InputBytes, waiting.octets as u64);
            }
            self.counters.add(Counter::TempoRefused, 1);
            if let Item::Message(draft, _) = waiting.item {
                self.lane.abandon_event(draft);
            }
        }
    }

    fn dismiss_tempo(&mut self, session: Token, peer: Peer) {
        let door = &mut self.doors.tempo;
        let Some(proxy) = door.proxies.remove(&peer) else { return };
        proxy.key.iter().for_each(|key| _ = door.grouped.remove(key));
        let account = door.sessions.get(session).map(|session| Arc::clone(&session.account));
        if let Some((key, account)) = proxy.key.zip(account) {
            self.dismiss_guest(client(session), key, &account);
        }
    }

    /// Administration has made a proxy, or refused it.
    pub(crate) fn welcomed_tempo(&mut self, peer: Peer, made: Result<ProxyKey, String>, account: &Arc<Account>) {
        let Some(proxy) = self.doors.tempo.proxies.get_mut(&peer) else {
            // Its client has gone.
            if let Ok(key) = made {
                self.dismiss_guest(OF_TEMPO, key, account);
            }
            return;
        };
        match made {
            Ok(key) => {
                proxy.key = Some(key);
                let (session, is_supplier) = (proxy.session, proxy.purpose == Purpose::Supplier);
                let blocked = proxy.blocked.take();
                let door = &mut self.doors.tempo;
                door.said.of_proxies = false;
                if is_supplier && door.sessions.get(session).is_some_and(|session| session.way == Way::Group) {
                    door.grouped.insert(key);
                }
                let parts = self.parts_with(peer);
                for part in parts {
                    self.let_in(part);
                    if !self.is_leaving(part) {
                        self.announce(part);
                    }
                }
                if let Some(outbox) = blocked {
                    self.lane.resume_outbox(outbox, self.clock.now);
                    self.deliveries.undelivered = true;
                }
            }
            Err(reason) => {
                self.counters.add(Counter::TempoTopicsRefused, 1);
                if !core::mem::replace(&mut self.doors.tempo.said.of_proxies, true) {
                    self.log(log::Level::Warn, || {
                        format!("a topic that a client of Tempo announces is not taken: {reason}")
                    });
                }
                self.remove_parts_with(peer);
            }
        }
    }

    fn is_leaving(&self, part: Token) -> bool {
        let known = self.doors.tempo.sessions.part(part).map(|part| &part.is);
        matches!(known, Some(Is::Publisher(publisher)) if publisher.is_leaving)
    }

    /// What a publisher sent before its proxy was there has its turn.
    fn let_in(&mut self, part: Token) {
        let Door { sessions, topics, .. } = &mut self.doors.tempo;
        let Some(topic) = sessions.part(part).map(|part| part.topic) else { return };
        if let Some(known) = topics.get_mut(topic) {
            known.input.let_in(part);
        }
        self.go_on_with_input(topic);
    }

    /// The parts that need a proxy, of which something is known now: those too that were given up meanwhile. (An allocation: it is when a
    /// client comes or goes.)
    fn parts_with(&mut self, peer: Peer) -> Vec<Token> {
        let Door { proxies, sessions, .. } = &mut self.doors.tempo;
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

    /// There is no such proxy: the parts that need it are forgotten. They may be announced again.
    fn remove_parts_with(&mut self, peer: Peer) {
        let parts = self.parts_with(peer);
        let door = &mut self.doors.tempo;
        if let Some(gone) = door.proxies.remove(&peer) {
            gone.key.iter().for_each(|key| _ = door.grouped.remove(key));
            if let Some(session) = door.sessions.get_mut(gone.session) {
                session.forget_supplier(peer);
            }
        }
        for part in parts {
            // What waited for it has its turn, in which it is lost.
            self.let_in(part);
            self.give_up_part(part);
        }
    }

    /// Notes that a proxy was ended elsewhere.
    pub(crate) fn tempo_proxy_gone(&mut self, peer: Peer) {
        self.remove_parts_with(peer);
    }
}

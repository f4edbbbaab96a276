//! What clients ask for: events taken in, proxies asked for and released, answers.

use std::sync::Arc;

use corba::LocalProxy;
use corba::event::{self, FORM_STRUCTURED, UtcClock};
use engine::{ChannelId, Event, EventType, Peer, PendingEvent, ProxyKey};
use giop::cdr::Reader;
use json::{Publish, Request, Subscribe, answer};

use crate::counters::Counter;
use crate::lane::access::Permit;
use crate::lane::intake::{Refused, Submission};
use crate::lane::io::slots::Token;
use crate::lane::run::Core;
use crate::protocols;
use crate::protocols::json::connection::Connection;
use crate::protocols::json::{OUTPUT_FORM, Part};
use crate::protocols::local_proxies::NO_ROOM;
use crate::store::journal::StoreRefusal;
use access::Right;
use accounts::Account;

/// Recipient of the answer when an event was taken in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    connection: Token,
    /// The request's id, if it is to be answered at all.
    id: Option<u64>,
    /// Octets of the request.
    bytes: usize,
}

/// Why an event is not taken that its client may not publish.
const NOT_PERMITTED: &str = "it is not permitted: the service's rules of access say so";

/// Subscriptions of one connection, which each event may meet one after the other.
const SUBSCRIPTIONS_MAX: usize = 256;

impl Core {
    /// Does what a client asks for with a line of so many octets.
    pub(super) fn handle_json(&mut self, token: Token, request: Request, bytes: usize) {
        match request {
            Request::Hello { id, name, token: shown } => {
                self.greet_json(token, id, (name.as_deref(), shown.as_deref()))
            }
            Request::Ping { id } => self.confirm_json(token, Some(id)),
            Request::Publish(publish) => self.publish_json(token, publish, bytes),
            Request::Subscribe(subscribe) => self.subscribe_json(token, subscribe),
            Request::Unsubscribe { id, subscription } => self.unsubscribe_json(token, id, subscription),
        }
    }

    /// Handles the name that a client says, and the token that it shows: from now on the client has the identity that the token stands
    /// for. A token that is none is refused and the connection is closed, so that another try takes another connection.
    fn greet_json(&mut self, token: Token, id: Option<u64>, (name, shown): (Option<&str>, Option<&str>)) {
        let Some(connection) = self.protocols.json.connections.get(token) else { return };
        let account = Arc::clone(connection.account());
        if !connection.proxies.is_new() || shown.is_some() && account.identity().token().is_some() {
            let reason = match shown {
                Some(_) => "a token is shown once, and before anything is published or subscribed to",
                None => "a name is said before anything is published or subscribed to",
            };
            return self.refuse_json(token, id, reason);
        }
        let named =
            name.map_or(Ok(()), |name| self.name_client(&account, giop::client_name::check(name).map(|()| name)));
        if let Err(reason) = named {
            return self.refuse_json(token, id, &reason);
        }
        let Some(shown) = shown else { return self.confirm_json(token, id) };
        let found = self.protocols.json.settings.tokens.load().find(shown.as_bytes()).cloned();
        match found {
            Some(name) => {
                account.identity().show_token(name);
                self.access.forget_known();
                self.confirm_json(token, id);
            }
            None => {
                self.counters.add(Counter::DeniedTokens, 1);
                self.distrust_json(token, "there is no such token");
            }
        }
    }

    // ---- answers ----

    /// Tells a client that its request was carried out, if it wants to know.
    pub(super) fn confirm_json(&mut self, token: Token, id: Option<u64>) {
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::MissingLine) {
            return;
        }
        if let (Some(id), Some(connection)) = (id, self.protocols.json.connections.get_mut(token)) {
            connection.output.lend(&mut self.io.spares);
            answer::ok(connection.output.bytes(), id);
            self.protocols.json.note_due(token);
        }
    }

    /// Tells a client that it was not, and why.
    pub(super) fn refuse_json(&mut self, token: Token, id: Option<u64>, reason: &str) {
        if let Some(connection) = self.protocols.json.connections.get_mut(token) {
            connection.output.lend(&mut self.io.spares);
            answer::error(connection.output.bytes(), id, reason);
            self.protocols.json.note_due(token);
        }
    }

    // ---- events ----

    /// Takes an event in, once there is a proxy for that.
    fn publish_json(&mut self, token: Token, publish: Box<Publish>, bytes: usize) {
        if self.reporting.draining.has_begun() {
            return self.refuse_json(token, publish.id, "the service is about to end");
        }
        let channel = ChannelId(publish.channel);
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        let peer = connection.proxies.suppliers.get(&channel).copied();
        let open = peer.and_then(|peer| self.protocols.json.open_proxy(peer));
        match open {
            Some(proxy) => match self.permit_json(token, channel, &publish) {
                Ok(permit) => self.take_in_json(token, (proxy, permit), &publish, bytes),
                Err(()) => self.refuse_json(token, publish.id, NOT_PERMITTED),
            },
            None => self.ask_for_supplier(token, channel, publish),
        }
    }

    /// What limits the event types that a client may publish in a channel, if it may publish there at all.
    fn permit_json(&mut self, token: Token, channel: ChannelId, publish: &Publish) -> Result<Permit, ()> {
        if !self.access.is_on() {
            return Ok(None);
        }
        let Some(connection) = self.protocols.json.connections.get(token) else { return Err(()) };
        let account = Arc::clone(connection.account());
        self.access.may(&account, Right::Publish, channel).map_err(|scope| {
            let why = scope.why(Some((publish.domain.as_bytes(), publish.type_name.as_bytes())));
            self.deny(&account, Right::Publish, channel, (why, &"an event in JSON (publish)"));
        })
    }

    fn take_in_json(&mut self, token: Token, source: (ProxyKey, Permit), publish: &Publish, bytes: usize) {
        let mut encoded = core::mem::take(&mut self.protocols.json.event);
        encoded.clear();
        let result = match publish.write(&mut encoded) {
            Ok(()) => self.admit_json(Claim { connection: token, id: publish.id, bytes }, source, &encoded),
            Err(error) => Err(error.to_string()),
        };
        self.protocols.json.event = encoded;
        match result {
            Ok(true) => self.confirm_json(token, publish.id),
            Ok(false) => {
                if let Some(connection) = self.protocols.json.connections.get_mut(token) {
                    connection.await_answer(bytes);
                }
            }
            Err(reason) => self.refuse_json(token, publish.id, &reason),
        }
    }

    /// Hands an event to the engine. False if its client is answered later.
    fn admit_json(
        &mut self,
        claim: Claim,
        (source, permit): (ProxyKey, Permit),
        encoded: &[u8],
    ) -> Result<bool, String> {
        let body = Reader::new(encoded, ::json::event::ENCODING);
        let header = event::read_structured(body, &mut event::work_for(encoded.len()))
            .map_err(|error| format!("the event cannot be taken: {error}"))?;
        let mut pending_event: PendingEvent = self.lane.begin_event_for(encoded.len());
        self.lane.classify(&mut pending_event, header.domain, header.type_name);
        let event: &mut Event = &mut pending_event;
        event.form = FORM_STRUCTURED;
        event.tag = event::tag_at(::json::event::ENCODING, 0, header.is_loose);
        event.bytes.extend_from_slice(encoded);
        if header.says_quality() {
            header.apply(event, &UtcClock::new(self.clock.now, self.clock.since_1970));
            if header.has_wrong_property {
                self.counters.add(Counter::WrongHeaderFields, 1);
            }
        }
        self.translate(source, event);
        let mut submission = Submission::new(source, protocols::Claim::Json(claim), None).permitted(permit);
        self.admit(&mut submission, pending_event);
        let finished = self.finish_submission(&submission);
        self.deliver();
        finished.map_err(|refused| reason(&refused))
    }

    // ---- proxies ----

    fn ask_for_supplier(&mut self, token: Token, channel: ChannelId, publish: Box<Publish>) {
        let id = publish.id;
        let about = EventType::new(publish.domain.as_str(), publish.type_name.as_str());
        match self.ask_for_proxy(token, Part::Supplier(channel), channel, (corba::Part::Supplier, Some(about))) {
            Ok(peer) => {
                if let Some(connection) = self.protocols.json.connections.get_mut(token) {
                    connection.proxies.suppliers.insert(channel, peer);
                    connection.proxies.waiting = Some(publish);
                }
            }
            Err(reason) => self.refuse_json(token, id, reason),
        }
    }

    fn subscribe_json(&mut self, token: Token, subscribe: Subscribe) {
        let Subscribe { id, channel, types, constraint, from } = subscribe;
        let Some(connection) = self.protocols.json.connections.get(token) else { return };
        let (subscriptions, looks_on) = (&connection.proxies.subscriptions, connection.looks_on);
        if subscriptions.contains_key(&id) {
            return self.refuse_json(token, Some(id), "there is a subscription with this id");
        }
        if subscriptions.len() >= SUBSCRIPTIONS_MAX {
            self.counters.add(Counter::JsonSubscriptionsRefused, 1);
            return self.refuse_json(token, Some(id), "a connection has 256 subscriptions at most");
        }
        let types = types.into_iter().map(|(domain, name)| EventType { domain, name }).collect();
        let start = match from.as_deref().map(corba::start_from) {
            Some(None) => {
                let reason = format!("\"from\" is one of {}", corba::START_FROM_RANGE.replace('|', ", "));
                return self.refuse_json(token, Some(id), &reason);
            }
            place => place.flatten(),
        };
        let part = corba::Part::Consumer { types, constraint, output_form: OUTPUT_FORM, start, looks_on };
        match self.ask_for_proxy(token, Part::Subscription(id), ChannelId(channel), (part, None)) {
            Ok(peer) => {
                if let Some(connection) = self.protocols.json.connections.get_mut(token) {
                    connection.proxies.subscriptions.insert(id, peer);
                    connection.await_answer(0);
                }
            }
            Err(reason) => self.refuse_json(token, Some(id), reason),
        }
    }

    fn unsubscribe_json(&mut self, token: Token, id: Option<u64>, subscription: u64) {
        let protocol = &mut self.protocols.json;
        let Some(connection) = protocol.connections.get_mut(token) else { return };
        let Some(peer) = connection.proxies.subscriptions.remove(&subscription) else {
            return self.refuse_json(token, id, "there is no subscription with that id");
        };
        let account = Arc::clone(connection.account());
        if protocol.proxies.get(&peer).is_some_and(|proxy| proxy.key.is_none()) {
            connection.note_answer(0);
            self.refuse_json(token, Some(subscription), "the subscription was ended before it was made");
        }
        self.dismiss(token, peer, &account);
        self.confirm_json(token, id);
    }

    /// Asks administration for a proxy.
    ///
    /// # Errors
    /// Says why it cannot be asked now.
    fn ask_for_proxy(
        &mut self,
        token: Token,
        part: Part,
        channel: ChannelId,
        (requested_part, about): (corba::Part, Option<EventType>),
    ) -> Result<Peer, &'static str> {
        let protocol = &mut self.protocols.json;
        let Some(connection) = protocol.connections.get(token) else { return Err(NO_ROOM) };
        let kind = if connection.looks_on { "Onlooker over HTTP" } else { "JSON client" };
        let name = format!("{kind} at {}", connection.address);
        let octets = match &requested_part {
            corba::Part::Supplier => 0,
            corba::Part::Consumer { types, constraint, .. } => {
                types.iter().map(|kind| kind.domain.len() + kind.name.len() + 64).sum::<usize>() + constraint.len()
            }
        };
        let octets = (octets as u64).max(protocol.settings.request_bytes_min);
        let account = Arc::clone(connection.account());
        let peer = protocol.add_proxy(token, part);
        let requested = self.request_local_proxy(
            token.to_bits(),
            LocalProxy { channel, peer, name, part: requested_part, about },
            (&account, octets),
        );
        if let Err(reason) = requested {
            self.protocols.json.remove_proxy(peer);
            return Err(reason);
        }
        Ok(peer)
    }

    /// A proxy of a client's is not needed any more. One that is not there yet is released when it is.
    fn dismiss(&mut self, token: Token, peer: Peer, account: &Arc<Account>) {
        if let Some(key) = self.protocols.json.remove_proxy(peer).and_then(|proxy| proxy.key) {
            self.remove_local_proxy(token.to_bits(), key, account);
        }
    }

    /// A connection is gone, and its proxies go.
    pub(super) fn dismiss_all(&mut self, token: Token, connection: &Connection) {
        let proxies = &connection.proxies;
        let mut all: Vec<Peer> = proxies.subscriptions.values().chain(proxies.suppliers.values()).copied().collect();
        all.sort_unstable();
        for peer in all {
            self.dismiss(token, peer, connection.account());
        }
    }

    /// Notes that a proxy was ended elsewhere.
    pub(crate) fn json_proxy_gone(&mut self, peer: Peer) {
        let Some(proxy) = self.protocols.json.remove_proxy(peer) else { return };
        let Some(connection) = self.protocols.json.connections.get_mut(proxy.connection) else { return };
        match proxy.part {
            // It is made again with the next event.
            Part::Supplier(channel) => _ = connection.proxies.suppliers.remove(&channel),
            Part::Subscription(id) => {
                connection.proxies.subscriptions.remove(&id);
                let reason =
                    "the subscription has ended: its channel is gone, an operator ended it, or its client did not read";
                self.refuse_json(proxy.connection, Some(id), reason);
            }
        }
    }

    /// Administration has made a proxy, or refused it.
    pub(crate) fn json_proxy_registered(
        &mut self,
        peer: Peer,
        proxy: Result<ProxyKey, String>,
        account: &Arc<Account>,
    ) {
        let key = proxy.as_ref().ok().copied();
        let Some(requested) = self.protocols.json.note_registered(peer, key) else {
            // Its client has gone, or has taken it back.
            if let Some(key) = key {
                self.remove_local_proxy(0, key, account);
            }
            return;
        };
        let token = requested.connection;
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        match requested.part {
            Part::Subscription(id) => {
                connection.note_answer(0);
                match proxy {
                    Ok(_) => {
                        self.confirm_json(token, Some(id));
                        if let Some(outbox) = requested.blocked {
                            self.lane.resume_outbox(outbox, self.clock.now);
                            self.deliveries.undelivered = true;
                        }
                    }
                    Err(reason) => {
                        connection.proxies.subscriptions.remove(&id);
                        self.refuse_json(token, Some(id), &reason);
                    }
                }
            }
            Part::Supplier(channel) => {
                let waiting = connection.proxies.waiting.take();
                if proxy.is_err() {
                    connection.proxies.suppliers.remove(&channel);
                }
                match (waiting, proxy) {
                    (Some(publish), Ok(_)) => self.publish_json(token, publish, 0),
                    (Some(publish), Err(reason)) => self.refuse_json(token, publish.id, &reason),
                    (None, _) => {}
                }
            }
        }
        self.resume_json(token);
    }

    /// Tells a client that its event was taken in, or why not.
    pub(crate) fn answer_json(&mut self, claim: Claim, refused: Option<Refused>) {
        let Claim { connection: token, id, bytes } = claim;
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        connection.note_answer(bytes);
        match refused {
            None => self.confirm_json(token, id),
            Some(refused) => self.refuse_json(token, id, &reason(&refused)),
        }
        self.resume_json(token);
    }
}

/// Why an event was not taken, for people.
fn reason(refused: &Refused) -> String {
    match refused {
        Refused::ByEngine(refusal) => refusal.to_string(),
        Refused::NotPermitted => NOT_PERMITTED.to_owned(),
        Refused::Unreadable => "the event cannot be read".to_owned(),
        Refused::NotStored(StoreRefusal::Full) => "as many events are stored on disk as may be".to_owned(),
        Refused::NotStored(StoreRefusal::Failed) => "the event cannot be stored: the disk fails".to_owned(),
        Refused::TooManyAwaitingFilter => "too many events wait for filters that clients implement".to_owned(),
    }
}

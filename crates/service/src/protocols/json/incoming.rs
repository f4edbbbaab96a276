//! Connections of clients: accepted, read chunk by chunk, closed; and the clients' requests.

use std::io;
use std::sync::Arc;

use access::Right;
use accounts::Account;
use corba::event::{self, FORM_STRUCTURED, UtcClock};
use corba::{ListedLocally, LocalChannel, LocalChannels, LocalProxy, NOT_PERMITTED};
use engine::{ChannelId, Event, EventType, Peer, PendingEvent, ProxyKey};
use giop::cdr::Reader;
use json::answer::{self, ListedChannel};
use json::{ChannelRef, Heard, Publish, Request, Subscribe};

use super::{Protocol, Proxy};
use crate::counters::Counter;
use crate::lane::access::Permit;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::intake::{Refused, Submission};
use crate::lane::io::entrance::{Arrival, Named};
use crate::lane::io::output::would_block;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::run::Core;
use crate::protocols;
use crate::protocols::Tag;
use crate::protocols::json::connection::Connection;
use crate::protocols::json::{OUTPUT_FORM, Part};
use crate::protocols::local_proxies::{Action, NO_ROOM, refused_because};

impl Core {
    /// Takes a connection that a client made. Returns the number of open connections; `None` if the poll does not take it.
    pub(crate) fn let_in_json(&mut self, arrival: Arrival) -> Option<usize> {
        let (ip, now) = (arrival.place.account().ip(), arrival.at);
        let protocol = &mut self.protocols.json;
        let token = protocol.connections.insert(Connection::new(arrival, protocol.settings.limits));
        let connection = protocol.connections.get(token)?;
        let socket = Socket::Incoming(Tag::Json, token);
        if self.cx.io.poll.add(connection.stream.tcp(), socket, Interest::READ).is_err() {
            protocol.connections.remove(token);
            return None;
        }
        if connection.stream.has_more() {
            // Input has arrived with the end of the handshake.
            protocol.note_due(token, &mut self.cx);
        }
        protocol.open += 1;
        let open = protocol.open;
        self.cx.io.occupied.arrive(Tag::Json, token, ip, now);
        self.cx.counters.add(Counter::JsonConnectionsAccepted, 1);
        self.protocols.json.note_json_open(&mut self.cx);
        Some(open)
    }

    /// Ends connections with an overdue line, or that have been closing for too long.
    pub(crate) fn sweep_json(&mut self) {
        if !self.protocols.json.has_deadlines {
            return;
        }
        let (now, completion) = (self.cx.clock.now, self.protocols.json.line_completion);
        let mut late = Vec::new();
        let mut has_deadlines = false;
        for (token, connection) in self.protocols.json.connections.iter() {
            let Some(since) = connection.closing.or(connection.input.began) else { continue };
            if since + completion <= now {
                late.push((token, connection.closing.is_some()));
            } else {
                has_deadlines = true;
            }
        }
        self.protocols.json.has_deadlines = has_deadlines;
        for (token, is_closing) in late {
            if is_closing {
                self.protocols.json.close_json(token, &mut self.cx);
                continue;
            }
            self.cx.counters.add(Counter::IncompleteMessages, 1);
            let why = "a line was begun and not ended within limits.message_completion_ms";
            self.protocols.json.distrust_json(token, why, &mut self.cx);
        }
        if has_deadlines || self.protocols.json.has_deadlines {
            self.cx.clock.plan_sweep();
        }
    }

    /// Handles a proxy that administration has made or refused.
    pub(crate) fn json_proxy_registered(
        &mut self,
        peer: Peer,
        proxy: Result<ProxyKey, String>,
        account: &Arc<Account>,
    ) {
        let key = proxy.as_ref().ok().copied();
        let Some(requested) = self.protocols.json.note_registered(peer, key) else {
            // The client has gone, or has taken its request back.
            if let Some(key) = key {
                self.cx.remove_local_proxy(0, key, account);
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
                        self.protocols.json.confirm_json(token, Some(id), &mut self.cx);
                        if let Some(outbox) = requested.blocked {
                            self.cx.lane.resume_outbox(outbox, self.cx.clock.now);
                            self.cx.deliveries.undelivered = true;
                        }
                    }
                    Err(reason) => {
                        connection.proxies.subscriptions.remove(&id);
                        self.protocols.json.refuse_json(token, Some(id), &reason, &mut self.cx);
                    }
                }
            }
            Part::Channels(_) => {}
            Part::Supplier => {
                let waiting = connection.proxies.waiting.take();
                if proxy.is_err() {
                    connection.proxies.suppliers.retain(|_, other| *other != peer);
                }
                match (waiting, proxy) {
                    (Some(publish), Ok(_)) => self.publish_json(token, publish, 0),
                    (Some(publish), Err(reason)) => {
                        self.protocols.json.refuse_json(token, publish.id, &reason, &mut self.cx)
                    }
                    (None, _) => {}
                }
            }
        }
        self.protocols.json.resume_json(token, &mut self.cx);
    }

    /// Answers a client that its event was taken in, or why not.
    pub(crate) fn answer_json(&mut self, claim: Claim, refused: Option<Refused>) {
        let Claim { connection: token, id, bytes } = claim;
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        connection.note_answer(bytes);
        match refused {
            None => self.protocols.json.confirm_json(token, id, &mut self.cx),
            Some(refused) => self.protocols.json.refuse_json(token, id, &refused_because(&refused), &mut self.cx),
        }
        self.protocols.json.resume_json(token, &mut self.cx);
    }

    /// Serves a connection when its socket is ready.
    #[inline(never)]
    pub(crate) fn serve_json(&mut self, token: Token, ready: Ready) {
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        if connection.rounds.interest.read {
            if ready.readable {
                self.read_json(token);
            }
        } else if ready.broken {
            return self.protocols.json.close_json(token, &mut self.cx);
        }
        if ready.writable || ready.ended {
            self.protocols.json.note_due(token, &mut self.cx);
        }
    }

    fn read_json(&mut self, token: Token) {
        let mut buffer = core::mem::take(&mut self.protocols.json.read);
        buffer.clear();
        buffer.reserve(Budget::STREAM.bytes);
        if let Some(connection) = self.protocols.json.connections.get_mut(token) {
            connection.heard = self.cx.clock.now;
            match connection.stream.receive(&mut buffer) {
                Ok(0) => {
                    // The client may have sent its last request and wait for the answer, or for events.
                    connection.input.has_ended = true;
                    self.process_json(token, &[]);
                }
                // No line begins so.
                Ok(_) if tls::is_hello(&buffer) => {
                    let address = connection.address;
                    self.cx.note_tls_at_plain_port(Tag::Json, address);
                    self.protocols.json.close_json(token, &mut self.cx);
                }
                Ok(_) => self.process_json(token, &buffer),
                Err(error) if would_block(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.protocols.json.close_json(token, &mut self.cx),
            }
        }
        self.protocols.json.read = buffer;
    }

    /// Handles input that was read before, as far as the budget allows.
    #[inline(never)]
    pub(crate) fn go_on_with_json(&mut self, token: Token) {
        if let Some(connection) = self.protocols.json.connections.get_mut(token) {
            connection.rounds.has_backlog = false;
            self.process_json(token, &[]);
        }
    }

    /// Handles lines: the stored ones, and those of `input` behind them. Lines beyond the budget are stored.
    fn process_json(&mut self, token: Token, mut input: &[u8]) {
        let Some(connection) = self.protocols.json.connections.get(token) else { return };
        let mut meter = connection.rounds.usage.begin(self.cx.io.quotas.round(), self.cx.io.quotas.budget());
        loop {
            let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
            let session = &connection.input.session;
            let is_over = meter.is_over(|| !input.is_empty() || session.retained_bytes() > 0);
            connection.input.is_stalled = is_over || connection.is_paused();
            if connection.input.is_stalled {
                connection.input.session.keep(input);
                if is_over {
                    self.cx.counters.add(Counter::RoundBudgetsSpent, 1);
                    self.protocols.json.queue_json_backlog(token, &mut self.cx);
                }
                break;
            }
            let before = connection.input.session.retained_bytes() + input.len();
            let Some(heard) = connection.input.session.next(&mut input) else { break };
            connection.note_line();
            meter.note_message();
            let bytes = before.saturating_sub(connection.input.session.retained_bytes() + input.len());
            match heard {
                Heard::Request(request) => self.handle_json(token, request, bytes),
                Heard::Refused(refused) => {
                    self.cx.counters.add(Counter::JsonLinesRefused, 1);
                    self.protocols.json.refuse_json(token, refused.id, &refused.reason, &mut self.cx);
                }
                Heard::End(reason) => self.protocols.json.distrust_json(token, &reason, &mut self.cx),
            }
        }
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        if connection.input.has_ended && !connection.input.is_stalled && connection.input.session.end() {
            // A line without an end, as `printf` sends it: the client must not believe that it was carried out.
            self.cx.counters.add(Counter::JsonLinesRefused, 1);
            let why = "the last line has no end, and was not carried out";
            self.protocols.json.refuse_json(token, None, why, &mut self.cx);
        }
        let now = self.cx.clock.now;
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        connection.rounds.usage.note(&meter);
        match connection.charge_incomplete(now) {
            Ok(()) => self.protocols.json.has_deadlines |= connection.input.began.is_some(),
            Err(spent) => {
                self.cx.counters.add(Counter::of_refusal(spent), 1);
                let why = "there is no room for so much of a line that is not complete";
                self.protocols.json.distrust_json(token, why, &mut self.cx);
            }
        }
        self.protocols.json.note_due(token, &mut self.cx);
    }

    /// Executes the request of a line of so many octets.
    pub(super) fn handle_json(&mut self, token: Token, request: Request, bytes: usize) {
        match request {
            Request::Hello { id, name, token: shown } => {
                self.greet_json(token, id, (name.as_deref(), shown.as_deref()))
            }
            Request::Channels { id, behind } => {
                self.protocols.json.ask_for_channels(token, id, behind.map(ChannelId), &mut self.cx)
            }
            Request::Ping { id } => self.protocols.json.confirm_json(token, Some(id), &mut self.cx),
            Request::Publish(publish) => self.publish_json(token, publish, bytes),
            Request::Subscribe(subscribe) => self.protocols.json.subscribe_json(token, subscribe, &mut self.cx),
            Request::Unsubscribe { id, subscription } => {
                self.protocols.json.unsubscribe_json(token, id, subscription, &mut self.cx)
            }
        }
    }

    /// Handles the name that a client gives, and the token that it shows: from now on the client has the token's identity. After an invalid
    /// token the connection is closed, so that another attempt takes another connection.
    fn greet_json(&mut self, token: Token, id: Option<u64>, (name, shown): (Option<&str>, Option<&str>)) {
        let protocol = &mut self.protocols.json;
        let Some(connection) = protocol.connections.get(token) else { return };
        let account = Arc::clone(connection.account());
        if !connection.proxies.is_new() || shown.is_some() && account.identity().token().is_some() {
            let why = match shown {
                Some(_) => "a token is shown once, and before anything is published or subscribed to",
                None => "a name is said before anything is published or subscribed to",
            };
            return protocol.refuse_json(token, id, why, &mut self.cx);
        }
        let named =
            name.map_or(Ok(()), |name| self.cx.name_client(&account, giop::client_name::check(name).map(|()| name)));
        if let Err(why) = named {
            return protocol.refuse_json(token, id, &why, &mut self.cx);
        }
        let Some(shown) = shown else { return protocol.confirm_json(token, id, &mut self.cx) };
        let found = protocol.settings.tokens.load().find(shown.as_bytes()).cloned();
        match found {
            Some(name) => {
                account.identity().show_token(name);
                self.cx.name_by_configuration(&account);
                self.access.forget_known();
                self.protocols.json.confirm_json(token, id, &mut self.cx);
            }
            None => {
                self.cx.counters.add(Counter::DeniedTokens, 1);
                self.protocols.json.distrust_json(token, "there is no such token", &mut self.cx);
            }
        }
    }

    // ---- events ----

    /// Takes an event in, once its proxy is open.
    fn publish_json(&mut self, token: Token, publish: Box<Publish>, bytes: usize) {
        if self.cx.reporting.draining.has_begun() {
            return self.protocols.json.refuse_json(token, publish.id, "the service is about to end", &mut self.cx);
        }
        let Some(connection) = self.protocols.json.connections.get_mut(token) else { return };
        if connection.looks_on {
            self.cx.counters.add(Counter::JsonLinesRefused, 1);
            return self.protocols.json.refuse_json(token, publish.id, LOOKS_ON, &mut self.cx);
        }
        let peer = connection.proxies.suppliers.get(&publish.channel).copied();
        let open = peer.and_then(|peer| self.protocols.json.open_proxy(peer));
        match open {
            Some(proxy) => match self.permit_json(token, proxy.channel, &publish) {
                Ok(permit) => self.take_in_json(token, (proxy, permit), &publish, bytes),
                Err(()) => self.protocols.json.refuse_json(token, publish.id, NOT_PERMITTED, &mut self.cx),
            },
            None => self.protocols.json.ask_for_supplier(token, publish, &mut self.cx),
        }
    }

    /// Event types that a client is limited to in a channel, if it may publish there at all.
    fn permit_json(&mut self, token: Token, channel: ChannelId, publish: &Publish) -> Result<Permit, ()> {
        if !self.access.is_on() {
            return Ok(None);
        }
        let Some(connection) = self.protocols.json.connections.get(token) else { return Err(()) };
        let account = Arc::clone(connection.account());
        self.access.may(&account, Right::Publish, channel).map_err(|scope| {
            let why = scope.why(Some((publish.domain.as_bytes(), publish.type_name.as_bytes())));
            self.access.deny(&account, Right::Publish, channel, (why, &"an event in JSON (publish)"), &mut self.cx);
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
            Ok(true) => self.protocols.json.confirm_json(token, publish.id, &mut self.cx),
            Ok(false) => {
                if let Some(connection) = self.protocols.json.connections.get_mut(token) {
                    connection.await_answer(bytes);
                }
            }
            Err(reason) => self.protocols.json.refuse_json(token, publish.id, &reason, &mut self.cx),
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
        let mut pending_event: PendingEvent = self.cx.lane.begin_event_for(encoded.len());
        self.cx.lane.classify(&mut pending_event, header.domain, header.type_name);
        let event: &mut Event = &mut pending_event;
        event.form = FORM_STRUCTURED;
        event.tag = event::tag_at(::json::event::ENCODING, 0, header.is_loose);
        event.bytes.extend_from_slice(encoded);
        if header.says_quality() {
            header.apply(event, &UtcClock::new(self.cx.clock.now, self.cx.clock.since_1970));
            if header.has_wrong_property {
                self.cx.counters.add(Counter::WrongHeaderFields, 1);
            }
        }
        self.protocols.translate(source, event, &mut self.cx);
        let mut submission = Submission::new(source, protocols::Claim::Json(claim), None).permitted(permit);
        self.admit(&mut submission, pending_event);
        let finished = self.finish_submission(&submission);
        self.deliver();
        finished.map_err(|refused| refused_because(&refused))
    }

    // ---- proxies ----
}

impl Protocol {
    /// Defers a connection's unhandled input until its address has its turn.
    pub(super) fn queue_json_backlog(&mut self, token: Token, cx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(token) {
            cx.io.quotas.resume_later(&mut connection.rounds, Socket::Incoming(Tag::Json, token));
        }
    }

    /// Ends a connection after bad input, with the reason as its last line.
    pub(crate) fn distrust_json(&mut self, token: Token, why: &str, cx: &mut Context) {
        self.refuse_json(token, None, why, cx);
        let now = cx.clock.now;
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.closing.replace(now).is_none() {
            let address = connection.address;
            cx.counters.add(Counter::ProtocolErrors, 1);
            cx.log(log::Level::Warn, || format!("closed the connection from {address}: {why}"));
        }
        self.has_deadlines = true;
        self.note_due(token, cx);
    }

    /// Closes a connection. Its proxies go with it.
    pub(crate) fn close_json(&mut self, token: Token, cx: &mut Context) {
        let Some(mut connection) = self.connections.remove(token) else { return };
        cx.io.occupied.leave(Tag::Json, token);
        connection.output.clear(&mut cx.io.spares);
        cx.release_written();
        self.dismiss_all(token, &connection, cx);
        cx.io.quotas.leave(connection.rounds.quota);
        self.open -= 1;
        self.note_json_open(cx);
        let open = self.open;
        let client = Named(connection.address, connection.account());
        cx.log_debug(|| format!("the connection from {client} is closed; {open} open for lines of JSON"));
    }

    /// Closes all connections, since the service ends.
    pub(crate) fn close_all_json(&mut self, cx: &mut Context) {
        let all: Vec<Token> = self.connections.iter().map(|(token, _)| token).collect();
        for token in all {
            self.close_json(token, cx);
        }
    }

    fn note_json_open(&mut self, cx: &mut Context) {
        cx.counters.set(Counter::JsonConnectionsOpen, self.open as u64);
    }

    /// Answers that a request was executed, if the client expects that.
    pub(super) fn confirm_json(&mut self, token: Token, id: Option<u64>, cx: &mut Context) {
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::MissingLine) {
            return;
        }
        if let (Some(id), Some(connection)) = (id, self.connections.get_mut(token)) {
            connection.output.lend(&mut cx.io.spares);
            answer::ok(connection.output.bytes(), id);
            self.note_due(token, cx);
        }
    }

    /// Answers why a request was refused.
    pub(super) fn refuse_json(&mut self, token: Token, id: Option<u64>, reason: &str, cx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.output.lend(&mut cx.io.spares);
            answer::error(connection.output.bytes(), id, reason);
            self.note_due(token, cx);
        }
    }

    fn ask_for_supplier(&mut self, token: Token, publish: Box<Publish>, cx: &mut Context) {
        let (id, channel, create) = (publish.id, publish.channel.clone(), publish.create);
        let about = EventType::new(publish.domain.as_str(), publish.type_name.as_str());
        let requested = (corba::Part::Supplier, Some(about));
        match self.ask_for_proxy(token, Part::Supplier, (channel.clone(), create), requested, cx) {
            Ok(peer) => {
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.proxies.suppliers.insert(channel, peer);
                    connection.proxies.waiting = Some(publish);
                }
            }
            Err(reason) => self.refuse_json(token, id, reason, cx),
        }
    }

    fn subscribe_json(&mut self, token: Token, subscribe: Subscribe, cx: &mut Context) {
        let Subscribe { id, channel, create, types, constraint, from, when } = subscribe;
        let Some(connection) = self.connections.get(token) else { return };
        let (subscriptions, looks_on) = (&connection.proxies.subscriptions, connection.looks_on);
        if looks_on && create {
            cx.counters.add(Counter::JsonLinesRefused, 1);
            return self.refuse_json(token, Some(id), LOOKS_ON, cx);
        }
        if subscriptions.contains_key(&id) {
            return self.refuse_json(token, Some(id), "there is a subscription with this id", cx);
        }
        if subscriptions.len() >= SUBSCRIPTIONS_MAX {
            cx.counters.add(Counter::JsonSubscriptionsRefused, 1);
            return self.refuse_json(token, Some(id), "a connection has 256 subscriptions at most", cx);
        }
        let types = types.into_iter().map(|(domain, name)| EventType { domain, name }).collect();
        let start = match from.as_deref().map(corba::start_from) {
            Some(None) => {
                let reason = format!("\"from\" is one of {}", corba::START_FROM_RANGE.replace('|', ", "));
                return self.refuse_json(token, Some(id), &reason, cx);
            }
            place => place.flatten(),
        };
        let correlation = match corba::correlation(when.trim()) {
            Ok(correlation) => correlation,
            Err(error) => {
                return self.refuse_json(token, Some(id), &format!("\"when\" is no correlation: {error}"), cx);
            }
        };
        let part = corba::Part::Consumer {
            types,
            constraint,
            output_form: OUTPUT_FORM,
            start,
            correlation,
            looks_on,
            durable: None,
            confirms: false,
            refuses: false,
            backlog_bytes_max: None,
        };
        match self.ask_for_proxy(token, Part::Subscription(id), (channel, create), (part, None), cx) {
            Ok(peer) => {
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.proxies.subscriptions.insert(id, peer);
                    connection.await_answer(0);
                }
            }
            Err(reason) => self.refuse_json(token, Some(id), reason, cx),
        }
    }

    fn unsubscribe_json(&mut self, token: Token, id: Option<u64>, subscription: u64, cx: &mut Context) {
        let protocol = &mut *self;
        let Some(connection) = protocol.connections.get_mut(token) else { return };
        let Some(peer) = connection.proxies.subscriptions.remove(&subscription) else {
            return self.refuse_json(token, id, "there is no subscription with that id", cx);
        };
        let account = Arc::clone(connection.account());
        if protocol.proxies.get(&peer).is_some_and(|proxy| proxy.key.is_none()) {
            connection.note_answer(0);
            self.refuse_json(token, Some(subscription), "the subscription was ended before it was made", cx);
        }
        self.dismiss(token, peer, &account, cx);
        self.confirm_json(token, id, cx);
    }

    /// Requests a proxy from administration.
    ///
    /// # Errors
    /// The reason why it cannot be requested now.
    fn ask_for_proxy(
        &mut self,
        token: Token,
        part: Part,
        (channel, create): (ChannelRef, bool),
        (requested_part, about): (corba::Part, Option<EventType>),
        cx: &mut Context,
    ) -> Result<Peer, &'static str> {
        let protocol = &mut *self;
        let Some(connection) = protocol.connections.get(token) else { return Err(NO_ROOM) };
        let kind = if connection.looks_on { "Onlooker over HTTP" } else { "JSON client" };
        let name = format!("{kind} at {}", connection.address);
        let octets = match &requested_part {
            corba::Part::Supplier => 0,
            corba::Part::Consumer { types, constraint, correlation, .. } => {
                let when = correlation.as_ref().map_or(0, |correlation| correlation.text().len());
                types.iter().map(|kind| kind.domain.len() + kind.name.len() + 64).sum::<usize>()
                    + constraint.len()
                    + when
            }
        };
        let (channel, name_octets) = match channel {
            ChannelRef::Number(number) => (ChannelId(number).into(), 0),
            ChannelRef::Name(name) => {
                let octets = name.len();
                (LocalChannel::Name { name, create }, octets)
            }
        };
        let octets = (octets + name_octets) as u64;
        let octets = octets.max(protocol.settings.request_bytes_min);
        let account = Arc::clone(connection.account());
        let peer = protocol.add_proxy(token, part);
        let requested = cx.request_local_proxy(
            token.to_bits(),
            LocalProxy { channel, peer, name, part: requested_part, about },
            (&account, octets),
        );
        if let Err(reason) = requested {
            self.remove_proxy(peer);
            return Err(reason);
        }
        Ok(peer)
    }

    /// Requests a list of channels from administration, behind `behind` or from the start.
    fn ask_for_channels(&mut self, token: Token, id: u64, behind: Option<ChannelId>, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let account = Arc::clone(connection.account());
        connection.await_answer(0);
        let peer = self.add_proxy(token, Part::Channels(id));
        let charged = (&account, self.settings.request_bytes_min);
        let asked = cx.request_of_administration(token.to_bits(), Action::Channels { peer, behind }, charged);
        if let Err(reason) = asked {
            self.answer_json_channels(peer, Err(reason.to_owned()), cx);
        }
    }

    /// Answers a client's request for channels.
    pub(crate) fn answer_json_channels(
        &mut self,
        peer: Peer,
        channels: Result<LocalChannels, String>,
        cx: &mut Context,
    ) {
        let Some(Proxy { connection: token, part: Part::Channels(id), .. }) = self.remove_proxy(peer) else { return };
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.note_answer(0);
        match channels {
            Err(reason) => self.refuse_json(token, Some(id), &reason, cx),
            Ok(LocalChannels { channels, next }) => {
                let listed = channels.into_iter().map(|ListedLocally { id, name, consumers, suppliers }| {
                    let events = cx.lane.channel_stats(id).map_or(0, |stats| stats.traffic.events_in);
                    ListedChannel { channel: id.0, name: name.unwrap_or_default(), consumers, suppliers, events }
                });
                let listed: Vec<ListedChannel> = listed.collect();
                connection.output.lend(&mut cx.io.spares);
                answer::channels(connection.output.bytes(), id, &listed, next.map(|next| next.0));
            }
        }
        self.resume_json(token, cx);
    }

    /// Releases a proxy that is not needed any more. One that is not made yet is released when it is.
    fn dismiss(&mut self, token: Token, peer: Peer, account: &Arc<Account>, cx: &mut Context) {
        if let Some(key) = self.remove_proxy(peer).and_then(|proxy| proxy.key) {
            cx.remove_local_proxy(token.to_bits(), key, account);
        }
    }

    /// Releases the proxies of a connection that is gone.
    pub(super) fn dismiss_all(&mut self, token: Token, connection: &Connection, cx: &mut Context) {
        let proxies = &connection.proxies;
        let mut all: Vec<Peer> = proxies.subscriptions.values().chain(proxies.suppliers.values()).copied().collect();
        all.sort_unstable();
        for peer in all {
            self.dismiss(token, peer, connection.account(), cx);
        }
    }

    /// Notes that a proxy was ended elsewhere.
    pub(crate) fn json_proxy_gone(&mut self, peer: Peer, cx: &mut Context) {
        let Some(proxy) = self.remove_proxy(peer) else { return };
        let Some(connection) = self.connections.get_mut(proxy.connection) else { return };
        match proxy.part {
            // The proxy is made again with the next event.
            Part::Supplier => connection.proxies.suppliers.retain(|_, other| *other != peer),
            Part::Channels(_) => {}
            Part::Subscription(id) => {
                connection.proxies.subscriptions.remove(&id);
                let reason =
                    "the subscription has ended: its channel is gone, an operator ended it, or its client did not read";
                self.refuse_json(proxy.connection, Some(id), reason, cx);
            }
        }
    }
}

/// Recipient of an event's acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    connection: Token,
    /// Id of the request, if it is to be answered.
    id: Option<u64>,
    /// Octets of the request.
    bytes: usize,
}

/// Reason why an onlooker may not publish or make channels.
const LOOKS_ON: &str = "this connection only looks on: over HTTP publishing and making channels need the token (http.token_file), or rules of access \
                        that allow it";

/// Maximum subscriptions of one connection, since each event may meet all of them.
const SUBSCRIPTIONS_MAX: usize = 256;

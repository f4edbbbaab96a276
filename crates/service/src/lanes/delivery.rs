//! The other end of the path: from the engine to a consumer's socket.

use core::time::Duration;
use std::sync::Arc;

use engine::{Delivery, Event, OutboxId, Outcome, Peer, ProxyKey, Want};
use giop::cdr::Encoding;
use giop::codeset;
use giop::message::{self, RequestHead, Response, ServiceContexts};
use giop::realtime::{self, PriorityModel};

use super::outgoing::{Outgoings, Pending};
use super::output::Body;
use super::routes::{PushPriority, Route, Sent};
use super::slots::Token;
use super::worker::Core;
use crate::corba::event;
use crate::counters::Counter;

/// Deliveries begun at one go: a one-way consumer with a long backlog and a fast connection must not keep the others
/// waiting. An event for more consumers than that reaches the rest of them in the next rounds.
const DELIVERIES_PER_TURN: usize = 256;

/// Why a push was not sent.
enum Unsent {
    /// The engine is told this.
    Because(Outcome),
    /// It failed, and is tried again.
    Failed(String),
    /// The connection was lost, and the engine has been told.
    Lost,
}

/// What a push carries.
struct Content {
    /// The bytes of its one event; nothing if it is a sequence.
    body: Option<Body>,
    encoding: Encoding,
    phase: usize,
    length: usize,
}

impl Core {
    /// Sends what the engine says is due. There may be more if `undelivered` says so.
    pub(crate) fn deliver(&mut self) {
        // First, since the other lanes can work on it while this one goes on.
        self.post_handovers();
        for _ in 0..DELIVERIES_PER_TURN {
            let mut events = self.take_events();
            let Some(delivery) = self.lane.poll_delivery(self.now, &mut events) else {
                self.recycle(events);
                self.undelivered = false;
                return;
            };
            if delivery.pulled {
                self.hand_over(delivery, events);
            } else if self.questions.wait_for(delivery.outbox) {
                // Remote filters are being asked about an earlier event, which is to stay the earlier one.
                self.recycle(events);
                self.lane.handle_outcome(delivery.outbox, delivery.serial, Outcome::NoRoom, self.now);
            } else if delivery.ask.is_some() {
                self.question_delivery(delivery, events, None);
            } else {
                self.send(&delivery, events);
            }
        }
        self.undelivered = true;
    }

    /// Sends events to the consumer that they are for.
    pub(crate) fn send(&mut self, delivery: &Delivery, mut events: Vec<Arc<Event>>) {
        let Delivery { outbox, serial, one_way, .. } = *delivery;
        let written = self.write_push(delivery, &mut events);
        self.recycle(events);
        let outcome = match written {
            Ok(()) if one_way => Outcome::Sent,
            Ok(()) => return,
            Err(Unsent::Lost) => return,
            Err(Unsent::Because(outcome)) => outcome,
            Err(Unsent::Failed(why)) => return self.fail_push(outbox, serial, Outcome::Unreachable, || why),
        };
        self.lane.handle_outcome(outbox, serial, outcome, self.now);
    }

    /// Puts one push on its connection: a fresh request header before the event's bytes as they are, or before a sequence
    /// of events. An event that the connection keeps is taken out of `events`.
    ///
    /// # Errors
    /// Says why it could not.
    fn write_push(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) -> Result<(), Unsent> {
        let Delivery { outbox, key, peer, want, serial, one_way, .. } = *delivery;
        let peer = peer.ok_or_else(|| Unsent::Failed("the consumer gave no reference".to_owned()))?;
        let content = self.choose_content(events, want).ok_or(Unsent::Because(Outcome::Untranslatable))?;
        let Content { encoding, phase, length, .. } = content;
        let token = self.way_to(outbox, key, peer, encoding).map_err(Unsent::Failed)?;
        let Outgoings { routes, connections, head, .. } = &mut self.outgoing;
        let (Some(route), Some(connection)) = (routes.get_mut(outbox), connections.get_mut(token)) else {
            return Err(Unsent::Because(Outcome::Unreachable));
        };
        // Nothing says when a one-way push is done but room in the socket, so it waits for that. One that is tried again
        // waits until the first try is gone, or they would pile up where nothing is read.
        if (one_way && !connection.has_room()) || route.still_waits(token, connection.output.taken()) {
            self.block(outbox, token);
            return Err(Unsent::Because(Outcome::NoRoom));
        }
        let (request_id, tell) = connection.next_request(self.now);
        let priority = route.priority.and_then(|priority| priority.of(events));
        let priority = priority.map(|priority| realtime::priority_context(priority, encoding.endian));
        let code_sets = tell.then(|| codeset::context(encoding.chars, encoding.endian));
        // Those with something to tell come together.
        let starts_flow = route.in_order && !one_way && route.unanswered.is_empty();
        let priority = priority.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
        let code_sets = code_sets.as_deref().map(|data| (ServiceContexts::CODE_SETS, data));
        let flow = starts_flow.then_some((ServiceContexts::FLOW_START, &[][..]));
        let mut contexts = [(0, &[][..]); 3];
        let told = contexts.iter_mut().zip([priority, code_sets, flow].into_iter().flatten());
        let count = told.map(|(place, context)| *place = context).count();
        head.clear();
        let request = RequestHead {
            version: encoding.version,
            endian: encoding.endian,
            request_id,
            response: if one_way { Response::None } else { Response::Expected },
            key: &route.target.key,
            operation: route.address.operation.as_bytes(),
            contexts: contexts.get(..count).unwrap_or_default(),
            body_phase: Some(phase),
        };
        message::begin_request(head, &request).finish_with_body(head, length);
        if one_way {
            route.succeed();
        } else {
            route.unanswered.push_back(Sent { serial, connection: token, request_id });
            connection.pending.insert(request_id, Pending::Push { outbox, serial });
        }
        self.counters.add(Counter::PushesSent, 1);
        // Everything pending, this push included, is told if the connection is lost.
        self.write_content(token, content.body, events).map_err(|why| {
            self.lose(token, &why);
            if one_way { Unsent::Failed(why) } else { Unsent::Lost }
        })
    }

    /// What a push of these events carries. A sequence is written to `outgoing.arguments`. Nothing if no event can be put
    /// into what the consumer takes.
    fn choose_content(&mut self, events: &[Arc<Event>], want: Want) -> Option<Content> {
        if !event::takes_batches(want) {
            let event = events.first()?;
            let (body, encoding, phase) = Body::choose(event, want)?;
            return Some(Content { body: Some(body), encoding, phase, length: body.of(event).len() });
        }
        let buffer = &mut self.outgoing.arguments;
        buffer.clear();
        let written = event::write_batch(events, want, buffer).ok()?;
        let length = buffer.len();
        self.counters.add(Counter::SequenceEventsSent, written.events.into());
        self.counters.add(Counter::LeftOut, written.left_out.into());
        let encoding = Encoding { version: event::version_of(want), ..event::encoding_of(written.tag) };
        Some(Content { body: None, encoding, phase: event::phase_of(written.tag), length })
    }

    /// Writes `outgoing.head` and what is behind it.
    ///
    /// # Errors
    /// Says why the connection is broken.
    fn write_content(&mut self, token: Token, body: Option<Body>, events: &mut Vec<Arc<Event>>) -> Result<(), String> {
        let Outgoings { connections, head, arguments, .. } = &mut self.outgoing;
        let Some(connection) = connections.get_mut(token) else { return Ok(()) };
        match body {
            Some(body) => {
                let Some(event) = events.pop() else { return Ok(()) };
                match connection.send(head, event, body).map_err(|error| error.to_string())? {
                    Some(event) => self.lane.release(event),
                    None => self.watch(token),
                }
            }
            None => {
                connection.send_bytes(head, arguments).map_err(|error| error.to_string())?;
                if !connection.output.is_empty() {
                    self.watch(token);
                }
            }
        }
        Ok(())
    }

    /// The connection on which a consumer gets events of that encoding; made if there is none.
    ///
    /// # Errors
    /// Says why there is none.
    fn way_to(&mut self, outbox: OutboxId, key: ProxyKey, peer: Peer, encoding: Encoding) -> Result<Token, String> {
        let Encoding { version, chars, .. } = encoding;
        if self.outgoing.routes.get_mut(outbox).is_none_or(|route| route.peer != peer) {
            self.find_route(outbox, key, peer)?;
        }
        let route = self.outgoing.routes.get_mut(outbox).ok_or("the consumer has no address")?;
        if let Some(why) = route.lost.take() {
            return Err(why);
        }
        if let Some(token) = route.connection(version, chars)
            && self.outgoing.connections.get(token).is_some()
        {
            return Ok(token);
        }
        let endpoint = route.target.endpoint(version, chars);
        let timeout = self.connect_timeout_of(key);
        let token = self.connect(endpoint, timeout)?;
        if let Some(route) = self.outgoing.routes.get_mut(outbox) {
            route.set_connection(version, chars, token);
        }
        Ok(token)
    }

    /// Learns the way to a consumer that has not been pushed to before.
    fn find_route(&mut self, outbox: OutboxId, key: ProxyKey, peer: Peer) -> Result<(), String> {
        let address = self.outgoing.peers.get(peer).map(Arc::clone).ok_or("the consumer has no address")?;
        let asks = address.ior.priority_model().is_some_and(|policy| policy.model == PriorityModel::ClientPropagated);
        let mut route = Route::new(outbox, key, peer, address).ok_or("the consumer's reference has no IIOP profile")?;
        route.priority = asks.then(|| self.push_priority(key));
        if let Some(former) = self.outgoing.routes.insert(route) {
            self.outgoing.forget(former);
        }
        Ok(())
    }

    /// At what priority a consumer is pushed to. It stays so while the consumer is connected, since its pool does.
    fn push_priority(&self, key: ProxyKey) -> PushPriority {
        let declared = match self.consumer(key).and_then(|consumer| consumer.priority_model) {
            Some((engine::PriorityModel::ServerDeclared, priority)) => Some(priority),
            Some((engine::PriorityModel::ClientPropagated, _)) | None => None,
        };
        let of_lane = self.lane.snapshot().lane(self.lane.id()).map(|lane| lane.priority);
        PushPriority { declared, of_lane }
    }

    /// How long a consumer's connection may take to be made: its `ConnectTimeout`.
    fn connect_timeout_of(&self, key: ProxyKey) -> Duration {
        self.consumer(key).map_or(self.outgoing.connect_timeout, |consumer| consumer.settings.connect_timeout)
    }

    /// Gives up waiting for the replies to an outbox's pushes, or for room for them. The connection stays: others may use
    /// it, and a reply that comes all the same is counted as late. But one that has been silent for long may be dead
    /// without anybody having said so, and is replaced.
    pub(crate) fn abandon(&mut self, outbox: OutboxId) {
        self.counters.add(Counter::PushTimeouts, 1);
        self.note_failure(outbox, || "no reply in time".to_owned());
        for token in self.withdraw(outbox, 0, true) {
            let Outgoings { routes, connections, silence, .. } = &mut self.outgoing;
            let Some(connection) = connections.get(token) else { continue };
            if self.now.since(connection.silent_since) >= *silence {
                self.lose(token, "nothing was heard on the connection for long");
                continue;
            }
            if let Some(route) = routes.get_mut(outbox) {
                route.given_up = Some((token, connection.output.end()));
            }
            self.flush_outgoing(token);
        }
    }
}

//! The other end of the path: from the engine to a consumer's socket.

use core::time::Duration;
use std::sync::Arc;

use engine::{Delivery, Event, OutboxId, Outcome, Peer, ProxyKey};
use giop::cdr::Encoding;
use giop::codeset;
use giop::message::{self, RequestHead, Response, ServiceContexts};

use super::outgoing::{Outgoings, Pending};
use super::output::Body;
use super::routes::{Route, Sent};
use super::slots::Token;
use super::worker::Core;
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
}

impl Core {
    /// Sends what the engine says is due. There may be more if `undelivered` says so.
    pub(crate) fn deliver(&mut self) {
        for _ in 0..DELIVERIES_PER_TURN {
            let Some(delivery) = self.lane.poll_delivery(self.now, &mut self.events) else {
                self.undelivered = false;
                return;
            };
            let Some(event) = self.events.pop() else { continue };
            self.send(delivery, event);
        }
        self.undelivered = true;
    }

    fn send(&mut self, delivery: Delivery, event: Arc<Event>) {
        let Delivery { outbox, serial, one_way, .. } = delivery;
        let outcome = match self.write_push(delivery, event) {
            Ok(()) if one_way => Outcome::Sent,
            Ok(()) => return,
            Err((event, why)) => {
                if let Some(event) = event {
                    self.lane.release(event);
                }
                match why {
                    Unsent::Because(outcome) => outcome,
                    Unsent::Failed(why) => return self.fail_push(outbox, serial, Outcome::Unreachable, || why),
                }
            }
        };
        self.lane.handle_outcome(outbox, serial, outcome, self.now);
    }

    /// Puts one push on its connection: a fresh request header before the event's bytes as they are.
    ///
    /// # Errors
    /// Says why it could not, and gives the event back unless it is gone already.
    fn write_push(&mut self, delivery: Delivery, event: Arc<Event>) -> Result<(), (Option<Arc<Event>>, Unsent)> {
        let Delivery { outbox, key, peer, want, serial, one_way, .. } = delivery;
        let Some(peer) = peer else {
            return Err((Some(event), Unsent::Failed("the consumer gave no reference".to_owned())));
        };
        let Some((body, encoding, phase)) = Body::choose(&event, want) else {
            return Err((Some(event), Unsent::Because(Outcome::Untranslatable)));
        };
        let token = match self.way_to(outbox, key, peer, encoding) {
            Ok(token) => token,
            Err(why) => return Err((Some(event), Unsent::Failed(why))),
        };
        let Outgoings { routes, connections, head, .. } = &mut self.outgoing;
        let (Some(route), Some(connection)) = (routes.get_mut(outbox), connections.get_mut(token)) else {
            return Err((Some(event), Unsent::Because(Outcome::Unreachable)));
        };
        // Nothing says when a one-way push is done but room in the socket, so it waits for that. One that is tried again
        // waits until the first try is gone, or they would pile up where nothing is read.
        if (one_way && !connection.has_room()) || route.still_waits(token, connection.output.taken()) {
            self.block(outbox, token);
            return Err((Some(event), Unsent::Because(Outcome::NoRoom)));
        }
        let (request_id, tell) = connection.next_request(self.now);
        let context;
        let contexts: &[(u32, &[u8])] = if tell {
            context = codeset::context(encoding.chars, encoding.endian);
            &[(ServiceContexts::CODE_SETS, &context)]
        } else {
            &[]
        };
        head.clear();
        message::begin_request(
            head,
            &RequestHead {
                version: encoding.version,
                endian: encoding.endian,
                request_id,
                response: if one_way { Response::None } else { Response::Expected },
                key: &route.target.key,
                operation: route.address.operation.as_bytes(),
                contexts,
                body_phase: Some(phase),
            },
        )
        .finish_with_body(head, body.of(&event).len());
        if one_way {
            route.succeed();
        } else {
            route.unanswered.push_back(Sent { serial, connection: token, request_id });
            connection.pending.insert(request_id, Pending::Push { outbox, serial });
        }
        self.counters.add(Counter::PushesSent, 1);
        match connection.send(head, event, body) {
            Ok(Some(event)) => self.lane.release(event),
            Ok(None) => self.watch(token),
            // Everything pending, this push included, is told that the connection is lost.
            Err(error) => {
                self.lose(token, &error.to_string());
                if one_way {
                    return Err((None, Unsent::Failed(error.to_string())));
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
        let address = self.outgoing.peers.get(&peer).map(Arc::clone).ok_or("the consumer has no address")?;
        let route = Route::new(outbox, key, peer, address).ok_or("the consumer's reference has no IIOP profile")?;
        if let Some(former) = self.outgoing.routes.insert(route) {
            self.outgoing.forget(former);
        }
        Ok(())
    }

    /// How long a consumer's connection may take to be made: its `ConnectTimeout`.
    fn connect_timeout_of(&self, key: ProxyKey) -> Duration {
        let consumers = self.lane.snapshot().channel(key.channel).map_or(&[][..], |channel| channel.consumers());
        consumers
            .binary_search_by_key(&key.proxy, |consumer| consumer.key.proxy)
            .ok()
            .and_then(|index| consumers.get(index))
            .map_or(self.outgoing.connect_timeout, |consumer| consumer.settings.connect_timeout)
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

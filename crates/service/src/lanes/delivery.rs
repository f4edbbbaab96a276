//! The other end of the path: from the engine to a consumer's socket.

use std::sync::Arc;

use engine::{Delivery, Event, OutboxId, Outcome};
use giop::codeset;
use giop::message::{self, RequestHead, Response, ServiceContexts};

use super::outgoing::Pending;
use super::output::Body;
use super::worker::Core;
use crate::counters::Counter;

impl Core {
    /// Sends whatever the engine says is due.
    pub(crate) fn deliver(&mut self) {
        while let Some(delivery) = self.lane.poll_delivery(self.now) {
            self.send(delivery);
        }
    }

    fn send(&mut self, delivery: Delivery) {
        let Delivery { outbox, serial, one_way, .. } = delivery;
        let outcome = match self.write_push(delivery) {
            Ok(()) if one_way => Outcome::Sent,
            Ok(()) => return,
            Err((event, outcome)) => {
                if let Some(event) = event {
                    self.lane.release(event);
                }
                outcome
            }
        };
        self.lane.handle_outcome(outbox, serial, outcome, self.now);
    }

    /// Puts one push on its connection: a fresh request header before the event's bytes as they are.
    ///
    /// # Errors
    /// Says why it could not, and gives the event back unless it is gone already.
    fn write_push(&mut self, delivery: Delivery) -> Result<(), (Option<Arc<Event>>, Outcome)> {
        let Delivery { outbox, key, peer, want, event, serial, one_way, .. } = delivery;
        let Some((body, encoding, phase)) = Body::choose(&event, want) else {
            return Err((Some(event), Outcome::Untranslatable));
        };
        if !self.find_route(peer) {
            return Err((Some(event), Outcome::Unreachable));
        }
        let Ok(token) = self.connection_of(key, peer, encoding.version, encoding.chars) else {
            return Err((Some(event), Outcome::Unreachable));
        };
        let outgoing = &mut self.outgoing;
        let (Some(route), Some(connection)) = (outgoing.routes.get(&peer), outgoing.connections.get_mut(token)) else {
            return Err((Some(event), Outcome::Unreachable));
        };
        if one_way && !connection.output.is_empty() {
            // Nothing says when a one-way push is done but room in the socket, so wait for that.
            connection.blocked.push(outbox);
            return Err((Some(event), Outcome::NoRoom));
        }
        let (request_id, tell) = connection.next_request();
        let context;
        let contexts: &[(u32, &[u8])] = if tell {
            context = codeset::context(encoding.chars, encoding.endian);
            &[(ServiceContexts::CODE_SETS, &context)]
        } else {
            &[]
        };
        let head = &mut outgoing.head;
        head.clear();
        message::begin_request(
            head,
            &RequestHead {
                version: encoding.version,
                endian: encoding.endian,
                request_id,
                response: if one_way { Response::None } else { Response::Expected },
                key: &route.target.key,
                operation: route.address.push_operation.as_bytes(),
                contexts,
                body_phase: Some(phase),
            },
        )
        .finish_with_body(head, body.of(&event).len());
        if !one_way {
            connection.pending.insert(request_id, Pending::Push { outbox, serial, peer });
        }
        self.counters.add(Counter::PushesSent, 1);
        match connection.send(head, event, body) {
            Ok(Some(event)) => self.lane.release(event),
            Ok(None) => self.watch(token),
            // Everything pending, this push included, is told that the connection is lost.
            Err(error) => {
                self.lose(token, &error.to_string());
                if one_way {
                    return Err((None, Outcome::Unreachable));
                }
            }
        }
        Ok(())
    }

    /// Gives up waiting for the reply to a push. The connection stays: others may use it, and a reply that comes all the
    /// same is counted as late.
    pub(crate) fn abandon(&mut self, outbox: OutboxId, serial: u32) {
        self.counters.add(Counter::PushTimeouts, 1);
        let is_it = |pending: &Pending| matches!(pending, Pending::Push { outbox: o, serial: s, .. } if (*o, *s) == (outbox, serial));
        let found = self.outgoing.connections.iter().find_map(|(token, connection)| {
            let (request_id, _) = connection.pending.iter().find(|(_, pending)| is_it(pending))?;
            Some((token, *request_id))
        });
        let Some((token, request_id)) = found else { return };
        let Some(connection) = self.outgoing.connections.get_mut(token) else { return };
        connection.pending.remove(&request_id);
        let version = connection.endpoint.version;
        message::cancel_request(connection.output.bytes(), version, super::mail::OWN_ENDIAN, request_id);
        self.flush_outgoing(token);
    }
}

//! Delivery of events, from the engine to a consumer's socket.

use core::time::Duration;
use std::sync::Arc;

use corba::event::{self, Source};
use engine::{Delivery, Event, OutboxId, Outcome, OutputForm, Peer, ProxyKey};
use giop::cdr::{CharSet, Encoding, Version};
use giop::realtime::PriorityModel;

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::output::Body;
use crate::lane::io::slots::Token;
use crate::protocols::giop::losses::Pending;
use crate::protocols::giop::outgoing::{Limits, Outgoings, Scratch};
use crate::protocols::giop::routes::{ADDRESSES_MAX, Endpoint, Head, PushPriority, Route, Sent, Target};

/// Output of a connection above which no sequence is copied to it: the copies are not in the channel's budget, so that sequences wait in
/// their outboxes instead.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// Why a push was not sent.
enum Unsent {
    /// Report this outcome to the engine.
    Because(Outcome),
    /// The push failed, and is tried again.
    Failed(String),
}

impl Outgoings {
    /// Sends events to their consumer, and empties their list.
    pub(crate) fn send_push(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>, cx: &mut Context) {
        let Delivery { outbox, serial, one_way, .. } = *delivery;
        let written = self.write_push(delivery, events, cx);
        cx.release_events(events);
        if written.is_ok() {
            self.note_left_out(outbox, serial, cx);
        }
        let outcome = match written {
            Ok(()) if one_way => Outcome::Sent,
            Ok(()) => return,
            Err(Unsent::Because(outcome)) => outcome,
            Err(Unsent::Failed(why)) => return self.fail_push(outbox, serial, Outcome::Unreachable, || why, cx),
        };
        cx.lane.handle_outcome(outbox, serial, outcome, cx.clock.now);
    }

    /// Drops the events that could not be translated into the last sequence; only the others count as delivered.
    pub(super) fn note_left_out(&mut self, outbox: OutboxId, serial: u32, cx: &mut Context) {
        let left_out = &mut self.scratch.left_out;
        if !left_out.is_empty() {
            cx.counters.add(Counter::LeftOut, left_out.len() as u64);
            cx.lane.leave_out(outbox, serial, left_out, cx.clock.now);
            left_out.clear();
        }
    }

    /// Puts one push on its connection: a fresh request header before the event's bytes as they are, or before a sequence of events. An
    /// event that the connection keeps is taken out of `events`.
    ///
    /// # Errors
    /// The reason why the push was not sent.
    fn write_push(
        &mut self,
        delivery: &Delivery,
        events: &mut Vec<Arc<Event>>,
        cx: &mut Context,
    ) -> Result<(), Unsent> {
        let Delivery { outbox, key, peer, output_form, serial, one_way, repeated, correlated, .. } = *delivery;
        let peer = peer.ok_or_else(|| Unsent::Failed("the consumer gave no reference".to_owned()))?;
        if self.awaits_loss_report(outbox) {
            // Lost pushes are put back first: they come before this one.
            return Err(Unsent::Because(Outcome::NoRoom));
        }
        let (body, encoding, phase) =
            of_push(events, output_form, correlated.is_some()).ok_or(Unsent::Because(Outcome::Untranslatable))?;
        let token = self.way_to(outbox, key, peer, encoding, cx).map_err(Unsent::Failed)?;
        let Outgoings { routes, connections, scratch: Scratch { left_out, .. }, .. } = self;
        left_out.clear();
        let (Some(route), Some(connection)) = (routes.get_mut(outbox), connections.get_mut(token)) else {
            return Err(Unsent::Because(Outcome::Unreachable));
        };
        // A one-way push is done when the socket has room, so it waits for that. A repeated one waits until the first has left the
        // output, or they would pile up where nothing is read.
        let is_full = body.is_none() && connection.output.queued_bytes() >= COPIED_BYTES_MAX;
        let is_behind = is_full || connection.waits_for_reader();
        let rests = cx.io.quotas.has_been_sent_enough(connection.rounds.quota);
        if (one_way && !connection.has_room())
            || rests
            || is_behind
            || route.still_waits(token, connection.output.taken())
        {
            self.block(outbox, token);
            if rests {
                cx.counters.add(Counter::AddressBudgetsSpent, 1);
                self.rest(token);
            }
            return Err(Unsent::Because(Outcome::NoRoom));
        }
        let before = connection.output.queued_bytes();
        let (event, is_batch) = (events.first().map_or(0, |event| event.serial), events.len() > 1);
        let (request_id, tell) = connection.next_request(cx.clock.now);
        let priority = route.priority.and_then(|priority| priority.of(events));
        connection.output.lend(&mut cx.io.spares);
        #[cfg(test)]
        let from = connection.output.bytes().len();
        let starts_flow = route.in_order && !one_way && route.unanswered.is_empty();
        let head = Head { encoding, phase, one_way, priority, tell, starts_flow };
        match body {
            Some(body) => {
                let Some(only) = events.pop() else { return Err(Unsent::Because(Outcome::Untranslatable)) };
                route.append_head(&head, connection.output.bytes(), request_id, body.of(&only).len());
                events.extend(connection.output.push_event(only, body));
            }
            None => {
                let (format, buffer) = ((output_form, repeated, correlated), connection.output.bytes());
                let written = route.append_batch(&head, buffer, request_id, events, format, left_out);
                let written = written.map_err(|_| Unsent::Because(Outcome::Untranslatable))?;
                cx.counters.add(Counter::SequenceEventsSent, written.into());
            }
        }
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::SecondDelivery) {
            connection.output.bytes().extend_from_within(from..);
        }
        if one_way {
            route.succeed();
        } else {
            route.unanswered.push_back(Sent { serial, connection: token, request_id, event, is_batch });
            connection.pending.insert(request_id, Pending::Push { outbox, serial });
        }
        cx.io.quotas.note_sent(connection.rounds.quota, connection.output.queued_bytes() - before);
        let unread = connection.note_added(cx.clock.now);
        // An outbox that goes on for another reason does not wait for room any more.
        if let Some(waited_for) = route.waits_for.take() {
            self.stop_waiting(waited_for);
        }
        cx.count_unread(unread);
        self.note_push(token, one_way, cx);
        Ok(())
    }

    /// The connection for a consumer's events of this encoding; made if there is none.
    ///
    /// # Errors
    /// The reason why there is none.
    fn way_to(
        &mut self,
        outbox: OutboxId,
        key: ProxyKey,
        peer: Peer,
        encoding: Encoding,
        cx: &mut Context,
    ) -> Result<Token, String> {
        let Encoding { version, chars, .. } = encoding;
        if self.routes.get_mut(outbox).is_none_or(|route| route.peer != peer) {
            self.find_route(outbox, key, peer, cx)?;
        }
        let route = self.routes.get_mut(outbox).ok_or("the consumer has no address")?;
        if let Some(why) = route.trouble.lost.take() {
            return Err(why);
        }
        let kept = route.connection(version, chars);
        let kept = kept.and_then(|token| Some((token, self.connections.get(token)?.is_accepted())));
        // A consumer that has offered another connection since may have lost that one without a word, as behind a NAT that forgets.
        let is_left = |is_accepted: bool| {
            is_accepted
                && route.unanswered.is_empty()
                && route.address.offered.connections().next() != route.last_offered
        };
        let kept = match kept {
            Some((token, is_accepted)) if !is_left(is_accepted) => return Ok(token),
            kept => kept.map(|(token, _)| token),
        };
        if let Some(token) = self.accepted_for(outbox, (version, chars), None).or(kept) {
            return Ok(token);
        }
        let by = self.routes.get_mut(outbox).and_then(|route| route.address.by.clone());
        let timeout = self.connect_timeout_of(key, cx);
        self.aim_again(outbox, cx);
        for _ in 0..ADDRESSES_MAX {
            let Some(route) = self.routes.get_mut(outbox) else { break };
            let (endpoint, timeout) =
                (route.target.endpoint(version, chars), route.target.timeout_per_address(timeout));
            match self.connect(endpoint, timeout, by.as_ref(), cx) {
                Ok(token) => {
                    if let Some(route) = self.routes.get_mut(outbox) {
                        route.set_connection(version, chars, token);
                    }
                    return Ok(token);
                }
                Err(why) if !self.aim_elsewhere(outbox, cx) => return Err(why),
                Err(_) => {}
            }
        }
        Err("none of its addresses can be called".to_owned())
    }

    /// The connection that a consumer has offered for calls to it, if there is one but for `but`. Its pushes go there from now on.
    fn accepted_for(
        &mut self,
        outbox: OutboxId,
        (version, chars): (Version, CharSet),
        but: Option<Token>,
    ) -> Option<Token> {
        let route = self.routes.get_mut(outbox).filter(|route| !route.is_forwarded)?;
        let address = Arc::clone(&route.address);
        route.last_offered = address.offered.connections().next();
        let token = self.find_accepted(&address.offered, (version, chars), but)?;
        let (route, home) = (self.routes.get_mut(outbox)?, Target::of(&address.ior)?);
        if route.target != home || but.is_some() {
            route.aim(home, false);
        }
        route.set_connection(version, chars, token);
        Some(token)
    }

    /// Whether a consumer has offered a connection that is open.
    pub(crate) fn has_accepted_for(&mut self, outbox: OutboxId) -> bool {
        let route = self.routes.get_mut(outbox).filter(|route| !route.is_forwarded);
        let Some(address) = route.map(|route| Arc::clone(&route.address)) else { return false };
        self.find_accepted_for(Some(&address.offered), &address.ior).is_some()
    }

    /// Before a new connection: aims at another address of the consumer's reference, if there is one and the last was not reached.
    fn aim_again(&mut self, outbox: OutboxId, cx: &mut Context) {
        let Outgoings { routes, reachability, .. } = self;
        if let Some(route) = routes.get_mut(outbox)
            && !route.is_forwarded
            && route.target.alternatives > 1
            && let Some((target, left_out)) = reachability.choose(&route.address.ior, cx.clock.now)
        {
            route.tried_since.get_or_insert(cx.clock.now);
            cx.counters.add(Counter::ReferenceAddressesLeftOut, left_out as u64);
            route.aim(target, false);
        }
    }

    /// Aims at another address of a consumer's reference, if the one in use could not be reached. False if all have failed: they are tried
    /// again with the next push.
    pub(crate) fn aim_elsewhere(&mut self, outbox: OutboxId, cx: &mut Context) -> bool {
        let Outgoings { routes, reachability, upkeep, .. } = self;
        let Some(route) = routes.get_mut(outbox).filter(|route| !route.is_forwarded) else { return false };
        let (now, since) = (cx.clock.now, route.tried_since.take());
        let other = since.and_then(|since| reachability.other_than(&route.target, &route.address.ior, since, now));
        let Some(target) = other else { return false };
        route.tried_since = since;
        route.aim(target, false);
        upkeep.stale = true;
        cx.counters.add(Counter::AlternativeAddresses, 1);
        true
    }

    /// Finds the route to a consumer that has not been pushed to before.
    fn find_route(&mut self, outbox: OutboxId, key: ProxyKey, peer: Peer, cx: &mut Context) -> Result<(), String> {
        let address = self.peers.get(peer).map(Arc::clone).ok_or("the consumer has no address")?;
        let propagates =
            address.ior.priority_model().is_some_and(|policy| policy.model == PriorityModel::ClientPropagated);
        let mut route = Route::new(outbox, key, peer, address).ok_or("the consumer's reference has no IIOP profile")?;
        route.priority = propagates.then(|| self.push_priority(key, cx));
        if let Some(former) = self.routes.insert(route) {
            self.forget(former);
        }
        Ok(())
    }

    /// Priority of pushes to a consumer. It is fixed while the consumer is connected, as its pool is.
    fn push_priority(&self, key: ProxyKey, cx: &Context) -> PushPriority {
        let declared = match cx.consumer(key).and_then(|consumer| consumer.priority_model) {
            Some((engine::PriorityModel::ServerDeclared, priority)) => Some(priority),
            Some((engine::PriorityModel::ClientPropagated, _)) | None => None,
        };
        let of_lane = cx.lane.snapshot().lane(cx.lane.id()).map(|lane| lane.priority);
        PushPriority { declared, of_lane }
    }

    /// Time limit to connect to a consumer: its `ConnectTimeout`.
    fn connect_timeout_of(&self, key: ProxyKey, cx: &Context) -> Duration {
        cx.consumer(key).map_or(self.limits.connect_timeout, |consumer| consumer.settings.connect_timeout)
    }

    /// Stops waiting for the replies to an outbox's pushes, or for room for them. The connection stays: others may use it, and a late reply
    /// is counted. But a connection that has been silent for long may be dead, and is replaced.
    pub(crate) fn abandon(&mut self, outbox: OutboxId, cx: &mut Context) {
        cx.counters.add(Counter::PushTimeouts, 1);
        self.note_failure(outbox, || "no reply in time".to_owned(), cx);
        for token in self.withdraw(outbox, 0, cx) {
            let Outgoings { connections, limits: Limits { silence, .. }, .. } = self;
            let Some(connection) = connections.get(token) else { continue };
            if cx.clock.now.since(connection.silent_since) >= *silence {
                let Endpoint { version, chars, .. } = connection.endpoint;
                if !connection.is_accepted() {
                    self.lose(token, "nothing was heard on the connection for long", cx);
                    continue;
                }
                // Its client may have other requests on it; keep-alive shows whether the host is there.
                if self.accepted_for(outbox, (version, chars), Some(token)).is_some() {
                    continue;
                }
            }
            let Outgoings { routes, connections, .. } = self;
            let Some(connection) = connections.get(token) else { continue };
            if let Some(route) = routes.get_mut(outbox) {
                route.trouble.given_up = Some((token, connection.output.end()));
            }
        }
    }
}

/// Bytes of a push: those of its one event, or `None` inside for a sequence; with their encoding and position modulo 8. `None` if no event
/// could be translated for the consumer.
pub(crate) fn of_push(
    events: &[Arc<Event>],
    output_form: OutputForm,
    is_correlated: bool,
) -> Option<(Option<Body>, Encoding, usize)> {
    if event::takes_batches(output_form) {
        return Some((None, event::batch_encoding(events, output_form)?, 0));
    }
    let (body, encoding, phase) = choose(events.first()?, output_form)?;
    if is_correlated {
        // Its header says which set it belongs to.
        return Some((None, encoding, 0));
    }
    Some((Some(body), encoding, phase))
}

/// Bytes for a consumer, their encoding, and their position modulo 8. `None` if the event could not be translated for the consumer.
fn choose(event: &Event, output_form: OutputForm) -> Option<(Body, Encoding, usize)> {
    let (body, tag) = match event::source_for(event, output_form)? {
        Source::Native => (Body::Native, event.tag),
        Source::Alternate(at) => (Body::Alternate(at), event.alternates.get(at)?.tag),
    };
    Some((body, sent_as(tag, output_form), event::phase_of(tag)))
}

/// Encoding of a message that carries bytes of this tag to a consumer of this output form.
fn sent_as(tag: u64, output_form: OutputForm) -> Encoding {
    Encoding { version: event::version_of(output_form), ..event::encoding_of(tag) }
}

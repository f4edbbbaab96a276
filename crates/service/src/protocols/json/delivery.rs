//! Events on their way to clients, and all that is written.

use std::sync::Arc;

use engine::{Delivery, Event, Outcome, Peer, ProxyKey};

use super::{Protocol, Proxy};
use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::io::output::{Body, Flushed};
use crate::lane::io::slices::Work;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};
use crate::protocols::Tag;

/// Octets that are written to one connection in one go.
const BYTES_PER_ROUND: usize = 64 << 10;

impl Protocol {
    /// A proxy that can be used.
    pub(super) fn open_proxy(&self, peer: Peer) -> Option<ProxyKey> {
        self.proxies.get(&peer)?.key
    }

    /// What is known of a proxy that is not needed any more.
    pub(super) fn remove_proxy(&mut self, peer: Peer) -> Option<Proxy> {
        self.proxies.remove(&peer)
    }

    /// Notes that a proxy is made, or will not be. Gives what was known of it; nothing if no client waits for it any more.
    pub(super) fn note_registered(&mut self, peer: Peer, key: Option<ProxyKey>) -> Option<Proxy> {
        if key.is_none() {
            return self.remove_proxy(peer);
        }
        let proxy = self.proxies.get_mut(&peer)?;
        proxy.key = key;
        let known = *proxy;
        proxy.blocked = None;
        Some(known)
    }

    /// Sends an event to the client that it is for. The list is empty then.
    #[inline(never)]
    pub(crate) fn send_line(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>, cx: &mut Context) {
        let outcome = self.write_line(delivery, events, cx);
        cx.release_events(events);
        cx.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, cx.clock.now);
    }

    /// Puts an event's line on its connection. An event that the connection keeps is taken out of `events`.
    fn write_line(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>, cx: &mut Context) -> Outcome {
        let Protocol { proxies, connections, .. } = self;
        let Some((peer, proxy)) = delivery.peer.and_then(|peer| Some((peer, proxies.get_mut(&peer)?))) else {
            return Outcome::Gone;
        };
        let token = proxy.connection;
        let Some(connection) = connections.get_mut(token) else { return Outcome::Gone };
        // A subscriber gets the answer to its request before its first event.
        let is_open = proxy.key.is_some();
        if !is_open || !connection.has_room() {
            if is_open && proxy.blocked.is_none() {
                connection.proxies.blocked.push(peer);
            }
            proxy.blocked = Some(delivery.outbox);
            return Outcome::NoRoom;
        }
        let Some(event) = events.pop() else { return Outcome::Untranslatable };
        let Some(index) = event.alternates.position(delivery.output_form) else {
            events.push(event);
            return Outcome::Untranslatable;
        };
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::LostLine) {
            events.push(event);
            return Outcome::Sent;
        }
        connection.output.lend(&mut cx.io.spares);
        events.extend(connection.output.push_event(event, Body::Alternate(index)));
        cx.counters.add(Counter::PushesSent, 1);
        self.note_due(token);
        Outcome::Sent
    }

    /// Writes what is due, as far as addresses have not had their slices of the round, and lets go of what was written.
    pub(crate) fn flush_json(&mut self, cx: &mut Context) {
        self.flush_json_due(cx);
        cx.release_written();
    }

    fn flush_json_due(&mut self, cx: &mut Context) {
        for _ in 0..self.due.len() {
            let Some(token) = self.due.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(token) else { continue };
            if !cx.io.slices.binds() {
                self.flush_json_connection(token, cx);
                continue;
            }
            let slice = connection.slice;
            if !cx.io.slices.may_write(slice) {
                self.due.push_back(token);
                continue;
            }
            let began = cx.clock.time();
            self.flush_json_connection(token, cx);
            cx.io.slices.charge(slice, cx.clock.time().since(began));
        }
    }

    /// Writes what is due on a connection, has it read on, and tells the poll what to watch for.
    fn flush_json_connection(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.is_due = false;
        let flushed = connection.output.flush(&mut connection.stream, &mut cx.io.spares, BYTES_PER_ROUND);
        let Ok(flushed) = flushed else { return self.close_json(token, cx) };
        let unread = connection.note_unread(cx.clock.now);
        cx.count_unread(unread);
        self.look_on(token, cx);
        let Some(connection) = self.connections.get_mut(token) else { return };
        if flushed == Flushed::All && (connection.closing.is_some() || connection.is_done()) {
            return self.close_json(token, cx);
        }
        let read = !connection.is_paused() && !connection.input.has_ended && !connection.input.is_stalled;
        let interest = Interest { read, write: flushed == Flushed::Full, end: false };
        if interest != connection.interest {
            connection.interest = interest;
            let socket = Socket::Incoming(Tag::Json, token);
            if cx.io.poll.change(connection.stream.tcp(), socket, interest).is_err() {
                return self.close_json(token, cx);
            }
        }
        if read && connection.stream.has_more() && !core::mem::replace(&mut connection.is_deferred, true) {
            let ready = Ready::to_read(Socket::Incoming(Tag::Json, token));
            cx.io.slices.defer(connection.slice, Work::Ready(ready));
        }
        if flushed == Flushed::BudgetSpent {
            self.note_due(token);
        }
        self.unblock_json(token, cx);
    }

    /// Resumes outboxes that waited for room on a connection.
    fn unblock_json(&mut self, token: Token, cx: &mut Context) {
        let Protocol { connections, proxies, .. } = self;
        let Some(connection) = connections.get_mut(token).filter(|connection| connection.has_room()) else { return };
        for peer in connection.proxies.blocked.drain(..) {
            if let Some(outbox) = proxies.get_mut(&peer).and_then(|proxy| proxy.blocked.take()) {
                cx.lane.resume_outbox(outbox, cx.clock.now);
                cx.deliveries.undelivered = true;
            }
        }
    }

    /// Has lines looked at that were read while a connection was paused, if it is not any more.
    fn look_on(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get(token) else { return };
        if connection.input.is_stalled && !connection.is_paused() {
            self.queue_json_backlog(token, cx);
        }
    }

    /// Something has come about for which a connection was perhaps paused.
    pub(super) fn resume_json(&mut self, token: Token, cx: &mut Context) {
        self.look_on(token, cx);
        self.note_due(token);
    }
}

//! Connection of a client: input, output, and the proxies of the connection.
//!
//! Events are written to clients here, as are all answers.

use std::net::SocketAddr;
use std::sync::Arc;

use accounts::{Account, Charge, Resource, Spent};
use engine::{Correlated, Delivery, Event, Outcome, Peer, ProxyKey, Time};
use hashbrown::HashMap;
use json::{ChannelRef, Limits, Publish, Session};

use super::{Protocol, Proxy};
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::entrance::Arrival;
use crate::lane::io::output::{Body, Flushed, Output};
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::lane::io::unread::Unread;
use crate::protocols::Tag;

/// Maximum unanswered requests before the connection is not read any more, and maximum octets of them.
const UNANSWERED_MAX: u32 = 64;
const UNANSWERED_BYTES_MAX: usize = 1 << 20;
/// Maximum unread octets of output before a client's requests are not read any more.
const UNREAD_MAX: usize = 1 << 20;
/// Octets of an incomplete line that are not charged: the number of connections bounds them.
const UNCHARGED: usize = 16 << 10;

/// A client's connection.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) address: SocketAddr,
    /// Whether its subscriptions are an observer's.
    pub(super) looks_on: bool,
    /// The connection's place, and its client's account.
    place: Charge,
    pub(crate) input: Input,
    pub(crate) output: Output,
    unread: Unread,
    pub(crate) proxies: Proxies,
    pub(super) rounds: Rounds,
    /// Since when the connection is closing: it is closed when its output is written.
    pub(super) closing: Option<Time>,
    /// When the last input arrived.
    pub(super) heard: Time,
}

/// Input of a client.
pub(crate) struct Input {
    pub(super) session: Session,
    /// Charge for an incomplete line.
    incomplete: Option<Charge>,
    /// Since when the rest of a line is pending.
    pub(super) began: Option<Time>,
    /// Unanswered requests, and their octets.
    unanswered: u32,
    unanswered_bytes: usize,
    /// Whether lines may have been read but not handled.
    pub(super) is_stalled: bool,
    /// Whether the client's stream has ended.
    pub(super) has_ended: bool,
}

/// Proxies of a connection, open or requested.
#[derive(Default)]
pub(crate) struct Proxies {
    /// Subscriptions by their ids.
    pub(super) subscriptions: HashMap<u64, Peer>,
    /// Proxies for publishing, by channel, as its client names that.
    pub(super) suppliers: HashMap<ChannelRef, Peer>,
    /// An event that waits for such a proxy.
    pub(super) waiting: Option<Box<Publish>>,
    /// Consumers with outboxes that wait for room.
    pub(super) blocked: Vec<Peer>,
}

impl Proxies {
    /// Whether its client has made no request for a proxy yet.
    pub(super) fn is_new(&self) -> bool {
        self.subscriptions.is_empty() && self.suppliers.is_empty() && self.waiting.is_none()
    }
}

impl Connection {
    pub(super) fn new(arrival: Arrival, limits: Limits) -> Self {
        let Arrival { stream, address, place, quota, looks_on, at } = arrival;
        Self {
            stream,
            address,
            looks_on,
            place,
            input: Input {
                session: Session::new(limits),
                incomplete: None,
                began: None,
                unanswered: 0,
                unanswered_bytes: 0,
                is_stalled: false,
                has_ended: false,
            },
            output: Output::default(),
            unread: Unread::default(),
            proxies: Proxies::default(),
            rounds: Rounds::new(quota, Interest::READ),
            closing: None,
            heard: at,
        }
    }

    /// Since when the connection is idle; `None` if anything is pending. A client that publishes or subscribes has a proxy.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        let Proxies { subscriptions, suppliers, waiting, .. } = &self.proxies;
        let has_proxies = !subscriptions.is_empty() || !suppliers.is_empty() || waiting.is_some();
        let is_busy = self.input.unanswered > 0 || !self.output.is_empty() || self.closing.is_some();
        (!has_proxies && !is_busy).then_some(self.heard)
    }

    /// The account that is charged for this client.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// Whether lines are not read for now, so that the client's pending work stays bounded.
    pub(super) fn is_paused(&self) -> bool {
        self.closing.is_some()
            || self.proxies.waiting.is_some()
            || self.input.unanswered >= UNANSWERED_MAX
            || self.input.unanswered_bytes > UNANSWERED_BYTES_MAX
            || self.output.queued_bytes() > UNREAD_MAX
            || self.unread.waits()
    }

    /// Whether events may be written for it: the socket had taken everything, and not too much was gathered since.
    pub(super) fn has_room(&self) -> bool {
        !self.rounds.interest.write
            && self.closing.is_none()
            && !self.unread.waits()
            && self.output.queued_bytes() < Budget::GATHERED.bytes
    }

    /// Notes that a request of so many octets is answered later.
    pub(super) fn await_answer(&mut self, bytes: usize) {
        self.input.unanswered += 1;
        self.input.unanswered_bytes += bytes;
    }

    /// Notes that a request was answered later, as [`Self::await_answer`] had noted.
    pub(super) fn note_answer(&mut self, bytes: usize) {
        self.input.unanswered = self.input.unanswered.saturating_sub(1);
        self.input.unanswered_bytes = self.input.unanswered_bytes.saturating_sub(bytes);
    }

    /// Whether the client has sent everything, has all answers, and gets no more events.
    pub(super) fn is_done(&self) -> bool {
        self.input.has_ended
            && !self.input.is_stalled
            && self.input.unanswered == 0
            && self.proxies.waiting.is_none()
            && self.proxies.subscriptions.is_empty()
            && self.output.is_empty()
    }

    /// Charges the client for its unread output.
    ///
    /// # Errors
    /// The connection has to wait from now on.
    pub(super) fn note_unread(&mut self, now: Time) -> Result<(), Spent> {
        self.unread.note(self.place.account(), self.output.own_bytes(), self.output.taken(), now)
    }

    /// Charges an incomplete line, and notes since when its rest is pending.
    ///
    /// # Errors
    /// The charge is refused.
    pub(super) fn charge_incomplete(&mut self, now: Time) -> Result<(), Spent> {
        let incomplete = self.input.session.retained_bytes();
        let is_incomplete = incomplete > 0 && !self.input.is_stalled;
        self.input.began = if is_incomplete { self.input.began.or(Some(now)) } else { None };
        if incomplete <= UNCHARGED {
            self.input.incomplete = None;
            return Ok(());
        }
        match &mut self.input.incomplete {
            Some(charge) => charge.resize(incomplete as u64),
            None => {
                self.input.incomplete =
                    Some(self.place.account().charge(Resource::IncompleteBytes, incomplete as u64)?);
                Ok(())
            }
        }
    }

    /// Notes that a line is complete: the time limit of the next begins anew.
    pub(super) fn note_line(&mut self) {
        self.input.began = None;
    }
}

impl Protocol {
    /// The key of a proxy that is open.
    pub(super) fn open_proxy(&self, peer: Peer) -> Option<ProxyKey> {
        self.proxies.get(&peer)?.key
    }

    /// Removes a proxy that is not needed any more.
    pub(super) fn remove_proxy(&mut self, peer: Peer) -> Option<Proxy> {
        self.proxies.remove(&peer)
    }

    /// Notes that a requested proxy was made or refused. Returns the proxy; `None` if no client waits for it any more.
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

    /// Sends an event to its client, and empties the list.
    #[inline(never)]
    pub(crate) fn send_line(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>, cx: &mut Context) {
        let outcome = self.write_line(delivery, events, cx);
        cx.release_events(events);
        cx.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, cx.clock.now);
    }

    /// Writes an event's line to its connection. An event that the connection keeps is taken out of `events`.
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
        match delivery.correlated {
            None => events.extend(connection.output.push_event(event, Body::Alternate(index))),
            Some(Correlated { set, index: place }) => {
                // The line is the same for all consumers, and the set for this one: it stands behind the event.
                ::json::event::write_with_set(connection.output.bytes(), Body::Alternate(index).of(&event), set, place);
                events.push(event);
            }
        }
        cx.counters.add(Counter::PushesSent, 1);
        self.note_due(token, cx);
        Outcome::Sent
    }

    /// Writes output of a connection, resumes reading it, and updates its interest in the poll.
    pub(crate) fn flush_json(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.rounds.is_due = false;
        let flushed = connection.output.flush(&mut connection.stream, &mut cx.io.spares, Budget::STREAM.bytes);
        let Ok(flushed) = flushed else { return self.close_json(token, cx) };
        let unread = connection.note_unread(cx.clock.now);
        cx.count_unread(unread);
        self.look_on(token, cx);
        let Some(connection) = self.connections.get_mut(token) else { return };
        if flushed == Flushed::All && (connection.closing.is_some() || connection.is_done()) {
            return self.close_json(token, cx);
        }
        let read = !connection.is_paused() && !connection.input.has_ended && !connection.input.is_stalled;
        let Connection { stream, rounds, .. } = connection;
        if !cx.io.watch((Socket::Incoming(Tag::Json, token), stream, rounds), flushed, (read, false)) {
            return self.close_json(token, cx);
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

    /// Queues unhandled lines of a connection that was paused, if it is not any more.
    fn look_on(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.connections.get(token) else { return };
        if connection.input.is_stalled && !connection.is_paused() {
            self.queue_json_backlog(token, cx);
        }
    }

    /// Resumes a connection that may have been paused.
    pub(super) fn resume_json(&mut self, token: Token, cx: &mut Context) {
        self.look_on(token, cx);
        self.note_due(token, cx);
    }
}

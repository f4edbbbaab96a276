//! Flows out of links: a durable consumer of the near channel, which outlives connections, and its events in flight.

use core::num::NonZeroU64;
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;

use accounts::Account;
use corba::event::FORM_STRUCTURED;
use corba::{LocalChannel, LocalProxy, Part};
use engine::{Delivery, Event, EventType, OutboxId, Outcome, ProxyKey, Time};
use links::hops::{Forwarding, may_forward, onward};
use links::wire::{self, Frame, Open};
use links::{Limits, Origin, Sender};

use super::datagrams::{DatagramSettings, Going, Grouped, Groups};
use super::forgetting::LastAcknowledged;
use super::session::Connection;
use super::stalls::Stall;
use super::{Flow, Links, OUTPUT_FORM, OWN, Protocol, served_durable};
use crate::counters::{Block, Counter};
use crate::lane::context::Context;
use crate::lane::intake::acknowledgements::is_of_lanes;
use crate::lane::io::output::Body;
use crate::lane::io::slots::Token;
use crate::protocols::local_proxies::Action;

/// Octets queued on a connection beyond which its flows are blocked.
const GATHERED_MAX: usize = 256 << 10;

/// A flow out.
pub(crate) struct Outflow {
    pub(super) channel: String,
    /// The name of the durable consumer.
    pub(super) durable: String,
    /// The number of the link in this service's list. `None` if another service made the link.
    pub(super) link: Option<usize>,
    /// The limits of its backlog.
    backlog: Backlog,
    key: Option<ProxyKey>,
    /// The stored consumer of a flow that another service opened in an earlier process.
    pub(super) stored: Option<ProxyKey>,
    /// The connection, and the flow's number on it.
    pub(super) connection: Option<(Token, u32)>,
    /// Whether the far side has opened the flow.
    is_open: bool,
    /// The outbox, once something was delivered from it; `is_blocked`: it waits for room.
    pub(super) outbox: Option<OutboxId>,
    is_blocked: bool,
    /// Since when the flow is open, or closed.
    pub(super) since: Time,
    pub(super) sender: Sender<Item>,
    /// The flow's membership in a group, if it uses datagrams.
    pub(super) group: Option<Grouped>,
    /// The identity of the far service, once known; and the incarnation that was sent the events in flight.
    pub(super) far: Option<u64>,
    incarnation: Option<u64>,
    /// For a flow that another service opened: since when that service is away, if it is.
    pub(super) served: Option<Option<Time>>,
    /// Permitted event types, all if empty, and the constraint on them; `principal` is the client that requested them.
    pub(super) types: Vec<EventType>,
    constraint: String,
    pub(super) principal: (Option<IpAddr>, Option<String>),
    /// The far side's subscriptions, as set at the consumer since it was connected: all types, or these.
    pub(super) subscribed: Option<(bool, Vec<EventType>)>,
    /// The far side's reason for a refusal, if it gave one.
    pub(super) why: String,
    pub(super) subscriptions: String,
    pub(super) counts: Counts,
    pub(super) stall: Option<Stall>,
    /// Whether a new process of the far side has not confirmed yet that it knows the acknowledged events.
    is_unchecked: bool,
    pub(super) last_acknowledged: LastAcknowledged,
    /// Number of acknowledged events that the far side has lost.
    pub(super) forgotten: u64,
}

/// The limits of a flow's backlog.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backlog {
    pub(super) bytes_max: u64,
    pub(super) refuses: bool,
}

/// Counts of a flow's events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    pub(super) rejected: u64,
    pub(super) loops: u64,
}

/// An event in flight.
pub(super) struct Item {
    pub(super) outbox: OutboxId,
    pub(super) serial: u32,
    pub(super) event: Arc<Event>,
    body: Body,
    tag: u64,
    pub(super) is_persistent: bool,
}

impl Item {
    /// The event's frame, without its number in the flow.
    fn frame(&self, flow: u32, (own, incarnation): (u64, u64), now: Time) -> wire::Event<'_> {
        let Self { event, body, tag, is_persistent, .. } = self;
        let age_ns = now.since(event.arrived) + Duration::from_millis(event.older_by_ms.into());
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (supplied_priority, supplied_timeout) = event.supplied();
        // An event without an origin, from before origins were assigned, is identified by its serial on the lane.
        let unnumbered = Origin { service: own, era: incarnation ^ u64::MAX, number: event.serial + 1 };
        let origin = event.origin();
        let hops = origin.and_then(|origin| onward(origin.service, &origin.hops, own)).unwrap_or_default();
        wire::Event {
            flow,
            sequence: 0,
            origin: origin.map_or(unnumbered, |&engine::Origin { service, era, number, .. }| Origin {
                service,
                era,
                number,
            }),
            hops,
            is_persistent: *is_persistent,
            form: u32::from(FORM_STRUCTURED.0),
            tag: *tag,
            priority: Some(event.priority.unwrap_or(supplied_priority)),
            thread_priority: event.thread_priority,
            timeout_ns: event.timeout.or(supplied_timeout).map(nanos),
            start: None,
            stop: None,
            age_ns: nanos(age_ns),
            domain: &[],
            name: &[],
            bytes: body.of(event),
        }
    }
}

impl Outflow {
    pub(super) fn new(
        channel: String,
        durable: String,
        (link, backlog): (Option<usize>, Backlog),
        limits: Limits,
    ) -> Self {
        Self {
            channel,
            durable,
            link,
            backlog,
            key: None,
            stored: None,
            connection: None,
            is_open: false,
            outbox: None,
            is_blocked: false,
            since: Time(0),
            sender: Sender::new(limits),
            group: None,
            far: None,
            incarnation: None,
            served: None,
            types: Vec::new(),
            constraint: String::new(),
            principal: (None, None),
            subscribed: None,
            why: String::new(),
            subscriptions: "everything".to_owned(),
            counts: Counts::default(),
            stall: None,
            is_unchecked: false,
            last_acknowledged: LastAcknowledged::default(),
            forgotten: 0,
        }
    }

    /// Restores a flow that another service opened in an earlier process. That service is away.
    pub(super) fn served_before(
        (channel, durable, stored): (String, String, ProxyKey),
        backlog: Backlog,
        limits: Limits,
    ) -> Self {
        let served = Some(Some(Time(0)));
        Self { served, stored: Some(stored), ..Self::new(channel, durable, (None, backlog), limits) }
    }

    /// The name that the other service gave the link.
    pub(super) fn served_name(&self) -> &str {
        let of_own = self.durable.strip_prefix(OWN);
        of_own.or_else(|| self.durable.split_once(": ").map(|(_, name)| name)).unwrap_or(&self.durable)
    }

    pub(super) const fn is_registered(&self) -> bool {
        self.key.is_some()
    }

    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) const fn key(&self) -> Option<ProxyKey> {
        self.key
    }

    pub(super) const fn sender(&self) -> &Sender<impl Sized + use<>> {
        &self.sender
    }

    pub(super) fn in_flight(&self) -> usize {
        self.sender.in_flight() + self.group.as_ref().map_or(0, |group| group.member.in_flight())
    }

    /// Whether the outbox waits for room, and there is some.
    fn can_go_on(&self) -> bool {
        self.is_blocked && self.is_open && self.sender.has_room(0)
    }

    /// Decides the path of the next event. A datagram is sent at once if the event has not been sent to the group yet.
    fn going(
        &mut self,
        at: Token,
        frame: &wire::Event<'_>,
        (limits, admitted, now): (Limits, Time, Time),
        (groups, settings, counters): (&mut Groups, &DatagramSettings, &Block),
    ) -> Going {
        let is_idle = self.sender.in_flight() == 0 && self.sender.unsent() == 0;
        let Some(group) = self.group.as_mut().filter(|_| frame.fits(limits)) else { return Going::BySession };
        let going = groups.place(at, group, frame, (admitted, is_idle, now), (settings, counters));
        match going {
            Going::BySession => {}
            Going::Later => self.is_blocked = true,
            Going::Numbered(_) => {
                self.counts.sent += 1;
                counters.add(Counter::LinkEventsSent, 1);
            }
        }
        going
    }

    /// Notes an event sent with the group. If the far side has completed it already, returns it with its outcome.
    fn note_in_group(&mut self, number: u64, octets: usize, item: Item) -> Option<(Item, Outcome)> {
        let (item, is_rejected) = self.group.as_mut()?.member.note(number, octets, item)?;
        if item.is_persistent && !is_rejected {
            self.last_acknowledged.note(&item.event);
        }
        self.counts.acknowledged += u64::from(!is_rejected);
        self.counts.rejected += u64::from(is_rejected);
        Some((item, if is_rejected { Outcome::Rejected } else { Outcome::Delivered }))
    }

    /// Begins a session with a process of the far side. Events in flight are sent again, or go back to the outbox. Events that are not
    /// persistent are lost if another process may have received them: their number is returned and counted.
    fn restart(&mut self, incarnation: u64, sends_again: bool, cx: &mut Context) -> u64 {
        let is_same = self.incarnation.replace(incarnation).is_none_or(|before| before == incarnation);
        let (lane, now, mut lost) = (&mut cx.lane, cx.clock.now, 0);
        #[cfg(test)]
        let sends_again = sends_again && !crate::simulation::goes_wrong(crate::simulation::Break::LostOnItsWay);
        let stays = |item: &Item| item.is_persistent || is_same;
        self.sender.restart(|item| sends_again && stays(item), &mut |item: Item| {
            if !stays(&item) {
                lost += 1;
                lane.handle_outcome(item.outbox, item.serial, Outcome::Rejected, now);
            }
            lane.release(item.event);
        });
        self.counts.lost += lost;
        cx.counters.add(Counter::LinkEventsLost, lost);
        lost
    }
}

impl Links<'_> {
    /// Requests the consumer of a flow out, on behalf of a client.
    pub(super) fn ask_for_consumer(
        &mut self,
        token: Token,
        (types, constraint): (Vec<EventType>, String),
        account: &Arc<Account>,
    ) {
        let peer = self.core.protocols.link.add_flow(Flow::Out(token));
        let Protocol { outflows, settings, .. } = &mut self.core.protocols.link;
        let Some(outflow) = outflows.get_mut(token) else { return };
        outflow.types.clone_from(&types);
        outflow.constraint.clone_from(&constraint);
        outflow.principal = principal_of(account);
        let octets = types.iter().map(|of| of.domain.len() + of.name.len() + 64).sum::<usize>()
            + constraint.len()
            + outflow.channel.len();
        let part = Part::Consumer {
            types,
            constraint,
            output_form: OUTPUT_FORM,
            start: None,
            correlation: None,
            looks_on: false,
            durable: Some(outflow.durable.clone()),
            confirms: true,
            refuses: outflow.backlog.refuses,
            backlog_bytes_max: NonZeroU64::new(outflow.backlog.bytes_max),
        };
        let channel = LocalChannel::Name { name: outflow.channel.clone(), create: true };
        let proxy = LocalProxy { channel, peer, name: outflow.durable.clone(), part, about: None };
        let octets = (octets as u64).max(settings.request_bytes_min);
        if let Err(why) = self.core.cx.request_local_proxy(token.to_bits(), proxy, (account, octets)) {
            self.core.protocols.link.flows.remove(&peer);
            self.outflow_registered(token, Err(why.to_owned()));
        }
    }

    /// Handles administration's answer about the consumer of a flow out.
    pub(super) fn outflow_registered(&mut self, token: Token, proxy: Result<ProxyKey, String>) {
        let Some(outflow) = self.core.protocols.link.outflows.get_mut(token) else { return };
        let (connection, name) = (outflow.connection, outflow.durable.clone());
        let outflow_is_stored = outflow.stored.is_some();
        match proxy {
            Ok(key) => {
                outflow.key = Some(key);
                outflow.stored = outflow.served.map(|_| key);
                outflow.subscribed = None;
                let link = outflow.link.and_then(|number| self.core.protocols.link.links.get(number));
                let dialled = link.and_then(|link| link.connection);
                match (connection, dialled) {
                    (Some((at, flow)), _) => self.confirm_flow(at, flow, token),
                    (None, Some(at)) if self.is_greeted(at) => self.open_outflow(at, token),
                    (None, _) => {}
                }
                self.watch_channel(key.channel);
            }
            Err(why) => {
                let channel = outflow.channel.clone();
                self.core.cx.log(log::Level::Warn, || format!("{name}: the channel {channel:?} is not linked: {why}"));
                if let Some((at, flow)) = connection {
                    self.refuse_flow(at, flow, &why);
                }
                if outflow_is_stored {
                    // The stored consumer belongs to another client, or is still connected: it is kept.
                    self.core.protocols.link.flows.retain(|_, flow| *flow != Flow::Out(token));
                    self.outflow_refused(token, &why);
                } else {
                    self.end_outflow(token, &why);
                }
            }
        }
    }

    pub(super) fn is_greeted(&self, token: Token) -> bool {
        self.core.protocols.link.connections.get(token).is_some_and(|connection| connection.far.is_some())
    }

    /// Opens a flow out at another service's request.
    pub(super) fn serve_outflow(&mut self, (token, flow): (Token, u32), open: &Open<'_>, account: &Arc<Account>) {
        let Some(far) = self.core.protocols.link.connections.get(token).and_then(|connection| connection.far.clone())
        else {
            return;
        };
        let durable = served_durable(far.service, far.has_store, &far.name);
        let Protocol { outflows, flows, settings, .. } = &mut self.core.protocols.link;
        let is_it = |outflow: &Outflow| outflow.durable == durable && outflow.channel == open.channel;
        let known = outflows.iter().find(|(_, outflow)| is_it(outflow));
        let is_asked_for = known.is_some_and(|(at, _)| flows.values().any(|flow| *flow == Flow::Out(at)));
        let known = known.map(|(at, outflow)| (at, outflow.is_registered()));
        let at = known.map_or_else(
            || {
                outflows.insert(Outflow::new(
                    open.channel.to_owned(),
                    durable,
                    (None, settings.backlog),
                    settings.limits,
                ))
            },
            |(at, _)| at,
        );
        if let Some(outflow) = self.core.protocols.link.outflows.get_mut(at) {
            outflow.served = Some(None);
            outflow.connection = Some((token, flow));
        }
        if let Some(connection) = self.core.protocols.link.connections.get_mut(token) {
            connection.flows.insert(flow, Flow::Out(at));
        }
        let text = |octets| String::from_utf8_lossy(octets).into_owned();
        let types: Vec<EventType> =
            open.types.iter().map(|of| EventType::new(text(of.domain), text(of.name))).collect();
        match known {
            Some((_, true)) if self.is_requested(at, (&types, open.constraint), account) => {
                return self.confirm_flow(token, flow, at);
            }
            Some((_, true)) => self.disconnect_outflow(at, account),
            Some((_, false)) if is_asked_for => return,
            _ => {}
        }
        self.ask_for_consumer(at, (types, open.constraint.to_owned()), account);
    }

    /// Whether a flow's consumer has these types and this constraint, and was requested by the same principal.
    fn is_requested(&self, at: Token, (types, constraint): (&[EventType], &str), account: &Account) -> bool {
        let outflow = self.core.protocols.link.outflows.get(at);
        outflow
            .is_some_and(|of| of.types == types && of.constraint == constraint && of.principal == principal_of(account))
    }

    /// Disconnects the consumer of a flow out, to connect it anew: unacknowledged events go back to its outbox.
    fn disconnect_outflow(&mut self, at: Token, account: &Arc<Account>) {
        let link = &mut self.core.protocols.link;
        let far = link.outflows.get(at).and_then(|of| link.connections.get(of.connection?.0)?.far.as_ref());
        let incarnation = far.map(|far| far.incarnation);
        let peer = link.flows.iter().find(|(_, flow)| **flow == Flow::Out(at)).map(|(peer, _)| *peer);
        let Some(outflow) = link.outflows.get_mut(at) else { return };
        if let Some(incarnation) = incarnation {
            outflow.restart(incarnation, false, &mut self.core.cx);
        }
        if let (Some(key), Some(peer)) = (outflow.key.take(), peer) {
            link.flows.remove(&peer);
            // Before the request to connect the consumer, which is charged to the same client.
            let charged = (account, link.settings.request_bytes_min);
            let action = Action::Disconnection(key, peer);
            if self.core.cx.request_of_administration(at.to_bits(), action, charged).is_err() {
                self.core.cx.tell_administration(at.to_bits(), Action::Disconnection(key, peer), account);
            }
        }
    }

    /// Answers the far side that the flow which it requested is open, and begins to send.
    fn confirm_flow(&mut self, token: Token, flow: u32, at: Token) {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        if connection.link.is_some() {
            return;
        }
        Frame::Opened { flow }.write(connection.frames(&mut self.core.cx.io.spares));
        self.note_link_due(token);
        self.outflow_opened(token, at);
    }

    /// Answers the far side that a flow is refused.
    pub(super) fn refuse_flow(&mut self, token: Token, flow: u32, why: &str) {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        connection.flows.remove(&flow);
        if connection.closing.is_none() {
            Frame::Refused { flow, reason: why }.write(connection.frames(&mut self.core.cx.io.spares));
            self.note_link_due(token);
        }
    }

    /// Begins to send on a flow that the far side has opened: events in flight before are sent again, except those lost with an earlier
    /// process of it.
    pub(super) fn outflow_opened(&mut self, token: Token, at: Token) {
        let now = self.core.cx.clock.now;
        let Protocol { connections, outflows, .. } = &mut self.core.protocols.link;
        let (Some(connection), Some(outflow)) = (connections.get_mut(token), outflows.get_mut(at)) else { return };
        if outflow.connection.is_none_or(|(of, _)| of != token) {
            return;
        }
        let Some(far) = &connection.far else { return };
        let former = outflow.far.replace(far.service).filter(|former| *former != far.service);
        let (key, is_other_process) = (outflow.key, outflow.incarnation.is_some_and(|of| of != far.incarnation));
        (outflow.is_open, outflow.why, outflow.since) = (true, String::new(), now);
        let lost = outflow.restart(far.incarnation, true, &mut self.core.cx);
        outflow.sender.set_limits(far.limits);
        outflow.is_unchecked |= is_other_process;
        if former.is_some() {
            outflow.last_acknowledged = LastAcknowledged::default();
        } else if outflow.is_unchecked && far.has_store {
            let flow = outflow.connection.map_or(0, |(_, flow)| flow);
            outflow.last_acknowledged.write(flow, connection.frames(&mut self.core.cx.io.spares));
        }
        if let (Some(_), Some(key)) = (former, key) {
            self.forget_subscriptions(key.channel, former);
        }
        if lost > 0 {
            let named = self.link_named(token);
            self.core.cx.log(log::Level::Warn, || {
                format!(
                    "{named}: {lost} events that were not persistent were on their way when the other service ended, and are not sent again"
                )
            });
        }
        self.resume_outflow(at);
        self.ask_to_listen(at);
    }

    /// Notes that the far side refuses a channel, and detaches the flow.
    pub(super) fn outflow_refused(&mut self, at: Token, why: &str) {
        let link = &mut self.core.protocols.link;
        if let Some(outflow) = link.outflows.get_mut(at) {
            why.clone_into(&mut outflow.why);
        }
        link.detach_outflow(at, self.core.cx.clock.now);
    }

    /// Sends an event to the far side. `events` is empty afterwards.
    pub(super) fn send_over_link(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) {
        let outcome = self.put_on_link(delivery, events);
        self.core.cx.release_events(events);
        if let Some(outcome) = outcome {
            self.core.cx.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, self.core.cx.clock.now);
        }
        self.go_on_with_groups();
    }

    /// Writes an event. If the outcome is known at once it is returned; otherwise the event is taken out of `events`.
    fn put_on_link(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) -> Option<Outcome> {
        let now = self.core.cx.clock.now;
        let Protocol { flows, outflows, connections, groups, settings, service: own, incarnation, .. } =
            &mut self.core.protocols.link;
        let flow = delivery.peer.and_then(|peer| flows.get(&peer));
        // The removal of the proxy is handled elsewhere.
        let Some(Flow::Out(at)) = flow else { return Some(Outcome::Unreachable) };
        let Some(outflow) = outflows.get_mut(*at) else { return Some(Outcome::Unreachable) };
        outflow.outbox = Some(delivery.outbox);
        let connection = outflow.connection.filter(|_| outflow.is_open);
        let connection = connection.and_then(|(token, flow)| Some((token, flow, connections.get_mut(token)?)));
        let Some(event) = events.last() else { return Some(Outcome::Untranslatable) };
        let takes = |connection: &Connection| connection.has_room() && connection.output.queued_bytes() < GATHERED_MAX;
        let Some((token, flow, connection)) = connection.filter(|(.., connection)| takes(connection)) else {
            outflow.is_blocked = true;
            return Some(Outcome::NoRoom);
        };
        let Some(far) = &connection.far else { return Some(Outcome::NoRoom) };
        let (far, limits) = (far.service, far.limits);
        if let Some(origin) = event.origin()
            && may_forward(origin.service, &origin.hops, *own, far) != Forwarding::Forward
        {
            outflow.counts.loops += 1;
            self.core.cx.counters.add(Counter::LinkLoops, 1);
            return Some(Outcome::Filtered);
        }
        let (body, tag) = if event.form == FORM_STRUCTURED {
            (Body::Native, event.tag)
        } else {
            let index = event.alternates.position(delivery.output_form);
            let found = index.and_then(|index| Some((Body::Alternate(index), event.alternates.get(index)?.tag)));
            let Some(found) = found else { return Some(Outcome::Untranslatable) };
            found
        };
        let event = events.pop()?;
        let is_persistent = event.watch.is_some_and(|watch| !is_of_lanes(watch));
        let item = Item { outbox: delivery.outbox, serial: delivery.serial, event, body, tag, is_persistent };
        let frame = item.frame(flow, (*own, *incarnation), now);
        let octets = frame.octets();
        let with = (groups, &settings.datagrams, &*self.core.cx.counters);
        match outflow.going(*at, &frame, (limits, item.event.arrived, now), with) {
            Going::BySession => {}
            Going::Later => {
                events.push(item.event);
                return Some(Outcome::NoRoom);
            }
            Going::Numbered(number) => {
                let (item, outcome) = outflow.note_in_group(number, octets, item)?;
                events.push(item.event);
                return Some(outcome);
            }
        }
        if !frame.fits(limits) || !outflow.sender.has_room(octets) {
            let outcome = if frame.fits(limits) { Outcome::NoRoom } else { Outcome::Rejected };
            if outcome == Outcome::NoRoom {
                outflow.is_blocked = true;
            }
            events.push(item.event);
            return Some(outcome);
        }
        let sequence = outflow.sender.next_sequence();
        Frame::Event(wire::Event { sequence, ..frame }).write(connection.frames(&mut self.core.cx.io.spares));
        outflow.sender.push(octets, now.0, item);
        outflow.counts.sent += 1;
        self.core.cx.counters.add(Counter::LinkEventsSent, 1);
        self.note_link_due(token);
        None
    }

    /// Handles an acknowledgement of all events up to a number.
    ///
    /// # Errors
    /// The number was not sent, or is lower than the last.
    pub(super) fn acknowledge_outflow(&mut self, at: Token, up_to: u64) -> Result<(), String> {
        let now = self.core.cx.clock.now;
        let Some(outflow) = self.core.protocols.link.outflows.get_mut(at) else { return Ok(()) };
        let (lane, mut acknowledged) = (&mut self.core.cx.lane, 0);
        let Outflow { sender, last_acknowledged, .. } = outflow;
        let done = sender.acknowledge(up_to, now.0, &mut |item: Item| {
            acknowledged += 1;
            if item.is_persistent {
                last_acknowledged.note(&item.event);
            }
            lane.handle_outcome(item.outbox, item.serial, Outcome::Delivered, now);
            lane.release(item.event);
        });
        outflow.counts.acknowledged += acknowledged;
        let stall = if acknowledged > 0 { outflow.stall.take() } else { None };
        outflow.is_unchecked &= acknowledged == 0;
        done.map_err(|violation| violation.to_string())?;
        if let Some(stall) = stall {
            self.end_stall(at, stall);
        }
        self.resume_outflow(at);
        Ok(())
    }

    /// Handles a rejection of an event.
    ///
    /// # Errors
    /// The number was not sent, or was acknowledged.
    pub(super) fn reject_of_outflow(&mut self, at: Token, sequence: u64, why: &str) -> Result<(), String> {
        let now = self.core.cx.clock.now;
        let Some(outflow) = self.core.protocols.link.outflows.get_mut(at) else { return Ok(()) };
        let rejected = outflow.sender.reject(sequence).map_err(|violation| violation.to_string())?;
        let Some(item) = rejected else { return Ok(()) };
        outflow.counts.rejected += 1;
        why.clone_into(&mut outflow.why);
        self.core.cx.counters.add(Counter::LinkEventsRejected, 1);
        self.core.cx.lane.handle_outcome(item.outbox, item.serial, Outcome::Rejected, now);
        self.core.cx.lane.release(item.event);
        self.resume_outflow(at);
        Ok(())
    }

    /// Sends events left from the last session, and resumes the outbox if it waits for room.
    pub(super) fn resume_outflow(&mut self, at: Token) {
        let now = self.core.cx.clock.now;
        let Protocol { outflows, connections, service, incarnation, .. } = &mut self.core.protocols.link;
        let Some(outflow) = outflows.get_mut(at).filter(|outflow| outflow.is_open) else { return };
        let Some((token, flow)) = outflow.connection else { return };
        let Some(connection) = connections.get_mut(token) else { return };
        let mut is_resent = false;
        while let Some((sequence, item)) = outflow.sender.resend(now.0) {
            let frame = item.frame(flow, (*service, *incarnation), now);
            Frame::Event(wire::Event { sequence, ..frame }).write(connection.frames(&mut self.core.cx.io.spares));
            is_resent = true;
        }
        if outflow.sender.has_room(0)
            && core::mem::take(&mut outflow.is_blocked)
            && let Some(outbox) = outflow.outbox
        {
            self.core.cx.lane.resume_outbox(outbox, now);
            self.core.cx.deliveries.undelivered = true;
        }
        if is_resent {
            self.note_link_due(token);
        }
    }

    /// Resumes the flows of a connection after its socket has taken its output.
    pub(super) fn unblock_outflows(&mut self, token: Token) {
        let count = self.core.protocols.link.connections.get(token).map_or(0, |connection| connection.flows.len());
        for _ in 0..count {
            let Protocol { connections, outflows, .. } = &self.core.protocols.link;
            let Some(connection) = connections.get(token) else { return };
            let can_go_on = |flow: &Flow| match *flow {
                Flow::Out(at) => outflows.get(at).filter(|flow| flow.can_go_on()).map(|_| at),
                Flow::In(_) => None,
            };
            let Some(at) = connection.flows.values().find_map(can_go_on) else { return };
            self.resume_outflow(at);
        }
    }

    /// Ends a flow out after its consumer was removed or refused.
    pub(super) fn end_outflow(&mut self, token: Token, why: &str) {
        let Some(mut outflow) = self.core.protocols.link.outflows.remove(token) else { return };
        self.core.protocols.link.flows.retain(|_, flow| *flow != Flow::Out(token));
        for link in &mut self.core.protocols.link.links {
            link.outflows.iter_mut().filter(|at| **at == Some(token)).for_each(|at| *at = None);
        }
        if let Some(key) = outflow.key {
            self.forget_subscriptions(key.channel, outflow.far);
            self.watch_channel(key.channel);
        }
        outflow.leave_group(token, &mut self.core.protocols.link.groups);
        outflow.sender.restart(|_| false, &mut |item: Item| self.core.cx.lane.release(item.event));
        if let Some((at, flow)) = outflow.connection {
            self.refuse_flow(at, flow, why);
        }
    }
}

impl Protocol {
    /// Notes that a flow out has lost its connection: events stay in its outbox.
    pub(super) fn detach_outflow(&mut self, token: Token, now: Time) {
        let Some(outflow) = self.outflows.get_mut(token) else { return };
        outflow.leave_group(token, &mut self.groups);
        (outflow.is_open, outflow.connection, outflow.since) = (false, None, now);
        if let Some(away_since) = &mut outflow.served {
            *away_since = Some(now);
        }
    }
}

/// The principal of an account: its address, and the name of its certificate.
pub(super) fn principal_of(account: &Account) -> (Option<IpAddr>, Option<String>) {
    (Some(account.ip()), account.identity().certified().map(ToString::to_string))
}

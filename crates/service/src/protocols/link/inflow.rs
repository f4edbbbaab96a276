//! Flows in of links: a supplier of the near channel, and the origins seen, so that no event is admitted twice.

use core::time::Duration;
use std::sync::Arc;

use access::Right;
use accounts::Account;
use corba::event::{self, FORM_STRUCTURED, UtcClock};
use corba::{LocalChannel, LocalProxy, Part};
use engine::{ChannelId, ChannelRoutes, Event, Peer, ProxyKey, Refusal, Reliability, TIMER_DOMAIN, TIMER_TYPE, Time};
use hashbrown::HashMap;
use links::hops::{Forwarding, may_forward};
use links::wire::{self, Direction, Frame, Open, TypeInterest, Types};
use links::{Origin, Published, Receiver, Seen, Verdict};

use super::datagrams::Listening;
use super::{Connection, Flow, Links, Protocol};
use crate::counters::Counter;
use crate::lane::intake::{Refused, Submission};
use crate::lane::io::output::Spares;
use crate::lane::io::slots::Token;
use crate::protocols;
use crate::protocols::local_proxies::{Action, refused_because};
#[cfg(test)]
use crate::simulation::{Break, goes_wrong};
use crate::store::origins::{NUMBERS_MAX, SeenOrigin};

/// A flow in.
pub(crate) struct Inflow {
    pub(super) channel: String,
    key: Option<ProxyKey>,
    connection: Token,
    pub(super) flow: u32,
    /// The handle of the supplier.
    pub(super) peer: Peer,
    /// Whether both sides know that the flow is open.
    pub(super) is_open: bool,
    /// The subscriptions last sent to the far side.
    pub(super) published: Option<Published>,
    receiver: Receiver,
    /// Number of events whose admission is pending.
    admitting: u32,
    /// The state of listening to datagrams, if the flow does.
    pub(super) group: Option<Listening>,
    pub(super) account: Arc<Account>,
    /// When the flow was created.
    pub(super) since: Time,
    pub(super) received: u64,
    pub(super) repeats: u64,
    /// Events acknowledged by earlier processes of this service and unknown to this one. `None` until the far side lists them.
    pub(super) forgotten: Option<u64>,
    pub(super) rejected: u64,
}

/// The identity of an event of a link, for the answer of the intake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    inflow: Token,
    number: Number,
    channel: ChannelId,
    origin: Origin,
}

/// The number of a received event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    /// The event's number in its flow, over the session.
    Session(u64),
    /// The event's number in its group.
    Group(u64),
}

/// The supplier of a flow in that has ended while admissions were pending. It is removed after the last of them: if it were removed earlier,
/// they would be refused, and events that arrived on another way meanwhile would overtake them.
#[derive(Debug)]
pub(super) struct EndedSupplier {
    key: ProxyKey,
    connection: u64,
    account: Arc<Account>,
    /// Number of events whose admission is pending, at least 1.
    admitting: u32,
}

/// The origins seen by each channel.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    pub(super) seen: HashMap<ChannelId, Seen>,
    /// Repeats that arrived while the event was being admitted, and wait for the outcome.
    waiting: HashMap<(ChannelId, Origin), Vec<(Token, Number)>>,
}

impl Sightings {
    /// Drops channels that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(ChannelId) -> bool) {
        self.seen.retain(|channel, _| is_there(*channel));
    }

    /// Restores the origins seen before the process began.
    pub(super) fn restored(seen: impl Iterator<Item = SeenOrigin>) -> Self {
        let mut all = Self::default();
        let mut eras = HashMap::new();
        for SeenOrigin { channel, service, era, number } in seen {
            let origin = Origin { service, era, number };
            all.seen.entry(channel).or_default().restore(origin);
            let (count, least) = eras.entry((channel, service, era)).or_insert((0, number));
            (*count, *least) = (*count + 1, number.min(*least));
        }
        // If the store's limit was reached, numbers older than the stored ones count as stale.
        for ((channel, service, era), (_, least)) in eras.into_iter().filter(|(_, (count, _))| *count >= NUMBERS_MAX) {
            let number = least.saturating_sub(1);
            all.seen.entry(channel).or_default().restore_mark(Origin { service, era, number });
        }
        all
    }
}

impl Inflow {
    pub(super) const fn key(&self) -> Option<ProxyKey> {
        self.key
    }

    pub(super) const fn connection(&self) -> Token {
        self.connection
    }

    /// Completes a received event.
    fn complete(&mut self, number: Number) {
        match number {
            Number::Session(sequence) => _ = self.receiver.complete(sequence),
            Number::Group(number) => self.group.iter_mut().for_each(|group| group.complete(number)),
        }
    }
}

impl Links<'_> {
    /// Requests the supplier of a flow in, on behalf of a client.
    pub(super) fn add_inflow(&mut self, (token, flow): (Token, u32), channel: &str, account: &Arc<Account>) {
        let name = self.link_named(token);
        let link = &mut self.core.protocols.link;
        let Some(connection) = link.connections.get_mut(token) else { return };
        let at = link.inflows.insert(Inflow {
            channel: channel.to_owned(),
            key: None,
            connection: token,
            flow,
            peer: LocalProxy::FIRST_PEER,
            is_open: false,
            published: None,
            receiver: Receiver::new(link.settings.limits),
            admitting: 0,
            group: None,
            account: Arc::clone(account),
            since: self.core.cx.clock.now,
            received: 0,
            repeats: 0,
            forgotten: None,
            rejected: 0,
        });
        connection.flows.insert(flow, Flow::In(at));
        let peer = link.add_flow(Flow::In(at));
        if let Some(inflow) = link.inflows.get_mut(at) {
            inflow.peer = peer;
        }
        let octets = (channel.len() as u64).max(link.settings.request_bytes_min);
        let channel = LocalChannel::Name { name: channel.to_owned(), create: true };
        let proxy = LocalProxy { channel, peer, name, part: Part::Supplier, about: None };
        if let Err(why) = self.core.cx.request_local_proxy(token.to_bits(), proxy, (account, octets)) {
            self.inflow_registered(at, Err(why.to_owned()));
        }
    }

    /// Handles administration's answer about the supplier of a flow in.
    pub(super) fn inflow_registered(&mut self, at: Token, proxy: Result<ProxyKey, String>) {
        let Protocol { inflows, connections, links, .. } = &mut self.core.protocols.link;
        let Some(inflow) = inflows.get_mut(at) else { return };
        let (token, flow) = (inflow.connection, inflow.flow);
        let Some(connection) = connections.get_mut(token) else { return };
        match proxy {
            Err(why) => {
                let channel = inflow.channel.clone();
                let named = self.link_named(token);
                self.core.cx.log(log::Level::Warn, || format!("{named}: the channel {channel:?} is not linked: {why}"));
                self.end_inflow(at, Some(&why));
            }
            Ok(key) => {
                inflow.key = Some(key);
                inflow.is_open = connection.link.is_none();
                let channel = inflow.channel.clone();
                let entry = connection.link.and_then(|number| links.get(number)).map(|link| link.entry.clone());
                let frames = connection.frames(&mut self.core.cx.io.spares);
                match entry {
                    None => Frame::Opened { flow }.write(frames),
                    Some(entry) => {
                        let types = entry.event_types();
                        let types = types.iter().map(|of| {
                            let (domain, name) = (of.domain.as_bytes(), of.name.as_bytes());
                            TypeInterest { domain, name, distance: 0 }
                        });
                        let types: Vec<TypeInterest<'_>> = types.collect();
                        // Types beyond the limits of a frame: all are sent, and filtered here.
                        let types = Types::new(&types).unwrap_or(Types::NONE);
                        let constraint = entry.constraint.as_str();
                        let open = Open { flow, direction: Direction::In, channel: &channel, types, constraint };
                        Frame::Open(open).write(frames);
                    }
                }
                self.note_link_due(token);
                self.watch_channel_of(at);
            }
        }
    }

    /// Notes that the far side has opened a flow in at this service's request.
    pub(super) fn inflow_opened(&mut self, at: Token) {
        let Some(inflow) = self.core.protocols.link.inflows.get_mut(at) else { return };
        inflow.is_open = true;
        if let Some(key) = inflow.key {
            self.publish_interest(key.channel);
        }
    }

    /// Ends a flow in. The far side gets the reason, if there is one.
    pub(super) fn end_inflow(&mut self, at: Token, why: Option<&str>) {
        self.stop_listening(at);
        let Some(inflow) = self.core.protocols.link.inflows.remove(at) else { return };
        self.core.protocols.link.flows.retain(|_, flow| *flow != Flow::In(at));
        for waiting in self.core.protocols.link.sightings.waiting.values_mut() {
            waiting.retain(|(of, _)| *of != at);
        }
        self.core.cx.tell_administration(at.to_bits(), Action::UnwatchSubscribed(inflow.peer), &inflow.account);
        if let Some(key) = inflow.key {
            let (connection, account, admitting) = (inflow.connection.to_bits(), inflow.account, inflow.admitting);
            if admitting == 0 {
                self.core.cx.remove_local_proxy(connection, key, &account);
            } else {
                let supplier = EndedSupplier { key, connection, account, admitting };
                self.core.protocols.link.ended_suppliers.insert(at.to_bits(), supplier);
            }
        }
        if let Some(why) = why {
            self.refuse_flow(inflow.connection, inflow.flow, why);
        }
    }

    /// Takes in an event that arrived over a session.
    ///
    /// # Errors
    /// The reason for closing the connection.
    pub(super) fn take_link_event(&mut self, at: Token, event: &wire::Event<'_>) -> Result<(), String> {
        let Some(inflow) = self.core.protocols.link.inflows.get_mut(at) else { return Ok(()) };
        if inflow.key.is_none() {
            return Err("it sends events before the flow is open".to_owned());
        }
        inflow.receiver.accept(event.sequence, event.octets()).map_err(|violation| violation.to_string())?;
        self.take_numbered(at, Number::Session(event.sequence), event);
        Ok(())
    }

    /// Takes in an event from the session or the group.
    pub(super) fn take_numbered(&mut self, at: Token, number: Number, event: &wire::Event<'_>) {
        let Protocol { inflows, connections, sightings, service: own, .. } = &mut self.core.protocols.link;
        let Some(inflow) = inflows.get_mut(at) else { return };
        let Some(key) = inflow.key else { return };
        inflow.received += 1;
        self.core.cx.counters.add(Counter::LinkEventsReceived, 1);
        if self.core.cx.reporting.draining.has_begun() {
            // The event is not acknowledged: if persistent, it is sent again to the next process.
            return;
        }
        let far = connections.get(inflow.connection).and_then(|connection| connection.far.as_ref());
        let far = far.map_or(0, |far| far.service);
        let origin = event.origin;
        if may_forward(origin.service, event.hops.as_slice(), far, *own) != Forwarding::Forward {
            inflow.repeats += 1;
            self.core.cx.counters.add(Counter::LinkLoops, 1);
            inflow.complete(number);
            return;
        }
        let seen = sightings.seen.entry(key.channel).or_default();
        let verdict = seen.check(origin);
        #[cfg(test)]
        let verdict = if goes_wrong(Break::TakenTwice) { Verdict::Fresh } else { verdict };
        match verdict {
            // The event may be a new one: it is rejected, not dropped silently.
            Verdict::Stale => {
                self.reject_link_event(at, number, STALE);
                return;
            }
            Verdict::Repeat => {
                inflow.repeats += 1;
                self.core.cx.counters.add(Counter::LinkRepeats, 1);
                inflow.complete(number);
                return;
            }
            Verdict::InFlight => {
                inflow.repeats += 1;
                self.core.cx.counters.add(Counter::LinkRepeats, 1);
                sightings.waiting.entry((key.channel, origin)).or_default().push((at, number));
                return;
            }
            Verdict::Fresh => seen.begin(origin),
        }
        inflow.admitting += 1;
        let claim = Claim { inflow: at, number, channel: key.channel, origin };
        match self.admit_link_event(claim, key, event) {
            Ok(true) => self.end_link_event(claim, None),
            Ok(false) => {}
            Err(refused) => self.end_link_event(claim, Some(refused)),
        }
    }

    /// Hands an event to the engine. False if its outcome is pending.
    fn admit_link_event(&mut self, claim: Claim, source: ProxyKey, sent: &wire::Event<'_>) -> Result<bool, Refused> {
        let mut permit = None;
        if self.core.access.is_on() {
            let Some(inflow) = self.core.protocols.link.inflows.get(claim.inflow) else {
                return Err(Refused::NotPermitted);
            };
            let account = Arc::clone(&inflow.account);
            permit = self.core.access.may(&account, Right::Publish, source.channel).map_err(|scope| {
                let what: (_, &dyn core::fmt::Display) = (scope.why(None), &"an event of a link");
                self.core.access.deny(&account, Right::Publish, source.channel, what, &mut self.core.cx);
                Refused::NotPermitted
            })?;
        }
        let body = event::reader(sent.bytes, sent.tag);
        let header = event::read_structured(body, &mut event::work_for(sent.bytes.len()));
        let header = header.map_err(|_| Refused::Unreadable)?;
        if !sent.is_persistent && self.has_timer_of(source, &header, sent.tag) {
            self.core.cx.counters.add(Counter::TimerEventsLeftOut, 1);
            return Ok(true);
        }
        let mut pending_event = self.core.cx.lane.begin_event_for(sent.bytes.len());
        self.core.cx.lane.classify(&mut pending_event, header.domain, header.type_name);
        let event: &mut Event = &mut pending_event;
        event.form = FORM_STRUCTURED;
        event.tag = event::tag_at(event::encoding_of(sent.tag), event::phase_of(sent.tag), header.is_loose);
        event.bytes.extend_from_slice(sent.bytes);
        if header.says_quality() {
            header.apply(event, &UtcClock::new(self.core.cx.clock.now, self.core.cx.clock.since_1970));
        }
        event.priority = sent.priority.or(event.priority);
        // The rest of its lifetime is computed from its age, since the clocks of two services may differ by years.
        let left = sent.timeout_ns.map(|timeout| timeout.saturating_sub(sent.age_ns).max(1));
        event.timeout = left.map(Duration::from_nanos);
        event.thread_priority = sent.thread_priority;
        event.reliability = Some(if sent.is_persistent { Reliability::Persistent } else { Reliability::BestEffort });
        let Origin { service, era, number } = sent.origin;
        event.set_origin(service, era, number, sent.hops.as_slice());
        self.core.protocols.translate(source, event, &mut self.core.cx);
        let mut submission = Submission::new(source, protocols::Claim::Link(claim), None).permitted(permit);
        self.core.admit(&mut submission, pending_event);
        self.core.finish_submission(&submission)
    }

    /// Notes the end of an admission. After the last one of a flow that has ended, removes its supplier.
    fn end_admission(&mut self, at: Token) {
        let Protocol { inflows, ended_suppliers, .. } = &mut self.core.protocols.link;
        if let Some(inflow) = inflows.get_mut(at) {
            inflow.admitting = inflow.admitting.saturating_sub(1);
        } else if let Some(supplier) = ended_suppliers.get_mut(&at.to_bits()) {
            supplier.admitting = supplier.admitting.saturating_sub(1);
            if supplier.admitting == 0
                && let Some(EndedSupplier { key, connection, account, .. }) = ended_suppliers.remove(&at.to_bits())
            {
                self.core.cx.remove_local_proxy(connection, key, &account);
            }
        }
    }

    /// Whether an event is of a timer that the near channel has itself, of which consumers would get two events each time.
    fn has_timer_of(&self, source: ProxyKey, header: &event::Header<'_>, tag: u64) -> bool {
        if (header.domain, header.type_name) != (TIMER_DOMAIN.as_bytes(), TIMER_TYPE.as_bytes()) {
            return false;
        }
        let mut scratch = String::new();
        let name = event::name_in_utf8(header.event_name, event::encoding_of(tag).chars, &mut scratch);
        let timers = self.core.cx.lane.snapshot().channel(source.channel).map_or(&[][..], ChannelRoutes::timers);
        timers.iter().any(|timer| timer.settings().name.as_bytes() == name)
    }

    /// Handles the outcome of an event's intake.
    pub(super) fn end_link_event(&mut self, claim: Claim, refused: Option<Refused>) {
        let Claim { inflow: at, number, channel, origin } = claim;
        self.end_admission(at);
        let Protocol { sightings, .. } = &mut self.core.protocols.link;
        let waiting = sightings.waiting.remove(&(channel, origin)).unwrap_or_default();
        if let Some(seen) = sightings.seen.get_mut(&channel) {
            if refused.is_none() { seen.commit(origin) } else { seen.abandon(origin) }
        }
        if refused.is_some() {
            let Origin { service, era, number } = origin;
            self.core.intake.journal.forget_origin(SeenOrigin { channel, service, era, number });
        }
        for (at, number) in core::iter::once((at, number)).chain(waiting) {
            match &refused {
                None => self.complete_link_event(at, number),
                Some(refused) => self.refuse_link_event(at, number, refused),
            }
        }
    }

    /// Completes an event, which is acknowledged at the end of the round.
    fn complete_link_event(&mut self, at: Token, number: Number) {
        let Some(inflow) = self.core.protocols.link.inflows.get_mut(at) else { return };
        inflow.complete(number);
        let token = inflow.connection;
        self.note_link_due(token);
    }

    /// Refuses an event: for good, or by closing the connection, after which the far side sends it again.
    fn refuse_link_event(&mut self, at: Token, number: Number, refused: &Refused) {
        let Some(inflow) = self.core.protocols.link.inflows.get(at) else { return };
        let why = refused_because(refused);
        if is_temporary(refused) {
            let why = format!("it does not take events of {:?} now: {why}", inflow.channel);
            return self.say_goodbye(inflow.connection, &why);
        }
        self.reject_link_event(at, number, &why);
    }

    /// Rejects an event for good.
    fn reject_link_event(&mut self, at: Token, number: Number, why: &str) {
        let Protocol { inflows, connections, .. } = &mut self.core.protocols.link;
        let Some(inflow) = inflows.get_mut(at) else { return };
        let (token, flow) = (inflow.connection, inflow.flow);
        inflow.complete(number);
        inflow.rejected += 1;
        let join = inflow.group.as_ref().map_or(0, |group| group.join);
        if let Some(connection) = connections.get_mut(token) {
            let reject = match number {
                Number::Session(sequence) => Frame::Reject { flow, sequence, reason: 0, text: why },
                Number::Group(number) => Frame::GroupReject { flow, join, number, text: why },
            };
            reject.write(connection.frames(&mut self.core.cx.io.spares));
        }
        let connection = self.core.protocols.link.connections.get(token);
        if connection.is_some_and(|connection| self.core.protocols.link.is_gateway(connection)) {
            // The gateway has no counter of its own.
            self.core.cx.counters.add(Counter::LinkEventsRejected, 1);
        }
        self.note_link_due(token);
    }
}

impl Protocol {
    /// Writes the pending acknowledgements of a connection.
    pub(super) fn write_acknowledgements(&mut self, token: Token, spares: &mut Spares) {
        let Self { connections, inflows, .. } = self;
        let Some(Connection { flows, output, .. }) = connections.get_mut(token) else { return };
        for (flow, of) in &*flows {
            let Flow::In(at) = of else { continue };
            let Some(inflow) = inflows.get_mut(*at) else { continue };
            if let Some(up_to) = inflow.receiver.take_ack() {
                output.lend(spares);
                Frame::Ack { flow: *flow, up_to }.write(output.bytes());
            }
            if let Some((join, up_to)) = inflow.group.as_mut().and_then(Listening::take_ack) {
                output.lend(spares);
                Frame::GroupAck { flow: *flow, join, up_to }.write(output.bytes());
            }
        }
    }
}

/// The reason for rejecting an event older than the origins remembered.
const STALE: &str = "so many later events of its origin came before it that it may be one that was taken";

/// Whether the event may be admitted at another time.
const fn is_temporary(refused: &Refused) -> bool {
    match refused {
        Refused::NotStored(_) | Refused::TooManyAwaitingFilter => true,
        Refused::ByEngine(refusal) => {
            matches!(
                refusal,
                Refusal::OutboxFull { .. }
                    | Refusal::QueueFull { .. }
                    | Refusal::MemorySpent { .. }
                    // The supplier was removed, and is made anew with the next connection.
                    | Refusal::ChannelNotFound { .. }
                    | Refusal::ProxyNotFound { .. }
                    | Refusal::NotConnected { .. }
            )
        }
        Refused::Unreadable | Refused::NotPermitted => false,
    }
}

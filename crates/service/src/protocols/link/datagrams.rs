//! Groups of links that share datagrams, one for all their services ([`links::group`]): the sending end.
//!
//! A *stream* is one channel of a group. A flow of the group uses its connection until the far side listens and nothing is in flight; from
//! then on the first flow to which the engine delivers an event sends it, and the others note it. Everything else uses the connections:
//! acknowledgements, requests for missing events, repeats, events that are too long.

mod frames;
mod receiving;
mod sockets;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use engine::{EventType, Outcome, Time};
use links::group::{Datagram, GroupSender, KEY_BYTES, Key, Member, Pace, State, Way, sealed_bytes};
use links::wire::{self, Frame, GroupJoin, LENGTH_BYTES, Security};

pub(super) use self::receiving::{Listening, Receiving};
use super::outflow::{Item, Outflow};
use super::{Links, Protocol};
use crate::config::{Carrier, LinkDatagrams, LinkEntry};
use crate::counters::{Block, Counter};
use crate::lane::io::net::Datagrams;
use crate::lane::io::slots::Token;
use crate::random;

/// The configuration of datagrams.
#[derive(Debug, Clone)]
pub(super) struct DatagramSettings {
    bytes_max: usize,
    bytes_per_s: u64,
    ttl: u8,
    port: u16,
    /// The address of the network for IPv4 groups. `None`: that of each connection.
    interface: Option<Ipv4Addr>,
    /// The key that both sides share by configuration.
    shared: Option<Key>,
    is_unauthenticated: bool,
}

impl DatagramSettings {
    pub(super) fn new(config: &LinkDatagrams) -> Self {
        // A key file that cannot be read fails the start; one removed later counts as none, and datagrams are refused.
        let key = config.key().ok().flatten();
        Self {
            bytes_max: config.bytes_max as usize,
            bytes_per_s: config.bytes_per_s,
            ttl: config.ttl,
            port: config.port,
            interface: config.interface().ok().flatten(),
            shared: key.map(|octets| Key::new(&octets)),
            is_unauthenticated: config.unauthenticated,
        }
    }

    /// The configured local address for a group.
    fn network_of(&self, group: SocketAddr) -> Option<IpAddr> {
        self.interface.filter(|_| group.is_ipv4()).map(IpAddr::V4)
    }

    /// The key of a stream with this security.
    fn key_of(&self, stream: u64, security: Security) -> Option<Key> {
        match security {
            Security::None => None,
            Security::Session(octets) => Some(Key::new(&octets)),
            Security::Shared => self.shared.as_ref().map(|key| key.derive(&stream.to_le_bytes())),
        }
    }
}

/// The index of a group, and of a channel's stream in it.
pub(super) type Place = (usize, usize);

/// A flow's membership in a group.
pub(super) struct Grouped {
    pub(super) place: Place,
    pub(super) member: Member<Item>,
    /// The subscriptions of the far side; each flow of the group subscribes to their union.
    pub(super) far_subscribed: Option<(bool, Vec<EventType>)>,
    /// The reason why the flow uses its connection alone.
    pub(super) why: String,
}

/// The path of an event of a flow.
pub(super) enum Going {
    /// The event goes over the connection.
    BySession,
    /// The event waits: the flow is resumed later.
    Later,
    /// The event went with the group, under this number.
    Numbered(u64),
}

/// All configured groups.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Time of the next timer.
    due: Option<Time>,
    steps: VecDeque<GroupStep>,
    scratch: Vec<u8>,
}

struct Group {
    to: GroupAddress,
    /// The socket, with its local address.
    socket: Option<(IpAddr, Datagrams)>,
    pace: Pace,
    streams: Vec<Stream>,
    /// Whether sending has failed, which is logged once.
    is_failing: bool,
}

#[derive(PartialEq, Eq)]
enum GroupAddress {
    Multicast(SocketAddr),
    /// The far service of the link with this name.
    Peer(String),
}

struct Stream {
    id: u64,
    security: Security,
    key: Option<Key>,
    sender: GroupSender,
    /// The destination of datagrams, once known.
    to: Option<SocketAddr>,
    /// Flows that wait for an event's number, or for the rate limit.
    waiting: Vec<Token>,
}

/// A task to be done after the engine has its answer.
enum GroupStep {
    /// A flow has joined at `from`; events up to `repaired` are sent over its connection.
    Start { flow: Token, from: u64, repaired: u64 },
    /// An event is too long for a datagram, and is sent over the connections.
    Long(Place, u64),
    /// An event has got its number.
    Numbered(Place),
}

impl Groups {
    /// The group and stream of a link's channel. `None` if the link has no datagrams.
    pub(super) fn group_of(
        &mut self,
        entry: &LinkEntry,
        channel: usize,
        settings: &DatagramSettings,
        is_used: impl FnOnce(usize) -> bool,
    ) -> Option<Grouped> {
        let to = match entry.carrier {
            Carrier::Tcp | Carrier::Iiop | Carrier::Zenoh => return None,
            Carrier::Udp => GroupAddress::Peer(entry.name.clone()),
            Carrier::Multicast => GroupAddress::Multicast(entry.group_address()?),
        };
        let known = self.groups.iter().position(|group| group.to == to);
        let place = known.unwrap_or(self.groups.len());
        let streams = || entry.channels.iter().map(|_| Stream::new(entry.tls, settings)).collect();
        if let Some(former) = self.groups.get_mut(place) {
            // The group's links were removed, and this one may have other channels and another security.
            if !is_used(place) {
                (former.streams, former.socket, former.is_failing) = (streams(), None, false);
            }
        } else {
            let streams = streams();
            let pace = Pace::new(settings.bytes_per_s);
            self.groups.push(Group { to, socket: None, pace, streams, is_failing: false });
        }
        let place = (place, channel);
        Some(Grouped { place, member: Member::new(), far_subscribed: None, why: "it has not joined yet".to_owned() })
    }

    /// The current carrier of a flow's events, for people.
    pub(super) fn carrier_of(&self, outflow: &Outflow) -> String {
        let Some(Grouped { place, member, why, .. }) = &outflow.group else { return "tcp".to_owned() };
        match self.groups.get(place.0).map(|group| &group.to) {
            _ if !member.is_in_step() => format!("tcp: {why}"),
            Some(GroupAddress::Multicast(_)) => "multicast".to_owned(),
            _ => "udp".to_owned(),
        }
    }

    pub(super) const fn due(&self) -> Option<Time> {
        self.due
    }

    fn note_due(&mut self, at: Option<u64>) {
        self.due = self.due.into_iter().chain(at.map(Time)).min();
    }

    fn stream(&mut self, (group, stream): Place) -> Option<&mut Stream> {
        self.groups.get_mut(group)?.streams.get_mut(stream)
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let counts: Vec<usize> = self.groups.iter().map(|group| group.streams.len()).collect();
        counts.into_iter().enumerate().flat_map(|(group, count)| (0..count).map(move |stream| (group, stream)))
    }

    /// Decides the path of a flow's next event, and sends its datagram if this is the first flow with the event.
    pub(super) fn place(
        &mut self,
        flow: Token,
        grouped: &mut Grouped,
        frame: &wire::Event<'_>,
        (admitted, is_idle, now): (Time, bool, Time),
        (settings, counters): (&DatagramSettings, &Block),
    ) -> Going {
        let Grouped { place, member, .. } = grouped;
        let Some(stream) = self.stream(*place) else { return Going::BySession };
        let way = member.way(&stream.sender, frame.origin, admitted.0, (is_idle, now.0));
        let number = match way {
            Way::Session => return Going::BySession,
            Way::Wait => {
                if member.state() == State::Ready && !stream.waiting.contains(&flow) {
                    stream.waiting.push(flow);
                }
                self.note_due(member.waits_until());
                return Going::Later;
            }
            Way::Numbered(number) => number,
            Way::New => match self.number(*place, frame, (admitted, now), (settings, counters)) {
                Ok(number) => number,
                Err(at) => {
                    self.note_due(Some(at));
                    if let Some(stream) = self.stream(*place).filter(|stream| !stream.waiting.contains(&flow)) {
                        stream.waiting.push(flow);
                    }
                    return Going::Later;
                }
            },
        };
        let Some(stream) = self.stream(*place) else { return Going::BySession };
        if !member.is_in_step() {
            // The far side does not know yet that the flow has joined, when a datagram of the event arrives.
            let repaired = stream.sender.last();
            member.join(number, repaired);
            stream.sender.join(flow.to_bits(), number, now.0);
            // Before the step of an event that is too long, which is queued already.
            self.steps.push_front(GroupStep::Start { flow, from: number, repaired });
        }
        Going::Numbered(number)
    }

    /// Gives an event the next number of a stream and sends it. An error is the time at which the rate permits that.
    fn number(
        &mut self,
        place: Place,
        frame: &wire::Event<'_>,
        (admitted, now): (Time, Time),
        (settings, counters): (&DatagramSettings, &Block),
    ) -> Result<u64, u64> {
        let Some(group) = self.groups.get_mut(place.0) else { return Err(now.0) };
        let Some(stream) = group.streams.get_mut(place.1) else { return Err(now.0) };
        let octets = sealed_bytes(frame.octets(), stream.key.is_some());
        let is_long = octets > settings.bytes_max;
        if !is_long {
            group.pace.take(octets, now.0)?;
        }
        let write = |number, out: &mut Vec<u8>| {
            Frame::Event(wire::Event { flow: 0, sequence: number, ..*frame }).write(out);
        };
        let number = stream.sender.number(frame.origin, admitted.0, now.0, write);
        if is_long {
            self.steps.push_back(GroupStep::Long(place, number));
        } else if let Some(frame) = stream.sender.frame(number) {
            Datagram::Event { number, frame }.write(stream.id, stream.key.as_ref(), &mut self.scratch);
            group.send(place.1, &self.scratch, counters);
        }
        self.steps.push_back(GroupStep::Numbered(place));
        self.note_due(Some(now.0 + GroupSender::ANNOUNCED_AFTER));
        Ok(number)
    }
}

impl Group {
    /// Sends a datagram. If the system has no room it is lost, and requested again.
    fn send(&mut self, stream: usize, octets: &[u8], counters: &Block) {
        let to = self.streams.get(stream).and_then(|stream| stream.to);
        let (Some((_, socket)), Some(to)) = (&self.socket, to) else { return };
        match socket.send(to, octets, octets.len()) {
            Ok(()) => {
                self.is_failing = false;
                counters.add(Counter::LinkDatagramsSent, 1);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                if !core::mem::replace(&mut self.is_failing, true) {
                    log::warn!(
                        "datagrams of links cannot be sent to {to}: {error}; events go over the links' connections"
                    );
                }
            }
        }
    }
}

impl Stream {
    fn new(is_secure: bool, settings: &DatagramSettings) -> Self {
        let id = random::identity();
        let security = if settings.shared.is_some() {
            Security::Shared
        } else if is_secure {
            let mut octets = [0; KEY_BYTES];
            let drawn = [random::unforeseeable(), random::unforeseeable()].map(u128::to_le_bytes);
            octets.iter_mut().zip(drawn.as_flattened()).for_each(|(to, from)| *to = *from);
            Security::Session(octets)
        } else {
            Security::None
        };
        let key = settings.key_of(id, security);
        Self { id, security, key, sender: GroupSender::new(), to: None, waiting: Vec::new() }
    }
}

impl Outflow {
    /// Octets in flight over the session and with the group.
    pub(super) fn in_flight_octets(&self) -> u64 {
        let group = self.group.as_ref().map_or(0, |group| group.member.in_flight_octets());
        self.sender.in_flight_octets() + group as u64
    }

    /// Maximum octets in flight.
    pub(super) fn window(&self) -> u64 {
        let is_in_step = self.group.as_ref().is_some_and(|group| group.member.is_in_step());
        if is_in_step { Member::<Item>::WINDOW_BYTES as u64 } else { self.sender.window() }
    }

    /// Leaves the group after the connection is lost: events in flight with the group are sent again in the next session.
    pub(super) fn leave_group(&mut self, at: Token, groups: &mut Groups) {
        let Self { group: Some(grouped), sender, .. } = self else { return };
        grouped.member.disconnect(&mut |octets, item| sender.push_unsent(octets, item));
        "it has not joined yet".clone_into(&mut grouped.why);
        if let Some(stream) = groups.stream(grouped.place) {
            stream.sender.leave(at.to_bits());
            stream.waiting.retain(|waiting| *waiting != at);
        }
    }
}

impl Links<'_> {
    /// Requests a flow's far side to listen to the group, if a request is due.
    pub(super) fn ask_to_listen(&mut self, at: Token) {
        let now = self.core.cx.clock.now;
        let Protocol { outflows, connections, groups, settings, .. } = &mut self.core.protocols.link;
        // Before its far side has sent subscriptions, a flow may have other events than the rest of its group.
        let is_known = |outflow: &&mut Outflow| outflow.is_open() && outflow.subscribed.is_some();
        let Some(outflow) = outflows.get_mut(at).filter(is_known) else { return };
        let (Some(grouped), Some((token, flow))) = (&mut outflow.group, outflow.connection) else { return };
        let Some(connection) = connections.get_mut(token) else { return };
        let Some(group) = groups.groups.get(grouped.place.0) else { return };
        let Some(Stream { id, security, .. }) = group.streams.get(grouped.place.1) else { return };
        let Some(join) = grouped.member.ask(now.0) else { return };
        let address = match group.to {
            GroupAddress::Multicast(group) => {
                // An older service refuses an address with a sender, and its events go over the connection.
                let from = settings.datagrams.network_of(group);
                from.map_or_else(|| group.to_string(), |from| format!("{group}@{from}"))
            }
            GroupAddress::Peer(_) => String::new(),
        };
        let ask = GroupJoin { flow, join, stream: *id, security: *security, address: &address };
        Frame::GroupJoin(ask).write(connection.frames(&mut self.core.cx.io.spares));
        self.note_link_due(token);
    }

    /// Notes that a flow's far side listens, at this port of its own address.
    fn far_side_listens(&mut self, at: Token, join: u32, port: u16) {
        let Protocol { outflows, connections, groups, settings, .. } = &mut self.core.protocols.link;
        let Some(outflow) = outflows.get_mut(at) else { return };
        let (Some(grouped), Some((token, _))) = (&mut outflow.group, outflow.connection) else { return };
        let Some(connection) = connections.get(token) else { return };
        let Some(group) = groups.groups.get_mut(grouped.place.0) else { return };
        let network = match &group.to {
            GroupAddress::Multicast(group) => settings.datagrams.network_of(*group),
            GroupAddress::Peer(_) => None,
        };
        let Some(own) = network.or_else(|| connection.local_ip()) else { return };
        let to = match (&group.to, connection.address) {
            (GroupAddress::Multicast(address), _) => *address,
            (GroupAddress::Peer(_), Some(address)) => SocketAddr::new(address.ip().to_canonical(), port),
            (GroupAddress::Peer(_), None) => return,
        };
        // Another connection may have another local address.
        if group.socket.as_ref().is_none_or(|(of, _)| *of != own) {
            match sockets::sending(own, settings.datagrams.ttl) {
                Ok(socket) => group.socket = Some((own, socket)),
                Err(error) => {
                    let why = format!("a socket for datagrams from {own} cannot be opened: {error}");
                    return self.fall_back(at, &why);
                }
            }
        }
        if let Some(stream) = group.streams.get_mut(grouped.place.1) {
            stream.to = Some(to);
        }
        grouped.member.answered(join);
        self.resume_outflow(at);
    }

    /// Makes a flow use its connection alone: events in flight with the group are sent again there.
    pub(super) fn fall_back(&mut self, at: Token, why: &str) {
        let now = self.core.cx.clock.now;
        let Protocol { outflows, connections, groups, .. } = &mut self.core.protocols.link;
        let Some(outflow) = outflows.get_mut(at) else { return };
        let (Some(grouped), connection) = (&mut outflow.group, outflow.connection) else { return };
        let (was_in_step, sender) = (grouped.member.is_in_step(), &mut outflow.sender);
        if matches!(grouped.member.state(), State::Behind(_)) {
            return;
        }
        grouped.member.fall_back(now.0, &mut |octets, item| sender.push_unsent(octets, item));
        let is_news = grouped.why != why;
        why.clone_into(&mut grouped.why);
        let join = grouped.member.join_number();
        if let Some(stream) = groups.stream(grouped.place) {
            stream.sender.leave(at.to_bits());
        }
        let channel = outflow.channel.clone();
        let Some((token, flow)) = connection else { return };
        if let Some(connection) = connections.get_mut(token) {
            Frame::GroupLeave { flow, join, reason: why }.write(connection.frames(&mut self.core.cx.io.spares));
        }
        self.core.cx.counters.add(Counter::LinkFallBacks, u64::from(was_in_step));
        if is_news {
            let named = self.link_named(token);
            self.core.cx.log(log::Level::Warn, || {
                format!(
                    "{named}: events of the channel {channel:?} go over the link's connection and not in datagrams: {why}; that is tried again"
                )
            });
        }
        self.note_link_due(token);
        self.resume_outflow(at);
    }

    /// Performs the tasks left by events sent in datagrams.
    pub(super) fn go_on_with_groups(&mut self) {
        while let Some(step) = self.core.protocols.link.groups.steps.pop_front() {
            match step {
                GroupStep::Start { flow, from, repaired } => self.start_group(flow, from, repaired),
                GroupStep::Long(place, number) => {
                    let stream = self.core.protocols.link.groups.stream(place);
                    let members: Vec<u64> = stream.map(|stream| stream.sender.members().collect()).unwrap_or_default();
                    for member in members {
                        self.send_by_session(Token::from_bits(member), number);
                    }
                }
                GroupStep::Numbered(place) => {
                    while let Some(stream) = self.core.protocols.link.groups.stream(place)
                        && let Some(slow) = stream.sender.slow_consumer()
                    {
                        stream.sender.leave(slow);
                        self.fall_back(Token::from_bits(slow), "it is slower than the others of its group");
                    }
                    self.resume_waiting(place);
                }
            }
        }
    }

    /// Tells the far side that a flow has joined its group, and sends the events before.
    fn start_group(&mut self, at: Token, from: u64, repaired: u64) {
        let Protocol { outflows, connections, .. } = &mut self.core.protocols.link;
        let Some(outflow) = outflows.get_mut(at) else { return };
        let (Some(grouped), Some((token, flow))) = (&mut outflow.group, outflow.connection) else { return };
        let Some(connection) = connections.get_mut(token) else { return };
        let join = grouped.member.join_number();
        Frame::GroupStart { flow, join, from }.write(connection.frames(&mut self.core.cx.io.spares));
        self.note_link_due(token);
        for number in from..=repaired {
            self.send_by_session(at, number);
        }
    }

    fn resume_waiting(&mut self, place: Place) {
        let Some(stream) = self.core.protocols.link.groups.stream(place) else { return };
        for flow in core::mem::take(&mut stream.waiting) {
            self.resume_outflow(flow);
        }
    }

    /// Sends a numbered event over a flow's connection.
    fn send_by_session(&mut self, at: Token, number: u64) {
        let Protocol { outflows, connections, groups, .. } = &mut self.core.protocols.link;
        let Some(outflow) = outflows.get_mut(at) else { return };
        let (Some(grouped), Some((token, flow))) = (&outflow.group, outflow.connection) else { return };
        let Some(connection) = connections.get_mut(token).filter(|_| grouped.member.is_in_step()) else { return };
        let Some(stream) = groups.stream(grouped.place) else { return };
        let frame = stream.sender.frame(number).and_then(|frame| frame.get(LENGTH_BYTES..));
        let Some(Ok(Frame::Event(event))) = frame.map(Frame::read) else { return };
        let limits = connection.far.as_ref().map(|far| far.limits);
        if limits.is_some_and(|limits| !event.fits(limits)) {
            return self.fall_back(at, "an event of its group exceeds its limits.message_bytes_max");
        }
        if connection.output.queued_bytes() > GroupSender::RETAINED_BYTES_MAX {
            return self.fall_back(at, "it asks for more than its connection takes");
        }
        let event = wire::Event { flow, ..event };
        Frame::GroupEvent(event).write(connection.frames(&mut self.core.cx.io.spares));
        self.note_link_due(token);
    }

    /// Performs the timers of groups, as sender and as receiver.
    pub(super) fn serve_groups_due(&mut self) {
        let now = self.core.cx.clock.now;
        self.core.protocols.link.groups.due = None;
        for place in self.core.protocols.link.groups.places() {
            self.resume_waiting(place);
            let Groups { groups, scratch, .. } = &mut self.core.protocols.link.groups;
            let Some(group) = groups.get_mut(place.0) else { continue };
            let Some(stream) = group.streams.get_mut(place.1) else { continue };
            if let Some(number) = stream.sender.take_announcement(now.0) {
                Datagram::Announcement { number }.write(stream.id, stream.key.as_ref(), scratch);
                group.send(place.1, scratch, &self.core.cx.counters);
            }
            while let Some(stream) = self.core.protocols.link.groups.stream(place)
                && let Some(stalled) = stream.sender.stalled(now.0)
            {
                stream.sender.leave(stalled);
                self.fall_back(Token::from_bits(stalled), "it has acknowledged nothing for 3 s");
            }
            let groups = &mut self.core.protocols.link.groups;
            let due = groups.stream(place).and_then(|stream| stream.sender.next_due());
            groups.note_due(due);
        }
        self.request_missing();
    }

    /// Requests joins for flows that are behind, and ends requests without an answer.
    pub(super) fn look_after_groups(&mut self) {
        let now = self.core.cx.clock.now;
        let outflows = self.core.protocols.link.outflows.iter().filter(|(_, outflow)| outflow.group.is_some());
        for at in outflows.map(|(at, _)| at).collect::<Vec<_>>() {
            let outflow = self.core.protocols.link.outflows.get(at);
            let grouped = outflow.and_then(|outflow| outflow.group.as_ref());
            if grouped.is_some_and(|grouped| grouped.member.is_unanswered(now.0)) {
                self.fall_back(at, "it has not said that it listens");
            }
            self.ask_to_listen(at);
        }
    }

    /// Handles an acknowledgement of a group's events up to a number.
    ///
    /// # Errors
    /// The number was not sent, or is lower than the last.
    fn acknowledge_group(&mut self, at: Token, join: u32, up_to: u64) -> Result<(), String> {
        let now = self.core.cx.clock.now;
        let Protocol { outflows, groups, .. } = &mut self.core.protocols.link;
        let Some(outflow) = outflows.get_mut(at) else { return Ok(()) };
        let Some(grouped) = &mut outflow.group else { return Ok(()) };
        let Some(stream) = groups.stream(grouped.place) else { return Ok(()) };
        if join != grouped.member.join_number() || !grouped.member.is_in_step() {
            return Ok(());
        }
        let done = stream.sender.acknowledge(at.to_bits(), up_to, now.0);
        done.map_err(|violation| violation.to_string())?;
        let (lane, mut acknowledged) = (&mut self.core.cx.lane, 0);
        let last_acknowledged = &mut outflow.last_acknowledged;
        grouped.member.acknowledge(up_to, &mut |item: Item| {
            acknowledged += 1;
            if item.is_persistent {
                last_acknowledged.note(&item.event);
            }
            lane.handle_outcome(item.outbox, item.serial, Outcome::Delivered, now);
            lane.release(item.event);
        });
        if grouped.member.is_proven() {
            grouped.why.clear();
        }
        outflow.counts.acknowledged += acknowledged;
        let stall = if acknowledged > 0 { outflow.stall.take() } else { None };
        if let Some(stall) = stall {
            self.end_stall(at, stall);
        }
        self.resume_outflow(at);
        Ok(())
    }

    /// Handles a rejection of a group's event.
    fn reject_of_group(&mut self, at: Token, join: u32, number: u64, why: &str) {
        let now = self.core.cx.clock.now;
        let Some(outflow) = self.core.protocols.link.outflows.get_mut(at) else { return };
        let Some(grouped) = outflow.group.as_mut().filter(|group| group.member.join_number() == join) else { return };
        let (item, is_within) = grouped.member.reject(number);
        why.clone_into(&mut outflow.why);
        self.core.cx.counters.add(Counter::LinkEventsRejected, 1);
        if let Some(item) = item {
            outflow.counts.rejected += 1;
            self.core.cx.lane.handle_outcome(item.outbox, item.serial, Outcome::Rejected, now);
            self.core.cx.lane.release(item.event);
        }
        if !is_within {
            self.fall_back(at, "it rejects too many events");
        }
    }

    /// Subscribes all flows of a group to the union of their far sides' subscriptions, so that all have the same events in order.
    pub(super) fn subscribe_group(&mut self, place: Place) -> (bool, Vec<EventType>) {
        let link = &mut self.core.protocols.link;
        let is_of_it = |outflow: &Outflow| outflow.group.as_ref().is_some_and(|group| group.place == place);
        let (mut everything, mut all) = (false, Vec::new());
        for (_, outflow) in link.outflows.iter().filter(|(_, outflow)| is_of_it(outflow)) {
            let Some((wants_all, types)) = outflow.group.as_ref().and_then(|group| group.far_subscribed.as_ref())
            else {
                continue;
            };
            everything |= wants_all;
            for of_type in types {
                if !all.contains(of_type) {
                    all.push(of_type.clone());
                }
            }
        }
        if everything {
            all.clear();
        }
        all.sort_unstable_by(|one, other| (&one.domain, &one.name).cmp(&(&other.domain, &other.name)));
        let subscribed = (everything, all);
        let mut due = Vec::new();
        for (at, outflow) in link.outflows.iter_mut().filter(|(_, outflow)| is_of_it(outflow)) {
            if let (Some(key), Some(before)) = (outflow.key(), &mut outflow.subscribed)
                && *before != subscribed
            {
                before.clone_from(&subscribed);
                due.push((at, key));
            }
        }
        for (at, key) in due {
            self.subscribe_outflow(at, key, subscribed.clone());
        }
        subscribed
    }
}

//! Groups of links that share datagrams: the receiving end, with its sockets and streams.

use std::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use links::group::{Datagram, GroupReceiver, Key, Taken, stream_of};
use links::wire::{self, Frame, GroupJoin, LENGTH_BYTES, Ranges, Security};

use super::super::inflow::Number;
use super::super::session::{Connection, State};
use super::super::{Flow, Links, Protocol};
use super::sockets;
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::io::datagrams::Received;
use crate::lane::io::net::Datagrams;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::protocols::Tag;

/// Maximum sockets for datagrams of links.
const SOCKETS_MAX: usize = 64;
/// Maximum octets of frames that wait for earlier ones, of all links together.
const RETAINED_BYTES_MAX: usize = 64 << 20;

/// The sockets that receive datagrams, and the flows by their streams.
#[derive(Default)]
pub(in crate::protocols::link) struct Receiving {
    sockets: Vec<ReceivingSocket>,
    by_stream: HashMap<u64, Token>,
    received: Received,
    /// Octets of frames that wait for earlier ones.
    retained: usize,
    frame: Vec<u8>,
    ranges: Vec<(u64, u64)>,
}

struct ReceivingSocket {
    at: ListensAt,
    port: u16,
    socket: Datagrams,
    users: usize,
}

/// The local address of a socket, and the multicast group that it has joined.
type ListensAt = (IpAddr, Option<SocketAddr>);

/// The state of a flow in that listens to a stream.
pub(in crate::protocols::link) struct Listening {
    pub(in crate::protocols::link) join: u32,
    stream: u64,
    key: Option<Key>,
    at: ListensAt,
    /// The sender's address, if it is not the connection's.
    from: Option<IpAddr>,
    /// The receiver, since the first event with a number.
    receiver: Option<GroupReceiver>,
}

impl Listening {
    pub(in crate::protocols::link) fn complete(&mut self, number: u64) {
        if let Some(receiver) = &mut self.receiver {
            receiver.complete(number);
        }
    }

    /// The current carrier of the flow's events.
    pub(in crate::protocols::link) const fn carrier(&self) -> &'static str {
        match (&self.receiver, self.at) {
            (None, _) => "tcp",
            (Some(_), (_, None)) => "udp",
            (Some(_), (_, Some(_))) => "multicast",
        }
    }

    /// The number to acknowledge now.
    pub(in crate::protocols::link) fn take_ack(&mut self) -> Option<(u32, u64)> {
        Some((self.join, self.receiver.as_mut()?.take_ack()?))
    }
}

impl Connection {
    /// The local address of the connection.
    pub(super) fn local_ip(&self) -> Option<IpAddr> {
        let State::Open(stream) = &self.state else { return None };
        stream.tcp().local_addr().ok().map(|address| address.ip().to_canonical())
    }

    const fn is_secure(&self) -> bool {
        matches!(self.state, State::Open(Stream::Secure(_)))
    }
}

impl Links<'_> {
    /// Begins to listen to a stream at the request of a flow's far side.
    pub(super) fn listen_to_group(&mut self, at: Token, join: &GroupJoin<'_>) {
        self.stop_listening(at);
        let Some(inflow) = self.core.protocols.link.inflows.get(at) else { return };
        let (token, flow) = (inflow.connection(), inflow.flow);
        let begun = self.begin_to_listen(token, at, join);
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        let frames = connection.frames(&mut self.core.cx.io.spares);
        let join = join.join;
        match begun {
            Ok(port) => Frame::GroupListening { flow, join, port }.write(frames),
            Err(reason) => Frame::GroupLeave { flow, join, reason: &reason }.write(frames),
        }
        self.note_link_due(token);
    }

    /// Begins to listen. Returns the socket's port, or the reason for a refusal.
    fn begin_to_listen(&mut self, token: Token, at: Token, join: &GroupJoin<'_>) -> Result<u16, String> {
        let Protocol { connections, settings, receiving, inflows, .. } = &mut self.core.protocols.link;
        let connection = connections.get(token).ok_or("its connection is gone")?;
        let settings = &settings.datagrams;
        match join.security {
            Security::None if !settings.is_unauthenticated => {
                return Err("links.datagrams.unauthenticated is not set at both sides".to_owned());
            }
            Security::Session(_) if !connection.is_secure() => return Err("its key came in the clear".to_owned()),
            Security::Shared if settings.shared.is_none() => {
                return Err("links.datagrams.key_file is not set at both sides".to_owned());
            }
            _ => {}
        }
        // The address may be followed by that of the sender, if it is not the connection's.
        let (group, from) =
            join.address.split_once('@').map_or((join.address, None), |(group, from)| (group, Some(from)));
        let from = from.map(|from| from.parse::<IpAddr>().map_err(|_| "the address that it sends from is none"));
        let from = from.transpose()?;
        let group = match group {
            "" => None,
            address => {
                let address = address.parse().ok();
                let is_group = |address: &SocketAddr| address.ip().is_multicast() && address.port() != 0;
                Some(address.filter(is_group).ok_or("the address of its group is none")?)
            }
        };
        if receiving.by_stream.contains_key(&join.stream) {
            return Err("this service listens to the group for another link".to_owned());
        }
        let network = group.and_then(|group| settings.network_of(group));
        let own = network.or_else(|| connection.local_ip()).ok_or("its connection has no address")?;
        let listens_at = (own, group);
        let known = receiving.sockets.iter_mut().find(|socket| socket.at == listens_at);
        let port = if let Some(socket) = known {
            socket.users += 1;
            socket.port
        } else {
            if receiving.sockets.len() >= SOCKETS_MAX {
                return Err(format!("this service listens to {SOCKETS_MAX} groups already"));
            }
            let opened = match group {
                Some(group) => sockets::receiving_group(group, own).map(|socket| (socket, group.port())),
                None => sockets::receiving(own, settings.port),
            };
            let what = || group.map_or_else(|| format!("{own}, port {}", settings.port), |group| group.to_string());
            let cannot = |error: std::io::Error| format!("datagrams to {} cannot be taken: {error}", what());
            let (socket, port) = opened.map_err(cannot)?;
            self.core.cx.io.poll.add(&socket, Socket::Datagrams(Tag::Link), Interest::READ).map_err(cannot)?;
            receiving.sockets.push(ReceivingSocket { at: listens_at, port, socket, users: 1 });
            port
        };
        let key = settings.key_of(join.stream, join.security);
        receiving.by_stream.insert(join.stream, at);
        if let Some(inflow) = inflows.get_mut(at) {
            inflow.group =
                Some(Listening { join: join.join, stream: join.stream, key, at: listens_at, from, receiver: None });
        }
        Ok(port)
    }

    /// Ends a flow's listening.
    pub(in crate::protocols::link) fn stop_listening(&mut self, at: Token) {
        let Protocol { inflows, receiving, .. } = &mut self.core.protocols.link;
        let Some(listening) = inflows.get_mut(at).and_then(|inflow| inflow.group.take()) else { return };
        receiving.by_stream.remove(&listening.stream);
        receiving.retained -= listening.receiver.as_ref().map_or(0, GroupReceiver::retained_octets);
        if let Some(place) = receiving.sockets.iter().position(|socket| socket.at == listening.at)
            && let Some(socket) = receiving.sockets.get_mut(place)
        {
            socket.users -= 1;
            if socket.users == 0 {
                // A closed socket leaves the poll by itself.
                receiving.sockets.swap_remove(place);
            }
        }
    }

    /// Notes that a flow's events come with the group from this number on.
    pub(super) fn group_starts(&mut self, at: Token, join: u32, from: u64) {
        let listening = self.core.protocols.link.inflows.get_mut(at).and_then(|inflow| inflow.group.as_mut());
        if let Some(listening) = listening.filter(|listening| listening.join == join) {
            let former = listening.receiver.replace(GroupReceiver::new(from));
            self.core.protocols.link.receiving.retained -= former.map_or(0, |former| former.retained_octets());
        }
    }

    /// Notes that a flow's events come over its connection again.
    pub(super) fn group_ends(&mut self, at: Token, join: u32) {
        let listening = self.core.protocols.link.inflows.get(at).and_then(|inflow| inflow.group.as_ref());
        if listening.is_some_and(|listening| listening.join == join) {
            self.stop_listening(at);
        }
    }

    /// Takes an event of a group that arrived over a connection.
    pub(super) fn take_group_event(&mut self, at: Token, event: &wire::Event<'_>) {
        let mut frame = core::mem::take(&mut self.core.protocols.link.receiving.frame);
        frame.clear();
        Frame::Event(*event).write(&mut frame);
        if self.take_group_frame(at, event.sequence, &frame, true) == Some(Taken::NoRoom) {
            self.leave_group(at, "more events wait for an earlier one than there is room for");
        }
        self.core.protocols.link.receiving.frame = frame;
    }

    /// Ends a flow's listening, and has the far side use the connection.
    fn leave_group(&mut self, at: Token, reason: &str) {
        let Protocol { inflows, connections, .. } = &mut self.core.protocols.link;
        let Some(inflow) = inflows.get(at) else { return };
        let (token, flow, Some(join)) =
            (inflow.connection(), inflow.flow, inflow.group.as_ref().map(|group| group.join))
        else {
            return;
        };
        if let Some(connection) = connections.get_mut(token) {
            Frame::GroupLeave { flow, join, reason }.write(connection.frames(&mut self.core.cx.io.spares));
        }
        self.note_link_due(token);
        self.stop_listening(at);
    }

    /// Takes a numbered frame, and those that waited for it.
    fn take_group_frame(&mut self, at: Token, number: u64, frame: &[u8], is_of_session: bool) -> Option<Taken> {
        let now = self.core.cx.clock.now;
        let Protocol { inflows, groups, receiving, .. } = &mut self.core.protocols.link;
        let receiver = inflows.get_mut(at)?.group.as_mut()?.receiver.as_mut()?;
        if number != receiver.next_number() && receiving.retained + frame.len() > RETAINED_BYTES_MAX {
            return Some(Taken::NoRoom);
        }
        let before = receiver.retained_octets();
        let taken = receiver.take(number, frame, is_of_session, now.0);
        receiving.retained += receiver.retained_octets() - before;
        groups.note_due(receiver.next_due());
        if taken == Taken::Now {
            self.take_event_of_frame(at, number, frame);
            self.take_retained(at);
        }
        Some(taken)
    }

    fn take_event_of_frame(&mut self, at: Token, number: u64, frame: &[u8]) {
        match frame.get(LENGTH_BYTES..).map(Frame::read) {
            Some(Ok(Frame::Event(event))) => self.take_numbered(at, Number::Group(number), &event),
            _ => self.leave_group(at, "a datagram has no event"),
        }
    }

    /// Takes retained frames that are next in order.
    fn take_retained(&mut self, at: Token) {
        while let Some(inflow) = self.core.protocols.link.inflows.get_mut(at)
            && let Some(receiver) = inflow.group.as_mut().and_then(|group| group.receiver.as_mut())
            && let Some((number, frame)) = receiver.pop()
        {
            self.core.protocols.link.receiving.retained -= frame.len();
            self.take_event_of_frame(at, number, &frame);
        }
    }

    /// Takes retained frames of all flows of a connection, after pending events are complete.
    pub(in crate::protocols::link) fn take_retained_of(&mut self, token: Token) {
        let Protocol { connections, inflows, .. } = &self.core.protocols.link;
        let Some(connection) = connections.get(token) else { return };
        let has_retained = |at: &Token| {
            let group = inflows.get(*at).and_then(|inflow| inflow.group.as_ref());
            group.and_then(|group| group.receiver.as_ref()).is_some_and(|receiver| receiver.retained_octets() > 0)
        };
        let flows = connection.flows.values().filter_map(|flow| match *flow {
            Flow::In(at) => Some(at),
            Flow::Out(_) => None,
        });
        let due: Vec<Token> = flows.filter(has_retained).collect();
        for at in due {
            self.take_retained(at);
        }
    }

    /// Reads the datagrams that have arrived.
    pub(in crate::protocols::link) fn read_link_datagrams(&mut self) {
        let mut received = core::mem::take(&mut self.core.protocols.link.receiving.received);
        for place in 0..self.core.protocols.link.receiving.sockets.len() {
            let mut all = 0;
            while all < Budget::DATAGRAMS.events {
                let Some(socket) = self.core.protocols.link.receiving.sockets.get(place) else { break };
                let Ok(more) = socket.socket.receive(&mut received) else { break };
                for (from, octets) in received.iter() {
                    all += 1;
                    self.hear_link_datagram(from, octets);
                }
                if !more {
                    break;
                }
            }
            self.core.cx.counters.add(Counter::LinkDatagramsReceived, all.into());
        }
        self.core.protocols.link.receiving.received = received;
        self.core.deliver();
    }

    fn hear_link_datagram(&mut self, from: SocketAddr, octets: &[u8]) {
        let now = self.core.cx.clock.now;
        let Protocol { receiving, inflows, connections, groups, .. } = &mut self.core.protocols.link;
        let Some(stream) = stream_of(octets) else { return self.refuse_datagram(from, "it is none of a link's") };
        let inflow = receiving.by_stream.get(&stream).and_then(|at| Some((*at, inflows.get_mut(*at)?)));
        let Some((at, inflow)) = inflow else {
            return self.core.cx.counters.add(Counter::LinkDatagramsIgnored, 1);
        };
        let token = inflow.connection();
        let of_connection = connections.get(token).and_then(|connection| connection.address);
        let address = inflow.group.as_ref().and_then(|group| group.from).or(of_connection.map(|address| address.ip()));
        if address.is_none_or(|address| address.to_canonical() != from.ip().to_canonical()) {
            return self.refuse_datagram(from, "its stream is of a service at another address");
        }
        let Some(listening) = &mut inflow.group else { return };
        let taken = match Datagram::read(octets, listening.key.as_ref()) {
            Err(_) => return self.refuse_datagram(from, "its authentication code is wrong"),
            Ok(Datagram::Event { number, frame }) => self.take_group_frame(at, number, frame, false),
            Ok(Datagram::Announcement { number }) => {
                if let Some(receiver) = &mut listening.receiver {
                    receiver.note_announced(number, now.0);
                    groups.note_due(receiver.next_due());
                }
                return;
            }
        };
        if !matches!(taken, Some(Taken::Now | Taken::Later)) {
            self.core.cx.counters.add(Counter::LinkDatagramsIgnored, 1);
        }
        self.note_link_due(token);
    }

    fn refuse_datagram(&mut self, from: SocketAddr, why: &str) {
        self.core.cx.counters.add(Counter::LinkDatagramsRefused, 1);
        if self.core.cx.io.logged_once.is_first(from.ip()) {
            self.core.cx.log(log::Level::Warn, || {
                format!("a datagram for links from {from} is refused: {why}; further ones from there are counted")
            });
        }
    }

    /// Requests missing events.
    pub(super) fn request_missing(&mut self) {
        let now = self.core.cx.clock.now;
        let Protocol { receiving, inflows, connections, groups, .. } = &mut self.core.protocols.link;
        let mut due = Vec::new();
        for at in receiving.by_stream.values() {
            let Some(inflow) = inflows.get_mut(*at) else { continue };
            let (token, flow) = (inflow.connection(), inflow.flow);
            let Some(Listening { join, receiver: Some(receiver), .. }) = &mut inflow.group else { continue };
            if receiver.take_request(now.0, &mut receiving.ranges)
                && let Some(connection) = connections.get_mut(token)
            {
                let numbers = receiving.ranges.iter().map(|(first, last)| last - first + 1).sum();
                self.core.cx.counters.add(Counter::LinkDatagramsRequested, numbers);
                let ranges = Ranges::new(&receiving.ranges);
                Frame::GroupRequest { flow, join: *join, ranges }.write(connection.frames(&mut self.core.cx.io.spares));
                due.push(token);
            }
            groups.note_due(receiver.next_due());
        }
        for token in due {
            self.note_link_due(token);
        }
    }
}

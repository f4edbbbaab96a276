//! Connections of links that this service makes: names are resolved, addresses tried in turn, and failures tried again.

use core::time::Duration;
use std::net::SocketAddr;

use engine::Time;
use links::wire::{Direction, Frame, Open, Types};

use super::episodes::Episode;
use super::gateway::Gateway;
use super::session::{Connection, State, UNSENT_MAX};
use super::{Flow, Links, Protocol, own_durable};
use crate::admin::values::LinkOrigin;
use crate::config::{Carrier, LinkEntry, WhenFull};
use crate::lane::io::net::{self, Tcp};
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::Interest;
use crate::protocols::Tag;
use crate::protocols::link::inflow::Inflow;
use crate::protocols::link::outflow::{Backlog, Outflow};
use crate::resolver;
use std::sync::Arc;

/// Interval between attempts to connect, and between attempts to open refused channels.
const AGAIN: Duration = Duration::from_secs(1);
const CHANNELS_AGAIN: Duration = Duration::from_secs(10);
/// Maximum duration of an attempt, including name resolution and TLS.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// A link that this service makes.
pub(super) struct Link {
    pub(super) entry: LinkEntry,
    pub(super) connection: Option<Token>,
    /// The flows out, in the order of the configured channels. `None` for a link that does not send, and for refused channels.
    pub(super) outflows: Vec<Option<Token>>,
    /// Time of the next attempt to open refused channels.
    channels_again: Time,
    pub(super) is_paused: bool,
    pub(super) origin: LinkOrigin,
    /// Whether the link is removed: once its connection is closed, another link may take its number.
    pub(super) is_removed: bool,
    /// The reason why the link is down. `None` while it is up.
    pub(super) why: Option<String>,
    /// Since when the link is up, or down.
    pub(super) since: Time,
    pub(super) episode: Episode,
    next_try: Time,
    /// The thread between the lane and a notification service or Zenoh.
    pub(super) gateway: Option<Gateway>,
}

impl Link {
    pub(super) fn new(entry: LinkEntry, origin: LinkOrigin) -> Self {
        let why = Some("it was not connected yet".to_owned());
        let outflows = vec![None; entry.channels.len()];
        let [since, next_try, channels_again] = [Time(0); 3];
        Self {
            entry,
            connection: None,
            outflows,
            channels_again,
            is_paused: false,
            origin,
            is_removed: false,
            why,
            since,
            episode: Episode::default(),
            next_try,
            gateway: None,
        }
    }
}

impl Link {
    /// Schedules the opening of missing flows for the next check.
    pub(super) const fn open_channels_again(&mut self) {
        self.channels_again = Time(0);
    }
}

impl Links<'_> {
    /// Requests a link's missing consumers, and dials if there is no connection.
    pub(super) fn keep_up_link(&mut self, number: usize, is_draining: bool) {
        let now = self.core.cx.clock.now;
        let link = self.core.protocols.link.links.get(number);
        let Some(link) = link.filter(|link| !link.is_removed) else { return };
        if link.channels_again <= now && !is_draining {
            self.add_flows(number);
        }
        let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
        if matches!(link.entry.carrier, Carrier::Iiop | Carrier::Zenoh) {
            return self.keep_up_gateway(number, is_draining);
        }
        if link.connection.is_none() && !link.is_paused && !is_draining && link.next_try <= now {
            link.next_try = now + AGAIN;
            self.dial(number);
        }
    }

    /// Requests the missing consumers of a link's channels, and opens the missing flows in.
    fn add_flows(&mut self, number: usize) {
        let again = self.core.cx.clock.now + CHANNELS_AGAIN;
        let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
        link.channels_again = again;
        let (entry, connection, outflows) = (link.entry.clone(), link.connection, link.outflows.clone());
        let origin = link.origin;
        if let Some(token) = connection.filter(|token| self.is_greeted(*token)) {
            self.open_flows(token, number);
        }
        // An announcement may be forged, so it creates no consumers before the first connection.
        let is_met = connection.is_some_and(|token| self.is_greeted(token)) || outflows.iter().any(Option::is_some);
        if origin == LinkOrigin::Found && !is_met {
            return;
        }
        let channels = entry.channels.iter().zip(outflows).enumerate();
        for (place, (channel, _)) in channels.filter(|(_, (_, at))| at.is_none() && entry.direction.sends()) {
            let durable = own_durable(&entry.name);
            let refuses = entry.when_full == WhenFull::Refuse;
            let backlog = Backlog { bytes_max: entry.backlog_bytes_max, refuses };
            // Replaces the flow that was restored for this link.
            let outflows = &mut self.core.protocols.link.outflows;
            let is_its = |of: &Outflow| of.served.is_some() && of.durable == durable && of.channel == *channel;
            let restored = outflows.iter().find(|(_, of)| is_its(of)).map(|(at, _)| at);
            restored.map(|at| outflows.remove(at));
            let mut outflow = Outflow::new(
                channel.clone(),
                durable,
                (Some(number), backlog),
                self.core.protocols.link.settings.limits,
            );
            let Protocol { groups, settings, outflows, .. } = &mut self.core.protocols.link;
            let is_of = |group: usize| {
                move |(_, of): (Token, &Outflow)| of.group.as_ref().is_some_and(|of| of.place.0 == group)
            };
            let is_used = |group| outflows.iter().any(is_of(group));
            outflow.group = groups.group_of(&entry, place, &settings.datagrams, is_used);
            let token = self.core.protocols.link.outflows.insert(outflow);
            let link = self.core.protocols.link.links.get_mut(number);
            if let Some(at) = link.and_then(|link| link.outflows.get_mut(place)) {
                *at = Some(token);
            }
            let account = Arc::clone(&self.core.protocols.link.own);
            self.ask_for_consumer(token, (entry.event_types(), entry.constraint.clone()), &account);
        }
    }

    /// Begins to connect a link.
    fn dial(&mut self, number: usize) {
        let now = self.core.cx.clock.now;
        let Protocol { links, connections, own, settings, .. } = &mut self.core.protocols.link;
        let Some(link) = links.get_mut(number) else { return };
        let Some((host, port)) = link.entry.host_and_port() else { return };
        let (host, port) = (host.to_owned(), port);
        let quota = self.core.cx.io.quotas.arrive(own.ip());
        let connection = Connection::made_by_us(number, Arc::clone(own), quota, (settings.limits, now));
        let token = connections.insert(connection);
        link.connection = Some(token);
        let begun = if let Some(ips) = resolver::known_without_asking(&host) {
            let addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
            return self.link_resolved(token, Ok(addresses));
        } else {
            let account = Arc::clone(own);
            self.core.cx.look_up((Tag::Link, token), (host, port), CONNECT_WITHIN, &account)
        };
        if let Err(why) = begun {
            self.close_link(token, &why);
        }
    }

    /// Handles the addresses of a link's host; the last one is tried first.
    pub(super) fn link_resolved(&mut self, token: Token, addresses: Result<Vec<SocketAddr>, String>) {
        let Some(connection) = self.core.protocols.link.connections.get(token) else { return };
        if !matches!(connection.state, State::Resolving) {
            return;
        }
        match addresses {
            Ok(addresses) => self.try_addresses(token, addresses, "its host has no address"),
            Err(why) => self.close_link(token, &why),
        }
    }

    /// Begins to connect to the last of the addresses for which an attempt can be made.
    pub(super) fn try_addresses(&mut self, token: Token, mut others: Vec<SocketAddr>, failure: &str) {
        let mut failure = failure.to_owned();
        while let Some(address) = others.pop() {
            let socket = Socket::Outgoing(Tag::Link, token);
            let begun = net::begin_connect(address).and_then(|tcp| {
                self.core.cx.io.poll.add(&tcp, socket, Interest::WRITE)?;
                Ok(tcp)
            });
            match (begun, self.core.protocols.link.connections.get_mut(token)) {
                (Ok(tcp), Some(connection)) => {
                    (connection.address, connection.rounds.interest) = (Some(address), Interest::WRITE);
                    connection.state = State::Connecting(tcp, others);
                    return;
                }
                (Err(error), Some(_)) => failure = format!("{address}: {error}"),
                (_, None) => return,
            }
        }
        self.close_link(token, &failure);
    }

    /// Handles the end of an attempt to connect.
    pub(super) fn go_on_dialling(&mut self, token: Token) {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        let State::Connecting(tcp, others) = core::mem::replace(&mut connection.state, State::Resolving) else {
            return;
        };
        let why = match tcp.take_error() {
            Ok(None) => {
                if let Ok(peer) = tcp.peer_addr() {
                    self.core.cx.io.quotas.leave(connection.rounds.quota);
                    connection.rounds.quota = self.core.cx.io.quotas.arrive(peer.ip());
                    connection.address = Some(peer);
                }
                let link = connection.link.and_then(|number| self.core.protocols.link.links.get(number));
                return match link.filter(|link| link.entry.tls).map(|link| link.entry.host_and_port()) {
                    Some(host) => {
                        self.secure_link(token, tcp, host.map(|(host, _)| host.to_owned()).unwrap_or_default())
                    }
                    None => self.open_link(token, tcp.into()),
                };
            }
            Ok(Some(error)) | Err(error) => error.to_string(),
        };
        drop(tcp);
        self.try_addresses(token, others, &why);
    }

    /// Begins the TLS handshake of a connection.
    pub(super) fn secure_link(&mut self, token: Token, tcp: Tcp, host: String) {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        connection.state = State::Shaking;
        let account = Arc::clone(&connection.account);
        if let Err(why) = self.core.cx.begin_handshake((Tag::Link, token), tcp, host, &account) {
            self.close_link(token, &why);
        }
    }

    /// Handles the end of a TLS handshake.
    pub(super) fn link_secured(&mut self, token: Token, stream: Result<Stream, String>) {
        let Some(connection) = self.core.protocols.link.connections.get(token) else { return };
        if !matches!(connection.state, State::Shaking) {
            return;
        }
        let opened = stream.and_then(|stream| {
            let socket = Socket::Outgoing(Tag::Link, token);
            self.core.cx.io.poll.add(stream.tcp(), socket, Interest::READ).map_err(|error| error.to_string())?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => self.open_link(token, stream),
            Err(why) => self.close_link(token, &why),
        }
    }

    /// Sends Hello on a new connection.
    fn open_link(&mut self, token: Token, stream: Stream) {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        net::bound_unsent(stream.tcp(), UNSENT_MAX);
        connection.state = State::Open(stream);
        connection.heard = self.core.cx.clock.now;
        let name = connection.link.and_then(|number| self.core.protocols.link.links.get(number));
        let name = name.map(|link| link.entry.name.clone()).unwrap_or_default();
        self.greet_far_side(token, &name);
    }

    /// Opens the missing flows of a link's channels: flows in once their suppliers exist.
    pub(super) fn open_flows(&mut self, token: Token, number: usize) {
        let Some(link) = self.core.protocols.link.links.get(number) else { return };
        let (entry, outflows) = (link.entry.clone(), link.outflows.clone());
        for outflow in outflows.into_iter().flatten() {
            self.open_outflow(token, outflow);
        }
        self.open_inflows(token, &entry);
    }

    /// Opens the missing flows in.
    fn open_inflows(&mut self, token: Token, entry: &LinkEntry) {
        for channel in entry.channels.iter().filter(|_| entry.direction.receives()) {
            let is_it = |inflow: &Inflow| inflow.connection() == token && inflow.channel == *channel;
            if self.core.protocols.link.inflows.iter().any(|(_, inflow)| is_it(inflow)) {
                continue;
            }
            let flow = self.next_flow(token);
            let account = Arc::clone(&self.core.protocols.link.own);
            self.add_inflow((token, flow), channel, &account);
        }
    }

    /// Opens a flow out, once its connection and its consumer exist.
    pub(super) fn open_outflow(&mut self, token: Token, at: Token) {
        let Some(outflow) = self.core.protocols.link.outflows.get(at) else { return };
        if !outflow.is_registered() || outflow.connection.is_some() {
            return;
        }
        let channel = outflow.channel.clone();
        let flow = self.next_flow(token);
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        connection.flows.insert(flow, Flow::Out(at));
        let open = Open { flow, direction: Direction::Out, channel: &channel, types: Types::NONE, constraint: "" };
        Frame::Open(open).write(connection.frames(&mut self.core.cx.io.spares));
        if let Some(outflow) = self.core.protocols.link.outflows.get_mut(at) {
            outflow.connection = Some((token, flow));
        }
        self.note_link_due(token);
    }

    /// The number for the next flow that this service opens on a connection.
    fn next_flow(&mut self, token: Token) -> u32 {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return 0 };
        connection.next_flow += 1;
        connection.next_flow
    }
}

//! The status of links for operators, and operators' commands.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeSet;

use engine::{DiscardReason, Lane, OutboxId, OutboxStats, Time};

use super::datagrams::Listening;
use super::dialling::Link;
use super::inflow::Inflow;
use super::outflow::Outflow;
use super::session::State;
use super::{Connection, Links, Protocol, ZENOH_ADDRESS};
use crate::admin::values::{FederationMember, LinkDirection, LinkOrigin, LinkState, LinkStatus};
use crate::config::Carrier;
use crate::lane::io::slots::Token;

impl Protocol {
    /// The number of the link with this name.
    pub(super) fn number_of(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| !link.is_removed && link.entry.name == name)
    }

    /// The status of the flows at these indices, out and in. `None` if there are none from the first index on.
    pub(super) fn status_at(&self, lane: &Lane, now: Time, places: &Range<u32>) -> Option<Vec<LinkStatus>> {
        let count = places.end.saturating_sub(places.start);
        let (out, into) = (self.outflows.range(places.start, count), self.inflows.range(places.start, count));
        let links = self.links.get(places.start as usize..).filter(|links| !links.is_empty());
        if out.is_none() && into.is_none() && links.is_none() {
            return None;
        }
        let out = out.into_iter().flatten().map(|outflow| self.status_of_outflow(outflow, lane, now));
        let into = into.into_iter().flatten().map(|inflow| self.status_of_inflow(inflow, now));
        let links = links.into_iter().flatten().take(count as usize);
        Some(out.chain(into).chain(links.flat_map(|link| self.status_of_closed(link, now))).collect())
    }

    /// The status of the flows in of a link that are not open.
    fn status_of_closed(&self, link: &Link, now: Time) -> Vec<LinkStatus> {
        if link.is_removed || !link.entry.direction.receives() {
            return Vec::new();
        }
        let connection = link.connection.and_then(|token| self.connections.get(token));
        let into = self.inflows.iter().filter(|(_, inflow)| Some(inflow.connection()) == link.connection);
        let there: BTreeSet<&str> = into.map(|(_, inflow)| inflow.channel.as_str()).collect();
        let closed = link.entry.channels.iter().filter(|channel| !there.contains(channel.as_str()));
        let status_of = |channel: &String| {
            let mut status = LinkStatus {
                channel: channel.clone(),
                direction: LinkDirection::In,
                carrier: "tcp".to_owned(),
                ..LinkStatus::default()
            };
            let is_up = connection.is_some_and(|connection| connection.far.is_some());
            let refused = if is_up { "a side refuses the channel: its log says why" } else { "" };
            self.fill(&mut status, (Some(link), connection), (false, link.since), refused, now);
            status
        };
        closed.map(status_of).collect()
    }

    fn status_of_outflow(&self, outflow: &Outflow, lane: &Lane, now: Time) -> LinkStatus {
        let connection = outflow.connection.and_then(|(token, _)| self.connections.get(token));
        let link = outflow.link.and_then(|number| self.links.get(number));
        let stats =
            outflow.outbox.and_then(|outbox| stats_of(lane, outbox)).filter(|stats| Some(stats.key) == outflow.key());
        let (counts, sender) = (outflow.counts, outflow.sender());
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let mut status = LinkStatus {
            channel: outflow.channel.clone(),
            direction: LinkDirection::Out,
            lag_events: stats.as_ref().map_or(0, |stats| stats.backlog_events),
            lag_octets: stats.as_ref().map_or(0, |stats| stats.backlog_bytes),
            dropped: stats.as_ref().map_or(0, dropped),
            lag_ms: stats.and_then(|stats| stats.oldest).map_or(0, |oldest| millis(now.since(oldest))),
            in_flight_events: outflow.in_flight() as u64,
            in_flight_octets: outflow.in_flight_octets(),
            window_octets: outflow.window(),
            round_trip_us: sender.round_trip().unwrap_or(0) / 1_000,
            sent: counts.sent,
            acknowledged: counts.acknowledged,
            lost: counts.lost,
            rejected: counts.rejected,
            loops: counts.loops,
            forgotten: outflow.forgotten,
            subscriptions: outflow.subscriptions.clone(),
            carrier: self.groups.carrier_of(outflow),
            ..LinkStatus::default()
        };
        self.fill(&mut status, (link, connection), (outflow.is_open(), outflow.since), &outflow.why, now);
        if let (LinkState::Up, Some(stall)) = (status.state, &outflow.stall) {
            status.state = LinkState::Stalled;
            status.reason =
                format!("{} events are in flight, and the other service acknowledges none", sender.in_flight());
            status.since_ms = millis(now.since(stall.since));
        }
        if link.is_none() && connection.is_none() {
            (status.name, status.state) = (outflow.served_name().to_owned(), LinkState::Down);
            "the other service is away".clone_into(&mut status.reason);
        }
        status
    }

    fn status_of_inflow(&self, inflow: &Inflow, now: Time) -> LinkStatus {
        let connection = self.connections.get(inflow.connection());
        let link = connection.and_then(|connection| self.links.get(connection.link?));
        let mut status = LinkStatus {
            channel: inflow.channel.clone(),
            direction: LinkDirection::In,
            received: inflow.received,
            carrier: inflow.group.as_ref().map_or("tcp", Listening::carrier).to_owned(),
            repeats: inflow.repeats,
            forgotten: inflow.forgotten.unwrap_or(0),
            rejected: inflow.rejected,
            ..LinkStatus::default()
        };
        self.fill(&mut status, (link, connection), (inflow.is_open, inflow.since), "", now);
        status
    }

    /// This service and all found ones; empty without a federation.
    pub(super) fn federation(&self, now: Time) -> Vec<FederationMember> {
        let Some(discovery) = &self.discovery else { return Vec::new() };
        let mut members = discovery.members(now);
        for member in members.iter_mut().filter(|member| !member.is_self) {
            let is_of = |at: Option<Token>| {
                let far = at.and_then(|at| self.connections.get(at)?.far.as_ref());
                far.is_some_and(|far| far.service == member.service)
            };
            let out = self.outflows.iter().filter(|(_, outflow)| outflow.is_open());
            let out = out.filter(|(_, outflow)| is_of(outflow.connection.map(|(at, _)| at)));
            let into = self.inflows.iter().filter(|(_, inflow)| inflow.is_open && is_of(Some(inflow.connection())));
            let names = out.map(|(_, outflow)| &outflow.channel).chain(into.map(|(_, inflow)| &inflow.channel));
            member.linked = names.cloned().collect::<BTreeSet<String>>().into_iter().collect();
            let is_connected = self.connections.iter().any(|(at, _)| is_of(Some(at)));
            let link = discovery.link_to(member.service).and_then(|number| self.links.get(number));
            (member.state, member.reason) = match link {
                _ if is_connected => (LinkState::Up, String::new()),
                Some(link) if link.is_paused => (LinkState::Paused, "an operator has paused it".to_owned()),
                Some(link) => (LinkState::Down, link.why.clone().unwrap_or_default()),
                None => {
                    (LinkState::Connecting, "there is no channel that both have, or the other service dials".to_owned())
                }
            };
        }
        members
    }

    /// Fills in the fields that flows out and in have in common.
    fn fill(
        &self,
        status: &mut LinkStatus,
        (link, connection): (Option<&Link>, Option<&Connection>),
        (is_open, since): (bool, Time),
        refused: &str,
        now: Time,
    ) {
        let far = connection.and_then(|connection| connection.far.as_ref());
        if let Some(far) = far {
            (status.peer_name, status.peer_service) = (far.name.clone(), far.service);
        }
        let address = connection.and_then(|connection| connection.address);
        if address == Some(ZENOH_ADDRESS) {
            "zenoh".clone_into(&mut status.carrier);
        } else {
            status.peer = address.map_or_else(String::new, |address| address.to_string());
        }
        status.name = status.peer_name.clone();
        status.origin = link.map_or(LinkOrigin::Peer, |link| link.origin);
        let mut state = if is_open { LinkState::Up } else { LinkState::Connecting };
        let mut since = since;
        if !refused.is_empty() && !is_open {
            (state, status.reason) = (LinkState::Refused, refused.to_owned());
        }
        if let Some(link) = link {
            status.name = link.entry.name.clone();
            status.peer = link.entry.to.clone();
            match link.entry.carrier {
                Carrier::Iiop => "iiop".clone_into(&mut status.carrier),
                Carrier::Zenoh => "zenoh".clone_into(&mut status.carrier),
                Carrier::Tcp | Carrier::Udp | Carrier::Multicast => {}
            }
            if link.is_paused {
                (state, status.reason) = (LinkState::Paused, "an operator has paused it".to_owned());
            } else if let Some(why) = &link.why {
                (state, status.reason) = (LinkState::Down, why.clone());
            }
            since = since.max(link.since);
        }
        status.state = state;
        status.since_ms = u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
    }
}

/// Number of events dropped for lack of room.
fn dropped(stats: &OutboxStats) -> u64 {
    use DiscardReason::{MemorySpent, OutboxFull, OverflowLost, QueueFull};
    [OutboxFull, MemorySpent, QueueFull, OverflowLost].into_iter().map(|reason| stats.discards.of(reason)).sum()
}

/// The statistics of an outbox.
pub(super) fn stats_of(lane: &Lane, outbox: OutboxId) -> Option<OutboxStats> {
    lane.outboxes_at(outbox.slot(), 1)?.find(|stats| stats.outbox == outbox)
}

impl Links<'_> {
    /// Pauses or resumes a link that this service makes. `None` if there is no link of that name.
    pub(super) fn pause_link(&mut self, name: &str, paused: bool) -> Option<Result<(), String>> {
        let now = self.core.cx.clock.now;
        let link = &mut self.core.protocols.link;
        let Some(number) = link.number_of(name) else {
            let is_made_there = |connection: &Connection| {
                matches!(connection.state, State::Open(_))
                    && connection.link.is_none()
                    && connection.far.as_ref().is_some_and(|far| far.name == name)
            };
            let made_there = link.connections.iter().any(|(_, connection)| is_made_there(connection));
            let why = "the other service makes this link: it is paused there";
            return made_there.then(|| Err(why.to_owned()));
        };
        let found = link.links.get_mut(number)?;
        if core::mem::replace(&mut found.is_paused, paused) == paused {
            let why = if paused { "it is paused already" } else { "it is not paused" };
            return Some(Err(why.to_owned()));
        }
        found.since = now;
        let connection: Option<Token> = found.connection;
        link.look_after = Some(now);
        if let Some(token) = connection.filter(|_| paused) {
            self.say_goodbye(token, "an operator has paused the link");
        }
        Some(Ok(()))
    }
}

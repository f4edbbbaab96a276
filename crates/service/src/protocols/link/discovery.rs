//! Discovery of services: each announces itself in a multicast group. Of two services of one federation, the one with the lower identity
//! makes a link to the other, with the channels of the same names.
//!
//! Found services and their links are not stored: after [`FORGOTTEN_AFTER`] without an announcement or a connection they are removed, with
//! their backlogs. [`Discovery`] has no socket or clock; the main lane reads, sends and dials for it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use engine::Time;
use links::announce::{Announcement, Channels};
use links::group::{CODE_BYTES, Key};

use super::session::Connection;
use super::{Links, found_link};
use crate::admin::values::{FederationMember, LinkOrigin, LinkState};
use crate::config::LinkEntry;
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::io::datagrams::Received;
use crate::lane::io::net::Datagrams;
use crate::lane::io::output::would_block;
use crate::lane::io::slots::Token;

/// Maximum found services, and channels of each.
const FOUND_MAX: usize = 64;
const CHANNELS_MAX: usize = 1_024;
/// Maximum channels of one link, as for a configured one.
const LINKED_MAX: usize = 256;
/// Maximum datagrams read in a second.
const DATAGRAMS_MAX: u32 = 2_000;
/// Maximum services with a remembered counter.
const COUNTERS_MAX: usize = 256;
/// Interval between announcements, with a jitter of a fifth; and the shortest interval, after changes.
const ANNOUNCED_EVERY: Duration = Duration::from_secs(2);
const ANNOUNCED_AGAIN: Duration = Duration::from_millis(500);
/// Time without an announcement after which a service is removed, unless it is connected.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Time without a rejection after which the next one is logged again.
const EPISODE: Duration = Duration::from_secs(60);

/// The settings of a federation.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    /// The name of this service.
    pub(crate) service_name: String,
    pub(crate) group: SocketAddr,
    pub(crate) socket: Datagrams,
    /// Host and ports for links to this service: in the clear, and over TLS.
    pub(crate) host: String,
    pub(crate) ports: [u16; 2],
    pub(crate) key: Option<Key>,
    pub(crate) tls: bool,
    /// The shared channels at the start.
    pub(crate) channels: Vec<String>,
}

/// The known members of the federation.
pub(super) struct Discovery {
    settings: Arc<Settings>,
    own: u64,
    incarnation: u64,
    channels: BTreeSet<String>,
    revision: u32,
    counter: u64,
    announced: Option<Time>,
    pub(super) next: Time,
    found: BTreeMap<u64, Found>,
    counters: BTreeMap<u64, u64>,
    /// The current second, and its number of datagrams.
    second: (u64, u32),
    /// Time of the last rejection of each kind.
    rejected: BTreeMap<Rejection, Time>,
    received: Received,
}

pub(super) struct Found {
    name: String,
    /// The address for links, host and port.
    to: String,
    incarnation: u64,
    revision: u32,
    /// The channels in each part of the announcement. `None` for parts that have not arrived.
    parts: Vec<Option<Vec<String>>>,
    heard: Time,
    /// The number of this service's link to it.
    link: Option<usize>,
}

/// The reason why an announcement is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rejection {
    Rate,
    Unreadable,
    Foreign,
    Code,
    Twin,
    Replay,
    Services,
    Channels,
    NotSent,
}

impl Rejection {
    /// Whether a limit was reached.
    const fn is_bound(self) -> bool {
        matches!(self, Self::Rate | Self::Services | Self::Channels)
    }

    /// The text for the log. `None` if the rejection is not logged.
    const fn text(self) -> Option<&'static str> {
        Some(match self {
            // Another federation may use the same group.
            Self::Foreign => return None,
            Self::Rate => "more than 2,000 datagrams come in a second, and those beyond are not looked at",
            Self::Unreadable => "datagrams come that are no announcements of this version",
            Self::Code => "announcements come that are not made with the shared key",
            Self::Twin => {
                "another service has the identity of this one: a data folder that was copied? Give each a folder of its own"
            }
            Self::Replay => {
                "announcements come that are older than others of the same service: replayed, or its clock was set back"
            }
            Self::Services => "there are more than 64 services, and those beyond are not linked",
            Self::Channels => {
                "a service has more channels than 1,024, or shares more than 256 with this one, and those beyond are not linked"
            }
            Self::NotSent => {
                "announcements cannot be sent; look at federation.interface, and at the routes for multicast"
            }
        })
    }
}

impl Discovery {
    pub(super) fn new(settings: Arc<Settings>, (own, incarnation): (u64, u64)) -> Self {
        let channels = settings.channels.iter().cloned().collect();
        Self {
            settings,
            own,
            incarnation,
            channels,
            revision: fastrand::u32(..),
            counter: 0,
            announced: None,
            next: Time(0),
            found: BTreeMap::new(),
            counters: BTreeMap::new(),
            second: (0, 0),
            rejected: BTreeMap::new(),
            received: Received::default(),
        }
    }

    /// Replaces the announced channels.
    fn set_channels(&mut self, channels: &[String], now: Time) {
        self.channels = channels.iter().take(CHANNELS_MAX).cloned().collect();
        self.revision = self.revision.wrapping_add(1);
        self.announce_soon(now);
    }

    /// Advances the next announcement, after a change.
    fn announce_soon(&mut self, now: Time) {
        let soon = now + Duration::from_millis(fastrand::u64(..100));
        self.next = self.next.min(soon.max(self.announced.map_or(Time(0), |last| last + ANNOUNCED_AGAIN)));
    }

    /// Creates the datagrams of an announcement, and schedules the next one.
    fn announcements(&mut self, (now, since_1970): (Time, Duration)) -> Vec<Vec<u8>> {
        let jitter = Duration::from_millis(fastrand::u64(..400));
        (self.announced, self.next) =
            (Some(now), now + (ANNOUNCED_EVERY + jitter).saturating_sub(ANNOUNCED_EVERY / 10));
        let [port, tls_port] = self.settings.ports;
        let head = Announcement {
            service: self.own,
            incarnation: self.incarnation,
            counter: 0,
            part: 0,
            parts: 1,
            revision: self.revision,
            port,
            tls_port,
            federation: &self.settings.name,
            name: &self.settings.service_name,
            host: &self.settings.host,
            channels: Channels::default(),
        };
        let names: Vec<&str> = self.channels.iter().map(String::as_str).collect();
        let (mut rest, mut parts) = (&names[..], Vec::new());
        while let Some((some, others)) = rest.split_at_checked(head.room_for(rest)) {
            parts.push(some);
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
        let milliseconds = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        let count = u8::try_from(parts.len()).unwrap_or(u8::MAX);
        let mut datagrams = Vec::new();
        for (part, channels) in (0..count).zip(parts) {
            // The counter rises with the clock over restarts, and by one at least within the process.
            self.counter = milliseconds.max(self.counter + 1);
            let mut octets = Vec::new();
            Announcement { counter: self.counter, part, parts: count, ..head }.write(channels, &mut octets);
            if let Some(key) = &self.settings.key {
                octets.extend(key.code(&octets));
            }
            datagrams.push(octets);
        }
        datagrams
    }

    /// Handles a datagram. Returns the service that sent it, `None` if it is this one.
    fn hear(&mut self, from: SocketAddr, octets: &[u8], now: Time) -> Result<Option<u64>, Rejection> {
        let second = now.0 / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        if self.second.1 > DATAGRAMS_MAX {
            return Err(Rejection::Rate);
        }
        let code = self.settings.key.as_ref().map(|_| octets.split_last_chunk::<CODE_BYTES>());
        let (body, code) = match code {
            None => (octets, None),
            Some(split) => split.map(|(body, code)| (body, Some(code))).ok_or(Rejection::Unreadable)?,
        };
        let said = Announcement::read(body).ok_or(Rejection::Unreadable)?;
        if said.federation != self.settings.name {
            return Err(Rejection::Foreign);
        }
        if let (Some(key), Some(code)) = (&self.settings.key, code)
            && !key.is_code(body, code)
        {
            return Err(Rejection::Code);
        }
        if said.service == self.own {
            // The group returns own datagrams.
            return if said.incarnation == self.incarnation { Ok(None) } else { Err(Rejection::Twin) };
        }
        // Without a key the announcement may be forged, so its counter proves nothing.
        let is_authentic = self.settings.key.is_some();
        if is_authentic && self.counters.get(&said.service).is_some_and(|last| said.counter <= *last) {
            return Err(Rejection::Replay);
        }
        if !said.host.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Rejection::Unreadable);
        }
        if !self.found.contains_key(&said.service) && self.found.len() >= FOUND_MAX {
            return Err(Rejection::Services);
        }
        if self.counters.len() >= COUNTERS_MAX && !self.counters.contains_key(&said.service) {
            let stale = self.counters.keys().find(|service| !self.found.contains_key(service)).copied();
            stale.map(|service| self.counters.remove(&service));
        }
        if is_authentic {
            self.counters.insert(said.service, said.counter);
        }
        self.note_found(&said, from.ip(), now)
    }

    fn note_found(&mut self, said: &Announcement<'_>, from: IpAddr, now: Time) -> Result<Option<u64>, Rejection> {
        let port = if self.settings.tls { said.tls_port } else { said.port };
        let host = if said.host.is_empty() { from.to_string() } else { said.host.to_owned() };
        let to = address(&host, port);
        let is_new = !self.found.contains_key(&said.service);
        let found = self.found.entry(said.service).or_insert_with(|| Found {
            name: String::new(),
            to: String::new(),
            incarnation: said.incarnation,
            revision: said.revision,
            parts: Vec::new(),
            heard: now,
            link: None,
        });
        let before = (found.incarnation, found.revision, found.parts.len());
        if before != (said.incarnation, said.revision, said.parts.into()) {
            found.parts = vec![None; said.parts.into()];
        }
        (found.incarnation, found.revision, found.heard, found.to) = (said.incarnation, said.revision, now, to);
        said.name.clone_into(&mut found.name);
        let others = found.parts.iter().enumerate().filter(|(part, _)| *part != usize::from(said.part));
        let room = CHANNELS_MAX.saturating_sub(others.flat_map(|(_, names)| names).map(Vec::len).sum());
        let names: Vec<String> = said.channels.iter().take(room).map(str::to_owned).collect();
        let is_cut = said.channels.iter().nth(room).is_some();
        if let Some(part) = found.parts.get_mut(usize::from(said.part)) {
            *part = Some(names);
        }
        if is_new {
            self.announce_soon(now);
        }
        if is_cut { Err(Rejection::Channels) } else { Ok(Some(said.service)) }
    }

    /// The link to make to a service, and whether its channels are cut off. `None` unless this service has the lower identity.
    fn link_for(&self, service: u64) -> Option<(LinkEntry, bool)> {
        let found = self.found.get(&service).filter(|found| self.own < service && !found.to.ends_with(":0"))?;
        let theirs: BTreeSet<&String> = found.parts.iter().flatten().flatten().collect();
        let mut common = self.channels.iter().filter(|channel| theirs.contains(channel));
        let channels: Vec<String> = common.by_ref().take(LINKED_MAX).cloned().collect();
        let entry = LinkEntry {
            name: found_link(&self.settings.name, &format!("{service:016x}")),
            to: found.to.clone(),
            channels,
            tls: self.settings.tls,
            ..LinkEntry::default()
        };
        (!entry.channels.is_empty()).then_some((entry, common.next().is_some()))
    }

    /// This service and all found ones.
    pub(super) fn members(&self, now: Time) -> Vec<FederationMember> {
        let Settings { service_name, host, ports: [port, tls_port], tls, .. } = &*self.settings;
        let own = FederationMember {
            service: self.own,
            name: service_name.clone(),
            is_self: true,
            address: address(host, if *tls { *tls_port } else { *port }),
            state: LinkState::Up,
            reason: self.rejections(now),
            channels: self.channels.iter().cloned().collect(),
            ..FederationMember::default()
        };
        let found = self.found.iter().map(|(service, found)| FederationMember {
            service: *service,
            name: found.name.clone(),
            address: found.to.clone(),
            heard_ms: u64::try_from(now.since(found.heard).as_millis()).unwrap_or(u64::MAX),
            channels: found.parts.iter().flatten().flatten().cloned().collect(),
            ..FederationMember::default()
        });
        core::iter::once(own).chain(found).collect()
    }

    /// Texts of the rejections within the last [`EPISODE`]; empty if there were none.
    fn rejections(&self, now: Time) -> String {
        let recent = self.rejected.iter().filter(|(_, last)| **last + EPISODE > now);
        let texts: Vec<&str> = recent.filter_map(|(rejection, _)| rejection.text()).collect();
        texts.join("; ")
    }

    /// The number of this service's link to a found one.
    pub(super) fn link_to(&self, service: u64) -> Option<usize> {
        self.found.get(&service)?.link
    }

    /// Notes a rejection. Returns whether it begins an episode.
    fn begins(&mut self, rejection: Rejection, now: Time) -> bool {
        self.rejected.insert(rejection, now).is_none_or(|last| last + EPISODE <= now)
    }
}

/// Host and port in the form that links use.
fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl Links<'_> {
    /// Reads the datagrams of the multicast group.
    pub(super) fn serve_group(&mut self) {
        let Some(mut discovery) = self.core.protocols.link.discovery.take() else { return };
        let (now, mut received) = (self.core.cx.clock.now, core::mem::take(&mut discovery.received));
        let (mut all, mut heard) = (0, BTreeSet::new());
        while all < Budget::DATAGRAMS.events {
            let Ok(more) = discovery.settings.socket.receive(&mut received) else { break };
            for (from, datagram) in received.iter() {
                all += 1;
                match discovery.hear(from, datagram, now) {
                    Ok(service) => heard.extend(service),
                    Err(rejection) => self.reject(&mut discovery, rejection),
                }
            }
            if !more {
                break;
            }
        }
        discovery.received = received;
        for service in heard {
            self.link_found(&mut discovery, service);
        }
        self.core.cx.counters.set(Counter::FederationServices, discovery.found.len() as u64);
        self.core.protocols.link.discovery = Some(discovery);
    }

    fn reject(&mut self, discovery: &mut Discovery, rejection: Rejection) {
        let counter = if rejection.is_bound() { Counter::FederationLimits } else { Counter::FederationRejected };
        self.core.cx.counters.add(counter, 1);
        if discovery.begins(rejection, self.core.cx.clock.now)
            && let Some(text) = rejection.text()
        {
            let name = &discovery.settings.name;
            self.core.cx.log(log::Level::Warn, || format!("federation {name:?}: {text}"));
        }
    }

    /// Makes the link to a found service, or updates the address and channels of an existing one.
    fn link_found(&mut self, discovery: &mut Discovery, service: u64) {
        if self.core.cx.reporting.draining.has_begun() {
            return;
        }
        self.unlink_channels(discovery, service);
        let Some((entry, is_cut)) = discovery.link_for(service) else { return };
        if is_cut {
            self.reject(discovery, Rejection::Channels);
        }
        let number = discovery.found.get(&service).and_then(|found| found.link);
        let Some(link) = number.and_then(|number| self.core.protocols.link.links.get_mut(number)) else {
            let to = entry.to.clone();
            let name = discovery.settings.name.clone();
            self.core
                .cx
                .log(log::Level::Info, || format!("federation {name:?}: service {service:016x} is found at {to}"));
            let number = self.add_link(entry, LinkOrigin::Found);
            if let Some(found) = discovery.found.get_mut(&service) {
                found.link = Some(number);
            }
            return;
        };
        link.entry.to = entry.to;
        let news: Vec<String> =
            entry.channels.into_iter().filter(|channel| !link.entry.channels.contains(channel)).collect();
        if !news.is_empty() {
            let room = LINKED_MAX.saturating_sub(link.entry.channels.len());
            link.entry.channels.extend(news.into_iter().take(room));
            link.outflows.resize(link.entry.channels.len(), None);
            link.open_channels_again();
            self.core.protocols.link.look_after = Some(self.core.cx.clock.now);
        }
    }

    /// Ends the flows of channels that this service or a found one has no longer, so that they are not opened again.
    fn unlink_channels(&mut self, discovery: &Discovery, service: u64) {
        let Some(found) = discovery.found.get(&service).filter(|found| found.parts.iter().all(Option::is_some)) else {
            return;
        };
        let theirs: BTreeSet<&String> = found.parts.iter().flatten().flatten().collect();
        let Some(number) = found.link else { return };
        loop {
            let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
            let is_gone = |channel: &String| !theirs.contains(channel) || !discovery.channels.contains(channel);
            let Some(place) = link.entry.channels.iter().position(is_gone) else { return };
            link.entry.channels.remove(place);
            let outflow = (place < link.outflows.len()).then(|| link.outflows.remove(place)).flatten();
            if let Some(at) = outflow {
                self.drop_outflow(at, "the channel is gone");
            }
        }
    }

    /// Announces this service, if that is due.
    pub(super) fn announce(&mut self) {
        let clock = (self.core.cx.clock.now, self.core.cx.clock.since_1970);
        let is_draining = self.core.cx.reporting.draining.has_begun();
        let Some(mut discovery) = self.core.protocols.link.discovery.take() else { return };
        if discovery.next <= clock.0 {
            let datagrams = discovery.announcements(clock);
            for datagram in datagrams.iter().filter(|_| !is_draining) {
                let Settings { socket, group, .. } = &*discovery.settings;
                match socket.send(*group, datagram, datagram.len()) {
                    Ok(()) => {}
                    // The next announcement is not far.
                    Err(error) if would_block(&error) => {}
                    Err(_) => self.reject(&mut discovery, Rejection::NotSent),
                }
            }
        }
        self.core.protocols.link.discovery = Some(discovery);
    }

    /// Replaces the channels to announce and to link.
    pub(super) fn set_federated(&mut self, channels: &[String]) {
        let now = self.core.cx.clock.now;
        let Some(mut discovery) = self.core.protocols.link.discovery.take() else { return };
        discovery.set_channels(channels, now);
        let found: Vec<u64> = discovery.found.keys().copied().collect();
        for service in found {
            self.link_found(&mut discovery, service);
        }
        self.core.protocols.link.discovery = Some(discovery);
    }

    /// Whether a connection leads to another service than the one found at that address.
    pub(super) fn is_other_than_found(&self, token: Token, service: u64) -> bool {
        let link = &self.core.protocols.link;
        let (Some(discovery), Some(connection)) = (&link.discovery, link.connections.get(token)) else { return false };
        let of_link = |found: &&Found| connection.link.is_some() && found.link == connection.link;
        let found = discovery.found.iter().find(|(_, found)| of_link(found));
        found.is_some_and(|(expected, _)| *expected != service)
    }

    /// Removes found services that are gone, with their links.
    pub(super) fn forget_found(&mut self) {
        let now = self.core.cx.clock.now;
        let Some(mut discovery) = self.core.protocols.link.discovery.take() else { return };
        let link = &self.core.protocols.link;
        let is_of =
            |connection: &Connection, service: u64| connection.far.as_ref().is_some_and(|far| far.service == service);
        let is_connected = |service: u64| link.connections.iter().any(|(_, connection)| is_of(connection, service));
        let forget_after = link.settings.forget_after;
        // A backlog is kept as long as for a service that makes a link to this one.
        let is_kept = |found: &Found| {
            let link = found.link.and_then(|number| link.links.get(number));
            found.heard + forget_after > now && link.is_some_and(|link| self.has_no_backlog(link).is_err())
        };
        let is_gone = |(service, found): &(&u64, &Found)| {
            found.heard + FORGOTTEN_AFTER <= now && !is_connected(**service) && !is_kept(found)
        };
        let gone: Vec<u64> = discovery.found.iter().filter(is_gone).map(|(service, _)| *service).collect();
        for service in gone {
            let found = discovery.found.remove(&service);
            let name = discovery.settings.name.clone();
            self.core.cx.log(log::Level::Info, || {
                format!("federation {name:?}: service {service:016x} was not heard any more, and is forgotten")
            });
            if let Some(number) = found.and_then(|found| found.link) {
                self.remove_link(number, "the service was not heard any more");
            }
        }
        self.core.cx.counters.set(Counter::FederationServices, discovery.found.len() as u64);
        self.core.protocols.link.discovery = Some(discovery);
    }
}

#[cfg(test)]
mod tests;

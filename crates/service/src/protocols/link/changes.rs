//! Links that are added and removed while the service runs.

use std::sync::Arc;

use super::Links;
use super::dialling::Link;
use super::gateway::Gateway;
use super::session::{Connection, State};
use super::status::stats_of;
use crate::admin::values::LinkOrigin;
use crate::config::LinkEntry;
use crate::lane::io::slots::Token;
use crate::protocols::LinkAct;

impl Links<'_> {
    /// Adds or removes a link. `None` if there is no link of that name to remove.
    pub(super) fn change_link(&mut self, act: &LinkAct) -> Option<Result<(), String>> {
        match act {
            LinkAct::Pause { .. } | LinkAct::ListFederation => None,
            LinkAct::Add(entry) => {
                self.add_link(entry.as_ref().clone(), LinkOrigin::Added);
                Some(Ok(()))
            }
            LinkAct::Federate(channels) => {
                self.set_federated(channels);
                Some(Ok(()))
            }
            LinkAct::Remove { name, drop_backlog } => self.remove_added(name, *drop_backlog),
        }
    }

    /// Adds a valid link, and returns its number. It is dialled at once.
    pub(super) fn add_link(&mut self, entry: LinkEntry, origin: LinkOrigin) -> usize {
        // Events routed to the link need origins.
        self.core.cx.origins.begin();
        let now = self.core.cx.clock.now;
        let mut link = Link::new(entry, origin);
        link.since = now;
        let links = &mut self.core.protocols.link.links;
        let free = links.iter().position(|link| link.is_removed && link.connection.is_none());
        let number = free.unwrap_or(links.len());
        match links.get_mut(number) {
            Some(place) => *place = link,
            None => links.push(link),
        }
        self.core.protocols.link.look_after = Some(now);
        number
    }

    fn remove_added(&mut self, name: &str, drop_backlog: bool) -> Option<Result<(), String>> {
        let link = &self.core.protocols.link;
        let Some(number) = link.number_of(name) else {
            let is_its = |connection: &Connection| {
                connection.link.is_none() && connection.far.as_ref().is_some_and(|far| far.name == name)
            };
            let made_there = link.connections.iter().any(|(_, connection)| is_its(connection));
            return made_there.then(|| Err("the other service makes this link: it is removed there".to_owned()));
        };
        let found = link.links.get(number)?;
        let refused = match found.origin {
            LinkOrigin::Added if drop_backlog => Ok(()),
            LinkOrigin::Added => self.has_no_backlog(found),
            LinkOrigin::Found => Err("the services have found each other: it goes when the other one does".to_owned()),
            LinkOrigin::File | LinkOrigin::Peer => {
                Err("the configuration file has it: remove its [[link]] there, and start the service anew".to_owned())
            }
        };
        if refused.is_ok() {
            self.remove_link(number, "an operator has removed the link");
        }
        Some(refused)
    }

    /// Checks that a link has no backlog.
    ///
    /// # Errors
    /// A description of the backlog.
    pub(super) fn has_no_backlog(&self, link: &Link) -> Result<(), String> {
        const OR_DROP: &str = "or drop what waits (--drop-backlog, \"drop_backlog\": true)";
        let (lane, outflows) = (&self.core.cx.lane, &self.core.protocols.link.outflows);
        let mut events = 0_u64;
        for outflow in link.outflows.iter().flatten().filter_map(|at| outflows.get(*at)) {
            let Some(key) = outflow.key() else {
                let channel = &outflow.channel;
                return Err(format!("its consumer of {channel:?} is being connected: try again, {OR_DROP}"));
            };
            let stats = outflow.outbox.and_then(|outbox| stats_of(lane, outbox)).filter(|stats| stats.key == key);
            events += stats.map_or(0, |stats| stats.backlog_events);
        }
        match events {
            0 => Ok(()),
            1 => Err(format!("1 event waits for it: have it cross first, {OR_DROP}")),
            _ => Err(format!("{events} events wait for it: have them cross first, {OR_DROP}")),
        }
    }

    /// Ends a flow out, and removes its consumer with the backlog.
    pub(super) fn drop_outflow(&mut self, at: Token, why: &str) {
        let key = self.core.protocols.link.outflows.get(at).and_then(|outflow| outflow.key());
        self.end_outflow(at, why);
        if let Some(key) = key {
            let account = Arc::clone(&self.core.protocols.link.own);
            self.core.cx.remove_local_proxy(at.to_bits(), key, &account);
        }
    }

    /// Removes a link, with its consumers and their backlogs. The far side gets the reason.
    pub(super) fn remove_link(&mut self, number: usize, why: &str) {
        let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
        // Its closing is not logged.
        (link.is_removed, link.is_paused) = (true, true);
        link.gateway.take().iter().for_each(Gateway::leave);
        let (name, connection) = (link.entry.name.clone(), link.connection);
        let outflows: Vec<Token> = core::mem::take(&mut link.outflows).into_iter().flatten().collect();
        let is_open = |connection: &Connection| matches!(connection.state, State::Open(_));
        let open = connection.filter(|token| self.core.protocols.link.connections.get(*token).is_some_and(is_open));
        // First, so that the far side gets one reason, instead of one for each channel.
        open.iter().for_each(|token| self.say_goodbye(*token, why));
        outflows.into_iter().for_each(|at| self.drop_outflow(at, why));
        if let (Some(token), None) = (connection, open) {
            self.close_link(token, why);
        }
        self.core.cx.log(log::Level::Info, || format!("link {name:?}: {why}"));
    }
}

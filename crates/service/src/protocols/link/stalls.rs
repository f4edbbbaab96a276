//! Reconnection of flows out whose far side is connected but acknowledges nothing; and logging of links that are closed repeatedly.

use core::time::Duration;
use std::collections::BTreeSet;

use engine::Time;
use links::Sender;

use super::episodes::LASTED;
use super::outflow::Outflow;
use super::{Links, Protocol};
use crate::config::Carrier;
use crate::counters::Counter;
use crate::lane::io::slots::Token;

/// An episode without acknowledgements. It lasts over reconnections until the next acknowledgement.
#[derive(Debug)]
pub(super) struct Stall {
    pub(super) since: Time,
    is_logged: bool,
}

impl Outflow {
    /// Notes whether the flow is stalled, and returns the time without acknowledgement in this session.
    fn note_stall(&mut self, now: Time) -> Duration {
        let idle = self.sender().stalled_for(now.0);
        if idle >= Sender::<()>::STALLED_AFTER {
            self.stall.get_or_insert(Stall { since: Time(now.0 - idle), is_logged: false });
        } else if self.is_open() && self.sender().in_flight() == 0 && self.sender().unsent() == 0 {
            // Events in flight have expired or are lost.
            self.stall = None;
        }
        Duration::from_nanos(idle)
    }
}

impl Links<'_> {
    /// Ends the connections with a flow out that is stalled beyond the limit.
    pub(super) fn look_after_stalls(&mut self) {
        let now = self.core.cx.clock.now;
        let link = &mut self.core.protocols.link;
        let after = link.settings.stalled_after;
        let mut over = Vec::new();
        for (at, outflow) in link.outflows.iter_mut() {
            let idle = outflow.note_stall(now);
            // A gateway checks its far service itself, and pushes events one after the other.
            let entry = outflow.link.and_then(|number| link.links.get(number)).map(|link| &link.entry);
            let is_of_gateway = entry.is_some_and(|entry| entry.carrier == Carrier::Iiop);
            let after = after.filter(|after| idle >= *after && !is_of_gateway);
            if let (Some(after), Some((token, _))) = (after, outflow.connection) {
                over.push((token, at, after));
            }
        }
        let mut ended = BTreeSet::new();
        for (token, at, after) in over {
            self.end_stalled(token, at, after, ended.insert(token.to_bits()));
        }
    }

    /// Ends the connection of a stalled flow out. `is_first`: the flow is the connection's first that is stalled.
    fn end_stalled(&mut self, token: Token, at: Token, after: Duration, is_first: bool) {
        let named = self.link_named(token);
        let link = &mut self.core.protocols.link;
        let (Some(connection), Some(outflow)) = (link.connections.get(token), link.outflows.get_mut(at)) else {
            return;
        };
        let (channel, in_flight) = (&outflow.channel, outflow.sender().in_flight());
        let why = format!("nothing of the channel {channel:?} was acknowledged for {} s", after.as_secs());
        let was_logged = outflow.stall.as_mut().is_some_and(|stall| core::mem::replace(&mut stall.is_logged, true));
        if !is_first || connection.closing.is_some() {
            return;
        }
        self.core.cx.counters.add(Counter::LinksStalled, 1);
        if was_logged {
            // The closing is not logged again.
            let dialled = connection.link.and_then(|number| link.links.get_mut(number));
            dialled.into_iter().for_each(|link| link.why = Some(why.clone()));
        } else {
            self.core.cx.log(log::Level::Warn, || {
                format!("{named}: {why}, although {in_flight} events are in flight and it answers: the connection is made anew")
            });
        }
        self.say_goodbye(token, &why);
    }

    /// Logs that a flow out goes on, if its stall was logged.
    pub(super) fn end_stall(&mut self, at: Token, stall: Stall) {
        let Some(outflow) = self.core.protocols.link.outflows.get(at).filter(|_| stall.is_logged) else { return };
        let (channel, seconds) = (outflow.channel.clone(), self.core.cx.clock.now.since(stall.since).as_secs());
        let named = outflow.connection.map_or_else(String::new, |(token, _)| self.link_named(token));
        self.core.cx.log(log::Level::Info, || {
            format!("{named}: events of the channel {channel:?} are acknowledged again, after {seconds} s")
        });
    }

    /// Minimum duration of a connection after which the next closing begins a new episode.
    pub(super) fn lasts(&self) -> Duration {
        self.core.protocols.link.settings.stalled_after.map_or(LASTED, |after| LASTED.max(after * 2))
    }

    /// Logs closings of links that did not come back and were not logged before.
    pub(super) fn look_after_episodes(&mut self) {
        let now = self.core.cx.clock.now;
        let Protocol { links, episodes, .. } = &mut self.core.protocols.link;
        let mut lines = Vec::new();
        for link in links.iter_mut().filter(|link| !link.is_removed && !link.is_paused) {
            if let Some(why) = link.episode.overdue(now) {
                lines.push(format!(
                    "link {:?} to {} is down: {why}; events wait for it",
                    link.entry.name, link.entry.to
                ));
            }
        }
        let closed = episodes.overdue(now);
        lines.extend(closed.map(|(name, why)| format!("the link of {} is closed: {why}", name.escape_debug())));
        for line in lines {
            self.core.cx.log(log::Level::Warn, || line);
        }
    }
}

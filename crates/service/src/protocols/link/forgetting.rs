//! Lost state: backlogs dropped for other services that are gone for good, and events that far sides acknowledged and lost.
//!
//! A service without a store has another identity after a restart, and never requests the backlog of the earlier one. That backlog is
//! dropped soon, or at once when that service makes the link of the same name again.
//!
//! A far side whose store is an older copy does not know persistent events that it has acknowledged. The sender lists the last acknowledged
//! ones to each new process of a far side with a store. The far side reports how many of their origins its store lacks. They cannot be sent
//! again: both sides log it.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Event, Time};
use links::hops::HOPS_MAX;
use links::wire::{Frame, ORIGINS_MAX, Origins};
use links::{Origin, Verdict};

use super::outflow::{Outflow, principal_of};
use super::session::Connection;
use super::{Links, is_storeless, served_durable};
use crate::counters::Counter;
use crate::lane::io::slots::{Slots, Token};

/// The last persistent events that a flow's far side has acknowledged.
#[derive(Debug, Default)]
pub(super) struct LastAcknowledged(VecDeque<[u8; Origin::BYTES]>);

impl LastAcknowledged {
    /// Notes an acknowledged event.
    pub(super) fn note(&mut self, event: &Event) {
        // The far side does not store the origin of an event with the maximum of hops.
        let Some(origin) = event.origin().filter(|origin| origin.hops.len() + 1 < HOPS_MAX) else { return };
        if self.0.len() >= ORIGINS_MAX {
            self.0.pop_front();
        }
        let engine::Origin { service, era, number, .. } = *origin;
        self.0.push_back(Origin { service, era, number }.to_bytes());
    }

    /// Writes the list, unless it is empty.
    pub(super) fn write(&mut self, flow: u32, out: &mut Vec<u8>) {
        if !self.0.is_empty()
            && let Some(origins) = Origins::new(self.0.make_contiguous())
        {
            Frame::Acknowledged { flow, origins }.write(out);
        }
    }
}

impl Links<'_> {
    /// Reports how many of the events are unknown that earlier processes of this service have acknowledged.
    ///
    /// # Errors
    /// The far side has sent them already, or before the flow was open.
    pub(super) fn check_acknowledged(&mut self, at: Token, origins: Origins<'_>) -> Result<(), String> {
        let link = &mut self.core.protocols.link;
        let Some(inflow) = link.inflows.get_mut(at) else { return Ok(()) };
        let (Some(key), None) = (inflow.key(), inflow.forgotten) else {
            return Err("it says twice what was acknowledged, or before the flow is open".to_owned());
        };
        let seen = link.sightings.seen.get(&key.channel);
        let is_unknown = |origin: &Origin| seen.is_none_or(|seen| seen.check(*origin) == Verdict::Fresh);
        let events = origins.iter().filter(is_unknown).count();
        inflow.forgotten = Some(events as u64);
        let (token, flow, channel) = (inflow.connection(), inflow.flow, inflow.channel.clone());
        let Some(number) = u32::try_from(events).ok().filter(|events| *events > 0) else { return Ok(()) };
        if let Some(connection) = link.connections.get_mut(token) {
            Frame::Forgotten { flow, events: number }.write(connection.frames(&mut self.core.cx.io.spares));
        }
        self.note_link_due(token);
        self.core.cx.counters.add(Counter::LinkEventsForgotten, u64::from(number));
        let named = self.link_named(token);
        self.core.cx.log(log::Level::Error, || {
            format!(
                "{named}: {number} events at least of the channel {channel:?} that this service had acknowledged are unknown to its store, \
                 and the other service has them no more: is the store an older copy?"
            )
        });
        Ok(())
    }

    /// Handles the report that a flow's far side does not know events that it had acknowledged.
    ///
    /// # Errors
    /// The number exceeds that of the events in question.
    pub(super) fn far_side_forgot(&mut self, at: Token, events: u32) -> Result<(), String> {
        let Some(outflow) = self.core.protocols.link.outflows.get_mut(at) else { return Ok(()) };
        if events as usize > outflow.last_acknowledged.0.len() {
            return Err(format!("it has forgotten {events} events, of which it was not asked"));
        }
        outflow.last_acknowledged = LastAcknowledged::default();
        outflow.forgotten += u64::from(events);
        let (channel, connection) = (outflow.channel.clone(), outflow.connection);
        self.core.cx.counters.add(Counter::LinkEventsForgotten, events.into());
        let named = connection.map_or_else(String::new, |(token, _)| self.link_named(token));
        self.core.cx.log(log::Level::Error, || {
            format!(
                "{named}: the other service has forgotten {events} events at least of the channel {channel:?} that it had acknowledged; they \
                 are not sent again: was its store restored from an older copy?"
            )
        });
        Ok(())
    }

    /// Ends the flows out of other services' links that have been away for too long, or will not return.
    pub(super) fn forget_outflows(&mut self) {
        let now = self.core.cx.clock.now;
        let link = &self.core.protocols.link;
        let mut over = Vec::new();
        for (token, outflow) in link.outflows.iter() {
            let Some(Some(away_since)) = outflow.served else { continue };
            let after = match is_storeless(&outflow.durable) {
                true => link.settings.forget_after.min(STORELESS_AFTER),
                false => link.settings.forget_after,
            };
            let why = if is_replaced(&link.connections, outflow, away_since) {
                "its service has no store, and has begun anew"
            } else if away_since + after <= now {
                "its service has been away for too long"
            } else {
                continue;
            };
            over.push((token, outflow.key().or(outflow.stored), outflow.durable.clone(), outflow.channel.clone(), why));
        }
        for (token, key, name, channel, why) in over {
            self.end_outflow(token, "");
            if let Some(key) = key {
                let account = Arc::clone(&self.core.protocols.link.own);
                self.core.cx.remove_local_proxy(token.to_bits(), key, &account);
            }
            self.core.cx.counters.add(Counter::LinksForgotten, 1);
            self.core.cx.log(log::Level::Warn, || {
                format!("{name}: {why}, and what was kept for it of the channel {channel:?} is dropped")
            });
        }
    }
}

/// Whether a flow's service has no store, and has made the link of the same name again after a restart.
fn is_replaced(connections: &Slots<Connection>, outflow: &Outflow, away_since: Time) -> bool {
    let is_its_next = |connection: &Connection| {
        let Some(far) = connection.far.as_ref().filter(|far| !far.has_store) else { return false };
        connection.link.is_none()
            && connection.began >= away_since
            && far.name == outflow.served_name()
            && outflow.durable != served_durable(far.service, false, &far.name)
            && principal_of(&connection.account) == outflow.principal
    };
    is_storeless(&outflow.durable) && connections.iter().any(|(_, connection)| is_its_next(connection))
}

/// Maximum time for which the backlog of a service without a store is kept.
const STORELESS_AFTER: Duration = Duration::from_secs(60);

//! Subscriptions across links: the far side's become those of the near consumer, and the near channel's are sent to the far side.
//!
//! Administration tells what the consumers of a channel want, those of links left out. Beside that there is what the far sides of the
//! channel's flows out want, each with a distance, so that a ring does not repeat for ever to itself what was wanted once ([`Interest`]).

use std::sync::Arc;

use corba::Subscribed;
use engine::{ChannelId, EventType, Peer, ProxyKey};
use links::wire::{Frame, TypeInterest, Types};
use links::{Interest, Published};

use super::outflow::Outflow;
use super::{Flow, Links, Protocol};
use crate::lane::io::slots::Token;
use crate::protocols::local_proxies::Action;

/// The subscriptions to a channel, here and beyond its links.
#[derive(Debug, Default)]
pub(super) struct ChannelInterest {
    interest: Interest,
    /// Whether administration has reported the subscriptions here.
    is_known: bool,
    /// Consumers of flows out that administration has yet to limit to what their far sides want.
    unlimited: u32,
}

impl Links<'_> {
    /// Requests reports from administration about the subscriptions to the channel of a flow in.
    pub(super) fn watch_channel_of(&mut self, at: Token) {
        let Some(inflow) = self.core.protocols.link.inflows.get(at) else { return };
        let Some(ProxyKey { channel, .. }) = inflow.key() else { return };
        let (peer, account) = (inflow.peer, Arc::clone(&inflow.account));
        // Until its far side has sent subscriptions, a consumer counts with its last ones.
        let outflows = self.core.protocols.link.outflows.iter().filter(|(_, outflow)| outflow.subscribed.is_some());
        let of_links = outflows.filter_map(|(_, outflow)| outflow.key());
        let except = of_links.filter(|key| key.channel == channel).collect();
        self.core.cx.tell_administration(at.to_bits(), Action::WatchSubscribed { peer, channel, except }, &account);
    }

    /// Requests the report again for all flows in of a channel, since a link's consumer was added or removed.
    pub(super) fn watch_channel(&mut self, channel: ChannelId) {
        let is_of_it = |key: Option<ProxyKey>| key.is_some_and(|key| key.channel == channel);
        let inflows = self.core.protocols.link.inflows.iter().filter(|(_, inflow)| is_of_it(inflow.key()));
        for at in inflows.map(|(at, _)| at).collect::<Vec<_>>() {
            self.watch_channel_of(at);
        }
    }

    /// Handles administration's report of a channel's subscriptions here.
    pub(super) fn channel_subscribed(&mut self, peer: Peer, subscribed: &Subscribed) {
        let Some(Flow::In(at)) = self.core.protocols.link.flows.get(&peer).copied() else { return };
        let Some(key) = self.core.protocols.link.inflows.get(at).and_then(|inflow| inflow.key()) else { return };
        let of_channel = self.core.protocols.link.interests.entry(key.channel).or_default();
        let types = subscribed.types.iter().map(|of| (of.domain.as_bytes(), of.name.as_bytes()));
        of_channel.interest.set_own(subscribed.everything, types);
        of_channel.is_known = true;
        self.publish_interest(key.channel);
    }

    /// Handles the subscriptions of a flow's far side.
    pub(super) fn far_side_subscribed(&mut self, at: Token, everything: Option<u8>, types: &Types<'_>) {
        let link = &mut self.core.protocols.link;
        let Some(outflow) = link.outflows.get_mut(at) else { return };
        let Some(key) = outflow.key() else { return };
        let connection = outflow.connection.and_then(|(token, _)| link.connections.get(token));
        let Some(far) = connection.and_then(|connection| connection.far.as_ref()) else { return };
        let of_channel = link.interests.entry(key.channel).or_default();
        let is_news = of_channel.interest.set_peer(far.service, everything, types.iter());
        outflow.subscriptions = match (everything, types.len()) {
            (Some(_), _) => "everything".to_owned(),
            (None, 0) => "nothing".to_owned(),
            (None, 1) => "1 type".to_owned(),
            (None, count) => format!("{count} types"),
        };
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let mut wanted: Vec<EventType> =
            types.iter().map(|of| EventType::new(text(of.domain), text(of.name))).collect();
        #[cfg(test)]
        let everything =
            everything.or(crate::simulation::goes_wrong(crate::simulation::Break::SentUnwanted).then_some(0));
        let mut is_all = everything.is_some();
        // The configured types are never widened: the consumer subscribes to all of them or to none.
        if !outflow.types.is_empty() && (is_all || !wanted.is_empty()) {
            (is_all, wanted) = (false, outflow.types.clone());
        }
        let mut subscribed = (is_all, wanted);
        if let Some(group) = &mut outflow.group {
            group.far_subscribed = Some(subscribed);
            let place = group.place;
            subscribed = self.subscribe_group(place);
        }
        let link = &mut self.core.protocols.link;
        let Some(outflow) = link.outflows.get_mut(at) else { return };
        if outflow.subscribed.as_ref() != Some(&subscribed) {
            let is_first = outflow.subscribed.replace(subscribed.clone()).is_none();
            self.subscribe_outflow(at, key, subscribed);
            if is_first {
                self.watch_channel(key.channel);
                self.ask_to_listen(at);
            }
        }
        if is_news {
            self.publish_interest(key.channel);
        }
    }

    /// Has administration limit the consumer of a flow out. Until it has, this service sends on no subscriptions to the channel: what would
    /// come for them had no consumer here.
    pub(super) fn subscribe_outflow(&mut self, at: Token, key: ProxyKey, (everything, types): (bool, Vec<EventType>)) {
        let link = &mut self.core.protocols.link;
        let Some((&peer, _)) = link.flows.iter().find(|(_, flow)| **flow == Flow::Out(at)) else { return };
        link.interests.entry(key.channel).or_default().unlimited += 1;
        let (action, account) = (Action::Subscribe { peer, key, everything, types }, Arc::clone(&link.own));
        self.core.cx.tell_administration(at.to_bits(), action, &account);
    }

    /// Handles that the consumer of a flow out of the channel is limited.
    pub(super) fn outflow_limited(&mut self, channel: ChannelId) {
        let Some(of_channel) = self.core.protocols.link.interests.get_mut(&channel) else { return };
        of_channel.unlimited = of_channel.unlimited.saturating_sub(1);
        self.publish_interest(channel);
    }

    /// Drops a far side's subscriptions at the end of its flow out, unless it has another flow out of that channel.
    pub(super) fn forget_subscriptions(&mut self, channel: ChannelId, far: Option<u64>) {
        let Protocol { outflows, interests, .. } = &mut self.core.protocols.link;
        let is_of_it = |outflow: &Outflow| outflow.key().is_some_and(|key| key.channel == channel);
        if outflows.iter().any(|(_, outflow)| outflow.far == far && is_of_it(outflow)) {
            return;
        }
        let is_news = match (far, interests.get_mut(&channel)) {
            (Some(far), Some(of_channel)) => of_channel.interest.remove_peer(far),
            _ => false,
        };
        if is_news {
            self.publish_interest(channel);
        }
    }

    /// Sends the subscriptions to the far sides of a channel's flows in, if they have changed and are in force here.
    pub(super) fn publish_interest(&mut self, channel: ChannelId) {
        let link = &mut self.core.protocols.link;
        let is_due = |of_channel: &&ChannelInterest| of_channel.is_known && of_channel.unlimited == 0;
        let Some(of_channel) = link.interests.get(&channel).filter(is_due) else { return };
        let mut due = Vec::new();
        for (_, inflow) in link.inflows.iter_mut() {
            let is_of_it = inflow.is_open && inflow.key().is_some_and(|key| key.channel == channel);
            let Some(connection) = link.connections.get_mut(inflow.connection()).filter(|_| is_of_it) else { continue };
            let Some(far) = &connection.far else { continue };
            let published = of_channel.interest.publish_to(far.service);
            if inflow.published.as_ref() == Some(&published) {
                continue;
            }
            write_interest(connection.frames(&mut self.core.cx.io.spares), inflow.flow, &published);
            inflow.published = Some(published);
            due.push(inflow.connection());
        }
        for token in due {
            self.note_link_due(token);
        }
    }
}

/// Writes the subscriptions. If they exceed the limits of a frame, a subscription to all types is written.
fn write_interest(out: &mut Vec<u8>, flow: u32, published: &Published) {
    let entries: Vec<TypeInterest<'_>> = published.entries().collect();
    let (everything, types) = match Types::new(&entries) {
        Ok(types) => (published.everything, types),
        Err(_) => (Some(0), Types::NONE),
    };
    Frame::Interest { flow, everything, types }.write(out);
}

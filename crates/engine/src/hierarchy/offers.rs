//! What a channel's suppliers offer and its consumers want, each put together into one short list (OMG Notification
//! Service 1.1, 2.5: so that a supplier need not send what nobody wants, and a consumer knows what there is).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::filters::{Attached, Filters};
use super::{Channel, Hierarchy, Proxy, ProxyState};
use crate::{ChannelId, EventType, Operator, Refusal, Side, Subscription};

/// How many pairs of event types are compared to find what two lists have in common. Where there are more, the longer
/// list is taken for what they have in common: it says more than is wanted, never less.
const PAIRS_MAX: usize = 1 << 16;

impl Hierarchy {
    /// What the connected suppliers offer, together: canonical, sorted, and none within another. A supplier that said
    /// nothing offers what its admin says, and everything if that said nothing either.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn offered_types(&self, channel: ChannelId) -> Result<Vec<EventType>, Refusal> {
        let channel = self.channel(channel)?;
        let suppliers = connected(channel, Side::Suppliers);
        Ok(together(suppliers.map(|proxy| {
            let admin = channel.admins.get(&(proxy.side, proxy.admin));
            let nearest = Some(&proxy.subscription).filter(|own| own.is_changed());
            Types::of(nearest.or(admin.map(|admin| &admin.subscription)))
        })))
    }

    /// What the connected consumers want, together: canonical, sorted, and none within another. It is what their
    /// subscriptions let pass and the event types that their filters' constraints are for, put together as their admins
    /// say. Suspended consumers count.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn subscribed_types(&self, channel: ChannelId) -> Result<Vec<EventType>, Refusal> {
        let channel = self.channel(channel)?;
        let consumers = connected(channel, Side::Consumers);
        Ok(together(consumers.map(|proxy| self.wanted(channel, proxy))))
    }

    /// A number that changes whenever what suppliers offer, or what consumers want, may have changed: while it is the
    /// same, so is [`offered_types`](Self::offered_types) or [`subscribed_types`](Self::subscribed_types).
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn types_version(&self, channel: ChannelId, side: Side) -> Result<u64, Refusal> {
        Ok(self.channel(channel)?.types_version(side))
    }

    fn wanted(&self, channel: &Channel, proxy: &Proxy) -> Types {
        let Some(admin) = channel.admins.get(&(proxy.side, proxy.admin)) else { return Types::Everything };
        let own = group(&proxy.subscription, &proxy.attached, &self.filters);
        let of_admin = group(&admin.subscription, &admin.attached, &self.filters);
        match (own, of_admin, admin.operator) {
            (None, None, _) => Types::Everything,
            (Some(one), None, _) | (None, Some(one), _) => one,
            (Some(own), Some(of_admin), Operator::And) => own.and(of_admin),
            (Some(own), Some(of_admin), Operator::Or) => own.or(of_admin),
        }
    }
}

fn connected(channel: &Channel, side: Side) -> impl Iterator<Item = &Proxy> {
    channel.proxies().filter(move |proxy| proxy.side == side && proxy.state != ProxyState::Unconnected)
}

/// What a group lets pass, by type; `None` if it does not count.
fn group(subscription: &Subscription, attached: &Attached, filters: &Filters) -> Option<Types> {
    if attached.filters().is_empty() {
        return subscription.is_changed().then(|| Types::of(Some(subscription)));
    }
    let subscribed = Types::of(Some(subscription));
    // What a client's filter wants is not known here.
    if attached.remote_filters().next().is_some() {
        return Some(subscribed);
    }
    let constraints = attached.local_filters().filter_map(|filter| filters.get(filter));
    let constraints = constraints.flat_map(|filter| filter.constraints.iter());
    let mut types = Vec::new();
    for constraint in constraints.filter(|constraint| constraint.program.always() != Some(false)) {
        if constraint.types.is_empty() {
            return Some(subscribed);
        }
        types.extend(constraint.types.iter().cloned());
    }
    Some(subscribed.and(Types::These(types)))
}

/// Some event types.
enum Types {
    Everything,
    These(Vec<EventType>),
}

impl Types {
    fn of(subscription: Option<&Subscription>) -> Self {
        match subscription.map(Subscription::types) {
            Some(types) if !types.iter().any(EventType::is_everything) => Self::These(types.to_vec()),
            _ => Self::Everything,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everything, one) | (one, Self::Everything) => one,
            (Self::These(a), Self::These(b)) if a.len().saturating_mul(b.len()) > PAIRS_MAX => {
                Self::These(if a.len() > b.len() { a } else { b })
            }
            (Self::These(a), Self::These(b)) => {
                Self::These(a.iter().flat_map(|a| b.iter().filter_map(|b| a.and(b))).collect())
            }
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(mut a), Self::These(b)) => {
                a.extend(b);
                Self::These(a)
            }
            _ => Self::Everything,
        }
    }
}

/// All of them in one list, without those that are within another.
fn together(all: impl Iterator<Item = Types>) -> Vec<EventType> {
    let mut types = BTreeSet::new();
    for some in all {
        match some {
            Types::Everything => return Vec::from([EventType::everything()]),
            Types::These(some) => types.extend(some.iter().map(EventType::canonical)),
        }
    }
    if types.iter().any(EventType::is_everything) {
        return Vec::from([EventType::everything()]);
    }
    let patterns: Vec<EventType> = types.iter().filter(|wide| wide.is_pattern()).cloned().collect();
    let is_within = |narrow: &EventType| patterns.iter().any(|wide| wide != narrow && wide.covers(narrow));
    types.into_iter().filter(|narrow| !is_within(narrow)).collect()
}

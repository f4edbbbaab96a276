//! Combined offers of a channel's suppliers and combined subscriptions of its consumers (OMG Notification Service 1.1,
//! 2.5: a supplier need not send what no consumer subscribes to, and a consumer learns which types there are).

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::filters::{Attached, Filters};
use super::{Channel, Hierarchy, Proxy, ProxyState};
use crate::{ChannelId, EventType, Operator, ProxyKey, Refusal, Side, Subscription};

/// Most comparisons to intersect two lists, and for all proxies of a channel. Beyond it the longer list stands for the
/// intersection: it is larger than the true one, never smaller.
const PAIRS_MAX: usize = 1 << 16;
const PAIRS_OF_ALL_MAX: usize = 1 << 18;

/// Most comparisons to leave out types covered by another. Beyond it all types are listed.
const COMPARISONS_MAX: usize = 1 << 20;

/// Most event types and 64-octet units examined to combine lists, and most types listed before covered ones are left
/// out. Beyond it everything is reported as offered or subscribed: no client reads such a list, and clients choose how
/// long it is.
const LOOKED_AT_MAX: usize = 1 << 18;
const TYPES_MAX: usize = 1 << 14;

impl Hierarchy {
    /// Combined offer of the connected suppliers: canonical, sorted, none covered by another. A supplier without an
    /// offer has its admin's, and announces nothing if that has none either: its events pass all the same.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn offered_types(&self, channel: ChannelId) -> Result<Vec<EventType>, Refusal> {
        let channel = self.channel(channel)?;
        let suppliers = connected(channel, Side::Suppliers);
        Ok(together(suppliers.filter_map(|proxy| {
            let admin = channel.admins.get(&(proxy.side, proxy.admin));
            let lists = [Some(&proxy.subscription), admin.map(|admin| &admin.subscription)];
            let nearest = lists.into_iter().flatten().find(|list| list.is_changed());
            nearest.map(Types::of)
        })))
    }

    /// Combined subscription of the connected consumers: canonical, sorted, none covered by another. It consists of
    /// their subscriptions and of the event types of their filters' constraints, combined as their admins say.
    /// Suspended consumers count.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn subscribed_types(&self, channel: ChannelId) -> Result<Vec<EventType>, Refusal> {
        self.subscribed_types_but(channel, |_| false)
    }

    /// Combined subscription of the connected consumers without those for which `except` is true.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn subscribed_types_but(
        &self,
        channel: ChannelId,
        except: impl Fn(ProxyKey) -> bool,
    ) -> Result<Vec<EventType>, Refusal> {
        let channel = self.channel(channel)?;
        let counts = |proxy: &&Proxy| !except(ProxyKey { channel: channel.id(), proxy: proxy.id });
        let consumers = connected(channel, Side::Consumers).filter(counts);
        let mut pairs_left = PAIRS_OF_ALL_MAX;
        Ok(together(consumers.map(|proxy| self.subscribed(channel, proxy, &mut pairs_left))))
    }

    /// Types that connected clients of a side have named, by TAO's rule: as spelt, sorted, and without everything. A
    /// proxy has its admin's types and its own; filters are ignored. Too many types count as everything.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn named_types(&self, channel: ChannelId, side: Side) -> Result<Vec<EventType>, Refusal> {
        let channel = self.channel(channel)?;
        let mut types = BTreeSet::new();
        let mut looked_at = 0;
        for named in connected(channel, side).filter_map(|proxy| named_by(channel, proxy)).flatten() {
            looked_at += weight(named);
            types.extend(named);
            if looked_at > LOOKED_AT_MAX || types.len() > TYPES_MAX {
                return Ok(Vec::from([EventType::everything()]));
            }
        }
        Ok(types.into_iter().cloned().collect())
    }

    /// Types that a proxy and its admin have named, sorted; `None` if that is everything.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn types_named_by(&self, proxy: ProxyKey) -> Result<Option<Vec<EventType>>, Refusal> {
        let named = named_by(self.channel(proxy.channel)?, self.proxy(proxy)?);
        Ok(named.map(|named| named.flatten().collect::<BTreeSet<_>>().into_iter().cloned().collect()))
    }

    /// Version of the offers or subscriptions: while it is unchanged, so is [`offered_types`](Self::offered_types) or
    /// [`subscribed_types`](Self::subscribed_types).
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn types_version(&self, channel: ChannelId, side: Side) -> Result<u64, Refusal> {
        Ok(self.channel(channel)?.types_version(side))
    }

    fn subscribed<'a>(&self, channel: &'a Channel, proxy: &'a Proxy, pairs_left: &mut usize) -> Types<'a> {
        let Some(admin) = channel.admins.get(&(proxy.side, proxy.admin)) else { return Types::Everything };
        let counts = channel.filters_count(proxy);
        let mut group = |subscription, attached| group(subscription, attached, counts, &self.filters, pairs_left);
        let (own, of_admin) =
            (group(&proxy.subscription, &proxy.attached), group(&admin.subscription, &admin.attached));
        match (own, of_admin, admin.operator) {
            (None, None, _) => Types::Everything,
            (Some(one), None, _) | (None, Some(one), _) => one,
            (Some(own), Some(of_admin), Operator::And) => own.and(of_admin, pairs_left),
            (Some(own), Some(of_admin), Operator::Or) => own.or(of_admin),
        }
    }
}

fn connected(channel: &Channel, side: Side) -> impl Iterator<Item = &Proxy> {
    channel.proxies().filter(move |proxy| proxy.side == side && proxy.state != ProxyState::Unconnected)
}

/// Lists of the types that a proxy and its admin have named; `None` if that is everything. The proxy's types replace
/// an admin's everything.
fn named_by<'a>(channel: &'a Channel, proxy: &'a Proxy) -> Option<impl Iterator<Item = &'a [EventType]>> {
    let admin = channel.admins.get(&(proxy.side, proxy.admin)).map(|admin| &admin.subscription);
    let is_all = |list: &Subscription| list.types().iter().any(EventType::is_everything);
    let own = proxy.subscription.is_changed().then_some(&proxy.subscription);
    let of_admin = admin.filter(|list| !is_all(list));
    if own.is_some_and(is_all) || (own.is_none() && of_admin.is_none()) {
        return None;
    }
    Some([own, of_admin].into_iter().flatten().map(Subscription::types))
}

/// Event types that a group lets pass; `None` if the group is ignored.
fn group<'a>(
    subscription: &'a Subscription,
    attached: &Attached,
    filters_count: bool,
    filters: &Filters,
    pairs_left: &mut usize,
) -> Option<Types<'a>> {
    if attached.filters().is_empty() || !filters_count {
        return subscription.is_changed().then(|| Types::of(subscription));
    }
    let subscribed = Types::of(subscription);
    // The types of a remote filter are not known here.
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
    Some(subscribed.and(Types::These(types.into()), pairs_left))
}

enum Types<'a> {
    Everything,
    These(Cow<'a, [EventType]>),
}

impl<'a> Types<'a> {
    fn of(subscription: &'a Subscription) -> Self {
        match subscription.types() {
            types if !types.iter().any(EventType::is_everything) => Self::These(Cow::Borrowed(types)),
            _ => Self::Everything,
        }
    }

    fn and(self, other: Self, pairs_left: &mut usize) -> Self {
        match (self, other) {
            (Self::Everything, one) | (one, Self::Everything) => one,
            (Self::These(a), Self::These(b)) => {
                let pairs = comparisons(&a, &b);
                if pairs > PAIRS_MAX || pairs > *pairs_left {
                    return Self::These(if a.len() > b.len() { a } else { b });
                }
                *pairs_left -= pairs;
                Self::These(a.iter().flat_map(|a| b.iter().filter_map(|b| a.and(b))).collect())
            }
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(mut a), Self::These(b)) => {
                a.to_mut().extend(b.into_owned());
                Self::These(a)
            }
            _ => Self::Everything,
        }
    }
}

/// All types in one list, without those covered by another.
fn together<'a>(all: impl Iterator<Item = Types<'a>>) -> Vec<EventType> {
    let everything = || Vec::from([EventType::everything()]);
    let mut types = BTreeSet::new();
    let mut looked_at = 0;
    for some in all {
        let Types::These(some) = some else { return everything() };
        looked_at += weight(&some);
        if looked_at > LOOKED_AT_MAX {
            return everything();
        }
        for kind in &*some {
            // Most are in the list already, where many ask for the same, and in the spelling that is listed.
            if !types.contains(kind) && types.insert(kind.canonical()) && types.len() > TYPES_MAX {
                return everything();
            }
        }
    }
    if types.iter().any(EventType::is_everything) {
        return Vec::from([EventType::everything()]);
    }
    let types: Vec<EventType> = types.into_iter().collect();
    let patterns: Vec<EventType> = types.iter().filter(|wide| wide.is_pattern()).cloned().collect();
    if comparisons(&patterns, &types) > COMPARISONS_MAX {
        return types;
    }
    let is_within = |narrow: &EventType| patterns.iter().any(|wide| wide != narrow && wide.covers(narrow));
    types.into_iter().filter(|narrow| !is_within(narrow)).collect()
}

/// Cost of examining event types: one for each, and one for every 64 octets, since clients choose how long they are.
fn weight(types: &[EventType]) -> usize {
    types.iter().map(|kind| 1 + (kind.domain.len() + kind.name.len()) / 64).sum()
}

/// Cost of comparing each type of `a` with each of `b`.
fn comparisons(a: &[EventType], b: &[EventType]) -> usize {
    weight(a).saturating_mul(b.len()).saturating_add(weight(b).saturating_mul(a.len())) / 2
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::sync::Arc;

    use super::*;
    use crate::{
        AdminId, ChannelLimits, FilterConstraint, FilterRef, FilterTarget, Form, OutputForm, Peer, ProxyKind,
        SettingsPatch, SubscriptionTarget,
    };

    struct Rig {
        hierarchy: Hierarchy,
        channel: ChannelId,
    }

    impl Rig {
        fn new() -> Self {
            let mut hierarchy = Hierarchy::default();
            let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
            Self { hierarchy, channel }
        }

        fn admin(&mut self, side: Side, operator: Operator, types: &[(&str, &str)]) -> AdminId {
            let channel = self.channel;
            let admin = self.hierarchy.create_admin(channel, side, operator).unwrap();
            self.subscribe(SubscriptionTarget::Admin { channel, side, admin }, types);
            admin
        }

        /// A connected proxy with these types; with none it never says any.
        fn proxy(&mut self, side: Side, admin: AdminId, types: &[(&str, &str)]) -> ProxyKey {
            let (channel, kind) = (self.channel, ProxyKind::default());
            let proxy = self.hierarchy.create_proxy(channel, side, admin, Form(1), kind).unwrap();
            let key = ProxyKey { channel, proxy };
            self.hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
            if !types.is_empty() {
                self.subscribe(SubscriptionTarget::Proxy(key), types);
            }
            key
        }

        fn subscribe(&mut self, target: SubscriptionTarget, types: &[(&str, &str)]) {
            let types: Vec<EventType> = types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect();
            self.hierarchy.subscribe(target, &types, &[EventType::everything()]).unwrap();
        }

        fn filter(&mut self, target: FilterTarget, types: &[(&str, &str)]) {
            let types: Vec<EventType> = types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect();
            let program = filter::Constraint::parse("$n == 1", &filter::Limits::default()).unwrap();
            let constraint = FilterConstraint { types: types.into(), program: Arc::new(program), value: 0 };
            let filter = self.hierarchy.create_filter(self.channel).unwrap();
            self.hierarchy.set_constraints(filter, Vec::from([constraint]), None).unwrap();
            self.hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
        }

        fn offered(&self) -> Vec<EventType> {
            self.hierarchy.offered_types(self.channel).unwrap()
        }

        fn subscribed(&self) -> Vec<EventType> {
            self.hierarchy.subscribed_types(self.channel).unwrap()
        }
    }

    fn types(types: &[(&str, &str)]) -> Vec<EventType> {
        types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect()
    }

    #[test]
    fn more_types_than_anybody_reads_are_everything_and_are_not_all_looked_at() {
        // With 1.5 million types in a channel each subscription_change took 1.0 s: all were put into one list, which then proved too long
        // to be sent.
        let mut rig = Rig::new();
        let mut names = 0..;
        let mut add = |rig: &mut Rig, count: usize| {
            let names: Vec<String> = names.by_ref().take(count).map(|number: u32| number.to_string()).collect();
            let types: Vec<(&str, &str)> = names.iter().map(|name| ("a", name.as_str())).collect();
            rig.proxy(Side::Consumers, AdminId::DEFAULT, &types);
        };
        (0..16).for_each(|_| add(&mut rig, 1_024));
        assert_eq!(rig.subscribed().len(), TYPES_MAX);
        add(&mut rig, 1);
        assert_eq!(rig.subscribed(), [EventType::everything()]);
    }

    #[test]
    fn consumers_that_do_not_count_are_left_out() {
        let mut rig = Rig::new();
        let wide = rig.proxy(Side::Consumers, AdminId::DEFAULT, &[]);
        let narrow = rig.proxy(Side::Consumers, AdminId::DEFAULT, &[("a", "x")]);
        let but =
            |keys: &[ProxyKey]| rig.hierarchy.subscribed_types_but(rig.channel, |key| keys.contains(&key)).unwrap();
        assert_eq!(but(&[]), [EventType::everything()]);
        assert_eq!(but(&[wide]), types(&[("a", "x")]));
        assert_eq!(but(&[wide, narrow]), []);
    }

    #[test]
    fn a_client_that_says_nothing_announces_nothing_and_wants_everything() {
        let mut rig = Rig::new();
        assert_eq!((rig.offered(), rig.subscribed()), (types(&[]), types(&[])));
        rig.proxy(Side::Suppliers, AdminId::DEFAULT, &[]);
        assert_eq!(rig.offered(), types(&[]));
        rig.proxy(Side::Suppliers, AdminId::DEFAULT, &[("a", "x")]);
        assert_eq!(rig.offered(), types(&[("a", "x")]));
        rig.proxy(Side::Suppliers, AdminId::DEFAULT, &[("*", "%ALL")]);
        assert_eq!(rig.offered(), types(&[("*", "*")]));
        rig.proxy(Side::Consumers, AdminId::DEFAULT, &[]);
        assert_eq!(rig.subscribed(), types(&[("*", "*")]));
    }

    #[test]
    fn a_list_is_sorted_in_one_spelling_and_without_what_is_within_another() {
        let mut rig = Rig::new();
        let first = [("b", "x"), ("a", "%ALL"), ("b", "x"), ("c*", "y")];
        rig.proxy(Side::Suppliers, AdminId::DEFAULT, &first);
        rig.proxy(Side::Suppliers, AdminId::DEFAULT, &[("a", ""), ("a", "x"), ("cd", "y"), ("c", "z")]);
        assert_eq!(rig.offered(), types(&[("a", "*"), ("b", "x"), ("c", "z"), ("c*", "y")]));
    }

    #[test]
    fn a_supplier_that_says_nothing_offers_what_its_admin_says() {
        let mut rig = Rig::new();
        let admin = rig.admin(Side::Suppliers, Operator::And, &[("a", "x")]);
        rig.proxy(Side::Suppliers, admin, &[]);
        rig.proxy(Side::Suppliers, admin, &[("b", "x")]);
        assert_eq!(rig.offered(), types(&[("a", "x"), ("b", "x")]));
    }

    #[test]
    fn what_a_consumer_wants_is_what_both_its_lists_let_pass_or_either() {
        for (operator, subscribed) in
            [(Operator::And, types(&[("a", "xy")])), (Operator::Or, types(&[("*", "x*"), ("a", "z")]))]
        {
            let mut rig = Rig::new();
            let admin = rig.admin(Side::Consumers, operator, &[("*", "x*")]);
            rig.proxy(Side::Consumers, admin, &[("a", "xy"), ("a", "z")]);
            assert_eq!(rig.subscribed(), subscribed, "{operator:?}");
        }
    }

    #[test]
    fn what_a_consumer_wants_is_narrowed_by_the_types_of_its_filters() {
        let mut rig = Rig::new();
        let key = rig.proxy(Side::Consumers, AdminId::DEFAULT, &[]);
        assert_eq!(rig.subscribed(), types(&[("*", "*")]));
        rig.filter(FilterTarget::Proxy(key), &[("a", "*"), ("b", "x")]);
        assert_eq!(rig.subscribed(), types(&[("a", "*"), ("b", "x")]));
        rig.subscribe(SubscriptionTarget::Proxy(key), &[("*", "x")]);
        assert_eq!(rig.subscribed(), types(&[("a", "x"), ("b", "x")]));
        rig.filter(FilterTarget::Proxy(key), &[]);
        assert_eq!(rig.subscribed(), types(&[("*", "x")]));
        rig.hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Remote(Peer(9))).unwrap();
        assert_eq!(rig.subscribed(), types(&[("*", "x")]), "the wishes of a client's filter are unknown");
    }

    #[test]
    fn what_is_named_is_reported_as_it_is_spelt_and_everything_is_no_name() {
        let mut rig = Rig::new();
        let named = |rig: &Rig| rig.hierarchy.named_types(rig.channel, Side::Consumers).unwrap();
        let by = |rig: &Rig, proxy| rig.hierarchy.types_named_by(proxy).unwrap();
        let silent = rig.proxy(Side::Consumers, AdminId::DEFAULT, &[]);
        let greedy = rig.proxy(Side::Consumers, AdminId::DEFAULT, &[("*", "*"), ("a", "x")]);
        assert_eq!((named(&rig), by(&rig, silent), by(&rig, greedy)), (types(&[]), None, None));
        let one = rig.proxy(Side::Consumers, AdminId::DEFAULT, &[("a", "%ALL"), ("a", "x")]);
        assert_eq!(named(&rig), types(&[("a", "%ALL"), ("a", "x")]), "also what is within another");
        // A proxy has its admin's types and its own, whatever the operator; and everything gives way to them.
        let admin = rig.admin(Side::Consumers, Operator::And, &[("b", "y")]);
        let other = rig.proxy(Side::Consumers, admin, &[("c", "z")]);
        assert_eq!(by(&rig, other), Some(types(&[("b", "y"), ("c", "z")])));
        let admin = rig.admin(Side::Consumers, Operator::And, &[("", "")]);
        let last = rig.proxy(Side::Consumers, admin, &[("d", "v")]);
        assert_eq!(by(&rig, last), Some(types(&[("d", "v")])));
        assert_eq!(named(&rig), types(&[("a", "%ALL"), ("a", "x"), ("b", "y"), ("c", "z"), ("d", "v")]));
        // Filters do not count, and neither does a consumer that is gone.
        rig.filter(FilterTarget::Proxy(one), &[("a", "x")]);
        rig.hierarchy.disconnect(other).unwrap();
        assert_eq!(named(&rig), types(&[("a", "%ALL"), ("a", "x"), ("d", "v")]));
        rig.subscribe(SubscriptionTarget::Proxy(last), &[]);
        assert_eq!(by(&rig, last), Some(types(&[])), "nothing is not everything");
    }

    #[test]
    fn lists_too_long_to_compare_say_more_rather_than_less() {
        let many: Vec<EventType> = (0..300).map(|n| EventType::new("d", alloc::format!("{n}"))).collect();
        let both = Types::These(many.clone().into())
            .and(Types::These(many[..250].to_vec().into()), &mut PAIRS_OF_ALL_MAX.clone());
        let Types::These(both) = both else { panic!("a list") };
        assert_eq!(both, many);
    }

    #[test]
    fn the_version_tells_when_a_list_may_have_changed() {
        let mut rig = Rig::new();
        let version = |rig: &Rig, side| rig.hierarchy.types_version(rig.channel, side).unwrap();
        let both = |rig: &Rig| (version(rig, Side::Suppliers), version(rig, Side::Consumers));
        let nobody = both(&rig);
        let key = rig.proxy(Side::Suppliers, AdminId::DEFAULT, &[("a", "x")]);
        let one = both(&rig);
        assert!(one.0 > nobody.0 && one.1 == nobody.1);
        rig.hierarchy.set_proxy_settings(key, SettingsPatch::default()).unwrap();
        assert_eq!(both(&rig), one);
        rig.hierarchy.disconnect(key).unwrap();
        assert!(both(&rig).0 > one.0);
        let consumer = rig.proxy(Side::Consumers, AdminId::DEFAULT, &[]);
        let before = both(&rig);
        rig.filter(FilterTarget::Proxy(consumer), &[]);
        assert!(both(&rig).1 > before.1);
    }
}

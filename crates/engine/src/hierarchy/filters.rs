//! Filters, their attachments, and the commands that change either.
//!
//! A filter is created in a channel and counts against that channel's limits, but may be attached to admins and
//! proxies of any channel, and to several of them: a change applies to all at once.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Hierarchy, HierarchyPart};
use crate::{AdminId, ChannelId, ChannelLimits, EventType, FilterId, Peer, ProxyKey, Refusal, Side};

/// Reference of an admin or a proxy to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FilterRef {
    /// A local filter, created in this service.
    Local(FilterId),
    /// A remote filter, implemented by a client; the protocol knows how to call it.
    Remote(Peer),
}

/// An admin or a proxy that filters are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FilterTarget {
    /// An admin: the filter applies to all its proxies.
    Admin {
        /// The channel.
        channel: ChannelId,
        /// The admin's side.
        side: Side,
        /// The admin.
        admin: AdminId,
    },
    /// A proxy.
    Proxy(ProxyKey),
}

impl FilterTarget {
    /// The channel of the target.
    #[must_use]
    pub fn channel(self) -> ChannelId {
        match self {
            Self::Admin { channel, .. } => channel,
            Self::Proxy(key) => key.channel,
        }
    }
}

/// One of a filter's constraints.
#[derive(Clone, Debug)]
pub struct FilterConstraint {
    /// Event types of the constraint; empty for any. Events of other types do not match, whatever the program says.
    pub types: Arc<[EventType]>,
    /// The compiled condition.
    pub program: Arc<filter::Constraint>,
    /// In a mapping filter: the value for an event that matches, a priority or a lifetime in nanoseconds. Otherwise
    /// ignored, and best 0.
    pub value: i64,
}

/// Value that a mapping filter gives an event for a consumer (OMG Notification Service 1.1, 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mapping {
    /// The priority.
    Priority,
    /// The lifetime, in nanoseconds; 0 for one that never ends.
    Lifetime,
}

#[derive(Debug)]
pub(super) struct Filter {
    /// The channel in which the filter was created.
    home: ChannelId,
    pub(super) constraints: Arc<[FilterConstraint]>,
    pub(super) default_value: Option<i64>,
    /// Number of attachments to each target, as a filter or as a mapping filter.
    targets: BTreeMap<FilterTarget, u32>,
}

#[derive(Debug, Default)]
pub(super) struct Filters {
    all: BTreeMap<FilterId, Filter>,
    pub(super) next: u32,
}

impl Filters {
    pub(super) fn get(&self, filter: FilterId) -> Option<&Filter> {
        self.all.get(&filter)
    }

    fn known(&self, filter: FilterId) -> Result<&Filter, Refusal> {
        self.get(filter).ok_or(Refusal::NoSuchFilter { filter })
    }

    /// Counts one more attachment of a filter to a target.
    fn note(&mut self, filter: FilterId, target: FilterTarget) {
        if let Some(filter) = self.all.get_mut(&filter) {
            *filter.targets.entry(target).or_default() += 1;
        }
    }

    /// Counts one attachment less of a filter to a target.
    fn forget(&mut self, filter: FilterId, target: FilterTarget) {
        let Some(filter) = self.all.get_mut(&filter) else { return };
        if let Some(count) = filter.targets.get_mut(&target) {
            *count -= 1;
            if *count == 0 {
                filter.targets.remove(&target);
            }
        }
    }

    /// Removes a target with all its attachments.
    pub(super) fn forget_all(&mut self, attached: &Attached, target: FilterTarget) {
        for filter in attached.local() {
            self.forget(filter, target);
        }
    }
}

/// Filters attached to an admin or a proxy.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    filters: Vec<(u32, FilterRef)>,
    next: u32,
    priority: Option<FilterId>,
    lifetime: Option<FilterId>,
}

impl Attached {
    /// Filters with their ids, in the order in which they were added.
    #[must_use]
    pub fn filters(&self) -> &[(u32, FilterRef)] {
        &self.filters
    }

    /// Mapping filter for a property.
    #[must_use]
    pub fn mapping(&self, mapping: Mapping) -> Option<FilterId> {
        match mapping {
            Mapping::Priority => self.priority,
            Mapping::Lifetime => self.lifetime,
        }
    }

    /// Whether nothing is attached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.priority.is_none() && self.lifetime.is_none()
    }

    /// Id of the next filter to be added.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    pub(super) fn next_mut(&mut self) -> &mut u32 {
        &mut self.next
    }

    fn mapping_mut(&mut self, mapping: Mapping) -> &mut Option<FilterId> {
        match mapping {
            Mapping::Priority => &mut self.priority,
            Mapping::Lifetime => &mut self.lifetime,
        }
    }

    /// The attached local filters.
    pub(super) fn local_filters(&self) -> impl Iterator<Item = FilterId> {
        self.filters.iter().filter_map(|(_, filter)| match filter {
            FilterRef::Local(filter) => Some(*filter),
            FilterRef::Remote(_) => None,
        })
    }

    /// The attached remote filters.
    pub(super) fn remote_filters(&self) -> impl Iterator<Item = Peer> {
        self.filters.iter().filter_map(|(_, filter)| match filter {
            FilterRef::Remote(peer) => Some(*peer),
            FilterRef::Local(_) => None,
        })
    }

    /// The attached mapping filters.
    pub(super) fn mapping_filters(&self) -> impl Iterator<Item = FilterId> {
        self.priority.into_iter().chain(self.lifetime)
    }

    /// Every local filter, mapping filters included, once for each attachment.
    fn local(&self) -> impl Iterator<Item = FilterId> {
        self.local_filters().chain(self.mapping_filters())
    }

    fn drop_filter(&mut self, gone: FilterId) {
        self.filters.retain(|(_, filter)| *filter != FilterRef::Local(gone));
        self.priority = self.priority.filter(|filter| *filter != gone);
        self.lifetime = self.lifetime.filter(|filter| *filter != gone);
    }
}

impl Hierarchy {
    // ---- filters themselves ----

    /// Creates a filter without constraints, which lets nothing pass. It counts against the channel's limits and is
    /// destroyed with the channel.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::TooManyFilters`], [`Refusal::IdsExhausted`].
    pub fn create_filter(&mut self, channel: ChannelId) -> Result<FilterId, Refusal> {
        let next = self.filters.next;
        let owner = self.channel_mut(channel)?;
        let limit = owner.limits().filters_max;
        if owner.own_filters.len() >= limit as usize {
            return Err(Refusal::TooManyFilters { limit });
        }
        let after = next.checked_add(1).ok_or(Refusal::IdsExhausted)?;
        let id = FilterId(next);
        owner.own_filters.insert(id);
        self.filters.next = after;
        let filter = Filter { home: channel, constraints: Arc::new([]), default_value: None, targets: BTreeMap::new() };
        self.filters.all.insert(id, filter);
        self.parts.note(HierarchyPart::Numbers);
        self.parts.note(HierarchyPart::Filter(id));
        Ok(id)
    }

    /// Replaces all of a filter's constraints and, for a mapping filter, its default value, or nothing if one is
    /// refused.
    ///
    /// A mapping filter's constraints are tried in the order of their values, the best (highest priority, longest
    /// lifetime) first, whatever their order here (OMG Notification Service 1.1, 3.2.2.10).
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSuchFilter`], [`Refusal::TooManyConstraints`], [`Refusal::ConstraintTooLong`], [`Refusal::ConstraintTooComplex`],
    /// [`Refusal::TooManyEventTypes`].
    pub fn set_constraints(
        &mut self,
        filter: FilterId,
        constraints: Vec<FilterConstraint>,
        default_value: Option<i64>,
    ) -> Result<(), Refusal> {
        let home = self.filters.known(filter)?.home;
        check_constraints(&constraints, self.channel(home)?.limits(), self.limits.event_types_max)?;
        let Some(found) = self.filters.all.get_mut(&filter) else { return Err(Refusal::NoSuchFilter { filter }) };
        found.constraints = constraints.into();
        found.default_value = default_value;
        self.parts.note(HierarchyPart::Filter(filter));
        self.note_filter_changed(filter);
        Ok(())
    }

    /// A filter's constraints.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSuchFilter`].
    pub fn constraints(&self, filter: FilterId) -> Result<&Arc<[FilterConstraint]>, Refusal> {
        Ok(&self.filters.known(filter)?.constraints)
    }

    /// Destroys a filter and detaches it from every target.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSuchFilter`].
    pub fn destroy_filter(&mut self, filter: FilterId) -> Result<(), Refusal> {
        self.filters.known(filter)?;
        self.note_filter_changed(filter);
        self.parts.note(HierarchyPart::Filter(filter));
        let Some(gone) = self.filters.all.remove(&filter) else { return Ok(()) };
        if let Some(home) = self.channels.get_mut(&gone.home) {
            home.own_filters.remove(&filter);
        }
        for target in gone.targets.keys() {
            self.parts.note(*target);
            if let Ok(channel) = self.channel_mut(target.channel()) {
                // A target that is gone was forgotten by the filter.
                let _ = channel.change_attached(*target, |attached| attached.drop_filter(filter));
            }
        }
        Ok(())
    }

    // ---- where they are attached ----

    /// Attaches a filter and returns its id there, which counts up from 0 and is never used twice by that admin or
    /// proxy.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NoSuchFilter`],
    /// [`Refusal::TooManyFiltersAttached`], [`Refusal::IdsExhausted`].
    pub fn add_filter(&mut self, target: FilterTarget, filter: FilterRef) -> Result<u32, Refusal> {
        if let FilterRef::Local(filter) = filter {
            self.filters.known(filter)?;
        }
        let limit = self.channel(target.channel())?.limits().filters_per_object_max;
        let attached = self.attached(target)?;
        if attached.filters.len() >= limit as usize {
            return Err(Refusal::TooManyFiltersAttached { limit });
        }
        let id = attached.next;
        let next = id.checked_add(1).ok_or(Refusal::IdsExhausted)?;
        self.change_attached(target, |attached| {
            attached.next = next;
            attached.filters.push((id, filter));
        })?;
        if let FilterRef::Local(filter) = filter {
            self.filters.note(filter, target);
        }
        Ok(id)
    }

    /// Exchanges the filters and mapping filters of two proxies, which keep their ids.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn exchange_attached(&mut self, one: ProxyKey, other: ProxyKey) -> Result<(), Refusal> {
        let targets = [FilterTarget::Proxy(one), FilterTarget::Proxy(other)];
        let [first, second] = targets;
        let had = [self.attached(first)?.clone(), self.attached(second)?.clone()];
        for (target, attached) in targets.into_iter().zip(&had) {
            self.filters.forget_all(attached, target);
        }
        for (target, attached) in targets.into_iter().zip(had.iter().rev()) {
            self.change_attached(target, |place| *place = attached.clone())?;
            for filter in attached.local() {
                self.filters.note(filter, target);
            }
        }
        Ok(())
    }

    /// Detaches a filter and returns it.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`],
    /// [`Refusal::FilterNotFound`].
    pub fn remove_filter(&mut self, target: FilterTarget, id: u32) -> Result<FilterRef, Refusal> {
        let known = self.filters(target)?.iter().position(|(known, _)| *known == id);
        let at = known.ok_or(Refusal::FilterNotFound { id })?;
        let (_, filter) = self.change_attached(target, |attached| attached.filters.remove(at))?;
        if let FilterRef::Local(filter) = filter {
            self.filters.forget(filter, target);
        }
        Ok(filter)
    }

    /// Detaches all filters. Mapping filters stay.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`].
    pub fn remove_all_filters(&mut self, target: FilterTarget) -> Result<(), Refusal> {
        let gone = self.change_attached(target, |attached| core::mem::take(&mut attached.filters))?;
        for (_, filter) in gone {
            if let FilterRef::Local(filter) = filter {
                self.filters.forget(filter, target);
            }
        }
        Ok(())
    }

    /// The filters of an admin or a proxy with their ids there, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`].
    pub fn filters(&self, target: FilterTarget) -> Result<&[(u32, FilterRef)], Refusal> {
        Ok(&self.attached(target)?.filters)
    }

    /// Sets or removes the mapping filter of a consumer's proxy or admin. A proxy's takes precedence over its admin's.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`],
    /// [`Refusal::NoSuchFilter`]; [`Refusal::NoMapping`] on the suppliers' side.
    pub fn set_mapping(
        &mut self,
        target: FilterTarget,
        mapping: Mapping,
        filter: Option<FilterId>,
    ) -> Result<(), Refusal> {
        let side = match target {
            FilterTarget::Admin { channel, side, admin } => self.admin(channel, side, admin)?.side,
            FilterTarget::Proxy(key) => self.proxy(key)?.side,
        };
        if side == Side::Suppliers {
            return Err(Refusal::NoMapping);
        }
        if let Some(filter) = filter {
            self.filters.known(filter)?;
        }
        let change = |attached: &mut Attached| core::mem::replace(attached.mapping_mut(mapping), filter);
        let before = self.change_attached(target, change)?;
        if let Some(before) = before {
            self.filters.forget(before, target);
        }
        if let Some(filter) = filter {
            self.filters.note(filter, target);
        }
        Ok(())
    }

    /// The mapping filter of an admin or a proxy itself.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`].
    pub fn mapping(&self, target: FilterTarget, mapping: Mapping) -> Result<Option<FilterId>, Refusal> {
        Ok(self.attached(target)?.mapping(mapping))
    }

    // ---- helpers ----

    pub(super) fn attached(&self, target: FilterTarget) -> Result<&Attached, Refusal> {
        match target {
            FilterTarget::Admin { channel, side, admin } => Ok(&self.admin(channel, side, admin)?.attached),
            FilterTarget::Proxy(key) => Ok(&self.proxy(key)?.attached),
        }
    }

    /// Changes the filters attached to a target; the event path is notified if they are in use.
    pub(super) fn change_attached<R>(
        &mut self,
        target: FilterTarget,
        change: impl FnOnce(&mut Attached) -> R,
    ) -> Result<R, Refusal> {
        self.parts.note(target);
        self.channel_mut(target.channel())?.change_attached(target, change)
    }

    /// Notes the change of a filter in every channel where it is attached.
    fn note_filter_changed(&mut self, filter: FilterId) {
        let id = filter;
        let Some(filter) = self.filters.get(id) else { return };
        let mut last = None;
        for target in filter.targets.keys() {
            let channel = target.channel();
            if last.replace(channel) != Some(channel)
                && let Some(found) = self.channels.get_mut(&channel)
            {
                found.note_filter_changed(id);
                self.touched.insert(channel);
                self.changed.insert(channel);
            }
        }
    }
}

fn check_constraints(
    constraints: &[FilterConstraint],
    limits: &ChannelLimits,
    event_types_max: u32,
) -> Result<(), Refusal> {
    let limit = limits.constraints_per_filter_max;
    if constraints.len() > limit as usize {
        return Err(Refusal::TooManyConstraints { limit });
    }
    for constraint in constraints {
        let (bytes, nodes) = (constraint.program.text().len() as u64, constraint.program.nodes());
        if bytes > u64::from(limits.constraint_bytes_max) {
            return Err(Refusal::ConstraintTooLong { bytes, limit: limits.constraint_bytes_max });
        }
        if nodes > limits.constraint_nodes_max {
            return Err(Refusal::ConstraintTooComplex { nodes, limit: limits.constraint_nodes_max });
        }
        if constraint.types.len() > event_types_max as usize {
            return Err(Refusal::TooManyEventTypes { limit: event_types_max });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, Operator, OutputForm, ProxyKind, SettingsPatch};

    fn hierarchy(limits: ChannelLimits) -> (Hierarchy, ChannelId) {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), limits).unwrap();
        (hierarchy, channel)
    }

    fn proxy(hierarchy: &mut Hierarchy, channel: ChannelId, side: Side) -> ProxyKey {
        let proxy = hierarchy.create_proxy(channel, side, AdminId::DEFAULT, Form(1), ProxyKind::default()).unwrap();
        let key = ProxyKey { channel, proxy };
        hierarchy.connect(key, Some(Peer(u64::from(proxy.0))), OutputForm(0)).unwrap();
        key
    }

    fn constraint(text: &str) -> FilterConstraint {
        let program = filter::Constraint::parse(text, &filter::Limits::default()).unwrap();
        FilterConstraint { types: Arc::new([]), program: Arc::new(program), value: 0 }
    }

    #[test]
    fn ids_count_up_and_are_never_used_again() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let [first, second] = [0, 1].map(|_| hierarchy.create_filter(channel).unwrap());
        assert_eq!((first, second), (FilterId(0), FilterId(1)));
        let target = FilterTarget::Proxy(proxy(&mut hierarchy, channel, Side::Consumers));
        assert_eq!(hierarchy.add_filter(target, FilterRef::Local(first)), Ok(0));
        assert_eq!(hierarchy.add_filter(target, FilterRef::Remote(Peer(7))), Ok(1));
        assert_eq!(hierarchy.add_filter(target, FilterRef::Local(first)), Ok(2), "the same one again");
        assert_eq!(hierarchy.remove_filter(target, 1), Ok(FilterRef::Remote(Peer(7))));
        assert_eq!(hierarchy.remove_filter(target, 1), Err(Refusal::FilterNotFound { id: 1 }));
        let ids: Vec<u32> = hierarchy.filters(target).unwrap().iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [0, 2]);
        hierarchy.remove_all_filters(target).unwrap();
        assert_eq!(hierarchy.filters(target).unwrap(), []);
        assert_eq!(hierarchy.add_filter(target, FilterRef::Local(second)), Ok(3));
        hierarchy.destroy_filter(second).unwrap();
        assert_eq!(hierarchy.create_filter(channel), Ok(FilterId(2)));
    }

    #[test]
    fn a_filter_that_is_destroyed_is_attached_nowhere() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let filter = hierarchy.create_filter(channel).unwrap();
        let key = proxy(&mut hierarchy, channel, Side::Consumers);
        let targets =
            [FilterTarget::Proxy(key), FilterTarget::Admin { channel, side: Side::Consumers, admin: AdminId::DEFAULT }];
        for target in targets {
            hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
            hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
            hierarchy.set_mapping(target, Mapping::Lifetime, Some(filter)).unwrap();
        }
        hierarchy.destroy_filter(filter).unwrap();
        for target in targets {
            assert_eq!(hierarchy.filters(target).unwrap(), []);
            assert_eq!(hierarchy.mapping(target, Mapping::Lifetime), Ok(None));
        }
        assert_eq!(hierarchy.destroy_filter(filter), Err(Refusal::NoSuchFilter { filter }));
        let gone = hierarchy.add_filter(targets[0], FilterRef::Local(filter));
        assert_eq!(gone, Err(Refusal::NoSuchFilter { filter }));
        assert_eq!(hierarchy.set_constraints(filter, Vec::new(), None), Err(Refusal::NoSuchFilter { filter }));
    }

    #[test]
    fn a_channel_takes_its_filters_with_it_from_other_channels_too() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let other = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let [mine, theirs] = [channel, other].map(|channel| hierarchy.create_filter(channel).unwrap());
        let target = FilterTarget::Proxy(proxy(&mut hierarchy, other, Side::Consumers));
        let here = FilterTarget::Proxy(proxy(&mut hierarchy, channel, Side::Consumers));
        hierarchy.add_filter(target, FilterRef::Local(mine)).unwrap();
        hierarchy.add_filter(here, FilterRef::Local(theirs)).unwrap();
        hierarchy.destroy_channel(channel).unwrap();
        while hierarchy.poll_removed().is_some() {}
        assert_eq!(hierarchy.filters(target).unwrap(), []);
        assert!(hierarchy.constraints(mine).is_err() && hierarchy.constraints(theirs).is_ok());
        hierarchy.destroy_filter(theirs).unwrap();
    }

    #[test]
    fn whatever_is_destroyed_is_forgotten_by_the_filters_it_had() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let filter = hierarchy.create_filter(channel).unwrap();
        let side = Side::Consumers;
        let admin = hierarchy.create_admin(channel, side, Operator::And).unwrap();
        let kind = ProxyKind::default();
        let proxy = hierarchy.create_proxy(channel, side, admin, Form(1), kind).unwrap();
        for target in [FilterTarget::Admin { channel, side, admin }, FilterTarget::Proxy(ProxyKey { channel, proxy })] {
            hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
            hierarchy.set_mapping(target, Mapping::Priority, Some(filter)).unwrap();
        }
        assert_eq!(hierarchy.filters.get(filter).unwrap().targets.len(), 2);
        hierarchy.destroy_admin(channel, side, admin).unwrap();
        while hierarchy.poll_removed().is_some() {}
        assert!(hierarchy.filters.get(filter).unwrap().targets.is_empty());
    }

    #[test]
    fn refuses_more_than_the_channel_allows_and_says_the_limit() {
        let limits = ChannelLimits {
            constraint_bytes_max: 20,
            constraint_nodes_max: 3,
            constraints_per_filter_max: 2,
            filters_per_object_max: 1,
            filters_max: 2,
            ..ChannelLimits::default()
        };
        let (mut hierarchy, channel) = hierarchy(limits);
        let [filter, _] = [0, 1].map(|_| hierarchy.create_filter(channel).unwrap());
        assert_eq!(hierarchy.create_filter(channel), Err(Refusal::TooManyFilters { limit: 2 }));
        let set = |hierarchy: &mut Hierarchy, texts: &[&str]| {
            hierarchy.set_constraints(filter, texts.iter().map(|text| constraint(text)).collect(), None)
        };
        set(&mut hierarchy, &["$a == 1", "$b == 1"]).unwrap();
        assert_eq!(set(&mut hierarchy, &["TRUE", "$a == 1", "$b == 1"]), Err(Refusal::TooManyConstraints { limit: 2 }));
        let long = set(&mut hierarchy, &["TRUE", "$a == 'twelve chars'"]);
        assert_eq!(long, Ok(()));
        let long = set(&mut hierarchy, &["TRUE", "$a == 'thirteen chars'"]);
        assert_eq!(long, Err(Refusal::ConstraintTooLong { bytes: 22, limit: 20 }));
        let complex = set(&mut hierarchy, &["$a + $b > $c + 1"]);
        assert!(matches!(complex, Err(Refusal::ConstraintTooComplex { nodes: 4.., limit: 3 })), "{complex:?}");
        assert_eq!(hierarchy.constraints(filter).unwrap().len(), 2, "a refused command changes nothing");
        let target = FilterTarget::Admin { channel, side: Side::Suppliers, admin: AdminId::DEFAULT };
        hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
        let more = hierarchy.add_filter(target, FilterRef::Remote(Peer(1)));
        assert_eq!(more, Err(Refusal::TooManyFiltersAttached { limit: 1 }));
    }

    #[test]
    fn mapping_filters_are_refused_on_the_suppliers_side() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let filter = hierarchy.create_filter(channel).unwrap();
        let key = proxy(&mut hierarchy, channel, Side::Suppliers);
        let admin = FilterTarget::Admin { channel, side: Side::Suppliers, admin: AdminId::DEFAULT };
        for target in [FilterTarget::Proxy(key), admin] {
            let refused = hierarchy.set_mapping(target, Mapping::Priority, Some(filter));
            assert_eq!(refused, Err(Refusal::NoMapping));
        }
    }

    #[test]
    fn a_snapshot_changes_with_a_filter_only_where_it_is_attached() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let other = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        let filter = hierarchy.create_filter(channel).unwrap();
        let key = proxy(&mut hierarchy, other, Side::Consumers);
        hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter)).unwrap();
        let before = hierarchy.snapshot();
        let unattached = hierarchy.create_filter(channel).unwrap();
        hierarchy.set_constraints(unattached, Vec::from([constraint("$a == 1")]), None).unwrap();
        assert!(Arc::ptr_eq(&before, &hierarchy.snapshot()));
        hierarchy.set_constraints(filter, Vec::from([constraint("$a == 1")]), None).unwrap();
        let after = hierarchy.snapshot();
        let same: Vec<bool> = before.channels().iter().zip(after.channels()).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(same, [true, false]);
    }

    #[test]
    fn a_snapshot_shares_the_filters_when_something_else_changed() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let filter = hierarchy.create_filter(channel).unwrap();
        hierarchy.set_constraints(filter, Vec::from([constraint("$a == 1")]), None).unwrap();
        let key = proxy(&mut hierarchy, channel, Side::Consumers);
        hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter)).unwrap();
        let table = |snapshot: &crate::Snapshot| Arc::as_ptr(&snapshot.channels()[0].filtering.table);
        let before = hierarchy.snapshot();
        hierarchy.suspend(key).unwrap();
        proxy(&mut hierarchy, channel, Side::Consumers);
        let after = hierarchy.snapshot();
        assert_ne!(before.version, after.version);
        assert_eq!(table(&before), table(&after));
        hierarchy.disconnect(key).unwrap();
        assert!(
            hierarchy.snapshot().channels()[0].filtering.table.programs.iter().all(|program| program.is_none()),
            "no consumer is there for it"
        );
    }

    #[test]
    fn what_is_destroyed_leaves_no_filter_behind_that_counts() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let filter = hierarchy.create_filter(channel).unwrap();
        hierarchy.set_constraints(filter, Vec::from([constraint("$a == 1")]), Some(1)).unwrap();
        for side in [Side::Consumers, Side::Suppliers] {
            let admin = hierarchy.create_admin(channel, side, Operator::And).unwrap();
            let key = proxy(&mut hierarchy, channel, side);
            for target in [FilterTarget::Proxy(key), FilterTarget::Admin { channel, side, admin }] {
                hierarchy.add_filter(target, FilterRef::Local(filter)).unwrap();
                if side == Side::Consumers {
                    hierarchy.set_mapping(target, Mapping::Priority, Some(filter)).unwrap();
                }
                let snapshot = hierarchy.snapshot();
                assert_eq!(snapshot.channels()[0].filtering.table.programs.iter().flatten().count(), 1);
                match target {
                    FilterTarget::Proxy(key) => drop(hierarchy.destroy_proxy(key).unwrap()),
                    FilterTarget::Admin { .. } => hierarchy.destroy_admin(channel, side, admin).unwrap(),
                }
                while hierarchy.poll_removed().is_some() {}
                let snapshot = hierarchy.snapshot();
                let table = &snapshot.channels()[0].filtering.table;
                assert_eq!((table.programs.iter().flatten().count(), table.texts.iter().flatten().count()), (0, 0));
                assert!(table.sections.is_empty() && table.lists.iter().all(|list| list.is_none()), "{target:?}");
            }
        }
    }

    #[test]
    fn equal_constraints_are_one_and_asked_with_those_of_the_same_types() {
        let (mut hierarchy, channel) = hierarchy(ChannelLimits::default());
        let types: [Arc<[EventType]>; 3] = [
            Arc::new([EventType::new("a", "x")]),
            Arc::new([EventType::new("a", "x")]),
            Arc::new([EventType::new("b", "*"), EventType::new("*", "%ALL")]),
        ];
        for types in &types {
            let filter = hierarchy.create_filter(channel).unwrap();
            let constraints = ["$a == 1", "$b == 1", "TRUE"].map(|text| FilterConstraint {
                types: if text == "$b == 1" { Arc::clone(types) } else { Arc::new([]) },
                ..constraint(text)
            });
            hierarchy.set_constraints(filter, constraints.into(), None).unwrap();
            let key = proxy(&mut hierarchy, channel, Side::Consumers);
            hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter)).unwrap();
        }
        let snapshot = hierarchy.snapshot();
        let table = &snapshot.channels()[0].filtering.table;
        assert_eq!(
            (table.texts.iter().flatten().count(), table.lists.iter().flatten().count()),
            (3, 2),
            "a list with everything in it is the empty one"
        );
        let sections: Vec<(usize, usize)> =
            table.sections.iter().map(|section| (section.lists.len(), section.bank.len())).collect();
        assert_eq!(sections, [(1, 1), (2, 1)], "what is always true need not be asked");
    }
}

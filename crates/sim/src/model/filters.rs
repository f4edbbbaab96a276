//! Filters, naively: every constraint of every filter is evaluated for every event and each consumer.

use engine::{
    ChannelId, EventType, FilterId, FilterRef, FilterTarget, Mapping, Operator, ProxyKey, Refusal, RemoteFilterGroups,
    Side,
};

use super::world::{Admin, World, matches};

/// Content of an event that filters read.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) domain: String,
    pub(crate) name: String,
    /// Fields `$a`, `$b` and `$c`, as many as the event has.
    pub(crate) fields: Vec<u8>,
    /// Whether filtering is cut short before any field is known.
    pub(crate) cut: bool,
}

#[derive(Clone)]
pub(crate) struct Filter {
    pub(crate) id: FilterId,
    pub(crate) home: ChannelId,
    constraints: Vec<Constraint>,
    default_value: Option<i64>,
}

/// A constraint: all its conditions must hold.
#[derive(Clone, Debug)]
pub(crate) struct Constraint {
    pub(crate) types: Vec<EventType>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) value: i64,
}

/// A field compared with a number: `$b >= 2`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) field: usize,
    pub(crate) comparison: &'static str,
    pub(crate) number: u8,
}

#[derive(Clone, Default)]
pub(crate) struct Attached {
    pub(crate) filters: Vec<(u32, FilterRef)>,
    next: u32,
    priority: Option<FilterId>,
    lifetime: Option<FilterId>,
}

/// Result of one group or of both. The greater counts where either suffices, the smaller where both must match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Says {
    No,
    Ask,
    Yes,
}

pub(crate) const FIELD_NAMES: [&str; 3] = ["a", "b", "c"];

impl Constraint {
    pub(crate) fn text(&self) -> String {
        let conditions = self.conditions.iter();
        let texts = conditions.map(|condition| {
            let Condition { field, comparison, number } = *condition;
            format!("${} {comparison} {number}", FIELD_NAMES[field])
        });
        let texts: Vec<String> = texts.collect();
        if texts.is_empty() { "TRUE".into() } else { texts.join(" and ") }
    }

    fn matches(&self, content: &Content) -> bool {
        let of_type = |wanted: &EventType| matches(wanted, &content.domain, &content.name);
        let holds = |condition: &Condition| {
            let field = content.fields.get(condition.field).filter(|_| !content.cut);
            field.is_some_and(|field| match condition.comparison {
                "==" => *field == condition.number,
                ">=" => *field >= condition.number,
                _ => *field < condition.number,
            })
        };
        (self.types.is_empty() || self.types.iter().any(of_type)) && self.conditions.iter().all(holds)
    }
}

impl Attached {
    fn drop_filter(&mut self, gone: FilterId) {
        self.filters.retain(|(_, filter)| *filter != FilterRef::Local(gone));
        for mapping in [&mut self.priority, &mut self.lifetime] {
            *mapping = mapping.filter(|filter| *filter != gone);
        }
    }

    fn mapping(&self, mapping: Mapping) -> Option<FilterId> {
        if mapping == Mapping::Priority { self.priority } else { self.lifetime }
    }
}

impl World {
    // ---- operations ----

    pub(crate) fn create_filter(&mut self, channel: ChannelId) -> Result<FilterId, Refusal> {
        self.channel(channel)?;
        let id = FilterId(self.next_filter);
        self.next_filter += 1;
        self.filters.push(Filter { id, home: channel, constraints: vec![], default_value: None });
        Ok(id)
    }

    pub(crate) fn set_constraints(
        &mut self,
        filter: FilterId,
        constraints: Vec<Constraint>,
        default_value: Option<i64>,
    ) -> Result<(), Refusal> {
        let found = self.filters.iter_mut().find(|known| known.id == filter);
        let found = found.ok_or(Refusal::NoSuchFilter { filter })?;
        (found.constraints, found.default_value) = (constraints, default_value);
        Ok(())
    }

    pub(crate) fn destroy_filter(&mut self, filter: FilterId) -> Result<(), Refusal> {
        self.filter(filter)?;
        self.filters.retain(|kept| kept.id != filter);
        for channel in &mut self.channels {
            let admins = channel.admins.iter_mut().map(|admin| &mut admin.attached);
            let proxies = channel.proxies.iter_mut().map(|proxy| &mut proxy.attached);
            admins.chain(proxies).for_each(|attached| attached.drop_filter(filter));
        }
        Ok(())
    }

    pub(crate) fn add_filter(&mut self, target: FilterTarget, filter: FilterRef) -> Result<u32, Refusal> {
        if let FilterRef::Local(filter) = filter {
            self.filter(filter)?;
        }
        let attached = self.attached_mut(target)?;
        attached.filters.push((attached.next, filter));
        attached.next += 1;
        Ok(attached.next - 1)
    }

    pub(crate) fn remove_filter(&mut self, target: FilterTarget, id: u32) -> Result<FilterRef, Refusal> {
        let attached = self.attached_mut(target)?;
        let at = attached.filters.iter().position(|(known, _)| *known == id).ok_or(Refusal::FilterNotFound { id })?;
        Ok(attached.filters.remove(at).1)
    }

    pub(crate) fn remove_all_filters(&mut self, target: FilterTarget) -> Result<(), Refusal> {
        self.attached_mut(target)?.filters.clear();
        Ok(())
    }

    pub(crate) fn set_mapping(
        &mut self,
        target: FilterTarget,
        mapping: Mapping,
        filter: Option<FilterId>,
    ) -> Result<(), Refusal> {
        self.attached_mut(target)?;
        let side = match target {
            FilterTarget::Admin { side, .. } => side,
            FilterTarget::Proxy(key) => self.proxy(key)?.side,
        };
        if side == Side::Suppliers {
            return Err(Refusal::NoMapping);
        }
        if let Some(filter) = filter {
            self.filter(filter)?;
        }
        let attached = self.attached_mut(target)?;
        *(if mapping == Mapping::Priority { &mut attached.priority } else { &mut attached.lifetime }) = filter;
        Ok(())
    }

    // ---- questions ----

    pub(crate) fn attached(&self, target: FilterTarget) -> Result<&Attached, Refusal> {
        match target {
            FilterTarget::Proxy(key) => Ok(&self.proxy(key)?.attached),
            FilterTarget::Admin { channel, side, admin } => {
                let mut admins = self.channel(channel)?.admins.iter();
                let found = admins.find(|known| known.side == side && known.id == admin);
                Ok(&found.ok_or(Refusal::AdminNotFound { channel, side, admin })?.attached)
            }
        }
    }

    /// Whether an event passes a consumer's filters and subscriptions, or the filters on a supplier's side. A
    /// supplier's offer does not restrict it.
    pub(crate) fn says(&self, key: ProxyKey, content: &Content) -> (Says, RemoteFilterGroups) {
        let nobody = RemoteFilterGroups { proxy: false, admin: false, all: false };
        let (Ok(proxy), Ok(admin)) = (self.proxy(key), self.admin_of(key)) else { return (Says::No, nobody) };
        let restricts = proxy.side == Side::Consumers;
        let own = self.group(proxy.types.as_deref().filter(|_| restricts), &proxy.attached, content);
        let of_admin = self.group(admin.types.as_deref().filter(|_| restricts), &admin.attached, content);
        let all = admin.operator == Operator::And;
        let filter_groups =
            RemoteFilterGroups { proxy: own == Some(Says::Ask), admin: of_admin == Some(Says::Ask), all };
        let counting = [own, of_admin].into_iter().flatten();
        let says = if all { counting.min() } else { counting.max() };
        (says.unwrap_or(Says::Yes), filter_groups)
    }

    fn group(&self, types: Option<&[EventType]>, attached: &Attached, content: &Content) -> Option<Says> {
        if types.is_none() && attached.filters.is_empty() {
            return None;
        }
        if types.is_some_and(|types| !types.iter().any(|wanted| matches(wanted, &content.domain, &content.name))) {
            return Some(Says::No);
        }
        let says = attached.filters.iter().map(|(_, filter)| match filter {
            FilterRef::Remote(_) => Says::Ask,
            FilterRef::Local(filter) if self.matching(*filter, content).next().is_some() => Says::Yes,
            FilterRef::Local(_) => Says::No,
        });
        Some(says.max().unwrap_or(Says::Yes))
    }

    /// Value of a consumer's mapping filter for an event.
    pub(crate) fn mapped(&self, key: ProxyKey, mapping: Mapping, content: &Content, says_itself: bool) -> Option<i64> {
        let filter = self.mapping_of(key, mapping)?;
        let best = self.matching(filter, content).map(|constraint| constraint.value).max();
        let default_value = self.filter(filter).ok()?.default_value.filter(|_| !says_itself);
        best.or(default_value)
    }

    pub(crate) fn mapping_of(&self, key: ProxyKey, mapping: Mapping) -> Option<FilterId> {
        let (proxy, admin): (_, &Admin) = (self.proxy(key).ok()?, self.admin_of(key).ok()?);
        proxy.attached.mapping(mapping).or(admin.attached.mapping(mapping))
    }

    fn matching<'w>(&'w self, filter: FilterId, content: &'w Content) -> impl Iterator<Item = &'w Constraint> {
        let constraints = self.filter(filter).map(|filter| filter.constraints.as_slice()).unwrap_or_default();
        constraints.iter().filter(|constraint| constraint.matches(content))
    }

    fn filter(&self, filter: FilterId) -> Result<&Filter, Refusal> {
        self.filters.iter().find(|known| known.id == filter).ok_or(Refusal::NoSuchFilter { filter })
    }

    fn attached_mut(&mut self, target: FilterTarget) -> Result<&mut Attached, Refusal> {
        match target {
            FilterTarget::Proxy(key) => Ok(&mut self.proxy_mut(key)?.attached),
            FilterTarget::Admin { channel, side, admin } => Ok(&mut self.admin_mut(channel, side, admin)?.attached),
        }
    }
}

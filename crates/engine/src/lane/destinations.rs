//! Destinations of events of each type in a channel: computed once for a type, cached, and updated when routing
//! changes.
//!
//! Most consumers either take every event of a type or none. For the others the verdict of filters counts, and the
//! cache has what each of them depends on.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::channel::Bridge;
use super::verdict::{Group, Stance, Takes};
use crate::table::{FilterTable, Filtering, Program, Target};
use crate::{ChannelRoutes, ConsumerRoute, LaneId, TypeId};

/// Index of a type's cached destinations in [`Destinations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    at: u32,
}

/// A bridge, and a range of priorities at which events of a type are handed over by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Remote {
    /// Index among the channel's bridges.
    pub(super) bridge: u32,
    from: i16,
    /// Last priority of the range.
    to: i16,
}

impl Remote {
    pub(super) fn has(self, priority: i16) -> bool {
        (self.from..=self.to).contains(&priority)
    }
}

/// The lane that computes destinations, and its bridges to other lanes.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) lane: LaneId,
    pub(super) bridges: &'a [Bridge],
}

/// A change of a channel's routes that concerns its destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The consumer at this place is new, gone or has another interest; the filters of `admin` applied to the one before.
    Member { member: u32, admin: Option<u32> },
    /// An admin has other filters, or one of them changed.
    Admin(u32),
    /// The list of event types in this slot changed.
    List(u32),
    /// The sections of constraints changed.
    Sections,
}

/// A channel's cached destinations: at most 4,096 types and 1,048,576 list entries together. When there would be more,
/// the cache is cleared and filled again as needed.
///
/// Changes are noted, and a type's entry is updated when its next event arrives.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    known: HashMap<TypeId, u32>,
    /// Direct-mapped cache of recent types, by the type's number.
    recent: [(TypeId, u32); Self::RECENT],
    /// Entries. The first is scratch space for types that are not cached. Those beyond `used` are retained for their capacity.
    kinds: Vec<Kind>,
    used: usize,
    /// Number of list entries of all types.
    listed: usize,
    /// Changes that some entry may not include yet, and the number of earlier changes.
    changes: VecDeque<Change>,
    forgotten: u64,
    working: Working,
}

/// Cached destinations of one type. Members are consumers, by their places among the channel's.
#[derive(Debug, Default)]
struct Kind {
    /// Number of changes included.
    seen: u64,
    /// Members that take every event of the type, rising.
    always: Vec<u32>,
    /// Members that must be evaluated for each event, rising.
    looks: Vec<u32>,
    /// Lists of event types that match the type, rising.
    lists: Vec<u32>,
    /// Sections of constraints that apply to events of the type.
    sections: Vec<u32>,
    /// Number of members that filters decide for, and the verdicts of these, by member.
    conditional: u32,
    stances: Vec<Stance>,
    /// Verdicts of admins' filters, by admin.
    admins: Vec<Group>,
    /// Pairs of an admin with filters and a member they decide for, rising.
    by_admin: Vec<(u32, u32)>,
    /// Bridges to other lanes that have consumers for the type, with the priorities.
    remotes: Vec<Remote>,
    /// Members on any lane with mapping filters that may decide an event's lane.
    mapped: Vec<u32>,
}

/// Working space, retained for its capacity.
#[derive(Debug, Default)]
struct Working {
    /// Verdict of each filter.
    filters: Vec<Group>,
    /// Whether the type is in each list of an admin or of permitted types, by the address of the list.
    of_admins: HashMap<usize, bool>,
    remotes: Vec<Remote>,
}

/// Inputs to compute a type's destinations.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) event_type: TypeId,
    pub(super) domain: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) routes: &'a ChannelRoutes,
    pub(super) here: Here<'a>,
}

/// How an entry was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the cache, after this many changes were applied.
    Amended(u64),
    /// By evaluating all members.
    Learned,
    /// By evaluating all members, after the cache was cleared.
    Reset,
}

impl Destinations {
    const RECENT: usize = 8;
    const TYPES_MAX: usize = 4_096;
    const PLACES_MAX: usize = 1 << 20;
    /// Most changes noted: types not seen since earlier ones are computed anew.
    const CHANGES_MAX: usize = 1_024;
    /// Most capacity that an emptied list retains, in entries.
    const SPARE_MAX: usize = 1_024;

    /// A type's cached destinations, if nothing has changed since.
    #[inline]
    pub(super) fn find(&mut self, event_type: TypeId) -> Option<Known> {
        let place = self.recent.get_mut(event_type.0 as usize % Self::RECENT)?;
        if place.0 != event_type || event_type == TypeId::OTHER {
            *place = (event_type, *self.known.get(&event_type)?);
        }
        let at = place.1;
        let kind = self.kinds.get(at as usize)?;
        (kind.seen == self.changed()).then_some(Known { at })
    }

    /// A type's destinations. `is_alive` returns whether a member gets events here at all.
    pub(super) fn know(&mut self, sought: Sought<'_>, is_alive: impl Fn(u32) -> bool) -> (Known, Way) {
        let at = self.known.get(&sought.event_type).copied();
        if let Some(at) = at
            && let Some(kind) = self.kinds.get_mut(at as usize)
            && kind.seen >= self.forgotten
        {
            let new = self.changes.range(usize::try_from(kind.seen - self.forgotten).unwrap_or(usize::MAX)..);
            let (count, before) = (new.len() as u64, kind.size());
            let is_amended = kind.amend(sought, new, &is_alive);
            self.listed = self.listed + kind.size() - before;
            if is_amended {
                kind.seen += count;
                return (Known { at }, Way::Amended(count));
            }
        }
        self.learn(sought, at, is_alive)
    }

    /// Computes a type's destinations, and caches them unless the type has no number of its own.
    fn learn(&mut self, sought: Sought<'_>, known: Option<u32>, is_alive: impl Fn(u32) -> bool) -> (Known, Way) {
        let is_full = self.known.len() >= Self::TYPES_MAX || self.listed >= Self::PLACES_MAX;
        let way = if is_full { Way::Reset } else { Way::Learned };
        let known = if is_full { None } else { known };
        if is_full {
            self.clear();
        }
        let at = match known {
            Some(at) => at as usize,
            None if sought.event_type == TypeId::OTHER => 0,
            None => self.used.max(1),
        };
        if self.kinds.len() <= at {
            self.kinds.resize_with(at + 1, Kind::default);
        }
        self.used = self.used.max(at + 1);
        let seen = self.changed();
        let mut working = core::mem::take(&mut self.working);
        if let Some(kind) = self.kinds.get_mut(at) {
            self.listed -= kind.size();
            kind.learn(sought, &mut working, is_alive);
            kind.seen = seen;
            self.listed += kind.size();
        }
        self.working = working;
        let known = Known { at: place(at) };
        if at > 0 {
            self.known.insert(sought.event_type, known.at);
        }
        (known, way)
    }

    // ---- changes ----

    /// Number of changes so far.
    fn changed(&self) -> u64 {
        self.forgotten + self.changes.len() as u64
    }

    /// Notes a change of the routes.
    pub(super) fn note(&mut self, change: Change) {
        if self.known.is_empty() {
            return;
        }
        if self.changes.len() >= Self::CHANGES_MAX {
            self.changes.pop_front();
            self.forgotten += 1;
        }
        self.changes.push_back(change);
    }

    /// Notes changes of a channel's filters, and of the members they decide for.
    pub(super) fn note_filters(&mut self, before: &Filtering, now: &Filtering) {
        for (admin, ..) in now.admins.changes_from(&before.admins) {
            self.note(Change::Admin(admin));
        }
        if Arc::ptr_eq(&before.table, &now.table) {
            return;
        }
        for (list, ..) in now.table.lists.changes_from(&before.table.lists) {
            self.note(Change::List(list));
        }
        for (slot, ..) in now.table.programs.changes_from(&before.table.programs) {
            for target in now.targets(slot) {
                self.note(match *target {
                    // A member with another admin than before is noted for that.
                    Target::Member(member) => Change::Member { member, admin: None },
                    Target::Admin(admin) => Change::Admin(admin),
                });
            }
        }
        self.note(Change::Sections);
    }

    /// Clears the cache.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.recent = Default::default();
        self.forgotten = self.changed();
        self.changes.clear();
        for kind in self.kinds.iter_mut().take(self.used) {
            kind.clear();
            if kind.capacity() > Self::SPARE_MAX {
                *kind = Kind::default();
            }
        }
        self.used = 0;
        self.listed = 0;
    }

    // ---- what is known ----

    fn kind(&self, known: &Known) -> Option<&Kind> {
        self.kinds.get(known.at as usize)
    }

    /// Members that take every event of the type, rising.
    #[inline]
    pub(super) fn always(&self, known: &Known) -> &[u32] {
        self.kind(known).map_or(&[], |kind| &kind.always)
    }

    /// Members that must be evaluated for each event.
    pub(super) fn looks(&self, known: &Known) -> &[u32] {
        self.kind(known).map_or(&[], |kind| &kind.looks)
    }

    /// Sections of constraints that apply to events of the type.
    pub(super) fn sections(&self, known: &Known) -> &[u32] {
        self.kind(known).map_or(&[], |kind| &kind.sections)
    }

    /// Members with mapping filters that may decide an event's lane.
    pub(super) fn mapped(&self, known: &Known) -> &[u32] {
        self.kind(known).map_or(&[], |kind| &kind.mapped)
    }

    /// Bridges that events of a type may take, with their priorities, grouped by bridge.
    pub(super) fn remotes(&self, known: &Known) -> &[Remote] {
        self.kind(known).map_or(&[], |kind| &kind.remotes)
    }

    /// Whether filters decide for any consumer.
    #[inline]
    pub(super) fn is_conditional(&self, known: &Known) -> bool {
        self.kind(known).is_some_and(|kind| kind.conditional > 0)
    }

    /// Whether a type is in a list of event types.
    pub(super) fn is_in(&self, known: &Known, list: u32) -> bool {
        self.kind(known).is_some_and(|kind| kind.lists.binary_search(&list).is_ok())
    }

    /// A member's stance on the type; `None` if filters decide for no member.
    pub(super) fn stance(&self, known: &Known, member: u32) -> Option<Stance> {
        let kind = self.kind(known).filter(|kind| kind.conditional > 0)?;
        kind.stances.get(member as usize).copied()
    }

    /// Members that take an event of the type if it matches the filters of this admin.
    pub(super) fn decided_by_admin(&self, known: &Known, admin: u32) -> impl Iterator<Item = u32> {
        let pairs = self.kind(known).map_or(&[][..], |kind| &kind.by_admin);
        let from = pairs.partition_point(|(of, _)| *of < admin);
        let pairs = pairs.get(from..).unwrap_or_default();
        pairs.iter().take_while(move |(of, _)| *of == admin).map(|(_, member)| *member)
    }
}

impl Kind {
    fn clear(&mut self) {
        self.always.clear();
        self.looks.clear();
        self.lists.clear();
        self.sections.clear();
        self.conditional = 0;
        self.stances.clear();
        self.admins.clear();
        self.by_admin.clear();
        self.remotes.clear();
        self.mapped.clear();
    }

    /// Number of list entries.
    fn size(&self) -> usize {
        let lists = [&self.always, &self.looks, &self.lists, &self.sections, &self.mapped];
        lists.iter().map(|list| list.len()).sum::<usize>()
            + self.stances.len()
            + self.admins.len()
            + self.by_admin.len()
            + self.remotes.len()
    }

    fn capacity(&self) -> usize {
        let lists = [&self.always, &self.looks, &self.lists, &self.sections, &self.mapped];
        lists.iter().map(|list| list.capacity()).sum::<usize>()
            + self.stances.capacity()
            + self.admins.capacity()
            + self.by_admin.capacity()
            + self.remotes.capacity()
    }

    /// Computes which members take every event, which must be evaluated, and which need a match.
    fn learn(&mut self, sought: Sought<'_>, working: &mut Working, is_alive: impl Fn(u32) -> bool) {
        let Sought { domain, name, routes, here, .. } = sought;
        self.clear();
        let table = &routes.filtering.table;
        let lists = (0..).zip(table.lists.iter());
        self.lists.extend(lists.filter(|(_, list)| is_in(*list, domain, name)).map(|(slot, _)| slot));
        working.filters.clear();
        let says = |program: Option<&Arc<Program>>| program.map_or(Group::No, |program| self.says(table, program));
        working.filters.extend(table.programs.iter().map(says));
        let of = |slot: &u32| working.filters.get(*slot as usize).copied().unwrap_or(Group::No);
        let all = |slots: &[u32]| slots.iter().map(of).fold(Group::No, Group::or);
        self.admins.extend(routes.filtering.admins.iter().map(|slots| slots.map_or(Group::No, |slots| all(slots))));
        while self.admins.last() == Some(&Group::No) {
            self.admins.pop();
        }
        working.remotes.clear();
        working.of_admins.clear();
        for (member, consumer) in routes.consumers.iter() {
            let own = (!consumer.filters.is_empty()).then(|| all(&consumer.filters));
            // Very many consumers may share an admin's list, which is compared with the type once.
            let list = &consumer.interest.admin;
            let matches = || list.matches(domain, name);
            let admin_wants = *working.of_admins.entry(list.types().as_ptr().addr()).or_insert_with(matches);
            if let Some(permitted) = consumer.interest.permitted() {
                // The same holds for lists of permitted types.
                let has = || permitted.has(domain, name);
                if !*working.of_admins.entry(Arc::as_ptr(permitted).addr()).or_insert_with(has) {
                    continue;
                }
            }
            let stance = self.stance_of(consumer, own, domain, name, || admin_wants);
            let takes = stance.takes();
            if takes != Takes::Nothing && !here.bridges.is_empty() {
                if consumer.maps_lane() {
                    self.mapped.push(member);
                } else {
                    note_remotes(&mut working.remotes, consumer, here);
                }
            }
            if takes != Takes::Nothing && is_alive(member) {
                self.put(member, consumer.filtered_admin, stance);
            }
        }
        self.by_admin.sort_unstable();
        self.meet_sections(routes);
        self.merge_remotes(&mut working.remotes);
    }

    /// Applies changes. Returns false if they cannot be applied, so that everything must be computed anew.
    fn amend<'c>(
        &mut self,
        sought: Sought<'_>,
        changes: impl Iterator<Item = &'c Change> + Clone,
        is_alive: impl Fn(u32) -> bool,
    ) -> bool {
        let Sought { domain, name, routes, .. } = sought;
        let filtering = &routes.filtering;
        let was_conditional = self.conditional > 0;
        // First, because filters' verdicts depend on it.
        for change in changes.clone() {
            if let Change::List(list) = *change {
                match (self.lists.binary_search(&list), is_in(filtering.table.lists.get(list), domain, name)) {
                    (Err(at), true) => self.lists.insert(at, list),
                    (Ok(at), false) => _ = self.lists.remove(at),
                    _ => {}
                }
            }
        }
        let mut sections = false;
        for change in changes {
            match *change {
                Change::Member { member, admin } => self.amend_member(sought, member, admin, &is_alive),
                Change::Admin(admin) => {
                    let slots = filtering.admins.get(admin).map_or(&[][..], Arc::as_ref);
                    let says = self.all_say(&filtering.table, slots);
                    if self.admins.get(admin as usize).copied().unwrap_or(Group::No) != says {
                        return false;
                    }
                }
                Change::List(_) => {}
                Change::Sections => sections = true,
            }
        }
        if sections || was_conditional != (self.conditional > 0) {
            self.meet_sections(routes);
        }
        true
    }

    fn amend_member(&mut self, sought: Sought<'_>, member: u32, admin: Option<u32>, is_alive: impl Fn(u32) -> bool) {
        let Sought { domain, name, routes, .. } = sought;
        let consumer = routes.consumers.get(member).filter(|_| is_alive(member));
        let admins = [admin, consumer.and_then(|consumer| consumer.filtered_admin)];
        self.take_out(member, admins);
        let Some(consumer) = consumer else { return };
        if consumer.interest.permitted().is_some_and(|permitted| !permitted.has(domain, name)) {
            return;
        }
        let own = (!consumer.filters.is_empty()).then(|| self.all_say(&routes.filtering.table, &consumer.filters));
        let admin_wants = || consumer.interest.admin.matches(domain, name);
        let stance = self.stance_of(consumer, own, domain, name, admin_wants);
        if stance.takes() != Takes::Nothing {
            self.put(member, consumer.filtered_admin, stance);
            // Put at the end; mostly that is where it belongs.
            put_in_order(&mut self.always);
            put_in_order(&mut self.looks);
            put_in_order(&mut self.by_admin);
        }
    }

    /// Appends a member that takes events to the lists that it belongs to.
    fn put(&mut self, member: u32, admin: Option<u32>, stance: Stance) {
        let takes = stance.takes();
        match takes {
            Takes::Nothing => return,
            Takes::Everything => return self.always.push(member),
            Takes::AdminMatch | Takes::EitherMatch => self.by_admin.extend(admin.map(|admin| (admin, member))),
            Takes::ALook => self.looks.push(member),
            Takes::OwnMatch => {}
        }
        self.conditional += 1;
        let at = member as usize;
        if self.stances.len() <= at {
            self.stances.resize(at + 1, Stance::NEVER);
        }
        if let Some(place) = self.stances.get_mut(at) {
            *place = stance;
        }
    }

    fn take_out(&mut self, member: u32, admins: [Option<u32>; 2]) {
        for list in [&mut self.always, &mut self.looks] {
            if let Ok(at) = list.binary_search(&member) {
                list.remove(at);
            }
        }
        for admin in admins.into_iter().flatten() {
            if let Ok(at) = self.by_admin.binary_search(&(admin, member)) {
                self.by_admin.remove(at);
            }
        }
        if let Some(stance) = self.stances.get_mut(member as usize)
            && core::mem::replace(stance, Stance::NEVER) != Stance::NEVER
        {
            self.conditional -= 1;
        }
    }

    fn meet_sections(&mut self, routes: &ChannelRoutes) {
        self.sections.clear();
        if self.conditional > 0 {
            let sections = (0..).zip(&routes.filtering.table.sections);
            let is_in = |list: &u32| self.lists.binary_search(list).is_ok();
            let met = sections.filter(|(_, section)| section.lists.iter().any(is_in));
            self.sections.extend(met.map(|(at, _)| at));
        }
    }

    fn merge_remotes(&mut self, remotes: &mut Vec<Remote>) {
        remotes.sort_unstable();
        for remote in remotes.drain(..) {
            match self.remotes.last_mut() {
                // Side by side, or one over the other.
                Some(last) if last.bridge == remote.bridge && remote.from <= last.to.saturating_add(1) => {
                    last.to = last.to.max(remote.to);
                }
                _ => self.remotes.push(remote),
            }
        }
    }

    /// Verdict of a filter on the type, as far as the type decides it.
    fn says(&self, table: &FilterTable, program: &Program) -> Group {
        let mut says = Group::No;
        for row in program.rows.iter().filter(|row| self.lists.binary_search(&row.list).is_ok()) {
            match table.text(row.text).and_then(|text| text.program.always()) {
                Some(true) => return Group::Yes,
                Some(false) => {}
                None => says = Group::Matched,
            }
        }
        says
    }

    fn all_say(&self, table: &FilterTable, slots: &[u32]) -> Group {
        let programs = slots.iter().filter_map(|slot| table.program(*slot));
        programs.map(|program| self.says(table, program)).fold(Group::No, Group::or)
    }

    /// Stance of a consumer's groups, from the verdict of the proxy's own filters, if there are any, and from whether
    /// its admin's list has the type.
    fn stance_of(
        &self,
        consumer: &ConsumerRoute,
        own: Option<Group>,
        domain: &[u8],
        name: &[u8],
        admin_wants: impl FnOnce() -> bool,
    ) -> Stance {
        let interest = &consumer.interest;
        let [proxy_asks, admin_asks] = consumer.remote_filters.each_ref().map(|peers| !peers.is_empty());
        let of_admin = consumer.filtered_admin;
        let of_admin = of_admin.map(|admin| self.admins.get(admin as usize).copied().unwrap_or(Group::No));
        let proxy_wants = || interest.proxy.matches(domain, name);
        Stance {
            proxy: group(interest.proxy.is_changed(), proxy_wants, own, proxy_asks),
            admin: group(interest.admin.is_changed(), admin_wants, of_admin, admin_asks),
            operator: interest.operator,
        }
    }
}

/// Stance of a group on a type: whether it has a list of event types, whether that has the type, its filters' verdict,
/// and whether it has remote filters.
fn group(has_list: bool, is_listed: impl FnOnce() -> bool, filters: Option<Group>, asks: bool) -> Group {
    match (filters, asks) {
        (None, false) if !has_list => Group::Absent,
        _ if has_list && !is_listed() => Group::No,
        (None, false) => Group::Yes,
        (None, true) => Group::Remote,
        (Some(says), false) => says,
        (Some(Group::Matched), true) => Group::MatchedOrRemote,
        (Some(Group::No), true) => Group::Remote,
        (Some(says), true) => says,
    }
}

fn is_in(list: Option<&Arc<[crate::EventType]>>, domain: &[u8], name: &[u8]) -> bool {
    list.is_some_and(|types| types.is_empty() || types.iter().any(|listed| listed.matches(domain, name)))
}

/// Notes the bridges by which a consumer for the type gets its events.
fn note_remotes(remotes: &mut Vec<Remote>, consumer: &ConsumerRoute, here: Here<'_>) {
    let ends = consumer.places.iter().skip(1).map(|next| next.from_priority.saturating_sub(1)).chain([i16::MAX]);
    for (served, to) in consumer.places.iter().zip(ends).filter(|(served, _)| served.lane != here.lane) {
        if let Ok(bridge) = here.bridges.binary_search_by_key(&served.lane, |bridge| bridge.lane) {
            remotes.push(Remote { bridge: place(bridge), from: served.from_priority, to });
        }
    }
}

/// Moves the last element of a list, which is otherwise sorted, to its place.
fn put_in_order<T: Ord + Copy>(list: &mut Vec<T>) {
    let Some((last, others)) = list.split_last() else { return };
    if others.last().is_some_and(|before| before > last) {
        let (last, at) = (*last, others.partition_point(|other| other < last));
        list.pop();
        list.insert(at, last);
    }
}

fn place(at: usize) -> u32 {
    // The bounds on types and lanes keep all numbers below 2^32.
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AdminId, ChannelId, ChannelLimits, EventType, Form, Hierarchy, OutputForm, Peer, ProxyKey, ProxyKind,
        SettingsPatch, Side, SubscriptionTarget,
    };
    use alloc::sync::Arc;

    const HERE: Here<'static> = Here { lane: LaneId::MAIN, bridges: &[] };

    fn sought<'a>(event_type: TypeId, name: &'a str, routes: &'a ChannelRoutes) -> Sought<'a> {
        Sought { event_type, domain: b"d", name: name.as_bytes(), routes, here: HERE }
    }

    /// A channel in which the n-th consumer wants the events of domain "d" with the n-th of these names.
    fn routes(names: &[&str]) -> Arc<ChannelRoutes> {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        for name in names {
            let (admin, kind) = (AdminId::DEFAULT, ProxyKind::default());
            let proxy = hierarchy.create_proxy(channel, Side::Consumers, admin, Form(1), kind).unwrap();
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
            let target = SubscriptionTarget::Proxy(key);
            hierarchy.subscribe(target, &[EventType::new("d", *name)], &[EventType::everything()]).unwrap();
        }
        let snapshot = hierarchy.snapshot();
        assert_eq!(snapshot.channels()[0].id(), ChannelId(0));
        Arc::clone(&snapshot.channels()[0])
    }

    #[test]
    fn remembers_each_types_list() {
        let (routes, mut destinations) = (routes(&["x", "y", "x", "other"]), Destinations::default());
        let mut know = |id, name: &str| destinations.know(sought(id, name, &routes), |_| true).0;
        let x = know(TypeId(1), "x");
        let other = know(TypeId::OTHER, "other");
        let y = know(TypeId(2), "y");
        assert_eq!((destinations.find(TypeId(1)), destinations.find(TypeId::OTHER)), (Some(x), None));
        assert_eq!([x, y, other].map(|known| destinations.always(&known)), [&[0, 2][..], &[1], &[3]]);
        assert!(!destinations.is_conditional(&x));
    }

    #[test]
    fn those_that_are_gone_are_left_out() {
        let (routes, mut destinations) = (routes(&["x", "x"]), Destinations::default());
        let (known, _) = destinations.know(sought(TypeId(1), "x", &routes), |member| member == 1);
        assert_eq!(destinations.always(&known), [1]);
    }

    #[test]
    fn forgets_all_when_their_lists_have_too_many_places() {
        // A thousand types that a thousand consumers want are fewer than 4,096, and a million places.
        let (routes, mut destinations) = (routes(&["x"; 1_024]), Destinations::default());
        let mut know = |id| destinations.know(sought(TypeId(id), "x", &routes), |_| true).1;
        assert!((1..=1_024).all(|id| know(id) == Way::Learned));
        assert_eq!(know(1_025), Way::Reset);
        assert_eq!(destinations.listed, 1_024);
    }

    #[test]
    fn forgets_all_when_there_are_too_many() {
        let (routes, mut destinations) = (routes(&["x"]), Destinations::default());
        for id in 1..=4_096 {
            assert_eq!(destinations.know(sought(TypeId(id), "x", &routes), |_| true).1, Way::Learned);
        }
        assert_eq!(destinations.know(sought(TypeId(5_000), "x", &routes), |_| true).1, Way::Reset);
        assert_eq!(destinations.find(TypeId(1)), None);
        let known = destinations.find(TypeId(5_000)).unwrap();
        assert_eq!(destinations.always(&known), [0]);
    }
}

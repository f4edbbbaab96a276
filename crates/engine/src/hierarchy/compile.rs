//! Compiles filters as clients made them to the table that the event path uses.
//!
//! Compilation is incremental: when filters change, new ones are added, removed ones taken out, and the rest stays. A
//! bank cannot be changed, so each [group](Group) of constraints has several, of different sizes: new constraints
//! rebuild small banks, and seldom a large one.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};

use filter::Constraint;
use hashbrown::HashMap;

use super::banks::Group;
use super::filters::{Attached, Filter, Filters};
use crate::shared::SharedSlots;
use crate::table::{FilterTable, Program, Row, Text, Use};
use crate::{EventType, FilterId, Side};

/// A channel's filters, compiled.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    /// Number of attachments in use of each filter.
    uses: BTreeMap<FilterId, Uses>,
    /// Filters with changed constraints or uses since the table was compiled.
    changed: Vec<FilterId>,
    counting: BTreeMap<FilterId, Counting>,
    programs: Slots<Arc<Program>>,
    lists: Slots<List>,
    shared_lists: SharedSlots<Arc<[EventType]>>,
    list_of: HashMap<Arc<[EventType]>, u32>,
    pub(super) texts: Slots<TextEntry>,
    text_of: HashMap<ByText, u32>,
    groups: Slots<Group>,
    group_of: HashMap<Vec<u32>, u32>,
    /// Constraints with changed uses.
    touched: Vec<u32>,
    shared_programs: SharedSlots<Arc<Program>>,
    shared_texts: SharedSlots<Text>,
    table: Arc<FilterTable>,
}

/// Number of attachments in use of a filter.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    /// Attachments on the consumers' side other than as a mapping filter: these select consumers.
    routing: u32,
    other: u32,
}

/// A filter in use, as it was compiled.
#[derive(Debug)]
struct Counting {
    slot: u32,
    constraints: Arc<[super::FilterConstraint]>,
    default_value: Option<i64>,
    /// Whether it selects consumers: it is attached on the consumers' side, and not as a mapping filter only.
    routes_events: bool,
}

#[derive(Debug)]
struct List {
    types: Arc<[EventType]>,
    rows: u32,
}

/// A distinct constraint.
#[derive(Debug)]
pub(super) struct TextEntry {
    pub(super) program: Arc<Constraint>,
    rows: u32,
    /// Filters with this constraint that select consumers.
    pub(super) uses: Vec<Use>,
    /// The constraint's group, and its place there.
    group: Option<(u32, usize)>,
}

/// A constraint, compared by its text.
#[derive(Debug)]
struct ByText(Arc<Constraint>);

impl Hash for ByText {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.text().hash(hasher);
    }
}

impl PartialEq for ByText {
    fn eq(&self, other: &Self) -> bool {
        self.0.text() == other.0.text()
    }
}

impl Eq for ByText {}

impl Borrow<str> for ByText {
    fn borrow(&self) -> &str {
        self.0.text()
    }
}

impl Compiler {
    /// The table as last compiled.
    pub(super) fn table(&self) -> &Arc<FilterTable> {
        &self.table
    }

    /// The slot of a filter in use.
    pub(super) fn slot(&self, filter: FilterId) -> Option<u32> {
        self.counting.get(&filter).map(|counting| counting.slot)
    }

    /// Notes whether the filters of an attachment are in use from now on.
    pub(super) fn count(&mut self, side: Side, attached: &Attached, counts: bool) {
        let step = |count: &mut u32| *count = if counts { *count + 1 } else { count.saturating_sub(1) };
        for filter in attached.local_filters() {
            let uses = self.uses.entry(filter).or_default();
            step(if side == Side::Consumers { &mut uses.routing } else { &mut uses.other });
            self.changed.push(filter);
        }
        for filter in attached.mapping_filters() {
            step(&mut self.uses.entry(filter).or_default().other);
            self.changed.push(filter);
        }
    }

    /// Notes that a filter changed. Returns whether it is in use.
    pub(super) fn note_changed(&mut self, filter: FilterId) -> bool {
        let counts = self.uses.contains_key(&filter);
        if counts {
            self.changed.push(filter);
        }
        counts
    }

    /// Brings the table up to date. Cost: proportional to what changed.
    pub(super) fn compile(&mut self, filters: &Filters) {
        if self.changed.is_empty() {
            return;
        }
        let mut changed = core::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        let mut any = false;
        for id in changed {
            let uses = self.uses.get(&id).copied().unwrap_or_default();
            if uses.routing == 0 && uses.other == 0 {
                self.uses.remove(&id);
            }
            let wanted = filters.get(id).filter(|_| uses.routing > 0 || uses.other > 0);
            let routes_events = uses.routing > 0;
            let is_same = match (self.counting.get(&id), wanted) {
                (Some(was), Some(now)) => was.is(now) && was.routes_events == routes_events,
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                any = true;
                self.remove(id);
                if let Some(filter) = wanted {
                    self.add(id, filter, routes_events);
                }
            }
        }
        if any {
            self.regroup();
            self.table = Arc::new(self.publish());
        }
    }

    fn add(&mut self, id: FilterId, filter: &Filter, routes_events: bool) {
        let mut rows = Vec::with_capacity(filter.constraints.len());
        for constraint in filter.constraints.iter() {
            rows.push(Row {
                list: self.add_list(&constraint.types),
                text: self.add_text(&constraint.program),
                value: constraint.value,
            });
        }
        // OMG Notification Service 1.1, 3.2.2.10: the constraint with the best value is tried first. Among equals, the
        // one that was there first.
        rows.sort_by_key(|row| core::cmp::Reverse(row.value));
        let program = Arc::new(Program { rows: rows.into(), default_value: filter.default_value });
        let slot = self.programs.insert(Arc::clone(&program));
        self.shared_programs.set(slot, Some(Arc::clone(&program)));
        for row in program.rows.iter().filter(|_| routes_events) {
            let used = Use { list: row.list, filter: slot };
            if let Some(text) = self.texts.get_mut(row.text)
                && text.program.always().is_none()
                && !text.uses.contains(&used)
            {
                text.uses.push(used);
                self.touched.push(row.text);
            }
        }
        let (constraints, default_value) = (Arc::clone(&filter.constraints), filter.default_value);
        self.counting.insert(id, Counting { slot, constraints, default_value, routes_events });
    }

    fn remove(&mut self, id: FilterId) {
        let Some(Counting { slot, .. }) = self.counting.remove(&id) else { return };
        let Some(program) = self.programs.remove(slot) else { return };
        self.shared_programs.set(slot, None);
        for row in &program.rows {
            if let Some(text) = self.texts.get_mut(row.text) {
                let before = text.uses.len();
                text.uses.retain(|used| used.filter != slot);
                text.rows -= 1;
                if text.uses.len() < before {
                    self.touched.push(row.text);
                }
            }
            if let Some(list) = self.lists.get_mut(row.list) {
                list.rows -= 1;
                if list.rows == 0
                    && let Some(gone) = self.lists.remove(row.list)
                {
                    self.list_of.remove(&gone.types);
                    self.shared_lists.set(row.list, None);
                }
            }
            if self.texts.get(row.text).is_some_and(|text| text.rows == 0) {
                self.forget_text(row.text);
            }
        }
    }

    fn forget_text(&mut self, text: u32) {
        self.leave_group(text);
        if let Some(gone) = self.texts.remove(text) {
            self.text_of.remove(gone.program.text());
            self.shared_texts.set(text, None);
        }
    }

    /// The slot of a list of event types, with one more row as its user.
    fn add_list(&mut self, types: &Arc<[EventType]>) -> u32 {
        // A list with everything in it is equivalent to the empty one, which has any type.
        let has_all = types.iter().any(EventType::is_everything);
        let types = if has_all { Arc::new([]) as Arc<[EventType]> } else { Arc::clone(types) };
        let (lists, shared) = (&mut self.lists, &mut self.shared_lists);
        let slot = *self.list_of.entry(types).or_insert_with_key(|types| {
            let slot = lists.insert(List { types: Arc::clone(types), rows: 0 });
            shared.set(slot, Some(Arc::clone(types)));
            slot
        });
        if let Some(list) = lists.get_mut(slot) {
            list.rows += 1;
        }
        slot
    }

    /// The slot of a constraint, with one more row as its user.
    fn add_text(&mut self, program: &Arc<Constraint>) -> u32 {
        let slot = match self.text_of.get(program.text()) {
            Some(slot) => *slot,
            None => {
                let entry = TextEntry { program: Arc::clone(program), rows: 0, uses: Vec::new(), group: None };
                let slot = self.texts.insert(entry);
                self.text_of.insert(ByText(Arc::clone(program)), slot);
                self.shared_texts.set(slot, Some(Text { program: Arc::clone(program), group: None }));
                slot
            }
        };
        if let Some(text) = self.texts.get_mut(slot) {
            text.rows += 1;
        }
        slot
    }

    // ---- groups ----

    /// Moves each constraint with changed uses to the group of its event types.
    fn regroup(&mut self) {
        let mut touched = core::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for text in touched {
            let Some(entry) = self.texts.get(text) else { continue };
            let mut lists: Vec<u32> = entry.uses.iter().map(|used| used.list).collect();
            lists.sort_unstable();
            lists.dedup();
            let current = entry.group;
            if let Some((group, place)) = current
                && let Some(found) = self.groups.get_mut(group)
                && *found.lists == *lists
            {
                found.note_uses_changed(place);
                continue;
            }
            self.leave_group(text);
            if !lists.is_empty() {
                self.join_group(text, lists);
            }
            let shared = self.texts.get(text).map(|entry| {
                let group = entry.group.map(|(group, _)| group);
                Text { program: Arc::clone(&entry.program), group }
            });
            self.shared_texts.set(text, shared);
        }
    }

    fn leave_group(&mut self, text: u32) {
        let Some((group, place)) = self.texts.get_mut(text).and_then(|entry| entry.group.take()) else { return };
        let Some(found) = self.groups.get_mut(group) else { return };
        found.remove(place);
        if found.is_empty()
            && let Some(gone) = self.groups.remove(group)
        {
            self.group_of.remove(&*gone.lists);
        }
    }

    fn join_group(&mut self, text: u32, lists: Vec<u32>) {
        let groups = &mut self.groups;
        let group =
            *self.group_of.entry(lists).or_insert_with_key(|lists| groups.insert(Group::new(lists.as_slice().into())));
        if let (Some(found), Some(entry)) = (groups.get_mut(group), self.texts.get_mut(text)) {
            entry.group = Some((group, found.add(text)));
        }
    }

    /// Notes the place of a constraint within its group.
    pub(super) fn place(texts: &mut Slots<TextEntry>, text: u32, place: usize) {
        if let Some((_, at)) = texts.get_mut(text).and_then(|entry| entry.group.as_mut()) {
            *at = place;
        }
    }

    fn publish(&mut self) -> FilterTable {
        let mut sections = Vec::new();
        for slot in 0..self.groups.len() {
            if let Some(group) = self.groups.get_mut(slot) {
                group.build(slot, &mut self.texts, &mut sections);
            }
        }
        FilterTable {
            programs: self.shared_programs.clone(),
            lists: self.shared_lists.clone(),
            texts: self.shared_texts.clone(),
            groups: self.groups.len(),
            sections,
        }
    }
}

impl Counting {
    /// Whether the filter is unchanged.
    fn is(&self, now: &Filter) -> bool {
        Arc::ptr_eq(&self.constraints, &now.constraints) && self.default_value == now.default_value
    }
}

/// Values in numbered slots, which are reused.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    fn insert(&mut self, thing: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            // The limits on filters and their constraints keep all numbers far below 2^32.
            self.len() - 1
        });
        if let Some(place) = self.places.get_mut(slot as usize) {
            *place = Some(thing);
        }
        slot
    }

    fn remove(&mut self, slot: u32) -> Option<T> {
        let gone = self.places.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(gone)
    }

    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.places.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.places.get_mut(slot as usize)?.as_mut()
    }

    /// Number of slots, empty ones included.
    fn len(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }
}

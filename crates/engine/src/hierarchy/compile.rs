//! From filters as clients made them to the table that the event path uses.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use filter::{Bank, Constraint};
use hashbrown::HashMap;

use super::filters::{Attached, Filters};
use super::{Channel, ProxyState};
use crate::table::{FilterTable, Program, Row, Section, Text, Use};
use crate::{EventType, FilterId, Side};

/// Builds the table of all filters that count in a channel.
pub(super) fn compile(channel: &Channel, filters: &Filters) -> FilterTable {
    let mut counting: BTreeMap<FilterId, bool> = BTreeMap::new();
    for (side, attached) in counting_attachments(channel) {
        for filter in attached.local_filters() {
            *counting.entry(filter).or_default() |= side == Side::Consumers;
        }
        for filter in attached.mapping_filters() {
            counting.entry(filter).or_default();
        }
    }
    let mut compiler = Compiler::default();
    for (id, routes_events) in counting {
        if let Some(filter) = filters.get(id) {
            compiler.add(id, filter, routes_events);
        }
    }
    compiler.finish()
}

/// What is attached where it counts: unconnected consumers get no events, so their filters are left out.
fn counting_attachments(channel: &Channel) -> impl Iterator<Item = (Side, &Attached)> {
    let admins = channel.admins.values().map(|admin| (admin.side, &admin.attached));
    let proxies = channel.proxies.values().filter(|proxy| {
        !proxy.attached.is_empty() && (proxy.side == Side::Suppliers || proxy.state != ProxyState::Unconnected)
    });
    admins.chain(proxies.map(|proxy| (proxy.side, &proxy.attached)))
}

#[derive(Default)]
struct Compiler<'f> {
    table: FilterTable,
    lists: HashMap<&'f [EventType], u32>,
    texts: HashMap<&'f str, u32>,
    /// By text: the filters that have it and route events by it.
    uses: Vec<Vec<Use>>,
}

impl<'f> Compiler<'f> {
    fn add(&mut self, id: FilterId, filter: &'f super::filters::Filter, routes_events: bool) {
        let slot = place(self.table.ids.len());
        let mut rows = Vec::with_capacity(filter.constraints.len());
        for constraint in filter.constraints.iter() {
            let list = self.list(&constraint.types);
            let text = self.text(&constraint.program);
            rows.push(Row { list, text, value: constraint.value });
            if routes_events
                && constraint.program.always().is_none()
                && let Some(uses) = self.uses.get_mut(text as usize)
                && uses.last() != Some(&Use { list, filter: slot })
            {
                uses.push(Use { list, filter: slot });
            }
        }
        // OMG Notification Service 1.1, 3.2.2.10: the constraint with the best value is tried first. Among equals, the
        // one that was there first.
        rows.sort_by_key(|row| core::cmp::Reverse(row.value));
        self.table.ids.push(id);
        self.table.programs.push(Program { rows: rows.into(), default_value: filter.default_value });
    }

    fn list(&mut self, types: &'f Arc<[EventType]>) -> u32 {
        // A list that has everything in it is as good as the empty one, which has any type.
        let types: &'f [EventType] = if types.iter().any(EventType::is_everything) { &[] } else { types };
        let lists = &mut self.table.lists;
        *self.lists.entry(types).or_insert_with(|| {
            lists.push(types.into());
            place(lists.len() - 1)
        })
    }

    fn text(&mut self, program: &'f Arc<Constraint>) -> u32 {
        let Self { table, texts, uses, .. } = self;
        *texts.entry(program.text()).or_insert_with(|| {
            table.texts.push(Text { program: Arc::clone(program), section: None });
            uses.push(Vec::new());
            place(table.texts.len() - 1)
        })
    }

    /// Puts the constraints into sections, each into the one of all the lists it is used with.
    fn finish(mut self) -> FilterTable {
        let mut sections: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
        for (text, uses) in self.uses.iter().enumerate().filter(|(_, uses)| !uses.is_empty()) {
            let mut lists: Vec<u32> = uses.iter().map(|one| one.list).collect();
            lists.sort_unstable();
            lists.dedup();
            sections.entry(lists).or_default().push(place(text));
        }
        for (lists, texts) in sections {
            let at = place(self.table.sections.len());
            let mut programs = Vec::with_capacity(texts.len());
            let (mut starts, mut uses) = (Vec::with_capacity(texts.len() + 1), Vec::with_capacity(texts.len()));
            for text in &texts {
                starts.push(place(uses.len()));
                uses.extend_from_slice(self.uses.get(*text as usize).map_or(&[], Vec::as_slice));
                if let Some(text) = self.table.texts.get_mut(*text as usize) {
                    text.section = Some(at);
                    programs.push(Arc::clone(&text.program));
                }
            }
            starts.push(place(uses.len()));
            self.table.sections.push(Arc::new(Section {
                lists: lists.into(),
                bank: Arc::new(Bank::new(programs)),
                texts: texts.into(),
                starts: starts.into(),
                uses: uses.into(),
            }));
        }
        self.table
    }
}

/// A place in a list. The limits on filters and their constraints keep all lists far below 2^32.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

//! Banks of constraints that have the same event types.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use filter::{Bank, Constraint};

use super::compile::{Compiler, Slots, TextEntry};
use crate::table::{NO_TEXT, Section};

/// Most constraints in the bank of the newest.
const NEW_MAX: usize = 64;
/// Size of the recent part: at most this fraction of the large part.
const RECENT_FRACTION: usize = 8;

/// Constraints with the same lists of event types, in at most three banks. Each event is evaluated by all banks, so
/// that they should be few; a bank is only rebuilt as a whole, so that one more constraint should not rebuild the
/// large one.
///
/// Each new constraint gets the next place. The newest, up to 64, are in a bank of their own; when there are more they
/// join the recent ones; when these are more than an eighth of all others, everything becomes one bank. So an addition
/// costs as much as a hundred constraints, whatever their number. A removal leaves the place empty and the bank as it
/// is, until half of all places are empty.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) lists: Box<[u32]>,
    places: Vec<Option<u32>>,
    empty: usize,
    /// Ends of the large part and of the recent part, as places.
    large: usize,
    recent: usize,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    start: usize,
    end: usize,
    /// Places that were in use when the bank was built: its constraints in their order.
    members: Vec<usize>,
    /// `None` until it is built.
    bank: Option<Arc<Bank>>,
    /// `None` if the bank or its uses changed since.
    section: Option<Arc<Section>>,
}

impl Group {
    pub(super) fn new(lists: Box<[u32]>) -> Self {
        Self { lists, places: Vec::new(), empty: 0, large: 0, recent: 0, parts: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.empty == self.places.len()
    }

    /// Adds a constraint and returns its place.
    pub(super) fn add(&mut self, text: u32) -> usize {
        self.places.push(Some(text));
        self.places.len() - 1
    }

    pub(super) fn remove(&mut self, place: usize) {
        if let Some(text) = self.places.get_mut(place)
            && text.take().is_some()
        {
            self.empty += 1;
        }
        self.note_uses_changed(place);
    }

    /// Notes that the uses of the constraint at `place` changed.
    pub(super) fn note_uses_changed(&mut self, place: usize) {
        if let Some(part) = self.part_of(place) {
            part.section = None;
        }
    }

    /// Rebuilds what changed, and appends the group's sections to `sections`. `slot` is the group's own.
    pub(super) fn build(&mut self, slot: u32, texts: &mut Slots<TextEntry>, sections: &mut Vec<Arc<Section>>) {
        if self.places.len() > NEW_MAX && self.empty > self.places.len() / 2 {
            self.places.retain(Option::is_some);
            (self.empty, self.large, self.recent) = (0, 0, 0);
            self.parts.clear();
            for (place, text) in self.places.iter().flatten().enumerate() {
                Compiler::place(texts, *text, place);
            }
        }
        self.divide();
        let Self { lists, places, parts, .. } = self;
        for part in parts {
            let section = part.build((slot, lists), places, texts);
            if !section.uses.is_empty() {
                sections.push(Arc::clone(section));
            }
        }
    }

    /// Divides the places into the large, the recent and the new part. Unchanged parts stay.
    fn divide(&mut self) {
        let all = self.places.len();
        if all - self.large > NEW_MAX.max(self.large / RECENT_FRACTION) {
            (self.large, self.recent) = (all, all);
        } else if all - self.recent > NEW_MAX {
            self.recent = all;
        }
        let mut old = core::mem::take(&mut self.parts);
        let mut start = 0;
        for end in [self.large, self.recent, all] {
            if start < end {
                let same = old.iter().position(|part| (part.start, part.end) == (start, end));
                let part = same.map(|at| old.swap_remove(at));
                self.parts.push(part.unwrap_or(Part { start, end, members: Vec::new(), bank: None, section: None }));
            }
            start = end;
        }
    }

    fn part_of(&mut self, place: usize) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| (part.start..part.end).contains(&place))
    }
}

impl Part {
    fn build(
        &mut self,
        (group, lists): (u32, &[u32]),
        places: &[Option<u32>],
        texts: &Slots<TextEntry>,
    ) -> &Arc<Section> {
        let text_at = |place: usize| places.get(place).copied().flatten();
        let bank = match &self.bank {
            Some(bank) => Arc::clone(bank),
            None => {
                self.members = (self.start..self.end).filter(|place| text_at(*place).is_some()).collect();
                let entries = self.members.iter().filter_map(|place| texts.get(text_at(*place)?));
                let programs: Vec<Arc<Constraint>> = entries.map(|entry| Arc::clone(&entry.program)).collect();
                let bank = Arc::new(Bank::new(programs));
                self.bank = Some(Arc::clone(&bank));
                bank
            }
        };
        self.section.get_or_insert_with(|| {
            let (mut starts, mut uses) = (Vec::with_capacity(self.members.len() + 1), Vec::new());
            let mut named = Vec::with_capacity(self.members.len());
            let next = |uses: &Vec<_>| u32::try_from(uses.len()).unwrap_or(u32::MAX);
            for text in self.members.iter().map(|place| text_at(*place)) {
                named.push(text.unwrap_or(NO_TEXT));
                starts.push(next(&uses));
                let entry = text.and_then(|text| texts.get(text));
                uses.extend_from_slice(entry.map_or(&[], |entry| &entry.uses));
            }
            starts.push(next(&uses));
            let (texts, starts, uses) = (named.into(), starts.into(), uses.into());
            Arc::new(Section { group, lists: lists.into(), bank, texts, starts, uses })
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;
    use crate::{
        AdminId, ChannelId, ChannelLimits, FilterConstraint, FilterId, FilterRef, FilterTarget, Form, Hierarchy,
        OutputForm, Peer, ProxyKey, ProxyKind, SettingsPatch, Side,
    };

    struct Rig {
        hierarchy: Hierarchy,
        channel: ChannelId,
        filters: Vec<FilterId>,
    }

    impl Rig {
        fn new() -> Self {
            let mut hierarchy = Hierarchy::default();
            let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
            Self { hierarchy, channel, filters: Vec::new() }
        }

        /// Another consumer, with a filter and constraint of its own.
        fn add(&mut self) {
            let text = format!("$n == {}", self.filters.len());
            let program = Arc::new(Constraint::parse(&text, &filter::Limits::default()).unwrap());
            let constraint = FilterConstraint { types: Arc::new([]), program, value: 0 };
            let filter = self.hierarchy.create_filter(self.channel).unwrap();
            self.hierarchy.set_constraints(filter, Vec::from([constraint]), None).unwrap();
            let (admin, kind) = (AdminId::DEFAULT, ProxyKind::default());
            let proxy = self.hierarchy.create_proxy(self.channel, Side::Consumers, admin, Form(1), kind).unwrap();
            let key = ProxyKey { channel: self.channel, proxy };
            self.hierarchy.connect(key, Some(Peer(1)), OutputForm(0)).unwrap();
            self.hierarchy.add_filter(FilterTarget::Proxy(key), FilterRef::Local(filter)).unwrap();
            self.filters.push(filter);
        }

        fn sections(&mut self) -> Vec<Arc<Section>> {
            self.hierarchy.snapshot().channels()[0].filtering.table.sections.clone()
        }

        fn reachable(&mut self) -> BTreeSet<alloc::string::String> {
            let snapshot = self.hierarchy.snapshot();
            let table = &snapshot.channels()[0].filtering.table;
            let mut found = BTreeSet::new();
            for section in &table.sections {
                for (at, slot) in (0..).zip(&section.texts).filter(|(_, slot)| **slot != NO_TEXT) {
                    let text = table.text(*slot).unwrap();
                    assert!(found.insert(text.program.text().into()), "twice: {}", text.program.text());
                    assert_eq!((section.uses(at).len(), text.group), (1, Some(section.group)));
                }
            }
            found
        }
    }

    fn sizes(sections: &[Arc<Section>]) -> Vec<usize> {
        sections.iter().map(|section| section.bank.len()).collect()
    }

    #[test]
    fn one_more_constraint_makes_a_small_bank_anew_and_no_large_one() {
        let mut rig = Rig::new();
        let mut sizes_after = |constraints: usize| {
            (0..constraints).for_each(|_| rig.add());
            sizes(&rig.sections())
        };
        assert_eq!(sizes_after(200), [200]);
        assert_eq!(sizes_after(1), [200, 1]);
        assert_eq!(sizes_after(63), [200, 64]);
        assert_eq!(sizes_after(1), [265]);
        assert_eq!(sizes_after(735), [1_000]);
        assert_eq!(sizes_after(64), [1_000, 64]);
        assert_eq!(sizes_after(1), [1_000, 65]);
        assert_eq!(sizes_after(59), [1_000, 65, 59]);
        let before = rig.sections();
        rig.add();
        let after = rig.sections();
        assert_eq!(sizes(&after), [1_000, 65, 60]);
        let same: Vec<bool> = before.iter().zip(&after).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(same, [true, true, false]);
        assert_eq!(rig.reachable().len(), 1_125);
    }

    #[test]
    fn one_constraint_less_leaves_the_banks_as_they_are_until_half_are_gone() {
        let mut rig = Rig::new();
        (0..200).for_each(|_| rig.add());
        let before = rig.sections();
        for gone in 0..100 {
            rig.hierarchy.destroy_filter(rig.filters[gone]).unwrap();
            assert_eq!(rig.reachable().len(), 199 - gone);
        }
        let after = rig.sections();
        assert!(before.iter().zip(&after).all(|(a, b)| Arc::ptr_eq(&a.bank, &b.bank)));
        rig.hierarchy.destroy_filter(rig.filters[100]).unwrap();
        assert_eq!(sizes(&rig.sections()), [99]);
        assert_eq!(rig.reachable().len(), 99);
        for gone in 101..200 {
            rig.hierarchy.destroy_filter(rig.filters[gone]).unwrap();
        }
        assert!(rig.sections().is_empty());
    }

    #[test]
    fn what_can_be_reached_is_what_is_attached_however_it_came_and_went() {
        let mut rig = Rig::new();
        let mut random = fastrand::Rng::with_seed(7);
        let mut present = BTreeSet::new();
        for _ in 0..2_000 {
            if random.u32(..5) < 3 || present.is_empty() {
                present.insert(rig.filters.len());
                rig.add();
            } else {
                let gone = *present.iter().nth(random.usize(..present.len())).unwrap();
                present.remove(&gone);
                rig.hierarchy.destroy_filter(rig.filters[gone]).unwrap();
            }
            if random.u32(..8) == 0 {
                let texts: BTreeSet<_> = present.iter().map(|n| format!("$n == {n}")).collect();
                assert_eq!(rig.reachable(), texts);
            }
        }
        assert!(present.len() > 200, "{}", present.len());
    }
}

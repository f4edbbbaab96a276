//! The banks of the constraints that are for the same event types.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use filter::{Bank, Constraint};

use super::compile::{Compiler, Slots, TextEntry};
use crate::table::{NO_TEXT, Section};

/// The smallest bank has places for so many constraints.
const BLOCK: usize = 64;

/// Constraints that are used with the same lists of event types, in several banks.
///
/// The places are divided into parts as a number is into powers of two, the largest first: 200 places are a part of 128,
/// one of 64 and one that is begun. A constraint that comes gets the next place, so that only the last part is made anew,
/// and now and then it becomes one with those before it: one that comes costs as much as the logarithm of how many there
/// are. One that goes leaves its place empty and its part as it is, until half of all places are empty.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) lists: Box<[u32]>,
    places: Vec<Option<u32>>,
    empty: usize,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    start: usize,
    places: usize,
    /// The places that were not empty when the bank was made: its constraints in their order.
    members: Vec<usize>,
    /// `None` where there is a constraint that the bank does not have.
    bank: Option<Arc<Bank>>,
    /// `None` if something has changed since.
    section: Option<Arc<Section>>,
}

impl Group {
    pub(super) fn new(lists: Box<[u32]>) -> Self {
        Self { lists, places: Vec::new(), empty: 0, parts: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.empty == self.places.len()
    }

    /// Takes a constraint in; says its place.
    pub(super) fn add(&mut self, text: u32) -> usize {
        let place = self.places.len();
        self.places.push(Some(text));
        if let Some(part) = self.part_of(place) {
            part.bank = None;
            part.section = None;
        }
        place
    }

    pub(super) fn remove(&mut self, place: usize) {
        if let Some(text) = self.places.get_mut(place)
            && text.take().is_some()
        {
            self.empty += 1;
        }
        self.note_uses_changed(place);
    }

    /// Notes that other filters have the constraint at a place than before.
    pub(super) fn note_uses_changed(&mut self, place: usize) {
        if let Some(part) = self.part_of(place) {
            part.section = None;
        }
    }

    /// Makes anew what has changed, and adds its sections to the others'. `slot` is the group's own.
    pub(super) fn build(&mut self, slot: u32, texts: &mut Slots<TextEntry>, sections: &mut Vec<Arc<Section>>) {
        if self.places.len() > BLOCK && self.empty > self.places.len() / 2 {
            self.places.retain(Option::is_some);
            self.empty = 0;
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

    /// Divides the places into parts. Those that are as they were stay.
    fn divide(&mut self) {
        let blocks = self.places.len().div_ceil(BLOCK);
        let mut old = core::mem::take(&mut self.parts).into_iter().peekable();
        let mut start = 0;
        for size in (0..usize::BITS).rev().map(|bit| 1_usize << bit).filter(|size| blocks & size != 0) {
            let places = size * BLOCK;
            let same = old.next_if(|part| part.start == start && part.places == places);
            self.parts.push(same.unwrap_or(Part { start, places, members: Vec::new(), bank: None, section: None }));
            start += places;
        }
    }

    fn part_of(&mut self, place: usize) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| (part.start..part.start + part.places).contains(&place))
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
                let range = self.start..(self.start + self.places).min(places.len());
                self.members = range.filter(|place| text_at(*place).is_some()).collect();
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

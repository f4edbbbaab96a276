//! A structured event with parts that are searched in sequence, with their positions remembered.

use super::{Found, Place as Reached, descend, generic, is_about_type, spend, step};
use crate::event::translate::any_inside;
use crate::event::{PROPERTY_BYTES_MIN, types};
use filter::Part;
use giop::cdr::{CharSet, ReadError, Reader};
use giop::cursor::{Cursor, is_text};
use giop::recode::pass_any;
use giop::typecode::Work;
use std::cell::Cell;

/// Maximum remembered positions of a list's properties. Beyond them a longer list is searched each time.
const REMEMBERED: usize = 12;

/// A structured event, with the known positions of its parts.
#[derive(Clone, Debug)]
pub(super) struct Structured<'e> {
    /// A reader in front of the event.
    source: Reader<'e>,
    variable_header: List,
    filterable_data: List,
}

/// Known positions in a list of properties, in octets from the beginning of the event.
#[derive(Clone, Debug, Default)]
struct List {
    /// Position of the first property; 0 while unknown, since none begins there.
    begin: Cell<u32>,
    /// Number of properties.
    count: Cell<u32>,
    /// Number of properties with a position in `names`.
    known: Cell<u32>,
    names: [Cell<Place>; REMEMBERED],
    /// Position behind the last property; 0 while unknown.
    end: Cell<u32>,
}

/// Position of a property.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Octets of its name up to the value, including the NUL.
    length: u32,
    /// Position of its value.
    value: u32,
}

#[derive(Clone, Copy)]
enum ListName {
    VariableHeader,
    FilterableData,
}

impl<'e> Structured<'e> {
    pub(super) fn new(source: Reader<'e>) -> Self {
        Self { source, variable_header: List::default(), filterable_data: List::default() }
    }

    /// The meaning of `$name`.
    pub(super) fn name(&self, name: &str, work: &mut Work) -> Result<Option<Reached<'e>>, ReadError> {
        let found = match name {
            "domain_name" => return self.fixed(0, work),
            "type_name" => return self.fixed(1, work),
            "event_name" => return self.fixed(2, work),
            "event_type" => {
                let fixed_header = types::structured(self.source.clone(), work)?;
                let way = [Part::Position(0), Part::Position(0), Part::Position(0)];
                return Ok(descend(fixed_header, &way, work)?.map(Reached::Value));
            }
            "priority" => self.search(ListName::VariableHeader, "Priority", work)?,
            "timeout" => self.search(ListName::VariableHeader, "Timeout", work)?,
            _ => None,
        };
        if let Some(found) = found {
            return Ok(Some(Reached::Any(found)));
        }
        for list in [ListName::VariableHeader, ListName::FilterableData] {
            if let Some(found) = self.search(list, name, work)? {
                return Ok(Some(Reached::Any(found)));
            }
        }
        if let Some(any) = self.wrapped(work)? {
            return generic(&any, name, work);
        }
        match name {
            "header" | "filterable_data" | "remainder_of_body" => {
                Ok(types::structured(self.source.clone(), work)?.member(name, work)?.map(Reached::Value))
            }
            _ => Ok(None),
        }
    }

    /// Resolves a path from the event itself. The most frequent paths are resolved without reading the type.
    pub(super) fn event<'p>(&self, parts: &'p [Part], work: &mut Work) -> Found<'e, 'p> {
        let value = |found: Option<Reader<'e>>, rest| Ok(found.map(|any| (Reached::Any(any), rest)));
        match parts {
            [Part::Member(member), rest @ ..] => match (&**member, rest) {
                ("filterable_data", [Part::Named(name), rest @ ..]) => {
                    value(self.search(ListName::FilterableData, name, work)?, rest)
                }
                ("remainder_of_body", rest) => value(Some(self.behind(ListName::FilterableData, work)?), rest),
                ("header", rest) => self.header(parts, rest, work),
                _ => self.typed(parts, work),
            },
            _ => self.typed(parts, work),
        }
    }

    fn header<'p>(&self, all: &'p [Part], parts: &'p [Part], work: &mut Work) -> Found<'e, 'p> {
        let is = |part: &Part, name: &str| matches!(part, Part::Member(member) if **member == *name);
        match parts {
            [variable, Part::Named(name), rest @ ..] if is(variable, "variable_header") => {
                let found = self.search(ListName::VariableHeader, name, work)?;
                Ok(found.map(|any| (Reached::Any(any), rest)))
            }
            [fixed, name, rest @ ..] if is(fixed, "fixed_header") && is(name, "event_name") => {
                Ok(self.fixed(2, work)?.map(|place| (place, rest)))
            }
            [fixed, kind, name, rest @ ..] if is(fixed, "fixed_header") && is(kind, "event_type") => {
                let index = if is(name, "domain_name") {
                    0
                } else if is(name, "type_name") {
                    1
                } else {
                    return self.typed(all, work);
                };
                Ok(self.fixed(index, work)?.map(|place| (place, rest)))
            }
            _ => self.typed(all, work),
        }
    }

    /// Resolves a path along the type. If its beginning is no part of a structured event, it is tried on the Any in the event, and if it
    /// begins with a name, on that name alone.
    fn typed<'p>(&self, parts: &'p [Part], work: &mut Work) -> Found<'e, 'p> {
        let at = types::structured(self.source.clone(), work)?;
        let Some((first, rest)) = parts.split_first() else {
            return Ok(Some((Reached::Value(at), parts)));
        };
        if let Some(at) = step(&at, first, work)? {
            return Ok(Some((Reached::Value(at), rest)));
        }
        if is_about_type(first) {
            return Ok(Some((Reached::Value(at), parts)));
        }
        let any = self.wrapped(work)?;
        if let Part::Member(name) = first {
            let member = any.map(|any| any.member(name, work)).transpose()?.flatten().map(Reached::Value);
            let reached = if member.is_some() { member } else { self.name(name, work)? };
            return Ok(reached.map(|reached| (reached, rest)));
        }
        Ok(any.map(|any| (Reached::Value(any), parts)))
    }

    /// The string at that index of the fixed header: domain, type, name.
    fn fixed(&self, index: usize, work: &mut Work) -> Result<Option<Reached<'e>>, ReadError> {
        let mut source = self.source.clone();
        spend(1, &source, work)?;
        for _ in 0..index {
            source.string()?;
        }
        source.string().map(|text| Some(Reached::Text(text)))
    }

    /// A reader in front of the value of the property of that name in a list.
    fn search(&self, which: ListName, name: &str, work: &mut Work) -> Result<Option<Reader<'e>>, ReadError> {
        let list = self.begun(which, work)?;
        let chars = self.source.encoding().chars;
        let is_plain = chars == CharSet::Utf8 || name.is_ascii();
        let is_it = |text: &[u8]| if is_plain { text == name.as_bytes() } else { is_text(text, chars, name) };
        // A reader that is made anew for each name costs more than looking at the name.
        let bytes = self.source.rest();
        let known = list.known.get();
        for place in list.names.iter().take(known as usize) {
            spend(1, &self.source, work)?;
            let Place { length, value } = place.get();
            let end = (value as usize).saturating_sub(1);
            if is_it(bytes.get(end.saturating_sub(length as usize)..end).unwrap_or_default()) {
                return self.at(value).map(Some);
            }
        }
        self.go_on(list, is_it, work)
    }

    /// Searches the properties behind the known positions, up to the wanted one or the end of the list, which is then known.
    fn go_on(
        &self,
        list: &List,
        is_it: impl Fn(&'e [u8]) -> bool,
        work: &mut Work,
    ) -> Result<Option<Reader<'e>>, ReadError> {
        let (count, known) = (list.count.get(), list.known.get());
        if known == count && list.end.get() > 0 {
            return Ok(None);
        }
        let mut source = match known.checked_sub(1).and_then(|last| list.names.get(last as usize)) {
            Some(last) => {
                let mut source = self.at(last.get().value)?;
                pass_any(&mut source, work)?;
                source
            }
            None => self.at(list.begin.get())?,
        };
        for at in known..count {
            spend(1, &source, work)?;
            let text = source.string()?;
            if let Some(place) = list.names.get(at as usize) {
                place.set(Place {
                    length: u32::try_from(text.len()).unwrap_or(u32::MAX),
                    value: self.octets_to(&source),
                });
                list.known.set(at + 1);
            }
            if is_it(text) {
                return Ok(Some(source));
            }
            pass_any(&mut source, work)?;
        }
        list.end.set(self.octets_to(&source));
        Ok(None)
    }

    /// Gives a list once its beginning and length are known.
    fn begun(&self, which: ListName, work: &mut Work) -> Result<&List, ReadError> {
        let list = match which {
            ListName::VariableHeader => &self.variable_header,
            ListName::FilterableData => &self.filterable_data,
        };
        if list.begin.get() > 0 {
            return Ok(list);
        }
        let mut source = match which {
            ListName::VariableHeader => {
                let mut source = self.source.clone();
                (0..3).try_for_each(|_| source.string().map(|_| ()))?;
                source
            }
            ListName::FilterableData => self.behind(ListName::VariableHeader, work)?,
        };
        list.count.set(source.seq_len(PROPERTY_BYTES_MIN)?);
        list.begin.set(self.octets_to(&source));
        Ok(list)
    }

    /// A reader behind a list.
    fn behind(&self, which: ListName, work: &mut Work) -> Result<Reader<'e>, ReadError> {
        let list = self.begun(which, work)?;
        if list.end.get() == 0 {
            self.go_on(list, |_| false, work)?;
        }
        self.at(list.end.get())
    }

    /// A reader so many octets behind the beginning of the event.
    fn at(&self, octets: u32) -> Result<Reader<'e>, ReadError> {
        let mut source = self.source.clone();
        source.take(octets as usize)?;
        Ok(source)
    }

    /// A reader's distance from the beginning of the event, in octets.
    fn octets_to(&self, source: &Reader<'e>) -> u32 {
        u32::try_from(source.position() - self.source.position()).unwrap_or(u32::MAX)
    }

    /// The Any from which the structured event was made, if any.
    fn wrapped(&self, work: &mut Work) -> Result<Option<Cursor<'e>>, ReadError> {
        match any_inside(self.source.clone(), work) {
            Some(any) => Cursor::any(any, work).map(Some),
            None => Ok(None),
        }
    }
}

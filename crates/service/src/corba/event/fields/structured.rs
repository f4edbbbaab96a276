//! A structured event whose parts are looked for one after the other, and found again at once.

use super::{Found, Place, descend, generic, is_about_type, spend, step};
use crate::corba::event::translate::any_inside;
use crate::corba::event::{PROPERTY_BYTES_MIN, types};
use filter::Part;
use giop::cdr::{ReadError, Reader};
use giop::cursor::{Cursor, is_text};
use giop::recode::pass_any;
use giop::typecode::Work;
use std::cell::Cell;

/// Properties of a list whose places are remembered. From the last of them on a longer one is walked through each time.
const REMEMBERED: u32 = 12;

/// A structured event, and where its parts lie as far as that is known.
#[derive(Clone, Debug)]
pub(super) struct Structured<'e> {
    /// Stands in front of the event.
    source: Reader<'e>,
    variable_header: List,
    filterable_data: List,
}

/// What is known of a list of properties. Places are octets from the beginning of the event, where none of them lies.
#[derive(Clone, Debug, Default)]
struct List {
    /// How many properties there are.
    count: Cell<u32>,
    /// How many of them have a place in `names`; none until the list was begun.
    known: Cell<u32>,
    names: [Cell<u32>; REMEMBERED as usize],
    /// What is behind the last property; 0 until somebody went there.
    end: Cell<u32>,
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

    /// What `$name` is.
    pub(super) fn name(&self, name: &str, work: &mut Work) -> Result<Option<Place<'e>>, ReadError> {
        let found = match name {
            "domain_name" => return self.fixed(0, work),
            "type_name" => return self.fixed(1, work),
            "event_name" => return self.fixed(2, work),
            "event_type" => {
                let fixed_header = types::structured(self.source.clone(), work)?;
                let way = [Part::Position(0), Part::Position(0), Part::Position(0)];
                return Ok(descend(fixed_header, &way, work)?.map(Place::Value));
            }
            "priority" => self.search(ListName::VariableHeader, Some("Priority"), work)?,
            "timeout" => self.search(ListName::VariableHeader, Some("Timeout"), work)?,
            _ => None,
        };
        if let Some(found) = found {
            return Ok(Some(Place::Any(found)));
        }
        for list in [ListName::VariableHeader, ListName::FilterableData] {
            if let Some(found) = self.search(list, Some(name), work)? {
                return Ok(Some(Place::Any(found)));
            }
        }
        if let Some(any) = self.wrapped(work)? {
            return generic(&any, name, work);
        }
        match name {
            "header" | "filterable_data" | "remainder_of_body" => {
                Ok(types::structured(self.source.clone(), work)?.member(name, work)?.map(Place::Value))
            }
            _ => Ok(None),
        }
    }

    /// Where a path from the event itself leads to. What is asked for most is found without looking at the type.
    pub(super) fn event<'p>(&self, parts: &'p [Part], work: &mut Work) -> Found<'e, 'p> {
        let value = |found: Option<Reader<'e>>, rest| Ok(found.map(|any| (Place::Any(any), rest)));
        match parts {
            [Part::Member(member), rest @ ..] => match (&**member, rest) {
                ("filterable_data", [Part::Named(name), rest @ ..]) => {
                    value(self.search(ListName::FilterableData, Some(name), work)?, rest)
                }
                ("remainder_of_body", rest) => value(Some(self.remainder(work)?), rest),
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
                let found = self.search(ListName::VariableHeader, Some(name), work)?;
                Ok(found.map(|any| (Place::Any(any), rest)))
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

    /// Where a path leads to along the type. If it begins with nothing that a structured event has, it may be meant for
    /// the Any in one.
    fn typed<'p>(&self, parts: &'p [Part], work: &mut Work) -> Found<'e, 'p> {
        let at = types::structured(self.source.clone(), work)?;
        let Some((first, rest)) = parts.split_first() else {
            return Ok(Some((Place::Value(at), parts)));
        };
        if let Some(at) = step(&at, first, work)? {
            return Ok(Some((Place::Value(at), rest)));
        }
        if is_about_type(first) {
            return Ok(Some((Place::Value(at), parts)));
        }
        Ok(self.wrapped(work)?.map(|any| (Place::Value(any), parts)))
    }

    /// The string at that place of the fixed header: domain, type, name.
    fn fixed(&self, index: usize, work: &mut Work) -> Result<Option<Place<'e>>, ReadError> {
        let mut source = self.source.clone();
        spend(1, &source, work)?;
        for _ in 0..index {
            source.string()?;
        }
        source.string().map(|text| Some(Place::Text(text)))
    }

    /// In front of the value of the property of that name in a list; without a name, nothing, once the list's end is known.
    fn search(&self, which: ListName, name: Option<&str>, work: &mut Work) -> Result<Option<Reader<'e>>, ReadError> {
        let list = self.list(which);
        if list.known.get() == 0 && list.end.get() == 0 {
            self.begin(which, work)?;
        }
        let (count, chars) = (list.count.get(), self.source.encoding().chars);
        let mut source = self.source.clone();
        // Whoever only wants to get past the list goes on where it is known best.
        let mut at = if name.is_some() { 0 } else { list.known.get().saturating_sub(1) };
        while at < count && (name.is_some() || list.end.get() == 0) {
            spend(1, &source, work)?;
            if at < list.known.get() {
                source = self.at(list.names.get(at as usize))?;
            }
            let here = source.string()?;
            if name.is_some_and(|name| is_text(here, chars, name)) {
                return Ok(Some(source));
            }
            at += 1;
            if at < list.known.get() || at == count && list.end.get() > 0 {
                continue;
            }
            pass_any(&mut source, work)?;
            let place = self.place(&source);
            match list.names.get(at as usize) {
                _ if at == count => list.end.set(place),
                Some(next) => {
                    next.set(place);
                    list.known.set(at + 1);
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Finds out where a list begins and how long it is.
    fn begin(&self, which: ListName, work: &mut Work) -> Result<(), ReadError> {
        let mut source = match which {
            ListName::VariableHeader => {
                let mut source = self.source.clone();
                (0..3).try_for_each(|_| source.string().map(|_| ()))?;
                source
            }
            ListName::FilterableData => {
                self.search(ListName::VariableHeader, None, work)?;
                self.at(Some(&self.variable_header.end))?
            }
        };
        let list = self.list(which);
        list.count.set(source.seq_len(PROPERTY_BYTES_MIN)?);
        let place = self.place(&source);
        if list.count.get() == 0 {
            list.end.set(place);
        } else {
            let [first, ..] = &list.names;
            first.set(place);
            list.known.set(1);
        }
        Ok(())
    }

    /// A reader in front of the remainder of the body.
    fn remainder(&self, work: &mut Work) -> Result<Reader<'e>, ReadError> {
        self.search(ListName::FilterableData, None, work)?;
        self.at(Some(&self.filterable_data.end))
    }

    const fn list(&self, which: ListName) -> &List {
        match which {
            ListName::VariableHeader => &self.variable_header,
            ListName::FilterableData => &self.filterable_data,
        }
    }

    /// A reader at a place.
    fn at(&self, place: Option<&Cell<u32>>) -> Result<Reader<'e>, ReadError> {
        let mut source = self.source.clone();
        source.take(place.map_or(0, Cell::get) as usize)?;
        Ok(source)
    }

    /// Where a reader stands.
    fn place(&self, source: &Reader<'e>) -> u32 {
        u32::try_from(source.position() - self.source.position()).unwrap_or(u32::MAX)
    }

    /// The Any of which the structured event was made, if it was made of one.
    fn wrapped(&self, work: &mut Work) -> Result<Option<Cursor<'e>>, ReadError> {
        match any_inside(self.source.clone(), work) {
            Some(any) => Cursor::any(any, work).map(Some),
            None => Ok(None),
        }
    }
}

//! Execution of a plan for one value.

use super::number::{Number, widen};
use super::sink::{Checks, Sink};
use super::{Case, Count, DEPTH_MAX, Discriminator, Fault, Members, OCTETS_MAX, Plan, STEPS_MAX, Step};
use crate::declared::NATIVE;
use giop::cdr::{CharSet, Reader};
use giop::typecode::Work;

/// Executes the whole plan.
pub(super) fn run(plan: &Plan, reader: &mut Reader<'_>, sink: &mut impl Sink, is_strict: bool) -> Result<(), Fault> {
    let most = sink.length().saturating_add(OCTETS_MAX);
    let mut walk = Walk { plan, work: Work::new(STEPS_MAX, DEPTH_MAX), most, is_strict };
    walk.step(plan.root, reader, sink, 0)
}

struct Walk<'p> {
    plan: &'p Plan,
    work: Work,
    /// Maximum length of the sink's output.
    most: usize,
    /// Whether a string of length 0, without its NUL, is refused.
    is_strict: bool,
}

impl Walk<'_> {
    fn spend(&mut self, steps: usize, sink: &impl Sink) -> Result<(), Fault> {
        if !self.work.spend(u32::try_from(steps).unwrap_or(u32::MAX)) || sink.length() > self.most {
            return Err(Fault::new("the value is too large"));
        }
        Ok(())
    }

    fn step(&mut self, index: usize, reader: &mut Reader<'_>, sink: &mut impl Sink, depth: u32) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::new("values within each other beyond all measure"));
        }
        match self.plan.step(index) {
            Step::Pending | Step::Nothing => {}
            Step::Bool => sink.u8(reader.bool()?.into()),
            Step::Octet => sink.u8(reader.u8()?),
            Step::Char => sink.char(reader.u8()?, reader.encoding().chars)?,
            Step::Wchar { from_char: false } => sink.wide_char(reader.wchar()?)?,
            Step::Wchar { from_char: true } => sink.wide_char(narrow(reader)?.into())?,
            Step::CharText { from_char, bound } => {
                let character = if *from_char { Some(narrow(reader)?) } else { reader.wchar()?.to_char() };
                let character = character.ok_or_else(|| Fault::new("a wchar that is half of a character"))?;
                put_text(character.encode_utf8(&mut [0; 4]), *bound, false, sink)?;
            }
            Step::Text { from_wide, to_wide, bound } => {
                if self.is_strict && !*from_wide && reader.clone().u32()? == 0 {
                    return Err(Fault::new("a string of length 0: the length counts the NUL"));
                }
                text(*from_wide, *to_wide, *bound, reader, sink)?;
            }
            Step::Number { size } => number(*size, reader, sink)?,
            Step::Widen { from, to } => widen(*from, *to, reader, sink)?,
            Step::Enum { name, map, labels } => {
                let value = reader.u32()?;
                let at = usize::try_from(value).unwrap_or(usize::MAX);
                match (map.get(at), labels.get(at)) {
                    (Some(Some(to)), _) => sink.u32(*to),
                    (Some(None), Some(label)) => return Err(Fault::new(format!("{name} has no label {label}"))),
                    _ => return Err(Fault::new(format!("{value} is beyond the labels of {name}"))),
                }
            }
            Step::Struct(members) => self.members(members, reader, sink, depth + 1)?,
            Step::Elements { element, from, to } => self.elements(*element, (*from, *to), reader, sink, depth + 1)?,
            Step::Lift { element } => {
                sink.u32(1);
                self.step(*element, reader, sink, depth + 1)?;
            }
            Step::Absent => sink.u32(0),
            Step::Default { octets, value } => self.step(*value, &mut Reader::new(octets, NATIVE), sink, depth + 1)?,
            Step::Union { discriminator, cases, default } => {
                let chosen = choose(*discriminator, cases, *default, reader, sink)?;
                if let Some(case) = chosen.and_then(|at| cases.get(at)) {
                    self.step(case.step, reader, sink, depth + 1).map_err(|fault| fault.within(&case.name))?;
                }
            }
            Step::LongDouble => sink.long_double(reader.long_double()?),
            Step::Fixed { octets } => fixed(*octets, reader, sink)?,
            Step::Any => sink.any(reader, &mut self.work)?,
            Step::TypeCode => sink.type_code(reader, &mut self.work)?,
            Step::Object => sink.object(reader)?,
        }
        Ok(())
    }

    fn members(
        &mut self,
        members: &Members,
        reader: &mut Reader<'_>,
        sink: &mut impl Sink,
        depth: u32,
    ) -> Result<(), Fault> {
        self.spend(members.source.len() + 1, sink)?;
        let Some(target) = &members.target else {
            for member in &members.source {
                let outcome = if member.is_extra {
                    self.step(member.step, reader, &mut Checks, depth)
                } else {
                    self.step(member.step, reader, sink, depth)
                };
                outcome.map_err(|fault| fault.within(&member.name))?;
            }
            return Ok(());
        };
        // In another order: where each begins is found first.
        self.spend(target.len(), sink)?;
        let mut places = Vec::with_capacity(members.source.len());
        for member in &members.source {
            places.push(reader.clone());
            self.step(member.step, reader, &mut Checks, depth).map_err(|fault| fault.within(&member.name))?;
        }
        for (at, member) in target {
            let mut there = at.and_then(|at| places.get(at).cloned()).unwrap_or_else(|| reader.clone());
            self.step(member.step, &mut there, sink, depth).map_err(|fault| fault.within(&member.name))?;
        }
        Ok(())
    }

    fn elements(
        &mut self,
        element: usize,
        (from, to): (Count, Count),
        reader: &mut Reader<'_>,
        sink: &mut impl Sink,
        depth: u32,
    ) -> Result<(), Fault> {
        let count = match from {
            Count::Fixed(count) => count,
            Count::Written { .. } => reader.u32()?,
        };
        match to {
            Count::Fixed(wanted) if count != wanted => {
                return Err(Fault::new(format!("{count} elements, where {wanted} are expected")));
            }
            Count::Written { bound } if bound > 0 && count > bound => {
                return Err(Fault::new(format!("{count} elements, where there may be {bound}")));
            }
            Count::Fixed(_) => {}
            Count::Written { .. } => sink.u32(count),
        }
        let length = usize::try_from(count).unwrap_or(usize::MAX);
        self.spend(1, sink)?;
        match self.plan.step(element) {
            _ if count == 0 => {}
            Step::Octet => sink.octets(reader.take(length)?),
            Step::Number { size } => {
                reader.align(*size)?;
                let bytes = reader.take(length.saturating_mul(*size))?;
                sink.numbers(bytes, *size, reader.encoding().endian);
            }
            _ => {
                for index in 0..count {
                    self.spend(1, sink)?;
                    self.step(element, reader, sink, depth).map_err(|fault| fault.at(index))?;
                }
            }
        }
        Ok(())
    }
}

fn number(size: usize, reader: &mut Reader<'_>, sink: &mut impl Sink) -> Result<(), Fault> {
    match size {
        2 => sink.u16(reader.u16()?),
        4 => sink.u32(reader.u32()?),
        _ => sink.u64(reader.u64()?),
    }
    Ok(())
}

fn text(
    from_wide: bool,
    to_wide: bool,
    bound: u32,
    reader: &mut Reader<'_>,
    sink: &mut impl Sink,
) -> Result<(), Fault> {
    let owned;
    let text = if from_wide {
        owned = reader.wtext()?;
        owned.as_str()
    } else {
        let encoding = reader.encoding();
        let before = reader.clone();
        let bytes = reader.string()?;
        match core::str::from_utf8(bytes) {
            Ok(text) if encoding.chars == CharSet::Utf8 || text.is_ascii() => text,
            _ => {
                owned = before.clone().text()?;
                owned.as_str()
            }
        }
    };
    put_text(text, bound, to_wide, sink)
}

/// Reads a `char` as a Unicode character.
fn narrow(reader: &mut Reader<'_>) -> Result<char, Fault> {
    let octet = reader.u8()?;
    if !octet.is_ascii() && reader.encoding().chars == CharSet::Utf8 {
        return Err(Fault::new("a char that is a part of a character"));
    }
    Ok(char::from(octet))
}

fn put_text(text: &str, bound: u32, to_wide: bool, sink: &mut impl Sink) -> Result<(), Fault> {
    if text.contains('\0') {
        return Err(Fault::new("a text with NUL in it"));
    }
    let length = if to_wide { text.encode_utf16().count() } else { text.len() };
    if bound > 0 && u32::try_from(length).unwrap_or(u32::MAX) > bound {
        return Err(Fault::new(format!("a text of {length}, where there may be {bound}")));
    }
    if to_wide {
        sink.wide_text(text);
        return Ok(());
    }
    sink.text(text)
}

/// Copies a `fixed`; some ORBs leave leading zeros out.
fn fixed(octets: usize, reader: &mut Reader<'_>, sink: &mut impl Sink) -> Result<(), Fault> {
    let is_last = |octet: &u8| matches!(octet & 0xF, 0xC | 0xD);
    let Some(last) = reader.rest().iter().take(octets).position(is_last) else {
        return Err(Fault::new("a fixed value without a sign"));
    };
    let bytes = reader.take(last + 1)?;
    let digits = bytes.iter().flat_map(|octet| [octet >> 4, octet & 0xF]).take(bytes.len() * 2 - 1);
    if digits.into_iter().any(|digit| digit > 9) {
        return Err(Fault::new("a fixed value with half octets that are no digits"));
    }
    (bytes.len()..octets).for_each(|_| sink.u8(0));
    sink.octets(bytes);
    Ok(())
}

/// Copies a discriminator, and returns the case that it selects.
fn choose(
    discriminator: Discriminator,
    cases: &[Case],
    default: Option<usize>,
    reader: &mut Reader<'_>,
    sink: &mut impl Sink,
) -> Result<Option<usize>, Fault> {
    let value = match discriminator {
        Discriminator::Bool => {
            let value = reader.bool()?;
            sink.u8(value.into());
            value.into()
        }
        Discriminator::Octet | Discriminator::Number(Number::U8) => {
            let value = reader.u8()?;
            sink.u8(value);
            value.into()
        }
        Discriminator::Enum(labels) => {
            let value = reader.u32()?;
            if value >= labels {
                return Err(Fault::new(format!("{value} is beyond the labels of a union's discriminator")));
            }
            sink.u32(value);
            value.into()
        }
        Discriminator::Number(number) => match number {
            Number::I16 | Number::U16 => {
                let value = reader.u16()?;
                sink.u16(value);
                if number == Number::I16 { value.cast_signed().into() } else { value.into() }
            }
            Number::I32 | Number::U32 => {
                let value = reader.u32()?;
                sink.u32(value);
                if number == Number::I32 { value.cast_signed().into() } else { value.into() }
            }
            _ => {
                let value = reader.u64()?;
                sink.u64(value);
                value.cast_signed()
            }
        },
    };
    Ok(cases.iter().position(|case| case.label == Some(value)).or(default))
}

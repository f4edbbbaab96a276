//! A marshalled `TypeCode`, walked where it lies.
//!
//! CORBA 3.3 part 2, 9.3.5.1. The event path looks at the type of every event, so it neither builds nor allocates
//! anything: it reads the marshalled form again wherever it needs to know a type. [`Types::check`] goes through the whole
//! of it once, and only afterwards values are walked by it.

use super::{Kind, Shape, Work};
use crate::cdr::{Endian, ReadError, ReadErrorKind, Reader, Version};

/// Stands in the place of a kind where an earlier type is referred to.
pub(crate) const INDIRECTION: u32 = 0xFFFF_FFFF;

const BAD_DISCRIMINATOR: ReadErrorKind = ReadErrorKind::Malformed {
    what: "a union discriminated by something else than a number, character, boolean or enum",
};

/// An outermost `TypeCode`: what indirections within it are counted in.
#[derive(Clone, Debug)]
pub(crate) struct Types<'t> {
    /// Stands at the outermost kind.
    start: Reader<'t>,
}

/// One `TypeCode` within the outermost one, its kind read.
#[derive(Clone, Debug)]
pub(crate) struct Node<'t> {
    pub(crate) kind: Kind,
    /// Octets from the outermost kind to this one's.
    pub(crate) start: usize,
    /// Whether it was reached through an indirection, so that it has been seen before.
    pub(crate) indirect: bool,
    /// Stands at the parameters.
    pub(crate) params: Reader<'t>,
}

impl<'t> Types<'t> {
    /// The `TypeCode` that `reader` stands in front of. `reader` moves to its kind.
    #[inline]
    pub(crate) fn open(reader: &mut Reader<'t>) -> Result<Self, ReadError> {
        reader.align(4)?;
        Ok(Self { start: reader.clone() })
    }

    /// A reader that stands at the outermost kind.
    #[inline]
    pub(crate) fn start(&self) -> Reader<'t> {
        self.start.clone()
    }

    /// Reads a kind, follows an indirection, and opens the parameters. `reader` moves behind the `TypeCode`.
    #[inline]
    pub(crate) fn node(&self, reader: &mut Reader<'t>) -> Result<Node<'t>, ReadError> {
        let number = reader.u32()?;
        if number == INDIRECTION {
            return self.indirection(reader);
        }
        let start = reader.offset() - 4 - self.start.offset();
        let (kind, params) = params(number, reader)?;
        Ok(Node { kind, start, indirect: false, params })
    }

    /// As [`Types::node`], but behind any aliases and, within the parameters, behind the repository id and name.
    #[inline]
    pub(crate) fn resolve(&self, reader: &mut Reader<'t>, work: &mut Work) -> Result<Node<'t>, ReadError> {
        let node = self.node(reader)?;
        self.resolved(node, work)
    }

    #[inline]
    pub(crate) fn resolved(&self, mut node: Node<'t>, work: &mut Work) -> Result<Node<'t>, ReadError> {
        loop {
            if node.kind.is_named() {
                node.params.string()?;
                node.params.string()?;
            }
            if node.kind != Kind::Alias {
                return Ok(node);
            }
            work.step(&node.params)?;
            node = self.node(&mut node.params)?;
        }
    }

    /// The kind of the labels of a union whose discriminator's type `reader` stands in front of.
    pub(crate) fn discriminator(&self, reader: &mut Reader<'t>, work: &mut Work) -> Result<Kind, ReadError> {
        let kind = self.resolve(reader, work)?.kind;
        if kind.discriminates() { Ok(kind) } else { Err(reader.error(BAD_DISCRIMINATOR)) }
    }

    /// Follows an indirection whose marker has been read: a distance from its own place back to an earlier kind.
    ///
    /// That it points to where a type begins is left to [`Types::check`].
    #[cold]
    fn indirection(&self, reader: &mut Reader<'t>) -> Result<Node<'t>, ReadError> {
        let at = reader.offset() - self.start.offset();
        let mut wrong =
            reader.error(ReadErrorKind::Malformed { what: "an indirection that points to no earlier type" });
        wrong.offset -= 4;
        let distance = reader.i32()?;
        let target = isize::try_from(distance).ok().and_then(|distance| at.checked_add_signed(distance));
        let Some(start) = target.filter(|target| target + 4 < at && target % 4 == 0) else {
            return Err(wrong);
        };
        let bytes = self.start.rest().get(start..).unwrap_or_default();
        let Some(number) = bytes.first_chunk::<4>() else {
            return Err(wrong);
        };
        // The target has the byte order of the encapsulation that it lies in, which need not be this one's; but kinds
        // are so small that they are no kinds in the other order (and 0, which is the same in both, has no parameters).
        let mut encoding = reader.encoding();
        encoding.endian = if Kind::from_number(u32::from_be_bytes(*number)).is_some() {
            Endian::Big
        } else if Kind::from_number(u32::from_le_bytes(*number)).is_some() {
            Endian::Little
        } else {
            return Err(wrong);
        };
        // Types begin at multiples of 4 from each other, and nothing in them but labels asks for more. Labels lie in
        // encapsulations, which count for themselves.
        let mut target = Reader::new(bytes, encoding).with_origin(self.start.offset() + start);
        let number = target.u32()?;
        let (kind, params) = params(number, &mut target)?;
        Ok(Node { kind, start, indirect: true, params })
    }

    /// Checks the outermost `TypeCode` whole, given its kind and parameters.
    #[inline]
    pub(crate) fn check(&self, node: &Node<'t>, work: &mut Work, depth: u32) -> Result<Findings, ReadError> {
        if node.indirect {
            // Nothing lies in front of the outermost type that could be referred to.
            return Err(node.params.error(ReadErrorKind::Malformed { what: "an indirection outside any type" }));
        }
        if node.kind.shape() == Shape::Empty {
            return Ok(Findings::default());
        }
        let mut check = Check { types: self, goal: None, found: false, findings: Findings::default() };
        check.params(node, work, depth)?;
        Ok(check.findings)
    }
}

/// What a check noticed about a type that is in order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    /// A union's labels are wide characters, whose layout is not the same in all versions of GIOP.
    pub(crate) wide_labels: bool,
}

/// A walk through all of a `TypeCode`.
struct Check<'c, 't> {
    types: &'c Types<'t>,
    /// Where set, the walk only finds out whether a type begins there, and ends there.
    goal: Option<usize>,
    found: bool,
    findings: Findings,
}

impl<'t> Check<'_, 't> {
    fn type_code(&mut self, reader: &mut Reader<'t>, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        work.step(reader)?;
        let node = self.types.node(reader)?;
        match self.goal {
            Some(goal) => {
                if node.indirect || node.start > goal {
                    return Ok(());
                }
                let behind = reader.offset() - self.types.start.offset();
                self.found |= node.start == goal;
                if self.found || behind <= goal { Ok(()) } else { self.params(&node, work, depth) }
            }
            None if node.indirect => self.points_to_a_type(&node, reader, work),
            None if node.kind.shape() == Shape::Empty => Ok(()),
            None => self.params(&node, work, depth),
        }
    }

    /// Makes sure that an indirection leads to where a type begins, by walking there from the outermost type.
    #[cold]
    fn points_to_a_type(&self, target: &Node<'t>, from: &Reader<'t>, work: &mut Work) -> Result<(), ReadError> {
        let mut search = Check { types: self.types, goal: Some(target.start), found: false, findings: self.findings };
        search.type_code(&mut self.types.start(), work, 0)?;
        if search.found {
            return Ok(());
        }
        Err(from.error(ReadErrorKind::Malformed { what: "an indirection that points into the middle of a type" }))
    }

    fn params(&mut self, node: &Node<'t>, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let mut params = node.params.clone();
        let reader = &mut params;
        let depth = work.deeper(depth, reader)?;
        if node.kind.is_named() {
            reader.string()?;
            reader.string()?;
        }
        match node.kind {
            Kind::Fixed => {
                fixed_digits(reader)?;
            }
            Kind::Sequence | Kind::Array => {
                self.type_code(reader, work, depth)?;
                reader.u32()?;
            }
            Kind::Alias | Kind::ValueBox => self.type_code(reader, work, depth)?,
            Kind::Struct | Kind::Exception => {
                for _ in 0..reader.u32()? {
                    reader.string()?;
                    self.type_code(reader, work, depth)?;
                }
            }
            Kind::Enum => {
                for _ in 0..reader.u32()? {
                    work.step(reader)?;
                    reader.string()?;
                }
            }
            Kind::Union => self.union_params(reader, work, depth)?,
            Kind::Value | Kind::Event => {
                reader.u16()?;
                self.type_code(reader, work, depth)?;
                for _ in 0..reader.u32()? {
                    reader.string()?;
                    self.type_code(reader, work, depth)?;
                    reader.u16()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn union_params(&mut self, reader: &mut Reader<'t>, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        self.type_code(&mut reader.clone(), work, depth)?;
        let discriminator = self.types.discriminator(reader, work)?;
        self.findings.wide_labels |= discriminator == Kind::Wchar;
        let default = reader.i32()?;
        for index in 0..reader.u32()? {
            member_label(reader, discriminator, is_default(index, default))?;
            reader.string()?;
            self.type_code(reader, work, depth)?;
        }
        Ok(())
    }
}

/// Opens the parameters of the kind with that number, which `reader` has just read, and moves behind them.
#[inline]
fn params<'t>(number: u32, reader: &mut Reader<'t>) -> Result<(Kind, Reader<'t>), ReadError> {
    let Some(kind) = Kind::from_number(number) else {
        let mut wrong = reader.error(ReadErrorKind::BadValue { what: "TCKind", value: number });
        wrong.offset -= 4;
        return Err(wrong);
    };
    let params = match kind.shape() {
        Shape::Empty => reader.clone(),
        Shape::Simple => {
            let params = reader.clone();
            reader.take(4)?;
            params
        }
        Shape::Complex => reader.encapsulation()?,
    };
    Ok((kind, params))
}

/// The number of digits of a `fixed` type, with its scale checked too.
pub(crate) fn fixed_digits(params: &mut Reader<'_>) -> Result<(u16, i16), ReadError> {
    let (digits, scale) = (params.u16()?, params.i16()?);
    if (1..=31).contains(&digits) && (-31..=31).contains(&scale) {
        return Ok((digits, scale));
    }
    // CORBA 3.3 part 1, 7.11.3.5: at most 31 digits.
    Err(params.error(ReadErrorKind::BadValue { what: "the digits of a fixed type", value: u32::from(digits) }))
}

/// Whether the member at `index` is the one that `default used` names.
pub(crate) fn is_default(index: u32, default: i32) -> bool {
    u32::try_from(default) == Ok(index)
}

/// A discriminator or label as a number that two of them can be compared by: sign-extended, or the units of a `wchar`.
#[inline]
pub(crate) fn discriminator(reader: &mut Reader<'_>, kind: Kind) -> Result<u64, ReadError> {
    Ok(match kind {
        Kind::Boolean => u64::from(reader.bool()?),
        Kind::Char | Kind::Octet => u64::from(reader.u8()?),
        Kind::Short => i64::from(reader.i16()?).cast_unsigned(),
        Kind::UShort => u64::from(reader.u16()?),
        Kind::Long => i64::from(reader.i32()?).cast_unsigned(),
        Kind::ULong | Kind::Enum => u64::from(reader.u32()?),
        Kind::LongLong | Kind::ULongLong => reader.u64()?,
        Kind::Wchar => {
            let c = reader.wchar()?;
            u64::from(c.second().unwrap_or(0)) << 16 | u64::from(c.first())
        }
        _ => return Err(reader.error(BAD_DISCRIMINATOR)),
    })
}

/// The label of a union's member.
///
/// CORBA 3.3 part 2, 9.3.5.1.3 wants some value of the discriminator's type for the default member too, one without
/// meaning. But there are ORBs (JacORB) that send one octet there, following what `member_label` returns in the
/// programming interface. Mostly the octet and its padding look like a number; where they do not, what follows tells.
pub(crate) fn member_label(reader: &mut Reader<'_>, kind: Kind, is_default: bool) -> Result<u64, ReadError> {
    if !is_default {
        return discriminator(reader, kind);
    }
    let mut as_octet = reader.clone();
    let octet = as_octet.u8()?;
    as_octet.align(4)?;
    let mut as_value = reader.clone();
    if let Ok(label) = discriminator(&mut as_value, kind) {
        let behind = as_value.clone();
        if as_value.align(4).is_ok() && as_value.position() == as_octet.position()
            || looks_like_a_member(behind.clone())
        {
            *reader = behind;
            return Ok(label);
        }
    }
    *reader = as_octet;
    Ok(u64::from(octet))
}

/// Whether a name and a kind follow.
fn looks_like_a_member(mut reader: Reader<'_>) -> bool {
    // No more of the name than identifiers need: this may be asked for each of many values of a hostile type.
    let named = reader.string().is_ok_and(|name| name.iter().take(64).all(|octet| *octet != 0));
    named && reader.u32().is_ok_and(|number| number == INDIRECTION || Kind::from_number(number).is_some())
}

/// Whether wide characters lie alike in both versions.
#[inline]
pub(crate) fn same_wide_layout(a: Version, b: Version) -> bool {
    (a < Version::V1_2) == (b < Version::V1_2)
}

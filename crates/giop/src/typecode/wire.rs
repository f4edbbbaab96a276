//! A marshalled `TypeCode`, walked in place.
//!
//! CORBA 3.3 part 2, 9.3.5.1. The event path reads the type of every event, so it neither builds nor allocates: it reads the marshalled
//! form again whenever it needs a type. [`Types::check`] checks the whole of it once; values are walked by it only afterwards.
//!
//! A [`Reader`] is too large to be copied for each of the many remembered places in a type, so places are small, and [`Types`], which has
//! the bytes, does the reading. Always inlining the marked functions halves the cost of a walk: a place returned through memory is written
//! in parts and read as a whole, which stalls a processor.

use super::{Kind, Shape, Work};
use crate::cdr::{CharSet, Encoding, Endian, ReadError, ReadErrorKind, Reader, Version};

/// Stands in the place of a kind where an earlier type is referred to.
pub(crate) const INDIRECTION: u32 = 0xFFFF_FFFF;

/// Maximum octets of a type, so that places can be rounded up. No message is as long.
const LENGTH_MAX: usize = (u32::MAX - 64) as usize;

const BAD_DISCRIMINATOR: ReadErrorKind = ReadErrorKind::Malformed {
    what: "a union discriminated by something else than a number, character, boolean or enum",
};

/// The bytes of an outermost `TypeCode`: what indirections within it are counted in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types<'t> {
    /// From the outermost kind on, beyond the end of the type.
    bytes: &'t [u8],
    /// Offset of `bytes` in the message, added to the offsets that errors name.
    origin: usize,
    /// Encoding outside of encapsulations.
    encoding: Encoding,
}

/// A place in a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: u32,
    /// End of its encapsulation.
    end: u32,
    /// Begin of its encapsulation, from which the alignment of labels is counted. Everything else is aligned to at most 4, which can as
    /// well be counted from the outermost kind, since encapsulations begin at multiples of 4.
    begin: u32,
    endian: Endian,
}

/// A `TypeCode` within the outermost one, after reading its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Whether it was reached through an indirection, and so has been seen before.
    pub(crate) indirect: bool,
    /// Octets from the outermost kind to this one's.
    pub(crate) start: u32,
    /// The parameters; [`Types::resolve`] moves behind repository id and name.
    pub(crate) params: Place,
}

impl<'t> Types<'t> {
    /// The `TypeCode` that `reader` stands in front of, and the place of its kind. `reader` moves to its kind.
    #[inline(always)]
    pub(crate) fn open(reader: &mut Reader<'t>) -> Result<(Self, Place), ReadError> {
        reader.align(4)?;
        let bytes = reader.rest();
        let bytes = bytes.get(..LENGTH_MAX).unwrap_or(bytes);
        let types = Self { bytes, origin: reader.offset(), encoding: reader.encoding() };
        Ok((types, types.start()))
    }

    /// The code set of repository ids and names.
    pub(crate) fn chars(&self) -> CharSet {
        self.encoding.chars
    }

    /// The place of the outermost kind.
    #[inline]
    fn start(&self) -> Place {
        let end = u32::try_from(self.bytes.len()).unwrap_or(0);
        Place { at: 0, end, begin: 0, endian: self.encoding.endian }
    }

    /// Moves a reader that stands at the outermost kind to `behind` the type.
    #[inline]
    pub(crate) fn finish(&self, reader: &mut Reader<'t>, behind: Place) -> Result<&'t [u8], ReadError> {
        reader.take(behind.at as usize)
    }

    // ---- what a type consists of ----

    #[inline(always)]
    fn number<const N: usize>(&self, place: &mut Place, at: u32) -> Result<&'t [u8; N], ReadError> {
        let available = self.bytes.get(at as usize..place.end as usize).unwrap_or_default();
        let Some(chunk) = available.first_chunk::<N>() else {
            return Err(self.truncated(place, N));
        };
        place.at = at + u32::try_from(N).unwrap_or(0);
        Ok(chunk)
    }

    #[inline]
    pub(crate) fn u16(&self, place: &mut Place) -> Result<u16, ReadError> {
        let number = *self.number(place, rounded(place.at, 2))?;
        Ok(if place.endian == Endian::Big { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) })
    }

    #[inline(always)]
    pub(crate) fn u32(&self, place: &mut Place) -> Result<u32, ReadError> {
        let number = *self.number(place, rounded(place.at, 4))?;
        Ok(if place.endian == Endian::Big { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) })
    }

    #[inline]
    pub(crate) fn i32(&self, place: &mut Place) -> Result<i32, ReadError> {
        self.u32(place).map(u32::cast_signed)
    }

    /// A repository id or name, without its NUL.
    #[inline(always)]
    pub(crate) fn string(&self, place: &mut Place) -> Result<&'t [u8], ReadError> {
        let length = self.u32(place)?;
        if length == 0 {
            // No string has this length, but some ORBs send it for the empty one.
            return Ok(&[]);
        }
        let available = self.bytes.get(place.at as usize..place.end as usize).unwrap_or_default();
        match available.get(..length as usize).map(<[u8]>::split_last) {
            Some(Some((0, text))) => {
                place.at += length;
                Ok(text)
            }
            Some(_) => Err(self.error(*place, ReadErrorKind::MissingNul)),
            None => Err(self.too_long(*place, length)),
        }
    }

    /// Skips a name.
    #[inline(always)]
    pub(crate) fn skip_string(&self, place: &mut Place) -> Result<(), ReadError> {
        self.string(place).map(|_| ())
    }

    /// Reads a kind, follows an indirection, and finds the parameters. `place` moves behind the `TypeCode`.
    #[inline(always)]
    pub(crate) fn node(&self, place: &mut Place) -> Result<Node, ReadError> {
        let number = self.u32(place)?;
        self.node_of(place, number)
    }

    /// Reads a node as [`Types::node`] does, after the kind's number.
    #[inline(always)]
    pub(crate) fn node_of(&self, place: &mut Place, number: u32) -> Result<Node, ReadError> {
        if number == INDIRECTION { self.indirection(place) } else { self.direct(place, number) }
    }

    /// Reads a type after its kind's number, which is no indirection.
    #[inline(always)]
    fn direct(&self, place: &mut Place, number: u32) -> Result<Node, ReadError> {
        let start = place.at - 4;
        let Some(kind) = Kind::from_number(number) else {
            let kind = ReadErrorKind::BadValue { what: "TCKind", value: number };
            return Err(self.error(Place { at: start, ..*place }, kind));
        };
        let params = match kind.shape() {
            Shape::Empty => *place,
            Shape::Simple => {
                let params = *place;
                self.number::<4>(place, place.at)?;
                params
            }
            Shape::Complex => self.encapsulation(place)?,
        };
        Ok(Node { kind, indirect: false, start, params })
    }

    #[inline(always)]
    fn encapsulation(&self, place: &mut Place) -> Result<Place, ReadError> {
        let length = self.u32(place)?;
        let begin = place.at;
        if length > place.end - begin {
            return Err(self.too_long(*place, length));
        }
        let endian = match self.bytes.get(begin as usize) {
            Some(0) if length > 0 => Endian::Big,
            Some(1) if length > 0 => Endian::Little,
            Some(&value) if length > 0 => {
                let kind = ReadErrorKind::BadValue { what: "byte order", value: u32::from(value) };
                return Err(self.error(*place, kind));
            }
            _ => return Err(self.truncated(place, 1)),
        };
        place.at = begin + length;
        Ok(Place { at: begin + 1, end: begin + length, begin, endian })
    }

    /// Reads a node as [`Types::node`] does, but behind any aliases and, within the parameters, behind the repository id and name.
    #[inline(always)]
    pub(crate) fn resolve(&self, place: &mut Place, work: &mut Work) -> Result<Node, ReadError> {
        let node = self.node(place)?;
        self.resolved(node, work)
    }

    #[inline(always)]
    pub(crate) fn resolved(&self, mut node: Node, work: &mut Work) -> Result<Node, ReadError> {
        if node.kind == Kind::Alias {
            return self.original(node, work);
        }
        if node.kind.is_named() {
            self.skip_string(&mut node.params)?;
            self.skip_string(&mut node.params)?;
        }
        Ok(node)
    }

    /// The original type of an alias.
    fn original(&self, mut node: Node, work: &mut Work) -> Result<Node, ReadError> {
        while node.kind == Kind::Alias {
            work.step(self.offset(node.params))?;
            self.skip_string(&mut node.params)?;
            self.skip_string(&mut node.params)?;
            node = self.node(&mut node.params)?;
        }
        if node.kind.is_named() {
            self.skip_string(&mut node.params)?;
            self.skip_string(&mut node.params)?;
        }
        Ok(node)
    }

    /// The kind of the labels of a union, with `place` in front of its discriminator's type.
    #[inline]
    pub(crate) fn discriminator(&self, place: &mut Place, work: &mut Work) -> Result<Kind, ReadError> {
        let kind = self.resolve(place, work)?.kind;
        if kind.discriminates() { Ok(kind) } else { Err(self.error(*place, BAD_DISCRIMINATOR)) }
    }

    /// The number of digits of a `fixed` type, and how many are behind the point.
    pub(crate) fn fixed(&self, place: &mut Place) -> Result<(u16, i16), ReadError> {
        let (digits, scale) = (self.u16(place)?, self.u16(place)?.cast_signed());
        if (1..=31).contains(&digits) && (-31..=31).contains(&scale) {
            return Ok((digits, scale));
        }
        // CORBA 3.3 part 1, 7.11.3.5: at most 31 digits.
        let kind = ReadErrorKind::BadValue { what: "the digits of a fixed type", value: u32::from(digits) };
        Err(self.error(*place, kind))
    }

    /// The label of a union's member, as [`discriminator`] would read it from a value.
    ///
    /// CORBA 3.3 part 2, 9.3.5.1 wants some value of the discriminator's type for the default member too, one without
    /// meaning. But there are ORBs (JacORB) that send one octet there, following what `member_label` returns in the
    /// programming interface. Mostly the octet and its padding look like a number; where they do not, what follows tells.
    #[inline]
    pub(crate) fn label(&self, place: &mut Place, kind: Kind, is_default: bool) -> Result<u64, ReadError> {
        if is_default { self.default_label(place, kind) } else { self.plain_label(place, kind) }
    }

    #[inline]
    fn plain_label(&self, place: &mut Place, kind: Kind) -> Result<u64, ReadError> {
        if matches!(kind, Kind::Long | Kind::Enum) {
            let number = self.u32(place)?;
            let signed = i64::from(number.cast_signed()).cast_unsigned();
            return Ok(if kind == Kind::Long { signed } else { u64::from(number) });
        }
        let bytes = self.bytes.get(place.at as usize..place.end as usize).unwrap_or_default();
        let encoding = Encoding { endian: place.endian, ..self.encoding };
        let phase = (place.at - place.begin) as usize;
        let mut reader = Reader::with_phase(bytes, phase, encoding).with_origin(self.offset(*place));
        let label = discriminator(&mut reader, kind)?;
        place.at += u32::try_from(reader.position()).unwrap_or(0);
        Ok(label)
    }

    #[cold]
    fn default_label(&self, place: &mut Place, kind: Kind) -> Result<u64, ReadError> {
        let octet: [u8; 1] = *self.number(place, place.at)?;
        let as_octet = Place { at: rounded(place.at, 4), ..*place };
        place.at -= 1;
        let mut as_value = *place;
        if let Ok(label) = self.plain_label(&mut as_value, kind)
            && (rounded(as_value.at, 4) == as_octet.at || self.looks_like_a_member(as_value))
        {
            *place = as_value;
            return Ok(label);
        }
        *place = as_octet;
        Ok(u64::from(octet[0]))
    }

    /// Whether a name and a kind follow.
    fn looks_like_a_member(&self, mut place: Place) -> bool {
        // No more of the name than identifiers need: this may be asked for each of many values of a hostile type.
        let named = self.string(&mut place).is_ok_and(|name| name.iter().take(64).all(|octet| *octet != 0));
        named && self.u32(&mut place).is_ok_and(|number| number == INDIRECTION || Kind::from_number(number).is_some())
    }

    /// Follows an indirection behind its marker: a distance from its own place back to an earlier kind.
    ///
    /// [`Types::check`] verifies that it points to the beginning of a type.
    #[cold]
    fn indirection(&self, place: &mut Place) -> Result<Node, ReadError> {
        let what = "an indirection that points to no earlier type";
        let wrong = self.error(Place { at: place.at - 4, ..*place }, ReadErrorKind::Malformed { what });
        let at = place.at;
        let distance = self.i32(place)?;
        let Some(start) = at.checked_add_signed(distance).filter(|start| start + 4 < at && start % 4 == 0) else {
            return Err(wrong);
        };
        let Some(number) = self.bytes.get(start as usize..).and_then(|bytes| bytes.first_chunk::<4>()) else {
            return Err(wrong);
        };
        // The target has the byte order of the encapsulation that it lies in, which need not be this one's; but kinds
        // are so small that they are no kinds in the other order (and 0, which is the same in both, has no parameters).
        let (big, little) = (u32::from_be_bytes(*number), u32::from_le_bytes(*number));
        let (number, endian) = match (Kind::from_number(big), Kind::from_number(little)) {
            (Some(_), _) => (big, Endian::Big),
            (None, Some(_)) => (little, Endian::Little),
            (None, None) => return Err(wrong),
        };
        let mut target = Place { at: start + 4, endian, ..self.start() };
        Ok(Node { indirect: true, ..self.direct(&mut target, number)? })
    }

    /// Checks the outermost `TypeCode` whole, given its kind and parameters.
    #[inline]
    pub(crate) fn check(&self, node: &Node, work: &mut Work, depth: u32) -> Result<Findings, ReadError> {
        if node.indirect {
            // Nothing lies in front of the outermost type that could be referred to.
            let what = "an indirection outside any type";
            return Err(self.error(node.params, ReadErrorKind::Malformed { what }));
        }
        if node.kind.shape() == Shape::Empty {
            return Ok(Findings::default());
        }
        let mut check = Check { types: self, goal: None, found: false, findings: Findings::default() };
        check.params(node, work, depth)?;
        Ok(check.findings)
    }

    // ---- errors ----

    /// The offset of a place, for errors.
    #[inline]
    pub(crate) fn offset(&self, place: Place) -> usize {
        self.origin + place.at as usize
    }

    #[cold]
    pub(crate) fn error(&self, place: Place, kind: ReadErrorKind) -> ReadError {
        ReadError { offset: self.offset(place), kind }
    }

    #[cold]
    fn truncated(&self, place: &Place, needed: usize) -> ReadError {
        self.error(*place, ReadErrorKind::Truncated { needed, available: place.end.saturating_sub(place.at) as usize })
    }

    #[cold]
    fn too_long(&self, place: Place, length: u32) -> ReadError {
        let available = place.end.saturating_sub(place.at) as usize;
        self.error(Place { at: place.at - 4, ..place }, ReadErrorKind::TooLong { length, available })
    }
}

/// Findings of a check about a valid type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    /// Whether a union's labels are wide characters, which have different layouts in the versions of GIOP.
    pub(crate) wide_labels: bool,
}

/// A walk through all of a `TypeCode`.
struct Check<'c, 't> {
    types: &'c Types<'t>,
    /// If set, the walk only determines whether a type begins there, and ends there.
    goal: Option<u32>,
    found: bool,
    findings: Findings,
}

impl Check<'_, '_> {
    #[inline]
    fn type_code(&mut self, place: &mut Place, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        work.step(self.types.offset(*place))?;
        let number = self.types.u32(place)?;
        if self.goal.is_none() && Kind::from_number(number).is_some_and(|kind| kind.shape() == Shape::Empty) {
            // Most members have such types.
            return Ok(());
        }
        let node = self.types.node_of(place, number)?;
        match self.goal {
            None if node.indirect => self.points_to_a_type(node, *place, work),
            None => self.params(&node, work, depth),
            Some(goal) if node.indirect || node.start > goal => Ok(()),
            Some(goal) => {
                self.found |= node.start == goal;
                if self.found || place.at <= goal { Ok(()) } else { self.params(&node, work, depth) }
            }
        }
    }

    /// Makes sure that an indirection leads to where a type begins, by walking there from the outermost type.
    #[cold]
    fn points_to_a_type(&self, target: Node, from: Place, work: &mut Work) -> Result<(), ReadError> {
        let mut search = Check { goal: Some(target.start), ..*self };
        search.type_code(&mut self.types.start(), work, 0)?;
        if search.found {
            return Ok(());
        }
        let what = "an indirection that points into the middle of a type";
        Err(self.types.error(from, ReadErrorKind::Malformed { what }))
    }

    fn params(&mut self, node: &Node, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let types = self.types;
        let place = &mut node.params.clone();
        let depth = work.deeper(depth, types.offset(*place))?;
        if node.kind.is_named() {
            types.skip_string(place)?;
            types.skip_string(place)?;
        }
        match node.kind {
            Kind::Fixed => {
                types.fixed(place)?;
            }
            Kind::Sequence | Kind::Array => {
                self.type_code(place, work, depth)?;
                types.u32(place)?;
            }
            Kind::Alias | Kind::ValueBox => self.type_code(place, work, depth)?,
            Kind::Struct | Kind::Exception => {
                for _ in 0..types.u32(place)? {
                    types.skip_string(place)?;
                    self.type_code(place, work, depth)?;
                }
            }
            Kind::Enum => {
                for _ in 0..types.u32(place)? {
                    work.step(types.offset(*place))?;
                    types.skip_string(place)?;
                }
            }
            Kind::Union => self.union_params(place, work, depth)?,
            Kind::Value | Kind::Event => {
                types.u16(place)?;
                self.type_code(place, work, depth)?;
                for _ in 0..types.u32(place)? {
                    types.skip_string(place)?;
                    self.type_code(place, work, depth)?;
                    types.u16(place)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn union_params(&mut self, place: &mut Place, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let types = self.types;
        self.type_code(&mut place.clone(), work, depth)?;
        let discriminator = types.discriminator(place, work)?;
        self.findings.wide_labels |= discriminator == Kind::Wchar;
        let default = types.i32(place)?;
        for index in 0..types.u32(place)? {
            types.label(place, discriminator, is_default(index, default))?;
            types.skip_string(place)?;
            self.type_code(place, work, depth)?;
        }
        Ok(())
    }
}

/// The next multiple of a power of two. [`LENGTH_MAX`] prevents overflow.
#[inline]
const fn rounded(at: u32, to: u32) -> u32 {
    (at + (to - 1)) & !(to - 1)
}

/// Whether the member at `index` is the one that `default used` names.
#[inline]
pub(crate) fn is_default(index: u32, default: i32) -> bool {
    u32::try_from(default) == Ok(index)
}

/// Reads a discriminator or label as a number for comparison: sign-extended, or the units of a `wchar`.
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

/// Whether wide characters lie alike in both versions.
#[inline]
pub(crate) fn same_wide_layout(a: Version, b: Version) -> bool {
    a == b || (a < Version::V1_2 && b < Version::V1_2)
}

//! XTypes to `TypeCode`: the types of remote topics.
//!
//! `shim/types.c` writes a type down, in preorder and this machine's byte order: an octet for the kind (XTypes 1.3, 7.3.1.2:
//! `TK_…`), then what belongs to the kind. A name is a count and that many octets; numbers have four octets.
//!
//! | kind | then |
//! |---|---|
//! | string | bound |
//! | alias | name, type |
//! | enumeration | name, bits, count, for each literal: name, value |
//! | structure | name, flags, whether there is a base (an octet) and the base, count, for each member: name, flags, type |
//! | union | name, flags, discriminator, count, for each member: name, flags, count of labels, labels, type |
//! | sequence | bound, type |
//! | array | count of dimensions, their lengths, type |

use giop::typecode::{Kind, TypeCode};

use crate::types::{Naming, repository_id};

const STRUCTURE: u8 = 81;
/// Maximum depth of a structure's inheritance.
const BASES_MAX: u32 = 32;
/// XTypes 1.3, 7.3.4.2: a type's flags.
const IS_MUTABLE: u32 = 1 << 2;
/// A member's flags.
const IS_OPTIONAL: u32 = 1 << 3;
const IS_DEFAULT: u32 = 1 << 6;

/// Reads a type description. Types without a CORBA equivalent, or with another form on the wire than CORBA's CDR, are refused.
///
/// # Errors
/// The reason, in words.
pub(crate) fn type_code(bytes: &[u8], naming: Naming) -> Result<TypeCode, String> {
    Description { bytes, naming }.one()
}

/// A structure's name and its members.
type Named<'a> = (&'a str, Vec<(&'a str, TypeCode)>);

struct Description<'a> {
    bytes: &'a [u8],
    naming: Naming,
}

impl<'a> Description<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("the description ends early")?;
        self.bytes = rest;
        Ok(taken)
    }

    fn octet(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }

    fn number(&mut self) -> Result<u32, String> {
        let octets = self.take(4)?.try_into().map_err(|_| "the description ends early")?;
        Ok(u32::from_ne_bytes(octets))
    }

    fn count(&mut self) -> Result<usize, String> {
        usize::try_from(self.number()?).map_err(|_| "a count is out of range".into())
    }

    fn name(&mut self) -> Result<&'a str, String> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| "a name is no text".into())
    }

    fn one(&mut self) -> Result<TypeCode, String> {
        let kind = self.octet()?;
        let primitive = match kind {
            1 => Kind::Boolean,
            // XTypes tells three types of eight bits apart, of which CORBA has one.
            2 | 12 | 13 => Kind::Octet,
            3 => Kind::Short,
            4 => Kind::Long,
            5 => Kind::LongLong,
            6 => Kind::UShort,
            7 => Kind::ULong,
            8 => Kind::ULongLong,
            9 => Kind::Float,
            10 => Kind::Double,
            16 => Kind::Char,
            17 => Kind::Wchar,
            32 => return Ok(TypeCode::bounded_string(self.number()?)),
            33 => return Ok(TypeCode::bounded_wstring(self.number()?)),
            48 => return self.alias(),
            64 => return self.enumeration(),
            STRUCTURE => return self.structure(),
            82 => return self.union(),
            96 => {
                let bound = self.number()?;
                return Ok(TypeCode::bounded_sequence(self.one()?, bound));
            }
            97 => return self.array(),
            11 => return Err("a float of 128 bits does not travel".into()),
            65 => return Err("a bitmask has no CORBA type".into()),
            83 => return Err("a bitset has no CORBA type".into()),
            98 => return Err("a map has no CORBA type".into()),
            other => return Err(format!("types of kind {other} are not known")),
        };
        Ok(TypeCode::primitive(primitive))
    }

    /// Repository id and name of a type: `demo::Wind` is `IDL:demo/Wind:1.0`, named `Wind`.
    fn named(&self, full: &str) -> (String, String) {
        let id = repository_id(full, self.naming);
        let path = id.strip_suffix(":1.0").unwrap_or(&id);
        let name = path.rsplit(['/', ':']).next().unwrap_or(full).to_owned();
        (id, name)
    }

    fn alias(&mut self) -> Result<TypeCode, String> {
        let full = self.name()?;
        let (id, name) = self.named(full);
        Ok(TypeCode::alias(&id, &name, self.one()?))
    }

    fn enumeration(&mut self) -> Result<TypeCode, String> {
        let full = self.name()?;
        if self.number()? != 32 {
            return Err(format!("enumeration {full} has other than 32 bits"));
        }
        let mut labels = Vec::new();
        for expected in 0..self.number()? {
            labels.push(self.name()?);
            if self.number()? != expected {
                return Err(format!("enumeration {full} has values that do not count from 0"));
            }
        }
        let (id, name) = self.named(full);
        Ok(TypeCode::enumeration(&id, &name, &labels))
    }

    fn structure(&mut self) -> Result<TypeCode, String> {
        let (full, members) = self.members(0)?;
        let (id, name) = self.named(full);
        Ok(TypeCode::structure(&id, &name, &members))
    }

    /// The name of a structure and its members, those of its base first, as on the wire.
    fn members(&mut self, depth: u32) -> Result<Named<'a>, String> {
        let full = self.name()?;
        if self.number()? & IS_MUTABLE != 0 {
            return Err(format!("struct {full} is mutable"));
        }
        let mut members = Vec::new();
        if self.octet()? != 0 {
            if self.octet()? != STRUCTURE || depth > BASES_MAX {
                return Err(format!("struct {full} has a base that is no struct"));
            }
            members = self.members(depth + 1)?.1;
        }
        for _ in 0..self.number()? {
            let name = self.name()?;
            if self.number()? & IS_OPTIONAL != 0 {
                return Err(format!("struct {full} has an optional member, {name}"));
            }
            members.push((name, self.one()?));
        }
        Ok((full, members))
    }

    fn union(&mut self) -> Result<TypeCode, String> {
        let full = self.name()?;
        if self.number()? & IS_MUTABLE != 0 {
            return Err(format!("union {full} is mutable"));
        }
        let discriminator = self.one()?;
        let mut members = Vec::new();
        for _ in 0..self.number()? {
            let name = self.name()?;
            let is_default = self.number()? & IS_DEFAULT != 0;
            let mut labels = Vec::new();
            for _ in 0..self.number()? {
                labels.push(Some(i64::from(self.number()?.cast_signed())));
            }
            if is_default {
                labels.push(None);
            }
            let of = self.one()?;
            members.extend(labels.into_iter().map(|label| (label, name, of.clone())));
        }
        let (id, name) = self.named(full);
        Ok(TypeCode::union(&id, &name, discriminator, &members))
    }

    fn array(&mut self) -> Result<TypeCode, String> {
        let lengths = (0..self.number()?).map(|_| self.number()).collect::<Result<Vec<_>, _>>()?;
        let element = self.one()?;
        Ok(lengths.into_iter().rev().fold(element, TypeCode::array))
    }
}

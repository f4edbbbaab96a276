//! One value within an `Any`, reached where it lies.
//!
//! A filter asks an event for one field among many. A [`Cursor`] goes there step by step along the marshalled type, skipping everything in
//! between, and reads that field. It builds and allocates nothing. Aliases and `Any`s are entered: a cursor never stands at either.
//!
//! The bytes should have been checked once ([`skip_any`](crate::recode::skip_any)), as every event is when it arrives, since a cursor reads
//! no more of a type than it needs. On unchecked bytes its results may be wrong, but it neither panics nor runs for long: every step is
//! charged to a [`Work`].
//!
//! A step returns a `Result` of an `Option`: an error says that the bytes cannot be read or that the work is spent, `None` that this value
//! has no such part.

mod named;
mod number;
mod scalar;
#[cfg(test)]
mod tests;

pub use named::{find_named, is_text, pass_named};
pub use scalar::Scalar;

use crate::cdr::{ReadError, Reader, WideChar};
use crate::recode::{pass_elements, pass_value};
use crate::typecode::wire::{self, Node, Place, Types};
use crate::typecode::{Kind, Work};

/// A value of some type, in place.
///
/// ```
/// use campanile_giop::cdr::{Encoding, Endian, Reader, Writer};
/// use campanile_giop::cursor::{Cursor, Scalar};
/// use campanile_giop::typecode::{Kind, TypeCode, Work};
/// use campanile_giop::value::{AnyValue, Value};
///
/// let position = TypeCode::structure(
///     "IDL:demo/Position:1.0",
///     "Position",
///     &[("azimuth", TypeCode::primitive(Kind::Double)), ("antenna", TypeCode::string())],
/// );
/// let fields = vec![("azimuth".into(), Value::Double(1.5)), ("antenna".into(), Value::String("DV01".into()))];
/// let any = AnyValue::new(position, Value::Struct { type_name: "Position".into(), fields });
/// let mut bytes = Vec::new();
/// any.write(&mut Writer::new(&mut bytes, Encoding::new(Endian::Little))).unwrap();
///
/// let work = &mut Work::default();
/// let event = Cursor::any(Reader::new(&bytes, Encoding::new(Endian::Little)), work)?;
/// assert_eq!(event.type_name(), Some(&b"Position"[..]));
/// let antenna = event.member("antenna", work)?.expect("a member of that name");
/// assert!(matches!(antenna.scalar(work)?, Some(Scalar::Text(b"DV01"))));
/// assert!(event.member("elevation", work)?.is_none());
/// # Ok::<(), campanile_giop::cdr::ReadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    types: Types<'a>,
    /// The type as it was declared: perhaps an alias.
    declared: Node,
    /// The type behind aliases; its parameters behind repository id and name.
    node: Node,
    /// Stands in front of the value.
    value: Reader<'a>,
}

/// A union's label, to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'l> {
    /// Label of a union discriminated by an integer or an octet; for one discriminated by an enum, the enumerator's ordinal.
    Int(i64),
    /// Label of a union discriminated by a boolean.
    Bool(bool),
    /// Label of a union discriminated by a `char` or `wchar`.
    Char(char),
    /// Label of a union discriminated by an enum: the enumerator's name.
    Name(&'l str),
}

/// State of a union's default member.
#[derive(Clone, Debug)]
pub enum DefaultMember<'a> {
    /// The default member.
    Member(Cursor<'a>),
    /// No member: none has the discriminator's label, and the type has no default member.
    Nothing,
    /// Another member is held.
    Another,
}

/// A member of a union.
struct Branch<'a> {
    name: &'a [u8],
    index: u32,
    node: Node,
    is_default: bool,
}

impl<'a> Cursor<'a> {
    // ---- where a way begins ----

    /// A cursor at the value of the `Any` in front of `reader`.
    ///
    /// # Errors
    /// There is no `Any`, or `work` does not suffice.
    pub fn any(mut reader: Reader<'a>, work: &mut Work) -> Result<Self, ReadError> {
        let (types, mut place) = Types::open(&mut reader)?;
        let node = types.node(&mut place)?;
        types.finish(&mut reader, place)?;
        Self::resolve_value(types, node, reader, work)
    }

    /// A cursor at a value with its type elsewhere, in front of `type_code`.
    ///
    /// # Errors
    /// There is no `TypeCode`, or `work` does not suffice.
    pub fn typed(mut type_code: Reader<'a>, value: Reader<'a>, work: &mut Work) -> Result<Self, ReadError> {
        let (types, mut place) = Types::open(&mut type_code)?;
        let node = types.node(&mut place)?;
        Self::resolve_value(types, node, value, work)
    }

    /// Looks through aliases and values within an `Any`.
    #[inline]
    fn resolve_value(
        mut types: Types<'a>,
        mut declared: Node,
        mut value: Reader<'a>,
        work: &mut Work,
    ) -> Result<Self, ReadError> {
        loop {
            work.step(value.offset())?;
            let node = types.resolved(declared, work)?;
            if node.kind != Kind::Any {
                return Ok(Self { types, declared, node, value });
            }
            let mut place;
            (types, place) = Types::open(&mut value)?;
            declared = types.node(&mut place)?;
            types.finish(&mut value, place)?;
        }
    }

    // ---- what it is ----

    /// The value's kind; never an alias or an `Any`.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.node.kind
    }

    /// The unscoped name of its type, as declared: for an alias, the alias's. `None` for types without one. In the code set of the bytes,
    /// where identifiers are ASCII.
    #[must_use]
    pub fn type_name(&self) -> Option<&'a [u8]> {
        self.identity().map(|(_, name)| name)
    }

    /// The repository id of its type, like [`Cursor::type_name`].
    #[must_use]
    pub fn repository_id(&self) -> Option<&'a [u8]> {
        self.identity().map(|(id, _)| id)
    }

    /// A reader that stands in front of the value, behind any type.
    #[must_use]
    pub fn reader(&self) -> Reader<'a> {
        self.value.clone()
    }

    fn identity(&self) -> Option<(&'a [u8], &'a [u8])> {
        let mut place = self.declared.params;
        let named = self.declared.kind.is_named();
        named.then(|| Some((self.types.string(&mut place).ok()?, self.types.string(&mut place).ok()?))).flatten()
    }

    // ---- structures, exceptions and unions ----

    /// The member of that name of a structure or exception; for a union the member that it holds, if that has the name.
    ///
    /// # Errors
    /// The bytes cannot be read, or `work` does not suffice.
    pub fn member(&self, name: &str, work: &mut Work) -> Result<Option<Self>, ReadError> {
        let wanted = name.as_bytes();
        match self.node.kind {
            Kind::Struct | Kind::Exception => self.find_member(|_, name| name == wanted, work),
            Kind::Union => self.member_if(|branch| branch.name == wanted, work),
            _ => Ok(None),
        }
    }

    /// The member at that position of a structure or exception, from 0. The members of a union have no positions.
    ///
    /// # Errors
    /// As [`Cursor::member`].
    pub fn position(&self, position: u32, work: &mut Work) -> Result<Option<Self>, ReadError> {
        match self.node.kind {
            Kind::Struct | Kind::Exception => self.find_member(|index, _| index == position, work),
            _ => Ok(None),
        }
    }

    fn find_member(&self, is_it: impl Fn(u32, &[u8]) -> bool, work: &mut Work) -> Result<Option<Self>, ReadError> {
        let types = &self.types;
        let (mut place, mut value) = (self.node.params, self.value.clone());
        if self.node.kind == Kind::Exception {
            // CORBA 3.3 part 2, 9.3.5.5: the repository id comes first, then the members.
            value.string()?;
        }
        for index in 0..types.u32(&mut place)? {
            work.step(value.offset())?;
            let found = is_it(index, types.string(&mut place)?);
            let member = types.node(&mut place)?;
            if found {
                return Self::resolve_value(*types, member, value, work).map(Some);
            }
            match member.kind.number_layout() {
                Some((size, alignment)) => {
                    value.align(alignment)?;
                    value.take(size)?;
                }
                None => pass_value(types, &types.resolved(member, work)?, &mut value, work)?,
            }
        }
        Ok(None)
    }

    /// The members of a structure, one after the other.
    #[must_use]
    pub fn members(&self) -> Option<Members<'a>> {
        let mut place = self.node.params;
        let left = (self.node.kind == Kind::Struct).then(|| self.types.u32(&mut place).ok()).flatten()?;
        Some(Members { types: self.types, place, value: self.value.clone(), left })
    }

    /// The discriminator of a union.
    ///
    /// # Errors
    /// The same as of [`Cursor::member`].
    pub fn discriminator(&self, work: &mut Work) -> Result<Option<Self>, ReadError> {
        if self.node.kind != Kind::Union {
            return Ok(None);
        }
        let node = self.types.node(&mut self.node.params.clone())?;
        Self::resolve_value(self.types, node, self.value.clone(), work).map(Some)
    }

    /// The member that a union holds, if `label` selects it.
    ///
    /// # Errors
    /// The same as of [`Cursor::member`].
    pub fn labelled(&self, label: Label<'_>, work: &mut Work) -> Result<Option<Self>, ReadError> {
        if self.node.kind != Kind::Union {
            return Ok(None);
        }
        let by = self.types.resolve(&mut self.node.params.clone(), work)?;
        let Some(number) = self.label_number(label, &by, work)? else {
            return Ok(None);
        };
        match self.branch(number, work)? {
            Some(wanted) => self.member_if(|branch| branch.index == wanted.index || branch.name == wanted.name, work),
            None => Ok(None),
        }
    }

    /// The state of a union's default member.
    ///
    /// # Errors
    /// The same as of [`Cursor::member`].
    pub fn default_member(&self, work: &mut Work) -> Result<DefaultMember<'a>, ReadError> {
        if self.node.kind != Kind::Union {
            return Ok(DefaultMember::Another);
        }
        let mut value = self.value.clone();
        Ok(match self.active(&mut value, work)? {
            Some(branch) if branch.is_default => {
                DefaultMember::Member(Self::resolve_value(self.types, branch.node, value, work)?)
            }
            Some(_) => DefaultMember::Another,
            None => DefaultMember::Nothing,
        })
    }

    /// The member that a union holds, if `is_it` accepts it.
    fn member_if(&self, is_it: impl Fn(&Branch<'a>) -> bool, work: &mut Work) -> Result<Option<Self>, ReadError> {
        let mut value = self.value.clone();
        match self.active(&mut value, work)?.filter(is_it) {
            Some(branch) => Self::resolve_value(self.types, branch.node, value, work).map(Some),
            None => Ok(None),
        }
    }

    /// The member that the discriminator selects. `value` moves behind the discriminator.
    fn active(&self, value: &mut Reader<'a>, work: &mut Work) -> Result<Option<Branch<'a>>, ReadError> {
        let kind = self.types.discriminator(&mut self.node.params.clone(), work)?;
        let number = wire::discriminator(value, kind)?;
        self.branch(number, work)
    }

    /// The member that a discriminator of that number selects.
    fn branch(&self, number: u64, work: &mut Work) -> Result<Option<Branch<'a>>, ReadError> {
        let mut place = self.node.params;
        let kind = self.types.discriminator(&mut place, work)?;
        let default = self.types.i32(&mut place)?;
        let mut chosen = None;
        for index in 0..self.types.u32(&mut place)? {
            work.step(self.types.offset(place))?;
            let is_default = wire::is_default(index, default);
            let label = self.types.label(&mut place, kind, is_default)?;
            let name = self.types.string(&mut place)?;
            let node = self.types.node(&mut place)?;
            if !is_default && label == number {
                return Ok(Some(Branch { name, index, node, is_default }));
            }
            if is_default {
                chosen = Some(Branch { name, index, node, is_default });
            }
        }
        Ok(chosen)
    }

    /// A label as a number for comparison with discriminators, if it is valid for this discriminator's type.
    fn label_number(&self, label: Label<'_>, by: &Node, work: &mut Work) -> Result<Option<u64>, ReadError> {
        Ok(match (label, by.kind) {
            (Label::Bool(value), Kind::Boolean) => Some(u64::from(value)),
            (Label::Char(c), Kind::Char) => Some(u64::from(u32::from(c))),
            (Label::Char(c), Kind::Wchar) => {
                let wide = WideChar::from(c);
                Some(u64::from(wide.second().unwrap_or(0)) << 16 | u64::from(wide.first()))
            }
            (Label::Name(name), Kind::Enum) => self.ordinal_at(by.params, name, work)?.map(u64::from),
            // No label of these is below 0, and those that are sign-extended would be mistaken for it.
            (Label::Int(value), Kind::ULongLong | Kind::ULong | Kind::UShort | Kind::Octet | Kind::Enum) => {
                u64::try_from(value).ok()
            }
            (Label::Int(value), Kind::Short | Kind::Long | Kind::LongLong) => Some(value.cast_unsigned()),
            _ => None,
        })
    }

    /// The ordinal of an enumerator. The parameters of its enum, behind the name, are at `place`.
    fn ordinal_at(&self, mut place: Place, name: &str, work: &mut Work) -> Result<Option<u32>, ReadError> {
        for index in 0..self.types.u32(&mut place)? {
            work.step(self.types.offset(place))?;
            if self.types.string(&mut place)? == name.as_bytes() {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The ordinal that the enumerator with that name has in the type of an enumeration value.
    ///
    /// # Errors
    /// As [`Cursor::member`].
    pub fn ordinal(&self, enumerator: &str, work: &mut Work) -> Result<Option<u32>, ReadError> {
        match self.node.kind {
            Kind::Enum => self.ordinal_at(self.node.params, enumerator, work),
            _ => Ok(None),
        }
    }

    // ---- sequences and arrays ----

    /// Number of elements of a sequence or array.
    ///
    /// # Errors
    /// The bytes cannot be read.
    pub fn length(&self) -> Result<Option<u32>, ReadError> {
        let mut place = self.node.params;
        match self.node.kind {
            Kind::Sequence => self.value.clone().u32().map(Some),
            Kind::Array => {
                self.types.node(&mut place)?;
                self.types.u32(&mut place).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The elements of a sequence or array, one after the other.
    ///
    /// # Errors
    /// As [`Cursor::member`].
    pub fn elements(&self, work: &mut Work) -> Result<Option<Elements<'a>>, ReadError> {
        let mut value = self.value.clone();
        let mut place = self.node.params;
        let left = match self.node.kind {
            Kind::Sequence => value.u32()?,
            Kind::Array => self.length()?.unwrap_or(0),
            _ => return Ok(None),
        };
        let declared = self.types.node(&mut place)?;
        let node = self.types.resolved(declared, work)?;
        Ok(Some(Elements { types: self.types, declared, node, value, left }))
    }

    /// The element at that index of a sequence or array, from 0.
    ///
    /// # Errors
    /// As [`Cursor::member`].
    pub fn element(&self, index: u32, work: &mut Work) -> Result<Option<Self>, ReadError> {
        let Some(mut elements) = self.elements(work)?.filter(|elements| index < elements.left) else {
            return Ok(None);
        };
        if index > 0 {
            pass_elements(&elements.types, &elements.node, index, &mut elements.value, work)?;
        }
        Self::resolve_value(elements.types, elements.declared, elements.value, work).map(Some)
    }
}

/// The elements of a sequence or array, from [`Cursor::elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    types: Types<'a>,
    declared: Node,
    node: Node,
    value: Reader<'a>,
    left: u32,
}

impl<'a> Elements<'a> {
    /// The next element, or `None` behind the last.
    ///
    /// # Errors
    /// As [`Cursor::member`].
    pub fn next(&mut self, work: &mut Work) -> Result<Option<Cursor<'a>>, ReadError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let here = Cursor::resolve_value(self.types, self.declared, self.value.clone(), work)?;
        pass_value(&self.types, &self.node, &mut self.value, work)?;
        Ok(Some(here))
    }

    /// Number of elements left.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Kind of the elements; never an alias.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.node.kind
    }

    /// A reader in front of the next element.
    #[must_use]
    pub fn reader(&self) -> Reader<'a> {
        self.value.clone()
    }
}

/// The members of a structure, from [`Cursor::members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    types: Types<'a>,
    place: Place,
    value: Reader<'a>,
    left: u32,
}

impl<'a> Members<'a> {
    /// The name of the next member and the member, or `None` behind the last.
    ///
    /// # Errors
    /// As [`Cursor::member`].
    pub fn next(&mut self, work: &mut Work) -> Result<Option<(&'a [u8], Cursor<'a>)>, ReadError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let name = self.types.string(&mut self.place)?;
        let declared = self.types.node(&mut self.place)?;
        let here = Cursor::resolve_value(self.types, declared, self.value.clone(), work)?;
        pass_value(&self.types, &self.types.resolved(declared, work)?, &mut self.value, work)?;
        Ok(Some((name, here)))
    }

    /// Number of members left.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }
}

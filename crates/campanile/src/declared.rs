//! Event types, prepared for publishing.

use crate::error::Error;
use crate::projection::{Defaults, Fault, Misfit, Plan};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version, Writer};
use giop::typecode::{Kind, TypeCode, Work};
use std::fmt;
use std::sync::Arc;

/// Encoding of values at the interface: this processor's byte order, aligned as in GIOP 1.2 from position 0 on, in UTF-8.
pub(crate) const NATIVE: Encoding = Encoding { endian: Endian::NATIVE, version: Version::V1_2, chars: CharSet::Utf8 };

/// A declared event type: its `TypeCode`, with the domain and name of its events.
///
/// Cheap to clone, and usable with any number of suppliers: a type is declared once, and stored.
#[derive(Clone)]
pub struct Declared(Arc<Inner>, Arc<Defaults>);

struct Inner {
    domain: Option<String>,
    name: String,
    type_code: Arc<TypeCode>,
    octets: Marshalled,
    /// Plan for the whole value.
    plan: Plan,
    fields: Vec<Field>,
    /// Number of fields up to the last that filters can use.
    filterable: usize,
}

/// A `TypeCode`'s octets, at a multiple of 4.
struct Marshalled {
    latin1: Vec<u8>,
    utf8: Vec<u8>,
}

struct Field {
    name: String,
    plan: Plan,
    /// Its type, if filters can use the field.
    octets: Option<Marshalled>,
}

impl Marshalled {
    fn new(write: impl Fn(&mut Writer<'_>)) -> Self {
        let octets = |chars| {
            let mut octets = Vec::new();
            write(&mut Writer::new(&mut octets, Encoding { chars, ..NATIVE }));
            octets
        };
        Self { latin1: octets(CharSet::Latin1), utf8: octets(CharSet::Utf8) }
    }

    fn put(&self, writer: &mut Writer<'_>) {
        writer.align(4);
        writer.raw(match writer.encoding().chars {
            CharSet::Latin1 => &self.latin1,
            CharSet::Utf8 => &self.utf8,
        });
    }
}

impl Declared {
    /// Declares a structure as an event type, with the `domain` and `name` of its events. Defaults: the domain of the settings, and the
    /// structure's name.
    ///
    /// # Errors
    /// [`Error::Type`]: the type is not a structure, has no name, or contains values that cannot be sent.
    pub fn new(type_code: &TypeCode, domain: Option<&str>, name: Option<&str>) -> Result<Self, Error> {
        let root = type_code.root().resolved();
        let name = name.unwrap_or(root.name());
        let refuse = |reason: String| Error::Type { name: name.to_owned(), reason };
        if root.kind() != Kind::Struct {
            return Err(refuse(format!("it is a {} and no struct", root.kind())));
        }
        if name.is_empty() || name.contains('*') || domain.is_some_and(|domain| domain.contains('*')) {
            return Err(refuse(
                "its domain and name must say what it is: a name is not empty, and neither has a `*`".to_owned(),
            ));
        }
        let plan = Plan::same(type_code).map_err(|misfit| refuse(misfit.to_string()))?;
        let mut fields = Vec::new();
        for member in root.members() {
            let of = own(member.type_ref()).map_err(|error| refuse(error.to_string()))?;
            let plan = Plan::same(&of).map_err(|misfit| refuse(misfit.to_string()))?;
            let octets = is_scalar(of.root().resolved().kind()).then(|| Marshalled::new(|writer| of.write(writer)));
            fields.push(Field { name: member.name().to_owned(), plan, octets });
        }
        let filterable = fields.iter().rposition(|field| field.octets.is_some()).map_or(0, |last| last + 1);
        let octets = Marshalled::new(|writer| type_code.write(writer));
        let (domain, name, type_code) = (domain.map(str::to_owned), name.to_owned(), Arc::new(type_code.clone()));
        let inner = Inner { domain, name, type_code, octets, plan, fields, filterable };
        Ok(Self(Arc::new(inner), Arc::default()))
    }

    /// The same type, with defaults for members that a supplier's type may lack.
    #[must_use]
    pub fn with_defaults(self, defaults: Defaults) -> Self {
        Self(self.0, Arc::new(defaults))
    }

    /// The plan that converts values of a received type to this one.
    pub(crate) fn plan_from(&self, came: &TypeCode) -> Result<Plan, Misfit> {
        Plan::new(came, &self.0.type_code, &self.1)
    }

    /// The names of the members.
    pub(crate) fn members(&self) -> impl Iterator<Item = &str> {
        self.0.fields.iter().map(|field| field.name.as_str())
    }

    /// Whether there is a member of that name.
    pub(crate) fn has_member(&self, name: &str) -> bool {
        self.members().any(|member| member == name)
    }

    /// The type.
    #[must_use]
    pub fn type_code(&self) -> &Arc<TypeCode> {
        &self.0.type_code
    }

    /// The type's encoding.
    #[cfg(feature = "dds")]
    pub(crate) fn octets(&self) -> &[u8] {
        &self.0.octets.utf8
    }

    /// A value's encoding in DDS, in `octets` if it differs.
    ///
    /// # Errors
    /// The value is invalid, or cannot be expressed in DDS.
    #[cfg(feature = "dds")]
    pub(crate) fn written_for_dds<'v>(&self, cdr: &'v [u8], octets: &'v mut Vec<u8>) -> Result<&'v [u8], Error> {
        if !self.0.plan.has_wide() {
            return self.check(cdr).map(|()| cdr);
        }
        octets.clear();
        let mut reader = Reader::new(cdr, NATIVE);
        let outcome = self.0.plan.run(&mut reader, &mut Writer::new(octets, dds::encoding()));
        outcome.and_then(|()| ended(&reader)).map_err(|fault| self.refused(&fault))?;
        Ok(octets)
    }

    /// Decodes a value received over DDS, into `octets` if its encoding differs.
    ///
    /// # Errors
    /// The value is invalid.
    #[cfg(feature = "dds")]
    pub(crate) fn read_from_dds<'v>(&self, cdr: &'v [u8], octets: &'v mut Vec<u8>) -> Result<&'v [u8], Error> {
        if !self.0.plan.has_wide() {
            return Ok(cdr);
        }
        octets.clear();
        let mut reader = Reader::new(cdr, dds::encoding());
        self.0.plan.run(&mut reader, &mut Writer::new(octets, NATIVE)).map_err(|fault| self.refused(&fault))?;
        Ok(octets)
    }

    /// Whether both are the same type under the same name.
    #[cfg(feature = "dds")]
    pub(crate) fn is_equal(&self, other: &Self) -> bool {
        self.name() == other.name() && self.domain() == other.domain() && self.octets() == other.octets()
    }

    /// A key that is unique among all declared types.
    #[cfg(feature = "dds")]
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The name of its events' type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The domain of its events; `None` for the one of the settings.
    #[must_use]
    pub fn domain(&self) -> Option<&str> {
        self.0.domain.as_deref()
    }

    /// Checks that the octets are one value of the type, without trailing octets.
    ///
    /// # Errors
    /// [`Error::Value`] with what is wrong.
    pub fn check(&self, cdr: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new(cdr, NATIVE);
        self.0.plan.check(&mut reader).and_then(|()| ended(&reader)).map_err(|fault| self.refused(&fault))
    }

    /// As [`check`](Self::check), and each string has its NUL: that of length 0, which some ORBs send for the empty one, is refused.
    ///
    /// # Errors
    /// As of [`check`](Self::check).
    pub fn check_strictly(&self, cdr: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new(cdr, NATIVE);
        self.0.plan.check_strictly(&mut reader).and_then(|()| ended(&reader)).map_err(|fault| self.refused(&fault))
    }

    pub(crate) fn refused(&self, fault: &Fault) -> Error {
        Error::Value { name: self.0.name.clone(), path: fault.path(), reason: fault.reason.clone() }
    }

    /// Writes type and value: an Any.
    pub(crate) fn write_any(&self, cdr: &[u8], writer: &mut Writer<'_>) -> Result<(), Fault> {
        self.0.octets.put(writer);
        let mut reader = Reader::new(cdr, NATIVE);
        self.0.plan.run(&mut reader, writer)?;
        ended(&reader)
    }

    /// Writes the members that filters can use, as a sequence of properties.
    pub(crate) fn write_properties(&self, cdr: &[u8], writer: &mut Writer<'_>) -> Result<(), Fault> {
        let mut reader = Reader::new(cdr, NATIVE);
        let fields = self.0.fields.get(..self.0.filterable).unwrap_or_default();
        writer.length(fields.iter().filter(|field| field.octets.is_some()).count());
        for field in fields {
            let outcome = match &field.octets {
                Some(octets) => {
                    writer.string(&field.name);
                    octets.put(writer);
                    field.plan.run(&mut reader, writer)
                }
                None => field.plan.check(&mut reader),
            };
            outcome.map_err(|fault| fault.within(&field.name))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declared").field("domain", &self.0.domain).field("name", &self.0.name).finish_non_exhaustive()
    }
}

fn ended(reader: &Reader<'_>) -> Result<(), Fault> {
    match reader.remaining() {
        0 => Ok(()),
        left => Err(Fault::new(format!("{left} octets are left over behind it"))),
    }
}

/// Whether filters can compare values of that kind.
#[must_use]
pub const fn is_scalar(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Boolean
            | Kind::Octet
            | Kind::Char
            | Kind::Wchar
            | Kind::Short
            | Kind::UShort
            | Kind::Long
            | Kind::ULong
            | Kind::LongLong
            | Kind::ULongLong
            | Kind::Float
            | Kind::Double
            | Kind::Enum
            | Kind::String
            | Kind::Wstring
    )
}

/// An inner type as a type of its own.
fn own(of: giop::typecode::TypeRef<'_>) -> Result<TypeCode, giop::cdr::ReadError> {
    let mut octets = Vec::new();
    of.write(&mut Writer::new(&mut octets, NATIVE));
    TypeCode::read(&mut Reader::new(&octets, NATIVE), &mut Work::default())
}

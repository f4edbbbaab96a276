//! Classes as event types: their annotations, compiled into plans that encode and decode objects.

use crate::errors::{no_type, raise};
use campanile::{Declared, Defaults, Kind, TypeCode};
use giop::cdr::{CharSet, Encoding, Endian, Version};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

/// Encoding of values exchanged with the library.
pub(crate) const NATIVE: Encoding = Encoding { endian: Endian::NATIVE, version: Version::V1_2, chars: CharSet::Utf8 };

/// How deeply types may be nested in each other.
const DEPTH_MAX: u32 = 64;

/// A class as an event type. Made once for each class, by `campanile._types`.
#[pyclass(frozen, module = "campanile._native")]
pub(crate) struct Plan {
    pub(crate) declared: Declared,
    pub(crate) structure: Structure,
}

/// A node of a plan: one member's type.
pub(crate) enum Node {
    Bool,
    I8,
    Number(Kind),
    Text,
    Bytes,
    Time,
    Duration,
    Sequence(Box<Self>),
    Optional(Box<Self>),
    Array(Box<Self>, u32),
    Structure(Box<Structure>),
    Enumeration(Box<Enumeration>),
}

/// A dataclass.
pub(crate) struct Structure {
    pub(crate) class: Py<PyType>,
    id: String,
    name: String,
    pub(crate) members: Vec<Member>,
    /// Number of members that the constructor takes by position, from the first on; and the names of the others.
    pub(crate) positional: usize,
    pub(crate) keywords: Vec<Py<PyString>>,
}

pub(crate) struct Member {
    pub(crate) name: Py<PyString>,
    pub(crate) text: String,
    pub(crate) node: Node,
    /// The member's default as octets, used where a supplier's type lacks it.
    default: Option<Vec<u8>>,
}

/// A class of `enum`.
pub(crate) struct Enumeration {
    id: String,
    pub(crate) name: String,
    labels: Vec<String>,
    /// The positions of its members, and its members by position.
    pub(crate) places: Py<PyDict>,
    pub(crate) members: Py<PyTuple>,
}

#[pymethods]
impl Plan {
    #[new]
    fn new(description: &Bound<'_, PyTuple>, domain: Option<&str>) -> PyResult<Self> {
        let py = description.py();
        let Node::Structure(structure) = node(description, DEPTH_MAX)? else {
            return Err(PyTypeError::new_err("only a dataclass is an event"));
        };
        let type_code = structure.type_code();
        let mut defaults = Defaults::default();
        structure.defaults(&mut defaults);
        let declared = Declared::new(&type_code, domain, None).map_err(|error| raise(py, &error))?;
        let declared = declared.with_defaults(defaults);
        Ok(Self { declared, structure: *structure })
    }

    /// The type in IDL.
    fn idl(&self) -> String {
        format!("{:#}", self.declared.type_code())
    }

    /// The type in IDL with all that it contains, and modules.
    fn definitions(&self) -> String {
        ::idl::text(self.declared.type_code())
    }

    /// The event type's name.
    #[getter]
    fn name(&self) -> &str {
        self.declared.name()
    }

    /// Encodes an object, in this machine's byte order.
    fn encode<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        let mut octets = Vec::new();
        self.write(object, &mut octets)?;
        Ok(pyo3::types::PyBytes::new(object.py(), &octets))
    }

    /// Decodes octets into an object.
    fn decode<'py>(&self, py: Python<'py>, octets: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.declared.check(octets).map_err(|error| raise(py, &error))?;
        self.read(py, octets)
    }
}

/// Compiles a part of a description, whose first item names its kind.
fn node(description: &Bound<'_, PyTuple>, depth: u32) -> PyResult<Node> {
    let Some(left) = depth.checked_sub(1) else {
        return Err(no_type(description.py(), "types are nested more than 64 deep, or one is within itself"));
    };
    let item = |place: usize| description.get_item(place);
    let within = |place: usize| node(&item(place)?.cast_into::<PyTuple>()?, left).map(Box::new);
    let what: String = item(0)?.extract()?;
    Ok(match what.as_str() {
        "bool" => Node::Bool,
        "i8" => Node::I8,
        "u8" => Node::Number(Kind::Octet),
        "i16" => Node::Number(Kind::Short),
        "u16" => Node::Number(Kind::UShort),
        "i32" => Node::Number(Kind::Long),
        "u32" => Node::Number(Kind::ULong),
        "i64" => Node::Number(Kind::LongLong),
        "u64" => Node::Number(Kind::ULongLong),
        "f32" => Node::Number(Kind::Float),
        "f64" => Node::Number(Kind::Double),
        "str" => Node::Text,
        "bytes" => Node::Bytes,
        "datetime" => Node::Time,
        "timedelta" => Node::Duration,
        "list" => Node::Sequence(within(1)?),
        "optional" => Node::Optional(within(1)?),
        "array" => Node::Array(within(1)?, item(2)?.extract()?),
        "enum" => Node::Enumeration(Box::new(enumeration(description)?)),
        "struct" => Node::Structure(Box::new(structure(description, left)?)),
        other => return Err(PyTypeError::new_err(format!("{other:?} is no part of a type"))),
    })
}

/// `("struct", class, id, name, ((member's name, that in IDL, its description, by keyword, its default if any), …))`
fn structure(description: &Bound<'_, PyTuple>, depth: u32) -> PyResult<Structure> {
    let (mut members, mut positional, mut keywords) = (Vec::new(), 0, Vec::new());
    for member in description.get_item(4)?.cast_into::<PyTuple>()? {
        type Described<'py> = (Bound<'py, PyString>, String, Bound<'py, PyTuple>, bool, Vec<Bound<'py, PyAny>>);
        let (name, text, of, by_keyword, default): Described<'_> = member.extract()?;
        if by_keyword {
            keywords.push(name.clone().unbind());
        } else {
            positional += 1;
        }
        let node = node(&of, depth)?;
        // A default that is no value of the type, such as `None`, is for the program alone.
        let default = default.first().and_then(|default| node.octets(default));
        members.push(Member { node, name: name.unbind(), text, default });
    }
    Ok(Structure {
        class: description.get_item(1)?.cast_into::<PyType>()?.unbind(),
        id: description.get_item(2)?.extract()?,
        name: description.get_item(3)?.extract()?,
        members,
        positional,
        keywords,
    })
}

/// `("enum", id, name, (label, …), (member, …))`
fn enumeration(description: &Bound<'_, PyTuple>) -> PyResult<Enumeration> {
    let members = description.get_item(4)?.cast_into::<PyTuple>()?;
    let places = PyDict::new(description.py());
    for (place, member) in members.iter().enumerate() {
        places.set_item(member, place)?;
    }
    Ok(Enumeration {
        id: description.get_item(1)?.extract()?,
        name: description.get_item(2)?.extract()?,
        labels: description.get_item(3)?.extract()?,
        places: places.unbind(),
        members: members.unbind(),
    })
}

impl Structure {
    fn type_code(&self) -> TypeCode {
        let members: Vec<_> =
            self.members.iter().map(|member| (member.text.as_str(), member.node.type_code())).collect();
        TypeCode::structure(&self.id, &self.name, &members)
    }
}

impl Structure {
    /// Collects the defaults of all members, nested structures included.
    fn defaults(&self, defaults: &mut Defaults) {
        for member in &self.members {
            if let Some(octets) = &member.default {
                defaults.set(&self.id, &member.text, octets);
            }
            member.node.defaults(defaults);
        }
    }
}

impl Node {
    fn defaults(&self, defaults: &mut Defaults) {
        match self {
            Self::Structure(structure) => structure.defaults(defaults),
            Self::Sequence(of) | Self::Optional(of) | Self::Array(of, _) => of.defaults(defaults),
            _ => {}
        }
    }

    /// The type as a `TypeCode`.
    fn type_code(&self) -> TypeCode {
        match self {
            Self::Bool => TypeCode::primitive(Kind::Boolean),
            // IDL has no signed octet.
            Self::I8 => TypeCode::primitive(Kind::Short),
            Self::Number(kind) => TypeCode::primitive(*kind),
            Self::Text => TypeCode::string(),
            Self::Bytes => TypeCode::sequence(TypeCode::primitive(Kind::Octet)),
            Self::Time => {
                TypeCode::alias("IDL:omg.org/TimeBase/TimeT:1.0", "TimeT", TypeCode::primitive(Kind::ULongLong))
            }
            Self::Duration => {
                TypeCode::alias("IDL:campanile/Duration:1.0", "Duration", TypeCode::primitive(Kind::ULongLong))
            }
            Self::Sequence(element) => TypeCode::sequence(element.type_code()),
            Self::Optional(element) => TypeCode::bounded_sequence(element.type_code(), 1),
            Self::Array(element, length) => TypeCode::array(element.type_code(), *length),
            Self::Structure(structure) => structure.type_code(),
            Self::Enumeration(of) => {
                let labels: Vec<_> = of.labels.iter().map(String::as_str).collect();
                TypeCode::enumeration(&of.id, &of.name, &labels)
            }
        }
    }
}

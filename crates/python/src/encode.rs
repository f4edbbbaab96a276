//! Encoding of objects as octets.

use crate::errors::no_value;
use crate::plan::{Enumeration, NATIVE, Node, Plan, Structure};
use campanile::Kind;
use campanile::time::{ticks_of, ticks_of_duration};
use giop::cdr::Writer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyString};
use std::time::{Duration, SystemTime};

/// Why an object does not fit its type, and the path of the part, from the inside out.
struct Misfit {
    path: Vec<Step>,
    why: Why,
}

enum Step {
    Member(String),
    Place(usize),
}

enum Why {
    Reason(String),
    /// An exception unrelated to the value: `KeyboardInterrupt`, or a property that raises.
    Raised(PyErr),
}

impl Misfit {
    fn new(reason: impl Into<String>) -> Self {
        Self { path: Vec::new(), why: Why::Reason(reason.into()) }
    }

    fn within(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in self.path.iter().rev() {
            match step {
                Step::Member(name) if path.is_empty() => path.push_str(name),
                Step::Member(name) => path.extend([".", name]),
                Step::Place(place) => path.push_str(&format!("[{place}]")),
            }
        }
        path
    }
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Self { path: Vec::new(), why: Why::Raised(error) }
    }
}

impl Plan {
    /// Appends an object's octets.
    pub(crate) fn write(&self, object: &Bound<'_, PyAny>, octets: &mut Vec<u8>) -> PyResult<()> {
        let outcome = self.structure.write(object, &mut Writer::new(octets, NATIVE));
        outcome.map_err(|misfit| match &misfit.why {
            Why::Reason(reason) => no_value(object.py(), self.declared.name(), &misfit.path(), reason),
            Why::Raised(error) => error.clone_ref(object.py()),
        })
    }
}

impl Structure {
    fn write(&self, object: &Bound<'_, PyAny>, writer: &mut Writer<'_>) -> Result<(), Misfit> {
        let py = object.py();
        if !object.is_instance(self.class.bind(py))? {
            return Err(wrong(object, &self.class.bind(py).name()?.to_string()));
        }
        for member in &self.members {
            let value = object.getattr(member.name.bind(py))?;
            member.node.write(&value, writer).map_err(|misfit| misfit.within(Step::Member(member.text.clone())))?;
        }
        Ok(())
    }
}

impl Enumeration {
    fn write(&self, object: &Bound<'_, PyAny>, writer: &mut Writer<'_>) -> Result<(), Misfit> {
        let place = self.places.bind(object.py()).get_item(object).ok().flatten();
        let Some(place) = place else { return Err(wrong(object, &self.name)) };
        writer.u32(place.extract()?);
        Ok(())
    }
}

impl Node {
    /// The octets of an object alone; `None` if it does not fit.
    pub(crate) fn octets(&self, object: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
        let mut octets = Vec::new();
        self.write(object, &mut Writer::new(&mut octets, NATIVE)).ok().map(|()| octets)
    }

    fn write(&self, object: &Bound<'_, PyAny>, writer: &mut Writer<'_>) -> Result<(), Misfit> {
        match self {
            Self::Bool => writer.bool(object.extract().map_err(|error| misfit(object, "bool", error))?),
            Self::I8 => writer.i16(number::<i8>(object, "i8")?.into()),
            Self::Number(kind) => write_number(*kind, object, writer)?,
            Self::Text => {
                let text = object.cast::<PyString>().map_err(|_| wrong(object, "str"))?;
                writer.string(&text.to_cow().map_err(|error| misfit(object, "str", error))?);
            }
            Self::Bytes => write_bytes(object, writer)?,
            Self::Time => {
                let time: SystemTime = object
                    .extract()
                    .map_err(|_| Misfit::new(format!("{} is no datetime with a time zone", shown(object))))?;
                writer.u64(ticks_of(time));
            }
            Self::Duration => {
                let length: Duration = object
                    .extract()
                    .map_err(|_| Misfit::new(format!("{} is no timedelta of zero or more", shown(object))))?;
                writer.u64(ticks_of_duration(length));
            }
            Self::Optional(_) if object.is_none() => writer.u32(0),
            Self::Optional(of) => {
                writer.u32(1);
                of.write(object, writer)?;
            }
            Self::Sequence(of) => {
                let length = length_of(object)?;
                writer.length(length);
                write_all(of, length, object, writer)?;
            }
            Self::Array(of, length) => {
                let found = length_of(object)?;
                if u32::try_from(found) != Ok(*length) {
                    return Err(Misfit::new(format!("it has {found} elements, not {length}")));
                }
                write_all(of, found, object, writer)?;
            }
            Self::Structure(of) => of.write(object, writer)?,
            Self::Enumeration(of) => of.write(object, writer)?,
        }
        Ok(())
    }
}

fn write_number(kind: Kind, object: &Bound<'_, PyAny>, writer: &mut Writer<'_>) -> Result<(), Misfit> {
    match kind {
        Kind::Octet => writer.u8(number(object, "u8")?),
        Kind::Short => writer.i16(number(object, "i16")?),
        Kind::UShort => writer.u16(number(object, "u16")?),
        Kind::Long => writer.i32(number(object, "i32")?),
        Kind::ULong => writer.u32(number(object, "u32")?),
        Kind::LongLong => writer.i64(number(object, "i64")?),
        Kind::ULongLong => writer.u64(number(object, "u64")?),
        Kind::Float => {
            let value: f64 = number(object, "float")?;
            #[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
            let narrow = value as f32;
            if value.is_finite() && !narrow.is_finite() {
                return Err(Misfit::new(format!("{value:e} is out of the range of f32")));
            }
            writer.f32(narrow);
        }
        _ => writer.f64(number(object, "float")?),
    }
    Ok(())
}

fn number<'py, T: for<'a> FromPyObject<'a, 'py, Error = PyErr>>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> Result<T, Misfit> {
    object.extract().map_err(|error: PyErr| misfit(object, name, error))
}

fn write_bytes(object: &Bound<'_, PyAny>, writer: &mut Writer<'_>) -> Result<(), Misfit> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        writer.octets(bytes.as_bytes());
    } else if let Ok(bytes) = object.cast::<PyByteArray>() {
        writer.octets(&bytes.to_vec());
    } else if object.is_instance_of::<PyInt>() || object.is_instance_of::<PyString>() {
        return Err(wrong(object, "bytes"));
    } else {
        // Whatever has a buffer: a `memoryview`, an array.
        let bytes = object.py().get_type::<PyBytes>().call1((object,)).map_err(|_| wrong(object, "bytes"))?;
        writer.octets(bytes.cast::<PyBytes>().map_err(|_| wrong(object, "bytes"))?.as_bytes());
    }
    Ok(())
}

fn length_of(object: &Bound<'_, PyAny>) -> Result<usize, Misfit> {
    if object.is_instance_of::<PyString>() {
        return Err(wrong(object, "list"));
    }
    object.len().map_err(|_| wrong(object, "list"))
}

fn write_all(of: &Node, length: usize, object: &Bound<'_, PyAny>, writer: &mut Writer<'_>) -> Result<(), Misfit> {
    let mut count = 0;
    for (place, element) in object.try_iter()?.enumerate() {
        of.write(&element?, writer).map_err(|misfit| misfit.within(Step::Place(place)))?;
        count += 1;
    }
    if count == length { Ok(()) } else { Err(Misfit::new("its length changed while it was read")) }
}

/// An object of the wrong class.
fn wrong(object: &Bound<'_, PyAny>, wanted: &str) -> Misfit {
    let class = object.get_type().name().map_or_else(|_| "another".to_owned(), |name| name.to_string());
    Misfit::new(format!("{} is a {class} and no {wanted}", shown(object)))
}

/// The reason why an object could not be converted to a number or a text.
fn misfit(object: &Bound<'_, PyAny>, wanted: &str, error: PyErr) -> Misfit {
    let py = object.py();
    if error.is_instance_of::<PyOverflowError>(py) {
        Misfit::new(format!("{} is out of the range of {wanted}", shown(object)))
    } else if error.is_instance_of::<PyUnicodeEncodeError>(py) {
        Misfit::new(format!("{} has half a character (a lone surrogate), which cannot travel", shown(object)))
    } else if error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py) {
        wrong(object, wanted)
    } else {
        error.into()
    }
}

/// An object for a message: its Python representation, shortened.
fn shown(object: &Bound<'_, PyAny>) -> String {
    const CHARACTERS_MAX: usize = 60;
    let text = object.repr().map_or_else(|_| "it".to_owned(), |text| text.to_string_lossy().into_owned());
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

//! Decoding of octets into objects.

use crate::plan::{NATIVE, Node, Plan, Structure};
use campanile::Kind;
use campanile::time::{duration_of, time_of};
use giop::cdr::{ReadError, Reader};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

impl Plan {
    /// Decodes octets that the library has checked.
    pub(crate) fn read<'py>(&self, py: Python<'py>, octets: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.structure.read(py, &mut Reader::new(octets, NATIVE))
    }
}

fn unreadable(error: ReadError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl Structure {
    fn read<'py>(&self, py: Python<'py>, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyAny>> {
        let mut values = Vec::with_capacity(self.members.len());
        for member in &self.members {
            values.push(member.node.read(py, reader)?);
        }
        let class = self.class.bind(py);
        if self.keywords.is_empty() {
            return class.call1(PyTuple::new(py, values)?);
        }
        let by_keyword = PyDict::new(py);
        // Members by keyword stand behind the others, in the order of the fields.
        for (name, value) in self.keywords.iter().zip(values.drain(self.positional..)) {
            by_keyword.set_item(name, value)?;
        }
        class.call(PyTuple::new(py, values)?, Some(&by_keyword))
    }
}

impl Node {
    fn read<'py>(&self, py: Python<'py>, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Bool => object(py, reader.bool().map_err(unreadable)?)?,
            Self::I8 => object(py, reader.i16().map_err(unreadable)?)?,
            Self::Number(kind) => read_number(py, *kind, reader)?,
            Self::Text => {
                let octets = reader.string().map_err(unreadable)?;
                let text = core::str::from_utf8(octets).map_err(|error| PyValueError::new_err(error.to_string()))?;
                PyString::new(py, text).into_any()
            }
            Self::Bytes => PyBytes::new(py, reader.octets().map_err(unreadable)?).into_any(),
            Self::Time => object(py, time_of(reader.u64().map_err(unreadable)?))?,
            Self::Duration => object(py, duration_of(reader.u64().map_err(unreadable)?))?,
            Self::Optional(of) => match reader.u32().map_err(unreadable)? {
                0 => py.None().into_bound(py),
                _ => of.read(py, reader)?,
            },
            Self::Sequence(of) => {
                let length = reader.u32().map_err(unreadable)?;
                of.read_all(py, length, reader)?
            }
            Self::Array(of, length) => of.read_all(py, *length, reader)?,
            Self::Structure(of) => of.read(py, reader)?,
            Self::Enumeration(of) => {
                let place = reader.u32().map_err(unreadable)? as usize;
                of.members.bind(py).get_item(place)?
            }
        })
    }

    fn read_all<'py>(&self, py: Python<'py>, length: u32, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyAny>> {
        let list = PyList::empty(py);
        for _ in 0..length {
            list.append(self.read(py, reader)?)?;
        }
        Ok(list.into_any())
    }
}

fn read_number<'py>(py: Python<'py>, kind: Kind, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyAny>> {
    match kind {
        Kind::Octet => object(py, reader.u8().map_err(unreadable)?),
        Kind::Short => object(py, reader.i16().map_err(unreadable)?),
        Kind::UShort => object(py, reader.u16().map_err(unreadable)?),
        Kind::Long => object(py, reader.i32().map_err(unreadable)?),
        Kind::ULong => object(py, reader.u32().map_err(unreadable)?),
        Kind::LongLong => object(py, reader.i64().map_err(unreadable)?),
        Kind::ULongLong => object(py, reader.u64().map_err(unreadable)?),
        Kind::Float => object(py, reader.f32().map_err(unreadable)?),
        _ => object(py, reader.f64().map_err(unreadable)?),
    }
}

/// Converts a value to a Python object.
fn object<'py, T: IntoPyObjectExt<'py>>(py: Python<'py>, value: T) -> PyResult<Bound<'py, PyAny>> {
    value.into_bound_py_any(py)
}

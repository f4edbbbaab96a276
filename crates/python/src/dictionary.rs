//! Events without a declared class, as dictionaries.

use campanile::Value;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// A value as Python objects: structs as dictionaries, enums by label, sequences as lists, octets as bytes, unions by the chosen member.
pub(crate) fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null | Value::Void => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Octet(value) => value.into_bound_py_any(py),
        Value::Char(value) | Value::Wchar(value) => value.into_bound_py_any(py),
        Value::Short(value) => value.into_bound_py_any(py),
        Value::UShort(value) => value.into_bound_py_any(py),
        Value::Long(value) => value.into_bound_py_any(py),
        Value::ULong(value) => value.into_bound_py_any(py),
        Value::LongLong(value) => value.into_bound_py_any(py),
        Value::ULongLong(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Double(value) => value.into_bound_py_any(py),
        Value::LongDouble(octets) => Ok(PyBytes::new(py, octets).into_any()),
        Value::String(text) | Value::Wstring(text) | Value::Fixed(text) => text.into_bound_py_any(py),
        Value::Enum { label, .. } => label.into_bound_py_any(py),
        Value::Struct { fields, .. } | Value::Exception { fields, .. } => Ok(dictionary(py, fields)?.into_any()),
        Value::Union { member: Some((_, value)), .. } => object(py, value),
        Value::Union { member: None, discriminator, .. } => object(py, discriminator),
        Value::Sequence(values) | Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(object(py, value)?)?;
            }
            Ok(list.into_any())
        }
        Value::Octets(octets) => Ok(PyBytes::new(py, octets).into_any()),
        Value::Any(any) => object(py, &any.value),
        Value::TypeCode(of) => of.to_string().into_bound_py_any(py),
        Value::Object(reference) => format!("{reference:?}").into_bound_py_any(py),
        other => format!("{other:?}").into_bound_py_any(py),
    }
}

/// Members by name.
pub(crate) fn dictionary<'py>(py: Python<'py>, fields: &[(String, Value)]) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, value) in fields {
        dictionary.set_item(name, object(py, value)?)?;
    }
    Ok(dictionary)
}

//! Errors as Python's exceptions: the classes are in `campanile._errors`.

use campanile::{Error, ErrorCode};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule};

/// The exception for an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.code() {
        ErrorCode::Settings => "SettingsError",
        ErrorCode::Unreachable => "UnreachableError",
        // Over DDS it is this process that has no use for a filter.
        ErrorCode::Refused | ErrorCode::Filter => "RefusedError",
        ErrorCode::ChannelName => "ChannelNameError",
        ErrorCode::Type => "EventTypeError",
        ErrorCode::Value => "EventValueError",
        ErrorCode::Forked => "ForkedError",
        ErrorCode::NoTransport => "NoTransportError",
        _ => "Error",
    };
    exception(py, class, &error.to_string(), error.was_not_carried_out())
}

/// A value cannot be one of its type.
pub(crate) fn no_value(py: Python<'_>, name: &str, path: &str, reason: &str) -> PyErr {
    let joint = if path.is_empty() { "" } else { ": " };
    exception(py, "EventValueError", &format!("this is no {name}: {path}{joint}{reason}"), true)
}

/// A class cannot be an event.
pub(crate) fn no_type(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "EventTypeError", text, true)
}

/// It was closed.
pub(crate) fn closed(py: Python<'_>, what: &str) -> PyErr {
    exception(py, "ClosedError", &format!("this {what} is closed"), true)
}

fn exception(py: Python<'_>, class: &str, text: &str, was_not_carried_out: bool) -> PyErr {
    let made = PyModule::import(py, "campanile._errors").and_then(|module| {
        let options = PyDict::new(py);
        options.set_item("was_not_carried_out", was_not_carried_out)?;
        module.getattr(class)?.call((text,), Some(&options))
    });
    made.map_or_else(core::convert::identity, PyErr::from_value)
}

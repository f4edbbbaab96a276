//! Errors as Python's exceptions: the classes are in `campanile._errors`.

use campanile::{Error, ErrorCode};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule};

/// The exception for an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.code() {
        ErrorCode::Settings => "SettingsError",
        ErrorCode::Unreachable => "UnreachableError",
        ErrorCode::Refused => "RefusedError",
        ErrorCode::Filter => "FilterError",
        ErrorCode::ChannelName => "ChannelNameError",
        ErrorCode::Type => "EventTypeError",
        ErrorCode::Value => "EventValueError",
        ErrorCode::Forked => "ForkedError",
        ErrorCode::NoTransport => "NoTransportError",
        _ => "Error",
    };
    let place = match error {
        Error::Filter { reason, column, .. } => Some((reason.as_str(), *column)),
        _ => None,
    };
    exception(py, class, &error.to_string(), error.was_not_carried_out(), place)
}

/// The exception for a value that does not fit its type.
pub(crate) fn no_value(py: Python<'_>, name: &str, path: &str, reason: &str) -> PyErr {
    let joint = if path.is_empty() { "" } else { ": " };
    exception(py, "EventValueError", &format!("this is no {name}: {path}{joint}{reason}"), true, None)
}

/// The exception for a class that cannot be an event type.
pub(crate) fn no_type(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "EventTypeError", text, true, None)
}

/// The exception for the use of a closed object.
pub(crate) fn closed(py: Python<'_>, what: &str) -> PyErr {
    exception(py, "ClosedError", &format!("this {what} is closed"), true, None)
}

fn exception(
    py: Python<'_>,
    class: &str,
    text: &str,
    was_not_carried_out: bool,
    place: Option<(&str, Option<u32>)>,
) -> PyErr {
    let made = PyModule::import(py, "campanile._errors").and_then(|module| {
        let options = PyDict::new(py);
        options.set_item("was_not_carried_out", was_not_carried_out)?;
        if let Some((reason, column)) = place {
            options.set_item("reason", reason)?;
            options.set_item("column", column)?;
        }
        module.getattr(class)?.call((text,), Some(&options))
    });
    made.map_or_else(core::convert::identity, PyErr::from_value)
}

//! Settings as keyword arguments.

use crate::errors::raise;
use campanile::{Error, Settings, SettingsError};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::Duration;

/// The settings of the environment or of the named context, overridden by the given ones.
pub(crate) fn settings(py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let fail = |error: SettingsError| raise(py, &Error::Settings(error));
    let mut settings = match given.get_item("context")? {
        Some(name) if !name.is_none() => Settings::of_context(&name.extract::<String>()?).map_err(fail)?,
        _ => Settings::load().map_err(fail)?,
    };
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        let text = || value.extract::<String>();
        match name.extract::<String>()?.as_str() {
            "context" => {}
            "name" => settings.set_name(&text()?).map_err(fail)?,
            "server" => settings.server = text()?,
            "transport" => settings.transport = text()?.parse().map_err(fail)?,
            "event_form" => settings.event_form = text()?.parse().map_err(fail)?,
            "naming" => settings.naming = Some(text()?),
            "naming_domain" => settings.naming_domain = text()?,
            "event_domain" => settings.event_domain = text()?,
            "shared_thread" => settings.shared_thread = value.extract()?,
            "tls_ca" => settings.tls.ca = Some(value.extract()?),
            "tls_certificate" => settings.tls.certificate = Some(value.extract()?),
            "tls_key" => settings.tls.key = Some(value.extract()?),
            "dds" => set_dds(py, &mut settings, "", value.cast::<PyDict>()?)?,
            "wait_for_service" => settings.wait_for_service = length(&value)?,
            "wait_for_restart" => settings.wait_for_restart = length(&value)?,
            other => return Err(PyTypeError::new_err(format!("there is no setting {other:?}"))),
        }
    }
    Ok(settings)
}

/// Sets the DDS settings by name; tables are nested dictionaries.
fn set_dds(py: Python<'_>, settings: &mut Settings, within: &str, given: &Bound<'_, PyDict>) -> PyResult<()> {
    for (name, value) in given {
        let path = format!("{within}{}", name.extract::<String>()?);
        if let Ok(table) = value.cast::<PyDict>() {
            set_dds(py, settings, &format!("{path}."), table)?;
            continue;
        }
        // Numbers, truth values and lists of texts are the same in JSON and TOML.
        let text = match value.extract::<String>() {
            Ok(text) => text,
            Err(_) => py.import("json")?.call_method1("dumps", (&value,))?.extract()?,
        };
        settings.set_dds(&path, &text).map_err(|error| raise(py, &Error::Settings(error)))?;
    }
    Ok(())
}

/// A `timedelta`, or a number of seconds.
fn length(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    value.extract::<Duration>().or_else(|_| seconds(value))
}

/// A number of seconds.
pub(crate) fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds = value.extract::<f64>()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyTypeError::new_err(format!("{seconds} is no length of time in seconds")))
}

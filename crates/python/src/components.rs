//! Servers of plans whose components are classes of Python. `campanile._components` makes tables of them, as a shared object has one, and
//! `campanile._serve` calls the functions here.

#![expect(unsafe_code, reason = "tables are C's, and an address is what Python has of one")]

use component::ServerSettings;
use component::edge::{abi::Table, describe_file, serve_files};
use log::{LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Makes the table of a file, by a function that gives its address, or says why there is none.
fn made(make: &Py<PyAny>, path: &Path) -> Result<*const Table, String> {
    let made = Python::attach(|py| {
        let made = make.call1(py, (path,))?;
        made.extract::<usize>(py).map(Ok).or_else(|_| made.extract::<String>(py).map(Err))
    });
    made.unwrap_or_else(|error: PyErr| Err(error.to_string())).map(core::ptr::with_exposed_provenance)
}

/// Prints what the components of a file declare, or why there are none.
#[pyfunction]
pub(crate) fn describe_components(py: Python<'_>, path: PathBuf, make: Py<PyAny>) -> PyResult<()> {
    // SAFETY: what `make` gives the address of is a table of `campanile._components`, which stores it for good.
    py.detach(|| unsafe { describe_file(&path, &|path| made(&make, path)) })?;
    Ok(())
}

/// Is the server of that name of a plan until the standard input ends. Returns what cannot be, on one line.
#[pyfunction]
pub(crate) fn serve_components(py: Python<'_>, plan: PathBuf, server: &str, make: Py<PyAny>) -> Option<String> {
    if log::set_logger(&Logger).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
    let settings = ServerSettings::default();
    // SAFETY: as above.
    py.detach(|| unsafe { serve_files(&plan, server, settings, &|path| made(&make, path)) }).err()
}

/// Writes lines as the command does that runs the plan. Without the interpreter, which a handler that hangs may have.
struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut line = String::new();
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            json::time::rfc3339(&mut line, since_1970);
            line.push_str(&format!(" {:<5} {}\n", record.level(), record.args()));
            // A closed standard error is no error.
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

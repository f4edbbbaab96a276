//! The Rust part of Campanile's Python module: types, octets, connections. Its public interface is in `python/campanile`.

mod attached;
mod components;
mod decode;
mod dictionary;
mod encode;
mod errors;
mod events;
mod plan;
mod settings;
mod supplier;

use pyo3::prelude::*;

/// `campanile._native`: the implementation beneath `campanile`.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::components::{describe_components, serve_components};
    #[pymodule_export]
    use super::events::{Subscription, Waiting, end_calls, forget_calls, subscribe, wait_for, wait_for_calls};
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::supplier::{Publisher, Supplier};
    #[pymodule_export]
    use super::version;
}

/// The version of the library.
#[pyfunction]
const fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

//! `campanile bench floor`.

use crate::{BenchError, FloorOptions, Output};

/// Runs the benchmark and writes its report to `out`.
///
/// # Errors
///
/// When a contender cannot be started, breaks off, or answers what it should not.
pub fn run(options: &FloorOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let _ = (options, out);
    Err(BenchError::Setup { doing: "bench floor".to_owned(), reason: "not there yet".to_owned() })
}

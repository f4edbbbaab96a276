//! A process that does not outlive the benchmark that started it.

use std::os::unix::process::CommandExt;
use std::process;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{BenchError, LeashedOptions};

/// The name of the hidden sub-command.
pub(crate) const COMMAND: &str = "leashed-process";

/// Turns this process into `campanile ARGUMENTS…`, to be ended by the kernel when its parent thread ends.
///
/// The wish survives `execve` (prctl(2), `PR_SET_PDEATHSIG`), so that the command itself needs to know nothing of it:
/// a benchmark that is killed leaves no service behind that holds a port and a core.
pub(crate) fn run_process(options: &LeashedOptions) -> Result<(), BenchError> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|errno| BenchError::Io { doing: "asking to end with the parent process", source: errno.into() })?;
    let program = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
    // Only returns when it fails.
    let source = process::Command::new(program).args(&options.arguments).exec();
    Err(BenchError::Io { doing: "starting this program again", source })
}

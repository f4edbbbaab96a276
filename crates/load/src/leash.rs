//! Leashed processes: each ends with the benchmark that started it, and runs on the core and with the priority that the benchmark sets.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::{BenchError, LeashedOptions, system};

/// The name of the hidden sub-command.
pub const COMMAND: &str = "leashed-process";

/// The command line that runs another program, or this one again, as a leashed process: on this core only, at this `SCHED_FIFO` priority,
/// if given. The program's arguments follow.
pub fn words(program: Option<&OsStr>, core: Option<usize>, fifo: Option<u8>) -> Result<Vec<OsString>, BenchError> {
    let this = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
    let mut words = vec![this.into_os_string()];
    words.extend(arguments(program, core, fifo));
    Ok(words)
}

/// The arguments of that command line, without this program.
fn arguments(program: Option<&OsStr>, core: Option<usize>, fifo: Option<u8>) -> Vec<OsString> {
    let mut arguments = vec![OsString::from(COMMAND)];
    let mut option = |name: &str, value: Option<OsString>| {
        arguments.extend(value.into_iter().flat_map(|value| [OsString::from(name), value]));
    };
    option("--core", core.map(|core| core.to_string().into()));
    option("--fifo", fifo.map(|fifo| fifo.to_string().into()));
    option("--program", program.map(OsStr::to_owned));
    arguments.push(OsString::from("--"));
    arguments
}

/// Replaces this process by this program with other arguments, or by another one, to be ended by the kernel when its parent thread ends.
///
/// The setting survives `execve` (prctl(2), `PR_SET_PDEATHSIG`), so that the program itself needs to know nothing of it: a killed benchmark
/// leaves no service behind that occupies a port and a core. The core and the priority survive as well.
pub fn run_process(options: &LeashedOptions) -> Result<(), BenchError> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(BenchError::errno("asking to end with the parent process"))?;
    if let Some(core) = options.core {
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).map_err(BenchError::errno("confining a process to a core"))?;
    }
    if let Some(priority) = options.fifo {
        system::run_fifo(priority).map_err(BenchError::io("asking for a real-time priority"))?;
    }
    let this = || std::env::current_exe().map_err(BenchError::io("finding the path of this program"));
    let program = options.program.clone().map_or_else(this, Ok)?;
    // Only returns when it fails.
    let source = process::Command::new(program).args(&options.arguments).exec();
    Err(BenchError::Io { doing: "starting a program", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_the_core_and_the_priority_only_where_there_is_one() {
        assert_eq!(arguments(None, None, None), [COMMAND, "--"]);
        let words = [COMMAND, "--core", "1", "--fifo", "72", "--program", "env", "--"];
        assert_eq!(arguments(Some(OsStr::new("env")), Some(1), Some(72)), words);
    }
}

//! What this machine grants to real-time threads, and where the parties of an experiment run.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use crate::places::Place;
use crate::{BenchError, Output, system};

/// Microseconds of each period in which real-time threads may run on a core, all together; −1: always (sched(7)).
const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";

/// The name of the hidden sub-command that lifts the limit.
pub(crate) const COMMAND: &str = "unthrottled-process";

/// What real-time threads are granted here.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RealTime {
    pub(crate) privileged: bool,
    pub(crate) advice: Option<String>,
    pub(crate) granted_share: f64,
    pub(crate) throttling_lifted: bool,
}

impl RealTime {
    /// Finds out, and lifts the throttling if that is asked for; it is put back when the second value is dropped.
    pub(super) fn find_out(lift_throttling: bool) -> Result<(Self, Option<Lifted>), BenchError> {
        let lifted = lift_throttling.then(Lifted::start).transpose()?;
        let refused = try_fifo();
        let advice = refused.map(|error| {
            format!(
                "no real-time priorities ({error}): run as root, or give the user the limit rtprio \
                 (a line such as `{} - rtprio 99` in /etc/security/limits.conf, then log in again), or \
                 `setcap cap_sys_nice+ep` on the program; `campanile doctor` says more",
                rustix::process::getuid().as_raw()
            )
        });
        let real_time = Self {
            privileged: advice.is_none(),
            advice,
            granted_share: granted_share(),
            throttling_lifted: lifted.is_some(),
        };
        Ok((real_time, lifted))
    }

    /// The `SCHED_FIFO` priority for a CORBA priority, as the service maps it by default (`[lanes] priority_mapping =
    /// "linear"`); none without the privilege.
    pub(super) fn fifo(&self, corba_priority: i16) -> Option<u8> {
        let native = 1 + i32::from(corba_priority.max(0)) * 97 / i32::from(i16::MAX);
        u8::try_from(native).ok().filter(|_| self.privileged)
    }
}

/// Whether a thread of this process may have a real-time priority; tried on one of its own.
fn try_fifo() -> Option<std::io::Error> {
    thread::spawn(|| system::run_fifo(1).err()).join().unwrap_or_default()
}

fn granted_share() -> f64 {
    let read = |path| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i32>().ok());
    match (read(RUNTIME), read(PERIOD)) {
        (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => f64::from(runtime) / f64::from(period),
        _ => 1.0,
    }
}

/// A process that keeps the kernel from throttling real-time threads, and puts the limit back when it is dropped, or when this
/// process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lifted {
    child: Child,
}

impl Lifted {
    fn start() -> Result<Self, BenchError> {
        use std::os::unix::process::CommandExt;
        let program = std::env::current_exe().map_err(BenchError::io("finding the path of this program"))?;
        let mut command = Command::new(program);
        command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(BenchError::io("starting the process that lifts throttling"))?;
        let mut said = [0; 1];
        let answered = child.stdout.as_mut().is_some_and(|stdout| stdout.read_exact(&mut said).is_ok());
        if answered {
            return Ok(Self { child });
        }
        let _ = child.wait();
        Err(BenchError::Setup {
            doing: format!("lifting the throttling of real-time threads ({RUNTIME})"),
            reason: "the kernel refused; it takes root, or leave out --lift-throttling".to_owned(),
        })
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        // Its input ends here, upon which it puts the limit back and ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Lifts the throttling until the input ends, which it does when the starting process ends, and puts it back.
pub(crate) fn run_process(out: &mut Output<'_>) -> Result<(), BenchError> {
    let before = fs::read_to_string(RUNTIME).map_err(BenchError::io("reading the limit of real-time threads"))?;
    set_runtime("-1")?;
    writeln!(out, "lifted")?;
    out.flush()?;
    let mut nothing = [0; 64];
    while matches!(std::io::stdin().read(&mut nothing), Ok(1..)) {}
    set_runtime(before.trim())
}

fn set_runtime(value: &str) -> Result<(), BenchError> {
    fs::write(Path::new(RUNTIME), value).map_err(BenchError::io("setting the limit of real-time threads"))
}

/// Which cores the parties and the experimenter use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    /// The only one that suppliers, consumers and services use; `None`: any.
    pub(super) parties: Option<usize>,
    /// Where an experiment pins them to get figures that can be compared: the first for suppliers and consumers.
    pub(super) ends: Option<usize>,
    /// And the last for the process between them.
    pub(super) middle: Option<usize>,
}

impl Cores {
    /// Confines the experimenter to the other cores if there are any, when the parties are to have one.
    pub(super) fn choose(one_cpu: bool) -> Result<Self, BenchError> {
        let doing = "choosing a core for the experiment";
        // Those of the process as it was begun, whatever an experiment before this one has confined it to.
        static ALLOWED: OnceLock<CpuSet> = OnceLock::new();
        let now = sched_getaffinity(None).map_err(BenchError::errno(doing))?;
        let allowed = *ALLOWED.get_or_init(|| now);
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        // The last one: the first takes most of the interrupts.
        let chosen = cores.last().copied();
        if !one_cpu {
            return Ok(Self { parties: None, ends: cores.first().copied(), middle: chosen });
        }
        if let (Some(chosen), true) = (chosen, cores.len() > 1) {
            let mut others = allowed;
            others.unset(chosen);
            sched_setaffinity(None, &others).map_err(BenchError::errno(doing))?;
        }
        Ok(Self { parties: chosen, ends: chosen, middle: chosen })
    }
}

/// Where a thread or a process runs and how: on the only core, if there is one, and at a `SCHED_FIFO` priority, if there is one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seat {
    pub(super) core: Option<usize>,
    pub(super) fifo: Option<u8>,
}

impl Seat {
    /// Has the calling thread, and those that it starts, run there.
    pub(super) fn take(self) -> Result<(), BenchError> {
        if let Some(core) = self.core {
            Place::only(core).take()?;
        }
        match self.fifo {
            Some(fifo) => system::run_fifo(fifo).map_err(BenchError::io("giving a thread its real-time priority")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_corba_priorities_as_the_service_does_by_default() {
        let privileged = RealTime { privileged: true, advice: None, granted_share: 1.0, throttling_lifted: false };
        assert_eq!(
            [0, 8000, 16000, 24000, i16::MAX].map(|priority| privileged.fifo(priority)),
            [Some(1), Some(24), Some(48), Some(72), Some(98)]
        );
        assert_eq!(RealTime { privileged: false, ..privileged }.fifo(8000), None);
    }

    #[test]
    fn says_what_to_do_where_privileges_are_missing() {
        let (real_time, lifted) = RealTime::find_out(false).unwrap();
        assert!(lifted.is_none());
        assert_eq!(real_time.privileged, real_time.advice.is_none());
        assert!(real_time.granted_share > 0.0 && real_time.granted_share <= 1.0);
    }
}

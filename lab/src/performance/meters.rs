//! What the processes in the middle use, as the kernel tells it: the same for every contender.

use std::fs;

use serde::Serialize;

use crate::{BenchError, system};

/// What some processes have used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meters {
    /// Nanoseconds of processor time.
    cpu: u64,
    /// Context switches because a thread waited for something.
    voluntary: u64,
    /// Context switches because another thread was given the core.
    involuntary: u64,
}

/// What they used between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Usage {
    pub(crate) cpu_us: f64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
}

impl Meters {
    pub(super) fn read(pids: &[u32]) -> Result<Self, BenchError> {
        let doing = "reading what a contender has used";
        let mut meters = Self::default();
        for &pid in pids {
            meters.cpu += system::process_cpu(pid).map_err(BenchError::io(doing))?;
            for (_, status) in statuses(pid)? {
                meters.voluntary += field::<u64>(&status, "voluntary_ctxt_switches").unwrap_or(0);
                meters.involuntary += field::<u64>(&status, "nonvoluntary_ctxt_switches").unwrap_or(0);
            }
        }
        Ok(meters)
    }

    /// What was used since an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> Usage {
        Usage {
            cpu_us: crate::latency::ratio(self.cpu.saturating_sub(earlier.cpu), 1000),
            // Of threads that have ended meanwhile, the kernel no longer tells.
            voluntary_switches: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary_switches: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// Octets that processes have resident, and their threads.
pub(super) fn memory_and_threads(pids: &[u32]) -> Result<(u64, u64), BenchError> {
    let doing = "reading what a contender has used";
    let (mut resident, mut threads) = (0, 0);
    for &pid in pids {
        resident += system::resident_bytes(pid).map_err(BenchError::io(doing))?;
        threads += u64::try_from(statuses(pid)?.len()).unwrap_or(0);
    }
    Ok((resident, threads))
}

/// The threads of a process.
pub(super) fn threads(pid: u32) -> Result<Vec<u32>, BenchError> {
    let doing = "looking at a contender's threads";
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).map_err(BenchError::io(doing))? {
        let name = entry.map_err(BenchError::io(doing))?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(threads)
}

/// What the kernel says of each thread.
pub(crate) fn statuses(pid: u32) -> Result<Vec<(u32, String)>, BenchError> {
    // A thread may end while this looks.
    let status = |thread| Some((thread, fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).ok()?));
    Ok(threads(pid)?.into_iter().filter_map(status).collect())
}

/// A field of such a text.
pub(crate) fn field<T: std::str::FromStr>(status: &str, name: &str) -> Option<T> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_this_process_has_used() {
        let own = [std::process::id()];
        let (resident, threads) = memory_and_threads(&own).unwrap();
        assert!(resident > 100_000 && threads >= 1);
        let before = Meters::read(&own).unwrap();
        let after = Meters::read(&own).unwrap();
        assert!(after.since(&before).cpu_us >= 0.0);
    }

    #[test]
    fn finds_a_field_by_its_whole_name() {
        let status = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(field(status, "voluntary_ctxt_switches"), Some(12));
        assert_eq!(field(status, "nonvoluntary_ctxt_switches"), Some(3));
        assert_eq!(field::<u64>(status, "ctxt_switches"), None);
    }
}

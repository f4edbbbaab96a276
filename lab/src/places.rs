//! Where on the machine the parties run.
//!
//! Left to itself, the scheduler places the parties of an exchange now on one core, where a wake-up costs next to
//! nothing, and now on two, where on a virtual machine it costs tens of microseconds. A contender that is lucky in a run wins it.
//! Pinned, every contender crosses from one core to another in the same places: the process in the middle has the
//! last core, the supplier the first one, the consumer the second one if there are three, else the supplier's.

use std::fs;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::BenchError;

const CHOOSING: &str = "choosing cores for the contenders";

/// The cores that each party may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) supplier: Place,
    pub(crate) consumer: Place,
    pub(crate) middle: Place,
}

/// The cores that a party may use.
#[derive(Clone, Copy)]
pub(crate) struct Place(CpuSet);

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.cores()).finish()
    }
}

impl Places {
    /// All cores that this process may use, for every part.
    pub(crate) fn anywhere() -> Result<Self, BenchError> {
        let all = Place(sched_getaffinity(None).map_err(BenchError::errno(CHOOSING))?);
        Ok(Self { supplier: all, consumer: all, middle: all })
    }

    /// Of the cores that these places have in common, one for each party.
    pub(crate) fn pinned(self) -> Self {
        let cores = self.middle.cores();
        let (Some(&first), Some(&last)) = (cores.first(), cores.last()) else { return self };
        let second = if cores.len() > 2 { cores.get(1).copied().unwrap_or(first) } else { first };
        Self { supplier: Place::only(first), consumer: Place::only(second), middle: Place::only(last) }
    }
}

impl Place {
    pub(crate) fn only(core: usize) -> Self {
        let mut set = CpuSet::new();
        set.set(core);
        Self(set)
    }

    /// The numbers of the cores.
    pub(crate) fn cores(&self) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|&core| self.0.is_set(core)).collect()
    }

    /// Puts the calling thread there.
    pub(crate) fn take(&self) -> Result<(), BenchError> {
        sched_setaffinity(None, &self.0).map_err(BenchError::errno(CHOOSING))
    }

    /// Puts all threads of a process there.
    pub(crate) fn give(&self, process: u32) -> Result<(), BenchError> {
        let doing = "listing the threads of a contender";
        let threads = fs::read_dir(format!("/proc/{process}/task")).map_err(BenchError::io(doing))?;
        for thread in threads {
            let name = thread.map_err(BenchError::io(doing))?.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            match sched_setaffinity(id, &self.0) {
                // It has ended meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(BenchError::errno(CHOOSING)(errno)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_each_party_one_core_when_pinned_and_all_when_not() {
        let anywhere = Places::anywhere().unwrap();
        assert_eq!(anywhere.middle.0.count(), sched_getaffinity(None).unwrap().count());
        let pinned = anywhere.pinned();
        for place in [pinned.supplier, pinned.consumer, pinned.middle] {
            assert_eq!(place.cores().len(), 1, "{place:?}");
            assert!(anywhere.middle.cores().contains(&place.cores()[0]));
        }
    }
}

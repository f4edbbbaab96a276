//! Scheduling of lanes: real-time priorities, processors, locked memory.
//!
//! The lanes of pools run at `SCHED_FIFO` (sched(7)) if the process may do that, at a native priority from 1 to 98 that follows from the
//! lane's priority; 99 is left to the kernel's own threads. If such a lane has endless work, the kernel keeps the system reachable: it
//! reserves ordinary threads a part of each second.

#![expect(unsafe_code, reason = "no safe wrapper offers a thread's scheduling policy or its own resource usage")]

use std::fs;
use std::io;
use std::mem::MaybeUninit;

use rustix::process::{Pid, Resource, getrlimit};

use crate::config::PriorityMapping;

/// Range of native priorities for lanes.
const LOWEST: i32 = 1;
const HIGHEST: i32 = 98;

/// Gives a thread the policy `SCHED_FIFO` at a native priority; `None` returns it to the ordinary policy.
///
/// # Errors
/// The process may not (`CAP_SYS_NICE`, or `RLIMIT_RTPRIO` of at least that priority), or the thread is gone.
pub(crate) fn set_policy(thread: Pid, native: Option<i32>) -> io::Result<()> {
    let (policy, sched_priority) = native.map_or((libc::SCHED_OTHER, 0), |native| (libc::SCHED_FIFO, native));
    let thread = thread.as_raw_nonzero().get();
    // Past the C library: that of static programs, musl, refuses it.
    // SAFETY: the kernel's `sched_param` is this one number, which lives until the call returns, and is only read. Whatever the thread's
    // number names, changing its scheduling touches no memory of this process.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const sched_priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread the policy `SCHED_FIFO` for good, at a native priority, 1 to 99, as a lane has it.
///
/// # Errors
/// The process may not (`CAP_SYS_NICE`, or `RLIMIT_RTPRIO` of at least that priority).
pub fn run_at_fifo(native: i32) -> io::Result<()> {
    set_policy(rustix::thread::gettid(), Some(native))
}

/// Tries on the calling thread whether it may have a real-time priority.
///
/// # Errors
/// The thread may not.
pub(crate) fn try_real_time() -> io::Result<()> {
    let thread = rustix::thread::gettid();
    set_policy(thread, Some(LOWEST))?;
    set_policy(thread, None)
}

/// Nice value of threads that give way to lanes (R5), which run at 0: administration, handshakes, and threads that use the processor for a
/// second at a time. At 19 administration had a seventieth of a lane's weight: beside other programs, or busy threads of its own service,
/// it took seconds to answer, and delayed a lane when both allocated.
pub(crate) const BEHIND_LANES: i32 = 10;
pub(crate) const BEHIND_ALL: i32 = 19;

/// Sets the nice value of this thread. On Linux it belongs to the thread.
pub(crate) fn give_way(nice: i32) {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), nice);
}

/// How often the calling thread has waited voluntarily since it began.
pub(crate) fn waits_of_this_thread() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` lives until the call returns, which only writes to it.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if result != 0 {
        return 0;
    }
    // SAFETY: the call succeeded, hence wrote all of it.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_nvcsw).unwrap_or(0)
}

/// The native priority for a lane's priority (0 to 32,767).
fn native(mapping: PriorityMapping, priority: i16) -> i32 {
    let priority = i32::from(priority.max(0));
    match mapping {
        // 32,767 becomes 98.
        PriorityMapping::Linear => LOWEST + priority * (HIGHEST - LOWEST) / i32::from(i16::MAX),
        PriorityMapping::Direct => priority.clamp(LOWEST, HIGHEST),
    }
}

/// The native priorities for several lanes' priorities, given in rising order. Where the mapping would give two of them the same one, the
/// more important one gets the next (at the end of the range, the less important one the one before), as long as there are enough native
/// priorities.
pub(crate) fn natives(mapping: PriorityMapping, priorities: &[i16]) -> Vec<(i16, i32)> {
    let mut all: Vec<(i16, i32)> = priorities.iter().map(|priority| (*priority, native(mapping, *priority))).collect();
    let mut least = LOWEST;
    for (_, native) in &mut all {
        *native = (*native).max(least);
        least = *native + 1;
    }
    let mut most = HIGHEST;
    for (_, native) in all.iter_mut().rev() {
        *native = (*native).min(most).max(LOWEST);
        most = *native - 1;
    }
    all
}

/// Warning if ordinary threads do not get their part of each second beside real-time threads that never wait; `None` if they do.
pub(crate) fn unreachable_beside_real_time() -> Option<&'static str> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 12) {
        let runtime = read("/proc/sys/kernel/sched_rt_runtime_us")?;
        return (runtime.trim() == "-1").then_some("/proc/sys/kernel/sched_rt_runtime_us is -1");
    }
    // Since Linux 6.12 the fair server does it, whatever that file says.
    let runtime = read("/sys/kernel/debug/sched/fair_server/cpu0/runtime")?;
    (runtime.trim() == "0").then_some("/sys/kernel/debug/sched/fair_server/cpu0/runtime is 0")
}

/// Binds the calling thread to these processors. An empty list keeps those that it inherited.
///
/// # Errors
/// None of the processors exists.
pub(crate) fn bind_to(processors: &[u16]) -> io::Result<()> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    processors.iter().for_each(|processor| set.set(usize::from(*processor)));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Locks all memory of the process, present and future.
///
/// # Errors
/// The process may not lock unlimited memory (`CAP_IPC_LOCK`, or an unlimited `RLIMIT_MEMLOCK`): at a limit it would get no more memory at
/// all.
pub(crate) fn lock_memory() -> io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    let limit = getrlimit(Resource::Memlock).current;
    if let Some(bytes) = limit.filter(|_| !may_lock_memory()) {
        return Err(io::Error::other(format!("the process may lock {bytes} octets, and has to have no limit")));
    }
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// Whether the process has `CAP_IPC_LOCK`, to which limits do not apply (capabilities(7): number 14).
fn may_lock_memory() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    capabilities & 1 << 14 != 0
}

/// Octets of its stack that a lane touches before its first event, so that no event waits for the memory.
const STACK_TOUCHED: usize = 256 << 10;

/// Has the system provide the memory of the calling thread's stack.
#[inline(never)]
pub(crate) fn touch_stack() {
    let mut stack = [0u8; STACK_TOUCHED];
    // Seen from outside, so that it is not left out.
    core::hint::black_box(&mut stack);
}

#[cfg(test)]
mod tests {
    use super::*;
    use PriorityMapping::{Direct, Linear};

    #[test]
    fn the_linear_mapping_takes_the_whole_range() {
        assert_eq!([0, 16_383, 32_767].map(|priority| native(Linear, priority)), [1, 49, 98]);
    }

    #[test]
    fn the_direct_mapping_takes_priorities_as_they_are() {
        assert_eq!([0, 1, 50, 98, 99, 32_767].map(|priority| native(Direct, priority)), [1, 1, 50, 98, 98, 98]);
    }

    #[test]
    fn different_priorities_stay_different_at_both_ends() {
        assert_eq!(natives(Linear, &[10, 20, 30]), [(10, 1), (20, 2), (30, 3)]);
        assert_eq!(natives(Linear, &[32_765, 32_766, 32_767]), [(32_765, 96), (32_766, 97), (32_767, 98)]);
        assert_eq!(natives(Linear, &[0, 16_383, 32_767]), [(0, 1), (16_383, 49), (32_767, 98)]);
        assert_eq!(natives(Direct, &[98, 99, 100]), [(98, 96), (99, 97), (100, 98)]);
    }

    #[test]
    fn the_order_holds_with_more_priorities_than_there_are_native_ones() {
        let many: Vec<i16> = (0..200).collect();
        let natives: Vec<i32> = natives(Linear, &many).into_iter().map(|(_, native)| native).collect();
        assert!(natives.is_sorted());
        assert_eq!((natives[0], natives[199]), (1, 98));
    }

    #[test]
    fn a_thread_that_waits_is_seen_to_have_waited() {
        let before = waits_of_this_thread();
        let (_post, wait) = std::sync::mpsc::channel::<()>();
        let _ = wait.recv_timeout(core::time::Duration::from_millis(5));
        assert!(waits_of_this_thread() > before);
    }

    #[test]
    fn a_thread_can_always_be_given_back_the_ordinary_policy() {
        set_policy(rustix::thread::gettid(), None).unwrap();
    }
}

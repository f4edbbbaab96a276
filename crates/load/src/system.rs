//! System calls that need `unsafe`, and figures of processes from `/proc`.

#![expect(
    unsafe_code,
    reason = "no safe wrapper offers scheduling policies, the processor clock of another process, ports chosen on connecting, or \
              many datagrams with a call"
)]

pub mod datagrams;

use std::fs;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use serde::Serialize;

use crate::Output;

/// Gives the calling thread the scheduling class that runs only on an idle core, and that any other thread preempts at once (sched(7),
/// `SCHED_IDLE`).
pub fn run_only_when_idle() -> io::Result<()> {
    schedule(0, libc::SCHED_IDLE, 0)
}

/// Gives the calling thread real-time priority, first in first out, from 1 to 99 (sched(7), `SCHED_FIFO`). Threads that
/// it starts and programs that it becomes inherit it.
pub fn run_fifo(priority: u8) -> io::Result<()> {
    schedule(0, libc::SCHED_FIFO, priority)
}

/// Restores the calling thread's normal scheduling class.
pub fn run_as_usual() -> io::Result<()> {
    schedule(0, libc::SCHED_OTHER, 0)
}

/// Gives the first thread of another process real-time priority.
pub fn have_run_fifo(pid: u32, priority: u8) -> io::Result<()> {
    schedule(libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?, libc::SCHED_FIFO, priority)
}

fn schedule(pid: libc::pid_t, policy: libc::c_int, priority: u8) -> io::Result<()> {
    let priority = libc::c_int::from(priority);
    // Past the C library: that of static programs, musl, refuses it.
    // SAFETY: the kernel's `sched_param` is this one number, which lives until the call returns, and is only read; 0 names the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, pid, policy, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a socket bound to an address choose its port when it connects (ip(7), `IP_BIND_ADDRESS_NO_PORT`). Otherwise the kernel, on bind,
/// searches for a port that no connection to any peer uses or has used in the last minute: with many recently closed connections that takes
/// most of the time.
pub fn choose_port_on_connecting(socket: &impl AsRawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (level, option, value) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, (&raw const on).cast());
    // SAFETY: `on` lives until the call returns, which only reads it, and `length` is its size.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Nanoseconds that all threads of a process together have spent on a processor, those that ended included.
///
/// Read from the process's own clock (clock_getcpuclockid(3)): exact at the moment of the call, where the figures in
/// `/proc/PID/stat` come in ticks of 10 ms. Time the kernel spends on behalf of the process, in system calls and in
/// the loopback device beneath them, is included.
pub fn process_cpu(pid: u32) -> io::Result<u64> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` lives until the call returns, which only writes a clock id into it.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` lives until the call returns, which only writes a timespec into it.
    let result = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, hence wrote the whole timespec.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(seconds.saturating_mul(crate::clock::SECOND).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

/// Nanoseconds that a thread of this process has spent on a processor (proc_pid_schedstat, first field). Of a thread
/// that runs at this moment, the last few milliseconds may be missing.
pub fn thread_cpu(thread: i32) -> io::Result<u64> {
    let statistics = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))?;
    let field = statistics.split_ascii_whitespace().next().and_then(|field| field.parse().ok());
    field.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Octets of memory a process has resident (proc_pid_statm(5)).
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages: u64 =
        statm.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages.saturating_mul(u64::try_from(rustix::param::page_size()).unwrap_or(4096)))
}

/// Number of threads of a process (proc_pid_task(5)).
pub fn threads(pid: u32) -> io::Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count() as u64)
}

/// Number of open files and sockets of a process (proc_pid_fd(5)).
pub fn descriptors(pid: u32) -> io::Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}

/// Number of sockets of a process (proc_pid_fd(5)).
pub fn sockets(pid: u32) -> io::Result<u64> {
    let links = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    Ok(links.filter(|link| link.as_os_str().as_encoded_bytes().starts_with(b"socket:")).count() as u64)
}

/// The machine, described for judging the figures.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Model of the processor, as the kernel names it.
    pub processor: String,
    /// Cores this program may use.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Processes ready to run in the minute before the benchmark began: other work on the machine. Figures taken while this was not near 0
    /// are worth little.
    pub load_average_before: f64,
    /// Processor time that the host of a virtual machine withheld during the benchmark, in seconds, all cores together (proc_stat(5),
    /// `steal`). Such a stall lasts milliseconds, at worst hundreds, and shows in p99.9 and the maximum of the thread that is running. 0
    /// where the host does not report it.
    pub stolen_seconds: f64,
    #[serde(skip)]
    stolen_ticks_before: u64,
    /// Version of this program.
    pub campanile: &'static str,
    /// The commit it was built from, as `CAMPANILE_COMMIT` said at build time; `null` if it did not.
    pub commit: Option<&'static str>,
}

impl Machine {
    /// Describes this machine; unknown properties are left empty.
    pub fn describe() -> Self {
        let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let load = fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
        Self {
            processor: processor.unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load_average_before: load.unwrap_or(0.0),
            stolen_seconds: 0.0,
            stolen_ticks_before: stolen_ticks(),
            campanile: env!("CARGO_PKG_VERSION"),
            commit: option_env!("CAMPANILE_COMMIT"),
        }
    }
}

impl Machine {
    /// Updates the time that the host has withheld.
    pub fn note_stolen(&mut self) {
        let ticks = stolen_ticks().saturating_sub(self.stolen_ticks_before);
        self.stolen_seconds = crate::latency::ratio(ticks, rustix::param::clock_ticks_per_second());
    }

    /// Warnings about the machine for readers of the tables; none if it was idle.
    pub fn write_warnings(&self, out: &mut Output<'_>) -> io::Result<()> {
        if self.load_average_before > 0.5 {
            writeln!(
                out,
                "\nThe machine was not idle (load average {:.2} before the run): compare the contenders with each other, \
                 not with other runs.",
                self.load_average_before
            )?;
        }
        if self.stolen_seconds > 0.0 {
            writeln!(
                out,
                "\nThe host took {:.2} s of processor time from this virtual machine meanwhile: the longest latencies may \
                 be its.",
                self.stolen_seconds
            )?;
        }
        Ok(())
    }
}

/// Processor time that the host of a virtual machine has withheld since the machine started, in seconds.
pub fn stolen_seconds() -> f64 {
    crate::latency::ratio(stolen_ticks(), rustix::param::clock_ticks_per_second())
}

/// Processor time that the host has withheld since the machine started, in ticks: the eighth figure of the first line of `/proc/stat`.
fn stolen_ticks() -> u64 {
    let statistics = fs::read_to_string("/proc/stat").unwrap_or_default();
    statistics.split_ascii_whitespace().nth(8).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_processor_time_of_a_process_by_its_id() {
        let own = std::process::id();
        let before = process_cpu(own).unwrap();
        let mut after = before;
        let mut value = 0_u64;
        while after == before {
            value = std::hint::black_box(value.wrapping_add(1));
            after = process_cpu(own).unwrap();
        }
        assert!(after > before);
    }

    #[test]
    fn says_that_a_process_does_not_exist() {
        assert!(process_cpu(99_999_999).is_err());
    }

    #[test]
    fn reads_resident_memory() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000);
    }
}

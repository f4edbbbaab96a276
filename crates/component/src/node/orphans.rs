//! Servers of a node manager that was killed: the next one of the folder starts nothing before they have ended.

use crate::process::{END_LIMIT, STEP_LIMIT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits for the servers of plans in a folder, which run as that user, to end. Those that take too long are killed.
pub(crate) fn await_end(folder: &Path, user: u32) {
    let orphans = find(folder, user);
    if orphans.is_empty() {
        return;
    }
    log::warn!("{} servers of a node manager that was killed are waited for", orphans.len());
    let overdue = not_ended(orphans, STEP_LIMIT);
    for (pid, process) in &overdue {
        log::warn!("process {pid} of a node manager that was killed did not end, and is killed");
        // By the descriptor, which is of no later process; and the group, if it leads one.
        let _ = pidfd_send_signal(process, Signal::KILL);
        let _ = kill_process_group(*pid, Signal::KILL);
    }
    for (pid, _) in not_ended(overdue, END_LIMIT) {
        log::error!("process {pid} of a node manager that was killed runs on: end it");
    }
}

/// Those that do not end in time, all together.
fn not_ended(mut processes: Vec<(Pid, OwnedFd)>, within: Duration) -> Vec<(Pid, OwnedFd)> {
    let limit = Instant::now() + within;
    processes.retain(|(_, process)| !has_ended(process, limit.saturating_duration_since(Instant::now())));
    processes
}

/// How many namespaces of processes a process is in, by `/proc/PID/status`. One in a container is none of ours.
fn depth(process: &Path) -> Option<usize> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:")).map(|pids| pids.split_whitespace().count())
}

/// Processes with `--plan` and a file of the folder on their command line.
fn find(folder: &Path, user: u32) -> Vec<(Pid, OwnedFd)> {
    let own = depth(Path::new("/proc/self"));
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let orphan = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)?;
        entry.metadata().ok().filter(|about| about.uid() == user)?;
        // Before its command line is read: a later process of that number is none.
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok().filter(|_| depth(&entry.path()) == own)?;
        let words: Vec<&[u8]> = line.split(|octet| *octet == 0).collect();
        let is_of = |file: &[u8]| Path::new(std::ffi::OsStr::from_bytes(file)).parent() == Some(folder);
        // The first is the program's name, which anybody may choose.
        words.windows(2).skip(1).any(|two| matches!(two, [b"--plan", file] if is_of(file))).then_some((pid, process))
    };
    entries.filter_map(orphan).collect()
}

fn has_ended(process: &OwnedFd, within: Duration) -> bool {
    let within = Timespec::try_from(within).unwrap_or_default();
    retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&within))) != Ok(0)
}

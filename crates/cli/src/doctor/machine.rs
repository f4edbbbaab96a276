//! Access to the machine: the files below `/proc`, `/sys`, `/dev` and `/boot`, through one struct that tests give trees of their own.

use std::fs;
use std::path::PathBuf;

/// The machine being examined.
pub(super) struct Machine {
    /// Prefix of every path: `/`, or a tree made by a test.
    root: PathBuf,
    /// Whether a thread of this process was given `SCHED_FIFO`, or why not.
    pub(super) fifo: Result<(), String>,
}

impl Machine {
    /// The machine on which this process runs.
    pub(super) fn this() -> Self {
        // On a thread of its own: nothing gives this one back what it had.
        let tried = std::thread::spawn(|| service::run_at_fifo(1)).join();
        let fifo =
            tried.map_or_else(|_| Err("the attempt failed".to_owned()), |result| result.map_err(|e| e.to_string()));
        Self { root: PathBuf::from("/"), fifo }
    }

    #[cfg(test)]
    pub(super) fn made_up(root: &std::path::Path, fifo: Result<(), String>) -> Self {
        Self { root: root.to_owned(), fifo }
    }

    /// A file's text without white space around it; `None` if there is none or it may not be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read(self.at(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// The whole number in a file, if that is its only content.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    /// The first four octets of a file as a number, as `/dev/cpu_dma_latency` gives it.
    pub(super) fn binary(&self, path: &str) -> Option<i32> {
        use std::io::Read as _;
        let mut octets = [0; 4];
        fs::File::open(self.at(path)).ok()?.read_exact(&mut octets).ok()?;
        Some(i32::from_ne_bytes(octets))
    }

    /// The names in a directory, sorted.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The directories of the processors, `/sys/devices/system/cpu/cpuN`, by number.
    pub(super) fn processors(&self) -> Vec<String> {
        const BASE: &str = "/sys/devices/system/cpu";
        let number = |name: &str| name.strip_prefix("cpu").and_then(|digits| digits.parse::<u32>().ok());
        let mut numbers: Vec<u32> = self.list(BASE).iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| format!("{BASE}/cpu{number}")).collect()
    }

    /// The soft and the hard value of a limit of this process, from `/proc/self/limits`. `u64::MAX` is unlimited; `None`: the file
    /// does not list it.
    pub(super) fn limit(&self, name: &str) -> Option<(u64, u64)> {
        let limits = self.read("/proc/self/limits")?;
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let mut values = line.split_whitespace().map(|value| match value {
            "unlimited" => Some(u64::MAX),
            value => value.parse().ok(),
        });
        Some((values.next()??, values.next()??))
    }

    /// Whether this process has a capability, by its number in capabilities(7).
    pub(super) fn has_capability(&self, number: u32) -> bool {
        let effective = self.status("CapEff").and_then(|value| u64::from_str_radix(&value, 16).ok());
        effective.is_some_and(|mask| mask >> number & 1 == 1)
    }

    /// A line of `/proc/self/status`.
    pub(super) fn status(&self, key: &str) -> Option<String> {
        let status = self.read("/proc/self/status")?;
        status.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
    }

    /// The kernel's version: 6.12 is (6, 12).
    pub(super) fn kernel(&self) -> (u32, u32) {
        let release = self.read("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

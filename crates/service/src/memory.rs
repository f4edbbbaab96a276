//! Memory budget of the process, and its division.
//!
//! The budget is `limits.memory_bytes`; the default is half of the machine's memory or of the control group's, whichever is less. Half of
//! the budget is for events that wait in channels, a quarter for administration (objects, names, filters, properties, references), and a
//! quarter for connections (incomplete input, unread output). The program itself, and memory that the allocator keeps, are not part of it.

use std::fs;
use std::path::{Path, PathBuf};

/// The budget of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    bytes: u64,
}

/// Minimum budget in bytes: below it not even a few large messages have room.
pub(crate) const BUDGET_MIN: u64 = 64 << 20;

/// Memory assumed if the system does not say.
const UNKNOWN: u64 = 4 << 30;

impl Memory {
    /// A budget of so many bytes.
    pub(crate) const fn new(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Half of the machine's or the control group's memory.
    pub(crate) fn of_machine() -> Self {
        Self::half_of(total_of_machine(), limits_of_groups(Path::new("/")))
    }

    fn half_of(machine: Option<u64>, groups: impl IntoIterator<Item = u64>) -> Self {
        let there_is = machine.into_iter().chain(groups).min().unwrap_or(UNKNOWN);
        Self::new((there_is / 2).max(BUDGET_MIN))
    }

    /// The budget and its origin, as text for people.
    pub(crate) fn described(self, is_configured: bool) -> String {
        let (bytes, part) = (self.bytes, readable(self.bytes));
        if is_configured {
            format!("{part} ({bytes} octets, limits.memory_bytes)")
        } else if bytes == BUDGET_MIN {
            format!("{part} ({bytes} octets), the least there may be: this machine or control group has little")
        } else {
            let whole = readable(bytes.saturating_mul(2));
            format!("{part} ({bytes} octets), half of the {whole} that this machine or control group has")
        }
    }

    /// Part for waiting events, of all channels.
    pub(crate) const fn of_channels(self) -> u64 {
        self.bytes / 2
    }

    /// Part for administration.
    pub(crate) const fn of_administration(self) -> u64 {
        self.bytes / 4
    }

    /// Part for connections.
    pub(crate) const fn of_connections(self) -> u64 {
        self.bytes / 4
    }
}

/// An amount in the most readable unit, with one decimal.
fn readable(bytes: u64) -> String {
    let (shift, unit) = if bytes >= 1 << 30 { (30, "GiB") } else { (20, "MiB") };
    let tenths = (u128::from(bytes) * 10) >> shift;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// The machine's memory.
fn total_of_machine() -> Option<u64> {
    total_of(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Limits of the control groups of the process, of either version. A group's limit may exceed that of a group above it, so all are read.
fn limits_of_groups(root: &Path) -> Vec<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            "memory" => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the path may be one of the host; then the group is what is mounted.
        let group = PathBuf::from(path.trim_start_matches('/'));
        for group in group.ancestors() {
            let limit = fs::read_to_string(root.join(mount).join(group).join(file)).ok();
            // "max" is no limit.
            limits.extend(limit.and_then(|limit| limit.trim().parse::<u64>().ok()));
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_half_of_what_machine_or_group_has() {
        assert_eq!(Memory::half_of(Some(8 << 30), []), Memory::new(4 << 30));
        assert_eq!(Memory::half_of(Some(8 << 30), [2 << 30, 1 << 30]), Memory::new(512 << 20));
        assert_eq!(Memory::half_of(Some(8 << 30), [u64::MAX]), Memory::new(4 << 30));
        assert_eq!(Memory::half_of(Some(1 << 20), []), Memory::new(BUDGET_MIN));
        assert_eq!(Memory::half_of(None, []), Memory::new(UNKNOWN / 2));
    }

    #[test]
    fn the_parts_are_the_whole() {
        let memory = Memory::new(1 << 30);
        let parts = memory.of_channels() + memory.of_administration() + memory.of_connections();
        assert_eq!(parts, memory.bytes);
    }

    #[test]
    fn the_budget_is_reported_in_a_unit_that_people_read() {
        let memory = Memory::new(12_560_000_000);
        let machine = memory.described(false);
        assert_eq!(
            machine,
            "11.6 GiB (12560000000 octets), half of the 23.3 GiB that this machine or control group has"
        );
        assert_eq!(Memory::new(64 << 20).described(true), "64.0 MiB (67108864 octets, limits.memory_bytes)");
        assert!(Memory::new(BUDGET_MIN).described(false).contains("the least"));
    }

    #[test]
    fn the_machine_says_what_it_has() {
        assert_eq!(total_of("MemTotal:       24683520 kB\nMemFree: 1 kB\n"), Some(24_683_520 << 10));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert!(total_of_machine().is_some());
    }

    #[test]
    fn groups_of_both_versions_are_found_with_those_above_them() {
        let root = testing::TempPath::new("memory");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "4:memory:/docker/1\n3:cpu:/\n0::/system.slice/campanile.service\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
        write("sys/fs/cgroup/system.slice/campanile.service/memory.max", "max\n");
        write("sys/fs/cgroup/system.slice/memory.max", "2000\n");
        let limits = limits_of_groups(&root);
        assert_eq!(limits, [3000, 2000]);
    }
}

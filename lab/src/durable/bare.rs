//! The store's engine without a service: the same settings, records and removals, and no client that waits.

use std::path::Path;

use redb::{Database, TableDefinition};

use crate::latency::Recorder;
use crate::{BenchError, clock};

/// As the store has it.
const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
const CACHE_BYTES: usize = 4 << 20;

/// The engine, with a file of its own.
pub(super) struct Bare {
    database: Database,
    next: u64,
    record: Vec<u8>,
}

/// What turns came to.
#[derive(Default)]
pub(super) struct Committed {
    pub(super) records: u64,
    pub(super) nanoseconds: u64,
    /// How long each commit took.
    pub(super) commit: Recorder,
    /// Octets that the kernel was given to write.
    pub(super) written: u64,
}

fn failed(error: impl Into<redb::Error>) -> BenchError {
    BenchError::Setup { doing: "committing to the bare engine".into(), reason: error.into().to_string() }
}

impl Bare {
    pub(super) fn open(path: &Path, record_bytes: u64) -> Result<Self, BenchError> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(failed)?;
        let record = vec![0x5a; usize::try_from(record_bytes).unwrap_or(0)];
        Ok(Self { database, next: 1, record })
    }

    /// Commits so many records at a time, and removes as many of before with each, for so long.
    pub(super) fn run(&mut self, at_once: u32, turn_ns: u64, into: &mut Committed) -> Result<(), BenchError> {
        let (began, written) = (clock::now(), written_by(std::process::id()));
        let (mut now, until) = (began, began + turn_ns);
        while now < until {
            self.commit(u64::from(at_once))?;
            into.records += u64::from(at_once);
            let then = clock::now();
            into.commit.record(then - now);
            now = then;
        }
        into.nanoseconds += now - began;
        into.written += written_by(std::process::id()).saturating_sub(written);
        Ok(())
    }

    fn commit(&mut self, at_once: u64) -> Result<(), BenchError> {
        let begun = self.database.begin_write().map_err(failed)?;
        {
            let mut events = begun.open_table(EVENTS).map_err(failed)?;
            let numbers = self.next..self.next + at_once;
            for number in numbers.clone() {
                events.insert(number, self.record.as_slice()).map_err(failed)?;
            }
            // Those of the commit before.
            for number in numbers {
                events.remove(number.saturating_sub(at_once)).map_err(failed)?;
            }
            self.next += at_once;
        }
        begun.commit().map_err(failed)
    }
}

/// Octets that a process has had the kernel write to disks; 0 where the kernel does not say.
pub(super) fn written_by(pid: u32) -> u64 {
    let told = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

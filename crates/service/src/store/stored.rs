//! The store of a service that does not run, for an operator: inspected, checked, compacted.
//!
//! The file is opened like at the start of the service: checksums are verified, and an unclean end is repaired, but only in memory, so that
//! inspection changes nothing. It is never created here.

use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use corba::Image;
use corba::event::UtcClock;
use engine::Time;

use super::disk::{Disk, FILE, StoreError};
use super::record::{self, Record};
use super::target::Target;
use crate::overflow::history::stored::{self as history, StoredHistory};
use crate::start;

/// The store of a service that does not run.
pub struct OfflineStore {
    directory: PathBuf,
    disk: Disk,
}

impl fmt::Debug for OfflineStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptStore").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A stored event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The event's number, in ascending order of arrival.
    pub number: u64,
    /// The channel's number.
    pub channel: u32,
    /// Octets of the event's record.
    pub bytes: u64,
    /// Arrival time of the event.
    pub arrived: SystemTime,
    /// Number of unconfirmed consumers. `None`: the list was not on disk when the service ended, and all subscribers get the event.
    pub consumers: Option<u64>,
    /// Number of consumers for which it is a dead letter.
    pub aside: u64,
}

/// The reason why a store cannot be used offline.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OfflineStoreError {
    /// The folder has no store.
    Missing(PathBuf),
    /// Another process has opened the store.
    InUse(PathBuf),
    /// The folder for a new store is not empty.
    NotEmpty(PathBuf),
    /// The store's file is damaged.
    Damaged {
        /// The folder.
        directory: PathBuf,
        /// The damage.
        why: String,
    },
    /// The store cannot be read, or another release wrote it.
    Unusable {
        /// The folder.
        directory: PathBuf,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for OfflineStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(directory) => {
                write!(f, "there is no store in {}; name its folder with --data", directory.display())
            }
            Self::InUse(directory) => write!(
                f,
                "the store in {} is in use: stop the service that has it first; what a running service has stored is shown by `campanile \
                 ls` and `campanile stats store`",
                directory.display()
            ),
            Self::NotEmpty(directory) => write!(
                f,
                "there is something in {}: name a folder for the new store that is empty, or not there",
                directory.display()
            ),
            Self::Damaged { directory, why } => write!(
                f,
                "the store in {} is damaged: {why}; `campanile store salvage` brings out what is whole",
                directory.display()
            ),
            Self::Unusable { directory, why } => {
                write!(f, "the store in {} cannot be used: {why}", directory.display())
            }
        }
    }
}

impl core::error::Error for OfflineStoreError {}

impl OfflineStore {
    /// Opens the store in a folder, and verifies all checksums.
    ///
    /// # Errors
    /// There is none, a process has it open, it is damaged, or of another release.
    pub fn open(directory: &Path) -> Result<Self, OfflineStoreError> {
        if !directory.join(FILE).is_file() {
            return Err(OfflineStoreError::Missing(directory.into()));
        }
        let disk = Disk::look_at(directory).map_err(|error| explain(directory, &error))?;
        Ok(Self { directory: directory.into(), disk })
    }

    /// The version of the tables. A service upgrades earlier ones when it opens the store.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.disk.version()
    }

    /// Octets of the store's file, holes included.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        file_bytes(&self.directory)
    }

    /// Octets of the store's file on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk.octets()
    }

    /// The stored configuration.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn image(&mut self) -> Result<Image, OfflineStoreError> {
        self.disk.image().map_err(|error| explain(&self.directory, &error))
    }

    /// Passes each stored event to `tell`, in ascending order of its number, or what is wrong with it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn events(&mut self, mut tell: impl FnMut(Result<StoredEvent, String>)) -> Result<(), OfflineStoreError> {
        let epoch = UtcClock::new(Time(0), Duration::ZERO).utc;
        let told = self.disk.each_event(0, |number, consumers, octets| {
            let record = Record::read(octets).ok_or_else(|| format!("event {number} cannot be read"));
            let whole = consumers.is_none_or(|list| list.len().is_multiple_of(size_of::<u32>()));
            tell(record.and_then(|record| {
                if !whole {
                    return Err(format!("event {number}: its consumers cannot be read"));
                }
                let arrived = Duration::from_micros(record.arrived().saturating_sub(epoch) / 10);
                Ok(StoredEvent {
                    number,
                    channel: record.source.channel.0,
                    bytes: octets.len() as u64,
                    arrived: UNIX_EPOCH + arrived,
                    consumers: consumers.map(|list| record::count_consumers(list) as u64),
                    aside: consumers.map_or(0, |list| record::read_aside(list).count() as u64),
                })
            }));
            ControlFlow::Continue(())
        });
        told.map_err(|error| explain(&self.directory, &error))
    }

    /// The stored history of all channels, in ascending order of their numbers.
    ///
    /// # Errors
    /// The history cannot be read.
    pub fn history(&self) -> Result<Vec<StoredHistory>, OfflineStoreError> {
        self.read_history(false).map(|(channels, _)| channels)
    }

    fn read_history(&self, verifies: bool) -> Result<(Vec<StoredHistory>, Vec<String>), OfflineStoreError> {
        let unusable = |error: io::Error| OfflineStoreError::Unusable {
            directory: self.directory.clone(),
            why: error.to_string(),
        };
        history::look(&self.directory, verifies).map_err(unusable)
    }

    /// Reads the whole store and returns descriptions of damage: none if a service can start with it and deliver every event.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn check(&mut self) -> Result<Vec<String>, OfflineStoreError> {
        let mut damaged = Vec::new();
        let image = self.image()?;
        if let Err(why) = start::try_restore(&image) {
            damaged.push(format!("what is configured cannot be restored: {why}"));
        }
        self.events(|event| damaged.extend(event.err()))?;
        damaged.extend(self.read_history(true)?.1);
        Ok(damaged)
    }

    /// Shrinks the file to its contents, and returns its new length in octets.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn compact(self) -> Result<u64, OfflineStoreError> {
        let Self { directory, disk } = self;
        drop(disk);
        let compacted = Disk::open(&directory).and_then(|mut disk| disk.compact());
        compacted.map_err(|error| explain(&directory, &error))?;
        // When it is closed, the database records its free pages.
        Ok(file_bytes(&directory))
    }

    /// Copies the store into a new one in another folder, with a compact file. Returns that file's length in octets.
    ///
    /// # Errors
    /// This store cannot be read, or the folder is not empty or cannot be written to.
    pub fn compact_to(&mut self, to: &Path) -> Result<u64, OfflineStoreError> {
        let mut target = Target::new(to)?;
        for (key, value) in self.image()? {
            target.part(key, value)?;
        }
        let mut failed = Ok(());
        let read = self.disk.each_event(0, |number, consumers, record| {
            failed = target.event(number, record.to_vec());
            if let Some(list) = consumers.filter(|_| failed.is_ok()) {
                failed = target.list(number, list.to_vec());
            }
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.map_err(|error| explain(&self.directory, &error))?;
        failed?;
        let read = self.disk.service().and_then(|service| Ok((service, self.disk.origins_seen()?)));
        let (service, origins) = read.map_err(|error| explain(&self.directory, &error))?;
        target.service(service)?;
        if let Some((record, position)) = self.disk.standby().map_err(|error| explain(&self.directory, &error))? {
            target.standby(record, position)?;
        }
        origins.into_iter().try_for_each(|(number, origin)| target.origin(number, origin))?;
        target.finish(&self.directory)
    }
}

fn file_bytes(directory: &Path) -> u64 {
    fs::metadata(directory.join(FILE)).map_or(0, |file| file.len())
}

pub(super) fn explain(directory: &Path, error: &StoreError) -> OfflineStoreError {
    let directory = directory.to_path_buf();
    match error {
        StoreError::InUse => OfflineStoreError::InUse(directory),
        _ if error.is_damage() => OfflineStoreError::Damaged { directory, why: error.to_string() },
        _ => OfflineStoreError::Unusable { directory, why: error.to_string() },
    }
}

//! What a service that does not run has kept, for an operator: looked at, checked, made smaller.
//!
//! The file is opened as the service opens it at its start: with its checksums verified, and what an end without warning has left undone
//! undone, though only in memory: looking changes nothing. It is never made here.

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

/// An event that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// Its number, which rises from one event to the next.
    pub number: u64,
    /// The channel that it came to.
    pub channel: u32,
    /// Octets of it, with what is kept beside it.
    pub bytes: u64,
    /// When it arrived.
    pub arrived: SystemTime,
    /// How many consumers are yet to confirm it. `None`: not on disk when the service ended, and all consumers that want it get it.
    pub consumers: Option<u64>,
    /// For how many consumers it is a dead letter, since each never took it.
    pub aside: u64,
}

/// Why a store cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OfflineStoreError {
    /// There is none in this folder.
    Missing(PathBuf),
    /// A process has it.
    InUse(PathBuf),
    /// There is something in the folder that a new store is to be in.
    NotEmpty(PathBuf),
    /// Its file is damaged.
    Damaged {
        /// The folder.
        directory: PathBuf,
        /// What is damaged.
        why: String,
    },
    /// It cannot be read, or was written by another release.
    Unusable {
        /// The folder.
        directory: PathBuf,
        /// Why not.
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
    /// Opens the store in a folder, and verifies the checksums of all that it has.
    ///
    /// # Errors
    /// There is none, a process has it, it is damaged, or of another release.
    pub fn open(directory: &Path) -> Result<Self, OfflineStoreError> {
        if !directory.join(FILE).is_file() {
            return Err(OfflineStoreError::Missing(directory.into()));
        }
        let disk = Disk::look_at(directory).map_err(|error| explain(directory, &error))?;
        Ok(Self { directory: directory.into(), disk })
    }

    /// The form of its tables. A service that begins with one of an earlier form makes it one of its own.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.disk.version()
    }

    /// Octets of its file, holes included.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        file_bytes(&self.directory)
    }

    /// Octets that it takes on disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk.octets()
    }

    /// What is configured, in its parts.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn image(&mut self) -> Result<Image, OfflineStoreError> {
        self.disk.image().map_err(|error| explain(&self.directory, &error))
    }

    /// Tells of each event that is kept, by rising number; or what is wrong with it.
    ///
    /// # Errors
    /// They cannot be read.
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

    /// Stored history of channels, by their numbers.
    ///
    /// # Errors
    /// It cannot be read.
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

    /// Looks at all of it. Says what is damaged: nothing where a service can begin with it, and delivers every event.
    ///
    /// # Errors
    /// It cannot be read.
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

    /// Makes the file as small as what is in it, and says how many octets it has then.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn compact(self) -> Result<u64, OfflineStoreError> {
        let Self { directory, disk } = self;
        drop(disk);
        let compacted = Disk::open(&directory).and_then(|mut disk| disk.compact());
        compacted.map_err(|error| explain(&directory, &error))?;
        // As it was closed, it noted what is free.
        Ok(file_bytes(&directory))
    }

    /// Makes a new store in another folder, as small as what is in this one, which stays as it is; and says how many octets its file has.
    ///
    /// # Errors
    /// This one cannot be read, or there is something in that folder, or it cannot be written to.
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

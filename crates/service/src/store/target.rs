//! A new store that is filled with the contents of another.
//!
//! Until it is complete it is in a subfolder ([`UNFINISHED`]) of its folder, so that no service starts with part of a store. If it cannot
//! be completed, nothing of it stays.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Changes;
use super::disk::{Disk, FILE, Phases, StoreError};
use super::origins::SeenOrigin;
use super::replication::{Position, StandbyRecord};
use super::stored::{OfflineStoreError, explain};
use crate::overflow::HISTORY_FOLDER;

/// Octets of one batch.
const BATCH: usize = 8 << 20;

/// The subfolder of a new store that is not complete.
pub(super) const UNFINISHED: &str = "unfinished";

/// A new store under construction.
pub(super) struct Target {
    directory: PathBuf,
    disk: Disk,
    unfinished: Unfinished,
    parts: Changes,
    events: Vec<(u64, Vec<u8>)>,
    lists: Vec<(u64, Vec<u8>)>,
    origins: Vec<(u64, SeenOrigin)>,
    octets: usize,
}

impl Target {
    /// Creates a store in a folder that does not exist or is empty.
    pub(super) fn new(directory: &Path) -> Result<Self, OfflineStoreError> {
        let (is_empty, is_there) = match fs::read_dir(directory) {
            Ok(mut entries) => (entries.next().is_none(), true),
            Err(error) => (error.kind() == io::ErrorKind::NotFound, false),
        };
        if !is_empty {
            return Err(OfflineStoreError::NotEmpty(directory.into()));
        }
        let made = (!is_there).then(|| directory.to_path_buf());
        let unfinished = Unfinished { folder: directory.join(UNFINISHED), made };
        let disk = Disk::open(&unfinished.folder).map_err(|error| explain(directory, &error))?;
        let (parts, events, lists, origins) = (Changes::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { directory: directory.into(), disk, unfinished, parts, events, lists, origins, octets: 0 })
    }

    /// Adds a part of the configuration.
    pub(super) fn part(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), OfflineStoreError> {
        self.octets += key.len() + value.len();
        self.parts.insert(key, Some(value));
        self.write_much()
    }

    /// Adds an event.
    pub(super) fn event(&mut self, number: u64, record: Vec<u8>) -> Result<(), OfflineStoreError> {
        self.octets += record.len();
        self.events.push((number, record));
        self.write_much()
    }

    /// Adds the list of an event's unconfirmed consumers.
    pub(super) fn list(&mut self, number: u64, list: Vec<u8>) -> Result<(), OfflineStoreError> {
        self.octets += list.len();
        self.lists.push((number, list));
        self.write_much()
    }

    /// Adds the origin of an event from another service.
    pub(super) fn origin(&mut self, event: u64, origin: SeenOrigin) -> Result<(), OfflineStoreError> {
        self.octets += SeenOrigin::KEY_BYTES;
        self.origins.push((event, origin));
        self.write_much()
    }

    /// Sets the number by which other services know this one.
    pub(super) fn service(&mut self, service: u64) -> Result<(), OfflineStoreError> {
        let written = self.disk.write_batch(Phases::Two, |batch| batch.keep_service(service));
        written.map(drop).map_err(|error| explain(&self.directory, &error))
    }

    /// Sets what is remembered of replication: the contents are the same.
    pub(super) fn standby(&mut self, record: StandbyRecord, position: Position) -> Result<(), OfflineStoreError> {
        let kept = self.disk.keep_standby(record, Some(position));
        kept.map_err(|error| explain(&self.directory, &error))
    }

    fn write_much(&mut self) -> Result<(), OfflineStoreError> {
        if self.octets < BATCH { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), OfflineStoreError> {
        let Self { directory, disk, parts, events, lists, origins, octets, .. } = self;
        let written = disk.write_batch(Phases::Two, |batch| {
            batch.change_parts(parts)?;
            events.iter().try_for_each(|(number, record)| batch.keep_event(*number, record))?;
            lists.iter().try_for_each(|(number, list)| batch.keep_consumers(*number, list))?;
            origins.iter().try_for_each(|(number, origin)| batch.keep_origin(*number, origin))
        });
        written.map_err(|error| explain(directory, &error))?;
        parts.clear();
        events.clear();
        lists.clear();
        origins.clear();
        *octets = 0;
        Ok(())
    }

    /// Writes the rest, and copies the files of channels' history from the old store's folder. Returns the length of the new file in
    /// octets.
    pub(super) fn finish(mut self, from: &Path) -> Result<u64, OfflineStoreError> {
        self.write()?;
        let Self { directory, mut disk, unfinished, .. } = self;
        disk.compact().map_err(|error| explain(&directory, &error))?;
        drop(disk);
        let failed = |error| explain(&directory, &StoreError::Folder(error));
        copy_all(&from.join(HISTORY_FOLDER), &unfinished.folder.join(HISTORY_FOLDER)).map_err(failed)?;
        unfinished.finish(&directory).map_err(failed)?;
        Ok(fs::metadata(directory.join(FILE)).map_err(failed)?.len())
    }
}

/// The folder of a store under construction. On drop it is removed, and so is the folder `made` for the store, if it is empty.
struct Unfinished {
    folder: PathBuf,
    made: Option<PathBuf>,
}

impl Unfinished {
    /// Moves the contents into the store's folder.
    fn finish(&self, directory: &Path) -> io::Result<()> {
        let history = self.folder.join(HISTORY_FOLDER);
        if history.is_dir() {
            fs::rename(history, directory.join(HISTORY_FOLDER))?;
        }
        // Last, since a folder without this file has no store.
        fs::rename(self.folder.join(FILE), directory.join(FILE))?;
        fs::File::open(directory)?.sync_all()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(made) = &self.made {
            let _ = fs::remove_dir(made);
        }
    }
}

/// Copies a folder with its contents, if it exists.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
            fs::File::open(to)?.sync_all()?;
        }
    }
    Ok(())
}

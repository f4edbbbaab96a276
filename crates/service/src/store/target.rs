//! A new store that is filled with what another has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Changes;
use super::disk::{Disk, FILE, Phases, StoreError};
use super::kept::{KeptError, explain};
use crate::overflow::PAST;

/// Octets that are written in one batch.
const BATCH: usize = 8 << 20;

/// The new store.
pub(super) struct Target {
    directory: PathBuf,
    disk: Disk,
    parts: Changes,
    events: Vec<(u64, Vec<u8>)>,
    lists: Vec<(u64, Vec<u8>)>,
    octets: usize,
}

impl Target {
    /// Makes one in a folder that is made, or is empty.
    pub(super) fn new(directory: &Path) -> Result<Self, KeptError> {
        let is_empty = match fs::read_dir(directory) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !is_empty {
            return Err(KeptError::NotEmpty(directory.into()));
        }
        let disk = Disk::open(directory).map_err(|error| explain(directory, &error))?;
        let (parts, events, lists) = (Changes::new(), Vec::new(), Vec::new());
        Ok(Self { directory: directory.into(), disk, parts, events, lists, octets: 0 })
    }

    /// Has a part of what is configured.
    pub(super) fn part(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), KeptError> {
        self.octets += key.len() + value.len();
        self.parts.insert(key, Some(value));
        self.write_much()
    }

    /// Has an event.
    pub(super) fn event(&mut self, number: u64, record: Vec<u8>) -> Result<(), KeptError> {
        self.octets += record.len();
        self.events.push((number, record));
        self.write_much()
    }

    /// Has the list of those who are yet to confirm an event.
    pub(super) fn list(&mut self, number: u64, list: Vec<u8>) -> Result<(), KeptError> {
        self.octets += list.len();
        self.lists.push((number, list));
        self.write_much()
    }

    fn write_much(&mut self) -> Result<(), KeptError> {
        if self.octets < BATCH { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), KeptError> {
        let Self { directory, disk, parts, events, lists, octets } = self;
        let written = disk.write_batch(Phases::Two, |batch| {
            batch.change_parts(parts)?;
            events.iter().try_for_each(|(number, record)| batch.keep_event(*number, record))?;
            lists.iter().try_for_each(|(number, list)| batch.keep_consumers(*number, list))
        });
        written.map_err(|error| explain(directory, &error))?;
        parts.clear();
        events.clear();
        lists.clear();
        *octets = 0;
        Ok(())
    }

    /// Writes what is left, and takes over the files of channels' past from the store's former folder. Says how many octets its file has.
    pub(super) fn finish(mut self, from: &Path) -> Result<u64, KeptError> {
        self.write()?;
        let Self { directory, mut disk, .. } = self;
        disk.compact().map_err(|error| explain(&directory, &error))?;
        drop(disk);
        let failed = |error| explain(&directory, &StoreError::Folder(error));
        copy_all(&from.join(PAST), &directory.join(PAST)).map_err(failed)?;
        Ok(fs::metadata(directory.join(FILE)).map_err(failed)?.len())
    }
}

/// Copies a folder with all that is in it, if it is there.
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

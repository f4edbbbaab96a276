//! The block device of the database, including failed synchronisations and removed files.
//!
//! A system that cannot write what it is to synchronise reports that once, and from then on treats its memory as written: a process that
//! opens the file anew reads data that is not on the disk, and the next synchronisation succeeds without writing it. A tree built upon such
//! data is lost with the power. So all writes since the last successful synchronisation are noted. After a failed one, the next open in
//! this process reads and writes them again before anything else.
//!
//! A file that was removed, or whose folder was moved or unmounted, can still be written and synchronised by a process that has it open,
//! but the next process does not find it. So each synchronisation checks that the file is in its folder.
//!
//! The blocks on the disk are taken before a write ([`Room`]).

use core::fmt;
use core::ops::Bound;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend, StorageError};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::disk::BLOCK_BYTES;
use super::room::{FileBlocks, RESERVE, Room, is_full};

/// Maximum separate ranges; beyond that, everything between the first and the last counts as written.
const PLACES_MAX: usize = 4_096;
/// Octets written again at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Disjoint, non-adjacent ranges of a file: the end of each by its beginning.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<u64, u64>);

/// Pending changes: the ranges written, and whether the length has changed.
#[derive(Debug, Default)]
struct Changed {
    places: Places,
    is_resized: bool,
}

impl Changed {
    fn add(&mut self, other: Self) {
        other.places.0.into_iter().for_each(|(from, to)| self.places.add(from, to));
        self.is_resized |= other.is_resized;
    }
}

impl Places {
    /// Whether the whole range is among them.
    pub(super) fn has(&self, from: u64, to: u64) -> bool {
        self.0.range(..=from).next_back().is_some_and(|(_, ends)| *ends >= to)
    }

    /// Cuts off everything from `end` on.
    pub(super) fn cut(&mut self, end: u64) {
        drop(self.0.split_off(&end));
        self.0.values_mut().for_each(|ends| *ends = (*ends).min(end));
    }

    pub(super) fn add(&mut self, from: u64, to: u64) {
        let (mut from, mut to) = (from, to);
        while let Some((begins, ends)) = self.0.range(..=to).next_back().map(|(begins, ends)| (*begins, *ends)) {
            if ends < from {
                break;
            }
            self.0.remove(&begins);
            (from, to) = (from.min(begins), to.max(ends));
        }
        self.0.insert(from, to);
        if self.0.len() > PLACES_MAX
            && let (Some((first, _)), Some((_, last))) = (self.0.first_key_value(), self.0.last_key_value())
        {
            self.0 = BTreeMap::from([(*first, *last)]);
        }
    }
}

/// Writes not known to be on the disk.
#[derive(Debug, Default)]
struct Written {
    /// Writes since the last synchronisation.
    lately: Changed,
    /// Writes before failed synchronisations: the next one does not write them unless they are written again.
    in_vain: Changed,
}

/// Unsynchronised writes, shared between the database and the next one opened in this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsynchronised(Arc<Mutex<Written>>);

impl Unsynchronised {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A check after each synchronisation that the file is still in its folder.
type Look = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A block device that notes unsynchronised writes.
pub(super) struct BlockDevice<B> {
    on: B,
    unsynchronised: Unsynchronised,
    look: Look,
    room: Room,
}

impl<B> fmt::Debug for BlockDevice<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Medium").finish_non_exhaustive()
    }
}

impl<B: StorageBackend> BlockDevice<B> {
    /// Opens the device, and repeats the writes of failed synchronisations.
    pub(super) fn open(on: B, unsynchronised: Unsynchronised, look: Look, room: Room) -> io::Result<Self> {
        let block_device = Self { on, unsynchronised, look, room };
        block_device.write_again()?;
        Ok(block_device)
    }

    fn write_again(&self) -> io::Result<()> {
        let mut written = self.unsynchronised.lock();
        let (length, mut chunk) = (self.on.len()?, Vec::new());
        if written.in_vain.is_resized {
            self.on.set_len(length)?;
        }
        for (from, to) in &written.in_vain.places.0 {
            let (mut at, ends) = (*from, (*to).min(length));
            while at < ends {
                let octets = (ends - at).min(CHUNK_BYTES);
                chunk.resize(usize::try_from(octets).unwrap_or(0), 0);
                self.on.read(at, &mut chunk)?;
                self.on.write(at, &chunk)?;
                at += octets;
            }
        }
        let again = core::mem::take(&mut written.in_vain);
        written.lately.add(again);
        Ok(())
    }
}

impl<B: StorageBackend> StorageBackend for BlockDevice<B> {
    fn len(&self) -> io::Result<u64> {
        self.on.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.on.read(offset, out)
    }

    fn set_len(&self, octets: u64) -> io::Result<()> {
        self.unsynchronised.lock().lately.is_resized = true;
        self.on.set_len(octets)?;
        self.room.resized(octets);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        // There is only one thread, so nothing is written meanwhile.
        let synchronised = self.on.sync_data();
        let mut written = self.unsynchronised.lock();
        let lately = core::mem::take(&mut written.lately);
        if synchronised.is_err() {
            written.in_vain.add(lately);
        }
        drop(written);
        if synchronised.as_ref().is_err_and(is_full) {
            // Some file systems find out only here that the disk is full.
            self.room.give_reserve();
        }
        synchronised.and_then(|()| (self.look)())
    }

    fn write(&self, offset: u64, octets: &[u8]) -> io::Result<()> {
        let end = offset + octets.len() as u64;
        self.room.before_write(offset, end)?;
        // Noted even if it fails, since part of it may have been written.
        self.unsynchronised.lock().lately.places.add(offset, end);
        loop {
            match self.on.write(offset, octets) {
                // Blocks were not allocated beforehand, or were shared after all.
                Err(error) if is_full(&error) && self.room.give_reserve() => {}
                written => return written,
            }
        }
    }

    fn close(&self) -> io::Result<()> {
        self.on.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.on.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.on.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.on.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.on.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.on.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.on.query_lock_range(start, end)
    }
}

/// The store's file by its path, for each opening of the database. It is created the first time only: if it is gone later, so are its
/// contents, and a new file would have later changes only.
pub(super) struct Place {
    path: PathBuf,
    number: OnceLock<u64>,
    unsynchronised: Unsynchronised,
    blocks: Arc<FileBlocks>,
    room: Room,
}

impl Place {
    pub(super) fn new(path: PathBuf) -> Self {
        let blocks = Arc::new(FileBlocks::new(path.with_file_name(RESERVE)));
        let room = Room::on(Some(Box::new(Arc::clone(&blocks))));
        Self { path, number: OnceLock::new(), unsynchronised: Unsynchronised::default(), blocks, room }
    }

    /// The room for the file on its disk.
    pub(super) fn room(&self) -> Room {
        self.room.clone()
    }

    pub(super) fn open(&self) -> Result<BlockDevice<FileBackend>, DatabaseError> {
        let failed = |error| DatabaseError::Storage(StorageError::Io(error));
        let (file, look) = self.file().map_err(failed)?;
        BlockDevice::open(FileBackend::new(file)?, self.unsynchronised.clone(), look, self.room()).map_err(failed)
    }

    fn file(&self) -> io::Result<(File, Look)> {
        let is_first = self.number.get().is_none();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(is_first).truncate(false).open(&self.path)?;
        let found = file.metadata()?;
        if !is_first && (self.number.get() != Some(&found.ino()) || found.len() == 0) {
            return Err(io::Error::other("it is another one than that with which the service began"));
        }
        self.blocks.set_file(file.try_clone()?);
        if is_first {
            self.room.begin(found.blocks() * BLOCK_BYTES);
        }
        self.number.get_or_init(|| found.ino());
        let (path, known) = (self.path.clone(), identity(&self.path)?);
        let look: Look = Box::new(move || match identity(&path) {
            Ok(found) if found == known => Ok(()),
            Ok(_) => Err(io::Error::other("another one has its name, and it is not found any more")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::other("it is gone from its folder"))
            }
            Err(error) => Err(error),
        });
        Ok((file, look))
    }
}

/// Inode and device of a file, unique while the system runs. Times are not queried: after such a query, the kernel records the next change
/// of time anew, in a request of its own.
fn identity(path: &Path) -> io::Result<(u64, u32, u32)> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO)?;
    Ok((found.stx_ino, found.stx_dev_major, found.stx_dev_minor))
}

pub(crate) fn is_there(path: &Path) -> bool {
    identity(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_touch_are_one() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let (mut places, mut octets) = (Places::default(), [false; 100]);
            for _ in 0..random.usize(1..20) {
                let from = random.usize(..90);
                let to = random.usize(from + 1..=from + 10);
                places.add(from as u64, to as u64);
                octets[from..to].fill(true);
            }
            let has = |at: u64| places.0.iter().any(|(from, to)| (*from..*to).contains(&at));
            assert!((0_u64..).zip(octets).all(|(at, octet)| has(at) == octet));
            let ends: Vec<u64> = places.0.values().copied().collect();
            assert!(places.0.keys().skip(1).zip(ends).all(|(from, end)| *from > end));
            for _ in 0..20 {
                let from = random.usize(..90);
                let to = random.usize(from + 1..=from + 10);
                assert_eq!(places.has(from as u64, to as u64), octets[from..to].iter().all(|octet| *octet));
            }
            let end = random.usize(..100);
            places.cut(end as u64);
            let has = |at: u64| places.0.iter().any(|(from, to)| (*from..*to).contains(&at));
            assert!((0_usize..).zip(octets).all(|(at, octet)| has(at as u64) == (octet && at < end)));
        }
        let mut places = Places::default();
        (0..=PLACES_MAX as u64).for_each(|at| places.add(at * 10, at * 10 + 1));
        assert_eq!(places.0, BTreeMap::from([(0, PLACES_MAX as u64 * 10 + 1)]));
    }
}

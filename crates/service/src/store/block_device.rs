//! The block device of the database as it really is: its synchronisation may fail, and its file may be gone.
//!
//! Where a system cannot write what it is to synchronise it says so once, and takes what it has in memory for written from then on: a
//! process that opens the file anew reads what is not on the disk, and the next synchronisation, which goes well, does not write it
//! either. A tree that is built upon that is lost with the power. So what was written since the last synchronisation that went well is
//! noted. Once one has failed, the next to open the file in this process reads and writes that again before anything else.
//!
//! A file that was removed, or that is in a folder that was moved or unmounted, can be written and synchronised as ever by a process that
//! has it open, and is not found by the next process. So it is looked for after each synchronisation.
//!
//! What is written has blocks of the disk before it is written ([`Room`]).

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

/// So many places are noted one by one; beyond that, all that is between them is taken to be written.
const PLACES_MAX: usize = 4_096;
/// What is written again at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Places in a file, by where they begin: where each ends. None touches another.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<u64, u64>);

/// What is to be synchronised: what was written, and whether the file has another length.
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
    /// Whether all of a place is among them.
    pub(super) fn has(&self, from: u64, to: u64) -> bool {
        self.0.range(..=from).next_back().is_some_and(|(_, ends)| *ends >= to)
    }

    /// Forgets what is beyond.
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

/// What is not known to be on the disk.
#[derive(Debug, Default)]
struct Written {
    /// Since the last synchronisation.
    lately: Changed,
    /// By synchronisations that failed: the next one does not write it, unless it is written again.
    in_vain: Changed,
}

/// The same, which outlives the database that was opened: the next one in this process begins with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsynchronised(Arc<Mutex<Written>>);

impl Unsynchronised {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is found out after a synchronisation: why it was in vain nevertheless.
type Look = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A block device.
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
    /// What was written in vain before is written again.
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
        // No thread writes meanwhile: there is one thread.
        let synchronised = self.on.sync_data();
        let mut written = self.unsynchronised.lock();
        let lately = core::mem::take(&mut written.lately);
        if synchronised.is_err() {
            written.in_vain.add(lately);
        }
        drop(written);
        if synchronised.as_ref().is_err_and(is_full) {
            // Where a file system finds out so late.
            self.room.give_reserve();
        }
        synchronised.and_then(|()| (self.look)())
    }

    fn write(&self, offset: u64, octets: &[u8]) -> io::Result<()> {
        let end = offset + octets.len() as u64;
        self.room.before_write(offset, end)?;
        // Whatever becomes of it: some of it may be there.
        self.unsynchronised.lock().lately.places.add(offset, end);
        loop {
            match self.on.write(offset, octets) {
                // Where blocks cannot be had beforehand, or are another's after all.
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

/// A file in its folder, as often as it is opened. It is made the first time only: where it is gone later, what was in it is, too, and a
/// new one would have nothing but what changes next.
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

    /// What there is for it on its disk.
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

/// What tells a file from all others, as long as the system runs. Nothing else is asked, above all no time: after such a query, the kernel
/// notes the time of the next change anew, in a request of its own.
fn identity(path: &Path) -> io::Result<(u64, u32, u32)> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO)?;
    Ok((found.stx_ino, found.stx_dev_major, found.stx_dev_minor))
}

/// Whether there is something at a path.
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

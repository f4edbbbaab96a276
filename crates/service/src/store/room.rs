//! Blocks on the disk for the store's file, allocated before they are needed, and a reserve beside it.
//!
//! The embedded database doubles its file by setting the length, which allocates no blocks: its free pages may have none, and on a full
//! disk a removal fails like an insertion, since it writes pages as well. So blocks are allocated before pages are written
//! ([`Room::before_write`]), and room for a batch of events is reserved before it begins ([`Room::make_room`]), so that events are refused
//! before the database begins a write. Everything else (removals, configuration, the database's own work at its start) has a reserve as
//! well: [`RESERVE_BYTES`]. The reserve is a file beside the store's, which is shrunk when there are no other blocks.

use core::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::retry_on_intr;

use super::block_device::Places;
use super::disk::BLOCK_BYTES;

/// Octets of the reserve: some hundred pages of the database, of which a removal takes a few.
pub(super) const RESERVE_BYTES: u64 = 1 << 20;
/// Name of the reserve in the store's folder.
pub(super) const RESERVE: &str = "campanile.reserve";
/// Octets by which the file grows, where the disk has room.
const STEP: u64 = 1 << 20;
/// Octets of a database page, by which the file grows where the disk has little room.
const PAGE: u64 = 4_096;
/// Maximum octets reserved for a batch of events: a larger batch may not have room.
const BATCH_MAX: u64 = 16 << 20;
/// Octets that any batch of events writes: the trees' inner pages, and lists of free pages.
pub(super) const OF_A_BATCH: u64 = 256 << 10;

/// Whether an operation failed for lack of room, and not because of a broken disk.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// The allocation of blocks on a disk.
pub(super) trait Blocks: Send + Sync {
    /// Allocates blocks for a range of the store's file, beyond its end as well; its length is unchanged.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()>;

    /// Sets the size of the reserve. On failure the reserve stays as it was.
    fn set_reserve(&self, octets: u64) -> io::Result<()>;
}

/// The room of a store, which outlives the opened database, like the file.
#[derive(Clone)]
pub(super) struct Room(Arc<Inner>);

struct Inner {
    blocks: Option<Box<dyn Blocks>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// End of the part of the file that has blocks throughout.
    backed: u64,
    /// Ranges beyond it that have blocks: the database starts with the odd pages at the end of a file that it has enlarged.
    beyond: Places,
    /// Octets reserved: [`RESERVE_BYTES`], and more for the next batch of events.
    reserve: u64,
    /// Whether it was logged that there can be no reserve.
    is_reserve_missed: bool,
    /// Whether the file system cannot allocate in advance.
    cannot_allocate: bool,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("state", &self.0.state).finish_non_exhaustive()
    }
}

impl Room {
    /// Creates the room on a disk. `None`: a backend without blocks, which is never full.
    pub(super) fn on(blocks: Option<Box<dyn Blocks>>) -> Self {
        Self(Arc::new(Inner { blocks, state: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the file was opened for the first time in this process, with its octets on disk.
    pub(super) fn begin(&self, on_disk: u64) {
        let mut state = self.lock();
        // Files of earlier releases have holes: blocks beyond are allocated before each write.
        state.backed = on_disk;
        if let Some(blocks) = self.0.blocks.as_deref() {
            state.reserve(blocks, RESERVE_BYTES);
        }
    }

    /// Reserves room for a batch of events with this many octets, wherever the database writes them. False if the disk has no room beside
    /// the reserve.
    pub(super) fn make_room(&self, octets: u64) -> bool {
        let Some(blocks) = self.0.blocks.as_deref() else { return true };
        let mut state = self.lock();
        // The database rounds pages up to powers of two.
        let batch = (2 * octets).next_multiple_of(OF_A_BATCH) + OF_A_BATCH;
        let has_room = state.reserve(blocks, RESERVE_BYTES + batch.min(BATCH_MAX));
        if !has_room {
            state.reserve(blocks, RESERVE_BYTES);
        }
        has_room
    }

    /// Gives reserved blocks back: first those for events. Returns whether there were any.
    pub(super) fn give_reserve(&self) -> bool {
        self.0.blocks.as_deref().is_some_and(|blocks| self.lock().give(blocks))
    }

    /// Allocates blocks for a range that is about to be written: from the reserve, if there are no others.
    pub(super) fn before_write(&self, from: u64, to: u64) -> io::Result<()> {
        let Some(blocks) = self.0.blocks.as_deref() else { return Ok(()) };
        let mut state = self.lock();
        loop {
            match state.back(blocks, from, to) {
                Err(error) if is_full(&error) && state.give(blocks) => {}
                backed => return backed,
            }
        }
    }

    /// Notes a new length of the file.
    pub(super) fn resized(&self, length: u64) {
        let mut state = self.lock();
        // Blocks beyond the end are freed.
        state.beyond.cut(length);
        state.backed = state.backed.min(length);
    }
}

impl State {
    /// Reserves this many octets, if fewer are reserved. False if the disk has no room for them.
    fn reserve(&mut self, blocks: &dyn Blocks, octets: u64) -> bool {
        if self.reserve >= octets {
            return true;
        }
        match blocks.set_reserve(octets) {
            Ok(()) => self.reserve = octets,
            Err(error) if is_full(&error) => return false,
            // A write will report what is wrong with the folder.
            Err(error) => {
                if !core::mem::replace(&mut self.is_reserve_missed, true) {
                    log::warn!("store: there is no reserve for a full disk: {error}");
                }
            }
        }
        true
    }

    /// Gives reserved blocks back: first those for events. Returns whether there were any.
    fn give(&mut self, blocks: &dyn Blocks) -> bool {
        let left = if self.reserve > RESERVE_BYTES { RESERVE_BYTES } else { 0 };
        if self.reserve == left {
            return false;
        }
        self.reserve = left;
        if let Err(error) = blocks.set_reserve(left) {
            // If the file was removed, its blocks are free already.
            log::warn!("store: its reserve: {error}");
        }
        true
    }

    /// Allocates blocks for a range of the file.
    fn back(&mut self, blocks: &dyn Blocks, from: u64, to: u64) -> io::Result<()> {
        if from <= self.backed.saturating_add(STEP) {
            return self.extend(blocks, to);
        }
        let (from, to) = (from / PAGE * PAGE, to.next_multiple_of(PAGE));
        if !self.beyond.has(from, to) {
            self.allocate(blocks, from, to)?;
            self.beyond.add(from, to);
        }
        Ok(())
    }

    /// Allocates blocks up to `end`: a whole step, if the disk has room for it.
    fn extend(&mut self, blocks: &dyn Blocks, end: u64) -> io::Result<()> {
        if end <= self.backed {
            return Ok(());
        }
        let (in_steps, in_pages, from) = (end.next_multiple_of(STEP), end.next_multiple_of(PAGE), self.backed);
        // A step would use up the reserve, and some file systems keep part of a failed allocation.
        let is_plenty = self.reserve > RESERVE_BYTES || self.is_reserve_missed;
        if is_plenty && self.allocate(blocks, from, in_steps).is_ok() {
            self.backed = in_steps;
        } else {
            self.allocate(blocks, from, in_pages)?;
            self.backed = in_pages;
        }
        Ok(())
    }

    /// Allocates blocks. Fails for lack of room only.
    fn allocate(&mut self, blocks: &dyn Blocks, from: u64, to: u64) -> io::Result<()> {
        if self.cannot_allocate {
            return Ok(());
        }
        match blocks.allocate(from, to) {
            Err(error) if !is_full(&error) => {
                self.cannot_allocate = true;
                log::warn!(
                    "store: its file system takes no blocks beforehand ({error}): where the disk is full, the first batch of events \
                     fails before others are refused"
                );
                Ok(())
            }
            allocated => allocated,
        }
    }
}

/// Blocks of the file system of the store's folder.
pub(super) struct FileBlocks {
    reserve: PathBuf,
    /// The store's file.
    file: Mutex<Option<File>>,
}

impl FileBlocks {
    pub(super) const fn new(reserve: PathBuf) -> Self {
        Self { reserve, file: Mutex::new(None) }
    }

    /// Sets the store's file, whenever it was opened.
    pub(super) fn set_file(&self, file: File) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    }
}

impl Blocks for Arc<FileBlocks> {
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.as_ref() else { return Ok(()) };
        // On some file systems a signal interrupts it.
        Ok(retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from))?)
    }

    fn set_reserve(&self, octets: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // An empty reserve is not removed, since creating a file takes room as well.
        let file = options.write(true).create(octets > 0).truncate(false).mode(0o600).open(&self.reserve)?;
        let found = file.metadata()?;
        let is_allocated = found.blocks() * BLOCK_BYTES >= octets;
        if found.len() >= octets && is_allocated {
            return file.set_len(octets);
        }
        let allocated = retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, octets));
        let taken = match allocated.map_err(io::Error::from) {
            Err(error) if !is_full(&error) => fill(&file, octets),
            taken => taken,
        };
        if taken.is_err() {
            // Some file systems keep part of a failed allocation.
            let _ = file.set_len(found.len().min(octets));
        }
        taken
    }
}

/// Fills the file with random octets, which no file system compresses.
fn fill(file: &File, octets: u64) -> io::Result<()> {
    let (mut random, mut chunk) = (fastrand::Rng::new(), [0; 4_096]);
    file.set_len(octets)?;
    for at in (0..octets).step_by(chunk.len()) {
        random.fill(&mut chunk);
        file.write_all_at(&chunk, at)?;
    }
    file.sync_data()
}

//! Room on the disk for the store's file, taken before it is needed, and a reserve beside it.
//!
//! The embedded database doubles its file by setting its length, which takes no block: pages that it has for free may have none behind
//! them, and on a full disk a removal fails as an insertion does, since it writes pages, too. So blocks are allocated as pages are written
//! ([`Room::before_write`]), and the room for a batch of events is reserved before it begins ([`Room::make_room`]), so that events are
//! refused before the database has begun anything. What all else needs (removals, what is configured, the database's own work at its start)
//! is reserved, too: [`RESERVE_BYTES`]. The reserve is a file beside the store's, of which octets are given back when there is no other
//! block.

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

/// Octets of the reserve: some hundred pages of the database, which a removal takes a few of.
pub(super) const RESERVE_BYTES: u64 = 1 << 20;
/// The reserve's name in the store's folder.
pub(super) const RESERVE: &str = "campanile.reserve";
/// Octets that the file grows by at a time, where the disk has them.
const STEP: u64 = 1 << 20;
/// Octets of a page of the database, in which the file grows where the disk has little left.
const PAGE: u64 = 4_096;
/// Octets that are reserved for a batch of events at most: of one that has more, the rest is not known to have room.
const BATCH_MAX: u64 = 16 << 20;
/// Octets that a batch of events writes whatever is in it: the trees' inner pages, and lists of those that are free.
pub(super) const OF_A_BATCH: u64 = 256 << 10;

/// Whether an operation failed since there is no room, as opposed to a disk that is broken.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// What blocks of a disk are taken from.
pub(super) trait Blocks: Send + Sync {
    /// Takes blocks for a part of the store's file, beyond its end, too; its length stays.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()>;

    /// Has a reserve of just so many octets. Where it cannot have so many it has what it had.
    fn set_reserve(&self, octets: u64) -> io::Result<()>;
}

/// The room of a store, which outlives the database that was opened, as the file does.
#[derive(Clone)]
pub(super) struct Room(Arc<Inner>);

struct Inner {
    blocks: Option<Box<dyn Blocks>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The end of the part of the file that has blocks.
    backed: u64,
    /// Places beyond that have blocks: the database begins with the odd pages at the end of a file that it has made larger.
    beyond: Places,
    /// Octets that are reserved: [`RESERVE_BYTES`], and beyond that for the next batch of events.
    reserve: u64,
    /// Whether it was said that there can be none.
    is_reserve_missed: bool,
    /// The file system allocates nothing beforehand.
    cannot_allocate: bool,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("state", &self.0.state).finish_non_exhaustive()
    }
}

impl Room {
    /// Room on a disk. `None`: on something that has no blocks, and is never full.
    pub(super) fn on(blocks: Option<Box<dyn Blocks>>) -> Self {
        Self(Arc::new(Inner { blocks, state: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file was opened, for the first time in this process, and has so many octets of the disk.
    pub(super) fn begin(&self, on_disk: u64) {
        let mut state = self.lock();
        // Files of former releases have holes: what is beyond is allocated when it is written.
        state.backed = on_disk;
        if let Some(blocks) = self.0.blocks.as_deref() {
            state.reserve(blocks, RESERVE_BYTES);
        }
    }

    /// Has room on the disk for a batch of so many octets of events, wherever in its file the database puts them. False if there is none,
    /// or what there is is to be the reserve.
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

    /// Gives back what is reserved: first what is so for events. Says whether there was anything.
    pub(super) fn give_reserve(&self) -> bool {
        self.0.blocks.as_deref().is_some_and(|blocks| self.lock().give(blocks))
    }

    /// Has blocks for a part of the file that is about to be written: of what is reserved, if there are no others.
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

    /// The file has another length.
    pub(super) fn resized(&self, length: u64) {
        let mut state = self.lock();
        // What is beyond its end went.
        state.beyond.cut(length);
        state.backed = state.backed.min(length);
    }
}

impl State {
    /// Reserves so many octets, if it has fewer. False if the disk has no room for them.
    fn reserve(&mut self, blocks: &dyn Blocks, octets: u64) -> bool {
        if self.reserve >= octets {
            return true;
        }
        match blocks.set_reserve(octets) {
            Ok(()) => self.reserve = octets,
            Err(error) if is_full(&error) => return false,
            // It is for what is written to find out what is wrong with the folder.
            Err(error) => {
                if !core::mem::replace(&mut self.is_reserve_missed, true) {
                    log::warn!("store: there is no reserve for a full disk: {error}");
                }
            }
        }
        true
    }

    /// Gives back what is reserved: first what is so for events. Says whether there was anything.
    fn give(&mut self, blocks: &dyn Blocks) -> bool {
        let left = if self.reserve > RESERVE_BYTES { RESERVE_BYTES } else { 0 };
        if self.reserve == left {
            return false;
        }
        self.reserve = left;
        if let Err(error) = blocks.set_reserve(left) {
            // If it was removed, its room was given back already.
            log::warn!("store: its reserve: {error}");
        }
        true
    }

    /// Has blocks for a place in the file.
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

    /// Has blocks for the file up to there: by a step, if the disk has one.
    fn extend(&mut self, blocks: &dyn Blocks, end: u64) -> io::Result<()> {
        if end <= self.backed {
            return Ok(());
        }
        let (in_steps, in_pages, from) = (end.next_multiple_of(STEP), end.next_multiple_of(PAGE), self.backed);
        // Of what was reserved a step would have all, and some file systems keep part of what they could not give.
        let is_plenty = self.reserve > RESERVE_BYTES || self.is_reserve_missed;
        if is_plenty && self.allocate(blocks, from, in_steps).is_ok() {
            self.backed = in_steps;
        } else {
            self.allocate(blocks, from, in_pages)?;
            self.backed = in_pages;
        }
        Ok(())
    }

    /// Fails only where there is no room.
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

/// Blocks of the file system that the store's folder is on.
pub(super) struct FileBlocks {
    reserve: PathBuf,
    /// The store's file.
    file: Mutex<Option<File>>,
}

impl FileBlocks {
    pub(super) const fn new(reserve: PathBuf) -> Self {
        Self { reserve, file: Mutex::new(None) }
    }

    /// The store's file was opened, again or for the first time.
    pub(super) fn set_file(&self, file: File) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    }
}

impl Blocks for Arc<FileBlocks> {
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.as_ref() else { return Ok(()) };
        // A signal ends it early on some file systems.
        Ok(retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from))?)
    }

    fn set_reserve(&self, octets: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // It stays where there is nothing in it, as to make a file takes room, too.
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
            // Some file systems keep part of what they could not give.
            let _ = file.set_len(found.len().min(octets));
        }
        taken
    }
}

/// Writes so many octets, such as no file system makes less of.
fn fill(file: &File, octets: u64) -> io::Result<()> {
    let (mut random, mut chunk) = (fastrand::Rng::new(), [0; 4_096]);
    file.set_len(octets)?;
    for at in (0..octets).step_by(chunk.len()) {
        random.fill(&mut chunk);
        file.write_all_at(&chunk, at)?;
    }
    file.sync_data()
}

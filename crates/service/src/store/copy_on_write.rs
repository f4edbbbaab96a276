//! A file that is opened to read: writes go into memory, over the file, and are dropped with it.
//!
//! When it opens a file, the embedded database repairs an unclean end and notes the opening: through this type neither changes the store
//! nor needs permission to write. Several readers may open it at once; a service that starts meanwhile waits for them for a while.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use redb::{DatabaseError, StorageBackend, StorageError};

/// Octets of a page in memory.
const PAGE_BYTES: usize = 4_096;

/// The file, and the pages written over it.
#[derive(Debug)]
pub(super) struct CopyOnWriteFile {
    file: File,
    over: Mutex<Over>,
}

#[derive(Debug)]
struct Over {
    octets: u64,
    /// Octets of the file that are still valid.
    of_file: u64,
    /// Pages by their index in the file.
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl CopyOnWriteFile {
    /// Opens a file, with a shared lock against writers until this is dropped.
    pub(super) fn of(path: &Path) -> Result<Self, DatabaseError> {
        let failed = |error| DatabaseError::Storage(StorageError::Io(error));
        let file = File::open(path).map_err(failed)?;
        // The database takes an exclusive lock.
        file.try_lock_shared().map_err(|error| match error {
            TryLockError::WouldBlock => DatabaseError::DatabaseAlreadyOpen,
            TryLockError::Error(error) => failed(error),
        })?;
        let octets = file.metadata().map_err(failed)?.len();
        Ok(Self { file, over: Mutex::new(Over { octets, of_file: octets, pages: BTreeMap::new() }) })
    }

    /// Waits until no reader has a file open, at most for the given time. False if a writer has it open.
    pub(super) fn wait_for_lookers(path: &Path, at_most: Duration) -> io::Result<bool> {
        let file = File::open(path)?;
        if file.try_lock_shared().is_err() {
            return Ok(false);
        }
        file.unlock()?;
        log::info!("store: another program looks at it: it is waited for, for {} s at most", at_most.as_secs());
        let (done, is_done) = sync_channel(1);
        // Waiting for a lock has no time limit. If it comes too late, the start has failed.
        thread::Builder::new().name("store-lock".into()).spawn(move || {
            let locked = file.lock();
            drop(file);
            let _ = done.send(locked.is_ok());
        })?;
        Ok(is_done.recv_timeout(at_most).unwrap_or(false))
    }

    fn with<R>(&self, run: impl FnOnce(&File, &mut Over) -> io::Result<R>) -> io::Result<R> {
        run(&self.file, &mut self.over.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The index of an octet's page, and its offset there.
fn place(offset: u64) -> (u64, usize) {
    let within = usize::try_from(offset % PAGE_BYTES as u64).unwrap_or(0);
    (offset / PAGE_BYTES as u64, within)
}

/// Reads from the file, with zeros beyond its valid part.
fn read_file(file: &File, of_file: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
    let there = usize::try_from(of_file.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
    let (from_file, beyond) = out.split_at_mut(there);
    beyond.fill(0);
    file.read_exact_at(from_file, offset)
}

impl StorageBackend for CopyOnWriteFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|_, over| Ok(over.octets))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|file, over| {
            if offset.checked_add(out.len() as u64).is_none_or(|end| end > over.octets) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (mut at, mut left) = (offset, out);
            while !left.is_empty() {
                let (number, within) = place(at);
                let (part, rest) = left.split_at_mut((PAGE_BYTES - within).min(left.len()));
                match over.pages.get(&number).and_then(|page| page.get(within..within + part.len())) {
                    Some(written) => part.copy_from_slice(written),
                    None => read_file(file, over.of_file, at, part)?,
                }
                at += part.len() as u64;
                left = rest;
            }
            Ok(())
        })
    }

    fn set_len(&self, octets: u64) -> io::Result<()> {
        self.with(|_, over| {
            over.octets = octets;
            over.of_file = over.of_file.min(octets);
            let (last, stored) = place(octets);
            over.pages.retain(|number, _| *number <= last);
            over.pages.get_mut(&last).and_then(|page| page.get_mut(stored..)).iter_mut().for_each(|gone| gone.fill(0));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, octets: &[u8]) -> io::Result<()> {
        self.with(|file, over| {
            let (mut at, mut left) = (offset, octets);
            while !left.is_empty() {
                let (number, within) = place(at);
                let (part, rest) = left.split_at((PAGE_BYTES - within).min(left.len()));
                if !over.pages.contains_key(&number) {
                    let mut page = Box::new([0; PAGE_BYTES]);
                    read_file(file, over.of_file, number * PAGE_BYTES as u64, &mut page[..])?;
                    over.pages.insert(number, page);
                }
                let page = over.pages.get_mut(&number).and_then(|page| page.get_mut(within..within + part.len()));
                page.into_iter().for_each(|page| page.copy_from_slice(part));
                at += part.len() as u64;
                left = rest;
            }
            over.octets = over.octets.max(at);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use testing::{TempPath, wait_until};

    #[test]
    fn what_is_written_is_read_and_the_file_stays_as_it_is() {
        let path = TempPath::new("overlay");
        let mut random = fastrand::Rng::with_seed(1);
        let before: Vec<u8> = (0..20_000).map(|_| random.u8(..)).collect();
        fs::write(&path, &before).unwrap();
        let copy_on_write = CopyOnWriteFile::of(&path).unwrap();
        let mut wanted = before.clone();
        for _ in 0..2_000 {
            let (at, count) = (random.usize(..30_000), random.usize(..10_000));
            match random.u32(..8) {
                0 => {
                    wanted.resize(at, 0);
                    copy_on_write.set_len(at as u64).unwrap();
                }
                1..=3 => {
                    let octets: Vec<u8> = (0..count).map(|_| random.u8(..)).collect();
                    wanted.resize(wanted.len().max(at + count), 0);
                    wanted[at..at + count].copy_from_slice(&octets);
                    copy_on_write.write(at as u64, &octets).unwrap();
                }
                _ => {
                    let mut read = vec![0; count];
                    let is_there = at + count <= wanted.len();
                    assert_eq!(copy_on_write.read(at as u64, &mut read).is_ok(), is_there);
                    assert!(!is_there || read == wanted[at..at + count]);
                }
            }
            assert_eq!(copy_on_write.len().unwrap(), wanted.len() as u64);
        }
        drop(copy_on_write);
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    /// A `campanile store show` at the moment of a start had the service end with "another process uses it".
    #[test]
    fn several_look_at_a_file_at_once_and_a_writer_waits_for_them() {
        let path = TempPath::new("lookers");
        fs::write(&path, [0; 10]).unwrap();
        let (one, other) = (CopyOnWriteFile::of(&path).unwrap(), CopyOnWriteFile::of(&path).unwrap());
        drop(one);
        thread::scope(|scope| {
            let waits = scope.spawn(|| CopyOnWriteFile::wait_for_lookers(&path, Duration::from_secs(60)).unwrap());
            drop(other);
            assert!(waits.join().unwrap());
        });
        // What a process has that writes to it is not waited for.
        let writes = File::open(&path).unwrap();
        wait_until("the lock", || writes.try_lock().is_ok());
        assert!(matches!(CopyOnWriteFile::of(&path), Err(DatabaseError::DatabaseAlreadyOpen)));
        assert!(!CopyOnWriteFile::wait_for_lookers(&path, Duration::from_secs(60)).unwrap());
        drop(writes);
        let _looks = CopyOnWriteFile::of(&path).unwrap();
        assert!(!CopyOnWriteFile::wait_for_lookers(&path, Duration::from_millis(1)).unwrap(), "no longer than that");
    }
}

//! Files that are written and read past the system's page cache.
//!
//! A backlog may have many gigabytes that are not read for a long time. In the page cache they would displace what other programs need, and
//! the system would be busy reclaiming memory. So files are opened with `O_DIRECT` (open(2)), which requires memory, offsets and lengths in
//! whole blocks: the last block of a file is padded with zeros, and rewritten with the next octets. If a file system refuses that, the page
//! cache is used.

use core::ops::Range;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Access, Files, MachineFiles, OpenFile};

/// Alignment of memory, offsets and lengths in octets: no disk in use has larger blocks.
const BLOCK: usize = 4_096;
/// Maximum octets of one write or read, unless one record is longer.
const CHUNK_BYTES: usize = 1 << 20;

/// A file that is appended to or read in whole blocks.
pub(crate) struct UncachedFile {
    pub(crate) path: PathBuf,
    /// Valid octets: behind them there may be zeros, or the rest of a failed write.
    pub(crate) bytes: u64,
    /// An identity that differs from that of an earlier file of this name.
    id: u64,
    /// While the file is appended to, the octets of its last block.
    tail: Vec<u8>,
}

impl UncachedFile {
    /// Creates an empty file, in place of any with this name.
    pub(crate) fn create(path: PathBuf, desk: &mut Desk) -> io::Result<Self> {
        desk.files.create(&path)?;
        Ok(Self::that_is_there(path, 0, desk))
    }

    /// A file that exists, to be read.
    pub(crate) fn that_is_there(path: PathBuf, bytes: u64, desk: &mut Desk) -> Self {
        desk.last_id += 1;
        Self { path, bytes, id: desk.last_id, tail: Vec::new() }
    }

    /// Appends all of the octets or none: a partial write does not count, and is overwritten.
    pub(crate) fn append(&mut self, octets: &[u8], desk: &mut Desk) -> io::Result<()> {
        desk.attempt(|desk| self.write(octets, desk))?;
        self.bytes += octets.len() as u64;
        let in_last = usize::try_from(self.bytes % BLOCK as u64).unwrap_or(0);
        let all_of_tail = self.tail.len() + octets.len() == in_last;
        if !all_of_tail {
            self.tail.clear();
        }
        self.tail.extend_from_slice(octets.get(octets.len().saturating_sub(in_last)..).unwrap_or_default());
        Ok(())
    }

    fn write(&self, octets: &[u8], desk: &mut Desk) -> io::Result<()> {
        let file = desk.open(true, &self.path)?;
        let mut at = self.bytes - self.tail.len() as u64;
        let (mut tail, mut rest) = (self.tail.as_slice(), octets);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - tail.len()));
            let length = tail.len() + now.len();
            let blocks = desk.to_write.blocks(length)?;
            let (of_tail, rest_of_blocks) = blocks.split_at_mut(tail.len());
            let (of_now, behind) = rest_of_blocks.split_at_mut(now.len());
            of_tail.copy_from_slice(tail);
            of_now.copy_from_slice(now);
            behind.fill(0);
            file.write_all_at(blocks, at)?;
            at += length as u64;
            (tail, rest) = (&[], later);
        }
        Ok(())
    }

    /// Appends octets that do not count, and cuts off the padding. Nothing is appended afterwards.
    pub(crate) fn finish(&mut self, octets: &[u8], syncs: bool, desk: &mut Desk) -> io::Result<()> {
        desk.attempt(|desk| self.write(octets, desk))?;
        let file = desk.files.open(&self.path, Access::WRITE)?;
        file.set_length(self.bytes + octets.len() as u64)?;
        if syncs {
            file.sync()?;
        }
        self.tail = Vec::new();
        Ok(())
    }

    /// Whether only padding of the last block follows this offset.
    pub(crate) fn is_filled_up_from(&self, from: u64, desk: &mut Desk) -> bool {
        let count = self.bytes.saturating_sub(from);
        count < BLOCK as u64 && self.read(from, BLOCK, desk).is_ok_and(|rest| rest.iter().all(|octet| *octet == 0))
    }

    /// The octets from an offset on: `length` or more, fewer at the end of the file.
    pub(crate) fn read<'d>(&self, from: u64, length: usize, desk: &'d mut Desk) -> io::Result<&'d [u8]> {
        if !desk.read.has(self, from, length) {
            desk.attempt(|desk| self.fill(from, length, desk))?;
        }
        let within = usize::try_from(from - desk.read.place.start).unwrap_or(usize::MAX);
        let count = usize::try_from(desk.read.place.end - desk.read.place.start).unwrap_or(0);
        Ok(desk.read.memory.filled(count).get(within..).unwrap_or_default())
    }

    fn fill(&self, from: u64, length: usize, desk: &mut Desk) -> io::Result<()> {
        let begins = from - from % BLOCK as u64;
        let is_next = desk.read.of == self.id && desk.read.place.contains(&begins);
        // Sequential reads grow to double length, so that at most half of what is read is in vain.
        let before = usize::try_from(desk.read.place.end - desk.read.place.start).unwrap_or(0);
        let length = if is_next { length.max(CHUNK_BYTES.min(before * 2)) } else { length };
        let ends = self.bytes.min(from.saturating_add(length as u64));
        (desk.read.of, desk.read.place) = (0, 0..0);
        let file = desk.open_to_read(&self.path)?;
        let wanted = usize::try_from(ends.saturating_sub(begins)).unwrap_or(usize::MAX);
        let blocks = desk.read.memory.blocks(wanted)?;
        let mut count = 0;
        while count < wanted {
            let Some(rest) = blocks.get_mut(count..) else { break };
            match file.read_at(rest, begins + count as u64) {
                Ok(more) if more > 0 && (count + more >= wanted || more % BLOCK == 0) => count += more,
                // The file has been cut short.
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Octets behind the end may be overwritten before they are read.
        (desk.read.of, desk.read.place) = (self.id, begins..ends.max(begins));
        Ok(())
    }
}

/// Buffers and settings for these files, which are written and read one at a time.
pub(crate) struct Desk {
    files: Arc<dyn Files>,
    /// Whether `O_DIRECT` is used: until a file system refuses it.
    is_direct: bool,
    last_id: u64,
    to_write: Memory,
    read: LastRead,
}

/// The blocks read last.
#[derive(Default)]
struct LastRead {
    memory: Memory,
    /// The file, and the range in it, that `memory` contains; an empty range if nothing.
    of: u64,
    place: Range<u64>,
}

impl LastRead {
    fn has(&self, file: &UncachedFile, from: u64, length: usize) -> bool {
        let until = file.bytes.min(from.saturating_add(length as u64));
        self.of == file.id && self.place.start <= from && until <= self.place.end
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self::on(Arc::new(MachineFiles), true)
    }
}

impl Desk {
    /// A desk for files of this file system, which bypasses the page cache (`is_direct`) until refused.
    pub(crate) fn on(files: Arc<dyn Files>, is_direct: bool) -> Self {
        Self { files, is_direct, last_id: 0, to_write: Memory::default(), read: LastRead::default() }
    }

    pub(crate) const fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    /// A desk that uses the page cache: for files with many readers at different positions soon after they are written.
    pub(crate) fn through_cache() -> Self {
        Self::on(Arc::new(MachineFiles), false)
    }

    fn open(&self, writes: bool, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        self.files.open(path, Access { writes, is_direct: self.is_direct })
    }

    /// Opens a file to read. If its folder is gone as well, as on an unmounted disk, the error counts as temporary.
    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        self.open(false, path).map_err(|error| {
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            match path.parent().filter(|folder| is_gone && !self.files.has_folder(folder)) {
                Some(folder) => io::Error::other(format!("the folder {} is gone", folder.display())),
                None => error,
            }
        })
    }

    /// Runs an operation, once more without `O_DIRECT` if the file system refuses that; it is not used from then on.
    fn attempt<T>(&mut self, mut act: impl FnMut(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let tried = act(self);
        let may_be_refused = tried.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput);
        if !(self.is_direct && may_be_refused) {
            return tried;
        }
        self.is_direct = false;
        let tried = act(self);
        if tried.is_ok() {
            ::log::warn!(
                "overflow: the file system refuses O_DIRECT, so that long backlogs fill this machine's page cache"
            );
        } else {
            self.is_direct = true;
        }
        tried
    }
}

/// Memory aligned to whole blocks.
#[derive(Default)]
struct Memory(Vec<u8>);

impl Memory {
    /// Blocks with room for this many octets. Their contents are unspecified.
    fn blocks(&mut self, octets: usize) -> io::Result<&mut [u8]> {
        let length = octets.next_multiple_of(BLOCK);
        if self.0.len() < length + BLOCK || self.0.len() > length.max(CHUNK_BYTES) * 4 {
            self.0 = vec![0; length.max(CHUNK_BYTES / 4) + BLOCK];
        }
        let begins = self.begins();
        self.0.get_mut(begins..begins.saturating_add(length)).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// The first octets of the blocks.
    fn filled(&self, octets: usize) -> &[u8] {
        self.0.get(self.begins()..).and_then(|blocks| blocks.get(..octets)).unwrap_or_default()
    }

    fn begins(&self) -> usize {
        self.0.as_ptr().align_offset(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use testing::TempPath;

    #[test]
    fn what_is_appended_in_chunks_of_any_size_is_read_from_anywhere() {
        for is_direct in [true, false] {
            let folder = TempPath::folder("uncached");
            let mut random = fastrand::Rng::with_seed(1);
            let mut desk = Desk { is_direct, ..Desk::default() };
            let mut files: Vec<_> = (0..2)
                .map(|file| (UncachedFile::create(folder.join(file.to_string()), &mut desk).unwrap(), Vec::new()))
                .collect();
            for _ in 0..600 {
                let (file, wanted) = &mut files[random.usize(..2)];
                let most =
                    [10, 5_000, 50_000, 3 * CHUNK_BYTES][if random.u32(..50) == 0 { 3 } else { random.usize(..3) }];
                if random.bool() {
                    let octets: Vec<u8> = (0..random.usize(..most)).map(|_| random.u8(..)).collect();
                    wanted.extend_from_slice(&octets);
                    file.append(&octets, &mut desk).unwrap();
                } else if !wanted.is_empty() {
                    let (from, length) = (random.usize(..wanted.len()), random.usize(1..most));
                    let read = file.read(from as u64, length, &mut desk).unwrap();
                    assert!(read.len() >= length.min(wanted.len() - from));
                    assert!(*read == wanted[from..][..read.len()]);
                }
                assert_eq!(file.bytes, wanted.len() as u64);
            }
            for (mut file, mut wanted) in files {
                let on_disk = fs::read(&file.path).unwrap();
                assert!(on_disk.starts_with(&wanted) && on_disk[wanted.len()..].iter().all(|octet| *octet == 0));
                assert!(on_disk.len() < wanted.len() + BLOCK);
                file.finish(b"its end", true, &mut desk).unwrap();
                wanted.extend_from_slice(b"its end");
                assert!(fs::read(&file.path).unwrap() == wanted);
            }
        }
    }

    #[test]
    fn a_file_that_has_become_shorter_or_has_another_ones_name_is_not_taken_for_what_was_read_before() {
        let (path, mut desk) = (TempPath::new("shorter"), Desk::default());
        let mut old = UncachedFile::create(path.to_path_buf(), &mut desk).unwrap();
        old.append(&[1; 10_000], &mut desk).unwrap();
        assert_eq!(old.read(0, 10_000, &mut desk).unwrap(), [1; 10_000]);
        let mut new = UncachedFile::create(path.to_path_buf(), &mut desk).unwrap();
        new.append(&[2; 10_000], &mut desk).unwrap();
        assert_eq!(new.read(0, 10_000, &mut desk).unwrap(), [2; 10_000]);
        for length in [9_000, 4_096, 0] {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            let file = UncachedFile::that_is_there(path.to_path_buf(), 10_000, &mut desk);
            let read = file.read(0, 10_000, &mut desk).map_err(|error| error.kind());
            assert_eq!(read, Err(io::ErrorKind::UnexpectedEof));
        }
        assert!(desk.is_direct);
    }

    /// A folder that has a file's name says the same, of which nothing follows.
    #[test]
    fn the_page_cache_is_passed_by_until_it_is_shown_that_it_cannot_be() {
        let mut desk = Desk::default();
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let always = desk.attempt(|_| Err::<(), _>(invalid()));
        assert!(always.is_err() && desk.is_direct);
        let full = desk.attempt(|_| Err::<(), _>(io::ErrorKind::StorageFull.into()));
        assert!(full.is_err() && desk.is_direct);
        desk.attempt(|desk| if desk.is_direct { Err(invalid()) } else { Ok(()) }).unwrap();
        assert!(!desk.is_direct);
    }
}

//! The file system under the logs: that of the machine or, in tests, a simulated disk that loses unsynchronised data.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A file system.
pub(crate) trait Files: Send + Sync {
    /// Creates an empty file, in place of any with this name.
    fn create(&self, path: &Path) -> io::Result<()>;

    /// Opens an existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn OpenFile>>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder, accessible to the service's user only, in an existing one.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder with its contents.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Sorted paths of the files, or of the folders, in a folder.
    fn entries(&self, folder: &Path, kind: EntryKind) -> io::Result<Vec<PathBuf>>;

    /// Whether a folder is there.
    fn has_folder(&self, path: &Path) -> bool;

    /// Synchronises the names in a folder: until then, a power failure may undo a creation or a removal.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The access with which a file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) writes: bool,
    /// Bypass the page cache: memory, offsets and lengths are whole blocks.
    pub(crate) is_direct: bool,
}

impl Access {
    pub(crate) const READ: Self = Self { writes: false, is_direct: false };
    pub(crate) const WRITE: Self = Self { writes: true, is_direct: false };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
}

/// An open file.
pub(crate) trait OpenFile {
    fn length(&self) -> io::Result<u64>;

    /// Reads some octets from an offset on. 0 at the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    fn write_all_at(&self, octets: &[u8], at: u64) -> io::Result<()>;

    fn set_length(&self, octets: u64) -> io::Result<()>;

    /// Synchronises the contents, but not the name: see [`Files::sync_folder`].
    fn sync(&self) -> io::Result<()>;
}

impl dyn OpenFile + '_ {
    /// Fills the buffer from an offset on.
    pub(crate) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let mut count = 0;
        while let Some(rest) = into.get_mut(count..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, at + count as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct MachineFiles;

impl Files for MachineFiles {
    fn create(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).map(drop)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn OpenFile>> {
        // The flags of open(2) fit in an `i32`.
        let flags = if access.is_direct { OFlags::DIRECT.bits().cast_signed() } else { 0 };
        let mut options = OpenOptions::new();
        let file = options.read(!access.writes).write(access.writes).custom_flags(flags).open(path)?;
        Ok(Box::new(file))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn entries(&self, folder: &Path, kind: EntryKind) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let of_entry = entry.file_type()?;
            let is_kind = if kind == EntryKind::File { of_entry.is_file() } else { of_entry.is_dir() };
            paths.extend(is_kind.then(|| entry.path()));
        }
        paths.sort_unstable();
        Ok(paths)
    }

    fn has_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl OpenFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }

    fn write_all_at(&self, octets: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, octets, at)
    }

    fn set_length(&self, octets: u64) -> io::Result<()> {
        self.set_len(octets)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

//! Announcement that the service is ready: clients start on the reference file, or on the log line. If an outside naming service is to have
//! the factory's name, the service is ready when it has.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

/// Callback for the announcement.
type Tell = Box<dyn FnOnce() + Send>;

/// Callbacks that wait for the announcement, and whether it has been made.
pub(crate) struct Announcement {
    file: Option<PathBuf>,
    /// `None` once the announcement is made. Locked by the thread that starts the service and by administration, for a moment.
    waiting: Mutex<Option<Vec<Tell>>>,
}

impl fmt::Debug for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcement").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Announcement {
    /// An announcement that has yet to be made.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, waiting: Mutex::new(Some(Vec::new())) }
    }

    /// The file for the reference.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Removes the file of an earlier run, on which clients would start too early.
    pub(crate) fn remove_file(&self) -> io::Result<()> {
        match self.file.as_ref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the announcement: writes the file, and notifies every waiting caller. The file is written only once.
    pub(crate) fn make(&self, reference: &str) -> io::Result<()> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(waiting) = waiting else { return Ok(()) };
        let written = self.file.as_ref().map_or(Ok(()), |path| write_reference(path, reference));
        waiting.into_iter().for_each(|tell| tell());
        written
    }

    /// Calls `tell` when the announcement is made; at once if it has been.
    pub(crate) fn when_made(&self, tell: impl FnOnce() + Send + 'static) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = &mut *waiting {
            return waiting.push(Box::new(tell));
        }
        drop(waiting);
        tell();
    }

    pub(crate) fn is_made(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

/// Writes the reference atomically, since clients may be waiting for the file.
fn write_reference(path: &Path, reference: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let beside = path.with_file_name(name);
    fs::write(&beside, format!("{reference}\n"))?;
    fs::rename(&beside, path)
}

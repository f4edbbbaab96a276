//! Files and folders of a test's own.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A path beneath the system's temporary folder that no other test has, removed on drop.
#[derive(Debug)]
pub struct TempPath(PathBuf);

impl TempPath {
    /// An unused path that ends with `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static USED: AtomicU32 = AtomicU32::new(0);
        let number = USED.fetch_add(1, Ordering::Relaxed);
        let path = Self(std::env::temp_dir().join(format!("campanile-{}-{number}-{name}", process::id())));
        // Of an earlier process of that number, which was killed.
        path.remove();
        path
    }

    /// The path of an empty folder.
    ///
    /// # Panics
    /// The folder cannot be made.
    #[must_use]
    pub fn folder(name: &str) -> Self {
        let path = Self::new(name);
        fs::create_dir(&path.0).expect("a folder");
        path
    }

    /// The path of a file with this content.
    ///
    /// # Panics
    /// The file cannot be written.
    #[must_use]
    pub fn file(name: &str, content: &str) -> Self {
        let path = Self::new(name);
        fs::write(&path.0, content).expect("a file");
        path
    }

    /// The path as an argument of a command.
    ///
    /// # Panics
    /// The path of the system's temporary folder is not UTF-8.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }

    fn remove(&self) {
        let _ = if self.0.is_dir() { fs::remove_dir_all(&self.0) } else { fs::remove_file(&self.0) };
    }
}

impl Deref for TempPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        self.remove();
    }
}

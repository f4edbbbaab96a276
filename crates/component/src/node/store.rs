//! Plans that are up, in a folder: a file for each, with a checksum, replaced as a whole.

use crate::artifacts::digest_of;
use crate::plan::PLAN_BYTES_MAX;
use crate::server::check_name;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// What a file begins with, before its checksum: a comment, so that the whole is a plan.
const HEAD: &str = "# plan of a node manager, ";

/// The folder. Its lock ends with the process.
pub(crate) struct Store {
    folder: PathBuf,
    /// The group that may read, where servers run as another user.
    group: Option<u32>,
    _lock: File,
}

impl Store {
    /// Opens a folder, which is made where there is none.
    pub(crate) fn open(folder: &Path, group: Option<u32>) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("state, {}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed(&error))?;
        let lock = File::create(folder.join("lock")).map_err(|error| failed(&error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => failed(&"another node manager has it: give each a folder of its own"),
            TryLockError::Error(error) => failed(&error),
        })?;
        let store = Self { folder: folder.to_owned(), group, _lock: lock };
        store.grant(folder, 0o700, 0o750).map_err(|error| failed(&error))?;
        Ok(store)
    }

    /// Lets the group of the servers read, where they run as another user.
    fn grant(&self, path: &Path, own: u32, with_group: u32) -> io::Result<()> {
        if self.group.is_some() {
            chown(path, None, self.group)?;
        }
        fs::set_permissions(path, Permissions::from_mode(if self.group.is_some() { with_group } else { own }))
    }

    /// The file of a plan that is up.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.toml"))
    }

    /// The file of a plan that is being brought up.
    pub(crate) fn next_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.next"))
    }

    /// Writes a plan that is being brought up.
    pub(crate) fn write_next(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.next_file(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        self.grant(&path, 0o600, 0o640)?;
        write!(file, "{HEAD}{}\n{text}", digest_of(text.as_bytes()))?;
        file.sync_all()
    }

    /// Has the plan that was written take the place of the one that was up.
    pub(crate) fn commit(&self, name: &str) -> io::Result<()> {
        fs::rename(self.next_file(name), self.file(name)).map(|()| self.sync(name))
    }

    /// Forgets the plan that was written, which has not come up.
    pub(crate) fn discard_next(&self, name: &str) {
        // The next start forgets it otherwise.
        let _ = fs::remove_file(self.next_file(name));
    }

    /// Forgets a plan that was up.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.file(name)).map(|()| self.sync(name))
    }

    /// Synchronises the names of files. They have changed all the same if that fails.
    fn sync(&self, name: &str) {
        if let Err(error) = File::open(&self.folder).and_then(|folder| folder.sync_all()) {
            log::error!("plan {name}: the change may be lost at a power cut: {}: {error}", self.folder.display());
        }
    }

    /// The plans that are up, by name, or why one cannot be read.
    pub(crate) fn read(&self) -> io::Result<BTreeMap<String, Result<String, String>>> {
        let mut plans = BTreeMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            match path.extension().and_then(|end| end.to_str()) {
                Some("next") => self.discard_next(name),
                Some("toml") if check_name(name).is_ok() => drop(plans.insert(name.to_owned(), read(&path))),
                _ => {}
            }
        }
        Ok(plans)
    }
}

/// The plan in a file.
fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let most = (PLAN_BYTES_MAX + 1024) as u64;
    let file = File::open(path).and_then(|file| file.take(most).read_to_string(&mut text));
    file.map_err(|error| error.to_string())?;
    let head = text.split_once('\n').and_then(|(head, plan)| Some((head.strip_prefix(HEAD)?, plan)));
    match head {
        Some((digest, plan)) if digest == digest_of(plan.as_bytes()) => Ok(plan.to_owned()),
        _ => {
            Err("the file is damaged, its checksum is not that of its text: bring the plan up again, or down"
                .to_owned())
        }
    }
}

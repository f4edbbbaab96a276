//! Plans that are up, in a folder: a file for each, with a checksum, replaced as a whole.
//!
//! Of a plan over several nodes there may be a vote beside it, at a node that waits for a decision, and where the plan was brought up the
//! record of the last decision.

use crate::artifacts::digest_of;
use crate::plan::{PLAN_BYTES_MAX, Problem};
use crate::server::check_name;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// What a file begins with, before its checksum: a comment, so that the whole is a plan.
const HEAD: &str = "# plan of a node manager, ";

/// What the name of a file ends with: of a plan that is up, and of one that is being brought up.
pub(crate) const PLAN: &str = "toml";
pub(crate) const NEXT: &str = "next";

/// A change of a plan that this node has carried out, and on which another one decides.
pub(crate) const VOTE: &str = "vote";

/// The nodes of a plan that is brought up here, and the change that was decided last.
pub(crate) const RECORD: &str = "nodes";

/// A file that is being written.
const UNFINISHED: &str = "new";

/// The most octets of a plan with canonical paths and digests: servers read it with its head.
pub(crate) const STORED_BYTES_MAX: usize = PLAN_BYTES_MAX - 1_024;

/// The folder. Its lock ends with the process.
pub(crate) struct Store {
    folder: PathBuf,
    directory: File,
    /// The group that may read, where servers run as another user.
    group: Option<u32>,
    _lock: File,
}

impl Store {
    /// Opens a folder, which is made where there is none. One in which another user could put files, or another folder, is refused.
    pub(crate) fn open(folder: &Path, group: Option<u32>) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("state, {}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed(&error))?;
        let directory = directory(folder).map_err(|reason| failed(&reason))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600).custom_flags(flags(OFlags::NOFOLLOW));
        let lock = options.open(folder.join("lock")).map_err(|error| failed(&format!("lock: {error}")))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => failed(&"another node manager has it: give each a folder of its own"),
            TryLockError::Error(error) => failed(&error),
        })?;
        let store = Self { folder: folder.to_owned(), directory, group, _lock: lock };
        store.grant(&store.directory, 0o700, 0o750).map_err(|error| failed(&error))?;
        Ok(store)
    }

    /// Lets the group of the servers read, where they run as another user.
    fn grant(&self, file: &File, own: u32, with_group: u32) -> io::Result<()> {
        if self.group.is_some() {
            fchown(file, None, self.group)?;
        }
        file.set_permissions(Permissions::from_mode(if self.group.is_some() { with_group } else { own }))
    }

    /// The file of a plan that is up.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{PLAN}"))
    }

    /// The file of a plan that is being brought up.
    pub(crate) fn next_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{NEXT}"))
    }

    /// Writes a plan that is being brought up.
    pub(crate) fn write_next(&self, name: &str, text: &str) -> Result<(), Problem> {
        let path = self.next_file(name);
        self.write(&path, text).map_err(|error| failed(&path, &error))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(flags(OFlags::NOFOLLOW));
        let mut file = options.open(path)?;
        self.grant(&file, 0o600, 0o640)?;
        write!(file, "{HEAD}{}\n{text}", digest_of(text.as_bytes()))?;
        file.sync_all()
    }

    /// Writes what goes with a plan, in place of what there was. After an error it may be in its place, and may be lost at a power cut.
    pub(crate) fn replace(&self, name: &str, ending: &str, value: &impl Serialize) -> Result<(), Problem> {
        let path = self.folder.join(format!("{name}.{ending}"));
        let unfinished = self.folder.join(format!("{name}.{ending}.{UNFINISHED}"));
        let text = serde_json::to_string(value).map_err(|error| failed(&path, &error.into()))?;
        let written = self.write(&unfinished, &text).and_then(|()| fs::rename(&unfinished, &path));
        written.and_then(|()| self.directory.sync_all()).map_err(|error| failed(&path, &error))
    }

    /// The text of a file, if there is one.
    pub(crate) fn text(&self, name: &str, ending: &str) -> Option<Result<String, String>> {
        let path = self.folder.join(format!("{name}.{ending}"));
        fs::symlink_metadata(&path).is_ok().then(|| read(&path))
    }

    /// Forgets what goes with a plan, if there is something.
    pub(crate) fn forget(&self, name: &str, ending: &str) {
        match fs::remove_file(self.folder.join(format!("{name}.{ending}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::error!("plan {name}: {}: {error}", self.folder.display()),
            Ok(()) => self.sync(name),
        }
    }

    /// Has the plan that was written take the place of the one that was up.
    pub(crate) fn commit(&self, name: &str) -> Result<(), Problem> {
        let path = self.file(name);
        fs::rename(self.next_file(name), &path).map_err(|error| failed(&path, &error))?;
        self.sync(name);
        Ok(())
    }

    /// Forgets the plan that was written, which has not come up.
    pub(crate) fn discard_next(&self, name: &str) {
        // The next start forgets it otherwise.
        let _ = fs::remove_file(self.next_file(name));
    }

    /// Forgets a plan that was up. Its file may have been removed by hand.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Problem> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, &error)),
            _ => self.sync(name),
        }
        Ok(())
    }

    /// Synchronises the names of files. They have changed all the same if that fails.
    fn sync(&self, name: &str) {
        if let Err(error) = self.directory.sync_all() {
            log::error!("plan {name}: the change may be lost at a power cut: {}: {error}", self.folder.display());
        }
    }

    /// Removes what a node manager that was killed has not finished. A plan on which another node decides stays.
    pub(crate) fn clean(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            match path.extension().and_then(|end| end.to_str()) {
                Some(NEXT) if self.text(name, VOTE).is_none() => self.discard_next(name),
                // The next one is written over it.
                Some(UNFINISHED) => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        Ok(())
    }

    /// All texts with that ending, by name, or why one cannot be read.
    pub(crate) fn all(&self, ending: &str) -> io::Result<BTreeMap<String, Result<String, String>>> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|end| end == ending) && check_name(name).is_ok() {
                all.insert(name.to_owned(), read(&path));
            }
        }
        Ok(all)
    }
}

fn failed(path: &Path, error: &io::Error) -> Problem {
    let hint = "mend that, as by room on the disk, and try again; what was up is so still";
    Problem::new("state", format!("{}: {error}: {hint}", path.display()))
}

/// Flags, as the standard library takes them.
fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// A folder that no other user has made, or may write to. Only root may have set a symbolic link to it, as systemd does.
fn directory(path: &Path) -> Result<File, String> {
    let about = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    let nofollow = if about.is_symlink() && about.uid() == 0 { OFlags::empty() } else { OFlags::NOFOLLOW };
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags(OFlags::DIRECTORY | nofollow));
    let folder = options.open(path).map_err(|error| match about.is_symlink() {
        true => "it is a symbolic link that root has not made: name the folder itself".to_owned(),
        false => error.to_string(),
    })?;
    // Files are opened by path: nobody else may put another folder there.
    let whole = path.canonicalize().map_err(|error| error.to_string())?;
    for parent in whole.ancestors().skip(1) {
        let about = fs::metadata(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let is_open = about.mode() & 0o002 != 0 && about.mode() & 0o1000 == 0;
        if is_open || ![0, geteuid().as_raw()].contains(&about.uid()) {
            let (user, mode, parent) = (about.uid(), about.mode() & 0o7777, parent.display());
            return Err(format!(
                "user {user} has {parent}, with mode {mode:o}: others could put another folder there; choose one below folders of root or of \
                 the node manager's user"
            ));
        }
    }
    let (about, own) = (folder.metadata().map_err(|error| error.to_string())?, geteuid().as_raw());
    if about.uid() != own || about.mode() & 0o022 != 0 {
        let (user, mode) = (about.uid(), about.mode() & 0o7777);
        return Err(format!(
            "user {user} has it, with mode {mode:o}: it has to be that of user {own}, and others may not write to it (chown, chmod go-w)"
        ));
    }
    Ok(folder)
}

/// The plan in a file.
fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let most = PLAN_BYTES_MAX as u64 + 1;
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

#[cfg(test)]
mod tests {
    use super::{RECORD, Store};
    use std::fs::File;
    use testing::TempPath;

    #[test]
    fn a_record_that_may_be_lost_at_a_power_cut_is_an_error() {
        let folder = TempPath::folder("store");
        let mut store = Store::open(&folder.join("state"), None).unwrap();
        store.replace("far", RECORD, &1).unwrap();
        // Nothing there can be synchronised.
        store.directory = File::open("/dev/null").unwrap();
        let refused = store.replace("far", RECORD, &2).unwrap_err().to_string();
        assert!(refused.contains("far.nodes: Invalid argument"), "{refused}");
        assert_eq!(store.text("far", RECORD), Some(Ok("2".to_owned())));
    }
}

//! The file of the store: a table of keys and values in an embedded database, which keeps each batch whole or not at all.

use core::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};

use super::Changes;

/// What is configured, in its parts.
const PARTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("parts");
/// What is said of the rest: [`VERSION`].
const ABOUT: TableDefinition<'_, &str, u32> = TableDefinition::new("about");
const VERSION_KEY: &str = "version";
/// The form of the tables that this is.
const VERSION: u32 = 1;
/// The file's name in its folder.
const FILE: &str = "campanile.redb";
/// Memory for pages of the file: a batch is small, and what there is is read once.
const CACHE_BYTES: usize = 4 << 20;

/// Why the store cannot be used, for people.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The folder cannot be had.
    Folder(io::Error),
    /// Another process has it.
    InUse,
    /// It was written by another release.
    Version(u32),
    /// The database says no.
    Database(redb::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => write!(f, "{error}"),
            Self::InUse => write!(f, "another process uses it"),
            Self::Version(version) => write!(f, "it is of version {version}, and {VERSION} is known here"),
            Self::Database(redb::Error::Corrupted(why)) => write!(f, "its file {FILE} is damaged ({why})"),
            Self::Database(redb::Error::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                write!(f, "its file {FILE} is damaged, or no store's ({error})")
            }
            Self::Database(error) => write!(f, "its file {FILE}: {error}"),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            error => Self::Database(error),
        }
    }
}

/// How a database is opened: a file, or what stands for one in a test.
type Open = Box<dyn Fn(&Builder) -> Result<Database, DatabaseError> + Send>;

/// The store's file.
pub(crate) struct Disk {
    open: Open,
    /// `None` after a failure: what is in memory is not to be trusted then, and it is opened anew.
    database: Option<Database>,
}

impl Disk {
    /// Opens the store in a folder, both of which are made if they are not there. The file is looked through for damage.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(StoreError::Folder)?;
        let file: PathBuf = directory.join(FILE);
        Self::of(Box::new(move |builder| builder.create(&file)))
    }

    /// The same on something that is no file.
    #[cfg(test)]
    pub(super) fn on<B: redb::StorageBackend>(backend: impl Fn() -> B + Send + 'static) -> Result<Self, StoreError> {
        Self::of(Box::new(move |builder| builder.create_with_backend(backend())))
    }

    fn of(open: Open) -> Result<Self, StoreError> {
        let database = Some(opened(&open)?);
        Ok(Self { open, database })
    }

    fn database(&mut self) -> Result<&Database, StoreError> {
        let opened = match self.database.take() {
            Some(database) => database,
            None => opened(&self.open)?,
        };
        Ok(self.database.insert(opened))
    }

    /// All that is kept.
    pub(crate) fn image(&mut self) -> Result<corba::Image, StoreError> {
        let parts = self.database()?.begin_read()?.open_table(PARTS)?;
        let mut image = corba::Image::new();
        for entry in parts.iter()? {
            let (key, value) = entry?;
            image.insert(key.value().to_vec(), value.value().to_vec());
        }
        Ok(image)
    }

    /// Keeps a batch, whole or not at all; it is on the medium when this returns. Says how many octets it had.
    pub(crate) fn write(&mut self, changes: &Changes) -> Result<u64, StoreError> {
        let written = write(self.database()?, changes);
        if written.is_err() {
            self.database = None;
        }
        written
    }
}

fn opened(open: &Open) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    let database = open(&builder)?;
    let begun = begin(&database)?;
    {
        let mut about = begun.open_table(ABOUT)?;
        let version = about.get(VERSION_KEY)?.map(|version| version.value());
        match version {
            None => _ = about.insert(VERSION_KEY, VERSION)?,
            Some(VERSION) => {}
            Some(other) => return Err(StoreError::Version(other)),
        }
        begun.open_table(PARTS)?;
    }
    begun.commit()?;
    Ok(database)
}

/// Begins to write, in two phases: with one, whoever chooses what is written could make a commit that was not completed look as if it
/// were; and clients choose that.
fn begin(database: &Database) -> Result<redb::WriteTransaction, StoreError> {
    let mut begun = database.begin_write()?;
    begun.set_quick_repair(true);
    Ok(begun)
}

fn write(database: &Database, changes: &Changes) -> Result<u64, StoreError> {
    let begun = begin(database)?;
    let mut octets = 0;
    {
        let mut parts = begun.open_table(PARTS)?;
        for (key, value) in changes {
            octets += key.len() + value.as_ref().map_or(0, Vec::len);
            match value {
                Some(value) => parts.insert(&**key, &**value).map(drop)?,
                None => parts.remove(&**key).map(drop)?,
            }
        }
    }
    begun.commit()?;
    Ok(octets as u64)
}

//! The file of the store: an embedded database, which makes each batch atomic.

use core::fmt;
use core::ops::ControlFlow;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, TableDefinition,
};

use super::Changes;
use super::block_device::Place;
#[cfg(test)]
use super::block_device::{BlockDevice, Unsynchronised};
use super::copy_on_write::CopyOnWriteFile;
use super::origins::SeenOrigin;
use super::replication::{self, Kind, Replication};
#[cfg(test)]
use super::room::Blocks;
use super::room::{Room, is_full};
use crate::random;

/// Configuration, in parts.
pub(super) const PARTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("parts");
/// Records of events by number, and lists of unconfirmed consumers by the same number.
pub(super) const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
pub(super) const CONSUMERS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("consumers");
/// This service's number, by which other services know it, under [`SERVICE_KEY`].
pub(super) const IDENTITY: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("identity");
const SERVICE_KEY: &[u8] = b"service";
/// Origins of events from other services, each with the number of its event.
pub(super) const ORIGINS_SEEN: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("origins_seen");
/// Metadata: [`VERSION`].
pub(super) const ABOUT: TableDefinition<'_, &str, u32> = TableDefinition::new("about");
pub(super) const VERSION_KEY: &str = "version";
/// The version of the tables, and earlier ones, of which it is a superset: without events; without dead letters, which that release would
/// take for unconfirmed consumers; without origins, which that release would take for names and content of events.
pub(super) const VERSION: u32 = 4;
/// The version of a store that takes part in replication: a release that does not count its batches would have the follower differ.
pub(super) const VERSION_REPLICATED: u32 = 5;
const VERSION_WITHOUT_EVENTS: u32 = 1;
const VERSION_WITHOUT_DEAD_LETTERS: u32 = 2;
const VERSION_WITHOUT_ORIGINS: u32 = 3;
/// Name of the file in the store's folder.
pub(crate) const FILE: &str = "campanile.redb";
/// The unit of the system's count of blocks, in octets.
pub(super) const BLOCK_BYTES: u64 = 512;
/// Cache for pages of the file, in octets: a batch is small, and the contents are read once.
const CACHE_BYTES: usize = 4 << 20;

/// The store's file in its folder.
pub(crate) fn disk_file(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// The reason why a store cannot be used, for people.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The folder cannot be created.
    Folder(io::Error),
    /// Another process has opened the store.
    InUse,
    /// Another release wrote the store.
    Version(u32),
    /// The database reported an error.
    Database(redb::Error),
    /// The follower has not got what is to be acknowledged, or another leader has taken over.
    Standby(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => write!(f, "{error}"),
            Self::InUse => {
                write!(
                    f,
                    "another process uses it, such as a service at the same port of another address, or one that is about to end"
                )
            }
            Self::Version(version) => {
                write!(
                    f,
                    "it is of version {version}, and this release knows {VERSION}: it needs the release that has written it"
                )
            }
            Self::Database(redb::Error::Corrupted(why)) => write!(f, "its file {FILE} is damaged ({why})"),
            Self::Database(redb::Error::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                write!(f, "its file {FILE} is damaged, or no store's ({error})")
            }
            Self::Database(error) => write!(f, "its file {FILE}: {error}"),
            Self::Standby(why) => f.write_str(why),
        }
    }
}

impl StoreError {
    /// Whether the file is damaged.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Database(redb::Error::Corrupted(_)) => true,
            Self::Database(redb::Error::Io(error)) => error.kind() == io::ErrorKind::InvalidData,
            _ => false,
        }
    }

    /// Whether the disk has no room.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Database(redb::Error::Io(error)) if is_full(error))
    }

    /// Whether the folder has no store, and none can be created.
    pub(crate) fn is_nowhere(&self, directory: &Path) -> bool {
        match self {
            Self::Folder(_) => true,
            Self::Database(redb::Error::Io(_)) => fs::metadata(directory.join(FILE)).is_err(),
            _ => false,
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

/// Opens a database: a file, or a substitute in tests.
type Open = Box<dyn Fn(&Builder) -> Result<Database, DatabaseError> + Send>;

/// Queries the octets on disk.
type Octets = Box<dyn Fn() -> io::Result<u64> + Send>;

/// The store's file.
pub(crate) struct Disk {
    open: Open,
    octets: Octets,
    room: Room,
    /// `None` after a failure: then its memory is not to be trusted, and the database is opened again.
    database: Option<Database>,
    /// The version of the tables when they were opened.
    version: u32,
    /// Where each batch goes, beside the disk: if there is a follower to have it.
    replication: Option<Box<dyn Replication>>,
}

impl Disk {
    /// Opens the store in a folder, and creates both if missing. The checksums of the file are verified.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        #[cfg(test)]
        if let Some(device) = crate::simulation::device() {
            return Self::on(move || device.clone());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(StoreError::Folder)?;
        let file: PathBuf = directory.join(FILE);
        let measured = file.clone();
        // The file may be sparse, as it is after it has grown.
        let octets = move || fs::metadata(&measured).map(|file| file.blocks() * BLOCK_BYTES);
        let place = Place::new(file);
        let room = place.room();
        Self::of(Box::new(move |builder| builder.create_with_backend(place.open()?)), Box::new(octets), room)
    }

    /// Opens the store in a folder to read: the checksums of its file are verified, and nothing is written to it.
    pub(super) fn look_at(directory: &Path) -> Result<Self, StoreError> {
        let file: PathBuf = directory.join(FILE);
        let measured = file.clone();
        let octets = move || fs::metadata(&measured).map(|file| file.blocks() * BLOCK_BYTES);
        let open: Open = Box::new(move |builder| builder.create_with_backend(CopyOnWriteFile::of(&file)?));
        Self::of(open, Box::new(octets), Room::on(None))
    }

    /// Opens a store on a backend other than a file.
    #[cfg(test)]
    pub(super) fn on<B: redb::StorageBackend>(backend: impl Fn() -> B + Send + 'static) -> Result<Self, StoreError> {
        Self::in_room(backend, None)
    }

    /// Opens a store on a backend that takes its blocks from a simulated disk.
    #[cfg(test)]
    pub(super) fn in_room<B: redb::StorageBackend>(
        backend: impl Fn() -> B + Send + 'static,
        blocks: Option<(Box<dyn Blocks>, u64)>,
    ) -> Result<Self, StoreError> {
        let (blocks, on_disk) = blocks.unzip();
        let (measured, unsynchronised, room) = (backend(), Unsynchronised::default(), Room::on(blocks));
        room.begin(on_disk.unwrap_or(0));
        let of_device = room.clone();
        let open = move |builder: &Builder| {
            let block_device =
                BlockDevice::open(backend(), unsynchronised.clone(), Box::new(|| Ok(())), of_device.clone());
            builder.create_with_backend(block_device.map_err(redb::StorageError::Io)?)
        };
        Self::of(Box::new(open), Box::new(move || measured.len()), room)
    }

    fn of(open: Open, octets: Octets, room: Room) -> Result<Self, StoreError> {
        let (database, version) = opened(&open)?;
        Ok(Self { open, octets, room, database: Some(database), version, replication: None })
    }

    /// The room for the file on its disk.
    pub(super) const fn room(&self) -> &Room {
        &self.room
    }

    /// The version of the tables when they were opened. They are of [`VERSION`] by now.
    pub(super) const fn version(&self) -> u32 {
        self.version
    }

    /// Octets on disk.
    pub(crate) fn octets(&self) -> u64 {
        (self.octets)().unwrap_or(0)
    }

    /// Sets where each batch goes from now on, beside the disk.
    pub(crate) fn replicate(&mut self, by: Box<dyn Replication>) {
        self.replication = Some(by);
    }

    /// Where each batch goes, beside the disk, if anywhere.
    pub(super) fn replication(&mut self) -> Option<&mut (dyn Replication + 'static)> {
        self.replication.as_deref_mut()
    }

    /// Runs a transaction of the caller's own, which replication does not see.
    pub(super) fn transact<R>(
        &mut self,
        phases: Phases,
        run: impl FnOnce(&redb::WriteTransaction) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let done = (|| {
            let begun = begin(self.database()?, phases)?;
            let done = run(&begun)?;
            begun.commit()?;
            Ok(done)
        })();
        if done.is_err() {
            self.close();
        }
        done
    }

    /// Closes the database after a failure: its memory is not to be trusted. A snapshot of it is given up, or it could not be opened again.
    fn close(&mut self) {
        self.database = None;
        if let Some(replication) = &mut self.replication {
            replication.end(false);
        }
    }

    pub(super) fn database(&mut self) -> Result<&Database, StoreError> {
        let opened = match self.database.take() {
            Some(database) => database,
            None => opened(&self.open)?.0,
        };
        Ok(self.database.insert(opened))
    }

    /// The whole stored configuration.
    pub(crate) fn image(&mut self) -> Result<corba::Image, StoreError> {
        let parts = self.database()?.begin_read()?.open_table(PARTS)?;
        let mut image = corba::Image::new();
        for entry in parts.iter()? {
            let (key, value) = entry?;
            image.insert(key.value().to_vec(), value.value().to_vec());
        }
        Ok(image)
    }

    /// This service's number, by which other services know it. Never 0.
    pub(crate) fn service(&mut self) -> Result<u64, StoreError> {
        let identity = self.database()?.begin_read()?.open_table(IDENTITY)?;
        Ok(service_in(&identity)?.unwrap_or_else(random::identity))
    }

    /// Origins of events from other services, each with the number of its event, in the order of these.
    pub(super) fn origins_seen(&mut self) -> Result<Vec<(u64, SeenOrigin)>, StoreError> {
        let table = self.database()?.begin_read()?.open_table(ORIGINS_SEEN)?;
        let mut origins = Vec::new();
        for entry in table.iter()? {
            let (key, value) = entry?;
            origins.extend(number(value.value()).zip(SeenOrigin::of_key(key.value())));
        }
        origins.sort_unstable();
        Ok(origins)
    }

    /// The number of events, and the number behind the last one's.
    pub(crate) fn events(&mut self) -> Result<(u64, u64), StoreError> {
        let events = self.database()?.begin_read()?.open_table(EVENTS)?;
        let last = events.last()?.map_or(0, |(number, _)| number.value());
        Ok((events.len()?, last + 1))
    }

    /// Passes each event from a number on to `tell`, in ascending order: its number, the list of unconfirmed consumers if one is stored,
    /// and its record. Ends when `tell` breaks.
    pub(super) fn each_event(
        &mut self,
        from: u64,
        tell: impl FnMut(u64, Option<&[u8]>, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let told = each_event(self.database()?, from, tell);
        if told.is_err() {
            self.close();
        }
        told
    }

    /// Reads the record of one event. `None` if there is none.
    pub(super) fn event<R>(&mut self, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        let told = event(self.database()?, number, read);
        if told.is_err() {
            self.close();
        }
        told
    }

    /// Shrinks the file to its contents.
    pub(super) fn compact(&mut self) -> Result<(), StoreError> {
        self.database()?;
        let Some(database) = &mut self.database else { return Ok(()) };
        let compacted = database.compact();
        // While a snapshot is read for a follower's copy, it is refused, and nothing is wrong.
        if compacted.as_ref().is_err_and(|error| !matches!(error, redb::CompactionError::TransactionInProgress)) {
            self.close();
        }
        compacted?;
        Ok(())
    }

    /// Writes a batch of changes, as a whole or not at all; it is on the disk on return. Returns its octets.
    pub(crate) fn write(&mut self, changes: &Changes) -> Result<u64, StoreError> {
        self.write_batch(Phases::of(changes), |batch| batch.change_parts(changes))
    }

    /// Writes the batch that `fill` creates, as a whole or not at all; it is on the disk on return. Returns its octets.
    pub(crate) fn write_batch(
        &mut self,
        phases: Phases,
        fill: impl FnOnce(&mut Batch<'_>) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        self.database()?;
        let Self { database, replication, .. } = self;
        let Some(database) = database else { return Err(StoreError::InUse) };
        let written = write(database, replication.as_deref_mut(), phases, fill);
        if written.is_err() {
            self.close();
        }
        written
    }
}

/// Steps in which a batch is committed, each with a synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phases {
    /// An attacker that chooses the data and cuts the power at the right moment could make an incomplete commit look complete. For events
    /// that risk is accepted, since they are written far more often.
    One,
    /// A commit that is safe from that attack.
    Two,
}

impl Phases {
    /// The steps for a batch with these configuration changes.
    pub(crate) fn of(changes: &Changes) -> Self {
        if changes.is_empty() { Self::One } else { Self::Two }
    }
}

/// A batch under construction.
pub(crate) struct Batch<'t> {
    begun: &'t redb::WriteTransaction,
    events: Table<'t, u64, &'static [u8]>,
    consumers: Table<'t, u64, &'static [u8]>,
    /// The table, opened with the first write to it.
    origins_seen: Option<Table<'t, &'static [u8], &'static [u8]>>,
    octets: usize,
    /// The batch as a follower gets it, if replication sees it.
    operations: Option<Vec<u8>>,
}

impl<'t> Batch<'t> {
    pub(crate) fn change_parts(&mut self, changes: &Changes) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut parts = self.begun.open_table(PARTS)?;
        for (key, value) in changes {
            self.octets += key.len() + value.as_ref().map_or(0, Vec::len);
            match value {
                Some(value) => parts.insert(&**key, &**value).map(drop)?,
                None => parts.remove(&**key).map(drop)?,
            }
            replication::note(&mut self.operations, Kind::Parts, key, value.as_deref());
        }
        Ok(())
    }

    pub(crate) fn keep_event(&mut self, number: u64, record: &[u8]) -> Result<(), StoreError> {
        self.octets += size_of::<u64>() + record.len();
        self.events.insert(number, record)?;
        replication::note(&mut self.operations, Kind::Events, &number.to_le_bytes(), Some(record));
        Ok(())
    }

    /// Stores an event's origin.
    pub(super) fn keep_origin(&mut self, event: u64, origin: &SeenOrigin) -> Result<(), StoreError> {
        self.octets += SeenOrigin::KEY_BYTES + size_of::<u64>();
        self.origins_seen()?.insert(&origin.key()[..], &event.to_le_bytes()[..])?;
        replication::note(&mut self.operations, Kind::Origins, &origin.key(), Some(&event.to_le_bytes()));
        Ok(())
    }

    pub(super) fn forget_origin(&mut self, origin: &SeenOrigin) -> Result<(), StoreError> {
        self.origins_seen()?.remove(&origin.key()[..])?;
        replication::note(&mut self.operations, Kind::Origins, &origin.key(), None);
        Ok(())
    }

    /// Removes all origins for which `is_kept` returns false. Its first argument is the number of the event.
    pub(super) fn retain_origins(&mut self, is_kept: impl Fn(u64, SeenOrigin) -> bool) -> Result<(), StoreError> {
        let mut operations = self.operations.take();
        let retained = self.origins_seen()?.retain(|key, event| {
            let origin = number(event).zip(SeenOrigin::of_key(key));
            let stays = origin.is_some_and(|(event, origin)| is_kept(event, origin));
            if !stays {
                replication::note(&mut operations, Kind::Origins, key, None);
            }
            stays
        });
        self.operations = operations;
        Ok(retained?)
    }

    fn origins_seen(&mut self) -> Result<&mut Table<'t, &'static [u8], &'static [u8]>, StoreError> {
        let table = match self.origins_seen.take() {
            Some(table) => table,
            None => self.begun.open_table(ORIGINS_SEEN)?,
        };
        Ok(self.origins_seen.insert(table))
    }

    /// Stores this service's number.
    pub(super) fn keep_service(&mut self, service: u64) -> Result<(), StoreError> {
        self.begun.open_table(IDENTITY)?.insert(SERVICE_KEY, &service.to_le_bytes()[..])?;
        replication::note(&mut self.operations, Kind::Identity, SERVICE_KEY, Some(&service.to_le_bytes()));
        Ok(())
    }

    /// Stores the list of an event's unconfirmed consumers.
    pub(crate) fn keep_consumers(&mut self, number: u64, consumers: &[u8]) -> Result<(), StoreError> {
        self.octets += size_of::<u64>() + consumers.len();
        self.consumers.insert(number, consumers)?;
        replication::note(&mut self.operations, Kind::Consumers, &number.to_le_bytes(), Some(consumers));
        Ok(())
    }

    /// Removes an event, and its list of unconfirmed consumers if it `is_listed`.
    pub(crate) fn forget_event(&mut self, number: u64, is_listed: bool) -> Result<(), StoreError> {
        self.events.remove(number)?;
        replication::note(&mut self.operations, Kind::Events, &number.to_le_bytes(), None);
        if is_listed {
            self.consumers.remove(number)?;
            replication::note(&mut self.operations, Kind::Consumers, &number.to_le_bytes(), None);
        }
        Ok(())
    }
}

/// Opens the database. Returns it with the version of the tables before any upgrade.
fn opened(open: &Open) -> Result<(Database, u32), StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    let database = open(&builder)?;
    if let Some(version) = version_with_all_tables(&database)? {
        // Nothing is written here: the disk may be full.
        return Ok((database, version));
    }
    let begun = begin(&database, Phases::Two)?;
    let found = {
        let mut about = begun.open_table(ABOUT)?;
        let version = about.get(VERSION_KEY)?.map(|version| version.value());
        match version {
            None | Some(VERSION_WITHOUT_EVENTS | VERSION_WITHOUT_DEAD_LETTERS | VERSION_WITHOUT_ORIGINS) => {
                _ = about.insert(VERSION_KEY, VERSION)?
            }
            Some(VERSION | VERSION_REPLICATED) => {}
            Some(other) => return Err(StoreError::Version(other)),
        }
        begun.open_table(PARTS)?;
        begun.open_table(EVENTS)?;
        begun.open_table(CONSUMERS)?;
        begun.open_table(ORIGINS_SEEN)?;
        let mut identity = begun.open_table(IDENTITY)?;
        if service_in(&identity)?.is_none() {
            identity.insert(SERVICE_KEY, &random::identity().to_le_bytes()[..])?;
        }
        version.unwrap_or(VERSION)
    };
    begun.commit()?;
    Ok((database, found))
}

/// The version of a database that has all tables of this release. `None` for others.
fn version_with_all_tables(database: &Database) -> Result<Option<u32>, StoreError> {
    let begun = database.begin_read()?;
    let is_there = || {
        let about = begun.open_table(ABOUT)?;
        begun.open_table(PARTS)?;
        begun.open_table(EVENTS)?;
        begun.open_table(CONSUMERS)?;
        begun.open_table(ORIGINS_SEEN)?;
        let has_identity = service_in(&begun.open_table(IDENTITY)?)?.is_some();
        let version = about.get(VERSION_KEY)?.map(|version| version.value()).filter(|_| has_identity);
        Ok(version.filter(|version| matches!(*version, VERSION | VERSION_REPLICATED)))
    };
    match is_there() {
        Err(redb::Error::TableDoesNotExist(_)) => Ok(None),
        found => Ok(found?),
    }
}

fn each_event(
    database: &Database,
    from: u64,
    mut tell: impl FnMut(u64, Option<&[u8]>, &[u8]) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let begun = database.begin_read()?;
    let (events, consumers) = (begun.open_table(EVENTS)?, begun.open_table(CONSUMERS)?);
    let mut listed = consumers.range(from..)?.peekable();
    for entry in events.range(from..)? {
        let (number, record) = entry?;
        let number = number.value();
        let mut confirm = None;
        // Both are in ascending order, and there is no list without its event.
        while let Some(list) = listed.next_if(|list| list.as_ref().map_or(true, |(of, _)| of.value() <= number)) {
            let (of, list) = list?;
            if of.value() == number {
                confirm = Some(list);
            }
        }
        if tell(number, confirm.as_ref().map(|list| list.value()), record.value()).is_break() {
            break;
        }
    }
    Ok(())
}

fn event<R>(database: &Database, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
    let events = database.begin_read()?.open_table(EVENTS)?;
    Ok(events.get(number)?.map(|record| read(record.value())))
}

fn service_in(identity: &impl ReadableTable<&'static [u8], &'static [u8]>) -> Result<Option<u64>, redb::Error> {
    let service = identity.get(SERVICE_KEY)?;
    Ok(service.and_then(|service| number(service.value())).filter(|service| *service != 0))
}

fn number(octets: &[u8]) -> Option<u64> {
    octets.try_into().ok().map(u64::from_le_bytes)
}

fn begin(database: &Database, phases: Phases) -> Result<redb::WriteTransaction, StoreError> {
    let mut begun = database.begin_write()?;
    // Two phases, which also shorten the repair at the next opening.
    begun.set_quick_repair(phases == Phases::Two);
    Ok(begun)
}

fn write(
    database: &Database,
    mut replication: Option<&mut (dyn Replication + 'static)>,
    phases: Phases,
    fill: impl FnOnce(&mut Batch<'_>) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let begun = begin(database, phases)?;
    let (octets, operations) = {
        let (events, consumers) = (begun.open_table(EVENTS)?, begun.open_table(CONSUMERS)?);
        let operations = replication.as_ref().map(|_| Vec::new());
        let mut batch = Batch { begun: &begun, events, consumers, origins_seen: None, octets: 0, operations };
        fill(&mut batch)?;
        (batch.octets, batch.operations)
    };
    if let Some((replication, operations)) = replication.as_deref_mut().zip(operations) {
        replication::begin(&begun, replication, operations)?;
    }
    let committed = begun.commit();
    if let Some(replication) = replication {
        replication.end(committed.is_ok());
    }
    committed?;
    Ok(octets as u64)
}

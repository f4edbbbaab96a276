//! A follower's store in its folder.
//!
//! A copy is made in a folder of its own, [`COPY`], and takes the place of the store's file when it is whole: until then the
//! former store can be promoted. Where the former one was a leader's and has batches that no other store has, it is in a folder
//! `set-aside-EPOCH-NUMBER` from then on, where `campanile store` reads it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::follower::Replica;
use super::frame::{Hello, State};
use crate::store::Disk;
use crate::store::disk_file;
use crate::store::replication::{Part, Position, StandbyRecord};

/// The folder of a copy that is being made.
const COPY: &str = "copy";

pub(crate) struct FolderReplica {
    directory: PathBuf,
    /// `None` if it could not be opened again after a copy took its place.
    disk: Option<Disk>,
    copy: Option<Disk>,
    record: StandbyRecord,
    state: State,
}

impl FolderReplica {
    /// Opens the store, which may be new.
    pub(crate) fn open(directory: &Path) -> Result<Self, String> {
        let mut disk = Disk::open(directory).map_err(|error| error.to_string())?;
        let found = disk.standby().map_err(|error| error.to_string())?;
        let (record, position) = match found {
            Some((record, position)) if record.part == Part::Follower => (record, position),
            Some(_) => return Err("it is a leader's".to_owned()),
            None if disk.is_empty().map_err(|error| error.to_string())? => {
                let (epoch, began_at) = (0, Position::default());
                let record = StandbyRecord { part: Part::Follower, epoch, is_whole: false, has_led: false, began_at };
                disk.keep_standby(record, None).map_err(|error| error.to_string())?;
                (record, began_at)
            }
            None => {
                return Err("it has data of a service of its own, and role = \"follower\" would replace them: name an empty folder \
                            (store.directory), or have this service begin as the leader"
                    .to_owned());
            }
        };
        let service = disk.service().map_err(|error| error.to_string())?;
        let _ = fs::remove_dir_all(directory.join(COPY));
        let StandbyRecord { epoch, is_whole, .. } = record;
        let state = State { service: if is_whole { service } else { 0 }, epoch, is_whole, position };
        Ok(Self { directory: directory.into(), disk: Some(disk), copy: None, record, state })
    }

    fn disk(&mut self) -> Result<&mut Disk, String> {
        let disk = match self.disk.take() {
            Some(disk) => disk,
            // An empty one is not made in its place.
            None if !disk_file(&self.directory).exists() => return Err("its file is gone".to_owned()),
            None => Disk::open(&self.directory).map_err(|error| error.to_string())?,
        };
        Ok(self.disk.insert(disk))
    }

    fn keep(&mut self, record: StandbyRecord) -> Result<(), String> {
        self.disk()?.keep_standby(record, None).map_err(|error| error.to_string())?;
        self.record = record;
        self.state.epoch = record.epoch;
        Ok(())
    }

    /// Keeps the store's file in a folder of its own, if it may have batches that the leader has not: it was a leader's, or it is ahead by
    /// more than the batch that was under way when the leader ended.
    fn set_aside(&self, hello: &Hello) -> io::Result<()> {
        let at = self.state.position;
        let is_ahead = self.state.is_whole && at.number > hello.position.number + 1;
        if !is_ahead && (!self.record.has_led || at.is_same(hello.began_at)) {
            return Ok(());
        }
        let folder = |number: u32| self.directory.join(format!("set-aside-{}-{number}", hello.epoch));
        let free = (1..).map(folder).find(|folder| !folder.exists()).ok_or(io::ErrorKind::AlreadyExists)?;
        fs::create_dir(&free)?;
        // The copy takes the file's place in one step: there is a store at every moment, whose epoch counts.
        fs::hard_link(disk_file(&self.directory), disk_file(&free))?;
        fs::File::open(&free)?.sync_all()?;
        fs::File::open(&self.directory)?.sync_all()?;
        let behind = if is_ahead { hello.position } else { hello.began_at }.number;
        log::warn!(
            "standby: this store has {} batches behind batch {behind}, and the leader's has others or none: it is set aside in {} \
             (campanile store show --data), and is not merged",
            at.number.saturating_sub(behind),
            free.display()
        );
        Ok(())
    }
}

impl Replica for FolderReplica {
    fn state(&self) -> State {
        self.state
    }

    fn see(&mut self, epoch: u64) -> Result<(), String> {
        self.keep(StandbyRecord { epoch, ..self.record })
    }

    fn begin_copy(&mut self) -> Result<(), String> {
        self.copy = None;
        let folder = self.directory.join(COPY);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        self.copy = Some(Disk::open(&folder).map_err(|error| format!("{}: {error}", folder.display()))?);
        Ok(())
    }

    fn copy(&mut self, rows: &[u8]) -> Result<(), String> {
        let copy = self.copy.as_mut().ok_or("there is no copy")?;
        copy.apply(rows, None).map_err(|error| error.to_string())
    }

    fn end_copy(&mut self, hello: &Hello, at: Position) -> Result<(), String> {
        let mut copy = self.copy.take().ok_or("there is no copy")?;
        let service = copy.service().map_err(|error| error.to_string())?;
        if service != hello.service {
            return Err(format!("the copy is of service {service:016x}, and not of {:016x}", hello.service));
        }
        let record = StandbyRecord {
            part: Part::Follower,
            epoch: hello.epoch,
            is_whole: true,
            has_led: false,
            began_at: hello.began_at,
        };
        copy.keep_standby(record, Some(at)).map_err(|error| error.to_string())?;
        drop(copy);
        let failed = |error: io::Error| format!("the copy cannot take its place: {error}");
        self.disk = None;
        self.set_aside(hello).map_err(failed)?;
        let folder = self.directory.join(COPY);
        fs::rename(disk_file(&folder), disk_file(&self.directory)).map_err(failed)?;
        fs::File::open(&self.directory).and_then(|folder| folder.sync_all()).map_err(failed)?;
        let _ = fs::remove_dir_all(&folder);
        self.record = record;
        self.state = State { service, epoch: hello.epoch, is_whole: true, position: at };
        self.disk().map(drop)
    }

    fn apply(&mut self, operations: &[u8], at: Position) -> Result<(), String> {
        if self.record.has_led {
            // The new leader went on from here, so nothing is here that it has not.
            self.keep(StandbyRecord { has_led: false, ..self.record })?;
        }
        if let Err(error) = self.disk()?.apply(operations, Some(at)) {
            // It may be on the disk all the same.
            if let Ok(Some((_, position))) = self.disk()?.standby() {
                self.state.position = position;
            }
            return Err(error.to_string());
        }
        self.state.position = at;
        Ok(())
    }

    fn promote(&mut self) -> Result<u64, String> {
        if !self.state.is_whole {
            return Err("it has no whole copy of the leader's store yet".to_owned());
        }
        let epoch = self.record.epoch + 1;
        let began_at = self.state.position;
        self.keep(StandbyRecord { part: Part::Leader, epoch, is_whole: true, has_led: true, began_at })?;
        Ok(epoch)
    }
}

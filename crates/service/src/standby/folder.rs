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
        let record = match disk.standby().map_err(|error| error.to_string())? {
            Some((record, _)) if record.part == Part::Follower => record,
            Some(_) => return Err("it is a leader's".to_owned()),
            None if disk.is_empty().map_err(|error| error.to_string())? => {
                let (epoch, began_at) = (0, Position::default());
                let record = StandbyRecord { part: Part::Follower, epoch, is_whole: false, has_led: false, began_at };
                disk.keep_standby(record, None).map_err(|error| error.to_string())?;
                record
            }
            None => {
                return Err("it has data of a service of its own, and role = \"follower\" would replace them: name an empty folder \
                            (store.directory), or have this service begin as the leader"
                    .to_owned());
            }
        };
        let _ = fs::remove_dir_all(directory.join(COPY));
        let state = State::default();
        let mut this = Self { directory: directory.into(), disk: Some(disk), copy: None, record, state };
        this.look()?;
        Ok(this)
    }

    /// Closes the store.
    pub(crate) fn close(&mut self) {
        (self.disk, self.copy) = (None, None);
    }

    /// Reads what the disk has: after a failure, what was to be written may be there all the same.
    fn look(&mut self) -> Result<(), String> {
        let disk = self.disk()?;
        let found = disk.standby().map_err(|error| error.to_string())?;
        let service = disk.service().map_err(|error| error.to_string())?;
        let (record, position) = found.ok_or("its record of replication is gone")?;
        let StandbyRecord { epoch, is_whole, .. } = record;
        self.record = record;
        let service = if is_whole { service } else { 0 };
        self.state = State { service, epoch, is_whole, position, ..State::default() };
        Ok(())
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

    /// Has the copy's file take the place of the store's, in one step.
    fn take_copy(&self) -> io::Result<()> {
        let folder = self.directory.join(COPY);
        fs::rename(disk_file(&folder), disk_file(&self.directory))?;
        fs::File::open(&self.directory)?.sync_all()?;
        let _ = fs::remove_dir_all(&folder);
        Ok(())
    }

    /// Keeps the store's file in a folder of its own, if it may have batches that the leader has not: it was a leader's, or it is ahead by
    /// more than the batch that was under way when the leader ended.
    fn set_aside(&self, hello: &Hello) -> io::Result<()> {
        let at = self.state.position;
        let is_ahead = self.state.is_whole && at.number > hello.position.number.saturating_add(1);
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
        self.disk = None;
        let taken = self.set_aside(hello).and_then(|()| self.take_copy());
        // Even after an error it may have taken the place.
        let looked = self.look();
        taken.map_err(|error| format!("the copy cannot take its place: {error}")).and(looked)
    }

    fn apply(&mut self, operations: &[u8], at: Position) -> Result<(), String> {
        if self.record.has_led {
            // The new leader went on from here, so nothing is here that it has not.
            self.keep(StandbyRecord { has_led: false, ..self.record })?;
        }
        let between = (self.state.position, at);
        if let Err(error) = self.disk()?.apply(operations, Some(between)) {
            // It may be on the disk all the same. Where that cannot be read, the next batch finds out.
            let _ = self.look();
            return Err(error.to_string());
        }
        self.state.position = at;
        Ok(())
    }

    fn promote(&mut self, behind: u64) -> Result<u64, String> {
        // An attempt that failed may be on the disk.
        self.look()?;
        if self.record.part == Part::Follower {
            if !self.state.is_whole {
                return Err("it has no whole copy of the leader's store yet".to_owned());
            }
            let epoch = self.record.epoch.max(behind).checked_add(1).ok_or("there is no higher epoch")?;
            let began_at = self.state.position;
            self.keep(StandbyRecord { part: Part::Leader, epoch, is_whole: true, has_led: true, began_at })?;
        }
        Ok(self.record.epoch)
    }

    fn may_lead(&mut self) -> bool {
        self.look().is_err() || self.record.part == Part::Leader
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::VERSION;
    use super::*;
    use crate::store::Changes;
    use testing::TempPath;

    /// A leader's store with one part of configuration, as the rows of a copy, and its hello.
    fn leader() -> (Vec<u8>, Hello) {
        let folder = TempPath::new("standby-leader");
        let mut disk = Disk::open(&folder).unwrap();
        disk.write(&Changes::from([(b"part".to_vec(), Some(b"value".to_vec()))])).unwrap();
        let at = Position { epoch: 2, number: 7, chain: 5 };
        let record = StandbyRecord { part: Part::Leader, epoch: 2, is_whole: true, has_led: true, began_at: at };
        disk.keep_standby(record, Some(at)).unwrap();
        let (rows, service) = (disk.snapshot().unwrap().read(1 << 20).unwrap().unwrap(), disk.service().unwrap());
        (rows, Hello { version: VERSION, service, epoch: 2, position: at, began_at: at })
    }

    fn copied(folder: &Path, rows: &[u8], hello: &Hello) -> FolderReplica {
        let mut replica = FolderReplica::open(folder).unwrap();
        replica.see(hello.epoch).unwrap();
        replica.begin_copy().unwrap();
        replica.copy(rows).unwrap();
        replica.end_copy(hello, hello.position).unwrap();
        replica
    }

    #[test]
    fn a_copy_that_does_not_come_to_its_end_leaves_a_follower_with_what_it_had() {
        let folder = TempPath::new("standby-interrupted");
        let (rows, hello) = leader();
        let mut replica = copied(&folder, &rows, &hello);
        let (service, position) = (hello.service, hello.position);
        let state = State { service, epoch: 2, is_whole: true, position, ..State::default() };
        assert_eq!(replica.state(), state);
        // It was a leader once, so that its store is to be set aside.
        replica.keep(StandbyRecord { has_led: true, ..replica.record }).unwrap();
        replica.begin_copy().unwrap();
        replica.copy(&rows).unwrap();
        drop(replica);
        let mut replica = FolderReplica::open(&folder).unwrap();
        assert_eq!((replica.state(), folder.join(COPY).exists()), (state, false));
        // The copy cannot take the place of the store, which is set aside by then.
        replica.begin_copy().unwrap();
        replica.copy(&rows).unwrap();
        replica.close();
        fs::remove_file(disk_file(&folder.join(COPY))).unwrap();
        replica.set_aside(&Hello { began_at: Position { chain: 6, ..hello.began_at }, ..hello }).unwrap();
        assert!(replica.take_copy().is_err());
        replica.look().unwrap();
        assert!(disk_file(&folder.join("set-aside-2-1")).exists());
        assert_eq!(replica.state(), state);
        drop(replica);
        let mut replica = FolderReplica::open(&folder).unwrap();
        assert_eq!((replica.state(), replica.promote(0)), (state, Ok(3)));
        // An empty store is not made where the file is gone.
        replica.close();
        fs::remove_file(disk_file(&folder)).unwrap();
        assert!(replica.promote(0).unwrap_err().contains("its file is gone"));
    }

    #[test]
    fn what_failed_and_is_on_the_disk_all_the_same_is_found_there() {
        let folder = TempPath::new("standby-failed");
        let (rows, hello) = leader();
        let mut replica = copied(&folder, &rows, &hello);
        let (first, other) = (hello.position.behind(2, &rows), hello.position.behind(2, b""));
        replica.apply(&rows, first).unwrap();
        // As if that had failed.
        replica.state.position = hello.position;
        assert!(replica.apply(b"", other).unwrap_err().contains("does not follow on 8"));
        assert_eq!(replica.state().position, first);
        replica.apply(b"", first.behind(2, b"")).unwrap();
        // So is an epoch that was seen.
        replica.see(4).unwrap();
        drop(replica);
        let mut replica = FolderReplica::open(&folder).unwrap();
        assert_eq!(replica.state().epoch, 4);
        // A promotion is found as well, and the epoch is not raised again.
        let record = replica.record;
        assert_eq!((replica.promote(0), replica.may_lead()), (Ok(5), true));
        replica.record = record;
        assert_eq!((replica.may_lead(), replica.promote(9)), (true, Ok(5)));
    }
}

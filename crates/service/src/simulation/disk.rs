//! A disk that forgets at a power cut what was not synchronised, or keeps a part of it; that is full, fails, and flips bits.
//!
//! Stricter than file systems are: writes, lengths and names are kept or lost each by itself, whatever their order, and what is synchronised
//! is a file's octets or a folder's names, never both.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;

use crate::log::files::{Access, EntryKind, Files, OpenFile};

/// Blocks that direct writes and reads are made of.
const BLOCK: usize = 4_096;

/// A change of octets that is not synchronised.
#[derive(Clone, Debug)]
enum Change {
    Written(usize, Vec<u8>),
    Resized(usize),
}

/// Octets on a disk: what a reader sees, what there is after a power cut, and what may be, in any part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Octets {
    pub(crate) seen: Vec<u8>,
    pub(crate) stored: Vec<u8>,
    unsynchronised: Vec<Change>,
}

impl Octets {
    /// Such as are on the disk.
    pub(crate) fn of(stored: Vec<u8>) -> Self {
        Self { seen: stored.clone(), stored, unsynchronised: Vec::new() }
    }

    pub(crate) fn write(&mut self, at: usize, octets: &[u8]) {
        self.change(Change::Written(at, octets.to_vec()));
    }

    pub(crate) fn resize(&mut self, length: usize) {
        self.change(Change::Resized(length));
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.seen, &change);
        self.unsynchronised.push(change);
    }

    pub(crate) fn synchronise(&mut self) {
        let unsynchronised = std::mem::take(&mut self.unsynchronised);
        unsynchronised.iter().for_each(|change| apply(&mut self.stored, change));
    }

    /// What is to be synchronised is forgotten, though readers see it: as the kernel does it when it cannot write.
    pub(crate) fn synchronise_in_vain(&mut self) {
        self.unsynchronised.clear();
    }

    /// The power goes, and comes back: of what was not synchronised some is there, some is not, and some is there in part.
    pub(crate) fn lose_power(&mut self, random: &mut Rng) {
        for change in std::mem::take(&mut self.unsynchronised) {
            match (random.u32(..3), change) {
                (0, change) => apply(&mut self.stored, &change),
                (1, Change::Written(at, octets)) => {
                    let torn = octets[..random.usize(..=octets.len())].to_vec();
                    apply(&mut self.stored, &Change::Written(at, torn));
                }
                _ => {}
            }
        }
        self.seen.clone_from(&self.stored);
    }
}

fn apply(to: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Written(at, octets) => {
            let end = at + octets.len();
            to.resize(to.len().max(end), 0);
            to[*at..end].copy_from_slice(octets);
        }
        Change::Resized(length) => to.resize(*length, 0),
    }
}

/// A change of names that is not synchronised.
#[derive(Clone, Debug)]
enum NameChange {
    Made(PathBuf, Entry),
    Removed(PathBuf),
}

impl NameChange {
    fn path(&self) -> &Path {
        let (Self::Made(path, _) | Self::Removed(path)) = self;
        path
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Made(path, entry) => _ = names.insert(path.clone(), *entry),
            Self::Removed(path) => _ = names.remove(path),
        }
    }
}

/// What a name leads to: a folder, or the octets of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Folder,
    File(usize),
}

type Names = BTreeMap<PathBuf, Entry>;

#[derive(Debug, Default)]
struct State {
    files: Vec<Octets>,
    seen: Names,
    stored: Names,
    unsynchronised: Vec<NameChange>,
    /// Octets that there is room for. `None`: for any number.
    room: Option<usize>,
    /// Of a thousand operations so many fail.
    failing: u32,
    random: Option<Rng>,
    power_cuts: u32,
}

impl State {
    fn attempt(&mut self, of: u32) -> io::Result<()> {
        if self.power_cuts != of {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let fails = self.random.as_mut().is_some_and(|random| random.u32(..1_000) < self.failing);
        if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.seen);
        self.unsynchronised.push(change);
    }

    fn folder_of(&self, path: &Path) -> io::Result<()> {
        let is_there = path.parent().is_none_or(|folder| self.has_folder(folder));
        if is_there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn has_folder(&self, path: &Path) -> bool {
        let path = plain(path);
        path.parent().is_none() || self.seen.get(&path) == Some(&Entry::Folder)
    }

    fn take_room(&mut self, octets: usize) -> io::Result<()> {
        if let Some(room) = &mut self.room {
            *room = room.checked_sub(octets).ok_or(io::ErrorKind::StorageFull)?;
        }
        Ok(())
    }
}

/// A path without a separator at its end.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// The disk. The number says since which power cut it is used: its users from before it are as dead as their process.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>, u32);

impl SimulatedDisk {
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn attempt<R>(&self, act: impl FnOnce(&mut State) -> io::Result<R>) -> io::Result<R> {
        self.with(|state| state.attempt(self.1).and_then(|()| act(state)))
    }

    /// Has room for so many octets more, or for any number.
    pub(crate) fn set_room(&self, octets: Option<usize>) {
        self.with(|state| state.room = octets);
    }

    /// Of a thousand operations so many fail from now on, as the seed decides.
    pub(crate) fn set_failing(&self, per_mille: u32, seed: u64) {
        self.with(|state| (state.failing, state.random) = (per_mille, Some(Rng::with_seed(seed))));
    }

    /// Flips one bit of one of the files that there are. Says in which.
    pub(crate) fn flip_a_bit(&self, random: &mut Rng) -> Option<PathBuf> {
        self.with(|state| {
            let files = state.seen.iter().filter_map(|(path, entry)| match entry {
                Entry::File(number) if !state.files[*number].seen.is_empty() => Some((path.clone(), *number)),
                _ => None,
            });
            let (path, number) = random.choice(files.collect::<Vec<_>>())?;
            let file = &mut state.files[number];
            let (at, bit) = (random.usize(..file.seen.len()), 1 << random.u32(..8));
            file.seen[at] ^= bit;
            if let Some(octet) = file.stored.get_mut(at) {
                *octet ^= bit;
            }
            Some(path)
        })
    }

    /// Paths of all files that there are.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let is_file = |entry: &(&PathBuf, &Entry)| matches!(entry.1, Entry::File(_));
        self.with(|state| state.seen.iter().filter(is_file).map(|(path, _)| path.clone()).collect())
    }

    /// The process ends, and the system stays: all that was written is there for the next one.
    pub(crate) fn lose_process(&mut self) {
        self.1 = self.with(|state| {
            state.power_cuts += 1;
            (state.failing, state.room) = (0, None);
            state.power_cuts
        });
    }

    /// The power goes, and comes back: of what was not synchronised some is there, some is not, and some is there in part.
    pub(crate) fn lose_power(&mut self, random: &mut Rng) {
        self.lose_process();
        self.with(|state| {
            state.files.iter_mut().for_each(|file| file.lose_power(random));
            for change in std::mem::take(&mut state.unsynchronised) {
                if random.bool() {
                    change.apply(&mut state.stored);
                }
            }
            // What is in a folder that is not there is not there either.
            let names = std::mem::take(&mut state.stored);
            for (path, entry) in names {
                let parent = path.parent().filter(|parent| parent.parent().is_some());
                if parent.is_none_or(|parent| state.stored.contains_key(parent)) {
                    state.stored.insert(path, entry);
                }
            }
            state.seen.clone_from(&state.stored);
        });
    }
}

impl Files for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<()> {
        self.attempt(|state| {
            state.folder_of(path)?;
            state.take_room(1)?;
            match state.seen.get(path) {
                Some(Entry::Folder) => return Err(io::ErrorKind::IsADirectory.into()),
                Some(Entry::File(number)) => state.files[*number].resize(0),
                None => {
                    state.files.push(Octets::default());
                    state.change(NameChange::Made(path.into(), Entry::File(state.files.len() - 1)));
                }
            }
            Ok(())
        })
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn OpenFile>> {
        self.attempt(|state| match state.seen.get(path) {
            Some(Entry::File(number)) => {
                Ok(Box::new(SimulatedFile { disk: self.clone(), number: *number, access }) as Box<dyn OpenFile>)
            }
            Some(Entry::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.attempt(|state| match state.seen.get(path) {
            Some(Entry::File(_)) => {
                state.change(NameChange::Removed(path.into()));
                Ok(())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.attempt(|state| {
            let path = plain(path);
            state.folder_of(&path)?;
            if state.seen.contains_key(&path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.change(NameChange::Made(path, Entry::Folder));
            Ok(())
        })
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.attempt(|state| {
            if !state.has_folder(path) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let gone: Vec<PathBuf> = state.seen.keys().filter(|name| name.starts_with(path)).rev().cloned().collect();
            gone.into_iter().for_each(|name| state.change(NameChange::Removed(name)));
            Ok(())
        })
    }

    fn entries(&self, folder: &Path, kind: EntryKind) -> io::Result<Vec<PathBuf>> {
        self.attempt(|state| {
            if !state.has_folder(folder) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let folder = plain(folder);
            let is_its = |(path, entry): &(&PathBuf, &Entry)| {
                path.parent() == Some(&*folder) && (**entry == Entry::Folder) == (kind == EntryKind::Folder)
            };
            Ok(state.seen.iter().filter(is_its).map(|(path, _)| path.clone()).collect())
        })
    }

    fn has_folder(&self, path: &Path) -> bool {
        self.with(|state| state.has_folder(path))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.attempt(|state| {
            let folder = plain(path);
            let State { unsynchronised, stored, .. } = state;
            unsynchronised.retain(|change| {
                let is_its = change.path().parent() == Some(&*folder);
                if is_its {
                    change.apply(stored);
                }
                !is_its
            });
            Ok(())
        })
    }
}

/// A file of it.
struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
    access: Access,
}

impl SimulatedFile {
    /// What is read or written past the page cache is in whole blocks.
    fn check(&self, octets: &[u8], at: u64) -> io::Result<()> {
        let is_whole =
            [octets.len(), place(at), octets.as_ptr().addr()].iter().all(|place| place.is_multiple_of(BLOCK));
        if is_whole || !self.access.is_direct { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn attempt<R>(&self, act: impl FnOnce(&mut Octets) -> R) -> io::Result<R> {
        self.disk.attempt(|state| Ok(act(&mut state.files[self.number])))
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl OpenFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        self.attempt(|file| file.seen.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.check(into, at)?;
        self.attempt(|file| {
            let there = file.seen.get(place(at)..).unwrap_or_default();
            let count = there.len().min(into.len());
            into[..count].copy_from_slice(&there[..count]);
            count
        })
    }

    fn write_all_at(&self, octets: &[u8], at: u64) -> io::Result<()> {
        self.check(octets, at)?;
        assert!(self.access.writes, "it was opened to be read");
        self.disk.attempt(|state| {
            let (begins, file) = (place(at), &state.files[self.number]);
            let more = (begins + octets.len()).saturating_sub(file.seen.len());
            // On a full disk a part is written.
            let fits = state.room.filter(|room| *room < more).map(|room| octets.len() - more + room);
            state.files[self.number].write(begins, &octets[..fits.unwrap_or(octets.len())]);
            state.take_room(more)
        })
    }

    fn set_length(&self, octets: u64) -> io::Result<()> {
        self.attempt(|file| file.resize(place(octets)))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.with(|state| {
            let attempted = state.attempt(self.disk.1);
            let file = &mut state.files[self.number];
            match &attempted {
                Ok(()) => file.synchronise(),
                Err(error) if error.raw_os_error().is_some() => file.synchronise_in_vain(),
                Err(_) => {}
            }
            attempted
        })
    }
}

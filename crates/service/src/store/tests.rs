//! The store on a medium that forgets what was not synchronised, tears writes, and fails.

mod dead_letters;
mod events;
mod failures;
mod full;
mod salvage;

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use core::num::NonZeroU64;

use engine::{ChannelId, Draft, Event, ProxyId, ProxyKey, Settled};
use redb::StorageBackend;
use testing::wait_until;

use super::journal::{FromStore, Posting, ToStore, Unkept};
use super::*;
use crate::counters::Counters;
use crate::lane::links::mail::LaneThread;

/// What was asked of a medium since it was synchronised last.
#[derive(Clone, Debug)]
enum Unsynchronised {
    Written(usize, Vec<u8>),
    Resized(usize),
}

/// A medium: what a reader sees, what is left when the power goes, and what may be, in any part.
#[derive(Debug, Default)]
struct State {
    seen: Vec<u8>,
    kept: Vec<u8>,
    unsynchronised: Vec<Unsynchronised>,
    /// Operations until all fail.
    left: Option<u32>,
    /// Synchronisations until one fails: as the kernel does it, which forgets what that was to write and shows it to readers.
    syncs_left: Option<u32>,
    power_cuts: u32,
    /// How often it was asked how large it is.
    asked: u32,
    /// Where blocks are few.
    disk: Option<full::Blocks>,
}

/// The number says since which power cut it is used: users from before it are as dead as the process was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Medium(Arc<Mutex<State>>, u32);

fn apply(to: &mut Vec<u8>, change: &Unsynchronised) {
    match change {
        Unsynchronised::Written(at, octets) => {
            let end = at + octets.len();
            to.resize(to.len().max(end), 0);
            to[*at..end].copy_from_slice(octets);
        }
        Unsynchronised::Resized(len) => to.resize(*len, 0),
    }
}

fn limits(event_bytes_max: u64) -> StoreLimits {
    let dead_letters = DeadLetterLimits { events_max: 3, bytes_max: 1 << 20 };
    StoreLimits { event_bytes_max, disk_bytes_max: 1 << 40, sync_interval: Duration::ZERO, dead_letters }
}

impl Medium {
    /// What is configured on it.
    pub(crate) fn image(&self) -> corba::Image {
        let opened = self.clone();
        Disk::on(move || opened.clone()).unwrap().image().unwrap()
    }

    /// A store on it.
    pub(crate) fn store(&self, bell: &Arc<Bell>, counters: &Counters) -> Store {
        let opened = self.clone();
        let disk = Disk::on(move || opened.clone()).unwrap();
        let options = StoreOptions {
            bell,
            counters: counters.of_store(),
            origin: time::now(),
            next: 1,
            channels: &[],
            limits: limits(1 << 30),
        };
        // Dropped at once, since there are no lanes.
        let (store, _) = Store::start(disk, options).unwrap();
        store
    }

    /// A store on it as a lane sees it, and the events that were there.
    fn lane(&self, event_bytes_max: u64) -> Lane {
        self.limited(limits(event_bytes_max)).with_all()
    }

    fn limited(&self, limits: StoreLimits) -> Lane {
        let opened = self.clone();
        let disk = Disk::in_room(move || opened.clone(), self.blocks()).unwrap();
        Self::lane_on(disk, limits)
    }

    fn lane_on(mut disk: Disk, limits: StoreLimits) -> Lane {
        let (_, next) = disk.events().unwrap();
        let (bell, counters) = (Arc::new(Bell::new().unwrap()), Counters::new(1));
        let channels = &[SOURCE.channel];
        let options =
            StoreOptions { bell: &bell, counters: counters.of_store(), origin: time::now(), next, channels, limits };
        let (store, mut reception) = Store::start(disk, options).unwrap();
        let (link, seat) = journal::link(LaneThread::MAIN, &bell, &mut reception);
        reception.introductions.post(seat).ok().unwrap();
        Lane { store, link, restored: Vec::new(), counters, _reception: reception }
    }

    /// What is left of it if the power went now.
    fn kept(&self) -> Self {
        let kept = self.with(|state| state.kept.clone());
        Self(Arc::new(Mutex::new(State { seen: kept.clone(), kept, ..State::default() })), 0)
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same for something that can fail.
    fn attempt<R>(&self, act: impl FnOnce(&mut State) -> R) -> Result<R, io::Error> {
        self.with(|state| {
            if state.power_cuts != self.1 {
                return Err(io::ErrorKind::NotConnected.into());
            }
            match &mut state.left {
                Some(0) => return Err(io::ErrorKind::StorageFull.into()),
                Some(left) => *left -= 1,
                None => {}
            }
            Ok(act(state))
        })
    }

    /// A page that a write begins to use takes a block of the disk that the medium is on, if it is on one.
    fn take_blocks(state: &mut State, from: usize, to: usize) -> io::Result<()> {
        let Some(disk) = &mut state.disk else { return Ok(()) };
        let missing: Vec<usize> =
            (from / full::PAGE..to.div_ceil(full::PAGE)).filter(|page| !disk.taken.contains(page)).collect();
        if missing.len() > disk.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.taken.extend(missing);
        Ok(())
    }

    fn change(state: &mut State, change: Unsynchronised) {
        apply(&mut state.seen, &change);
        state.unsynchronised.push(change);
    }

    /// Has all operations fail, but so many first.
    pub(crate) fn fail_after(&self, operations: Option<u32>) {
        self.with(|state| state.left = operations);
    }

    /// The power goes, and comes back: of what was not synchronised some is there, some is not, and some is there in part.
    fn lose_power(&mut self, random: &mut fastrand::Rng) {
        self.1 = self.with(|state| {
            state.power_cuts += 1;
            for change in std::mem::take(&mut state.unsynchronised) {
                match (random.u32(..3), change) {
                    (0, change) => apply(&mut state.kept, &change),
                    (1, Unsynchronised::Written(at, octets)) => {
                        let torn = octets[..random.usize(..=octets.len())].to_vec();
                        apply(&mut state.kept, &Unsynchronised::Written(at, torn));
                    }
                    _ => {}
                }
            }
            state.seen.clone_from(&state.kept);
            state.left = None;
            state.power_cuts
        });
    }
}

/// An event that was there when the store began.
struct Restored {
    number: u64,
    consumers: Option<Arc<[ProxyId]>>,
    record: Vec<u8>,
}

/// A lane that has a store.
struct Lane {
    store: Store,
    link: journal::Link,
    restored: Vec<Restored>,
    counters: Counters,
    _reception: Reception,
}

const SOURCE: ProxyKey = ProxyKey { channel: ChannelId(3), proxy: ProxyId(5) };

fn draft(source: ProxyKey, octets: Vec<u8>) -> Draft {
    let mut draft = Draft::default();
    let event: &mut Event = &mut draft;
    (event.source, event.bytes) = (source, octets);
    draft
}

impl Lane {
    /// Takes the next piece of what there was when the store began. Nothing if there is no more.
    fn take_piece(&mut self) -> bool {
        self.take_piece_within(testing::PATIENCE)
    }

    fn take_piece_within(&mut self, limit: Duration) -> bool {
        let Some(Ok(piece)) = self.link.restored.as_ref().map(|pieces| pieces.recv_timeout(limit)) else {
            return false;
        };
        piece.each(|number, consumers, record| {
            self.restored.push(Restored { number, consumers, record: record.to_vec() });
        });
        true
    }

    /// Takes all of it.
    fn with_all(mut self) -> Self {
        while self.take_piece() {}
        self
    }

    /// Has an event kept.
    fn post(&mut self, octets: Vec<u8>) {
        self.post_from(SOURCE, octets);
    }

    fn post_from(&mut self, source: ProxyKey, octets: Vec<u8>) {
        let draft = draft(source, octets);
        self.link.letters.post(ToStore::Event(Posting { draft, posting: 0, is_awaited: false })).ok().unwrap();
    }

    fn tell(&mut self, settled: Settled) {
        self.link.letters.post(ToStore::Settled(settled)).ok().unwrap();
    }

    /// What became of the event that was posted first and not answered yet: its number, if it is kept.
    fn answer(&mut self) -> Result<NonZeroU64, Unkept> {
        let mut answer = None;
        wait_until("the store to answer", || {
            answer = self.link.answers.take();
            answer.is_some()
        });
        match answer.unwrap() {
            FromStore::Kept(draft, _) => Ok(draft.watch.unwrap()),
            FromStore::Settled(_) | FromStore::Again(_) => panic!("nobody asked for it"),
            FromStore::NotKept(draft, _, why) => {
                assert_eq!((draft.watch, draft.watch_each), (None, false));
                Err(why)
            }
        }
    }

    /// All have an event.
    fn settle(&mut self, watch: NonZeroU64) {
        self.tell(Settled::Begun { watch, bridges: 0 });
        self.tell(Settled::ForAll { watch });
    }

    fn end(self) {
        let Self { store, link, _reception, .. } = self;
        drop((link, _reception));
        store.end();
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl StorageBackend for Medium {
    fn len(&self) -> Result<u64, io::Error> {
        self.attempt(|state| {
            state.asked += 1;
            state.seen.len() as u64
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.attempt(|state| out.copy_from_slice(&state.seen[place(offset)..][..out.len()]))
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.attempt(|state| {
            if let Some(disk) = &mut state.disk {
                drop(disk.taken.split_off(&place(len).div_ceil(full::PAGE)));
            }
            Self::change(state, Unsynchronised::Resized(place(len)));
        })
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.attempt(|state| {
            let unsynchronised = std::mem::take(&mut state.unsynchronised);
            if let Some(left) = &mut state.syncs_left {
                if *left == 0 {
                    state.syncs_left = None;
                    return Err(io::Error::from_raw_os_error(5));
                }
                *left -= 1;
            }
            unsynchronised.iter().for_each(|change| apply(&mut state.kept, change));
            Ok(())
        })?
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.attempt(|state| {
            Self::take_blocks(state, place(offset), place(offset) + data.len())?;
            Self::change(state, Unsynchronised::Written(place(offset), data.to_vec()));
            Ok(())
        })?
    }
}

//! The store on a block device that forgets what was not synchronised, tears writes, and fails.

mod dead_letters;
mod events;
mod failures;
mod full;
mod origins;
mod salvage;

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use core::num::NonZeroU64;

use engine::{ChannelId, Completion, Event, PendingEvent, ProxyId, ProxyKey};
use redb::StorageBackend;
use testing::wait_until;

use super::journal::{FromStore, Posting, StoreRefusal, ToStore};
use super::*;
use crate::counters::Counters;
use crate::lane::links::messages::LaneThread;
use crate::simulation::disk::Octets;

/// A block device.
#[derive(Debug, Default)]
struct State {
    octets: Octets,
    /// Operations until all fail.
    left: Option<u32>,
    /// Synchronisations until one fails: as the kernel does it, which forgets what that was to write and shows it to readers.
    syncs_left: Option<u32>,
    /// Synchronisations until one writes everything and fails nevertheless.
    late_in: Option<u32>,
    power_cuts: u32,
    /// How often it was asked how large it is.
    size_queries: u32,
    /// Where blocks are few.
    disk: Option<full::Blocks>,
}

/// The number says since which power cut it is used: users from before it are as dead as the process was.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDevice(Arc<Mutex<State>>, u32);

fn limits(event_bytes_max: u64) -> StoreLimits {
    let dead_letters = DeadLetterLimits { events_max: 3, bytes_max: 1 << 20 };
    StoreLimits { event_bytes_max, disk_bytes_max: 1 << 40, sync_interval: Duration::ZERO, dead_letters }
}

impl SimulatedDevice {
    /// What is configured on it.
    pub(crate) fn image(&self) -> corba::Image {
        let opened = self.clone();
        Disk::on(move || opened.clone()).unwrap().image().unwrap()
    }

    /// A store on it.
    pub(crate) fn store(&self, waker: &Arc<Waker>, counters: &Counters) -> Store {
        let opened = self.clone();
        let disk = Disk::on(move || opened.clone()).unwrap();
        let options = StoreOptions {
            waker,
            counters: counters.of_store(),
            origin: time::now(),
            next: 1,
            origins: &[],
            service: OWN,
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
        let ((_, next), origins) = (disk.events().unwrap(), disk.origins_seen().unwrap());
        let (waker, counters) = (Arc::new(Waker::new().unwrap()), Counters::new(1));
        let channels = &[SOURCE.channel];
        let options = StoreOptions {
            waker: &waker,
            counters: counters.of_store(),
            origin: time::now(),
            next,
            origins: &origins,
            service: OWN,
            channels,
            limits,
        };
        let (store, mut reception) = Store::start(disk, options).unwrap();
        let (link, slot) = journal::link(LaneThread::MAIN, &waker, &mut reception);
        reception.introductions.send(slot).ok().unwrap();
        Lane { store, link, restored: Vec::new(), counters, _reception: reception }
    }

    /// What is left of it if the power went now.
    fn stored(&self) -> Self {
        let octets = Octets::of(self.with(|state| state.octets.stored.clone()));
        Self(Arc::new(Mutex::new(State { octets, ..State::default() })), 0)
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

    /// A page that a write begins to use takes a block of the disk that the block device is on, if it is on one.
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

    /// Has all operations fail, but so many first.
    pub(crate) fn fail_after(&self, operations: Option<u32>) {
        self.with(|state| state.left = operations);
    }

    /// The process ends, and the system stays: all that was written is there for the next one.
    pub(crate) fn lose_process(&mut self) {
        self.1 = self.with(|state| {
            state.power_cuts += 1;
            state.power_cuts
        });
    }

    /// The power goes, and comes back: of what was not synchronised some is there, some is not, and some is there in part.
    pub(crate) fn lose_power(&mut self, random: &mut fastrand::Rng) {
        self.1 = self.with(|state| {
            state.power_cuts += 1;
            state.octets.lose_power(random);
            (state.left, state.late_in) = (None, None);
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

/// The service that has the store.
const OWN: u64 = 1;

const SOURCE: ProxyKey = ProxyKey { channel: ChannelId(3), proxy: ProxyId(5) };

pub(crate) fn pending_event(source: ProxyKey, octets: Vec<u8>) -> PendingEvent {
    let mut pending_event = PendingEvent::default();
    let event: &mut Event = &mut pending_event;
    (event.source, event.bytes) = (source, octets);
    pending_event
}

impl Lane {
    /// Takes the next piece of what there was when the store began. Nothing if there is no more.
    fn take_chunk(&mut self) -> bool {
        self.take_chunk_within(testing::PATIENCE)
    }

    fn take_chunk_within(&mut self, limit: Duration) -> bool {
        let Some(Ok(chunk)) = self.link.restored.as_ref().map(|chunks| chunks.recv_timeout(limit)) else {
            return false;
        };
        chunk.each(|number, consumers, record| {
            self.restored.push(Restored { number, consumers, record: record.to_vec() });
        });
        true
    }

    /// Takes all of it.
    fn with_all(mut self) -> Self {
        while self.take_chunk() {}
        self
    }

    /// Has an event kept.
    fn send(&mut self, octets: Vec<u8>) {
        self.send_from(SOURCE, octets);
    }

    fn send_from(&mut self, source: ProxyKey, octets: Vec<u8>) {
        self.send_event(pending_event(source, octets));
    }

    fn send_event(&mut self, pending_event: PendingEvent) {
        self.link.messages.send(ToStore::Event(Posting { pending_event, posting: 0, is_awaited: false })).ok().unwrap();
    }

    fn tell(&mut self, completed: Completion) {
        self.link.messages.send(ToStore::Completion(completed)).ok().unwrap();
    }

    /// What became of the event that was posted first and not answered yet: its number, if it is kept.
    fn answer(&mut self) -> Result<NonZeroU64, StoreRefusal> {
        let mut answer = None;
        wait_until("the store to answer", || {
            answer = self.link.answers.take();
            answer.is_some()
        });
        match answer.unwrap() {
            FromStore::Stored(pending_event, _) => Ok(pending_event.watch.unwrap()),
            FromStore::Completion(_) | FromStore::Again(_) => panic!("no consumer requested it"),
            FromStore::NotStored(pending_event, _, why) => {
                assert_eq!((pending_event.watch, pending_event.watch_each), (None, false));
                Err(why)
            }
        }
    }

    /// All have an event.
    fn complete(&mut self, watch: NonZeroU64) {
        self.tell(Completion::Begun { watch, bridges: 0 });
        self.tell(Completion::ForAll { watch });
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

impl StorageBackend for SimulatedDevice {
    fn len(&self) -> Result<u64, io::Error> {
        self.attempt(|state| {
            state.size_queries += 1;
            state.octets.seen.len() as u64
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.attempt(|state| out.copy_from_slice(&state.octets.seen[place(offset)..][..out.len()]))
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.attempt(|state| {
            if let Some(disk) = &mut state.disk {
                drop(disk.taken.split_off(&place(len).div_ceil(full::PAGE)));
            }
            state.octets.resize(place(len));
        })
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.attempt(|state| {
            if let Some(left) = &mut state.syncs_left {
                if *left == 0 {
                    state.syncs_left = None;
                    state.octets.synchronise_in_vain();
                    return Err(io::Error::from_raw_os_error(5));
                }
                *left -= 1;
            }
            state.octets.synchronise();
            match state.late_in.take() {
                Some(0) => return Err(io::Error::from_raw_os_error(5)),
                left => state.late_in = left.map(|left| left - 1),
            }
            Ok(())
        })?
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.attempt(|state| {
            Self::take_blocks(state, place(offset), place(offset) + data.len())?;
            state.octets.write(place(offset), data);
            Ok(())
        })?
    }
}

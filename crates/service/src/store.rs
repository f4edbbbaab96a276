//! The store on disk: the topology's image, and persistent events, both of which outlive the process.
//!
//! A thread of its own writes it, so that neither lanes nor administration wait for a disk. Whatever arrives during a write is written in
//! the next batch, and each batch is on the disk as a whole or not at all. While the disk fails, configuration changes are retried each
//! second, so that only time is lost; events are given back, and their suppliers get an error. On a full disk only events are refused: all
//! other writes use the reserved room.

mod block_device;
mod copy_on_write;
pub(crate) mod dead_letters;
mod disk;
mod fullness;
pub(crate) mod journal;
pub(crate) mod origins;
pub(crate) mod record;
pub(crate) mod replication;
pub(crate) mod requests;
mod room;
pub(crate) mod salvage;
pub(crate) mod stored;
mod target;

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use corba::StoredPart;
use corba::event::UtcClock;
use engine::{ChannelId, Time};

use self::copy_on_write::CopyOnWriteFile;
use self::dead_letters::DeadLetterLimits;
use self::disk::Phases;
pub(crate) use self::disk::{Disk, StoreError, disk_file};
use self::fullness::Fullness;
use self::journal::{Chunk, Journal, Slot};
use self::origins::{SeenOrigin, SeenOrigins};
use self::record::Record;
use self::requests::{Counterpart, StoreDesk};
use crate::counters::{Block, Counter};
use crate::lane::io::net::Waker;
use crate::lane::links::mailbox::{Mailbox, mailbox};
use crate::log::Attempts;
use crate::standby::shipping::Shipping;
use crate::time;

/// Changes by key: the new value, or `None` to remove the old one.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Interval between attempts to post to a lane with a full mailbox.
const ROOM_IN: Duration = Duration::from_millis(2);
/// Maximum time that the end of the service waits for the disk.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Octets of events written between two queries of the file's size. It is not queried with each batch: after a query the kernel records the
/// time of the next change anew (multigrain timestamps, Linux 6.13), which a file system without a journal writes with the next
/// synchronisation, in a request of its own.
const UNLOOKED_MAX: u64 = 1 << 20;
/// Maximum chunks of stored events that the main lane has yet to take in at the start.
const CHUNKS_AHEAD: usize = 2;
/// Maximum lanes not yet introduced to the store.
const INTRODUCTIONS: usize = 256;

/// The number of a batch, and its changes.
type Changed = (u64, Changes);

/// The contents of a store at the start.
pub(crate) struct Found {
    pub(crate) directory: PathBuf,
    pub(crate) disk: Disk,
    pub(crate) image: corba::Image,
    /// The number of events, and the number behind the last one's.
    pub(crate) events: (u64, u64),
    /// Origins of events from other services, each with the number of its event.
    pub(crate) origins: Vec<(u64, SeenOrigin)>,
    /// This service's number, by which other services know it.
    pub(crate) service: u64,
    /// Where the store has a follower, or has had one: what ships its batches.
    pub(crate) shipping: Option<Arc<Shipping>>,
}

/// Opens a store, and reads its configuration.
pub(crate) fn open(directory: &Path) -> Result<Found, StoreError> {
    let mut disk = open_when_nothing_looks(directory)?;
    let image = disk.image()?;
    let (events, origins, service) = (disk.events()?, disk.origins_seen()?, disk.service()?);
    Ok(Found { directory: directory.into(), disk, image, events, origins, service, shipping: None })
}

/// Maximum time that a start waits for programs that read the store, such as `campanile store show`, and how many of them it waits for.
const LOOKED_AT_FOR: Duration = Duration::from_secs(60);
const LOOKERS_MAX: usize = 8;

fn open_when_nothing_looks(directory: &Path) -> Result<Disk, StoreError> {
    let mut left = LOOKERS_MAX;
    loop {
        match Disk::open(directory) {
            Err(StoreError::InUse) if left > 0 => left -= 1,
            opened => return opened,
        }
        if !CopyOnWriteFile::wait_for_lookers(&directory.join(disk::FILE), LOOKED_AT_FOR).map_err(StoreError::Folder)? {
            return Err(StoreError::InUse);
        }
    }
}

/// Whether the store's own file is in a folder: where its disk was unmounted, the mount point may be an empty folder.
pub(crate) fn is_in(directory: &Path) -> bool {
    block_device::is_there(&directory.join(disk::FILE))
}

/// The parameters of a store, beside its disk.
pub(crate) struct StoreOptions<'o> {
    /// The waker of the thread that waits for changes to be written.
    pub(crate) waker: &'o Arc<Waker>,
    pub(crate) counters: Arc<Block>,
    /// The zero of the lanes' clocks.
    pub(crate) origin: Instant,
    /// The number behind that of the last stored event.
    pub(crate) next: u64,
    /// Stored origins of events from other services, each with the number of its event.
    pub(crate) origins: &'o [(u64, SeenOrigin)],
    /// This service's number.
    pub(crate) service: u64,
    /// The existing channels.
    pub(crate) channels: &'o [ChannelId],
    pub(crate) limits: StoreLimits,
}

/// The limits of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreLimits {
    /// Maximum octets of events.
    pub(crate) event_bytes_max: u64,
    /// Maximum octets on disk.
    pub(crate) disk_bytes_max: u64,
    /// Minimum interval between two synchronisations.
    pub(crate) sync_interval: Duration,
    /// Limits of each channel's dead letters.
    pub(crate) dead_letters: DeadLetterLimits,
}

/// A handle of the store's thread.
pub(crate) struct Store {
    batches: Sender<Changed>,
    /// The number of the last batch of changes on the disk.
    written: Arc<AtomicU64>,
    /// Whether nothing more is written, since another leader has taken over.
    is_over: Arc<AtomicBool>,
    handed: u64,
    thread: JoinHandle<()>,
    /// The waiting thread's waker, and the store thread's own.
    waiting: Arc<Waker>,
    waker: Arc<Waker>,
}

/// The store's end point for the introduction of lanes.
pub(crate) struct Reception {
    pub(crate) waker: Arc<Waker>,
    pub(crate) introductions: Mailbox<Slot>,
    /// The stored events, for the main lane.
    pub(crate) restored: Option<Receiver<Chunk>>,
    /// Origins of events from other services, for the main lane, in the order in which they were written.
    pub(crate) origins_seen: Vec<SeenOrigin>,
    /// Requests about dead letters, for administration.
    pub(crate) desk: Option<StoreDesk>,
}

impl Store {
    /// Starts the thread.
    pub(crate) fn start(disk: Disk, options: StoreOptions<'_>) -> io::Result<(Self, Reception)> {
        let StoreOptions { waker: waiting, counters, origin, next, origins, service, channels, limits } = options;
        // Origins outlast their events, and are known by the numbers of these.
        let next = next.max(origins.last().map_or(0, |(event, _)| event + 1));
        let (batches, handed) = channel();
        let (written, is_over) = (Arc::new(AtomicU64::new(0)), Arc::default());
        let waker = Arc::new(Waker::new()?);
        let (introductions, introduced) = mailbox(&waker, INTRODUCTIONS);
        let (to_lane, restored) = sync_channel(CHUNKS_AHEAD);
        let (for_administration, desk) = requests::desk(&waker);
        let mut writer = Writer {
            disk,
            handed,
            changes: Changes::new(),
            number: 0,
            written: Arc::clone(&written),
            is_over: Arc::clone(&is_over),
            journal: Journal::new(introduced, next, (limits.event_bytes_max, limits.dead_letters)),
            origins: SeenOrigins::new(service, origins, |channel| channels.contains(&channel)),
            channels: channels.to_vec(),
            desk,
            limits,
            waiting: Arc::clone(waiting),
            waker: Arc::clone(&waker),
            origin,
            tidied_at: time::now(),
            written_at: time::now(),
            unlooked: 0,
            gathering: None,
            is_behind: false,
            attempts: Attempts::default(),
            role_attempts: Attempts::default(),
            fullness: Fullness::default(),
            ending: None,
            record: Vec::new(),
            counters,
        };
        writer.look_at_disk();
        let begin = move || {
            writer.restore(&to_lane);
            writer
        };
        #[cfg(test)]
        let begin = crate::simulation::take_store(begin);
        #[cfg(not(test))]
        let begin = Some(begin);
        let thread = Builder::new().name("store".into()).spawn(move || begin.into_iter().for_each(|it| it().run()))?;
        let (waiting, of_store) = (Arc::clone(waiting), Arc::clone(&waker));
        let store = Self { batches, written, is_over, handed: 0, thread, waiting, waker: of_store };
        let origins_seen = origins.iter().map(|(_, origin)| *origin).collect();
        let desk = Some(for_administration);
        Ok((store, Reception { waker, introductions, restored: Some(restored), origins_seen, desk }))
    }

    /// The number of the last batch on the disk.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether all changes are written.
    pub(crate) fn is_free(&self) -> bool {
        self.written() >= self.handed
    }

    /// Hands over a batch of changes to write. Its number is greater than those before.
    pub(crate) fn write(&mut self, number: u64, changes: Changes) {
        self.handed = number;
        // The thread ends when this is dropped, and not before.
        let _ = self.batches.send((number, changes));
        self.waker.notify();
    }

    /// Waits until all changes are on the disk, at most [`ENDS_WITHIN`]. Returns the number of the last batch on the disk.
    pub(crate) fn wait(&self) -> u64 {
        let began = time::now();
        let may_be_written = || !self.thread.is_finished() && !self.is_over.load(Ordering::Relaxed);
        while !self.is_free() && may_be_written() && time::since(began) < ENDS_WITHIN {
            self.waiting.wait(Some(Duration::from_millis(20)));
        }
        self.written()
    }

    /// Waits for the end of the thread, at most [`ENDS_WITHIN`]. Called once the lanes have ended.
    pub(crate) fn end(self) {
        let Self { batches, thread, waker, waiting, .. } = self;
        drop(batches);
        waker.notify();
        let began = time::now();
        while !thread.is_finished() && time::since(began) < ENDS_WITHIN {
            waiting.wait(Some(Duration::from_millis(20)));
        }
    }
}

/// The state of the store's thread.
pub(crate) struct Writer {
    disk: Disk,
    handed: Receiver<Changed>,
    /// Configuration changes to write, and the number of their last batch.
    changes: Changes,
    number: u64,
    written: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    journal: Journal,
    origins: SeenOrigins,
    /// The channels that existed at the start.
    channels: Vec<ChannelId>,
    desk: Counterpart,
    limits: StoreLimits,
    waiting: Arc<Waker>,
    pub(crate) waker: Arc<Waker>,
    origin: Instant,
    /// Failed attempts since the last success.
    attempts: Attempts,
    /// Those of the record of another role in a pair of machines.
    role_attempts: Attempts,
    fullness: Fullness,
    /// When the end of the service began, after which only pending writes are left.
    ending: Option<Instant>,
    /// Time of the last write of bookkeeping that no thread waits for: lists of unconfirmed consumers, and removals of events. Writing it
    /// with each batch of events takes twice the pages.
    tidied_at: Instant,
    /// Time of the last synchronisation.
    written_at: Instant,
    /// Octets written since the file's size was queried.
    unlooked: u64,
    gathering: Option<Gathering>,
    /// Whether a lane's mailbox is full.
    is_behind: bool,
    /// A buffer for encoded records.
    record: Vec<u8>,
    counters: Arc<Block>,
}

/// A wait after a batch of events. Suppliers that were acknowledged push their next events before long, and one batch of all of these costs
/// hardly more than a batch of the first.
struct Gathering {
    /// Number of acknowledged events.
    answered: usize,
    /// End of the wait: at most half the time that the batch took.
    until: Instant,
}

/// Number of pending events at which a batch waits for no more: its fixed cost is then small in comparison.
const ENOUGH: usize = 128;

impl Gathering {
    /// The number of further events to wait for, and the time left; `None` to wait no longer. Of the `awaited` events, `before` were posted
    /// before the acknowledgements; the others are those of acknowledged suppliers, and are not expected twice. A single supplier is not
    /// waited for, as it wakes the store itself.
    fn waits(&self, awaited: usize, before: usize) -> Option<(usize, Duration)> {
        let expected = (self.answered + before).min(ENOUGH);
        let left = self.until.saturating_duration_since(time::now());
        let missing = expected.saturating_sub(awaited);
        (missing > 0 && expected > 1 && !left.is_zero()).then_some((missing, left))
    }
}

impl Writer {
    /// Hands the stored events to the main lane, a chunk at a time, before anything else is written. A failed read is tried again as long
    /// as the receiver exists: the lane takes in nothing else before.
    fn restore(&mut self, to: &SyncSender<Chunk>) {
        let mut from = 0;
        while let Err(error) = self.read_events(&mut from, to) {
            self.counters.add(Counter::StoreFailures, 1);
            if self.attempts.fail() {
                log::error!(
                    "store: {error}; the events that it has cannot be read, and no client is served before they are: it is tried each \
                     second"
                );
            }
            while let Some(left) = self.attempts.due_in().filter(|left| !left.is_zero()) {
                self.journal.look();
                if self.receive() {
                    return;
                }
                self.waker.wait(Some(left));
            }
        }
        if self.attempts.succeed() {
            log::warn!("store: it can be read again, and nothing was lost");
        }
        let Self { journal, channels, .. } = self;
        journal.trim_dead_letters(|channel| channels.contains(&channel));
        self.count_dead_letters();
        self.fullness.note_bytes(self.journal.bytes_on_device());
    }

    /// Hands over the events from a number on, and sets `from` to the next number. Confirmations of earlier events are received meanwhile.
    fn read_events(&mut self, from: &mut u64, to: &SyncSender<Chunk>) -> Result<(), StoreError> {
        let Self { disk, journal, .. } = self;
        let mut chunk = Chunk::default();
        let hand_over = |journal: &mut Journal, chunk: Chunk| {
            let is_taken = chunk.is_empty() || to.send(chunk).is_ok();
            journal.look();
            journal.receive();
            // A lane that has ended takes no chunk.
            if is_taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let told = disk.each_event(*from, |number, consumers, record| {
            let channel = consumers.and_then(|_| Record::read(record)).map(|record| record.source.channel);
            if journal.restore(number, record.len(), consumers, channel) {
                chunk.push(number, consumers, record);
            }
            *from = number + 1;
            if chunk.is_full() { hand_over(journal, core::mem::take(&mut chunk)) } else { ControlFlow::Continue(()) }
        });
        // Events read before a failure are valid.
        let _ = hand_over(journal, chunk);
        told
    }

    fn run(mut self) {
        while self.live() {}
        self.waiting.notify();
    }

    /// Performs one round: writes what is due, or waits. False at the end.
    pub(crate) fn live(&mut self) -> bool {
        self.journal.look();
        let has_ended = self.receive() && self.journal.has_ended();
        self.serve_request();
        self.serve_replication();
        self.look_for_room();
        if self.has_just_failed() || self.fullness.is_full() {
            // An attempt to write would have to read the whole database first.
            self.refuse();
        }
        self.is_behind = self.journal.send_answers();
        let spares = !has_ended && self.spared_for().is_some();
        let (awaited, before) = (self.journal.awaited(), self.journal.posted_before_answers());
        if !spares
            && !has_ended
            && let Some((missing, left)) =
                self.gathering.as_ref().and_then(|gathering| gathering.waits(awaited, before))
        {
            // A wake-up for each event would take the processor from the awaited threads.
            self.journal.wait_for(missing);
            self.waker.wait(Some(left));
            return true;
        }
        if !spares && (self.journal.is_awaited() || self.is_due(has_ended)) {
            self.write(has_ended);
            return true;
        }
        if has_ended {
            let began = *self.ending.get_or_insert_with(time::now);
            if !self.has_some() || self.disk.is_superseded() || time::since(began) >= ENDS_WITHIN {
                return false;
            }
        }
        self.waker.wait(self.patience());
        true
    }

    /// Stores another role, and gives a snapshot, if replication needs one.
    fn serve_replication(&mut self) {
        if self.role_attempts.is_due() {
            match self.disk.record_role() {
                Ok(()) => _ = self.role_attempts.succeed(),
                Err(error) => {
                    self.counters.add(Counter::StoreFailures, 1);
                    if self.role_attempts.fail() {
                        log::error!("store: {error}; the change of roles is not on the disk, and is tried each second");
                    }
                }
            }
        }
        if self.disk.is_superseded() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.disk.give_snapshot();
    }

    /// Refuses all pending events and replays.
    fn refuse(&mut self) {
        let refused = self.journal.refuse();
        self.decline_replays();
        self.counters.add(Counter::EventsNotStored, refused);
        self.fullness.note_refused(refused);
    }

    /// Checks a full disk for room.
    fn look_for_room(&mut self) {
        if self.fullness.looks_in().is_none() || self.has_just_failed() {
            return;
        }
        if self.fullness.look(self.journal.bytes_on_device(), self.disk.room()) {
            if let Err(error) = self.disk.compact() {
                self.counters.add(Counter::StoreFailures, 1);
                log::warn!(
                    "store: its file cannot be made smaller: {error}; it is tried again when a quarter of what it has is gone"
                );
            }
            self.fullness.note_compacted(self.journal.bytes_on_device());
        }
        self.counters.set(Counter::StoreFull, self.fullness.is_full().into());
    }

    /// Refuses events for which the disk has no room, before the database begins a write.
    fn refuse_what_has_no_room(&mut self) {
        if Fullness::has_room(self.journal.bytes_to_keep(), self.disk.room()) {
            return;
        }
        // Large events first: otherwise their supplier would have all others' events refused.
        let large = self.journal.refuse_larger(fullness::SOUGHT_BYTES);
        if large > 0 {
            self.counters.add(Counter::EventsNotStored, large);
            self.fullness.note_large();
            if Fullness::has_room(self.journal.bytes_to_keep(), self.disk.room()) {
                return;
            }
        }
        self.fullness.begin();
        self.counters.set(Counter::StoreFull, 1);
        self.refuse();
    }

    /// Takes messages from lanes and administration. True if administration has ended.
    fn receive(&mut self) -> bool {
        self.journal.receive();
        for origin in self.journal.take_not_taken() {
            self.origins.forget(origin);
        }
        loop {
            match self.handed.try_recv() {
                Ok((number, changes)) => {
                    self.number = number;
                    self.note_gone_channels(&changes);
                    self.changes.extend(changes);
                }
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
    }

    /// Removes the dead letters and origins of removed channels.
    fn note_gone_channels(&mut self, changes: &Changes) {
        if self.journal.dead_letters().count() == 0 && self.origins.count() == 0 {
            return;
        }
        for key in changes.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key) {
            if let Some(StoredPart::Channel(channel)) = StoredPart::of_key(key) {
                self.journal.drop_dead_letters(ChannelId(channel));
                self.origins.drop_channel(ChannelId(channel));
            }
        }
    }

    /// Updates the counters of dead letters.
    fn count_dead_letters(&mut self) {
        self.counters.add(Counter::DeadLettersDropped, self.journal.take_dead_dropped());
        self.counters.set(Counter::DeadLettersStored, self.journal.dead_letters().count());
    }

    fn has_some(&self) -> bool {
        !self.changes.is_empty() || self.has_bookkeeping() || self.journal.is_awaited()
    }

    /// Whether there are writes that no thread waits for.
    fn has_bookkeeping(&self) -> bool {
        self.journal.has_some() || self.origins.has_gone()
    }

    /// Whether a write is due that no event waits for.
    fn is_due(&self, has_ended: bool) -> bool {
        if self.has_just_failed() {
            return false;
        }
        !self.changes.is_empty() || self.desk.is_waiting() || (self.has_bookkeeping() && self.is_late(has_ended))
    }

    /// Whether an attempt has failed and the next is not due yet.
    fn has_just_failed(&self) -> bool {
        !self.attempts.is_due()
    }

    /// Whether bookkeeping that no thread waits for has been pending long enough.
    fn is_late(&self, has_ended: bool) -> bool {
        // On a full disk little is removed at a time, and the next batch follows at once.
        has_ended
            || self.desk.is_waiting()
            || self.journal.has_much()
            || self.fullness.is_full()
            || time::since(self.tidied_at) >= journal::LATER
    }

    /// Time until the disk may be synchronised again.
    fn spared_for(&self) -> Option<Duration> {
        let left = self.limits.sync_interval.checked_sub(time::since(self.written_at));
        left.filter(|left| !left.is_zero())
    }

    /// Maximum time to wait for a wake-up. `None`: unlimited.
    fn patience(&self) -> Option<Duration> {
        let again = self.attempts.due_in();
        // After a failure, the next look for room waits as well.
        let looks = self.fullness.looks_in().map(|looks| looks.max(again.unwrap_or_default()));
        let again = again.or_else(|| self.spared_for()).filter(|_| self.has_some());
        let room = self.is_behind.then_some(ROOM_IN);
        let again = again.or_else(|| self.journal.look_again_in());
        let again = again.or_else(|| self.origins.has_gone().then_some(journal::LATER));
        again.into_iter().chain(room).chain(looks).chain(self.role_attempts.due_in()).min()
    }

    /// Writes a batch, and reports the outcome to the waiting threads.
    fn write(&mut self, has_ended: bool) {
        self.refuse_what_has_no_room();
        let tidies = self.has_bookkeeping() && (!self.journal.is_awaited() || self.is_late(has_ended));
        let at_once = self.fullness.at_once();
        let is_empty = self.changes.is_empty() && !tidies && self.journal.events().next().is_none();
        let (began, answered) = (time::now(), self.journal.awaited());
        let mut looks = tidies || !self.changes.is_empty();
        match if is_empty { Ok(0) } else { self.write_confirmed(tidies) } {
            Ok(octets) => {
                if !is_empty {
                    self.counters.add(Counter::StoreWrites, 1);
                    self.counters.add(Counter::StoreBytes, octets);
                    self.unlooked += octets;
                    self.origins.note_written();
                }
                self.counters.add(Counter::EventsNotStored, self.journal.note_written());
                let mut is_all = !self.journal.has_some();
                if tidies {
                    is_all = self.journal.note_tidied(at_once);
                    self.tidied_at = time::now();
                }
                if is_all {
                    self.reply_written(true);
                }
                self.fullness.note_bytes(self.journal.bytes_on_device());
                let until = time::now() + time::since(began) / 2;
                self.gathering = (answered > 0).then_some(Gathering { answered, until });
                self.changes.clear();
                if self.written.swap(self.number, Ordering::Release) != self.number {
                    self.waiting.notify();
                }
                if self.attempts.succeed() {
                    log::warn!("store: it can be written to again, and nothing was lost");
                }
            }
            Err(error) => {
                self.counters.add(Counter::StoreFailures, 1);
                self.origins.note_failed();
                let refused = self.journal.note_failed();
                self.counters.add(Counter::EventsNotStored, refused);
                self.reply_written(false);
                if error.is_full() {
                    self.fullness.note_failed();
                    self.fullness.begin();
                    self.fullness.note_refused(refused);
                    self.counters.set(Counter::StoreFull, 1);
                }
                (self.gathering, self.tidied_at) = (None, time::now());
                if !self.disk.is_superseded() && self.attempts.fail() {
                    log::error!(
                        "store: {error}; what clients change is answered when it is written, which is tried each second, or with \
                         PERSIST_STORE after store.answer_within_ms, and persistent events are refused"
                    );
                }
                looks = true;
            }
        }
        self.written_at = time::now();
        if looks || self.unlooked >= UNLOOKED_MAX {
            self.look_at_disk();
        }
        let (events, octets) = self.journal.stored();
        self.counters.set(Counter::EventsStored, events);
        self.counters.set(Counter::EventBytesStored, octets);
        self.counters.set(Counter::OriginsStored, self.origins.count());
        self.counters.add(Counter::OriginsDropped, self.origins.take_dropped());
        self.count_dead_letters();
    }

    /// Sets the budget of events from the file's size. Removed events leave free pages in the file, so the stored octets count as well.
    fn look_at_disk(&mut self) {
        let StoreLimits { event_bytes_max, disk_bytes_max, .. } = self.limits;
        let octets = self.disk.octets();
        self.counters.set(Counter::StoreDiskBytes, octets);
        self.unlooked = 0;
        let may_have = if octets < disk_bytes_max { event_bytes_max } else { event_bytes_max.min(disk_bytes_max / 4) };
        self.journal.set_bytes_max(may_have);
    }

    /// Writes a batch, and waits until it may be acknowledged: where a follower has to have it, too. What fails there is on this disk, as
    /// may be what fails here.
    fn write_confirmed(&mut self, tidies: bool) -> Result<u64, StoreError> {
        self.disk.may_write()?;
        let octets = self.write_batch(tidies)?;
        self.disk.confirm()?;
        Ok(octets)
    }

    fn write_batch(&mut self, tidies: bool) -> Result<u64, StoreError> {
        let Self { disk, changes, journal, origins, record, origin, fullness, .. } = self;
        let at_once = fullness.at_once();
        let now = Time(u64::try_from(time::since(*origin).as_nanos()).unwrap_or(u64::MAX));
        let clock = UtcClock::new(now, time::since_1970());
        disk.write_batch(Phases::of(changes), |batch| {
            batch.change_parts(changes)?;
            for (number, event) in journal.events() {
                record.clear();
                Record::of(event, now, &clock).write(record);
                batch.keep_event(number, record)?;
                #[cfg(test)]
                if crate::simulation::goes_wrong(crate::simulation::Break::ForgottenOrigin) {
                    continue;
                }
                if let Some(seen) = origins.add(number, event) {
                    batch.keep_origin(number, &seen)?;
                }
            }
            origins.remove_gone(batch)?;
            if !tidies {
                return Ok(());
            }
            for again in journal.again() {
                batch.keep_event(again.number, &again.record)?;
                record.clear();
                record::write_aside([(again.consumer.proxy, time::utc())].into_iter(), record);
                batch.keep_consumers(again.number, record)?;
            }
            for (number, consumers) in journal.lists(at_once) {
                record.clear();
                record::write_consumers(consumers, record);
                record::write_aside(journal.aside_of(number), record);
                batch.keep_consumers(number, record)?;
            }
            journal.gone(at_once).try_for_each(|(number, is_listed)| batch.forget_event(number, is_listed))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;

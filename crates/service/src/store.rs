//! What outlives the process: the image of the topology, and events that were promised to, on disk.
//!
//! A thread of its own writes it, so that neither lanes nor administration wait for a disk. What is handed to it while it writes is written
//! together with the next: each such batch is on the disk, whole, or not at all. While the disk fails, what was configured is kept to be
//! written and tried again each second, so that nothing is lost but time; events that are handed over meanwhile are given back, and their
//! suppliers get an error. Where the disk is full only events are: of the room that is reserved all else goes on.

mod block_device;
mod copy_on_write;
pub(crate) mod dead_letters;
mod disk;
mod fullness;
pub(crate) mod journal;
pub(crate) mod origins;
pub(crate) mod record;
pub(crate) mod requests;
mod room;
pub(crate) mod salvage;
pub(crate) mod stored;
mod target;

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering};
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
pub(crate) use self::disk::{Disk, StoreError};
use self::fullness::Fullness;
use self::journal::{Chunk, Journal, Slot};
use self::origins::{SeenOrigin, SeenOrigins};
use self::record::Record;
use self::requests::{Counterpart, StoreDesk};
use crate::counters::{Block, Counter};
use crate::lane::io::net::Waker;
use crate::lane::links::mailbox::{Mailbox, mailbox};
use crate::log::Attempts;
use crate::time;

/// What is to be kept under which keys from now on; nothing where what was there is to go.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// How long it waits for a lane to take its messages.
const ROOM_IN: Duration = Duration::from_millis(2);
/// How long the end of the service waits for the disk.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Of events alone, so many octets are written until it is looked how large the file is: not with each batch, for the kernel notes the time
/// of a change anew for whatever is written after that was asked (multigrain timestamps, Linux 6.13). Where the file system has no journal,
/// the next synchronisation then writes that, too, in a request of its own.
const UNLOOKED_MAX: u64 = 1 << 20;
/// Pieces of the events that there are at the start which the main lane has yet to take in.
const CHUNKS_AHEAD: usize = 2;
/// Lanes that may wait to be introduced to the store before it looks.
const INTRODUCTIONS: usize = 256;

/// A batch, and its number.
type Changed = (u64, Changes);

/// What was found in a store.
pub(crate) struct Found {
    pub(crate) directory: PathBuf,
    pub(crate) disk: Disk,
    pub(crate) image: corba::Image,
    /// How many events there are, and the number that is behind the last.
    pub(crate) events: (u64, u64),
    /// Origins of events that came from other services, each with the number of its event.
    pub(crate) origins: Vec<(u64, SeenOrigin)>,
    /// The number by which other services know this one.
    pub(crate) service: u64,
}

/// Opens a store, and reads what is configured in it.
pub(crate) fn open(directory: &Path) -> Result<Found, StoreError> {
    let mut disk = open_when_nothing_looks(directory)?;
    let image = disk.image()?;
    let (events, origins, service) = (disk.events()?, disk.origins_seen()?, disk.service()?);
    Ok(Found { directory: directory.into(), disk, image, events, origins, service })
}

/// How long a start waits for programs that look at the store, as `campanile store show` does, and how often they may come in between.
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

/// Whether the store's own file is in a folder: where its disk was unmounted there may be an empty one of the same name.
pub(crate) fn is_in(directory: &Path) -> bool {
    block_device::is_there(&directory.join(disk::FILE))
}

/// What a store is started with, beside its disk.
pub(crate) struct StoreOptions<'o> {
    /// Of the thread that waits for changes to be written.
    pub(crate) waker: &'o Arc<Waker>,
    pub(crate) counters: Arc<Block>,
    /// What lanes take for time 0.
    pub(crate) origin: Instant,
    /// The number behind that of the last event that it has.
    pub(crate) next: u64,
    /// Origins that it has of events from other services, each with the number of its event.
    pub(crate) origins: &'o [(u64, SeenOrigin)],
    /// The service that has it.
    pub(crate) service: u64,
    /// The channels that there are.
    pub(crate) channels: &'o [ChannelId],
    pub(crate) limits: StoreLimits,
}

/// What a store may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreLimits {
    /// Octets of events.
    pub(crate) event_bytes_max: u64,
    /// Octets on disk.
    pub(crate) disk_bytes_max: u64,
    /// From one synchronisation to the next at least.
    pub(crate) sync_interval: Duration,
    /// What each channel may have of events that were undeliverable.
    pub(crate) dead_letters: DeadLetterLimits,
}

/// The thread that writes.
pub(crate) struct Store {
    batches: Sender<Changed>,
    /// The number of the last batch of changes that is on the disk.
    written: Arc<AtomicU64>,
    handed: u64,
    thread: JoinHandle<()>,
    /// Of the waiting thread, and the store thread's own.
    waiting: Arc<Waker>,
    waker: Arc<Waker>,
}

/// How lanes are introduced to the store.
pub(crate) struct Reception {
    pub(crate) waker: Arc<Waker>,
    pub(crate) introductions: Mailbox<Slot>,
    /// For the main lane: the events that there are.
    pub(crate) restored: Option<Receiver<Chunk>>,
    /// For the main lane: origins of events that came from other services, in the order in which they were written.
    pub(crate) origins_seen: Vec<SeenOrigin>,
    /// For administration: what it asks about dead letters.
    pub(crate) desk: Option<StoreDesk>,
}

impl Store {
    /// Starts the thread.
    pub(crate) fn start(disk: Disk, options: StoreOptions<'_>) -> io::Result<(Self, Reception)> {
        let StoreOptions { waker: waiting, counters, origin, next, origins, service, channels, limits } = options;
        // Origins outlast their events, and are known by the numbers of these.
        let next = next.max(origins.last().map_or(0, |(event, _)| event + 1));
        let (batches, handed) = channel();
        let written = Arc::new(AtomicU64::new(0));
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
        let store =
            Self { batches, written, handed: 0, thread, waiting: Arc::clone(waiting), waker: Arc::clone(&waker) };
        let origins_seen = origins.iter().map(|(_, origin)| *origin).collect();
        let desk = Some(for_administration);
        Ok((store, Reception { waker, introductions, restored: Some(restored), origins_seen, desk }))
    }

    /// The number of the last batch that is on the disk.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether it has no changes to write.
    pub(crate) fn is_free(&self) -> bool {
        self.written() >= self.handed
    }

    /// Has a batch of changes written. Its number is greater than those before.
    pub(crate) fn write(&mut self, number: u64, changes: Changes) {
        self.handed = number;
        // The thread ends when this is dropped, and not before.
        let _ = self.batches.send((number, changes));
        self.waker.notify();
    }

    /// Waits until all changes are on the disk, though not for ever. Says the number of the last that are.
    pub(crate) fn wait(&self) -> u64 {
        let began = time::now();
        while !self.is_free() && !self.thread.is_finished() && time::since(began) < ENDS_WITHIN {
            self.waiting.wait(Some(Duration::from_millis(20)));
        }
        self.written()
    }

    /// Ends, once the lanes have, and waits for that, though not for ever.
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

/// What the thread has.
pub(crate) struct Writer {
    disk: Disk,
    handed: Receiver<Changed>,
    /// What is to be written of what is configured, and the number of the last batch of it.
    changes: Changes,
    number: u64,
    written: Arc<AtomicU64>,
    journal: Journal,
    origins: SeenOrigins,
    /// The channels that there were at the start.
    channels: Vec<ChannelId>,
    desk: Counterpart,
    limits: StoreLimits,
    waiting: Arc<Waker>,
    pub(crate) waker: Arc<Waker>,
    origin: Instant,
    /// Since it last went well.
    attempts: Attempts,
    fullness: Fullness,
    /// Since when all that is left is to be written, if it is the end.
    ending: Option<Instant>,
    /// When bookkeeping was written last that no thread waits for: lists of consumers that are yet to confirm events, and removals of
    /// events. Writing it with each batch of events takes twice the pages.
    tidied_at: Instant,
    /// When it was last synchronised.
    written_at: Instant,
    /// Octets that were written since it was looked how large the file is.
    unlooked: u64,
    gathering: Option<Gathering>,
    /// Whether a lane has no room for its answers.
    is_behind: bool,
    /// Working space.
    record: Vec<u8>,
    counters: Arc<Block>,
}

/// Wait after a batch of events. Suppliers with answers push their next events before long, and what is written together with what has come
/// meanwhile costs hardly more than that alone.
struct Gathering {
    /// Events that were answered.
    answered: usize,
    /// No longer than half of what the batch took.
    until: Instant,
}

/// Number of events at hand from which a batch no longer waits for more: the fixed cost of a batch is then small against theirs.
const ENOUGH: usize = 128;

impl Gathering {
    /// For how many more to wait, and how long, with so many events at hand, of which so many came before the answers: the others are of
    /// suppliers that have theirs, and are not expected twice. Nothing if that is over. A supplier that is alone is not waited for: it
    /// wakes the store itself.
    fn waits(&self, awaited: usize, before: usize) -> Option<(usize, Duration)> {
        let expected = (self.answered + before).min(ENOUGH);
        let left = self.until.saturating_duration_since(time::now());
        let missing = expected.saturating_sub(awaited);
        (missing > 0 && expected > 1 && !left.is_zero()).then_some((missing, left))
    }
}

impl Writer {
    /// Hands the events that there are to the main lane, a piece at a time, before anything else is written. Where they cannot be read it
    /// is tried again, as long as there is a receiver for them: the lane takes nothing else in before.
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

    /// Hands those from this number on over, and says which is the next. While it does it hears what becomes of those before.
    fn read_events(&mut self, from: &mut u64, to: &SyncSender<Chunk>) -> Result<(), StoreError> {
        let Self { disk, journal, .. } = self;
        let mut chunk = Chunk::default();
        let hand_over = |journal: &mut Journal, chunk: Chunk| {
            let is_taken = chunk.is_empty() || to.send(chunk).is_ok();
            journal.look();
            journal.receive();
            // The receiver is gone if it does not take the piece.
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
        // What was read before a failure is good.
        let _ = hand_over(journal, chunk);
        told
    }

    fn run(mut self) {
        while self.live() {}
        self.waiting.notify();
    }

    /// Writes what is due, or waits for something to write. False at the end.
    pub(crate) fn live(&mut self) -> bool {
        self.journal.look();
        let has_ended = self.receive() && self.journal.has_ended();
        self.serve_request();
        self.look_for_room();
        if self.has_just_failed() || self.fullness.is_full() {
            // To find out whether it works again takes looking through all that is kept.
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
            // Woken for each of them it would take the processor from the threads that it waits for.
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
            if !self.has_some() || time::since(began) >= ENDS_WITHIN {
                return false;
            }
        }
        self.waker.wait(self.patience());
        true
    }

    /// Refuses the events that are to be kept, and those that are to be delivered once more.
    fn refuse(&mut self) {
        let refused = self.journal.refuse();
        self.decline_replays();
        self.counters.add(Counter::EventsNotStored, refused);
        self.fullness.note_refused(refused);
    }

    /// Finds out, while the disk is full, whether there is room by now.
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

    /// Refuses events for which the disk has no room, before the database has begun anything.
    fn refuse_what_has_no_room(&mut self) {
        if Fullness::has_room(self.journal.bytes_to_keep(), self.disk.room()) {
            return;
        }
        // First the large ones: else a client that sends these would have everything of all others refused.
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

    /// Takes in what was handed over. True if nothing more can come of administration.
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

    /// Dead letters and origins of a channel go with it.
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

    /// Counts dead letters, and what had to go.
    fn count_dead_letters(&mut self) {
        self.counters.add(Counter::DeadLettersDropped, self.journal.take_dead_dropped());
        self.counters.set(Counter::DeadLettersStored, self.journal.dead_letters().count());
    }

    fn has_some(&self) -> bool {
        !self.changes.is_empty() || self.has_bookkeeping() || self.journal.is_awaited()
    }

    /// Whether there is something to be written that no thread waits for.
    fn has_bookkeeping(&self) -> bool {
        self.journal.has_some() || self.origins.has_gone()
    }

    /// Whether it is time to write what no event waits for.
    fn is_due(&self, has_ended: bool) -> bool {
        if self.has_just_failed() {
            return false;
        }
        !self.changes.is_empty() || self.desk.is_waiting() || (self.has_bookkeeping() && self.is_late(has_ended))
    }

    /// Whether it is not to be tried again yet.
    fn has_just_failed(&self) -> bool {
        !self.attempts.is_due()
    }

    /// Whether bookkeeping that no thread waits for has waited long enough.
    fn is_late(&self, has_ended: bool) -> bool {
        // While the disk is full little is removed at a time, and the next follows at once.
        has_ended
            || self.desk.is_waiting()
            || self.journal.has_much()
            || self.fullness.is_full()
            || time::since(self.tidied_at) >= journal::LATER
    }

    /// How long it is until the disk may be synchronised again.
    fn spared_for(&self) -> Option<Duration> {
        let left = self.limits.sync_interval.checked_sub(time::since(self.written_at));
        left.filter(|left| !left.is_zero())
    }

    /// How long it waits to be woken; nothing if without end.
    fn patience(&self) -> Option<Duration> {
        let again = self.attempts.due_in();
        // It is not looked for room right behind a failure.
        let looks = self.fullness.looks_in().map(|looks| looks.max(again.unwrap_or_default()));
        let again = again.or_else(|| self.spared_for()).filter(|_| self.has_some());
        let room = self.is_behind.then_some(ROOM_IN);
        let again = again.or_else(|| self.journal.look_again_in());
        again.or_else(|| self.origins.has_gone().then_some(journal::LATER)).into_iter().chain(room).chain(looks).min()
    }

    /// Tries to write what there is, and reports the outcome to the waiting threads.
    fn write(&mut self, has_ended: bool) {
        self.refuse_what_has_no_room();
        let tidies = self.has_bookkeeping() && (!self.journal.is_awaited() || self.is_late(has_ended));
        let at_once = self.fullness.at_once();
        let is_empty = self.changes.is_empty() && !tidies && self.journal.events().next().is_none();
        let (began, answered) = (time::now(), self.journal.awaited());
        let mut looks = tidies || !self.changes.is_empty();
        match if is_empty { Ok(0) } else { self.write_batch(tidies) } {
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
                if self.attempts.fail() {
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

    /// Takes note of how much is on disk. A file does not become smaller as events go, but is filled again: so what is kept counts, too.
    fn look_at_disk(&mut self) {
        let StoreLimits { event_bytes_max, disk_bytes_max, .. } = self.limits;
        let octets = self.disk.octets();
        self.counters.set(Counter::StoreDiskBytes, octets);
        self.unlooked = 0;
        let may_have = if octets < disk_bytes_max { event_bytes_max } else { event_bytes_max.min(disk_bytes_max / 4) };
        self.journal.set_bytes_max(may_have);
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

//! Events on disk: what consumers that are behind are yet to get, and what there is no memory for; and channels' history.
//!
//! A thread of its own writes and reads it, so that no lane waits for a disk. A lane posts what its [engine](engine::Overflow) wants:
//! events to be kept, which it has back when they are written; that some come back; that nothing is wanted any more. Each channel of each
//! lane has a [backlog](backlog::Backlog), and each channel its [history](history): both are [logs](crate::log). While the disk is full or
//! fails, what could not be written is tried again, and stays in memory meanwhile, where the channels' budgets bound it.

mod backlog;
pub(crate) mod history;
mod history_server;

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use corba::event::UtcClock;
use engine::{ChannelId, Event, HistoryLimits, OutboxId, ProxyKey, StartFrom, Time};

use self::backlog::{Backlog, Freed, Read};
use self::history::{Chunk, Histories};
use self::history_server::{HistoryServer, TRIM_EVERY};
use crate::admin::values::HistoryStatus;
use crate::counters::{Block, Counter};
use crate::lane::io::net::Waker;
use crate::lane::links::mailbox::{BufferedMailbox, Inbox, Mailbox, mailbox};
use crate::lane::links::messages::LaneThread;
use crate::log::{Attempts, Desk, boot_id};
use crate::protocols::tempo::types::DeclaredTypes;
use crate::store::record::Record;
use crate::{store, time};

/// How long it waits for a lane to take its messages.
const ROOM_IN: Duration = Duration::from_millis(2);
/// While something is kept it looks so often for more: lanes wake it less often than they post.
const LOOK_IN: Duration = Duration::from_millis(20);
/// Messages of one lane that may be under way.
const MESSAGES_MAX: usize = 4_096;
/// Channels of which administration may want to know at a time.
const QUERIES_MAX: usize = 256;
/// Lanes that may wait to be introduced to the thread before it looks.
const INTRODUCTIONS: usize = 256;
/// The folder, in that of the store. Whatever is in it goes at the start.
const FOLDER: &str = "overflow";
/// That of channels' history, which stays.
pub(crate) const HISTORY_FOLDER: &str = "history";

/// From a lane.
#[derive(Debug)]
pub(crate) enum ToOverflow {
    /// An event to be kept, and what its channel may have kept.
    Keep(Arc<Event>, u64),
    /// What is next for a consumer is to come back, about so many octets.
    Fetch(OutboxId, ProxyKey, u32),
    /// A consumer wants nothing any more.
    Forget(ProxyKey),
    /// An event to be kept as its channel's history says.
    Remember(Arc<Event>, HistoryLimits),
    /// What is next of a channel's history is to come back for a consumer, about so many octets; and where it begins, if it does.
    FetchHistory(OutboxId, ProxyKey, Option<StartFrom>, u32),
    /// A channel stores no history any more.
    Drop(ChannelId),
}

/// To a lane.
#[derive(Debug)]
pub(crate) enum FromOverflow {
    /// An event is written.
    Written(Arc<Event>),
    /// What is next for a consumer.
    Back(Back),
    /// An event of a channel's history is written.
    Remembered(Arc<Event>),
    /// What is next of its channel's history for a consumer.
    FetchedHistory(OutboxId, Chunk),
    /// Of a channel less is kept: so many events all have read, and so many octets are free.
    Freed(ChannelId, Freed),
}

/// What comes back for a consumer.
#[derive(Debug)]
pub(crate) struct Back {
    pub(crate) outbox: OutboxId,
    /// [One behind the other](crate::log::first_of).
    pub(crate) records: Vec<u8>,
    /// How many events are lost.
    pub(crate) lost: u64,
}

/// A lane's end of its link.
pub(crate) struct Link {
    pub(crate) messages: Mailbox<ToOverflow>,
    pub(crate) answers: Inbox<FromOverflow>,
    /// Of the main lane: with which numbers channels' history goes on.
    pub(crate) histories: Vec<(ChannelId, NonZeroU64)>,
}

/// The thread's end.
pub(crate) struct Slot {
    thread: LaneThread,
    messages: Inbox<ToOverflow>,
    answers: BufferedMailbox<FromOverflow>,
}

/// Both ends of a lane's link. The first is the main lane's.
pub(crate) fn link(thread: LaneThread, waker: &Arc<Waker>, to: &mut Reception) -> (Link, Slot) {
    let (to_thread, messages) = mailbox(&to.waker, MESSAGES_MAX);
    let (to_lane, answers) = mailbox(waker, MESSAGES_MAX);
    let slot = Slot { thread, messages, answers: BufferedMailbox::new(to_lane) };
    (Link { messages: to_thread, answers, histories: core::mem::take(&mut to.histories) }, slot)
}

/// Answer to administration about a channel's history.
pub(crate) type HistoryReply = (ChannelId, Option<HistoryStatus>);

/// Administration's end of its link: it asks what is kept of channels' history.
pub(crate) struct Inquirer {
    pub(crate) queries: Mailbox<ChannelId>,
    pub(crate) reported: Inbox<HistoryReply>,
}

/// How lanes are introduced.
pub(crate) struct Reception {
    pub(crate) waker: Arc<Waker>,
    pub(crate) introductions: Mailbox<Slot>,
    /// For the main lane: with which numbers channels' history goes on.
    pub(crate) histories: Vec<(ChannelId, NonZeroU64)>,
    thread: JoinHandle<()>,
}

impl Reception {
    /// Waits until the thread has ended, which it does when the lanes have.
    pub(crate) fn end(self) {
        let Self { introductions, thread, waker, .. } = self;
        drop(introductions);
        // Lanes call the waker before their links are gone, so the thread needs another call to see that.
        waker.notify();
        // One that panicked has said so on standard error already.
        let _ = thread.join();
    }
}

/// What the thread starts with.
pub(crate) struct Options<'o> {
    /// The folder of the store.
    pub(crate) directory: &'o Path,
    /// What channels' history may take altogether.
    pub(crate) history_bytes_max: u64,
    /// The channels that there are.
    pub(crate) channels: &'o [ChannelId],
    /// When lanes' clocks began.
    pub(crate) origin: Instant,
    /// Declared types of Tempo's topics, by which channels' history is searched for the last message with each value of a field.
    pub(crate) types: Arc<DeclaredTypes>,
    pub(crate) counters: Arc<Block>,
    /// Administration's.
    pub(crate) administration: &'o Arc<Waker>,
}

/// Starts the thread, with an empty folder for backlogs in that of the store, and one for channels' history. It ends when no lane can post
/// anything any more.
pub(crate) fn start(options: Options<'_>) -> io::Result<(Reception, Inquirer)> {
    let Options { directory, history_bytes_max, channels, origin, types, counters, administration } = options;
    let folder = directory.join(FOLDER);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::DirBuilder::new().mode(0o700).create(&folder)?,
    }
    let is_there = |channel| channels.contains(&channel);
    let mut history_desk = Desk::through_cache();
    let (histories, numbers) =
        Histories::open(directory.join(HISTORY_FOLDER), history_bytes_max, boot_id(), is_there, &mut history_desk)?;
    let waker = Arc::new(Waker::new()?);
    let (introductions, introduced) = mailbox(&waker, INTRODUCTIONS);
    let (query_mailbox, queries) = mailbox(&waker, QUERIES_MAX);
    let (reply_mailbox, reported) = mailbox(administration, QUERIES_MAX);
    let keeper = Keeper {
        home: directory.into(),
        folder,
        introductions: introduced,
        queries,
        reply_mailbox: BufferedMailbox::new(reply_mailbox),
        slots: Vec::new(),
        logs: BTreeMap::new(),
        requested: Vec::new(),
        writes: Attempts::default(),
        reads: Attempts::default(),
        history_server: HistoryServer::new(histories, types),
        history_desk,
        desk: Desk::default(),
        origin,
        waker: Arc::clone(&waker),
        counters,
        stored: Freed::default(),
    };
    let thread = Builder::new().name("overflow".into()).spawn(move || keeper.run())?;
    let inquirer = Inquirer { queries: query_mailbox, reported };
    Ok((Reception { waker, introductions, histories: numbers, thread }, inquirer))
}

/// A channel on a lane.
type Place = (u32, ChannelId);

/// What a lane has asked for.
struct ReadRequest {
    thread: u32,
    outbox: OutboxId,
    consumer: ProxyKey,
    bytes: u32,
    attempts: Attempts,
}

/// What the thread has.
struct Keeper {
    /// The store's folder, and in it that of backlogs.
    home: PathBuf,
    folder: PathBuf,
    introductions: Inbox<Slot>,
    /// Of which channels administration wants to know what is kept.
    queries: Inbox<ChannelId>,
    reply_mailbox: BufferedMailbox<HistoryReply>,
    slots: Vec<Slot>,
    /// With what each may have kept.
    logs: BTreeMap<Place, (Backlog, u64)>,
    /// What is to come back: it is read when all that was to be kept before has been looked at.
    requested: Vec<ReadRequest>,
    /// What all have to be written, and what some asked for.
    writes: Attempts,
    reads: Attempts,
    history_server: HistoryServer,
    history_desk: Desk,
    /// For backlogs.
    desk: Desk,
    /// When lanes' clocks began.
    origin: Instant,
    waker: Arc<Waker>,
    counters: Arc<Block>,
    /// What is kept now.
    stored: Freed,
}

impl Keeper {
    fn run(mut self) {
        loop {
            self.introductions.look();
            self.queries.look();
            self.slots.iter().for_each(|slot| slot.messages.look());
            let more = self.receive();
            let writes = self.write();
            let reads = self.read();
            self.tell();
            self.free();
            self.history_server.trim(&self.clock(), &self.counters);
            let is_behind = self.answer();
            self.dismiss();
            if self.slots.is_empty() && self.introductions.has_ended() {
                self.logs.clear();
                let clock = self.clock();
                self.history_server.finish(&clock, &mut self.history_desk);
                let _ = fs::remove_dir(&self.folder);
                return;
            }
            if more || writes || reads {
                continue;
            }
            let reads = self.requested.iter().filter_map(|requested| requested.attempts.due_in());
            let again = reads.chain(self.writes.due_in()).chain(self.history_server.due_in()).min();
            let look = (!self.logs.is_empty()).then_some(LOOK_IN);
            let trim = self.history_server.needs_trimming().then_some(TRIM_EVERY);
            self.waker.wait(if is_behind { Some(ROOM_IN) } else { again.into_iter().chain(look).chain(trim).min() });
        }
    }

    /// Lanes that have ended want nothing any more.
    fn dismiss(&mut self) {
        let Self { slots, logs, stored, requested, .. } = self;
        for ended in slots.extract_if(.., |slot| slot.messages.has_ended()) {
            requested.retain(|requested| requested.thread != ended.thread.0);
            logs.retain(|(thread, _), (log, _)| {
                let stays = *thread != ended.thread.0;
                if !stays {
                    stored.remove(log.stored());
                }
                stays
            });
        }
    }

    /// Takes in what lanes have posted. True if there may be more.
    fn receive(&mut self) -> bool {
        while let Some(slot) = self.introductions.take() {
            self.slots.push(slot);
        }
        let mut more = false;
        let clock = self.clock();
        for slot in &mut self.slots {
            let thread = slot.thread.0;
            let request = |outbox, consumer, bytes| ReadRequest {
                thread,
                outbox,
                consumer,
                bytes,
                attempts: Attempts::default(),
            };
            for _ in 0..MESSAGES_MAX {
                let Some(message) = slot.messages.take() else { break };
                match message {
                    ToOverflow::Keep(event, budget_bytes) => {
                        let channel = event.source.channel;
                        let name = || self.folder.join(format!("lane-{thread}-channel-{}-", channel.0));
                        let place = self.logs.entry((thread, channel));
                        let (log, budget) = place.or_insert_with(|| (Backlog::new(name(), &self.desk), budget_bytes));
                        *budget = budget_bytes;
                        self.stored.events += 1;
                        self.stored.bytes += event.stored_bytes();
                        log.push(event);
                    }
                    ToOverflow::Fetch(outbox, consumer, bytes) => {
                        self.requested.push(request(outbox, consumer, bytes));
                    }
                    ToOverflow::Forget(consumer) => {
                        self.requested.retain(|requested| requested.thread != thread || requested.consumer != consumer);
                        if let Some((log, _)) = self.logs.get_mut(&(thread, consumer.channel)) {
                            log.forget(consumer.proxy);
                        }
                        self.history_server.forget(thread, consumer);
                    }
                    ToOverflow::Remember(event, limits) => self.history_server.remember(thread, event, limits),
                    ToOverflow::FetchHistory(outbox, consumer, start, bytes) => {
                        let answer = self.history_server.ask(request(outbox, consumer, bytes), start, &clock);
                        slot.answers.send_all(answer);
                    }
                    ToOverflow::Drop(channel) => {
                        let dropped = self.history_server.drop_channel(channel).into_iter();
                        slot.answers.send_all(dropped.map(FromOverflow::Remembered));
                    }
                }
            }
            more |= slot.messages.waiting() > 0;
        }
        more
    }

    /// Writes some of what is to be written. True if there is more.
    fn write(&mut self) -> bool {
        if !self.writes.is_due() {
            return false;
        }
        let clock = self.clock();
        let Self { logs, slots, history_server, history_desk, counters, desk, .. } = self;
        let mut failure = None;
        for ((thread, _), (log, budget_bytes)) in logs.iter_mut().filter(|(_, (log, _))| log.is_pending()) {
            match log.write(*budget_bytes, desk) {
                Ok(written) => {
                    if let Some(slot) = slots.iter_mut().find(|slot| slot.thread.0 == *thread) {
                        slot.answers.send_all(written.into_iter().map(FromOverflow::Written));
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        let (remembered, of_history) = history_server.write(&clock, counters, history_desk);
        failure = failure.or(of_history);
        if let Some(slot) = slots.iter_mut().find(|slot| Some(slot.thread.0) == history_server.thread) {
            slot.answers.send_all(remembered.into_iter().map(FromOverflow::Remembered));
        }
        if let Some(error) = failure {
            if error.kind() == io::ErrorKind::NotFound {
                self.make_folders();
            }
            self.counters.add(Counter::OverflowFailures, 1);
            if self.writes.fail() {
                ::log::error!(
                    "overflow: {error}; what slow consumers are yet to get stays in memory, and it is tried again each second"
                );
            }
            return false;
        }
        if self.writes.succeed() {
            ::log::warn!("overflow: it can be written to again, and nothing was lost");
        }
        self.logs.values().any(|(log, _)| log.is_pending()) || self.history_server.is_pending()
    }

    /// Makes removed folders anew, but only beside the store's own file: where its disk was unmounted, there may be an empty folder of the
    /// same name, in which nothing would be found again.
    fn make_folders(&self) {
        if store::is_in(&self.home) {
            for folder in [FOLDER, HISTORY_FOLDER] {
                // One that is there is left as it is; of one that cannot be made the next attempt tells.
                let _ = fs::DirBuilder::new().mode(0o700).create(self.home.join(folder));
            }
        }
    }

    /// Reads what is to come back. True if there is more.
    fn read(&mut self) -> bool {
        let clock = self.clock();
        let Self { requested, slots, logs, history_server, history_desk, desk, .. } = self;
        let (mut failure, mut is_read) = (None, false);
        let mut later = Vec::new();
        for mut asking in requested.extract_if(.., |requested| requested.attempts.is_due()) {
            let Some(slot) = slots.iter_mut().find(|slot| slot.thread.0 == asking.thread) else { continue };
            let (consumer, gives_up) = (asking.consumer, asking.attempts.gives_up());
            let bytes = usize::try_from(asking.bytes).unwrap_or(usize::MAX);
            let log = logs.get_mut(&(asking.thread, consumer.channel));
            let Read { records, lost, why } =
                log.map(|(log, _)| log.read(consumer.proxy, (bytes, gives_up), desk)).unwrap_or_default();
            let is_for_later = why.is_some() && lost == 0 && records.is_empty();
            match why {
                Some(why) if lost > 0 => ::log::error!(
                    "overflow: {lost} events for consumer proxy {consumer} are lost, since they cannot be read: {why}"
                ),
                Some(why) => failure = Some(why),
                None => is_read = true,
            }
            if is_for_later {
                asking.attempts.fail();
                later.push(asking);
                continue;
            }
            slot.answers.send(FromOverflow::Back(Back { outbox: asking.outbox, records, lost }));
        }
        requested.extend(later);
        let (fetched, more, of_history) = history_server.read(&clock, history_desk);
        is_read |= !fetched.is_empty();
        if let Some(slot) = slots.iter_mut().find(|slot| Some(slot.thread.0) == history_server.thread) {
            slot.answers.send_all(fetched);
        }
        self.note_read(failure.or(of_history), is_read);
        more
    }

    /// Tells that something cannot be read, or can be again, and counts the former.
    fn note_read(&mut self, failure: Option<io::Error>, is_read: bool) {
        if let Some(error) = failure {
            self.counters.add(Counter::OverflowFailures, 1);
            if self.reads.fail() {
                ::log::error!(
                    "overflow: {error}; what slow consumers are yet to get waits, and it is tried again each second"
                );
            }
        } else if is_read && self.reads.succeed() {
            ::log::warn!("overflow: it can be read again, and nothing was lost");
        }
    }

    /// A lane's clock and the world's.
    fn clock(&self) -> UtcClock {
        let now = Time(u64::try_from(time::since(self.origin).as_nanos()).unwrap_or(u64::MAX));
        UtcClock::new(now, time::since_1970())
    }

    /// Reports to lanes what their logs no longer have: what all consumers have read and, while nothing can be written, what no consumer is
    /// yet to read.
    fn free(&mut self) {
        let Self { logs, slots, stored, writes, .. } = self;
        logs.retain(|(thread, channel), (log, _)| {
            let unwanted = if writes.fails() { log.release() } else { Vec::new() };
            let mut freed = log.free();
            freed.bytes += unwanted.iter().map(|event| event.stored_bytes()).sum::<u64>();
            if freed != Freed::default() {
                stored.remove(freed);
                if let Some(slot) = slots.iter_mut().find(|slot| slot.thread.0 == *thread) {
                    slot.answers.send_all(unwanted.into_iter().map(FromOverflow::Written));
                    slot.answers.send(FromOverflow::Freed(*channel, freed));
                }
            }
            !log.is_over()
        });
        self.counters.set(Counter::OverflowEvents, self.stored.events);
        self.counters.set(Counter::OverflowBytes, self.stored.bytes);
    }

    /// Tells administration what is kept of channels' history.
    fn tell(&mut self) {
        let now = self.clock().utc;
        for _ in 0..QUERIES_MAX {
            let Some(channel) = self.queries.take() else { return };
            let status = self.history_server.status(channel, now, &mut self.history_desk);
            self.reply_mailbox.send((channel, status));
        }
    }

    /// Posts the answers for which there was no room. True if there is none for some yet.
    fn answer(&mut self) -> bool {
        let of_slots =
            self.slots.iter_mut().map(|slot| slot.answers.send_waiting()).filter(|is_behind| *is_behind).count();
        self.reply_mailbox.send_waiting() || of_slots > 0
    }
}

/// The record of an event: its watch number, its number in its channel's history, and what it takes to make it again in this process.
fn encode(event: &Event, out: &mut Vec<u8>) {
    out.extend(event.watch.map_or(0, NonZeroU64::get).to_le_bytes());
    out.extend(event.number().map_or(0, NonZeroU64::get).to_le_bytes());
    Record::of(event, event.arrived, &clock_at(event.arrived)).write(out);
}

/// A clock that steps with no other: what is kept here does not outlive the process.
pub(crate) fn clock_at(now: Time) -> UtcClock {
    UtcClock { lane: now, utc: EPOCH + now.0 / 100 }
}

/// Far from both ends.
const EPOCH: u64 = 1 << 60;

#[cfg(test)]
mod tests;

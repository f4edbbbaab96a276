//! Events on disk: the backlogs of slow consumers, beyond the channels' memory budgets, and channels' history.
//!
//! A thread of its own writes and reads them, so that no lane waits for a disk. Lanes post the requests of their
//! [engine](engine::Overflow): to store an event, which is returned once written; to fetch a consumer's next events; to forget a consumer.
//! Each channel of each lane has a [backlog](backlog::Backlog), and each channel its [history](history): both are [logs](crate::log). While
//! the disk is full or fails, writes are tried again; their events stay in memory, within the channels' budgets.

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

/// Interval between attempts to post to a lane with a full mailbox.
const ROOM_IN: Duration = Duration::from_millis(2);
/// Interval at which mailboxes are polled while there is a backlog: lanes post more often than they wake the thread.
const LOOK_IN: Duration = Duration::from_millis(20);
/// Capacity of a lane's mailbox in messages, each way.
const MESSAGES_MAX: usize = 4_096;
/// Capacity of administration's mailbox in queries.
const QUERIES_MAX: usize = 256;
/// Maximum lanes not yet introduced to the thread.
const INTRODUCTIONS: usize = 256;
/// Folder of backlogs, within the store's. It is emptied at the start.
const FOLDER: &str = "overflow";
/// Folder of channels' history, which outlives the process.
pub(crate) const HISTORY_FOLDER: &str = "history";

/// Message from a lane.
#[derive(Debug)]
pub(crate) enum ToOverflow {
    /// Stores an event in the backlog; with it the channel's budget in octets.
    Keep(Arc<Event>, u64),
    /// Fetches a consumer's next events, about this many octets.
    Fetch(OutboxId, ProxyKey, u32),
    /// Drops the backlog of a consumer.
    Forget(ProxyKey),
    /// Stores an event in its channel's history.
    Remember(Arc<Event>, HistoryLimits),
    /// Fetches a consumer's next events of its channel's history, about this many octets. With a start, the consumer begins there.
    FetchHistory(OutboxId, ProxyKey, Option<StartFrom>, u32),
    /// Drops the history of a channel.
    Drop(ChannelId),
}

/// Message to a lane.
#[derive(Debug)]
pub(crate) enum FromOverflow {
    /// An event of the backlog is written.
    Written(Arc<Event>),
    /// The next events of a consumer's backlog.
    Back(Back),
    /// An event of a channel's history is written.
    Remembered(Arc<Event>),
    /// The next events of a channel's history, for a consumer.
    FetchedHistory(OutboxId, Chunk),
    /// Space freed in a channel's backlog: events that all consumers have read, and octets.
    Freed(ChannelId, Freed),
}

/// A consumer's next events from its backlog.
#[derive(Debug)]
pub(crate) struct Back {
    pub(crate) outbox: OutboxId,
    /// Records, to be split by [`first_of`](crate::log::first_of).
    pub(crate) records: Vec<u8>,
    /// Number of lost events.
    pub(crate) lost: u64,
}

/// A lane's end of its link to the thread.
pub(crate) struct Link {
    pub(crate) messages: Mailbox<ToOverflow>,
    pub(crate) answers: Inbox<FromOverflow>,
    /// The next number of each channel's history; for the main lane only.
    pub(crate) histories: Vec<(ChannelId, NonZeroU64)>,
}

/// The thread's end of a lane's link.
pub(crate) struct Slot {
    thread: LaneThread,
    messages: Inbox<ToOverflow>,
    answers: BufferedMailbox<FromOverflow>,
}

/// Creates both ends of a lane's link. The first call is for the main lane.
pub(crate) fn link(thread: LaneThread, waker: &Arc<Waker>, to: &mut Reception) -> (Link, Slot) {
    let (to_thread, messages) = mailbox(&to.waker, MESSAGES_MAX);
    let (to_lane, answers) = mailbox(waker, MESSAGES_MAX);
    let slot = Slot { thread, messages, answers: BufferedMailbox::new(to_lane) };
    (Link { messages: to_thread, answers, histories: core::mem::take(&mut to.histories) }, slot)
}

/// A channel and the status of its history, as answered to administration.
pub(crate) type HistoryReply = (ChannelId, Option<HistoryStatus>);

/// Administration's end of its link, for queries about channels' history.
pub(crate) struct Inquirer {
    pub(crate) queries: Mailbox<ChannelId>,
    pub(crate) reported: Inbox<HistoryReply>,
}

/// The thread's end point for the introduction of lanes.
pub(crate) struct Reception {
    pub(crate) waker: Arc<Waker>,
    pub(crate) introductions: Mailbox<Slot>,
    /// The next number of each channel's history, for the main lane.
    pub(crate) histories: Vec<(ChannelId, NonZeroU64)>,
    thread: JoinHandle<()>,
}

impl Reception {
    /// Waits for the end of the thread, which follows that of the lanes.
    pub(crate) fn end(self) {
        let Self { introductions, thread, waker, .. } = self;
        drop(introductions);
        // Lanes call the waker before their links are gone, so the thread needs another call to see that.
        waker.notify();
        // One that panicked has said so on standard error already.
        let _ = thread.join();
    }
}

/// The thread's parameters.
pub(crate) struct Options<'o> {
    /// The folder of the store.
    pub(crate) directory: &'o Path,
    /// Maximum octets of the history of all channels.
    pub(crate) history_bytes_max: u64,
    /// The existing channels.
    pub(crate) channels: &'o [ChannelId],
    /// The zero of the lanes' clocks.
    pub(crate) origin: Instant,
    /// Declared types of Tempo's topics, to search channels' history for the last message with each value of a field.
    pub(crate) types: Arc<DeclaredTypes>,
    pub(crate) counters: Arc<Block>,
    /// Administration's waker.
    pub(crate) administration: &'o Arc<Waker>,
}

/// Starts the thread, with an empty folder for backlogs in that of the store, and one for channels' history. The thread ends once all lanes
/// have.
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

/// A lane's pending fetch.
struct ReadRequest {
    thread: u32,
    outbox: OutboxId,
    consumer: ProxyKey,
    bytes: u32,
    attempts: Attempts,
}

/// The thread's state.
struct Keeper {
    /// The store's folder; `folder` is that of backlogs in it.
    home: PathBuf,
    folder: PathBuf,
    introductions: Inbox<Slot>,
    /// Administration's queries for the status of a channel's history.
    queries: Inbox<ChannelId>,
    reply_mailbox: BufferedMailbox<HistoryReply>,
    slots: Vec<Slot>,
    /// Backlogs, each with its budget in octets.
    logs: BTreeMap<Place, (Backlog, u64)>,
    /// Pending fetches: they are served after all messages in the mailboxes.
    requested: Vec<ReadRequest>,
    /// Failed attempts to write, and to read, over all logs.
    writes: Attempts,
    reads: Attempts,
    history_server: HistoryServer,
    history_desk: Desk,
    /// The desk of backlogs.
    desk: Desk,
    /// The zero of the lanes' clocks.
    origin: Instant,
    waker: Arc<Waker>,
    counters: Arc<Block>,
    /// Events and octets in all backlogs.
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

    /// Drops the backlogs and pending fetches of lanes that have ended.
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

    /// Takes messages from the lanes' mailboxes. True if there may be more.
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

    /// Writes pending records of each log. True if there are more.
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

    /// Recreates removed folders, but only beside the store's own file: where its disk was unmounted, the mount point may be an empty
    /// folder of the same name, whose files would be hidden later.
    fn make_folders(&self) {
        if store::is_in(&self.home) {
            for folder in [FOLDER, HISTORY_FOLDER] {
                // An existing folder stays as it is; a failure shows at the next write.
                let _ = fs::DirBuilder::new().mode(0o700).create(self.home.join(folder));
            }
        }
    }

    /// Serves the due fetches. True if more can be read now.
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

    /// Logs once that reading fails or works again, and counts failures.
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

    /// The lanes' clock together with UTC.
    fn clock(&self) -> UtcClock {
        let now = Time(u64::try_from(time::since(self.origin).as_nanos()).unwrap_or(u64::MAX));
        UtcClock::new(now, time::since_1970())
    }

    /// Reports freed space to lanes: events that all consumers have read and, while nothing can be written, pending ones without a reader.
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

    /// Answers administration's queries about channels' history.
    fn tell(&mut self) {
        let now = self.clock().utc;
        for _ in 0..QUERIES_MAX {
            let Some(channel) = self.queries.take() else { return };
            let status = self.history_server.status(channel, now, &mut self.history_desk);
            self.reply_mailbox.send((channel, status));
        }
    }

    /// Posts answers that a full mailbox delayed. True if some still wait.
    fn answer(&mut self) -> bool {
        let of_slots =
            self.slots.iter_mut().map(|slot| slot.answers.send_waiting()).filter(|is_behind| *is_behind).count();
        self.reply_mailbox.send_waiting() || of_slots > 0
    }
}

/// Encodes an event: its watch number, its number in its channel's history, and its record for this process.
fn encode(event: &Event, out: &mut Vec<u8>) {
    out.extend(event.watch.map_or(0, NonZeroU64::get).to_le_bytes());
    out.extend(event.number().map_or(0, NonZeroU64::get).to_le_bytes());
    Record::of(event, event.arrived, &clock_at(event.arrived)).write(out);
}

/// A clock that never steps, since records of backlogs do not outlive the process.
pub(crate) fn clock_at(now: Time) -> UtcClock {
    UtcClock { lane: now, utc: EPOCH + now.0 / 100 }
}

/// An arbitrary time, far from both ends of the range.
const EPOCH: u64 = 1 << 60;

#[cfg(test)]
mod tests;

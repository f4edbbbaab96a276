//! Persistent events, as the store's thread knows them: those to be written, and the unconfirmed consumers of each.
//!
//! A lane posts an event, and gets it back once it is on the disk; only then is it delivered, and its supplier acknowledged. Later the lane
//! also posts the event's consumers, each confirmation, and that all have confirmed. An event is removed from the disk once all consumers
//! have it and it is a dead letter for none ([`dead_letters`](super::dead_letters)). The list of unconfirmed consumers of an event is
//! written some time later: if the process ends before, the event is delivered to all subscribers then. A listed event takes hardly any
//! memory ([`unconfirmed`]), however long its consumers are away.

mod aside;
mod unconfirmed;

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use engine::{ChannelId, Completion, Disposition, Event, PendingEvent, ProxyId, ProxyKey};

use self::unconfirmed::{Unconfirmed, UnconfirmedEvent};
use crate::lane::io::net::Waker;
use crate::lane::links::mailbox::{BufferedMailbox, Inbox, Mailbox, mailbox};
use crate::lane::links::messages::LaneThread;
use crate::store::Reception;
use crate::store::dead_letters::{DeadLetterLimits, DeadLetters};
use crate::store::origins::SeenOrigin;
use crate::store::record::{consumers_of, count_consumers, read_aside, read_consumers};

/// Maximum events of one lane with the store at once, and their octets; the first may be of any size.
pub(crate) const EVENTS_MAX: usize = 4_096;
pub(crate) const EVENT_BYTES_MAX: usize = 16 << 20;
/// Capacity of a lane's mailbox for its other messages.
pub(super) const NEWS_MAX: usize = 8_192;
/// Delay of bookkeeping that no thread waits for, and the amounts at which it is written earlier.
pub(crate) const LATER: Duration = Duration::from_millis(100);
const LATER_MAX: usize = 4_096;
const LATER_BYTES_MAX: u64 = 16 << 20;
/// Maximum events, and octets of them, in a chunk of stored events that a lane is given at the start.
const CHUNK_EVENTS: usize = 1_024;
const CHUNK_BYTES: usize = 1 << 20;
/// Octets of an event in the file, beside its own.
const RECORD_OVERHEAD: u64 = 64;
/// Octets of an event's origin in the file.
const ORIGIN_OVERHEAD: usize = 64;

/// Message from a lane to the store.
#[derive(Debug)]
pub(crate) enum ToStore {
    /// Stores an event.
    Event(Posting),
    /// Progress of an event's delivery.
    Completion(Completion),
    /// An event was undeliverable for a consumer, and its channel names no `DeadLetterChannel`.
    Undeliverable(NonZeroU64, ProxyKey),
    /// An event with this origin was stored, but not admitted: when it arrives again, it is no repeat.
    NotTaken(SeenOrigin),
}

/// An event to store.
#[derive(Debug)]
pub(crate) struct Posting {
    pub(crate) pending_event: PendingEvent,
    /// The lane's number for the event, repeated in the answer.
    pub(crate) posting: u64,
    /// Whether the lane is notified once all consumers have the event.
    pub(crate) is_awaited: bool,
}

/// Message from the store to a lane. Answers about events are in the order of their posting, with the lane's number.
#[derive(Debug)]
pub(crate) enum FromStore {
    /// The event is on the disk, under its watch number.
    Stored(PendingEvent, u64),
    /// The event is not stored.
    NotStored(PendingEvent, u64, StoreRefusal),
    /// All consumers have a stored event. Its posting requested this notice.
    Completion(NonZeroU64),
    /// A dead letter is to be delivered once more.
    Again(Box<Again>),
}

/// A dead letter of a consumer that is to be delivered once more.
#[derive(Debug)]
pub(crate) struct Again {
    /// The event's new number; `from` is its old one.
    pub(crate) number: u64,
    pub(super) from: u64,
    pub(crate) consumer: ProxyKey,
    pub(crate) record: Vec<u8>,
}

/// The reason why an event is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreRefusal {
    /// The limit of stored octets is reached.
    Full,
    /// The disk has failed or is full.
    Failed,
}

/// A lane's end of its link to the store.
pub(crate) struct Link {
    pub(crate) messages: Mailbox<ToStore>,
    pub(crate) answers: Inbox<FromStore>,
    /// The events that were stored when the process began, until all are taken; for the main lane only.
    pub(crate) restored: Option<Receiver<Chunk>>,
    /// Origins of persistent events from other services, in the order in which they were written; for the main lane only. The link protocol
    /// takes them, to find repeats.
    pub(crate) origins_seen: Vec<SeenOrigin>,
}

/// The store's end of a lane's link.
pub(crate) struct Slot {
    thread: LaneThread,
    messages: Inbox<ToStore>,
    answers: BufferedMailbox<FromStore>,
    /// Number of messages posted before the last answers and not taken yet.
    earlier: usize,
}

/// Creates both ends of a lane's link. The first call is for the main lane.
pub(crate) fn link(thread: LaneThread, waker: &Arc<Waker>, to: &mut Reception) -> (Link, Slot) {
    let (to_store, messages) = mailbox(&to.waker, EVENTS_MAX + NEWS_MAX);
    // Room for the answers, and the notices beside them.
    let (to_lane, answers) = mailbox(waker, EVENTS_MAX + NEWS_MAX);
    let origins_seen = core::mem::take(&mut to.origins_seen);
    let link = Link { messages: to_store, answers, restored: to.restored.take(), origins_seen };
    (link, Slot { thread, messages, answers: BufferedMailbox::new(to_lane), earlier: 0 })
}

/// An event that was stored when the process began.
#[derive(Debug)]
struct Restored {
    number: u64,
    /// Index of the list of unconfirmed consumers in the chunk. `None` if none was stored.
    list: Option<usize>,
    /// Octets of the event's record.
    length: usize,
}

/// A chunk of the events that were stored when the process began, in ascending order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    events: Vec<Restored>,
    /// Lists of unconfirmed consumers; consecutive events with equal lists share one. `last_list` is the last in its stored form, and
    /// `list_bytes` the octets of all.
    lists: Vec<Arc<[ProxyId]>>,
    last_list: Vec<u8>,
    list_bytes: usize,
    /// The events' records, one after the other.
    records: Vec<u8>,
}

impl Chunk {
    /// Whether the chunk is large enough to be handed over.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= CHUNK_EVENTS || self.records.len() + self.list_bytes >= CHUNK_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Appends an event. `consumers`: the list of unconfirmed consumers in its stored form, if there is one.
    pub(crate) fn push(&mut self, number: u64, consumers: Option<&[u8]>, record: &[u8]) {
        let list = consumers.map(consumers_of).map(|octets| {
            if self.lists.is_empty() || self.last_list != octets {
                self.lists.push(read_consumers(octets).into());
                self.list_bytes += octets.len();
                self.last_list.clear();
                self.last_list.extend_from_slice(octets);
            }
            self.lists.len() - 1
        });
        self.events.push(Restored { number, list, length: record.len() });
        self.records.extend_from_slice(record);
    }

    /// Passes each event to `act`: its number, its unconfirmed consumers, and its record.
    pub(crate) fn each(self, mut act: impl FnMut(u64, Option<Arc<[ProxyId]>>, &[u8])) {
        let mut rest = self.records.as_slice();
        for Restored { number, list, length } in self.events {
            let (record, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = behind;
            act(number, list.and_then(|list| self.lists.get(list).cloned()), record);
        }
    }
}

/// An event that is stored or to be stored.
#[derive(Debug, Default)]
struct Open {
    /// Octets of the event's record.
    bytes: u64,
    home: u32,
    /// Unconfirmed consumers, with their channels, since a proxy's number alone is not unique.
    first: Option<ProxyKey>,
    others: Vec<ProxyKey>,
    /// Counts of lanes: that have named their consumers, that get the event by hand-over, that have taken it over, and that are done with
    /// it.
    begun: u16,
    bridges: u16,
    taken_over: u16,
    done: u16,
    is_done_at_home: bool,
    /// Whether a list of unconfirmed consumers is on the disk, and whether it is out of date.
    is_listed: bool,
    is_changed: bool,
    /// Whether the lane is notified once all consumers have the event.
    is_awaited: bool,
    /// Number of consumers in the list on the disk when the process began; 0 without a list.
    listed_before: usize,
    /// Whether all consumers have the event, so that it is only a dead letter.
    is_at_rest: bool,
}

impl Open {
    /// An event that waited for confirmations only.
    fn of(channel: ChannelId, UnconfirmedEvent { bytes, consumers, awaited_by }: UnconfirmedEvent) -> Self {
        let mut open = Self { bytes, begun: 1, done: 1, is_done_at_home: true, is_listed: true, ..Self::default() };
        (open.home, open.is_awaited) = (awaited_by.unwrap_or_default(), awaited_by.is_some());
        consumers.into_iter().for_each(|proxy| open.add(ProxyKey { channel, proxy }));
        open
    }

    /// The channel of all the consumers, if the event waits for their confirmations only, and the list on the disk is up to date.
    fn unconfirmed_in(&self) -> Option<ChannelId> {
        let is_known = self.is_complete() && self.is_done_on_lanes() && self.is_listed && !self.is_changed;
        let channel = self.first.filter(|_| is_known)?.channel;
        self.others.iter().all(|consumer| consumer.channel == channel).then_some(channel)
    }

    fn add(&mut self, consumer: ProxyKey) {
        match self.first {
            None => self.first = Some(consumer),
            Some(_) => self.others.push(consumer),
        }
    }

    /// Removes a consumer. Returns whether it was unconfirmed.
    fn remove(&mut self, consumer: ProxyKey) -> bool {
        if self.first == Some(consumer) {
            self.first = self.others.pop();
            return true;
        }
        let at = self.others.iter().position(|other| *other == consumer);
        at.map(|at| self.others.swap_remove(at)).is_some()
    }

    fn consumers(&self) -> impl Iterator<Item = ProxyId> {
        self.first.iter().chain(&self.others).map(|consumer| consumer.proxy)
    }

    /// Whether all consumers are known.
    fn is_complete(&self) -> bool {
        self.begun > self.bridges
    }

    /// Whether all lanes are done with the event. Consumers with a backlog on disk get it later, and confirm it themselves.
    fn is_done_on_lanes(&self) -> bool {
        self.is_done_at_home && self.done > self.taken_over
    }

    /// Whether all consumers have the event.
    fn is_delivered(&self) -> bool {
        self.is_done_on_lanes() && self.first.is_none()
    }
}

/// Pending writes.
#[derive(Debug, Default)]
struct Pending {
    /// Events in ascending order of their numbers; refused events among them have number 0.
    events: Vec<Unwritten>,
    /// Numbers of events with a changed list of unconfirmed consumers. Some may have been removed since.
    changed: Vec<u64>,
    /// Events to remove from the disk.
    gone: Vec<Gone>,
    /// Octets of the events to remove.
    gone_bytes: u64,
    /// Ranges of events that were refused since a write failed: first and last number of each batch. They may be on the disk all the same,
    /// and are removed.
    unsure: Vec<(u64, u64)>,
    /// Dead letters to be delivered once more.
    again: Vec<Again>,
}

/// An event to remove from the disk.
#[derive(Debug)]
struct Gone {
    number: u64,
    /// Whether a list of unconfirmed consumers is on the disk.
    is_listed: bool,
    bytes: u64,
}

impl Pending {
    /// Notes that an event's unconfirmed consumers have changed.
    fn note_changed(&mut self, number: u64, open: &mut Open) {
        if !core::mem::replace(&mut open.is_changed, true) {
            self.changed.push(number);
        }
    }
}

/// An event yet to be written or refused.
#[derive(Debug)]
struct Unwritten {
    /// 0 if the event is refused.
    number: u64,
    pending_event: PendingEvent,
    /// The lane that waits for the event, and its number there.
    thread: u32,
    posting: u64,
}

/// All stored events, with pending writes.
pub(crate) struct Journal {
    introductions: Inbox<Slot>,
    slots: Vec<Slot>,
    next: u64,
    /// Events that are in memory or in a backlog on disk. Ordered, so that consecutive events are adjacent: a start with a million of them
    /// takes two thirds of the time of a hash table.
    open: BTreeMap<u64, Open>,
    /// Events that wait for confirmations only.
    unconfirmed: Unconfirmed,
    bytes: u64,
    bytes_max: u64,
    pending: Pending,
    dead: DeadLetters,
    /// Number of events that all consumers have, and that are only dead letters.
    at_rest: usize,
    /// Dead letters dropped at a limit, not counted yet.
    dead_dropped: u64,
    /// Number of pending events that were posted before the last answers.
    posted_before_answers: usize,
    /// Origins of events that were stored but not admitted.
    not_taken: Vec<SeenOrigin>,
}

impl Journal {
    /// Creates a journal without events. `next` is the number of the next event.
    pub(crate) fn new(
        introductions: Inbox<Slot>,
        next: u64,
        (bytes_max, dead_letters): (u64, DeadLetterLimits),
    ) -> Self {
        Self {
            introductions,
            slots: Vec::new(),
            next,
            open: BTreeMap::new(),
            unconfirmed: Unconfirmed::default(),
            bytes: 0,
            bytes_max,
            pending: Pending::default(),
            dead: DeadLetters::new(dead_letters),
            at_rest: 0,
            dead_dropped: 0,
            posted_before_answers: 0,
            not_taken: Vec::new(),
        }
    }

    /// Takes the origins of events that were stored but not admitted since the last call.
    pub(crate) fn take_not_taken(&mut self) -> Vec<SeenOrigin> {
        core::mem::take(&mut self.not_taken)
    }

    /// Adds an event that was stored when the process began, of this many octets. `list`: its unconfirmed consumers and those for which it
    /// was a dead letter, if stored. Returns whether a lane is to deliver it: false if it is only a dead letter, or if all consumers have
    /// it, in which case it is removed.
    pub(crate) fn restore(
        &mut self,
        number: u64,
        octets: usize,
        list: Option<&[u8]>,
        channel: Option<ChannelId>,
    ) -> bool {
        let bytes = size_of(octets);
        self.bytes += bytes;
        let listed_before = list.map_or(0, count_consumers);
        let mut open =
            Open { bytes, home: LaneThread::MAIN.0, is_listed: list.is_some(), listed_before, ..Open::default() };
        for ((proxy, since), channel) in list.into_iter().flat_map(read_aside).zip(channel.into_iter().cycle()) {
            self.dead.add((number, ProxyKey { channel, proxy }), since, bytes);
        }
        let all_have_it = list.is_some() && listed_before == 0;
        if all_have_it {
            (open.begun, open.done, open.is_done_at_home) = (1, 1, true);
        }
        self.open.insert(number, open);
        self.complete(number);
        !all_have_it
    }

    /// Sets the maximum octets of stored events.
    pub(crate) const fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Notes that the store looks: lanes that post from now on wake it again. Called before messages are taken.
    pub(crate) fn look(&self) {
        self.introductions.look();
        self.slots.iter().for_each(|slot| slot.messages.look());
    }

    /// Lets lanes wake the store only after about this many further events. Called after [`look`](Self::look), before a limited wait.
    pub(crate) fn wait_for(&self, events: usize) {
        self.slots.iter().for_each(|slot| slot.messages.wait_for(events));
    }

    /// Takes the messages that lanes have posted.
    pub(crate) fn receive(&mut self) {
        while let Some(slot) = self.introductions.take() {
            self.slots.push(slot);
        }
        for at in 0..self.slots.len() {
            let (mut bytes, mut events) = (0, 0);
            while bytes < EVENT_BYTES_MAX && events < EVENTS_MAX {
                let Some(slot) = self.slots.get_mut(at) else { break };
                let (thread, message) = (slot.thread, slot.messages.take());
                let is_earlier = slot.earlier > 0;
                slot.earlier = slot.earlier.saturating_sub(1);
                match message {
                    None => break,
                    Some(ToStore::Completion(completed)) => self.note(thread, completed),
                    Some(ToStore::Undeliverable(watch, consumer)) => self.keep_aside(watch.get(), consumer),
                    Some(ToStore::NotTaken(origin)) => self.not_taken.push(origin),
                    Some(ToStore::Event(posting)) => {
                        bytes += posting.pending_event.bytes.len();
                        events += 1;
                        self.posted_before_answers += usize::from(is_earlier);
                        self.take_in(thread, posting);
                    }
                }
            }
        }
        self.slots.retain(|slot| !slot.messages.has_ended());
        self.look_at_leaving();
    }

    /// Whether all lanes have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.slots.is_empty() && self.introductions.has_ended()
    }

    fn take_in(&mut self, thread: LaneThread, posting: Posting) {
        let Posting { mut pending_event, posting, is_awaited } = posting;
        let thread = thread.0;
        let octets = size_of_event(&pending_event);
        if self.bytes + octets > self.bytes_max {
            // The refusal is answered in order, behind earlier events.
            self.pending.events.push(Unwritten { number: 0, pending_event, thread, posting });
            return;
        }
        let number = self.next;
        self.next += 1;
        self.bytes += octets;
        self.open.insert(number, Open { bytes: octets, home: thread, is_awaited, ..Open::default() });
        let event: &mut Event = &mut pending_event;
        event.watch = NonZeroU64::new(number);
        event.watch_each = true;
        self.pending.events.push(Unwritten { number, pending_event, thread, posting });
    }

    fn note(&mut self, thread: LaneThread, completed: Completion) {
        if let Completion::Gone { consumer } = completed {
            return self.note_gone(consumer);
        }
        let Some(number) = completed.watch().map(NonZeroU64::get) else { return };
        // The list on the disk may name a consumer that is gone.
        let is_reopened =
            matches!(completed, Completion::ForConsumer { consumer, .. } if self.reopen(consumer.channel, number));
        let Some(open) = self.open.get_mut(&number) else { return };
        match completed {
            Completion::Begins { consumer, .. } => open.add(consumer),
            Completion::Begun { bridges, .. } => {
                open.begun = open.begun.saturating_add(1);
                if open.home == thread.0 {
                    open.bridges = u16::try_from(bridges).unwrap_or(u16::MAX);
                }
                // The event was restored for the listed consumers only: if the number is the same, so are they.
                if open.listed_before == 0 || open.consumers().count() != open.listed_before {
                    self.pending.note_changed(number, open);
                }
            }
            Completion::ForConsumer { consumer, how, .. } => {
                // The event may have been restored for a consumer for which it was a dead letter, if the process ended before its list was
                // written.
                let is_had = how == Disposition::Delivered && self.dead.remove((number, consumer));
                if open.remove(consumer) || is_had || is_reopened {
                    self.pending.note_changed(number, open);
                }
                self.complete(number);
            }
            Completion::Gone { .. } => {}
            Completion::TakenOver { .. } => open.taken_over = open.taken_over.saturating_add(1),
            Completion::ForAll { .. } => {
                open.done = open.done.saturating_add(1);
                open.is_done_at_home |= open.home == thread.0;
                if open.home == thread.0 && open.taken_over < open.bridges {
                    // Pending hand-overs were dropped.
                    open.bridges = open.taken_over;
                    self.pending.note_changed(number, open);
                }
                self.complete(number);
                self.compact(number);
            }
        }
    }

    /// Moves an event from `unconfirmed` back to `open`. Returns whether it was there.
    fn reopen(&mut self, channel: ChannelId, number: u64) -> bool {
        if self.open.contains_key(&number) {
            return false;
        }
        let taken = self.unconfirmed.take(channel, number);
        taken.map(|event| self.open.insert(number, Open::of(channel, event))).is_some()
    }

    /// Moves an event to `unconfirmed` if it waits for confirmations only.
    fn compact(&mut self, number: u64) {
        let Some(channel) = self.open.get(&number).and_then(Open::unconfirmed_in) else { return };
        if !self.dead.has(number)
            && let Some(open) = self.open.remove(&number)
        {
            let awaited_by = open.is_awaited.then_some(open.home);
            let event = UnconfirmedEvent { bytes: open.bytes, consumers: open.consumers().collect(), awaited_by };
            self.unconfirmed.add(channel, number, &event);
        }
    }

    /// Once all consumers have an event: notifies the lane if requested, and removes the event unless it is a dead letter.
    fn complete(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number).filter(|open| open.is_delivered()) else { return };
        let (home, is_awaited) = (open.home, core::mem::take(&mut open.is_awaited));
        let was_at_rest = core::mem::replace(&mut open.is_at_rest, true);
        self.at_rest += usize::from(!was_at_rest);
        if let Some(watch) = NonZeroU64::new(number).filter(|_| is_awaited) {
            self.answer(home, FromStore::Completion(watch));
        }
        if !self.dead.has(number) {
            self.forget(number);
        }
    }

    /// Removes a consumer with a backlog on disk that is gone from all its events.
    fn note_gone(&mut self, consumer: ProxyKey) {
        let mut completed = BTreeSet::new();
        for (number, open) in self.open.iter_mut() {
            if open.remove(consumer) {
                self.pending.note_changed(*number, open);
                completed.extend(open.is_delivered().then_some(*number));
            }
        }
        completed.into_iter().for_each(|number| self.complete(number));
        self.unconfirmed.leave(consumer);
    }

    /// Updates the unconfirmed events of consumers that are gone, at most as many as are written at a time.
    fn look_at_leaving(&mut self) {
        while !self.has_much()
            && let Some((channel, number, event)) = self.unconfirmed.take_leaving()
        {
            let open = self.open.entry(number).or_insert_with(|| Open::of(channel, event));
            if open.first.is_some() {
                self.pending.note_changed(number, open);
            }
            self.complete(number);
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(open) = self.open.remove(&number) {
            self.bytes -= open.bytes;
            self.at_rest -= usize::from(open.is_at_rest);
            self.pending.gone.push(Gone { number, is_listed: open.is_listed, bytes: open.bytes });
            self.pending.gone_bytes += open.bytes;
        }
    }

    // ---- writing ----

    /// Number of events to be written that lanes wait for.
    pub(crate) fn awaited(&self) -> usize {
        self.pending.events.len()
    }

    /// Number of [awaited](Self::awaited) events posted before the last answers, hence not by suppliers that were just acknowledged.
    pub(crate) const fn posted_before_answers(&self) -> usize {
        self.posted_before_answers
    }

    /// Whether a lane waits for a write.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited() > 0
    }

    /// Whether so much bookkeeping is pending that it is written now.
    pub(crate) fn has_much(&self) -> bool {
        let Pending { changed, gone, gone_bytes, .. } = &self.pending;
        gone.len().max(changed.len()) >= LATER_MAX || *gone_bytes >= LATER_BYTES_MAX
    }

    /// Whether bookkeeping is pending.
    pub(crate) fn has_some(&self) -> bool {
        let Pending { changed, gone, unsure, again, .. } = &self.pending;
        !(gone.is_empty() && changed.is_empty() && unsure.is_empty() && again.is_empty())
            || self.unconfirmed.is_leaving()
    }

    /// Time until the store must look again without being woken. `None` if it need not.
    pub(crate) fn look_again_in(&self) -> Option<Duration> {
        // Progress of deliveries is posted without a call of the waker.
        (self.open.len() > self.at_rest || self.unconfirmed.len() > 0 || self.has_some()).then_some(LATER)
    }

    /// The events to write, with their numbers.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u64, &Event)> {
        let is_to_be_stored = |event: &&Unwritten| event.number > 0;
        self.pending.events.iter().filter(is_to_be_stored).map(|event| (event.number, &*event.pending_event))
    }

    /// Dead letters to be delivered once more. They are written no later than the removal of their old numbers from the dead letters.
    pub(crate) fn again(&self) -> &[Again] {
        &self.pending.again
    }

    /// The changed lists, at most this many: each event's number and unconfirmed consumers.
    pub(crate) fn lists(&self, at_once: usize) -> impl Iterator<Item = (u64, impl Iterator<Item = ProxyId>)> {
        let open = |number: &u64| Some((*number, self.open.get(number).filter(|open| open.is_complete())?));
        self.pending.changed.iter().take(at_once).filter_map(open).map(|(number, open)| (number, open.consumers()))
    }

    /// The events to remove, at most this many, and whether a list of unconfirmed consumers may be on the disk.
    pub(crate) fn gone(&self, at_once: usize) -> impl Iterator<Item = (u64, bool)> {
        let unsure = self.pending.unsure.iter().flat_map(|(first, last)| *first..=*last);
        let gone = self.pending.gone.iter().take(at_once).map(|gone| (gone.number, gone.is_listed));
        gone.chain(unsure.map(|number| (number, true)))
    }

    /// Notes that bookkeeping is written: this many removals and lists. Returns whether that was all.
    pub(crate) fn note_tidied(&mut self, at_once: usize) -> bool {
        let Pending { changed, gone, gone_bytes, .. } = &mut self.pending;
        let (lists, events) = (changed.len().min(at_once), gone.len().min(at_once));
        *gone_bytes -= gone.drain(..events).map(|gone| gone.bytes).sum::<u64>();
        let mut written = Vec::with_capacity(lists);
        for number in changed.drain(..lists) {
            if let Some(open) = self.open.get_mut(&number) {
                if open.is_complete() {
                    open.is_listed = true;
                } else {
                    // The list is written once its consumers are known, even if they are unchanged.
                    open.listed_before = 0;
                }
                open.is_changed = false;
            }
            written.push(number);
        }
        self.pending.unsure.clear();
        written.into_iter().for_each(|number| self.compact(number));
        let is_all = self.pending.changed.is_empty() && self.pending.gone.is_empty();
        for again in core::mem::take(&mut self.pending.again) {
            self.remove_dead_letter((again.from, again.consumer));
            self.answer(LaneThread::MAIN.0, FromStore::Again(Box::new(again)));
        }
        is_all
    }

    /// Octets of the events to write, in their stored form.
    pub(crate) fn bytes_to_keep(&self) -> u64 {
        let again = self.pending.again.iter().map(|again| size_of(again.record.len()));
        self.events().map(|(_, event)| size_of_event(event)).chain(again).sum()
    }

    /// Notes that the pending events are written, and answers all. Returns how many were refused at the limit.
    pub(crate) fn note_written(&mut self) -> u64 {
        let mut refused = 0;
        self.posted_before_answers = 0;
        self.slots.iter_mut().for_each(|slot| slot.earlier = slot.messages.waiting());
        // The vector is reused for the next batch.
        let mut events = core::mem::take(&mut self.pending.events);
        for Unwritten { number, pending_event, thread, posting } in events.drain(..) {
            refused += u64::from(number == 0);
            self.answer(
                thread,
                match number {
                    0 => FromStore::NotStored(pending_event, posting, StoreRefusal::Full),
                    _ => FromStore::Stored(pending_event, posting),
                },
            );
        }
        self.pending.events = events;
        refused
    }

    /// Notes a failed write: lanes get their events back, and bookkeeping is tried again. Returns the number of events not stored.
    pub(crate) fn note_failed(&mut self) -> u64 {
        let first = self.events().next().map(|(number, _)| number);
        let last = self.events().last().map(|(number, _)| number);
        let again = self.pending.again.iter().map(|again| (again.number, again.number));
        self.pending.unsure.extend(first.zip(last).into_iter().chain(again));
        self.refuse()
    }

    /// Gives the pending events back to their lanes without an attempt to write, and cancels pending replays. Returns the number of events
    /// not stored.
    pub(crate) fn refuse(&mut self) -> u64 {
        self.cancel_again();
        let events = core::mem::take(&mut self.pending.events);
        self.give_back(events)
    }

    /// Gives back the pending events of more than this many octets, for which there is no room. Returns their number.
    pub(crate) fn refuse_larger(&mut self, octets: u64) -> u64 {
        let is_larger = |event: &Unwritten| event.number > 0 && size_of_event(&event.pending_event) > octets;
        let (refused, left) = core::mem::take(&mut self.pending.events).into_iter().partition(is_larger);
        self.pending.events = left;
        self.give_back(refused)
    }

    fn give_back(&mut self, refused: Vec<Unwritten>) -> u64 {
        let mut events = 0;
        for Unwritten { number, mut pending_event, thread, posting } in refused {
            events += 1;
            (pending_event.watch, pending_event.watch_each) = (None, false);
            let why = if number == 0 { StoreRefusal::Full } else { StoreRefusal::Failed };
            self.bytes -= self.open.remove(&number).map_or(0, |open| open.bytes);
            self.answer(thread, FromStore::NotStored(pending_event, posting, why));
        }
        events
    }

    fn answer(&mut self, thread: u32, answer: FromStore) {
        // A lane that has ended needs no answer.
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.thread.0 == thread) {
            slot.answers.send(answer);
        }
    }

    /// Posts answers that a full mailbox delayed. True if some still wait.
    pub(crate) fn send_answers(&mut self) -> bool {
        self.slots.iter_mut().map(|slot| slot.answers.send_waiting()).filter(|is_behind| *is_behind).count() > 0
    }

    /// Octets of events on the disk, including those to be removed.
    pub(crate) const fn bytes_on_device(&self) -> u64 {
        self.bytes + self.pending.gone_bytes
    }

    /// The number of stored events, and their octets.
    pub(crate) fn stored(&self) -> (u64, u64) {
        (self.open.len() as u64 + self.unconfirmed.len(), self.bytes)
    }
}

/// Octets of an event in its stored form.
fn size_of_event(event: &Event) -> u64 {
    let origin = if event.origin().is_some() { ORIGIN_OVERHEAD } else { 0 };
    size_of(event.bytes.len() + event.names().0.len() + event.names().1.len() + origin)
}

const fn size_of(octets: usize) -> u64 {
    octets as u64 + RECORD_OVERHEAD
}

#[cfg(test)]
mod tests;

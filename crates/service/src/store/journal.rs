//! Events that outlive the process, as the store's thread knows them: which are to be written, and which consumers are yet to confirm each.
//!
//! A lane posts an event, and has it back when it is on the disk; only then does any consumer get it, and only then is its supplier
//! answered. What the lane learns of it from then on (its consumers, each confirmation, that all have confirmed) it posts, too. An event
//! goes from the disk when all have it and it is a dead letter for none ([`dead_letters`](super::dead_letters)). The list of consumers yet
//! to confirm one that stays is written some time later: a process that ends before has it go to all consumers that want it then. From then
//! on it takes hardly any memory ([`unconfirmed`]), however long its consumers are away.

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

/// Events of one lane that may be with the store at once, and octets of them; the first may be of any size.
pub(crate) const EVENTS_MAX: usize = 4_096;
pub(crate) const EVENT_BYTES_MAX: usize = 16 << 20;
/// Places for what else a lane posts.
pub(super) const NEWS_MAX: usize = 8_192;
/// Bookkeeping that no thread waits for is written after so long, or when there is so much of it.
pub(crate) const LATER: Duration = Duration::from_millis(100);
const LATER_MAX: usize = 4_096;
const LATER_BYTES_MAX: u64 = 16 << 20;
/// Events that were kept when the process began are given to a lane so many at a time, or octets of them.
const CHUNK_EVENTS: usize = 1_024;
const CHUNK_BYTES: usize = 1 << 20;
/// What an event takes in the file beside its octets.
const RECORD_OVERHEAD: u64 = 64;
/// The same of an event that has an origin.
const ORIGIN_OVERHEAD: usize = 64;

/// From a lane to the store.
#[derive(Debug)]
pub(crate) enum ToStore {
    /// An event to be kept.
    Event(Posting),
    /// What became of one.
    Completion(Completion),
    /// One was undeliverable for a consumer, and its channel names none to which such events go.
    Undeliverable(NonZeroU64, ProxyKey),
    /// An event with this origin was kept, and then not taken: it is to be taken when it comes again.
    NotTaken(SeenOrigin),
}

/// An event to be kept.
#[derive(Debug)]
pub(crate) struct Posting {
    pub(crate) pending_event: PendingEvent,
    /// By which its lane knows it when it comes back.
    pub(crate) posting: u64,
    /// Whether its lane is to be notified when all consumers have it.
    pub(crate) is_awaited: bool,
}

/// From the store to a lane: events in the order in which they were posted, with what their lane knows them by.
#[derive(Debug)]
pub(crate) enum FromStore {
    /// It is on the disk, and has the number by which it is known.
    Stored(PendingEvent, u64),
    /// It is not.
    NotStored(PendingEvent, u64, StoreRefusal),
    /// All consumers have an event that is kept, and its posting asked for this notice.
    Completion(NonZeroU64),
    /// One that was a dead letter is to be delivered once more.
    Again(Box<Again>),
}

/// An event that was a dead letter for a consumer, and is to be delivered once more.
#[derive(Debug)]
pub(crate) struct Again {
    /// The number that it has from now on, and that which it had.
    pub(crate) number: u64,
    pub(super) from: u64,
    pub(crate) consumer: ProxyKey,
    pub(crate) record: Vec<u8>,
}

/// Why an event is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreRefusal {
    /// As much is kept as may be.
    Full,
    /// The disk fails.
    Failed,
}

/// A lane's end of its link to the store.
pub(crate) struct Link {
    pub(crate) messages: Mailbox<ToStore>,
    pub(crate) answers: Inbox<FromStore>,
    /// Of the main lane: the events that were kept when the process began, until there are no more.
    pub(crate) restored: Option<Receiver<Chunk>>,
    /// Of the main lane: origins of persistent events that came from other services, in the order in which they were written. Taken by the
    /// protocol that knows repeats by them.
    pub(crate) origins_seen: Vec<SeenOrigin>,
}

/// The store's end.
pub(crate) struct Slot {
    thread: LaneThread,
    messages: Inbox<ToStore>,
    answers: BufferedMailbox<FromStore>,
    /// Messages that were there before the last answers were, and were not taken yet.
    earlier: usize,
}

/// Both ends of a lane's link. The first is the main lane's.
pub(crate) fn link(thread: LaneThread, waker: &Arc<Waker>, to: &mut Reception) -> (Link, Slot) {
    let (to_store, messages) = mailbox(&to.waker, EVENTS_MAX + NEWS_MAX);
    // Answers, and the notices beside them.
    let (to_lane, answers) = mailbox(waker, EVENTS_MAX + NEWS_MAX);
    let origins_seen = core::mem::take(&mut to.origins_seen);
    let link = Link { messages: to_store, answers, restored: to.restored.take(), origins_seen };
    (link, Slot { thread, messages, answers: BufferedMailbox::new(to_lane), earlier: 0 })
}

/// An event that was kept when the process began.
#[derive(Debug)]
struct Restored {
    number: u64,
    /// Index into the piece's lists of consumers yet to confirm; nothing if none was written.
    list: Option<usize>,
    /// Octets of its record.
    length: usize,
}

/// Some of the events that were kept when the process began, by rising number.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    events: Vec<Restored>,
    /// Consumers yet to confirm the events: as a rule one event after the other has the same list, of which there is one then. And the last
    /// as it is kept, and octets of all of them.
    lists: Vec<Arc<[ProxyId]>>,
    last_list: Vec<u8>,
    list_bytes: usize,
    /// What they say, one behind the other.
    records: Vec<u8>,
}

impl Chunk {
    /// Whether it has as much as a lane is given at a time.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= CHUNK_EVENTS || self.records.len() + self.list_bytes >= CHUNK_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// `consumers`: the list of those yet to confirm it, in its stored form, if there is one.
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

    /// Passes each event to `act`: its number, the consumers yet to confirm it, and its record.
    pub(crate) fn each(self, mut act: impl FnMut(u64, Option<Arc<[ProxyId]>>, &[u8])) {
        let mut rest = self.records.as_slice();
        for Restored { number, list, length } in self.events {
            let (record, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = behind;
            act(number, list.and_then(|list| self.lists.get(list).cloned()), record);
        }
    }
}

/// An event that is kept, or about to be.
#[derive(Debug, Default)]
struct Open {
    /// Octets of its record.
    bytes: u64,
    home: u32,
    /// Consumers yet to confirm it: a proxy's number alone may be that of one in each channel.
    first: Option<ProxyKey>,
    others: Vec<ProxyKey>,
    /// Lanes that have named its consumers, that there are beside its first, that have taken it over, and that have done with it.
    begun: u16,
    bridges: u16,
    taken_over: u16,
    done: u16,
    is_done_at_home: bool,
    /// Whether a list of the consumers yet to confirm it is on the disk, and whether they have changed since.
    is_listed: bool,
    is_changed: bool,
    /// Whether its lane is to be notified when all consumers have it.
    is_awaited: bool,
    /// How many the list had that was there when the process began; 0 if there was none.
    listed_before: usize,
    /// Whether all have it, and it is only a dead letter.
    is_at_rest: bool,
}

impl Open {
    /// One of which only confirmations were missing.
    fn of(channel: ChannelId, UnconfirmedEvent { bytes, consumers, awaited_by }: UnconfirmedEvent) -> Self {
        let mut open = Self { bytes, begun: 1, done: 1, is_done_at_home: true, is_listed: true, ..Self::default() };
        (open.home, open.is_awaited) = (awaited_by.unwrap_or_default(), awaited_by.is_some());
        consumers.into_iter().for_each(|proxy| open.add(ProxyKey { channel, proxy }));
        open
    }

    /// The channel of its consumers, if nothing is to come of it but their confirmations, and the disk has the list of them.
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

    /// Says whether it was for that one.
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

    /// Whether all its consumers are known.
    fn is_complete(&self) -> bool {
        self.begun > self.bridges
    }

    /// Whether all lanes have done with it. Consumers without memory for it get it later, each with its own confirmation.
    fn is_done_on_lanes(&self) -> bool {
        self.is_done_at_home && self.done > self.taken_over
    }

    /// Whether all consumers have it.
    fn is_delivered(&self) -> bool {
        self.is_done_on_lanes() && self.first.is_none()
    }
}

/// What is to be written.
#[derive(Debug, Default)]
struct Pending {
    /// Events by rising number, but for those that are not to be kept, which have none.
    events: Vec<Unwritten>,
    /// Those with a changed list of consumers yet to confirm them, and such as have gone since.
    changed: Vec<u64>,
    /// Those that are to go.
    gone: Vec<Gone>,
    /// Octets of these.
    gone_bytes: u64,
    /// Numbers of events that were refused since they could not be written. They may be there all the same, and have to go then: of each
    /// batch that was tried the first and the last.
    unsure: Vec<(u64, u64)>,
    /// Those that are to be delivered once more.
    again: Vec<Again>,
}

/// An event that is to go.
#[derive(Debug)]
struct Gone {
    number: u64,
    /// Whether a list of the consumers yet to confirm it is on the disk.
    is_listed: bool,
    bytes: u64,
}

impl Pending {
    /// Notes that the consumers yet to confirm an event have changed.
    fn note_changed(&mut self, number: u64, open: &mut Open) {
        if !core::mem::replace(&mut open.is_changed, true) {
            self.changed.push(number);
        }
    }
}

/// An event that is to be written.
#[derive(Debug)]
struct Unwritten {
    /// 0 if it is not to be kept.
    number: u64,
    pending_event: PendingEvent,
    /// The lane that waits for it, and what that knows it by.
    thread: u32,
    posting: u64,
}

/// All events that are kept.
pub(crate) struct Journal {
    introductions: Inbox<Slot>,
    slots: Vec<Slot>,
    next: u64,
    /// Those of which something is to come beside confirmations: they are in memory, or on their way to a disk. In order, so that those that
    /// come one after the other lie side by side: a start with a million of them takes two thirds of what it takes with a table by hashes.
    open: BTreeMap<u64, Open>,
    /// Those of which only confirmations are missing.
    unconfirmed: Unconfirmed,
    bytes: u64,
    bytes_max: u64,
    pending: Pending,
    dead: DeadLetters,
    /// Events that all consumers have, and that are only dead letters.
    at_rest: usize,
    /// Dead letters that had to go, not counted yet.
    dead_dropped: u64,
    /// Events among those to be written that were posted before the last answers were.
    posted_before_answers: usize,
    /// Origins of events that were not taken.
    not_taken: Vec<SeenOrigin>,
}

impl Journal {
    /// One without events, to which lanes are introduced. The next event has this number.
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

    /// Origins of events that were kept and then not taken, since this was last asked.
    pub(crate) fn take_not_taken(&mut self) -> Vec<SeenOrigin> {
        core::mem::take(&mut self.not_taken)
    }

    /// Adds an event that was kept when the process began, of so many octets. `list`: the consumers that were yet to confirm it, and those
    /// for which it was a dead letter, if that was written. Returns whether a lane is to have it: not if all have it, but those for which
    /// it is a dead letter. If there are none of those either, it goes.
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

    /// Octets of events that may be kept from now on.
    pub(crate) const fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Notes that the store looks: what lanes post from now on wakes it again. To be called before messages are taken.
    pub(crate) fn look(&self) {
        self.introductions.look();
        self.slots.iter().for_each(|slot| slot.messages.look());
    }

    /// Has lanes wake it for about so many events more, and not for each. To be called when the store has looked, before it waits for a
    /// limited time.
    pub(crate) fn wait_for(&self, events: usize) {
        self.slots.iter().for_each(|slot| slot.messages.wait_for(events));
    }

    /// Takes in what lanes have posted.
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

    /// Whether no lane can post anything any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.slots.is_empty() && self.introductions.has_ended()
    }

    fn take_in(&mut self, thread: LaneThread, posting: Posting) {
        let Posting { mut pending_event, posting, is_awaited } = posting;
        let thread = thread.0;
        let octets = size_of_event(&pending_event);
        if self.bytes + octets > self.bytes_max {
            // In its order, behind those that are to be written.
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
        // Its list on the disk may name a consumer that is gone.
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
                // It came back for the listed consumers only: if they are as many, they are the same.
                if open.listed_before == 0 || open.consumers().count() != open.listed_before {
                    self.pending.note_changed(number, open);
                }
            }
            Completion::ForConsumer { consumer, how, .. } => {
                // It may have come back to a consumer for which it was a dead letter, if the process ended before its consumers were
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
                    // What was to be handed over to the others was dropped.
                    open.bridges = open.taken_over;
                    self.pending.note_changed(number, open);
                }
                self.complete(number);
                self.compact(number);
            }
        }
    }

    /// Has an event among the open ones again, if only its confirmations were missing: whether they were.
    fn reopen(&mut self, channel: ChannelId, number: u64) -> bool {
        if self.open.contains_key(&number) {
            return false;
        }
        let taken = self.unconfirmed.take(channel, number);
        taken.map(|event| self.open.insert(number, Open::of(channel, event))).is_some()
    }

    /// Has an event among those of which only confirmations are missing, if it is one.
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

    /// If all consumers have an event, its lane is notified, if that is awaited, and it goes, unless it is a dead letter.
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

    /// A consumer is gone that was yet to get events for which there was no memory.
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

    /// Looks at unconfirmed events of consumers that are gone: of very many at no more than are written at a time.
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

    /// Number of events with a lane that waits for them to be written.
    pub(crate) fn awaited(&self) -> usize {
        self.pending.events.len()
    }

    /// How many of these were posted before the last answers were: not by suppliers that had those.
    pub(crate) const fn posted_before_answers(&self) -> usize {
        self.posted_before_answers
    }

    /// Whether a lane waits for something to be written.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited() > 0
    }

    /// Whether there is so much bookkeeping that no thread waits for that it is written now.
    pub(crate) fn has_much(&self) -> bool {
        let Pending { changed, gone, gone_bytes, .. } = &self.pending;
        gone.len().max(changed.len()) >= LATER_MAX || *gone_bytes >= LATER_BYTES_MAX
    }

    /// Whether there is something to be written.
    pub(crate) fn has_some(&self) -> bool {
        let Pending { changed, gone, unsure, again, .. } = &self.pending;
        !(gone.is_empty() && changed.is_empty() && unsure.is_empty() && again.is_empty())
            || self.unconfirmed.is_leaving()
    }

    /// Time until the store should look again without being woken: nothing if there is no need.
    pub(crate) fn look_again_in(&self) -> Option<Duration> {
        // What became of events is posted without a call of the waker.
        (self.open.len() > self.at_rest || self.unconfirmed.len() > 0 || self.has_some()).then_some(LATER)
    }

    /// The events that are to be kept, with their numbers.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u64, &Event)> {
        let is_to_be_stored = |event: &&Unwritten| event.number > 0;
        self.pending.events.iter().filter(is_to_be_stored).map(|event| (event.number, &*event.pending_event))
    }

    /// Those that are to be delivered once more. They are written with or before what says that they are no dead letters under their
    /// earlier numbers any more.
    pub(crate) fn again(&self) -> &[Again] {
        &self.pending.again
    }

    /// The changed lists, so many at most: each event's number, and the consumers yet to confirm it.
    pub(crate) fn lists(&self, at_once: usize) -> impl Iterator<Item = (u64, impl Iterator<Item = ProxyId>)> {
        let open = |number: &u64| Some((*number, self.open.get(number).filter(|open| open.is_complete())?));
        self.pending.changed.iter().take(at_once).filter_map(open).map(|(number, open)| (number, open.consumers()))
    }

    /// The events that are to go, so many, and whether their lists of consumers were, or may have been, written.
    pub(crate) fn gone(&self, at_once: usize) -> impl Iterator<Item = (u64, bool)> {
        let unsure = self.pending.unsure.iter().flat_map(|(first, last)| *first..=*last);
        let gone = self.pending.gone.iter().take(at_once).map(|gone| (gone.number, gone.is_listed));
        gone.chain(unsure.map(|number| (number, true)))
    }

    /// What no event waits for is on the disk: so many events that are to go, and lists. Says whether that was all.
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
                    // It is written when its consumers are known, even if they are the same as before.
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

    /// Octets of the events that are to be kept, as they are written.
    pub(crate) fn bytes_to_keep(&self) -> u64 {
        let again = self.pending.again.iter().map(|again| size_of(again.record.len()));
        self.events().map(|(_, event)| size_of_event(event)).chain(again).sum()
    }

    /// The events are on the disk. Says how many are not, because it would be too much.
    pub(crate) fn note_written(&mut self) -> u64 {
        let mut refused = 0;
        self.posted_before_answers = 0;
        self.slots.iter_mut().for_each(|slot| slot.earlier = slot.messages.waiting());
        // Its memory is for the next batch.
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

    /// Notes that the disk fails: waiting lanes get their events back. Bookkeeping is tried again. Returns how many events are not kept.
    pub(crate) fn note_failed(&mut self) -> u64 {
        let first = self.events().next().map(|(number, _)| number);
        let last = self.events().last().map(|(number, _)| number);
        let again = self.pending.again.iter().map(|again| (again.number, again.number));
        self.pending.unsure.extend(first.zip(last).into_iter().chain(again));
        self.refuse()
    }

    /// Gives waiting lanes their events back without trying to write, and leaves aside what was to be delivered once more. Returns how many
    /// events are not kept.
    pub(crate) fn refuse(&mut self) -> u64 {
        self.cancel_again();
        let events = core::mem::take(&mut self.pending.events);
        self.give_back(events)
    }

    /// The same of events of more than so many octets, for which there is no room. The others stay, in their order.
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
        // A lane that has ended releases its end.
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.thread.0 == thread) {
            slot.answers.send(answer);
        }
    }

    /// Posts the answers for which there was no room. True if there is none for some yet: it is to be tried again before long.
    pub(crate) fn send_answers(&mut self) -> bool {
        self.slots.iter_mut().map(|slot| slot.answers.send_waiting()).filter(|is_behind| *is_behind).count() > 0
    }

    /// Octets of events that the disk has: those that are kept, and those that are to go.
    pub(crate) const fn bytes_on_device(&self) -> u64 {
        self.bytes + self.pending.gone_bytes
    }

    /// How many events are kept, and octets of them.
    pub(crate) fn stored(&self) -> (u64, u64) {
        (self.open.len() as u64 + self.unconfirmed.len(), self.bytes)
    }
}

/// Octets of an event that is to be kept, as it is written.
fn size_of_event(event: &Event) -> u64 {
    let origin = if event.origin().is_some() { ORIGIN_OVERHEAD } else { 0 };
    size_of(event.bytes.len() + event.names().0.len() + event.names().1.len() + origin)
}

const fn size_of(octets: usize) -> u64 {
    octets as u64 + RECORD_OVERHEAD
}

#[cfg(test)]
mod tests;

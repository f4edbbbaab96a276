//! What a service and the end of a link have in memory and on disk.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use links::wire::{Event, Frame};
use links::{Framer, Origin, Receiver, Seen, Sender, hops};

use super::LIMITS;

/// A supplier and its number of the event.
pub(super) type Key = (u64, u64);
/// An event's place in an outbox: higher priorities first, then by arrival.
pub(super) type Place = (Reverse<i16>, u64);

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) origin: Origin,
    pub(super) hops: Vec<u64>,
    pub(super) is_persistent: bool,
    /// Whether no service but the first takes it.
    pub(super) is_rejected: bool,
    pub(super) priority: i16,
    pub(super) octets: usize,
}

/// An event that came in a session and is not complete.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    pub(super) link: usize,
    pub(super) end: usize,
    pub(super) session: u64,
    pub(super) sequence: u64,
}

/// An event on its way to the disk, and all copies of it that came meanwhile.
pub(super) struct Pending {
    pub(super) item: Item,
    pub(super) tickets: Vec<Ticket>,
}

pub(super) struct Service {
    pub(super) id: u64,
    pub(super) incarnation: u64,
    numbers: u64,
    pub(super) seen: Seen,
    pub(super) pending: Vec<Pending>,
    /// The origins of the persistent events on disk, with low marks of what is not there singly.
    pub(super) disk: Vec<Origin>,
    marks: Vec<Origin>,
    /// What its consumers had, with the incarnation.
    pub(super) delivered: Vec<(Item, u64)>,
}

/// One end of a link: the service's memory of it, and the session's.
pub(super) struct End {
    pub(super) service: usize,
    pub(super) outbox: BTreeMap<Place, Item>,
    pub(super) sender: Sender<(Place, Item)>,
    pub(super) peer_incarnation: Option<u64>,
    /// The persistent events that the peer has not acknowledged, as they are on disk; and those to be removed there.
    pub(super) backlog: BTreeMap<Place, Item>,
    pub(super) completed: Vec<Place>,
    pub(super) framer: Framer,
    pub(super) receiver: Receiver,
    /// Whether its flow has begun.
    pub(super) is_open: bool,
    pub(super) out: Vec<u8>,
}

impl Item {
    fn event<'a>(&self, flow: u32, sequence: u64, own: u64, bytes: &'a [u8]) -> Event<'a> {
        let hops = hops::onward(self.origin.service, &self.hops, own).expect("few services");
        Event {
            flow,
            sequence,
            origin: self.origin,
            hops,
            is_persistent: self.is_persistent,
            form: u32::from(self.is_rejected),
            tag: 0,
            priority: Some(self.priority),
            thread_priority: None,
            timeout_ns: None,
            start: None,
            stop: None,
            age_ns: 0,
            domain: b"Weather",
            name: b"Wind",
            bytes,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let (supplier, count) = self.key;
        let mut bytes = [supplier.to_le_bytes(), count.to_le_bytes()].concat();
        bytes.resize(16 + self.octets, 0);
        bytes
    }

    pub(super) fn frame_octets(&self, own: u64) -> usize {
        self.event(0, 1, own, &self.bytes()).octets()
    }

    pub(super) fn write(&self, flow: u32, sequence: u64, own: u64, out: &mut Vec<u8>) {
        Frame::Event(self.event(flow, sequence, own, &self.bytes())).write(out);
    }

    pub(super) fn read(event: &Event<'_>) -> Self {
        let number = |at: usize| u64::from_le_bytes(*event.bytes[at..].first_chunk().unwrap());
        Self {
            key: (number(0), number(8)),
            origin: event.origin,
            hops: event.hops.as_slice().to_vec(),
            is_persistent: event.is_persistent,
            is_rejected: event.form == 1,
            priority: event.priority.unwrap(),
            octets: event.bytes.len() - 16,
        }
    }
}

impl Service {
    pub(super) fn new(id: u64) -> Self {
        let (pending, disk, marks, delivered) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { id, incarnation: id, numbers: 0, seen: Seen::new(), pending, disk, marks, delivered }
    }

    /// The origin of the next event that it admits first.
    pub(super) fn number(&mut self) -> Origin {
        self.numbers += 1;
        Origin { service: self.id, era: self.incarnation, number: self.numbers }
    }

    /// A new process with what is on disk: single numbers, or marks and the numbers above them.
    pub(super) fn restart(&mut self, incarnation: u64, id: Option<u64>, compacts: bool) {
        self.pending.clear();
        self.seen = Seen::new();
        self.marks.iter().for_each(|mark| self.seen.restore_mark(*mark));
        self.disk.iter().for_each(|origin| self.seen.restore(*origin));
        if compacts {
            self.marks = self.seen.marks().collect();
            let seen = &self.seen;
            self.disk.retain(|origin| origin.number > seen.mark(origin.service, origin.era));
        }
        (self.incarnation, self.numbers) = (incarnation, 0);
        self.id = id.unwrap_or(self.id);
    }
}

impl End {
    pub(super) fn new(service: usize) -> Self {
        Self {
            service,
            outbox: BTreeMap::new(),
            sender: Sender::new(LIMITS),
            peer_incarnation: None,
            backlog: BTreeMap::new(),
            completed: Vec::new(),
            framer: Framer::new(LIMITS),
            receiver: Receiver::new(LIMITS),
            is_open: false,
            out: Vec::new(),
        }
    }

    pub(super) fn begin_session(&mut self) {
        (self.framer, self.receiver, self.is_open) = (Framer::new(LIMITS), Receiver::new(LIMITS), false);
    }

    pub(super) fn enqueue(&mut self, arrival: u64, item: &Item) {
        let place = (Reverse(item.priority), arrival);
        self.outbox.insert(place, item.clone());
        if item.is_persistent {
            self.backlog.insert(place, item.clone());
        }
    }

    /// A new process with what is on disk. Returns what is lost.
    pub(super) fn restart(&mut self) -> Vec<Key> {
        let mut lost: Vec<Item> = std::mem::take(&mut self.outbox).into_values().collect();
        self.sender.restart(|_| false, &mut |(_, item)| lost.push(item));
        let backlog = std::mem::take(&mut self.backlog);
        *self = Self { outbox: backlog.clone(), backlog, ..Self::new(self.service) };
        lost.iter().filter(|item| !item.is_persistent).map(|item| item.key).collect()
    }
}

//! Store of a lane's events: in memory, in order, at random speed. Like the thread that it stands for, it does one
//! thing after the other, and its answers take time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use engine::{Event, Lane, OutboxId, Overflow, ProxyKey, Time};
use fastrand::Rng;

use crate::random::{Bytes, labels};

#[derive(Default)]
pub(super) struct Shelf {
    errands: VecDeque<Overflow>,
    /// Events that each consumer has yet to read, with the remote filters to call.
    stored: BTreeMap<ProxyKey, VecDeque<(Rc<Event>, u8)>>,
    /// Stored events that a consumer has yet to read.
    read_by: Vec<Rc<Event>>,
    answers: VecDeque<Answer>,
    /// All events ever stored, each with the consumer.
    pub(super) ever: BTreeSet<(usize, ProxyKey)>,
    /// Number of lost events.
    pub(super) lost: u64,
}

enum Answer {
    Written(Arc<Event>),
    Back { outbox: OutboxId, records: VecDeque<(Rc<Event>, u8)>, lost: u64 },
    Freed(Rc<Event>),
}

impl Shelf {
    /// Takes over the lane's instructions.
    pub(super) fn look(&mut self, lane: &mut Lane) {
        self.errands.extend(std::iter::from_fn(|| lane.poll_overflow()));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.errands.is_empty() && self.answers.is_empty()
    }

    /// Whether no event is stored.
    pub(super) fn is_empty(&self) -> bool {
        self.read_by.is_empty()
    }

    /// Executes the next instruction. Once in a while some requested events cannot be read.
    pub(super) fn work(&mut self, random: &mut Rng) {
        match self.errands.pop_front() {
            None => return,
            // No channel stores its history here.
            Some(Overflow::Remember { .. } | Overflow::FetchHistory { .. } | Overflow::Drop { .. }) => return,
            Some(Overflow::Keep { event, .. }) => self.keep(event),
            Some(Overflow::Fetch { outbox, consumer, bytes }) => {
                let queue = self.stored.entry(consumer).or_default();
                let lost = if random.u32(..15) == 0 { random.usize(..4).min(queue.len()) } else { 0 };
                queue.drain(..lost);
                let mut left = u64::from(bytes);
                let mut records = VecDeque::new();
                while let Some((stored, ask)) = queue.pop_front() {
                    left = left.saturating_sub(stored.stored_bytes());
                    records.push_back((stored, ask));
                    if left == 0 {
                        break;
                    }
                }
                let lost = lost as u64;
                self.lost += lost;
                self.answers.push_back(Answer::Back { outbox, records, lost });
            }
            Some(Overflow::Forget { consumer }) => {
                self.stored.remove(&consumer);
            }
        }
        self.free();
    }

    /// Frees the events that all consumers have read.
    fn free(&mut self) {
        let (over, stored) = self.read_by.drain(..).partition(|stored| Rc::strong_count(stored) == 1);
        self.read_by = stored;
        self.answers.extend(Vec::into_iter(over).map(Answer::Freed));
    }

    fn keep(&mut self, event: Arc<Event>) {
        let label = labels(std::slice::from_ref(&event)).first().copied().unwrap_or(usize::MAX);
        let stored = Rc::new((*event).clone());
        for away in event.away() {
            let consumer = ProxyKey { channel: event.source.channel, proxy: away.consumer };
            self.stored.entry(consumer).or_default().push_back((Rc::clone(&stored), away.ask));
            self.ever.insert((label, consumer));
        }
        self.read_by.push(stored);
        self.answers.push_back(Answer::Written(event));
    }

    /// Gives the next answer, or one event of it.
    pub(super) fn answer(&mut self, lane: &mut Lane, now: Time) {
        match self.answers.pop_front() {
            None => {}
            Some(Answer::Written(event)) => lane.note_stored(event),
            Some(Answer::Freed(stored)) => {
                lane.note_freed(stored.source.channel, 1, stored.stored_bytes(), now);
            }
            Some(Answer::Back { outbox, mut records, lost }) => {
                let Some((stored, ask)) = records.pop_front() else { return lane.end_return(outbox, lost, now) };
                return_one(lane, (outbox, ask), &stored, now);
                drop(stored);
                self.answers.push_front(Answer::Back { outbox, records, lost });
                self.free();
            }
        }
    }
}

fn return_one(lane: &mut Lane, to: (OutboxId, u8), event: &Event, now: Time) {
    let mut pending_event = lane.begin_event_for(event.bytes.len());
    pending_event.bytes.extend_from_slice(&event.bytes);
    let (domain, name) = event.names();
    lane.classify(&mut pending_event, domain, name);
    (pending_event.priority, pending_event.timeout, pending_event.start, pending_event.stop) =
        (event.priority, event.timeout, event.start, event.stop);
    (pending_event.watch, pending_event.watch_each) = (event.watch, event.watch_each);
    pending_event.arrived = event.arrived;
    let (priority, timeout) = event.supplied();
    pending_event.set_supplied(priority, timeout);
    lane.return_event(to, (event.source, event.number()), pending_event, &Bytes, now);
}

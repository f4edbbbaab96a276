//! Turns inside a lane: topics with waiting messages, and a discipline that chooses the next topic.
//!
//! The unit is one message, served to all its destinations; nothing is interrupted, and a turn is given whenever a
//! message waits.
//!
//! [`Discipline::Shares`] is the topic scheduler of Tempo (§IV.B). Each topic has a share, which is a rate measured
//! in *virtual time*, and takes its turns by earliest deadline. The deadline of a topic with a waiting message is
//! `start + min(deadline, 1/share)`; taking a message moves virtual time to its deadline, and the topic's start on
//! by 1/share. A topic that gets a message while none waits starts at the current virtual time, or where its last
//! message left it if that is later. So over any stretch of virtual time during which it always has messages
//! waiting, a topic gets `share` messages for each second, within one message; and unused shares are not saved up,
//! for virtual time moves as fast as there is work. When nothing waits at all, the accounts are reset.
//!
//! The other disciplines count real time from each message's arrival.
//!
//! Adding or removing a message costs O(log topics + log messages of the topic). Memory is retained.

mod messages;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::slab::Slab;
use crate::{Discipline, Time, TopicSettings};
use messages::Messages;
pub(in crate::lane) use messages::Waiting;
use turns::{Share, VirtualTime};

/// Topics, and their messages waiting for a turn.
#[derive(Debug)]
pub(super) struct TopicQueues<M> {
    discipline: Discipline,
    topics: Slab<Topic<M>>,
    topics_count: usize,
    /// Slots of topics with waiting messages: a binary heap by `Topic::key`.
    heap: Vec<u32>,
    waiting: usize,
    virtual_time: VirtualTime,
    next_serial: u64,
}

#[derive(Debug)]
struct Topic<M> {
    settings: TopicSettings,
    /// Tie-break between topics: the lower goes first.
    order: u64,
    share: Share,
    messages: Messages<M>,
    key: Key,
    /// Position in the heap; `ABSENT` if no message waits.
    position: u32,
}

const ABSENT: u32 = u32::MAX;

/// Sort key of topics: the least goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    criticality: Reverse<i16>,
    /// Picoseconds of virtual time or nanoseconds of real time, by the discipline.
    deadline: i128,
    order: u64,
}

impl<M> TopicQueues<M> {
    pub(super) const fn new(discipline: Discipline) -> Self {
        Self {
            discipline,
            topics: Slab::new(),
            topics_count: 0,
            heap: Vec::new(),
            waiting: 0,
            virtual_time: VirtualTime::new(),
            next_serial: 0,
        }
    }

    // ---- topics ----

    /// Adds a topic. Returns its slot.
    pub(super) fn add(&mut self, settings: TopicSettings, order: u64) -> u32 {
        // Room for all topics, so that none is made when messages come.
        self.topics_count += 1;
        self.heap.reserve(self.topics_count - self.heap.len());
        let share = Share::new(settings.share, settings.deadline);
        let messages = Messages::new();
        self.topics.insert(|_, _| Topic { settings, order, share, messages, key: Key::default(), position: ABSENT })
    }

    /// Changes a topic's settings. Its messages keep waiting.
    pub(super) fn set(&mut self, slot: u32, settings: TopicSettings) {
        let Some(topic) = self.topics.get_mut(slot) else { return };
        if topic.settings != settings {
            topic.settings = settings;
            topic.share.set(settings.share, settings.deadline);
            self.place(slot);
        }
    }

    /// Removes a topic without waiting messages.
    pub(super) fn remove(&mut self, slot: u32) {
        self.take_out(slot);
        if self.topics.remove(slot).is_some() {
            self.topics_count -= 1;
        }
    }

    /// Removes a topic's messages, for [`put_back`](Self::put_back).
    pub(super) fn take_all(&mut self, slot: u32, into: &mut Vec<Waiting<M>>) {
        self.take_out(slot);
        let Some(topic) = self.topics.get_mut(slot) else { return };
        while let Some(waiting) = topic.messages.pop() {
            self.waiting -= 1;
            into.push(waiting);
        }
    }

    pub(super) fn set_discipline(&mut self, discipline: Discipline) {
        if self.discipline == discipline {
            return;
        }
        self.discipline = discipline;
        for slot in self.heap.clone() {
            self.place(slot);
        }
    }

    // ---- messages ----

    /// Queues a message for its topic's turn.
    pub(super) fn push(&mut self, slot: u32, priority: i16, message: M, now: Time) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.put_back(slot, Waiting { priority, serial, arrived: now, message });
    }

    /// Queues a removed message for a topic's turn, with its former rank among those that wait.
    pub(super) fn put_back(&mut self, slot: u32, waiting: Waiting<M>) {
        let Some(topic) = self.topics.get_mut(slot) else { return };
        if topic.messages.is_empty() {
            topic.share.awake(&self.virtual_time);
        }
        topic.messages.push(waiting);
        self.waiting += 1;
        self.place(slot);
    }

    /// Removes the message with the next turn.
    pub(super) fn pop(&mut self) -> Option<M> {
        let slot = *self.heap.first()?;
        let topic = self.topics.get_mut(slot)?;
        let waiting = topic.messages.pop()?;
        if self.discipline == Discipline::Shares {
            self.virtual_time.serve(&mut topic.share);
        } else {
            topic.share.advance();
        }
        self.waiting -= 1;
        if self.waiting == 0 {
            self.virtual_time.rest();
        }
        self.place(slot);
        Some(waiting.message)
    }

    pub(super) const fn len(&self) -> usize {
        self.waiting
    }

    // ---- the heap ----

    /// Updates a topic's position in the heap, after its messages, settings or share changed.
    fn place(&mut self, slot: u32) {
        let discipline = self.discipline;
        let Some(topic) = self.topics.get_mut(slot) else { return };
        let Some(key) = topic.key_under(discipline) else { return self.take_out(slot) };
        topic.key = key;
        if topic.position == ABSENT {
            self.heap.push(slot);
            self.note(self.heap.len() - 1);
        }
        self.restore(slot);
    }

    fn take_out(&mut self, slot: u32) {
        let Some(topic) = self.topics.get_mut(slot) else { return };
        let at = core::mem::replace(&mut topic.position, ABSENT);
        if at == ABSENT {
            return;
        }
        self.heap.swap_remove(at as usize);
        if let Some(moved) = self.heap.get(at as usize).copied() {
            self.note(at as usize);
            self.restore(moved);
        }
    }

    /// Moves a topic up or down to its position in the heap.
    fn restore(&mut self, slot: u32) {
        let Some(at) = self.topics.get(slot).map(|topic| topic.position as usize) else { return };
        let risen = self.rise(at);
        self.sink(risen);
    }

    fn rise(&mut self, mut at: usize) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.key(parent) <= self.key(at) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        at
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.key(child) < self.key(least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(a);
        self.note(b);
    }

    fn key(&self, at: usize) -> Option<Key> {
        self.heap.get(at).and_then(|slot| self.topics.get(*slot)).map(|topic| topic.key)
    }

    fn note(&mut self, at: usize) {
        if let Some(slot) = self.heap.get(at).copied()
            && let Some(topic) = self.topics.get_mut(slot)
        {
            topic.position = u32::try_from(at).unwrap_or(ABSENT);
        }
    }
}

impl<M> Topic<M> {
    /// Sort key of the topic; `None` if no message waits.
    fn key_under(&self, discipline: Discipline) -> Option<Key> {
        let first = self.messages.first()?;
        let deadline = || {
            let within = self
                .settings
                .deadline
                .map_or(1_000_000_000 / u128::from(self.settings.share.max(1)), |within| within.as_nanos());
            i128::from(first.arrived.0) + i128::try_from(within).unwrap_or(i128::MAX >> 1)
        };
        // Laxity is what is left until the deadline when the message's own time is taken off. The present is the same for
        // all that wait, and none of them has begun, so it does not count.
        let laxity = || deadline() - i128::try_from(self.settings.execution_time.as_nanos()).unwrap_or(i128::MAX >> 1);
        let (criticality, deadline) = match discipline {
            Discipline::Shares => (0, i128::try_from(self.share.deadline()).unwrap_or(i128::MAX)),
            Discipline::EarliestDeadline => (0, deadline()),
            Discipline::LeastLaxity => (0, laxity()),
            Discipline::MaximumUrgency => (self.settings.criticality, laxity()),
        };
        Some(Key { criticality: Reverse(criticality), deadline, order: self.order })
    }
}

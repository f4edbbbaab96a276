//! Deliveries from an outbox: when one may begin, how many events it has, and what becomes of unanswered ones.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{BATCH_BYTES_MAX, EPISODE_OVER_AFTER, Handed, Outbox, Split, Unanswered, WAITING_PULLS_MAX};
use crate::Time;
use crate::event::EventAt;
use crate::lane::events::Events;
use crate::lane::queue::{Ask, Entry, Queue};

impl Outbox {
    /// Whether a delivery can begin now. While deliveries fail, only one at a time is tried.
    #[inline]
    pub(in crate::lane) fn is_ready(&self, events: &Events, now: Time) -> bool {
        // The commonest obstacles are checked first, for speed.
        self.waiting.ready() > 0
            && self.has_demand()
            && !(self.suspended || self.dead || self.trouble.blocked.is_some() || self.trouble.retry_at.is_some())
            && (!self.waiting.is_special() || self.is_due(events, now))
    }

    #[inline]
    fn has_demand(&self) -> bool {
        let is_careful = self.trouble.failures > 0 || self.flight.split.left > 0;
        let window = if is_careful { 1 + self.aside.deliveries } else { u32::from(self.terms.settings.push_window) };
        if self.terms.pull { !self.flight.credits.is_empty() } else { self.flight.in_flight < window }
    }

    fn is_due(&self, events: &Events, now: Time) -> bool {
        self.is_batch_due(events, now) && !self.waiting.has_expired(now)
    }

    /// Most events in the next delivery.
    #[inline]
    fn batch_max(&self) -> u32 {
        // One event is also tried alone while another is set aside.
        if !self.terms.batches || self.aside.deliveries > 0 {
            return 1;
        }
        match self.flight.credits.front() {
            Some(credit) => self.pull_max(credit.get()),
            // A set comes whole.
            None if self.waiting.sets.is_some() => u32::MAX,
            None => self.terms.settings.batch_size_max.get(),
        }
    }

    /// Number of events for a client that pulls at most `most`. `MaximumBatchSize` limits it too, except that 1 does
    /// not: as the default it would make pulling several impossible for clients that never set it.
    fn pull_max(&self, most: u32) -> u32 {
        match self.terms.settings.batch_size_max.get() {
            _ if !self.terms.batches => 1,
            1 => most,
            bound => most.min(bound),
        }
    }

    /// OMG Notification Service 1.1, 2.5.5, `PacingInterval`: a batch leaves when it is full, or when its first event
    /// has waited for that long. An event with remote filters to call is a batch of its own, and so is full; events of
    /// a rejected batch have waited already.
    fn is_batch_due(&self, events: &Events, now: Time) -> bool {
        !self.waiting.policy().paced
            || self.waiting.ready() >= self.batch_max() as usize
            || self.waiting.next_ask(events) != Ask::NONE
            || self.paced_until(events).is_none_or(|due| due <= now)
    }

    /// When the pacing interval of the oldest waiting event ends.
    pub(super) fn paced_until(&self, events: &Events) -> Option<Time> {
        let oldest = self.waiting.oldest(events).filter(|_| self.waiting.policy().paced)?;
        Some(oldest + self.terms.settings.pacing_interval)
    }

    /// Whether a client waits for events.
    pub(in crate::lane) fn pulls_wait(&self) -> bool {
        !self.flight.credits.is_empty()
    }

    /// Begins the next delivery to a push consumer, or to the client that has waited longest. `taken` is called with
    /// each of its events.
    #[inline]
    pub(in crate::lane) fn hand_out(
        &mut self,
        events: &Events,
        now: Time,
        taken: impl FnMut(EventAt),
    ) -> Option<Handed> {
        let most = self.batch_max();
        let credit = if self.terms.pull { Some(self.flight.credits.pop_front()?) } else { None };
        self.begin((self.terms.pull, credit), most, (events, now), taken)
    }

    /// Begins a delivery of the waiting events to a client.
    pub(in crate::lane) fn hand_out_now(
        &mut self,
        most: u32,
        events: &Events,
        now: Time,
        taken: impl FnMut(EventAt),
    ) -> Option<Handed> {
        if self.waiting.ready() == 0 || self.suspended || self.dead || self.waiting.has_expired(now) {
            return None;
        }
        self.begin((true, None), self.pull_max(most), (events, now), taken)
    }

    #[inline]
    fn begin(
        &mut self,
        (pulled, credit): (bool, Option<NonZeroU32>),
        most: u32,
        (events, now): (&Events, Time),
        mut taken: impl FnMut(EventAt),
    ) -> Option<Handed> {
        let entry = self.waiting.pop(events)?;
        let (serial, ask) = (self.flight.next_serial, entry.ask);
        let correlated = self.waiting.sets.as_ref().and_then(|sets| sets.place(entry.event));
        self.flight.next_serial = serial.wrapping_add(1);
        // The connection of the client that pulled reports the outcome.
        let deadline = if pulled { Entry::NEVER } else { self.deadline(now, ask.needs_filter_call()) };
        self.flight.in_flight += 1;
        taken(entry.event);
        self.flight.unanswered.push_back(Unanswered { entry, deadline, serial, credit, pulled });
        let most = if ask.is_repeated() { most.min(self.flight.split.batch_max) } else { most };
        // An event with remote filters to call comes alone.
        if most > 1 && !ask.needs_filter_call() {
            self.fill_batch(most - 1, Unanswered { entry, deadline, serial, credit: None, pulled }, events, taken);
        }
        Some(Handed { serial, deadline, pulled, ask, correlated })
    }

    /// Adds up to `most` events to a delivery that has begun with `begun`.
    fn fill_batch(&mut self, most: u32, begun: Unanswered, events: &Events, mut taken: impl FnMut(EventAt)) {
        let set_of = |queue: &Queue, event| Some(queue.sets.as_ref()?.place(event)?.set);
        let set = set_of(&self.waiting, begun.entry.event);
        // What waits for the last event of a set is bounded as a whole.
        let most_bytes = if set.is_some() { u64::MAX } else { BATCH_BYTES_MAX };
        let mut room = most_bytes.saturating_sub(events.weight(begun.entry.event));
        for _ in 0..most {
            let Some((ask, next)) = self.waiting.next(events) else { return };
            let weight = events.weight(next);
            // Repeats are marked by the batch.
            if ask != begun.entry.ask || weight > room || set_of(&self.waiting, next) != set {
                return;
            }
            room -= weight;
            let Some(entry) = self.waiting.pop(events) else { return };
            taken(entry.event);
            self.flight.unanswered.push_back(Unanswered { entry, ..begun });
        }
    }

    /// Index of the first event of an unanswered delivery.
    #[inline]
    pub(in crate::lane) fn position(&self, serial: u32) -> Option<usize> {
        // Serials rise from front to back, with gaps where a later one was answered first. They are compared by their
        // distance from the front because they wrap around.
        let front = self.flight.unanswered.front()?.serial;
        if front == serial {
            return Some(0);
        }
        let distance = |of: u32| of.wrapping_sub(front);
        let at = self.flight.unanswered.partition_point(|event| distance(event.serial) < distance(serial));
        self.flight.unanswered.get(at).is_some_and(|event| event.serial == serial).then_some(at)
    }

    /// Ends the delivery at `position`. Returns its number of events.
    #[inline]
    pub(in crate::lane) fn end(&mut self, position: usize) -> usize {
        self.flight.in_flight = self.flight.in_flight.saturating_sub(1);
        self.count_of(position)
    }

    /// Removes the unanswered event at the front.
    #[inline]
    pub(in crate::lane) fn pop_unanswered(&mut self, events: &Events) -> Option<EventAt> {
        let event = self.flight.unanswered.pop_front()?.entry.event;
        self.weight -= events.weight(event);
        Some(event)
    }

    /// Removes `count` unanswered events from `position` on.
    pub(in crate::lane) fn take_unanswered(
        &mut self,
        position: usize,
        count: usize,
        events: &Events,
        into: &mut Vec<EventAt>,
    ) {
        for event in self.flight.unanswered.drain(position..position + count) {
            self.weight -= events.weight(event.entry.event);
            into.push(event.entry.event);
        }
    }

    /// Removes events from the delivery at `position`, by their rising indexes in it. The last one left stays.
    #[cold]
    pub(in crate::lane) fn leave_out(
        &mut self,
        position: usize,
        which: &[u32],
        events: &Events,
        into: &mut Vec<EventAt>,
    ) {
        let count = self.count_of(position);
        // The client that waits for this delivery gets the other events.
        let credit = self.flight.unanswered.get_mut(position).and_then(|event| event.credit.take());
        let places = which.iter().rev().map(|place| *place as usize).filter(|place| *place < count);
        for place in places.take(count - 1) {
            self.take_unanswered(position + place, 1, events, into);
        }
        if let Some(first) = self.flight.unanswered.get_mut(position) {
            first.credit = credit;
        }
        if self.flight.split.left > 0 {
            self.note_split(position, into.len() as u64, false);
        }
    }

    /// Number of events of the delivery at `position`.
    #[inline]
    fn count_of(&self, position: usize) -> usize {
        if !self.terms.batches {
            return 1;
        }
        let serial = |at: usize| self.flight.unanswered.get(at).map(|event| event.serial);
        let (first, mut end) = (serial(position), position + 1);
        while serial(end) == first {
            end += 1;
        }
        end - position
    }

    /// Whether the delivery at `position` was pulled.
    #[inline]
    pub(in crate::lane) fn is_pulled(&self, position: usize) -> bool {
        self.flight.unanswered.get(position).is_some_and(|event| event.pulled)
    }

    /// Puts back the delivery at `position` and all later ones. Returns the number of events.
    pub(in crate::lane) fn put_back_from(&mut self, position: usize, events: &Events, now: Time) -> u64 {
        let mut count = 0;
        let mut last = None;
        // The last one first, so that each gets its place at the front of the waiting events.
        while self.flight.unanswered.len() > position
            && let Some(Unanswered { entry, serial, .. }) = self.flight.unanswered.pop_back()
        {
            self.flight.in_flight -= u32::from(last != Some(serial));
            last = Some(serial);
            self.waiting.put_back(entry, events, now);
            count += 1;
        }
        count
    }

    /// Puts back the delivery at `position` and no other. Returns the number of events.
    pub(in crate::lane) fn put_back_one(&mut self, position: usize, events: &Events, now: Time) -> u64 {
        let count = self.end(position);
        for event in self.flight.unanswered.drain(position..position + count).rev() {
            self.waiting.put_back(event.entry, events, now);
        }
        count as u64
    }

    // ---- batches that were rejected, or failed ----

    /// Whether the delivery at `position` has more than one event.
    pub(in crate::lane) fn is_batch(&self, position: usize) -> bool {
        self.count_of(position) > 1
    }

    /// The first event of the delivery at `position`.
    pub(in crate::lane) fn first_of(&self, position: usize) -> Option<EventAt> {
        self.flight.unanswered.get(position).map(|event| event.entry.event)
    }

    /// Puts back a rejected batch, to be delivered again in batches of half its size, and all later deliveries, so
    /// that the order stays. Returns the number of events.
    pub(in crate::lane) fn split(&mut self, position: usize, events: &Events, now: Time) -> u64 {
        let (count, is_pulled) = (self.count_of(position), self.is_pulled(position));
        // Each client that pulls has its own batch.
        let end = if is_pulled { position + count } else { self.flight.unanswered.len() };
        for event in
            self.flight.unanswered.range_mut(position..end).filter(|event| !event.entry.ask.needs_filter_call())
        {
            event.entry.ask = event.entry.ask.repeated();
        }
        let put_back = match is_pulled {
            true => self.put_back_one(position, events, now),
            false => self.put_back_from(position, events, now),
        };
        self.flight.split = Split {
            batch_max: u32::try_from(count / 2).unwrap_or(u32::MAX),
            left: self.flight.split.left.max(put_back),
        };
        put_back
    }

    /// Makes the events of the failed delivery at `position` be delivered alone once everything is put back.
    pub(super) fn single_out(&mut self, position: usize) {
        let end = position + self.count_of(position);
        for event in
            self.flight.unanswered.range_mut(position..end).filter(|event| !event.entry.ask.needs_filter_call())
        {
            event.entry.ask = event.entry.ask.repeated();
        }
        let put_back = self.flight.unanswered.len() as u64;
        self.flight.split = Split { batch_max: 1, left: self.flight.split.left.max(put_back) };
    }

    /// Notes that `count` events from `position` on are complete. Batches grow again with each one that the consumer takes of the events
    /// put back.
    #[cold]
    pub(in crate::lane) fn note_split(&mut self, position: usize, count: u64, taken: bool) {
        let Split { batch_max, left } = self.flight.split;
        let taken = taken && self.flight.unanswered.get(position).is_some_and(|event| event.entry.ask.is_repeated());
        let grown = if taken { batch_max.saturating_mul(2) } else { batch_max };
        self.flight.split = match left.saturating_sub(count) {
            0 => Split::NONE,
            left => Split { batch_max: grown, left },
        };
    }

    /// Notes a rejected event. Returns whether it begins an episode: the first for [`EPISODE_OVER_AFTER`].
    pub(in crate::lane) fn begins_rejections(&mut self, now: Time) -> bool {
        let before = self.trouble.rejected_at.replace(now);
        before.is_none_or(|before| now.since(before) >= EPISODE_OVER_AFTER)
    }

    // ---- clients that wait for events to pull ----

    /// Adds a waiting pull. Returns whether there was room for it.
    pub(in crate::lane) fn wait(&mut self, most: u32) -> bool {
        let has_room = self.flight.credits.len() < WAITING_PULLS_MAX as usize;
        if has_room {
            self.flight.credits.push_back(NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN));
        }
        has_room
    }

    /// Removes the latest waiting pull.
    pub(in crate::lane) fn cancel_wait(&mut self) {
        self.flight.credits.pop_back();
    }

    /// Makes the client that waited for the delivery at `position`, which failed, wait again, before all others.
    pub(in crate::lane) fn wait_again(&mut self, position: usize) {
        if let Some(credit) = self.flight.unanswered.get_mut(position).and_then(|event| event.credit.take()) {
            self.flight.credits.push_front(credit);
        }
    }
}

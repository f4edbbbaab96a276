//! Dead letters in the journal: how they are added, removed and replayed.

use engine::{ChannelId, ProxyId, ProxyKey};

use super::{Again, Journal, Open, size_of};
use crate::lane::links::messages::LaneThread;
use crate::store::dead_letters::{DeadLetterId, DeadLetters};
use crate::time;

impl Journal {
    /// Enforces the limits after all events are restored, and drops dead letters of channels that are gone.
    pub(crate) fn trim_dead_letters(&mut self, is_there: impl Fn(ChannelId) -> bool) {
        let channels: Vec<ChannelId> = self.dead.channels().collect();
        for channel in channels {
            if is_there(channel) { self.drop_beyond(channel) } else { self.drop_dead_letters(channel) }
        }
    }

    /// Makes an event that was undeliverable for a consumer a dead letter, within the limits.
    pub(super) fn keep_aside(&mut self, number: u64, consumer: ProxyKey) {
        self.reopen(consumer.channel, number);
        let Some(open) = self.open.get_mut(&number) else { return };
        open.remove(consumer);
        self.pending.note_changed(number, open);
        if self.dead.may_have(open.bytes) {
            self.dead.add((number, consumer), time::utc(), open.bytes);
            self.drop_beyond(consumer.channel);
        } else {
            self.dead_dropped += 1;
        }
        self.complete(number);
    }

    /// Drops the oldest dead letters beyond a channel's limits.
    fn drop_beyond(&mut self, channel: ChannelId) {
        while let Some(dead_letter) = self.dead.first_beyond(channel) {
            self.dead_dropped += u64::from(self.remove_dead_letter(dead_letter));
        }
    }

    /// Drops the dead letters of a channel that is gone.
    pub(crate) fn drop_dead_letters(&mut self, channel: ChannelId) {
        while let Some(dead_letter) = self.dead.first_of(channel) {
            self.dead_dropped += u64::from(self.remove_dead_letter(dead_letter));
        }
    }

    /// Removes a dead letter. Returns whether it was one.
    pub(crate) fn remove_dead_letter(&mut self, dead_letter: DeadLetterId) -> bool {
        let is_removed = self.dead.remove(dead_letter);
        if is_removed {
            self.note_changed_aside(dead_letter.0);
            self.complete(dead_letter.0);
        }
        is_removed
    }

    /// Delivers a dead letter to its consumer once more, under a new number, once that is on the disk. Until the lane has named the
    /// consumer it is stored as a dead letter: if the process ends before, it is neither lost nor delivered to all.
    pub(crate) fn replay(&mut self, dead_letter: DeadLetterId, record: Vec<u8>) {
        let number = self.next;
        self.next += 1;
        let bytes = size_of(record.len());
        self.bytes += bytes;
        self.open.insert(number, Open { bytes, home: LaneThread::MAIN.0, is_listed: true, ..Open::default() });
        self.note_changed_aside(dead_letter.0);
        self.pending.again.push(Again { number, from: dead_letter.0, consumer: dead_letter.1, record });
    }

    /// Cancels pending replays that cannot be written.
    pub(super) fn cancel_again(&mut self) {
        for Again { number, from, .. } in core::mem::take(&mut self.pending.again) {
            self.bytes -= self.open.remove(&number).map_or(0, |open| open.bytes);
            self.note_changed_aside(from);
        }
    }

    fn note_changed_aside(&mut self, number: u64) {
        if let Some(open) = self.open.get_mut(&number) {
            self.pending.note_changed(number, open);
        }
    }

    /// Whether an event is a dead letter for a consumer, without a pending replay.
    pub(crate) fn is_aside(&self, dead_letter: DeadLetterId) -> bool {
        let is_replayed = |again: &Again| (again.from, again.consumer) == dead_letter;
        self.dead.is_there(dead_letter) && !self.pending.again.iter().any(is_replayed)
    }

    /// The consumers for which an event is stored as a dead letter, and since when.
    pub(crate) fn aside_of(&self, number: u64) -> impl Iterator<Item = (ProxyId, u64)> {
        let aside = self.dead.of_event(number).filter(move |(consumer, _)| self.is_aside((number, *consumer)));
        aside.map(|(consumer, since)| (consumer.proxy, since))
    }

    /// All dead letters.
    pub(crate) const fn dead_letters(&self) -> &DeadLetters {
        &self.dead
    }

    /// Takes the number of dead letters dropped since the last call.
    pub(crate) fn take_dead_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dead_dropped)
    }
}

//! The lane's part of backlogs on disk: it passes on what its engine stores there, and takes back what is read.

use std::num::NonZeroU64;

use core::time::Duration;
use engine::{OutboxId, Overflow, Time};

use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::run::Worker;
use crate::log::first_of;
use crate::overflow::history::Chunk;
use crate::overflow::{Back, FromOverflow, Link, ToOverflow, clock_at};
use crate::protocols::Protocols;
use crate::store::record::Record;
use crate::time::UtcClock;

/// Backlogs of a lane that are on disk, or on their way back.
#[derive(Default)]
pub(crate) struct Backlogs {
    /// `None` where there is no store.
    link: Option<Link>,
    /// Answer with events that have yet to reach their outbox, and the octets already taken from it. No other answer is looked at before.
    back: Option<FromOverflow>,
    taken: usize,
    /// Time when the thread was last woken.
    rung: Time,
    /// Octets of events that the thread has yet to write, and the last time when it wrote some or had none to write.
    unwritten: usize,
    written: Time,
}

/// Minimum interval in which the thread is woken to write: nothing waits for that, and it writes much at a time.
const RING_EVERY: Duration = Duration::from_millis(10);
/// Unwritten octets above which the thread is behind; and the time without progress after which it is not waited for.
const UNWRITTEN_MAX: usize = 16 << 20;
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

impl Backlogs {
    pub(crate) fn new(link: Option<Link>) -> Self {
        Self { link, ..Self::default() }
    }
}

impl Worker {
    /// Serves answers of the thread that keeps events on disk, in order. True if there are more.
    pub(crate) fn serve_overflow(&mut self) -> bool {
        let core = &mut self.core;
        let Some(link) = &mut core.backlogs.link else { return false };
        link.answers.look();
        let mut left = Budget::FROM_DISK.events;
        for _ in 0..Budget::MESSAGES.events {
            core.backlogs.take_back(&mut left, &mut core.protocols, &mut core.cx);
            if core.backlogs.back.is_some() {
                return true;
            }
            let Some(answer) = core.backlogs.link.as_mut().and_then(|link| link.answers.take()) else { break };
            match answer {
                FromOverflow::Written(event) => {
                    core.backlogs.unwritten = core.backlogs.unwritten.saturating_sub(event.bytes.len());
                    core.backlogs.written = core.cx.clock.now;
                    core.cx.lane.note_stored(event);
                }
                FromOverflow::Remembered(event) => core.cx.lane.note_remembered(event, core.cx.clock.now),
                FromOverflow::Freed(channel, freed) => {
                    core.cx.lane.note_freed(channel, freed.events, freed.bytes, core.cx.clock.now);
                }
                back => core.backlogs.back = Some(back),
            }
        }
        core.backlogs.back.is_some() || core.backlogs.link.as_ref().is_some_and(|link| link.answers.waiting() > 0)
    }
}

impl Backlogs {
    /// Whether the thread has few octets left to write, or has made no progress for a second: its disk may fail.
    pub(crate) fn keeps_up_with_backlogs(&self, cx: &Context) -> bool {
        let Backlogs { link, unwritten, written, .. } = self;
        let has_room = link.as_ref().is_none_or(|link| link.messages.room() > 0) && *unwritten <= UNWRITTEN_MAX;
        has_room || *written + WRITTEN_WITHIN < cx.clock.now
    }

    /// Passes on the engine's requests to store events and to read them back.
    pub(crate) fn send_errands(&mut self, cx: &mut Context) {
        let Some(link) = &mut self.link else { return };
        let (mut has_some, mut is_awaited) = (false, false);
        // Requests without room wait in the engine: there is room when answers come.
        while link.messages.room() > 0
            && let Some(errand) = cx.lane.poll_overflow()
        {
            has_some = true;
            is_awaited |= matches!(errand, Overflow::Fetch { .. } | Overflow::FetchHistory { .. });
            let message = match errand {
                Overflow::Keep { event, budget_bytes } => {
                    if self.unwritten == 0 {
                        self.written = cx.clock.now;
                    }
                    self.unwritten += event.bytes.len();
                    ToOverflow::Keep(event, budget_bytes)
                }
                Overflow::Fetch { outbox, consumer, bytes } => ToOverflow::Fetch(outbox, consumer, bytes),
                Overflow::Forget { consumer } => ToOverflow::Forget(consumer),
                Overflow::Remember { event, limits } => ToOverflow::Remember(event, limits),
                Overflow::FetchHistory { outbox, consumer, start, bytes } => {
                    ToOverflow::FetchHistory(outbox, consumer, start, bytes)
                }
                Overflow::Drop { channel } => ToOverflow::Drop(channel),
            };
            let _ = link.messages.send_quietly(message);
        }
        let is_much = link.messages.room() < link.messages.capacity() / 2;
        if has_some && (is_awaited || is_much || self.rung + RING_EVERY <= cx.clock.now) {
            self.rung = cx.clock.now;
            link.messages.notify();
        }
    }

    /// Hands some of the events that were read back to the outbox that requested them.
    fn take_back(&mut self, left: &mut u32, protocols: &mut Protocols, cx: &mut Context) {
        let Some(back) = self.back.take() else { return };
        let is_done = match &back {
            FromOverflow::Back(back) => self.take_backlog(back, left, protocols, cx),
            FromOverflow::FetchedHistory(outbox, chunk) => self.take_history(*outbox, chunk, left, protocols, cx),
            _ => true,
        };
        if !is_done {
            self.back = Some(back);
            return;
        }
        self.taken = 0;
    }

    fn take_backlog(&mut self, back: &Back, left: &mut u32, protocols: &mut Protocols, cx: &mut Context) -> bool {
        while let Some(([ask], event, behind)) = first_of(back.records.get(self.taken..).unwrap_or_default()) {
            if core::mem::replace(left, left.saturating_sub(1)) == 0 {
                return false;
            }
            self.take_one_back(back.outbox, ask, event, protocols, cx);
            self.taken = back.records.len() - behind.len();
        }
        cx.lane.end_return(back.outbox, back.lost, cx.clock.now);
        true
    }

    fn take_history(
        &mut self,
        outbox: OutboxId,
        chunk: &Chunk,
        left: &mut u32,
        protocols: &mut Protocols,
        cx: &mut Context,
    ) -> bool {
        let clock = UtcClock::new(cx.clock.now, cx.clock.since_1970);
        while let Some((number, event, behind)) = first_of(chunk.records.get(self.taken..).unwrap_or_default()) {
            if core::mem::replace(left, left.saturating_sub(1)) == 0 {
                return false;
            }
            self.taken = chunk.records.len() - behind.len();
            // The checksum was right, so the record is as it was written.
            if let Some(record) = Record::read(event) {
                let pending_event = protocols.event_of(&record, (&clock, record.arrived()), false, cx);
                cx.lane.return_history_event(
                    outbox,
                    (record.source, u64::from_le_bytes(number)),
                    pending_event,
                    protocols,
                    cx.clock.now,
                );
            }
        }
        cx.lane.end_history_fetch(outbox, chunk.fetched, protocols, cx.clock.now);
        true
    }

    fn take_one_back(&mut self, outbox: OutboxId, ask: u8, octets: &[u8], protocols: &mut Protocols, cx: &mut Context) {
        let Some((watch, octets)) = octets.split_first_chunk::<8>() else { return };
        let Some((number, record)) = octets.split_first_chunk::<8>() else { return };
        // The checksum was right, so the record is as it was written.
        let Some(record) = Record::read(record) else { return };
        let (here, world) = (clock_at(cx.clock.now), UtcClock::new(cx.clock.now, cx.clock.since_1970));
        let came = world.utc_time(here.lane_time(record.arrived()));
        let mut pending_event = protocols.event_of(&record, (&here, came), false, cx);
        pending_event.watch = NonZeroU64::new(u64::from_le_bytes(*watch));
        pending_event.watch_each = pending_event.watch.is_some();
        let number = NonZeroU64::new(u64::from_le_bytes(*number));
        cx.lane.return_event((outbox, ask), (record.source, number), pending_event, protocols, cx.clock.now);
    }
}

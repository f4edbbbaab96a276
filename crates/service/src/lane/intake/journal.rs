//! Events that are to outlive the process: they wait until the store has them, and then go on like any other.
//!
//! Those of a supplier keep their order: what it sends behind one that waits does so too, whatever was promised of it.

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use engine::{
    Admission, ChannelId, Completion, DiscardReason, Disposition, Event, PendingEvent, ProxyId, ProxyKey, Reliability,
};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::lane::intake::{Refused, Submission, acknowledgements};
use crate::lane::io::slots::Token;
use crate::lane::run::{Core, Worker};
use crate::protocols::forms;
use crate::store::journal::{
    Again, Chunk, EVENT_BYTES_MAX, EVENTS_MAX, FromStore, Link, Posting, StoreRefusal, ToStore,
};
use crate::store::record::Record;
use crate::time::UtcClock;

/// The events of a lane that wait for the store, or behind one that does.
#[derive(Default)]
pub(crate) struct Journal {
    /// `None` where there is no store.
    link: Option<Link>,
    /// In their order. Those that are with the store, or have yet to be posted, are behind those that can go on.
    waiting: VecDeque<Waiting>,
    /// How many of the first have been looked at for being posted.
    examined: usize,
    /// Events that are with the store, and octets of them.
    sent: usize,
    sent_bytes: usize,
    /// The number of the last that was posted: by it its answer is known.
    last_posting: u64,
    /// How many wait of each supplier.
    by_source: HashMap<ProxyKey, u32>,
}

struct Waiting {
    source: ProxyKey,
    pending_ack: Token,
    state: State,
    /// How long its answer waits for consumers afterwards, if it does.
    within: Option<Duration>,
}

/// What the store has said.
enum Received {
    /// What became of an event that is with it.
    Answer,
    /// All have an event that it kept.
    Completed(NonZeroU64),
    /// One that it kept aside is to be delivered once more.
    Again(Box<Again>),
}

enum State {
    /// It is to be kept.
    ToSend(PendingEvent),
    /// The store has it.
    Sent { posting: u64, bytes: usize },
    /// It is on the medium, or is not to be kept.
    Done(PendingEvent),
    /// It is not kept.
    Failed(PendingEvent, StoreRefusal),
}

impl Journal {
    pub(crate) fn new(link: Option<Link>) -> Self {
        Self { link, ..Self::default() }
    }

    const fn is_there(&self) -> bool {
        self.link.is_some()
    }

    /// Whether there are events that were kept when the process began, and are to be taken in before all others.
    pub(crate) fn is_restoring(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.restored.is_some())
    }

    /// Some of them. Nothing if there are none at the moment, or none any more.
    fn next_restored(&mut self) -> Option<Chunk> {
        let link = self.link.as_mut()?;
        match link.restored.as_ref()?.recv_timeout(RESTORED_WITHIN) {
            Ok(chunk) => Some(chunk),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                link.restored = None;
                None
            }
        }
    }

    /// Whether events wait.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn is_waiting_for(&self, source: ProxyKey) -> bool {
        !self.waiting.is_empty() && self.by_source.get(&source).is_some_and(|count| *count > 0)
    }

    fn wait(&mut self, waiting: Waiting) {
        *self.by_source.entry(waiting.source).or_default() += 1;
        self.waiting.push_back(waiting);
    }

    /// Posts as many events as may be with the store.
    fn send(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(waiting) = self.waiting.get_mut(self.examined) {
            if let State::ToSend(pending_event) = &waiting.state {
                let bytes = pending_event.bytes.len();
                let is_first = self.sent == 0;
                if self.sent >= EVENTS_MAX || (self.sent_bytes + bytes > EVENT_BYTES_MAX && !is_first) {
                    return;
                }
                let (posting, is_awaited) = (self.last_posting + 1, waiting.within.is_some());
                let sent = core::mem::replace(&mut waiting.state, State::Sent { posting, bytes });
                let State::ToSend(pending_event) = sent else { return };
                let message = ToStore::Event(Posting { pending_event, posting, is_awaited });
                if let Err(ToStore::Event(back)) = link.messages.send(message) {
                    waiting.state = State::ToSend(back.pending_event);
                    return;
                }
                self.last_posting = posting;
                self.sent += 1;
                self.sent_bytes += bytes;
            }
            self.examined += 1;
        }
    }

    /// Whether there is room to report an event's outcome to the store. Places for as many events as may be posted are left.
    fn has_room_for_news(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.messages.room() > EVENTS_MAX)
    }

    /// Tells the store what became of an event, if it is one of its own. It looks from time to time. `goes_elsewhere`: what is
    /// undeliverable for consumers of a channel goes to another one.
    fn tell(&mut self, completed: Completion, goes_elsewhere: impl FnOnce(ChannelId) -> bool) -> bool {
        let is_its = completed.watch().is_none_or(|watch| !acknowledgements::is_of_lanes(watch));
        let Some(link) = self.link.as_mut().filter(|_| is_its) else { return false };
        let message = match completed {
            Completion::ForConsumer { watch, consumer, how: Disposition::Dropped(DiscardReason::Undeliverable) }
                if !goes_elsewhere(consumer.channel) =>
            {
                ToStore::Undeliverable(watch, consumer)
            }
            completed => ToStore::Completion(completed),
        };
        link.messages.send_quietly(message).is_ok()
    }

    /// Has the store look now, if an answer waits for that or it has much to look at.
    fn notify(&mut self, is_awaited: bool) {
        if let Some(link) = self.link.as_mut().filter(|link| is_awaited || link.messages.room() <= EVENTS_MAX) {
            link.messages.notify();
        }
    }

    /// Takes an answer of the store in. Nothing if there is none.
    fn receive(&mut self) -> Option<Received> {
        let answer = self.link.as_mut().and_then(|link| link.answers.take())?;
        let (posting, state) = match answer {
            FromStore::Stored(pending_event, posting) => (posting, State::Done(pending_event)),
            FromStore::NotStored(pending_event, posting, why) => (posting, State::Failed(pending_event, why)),
            FromStore::Completion(watch) => return Some(Received::Completed(watch)),
            FromStore::Again(again) => return Some(Received::Again(again)),
        };
        // Answers come in the order of the questions, and an event that has one goes on: so it is the first, as a rule.
        let of_it = |waiting: &&mut Waiting| matches!(waiting.state, State::Sent { posting: of, .. } if of == posting);
        if let Some(waiting) = self.waiting.iter_mut().find(of_it)
            && let State::Sent { bytes, .. } = core::mem::replace(&mut waiting.state, state)
        {
            self.sent -= 1;
            self.sent_bytes -= bytes;
        }
        Some(Received::Answer)
    }

    /// The next that need not wait any more.
    fn next(&mut self) -> Option<Waiting> {
        let is_over = |waiting: &mut Waiting| matches!(waiting.state, State::Done(_) | State::Failed(..));
        let first = self.waiting.pop_front_if(is_over)?;
        self.examined = self.examined.saturating_sub(1);
        if let Some(count) = self.by_source.get_mut(&first.source) {
            *count -= 1;
        }
        Some(first)
    }

    /// Forgets suppliers that are gone and of which nothing waits.
    pub(crate) fn forget_but(&mut self, is_there: impl Fn(ProxyKey) -> bool) {
        self.by_source.retain(|source, count| *count > 0 || is_there(*source));
    }
}

/// Answers of the store that are taken in at a time.
const ANSWERS_AT_ONCE: usize = 256;
/// How long it is waited for events that were kept when the process began, until letters are looked at.
const RESTORED_WITHIN: Duration = Duration::from_millis(10);
/// The events of a piece take about so much memory.
const CHUNK_MEMORY: usize = 1 << 20;
/// They are taken in for so long, until letters are looked at.
const RESTORING_FOR: Duration = Duration::from_millis(5);

impl Worker {
    /// Serves what the store has posted. True if there is more.
    pub(crate) fn serve_store(&mut self) -> bool {
        let Core { intake, .. } = &mut self.core;
        let Some(link) = &intake.journal.link else { return false };
        link.answers.look();
        for _ in 0..ANSWERS_AT_ONCE {
            match self.core.intake.journal.receive() {
                Some(Received::Answer) => self.core.resume_stored(),
                Some(Received::Completed(watch)) => self.core.note_completed_for_all(watch),
                Some(Received::Again(again)) => self.core.deliver_again(*again),
                None => break,
            }
        }
        self.core.intake.journal.send();
        self.core.intake.journal.link.as_ref().is_some_and(|link| link.answers.waiting() > 0)
    }

    /// Takes in some of the events that were kept when the process began, before any other. False if there are more.
    ///
    /// What there is no memory for is to be on disk before more is taken in.
    #[cold]
    pub(crate) fn restore_events(&mut self) -> bool {
        let until = self.core.cx.clock.now + RESTORING_FOR;
        while self.core.keeps_up_with_backlogs()
            && self.core.cx.clock.time() < until
            && let Some(chunk) = self.core.intake.journal.next_restored()
        {
            // In one go: the memory of a thread grows by a page at a time otherwise, with a system call for each.
            drop(black_box(Vec::<u8>::with_capacity(CHUNK_MEMORY)));
            chunk.each(|number, consumers, record| {
                self.core.cx.counters.add(Counter::EventsRestored, 1);
                self.core.restore_event(number, consumers, record);
            });
            self.core.process_completions();
            self.core.send_errands();
        }
        !self.core.intake.journal.is_restoring()
    }
}

impl Core {
    /// Has an event wait for the store, if it is to be kept or comes behind one that is. Otherwise it comes back.
    pub(crate) fn wait_for_store(
        &mut self,
        submission: &mut Submission,
        mut pending_event: PendingEvent,
    ) -> Option<PendingEvent> {
        if !self.intake.journal.is_there() {
            return Some(pending_event);
        }
        let source = submission.source;
        let is_to_be_kept = self.cx.lane.reliability_of(source, &pending_event) == Reliability::Persistent
            && self.cx.lane.complete_event(source, &mut pending_event);
        let state = match is_to_be_kept {
            true => State::ToSend(pending_event),
            false if self.intake.journal.is_waiting_for(source) => State::Done(pending_event),
            false => return Some(pending_event),
        };
        let pending_ack = self.intake.await_ack(submission);
        let within = self.cx.lane.acknowledges_within(source);
        self.intake.journal.wait(Waiting { source, pending_ack, state, within });
        self.intake.journal.send();
        None
    }

    /// Hands in the events that need not wait for the store any more.
    fn resume_stored(&mut self) {
        while let Some(Waiting { source, pending_ack, mut state, within }) = self.intake.journal.next() {
            if let (State::Done(pending_event), Some(within)) = (&mut state, within) {
                self.intake.await_more(pending_ack);
                self.await_delivery(pending_event, pending_ack, within);
            }
            match state {
                State::Done(pending_event) if self.cx.lane.schedules_topics() => {
                    self.cx.lane.schedule_event(source, pending_event, pending_ack.to_bits(), self.cx.clock.now);
                }
                State::Done(pending_event) => self.admit_queued(source, pending_event, pending_ack),
                State::Failed(pending_event, why) => {
                    self.cx.lane.abandon_event(pending_event);
                    self.complete_ack(pending_ack, Some(Refused::NotStored(why)));
                }
                State::ToSend(_) | State::Sent { .. } => {}
            }
        }
    }

    /// Hears what became of events, and tells the store of those that it keeps.
    pub(crate) fn process_completions(&mut self) {
        let mut has_some = false;
        while self.intake.journal.has_room_for_news()
            && let Some(completed) = self.cx.lane.poll_completion()
        {
            self.note_completed(completed);
            let lane = &self.cx.lane;
            has_some |= self.intake.journal.tell(completed, |channel| lane.dead_letters_of(channel).is_some());
        }
        self.tell_of_done();
        if has_some {
            self.intake.journal.notify(!self.intake.acknowledgements.is_empty());
            // The rest is reported before long, whatever else happens.
            self.cx.clock.plan_sweep();
        }
    }

    /// Makes the event again that a record is of, which came at `came` by the world's clock.
    pub(crate) fn event_of(
        &mut self,
        record: &Record<'_>,
        (clock, came): (&UtcClock, u64),
        may_be_repeated: bool,
    ) -> PendingEvent {
        let mut pending_event = self.cx.lane.begin_event_for(record.length());
        pending_event.keeps_names = forms::keeps_names(record.form());
        self.cx.lane.classify(&mut pending_event, record.domain, record.name);
        let event: &mut Event = &mut pending_event;
        record.fill(event, clock);
        if may_be_repeated {
            event.tag = forms::as_repeated(event.form, event.tag);
        }
        self.translate_that_came(record.source, event, came);
        pending_event
    }

    /// Takes an event in that was kept aside for a consumer: for that alone or, if it is not connected any more, for all of its channel.
    #[cold]
    fn deliver_again(&mut self, again: Again) {
        let Again { number, consumer: ProxyKey { channel, proxy }, record, .. } = again;
        let routes = self.cx.lane.snapshot().channel(channel);
        let is_connected = routes.is_some_and(|routes| routes.consumer(proxy).is_some());
        self.restore_event(number, is_connected.then(|| Arc::from([proxy])), &record);
    }

    /// Takes an event in that is kept.
    fn restore_event(&mut self, number: u64, consumers: Option<Arc<[ProxyId]>>, record: &[u8]) {
        let Some(watch) = NonZeroU64::new(number) else { return };
        let Some(record) = Record::read(record) else {
            log::error!("store: event {number} cannot be read, and is dropped");
            if let Some(link) = &mut self.intake.journal.link {
                let _ = link.messages.send_quietly(ToStore::Completion(Completion::ForAll { watch }));
            }
            return;
        };
        let clock = UtcClock::new(self.cx.clock.now, self.cx.clock.since_1970);
        // Whether it was delivered before is not known.
        let mut pending_event = self.event_of(&record, (&clock, record.arrived()), true);
        (pending_event.watch, pending_event.watch_each, pending_event.only) = (Some(watch), true, consumers);
        let admitted = self.cx.lane.restore_event(record.source, pending_event, &self.protocols, self.cx.clock.now);
        if let Admission::AwaitingFilter(mut pending_event, _) = admitted {
            // It was accepted; clients' filters on its supplier's side are not asked once more.
            pending_event.approved = true;
            self.cx.lane.restore_event(record.source, pending_event, &self.protocols, self.cx.clock.now);
        }
    }
}

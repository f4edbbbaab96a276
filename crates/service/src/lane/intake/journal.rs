//! Events that are to outlive the process: they wait until the store has them, and then go on like any other.
//!
//! Those of a supplier keep their order: what it sends behind one that waits does so too, whatever was promised of it.

use core::num::NonZeroU64;
use core::time::Duration;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use engine::{Admission, ChannelId, DiscardReason, Draft, Event, ProxyId, ProxyKey, Reliability, Settled, Settlement};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::doors::forms;
use crate::lane::intake::{Refused, Submission, acknowledgements};
use crate::lane::io::slots::Token;
use crate::lane::run::{Core, Worker};
use crate::store::journal::{Again, EVENT_BYTES_MAX, EVENTS_MAX, FromStore, Link, Piece, Posting, ToStore, Unkept};
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
    looked_at: usize,
    /// Events that are with the store, and octets of them.
    posted: usize,
    posted_bytes: usize,
    /// The number of the last that was posted: by it its answer is known.
    last_posting: u64,
    /// How many wait of each supplier.
    by_source: HashMap<ProxyKey, u32>,
}

struct Waiting {
    source: ProxyKey,
    owed: Token,
    state: State,
    /// How long its answer waits for consumers afterwards, if it does.
    within: Option<Duration>,
}

/// What the store has said.
enum Received {
    /// What became of an event that is with it.
    Answer,
    /// All have an event that it kept.
    Settled(NonZeroU64),
    /// One that it kept aside is to be delivered once more.
    Again(Box<Again>),
}

enum State {
    /// It is to be kept.
    ToPost(Draft),
    /// The store has it.
    Posted { posting: u64, bytes: usize },
    /// It is on the medium, or is not to be kept.
    Done(Draft),
    /// It is not kept.
    Failed(Draft, Unkept),
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
    fn next_restored(&mut self) -> Option<Piece> {
        let link = self.link.as_mut()?;
        match link.restored.as_ref()?.recv_timeout(RESTORED_WITHIN) {
            Ok(piece) => Some(piece),
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
    fn post(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Some(waiting) = self.waiting.get_mut(self.looked_at) {
            if let State::ToPost(draft) = &waiting.state {
                let bytes = draft.bytes.len();
                let is_first = self.posted == 0;
                if self.posted >= EVENTS_MAX || (self.posted_bytes + bytes > EVENT_BYTES_MAX && !is_first) {
                    return;
                }
                let (posting, is_awaited) = (self.last_posting + 1, waiting.within.is_some());
                let posted = core::mem::replace(&mut waiting.state, State::Posted { posting, bytes });
                let State::ToPost(draft) = posted else { return };
                let letter = ToStore::Event(Posting { draft, posting, is_awaited });
                if let Err(ToStore::Event(back)) = link.letters.post(letter) {
                    waiting.state = State::ToPost(back.draft);
                    return;
                }
                self.last_posting = posting;
                self.posted += 1;
                self.posted_bytes += bytes;
            }
            self.looked_at += 1;
        }
    }

    /// Whether there is room to report an event's outcome to the store. Places for as many events as may be posted are left.
    fn has_room_for_news(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.letters.room() > EVENTS_MAX)
    }

    /// Tells the store what became of an event, if it is one of its own. It looks from time to time. `goes_elsewhere`: what is
    /// undeliverable for consumers of a channel goes to another one.
    fn tell(&mut self, settled: Settled, goes_elsewhere: impl FnOnce(ChannelId) -> bool) -> bool {
        let is_its = settled.watch().is_none_or(|watch| !acknowledgements::is_of_lanes(watch));
        let Some(link) = self.link.as_mut().filter(|_| is_its) else { return false };
        let letter = match settled {
            Settled::ForConsumer { watch, consumer, how: Settlement::Dropped(DiscardReason::Undeliverable) }
                if !goes_elsewhere(consumer.channel) =>
            {
                ToStore::Undeliverable(watch, consumer)
            }
            settled => ToStore::Settled(settled),
        };
        link.letters.post_quietly(letter).is_ok()
    }

    /// Has the store look now, if an answer waits for that or it has much to look at.
    fn ring(&mut self, is_awaited: bool) {
        if let Some(link) = self.link.as_mut().filter(|link| is_awaited || link.letters.room() <= EVENTS_MAX) {
            link.letters.ring();
        }
    }

    /// Takes an answer of the store in. Nothing if there is none.
    fn receive(&mut self) -> Option<Received> {
        let answer = self.link.as_mut().and_then(|link| link.answers.take())?;
        let (posting, state) = match answer {
            FromStore::Kept(draft, posting) => (posting, State::Done(draft)),
            FromStore::NotKept(draft, posting, why) => (posting, State::Failed(draft, why)),
            FromStore::Settled(watch) => return Some(Received::Settled(watch)),
            FromStore::Again(again) => return Some(Received::Again(again)),
        };
        // Answers come in the order of the questions, and an event that has one goes on: so it is the first, as a rule.
        let of_it =
            |waiting: &&mut Waiting| matches!(waiting.state, State::Posted { posting: of, .. } if of == posting);
        if let Some(waiting) = self.waiting.iter_mut().find(of_it)
            && let State::Posted { bytes, .. } = core::mem::replace(&mut waiting.state, state)
        {
            self.posted -= 1;
            self.posted_bytes -= bytes;
        }
        Some(Received::Answer)
    }

    /// The next that need not wait any more.
    fn next(&mut self) -> Option<Waiting> {
        let is_over = |waiting: &mut Waiting| matches!(waiting.state, State::Done(_) | State::Failed(..));
        let first = self.waiting.pop_front_if(is_over)?;
        self.looked_at = self.looked_at.saturating_sub(1);
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
const PIECE_MEMORY: usize = 1 << 20;
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
                Some(Received::Answer) => self.core.go_on_with_kept(),
                Some(Received::Settled(watch)) => self.core.note_settled_for_all(watch),
                Some(Received::Again(again)) => self.core.deliver_again(*again),
                None => break,
            }
        }
        self.core.intake.journal.post();
        self.core.intake.journal.link.as_ref().is_some_and(|link| link.answers.waiting() > 0)
    }

    /// Takes in some of the events that were kept when the process began, before any other. False if there are more.
    ///
    /// What there is no memory for is to be on disk before more is taken in.
    #[cold]
    pub(crate) fn restore_events(&mut self) -> bool {
        let until = self.core.clock.now + RESTORING_FOR;
        while self.core.keeps_up_with_backlogs()
            && self.core.clock.time() < until
            && let Some(piece) = self.core.intake.journal.next_restored()
        {
            // In one go: the memory of a thread grows by a page at a time otherwise, with a system call for each.
            drop(black_box(Vec::<u8>::with_capacity(PIECE_MEMORY)));
            piece.each(|number, consumers, record| {
                self.core.counters.add(Counter::EventsRestored, 1);
                self.core.restore_event(number, consumers, record);
            });
            self.core.hear_of_settled();
            self.core.send_errands();
        }
        !self.core.intake.journal.is_restoring()
    }
}

impl Core {
    /// Has an event wait for the store, if it is to be kept or comes behind one that is. Otherwise it comes back.
    pub(crate) fn wait_for_store(&mut self, submission: &mut Submission, mut draft: Draft) -> Option<Draft> {
        if !self.intake.journal.is_there() {
            return Some(draft);
        }
        let source = submission.source;
        let is_to_be_kept = self.lane.reliability_of(source, &draft) == Reliability::Persistent
            && self.lane.complete_event(source, &mut draft);
        let state = match is_to_be_kept {
            true => State::ToPost(draft),
            false if self.intake.journal.is_waiting_for(source) => State::Done(draft),
            false => return Some(draft),
        };
        let owed = self.intake.owe(submission);
        let within = self.lane.acknowledges_within(source);
        self.intake.journal.wait(Waiting { source, owed, state, within });
        self.intake.journal.post();
        None
    }

    /// Hands in the events that need not wait for the store any more.
    fn go_on_with_kept(&mut self) {
        while let Some(Waiting { source, owed, mut state, within }) = self.intake.journal.next() {
            if let (State::Done(draft), Some(within)) = (&mut state, within) {
                self.intake.owe_more(owed);
                self.await_delivery(draft, owed, within);
            }
            match state {
                State::Done(draft) if self.lane.takes_turns() => {
                    self.lane.queue_turn(source, draft, owed.to_bits(), self.clock.now);
                }
                State::Done(draft) => self.admit_in_turn(source, draft, owed),
                State::Failed(draft, why) => {
                    self.lane.abandon_event(draft);
                    self.pay(owed, Some(Refused::NotKept(why)));
                }
                State::ToPost(_) | State::Posted { .. } => {}
            }
        }
    }

    /// Hears what became of events, and tells the store of those that it keeps.
    pub(crate) fn hear_of_settled(&mut self) {
        let mut has_some = false;
        while self.intake.journal.has_room_for_news()
            && let Some(settled) = self.lane.poll_settled()
        {
            self.note_settled(settled);
            let lane = &self.lane;
            has_some |= self.intake.journal.tell(settled, |channel| lane.dead_letters_of(channel).is_some());
        }
        self.tell_of_done();
        if has_some {
            self.intake.journal.ring(!self.intake.acknowledgements.is_empty());
            // The rest is reported before long, whatever else happens.
            self.clock.plan_sweep();
        }
    }

    /// Makes the event again that a record is of, which came at `came` by the world's clock.
    pub(crate) fn event_of(
        &mut self,
        record: &Record<'_>,
        (clock, came): (&UtcClock, u64),
        may_be_repeated: bool,
    ) -> Draft {
        let mut draft = self.lane.begin_event_for(record.length());
        draft.keeps_names = forms::keeps_names(record.form());
        self.lane.classify(&mut draft, record.domain, record.name);
        let event: &mut Event = &mut draft;
        record.fill(event, clock);
        if may_be_repeated {
            event.tag = forms::as_repeated(event.form, event.tag);
        }
        self.translate_that_came(record.source, event, came);
        draft
    }

    /// Takes an event in that was kept aside for a consumer: for that alone or, if it is not connected any more, for all of its channel.
    #[cold]
    fn deliver_again(&mut self, again: Again) {
        let Again { number, consumer: ProxyKey { channel, proxy }, record, .. } = again;
        let routes = self.lane.snapshot().channel(channel);
        let is_connected = routes.is_some_and(|routes| routes.consumer(proxy).is_some());
        self.restore_event(number, is_connected.then(|| Arc::from([proxy])), &record);
    }

    /// Takes an event in that is kept.
    fn restore_event(&mut self, number: u64, consumers: Option<Arc<[ProxyId]>>, record: &[u8]) {
        let Some(watch) = NonZeroU64::new(number) else { return };
        let Some(record) = Record::read(record) else {
            log::error!("store: event {number} cannot be read, and is dropped");
            if let Some(link) = &mut self.intake.journal.link {
                let _ = link.letters.post_quietly(ToStore::Settled(Settled::ForAll { watch }));
            }
            return;
        };
        let clock = UtcClock::new(self.clock.now, self.clock.since_1970);
        // Whether it was delivered before is not known.
        let mut draft = self.event_of(&record, (&clock, record.arrived()), true);
        (draft.watch, draft.watch_each, draft.only) = (Some(watch), true, consumers);
        let admitted = self.lane.restore_event(record.source, draft, &self.doors, self.clock.now);
        if let Admission::Undecided(mut draft, _) = admitted {
            // It was accepted; clients' filters on its supplier's side are not asked once more.
            draft.approved = true;
            self.lane.restore_event(record.source, draft, &self.doors, self.clock.now);
        }
    }
}

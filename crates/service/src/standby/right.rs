//! The right to serve, by the [record](super::record) of who leads, as state machines without sockets, clocks and threads.
//!
//! # The rules
//!
//! - A leader renews its record by compare-and-swap, three times in a lease. A renewal is valid for one lease from *before* it was sent.
//! - The record says that the follower is in step only if the follower has everything that was acknowledged, and nothing is acknowledged
//!   without it from then on.
//! - A leader acknowledges without its follower only while a valid record of its own says that the follower is *not* in step.
//! - A follower that the record calls in step takes over, in the next epoch, when it has seen no change of the record for lease + skew by
//!   its own clock, and heard nothing of the leader for as long.
//! - A leader whose record another machine has written, in its epoch or a higher one, becomes a follower.
//! - A record that is gone, or is older than what the machine has seen, has been emptied or put back from a backup. A follower takes
//!   nothing over by it. A leader writes it anew only after its follower has answered a question of its epoch that was asked since, which
//!   shows that there is no other leader; or if its epoch began in this process and was never recorded; or if an operator orders it.
//!
//! What a leader and its follower both committed does not depend on any of this: a follower refuses lower epochs than it has seen. The
//! record decides who tries, and keeps a leader from acknowledging alone what a take-over would lose.
//!
//! # The rule that drives both
//!
//! `poll` says what to do now. After a read or a swap, `handle` gets the answer, and the time before the request was sent.

use core::time::Duration;

use super::frame::State;
use super::record::{Machine, Record, RecordStore, Swapped, Versioned};

/// Times in a lease that the leader renews the record, and that the follower reads it.
const RENEWALS: u32 = 3;
const READS: u32 = 4;
/// Part of a lease after which a failed request is repeated.
const AGAIN_IN: u32 = 8;

/// What the trouble is with a record that is not answered for.
const OUT_OF_REACH: &str = "the record is out of reach";

/// How long a record is valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    /// What clocks and answers may be late by.
    pub(crate) skew: Duration,
}

impl Terms {
    /// How long a follower sees no change before it takes over.
    fn quiet(self) -> Duration {
        self.lease + self.skew
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Swap {
        expected: Option<String>,
        record: Record,
    },
    /// Nothing before that time, unless something changes.
    Wait(Duration),
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Found(Option<Versioned>),
    Swapped(Versioned),
    Failed(String),
}

/// Performs a read or a swap.
pub(crate) fn perform(store: &mut dyn RecordStore, action: Action) -> Answer {
    let Action::Swap { expected, record } = action else {
        return store.read().map_or_else(Answer::Failed, Answer::Found);
    };
    match store.swap(expected.as_deref(), &record) {
        Err(why) => Answer::Failed(why),
        Ok(Swapped::Done(version)) => Answer::Swapped(Versioned { record, version }),
        // An attempt before, whose answer was lost.
        Ok(Swapped::Other(Some(found))) if found.record == record => Answer::Swapped(found),
        Ok(Swapped::Other(found)) => Answer::Found(found),
    }
}

/// Says that the record is out of reach, and why at first.
fn miss(trouble: &mut String, why: &str) {
    if !trouble.starts_with(OUT_OF_REACH) {
        *trouble = format!("{OUT_OF_REACH}: {why}");
    }
}

/// What the leader's record is to say of the follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Unchanged,
    Out,
    /// That machine has everything that was acknowledged.
    In(u64),
}

/// Whether a leader may acknowledge without its follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alone {
    /// Until that time.
    Until(Duration),
    /// Not yet: the record is about to be written.
    Pending,
    No,
}

/// The leader's side.
#[derive(Debug)]
pub(crate) struct Holder {
    machine: Machine,
    terms: Terms,
    service: u64,
    epoch: u64,
    /// What is there, as far as it is known.
    known: Option<Option<Versioned>>,
    /// The highest counter that this process has written.
    counter: Option<u64>,
    /// Whether the epoch began in this process, or an operator says that there is no other leader.
    may_begin: bool,
    valid_until: Duration,
    /// Since when the record is gone or older than it was, as far as each answer since says so.
    gone_since: Option<Duration>,
    /// Whether the last swap that succeeded says that the follower is not in step, and none that says otherwise was sent since.
    is_out: bool,
    next_at: Duration,
    /// Whether a request is under way, or the last one was answered and may be followed by a swap.
    is_pending: bool,
    superseded: Option<u64>,
    /// Why the record is not held; empty if it is.
    trouble: String,
}

impl Holder {
    /// `may_begin`: whether the epoch begins with this process.
    pub(crate) const fn new(machine: Machine, terms: Terms, (service, epoch): (u64, u64), may_begin: bool) -> Self {
        Self {
            machine,
            terms,
            service,
            epoch,
            known: None,
            counter: None,
            may_begin,
            valid_until: Duration::ZERO,
            gone_since: None,
            is_out: false,
            next_at: Duration::ZERO,
            is_pending: true,
            superseded: None,
            trouble: String::new(),
        }
    }

    /// What to do now. `contact_at`: when the follower was asked last what it has answered, under this epoch and on this connection.
    pub(crate) fn poll(&mut self, now: Duration, step: Step, contact_at: Option<Duration>) -> Action {
        let is_due = now >= self.next_at;
        let Some(known) = &self.known else {
            return if is_due { Action::Read } else { Action::Wait(self.next_at) };
        };
        let may_swap = self.superseded.is_none() && self.may_swap(known.as_ref(), contact_at);
        self.is_pending = may_swap;
        let record = self.next_record(known.as_ref(), step);
        let is_news = known.as_ref().is_none_or(|known| known.record.in_step != record.in_step || !self.is_own(known));
        if !may_swap {
            return if is_due { Action::Read } else { Action::Wait(self.next_at) };
        }
        if !is_due && !is_news {
            return Action::Wait(self.next_at);
        }
        if record.in_step.is_some() {
            self.is_out = false;
        }
        Action::Swap { expected: known.as_ref().map(|known| known.version.clone()), record }
    }

    fn next_record(&self, known: Option<&Versioned>, step: Step) -> Record {
        let known = known.map(|known| &known.record).filter(|known| known.epoch == self.epoch);
        Record {
            service: self.service,
            epoch: self.epoch,
            holder: self.machine.name.clone(),
            machine: self.machine.number,
            run: self.machine.run,
            counter: self.counter.max(known.map(|known| known.counter)).map_or(0, |counter| counter.saturating_add(1)),
            in_step: match step {
                Step::Unchanged => known.and_then(|known| known.in_step),
                Step::Out => None,
                Step::In(machine) => Some(machine),
            },
        }
    }

    /// Whether it is this process's record.
    fn is_own(&self, known: &Versioned) -> bool {
        (known.record.epoch, known.record.run) == (self.epoch, self.machine.run)
    }

    /// Whether a record goes on from what this process has written, or from what its store says.
    fn goes_on(&self, record: &Record) -> bool {
        let is_of_machine = record.epoch == self.epoch && record.machine == self.machine.number;
        is_of_machine && self.counter.is_none_or(|counter| record.counter >= counter)
    }

    fn may_swap(&self, known: Option<&Versioned>, contact_at: Option<Duration>) -> bool {
        match known {
            Some(known) if known.record.service != self.service => false,
            Some(known) if self.goes_on(&known.record) => true,
            _ => {
                self.may_begin || self.gone_since.zip(contact_at).is_some_and(|(since, contact_at)| contact_at >= since)
            }
        }
    }

    /// Takes an answer. `sent_at`: before the request was sent.
    pub(crate) fn handle(&mut self, sent_at: Duration, now: Duration, answer: Answer) {
        match answer {
            Answer::Failed(why) => {
                (self.known, self.gone_since, self.is_pending) = (None, None, false);
                miss(&mut self.trouble, &why);
                self.next_at = now + self.terms.lease / AGAIN_IN;
            }
            Answer::Swapped(written) => {
                self.counter = Some(written.record.counter);
                self.is_out = written.record.in_step.is_none();
                self.valid_until = sent_at + self.terms.lease;
                self.next_at = sent_at + self.terms.lease / RENEWALS;
                (self.known, self.may_begin, self.is_pending) = (Some(Some(written)), false, true);
                self.gone_since = None;
                self.trouble.clear();
            }
            Answer::Found(found) => {
                self.find(found.as_ref());
                let is_gone = found.as_ref().is_none_or(|found| !self.goes_on(&found.record));
                self.gone_since = is_gone.then(|| self.gone_since.unwrap_or(now));
                let is_own = found.as_ref().is_some_and(|found| self.is_own(found));
                self.next_at = if is_own { now } else { now + self.terms.lease / RENEWALS };
                self.known = Some(found);
            }
        }
    }

    /// Judges what was found.
    fn find(&mut self, found: Option<&Versioned>) {
        let epoch = self.epoch;
        self.trouble = match found.map(|found| &found.record) {
            Some(record) if record.service != self.service => {
                format!(
                    "the record is of service {:016x}, and not of {:016x}: name another standby.record.key",
                    record.service, self.service
                )
            }
            // Another leader; of the same epoch if a store was doubled, or another process has this machine's name.
            Some(record)
                if record.epoch > epoch
                    || record.epoch == epoch && record.machine != self.machine.number
                    || record.run != self.machine.run && self.counter.is_some() && self.goes_on(record) =>
            {
                self.superseded = Some(record.epoch);
                format!("the record says that {} leads in epoch {}", record.holder, record.epoch)
            }
            Some(record) if self.goes_on(record) => String::new(),
            _ if self.may_begin => String::new(),
            Some(record) => format!(
                "the record says epoch {} (counter {}), and this is the leader of epoch {epoch}: it was put back from a backup, and is \
                 written anew when the follower has answered",
                record.epoch, record.counter
            ),
            None => format!(
                "the record is gone, and this is the leader of epoch {epoch}: it is written anew when the follower has answered"
            ),
        };
    }

    /// An operator says that no other machine leads: a record that is gone or old is written anew.
    pub(crate) const fn begin(&mut self) {
        self.may_begin = true;
    }

    /// Whether the leader may acknowledge without its follower.
    pub(crate) fn alone(&self, now: Duration) -> Alone {
        match (self.superseded, self.is_out && now < self.valid_until) {
            (Some(_), _) => Alone::No,
            (None, true) => Alone::Until(self.valid_until),
            (None, false) if self.is_pending => Alone::Pending,
            (None, false) => Alone::No,
        }
    }

    /// The epoch of another leader, as the record says.
    pub(crate) const fn superseded(&self) -> Option<u64> {
        self.superseded
    }

    pub(crate) fn trouble(&self) -> &str {
        &self.trouble
    }

    pub(crate) const fn terms(&self) -> Terms {
        self.terms
    }

    /// The record as it was known last.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.known.as_ref()?.as_ref().map(|known| &known.record)
    }

    /// Time since the last renewal, if there was one.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        self.counter.map(|_| (now + self.terms.lease).saturating_sub(self.valid_until))
    }
}

/// How a follower stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FollowerStatus {
    pub(crate) state: State,
    pub(crate) is_copying: bool,
    /// When the leader was heard of last, if ever.
    pub(crate) heard: Option<Duration>,
}

/// What a follower read last.
#[derive(Debug)]
struct Seen {
    found: Option<Versioned>,
    /// When the answer came that was the first to say this.
    since: Duration,
    /// When the request was sent that was the last to be answered with this.
    read_at: Duration,
}

/// The follower's side.
#[derive(Debug)]
pub(crate) struct Watcher {
    machine: Machine,
    terms: Terms,
    seen: Option<Seen>,
    /// When to read, and until when nothing is sent after a failure.
    next_at: Duration,
    again_at: Duration,
    won: Option<u64>,
    /// Why it does not take over, or cannot read the record; empty while the leader is there.
    trouble: String,
}

impl Watcher {
    pub(crate) const fn new(machine: Machine, terms: Terms) -> Self {
        let (next_at, again_at) = (Duration::ZERO, Duration::ZERO);
        Self { machine, terms, seen: None, next_at, again_at, won: None, trouble: String::new() }
    }

    /// What to do now.
    pub(crate) fn poll(&mut self, now: Duration, status: &FollowerStatus) -> Action {
        let is_over = self.won.is_some() || now < self.again_at;
        if let Some(seen) = self.seen.as_ref().filter(|seen| !is_over && self.is_quiet(seen, now, status)) {
            match self.successor(seen, status) {
                Ok(record) => {
                    let expected = seen.found.as_ref().map(|found| found.version.clone());
                    return Action::Swap { expected, record };
                }
                Err(why) if !self.trouble.starts_with(OUT_OF_REACH) => self.trouble = why,
                Err(_) => {}
            }
        }
        if now >= self.next_at && !is_over { Action::Read } else { Action::Wait(self.next_at.max(self.again_at)) }
    }

    fn is_quiet(&self, seen: &Seen, now: Duration, status: &FollowerStatus) -> bool {
        let quiet = self.terms.quiet();
        let is_silent = status.heard.is_none_or(|heard| now.saturating_sub(heard) >= quiet);
        is_silent && seen.read_at.saturating_sub(seen.since) >= quiet
    }

    /// The record of this machine's take-over, or why there is none.
    fn successor(&self, seen: &Seen, status: &FollowerStatus) -> Result<Record, String> {
        let FollowerStatus { state, is_copying, .. } = status;
        let Some(Versioned { record, .. }) = &seen.found else {
            return Err("there is no record of a leader".to_owned());
        };
        let number = self.machine.number;
        // This machine had swapped the epoch up, and ended before that was on its disk.
        let had_won = record.machine == number && Some(record.epoch) == state.epoch.checked_add(1);
        let why = if !state.is_whole || *is_copying {
            "this follower has no whole copy".to_owned()
        } else if record.service != state.service {
            format!(
                "the record is of service {:016x}, and not of {:016x}: name another standby.record.key",
                record.service, state.service
            )
        } else if record.epoch < state.epoch {
            format!(
                "the record says epoch {}, and this store has seen {}: it was put back from a backup",
                record.epoch, state.epoch
            )
        } else if record.in_step != Some(number) || record.epoch > state.epoch && !had_won {
            format!("{} leads no more, and its record does not say that this follower has everything", record.holder)
        } else {
            return Ok(Record {
                service: record.service,
                epoch: record.epoch.checked_add(1).ok_or("there is no higher epoch")?,
                holder: self.machine.name.clone(),
                machine: number,
                run: self.machine.run,
                counter: 0,
                in_step: Some(number),
            });
        };
        Err(format!("{why}: this follower waits; `campanile standby promote --accept-loss` has it take over"))
    }

    /// Takes an answer. `sent_at`: before the request was sent.
    pub(crate) fn handle(&mut self, sent_at: Duration, now: Duration, answer: Answer) {
        match answer {
            Answer::Failed(why) => {
                miss(&mut self.trouble, &why);
                self.again_at = now + self.terms.lease / AGAIN_IN;
            }
            Answer::Swapped(Versioned { record, .. }) => self.won = Some(record.epoch),
            Answer::Found(found) => {
                self.next_at = sent_at + self.terms.lease / READS;
                if let Some(Versioned { record, .. }) = &found
                    && (record.machine, record.run) == (self.machine.number, self.machine.run)
                {
                    self.won = Some(record.epoch);
                }
                let since = self.seen.as_ref().filter(|seen| seen.found == found).map(|seen| seen.since);
                if since.is_none() || self.trouble.starts_with(OUT_OF_REACH) {
                    self.trouble.clear();
                }
                self.seen = Some(Seen { found, since: since.unwrap_or(now), read_at: sent_at });
            }
        }
    }

    /// The epoch in which this machine leads, which is to be on its disk before it serves.
    pub(crate) const fn won(&self) -> Option<u64> {
        self.won
    }

    pub(crate) fn trouble(&self) -> &str {
        &self.trouble
    }

    /// The record as it was read last.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.seen.as_ref()?.found.as_ref().map(|found| &found.record)
    }

    /// Time since the record has changed, as far as that was seen.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        self.seen.as_ref().map(|seen| now.saturating_sub(seen.since))
    }

    /// Whether another machine may still hold the record.
    pub(crate) fn is_renewed(&self, now: Duration) -> bool {
        let is_others = self.record().is_some_and(|record| record.machine != self.machine.number);
        is_others && self.age(now).is_some_and(|age| age < self.terms.quiet())
    }
}

//! Queries and commands about dead letters: passed on to the store, and answered with its reply.

use std::collections::BTreeMap;

use engine::{ChannelId, ProxyId, ProxyKey};

use crate::admin::audit::outcome_of;
use crate::admin::run::Administration;
use crate::admin::values::{Answer, DeadLetterAct, Declined};
use crate::admin::waiting::{Sending, Waiting};
use crate::counters::Counter;
use crate::protocols::ActOutcome;
use crate::store::requests::{DeadLetter, StoreDesk, StoreReply, StoreRequest};

/// Maximum requests with the store at once.
const REQUESTS_MAX: usize = 256;
/// Maximum events in one command.
pub(crate) const EVENTS_MAX: usize = 1_024;

/// Requests that wait for the store's reply.
pub(crate) struct DeadLetterInquiry {
    /// The store's desk; without a store there are no dead letters.
    desk: Option<StoreDesk>,
    last: u64,
    /// Receivers of answers by the request's number, with the description of a command for its audit line.
    waiting: BTreeMap<u64, (Waiting, Option<String>)>,
}

impl DeadLetterInquiry {
    pub(crate) const fn new(desk: Option<StoreDesk>) -> Self {
        Self { desk, last: 0, waiting: BTreeMap::new() }
    }

    /// Posts a request to the store. If the answer is clear at once, returns it with its receiver.
    fn ask(
        &mut self,
        request: StoreRequest,
        (waiting, what): (Waiting, Option<String>),
    ) -> Option<(Waiting, Option<String>, Result<Answer, Declined>)> {
        let Some(desk) = &self.desk else {
            let answer = match request {
                StoreRequest::List(_) => Answer::DeadLetters(Vec::new()),
                StoreRequest::Remove(dead_letters) | StoreRequest::Replay(dead_letters) => {
                    Answer::DeadLettersDone { done: 0, missing: u32::try_from(dead_letters.len()).unwrap_or(u32::MAX) }
                }
            };
            return Some((waiting, what, Ok(answer)));
        };
        if self.waiting.len() >= REQUESTS_MAX {
            return Some((waiting, what, Err(Declined::NoResources)));
        }
        self.last += 1;
        desk.ask(self.last, request);
        self.waiting.insert(self.last, (waiting, what));
        None
    }

    /// The store's next reply, and its receiver.
    fn poll(&mut self) -> Option<(Waiting, Option<String>, StoreReply)> {
        let (number, reply) = self.desk.as_ref()?.poll()?;
        let (waiting, what) = self.waiting.remove(&number)?;
        Some((waiting, what, reply))
    }
}

impl Administration {
    /// Lists dead letters. The answer is sent when the store has looked.
    pub(super) fn list_dead_letters(&mut self, behind: (u64, ProxyId), waiting: Waiting, answers: &mut Vec<Sending>) {
        if let Some((waiting, _, answer)) = self.dead_letters.ask(StoreRequest::List(behind), (waiting, None)) {
            answers.push(self.dead_letters_answered(waiting, None, answer));
        }
    }

    /// Replays or removes dead letters. The answer is sent when the change is on disk.
    pub(super) fn act_on_dead_letters(
        &mut self,
        (act, channel): (DeadLetterAct, ChannelId),
        dead_letters: &[(u64, ProxyId)],
        (waiting, what): (Waiting, String),
    ) {
        let named = dead_letters.iter().take(EVENTS_MAX);
        let dead_letters = named.map(|(number, proxy)| (*number, ProxyKey { channel, proxy: *proxy })).collect();
        let request = match act {
            DeadLetterAct::Remove => StoreRequest::Remove(dead_letters),
            DeadLetterAct::Replay => StoreRequest::Replay(dead_letters),
        };
        if let Some((waiting, what, answer)) = self.dead_letters.ask(request, (waiting, Some(what))) {
            let answer = self.dead_letters_answered(waiting, what.as_deref(), answer);
            self.answers.done.push(answer);
        }
    }

    /// The next answer for which the store has replied.
    pub(super) fn poll_dead_letters(&mut self) -> Option<Sending> {
        let (waiting, what, reply) = self.dead_letters.poll()?;
        let answer = match reply {
            StoreReply::Listed(dead_letters) => {
                let named = |dead_letter: DeadLetter| (self.name(dead_letter.consumer), dead_letter);
                Ok(Answer::DeadLetters(dead_letters.into_iter().map(named).collect()))
            }
            StoreReply::Done { done, missing } => Ok(Answer::DeadLettersDone { done, missing }),
            StoreReply::NotWritten => Err(Declined::NotStored),
            StoreReply::Failed => Err(Declined::NotMade),
        };
        Some(self.dead_letters_answered(waiting, what.as_deref(), answer))
    }

    fn dead_letters_answered(
        &mut self,
        waiting: Waiting,
        what: Option<&str>,
        answer: Result<Answer, Declined>,
    ) -> Sending {
        if answer.as_ref().is_err_and(|why| *why == Declined::NoResources) {
            self.counters.add(Counter::AdministrationFull, 1);
        }
        if let Some(what) = what {
            let outcome = match &answer {
                Ok(answer) => outcome_of(answer),
                Err(why) => ActOutcome::Failed(why.to_string()),
            };
            self.audit(&waiting.principal(), what, &outcome);
        }
        self.answered(waiting, answer)
    }
}

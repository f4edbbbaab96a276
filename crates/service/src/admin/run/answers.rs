//! Time of answers: at once, or when the changes before them are published, are on disk, or were announced to the clients concerned.

use crate::admin::run::{Administration, Withheld};
use crate::admin::waiting::{Late, Sending};
use crate::counters::Counter;
use crate::lane::links::messages::{LaneThread, ToLane};
use crate::time;

impl Administration {
    pub(crate) fn send(&mut self, answer: Sending) {
        match answer {
            Sending::ToClient(lane, message, _) => _ = self.lane_registry.send(lane, message),
            // No thread waits any more if it cannot be sent.
            Sending::ToProgram(to, answer) => _ = to.try_send(answer),
            Sending::Then(message) => _ = self.lane_registry.send(LaneThread::MAIN, message),
        }
    }

    /// Hands some changes to the store.
    pub(super) fn keep(&mut self) {
        let Self { persistence, objects, .. } = self;
        persistence.gather(|| objects.poll_changed_part());
    }

    /// Hands all changes to the store.
    pub(super) fn keep_all(&mut self) {
        self.keep();
        while self.persistence.has_to_gather() {
            self.keep();
        }
    }

    /// Sends an answer when the changes before it are on disk.
    pub(super) fn send_when_stored(&mut self, answer: Sending) {
        if let Some(answer) = self.persistence.admit(answer) {
            self.send(answer);
        }
    }

    /// Sends the answers with changes on disk, and those that have waited for too long, which then say so.
    pub(super) fn answer_stored(&mut self) {
        while let Some(answer) = self.persistence.poll() {
            self.send(answer);
        }
        let mut undoes = false;
        while let Some(answer) = self.persistence.poll_late(time::now()) {
            let Late { answer, is_change, made } = answer.not_stored();
            self.counters.add(Counter::ChangesNotStored, is_change.into());
            if !made.is_nothing() {
                undoes = true;
                self.objects.unmake(made);
            }
            self.send(answer);
        }
        if undoes {
            self.publish();
            self.keep();
            self.carry_out_effects();
        }
    }

    /// Sends an answer when the changes are published and the clients concerned are notified. Calls that its request causes follow it.
    pub(super) fn send_when_notified(&mut self, answer: Sending) {
        match (self.objects.take_delayed_reply(), self.objects.take_unpublished()) {
            (Some(delayed_reply), _) => _ = self.answers.delayed_replies.insert(delayed_reply, answer),
            (None, Some(changed)) => {
                self.answers.unpublished.push((changed.clone(), answer));
                while let Some(then) = self.poll_parting() {
                    self.answers.unpublished.push((changed.clone(), then));
                }
            }
            (None, None) => {
                self.answers.done.push(answer);
                while let Some(then) = self.poll_parting() {
                    self.answers.done.push(then);
                }
            }
        }
    }

    /// The next call that follows the answer to the last request.
    fn poll_parting(&mut self) -> Option<Sending> {
        let (call, what) = self.objects.poll_parting()?;
        Some(Sending::Then(ToLane::Call { call, what }))
    }

    /// Sends the answers to requests with published changes. Answers to changes of very many proxies stay until all are published.
    pub(super) fn answer_published(&mut self) {
        let Self { answers: Withheld { unpublished, .. }, objects, .. } = self;
        let published: Vec<Sending> = unpublished
            .extract_if(.., |(changed, _)| objects.is_published(changed))
            .map(|(_, answer)| answer)
            .collect();
        published.into_iter().for_each(|answer| self.send_when_stored(answer));
    }

    /// Sends the answers that need not wait for clients any more.
    pub(super) fn answer_withheld(&mut self) {
        while let Some((delayed_reply, all_notified)) = self.objects.poll_delayed_reply() {
            if !all_notified {
                self.counters.add(Counter::DestroysNotWaitedFor, 1);
            }
            if let Some(answer) = self.answers.delayed_replies.remove(&delayed_reply) {
                self.send_when_stored(answer);
            }
        }
    }
}

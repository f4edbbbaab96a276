//! Pushes that arrive on a connection of a lane other than their own.
//!
//! They are handed to their lane whole, in a buffer that returns with the reply and is reused. The connection's lane counts them as
//! unanswered, so that they are as bounded as others. If the other lane has no room, the push waits here and its connection is not read.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::LaneId;
use giop::cdr::CharSet;
use giop::framing::Message;
use giop::message::{Header, Request};

use crate::counters::Counter;
use crate::lane::intake::{Refused, Submission};
use crate::lane::io::slots::{Slots, Token};
use crate::lane::links::messages::LaneThread;
use crate::lane::run::Core;
use crate::protocols::giop::callers::{Caller, Clients};
use crate::protocols::giop::claims::{Answer, Claim, answer_exception, exception_of, write_done, write_exception};
use accounts::{Account, Charge, Resource};
use corba::NO_ROOM;

/// A push on its way to its lane, or back.
pub(crate) struct ForeignPush {
    /// The connection on which it came, of the lane where it came.
    connection: Token,
    answer: Answer,
    /// Code set of the connection's narrow strings.
    chars: CharSet,
    /// The message; on the way back, the reply.
    bytes: Vec<u8>,
    /// Size of the message.
    size: usize,
    /// Whether it returned because that lane knows no such supplier.
    is_unknown: bool,
    /// The account that pushed it, if there are rules of access.
    by: Option<Arc<Account>>,
    /// Memory of a message that is parked for the main lane.
    charge: Option<Charge>,
}

/// A push for another lane that is being served here.
pub(crate) struct ServedPush {
    thread: LaneThread,
    push: Box<ForeignPush>,
}

/// Number of spare pushes and buffers, and the largest buffer kept.
const SPARE_PUSHES: usize = 64;
const SPARE_BYTES: usize = 16 << 10;
const FIRST_BYTES: usize = 1 << 10;

/// Pushes from and to other lanes.
#[expect(clippy::vec_box, reason = "they travel in these boxes, and are not to be moved into new ones")]
pub(crate) struct ForeignPushes {
    /// Pushes of other lanes that are being served here.
    served: Slots<ServedPush>,
    /// Buffers for pushes to other lanes: as many as are usually on their way at once.
    spares: Vec<Box<ForeignPush>>,
    /// Connections with a push that waits for room on its lane.
    parked: VecDeque<Token>,
    /// Whether there may be room for some of them.
    pub(crate) try_parked: bool,
}

impl Default for ForeignPushes {
    fn default() -> Self {
        let spare = || Box::new(ForeignPush::new(Vec::with_capacity(FIRST_BYTES)));
        Self {
            served: Slots::new(),
            spares: core::iter::repeat_with(spare).take(SPARE_PUSHES).collect(),
            parked: VecDeque::new(),
            try_parked: false,
        }
    }
}

impl ForeignPushes {
    /// Whether no push of another lane is being served here.
    pub(crate) fn serves_none(&self) -> bool {
        self.served.is_empty()
    }

    /// Whether no push waits, for its answer here or for room elsewhere.
    pub(crate) fn are_quiet(&self) -> bool {
        self.served.is_empty() && self.parked.is_empty()
    }

    /// A buffer for a push.
    fn take(&mut self) -> Box<ForeignPush> {
        self.spares.pop().unwrap_or_else(|| Box::new(ForeignPush::new(Vec::new())))
    }

    /// Keeps a push's buffer for reuse.
    fn keep(&mut self, mut push: Box<ForeignPush>) {
        if push.bytes.capacity() > SPARE_BYTES {
            push.bytes = Vec::new();
        }
        if self.spares.len() < SPARE_PUSHES {
            self.spares.push(push);
        }
    }
}

impl ForeignPush {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let answer = Answer::NONE;
        let connection = Token::from_bits(u64::MAX >> 2);
        Self { connection, answer, chars: CharSet::Latin1, bytes, size: 0, is_unknown: false, by: None, charge: None }
    }
}

impl Core {
    /// Hands a push to its lane, or has its connection wait until there is room there. False if there is no such lane.
    pub(crate) fn pass_push(
        &mut self,
        connection: Token,
        message: &Message<'_>,
        caller: &mut Caller,
        answer: Answer,
        lane: LaneId,
    ) -> bool {
        if self.links.lanes.find(lane).is_none() {
            return false;
        }
        let mut push = self.protocols.giop.foreign.take();
        push.bytes.clear();
        push.bytes.extend_from_slice(message.bytes);
        push.size = message.bytes.len();
        (push.connection, push.answer, push.chars, push.is_unknown) = (connection, answer, caller.speech.chars, false);
        push.by = self.access.is_on().then(|| Arc::clone(caller.account()));
        caller.await_answer(push.size);
        self.cx.counters.add(Counter::PushesPassed, 1);
        if let Err((push, _)) = self.links.lanes.send_foreign(lane, push) {
            self.cx.counters.add(Counter::HandoverFull, 1);
            caller.parked = Some((lane, push));
            self.protocols.giop.foreign.parked.push_back(connection);
        }
        true
    }

    /// Parks a message that the main lane serves after the connection has moved there, or answers if there is no room.
    pub(crate) fn park_message(&mut self, message: &Message<'_>, caller: &mut Caller, answer: Answer) {
        let charge = match caller.account().charge(Resource::RequestBytes, message.bytes.len() as u64) {
            Ok(charge) => charge,
            Err(spent) => {
                self.cx.counters.add(Counter::of_refusal(spent), 1);
                return answer_exception(caller, answer, NO_ROOM);
            }
        };
        let mut push = self.protocols.giop.foreign.take();
        push.bytes.clear();
        push.bytes.extend_from_slice(message.bytes);
        push.charge = Some(charge);
        caller.parked = Some((LaneId::MAIN, push));
        caller.lane_affinity.bound_for = Some(LaneId::MAIN);
    }

    /// Takes in a push that arrived on another lane's connection.
    pub(crate) fn take_foreign_push(&mut self, thread: LaneThread, mut push: Box<ForeignPush>) {
        let bytes = core::mem::take(&mut push.bytes);
        let (answer, chars, by) = (push.answer, push.chars, push.by.take());
        let served = self.protocols.giop.foreign.served.insert(ServedPush { thread, push });
        let finished = self.take_in_foreign(served, &bytes, (answer, chars), by.as_ref());
        self.deliver();
        // The push may have been answered already, which needed the buffer.
        let Some(ServedPush { push, .. }) = self.protocols.giop.foreign.served.get_mut(served) else { return };
        push.bytes = bytes;
        match finished {
            None => {
                push.is_unknown = true;
                self.send_home(served);
            }
            Some(Ok(true)) => self.answer_served(served, None),
            Some(Ok(false)) => {}
            Some(Err(refused)) => self.answer_served(served, Some(refused)),
        }
    }

    /// Takes in the events of another lane's push. `None` if its supplier is not known here.
    fn take_in_foreign(
        &mut self,
        served: Token,
        bytes: &[u8],
        (answer, chars): (Answer, CharSet),
        by: Option<&Arc<Account>>,
    ) -> Option<Result<bool, Refused>> {
        let header = Header::parse(bytes).ok()?;
        let request = Request::parse(bytes, &header).ok()?;
        let mut push = self.find_push(&request)?;
        let body = request.body(bytes, &header, chars);
        if self.access.is_on() {
            // There were no rules where it came from: it is let in by what held there.
            let permit = by.map(|account| self.permit_push(account, &push, &body)).unwrap_or(Ok(None));
            match permit {
                Ok(permit) => push.permit = permit,
                Err(_) => return Some(Err(Refused::NotPermitted)),
            }
        }
        let mut submission =
            Submission::new(push.source, crate::protocols::Claim::Giop(Claim::ServedPush(served)), answer.priority)
                .permitted(push.permit.clone());
        if !self.take_in_body(&mut submission, &push, &body) {
            self.cx.counters.add(Counter::WrongBodies, 1);
            return Some(Err(Refused::Unreadable));
        }
        Some(self.finish_submission(&submission))
    }

    /// Answers another lane's push, and sends it back.
    pub(crate) fn answer_served(&mut self, served: Token, refused: Option<Refused>) {
        let Some(ServedPush { push, .. }) = self.protocols.giop.foreign.served.get_mut(served) else { return };
        push.bytes.clear();
        if push.answer.expected {
            match refused {
                None => write_done(&mut push.bytes, push.answer),
                Some(refused) => {
                    write_exception(&mut push.bytes, push.chars, push.answer, exception_of(&refused));
                }
            }
        }
        self.send_home(served);
    }

    fn send_home(&mut self, served: Token) {
        if let Some(ServedPush { thread, push }) = self.protocols.giop.foreign.served.remove(served) {
            self.links.lanes.return_foreign(thread, push);
        }
    }
}

impl Clients {
    /// Handles a push that has returned with its reply, or without one.
    pub(crate) fn conclude_push_elsewhere(&mut self, mut push: Box<ForeignPush>, core: &mut Core) {
        let (connection, size) = (push.connection, push.size);
        if push.is_unknown {
            // Errors are administration's to tell, here as anywhere.
            if let Some(entry) = self.incoming.get_mut(connection) {
                entry.caller.note_answer(size);
                if let Ok(header) = Header::parse(&push.bytes) {
                    let message = Message { header, bytes: &push.bytes };
                    if !core.pass_on(connection, message, &mut entry.caller, false) {
                        answer_exception(&mut entry.caller, push.answer, NO_ROOM);
                    }
                }
                push.bytes.clear();
                self.resume(connection, core);
            }
        } else {
            self.pass_reply(connection, size, |output| output.bytes().extend_from_slice(&push.bytes), core);
        }
        core.protocols.giop.foreign.keep(push);
    }

    /// Posts pushes that waited for room, and resumes their connections.
    pub(crate) fn serve_parked(&mut self, core: &mut Core) {
        if !core::mem::take(&mut core.protocols.giop.foreign.try_parked) {
            return;
        }
        for _ in 0..core.protocols.giop.foreign.parked.len() {
            let Some(connection) = core.protocols.giop.foreign.parked.pop_front() else { return };
            let Some(entry) = self.incoming.get_mut(connection) else { continue };
            let Some((lane, push)) = entry.caller.parked.take() else { continue };
            match core.links.lanes.send_foreign(lane, push) {
                Ok(()) => self.resume(connection, core),
                Err((push, true)) => {
                    entry.caller.parked = Some((lane, push));
                    core.protocols.giop.foreign.parked.push_back(connection);
                }
                // The lane has ended meanwhile: its supplier is gone, as administration will say.
                Err((mut push, false)) => {
                    push.is_unknown = true;
                    self.conclude_push_elsewhere(push, core);
                }
            }
        }
    }

    /// Serves the message for which a connection has moved here.
    pub(crate) fn serve_moved_message(&mut self, connection: Token, mut push: Box<ForeignPush>, core: &mut Core) {
        push.charge = None;
        if let Some(entry) = self.incoming.get_mut(connection)
            && let Ok(header) = Header::parse(&push.bytes)
        {
            let message = Message { header, bytes: &push.bytes };
            let violation = core.handle_message(connection, message, &mut entry.caller).err();
            if let Some(why) = violation {
                self.reject(connection, &why, core);
            }
        }
        core.protocols.giop.foreign.keep(push);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(bytes: usize) -> Box<ForeignPush> {
        Box::new(ForeignPush::new(vec![0; bytes]))
    }

    #[test]
    fn as_many_buffers_are_kept_as_there_were_at_first_and_no_large_ones() {
        let mut pushes = ForeignPushes::default();
        let taken: Vec<Box<ForeignPush>> = (0..SPARE_PUSHES + 10).map(|_| pushes.take()).collect();
        assert!(pushes.spares.is_empty());
        taken.into_iter().for_each(|push| pushes.keep(push));
        assert_eq!(pushes.spares.len(), SPARE_PUSHES);
        let mut pushes = ForeignPushes::default();
        pushes.take();
        pushes.keep(push(SPARE_BYTES + 1));
        assert_eq!(pushes.take().bytes.capacity(), 0, "its box is kept");
    }

    #[test]
    fn a_push_that_is_served_here_or_waits_for_room_elsewhere_is_under_way() {
        let mut pushes = ForeignPushes::default();
        assert!(pushes.are_quiet());
        let served = pushes.served.insert(ServedPush { thread: LaneThread::MAIN, push: push(1) });
        assert!(!pushes.are_quiet() && !pushes.serves_none());
        pushes.served.remove(served);
        pushes.parked.push_back(Token::from_bits(1));
        // It is its connection's, which is not to end either.
        assert!(!pushes.are_quiet() && pushes.serves_none());
    }
}

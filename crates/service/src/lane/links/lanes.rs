//! Links between lanes: a ring each way between every two, and the messages on it.
//!
//! A lane has links to the others when it is started, and is introduced to later ones before it sees routing that uses them. Every message
//! is answered over its link in the end: an event by its outcome, a push by its reply. So the number of unanswered messages is bounded, and
//! there is always room for the answers.
//!
//! A link to a lane that ends is removed in two steps. First the others say that they send nothing new. When everything is answered both
//! ways and the lane has given its connections away, its last message says so, and the link is removed.

use core::num::NonZeroU64;
use std::sync::Arc;

use engine::{Admission, Event, Handover, LaneId, OutboxId, Outcome};

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::io::slots::Token;
use crate::lane::links::mailbox::{Inbox, Mailbox};
use crate::lane::links::messages::LaneThread;
use crate::lane::run::{Core, Worker};
use crate::protocols::{Foreign, Moving};

/// Message from one lane to another.
pub(crate) enum ToPeer {
    /// An event for consumers of the receiving lane.
    Event(Passed),
    /// Outcome of an event that the receiving lane handed over.
    Taken(Passed, Outcome),
    /// A protocol's message for the receiving lane.
    Foreign(Box<Foreign>),
    /// A protocol's message on its way back: answered, or not for that lane after all.
    ForeignDone(Box<Foreign>),
    /// An event of the receiving lane is complete here; an acknowledgement waits for that there.
    Completed(NonZeroU64),
    /// A connection that the receiving lane serves from now on.
    Connection(Box<Moving>),
    /// The sender sends nothing new any more, only answers.
    Parting,
    /// The last message of a link.
    Parted,
}

/// An event on its way to another lane or back. It is released where it came from.
#[derive(Debug)]
pub(crate) struct Passed {
    outbox: OutboxId,
    serial: u32,
    event: Arc<Event>,
}

/// An event of another lane that waits for its turn, or is taken in and blocked.
pub(crate) struct TakenForPeer {
    thread: LaneThread,
    passed: Passed,
}

/// One lane's end of its link to another.
pub(crate) struct Link {
    pub(crate) lane: LaneId,
    /// The other lane's thread, since an earlier lane may have had the id.
    pub(crate) thread: LaneThread,
    /// The other lane's priority; `None` for a main lane without one.
    pub(crate) priority: Option<i16>,
    to: Mailbox<ToPeer>,
    from: Inbox<ToPeer>,
    /// Maximum unanswered messages, and their number.
    window: usize,
    unanswered: usize,
    /// Bridges that wait for room on the link.
    blocked: Vec<OutboxId>,
    /// Whether the link is being removed: nothing new is posted to it, and nothing new comes from it.
    is_parting: bool,
    was_parted_from: bool,
    /// Whether the last message was read.
    has_ended: bool,
}

/// All links of a lane, those to more important lanes first.
#[derive(Default)]
pub(crate) struct LaneLinks {
    all: Vec<Link>,
}

/// Maximum length of a queue from one lane to another. Its bridges limit a channel to far less of it.
const QUEUE_MAX: u32 = 1024;
/// Places for messages without an answer: connections that move, and the two messages that remove a link.
const MOVES_MAX: usize = 32;
const PARTING: usize = 2;

/// Capacity of the two rings between two lanes.
pub(crate) struct Capacity {
    /// Maximum unanswered messages to each of the lanes.
    pub(crate) to_first: usize,
    pub(crate) to_second: usize,
    /// Places in either ring: for messages, for answers to the other lane's, and for messages without an answer.
    pub(crate) total: usize,
}

/// Capacity of the rings between two lanes with the given queue lengths, in events.
pub(crate) fn capacity(first: u32, second: u32) -> Capacity {
    let [to_first, to_second] = [first, second].map(|events| events.clamp(1, QUEUE_MAX) as usize);
    Capacity { to_first, to_second, total: to_first + to_second + MOVES_MAX + PARTING }
}

impl Link {
    pub(crate) fn new(
        (lane, thread, priority): (LaneId, LaneThread, Option<i16>),
        to: Mailbox<ToPeer>,
        from: Inbox<ToPeer>,
        window: usize,
    ) -> Self {
        Self {
            lane,
            thread,
            priority,
            to,
            from,
            window,
            unanswered: 0,
            blocked: Vec::with_capacity(64),
            is_parting: false,
            was_parted_from: false,
            has_ended: false,
        }
    }

    /// Posts a message that is answered.
    ///
    /// # Errors
    /// The message is returned if too many are unanswered.
    fn ask(&mut self, message: ToPeer) -> Result<(), ToPeer> {
        if self.unanswered >= self.window {
            return Err(message);
        }
        self.to.send(message)?;
        self.unanswered += 1;
        Ok(())
    }

    /// Posts a message that always has room.
    fn tell(&mut self, message: ToPeer) {
        let sent = self.to.send(message).is_ok();
        debug_assert!(sent, "there is room for as many answers as there are questions");
    }

    /// Whether a connection can be sent without taking the room of answers.
    fn has_room_for_moves(&self) -> bool {
        !self.is_parting && self.to.room() > self.to.capacity() - MOVES_MAX
    }

    fn part(&mut self) {
        if !core::mem::replace(&mut self.is_parting, true) {
            self.tell(ToPeer::Parting);
        }
    }
}

impl LaneLinks {
    pub(crate) fn new(links: Vec<Link>) -> Self {
        let mut all = Self { all: links };
        all.sort();
        all
    }

    fn sort(&mut self) {
        self.all.sort_by_key(|link| core::cmp::Reverse(link.priority));
    }

    /// Adds the link to a lane that was started.
    pub(crate) fn meet(&mut self, link: Link) {
        self.all.push(link);
        self.sort();
    }

    /// The link to a lane. Links that are being removed are skipped, since an earlier lane may have had the id.
    pub(crate) fn find(&mut self, lane: LaneId) -> Option<&mut Link> {
        self.all.iter_mut().find(|link| link.lane == lane && !link.is_parting)
    }

    fn of(&mut self, thread: LaneThread) -> Option<&mut Link> {
        self.all.iter_mut().find(|link| link.thread == thread)
    }

    /// Posts a protocol's message to a lane.
    ///
    /// # Errors
    /// The message is returned if there is no room for it, or no such lane; the other value says which.
    pub(crate) fn send_foreign(&mut self, lane: LaneId, message: Box<Foreign>) -> Result<(), (Box<Foreign>, bool)> {
        let Some(link) = self.find(lane) else { return Err((message, false)) };
        match link.ask(ToPeer::Foreign(message)) {
            Err(ToPeer::Foreign(message)) => Err((message, true)),
            _ => Ok(()),
        }
    }

    /// Sends a protocol's message back to its lane.
    pub(crate) fn return_foreign(&mut self, thread: LaneThread, message: Box<Foreign>) {
        if let Some(link) = self.of(thread) {
            link.tell(ToPeer::ForeignDone(message));
        }
    }

    /// Whether a connection can be sent to a lane now.
    pub(crate) fn can_move_to(&mut self, lane: LaneId) -> bool {
        self.find(lane).is_some_and(|link| link.has_room_for_moves())
    }

    /// Sends a connection to a lane, for which [`Self::can_move_to`] was true.
    pub(crate) fn move_to(&mut self, lane: LaneId, connection: Box<Moving>) {
        if let Some(link) = self.find(lane) {
            link.tell(ToPeer::Connection(connection));
        }
    }

    /// Notifies a lane that its event is complete here. True if the message is posted or the lane is gone.
    pub(crate) fn send_completed(&mut self, thread: LaneThread, watch: NonZeroU64) -> bool {
        let Some(link) = self.of(thread) else { return true };
        // The room of answers is not taken.
        link.to.room() > link.to.capacity() - MOVES_MAX && link.to.send(ToPeer::Completed(watch)).is_ok()
    }

    /// Announces to a lane that nothing new will be posted to it.
    pub(crate) fn part(&mut self, thread: LaneThread) {
        if let Some(link) = self.of(thread) {
            link.part();
        }
    }

    /// Whether all other lanes have announced that they post nothing new, and all messages are answered.
    pub(crate) fn are_quiet(&self) -> bool {
        self.all.iter().all(|link| link.was_parted_from && link.unanswered == 0)
    }

    /// Whether any message is unanswered.
    pub(crate) fn are_awaited(&self) -> bool {
        self.all.iter().any(|link| link.unanswered > 0)
    }

    /// Posts the last message to all lanes.
    pub(crate) fn end(&mut self) {
        for mut link in self.all.drain(..) {
            link.tell(ToPeer::Parted);
        }
    }

    /// Removes the links to lanes that have ended.
    fn forget_ended(&mut self) {
        self.all.retain(|link| !link.has_ended);
    }

    /// Notes that the lane looks: messages posted from now on wake it again.
    pub(crate) fn look(&self) {
        self.all.iter().for_each(|link| link.from.look());
    }
}

impl Worker {
    /// Serves messages of other lanes. True if there are more.
    pub(crate) fn serve_links(&mut self) -> bool {
        let links = self.core.links.lanes.all.len();
        let mut more = false;
        for at in 0..links {
            more |= self.serve_link(at);
        }
        // A lane that was met meanwhile has moved others down, which then were not served.
        more |= self.core.links.lanes.all.len() != links;
        self.core.links.lanes.forget_ended();
        more
    }

    fn serve_link(&mut self, at: usize) -> bool {
        let Some(thread) = self.core.links.lanes.all.get(at).map(|link| link.thread) else { return false };
        for _ in 0..Budget::EVENTS.events {
            let Some(message) = self.core.links.lanes.of(thread).and_then(|link| link.from.take()) else {
                return false;
            };
            // Routing for the message was published before it was posted: refresh before handling it.
            self.core.refresh();
            match message {
                ToPeer::Event(passed) => self.core.take_over(thread, passed),
                ToPeer::Taken(passed, outcome) => self.core.note_taken_over(thread, passed, outcome),
                ToPeer::Foreign(message) => self.core.take_foreign_push(thread, message),
                ToPeer::ForeignDone(message) => {
                    self.core.note_answered(thread);
                    self.clients.callers().conclude_push_elsewhere(message, &mut self.core);
                }
                ToPeer::Completed(watch) => self.core.note_done_elsewhere(watch),
                ToPeer::Connection(connection) => self.clients.callers().adopt(connection, &mut self.core),
                ToPeer::Parting => {
                    if let Some(link) = self.core.links.lanes.of(thread) {
                        link.was_parted_from = true;
                        self.core.protocols.note_room_elsewhere();
                    }
                }
                ToPeer::Parted => {
                    if let Some(link) = self.core.links.lanes.of(thread) {
                        link.has_ended = true;
                    }
                    return false;
                }
            }
        }
        self.core.links.lanes.of(thread).is_some_and(|link| link.from.waiting() > 0)
    }
}

impl Core {
    /// Posts the events that the engine hands over.
    pub(crate) fn send_handovers(&mut self) {
        while let Some(Handover { to, outbox, serial, event, .. }) = self.cx.lane.poll_handover(self.cx.clock.now) {
            let Some(link) = self.links.lanes.find(to) else {
                // The lane has just ended, with all consumers that would have got the event there.
                self.cx.lane.handle_outcome(outbox, serial, Outcome::Rejected, self.cx.clock.now);
                self.cx.lane.release(event);
                continue;
            };
            match link.ask(ToPeer::Event(Passed { outbox, serial, event })) {
                Ok(()) => self.cx.counters.add(Counter::HandedOver, 1),
                Err(message) => {
                    link.blocked.push(outbox);
                    self.cx.counters.add(Counter::HandoverFull, 1);
                    self.cx.lane.handle_outcome(outbox, serial, Outcome::NoRoom, self.cx.clock.now);
                    if let ToPeer::Event(passed) = message {
                        self.cx.lane.release(passed.event);
                    }
                }
            }
        }
    }

    /// Takes in an event that another lane hands over, at once or in its turn.
    fn take_over(&mut self, thread: LaneThread, passed: Passed) {
        self.cx.counters.add(Counter::TakenOver, 1);
        if !self.cx.lane.schedules_topics() {
            return self.take_over_now(thread, passed);
        }
        let taken = &mut self.links.taken_for_peers;
        let token = taken.insert(TakenForPeer { thread, passed });
        if let Some(TakenForPeer { passed, .. }) = taken.get(token) {
            self.cx.lane.schedule_handover(&passed.event, token.to_bits(), self.cx.clock.now);
        }
    }

    /// Takes in an event of another lane that has waited for its turn.
    pub(crate) fn take_over_queued(&mut self, token: Token) {
        if let Some(TakenForPeer { thread, passed }) = self.links.taken_for_peers.remove(token) {
            self.take_over_now(thread, passed);
        }
    }

    /// Takes in an event of another lane, and acknowledges it as soon as it is not blocked.
    fn take_over_now(&mut self, thread: LaneThread, passed: Passed) {
        let event = &passed.event;
        let mut pending_event = self.cx.lane.begin_handover(event);
        self.protocols.translate_here(event.source, &mut pending_event, &mut self.cx);
        let outcome = match self.cx.lane.handle_handover(event, pending_event, &self.protocols, self.cx.clock.now) {
            Admission::Accepted { .. } => Outcome::Delivered,
            Admission::Withheld(ticket) => {
                let taken = self.links.taken_for_peers.insert(TakenForPeer { thread, passed });
                self.intake.block_for_peer(ticket, taken);
                return self.deliver();
            }
            Admission::AwaitingFilter(pending_event, _) => {
                self.cx.lane.abandon_event(pending_event);
                Outcome::Rejected
            }
            Admission::Refused(_) => Outcome::Rejected,
        };
        self.tell_taken_over(thread, passed, outcome);
        self.deliver();
    }

    /// Acknowledges an event of another lane that is not blocked any more.
    pub(crate) fn complete_peer_ack(&mut self, taken: Token) {
        if let Some(TakenForPeer { thread, passed }) = self.links.taken_for_peers.remove(taken) {
            self.tell_taken_over(thread, passed, Outcome::Delivered);
        }
    }

    fn tell_taken_over(&mut self, thread: LaneThread, passed: Passed, outcome: Outcome) {
        if let Some(link) = self.links.lanes.of(thread) {
            link.tell(ToPeer::Taken(passed, outcome));
        }
    }

    /// Handles the acknowledgement of an event that was handed over.
    fn note_taken_over(&mut self, thread: LaneThread, passed: Passed, outcome: Outcome) {
        let Passed { outbox, serial, event } = passed;
        self.cx.lane.handle_outcome(outbox, serial, outcome, self.cx.clock.now);
        self.cx.lane.release(event);
        self.note_answered(thread);
    }

    /// Handles an answer on a link, which makes room: bridges that waited for it are resumed.
    fn note_answered(&mut self, thread: LaneThread) {
        let Some(link) = self.links.lanes.of(thread) else { return };
        link.unanswered = link.unanswered.saturating_sub(1);
        self.protocols.note_room_elsewhere();
        while let Some(outbox) = self.links.lanes.of(thread).and_then(|link| link.blocked.pop()) {
            self.cx.lane.resume_outbox(outbox, self.cx.clock.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::io::net::Waker;
    use crate::lane::links::mailbox::mailbox;

    /// Both ends of a link between lanes with queues for so many events.
    fn link(first: u32, second: u32) -> [Link; 2] {
        let capacity = capacity(first, second);
        let waker = Arc::new(Waker::new().unwrap());
        let (to_second, from_first) = mailbox(&waker, capacity.total);
        let (to_first, from_second) = mailbox(&waker, capacity.total);
        let end = |lane, to, from, window| Link::new((LaneId(lane), LaneThread(lane.into()), None), to, from, window);
        [end(2, to_second, from_second, capacity.to_second), end(1, to_first, from_first, capacity.to_first)]
    }

    fn request() -> ToPeer {
        ToPeer::Foreign(Box::new(Foreign::new(Vec::new())))
    }

    fn answer() -> ToPeer {
        ToPeer::ForeignDone(Box::new(Foreign::new(Vec::new())))
    }

    #[test]
    fn there_is_room_for_every_answer_whatever_else_was_posted() {
        for (to_first, to_second) in [(1, 1), (3, 7), (100_000, 2)] {
            let [mut first, mut second] = link(to_first, to_second);
            // As many connections as may move, and as many requests as may be made, both ways, before either side reads.
            let moves = core::iter::repeat_with(|| first.has_room_for_moves().then(|| first.tell(answer())).is_some());
            assert_eq!(moves.take_while(|moved| *moved).count(), MOVES_MAX);
            while first.ask(request()).is_ok() {}
            assert_eq!(first.unanswered, to_second.min(QUEUE_MAX) as usize);
            assert!(!first.has_room_for_moves());
            while second.ask(request()).is_ok() {}
            let requested = second.unanswered;
            assert_eq!(requested, to_first.min(QUEUE_MAX) as usize);
            // Nothing was read of it when the other's are answered and they part.
            (0..requested).for_each(|_| first.tell(answer()));
            first.part();
            first.tell(ToPeer::Parted);
            assert_eq!(first.to.room(), 0);
        }
    }

    #[test]
    fn thirty_two_connections_may_be_on_their_way_to_a_lane_and_the_next_one_when_it_has_taken_one() {
        let [first, mut second] = link(1, 1);
        let mut links = LaneLinks::new(vec![first]);
        for moved in 0..32 {
            assert!(links.can_move_to(LaneId(2)), "{moved}");
            links.find(LaneId(2)).unwrap().tell(answer());
        }
        assert!(!links.can_move_to(LaneId(2)));
        assert!(second.from.take().is_some());
        assert!(links.can_move_to(LaneId(2)));
    }

    #[test]
    fn a_lane_that_is_parted_from_is_not_found() {
        let [first, _second] = link(1, 1);
        let mut links = LaneLinks::new(vec![first]);
        assert!(links.find(LaneId(2)).is_some() && links.can_move_to(LaneId(2)));
        links.part(LaneThread(2));
        assert!(links.find(LaneId(2)).is_none() && !links.can_move_to(LaneId(2)));
        assert!(!links.are_quiet(), "it may still send something");
    }

    #[test]
    fn more_important_lanes_are_served_first() {
        let ends = [Some(5), None, Some(9)].map(|priority| {
            let [mut end, _] = link(1, 1);
            end.priority = priority;
            end
        });
        let links = LaneLinks::new(ends.into());
        let order: Vec<Option<i16>> = links.all.iter().map(|link| link.priority).collect();
        assert_eq!(order, [Some(9), Some(5), None]);
    }
}

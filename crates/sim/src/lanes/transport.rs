//! Transport between lanes: bounded queues, outcomes on their way back, and a protocol that answers at random.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Admission, Delivery, Event, Handover, Lane, LaneId, OutboxId, Outcome, Ticket, Time};

use super::Run;
use crate::random::{Bytes, labels};

/// A lane, with its queues.
pub(super) struct Node {
    pub(super) lane: Lane,
    /// Hand-overs to this lane.
    pub(super) queue: VecDeque<Sent>,
    /// Hand-overs that it has taken in and blocks.
    pub(super) withheld: Vec<(Ticket, Sent)>,
    /// Its own hand-overs, on their way back.
    pub(super) returns: VecDeque<(Sent, Outcome)>,
    /// Its bridges that found a queue full.
    pub(super) stopped: Vec<OutboxId>,
    pub(super) unanswered: Vec<(Delivery, Vec<Arc<Event>>)>,
    /// Outboxes whose connections took nothing.
    pub(super) stalled: Vec<OutboxId>,
}

pub(super) struct Sent {
    from: usize,
    handover: Handover,
}

impl Node {
    pub(super) fn new(id: u16, now: Time) -> Self {
        Self {
            lane: Lane::with_id(LaneId(id), now),
            queue: VecDeque::new(),
            withheld: vec![],
            returns: VecDeque::new(),
            stopped: vec![],
            unanswered: vec![],
            stalled: vec![],
        }
    }

    /// Whether all queues are empty.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.withheld.is_empty() && self.returns.is_empty() && self.unanswered.is_empty()
    }
}

impl Run {
    // ---- hand-overs ----

    /// Sends the next hand-over of a lane. Returns whether there was one.
    pub(super) fn send_next(&mut self, from: usize) -> bool {
        let Some(handover) = self.nodes[from].lane.poll_handover(self.now) else { return false };
        let queue = &mut self.nodes[usize::from(handover.to.0)].queue;
        if queue.len() < self.queue_max {
            queue.push_back(Sent { from, handover });
            return true;
        }
        self.summary.no_room += 1;
        let node = &mut self.nodes[from];
        node.lane.handle_outcome(handover.outbox, handover.serial, Outcome::NoRoom, self.now);
        node.lane.release(handover.event);
        node.stopped.push(handover.outbox);
        true
    }

    /// Takes in the next hand-over to a lane. Returns whether there was one.
    pub(super) fn take_over(&mut self, to: usize) -> Result<bool, String> {
        let Some(sent) = self.nodes[to].queue.pop_front() else { return Ok(false) };
        if self.nodes[to].lane.snapshot().version < sent.handover.version {
            self.pick_up(to);
        }
        let node = &mut self.nodes[to];
        let label = labels(std::slice::from_ref(&sent.handover.event))[0];
        let event = &sent.handover.event;
        let pending_event = node.lane.begin_handover(event);
        let outcome = match node.lane.handle_handover(event, pending_event, &Bytes, self.now) {
            Admission::Accepted { .. } => Some(Outcome::Delivered),
            Admission::Withheld(ticket) => {
                self.summary.handed_and_withheld += 1;
                node.withheld.push((ticket, sent));
                self.model.handed_over(label, node.lane.id())?;
                return Ok(true);
            }
            other => return Err(format!("{} did not take event {label} over: {other:?}", node.lane.id())),
        };
        self.model.handed_over(label, node.lane.id())?;
        if let Some(outcome) = outcome {
            self.nodes[sent.from].returns.push_back((sent, outcome));
        }
        Ok(true)
    }

    /// Reports the outcome of a lane's next hand-over. Returns whether there was one.
    pub(super) fn conclude(&mut self, at: usize) -> bool {
        let node = &mut self.nodes[at];
        let Some((sent, outcome)) = node.returns.pop_front() else { return false };
        let Handover { outbox, serial, event, .. } = sent.handover;
        node.lane.handle_outcome(outbox, serial, outcome, self.now);
        node.lane.release(event);
        true
    }

    /// Resumes all outboxes that waited for room in a queue or for a connection.
    pub(super) fn resume(&mut self, at: usize) -> bool {
        let node = &mut self.nodes[at];
        let resumed: Vec<OutboxId> = node.stopped.drain(..).chain(node.stalled.drain(..)).collect();
        resumed.iter().for_each(|outbox| node.lane.resume_outbox(*outbox, self.now));
        !resumed.is_empty()
    }

    // ---- deliveries ----

    /// Begins the next delivery of a lane. Returns whether there was one.
    pub(super) fn begin(&mut self, at: usize) -> bool {
        let (node, mut events) = (&mut self.nodes[at], vec![]);
        let Some(delivery) = node.lane.poll_delivery(self.now, &mut events) else { return false };
        node.unanswered.push((delivery, events));
        true
    }

    /// Answers one of a lane's deliveries. Returns whether there was one.
    pub(super) fn answer(&mut self, at: usize, outcome: Outcome) -> Result<bool, String> {
        let count = self.nodes[at].unanswered.len();
        if count == 0 {
            return Ok(false);
        }
        let nth = self.random.usize(..count);
        let node = &mut self.nodes[at];
        let (delivery, events) = node.unanswered.swap_remove(nth);
        // A delivery that was removed meanwhile, with its consumer, takes no answer any more.
        let is_known = node.lane.outboxes().any(|stats| stats.outbox == delivery.outbox && stats.in_flight > 0);
        if is_known && outcome == Outcome::Delivered {
            self.summary.delivered += 1;
            for label in labels(&events) {
                self.model.got(delivery.key, label, node.lane.id())?;
            }
        }
        if outcome == Outcome::NoRoom {
            node.stalled.push(delivery.outbox);
        }
        node.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, self.now);
        events.into_iter().for_each(|event| node.lane.release(event));
        Ok(true)
    }

    /// Passes on a lane's releases: of suppliers, and of hand-overs that it blocked.
    pub(super) fn release(&mut self, at: usize) -> Result<bool, String> {
        let Some(ticket) = self.nodes[at].lane.poll_release() else { return Ok(false) };
        let id = self.nodes[at].lane.id();
        if let Some(nth) = self.nodes[at].withheld.iter().position(|(withheld, _)| *withheld == ticket) {
            let (_, sent) = self.nodes[at].withheld.remove(nth);
            self.nodes[sent.from].returns.push_back((sent, Outcome::Delivered));
            return Ok(true);
        }
        let mut suppliers = self.model.suppliers.iter_mut();
        let supplier = suppliers.find(|supplier| supplier.ticket == Some((id, ticket)));
        supplier.ok_or_else(|| format!("{id} released {ticket:?}, which no lane holds"))?.ticket = None;
        Ok(true)
    }
}

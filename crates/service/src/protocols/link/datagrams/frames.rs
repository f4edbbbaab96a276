//! Frames about groups.

use links::wire::Frame;

use super::super::{Flow, Links};
use crate::counters::Counter;
use crate::lane::io::slots::Token;

impl Links<'_> {
    /// Handles a frame about a group.
    ///
    /// # Errors
    /// The reason for closing the connection.
    pub(in crate::protocols::link) fn handle_group_frame(
        &mut self,
        token: Token,
        frame: &Frame<'_>,
    ) -> Result<(), String> {
        let Some(connection) = self.core.protocols.link.connections.get(token) else { return Ok(()) };
        let flow = |number: &u32| connection.flows.get(number).copied();
        let other_way = |number: &u32| Err(format!("what it says of a group is not for the flow {number}"));
        match frame {
            Frame::GroupJoin(join) => match flow(&join.flow) {
                Some(Flow::In(at)) => self.listen_to_group(at, join),
                _ => return other_way(&join.flow),
            },
            Frame::GroupStart { flow: number, join, from } => match flow(number) {
                Some(Flow::In(at)) => self.group_starts(at, *join, *from),
                _ => return other_way(number),
            },
            Frame::GroupEvent(event) => match flow(&event.flow) {
                Some(Flow::In(at)) => self.take_group_event(at, event),
                _ => return other_way(&event.flow),
            },
            Frame::GroupLeave { flow: number, join, reason } => match flow(number) {
                Some(Flow::In(at)) => self.group_ends(at, *join),
                Some(Flow::Out(at)) => self.far_side_leaves(at, *join, reason),
                None => {}
            },
            Frame::GroupListening { flow: number, join, port } => match flow(number) {
                Some(Flow::Out(at)) => self.far_side_listens(at, *join, *port),
                _ => return other_way(number),
            },
            Frame::GroupAck { flow: number, join, up_to } => match flow(number) {
                Some(Flow::Out(at)) => return self.acknowledge_group(at, *join, *up_to),
                _ => return other_way(number),
            },
            Frame::GroupReject { flow: number, join, number: event, text } => match flow(number) {
                Some(Flow::Out(at)) => self.reject_of_group(at, *join, *event, text),
                _ => return other_way(number),
            },
            Frame::GroupRequest { flow: number, join, ranges } => match flow(number) {
                Some(Flow::Out(at)) => self.repair(at, *join, ranges.iter()),
                _ => return other_way(number),
            },
            _ => {}
        }
        Ok(())
    }

    fn is_attempt(&self, at: Token, join: u32) -> bool {
        let outflow = self.core.protocols.link.outflows.get(at);
        outflow.and_then(|outflow| outflow.group.as_ref()).is_some_and(|group| group.member.join_number() == join)
    }

    fn is_in_step(&self, at: Token) -> bool {
        let outflow = self.core.protocols.link.outflows.get(at);
        outflow.and_then(|outflow| outflow.group.as_ref()).is_some_and(|group| group.member.is_in_step())
    }

    fn far_side_leaves(&mut self, at: Token, join: u32, reason: &str) {
        if self.is_attempt(at, join) {
            self.fall_back(at, &format!("the other side does not take them: {reason}"));
        }
    }

    /// Sends the events that a far side requests again.
    fn repair(&mut self, at: Token, join: u32, ranges: impl Iterator<Item = (u64, u64)>) {
        if !self.is_attempt(at, join) || !self.is_in_step(at) {
            return;
        }
        let outflow = self.core.protocols.link.outflows.get(at);
        let Some(place) = outflow.and_then(|outflow| Some(outflow.group.as_ref()?.place)) else { return };
        let Some(stream) = self.core.protocols.link.groups.stream(place) else { return };
        let numbers = stream.sender.numbers();
        for (first, last) in ranges {
            // Others are not retained: the far side has acknowledged them, or they were not sent.
            for number in first.max(*numbers.start())..=last.min(*numbers.end()) {
                self.core.cx.counters.add(Counter::LinkEventsRepaired, 1);
                self.send_by_session(at, number);
                if !self.is_in_step(at) {
                    return;
                }
            }
        }
    }
}

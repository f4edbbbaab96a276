//! Connections that move to a lane for good.
//!
//! A client that pushes for one lane only is served best there, without hand-overs. So its connection moves: to a more important lane at
//! the first push for it, to a less important one after many in a row. It moves when nothing is outstanding on it, with all input that was
//! read, and is not read until then; so the client's messages stay in order. A connection with pulls, and one over which
//! events go to its client, is served by the main lane, and stays there.

use engine::LaneId;

use crate::counters::Counter;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::Interest;
use crate::lane::run::Core;
use crate::protocols::Tag;
use crate::protocols::giop::callers::{Clients, Incoming};

/// Pushes in a row for one less important lane after which a connection moves there.
const DOWN_AFTER: u32 = 64;

/// Why calls over a client's connection end when it moves.
const GONE_ELSEWHERE: &str = "its connection is served by another lane, for which it supplies events";

/// Choice of the lane for a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneAffinity {
    /// The lane that the connection moves to as soon as it can.
    pub(crate) bound_for: Option<LaneId>,
    /// Lane of the latest pushes, and their number in a row.
    latest: Option<LaneId>,
    in_a_row: u32,
    /// Whether it is served by the main lane only: events are pulled on it, or go over it to its client.
    stays: bool,
}

impl LaneAffinity {
    /// Notes that the connection has moved to another lane.
    pub(crate) fn arrive(&mut self) {
        *self = Self { stays: self.stays, ..Self::default() };
    }

    /// Notes a push for the connection's lane.
    pub(crate) fn note_own(&mut self) {
        self.in_a_row = 0;
    }

    /// Notes a push for another lane.
    pub(crate) fn note_other(&mut self, lane: LaneId, is_more_important: bool) {
        self.in_a_row = if self.latest == Some(lane) { self.in_a_row.saturating_add(1) } else { 1 };
        self.latest = Some(lane);
        if !self.stays && (is_more_important || self.in_a_row >= DOWN_AFTER) {
            self.bound_for = Some(lane);
        }
    }

    /// Has the connection stay with the main lane.
    pub(crate) fn stay(&mut self) {
        self.stays = true;
    }
}

impl Clients {
    /// Sends a connection to its chosen lane, if nothing is outstanding on it. True if it is gone.
    pub(crate) fn send_away(&mut self, token: Token, core: &mut Core) -> bool {
        let Some(Incoming { caller, .. }) = self.incoming.get_mut(token) else { return true };
        let Some(lane) = caller.lane_affinity.bound_for else { return false };
        if !core.protocols.giop.outgoing.may_leave(caller) {
            // The connection may try again with the next push.
            caller.lane_affinity.arrive();
            return false;
        }
        if !caller.can_move() {
            return false;
        }
        if lane == core.cx.identity.id || !core.links.lanes.can_move_to(lane) {
            if caller.parked.is_some() || core.links.retiring {
                // The connection has to move, and waits until there is room.
                self.movers.push_back(token);
                core.cx.clock.plan_sweep();
            } else {
                // The connection may try again with the next push.
                caller.lane_affinity.arrive();
            }
            return false;
        }
        let Some(mut entry) = self.incoming.remove(token) else { return true };
        core.cx.io.occupied.leave(Tag::Giop, token);
        // Should that fail, the poll would report the descriptor's end for a token that is not in use.
        let _ = core.cx.io.poll.remove(entry.caller.stream.tcp());
        core.cx.io.buffers.recover(&mut entry.inbound);
        entry.caller.release_room(&mut self.unfinished);
        core.protocols.giop.outgoing.end_offer(&mut entry.caller, GONE_ELSEWHERE, &mut core.cx);
        entry.caller.prepare_to_move();
        core.cx.io.quotas.leave(entry.caller.rounds.quota);
        self.note_open(-1, core);
        core.cx.counters.add(Counter::ConnectionsMoved, 1);
        core.links.lanes.move_to(lane, Box::new(entry));
        true
    }

    /// Takes over a connection from another lane.
    pub(crate) fn adopt(&mut self, entry: Box<Incoming>, core: &mut Core) {
        let mut entry = *entry;
        let parked = entry.caller.parked.take();
        entry.caller.set_quota(core.cx.io.quotas.arrive(entry.caller.account().ip()));
        let (ip, heard) = (entry.caller.account().ip(), entry.caller.heard);
        let token = self.incoming.insert(entry);
        core.cx.io.occupied.arrive(Tag::Giop, token, ip, heard);
        self.note_open(1, core);
        let Some(Incoming { caller, .. }) = self.incoming.get_mut(token) else { return };
        if core.cx.io.poll.add(caller.stream.tcp(), Socket::Incoming(Tag::Giop, token), Interest::READ).is_err() {
            return self.close(token, core);
        }
        if let Some((_, message)) = parked {
            self.serve_moved_message(token, message, core);
        }
        if core.links.retiring {
            self.bind_for_main(token);
        }
        self.resume(token, core);
    }

    /// Sends all connections to the main lane, as soon as possible.
    pub(crate) fn send_all_away(&mut self, core: &mut Core) {
        let all: Vec<Token> = self.incoming.iter().map(|(token, _)| token).collect();
        for token in all {
            self.bind_for_main(token);
            self.flush_incoming(token, core);
        }
    }

    /// Tries again to send connections that had to wait.
    pub(crate) fn send_movers_away(&mut self, core: &mut Core) {
        for _ in 0..self.movers.len() {
            let Some(token) = self.movers.pop_front() else { return };
            self.flush_incoming(token, core);
        }
    }

    fn bind_for_main(&mut self, token: Token) {
        if let Some(Incoming { caller, .. }) = self.incoming.get_mut(token) {
            caller.lane_affinity.bound_for = Some(LaneId::MAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: LaneId = LaneId(1);
    const HIGH: LaneId = LaneId(2);

    #[test]
    fn a_connection_goes_up_at_the_first_push() {
        let mut lane_affinity = LaneAffinity::default();
        lane_affinity.note_other(HIGH, true);
        assert_eq!(lane_affinity.bound_for, Some(HIGH));
    }

    #[test]
    fn a_connection_goes_down_after_as_many_in_a_row() {
        let mut lane_affinity = LaneAffinity::default();
        (1..DOWN_AFTER).for_each(|_| lane_affinity.note_other(LOW, false));
        lane_affinity.note_own();
        (1..DOWN_AFTER).for_each(|_| lane_affinity.note_other(LOW, false));
        lane_affinity.note_other(LaneId::MAIN, false);
        (1..DOWN_AFTER).for_each(|_| lane_affinity.note_other(LOW, false));
        assert_eq!(lane_affinity.bound_for, None);
        lane_affinity.note_other(LOW, false);
        assert_eq!(lane_affinity.bound_for, Some(LOW));
    }

    #[test]
    fn a_connection_on_which_events_are_pulled_stays() {
        let mut lane_affinity = LaneAffinity::default();
        lane_affinity.stay();
        lane_affinity.note_other(HIGH, true);
        assert_eq!(lane_affinity.bound_for, None);
    }
}

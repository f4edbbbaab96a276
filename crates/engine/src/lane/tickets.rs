//! Tickets for suppliers' withheld replies: which wait for what, and which may be sent.
//!
//! A reply can be withheld for several reasons at once: the channel's memory, and each outbox that is full. Its ticket
//! counts them; when a reason ends, the tickets that wait for it are woken in the order in which they came, and one
//! that waits for no other is released.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::Ticket;

/// All withheld replies of a lane.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    pending: Vec<Pending>,
    free: Vec<u32>,
    released: VecDeque<Ticket>,
    issued: u64,
}

#[derive(Debug)]
struct Pending {
    ticket: Ticket,
    /// Slot of the channel, which counts its withheld replies.
    channel: u32,
    reasons: u32,
}

/// The tickets that wait for one reason.
pub(super) type Waiters = VecDeque<u32>;

impl Tickets {
    /// Issues a ticket and returns its place. Its first reason to wait is the admission in progress, which ends with a
    /// [`wake`](Self::wake).
    pub(super) fn issue(&mut self, channel: u32) -> (u32, Ticket) {
        let ticket = Ticket(self.issued);
        let pending = Pending { ticket, channel, reasons: 1 };
        self.issued += 1;
        if let Some(at) = self.free.pop()
            && let Some(place) = self.pending.get_mut(at as usize)
        {
            *place = pending;
            return (at, ticket);
        }
        self.pending.push(pending);
        (u32::try_from(self.pending.len() - 1).unwrap_or(u32::MAX), ticket)
    }

    /// Adds a reason for the ticket to wait.
    pub(super) fn wait(&mut self, at: u32, waiters: &mut Waiters) {
        if let Some(pending) = self.pending.get_mut(at as usize) {
            pending.reasons += 1;
            waiters.push_back(at);
        }
    }

    /// Removes a reason of the ticket at `at`. Returns the channel's slot if it was the last.
    pub(super) fn wake(&mut self, at: u32) -> Option<u32> {
        let pending = self.pending.get_mut(at as usize)?;
        pending.reasons = pending.reasons.saturating_sub(1);
        if pending.reasons > 0 {
            return None;
        }
        self.released.push_back(pending.ticket);
        self.free.push(at);
        Some(pending.channel)
    }

    pub(super) fn poll(&mut self) -> Option<Ticket> {
        self.released.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_waits_for_all_its_reasons() {
        let mut tickets = Tickets::default();
        let (mut memory, mut outbox) = (Waiters::new(), Waiters::new());
        let (at, ticket) = tickets.issue(3);
        tickets.wait(at, &mut memory);
        tickets.wait(at, &mut outbox);
        assert_eq!(tickets.wake(at), None);
        assert_eq!(tickets.wake(memory.pop_front().unwrap()), None);
        assert_eq!(tickets.poll(), None);
        assert_eq!(tickets.wake(outbox.pop_front().unwrap()), Some(3));
        assert_eq!(tickets.poll(), Some(ticket));
    }

    #[test]
    fn a_place_is_used_again_and_a_ticket_is_not() {
        let mut tickets = Tickets::default();
        let (first, _) = tickets.issue(0);
        tickets.wake(first);
        assert_eq!(tickets.issue(0), (first, Ticket(1)));
    }
}

//! Connections that clients made: requests in, replies out.

use std::io;
use std::net::SocketAddr;

use engine::Time;
use giop::framing::{self, Inbound, ProtocolError};
use giop::message;

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::io::buffers::Borrower;
use crate::lane::io::entrance::{Arrival, Named};
use crate::lane::io::output::{Flushed, Output, would_block};
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::io::unfinished::{Begun, Claimed};
use crate::lane::run::Core;
use crate::protocols::Tag;
use crate::protocols::giop::callers::{Caller, Clients, Incoming, Input};
use crate::protocols::giop::claims::answer_too_large;

/// Progress of the oldest incomplete message.
const fn begun(oldest: framing::Incomplete) -> Begun {
    Begun { since: oldest.began, octets: oldest.octets }
}

/// Why calls over a client's connection end with it.
const CLOSING: &str = "the connection that it made, and offered for calls to it, is gone; it is called at its address, and over the next \
    connection on which it uses its proxy";

impl Borrower for Inbound {
    fn is_lent(&self) -> bool {
        self.is_lent()
    }

    fn has_outgrown_loan(&self) -> bool {
        self.has_outgrown_loan()
    }

    fn lend(&mut self, buffer: Vec<u8>) -> Option<Vec<u8>> {
        self.lend(buffer)
    }

    fn reclaim(&mut self) -> Option<Vec<u8>> {
        self.reclaim()
    }

    fn rest_to_keep(&self) -> usize {
        self.rest_to_keep()
    }
}

impl Clients {
    /// Takes a connection that a client made. Returns the number of open connections; `None` if the poll does not take it.
    pub(crate) fn let_in_giop(&mut self, arrival: Arrival, core: &mut Core) -> Option<usize> {
        let framing = core.protocols.giop.outgoing.limits.framing;
        let (ip, now) = (arrival.place.account().ip(), arrival.at);
        let token = self.incoming.insert(Incoming::new(arrival, framing));
        let entry = self.incoming.get(token)?;
        let socket = Socket::Incoming(Tag::Giop, token);
        if core.cx.io.poll.add(entry.caller.stream.tcp(), socket, Interest::READ).is_err() {
            self.incoming.remove(token);
            return None;
        }
        if entry.caller.stream.has_more() {
            // Input has arrived with the end of the handshake.
            self.flush_later(token, core);
        }
        core.cx.io.occupied.arrive(Tag::Giop, token, ip, now);
        self.note_open(1, core);
        core.cx.counters.add(Counter::ConnectionsAccepted, 1);
        Some(self.open)
    }

    /// Serves a connection when its socket is ready.
    pub(crate) fn serve_incoming(&mut self, token: Token, ready: Ready, core: &mut Core) {
        let Some(Incoming { inbound, caller }) = self.incoming.get_mut(token) else { return };
        if caller.rounds.interest.read {
            if ready.readable {
                self.read(token, core);
            }
        } else if ready.broken {
            return self.close_broken(token, core);
        } else if ready.ended {
            // The client is gone, or will be once all its input is read. That may be events not yet answered, so it is not thrown away.
            if inbound.buffered() == 0 && !caller.stream.has_unread() {
                return self.close_ended(token, core);
            }
            caller.input.ended = true;
        }
        if ready.writable || ready.ended {
            self.flush_incoming(token, core);
        }
    }

    fn read(&mut self, token: Token, core: &mut Core) {
        let mut received = 0;
        while received < Budget::LARGE_MESSAGE.bytes {
            let Some(entry) = self.incoming.get_mut(token) else { return };
            if entry.caller.rounds.has_backlog || entry.caller.is_paused() {
                break;
            }
            core.cx.io.buffers.lend(&mut entry.inbound);
            // Input in a lent buffer that is not part of a fragmented message is charged only if it has to be kept.
            if (!entry.inbound.is_lent() || entry.inbound.open_fragment_sets() > 0) && !self.claim_room(token, core) {
                break;
            }
            let Some(entry) = self.incoming.get_mut(token) else { return };
            let vacant = entry.inbound.vacant();
            let room = vacant.capacity() - vacant.len();
            match entry.caller.stream.receive(vacant) {
                Ok(0) => return self.close_ended(token, core),
                Ok(count) => {
                    entry.inbound.filled(count);
                    entry.caller.heard = core.cx.clock.now;
                    if let Some(offered) = &entry.caller.offered {
                        core.protocols.giop.outgoing.note_input(offered.outgoing, &core.cx);
                    }
                    received += count;
                    match self.process(token, core) {
                        None => return,
                        // There is more of the message that is under way.
                        Some(0) if count == room => {}
                        Some(_) => break,
                    }
                }
                Err(error) if would_block(&error) || error.kind() == io::ErrorKind::Interrupted => {
                    core.cx.io.buffers.take_back(&mut entry.inbound);
                    break;
                }
                Err(_) => return self.close_broken(token, core),
            }
        }
        self.flush_later(token, core);
    }

    /// Handles complete messages of a connection, within its budget of the round. Returns their number, or `None` if the connection is
    /// gone.
    fn process(&mut self, token: Token, core: &mut Core) -> Option<u32> {
        let Incoming { inbound, caller } = self.incoming.get_mut(token)?;
        // No message begins so.
        if tls::is_hello(inbound.ahead()) {
            let address = caller.address;
            core.cx.note_tls_at_plain_port(Tag::Giop, address);
            self.close(token, core);
            return None;
        }
        let mut meter = caller.rounds.usage.begin(core.cx.io.quotas.round(), core.cx.io.quotas.budget());
        caller.output.lend(&mut core.cx.io.spares);
        inbound.note_time(caller.input.reading.at(core.cx.clock.now).0);
        let violation = loop {
            caller.note_next(inbound);
            if caller.is_paused() {
                caller.input.stalled = true;
                break None;
            }
            if caller.input.has_begun {
                caller.rounds.has_backlog = true;
                break None;
            }
            if meter.is_over(|| inbound.has_more()) {
                core.cx.counters.add(Counter::RoundBudgetsSpent, 1);
                core.cx.io.quotas.resume_later(&mut caller.rounds, Socket::Incoming(Tag::Giop, token));
                break None;
            }
            match inbound.poll_message() {
                Ok(Some(message)) => {
                    meter.note_message();
                    if let Err(why) = core.handle_message(token, message, caller) {
                        break Some(why);
                    }
                }
                Ok(None) => {
                    if inbound.buffered() > 0 {
                        core.cx.clock.plan_sweep();
                    }
                    break None;
                }
                Err(error) => {
                    if let ProtocolError::TooLarge { size, max } = error {
                        answer_too_large(caller, inbound.ahead(), (size, max));
                    }
                    break Some(error.to_string());
                }
            }
        };
        if let Some(why) = violation {
            self.reject(token, &why, core);
            return None;
        }
        let handled = meter.handled();
        caller.rounds.usage.note(&meter);
        if !core.cx.io.buffers.take_back(inbound) {
            core.cx.counters.add(Counter::RestsCopied, 1);
        }
        let under_way = if inbound.buffered() == 0 { 0 } else { inbound.reserved() };
        let Caller { input: Input { claim, .. }, place, .. } = caller;
        self.unfinished.lower(claim, place.account(), under_way, handled > 0);
        Some(handled)
    }

    /// Claims memory for the incomplete message of a connection. False if the connection is not read until there is some.
    fn claim_room(&mut self, token: Token, core: &mut Core) -> bool {
        let Some(Incoming { inbound, caller: Caller { input: Input { claim, .. }, place, .. } }) =
            self.incoming.get_mut(token)
        else {
            return false;
        };
        let (octets, announced) = (inbound.reserved_when_read(), inbound.announced());
        match self.unfinished.claim(token, claim, place.account(), octets, announced) {
            Claimed::Granted => return true,
            Claimed::Waits => {}
            Claimed::Refused(spent) => {
                core.cx.counters.add(Counter::of_refusal(spent), 1);
                core.cx.counters.add(Counter::MessagesWaited, 1);
            }
        }
        core.cx.io.buffers.recover(inbound);
        false
    }

    /// Handles remaining messages, unless the connection is queued anyway, and writes output.
    pub(crate) fn resume(&mut self, token: Token, core: &mut Core) {
        let Some(entry) = self.incoming.get_mut(token) else { return };
        let quota = entry.caller.rounds.quota;
        if entry.caller.rounds.has_backlog {
            self.flush_later(token, core);
        } else if !core.cx.io.quotas.binds() {
            self.go_on(token, core);
        } else if core.cx.io.quotas.is_spent(quota) {
            core.cx.io.quotas.resume_later(&mut entry.caller.rounds, Socket::Incoming(Tag::Giop, token));
            self.flush_later(token, core);
        } else {
            let began = core.cx.clock.time();
            core.cx.io.quotas.resume(quota);
            self.go_on(token, core);
            core.cx.io.quotas.charge(quota, core.cx.clock.time().since(began));
        }
    }

    fn go_on(&mut self, token: Token, core: &mut Core) {
        if self.process(token, core).is_some() {
            self.flush_later(token, core);
        }
    }

    /// Handles further messages of a connection that used up its budget of a round.
    pub(crate) fn serve_backlog(&mut self, token: Token, core: &mut Core) {
        if let Some(entry) = self.incoming.get_mut(token) {
            entry.caller.rounds.has_backlog = false;
            self.go_on(token, core);
        }
    }

    /// Resumes connections that waited for memory for their messages, as far as there is room.
    pub(crate) fn serve_unfinished(&mut self, core: &mut Core) {
        for _ in 0..self.unfinished.waiting().min(Budget::CONNECTIONS.events as usize) {
            let Some(token) = self.unfinished.next_waiting() else { return };
            let Some(Incoming { inbound, caller: Caller { input: Input { claim, .. }, place, .. } }) =
                self.incoming.get_mut(token).filter(|entry| entry.caller.input.claim.waits)
            else {
                continue;
            };
            if self.unfinished.admit(token, claim, place.account(), inbound.announced()) {
                self.resume(token, core);
            }
        }
    }

    /// Ends a connection after bytes that cannot be trusted, with MessageError (CORBA 3.3 part 2, 9.4.8).
    pub(crate) fn reject(&mut self, token: Token, why: &str, core: &mut Core) {
        let Some(Incoming { caller, inbound }) = self.incoming.get_mut(token) else { return };
        // No more input is handled, and the peer may take long to go.
        core.cx.io.buffers.recover(inbound);
        *inbound = Inbound::new(core.protocols.giop.outgoing.limits.framing);
        caller.release_room(&mut self.unfinished);
        message::message_error(caller.output.bytes(), caller.speech.version);
        core.distrust(caller, why);
        self.flush_incoming(token, core);
    }

    /// Queues a connection's output to be written when the round ends, behind that for consumers.
    pub(crate) fn flush_later(&mut self, token: Token, core: &mut Core) {
        if let Some(Incoming { caller, .. }) = self.incoming.get_mut(token) {
            core.cx.io.quotas.write_later(&mut caller.rounds, Socket::Incoming(Tag::Giop, token));
        }
    }

    /// Writes output of a connection, and updates its interest in the poll.
    pub(crate) fn flush_incoming(&mut self, token: Token, core: &mut Core) {
        let Some(Incoming { caller, .. }) = self.incoming.get_mut(token) else { return };
        caller.rounds.is_due = false;
        // What is written in part of a call is not followed by anything else.
        let (outgoing, cx) = (&mut core.protocols.giop.outgoing, &mut core.cx);
        let is_open = caller.closing.is_none() && !outgoing.has_lost(caller);
        let is_whole = is_open || outgoing.end_offer(caller, CLOSING, cx);
        let Some(flushed) = is_whole.then(|| outgoing.write_output(caller, cx).ok()).flatten() else {
            return self.close(token, core);
        };
        let written = flushed == Flushed::All;
        let unread = caller.note_unread(core.cx.clock.now);
        core.cx.count_unread(unread);
        if !caller.pulls.written.is_empty() || !caller.pulls.set_aside.is_empty() {
            core.protocols.giop.note_taken(caller, &mut core.cx);
        }
        let is_bound = caller.lane_affinity.bound_for.is_some();
        if caller.closing.is_some() {
            if written {
                return self.close(token, core);
            }
            core.cx.clock.plan_sweep();
        }
        if is_bound && self.send_away(token, core) {
            return;
        }
        let Some(Incoming { caller, .. }) = self.incoming.get_mut(token) else { return };
        let read = !caller.is_paused();
        caller.input.reading.note(read || caller.input.claim.waits, core.cx.clock.now);
        // The poll will not announce input that was read but not handled.
        let socket = Socket::Incoming(Tag::Giop, token);
        if read && core::mem::take(&mut caller.input.stalled) {
            core.cx.io.quotas.resume_later(&mut caller.rounds, socket);
        }
        let end = !read && !caller.input.ended;
        if !core.cx.io.watch((socket, &caller.stream, &mut caller.rounds), flushed, (read, end)) {
            self.close(token, core);
        }
    }

    /// Closes a connection that its client has closed. That says nothing about the client, since ORBs close idle ones without a message; but
    /// over one that the client offered calls go both ways, and either side says `CloseConnection` before it ends (CORBA 3.3 part 2, 9.8).
    fn close_ended(&mut self, token: Token, core: &mut Core) {
        match self.incoming.get(token).is_some_and(|entry| entry.caller.offered.is_some()) {
            true => self.close_broken(token, core),
            false => self.close(token, core),
        }
    }

    /// Closes a connection that the system reports as broken.
    fn close_broken(&mut self, token: Token, core: &mut Core) {
        if let Some(entry) = self.incoming.get(token).filter(|entry| entry.caller.closing.is_none()) {
            entry.caller.line.note_death(core.cx.clock.now);
        }
        self.close(token, core);
    }

    pub(crate) fn close(&mut self, token: Token, core: &mut Core) {
        if let Some(mut entry) = self.incoming.remove(token) {
            core.cx.io.occupied.leave(Tag::Giop, token);
            core.cx.io.buffers.recover(&mut entry.inbound);
            entry.caller.release_room(&mut self.unfinished);
            entry.caller.release_answers();
            core.protocols.giop.outgoing.end_offer(&mut entry.caller, CLOSING, &mut core.cx);
            core.protocols.giop.forget_caller(token, &mut entry.caller, &mut core.cx);
            core.cx.io.quotas.leave(entry.caller.rounds.quota);
            self.note_open(-1, core);
            let open = self.open;
            let client = Named(entry.caller.address, entry.caller.account());
            core.cx.log_debug(|| format!("the connection from {client} is closed; {open} open"));
            #[cfg(test)]
            if crate::simulation::goes_wrong(crate::simulation::Break::LeakedCharge) {
                core::mem::forget(entry);
            }
        }
    }

    /// Changes the number of open connections by `more`.
    pub(crate) fn note_open(&mut self, more: isize, core: &mut Core) {
        self.open = self.open.saturating_add_signed(more);
        core.cx.counters.set(Counter::ConnectionsOpen, self.open as u64);
    }

    /// Passes on another thread's answer; a one-way request has none.
    pub(crate) fn pass_reply(
        &mut self,
        connection: Token,
        request_bytes: usize,
        add: impl FnOnce(&mut Output),
        core: &mut Core,
    ) {
        let Some(entry) = self.incoming.get_mut(connection) else { return };
        entry.caller.note_answer(request_bytes);
        entry.caller.output.lend(&mut core.cx.io.spares);
        add(&mut entry.caller.output);
        // The connection may have been paused with complete messages read, which the poll will not announce.
        self.resume(connection, core);
    }

    /// Answers up to `most` pulls.
    pub(crate) fn answer_pulls(&mut self, most: u32, core: &mut Core) {
        for _ in 0..most {
            let Some(due) = core.protocols.giop.due.pop_front() else { return };
            let connection = due.waiter().connection;
            let entry = self.incoming.get_mut(connection).filter(|entry| entry.caller.closing.is_none());
            let is_there = entry.is_some();
            let caller = entry.map(|entry| {
                entry.caller.output.lend(&mut core.cx.io.spares);
                &mut entry.caller
            });
            core.tell_due(caller, due);
            if is_there {
                self.resume(connection, core);
            }
        }
    }

    /// Ends connections with unread answers for which others wait.
    fn end_those_who_do_not_read(&mut self, core: &mut Core) {
        let Some(since) =
            core.cx.clock.now.0.checked_sub(u64::try_from(self.message_completion.as_nanos()).unwrap_or(u64::MAX))
        else {
            return;
        };
        let idle = self.incoming.iter().filter(|(_, entry)| entry.caller.large.unread.is_idle_since(Time(since)));
        let idle: Vec<(Token, SocketAddr)> = idle.map(|(token, entry)| (token, entry.caller.address)).collect();
        for (token, address) in idle {
            core.cx.counters.add(Counter::UnreadAnswersEnded, 1);
            core.cx.log(log::Level::Warn, || {
                format!(
                    "closed the connection from {address}: it does not read its answers, and others wait for the memory"
                )
            });
            self.close(token, core);
        }
    }

    /// Ends connections with an overdue message, or that have been closing for too long. True if others may become overdue.
    pub(crate) fn end_overdue(&mut self, core: &mut Core) -> bool {
        let mut late = Vec::new();
        let mut again = core.protocols.giop.large_answers.is_waiting();
        if core.protocols.giop.large_answers.is_short() {
            self.end_those_who_do_not_read(core);
        }
        self.end_the_slowest(core);
        for (token, Incoming { inbound, caller }) in self.incoming.iter() {
            let closing = caller.closing.map(|since| (since, core.cx.clock.now));
            let partial =
                || inbound.oldest().map(|oldest| (Time(oldest.began), caller.input.reading.at(core.cx.clock.now)));
            let Some((since, now)) = closing.or_else(partial) else { continue };
            if since + self.message_completion <= now {
                late.push((token, closing.is_some()));
            } else {
                // A closing connection runs out of time whether or not it is read.
                again |= closing.is_some() || !caller.input.reading.is_stopped();
            }
        }
        for (token, closing) in late {
            if closing {
                self.close(token, core);
                continue;
            }
            core.cx.counters.add(Counter::IncompleteMessages, 1);
            self.reject(token, "a message was begun and not completed within limits.message_completion_ms", core);
        }
        again
    }

    /// While connections wait for memory for their messages, ends those so slow that a message of maximum size would not be complete in
    /// time: the slowest first, until no connection waits.
    fn end_the_slowest(&mut self, core: &mut Core) {
        if !self.unfinished.is_waiting() {
            return;
        }
        let now = core.cx.clock.now;
        let in_time = core.protocols.giop.outgoing.limits.framing.message_bytes_max as u128 * 1_000;
        let pace_min = in_time / self.message_completion.as_millis().max(1);
        let mut slow = Vec::new();
        for (token, Incoming { inbound, caller }) in self.incoming.iter_mut() {
            if caller.is_paused() {
                caller.input.claim.forget_pace();
            }
            if !caller.input.claim.has_some() || caller.is_paused() {
                continue;
            }
            let Some(pace) = inbound.oldest().and_then(|oldest| caller.input.claim.pace(begun(oldest), now)) else {
                continue;
            };
            if u128::from(pace) < pace_min {
                slow.push((pace, token));
            } else {
                caller.input.claim.forget_pace();
            }
        }
        slow.sort_unstable_by_key(|(pace, _)| *pace);
        for (_, token) in slow.into_iter().take(Budget::CONNECTIONS.events as usize) {
            if !self.unfinished.is_waiting() {
                return;
            }
            core.cx.counters.add(Counter::StalledMessagesEnded, 1);
            self.reject(token, "its message did not progress while others waited for the memory", core);
            self.serve_unfinished(core);
        }
    }

    /// Closes all connections with a message (CORBA 3.3 part 2, 9.4.6), so that clients know their requests were not begun.
    pub(crate) fn close_all(&mut self, core: &mut Core) {
        let open: Vec<Token> = self.incoming.iter().map(|(token, _)| token).collect();
        open.into_iter().for_each(|token| self.say_and_close(token, core));
    }

    /// Sends `CloseConnection` to a client, and closes the connection.
    pub(crate) fn say_and_close(&mut self, token: Token, core: &mut Core) {
        if let Some(Incoming { caller, .. }) = self.incoming.get_mut(token)
            && core.protocols.giop.outgoing.end_offer(caller, CLOSING, &mut core.cx)
        {
            message::close_connection(caller.output.bytes(), caller.speech.version);
            let _ = caller.output.flush(&mut caller.stream, &mut core.cx.io.spares, usize::MAX);
        }
        self.close(token, core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::io::buffers::Buffers;
    use giop::framing::Limits;

    /// The input of a connection with that much of its first message.
    fn reads(buffers: &mut Buffers, arrived: usize) -> Inbound {
        let mut inbound = Inbound::new(Limits::default());
        buffers.lend(&mut inbound);
        let mut bytes = vec![0; arrived];
        bytes[..12].copy_from_slice(b"GIOP\x01\x02\x00\x00\x00\x00\x80\x00");
        inbound.vacant().extend_from_slice(&bytes);
        inbound.filled(arrived);
        assert!(inbound.poll_message().unwrap().is_none());
        inbound
    }

    #[test]
    fn what_waits_when_the_lanes_buffer_is_taken_back_is_kept_in_one_of_its_size() {
        let mut buffers = Buffers::default();
        let mut little = reads(&mut buffers, 2000);
        assert!(buffers.take_back(&mut little));
        assert_eq!((little.is_lent(), little.reserved()), (false, 2048));
        let mut much = reads(&mut buffers, 20_000);
        buffers.recover(&mut much);
        assert!(!much.is_lent() && much.reserved() <= (32 << 10) + 12);
        assert_eq!((little.buffered(), much.buffered()), (2000, 20_000));
    }
}

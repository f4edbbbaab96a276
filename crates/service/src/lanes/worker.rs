//! The lane's thread: wait, read, route, write; the only place where sockets are touched.
//!
//! One round of the duty cycle reads the clock once, picks up a new routing snapshot if there is one, serves the mail,
//! then each socket that is ready, then the timers. Nothing in a round waits: not for a socket, not for a consumer, not for
//! administration.

use core::time::Duration;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use arc_swap::ArcSwap;
use engine::{DiscardReason, Lane, Time};
use giop::framing;
use giop::message;
use hashbrown::HashMap;

use super::incoming::Incoming;
use super::mail::{self, LaneBox, Lookup, ToAdministration, ToLane};
use super::outgoing::Outgoings;
use super::output::would_block;
use super::slots::{Slots, Token};
use super::system::{self, Bell, Poll};
use crate::allocations;
use crate::corba::Published;
use crate::counters::{Block, Counter};

/// What a lane is made with.
pub(crate) struct WorkerOptions {
    pub(crate) listener: TcpListener,
    pub(crate) published: Arc<ArcSwap<Published>>,
    pub(crate) mail: Receiver<ToLane>,
    pub(crate) mailbox: LaneBox,
    pub(crate) administration: SyncSender<ToAdministration>,
    pub(crate) resolver: SyncSender<Lookup>,
    pub(crate) counters: Arc<Block>,
    pub(crate) framing: framing::Limits,
    pub(crate) connections_max: usize,
    pub(crate) message_completion: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) origin: Instant,
}

/// A lane's thread.
pub(crate) struct Worker {
    listener: TcpListener,
    incoming: Slots<Incoming>,
    incoming_open: usize,
    mail: Receiver<ToLane>,
    bell: Arc<Bell>,
    connections_max: usize,
    message_completion: Duration,
    next_sweep: Option<Time>,
    /// Connections are being refused; that has been logged.
    refusing: bool,
    /// Not listening for connections, for want of descriptors.
    deaf: bool,
    stopping: bool,
    core: Core,
}

/// What the event path needs, apart from the connections that events come in on.
pub(crate) struct Core {
    pub(crate) poll: Poll,
    pub(crate) lane: Lane,
    pub(crate) published: arc_swap::Cache<Arc<ArcSwap<Published>>, Arc<Published>>,
    pub(crate) administration: SyncSender<ToAdministration>,
    pub(crate) outgoing: Outgoings,
    pub(crate) counters: Arc<Block>,
    pub(crate) now: Time,
    /// Replies withheld, by the engine's ticket.
    pub(crate) held: HashMap<engine::Ticket, HeldReply>,
    /// Withheld replies that are due now.
    pub(crate) released: Vec<HeldReply>,
    /// Notices and log lines that administration had no room for; bounded, the oldest go first.
    pub(crate) unposted: std::collections::VecDeque<ToAdministration>,
    /// Where event type names are put into UTF-8; used again for each event that needs it.
    pub(crate) names: [String; 2],
    origin: Instant,
}

/// Where a withheld reply belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldReply {
    pub(crate) connection: Token,
    pub(crate) reply: Answer,
    /// Bytes of the event.
    pub(crate) bytes: usize,
}

/// How a request is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) version: giop::cdr::Version,
    pub(crate) endian: giop::cdr::Endian,
    pub(crate) request_id: u32,
    /// False for a one-way request: nothing is sent.
    pub(crate) expected: bool,
}

/// What an epoll datum names, in its two highest bits.
pub(crate) const KIND_LISTENER: u64 = 0;
pub(crate) const KIND_BELL: u64 = 1;
pub(crate) const KIND_INCOMING: u64 = 2;
pub(crate) const KIND_OUTGOING: u64 = 3;

pub(crate) const fn datum(kind: u64, token: Token) -> u64 {
    (kind << 62) | token.to_bits()
}

/// Limits (connect, completion, calls) are looked after this often while there is one running.
const SWEEP: Duration = Duration::from_millis(50);
/// Reads of one connection in one round, so that one that floods does not keep the others waiting.
const READS_PER_ROUND: usize = 8;
/// Mail served in one round.
const MAIL_PER_ROUND: usize = 256;
/// Where each reason for dropping an event is counted.
const DROPPED: [(Counter, DiscardReason); 7] = [
    (Counter::DroppedOutboxFull, DiscardReason::OutboxFull),
    (Counter::DroppedMemorySpent, DiscardReason::MemorySpent),
    (Counter::DroppedQueueFull, DiscardReason::QueueFull),
    (Counter::DroppedRejected, DiscardReason::Rejected),
    (Counter::DroppedUntranslatable, DiscardReason::Untranslatable),
    (Counter::DroppedDisconnected, DiscardReason::Disconnected),
    (Counter::DroppedRemoved, DiscardReason::Removed),
];
/// Notices kept for administration while its queue is full.
const UNPOSTED_MAX: usize = 1024;

impl Worker {
    pub(crate) fn new(options: WorkerOptions) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&options.listener, KIND_LISTENER << 62, true, false)?;
        poll.add(&*options.mailbox.bell, KIND_BELL << 62, true, false)?;
        Ok(Self {
            listener: options.listener,
            incoming: Slots::new(),
            incoming_open: 0,
            mail: options.mail,
            bell: options.mailbox.bell,
            connections_max: options.connections_max,
            message_completion: options.message_completion,
            next_sweep: None,
            refusing: false,
            deaf: false,
            stopping: false,
            core: Core {
                poll,
                lane: Lane::new(Time(0)),
                published: arc_swap::Cache::new(options.published),
                administration: options.administration,
                outgoing: Outgoings::new(options.resolver, options.framing, options.connect_timeout),
                counters: options.counters,
                now: Time(0),
                held: HashMap::new(),
                released: Vec::new(),
                unposted: std::collections::VecDeque::new(),
                names: [String::new(), String::new()],
                origin: options.origin,
            },
        })
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        while !self.stopping {
            let timeout = self.timeout();
            if let Err(error) = self.core.poll.wait(timeout) {
                log::error!("the lane cannot wait for its sockets any more: {error}");
                break;
            }
            let began = self.core.read_clock();
            self.core.refresh();
            for index in 0..self.core.poll.len() {
                if let Some(ready) = self.core.poll.get(index) {
                    self.serve(ready);
                }
            }
            self.serve_timers();
            self.core.settle();
            self.answer_released();
            self.core.account(began);
        }
        self.close_all();
    }

    fn timeout(&self) -> Option<Duration> {
        let due = match (self.core.lane.next_timeout(), self.next_sweep) {
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) | (None, Some(a)) => a,
            (None, None) => return None,
        };
        let now = self.core.origin.elapsed();
        Some(Duration::from_nanos(due.0).saturating_sub(now))
    }

    fn serve(&mut self, ready: system::Ready) {
        let token = Token::from_bits(ready.datum);
        match ready.datum >> 62 {
            KIND_LISTENER => self.accept(),
            KIND_BELL => self.serve_mail(),
            KIND_INCOMING => {
                if ready.readable {
                    self.read(token);
                }
                if ready.writable {
                    self.settle_incoming(token);
                }
            }
            _ => self.core.serve_outgoing(token, ready),
        }
        self.answer_released();
    }

    fn accept(&mut self) {
        // A few per round: a storm of connections must not delay the events of those that are there.
        for _ in 0..16 {
            let (stream, address) = match system::accept(&self.listener) {
                Ok(accepted) => accepted,
                Err(error) if would_block(&error) => return,
                Err(error) => {
                    // Out of descriptors, most likely. The connection stays in the backlog, and the poll would speak of
                    // it without end, so it is not listened to until the next sweep.
                    self.core.counters.add(Counter::ConnectionsRefused, 1);
                    self.note_refusal(&format!("cannot accept a connection: {error}"));
                    self.listen(false);
                    return;
                }
            };
            if self.incoming_open >= self.connections_max {
                self.core.counters.add(Counter::ConnectionsRefused, 1);
                self.note_refusal(&format!(
                    "closed a connection from {address}: limits.connections_max = {} are open",
                    self.connections_max
                ));
                continue;
            }
            let token = self.incoming.insert(Incoming::new(stream, address, self.core.outgoing.framing));
            let Some(entry) = self.incoming.get(token) else { continue };
            if self.core.poll.add(&entry.caller.stream, datum(KIND_INCOMING, token), true, false).is_err() {
                self.incoming.remove(token);
                continue;
            }
            self.incoming_open += 1;
            self.core.counters.add(Counter::ConnectionsAccepted, 1);
            self.core.counters.set(Counter::ConnectionsOpen, self.incoming_open as u64);
        }
    }

    /// Begins or stops to listen for connections.
    fn listen(&mut self, listening: bool) {
        if self.core.poll.change(&self.listener, KIND_LISTENER << 62, listening, false).is_ok() {
            self.deaf = !listening;
        }
        if self.deaf {
            self.plan_sweep();
        }
    }

    /// Logs the first refusal of an episode; the counter has the others.
    fn note_refusal(&mut self, text: &str) {
        if !self.refusing {
            self.refusing = true;
            self.core.log(log::Level::Warn, text.to_owned());
        }
    }

    fn read(&mut self, token: Token) {
        for _ in 0..READS_PER_ROUND {
            let Some(entry) = self.incoming.get_mut(token) else { return };
            if entry.caller.is_paused() {
                break;
            }
            let space = entry.inbound.space();
            let room = space.len();
            match system::read(&entry.caller.stream, space) {
                Ok(0) => return self.close(token),
                Ok(count) => {
                    entry.inbound.filled(count);
                    if !self.process(token) {
                        return;
                    }
                    if count < room {
                        break;
                    }
                }
                Err(error) if would_block(&error) || error.kind() == io::ErrorKind::Interrupted => break,
                Err(_) => return self.close(token),
            }
        }
        self.settle_incoming(token);
    }

    /// Handles the complete messages of a connection. False when the connection is gone.
    fn process(&mut self, token: Token) -> bool {
        loop {
            let Some(entry) = self.incoming.get_mut(token) else { return false };
            if entry.caller.is_paused() {
                return true;
            }
            let violation = match entry.inbound.poll_message() {
                Ok(Some(message)) => self.core.handle_message(token, message, &mut entry.caller).err(),
                Ok(None) => {
                    entry.note_progress(self.core.now);
                    if entry.caller.incomplete_since.is_some() {
                        self.plan_sweep();
                    }
                    return true;
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = violation {
                self.reject(token, &why);
                return false;
            }
        }
    }

    /// Ends a connection whose bytes cannot be trusted: CORBA 3.3 part 2, 9.4.8 has it told MessageError.
    fn reject(&mut self, token: Token, why: &str) {
        self.core.counters.add(Counter::ProtocolErrors, 1);
        let Some(entry) = self.incoming.get_mut(token) else { return };
        let address = entry.caller.address;
        message::message_error(entry.caller.output.bytes(), giop::cdr::Version::V1_2);
        entry.caller.closing = true;
        self.core.log(log::Level::Warn, format!("closed the connection from {address}: {why}"));
        self.settle_incoming(token);
    }

    /// Writes what is due on a connection, and tells the poll what to watch for.
    fn settle_incoming(&mut self, token: Token) {
        let Some(Incoming { caller, .. }) = self.incoming.get_mut(token) else { return };
        let mut done = Vec::new();
        let flushed = if caller.output.is_empty() { Ok(true) } else { caller.output.flush(&caller.stream, &mut done) };
        match flushed {
            Err(_) => return self.close(token),
            Ok(true) if caller.closing => return self.close(token),
            Ok(_) => {}
        }
        let interest = (!caller.is_paused(), !caller.output.is_empty());
        if interest != caller.interest {
            caller.interest = interest;
            let changed = self.core.poll.change(&caller.stream, datum(KIND_INCOMING, token), interest.0, interest.1);
            if changed.is_err() {
                self.close(token);
            }
        }
    }

    fn close(&mut self, token: Token) {
        if self.incoming.remove(token).is_some() {
            self.incoming_open -= 1;
            self.refusing = false;
            self.core.counters.set(Counter::ConnectionsOpen, self.incoming_open as u64);
        }
    }

    fn serve_mail(&mut self) {
        self.bell.silence();
        for _ in 0..MAIL_PER_ROUND {
            let Some(letter) = mail::take(&self.mail) else { return };
            // What a reply speaks of was published before the reply was posted, so look before passing it on.
            self.core.refresh();
            match letter {
                ToLane::Reply { connection, bytes } => self.pass_reply(connection, &bytes),
                ToLane::Call { call, to, operation, body, timeout } => {
                    self.core.begin_call(call, &to, operation, &body, timeout);
                    self.plan_sweep();
                }
                ToLane::Resolved { connection, address } => self.core.resolved(connection, address),
                ToLane::Survey => {
                    let outboxes = self.core.lane.outboxes().collect();
                    self.core.post(ToAdministration::Survey(outboxes));
                }
                ToLane::Stop => self.stopping = true,
            }
        }
        // There is more: come back to it after the sockets.
        self.bell.ring();
    }

    fn pass_reply(&mut self, connection: Token, bytes: &[u8]) {
        let Some(entry) = self.incoming.get_mut(connection) else { return };
        entry.caller.output.bytes().extend_from_slice(bytes);
        entry.caller.waiting = entry.caller.waiting.saturating_sub(1);
        // It may have been paused with whole messages read; no socket will announce those.
        if self.process(connection) {
            self.settle_incoming(connection);
        }
    }

    /// Sends the replies that were withheld until a channel had room again.
    fn answer_released(&mut self) {
        while let Some(HeldReply { connection, reply, bytes }) = self.core.released.pop() {
            let Some(entry) = self.incoming.get_mut(connection) else { continue };
            entry.caller.held = entry.caller.held.saturating_sub(1);
            entry.caller.held_bytes = entry.caller.held_bytes.saturating_sub(bytes);
            super::path::answer_done(&mut entry.caller, reply);
            if self.process(connection) {
                self.settle_incoming(connection);
            }
        }
    }

    fn plan_sweep(&mut self) {
        if self.next_sweep.is_none() {
            self.next_sweep = Some(self.core.now + SWEEP);
        }
    }

    fn serve_timers(&mut self) {
        let now = self.core.now;
        if self.core.lane.next_timeout().is_some_and(|due| due <= now) {
            self.core.lane.handle_timeout(now);
        }
        if self.core.outgoing.has_deadlines() {
            self.plan_sweep();
        }
        if self.next_sweep.is_none_or(|due| due > now) {
            return;
        }
        self.next_sweep = None;
        if self.deaf {
            self.listen(true);
        }
        let mut again = self.core.sweep_outgoing();
        let mut late = Vec::new();
        for (token, entry) in self.incoming.iter() {
            if let Some(since) = entry.caller.incomplete_since {
                if since + self.message_completion <= now {
                    late.push(token);
                } else {
                    again = true;
                }
            }
        }
        for token in late {
            self.core.counters.add(Counter::IncompleteMessages, 1);
            self.reject(token, "a message was begun and not completed within limits.message_completion_ms");
        }
        if again {
            self.plan_sweep();
        }
    }

    /// Tells the clients that we close (CORBA 3.3 part 2, 9.4.6), so that they know their requests were not begun.
    fn close_all(&mut self) {
        let open: Vec<Token> = self.incoming.iter().map(|(token, _)| token).collect();
        for token in open {
            if let Some(entry) = self.incoming.get_mut(token) {
                message::close_connection(entry.caller.output.bytes(), giop::cdr::Version::V1_2);
                let _ = entry.caller.output.flush(&entry.caller.stream, &mut Vec::new());
            }
            self.close(token);
        }
    }
}

impl Core {
    fn read_clock(&mut self) -> Time {
        self.now = Time(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.now
    }

    /// Takes over a new routing snapshot, if one was published: one atomic load when there is none (R6).
    pub(crate) fn refresh(&mut self) {
        let published = self.published.load();
        if !Arc::ptr_eq(&published.routing, self.lane.snapshot()) {
            let routing = Arc::clone(&published.routing);
            self.outgoing.forget_peers_but(&published.peers);
            self.lane.handle_snapshot(routing, self.now);
        }
    }

    /// Brings everything that the engine wants done to the sockets and to administration.
    pub(crate) fn settle(&mut self) {
        self.deliver();
        while let Some(ticket) = self.lane.poll_release() {
            if let Some(held) = self.held.remove(&ticket) {
                self.released.push(held);
            }
        }
        while let Some((outbox, serial)) = self.lane.poll_timed_out() {
            self.abandon(outbox, serial);
        }
        while let Some(notice) = self.lane.poll_notice() {
            self.post(ToAdministration::Notice(notice));
        }
        while let Some(letter) = self.unposted.pop_front() {
            if let Err(std::sync::mpsc::TrySendError::Full(letter)) = self.administration.try_send(letter) {
                self.unposted.push_front(letter);
                break;
            }
        }
    }

    /// Tells administration something, now or when it has room.
    pub(crate) fn post(&mut self, letter: ToAdministration) {
        if self.unposted.len() >= UNPOSTED_MAX {
            self.unposted.pop_front();
        }
        self.unposted.push_back(letter);
    }

    pub(crate) fn log(&mut self, level: log::Level, text: String) {
        self.post(ToAdministration::Log(level, text));
    }

    fn account(&mut self, began: Time) {
        let counters = &self.counters;
        let engine = self.lane.counters();
        counters.set(Counter::EventsIn, engine.events_accepted);
        counters.set(Counter::Delivered, engine.delivered);
        counters.set(Counter::EventsRefused, engine.events_refused);
        counters.set(Counter::SuppliersHeld, engine.events_held);
        counters.set(Counter::Dropped, engine.discards.total());
        for (counter, reason) in DROPPED {
            counters.set(counter, engine.discards.of(reason));
        }
        counters.set(Counter::Allocations, allocations::of_this_thread());
        counters.set(Counter::SystemCalls, system::calls_of_this_thread());
        counters.add(Counter::Cycles, 1);
        let ended = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counters.raise(Counter::CycleMax, ended.saturating_sub(began.0));
    }
}

//! The lane's thread: wait, read, route, write; the only place where sockets are touched.
//!
//! One round of the duty cycle reads the clock once, picks up a new routing snapshot if there is one, serves whoever had
//! more than its share of the last round, then the mail and each socket that is ready, then the timers. Nothing in a round
//! waits: not for a socket, not for a consumer, not for administration.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use engine::{Discipline, Lane, LaneId, Notice, SharedMemory, Time};
use giop::framing;

use crate::counters::{Block, Counter};
use crate::doors::giop as giop_door;
use crate::doors::giop::incoming;
use crate::doors::giop::outgoing::{Outgoing, Resolver};
use crate::doors::{Clients, Doors};
use crate::lane::clock::Clock;
use crate::lane::deliveries::Deliveries;
use crate::lane::intake::Intake;
use crate::lane::io::Io;
use crate::lane::io::buffers::Buffers;
use crate::lane::io::output::Spares;
use crate::lane::io::shares::Share;
use crate::lane::io::slices::{Slices, Work};
use crate::lane::io::slots::Token;
use crate::lane::io::system::{self, Bell, Interest, Poll};
use crate::lane::io::unfinished::Reserve;
use crate::lane::links::Links;
use crate::lane::links::lines::Line;
use crate::lane::links::mail::{LaneThread, Lookup, Resolved, ToAdministration, ToLane};
use crate::lane::links::post::{Inbox, Post};
use crate::lane::office::Office;
use crate::lane::pulse::Pulse;
use crate::published::Published;
use accounts::Accounts;

/// What a lane is made with.
pub(crate) struct WorkerOptions {
    pub(crate) id: LaneId,
    pub(crate) thread: LaneThread,
    /// What it is called, and its CORBA priority.
    pub(crate) name: String,
    pub(crate) priority: Option<i16>,
    /// The main lane's: it alone accepts connections.
    pub(crate) listener: Option<TcpListener>,
    pub(crate) ends: LaneEnds,
    pub(crate) counters: Arc<Block>,
    pub(crate) common: Common,
}

/// A lane's ends of what connects it with the other threads.
pub(crate) struct LaneEnds {
    pub(crate) bell: Arc<Bell>,
    pub(crate) administration: Post<ToAdministration>,
    pub(crate) office: Inbox<ToLane>,
    pub(crate) resolver: Post<Lookup>,
    pub(crate) resolved: Inbox<Resolved>,
    pub(crate) introductions: Inbox<Line>,
    pub(crate) lines: Vec<Line>,
}

/// What is the same for all lanes.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) published: Arc<ArcSwap<Published>>,
    pub(crate) framing: framing::Limits,
    /// What clients have.
    pub(crate) accounts: Arc<Accounts>,
    /// For messages that find no room in what clients may have for those that are not complete.
    pub(crate) reserve: Arc<Reserve>,
    /// What the events of all channels may take.
    pub(crate) memory: Arc<SharedMemory>,
    /// What a request counts for at least while administration has it, in octets: many small ones are not free.
    pub(crate) request_bytes_min: u64,
    pub(crate) message_completion: Duration,
    /// What one connection may have of a round.
    pub(crate) share: Share,
    pub(crate) connect_timeout: Duration,
    /// See [`Outgoings::silence`].
    pub(crate) silence: Duration,
    /// Whose turn it is among the topics of the main lane.
    pub(crate) main_discipline: Discipline,
    /// When the service began: what lanes take for time 0.
    pub(crate) origin: Instant,
}

/// A lane's thread.
pub(crate) struct Worker {
    pub(crate) clients: Clients,
    mail: Mail,
    stopping: bool,
    /// No route leads here any more.
    pub(crate) retiring: bool,
    pub(crate) core: Core,
}

/// What other threads have posted, and the bell that says so.
struct Mail {
    office: Inbox<ToLane>,
    resolved: Inbox<Resolved>,
    bell: Arc<Bell>,
}

/// What the event path needs, apart from the connections that events come in on.
pub(crate) struct Core {
    pub(crate) identity: Identity,
    pub(crate) clock: Clock,
    pub(crate) io: Io,
    pub(crate) lane: Lane,
    pub(crate) published: arc_swap::Cache<Arc<ArcSwap<Published>>, Arc<Published>>,
    pub(crate) links: Links,
    pub(crate) intake: Intake,
    pub(crate) deliveries: Deliveries,
    pub(crate) office: Office,
    pub(crate) counters: Arc<Block>,
    pub(crate) pulse: Pulse,
    pub(crate) doors: Doors,
}

/// Which lane it is.
pub(crate) struct Identity {
    pub(crate) id: LaneId,
    pub(crate) thread: LaneThread,
    /// The lane's CORBA priority. The main lane need not have one, and is less important than all others then.
    pub(crate) priority: Option<i16>,
    /// What the lane is called in the log.
    pub(crate) name: String,
}

/// How a request is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) version: giop::cdr::Version,
    pub(crate) endian: giop::cdr::Endian,
    pub(crate) request_id: u32,
    /// False for a one-way request: nothing is sent.
    pub(crate) expected: bool,
    /// The Real-time CORBA priority that the request told and the reply tells.
    pub(crate) priority: Option<i16>,
}

/// What an epoll datum names, in its two highest bits.
pub(crate) const KIND_LISTENER: u64 = 0;
pub(crate) const KIND_BELL: u64 = 1;
pub(crate) const KIND_INCOMING: u64 = 2;
pub(crate) const KIND_OUTGOING: u64 = 3;

pub(crate) const fn datum(kind: u64, token: Token) -> u64 {
    (kind << 62) | token.to_bits()
}

/// Answers given between two looks at the clock, and how long they are given before the sockets are looked at again.
const ANSWERS_PER_LOOK: usize = 64;
const ANSWERING_FOR: Duration = Duration::from_micros(500);
/// The same where others may wait: an answer to a pull may be as large as a hundred events.
const ANSWERS_PER_SHORT_LOOK: usize = 8;
/// Addresses are given their slices for so long until the rest of the round has its turn.
const SERVED_FOR: Duration = Duration::from_millis(1);
/// The address under which the service itself is charged for what no client asked for.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// Mail served in one round.
const MAIL_PER_ROUND: usize = 256;

impl Worker {
    pub(crate) fn new(options: WorkerOptions) -> io::Result<Self> {
        let WorkerOptions { id, thread, name, priority, listener, ends, counters, common } = options;
        let poll = poll_for(listener.as_ref(), &ends.bell)?;
        let resolver = Resolver { post: ends.resolver, own: common.accounts.account_of(NOBODY) };
        Ok(Self {
            clients: Clients { giop: incoming::Clients::new(listener, &common) },
            mail: Mail { office: ends.office, resolved: ends.resolved, bell: ends.bell },
            stopping: false,
            retiring: false,
            core: Core {
                identity: Identity { id, thread, priority, name },
                clock: Clock::new(common.origin),
                io: Io {
                    poll,
                    slices: Slices::new(common.share),
                    buffers: Buffers::default(),
                    spares: Spares::default(),
                },
                doors: Doors { giop: giop_door::Door::new(resolver, &common) },
                lane: ready_lane(id, common.main_discipline, common.memory),
                published: arc_swap::Cache::new(common.published),
                links: Links::new(ends.lines, ends.introductions),
                intake: Intake::default(),
                deliveries: Deliveries::default(),
                office: Office::new(ends.administration),
                counters,
                pulse: Pulse::default(),
            },
        })
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        while !self.stopping {
            let timeout = if self.goes_on() { Some(Duration::ZERO) } else { self.timeout() };
            if let Err(error) = self.core.io.poll.wait(timeout) {
                log::error!("the lane cannot wait for its sockets any more: {error}");
                break;
            }
            self.round();
        }
        self.close_all();
    }

    /// Whether there is something to do without the poll having to speak of it: for whoever has had his share of the last
    /// round.
    fn goes_on(&self) -> bool {
        let Self { clients, core, .. } = self;
        clients.giop.goes_on()
            || core.doors.giop.goes_on()
            || !core.io.slices.is_idle()
            || core.deliveries.undelivered
            || core.intake.undecided.has_to_go_on()
            || core.has_to_answer()
            || core.lane.turns_waiting() > 0
            || core.has_to_survey()
            || (core.office.draining.is_looking() && !core.office.reports.has_backlog())
    }

    /// Waits so long at most for something to serve, and serves it.
    #[cfg(test)]
    pub(crate) fn round_within(&mut self, timeout: Duration) {
        self.core.io.poll.wait(Some(timeout)).unwrap();
        self.round();
    }

    /// Serves what the poll found.
    fn round(&mut self) {
        let began = self.core.read_clock();
        self.core.clock.round += 1;
        self.core.refresh();
        self.clients.giop.begin_round();
        self.serve_sockets();
        self.write_due();
        self.serve_parked();
        self.serve_held_back();
        self.serve_timers();
        self.serve_unfinished();
        self.core.go_on_surveying();
        self.go_on_draining();
        self.core.end_some_waits();
        self.core.tell_of_losses();
        self.core.go_on_with_undecided();
        self.core.settle();
        self.answer_all();
        self.serve_instalments();
        self.serve_turns();
        self.write_due();
        // Last of all, since whatever was done may have begun something that has a time limit.
        let Self { clients, core, .. } = self;
        let has_deadlines = clients.giop.unfinished.is_waiting() || core.doors.giop.has_deadlines();
        if has_deadlines || core.office.reports.is_waiting() {
            core.clock.plan_sweep();
        }
        self.core.account(began);
        self.end_retired();
    }

    /// Answers whoever can be answered. Who is may go on, and what he sends may release others: where there is no end of that,
    /// the sockets are looked at before it goes on.
    pub(crate) fn answer_all(&mut self) {
        let mut until = None;
        while self.core.has_to_answer() {
            let most = if self.core.io.slices.binds() { ANSWERS_PER_SHORT_LOOK } else { ANSWERS_PER_LOOK };
            self.answer_released(most);
            self.answer_pulls(most);
            self.core.settle();
            if self.core.has_to_answer() {
                let now = self.core.clock.time();
                if now >= *until.get_or_insert(now + ANSWERING_FOR) {
                    return;
                }
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let is_polling = !self.core.office.draining.has_begun();
        let polling = self.core.doors.giop.pullers.next_due().filter(|_| is_polling);
        let due = [self.core.lane.next_timeout(), self.core.clock.next_sweep(), polling];
        let due = due.into_iter().flatten().min()?;
        Some(self.core.clock.until(due))
    }

    /// Serves what was put off, and what the poll found.
    fn serve_sockets(&mut self) {
        let found = self.core.io.poll.len();
        let is_single = found <= 1 && self.clients.giop.unsettled.is_empty();
        if !self.core.io.slices.begin_round(is_single) {
            self.serve_put_off();
            for index in 0..found {
                if let Some(ready) = self.core.io.poll.get(index) {
                    self.serve(ready);
                }
            }
            return;
        }
        // Whoever sends much is to have his answers first, or they would be put off for ever.
        self.write_due();
        for index in 0..found {
            match self.core.io.poll.get(index) {
                Some(ready) if matches!(ready.datum >> 62, KIND_INCOMING | KIND_OUTGOING) => self.put_off(ready),
                Some(ready) => self.serve(ready),
                None => {}
            }
        }
        self.serve_put_off();
    }

    /// Has a socket that is ready wait for its address's turn, unless it waits already.
    fn put_off(&mut self, ready: system::Ready) {
        let token = Token::from_bits(ready.datum);
        let place = if ready.datum >> 62 == KIND_INCOMING {
            self.clients.giop.incoming.get_mut(token).map(|entry| entry.caller.put_off())
        } else {
            self.core.doors.giop.outgoing.connections.get_mut(token).map(Outgoing::put_off)
        };
        if let Some((address, is_put_off)) = place
            && !core::mem::replace(is_put_off, true)
        {
            self.core.io.slices.put_off(address, Work::Ready(ready));
        }
    }

    /// Gives each address its slice, where somebody is to give way, and otherwise serves all that was put off.
    fn serve_put_off(&mut self) {
        if self.core.io.slices.is_idle() {
            return;
        }
        let binds = self.core.io.slices.binds();
        let began = self.core.clock.time();
        let mut until_now = began;
        for _ in 0..self.core.io.slices.turns() {
            let Some((address, waiting)) = self.core.io.slices.next_turn() else { return };
            let mut is_spent = false;
            for _ in 0..waiting {
                let Some(work) = self.core.io.slices.take(address) else { break };
                self.serve_work(work);
                if binds {
                    let now = self.core.clock.time();
                    is_spent = self.core.io.slices.charge(address, now.since(until_now));
                    until_now = now;
                    if is_spent {
                        break;
                    }
                }
            }
            if self.core.io.slices.end_turn(address) && is_spent {
                self.core.counters.add(Counter::SlicesSpent, 1);
            }
            if binds {
                self.core.flush_if_long(until_now);
                if until_now.since(began) >= SERVED_FOR {
                    return;
                }
            }
        }
    }

    fn serve_work(&mut self, work: Work) {
        match work {
            Work::Ready(ready) => {
                let token = Token::from_bits(ready.datum);
                if ready.datum >> 62 == KIND_INCOMING {
                    if let Some(entry) = self.clients.giop.incoming.get_mut(token) {
                        *entry.caller.put_off().1 = false;
                    }
                } else if let Some(connection) = self.core.doors.giop.outgoing.connections.get_mut(token) {
                    *connection.put_off().1 = false;
                }
                self.serve(ready);
            }
            Work::Resume(token) => self.serve_hungry(token),
        }
    }

    fn serve(&mut self, ready: system::Ready) {
        let token = Token::from_bits(ready.datum);
        match ready.datum >> 62 {
            KIND_LISTENER => self.accept(),
            KIND_BELL => self.serve_mail(),
            KIND_INCOMING => self.serve_incoming(token, ready),
            _ => self.core.serve_outgoing(token, ready),
        }
    }

    fn serve_mail(&mut self) {
        // There may be letters for many connections.
        self.core.io.slices.bind();
        self.mail.bell.silence();
        self.mail.office.look();
        self.mail.resolved.look();
        self.core.links.lines.look();
        let more = self.serve_lines() | self.serve_resolver() | self.serve_office();
        if more {
            // Come back to it after the sockets.
            self.mail.bell.ring();
        }
    }

    /// A lane to which no route leads ends when it has nothing left: no connection, and nothing to answer or to be answered.
    fn end_retired(&mut self) {
        if !self.retiring {
            return;
        }
        let Core { lane, links, intake, office, doors, .. } = &mut self.core;
        let is_quiet = links.lines.are_quiet() && links.held_for_peers.is_empty() && lane.turns_waiting() == 0;
        let is_done =
            is_quiet && self.clients.giop.open == 0 && doors.giop.is_done() && !intake.undecided.has_to_go_on();
        if is_done && !office.reports.is_waiting() {
            links.lines.end();
            self.stopping = office.administration.post(ToAdministration::Ended).is_ok();
        }
    }

    /// Serves what administration has posted. True if there is more.
    fn serve_office(&mut self) -> bool {
        for _ in 0..MAIL_PER_ROUND {
            let Some(letter) = self.mail.office.take() else { return false };
            // What a reply speaks of was published before the reply was posted, so look before passing it on.
            self.core.refresh();
            match letter {
                ToLane::Reply { connection, bytes, request_bytes, may_be_large } => {
                    if may_be_large {
                        self.note_large_answer(connection, bytes.len());
                    }
                    self.pass_reply(connection, request_bytes, |output| output.push_bytes(bytes));
                }
                ToLane::Call { call, what } => {
                    self.core.call_client(call, what);
                    self.core.clock.plan_sweep();
                }
                ToLane::Survey { drops } => self.core.begin_survey(drops),
                ToLane::Part(lane) => self.core.links.lines.part(lane),
                ToLane::Retire => {
                    self.retiring = true;
                    self.send_all_away();
                }
                ToLane::Drain => self.drain(),
                ToLane::Stop => self.stopping = true,
            }
        }
        self.mail.office.waiting() > 0
    }

    /// Serves what the resolver has posted. True if there is more.
    fn serve_resolver(&mut self) -> bool {
        for _ in 0..MAIL_PER_ROUND {
            let Some(Resolved { connection, addresses }) = self.mail.resolved.take() else { return false };
            self.core.resolved(connection, addresses);
        }
        self.mail.resolved.waiting() > 0
    }

    fn serve_timers(&mut self) {
        let now = self.core.clock.now;
        if self.core.lane.next_timeout().is_some_and(|due| due <= now) {
            let let_go = self.core.lane.types_let_go();
            self.core.lane.handle_timeout(now);
            if self.core.lane.types_let_go() != let_go {
                self.core.doors.giop.recall.forget();
            }
        }
        self.core.serve_pullers();
        if !self.core.clock.begin_sweep() {
            return;
        }
        if self.clients.giop.entrance.deaf {
            self.listen(true);
        }
        self.core.sweep_outgoing();
        self.send_movers_away();
        if self.end_overdue() {
            self.core.clock.plan_sweep();
        }
    }
}

/// Events of usual sizes that a lane has memory for from its start, so that the first ones need not wait for it.
const READY_EVENTS: usize = 64;
const READY_BYTES: [usize; 4] = [128, 256, 512, 1024];

/// The poll of a lane, told of what the lane begins with.
fn poll_for(listener: Option<&TcpListener>, bell: &Bell) -> io::Result<Poll> {
    let poll = Poll::new()?;
    if let Some(listener) = listener {
        system::prepare_listener(listener)?;
        poll.add(listener, KIND_LISTENER << 62, Interest::READ)?;
    }
    poll.add(bell, KIND_BELL << 62, Interest::READ)?;
    Ok(poll)
}

/// The engine's part of a lane. A pool's lanes are told by the routing whose turn it is.
fn ready_lane(id: LaneId, main_discipline: Discipline, memory: Arc<SharedMemory>) -> Lane {
    let mut lane = Lane::with_id(id, Time(0));
    lane.share_memory(memory);
    if id == LaneId::MAIN {
        lane.set_discipline(main_discipline);
    }
    warm_up(&mut lane);
    lane
}

fn warm_up(lane: &mut Lane) {
    let drafts = READY_BYTES.into_iter().flat_map(|bytes| core::iter::repeat_n(bytes, READY_EVENTS)).map(|bytes| {
        let mut draft = lane.begin_event_for(bytes);
        // Written to, since it is only then that the system provides it.
        draft.bytes.resize(bytes, 0);
        draft
    });
    for draft in drafts.collect::<Vec<_>>() {
        lane.abandon_event(draft);
    }
}

impl Core {
    /// Reads the clock.
    pub(crate) fn read_clock(&mut self) -> Time {
        self.clock.read();
        self.doors.giop.note_time(&self.clock);
        self.clock.now
    }

    /// Takes over a new routing snapshot, if one was published: one atomic load when there is none (R6).
    pub(crate) fn refresh(&mut self) {
        let published = self.published.load();
        if !Arc::ptr_eq(&published.routing, self.lane.snapshot()) {
            let routing = Arc::clone(&published.routing);
            // Whom it speaks of was introduced before it was published.
            self.links.meet_introduced();
            self.doors.giop.outgoing.handle_published(published);
            let before = Arc::clone(self.lane.snapshot());
            self.lane.handle_snapshot(routing, self.clock.now);
            self.doors.giop.recall.forget();
            self.place_pullers();
            self.end_waits(&before);
            let Self { intake, lane, .. } = self;
            intake.undecided.forget_but(|source| lane.snapshot().supplier(source).is_some());
        }
    }

    /// Brings everything that the engine wants done to the sockets and to administration.
    pub(crate) fn settle(&mut self) {
        while let Some((outbox, _)) = self.lane.poll_timed_out() {
            self.abandon(outbox);
        }
        self.deliver();
        while let Some(ticket) = self.lane.poll_release() {
            if let Some(owed) = self.intake.held.remove(&ticket) {
                self.pay(owed);
            }
        }
        while let Some(notice) = self.lane.poll_notice() {
            let why = match &notice {
                Notice::ConsumerFailing { key, .. } => self.office.failures.remove(key),
                _ => None,
            };
            if !self.office.reports.notice(notice, why, self.clock.now) {
                self.counters.add(Counter::LogLinesLeftOut, 1);
            }
        }
        self.office.failures.clear();
        self.office.reports.hand_over(&mut self.office.administration, self.clock.now);
    }

    /// Whether somebody can be answered who had to wait.
    fn has_to_answer(&self) -> bool {
        !self.intake.released.is_empty() || self.doors.giop.has_to_answer()
    }
}

//! The lane's thread: wait, read, route, write; the only place where sockets are touched.
//!
//! One round of the duty cycle reads the clock once, picks up a new routing snapshot if there is one, serves whoever had
//! more than its share of the last round, then the mail and each socket that is ready, then the timers. Nothing in a round
//! waits: not for a socket, not for a consumer, not for administration.

use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use engine::{Discipline, Event, Lane, LaneId, Notice, ProxyKey, SharedMemory, Time};
use giop::framing;
use hashbrown::HashMap;

use crate::counters::{Block, Counter};
use crate::doors::giop::foreign_pushes::{self, ForeignPush, Guest};
use crate::doors::giop::incoming::Incoming;
use crate::doors::giop::instalments::Instalments;
use crate::doors::giop::large_answers::LargeAnswers;
use crate::doors::giop::outgoing::{Outgoing, Outgoings, Resolver};
use crate::doors::giop::pull_consumers::{self, Due};
use crate::doors::giop::pull_suppliers::Pullers;
use crate::doors::giop::recall::Recall;
use crate::doors::giop::remote_filters::QuestionsOpen;
use crate::doors::giop::waiting_pulls::WaitingPulls;
use crate::lane::draining::Draining;
use crate::lane::intake::admission::{Owed, UndecidedEvents};
use crate::lane::io::buffers::Buffers;
use crate::lane::io::shares::Share;
use crate::lane::io::slices::{Slices, Work};
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::system::{self, Bell, Interest, Poll};
use crate::lane::io::unfinished::{Reserve, Unfinished};
use crate::lane::links::lines::{HeldForPeer, Line, Lines};
use crate::lane::links::mail::{LaneThread, Lookup, Resolved, ToAdministration, ToLane};
use crate::lane::links::post::{Inbox, Post};
use crate::lane::pulse::Pulse;
use crate::lane::reports::Reports;
use crate::lane::survey::Surveying;
use crate::published::Published;
use accounts::{Accounts, Addresses};
use corba::event::{Batch, CorbaForms, UtcClock};

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

/// A lane's thread. What it does with clients' connections is in [`crate::doors::giop::incoming`].
pub(crate) struct Worker {
    pub(crate) listener: Option<TcpListener>,
    /// Whom it accepts connections from.
    pub(crate) addresses: Option<Addresses>,
    pub(crate) incoming: Slots<Incoming>,
    pub(crate) incoming_open: usize,
    /// Connections on which something is due, or about which the poll may have to be told something else.
    pub(crate) unsettled: VecDeque<Token>,
    /// Those that were written as much as may be in one round, or whose address has had its slice, and have more.
    pub(crate) rests: VecDeque<Token>,
    /// Connections to which nothing was written in this round, since their addresses had had their slices: the next begins with them.
    pub(crate) skipped: VecDeque<Token>,
    /// Connections that wait for room on the lane that they have to move to.
    pub(crate) movers: VecDeque<Token>,
    office: Inbox<ToLane>,
    resolved: Inbox<Resolved>,
    bell: Arc<Bell>,
    pub(crate) message_completion: Duration,
    /// Messages that are not complete.
    pub(crate) unfinished: Unfinished,
    /// The number of the round.
    pub(crate) round: u64,
    next_sweep: Option<Time>,
    /// Connections are being refused; that has been logged.
    pub(crate) refusing: bool,
    /// Not listening for connections, for want of descriptors.
    pub(crate) deaf: bool,
    stopping: bool,
    /// No route leads here any more.
    pub(crate) retiring: bool,
    pub(crate) core: Core,
}

/// What the event path needs, apart from the connections that events come in on.
pub(crate) struct Core {
    pub(crate) id: LaneId,
    pub(crate) thread: LaneThread,
    /// The lane's CORBA priority. The main lane need not have one, and is less important than all others then.
    pub(crate) priority: Option<i16>,
    pub(crate) poll: Poll,
    /// What each address has of a round.
    pub(crate) slices: Slices,
    /// What was found out about the latest requests.
    pub(crate) recall: Recall,
    /// What sockets are read into.
    pub(crate) buffers: Buffers,
    pub(crate) lane: Lane,
    pub(crate) published: arc_swap::Cache<Arc<ArcSwap<Published>>, Arc<Published>>,
    /// The other lanes, and those that are yet to be taken in.
    pub(crate) lines: Lines,
    introductions: Inbox<Line>,
    /// Events of other lanes that are held, and pushes of theirs that are being served.
    pub(crate) held_for_peers: Slots<HeldForPeer>,
    pub(crate) guests: Slots<Guest>,
    /// Buffers for pushes that are for other lanes, and the connections of which one waits for room there.
    #[expect(clippy::vec_box, reason = "they travel in these boxes")]
    pub(crate) spare_pushes: Vec<Box<ForeignPush>>,
    pub(crate) parked: VecDeque<Token>,
    /// There may be some.
    pub(crate) try_parked: bool,
    pub(crate) administration: Post<ToAdministration>,
    /// See [`Common::request_bytes_min`].
    pub(crate) request_bytes_min: u64,
    /// Requests that administration has, or is to have, and whose answers may be large.
    pub(crate) large_answers: LargeAnswers,
    pub(crate) outgoing: Outgoings,
    pub(crate) counters: Arc<Block>,
    pub(crate) now: Time,
    /// Replies withheld, by the engine's ticket.
    pub(crate) held: HashMap<engine::Ticket, Token>,
    pub(crate) owed: Slots<Owed>,
    /// Withheld replies that are due now.
    pub(crate) released: VecDeque<Owed>,
    /// Suppliers that are asked for events.
    pub(crate) pullers: Pullers,
    /// Clients that wait for events, and what is due to those that asked for some.
    pub(crate) waiting: WaitingPulls,
    pub(crate) due: VecDeque<Due>,
    /// Events about which remote filters are asked, and those that came through a proxy while they were.
    pub(crate) questions: QuestionsOpen,
    pub(crate) undecided: UndecidedEvents,
    pub(crate) reports: Reports,
    /// What administration is being told of the outboxes, piece by piece.
    pub(crate) surveying: Option<Surveying>,
    /// Whether the service is about to end.
    pub(crate) draining: Draining,
    /// Why consumers have begun to fail, until the notices of that go out.
    pub(crate) failures: HashMap<ProxyKey, String>,
    /// The engine may have more deliveries due than were begun at one go.
    pub(crate) undelivered: bool,
    /// Lists for the events of deliveries, used again.
    pub(crate) lists: Vec<Vec<Arc<Event>>>,
    /// Where the events of a sequence lie that came in; used again.
    pub(crate) batch_in: Batch,
    /// Sequences of which some events have been taken in.
    pub(crate) instalments: Instalments,
    /// How the events' bytes are read for filters.
    pub(crate) forms: CorbaForms,
    /// What time it is by the world's clock.
    pub(crate) clock: UtcClock,
    /// Where event type names are put into UTF-8; used again for each event that needs it.
    pub(crate) names: [String; 2],
    origin: Instant,
    pub(crate) pulse: Pulse,
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

/// Limits (connect, completion, calls) are looked after this often while there is one running.
const SWEEP: Duration = Duration::from_millis(50);
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
            addresses: listener.as_ref().map(|_| Addresses::new(&common.accounts)),
            listener,
            incoming: Slots::new(),
            incoming_open: 0,
            unsettled: VecDeque::with_capacity(64),
            rests: VecDeque::new(),
            skipped: VecDeque::new(),
            movers: VecDeque::new(),
            office: ends.office,
            resolved: ends.resolved,
            bell: ends.bell,
            message_completion: common.message_completion,
            unfinished: Unfinished::new(Arc::clone(&common.reserve)),
            round: 0,
            next_sweep: None,
            refusing: false,
            deaf: false,
            stopping: false,
            retiring: false,
            core: Core {
                id,
                thread,
                priority,
                poll,
                slices: Slices::new(common.share),
                recall: Recall::default(),
                buffers: Buffers::default(),
                lane: ready_lane(id, common.main_discipline, common.memory),
                published: arc_swap::Cache::new(common.published),
                lines: Lines::new(ends.lines),
                introductions: ends.introductions,
                held_for_peers: Slots::new(),
                guests: Slots::new(),
                spare_pushes: foreign_pushes::spare_pushes(),
                parked: VecDeque::new(),
                try_parked: false,
                reports: Reports::new(),
                surveying: None,
                draining: Draining::default(),
                administration: ends.administration,
                request_bytes_min: common.request_bytes_min,
                large_answers: LargeAnswers::default(),
                outgoing: Outgoings::new(resolver, common.framing, common.connect_timeout, common.silence),
                counters,
                now: Time(0),
                held: HashMap::new(),
                released: VecDeque::new(),
                failures: HashMap::new(),
                undelivered: false,
                lists: pull_consumers::lists(),
                batch_in: Batch::new(),
                instalments: Instalments::default(),
                forms: CorbaForms::default(),
                clock: UtcClock::default(),
                owed: Slots::new(),
                pullers: Pullers::default(),
                waiting: WaitingPulls::default(),
                due: VecDeque::with_capacity(64),
                questions: QuestionsOpen::default(),
                undecided: UndecidedEvents::default(),
                names: [String::new(), String::new()],
                origin: common.origin,
                pulse: Pulse::default(),
                name,
            },
        })
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        while !self.stopping {
            let timeout = if self.goes_on() { Some(Duration::ZERO) } else { self.timeout() };
            if let Err(error) = self.core.poll.wait(timeout) {
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
        let Self { unsettled, rests, skipped, core, .. } = self;
        let has_to_write = !unsettled.is_empty() || !rests.is_empty() || !skipped.is_empty() || core.outgoing.is_due();
        has_to_write
            || !core.slices.is_idle()
            || core.undelivered
            || !core.outgoing.losses.is_empty()
            || core.undecided.has_to_go_on()
            || !core.instalments.is_empty()
            || core.waiting.is_moving()
            || core.has_to_answer()
            || core.lane.turns_waiting() > 0
            || core.has_to_survey()
            || (core.draining.is_looking() && !core.reports.has_backlog())
    }

    /// Waits so long at most for something to serve, and serves it.
    #[cfg(test)]
    pub(crate) fn round_within(&mut self, timeout: Duration) {
        self.core.poll.wait(Some(timeout)).unwrap();
        self.round();
    }

    /// Serves what the poll found.
    fn round(&mut self) {
        let began = self.core.read_clock();
        self.round += 1;
        self.core.refresh();
        self.unsettled.append(&mut self.skipped);
        self.unsettled.append(&mut self.rests);
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
        let holds_back = self.core.large_answers.is_waiting() || self.unfinished.is_waiting();
        if holds_back || self.core.has_deadlines() || self.core.reports.is_waiting() {
            self.plan_sweep();
        }
        self.core.account(began);
        self.end_retired();
    }

    /// Answers whoever can be answered. Who is may go on, and what he sends may release others: where there is no end of that,
    /// the sockets are looked at before it goes on.
    pub(crate) fn answer_all(&mut self) {
        let mut until = None;
        while self.core.has_to_answer() {
            let most = if self.core.slices.binds() { ANSWERS_PER_SHORT_LOOK } else { ANSWERS_PER_LOOK };
            self.answer_released(most);
            self.answer_pulls(most);
            self.core.settle();
            if self.core.has_to_answer() {
                let now = self.core.time();
                if now >= *until.get_or_insert(now + ANSWERING_FOR) {
                    return;
                }
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let is_polling = !self.core.draining.has_begun();
        let polling = self.core.pullers.next_due().filter(|_| is_polling);
        let due = [self.core.lane.next_timeout(), self.next_sweep, polling];
        let due = due.into_iter().flatten().min()?;
        let now = self.core.origin.elapsed();
        Some(Duration::from_nanos(due.0).saturating_sub(now))
    }

    /// Serves what was put off, and what the poll found.
    fn serve_sockets(&mut self) {
        let found = self.core.poll.len();
        let is_single = found <= 1 && self.unsettled.is_empty();
        if !self.core.slices.begin_round(is_single) {
            self.serve_put_off();
            for index in 0..found {
                if let Some(ready) = self.core.poll.get(index) {
                    self.serve(ready);
                }
            }
            return;
        }
        // Whoever sends much is to have his answers first, or they would be put off for ever.
        self.write_due();
        for index in 0..found {
            match self.core.poll.get(index) {
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
            self.incoming.get_mut(token).map(|entry| entry.caller.put_off())
        } else {
            self.core.outgoing.connections.get_mut(token).map(Outgoing::put_off)
        };
        if let Some((address, is_put_off)) = place
            && !core::mem::replace(is_put_off, true)
        {
            self.core.slices.put_off(address, Work::Ready(ready));
        }
    }

    /// Gives each address its slice, where somebody is to give way, and otherwise serves all that was put off.
    fn serve_put_off(&mut self) {
        if self.core.slices.is_idle() {
            return;
        }
        let binds = self.core.slices.binds();
        let began = self.core.time();
        let mut until_now = began;
        for _ in 0..self.core.slices.turns() {
            let Some((address, waiting)) = self.core.slices.next_turn() else { return };
            let mut is_spent = false;
            for _ in 0..waiting {
                let Some(work) = self.core.slices.take(address) else { break };
                self.serve_work(work);
                if binds {
                    let now = self.core.time();
                    is_spent = self.core.slices.charge(address, now.since(until_now));
                    until_now = now;
                    if is_spent {
                        break;
                    }
                }
            }
            if self.core.slices.end_turn(address) && is_spent {
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
                    if let Some(entry) = self.incoming.get_mut(token) {
                        *entry.caller.put_off().1 = false;
                    }
                } else if let Some(connection) = self.core.outgoing.connections.get_mut(token) {
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
        self.core.slices.bind();
        self.bell.silence();
        self.office.look();
        self.resolved.look();
        self.core.lines.look();
        let more = self.serve_lines() | self.serve_resolver() | self.serve_office();
        if more {
            // Come back to it after the sockets.
            self.bell.ring();
        }
    }

    /// A lane to which no route leads ends when it has nothing left: no connection, and nothing to answer or to be answered.
    fn end_retired(&mut self) {
        let Core {
            lane, lines, guests, held_for_peers, reports, administration, instalments, outgoing, undecided, ..
        } = &mut self.core;
        let is_done = self.incoming_open == 0 && lines.are_quiet() && guests.is_empty() && held_for_peers.is_empty();
        let is_done = is_done && lane.turns_waiting() == 0 && instalments.is_empty();
        let is_done = is_done && outgoing.losses.is_empty() && !undecided.has_to_go_on();
        if self.retiring && is_done && !reports.is_waiting() {
            lines.end();
            self.stopping = administration.post(ToAdministration::Ended).is_ok();
        }
    }

    /// Serves what administration has posted. True if there is more.
    fn serve_office(&mut self) -> bool {
        for _ in 0..MAIL_PER_ROUND {
            let Some(letter) = self.office.take() else { return false };
            // What a reply speaks of was published before the reply was posted, so look before passing it on.
            self.core.refresh();
            match letter {
                ToLane::Reply { connection, bytes, request_bytes, may_be_large } => {
                    if may_be_large {
                        self.note_large_answer(connection, bytes.len());
                    }
                    self.pass_reply(connection, request_bytes, |output| output.push_bytes(bytes));
                }
                ToLane::Call { call, to, by, operation, body, timeout } => {
                    self.core.begin_call(call, &to, by, operation, body, timeout);
                    self.plan_sweep();
                }
                ToLane::Survey { drops } => self.core.begin_survey(drops),
                ToLane::Part(lane) => self.core.lines.part(lane),
                ToLane::Retire => {
                    self.retiring = true;
                    self.send_all_away();
                }
                ToLane::Drain => self.drain(),
                ToLane::Stop => self.stopping = true,
            }
        }
        self.office.waiting() > 0
    }

    /// Serves what the resolver has posted. True if there is more.
    fn serve_resolver(&mut self) -> bool {
        for _ in 0..MAIL_PER_ROUND {
            let Some(Resolved { connection, addresses }) = self.resolved.take() else { return false };
            self.core.resolved(connection, addresses);
        }
        self.resolved.waiting() > 0
    }

    pub(crate) fn plan_sweep(&mut self) {
        if self.next_sweep.is_none() {
            self.next_sweep = Some(self.core.now + SWEEP);
        }
    }

    fn serve_timers(&mut self) {
        let now = self.core.now;
        if self.core.lane.next_timeout().is_some_and(|due| due <= now) {
            let let_go = self.core.lane.types_let_go();
            self.core.lane.handle_timeout(now);
            if self.core.lane.types_let_go() != let_go {
                self.core.recall.forget();
            }
        }
        self.core.serve_pullers();
        if self.next_sweep.is_none_or(|due| due > now) {
            return;
        }
        self.next_sweep = None;
        if self.deaf {
            self.listen(true);
        }
        self.core.sweep_outgoing();
        self.send_movers_away();
        if self.end_overdue() {
            self.plan_sweep();
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
    /// What time it is by now.
    pub(crate) fn time(&self) -> Time {
        Time(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn read_clock(&mut self) -> Time {
        self.now = self.time();
        // Neither reading is a system call.
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.clock = UtcClock::new(self.now, since_1970);
        self.forms = CorbaForms::at(&self.clock, self.now);
        self.now
    }

    #[cfg(test)]
    pub(crate) fn set_clock_forward(&mut self, by: Duration) {
        self.origin -= by;
    }

    /// Takes over a new routing snapshot, if one was published: one atomic load when there is none (R6).
    pub(crate) fn refresh(&mut self) {
        let published = self.published.load();
        if !Arc::ptr_eq(&published.routing, self.lane.snapshot()) {
            let routing = Arc::clone(&published.routing);
            // Whom it speaks of was introduced before it was published.
            while let Some(line) = self.introductions.take() {
                self.lines.meet(line);
            }
            self.outgoing.handle_published(published);
            let before = Arc::clone(self.lane.snapshot());
            self.lane.handle_snapshot(routing, self.now);
            self.recall.forget();
            self.place_pullers();
            self.end_waits(&before);
            let Self { undecided, lane, .. } = self;
            undecided.forget_but(|source| lane.snapshot().supplier(source).is_some());
        }
    }

    /// Brings everything that the engine wants done to the sockets and to administration.
    pub(crate) fn settle(&mut self) {
        while let Some((outbox, _)) = self.lane.poll_timed_out() {
            self.abandon(outbox);
        }
        self.deliver();
        while let Some(ticket) = self.lane.poll_release() {
            if let Some(owed) = self.held.remove(&ticket) {
                self.pay(owed);
            }
        }
        while let Some(notice) = self.lane.poll_notice() {
            let why = match &notice {
                Notice::ConsumerFailing { key, .. } => self.failures.remove(key),
                _ => None,
            };
            if !self.reports.notice(notice, why, self.now) {
                self.counters.add(Counter::LogLinesLeftOut, 1);
            }
        }
        self.failures.clear();
        self.reports.hand_over(&mut self.administration, self.now);
    }

    /// Whether somebody can be answered who had to wait.
    fn has_to_answer(&self) -> bool {
        !self.released.is_empty() || !self.due.is_empty()
    }

    /// Whether anything has to be looked after by the clock.
    fn has_deadlines(&self) -> bool {
        self.outgoing.has_deadlines() || !self.questions.is_empty() || !self.pullers.is_empty()
    }
}

//! The lane's thread: wait, read, route, write; the only place where sockets are touched.
//!
//! One round of the duty cycle reads the clock once, picks up a new routing snapshot if there is one, serves connections that used up their
//! budget of the last round, then the mailboxes and each socket that is ready, then the timers. Nothing in a round waits: not for a socket,
//! not for a consumer, not for administration.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use engine::{Delivery, Discipline, Event, Lane, LaneId, MemoryPool, Notice, Time};

use crate::counters::{Block, Counter};
use crate::handshakes::{self, Secured};
use crate::lane::access::Guard;
use crate::lane::budget::Budget;
use crate::lane::clock::Clock;
use crate::lane::context::{Context, Deliveries, Identity};
use crate::lane::intake::Intake;
use crate::lane::intake::journal::Journal;
use crate::lane::intake::origins::Origins;
use crate::lane::io::Io;
use crate::lane::io::buffers::Buffers;
use crate::lane::io::logged_once::LoggedOnce;
use crate::lane::io::net::{self, Poll, Waker};
use crate::lane::io::occupied::Occupied;
use crate::lane::io::output::Spares;
use crate::lane::io::quotas::{Quotas, Work};
use crate::lane::io::socket::Socket;
use crate::lane::io::system::Interest;
use crate::lane::io::unfinished::Reserve;
use crate::lane::links::Links;
use crate::lane::links::lanes::Link;
use crate::lane::links::mailbox::{Inbox, Mailbox};
use crate::lane::links::messages::{LaneThread, Lookup, Resolved, ToAdministration, ToLane};
use crate::lane::overflow::Backlogs;
use crate::lane::polling::{PollingServer, Timing};
use crate::lane::reporting::Reporting;
use crate::lane::reports::printable;
use crate::lane::saturation::{Finding, Saturation};
use crate::overflow;
use crate::protocols::{self, Clients, Listeners, Protocols, Tag, WireProtocol, any_of, by_tag, of_each};
use crate::published::Published;
use crate::store::journal;
use access::ClientNames;
use accounts::Accounts;

/// Options of a lane's thread.
pub(crate) struct WorkerOptions {
    pub(crate) id: LaneId,
    pub(crate) thread: LaneThread,
    /// Name of the lane, and its priority from 0 to 32,767.
    pub(crate) name: Arc<str>,
    pub(crate) priority: Option<i16>,
    /// Listeners of the main lane, which alone accepts connections.
    pub(crate) listeners: Option<Listeners>,
    /// Period and budget, if the lane runs by the clock.
    pub(crate) timing: Option<Timing>,
    pub(crate) ends: LaneEnds,
    pub(crate) counters: Arc<Block>,
    pub(crate) common: Common,
}

/// A lane's ends of its connections with the other threads.
pub(crate) struct LaneEnds {
    pub(crate) waker: Arc<Waker>,
    pub(crate) administration: Mailbox<ToAdministration>,
    pub(crate) from_administration: Inbox<ToLane>,
    pub(crate) resolver: Mailbox<Lookup>,
    pub(crate) resolved: Inbox<Resolved>,
    /// Link to the thread that makes TLS handshakes, if there is one.
    pub(crate) handshakes: Option<handshakes::Link>,
    pub(crate) introductions: Inbox<Link>,
    pub(crate) links: Vec<Link>,
    /// Links to the store, and to the thread that keeps backlogs, if there is one.
    pub(crate) store: Option<journal::Link>,
    pub(crate) overflow: Option<overflow::Link>,
}

/// Options that are the same for all lanes.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) published: Arc<ArcSwap<Published>>,
    pub(crate) protocols: protocols::Settings,
    /// Accounts of clients.
    pub(crate) accounts: Arc<Accounts>,
    /// Names that the configuration gives to clients' addresses.
    pub(crate) client_names: Arc<ArcSwap<ClientNames>>,
    /// Reserve of memory for incomplete messages.
    pub(crate) reserve: Arc<Reserve>,
    /// Memory pool for the events of all channels.
    pub(crate) memory: Arc<MemoryPool>,
    /// Pool for the disk space of all consumers' backlogs.
    pub(crate) backlogs: Arc<MemoryPool>,
    pub(crate) message_completion: Duration,
    /// Budget of one connection in a round.
    pub(crate) connection_budget: Budget,
    /// Discipline of the main lane's topics.
    pub(crate) main_discipline: Discipline,
    /// Whether lifetimes only order events and never expire them (`compatibility.timeout_never_expires`).
    pub(crate) keeps_expired: bool,
    /// Start of the service, which lanes take for time 0.
    pub(crate) origin: Instant,
    /// Origins for events.
    pub(crate) origins: Origins,
}

/// A lane's thread.
pub(crate) struct Worker {
    pub(crate) clients: Clients,
    inboxes: Inboxes,
    stopping: bool,
    /// Period and budget, if the lane runs by the clock; otherwise it runs whenever there is work.
    pub(crate) polling: Option<PollingServer>,
    pub(crate) core: Core,
}

/// Messages of other threads, and the waker that announces them.
struct Inboxes {
    from_administration: Inbox<ToLane>,
    resolved: Inbox<Resolved>,
    secured: Option<Inbox<Secured>>,
    waker: Arc<Waker>,
}

/// The owners of state on an event's path, except the connections of suppliers ([`Clients`]).
///
/// Ingress consists of the rules, the intake and this type's methods; egress of [`Protocols`] and the backlogs, which are handed the
/// context and see neither rules nor intake.
pub(crate) struct Core {
    pub(crate) cx: Context,
    pub(crate) published: arc_swap::Cache<Arc<ArcSwap<Published>>, Arc<Published>>,
    /// Links to other lanes, and events taken over from them.
    pub(crate) links: Links,
    /// Events on their way in, and pending acknowledgements.
    pub(crate) intake: Intake,
    /// Backlogs on disk.
    pub(crate) backlogs: Backlogs,
    pub(crate) saturation: Saturation,
    /// Connections and proxies by protocol, and the forms of events.
    pub(crate) protocols: Protocols,
    /// Rights of clients.
    pub(crate) access: Guard,
}

/// Time to wait, at the start, until events without memory are written, before messages are looked at.
const WAITS_FOR_BACKLOGS: Duration = Duration::from_millis(10);

impl Worker {
    pub(crate) fn new(options: WorkerOptions) -> io::Result<Self> {
        let WorkerOptions { id, thread, name, priority, mut listeners, timing, mut ends, counters, common } = options;
        let sockets = listeners.as_mut().map(|listeners| core::mem::take(&mut listeners.sockets)).unwrap_or_default();
        let mut lane = ready_lane(id, &common, ends.overflow.is_some());
        if let Some(overflow) = &mut ends.overflow {
            lane.continue_histories(core::mem::take(&mut overflow.histories));
        }
        let poll = Poll::new()?;
        poll.add(&ends.waker, Socket::Waker, Interest::READ)?;
        let clock = Clock::new(common.origin);
        let mut quotas = Quotas::new(common.connection_budget);
        let polling = timing.map(|timing| {
            // Rounds are short then, so that the budget is looked at often.
            quotas.always_bind();
            PollingServer::new(timing, net::system_time_of(&clock))
        });
        let protocols = Protocols::new(&common, &mut ends, sockets, &poll)?;
        let handshakes = ends.handshakes.map(|link| (link.unsecured, link.secured));
        let (unsecured, secured) = handshakes.unzip();
        Ok(Self {
            clients: Clients::new(listeners, &common, &poll)?,
            inboxes: Inboxes {
                from_administration: ends.from_administration,
                resolved: ends.resolved,
                secured,
                waker: ends.waker,
            },
            stopping: false,
            polling,
            core: Core {
                cx: Context {
                    identity: Identity { id, thread, priority, name },
                    clock,
                    io: Io {
                        poll,
                        quotas,
                        buffers: Buffers::default(),
                        spares: Spares::default(),
                        logged_once: LoggedOnce::default(),
                        occupied: Occupied::default(),
                    },
                    lane,
                    deliveries: Deliveries::default(),
                    reporting: Reporting::new(ends.administration),
                    unsecured,
                    lookups: ends.resolver,
                    client_names: Arc::clone(&common.client_names),
                    counters,
                    origins: common.origins,
                },
                protocols,
                published: arc_swap::Cache::new(common.published),
                links: Links::new(ends.links, ends.introductions),
                intake: Intake::new(Journal::new(ends.store)),
                backlogs: Backlogs::new(ends.overflow),
                saturation: Saturation::default(),
                access: Guard::default(),
            },
        })
    }

    /// Runs until the lane is to stop.
    pub(crate) fn run(mut self) {
        while self.live() {}
        self.end();
    }

    /// Closes all connections.
    pub(crate) fn end(mut self) {
        of_each!(P => P::CLOSE_ALL(&mut self));
    }

    /// Waits for work, and serves it. False if the lane is to stop.
    pub(crate) fn live(&mut self) -> bool {
        if self.stopping {
            return false;
        }
        if self.polling.is_some() {
            return self.live_by_the_clock();
        }
        if !self.wait_for_sockets(self.patience()) {
            return false;
        }
        self.round();
        true
    }

    /// Runs a time-driven lane as [`Self::live`] does: sleeps until the next release, or has another round within its budget.
    fn live_by_the_clock(&mut self) -> bool {
        let Some(polling) = &mut self.polling else { return true };
        if let Some(release) = polling.sleeps_until() {
            let clock = &self.core.cx.clock;
            if clock.time() < release {
                net::sleep_until(polling.next_on_system());
            }
            let now = clock.time();
            // A signal may have woken it.
            if now >= release {
                polling.begin(now, net::processor_time());
                self.core.cx.counters.add(Counter::LanePeriods, 1);
                // Sockets found when the last budget was spent come first: otherwise, with more ready sockets than a poll reports, they
                // would lose their turn each time.
                if self.core.cx.io.poll.len() == 0 && !self.wait_for_sockets(Some(Duration::ZERO)) {
                    return false;
                }
                self.round();
            }
            return true;
        }
        if !self.wait_for_sockets(Some(Duration::ZERO)) {
            return false;
        }
        let has_more = self.core.cx.io.poll.len() > 0 || self.is_due();
        let Some(polling) = &mut self.polling else { return true };
        if !has_more {
            polling.end();
        } else if polling.is_spent(net::processor_time()) {
            polling.end();
            self.core.cx.counters.add(Counter::LaneBudgetsSpent, 1);
        } else {
            self.round();
        }
        true
    }

    /// Waits until a socket is ready, for `patience` at most. False if the poll fails for good.
    fn wait_for_sockets(&mut self, patience: Option<Duration>) -> bool {
        let waited = self.core.cx.io.poll.wait(patience);
        if let Err(error) = &waited {
            log::error!("the lane cannot wait for its sockets any more: {error}");
        }
        waited.is_ok()
    }

    /// Whether there is work that the poll does not report.
    pub(crate) fn is_due(&self) -> bool {
        self.patience().is_some_and(|patience| patience.is_zero())
    }

    /// Maximum time to wait for sockets. `None` is without end.
    pub(crate) fn patience(&self) -> Option<Duration> {
        if self.stopping || self.goes_on() { Some(Duration::ZERO) } else { self.timeout() }
    }

    /// Whether there is work that the poll does not report, such as connections that used up their budget of the last round.
    fn goes_on(&self) -> bool {
        let core = &self.core;
        core.intake.journal.is_restoring()
            || any_of!(P => P::GOES_ON(self))
            || !core.cx.io.quotas.is_done()
            || core.cx.deliveries.undelivered
            || core.intake.awaiting_filter.has_to_go_on()
            || core.has_to_answer()
            || core.cx.lane.queued_events() > 0
            || core.cx.reporting.has_to_survey()
            || (core.cx.reporting.draining.is_looking() && !core.cx.reporting.reports.has_backlog())
    }

    /// Time until the lane has work and may do it. `None` is without end. A simulation does not run a lane that is released and has no
    /// work.
    #[cfg(test)]
    pub(crate) fn until_due(&mut self) -> Option<Duration> {
        let patience = self.patience();
        let is_pending = patience.is_some_and(|patience| patience.is_zero()) || self.core.cx.io.poll.is_ready();
        let patience = if is_pending { Some(Duration::ZERO) } else { patience };
        let Some(polling) = self.polling.as_mut().filter(|_| !self.stopping) else { return patience };
        let Some(release) = polling.sleeps_until() else { return Some(Duration::ZERO) };
        let clock = &self.core.cx.clock;
        if is_pending {
            return Some(clock.until(release));
        }
        let now = clock.time();
        polling.leave_out_until(now);
        patience.map(|patience| clock.until(polling.release_from(now + patience)))
    }

    /// Waits for work for `timeout` at most, and serves it.
    ///
    /// # Panics
    /// The test has called it for more than a minute: it waits for something that does not happen.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn round_within(&mut self, timeout: Duration) {
        thread_local!(static FIRST: Instant = Instant::now());
        assert!(
            FIRST.with(Instant::elapsed) < testing::PATIENCE,
            "rounds for a minute, and what is waited for has not come"
        );
        self.core.cx.io.poll.wait(Some(timeout)).unwrap();
        self.round();
    }

    /// Serves one round.
    fn round(&mut self) {
        let began = self.core.read_clock();
        self.core.refresh();
        if self.core.intake.journal.is_restoring() && !self.restore_events() {
            // No client is served before.
            if !self.core.backlogs.keeps_up_with_backlogs(&self.core.cx) {
                self.inboxes.waker.wait(Some(WAITS_FOR_BACKLOGS));
            }
            self.serve_inboxes();
            return self.core.account(began);
        }
        of_each!(P => P::BEGIN_ROUND(self));
        self.serve_sockets();
        self.write_due();
        self.serve_timers();
        of_each!(P => P::GO_ON(self));
        self.core.go_on_surveying();
        self.go_on_draining();
        self.core.resume_awaiting_filter();
        self.core.flush_engine();
        self.answer_all();
        of_each!(P => P::TAKE_IN_MORE(self));
        self.serve_queued_events();
        self.write_due();
        // Last of all, since whatever was done may have begun something that has a time limit.
        if any_of!(P => P::HAS_DEADLINES(self)) || self.core.cx.reporting.reports.is_waiting() {
            self.core.cx.clock.plan_sweep();
        }
        self.core.account(began);
        self.end_retired();
    }

    /// Sends the acknowledgements and replies that can be sent. A client that gets one goes on, and its requests may release others: if
    /// that does not end, the sockets are looked at first.
    pub(crate) fn answer_all(&mut self) {
        let mut until = None;
        while self.core.has_to_answer() {
            let budget = if self.core.cx.io.quotas.binds() { Budget::LARGE_ANSWERS } else { Budget::EVENTS };
            self.answer_released(budget.events);
            self.clients.callers().answer_pulls(budget.events, &mut self.core);
            self.core.flush_engine();
            if self.core.has_to_answer() {
                let now = self.core.cx.clock.time();
                if now >= *until.get_or_insert(now + Budget::EVENTS.time) {
                    return;
                }
            }
        }
    }

    /// Sends up to `most` acknowledgements that were withheld until there was room, in the order of their events.
    fn answer_released(&mut self, most: u32) {
        for _ in 0..most {
            let Some((claim, refused)) = self.core.intake.next_released() else { return };
            self.answer(claim, refused);
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let is_polling = !self.core.cx.reporting.draining.has_begun();
        let mut due = [self.core.cx.lane.next_timeout(), self.core.cx.clock.next_sweep()].into_iter().flatten().min();
        of_each!(P => due = [due, P::NEXT_DUE(&self.core).filter(|_| is_polling)].into_iter().flatten().min());
        let due = due?;
        Some(self.core.cx.clock.until(due))
    }

    /// Serves deferred work, and the sockets that the poll found ready.
    fn serve_sockets(&mut self) {
        let found = self.core.cx.io.poll.len();
        if !self.core.cx.io.quotas.begin_round(found <= 1) {
            self.serve_deferred();
            for index in 0..found {
                if let Some(ready) = self.core.cx.io.poll.get(index) {
                    self.serve_socket(ready);
                }
            }
            return;
        }
        // A client that sends much is to have its answers first, or they would be deferred for ever.
        self.write_due();
        for index in 0..found {
            match self.core.cx.io.poll.get(index) {
                Some(ready) if ready.socket.is_connection() => self.serve_later(ready),
                Some(ready) => self.serve_socket(ready),
                None => {}
            }
        }
        self.serve_deferred();
    }

    /// Serves deferred work: within each address's quota where quotas bind, otherwise all of it.
    fn serve_deferred(&mut self) {
        if self.core.cx.io.quotas.is_idle() {
            return;
        }
        let binds = self.core.cx.io.quotas.binds();
        let began = self.core.cx.clock.time();
        let mut until_now = began;
        for _ in 0..self.core.cx.io.quotas.queued_addresses() {
            let Some((address, waiting)) = self.core.cx.io.quotas.next_address() else { return };
            let mut is_spent = false;
            for _ in 0..waiting {
                let Some(work) = self.core.cx.io.quotas.take(address) else { break };
                self.serve_work(work);
                if binds {
                    let now = self.core.cx.clock.time();
                    is_spent = self.core.cx.io.quotas.charge(address, now.since(until_now));
                    until_now = now;
                    if is_spent {
                        break;
                    }
                }
            }
            if self.core.cx.io.quotas.end_service(address) && is_spent {
                self.core.cx.counters.add(Counter::AddressBudgetsSpent, 1);
            }
            if binds {
                self.core.protocols.outgoing().flush_if_long(until_now, &mut self.core.cx);
                if until_now.since(began) >= Budget::ADDRESSES.time {
                    return;
                }
            }
        }
    }

    fn serve_work(&mut self, work: Work) {
        match work {
            Work::Ready(ready) => {
                if let Some(rounds) = self.rounds_of(ready.socket) {
                    rounds.is_deferred = false;
                }
                self.serve_socket(ready);
            }
            Work::Resume(socket @ (Socket::Incoming(protocol, _) | Socket::Outgoing(protocol, _))) => {
                by_tag!(protocol, P => P::RESUME(self, socket));
            }
            Work::Resume(_) => {}
        }
    }

    /// Serves the messages of other threads.
    #[inline(never)]
    pub(crate) fn serve_inboxes(&mut self) {
        // There may be messages for many connections.
        self.core.cx.io.quotas.bind();
        self.inboxes.waker.clear();
        self.inboxes.from_administration.look();
        self.inboxes.resolved.look();
        if let Some(secured) = &self.inboxes.secured {
            secured.look();
        }
        self.core.links.lanes.look();
        of_each!(P => P::LOOK(&self.core));
        let mut more = self.serve_links()
            | self.serve_resolver()
            | self.serve_handshakes()
            | self.serve_administration()
            | self.serve_store()
            | self.serve_overflow();
        of_each!(P => more |= P::SERVE_RINGS(self));
        if more {
            // Come back to it after the sockets.
            self.inboxes.waker.notify();
        }
    }

    /// Ends a retired lane when it is empty: without connections, and without answers to send or to wait for.
    fn end_retired(&mut self) {
        if !self.core.links.retiring {
            return;
        }
        let are_done = !any_of!(P => !P::IS_DONE(self));
        let Core { cx: Context { lane, reporting, .. }, links, intake, .. } = &mut self.core;
        let is_quiet = links.lanes.are_quiet() && links.taken_for_peers.is_empty() && lane.queued_events() == 0;
        let is_waiting = intake.awaiting_filter.has_to_go_on() || intake.journal.is_waiting();
        let is_done = is_quiet && are_done && !is_waiting;
        if is_done && !reporting.reports.is_waiting() {
            links.lanes.end();
            self.stopping = reporting.administration.send(ToAdministration::Ended).is_ok();
        }
    }

    /// Serves messages of administration. True if there are more.
    fn serve_administration(&mut self) -> bool {
        for _ in 0..Budget::MESSAGES.events {
            let Some(message) = self.inboxes.from_administration.take() else { return false };
            // Routing for a reply was published before the reply was posted: refresh before passing it on.
            self.core.refresh();
            match message {
                ToLane::Protocol(message) => self.handle_admin_message(message),
                ToLane::Call { call, what } => {
                    self.core.protocols.outgoing().begin_call(call, what, &mut self.core.cx);
                    self.core.cx.clock.plan_sweep();
                }
                ToLane::Visitor(visitor) => self.let_in_visitor(*visitor),
                ToLane::Survey(level) => self.core.cx.reporting.begin_survey(level, &self.core.cx.lane),
                ToLane::Part(lane) => self.core.links.lanes.part(lane),
                ToLane::Retire => {
                    self.core.links.retiring = true;
                    self.clients.callers().send_all_away(&mut self.core);
                }
                ToLane::Drain => self.drain(),
                ToLane::Stop => self.stopping = true,
            }
        }
        self.inboxes.from_administration.waiting() > 0
    }

    /// Serves results of the resolver. True if there are more.
    fn serve_resolver(&mut self) -> bool {
        for _ in 0..Budget::MESSAGES.events {
            let Some(Resolved { connection, addresses }) = self.inboxes.resolved.take() else { return false };
            let (protocol, token) = connection;
            by_tag!(protocol, P => P::RESOLVED(&mut self.core, token, addresses));
        }
        self.inboxes.resolved.waiting() > 0
    }

    /// Serves results of the thread that makes TLS handshakes. True if there are more.
    fn serve_handshakes(&mut self) -> bool {
        for _ in 0..Budget::CONNECTIONS.events {
            let Some(secured) = self.inboxes.secured.as_mut().and_then(Inbox::take) else { return false };
            self.handle_secured(secured);
        }
        self.inboxes.secured.as_ref().is_some_and(|secured| secured.waiting() > 0)
    }

    fn serve_timers(&mut self) {
        let now = self.core.cx.clock.now;
        if self.core.cx.lane.next_timeout().is_some_and(|due| due <= now) {
            let released = self.core.cx.lane.types_released();
            self.core.cx.lane.handle_timeout(now);
            if self.core.cx.lane.types_released() != released {
                of_each!(P => P::FORGET_TYPES(&mut self.core));
                self.core.access.forget_types();
            }
        }
        self.core.protocols.fire_timers(&mut self.core.cx);
        of_each!(P => P::SERVE_DUE(&mut self.core));
        if self.core.cx.clock.begin_sweep() {
            self.sweep();
            self.core.sweep_acknowledgements();
        }
    }
}

/// Number of events of usual sizes for which a lane allocates memory at its start.
const READY_EVENTS: usize = 64;
const READY_BYTES: [usize; 4] = [128, 256, 512, 1024];

/// Makes the engine's part of a lane. A pool's lanes have their disciplines from the routing.
fn ready_lane(id: LaneId, common: &Common, may_overflow: bool) -> Lane {
    let mut lane = Lane::with_id(id, Time(0));
    if may_overflow {
        lane.allow_overflow();
        lane.set_overflow_pool(Arc::clone(&common.backlogs));
    }
    lane.set_memory_pool(Arc::clone(&common.memory));
    if id == LaneId::MAIN {
        lane.set_discipline(common.main_discipline);
    }
    if common.keeps_expired {
        lane.keep_expired();
    }
    warm_up(&mut lane);
    lane
}

fn warm_up(lane: &mut Lane) {
    let pending_events =
        READY_BYTES.into_iter().flat_map(|bytes| core::iter::repeat_n(bytes, READY_EVENTS)).map(|bytes| {
            let mut pending_event = lane.begin_event_for(bytes);
            // Written to, since it is only then that the system provides it.
            pending_event.bytes.resize(bytes, 0);
            pending_event
        });
    for pending_event in pending_events.collect::<Vec<_>>() {
        lane.abandon_event(pending_event);
    }
}

impl Core {
    /// Reads the clock.
    pub(crate) fn read_clock(&mut self) -> Time {
        self.cx.clock.read();
        of_each!(P => P::NOTE_TIME(self));
        self.cx.clock.now
    }

    /// Takes over a new routing snapshot, if one was published: one atomic load when there is none (R6).
    pub(crate) fn refresh(&mut self) {
        let published = self.published.load();
        if !Arc::ptr_eq(&published.routing, self.cx.lane.snapshot()) {
            let routing = Arc::clone(&published.routing);
            // The lanes that it names were introduced before it was published.
            self.links.meet_introduced();
            self.protocols.handle_published(published);
            self.access.handle_access(published.access.as_ref());
            let before = Arc::clone(self.cx.lane.snapshot());
            self.cx.lane.handle_snapshot(routing, self.cx.clock.now);
            of_each!(P => P::HANDLE_NEW_ROUTING(self, &before));
            let Self { intake, cx: Context { lane, .. }, .. } = self;
            intake.awaiting_filter.forget_but(|source| lane.snapshot().supplier(source).is_some());
            intake.journal.forget_but(|source| lane.snapshot().supplier(source).is_some());
        }
    }

    /// Carries out everything that the engine requests of sockets and of administration.
    pub(crate) fn flush_engine(&mut self) {
        while let Some((outbox, _)) = self.cx.lane.poll_timed_out() {
            self.protocols.outgoing().abandon(outbox, &mut self.cx);
        }
        self.deliver();
        if self.protocols.send_dead_letters(&mut self.cx) {
            self.deliver();
        }
        self.process_completions();
        self.backlogs.send_errands(&mut self.cx);
        while let Some(ticket) = self.cx.lane.poll_release() {
            if let Some(pending_ack) = self.intake.take_blocked(ticket) {
                self.complete_ack(pending_ack, None);
            }
        }
        while let Some(notice) = self.cx.lane.poll_notice() {
            let why = match &notice {
                Notice::ConsumerFailing { key, .. } => self.cx.reporting.failures.remove(key),
                Notice::EventRejected { event_type, .. } | Notice::EventUndeliverable { event_type, .. } => {
                    self.cx.lane.type_names(*event_type).map(|(domain, name)| {
                        let text = |bytes| printable(&String::from_utf8_lossy(bytes));
                        format!("{}/{}", text(domain), text(name))
                    })
                }
                _ => None,
            };
            if !self.cx.reporting.reports.notice(notice, why, self.cx.clock.now) {
                self.cx.counters.add(Counter::LogLinesLeftOut, 1);
            }
        }
        self.cx.reporting.failures.clear();
        self.cx.reporting.reports.hand_over(&mut self.cx.reporting.administration, self.cx.clock.now);
    }

    /// Sends the deliveries that are due. `undelivered` is set if there may be more: a one-way consumer with a long backlog and a fast
    /// connection must not delay the others, and an event for more consumers than the budget allows reaches the rest in the next rounds.
    pub(crate) fn deliver(&mut self) {
        // First, since the other lanes can work on it while this one goes on.
        self.send_handovers();
        self.cx.lane.gather_sets(&self.protocols, self.cx.clock.now);
        let mut events = self.cx.take_events();
        for _ in 0..Budget::MESSAGES.events {
            // Looked at where it was written, and the list kept in hand: copies of what was just written in smaller pieces stall
            // the processor: a profiler found it there for a twelfth of its samples at deliveries of 64 octets.
            let delivery = self.cx.lane.poll_delivery(self.cx.clock.now, &mut events);
            let Some(next) = &delivery else {
                self.cx.recycle(events);
                self.cx.deliveries.undelivered = false;
                return;
            };
            if next.pulled || next.ask.is_some() {
                if let Some(delivery) = delivery {
                    let events = core::mem::replace(&mut events, self.cx.take_events());
                    self.deliver_specially(delivery, events);
                }
            } else if self.protocols.waits_for_filters(next.outbox) {
                self.cx.leave_waiting(next, &mut events);
            } else {
                self.send(next, &mut events);
            }
            self.protocols.outgoing().flush_if_much(&mut self.cx);
        }
        self.cx.recycle(events);
        self.cx.deliveries.undelivered = true;
    }

    /// Hands over a delivery that was pulled, or asks remote filters about any other.
    #[inline(never)]
    fn deliver_specially(&mut self, delivery: Delivery, mut events: Vec<Arc<Event>>) {
        if delivery.pulled {
            by_tag!(Tag::of_output_form(delivery.output_form), P => P::HAND_OVER(self, delivery, events));
        } else if self.protocols.waits_for_filters(delivery.outbox) {
            self.cx.leave_waiting(&delivery, &mut events);
            self.cx.recycle(events);
        } else {
            self.call_filters_for_delivery(delivery, events, None);
        }
    }

    /// Whether any acknowledgement or reply can be sent.
    fn has_to_answer(&self) -> bool {
        self.intake.has_released() || any_of!(P => P::HAS_TO_ANSWER(self))
    }

    pub(crate) fn account(&mut self, began: Time) {
        self.cx.update_counters();
        self.cx.counters.add(Counter::Cycles, 1);
        let ended = self.cx.clock.time();
        self.cx.counters.raise(Counter::CycleMax, ended.0.saturating_sub(began.0));
        if let Some(finding) = self.saturation.check(ended) {
            self.note_saturation(finding);
        }
    }

    /// Reports a finding to administration, which logs it, at most once a second: a text would have to be allocated, here between two
    /// events.
    fn note_saturation(&mut self, finding: Finding) {
        if finding == Finding::Saturated {
            self.cx.counters.add(Counter::LaneSaturated, 1);
        }
        self.cx.reporting.reports.send(ToAdministration::Saturation(Arc::clone(&self.cx.identity.name), finding));
    }

    /// Whether anything is under way that is in no outbox, except unwritten output.
    pub(crate) fn has_under_way(&self) -> bool {
        let Self { cx: Context { lane, .. }, links, intake, .. } = self;
        let is_passing = !links.taken_for_peers.is_empty() || links.lanes.are_awaited();
        let is_waiting = lane.queued_events() > 0 || intake.awaiting_filter.has_to_go_on() || intake.has_released();
        let is_waiting = is_waiting || intake.journal.is_waiting();
        is_waiting || is_passing || any_of!(P => P::HAS_UNDER_WAY(self))
    }
}

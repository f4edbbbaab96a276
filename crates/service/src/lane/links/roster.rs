//! Which lanes there are: administration starts them, introduces them to each other, writes to them and ends them.
//!
//! A lane is started before routing names it: its thread is there, every other lane and the resolver have been introduced to
//! it, and it to them. A lane ends after routing has forgotten it: it is retired and all others part from it; what was
//! posted to it before is still served, its connections go to the main lane, and then its thread ends.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use engine::{LaneId, LaneInfo};
use rustix::process::Pid;

use crate::config::{self, Scheduling};
use crate::counters::{Block, Counter, Counters, Seat, lane_name};
use crate::doors::Listeners;
use crate::handshakes;
use crate::lane::io::net::Bell;
use crate::lane::links::lanes::{Link, capacity};
use crate::lane::links::mail::{LaneThread, OFFICE_QUEUE, ToAdministration, ToLane};
use crate::lane::links::post::{Inbox, Post, post_to};
use crate::lane::run::{Common, LaneEnds, Worker, WorkerOptions};
use crate::lane::scheduling;
use crate::overflow;
use crate::resolver::{self, Asking};
use crate::store::Reception;
use crate::store::journal;

/// How long administration waits before it looks again for room in a lane's queue.
const ROOM: Duration = Duration::from_millis(1);

/// What a roster is made with.
pub(crate) struct RosterOptions {
    pub(crate) common: Common,
    pub(crate) lanes: config::Lanes,
    /// Letters of one lane that may wait for administration.
    pub(crate) administration_queue: usize,
    pub(crate) registry: Counters,
    /// Administration's own.
    pub(crate) bell: Arc<Bell>,
    pub(crate) resolver_bell: Arc<Bell>,
    pub(crate) resolver: Post<Asking>,
    /// How lanes are introduced to the store, if there is one.
    pub(crate) store: Option<Reception>,
    /// The same for the thread that makes TLS handshakes.
    pub(crate) handshakes: Option<handshakes::Reception>,
    /// The same for what keeps backlogs.
    pub(crate) overflow: Option<overflow::Reception>,
}

/// The lanes, as administration knows them.
pub(crate) struct Roster {
    options: RosterOptions,
    starter: Starter,
    desks: Vec<Desk>,
    /// Lanes that were started so far.
    begun: u32,
    /// The desk from which the next letter is taken.
    turn: usize,
    counters: Arc<Block>,
    /// What the main lane waits for before it serves clients.
    gate: Option<Gate>,
    /// Real-time priorities were refused, and that has been said.
    ordinary: bool,
}

/// A lane that waits for this to be dropped has not begun.
type Gate = SyncSender<()>;

/// One lane.
struct Desk {
    lane: LaneId,
    thread: LaneThread,
    priority: Option<i16>,
    /// Letters of each other lane that may wait for it.
    queue_events_max: u32,
    bell: Arc<Bell>,
    to: Post<ToLane>,
    from: Inbox<ToAdministration>,
    introductions: Post<Link>,
    handle: JoinHandle<()>,
    number: Pid,
    /// The real-time priority it has.
    native: Option<i32>,
    seat: Option<Seat>,
    ending: bool,
}

/// The main lane's queue is as long as a pool's by default.
const MAIN_QUEUE: u32 = 4096;

impl Roster {
    /// A roster with the main lane, which begins when it [is to](Self::open).
    ///
    /// # Errors
    /// When the system refuses a thread, a poll or a bell.
    pub(crate) fn new(options: RosterOptions, listeners: Listeners) -> io::Result<Self> {
        let counters = options.registry.of_administration();
        let starter = Starter::new(options.lanes.cpus.clone())?;
        let priority = options.lanes.main_priority.and_then(|priority| i16::try_from(priority).ok());
        let main = options.registry.of_main(priority);
        let (gate, gate_of_main) = sync_channel(1);
        let (desks, gate) = (Vec::new(), Some(gate));
        let mut roster = Self { options, starter, desks, begun: 0, turn: 0, counters, gate, ordinary: false };
        let entrance = Some((listeners, gate_of_main));
        roster.begin(LaneId::MAIN, priority, MAIN_QUEUE, entrance, main, None)?;
        roster.schedule();
        Ok(roster)
    }

    /// Has the main lane begin: every lane has been started that routing names.
    pub(crate) fn open(&mut self) {
        self.gate = None;
    }

    /// What clients have, for a simulation to look at.
    #[cfg(test)]
    pub(crate) fn of_simulation(&self) -> Arc<accounts::Accounts> {
        Arc::clone(&self.options.common.accounts)
    }

    /// What of the scheduling is not as it was asked for, or leaves the system unreachable beside a lane that never waits.
    pub(crate) fn remarks(&self) -> Vec<String> {
        if self.options.lanes.scheduling == Scheduling::Ordinary {
            return Vec::new();
        }
        if let Err(error) = self.starter.try_real_time() {
            return vec![format!(
                "lanes.scheduling = \"fifo\": lanes run as ordinary threads, since the process may not use SCHED_FIFO ({error})"
            )];
        }
        let why = scheduling::unreachable_beside_real_time();
        let text =
            |why| format!("{why}: a lane at SCHED_FIFO that has work without end takes its processor for itself");
        why.map(text).into_iter().collect()
    }

    /// Starts a lane of a pool.
    ///
    /// # Errors
    /// When the system refuses its thread, its poll or its bell.
    pub(crate) fn start(&mut self, info: &LaneInfo) -> io::Result<()> {
        let seat = self.options.registry.seat(info.id.0, info.priority);
        let Some((seat, block)) = seat else { return Err(io::Error::other("too many lanes have yet to end")) };
        let begun = self.begin(info.id, Some(info.priority), info.queue_events_max, None, block, Some(seat));
        match &begun {
            Ok(()) => {
                self.counters.add(Counter::LanesStarted, 1);
                self.schedule();
            }
            Err(_) => self.options.registry.leave(seat),
        }
        begun
    }

    fn begin(
        &mut self,
        lane: LaneId,
        priority: Option<i16>,
        queue_events_max: u32,
        entrance: Option<(Listeners, Receiver<()>)>,
        counters: Arc<Block>,
        seat: Option<Seat>,
    ) -> io::Result<()> {
        let thread = LaneThread(self.begun);
        let bell = Arc::new(Bell::new()?);
        let (to, office) = post_to(&bell, OFFICE_QUEUE);
        let (administration, from) = post_to(&self.options.bell, self.options.administration_queue);
        let (resolver, lookups) = post_to(&self.options.resolver_bell, resolver::QUEUE);
        let (answers, resolved) = post_to(&bell, resolver::QUEUE);
        let (introductions, introduced) = post_to(&bell, usize::from(u8::MAX));
        let RosterOptions { store, overflow, .. } = &mut self.options;
        let (store, seat_at_store) = store.as_mut().map(|to| journal::link(thread, &bell, to)).unzip();
        let (overflow, seat_at_overflow) = overflow.as_mut().map(|to| overflow::link(thread, &bell, to)).unzip();
        let handshakes = self.options.handshakes.as_ref().map(|to| handshakes::link(&bell, to));
        let (handshakes, seat_at_handshakes) = handshakes.unzip();
        let (links, introduced_to) = self.links_to((lane, thread, priority), &bell, queue_events_max);
        let ends = LaneEnds {
            bell: Arc::clone(&bell),
            administration,
            office,
            resolver,
            resolved,
            handshakes,
            introductions: introduced,
            links,
            store,
            overflow,
        };
        let name = lane_name(lane.0, priority);
        let common = self.options.common.clone();
        let (listeners, gate) = entrance.unzip();
        let named = name.as_str().into();
        let timing = self.options.lanes.timing(lane == LaneId::MAIN, priority);
        let options =
            WorkerOptions { id: lane, thread, name: named, priority, listeners, timing, ends, counters, common };
        let (handle, number) = self.starter.start(name, options, gate)?;
        self.begun += 1;
        let waiting = &self.options.bell;
        self.options.resolver.post_in_time(Asking { lookups, answers }, || wait_for_room(waiting));
        if let (Some(reception), Some(seat)) = (&mut self.options.handshakes, seat_at_handshakes) {
            reception.introductions.post_in_time(seat, || wait_for_room(waiting));
        }
        if let (Some(reception), Some(seat)) = (&mut self.options.store, seat_at_store) {
            reception.introductions.post_in_time(seat, || wait_for_room(waiting));
        }
        if let (Some(reception), Some(seat)) = (&mut self.options.overflow, seat_at_overflow) {
            reception.introductions.post_in_time(seat, || wait_for_room(waiting));
        }
        let others = self.desks.iter_mut().filter(|other| !other.ending);
        for (other, link) in others.zip(introduced_to) {
            other.introductions.post_in_time(link, || wait_for_room(waiting));
        }
        let native = None;
        let ending = false;
        self.desks.push(Desk {
            lane,
            thread,
            priority,
            queue_events_max,
            bell,
            to,
            from,
            introductions,
            handle,
            number,
            native,
            seat,
            ending,
        });
        Ok(())
    }

    /// Makes a new lane's links to all others, and theirs to it.
    fn links_to(
        &self,
        (lane, thread, priority): (LaneId, LaneThread, Option<i16>),
        bell: &Arc<Bell>,
        queue_events_max: u32,
    ) -> (Vec<Link>, Vec<Link>) {
        let pairs = self.desks.iter().filter(|other| !other.ending).map(|other| {
            let capacity = capacity(queue_events_max, other.queue_events_max);
            let (to_other, from_new) = post_to(&other.bell, capacity.total);
            let (to_new, from_other) = post_to(bell, capacity.total);
            let there = Link::new((other.lane, other.thread, other.priority), to_other, from_other, capacity.to_second);
            (there, Link::new((lane, thread, priority), to_new, from_new, capacity.to_first))
        });
        pairs.unzip()
    }

    /// Gives every lane the native priority that follows from those of all.
    fn schedule(&mut self) {
        if self.options.lanes.scheduling == Scheduling::Ordinary {
            return;
        }
        let mut priorities: Vec<i16> = self.desks.iter().filter_map(|desk| desk.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let natives = scheduling::natives(self.options.lanes.priority_mapping, &priorities);
        for desk in &mut self.desks {
            let native =
                natives.iter().find(|(priority, _)| Some(*priority) == desk.priority).map(|(_, native)| *native);
            if native == desk.native {
                continue;
            }
            match scheduling::set_policy(desk.number, native) {
                Ok(()) => desk.native = native,
                Err(error) => {
                    self.counters.add(Counter::LanesWithoutPriority, 1);
                    if !core::mem::replace(&mut self.ordinary, true) {
                        let name = lane_name(desk.lane.0, desk.priority);
                        log::warn!(
                            "{name} cannot be given the real-time priority {}: {error}; lanes run as ordinary threads",
                            native.unwrap_or(0)
                        );
                    }
                }
            }
        }
    }

    /// Has a lane end, which routing does not name any more.
    pub(crate) fn retire(&mut self, lane: LaneId) {
        let Some(desk) = self.desks.iter_mut().find(|desk| desk.lane == lane && !desk.ending) else { return };
        desk.ending = true;
        let thread = desk.thread;
        let others: Vec<LaneThread> = self.threads().filter(|other| *other != thread).collect();
        for other in others {
            self.post(other, ToLane::Part(thread));
        }
        self.post(thread, ToLane::Retire);
    }

    /// A lane has ended. Says which.
    pub(crate) fn ended(&mut self, thread: LaneThread) -> Option<LaneId> {
        let at = self.desks.iter().position(|desk| desk.thread == thread)?;
        let desk = self.desks.remove(at);
        // A thread that panicked has said so on standard error already.
        let _ = desk.handle.join();
        if let Some(seat) = desk.seat {
            self.options.registry.leave(seat);
        }
        self.counters.add(Counter::LanesEnded, 1);
        self.schedule();
        Some(desk.lane)
    }

    /// Posts to a lane, and waits for room if there is none. False when the lane has ended.
    pub(crate) fn post(&mut self, to: LaneThread, letter: ToLane) -> bool {
        let bell = &self.options.bell;
        let desk = self.desks.iter_mut().find(|desk| desk.thread == to);
        desk.is_some_and(|desk| desk.to.post_in_time(letter, || wait_for_room(bell)))
    }

    /// Tells lanes that there is new routing.
    pub(crate) fn ring(&self, is_concerned: impl Fn(LaneId) -> bool) {
        self.desks.iter().filter(|desk| is_concerned(desk.lane)).for_each(|desk| desk.bell.ring());
    }

    /// The lanes there are, those that are ending included.
    pub(crate) fn threads(&self) -> impl Iterator<Item = LaneThread> {
        self.desks.iter().map(|desk| desk.thread)
    }

    /// Notes that administration looks: what lanes post from now on rings again.
    pub(crate) fn look(&self) {
        self.desks.iter().for_each(|desk| desk.from.look());
    }

    /// The next letter from a lane; each lane has its turn.
    pub(crate) fn take(&mut self) -> Option<(LaneThread, ToAdministration)> {
        let count = self.desks.len();
        for ahead in 0..count {
            let at = (self.turn + ahead) % count;
            if let Some(desk) = self.desks.get_mut(at)
                && let Some(letter) = desk.from.take()
            {
                self.turn = at + 1;
                return Some((desk.thread, letter));
            }
        }
        None
    }

    /// Letters that wait, of all lanes.
    pub(crate) fn waiting(&self) -> usize {
        self.desks.iter().map(|desk| desk.from.waiting()).sum()
    }

    /// Ends all lanes, and waits for that.
    pub(crate) fn stop(&mut self) {
        self.open();
        for thread in self.threads().collect::<Vec<_>>() {
            self.post(thread, ToLane::Stop);
        }
        for desk in self.desks.drain(..) {
            // A thread that panicked has said so on standard error already.
            let _ = desk.handle.join();
        }
        // No lane is introduced any more.
        self.options.store = None;
        self.options.handshakes = None;
        if let Some(overflow) = self.options.overflow.take() {
            overflow.end();
        }
    }
}

impl Drop for Roster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread that starts lanes: what administration starts would run at its own nice value, and only the privileged may
/// go back from that.
struct Starter {
    orders: SyncSender<Order>,
}

enum Order {
    /// A lane's thread is to be started, with a name.
    Start {
        name: String,
        options: Box<WorkerOptions>,
        gate: Option<Receiver<()>>,
        started: SyncSender<io::Result<(JoinHandle<()>, Pid)>>,
    },
    /// Whether threads may have real-time priorities is to be tried.
    Try { tried: SyncSender<io::Result<()>> },
}

impl Starter {
    /// Starts the thread. Those that it starts run on these processors.
    fn new(processors: Vec<u16>) -> io::Result<Self> {
        let (orders, orders_in) = sync_channel(1);
        Builder::new().name("starter".into()).spawn(move || {
            // The thread that gave an order waits for the result.
            while let Ok(order) = orders_in.recv() {
                match order {
                    Order::Start { name, options, gate, started } => {
                        let _ = started.send(start_lane(name, *options, gate, processors.clone()));
                    }
                    Order::Try { tried } => {
                        let _ = tried.send(scheduling::try_real_time());
                    }
                }
            }
        })?;
        Ok(Self { orders })
    }

    fn start(
        &self,
        name: String,
        options: WorkerOptions,
        gate: Option<Receiver<()>>,
    ) -> io::Result<(JoinHandle<()>, Pid)> {
        #[cfg(test)]
        let options = match crate::simulation::take_lane(options) {
            Ok(started) => return started,
            Err(options) => *options,
        };
        let (started, told) = sync_channel(1);
        let options = Box::new(options);
        self.orders.send(Order::Start { name, options, gate, started }).map_err(|_| is_gone())?;
        told.recv().map_err(|_| is_gone())?
    }

    /// Tries whether threads may have real-time priorities.
    ///
    /// # Errors
    /// Says why not.
    fn try_real_time(&self) -> io::Result<()> {
        let (tried, told) = sync_channel(1);
        self.orders.send(Order::Try { tried }).map_err(|_| is_gone())?;
        told.recv().map_err(|_| is_gone())?
    }
}

/// Administration waits a little for a lane to read.
fn wait_for_room(bell: &Bell) {
    #[cfg(test)]
    crate::simulation::let_a_lane_go_on();
    bell.wait(Some(ROOM));
}

fn is_gone() -> io::Error {
    io::Error::other("the thread that starts lanes is gone")
}

/// Starts a lane's thread, which makes its own poll, and waits for it to be ready.
fn start_lane(
    name: String,
    options: WorkerOptions,
    gate: Option<Receiver<()>>,
    processors: Vec<u16>,
) -> io::Result<(JoinHandle<()>, Pid)> {
    let (ready, told) = sync_channel(1);
    let thread = Builder::new().name(name).spawn(move || {
        let bound = scheduling::bind_to(&processors);
        scheduling::touch_stack();
        let worker = match bound.and_then(|()| Worker::new(options)) {
            Ok(worker) => worker,
            Err(error) => return drop(ready.send(Err(error))),
        };
        // The thread that ordered the start waits for this.
        let _ = ready.send(Ok(rustix::thread::gettid()));
        // Nothing is ever sent: it is let go of.
        gate.map(|gate| gate.recv());
        worker.run();
    })?;
    let number = told.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
    Ok((thread, number))
}

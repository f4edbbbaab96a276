//! Registry of lanes: administration starts them, introduces them to each other, posts to them and ends them.
//!
//! A lane is started before routing names it: its thread runs, and it has been introduced to every other lane and the resolver, and they to
//! it. A lane ends after routing has forgotten it: it is retired, and all others part from it. Earlier messages are still served, its
//! connections go to the main lane, and then its thread ends.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use engine::{LaneId, LaneInfo};
use rustix::process::Pid;

use crate::config::{self, Scheduling};
use crate::counters::{Block, Counter, Counters, Slot, lane_name};
use crate::handshakes;
use crate::lane::io::net::Waker;
use crate::lane::links::lanes::{Link, capacity};
use crate::lane::links::mailbox::{Inbox, Mailbox, mailbox};
use crate::lane::links::messages::{LANE_QUEUE, LaneThread, ToAdministration, ToLane};
use crate::lane::run::{Common, LaneEnds, Worker, WorkerOptions};
use crate::lane::scheduling;
use crate::overflow;
use crate::protocols::Listeners;
use crate::resolver::{self, Asking};
use crate::store::Reception;
use crate::store::journal;

/// Interval in which administration looks again for room in a lane's queue.
const ROOM: Duration = Duration::from_millis(1);

/// Parameters of a registry of lanes.
pub(crate) struct LaneRegistryOptions {
    pub(crate) common: Common,
    pub(crate) lanes: config::Lanes,
    /// Maximum messages of one lane that wait for administration.
    pub(crate) administration_queue: usize,
    pub(crate) registry: Counters,
    /// Administration's waker.
    pub(crate) waker: Arc<Waker>,
    pub(crate) resolver_waker: Arc<Waker>,
    pub(crate) resolver: Mailbox<Asking>,
    /// Introduction of new lanes to the store, if there is one.
    pub(crate) store: Option<Reception>,
    /// Introduction of new lanes to the thread that makes TLS handshakes, if there is one.
    pub(crate) handshakes: Option<handshakes::Reception>,
    /// Introduction of new lanes to the thread that keeps backlogs, if there is one.
    pub(crate) overflow: Option<overflow::Reception>,
}

/// The lanes, as administration knows them.
pub(crate) struct LaneRegistry {
    options: LaneRegistryOptions,
    starter: Starter,
    entries: Vec<Entry>,
    /// Number of lanes started so far.
    begun: u32,
    /// Place of the lane from which the next message is taken.
    next_entry: usize,
    counters: Arc<Block>,
    /// Gate at which the main lane waits before it serves clients.
    gate: Option<Gate>,
    /// Whether it was logged that real-time priorities are refused.
    ordinary: bool,
}

/// Gate that a lane waits for: its thread begins when this is dropped.
type Gate = SyncSender<()>;

struct Entry {
    lane: LaneId,
    thread: LaneThread,
    priority: Option<i16>,
    /// Maximum messages of each other lane that wait for this one.
    queue_events_max: u32,
    waker: Arc<Waker>,
    to: Mailbox<ToLane>,
    from: Inbox<ToAdministration>,
    introductions: Mailbox<Link>,
    handle: JoinHandle<()>,
    number: Pid,
    /// Real-time priority of its thread.
    native: Option<i32>,
    slot: Option<Slot>,
    ending: bool,
}

/// Length of the main lane's queue, the same as a pool's default.
const MAIN_QUEUE: u32 = 4096;

impl LaneRegistry {
    /// Makes a registry with the main lane, which waits until [opened](Self::open).
    ///
    /// # Errors
    /// The system refuses a thread, a poll or a waker.
    pub(crate) fn new(options: LaneRegistryOptions, listeners: Listeners) -> io::Result<Self> {
        let counters = options.registry.of_administration();
        let starter = Starter::new(options.lanes.cpus.clone())?;
        let priority = options.lanes.main_priority.and_then(|priority| i16::try_from(priority).ok());
        let main = options.registry.of_main(priority);
        let (gate, gate_of_main) = sync_channel(1);
        let (entries, gate) = (Vec::new(), Some(gate));
        let mut lane_registry =
            Self { options, starter, entries, begun: 0, next_entry: 0, counters, gate, ordinary: false };
        let entrance = Some((listeners, gate_of_main));
        lane_registry.begin(LaneId::MAIN, priority, MAIN_QUEUE, entrance, main, None)?;
        lane_registry.options.common.protocols.link.leave_to_main_lane();
        lane_registry.schedule();
        Ok(lane_registry)
    }

    /// Lets the main lane begin, after all lanes that routing names have been started.
    pub(crate) fn open(&mut self) {
        self.gate = None;
        // It takes over the routing then, whose timers begin.
        self.notify(|lane| lane == LaneId::MAIN);
    }

    /// Accounts of clients, for a simulation to examine.
    #[cfg(test)]
    pub(crate) fn of_simulation(&self) -> Arc<accounts::Accounts> {
        Arc::clone(&self.options.common.accounts)
    }

    /// Warnings where scheduling differs from the configuration, or where a lane that never waits makes the system unreachable.
    pub(crate) fn warnings(&self) -> Vec<String> {
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
    /// The system refuses its thread, its poll or its waker.
    pub(crate) fn start(&mut self, info: &LaneInfo) -> io::Result<()> {
        let slot = self.options.registry.slot(info.id.0, info.priority);
        let Some((slot, block)) = slot else { return Err(io::Error::other("too many lanes have yet to end")) };
        let begun = self.begin(info.id, Some(info.priority), info.queue_events_max, None, block, Some(slot));
        match &begun {
            Ok(()) => {
                self.counters.add(Counter::LanesStarted, 1);
                self.schedule();
            }
            Err(_) => self.options.registry.leave(slot),
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
        slot: Option<Slot>,
    ) -> io::Result<()> {
        let thread = LaneThread(self.begun);
        let waker = Arc::new(Waker::new()?);
        let (to, from_administration) = mailbox(&waker, LANE_QUEUE);
        let (administration, from) = mailbox(&self.options.waker, self.options.administration_queue);
        let (resolver, lookups) = mailbox(&self.options.resolver_waker, resolver::QUEUE);
        let (answers, resolved) = mailbox(&waker, resolver::QUEUE);
        let (introductions, introduced) = mailbox(&waker, usize::from(u8::MAX));
        let LaneRegistryOptions { store, overflow, .. } = &mut self.options;
        let (store, store_slot) = store.as_mut().map(|to| journal::link(thread, &waker, to)).unzip();
        let (overflow, overflow_slot) = overflow.as_mut().map(|to| overflow::link(thread, &waker, to)).unzip();
        let handshakes = self.options.handshakes.as_ref().map(|to| handshakes::link(&waker, to));
        let (handshakes, handshakes_slot) = handshakes.unzip();
        let (links, introduced_to) = self.links_to((lane, thread, priority), &waker, queue_events_max);
        let ends = LaneEnds {
            waker: Arc::clone(&waker),
            administration,
            from_administration,
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
        let waiting = &self.options.waker;
        self.options.resolver.send_blocking(Asking { lookups, answers }, || wait_for_room(waiting));
        if let (Some(reception), Some(slot)) = (&mut self.options.handshakes, handshakes_slot) {
            reception.introductions.send_blocking(slot, || wait_for_room(waiting));
        }
        if let (Some(reception), Some(slot)) = (&mut self.options.store, store_slot) {
            reception.introductions.send_blocking(slot, || wait_for_room(waiting));
        }
        if let (Some(reception), Some(slot)) = (&mut self.options.overflow, overflow_slot) {
            reception.introductions.send_blocking(slot, || wait_for_room(waiting));
        }
        let others = self.entries.iter_mut().filter(|other| !other.ending);
        for (other, link) in others.zip(introduced_to) {
            other.introductions.send_blocking(link, || wait_for_room(waiting));
        }
        let native = None;
        let ending = false;
        self.entries.push(Entry {
            lane,
            thread,
            priority,
            queue_events_max,
            waker,
            to,
            from,
            introductions,
            handle,
            number,
            native,
            slot,
            ending,
        });
        Ok(())
    }

    /// Makes the links of a new lane to all others, and theirs to it.
    fn links_to(
        &self,
        (lane, thread, priority): (LaneId, LaneThread, Option<i16>),
        waker: &Arc<Waker>,
        queue_events_max: u32,
    ) -> (Vec<Link>, Vec<Link>) {
        let pairs = self.entries.iter().filter(|other| !other.ending).map(|other| {
            let capacity = capacity(queue_events_max, other.queue_events_max);
            let (to_other, from_new) = mailbox(&other.waker, capacity.total);
            let (to_new, from_other) = mailbox(waker, capacity.total);
            let there = Link::new((other.lane, other.thread, other.priority), to_other, from_other, capacity.to_second);
            (there, Link::new((lane, thread, priority), to_new, from_new, capacity.to_first))
        });
        pairs.unzip()
    }

    /// Sets the native priority of every lane, which follows from the priorities of all.
    fn schedule(&mut self) {
        if self.options.lanes.scheduling == Scheduling::Ordinary {
            return;
        }
        let mut priorities: Vec<i16> = self.entries.iter().filter_map(|entry| entry.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let natives = scheduling::natives(self.options.lanes.priority_mapping, &priorities);
        for entry in &mut self.entries {
            let native =
                natives.iter().find(|(priority, _)| Some(*priority) == entry.priority).map(|(_, native)| *native);
            if native == entry.native {
                continue;
            }
            match scheduling::set_policy(entry.number, native) {
                Ok(()) => entry.native = native,
                Err(error) => {
                    self.counters.add(Counter::LanesWithoutPriority, 1);
                    if !core::mem::replace(&mut self.ordinary, true) {
                        let name = lane_name(entry.lane.0, entry.priority);
                        log::warn!(
                            "{name} cannot be given the real-time priority {}: {error}; lanes run as ordinary threads",
                            native.unwrap_or(0)
                        );
                    }
                }
            }
        }
    }

    /// Retires a lane that routing does not name any more: all others part from it.
    pub(crate) fn retire(&mut self, lane: LaneId) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.lane == lane && !entry.ending) else { return };
        entry.ending = true;
        let thread = entry.thread;
        let others: Vec<LaneThread> = self.threads().filter(|other| *other != thread).collect();
        for other in others {
            self.send(other, ToLane::Part(thread));
        }
        self.send(thread, ToLane::Retire);
    }

    /// Removes a lane that has ended. Returns its id.
    pub(crate) fn ended(&mut self, thread: LaneThread) -> Option<LaneId> {
        let at = self.entries.iter().position(|entry| entry.thread == thread)?;
        let entry = self.entries.remove(at);
        // A thread that panicked has said so on standard error already.
        let _ = entry.handle.join();
        if let Some(slot) = entry.slot {
            self.options.registry.leave(slot);
        }
        self.counters.add(Counter::LanesEnded, 1);
        self.schedule();
        Some(entry.lane)
    }

    /// Posts a message to a lane, waiting for room. False when the lane has ended.
    pub(crate) fn send(&mut self, to: LaneThread, message: ToLane) -> bool {
        let waker = &self.options.waker;
        let entry = self.entries.iter_mut().find(|entry| entry.thread == to);
        entry.is_some_and(|entry| entry.to.send_blocking(message, || wait_for_room(waker)))
    }

    /// Wakes the concerned lanes for new routing.
    pub(crate) fn notify(&self, is_concerned: impl Fn(LaneId) -> bool) {
        self.entries.iter().filter(|entry| is_concerned(entry.lane)).for_each(|entry| entry.waker.notify());
    }

    /// All lanes, those that are ending included.
    pub(crate) fn threads(&self) -> impl Iterator<Item = LaneThread> {
        self.entries.iter().map(|entry| entry.thread)
    }

    /// Notes that administration looks: messages posted from now on wake it again.
    pub(crate) fn look(&self) {
        self.entries.iter().for_each(|entry| entry.from.look());
    }

    /// The next message from a lane; the lanes take turns.
    pub(crate) fn take(&mut self) -> Option<(LaneThread, ToAdministration)> {
        let count = self.entries.len();
        for ahead in 0..count {
            let at = (self.next_entry + ahead) % count;
            if let Some(entry) = self.entries.get_mut(at)
                && let Some(message) = entry.from.take()
            {
                self.next_entry = at + 1;
                return Some((entry.thread, message));
            }
        }
        None
    }

    /// Number of messages that wait, of all lanes.
    pub(crate) fn waiting(&self) -> usize {
        self.entries.iter().map(|entry| entry.from.waiting()).sum()
    }

    /// Ends all lanes, and waits for their threads.
    pub(crate) fn stop(&mut self) {
        self.open();
        for thread in self.threads().collect::<Vec<_>>() {
            self.send(thread, ToLane::Stop);
        }
        for entry in self.entries.drain(..) {
            // A thread that panicked has said so on standard error already.
            let _ = entry.handle.join();
        }
        // No lane is introduced any more.
        self.options.store = None;
        self.options.handshakes = None;
        if let Some(overflow) = self.options.overflow.take() {
            overflow.end();
        }
    }
}

impl Drop for LaneRegistry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Thread that starts lanes. Administration does not start them itself: they would inherit its nice value, which only the privileged may
/// lower.
struct Starter {
    orders: SyncSender<Order>,
}

enum Order {
    /// Start a lane's thread of this name.
    Start {
        name: String,
        options: Box<WorkerOptions>,
        gate: Option<Receiver<()>>,
        started: SyncSender<io::Result<(JoinHandle<()>, Pid)>>,
    },
    /// Try whether threads may have real-time priorities.
    Try { tried: SyncSender<io::Result<()>> },
}

impl Starter {
    /// Starts the thread, bound to `processors`, as are those that it starts.
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
        let (started, result) = sync_channel(1);
        let options = Box::new(options);
        self.orders.send(Order::Start { name, options, gate, started }).map_err(|_| is_gone())?;
        result.recv().map_err(|_| is_gone())?
    }

    /// Tries whether threads may have real-time priorities.
    ///
    /// # Errors
    /// The reason why not.
    fn try_real_time(&self) -> io::Result<()> {
        let (tried, result) = sync_channel(1);
        self.orders.send(Order::Try { tried }).map_err(|_| is_gone())?;
        result.recv().map_err(|_| is_gone())?
    }
}

/// Waits a little until a lane may have read a message.
fn wait_for_room(waker: &Waker) {
    #[cfg(test)]
    crate::simulation::let_a_lane_go_on();
    waker.wait(Some(ROOM));
}

fn is_gone() -> io::Error {
    io::Error::other("the thread that starts lanes is gone")
}

/// Starts a lane's thread, and waits until its poll is ready.
fn start_lane(
    name: String,
    options: WorkerOptions,
    gate: Option<Receiver<()>>,
    processors: Vec<u16>,
) -> io::Result<(JoinHandle<()>, Pid)> {
    let (ready, result) = sync_channel(1);
    let thread = Builder::new().name(name).spawn(move || {
        let bound = scheduling::bind_to(&processors);
        scheduling::touch_stack();
        let worker = match bound.and_then(|()| Worker::new(options)) {
            Ok(worker) => worker,
            Err(error) => return drop(ready.send(Err(error))),
        };
        // The thread that ordered the start waits for this.
        let _ = ready.send(Ok(rustix::thread::gettid()));
        // Nothing is ever sent through the gate: it is dropped.
        gate.map(|gate| gate.recv());
        worker.run();
    })?;
    let number = result.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
    Ok((thread, number))
}

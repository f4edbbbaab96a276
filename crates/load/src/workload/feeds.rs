//! The suppliers: many connections, each with its own schedule, driven by one thread.
//!
//! Every supplier has a connection of its own and waits for the reply to its push before it pushes again, as a supplier program does. One
//! thread drives them all, so that fifty suppliers do not cost fifty threads that would compete with the service for the cores. It blocks
//! only on its poll: a supplier blocked by the service blocks no other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use giop::connection::Side;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::{Schedule, Shared};
use crate::peer::Peer;
use crate::wire::{Phase, PushMessage, Stamp};
use crate::{BenchError, clock};

/// Poll key of the timer; connections use their index.
const TIMER: u64 = u64::MAX;

/// Time limit for the replies to the last pushes.
const REPLIES_WITHIN: u64 = 10 * clock::SECOND;

/// Maximum time between checks whether to stop.
const LOOK_UP_EVERY: u64 = clock::SECOND / 10;

/// One supplier's connection.
#[derive(Debug)]
pub(super) struct Feed {
    peer: Peer<()>,
    message: PushMessage,
    role: Role,
    /// Number of events begun.
    sent: u64,
    /// Due time of the next event.
    due: u64,
    state: State,
    late: u64,
}

/// Role of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    /// Index of its traffic.
    traffic: usize,
    /// Number of its supplier.
    supplier: u32,
    /// Whether pushes are answered.
    two_way: bool,
    /// Whether its events count as sent: of a supplier's several connections, only those of the first do.
    counts: bool,
}

impl Role {
    /// A supplier's one connection to the service.
    pub(super) fn campanile(traffic: usize, supplier: u32) -> Self {
        Self { traffic, supplier, two_way: true, counts: true }
    }

    /// A supplier's connection to one consumer; `copy` others were made before.
    pub(super) fn socket(traffic: usize, supplier: u32, copy: usize) -> Self {
        Self { traffic, supplier, two_way: false, counts: copy == 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for the due time.
    Idle,
    /// Writes the message; so many octets are written.
    Writing(usize),
    /// Waits for the reply.
    Waiting,
}

/// Result of a supplier.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fed {
    /// Index of its traffic.
    pub(super) traffic: usize,
    /// Number of events sent.
    pub(super) sent: u64,
    /// Number of events that left late because the previous push had not returned.
    pub(super) late: u64,
}

impl Feed {
    /// A supplier that pushes on this connection.
    pub(super) fn new(
        contender: &'static str,
        stream: TcpStream,
        message: PushMessage,
        role: Role,
    ) -> Result<Self, BenchError> {
        stream.set_nonblocking(true).map_err(BenchError::io("making a supplier's connection not block"))?;
        let peer = Peer::new(contender, Side::Caller, stream)?;
        Ok(Self { peer, message, role, sent: 0, due: 0, state: State::Idle, late: 0 })
    }

    /// Stamps the next event and begins to send it.
    fn begin(&mut self, schedule: &Schedule) -> Result<(), BenchError> {
        let sent = clock::now();
        let phase = if self.due < schedule.measured_from { Phase::WarmUp } else { Phase::Measured };
        let stamp = Stamp { sent, due: self.due, number: self.sent, supplier: self.role.supplier, phase };
        self.message.stamp(self.peer.requests.next_id(), stamp);
        self.sent += 1;
        self.state = State::Writing(0);
        self.write()
    }

    /// Writes as much as the socket takes.
    fn write(&mut self) -> Result<(), BenchError> {
        while let State::Writing(written) = self.state {
            let rest = self.message.bytes().get(written..).unwrap_or_default();
            if rest.is_empty() {
                self.peer.requests.sent(self.role.two_way.then_some(()));
                self.state = if self.role.two_way { State::Waiting } else { State::Idle };
                return Ok(());
            }
            match self.peer.stream.write(rest) {
                Ok(count) => self.state = State::Writing(written + count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(BenchError::Io { doing: "writing to a contender", source }),
            }
        }
        Ok(())
    }

    /// Reads once; after its reply the supplier is idle again.
    fn read(&mut self) -> Result<(), BenchError> {
        if self.peer.read()?.is_some() {
            while self.peer.next_reply()?.is_some() {
                self.state = State::Idle;
            }
        }
        Ok(())
    }
}

/// All suppliers of a run.
pub(super) struct Generator {
    feeds: Vec<Feed>,
    poll: OwnedFd,
    timer: OwnedFd,
    /// Suppliers that wait for their due time, the earliest first.
    idle: BinaryHeap<Reverse<(u64, usize)>>,
    /// The timer's setting.
    alarm: u64,
}

impl Generator {
    /// Prepares these suppliers; the first events are due as `schedule` says.
    pub(super) fn new(mut feeds: Vec<Feed>, schedule: &Schedule) -> Result<Self, BenchError> {
        let doing = "making the suppliers' poll";
        let errno = |errno: rustix::io::Errno| BenchError::Io { doing, source: errno.into() };
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(errno)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC).map_err(errno)?;
        epoll::add(&poll, &timer, EventData::new_u64(TIMER), EventFlags::IN).map_err(errno)?;
        let mut idle = BinaryHeap::with_capacity(feeds.len());
        for (index, feed) in feeds.iter_mut().enumerate() {
            feed.due = schedule.first_due(feed.role.traffic, feed.role.supplier);
            idle.push(Reverse((feed.due, index)));
            let data = EventData::new_u64(u64::try_from(index).unwrap_or(TIMER));
            epoll::add(&poll, &feed.peer.stream, data, EventFlags::IN).map_err(errno)?;
        }
        Ok(Self { feeds, poll, timer, idle, alarm: 0 })
    }

    /// Pushes by the schedule until its end, waits for the signal to stop, so that the thread's processor time can still be read, and then
    /// for the last replies.
    pub(super) fn run(mut self, schedule: &Schedule, shared: &Shared) -> Result<Vec<Fed>, BenchError> {
        clock::wake_on_time();
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        while !shared.is_stopped() {
            self.send_what_is_due(clock::now(), schedule, shared)?;
            let next = self.idle.peek().map_or(u64::MAX, |Reverse((due, _))| *due);
            if next < schedule.until {
                self.set_alarm(next)?;
            }
            self.wait(&mut events, schedule)?;
        }
        let give_up = clock::now() + REPLIES_WITHIN;
        while self.feeds.iter().any(|feed| feed.state != State::Idle) && clock::now() < give_up {
            self.wait(&mut events, schedule)?;
        }
        Ok(self.feeds.iter().map(|feed| Fed { traffic: feed.role.traffic, sent: feed.sent, late: feed.late }).collect())
    }

    fn send_what_is_due(&mut self, now: u64, schedule: &Schedule, shared: &Shared) -> Result<(), BenchError> {
        while let Some(&Reverse((due, index))) = self.idle.peek() {
            if due > now || due >= schedule.until {
                return Ok(());
            }
            self.idle.pop();
            let Some(feed) = self.feeds.get_mut(index) else { continue };
            feed.begin(schedule)?;
            if let Some(sent) = shared.sent.get(feed.role.traffic).filter(|_| feed.role.counts) {
                sent.fetch_add(1, Ordering::Relaxed);
            }
            if let State::Writing(_) = feed.state {
                watch(&self.poll, feed, index, EventFlags::IN | EventFlags::OUT)?;
            }
            self.rest(index, schedule);
        }
        Ok(())
    }

    /// Puts an idle supplier back into the heap.
    fn rest(&mut self, index: usize, schedule: &Schedule) {
        let Some(feed) = self.feeds.get_mut(index).filter(|feed| feed.state == State::Idle) else { return };
        if feed.sent >= schedule.events {
            return;
        }
        feed.due = schedule.next_due(feed.role.traffic, feed.due);
        if feed.due < clock::now() {
            feed.late += 1;
        }
        self.idle.push(Reverse((feed.due, index)));
    }

    /// Waits for the timer or a connection, and serves ready connections.
    fn wait(&mut self, events: &mut [epoll::Event], schedule: &Schedule) -> Result<(), BenchError> {
        let count = match epoll::wait(&self.poll, &mut *events, Some(&clock::to_timespec(LOOK_UP_EVERY))) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(errno) => return Err(BenchError::errno("polling the suppliers")(errno)),
        };
        for event in events.iter().take(count) {
            let data = event.data;
            if data.u64() == TIMER {
                let mut expirations = [0; 8];
                // Nothing to read means that it was set anew since it rang.
                let _ = rustix::io::read(&self.timer, &mut expirations);
                self.alarm = 0;
                continue;
            }
            let index = usize::try_from(data.u64()).unwrap_or(usize::MAX);
            let Some(feed) = self.feeds.get_mut(index) else { continue };
            if let State::Writing(_) = feed.state {
                feed.write()?;
                if !matches!(feed.state, State::Writing(_)) {
                    watch(&self.poll, feed, index, EventFlags::IN)?;
                    self.rest(index, schedule);
                }
            } else {
                let waited = feed.state == State::Waiting;
                feed.read()?;
                if waited {
                    self.rest(index, schedule);
                }
            }
        }
        Ok(())
    }

    /// Sets the timer to this time.
    fn set_alarm(&mut self, at: u64) -> Result<(), BenchError> {
        if self.alarm == at {
            return Ok(());
        }
        self.alarm = at;
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of zero would switch the timer off.
        let once = Itimerspec { it_interval: never, it_value: clock::to_timespec(at.max(1)) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)
            .map(|_| ())
            .map_err(BenchError::errno("setting the suppliers' timer"))
    }
}

fn watch(poll: &OwnedFd, feed: &Feed, index: usize, flags: EventFlags) -> Result<(), BenchError> {
    let data = EventData::new_u64(u64::try_from(index).unwrap_or(TIMER));
    epoll::modify(poll, &feed.peer.stream, data, flags).map_err(BenchError::errno("polling a supplier"))
}

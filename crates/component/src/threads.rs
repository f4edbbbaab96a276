//! Threads of lanes: how they sleep and are woken, and what they are busy with.

use crate::error::Error;
use crate::lane::Lane;
use crate::notice::{Change, Notices};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, OnceLock, RwLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Wakes a lane's thread, if it sleeps.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    thread: OnceLock<Thread>,
    is_asleep: AtomicBool,
}

impl Waker {
    /// Wakes the thread after something was put where it looks.
    #[inline]
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `sleep`: either this sees the thread asleep, or the thread sees what was put.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed)
            && self.is_asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Has the calling thread be the one that is woken.
    pub(crate) fn attach(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    /// Sleeps until it is woken or the time has come, unless there is something to do already.
    pub(crate) fn sleep(&self, has_work: impl FnOnce() -> bool, due: Option<Instant>) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            match due {
                Some(due) => std::thread::park_timeout(due.saturating_duration_since(Instant::now())),
                None => std::thread::park(),
            }
        }
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}

/// What a lane is doing, for the thread that watches.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    /// Since when handlers run, in nanoseconds since the beginning of the server; 0 if none does.
    since_ns: AtomicU64,
    /// The instance whose handler runs, by its number from 1.
    instance: AtomicU64,
}

impl Busy {
    /// The instance whose handler runs.
    #[inline]
    pub(crate) fn instance(&self) -> u64 {
        self.instance.load(Ordering::Relaxed)
    }

    /// Notes that an instance's handler begins, or goes on after those that it called.
    #[inline]
    pub(crate) fn enter(&self, instance: u64) {
        self.instance.store(instance, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self, since: Duration) {
        self.enter(0);
        self.since_ns.store(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).max(1), Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.since_ns.store(0, Ordering::Relaxed);
    }
}

/// Names of instances by their numbers, for notices.
pub(crate) type Names = Arc<RwLock<Vec<Arc<str>>>>;

type Command = Box<dyn FnOnce(&mut Lane) + Send>;

/// A lane that has a thread.
pub(crate) struct LaneThread {
    name: String,
    commands: Sender<Command>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) busy: Arc<Busy>,
    has_commands: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LaneThread {
    /// Starts a thread that first does `prepare`, and makes its lane there.
    pub(crate) fn start(
        name: String,
        busy: Arc<Busy>,
        waker: Arc<Waker>,
        make: impl FnOnce() -> Lane + Send + 'static,
    ) -> std::io::Result<Self> {
        let (commands, received) = channel();
        let (has_commands, stop) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let run = (waker.clone(), has_commands.clone(), stop.clone());
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let (waker, has_commands, stop) = run;
            waker.attach();
            let mut lane = make();
            while !stop.load(Ordering::Acquire) {
                round(&mut lane, &received, &waker, &has_commands, &stop);
            }
        })?;
        Ok(Self { name, commands, waker, busy, has_commands, stop, thread: Some(thread) })
    }

    /// Has a command carried out between two events, and waits for its outcome.
    ///
    /// # Errors
    /// The lane does not answer in time. A command that has not begun by then is never carried out.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        within: Duration,
        command: impl FnOnce(&mut Lane) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let (answer, answered) = sync_channel(1);
        let busy = || Error::Busy { lane: self.name.clone() };
        // Whoever sets it first: the lane, which begins then, or the caller, who gives up.
        let is_decided = Arc::<AtomicBool>::default();
        let decided = is_decided.clone();
        self.enqueue(move |lane| {
            if !decided.swap(true, Ordering::AcqRel) {
                let _ = answer.send(command(lane));
            }
        });
        let mut outcome = answered.recv_timeout(within);
        if outcome.is_err() && is_decided.swap(true, Ordering::AcqRel) {
            // It has begun, and takes no time, unless the component does.
            outcome = answered.recv_timeout(within);
        }
        outcome.map_err(|error: RecvTimeoutError| {
            log::warn!("{}: {error}", busy());
            busy()
        })
    }

    /// Has a command carried out between two events, whenever the lane comes to it.
    pub(crate) fn enqueue(&self, command: impl FnOnce(&mut Lane) + Send + 'static) {
        // A lane that has ended has nothing more to do.
        let _ = self.commands.send(Box::new(command));
        self.has_commands.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for LaneThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        // A handler that does not return keeps its thread; the process ends it.
        let is_busy = self.busy.since_ns.load(Ordering::Relaxed) != 0;
        if let Some(thread) = self.thread.take().filter(|_| !is_busy) {
            let _ = thread.join();
        }
    }
}

/// Carries out commands, lets the lane do what is due, and sleeps where there is nothing more.
fn round(lane: &mut Lane, commands: &Receiver<Command>, waker: &Waker, has_commands: &AtomicBool, stop: &AtomicBool) {
    if has_commands.swap(false, Ordering::AcqRel) {
        while let Ok(command) = commands.try_recv() {
            command(lane);
        }
    }
    let due = lane.step();
    if !lane.has_queued() {
        let has_work = || lane.has_queued() || has_commands.load(Ordering::Acquire) || stop.load(Ordering::Acquire);
        waker.sleep(has_work, due);
    }
}

/// Watches the lanes of a server for handlers that do not return.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A lane that is watched.
pub(crate) struct Watched {
    pub(crate) busy: Arc<Busy>,
    /// The beginning of the last handler that was reported.
    pub(crate) reported_ns: u64,
}

impl Watch {
    pub(crate) fn start(
        notices: Notices,
        names: Names,
        base: Instant,
        after: Duration,
        more: Receiver<Watched>,
    ) -> std::io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let interval = (after / 4).clamp(Duration::from_millis(1), Duration::from_millis(100));
        let thread = std::thread::Builder::new().name("component watch".to_owned()).spawn(move || {
            let mut lanes = Vec::new();
            while !stopped.load(Ordering::Acquire) {
                lanes.extend(more.try_iter());
                let now = u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX);
                for lane in &mut lanes {
                    look(lane, now, after, &notices, &names);
                }
                std::thread::park_timeout(interval);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Reports a handler that has run for too long, once.
fn look(lane: &mut Watched, now_ns: u64, after: Duration, notices: &Notices, names: &Names) {
    let since = lane.busy.since_ns.load(Ordering::Acquire);
    let elapsed = Duration::from_nanos(now_ns.saturating_sub(since));
    if since == 0 || since == lane.reported_ns || elapsed < after {
        return;
    }
    let number = lane.busy.instance();
    if lane.busy.since_ns.load(Ordering::Acquire) != since {
        return;
    }
    // 0: the handler has not begun, or has returned just now.
    let Some(place) = number.checked_sub(1).and_then(|place| usize::try_from(place).ok()) else { return };
    let names = names.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(name) = names.get(place) {
        lane.reported_ns = since;
        notices.report(name, Change::Slow { elapsed });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

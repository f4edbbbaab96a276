//! The watch over the consumers of an orb: a thread that regularly checks whether their subscriptions exist.

use crate::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// A watched object.
pub(crate) trait Watched: Send + Sync {
    /// Checks the object and repairs it. Returns the time until the next check.
    fn look(&self) -> Duration;
}

/// Wakes the watch's thread.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether it was woken since the thread's last check.
    is_woken: bool,
    /// Whether an entry was added.
    has_changed: bool,
    /// Whether the watch was dropped: the thread ends.
    has_ended: bool,
}

impl Waker {
    /// Has all entries checked now.
    pub(crate) fn wake(&self) {
        lock(&self.state).is_woken = true;
        self.woken.notify_all();
    }

    fn announce(&self) {
        lock(&self.state).has_changed = true;
        self.woken.notify_all();
    }

    fn end(&self) {
        lock(&self.state).has_ended = true;
        self.woken.notify_all();
    }

    /// Waits until that time, if given, or until woken. Returns whether `wake` was called; `None` if the thread has to end.
    fn wait(&self, until: Option<Instant>) -> Option<bool> {
        let mut state = lock(&self.state);
        loop {
            if state.has_ended {
                return None;
            }
            if core::mem::take(&mut state.is_woken) {
                return Some(true);
            }
            if core::mem::take(&mut state.has_changed) {
                return Some(false);
            }
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Some(false),
                Some(left) => self.woken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.woken.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The watch's thread, which starts with the first entry and ends on drop.
#[derive(Default)]
pub(crate) struct Watch {
    waker: Arc<Waker>,
    watched: Arc<Mutex<Option<Vec<Entry>>>>,
}

struct Entry {
    whom: Weak<dyn Watched>,
    due: Instant,
}

impl Watch {
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Adds an entry, due for the first time after `first`. If no thread can be started, the entry is dropped.
    pub(crate) fn add(&self, whom: Weak<dyn Watched>, first: Duration) {
        let entry = Entry { whom, due: Instant::now() + first };
        let mut watched = lock(&self.watched);
        if let Some(watched) = watched.as_mut() {
            watched.push(entry);
        } else {
            let (waker, all) = (self.waker.clone(), self.watched.clone());
            let spawned = thread::Builder::new().name("client-watch".to_owned()).spawn(move || run(&waker, &all));
            *watched = spawned.ok().map(|_| vec![entry]);
        }
        drop(watched);
        self.waker.announce();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.waker.end();
    }
}

fn run(waker: &Waker, watched: &Mutex<Option<Vec<Entry>>>) {
    loop {
        let first = lock(watched).iter().flatten().map(|entry| entry.due).min();
        let Some(all) = waker.wait(first) else { return };
        let now = Instant::now();
        // Taken out, because looking takes time.
        let due: Vec<Entry> = {
            let mut watched = lock(watched);
            let Some(entries) = watched.as_mut() else { return };
            entries.retain(|entry| entry.whom.strong_count() > 0);
            entries.extract_if(.., |entry| all || entry.due <= now).collect()
        };
        for Entry { whom, .. } in due {
            let Some(next) = whom.upgrade().map(|whom| whom.look()) else { continue };
            if let Some(entries) = lock(watched).as_mut() {
                entries.push(Entry { whom, due: Instant::now() + next });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    struct Probe(Sender<()>, Duration);

    impl Watched for Probe {
        fn look(&self) -> Duration {
            self.0.send(()).unwrap();
            self.1
        }
    }

    const LATER: Duration = Duration::from_secs(1_000_000);
    const LONG: Duration = Duration::from_secs(60);

    fn watch(watch: &Watch, first: Duration, next: Duration) -> (Arc<Probe>, Receiver<()>) {
        let (sender, receiver) = channel();
        let told = Arc::new(Probe(sender, next));
        let weak: Weak<dyn Watched> = Arc::downgrade(&told) as Weak<dyn Watched>;
        watch.add(weak, first);
        (told, receiver)
    }

    #[test]
    fn each_is_looked_at_when_it_wants_and_all_when_the_waker_is_called() {
        let all = Watch::default();
        let (_often, looks) = watch(&all, Duration::ZERO, Duration::from_millis(1));
        (0..10).for_each(|_| looks.recv_timeout(LONG).expect("looked at again and again"));
        let (_seldom, looks) = watch(&all, LATER, LATER);
        assert!(looks.try_recv().is_err());
        all.waker().wake();
        looks.recv_timeout(LONG).expect("looked at since it was woken");
    }

    #[test]
    fn a_subscription_that_is_gone_is_not_looked_at_and_the_thread_ends_with_the_watch() {
        let all = Watch::default();
        let (gone, looks) = watch(&all, LATER, LATER);
        drop(gone);
        let (_there, others) = watch(&all, LATER, LATER);
        all.waker().wake();
        others.recv_timeout(LONG).expect("looked at");
        assert!(looks.recv_timeout(LONG).is_err(), "no thread has the sender");
        let watched = Arc::downgrade(&all.watched);
        drop(all);
        while watched.strong_count() > 0 {
            thread::yield_now();
        }
    }
}

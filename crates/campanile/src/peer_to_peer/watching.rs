//! Readers elsewhere that do not match a supplier's writers.

use crate::error::Error;
use dds::{Difference, Endpoint, Incompatibilities, News, Participant, Policy, Qos, Role, Topic, WaitSet, Waker};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long others may take to say what a type is.
const TYPE_MAX: Duration = Duration::from_millis(500);

/// A thread that compares the readers in a domain with a supplier's writers, and logs what does not match. It ends when this is dropped.
pub(super) struct Watching {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// What the supplier is called in logs.
    name: String,
    participant: Participant,
    qos: Qos,
    /// Topics that it writes, by name: of several types, each of a participant of its own.
    topics: Mutex<BTreeMap<String, Vec<Topic>>>,
    /// Some were added.
    is_changed: AtomicBool,
    has_ended: AtomicBool,
}

impl Watching {
    pub(super) fn new(name: String, participant: Participant, qos: Qos) -> Result<Self, Error> {
        let mut set = participant.wait_set()?;
        set.attach_discovery()?;
        let waker = set.waker();
        let (topics, is_changed, has_ended) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { name, participant, qos, topics, is_changed, has_ended });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("campanile-watch".into()).spawn(move || theirs.watch(&set));
        Ok(Self { shared, waker, thread: Some(thread.map_err(Error::Thread)?) })
    }

    /// Watches the readers of a topic, too.
    pub(super) fn add(&self, topic: &Topic) {
        self.shared.topics().entry(topic.name().to_owned()).or_default().push(topic.clone());
        self.shared.is_changed.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // Should it have panicked, there is nothing more to be said.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").finish_non_exhaustive()
    }
}

impl Shared {
    fn topics(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Topic>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, set: &WaitSet) {
        let (mut tokens, mut news) = (Vec::new(), Vec::new());
        let mut incompatible = Incompatibilities::new("dds.");
        while !self.has_ended.load(Ordering::Acquire) {
            if let Err(error) = set.wait_for_news(None, &mut tokens, |new| news.push(new)) {
                return log::error!("DDS cannot be waited for: {error}");
            }
            for new in news.drain(..) {
                match new {
                    News::Found(endpoint) => self.compare(&mut incompatible, &endpoint),
                    News::Gone(guid) => drop(incompatible.gone(&self.name, guid)),
                }
            }
            if self.is_changed.swap(false, Ordering::Acquire)
                && let Ok(endpoints) = self.participant.endpoints()
            {
                endpoints.iter().for_each(|endpoint| self.compare(&mut incompatible, endpoint));
            }
        }
    }

    fn compare(&self, incompatible: &mut Incompatibilities, endpoint: &Endpoint) {
        if endpoint.role != Role::Reader || self.has_ended.load(Ordering::Acquire) {
            return;
        }
        let Some(topics) = self.topics().get(&endpoint.topic).cloned() else { return };
        let found = Difference::all(&self.qos, endpoint);
        let is_here = found.as_ref().is_some_and(|found| found.iter().all(|found| found.policy != Policy::Partition));
        let of = (&self.participant, endpoint);
        incompatible.note(&self.name, of, false, found.unwrap_or_default(), |_| ());
        // A consumer of this library makes readers of all types that come.
        if is_here && endpoint.user_data != dds::OWN_USER_DATA {
            let conflicts: Option<Vec<_>> = topics.iter().map(|topic| topic.conflict(endpoint, TYPE_MAX)).collect();
            let found = conflicts.iter().flatten().next().map(Difference::of_types);
            incompatible.note(&self.name, of, true, found.into_iter().collect(), |_| ());
        }
    }
}

//! Remote readers that do not match a supplier's writers.

use super::listeners::begin;
use crate::error::{Error, Trouble};
use crate::raw::Teller;
use dds::{
    Difference, Endpoint, Incompatibilities, Incompatibility, News, Participant, Policy, Qos, Role, Topic, WaitSet,
    Waker, WrittenTopics,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time limit of a query for a remote type.
const TYPE_MAX: Duration = Duration::from_millis(500);

/// A thread that compares the readers in a domain with a supplier's writers, and reports mismatches. It ends on drop.
#[derive(Debug)]
pub(super) struct Watching {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    tell: Teller,
    participant: Participant,
    qos: Qos,
    topics: WrittenTopics,
    has_ended: AtomicBool,
}

impl Watching {
    pub(super) fn new(tell: Teller, participant: Participant, qos: Qos) -> Result<Self, Error> {
        let mut set = participant.wait_set()?;
        set.attach_discovery()?;
        let waker = set.waker();
        let (topics, has_ended) = (WrittenTopics::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { tell, participant, qos, topics, has_ended });
        let theirs = Arc::clone(&shared);
        let thread = begin("campanile-watch", move || theirs.watch(&set))?;
        Ok(Self { shared, waker, thread: Some(thread) })
    }

    /// Adds the readers of a topic.
    pub(super) fn add(&self, topic: &Topic) {
        self.shared.topics.add(topic);
        self.waker.wake();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        self.waker.wake();
        // A callback may drop the supplier, or wait for what drops it: then the thread ends by itself.
        if let Some(thread) = self.thread.take().filter(|_| !self.shared.tell.has_callback()) {
            // Should it have panicked, there is nothing more to be said.
            let _ = thread.join();
        }
    }
}

impl Shared {
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
                    News::Gone(guid) => drop(incompatible.gone(&self.tell, guid)),
                }
            }
            if self.topics.take_changed()
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
        let topics = self.topics.get(&endpoint.topic);
        if topics.is_empty() {
            return;
        }
        let found = Difference::all(&self.qos, endpoint);
        let is_here = found.as_ref().is_some_and(|found| found.iter().all(|found| found.policy != Policy::Partition));
        let described = || self.participant.describe(endpoint);
        // Once the supplier is dropped, none is called.
        let report =
            |found: &Incompatibility| self.has_ended.load(Ordering::Acquire) || self.tell.call(&Trouble::from(found));
        incompatible.note(&self.tell, (endpoint, described), false, found.unwrap_or_default(), report);
        // A consumer of this library makes readers of all types that come.
        if is_here && endpoint.user_data != dds::OWN_USER_DATA {
            let conflicts: Option<Vec<_>> = topics.iter().map(|topic| topic.conflict(endpoint, TYPE_MAX)).collect();
            let found = conflicts.iter().flatten().next().map(Difference::of_types);
            incompatible.note(&self.tell, (endpoint, described), true, found.into_iter().collect(), report);
        }
    }
}

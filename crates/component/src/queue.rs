//! Queues of sinks: between two lanes, and where a port asks for one.
//!
//! Any thread puts events in, the sink's lane takes them out. In the order of arrival there is no lock; but the ring spins in the lane
//! while a thread is in the middle of putting in the next event, and thus for as long as that thread is preempted there.
//! Events that are taken in another order, or discarded by another rule than their age, wait behind a lock, which is held for one pass over
//! at most 1,024 of them: so the rule holds while the lane is busy as well.

use crate::counters::PortCounters;
use crate::error::SendError;
use crate::route::{Deliver, Origin};
use crate::threads::Waker;
use crossbeam_queue::ArrayQueue;
use engine::{DiscardPolicy, FullOutbox, OrderPolicy};
use serde::Deserialize;
use std::cmp::Reverse;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most events that a queue may have.
pub(crate) const EVENTS_MAX: u32 = 65_536;
/// The same, of a queue that sorts.
pub(crate) const SORTED_MAX: u32 = 1_024;

/// What a queue before a sink is like.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// Events that wait at most: 1 to 65,536, or to 1,024 where they are sorted. Default 64.
    #[serde(rename = "MaxEventsPerConsumer")]
    pub events_max: u32,
    /// Which is taken next. Default: in the order of arrival.
    #[serde(rename = "OrderPolicy")]
    pub order: OrderPolicy,
    /// Which goes when one must. Default: the oldest.
    #[serde(rename = "DiscardPolicy")]
    pub discard: DiscardPolicy,
    /// What happens when the queue is full: `Discard` (the default), or `Reject`, with which sources are answered [`SendError::Full`]. No
    /// source waits, so that `Hold` and `Disconnect` are refused.
    #[serde(rename = "FullOutbox")]
    pub full: FullOutbox,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { events_max: 64, order: OrderPolicy::Fifo, discard: DiscardPolicy::Any, full: FullOutbox::Discard }
    }
}

impl QueueSettings {
    /// Whether events are sorted by more than their arrival.
    pub(crate) fn is_sorted(&self) -> bool {
        !matches!(self.order, OrderPolicy::Any | OrderPolicy::Fifo)
            || matches!(self.discard, DiscardPolicy::Priority | DiscardPolicy::Deadline)
    }

    /// Why these settings are none.
    pub(crate) fn problem(&self) -> Option<String> {
        let max = if self.is_sorted() { SORTED_MAX } else { EVENTS_MAX };
        if !(1..=max).contains(&self.events_max) {
            return Some(format!("MaxEventsPerConsumer is {}: give 1 to {max}", self.events_max));
        }
        match self.full {
            FullOutbox::Discard | FullOutbox::Reject => None,
            other => Some(format!("FullOutbox is {other:?}, and no component waits: give Discard or Reject")),
        }
    }
}

/// An event that waits.
pub(crate) struct Queued<T> {
    event: T,
    source: Arc<str>,
    sent: Instant,
    priority: i16,
    expires: Option<Instant>,
}

impl<T> Queued<T> {
    fn new(event: T, origin: &Origin<'_>) -> Self {
        let Origin { source, sent, priority, expires, .. } = *origin;
        Self { event, source: source.clone(), sent, priority, expires }
    }

    pub(crate) const fn event(&self) -> &T {
        &self.event
    }

    pub(crate) const fn origin(&self) -> Origin<'_> {
        Origin { source: &self.source, sent: self.sent, priority: self.priority, expires: self.expires, set: None }
    }

    /// Its priority, and when it expires.
    pub(crate) const fn qos(&self) -> (i16, Option<Instant>) {
        (self.priority, self.expires)
    }
}

/// The queue of a sink, for those that put events in.
pub(crate) trait QueueOf<T>: Send + Sync {
    /// Puts a copy of an event in.
    fn put(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError>;

    /// Puts an event in, which nobody else has.
    fn put_owned(&self, event: T, origin: &Origin<'_>) -> Result<(), SendError> {
        self.put(&event, origin)
    }

    /// Takes the event that is next by the queue's order.
    fn take(&self) -> Option<Queued<T>>;

    fn is_empty(&self) -> bool;
}

/// Makes a queue of a type.
type MakeQueue<T> = fn(&QueueSettings, Arc<Waker>, Arc<PortCounters>) -> Arc<dyn QueueOf<T>>;

/// How queues of a type are made, where its events can be copied and moved to another thread.
#[doc(hidden)]
pub struct Queueing<T> {
    pub(crate) make: MakeQueue<T>,
}

impl<T> Clone for Queueing<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Queueing<T> {}

impl<T: Clone + Send + 'static> Queueing<T> {
    pub(crate) const fn new() -> Self {
        Self {
            make: |settings, waker, counters| {
                if settings.is_sorted() {
                    Arc::new(Sorted::new(settings, waker, counters))
                } else {
                    Arc::new(Ring::new(settings, waker, counters))
                }
            },
        }
    }
}

/// Finds out whether a type's events can be queued: [`CanBeQueued`] is looked at before [`CannotBeQueued`].
#[doc(hidden)]
pub struct Probe<T>(PhantomData<T>);

impl<T> Probe<T> {
    /// The one of a type.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Probe<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[doc(hidden)]
pub trait CanBeQueued<T> {
    fn queueing(&self) -> Option<Queueing<T>>;
}

impl<T: Clone + Send + 'static> CanBeQueued<T> for Probe<T> {
    fn queueing(&self) -> Option<Queueing<T>> {
        Some(Queueing::new())
    }
}

#[doc(hidden)]
pub trait CannotBeQueued<T> {
    fn queueing(&self) -> Option<Queueing<T>>;
}

impl<T> CannotBeQueued<T> for &Probe<T> {
    fn queueing(&self) -> Option<Queueing<T>> {
        None
    }
}

struct Ring<T> {
    events: ArrayQueue<Queued<T>>,
    /// Whether the oldest event gives way to a new one.
    oldest_goes: bool,
    rejects: bool,
    waker: Arc<Waker>,
    counters: Arc<PortCounters>,
}

impl<T> Ring<T> {
    fn new(settings: &QueueSettings, waker: Arc<Waker>, counters: Arc<PortCounters>) -> Self {
        let events_max = settings.events_max.clamp(1, EVENTS_MAX);
        Self {
            events: ArrayQueue::new(usize::try_from(events_max).unwrap_or(1)),
            oldest_goes: settings.discard != DiscardPolicy::Lifo,
            rejects: settings.full == FullOutbox::Reject,
            waker,
            counters,
        }
    }
}

impl<T: Clone + Send> QueueOf<T> for Ring<T> {
    fn put(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        self.put_owned(event.clone(), origin)
    }

    fn put_owned(&self, event: T, origin: &Origin<'_>) -> Result<(), SendError> {
        let queued = Queued::new(event, origin);
        if self.rejects {
            if self.events.push(queued).is_err() {
                self.counters.rejected.count_shared();
                return Err(SendError::Full);
            }
        } else if self.oldest_goes {
            if self.events.force_push(queued).is_some() {
                self.counters.discarded.count_shared();
            }
        } else if self.events.push(queued).is_err() {
            self.counters.discarded.count_shared();
        }
        self.waker.wake();
        Ok(())
    }

    fn take(&self) -> Option<Queued<T>> {
        self.events.pop()
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// The end of a connection that leads to a queue.
pub(crate) struct QueueEnd<T>(pub(crate) Arc<dyn QueueOf<T>>);

impl<T> Deliver<T> for QueueEnd<T> {
    fn deliver(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        self.0.put(event, origin)
    }
}

/// The queue of a type that sorts: what is taken or discarded next follows from all events that wait.
struct Sorted<T> {
    settings: QueueSettings,
    /// In the order of arrival. The lock is held for one pass over the events; no handler, no destructor and no allocation runs under it.
    events: Mutex<Vec<Queued<T>>>,
    events_max: usize,
    waker: Arc<Waker>,
    counters: Arc<PortCounters>,
}

impl<T> Sorted<T> {
    fn new(settings: &QueueSettings, waker: Arc<Waker>, counters: Arc<PortCounters>) -> Self {
        let events_max = usize::try_from(settings.events_max.clamp(1, SORTED_MAX)).unwrap_or(1);
        // One more than may wait: the event that goes is chosen among all.
        let events = Mutex::new(Vec::with_capacity(events_max + 1));
        Self { settings: settings.clone(), events, events_max, waker, counters }
    }

    fn events(&self) -> MutexGuard<'_, Vec<Queued<T>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Send> QueueOf<T> for Sorted<T> {
    fn put(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        self.put_owned(event.clone(), origin)
    }

    fn put_owned(&self, event: T, origin: &Origin<'_>) -> Result<(), SendError> {
        let queued = Queued::new(event, origin);
        let mut events = self.events();
        let is_full = events.len() >= self.events_max;
        if is_full && self.settings.full == FullOutbox::Reject {
            drop(events);
            self.counters.rejected.count_shared();
            return Err(SendError::Full);
        }
        events.push(queued);
        let gone = is_full.then(|| {
            let place = discarded(&events, self.settings.discard);
            events.remove(place)
        });
        drop(events);
        if gone.is_some() {
            self.counters.discarded.count_shared();
        }
        self.waker.wake();
        Ok(())
    }

    fn take(&self) -> Option<Queued<T>> {
        let mut events = self.events();
        // Among equals the first is found: they lie in the order of arrival.
        let places = 0..events.len();
        let place = match self.settings.order {
            OrderPolicy::Priority => places.min_by_key(|place| events.get(*place).map(|it| Reverse(it.priority))),
            OrderPolicy::Deadline => places.min_by_key(|place| events.get(*place).map(|it| expiry(it))),
            OrderPolicy::Any | OrderPolicy::Fifo => (!events.is_empty()).then_some(0),
        };
        place.map(|place| events.remove(place))
    }

    fn is_empty(&self) -> bool {
        self.events().is_empty()
    }
}

/// A queue, for the lane that takes events out.
pub(crate) struct SinkQueue<T>(pub(crate) Arc<dyn QueueOf<T>>);

impl<T> SinkQueue<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next event that has not expired.
    pub(crate) fn take(&self, now: Instant, counters: &PortCounters) -> Option<Queued<T>> {
        loop {
            let queued = self.0.take()?;
            if queued.expires.is_none_or(|expires| expires > now) {
                return Some(queued);
            }
            counters.expired.count();
        }
    }
}

/// When an event expires; what never does is last.
fn expiry<T>(event: &Queued<T>) -> (bool, Option<Instant>) {
    (event.expires.is_none(), event.expires)
}

/// The place of the event that goes.
fn discarded<T>(events: &[Queued<T>], policy: DiscardPolicy) -> usize {
    let places = 0..events.len();
    let place = match policy {
        DiscardPolicy::Lifo => Some(events.len().saturating_sub(1)),
        DiscardPolicy::Priority => places.min_by_key(|place| events.get(*place).map(|it| it.priority)),
        DiscardPolicy::Deadline => places.min_by_key(|place| events.get(*place).map(|it| expiry(it))),
        DiscardPolicy::Any | DiscardPolicy::Fifo => Some(0),
    };
    place.unwrap_or(0)
}

//! Publishers: publishing many events without waiting for each.

use super::Own;
use super::pace::Pace;
use super::supplier::{Inner, noted, publish_error};
use crate::declared::Declared;
use crate::error::Error;
use crate::form::{Envelope, EventQos};
use crate::link::Link;
#[cfg(feature = "dds")]
use crate::peer_to_peer::WriterCounters;
use client::{Answers, Loss, Publisher, PublisherCounters, PublisherOptions};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longest wait for unconfirmed events.
#[cfg(feature = "dds")]
const SYNC_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the last answers when a publisher is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings of a [`RawPublisher`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishOptions {
    /// Events that are gathered before they are sent together. Default 64.
    pub gather_events_max: u32,
    /// Longest time that an event waits for others. Default 1 ms.
    pub gather_time_max: Duration,
    /// Events on the way without an answer, at which `publish` waits. Default 4096.
    pub unanswered_max: u32,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self { gather_events_max: 64, gather_time_max: Duration::from_millis(1), unanswered_max: 4096 }
    }
}

/// Publishes events without waiting for each: events are gathered for a moment and sent together, in order. Each gets a number, from 0 on;
/// their outcomes are reported by [`counters`](Self::counters) and [`next_loss`](Self::next_loss).
///
/// An event is never sent twice. When the connection breaks, events under way are reported as lost, and publishing goes on when the service
/// is back. A thread of the library sends gathered events in time.
///
/// When dropped, it waits for answers until none has arrived for 2 seconds; events not confirmed then are logged. To get them reported,
/// call [`close`](Self::close).
#[derive(Debug)]
pub struct RawPublisher {
    way: Way,
}

#[derive(Debug)]
enum Way {
    Gathered(Own<Running>),
    #[cfg(feature = "dds")]
    Counted(Own<Counted>),
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<Inner>,
    /// The publisher; `None` once closed.
    publisher: Mutex<Option<Publisher>>,
    /// Whether something was published since the thread's last check.
    is_busy: AtomicBool,
    has_ended: AtomicBool,
    gather_time: Duration,
}

impl RawPublisher {
    pub(super) fn new(inner: Arc<Inner>, options: PublishOptions) -> Result<Self, Error> {
        let publisher = match &inner.link {
            Link::Notification(supplier) => supplier.publisher(PublisherOptions {
                answers: Answers::Windowed { unanswered_max: options.unanswered_max.max(1) },
                gather_events_max: options.gather_events_max.max(1),
                // The thread sees to it.
                gather_time_max: Duration::MAX,
                ..PublisherOptions::default()
            })?,
            #[cfg(feature = "dds")]
            Link::Dds(_) => {
                return Ok(Self {
                    way: Way::Counted(Own::new(Counted {
                        inner,
                        counters: WriterCounters::default(),
                        is_closed: false,
                    })),
                });
            }
        };
        Running::new(inner, publisher, options.gather_time_max)
            .map(|running| Self { way: Way::Gathered(Own::new(running)) })
    }

    /// Publishes an event and returns its number. Waits only while the maximum number of events is on the way.
    ///
    /// # Errors
    /// The event was not accepted: it is not a value of the type, or there is no service. The outcome of accepted events is not an error
    /// here.
    pub fn publish(&self, declared: &Declared, cdr: &[u8]) -> Result<u64, Error> {
        self.publish_with(declared, cdr, EventQos::default())
    }

    /// Publishes as [`publish`](Self::publish) does, with a priority and a timeout. DDS has neither for one event: there they do not travel.
    ///
    /// # Errors
    /// The same as of `publish`.
    pub fn publish_with(&self, declared: &Declared, cdr: &[u8], qos: EventQos) -> Result<u64, Error> {
        match &self.way {
            Way::Gathered(running) => running.here()?.publish(declared, cdr, qos),
            #[cfg(feature = "dds")]
            Way::Counted(counted) => counted.here()?.publish(declared, cdr),
        }
    }

    /// Publishes an event if it can leave at once, and answers whether it did: not without a connection, with the maximum number of events
    /// on the way, with a full socket, over DDS, or while another thread publishes. It waits for nothing.
    ///
    /// # Errors
    /// The event is not a value of the type.
    pub fn publish_at_once(&self, declared: &Declared, cdr: &[u8], qos: EventQos) -> Result<bool, Error> {
        match &self.way {
            Way::Gathered(running) => running.here()?.publish_at_once(declared, cdr, qos),
            #[cfg(feature = "dds")]
            Way::Counted(_) => Ok(false),
        }
    }

    /// Sends the gathered events now.
    pub fn flush(&self) {
        self.with(|publisher| publisher.flush());
    }

    /// Sends the gathered events and waits until the outcome of all events is known.
    #[must_use = "the result says whether all events arrived"]
    pub fn sync(&self) -> PublisherCounters {
        #[cfg(feature = "dds")]
        if let Some(counted) = self.counted() {
            return counted.sync(SYNC_MAX);
        }
        self.with(Publisher::sync)
    }

    /// Counts of events by outcome, as far as known.
    #[must_use]
    pub fn counters(&self) -> PublisherCounters {
        #[cfg(feature = "dds")]
        if let Some(counted) = self.counted() {
            return counted.sync(Duration::ZERO);
        }
        self.with(|publisher| publisher.counters())
    }

    /// The next events that did not arrive, or perhaps not.
    #[must_use]
    pub fn next_loss(&self) -> Option<Loss> {
        self.with(Publisher::next_loss)
    }

    /// Closes the publisher when the outcome of all events is known or no answer has arrived for a minute, and returns the counts by
    /// outcome.
    #[must_use = "the result says whether all events arrived"]
    pub fn close(self) -> PublisherCounters {
        let counters = self.sync();
        self.close_within(CLOSE_TIMEOUT).unwrap_or(counters)
    }

    /// Closes the publisher as on drop, with another limit on the time without an answer. `None` in a forked child.
    pub fn close_within(mut self, limit: Duration) -> Option<PublisherCounters> {
        match &mut self.way {
            Way::Gathered(running) => running.here_mut()?.end(limit),
            #[cfg(feature = "dds")]
            Way::Counted(counted) => {
                let counted = counted.here_mut()?;
                counted.is_closed = true;
                Some(counted.sync(limit))
            }
        }
    }

    fn with<T: Default>(&self, what: impl FnOnce(&mut Publisher) -> T) -> T {
        match &self.way {
            Way::Gathered(running) => running.here().ok().and_then(|running| running.shared.lock().as_mut().map(what)),
            #[cfg(feature = "dds")]
            Way::Counted(_) => None,
        }
        .unwrap_or_default()
    }

    #[cfg(feature = "dds")]
    fn counted(&self) -> Option<&Counted> {
        match &self.way {
            Way::Counted(counted) => counted.here().ok(),
            Way::Gathered(_) => None,
        }
    }
}

/// Counts over DDS: events leave when they are published, and their confirmations are counted.
#[cfg(feature = "dds")]
#[derive(Debug)]
struct Counted {
    inner: Arc<Inner>,
    counters: WriterCounters,
    /// Whether its end was waited for.
    is_closed: bool,
}

#[cfg(feature = "dds")]
impl Counted {
    fn publish(&self, declared: &Declared, cdr: &[u8]) -> Result<u64, Error> {
        match &self.inner.link {
            Link::Dds(writers) => self.counters.publish(writers, declared, cdr),
            Link::Notification(_) => Err(Error::NoTransport { transport: "DDS" }),
        }
    }

    fn sync(&self, limit: Duration) -> PublisherCounters {
        match &self.inner.link {
            Link::Dds(writers) => self.counters.sync(writers, limit),
            Link::Notification(_) => self.counters.counters(),
        }
    }
}

#[cfg(feature = "dds")]
impl Drop for Counted {
    fn drop(&mut self) {
        let counters = self.counters.counters();
        if counters.confirmed < counters.published && !self.is_closed {
            log_missing(&self.inner.channel, self.sync(CLOSE_TIMEOUT));
        }
    }
}

/// Logs that events were not confirmed.
fn log_missing(channel: &str, counters: PublisherCounters) {
    if counters.confirmed < counters.published {
        let missing = counters.published - counters.confirmed;
        log::warn!(
            "{missing} of {} events published into {channel} were not confirmed: {counters:?}",
            counters.published
        );
    }
}

impl Running {
    fn new(inner: Arc<Inner>, publisher: Publisher, gather_time: Duration) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            inner,
            publisher: Mutex::new(Some(publisher)),
            is_busy: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            gather_time,
        });
        let theirs = shared.clone();
        let flusher = thread::Builder::new()
            .name("campanile-flush".to_owned())
            .spawn(move || theirs.send_in_time())
            .map_err(Error::Thread)?;
        Ok(Self { shared, flusher: Some(flusher) })
    }

    fn publish(&self, declared: &Declared, cdr: &[u8], qos: EventQos) -> Result<u64, Error> {
        let shared = &*self.shared;
        let fault = Cell::new(None);
        let envelope = Envelope { qos, ..shared.inner.envelope(declared) };
        let outcome = {
            let mut publisher = shared.lock();
            let Some(publisher) = publisher.as_mut() else { return Err(Error::Forked) };
            publisher.publish_written(|writer| noted(&fault, declared, &envelope, cdr, writer))
        };
        self.wake();
        outcome.map_err(|error| publish_error(fault, declared, error))
    }

    fn publish_at_once(&self, declared: &Declared, cdr: &[u8], qos: EventQos) -> Result<bool, Error> {
        let shared = &*self.shared;
        let fault = Cell::new(None);
        let outcome = {
            let Ok(mut publisher) = shared.publisher.try_lock() else { return Ok(false) };
            let Some(publisher) = publisher.as_mut() else { return Err(Error::Forked) };
            if !publisher.has_room() {
                return Ok(false);
            }
            let envelope = Envelope { qos, ..shared.inner.envelope(declared) };
            let outcome = publisher.publish_written(|writer| noted(&fault, declared, &envelope, cdr, writer));
            publisher.send_gathered();
            outcome
        };
        self.wake();
        outcome.map(|_| true).map_err(|error| publish_error(fault, declared, error))
    }

    /// Has the thread look at the publisher.
    fn wake(&self) {
        if !self.shared.is_busy.swap(true, Ordering::AcqRel)
            && let Some(flusher) = &self.flusher
        {
            flusher.thread().unpark();
        }
    }

    fn end(&mut self, limit: Duration) -> Option<PublisherCounters> {
        self.shared.has_ended.store(true, Ordering::Release);
        let counters = self.shared.lock().take().map(|publisher| publisher.close_within(limit));
        if let Some(flusher) = self.flusher.take() {
            flusher.thread().unpark();
            // It ends by itself; should it have panicked, there is nothing more to be said.
            let _ = flusher.join();
        }
        counters
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(counters) = self.end(CLOSE_TIMEOUT) {
            log_missing(&self.shared.inner.channel, counters);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Publisher>> {
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Body of the thread: sends events gathered for long enough, and reads answers until no more will come.
    fn send_in_time(&self) {
        let mut pace = Pace::new(self.gather_time);
        while !self.has_ended.load(Ordering::Acquire) {
            if !self.is_busy.swap(false, Ordering::AcqRel) {
                thread::park();
                continue;
            }
            thread::park_timeout(pace.pause);
            let mut publisher = self.lock();
            let Some(publisher) = publisher.as_mut() else { return };
            let waits = |publisher: &Publisher| publisher.gathered_since().map(|since| since.elapsed());
            let before = publisher.counters().confirmed;
            if pace.is_due(waits(publisher)) {
                publisher.send_gathered();
            } else {
                publisher.poll();
            }
            let counters = publisher.counters();
            pace.looked(waits(publisher), counters.confirmed > before, counters.outstanding());
            if counters.outstanding() > 0 {
                self.is_busy.store(true, Ordering::Release);
            }
        }
    }
}

//! Publishing without waiting for each event's answer.

mod ledger;
mod stream;

pub use ledger::{Fate, Loss, PublisherCounters};

use crate::backoff::Backoff;
use crate::notify::{ClientType, StructuredEvent};
use crate::object::sayable;
use crate::simple::Source;
use crate::{Arguments, InvokeError, ObjectRef};
use core::ops::Range;
use core::time::Duration;
use giop::cdr::Writer;
use giop::exception::Completed;
use giop::value::AnyValue;
use ledger::Ledger;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use stream::{Begun, Broken, Stream};

/// Longest wait for the last answers when a publisher is dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait between two attempts to reconnect to the service.
const ATTEMPTS_EVERY_MAX: Duration = Duration::from_secs(1);

/// Acknowledgement of a publisher's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Each push is answered; several may be unanswered at once.
    Windowed {
        /// Maximum unanswered pushes, 1 or more; 0 counts as 1. A push is an event, or for [`ClientType::Sequence`] a sequence of events.
        unanswered_max: u32,
    },
    /// No push is answered: refusals remain unknown, and arrivals are known only after a [`Publisher::sync`].
    OneWay,
}

/// Settings of a [`Publisher`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherOptions {
    /// Acknowledgement of events. Default: two-way, with up to 256 unanswered pushes.
    pub answers: Answers,
    /// Events gathered before they are sent with one system call; for [`ClientType::Sequence`], in one push. Default 1: each leaves at
    /// once. With more, call [`Publisher::flush`] after the last event.
    pub gather_events_max: u32,
    /// Gathered octets that are sent however few events they are; also the limit of what waits for a full socket. Default 64 KiB.
    pub gather_bytes_max: usize,
    /// Time after which gathered events are sent with the next call of any kind. Nothing is sent without a call: a program with nothing
    /// more to publish calls [`Publisher::poll`] or [`Publisher::flush`]. Default 1 ms; [`Duration::MAX`] spares a look at the clock for
    /// each event but the first.
    pub gather_time_max: Duration,
}

impl Default for PublisherOptions {
    fn default() -> Self {
        Self {
            answers: Answers::Windowed { unanswered_max: 256 },
            gather_events_max: 1,
            gather_bytes_max: 64 * 1024,
            gather_time_max: Duration::from_millis(1),
        }
    }
}

/// Pushes events into a proxy without waiting for each, over a connection of its own.
///
/// Every accepted event gets a number, from 0 on, and leaves in that order. Its outcome is reported later: by [`counters`](Self::counters)
/// as counts, and by [`next_loss`](Self::next_loss) for events that did not arrive, or perhaps not. An event is never sent twice.
///
/// When the connection is lost, the next call that publishes makes a new one; events under way are reported, and the caller decides which
/// to publish again. When the proxy is gone, since the service was restarted or has disconnected the supplier, a publisher [of a
/// supplier](crate::SimpleSupplier::publisher) looks up the channel again and obtains a new one; one [of a proxy](Self::new) cannot, and
/// its events are refused (`OBJECT_NOT_EXIST`). While there is no service, publishing is an error: the event was not taken. Attempts to
/// reconnect are made by publishing calls, at most a second apart; calls in between fail at once. One-way publishers find out that their
/// proxy is gone by [`sync`](Self::sync), or when the connection ends.
///
/// Memory is bounded: a publisher holds at most [`gather_bytes_max`](PublisherOptions::gather_bytes_max) octets and one event more. When
/// the maximum number of pushes is unanswered, or the socket is full, `publish…` waits, for at most the proxy's reply timeout without any
/// progress, and `try_publish…` returns `None`. In the steady state nothing is allocated; one system call sends all gathered events, and
/// one reads all answers that have arrived.
///
/// Proxies that forward (`LOCATION_FORWARD`) are not followed: their answers count as `TRANSIENT`.
///
/// ```no_run
/// use campanile_client::notify::StructuredEvent;
/// use campanile_client::{LOCAL_SERVICE, PublisherOptions, SimpleSupplier};
///
/// let supplier = SimpleSupplier::connect(LOCAL_SERVICE, None)?;
/// // 64 events with one system call, and up to 256 on the way.
/// let options = PublisherOptions { gather_events_max: 64, ..PublisherOptions::default() };
/// let mut publisher = supplier.publisher(options)?;
/// for number in 0..100_000 {
///     publisher.publish(&StructuredEvent::new("Telescope", "Sample", &number.to_string()))?;
/// }
/// let counters = publisher.sync();
/// println!("{} of {} arrived", counters.confirmed, counters.published);
/// while let Some(loss) = publisher.next_loss() {
///     println!("events {:?}: {:?}", loss.events, loss.fate);
/// }
/// # Ok::<(), campanile_client::InvokeError>(())
/// ```
#[derive(Debug)]
pub struct Publisher {
    proxy: ObjectRef,
    form: ClientType,
    options: PublisherOptions,
    stream: Option<Stream>,
    /// The sequence being gathered.
    batch: Option<Batch>,
    /// Gathered events not offered to the socket yet, and since when.
    gathered: u32,
    gathering_since: Option<Instant>,
    ledger: Ledger,
    /// The source of a new proxy.
    source: Option<Arc<Source>>,
    retry: Retry,
}

/// State of reconnecting to the service.
#[derive(Debug)]
struct Retry {
    backoff: Backoff,
    /// The error of the last attempt.
    failure: Option<InvokeError>,
    /// Whether there was a connection before.
    is_again: bool,
    /// Events confirmed before the connection was made.
    confirmed_before: u64,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    begun: Begun,
    first: u64,
    events: u32,
}

impl Publisher {
    /// A publisher of events of that form, at a proxy with a connected supplier. Connects at once.
    ///
    /// # Errors
    /// If no address of the proxy's reference can be reached.
    pub fn new(proxy: &ObjectRef, form: ClientType, options: PublisherOptions) -> Result<Self, InvokeError> {
        Self::of(proxy, form, options, None)
    }

    /// Makes a publisher as [`new`](Self::new) does; `source` replaces a proxy that is gone.
    pub(crate) fn of(
        proxy: &ObjectRef,
        form: ClientType,
        options: PublisherOptions,
        source: Option<Arc<Source>>,
    ) -> Result<Self, InvokeError> {
        let backoff = Backoff::up_to(ATTEMPTS_EVERY_MAX);
        let mut publisher = Self {
            proxy: proxy.clone(),
            form,
            options,
            stream: None,
            batch: None,
            gathered: 0,
            gathering_since: None,
            ledger: Ledger::default(),
            source,
            retry: Retry { backoff, failure: None, is_again: false, confirmed_before: 0 },
        };
        publisher.connect()?;
        Ok(publisher)
    }

    // ---- publishing ----

    /// Publishes a structured event, waiting for room, and returns its number. Not for [`ClientType::Any`].
    ///
    /// # Errors
    /// The event was not accepted: it cannot be written, no connection can be made, or there was no room for the whole reply timeout. The
    /// outcome of accepted events is not an error here.
    pub fn publish(&mut self, event: &StructuredEvent) -> Result<u64, InvokeError> {
        self.publish_written(|w| event.write(w))
    }

    /// Publishes several structured events in order, as [`publish`](Self::publish) does, and returns their numbers.
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish). Events before the failed one are published.
    pub fn publish_all(&mut self, events: &[StructuredEvent]) -> Result<Range<u64>, InvokeError> {
        let first = self.ledger.counters.published;
        events.iter().try_for_each(|event| self.publish(event).map(|_| ()))?;
        Ok(first..self.ledger.counters.published)
    }

    /// Publishes an Any, as [`publish`](Self::publish) does. For [`ClientType::Any`].
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish).
    pub fn publish_any(&mut self, event: &AnyValue) -> Result<u64, InvokeError> {
        self.publish_written(|w| event.write(w))
    }

    /// Publishes an event written by hand: one `StructuredEvent`, also for sequences, or an `any`.
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish).
    #[inline]
    pub fn publish_written<A: Arguments>(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>) -> A,
    ) -> Result<u64, InvokeError> {
        if !self.has_room() {
            self.make_room(true)?;
        }
        self.take(write)
    }

    /// Publishes as [`publish`](Self::publish) does, without waiting: `None` if there is no room. Only the reconnection of a lost
    /// connection is waited for.
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish).
    pub fn try_publish(&mut self, event: &StructuredEvent) -> Result<Option<u64>, InvokeError> {
        self.try_publish_written(|w| event.write(w))
    }

    /// Publishes as [`publish_written`](Self::publish_written) does, without waiting: `None` if there is no room.
    ///
    /// # Errors
    /// The same as of [`publish`](Self::publish).
    pub fn try_publish_written<A: Arguments>(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>) -> A,
    ) -> Result<Option<u64>, InvokeError> {
        if !self.has_room() && !self.make_room(false)? {
            return Ok(None);
        }
        self.take(write).map(Some)
    }

    /// Whether there is a connection, and room for an event: publishing waits for nothing then.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        let Some(stream) = &self.stream else { return false };
        if stream.proxy_is_gone() && self.source.is_some() {
            return false;
        }
        let window = self.batch.is_some() || stream.unanswered() < self.unanswered_max();
        window && stream.pending_bytes() < self.options.gather_bytes_max.max(1)
    }

    // ---- what was published ----

    /// Sends the gathered events. Waits only for room in the socket, for as long as [`publish`](Self::publish) would.
    pub fn flush(&mut self) {
        self.drive(|publisher| publisher.stream.as_ref().is_none_or(|stream| stream.pending_bytes() == 0));
    }

    /// Sends all gathered events, as far as the socket takes them, and reads available answers. Does not wait.
    pub fn send_gathered(&mut self) {
        self.send();
        self.take_answers();
    }

    /// Sends events gathered for long enough and those that the socket had no room for, and reads available answers. Does not wait.
    pub fn poll(&mut self) {
        if self.gathered == 0 || self.is_due() {
            self.send();
        }
        self.take_answers();
    }

    /// Time since which the first gathered event waits; `None` without one.
    #[must_use]
    pub fn gathered_since(&self) -> Option<Instant> {
        self.gathering_since
    }

    /// Sends the gathered events and waits until the outcome of all events is known: until all are answered, or, for one-way events, until
    /// the service has answered a probe behind them. Then none is [`outstanding`](PublisherCounters::outstanding). The arrival of one-way
    /// events does not mean that the service accepted them.
    pub fn sync(&mut self) -> PublisherCounters {
        self.sync_within(self.proxy.reply_timeout())
    }

    /// Counts of events by outcome, as far as known.
    #[must_use]
    pub fn counters(&self) -> PublisherCounters {
        self.ledger.counters
    }

    /// The next events that did not arrive, or perhaps not. Up to 1,024 such reports are stored.
    pub fn next_loss(&mut self) -> Option<Loss> {
        self.ledger.next_loss()
    }

    /// Closes the publisher after a [`sync`](Self::sync). The proxy stays connected.
    #[must_use = "the result says whether all events arrived"]
    pub fn close(mut self) -> PublisherCounters {
        self.sync()
    }

    /// Closes the publisher as [`close`](Self::close) does, waiting for no longer than `limit` without any progress.
    #[must_use = "the result says whether all events arrived"]
    pub fn close_within(mut self, limit: Duration) -> PublisherCounters {
        self.sync_within(Some(limit))
    }

    // ---- helpers ----

    const fn unanswered_max(&self) -> usize {
        match self.options.answers {
            Answers::Windowed { unanswered_max: 0 } => 1,
            Answers::Windowed { unanswered_max } => unanswered_max as usize,
            Answers::OneWay => usize::MAX,
        }
    }

    /// Appends an event to the buffer, which has room, and sends what is due.
    #[inline]
    fn take<A: Arguments>(&mut self, write: impl FnOnce(&mut Writer<'_>) -> A) -> Result<u64, InvokeError> {
        let number = match self.form {
            ClientType::Sequence => self.append(write)?,
            ClientType::Any | ClientType::Structured => {
                let Some(stream) = &mut self.stream else { return Err(lost(&self.proxy, "there is none")) };
                let begun = stream.begin();
                let mut writer = stream.writer(begun);
                let written = write(&mut writer).outcome();
                let written = sayable(written, &writer);
                if let Err(reason) = checked(written, stream.end() > begun.body) {
                    stream.take_back(begun.start);
                    return Err(InvokeError::BadArguments { operation: operation(self.form).to_owned(), reason });
                }
                let number = self.ledger.number();
                stream.finish(begun, number, 1);
                number
            }
        };
        self.gathered += 1;
        if self.is_due() {
            self.send();
        }
        Ok(number)
    }

    /// Appends an event to the sequence being gathered.
    fn append<A: Arguments>(&mut self, write: impl FnOnce(&mut Writer<'_>) -> A) -> Result<u64, InvokeError> {
        let Some(stream) = &mut self.stream else { return Err(lost(&self.proxy, "there is none")) };
        let mut batch = self.batch.unwrap_or_else(|| {
            let begun = stream.begin();
            stream.writer(begun).u32(0);
            Batch { begun, first: self.ledger.counters.published, events: 0 }
        });
        let end = stream.end();
        let mut writer = stream.writer(batch.begun);
        let written = write(&mut writer).outcome();
        let written = sayable(written, &writer);
        if let Err(reason) = checked(written, stream.end() > end) {
            stream.take_back(if batch.events == 0 { batch.begun.start } else { end });
            return Err(InvokeError::BadArguments { operation: operation(self.form).to_owned(), reason });
        }
        batch.events += 1;
        self.batch = Some(batch);
        Ok(self.ledger.number())
    }

    /// Whether the gathered events have to be sent now.
    #[inline]
    fn is_due(&mut self) -> bool {
        let PublisherOptions { gather_events_max, gather_bytes_max, gather_time_max, .. } = self.options;
        let Some(stream) = self.stream.as_ref().filter(|_| self.gathered > 0) else { return false };
        if self.gathered >= gather_events_max || stream.pending_bytes() >= gather_bytes_max {
            return true;
        }
        let since = *self.gathering_since.get_or_insert_with(Instant::now);
        gather_time_max != Duration::MAX && since.elapsed() >= gather_time_max
    }

    /// Ends the sequence being gathered.
    fn end_batch(&mut self) {
        if let (Some(stream), Some(Batch { begun, first, events })) = (&mut self.stream, self.batch.take()) {
            stream.patch(begun.body, events);
            stream.finish(begun, first, events.into());
        }
    }

    /// Offers the gathered octets to the socket.
    fn send(&mut self) {
        self.end_batch();
        self.gathered = 0;
        self.gathering_since = None;
        let outcome = self.stream.as_mut().map_or(Ok(()), |stream| {
            // What the service said before it closed is there still: which event it refuses.
            stream.write().inspect_err(|_| _ = stream.read(&mut self.ledger))
        });
        self.drop_if_broken(outcome);
    }

    fn take_answers(&mut self) {
        let outcome = self.stream.as_mut().map_or(Ok(()), |stream| stream.read(&mut self.ledger));
        self.drop_if_broken(outcome);
        // Of what is under way to a proxy that is gone, the answers are still waited for: they tell its fate.
        if self.source.is_some()
            && self.stream.as_ref().is_some_and(|stream| stream.proxy_is_gone() && stream.unanswered() == 0)
        {
            self.drop_if_broken(Err(Broken::new("the proxy is gone")));
        }
    }

    /// Drops a broken connection.
    fn drop_if_broken(&mut self, outcome: Result<(), Broken>) {
        if let Err(broken) = outcome {
            self.batch = None;
            self.gathered = 0;
            self.gathering_since = None;
            if let Some(stream) = self.stream.take() {
                stream.give_up(&broken, self.ledger.counters.published, &mut self.ledger);
                // A connection that has brought nothing counts as an attempt that failed.
                let is_one_way = self.options.answers == Answers::OneWay;
                if is_one_way || self.ledger.counters.confirmed > self.retry.confirmed_before {
                    self.retry.backoff.succeeded();
                } else {
                    self.retry.backoff.failed(Instant::now());
                    self.retry.failure = Some(lost(&self.proxy, &broken.reason));
                }
            }
        }
    }

    /// Makes room for an event, if `waits`; returns whether there is room.
    ///
    /// # Errors
    /// There is no connection, or no room in time.
    #[cold]
    fn make_room(&mut self, waits: bool) -> Result<bool, InvokeError> {
        self.connect()?;
        self.send();
        self.take_answers();
        if self.has_room() || (!waits && self.stream.is_some()) {
            return Ok(self.has_room());
        }
        // Some room, so that what comes next can be gathered.
        let enough = self.unanswered_max() - self.unanswered_max() / 4;
        let in_time = self.drive(|publisher| {
            publisher.stream.as_ref().is_none_or(|stream| stream.unanswered() < enough && publisher.has_room())
        });
        if !in_time {
            let (address, operation) = (self.proxy.address_text(), operation(self.form).to_owned());
            let limit = self.proxy.reply_timeout().unwrap_or_default();
            return Err(InvokeError::TimedOut { address, operation, limit });
        }
        // The connection may have been lost meanwhile.
        self.connect()?;
        Ok(true)
    }

    /// Sends, and reads answers, until `is_done`. Returns false if nothing happened for the whole reply timeout; the connection is then
    /// dropped.
    fn drive(&mut self, is_done: impl Fn(&Self) -> bool) -> bool {
        self.drive_within(self.proxy.reply_timeout(), is_done)
    }

    fn drive_within(&mut self, limit: Option<Duration>, is_done: impl Fn(&Self) -> bool) -> bool {
        self.send();
        while !is_done(self) {
            let Some(stream) = &self.stream else { return true };
            match stream.wait(limit) {
                Ok(true) => {
                    self.send();
                    self.take_answers();
                }
                Ok(false) => {
                    self.drop_if_broken(Err(Broken::new("nothing was answered in time")));
                    return false;
                }
                Err(broken) => self.drop_if_broken(Err(broken)),
            }
        }
        true
    }

    fn sync_within(&mut self, limit: Option<Duration>) -> PublisherCounters {
        self.send();
        if self.options.answers == Answers::OneWay
            && self.ledger.counters.outstanding() > 0
            && let Some(stream) = &mut self.stream
        {
            stream.ask(self.ledger.counters.published);
        }
        self.drive_within(limit, |publisher| {
            let stream = publisher.stream.as_ref();
            stream.is_none_or(|stream| stream.unanswered() == 0 && stream.pending_bytes() == 0)
        });
        self.ledger.counters
    }

    /// Connects if there is no connection and the wait is over.
    fn connect(&mut self) -> Result<(), InvokeError> {
        if self.stream.is_some() {
            return Ok(());
        }
        if self.retry.backoff.is_waiting(Instant::now())
            && let Some(failure) = &self.retry.failure
        {
            return Err(again(&self.proxy, failure));
        }
        match self.find_back() {
            Ok(stream) => {
                self.stream = Some(stream);
                self.retry.confirmed_before = self.ledger.counters.confirmed;
                self.ledger.counters.reconnections += u64::from(self.retry.is_again);
                self.retry.is_again = true;
                Ok(())
            }
            Err(error) => {
                self.retry.backoff.failed(Instant::now());
                self.retry.failure = Some(again(&self.proxy, &error));
                Err(error)
            }
        }
    }

    /// Connects to the proxy, or to another one if it is gone.
    fn find_back(&mut self) -> Result<Stream, InvokeError> {
        if let Some(source) = self.source.as_ref().filter(|_| self.retry.is_again) {
            self.proxy = source.living(&self.proxy)?;
        }
        let line = self.proxy.orb().connect_line(self.proxy.ior())?;
        let address = line.address.clone();
        let two_way = self.options.answers != Answers::OneWay;
        let rest = (self.proxy.orb().options().message_bytes_max, self.ledger.counters.published);
        let stream = Stream::new(line, operation(self.form), two_way, self.proxy.priority(), rest);
        stream.map_err(|error| InvokeError::NotReachable { address, error })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // The proxy may end with the publisher, and is not to end before what was sent to it one-way has been read there.
        if self.source.is_some() && self.options.answers == Answers::OneWay {
            self.sync_within(Some(CLOSE_TIMEOUT));
        }
        // A socket that is closed with answers unread takes with it what the service has not read. A program that wants to know more has
        // called `close`.
        let window = self.options.answers != Answers::OneWay;
        self.drive_within(Some(CLOSE_TIMEOUT), |publisher| {
            let stream = publisher.stream.as_ref();
            stream.is_none_or(|stream| stream.pending_bytes() == 0 && (!window || stream.unanswered() == 0))
        });
        if let Some(stream) = &mut self.stream {
            stream.send_close();
        }
    }
}

/// The operation that pushes events of that form.
pub(crate) const fn operation(form: ClientType) -> &'static str {
    match form {
        ClientType::Any => "push",
        ClientType::Structured => "push_structured_event",
        ClientType::Sequence => "push_structured_events",
    }
}

/// Refuses an event with nothing written.
fn checked(written: Result<(), String>, is_something: bool) -> Result<(), String> {
    written.and_then(|()| if is_something { Ok(()) } else { Err("nothing was written".to_owned()) })
}

/// A copy of a failure, for another caller.
fn again(proxy: &ObjectRef, failure: &InvokeError) -> InvokeError {
    match failure {
        InvokeError::NotReachable { address, error } => {
            let error = io::Error::new(error.kind(), error.to_string());
            InvokeError::NotReachable { address: address.clone(), error }
        }
        InvokeError::Lost { reason, .. } => lost(proxy, reason),
        failure => lost(proxy, &failure.to_string()),
    }
}

fn lost(proxy: &ObjectRef, reason: &str) -> InvokeError {
    let (address, operation) = (proxy.address_text(), "push".to_owned());
    InvokeError::Lost { address, operation, reason: reason.to_owned(), completed: Completed::No }
}

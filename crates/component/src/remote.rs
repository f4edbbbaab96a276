//! Ends of connections to other processes, by a service.
//!
//! The lane of a source publishes what can leave at once, and puts the rest into a queue, from which a thread publishes it in order: it waits
//! for no service. A sink has what its subscription gets in its queue.
//!
//! What the ends of several ports share is a [`Unit`]: connections, and the thread that publishes. A plan says for what there is one: a
//! server, a container or an instance. What a service does not take in time holds up the sources of its unit, and no others.

use crate::counters::PortCounters;
use crate::declaration::PortKind;
use crate::edge::NATIVE;
use crate::error::{Error, SendError};
use crate::instance::text_of;
use crate::lane::Clock;
use crate::plan::federation::PlannedLink;
use crate::plan::{Plan, Problem};
use crate::queue::{QueueOf, QueueSettings, Queued, Queueing};
use crate::route::{AnyEnd, AnyQueue, Deliver, Origin};
use crate::server::Server;
use crate::services::{Lost, Publisher, Service, Simple, SourceQos, Take};
use crate::threads::Waker;
use campanile::raw::EventQos;
use campanile::{Declared, Defaults, Event, Settings};
use giop::cdr::{Reader, Writer};
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events that wait for being published: as many as a subscription's queue has at most by default.
const PUBLISHED_MAX: u32 = 1_024;

/// Events of one source that are published before the others of its thread have theirs looked at.
const ROUND_MAX: u32 = 64;

/// Time from the end of a source until events that still wait are dropped: an event that is being published is waited for.
const END_MAX: Duration = Duration::from_secs(2);

/// Interval at which publishers are asked for lost events.
const LOSSES_EVERY: Duration = Duration::from_secs(1);

/// Shortest time between two lines of the log about failures of one port.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The end of a port, which ends with its instance: a subscription, or a part of a thread that publishes.
pub(crate) struct RemoteEnd {
    pub(crate) owner: String,
    // It ends before what it shares.
    end: End,
    unit: Rc<Unit>,
}

enum End {
    Link(LinkEnd),
    Sink { _subscription: Box<dyn Any> },
    Source(SourceEnd),
}

/// A link of the service to another one, for a source, from its start on.
struct LinkEnd {
    source: String,
    name: String,
    /// What the service is asked for.
    entry: String,
    is_made: Cell<bool>,
    ending: OnceCell<Instant>,
}

impl RemoteEnd {
    /// Begins the end, which is waited for when this is dropped: of several, all begin before the first is waited for.
    pub(crate) fn stop(&self) {
        match &self.end {
            End::Source(end) => end.stop(),
            End::Link(end) => drop(end.ending.set(Instant::now() + END_MAX)),
            End::Sink { .. } => {}
        }
    }

    /// Has a link made: at the start, when a server that this one replaces has ended, and removed its own.
    pub(crate) fn make_link(&self) -> Result<(), Error> {
        let End::Link(LinkEnd { source, entry, is_made, .. }) = &self.end else { return Ok(()) };
        self.unit.service.link(entry).map_err(|reason| Error::Port { port: source.clone(), reason })?;
        is_made.set(true);
        Ok(())
    }
}

impl Drop for RemoteEnd {
    fn drop(&mut self) {
        let End::Link(LinkEnd { name, is_made, ending, .. }) = &self.end else { return };
        let until = *ending.get_or_init(|| Instant::now() + END_MAX);
        if is_made.get()
            && let Err(reason) = self.unit.service.unlink(name, until)
        {
            log::warn!("the link {name} stays: {reason}; `campanile link rm` removes it");
        }
    }
}

/// By when the events of a source are published: set when its end begins.
type Ending = Arc<OnceLock<Instant>>;

/// Counts failures of a port, and logs the first of each minute.
struct Failures {
    counters: Arc<PortCounters>,
    clock: Clock,
    /// Which events: `from camera.frame`.
    events: String,
    logged: Option<Instant>,
}

impl Failures {
    const fn new(counters: Arc<PortCounters>, clock: Clock, events: String) -> Self {
        Self { counters, clock, events, logged: None }
    }

    fn count(&mut self, Lost { events, reason }: &Lost) {
        self.counters.failed.add_shared(*events);
        let now = self.clock.now();
        if self.logged.is_none_or(|logged| now.saturating_duration_since(logged) >= LOGGED_EVERY) {
            self.logged = Some(now);
            log::warn!("events {} failed, {events} now: {reason}; for a minute others are counted only", self.events);
        }
    }
}

/// Runs code of an event's type, which may panic.
pub(crate) fn contained<R>(run: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(format!("the code of the event panicked: {}", text_of(panic))))
}

/// A port whose events can travel.
pub(crate) trait RemotePort: Send + Sync {
    /// The type of its events.
    fn declared(&self) -> Result<Declared, String>;

    /// What puts values into the queue of a sink.
    fn taking(&self, queue: AnyQueue, sink: SinkContext) -> Result<Take, String>;

    /// The end of a connection that hands over each event as its source, its priority and its octets.
    fn writing(&self, take: TakeWritten, counters: Arc<PortCounters>) -> AnyEnd;

    /// A queue, and what publishes the events that are put into it.
    fn outlet(
        &self,
        publisher: Box<dyn Publisher>,
        source: SourceContext,
    ) -> Result<(AnyQueue, Box<dyn Outlet>), String>;
}

/// Takes the octets of events, with their origin.
pub(crate) type TakeWritten = Box<dyn Fn(&Origin<'_>, &[u8])>;

/// What the end of a sink needs.
pub(crate) struct SinkContext {
    /// The source, as `instance.port`.
    source: Arc<str>,
    clock: Clock,
    counters: Arc<PortCounters>,
}

/// What the end of a source needs.
pub(crate) struct SourceContext {
    channel: String,
    clock: Clock,
    counters: Arc<PortCounters>,
    /// Of the thread that publishes.
    waker: Arc<Waker>,
    ending: Ending,
    /// Dropped when the source has ended.
    _done: Sender<()>,
}

/// A port of a type: how its events become octets in CDR, and octets events.
pub(crate) struct Remote<T> {
    pub(crate) queueing: Option<Queueing<T>>,
    pub(crate) declare: Box<dyn Fn() -> Result<Declared, String> + Send + Sync>,
    pub(crate) write: fn(&T, &mut Vec<u8>),
    pub(crate) read: fn(&[u8]) -> Result<T, String>,
}

/// Writes an event as octets in CDR.
pub(crate) fn write_value<T: Event>(event: &T, to: &mut Vec<u8>) {
    event.write(&mut Writer::new(to, NATIVE));
}

/// Reads an event of octets in CDR.
pub(crate) fn read_value<T: Event>(value: &[u8]) -> Result<T, String> {
    T::read(&mut Reader::new(value, NATIVE)).map_err(|error| error.kind.to_string())
}

impl<T: Event> Remote<T> {
    pub(crate) fn of(queueing: Option<Queueing<T>>) -> Self {
        Self {
            queueing,
            declare: Box::new(|| {
                let mut defaults = Defaults::default();
                T::defaults(&mut defaults);
                Declared::new(T::event_type(), T::DOMAIN, Some(T::NAME))
                    .map(|declared| declared.with_defaults(defaults))
                    .map_err(|error| error.to_string())
            }),
            write: write_value,
            read: read_value,
        }
    }
}

impl<T: 'static> RemotePort for Remote<T> {
    fn declared(&self) -> Result<Declared, String> {
        (self.declare)()
    }

    fn taking(&self, queue: AnyQueue, sink: SinkContext) -> Result<Take, String> {
        let queue = queue.downcast::<Arc<dyn QueueOf<T>>>().map_err(|_| "it is of another type".to_owned())?;
        let (read, SinkContext { source, clock, counters }) = (self.read, sink);
        let mut failures = Failures::new(counters, clock.clone(), format!("from {source}"));
        let take = move |came: Result<(&[u8], EventQos), Lost>| {
            let outcome = came.and_then(|(value, EventQos { priority, timeout })| {
                let put = || {
                    let event = read(value)?;
                    let sent = clock.now();
                    let expires = timeout.and_then(|timeout| sent.checked_add(timeout));
                    // A full queue has counted it.
                    let _ = queue.put_owned(event, &Origin { source: &source, sent, priority, expires, set: None });
                    Ok(())
                };
                contained(put).map_err(Lost::one)
            });
            if let Err(lost) = outcome {
                failures.count(&lost);
            }
        };
        Ok(Box::new(take))
    }

    fn writing(&self, take: TakeWritten, counters: Arc<PortCounters>) -> AnyEnd {
        let end: Rc<dyn Deliver<T>> = Rc::new(Writing { write: self.write, take, counters });
        Box::new(end)
    }

    fn outlet(
        &self,
        publisher: Box<dyn Publisher>,
        source: SourceContext,
    ) -> Result<(AnyQueue, Box<dyn Outlet>), String> {
        let queueing = self.queueing.ok_or("its events are not Clone and Send: derive Clone")?;
        let settings = QueueSettings { events_max: PUBLISHED_MAX, ..QueueSettings::default() };
        let queue = (queueing.make)(&settings, source.waker.clone(), source.counters.clone());
        let (ending, counters) = (source.ending.clone(), source.counters.clone());
        let failures = Failures::new(counters.clone(), source.clock.clone(), format!("of {}", source.channel));
        let publishing = Publishing {
            publisher,
            write: self.write,
            value: Vec::new(),
            is_gathering: false,
            left: PUBLISHED_MAX,
            failures,
            source,
        };
        let publishing = Arc::new(Mutex::new(Some(publishing)));
        let entry = Entry { queue: queue.clone(), publishing: publishing.clone(), counters };
        let entry: Arc<dyn QueueOf<T>> = Arc::new(entry);
        Ok((Box::new(entry), Box::new(Queue { queue, publishing, ending })))
    }
}

/// The end of a connection that hands over octets.
struct Writing<T> {
    write: fn(&T, &mut Vec<u8>),
    take: TakeWritten,
    counters: Arc<PortCounters>,
}

impl<T> Deliver<T> for Writing<T> {
    fn deliver(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        let mut value = Vec::new();
        let written = contained(|| {
            (self.write)(event, &mut value);
            Ok(())
        });
        match written {
            Ok(()) => (self.take)(origin, &value),
            Err(reason) => {
                // The first is logged, the others are counted.
                if self.counters.failed.get() == 0 {
                    log::warn!("an event of {} was not written: {reason}", origin.source);
                }
                self.counters.failed.count_shared();
            }
        }
        Ok(())
    }
}

/// A source that is published by a thread.
pub(crate) trait Outlet: Send {
    /// Publishes some of the events that wait.
    fn publish(&mut self) -> Round;

    /// Counts events that were published and are lost.
    fn count_losses(&mut self);

    /// Whether the thread has something to do for it.
    fn has_work(&self) -> bool;
}

/// What a thread did for a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// No event waited.
    Idle,
    /// Events were published.
    Some,
    /// The source has ended.
    Ended,
}

/// What publishes the events of a source: its lane, or the thread behind its queue.
struct Publishing<T> {
    // It ends before the context says so.
    publisher: Box<dyn Publisher>,
    write: fn(&T, &mut Vec<u8>),
    value: Vec<u8>,
    is_gathering: bool,
    /// Events that are published yet once the end has begun: a component that sends on does not delay it.
    left: u32,
    failures: Failures,
    source: SourceContext,
}

/// What a source publishes by. `None` once the thread has no part in it any more, and nothing is published.
type Shared<T> = Arc<Mutex<Option<Publishing<T>>>>;

impl<T> Publishing<T> {
    /// Publishes an event with what is left of its timeout; false if that cannot be `at_once`.
    fn publish(&mut self, event: &T, (priority, expires): (i16, Option<Instant>), at_once: bool) -> bool {
        let Self { publisher, write, value, source, failures, .. } = self;
        let timeout = expires.map(|expires| expires.saturating_duration_since(source.clock.now()));
        if timeout.is_some_and(|left| left.is_zero()) {
            source.counters.expired.count_shared();
            return true;
        }
        let qos = EventQos { priority, timeout };
        value.clear();
        let outcome = contained(|| {
            write(event, value);
            if at_once { publisher.publish_at_once(value, qos) } else { publisher.publish(value, qos).map(|()| true) }
        });
        outcome.unwrap_or_else(|error| {
            failures.count(&Lost::one(error));
            true
        })
    }

    /// Publishes some of the events that wait.
    fn publish_queued(&mut self, queue: &dyn QueueOf<T>) -> Round {
        for round in 0..ROUND_MAX {
            let ending = self.source.ending.get().copied();
            if ending.is_some_and(|by| self.left == 0 || Instant::now() >= by) {
                self.drop_queued(queue);
                return Round::Ended;
            }
            let Some(queued) = queue.take() else {
                if std::mem::take(&mut self.is_gathering) {
                    self.publisher.flush();
                }
                return match ending {
                    Some(_) => Round::Ended,
                    None if round == 0 => Round::Idle,
                    None => Round::Some,
                };
            };
            self.left -= u32::from(ending.is_some());
            self.is_gathering = true;
            self.publish(queued.event(), queued.qos(), false);
        }
        Round::Some
    }

    /// Drops events that wait: no more than a queue has, since a component may send on.
    fn drop_queued(&mut self, queue: &dyn QueueOf<T>) {
        for _ in 0..PUBLISHED_MAX {
            let Some(_queued) = queue.take() else { return };
            self.failures.count(&Lost::one("its source ended first".to_owned()));
        }
    }

    fn count_losses(&mut self) {
        let lost = contained(|| Ok(self.publisher.lost())).unwrap_or_else(|reason| Some(Lost::one(reason)));
        if let Some(lost) = lost {
            self.failures.count(&lost);
        }
    }
}

/// Counts what is left in a queue from which nothing is published any more.
fn count_left<T>(queue: &dyn QueueOf<T>, counters: &PortCounters) {
    for _ in 0..PUBLISHED_MAX {
        // An event may panic when it is dropped.
        if contained(|| Ok(queue.take().is_none())).unwrap_or(false) {
            return;
        }
        counters.failed.count_shared();
    }
}

/// The way from a source to what publishes its events, for its lane.
struct Entry<T> {
    queue: Arc<dyn QueueOf<T>>,
    publishing: Shared<T>,
    counters: Arc<PortCounters>,
}

impl<T> QueueOf<T> for Entry<T> {
    fn put(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        // The thread publishes what it takes under this lock, so that no event overtakes one that waited.
        if let Ok(mut publishing) = self.publishing.try_lock() {
            let Some(publishing) = &mut *publishing else {
                self.counters.failed.count_shared();
                return Ok(());
            };
            if self.queue.is_empty() && publishing.publish(event, (origin.priority, origin.expires), true) {
                return Ok(());
            }
        }
        self.queue.put(event, origin)?;
        if self.publishing.try_lock().is_ok_and(|publishing| publishing.is_none()) {
            count_left(&*self.queue, &self.counters);
        }
        Ok(())
    }

    fn take(&self) -> Option<Queued<T>> {
        self.queue.take()
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// The queue of a source, for the thread.
struct Queue<T> {
    queue: Arc<dyn QueueOf<T>>,
    publishing: Shared<T>,
    ending: Ending,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Publishing<T>>> {
        self.publishing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: 'static> Outlet for Queue<T> {
    fn publish(&mut self) -> Round {
        let mut publishing = self.lock();
        let Some(publishing) = &mut *publishing else { return Round::Ended };
        // An event may panic when it is dropped.
        contained(|| Ok(publishing.publish_queued(&*self.queue))).unwrap_or_else(|reason| {
            publishing.failures.count(&Lost::one(reason));
            Round::Some
        })
    }

    fn count_losses(&mut self) {
        if let Some(publishing) = &mut *self.lock() {
            publishing.count_losses();
        }
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.ending.get().is_some()
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        // Its end may wait for the service: that is not for the lane that has the other half.
        let publishing = self.lock().take();
        if let Some(mut publishing) = publishing {
            count_left(&*self.queue, &publishing.source.counters);
            let left = self.ending.get().map_or(END_MAX, |by| by.saturating_duration_since(Instant::now()));
            let close = || {
                publishing.publisher.close(left);
                Ok(())
            };
            if let Err(reason) = contained(close) {
                log::warn!("the end of {} failed: {reason}", publishing.source.channel);
            }
            publishing.count_losses();
        }
    }
}

/// A thread that publishes the events of several sources, in turn. It ends when this is dropped.
struct PublishThread {
    waker: Arc<Waker>,
    signals: Arc<Signals>,
    more: Sender<Box<dyn Outlet>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signals {
    has_more: AtomicBool,
    stop: AtomicBool,
}

impl PublishThread {
    fn start() -> Result<Self, String> {
        let (waker, signals) = (Arc::<Waker>::default(), Arc::<Signals>::default());
        let (more, fresh) = channel();
        let (woken, shared) = (waker.clone(), signals.clone());
        let thread = std::thread::Builder::new()
            .name("publish".to_owned())
            .spawn(move || publish_all(&woken, &shared, &fresh))
            .map_err(|error| error.to_string())?;
        Ok(Self { waker, signals, more, thread: Some(thread) })
    }

    fn add(&self, outlet: Box<dyn Outlet>) -> Result<(), String> {
        self.more.send(outlet).map_err(|_| "the thread that publishes has ended".to_owned())?;
        self.signals.has_more.store(true, Ordering::Release);
        self.waker.wake();
        Ok(())
    }
}

fn publish_all(waker: &Waker, signals: &Signals, fresh: &Receiver<Box<dyn Outlet>>) {
    waker.attach();
    let mut outlets = Vec::<Box<dyn Outlet>>::new();
    let mut losses_due = Instant::now() + LOSSES_EVERY;
    while !signals.stop.load(Ordering::Acquire) {
        if signals.has_more.swap(false, Ordering::AcqRel) {
            outlets.extend(fresh.try_iter());
        }
        let mut is_idle = true;
        for ended in outlets.extract_if(.., |outlet| {
            let round = outlet.publish();
            is_idle &= round == Round::Idle;
            round == Round::Ended
        }) {
            // It waits for its service, and the others do not wait for it. Without a thread it ends here.
            let _ = std::thread::Builder::new().name("publish end".to_owned()).spawn(move || drop(ended));
        }
        let now = Instant::now();
        if now >= losses_due {
            losses_due = now + LOSSES_EVERY;
            outlets.iter_mut().for_each(|outlet| outlet.count_losses());
        }
        if is_idle {
            let has_work = || {
                signals.has_more.load(Ordering::Acquire)
                    || signals.stop.load(Ordering::Acquire)
                    || outlets.iter().any(|outlet| outlet.has_work())
            };
            waker.sleep(has_work, (!outlets.is_empty()).then_some(losses_due));
        }
    }
}

impl Drop for PublishThread {
    fn drop(&mut self) {
        self.signals.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A source's part of a thread. When this is dropped, what waits has been published, or its time was over.
struct SourceEnd {
    waker: Arc<Waker>,
    ending: Ending,
    done: Receiver<()>,
}

impl SourceEnd {
    fn stop(&self) {
        self.ending.get_or_init(|| Instant::now() + END_MAX);
        self.waker.wake();
    }
}

impl Drop for SourceEnd {
    fn drop(&mut self) {
        self.stop();
        let _ = self.done.recv();
    }
}

/// What the ports of a server, a container or an instance share of a service.
pub(crate) struct Unit {
    /// The service, where it is, and the name of this part of it.
    key: UnitKey,
    // It ends before the service.
    publishing: OnceCell<PublishThread>,
    service: Box<dyn Service>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitKey {
    service: &'static str,
    at: Option<String>,
    domain: Option<u16>,
    name: String,
}

impl Unit {
    fn of_settings(settings: &Settings) -> Rc<Self> {
        let (at, name) = (Some(settings.server.clone()), settings.name.clone().unwrap_or_default());
        let key = UnitKey { service: "simple API", at, domain: None, name };
        let service = Box::new(Simple::new(settings.clone()));
        Rc::new(Self { key, publishing: OnceCell::new(), service })
    }

    fn publishing(&self) -> Result<&PublishThread, String> {
        if self.publishing.get().is_none() {
            let _ = self.publishing.set(PublishThread::start()?);
        }
        self.publishing.get().ok_or_else(|| "there is no thread".to_owned())
    }
}

/// What the ports of a server share of a service: its connections, and a thread that publishes where there are sources.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceStatus {
    /// The service, by its name in plans.
    pub service: &'static str,
    /// The name under which the service knows it: of the plan and the server, with those of the container and the instance where each has
    /// its own.
    pub name: String,
    /// Sources that it publishes.
    pub sources: usize,
    /// Sinks that subscribe by it.
    pub sinks: usize,
}

impl Server {
    /// Has the events of a channel come to a sink, as `instance.port`, by its queue. The settings say by which service.
    ///
    /// # Errors
    /// There is no such sink, its events cannot be copied, or the service cannot be reached or refuses.
    pub fn subscribe(&mut self, sink: &str, channel: &str, settings: &Settings) -> Result<(), Error> {
        self.subscribe_by(&Unit::of_settings(settings), sink, channel, channel)
    }

    /// Has the events of a source, as `instance.port`, published in a channel. The lane of the source sends those that can leave at once, and
    /// waits for none: of more than 1,024 that wait the oldest go, and are counted as discarded; those that the service does not take, or
    /// loses, count as failed, those that expire before as expired. The settings say by which service.
    ///
    /// # Errors
    /// There is no such source, its events cannot be copied, or the service cannot be reached or refuses.
    pub fn publish(&mut self, source: &str, channel: &str, settings: &Settings) -> Result<(), Error> {
        self.publish_by(&Unit::of_settings(settings), source, channel, &SourceQos::default())
    }

    /// What this server has of services.
    #[must_use]
    pub fn services(&self) -> Vec<ServiceStatus> {
        let mut units = Vec::<(&Rc<Unit>, ServiceStatus)>::new();
        for end in &self.remote_ends {
            let place = units.iter().position(|(unit, _)| Rc::ptr_eq(unit, &end.unit)).unwrap_or_else(|| {
                let UnitKey { service, name, .. } = end.unit.key.clone();
                units.push((&end.unit, ServiceStatus { service, name, sources: 0, sinks: 0 }));
                units.len() - 1
            });
            if let Some((_, status)) = units.get_mut(place) {
                match end.end {
                    End::Sink { .. } => status.sinks += 1,
                    End::Source(_) => status.sources += 1,
                    End::Link(_) => {}
                }
            }
        }
        units.into_iter().map(|(_, status)| status).collect()
    }

    /// What a port of a plan has of its container's service, with those with which it shares that. It is opened at the first of them.
    pub(crate) fn unit_of(&self, plan: &Plan, port: &str) -> Result<Rc<Unit>, Problem> {
        let problem = |reason: String| Problem::new(port, reason);
        let (container, service) = plan
            .container_of(port)
            .and_then(|container| Some((container, container.service?)))
            .ok_or_else(|| problem("its container has no service".to_owned()))?;
        let name = plan.unit_name(port).ok_or_else(|| problem("it has no container".to_owned()))?;
        let key = UnitKey { service: service.name(), at: container.at.clone(), domain: container.domain, name };
        if let Some(end) = self.remote_ends.iter().find(|end| end.unit.key == key) {
            return Ok(end.unit.clone());
        }
        let mut settings = Settings::load().map_err(|error| problem(error.to_string()))?;
        settings.name = Some(key.name.clone());
        let opened = service.open(container, settings).map_err(problem)?;
        log::info!("{} has its connections to the service {}", key.name, key.service);
        Ok(Rc::new(Unit { key, publishing: OnceCell::new(), service: opened }))
    }

    pub(crate) fn subscribe_by(
        &mut self,
        unit: &Rc<Unit>,
        sink: &str,
        channel: &str,
        source: &str,
    ) -> Result<(), Error> {
        let problem = |reason| Error::Port { port: sink.to_owned(), reason };
        let (name, _) = self.find(sink, PortKind::Sink)?;
        let (lane, settings) = (self.lane_of(&name.instance)?, self.port_settings(&name));
        let (port, counters) = self.remote(&name).ok_or_else(|| problem("its events cannot travel".to_owned()))?;
        let owner = name.instance.clone();
        let queue = settings.queue.unwrap_or_default();
        let queue = self.on_lane(lane, move |lane| lane.queue(name.as_pair(), &queue))?.map_err(problem)?;
        let context = SinkContext { source: source.into(), clock: self.clock.clone(), counters };
        let declared = port.declared().map_err(problem)?;
        let take = port.taking(queue, context).map_err(problem)?;
        let subscription =
            unit.service.subscribe(channel, &declared, settings.when.as_deref(), take).map_err(problem)?;
        let end = End::Sink { _subscription: subscription };
        self.remote_ends.push(RemoteEnd { owner, end, unit: unit.clone() });
        Ok(())
    }

    /// Has the service of a source make a link for it, from the server's start until the instance ends.
    pub(crate) fn link_by(&mut self, unit: &Rc<Unit>, source: &str, link: &PlannedLink) -> Result<(), Error> {
        let entry = toml::to_string(link)
            .map_err(|error| Error::Port { port: source.to_owned(), reason: error.to_string() })?;
        let owner = source.split_once('.').map_or(source, |(instance, _)| instance).to_owned();
        let (source, name) = (source.to_owned(), link.name.clone());
        let end = End::Link(LinkEnd { source, name, entry, is_made: Cell::default(), ending: OnceCell::new() });
        self.remote_ends.push(RemoteEnd { owner, end, unit: unit.clone() });
        Ok(())
    }

    pub(crate) fn publish_by(
        &mut self,
        unit: &Rc<Unit>,
        source: &str,
        channel: &str,
        qos: &SourceQos,
    ) -> Result<(), Error> {
        let problem = |reason| Error::Port { port: source.to_owned(), reason };
        let (name, _) = self.find(source, PortKind::Source)?;
        let lane = self.lane_of(&name.instance)?;
        let (port, counters) = self.remote(&name).ok_or_else(|| problem("its events cannot travel".to_owned()))?;
        let declared = port.declared().map_err(problem)?;
        let publisher = unit.service.publisher(channel, &declared, qos).map_err(problem)?;
        let publishing = unit.publishing().map_err(problem)?;
        let (waker, ending) = (publishing.waker.clone(), Ending::default());
        let (sender, done) = std::sync::mpsc::channel();
        let context = SourceContext {
            channel: channel.to_owned(),
            clock: self.clock.clone(),
            counters,
            waker: waker.clone(),
            ending: ending.clone(),
            _done: sender,
        };
        let (queue, outlet) = port.outlet(publisher, context).map_err(problem)?;
        publishing.add(outlet).map_err(problem)?;
        let end = End::Source(SourceEnd { waker, ending, done });
        let (owner, channel) = (name.instance.clone(), Arc::from(channel));
        self.on_lane(lane, move |lane| lane.connect_queue(name.as_pair(), &channel, queue))?;
        self.remote_ends.push(RemoteEnd { owner, end, unit: unit.clone() });
        Ok(())
    }
}

#[cfg(test)]
mod tests;

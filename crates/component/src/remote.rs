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
use crate::lane::Clock;
use crate::plan::{Plan, Problem};
use crate::queue::{QueueOf, QueueSettings, Queued, Queueing};
use crate::route::{AnyQueue, Origin};
use crate::server::Server;
use crate::services::{Publisher, Service, Simple, SourceQos, Take};
use crate::threads::Waker;
use campanile::raw::EventQos;
use campanile::{Declared, Defaults, Event, Settings};
use giop::cdr::{Reader, Writer};
use std::any::Any;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Events that wait for being published: as many as a subscription's queue has at most by default.
const PUBLISHED_MAX: u32 = 1_024;

/// Events of one source that are published before the others of its thread have theirs looked at.
const ROUND_MAX: u32 = 64;

/// The end of a port, which ends with its instance: a subscription, or a part of a thread that publishes.
pub(crate) struct RemoteEnd {
    pub(crate) owner: String,
    kind: PortKind,
    // It ends before what it shares.
    _end: Box<dyn Any>,
    unit: Rc<Unit>,
}

/// A port whose events can travel.
pub(crate) trait RemotePort: Send + Sync {
    /// The type of its events.
    fn declared(&self) -> Result<Declared, String>;

    /// What puts values into the queue of a sink.
    fn taking(&self, queue: AnyQueue, sink: SinkContext) -> Result<Take, String>;

    /// A queue, and what publishes the events that are put into it.
    fn outlet(
        &self,
        publisher: Box<dyn Publisher>,
        source: SourceContext,
    ) -> Result<(AnyQueue, Box<dyn Outlet>), String>;
}

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
    stop: Arc<AtomicBool>,
    /// Dropped when the end has published all.
    _done: Sender<()>,
}

/// A port of a type: how its events become octets in CDR, and octets events.
pub(crate) struct Remote<T> {
    pub(crate) queueing: Option<Queueing<T>>,
    pub(crate) declare: Box<dyn Fn() -> Result<Declared, String> + Send + Sync>,
    pub(crate) write: fn(&T, &mut Vec<u8>),
    pub(crate) read: fn(&[u8]) -> Result<T, String>,
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
            write: |event, to| event.write(&mut Writer::new(to, NATIVE)),
            read: |value| T::read(&mut Reader::new(value, NATIVE)).map_err(|error| error.kind.to_string()),
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
        let take =
            move |value: Result<&[u8], String>, EventQos { priority, timeout }: EventQos| match value.and_then(read) {
                Ok(event) => {
                    let sent = clock.now();
                    let expires = timeout.and_then(|timeout| sent.checked_add(timeout));
                    // A full queue has counted it.
                    let _ = queue.put(&event, &Origin { source: &source, sent, priority, expires });
                }
                Err(reason) => {
                    if counters.failed.get() == 0 {
                        log::warn!("what came from {source} is no event: {reason}; further failures are counted");
                    }
                    counters.failed.count_shared();
                }
            };
        Ok(Box::new(take))
    }

    fn outlet(
        &self,
        publisher: Box<dyn Publisher>,
        source: SourceContext,
    ) -> Result<(AnyQueue, Box<dyn Outlet>), String> {
        let queueing = self.queueing.ok_or("its events are not Clone and Send: derive Clone")?;
        let settings = QueueSettings { events_max: PUBLISHED_MAX, ..QueueSettings::default() };
        let queue = (queueing.make)(&settings, source.waker.clone(), source.counters.clone());
        let stop = source.stop.clone();
        let publishing = Publishing {
            publisher,
            write: self.write,
            value: Vec::new(),
            is_failing: false,
            is_gathering: false,
            source,
        };
        let publishing = Arc::new(Mutex::new(Some(publishing)));
        let entry: Arc<dyn QueueOf<T>> = Arc::new(Entry { queue: queue.clone(), publishing: publishing.clone() });
        Ok((Box::new(entry), Box::new(Queue { queue, publishing, stop })))
    }
}

/// A source that is published by a thread.
pub(crate) trait Outlet: Send {
    /// Publishes some of the events that wait; false if there are none.
    fn publish(&mut self) -> bool;

    /// Whether the thread has something to do for it.
    fn has_work(&self) -> bool;

    /// Whether it was stopped, and has no more events.
    fn has_ended(&self) -> bool;
}

/// What publishes the events of a source: its lane, or the thread behind its queue.
struct Publishing<T> {
    // It ends before the context says so.
    publisher: Box<dyn Publisher>,
    write: fn(&T, &mut Vec<u8>),
    value: Vec<u8>,
    is_failing: bool,
    is_gathering: bool,
    source: SourceContext,
}

/// What a source publishes by. `None` once the thread has no part in it any more, and nothing is published.
type Shared<T> = Arc<Mutex<Option<Publishing<T>>>>;

impl<T> Publishing<T> {
    /// Publishes an event with what is left of its timeout; false if that cannot be `at_once`.
    fn publish(&mut self, event: &T, (priority, expires): (i16, Option<Instant>), at_once: bool) -> bool {
        let Self { publisher, write, value, source, .. } = self;
        let timeout = expires.map(|expires| expires.saturating_duration_since(source.clock.now()));
        if timeout.is_some_and(|left| left.is_zero()) {
            source.counters.expired.count_shared();
            return true;
        }
        let qos = EventQos { priority, timeout };
        value.clear();
        write(event, value);
        let outcome =
            if at_once { publisher.publish_at_once(value, qos) } else { publisher.publish(value, qos).map(|()| true) };
        if let Err(error) = &outcome {
            source.counters.failed.count_shared();
            if !self.is_failing {
                let channel = &source.channel;
                log::warn!("an event of {channel} was not published: {error}; further ones are counted");
            }
        }
        // What could not be tried says nothing.
        self.is_failing = outcome.is_err() || (self.is_failing && outcome == Ok(false));
        outcome.unwrap_or(true)
    }

    /// Publishes some of the events that wait; false if there are none.
    fn publish_queued(&mut self, queue: &dyn QueueOf<T>) -> bool {
        for round in 0..ROUND_MAX {
            let Some(queued) = queue.take() else {
                if std::mem::take(&mut self.is_gathering) {
                    self.publisher.flush();
                }
                return round > 0;
            };
            self.publish(queued.event(), queued.qos(), false);
            self.is_gathering = true;
            if self.is_failing && self.source.stop.load(Ordering::Acquire) {
                // Each of the others might take as long to fail, and its server waits for that.
                while queue.take().is_some() {
                    self.source.counters.failed.count_shared();
                }
            }
        }
        true
    }
}

/// The way from a source to what publishes its events, for its lane.
struct Entry<T> {
    queue: Arc<dyn QueueOf<T>>,
    publishing: Shared<T>,
}

impl<T> QueueOf<T> for Entry<T> {
    fn put(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        // The thread publishes what it takes under this lock, so that no event overtakes one that waited.
        if let Ok(mut publishing) = self.publishing.try_lock()
            && let Some(publishing) = &mut *publishing
            && self.queue.is_empty()
            && publishing.publish(event, (origin.priority, origin.expires), true)
        {
            return Ok(());
        }
        self.queue.put(event, origin)
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
    stop: Arc<AtomicBool>,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Publishing<T>>> {
        self.publishing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: 'static> Outlet for Queue<T> {
    fn publish(&mut self) -> bool {
        self.lock().as_mut().is_some_and(|publishing| publishing.publish_queued(&*self.queue))
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.stop.load(Ordering::Acquire)
    }

    fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Acquire) && self.queue.is_empty()
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        // Its end may wait for the service: that is for this thread, not for the lane that has the other half.
        let publishing = self.lock().take();
        drop(publishing);
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

    fn add(&self, outlet: Box<dyn Outlet>) {
        // A thread that panicked, which has said so, publishes nothing.
        let _ = self.more.send(outlet);
        self.signals.has_more.store(true, Ordering::Release);
        self.waker.wake();
    }
}

fn publish_all(waker: &Waker, signals: &Signals, fresh: &Receiver<Box<dyn Outlet>>) {
    waker.attach();
    let mut outlets = Vec::<Box<dyn Outlet>>::new();
    loop {
        if signals.has_more.swap(false, Ordering::AcqRel) {
            outlets.extend(fresh.try_iter());
        }
        let mut is_idle = true;
        outlets.retain_mut(|outlet| {
            is_idle &= !outlet.publish();
            !outlet.has_ended()
        });
        if !is_idle {
            continue;
        }
        if signals.stop.load(Ordering::Acquire) {
            return;
        }
        let has_work = || {
            signals.has_more.load(Ordering::Acquire)
                || signals.stop.load(Ordering::Acquire)
                || outlets.iter().any(|outlet| outlet.has_work())
        };
        waker.sleep(has_work, None);
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

/// A source's part of a thread. When this is dropped, all that waits has been published.
struct SourceEnd {
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    done: Receiver<()>,
}

impl Drop for SourceEnd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
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
    /// waits for none: of more than 1,024 that wait the oldest go, and are counted as discarded; those that the service does not take count as failed, those
    /// that expire before as expired. The settings say by which service.
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
                let ports = if end.kind == PortKind::Source { &mut status.sources } else { &mut status.sinks };
                *ports += 1;
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
        let end = unit.service.subscribe(channel, &declared, settings.when.as_deref(), take).map_err(problem)?;
        self.remote_ends.push(RemoteEnd { owner, kind: PortKind::Sink, _end: end, unit: unit.clone() });
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
        let (waker, stop) = (publishing.waker.clone(), Arc::<AtomicBool>::default());
        let (sender, done) = std::sync::mpsc::channel();
        let context = SourceContext {
            channel: channel.to_owned(),
            clock: self.clock.clone(),
            counters,
            waker: waker.clone(),
            stop: stop.clone(),
            _done: sender,
        };
        let (queue, outlet) = port.outlet(publisher, context).map_err(problem)?;
        publishing.add(outlet);
        let end = SourceEnd { waker, stop, done };
        let (owner, channel) = (name.instance.clone(), Arc::from(channel));
        self.on_lane(lane, move |lane| lane.connect_queue(name.as_pair(), &channel, queue))?;
        self.remote_ends.push(RemoteEnd { owner, kind: PortKind::Source, _end: Box::new(end), unit: unit.clone() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Event, Clone)]
    struct Wind {
        speed: f64,
    }

    /// Takes nothing, and counts what it was given.
    struct Refusing(Arc<PortCounters>);

    impl Publisher for Refusing {
        fn publish(&mut self, _: &[u8], _: EventQos) -> Result<(), String> {
            self.0.sent.count();
            Err("there is no room".to_owned())
        }
    }

    #[test]
    fn an_end_does_not_wait_for_each_event_that_a_service_does_not_take() {
        let (counters, given) = (Arc::<PortCounters>::default(), Arc::<PortCounters>::default());
        let (stop, (done, ended)) = (Arc::<AtomicBool>::default(), channel());
        let source = SourceContext {
            channel: "plan.mast.wind".to_owned(),
            clock: Clock::Manual(Instant::now(), Arc::default()),
            counters: counters.clone(),
            waker: Arc::default(),
            stop: stop.clone(),
            _done: done,
        };
        let port = Remote::<Wind>::of(Some(Queueing::new()));
        let (queue, mut outlet) = port.outlet(Box::new(Refusing(given.clone())), source).unwrap();
        let queue = queue.downcast::<Arc<dyn QueueOf<Wind>>>().unwrap();
        let put = || {
            let origin = Origin { source: &"mast.wind".into(), sent: Instant::now(), priority: 0, expires: None };
            queue.put(&Wind { speed: 1.0 }, &origin).unwrap();
        };
        (0..3).for_each(|_| put());
        assert!(outlet.publish(), "there were some");
        assert_eq!((given.sent.get(), counters.failed.get()), (3, 3), "each is tried while the source is there");
        (0..3).for_each(|_| put());
        stop.store(true, Ordering::Release);
        assert!(outlet.has_work() && !outlet.has_ended());
        outlet.publish();
        assert_eq!((given.sent.get(), counters.failed.get()), (4, 6));
        assert!(outlet.has_ended());
        drop(outlet);
        assert!(ended.recv().is_err(), "the end is heard of");
    }
}

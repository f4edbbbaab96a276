//! An instance: a component with its state, where panics end.

use crate::counters::PortCounters;
use crate::declaration::Setup;
use crate::error::{Error, Failure, SendError};
use crate::lane::LaneContext;
use crate::life::{Life, Lifecycle, Step};
use crate::port::{EventSet, Ports};
use crate::queue::{QueueSettings, Queueing, SinkQueue};
use crate::recording::SinkRecorder;
use crate::remote::contained;
use crate::route::{AnyEnd, AnyQueue, AnyRoute, Deliver, Origin};
use crate::sets::{Found, Gathered, Member, SetTerms};
use crate::threads::Busy;
use campanile::raw::EventQos;
use filter::correlation::Terms;
use filter::{Fields, Steps};
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// What other threads see of an instance.
#[derive(Debug)]
pub(crate) struct Shown {
    life: AtomicU8,
    pub(crate) restarts: AtomicU64,
}

impl Shown {
    pub(crate) fn new() -> Self {
        Self { life: AtomicU8::new(Life::Configured as u8), restarts: AtomicU64::new(0) }
    }

    pub(crate) fn life(&self) -> Life {
        let seen = self.life.load(Ordering::Acquire);
        [Life::Configured, Life::Connected, Life::Activated, Life::Passivated, Life::Failed]
            .into_iter()
            .find(|life| *life as u8 == seen)
            .unwrap_or(Life::Removed)
    }
}

/// The state of an instance on its lane.
#[repr(C)] // What each event needs is close together.
pub(crate) struct InstanceState {
    /// Its number among all of the server, from 1.
    pub(crate) number: u64,
    /// Whether events are handed to the component.
    pub(crate) takes_events: Cell<bool>,
    /// Whether the component's sources send.
    pub(crate) may_send: Cell<bool>,
    /// The state that the component was in when it failed.
    pub(crate) resume: Cell<Life>,
    pub(crate) name: Arc<str>,
    pub(crate) context: Rc<LaneContext>,
    pub(crate) shown: Arc<Shown>,
}

impl InstanceState {
    pub(crate) fn life(&self) -> Life {
        self.shown.life()
    }

    pub(crate) fn set_life(&self, life: Life) {
        self.shown.life.store(life as u8, Ordering::Release);
        self.takes_events.set(life == Life::Activated);
        self.may_send.set(life == Life::Activated);
    }

    /// Notes that the component panicked; the lane does what follows when the handlers below have returned.
    pub(crate) fn fail(&self, panic: Box<dyn Any + Send>) {
        if self.life() != Life::Failed {
            self.resume.set(self.life());
        }
        self.set_life(Life::Failed);
        self.context.failed.borrow_mut().push((self.name.clone(), text_of(panic)));
    }
}

/// What a panic says.
pub(crate) fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => {
            panic.downcast::<&str>().map_or_else(|_| "a panic without a text".to_owned(), |text| (*text).to_owned())
        }
    };
    text.chars().take(REASON_CHARACTERS_MAX).collect()
}

/// Characters of a panic's text that are reported.
const REASON_CHARACTERS_MAX: usize = 400;

/// A moment of a component's life at which it has something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hook {
    Configured,
    Step(Step),
}

/// A component of a type, with its state.
pub(crate) struct Instance<C> {
    pub(crate) state: Rc<InstanceState>,
    /// `None` while it has failed or was removed.
    component: RefCell<Option<C>>,
    properties: toml::Table,
    make: Make<C>,
}

/// Makes the component of an instance.
type Make<C> = Box<dyn Fn(&Setup<'_>) -> Result<C, Error>>;

/// An instance of any type.
pub(crate) trait AnyInstance {
    /// Makes the component, from the properties that the instance was configured with.
    fn build(&self, routes: &[(&'static str, Rc<dyn AnyRoute>)]) -> Result<(), Error>;

    /// Has the component do what it does then.
    fn hook(&self, hook: Hook) -> Result<(), Failure>;

    /// Drops the component.
    fn clear(&self);
}

impl<C: Lifecycle> Instance<C> {
    pub(crate) fn new(state: Rc<InstanceState>, properties: toml::Table, make: Make<C>) -> Self {
        Self { state, component: RefCell::default(), properties, make }
    }

    fn error(&self, reason: String) -> Error {
        Error::Failed { instance: self.state.name.to_string(), reason }
    }

    /// Runs a part of the component beside its handlers, as something that may not return. Where it panics, that is answered.
    fn watched<R>(&self, run: impl FnOnce() -> R) -> std::thread::Result<R> {
        let context = &*self.state.context;
        context.busy.begin(context.clock.now().saturating_duration_since(context.base));
        context.busy.enter(self.state.number);
        let outcome = catch_unwind(AssertUnwindSafe(run));
        context.busy.end();
        outcome
    }

    /// Drops a component that panicked. What its destructor panics about is logged.
    fn drop_contained(&self, component: Option<C>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(component))) {
            log::warn!("component {} panicked while it was dropped: {}", self.state.name, text_of(panic));
        }
    }
}

impl<C: Lifecycle> AnyInstance for Instance<C> {
    fn build(&self, routes: &[(&'static str, Rc<dyn AnyRoute>)]) -> Result<(), Error> {
        let setup = Setup { instance: &self.state.name, routes, properties: &self.properties };
        match self.watched(|| (self.make)(&setup)) {
            Ok(Ok(component)) => {
                self.component.replace(Some(component));
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            Err(panic) => Err(self.error(text_of(panic))),
        }
    }

    fn hook(&self, hook: Hook) -> Result<(), Failure> {
        let context = &*self.state.context;
        let origin =
            Origin { source: &context.no_source, sent: context.clock.now(), priority: 0, expires: None, set: None };
        let ports = Ports { instance: &self.state.name, port: "", origin: &origin };
        let mut slot = self.component.borrow_mut();
        let Some(component) = slot.as_mut() else { return Ok(()) };
        let run = || match hook {
            Hook::Configured => component.on_configured(&ports),
            Hook::Step(Step::Connect) => component.on_connected(&ports),
            Hook::Step(Step::Activate) => component.on_activated(&ports),
            Hook::Step(Step::Passivate) => component.on_passivated(&ports),
            Hook::Step(Step::Remove) => component.on_removed(&ports),
        };
        let (outcome, reason) = match self.watched(run) {
            Ok(Err(failure)) if failure.is_broken() => (Err(failure.clone().into_panic()), failure.to_string()),
            outcome => (outcome, "it panicked".to_owned()),
        };
        outcome.unwrap_or_else(|panic| {
            let broken = slot.take();
            drop(slot);
            self.state.fail(panic);
            self.drop_contained(broken);
            Err(Failure::new(reason))
        })
    }

    fn clear(&self) {
        let component = self.component.borrow_mut().take();
        // A panic is contained already.
        let _ = self.watched(|| self.drop_contained(component));
    }
}

/// A sink of an instance, with the handler that takes its events.
#[repr(C)] // What each event needs is close together.
pub(crate) struct SinkEnd<C, T, F> {
    instance: Rc<Instance<C>>,
    /// The state of the instance and what notes its lane's handlers, without the way through the instance at each event.
    state: Rc<InstanceState>,
    busy: Arc<Busy>,
    counters: Arc<PortCounters>,
    /// Whether it has a filter, or is recorded.
    has_hooks: Cell<bool>,
    handler: F,
    port: &'static str,
    parts: Box<SinkParts<T>>,
}

/// What a sink may have.
struct SinkParts<T> {
    kind: SinkKind<T>,
    filter: OnceCell<Filter<T>>,
    queue: OnceCell<SinkQueue<T>>,
    /// Where its events come in sets.
    gathered: OnceCell<RefCell<Gathered<T>>>,
    /// Where it is recorded.
    recorder: OnceCell<SinkRecorder>,
}

/// Whether an event gets through.
pub(crate) type Filter<T> = Box<dyn Fn(&T, &Origin<'_>) -> bool>;

/// Makes a filter of a text.
pub(crate) type MakeFilter<T> = Box<dyn Fn(&str) -> Result<Filter<T>, String>>;

/// Hands over what a correlation sees of an event, if that is a value of its type.
pub(crate) type WithFields<T> = Box<dyn Fn(&T, EventQos, &mut dyn FnMut(&dyn Fields))>;

/// What is known of a type of events.
pub(crate) struct EventKind<T> {
    pub(crate) filter: MakeFilter<T>,
    pub(crate) fields: WithFields<T>,
    pub(crate) write: fn(&T, &mut Vec<u8>),
    pub(crate) read: ReadValue<T>,
}

/// Reads an event of octets in CDR.
pub(crate) type ReadValue<T> = Box<dyn Fn(&[u8]) -> Result<T, String>>;

/// What a sink of a type can have.
pub(crate) struct SinkKind<T> {
    /// `None` for ticks.
    pub(crate) event: Option<EventKind<T>>,
    /// `None` for events that cannot be copied.
    pub(crate) queueing: Option<Queueing<T>>,
}

/// A sink of any type.
pub(crate) trait AnySink: Member {
    /// The end of a connection that calls the handler.
    fn end(self: Rc<Self>) -> AnyEnd;

    /// Has each event recorded that is handed to the component.
    fn record(&self, recorder: SinkRecorder);

    /// Has a recorded event handled, past the queue, the filter and the sets.
    fn feed(&self, value: &[u8], origin: &Origin<'_>) -> Result<(), String>;

    /// Sets the filter that each event has to pass.
    fn set_filter(&self, text: &str) -> Result<(), String>;

    /// The queue, which is made at the first call.
    fn queue(&self, settings: &QueueSettings) -> Result<AnyQueue, String>;

    /// Whether there can be a queue.
    fn check_queue(&self) -> Result<(), String>;

    /// Whether there is a queue.
    fn is_queued(&self) -> bool;

    /// Has an event of the queue handled; false if there is none, or the instance is not active.
    fn serve(&self) -> bool;

    /// The name of the instance.
    fn owner(&self) -> &str;

    /// Whether [`serve`](Self::serve) has something to do.
    fn has_queued(&self) -> bool;
}

impl<C, T, F> SinkEnd<C, T, F> {
    pub(crate) fn new(
        instance: Rc<Instance<C>>,
        port: &'static str,
        handler: F,
        counters: Arc<PortCounters>,
        kind: SinkKind<T>,
    ) -> Self {
        let state = instance.state.clone();
        let busy = state.context.busy.clone();
        let (filter, queue, gathered, recorder) = (OnceCell::new(), OnceCell::new(), OnceCell::new(), OnceCell::new());
        let parts = Box::new(SinkParts { kind, filter, queue, gathered, recorder });
        Self { instance, state, busy, port, handler, counters, has_hooks: Cell::new(false), parts }
    }
}

impl<C: Lifecycle + 'static, T: 'static, F: Fn(&mut C, &T, &Ports<'_>) -> Result<(), Failure> + 'static>
    SinkEnd<C, T, F>
{
    /// What follows when a handler failed.
    #[cold]
    fn failed(&self, failure: &Failure) {
        // The first of each kind of trouble is logged, the others are counted.
        if self.counters.failed.get() == 0 {
            log::warn!("component {}, port {}: {failure}; further failures are counted", self.state.name, self.port);
        }
        self.counters.failed.count_shared();
    }

    /// What follows when a handler panicked.
    #[cold]
    fn panicked(&self, broken: Option<C>, panic: Box<dyn Any + Send>) {
        self.counters.failed.count_shared();
        self.state.fail(panic);
        self.instance.drop_contained(broken);
    }

    fn queueing(&self) -> Result<Queueing<T>, String> {
        self.parts.kind.queueing.ok_or_else(|| {
            format!("a queue copies events, and {} is not Clone and Send: derive Clone", core::any::type_name::<T>())
        })
    }

    /// Whether the filter lets an event through.
    fn passes(&self, event: &T, origin: &Origin<'_>) -> bool {
        let passes = self.parts.filter.get().is_none_or(|filter| filter(event, origin));
        if !passes {
            self.counters.filtered.count();
        }
        passes
    }

    /// Has an event handled that may have to be recorded.
    #[inline(never)]
    fn handle_recorded(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        if let (Some(recorder), Some(kind)) = (self.parts.recorder.get(), &self.parts.kind.event)
            && self.instance.component.try_borrow().is_ok_and(|component| component.is_some())
        {
            recorder.record(origin, |to| (kind.write)(event, to));
        }
        self.handle(event, origin)
    }

    #[expect(clippy::inline_always, reason = "a call of its own for each sink costs as much as what it does")]
    #[inline(always)]
    fn handle(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        let state = &*self.state;
        let Ok(mut slot) = self.instance.component.try_borrow_mut() else {
            self.counters.reentrant.count();
            return Err(SendError::Reentrant);
        };
        let Some(component) = slot.as_mut() else { return Ok(()) };
        let ports = Ports { instance: &state.name, port: self.port, origin };
        self.busy.enter(state.number);
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.handler)(component, event, &ports)));
        match outcome {
            Ok(Ok(())) => self.counters.delivered.count(),
            Ok(Err(failure)) if !failure.is_broken() => self.failed(&failure),
            Ok(Err(failure)) => {
                let broken = slot.take();
                drop(slot);
                self.panicked(broken, failure.into_panic());
            }
            Err(panic) => {
                let broken = slot.take();
                drop(slot);
                self.panicked(broken, panic);
            }
        }
        Ok(())
    }
}

impl<C: Lifecycle + 'static, T: 'static, F: Fn(&mut C, &T, &Ports<'_>) -> Result<(), Failure> + 'static> Deliver<T>
    for SinkEnd<C, T, F>
{
    #[inline]
    fn deliver(&self, event: &T, origin: &Origin<'_>) -> Result<(), SendError> {
        if !self.state.takes_events.get() {
            self.counters.inactive.count();
            return Ok(());
        }
        if self.has_hooks.get() {
            return if self.passes(event, origin) { self.handle_recorded(event, origin) } else { Ok(()) };
        }
        self.handle(event, origin)
    }
}

impl<C: Lifecycle + 'static, T: 'static, F: Fn(&mut C, &T, &Ports<'_>) -> Result<(), Failure> + 'static> AnySink
    for SinkEnd<C, T, F>
{
    fn end(self: Rc<Self>) -> AnyEnd {
        let end: Rc<dyn Deliver<T>> = self;
        Box::new(end)
    }

    fn record(&self, recorder: SinkRecorder) {
        let _ = self.parts.recorder.set(recorder);
        self.has_hooks.set(true);
    }

    fn feed(&self, value: &[u8], origin: &Origin<'_>) -> Result<(), String> {
        let kind = self.parts.kind.event.as_ref().ok_or("a timer takes no events")?;
        let event = contained(|| (kind.read)(value))?;
        let context = &*self.state.context;
        if !self.state.takes_events.get() {
            self.counters.inactive.count();
            return Ok(());
        }
        context.busy.begin(context.clock.now().saturating_duration_since(context.base));
        self.handle_recorded(&event, origin).map_err(|error| error.to_string())
    }

    fn set_filter(&self, text: &str) -> Result<(), String> {
        let kind = self.parts.kind.event.as_ref().ok_or("a timer has no filter")?;
        let filter = (kind.filter)(text)?;
        self.parts
            .filter
            .set(filter)
            .map_err(|_| "it has a filter already: remove the instance to give it another".to_owned())?;
        self.has_hooks.set(true);
        Ok(())
    }

    fn queue(&self, settings: &QueueSettings) -> Result<AnyQueue, String> {
        if let Some(queue) = self.parts.queue.get() {
            return Ok(Box::new(queue.0.clone()));
        }
        let queueing = self.queueing()?;
        let shared = (queueing.make)(settings, self.state.context.waker.clone(), self.counters.clone());
        let queue = self.parts.queue.get_or_init(|| SinkQueue(shared));
        Ok(Box::new(queue.0.clone()))
    }

    fn check_queue(&self) -> Result<(), String> {
        self.queueing().map(drop)
    }

    fn is_queued(&self) -> bool {
        self.parts.queue.get().is_some()
    }

    fn serve(&self) -> bool {
        let state = &self.state;
        let Some(queue) = self.parts.queue.get().filter(|_| state.takes_events.get()) else { return false };
        let now = state.context.clock.now();
        state.context.busy.begin(now.saturating_duration_since(state.context.base));
        let Some(event) = queue.take(now, &self.counters) else { return false };
        // A queue is the first of a chain, so that no handler runs.
        let _ = self.deliver(event.event(), &event.origin());
        true
    }

    fn owner(&self) -> &str {
        &self.state.name
    }

    fn has_queued(&self) -> bool {
        let is_gathered = || self.parts.gathered.get().is_some_and(|gathered| gathered.borrow().has_next());
        self.state.takes_events.get()
            && (self.parts.queue.get().is_some_and(|queue| !queue.is_empty()) || is_gathered())
    }
}

impl<C: Lifecycle + 'static, T: 'static, F: Fn(&mut C, &T, &Ports<'_>) -> Result<(), Failure> + 'static> Member
    for SinkEnd<C, T, F>
{
    fn gather(&self) {
        self.parts.gathered.get_or_init(RefCell::default);
    }

    fn is_gathered(&self) -> bool {
        self.parts.gathered.get().is_some()
    }

    fn next_sent(&self) -> Option<Instant> {
        let (queue, gathered) = (self.parts.queue.get()?, self.parts.gathered.get()?);
        gathered.borrow_mut().next_sent(queue, self.state.context.clock.now(), &self.counters)
    }

    fn take_next(&self, terms: &SetTerms, steps: &mut Steps) -> Option<Found> {
        let (kind, gathered) = (self.parts.kind.event.as_ref()?, self.parts.gathered.get()?);
        let next = gathered.borrow_mut().take_next()?;
        let origin = next.origin();
        if !self.passes(next.event(), &origin) {
            return None;
        }
        let mut found = (Terms::NONE, None);
        let looked = contained(|| {
            (kind.fields)(next.event(), origin.qos(), &mut |fields| found = terms.find(origin.source, fields, steps));
            Ok(())
        });
        if let Err(reason) = looked {
            self.failed(&Failure::new(reason));
            return None;
        }
        let ((terms, key), Origin { sent, expires, .. }) = (found, origin);
        Some(Found { terms, key, sent, expires, slot: gathered.borrow_mut().store(next) })
    }

    fn expires(&self, slot: usize) -> Option<Instant> {
        self.parts.gathered.get()?.borrow().expires(slot)
    }

    fn handle_waiting(&self, slot: usize, set: EventSet) {
        let (state, gathered) = (&*self.state, self.parts.gathered.get());
        let Some(event) = gathered.and_then(|gathered| gathered.borrow_mut().remove(slot)) else { return };
        if !state.takes_events.get() {
            // The component has failed at an event before.
            self.counters.inactive.count();
            return;
        }
        let context = &*state.context;
        context.busy.begin(context.clock.now().saturating_duration_since(context.base));
        // No handler runs.
        let _ = self.handle_recorded(event.event(), &Origin { set: Some(set), ..event.origin() });
    }

    fn drop_waiting(&self, slot: usize) -> &PortCounters {
        let event = self.parts.gathered.get().and_then(|gathered| gathered.borrow_mut().remove(slot));
        drop(event);
        &self.counters
    }
}

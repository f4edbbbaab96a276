//! Receiving objects.

use crate::attached::{self, ALL, Calls, on_own_thread, released};
use crate::dictionary::object;
use crate::errors::{no_type, raise};
use crate::plan::{NATIVE, Plan};
use crate::settings::settings;
use campanile::raw::{CallbackError, OwnedEvent, RawConsumer, RawEvent, RawEvents, RawSubscription};
use campanile::{Declared, Dynamic, EventNumber, Next, Trouble, Value};
use giop::cdr::Reader;
use giop::typecode::Work;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a thread that waits for an event checks for an interrupt by the user.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The channel, settings, the filter, and the position to begin at.
type Of<'a, 'py> = (&'a str, &'a Bound<'py, PyDict>, Option<&'a str>, Option<&'a str>);

/// No event.
const NONE: [u8; 0] = [];

/// A subscription before it begins, with callbacks or with a queue.
struct Beginning<'py> {
    consumer: RawConsumer,
    calls: Arc<Calls>,
    plans: Vec<Bound<'py, Plan>>,
}

impl<'py> Beginning<'py> {
    fn new(
        (channel, options, filter, start_from): Of<'_, 'py>,
        on_trouble: Py<PyAny>,
        slow_after: Duration,
        plans: Vec<Bound<'py, Plan>>,
    ) -> PyResult<Self> {
        let mut consumer = RawConsumer::new(channel).settings(settings(options.py(), options)?).slow_after(slow_after);
        if let Some(filter) = filter {
            consumer = consumer.filter(filter);
        }
        if let Some(start) = start_from {
            let start = start.parse().map_err(|error| raise(options.py(), &campanile::Error::Settings(error)))?;
            consumer = consumer.start_from(start);
        }
        let calls = Arc::new(Calls::new());
        let of_trouble = Arc::clone(&calls);
        consumer = consumer.on_trouble(move |trouble| tell(&of_trouble, &on_trouble, trouble));
        Ok(Self { consumer, calls, plans })
    }
}

/// Passes a trouble report to a callback of Python.
pub(crate) fn tell(calls: &Calls, on_trouble: &Py<PyAny>, trouble: &Trouble) {
    let (kind, types) = match trouble {
        Trouble::Unreachable(_) => ("unreachable", None),
        Trouble::Reachable => ("reachable", None),
        Trouble::Gap(_) => ("gap", None),
        Trouble::Mismatch(mismatch) => ("mismatch", Some((mismatch.declared.clone(), mismatch.came.clone()))),
        Trouble::Unreadable { .. } => ("unreadable", None),
        Trouble::Callback { .. } => ("callback", None),
        Trouble::Slow { .. } => ("slow", None),
        Trouble::Lost { .. } => ("lost", None),
        Trouble::UnknownName { .. } => ("unknown_name", None),
        Trouble::Incompatible { .. } => ("incompatible", None),
        _ => ("other", None),
    };
    let supplier = match trouble {
        Trouble::Mismatch(mismatch) => mismatch.supplier.clone(),
        Trouble::Incompatible { peer, .. } => Some(peer.clone()),
        _ => None,
    };
    // An interpreter that ends hears of nothing any more.
    on_own_thread(calls, |py| {
        let arguments = (kind, trouble.to_string(), types, supplier).into_pyobject(py);
        if let Err(error) = arguments.and_then(|arguments| attached::call(on_trouble.bind(py), &arguments)) {
            error.write_unraisable(py, Some(on_trouble.bind(py)));
        }
    });
}

/// Calls a Python callback with an event.
fn call<'py>(
    callback: &Py<PyAny>,
    py: Python<'py>,
    event: PyResult<Bound<'py, PyAny>>,
    number: Option<Option<EventNumber>>,
) -> Result<(), CallbackError> {
    let outcome = event
        .and_then(|event| match number {
            Some(number) => PyTuple::new(py, [event, number_object(py, number)?]),
            None => PyTuple::new(py, [event]),
        })
        .and_then(|arguments| attached::call(callback.bind(py), &arguments));
    let Err(error) = outcome else { return Ok(()) };
    let is_enough = PyModule::import(py, "campanile._errors")
        .and_then(|module| module.getattr("Enough"))
        .is_ok_and(|enough| error.matches(py, enough).unwrap_or(false));
    if is_enough { Err(CallbackError::Enough) } else { Err(CallbackError::Failed(traced(py, &error))) }
}

/// An event's number as `campanile.EventNumber`, or `None`.
fn number_object(py: Python<'_>, number: Option<EventNumber>) -> PyResult<Bound<'_, PyAny>> {
    let Some(EventNumber { number, came }) = number else { return Ok(py.None().into_bound(py)) };
    PyModule::import(py, "campanile._consumer")?.getattr("EventNumber")?.call1((number, came))
}

/// An exception with its traceback.
fn traced(py: Python<'_>, error: &PyErr) -> String {
    let traceback = error.traceback(py).and_then(|traceback| traceback.format().ok()).unwrap_or_default();
    format!("{traceback}{error}")
}

/// An event as a dictionary, with its domain and name.
fn dictionary<'py>(py: Python<'py>, (domain, name): (&str, &str), value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let class = PyModule::import(py, "campanile._consumer")?.getattr("Dictionary")?;
    class.call1((object(py, value)?, domain, name))
}

fn dictionary_of<'py>(py: Python<'py>, event: &RawEvent<'_>) -> PyResult<Bound<'py, PyAny>> {
    let dynamic = Dynamic::read(event).map_err(|error| no_type(py, &error.to_string()))?;
    dictionary(py, (event.domain, event.name), &dynamic.value)
}

/// Subscribes; callbacks get objects of their classes, the last one dictionaries of all other events.
#[pyfunction]
#[pyo3(signature = (channel, options, filter, start_from, classes, others, on_trouble, slow_after))]
#[expect(clippy::too_many_arguments, reason = "they are Python's")]
pub(crate) fn subscribe<'py>(
    channel: &str,
    options: &Bound<'py, PyDict>,
    filter: Option<&str>,
    start_from: Option<&str>,
    classes: Vec<(Bound<'py, Plan>, Py<PyAny>, bool)>,
    others: Option<Py<PyAny>>,
    on_trouble: Py<PyAny>,
    slow_after: f64,
) -> PyResult<Subscription> {
    let py = options.py();
    let (plans, callbacks): (Vec<_>, Vec<_>) =
        classes.into_iter().map(|(plan, callback, is_numbered)| (plan, (callback, is_numbered))).unzip();
    let slow_after = Duration::try_from_secs_f64(slow_after).unwrap_or(Duration::MAX);
    let Beginning { mut consumer, calls, plans } =
        Beginning::new((channel, options, filter, start_from), on_trouble, slow_after, plans)?;
    for (plan, (callback, is_numbered)) in plans.into_iter().zip(callbacks) {
        let (declared, plan, calls) = (plan.get().declared.clone(), plan.unbind(), Arc::clone(&calls));
        consumer = consumer.on(&declared, move |event| {
            let number = is_numbered.then_some(event.number);
            on_own_thread(&calls, |py| call(&callback, py, plan.get().read(py, event.cdr), number))
                .unwrap_or(Err(CallbackError::Enough))
        });
    }
    if let Some(callback) = others {
        let calls = Arc::clone(&calls);
        consumer = consumer.on_any(move |event| {
            on_own_thread(&calls, |py| call(&callback, py, dictionary_of(py, &event), None))
                .unwrap_or(Err(CallbackError::Enough))
        });
    }
    let subscription = released(py, || consumer.ready()).map_err(|error| raise(py, &error))?;
    Ok(Subscription { inner: Mutex::new(Some(subscription)), calls })
}

/// Prevents further callbacks, and other threads from returning from the library: the interpreter ends on this thread.
#[pyfunction]
pub(crate) fn end_calls() {
    attached::end();
}

/// Waits until no callback runs, for so many seconds at most; returns whether none does.
#[pyfunction]
pub(crate) fn wait_for_calls(py: Python<'_>, limit: f64) -> bool {
    py.detach(|| ALL.wait(Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX)))
}

/// Forgets the callbacks that were running when this process was forked.
#[pyfunction]
pub(crate) fn forget_calls() {
    ALL.forget();
}

/// A subscription with callbacks.
#[pyclass(frozen, weakref, module = "campanile._native")]
pub(crate) struct Subscription {
    inner: Mutex<Option<RawSubscription>>,
    calls: Arc<Calls>,
}

#[pymethods]
impl Subscription {
    /// Whether the subscription has ended.
    #[getter]
    fn has_ended(&self) -> bool {
        self.lock().as_ref().is_none_or(RawSubscription::has_ended)
    }

    /// Times that the subscription was restored at a service.
    #[getter]
    fn reconnections(&self) -> u64 {
        self.lock().as_ref().map_or(0, RawSubscription::reconnections)
    }

    /// Asks the service whether the subscription exists, and makes it anew if not.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let outcome = released(py, || self.lock().as_ref().map_or(Ok(()), RawSubscription::check));
        outcome.map_err(|error| raise(py, &error))
    }

    /// Ends the subscription, and waits for running callbacks for so many seconds at most; not from within one of them.
    fn close(&self, py: Python<'_>, limit: f64) -> PyResult<()> {
        self.calls.close();
        released(py, || {
            let subscription = self.lock().take();
            drop(subscription);
        });
        let begun = Instant::now();
        let limit = Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX);
        while !self.calls.is_inside() {
            let left = limit.saturating_sub(begun.elapsed());
            if released(py, || self.calls.wait(left.min(LOOK_EVERY))) || left.is_zero() {
                break;
            }
            py.check_signals()?;
        }
        Ok(())
    }
}

impl Subscription {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<RawSubscription>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.calls.close();
        let subscription = self.lock().take();
        // A callback that runs may wait for the interpreter, which the thread that drops this has.
        Python::try_attach(|py| py.detach(|| drop(subscription)));
    }
}

/// Subscribes, and queues events until they are taken.
#[pyfunction]
#[pyo3(signature = (channel, options, filter, start_from, classes, others, on_trouble, waiting_max, is_numbered))]
#[expect(clippy::too_many_arguments, reason = "they are Python's")]
pub(crate) fn wait_for<'py>(
    channel: &str,
    options: &Bound<'py, PyDict>,
    filter: Option<&str>,
    start_from: Option<&str>,
    classes: Vec<Bound<'py, Plan>>,
    others: bool,
    on_trouble: Py<PyAny>,
    waiting_max: usize,
    is_numbered: bool,
) -> PyResult<Waiting> {
    let py = options.py();
    let Beginning { consumer, plans, .. } =
        Beginning::new((channel, options, filter, start_from), on_trouble, Duration::MAX, classes)?;
    let declared: Vec<Declared> = plans.iter().map(|plan| plan.get().declared.clone()).collect();
    let events = released(py, || consumer.events(&declared, others, waiting_max)).map_err(|error| raise(py, &error))?;
    let plans = plans.into_iter().map(Bound::unbind).collect();
    let (taken, process) = (Mutex::default(), std::process::id());
    Ok(Waiting { events: Some(events), taken, plans, is_numbered, process })
}

/// Events in a queue until they are taken.
#[pyclass(frozen, weakref, module = "campanile._native")]
pub(crate) struct Waiting {
    events: Option<RawEvents>,
    /// Events taken together, for callers that do not wait here.
    taken: Mutex<VecDeque<OwnedEvent>>,
    plans: Vec<Py<Plan>>,
    /// Whether events have their numbers.
    is_numbered: bool,
    process: u32,
}

#[pymethods]
impl Waiting {
    /// The next event; `None` when none has arrived in so many seconds. Raises `StopIteration` when there will be none any more.
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ends = timeout
            .map(|timeout| Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX))
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(events) = &self.events else { return Err(PyStopIteration::new_err(())) };
        if let Some(event) = self.taken_before() {
            return self.object(py, &event).map(Some);
        }
        loop {
            if std::process::id() != self.process {
                return Err(raise(py, &campanile::Error::Forked));
            }
            let left = ends.map_or(LOOK_EVERY, |ends| ends.saturating_duration_since(Instant::now()).min(LOOK_EVERY));
            match released(py, || events.next_within(left)) {
                Next::Event(event) => return self.object(py, &event).map(Some),
                Next::Ended => return Err(PyStopIteration::new_err(())),
                Next::Late => {}
            }
            py.check_signals()?;
            if ends.is_some_and(|ends| ends <= Instant::now()) {
                return Ok(None);
            }
        }
    }

    /// The next queued event: `(event,)`, `()` when there is none now, `None` when there will be none any more.
    fn next_here<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let events = self.of_this_process(py)?;
        let event = match self.taken_before() {
            Some(event) => event,
            None => match events.take() {
                Next::Event(mut taken) => {
                    let Some(event) = taken.pop_front() else { return PyTuple::new(py, NONE).map(Some) };
                    *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = taken;
                    event
                }
                Next::Late => return PyTuple::new(py, NONE).map(Some),
                Next::Ended => return Ok(None),
            },
        };
        PyTuple::new(py, [self.object(py, &event)?]).map(Some)
    }

    /// A file descriptor that is readable when `next_here` has something to return.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.of_this_process(py)?.descriptor()?.as_raw_fd())
    }

    /// Number of queued events.
    #[getter]
    fn waiting(&self) -> usize {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner).len();
        taken + self.events.as_ref().map_or(0, RawEvents::waiting)
    }

    /// Times that the subscription was restored at a service.
    #[getter]
    fn reconnections(&self) -> u64 {
        self.events.as_ref().map_or(0, |events| events.subscription().reconnections())
    }

    /// Ends the subscription, for all threads.
    fn close(&self) {
        if let Some(events) = self.events.as_ref().filter(|_| std::process::id() == self.process) {
            events.close();
        }
    }
}

impl Waiting {
    fn of_this_process(&self, py: Python<'_>) -> PyResult<&RawEvents> {
        let is_here = std::process::id() == self.process;
        self.events.as_ref().filter(|_| is_here).ok_or_else(|| raise(py, &campanile::Error::Forked))
    }

    fn taken_before(&self) -> Option<OwnedEvent> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn object<'py>(&self, py: Python<'py>, event: &OwnedEvent) -> PyResult<Bound<'py, PyAny>> {
        let value = self.value(py, event)?;
        if !self.is_numbered {
            return Ok(value);
        }
        PyTuple::new(py, [value, number_object(py, event.number)?]).map(Bound::into_any)
    }

    fn value<'py>(&self, py: Python<'py>, event: &OwnedEvent) -> PyResult<Bound<'py, PyAny>> {
        match event.declared.and_then(|place| self.plans.get(place)) {
            Some(plan) => plan.get().read(py, &event.cdr),
            None => {
                let mut reader = Reader::new(&event.cdr, NATIVE);
                let value = Value::read(&event.type_code, &mut reader, &mut Work::default())
                    .map_err(|error| no_type(py, &error.to_string()))?;
                dictionary(py, (&event.domain, &event.name), &value)
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let events = self.events.take();
        if std::process::id() != self.process {
            // In a forked child, the locks within may be held by threads that are not there.
            core::mem::forget(events);
            return;
        }
        Python::try_attach(|py| py.detach(|| drop(events)));
    }
}

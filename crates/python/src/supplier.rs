//! Publishing objects.

use crate::attached::{Calls, goes_on, released};
use crate::errors::{closed, raise};
use crate::events::tell;
use crate::plan::Plan;
use crate::settings::{seconds, settings};
use campanile::raw::{RawPublisher, RawSupplier};
use campanile::{Loss, PublishOptions, PublisherCounters};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyType};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum capacity of the retained buffer for values. Unit: octets.
const RETAINED_MAX: usize = 1 << 20;

/// The plans of classes seen so far.
struct Plans {
    known: Py<PyDict>,
}

impl Plans {
    fn new(py: Python<'_>) -> Self {
        Self { known: PyDict::new(py).unbind() }
    }

    /// The plan of an object's class.
    fn of<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Plan>> {
        let py = object.py();
        let class: Bound<'py, PyType> = object.get_type();
        let known = self.known.bind(py);
        if let Some(plan) = known.get_item(&class)? {
            return Ok(plan.cast_into()?);
        }
        let plan = PyModule::import(py, "campanile._types")?.getattr("plan_of")?.call1((&class,))?;
        known.set_item(class, &plan)?;
        Ok(plan.cast_into()?)
    }
}

/// A reused buffer for values. Of threads that publish at once one has it, and the others allocate.
#[derive(Default)]
struct Buffer(Mutex<Vec<u8>>);

impl Buffer {
    fn take(&self) -> Vec<u8> {
        self.0.try_lock().map(|mut kept| core::mem::take(&mut *kept)).unwrap_or_default()
    }

    fn give_back(&self, mut octets: Vec<u8>) {
        octets.clear();
        if octets.capacity() <= RETAINED_MAX
            && let Ok(mut kept) = self.0.try_lock()
        {
            *kept = octets;
        }
    }
}

/// A closable object: `None` once closed.
struct Open<T>(Mutex<Option<T>>);

impl<T: Send> Open<T> {
    const fn new(it: T) -> Self {
        Self(Mutex::new(Some(it)))
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn get<R>(&self, how: impl FnOnce(&T) -> R) -> Option<R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(how)
    }
}

impl<T: Send + Sync> Open<Arc<T>> {
    /// The object, unless it was closed.
    fn open(&self, py: Python<'_>, what: &str) -> PyResult<Arc<T>> {
        self.get(Arc::clone).ok_or_else(|| {
            // The end of the interpreter closes all: threads that go on until then are to end with it, and not by an exception.
            released(py, || ());
            closed(py, what)
        })
    }
}

/// See `campanile.Supplier`.
#[pyclass(frozen, subclass, weakref, module = "campanile._native")]
pub(crate) struct Supplier {
    inner: Open<Arc<RawSupplier>>,
    plans: Plans,
    buffer: Buffer,
}

#[pymethods]
impl Supplier {
    #[new]
    fn new(py: Python<'_>, channel: &str, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let settings = settings(py, options)?;
        let supplier = released(py, || RawSupplier::new(channel, &settings)).map_err(|error| raise(py, &error))?;
        Ok(Self { inner: Open::new(Arc::new(supplier)), plans: Plans::new(py), buffer: Buffer::default() })
    }

    /// Publishes an event and returns when it has been taken.
    #[pyo3(text_signature = "($self, event, /)")]
    fn publish(&self, py: Python<'_>, event: &Bound<'_, PyAny>) -> PyResult<()> {
        let supplier = self.inner.open(py, "supplier")?;
        let plan = self.plans.of(event)?;
        let plan = plan.get();
        let mut octets = self.buffer.take();
        let outcome = plan.write(event, &mut octets).and_then(|()| {
            let mut raised = None;
            let publish = || supplier.publish_while(&plan.declared, &octets, || goes_on(&mut raised));
            let outcome = released(py, publish);
            outcome.map_err(|error| raised.unwrap_or_else(|| raise(py, &error)))
        });
        self.buffer.give_back(octets);
        outcome
    }

    /// Sets a callback for trouble that `publish` does not raise.
    fn report_to(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let calls = Calls::new();
        self.inner.open(py, "supplier")?.on_trouble(move |trouble| tell(&calls, &callback, trouble));
        Ok(())
    }

    /// Times that the supplier reconnected to the service.
    #[getter]
    fn reconnections(&self) -> u64 {
        self.inner.get(|supplier| supplier.reconnections()).unwrap_or(0)
    }

    /// Number of threads that wait in `publish` for the service to come back.
    #[getter]
    fn waiting(&self) -> u32 {
        self.inner.get(|supplier| supplier.waiting()).unwrap_or(0)
    }

    /// The channel's name.
    #[getter]
    fn channel(&self) -> String {
        self.inner.get(|supplier| supplier.channel().to_owned()).unwrap_or_default()
    }

    /// Disconnects from the service, and ends the waits of other threads for it. May be called repeatedly.
    fn close(&self, py: Python<'_>) {
        let Some(supplier) = self.inner.take() else { return };
        released(py, || {
            supplier.stop_waiting();
            drop(supplier);
        });
    }
}

impl Drop for Supplier {
    fn drop(&mut self) {
        let supplier = self.inner.take();
        Python::try_attach(|py| py.detach(|| drop(supplier)));
    }
}

/// See `campanile.Publisher`.
#[pyclass(frozen, subclass, weakref, module = "campanile._native")]
pub(crate) struct Publisher {
    inner: Open<Arc<RawPublisher>>,
    plans: Plans,
    buffer: Buffer,
}

#[pymethods]
impl Publisher {
    #[new]
    fn new(
        py: Python<'_>,
        supplier: &Supplier,
        gather_events_max: u32,
        gather_time_max: &Bound<'_, PyAny>,
        unanswered_max: u32,
    ) -> PyResult<Self> {
        let supplier = supplier.inner.open(py, "supplier")?;
        let gather_time_max = seconds(gather_time_max)?;
        let options = PublishOptions { gather_events_max, gather_time_max, unanswered_max };
        let publisher = released(py, || supplier.publisher(options)).map_err(|error| raise(py, &error))?;
        Ok(Self { inner: Open::new(Arc::new(publisher)), plans: Plans::new(py), buffer: Buffer::default() })
    }

    /// Publishes an event and returns its number, from 0 on. Waits only while the maximum number of events is on the way.
    #[pyo3(text_signature = "($self, event, /)")]
    fn publish(&self, py: Python<'_>, event: &Bound<'_, PyAny>) -> PyResult<u64> {
        let publisher = self.open(py)?;
        let plan = self.plans.of(event)?;
        let plan = plan.get();
        let mut octets = self.buffer.take();
        let written = plan.write(event, &mut octets);
        let outcome = written.and_then(|()| {
            released(py, || publisher.publish(&plan.declared, &octets)).map_err(|error| raise(py, &error))
        });
        self.buffer.give_back(octets);
        outcome
    }

    /// Sends the gathered events now.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let publisher = self.open(py)?;
        released(py, || publisher.flush());
        Ok(())
    }

    /// Sends the gathered events, waits until the outcome of all events is known, and returns the counts: published, confirmed, refused,
    /// unknown, not sent.
    fn sync(&self, py: Python<'_>) -> PyResult<[u64; 5]> {
        let publisher = self.open(py)?;
        Ok(numbers(&released(py, || publisher.sync())))
    }

    /// Events counted by outcome, as far as known.
    #[pyo3(name = "tally")]
    fn counters(&self, py: Python<'_>) -> PyResult<[u64; 5]> {
        Ok(numbers(&self.open(py)?.counters()))
    }

    /// The next events that did not arrive, or perhaps not: the first number, the one behind the last, and the reason.
    fn next_loss(&self, py: Python<'_>) -> PyResult<Option<(u64, u64, String)>> {
        let loss = self.open(py)?.next_loss();
        Ok(loss.map(|Loss { events, fate, .. }| (events.start, events.end, format!("{fate:?}"))))
    }

    /// Closes the publisher when all outcomes are known, or after so many seconds without an answer. `None` if it was closed before.
    fn close(&self, py: Python<'_>, patience: Option<f64>) -> PyResult<Option<[u64; 5]>> {
        let Some(publisher) = self.inner.take() else { return Ok(None) };
        let limit = patience
            .map_or(Ok(Duration::from_secs(60)), |patience| seconds(&patience.into_pyobject(py)?.into_any()))?;
        let counters = released(py, || match Arc::try_unwrap(publisher) {
            Ok(publisher) => publisher.close_within(limit),
            // Another thread publishes: with that it ends.
            Err(publisher) => Some(publisher.sync()),
        });
        Ok(counters.as_ref().map(numbers))
    }
}

impl Publisher {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<RawPublisher>> {
        self.inner.open(py, "publisher")
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let publisher = self.inner.take();
        Python::try_attach(|py| py.detach(|| drop(publisher)));
    }
}

const fn numbers(counters: &PublisherCounters) -> [u64; 5] {
    [counters.published, counters.confirmed, counters.refused, counters.unknown, counters.not_sent]
}

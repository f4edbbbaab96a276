//! Suppliers of events as octets.

use super::Own;
use super::publisher::{PublishOptions, RawPublisher};
use super::restart::Restart;
use crate::channel::check_name;
use crate::declared::Declared;
use crate::error::{Error, Trouble};
use crate::form::{Envelope, EventQos, write_event};
use crate::link::Link;
use crate::projection::Fault;
use crate::settings::{EventForm, Settings};
use client::InvokeError;
use giop::cdr::Writer;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Publishes events into a channel: values as octets, of any declared types. See [the module](crate::raw).
///
/// When the connection breaks or the service is restarted, `publish` reconnects by itself, and makes the channel again if it is gone. It
/// waits for an absent service for as long as [`Settings::wait_for_restart`] says; then it returns an error.
#[derive(Debug)]
pub struct RawSupplier {
    inner: Own<Arc<Inner>>,
}

/// State shared by a supplier and its publishers.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) link: Link,
    pub(super) channel: String,
    domain: String,
    form: EventForm,
    /// Number of events published, by which ALMA's consumers detect losses.
    count: AtomicU64,
    /// The waits of `publish` for an absent service.
    restart: Restart,
}

impl RawSupplier {
    /// Connects to a channel, which is made if it does not exist.
    ///
    /// # Errors
    /// The settings are wrong, the name is invalid, or the service cannot be reached or refuses.
    pub fn new(channel: &str, settings: &Settings) -> Result<Self, Error> {
        check_name(channel)?;
        let inner = Inner {
            link: Link::new(channel, settings)?,
            channel: channel.to_owned(),
            domain: settings.event_domain.clone(),
            form: settings.event_form,
            count: AtomicU64::new(0),
            restart: Restart::new(settings.wait_for_restart),
        };
        Ok(Self { inner: Own::new(Arc::new(inner)) })
    }

    /// Publishes an event and waits until the service has taken it.
    ///
    /// If the service cannot be reached, or cannot take the event at present, and the event certainly was not taken, it is tried again,
    /// with pauses of a second at most, for as long as [`Settings::wait_for_restart`] says.
    ///
    /// # Errors
    /// [`Error::Value`] if the octets are not a value of the type; otherwise the service's error, or that it cannot be reached.
    /// [`Error::was_not_carried_out`] tells whether the event can be published again without arriving twice.
    pub fn publish(&self, declared: &Declared, cdr: &[u8]) -> Result<(), Error> {
        self.publish_while(declared, cdr, || true)
    }

    /// Publishes as [`publish`](Self::publish) does; while it waits for a restart, `goes_on` is called every 50 ms, on this thread, and
    /// ends the wait by returning `false`. For languages in which a user can interrupt a wait.
    ///
    /// # Errors
    /// The same as of `publish`; after `goes_on` returned `false`, the last failure.
    pub fn publish_while(&self, declared: &Declared, cdr: &[u8], goes_on: impl FnMut() -> bool) -> Result<(), Error> {
        let inner = self.inner.here()?;
        match &inner.link {
            Link::Notification(supplier) => {
                // One for all attempts: it is one event.
                let envelope = inner.envelope(declared);
                let attempt = || {
                    let fault = Cell::new(None);
                    let outcome = supplier.publish_written(|writer| noted(&fault, declared, &envelope, cdr, writer));
                    outcome.map_err(|error| publish_error(fault, declared, error))
                };
                inner.restart.outlast(&inner.channel, attempt, goes_on)
            }
            #[cfg(feature = "dds")]
            Link::Dds(writers) => writers.publish(declared, cdr),
        }
    }

    /// Makes a publisher on the same proxy, which does not wait for each event.
    ///
    /// # Errors
    /// The service cannot be reached.
    pub fn publisher(&self, options: PublishOptions) -> Result<RawPublisher, Error> {
        RawPublisher::new(Arc::clone(self.inner.here()?), options)
    }

    /// Has `callback` called for trouble that [`publish`](Self::publish) does not return: over DDS, readers that [do not
    /// match](Trouble::Incompatible). It is called on other threads, may publish, and may still be returning when the supplier is dropped.
    /// Default: trouble is logged.
    pub fn on_trouble(&self, callback: impl Fn(&Trouble) + Send + Sync + 'static) {
        match self.inner.here().map(|inner| &inner.link) {
            #[cfg(feature = "dds")]
            Ok(Link::Dds(writers)) => writers.tell.on_trouble(Arc::new(callback)),
            Ok(Link::Notification(_)) | Err(_) => drop(callback),
        }
    }

    /// Times that the supplier reconnected: the service was restarted, or had disconnected the supplier.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        match self.inner.anywhere().map(|inner| &inner.link) {
            Some(Link::Notification(supplier)) => supplier.reconnections(),
            _ => 0,
        }
    }

    /// Number of threads in `publish` that wait for the service to come back. Always 0 over DDS.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.inner.here().map_or(0, |inner| inner.restart.waiting())
    }

    /// Ends the waits that [`waiting`](Self::waiting) counts: each such `publish` returns its last failure, and later ones do not wait for
    /// a restart any more. For programs about to close a supplier that other threads publish with.
    pub fn stop_waiting(&self) {
        if let Ok(inner) = self.inner.here() {
            inner.restart.stop();
        }
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.inner.anywhere().map_or("", |inner| &inner.channel)
    }

    /// Disconnects from the service, once its publishers are gone as well. Dropping it does the same.
    pub fn close(self) {
        drop(self);
    }
}

impl Inner {
    pub(super) fn envelope<'e>(&'e self, declared: &'e Declared) -> Envelope<'e> {
        let is_alma = self.form == EventForm::Alma;
        Envelope {
            domain: declared.domain().unwrap_or(&self.domain),
            form: self.form,
            supplier: &self.channel,
            ticks: if is_alma { crate::time::ticks_of(SystemTime::now()) } else { 0 },
            count: if is_alma { self.count.fetch_add(1, Ordering::Relaxed) } else { 0 },
            qos: EventQos::default(),
        }
    }
}

/// Writes an event; notes the fault of its value where the resulting error cannot carry it.
pub(super) fn noted(
    fault: &Cell<Option<Fault>>,
    declared: &Declared,
    envelope: &Envelope<'_>,
    cdr: &[u8],
    writer: &mut Writer<'_>,
) -> Result<(), &'static str> {
    write_event(declared, envelope, cdr, writer).map_err(|found| {
        fault.set(Some(found));
        "the value is none of its type"
    })
}

/// The error, completed by the noted fault.
pub(super) fn publish_error(fault: Cell<Option<Fault>>, declared: &Declared, error: InvokeError) -> Error {
    match fault.into_inner() {
        Some(fault) => declared.refused(&fault),
        None => Error::Service(error),
    }
}

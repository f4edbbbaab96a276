//! Publishing octets.

use super::Own;
use super::publisher::{PublishOptions, RawPublisher};
use super::restart::Restart;
use crate::channel::check_name;
use crate::declared::Declared;
use crate::error::{Error, Trouble};
use crate::form::{Envelope, write_event};
use crate::link::Link;
use crate::projection::Fault;
use crate::settings::{EventForm, Settings};
use client::InvokeError;
use giop::cdr::Writer;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Publishes events into a channel: values as octets, of any types that are declared. See [the module](crate::raw).
///
/// When the connection breaks or the service is restarted, `publish` finds back by itself, and makes the channel again if it is gone.
/// While there is no service it waits for one, for as long as [`Settings::wait_for_restart`] says; then it answers an error, and
/// succeeds when there is one again.
#[derive(Debug)]
pub struct RawSupplier {
    inner: Own<Arc<Inner>>,
}

/// What a supplier and its publishers share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) link: Link,
    pub(super) channel: String,
    domain: String,
    form: EventForm,
    /// Events published, by which ALMA's consumers see what is missing.
    count: AtomicU64,
    /// The waits of `publish` for a service that is away.
    restart: Restart,
}

impl RawSupplier {
    /// Connects to a channel, which is made if there is none.
    ///
    /// # Errors
    /// The settings are wrong, the name is none, or the service cannot be reached or refuses.
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
    /// Where the service cannot be reached, or says that it cannot take the event at present, and the event certainly was not taken, it is
    /// tried again, with pauses of a second at most, for as long as [`Settings::wait_for_restart`] says.
    ///
    /// # Errors
    /// [`Error::Value`] if the octets are no value of the type; otherwise what the service says, or that it cannot be reached.
    /// [`Error::was_not_carried_out`] tells whether the event can be published again without being there twice.
    pub fn publish(&self, declared: &Declared, cdr: &[u8]) -> Result<(), Error> {
        self.publish_while(declared, cdr, || true)
    }

    /// As [`publish`](Self::publish); while it waits for a restart, `goes_on` is asked every 50 ms, on this thread, and ends the wait by
    /// `false`. For languages in which a user interrupts what waits.
    ///
    /// # Errors
    /// As `publish`; where `goes_on` said no, the failure that was waited about.
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

    /// Publishes through the same proxy without waiting for each event: for many of them.
    ///
    /// # Errors
    /// If the service cannot be reached.
    pub fn publisher(&self, options: PublishOptions) -> Result<RawPublisher, Error> {
        RawPublisher::new(Arc::clone(self.inner.here()?), options)
    }

    /// Has `callback` called for what [`publish`](Self::publish) does not answer: over DDS, readers that [do not match](Trouble::Incompatible). It
    /// is called on other threads, may publish, and may be about to return when the supplier is dropped. Default: that is logged.
    pub fn on_trouble(&self, callback: impl Fn(&Trouble) + Send + Sync + 'static) {
        match self.inner.here().map(|inner| &inner.link) {
            #[cfg(feature = "dds")]
            Ok(Link::Dds(writers)) => writers.tell.on_trouble(Arc::new(callback)),
            Ok(Link::Notification(_)) | Err(_) => drop(callback),
        }
    }

    /// How often it has had to find its way back to a service that was restarted, or had disconnected it.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        match self.inner.anywhere().map(|inner| &inner.link) {
            Some(Link::Notification(supplier)) => supplier.reconnections(),
            _ => 0,
        }
    }

    /// Number of threads in `publish` that wait for the service to be there again. Always 0 over DDS.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.inner.here().map_or(0, |inner| inner.restart.waiting())
    }

    /// Ends what [`waiting`](Self::waiting) counts: each such `publish` answers the failure that it waits about, and later ones do not wait
    /// for a restart any more. For programs about to close a supplier with which other threads publish.
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

    /// Takes leave of the service, when its publishers have, too. Dropping it does the same.
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
        }
    }
}

/// Writes an event; what is wrong with its value is noted where the error that follows cannot say it.
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

/// The error with what was noted.
pub(super) fn publish_error(fault: Cell<Option<Fault>>, declared: &Declared, error: InvokeError) -> Error {
    match fault.into_inner() {
        Some(fault) => declared.refused(&fault),
        None => Error::Service(error),
    }
}

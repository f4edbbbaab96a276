//! Publishing structs.

use super::Event;
use crate::declared::{Declared, NATIVE};
use crate::error::{Error, Trouble};
use crate::raw::{PublishOptions, RawPublisher, RawSupplier};
use crate::settings::Settings;
use client::{Loss, PublisherCounters};
use giop::cdr::Writer;
use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Octets that a thread keeps for values.
const RETAINED_MAX: usize = 1024 * 1024;

thread_local! {
    /// Where values are written.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The types that were published, made ready.
#[derive(Debug, Default)]
struct Types(RwLock<HashMap<TypeId, Declared>>);

impl Types {
    fn of<T: Event>(&self) -> Result<Declared, Error> {
        let of = TypeId::of::<T>();
        if let Some(declared) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&of) {
            return Ok(declared.clone());
        }
        let declared = Declared::new(T::event_type(), T::DOMAIN, Some(T::NAME))?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(of, declared.clone());
        Ok(declared)
    }

    /// Writes an event and has it published.
    fn publish<T: Event, R>(
        &self,
        event: &T,
        publish: impl FnOnce(&Declared, &[u8]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let declared = self.of::<T>()?;
        // Taken out, so that publishing from within is in order.
        let mut value = VALUE.take();
        value.clear();
        event.write(&mut Writer::new(&mut value, NATIVE));
        let outcome = publish(&declared, &value);
        value.clear();
        value.shrink_to(RETAINED_MAX);
        VALUE.set(value);
        outcome
    }
}

/// Publishes structs into a channel, of one type or several.
///
/// ```no_run
/// use campanile::{Event, Supplier};
///
/// #[derive(Event)]
/// struct Wind {
///     speed: f64,
///     direction: f64,
/// }
///
/// let supplier = Supplier::new("Weather")?;
/// supplier.publish(&Wind { speed: 11.5, direction: 270.0 })?;
/// # Ok::<(), campanile::Error>(())
/// ```
///
/// When the connection breaks or the service is restarted, `publish` finds back by itself, and makes the channel again if it is gone.
/// While there is no service it waits for one, for as long as [`Settings::wait_for_restart`] says; then it answers an error, and
/// succeeds when there is one again. A supplier may be shared by threads.
#[derive(Debug)]
pub struct Supplier {
    raw: RawSupplier,
    types: Arc<Types>,
}

impl Supplier {
    /// Connects to a channel, with the settings of the environment ([`Settings::load`]). It is made if there is none.
    ///
    /// # Errors
    /// The settings are wrong, the name is none, or the service cannot be reached or refuses.
    pub fn new(channel: &str) -> Result<Self, Error> {
        Self::with(channel, &Settings::load()?)
    }

    /// As [`new`](Self::new), with other settings.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(channel: &str, settings: &Settings) -> Result<Self, Error> {
        Ok(Self { raw: RawSupplier::new(channel, settings)?, types: Arc::default() })
    }

    /// Publishes an event and waits until the service has taken it.
    ///
    /// # Errors
    /// The value cannot travel, or the service refuses or cannot be reached; [`Error::was_not_carried_out`] tells whether the event can
    /// be published again without being there twice.
    pub fn publish<T: Event>(&self, event: &T) -> Result<(), Error> {
        self.types.publish(event, |declared, value| self.raw.publish(declared, value))
    }

    /// Publishes without waiting for each event: for many of them.
    ///
    /// # Errors
    /// If the service cannot be reached.
    pub fn publisher(&self, options: PublishOptions) -> Result<Publisher, Error> {
        Ok(Publisher { raw: self.raw.publisher(options)?, types: self.types.clone() })
    }

    /// Has `callback` called for what [`publish`](Self::publish) does not answer: over DDS, readers that [do not match](Trouble::Incompatible). It
    /// is called on other threads, may publish, and may be about to return when the supplier is dropped. Default: that is logged.
    pub fn on_trouble(&self, callback: impl Fn(&Trouble) + Send + Sync + 'static) {
        self.raw.on_trouble(callback);
    }

    /// How often it has had to find its way back to a service that was restarted, or had disconnected it.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        self.raw.reconnections()
    }

    /// Number of threads in `publish` that wait for the service to be there again. Always 0 over DDS.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.raw.waiting()
    }

    /// Ends what [`waiting`](Self::waiting) counts: each such `publish` answers the failure that it waits about, and later ones do not wait
    /// for a restart any more.
    pub fn stop_waiting(&self) {
        self.raw.stop_waiting();
    }

    /// Takes leave of the service. Dropping it does the same.
    pub fn close(self) {
        self.raw.close();
    }
}

/// Publishes structs without waiting for each: see [`RawPublisher`], of which it has all but the octets.
///
/// ```no_run
/// # #[derive(campanile::Event)]
/// # struct Wind { speed: f64 }
/// # let supplier = campanile::Supplier::new("Weather")?;
/// let publisher = supplier.publisher(Default::default())?;
/// for number in 0..100_000 {
///     publisher.publish(&Wind { speed: f64::from(number) })?;
/// }
/// let counters = publisher.close();
/// println!("{} of {} arrived", counters.confirmed, counters.published);
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Debug)]
pub struct Publisher {
    raw: RawPublisher,
    types: Arc<Types>,
}

impl Publisher {
    /// Takes an event and gives its number, from 0 on. Waits only when as many are on the way as may be.
    ///
    /// # Errors
    /// The event was not taken: its value cannot travel, or there is no service. The fate of events that were taken is not an error
    /// here.
    pub fn publish<T: Event>(&self, event: &T) -> Result<u64, Error> {
        self.types.publish(event, |declared, value| self.raw.publish(declared, value))
    }

    /// Sends what was gathered now.
    pub fn flush(&self) {
        self.raw.flush();
    }

    /// Sends what was gathered and waits until the fate of all events is known.
    #[must_use = "the result says whether all events arrived"]
    pub fn sync(&self) -> PublisherCounters {
        self.raw.sync()
    }

    /// How many events became what, as far as is known.
    #[must_use]
    pub fn counters(&self) -> PublisherCounters {
        self.raw.counters()
    }

    /// The next events that did not arrive, or perhaps not.
    #[must_use]
    pub fn next_loss(&self) -> Option<Loss> {
        self.raw.next_loss()
    }

    /// Ends it, when the fate of all events is known, and tells how many became what.
    #[must_use = "the result says whether all events arrived"]
    pub fn close(self) -> PublisherCounters {
        self.raw.close()
    }

    /// As [`close`](Self::close), for no longer than `limit` without an answer. `None` in a forked child.
    pub fn close_within(self, limit: Duration) -> Option<PublisherCounters> {
        self.raw.close_within(limit)
    }
}

//! Receiving structs.

use super::Event;
use crate::declared::Declared;
use crate::dynamic::Dynamic;
use crate::error::{Error, Trouble};
use crate::projection::Defaults;
use crate::queue::{Events, Queue};
use crate::raw::{CallbackError, Handler, Handling, Header, RawConsumer, RawSubscription};
use crate::settings::Settings;
use crate::start::StartFrom;
use client::EventNumber;
use giop::cdr::Reader;
use std::sync::Arc;
use std::time::Duration;

/// Events that wait for an [`Events`] to be asked.
const WAITING_MAX: usize = 256;

/// Receives events as structs: made with what is wanted, and begun with [`ready`](Self::ready).
///
/// ```no_run
/// use campanile::{Consumer, Event};
///
/// #[derive(Event, Debug)]
/// struct Wind {
///     speed: f64,
///     direction: f64,
/// }
///
/// let consumer = Consumer::new("Weather").on(|wind: Wind| println!("{wind:?}"))?.ready()?;
/// # drop(consumer);
/// # Ok::<(), campanile::Error>(())
/// ```
///
/// Callbacks run on a thread of the library's, one at a time, in the order of the channel. While one runs, the consumer's other events
/// wait. When the service is restarted, the consumer is subscribed again by itself, and the gap reported ([`Trouble::Gap`]).
#[derive(Debug)]
#[must_use = "it receives nothing until it is ready"]
pub struct Consumer {
    raw: RawConsumer,
}

/// A consumer that is subscribed. It ends when this is dropped.
pub type Subscription = RawSubscription;

impl Consumer {
    /// A consumer of a channel's events, with the settings of the environment.
    pub fn new(channel: &str) -> Self {
        Self { raw: RawConsumer::new(channel) }
    }

    /// With these settings.
    pub fn settings(self, settings: Settings) -> Self {
        Self { raw: self.raw.settings(settings) }
    }

    /// Only events for which this holds, in the Extended Trader Constraint Language: `$speed > 10 and $station == 'north'`. The service
    /// applies it, so that other events do not travel.
    pub fn filter(self, constraint: &str) -> Self {
        Self { raw: self.raw.filter(constraint) }
    }

    /// Begins in the channel's history, where that stores one, and has events come with their numbers. A subscription that has to be made
    /// anew goes on behind the last event that came. Not over DDS.
    pub fn start_from(self, start: StartFrom) -> Self {
        Self { raw: self.raw.start_from(start) }
    }

    /// Has `callback` called for events of a type. Several types may be asked for.
    ///
    /// The values are made of what comes under the type's name: members by name, others left out, numbers widened. What cannot be is
    /// reported as [`Trouble::Mismatch`].
    ///
    /// # Errors
    /// [`Error::Type`]: the type cannot be an event's.
    pub fn on<T: Event>(self, mut callback: impl FnMut(T) + Send + 'static) -> Result<Self, Error> {
        self.handler::<T>(move |event, _| {
            callback(event);
            Ok(())
        })
    }

    /// As [`on`](Self::on), with the event's number and when it came to the service, of a consumer with [`start_from`](Self::start_from): a
    /// program that stores the number goes on there with [`StartFrom::After`].
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn on_numbered<T: Event>(
        self,
        mut callback: impl FnMut(T, Option<EventNumber>) + Send + 'static,
    ) -> Result<Self, Error> {
        self.handler::<T>(move |event, number| {
            callback(event, number);
            Ok(())
        })
    }

    /// As [`on`](Self::on), with a callback that can fail, or have enough.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn try_on<T: Event>(
        self,
        mut callback: impl FnMut(T) -> Result<(), CallbackError> + Send + 'static,
    ) -> Result<Self, Error> {
        self.handler::<T>(move |event, _| callback(event))
    }

    fn handler<T: Event>(
        self,
        mut callback: impl FnMut(T, Option<EventNumber>) -> Result<(), CallbackError> + Send + 'static,
    ) -> Result<Self, Error> {
        let mut defaults = Defaults::default();
        T::defaults(&mut defaults);
        let declared = Declared::new(T::event_type(), T::DOMAIN, Some(T::NAME))?.with_defaults(defaults);
        let read = move |reader: &mut Reader<'_>, header: Header<'_>| {
            let event = T::read(reader).map_err(|error| Handling::Unreadable(error.kind.to_string()))?;
            callback(event, header.number).map_err(Handling::Callback)
        };
        Ok(Self { raw: self.raw.handler(&declared, Handler::Reader(Box::new(read))) })
    }

    /// Has `callback` called for events of all other types, with the type that they come with.
    pub fn on_any(self, mut callback: impl FnMut(Dynamic) + Send + 'static) -> Self {
        Self {
            raw: self.raw.on_any(move |event| {
                callback(Dynamic::read(&event).map_err(|error| CallbackError::Failed(error.to_string()))?);
                Ok(())
            }),
        }
    }

    /// Has `callback` called for all that is no event: gaps, types that do not fit, callbacks that panic or are slow. It may be called on
    /// several threads. Default: it is logged.
    pub fn on_trouble(self, callback: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        Self { raw: self.raw.on_trouble(callback) }
    }

    /// How long a callback may take before that is reported as [`Trouble::Slow`]. Default 1 s.
    pub fn slow_after(self, limit: Duration) -> Self {
        Self { raw: self.raw.slow_after(limit) }
    }

    /// Subscribes: events that are published from now on come. The channel is made if there is none.
    ///
    /// # Errors
    /// The settings are wrong, the name is none, the filter is refused, or the service cannot be reached or refuses.
    pub fn ready(self) -> Result<Subscription, Error> {
        self.raw.ready()
    }

    /// Subscribes, and gives the events of a type one after the other instead of calling back:
    ///
    /// ```no_run
    /// # #[derive(campanile::Event, Debug)]
    /// # struct Wind { speed: f64 }
    /// for wind in campanile::Consumer::new("Weather").events::<Wind>()? {
    ///     println!("{wind:?}");
    /// }
    /// # Ok::<(), campanile::Error>(())
    /// ```
    ///
    /// Up to 256 wait here for being asked for; beyond that, events wait at the service.
    ///
    /// # Errors
    /// As [`on`](Self::on) and [`ready`](Self::ready).
    pub fn events<T: Event + Send>(self) -> Result<Events<T>, Error> {
        self.queued(|event: T, _| event)
    }

    /// As [`events`](Self::events), with the events' numbers: see [`on_numbered`](Self::on_numbered).
    ///
    /// # Errors
    /// As [`events`](Self::events).
    pub fn events_numbered<T: Event + Send>(self) -> Result<Events<(T, Option<EventNumber>)>, Error> {
        self.queued(|event: T, number| (event, number))
    }

    fn queued<T: Event, E: Send + 'static>(
        self,
        keep: impl Fn(T, Option<EventNumber>) -> E + Send + 'static,
    ) -> Result<Events<E>, Error> {
        let queue = Arc::new(Queue::new(WAITING_MAX));
        let putting = queue.clone();
        let put = move |event: T, number| {
            if putting.put(keep(event, number)) { Ok(()) } else { Err(CallbackError::Enough) }
        };
        let subscription = self.handler(put)?.ready()?;
        Ok(Events::new(queue, subscription))
    }
}

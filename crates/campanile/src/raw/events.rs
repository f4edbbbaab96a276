//! Receiving events as octets one after the other, instead of by callbacks.

use super::{CallbackError, RawConsumer, RawEvent};
use crate::declared::Declared;
use crate::error::Error;
use crate::queue::{Events, Queue};
use client::EventNumber;
use giop::typecode::TypeCode;
use std::sync::Arc;

/// A [`RawEvent`] that owns its data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedEvent {
    /// The domain of its type; empty for an event that arrived as an Any.
    pub domain: String,
    /// The name of its type; for an event that arrived as an Any, its struct's.
    pub name: String,
    /// The name of the event itself; usually empty.
    pub event_name: String,
    /// Its number and time of arrival at the service: see [`RawEvent::number`].
    pub number: Option<EventNumber>,
    /// Index of the declared type, in order of declaration; `None` for an undeclared one.
    pub declared: Option<usize>,
    /// The type of the value: the declared one, or else the received one.
    pub type_code: Arc<TypeCode>,
    /// The value.
    pub cdr: Vec<u8>,
}

impl OwnedEvent {
    fn of(event: &RawEvent<'_>, declared: Option<usize>) -> Self {
        Self {
            domain: event.domain.to_owned(),
            name: event.name.to_owned(),
            event_name: event.event_name.to_owned(),
            number: event.number,
            declared,
            type_code: event.type_code.clone(),
            cdr: event.cdr.to_vec(),
        }
    }
}

/// The events of a consumer, owned, one after the other.
pub type RawEvents = Events<OwnedEvent>;

impl RawConsumer {
    /// Subscribes, and queues events until they are taken: those of the declared types and, if `others`, all others in the type they arrive
    /// with. At most `waiting_max` wait here; more wait at the service.
    ///
    /// # Errors
    /// The same as of [`ready`](Self::ready).
    pub fn events(self, declared: &[Declared], others: bool, waiting_max: usize) -> Result<RawEvents, Error> {
        let queue = Arc::new(Queue::new(waiting_max));
        let putting = |declared: Option<usize>| {
            let queue = queue.clone();
            move |event: RawEvent<'_>| {
                if queue.put(OwnedEvent::of(&event, declared)) { Ok(()) } else { Err(CallbackError::Enough) }
            }
        };
        let mut consumer = self;
        for (place, of) in declared.iter().enumerate() {
            consumer = consumer.on(of, putting(Some(place)));
        }
        if others {
            consumer = consumer.on_any(putting(None));
        }
        Ok(Events::new(queue, consumer.ready()?))
    }
}

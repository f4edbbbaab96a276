//! Receiving octets one event after the other, instead of being called back.

use super::{CallbackError, RawConsumer, RawEvent};
use crate::declared::Declared;
use crate::error::Error;
use crate::queue::{Events, Queue};
use client::EventNumber;
use giop::typecode::TypeCode;
use std::sync::Arc;

/// An event that is kept: as [`RawEvent`], with everything its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedEvent {
    /// The domain of its type; empty for an event that came as an Any.
    pub domain: String,
    /// The name of its type; of an event that came as an Any, its struct's.
    pub name: String,
    /// The name of the event itself; mostly empty.
    pub event_name: String,
    /// Its number and when it came to the service: see [`RawEvent::number`].
    pub number: Option<EventNumber>,
    /// Which of the declared types it is, by the place at which it was declared; `None` for one that is none of them.
    pub declared: Option<usize>,
    /// The type of the value: the declared one, or else the one that came.
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

/// The events of a consumer with everything their own, one after the other.
pub type RawEvents = Events<OwnedEvent>;

impl RawConsumer {
    /// Subscribes, and keeps events until they are asked for: those of the declared types and, if `others`, all others as they come. At
    /// most `waiting_max` wait here; beyond that, events wait at the service.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
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

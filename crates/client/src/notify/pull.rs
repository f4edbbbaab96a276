//! A pull supplier's object: a bounded queue that the program fills and the service empties.

use super::comm::{disconnected, pull_supplier, tell_supplier};
use super::{ClientType, StructuredEvent, SupplierCallbacks};
use crate::{Servant, ServantError, lock};
use core::fmt;
use giop::cdr::{Reader, Writer};
use giop::exception::Kind;
use giop::value::{AnyValue, WriteError};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// An event of a [`QueueSupplier`]: an [`AnyValue`] or a [`StructuredEvent`].
pub trait PullableEvent: Send + 'static {
    /// Writes the event as the result of `pull` or `pull_structured_event`.
    ///
    /// # Errors
    /// If a value does not fit the type it is given with.
    fn write_to(&self, writer: &mut Writer<'_>) -> Result<(), WriteError>;

    /// The placeholder that `try_pull` returns when there is no event.
    fn nothing() -> Self;
}

impl PullableEvent for AnyValue {
    fn write_to(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.write(writer)
    }

    fn nothing() -> Self {
        Self::default()
    }
}

impl PullableEvent for StructuredEvent {
    fn write_to(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.write(writer)
    }

    fn nothing() -> Self {
        Self::new("", "", "")
    }
}

/// A pull supplier of events of one form.
///
/// The program [`offer`](Self::offer)s events; the service takes them by `try_pull`, or by `pull`, which waits for one
/// on the thread of its connection. An event that could be written into a reply counts as taken: if that reply is lost,
/// so is the event, as the OMG's interface has it.
pub struct QueueSupplier<E, C = ()> {
    form: ClientType,
    capacity: usize,
    callbacks: C,
    queue: Mutex<Queue<E>>,
    changed: Condvar,
}

struct Queue<E> {
    events: VecDeque<E>,
    disconnected: bool,
}

impl<C: SupplierCallbacks> QueueSupplier<AnyValue, C> {
    /// A supplier of Anys that holds up to `capacity` of them.
    pub fn any(capacity: usize, callbacks: C) -> Self {
        Self::of(ClientType::Any, capacity, callbacks)
    }
}

impl<C: SupplierCallbacks> QueueSupplier<StructuredEvent, C> {
    /// A supplier of structured events that holds up to `capacity` of them.
    pub fn structured(capacity: usize, callbacks: C) -> Self {
        Self::of(ClientType::Structured, capacity, callbacks)
    }

    /// A supplier of sequences of structured events that holds up to `capacity` events.
    pub fn sequence(capacity: usize, callbacks: C) -> Self {
        Self::of(ClientType::Sequence, capacity, callbacks)
    }
}

impl<E: PullableEvent, C: SupplierCallbacks> QueueSupplier<E, C> {
    fn of(form: ClientType, capacity: usize, callbacks: C) -> Self {
        let queue = Mutex::new(Queue { events: VecDeque::new(), disconnected: false });
        Self { form, capacity, callbacks, queue, changed: Condvar::new() }
    }

    /// Queues an event.
    ///
    /// # Errors
    /// Gives the event back if the queue is full, or the service has disconnected the supplier.
    pub fn offer(&self, event: E) -> Result<(), E> {
        let mut queue = lock(&self.queue);
        if queue.disconnected || queue.events.len() >= self.capacity {
            return Err(event);
        }
        queue.events.push_back(event);
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// Events not taken yet.
    pub fn backlog(&self) -> usize {
        lock(&self.queue).events.len()
    }

    /// Whether the service has disconnected the supplier.
    pub fn is_disconnected(&self) -> bool {
        lock(&self.queue).disconnected
    }

    /// The callbacks.
    pub fn callbacks(&self) -> &C {
        &self.callbacks
    }

    /// Ends each waiting `pull` with `Disconnected`, and later ones too.
    pub fn close(&self) {
        lock(&self.queue).disconnected = true;
        self.changed.notify_all();
    }

    /// Writes one event and removes it; `Ok(false)` without any.
    fn give_one(&self, wait: bool, reply: &mut Writer<'_>) -> Result<bool, ServantError> {
        let mut queue = self.ready(wait)?;
        let Some(event) = queue.events.front() else { return Ok(false) };
        let written = event.write_to(reply);
        queue.events.pop_front();
        written.map(|()| true).map_err(unwritable)
    }

    /// Writes up to `max` events as a batch and removes them; returns how many.
    fn give_batch(&self, max: i32, wait: bool, reply: &mut Writer<'_>) -> Result<usize, ServantError> {
        let max = usize::try_from(max).ok().filter(|max| *max > 0).ok_or(ServantError::system(Kind::BadParam))?;
        let mut queue = self.ready(wait)?;
        let count = max.min(queue.events.len());
        reply.length(count);
        queue.events.drain(..count).try_for_each(|event| event.write_to(reply)).map_err(unwritable)?;
        Ok(count)
    }

    /// The queue; if the caller waits, it has an event.
    fn ready(&self, wait: bool) -> Result<std::sync::MutexGuard<'_, Queue<E>>, ServantError> {
        let mut queue = lock(&self.queue);
        while wait && queue.events.is_empty() && !queue.disconnected {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.disconnected { Err(disconnected()) } else { Ok(queue) }
    }
}

/// The exception for an event that does not fit its own type.
fn unwritable(_: WriteError) -> ServantError {
    ServantError::system(Kind::Internal)
}

impl<E: PullableEvent, C: SupplierCallbacks> Servant for QueueSupplier<E, C> {
    fn type_id(&self) -> &str {
        pull_supplier(self.form).type_id
    }

    fn supports(&self, id: &str) -> bool {
        pull_supplier(self.form).supports(id)
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match (operation, self.form) {
            ("pull", ClientType::Any) | ("pull_structured_event", ClientType::Structured) => {
                self.give_one(true, reply)?;
            }
            ("try_pull", ClientType::Any) | ("try_pull_structured_event", ClientType::Structured) => {
                let given = self.give_one(false, reply)?;
                if !given {
                    E::nothing().write_to(reply).map_err(unwritable)?;
                }
                reply.bool(given);
            }
            ("pull_structured_events", ClientType::Sequence) => {
                self.give_batch(args.i32()?, true, reply)?;
            }
            ("try_pull_structured_events", ClientType::Sequence) => {
                let given = self.give_batch(args.i32()?, false, reply)?;
                reply.bool(given > 0);
            }
            _ => {
                tell_supplier(&self.callbacks, Some(pull_supplier(self.form)), operation, args)?;
                if operation == pull_supplier(self.form).disconnect {
                    self.close();
                }
            }
        }
        Ok(())
    }
}

impl<E, C> fmt::Debug for QueueSupplier<E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = lock(&self.queue);
        f.debug_struct("QueueSupplier")
            .field("form", &self.form)
            .field("capacity", &self.capacity)
            .field("backlog", &queue.events.len())
            .field("disconnected", &queue.disconnected)
            .finish_non_exhaustive()
    }
}

//! Servants of `CosNotifyComm`: the objects of consumers and suppliers that a service calls.
//!
//! A push consumer is a [`CallbackConsumer`], a pull supplier a [`QueueSupplier`](super::QueueSupplier). The other two kinds,
//! [`SupplierServant`] and [`ConsumerServant`], call the service themselves and are only notified of changes and of their disconnection.

use super::{ClientType, EventType, skip_event};
use crate::{Servant, ServantError, Unmarshal};
use giop::cdr::{ReadError, Reader, Writer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

const NOTIFY_PUBLISH: &str = "IDL:omg.org/CosNotifyComm/NotifyPublish:1.0";
const NOTIFY_SUBSCRIBE: &str = "IDL:omg.org/CosNotifyComm/NotifySubscribe:1.0";
pub(crate) const DISCONNECTED: &str = "IDL:omg.org/CosEventComm/Disconnected:1.0";

/// One of the interfaces of `CosNotifyComm` that a client implements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    pub(crate) type_id: &'static str,
    /// Inherited interfaces.
    bases: &'static [&'static str],
    /// Its operation that ends the connection.
    pub(crate) disconnect: &'static str,
}

/// Declares the interfaces of one kind of client, by form.
macro_rules! interfaces {
    ($name:ident, $base:ident, $plain:literal, $disconnect:literal, $structured:literal, $sequence:literal) => {
        /// The interface of this kind of client, by the form of its events.
        pub(crate) const fn $name(form: ClientType) -> Interface {
            match form {
                ClientType::Any => Interface {
                    type_id: concat!("IDL:omg.org/CosNotifyComm/", $plain, ":1.0"),
                    bases: &[$base, concat!("IDL:omg.org/CosEventComm/", $plain, ":1.0")],
                    disconnect: concat!("disconnect_", $disconnect),
                },
                ClientType::Structured => Interface {
                    type_id: concat!("IDL:omg.org/CosNotifyComm/", $structured, ":1.0"),
                    bases: &[$base],
                    disconnect: concat!("disconnect_structured_", $disconnect),
                },
                ClientType::Sequence => Interface {
                    type_id: concat!("IDL:omg.org/CosNotifyComm/", $sequence, ":1.0"),
                    bases: &[$base],
                    disconnect: concat!("disconnect_sequence_", $disconnect),
                },
            }
        }
    };
}

interfaces!(
    push_consumer,
    NOTIFY_PUBLISH,
    "PushConsumer",
    "push_consumer",
    "StructuredPushConsumer",
    "SequencePushConsumer"
);
interfaces!(
    pull_consumer,
    NOTIFY_PUBLISH,
    "PullConsumer",
    "pull_consumer",
    "StructuredPullConsumer",
    "SequencePullConsumer"
);
interfaces!(
    push_supplier,
    NOTIFY_SUBSCRIBE,
    "PushSupplier",
    "push_supplier",
    "StructuredPushSupplier",
    "SequencePushSupplier"
);
interfaces!(
    pull_supplier,
    NOTIFY_SUBSCRIBE,
    "PullSupplier",
    "pull_supplier",
    "StructuredPullSupplier",
    "SequencePullSupplier"
);

impl Interface {
    pub(crate) fn supports(&self, id: &str) -> bool {
        self.bases.contains(&id)
    }
}

/// The operations with which events are pushed.
const PUSHES: &[&str] = &["push_structured_event", "push_structured_events", "push"];

/// The exception `CosEventComm::Disconnected`.
pub(crate) const fn disconnected() -> ServantError {
    ServantError::User(DISCONNECTED)
}

/// A call of the service at a consumer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivery<'a> {
    /// An event in a structured body; the reader stands at the `StructuredEvent` and borrows the message.
    Structured(Reader<'a>),
    /// An event in an Any; the reader stands at the Any and borrows the message.
    Any(Reader<'a>),
    /// Several structured events, in the channel's order; the reader stands at the `EventBatch`, a number and so many `StructuredEvent`s,
    /// and borrows the message.
    Batch(Reader<'a>),
    /// The offered event types change.
    OfferChange {
        /// Newly offered.
        added: Vec<EventType>,
        /// No longer offered.
        removed: Vec<EventType>,
    },
    /// The service disconnected the consumer; nothing comes after it.
    Disconnected,
}

/// The events of an `EventBatch`, one by one, borrowed from the message; from [`events_of`].
#[derive(Debug)]
pub struct BatchEvents<'a> {
    batch: Reader<'a>,
    left: u32,
}

/// The events of a [`Delivery::Batch`], one by one. None is copied; each is scanned to find its end.
///
/// ```
/// use campanile_client::notify::{CallbackConsumer, Delivery, StructuredEvent, events_of};
///
/// let consumer = CallbackConsumer::sequence(|delivery: Delivery<'_>| {
///     if let Delivery::Batch(batch) = delivery {
///         for event in events_of(batch)? {
///             println!("{:?}", StructuredEvent::read(&mut event?)?);
///         }
///     }
///     Ok(())
/// });
/// ```
///
/// # Errors
/// If the bytes do not begin with the number of events.
pub fn events_of(mut batch: Reader<'_>) -> Result<BatchEvents<'_>, ReadError> {
    let left = batch.seq_len(1)?;
    Ok(BatchEvents { batch, left })
}

impl<'a> Iterator for BatchEvents<'a> {
    type Item = Result<Reader<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let event = self.next_event();
        if event.is_err() {
            // Where the next one would begin is not known.
            self.left = 0;
        }
        Some(event)
    }
}

impl<'a> BatchEvents<'a> {
    fn next_event(&mut self) -> Result<Reader<'a>, ReadError> {
        let batch = &mut self.batch;
        batch.align(4)?;
        let start = batch.clone();
        skip_event(batch)?;
        let bytes = start.rest().get(..batch.position() - start.position()).unwrap_or_default();
        Ok(Reader::with_phase(bytes, start.phase(), start.encoding()).with_origin(start.offset()))
    }
}

/// Declares consumers that pass calls to a closure, one with the priority of the call.
macro_rules! consumers {
    ($($(#[$doc:meta])* $name:ident, $priority:ident $(: $given:ty)?;)+) => {$(
        $(#[$doc])*
        pub struct $name<F> {
            form: ClientType,
            early: bool,
            callback: Mutex<F>,
        }

        impl<F: FnMut(Delivery<'_> $(, $given)?) -> Result<(), ServantError> + Send + 'static> $name<F> {
            /// A consumer of events of that form.
            pub fn new(form: ClientType, callback: F) -> Self {
                Self { form, early: false, callback: Mutex::new(callback) }
            }

            /// Sets whether events are answered as soon as they have been read, before the closure ran (default: false); see
            /// [`ConsumerOptions::answer_early`](crate::ConsumerOptions::answer_early) for the drawbacks.
            #[must_use]
            pub fn answering_early(self, early: bool) -> Self {
                Self { early, ..self }
            }
        }

        impl<F: FnMut(Delivery<'_> $(, $given)?) -> Result<(), ServantError> + Send + 'static> Servant for $name<F> {
            fn type_id(&self) -> &str {
                push_consumer(self.form).type_id
            }

            fn supports(&self, id: &str) -> bool {
                push_consumer(self.form).supports(id)
            }

            fn early_operations(&self) -> &'static [&'static str] {
                if self.early { PUSHES } else { &[] }
            }

            fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
                self.invoke_at(None, operation, args, reply)
            }

            fn invoke_at(
                &self,
                $priority: Option<i16>,
                operation: &str,
                args: &mut Reader<'_>,
                _reply: &mut Writer<'_>,
            ) -> Result<(), ServantError> {
                let delivery = read_delivery(self.form, operation, args)?;
                let mut callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner);
                callback(delivery $(, { let given: $given = $priority; given })?)
            }
        }
    )+};
}

consumers! {
    /// A consumer of events of one form that passes deliveries to a closure, one call at a time.
    ///
    /// The closure's error is raised to the service: `Disconnected` ([`CallbackConsumer::disconnected`]) ends the
    /// subscription, another exception makes the service try again or go on, by its policy.
    CallbackConsumer, _priority;

    /// A [`CallbackConsumer`] with a closure that also gets the Real-time CORBA priority of the call: `None` unless its
    /// reference asks for it ([`Orb::activate_at`](crate::Orb::activate_at)) and the service sends it.
    PrioritizedConsumer, priority: Option<i16>;
}

impl<F: FnMut(Delivery<'_>) -> Result<(), ServantError> + Send + 'static> CallbackConsumer<F> {
    /// A consumer of structured events.
    pub fn structured(callback: F) -> Self {
        Self::new(ClientType::Structured, callback)
    }

    /// A consumer of Anys.
    pub fn any(callback: F) -> Self {
        Self::new(ClientType::Any, callback)
    }

    /// A consumer of sequences of structured events.
    pub fn sequence(callback: F) -> Self {
        Self::new(ClientType::Sequence, callback)
    }
}

impl CallbackConsumer<()> {
    /// The exception `CosEventComm::Disconnected`: the consumer wants no more events.
    #[must_use]
    pub fn disconnected() -> ServantError {
        disconnected()
    }
}

/// Reads the arguments of an operation at a consumer of that form.
fn read_delivery<'a>(form: ClientType, operation: &str, args: &mut Reader<'a>) -> Result<Delivery<'a>, ServantError> {
    match (operation, form) {
        ("push_structured_event", ClientType::Structured) => Ok(Delivery::Structured(args.clone())),
        ("push", ClientType::Any) => Ok(Delivery::Any(args.clone())),
        ("push_structured_events", ClientType::Sequence) => Ok(Delivery::Batch(args.clone())),
        ("offer_change", _) => {
            let (added, removed) = read_change(args)?;
            Ok(Delivery::OfferChange { added, removed })
        }
        (operation, form) if operation == push_consumer(form).disconnect => Ok(Delivery::Disconnected),
        _ => Err(ServantError::bad_operation()),
    }
}

/// Callbacks of a supplier's object.
pub trait SupplierCallbacks: Send + Sync + 'static {
    /// Consumers' subscriptions changed.
    fn subscription_change(&self, added: &[EventType], removed: &[EventType]) {
        let _ = (added, removed);
    }

    /// The service disconnected the supplier.
    fn disconnected(&self) {}
}

/// Callbacks of a pull consumer's object.
pub trait ConsumerCallbacks: Send + Sync + 'static {
    /// Suppliers' offers changed.
    fn offer_change(&self, added: &[EventType], removed: &[EventType]) {
        let _ = (added, removed);
    }

    /// The service disconnected the consumer.
    fn disconnected(&self) {}
}

/// Ignores all callbacks.
impl SupplierCallbacks for () {}

/// Ignores all callbacks.
impl ConsumerCallbacks for () {}

/// Notes only that the supplier was disconnected.
impl SupplierCallbacks for std::sync::Arc<AtomicBool> {
    fn disconnected(&self) {
        self.store(true, Ordering::Release);
    }
}

/// Notes only that the consumer was disconnected.
impl ConsumerCallbacks for std::sync::Arc<AtomicBool> {
    fn disconnected(&self) {
        self.store(true, Ordering::Release);
    }
}

/// A push supplier's own object: notified of subscriptions and disconnection. Also the callback of a filter.
#[derive(Debug)]
pub struct SupplierServant<C> {
    /// The form; `None` for an object that is notified of subscriptions only.
    form: Option<ClientType>,
    callbacks: C,
}

impl<C: SupplierCallbacks> SupplierServant<C> {
    /// A supplier of events of that form.
    pub fn new(form: ClientType, callbacks: C) -> Self {
        Self { form: Some(form), callbacks }
    }

    /// A supplier of structured events.
    pub fn structured(callbacks: C) -> Self {
        Self::new(ClientType::Structured, callbacks)
    }

    /// A supplier of Anys.
    pub fn any(callbacks: C) -> Self {
        Self::new(ClientType::Any, callbacks)
    }

    /// A supplier of sequences of structured events.
    pub fn sequence(callbacks: C) -> Self {
        Self::new(ClientType::Sequence, callbacks)
    }

    /// A bare `NotifySubscribe`, as [`Filter::attach_callback`](super::Filter::attach_callback) takes it.
    pub fn subscriptions(callbacks: C) -> Self {
        Self { form: None, callbacks }
    }

    /// The callbacks.
    pub fn callbacks(&self) -> &C {
        &self.callbacks
    }
}

impl<C: SupplierCallbacks> Servant for SupplierServant<C> {
    fn type_id(&self) -> &str {
        self.form.map_or(NOTIFY_SUBSCRIBE, |form| push_supplier(form).type_id)
    }

    fn supports(&self, id: &str) -> bool {
        self.form.is_some_and(|form| push_supplier(form).supports(id))
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, _reply: &mut Writer<'_>) -> Result<(), ServantError> {
        tell_supplier(&self.callbacks, self.form.map(push_supplier), operation, args)
    }
}

/// Handles the operations common to all suppliers' objects.
pub(crate) fn tell_supplier(
    callbacks: &impl SupplierCallbacks,
    interface: Option<Interface>,
    operation: &str,
    args: &mut Reader<'_>,
) -> Result<(), ServantError> {
    match operation {
        "subscription_change" => {
            let (added, removed) = read_change(args)?;
            callbacks.subscription_change(&added, &removed);
        }
        _ if interface.is_some_and(|interface| interface.disconnect == operation) => callbacks.disconnected(),
        _ => return Err(ServantError::bad_operation()),
    }
    Ok(())
}

/// A pull consumer's own object: notified of offers and disconnection.
#[derive(Debug)]
pub struct ConsumerServant<C> {
    form: ClientType,
    callbacks: C,
}

impl<C: ConsumerCallbacks> ConsumerServant<C> {
    /// A consumer that pulls events of that form.
    pub fn new(form: ClientType, callbacks: C) -> Self {
        Self { form, callbacks }
    }

    /// The callbacks.
    pub fn callbacks(&self) -> &C {
        &self.callbacks
    }
}

impl<C: ConsumerCallbacks> Servant for ConsumerServant<C> {
    fn type_id(&self) -> &str {
        pull_consumer(self.form).type_id
    }

    fn supports(&self, id: &str) -> bool {
        pull_consumer(self.form).supports(id)
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, _reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match operation {
            "offer_change" => {
                let (added, removed) = read_change(args)?;
                self.callbacks.offer_change(&added, &removed);
            }
            _ if operation == pull_consumer(self.form).disconnect => self.callbacks.disconnected(),
            _ => return Err(ServantError::bad_operation()),
        }
        Ok(())
    }
}

fn read_change(args: &mut Reader<'_>) -> Result<(Vec<EventType>, Vec<EventType>), ServantError> {
    Ok(Unmarshal::read(args)?)
}

//! Servants of `CosNotifyComm`: what a service calls at the clients.

use super::{EventType, read_event_type, read_sequence};
use crate::{Servant, ServantError};
use giop::cdr::{Reader, Writer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

const PUSH_CONSUMER: &str = "IDL:omg.org/CosNotifyComm/PushConsumer:1.0";
const EVENT_PUSH_CONSUMER: &str = "IDL:omg.org/CosEventComm/PushConsumer:1.0";
const STRUCTURED_PUSH_CONSUMER: &str = "IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0";
const NOTIFY_PUBLISH: &str = "IDL:omg.org/CosNotifyComm/NotifyPublish:1.0";
const PUSH_SUPPLIER: &str = "IDL:omg.org/CosNotifyComm/PushSupplier:1.0";
const EVENT_PUSH_SUPPLIER: &str = "IDL:omg.org/CosEventComm/PushSupplier:1.0";
const STRUCTURED_PUSH_SUPPLIER: &str = "IDL:omg.org/CosNotifyComm/StructuredPushSupplier:1.0";
const NOTIFY_SUBSCRIBE: &str = "IDL:omg.org/CosNotifyComm/NotifySubscribe:1.0";
const DISCONNECTED: &str = "IDL:omg.org/CosEventComm/Disconnected:1.0";

/// What happens at a consumer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivery<'a> {
    /// An event in a structured body; the reader stands at the `StructuredEvent` and borrows the message.
    Structured(Reader<'a>),
    /// An event in an Any; the reader stands at the Any and borrows the message.
    Any(Reader<'a>),
    /// The service says what event types are offered from now on.
    OfferChange {
        /// Newly offered.
        added: Vec<EventType>,
        /// No longer offered.
        removed: Vec<EventType>,
    },
    /// The service disconnected the consumer; nothing comes after it.
    Disconnected,
}

/// A consumer of both structured events and Anys that hands each to a closure, one at a time.
///
/// The closure's error is raised to the service: `Disconnected` ([`CallbackConsumer::disconnected`]) ends the
/// subscription, another exception makes the service try again or go on, by its policy.
pub struct CallbackConsumer<F> {
    structured: bool,
    callback: Mutex<F>,
}

impl<F: FnMut(Delivery<'_>) -> Result<(), ServantError> + Send + 'static> CallbackConsumer<F> {
    /// A consumer of structured events.
    pub fn structured(callback: F) -> Self {
        Self { structured: true, callback: Mutex::new(callback) }
    }

    /// A consumer of Anys.
    pub fn any(callback: F) -> Self {
        Self { structured: false, callback: Mutex::new(callback) }
    }

    fn call(&self, delivery: Delivery<'_>) -> Result<(), ServantError> {
        let mut callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner);
        callback(delivery)
    }
}

impl CallbackConsumer<()> {
    /// The exception `CosEventComm::Disconnected`: the consumer wants no more events.
    #[must_use]
    pub fn disconnected() -> ServantError {
        ServantError::User(DISCONNECTED)
    }
}

impl<F: FnMut(Delivery<'_>) -> Result<(), ServantError> + Send + 'static> Servant for CallbackConsumer<F> {
    fn type_id(&self) -> &str {
        if self.structured { STRUCTURED_PUSH_CONSUMER } else { PUSH_CONSUMER }
    }

    fn supports(&self, id: &str) -> bool {
        id == NOTIFY_PUBLISH || (!self.structured && id == EVENT_PUSH_CONSUMER)
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, _reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match operation {
            "push_structured_event" if self.structured => self.call(Delivery::Structured(args.clone())),
            "push" if !self.structured => self.call(Delivery::Any(args.clone())),
            "offer_change" => {
                let (added, removed) = read_change(args)?;
                self.call(Delivery::OfferChange { added, removed })
            }
            "disconnect_structured_push_consumer" if self.structured => self.call(Delivery::Disconnected),
            "disconnect_push_consumer" if !self.structured => self.call(Delivery::Disconnected),
            _ => Err(ServantError::bad_operation()),
        }
    }
}

/// What a [`SupplierServant`] tells its supplier.
pub trait SupplierCallbacks: Send + Sync + 'static {
    /// Consumers' subscriptions changed.
    fn subscription_change(&self, added: &[EventType], removed: &[EventType]) {
        let _ = (added, removed);
    }

    /// The service disconnected the supplier.
    fn disconnected(&self) {}
}

/// A push supplier's own object, of both structured events and Anys: it is told of subscriptions and disconnection.
#[derive(Debug)]
pub struct SupplierServant<C> {
    structured: bool,
    callbacks: C,
}

impl<C: SupplierCallbacks> SupplierServant<C> {
    /// A supplier of structured events.
    pub fn structured(callbacks: C) -> Self {
        Self { structured: true, callbacks }
    }

    /// A supplier of Anys.
    pub fn any(callbacks: C) -> Self {
        Self { structured: false, callbacks }
    }

    /// What it tells.
    pub fn callbacks(&self) -> &C {
        &self.callbacks
    }
}

impl<C: SupplierCallbacks> Servant for SupplierServant<C> {
    fn type_id(&self) -> &str {
        if self.structured { STRUCTURED_PUSH_SUPPLIER } else { PUSH_SUPPLIER }
    }

    fn supports(&self, id: &str) -> bool {
        id == NOTIFY_SUBSCRIBE || (!self.structured && id == EVENT_PUSH_SUPPLIER)
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, _reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match operation {
            "subscription_change" => {
                let (added, removed) = read_change(args)?;
                self.callbacks.subscription_change(&added, &removed);
                Ok(())
            }
            "disconnect_structured_push_supplier" if self.structured => {
                self.callbacks.disconnected();
                Ok(())
            }
            "disconnect_push_supplier" if !self.structured => {
                self.callbacks.disconnected();
                Ok(())
            }
            _ => Err(ServantError::bad_operation()),
        }
    }
}

/// Remembers only that the supplier was disconnected.
impl SupplierCallbacks for std::sync::Arc<AtomicBool> {
    fn disconnected(&self) {
        self.store(true, Ordering::Release);
    }
}

fn read_change(args: &mut Reader<'_>) -> Result<(Vec<EventType>, Vec<EventType>), ServantError> {
    let added = read_sequence(args, 8, read_event_type)?;
    let removed = read_sequence(args, 8, read_event_type)?;
    Ok((added, removed))
}

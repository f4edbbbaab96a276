//! The object of a subscription, which the service calls.

use super::watch::Waker;
use crate::notify::{ClientType, push_consumer};
use crate::{Activation, InvokeError, ObjectRef, Orb, Servant, ServantError};
use giop::cdr::{Reader, Writer};
use giop::exception::Kind;
use giop::realtime::PriorityModelPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The object of one subscription. Late calls of the service for a lost subscription go to its own, deleted object, and so do not end the
/// new one.
#[derive(Debug)]
pub(super) struct End {
    activation: Activation,
    /// Whether the service has disconnected the consumer.
    disconnected: Arc<AtomicBool>,
}

/// Calls the callback, for any subscription of the consumer.
#[derive(Clone)]
pub(super) struct Receiver {
    servant: Arc<dyn Servant>,
    waker: Arc<Waker>,
    /// Whether the consumer was closed. A subscription that is just being made anew is connected, and may get events, until it is left.
    is_closed: Arc<AtomicBool>,
}

/// The receiver, as called by one subscription.
struct Subscriber {
    receiver: Receiver,
    /// The operation with which the service disconnects the consumer.
    disconnect_operation: &'static str,
    disconnected: Arc<AtomicBool>,
}

impl End {
    /// The object's reference.
    pub(super) fn reference(&self) -> &ObjectRef {
        self.activation.reference()
    }

    /// Whether the service has disconnected the consumer.
    pub(super) fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Acquire)
    }
}

impl Receiver {
    /// A receiver; `waker` is woken when the service disconnects the consumer.
    pub(super) fn new(servant: Arc<dyn Servant>, waker: Arc<Waker>) -> Self {
        Self { servant, waker, is_closed: Arc::default() }
    }

    /// Calls the callback no more: events are answered as by an object that does not exist.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Makes an object for another subscription.
    ///
    /// # Errors
    /// No listening socket could be opened.
    pub(super) fn end(
        &self,
        orb: &Orb,
        form: ClientType,
        priority_model: Option<PriorityModelPolicy>,
    ) -> Result<End, InvokeError> {
        let disconnected = Arc::new(AtomicBool::new(false));
        let disconnect_operation = push_consumer(form).disconnect;
        let servant = Subscriber { receiver: self.clone(), disconnect_operation, disconnected: disconnected.clone() };
        Ok(End { activation: orb.activate_at(Arc::new(servant), priority_model)?, disconnected })
    }
}

impl core::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl Servant for Subscriber {
    fn type_id(&self) -> &str {
        self.receiver.servant.type_id()
    }

    fn supports(&self, repository_id: &str) -> bool {
        self.receiver.servant.supports(repository_id)
    }

    fn early_operations(&self) -> &'static [&'static str] {
        self.receiver.servant.early_operations()
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        self.invoke_at(None, operation, args, reply)
    }

    fn invoke_at(
        &self,
        priority: Option<i16>,
        operation: &str,
        args: &mut Reader<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<(), ServantError> {
        if operation == self.disconnect_operation {
            self.disconnected.store(true, Ordering::Release);
            self.receiver.waker.wake();
            return Ok(());
        }
        if self.receiver.is_closed() {
            return Err(ServantError::system(Kind::ObjectNotExist));
        }
        self.receiver.servant.invoke_at(priority, operation, args, reply)
    }
}

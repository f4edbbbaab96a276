//! What a service calls: the object of one subscription.

use super::watch::Waker;
use crate::notify::{ClientType, push_consumer};
use crate::{Activation, InvokeError, ObjectRef, Orb, Servant, ServantError};
use giop::cdr::{Reader, Writer};
use giop::realtime::PriorityModelPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The consumer's end of one subscription: an object of its own. What the service says late of a subscription that was gone, and
/// has been made anew, is said to an object that is no more, and does not end the new one.
#[derive(Debug)]
pub(super) struct End {
    activation: Activation,
    /// The service has said that it disconnected the consumer.
    disconnected: Arc<AtomicBool>,
}

/// What calls back, whichever subscription an event comes by.
#[derive(Clone)]
pub(super) struct Receiver {
    servant: Arc<dyn Servant>,
    waker: Arc<Waker>,
}

/// The same, called by one subscription.
struct Subscriber {
    receiver: Receiver,
    /// The operation with which the service says that it disconnected the consumer.
    disconnect_operation: &'static str,
    disconnected: Arc<AtomicBool>,
}

impl End {
    /// What the service calls.
    pub(super) fn reference(&self) -> &ObjectRef {
        self.activation.reference()
    }

    /// Whether the service has said that it disconnected the consumer.
    pub(super) fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Acquire)
    }
}

impl Receiver {
    /// `waker` is woken when the service says that it disconnected the consumer.
    pub(super) fn new(servant: Arc<dyn Servant>, waker: Arc<Waker>) -> Self {
        Self { servant, waker }
    }

    /// Has it called by one more subscription.
    ///
    /// # Errors
    /// If there is no socket to be called at.
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
        self.receiver.servant.invoke_at(priority, operation, args, reply)
    }
}

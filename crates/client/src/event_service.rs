//! The OMG Event Service 1.2: channels without types, filters or quality of service.
//!
//! Notification channels offer these interfaces too; a reference such as `corbaloc::host:2809/EventService` names one.

use crate::notify::stub;
use crate::{InvokeError, ObjectRef};
use giop::cdr::Writer;
use giop::value::AnyValue;

stub! {
    /// `CosEventChannelAdmin::EventChannel`.
    EventChannel, "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0"
}

stub! {
    /// `CosEventChannelAdmin::ConsumerAdmin`.
    ConsumerAdmin, "IDL:omg.org/CosEventChannelAdmin/ConsumerAdmin:1.0"
}

stub! {
    /// `CosEventChannelAdmin::SupplierAdmin`.
    SupplierAdmin, "IDL:omg.org/CosEventChannelAdmin/SupplierAdmin:1.0"
}

stub! {
    /// `CosEventChannelAdmin::ProxyPushConsumer`: takes Anys from a supplier.
    ProxyPushConsumer, "IDL:omg.org/CosEventChannelAdmin/ProxyPushConsumer:1.0"
}

stub! {
    /// `CosEventChannelAdmin::ProxyPushSupplier`: pushes Anys to a consumer.
    ProxyPushSupplier, "IDL:omg.org/CosEventChannelAdmin/ProxyPushSupplier:1.0"
}

stub! {
    /// `CosEventChannelAdmin::ProxyPullConsumer`: pulls Anys from a supplier.
    ProxyPullConsumer, "IDL:omg.org/CosEventChannelAdmin/ProxyPullConsumer:1.0"
}

stub! {
    /// `CosEventChannelAdmin::ProxyPullSupplier`: a consumer pulls Anys from it.
    ProxyPullSupplier, "IDL:omg.org/CosEventChannelAdmin/ProxyPullSupplier:1.0"
}

impl EventChannel {
    /// The admin for consumers.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn for_consumers(&self) -> Result<ConsumerAdmin, InvokeError> {
        self.object().call_object("for_consumers", |_| ()).map(ConsumerAdmin::unchecked)
    }

    /// The admin for suppliers.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn for_suppliers(&self) -> Result<SupplierAdmin, InvokeError> {
        self.object().call_object("for_suppliers", |_| ()).map(SupplierAdmin::unchecked)
    }

    /// Ends the channel.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn destroy(&self) -> Result<(), InvokeError> {
        self.object().call_void("destroy", |_| ())
    }
}

impl ConsumerAdmin {
    /// Makes a proxy that pushes to a consumer.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn obtain_push_supplier(&self) -> Result<ProxyPushSupplier, InvokeError> {
        self.object().call_object("obtain_push_supplier", |_| ()).map(ProxyPushSupplier::unchecked)
    }

    /// Makes a proxy from which a consumer pulls.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn obtain_pull_supplier(&self) -> Result<ProxyPullSupplier, InvokeError> {
        self.object().call_object("obtain_pull_supplier", |_| ()).map(ProxyPullSupplier::unchecked)
    }
}

impl SupplierAdmin {
    /// Makes a proxy that takes events from a supplier.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn obtain_push_consumer(&self) -> Result<ProxyPushConsumer, InvokeError> {
        self.object().call_object("obtain_push_consumer", |_| ()).map(ProxyPushConsumer::unchecked)
    }

    /// Makes a proxy that pulls from a supplier.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn obtain_pull_consumer(&self) -> Result<ProxyPullConsumer, InvokeError> {
        self.object().call_object("obtain_pull_consumer", |_| ()).map(ProxyPullConsumer::unchecked)
    }
}

impl ProxyPushConsumer {
    /// Connects a supplier; `None` for one that does not want to be notified of its disconnection.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`.
    pub fn connect_push_supplier(&self, supplier: Option<&ObjectRef>) -> Result<(), InvokeError> {
        crate::notify::connect(self.object(), "connect_push_supplier", supplier)
    }

    /// Pushes one event and waits until the channel has taken it.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no supplier is connected.
    pub fn push(&self, event: &AnyValue) -> Result<(), InvokeError> {
        self.object().call_void("push", |w| event.write(w))
    }

    /// Pushes an Any written by hand. Nothing is allocated in the steady state.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.object().invoke("push", write).map(|_| ())
    }

    /// Ends the connection and the proxy.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn disconnect_push_consumer(&self) -> Result<(), InvokeError> {
        self.object().call_void("disconnect_push_consumer", |_| ())
    }
}

impl ProxyPushSupplier {
    /// Connects the consumer to push to.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.
    pub fn connect_push_consumer(&self, consumer: &ObjectRef) -> Result<(), InvokeError> {
        crate::notify::connect(self.object(), "connect_push_consumer", Some(consumer))
    }

    /// Ends the connection and the proxy.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn disconnect_push_supplier(&self) -> Result<(), InvokeError> {
        self.object().call_void("disconnect_push_supplier", |_| ())
    }
}

impl ProxyPullConsumer {
    /// Connects the supplier to pull from.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.
    pub fn connect_pull_supplier(&self, supplier: &ObjectRef) -> Result<(), InvokeError> {
        crate::notify::connect(self.object(), "connect_pull_supplier", Some(supplier))
    }

    /// Ends the connection and the proxy.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn disconnect_pull_consumer(&self) -> Result<(), InvokeError> {
        self.object().call_void("disconnect_pull_consumer", |_| ())
    }
}

impl ProxyPullSupplier {
    /// Connects a consumer; `None` for one that does not want to be notified of its disconnection.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`.
    pub fn connect_pull_consumer(&self, consumer: Option<&ObjectRef>) -> Result<(), InvokeError> {
        crate::notify::connect(self.object(), "connect_pull_consumer", consumer)
    }

    /// Waits for the next event, as long as the object's reply timeout allows.
    ///
    /// # Errors
    /// As [`crate::notify::ProxyPullSupplier::pull`].
    pub fn pull(&self) -> Result<AnyValue, InvokeError> {
        self.as_notify().pull()
    }

    /// The next event if there is one now.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no consumer is connected.
    pub fn try_pull(&self) -> Result<Option<AnyValue>, InvokeError> {
        self.as_notify().try_pull()
    }

    /// Ends the connection and the proxy.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn disconnect_pull_supplier(&self) -> Result<(), InvokeError> {
        self.object().call_void("disconnect_pull_supplier", |_| ())
    }

    /// The interface from which it inherits `pull` and `try_pull`, too.
    fn as_notify(&self) -> crate::notify::ProxyPullSupplier {
        crate::notify::ProxyPullSupplier::unchecked(self.object().clone())
    }
}

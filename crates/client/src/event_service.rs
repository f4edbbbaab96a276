//! The OMG Event Service 1.2, push side: channels without types, filters or quality of service.
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
}

impl SupplierAdmin {
    /// Makes a proxy that takes events from a supplier.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn obtain_push_consumer(&self) -> Result<ProxyPushConsumer, InvokeError> {
        self.object().call_object("obtain_push_consumer", |_| ()).map(ProxyPushConsumer::unchecked)
    }
}

impl ProxyPushConsumer {
    /// Connects a supplier; `None` for one that does not want to be told of its disconnection.
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

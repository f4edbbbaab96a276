//! The OMG Event Service 1.2: channels without types, filters or quality of service.
//!
//! Notification channels offer these interfaces too; a reference such as `corbaloc::host:2809/EventService` names one.

use crate::typed::{operations, stubs};
use crate::{InvokeError, ObjectRef};
use giop::cdr::Writer;
use giop::value::AnyValue;

stubs! {
    /// `CosEventChannelAdmin::EventChannel`.
    EventChannel = "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0";
    /// `CosEventChannelAdmin::ConsumerAdmin`.
    ConsumerAdmin = "IDL:omg.org/CosEventChannelAdmin/ConsumerAdmin:1.0";
    /// `CosEventChannelAdmin::SupplierAdmin`.
    SupplierAdmin = "IDL:omg.org/CosEventChannelAdmin/SupplierAdmin:1.0";
    /// `CosEventChannelAdmin::ProxyPushConsumer`: takes Anys from a supplier.
    ProxyPushConsumer = "IDL:omg.org/CosEventChannelAdmin/ProxyPushConsumer:1.0";
    /// `CosEventChannelAdmin::ProxyPushSupplier`: pushes Anys to a consumer.
    ProxyPushSupplier = "IDL:omg.org/CosEventChannelAdmin/ProxyPushSupplier:1.0";
    /// `CosEventChannelAdmin::ProxyPullConsumer`: pulls Anys from a supplier.
    ProxyPullConsumer = "IDL:omg.org/CosEventChannelAdmin/ProxyPullConsumer:1.0";
    /// `CosEventChannelAdmin::ProxyPullSupplier`: a consumer pulls Anys from it.
    ProxyPullSupplier = "IDL:omg.org/CosEventChannelAdmin/ProxyPullSupplier:1.0";
}

operations! { EventChannel: {
    /// The admin for consumers.
    fn for_consumers() -> [object ConsumerAdmin];
    /// The admin for suppliers.
    fn for_suppliers() -> [object SupplierAdmin];
    /// Ends the channel.
    fn destroy();
} }

operations! { ConsumerAdmin: {
    /// Makes a proxy that pushes to a consumer.
    fn obtain_push_supplier() -> [object ProxyPushSupplier];
    /// Makes a proxy from which a consumer pulls.
    fn obtain_pull_supplier() -> [object ProxyPullSupplier];
} }

operations! { SupplierAdmin: {
    /// Makes a proxy that takes events from a supplier.
    fn obtain_push_consumer() -> [object ProxyPushConsumer];
    /// Makes a proxy that pulls from a supplier.
    fn obtain_pull_consumer() -> [object ProxyPullConsumer];
} }

operations! { ProxyPushConsumer: {
    /// Connects a supplier; `None` for one that does not want to be notified of its disconnection.
    fn connect_push_supplier(supplier: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Pushes one event and waits until the channel has taken it.
    fn push(event: &AnyValue) raises "`CosEventComm/Disconnected` if no supplier is connected.";
    /// Ends the connection and the proxy.
    fn disconnect_push_consumer();
} }

impl ProxyPushConsumer {
    /// Pushes an Any written by hand. Nothing is allocated in the steady state.
    ///
    /// # Errors
    /// The same as of [`push`](Self::push).
    pub fn push_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.object().invoke("push", write).map(|_| ())
    }
}

operations! { ProxyPushSupplier: {
    /// Connects the consumer to push to.
    fn connect_push_consumer(consumer: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_push_supplier();
} }

operations! { ProxyPullConsumer: {
    /// Connects the supplier to pull from.
    fn connect_pull_supplier(supplier: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_pull_consumer();
} }

operations! { ProxyPullSupplier: {
    /// Connects a consumer; `None` for one that does not want to be notified of its disconnection.
    fn connect_pull_consumer(consumer: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Waits for the next event, as long as the object's reply timeout allows.
    fn pull() -> [AnyValue] raises "As [`crate::notify::ProxyPullSupplier::pull`].";
    /// Returns the next event if there is one now.
    fn try_pull() -> [polled AnyValue] raises "`CosEventComm/Disconnected` if no consumer is connected.";
    /// Ends the connection and the proxy.
    fn disconnect_pull_supplier();
} }

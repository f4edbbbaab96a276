//! The proxies: what a supplier pushes to, and what pushes to a consumer.

use super::{
    ConsumerAdmin, EventType, NamedPropertyRange, Property, ProxyType, StructuredEvent, SupplierAdmin, qos_admin, stub,
};
use crate::{InvokeError, ObjectRef};
use giop::cdr::Writer;
use giop::ior::Ior;
use giop::value::AnyValue;

stub! {
    /// `CosNotifyChannelAdmin::ProxyConsumer`: what all proxies on the suppliers' side have.
    ProxyConsumer, "IDL:omg.org/CosNotifyChannelAdmin/ProxyConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::ProxySupplier`: what all proxies on the consumers' side have.
    ProxySupplier, "IDL:omg.org/CosNotifyChannelAdmin/ProxySupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::StructuredProxyPushConsumer`: takes structured events.
    StructuredProxyPushConsumer, "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::ProxyPushConsumer`: takes Anys.
    ProxyPushConsumer, "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::StructuredProxyPushSupplier`: pushes structured events to its consumer.
    StructuredProxyPushSupplier, "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushSupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::ProxyPushSupplier`: pushes Anys to its consumer.
    ProxyPushSupplier, "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushSupplier:1.0"
}

qos_admin!(ProxyConsumer);
qos_admin!(ProxySupplier);
qos_admin!(StructuredProxyPushConsumer);
qos_admin!(ProxyPushConsumer);
qos_admin!(StructuredProxyPushSupplier);
qos_admin!(ProxyPushSupplier);

/// What every proxy has.
macro_rules! proxy {
    ($name:ident, $admin:ident) => {
        impl $name {
            /// Which of the kinds of proxy it is.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn my_type(&self) -> Result<ProxyType, InvokeError> {
                self.object().invoke("_get_MyType", |_| ())?.read("_get_MyType", ProxyType::read)
            }

            /// The admin that made it.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn my_admin(&self) -> Result<$admin, InvokeError> {
                self.object().call_object("_get_MyAdmin", |_| ()).map($admin::unchecked)
            }

            /// Asks whether events with these properties in their header would be accepted.
            ///
            /// # Errors
            /// `CosNotification/UnsupportedQoS` if not.
            pub fn validate_event_qos(&self, qos: &[Property]) -> Result<Vec<NamedPropertyRange>, InvokeError> {
                self.object().call_validate("validate_event_qos", qos)
            }
        }
    };
}

proxy!(ProxyConsumer, SupplierAdmin);
proxy!(StructuredProxyPushConsumer, SupplierAdmin);
proxy!(ProxyPushConsumer, SupplierAdmin);
proxy!(ProxySupplier, ConsumerAdmin);
proxy!(StructuredProxyPushSupplier, ConsumerAdmin);
proxy!(ProxyPushSupplier, ConsumerAdmin);

/// What proxies on the suppliers' side have.
macro_rules! offers {
    ($name:ident) => {
        impl $name {
            /// Tells what event types the supplier offers from now on.
            ///
            /// # Errors
            /// `CosNotifyComm/InvalidEventType`.
            pub fn offer_change(&self, added: &[EventType], removed: &[EventType]) -> Result<(), InvokeError> {
                self.object().call_change("offer_change", added, removed)
            }
        }
    };
}

offers!(StructuredProxyPushConsumer);
offers!(ProxyPushConsumer);

/// What proxies on the consumers' side have.
macro_rules! subscribes {
    ($name:ident) => {
        impl $name {
            /// Changes what event types the consumer gets. It starts with all.
            ///
            /// # Errors
            /// `CosNotifyComm/InvalidEventType`.
            pub fn subscription_change(&self, added: &[EventType], removed: &[EventType]) -> Result<(), InvokeError> {
                self.object().call_change("subscription_change", added, removed)
            }

            /// Keeps events back until [`resume_connection`](Self::resume_connection).
            ///
            /// # Errors
            /// `CosNotifyChannelAdmin/ConnectionAlreadyInactive`, `CosNotifyChannelAdmin/NotConnected`.
            pub fn suspend_connection(&self) -> Result<(), InvokeError> {
                self.object().call_void("suspend_connection", |_| ())
            }

            /// Delivers events again, those kept back first.
            ///
            /// # Errors
            /// `CosNotifyChannelAdmin/ConnectionAlreadyActive`, `CosNotifyChannelAdmin/NotConnected`.
            pub fn resume_connection(&self) -> Result<(), InvokeError> {
                self.object().call_void("resume_connection", |_| ())
            }
        }
    };
}

subscribes!(StructuredProxyPushSupplier);
subscribes!(ProxyPushSupplier);

impl StructuredProxyPushConsumer {
    /// Connects a supplier; `None` for one that does not want to be told of subscriptions or of its disconnection.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`.
    pub fn connect_structured_push_supplier(&self, supplier: Option<&ObjectRef>) -> Result<(), InvokeError> {
        connect(self.object(), "connect_structured_push_supplier", supplier)
    }

    /// Pushes one event and waits until the service has taken it.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no supplier is connected.
    pub fn push_structured_event(&self, event: &StructuredEvent) -> Result<(), InvokeError> {
        self.object().call_void("push_structured_event", |w| event.write(w))
    }

    /// Pushes an event whose body is written by hand, in CDR: for programs that send much of one form, and benchmarks.
    /// Nothing is allocated in the steady state.
    ///
    /// # Errors
    /// As [`push_structured_event`](Self::push_structured_event).
    pub fn push_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.object().invoke("push_structured_event", write).map(|_| ())
    }

    /// Ends the connection and the proxy.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn disconnect_structured_push_consumer(&self) -> Result<(), InvokeError> {
        self.object().call_void("disconnect_structured_push_consumer", |_| ())
    }
}

impl ProxyPushConsumer {
    /// Connects a supplier; `None` for one that does not want to be told of subscriptions or of its disconnection.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`.
    pub fn connect_any_push_supplier(&self, supplier: Option<&ObjectRef>) -> Result<(), InvokeError> {
        connect(self.object(), "connect_any_push_supplier", supplier)
    }

    /// Pushes one event and waits until the service has taken it.
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

impl StructuredProxyPushSupplier {
    /// Connects the consumer to push to.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.
    pub fn connect_structured_push_consumer(&self, consumer: &ObjectRef) -> Result<(), InvokeError> {
        connect(self.object(), "connect_structured_push_consumer", Some(consumer))
    }

    /// Ends the connection and the proxy.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn disconnect_structured_push_supplier(&self) -> Result<(), InvokeError> {
        self.object().call_void("disconnect_structured_push_supplier", |_| ())
    }
}

impl ProxyPushSupplier {
    /// Connects the consumer to push to.
    ///
    /// # Errors
    /// `CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.
    pub fn connect_any_push_consumer(&self, consumer: &ObjectRef) -> Result<(), InvokeError> {
        connect(self.object(), "connect_any_push_consumer", Some(consumer))
    }

    /// Ends the connection and the proxy.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn disconnect_push_supplier(&self) -> Result<(), InvokeError> {
        self.object().call_void("disconnect_push_supplier", |_| ())
    }
}

/// Calls a `connect_*` operation with a reference, or nil.
pub(crate) fn connect(proxy: &ObjectRef, operation: &str, peer: Option<&ObjectRef>) -> Result<(), InvokeError> {
    proxy.call_void(operation, |w| match peer {
        Some(peer) => peer.ior().write(w),
        None => Ior::nil().write(w),
    })
}

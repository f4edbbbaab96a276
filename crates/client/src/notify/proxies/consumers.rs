//! The suppliers' side: proxies that take events from a supplier, pushed or pulled.

use super::{connect, pausable, proxy};
use crate::notify::{
    EventType, NamedPropertyRange, ObtainInfoMode, Property, ProxyType, StructuredEvent, SupplierAdmin, stub,
    write_batch,
};
use crate::{InvokeError, ObjectRef};
use giop::cdr::Writer;
use giop::value::AnyValue;

stub! {
    /// `CosNotifyChannelAdmin::ProxyConsumer`: what all proxies on the suppliers' side have.
    ProxyConsumer, "IDL:omg.org/CosNotifyChannelAdmin/ProxyConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::ProxyPushConsumer`: takes Anys.
    ProxyPushConsumer, "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::StructuredProxyPushConsumer`: takes structured events.
    StructuredProxyPushConsumer, "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::SequenceProxyPushConsumer`: takes sequences of structured events.
    SequenceProxyPushConsumer, "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPushConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::ProxyPullConsumer`: pulls Anys from its supplier.
    ProxyPullConsumer, "IDL:omg.org/CosNotifyChannelAdmin/ProxyPullConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::StructuredProxyPullConsumer`: pulls structured events from its supplier.
    StructuredProxyPullConsumer, "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPullConsumer:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::SequenceProxyPullConsumer`: pulls sequences of structured events from its supplier.
    SequenceProxyPullConsumer, "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPullConsumer:1.0"
}

/// What proxies on the suppliers' side have.
macro_rules! proxy_consumer {
    ($name:ident) => {
        proxy!($name, SupplierAdmin);

        impl $name {
            /// The event types that the channel's consumers subscribe to, and whether `subscription_change` tells the
            /// supplier of changes from now on.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn obtain_subscription_types(&self, mode: ObtainInfoMode) -> Result<Vec<EventType>, InvokeError> {
                self.object().call_event_types("obtain_subscription_types", mode)
            }
        }
    };
}

proxy_consumer!(ProxyConsumer);
proxy_consumer!(ProxyPushConsumer);
proxy_consumer!(StructuredProxyPushConsumer);
proxy_consumer!(SequenceProxyPushConsumer);
proxy_consumer!(ProxyPullConsumer);
proxy_consumer!(StructuredProxyPullConsumer);
proxy_consumer!(SequenceProxyPullConsumer);

/// What the proxies for one kind of supplier have: offers, `connect_*` and `disconnect_*`.
macro_rules! serves_supplier {
    ($name:ident, $connect:ident, $nil:ty, $errors:literal, $disconnect:ident) => {
        impl $name {
            /// Tells what event types the supplier offers from now on.
            ///
            /// # Errors
            /// `CosNotifyComm/InvalidEventType`.
            pub fn offer_change(&self, added: &[EventType], removed: &[EventType]) -> Result<(), InvokeError> {
                self.object().call_change("offer_change", added, removed)
            }

            /// Connects a supplier. One that pushes may be `None`: it is then notified neither of subscriptions nor of
            /// its disconnection.
            ///
            /// # Errors
            #[doc = $errors]
            pub fn $connect(&self, supplier: $nil) -> Result<(), InvokeError> {
                connect(self.object(), stringify!($connect), supplier.into())
            }

            /// Ends the connection and the proxy.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn $disconnect(&self) -> Result<(), InvokeError> {
                self.object().call_void(stringify!($disconnect), |_| ())
            }
        }
    };
}

/// A supplier that may be nil.
type Optional<'a> = Option<&'a ObjectRef>;

serves_supplier!(
    ProxyPushConsumer,
    connect_any_push_supplier,
    Optional<'_>,
    "`CosEventChannelAdmin/AlreadyConnected`.",
    disconnect_push_consumer
);
serves_supplier!(
    StructuredProxyPushConsumer,
    connect_structured_push_supplier,
    Optional<'_>,
    "`CosEventChannelAdmin/AlreadyConnected`.",
    disconnect_structured_push_consumer
);
serves_supplier!(
    SequenceProxyPushConsumer,
    connect_sequence_push_supplier,
    Optional<'_>,
    "`CosEventChannelAdmin/AlreadyConnected`.",
    disconnect_sequence_push_consumer
);
serves_supplier!(
    ProxyPullConsumer,
    connect_any_pull_supplier,
    &ObjectRef,
    "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.",
    disconnect_pull_consumer
);
serves_supplier!(
    StructuredProxyPullConsumer,
    connect_structured_pull_supplier,
    &ObjectRef,
    "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.",
    disconnect_structured_pull_consumer
);
serves_supplier!(
    SequenceProxyPullConsumer,
    connect_sequence_pull_supplier,
    &ObjectRef,
    "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.",
    disconnect_sequence_pull_consumer
);

pausable!(ProxyPullConsumer);
pausable!(StructuredProxyPullConsumer);
pausable!(SequenceProxyPullConsumer);

impl ProxyPushConsumer {
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
}

impl StructuredProxyPushConsumer {
    /// Pushes one event and waits until the service has taken it.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no supplier is connected.
    pub fn push_structured_event(&self, event: &StructuredEvent) -> Result<(), InvokeError> {
        self.object().call_void("push_structured_event", |w| event.write(w))
    }

    /// Pushes an event with a body written by hand, in CDR: for programs that send much of one form, and benchmarks.
    /// Nothing is allocated in the steady state.
    ///
    /// # Errors
    /// As [`push_structured_event`](Self::push_structured_event).
    pub fn push_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.object().invoke("push_structured_event", write).map(|_| ())
    }
}

impl SequenceProxyPushConsumer {
    /// Pushes several events, in order, and waits until the service has taken them.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no supplier is connected.
    pub fn push_structured_events(&self, events: &[StructuredEvent]) -> Result<(), InvokeError> {
        self.object().call_void("push_structured_events", |w| write_batch(events, w))
    }

    /// Pushes an `EventBatch` written by hand. Nothing is allocated in the steady state.
    ///
    /// # Errors
    /// As [`push_structured_events`](Self::push_structured_events).
    pub fn push_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.object().invoke("push_structured_events", write).map(|_| ())
    }
}

//! The consumers' side: proxies that give events to a consumer, pushed or pulled.

use super::{connect, pausable, proxy};
use crate::notify::{
    ConsumerAdmin, EventType, NamedPropertyRange, ObtainInfoMode, Property, ProxyType, StructuredEvent,
    mapping_filters, read_batch, stub, work,
};
use crate::{InvokeError, ObjectRef};
use giop::cdr::ReadError;
use giop::value::AnyValue;

stub! {
    /// `CosNotifyChannelAdmin::ProxySupplier`: what all proxies on the consumers' side have.
    ProxySupplier, "IDL:omg.org/CosNotifyChannelAdmin/ProxySupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::ProxyPushSupplier`: pushes Anys to its consumer.
    ProxyPushSupplier, "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushSupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::StructuredProxyPushSupplier`: pushes structured events to its consumer.
    StructuredProxyPushSupplier, "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushSupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::SequenceProxyPushSupplier`: pushes sequences of structured events to its consumer.
    SequenceProxyPushSupplier, "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPushSupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::ProxyPullSupplier`: Anys are pulled from it.
    ProxyPullSupplier, "IDL:omg.org/CosNotifyChannelAdmin/ProxyPullSupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::StructuredProxyPullSupplier`: structured events are pulled from it.
    StructuredProxyPullSupplier, "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPullSupplier:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::SequenceProxyPullSupplier`: sequences of structured events are pulled from it.
    SequenceProxyPullSupplier, "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPullSupplier:1.0"
}

/// What proxies on the consumers' side have.
macro_rules! proxy_supplier {
    ($name:ident) => {
        proxy!($name, ConsumerAdmin);
        mapping_filters!($name);

        impl $name {
            /// The event types that the channel's suppliers offer, and whether `offer_change` tells the consumer of
            /// changes from now on.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn obtain_offered_types(&self, mode: ObtainInfoMode) -> Result<Vec<EventType>, InvokeError> {
                self.object().call_event_types("obtain_offered_types", mode)
            }
        }
    };
}

proxy_supplier!(ProxySupplier);
proxy_supplier!(ProxyPushSupplier);
proxy_supplier!(StructuredProxyPushSupplier);
proxy_supplier!(SequenceProxyPushSupplier);
proxy_supplier!(ProxyPullSupplier);
proxy_supplier!(StructuredProxyPullSupplier);
proxy_supplier!(SequenceProxyPullSupplier);

/// What the proxies for one kind of consumer have: subscription, `connect_*` and `disconnect_*`.
macro_rules! serves_consumer {
    ($name:ident, $connect:ident, $nil:ty, $errors:literal, $disconnect:ident) => {
        impl $name {
            /// Changes what event types the consumer gets. It starts with all.
            ///
            /// # Errors
            /// `CosNotifyComm/InvalidEventType`.
            pub fn subscription_change(&self, added: &[EventType], removed: &[EventType]) -> Result<(), InvokeError> {
                self.object().call_change("subscription_change", added, removed)
            }

            /// Connects a consumer. One that pulls may be `None`: it is then notified neither of offers nor of its
            /// disconnection.
            ///
            /// # Errors
            #[doc = $errors]
            pub fn $connect(&self, consumer: $nil) -> Result<(), InvokeError> {
                connect(self.object(), stringify!($connect), consumer.into())
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

/// A consumer that may be nil.
type Optional<'a> = Option<&'a ObjectRef>;

serves_consumer!(
    ProxyPushSupplier,
    connect_any_push_consumer,
    &ObjectRef,
    "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.",
    disconnect_push_supplier
);
serves_consumer!(
    StructuredProxyPushSupplier,
    connect_structured_push_consumer,
    &ObjectRef,
    "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.",
    disconnect_structured_push_supplier
);
serves_consumer!(
    SequenceProxyPushSupplier,
    connect_sequence_push_consumer,
    &ObjectRef,
    "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.",
    disconnect_sequence_push_supplier
);
serves_consumer!(
    ProxyPullSupplier,
    connect_any_pull_consumer,
    Optional<'_>,
    "`CosEventChannelAdmin/AlreadyConnected`.",
    disconnect_pull_supplier
);
serves_consumer!(
    StructuredProxyPullSupplier,
    connect_structured_pull_consumer,
    Optional<'_>,
    "`CosEventChannelAdmin/AlreadyConnected`.",
    disconnect_structured_pull_supplier
);
serves_consumer!(
    SequenceProxyPullSupplier,
    connect_sequence_pull_consumer,
    Optional<'_>,
    "`CosEventChannelAdmin/AlreadyConnected`.",
    disconnect_sequence_pull_supplier
);

pausable!(ProxyPushSupplier);
pausable!(StructuredProxyPushSupplier);
pausable!(SequenceProxyPushSupplier);

// A `pull` waits at the service. An object's time limit applies to it as to any call: the request is then cancelled at
// the service, but an event that it had already sent is lost.

impl ProxyPullSupplier {
    /// Waits for the next event, as long as the object's reply timeout allows.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no consumer is connected, or once it is disconnected. An event that is on its way
    /// when time is up is lost; [`ObjectRef::with_reply_timeout`] takes the limit away.
    pub fn pull(&self) -> Result<AnyValue, InvokeError> {
        self.object().invoke("pull", |_| ())?.read("pull", |r| AnyValue::read(r, &mut work()))
    }

    /// The next event if there is one now.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no consumer is connected.
    pub fn try_pull(&self) -> Result<Option<AnyValue>, InvokeError> {
        self.object().invoke("try_pull", |_| ())?.read("try_pull", |r| {
            let event = AnyValue::read(r, &mut work())?;
            Ok::<_, ReadError>(r.bool()?.then_some(event))
        })
    }
}

impl StructuredProxyPullSupplier {
    /// Waits for the next event, as long as the object's reply timeout allows.
    ///
    /// # Errors
    /// As [`ProxyPullSupplier::pull`].
    pub fn pull_structured_event(&self) -> Result<StructuredEvent, InvokeError> {
        let operation = "pull_structured_event";
        self.object().invoke(operation, |_| ())?.read(operation, StructuredEvent::read)
    }

    /// The next event if there is one now.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no consumer is connected.
    pub fn try_pull_structured_event(&self) -> Result<Option<StructuredEvent>, InvokeError> {
        let operation = "try_pull_structured_event";
        self.object().invoke(operation, |_| ())?.read(operation, |r| {
            let event = StructuredEvent::read(r)?;
            Ok::<_, ReadError>(r.bool()?.then_some(event))
        })
    }
}

impl SequenceProxyPullSupplier {
    /// Waits for events, as long as the object's reply timeout allows: from one up to `max_number` of them.
    ///
    /// # Errors
    /// As [`ProxyPullSupplier::pull`].
    pub fn pull_structured_events(&self, max_number: i32) -> Result<Vec<StructuredEvent>, InvokeError> {
        let operation = "pull_structured_events";
        self.object().invoke(operation, |w| w.i32(max_number))?.read(operation, read_batch)
    }

    /// The events there are now, up to `max_number` of them; `None` if there are none.
    ///
    /// # Errors
    /// `CosEventComm/Disconnected` if no consumer is connected.
    pub fn try_pull_structured_events(&self, max_number: i32) -> Result<Option<Vec<StructuredEvent>>, InvokeError> {
        let operation = "try_pull_structured_events";
        self.object().invoke(operation, |w| w.i32(max_number))?.read(operation, |r| {
            let events = read_batch(r)?;
            Ok::<_, ReadError>(r.bool()?.then_some(events))
        })
    }
}

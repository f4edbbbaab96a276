//! The proxies: of suppliers, by push or pull, and of consumers, by push or pull.
//!
//! Three forms (Any, structured, sequence), two sides, push and pull: twelve interfaces, each with the operations of
//! `ProxyConsumer` or `ProxySupplier` beside its own.

use super::{
    ConsumerAdmin, EventChannel, EventType, Filter, MappingFilter, NamedPropertyRange, ObtainInfoMode, Property,
    ProxyType, StructuredEvent, SupplierAdmin,
};
use crate::typed::{operations, stubs};
use crate::{InvokeError, ObjectRef};
use giop::cdr::Writer;
use giop::value::AnyValue;

stubs! {
    /// `CosNotifyChannelAdmin::ProxyConsumer`: the operations of all proxies on the suppliers' side.
    ProxyConsumer = "IDL:omg.org/CosNotifyChannelAdmin/ProxyConsumer:1.0";
    /// `CosNotifyChannelAdmin::ProxyPushConsumer`: takes Anys.
    ProxyPushConsumer = "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushConsumer:1.0";
    /// `CosNotifyChannelAdmin::StructuredProxyPushConsumer`: takes structured events.
    StructuredProxyPushConsumer = "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushConsumer:1.0";
    /// `CosNotifyChannelAdmin::SequenceProxyPushConsumer`: takes sequences of structured events.
    SequenceProxyPushConsumer = "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPushConsumer:1.0";
    /// `CosNotifyChannelAdmin::ProxyPullConsumer`: pulls Anys from its supplier.
    ProxyPullConsumer = "IDL:omg.org/CosNotifyChannelAdmin/ProxyPullConsumer:1.0";
    /// `CosNotifyChannelAdmin::StructuredProxyPullConsumer`: pulls structured events from its supplier.
    StructuredProxyPullConsumer = "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPullConsumer:1.0";
    /// `CosNotifyChannelAdmin::SequenceProxyPullConsumer`: pulls sequences of structured events from its supplier.
    SequenceProxyPullConsumer = "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPullConsumer:1.0";
    /// `CosNotifyChannelAdmin::ProxySupplier`: the operations of all proxies on the consumers' side.
    ProxySupplier = "IDL:omg.org/CosNotifyChannelAdmin/ProxySupplier:1.0";
    /// `CosNotifyChannelAdmin::ProxyPushSupplier`: pushes Anys to its consumer.
    ProxyPushSupplier = "IDL:omg.org/CosNotifyChannelAdmin/ProxyPushSupplier:1.0";
    /// `CosNotifyChannelAdmin::StructuredProxyPushSupplier`: pushes structured events to its consumer.
    StructuredProxyPushSupplier = "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPushSupplier:1.0";
    /// `CosNotifyChannelAdmin::SequenceProxyPushSupplier`: pushes sequences of structured events to its consumer.
    SequenceProxyPushSupplier = "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPushSupplier:1.0";
    /// `CosNotifyChannelAdmin::ProxyPullSupplier`: a consumer pulls Anys from it.
    ProxyPullSupplier = "IDL:omg.org/CosNotifyChannelAdmin/ProxyPullSupplier:1.0";
    /// `CosNotifyChannelAdmin::StructuredProxyPullSupplier`: a consumer pulls structured events from it.
    StructuredProxyPullSupplier = "IDL:omg.org/CosNotifyChannelAdmin/StructuredProxyPullSupplier:1.0";
    /// `CosNotifyChannelAdmin::SequenceProxyPullSupplier`: a consumer pulls sequences of structured events from it.
    SequenceProxyPullSupplier = "IDL:omg.org/CosNotifyChannelAdmin/SequenceProxyPullSupplier:1.0";
}

// `CosNotification::QoSAdmin`.
operations! {
    EventChannel, ConsumerAdmin, SupplierAdmin, ProxyConsumer, ProxyPushConsumer, StructuredProxyPushConsumer,
    SequenceProxyPushConsumer, ProxyPullConsumer, StructuredProxyPullConsumer, SequenceProxyPullConsumer,
    ProxySupplier, ProxyPushSupplier, StructuredProxyPushSupplier, SequenceProxyPushSupplier, ProxyPullSupplier,
    StructuredProxyPullSupplier, SequenceProxyPullSupplier: {
        /// The quality of service in effect here.
        fn get_qos() -> [Vec<Property>];
        /// Changes the quality of service.
        fn set_qos(qos: &[Property])
            raises "`CosNotification/UnsupportedQoS`, with a [`PropertyError`](crate::notify::PropertyError) for each property \
                    refused ([`property_errors`](crate::notify::property_errors)).";
        /// Asks whether a quality of service would be accepted, and with which ranges.
        fn validate_qos(qos: &[Property]) -> [Vec<NamedPropertyRange>] raises "`CosNotification/UnsupportedQoS` if it would not.";
    }
}

// `CosNotifyFilter::FilterAdmin`.
operations! {
    ConsumerAdmin, SupplierAdmin, ProxyConsumer, ProxyPushConsumer, StructuredProxyPushConsumer,
    SequenceProxyPushConsumer, ProxyPullConsumer, StructuredProxyPullConsumer, SequenceProxyPullConsumer,
    ProxySupplier, ProxyPushSupplier, StructuredProxyPushSupplier, SequenceProxyPushSupplier, ProxyPullSupplier,
    StructuredProxyPullSupplier, SequenceProxyPullSupplier: {
        /// Attaches a filter, the service's or the program's own, and returns its id here.
        fn add_filter(filter: &Filter) -> [i32];
        /// Detaches a filter; the filter itself lives on.
        fn remove_filter(id: i32) raises "`CosNotifyFilter/FilterNotFound`.";
        /// The filter of that id.
        fn get_filter(id: i32) -> [object Filter] raises "`CosNotifyFilter/FilterNotFound`.";
        /// The ids of all filters attached here.
        fn get_all_filters() -> [Vec<i32>];
        /// Detaches all filters; they live on.
        fn remove_all_filters();
    }
}

operations! {
    ConsumerAdmin, ProxySupplier, ProxyPushSupplier, StructuredProxyPushSupplier, SequenceProxyPushSupplier,
    ProxyPullSupplier, StructuredProxyPullSupplier, SequenceProxyPullSupplier: {
        /// The mapping filter that gives events their priority for these consumers, if there is one.
        fn priority_filter = "_get_priority_filter"() -> [optional MappingFilter];
        /// Sets or removes the mapping filter for priorities.
        fn set_priority_filter = "_set_priority_filter"(filter: Option<&MappingFilter>);
        /// The mapping filter that gives events their lifetime for these consumers, if there is one.
        fn lifetime_filter = "_get_lifetime_filter"() -> [optional MappingFilter];
        /// Sets or removes the mapping filter for lifetimes.
        fn set_lifetime_filter = "_set_lifetime_filter"(filter: Option<&MappingFilter>);
    }
}

operations! {
    ProxyConsumer, ProxyPushConsumer, StructuredProxyPushConsumer, SequenceProxyPushConsumer, ProxyPullConsumer,
    StructuredProxyPullConsumer, SequenceProxyPullConsumer, ProxySupplier, ProxyPushSupplier,
    StructuredProxyPushSupplier, SequenceProxyPushSupplier, ProxyPullSupplier, StructuredProxyPullSupplier,
    SequenceProxyPullSupplier: {
        /// The kind of proxy.
        fn my_type = "_get_MyType"() -> [ProxyType];
        /// Asks whether events with these properties in their header would be accepted.
        fn validate_event_qos(qos: &[Property]) -> [Vec<NamedPropertyRange>] raises "`CosNotification/UnsupportedQoS` if not.";
    }
}

operations! {
    ProxyConsumer, ProxyPushConsumer, StructuredProxyPushConsumer, SequenceProxyPushConsumer, ProxyPullConsumer,
    StructuredProxyPullConsumer, SequenceProxyPullConsumer: {
        /// The admin that made it.
        fn my_admin = "_get_MyAdmin"() -> [object SupplierAdmin];
        /// The event types that the channel's consumers subscribe to; `mode` says whether `subscription_change` reports changes to the
        /// supplier from now on.
        fn obtain_subscription_types(mode: ObtainInfoMode) -> [Vec<EventType>];
    }
}

operations! {
    ProxySupplier, ProxyPushSupplier, StructuredProxyPushSupplier, SequenceProxyPushSupplier, ProxyPullSupplier,
    StructuredProxyPullSupplier, SequenceProxyPullSupplier: {
        /// The admin that made it.
        fn my_admin = "_get_MyAdmin"() -> [object ConsumerAdmin];
        /// The event types that the channel's suppliers offer; `mode` says whether `offer_change` reports changes to the consumer from now
        /// on.
        fn obtain_offered_types(mode: ObtainInfoMode) -> [Vec<EventType>];
    }
}

operations! {
    ProxyPushConsumer, StructuredProxyPushConsumer, SequenceProxyPushConsumer, ProxyPullConsumer,
    StructuredProxyPullConsumer, SequenceProxyPullConsumer: {
        /// Changes the event types that the supplier offers.
        fn offer_change(added: &[EventType], removed: &[EventType]) raises "`CosNotifyComm/InvalidEventType`.";
    }
}

operations! {
    ProxyPushSupplier, StructuredProxyPushSupplier, SequenceProxyPushSupplier, ProxyPullSupplier,
    StructuredProxyPullSupplier, SequenceProxyPullSupplier: {
        /// Changes the event types that the consumer gets. Initially all.
        fn subscription_change(added: &[EventType], removed: &[EventType]) raises "`CosNotifyComm/InvalidEventType`.";
    }
}

// Of the proxies that call their client.
operations! {
    ProxyPullConsumer, StructuredProxyPullConsumer, SequenceProxyPullConsumer, ProxyPushSupplier,
    StructuredProxyPushSupplier, SequenceProxyPushSupplier: {
        /// Stops calls to the client until [`resume_connection`](Self::resume_connection); events for a consumer are queued meanwhile.
        fn suspend_connection()
            raises "`CosNotifyChannelAdmin/ConnectionAlreadyInactive`, `CosNotifyChannelAdmin/NotConnected`.";
        /// Resumes calls to the client, beginning with the queued events.
        fn resume_connection()
            raises "`CosNotifyChannelAdmin/ConnectionAlreadyActive`, `CosNotifyChannelAdmin/NotConnected`.";
    }
}

operations! { ProxyPushConsumer: {
    /// Connects a supplier. With `None`, it is notified neither of subscriptions nor of its disconnection.
    fn connect_any_push_supplier(supplier: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Ends the connection and the proxy.
    fn disconnect_push_consumer();
    /// Pushes one event and waits until the service has taken it.
    fn push(event: &AnyValue) raises "`CosEventComm/Disconnected` if no supplier is connected.";
} }

operations! { StructuredProxyPushConsumer: {
    /// Connects a supplier. With `None`, it is notified neither of subscriptions nor of its disconnection.
    fn connect_structured_push_supplier(supplier: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Ends the connection and the proxy.
    fn disconnect_structured_push_consumer();
    /// Pushes one event and waits until the service has taken it.
    fn push_structured_event(event: &StructuredEvent) raises "`CosEventComm/Disconnected` if no supplier is connected.";
} }

operations! { SequenceProxyPushConsumer: {
    /// Connects a supplier. With `None`, it is notified neither of subscriptions nor of its disconnection.
    fn connect_sequence_push_supplier(supplier: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Ends the connection and the proxy.
    fn disconnect_sequence_push_consumer();
    /// Pushes several events, in order, and waits until the service has taken them.
    fn push_structured_events(events: &[StructuredEvent]) raises "`CosEventComm/Disconnected` if no supplier is connected.";
} }

operations! { ProxyPullConsumer: {
    /// Connects a supplier.
    fn connect_any_pull_supplier(supplier: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_pull_consumer();
} }

operations! { StructuredProxyPullConsumer: {
    /// Connects a supplier.
    fn connect_structured_pull_supplier(supplier: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_structured_pull_consumer();
} }

operations! { SequenceProxyPullConsumer: {
    /// Connects a supplier.
    fn connect_sequence_pull_supplier(supplier: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_sequence_pull_consumer();
} }

// A `pull` waits at the service. An object's time limit applies to it as to any call: the request is then cancelled at
// the service, but an event that it had already sent is lost.

operations! { ProxyPushSupplier: {
    /// Connects a consumer.
    fn connect_any_push_consumer(consumer: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_push_supplier();
} }

operations! { StructuredProxyPushSupplier: {
    /// Connects a consumer.
    fn connect_structured_push_consumer(consumer: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_structured_push_supplier();
} }

operations! { SequenceProxyPushSupplier: {
    /// Connects a consumer.
    fn connect_sequence_push_consumer(consumer: &ObjectRef)
        raises "`CosEventChannelAdmin/AlreadyConnected`, `CosEventChannelAdmin/TypeError`.";
    /// Ends the connection and the proxy.
    fn disconnect_sequence_push_supplier();
} }

operations! { ProxyPullSupplier: {
    /// Connects a consumer. With `None`, it is notified neither of offers nor of its disconnection.
    fn connect_any_pull_consumer(consumer: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Ends the connection and the proxy.
    fn disconnect_pull_supplier();
    /// Waits for the next event, as long as the object's reply timeout allows.
    fn pull() -> [AnyValue]
        raises "`CosEventComm/Disconnected` if no consumer is connected, or once it is disconnected. An event that is on its way \
                when time is up is lost; [`ObjectRef::with_reply_timeout`] takes the limit away.";
    /// Returns the next event if there is one now.
    fn try_pull() -> [polled AnyValue] raises "`CosEventComm/Disconnected` if no consumer is connected.";
} }

operations! { StructuredProxyPullSupplier: {
    /// Connects a consumer. With `None`, it is notified neither of offers nor of its disconnection.
    fn connect_structured_pull_consumer(consumer: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Ends the connection and the proxy.
    fn disconnect_structured_pull_supplier();
    /// Waits for the next event, as long as the object's reply timeout allows.
    fn pull_structured_event() -> [StructuredEvent] raises "As [`ProxyPullSupplier::pull`].";
    /// Returns the next event if there is one now.
    fn try_pull_structured_event() -> [polled StructuredEvent] raises "`CosEventComm/Disconnected` if no consumer is connected.";
} }

operations! { SequenceProxyPullSupplier: {
    /// Connects a consumer. With `None`, it is notified neither of offers nor of its disconnection.
    fn connect_sequence_pull_consumer(consumer: Option<&ObjectRef>) raises "`CosEventChannelAdmin/AlreadyConnected`.";
    /// Ends the connection and the proxy.
    fn disconnect_sequence_pull_supplier();
    /// Waits for events, as long as the object's reply timeout allows: from one up to `max_number` of them.
    fn pull_structured_events(max_number: i32) -> [Vec<StructuredEvent>] raises "As [`ProxyPullSupplier::pull`].";
    /// Returns the current events, up to `max_number` of them; `None` without any.
    fn try_pull_structured_events(max_number: i32) -> [polled Vec<StructuredEvent>]
        raises "`CosEventComm/Disconnected` if no consumer is connected.";
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

impl StructuredProxyPushConsumer {
    /// Pushes an event with a body written by hand, in CDR: for programs that send much of one form, and benchmarks.
    /// Nothing is allocated in the steady state.
    ///
    /// # Errors
    /// The same as of [`push_structured_event`](Self::push_structured_event).
    pub fn push_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.object().invoke("push_structured_event", write).map(|_| ())
    }
}

impl SequenceProxyPushConsumer {
    /// Pushes an `EventBatch` written by hand. Nothing is allocated in the steady state.
    ///
    /// # Errors
    /// The same as of [`push_structured_events`](Self::push_structured_events).
    pub fn push_written(&self, write: impl Fn(&mut Writer<'_>)) -> Result<(), InvokeError> {
        self.object().invoke("push_structured_events", write).map(|_| ())
    }
}

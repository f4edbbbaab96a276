//! `ConsumerAdmin` and `SupplierAdmin`.

use super::{ClientType, EventChannel, EventType, FilterGroupOperator, Property, ProxyConsumer, ProxySupplier};
use crate::event_service;
use crate::typed::{operations, stubs};

stubs! {
    /// `CosNotifyChannelAdmin::ConsumerAdmin`: makes and finds the proxies through which consumers are served.
    ConsumerAdmin = "IDL:omg.org/CosNotifyChannelAdmin/ConsumerAdmin:1.0";
    /// `CosNotifyChannelAdmin::SupplierAdmin`: makes and finds the proxies to which suppliers push.
    SupplierAdmin = "IDL:omg.org/CosNotifyChannelAdmin/SupplierAdmin:1.0";
}

operations! { ConsumerAdmin, SupplierAdmin: {
    /// Its id, unique among the channel's admins of its side; 0 for the default one.
    fn my_id = "_get_MyID"() -> [i32];
    /// The channel it belongs to.
    fn my_channel = "_get_MyChannel"() -> [object EventChannel];
    /// How the admin's filters and those of its proxies combine.
    fn my_operator = "_get_MyOperator"() -> [FilterGroupOperator];
    /// Ends the admin and its proxies.
    fn destroy();
} }

operations! { ConsumerAdmin: {
    /// Ids of the proxies that push to consumers.
    fn push_suppliers = "_get_push_suppliers"() -> [Vec<i32>];
    /// Ids of the proxies that consumers pull from.
    fn pull_suppliers = "_get_pull_suppliers"() -> [Vec<i32>];
    /// The proxy of that id.
    fn get_proxy_supplier(id: i32) -> [object ProxySupplier] raises "`CosNotifyChannelAdmin/ProxyNotFound`.";
    /// Makes a proxy that pushes events of that form, and gives it with its id.
    fn obtain_notification_push_supplier(form: ClientType) -> [made ProxySupplier]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`.";
    /// Makes a proxy that pushes events of that form, with its properties, and gives it with its id: an operation of TAO's
    /// `NotifyExt::ConsumerAdmin`, which this service has too. The reference then says the priority model of a pool that is
    /// among the properties.
    fn obtain_notification_push_supplier_with_qos(form: ClientType, qos: &[Property]) -> [made ProxySupplier]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`, `CosNotification/UnsupportedQoS`; `BAD_OPERATION` from services that \
                have only the standard's.";
    /// Makes a proxy that pushes events of that form and has a name, which services show: an operation of TAO's
    /// `NotifyMonitoringExt::ConsumerAdmin`, which this service has too.
    fn obtain_named_notification_push_supplier(form: ClientType, name: &str) -> [made ProxySupplier]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`, `NotifyMonitoringExt/NameAlreadyUsed`; `BAD_OPERATION` from services \
                that have only the standard's.";
    /// Makes a proxy from which events of that form are pulled, and gives it with its id.
    fn obtain_notification_pull_supplier(form: ClientType) -> [made ProxySupplier]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`.";
    /// Changes what event types all proxies of this admin subscribe to.
    fn subscription_change(added: &[EventType], removed: &[EventType]) raises "`CosNotifyComm/InvalidEventType`.";
} }

operations! { SupplierAdmin: {
    /// Ids of the proxies that suppliers push to.
    fn push_consumers = "_get_push_consumers"() -> [Vec<i32>];
    /// Ids of the proxies that pull from suppliers.
    fn pull_consumers = "_get_pull_consumers"() -> [Vec<i32>];
    /// The proxy of that id.
    fn get_proxy_consumer(id: i32) -> [object ProxyConsumer] raises "`CosNotifyChannelAdmin/ProxyNotFound`.";
    /// Makes a proxy that takes events of that form, and gives it with its id.
    fn obtain_notification_push_consumer(form: ClientType) -> [made ProxyConsumer]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`.";
    /// Makes a proxy that takes events of that form, with its properties, and gives it with its id: an operation of TAO's
    /// `NotifyExt::SupplierAdmin`, which this service has too. The reference then says the priority model of a pool that is
    /// among the properties.
    fn obtain_notification_push_consumer_with_qos(form: ClientType, qos: &[Property]) -> [made ProxyConsumer]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`, `CosNotification/UnsupportedQoS`; `BAD_OPERATION` from services that \
                have only the standard's.";
    /// Makes a proxy that takes events of that form and has a name, which services show: an operation of TAO's
    /// `NotifyMonitoringExt::SupplierAdmin`, which this service has too.
    fn obtain_named_notification_push_consumer(form: ClientType, name: &str) -> [made ProxyConsumer]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`, `NotifyMonitoringExt/NameAlreadyUsed`; `BAD_OPERATION` from services \
                that have only the standard's.";
    /// Makes a proxy that pulls events of that form from its supplier, and gives it with its id.
    fn obtain_notification_pull_consumer(form: ClientType) -> [made ProxyConsumer]
        raises "`CosNotifyChannelAdmin/AdminLimitExceeded`.";
    /// Changes what event types the suppliers of this admin say they offer.
    fn offer_change(added: &[EventType], removed: &[EventType]) raises "`CosNotifyComm/InvalidEventType`.";
} }

impl ConsumerAdmin {
    /// The admin as one of the Event Service, from which it inherits operations.
    #[must_use]
    pub fn as_event_admin(&self) -> event_service::ConsumerAdmin {
        event_service::ConsumerAdmin::unchecked(self.object().clone())
    }
}

impl SupplierAdmin {
    /// The admin as one of the Event Service, from which it inherits operations.
    #[must_use]
    pub fn as_event_admin(&self) -> event_service::SupplierAdmin {
        event_service::SupplierAdmin::unchecked(self.object().clone())
    }
}

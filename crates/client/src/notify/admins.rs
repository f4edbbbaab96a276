//! `ConsumerAdmin` and `SupplierAdmin`.

use super::{
    ClientType, EventChannel, EventType, FilterGroupOperator, Property, ProxyConsumer, ProxySupplier, filter_admin,
    mapping_filters, qos_admin, stub, write_properties,
};
use crate::InvokeError;

stub! {
    /// `CosNotifyChannelAdmin::ConsumerAdmin`: makes and finds the proxies through which consumers are served.
    ConsumerAdmin, "IDL:omg.org/CosNotifyChannelAdmin/ConsumerAdmin:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::SupplierAdmin`: makes and finds the proxies to which suppliers push.
    SupplierAdmin, "IDL:omg.org/CosNotifyChannelAdmin/SupplierAdmin:1.0"
}

qos_admin!(ConsumerAdmin);
qos_admin!(SupplierAdmin);
filter_admin!(ConsumerAdmin);
filter_admin!(SupplierAdmin);
mapping_filters!(ConsumerAdmin);

/// What both kinds of admin have.
macro_rules! admin {
    ($name:ident) => {
        impl $name {
            /// Its id, unique among the channel's admins of its side; 0 for the default one.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn my_id(&self) -> Result<i32, InvokeError> {
                self.object().call_long("_get_MyID")
            }

            /// The channel it belongs to.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn my_channel(&self) -> Result<EventChannel, InvokeError> {
                self.object().call_object("_get_MyChannel", |_| ()).map(EventChannel::unchecked)
            }

            /// How its filters and those of its proxies combine.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn my_operator(&self) -> Result<FilterGroupOperator, InvokeError> {
                let operation = "_get_MyOperator";
                self.object().invoke(operation, |_| ())?.read(operation, FilterGroupOperator::read)
            }

            /// Ends the admin and its proxies.
            ///
            /// # Errors
            /// See [`InvokeError`].
            pub fn destroy(&self) -> Result<(), InvokeError> {
                self.object().call_void("destroy", |_| ())
            }
        }
    };
}

admin!(ConsumerAdmin);
admin!(SupplierAdmin);

impl ConsumerAdmin {
    /// Ids of the proxies that push to consumers.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn push_suppliers(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("_get_push_suppliers")
    }

    /// Ids of the proxies that consumers pull from.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn pull_suppliers(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("_get_pull_suppliers")
    }

    /// The proxy of that id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/ProxyNotFound`.
    pub fn get_proxy_supplier(&self, id: i32) -> Result<ProxySupplier, InvokeError> {
        self.object().call_object("get_proxy_supplier", |w| w.i32(id)).map(ProxySupplier::unchecked)
    }

    /// Makes a proxy that pushes events of that form, and gives it with its id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminLimitExceeded`.
    pub fn obtain_notification_push_supplier(&self, form: ClientType) -> Result<(ProxySupplier, i32), InvokeError> {
        let (object, id) =
            self.object().call_object_and_id("obtain_notification_push_supplier", |w| w.u32(form.to_cdr()))?;
        Ok((ProxySupplier::unchecked(object), id))
    }

    /// Makes a proxy that pushes events of that form, with its properties, and gives it with its id: an operation of TAO's
    /// `NotifyExt::ConsumerAdmin`, which this service has too. The reference then says the priority model of a pool that is
    /// among the properties.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminLimitExceeded`, `CosNotification/UnsupportedQoS`; `BAD_OPERATION` from services that
    /// have only the standard's.
    pub fn obtain_notification_push_supplier_with_qos(
        &self,
        form: ClientType,
        qos: &[Property],
    ) -> Result<(ProxySupplier, i32), InvokeError> {
        let operation = "obtain_notification_push_supplier_with_qos";
        let (object, id) = self.object().call_object_and_id(operation, |w| {
            w.u32(form.to_cdr());
            write_properties(qos, w)
        })?;
        Ok((ProxySupplier::unchecked(object), id))
    }

    /// Makes a proxy from which events of that form are pulled, and gives it with its id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminLimitExceeded`.
    pub fn obtain_notification_pull_supplier(&self, form: ClientType) -> Result<(ProxySupplier, i32), InvokeError> {
        let (object, id) =
            self.object().call_object_and_id("obtain_notification_pull_supplier", |w| w.u32(form.to_cdr()))?;
        Ok((ProxySupplier::unchecked(object), id))
    }

    /// The admin as one of the Event Service, from which it inherits operations.
    #[must_use]
    pub fn as_event_admin(&self) -> crate::event_service::ConsumerAdmin {
        crate::event_service::ConsumerAdmin::unchecked(self.object().clone())
    }

    /// Changes what event types all proxies of this admin subscribe to.
    ///
    /// # Errors
    /// `CosNotifyComm/InvalidEventType`.
    pub fn subscription_change(&self, added: &[EventType], removed: &[EventType]) -> Result<(), InvokeError> {
        self.object().call_change("subscription_change", added, removed)
    }
}

impl SupplierAdmin {
    /// Ids of the proxies that suppliers push to.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn push_consumers(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("_get_push_consumers")
    }

    /// Ids of the proxies that pull from suppliers.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn pull_consumers(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("_get_pull_consumers")
    }

    /// The proxy of that id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/ProxyNotFound`.
    pub fn get_proxy_consumer(&self, id: i32) -> Result<ProxyConsumer, InvokeError> {
        self.object().call_object("get_proxy_consumer", |w| w.i32(id)).map(ProxyConsumer::unchecked)
    }

    /// Makes a proxy that takes events of that form, and gives it with its id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminLimitExceeded`.
    pub fn obtain_notification_push_consumer(&self, form: ClientType) -> Result<(ProxyConsumer, i32), InvokeError> {
        let (object, id) =
            self.object().call_object_and_id("obtain_notification_push_consumer", |w| w.u32(form.to_cdr()))?;
        Ok((ProxyConsumer::unchecked(object), id))
    }

    /// Makes a proxy that takes events of that form, with its properties, and gives it with its id: an operation of TAO's
    /// `NotifyExt::SupplierAdmin`, which this service has too. The reference then says the priority model of a pool that is
    /// among the properties.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminLimitExceeded`, `CosNotification/UnsupportedQoS`; `BAD_OPERATION` from services that
    /// have only the standard's.
    pub fn obtain_notification_push_consumer_with_qos(
        &self,
        form: ClientType,
        qos: &[Property],
    ) -> Result<(ProxyConsumer, i32), InvokeError> {
        let operation = "obtain_notification_push_consumer_with_qos";
        let (object, id) = self.object().call_object_and_id(operation, |w| {
            w.u32(form.to_cdr());
            write_properties(qos, w)
        })?;
        Ok((ProxyConsumer::unchecked(object), id))
    }

    /// Makes a proxy that pulls events of that form from its supplier, and gives it with its id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminLimitExceeded`.
    pub fn obtain_notification_pull_consumer(&self, form: ClientType) -> Result<(ProxyConsumer, i32), InvokeError> {
        let (object, id) =
            self.object().call_object_and_id("obtain_notification_pull_consumer", |w| w.u32(form.to_cdr()))?;
        Ok((ProxyConsumer::unchecked(object), id))
    }

    /// The admin as one of the Event Service, from which it inherits operations.
    #[must_use]
    pub fn as_event_admin(&self) -> crate::event_service::SupplierAdmin {
        crate::event_service::SupplierAdmin::unchecked(self.object().clone())
    }

    /// Changes what event types the suppliers of this admin say they offer.
    ///
    /// # Errors
    /// `CosNotifyComm/InvalidEventType`.
    pub fn offer_change(&self, added: &[EventType], removed: &[EventType]) -> Result<(), InvokeError> {
        self.object().call_change("offer_change", added, removed)
    }
}

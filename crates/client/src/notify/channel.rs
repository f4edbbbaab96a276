//! `EventChannelFactory` and `EventChannel`.

use super::{
    ConsumerAdmin, FilterFactory, FilterGroupOperator, Property, SupplierAdmin, qos_admin, stub, write_properties,
};
use crate::{InvokeError, ObjectRef};

stub! {
    /// `CosNotifyChannelAdmin::EventChannelFactory`: makes, lists and finds channels.
    EventChannelFactory, "IDL:omg.org/CosNotifyChannelAdmin/EventChannelFactory:1.0"
}

stub! {
    /// `CosNotifyChannelAdmin::EventChannel`: one channel with its admins.
    EventChannel, "IDL:omg.org/CosNotifyChannelAdmin/EventChannel:1.0"
}

qos_admin!(EventChannel);

impl EventChannelFactory {
    /// Makes a channel and gives it with its id.
    ///
    /// # Errors
    /// `CosNotification/UnsupportedQoS`, `CosNotification/UnsupportedAdmin`.
    pub fn create_channel(&self, qos: &[Property], admin: &[Property]) -> Result<(EventChannel, i32), InvokeError> {
        let (object, id) = self.object().call_object_and_id("create_channel", |w| {
            write_properties(qos, w)?;
            write_properties(admin, w)
        })?;
        Ok((EventChannel::unchecked(object), id))
    }

    /// Whether it gives channels names: `NotifyMonitoringExt::EventChannelFactory`, of TAO's service and Campanile's.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn gives_names(&self) -> Result<bool, InvokeError> {
        self.object().is_a("IDL:sandia.gov/NotifyMonitoringExt/EventChannelFactory:1.0")
    }

    /// Makes a channel of a name that no other has, and gives it with its id. For a factory that
    /// [gives names](Self::gives_names).
    ///
    /// # Errors
    /// `NotifyMonitoringExt/NameAlreadyUsed`, and as [`create_channel`](Self::create_channel).
    pub fn create_named_channel(
        &self,
        qos: &[Property],
        admin: &[Property],
        name: &str,
    ) -> Result<(EventChannel, i32), InvokeError> {
        let (object, id) = self.object().call_object_and_id("create_named_channel", |w| {
            write_properties(qos, w)?;
            write_properties(admin, w)?;
            w.string(name);
            Ok::<_, giop::value::WriteError>(())
        })?;
        Ok((EventChannel::unchecked(object), id))
    }

    /// The ids of all channels.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn get_all_channels(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("get_all_channels")
    }

    /// The channel of that id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/ChannelNotFound`.
    pub fn get_event_channel(&self, id: i32) -> Result<EventChannel, InvokeError> {
        self.object().call_object("get_event_channel", |w| w.i32(id)).map(EventChannel::unchecked)
    }
}

impl EventChannel {
    /// The factory that made it.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn my_factory(&self) -> Result<EventChannelFactory, InvokeError> {
        self.attribute("_get_MyFactory").map(EventChannelFactory::unchecked)
    }

    /// The admin for consumers that is always there.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn default_consumer_admin(&self) -> Result<ConsumerAdmin, InvokeError> {
        self.attribute("_get_default_consumer_admin").map(ConsumerAdmin::unchecked)
    }

    /// The admin for suppliers that is always there.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn default_supplier_admin(&self) -> Result<SupplierAdmin, InvokeError> {
        self.attribute("_get_default_supplier_admin").map(SupplierAdmin::unchecked)
    }

    /// The factory of filters; `None` if the service has none.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn default_filter_factory(&self) -> Result<Option<FilterFactory>, InvokeError> {
        let factory = self.object().call_optional_object("_get_default_filter_factory", |_| ())?;
        Ok(factory.map(FilterFactory::unchecked))
    }

    /// The channel as one of the Event Service, from which it inherits operations.
    #[must_use]
    pub fn as_event_channel(&self) -> crate::event_service::EventChannel {
        crate::event_service::EventChannel::unchecked(self.object().clone())
    }

    /// Makes an admin for consumers and gives it with its id.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn new_for_consumers(&self, operator: FilterGroupOperator) -> Result<(ConsumerAdmin, i32), InvokeError> {
        let (object, id) = self.object().call_object_and_id("new_for_consumers", |w| w.u32(operator.to_cdr()))?;
        Ok((ConsumerAdmin::unchecked(object), id))
    }

    /// Makes an admin for suppliers and gives it with its id.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn new_for_suppliers(&self, operator: FilterGroupOperator) -> Result<(SupplierAdmin, i32), InvokeError> {
        let (object, id) = self.object().call_object_and_id("new_for_suppliers", |w| w.u32(operator.to_cdr()))?;
        Ok((SupplierAdmin::unchecked(object), id))
    }

    /// The admin for consumers of that id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminNotFound`.
    pub fn get_consumeradmin(&self, id: i32) -> Result<ConsumerAdmin, InvokeError> {
        self.object().call_object("get_consumeradmin", |w| w.i32(id)).map(ConsumerAdmin::unchecked)
    }

    /// The admin for suppliers of that id.
    ///
    /// # Errors
    /// `CosNotifyChannelAdmin/AdminNotFound`.
    pub fn get_supplieradmin(&self, id: i32) -> Result<SupplierAdmin, InvokeError> {
        self.object().call_object("get_supplieradmin", |w| w.i32(id)).map(SupplierAdmin::unchecked)
    }

    /// The ids of all admins for consumers.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn get_all_consumeradmins(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("get_all_consumeradmins")
    }

    /// The ids of all admins for suppliers.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn get_all_supplieradmins(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("get_all_supplieradmins")
    }

    /// The channel's administrative properties: `MaxQueueLength`, `MaxConsumers`, `MaxSuppliers`, `RejectNewEvents`.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn get_admin(&self) -> Result<Vec<Property>, InvokeError> {
        self.object().call_properties("get_admin")
    }

    /// Changes the administrative properties.
    ///
    /// # Errors
    /// `CosNotification/UnsupportedAdmin`.
    pub fn set_admin(&self, admin: &[Property]) -> Result<(), InvokeError> {
        self.object().call_set_properties("set_admin", admin)
    }

    /// Ends the channel and everything in it.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn destroy(&self) -> Result<(), InvokeError> {
        self.object().call_void("destroy", |_| ())
    }

    fn attribute(&self, operation: &str) -> Result<ObjectRef, InvokeError> {
        self.object().call_object(operation, |_| ())
    }
}

/// Finds a channel. `object` is a factory, or a channel itself.
///
/// `id` is the channel's id in the factory. `None` means the default channel: the one with id 0, or else the only one
/// there is. Gives the channel and its id; no id if `object` is the channel.
///
/// # Errors
/// [`InvokeError::NoChannel`] telling the ids there are, [`InvokeError::WrongType`] if `object` is neither.
pub fn find_channel(object: &ObjectRef, id: Option<i32>) -> Result<(EventChannel, Option<i32>), InvokeError> {
    if !object.is_a(EventChannelFactory::REPOSITORY_ID)? {
        let channel = EventChannel::narrow(object.clone()).map_err(|error| match error {
            InvokeError::WrongType { found, .. } => {
                InvokeError::WrongType { wanted: EventChannelFactory::REPOSITORY_ID, found }
            }
            error => error,
        })?;
        return match id {
            None => Ok((channel, None)),
            Some(id) => channel.my_factory()?.get_event_channel(id).map(|channel| (channel, Some(id))),
        };
    }
    let factory = EventChannelFactory::unchecked(object.clone());
    let missing = |ids: &[i32]| {
        let reason = match (id, ids) {
            (_, []) => "the service has no channels yet; create one".to_owned(),
            (Some(id), ids) => format!("there is no channel {id}; there are: {}", list(ids)),
            (None, ids) => format!("the service has no default channel; choose one by its id: {}", list(ids)),
        };
        InvokeError::NoChannel { reason }
    };
    let chosen = match id {
        Some(id) => id,
        None => match factory.get_all_channels()?.as_slice() {
            [only] => *only,
            ids if ids.contains(&0) => 0,
            ids => return Err(missing(ids)),
        },
    };
    match factory.get_event_channel(chosen) {
        Ok(channel) => Ok((channel, Some(chosen))),
        Err(error) if error.is("ChannelNotFound") => Err(missing(&factory.get_all_channels()?)),
        Err(error) => Err(error),
    }
}

fn list(ids: &[i32]) -> String {
    const SHOWN_MAX: usize = 20;
    let mut text: Vec<String> = ids.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    if ids.len() > SHOWN_MAX {
        text.push(format!("… ({} in all)", ids.len()));
    }
    text.join(", ")
}

//! `EventChannelFactory` and `EventChannel`.

use super::{ConsumerAdmin, FilterFactory, FilterGroupOperator, Property, SupplierAdmin};
use crate::typed::{operations, stubs};
use crate::{InvokeError, ObjectRef, event_service};

stubs! {
    /// `CosNotifyChannelAdmin::EventChannelFactory`: makes, lists and finds channels.
    EventChannelFactory = "IDL:omg.org/CosNotifyChannelAdmin/EventChannelFactory:1.0";
    /// `CosNotifyChannelAdmin::EventChannel`: one channel with its admins.
    EventChannel = "IDL:omg.org/CosNotifyChannelAdmin/EventChannel:1.0";
}

operations! { EventChannelFactory: {
    /// Makes a channel and gives it with its id.
    fn create_channel(qos: &[Property], admin: &[Property]) -> [made EventChannel]
        raises "`CosNotification/UnsupportedQoS`, `CosNotification/UnsupportedAdmin`.";
    /// Makes a channel with a unique name, and returns it with its id. For a factory that [gives names](Self::gives_names).
    fn create_named_channel(qos: &[Property], admin: &[Property], name: &str) -> [made EventChannel]
        raises "`NotifyMonitoringExt/NameAlreadyUsed`, and as [`create_channel`](Self::create_channel).";
    /// The ids of all channels.
    fn get_all_channels() -> [Vec<i32>];
    /// The channel of that id.
    fn get_event_channel(id: i32) -> [object EventChannel] raises "`CosNotifyChannelAdmin/ChannelNotFound`.";
} }

impl EventChannelFactory {
    /// Whether the factory supports names: `NotifyMonitoringExt::EventChannelFactory`, of TAO's service and Campanile's.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn gives_names(&self) -> Result<bool, InvokeError> {
        self.object().is_a("IDL:sandia.gov/NotifyMonitoringExt/EventChannelFactory:1.0")
    }
}

operations! { EventChannel: {
    /// The factory that made it.
    fn my_factory = "_get_MyFactory"() -> [object EventChannelFactory];
    /// The admin for consumers that is always there.
    fn default_consumer_admin = "_get_default_consumer_admin"() -> [object ConsumerAdmin];
    /// The admin for suppliers that is always there.
    fn default_supplier_admin = "_get_default_supplier_admin"() -> [object SupplierAdmin];
    /// The factory of filters; `None` if the service has none.
    fn default_filter_factory = "_get_default_filter_factory"() -> [optional FilterFactory];
    /// Makes an admin for consumers and gives it with its id.
    fn new_for_consumers(operator: FilterGroupOperator) -> [made ConsumerAdmin];
    /// Makes an admin for suppliers and gives it with its id.
    fn new_for_suppliers(operator: FilterGroupOperator) -> [made SupplierAdmin];
    /// The admin for consumers of that id.
    fn get_consumeradmin(id: i32) -> [object ConsumerAdmin] raises "`CosNotifyChannelAdmin/AdminNotFound`.";
    /// The admin for suppliers of that id.
    fn get_supplieradmin(id: i32) -> [object SupplierAdmin] raises "`CosNotifyChannelAdmin/AdminNotFound`.";
    /// The ids of all admins for consumers.
    fn get_all_consumeradmins() -> [Vec<i32>];
    /// The ids of all admins for suppliers.
    fn get_all_supplieradmins() -> [Vec<i32>];
    /// The channel's administrative properties: `MaxQueueLength`, `MaxConsumers`, `MaxSuppliers`, `RejectNewEvents`.
    fn get_admin() -> [Vec<Property>];
    /// Changes the administrative properties.
    fn set_admin(admin: &[Property]) raises "`CosNotification/UnsupportedAdmin`.";
    /// Ends the channel and everything in it.
    fn destroy();
} }

impl EventChannel {
    /// The channel as one of the Event Service, from which it inherits operations.
    #[must_use]
    pub fn as_event_channel(&self) -> event_service::EventChannel {
        event_service::EventChannel::unchecked(self.object().clone())
    }
}

/// Finds a channel. `object` is a factory, or a channel itself.
///
/// `id` is the channel's id in the factory. `None` means the default channel: the one with id 0, or else the only one. Returns the channel
/// and its id; no id if `object` is the channel.
///
/// # Errors
/// [`InvokeError::NoChannel`] with the existing ids, [`InvokeError::WrongType`] if `object` is neither.
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

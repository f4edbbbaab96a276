//! The OMG Notification Service 1.1: its objects as typed stubs, its data as structs.
//!
//! A stub wraps an [`ObjectRef`] and offers the operations of its interface and of those it inherits from, with the
//! names of the IDL. `narrow` asks the object whether it supports the interface; `unchecked` believes the caller.
//!
//! ```no_run
//! use campanile_client::notify::{ClientType, EventChannelFactory};
//! use campanile_client::{Orb, OrbOptions};
//!
//! let orb = Orb::new(OrbOptions::default());
//! let factory = EventChannelFactory::narrow(orb.resolve("corbaloc::127.0.0.1:2809/NotificationService")?)?;
//! for id in factory.get_all_channels()? {
//!     let channel = factory.get_event_channel(id)?;
//!     let admin = channel.default_supplier_admin()?;
//!     let (proxy, proxy_id) = admin.obtain_notification_push_consumer(ClientType::Structured)?;
//!     println!("proxy {proxy_id} on channel {id} is a {:?}", proxy.my_type()?);
//! }
//! # Ok::<(), campanile_client::InvokeError>(())
//! ```

mod admins;
mod channel;
mod comm;
mod filter;
mod filter_servant;
mod pools;
mod proxies;
mod pull;
mod topics;
mod types;

pub use admins::{ConsumerAdmin, SupplierAdmin};
pub use channel::{EventChannel, EventChannelFactory, find_channel};
pub use comm::{
    BatchEvents, CallbackConsumer, ConsumerCallbacks, ConsumerServant, Delivery, PrioritizedConsumer,
    SupplierCallbacks, SupplierServant, events_of,
};
pub use filter::{
    ConstraintExp, ConstraintInfo, EXTENDED_TCL, Filter, FilterFactory, FilterRefusal, MappingConstraintInfo,
    MappingConstraintPair, MappingFilter, filter_refusal,
};
pub use filter_servant::{FilterCall, FilterServant};
pub use pools::{ThreadPool, ThreadPoolLane, ThreadPoolLanes};
pub use proxies::{
    ProxyConsumer, ProxyPullConsumer, ProxyPullSupplier, ProxyPushConsumer, ProxyPushSupplier, ProxySupplier,
    SequenceProxyPullConsumer, SequenceProxyPullSupplier, SequenceProxyPushConsumer, SequenceProxyPushSupplier,
    StructuredProxyPullConsumer, StructuredProxyPullSupplier, StructuredProxyPushConsumer, StructuredProxyPushSupplier,
};
pub use pull::{PullableEvent, QueueSupplier};
pub use topics::{Topic, Topics};
pub use types::{
    ClientType, EventType, FilterGroupOperator, NamedPropertyRange, ObtainInfoMode, Property, PropertyError, ProxyType,
    QosErrorCode, StructuredEvent, admin_limit, invalid_event_type, property_errors,
};

pub(crate) use comm::{DISCONNECTED, push_consumer};
pub(crate) use filter::{constraint_error_text, filter_admin, mapping_filters};
pub(crate) use proxies::connect;
pub(crate) use types::{
    property_errors_text, read_batch, read_event_type, read_sequence, skip_event, work, write_batch, write_event_types,
    write_properties,
};

use crate::{InvokeError, ObjectRef};
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;

/// Makes a typed stub: a newtype around [`ObjectRef`].
macro_rules! stub {
    ($(#[$doc:meta])* $name:ident, $id:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name($crate::ObjectRef);

        impl $name {
            /// The interface's repository id.
            pub const REPOSITORY_ID: &'static str = $id;

            /// Wraps an object without asking it.
            #[must_use]
            pub fn unchecked(object: $crate::ObjectRef) -> Self {
                Self(object)
            }

            /// Wraps an object after asking it whether it supports the interface, unless its reference already says
            /// so.
            ///
            /// # Errors
            /// [`InvokeError::WrongType`]($crate::InvokeError::WrongType) if it does not; otherwise what the call met.
            pub fn narrow(object: $crate::ObjectRef) -> Result<Self, $crate::InvokeError> {
                if object.is_a(Self::REPOSITORY_ID)? {
                    Ok(Self(object))
                } else {
                    let found = object.type_id().to_owned();
                    Err($crate::InvokeError::WrongType { wanted: Self::REPOSITORY_ID, found })
                }
            }

            /// The object beneath.
            #[must_use]
            pub fn object(&self) -> &$crate::ObjectRef {
                &self.0
            }
        }
    };
}
pub(crate) use stub;

/// Calls that several stubs make.
impl ObjectRef {
    pub(crate) fn call_void<A: crate::Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<(), InvokeError> {
        self.invoke(operation, write)?.read(operation, |_| Ok::<(), giop::cdr::ReadError>(()))
    }

    pub(crate) fn call_object<A: crate::Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<ObjectRef, InvokeError> {
        let ior = self.invoke(operation, write)?.read(operation, Ior::read)?;
        Ok(self.orb().object(ior))
    }

    /// An operation that returns an object and has one `long` as its out parameter.
    pub(crate) fn call_object_and_id<A: crate::Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<(ObjectRef, i32), InvokeError> {
        let (ior, id) = self
            .invoke(operation, write)?
            .read(operation, |r| Ok::<_, giop::cdr::ReadError>((Ior::read(r)?, r.i32()?)))?;
        Ok((self.orb().object(ior), id))
    }

    /// An attribute or operation without arguments that returns `sequence<long>`.
    pub(crate) fn call_ids(&self, operation: &str) -> Result<Vec<i32>, InvokeError> {
        self.invoke(operation, |_| ())?.read(operation, |r| read_sequence(r, 4, Reader::i32))
    }

    pub(crate) fn call_text(&self, operation: &str) -> Result<String, InvokeError> {
        self.invoke(operation, |_| ())?.read(operation, Reader::text)
    }

    pub(crate) fn call_long(&self, operation: &str) -> Result<i32, InvokeError> {
        self.invoke(operation, |_| ())?.read(operation, Reader::i32)
    }

    /// `CosNotification::QoSAdmin::get_qos` and its like.
    pub(crate) fn call_properties(&self, operation: &str) -> Result<Vec<Property>, InvokeError> {
        self.invoke(operation, |_| ())?.read(operation, types::read_properties)
    }

    pub(crate) fn call_set_properties(&self, operation: &str, properties: &[Property]) -> Result<(), InvokeError> {
        self.call_void(operation, |w| write_properties(properties, w))
    }

    pub(crate) fn call_validate(
        &self,
        operation: &str,
        properties: &[Property],
    ) -> Result<Vec<NamedPropertyRange>, InvokeError> {
        self.invoke(operation, |w| write_properties(properties, w))?
            .read(operation, |r| read_sequence(r, 4, NamedPropertyRange::read))
    }

    /// `obtain_offered_types` and `obtain_subscription_types`.
    pub(crate) fn call_event_types(
        &self,
        operation: &str,
        mode: ObtainInfoMode,
    ) -> Result<Vec<EventType>, InvokeError> {
        self.invoke(operation, |w| w.u32(mode.to_cdr()))?.read(operation, |r| read_sequence(r, 8, read_event_type))
    }

    /// An operation that returns an object which may be nil.
    pub(crate) fn call_optional_object<A: crate::Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<Option<ObjectRef>, InvokeError> {
        let ior = self.invoke(operation, write)?.read(operation, Ior::read)?;
        Ok((!ior.is_nil()).then(|| self.orb().object(ior)))
    }

    pub(crate) fn call_change(
        &self,
        operation: &str,
        added: &[EventType],
        removed: &[EventType],
    ) -> Result<(), InvokeError> {
        self.call_void(operation, |w| {
            write_event_types(added, w);
            write_event_types(removed, w);
        })
    }
}

/// Adds the operations of `CosNotification::QoSAdmin` to a stub.
macro_rules! qos_admin {
    ($name:ident) => {
        impl $name {
            /// The quality of service in effect here.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn get_qos(&self) -> Result<Vec<$crate::notify::Property>, $crate::InvokeError> {
                self.object().call_properties("get_qos")
            }

            /// Changes the quality of service.
            ///
            /// # Errors
            /// `CosNotification/UnsupportedQoS`, with a [`PropertyError`]($crate::notify::PropertyError) for each
            /// property refused ([`property_errors`]($crate::notify::property_errors)).
            pub fn set_qos(&self, qos: &[$crate::notify::Property]) -> Result<(), $crate::InvokeError> {
                self.object().call_set_properties("set_qos", qos)
            }

            /// Asks whether a quality of service would be accepted, and for what ranges.
            ///
            /// # Errors
            /// `CosNotification/UnsupportedQoS` if it would not.
            pub fn validate_qos(
                &self,
                qos: &[$crate::notify::Property],
            ) -> Result<Vec<$crate::notify::NamedPropertyRange>, $crate::InvokeError> {
                self.object().call_validate("validate_qos", qos)
            }
        }
    };
}
pub(crate) use qos_admin;

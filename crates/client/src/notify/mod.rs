//! The OMG Notification Service 1.1: its objects as typed stubs, its data as structs.
//!
//! A stub wraps an [`ObjectRef`](crate::ObjectRef) and offers the operations of its interface and of those it inherits from, with the names
//! of the IDL. `narrow` asks the object whether it supports the interface; `unchecked` does not.
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

pub(crate) use comm::{DISCONNECTED, push_consumer, push_supplier};
pub(crate) use filter::constraint_error_text;
pub(crate) use types::{property_errors_text, skip_event};

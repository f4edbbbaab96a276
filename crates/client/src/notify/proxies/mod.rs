//! The proxies: what a supplier pushes to or is pulled by, and what pushes to a consumer or is pulled from.
//!
//! Three forms (Any, structured, sequence), two sides, push and pull: twelve interfaces, each with the operations of
//! `ProxyConsumer` or `ProxySupplier` beside its own.

mod consumers;
mod suppliers;

pub use consumers::{
    ProxyConsumer, ProxyPullConsumer, ProxyPushConsumer, SequenceProxyPullConsumer, SequenceProxyPushConsumer,
    StructuredProxyPullConsumer, StructuredProxyPushConsumer,
};
pub use suppliers::{
    ProxyPullSupplier, ProxyPushSupplier, ProxySupplier, SequenceProxyPullSupplier, SequenceProxyPushSupplier,
    StructuredProxyPullSupplier, StructuredProxyPushSupplier,
};

use crate::{InvokeError, ObjectRef};
use giop::ior::Ior;

/// What every proxy has.
macro_rules! proxy {
    ($name:ident, $admin:ident) => {
        $crate::notify::qos_admin!($name);
        $crate::notify::filter_admin!($name);

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
use proxy;

/// What the proxies have that call their client: a way to stop and to start again.
macro_rules! pausable {
    ($name:ident) => {
        impl $name {
            /// Leaves the client alone until [`resume_connection`](Self::resume_connection); events for a consumer are
            /// kept meanwhile.
            ///
            /// # Errors
            /// `CosNotifyChannelAdmin/ConnectionAlreadyInactive`, `CosNotifyChannelAdmin/NotConnected`.
            pub fn suspend_connection(&self) -> Result<(), InvokeError> {
                self.object().call_void("suspend_connection", |_| ())
            }

            /// Goes on, with the events kept first.
            ///
            /// # Errors
            /// `CosNotifyChannelAdmin/ConnectionAlreadyActive`, `CosNotifyChannelAdmin/NotConnected`.
            pub fn resume_connection(&self) -> Result<(), InvokeError> {
                self.object().call_void("resume_connection", |_| ())
            }
        }
    };
}
use pausable;

/// Calls a `connect_*` operation with a reference, or nil.
pub(crate) fn connect(proxy: &ObjectRef, operation: &str, peer: Option<&ObjectRef>) -> Result<(), InvokeError> {
    proxy.call_void(operation, |w| match peer {
        Some(peer) => peer.ior().write(w),
        None => Ior::nil().write(w),
    })
}

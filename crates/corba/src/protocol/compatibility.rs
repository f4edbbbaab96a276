//! What is done as old servers do it, for clients that came to rely on it, and not as the standard says.

use crate::exceptions::{Raised, UserException};

/// Ways in which a service keeps to what old servers do instead of the standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compatibility {
    /// Unknown properties are stored, returned, and have no effect, and are not `UnsupportedQoS` or `UnsupportedAdmin`: TAO's clients set
    /// properties of their own.
    pub ignore_unknown_properties: bool,
    /// `MaxConsumers` and `MaxSuppliers` answer `IMP_LIMIT`, as TAO does, and not `AdminLimitExceeded`.
    pub limits_as_imp_limit: bool,
    /// The default admins of channels made from now on combine their filters with their proxies' by OR, as TAO's do, and not by AND.
    pub default_admins_or: bool,
    /// `shutdown`, `shutdown_event_channel` and `remove_…` of the monitor and control object are done, and not `NO_PERMISSION`.
    pub monitor_control: bool,
    /// A client that disconnects its proxy has the reference with which it connected called by `disconnect_…`, as the Event Service has it
    /// (1.2, 2.1.1) and omniEvents and JacORB do; TAO's Notification Service does not. On by default.
    pub tell_on_disconnect: bool,
    /// A client that connects its object anew, after its earlier life has ended, takes the place of that life's proxy, so that it gets each
    /// event once. On by default.
    pub take_over: bool,
    /// A client that connects to a proxy which is connected takes the place of the client that was, as with TAO's `-AllowReconnect`, and is
    /// not refused by `AlreadyConnected`. Off by default.
    pub allow_reconnect: bool,
    /// Where there is no store, `EventReliability` and `ConnectionReliability` `Persistent` are stored, returned, and have no effect, as
    /// with TAO's server without its persistence, and are not `UnsupportedQoS`. Off by default.
    pub persistent_without_store: bool,
    /// `get_filter` of a filter factory with a number that is not its own is `INTERNAL`, as with TAO, and not nil. Off by default.
    pub unknown_filter_internal: bool,
    /// What the factory is called: in the naming service, as a bootstrap key, and in the names of statistics. Default
    /// `NotifyEventChannelFactory`.
    pub factory_name: String,
}

impl Default for Compatibility {
    fn default() -> Self {
        Self {
            ignore_unknown_properties: false,
            limits_as_imp_limit: false,
            default_admins_or: false,
            monitor_control: false,
            tell_on_disconnect: true,
            take_over: true,
            allow_reconnect: false,
            persistent_without_store: false,
            unknown_filter_internal: false,
            factory_name: crate::keys::FACTORY_TAO.to_owned(),
        }
    }
}

impl Compatibility {
    /// An exception as old servers raise it, where this one does.
    pub(super) fn as_old_servers_say(&self, raised: Raised) -> Raised {
        match raised {
            Raised::User(UserException::AdminLimitExceeded { .. }) if self.limits_as_imp_limit => Raised::limit(),
            raised => raised,
        }
    }
}

//! What is done as old servers do it, for clients that came to rely on it, and not as the standard says.

use super::{Effect, Objects, Protocol};
use crate::exceptions::{Raised, UserException};
use crate::naming::well_known;
use engine::{ChannelId, Operator, ProxyKey, Side};
use giop::ior::Ior;
use std::net::{IpAddr, Ipv4Addr};

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

impl Objects {
    /// What it does as old servers do.
    pub(crate) fn compatibility(&self) -> &Compatibility {
        &self.settings.compatibility
    }

    pub(crate) fn factory_name(&self) -> &str {
        &self.settings.compatibility.factory_name
    }

    /// Whether nothing is reached by a reference: it is nil, or leads to an object of this service that is gone.
    fn leads_nowhere(&self, reference: &Ior) -> bool {
        reference.iiop().is_none_or(|profile| self.references.is_here(profile) && self.target(&profile.key).is_none())
    }

    /// Has a new channel's default admins combine with their proxies as old servers' do, where they are to.
    pub(super) fn set_default_operator(&mut self, channel: ChannelId) -> Result<(), Raised> {
        if self.compatibility().default_admins_or {
            for side in [Side::Consumers, Side::Suppliers] {
                self.hierarchy.set_default_operator(channel, side, Operator::Or)?;
            }
        }
        Ok(())
    }

    /// An exception as old servers raise it, where this one does.
    pub(super) fn as_old_servers_say(&self, raised: Raised) -> Raised {
        match raised {
            Raised::User(UserException::AdminLimitExceeded { .. }) if self.compatibility().limits_as_imp_limit => {
                Raised::limit()
            }
            raised => raised,
        }
    }

    /// Has the service end for a client, which may do that.
    pub(crate) fn ask_for_the_end(&mut self) {
        let by = self.asker();
        self.effects.push_back(Effect::End { by });
    }

    fn asker(&self) -> IpAddr {
        self.ledger.principal().map_or_else(|| Ipv4Addr::UNSPECIFIED.into(), |who| who.ip())
    }
}

impl Protocol {
    /// Binds in the naming service's root what leads to the service itself: the well-known names, and the one that the factory is
    /// configured to have. One that a client has given to something else stays, unless that is an object of this service that is gone.
    pub fn bind_own_names(&mut self) {
        let factory = (self.objects.factory_name().to_owned(), "", self.objects.factory_reference());
        let well_known: Vec<_> =
            well_known(&self.objects.references).map(|(id, kind, object)| (id.to_owned(), kind, object)).collect();
        for (name, kind, object) in well_known.into_iter().chain([factory]) {
            if self.objects.naming.bound_in_root(&name, kind).is_some_and(|bound| !self.objects.leads_nowhere(bound)) {
                continue;
            }
            match self.objects.naming.rebind_in_root(&name, kind, object) {
                Ok(()) => log::info!(target: "campanile::corba", "the name {name} leads to this service now"),
                Err(raised) => {
                    log::warn!(target: "campanile::corba", "{name} cannot be bound to this service: {raised}")
                }
            }
        }
    }

    /// Disconnects a proxy's client on behalf of another client, which may do that. False if there is no such proxy.
    pub(crate) fn dismiss_for_client(&mut self, key: ProxyKey) -> bool {
        let dismissed = self.dismiss(key);
        let is_gone = dismissed.is_some();
        let by = self.objects.asker();
        self.objects.effects.extend(dismissed.map(|name| Effect::Dismissed { name, by }));
        is_gone
    }
}

//! Objects by key: the object that a key names, its servant, and the reference that clients have of it.

use super::Protocol;
use crate::exceptions::Raised;
use crate::keys::ObjectKey;
use crate::naming::{CHANNELS_KIND, NameComponent};
use crate::table::{self, AdminKey, Servant, Target};
use engine::{ChannelId, ProxyKey, Side};
use giop::ior::{Ior, Profile};
use giop::realtime::{PriorityModel, PriorityModelPolicy};

impl Protocol {
    /// The object with that key, if there is one.
    pub(crate) fn target(&self, key: &[u8]) -> Option<Target> {
        let Some(parsed) = ObjectKey::parse(key) else {
            if key == self.factory_name().as_bytes() {
                return Some(Target::Factory);
            }
            // `corbaloc::HOST:PORT/NAME`, as clients of omniEvents write it.
            return self.channel_named(core::str::from_utf8(key).ok()?).map(Target::Channel);
        };
        match parsed {
            ObjectKey::Factory => Some(Target::Factory),
            ObjectKey::Channel { channel, nonce } => {
                (self.nonces.get(&channel)?.own == nonce).then_some(Target::Channel(channel))
            }
            ObjectKey::Admin { channel, nonce, side, admin } => {
                let admin = AdminKey { channel, side, admin };
                (self.nonces.get(&channel)?.of_admin(admin) == nonce && self.has_admin(admin))
                    .then_some(Target::Admin(admin))
            }
            ObjectKey::Proxy { channel, nonce, proxy } => {
                let named = ProxyKey { channel, proxy };
                if self.nonces.get(&channel)?.objects.of_proxy(named) != nonce {
                    return None;
                }
                let key = self.lives.aliases.resolve(named);
                Some(Target::Proxy(key, self.hierarchy.proxy(key).ok()?.side))
            }
            ObjectKey::FilterFactory { channel, nonce } => {
                (self.nonces.get(&channel)?.own == nonce).then_some(Target::FilterFactory(channel))
            }
            ObjectKey::Filter { channel, nonce, filter } => {
                self.has_filter(channel, nonce, filter, false).then_some(Target::Filter(filter))
            }
            ObjectKey::MappingFilter { channel, nonce, filter } => {
                self.has_filter(channel, nonce, filter, true).then_some(Target::MappingFilter(filter))
            }
            ObjectKey::SchedulingService => Some(Target::SchedulingService),
            ObjectKey::GenericFactory => Some(Target::GenericFactory),
            ObjectKey::MonitorControl => Some(Target::MonitorControl),
            ObjectKey::NamingContext { id, nonce } => self.naming.context(id, nonce).map(Target::NamingContext),
            ObjectKey::BindingIterator { id, nonce } => self.naming.iterator(id, nonce).map(Target::BindingIterator),
        }
    }

    /// Whether a reference leads to this service, though what it led to may be gone.
    pub(super) fn is_own_reference(&self, reference: &Ior) -> bool {
        reference.iiop().is_some_and(|profile| self.references.is_here(profile))
    }

    /// The object of this service to which a reference leads; nothing if it leads elsewhere, or nowhere.
    pub(super) fn own_target(&self, reference: &Ior) -> Option<Target> {
        let profile = reference.iiop().filter(|profile| self.references.is_here(profile))?;
        self.target(&profile.key)
    }

    fn key(&self, target: Target) -> Option<ObjectKey> {
        Some(match target {
            Target::Factory => ObjectKey::Factory,
            Target::Channel(channel) => ObjectKey::Channel { channel, nonce: self.nonces.get(&channel)?.own },
            Target::Admin(key) => {
                let AdminKey { channel, side, admin } = key;
                ObjectKey::Admin { channel, nonce: self.nonces.get(&channel)?.of_admin(key), side, admin }
            }
            Target::Proxy(key, _) => {
                let ProxyKey { channel, proxy } = key;
                ObjectKey::Proxy { channel, nonce: self.nonces.get(&channel)?.objects.of_proxy(key), proxy }
            }
            Target::FilterFactory(channel) => {
                ObjectKey::FilterFactory { channel, nonce: self.nonces.get(&channel)?.own }
            }
            Target::Filter(filter) => {
                let channel = self.filters.channel(filter)?;
                ObjectKey::Filter {
                    channel,
                    nonce: self.nonces.get(&channel)?.objects.of_filter(channel, filter),
                    filter,
                }
            }
            Target::MappingFilter(filter) => {
                let channel = self.filters.channel(filter)?;
                ObjectKey::MappingFilter {
                    channel,
                    nonce: self.nonces.get(&channel)?.objects.of_filter(channel, filter),
                    filter,
                }
            }
            Target::SchedulingService => ObjectKey::SchedulingService,
            Target::GenericFactory => ObjectKey::GenericFactory,
            Target::MonitorControl => ObjectKey::MonitorControl,
            Target::NamingContext(id) => self.naming.context_key(id),
            Target::BindingIterator(id) => self.naming.iterator_key(id),
        })
    }

    pub(crate) fn servant(&self, target: Target) -> Result<Servant, Raised> {
        Ok(match target {
            Target::Factory => table::FACTORY,
            Target::Channel(ChannelId(0)) => table::DEFAULT_CHANNEL,
            Target::Channel(_) => table::CHANNEL,
            Target::Admin(AdminKey { side: Side::Consumers, .. }) => table::CONSUMER_ADMIN,
            Target::Admin(AdminKey { side: Side::Suppliers, .. }) => table::SUPPLIER_ADMIN,
            Target::Proxy(proxy, side) => self.proxy_kind(proxy)?.servant(side),
            Target::FilterFactory(_) => table::FILTER_FACTORY,
            Target::Filter(_) => table::FILTER,
            Target::MappingFilter(_) => table::MAPPING_FILTER,
            Target::SchedulingService => table::SCHEDULING_SERVICE,
            Target::GenericFactory => table::GENERIC_FACTORY,
            Target::MonitorControl => table::MONITOR_CONTROL,
            Target::NamingContext(_) => table::NAMING_CONTEXT,
            Target::BindingIterator(_) => table::BINDING_ITERATOR,
        })
    }

    pub(crate) fn reference(&self, target: Target) -> Result<Ior, Raised> {
        let key = self.key(target).ok_or_else(Raised::object_not_exist)?;
        let type_id = table::type_id(self.servant(target)?);
        Ok(match target {
            // Where events travel at priorities, the reference says so.
            Target::Proxy(proxy, _) => self.references.ior_with(type_id, &key, self.priority_model(proxy)),
            _ => self.references.ior(type_id, &key),
        })
    }

    /// The reference of the channel that has this name.
    #[must_use]
    pub fn reference_of_channel(&self, name: &str) -> Option<Ior> {
        self.reference(Target::Channel(self.channel_named(name)?)).ok()
    }

    /// The channel that a name in the naming service's root stands for though it is not what is bound to it: where nothing is, the one
    /// that has the name of a channel of events; where an object of this service is that is gone, the one that has the name by now.
    pub(crate) fn channel_behind(&self, name: &NameComponent, bound: Option<&Ior>) -> Option<Ior> {
        let is_gone = |bound: &Ior| self.is_own_reference(bound) && self.own_target(bound).is_none();
        if !bound.map_or(name.kind == CHANNELS_KIND, is_gone) {
            return None;
        }
        let channel = self.channel_named(name.channel()?).filter(|channel| self.knows(*channel))?;
        self.reference(Target::Channel(channel)).ok()
    }

    /// A channel's reference with the channel's name as key, as `corbaloc::HOST:PORT/NAME` has it: equivalent to that for a client's ORB. A
    /// name that is a key of another object, or is not found, leaves the reference as it is.
    pub(crate) fn reference_by_name(&self, channel: ChannelId, name: &str) -> Result<Ior, Raised> {
        let mut reference = self.reference(Target::Channel(channel))?;
        if self.target(name.as_bytes()) == Some(Target::Channel(channel))
            && let Some(Profile::Iiop(profile)) = reference.profiles.first_mut()
        {
            profile.key = name.as_bytes().to_vec();
        }
        Ok(reference)
    }

    /// What the reference of a proxy says about priorities: nothing, unless it has a pool.
    fn priority_model(&self, proxy: ProxyKey) -> Option<PriorityModelPolicy> {
        let (model, server_priority) = self.hierarchy.priority_model(proxy)?;
        let model = match model {
            engine::PriorityModel::ClientPropagated => PriorityModel::ClientPropagated,
            engine::PriorityModel::ServerDeclared => PriorityModel::ServerDeclared,
        };
        Some(PriorityModelPolicy { model, server_priority })
    }
}

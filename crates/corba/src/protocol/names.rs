//! Names that clients give channels, admins and proxies (TAO's `NotifyMonitoringExt`), with their rules.
//!
//! A name is unique among the channels, among a channel's admins of one side, and among its proxies of one side. It is removed with its
//! object. A proxy restored with its client keeps its name only until a client requests the name: that client is taken for the restored
//! one, reconnecting, and the proxy gives way once that is done.

use crate::exceptions::{Raised, UserException};
use crate::table::AdminKey;
use engine::{AdminId, ChannelId, Hierarchy, HierarchyPart, ProxyId, ProxyKey, Side};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum octets of a name, as of a component of a name in the naming service.
pub(crate) const NAME_BYTES_MAX: usize = 1_024;

/// An object that may have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Named {
    Channel(ChannelId),
    Admin(AdminKey),
    Proxy(ProxyKey, Side),
}

/// The scope in which a name is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Channels,
    Admins(ChannelId, Side),
    Proxies(ChannelId, Side),
}

impl Named {
    const fn space(self) -> Space {
        match self {
            Self::Channel(_) => Space::Channels,
            Self::Admin(AdminKey { channel, side, .. }) => Space::Admins(channel, side),
            Self::Proxy(ProxyKey { channel, .. }, side) => Space::Proxies(channel, side),
        }
    }

    const fn part(self) -> HierarchyPart {
        match self {
            Self::Channel(channel) => HierarchyPart::Channel(channel),
            Self::Admin(AdminKey { channel, side, admin }) => HierarchyPart::Admin(channel, side, admin),
            Self::Proxy(proxy, _) => HierarchyPart::Proxy(proxy),
        }
    }
}

/// Names in use, and what has them.
#[derive(Debug, Default)]
pub struct Names {
    owners: BTreeMap<Space, BTreeMap<Arc<str>, Named>>,
    names: BTreeMap<Named, Arc<str>>,
    /// Unconnected proxies, each with the restored proxy that gave it its name and gives way when it is connected.
    formers: HashMap<ProxyKey, ProxyKey>,
    /// Channels that the configuration has declared.
    declared: BTreeSet<ChannelId>,
    /// Channels that lost their name to a declared one, with that name. Rules of access know them by it.
    former_names: BTreeMap<ChannelId, Arc<str>>,
    /// Number of changes of channels' names.
    version: u64,
}

impl Names {
    pub(super) fn of(&self, named: Named) -> Option<&Arc<str>> {
        self.names.get(&named)
    }

    fn owner(&self, space: Space, name: &str) -> Option<Named> {
        self.owners.get(&space)?.get(name).copied()
    }

    fn give(&mut self, named: Named, name: Arc<str>) {
        if let Named::Channel(channel) = named {
            self.former_names.remove(&channel);
            self.version += 1;
        }
        self.owners.entry(named.space()).or_default().insert(Arc::clone(&name), named);
        self.names.insert(named, name);
    }

    /// Gives a new object its checked name.
    pub(super) fn give_new(&mut self, hierarchy: &mut Hierarchy, named: Named, name: &str) {
        if let (Named::Proxy(key, side), Some(Named::Proxy(former, _))) = (named, self.owner(named.space(), name)) {
            self.take(Named::Proxy(former, side));
            self.formers.insert(key, former);
            hierarchy.note_changed_part(HierarchyPart::Proxy(former));
        }
        self.give(named, name.into());
        hierarchy.note_changed_part(named.part());
    }

    /// Removes an object's name.
    pub(super) fn take(&mut self, named: Named) {
        let Some(name) = self.names.remove(&named) else { return };
        self.version += u64::from(matches!(named, Named::Channel(_)));
        if let Some(owners) = self.owners.get_mut(&named.space()) {
            owners.remove(&name);
        }
    }

    /// Whether the configuration has declared a channel.
    pub(super) fn is_declared(&self, channel: ChannelId) -> bool {
        self.declared.contains(&channel)
    }

    /// Notes that the configuration declares a channel. Returns whether that is new.
    pub(super) fn note_declared(&mut self, channel: ChannelId) -> bool {
        self.declared.insert(channel)
    }

    /// The name that a channel had until a declared one got it.
    pub(super) fn former_name(&self, channel: ChannelId) -> Option<&Arc<str>> {
        self.former_names.get(&channel)
    }

    /// The channels that had a name until a declared one got it.
    pub(super) fn formerly(&self, name: &str) -> impl Iterator<Item = ChannelId> {
        self.former_names.iter().filter(move |(_, former)| &***former == name).map(|(channel, _)| *channel)
    }

    /// A channel had that name, and has it no longer.
    pub(super) fn note_former_name(&mut self, channel: ChannelId, name: Arc<str>) {
        self.former_names.insert(channel, name);
    }

    /// A channel has its name no longer.
    pub(super) fn keep_as_former(&mut self, channel: ChannelId) {
        let Some(name) = self.of(Named::Channel(channel)).cloned() else { return };
        self.take(Named::Channel(channel));
        self.note_former_name(channel, name);
    }

    /// The name by which rules of access know a channel.
    pub(super) fn for_rules(&self, channel: ChannelId) -> Option<&Arc<str>> {
        self.of(Named::Channel(channel)).or_else(|| self.former_name(channel))
    }

    pub(super) fn forget_proxy(&mut self, key: ProxyKey, side: Side) {
        self.take(Named::Proxy(key, side));
        self.formers.remove(&key);
    }

    /// Forgets a channel and everything in it.
    pub(super) fn forget_channel(&mut self, channel: ChannelId) {
        self.take(Named::Channel(channel));
        self.declared.remove(&channel);
        self.former_names.remove(&channel);
        for side in [Side::Consumers, Side::Suppliers] {
            for space in [Space::Admins(channel, side), Space::Proxies(channel, side)] {
                let gone = self.owners.remove(&space).unwrap_or_default();
                gone.values().for_each(|named| _ = self.names.remove(named));
            }
        }
    }

    /// A channel's name, given by its creator or declared in the configuration.
    #[must_use]
    pub fn channel_name(&self, channel: ChannelId) -> Option<&str> {
        self.of(Named::Channel(channel)).map(AsRef::as_ref)
    }

    /// The name that a client gave an admin.
    #[must_use]
    pub fn admin_name(&self, channel: ChannelId, side: Side, admin: AdminId) -> Option<&str> {
        self.of(Named::Admin(AdminKey { channel, side, admin })).map(AsRef::as_ref)
    }

    /// The name that a client gave a proxy.
    #[must_use]
    pub fn proxy_name(&self, key: ProxyKey, side: Side) -> Option<&str> {
        self.of(Named::Proxy(key, side)).map(AsRef::as_ref)
    }

    /// The channel of a name, which is unique. All lookups of channels by name use this.
    #[must_use]
    pub fn channel_named(&self, name: &str) -> Option<ChannelId> {
        match self.owner(Space::Channels, name)? {
            Named::Channel(channel) => Some(channel),
            Named::Admin(_) | Named::Proxy(..) => None,
        }
    }

    /// The channels that have names, by name.
    pub(super) fn named_channels(&self) -> impl Iterator<Item = (&Arc<str>, ChannelId)> {
        let named = self.owners.get(&Space::Channels).into_iter().flatten();
        named.filter_map(|(name, named)| match named {
            Named::Channel(channel) => Some((name, *channel)),
            Named::Admin(_) | Named::Proxy(..) => None,
        })
    }

    /// Number of changes of channels' names so far.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// The proxy of that name on a channel's side.
    #[must_use]
    pub fn proxy_named(&self, channel: ChannelId, side: Side, name: &str) -> Option<ProxyId> {
        match self.owner(Space::Proxies(channel, side), name)? {
            Named::Proxy(key, _) => Some(key.proxy),
            Named::Channel(_) | Named::Admin(_) => None,
        }
    }

    /// The admin of that name on a channel's side.
    #[must_use]
    pub fn admin_named(&self, channel: ChannelId, side: Side, name: &str) -> Option<AdminId> {
        match self.owner(Space::Admins(channel, side), name)? {
            Named::Admin(key) => Some(key.admin),
            Named::Channel(_) | Named::Proxy(..) => None,
        }
    }

    /// Refuses a name that a new channel cannot have.
    pub(crate) fn check_channel_name(&self, name: &str) -> Result<(), Raised> {
        self.check_free(Space::Channels, name)
    }

    /// Refuses a name that a new admin cannot have.
    pub(crate) fn check_admin_name(&self, channel: ChannelId, side: Side, name: &str) -> Result<(), Raised> {
        self.check_free(Space::Admins(channel, side), name)
    }

    /// Refuses a name for a new proxy. `may_take` says whether a proxy that has it gives it away.
    pub(crate) fn check_proxy_name(
        &self,
        channel: ChannelId,
        side: Side,
        name: &str,
        may_take: impl FnOnce(ProxyKey) -> bool,
    ) -> Result<(), Raised> {
        let space = Space::Proxies(channel, side);
        match self.owner(space, name) {
            Some(Named::Proxy(former, _)) if may_take(former) => check(name),
            _ => self.check_free(space, name),
        }
    }

    fn check_free(&self, space: Space, name: &str) -> Result<(), Raised> {
        check(name)?;
        match self.owner(space, name) {
            Some(_) => Err(UserException::NameAlreadyUsed.into()),
            None => Ok(()),
        }
    }

    /// The proxy that gives its name to another one, which is not connected yet.
    pub(super) fn namesake_of(&self, key: ProxyKey) -> Option<ProxyKey> {
        self.formers.get(&key).copied()
    }

    /// Takes the proxy that gives its name to this one.
    pub(super) fn take_namesake_of(&mut self, key: ProxyKey) -> Option<ProxyKey> {
        self.formers.remove(&key)
    }
}

/// Whether something can be called that.
fn check(name: &str) -> Result<(), Raised> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX { Err(UserException::NameMapError.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: ChannelId = ChannelId(3);

    fn proxy(number: u32, side: Side) -> Named {
        Named::Proxy(ProxyKey { channel: CHANNEL, proxy: ProxyId(number) }, side)
    }

    #[test]
    fn a_name_is_free_again_when_what_had_it_is_gone() {
        let mut names = Names::default();
        let (one, other) = (proxy(1, Side::Consumers), proxy(2, Side::Suppliers));
        names.give(one, "x".into());
        names.give(other, "x".into());
        assert_eq!(names.owner(one.space(), "x"), Some(one));
        assert_eq!(names.owner(other.space(), "x"), Some(other));
        names.take(one);
        assert_eq!((names.owner(one.space(), "x"), names.of(one)), (None, None));
        assert_eq!(names.owner(other.space(), "x"), Some(other));
    }

    #[test]
    fn what_is_in_a_channel_loses_its_names_with_it() {
        let mut names = Names::default();
        let admin = Named::Admin(AdminKey { channel: CHANNEL, side: Side::Consumers, admin: AdminId(1) });
        let elsewhere = Named::Proxy(ProxyKey { channel: ChannelId(4), proxy: ProxyId(1) }, Side::Consumers);
        for named in [Named::Channel(CHANNEL), admin, proxy(1, Side::Consumers), proxy(2, Side::Suppliers), elsewhere] {
            names.give(named, "x".into());
        }
        names.forget_channel(CHANNEL);
        assert_eq!(names.names.keys().copied().collect::<Vec<_>>(), [elsewhere]);
        assert_eq!(names.owner(Space::Channels, "x"), None);
    }
}

//! Declarations of the configuration and settings of operators, beside clients' own objects. A declared channel has its name like one made
//! by `create_named_channel`, and in the naming service's root.

use super::names::{NAME_BYTES_MAX, Named};
use super::{Objects, Protocol};
use crate::naming::{WELL_KNOWN, well_known};
use crate::qos::{Declared, declare, declare_at};
use crate::table::{AdminKey, Level, Target};
use engine::{AdminId, ChannelId, HierarchyPart, ProxyKey, Side};
use giop::ior::Ior;
use std::collections::BTreeSet;

/// Channels in one page.
const CHANNELS_AT_ONCE: usize = 256;

/// A channel, as it stands in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedChannel {
    /// The channel's number.
    pub id: ChannelId,
    /// The name given by its creator.
    pub name: Option<String>,
    /// Number of its admins,
    pub admins: usize,
    /// and how many proxies, connected or not.
    pub proxies: usize,
}

/// Object on which an operator sets quality of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    /// A channel's.
    Channel(ChannelId),
    /// An admin's.
    Admin {
        /// The admin's channel.
        channel: ChannelId,
        /// The admin's side.
        side: Side,
        /// The admin's number.
        admin: AdminId,
    },
    /// A proxy's.
    Proxy(ProxyKey),
}

impl Objects {
    fn own_channel(&self, reference: &Ior) -> Option<ChannelId> {
        match self.own_target(reference)? {
            Target::Channel(channel) => Some(channel),
            _ => None,
        }
    }

    /// Binds names in the naming service's root to a declared channel. Adds the channels bound before to the others.
    fn lead_to_declared(&mut self, of: (ChannelId, &str), reference: &Ior, others: &mut BTreeSet<ChannelId>) {
        let (channel, name) = of;
        let mut led_elsewhere = false;
        let own = crate::naming::NameComponent::with_kind(name, "");
        for bound in [own].into_iter().chain(self.naming.channels_in_root(name)) {
            let is_own = bound.kind.is_empty();
            let before = self.naming.bound_in_root(&bound.id, &bound.kind);
            match before.and_then(|before| self.own_channel(before)) {
                Some(before) if before == channel => continue,
                Some(before) => _ = others.insert(before),
                None if is_own => led_elsewhere = before.is_some(),
                // Another service's, or not even a channel: it was bound on purpose.
                None if before.is_some_and(|before| !self.is_own_reference(before)) => continue,
                None => {}
            }
            if let Err(raised) = self.naming.rebind_in_root(&bound.id, &bound.kind, reference.clone()) {
                log::warn!(
                    target: "campanile::corba",
                    "channel {}, which is declared as {name}, is not found by that name in the naming service: {raised}", channel.0
                );
            }
        }
        if led_elsewhere {
            log::warn!(
                target: "campanile::corba",
                "the name {name} led to no channel of this service: it leads to channel {} now, which is declared under it", channel.0
            );
        }
    }

    /// The channel that a client, a setting or a command names: the one with that name, however it got it; else the one with that number.
    #[must_use]
    pub fn channel_called(&self, name: &str) -> Option<ChannelId> {
        let numbered = || name.parse().ok().map(ChannelId).filter(|channel| self.has_channel(*channel));
        self.names.channel_named(name).or_else(numbered)
    }

    /// Whether a reference leads nowhere: it is nil, or its object of this service is gone.
    fn leads_nowhere(&self, reference: &Ior) -> bool {
        reference.iiop().is_none_or(|profile| self.references.is_here(profile) && self.target(&profile.key).is_none())
    }

    /// Binds the service's own names in the naming service's root: the well-known names, and the configured one of the factory. Other
    /// bindings of clients stay, unless they lead to an object of this service that is gone.
    pub fn bind_own_names(&mut self) {
        let factory = (self.factory_name().to_owned(), "", self.factory_reference());
        let well_known: Vec<_> =
            well_known(&self.references).map(|(id, kind, object)| (id.to_owned(), kind, object)).collect();
        for (name, kind, object) in well_known.into_iter().chain([factory]) {
            if self.naming.bound_in_root(&name, kind).is_some_and(|bound| !self.leads_nowhere(bound)) {
                continue;
            }
            match self.naming.rebind_in_root(&name, kind, object) {
                Ok(()) => log::info!(target: "campanile::corba", "the name {name} leads to this service now"),
                Err(raised) => {
                    log::warn!(target: "campanile::corba", "{name} cannot be bound to this service: {raised}")
                }
            }
        }
    }

    /// The channels by number, from behind a given one: 256 at most.
    #[must_use]
    pub fn listed_channels(&self, behind: Option<ChannelId>) -> Vec<ListedChannel> {
        let channels = self.hierarchy.channels().filter(|channel| behind.is_none_or(|behind| channel.id() > behind));
        let listed = channels.take(CHANNELS_AT_ONCE).map(|channel| ListedChannel {
            id: channel.id(),
            name: self.names.channel_name(channel.id()).map(str::to_owned),
            admins: channel.admins_count(),
            proxies: channel.proxies_count(),
        });
        listed.collect()
    }

    /// Suspends or resumes a consumer.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    pub fn set_suspended(&mut self, key: ProxyKey, suspended: bool) -> Result<(), String> {
        let side = self.hierarchy.proxy(key).map_err(|refusal| refusal.to_string())?.side;
        if side != Side::Consumers || self.proxies.kinds.get(&key).is_some_and(|kind| kind.pull) {
            return Err(format!("proxy {} of channel {} pushes nothing to anybody", key.proxy.0, key.channel.0));
        }
        let done = if suspended { self.hierarchy.suspend(key) } else { self.hierarchy.resume(key) };
        done.map_err(|refusal| refusal.to_string())
    }
}

impl Protocol {
    /// Declares a channel with this name and these properties: an existing channel of the name gets the properties, whichever client made
    /// it, otherwise one is made. Its name in the naming service's root, and the names of event channels (kind `channels`) there, are then
    /// bound to it, replacing clients' bindings.
    ///
    /// A channel without a name that is bound to the name in the root counts as the one with the name if there is no other. During
    /// restoration it takes precedence over a channel of that name that was never declared: earlier releases gave declared channels no
    /// other name, so that clients could make a second one, which stays without the name.
    ///
    /// # Errors
    ///
    /// The problem of the name or the properties, for people. An existing channel is unchanged.
    pub fn declare_channel(&mut self, name: &str, properties: &[(String, Declared)]) -> Result<ChannelId, String> {
        let is_own = WELL_KNOWN.iter().any(|(known, kind, _)| (*known, *kind) == (name, ""))
            || name == self.objects.factory_name();
        if is_own {
            return Err(format!("the name {name} is another object's"));
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("a channel's name has 1 to {NAME_BYTES_MAX} octets"));
        }
        let found = self.channel_to_declare(name);
        let level = found.map(Level::Channel);
        let before = match level {
            Some(level) => self.objects.requested(level).map_err(|raised| raised.to_string())?,
            None => self.objects.initial_properties(),
        };
        let requested = declare(before, properties)?;
        let validation_errors =
            self.objects.validation_errors(level, &requested).map_err(|raised| raised.to_string())?;
        if let Some(first) = validation_errors.first() {
            return Err(format!("{} cannot be had with the other properties", first.name()));
        }
        let failed = |raised: crate::exceptions::Raised| raised.to_string();
        let channel = match found {
            Some(channel) => {
                self.set(Level::Channel(channel), requested).map_err(failed)?;
                channel
            }
            None => self.create_channel(requested, Some(name)).map_err(failed)?,
        };
        let reference = self.objects.reference(Target::Channel(channel)).map_err(failed)?;
        let mut others = self.have_channel_named(channel, name);
        self.objects.lead_to_declared((channel, name), &reference, &mut others);
        tell_of_others(channel, name, &others);
        Ok(channel)
    }

    /// Sets properties in the format of a configuration file.
    ///
    /// # Errors
    ///
    /// The problem of the first invalid property, for people; nothing is changed.
    pub fn set_declared(&mut self, on: Settable, properties: &[(String, Declared)]) -> Result<(), String> {
        let channel = match on {
            Settable::Channel(channel) | Settable::Admin { channel, .. } => channel,
            Settable::Proxy(key) => key.channel,
        };
        self.objects.hierarchy.channel(channel).map_err(|refusal| refusal.to_string())?;
        let level = match on {
            Settable::Channel(channel) => Level::Channel(channel),
            Settable::Admin { channel, side, admin } => Level::Admin(AdminKey { channel, side, admin }),
            Settable::Proxy(key) => {
                let side = self.objects.hierarchy.proxy(key).map_err(|refusal| refusal.to_string())?.side;
                Level::Proxy(key, side)
            }
        };
        let before = self.objects.requested(level).map_err(|raised| raised.to_string())?;
        let requested = declare_at(before, level, properties)?;
        let validation_errors =
            self.objects.validation_errors(Some(level), &requested).map_err(|raised| raised.to_string())?;
        if let Some(first) = validation_errors.first() {
            return Err(format!("{} cannot be had with the other properties", first.name()));
        }
        self.set(level, requested).map_err(|raised| raised.to_string())
    }

    /// The existing channel for a declaration of a name; `None` if one has to be made.
    fn channel_to_declare(&self, name: &str) -> Option<ChannelId> {
        let is_nameless = |channel: &ChannelId| self.objects.names.channel_name(*channel).is_none();
        let named = self.objects.names.channel_named(name);
        if named.is_some_and(|channel| !self.is_restoring || self.objects.names.is_declared(channel)) {
            return named;
        }
        let in_root = self.objects.naming.bound_in_root(name, "").and_then(|bound| self.objects.own_channel(bound));
        let of_events = || {
            let bound = self.objects.naming.channels_in_root(name).into_iter();
            bound.filter_map(|name| self.objects.own_channel(self.objects.naming.bound_in_root(&name.id, &name.kind)?))
        };
        in_root.filter(is_nameless).or(named).or_else(|| of_events().find(is_nameless))
    }

    /// Gives a declared channel its name. Returns the other channels that had it, now or before.
    fn have_channel_named(&mut self, channel: ChannelId, name: &str) -> BTreeSet<ChannelId> {
        if let Some(other) = self.objects.names.channel_named(name).filter(|other| *other != channel) {
            self.objects.names.keep_as_former(other);
            self.objects.hierarchy.note_changed_part(HierarchyPart::Channel(other));
        }
        if self.objects.names.channel_named(name) != Some(channel) {
            self.objects.names.give_new(&mut self.objects.hierarchy, Named::Channel(channel), name);
        }
        if self.objects.names.note_declared(channel) {
            self.objects.hierarchy.note_changed_part(HierarchyPart::Channel(channel));
        }
        self.guard.note_name_for_rules(&self.objects, channel);
        self.objects.names.formerly(name).collect()
    }
}

/// Logs the other channels with a declared channel's name.
fn tell_of_others(channel: ChannelId, name: &str, others: &BTreeSet<ChannelId>) {
    let Some(first) = others.first() else { return };
    let numbers: Vec<String> = others.iter().map(|other| other.0.to_string()).collect();
    log::warn!(
        target: "campanile::corba",
        "the name {name} is channel {}'s alone, which is declared under it; it led to channel {} as well, where all stays as it is but \
         the name: start clients that found it by that anew, so that they find channel {}, and when nothing uses it any more destroy it \
         (`campanile channel rm {}`)",
        channel.0, numbers.join(" and channel "), channel.0, first.0
    );
}

//! What operators ask of the hierarchy and set in it, beside what clients do by its objects: a page at a time, since all of it may be
//! very much.

use super::{Objects, Protocol};
use crate::qos::{Declared, declare_at};
use crate::table::{AdminKey, Level};
use engine::{AdminId, ChannelId, ProxyId, ProxyKey, Side};
use topology as t;

/// Channels in one page, and proxies.
const CHANNELS_AT_ONCE: usize = 256;
const PROXIES_AT_ONCE: usize = 256;
/// Maximum admins, filters and constraints described in one go.
const LISTED_MAX: usize = 16_384;

/// A channel, as it stands in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedChannel {
    /// Its number.
    pub id: ChannelId,
    /// What its creator called it.
    pub name: Option<String>,
    /// How many admins it has,
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
        /// Its channel.
        channel: ChannelId,
        /// Its side.
        side: Side,
        /// Its number.
        admin: AdminId,
    },
    /// A proxy's.
    Proxy(ProxyKey),
}

impl Objects {
    /// The channels by number, behind one of them if that is said: 256 at most.
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

    /// Configuration of a channel, as JSON like its part of a topology, local proxies included: with the proxies behind one of them, 256 at
    /// most; admins and filters come with the first proxies. `None` if there is no such channel, or its admins and filters are too many.
    #[must_use]
    pub fn channel_json(&self, id: ChannelId, behind: Option<ProxyId>) -> Option<String> {
        let channel = self.hierarchy.channel(id).ok()?;
        let proxies = channel.proxies().filter(|proxy| behind.is_none_or(|behind| proxy.id > behind));
        let mut exported = t::Channel {
            proxies: proxies.take(PROXIES_AT_ONCE).filter_map(|proxy| self.described_proxy(id, proxy)).collect(),
            // Permission to know of a channel does not include the keys of others' objects.
            nonce: 0,
            objects_nonce: 0,
            former: None,
            ..self.exported_channel_alone(channel)
        };
        if behind.is_none() {
            if channel.admins_count() + self.filters.constraints_count() > LISTED_MAX {
                return None;
            }
            let sides = [Side::Consumers, Side::Suppliers];
            let admins = sides.into_iter().flat_map(|side| self.hierarchy.admins(id, side).into_iter().flatten());
            exported.admins = admins.map(|admin| self.exported_admin(id, admin)).collect();
            exported.filters = self.exported_filters_of(id);
        }
        String::from_utf8(t::written(&exported)).ok()
    }
}

impl Protocol {
    /// Suspends a consumer, or has it go on.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    pub fn set_suspended(&mut self, key: ProxyKey, suspended: bool) -> Result<(), String> {
        let side = self.objects.hierarchy.proxy(key).map_err(|refusal| refusal.to_string())?.side;
        if side != Side::Consumers || self.objects.proxies.kinds.get(&key).is_some_and(|kind| kind.pull) {
            return Err(format!("proxy {} of channel {} pushes nothing to anybody", key.proxy.0, key.channel.0));
        }
        let done = if suspended { self.objects.hierarchy.suspend(key) } else { self.objects.hierarchy.resume(key) };
        done.map_err(|refusal| refusal.to_string())
    }

    /// Sets properties as a configuration file has them.
    ///
    /// # Errors
    ///
    /// What is wrong with the first that cannot be had, for people; nothing is changed then.
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
}

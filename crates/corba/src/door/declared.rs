//! Channels that a configuration declares: each has a name in the naming service, by which it is found again.

use super::Door;
use crate::naming::WELL_KNOWN;
use crate::qos::{Declared, declare};
use crate::table::{Level, Target};
use engine::ChannelId;

impl Door {
    /// Has a channel of that name and with these properties: one that has the name in the naming service's root already is set
    /// to them, otherwise one is made and gets the name. A client that has destroyed the channel or given its name to something else
    /// changes that until the next start and no longer.
    ///
    /// # Errors
    ///
    /// What is wrong with the name or the properties, for people. A channel that was there is as it was.
    pub fn declare_channel(&mut self, name: &str, properties: &[(String, Declared)]) -> Result<ChannelId, String> {
        let is_own =
            WELL_KNOWN.iter().any(|(known, kind, _)| (*known, *kind) == (name, "")) || name == self.factory_name();
        if is_own {
            return Err(format!("the name {name} is another object's"));
        }
        let level = match self.naming.bound_in_root(name, "").and_then(|reference| self.own_target(reference)) {
            Some(Target::Channel(channel)) => Some(Level::Channel(channel)),
            _ => None,
        };
        let before = match level {
            Some(level) => self.wanted(level).map_err(|raised| raised.to_string())?,
            None => self.wanted_initially(),
        };
        let wanted = declare(before, properties)?;
        let objections = self.objections(level, &wanted).map_err(|raised| raised.to_string())?;
        if let Some(first) = objections.first() {
            return Err(format!("{} cannot be had with the other properties", first.name()));
        }
        let failed = |raised: crate::exceptions::Raised| raised.to_string();
        if let Some(Level::Channel(channel)) = level {
            self.set(Level::Channel(channel), wanted).map_err(failed)?;
            self.guard.declare(channel, name);
            return Ok(channel);
        }
        let channel = self.create_channel(wanted, None).map_err(failed)?;
        self.guard.declare(channel, name);
        let reference = self.reference(Target::Channel(channel)).map_err(failed)?;
        if self.naming.bound_in_root(name, "").is_some() {
            log::warn!(
                target: "campanile::corba",
                "the name {name} led to no channel of this service: it leads to channel {} now, which is declared under it", channel.0
            );
        }
        if let Err(raised) = self.naming.rebind_in_root(name, "", reference) {
            log::warn!(
                target: "campanile::corba",
                "channel {}, which is declared as {name}, is not found by that name: {raised}", channel.0
            );
        }
        Ok(channel)
    }

    /// The channel that the configuration declares under a name.
    #[must_use]
    pub fn channel_declared(&self, name: &str) -> Option<ChannelId> {
        self.guard.declared(name)
    }
}

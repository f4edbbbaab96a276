//! Channels that a configuration declares: each has a name in the naming service, by which it is found again.

use super::Door;
use crate::qos::{Declared, declare};
use crate::table::{Level, Target};
use engine::ChannelId;

impl Door {
    /// Has a channel of that name and with these properties: one that has the name in the naming service's root already is set
    /// to them, otherwise one is made and gets the name.
    ///
    /// # Errors
    ///
    /// What is wrong, for people. A channel that was there is as it was.
    pub fn declare_channel(&mut self, name: &str, properties: &[(String, Declared)]) -> Result<ChannelId, String> {
        let known = self.naming.bound_in_root(name).and_then(|reference| self.target(&reference.iiop()?.key));
        let level = match known {
            Some(Target::Channel(channel)) => Some(Level::Channel(channel)),
            Some(_) => return Err(format!("the name {name} is another object's")),
            None => None,
        };
        let before = match level {
            Some(level) => self.wanted(level).map_err(|raised| format!("{raised:?}"))?,
            None => self.wanted_initially(),
        };
        let wanted = declare(before, properties)?;
        let objections = self.objections(level, &wanted).map_err(|raised| format!("{raised:?}"))?;
        if let Some(first) = objections.first() {
            return Err(format!("{} cannot be had with the other properties", first.name()));
        }
        let failed = |raised| format!("{raised:?}");
        if let Some(Level::Channel(channel)) = level {
            self.set(Level::Channel(channel), wanted).map_err(failed)?;
            return Ok(channel);
        }
        let channel = self.create_channel(wanted).map_err(failed)?;
        let reference = self.reference(Target::Channel(channel)).map_err(failed)?;
        self.naming.bind_in_root(name, reference).map_err(failed)?;
        Ok(channel)
    }
}

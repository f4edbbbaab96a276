//! Channels that a configuration declares: each has its name as one that `create_named_channel` makes, and in the naming service's root.

use super::names::{NAME_BYTES_MAX, Named};
use super::{Objects, Protocol};
use crate::naming::WELL_KNOWN;
use crate::qos::{Declared, declare};
use crate::table::{Level, Target};
use engine::{ChannelId, HierarchyPart};
use giop::ior::Ior;
use std::collections::BTreeSet;

impl Objects {
    fn own_channel(&self, reference: &Ior) -> Option<ChannelId> {
        match self.own_target(reference)? {
            Target::Channel(channel) => Some(channel),
            _ => None,
        }
    }

    /// Has names in the naming service's root lead to a declared channel. Adds the channels to which they led to the others.
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

    /// The channel that a client, a setting or a command means by a name: the one that has it, however it got it; else the one with that
    /// number.
    #[must_use]
    pub fn channel_called(&self, name: &str) -> Option<ChannelId> {
        let numbered = || name.parse().ok().map(ChannelId).filter(|channel| self.has_channel(*channel));
        self.names.channel_named(name).or_else(numbered)
    }
}

impl Protocol {
    /// Has a channel of that name and with these properties: the one that has the name already is set to them, whichever client made it,
    /// and otherwise one is made. Its name in the naming service's root, and the names of channels of events (kind `channels`) there, lead
    /// to it from then on, whatever clients have bound.
    ///
    /// What the root has of that name and has no name itself counts as the one that has it where there is no other. While a topology is
    /// restored it counts before a channel of that name that was never declared: earlier releases gave declared channels no other name, so
    /// that clients could make a second one. That one is kept without the name.
    ///
    /// # Errors
    ///
    /// What is wrong with the name or the properties, for people. A channel that was there is as it was.
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

    /// The channel that a declaration of a name is about; nothing if one has to be made.
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

    /// Has a declared channel have its name. Gives the others that had it, now or before.
    fn have_channel_named(&mut self, channel: ChannelId, name: &str) -> BTreeSet<ChannelId> {
        if let Some(other) = self.objects.names.channel_named(name).filter(|other| *other != channel) {
            self.objects.names.keep_as_former(other);
            self.objects.hierarchy.note_changed_part(HierarchyPart::Channel(other));
        }
        if self.objects.names.channel_named(name) != Some(channel) {
            self.objects.give_name(Named::Channel(channel), name);
        }
        if self.objects.names.note_declared(channel) {
            self.objects.hierarchy.note_changed_part(HierarchyPart::Channel(channel));
        }
        self.guard.note_name_for_rules(&self.objects, channel);
        self.objects.names.formerly(name).collect()
    }
}

/// One line about channels that a declared one has the name of.
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

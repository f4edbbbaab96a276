//! Settings and subscriptions, level by level: what a level says of itself, and what is in effect there.

use super::Door;
use crate::corba::exceptions::Raised;
use crate::corba::qos::{Effective, Wanted};
use crate::corba::table::{AdminKey, Level};
use engine::{ChannelId, EventType, OutboxSettings, ProxyKey, SettingsPatch, SubscriptionTarget, SupplierSettings};

impl Door {
    /// What a level says of itself, for wishes to be added to.
    pub(in crate::corba) fn wanted(&self, level: Level) -> Result<Wanted, Raised> {
        let channel = self.hierarchy.channel(level.channel())?;
        let patch = match level {
            Level::Channel(_) => *channel.patch(),
            Level::Admin(AdminKey { channel, side, admin }) => self.hierarchy.admin(channel, side, admin)?.patch,
            Level::Proxy(proxy, _) => self.hierarchy.proxy(proxy)?.patch,
        };
        Ok(Wanted { patch, limits: *channel.limits() })
    }

    /// What is in effect at a level: its own, inherited or default.
    pub(in crate::corba) fn effective(&self, level: Level) -> Result<Effective, Raised> {
        let channel = self.hierarchy.channel(level.channel())?;
        let admin = match level {
            Level::Channel(_) => None,
            Level::Admin(admin) => Some(admin),
            Level::Proxy(proxy, _) => Some(self.admin_of(proxy)?),
        };
        let mut patches = vec![*channel.patch()];
        if let Some(AdminKey { channel, side, admin }) = admin {
            patches.push(self.hierarchy.admin(channel, side, admin)?.patch);
        }
        if let Level::Proxy(proxy, _) = level {
            patches.push(self.hierarchy.proxy(proxy)?.patch);
        }
        Ok(Effective {
            settings: patches.iter().fold(OutboxSettings::default(), |settings, patch| patch.over(settings)),
            supplier: patches.iter().fold(SupplierSettings::default(), |settings, patch| patch.over_supplier(settings)),
            limits: *channel.limits(),
        })
    }

    /// Puts into effect what is wanted of a level. Everything is known to be acceptable when this is called.
    pub(in crate::corba) fn set(&mut self, level: Level, wanted: Wanted) -> Result<(), Raised> {
        let probing = |patch: SettingsPatch| (patch.probe_interval, patch.give_up_after);
        let probes_change = probing(self.wanted(level)?.patch) != probing(wanted.patch);
        match level {
            Level::Channel(channel) => {
                wanted.limits.check()?;
                self.hierarchy.set_channel_settings(channel, wanted.patch)?;
                self.hierarchy.set_limits(channel, wanted.limits)?;
            }
            Level::Admin(AdminKey { channel, side, admin }) => {
                self.hierarchy.set_admin_settings(channel, side, admin, wanted.patch)?;
            }
            Level::Proxy(proxy, _) => self.hierarchy.set_proxy_settings(proxy, wanted.patch)?,
        }
        if probes_change {
            self.schedule_probes(level);
        }
        Ok(())
    }

    pub(in crate::corba) fn subscribe(
        &mut self,
        level: Level,
        added: &[EventType],
        removed: &[EventType],
    ) -> Result<(), Raised> {
        let target = match level {
            Level::Admin(AdminKey { channel, side, admin }) => SubscriptionTarget::Admin { channel, side, admin },
            Level::Proxy(proxy, _) => SubscriptionTarget::Proxy(proxy),
            Level::Channel(_) => return Err(Raised::internal()),
        };
        Ok(self.hierarchy.subscribe(target, added, removed)?)
    }
}

impl Level {
    pub(in crate::corba) fn channel(self) -> ChannelId {
        match self {
            Self::Channel(channel)
            | Self::Admin(AdminKey { channel, .. })
            | Self::Proxy(ProxyKey { channel, .. }, _) => channel,
        }
    }
}

//! The parts of the topology that have changed, for a store that has an image of it.

use super::{Objects, Protocol};
use accounts::Account;
use engine::{AdminId, ChannelId, FilterId, ProxyId, ProxyKey, Reliability, Side};
use std::sync::Arc;
use topology as t;

/// A part of which something may have changed: the key under which it is kept, and what it says now; nothing if it is gone.
pub type ChangedPart = (Vec<u8>, Option<Vec<u8>>);

impl Objects {
    /// What of the topology outlives the process, in its parts, each under its key.
    #[must_use]
    pub fn image(&self) -> t::Image {
        let mut topology = self.topology();
        for channel in &mut topology.channels {
            let id = ChannelId(channel.id);
            channel.proxies.retain(|proxy| self.is_stored(ProxyKey { channel: id, proxy: ProxyId(proxy.id) }));
        }
        topology.image()
    }

    /// Whether a proxy and its client outlive the process.
    fn is_stored(&self, key: ProxyKey) -> bool {
        let found = self.hierarchy.proxy(key).map(|proxy| proxy.side);
        let reliability = found.and_then(|side| match side {
            Side::Consumers => self.hierarchy.effective(key).map(|settings| settings.connection_reliability),
            Side::Suppliers => self.hierarchy.effective_supplier(key).map(|settings| settings.connection_reliability),
        });
        reliability.is_ok_and(|reliability| reliability == Reliability::Persistent)
    }

    /// Number of changes noted so far: if it is the same as before, nothing was changed between.
    #[must_use]
    pub const fn changes_noted(&self) -> u64 {
        self.hierarchy.changes_noted() + self.naming.changes_noted() + self.reconnection.changes_noted()
    }

    fn numbers(&self) -> t::Numbers {
        let (naming_nonce, next_context) = self.naming.numbers();
        t::Numbers {
            version: t::VERSION,
            next_channel: self.next_number(engine::Numbered::Channels),
            next_filter: self.next_number(engine::Numbered::Filters),
            naming_nonce,
            next_context,
            next_registration: self.reconnection.next_number(),
        }
    }

    fn stored_channel(&self, id: ChannelId) -> Option<Vec<u8>> {
        let channel = self.hierarchy.channel(id).ok()?;
        Some(t::written(&self.exported_channel_alone(channel)))
    }

    fn stored_admin(&self, channel: ChannelId, side: Side, id: AdminId) -> Option<Vec<u8>> {
        let admin = self.hierarchy.admin(channel, side, id).ok()?;
        Some(t::written(&self.exported_admin(channel, admin)))
    }

    fn stored_proxy(&self, channel: ChannelId, id: ProxyId) -> Option<Vec<u8>> {
        let key = ProxyKey { channel, proxy: id };
        let proxy = self.hierarchy.proxy(key).ok().filter(|_| self.is_stored(key))?;
        Some(t::written(&self.exported_proxy(channel, proxy)?))
    }

    fn stored_filter(&self, id: FilterId) -> Option<Vec<u8>> {
        let (channel, filter) = self.exported_filter(id)?;
        Some(t::written(&t::OwnFilter { channel: channel.0, filter }))
    }
}

impl Protocol {
    /// Makes what an image has, as [`restore`](Self::restore) does, and charges an account for it. `configure` is called when everything is
    /// there, and no client is connected yet. False if the image is empty, and nothing was made or configured.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    pub fn restore_image(
        &mut self,
        image: &t::Image,
        account: &Arc<Account>,
        configure: impl FnOnce(&mut Self),
    ) -> Result<bool, String> {
        let found = t::Topology::of_image(image).map_err(|error| error.to_string())?;
        let Some(topology) = found.topology else { return Ok(false) };
        self.restore_and(&topology, configure).map_err(|error| error.to_string())?;
        self.charge_all_to(account);
        Ok(true)
    }

    /// Has changes noted from now on, for [`poll_changed_part`](Self::poll_changed_part).
    pub fn note_changed_parts(&mut self) {
        self.objects.hierarchy.note_changed_parts();
        self.objects.naming.note_changed_parts();
        self.objects.reconnection.note_changed_parts();
    }

    /// Takes a part of the topology that may have changed since it was last taken, was made, or is gone. `None` when there is no other.
    pub fn poll_changed_part(&mut self) -> Option<ChangedPart> {
        let change = |part: t::Part, value: Option<Vec<u8>>| Some((part.key(), value));
        if let Some(part) = self.objects.hierarchy.poll_changed_part() {
            return match part {
                engine::HierarchyPart::Numbers => change(t::Part::Numbers, Some(t::written(&self.objects.numbers()))),
                engine::HierarchyPart::Channel(id) => change(t::Part::Channel(id.0), self.objects.stored_channel(id)),
                engine::HierarchyPart::Admin(channel, side, id) => {
                    change(t::Part::of_admin(channel.0, side, id.0), self.objects.stored_admin(channel, side, id))
                }
                engine::HierarchyPart::Proxy(ProxyKey { channel, proxy }) => change(
                    t::Part::Proxy { channel: channel.0, id: proxy.0 },
                    self.objects.stored_proxy(channel, proxy),
                ),
                engine::HierarchyPart::Filter(id) => {
                    let whole = self.objects.filters.whole_of(id);
                    change(t::Part::Filter(whole.0), self.objects.stored_filter(whole))
                }
            };
        }
        let changed = self.objects.naming.poll_changed_part(&self.objects.references);
        match changed.or_else(|| self.objects.reconnection.poll_changed_part())? {
            (t::Part::Numbers, _) => change(t::Part::Numbers, Some(t::written(&self.objects.numbers()))),
            (part, value) => change(part, value),
        }
    }
}

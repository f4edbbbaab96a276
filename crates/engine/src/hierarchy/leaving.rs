//! Removal in chunks of destroyed objects. Requests no longer find them, but a channel or an admin can have 65,536
//! proxies, and a channel 100,000 filters: each is removed here, and its client notified by the protocol.

use alloc::boxed::Box;

use super::{Admin, Channel, Hierarchy, HierarchyPart, Removed, removed};
use crate::{AdminId, ChannelId, FilterId, FilterTarget, ProxyKey, Side};

/// A destroyed object that is still to be removed.
#[derive(Debug)]
pub(super) enum Leaving {
    Channel(Box<Channel>),
    /// An admin of a channel that exists, or was destroyed later.
    Admin(ChannelId, Box<Admin>),
}

/// Something removed with a destroyed channel or admin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A proxy.
    Proxy(Removed),
    /// A filter created in the channel.
    Filter(FilterId),
    /// An admin of the destroyed channel, or the destroyed admin itself.
    Admin {
        /// The channel.
        channel: ChannelId,
        /// The admin's side.
        side: Side,
        /// The admin.
        admin: AdminId,
    },
    /// A chunk of the channel's routes.
    Routes,
    /// The end: nothing is left of the object destroyed first, in this channel.
    End(ChannelId),
}

impl Hierarchy {
    /// Removes one part of the objects that were destroyed, in the order in which they were. `None` when nothing is
    /// left. A proxy's backlog is removed with it.
    pub fn poll_removed(&mut self) -> Option<Removal> {
        let mut first = self.leaving.pop_front()?;
        let (channel, taken) = match &mut first {
            Leaving::Channel(gone) => (gone.id(), self.take_from_channel(gone)),
            Leaving::Admin(channel, gone) => (*channel, self.take_from_admin(*channel, gone)),
        };
        if taken.is_some() {
            self.leaving.push_front(first);
        } else if let Leaving::Admin(channel, admin) = first {
            self.end_admin(channel, &admin);
        }
        Some(taken.unwrap_or(Removal::End(channel)))
    }

    fn take_from_channel(&mut self, gone: &mut Channel) -> Option<Removal> {
        let channel = gone.id();
        if let Some((_, proxy)) = gone.proxies.pop_first() {
            self.filters.forget_all(&proxy.attached, gone.target_of(&proxy));
            self.pools.note_change(proxy.patch.pool, None);
            self.parts.note(HierarchyPart::Proxy(ProxyKey { channel, proxy: proxy.id }));
            return Some(Removal::Proxy(removed(channel, &proxy)));
        }
        if let Some(filter) = gone.own_filters.pop_first() {
            // The filter exists, so this cannot fail.
            let _ = self.destroy_filter(filter);
            return Some(Removal::Filter(filter));
        }
        if let Some((_, admin)) = gone.admins.pop_first() {
            self.filters.forget_all(&admin.attached, gone.target_of_admin(&admin));
            self.pools.note_change(admin.patch.pool, None);
            self.parts.note(HierarchyPart::Admin(channel, admin.side, admin.id));
            return Some(Removal::Admin { channel, side: admin.side, admin: admin.id });
        }
        // Snapshots share these, so that the last snapshot released has little to free.
        gone.release_routes().then_some(Removal::Routes)
    }

    fn take_from_admin(&mut self, channel: ChannelId, gone: &mut Admin) -> Option<Removal> {
        // If the channel was destroyed too, its proxies are removed with it.
        let owner = self.channels.get_mut(&channel)?;
        self.changed.insert(channel);
        let proxy = owner.take_doomed(gone.members.pop_first()?)?;
        self.filters.forget_all(&proxy.attached, FilterTarget::Proxy(ProxyKey { channel, proxy: proxy.id }));
        self.pools.note_change(proxy.patch.pool, None);
        self.parts.note(HierarchyPart::Proxy(ProxyKey { channel, proxy: proxy.id }));
        Some(Removal::Proxy(removed(channel, &proxy)))
    }

    /// Removes what an admin's proxies inherited from it, after the last proxy.
    fn end_admin(&mut self, channel: ChannelId, gone: &Admin) {
        let target = FilterTarget::Admin { channel, side: gone.side, admin: gone.id };
        self.filters.forget_all(&gone.attached, target);
        self.pools.note_change(gone.patch.pool, None);
        if let Some(owner) = self.channels.get_mut(&channel) {
            self.changed.insert(channel);
            owner.end_doomed(gone);
        }
    }
}

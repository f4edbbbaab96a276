//! What is destroyed is gone at once for every request, and is taken apart in pieces: a channel or an admin can have 65,536 proxies, and a
//! channel 100,000 filters, of each of which something is to be forgotten here, and its client notified by the protocol.

use alloc::boxed::Box;

use super::{Admin, Channel, Hierarchy, HierarchyPart, Removed, removed};
use crate::{AdminId, ChannelId, FilterId, FilterTarget, ProxyKey, Side};

/// Something that was destroyed.
#[derive(Debug)]
pub(super) enum Leaving {
    Channel(Box<Channel>),
    /// Of a channel that stays, or has been destroyed since.
    Admin(ChannelId, Box<Admin>),
}

/// What went with a channel or an admin that was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// One of its proxies.
    Proxy(Removed),
    /// A filter that was made in the channel.
    Filter(FilterId),
    /// An admin of the channel, or the admin itself.
    Admin {
        /// The channel.
        channel: ChannelId,
        /// The admin's side.
        side: Side,
        /// The admin.
        admin: AdminId,
    },
    /// A piece of what was kept to publish the channel.
    Routes,
    /// Nothing is left of what was destroyed first, in this channel.
    End(ChannelId),
}

impl Hierarchy {
    /// Takes one thing from what was destroyed: what was destroyed first has to end before the next begins. `None` when nothing
    /// is left of anything. A proxy's backlog goes with it.
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
            // It exists, so this is not refused.
            let _ = self.destroy_filter(filter);
            return Some(Removal::Filter(filter));
        }
        if let Some((_, admin)) = gone.admins.pop_first() {
            self.filters.forget_all(&admin.attached, gone.target_of_admin(&admin));
            self.pools.note_change(admin.patch.pool, None);
            self.parts.note(HierarchyPart::Admin(channel, admin.side, admin.id));
            return Some(Removal::Admin { channel, side: admin.side, admin: admin.id });
        }
        // Snapshots share these, so that the last of them to go has little to release.
        gone.release_routes().then_some(Removal::Routes)
    }

    fn take_from_admin(&mut self, channel: ChannelId, gone: &mut Admin) -> Option<Removal> {
        // If the channel has gone, too, its proxies go with that.
        let owner = self.channels.get_mut(&channel)?;
        self.changed.insert(channel);
        let proxy = owner.take_doomed(gone.members.pop_first()?)?;
        self.filters.forget_all(&proxy.attached, FilterTarget::Proxy(ProxyKey { channel, proxy: proxy.id }));
        self.pools.note_change(proxy.patch.pool, None);
        self.parts.note(HierarchyPart::Proxy(ProxyKey { channel, proxy: proxy.id }));
        Some(Removal::Proxy(removed(channel, &proxy)))
    }

    /// All proxies of an admin are gone: what they had from it can go.
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

//! Numbers of channels, admins, proxies and filters. Each kind counts up, and no number is assigned twice, also when
//! stored objects are created anew after a restart.

use super::{Hierarchy, HierarchyPart};
use crate::{ChannelId, FilterTarget, Refusal};

/// A kind of objects that are numbered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// Channels.
    Channels,
    /// The filters of all channels.
    Filters,
    /// A channel's admins of both sides.
    Admins(ChannelId),
    /// A channel's proxies of both sides.
    Proxies(ChannelId),
    /// The filters attached to an admin or a proxy.
    Attached(FilterTarget),
}

impl Hierarchy {
    /// The number of the next object of this kind.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`].
    pub fn next_number(&self, of: Numbered) -> Result<u32, Refusal> {
        Ok(match of {
            Numbered::Channels => self.next_channel,
            Numbered::Filters => self.filters.next,
            Numbered::Admins(channel) => self.channel(channel)?.next_admin,
            Numbered::Proxies(channel) => self.channel(channel)?.next_proxy,
            Numbered::Attached(target) => self.attached(target)?.next(),
        })
    }

    /// Sets the number of the next object of this kind, and skips those before it. Numbers never go back.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`].
    pub fn skip_numbers(&mut self, of: Numbered, next: u32) -> Result<(), Refusal> {
        let skip = |number: &mut u32| *number = next.max(*number);
        match of {
            Numbered::Channels => {
                self.parts.note(HierarchyPart::Numbers);
                skip(&mut self.next_channel);
            }
            Numbered::Filters => {
                self.parts.note(HierarchyPart::Numbers);
                skip(&mut self.filters.next);
            }
            Numbered::Admins(channel) => skip(&mut self.changed_channel(channel)?.next_admin),
            Numbered::Proxies(channel) => skip(&mut self.changed_channel(channel)?.next_proxy),
            Numbered::Attached(target) => self.change_attached(target, |attached| skip(attached.next_mut()))?,
        }
        Ok(())
    }
}

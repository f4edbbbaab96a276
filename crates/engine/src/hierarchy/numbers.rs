//! The numbers that things get: each kind's count up, and none is ever given out twice, also when what has been kept is made once more
//! after a restart.

use super::{Hierarchy, HierarchyPart};
use crate::{ChannelId, FilterTarget, Refusal};

/// Things that are numbered together.
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
    /// The filters that an admin or a proxy has.
    Attached(FilterTarget),
}

impl Hierarchy {
    /// The number of what is made next.
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

    /// Has what is made next get that number, and leaves out those before it. It never goes back.
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

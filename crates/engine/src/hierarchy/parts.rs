//! Changed parts of the hierarchy, for the owner of a stored image of it.

use alloc::collections::BTreeSet;

use super::{Hierarchy, SubscriptionTarget};
use crate::{AdminId, ChannelId, FilterId, FilterTarget, ProxyKey, Side};

/// A part of the hierarchy with an entry of its own in a stored image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HierarchyPart {
    /// The next channel number and the next filter number.
    Numbers,
    /// A channel's own settings, limits and numbers.
    Channel(ChannelId),
    /// An admin.
    Admin(ChannelId, Side, AdminId),
    /// A proxy.
    Proxy(ProxyKey),
    /// A filter.
    Filter(FilterId),
}

impl From<FilterTarget> for HierarchyPart {
    fn from(target: FilterTarget) -> Self {
        match target {
            FilterTarget::Admin { channel, side, admin } => Self::Admin(channel, side, admin),
            FilterTarget::Proxy(key) => Self::Proxy(key),
        }
    }
}

impl From<SubscriptionTarget> for HierarchyPart {
    fn from(target: SubscriptionTarget) -> Self {
        match target {
            SubscriptionTarget::Admin { channel, side, admin } => Self::Admin(channel, side, admin),
            SubscriptionTarget::Proxy(key) => Self::Proxy(key),
        }
    }
}

/// Changed parts, if they are recorded.
#[derive(Debug, Default)]
pub(super) struct Parts {
    changed: Option<BTreeSet<HierarchyPart>>,
    noted: u64,
}

impl Parts {
    pub(super) fn note(&mut self, part: impl Into<HierarchyPart>) {
        if let Some(changed) = &mut self.changed {
            changed.insert(part.into());
            self.noted += 1;
        }
    }
}

impl Hierarchy {
    /// Starts to record changes for [`poll_changed_part`](Self::poll_changed_part). At most one entry per part,
    /// existing or destroyed, is pending at a time.
    pub fn note_changed_parts(&mut self) {
        self.parts.changed.get_or_insert_default();
    }

    /// A part that may have changed since this last returned it, or that was created or destroyed. `None` if no other is pending.
    pub fn poll_changed_part(&mut self) -> Option<HierarchyPart> {
        self.parts.changed.as_mut()?.pop_first()
    }

    /// Number of changes noted so far, of any part: it differs between two calls if there was a change between them.
    #[must_use]
    pub const fn changes_noted(&self) -> u64 {
        self.parts.noted
    }

    /// Notes a change of something outside the hierarchy that belongs to the image of this part.
    pub fn note_changed_part(&mut self, part: HierarchyPart) {
        self.parts.note(part);
    }
}

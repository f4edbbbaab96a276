//! Which parts of the hierarchy commands have changed, for the keeper of an image of it.

use alloc::collections::BTreeSet;

use super::{Hierarchy, SubscriptionTarget};
use crate::{AdminId, ChannelId, FilterId, FilterTarget, ProxyKey, Side};

/// A part of the hierarchy that an image of it has a place of its own for.
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

/// What has changed, if that is kept.
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
    /// Has changes noted from now on, for [`poll_changed_part`](Self::poll_changed_part): until they are asked for, one for each part
    /// that there is or was.
    pub fn note_changed_parts(&mut self) {
        self.parts.changed.get_or_insert_default();
    }

    /// A part that may have changed since this last returned it, or that was made or is gone. `None` when there is no other.
    pub fn poll_changed_part(&mut self) -> Option<HierarchyPart> {
        self.parts.changed.as_mut()?.pop_first()
    }

    /// How many changes were noted so far, of whichever parts: two of these differ if there was a change between.
    #[must_use]
    pub const fn changes_noted(&self) -> u64 {
        self.parts.noted
    }

    /// Something has changed of a part that is not this hierarchy's, but belongs to it.
    pub fn note_changed_part(&mut self, part: HierarchyPart) {
        self.parts.note(part);
    }
}

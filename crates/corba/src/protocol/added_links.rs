//! Links to other services that operators have added, stored with the rest of the configuration. The service itself knows a link's
//! function, and whether it may be added.

use super::Objects;
use std::collections::{BTreeMap, BTreeSet};
use topology as t;

/// Added links by name.
#[derive(Debug, Default)]
pub(super) struct AddedLinks {
    by_name: BTreeMap<String, t::Link>,
    /// Names of added or removed links, if changes are recorded.
    changed: Option<BTreeSet<String>>,
    changes: u64,
}

impl AddedLinks {
    fn note(&mut self, name: &str) {
        self.changes += 1;
        if let Some(changed) = &mut self.changed {
            changed.insert(name.to_owned());
        }
    }

    pub(super) const fn changes_noted(&self) -> u64 {
        self.changes
    }

    pub(super) fn note_changed_parts(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// A link that may have changed, with its current content; `None` if it is gone.
    pub(super) fn poll_changed_part(&mut self) -> Option<(t::Part, Option<Vec<u8>>)> {
        let name = self.changed.as_mut()?.pop_first()?;
        let value = self.by_name.get(&name).map(t::written);
        Some((t::Part::Link(name), value))
    }

    pub(super) fn exported(&self) -> Vec<t::Link> {
        self.by_name.values().cloned().collect()
    }

    pub(super) fn restore(&mut self, links: &[t::Link]) {
        for link in links {
            self.note(&link.name);
            self.by_name.insert(link.name.clone(), link.clone());
        }
    }
}

impl Objects {
    /// Stores a link, replacing one of the same name.
    pub fn add_link(&mut self, link: t::Link) {
        self.links.note(&link.name);
        self.links.by_name.insert(link.name.clone(), link);
    }

    /// Removes a link. Returns false if none has the name.
    pub fn remove_link(&mut self, name: &str) -> bool {
        let removed = self.links.by_name.remove(name).is_some();
        if removed {
            self.links.note(name);
        }
        removed
    }

    /// The added links, by name.
    pub fn added_links(&self) -> impl Iterator<Item = &t::Link> {
        self.links.by_name.values()
    }
}

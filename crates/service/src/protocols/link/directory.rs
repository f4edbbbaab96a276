//! The exchange of channel names over a link, so that clients of one service reach the channels of the other.
//!
//! Administration owns the names (`federation.rs` of the crate `corba`): it decides which are sent to a far side, and gets those received.
//! This module has the two tables of each connection, and sends the changes: at most [`DIRECTORY_ENTRIES_MAX`] each time that links are
//! looked after, to leave the line to events.

use std::collections::BTreeMap;
use std::sync::Arc;

use accounts::{Account, Resource};
use corba::{AdvertisedName, FarName, FarNames, NAMES_MAX};
use engine::Peer;
use links::wire::{DIRECTORY_ENTRIES_MAX, Frame, NameEntries, NameEntry};

use super::session::Connection;
use super::{Links, Protocol};
use crate::config::LinkNames;
use crate::counters::Counter;
use crate::lane::io::slots::Token;
use crate::protocols::local_proxies::Action;

/// Octets charged for a name beside its text and its reference, which is retained as text and decoded.
const NAME_BYTES: u64 = 256;

/// The names of one connection.
#[derive(Debug)]
pub(super) struct Directory {
    /// The handle by which administration knows the directory.
    peer: Peer,
    /// The names to send: this service's own, and those of others.
    due: BTreeMap<Arc<str>, AdvertisedName>,
    /// The names that the far side has received.
    advertised: BTreeMap<Arc<str>, AdvertisedName>,
    /// Whether names from administration are yet to be sent.
    is_due: bool,
    /// The names received from the far side.
    far: BTreeMap<Arc<str>, Arc<FarName>>,
    /// Whether the far side has sent all of its names once: from then on each change takes effect at once.
    is_whole: bool,
    /// Whether administration has yet to get received changes.
    is_news: bool,
    /// Whether the lack of room for names was logged.
    is_full: bool,
}

impl Directory {
    const fn new(peer: Peer) -> Self {
        Self {
            peer,
            due: BTreeMap::new(),
            advertised: BTreeMap::new(),
            is_due: false,
            far: BTreeMap::new(),
            is_whole: false,
            is_news: false,
            is_full: false,
        }
    }

    /// The next changes to send, and whether there are more.
    fn next_changes(&self) -> (Vec<(&str, Option<&AdvertisedName>)>, bool) {
        let is_new = |(name, told): &(&Arc<str>, &AdvertisedName)| self.advertised.get(*name) != Some(told);
        let new = self.due.iter().filter(is_new).map(|(name, told)| (&**name, Some(told)));
        let gone = self.advertised.keys().filter(|name| !self.due.contains_key(*name)).map(|name| (&**name, None));
        let mut changes: Vec<_> = gone.chain(new).take(DIRECTORY_ENTRIES_MAX + 1).collect();
        let has_more = changes.len() > DIRECTORY_ENTRIES_MAX;
        changes.truncate(DIRECTORY_ENTRIES_MAX);
        (changes, has_more)
    }

    /// Writes the next changes.
    fn write(&mut self, service: u64, out: &mut Vec<u8>) {
        let (changes, more) = self.next_changes();
        let entries = changes.iter().map(|(name, told)| match told {
            Some(AdvertisedName { distance, service: of, reference, .. }) => {
                NameEntry { distance: *distance, service: of.unwrap_or(service), name, reference }
            }
            None => NameEntry { distance: 0, service, name, reference: "" },
        });
        let entries: Vec<NameEntry<'_>> = entries.filter(NameEntry::fits).collect();
        if let Ok(names) = NameEntries::new(&entries) {
            Frame::Directory { more, names }.write(out);
        }
        let written: Vec<_> = changes.iter().map(|(name, told)| (Arc::<str>::from(*name), told.cloned())).collect();
        for (name, told) in written {
            match told {
                Some(told) => _ = self.advertised.insert(name, told),
                None => _ = self.advertised.remove(&name),
            }
        }
        self.is_due = more;
    }

    /// Applies changes from the far side. Returns the number of names without room, and the quota's counter if the quota is the reason.
    fn take(&mut self, own: u64, names: &NameEntries<'_>, account: &Arc<Account>) -> (u64, Option<Counter>) {
        let (mut rejected, mut quota) = (0, None);
        for NameEntry { distance, service, name, reference } in names.iter() {
            self.far.remove(name);
            // Names of this service itself are not retained.
            if reference.is_empty() || service == own {
                continue;
            }
            if self.far.len() >= NAMES_MAX {
                rejected += 1;
                continue;
            }
            let octets = NAME_BYTES + name.len() as u64 + 2 * reference.len() as u64;
            match account.charge(Resource::RetainedBytes, octets) {
                Ok(charge) => {
                    let told = FarName { distance, service, reference: reference.into(), charge };
                    self.far.insert(name.into(), Arc::new(told));
                }
                Err(spent) => (rejected, quota) = (rejected + 1, Some(Counter::of_refusal(spent))),
            }
        }
        (rejected, quota)
    }
}

impl Links<'_> {
    /// Begins the exchange of names once the far side is known.
    pub(super) fn begin_directory(&mut self, token: Token) {
        let link = &mut self.core.protocols.link;
        let names = link.settings.names;
        let is_gateway = link.connections.get(token).is_some_and(|connection| link.is_gateway(connection));
        if names == LinkNames::Off || is_gateway {
            return;
        }
        let peer = link.new_peer();
        let Some(connection) = link.connections.get_mut(token) else { return };
        let Some(far) = &connection.far else { return };
        let (service, account) = (far.service, Arc::clone(&connection.account));
        connection.directory = Some(Directory::new(peer));
        link.directories.insert(peer, token);
        if names.tells() {
            self.core.cx.tell_administration(token.to_bits(), Action::WatchNames { peer, service }, &account);
        }
    }

    /// Handles administration's list of names to send to a far side.
    pub(super) fn names_changed(&mut self, peer: Peer, names: Vec<AdvertisedName>) {
        let link = &mut self.core.protocols.link;
        let Some(token) = link.directories.get(&peer).copied() else { return };
        let directory = link.connections.get_mut(token).and_then(|connection| connection.directory.as_mut());
        let Some(directory) = directory else { return };
        directory.due = names.into_iter().map(|told| (Arc::clone(&told.name), told)).collect();
        directory.is_due = true;
        link.look_after = Some(self.core.cx.clock.now);
    }

    /// Handles names from the far side of a connection.
    ///
    /// # Errors
    /// The reason for closing the connection.
    pub(super) fn far_side_names(&mut self, token: Token, more: bool, names: &NameEntries<'_>) -> Result<(), String> {
        let named = self.link_named(token);
        let Protocol { connections, settings, service, .. } = &mut self.core.protocols.link;
        let Some(connection) = connections.get_mut(token) else { return Ok(()) };
        let Some(directory) = connection.directory.as_mut().filter(|_| settings.names.takes()) else { return Ok(()) };
        let (rejected, quota) = directory.take(*service, names, &connection.account);
        quota.into_iter().for_each(|quota| self.core.cx.counters.add(quota, 1));
        if rejected > 0 {
            self.core.cx.counters.add(Counter::FederatedNamesRejected, rejected);
            if !core::mem::replace(&mut directory.is_full, true) {
                self.core.cx.log(log::Level::Warn, || {
                    format!("{named}: it tells more names of channels than there is room for: {NAMES_MAX} of a link, or what its address may have")
                });
            }
        }
        directory.is_whole |= !more;
        directory.is_news = true;
        Ok(())
    }

    /// Writes the next changes for a far side, and passes received changes to administration.
    pub(super) fn look_after_directory(&mut self, token: Token) {
        let link = &mut self.core.protocols.link;
        let Some(connection) = link.connections.get_mut(token) else { return };
        let is_writable = connection.has_room();
        let Some(mut directory) = connection.directory.take() else { return };
        if directory.is_due && is_writable {
            directory.write(link.service, connection.frames(&mut self.core.cx.io.spares));
            self.note_link_due(token);
        }
        if directory.is_whole && core::mem::take(&mut directory.is_news) {
            self.hand_over_names(token, &directory);
        }
        if let Some(connection) = self.core.protocols.link.connections.get_mut(token) {
            connection.directory = Some(directory);
        }
    }

    fn hand_over_names(&mut self, token: Token, directory: &Directory) {
        let link = self.link_named(token);
        let Some(connection) = self.core.protocols.link.connections.get(token) else { return };
        let Some(far) = &connection.far else { return };
        let is_here = connection.address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        let names = directory.far.iter().map(|(name, told)| (Arc::clone(name), Arc::clone(told))).collect();
        let names = FarNames { service: far.service, link, is_here, names };
        let (action, account) =
            (Action::FarNames { peer: directory.peer, names: names.into() }, Arc::clone(&connection.account));
        self.core.cx.tell_administration(token.to_bits(), action, &account);
    }

    /// Ends the directory of a closed connection: administration drops its names after a while.
    pub(super) fn end_directory(&mut self, token: Token, connection: &mut Connection) {
        let Some(Directory { peer, .. }) = connection.directory.take() else { return };
        let link = &mut self.core.protocols.link;
        link.directories.remove(&peer);
        let action = Action::EndNames { peer, forgotten_after: link.settings.names_forgotten_after };
        self.core.cx.tell_administration(token.to_bits(), action, &connection.account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 7;

    fn advertised(name: &str, distance: u8) -> (Arc<str>, AdvertisedName) {
        let name = Arc::<str>::from(name);
        (Arc::clone(&name), AdvertisedName { name, distance, service: Some(9), reference: "IOR:00".into() })
    }

    fn written(directory: &mut Directory) -> (Vec<(String, bool)>, bool) {
        let mut bytes = Vec::new();
        directory.write(OWN, &mut bytes);
        let Ok(Frame::Directory { more, names }) = Frame::read(&bytes[links::wire::LENGTH_BYTES..]) else { panic!() };
        (names.iter().map(|entry| (entry.name.to_owned(), !entry.reference.is_empty())).collect(), more)
    }

    #[test]
    fn what_changes_is_told_once_and_a_bounded_number_at_a_time() {
        let mut directory = Directory::new(Peer(1));
        assert_eq!(written(&mut directory), (Vec::new(), false), "that there are none is said, too");
        directory.due = (0..DIRECTORY_ENTRIES_MAX + 1).map(|number| advertised(&format!("{number:04}"), 0)).collect();
        let (first, more) = written(&mut directory);
        assert_eq!((first.len(), more), (DIRECTORY_ENTRIES_MAX, true));
        assert_eq!(written(&mut directory), (vec![("0128".to_owned(), true)], false));
        directory.due = [advertised("0000", 1), advertised("0001", 0)].into();
        let (second, more) = written(&mut directory);
        assert_eq!((second.len(), more), (DIRECTORY_ENTRIES_MAX, false), "127 are gone, and one is farther");
        assert_eq!(second.iter().filter(|(_, is_there)| *is_there).count(), 1);
        assert_eq!(written(&mut directory), (Vec::new(), false));
    }

    #[test]
    fn a_far_side_has_a_bounded_number_of_names_and_those_that_its_address_may_have() {
        let accounts = accounts::Accounts::new(accounts::Ceilings::new(75));
        let account = accounts.account_of(std::net::IpAddr::from([127, 0, 0, 1]));
        let mut directory = Directory::new(Peer(1));
        let names: Vec<String> = (0..=NAMES_MAX).map(|number| number.to_string()).collect();
        for chunk in names.chunks(DIRECTORY_ENTRIES_MAX) {
            let entry = |name| NameEntry { distance: 0, service: 9, name, reference: "IOR:00" };
            let entries: Vec<_> = chunk.iter().map(|name| entry(name.as_str())).collect();
            let taken = directory.take(OWN, &NameEntries::new(&entries).unwrap(), &account);
            assert_eq!(taken, (chunk.contains(&NAMES_MAX.to_string()).into(), None));
        }
        assert_eq!(directory.far.len(), NAMES_MAX);
        let charged = account.used(Resource::RetainedBytes);
        assert!(charged > NAMES_MAX as u64 * NAME_BYTES);
        // What is this service's own comes back round a ring, and what is gone takes no room.
        let back = NameEntry { distance: 1, service: OWN, name: "1", reference: "IOR:00" };
        let gone = NameEntry { distance: 0, service: 9, name: "2", reference: "" };
        assert_eq!(directory.take(OWN, &NameEntries::new(&[back, gone]).unwrap(), &account), (0, None));
        assert_eq!(directory.far.len(), NAMES_MAX - 2);
        assert!(account.used(Resource::RetainedBytes) < charged);
    }
}

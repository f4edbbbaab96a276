//! `CosNotifyFilter::FilterAdmin`: the filters of an admin or a proxy.
//!
//! A filter may be one of this service's, evaluated where the events are, or any other server's, which is then asked by
//! calls ([`engine::FilterRef`]).

use super::callbacks::Callbacks;
use super::expression::{Expression, New};
use super::store::Role;
use crate::exceptions::{Raised, UserException};
use crate::protocol::{Objects, PeerAddress, weights};
use crate::references::log_name;
use crate::table::{AdminKey, Call, Level, Target};
use crate::wire::{read_id, read_reference, write_id, write_ids};
use engine::{FilterId, FilterRef, FilterTarget, Peer, ProxyKey};
use giop::ior::Ior;

/// The filter language's name in CORBA.
const GRAMMAR: &str = "EXTENDED_TCL";

/// Admin or proxy that has the filters of an operation.
pub(super) fn target_of(on: Target) -> Result<FilterTarget, Raised> {
    match on.level()? {
        Level::Admin(AdminKey { channel, side, admin }) => Ok(FilterTarget::Admin { channel, side, admin }),
        Level::Proxy(proxy, _) => Ok(FilterTarget::Proxy(proxy)),
        Level::Channel(_) => Err(Raised::internal()),
    }
}

pub(super) fn add_filter(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let reference = read_reference(&mut args)?;
    args.finish("the arguments of add_filter")?;
    let profile = reference.iiop().ok_or_else(Raised::bad_param)?;
    let id = match protocol.objects.own(&reference) {
        Some(Target::Filter(filter)) => protocol.objects.give_place(target_of(on)?, FilterRef::Local(filter))?,
        // Of this service, but nothing that could be asked.
        Some(_) => return Err(Raised::bad_param()),
        None if protocol.objects.references.is_here(profile) => return Err(Raised::bad_param()),
        None => {
            let name = log_name(profile);
            // Which operation it is asked with depends on the event.
            let address =
                PeerAddress { ior: reference, by: protocol.objects.ledger.principal(), name, operation: "match" };
            protocol.objects.attach_remote_filter(target_of(on)?, address)?
        }
    };
    write_id(id, reply);
    Ok(())
}

pub(super) fn remove_filter(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of remove_filter")?;
    let (target, id) = (target_of(on)?, id.ok_or(UserException::FilterNotFound)?);
    let removed = protocol
        .objects
        .change_thing(target.into(), 0, |objects| Ok(objects.hierarchy.remove_filter(target, id)?))?;
    if let FilterRef::Remote(peer) = removed {
        if let Some(peers) = protocol.objects.filters.remote.get_mut(&target) {
            peers.retain(|stored| *stored != peer);
        }
        protocol.objects.drop_peer(peer);
    }
    Ok(())
}

pub(super) fn get_filter(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of get_filter")?;
    let filters = protocol.objects.hierarchy.filters(target_of(on)?)?;
    let found = filters.iter().find(|(known, _)| Some(*known) == id).map(|(_, filter)| *filter);
    let reference = match found.ok_or(UserException::FilterNotFound)? {
        FilterRef::Local(filter) => protocol.objects.reference(Target::Filter(filter))?,
        FilterRef::Remote(peer) => protocol.objects.peer(peer).ok_or_else(Raised::internal)?.ior.clone(),
    };
    reference.write(reply);
    Ok(())
}

pub(super) fn get_all_filters(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_all_filters")?;
    write_ids(protocol.objects.hierarchy.filters(target_of(on)?)?.iter().map(|(id, _)| *id), reply);
    Ok(())
}

pub(super) fn remove_all_filters(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of remove_all_filters")?;
    let target = target_of(on)?;
    protocol.objects.change_thing(target.into(), 0, |objects| Ok(objects.hierarchy.remove_all_filters(target)?))?;
    protocol.objects.forget_filters_of(target);
    Ok(())
}

impl Objects {
    /// The filter of this service that a reference leads to, if there is one. Clients know this host under other names too;
    /// the number drawn at random in a filter's key says which service it belongs to.
    pub(super) fn own(&self, reference: &Ior) -> Option<Target> {
        let target = self.target(&reference.iiop()?.key)?;
        matches!(target, Target::Filter(_) | Target::MappingFilter(_)).then_some(target)
    }

    /// Attaches a filter of another server to an admin or a proxy.
    pub(crate) fn attach_remote_filter(&mut self, target: FilterTarget, address: PeerAddress) -> Result<u32, Raised> {
        self.admit_remote_filter(target.channel())?;
        let peer = self.add_peer(address)?;
        match self.give_place(target, FilterRef::Remote(peer)) {
            Ok(id) => {
                self.filters.remote.entry(target).or_default().push(peer);
                Ok(id)
            }
            Err(refused) => {
                self.drop_peer(peer);
                Err(refused)
            }
        }
    }

    /// Attaches a filter to an admin or a proxy.
    pub(super) fn give_place(&mut self, target: FilterTarget, filter: FilterRef) -> Result<u32, Raised> {
        self.change_thing(target.into(), weights::PLACE, |protocol| {
            Ok(protocol.hierarchy.add_filter(target, filter)?)
        })
    }

    /// Has events for a proxy pass a constraint.
    pub(crate) fn filter_for(&mut self, key: ProxyKey, constraint: String) -> Result<FilterId, Raised> {
        let filter = self.filters().create(key.channel, GRAMMAR.to_owned(), Role::Decides(Callbacks::default()))?;
        let new = New { expression: Expression { types: Vec::new(), text: constraint }, value: None };
        let added = self.filters().add_constraints(filter, vec![new]);
        let placed = added.and_then(|_| self.give_place(FilterTarget::Proxy(key), FilterRef::Local(filter)));
        if let Err(raised) = placed {
            self.destroy_filter_of_local_proxy(filter);
            return Err(raised);
        }
        Ok(filter)
    }

    /// The proxy is gone that it belonged to.
    pub(crate) fn destroy_filter_of_local_proxy(&mut self, filter: FilterId) {
        let is_there = self.filters.channel(filter).is_some_and(|channel| self.has_channel(channel));
        if !is_there || self.filters().destroy(filter).is_err() {
            // It goes with its channel.
            self.filters().forget(filter);
        }
    }

    /// An admin or proxy is gone: forgets the filters of other servers that it had.
    pub(crate) fn forget_filters_of(&mut self, target: FilterTarget) {
        let peers = self.filters.remote.remove(&target).unwrap_or_default();
        self.drop_peers(peers);
    }

    fn drop_peers(&mut self, peers: Vec<Peer>) {
        for peer in peers {
            self.drop_peer(peer);
        }
    }
}

//! `CosNotifyFilter` and TAO's `CosNotifyFilterExt`: filters of both kinds, their factories, and the admins and proxies that use them.
//!
//! The values of a mapping filter may be of any type until it is used. Used for priorities they must be integers in the range of `short`,
//! for lifetimes non-negative integers, in the 100 ns of `TimeBase::TimeT`. One filter can be used for both, as the attributes
//! `priority_filter` and `lifetime_filter` of other objects.
//!
//! A filter of an admin or a proxy may be this service's, evaluated on the event path, or another server's, which is then called
//! ([`engine::FilterRef`]).

use super::callbacks::Callbacks;
use super::expression::{
    Expression, MappedValue, New, read_expressions, read_ids, read_infos, read_mapping_infos, read_pairs,
};
use super::store::{self, Installed, Role};
use crate::exceptions::{Raised, UserException};
use crate::protocol::{Objects, PeerAddress, Protocol, weights};
use crate::references::log_name;
use crate::table::{AdminKey, Call, Level, Target};
use crate::wire::{read_id, read_reference, write_id, write_ids};
use engine::{FilterId, FilterRef, FilterTarget, Mapping, Peer, ProxyKey};
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;
use std::sync::Arc;

pub(super) fn create_filter(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let grammar = args.text()?;
    args.finish("the arguments of create_filter")?;
    check_grammar(&grammar)?;
    let id = protocol.objects.filters().create(on.filter_factory()?, grammar, Role::Decides(Callbacks::default()))?;
    protocol.objects.reference(Target::Filter(id))?.write(reply);
    Ok(())
}

pub(super) fn create_mapping_filter(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let grammar = args.text()?;
    let default = MappedValue::read(&mut args, &mut MappedValue::work())?;
    args.finish("the arguments of create_mapping_filter")?;
    check_grammar(&grammar)?;
    let mapping = store::Mapping { default, for_priority: false, for_lifetime: None };
    let id = protocol.objects.filters().create(on.filter_factory()?, grammar, Role::Maps(mapping))?;
    protocol.objects.reference(Target::MappingFilter(id))?.write(reply);
    Ok(())
}

/// A filter of either kind made by this channel's factory; `None` for any other object.
fn made_here(protocol: &Protocol, on: Target, reference: &Ior) -> Result<Option<FilterId>, Raised> {
    let channel = on.filter_factory()?;
    let filter = match protocol.objects.own(reference) {
        Some(Target::Filter(filter) | Target::MappingFilter(filter)) => Some(filter),
        _ => None,
    };
    Ok(filter.filter(|filter| protocol.objects.filters.channel(*filter) == Some(channel)))
}

/// `CosNotifyFilterExt::FilterFactory::remove_filter`: the filter is destroyed.
pub(super) fn remove_made_filter(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let reference = read_reference(&mut args)?;
    args.finish("the arguments of remove_filter")?;
    let filter = made_here(protocol, on, &reference)?.ok_or(UserException::FilterNotFound)?;
    protocol.objects.filters().destroy(filter)
}

/// `CosNotifyFilterExt::FilterFactory::get_filterid`. The IDL has no exception for a foreign filter.
pub(super) fn get_filterid(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let reference = read_reference(&mut args)?;
    args.finish("the arguments of get_filterid")?;
    write_id(made_here(protocol, on, &reference)?.ok_or_else(Raised::bad_param)?.0, reply);
    Ok(())
}

/// `CosNotifyFilterExt::FilterFactory::get_filter`: nil for an unknown number, since the IDL has no exception for it, or `INTERNAL`, as in
/// TAO.
pub(super) fn get_made_filter(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let id = read_id(&mut args)?;
    args.finish("the arguments of get_filter")?;
    let channel = on.filter_factory()?;
    let is_its = |filter: &FilterId| {
        protocol.objects.filters.channel(*filter) == Some(channel) && !protocol.objects.filters.is_mapping(*filter)
    };
    match id.map(FilterId).filter(is_its) {
        Some(filter) => protocol.objects.reference(Target::Filter(filter))?.write(reply),
        None if protocol.objects.compatibility().unknown_filter_internal => return Err(Raised::internal()),
        None => Ior::nil().write(reply),
    }
    Ok(())
}

fn check_grammar(name: &str) -> Result<(), Raised> {
    if filter::is_grammar(name) { Ok(()) } else { Err(UserException::InvalidGrammar.into()) }
}

/// `constraint_grammar`, of filters of either kind.
pub(super) fn grammar(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of constraint_grammar")?;
    reply.string(&protocol.objects.filters.get(on.filter()?)?.grammar);
    Ok(())
}

pub(super) fn add_constraints(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let new = read_expressions(&mut args, protocol.objects.filters().limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of add_constraints")?;
    write_infos(&protocol.objects.filters().add_constraints(filter, new)?, reply);
    Ok(())
}

pub(super) fn modify_constraints(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let max = protocol.objects.filters().limits(filter)?.constraints_per_filter_max;
    let deleted = read_ids(&mut args, max)?;
    let modified = read_infos(&mut args, max)?;
    args.finish("the arguments of modify_constraints")?;
    protocol.objects.filters().modify_constraints(filter, &deleted, modified)
}

pub(super) fn get_constraints(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let ids = read_ids(&mut args, protocol.objects.filters().limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of get_constraints")?;
    write_infos(&protocol.objects.filters.some_constraints(filter, &ids)?, reply);
    Ok(())
}

pub(super) fn get_all_constraints(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_all_constraints")?;
    write_infos(&protocol.objects.filters.all_constraints(on.filter()?)?, reply);
    Ok(())
}

/// `remove_all_constraints` and `remove_all_mapping_constraints`.
pub(super) fn remove_all(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of an operation that removes all constraints")?;
    protocol.objects.filters().remove_all_constraints(on.filter()?)
}

/// `destroy`, of filters of either kind.
pub(super) fn destroy(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of destroy")?;
    protocol.objects.filters().destroy(on.filter()?)
}

/// Writes a `ConstraintInfoSeq`.
fn write_infos(constraints: &[Arc<Installed>], out: &mut Writer<'_>) {
    out.length(constraints.len());
    for installed in constraints {
        installed.expression().write(out);
        out.i32(installed.id);
    }
}

pub(super) fn value_type(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of value_type")?;
    protocol.objects.filters.mapping(on.filter()?)?.default.type_code().write(reply);
    Ok(())
}

pub(super) fn default_value(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of default_value")?;
    Ok(protocol.objects.filters.mapping(on.filter()?)?.default.write(reply)?)
}

pub(super) fn add_mapping_constraints(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let new = read_pairs(&mut args, protocol.objects.filters().limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of add_mapping_constraints")?;
    write_mapping_infos(&protocol.objects.filters().add_constraints(filter, new)?, reply)
}

pub(super) fn modify_mapping_constraints(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let max = protocol.objects.filters().limits(filter)?.constraints_per_filter_max;
    let deleted = read_ids(&mut args, max)?;
    let modified = read_mapping_infos(&mut args, max)?;
    args.finish("the arguments of modify_mapping_constraints")?;
    protocol.objects.filters().modify_constraints(filter, &deleted, modified)
}

pub(super) fn get_mapping_constraints(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let ids = read_ids(&mut args, protocol.objects.filters().limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of get_mapping_constraints")?;
    write_mapping_infos(&protocol.objects.filters.some_constraints(filter, &ids)?, reply)
}

pub(super) fn get_all_mapping_constraints(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_all_mapping_constraints")?;
    write_mapping_infos(&protocol.objects.filters.all_constraints(on.filter()?)?, reply)
}

/// Writes a `MappingConstraintInfoSeq`.
fn write_mapping_infos(constraints: &[Arc<Installed>], out: &mut Writer<'_>) -> Result<(), Raised> {
    out.length(constraints.len());
    for installed in constraints {
        installed.expression().write(out);
        out.i32(installed.id);
        installed.value.as_ref().ok_or_else(Raised::internal)?.write(out)?;
    }
    Ok(())
}

pub(crate) fn priority_filter(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    get(Call { protocol, on, args, reply }, Mapping::Priority)
}

pub(crate) fn lifetime_filter(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    get(Call { protocol, on, args, reply }, Mapping::Lifetime)
}

pub(crate) fn set_priority_filter(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    set(protocol, on, Mapping::Priority, args)
}

pub(crate) fn set_lifetime_filter(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    set(protocol, on, Mapping::Lifetime, args)
}

fn get(Call { protocol, on, args, reply }: Call<'_, '_>, mapping: Mapping) -> Result<(), Raised> {
    args.finish("the arguments of an attribute that is a mapping filter")?;
    let filter = match protocol.objects.hierarchy.mapping(target_of(on)?, mapping)? {
        Some(id) => {
            let id = protocol.objects.filters.lifetimes.get(&id).copied().unwrap_or(id);
            protocol.objects.reference(Target::MappingFilter(id))?
        }
        None => Ior::nil(),
    };
    filter.write(reply);
    Ok(())
}

/// Sets a mapping filter of this service, or none if nil. Foreign mapping filters are not supported: an event's priority and lifetime must
/// be known before it is queued.
fn set(protocol: &mut Protocol, on: Target, mapping: Mapping, mut args: Reader<'_>) -> Result<(), Raised> {
    let filter = read_reference(&mut args)?;
    args.finish("the value of an attribute that is a mapping filter")?;
    let id = if filter.is_nil() {
        None
    } else {
        let Some(Target::MappingFilter(id)) = protocol.objects.own(&filter) else { return Err(Raised::bad_param()) };
        Some(match mapping {
            Mapping::Priority => protocol.objects.filters().mapping_of_priority(id)?,
            Mapping::Lifetime => protocol.objects.filters().mapping_of_lifetime(id)?,
        })
    };
    Ok(protocol.objects.hierarchy.set_mapping(target_of(on)?, mapping, id)?)
}

/// The filter language's name in CORBA.
const GRAMMAR: &str = "EXTENDED_TCL";

/// The admin or proxy of an operation on filters.
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
            let (by, offered) = (protocol.objects.ledger.principal(), Arc::default());
            let address = PeerAddress { ior: reference, by, name, operation: "match", offered };
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
    /// This service's filter that a reference leads to, if there is one. Clients may use other names of this host; the random number in a
    /// filter's key identifies the service.
    pub(super) fn own(&self, reference: &Ior) -> Option<Target> {
        let target = self.target(&reference.iiop()?.key)?;
        matches!(target, Target::Filter(_) | Target::MappingFilter(_)).then_some(target)
    }

    /// Attaches a filter of another server to an admin or a proxy.
    pub(crate) fn attach_remote_filter(&mut self, target: FilterTarget, address: PeerAddress) -> Result<u32, Raised> {
        self.admit_remote_filter(target)?;
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

    /// Makes a filter so that a proxy gets only events that match a constraint.
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

    /// Destroys the filter of a local proxy that is gone.
    pub(crate) fn destroy_filter_of_local_proxy(&mut self, filter: FilterId) {
        let is_there = self.filters.channel(filter).is_some_and(|channel| self.has_channel(channel));
        if !is_there || self.filters().destroy(filter).is_err() {
            // It goes with its channel.
            self.filters().forget(filter);
        }
    }

    /// Forgets the foreign filters of an admin or proxy that is gone.
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

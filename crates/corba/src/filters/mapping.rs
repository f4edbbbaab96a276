//! `CosNotifyFilter::MappingFilter`, and the attributes `priority_filter` and `lifetime_filter` of other objects.
//!
//! The values of a mapping filter may be of any type as long as it is not used. Used for priorities they have to be
//! integers in the range of `short`, for lifetimes integers that are not negative, in the 100 ns of `TimeBase::TimeT`.
//! One filter can be used for both.

use super::admin::target_of;
use super::expression::{read_ids, read_mapping_infos, read_pairs};
use super::store::Installed;
use crate::exceptions::Raised;
use crate::protocol::Protocol;
use crate::table::{Call, Target};
use crate::wire::read_reference;
use engine::Mapping;
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;
use std::sync::Arc;

pub(super) fn value_type(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of value_type")?;
    protocol.objects.filters.mapping(on.filter()?)?.default.type_code().write(reply);
    Ok(())
}

pub(super) fn default_value(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of default_value")?;
    Ok(protocol.objects.filters.mapping(on.filter()?)?.default.write(reply)?)
}

pub(super) fn add_constraints(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let new = read_pairs(&mut args, protocol.objects.filters().limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of add_mapping_constraints")?;
    write_infos(&protocol.objects.filters().add_constraints(filter, new)?, reply)
}

pub(super) fn modify_constraints(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let max = protocol.objects.filters().limits(filter)?.constraints_per_filter_max;
    let deleted = read_ids(&mut args, max)?;
    let modified = read_mapping_infos(&mut args, max)?;
    args.finish("the arguments of modify_mapping_constraints")?;
    protocol.objects.filters().modify_constraints(filter, &deleted, modified)
}

pub(super) fn get_constraints(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let filter = on.filter()?;
    let ids = read_ids(&mut args, protocol.objects.filters().limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of get_mapping_constraints")?;
    write_infos(&protocol.objects.filters.some_constraints(filter, &ids)?, reply)
}

pub(super) fn get_all_constraints(Call { protocol, on, args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    args.finish("the arguments of get_all_mapping_constraints")?;
    write_infos(&protocol.objects.filters.all_constraints(on.filter()?)?, reply)
}

/// Writes a `MappingConstraintInfoSeq`.
fn write_infos(constraints: &[Arc<Installed>], out: &mut Writer<'_>) -> Result<(), Raised> {
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

/// A filter of this service, or nil for none. Mapping filters of other servers are not asked: the priority and lifetime of
/// an event have to be known before it is put anywhere.
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

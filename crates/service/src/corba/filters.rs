//! `CosNotifyFilter`: filters are not here yet, so no object has any.
//!
//! An object that can have filters says so truthfully: it has none, none can be found, and adding one is `NO_IMPLEMENT`.

use super::door::Door;
use super::exceptions::{Raised, UserException};
use super::table::{Interface, Operation, Target};
use super::wire::{read_id, write_ids};
use giop::cdr::{Reader, Writer};
use giop::ior::Ior;

pub(super) static FILTER_ADMIN: Interface = Interface {
    name: "CosNotifyFilter::FilterAdmin",
    id: "IDL:omg.org/CosNotifyFilter/FilterAdmin:1.0",
    operations: &[
        Operation::not_yet("add_filter"),
        Operation::done("remove_filter", no_such_filter),
        Operation::done("get_filter", no_such_filter),
        Operation::done("get_all_filters", get_all_filters),
        Operation::done("remove_all_filters", remove_all_filters),
    ],
};

pub(super) static FILTER: Interface = Interface {
    name: "CosNotifyFilter::Filter",
    id: "IDL:omg.org/CosNotifyFilter/Filter:1.0",
    operations: &[
        Operation::not_yet("_get_constraint_grammar"),
        Operation::not_yet("add_constraints"),
        Operation::not_yet("modify_constraints"),
        Operation::not_yet("get_constraints"),
        Operation::not_yet("get_all_constraints"),
        Operation::not_yet("remove_all_constraints"),
        Operation::not_yet("destroy"),
        Operation::not_yet("match"),
        Operation::not_yet("match_structured"),
        Operation::not_yet("match_typed"),
        Operation::not_yet("attach_callback"),
        Operation::not_yet("detach_callback"),
        Operation::not_yet("get_callbacks"),
    ],
};

pub(super) static MAPPING_FILTER: Interface = Interface {
    name: "CosNotifyFilter::MappingFilter",
    id: "IDL:omg.org/CosNotifyFilter/MappingFilter:1.0",
    operations: &[
        Operation::not_yet("_get_constraint_grammar"),
        Operation::not_yet("_get_value_type"),
        Operation::not_yet("_get_default_value"),
        Operation::not_yet("add_mapping_constraints"),
        Operation::not_yet("modify_mapping_constraints"),
        Operation::not_yet("get_mapping_constraints"),
        Operation::not_yet("get_all_mapping_constraints"),
        Operation::not_yet("remove_all_mapping_constraints"),
        Operation::not_yet("destroy"),
        Operation::not_yet("match"),
        Operation::not_yet("match_structured"),
        Operation::not_yet("match_typed"),
    ],
};

pub(super) static FILTER_FACTORY: Interface = Interface {
    name: "CosNotifyFilter::FilterFactory",
    id: "IDL:omg.org/CosNotifyFilter/FilterFactory:1.0",
    operations: &[Operation::not_yet("create_filter"), Operation::not_yet("create_mapping_filter")],
};

/// Every interface of the module, in the order of its IDL.
pub(super) const ALL: &[&Interface] = &[&FILTER, &MAPPING_FILTER, &FILTER_FACTORY, &FILTER_ADMIN];

fn no_such_filter(_: &mut Door, _: Target, mut args: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Raised> {
    read_id(&mut args)?;
    args.finish("the arguments of an operation that names a filter")?;
    Err(UserException::FilterNotFound.into())
}

fn get_all_filters(_: &mut Door, _: Target, args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of get_all_filters")?;
    write_ids(core::iter::empty(), reply);
    Ok(())
}

fn remove_all_filters(_: &mut Door, _: Target, args: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of remove_all_filters")?;
    Ok(())
}

/// The attributes `priority_filter` and `lifetime_filter`: nil.
pub(super) fn mapping_filter(_: &mut Door, _: Target, args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of an attribute that is a mapping filter")?;
    Ior::nil().write(reply);
    Ok(())
}

/// Setting `priority_filter` or `lifetime_filter`: nil, which it is already, or nothing.
pub(super) fn set_mapping_filter(
    _: &mut Door,
    _: Target,
    mut args: Reader<'_>,
    _: &mut Writer<'_>,
) -> Result<(), Raised> {
    let filter = Ior::read(&mut args)?;
    args.finish("the value of an attribute that is a mapping filter")?;
    if filter.is_nil() { Ok(()) } else { Err(Raised::no_implement()) }
}

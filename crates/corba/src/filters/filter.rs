//! `CosNotifyFilter::Filter` but for its callbacks, and what our own `Campanile::TimeoutFilter` adds to it.

use super::expression::{read_expressions, read_ids, read_infos};
use super::store::Installed;
use crate::door::Door;
use crate::exceptions::Raised;
use crate::table::Target;
use giop::cdr::{Reader, Writer};
use std::sync::Arc;

/// `constraint_grammar`, of filters of either kind.
pub(super) fn grammar(door: &mut Door, on: Target, args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of constraint_grammar")?;
    reply.string(&door.filters.get(on.filter()?)?.grammar);
    Ok(())
}

pub(super) fn add_constraints(
    door: &mut Door,
    on: Target,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    let filter = on.filter()?;
    let new = read_expressions(&mut args, door.filter_limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of add_constraints")?;
    write_infos(&door.add_constraints(filter, new)?, reply);
    Ok(())
}

pub(super) fn modify_constraints(
    door: &mut Door,
    on: Target,
    mut args: Reader<'_>,
    _: &mut Writer<'_>,
) -> Result<(), Raised> {
    let filter = on.filter()?;
    let max = door.filter_limits(filter)?.constraints_per_filter_max;
    let deleted = read_ids(&mut args, max)?;
    let modified = read_infos(&mut args, max)?;
    args.finish("the arguments of modify_constraints")?;
    door.modify_constraints(filter, &deleted, modified)
}

pub(super) fn get_constraints(
    door: &mut Door,
    on: Target,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    let filter = on.filter()?;
    let ids = read_ids(&mut args, door.filter_limits(filter)?.constraints_per_filter_max)?;
    args.finish("the arguments of get_constraints")?;
    write_infos(&door.some_constraints(filter, &ids)?, reply);
    Ok(())
}

pub(super) fn get_all_constraints(
    door: &mut Door,
    on: Target,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    args.finish("the arguments of get_all_constraints")?;
    write_infos(&door.all_constraints(on.filter()?)?, reply);
    Ok(())
}

/// `remove_all_constraints` and `remove_all_mapping_constraints`.
pub(super) fn remove_all(door: &mut Door, on: Target, args: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of an operation that removes all constraints")?;
    door.remove_all_constraints(on.filter()?)
}

/// `destroy`, of filters of either kind.
pub(super) fn destroy(door: &mut Door, on: Target, args: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Raised> {
    args.finish("the arguments of destroy")?;
    door.destroy_filter(on.filter()?)
}

/// Writes a `ConstraintInfoSeq`.
fn write_infos(constraints: &[Arc<Installed>], out: &mut Writer<'_>) {
    out.length(constraints.len());
    for installed in constraints {
        installed.expression().write(out);
        out.i32(installed.id);
    }
}

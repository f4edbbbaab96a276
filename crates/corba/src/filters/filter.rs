//! `CosNotifyFilter::Filter` but for its callbacks, and what our own `Campanile::TimeoutFilter` adds to it.

use super::expression::{read_expressions, read_ids, read_infos};
use super::store::Installed;
use crate::exceptions::Raised;
use crate::table::Call;
use giop::cdr::Writer;
use std::sync::Arc;

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

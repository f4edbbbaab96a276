//! `CosNotifyFilter::FilterFactory`: one for each channel, its `default_filter_factory`.

use super::callbacks::Callbacks;
use super::expression::MappedValue;
use super::store::{Mapping, Role};
use crate::exceptions::{Raised, UserException};
use crate::protocol::Protocol;
use crate::table::{Call, Target};
use crate::wire::{read_id, read_reference, write_id};
use engine::FilterId;
use giop::ior::Ior;

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
    let mapping = Mapping { default, for_priority: false, for_lifetime: None };
    let id = protocol.objects.filters().create(on.filter_factory()?, grammar, Role::Maps(mapping))?;
    protocol.objects.reference(Target::MappingFilter(id))?.write(reply);
    Ok(())
}

/// A filter that this channel's factory made, whichever kind it is; nothing for any other object.
fn made_here(protocol: &Protocol, on: Target, reference: &Ior) -> Result<Option<FilterId>, Raised> {
    let channel = on.filter_factory()?;
    let filter = match protocol.objects.own(reference) {
        Some(Target::Filter(filter) | Target::MappingFilter(filter)) => Some(filter),
        _ => None,
    };
    Ok(filter.filter(|filter| protocol.objects.filters.channel(*filter) == Some(channel)))
}

/// `CosNotifyFilterExt::FilterFactory::remove_filter`: the filter is destroyed.
pub(super) fn remove_filter(Call { protocol, on, mut args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    let reference = read_reference(&mut args)?;
    args.finish("the arguments of remove_filter")?;
    let filter = made_here(protocol, on, &reference)?.ok_or(UserException::FilterNotFound)?;
    protocol.objects.filters().destroy(filter)
}

/// `CosNotifyFilterExt::FilterFactory::get_filterid`. The IDL has no exception for a filter that was made elsewhere.
pub(super) fn get_filterid(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
    let reference = read_reference(&mut args)?;
    args.finish("the arguments of get_filterid")?;
    write_id(made_here(protocol, on, &reference)?.ok_or_else(Raised::bad_param)?.0, reply);
    Ok(())
}

/// `CosNotifyFilterExt::FilterFactory::get_filter`: nil where there is none of that number, since the IDL has no exception for it, or
/// `INTERNAL`, as TAO has it.
pub(super) fn get_filter(Call { protocol, on, mut args, reply }: Call<'_, '_>) -> Result<(), Raised> {
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

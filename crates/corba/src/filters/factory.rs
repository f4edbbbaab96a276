//! `CosNotifyFilter::FilterFactory`: one for each channel, its `default_filter_factory`.

use super::callbacks::Callbacks;
use super::expression::MappedValue;
use super::store::{Mapping, Role};
use crate::door::Door;
use crate::exceptions::{Raised, UserException};
use crate::table::Target;
use giop::cdr::{Reader, Writer};

pub(super) fn create_filter(
    door: &mut Door,
    on: Target,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    let grammar = args.text()?;
    args.finish("the arguments of create_filter")?;
    check_grammar(&grammar)?;
    let id = door.create_filter(on.filter_factory()?, grammar, Role::Decides(Callbacks::default()))?;
    door.reference(Target::Filter(id))?.write(reply);
    Ok(())
}

pub(super) fn create_mapping_filter(
    door: &mut Door,
    on: Target,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<(), Raised> {
    let grammar = args.text()?;
    let default = MappedValue::read(&mut args, &mut MappedValue::work())?;
    args.finish("the arguments of create_mapping_filter")?;
    check_grammar(&grammar)?;
    let mapping = Mapping { default, for_priority: false, for_lifetime: None };
    let id = door.create_filter(on.filter_factory()?, grammar, Role::Maps(mapping))?;
    door.reference(Target::MappingFilter(id))?.write(reply);
    Ok(())
}

fn check_grammar(name: &str) -> Result<(), Raised> {
    if filter::is_grammar(name) { Ok(()) } else { Err(UserException::InvalidGrammar.into()) }
}

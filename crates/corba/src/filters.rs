//! `CosNotifyFilter`: filters, mapping filters, their factories, and the objects that they are attached to.
//!
//! Filters belong to the channel of the factory that made them, and live until they are destroyed or that channel is. What
//! they decide on the event path is the engine's business: here constraints are read, checked and given ids ([`store`]),
//! and handed to the engine whole at each change.
//!
//! - [`expression`]: constraints and values as they travel.
//! - [`store`]: all filters, and what a change to one does.
//! - [`matching`]: a filter asked about an event by a client, without any channel.
//! - [`servants`] and [`callbacks`] hold the rest of the servants.

mod callbacks;
mod expression;
mod matching;
mod servants;
mod store;
mod topology;

pub(super) use self::expression::{Expression, MappedValue};
pub(super) use self::servants::{lifetime_filter, priority_filter, set_lifetime_filter, set_priority_filter};
pub(super) use self::store::Filters;
use super::table::{Interface, Operation};

pub(super) static FILTER_ADMIN: Interface = Interface {
    name: "CosNotifyFilter::FilterAdmin",
    id: "IDL:omg.org/CosNotifyFilter/FilterAdmin:1.0",
    operations: &[
        Operation::done("add_filter", servants::add_filter),
        Operation::done("remove_filter", servants::remove_filter),
        Operation::done("get_filter", servants::get_filter),
        Operation::done("get_all_filters", servants::get_all_filters),
        Operation::done("remove_all_filters", servants::remove_all_filters),
    ],
};

pub(super) static FILTER: Interface = Interface {
    name: "CosNotifyFilter::Filter",
    id: "IDL:omg.org/CosNotifyFilter/Filter:1.0",
    operations: &[
        Operation::done("_get_constraint_grammar", servants::grammar),
        Operation::done("add_constraints", servants::add_constraints),
        Operation::done("modify_constraints", servants::modify_constraints),
        Operation::done("get_constraints", servants::get_constraints),
        Operation::done("get_all_constraints", servants::get_all_constraints),
        Operation::done("remove_all_constraints", servants::remove_all),
        Operation::done("destroy", servants::destroy),
        Operation::done("match", matching::match_any),
        Operation::done("match_structured", matching::match_structured),
        Operation::done("match_typed", matching::match_typed),
        Operation::done("attach_callback", callbacks::attach),
        Operation::done("detach_callback", callbacks::detach),
        Operation::done("get_callbacks", callbacks::list),
    ],
};

/// A filter with a time limit for its evaluation; an extension of this service.
pub(super) static TIMEOUT_FILTER: Interface = Interface {
    name: "Campanile::TimeoutFilter",
    id: "IDL:Campanile/TimeoutFilter:1.0",
    operations: &[
        Operation::done("match_with_timeout", matching::match_with_timeout),
        Operation::done("match_structured_with_timeout", matching::match_structured_with_timeout),
    ],
};

pub(super) static MAPPING_FILTER: Interface = Interface {
    name: "CosNotifyFilter::MappingFilter",
    id: "IDL:omg.org/CosNotifyFilter/MappingFilter:1.0",
    operations: &[
        Operation::done("_get_constraint_grammar", servants::grammar),
        Operation::done("_get_value_type", servants::value_type),
        Operation::done("_get_default_value", servants::default_value),
        Operation::done("add_mapping_constraints", servants::add_mapping_constraints),
        Operation::done("modify_mapping_constraints", servants::modify_mapping_constraints),
        Operation::done("get_mapping_constraints", servants::get_mapping_constraints),
        Operation::done("get_all_mapping_constraints", servants::get_all_mapping_constraints),
        Operation::done("remove_all_mapping_constraints", servants::remove_all),
        Operation::done("destroy", servants::destroy),
        Operation::done("match", matching::map_any),
        Operation::done("match_structured", matching::map_structured),
        Operation::done("match_typed", matching::map_typed),
    ],
};

pub(super) static FILTER_FACTORY: Interface = Interface {
    name: "CosNotifyFilter::FilterFactory",
    id: "IDL:omg.org/CosNotifyFilter/FilterFactory:1.0",
    operations: &[
        Operation::done("create_filter", servants::create_filter),
        Operation::done("create_mapping_filter", servants::create_mapping_filter),
    ],
};

/// Operations of TAO's factories beside the OMG's.
pub(super) static EXT_FILTER_FACTORY: Interface = Interface {
    name: "CosNotifyFilterExt::FilterFactory",
    id: "IDL:CosNotifyFilterExt/FilterFactory:1.0",
    operations: &[
        Operation::done("remove_filter", servants::remove_made_filter),
        Operation::done("get_filterid", servants::get_filterid),
        Operation::done("get_filter", servants::get_made_filter),
    ],
};

/// Every interface of `CosNotifyFilterExt`.
pub(super) const EXT: &[&Interface] = &[&EXT_FILTER_FACTORY];

/// Every interface of the module, in the order of its IDL.
pub(super) const ALL: &[&Interface] = &[&FILTER, &MAPPING_FILTER, &FILTER_FACTORY, &FILTER_ADMIN];

/// This service's own interfaces of filters.
pub(super) const OWN: &[&Interface] = &[&TIMEOUT_FILTER];

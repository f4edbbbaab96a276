//! `CosNotifyFilter`: the factory of filters, filters, mapping filters, and the objects they are attached to.

use super::{EventType, Property, StructuredEvent};
use crate::typed::{operations, stubs};
use crate::{InvokeError, Marshal, ObjectRef, UserException, idl_struct};
use core::fmt;
use giop::cdr::Writer;
use giop::typecode::TypeCode;
use giop::value::AnyValue;

/// The name of the constraint language that every notification service knows.
pub const EXTENDED_TCL: &str = "EXTENDED_TCL";

idl_struct! {
    /// `CosNotifyFilter::ConstraintExp`: a condition on events of some types.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct ConstraintExp {
        /// The types of the events it is about; none means all.
        pub event_types: Vec<EventType>,
        /// The condition; the empty text is true.
        pub constraint_expr: String,
    }

    /// `CosNotifyFilter::ConstraintInfo`: a constraint of a filter with the id it has there.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct ConstraintInfo {
        /// The constraint.
        pub constraint_expression: ConstraintExp,
        /// The constraint's id in the filter, never reused there.
        pub constraint_id: i32,
    }

    /// `CosNotifyFilter::MappingConstraintPair`: a condition and the value that events which meet it get.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MappingConstraintPair {
        /// The condition.
        pub constraint_expression: ConstraintExp,
        /// The value: a `short` where priorities are mapped, a `TimeBase::TimeT` where lifetimes are.
        pub result_to_set: AnyValue,
    }

    /// `CosNotifyFilter::MappingConstraintInfo`: a constraint of a mapping filter with its id and value.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MappingConstraintInfo {
        /// The condition.
        pub constraint_expression: ConstraintExp,
        /// The constraint's id in the filter, never reused there.
        pub constraint_id: i32,
        /// The value.
        pub value: AnyValue,
    }
}

impl ConstraintExp {
    /// A condition on events of all types.
    #[must_use]
    pub fn new(constraint_expr: &str) -> Self {
        Self { event_types: Vec::new(), constraint_expr: constraint_expr.to_owned() }
    }

    /// The same condition on events of those types only.
    #[must_use]
    pub fn for_types(mut self, types: &[EventType]) -> Self {
        self.event_types.extend_from_slice(types);
        self
    }

    /// Writes it into a message.
    pub fn write(&self, writer: &mut Writer<'_>) {
        // There are only texts in it.
        let _ = self.marshal(writer);
    }
}

/// An exception of an operation of `CosNotifyFilter`, with its members.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterRefusal {
    /// The factory does not know the constraint language.
    InvalidGrammar,
    /// The constraint is invalid, or exceeds a limit; nothing was changed.
    InvalidConstraint(ConstraintExp),
    /// The value is not of the type that the mapping filter maps to; nothing was changed.
    InvalidValue(ConstraintExp, AnyValue),
    /// The filter has no constraint of this id; nothing was changed.
    ConstraintNotFound(i32),
    /// An id was given twice.
    DuplicateConstraintId(i32),
    /// No filter of that id is attached to this admin or proxy.
    FilterNotFound,
    /// The filter has no callback of that id.
    CallbackNotFound,
    /// The event cannot be examined.
    UnsupportedFilterableData,
}

impl fmt::Display for FilterRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidGrammar => f.write_str("the constraint grammar is not known"),
            Self::InvalidConstraint(constraint) => {
                write!(f, "`{}` is not a constraint that is accepted here", constraint.constraint_expr)
            }
            Self::InvalidValue(constraint, value) => {
                write!(f, "the value {value} of `{}` is not one that is accepted here", constraint.constraint_expr)
            }
            Self::ConstraintNotFound(id) => write!(f, "the filter has no constraint {id}"),
            Self::DuplicateConstraintId(id) => write!(f, "the constraint id {id} was given twice"),
            Self::FilterNotFound => f.write_str("there is no filter with that id here"),
            Self::CallbackNotFound => f.write_str("the filter has no callback with that id"),
            Self::UnsupportedFilterableData => f.write_str("the event cannot be looked into"),
        }
    }
}

/// The exception of an operation of `CosNotifyFilter`; `None` for other errors, and for members that cannot be read.
#[must_use]
pub fn filter_refusal(error: &InvokeError) -> Option<FilterRefusal> {
    match error {
        InvokeError::User(exception) => read_refusal(exception),
        _ => None,
    }
}

fn read_refusal(exception: &UserException) -> Option<FilterRefusal> {
    let name = exception.id.strip_prefix("IDL:omg.org/CosNotifyFilter/")?.strip_suffix(":1.0")?;
    Some(match name {
        "InvalidGrammar" => FilterRefusal::InvalidGrammar,
        "InvalidConstraint" => FilterRefusal::InvalidConstraint(exception.read_members()?),
        "InvalidValue" => {
            let (constraint, value) = exception.read_members()?;
            FilterRefusal::InvalidValue(constraint, value)
        }
        "ConstraintNotFound" => FilterRefusal::ConstraintNotFound(exception.read_members()?),
        "DuplicateConstraintID" => FilterRefusal::DuplicateConstraintId(exception.read_members()?),
        "FilterNotFound" => FilterRefusal::FilterNotFound,
        "CallbackNotFound" => FilterRefusal::CallbackNotFound,
        "UnsupportedFilterableData" => FilterRefusal::UnsupportedFilterableData,
        _ => return None,
    })
}

/// The constraint or value refused, as a sentence.
pub(crate) fn constraint_error_text(exception: &UserException) -> Option<String> {
    read_refusal(exception).map(|refusal| refusal.to_string())
}

stubs! {
    /// `CosNotifyFilter::FilterFactory`: makes filters.
    FilterFactory = "IDL:omg.org/CosNotifyFilter/FilterFactory:1.0";
    /// `CosNotifyFilter::Filter`: lets events pass that meet one of its constraints.
    Filter = "IDL:omg.org/CosNotifyFilter/Filter:1.0";
    /// `CosNotifyFilter::MappingFilter`: gives events another priority or lifetime.
    MappingFilter = "IDL:omg.org/CosNotifyFilter/MappingFilter:1.0";
}

operations! { FilterFactory: {
    /// Makes a filter without constraints.
    fn create_filter(grammar: &str) -> [object Filter] raises "`CosNotifyFilter/InvalidGrammar`.";
    /// Makes a mapping filter without constraints. All its values have the type of the default value.
    fn create_mapping_filter(grammar: &str, default_value: &AnyValue) -> [object MappingFilter]
        raises "`CosNotifyFilter/InvalidGrammar`.";
} }

operations! { Filter, MappingFilter: {
    /// The constraint language of the filter.
    fn constraint_grammar = "_get_constraint_grammar"() -> [String];
    /// Destroys the filter, also where it is attached.
    fn destroy();
} }

operations! { Filter: {
    /// Adds constraints, all or none, and gives them with their ids.
    fn add_constraints(constraints: &[ConstraintExp]) -> [Vec<ConstraintInfo>]
        raises "`CosNotifyFilter/InvalidConstraint` ([`filter_refusal`] tells which).";
    /// Removes constraints and changes others, all or nothing.
    fn modify_constraints(remove: &[i32], change: &[ConstraintInfo])
        raises "`CosNotifyFilter/InvalidConstraint`, `CosNotifyFilter/ConstraintNotFound`.";
    /// The constraints of those ids.
    fn get_constraints(ids: &[i32]) -> [Vec<ConstraintInfo>] raises "`CosNotifyFilter/ConstraintNotFound`.";
    /// All constraints.
    fn get_all_constraints() -> [Vec<ConstraintInfo>];
    /// Removes all constraints: no event passes any more.
    fn remove_all_constraints();
    /// Whether an event in an Any would pass.
    fn r#match = "match"(event: &AnyValue) -> [bool] raises "`CosNotifyFilter/UnsupportedFilterableData`.";
    /// Whether a structured event would pass.
    fn match_structured(event: &StructuredEvent) -> [bool] raises "`CosNotifyFilter/UnsupportedFilterableData`.";
    /// Whether a typed event, given as properties, would pass.
    fn match_typed(event: &[Property]) -> [bool] raises "`CosNotifyFilter/UnsupportedFilterableData`.";
    /// Notifies an object, by `subscription_change`, of the event types in the filter's constraints; returns the callback's id.
    fn attach_callback(callback: &ObjectRef) -> [i32];
    /// Detaches a callback.
    fn detach_callback(id: i32) raises "`CosNotifyFilter/CallbackNotFound`.";
    /// The ids of all callbacks.
    fn get_callbacks() -> [Vec<i32>];
} }

operations! { MappingFilter: {
    /// The type of its values.
    fn value_type = "_get_value_type"() -> [TypeCode];
    /// The value of events that meet no constraint.
    fn default_value = "_get_default_value"() -> [AnyValue];
    /// Adds constraints with their values, all or none, and gives them with their ids.
    fn add_mapping_constraints(pairs: &[MappingConstraintPair]) -> [Vec<MappingConstraintInfo>]
        raises "`CosNotifyFilter/InvalidConstraint`, `CosNotifyFilter/InvalidValue`.";
    /// Removes constraints and changes others, all or nothing.
    fn modify_mapping_constraints(remove: &[i32], change: &[MappingConstraintInfo])
        raises "`CosNotifyFilter/InvalidConstraint`, `CosNotifyFilter/InvalidValue`, `CosNotifyFilter/ConstraintNotFound`.";
    /// The constraints of those ids.
    fn get_mapping_constraints(ids: &[i32]) -> [Vec<MappingConstraintInfo>] raises "`CosNotifyFilter/ConstraintNotFound`.";
    /// All constraints.
    fn get_all_mapping_constraints() -> [Vec<MappingConstraintInfo>];
    /// Removes all constraints: every event gets the default value.
    fn remove_all_mapping_constraints();
    /// Whether an event in an Any meets a constraint, and the value it gets: that constraint's, or the default.
    fn r#match = "match"(event: &AnyValue) -> [(bool, AnyValue)] raises "`CosNotifyFilter/UnsupportedFilterableData`.";
    /// Whether a structured event meets a constraint, and the value it gets: that constraint's, or the default.
    fn match_structured(event: &StructuredEvent) -> [(bool, AnyValue)] raises "`CosNotifyFilter/UnsupportedFilterableData`.";
    /// Whether a typed event, given as properties, meets a constraint, and the value it gets.
    fn match_typed(event: &[Property]) -> [(bool, AnyValue)] raises "`CosNotifyFilter/UnsupportedFilterableData`.";
} }

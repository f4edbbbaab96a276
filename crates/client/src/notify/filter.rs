//! `CosNotifyFilter`: the factory of filters, filters, mapping filters, and what they are attached to.

use super::{
    EventType, Property, StructuredEvent, read_event_type, read_sequence, stub, work, write_event_types,
    write_properties,
};
use crate::{InvokeError, ObjectRef, UserException};
use core::fmt;
use giop::cdr::{ReadError, Reader, Writer};
use giop::typecode::TypeCode;
use giop::value::{AnyValue, WriteError};

/// The name of the constraint language that every notification service knows.
pub const EXTENDED_TCL: &str = "EXTENDED_TCL";

/// Octets of the shortest constraint: an empty sequence, an empty string.
const CONSTRAINT_BYTES_MIN: usize = 8;

/// `CosNotifyFilter::ConstraintExp`: a condition on events of some types.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConstraintExp {
    /// The types of the events it is about; none means all.
    pub event_types: Vec<EventType>,
    /// The condition; the empty text is true.
    pub constraint_expr: String,
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

    /// Reads one from a message.
    ///
    /// # Errors
    /// If the bytes are not one.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        Ok(Self { event_types: read_sequence(reader, 8, read_event_type)?, constraint_expr: reader.text()? })
    }

    /// Writes it into a message.
    pub fn write(&self, writer: &mut Writer<'_>) {
        write_event_types(&self.event_types, writer);
        writer.string(&self.constraint_expr);
    }
}

/// `CosNotifyFilter::ConstraintInfo`: a constraint of a filter with the id it has there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConstraintInfo {
    /// The constraint.
    pub constraint_expression: ConstraintExp,
    /// Its id in the filter, never given to another one there.
    pub constraint_id: i32,
}

impl ConstraintInfo {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        Ok(Self { constraint_expression: ConstraintExp::read(reader)?, constraint_id: reader.i32()? })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.constraint_expression.write(writer);
        writer.i32(self.constraint_id);
    }
}

/// `CosNotifyFilter::MappingConstraintPair`: a condition and the value that events which meet it get.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingConstraintPair {
    /// The condition.
    pub constraint_expression: ConstraintExp,
    /// The value: a `short` where priorities are mapped, a `TimeBase::TimeT` where lifetimes are.
    pub result_to_set: AnyValue,
}

impl MappingConstraintPair {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.constraint_expression.write(writer);
        self.result_to_set.write(writer)
    }
}

/// `CosNotifyFilter::MappingConstraintInfo`: a constraint of a mapping filter with its id and value.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingConstraintInfo {
    /// The condition.
    pub constraint_expression: ConstraintExp,
    /// Its id in the filter, never given to another one there.
    pub constraint_id: i32,
    /// The value.
    pub value: AnyValue,
}

impl MappingConstraintInfo {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        Ok(Self {
            constraint_expression: ConstraintExp::read(reader)?,
            constraint_id: reader.i32()?,
            value: AnyValue::read(reader, &mut work())?,
        })
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.constraint_expression.write(writer);
        writer.i32(self.constraint_id);
        self.value.write(writer)
    }
}

/// What an operation of `CosNotifyFilter` raised, with its members.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterRefusal {
    /// The factory does not know the constraint language.
    InvalidGrammar,
    /// The constraint is not one of the language, or breaks a limit; nothing was changed.
    InvalidConstraint(ConstraintExp),
    /// The value is not of the type that the mapping filter maps to; nothing was changed.
    InvalidValue(ConstraintExp, AnyValue),
    /// The filter has no constraint of this id; nothing was changed.
    ConstraintNotFound(i32),
    /// An id was given twice.
    DuplicateConstraintId(i32),
    /// There is no filter of that id at this admin or proxy.
    FilterNotFound,
    /// The filter has no callback of that id.
    CallbackNotFound,
    /// The event cannot be looked into.
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

/// What an operation of `CosNotifyFilter` raised; `None` for other errors, and for members that cannot be read.
#[must_use]
pub fn filter_refusal(error: &InvokeError) -> Option<FilterRefusal> {
    match error {
        InvokeError::User(exception) => read_refusal(exception),
        _ => None,
    }
}

fn read_refusal(exception: &UserException) -> Option<FilterRefusal> {
    let name = exception.id.strip_prefix("IDL:omg.org/CosNotifyFilter/")?.strip_suffix(":1.0")?;
    let mut members = exception.members().ok()?;
    Some(match name {
        "InvalidGrammar" => FilterRefusal::InvalidGrammar,
        "InvalidConstraint" => FilterRefusal::InvalidConstraint(ConstraintExp::read(&mut members).ok()?),
        "InvalidValue" => {
            let constraint = ConstraintExp::read(&mut members).ok()?;
            FilterRefusal::InvalidValue(constraint, AnyValue::read(&mut members, &mut work()).ok()?)
        }
        "ConstraintNotFound" => FilterRefusal::ConstraintNotFound(members.i32().ok()?),
        "DuplicateConstraintID" => FilterRefusal::DuplicateConstraintId(members.i32().ok()?),
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

stub! {
    /// `CosNotifyFilter::FilterFactory`: makes filters.
    FilterFactory, "IDL:omg.org/CosNotifyFilter/FilterFactory:1.0"
}

stub! {
    /// `CosNotifyFilter::Filter`: lets events pass that meet one of its constraints.
    Filter, "IDL:omg.org/CosNotifyFilter/Filter:1.0"
}

stub! {
    /// `CosNotifyFilter::MappingFilter`: gives events another priority or lifetime.
    MappingFilter, "IDL:omg.org/CosNotifyFilter/MappingFilter:1.0"
}

impl FilterFactory {
    /// Makes a filter without constraints.
    ///
    /// # Errors
    /// `CosNotifyFilter/InvalidGrammar`.
    pub fn create_filter(&self, grammar: &str) -> Result<Filter, InvokeError> {
        self.object().call_object("create_filter", |w| w.string(grammar)).map(Filter::unchecked)
    }

    /// Makes a mapping filter without constraints. The type of the default value is that of all its values.
    ///
    /// # Errors
    /// `CosNotifyFilter/InvalidGrammar`.
    pub fn create_mapping_filter(&self, grammar: &str, default_value: &AnyValue) -> Result<MappingFilter, InvokeError> {
        let write = |w: &mut Writer<'_>| {
            w.string(grammar);
            default_value.write(w)
        };
        self.object().call_object("create_mapping_filter", write).map(MappingFilter::unchecked)
    }
}

impl Filter {
    /// The constraint language it was made for.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn constraint_grammar(&self) -> Result<String, InvokeError> {
        self.object().call_text("_get_constraint_grammar")
    }

    /// Adds constraints, all or none, and gives them with their ids.
    ///
    /// # Errors
    /// `CosNotifyFilter/InvalidConstraint` ([`filter_refusal`] tells which).
    pub fn add_constraints(&self, constraints: &[ConstraintExp]) -> Result<Vec<ConstraintInfo>, InvokeError> {
        self.infos("add_constraints", |w| {
            w.length(constraints.len());
            constraints.iter().for_each(|constraint| constraint.write(w));
        })
    }

    /// Takes constraints away and changes others, all or nothing.
    ///
    /// # Errors
    /// `CosNotifyFilter/InvalidConstraint`, `CosNotifyFilter/ConstraintNotFound`.
    pub fn modify_constraints(&self, remove: &[i32], change: &[ConstraintInfo]) -> Result<(), InvokeError> {
        self.object().call_void("modify_constraints", |w| {
            write_ids(remove, w);
            w.length(change.len());
            change.iter().for_each(|info| info.write(w));
        })
    }

    /// The constraints of those ids.
    ///
    /// # Errors
    /// `CosNotifyFilter/ConstraintNotFound`.
    pub fn get_constraints(&self, ids: &[i32]) -> Result<Vec<ConstraintInfo>, InvokeError> {
        self.infos("get_constraints", |w| write_ids(ids, w))
    }

    /// All constraints.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn get_all_constraints(&self) -> Result<Vec<ConstraintInfo>, InvokeError> {
        self.infos("get_all_constraints", |_| ())
    }

    /// Takes all constraints away: no event passes any more.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn remove_all_constraints(&self) -> Result<(), InvokeError> {
        self.object().call_void("remove_all_constraints", |_| ())
    }

    /// Ends the filter, also where it is attached.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn destroy(&self) -> Result<(), InvokeError> {
        self.object().call_void("destroy", |_| ())
    }

    /// Whether an event in an Any would pass.
    ///
    /// # Errors
    /// `CosNotifyFilter/UnsupportedFilterableData`.
    pub fn r#match(&self, event: &AnyValue) -> Result<bool, InvokeError> {
        self.object().invoke("match", |w| event.write(w))?.read("match", Reader::bool)
    }

    /// Whether a structured event would pass.
    ///
    /// # Errors
    /// `CosNotifyFilter/UnsupportedFilterableData`.
    pub fn match_structured(&self, event: &StructuredEvent) -> Result<bool, InvokeError> {
        self.object().invoke("match_structured", |w| event.write(w))?.read("match_structured", Reader::bool)
    }

    /// Whether a typed event, given as properties, would pass.
    ///
    /// # Errors
    /// `CosNotifyFilter/UnsupportedFilterableData`.
    pub fn match_typed(&self, event: &[Property]) -> Result<bool, InvokeError> {
        self.object().invoke("match_typed", |w| write_properties(event, w))?.read("match_typed", Reader::bool)
    }

    /// Notifies an object, by `subscription_change`, of the event types its constraints are about; gives the
    /// callback's id.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn attach_callback(&self, callback: &ObjectRef) -> Result<i32, InvokeError> {
        let operation = "attach_callback";
        self.object().invoke(operation, |w| callback.ior().write(w))?.read(operation, Reader::i32)
    }

    /// Ends that.
    ///
    /// # Errors
    /// `CosNotifyFilter/CallbackNotFound`.
    pub fn detach_callback(&self, id: i32) -> Result<(), InvokeError> {
        self.object().call_void("detach_callback", |w| w.i32(id))
    }

    /// The ids of all callbacks.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn get_callbacks(&self) -> Result<Vec<i32>, InvokeError> {
        self.object().call_ids("get_callbacks")
    }

    fn infos(&self, operation: &str, write: impl Fn(&mut Writer<'_>)) -> Result<Vec<ConstraintInfo>, InvokeError> {
        self.object()
            .invoke(operation, write)?
            .read(operation, |r| read_sequence(r, CONSTRAINT_BYTES_MIN + 4, ConstraintInfo::read))
    }
}

impl MappingFilter {
    /// The constraint language it was made for.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn constraint_grammar(&self) -> Result<String, InvokeError> {
        self.object().call_text("_get_constraint_grammar")
    }

    /// The type of its values.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn value_type(&self) -> Result<TypeCode, InvokeError> {
        let operation = "_get_value_type";
        self.object().invoke(operation, |_| ())?.read(operation, |r| TypeCode::read(r, &mut work()))
    }

    /// The value of events that meet no constraint.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn default_value(&self) -> Result<AnyValue, InvokeError> {
        let operation = "_get_default_value";
        self.object().invoke(operation, |_| ())?.read(operation, |r| AnyValue::read(r, &mut work()))
    }

    /// Adds constraints with their values, all or none, and gives them with their ids.
    ///
    /// # Errors
    /// `CosNotifyFilter/InvalidConstraint`, `CosNotifyFilter/InvalidValue`.
    pub fn add_mapping_constraints(
        &self,
        pairs: &[MappingConstraintPair],
    ) -> Result<Vec<MappingConstraintInfo>, InvokeError> {
        self.infos("add_mapping_constraints", |w| {
            w.length(pairs.len());
            pairs.iter().try_for_each(|pair| pair.write(w))
        })
    }

    /// Takes constraints away and changes others, all or nothing.
    ///
    /// # Errors
    /// `CosNotifyFilter/InvalidConstraint`, `CosNotifyFilter/InvalidValue`, `CosNotifyFilter/ConstraintNotFound`.
    pub fn modify_mapping_constraints(
        &self,
        remove: &[i32],
        change: &[MappingConstraintInfo],
    ) -> Result<(), InvokeError> {
        self.object().call_void("modify_mapping_constraints", |w| {
            write_ids(remove, w);
            w.length(change.len());
            change.iter().try_for_each(|info| info.write(w))
        })
    }

    /// The constraints of those ids.
    ///
    /// # Errors
    /// `CosNotifyFilter/ConstraintNotFound`.
    pub fn get_mapping_constraints(&self, ids: &[i32]) -> Result<Vec<MappingConstraintInfo>, InvokeError> {
        self.infos("get_mapping_constraints", |w| write_ids(ids, w))
    }

    /// All constraints.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn get_all_mapping_constraints(&self) -> Result<Vec<MappingConstraintInfo>, InvokeError> {
        self.infos("get_all_mapping_constraints", |_| ())
    }

    /// Takes all constraints away: every event gets the default value.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn remove_all_mapping_constraints(&self) -> Result<(), InvokeError> {
        self.object().call_void("remove_all_mapping_constraints", |_| ())
    }

    /// Ends the filter, also where it is attached.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn destroy(&self) -> Result<(), InvokeError> {
        self.object().call_void("destroy", |_| ())
    }

    /// Whether an event in an Any meets a constraint, and the value it gets: that constraint's, or the default.
    ///
    /// # Errors
    /// `CosNotifyFilter/UnsupportedFilterableData`.
    pub fn r#match(&self, event: &AnyValue) -> Result<(bool, AnyValue), InvokeError> {
        self.object().invoke("match", |w| event.write(w))?.read("match", read_mapped)
    }

    /// Whether a structured event meets a constraint, and the value it gets: that constraint's, or the default.
    ///
    /// # Errors
    /// `CosNotifyFilter/UnsupportedFilterableData`.
    pub fn match_structured(&self, event: &StructuredEvent) -> Result<(bool, AnyValue), InvokeError> {
        self.object().invoke("match_structured", |w| event.write(w))?.read("match_structured", read_mapped)
    }

    /// Whether a typed event, given as properties, meets a constraint, and the value it gets.
    ///
    /// # Errors
    /// `CosNotifyFilter/UnsupportedFilterableData`.
    pub fn match_typed(&self, event: &[Property]) -> Result<(bool, AnyValue), InvokeError> {
        self.object().invoke("match_typed", |w| write_properties(event, w))?.read("match_typed", read_mapped)
    }

    fn infos<A: crate::Arguments>(
        &self,
        operation: &str,
        write: impl Fn(&mut Writer<'_>) -> A,
    ) -> Result<Vec<MappingConstraintInfo>, InvokeError> {
        self.object()
            .invoke(operation, write)?
            .read(operation, |r| read_sequence(r, CONSTRAINT_BYTES_MIN + 8, MappingConstraintInfo::read))
    }
}

fn read_mapped(reader: &mut Reader<'_>) -> Result<(bool, AnyValue), ReadError> {
    Ok((reader.bool()?, AnyValue::read(reader, &mut work())?))
}

fn write_ids(ids: &[i32], writer: &mut Writer<'_>) {
    writer.length(ids.len());
    ids.iter().for_each(|id| writer.i32(*id));
}

/// Adds the operations of `CosNotifyFilter::FilterAdmin` to a stub.
macro_rules! filter_admin {
    ($name:ident) => {
        impl $name {
            /// Attaches a filter, one of the service's or one of the program's own, and gives its id here.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn add_filter(&self, filter: &$crate::notify::Filter) -> Result<i32, $crate::InvokeError> {
                self.object()
                    .invoke("add_filter", |w| filter.object().ior().write(w))?
                    .read("add_filter", giop::cdr::Reader::i32)
            }

            /// Takes a filter off; the filter itself lives on.
            ///
            /// # Errors
            /// `CosNotifyFilter/FilterNotFound`.
            pub fn remove_filter(&self, id: i32) -> Result<(), $crate::InvokeError> {
                self.object().call_void("remove_filter", |w| w.i32(id))
            }

            /// The filter of that id.
            ///
            /// # Errors
            /// `CosNotifyFilter/FilterNotFound`.
            pub fn get_filter(&self, id: i32) -> Result<$crate::notify::Filter, $crate::InvokeError> {
                self.object().call_object("get_filter", |w| w.i32(id)).map($crate::notify::Filter::unchecked)
            }

            /// The ids of all filters attached here.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn get_all_filters(&self) -> Result<Vec<i32>, $crate::InvokeError> {
                self.object().call_ids("get_all_filters")
            }

            /// Takes all filters off; they live on.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn remove_all_filters(&self) -> Result<(), $crate::InvokeError> {
                self.object().call_void("remove_all_filters", |_| ())
            }
        }
    };
}
pub(crate) use filter_admin;

/// Adds the attributes `priority_filter` and `lifetime_filter` to a stub.
macro_rules! mapping_filters {
    ($name:ident) => {
        impl $name {
            /// The mapping filter that gives events their priority for these consumers, if there is one.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn priority_filter(&self) -> Result<Option<$crate::notify::MappingFilter>, $crate::InvokeError> {
                let filter = self.object().call_optional_object("_get_priority_filter", |_| ())?;
                Ok(filter.map($crate::notify::MappingFilter::unchecked))
            }

            /// Sets it, or takes it away.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn set_priority_filter(
                &self,
                filter: Option<&$crate::notify::MappingFilter>,
            ) -> Result<(), $crate::InvokeError> {
                let filter = filter.map($crate::notify::MappingFilter::object);
                $crate::notify::connect(self.object(), "_set_priority_filter", filter)
            }

            /// The mapping filter that gives events their lifetime for these consumers, if there is one.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn lifetime_filter(&self) -> Result<Option<$crate::notify::MappingFilter>, $crate::InvokeError> {
                let filter = self.object().call_optional_object("_get_lifetime_filter", |_| ())?;
                Ok(filter.map($crate::notify::MappingFilter::unchecked))
            }

            /// Sets it, or takes it away.
            ///
            /// # Errors
            /// See [`InvokeError`]($crate::InvokeError).
            pub fn set_lifetime_filter(
                &self,
                filter: Option<&$crate::notify::MappingFilter>,
            ) -> Result<(), $crate::InvokeError> {
                let filter = filter.map($crate::notify::MappingFilter::object);
                $crate::notify::connect(self.object(), "_set_lifetime_filter", filter)
            }
        }
    };
}
pub(crate) use mapping_filters;

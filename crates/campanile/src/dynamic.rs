//! Events of undeclared types, as dictionaries.

use crate::declared::NATIVE;
use crate::form::work;
use crate::raw::RawEvent;
use client::EventNumber;
use giop::cdr::{ReadError, Reader};
use giop::typecode::TypeCode;
use giop::value::Value;
use std::sync::Arc;

/// An event with its received type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Dynamic {
    /// The domain of its type; empty for an event that arrived as an Any.
    pub domain: String,
    /// The name of its type; for an event that arrived as an Any, its struct's.
    pub name: String,
    /// The event's number and time of arrival at the service: see [`RawEvent::number`].
    pub number: Option<EventNumber>,
    /// The type of the value. For events with data in properties, a struct of these, without a repository id.
    pub type_code: Arc<TypeCode>,
    /// The value, usually a [`Value::Struct`].
    pub value: Value,
}

impl Dynamic {
    /// Decodes an event.
    ///
    /// # Errors
    /// The value is nested too deeply, or has too many parts.
    pub fn read(event: &RawEvent<'_>) -> Result<Self, ReadError> {
        let value = Value::read(event.type_code, &mut Reader::new(event.cdr, NATIVE), &mut work())?;
        let (domain, name) = (event.domain.to_owned(), event.name.to_owned());
        Ok(Self { domain, name, number: event.number, type_code: event.type_code.clone(), value })
    }

    /// A member by its path, such as `place.x`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&self.value, |value, name| match value {
            Value::Struct { fields, .. } | Value::Exception { fields, .. } => {
                fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
            }
            _ => None,
        })
    }
}

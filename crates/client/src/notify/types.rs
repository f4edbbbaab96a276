//! The data of `CosNotification` and `CosNotifyChannelAdmin`.

use crate::typed::{idl_enum, work};
use crate::{InvokeError, Marshal, Unmarshal, UserException, idl_struct};
use core::fmt;
use giop::cdr::{ReadError, Reader, Writer};
use giop::recode;
use giop::typecode::Work;
use giop::value::{AnyValue, Value, WriteError};

idl_enum! {
    /// `CosNotifyChannelAdmin::ClientType`: the form of events a client sends or takes.
    ClientType {
        /// Anys, as in the Event Service.
        Any = "ANY_EVENT",
        /// Structured events.
        Structured = "STRUCTURED_EVENT",
        /// Sequences of structured events.
        Sequence = "SEQUENCE_EVENT",
    }

    /// `CosNotifyChannelAdmin::InterFilterGroupOperator`: how an admin's filters and its proxies' combine.
    FilterGroupOperator {
        /// Both must let an event pass.
        And = "AND_OP",
        /// One of them is enough.
        Or = "OR_OP",
    }

    /// `CosNotifyChannelAdmin::ProxyType`.
    ProxyType {
        /// Anys, pushed.
        PushAny = "PUSH_ANY",
        /// Anys, pulled.
        PullAny = "PULL_ANY",
        /// Structured events, pushed.
        PushStructured = "PUSH_STRUCTURED",
        /// Structured events, pulled.
        PullStructured = "PULL_STRUCTURED",
        /// Sequences, pushed.
        PushSequence = "PUSH_SEQUENCE",
        /// Sequences, pulled.
        PullSequence = "PULL_SEQUENCE",
        /// Typed, pushed.
        PushTyped = "PUSH_TYPED",
        /// Typed, pulled.
        PullTyped = "PULL_TYPED",
    }

    /// `CosNotifyChannelAdmin::ObtainInfoMode`: the result of `obtain_*_types`, and whether changes are sent afterwards.
    ObtainInfoMode {
        /// All types of now; no updates.
        AllNowUpdatesOff = "ALL_NOW_UPDATES_OFF",
        /// All types of now; updates from now on.
        AllNowUpdatesOn = "ALL_NOW_UPDATES_ON",
        /// No types; no updates.
        NoneNowUpdatesOff = "NONE_NOW_UPDATES_OFF",
        /// No types; updates from now on.
        NoneNowUpdatesOn = "NONE_NOW_UPDATES_ON",
    }

    /// `CosNotification::QoSError_code`: why a property was refused.
    QosErrorCode {
        /// The property is not known, or not at this level.
        UnsupportedProperty = "UNSUPPORTED_PROPERTY",
        /// The property cannot be set here in combination with others.
        UnavailableProperty = "UNAVAILABLE_PROPERTY",
        /// The value is never possible.
        UnsupportedValue = "UNSUPPORTED_VALUE",
        /// The value is not possible now.
        UnavailableValue = "UNAVAILABLE_VALUE",
        /// The name is not known.
        BadProperty = "BAD_PROPERTY",
        /// The value is of the wrong type.
        BadType = "BAD_TYPE",
        /// The value makes no sense.
        BadValue = "BAD_VALUE",
    }
}

idl_struct! {
    /// `CosNotification::EventType`: domain and name of an event's type. `*` or an empty text stand for all in subscriptions.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct EventType {
        /// The field or vertical, such as `Telecom`.
        pub domain: String,
        /// The type's name within it.
        pub name: String,
    }

    /// `CosNotification::Property`: a name and a value, in QoS, event headers and filterable data.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Property {
        /// The name, unique among the properties.
        pub name: String,
        /// The value with its type.
        pub value: AnyValue,
    }

    /// `CosNotification::NamedPropertyRange`: the values a property may have.
    #[derive(Clone, Debug, PartialEq)]
    pub struct NamedPropertyRange {
        /// The property.
        pub name: String,
        /// The lowest value accepted.
        pub low: AnyValue,
        /// The highest value accepted.
        pub high: AnyValue,
    }

    /// `CosNotification::PropertyError`: a refused property, the reason, and the accepted range.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PropertyError {
        /// The reason.
        pub code: QosErrorCode,
        /// The property.
        pub name: String,
        /// The lowest value accepted; Null if there is no range.
        pub low: AnyValue,
        /// The highest value accepted; Null if there is no range.
        pub high: AnyValue,
    }
}

impl EventType {
    /// A type of that domain and name.
    #[must_use]
    pub fn new(domain: &str, name: &str) -> Self {
        Self { domain: domain.to_owned(), name: name.to_owned() }
    }

    /// The type that stands for all types.
    #[must_use]
    pub fn any() -> Self {
        Self::new("*", "*")
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.name)
    }
}

impl Property {
    /// A property of the CORBA type that follows from the Rust type: `i32` is `long`, `u64` `unsigned long long`,
    /// `&str` `string`, and so on; an [`AnyValue`] has its own.
    #[must_use]
    pub fn new(name: &str, value: impl Into<AnyValue>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }
}

/// The limit of a `CosNotifyChannelAdmin::AdminLimitExceeded`, as the property that sets it; `None` for other errors.
#[must_use]
pub fn admin_limit(error: &InvokeError) -> Option<Property> {
    crate::error::user(error, "CosNotifyChannelAdmin/AdminLimitExceeded")?.read_members()
}

/// The type refused by a `CosNotifyComm::InvalidEventType`; `None` for other errors.
#[must_use]
pub fn invalid_event_type(error: &InvokeError) -> Option<EventType> {
    crate::error::user(error, "CosNotifyComm/InvalidEventType")?.read_members()
}

impl fmt::Display for PropertyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.code)?;
        if !matches!(
            (&self.low.value, &self.high.value),
            (Value::Null | Value::Void, _) | (_, Value::Null | Value::Void)
        ) {
            write!(f, ", accepted: {} to {}", self.low, self.high)?;
        }
        Ok(())
    }
}

/// The properties refused by an `UnsupportedQoS` or `UnsupportedAdmin`; `None` for other errors.
#[must_use]
pub fn property_errors(error: &InvokeError) -> Option<Vec<PropertyError>> {
    match error {
        InvokeError::User(exception) => read_property_errors(exception),
        _ => None,
    }
}

fn read_property_errors(exception: &UserException) -> Option<Vec<PropertyError>> {
    let is_meant = matches!(crate::error::plain_name(&exception.id), "UnsupportedQoS" | "UnsupportedAdmin");
    if is_meant { exception.read_members() } else { None }
}

/// The properties refused, as one line.
pub(crate) fn property_errors_text(exception: &UserException) -> Option<String> {
    let errors = read_property_errors(exception)?;
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Some(errors.join("; "))
}

/// `CosNotification::StructuredEvent`.
///
/// ```
/// use campanile_client::notify::{Property, StructuredEvent};
///
/// let mut event = StructuredEvent::new("Telescope", "Temperature", "dome-3");
/// event.filterable_data.push(Property::new("celsius", 11.5_f64));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StructuredEvent {
    /// `header.fixed_header.event_type.domain_name`.
    pub domain: String,
    /// `header.fixed_header.event_type.type_name`.
    pub type_name: String,
    /// `header.fixed_header.event_name`: the event's own name, for the program's use.
    pub event_name: String,
    /// `header.variable_header`: quality of service of this event, such as `Priority` and `Timeout`.
    pub variable_header: Vec<Property>,
    /// `filterable_data`: the fields for filters.
    pub filterable_data: Vec<Property>,
    /// `remainder_of_body`: everything else.
    pub remainder: AnyValue,
}

impl StructuredEvent {
    /// An event with empty header and body; the remainder is an Any of type null.
    #[must_use]
    pub fn new(domain: &str, type_name: &str, event_name: &str) -> Self {
        Self {
            domain: domain.to_owned(),
            type_name: type_name.to_owned(),
            event_name: event_name.to_owned(),
            variable_header: Vec::new(),
            filterable_data: Vec::new(),
            remainder: AnyValue::default(),
        }
    }

    /// Its type.
    #[must_use]
    pub fn event_type(&self) -> EventType {
        EventType::new(&self.domain, &self.type_name)
    }

    /// The value of that name in the filterable data, the first if there are several.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.filterable_data.iter().find(|property| property.name == name).map(|property| &property.value.value)
    }

    /// Reads an event from the argument of `push_structured_event`.
    ///
    /// # Errors
    /// The bytes are not an event, or need more work than any program's events do.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        let mut work = work();
        let (domain, type_name, event_name) = (reader.text()?, reader.text()?, reader.text()?);
        let variable_header = Vec::unmarshal(reader, &mut work)?;
        let filterable_data = Vec::unmarshal(reader, &mut work)?;
        let remainder = AnyValue::read(reader, &mut work)?;
        Ok(Self { domain, type_name, event_name, variable_header, filterable_data, remainder })
    }

    /// Writes the event as the argument of `push_structured_event`.
    ///
    /// # Errors
    /// If a value does not fit the type it is given with.
    pub fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        let Self { domain, type_name, event_name, variable_header, filterable_data, remainder } = self;
        writer.string(domain);
        writer.string(type_name);
        writer.string(event_name);
        variable_header.marshal(writer)?;
        filterable_data.marshal(writer)?;
        remainder.write(writer)
    }
}

impl Marshal for StructuredEvent {
    fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.write(writer)
    }
}

/// Each event of a batch has its own work limit.
impl Unmarshal for StructuredEvent {
    /// Three empty strings, two empty sequences, an Any of type null.
    const BYTES_MIN: usize = 24;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        Self::read(reader)
    }
}

/// Advances `reader` behind a structured event without decoding it. Allocates nothing.
pub(crate) fn skip_event(reader: &mut Reader<'_>) -> Result<(), ReadError> {
    let mut work = work();
    for _ in 0..3 {
        reader.string()?;
    }
    for _ in 0..2 {
        for _ in 0..reader.seq_len(8)? {
            reader.string()?;
            recode::skip_any(reader, &mut work)?;
        }
    }
    recode::skip_any(reader, &mut work)
}

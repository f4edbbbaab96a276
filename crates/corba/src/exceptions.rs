//! Exceptions: the refusals that a CORBA client sees.
//!
//! The engine returns a [`Refusal`]; this module converts it to a CORBA exception. A client gets what the IDL has room for; the refusal's
//! sentence, with its numbers, is logged. Malformed arguments are `MARSHAL`, with the details in the log only.

use super::filters::{Expression, MappedValue};
use super::monitor::write_names;
use super::naming::{NameComponent, write_name};
use super::qos::{PropertyError, PropertyValue, write_null, write_property_errors};
use crate::log_lines::log_line;
use core::fmt;
use engine::{Refusal, Side};
use giop::cdr::{Encoding, ReadError, Writer};
use giop::exception::{Kind, OMG_MINOR, SystemException};
use giop::ior::Ior;
use giop::value::AnyValue;

/// The requested object does not exist. The minor code is the OMG's for a missing object adapter (CORBA 3.3 part 1, annex A.5: 2), as sent
/// by TAO, JacORB and other ORBs.
pub const OBJECT_NOT_EXIST: SystemException = SystemException::new(Kind::ObjectNotExist, OMG_MINOR | 2);

/// The rules of access forbid the operation. Operations that no client may execute raise `NO_PERMISSION` with the minor code 0.
pub const ACCESS_DENIED: SystemException = SystemException::new(Kind::NoPermission, ACCESS_MINOR);

/// Minor code of [`ACCESS_DENIED`]: 1 of this service's own, with the upper bits `CM` (the OMG has not been asked for them).
pub const ACCESS_MINOR: u32 = 0x434d_0001;

/// A temporary lack of room for a request (CORBA 3.3 part 1, annex A.5: minor code 1, a request was discarded because resources ran out).
pub const NO_ROOM: SystemException = SystemException::new(Kind::Transient, OMG_MINOR | 1);

/// A client's reply in place of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exception {
    /// A system exception.
    System(SystemException),
    /// A user exception that the operation's IDL declares.
    User {
        /// The exception's repository id.
        id: &'static str,
        /// The exception's members, encoded for their position behind `id` in the reply's body for which
        /// [`Protocol::handle`](super::Protocol::handle) was given a writer; another body needs another encoding.
        body: Vec<u8>,
    },
    /// No exception: the request is to be sent to another object (`LOCATION_FORWARD`).
    Forward(Box<Ior>),
}

impl Exception {
    /// Appends the body of the reply: the repository id and the members.
    pub fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::System(exception) => exception.write(out),
            Self::User { id, body } => {
                out.string(id);
                out.raw(body);
            }
            Self::Forward(elsewhere) => elsewhere.write(out),
        }
    }
}

/// An exception within the protocol, before its position in a reply is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raised {
    System(SystemException),
    User(UserException),
    /// The object is at another service.
    Forward(Box<Ior>),
}

/// Formats the exception's name, for people.
impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(exception) => exception.fmt(f),
            Self::Forward(_) => f.write_str("LOCATION_FORWARD"),
            Self::User(exception) => {
                let id = exception.id().trim_start_matches("IDL:");
                f.write_str(id.rsplit_once(':').map_or(id, |(name, _)| name))
            }
        }
    }
}

impl Raised {
    fn system(kind: Kind, minor: u32) -> Self {
        // All is checked before anything is done, so an operation that fails has done nothing.
        Self::System(SystemException::new(kind, minor))
    }

    /// The object was destroyed, or belongs to another run of the service.
    pub(super) fn object_not_exist() -> Self {
        Self::System(OBJECT_NOT_EXIST)
    }

    /// The object's interfaces have no such operation (CORBA 3.3 part 1, annex A.5: minor code 2).
    pub(super) fn bad_operation() -> Self {
        Self::system(Kind::BadOperation, OMG_MINOR | 2)
    }

    /// The operation is there in the IDL but not here yet.
    pub(super) fn no_implement() -> Self {
        Self::system(Kind::NoImplement, 0)
    }

    /// An argument is well formed but invalid, such as a nil reference to a consumer.
    pub(super) fn bad_param() -> Self {
        Self::system(Kind::BadParam, 0)
    }

    /// There is no store for persistent objects.
    pub(super) fn persist_store() -> Self {
        Self::system(Kind::PersistStore, 0)
    }

    pub(super) fn is_persist_store(&self) -> bool {
        matches!(self, Self::System(SystemException { kind: Kind::PersistStore, .. }))
    }

    /// A bound of this service is reached.
    pub(super) fn limit() -> Self {
        Self::system(Kind::ImpLimit, 0)
    }

    /// A limit of this service, or the client's quota of it, is reached; the request may succeed after something is released.
    pub(super) fn no_resources() -> Self {
        Self::system(Kind::NoResources, 0)
    }

    /// The rules of access do not allow it.
    pub(super) fn denied() -> Self {
        Self::System(ACCESS_DENIED)
    }

    /// Every service has this object, and no client may destroy it.
    pub(super) fn no_permission() -> Self {
        Self::system(Kind::NoPermission, 0)
    }

    /// A temporary failure of a valid request.
    pub(super) fn transient() -> Self {
        Self::System(NO_ROOM)
    }

    /// There is no Interface Repository (CORBA 3.3 part 1, annex A.5: minor code 1).
    pub(super) fn no_interface_repository() -> Self {
        Self::system(Kind::IntfRepos, OMG_MINOR | 1)
    }

    /// The consumer's reference offers no supported code set (CORBA 3.3 part 1, annex A.5: minor code 1, negotiation failed).
    pub(super) fn codeset_incompatible() -> Self {
        Self::system(Kind::CodesetIncompatible, OMG_MINOR | 1)
    }

    /// A servant got an object of another kind, which its table rules out.
    pub(super) fn internal() -> Self {
        Self::system(Kind::Internal, 0)
    }

    /// The exception for a reply, given the encoding and phase of its body.
    pub(super) fn into_exception(self, encoding: Encoding, phase: usize) -> Exception {
        match self {
            Self::System(exception) => Exception::System(exception),
            Self::Forward(elsewhere) => Exception::Forward(elsewhere),
            Self::User(exception) => {
                let id = exception.id();
                let mut buffer = Vec::new();
                let mut out = Writer::with_phase(&mut buffer, phase, encoding);
                out.string(id);
                let members_at = out.position();
                exception.write_members(&mut out);
                if out.lacking().is_some() {
                    // CORBA 3.3 part 1, annex A.5: minor code 1, a character that the negotiated code set lacks.
                    return Exception::System(SystemException::new(Kind::DataConversion, OMG_MINOR | 1));
                }
                Exception::User { id, body: buffer.split_off(members_at) }
            }
        }
    }
}

impl Raised {
    /// Converts a refusal to connect. `AdminLimitExceeded` belongs to the operations that make a proxy; the operations that connect have no
    /// exception of their own for a limit reached since then.
    pub(super) fn from_connect(refusal: Refusal) -> Self {
        match refusal {
            Refusal::AdminLimit { .. } => {
                log_line!(Info, "a client cannot connect: {refusal}");
                Self::limit()
            }
            refusal => refusal.into(),
        }
    }
}

impl From<Refusal> for Raised {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            // The objects that a request names were there when it began, so what is gone is the request's own object.
            Refusal::ChannelNotFound { .. } | Refusal::AdminNotFound { .. } | Refusal::ProxyNotFound { .. } => {
                Self::object_not_exist()
            }
            Refusal::AlreadyConnected { .. } => UserException::AlreadyConnected.into(),
            Refusal::NotConnected { .. } => UserException::NotConnected.into(),
            Refusal::AlreadyActive { .. } => UserException::ConnectionAlreadyActive.into(),
            Refusal::AlreadyInactive { .. } => UserException::ConnectionAlreadyInactive.into(),
            // Filters are looked up before, too.
            Refusal::NoSuchFilter { .. } => Self::object_not_exist(),
            Refusal::FilterNotFound { .. } => UserException::FilterNotFound.into(),
            Refusal::NoMapping => Self::bad_param(),
            Refusal::DefaultAdmin { .. } => Self::no_permission(),
            Refusal::AdminLimit { side, limit } => {
                log_line!(Info, "a client gets no proxy: {refusal}");
                let name = match side {
                    Side::Consumers => "MaxConsumers",
                    Side::Suppliers => "MaxSuppliers",
                };
                let value = PropertyValue::Long(i32::try_from(limit).unwrap_or(i32::MAX));
                UserException::AdminLimitExceeded { name, value }.into()
            }
            Refusal::BadSetting { .. } => {
                // Ranges are checked with the properties; the engine's own are wider.
                log_line!(Warn, "a setting was let through that the engine refuses: {refusal}");
                Self::bad_param()
            }
            // Too many of something, and refusals of events, which are reported on the event path.
            refusal => {
                log_line!(Warn, "a client is refused: {refusal}");
                Self::limit()
            }
        }
    }
}

/// The exception for a refused event. `push…` declares only `Disconnected`; a full queue is `IMP_LIMIT`, as in the OMG Notification Service
/// 1.1 for `RejectNewEvents`. Nothing is logged: this is the event path.
#[must_use]
pub const fn refused_event(refusal: &Refusal) -> SystemException {
    match refusal {
        Refusal::ChannelNotFound { .. } | Refusal::ProxyNotFound { .. } | Refusal::NotConnected { .. } => {
            OBJECT_NOT_EXIST
        }
        _ => SystemException::new(Kind::ImpLimit, 0),
    }
}

impl From<ReadError> for Raised {
    fn from(error: ReadError) -> Self {
        log::debug!(target: "campanile::corba", "arguments are not what the operation takes: {error}");
        Self::system(Kind::Marshal, 0)
    }
}

impl From<UserException> for Raised {
    fn from(exception: UserException) -> Self {
        Self::User(exception)
    }
}

/// `CosNaming::NamingContext::NotFoundReason`, as numbered there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFoundReason {
    MissingNode = 0,
    NotContext = 1,
    NotObject = 2,
}

/// The user exceptions declared in the IDL of this service's interfaces and raised here.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum UserException {
    // CosEventComm and CosEventChannelAdmin
    Disconnected,
    AlreadyConnected,
    TypeError,
    // CosNotification
    UnsupportedQoS(Vec<PropertyError>),
    UnsupportedAdmin(Vec<PropertyError>),
    // CosNotifyFilter
    UnsupportedFilterableData,
    InvalidGrammar,
    InvalidConstraint(Expression),
    ConstraintNotFound(i32),
    CallbackNotFound,
    InvalidValue {
        constraint: Expression,
        value: Box<MappedValue>,
    },
    FilterNotFound,
    // CosNotifyChannelAdmin
    ConnectionAlreadyActive,
    ConnectionAlreadyInactive,
    NotConnected,
    ChannelNotFound,
    AdminNotFound,
    ProxyNotFound,
    AdminLimitExceeded {
        name: &'static str,
        value: PropertyValue,
    },
    // CosNaming
    NotFound {
        why: NotFoundReason,
        rest: Vec<NameComponent>,
    },
    CannotProceed {
        context: Box<Ior>,
        rest: Vec<NameComponent>,
    },
    InvalidName,
    AlreadyBound,
    NotEmpty,
    InvalidAddress,
    // NotifyMonitoringExt
    NameAlreadyUsed,
    NameMapError,
    /// `InvalidName` of the monitor and control object, with existing names of statistics, or the unknown one.
    InvalidStatistic(Vec<String>),
    // CosLifeCycle
    NoFactory(Vec<NameComponent>),
    /// The wrong criterion, as given.
    InvalidCriteria(&'static str, Box<AnyValue>),
    // Campanile
    InvalidActivity {
        index: u32,
        why: String,
    },
    InvalidRequest {
        why: String,
    },
}

impl UserException {
    pub(super) fn id(&self) -> &'static str {
        match self {
            Self::Disconnected => "IDL:omg.org/CosEventComm/Disconnected:1.0",
            Self::AlreadyConnected => "IDL:omg.org/CosEventChannelAdmin/AlreadyConnected:1.0",
            Self::TypeError => "IDL:omg.org/CosEventChannelAdmin/TypeError:1.0",
            Self::UnsupportedQoS(_) => "IDL:omg.org/CosNotification/UnsupportedQoS:1.0",
            Self::UnsupportedAdmin(_) => "IDL:omg.org/CosNotification/UnsupportedAdmin:1.0",
            Self::UnsupportedFilterableData => "IDL:omg.org/CosNotifyFilter/UnsupportedFilterableData:1.0",
            Self::InvalidGrammar => "IDL:omg.org/CosNotifyFilter/InvalidGrammar:1.0",
            Self::InvalidConstraint(_) => "IDL:omg.org/CosNotifyFilter/InvalidConstraint:1.0",
            Self::ConstraintNotFound(_) => "IDL:omg.org/CosNotifyFilter/ConstraintNotFound:1.0",
            Self::CallbackNotFound => "IDL:omg.org/CosNotifyFilter/CallbackNotFound:1.0",
            Self::InvalidValue { .. } => "IDL:omg.org/CosNotifyFilter/InvalidValue:1.0",
            Self::FilterNotFound => "IDL:omg.org/CosNotifyFilter/FilterNotFound:1.0",
            Self::ConnectionAlreadyActive => "IDL:omg.org/CosNotifyChannelAdmin/ConnectionAlreadyActive:1.0",
            Self::ConnectionAlreadyInactive => "IDL:omg.org/CosNotifyChannelAdmin/ConnectionAlreadyInactive:1.0",
            Self::NotConnected => "IDL:omg.org/CosNotifyChannelAdmin/NotConnected:1.0",
            Self::ChannelNotFound => "IDL:omg.org/CosNotifyChannelAdmin/ChannelNotFound:1.0",
            Self::AdminNotFound => "IDL:omg.org/CosNotifyChannelAdmin/AdminNotFound:1.0",
            Self::ProxyNotFound => "IDL:omg.org/CosNotifyChannelAdmin/ProxyNotFound:1.0",
            Self::AdminLimitExceeded { .. } => "IDL:omg.org/CosNotifyChannelAdmin/AdminLimitExceeded:1.0",
            Self::NotFound { .. } => "IDL:omg.org/CosNaming/NamingContext/NotFound:1.0",
            Self::CannotProceed { .. } => "IDL:omg.org/CosNaming/NamingContext/CannotProceed:1.0",
            Self::InvalidName => "IDL:omg.org/CosNaming/NamingContext/InvalidName:1.0",
            Self::AlreadyBound => "IDL:omg.org/CosNaming/NamingContext/AlreadyBound:1.0",
            Self::NotEmpty => "IDL:omg.org/CosNaming/NamingContext/NotEmpty:1.0",
            Self::InvalidAddress => "IDL:omg.org/CosNaming/NamingContextExt/InvalidAddress:1.0",
            Self::NameAlreadyUsed => "IDL:sandia.gov/NotifyMonitoringExt/NameAlreadyUsed:1.0",
            Self::NameMapError => "IDL:sandia.gov/NotifyMonitoringExt/NameMapError:1.0",
            Self::InvalidStatistic(_) => {
                "IDL:sandia.gov/CosNotification/NotificationServiceMonitorControl/InvalidName:1.0"
            }
            Self::NoFactory(_) => "IDL:omg.org/CosLifeCycle/NoFactory:1.0",
            Self::InvalidCriteria(..) => "IDL:omg.org/CosLifeCycle/InvalidCriteria:1.0",
            Self::InvalidActivity { .. } => "IDL:Campanile/InvalidActivity:1.0",
            Self::InvalidRequest { .. } => "IDL:Campanile/InvalidRequest:1.0",
        }
    }

    fn write_members(&self, out: &mut Writer<'_>) {
        match self {
            Self::UnsupportedQoS(errors) | Self::UnsupportedAdmin(errors) => write_property_errors(errors, out),
            Self::InvalidConstraint(constraint) => constraint.write(out),
            Self::ConstraintNotFound(id) => out.i32(*id),
            Self::InvalidValue { constraint, value } => {
                constraint.write(out);
                value.write_or_null(out);
            }
            Self::AdminLimitExceeded { name, value } => {
                out.string(name);
                value.write_any(out);
            }
            Self::NotFound { why, rest } => {
                out.u32(*why as u32);
                write_name(rest, out);
            }
            Self::CannotProceed { context, rest } => {
                context.write(out);
                write_name(rest, out);
            }
            Self::InvalidActivity { index, why } => {
                out.u32(*index);
                out.string(why);
            }
            Self::InvalidRequest { why } => out.string(why),
            Self::NoFactory(key) => write_name(key, out),
            Self::InvalidStatistic(names) => write_names(names, out),
            Self::InvalidCriteria(name, value) => {
                out.length(1);
                out.string(name);
                // It was read as an Any, so its value fits its type.
                if value.write(out).is_err() {
                    write_null(out);
                }
            }
            Self::Disconnected
            | Self::AlreadyConnected
            | Self::TypeError
            | Self::UnsupportedFilterableData
            | Self::InvalidGrammar
            | Self::CallbackNotFound
            | Self::FilterNotFound
            | Self::ConnectionAlreadyActive
            | Self::ConnectionAlreadyInactive
            | Self::NotConnected
            | Self::ChannelNotFound
            | Self::AdminNotFound
            | Self::ProxyNotFound
            | Self::InvalidName
            | Self::AlreadyBound
            | Self::NameAlreadyUsed
            | Self::NameMapError
            | Self::NotEmpty
            | Self::InvalidAddress => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use giop::cdr::{CharSet, Endian};

    use super::*;

    /// The exception of a client's mistake had `?` where its code set lacks a character of what it is about.
    #[test]
    fn an_exception_with_a_character_that_the_client_s_code_set_lacks_is_data_conversion() {
        let name = vec![NameComponent { id: "東京".into(), kind: String::new() }];
        let raised = || Raised::User(UserException::NotFound { why: NotFoundReason::MissingNode, rest: name.clone() });
        let encoding = Encoding::new(Endian::Little);
        let lacking = SystemException::new(Kind::DataConversion, OMG_MINOR | 1);
        assert_eq!(raised().into_exception(encoding, 0), Exception::System(lacking));
        let utf8 = Encoding { chars: CharSet::Utf8, ..encoding };
        let Exception::User { id, body } = raised().into_exception(utf8, 0) else { panic!("it is the user exception") };
        assert_eq!(id, "IDL:omg.org/CosNaming/NamingContext/NotFound:1.0");
        assert!(body.windows(6).any(|window| window == "東京".as_bytes()));
    }
}

//! What can go wrong with a remote call, said so that its reader knows what to do next.
//!
//! [`InvokeError`] is the one error of this crate. It names what failed: the address (no listener there, connection lost), the peer's
//! bytes (`BadReply`), the caller's arguments, or the peer's refusal (a system or user exception with its repository id).

use crate::Unmarshal;
use crate::object::ReplyBody;
use core::fmt;
use giop::cdr::{ReadError, Reader};
use giop::exception::{Completed, SystemException};
use std::io;
use std::time::Duration;

/// Why a remote call gave no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvokeError {
    /// No connection could be made to any address of the reference.
    NotReachable {
        /// The last address tried, `host:port`.
        address: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// The reference is nil or names no address this client can use.
    NoAddress {
        /// What is wrong with the reference.
        reason: String,
    },
    /// The connection broke before the reply came.
    Lost {
        /// The peer, `host:port`.
        address: String,
        /// The operation called.
        operation: String,
        /// The reason.
        reason: String,
        /// Whether the operation was carried out: `Maybe` once the request had been written, `No` before.
        completed: Completed,
    },
    /// No reply within the time limit ([`OrbOptions::reply_timeout`](crate::OrbOptions::reply_timeout)).
    TimedOut {
        /// The peer, `host:port`.
        address: String,
        /// The operation called.
        operation: String,
        /// The limit that passed.
        limit: Duration,
    },
    /// The peer answered with a system exception.
    System {
        /// The operation called.
        operation: String,
        /// The exception with minor code and completion status.
        exception: SystemException,
        /// The peer's explanation, if it gave one.
        detail: Option<String>,
    },
    /// The peer answered with a user exception.
    User(Box<UserException>),
    /// The peer's reply cannot be read.
    BadReply {
        /// The peer, `host:port`.
        address: String,
        /// The operation called.
        operation: String,
        /// The problem of the reply.
        reason: String,
    },
    /// The arguments cannot be sent: a value does not fit its type.
    BadArguments {
        /// The operation called.
        operation: String,
        /// The problem of the arguments.
        reason: String,
    },
    /// The text given as an address or reference cannot be understood.
    BadAddress {
        /// The text.
        text: String,
        /// The problem, and how to correct it.
        reason: String,
    },
    /// The object exists but is not of the interface asked for.
    WrongType {
        /// The repository id asked for.
        wanted: &'static str,
        /// The type id that the reference carries; empty if it carries none.
        found: String,
    },
    /// The service has no such channel, or several where one was expected.
    NoChannel {
        /// The channels that exist.
        reason: String,
    },
    /// A constraint was given and the service has no filters.
    NoFilters,
    /// The call was forwarded from object to object more than [`FORWARDS_MAX`] times.
    TooManyForwards,
    /// A supplier's proxy was gone and the attempt to obtain another one failed with an unknown outcome. The event was not pushed.
    NotRenewed {
        /// The error of obtaining another proxy.
        error: Box<InvokeError>,
    },
    /// The program has closed the supplier.
    Closed,
    /// A socket for the program's own objects could not be opened.
    Listen {
        /// The address asked for.
        address: String,
        /// The operating system's error.
        error: io::Error,
    },
}

/// The largest number of `LOCATION_FORWARD` replies followed in one call.
pub const FORWARDS_MAX: usize = 8;

impl InvokeError {
    /// The repository id of the exception the peer raised, or that CORBA names for what happened here; `None` for the
    /// caller's own mistakes.
    #[must_use]
    pub fn repository_id(&self) -> Option<&str> {
        Some(match self {
            Self::NotRenewed { error } => return error.repository_id(),
            Self::System { exception, .. } => exception.kind.repository_id(),
            Self::User(user) => &user.id,
            Self::NotReachable { .. } => "IDL:omg.org/CORBA/TRANSIENT:1.0",
            Self::Lost { .. } => "IDL:omg.org/CORBA/COMM_FAILURE:1.0",
            Self::TimedOut { .. } => "IDL:omg.org/CORBA/TIMEOUT:1.0",
            Self::BadReply { .. } => "IDL:omg.org/CORBA/MARSHAL:1.0",
            Self::NoAddress { .. } => "IDL:omg.org/CORBA/INV_OBJREF:1.0",
            _ => return None,
        })
    }

    /// Whether the peer raised, or this side stands for, the exception with this short name, such as
    /// `OBJECT_NOT_EXIST` or `CosEventChannelAdmin/AlreadyConnected`.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.repository_id()
            .is_some_and(|id| short_name(id).is_some_and(|short| short == name || last_part(short) == name))
    }

    /// Whether the object is gone for good: its reference must be looked up again.
    #[must_use]
    pub fn object_is_gone(&self) -> bool {
        self.is("OBJECT_NOT_EXIST")
    }

    /// Whether the peer could not be reached or the connection broke, so that trying again later may help.
    #[must_use]
    pub fn is_connection_failure(&self) -> bool {
        if let Self::NotRenewed { error } = self {
            return error.is_connection_failure();
        }
        matches!(self, Self::NotReachable { .. } | Self::Lost { .. } | Self::TimedOut { .. })
            || self.is("TRANSIENT")
            || self.is("COMM_FAILURE")
    }

    /// The error of a push for which no proxy could be obtained: whatever the outcome of that attempt, the event was not pushed.
    pub(crate) fn of_renewal(self) -> Self {
        if self.was_not_carried_out() { self } else { Self::NotRenewed { error: Box::new(self) } }
    }

    /// Whether the operation certainly was not carried out, so that it can be repeated without doing it twice.
    #[must_use]
    pub fn was_not_carried_out(&self) -> bool {
        match self {
            Self::Lost { completed, .. } => *completed == Completed::No,
            Self::System { exception, .. } => exception.completed == Completed::No,
            Self::TimedOut { .. } | Self::BadReply { .. } => false,
            _ => true,
        }
    }
}

impl fmt::Display for InvokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReachable { address, error } => {
                write!(f, "cannot connect to {address}: {}", without_number(error))
            }
            Self::NoAddress { reason } => write!(f, "the object reference cannot be used: {reason}"),
            Self::Lost { address, operation, reason, completed } => {
                write!(f, "the connection to {address} was lost during {operation}: {reason}; ")?;
                f.write_str(match completed {
                    Completed::No => "the operation was not carried out and can be repeated",
                    Completed::Yes => "the operation was carried out",
                    Completed::Maybe => "the operation may have been carried out",
                })
            }
            Self::TimedOut { address, operation, limit } => write!(
                f,
                "{address} did not answer {operation} within {limit:?}; it may be busy, stopped or holding its suppliers \
                 back for a slow consumer"
            ),
            Self::System { operation, exception, detail } => system_text(f, operation, exception, detail.as_deref()),
            Self::User(user) => user.fmt(f),
            Self::BadReply { address, operation, reason } => {
                write!(f, "the reply of {address} to {operation} cannot be read: {reason}")
            }
            Self::BadArguments { operation, reason } => {
                write!(f, "the arguments of {operation} cannot be sent: {reason}")
            }
            Self::BadAddress { text, reason } => write!(f, "`{text}` is not an object address: {reason}"),
            Self::WrongType { wanted, found } => {
                write!(f, "the object is not of type {}", plain_name(wanted))?;
                if !found.is_empty() {
                    write!(f, " but {}", plain_name(found))?;
                }
                f.write_str("; check that the address names the right object")
            }
            Self::NoChannel { reason } => f.write_str(reason),
            Self::NoFilters => f.write_str("the service has no filters: its channel names no filter factory"),
            Self::TooManyForwards => {
                write!(f, "the call was forwarded more than {FORWARDS_MAX} times without reaching the object")
            }
            Self::NotRenewed { error } => {
                write!(f, "the event was not published, since its proxy was gone and no other was obtained: {error}")
            }
            Self::Closed => f.write_str("the supplier was closed"),
            Self::Listen { address, error } => {
                write!(f, "cannot listen on {address} for events: {}", without_number(error))
            }
        }
    }
}

impl std::error::Error for InvokeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotReachable { error, .. } | Self::Listen { error, .. } => Some(error),
            Self::NotRenewed { error } => Some(error),
            _ => None,
        }
    }
}

/// A user exception with its members still as bytes.
#[derive(Debug)]
pub struct UserException {
    /// The repository id, such as `IDL:omg.org/CosNotification/UnsupportedQoS:1.0`.
    pub id: String,
    /// The operation that raised it.
    pub operation: String,
    pub(crate) body: ReplyBody,
}

impl UserException {
    /// A reader at the exception's first member.
    ///
    /// # Errors
    /// If the repository id before the members cannot be read.
    pub fn members(&self) -> Result<Reader<'_>, ReadError> {
        let mut reader = self.body.reader();
        reader.string()?;
        Ok(reader)
    }

    /// Its members, a value or a tuple; `None` if they cannot be read.
    pub(crate) fn read_members<T: Unmarshal>(&self) -> Option<T> {
        T::read(&mut self.members().ok()?).ok()
    }
}

impl fmt::Display for UserException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = plain_name(&self.id);
        write!(f, "{} raised {name}", self.operation)?;
        if let Some(advice) = user_advice(name, self) {
            write!(f, ": {advice}")?;
        }
        write!(f, " ({})", self.id)
    }
}

/// The operating system's error without its number, since the text suffices.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(text, _number)| text).to_owned()
}

/// What a well-known user exception means, in words.
fn user_advice(name: &str, exception: &UserException) -> Option<String> {
    Some(match name {
        "ChannelNotFound" => "there is no channel with that id; `get_all_channels` lists those that exist".into(),
        "AdminNotFound" => "there is no admin with that id on this channel".into(),
        "ProxyNotFound" => "there is no proxy with that id under this admin".into(),
        "AlreadyConnected" => "a client is already connected to this proxy; obtain another one".into(),
        "Disconnected" | "NotConnected" => "no client is connected to this proxy; connect first".into(),
        "AdminLimitExceeded" => "the channel's limit on clients is reached; raise it or disconnect some".into(),
        "InvalidEventType" => "this event type is not accepted here".into(),
        "ConnectionAlreadyActive" => "the connection is not suspended".into(),
        "ConnectionAlreadyInactive" => "the connection is suspended already".into(),
        "TypeError" => "the client object is not of the kind that this proxy serves".into(),
        "InvalidGrammar" => "the service does not know this constraint grammar; EXTENDED_TCL is the standard's".into(),
        "ConstraintNotFound" => "the filter has no constraint with that id".into(),
        "FilterNotFound" => "there is no filter with that id here".into(),
        "CallbackNotFound" => "the filter has no callback with that id".into(),
        "UnsupportedFilterableData" => "the event cannot be looked into".into(),
        "InvalidConstraint" | "InvalidValue" => crate::notify::constraint_error_text(exception)?,
        "NotFound" => "the name is not bound in the naming service".into(),
        "AlreadyBound" => "the name is already bound; use rebind to replace it".into(),
        "InvalidName" => "the name is empty or malformed".into(),
        "UnsupportedQoS" | "UnsupportedAdmin" => crate::notify::property_errors_text(exception)?,
        _ => return None,
    })
}

fn system_text(
    f: &mut fmt::Formatter<'_>,
    operation: &str,
    exception: &SystemException,
    detail: Option<&str>,
) -> fmt::Result {
    let id = exception.kind.repository_id();
    let name = plain_name(id);
    write!(f, "{operation} raised {name}: ")?;
    f.write_str(match name {
        "OBJECT_NOT_EXIST" => "the object does not exist (any more); look its reference up again",
        "TRANSIENT" => {
            "the service does not take it at present, as when it is stopping or has too much to do; try again"
        }
        "COMM_FAILURE" => "a connection broke on the way; try again",
        "BAD_OPERATION" => "the object has no such operation; check that the address names the right kind of object",
        "NO_IMPLEMENT" => "the service does not implement this operation",
        "MARSHAL" => "the service could not read the request's arguments",
        "BAD_PARAM" => "the service did not accept an argument",
        "NO_PERMISSION" => "the service does not allow it",
        "NO_RESOURCES" | "IMP_LIMIT" | "NO_MEMORY" => "a limit of the service is reached",
        "TIMEOUT" => "a time limit passed on the way",
        "INV_OBJREF" => "an object reference is malformed",
        "CODESET_INCOMPATIBLE" | "DATA_CONVERSION" => "the two sides share no character set for this text",
        _ => "the service failed to carry it out",
    })?;
    detail.map_or(Ok(()), |detail| write!(f, ": {detail}"))?;
    let completed = match exception.completed {
        Completed::Yes => "carried out",
        Completed::No => "not carried out",
        Completed::Maybe => "perhaps carried out",
    };
    write!(f, " ({id}, minor code {:#x}, {completed})", exception.minor)
}

/// The user exception of an error, if it is the one of this short name.
pub(crate) fn user<'e>(error: &'e InvokeError, name: &str) -> Option<&'e UserException> {
    match error {
        InvokeError::User(exception) if short_name(&exception.id) == Some(name) => Some(exception),
        _ => None,
    }
}

/// `CosNotification/UnsupportedQoS` of `IDL:omg.org/CosNotification/UnsupportedQoS:1.0`.
fn short_name(id: &str) -> Option<&str> {
    let body = id.strip_prefix("IDL:")?;
    let body = body.rsplit_once(':').map_or(body, |(path, _version)| path);
    let body = body.strip_prefix("omg.org/").unwrap_or(body);
    Some(body.strip_prefix("CORBA/").unwrap_or(body))
}

fn last_part(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

/// The interface or exception name at the end of a repository id; the id itself if it has another form.
pub(crate) fn plain_name(id: &str) -> &str {
    short_name(id).map_or(id, last_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_from_repository_ids() {
        assert_eq!(plain_name("IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0"), "OBJECT_NOT_EXIST");
        assert_eq!(plain_name("IDL:NotifyExt/EventChannelFactory:1.0"), "EventChannelFactory");
        assert_eq!(plain_name("RMI:something"), "RMI:something");
        assert_eq!(
            short_name("IDL:omg.org/CosNaming/NamingContext/NotFound:1.0"),
            Some("CosNaming/NamingContext/NotFound")
        );
    }

    #[test]
    fn connection_failures_stand_for_the_exceptions_corba_names() {
        let error = InvokeError::NotReachable {
            address: "127.0.0.1:1".into(),
            error: io::Error::from(io::ErrorKind::ConnectionRefused),
        };
        assert!(error.is("TRANSIENT"));
        assert!(error.is_connection_failure());
        assert!(error.was_not_carried_out());
        let refused =
            InvokeError::NotReachable { address: "127.0.0.1:1".into(), error: io::Error::from_raw_os_error(111) };
        assert_eq!(refused.to_string(), "cannot connect to 127.0.0.1:1: Connection refused");
        let lost = InvokeError::Lost {
            address: "127.0.0.1:1".into(),
            operation: "push".into(),
            reason: "closed".into(),
            completed: Completed::Maybe,
        };
        assert!(lost.is("COMM_FAILURE"));
        assert!(!lost.was_not_carried_out());
        assert!(lost.to_string().contains("may have been carried out"));
        assert!(!InvokeError::Closed.is_connection_failure());
    }

    /// A restarted service did not answer `create_named_channel` in time, and the error claimed that the event might have been taken,
    /// although it had not been sent.
    #[test]
    fn what_became_of_a_renewal_is_not_what_became_of_the_event() {
        let limit = Duration::from_secs(60);
        let timed_out = InvokeError::TimedOut { address: "127.0.0.1:1".into(), operation: "bind".into(), limit };
        let error = timed_out.of_renewal();
        assert!(error.is_connection_failure() && error.was_not_carried_out() && error.is("TIMEOUT"), "{error:?}");
        assert!(error.to_string().starts_with("the event was not published"), "{error}");
        let plain = InvokeError::NoFilters.of_renewal();
        assert!(matches!(plain, InvokeError::NoFilters), "what is certain already stays as it is");
    }
}

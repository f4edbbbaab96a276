//! Errors, and troubles during a subscription.

use crate::settings::SettingsError;
use client::InvokeError;
use std::fmt;
use std::sync::Arc;

/// Why an operation failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The settings are wrong.
    Settings(SettingsError),
    /// The service cannot be reached, or refuses. [`InvokeError::is_connection_failure`] tells which, and
    /// [`InvokeError::was_not_carried_out`] whether an event can be published again without arriving twice.
    Service(InvokeError),
    /// The channel name is invalid.
    ChannelName {
        /// The name.
        name: String,
        /// The problem.
        reason: &'static str,
    },
    /// The type is not valid for events.
    Type {
        /// Its name.
        name: String,
        /// The problem, with the member's path.
        reason: String,
    },
    /// The octets are not a value of the declared type, or the value cannot be sent.
    Value {
        /// The type's name.
        name: String,
        /// The path, such as `stations[3].name`; empty for the whole value.
        path: String,
        /// The problem.
        reason: String,
    },
    /// The process was forked: objects made before belong to the parent, and the child makes its own.
    Forked,
    /// The selected transport is not in this build.
    NoTransport {
        /// Its name.
        transport: &'static str,
    },
    /// No thread could be started.
    Thread(std::io::Error),
    /// Over DDS: readers are behind, and the events that wait for them take all the room. The event was not published; nothing is lost.
    Slowed {
        /// The waiting time.
        waited: std::time::Duration,
    },
    /// DDS does not support the request.
    Dds(String),
    /// The filter is invalid.
    Filter {
        /// Its text.
        text: String,
        /// The problem.
        reason: String,
        /// The position, in characters from 1 on; `None` if the filter is too large as a whole.
        column: Option<u32>,
    },
}

/// Error codes, for languages without sum types; codes from 100 on occur only there. Numbers stay stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[non_exhaustive]
pub enum ErrorCode {
    /// Success.
    Ok = 0,
    /// The settings are wrong.
    Settings = 1,
    /// The service cannot be reached, or did not answer: it may be back later.
    Unreachable = 2,
    /// The service refuses.
    Refused = 3,
    /// The channel name is invalid.
    ChannelName = 4,
    /// The type is not valid for events, or its IDL text has an error.
    Type = 5,
    /// The value does not fit its type, or cannot be sent.
    Value = 6,
    /// The process was forked: objects made before belong to the parent.
    Forked = 7,
    /// The transport is not in this build.
    NoTransport = 8,
    /// No thread could be started.
    Thread = 9,
    /// Over DDS: readers are behind and there is no room for more. Nothing is lost; the call may be repeated.
    Slowed = 10,
    /// DDS does not support the request.
    Dds = 11,
    /// The filter is invalid.
    Filter = 12,
    /// An argument is wrong: a null pointer, text that is not UTF-8, a handle in the wrong state.
    Argument = 100,
    /// Nothing arrived in time.
    Timeout = 101,
    /// The object is closed, or its callback has ended it.
    Closed = 102,
    /// A callback made a call that would wait for the callback's own end.
    FromCallback = 103,
    /// The library has a bug; the message says where.
    Bug = 104,
    /// An error of a later version of the library.
    Other = 105,
}

impl Error {
    /// Position of the error in an invalid filter, in characters from 1 on.
    #[must_use]
    pub const fn column(&self) -> Option<u32> {
        match self {
            Self::Filter { column, .. } => *column,
            _ => None,
        }
    }

    /// The error's code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Settings(_) => ErrorCode::Settings,
            Self::Service(error) if error.is_connection_failure() => ErrorCode::Unreachable,
            Self::Service(_) => ErrorCode::Refused,
            Self::ChannelName { .. } => ErrorCode::ChannelName,
            Self::Type { .. } => ErrorCode::Type,
            Self::Value { .. } => ErrorCode::Value,
            Self::Forked => ErrorCode::Forked,
            Self::NoTransport { .. } => ErrorCode::NoTransport,
            Self::Thread(_) => ErrorCode::Thread,
            Self::Slowed { .. } => ErrorCode::Slowed,
            Self::Dds(_) => ErrorCode::Dds,
            Self::Filter { .. } => ErrorCode::Filter,
        }
    }

    /// Whether an event that was not published can be published again without arriving twice.
    #[must_use]
    pub fn was_not_carried_out(&self) -> bool {
        match self {
            Self::Service(error) => error.was_not_carried_out(),
            _ => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::Service(error) if matches!(error, InvokeError::NotReachable { .. }) => {
                write!(f, "no service: {error}; is `campanile serve` running, and CAMPANILE_SERVER right?")
            }
            Self::Service(error) => error.fmt(f),
            Self::ChannelName { name, reason } => write!(f, "{name:?} cannot be a channel's name: {reason}"),
            Self::Type { name, reason } => write!(f, "{name} cannot be an event: {reason}"),
            Self::Value { name, path, reason } if path.is_empty() => write!(f, "this is no {name}: {reason}"),
            Self::Value { name, path, reason } => write!(f, "this is no {name}: {path}: {reason}"),
            Self::Forked => f.write_str("this was made before the process was forked; make a new one in the child"),
            Self::NoTransport { transport } => {
                write!(f, "this build has no {transport}: build with the cargo feature `{}`", transport.to_lowercase())
            }
            Self::Thread(error) => write!(f, "no thread could be started: {error}"),
            Self::Slowed { waited } => {
                write!(f, "readers are behind, and there was no room for another event within {waited:?}; try again")
            }
            Self::Dds(reason) => f.write_str(reason),
            Self::Filter { text, reason, column } => {
                write!(f, "{text:?} is no filter: ")?;
                column.map_or(Ok(()), |column| write!(f, "column {column}: "))?;
                f.write_str(reason)
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error)
    }
}

impl From<InvokeError> for Error {
    fn from(error: InvokeError) -> Self {
        Self::Service(error)
    }
}

/// A received type differs from the declared type of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The event's type: its domain and name.
    pub domain: String,
    /// The event's name within the domain.
    pub name: String,
    /// Path of the difference, such as `stations[].name`; empty for the whole type.
    pub path: String,
    /// Why the received type cannot be converted.
    pub reason: String,
    /// The declared type, in IDL.
    pub declared: String,
    /// The received type, in IDL.
    pub came: String,
    /// The supplier, if its events name it: those in ALMA's form.
    pub supplier: Option<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain: _, name, path, reason, declared, came, supplier } = self;
        let joint = if path.is_empty() { "" } else { ": " };
        write!(f, "events {name} come with another type")?;
        supplier.as_ref().map_or(Ok(()), |supplier| write!(f, " from {supplier}"))?;
        write!(f, ": {path}{joint}{reason}\ndeclared:\n{declared}\ncame:\n{came}")
    }
}

/// Reports besides events: see [`Consumer::on_trouble`](crate::Consumer::on_trouble) and [`Supplier::on_trouble`](crate::Supplier::on_trouble).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Trouble {
    /// The service cannot be reached; the text has the reason. The consumer goes on trying.
    Unreachable(String),
    /// The service answers again.
    Reachable,
    /// The service was restarted or had disconnected the consumer. The subscription is made anew; an unknown number of events in between is
    /// missing.
    Gap(client::Gap),
    /// A type was received that does not fit the declared one. Reported once for each such type; its events are discarded.
    Mismatch(Arc<Mismatch>),
    /// An event was discarded: its value is invalid, or does not fit the declared type.
    Unreadable {
        /// The event's type name.
        name: String,
        /// The problem, with the member's path.
        reason: String,
    },
    /// A callback failed or panicked. The event counts as handled.
    Callback {
        /// The event's type name.
        name: String,
        /// The callback's error.
        reason: String,
    },
    /// The filter uses a name that no declared type has, so that it matches none of their events, or all. Reported at the start.
    UnknownName {
        /// The name.
        name: String,
        /// The declared types with their members.
        known: String,
    },
    /// Events were lost over DDS: there was no room for them, or they were not sent again.
    Lost {
        /// Their type's name.
        name: String,
        /// Number lost since the last report.
        events: u64,
    },
    /// Over DDS, a remote writer does not match this consumer, so that none of its events arrive; or a remote reader does not match this
    /// supplier, so that it gets nothing. Reported once for each endpoint and policy, until that changes; at most 256 at a time, others are
    /// counted in the log.
    Incompatible {
        /// The event's type name, which is the topic.
        name: String,
        /// The writer or reader, with its program and host as far as known.
        peer: String,
        /// Whether it is a reader.
        is_reader: bool,
        /// The policy: `reliability`, `durability`, `deadline`, `data_representation`, `partition`, ….
        policy: &'static str,
        /// The writer's offer.
        offered: String,
        /// The reader's request.
        requested: String,
        /// What to do about it.
        advice: String,
    },
    /// A callback took long. Meanwhile events wait at the service; when its room is used up, suppliers wait too, or events are lost there,
    /// as the channel's settings say. Reported once for each time that it begins.
    Slow {
        /// The event's type name.
        name: String,
        /// The duration.
        took: std::time::Duration,
    },
}

/// Kinds of trouble. Numbers stay stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[non_exhaustive]
pub enum TroubleCode {
    /// The service cannot be reached; the consumer goes on trying.
    Unreachable = 1,
    /// The service answers again.
    Reachable = 2,
    /// The subscription was lost and is made anew: the events in between are missing.
    Gap = 3,
    /// A type was received that does not fit the declared one. Reported once for each such type; its events are discarded.
    Mismatch = 4,
    /// An event was discarded: its value is invalid, or does not fit the declared type.
    Unreadable = 5,
    /// A callback failed. The event counts as handled.
    Callback = 6,
    /// A callback took long. Meanwhile events wait.
    Slow = 7,
    /// Events were lost, over DDS.
    Lost = 8,
    /// The filter uses a name that no declared type has.
    UnknownName = 9,
    /// A remote writer or reader does not match, over DDS: none of its events arrive, or it gets nothing.
    Incompatible = 10,
    /// A trouble of a later version of the library: the text describes it.
    Other = 100,
}

impl Trouble {
    /// The kind of trouble.
    #[must_use]
    pub const fn code(&self) -> TroubleCode {
        match self {
            Self::Unreachable(_) => TroubleCode::Unreachable,
            Self::Reachable => TroubleCode::Reachable,
            Self::Gap(_) => TroubleCode::Gap,
            Self::Mismatch(_) => TroubleCode::Mismatch,
            Self::Unreadable { .. } => TroubleCode::Unreadable,
            Self::Callback { .. } => TroubleCode::Callback,
            Self::Slow { .. } => TroubleCode::Slow,
            Self::Lost { .. } => TroubleCode::Lost,
            Self::UnknownName { .. } => TroubleCode::UnknownName,
            Self::Incompatible { .. } => TroubleCode::Incompatible,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => write!(f, "the service cannot be reached: {reason}"),
            Self::Reachable => f.write_str("the service answers again"),
            Self::Gap(gap) => {
                let length = gap.until.duration_since(gap.since).unwrap_or_default();
                write!(f, "the subscription was gone and is made anew: events of the last {length:.1?} may be missing")
            }
            Self::Mismatch(mismatch) => mismatch.fmt(f),
            Self::Unreadable { name, reason } => write!(f, "an event {name} cannot be read: {reason}"),
            Self::Callback { name, reason } => write!(f, "the callback failed for an event {name}: {reason}"),
            Self::UnknownName { name, known } => {
                write!(f, "the filter asks for {name}, which no declared type has: {known}")
            }
            Self::Incompatible { name, peer, is_reader, policy, offered, requested, advice } => {
                let (here, there, what) = if *is_reader {
                    (" here", "", "it gets nothing")
                } else {
                    ("", " here", "none of its events come")
                };
                write!(
                    f,
                    "{peer} of events {name} does not match by {policy} (offered{here}: {offered}; requested{there}: {requested}), so that \
                     {what}: {advice}"
                )
            }
            Self::Lost { name, events } => write!(f, "{events} events {name} were lost on the way"),
            Self::Slow { name, took } => write!(f, "the callback took {took:.1?} for an event {name}: events wait"),
        }
    }
}

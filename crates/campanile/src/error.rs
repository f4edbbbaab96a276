//! What can go wrong, said so that its reader knows what to do next.

use crate::settings::SettingsError;
use client::InvokeError;
use std::fmt;
use std::sync::Arc;

/// Why something was not done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The settings are wrong.
    Settings(SettingsError),
    /// The service cannot be reached, or refuses. [`InvokeError::is_connection_failure`] tells the first, and
    /// [`InvokeError::was_not_carried_out`] whether an event can be published again without being there twice.
    Service(InvokeError),
    /// The name cannot be a channel's.
    ChannelName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A type cannot be an event's.
    Type {
        /// Its name.
        name: String,
        /// What is wrong with it, with the member's path.
        reason: String,
    },
    /// The octets are no value of the declared type, or the value cannot travel.
    Value {
        /// The type's name.
        name: String,
        /// Where, such as `stations[3].name`; empty for the whole.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The process was forked: what was made before belongs to the parent, and the child makes its own.
    Forked,
    /// The transport asked for is not in this build.
    NoTransport {
        /// Its name.
        transport: &'static str,
    },
    /// No thread could be started.
    Thread(std::io::Error),
    /// Over DDS: readers are behind, and what waits for them takes all the room there is. The event was not published; nothing is lost.
    Slowed {
        /// How long was waited for room.
        waited: std::time::Duration,
    },
    /// DDS cannot do what it was asked for.
    Dds(String),
    /// The filter is none.
    Filter {
        /// Its text.
        text: String,
        /// What is wrong with it.
        reason: String,
        /// Where, in characters from 1 on; none where it is too much altogether.
        column: Option<u32>,
    },
}

/// Why something was not done, as a number for languages without sums; those from 100 on only such languages have. Numbers stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[non_exhaustive]
pub enum ErrorCode {
    /// It is done.
    Ok = 0,
    /// The settings are wrong.
    Settings = 1,
    /// The service cannot be reached, or did not answer: it may be there later.
    Unreachable = 2,
    /// The service refuses.
    Refused = 3,
    /// The name cannot be a channel's.
    ChannelName = 4,
    /// The type cannot be an event's, or its IDL text has a mistake.
    Type = 5,
    /// The value is none of its type, or cannot travel.
    Value = 6,
    /// The process was forked: what was made before belongs to the parent.
    Forked = 7,
    /// The transport is not in this build.
    NoTransport = 8,
    /// No thread could be started.
    Thread = 9,
    /// Over DDS: readers are behind and there is no room for more. Nothing is lost; it may be tried again.
    Slowed = 10,
    /// DDS cannot do what it was asked for.
    Dds = 11,
    /// The filter is none.
    Filter = 12,
    /// An argument is wrong: a null pointer, text that is not UTF-8, a handle that is not in the state for it.
    Argument = 100,
    /// Nothing came in time.
    Timeout = 101,
    /// It is closed, or its callback had enough.
    Closed = 102,
    /// A callback has asked for what would wait for its own end.
    FromCallback = 103,
    /// The library has a bug; the message says where.
    Bug = 104,
    /// Something of a later version of the library.
    Other = 105,
}

impl Error {
    /// Of a filter that is none: where, in characters from 1 on.
    #[must_use]
    pub const fn column(&self) -> Option<u32> {
        match self {
            Self::Filter { column, .. } => *column,
            _ => None,
        }
    }

    /// Which sort of error it is.
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

    /// Whether an event that was not published can be published again without being there twice.
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

/// A consumer declared one type, and another came under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The event's type: its domain and name.
    pub domain: String,
    /// The event's name within the domain.
    pub name: String,
    /// Where they differ, such as `stations[].name`; empty for the whole.
    pub path: String,
    /// Why the one cannot be taken for the other.
    pub reason: String,
    /// The declared type, in IDL.
    pub declared: String,
    /// The type that came, in IDL.
    pub came: String,
    /// The supplier, where its events say so: those in ALMA's form.
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
    /// The service cannot be reached, and why. The consumer goes on trying.
    Unreachable(String),
    /// The service answers again.
    Reachable,
    /// The service was restarted or had given the consumer up. It is subscribed again; an unknown number of events between is missing.
    Gap(client::Gap),
    /// Another type came than the one that is declared. Reported once for each such type; its events are not handed over.
    Mismatch(Arc<Mismatch>),
    /// An event was not handed over, since it is no value of its type, or none that the declared type has room for.
    Unreadable {
        /// The event's type name.
        name: String,
        /// What is wrong with it, with the member's path.
        reason: String,
    },
    /// A callback failed or panicked. The event counts as handed over.
    Callback {
        /// The event's type name.
        name: String,
        /// What it said.
        reason: String,
    },
    /// The filter asks for a name that no declared type has, so that it holds for no event of these, or for all. Reported at the start.
    UnknownName {
        /// The name.
        name: String,
        /// The declared types with their members.
        known: String,
    },
    /// Events did not come, over DDS: there was no room for them, or they were not sent again.
    Lost {
        /// Their type's name.
        name: String,
        /// How many more than were reported before.
        events: u64,
    },
    /// A writer of such events does not match this consumer, over DDS, so that none of its events come; or a reader this supplier, so that it
    /// gets nothing. Reported once for each and for each policy, until that changes; of 256 at a time, others are counted in the log.
    Incompatible {
        /// The event's type name, which is the topic.
        name: String,
        /// The writer or reader, with what is known of its program and host.
        peer: String,
        /// It is a reader.
        is_reader: bool,
        /// The policy: `reliability`, `durability`, `deadline`, `data_representation`, `partition`, ….
        policy: &'static str,
        /// What the writer offers.
        offered: String,
        /// What the reader requests.
        requested: String,
        /// What to do.
        advice: String,
    },
    /// A callback took so long. Meanwhile events wait at the service, and when there is no room for them any more, suppliers wait too, or
    /// events are lost there, as the channel's settings say. Reported once for each time that it begins.
    Slow {
        /// The event's type name.
        name: String,
        /// How long.
        took: std::time::Duration,
    },
}

/// Which sort of trouble it is. Numbers stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[non_exhaustive]
pub enum TroubleCode {
    /// The service cannot be reached; the consumer goes on trying.
    Unreachable = 1,
    /// The service answers again.
    Reachable = 2,
    /// The subscription was gone and is made anew: events between are missing.
    Gap = 3,
    /// Another type came than the one that is declared. Reported once for each; its events are not handed over.
    Mismatch = 4,
    /// An event was not handed over, since it is no value of its type, or none that the declared type has room for.
    Unreadable = 5,
    /// A callback failed. The event counts as handed over.
    Callback = 6,
    /// A callback took long. Meanwhile events wait.
    Slow = 7,
    /// Events did not come, over DDS.
    Lost = 8,
    /// The filter asks for a name that no declared type has.
    UnknownName = 9,
    /// A writer or reader does not match, over DDS: none of its events come, or it gets nothing.
    Incompatible = 10,
    /// Something of a later version of the library: the text says it.
    Other = 100,
}

impl Trouble {
    /// Which sort of trouble it is.
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

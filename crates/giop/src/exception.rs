//! The standard's system exceptions, as they travel in replies.
//!
//! CORBA 3.3 part 1, annex A.5, and part 2, 9.4.3.2. User exceptions are their repository id and members, which the code that
//! defines them writes; what minor codes of ours mean is said where they are raised.

#[cfg(test)]
mod tests;

use crate::cdr::{Endian, ReadError, ReadErrorKind, Reader, Writer};
use crate::codeset::encapsulate;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Upper twenty bits of the minor codes that the OMG assigns (part 1, annex A.5). A code of its list is this plus its number.
pub const OMG_MINOR: u32 = 0x4f4d_0000;

/// Declares the exceptions once: variant, name in IDL, meaning.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The standard's system exceptions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Kind {
            /// All exceptions, in the standard's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in IDL, such as `OBJECT_NOT_EXIST`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The repository id, such as `IDL:omg.org/CORBA/OBJECT_NOT_EXIST:1.0`.
            #[must_use]
            pub const fn repository_id(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("IDL:omg.org/CORBA/", $name, ":1.0"),)+
                }
            }
        }
    };
}

kinds! {
    /// An exception unknown here, or an error without an exception of its own.
    Unknown = "UNKNOWN",
    /// An argument is invalid.
    BadParam = "BAD_PARAM",
    /// Memory ran out.
    NoMemory = "NO_MEMORY",
    /// A limit of the implementation was reached.
    ImpLimit = "IMP_LIMIT",
    /// Communication broke down while the invocation was under way.
    CommFailure = "COMM_FAILURE",
    /// An object reference is malformed.
    InvObjref = "INV_OBJREF",
    /// The caller may not do this.
    NoPermission = "NO_PERMISSION",
    /// The ORB found itself in a state that should not be.
    Internal = "INTERNAL",
    /// A message or argument cannot be decoded or encoded.
    Marshal = "MARSHAL",
    /// Initialisation failed.
    Initialize = "INITIALIZE",
    /// The operation exists and is not implemented.
    NoImplement = "NO_IMPLEMENT",
    /// A `TypeCode` is malformed.
    BadTypecode = "BAD_TYPECODE",
    /// The object has no such operation.
    BadOperation = "BAD_OPERATION",
    /// A resource is exhausted.
    NoResources = "NO_RESOURCES",
    /// The answer to a deferred request is not there yet.
    NoResponse = "NO_RESPONSE",
    /// Persistent storage failed.
    PersistStore = "PERSIST_STORE",
    /// Operations came in an order in which they make no sense.
    BadInvOrder = "BAD_INV_ORDER",
    /// The object cannot be reached just now; trying again may help.
    Transient = "TRANSIENT",
    /// Memory cannot be freed.
    FreeMem = "FREE_MEM",
    /// An identifier has invalid syntax.
    InvIdent = "INV_IDENT",
    /// A flag is invalid.
    InvFlag = "INV_FLAG",
    /// The interface repository failed.
    IntfRepos = "INTF_REPOS",
    /// A context object cannot be processed.
    BadContext = "BAD_CONTEXT",
    /// The object adapter failed.
    ObjAdapter = "OBJ_ADAPTER",
    /// A value cannot be converted between representations or code sets.
    DataConversion = "DATA_CONVERSION",
    /// The object does not exist, and never will.
    ObjectNotExist = "OBJECT_NOT_EXIST",
    /// The operation needs a transaction.
    TransactionRequired = "TRANSACTION_REQUIRED",
    /// The transaction was rolled back.
    TransactionRolledback = "TRANSACTION_ROLLEDBACK",
    /// The transaction context is invalid.
    InvalidTransaction = "INVALID_TRANSACTION",
    /// Policies do not go together.
    InvPolicy = "INV_POLICY",
    /// Client and server have no code set in common.
    CodesetIncompatible = "CODESET_INCOMPATIBLE",
    /// The reference would have to be bound anew, which a policy forbids.
    Rebind = "REBIND",
    /// The time limit was exceeded.
    Timeout = "TIMEOUT",
    /// Transactions are not available.
    TransactionUnavailable = "TRANSACTION_UNAVAILABLE",
    /// Transaction policy and mode do not go together.
    TransactionMode = "TRANSACTION_MODE",
    /// The requested quality of service is not available.
    BadQos = "BAD_QOS",
    /// The activity context is invalid.
    InvalidActivity = "INVALID_ACTIVITY",
    /// The activity has completed.
    ActivityCompleted = "ACTIVITY_COMPLETED",
    /// The operation needs an activity.
    ActivityRequired = "ACTIVITY_REQUIRED",
    /// The thread that carried the invocation was cancelled.
    ThreadCancelled = "THREAD_CANCELLED",
}

impl Kind {
    /// The exception with this repository id. Ids of the standard's exceptions from before it had the prefix `omg.org` are
    /// known too.
    #[must_use]
    pub fn from_repository_id(id: &[u8]) -> Option<Self> {
        let name = id.strip_prefix(b"IDL:omg.org/CORBA/").or_else(|| id.strip_prefix(b"IDL:CORBA/"))?;
        let name = name.strip_suffix(b":1.0")?;
        Self::ALL.iter().copied().find(|kind| kind.name().as_bytes() == name)
    }

    /// Whether the failure is temporary: the same request may succeed later.
    #[must_use]
    pub const fn says_not_now(self) -> bool {
        matches!(
            self,
            Self::Transient
                | Self::CommFailure
                | Self::NoResources
                | Self::NoMemory
                | Self::NoResponse
                | Self::Timeout
                | Self::Rebind
                | Self::ObjAdapter
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the operation was carried out before the exception was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completed {
    /// It was completed (`COMPLETED_YES`).
    Yes,
    /// It was not completed (`COMPLETED_NO`).
    No,
    /// Unknown (`COMPLETED_MAYBE`).
    Maybe,
}

impl Completed {
    const fn number(self) -> u32 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Maybe => 2,
        }
    }

    /// The name in IDL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "COMPLETED_YES",
            Self::No => "COMPLETED_NO",
            Self::Maybe => "COMPLETED_MAYBE",
        }
    }
}

/// A system exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemException {
    /// The kind of exception.
    pub kind: Kind,
    /// The detailed reason: the upper twenty bits identify a vendor's list of codes, such as [`OMG_MINOR`]; 0 says nothing.
    pub minor: u32,
    /// Whether the operation was carried out.
    pub completed: Completed,
}

impl SystemException {
    /// An exception raised before the operation was carried out.
    #[must_use]
    pub const fn new(kind: Kind, minor: u32) -> Self {
        Self { kind, minor, completed: Completed::No }
    }

    /// Reads the body of a reply with the status `SYSTEM_EXCEPTION`. A nonstandard exception is [`Kind::Unknown`], as the standard asks of
    /// clients.
    ///
    /// # Errors
    /// The bytes are not a system exception.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, ReadError> {
        let kind = Kind::from_repository_id(r.string()?).unwrap_or(Kind::Unknown);
        let minor = r.u32()?;
        let completed = match r.u32()? {
            0 => Completed::Yes,
            1 => Completed::No,
            2 => Completed::Maybe,
            value => return Err(r.error(ReadErrorKind::BadValue { what: "completion_status", value })),
        };
        Ok(Self { kind, minor, completed })
    }

    /// Writes the body of a reply with the status `SYSTEM_EXCEPTION`.
    pub fn write(&self, w: &mut Writer<'_>) {
        let Self { kind, minor, completed } = self;
        w.string(kind.repository_id());
        w.u32(*minor);
        w.u32(completed.number());
    }
}

/// Maximum characters read of an exception's detail.
const DETAIL_CHARS_MAX: usize = 1_000;

/// Data of the service context [`crate::message::ServiceContexts::EXCEPTION_DETAIL_MESSAGE`]: why an exception was raised, for people.
#[must_use]
pub fn detail_context(text: &str) -> Vec<u8> {
    encapsulate(Endian::Big, |w| w.wstring(text))
}

/// Reads the data of such a service context: its first line, without control characters. `None` if it holds no text.
#[must_use]
pub fn parse_detail_context(data: &[u8]) -> Option<String> {
    let text = Reader::over_encapsulation(data).and_then(|mut r| r.wtext()).ok()?;
    let line: String = text.lines().next()?.chars().filter(|c| !c.is_control()).take(DETAIL_CHARS_MAX).collect();
    (!line.is_empty()).then_some(line)
}

impl fmt::Display for SystemException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, minor, completed } = self;
        write!(f, "{kind} (minor {minor:#x}, {})", completed.name())
    }
}

impl core::error::Error for SystemException {}

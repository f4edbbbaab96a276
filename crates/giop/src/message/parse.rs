//! Parsing of received messages.

use super::{HEADER_LEN, Header, ServiceContexts, Target};
use crate::cdr::{CharSet, ReadError, ReadErrorKind, Reader, Version, padding};

/// The reply that a client expects (CORBA 3.3 part 2, 9.4.2.1, and the sync scopes of part 1, 22.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// None: a one-way (`SYNC_NONE`, `SYNC_WITH_TRANSPORT`).
    None,
    /// A reply without a body as soon as the server has the request, before the object has it (`SYNC_WITH_SERVER`).
    Server,
    /// The object's reply.
    Expected,
}

impl Response {
    /// Decodes `response_flags` of GIOP 1.2: 0, 1 or 3.
    #[inline]
    const fn from_flags(flags: u8) -> Self {
        match flags & 3 {
            0 => Self::None,
            1 => Self::Server,
            _ => Self::Expected,
        }
    }

    #[inline]
    pub(super) const fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Server => 1,
            Self::Expected => 3,
        }
    }
}

/// The head of a Request (CORBA 3.3 part 2, 9.4.2).
///
/// ```text
/// 1.0, 1.1: contexts, request_id, response_expected, (1.1: 3 reserved octets), key, operation, principal; body
/// 1.2:      request_id, response_flags, 3 reserved octets, target, operation, contexts; body at a multiple of 8
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Chosen by the client, unique among its unanswered requests on the connection.
    pub request_id: u32,
    /// The reply that the client expects.
    pub response: Response,
    /// The object.
    pub target: Target<'a>,
    /// Name of the operation, without its NUL; identifiers are ASCII.
    pub operation: &'a [u8],
    /// Service contexts of the client's ORB.
    pub contexts: ServiceContexts<'a>,
    /// Offset of the arguments in the message; its length if there are none.
    pub body_offset: usize,
}

impl<'a> Request<'a> {
    /// Reads the head of a request from a whole message, header included.
    ///
    /// # Errors
    /// The octets are not such a head.
    #[inline]
    pub fn parse(message: &'a [u8], header: &Header) -> Result<Self, ReadError> {
        let mut r = behind_header(message, header);
        if header.version < Version::V1_2 {
            return Self::parse_before_1_2(message, header, r);
        }
        let request_id = r.u32()?;
        let response = Response::from_flags(r.u8()?);
        r.take(3)?;
        let target = Target::read(&mut r)?;
        let operation = r.string()?;
        let contexts = ServiceContexts::read(&mut r)?;
        let body_offset = aligned_body(message, r.offset());
        Ok(Self { request_id, response, target, operation, contexts, body_offset })
    }

    fn parse_before_1_2(message: &'a [u8], header: &Header, mut r: Reader<'a>) -> Result<Self, ReadError> {
        let contexts = ServiceContexts::read(&mut r)?;
        let request_id = r.u32()?;
        // A boolean; but an odd ORB's 3, as in GIOP 1.2, can only mean yes.
        let response = if r.u8()? == 0 { Response::None } else { Response::Expected };
        if header.version == Version::V1_1 {
            r.take(3)?;
        }
        let target = Target::Key(r.octets()?);
        let operation = r.string()?;
        let _principal = r.octets()?;
        let body_offset = r.offset().min(message.len());
        Ok(Self { request_id, response, target, operation, contexts, body_offset })
    }

    /// A reader over the arguments in the message that this was parsed from, on a connection that speaks `chars`.
    #[inline]
    #[must_use]
    pub fn body(&self, message: &'a [u8], header: &Header, chars: CharSet) -> Reader<'a> {
        body_at(message, header, self.body_offset, chars)
    }
}

/// The outcome of an invocation (CORBA 3.3 part 2, 9.4.3.1), which determines the body of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyStatus {
    /// The result and the `out` and `inout` parameters follow.
    NoException,
    /// A repository id and the exception's members follow.
    UserException,
    /// A [`crate::exception::SystemException`] follows.
    SystemException,
    /// The [`crate::ior::Ior`] follows at which to try this and later requests for now.
    LocationForward,
    /// The [`crate::ior::Ior`] follows that replaces the one used, for good; GIOP 1.2.
    LocationForwardPerm,
    /// The `AddressingDisposition` follows (a `short`: 0 key, 1 profile, 2 reference) that the server needs; GIOP 1.2.
    NeedsAddressingMode,
}

impl ReplyStatus {
    pub(super) const ALL: [Self; 6] = [
        Self::NoException,
        Self::UserException,
        Self::SystemException,
        Self::LocationForward,
        Self::LocationForwardPerm,
        Self::NeedsAddressingMode,
    ];

    pub(super) const fn number(self) -> u32 {
        match self {
            Self::NoException => 0,
            Self::UserException => 1,
            Self::SystemException => 2,
            Self::LocationForward => 3,
            Self::LocationForwardPerm => 4,
            Self::NeedsAddressingMode => 5,
        }
    }
}

/// The head of a Reply (CORBA 3.3 part 2, 9.4.3).
///
/// ```text
/// 1.0, 1.1: contexts, request_id, status; body
/// 1.2:      request_id, status, contexts; body at a multiple of 8
/// ```
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// Id of the answered request.
    pub request_id: u32,
    /// The outcome of the invocation.
    pub status: ReplyStatus,
    /// Service contexts of the server's ORB.
    pub contexts: ServiceContexts<'a>,
    /// Offset of the body in the message; its length if there is none.
    pub body_offset: usize,
}

impl<'a> Reply<'a> {
    /// Reads the head of a reply from a whole message, header included.
    ///
    /// # Errors
    /// The octets are not such a head.
    #[inline]
    pub fn parse(message: &'a [u8], header: &Header) -> Result<Self, ReadError> {
        let mut r = behind_header(message, header);
        let early = if header.version < Version::V1_2 { Some(ServiceContexts::read(&mut r)?) } else { None };
        let request_id = r.u32()?;
        let status = known(&mut r, &ReplyStatus::ALL, "ReplyStatusType")?;
        let (contexts, body_offset) = match early {
            Some(contexts) => (contexts, r.offset().min(message.len())),
            None => {
                let contexts = ServiceContexts::read(&mut r)?;
                (contexts, aligned_body(message, r.offset()))
            }
        };
        Ok(Self { request_id, status, contexts, body_offset })
    }

    /// A reader over the body in the message that this was parsed from, on a connection that speaks `chars`.
    #[inline]
    #[must_use]
    pub fn body(&self, message: &'a [u8], header: &Header, chars: CharSet) -> Reader<'a> {
        body_at(message, header, self.body_offset, chars)
    }
}

/// A LocateRequest (CORBA 3.3 part 2, 9.4.5): asks whether an object is here. It has no body.
#[derive(Clone, Debug)]
pub struct LocateRequest<'a> {
    /// The request's id, as in [`Request::request_id`].
    pub request_id: u32,
    /// The object.
    pub target: Target<'a>,
}

impl<'a> LocateRequest<'a> {
    /// Reads a locate request from a whole message, header included.
    ///
    /// # Errors
    /// The octets are not a locate request.
    pub fn parse(message: &'a [u8], header: &Header) -> Result<Self, ReadError> {
        let mut r = behind_header(message, header);
        let request_id = r.u32()?;
        let target = if header.version < Version::V1_2 { Target::Key(r.octets()?) } else { Target::read(&mut r)? };
        Ok(Self { request_id, target })
    }
}

/// Answer to a locate request (CORBA 3.3 part 2, 9.4.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocateStatus {
    /// The server knows no such object.
    UnknownObject,
    /// The server takes requests for the object.
    ObjectHere,
    /// The [`crate::ior::Ior`] follows at which to try.
    ObjectForward,
    /// The [`crate::ior::Ior`] follows that replaces the one used, for good; GIOP 1.2.
    ObjectForwardPerm,
    /// A [`crate::exception::SystemException`] follows; GIOP 1.2.
    SystemException,
    /// The `AddressingDisposition` follows that the server needs; GIOP 1.2.
    NeedsAddressingMode,
}

impl LocateStatus {
    pub(super) const ALL: [Self; 6] = [
        Self::UnknownObject,
        Self::ObjectHere,
        Self::ObjectForward,
        Self::ObjectForwardPerm,
        Self::SystemException,
        Self::NeedsAddressingMode,
    ];

    pub(super) const fn number(self) -> u32 {
        match self {
            Self::UnknownObject => 0,
            Self::ObjectHere => 1,
            Self::ObjectForward => 2,
            Self::ObjectForwardPerm => 3,
            Self::SystemException => 4,
            Self::NeedsAddressingMode => 5,
        }
    }
}

/// The head of a LocateReply (CORBA 3.3 part 2, 9.4.6). Its body follows without alignment in every version (9.4.6.2).
#[derive(Clone, Debug)]
pub struct LocateReply {
    /// Id of the answered request.
    pub request_id: u32,
    /// The answer.
    pub status: LocateStatus,
    /// Offset of the body in the message; its length if there is none.
    pub body_offset: usize,
}

impl LocateReply {
    /// Reads the head of a locate reply from a whole message, header included.
    ///
    /// # Errors
    /// The octets are not such a head.
    pub fn parse(message: &[u8], header: &Header) -> Result<Self, ReadError> {
        let mut r = behind_header(message, header);
        let request_id = r.u32()?;
        let status = known(&mut r, &LocateStatus::ALL, "LocateStatusType")?;
        Ok(Self { request_id, status, body_offset: r.offset().min(message.len()) })
    }

    /// A reader over the body in the message that this was parsed from, on a connection that speaks `chars`.
    #[must_use]
    pub fn body<'a>(&self, message: &'a [u8], header: &Header, chars: CharSet) -> Reader<'a> {
        body_at(message, header, self.body_offset, chars)
    }
}

/// A CancelRequest (CORBA 3.3 part 2, 9.4.4): the client no longer wants the answer. The server may answer all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    /// Id of the cancelled request.
    pub request_id: u32,
}

impl CancelRequest {
    /// Reads a cancel request from a whole message, header included.
    ///
    /// # Errors
    /// The octets are not a cancel request.
    pub fn parse(message: &[u8], header: &Header) -> Result<Self, ReadError> {
        Ok(Self { request_id: behind_header(message, header).u32()? })
    }
}

/// A reader over what follows the header. The heads of messages hold no text in a negotiated code set.
#[inline]
pub(crate) fn behind_header<'a>(message: &'a [u8], header: &Header) -> Reader<'a> {
    body_at(message, header, HEADER_LEN, CharSet::Latin1)
}

/// A reader over what begins at an offset of a message that speaks `chars`: over a body with a known beginning.
#[inline]
#[must_use]
pub fn body_at<'a>(message: &'a [u8], header: &Header, at: usize, chars: CharSet) -> Reader<'a> {
    let bytes = message.get(at..).unwrap_or_default();
    Reader::with_phase(bytes, at, header.encoding(chars)).with_origin(at)
}

/// Offset of a GIOP 1.2 body when the head ends at `head_end`: the next multiple of 8 (9.4.2.2). Padding without a body behind it, which
/// some ORBs send, is no body.
#[inline]
fn aligned_body(message: &[u8], head_end: usize) -> usize {
    (head_end + padding(head_end, 8)).min(message.len())
}

/// Reads an enumerated value, encoded as its index in `all`.
#[inline]
fn known<T: Copy>(r: &mut Reader<'_>, all: &[T], what: &'static str) -> Result<T, ReadError> {
    let value = r.u32()?;
    let found = usize::try_from(value).ok().and_then(|index| all.get(index));
    found.copied().ok_or_else(|| r.error(ReadErrorKind::BadValue { what, value }))
}

//! Real-time CORBA on the wire: priorities in requests, and the policy in a reference that requests them.
//!
//! Real-time CORBA 1.0, "Real-Time CORBA Priority Models". A server puts its priority model into the references of its
//! objects, as policy [`PriorityModelPolicy::POLICY_TYPE`] within the component [`tag::POLICIES`]:
//!
//! ```text
//! TAG_POLICIES: encapsulated sequence<PolicyValue { ulong ptype; sequence<octet> pvalue }>
//! pvalue of policy 40: encapsulated { ulong model; short server_priority }
//! ```
//!
//! A client of an object with the model [`PriorityModel::ClientPropagated`] sends the priority of each invocation in the service
//! context [`ServiceContexts::RT_CORBA_PRIORITY`], an encapsulated `short`: four octets, of which [`priority_context`] makes
//! them and [`parse_priority_context`] reads them. Neither allocates.
//!
//! [`ServiceContexts::RT_CORBA_PRIORITY`]: crate::message::ServiceContexts::RT_CORBA_PRIORITY

#[cfg(test)]
mod tests;

use crate::cdr::{Endian, ReadError, ReadErrorKind, Reader};
use crate::codeset::encapsulate;
use crate::ior::{Component, IiopProfile, Ior, tag};

/// The highest priority (`RTCORBA::maxPriority`). The lowest is 0 (`RTCORBA::minPriority`).
pub const PRIORITY_MAX: i16 = i16::MAX;

/// The side that decides the priority of an invocation: `RTCORBA::PriorityModel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PriorityModel {
    /// The client: its priority travels with each invocation.
    ClientPropagated,
    /// The server: all invocations of the object have the priority that its reference names.
    ServerDeclared,
}

impl PriorityModel {
    /// Both models, in the order of the IDL.
    pub const ALL: [Self; 2] = [Self::ClientPropagated, Self::ServerDeclared];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::ClientPropagated => 0,
            Self::ServerDeclared => 1,
        }
    }

    /// The label in the IDL.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ClientPropagated => "CLIENT_PROPAGATED",
            Self::ServerDeclared => "SERVER_DECLARED",
        }
    }

    /// The model with that number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::ClientPropagated),
            1 => Some(Self::ServerDeclared),
            _ => None,
        }
    }
}

/// A reference's policy on the priority of invocations: `RTCORBA::PriorityModelPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PriorityModelPolicy {
    /// The side that decides.
    pub model: PriorityModel,
    /// From 0 to [`PRIORITY_MAX`]: the priority of all invocations under `SERVER_DECLARED`; under `CLIENT_PROPAGATED` the default for
    /// clients that send none.
    pub server_priority: i16,
}

impl PriorityModelPolicy {
    /// `RTCORBA::PRIORITY_MODEL_POLICY_TYPE`.
    pub const POLICY_TYPE: u32 = 40;

    /// Maximum number of policies in a component. One with more is refused; real ones have fewer than ten.
    pub const POLICIES_MAX: u32 = 256;

    /// Finds the policy in a component of the tag [`tag::POLICIES`], among others. `None` if missing.
    ///
    /// # Errors
    /// The component has another tag, its data is malformed, or the policy's is: an unknown model, or a priority below 0.
    pub fn from_component(component: &Component) -> Result<Option<Self>, ReadError> {
        let mut r = Reader::over_encapsulation(&component.data)?;
        if component.tag != tag::POLICIES {
            return Err(r.error(ReadErrorKind::BadValue { what: "TAG_POLICIES", value: component.tag }));
        }
        let count = r.seq_len(8)?;
        if count > Self::POLICIES_MAX {
            return Err(r.error(ReadErrorKind::TooMany { what: "policies", count, max: Self::POLICIES_MAX }));
        }
        for _ in 0..count {
            let policy = r.u32()?;
            if policy == Self::POLICY_TYPE {
                return Self::read(r.encapsulation()?).map(Some);
            }
            r.octets()?;
        }
        Ok(None)
    }

    /// The component for a profile, with this policy only.
    #[must_use]
    pub fn to_component(self) -> Component {
        let Self { model, server_priority } = self;
        Component::encapsulated(tag::POLICIES, |w| {
            w.u32(1);
            w.u32(Self::POLICY_TYPE);
            w.octets(&encapsulate(Endian::Big, |w| {
                w.u32(model.number());
                w.i16(server_priority);
            }));
        })
    }

    fn read(mut r: Reader<'_>) -> Result<Self, ReadError> {
        let value = r.u32()?;
        let model = PriorityModel::from_number(value)
            .ok_or_else(|| r.error(ReadErrorKind::BadValue { what: "PriorityModel", value }))?;
        Ok(Self { model, server_priority: priority(&mut r)? })
    }
}

impl IiopProfile {
    /// The server's priority policy; `None` without valid information.
    #[must_use]
    pub fn priority_model(&self) -> Option<PriorityModelPolicy> {
        PriorityModelPolicy::from_component(self.component(tag::POLICIES)?).ok().flatten()
    }
}

impl Ior {
    /// The priority policy of the first IIOP profile; `None` without valid information.
    #[must_use]
    pub fn priority_model(&self) -> Option<PriorityModelPolicy> {
        self.iiop()?.priority_model()
    }
}

/// Data of the service context `RTCorbaPriority`, with which a client tells the priority of an invocation and a server
/// that of its reply.
///
/// ```text
/// byte order; 1 octet of padding; short
/// ```
#[must_use]
pub const fn priority_context(priority: i16, endian: Endian) -> [u8; 4] {
    let [first, second] = match endian {
        Endian::Big => priority.to_be_bytes(),
        Endian::Little => priority.to_le_bytes(),
    };
    [endian.flag(), 0, first, second]
}

/// Reads the data of such a service context.
///
/// # Errors
/// It is no encapsulated `short`, or a priority below 0, which Real-time CORBA does not have.
#[inline]
pub fn parse_priority_context(data: &[u8]) -> Result<i16, ReadError> {
    priority(&mut Reader::over_encapsulation(data)?)
}

#[inline]
fn priority(r: &mut Reader<'_>) -> Result<i16, ReadError> {
    match r.i16()? {
        priority @ 0.. => Ok(priority),
        negative => {
            let value = u32::from(negative.cast_unsigned());
            Err(r.error(ReadErrorKind::BadValue { what: "RTCORBA::Priority", value }))
        }
    }
}

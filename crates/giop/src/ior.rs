//! Interoperable object references: the location of an object and its protocols.
//!
//! CORBA 3.3 part 2, 7.6 and 9.7. A reference names the object's type and lists profiles, each of which is one way to reach the object.
//! IIOP profiles are decoded; profiles of other protocols stay as they are.

mod profile;
mod secure;
mod text;

#[cfg(test)]
mod tests;

pub use crate::codeset::CodeSetInfo;
pub use profile::{Addresses, Component, IiopProfile, Profile};
pub use secure::SecureTransport;
pub use text::ParseIorError;
pub(crate) use text::hex_octet;

use crate::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// Numbers of profiles and components, from the OMG's list of tags.
pub mod tag {
    /// Profile: IIOP.
    pub const INTERNET_IOP: u32 = 0;
    /// Profile: components that belong to no protocol.
    pub const MULTIPLE_COMPONENTS: u32 = 1;

    /// Component: which ORB made the reference.
    pub const ORB_TYPE: u32 = 0;
    /// Component: the code sets that the server understands.
    pub const CODE_SETS: u32 = 1;
    /// Component: policies that the server asks for, such as the real-time priority model.
    pub const POLICIES: u32 = 2;
    /// Component: another host and port of the same server.
    pub const ALTERNATE_IIOP_ADDRESS: u32 = 3;
    /// Component: the port at which the server speaks TLS.
    pub const SSL_SEC_TRANS: u32 = 20;
}

/// Value of [`tag::ORB_TYPE`] in references to the objects of Campanile's own client: `CAMP`. The number is not registered with the OMG,
/// which assigns such numbers on request (CORBA 3.3 part 2, 7.6.6.1).
///
/// It promises that requests of one connection are carried out in order of arrival, and that
/// [`ServiceContexts::FLOW_START`](crate::message::ServiceContexts::FLOW_START) is respected.
pub const ORB_TYPE_CAMPANILE: u32 = 0x4341_4D50;

/// An object reference. Without profiles it is nil: it refers to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ior {
    /// Repository id of the most derived type that the maker of the reference knew; empty if it did not say.
    pub type_id: String,
    /// Ways to reach the object, best first.
    pub profiles: Vec<Profile>,
}

impl Ior {
    /// Maximum number of profiles of a reference. One with more is refused.
    pub const PROFILES_MAX: u32 = 64;

    /// The reference to nothing.
    #[must_use]
    pub const fn nil() -> Self {
        Self { type_id: String::new(), profiles: Vec::new() }
    }

    /// A reference with one profile.
    #[must_use]
    pub fn new(type_id: impl Into<String>, profile: IiopProfile) -> Self {
        Self { type_id: type_id.into(), profiles: Vec::from([Profile::Iiop(profile)]) }
    }

    /// Whether this refers to nothing.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.profiles.is_empty()
    }

    /// The first IIOP profile.
    #[must_use]
    pub fn iiop(&self) -> Option<&IiopProfile> {
        self.iiop_profiles().next()
    }

    /// All IIOP profiles, best first.
    pub fn iiop_profiles(&self) -> impl Iterator<Item = &IiopProfile> {
        self.profiles.iter().filter_map(|profile| match profile {
            Profile::Iiop(iiop) => Some(iiop),
            Profile::Components(_) | Profile::Other { .. } => None,
        })
    }

    /// The ORB that made the reference, if its first IIOP profile names it; see [`IiopProfile::orb_type`].
    #[must_use]
    pub fn orb_type(&self) -> Option<u32> {
        self.iiop()?.orb_type()
    }

    /// Reads a reference passed as an argument.
    ///
    /// # Errors
    /// The bytes are not a reference, or it exceeds a limit of profiles, components or octets.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, ReadError> {
        let type_id = r.text()?;
        let count = r.seq_len(8)?;
        if count > Self::PROFILES_MAX {
            return Err(r.error(ReadErrorKind::TooMany { what: "profiles", count, max: Self::PROFILES_MAX }));
        }
        // As many places as are needed: references are kept for as long as a client is connected.
        let mut profiles = Vec::with_capacity(count as usize);
        for _ in 0..count {
            profiles.push(Profile::read(r)?);
        }
        Ok(Self { type_id, profiles })
    }

    /// Skips a reference without decoding it.
    ///
    /// # Errors
    /// The bytes are not a reference, or it has more than [`Ior::PROFILES_MAX`] profiles.
    pub fn skip(r: &mut Reader<'_>) -> Result<(), ReadError> {
        r.string()?;
        let count = r.seq_len(8)?;
        if count > Self::PROFILES_MAX {
            return Err(r.error(ReadErrorKind::TooMany { what: "profiles", count, max: Self::PROFILES_MAX }));
        }
        for _ in 0..count {
            r.u32()?;
            r.octets()?;
        }
        Ok(())
    }

    /// Writes a reference, as it is passed as an argument.
    pub fn write(&self, w: &mut Writer<'_>) {
        let Self { type_id, profiles } = self;
        w.string(type_id);
        w.length(profiles.len());
        for profile in profiles {
            profile.write(w);
        }
    }
}

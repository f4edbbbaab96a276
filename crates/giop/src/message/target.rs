//! The object that a request is for.

use crate::cdr::{ReadError, ReadErrorKind, Reader};
use crate::ior::{Ior, tag};

/// The form in which a request names its object (CORBA 3.3 part 2, 9.4.2.2). Before GIOP 1.2 only the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `KeyAddr`: the object key; what every client sends unless asked for more.
    Key(&'a [u8]),
    /// `ProfileAddr`: a profile of the object's reference.
    Profile {
        /// Tag of the profile.
        tag: u32,
        /// Data of the profile.
        data: &'a [u8],
    },
    /// `ReferenceAddr`: the object's whole reference, with the profile that the client chose.
    Reference {
        /// Index of the chosen profile.
        index: u32,
        /// Repository id of the reference.
        type_id: &'a [u8],
        /// Tag of the chosen profile.
        tag: u32,
        /// Data of the chosen profile.
        data: &'a [u8],
    },
}

impl<'a> Target<'a> {
    /// The object key: as it is, or out of an IIOP profile. `None` for profiles of other protocols and broken ones.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Key(key) => Some(key),
            Self::Profile { tag, data } | Self::Reference { tag, data, .. } => key_of_profile(tag, data),
        }
    }

    /// The `TargetAddress` union of GIOP 1.2.
    #[inline]
    pub(super) fn read(r: &mut Reader<'a>) -> Result<Self, ReadError> {
        match r.u16()? {
            0 => Ok(Self::Key(r.octets()?)),
            1 => Ok(Self::Profile { tag: r.u32()?, data: r.octets()? }),
            2 => Self::read_reference(r),
            other => Err(r.error(ReadErrorKind::BadValue { what: "TargetAddress", value: u32::from(other) })),
        }
    }

    fn read_reference(r: &mut Reader<'a>) -> Result<Self, ReadError> {
        let index = r.u32()?;
        let type_id = r.string()?;
        let count = r.seq_len(8)?;
        if count > Ior::PROFILES_MAX {
            return Err(r.error(ReadErrorKind::TooMany { what: "profiles", count, max: Ior::PROFILES_MAX }));
        }
        let mut chosen = None;
        for at in 0..count {
            let profile = (r.u32()?, r.octets()?);
            if at == index {
                chosen = Some(profile);
            }
        }
        let Some((tag, data)) = chosen else {
            return Err(r.error(ReadErrorKind::BadValue { what: "selected_profile_index", value: index }));
        };
        Ok(Self::Reference { index, type_id, tag, data })
    }
}

/// The object key in an IIOP profile: version, host and port come before it (CORBA 3.3 part 2, 9.7.2).
fn key_of_profile(profile_tag: u32, data: &[u8]) -> Option<&[u8]> {
    if profile_tag != tag::INTERNET_IOP {
        return None;
    }
    let mut r = Reader::over_encapsulation(data).ok()?;
    let (major, _minor) = (r.u8().ok()?, r.u8().ok()?);
    if major != 1 {
        return None;
    }
    r.string().ok()?;
    r.u16().ok()?;
    r.octets().ok()
}

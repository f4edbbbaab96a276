//! The ways to reach an object.

use super::tag;
use crate::cdr::{ReadError, ReadErrorKind, Reader, Version, Writer};
use crate::codeset::CodeSetInfo;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// One way to reach an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Through TCP ([`tag::INTERNET_IOP`]).
    Iiop(IiopProfile),
    /// Only components that belong to no protocol ([`tag::MULTIPLE_COMPONENTS`]).
    Components(Vec<Component>),
    /// A protocol that is not supported, or an IIOP of a major version other than 1.
    Other {
        /// The protocol.
        tag: u32,
        /// Its data, unchanged.
        data: Vec<u8>,
    },
}

impl Profile {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, ReadError> {
        let tag = r.u32()?;
        let data = r.clone().octets()?;
        match tag {
            // 7.6.3: profiles with a major version that is not known are to be passed on and not used.
            tag::INTERNET_IOP if data.get(1).is_none_or(|&major| major == 1) => {
                IiopProfile::read(r.encapsulation()?).map(Self::Iiop)
            }
            tag::MULTIPLE_COMPONENTS => {
                let mut inner = r.encapsulation()?;
                read_components(&mut inner).map(Self::Components)
            }
            _ => r.octets().map(|data| Self::Other { tag, data: data.to_owned() }),
        }
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        match self {
            Self::Iiop(profile) => {
                w.u32(tag::INTERNET_IOP);
                w.encapsulation(|w| profile.write(w));
            }
            Self::Components(components) => {
                w.u32(tag::MULTIPLE_COMPONENTS);
                w.encapsulation(|w| write_components(components, w));
            }
            Self::Other { tag, data } => {
                w.u32(*tag);
                w.octets(data);
            }
        }
    }
}

/// An IIOP profile (CORBA 3.3 part 2, 9.7.2).
///
/// ```text
/// encapsulated: major, minor; host; port; object key; (from 1.1 on) components
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IiopProfile {
    /// The newest GIOP that the server takes.
    pub version: Version,
    /// Host name or address of the server; an IPv6 address is without brackets.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// The object key: what the server knows the object by. Only the server understands it.
    pub key: Vec<u8>,
    /// Further components; not sent in a profile of version 1.0, which has no room for them.
    pub components: Vec<Component>,
}

impl IiopProfile {
    /// The server's code sets; `None` without valid information.
    #[must_use]
    pub fn code_sets(&self) -> Option<CodeSetInfo> {
        CodeSetInfo::from_component(self.component(tag::CODE_SETS)?).ok()
    }

    /// The ORB that made the reference ([`tag::ORB_TYPE`]), such as [`ORB_TYPE_CAMPANILE`](super::ORB_TYPE_CAMPANILE); `None` if not given.
    #[must_use]
    pub fn orb_type(&self) -> Option<u32> {
        Reader::over_encapsulation(&self.component(tag::ORB_TYPE)?.data).ok()?.u32().ok()
    }

    /// The first component with this tag.
    #[must_use]
    pub fn component(&self, tag: u32) -> Option<&Component> {
        self.components.iter().find(|component| component.tag == tag)
    }

    /// Host and port of the profile, then those of its readable [`tag::ALTERNATE_IIOP_ADDRESS`] components.
    #[must_use]
    pub fn addresses(&self) -> Addresses<'_> {
        Addresses { first: Some(self), components: self.components.iter() }
    }

    fn read(mut r: Reader<'_>) -> Result<Self, ReadError> {
        let (_major, minor) = (r.u8()?, r.u8()?);
        // 9.7.2: a minor version above those that are known only adds to the end of the profile.
        let version = Version::from_minor(minor).unwrap_or(Version::V1_2);
        let host = r.text()?;
        let port = r.u16()?;
        let key = r.octets()?.to_owned();
        let components = if version == Version::V1_0 { Vec::new() } else { read_components(&mut r)? };
        Ok(Self { version, host, port, key, components })
    }

    fn write(&self, w: &mut Writer<'_>) {
        let Self { version, host, port, key, components } = self;
        w.u8(1);
        w.u8(version.minor());
        w.string(host);
        w.u16(*port);
        w.octets(key);
        if *version > Version::V1_0 {
            write_components(components, w);
        }
    }
}

/// A tagged component: one more thing to know about a profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// The kind of component; see [`tag`].
    pub tag: u32,
    /// Mostly an encapsulation; see [`Reader::over_encapsulation`].
    pub data: Vec<u8>,
}

impl Component {
    /// Maximum number of components of a profile. One with more is refused.
    pub const COUNT_MAX: u32 = 256;

    /// A component with the ORB that made the reference.
    #[must_use]
    pub fn orb_type(number: u32) -> Self {
        Self::encapsulated(tag::ORB_TYPE, |w| w.u32(number))
    }

    /// Another host and port of the same server.
    #[must_use]
    pub fn alternate_address(host: &str, port: u16) -> Self {
        Self::encapsulated(tag::ALTERNATE_IIOP_ADDRESS, |w| {
            w.string(host);
            w.u16(port);
        })
    }

    /// A component with the output of `contents` as encapsulated data, most significant octet first, so that the same reference has the
    /// same octets wherever it was made.
    #[must_use]
    pub fn encapsulated(tag: u32, contents: impl FnOnce(&mut Writer<'_>)) -> Self {
        Self { tag, data: crate::codeset::encapsulate(crate::cdr::Endian::Big, contents) }
    }
}

/// Hosts and ports of a profile; from [`IiopProfile::addresses`].
#[derive(Clone, Debug)]
pub struct Addresses<'a> {
    first: Option<&'a IiopProfile>,
    components: core::slice::Iter<'a, Component>,
}

impl Iterator for Addresses<'_> {
    type Item = (String, u16);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(profile) = self.first.take() {
            return Some((profile.host.clone(), profile.port));
        }
        self.components.find_map(|component| {
            if component.tag != tag::ALTERNATE_IIOP_ADDRESS {
                return None;
            }
            let mut r = Reader::over_encapsulation(&component.data).ok()?;
            Some((r.text().ok()?, r.u16().ok()?))
        })
    }
}

fn read_components(r: &mut Reader<'_>) -> Result<Vec<Component>, ReadError> {
    let count = r.seq_len(8)?;
    if count > Component::COUNT_MAX {
        return Err(r.error(ReadErrorKind::TooMany { what: "components", count, max: Component::COUNT_MAX }));
    }
    let mut components = Vec::with_capacity(count as usize);
    for _ in 0..count {
        components.push(Component { tag: r.u32()?, data: r.octets()?.to_owned() });
    }
    Ok(components)
}

fn write_components(components: &[Component], w: &mut Writer<'_>) {
    w.length(components.len());
    for Component { tag, data } in components {
        w.u32(*tag);
        w.octets(data);
    }
}

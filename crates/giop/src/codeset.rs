//! Code sets of a connection.
//!
//! CORBA 3.3 part 2, 7.10.2. A server lists in its references the code sets that it understands; the client chooses from them and sends its
//! choice in a service context of its first request. Narrow characters here are ISO 8859-1 or UTF-8, wide ones UTF-16 always.

#[cfg(test)]
mod tests;

use crate::cdr::{CharSet, Encoding, Endian, ReadError, ReadErrorKind, Reader, Writer};
use crate::ior::{Component, tag};
use alloc::vec::Vec;
use core::fmt;

/// Code sets that a server understands: the component [`tag::CODE_SETS`] of its profiles. Numbers are from the OSF registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeSetInfo {
    /// The server's native code set for `char` and `string`; 0 if not given.
    pub char_native: u32,
    /// Other code sets it understands, best first.
    pub char_conversions: Vec<u32>,
    /// The server's native code set for `wchar` and `wstring`; 0 if it has none.
    pub wchar_native: u32,
    /// Other code sets it understands, best first.
    pub wchar_conversions: Vec<u32>,
}

impl CodeSetInfo {
    /// Maximum number of conversions accepted in either list. A longer list is refused.
    pub const CONVERSIONS_MAX: u32 = 256;

    /// The code sets understood here: ISO 8859-1, and UTF-8 on request; UTF-16.
    #[must_use]
    pub fn campanile() -> Self {
        Self::preferring(CharSet::Latin1)
    }

    /// The code sets understood here, with this narrow code set named first. A client that knows both uses the first.
    #[must_use]
    pub fn preferring(native: CharSet) -> Self {
        let other = match native {
            CharSet::Latin1 => CharSet::Utf8,
            CharSet::Utf8 => CharSet::Latin1,
        };
        Self {
            char_native: native.id(),
            char_conversions: Vec::from([other.id()]),
            wchar_native: CharSet::WIDE_ID,
            wchar_conversions: Vec::new(),
        }
    }

    /// Reads the data of a component.
    ///
    /// # Errors
    /// It is a component of another kind, or its data is wrong.
    pub fn from_component(component: &Component) -> Result<Self, ReadError> {
        let mut r = Reader::over_encapsulation(&component.data)?;
        if component.tag != tag::CODE_SETS {
            return Err(r.error(ReadErrorKind::BadValue { what: "TAG_CODE_SETS", value: component.tag }));
        }
        let (char_native, char_conversions) = (r.u32()?, conversions(&mut r)?);
        let (wchar_native, wchar_conversions) = (r.u32()?, conversions(&mut r)?);
        Ok(Self { char_native, char_conversions, wchar_native, wchar_conversions })
    }

    /// The component for a profile.
    #[must_use]
    pub fn to_component(&self) -> Component {
        let Self { char_native, char_conversions, wchar_native, wchar_conversions } = self;
        Component::encapsulated(tag::CODE_SETS, |w| {
            for (native, conversions) in [(char_native, char_conversions), (wchar_native, wchar_conversions)] {
                w.u32(*native);
                w.length(conversions.len());
                conversions.iter().for_each(|&id| w.u32(id));
            }
        })
    }
}

fn conversions(r: &mut Reader<'_>) -> Result<Vec<u32>, ReadError> {
    let count = r.seq_len(4)?;
    if count > CodeSetInfo::CONVERSIONS_MAX {
        let max = CodeSetInfo::CONVERSIONS_MAX;
        return Err(r.error(ReadErrorKind::TooMany { what: "conversion code sets", count, max }));
    }
    (0..count).map(|_| r.u32()).collect()
}

/// Whether a server with this information understands `chars`.
#[must_use]
pub fn supports(info: &CodeSetInfo, chars: CharSet) -> bool {
    info.char_native == chars.id() || info.char_conversions.contains(&chars.id())
}

/// Chooses, as a client, the code set for a connection to a server with this information.
///
/// In the standard's order (7.10.2.6): the server's own set, as conversion is then the client's; ours, if the server converts from it;
/// UTF-8, which a server has to understand if its own set is a part of Unicode. A server without this information gets ISO 8859-1. The
/// service uses this for calls to clients: JacORB reads the text within an Any in its own set, whatever was negotiated.
///
/// # Errors
/// The server's sets, narrow or wide, are neither ours nor parts of Unicode, so that nothing can be assumed of it.
pub fn negotiate(server: Option<&CodeSetInfo>) -> Result<CharSet, Incompatible> {
    choose(server, |info| CharSet::from_id(info.char_native))
}

/// Chooses as [`negotiate`] does, but with UTF-8 first if the server understands it, since ISO 8859-1 lacks most characters. For calls of
/// our own programs to servers.
///
/// # Errors
/// The same as of [`negotiate`].
pub fn negotiate_utf8(server: Option<&CodeSetInfo>) -> Result<CharSet, Incompatible> {
    choose(server, |info| supports(info, CharSet::Utf8).then_some(CharSet::Utf8))
}

fn choose(
    server: Option<&CodeSetInfo>,
    first: impl Fn(&CodeSetInfo) -> Option<CharSet>,
) -> Result<CharSet, Incompatible> {
    let Some(info) = server else {
        return Ok(CharSet::Latin1);
    };
    let wide = info.wchar_native;
    if wide != 0 && !is_unicode_wide(wide) && !info.wchar_conversions.contains(&CharSet::WIDE_ID) {
        return Err(Incompatible { native: wide, wide: true });
    }
    if info.char_native == 0 && info.char_conversions.is_empty() {
        return Ok(CharSet::Latin1);
    }
    if let Some(first) = first(info) {
        return Ok(first);
    }
    if supports(info, CharSet::Latin1) {
        return Ok(CharSet::Latin1);
    }
    if supports(info, CharSet::Utf8) || is_unicode_narrow(info.char_native) {
        return Ok(CharSet::Utf8);
    }
    Err(Incompatible { native: info.char_native, wide: false })
}

/// Whether the registry's number is of ISO 8859, ISO 646 or a form of Unicode.
const fn is_unicode_narrow(id: u32) -> bool {
    matches!(id, 0x0001_0001..=0x0001_002F | 0x0001_0100..=0x0001_010F | 0x0501_0001)
}

/// Whether the registry's number is of UCS-2, UCS-4 or UTF-16.
const fn is_unicode_wide(id: u32) -> bool {
    matches!(id, 0x0001_0100..=0x0001_010F)
}

/// A server has no code set in common with this client: `CODESET_INCOMPATIBLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incompatible {
    /// The server's own set.
    pub native: u32,
    /// Whether the set is that for wide characters.
    pub wide: bool,
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, ours) = if self.wide { ("wide ", "UTF-16") } else { ("", "ISO 8859-1 or UTF-8") };
        write!(
            f,
            "the server's code set for {what}characters is {:#010x}, which {ours} cannot stand in for",
            self.native
        )
    }
}

impl core::error::Error for Incompatible {}

/// Data of the service context [`crate::message::ServiceContexts::CODE_SETS`], with a client's choice.
#[must_use]
pub fn context(chars: CharSet, endian: Endian) -> Vec<u8> {
    encapsulate(endian, |w| {
        w.u32(chars.id());
        w.u32(CharSet::WIDE_ID);
    })
}

/// Reads the data of a code set context. A choice of 0 means none: ISO 8859-1, or no wide characters at all.
///
/// # Errors
/// The data is malformed, or the client chose code sets that are not understood here.
pub fn parse_context(data: &[u8]) -> Result<CharSet, ContextError> {
    let mut r = Reader::over_encapsulation(data).map_err(ContextError::Read)?;
    let narrow = r.u32().map_err(ContextError::Read)?;
    let wide = r.u32().map_err(ContextError::Read)?;
    let chars = if narrow == 0 { Some(CharSet::Latin1) } else { CharSet::from_id(narrow) };
    match (chars, wide) {
        (Some(chars), 0 | CharSet::WIDE_ID) => Ok(chars),
        _ => Err(ContextError::Unsupported { narrow, wide }),
    }
}

/// A service context for code sets that cannot be honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextError {
    /// The context's data is malformed.
    Read(ReadError),
    /// The context's code sets are not understood here: `CODESET_INCOMPATIBLE`.
    Unsupported {
        /// Chosen for `char` and `string`.
        narrow: u32,
        /// Chosen for `wchar` and `wstring`.
        wide: u32,
    },
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "the service context for code sets is wrong: {error}"),
            Self::Unsupported { narrow, wide } => write!(
                f,
                "the client chose the code sets {narrow:#010x} and {wide:#010x}; ISO 8859-1 or UTF-8 and UTF-16 are \
                 understood here"
            ),
        }
    }
}

impl core::error::Error for ContextError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Unsupported { .. } => None,
        }
    }
}

/// The octets of an encapsulation with the output of `contents`.
pub(crate) fn encapsulate(endian: Endian, contents: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut data = Vec::new();
    let mut w = Writer::new(&mut data, Encoding::new(endian));
    w.u8(endian.flag());
    contents(&mut w);
    data
}

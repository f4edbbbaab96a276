//! Display of values for people.

use super::{AnyValue, Value};
use core::fmt;

impl fmt::Display for AnyValue {
    /// The value, as [`Value`] shows itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl fmt::Display for Value {
    /// Displays in one line, such as `{azimuth: 1.5, name: "north", mode: TRACKING}`. Octets are hexadecimal digits behind `0x`, a union
    /// shows its member only, and a `long double` its octets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Void => f.write_str("void"),
            Self::Bool(v) => v.fmt(f),
            Self::Octet(v) => v.fmt(f),
            Self::Char(c) | Self::Wchar(c) => write!(f, "{c:?}"),
            Self::Short(v) => v.fmt(f),
            Self::UShort(v) => v.fmt(f),
            Self::Long(v) => v.fmt(f),
            Self::ULong(v) => v.fmt(f),
            Self::LongLong(v) => v.fmt(f),
            Self::ULongLong(v) => v.fmt(f),
            Self::Float(v) => v.fmt(f),
            Self::Double(v) => v.fmt(f),
            Self::LongDouble(octets) => hex(octets, f),
            Self::String(text) | Self::Wstring(text) => write!(f, "{text:?}"),
            Self::Fixed(text) => f.write_str(text),
            Self::Enum { label, .. } => f.write_str(label),
            Self::Struct { fields, .. } | Self::Exception { fields, .. } => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Self::Union { member: Some((name, value)), .. } => write!(f, "{{{name}: {value}}}"),
            Self::Union { member: None, discriminator, .. } => write!(f, "{{{discriminator}}}"),
            Self::Sequence(values) | Self::Array(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Octets(octets) => hex(octets, f),
            Self::Any(any) => any.fmt(f),
            Self::TypeCode(code) => code.fmt(f),
            Self::Object(ior) if ior.is_nil() => f.write_str("nil"),
            Self::Object(ior) => ior.fmt(f),
        }
    }
}

fn hex(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("0x")?;
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
}

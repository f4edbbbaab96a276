//! JSON as a value of a given type: values written by [`write()`](crate::write::value) are read back unchanged.
//!
//! Nothing is converted with a loss: a number out of range, a missing or unknown member, and an unknown label are errors with the path of
//! the value.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use giop::cdr::{CharSet, Encoding, Endian, Reader, Version, Writer};
use giop::ior::Ior;
use giop::typecode::{Kind, TypeCode, TypeRef, Work};
use giop::value::{AnyValue, Value};
use serde_json::{Map, Value as Json};

use crate::read::{from_json, octets_from_hex};
use crate::strict;

/// Why JSON does not match a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Path of the value: `Wind.samples[3]`.
    pub path: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl core::error::Error for Mismatch {}

/// Maximum elements and members of a value: nested arrays can declare very many in a few words.
const VALUES_MAX: usize = 1 << 24;

/// Reads JSON as a value of a type.
///
/// # Errors
/// The JSON does not match the type. Paths begin with `name`.
pub fn value(json: &Json, of: TypeRef<'_>, name: &str) -> Result<Value, Mismatch> {
    Walk { path: name.to_owned(), left: VALUES_MAX }.value(json, of)
}

/// Parses a command-line value of a type: plain text for a text, a character, a label or octets, and JSON otherwise.
///
/// # Errors
/// The text is not valid JSON.
pub fn json_of_text(text: &str, of: TypeRef<'_>) -> Result<Json, String> {
    let of = of.resolved();
    let is_text = match of.kind() {
        Kind::String | Kind::Wstring | Kind::Char | Kind::Wchar | Kind::Enum | Kind::Fixed | Kind::Object => true,
        Kind::Sequence | Kind::Array => is_octets(of) && !text.starts_with('['),
        Kind::Float | Kind::Double => matches!(text, "NaN" | "Infinity" | "-Infinity"),
        _ => false,
    };
    if is_text && !text.starts_with('"') {
        return Ok(Json::String(text.to_owned()));
    }
    strict::parse(text).map_err(|error| match serde_json::from_str::<Json>(text) {
        Ok(_) => format!("`{text}`: {error}"),
        Err(_) => format!("`{text}` is no value of `{of}`"),
    })
}

/// The member's type on its own.
#[must_use]
pub fn type_of(of: TypeRef<'_>) -> TypeCode {
    let encoding = Encoding { endian: Endian::Little, version: Version::V1_2, chars: CharSet::Utf8 };
    let mut octets = Vec::new();
    of.write(&mut Writer::new(&mut octets, encoding));
    TypeCode::read(&mut Reader::new(&octets, encoding), &mut Work::default()).unwrap_or_default()
}

fn is_octets(of: TypeRef<'_>) -> bool {
    of.content().is_some_and(|content| content.resolved().kind() == Kind::Octet)
}

struct Walk {
    path: String,
    /// Number of values that may still be made.
    left: usize,
}

type Outcome = Result<Value, Mismatch>;

impl Walk {
    fn wrong<T>(&self, reason: impl Into<String>) -> Result<T, Mismatch> {
        Err(Mismatch { path: self.path.clone(), reason: reason.into() })
    }

    /// Reports JSON of another type than expected.
    fn other<T>(&self, json: &Json, wanted: impl fmt::Display) -> Result<T, Mismatch> {
        const SHOWN_MAX: usize = 40;
        let mut shown: String = json.to_string();
        if shown.chars().count() > SHOWN_MAX {
            shown = shown.chars().take(SHOWN_MAX).chain(['…']).collect();
        }
        self.wrong(format!("{shown} is not {wanted}"))
    }

    /// Reads a nested value, at a part of the path.
    fn within(&mut self, part: &str, json: &Json, of: TypeRef<'_>) -> Outcome {
        let length = self.path.len();
        self.path.push_str(part);
        let value = self.value(json, of)?;
        self.path.truncate(length);
        Ok(value)
    }

    fn value(&mut self, json: &Json, of: TypeRef<'_>) -> Outcome {
        let of = of.resolved();
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return self.wrong(format!("a value has {VALUES_MAX} parts at most")),
        }
        Ok(match of.kind() {
            Kind::Null => Value::Null,
            Kind::Void => Value::Void,
            Kind::Boolean => match json {
                Json::Bool(v) => Value::Bool(*v),
                _ => return self.other(json, "true or false"),
            },
            Kind::Octet => Value::Octet(self.whole(json, of)?),
            Kind::Short => Value::Short(self.whole(json, of)?),
            Kind::UShort => Value::UShort(self.whole(json, of)?),
            Kind::Long => Value::Long(self.whole(json, of)?),
            Kind::ULong => Value::ULong(self.whole(json, of)?),
            Kind::LongLong => Value::LongLong(self.whole(json, of)?),
            Kind::ULongLong => Value::ULongLong(self.whole(json, of)?),
            Kind::Float => self.float(json)?,
            Kind::Double => Value::Double(self.double(json)?),
            Kind::Char | Kind::Wchar => self.character(json, of.kind())?,
            Kind::String => Value::String(self.text(json, of)?),
            Kind::Wstring => Value::Wstring(self.text(json, of)?),
            Kind::Fixed => self.fixed(json, of)?,
            Kind::Enum => self.label(json, of)?,
            Kind::Struct | Kind::Exception => self.structure(json, of)?,
            Kind::Union => self.union(json, of)?,
            Kind::Sequence | Kind::Array => return self.list(json, of),
            Kind::Any => Value::Any(Box::new(any(json))),
            Kind::Object => match json {
                Json::Null => Value::Object(Ior::nil()),
                Json::String(text) => match text.parse() {
                    Ok(ior) => Value::Object(ior),
                    Err(_) => return self.other(json, "a reference, IOR:…"),
                },
                _ => return self.other(json, "a reference, IOR:…, or null"),
            },
            kind => return self.wrong(format!("a `{}` cannot be given as JSON", kind.keyword())),
        })
    }

    fn whole<T: TryFrom<i128>>(&self, json: &Json, of: TypeRef<'_>) -> Result<T, Mismatch> {
        let Json::Number(number) = json else { return self.other(json, format_args!("a whole number (`{of}`)")) };
        let exact = |number: f64| {
            // From 2^53 on a double is no longer each whole number that may have been written.
            #[expect(clippy::cast_possible_truncation, reason = "it was looked at before")]
            (number % 1.0 == 0.0 && number.abs() < 9_007_199_254_740_992.0).then_some(number as i128)
        };
        let value = number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .or_else(|| number.as_f64().and_then(exact));
        let Some(value) = value else { return self.other(json, format_args!("a whole number (`{of}`)")) };
        match T::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => self.wrong(format!("{value} is out of the range of `{of}`{}", range(of.kind()))),
        }
    }

    fn double(&self, json: &Json) -> Result<f64, Mismatch> {
        match json {
            Json::Number(number) => number.as_f64().map_or_else(|| self.other(json, "a number"), Ok),
            Json::String(text) => match text.as_str() {
                "NaN" => Ok(f64::NAN),
                "Infinity" => Ok(f64::INFINITY),
                "-Infinity" => Ok(f64::NEG_INFINITY),
                _ => self.other(json, "a number, nor NaN, Infinity or -Infinity"),
            },
            _ => self.other(json, "a number"),
        }
    }

    fn float(&self, json: &Json) -> Outcome {
        let double = self.double(json)?;
        #[expect(clippy::cast_possible_truncation, reason = "a decimal fraction is rounded to what a float has")]
        let float = double as f32;
        if float.is_infinite() && double.is_finite() {
            return self.wrong(format!("{double:?} is out of the range of `float`"));
        }
        Ok(Value::Float(float))
    }

    fn character(&self, json: &Json, kind: Kind) -> Outcome {
        let Json::String(text) = json else { return self.other(json, "one character") };
        let mut chars = text.chars();
        match (chars.next(), chars.next(), kind) {
            (Some(c), None, Kind::Char) if u32::from(c) <= 0xff => Ok(Value::Char(c)),
            (Some(_), None, Kind::Char) => self.other(json, "a character that a `char` can hold"),
            (Some(c), None, _) => Ok(Value::Wchar(c)),
            _ => self.other(json, "one character"),
        }
    }

    fn text(&self, json: &Json, of: TypeRef<'_>) -> Result<String, Mismatch> {
        let Json::String(text) = json else { return self.other(json, "a text") };
        if text.contains('\0') {
            return self.wrong("a text cannot have the character \\u0000 in it");
        }
        let count = text.chars().count();
        match of.bound() {
            Some(bound) if u32::try_from(count).map_or(true, |count| count > bound) => {
                self.wrong(format!("this text has {count} characters; `{of}` has {bound} at most"))
            }
            _ => Ok(text.clone()),
        }
    }

    fn fixed(&self, json: &Json, of: TypeRef<'_>) -> Outcome {
        let text = match json {
            Json::String(text) => text.clone(),
            Json::Number(number) => {
                let text = number.to_string();
                // A double keeps 15 digits of what was written; more may be others than those.
                if number.is_f64() && text.bytes().filter(u8::is_ascii_digit).count() > 15 {
                    return self.wrong(format!("a number of so many digits is given as a text (`{of}`)"));
                }
                text
            }
            _ => return self.other(json, format_args!("a decimal number (`{of}`)")),
        };
        let digits = text.strip_prefix('-').unwrap_or(&text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|octet| octet.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return self.other(json, format_args!("a decimal number (`{of}`)"));
        }
        let scale = usize::try_from(of.scale()).unwrap_or_default();
        let whole_max = usize::from(of.digits()).saturating_sub(scale);
        if fraction.trim_end_matches('0').len() > scale || whole.trim_start_matches('0').len() > whole_max {
            return self.wrong(format!("{text} is out of the range of `{of}`"));
        }
        let fraction: String = fraction.chars().chain(core::iter::repeat('0')).take(scale).collect();
        let sign = if text.starts_with('-') { "-" } else { "" };
        let point = if scale > 0 { "." } else { "" };
        Ok(Value::Fixed(format!("{sign}{whole}{point}{fraction}")))
    }

    fn label(&self, json: &Json, of: TypeRef<'_>) -> Outcome {
        let found = match json {
            Json::String(label) => of.members().position(|member| member.name() == label),
            _ => None,
        };
        match found {
            Some(at) => Ok(enumerator(of, at)),
            None => {
                const LABELS_SHOWN_MAX: usize = 8;
                let labels: Vec<&str> = of.members().take(LABELS_SHOWN_MAX).map(|member| member.name()).collect();
                let more = if of.member_count() > LABELS_SHOWN_MAX { ", …" } else { "" };
                self.other(json, format_args!("a value of `{of}`: {}{more}", labels.join(", ")))
            }
        }
    }

    fn structure(&mut self, json: &Json, of: TypeRef<'_>) -> Outcome {
        let Json::Object(members) = json else { return self.other(json, format_args!("an object (`{of}`)")) };
        let mut fields = Vec::with_capacity(of.member_count().min(members.len()));
        for member in of.members() {
            let Some(json) = members.get(member.name()) else {
                let path = format!("{}.{}", self.path, member.name());
                return Err(Mismatch { path, reason: format!("is missing (`{}`)", member.type_ref()) });
            };
            fields.push((
                member.name().to_owned(),
                self.within(&format!(".{}", member.name()), json, member.type_ref())?,
            ));
        }
        if members.len() > fields.len() {
            self.check_names(members, of, &[])?;
        }
        let type_name = of.name().to_owned();
        Ok(match of.kind() {
            Kind::Exception => Value::Exception { type_name, fields },
            _ => Value::Struct { type_name, fields },
        })
    }

    /// Checks that all members belong to the type or to `others`.
    fn check_names(&self, members: &Map<String, Json>, of: TypeRef<'_>, others: &[&str]) -> Result<(), Mismatch> {
        let is_known = |name: &str| others.contains(&name) || of.members().any(|member| member.name() == name);
        match members.keys().find(|name| !is_known(name)) {
            Some(name) => self.wrong(format!("`{of}` has no member `{name}`")),
            None => Ok(()),
        }
    }

    fn union(&mut self, json: &Json, of: TypeRef<'_>) -> Outcome {
        let (Json::Object(members), Some(switch)) = (json, of.discriminator()) else {
            return self.other(json, format_args!("an object with a discriminator (`{of}`)"));
        };
        let Some(json) = members.get("discriminator") else {
            return self.wrong(format!("`{of}` is an object with a `discriminator` and the member that it chooses"));
        };
        let discriminator = self.within(".discriminator", json, switch)?;
        let number = number_of(&discriminator);
        let labelled = of.members().find(|member| member.label().is_some() && member.label() == number);
        let chosen = labelled.or_else(|| of.member(of.default_index()?));
        let member = match chosen {
            Some(member) => {
                let Some(json) = members.get(member.name()) else {
                    let path = format!("{}.{}", self.path, member.name());
                    return Err(Mismatch { path, reason: format!("is missing (`{}`)", member.type_ref()) });
                };
                let value = self.within(&format!(".{}", member.name()), json, member.type_ref())?;
                Some((member.name().to_owned(), Box::new(value)))
            }
            None => None,
        };
        if members.len() > 1 + usize::from(member.is_some()) {
            return self.wrong("there are more members than the one that the discriminator chooses");
        }
        Ok(Value::Union { type_name: of.name().to_owned(), discriminator: Box::new(discriminator), member })
    }

    fn list(&mut self, json: &Json, of: TypeRef<'_>) -> Outcome {
        let Some(content) = of.content() else { return self.wrong("this type cannot be given as JSON") };
        let octets = match json {
            Json::String(text) if is_octets(of) => match octets_from_hex(text) {
                Ok(octets) => Some(octets),
                Err(reason) => return self.wrong(reason),
            },
            Json::Array(_) => None,
            _ if is_octets(of) => return self.other(json, "a text of hexadecimal digits, nor an array of numbers"),
            _ => return self.other(json, format_args!("an array (`{of}`)")),
        };
        let elements = json.as_array().map(Vec::as_slice).unwrap_or_default();
        let count = octets.as_ref().map_or(elements.len(), Vec::len);
        let (is_array, wanted) = (of.kind() == Kind::Array, u64::from(of.bound().unwrap_or(of.length())));
        if is_array && count as u64 != wanted {
            return self.wrong(format!("there are {count} elements; `{of}` has {wanted}"));
        }
        if !is_array && of.bound().is_some() && count as u64 > wanted {
            return self.wrong(format!("there are {count} elements; `{of}` has {wanted} at most"));
        }
        if let Some(octets) = octets {
            return Ok(Value::Octets(octets));
        }
        let values = elements.iter().enumerate().map(|(at, element)| self.within(&format!("[{at}]"), element, content));
        if is_octets(of) {
            let octets = values.map(|value| value.map(|value| if let Value::Octet(octet) = value { octet } else { 0 }));
            return Ok(Value::Octets(octets.collect::<Result<_, _>>()?));
        }
        let values = values.collect::<Result<_, _>>()?;
        Ok(if is_array { Value::Array(values) } else { Value::Sequence(values) })
    }
}

/// An Any with its type, or a plain value, which determines its own type.
fn any(json: &Json) -> AnyValue {
    match json {
        Json::Object(members) if members.len() == 2 && members.get("type").is_some_and(Json::is_string) => {
            members.get("value").map_or_else(|| from_json(json), from_json)
        }
        _ => from_json(json),
    }
}

fn enumerator(of: TypeRef<'_>, at: usize) -> Value {
    let label = of.member(at).map(|member| member.name().to_owned()).unwrap_or_default();
    Value::Enum { type_name: of.name().to_owned(), label, index: u32::try_from(at).unwrap_or(u32::MAX) }
}

/// A discriminator as a number, as in labels.
fn number_of(value: &Value) -> Option<i64> {
    Some(match value {
        Value::Bool(v) => i64::from(*v),
        Value::Octet(v) => i64::from(*v),
        Value::Char(c) | Value::Wchar(c) => i64::from(u32::from(*c)),
        Value::Short(v) => i64::from(*v),
        Value::UShort(v) => i64::from(*v),
        Value::Long(v) => i64::from(*v),
        Value::ULong(v) => i64::from(*v),
        Value::LongLong(v) => *v,
        Value::ULongLong(v) => v.cast_signed(),
        Value::Enum { index, .. } => i64::from(*index),
        _ => return None,
    })
}

/// The valid range of a kind, in words.
fn range(kind: Kind) -> String {
    let (from, to): (i128, i128) = match kind {
        Kind::Octet => (0, u8::MAX.into()),
        Kind::Short => (i16::MIN.into(), i16::MAX.into()),
        Kind::UShort => (0, u16::MAX.into()),
        Kind::Long => (i32::MIN.into(), i32::MAX.into()),
        Kind::ULong => (0, u32::MAX.into()),
        Kind::LongLong => (i64::MIN.into(), i64::MAX.into()),
        Kind::ULongLong => (0, u64::MAX.into()),
        _ => return String::new(),
    };
    format!(", which is {from} to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write;

    fn wind() -> TypeCode {
        let plain = TypeCode::primitive;
        let state = TypeCode::enumeration("IDL:State:1.0", "State", &["OK", "FAILED"]);
        let place = TypeCode::structure("IDL:Place:1.0", "Place", &[("lat", plain(Kind::Double))]);
        let choice = TypeCode::union(
            "IDL:Choice:1.0",
            "Choice",
            state.clone(),
            &[(Some(0), "number", plain(Kind::Short)), (None, "text", TypeCode::bounded_string(3))],
        );
        TypeCode::structure(
            "IDL:Wind:1.0",
            "Wind",
            &[
                ("speed", plain(Kind::Float)),
                ("n", plain(Kind::Short)),
                ("big", plain(Kind::ULongLong)),
                ("state", TypeCode::alias("IDL:S:1.0", "S", state)),
                ("place", place),
                ("samples", TypeCode::bounded_sequence(plain(Kind::Double), 2)),
                ("raw", TypeCode::sequence(plain(Kind::Octet))),
                ("grid", TypeCode::array(TypeCode::array(plain(Kind::Octet), 2), 1)),
                ("choice", choice),
                ("money", TypeCode::fixed(5, 2)),
                ("c", plain(Kind::Char)),
                ("any", TypeCode::any()),
            ],
        )
    }

    const GOOD: &str = r#"{"speed":1.5,"n":-3,"big":18446744073709551615,"state":"FAILED","place":{"lat":1.25},"samples":[1.0,"NaN"],
        "raw":"cafe","grid":["0102"],"choice":{"discriminator":"OK","number":7},"money":"-1.50","c":"x","any":null}"#;

    fn of(json: &Json) -> Outcome {
        value(json, wind().root(), "Wind")
    }

    #[test]
    fn a_value_is_read_as_it_is_written() {
        let json: Json = serde_json::from_str(GOOD).unwrap();
        let read = of(&json).unwrap();
        let mut written = String::new();
        write::value(&mut written, &read);
        let again: Json = serde_json::from_str(&written).unwrap();
        assert_eq!(again, json);
        // And it can be sent as what it is.
        let any = AnyValue::new(wind(), read);
        let encoding = Encoding { endian: Endian::Little, version: Version::V1_2, chars: CharSet::Utf8 };
        let mut octets = Vec::new();
        any.write(&mut Writer::new(&mut octets, encoding)).unwrap();
        let back = AnyValue::read(&mut Reader::new(&octets, encoding), &mut Work::default()).unwrap();
        assert_eq!(back.to_string(), any.to_string());
        assert_eq!(back.type_code, wind());
    }

    #[test]
    fn what_does_not_fit_is_reported_with_its_path() {
        for (member, json, says) in [
            ("speed", "\"fast\"", "Wind.speed: \"fast\" is not a number"),
            ("speed", "1e39", "Wind.speed: 1e39 is out of the range of `float`"),
            ("n", "40000", "Wind.n: 40000 is out of the range of `short`, which is -32768 to 32767"),
            ("n", "1.5", "Wind.n: 1.5 is not a whole number"),
            ("big", "-1", "Wind.big: -1 is out of the range of `unsigned long long`"),
            ("state", "\"BAD\"", "Wind.state: \"BAD\" is not a value of `State`: OK, FAILED"),
            ("place", "{}", "Wind.place.lat: is missing (`double`)"),
            ("place", r#"{"lat":1,"lon":2}"#, "Wind.place: `Place` has no member `lon`"),
            ("place", "3", "Wind.place: 3 is not an object"),
            ("samples", "[1,2,3]", "Wind.samples: there are 3 elements"),
            ("samples", "[1,true]", "Wind.samples[1]: true is not a number"),
            ("raw", "\"abc\"", "Wind.raw: `abc` is not an even number of hexadecimal digits"),
            ("raw", "[1,256]", "Wind.raw[1]: 256 is out of the range of `octet`"),
            ("grid", "[[1]]", "Wind.grid[0]: there are 1 elements"),
            ("choice", r#"{"number":1}"#, "with a `discriminator`"),
            ("choice", r#"{"discriminator":"OK","text":"x"}"#, "Wind.choice.number: is missing"),
            ("choice", r#"{"discriminator":"FAILED","text":"long"}"#, "Wind.choice.text: this text has 4 characters"),
            ("choice", r#"{"discriminator":"OK","number":1,"text":"x"}"#, "more members than the one"),
            ("money", "12.345678901234567", "Wind.money: a number of so many digits is given as a text"),
            ("big", "9007199254740993.0", "is not a whole number"),
            ("money", "1234.5", "Wind.money: 1234.5 is out of the range"),
            ("money", "\"1.555\"", "out of the range"),
            ("c", "\"鐘\"", "Wind.c: \"鐘\" is not a character that a `char` can hold"),
        ] {
            let mut json_wind: Json = serde_json::from_str(GOOD).unwrap();
            json_wind[member] = serde_json::from_str(json).unwrap();
            let error = of(&json_wind).expect_err(json).to_string();
            assert!(error.contains(says), "{member} {json}: {error}");
        }
    }

    #[test]
    fn texts_of_a_command_line_are_json_where_no_text_is_wanted() {
        let wind = wind();
        let of = |name: &str| wind.root().members().find(|member| member.name() == name).unwrap().type_ref();
        for (name, text, json) in [
            ("speed", "1.5", "1.5"),
            ("speed", "NaN", "\"NaN\""),
            ("state", "OK", "\"OK\""),
            ("raw", "cafe", "\"cafe\""),
            ("raw", "[1]", "[1]"),
            ("samples", "[1,2]", "[1,2]"),
            ("c", "\"x\"", "\"x\""),
        ] {
            assert_eq!(json_of_text(text, of(name)).unwrap().to_string(), json);
        }
        assert_eq!(json_of_text("fast", of("speed")).unwrap_err(), "`fast` is no value of `float`");
        assert_eq!(type_of(of("place")).id(), "IDL:Place:1.0");
    }
}

//! JSON, and values on a command line, as CORBA's values.
//!
//! The notation determines the type: true and false are `boolean`; whole numbers `long`, `long long` or `unsigned long long`, whichever is
//! the first to hold them; other numbers `double`; an array is a sequence of its elements' type, or of any if they differ; an object is a
//! struct. A name may choose another type: `speed:float`.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use serde_json::Value as Json;

use crate::strict;

/// The value of a text on a command line; its type follows from how it is written.
///
/// # Errors
/// The text begins as JSON but is not valid JSON, or it is a number that no type holds.
pub fn inferred(text: &str) -> Result<AnyValue, String> {
    if text.starts_with(['[', '{', '"']) {
        let json = strict::parse(text).map_err(|error| format!("the value is not JSON: {error}"))?;
        return Ok(from_json(&json));
    }
    Ok(match text {
        "true" => true.into(),
        "false" => false.into(),
        _ => number(text)?.unwrap_or_else(|| text.into()),
    })
}

fn number(text: &str) -> Result<Option<AnyValue>, String> {
    // "inf" and "nan" are words here, not numbers.
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    if let Ok(v) = text.parse::<i32>() {
        return Ok(Some(v.into()));
    }
    if let Ok(v) = text.parse::<i64>() {
        return Ok(Some(v.into()));
    }
    if let Ok(v) = text.parse::<u64>() {
        return Ok(Some(v.into()));
    }
    if strict::is_beyond_integers(text) {
        return Err(strict::beyond_integers(text));
    }
    match text.parse::<f64>() {
        Ok(v) if v.is_infinite() => Err(out_of_range(text, "double")),
        Ok(v) => Ok(Some(v.into())),
        Err(_) => Ok(None),
    }
}

fn out_of_range(text: &str, of: &str) -> String {
    format!("{text} is out of the range of `{of}`")
}

/// A JSON number as a CORBA value, typed as [`number`] does.
fn json_number(number: &serde_json::Number) -> AnyValue {
    match (number.as_i64(), number.as_u64()) {
        (Some(v), _) => i32::try_from(v).map_or_else(|_| v.into(), AnyValue::from),
        (None, Some(v)) => v.into(),
        (None, None) => number.as_f64().unwrap_or_default().into(),
    }
}

/// Splits a name that may choose the type of its value, as in `speed:float`. Without a type, `plain` makes the value.
fn named(
    key: &str,
    text: impl FnOnce() -> Result<String, String>,
    plain: impl FnOnce() -> Result<AnyValue, String>,
) -> Result<(&str, AnyValue), String> {
    match key.rsplit_once(':') {
        Some((name, type_name)) => Ok((name, typed(type_name, &text()?)?)),
        None => Ok((key, plain()?)),
    }
}

/// A field of an event as it is typed on a command line: `KEY=VALUE` or `KEY:TYPE=VALUE`.
///
/// # Errors
/// A sentence says what is wrong with the field.
pub fn field(text: &str) -> Result<(String, AnyValue), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("`{text}` is not KEY=VALUE; for example celsius=11.5"));
    };
    let (name, value) =
        named(key, || Ok(value.to_owned()), || inferred(value)).map_err(|reason| format!("`{text}`: {reason}"))?;
    if name.is_empty() {
        return Err(format!("`{text}` has no key; for example celsius=11.5"));
    }
    Ok((name.to_owned(), value))
}

/// A field of an event as a member of a JSON object: `"KEY":VALUE` or `"KEY:TYPE":VALUE`.
///
/// # Errors
/// A sentence says what is wrong with the member.
pub fn member(key: &str, value: &Json) -> Result<(String, AnyValue), String> {
    let text = || match value {
        Json::String(text) => Ok(text.clone()),
        Json::Number(_) | Json::Bool(_) => Ok(value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => Err("a type is chosen for single values only".to_owned()),
    };
    let (name, value) = named(key, text, || Ok(from_json(value))).map_err(|reason| format!("`{key}`: {reason}"))?;
    if name.is_empty() {
        return Err(format!("`{key}` is no name"));
    }
    Ok((name.to_owned(), value))
}

/// Parses the text as a value of the named type.
fn typed(type_name: &str, text: &str) -> Result<AnyValue, String> {
    fn parse<T: core::str::FromStr + Into<AnyValue>>(text: &str, what: &str) -> Result<AnyValue, String> {
        text.parse::<T>().map(Into::into).map_err(|_| format!("`{text}` is not {what}"))
    }
    match type_name {
        "boolean" | "bool" => parse::<bool>(text, "true or false"),
        "octet" => parse::<u8>(text, "a number from 0 to 255"),
        "short" => parse::<i16>(text, "a number from -32768 to 32767"),
        "ushort" => parse::<u16>(text, "a number from 0 to 65535"),
        "long" => parse::<i32>(text, "a number of 32 bits"),
        "ulong" => parse::<u32>(text, "a number of 32 bits without sign"),
        "longlong" => parse::<i64>(text, "a number of 64 bits"),
        "ulonglong" => parse::<u64>(text, "a number of 64 bits without sign"),
        // A number that is too large is read as an infinity, which has words of its own.
        "float" if text.parse::<f32>().is_ok_and(f32::is_infinite) && is_written_in_digits(text) => {
            Err(out_of_range(text, type_name))
        }
        "double" if text.parse::<f64>().is_ok_and(f64::is_infinite) && is_written_in_digits(text) => {
            Err(out_of_range(text, type_name))
        }
        "float" => parse::<f32>(text, "a number"),
        "double" => parse::<f64>(text, "a number"),
        "string" => Ok(text.into()),
        "wstring" => Ok(AnyValue::new(TypeCode::wstring(), Value::Wstring(text.to_owned()))),
        "char" => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) => Ok(AnyValue::new(TypeCode::primitive(Kind::Char), Value::Char(c))),
                _ => Err(format!("`{text}` is not one character")),
            }
        }
        "octets" => octets_from_hex(text).map(octets),
        other => Err(format!(
            "there is no type `{other}`; the types are boolean, octet, char, short, ushort, long, ulong, longlong, \
             ulonglong, float, double, string, wstring and octets"
        )),
    }
}

fn is_written_in_digits(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

/// An octet sequence.
#[must_use]
pub fn octets(octets: Vec<u8>) -> AnyValue {
    AnyValue::new(TypeCode::sequence(TypeCode::primitive(Kind::Octet)), Value::Octets(octets))
}

/// The octets that hexadecimal digits stand for.
///
/// # Errors
/// The text has a character that is no hexadecimal digit, or an odd number of digits.
pub fn octets_from_hex(text: &str) -> Result<Vec<u8>, String> {
    let bad = || {
        let start: String = text.chars().take(40).collect();
        let more = if start.len() < text.len() { "…" } else { "" };
        format!("`{start}{more}` is not an even number of hexadecimal digits")
    };
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(bad)?;
    let pair = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits.chunks(2).map(pair).collect::<Option<_>>().ok_or_else(bad)
}

/// JSON as the nearest CORBA value: an object is a struct, an array a sequence of its elements' type, or of any if they differ. Recurses as
/// deep as the JSON, which its reader bounds.
#[must_use]
pub fn from_json(json: &Json) -> AnyValue {
    match json {
        Json::Null => AnyValue::default(),
        Json::Bool(v) => (*v).into(),
        Json::Number(v) => json_number(v),
        Json::String(v) => v.as_str().into(),
        Json::Array(elements) => sequence(elements.iter().map(from_json).collect()),
        Json::Object(members) => {
            structure(members.iter().map(|(name, member)| (name.clone(), from_json(member))).collect())
        }
    }
}

fn sequence(mut elements: Vec<AnyValue>) -> AnyValue {
    widen(&mut elements);
    let element = match elements.split_first() {
        Some((first, rest)) if rest.iter().all(|other| other.type_code == first.type_code) => first.type_code.clone(),
        _ => {
            let anys = elements.into_iter().map(|element| Value::Any(Box::new(element))).collect();
            return AnyValue::new(TypeCode::sequence(TypeCode::any()), Value::Sequence(anys));
        }
    };
    AnyValue::new(
        TypeCode::sequence(element),
        Value::Sequence(elements.into_iter().map(|element| element.value).collect()),
    )
}

/// Converts numbers of several types to the one that holds them all: `[1, 2.5]` is a sequence of double.
fn widen(elements: &mut [AnyValue]) {
    let all = |test: fn(&Value) -> bool| elements.iter().all(|element| test(&element.value));
    let any = |test: fn(&Value) -> bool| elements.iter().any(|element| test(&element.value));
    let to_double = all(|v| matches!(v, Value::Long(_) | Value::Double(_))) && any(|v| matches!(v, Value::Double(_)));
    let to_long_long =
        all(|v| matches!(v, Value::Long(_) | Value::LongLong(_))) && any(|v| matches!(v, Value::LongLong(_)));
    for element in elements {
        match element.value {
            Value::Long(v) if to_double => *element = f64::from(v).into(),
            Value::Long(v) if to_long_long => *element = i64::from(v).into(),
            _ => {}
        }
    }
}

/// A struct of the members.
#[must_use]
pub fn structure(members: Vec<(String, AnyValue)>) -> AnyValue {
    let types: Vec<(&str, TypeCode)> =
        members.iter().map(|(name, member)| (name.as_str(), member.type_code.clone())).collect();
    // Structs of different shape need different ids: ORBs may take types of the same id for the same.
    let shape = TypeCode::structure("", "", &types).to_string();
    let id = format!("IDL:Campanile/Object_{:016x}:1.0", fnv(shape.as_bytes()));
    let type_code = TypeCode::structure(&id, "Object", &types);
    let fields = members.into_iter().map(|(name, member)| (name, member.value)).collect();
    AnyValue::new(type_code, Value::Struct { type_name: "Object".to_owned(), fields })
}

/// The FNV-1a hash, which is stable between runs.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let (name, value) = field(text).unwrap();
        format!("{name} {} {value}", value.type_code.root())
    }

    #[test]
    fn type_follows_from_how_the_value_is_written() {
        for (text, expected) in [
            ("a=true", "a boolean true"),
            ("a=-3", "a long -3"),
            ("a=2147483648", "a long long 2147483648"),
            ("a=18446744073709551615", "a unsigned long long 18446744073709551615"),
            ("a=11.5", "a double 11.5"),
            ("a=1e3", "a double 1000"),
            ("a=nan", "a string \"nan\""),
            ("a=", "a string \"\""),
            ("a=b=c", "a string \"b=c\""),
            ("a=\"3\"", "a string \"3\""),
            ("a=[1,2]", "a sequence<long> [1, 2]"),
            ("a=[1,5000000000]", "a sequence<long long> [1, 5000000000]"),
            ("a=[1,2.5]", "a sequence<double> [1, 2.5]"),
            ("a=[1,\"x\"]", "a sequence<any> [1, \"x\"]"),
            ("a=[]", "a sequence<any> []"),
            ("a={\"x\":1,\"y\":\"z\"}", "a Object {x: 1, y: \"z\"}"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn a_number_has_the_same_type_in_json_and_on_a_command_line() {
        for text in
            ["0", "-0", "-0.0", "-3", "2147483647", "-2147483649", "18446744073709551615", "1e3", "1e400", "0.1"]
        {
            let Ok(json) = serde_json::from_str::<Json>(text) else { continue };
            assert_eq!(Ok(Some(from_json(&json))), number(&json.to_string()), "{text}");
        }
    }

    #[test]
    fn type_can_be_chosen() {
        for (text, expected) in [
            ("a:string=3", "a string \"3\""),
            ("a:short=3", "a short 3"),
            ("a:octet=255", "a octet 255"),
            ("a:float=0.5", "a float 0.5"),
            ("a:double=inf", "a double inf"),
            ("a:char=x", "a char 'x'"),
            ("a:wstring=鐘", "a wstring \"鐘\""),
            ("a:octets=cafe", "a sequence<octet> 0xcafe"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn type_can_be_chosen_in_json_as_on_a_command_line() {
        for (key, json, text) in [
            ("a:string", "\"3\"", "a:string=3"),
            ("a:short", "3", "a:short=3"),
            ("a:double", "3", "a:double=3"),
            ("a:boolean", "true", "a:boolean=true"),
            ("a:octets", "\"cafe\"", "a:octets=cafe"),
            ("a", "[1,2.5]", "a=[1,2.5]"),
        ] {
            let json: Json = serde_json::from_str(json).unwrap();
            assert_eq!(member(key, &json), field(text));
        }
        for (key, json) in
            [("a:short", "70000"), ("a:float", "1e300"), ("a:color", "1"), ("a:long", "[1]"), (":long", "1"), ("", "1")]
        {
            let json: Json = serde_json::from_str(json).unwrap();
            assert!(member(key, &json).is_err(), "{key}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (text, reason) in [
            ("nonsense", "KEY=VALUE"),
            ("=3", "no key"),
            ("a:short=70000", "32767"),
            ("a:color=red", "the types are"),
            ("a:octets=abc", "hexadecimal"),
            ("a:char=xy", "one character"),
            ("a=[1,", "not JSON"),
            // These became 18446744073709552000 and an infinity without a word.
            ("a=18446744073709551616", "beyond the whole numbers of 64 bits"),
            ("a=[18446744073709551616]", "beyond the whole numbers of 64 bits"),
            ("a=1e400", "out of the range of `double`"),
            ("a:double=1e400", "out of the range of `double`"),
            ("a:float=1e300", "`a:float=1e300`: 1e300 is out of the range of `float`"),
            ("a={\"x\":1,\"x\":2}", "`x` is given twice"),
        ] {
            let error = field(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn structs_of_different_shape_have_different_ids() {
        let id = |text: &str| field(text).unwrap().1.type_code.id().to_owned();
        assert_eq!(id("a={\"x\":1}"), id("b={\"x\":2}"));
        assert_ne!(id("a={\"x\":1}"), id("a={\"y\":1}"));
        assert_ne!(id("a={\"x\":1}"), id("a={\"x\":1.5}"));
    }
}

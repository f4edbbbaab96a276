//! Decimals: two digits in an octet, and the sign in the last half.
//!
//! CORBA 3.3 part 2, 9.3.2.8. The type determines the number of digits and how many of them are behind the point.

use crate::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

const PLUS: u8 = 0xC;
const MINUS: u8 = 0xD;

/// The octets of a decimal of at most `digits` digits.
///
/// The standard wants as many digits as the type has. JacORB leaves leading zeros out, and reads until it meets the sign;
/// as nothing but the sign looks like one, that works for the standard's form too.
#[inline]
pub(crate) fn octets<'a>(reader: &mut Reader<'a>, digits: u16) -> Result<&'a [u8], ReadError> {
    let most = usize::from(digits) / 2 + 1;
    let rest = reader.rest();
    let signed = |octet: &u8| matches!(octet & 0xF, PLUS | MINUS);
    match rest.iter().take(most).position(signed) {
        Some(last) => reader.take(last + 1),
        None if rest.len() < most => reader.take(most),
        None => Err(reader.error(ReadErrorKind::Malformed { what: "a fixed value without a sign" })),
    }
}

/// Reads a decimal of at most `digits` digits as text with `scale` digits behind the point.
pub(super) fn read(reader: &mut Reader<'_>, digits: u16, scale: i16) -> Result<String, ReadError> {
    let wrong = reader.error(ReadErrorKind::Malformed { what: "a fixed value with half octets that are no digits" });
    let octets = octets(reader, digits)?;
    let mut halves: Vec<u8> = octets.iter().flat_map(|octet| [octet >> 4, octet & 0xF]).collect();
    let minus = halves.pop() == Some(MINUS);
    // An even number of digits leaves half an octet over in front.
    let superfluous = halves.len().saturating_sub(usize::from(digits));
    if halves.iter().take(superfluous).any(|half| *half != 0) || halves.iter().any(|digit| *digit > 9) {
        return Err(wrong);
    }
    halves.drain(..superfluous);
    Ok(show(&halves, scale, minus))
}

fn show(digits: &[u8], scale: i16, minus: bool) -> String {
    let behind = usize::from(scale.max(0).unsigned_abs());
    let mut text: Vec<u8> = Vec::new();
    // At least one digit in front of the point.
    text.resize((behind + 1).saturating_sub(digits.len()), b'0');
    text.extend(digits.iter().map(|digit| b'0' + digit));
    text.resize(text.len() + usize::from(scale.min(0).unsigned_abs()), b'0');
    let (whole, fraction) = text.split_at_checked(text.len().saturating_sub(behind)).unwrap_or_default();
    let leading = whole.iter().take(whole.len().saturating_sub(1)).take_while(|digit| **digit == b'0').count();
    let mut shown = String::new();
    shown.push_str(if minus { "-" } else { "" });
    shown.extend(whole.iter().skip(leading).copied().map(char::from));
    if !fraction.is_empty() {
        shown.push('.');
        shown.extend(fraction.iter().copied().map(char::from));
    }
    shown
}

/// Writes decimal text, if it is that and fits. Returns whether it did.
#[must_use]
pub(super) fn write(text: &str, digits: u16, scale: i16, writer: &mut Writer<'_>) -> bool {
    let Some(halves) = halves(text, digits, scale) else {
        return false;
    };
    let (octets, _) = halves.as_chunks::<2>();
    octets.iter().for_each(|[high, low]| writer.u8(high << 4 | low));
    true
}

/// An even number of half octets, digits and sign.
fn halves(text: &str, digits: u16, scale: i16) -> Option<Vec<u8>> {
    let (minus, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let behind = usize::from(scale.max(0).unsigned_abs());
    let zeros = behind.checked_sub(fraction.len())?;
    let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    all.resize(all.len() + zeros, b'0');
    // A negative scale leaves zeros out at the end.
    for _ in 0..scale.min(0).unsigned_abs() {
        if all.pop().is_some_and(|digit| digit != b'0') {
            return None;
        }
    }
    let superfluous = all.len().saturating_sub(usize::from(digits));
    if all.iter().take(superfluous).any(|digit| *digit != b'0') || all.iter().any(|digit| !digit.is_ascii_digit()) {
        return None;
    }
    all.drain(..superfluous);
    let length = usize::from(digits) / 2 * 2 + 1;
    let mut halves = vec![0; length.checked_sub(all.len())?];
    halves.extend(all.iter().map(|digit| digit - b'0'));
    halves.push(if minus { MINUS } else { PLUS });
    Some(halves)
}

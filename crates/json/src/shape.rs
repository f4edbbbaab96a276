//! Number and nesting of a line's values, checked before the line is parsed.

use crate::session::Limits;
use alloc::format;
use alloc::string::String;

/// Scans a line once; an error says which limit it exceeds. Malformed JSON may pass, since its parser refuses that.
pub(crate) fn check(line: &[u8], limits: &Limits) -> Result<(), String> {
    let (mut values, mut depth) = (1_usize, 0_usize);
    let mut octets = line.iter();
    while let Some(octet) = octets.next() {
        match octet {
            b'[' | b'{' => {
                depth += 1;
                values += 1;
            }
            b',' | b':' => values += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => pass_string(&mut octets)?,
            _ => {}
        }
        if depth > limits.depth_max {
            return Err(format!("values lie within each other {} deep at most", limits.depth_max));
        }
        if values > limits.values_max {
            return Err(format!("a line has {} values and names at most", limits.values_max));
        }
    }
    Ok(())
}

/// Advances behind the closing quote.
fn pass_string(octets: &mut core::slice::Iter<'_, u8>) -> Result<(), String> {
    while let Some(octet) = octets.next() {
        match octet {
            b'"' => return Ok(()),
            b'\\' => {
                // Strings end with NUL in CORBA, so that none has one in it.
                if octets.as_slice().starts_with(b"u0000") {
                    return Err("text cannot have the character \\u0000 in it".into());
                }
                octets.next();
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { line_bytes_max: 1000, values_max: 6, depth_max: 3 };

    #[test]
    fn values_and_their_depth_are_bounded_and_what_stands_in_strings_does_not_count() {
        for (line, is_refused) in [
            (r#"{"a":[{}]}"#, false),
            (r#"{"a":[{"b":[]}]}"#, true),
            (r#"[1,2,3,4,5]"#, false),
            (r#"[1,2,3,4,5,6]"#, true),
            (r#"["[[[[{{{{,,,,,::::"]"#, false),
            (r#"["\"[[[[[[[["]"#, false),
            (r#"["\\",[[[[[[[["]"#, true),
            (r#"]]]]]]]]"#, false),
            (r#"["a\u0000b"]"#, true),
            (r#"["a\\u0000b"]"#, false),
            (r#"["a\u0001"]"#, false),
            ("[\"unfinished", false),
            ("[\"unfinished\\", false),
            ("", false),
        ] {
            assert_eq!(check(line.as_bytes(), &LIMITS).is_err(), is_refused, "{line}");
        }
    }

    #[test]
    fn a_line_of_nothing_but_brackets_ends_at_the_limit() {
        for octet in [b'[', b'{', b','] {
            assert!(check(&alloc::vec![octet; 1_000_000], &LIMITS).is_err());
        }
    }
}

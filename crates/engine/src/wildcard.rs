//! Patterns with wildcards: a `*` anywhere stands for any characters or none (OMG Notification Service 1.1, 2.6.5).
//!
//! The subscriber chooses the pattern and the supplier the name, so the time to match is proportional to the length of
//! both together in every case.

use alloc::borrow::Cow;
use alloc::string::String;

/// Whether the pattern matches any text: `""`, `"*"`, `"**"` and so on.
pub(crate) fn is_any(pattern: &str) -> bool {
    pattern.bytes().all(|byte| byte == b'*')
}

/// Whether the pattern has a part between wildcards, so that matching takes time proportional to the text.
pub(crate) fn is_looked_for(pattern: &str) -> bool {
    let between = pattern.split_once('*').and_then(|(_, rest)| rest.rsplit_once('*'));
    between.is_some_and(|(between, _)| !is_any(between))
}

/// Whether `pattern` matches `text`. The empty pattern matches the empty text only: a caller that takes it for
/// everything checks that.
///
/// Parts between two stars are searched from the left, and a part found is never searched again further to the right: if the rest is not
/// found after its first place, it is not found after a later one.
#[must_use]
pub fn matches(pattern: &str, text: &[u8]) -> bool {
    let Some((beginning, rest)) = pattern.split_once('*') else { return pattern.as_bytes() == text };
    let Some(text) = text.strip_prefix(beginning.as_bytes()) else { return false };
    let (between, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_suffix(end.as_bytes()) else { return false };
    between.is_empty() || has_in_order(text, between.split('*').filter(|part| !part.is_empty()))
}

/// Whether the parts are in the text one after the other. The text need not be UTF-8. The parts are: the first byte of a
/// character in them never occurs inside a character or in an invalid sequence, so that each is found where the text is valid.
fn has_in_order<'p>(text: &[u8], mut parts: impl Iterator<Item = &'p str>) -> bool {
    let mut wanted = parts.next();
    for chunk in text.utf8_chunks() {
        let mut sound = chunk.valid();
        while let Some(part) = wanted {
            // Skipped where it is impossible: the search would begin by examining the part itself.
            let found = if part.len() <= sound.len() { sound.split_once(part) } else { None };
            let Some((_, after)) = found else { break };
            sound = after;
            wanted = parts.next();
        }
    }
    wanted.is_none()
}

/// Whether `wide` matches every text that `narrow` matches. A star of `narrow` stands for characters that only a star
/// of `wide` matches: so `wide` has to match `narrow` as it is written.
#[must_use]
pub fn covers(wide: &str, narrow: &str) -> bool {
    matches(wide, narrow.as_bytes())
}

/// Whether no text matches both, as far as their beginnings and ends tell.
pub(crate) fn are_apart(a: &str, b: &str) -> bool {
    let ends = |pattern: &str| {
        let (beginning, rest) = pattern.split_once('*')?;
        Some((beginning.len(), rest.rsplit_once('*').map_or(rest, |(_, end)| end).len()))
    };
    match (ends(a), ends(b)) {
        (None, _) => !matches(b, a.as_bytes()),
        (_, None) => !matches(a, b.as_bytes()),
        (Some((a_beginning, a_end)), Some((b_beginning, b_end))) => {
            let (beginning, end) = (a_beginning.min(b_beginning), a_end.min(b_end));
            let (a, b) = (a.as_bytes(), b.as_bytes());
            a.get(..beginning) != b.get(..beginning) || a.get(a.len() - end..) != b.get(b.len() - end..)
        }
    }
}

/// The pattern with runs of stars reduced to one.
pub(crate) fn canonical(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains("**") {
        return Cow::Borrowed(pattern);
    }
    let mut last = None;
    let squeezed = pattern.chars().filter(|char| last.replace(*char) != Some('*') || *char != '*');
    Cow::Owned(squeezed.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// What the words of the standard say, tried in every way.
    fn naively(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|from| naively(rest, &text[from..])),
            Some((first, rest)) => {
                text.split_first().is_some_and(|(other, text)| first == other && naively(rest, text))
            }
        }
    }

    #[test]
    fn what_is_between_two_stars_is_looked_for() {
        for (pattern, expected) in
            [("a", false), ("*", false), ("**", false), ("a*b", false), ("*a", false), ("a*", false)]
                .into_iter()
                .chain([("*a*", true), ("x*a*y", true), ("***a", false), ("*a**", true)])
        {
            assert_eq!(is_looked_for(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters_wherever_it_is() {
        for (pattern, text, expected) in [
            ("*MA", "ALMA", true),
            ("*MA", "MA", true),
            ("*MA", "ALMAX", false),
            ("W*d", "World", true),
            ("W*d", "Wd", true),
            ("W*d", "W", false),
            ("a*a", "a", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("*b*", "abc", true),
            ("a**c", "ac", true),
            ("*ab*ab*", "ab", false),
            ("*ab*ab*", "abab", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn matches_what_trying_everything_matches() {
        let mut random = fastrand::Rng::with_seed(16);
        let mut matched = 0;
        for _ in 0..200_000 {
            let mut some = |choices: &[&str], most| -> String {
                (0..random.usize(..=most)).map(|_| choices[random.usize(..choices.len())]).collect()
            };
            let (pattern, mut text) = (some(&["a", "b", "*", "é"], 7), some(&["a", "b", "é"], 9).into_bytes());
            // Latin-1, or a character that was cut: not UTF-8.
            if let Some(at) = text.len().checked_sub(3)
                && random.bool()
            {
                text[at] = [0xE9, 0xC3, 0x80, b'*'][random.usize(..4)];
            }
            let expected = naively(pattern.as_bytes(), &text);
            assert_eq!(matches(&pattern, &text), expected, "{pattern:?} {text:?}");
            assert_eq!(matches(&canonical(&pattern), &text), expected, "{pattern:?} {text:?}");
            matched += usize::from(expected);
        }
        assert!((20_000..180_000).contains(&matched), "{matched}");
    }

    #[test]
    fn a_pattern_covers_another_if_it_matches_all_that_this_one_matches() {
        let all = |letters: &[u8], longest: usize| -> Vec<Vec<u8>> {
            let mut texts = Vec::from([Vec::new()]);
            let mut from = 0;
            for _ in 0..longest {
                let new: Vec<Vec<u8>> = texts[from..]
                    .iter()
                    .flat_map(|text| letters.iter().map(|letter| [&text[..], &[*letter]].concat()))
                    .collect();
                from = texts.len();
                texts.extend(new);
            }
            texts
        };
        // The third letter is in no pattern: it stands for all characters that are not.
        let texts = all(b"abz", 6);
        let patterns: Vec<String> = all(b"ab*", 3).into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
        let matched: Vec<Vec<bool>> = patterns
            .iter()
            .map(|pattern| texts.iter().map(|text| naively(pattern.as_bytes(), text)).collect())
            .collect();
        for (a, of_a) in patterns.iter().zip(&matched) {
            for (b, of_b) in patterns.iter().zip(&matched) {
                let within = of_a.iter().zip(of_b).all(|(a, b)| *a || !b);
                assert_eq!(covers(a, b), within, "{a:?} {b:?}");
                let common = of_a.iter().zip(of_b).any(|(a, b)| *a && *b);
                assert!(!(are_apart(a, b) && common), "{a:?} {b:?}");
                assert!(canonical(a) != canonical(b) || of_a == of_b, "{a:?} {b:?}");
                assert!(of_a != of_b || canonical(a) == canonical(b), "{a:?} {b:?}");
            }
        }
    }

    /// A matcher that comes back to each star takes time that doubles with every one: 30 stars against 30 characters held
    /// a lane for minutes. This one would not end within a test.
    #[test]
    fn many_stars_and_a_long_name_take_no_longer_than_both_are_long() {
        let text = "a".repeat(1 << 20);
        let pattern = "*a".repeat(1 << 18) + "*b";
        assert!(!matches(&pattern, text.as_bytes()));
        assert!(!matches(&(String::from("*") + &"a".repeat(1 << 19) + "b*"), text.as_bytes()));
        let faults: Vec<u8> = core::iter::repeat_n([b'a', 0xFF], 1 << 19).flatten().collect();
        assert!(!matches(&pattern, &faults));
        assert!(!matches(&(String::from("*") + &"a".repeat(1 << 19) + "*"), &faults));
    }
}

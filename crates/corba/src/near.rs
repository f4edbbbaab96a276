//! Suggestions of existing names for an unknown one.
//!
//! The work is bounded, since clients can cause it: names of more than 64 letters match nothing, and only names of nearly the same length,
//! up to two letters, are compared letter by letter.

/// Names that differ in so many letters are no slip.
const SLIPS_MAX: usize = 2;
/// Maximum letters of a name that is compared.
const CHARS_MAX: usize = 64;

/// The name in `names` nearest to `given`, if near enough: ignoring case, up to two letters missing, added, changed or swapped, but fewer
/// than half of them.
#[must_use]
pub fn nearest<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).take(CHARS_MAX + 1).collect::<Vec<_>>();
    let wanted = letters(given);
    if wanted.len() > CHARS_MAX {
        return None;
    }
    let alike = names.into_iter().map(|name| (letters(name), name));
    let alike = alike.filter(|(there, _)| there.len().abs_diff(wanted.len()) <= SLIPS_MAX);
    let near = alike.map(|(there, name)| (slips(&wanted, &there), name));
    near.filter(|(slips, _)| *slips <= SLIPS_MAX && slips * 2 < wanted.len())
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// Number of letters missing, added, changed, or swapped with the next one, from `there` to `given` (optimal string alignment).
fn slips(given: &[char], there: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=there.len()).collect();
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
    for (row, letter) in given.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in there.iter().enumerate() {
            let changed = at(&last, column) + usize::from(letter != other);
            let mut least = changed.min(at(&last, column + 1) + 1).min(at(&next, column) + 1);
            let is_swapped =
                column > 0 && given.get(row.wrapping_sub(1)) == Some(other) && there.get(column - 1) == Some(letter);
            if is_swapped {
                least = least.min(at(&before, column - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    at(&last, there.len())
}

/// The nearest name as a question, to append to an error; empty if none is near.
#[must_use]
pub fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(given, names).map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_what_was_meant_and_another_word_nothing() {
        let names = ["HistoryEvents", "HistoryAge", "Weather", "Wind"];
        for (given, meant) in [
            ("HistoryEvent", Some("HistoryEvents")),
            ("historyevents", Some("HistoryEvents")),
            ("Weathr", Some("Weather")),
            ("Waether", Some("Weather")),
            ("Wnid", Some("Wind")),
            ("W", None),
            ("Pressure", None),
            ("", None),
            (&"Weather".repeat(1_000), None),
            (&"W".repeat(65), None),
        ] {
            assert_eq!(nearest(given, names), meant, "{given}");
        }
    }
}

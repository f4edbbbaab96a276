//! Many constraints together say what each says alone.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod event;

use event::Event;
use filter::{Bank, Constraint, Limits, Scratch, Steps, Verdict};
use std::sync::Arc;

fn bank(texts: &[&str]) -> Bank {
    Bank::new(texts.iter().map(|text| Arc::new(Constraint::parse(text, &Limits::default()).unwrap())).collect())
}

const TEXTS: [&str; 8] =
    ["$x == 1", "$x == 2", "", "FALSE", "$missing == 1", "$x < 3 and $s == 'a'", "1 / $zero == 1", "'a' ~ $s"];

#[test]
fn those_that_match_are_reported_by_their_place_and_failures_are_counted() {
    let bank = bank(&TEXTS);
    let mut scratch = Scratch::new();
    let event = Event::parse("any { x = 1, s = \"a\", zero = 0 }");
    let evaluated = bank.evaluate(&event, &mut scratch, &mut Steps::new(10_000));
    assert_eq!((evaluated.matched, evaluated.cut), (&[0, 2, 5, 7][..], false));
    assert!(evaluated.failures >= 1);
    let event = Event::parse("any { x = 2 }");
    let evaluated = bank.evaluate(&event, &mut scratch, &mut Steps::new(10_000));
    assert_eq!((evaluated.matched, evaluated.cut), (&[1, 2][..], false));
}

#[test]
fn an_empty_bank_matches_nothing() {
    let bank = Bank::new(Vec::new());
    assert!(bank.is_empty());
    let mut scratch = Scratch::new();
    let evaluated = bank.evaluate(&Event::nothing(), &mut scratch, &mut Steps::new(0));
    assert_eq!((evaluated.matched.len(), evaluated.cut, evaluated.evaluations), (0, false, 0));
}

#[test]
fn a_cut_bank_matches_nothing_that_it_would_not_match_in_full() {
    let bank = bank(&TEXTS);
    let event = Event::parse("any { x = 1, s = \"a\", zero = 0 }");
    let (mut whole, mut part) = (Scratch::new(), Scratch::new());
    let mut steps = Steps::new(10_000);
    let full = bank.evaluate(&event, &mut whole, &mut steps);
    let taken = 10_000 - steps.left;
    for budget in 0..taken {
        let cut = bank.evaluate(&event, &mut part, &mut Steps::new(budget));
        assert!(cut.cut, "{budget} steps of {taken}");
        assert!(cut.matched.iter().all(|index| full.matched.contains(index)));
    }
    assert!(!bank.evaluate(&event, &mut part, &mut Steps::new(taken + 1)).cut);
}

const CONSTANTS: [&str; 25] = [
    "1",
    "2",
    "2.5",
    "2.0",
    "0",
    "0.0",
    "-0.0",
    "-1",
    "9007199254740993",
    "9007199254740992.0",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "1e300",
    "'a'",
    "'ab'",
    "''",
    "'UP'",
    "'ü'",
    "'eight by'",
    "TRUE",
    "FALSE",
    "UP",
    "DOWN",
    "$y",
];
const VALUES: [&str; 30] = [
    "1",
    "2u",
    "2.5",
    "2.0",
    "0",
    "-0.0",
    "NaN",
    "inf",
    "-1",
    "9007199254740993",
    "9007199254740992.0",
    "9223372036854775807",
    "9223372036854775808u",
    "18446744073709551615u",
    "18446744073709551616.0",
    "\"a\"",
    "\"ab\"",
    "\"\"",
    "latin1\"ü\"",
    "wide\"ü\"",
    "wide\"ab\"",
    "latin1\"eight by\"",
    "wide\"eight by\"",
    "'a'",
    "'ü'",
    "TRUE",
    "UP/1",
    "DOWN/2",
    "[1]",
    "any 1",
];
const MORE: [&str; 7] = ["", "", " and $x > 0", " or $y == 2", " and exist $z", " and $s == 'a'", " and $x < 3"];

fn random_text(rng: &mut fastrand::Rng) -> String {
    let mut one = |of: &[&'static str]| of[rng.usize(..of.len())];
    let (name, constant, more) = (one(&["$x", "$x", "$.x", "$z", "x"]), one(&CONSTANTS), one(&MORE));
    let op = one(&["==", "==", "==", "!=", "<", "<=", ">", ">="]);
    let (left, right) = if one(&["", "exchanged"]).is_empty() { (name, constant) } else { (constant, name) };
    format!("{left} {op} {right}{more}")
}

#[test]
fn random_banks_agree_with_their_constraints() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let constraints: Vec<_> = (0..rng.usize(1..60))
            .map(|_| Arc::new(Constraint::parse(&random_text(&mut rng), &Limits::default()).unwrap()))
            .collect();
        let value = VALUES[rng.usize(..VALUES.len())];
        let event = Event::parse(&format!("any {{ x = {value}, y = 2, s = latin1\"a\" }}"));
        let alone: Vec<u32> = (0..)
            .zip(&constraints)
            .filter(|(_, constraint)| constraint.matches(&event, &mut Steps::new(1_000_000)) == Verdict::Match)
            .map(|(index, _)| index)
            .collect();
        let bank = Bank::new(constraints.clone());
        let mut scratch = Scratch::new();
        let evaluated = bank.evaluate(&event, &mut scratch, &mut Steps::new(1_000_000));
        assert_eq!(evaluated.matched, alone, "{constraints:?} of x = {value}");
    }
}

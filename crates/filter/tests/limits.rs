//! Texts that are too long, too deep or too many: each refused with its limit, none with a crash.

#![expect(clippy::unwrap_used, reason = "a test")]

mod event;

use event::Event;
use filter::{Constraint, ConstraintError, Limits, Reason, Steps, Verdict};

const UNLIMITED: Limits = Limits { bytes_max: u32::MAX, nodes_max: u32::MAX, depth_max: 128 };

fn refused(text: &str, limits: &Limits) -> ConstraintError {
    Constraint::parse(text, limits).map(|_| ()).unwrap_err()
}

fn matches(text: &str, event: &Event) -> Verdict {
    Constraint::parse(text, &UNLIMITED).unwrap().matches(event, &mut Steps::new(u32::MAX))
}

#[test]
fn a_megabyte_is_refused_for_its_length() {
    let text = "$x == 1 and ".repeat(90_000);
    let error = refused(&text, &Limits::default());
    assert_eq!(*error.reason(), Reason::TooLong { bytes: text.len(), bytes_max: 16_384 });
    assert_eq!(error.to_string(), "column 1: the constraint has 1080000 bytes; the limit is 16384");
    assert!(error.caret().to_string().len() < 100);
}

#[test]
fn a_text_at_the_limit_is_accepted_and_one_byte_more_is_not() {
    let limits = Limits { bytes_max: 7, ..Limits::default() };
    assert!(Constraint::parse("$x == 1", &limits).is_ok());
    assert_eq!(*refused("$x == 10", &limits).reason(), Reason::TooLong { bytes: 8, bytes_max: 7 });
}

#[test]
fn ten_thousand_parentheses_are_refused_for_their_depth() {
    for opening in ["(", "not ", "-", "+ ", "not (", "-(", "(($x or "] {
        let error = refused(&opening.repeat(10_000), &UNLIMITED);
        assert_eq!(*error.reason(), Reason::TooDeep { depth_max: 128 }, "{opening}");
    }
    let balanced = format!("{}TRUE{}", "(".repeat(10_000), ")".repeat(10_000));
    let error = refused(&balanced, &UNLIMITED);
    assert_eq!(error.to_string(), "column 129: parentheses and unary operators are nested more than 128 deep");
}

#[test]
fn a_hundred_and_twenty_eight_parentheses_are_accepted_with_every_operator_between() {
    let event = Event::parse("any { t = TRUE, n = 1 }");
    let text = format!("{}TRUE{}", "(".repeat(128), ")".repeat(128));
    assert_eq!(matches(&text, &event), Verdict::Match);
    let every = format!("{}$t{}", "$t and $n == 1 and TRUE == (".repeat(128), ")".repeat(128));
    assert_eq!(matches(&every, &event), Verdict::Match);
    let waiting = format!("{}$t{}", "$t and $n == 1 and $t == (".repeat(64), ")".repeat(64));
    assert_eq!(matches(&waiting, &event), Verdict::Match);
    let joined = format!("{}$t{}", "FALSE or $t and not not (".repeat(42), ")".repeat(42));
    assert_eq!(matches(&joined, &event), Verdict::Match);
}

#[test]
fn operators_that_wait_for_their_right_side_are_limited() {
    let event = Event::parse("any { n = 1 }");
    let nested = |depth: usize| format!("{}$n{} == {}", "$n + (".repeat(depth), ")".repeat(depth), depth + 1);
    assert_eq!(matches(&nested(64), &event), Verdict::Match);
    let error = refused(&nested(65), &UNLIMITED);
    assert_eq!(*error.reason(), Reason::TooManyWaiting { operands_max: 64 });
}

#[test]
fn chains_are_as_long_as_their_text() {
    let event = Event::parse("any { n = 1, t = TRUE, f = FALSE }");
    let chain = |operand: &str, operator: &str| vec![operand; 100_000].join(operator);
    assert_eq!(matches(&format!("{} == 100000", chain("$n", "+")), &event), Verdict::Match);
    assert_eq!(matches(&format!("{} == 1", chain("$n", "*")), &event), Verdict::Match);
    assert_eq!(matches(&format!("100000 == {}", chain("1", "+")), &event), Verdict::Match);
    assert_eq!(matches(&chain("$t", " and "), &event), Verdict::Match);
    assert_eq!(matches(&chain("$f", " or "), &event), Verdict::NoMatch);
    assert_eq!(matches(&chain("$f and $t", " or "), &event), Verdict::NoMatch);
    let constraint = Constraint::parse(&chain("$t", " and "), &UNLIMITED).unwrap();
    assert_eq!(constraint.conjuncts().count(), 100_000);
    assert_eq!(constraint.explain().to_string().lines().count(), 100_003);
    assert_eq!(constraint.cost().best, 3);
}

#[test]
fn a_hundred_thousand_different_fields_are_each_kept_once() {
    let names: Vec<String> = (0..100_000).map(|number| format!("$a{number} or $a{number}")).collect();
    let constraint = Constraint::parse(&names.join(" or "), &UNLIMITED).unwrap();
    assert_eq!(constraint.paths().len(), 100_000);
    assert_eq!(constraint.paths()[99_999].to_string(), "$a99999");
}

#[test]
fn more_nodes_than_allowed_are_refused() {
    let limits = Limits { nodes_max: 7, ..Limits::default() };
    assert_eq!(Constraint::parse("$x == 1 and $y == 2", &limits).unwrap().nodes(), 7);
    let error = refused("$x == 1 and $y == 2 and $z", &limits);
    assert_eq!(error.to_string(), "column 25: there are more than 7 operands and operators");
}

#[test]
fn a_path_of_a_hundred_thousand_parts_is_refused_for_its_length() {
    for part in [".a", ".0", "[0]", "(a)", ".()", ".(1)"] {
        let error = refused(&format!("exist ${}", part.repeat(100_000)), &UNLIMITED);
        assert_eq!(*error.reason(), Reason::PathTooLong { depth_max: 128 }, "{part}");
        assert!(Constraint::parse(&format!("exist ${}", part.repeat(128)), &UNLIMITED).is_ok());
    }
}

#[test]
fn long_strings_and_names_are_no_trouble() {
    let long = "x".repeat(1_000_000);
    let event = Event::parse("any { n = 1 }");
    assert_eq!(matches(&format!("'{long}' == '{long}'"), &event), Verdict::Match);
    assert_eq!(matches(&format!("exist ${long}"), &event), Verdict::NoMatch);
    for text in [format!("$x {long}"), format!("{long}($x)"), format!("{long}.y"), format!("exist {long}[1]")] {
        let found = refused(&text, &UNLIMITED).to_string();
        assert!(found.len() < 200, "{found}");
    }
    assert!(matches!(refused(&"9".repeat(1_000_000), &UNLIMITED).reason(), Reason::NumberTooLarge { .. }));
}

#[test]
fn a_search_in_a_long_string_is_cut_when_the_steps_are_spent() {
    let event = Event::parse(&format!("any {{ s = \"{}\" }}", "ab".repeat(100_000)));
    let constraint = Constraint::parse("'abac' ~ $.s", &UNLIMITED).unwrap();
    assert_eq!(constraint.matches(&event, &mut Steps::new(3_000)), Verdict::Cut);
    assert_eq!(constraint.matches(&event, &mut Steps::new(30_000)), Verdict::NoMatch);
    assert_eq!(matches("'abac' ~ $.s", &Event::nothing()), constraint.matches(&Event::nothing(), &mut Steps::new(100)));
}

#[test]
fn the_place_of_an_error_counts_characters() {
    let error = refused("'Brücke' == 3", &Limits::default());
    assert_eq!(error.column(), 10);
    assert_eq!(error.caret().to_string(), "'Brücke' == 3\n         ^");
    let error = refused("TRUE\n\tand 3", &Limits::default());
    assert_eq!(error.caret().to_string(), "TRUE  and 3\n          ^");
}

use super::{Bank, Scratch};
use crate::constraint::{Constraint, Limits, Steps, Verdict};
use crate::path::{Path, Root};
use crate::text::Text;
use crate::value::{Fields, Value};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;

/// An event with fields by name, which counts how often it is asked for one.
struct Event {
    fields: Vec<(&'static str, Value<'static>)>,
    reads: Cell<u32>,
}

impl Event {
    fn new(fields: Vec<(&'static str, Value<'static>)>) -> Self {
        Self { fields, reads: Cell::new(0) }
    }
}

impl Fields for Event {
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        self.reads.set(self.reads.get() + 1);
        let Root::Name(wanted) = &path.root else { return None };
        let found = self.fields.iter().find(|(name, _)| *name == &**wanted)?;
        steps.take(1).then_some(found.1)
    }

    fn contains(&self, _: &Path, _: &Value<'_>, _: &mut Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}

fn constraint(text: &str) -> Arc<Constraint> {
    Arc::new(Constraint::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn bank(texts: &[String]) -> Bank {
    Bank::new(texts.iter().map(|text| constraint(text)).collect())
}

fn matched(bank: &Bank, event: &Event) -> Vec<u32> {
    let mut scratch = Scratch::new();
    let evaluated = bank.evaluate(event, &mut scratch, &mut Steps::new(u32::MAX));
    assert!(!evaluated.cut);
    evaluated.matched.to_vec()
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn random_value(random: &mut fastrand::Rng) -> Value<'static> {
    match random.u32(..12) {
        0 => Value::Int(random.i64(-2..3)),
        1 => Value::UInt(random.u64(..3)),
        2 => Value::Float(f64::from(random.i32(-4..6)) / 2.0),
        3 => Value::Text(Text::new(["x", "y", "green", "é"][random.usize(..4)])),
        4 => Value::Char(['x', 'y', 'é'][random.usize(..3)]),
        5 => Value::Bool(random.bool()),
        6 => Value::Enum { ordinal: random.u32(..3), name: Text::new(["x", "green"][random.usize(..2)]) },
        7 => Value::Float([f64::NAN, f64::INFINITY, -0.0][random.usize(..3)]),
        8 => Value::UInt([u64::MAX, 1 << 63, 9_007_199_254_740_993][random.usize(..3)]),
        9 => Value::Int([i64::MIN, i64::MAX, 9_007_199_254_740_992][random.usize(..3)]),
        10 => Value::Float([9_007_199_254_740_992.0, 18_446_744_073_709_551_615.0][random.usize(..2)]),
        _ => Value::Composite,
    }
}

fn random_condition(random: &mut fastrand::Rng) -> String {
    const CONSTANTS: [&str; 16] = [
        "0",
        "1",
        "2",
        "-1",
        "0.5",
        "2.0",
        "'x'",
        "'y'",
        "'green'",
        "'é'",
        "TRUE",
        "FALSE",
        "18446744073709551615",
        "9007199254740993",
        "9007199254740992.0",
        "-9223372036854775808",
    ];
    let name = NAMES[random.usize(..NAMES.len())];
    let constant = CONSTANTS[random.usize(..CONSTANTS.len())];
    let op = ["==", "==", "==", "!=", "<", "<=", ">", ">="][random.usize(..8)];
    match random.u32(..10) {
        0 => format!("({} or {})", random_condition(random), random_condition(random)),
        1 => format!("exist ${name}"),
        2 => format!("{constant} {op} ${name}"),
        _ => format!("${name} {op} {constant}"),
    }
}

fn random_constraint(random: &mut fastrand::Rng) -> String {
    let count = random.usize(1..5);
    let conditions: Vec<String> = (0..count).map(|_| random_condition(random)).collect();
    conditions.join(" and ")
}

#[test]
fn finds_exactly_the_constraints_that_match_one_by_one() {
    let (mut matches, mut asked, mut all) = (0, 0, 0);
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let texts: Vec<String> = (0..random.usize(1..200)).map(|_| random_constraint(&mut random)).collect();
        let bank = bank(&texts);
        for _ in 0..20 {
            let with = NAMES.into_iter().filter(|_| random.u32(..5) > 0).collect::<Vec<_>>();
            let event = Event::new(with.into_iter().map(|name| (name, random_value(&mut random))).collect());
            let alone = (0..)
                .zip(&bank.constraints)
                .filter(|(_, one)| matches!(one.matches(&event, &mut Steps::new(u32::MAX)), Verdict::Match));
            let alone: Vec<u32> = alone.map(|(at, _)| at).collect();
            let found = matched(&bank, &event);
            matches += found.len();
            asked += bank.evaluate(&event, &mut Scratch::new(), &mut Steps::new(u32::MAX)).evaluations as usize;
            all += texts.len();
            let text = |at: &u32| texts[*at as usize].clone();
            assert_eq!(
                found.iter().map(text).collect::<Vec<_>>(),
                alone.iter().map(text).collect::<Vec<_>>(),
                "seed {seed}, event {:?}",
                event.fields
            );
        }
    }
    assert!(matches > 10_000 && asked < all / 2, "{matches} of {asked} asked of {all}");
}

#[test]
fn what_is_cut_short_finds_nothing_that_does_not_match() {
    let mut random = fastrand::Rng::with_seed(3);
    let texts: Vec<String> = (0..200).map(|_| random_constraint(&mut random)).collect();
    let bank = bank(&texts);
    let event = Event::new(NAMES.into_iter().map(|name| (name, random_value(&mut random))).collect());
    let all = matched(&bank, &event);
    let mut scratch = Scratch::new();
    let mut cuts = 0;
    for budget in 0..2_000 {
        let evaluated = bank.evaluate(&event, &mut scratch, &mut Steps::new(budget));
        assert!(evaluated.matched.iter().all(|at| all.contains(at)));
        assert!(evaluated.cut || evaluated.matched == all);
        cuts += u32::from(evaluated.cut);
    }
    assert!(cuts > 50, "{cuts}");
}

/// A filter for each of many consumers: `count` antennas, ten thresholds each.
fn antennas(count: usize) -> Bank {
    let texts: Vec<String> =
        (0..count).map(|n| format!("$antenna == 'DV{:03}' and $priority > {}", n / 10, n % 10)).collect();
    bank(&texts)
}

#[test]
fn cost_grows_with_what_can_match_and_not_with_what_is_there() {
    let event = Event::new(alloc::vec![("antenna", Value::Text(Text::new("DV003"))), ("priority", Value::Int(1))]);
    let cost = |count: usize| {
        let bank = antennas(count);
        let mut scratch = Scratch::new();
        let mut steps = Steps::new(u32::MAX);
        event.reads.set(0);
        let evaluated = bank.evaluate(&event, &mut scratch, &mut steps);
        assert_eq!(evaluated.matched, [30]);
        (u32::MAX - steps.left, evaluated.evaluations, event.reads.get())
    };
    // `$priority > 0` matches; the other 9,999 are not asked.
    assert_eq!(cost(100).1, 1);
    assert_eq!(cost(10_000), cost(100));
}

#[test]
fn a_constraint_that_demands_nothing_is_asked_each_time() {
    let texts: Vec<String> = ["TRUE", "FALSE", "", "not exist $a", "$a != 3", "$a < $b"].map(String::from).into();
    let bank = bank(&texts);
    assert_eq!(matched(&bank, &Event::new(Vec::new())), [0, 2, 3]);
    let event = Event::new(alloc::vec![("a", Value::Int(1)), ("b", Value::Float(1.5))]);
    assert_eq!(matched(&bank, &event), [0, 2, 4, 5]);
}

#[test]
fn an_empty_bank_finds_nothing() {
    let mut scratch = Scratch::new();
    let bank = Bank::new(Vec::new());
    let evaluated = bank.evaluate(&Event::new(Vec::new()), &mut scratch, &mut Steps::new(10));
    assert_eq!((evaluated.matched, evaluated.cut, evaluated.evaluations), (&[][..], false, 0));
}

/// Each constraint that comes has a bank of up to 64 made anew. With one of 64 KiB there, of twelve thousand conditions, that kept
/// administration for 2 ms for each of them (112 ms for 64), whichever client the new one was of.
#[test]
fn a_bank_looks_at_few_of_a_constraints_conditions_and_finds_it_by_any() {
    let long = |number: usize| {
        let conditions: Vec<String> = (0..900).map(|n| format!("$f{n} == {}", n + number)).collect();
        conditions.join(" and ")
    };
    let bank = bank(&(0..64).map(long).collect::<Vec<_>>());
    assert_eq!(bank.index.path_count(), 128);
    let deep = format!("{} == 1 and $b == 2", "$a.b".to_owned() + &".c".repeat(100));
    let deep: Vec<String> =
        (0..64).map(|n| format!("{deep} and $c == {n} and $d.e{}.f == 3", ".g".repeat(40))).collect();
    assert_eq!(self::bank(&deep).index.path_count(), 3, "the fourth has more parts than are left");
    // What its first conditions demand does not tell them apart: it is asked.
    let alike: Vec<String> = (0..64)
        .map(|n| format!("{} and $b == {n}", core::array::from_fn::<_, 128, _>(|_| "$a == 1").join(" and ")))
        .collect();
    let event = Event::new(Vec::from([("a", Value::Int(1)), ("b", Value::Int(7))]));
    assert_eq!(matched(&self::bank(&alike), &event), [7]);
    let other = Event::new(Vec::from([("a", Value::Int(2)), ("b", Value::Int(7))]));
    assert!(matched(&self::bank(&alike), &other).is_empty());
}

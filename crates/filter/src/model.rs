//! The language compared with a naive model: random trees, evaluated by plain recursion.
//!
//! A failing seed is printed; `run(seed)` repeats it.

use crate::compile::compile;
use crate::constraint::{Comparison, Conjunct, Constraint, Limits, Steps, Verdict};
use crate::number::Arithmetic;
use crate::parser::parse;
use crate::path::{Label, Part, Path, Root};
use crate::text::{Chars, Text};
use crate::tree::{Id, Node, Printed, Tree};
use crate::value::{Fields, Literal, Value};
extern crate std;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use fastrand::Rng;

/// An event with a field of each kind. Walking costs one step for the root and one for each part.
struct Event;

const NOW: u64 = (7 << 32) + 9;

fn field(path: &str) -> Option<Value<'static>> {
    Some(match path {
        "$i" => Value::Int(3),
        "$big" => Value::Int(i64::MAX),
        "$u" => Value::UInt(u64::MAX),
        "$.d" => Value::Float(3.25),
        "$.nan" => Value::Float(f64::NAN),
        "$zero" => Value::Int(0),
        "$t" => Value::Bool(true),
        "$.f" => Value::Bool(false),
        "$s" => Value::Text(Text::new("abc")),
        "$.latin" => Value::Text(Text { bytes: b"\xFCa", chars: Chars::Latin1 }),
        "$.wide" => Value::Text(Text { bytes: b"\0\xFC\0a", chars: Chars::Utf16Be }),
        "$c" => Value::Char('a'),
        "$e" | "$.e" => Value::Enum { ordinal: 1, name: Text::new("UP") },
        // Its type is `enum { DOWN, UP, e }`.
        "$e._ordinal(DOWN)" | "$.e._ordinal(DOWN)" => Value::Int(0),
        "$e._ordinal(UP)" | "$.e._ordinal(UP)" => Value::Int(1),
        "$e._ordinal(e)" | "$.e._ordinal(e)" => Value::Int(2),
        "$.st" | "$l" | "$un" | "$.un.()" | "$un._d" | "$un.()" | "$other" | "$other._d" => Value::Composite,
        "$l._length" => Value::UInt(3),
        "$l[0]" => Value::Int(1),
        _ => return None,
    })
}

impl Fields for Event {
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        if steps.take(1 + u32::try_from(path.parts.len()).unwrap()) { field(&path.to_string()) } else { None }
    }

    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        if !steps.take(1 + u32::try_from(path.parts.len()).unwrap()) || path.to_string() != "$l" {
            return None;
        }
        needle.equals(&Value::Int(1)).map(|first| first || needle.equals(&Value::Int(3)) == Some(true))
    }

    fn current_time(&self) -> u64 {
        NOW
    }
}

const NAMES: [&str; 15] =
    ["i", "big", "u", "zero", "t", "s", "c", "e", "l", "un", "other", "UP", "DOWN", "missing", "in"];
const MEMBERS: [&str; 9] = ["d", "nan", "f", "latin", "wide", "e", "st", "missing", "_length"];
const TEXTS: [&str; 8] = ["", "a", "abc", "b", "it's \\ a\n\ttest", "ü", "üa", "UP"];
const INTS: [i64; 6] = [0, 1, 2, 3, i64::MAX, 1 << 53];
const FLOATS: [f64; 6] = [0.0, 0.5, 3.25, 3.0, 1e300, 9_223_372_036_854_775_808.0];
const COMPARISONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::Ne, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge];
const OPERATORS: [Arithmetic; 6] = [
    Arithmetic::Add,
    Arithmetic::Subtract,
    Arithmetic::Multiply,
    Arithmetic::Divide,
    Arithmetic::Remainder,
    Arithmetic::Mask,
];

struct Maker {
    rng: Rng,
    tree: Tree,
}

impl Maker {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    fn push(&mut self, node: Node) -> Id {
        self.tree.push(node, 0)
    }

    fn path(&mut self) -> u32 {
        let path = match self.rng.u8(..10) {
            0..=5 => Path { root: Root::Name(self.one(&NAMES).into()), parts: Box::default() },
            6 => {
                let parts: &[&str] = self.one(&[&[][..], &["time"], &["high"], &["time", "low"], &["tdf"]]);
                let parts = parts.iter().map(|name| Part::Member((*name).into())).collect();
                Path { root: Root::CurrentTime, parts }
            }
            7 => Path { root: Root::Event, parts: Box::new([Part::Member(self.one(&MEMBERS).into())]) },
            8 => Path { root: Root::Name("l".into()), parts: Box::new([self.part()]) },
            _ => {
                let length = self.rng.usize(..6);
                let mut parts: Vec<_> = (0..length).map(|_| self.part()).collect();
                let cut = parts.iter().position(|part| matches!(part, Part::Length | Part::Discriminator));
                parts.truncate(cut.map_or(length, |at| at + 1));
                Path { root: Root::Event, parts: parts.into() }
            }
        };
        self.tree.paths.place(path)
    }

    fn part(&mut self) -> Part {
        match self.rng.u8(..10) {
            0 => Part::Member(self.one(&NAMES).into()),
            1 => Part::Position(self.rng.u32(..4)),
            2 => Part::Element(self.rng.u32(..2)),
            3 => Part::Named(self.one(&["x", "in", "with space", "it's"]).into()),
            4 => Part::Discriminator,
            5 => Part::Label(Label::Int(self.rng.i64(-9..9))),
            6 => Part::Label(Label::Char(self.one(&['x', '\'', 'ü']))),
            7 => Part::Label(if self.rng.bool() { Label::Bool(true) } else { Label::Name("RED".into()) }),
            8 => Part::Default,
            _ => Part::Length,
        }
    }

    fn any(&mut self) -> Id {
        let path = self.path();
        let is_name = self.tree.paths.get(path).unwrap().parts.is_empty()
            && matches!(self.tree.paths.get(path).unwrap().root, Root::Name(_))
            && self.rng.bool();
        self.push(if is_name { Node::Name(path) } else { Node::Field(path) })
    }

    fn number(&mut self, depth: u32) -> Id {
        match self.rng.u8(..if depth == 0 { 5 } else { 9 }) {
            0 | 1 => {
                let value = self.one(&INTS);
                self.push(Node::Literal(Literal::Int(value)))
            }
            2 => {
                let value = self.one(&FLOATS);
                self.push(Node::Literal(Literal::Float(value)))
            }
            3 => self.push(Node::Literal(Literal::UInt(u64::MAX))),
            4 => self.any(),
            5 => {
                let operand = self.operand(depth - 1);
                self.push(Node::Negate(operand))
            }
            6 => {
                let operand = self.operand(depth - 1);
                self.push(Node::Plus(operand))
            }
            _ => {
                let left = self.operand(depth - 1);
                let right = self.operand(depth - 1);
                let op = self.one(&OPERATORS);
                self.push(Node::Calculate(op, left, right))
            }
        }
    }

    /// What arithmetic takes.
    fn operand(&mut self, depth: u32) -> Id {
        loop {
            let nodes = self.tree.nodes.len();
            let id = if self.rng.u8(..6) == 0 { self.truth(depth) } else { self.number(depth) };
            if self.tree.kind(id) != crate::Kind::Text {
                return id;
            }
            self.tree.nodes.truncate(nodes);
            self.tree.kinds.truncate(nodes);
            self.tree.offsets.truncate(nodes);
        }
    }

    fn text(&mut self) -> Id {
        loop {
            if self.rng.bool() {
                let text = self.one(&TEXTS);
                return self.push(Node::Literal(Literal::Text(text.into())));
            }
            let path = self.path();
            let node = Node::Field(path);
            let id = self.push(node);
            if self.tree.kind(id) == crate::Kind::Field {
                return id;
            }
            self.tree.nodes.pop();
            self.tree.kinds.pop();
            self.tree.offsets.pop();
        }
    }

    fn truth(&mut self, depth: u32) -> Id {
        if depth == 0 {
            let value = self.rng.bool();
            return self.push(Node::Literal(Literal::Bool(value)));
        }
        let depth = depth - 1;
        match self.rng.u8(..14) {
            0..=2 => {
                let left = self.truth(depth);
                let right = self.truth(depth);
                self.push(Node::And(left, right))
            }
            3..=5 => {
                let left = self.truth(depth);
                let right = self.truth(depth);
                self.push(Node::Or(left, right))
            }
            6 => {
                let operand = self.truth(depth);
                self.push(Node::Not(operand))
            }
            7 | 8 => {
                let op = self.one(&COMPARISONS);
                let (left, right) = match self.rng.u8(..4) {
                    0 => (self.text(), self.text()),
                    1 => (self.truth(depth), self.truth(depth)),
                    2 => (self.any(), self.any()),
                    _ => (self.number(depth), self.number(depth)),
                };
                let group = |kind| match kind {
                    crate::Kind::Character => crate::Kind::Text,
                    kind => kind,
                };
                let kinds = (group(self.tree.kind(left)), group(self.tree.kind(right)));
                if kinds.0 != kinds.1 && kinds.0 != crate::Kind::Field && kinds.1 != crate::Kind::Field {
                    return self.push(Node::Compare(op, left, left));
                }
                self.push(Node::Compare(op, left, right))
            }
            9 => {
                let left = self.text();
                let right = self.text();
                self.push(Node::Substring(left, right))
            }
            10 => {
                let left = if self.rng.bool() { self.any() } else { self.number(depth) };
                let path = self.path();
                self.push(Node::In(left, path))
            }
            11 => {
                let path = self.path();
                self.push(Node::Exist(path))
            }
            12 => {
                let name = self.one(&["un", "other", "missing"]);
                let path = self.tree.paths.place(Path { root: Root::Name(name.into()), parts: Box::default() });
                self.push(Node::Default(path))
            }
            _ => {
                let path = self.tree.paths.place(Path {
                    root: Root::Name(self.rng.choice(["t", "i", "missing"]).unwrap().into()),
                    parts: Box::default(),
                });
                self.push(Node::Field(path))
            }
        }
    }
}

/// A random tree, as the parser would make it.
fn random_tree(seed: u64) -> Tree {
    let mut maker = Maker { rng: Rng::with_seed(seed), tree: Tree::default() };
    let depth = maker.rng.u32(1..6);
    let root = maker.truth(depth);
    let mut tree = Tree::default();
    renumber(&maker.tree, root, &mut tree);
    tree
}

/// The part of a tree below a node, in the order in which the parser makes nodes and meets paths.
fn renumber(from: &Tree, id: Id, to: &mut Tree) -> Id {
    let node = from.node(id).clone();
    let path = |to: &mut Tree, path: u32| to.paths.place(from.paths.get(path).unwrap().clone());
    let node = match node {
        Node::Literal(literal) => Node::Literal(literal),
        Node::Field(index) => Node::Field(path(to, index)),
        Node::Name(index) => Node::Name(path(to, index)),
        Node::Exist(index) => Node::Exist(path(to, index)),
        Node::Default(index) => Node::Default(path(to, index)),
        Node::Not(operand) => Node::Not(renumber(from, operand, to)),
        Node::Negate(operand) => Node::Negate(renumber(from, operand, to)),
        Node::Plus(operand) => Node::Plus(renumber(from, operand, to)),
        Node::In(left, index) => {
            let left = renumber(from, left, to);
            Node::In(left, path(to, index))
        }
        Node::Or(left, right) => Node::Or(renumber(from, left, to), renumber(from, right, to)),
        Node::And(left, right) => Node::And(renumber(from, left, to), renumber(from, right, to)),
        Node::Substring(left, right) => Node::Substring(renumber(from, left, to), renumber(from, right, to)),
        Node::Compare(op, left, right) => Node::Compare(op, renumber(from, left, to), renumber(from, right, to)),
        Node::Calculate(op, left, right) => Node::Calculate(op, renumber(from, left, to), renumber(from, right, to)),
    };
    to.push(node, 0)
}

/// The naive evaluation: `None` is a failure.
fn evaluate(tree: &Tree, id: Id) -> Option<Value<'_>> {
    let truth = |id: Id| match evaluate(tree, id)? {
        Value::Bool(value) => Some(value),
        _ => None,
    };
    let path = |path: u32| tree.paths.get(path).unwrap().to_string();
    Some(match tree.node(id) {
        Node::Literal(literal) => literal.value(),
        Node::Field(index) | Node::Name(index) => look(&path(*index))?,
        Node::Not(operand) => Value::Bool(!truth(*operand)?),
        Node::And(left, right) => Value::Bool(truth(*left)? && truth(*right)?),
        Node::Or(left, right) => Value::Bool(truth(*left)? || truth(*right)?),
        Node::Negate(operand) => match number(tree, *operand)? {
            Value::Float(value) => Value::Float(-value),
            other => integer(-whole(&other)?),
        },
        Node::Plus(operand) => number(tree, *operand)?,
        Node::Calculate(op, left, right) => calculate(*op, number(tree, *left)?, number(tree, *right)?)?,
        Node::Compare(op, left, right) => Value::Bool(compare(tree, *op, *left, *right)?),
        Node::Substring(left, right) => {
            let (left, right) = (characters(evaluate(tree, *left)?)?, characters(evaluate(tree, *right)?)?);
            Value::Bool(right.contains(&left))
        }
        Node::In(left, sequence) => {
            let needle = match tree.node(*left) {
                Node::Name(index) => look(&path(*index)).unwrap_or(Value::Enum { ordinal: 0, name: Text::new("") }),
                _ => evaluate(tree, *left)?,
            };
            let equal = |to: i64| holds(Comparison::Eq, needle, Value::Int(to));
            if path(*sequence) != "$l" {
                return None;
            }
            Value::Bool(equal(1)? || equal(3)?)
        }
        Node::Exist(index) => Value::Bool(look(&path(*index)).is_some()),
        Node::Default(index) => {
            let union = path(*index);
            if field(&(union.clone() + ".()")).is_some() {
                Value::Bool(true)
            } else {
                field(&(union + "._d"))?;
                Value::Bool(false)
            }
        }
    })
}

fn look(path: &str) -> Option<Value<'static>> {
    Some(match path {
        "$curtime" | "$curtime.time" => Value::UInt(NOW),
        "$curtime.high" => Value::Int(7),
        "$curtime.low" | "$curtime.time.low" => Value::Int(9),
        "$curtime.tdf" => Value::Int(0),
        other => return field(other),
    })
}

fn number(tree: &Tree, id: Id) -> Option<Value<'_>> {
    let value = evaluate(tree, id)?;
    Some(match (value, tree.node(id)) {
        (Value::Bool(value), _) => Value::Int(i64::from(value)),
        (Value::Char(c), _) => Value::Int(i64::from(u32::from(c))),
        (Value::Enum { ordinal, .. }, _) => Value::Int(i64::from(ordinal)),
        (Value::Text(text), Node::Literal(_)) => match characters(Value::Text(text))?.chars().collect::<Vec<_>>()[..] {
            [only] => Value::Int(i64::from(u32::from(only))),
            _ => return None,
        },
        (Value::Text(_) | Value::Composite, _) => return None,
        (number, _) => number,
    })
}

fn whole(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::UInt(value) => Some(i128::from(*value)),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "as the language has it")]
fn integer(value: i128) -> Value<'static> {
    if let Ok(value) = i64::try_from(value) {
        Value::Int(value)
    } else if let Ok(value) = u64::try_from(value) {
        Value::UInt(value)
    } else {
        Value::Float(value as f64)
    }
}

#[expect(clippy::cast_precision_loss, reason = "as the language has it")]
fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        Value::Int(value) => Some(*value as f64),
        Value::UInt(value) => Some(*value as f64),
        _ => None,
    }
}

fn calculate(op: Arithmetic, left: Value<'_>, right: Value<'_>) -> Option<Value<'static>> {
    if let (Some(a), Some(b)) = (whole(&left), whole(&right)) {
        let exact = match op {
            Arithmetic::Add => Some(a + b),
            Arithmetic::Subtract => Some(a - b),
            Arithmetic::Multiply => a.checked_mul(b),
            Arithmetic::Divide => Some(a.checked_div(b)?),
            Arithmetic::Remainder => Some(a.checked_rem(b)?),
            Arithmetic::Mask => Some(a & b),
        };
        // Beyond 64 bits, floats are calculated with, not the exact result rounded.
        if let Some(Value::Int(_) | Value::UInt(_)) = exact.map(integer) {
            return exact.map(integer);
        }
    }
    let (a, b) = (float(&left)?, float(&right)?);
    Some(Value::Float(match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide if b != 0.0 => a / b,
        Arithmetic::Remainder if b != 0.0 => a % b,
        _ => return None,
    }))
}

fn characters(value: Value<'_>) -> Option<String> {
    match value {
        Value::Char(c) => Some(c.to_string()),
        Value::Text(Text { bytes, chars: Chars::Utf8 }) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::Text(Text { bytes, chars: Chars::Latin1 }) => Some(bytes.iter().map(|b| char::from(*b)).collect()),
        Value::Text(Text { bytes, .. }) => Some(bytes.chunks(2).map(|unit| char::from(unit[1])).collect()),
        _ => None,
    }
}

fn compare(tree: &Tree, op: Comparison, left: Id, right: Id) -> Option<bool> {
    let name = |id: Id| match tree.node(id) {
        Node::Name(path) => match &tree.paths.get(*path).unwrap().root {
            Root::Name(name) => Some(&**name),
            _ => Some("curtime"),
        },
        _ => None,
    };
    let (one, other) = (evaluate(tree, left), evaluate(tree, right));
    let by_name = matches!(op, Comparison::Eq | Comparison::Ne);
    if !by_name {
        let is_enum = |value: &Option<Value<'_>>| matches!(value, Some(Value::Enum { .. }));
        let ordinal = |enumerator: &str| match enumerator {
            "DOWN" => Some(Value::Int(0)),
            "UP" => Some(Value::Int(1)),
            "e" => Some(Value::Int(2)),
            _ => None,
        };
        return match (name(left), name(right)) {
            (_, Some(enumerator)) if is_enum(&one) => holds(op, one?, ordinal(enumerator)?),
            (Some(enumerator), second) if is_enum(&other) && (second.is_none() || one.is_none()) => {
                holds(op, ordinal(enumerator)?, other?)
            }
            _ => holds(op, one?, other?),
        };
    }
    match (name(left), name(right)) {
        (_, Some(enumerator)) if by_name && matches!(one, Some(Value::Enum { .. })) => {
            holds(op, one?, Value::Text(Text::new(enumerator)))
        }
        (Some(enumerator), second)
            if by_name && matches!(other, Some(Value::Enum { .. })) && (second.is_none() || one.is_none()) =>
        {
            holds(op, other?, Value::Text(Text::new(enumerator)))
        }
        _ => holds(op, one?, other?),
    }
}

fn holds(op: Comparison, left: Value<'_>, right: Value<'_>) -> Option<bool> {
    let equality = match (left, right) {
        (Value::Enum { name, .. }, Value::Enum { name: other, .. } | Value::Text(other))
        | (Value::Text(other), Value::Enum { name, .. }) => {
            Some(characters(Value::Text(name)) == characters(Value::Text(other)))
        }
        _ => None,
    };
    if let (Some(equal), Comparison::Eq | Comparison::Ne) = (equality, op) {
        return Some(equal == (op == Comparison::Eq));
    }
    let ordinal = |value| match value {
        Value::Enum { ordinal, .. } => Value::Int(i64::from(ordinal)),
        other => other,
    };
    let (left, right) = (ordinal(left), ordinal(right));
    let order = match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(&b)),
        (Value::Text(_) | Value::Char(_), Value::Text(_) | Value::Char(_)) => {
            Some(characters(left)?.cmp(&characters(right)?))
        }
        _ => exact_order(&left, &right)?,
    };
    Some(match op {
        Comparison::Eq => order == Some(Ordering::Equal),
        Comparison::Ne => order != Some(Ordering::Equal),
        Comparison::Lt => order == Some(Ordering::Less),
        Comparison::Le => order.is_some_and(Ordering::is_le),
        Comparison::Gt => order == Some(Ordering::Greater),
        Comparison::Ge => order.is_some_and(Ordering::is_ge),
    })
}

/// The order of two numbers, exactly.
#[expect(clippy::cast_possible_truncation, reason = "within the bounds just checked")]
fn exact_order(left: &Value<'_>, right: &Value<'_>) -> Option<Option<Ordering>> {
    Some(match (whole(left), whole(right)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (None, None) => float(left)?.partial_cmp(&float(right)?),
        (None, Some(_)) => exact_order(right, left)?.map(Ordering::reverse),
        (Some(a), None) => match float(right)? {
            b if b.abs() < 1e28 => {
                let floor = b.floor();
                Some(a.cmp(&(floor as i128)).then(if b > floor { Ordering::Less } else { Ordering::Equal }))
            }
            b => 0.0.partial_cmp(&b),
        },
    })
}

fn run(seed: u64) {
    let tree = random_tree(seed);
    let root = tree.root().unwrap();
    let text = Printed(&tree, root).to_string();
    let parsed = parse(&text, &Limits::default()).unwrap_or_else(|error| panic!("seed {seed}: {text}\n{error}"));
    assert_eq!((&parsed.nodes, &parsed.paths), (&tree.nodes, &tree.paths), "seed {seed}: {text}");
    if compile(&tree).is_err() {
        return; // a division by a constant zero
    }
    let constraint = Constraint::parse(&text, &Limits::default()).unwrap();
    let _ = constraint.explain().to_string();
    let mut steps = Steps::new(1_000_000);
    let verdict = constraint.matches(&Event, &mut steps);
    let taken = 1_000_000 - steps.left;
    let expected = match evaluate(&tree, root) {
        Some(Value::Bool(value)) => Some(value),
        _ => None,
    };
    let found = match verdict {
        Verdict::Match => Some(true),
        Verdict::NoMatch => Some(false),
        Verdict::Failed(_) => None,
        Verdict::Cut => panic!("seed {seed}: {text} is cut"),
    };
    assert_eq!(found, expected, "seed {seed}: {text}");
    if let Some(always) = constraint.always() {
        assert_eq!(found, Some(always), "seed {seed}: {text}");
    }
    assert!(taken <= constraint.cost().worst, "seed {seed}: {text} takes {taken} steps");
    assert!(found.is_none() || taken >= constraint.cost().best, "seed {seed}: {text} takes {taken} steps");
    for budget in 0..taken {
        let cut = constraint.matches(&Event, &mut Steps::new(budget));
        assert_eq!(cut, Verdict::Cut, "seed {seed}: {text} with {budget} steps of {taken}");
    }
    assert_eq!(constraint.matches(&Event, &mut Steps::new(taken + 1)), verdict, "seed {seed}: {text}");
    check_conjuncts(&constraint, verdict == Verdict::Match, seed);
}

fn check_conjuncts(constraint: &Constraint, matches: bool, seed: u64) {
    let (mut all, mut others) = (true, constraint.always().is_some());
    for conjunct in constraint.conjuncts() {
        let holds = match conjunct {
            Conjunct::Compare { path, op, constant } => {
                look(&path.to_string()).and_then(|value| value.holds(op, &constant.value())) == Some(true)
            }
            Conjunct::Name { path, op, name } => match look(&path.to_string()) {
                Some(value @ Value::Enum { .. }) => value.holds(op, &Value::Text(Text::new(name))) == Some(true),
                _ => {
                    others = true;
                    true
                }
            },
            Conjunct::Other => {
                others = true;
                true
            }
        };
        all &= holds;
    }
    let text = constraint.text();
    assert!(all || !matches, "seed {seed}: {text} matches though a conjunct does not hold");
    assert!(others || all == matches, "seed {seed}: {text} does not match though its conjuncts hold");
}

#[test]
fn random_constraints_agree_with_a_naive_evaluator_and_with_their_own_text() {
    (0..40_000).for_each(run);
}

#[test]
fn random_texts_are_parsed_or_refused_with_a_place() {
    const WORDS: [&str; 40] = [
        "and", "or", "not", "in", "exist", "default", "TRUE", "$", "$.", "a", "(", ")", "[", "]", ".", "._length",
        "._d", "'x'", "'", "\\", "3", "3.5", "1e5", ".(", ".()", "==", "!=", "<", ">=", "~", "+", "-", "*", "/", "%",
        " ", "é", "\0", "$curtime", "\u{2028}",
    ];
    let mut rng = Rng::with_seed(1);
    for round in 0..60_000 {
        let length = rng.usize(..30);
        let text: String = match round % 2 {
            0 => (0..length).map(|_| WORDS[rng.usize(..WORDS.len())]).collect(),
            _ => (0..length).map(|_| rng.char(..)).collect(),
        };
        if let Err(error) = Constraint::parse(&text, &Limits::default()) {
            assert!(error.column() <= text.chars().count() + 1, "{text:?}: {error}");
            assert!(!error.to_string().is_empty() && error.caret().to_string().ends_with('^'));
        }
    }
}

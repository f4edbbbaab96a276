//! Index of a bank: finds the constraints that can match by looking values up, instead of evaluating each.
//!
//! A constraint that demands `$antenna == 'DV01'` can match only if the event's `antenna` has that value. So all
//! constraints that demand a value of `antenna` are filed under the value, and one look-up finds the candidates. Where
//! many are left they are filed once more, under their next demand. Constraints that demand an order (`$priority > 3`)
//! are sorted by their constants. Constraints without a demand that can be looked up are evaluated each time.
//!
//! A look-up may find more constraints than can match (two constants may share a key), never fewer; all found are evaluated.

use crate::constraint::{Comparison, Conjunct, Constraint, Steps};
use crate::path::Path;
use crate::text::Text;
use crate::value::{Fields, Literal, Value};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Most look-ups in sequence before the remaining constraints are evaluated.
const DEPTH: u32 = 3;
/// Number of constraints up to which they are evaluated rather than looked up.
const FEW: usize = 4;
/// Conditions of one constraint, and parts of their paths, that are considered as demands: a bank is rebuilt with each
/// new constraint, so that one of thousands of conditions must not cost as much each time.
const CONSIDERED: usize = 128;
/// Number of values read once for all look-ups; those at further paths are read for each.
const CACHED: usize = 16;

/// An index over the constraints of a bank.
#[derive(Debug, Default)]
pub(super) struct Index {
    paths: Box<[Path]>,
    root: Node,
}

/// Constraints to be narrowed down to those that can match.
#[derive(Debug, Default)]
struct Node {
    /// Constraints to evaluate, by index in the bank.
    ask: Box<[u32]>,
    equal: Box<[Equal]>,
    ordered: Box<[Ordered]>,
}

/// Constraints that demand a value at one path, by the key of that value.
#[derive(Debug)]
struct Equal {
    path: usize,
    /// Rising keys; apart from the nodes filed under them, so that a search touches little memory.
    keys: Box<[u64]>,
    filed: Box<[Node]>,
}

/// Constraints that demand a number at one path on one side of a constant.
#[derive(Debug)]
struct Ordered {
    path: usize,
    /// Whether the value must be above (or equal to) the constants; otherwise below (or equal).
    above: bool,
    /// Sorted by constant. Among equal constants, bounds that include it are next to the others that it satisfies.
    filed: Box<[(Bound, u32)]>,
}

/// A constant with the side on which a number must be.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    constant: f64,
    /// Whether the constant itself does not match. Only set for constants that are exact.
    strict: bool,
}

/// Demands of one constraint.
#[derive(Debug)]
struct Demands {
    constraint: u32,
    all: Vec<(usize, Demand)>,
}

#[derive(Clone, Copy, Debug)]
enum Demand {
    /// A value with this key.
    Equal(u64),
    /// A number above this bound.
    Above(Bound),
    /// A number below this bound.
    Below(Bound),
}

impl Index {
    pub(super) fn new(constraints: &[Arc<Constraint>]) -> Self {
        let mut paths = Paths::default();
        // Constraints that never match need not be found.
        let possible = (0..).zip(constraints).filter(|(_, constraint)| constraint.always() != Some(false));
        let demands = possible.map(|(at, constraint)| Demands::of(at, constraint, &mut paths)).collect();
        let root = Node::new(demands, DEPTH);
        Self { paths: paths.all.into(), root }
    }

    /// Number of distinct paths.
    #[cfg(test)]
    pub(super) fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Calls `ask` for each constraint that can match, until it returns false.
    pub(super) fn find<F: Fields + ?Sized>(
        &self,
        fields: &F,
        steps: &mut Steps,
        ask: &mut impl FnMut(u32, &mut Steps) -> bool,
    ) -> bool {
        let mut values = Values { fields, paths: &self.paths, read: [None; CACHED] };
        self.root.find(&mut values, steps, ask)
    }
}

impl Node {
    fn new(demands: Vec<Demands>, depth: u32) -> Self {
        if demands.len() <= FEW || depth == 0 {
            return Self { ask: demands.iter().map(|one| one.constraint).collect(), ..Self::default() };
        }
        let telling = how_telling(&demands);
        let rank = |path: usize| telling.get(&path).copied().unwrap_or(0);
        let mut equal: BTreeMap<usize, BTreeMap<u64, Vec<Demands>>> = BTreeMap::new();
        let mut ordered: BTreeMap<(usize, bool), Vec<(Bound, u32)>> = BTreeMap::new();
        let mut ask = Vec::new();
        for mut one in demands {
            let best = one.take_most_telling(rank);
            match best {
                Some((path, Demand::Equal(key))) => {
                    equal.entry(path).or_default().entry(key).or_default().push(one);
                }
                Some((path, Demand::Above(bound))) => {
                    ordered.entry((path, true)).or_default().push((bound, one.constraint));
                }
                Some((path, Demand::Below(bound))) => {
                    ordered.entry((path, false)).or_default().push((bound, one.constraint));
                }
                None => ask.push(one.constraint),
            }
        }
        let equal = equal.into_iter().map(|(path, filed)| {
            let keys = filed.keys().copied().collect();
            Equal { path, keys, filed: filed.into_values().map(|demands| Self::new(demands, depth - 1)).collect() }
        });
        let ordered = ordered.into_iter().map(|((path, above), mut filed)| {
            filed.sort_by(|(a, _), (b, _)| {
                a.constant.total_cmp(&b.constant).then((a.strict == above).cmp(&(b.strict == above)))
            });
            Ordered { path, above, filed: filed.into() }
        });
        Self { ask: ask.into(), equal: equal.collect(), ordered: ordered.collect() }
    }

    /// Returns false as soon as `ask` does.
    fn find<F: Fields + ?Sized>(
        &self,
        values: &mut Values<'_, F>,
        steps: &mut Steps,
        ask: &mut impl FnMut(u32, &mut Steps) -> bool,
    ) -> bool {
        for constraint in &self.ask {
            if !ask(*constraint, steps) {
                return false;
            }
        }
        for equal in &self.equal {
            let value = values.at(equal.path, steps);
            let length = if let Some(Value::Text(text)) = value { text.steps(&text) } else { 0 };
            if !steps.take(1 + length) {
                return false;
            }
            for key in value.map_or([None, None], |value| keys_of(&value)).into_iter().flatten() {
                if let Ok(at) = equal.keys.binary_search(&key)
                    && let Some(node) = equal.filed.get(at)
                    && !node.find(values, steps, ask)
                {
                    return false;
                }
            }
        }
        for ordered in &self.ordered {
            let value = values.at(ordered.path, steps);
            if !steps.take(1) {
                return false;
            }
            for (_, constraint) in ordered.met_by(value.and_then(|value| number_of(&value))) {
                if !ask(*constraint, steps) {
                    return false;
                }
            }
        }
        true
    }
}

impl Ordered {
    /// The conditions that a number meets.
    fn met_by(&self, number: Option<f64>) -> &[(Bound, u32)] {
        // A value that is not a number (or NaN) is on neither side of any constant.
        let Some(number) = number.filter(|number| !number.is_nan()) else { return &[] };
        let may_equal = |bound: &Bound| bound.constant == number && !(bound.strict && is_exact(number));
        let met = if self.above {
            let end = self.filed.partition_point(|(bound, _)| bound.constant < number || may_equal(bound));
            self.filed.get(..end)
        } else {
            let start = self.filed.partition_point(|(bound, _)| bound.constant <= number && !may_equal(bound));
            self.filed.get(start..)
        };
        met.unwrap_or_default()
    }
}

impl Demands {
    fn of(at: u32, constraint: &Constraint, paths: &mut Paths) -> Self {
        let demand = |conjunct| match conjunct {
            Conjunct::Compare { path, op, constant } => Some((path, Demand::of(op, constant)?)),
            // The meaning of a name depends on the event.
            Conjunct::Name { .. } | Conjunct::Other => None,
        };
        let mut left = CONSIDERED;
        let all = constraint.conjuncts().map_while(|conjunct| {
            let parts = match conjunct {
                Conjunct::Compare { path, .. } => path.parts.len(),
                Conjunct::Name { .. } | Conjunct::Other => 0,
            };
            left = left.checked_sub(1 + parts)?;
            Some(demand(conjunct))
        });
        Self { constraint: at, all: all.flatten().map(|(path, demand)| (paths.number(path), demand)).collect() }
    }

    /// Removes the demand that leaves the fewest constraints when it is looked up: a value before an order, at the
    /// path with the most demanded values.
    fn take_most_telling(&mut self, rank: impl Fn(usize) -> usize) -> Option<(usize, Demand)> {
        let telling = |(_, (path, demand)): &(usize, &(usize, Demand))| (demand.is_equal(), rank(*path));
        let (at, _) = self.all.iter().enumerate().max_by_key(telling)?;
        Some(self.all.swap_remove(at))
    }
}

impl Demand {
    fn of(op: Comparison, constant: &Literal) -> Option<Self> {
        let value = constant.value();
        match op {
            // A constant has one key.
            Comparison::Eq => keys_of(&value).into_iter().flatten().next().map(Self::Equal),
            Comparison::Gt | Comparison::Ge => Bound::of(&value, op == Comparison::Gt).map(Self::Above),
            Comparison::Lt | Comparison::Le => Bound::of(&value, op == Comparison::Lt).map(Self::Below),
            // All but one value meet it.
            Comparison::Ne => None,
        }
    }

    fn is_equal(self) -> bool {
        matches!(self, Self::Equal(_))
    }
}

impl Bound {
    fn of(value: &Value<'_>, strict: bool) -> Option<Self> {
        // -0 becomes 0, so that equal constants lie together.
        let constant = number_of(value)? + 0.0;
        Some(Self { constant, strict: strict && is_exact(constant) })
    }
}

/// Number of distinct values demanded at each path.
fn how_telling(demands: &[Demands]) -> BTreeMap<usize, usize> {
    let each = demands.iter().flat_map(|one| &one.all);
    let mut keys: Vec<(usize, u64)> = each
        .filter_map(|(path, demand)| match demand {
            Demand::Equal(key) => Some((*path, *key)),
            Demand::Above(_) | Demand::Below(_) => None,
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let mut counts = BTreeMap::new();
    for (path, _) in keys {
        *counts.entry(path).or_default() += 1;
    }
    counts
}

/// The paths that constraints read, each once.
#[derive(Default)]
struct Paths {
    all: Vec<Path>,
    /// Numbers of the paths, by their text.
    numbers: BTreeMap<String, usize>,
}

impl Paths {
    fn number(&mut self, path: &Path) -> usize {
        let next = self.all.len();
        let number = *self.numbers.entry(path.to_string()).or_insert(next);
        if number == next {
            self.all.push(path.clone());
        }
        number
    }
}

/// Cache of an event's values, each read once.
struct Values<'f, F: ?Sized> {
    fields: &'f F,
    paths: &'f [Path],
    read: [Option<Option<Value<'f>>>; CACHED],
}

impl<'f, F: Fields + ?Sized> Values<'f, F> {
    fn at(&mut self, path: usize, steps: &mut Steps) -> Option<Value<'f>> {
        if let Some(Some(value)) = self.read.get(path) {
            return *value;
        }
        let value = self.fields.field(self.paths.get(path)?, steps);
        if let Some(read) = self.read.get_mut(path) {
            *read = Some(value);
        }
        value
    }
}

/// Keys under which values equal to this one can be filed: equal values share one.
fn keys_of(value: &Value<'_>) -> [Option<u64>; 2] {
    match value {
        Value::Text(text) => [Some(key_of_text(text)), None],
        Value::Char(c) => [Some(key_of_text(&Text::new(c.encode_utf8(&mut [0; 4])))), None],
        // An enumeration value equals the string of its name and the number of its ordinal.
        Value::Enum { name, .. } => [Some(key_of_text(name)), number_of(value).map(key_of_number)],
        Value::Bool(value) => [Some(mix(2, u64::from(*value))), None],
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => [number_of(value).map(key_of_number), None],
        Value::Composite => [None, None],
    }
}

/// An approximation of the number: equal numbers have the same one, and a larger number never a smaller one.
#[expect(clippy::cast_precision_loss, reason = "what is found is asked, and asked exactly")]
fn number_of(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::UInt(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Enum { ordinal, .. } => Some(f64::from(*ordinal)),
        Value::Bool(_) | Value::Char(_) | Value::Text(_) | Value::Composite => None,
    }
}

/// Whether the approximation is exact: the number is not so large that integers are rounded.
fn is_exact(number: f64) -> bool {
    const INTEGERS_EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    number.abs() < INTEGERS_EXACT_BELOW
}

fn key_of_number(number: f64) -> u64 {
    // 0 and -0 are equal.
    mix(1, if number == 0.0 { 0 } else { number.to_bits() })
}

fn key_of_text(text: &Text<'_>) -> u64 {
    if text.chars.is_wide() {
        return key_of_wide(text);
    }
    if !text.bytes.is_ascii() {
        return key_of_characters(text.characters());
    }
    // Equal characters give the same key in any encoding.
    let (words, rest) = text.bytes.as_chunks::<8>();
    let last = rest.iter().fold(1, |word, byte| word << 8 | u64::from(*byte));
    mix(words.iter().fold(0, |key, word| mix(key, u64::from_le_bytes(*word))), last)
}

/// The key that the same characters have in a narrow encoding.
fn key_of_wide(text: &Text<'_>) -> u64 {
    if text.characters().any(|character| character > 0x7F) {
        return key_of_characters(text.characters());
    }
    let (mut key, mut word, mut length) = (0, [0; 8], 0);
    for byte in text.characters().filter_map(|character| u8::try_from(character).ok()) {
        if let Some(place) = word.get_mut(length) {
            *place = byte;
        }
        length += 1;
        if length == word.len() {
            (key, length) = (mix(key, u64::from_le_bytes(word)), 0);
        }
    }
    mix(key, word.iter().take(length).fold(1, |word, byte| word << 8 | u64::from(*byte)))
}

fn key_of_characters(characters: impl Iterator<Item = u32>) -> u64 {
    characters.fold(0, |key, character| mix(key, u64::from(character)))
}

/// Mixes `more` into a key.
fn mix(key: u64, more: u64) -> u64 {
    let stirred = (key ^ more).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    stirred ^ stirred >> 29
}

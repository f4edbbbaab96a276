//! Compilation of a pair of types into the steps of a plan.

use super::number::Number;
use super::{Case, Count, Defaults, Discriminator, Member, Members, Misfit, Plan, Step};
use giop::typecode::{Kind, TypeRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum pairs of types in a plan.
const STEPS_MAX: usize = 65_536;
/// Maximum nesting of types.
const DEPTH_MAX: u32 = 128;

pub(super) fn compile(source: TypeRef<'_>, target: TypeRef<'_>, defaults: &Defaults) -> Result<Plan, Misfit> {
    let mut compiler = Compiler { plan: Plan::empty(), met: HashMap::new(), passed: HashMap::new(), defaults };
    compiler.plan.root = compiler.pair(source, target, 0)?;
    compiler.plan.first_alignment = first_alignment(source, 0);
    Ok(compiler.plan)
}

/// Alignment of the first part of all values of a type.
fn first_alignment(of: TypeRef<'_>, depth: u32) -> usize {
    let of = of.resolved();
    let inner = match of.kind() {
        Kind::Struct => of.member(0).map(|member| member.type_ref()),
        Kind::Array => of.content(),
        Kind::Union => of.discriminator(),
        kind => return alignment(kind),
    };
    match inner {
        Some(inner) if depth < DEPTH_MAX => first_alignment(inner, depth + 1),
        _ => 1,
    }
}

fn alignment(kind: Kind) -> usize {
    match kind.number_layout() {
        Some((_, alignment)) => alignment,
        None => match kind {
            Kind::String | Kind::Wstring | Kind::Sequence | Kind::Object => 4,
            Kind::Any | Kind::TypeCode => 8,
            _ => 1,
        },
    }
}

struct Compiler<'d> {
    plan: Plan,
    /// Index of the step for a pair of types.
    met: HashMap<(u32, u32), usize>,
    /// Index of the step that skips a type of the source.
    passed: HashMap<u32, usize>,
    defaults: &'d Defaults,
}

impl Plan {
    const fn empty() -> Self {
        let steps = Vec::new();
        Self {
            steps,
            root: 0,
            is_same: true,
            lies_alike: true,
            has_text: false,
            has_wide: false,
            alignment: 1,
            first_alignment: 1,
        }
    }
}

impl Misfit {
    fn new(reason: impl Into<String>) -> Self {
        Self { path: String::new(), reason: reason.into() }
    }

    fn within(mut self, name: &str) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{joint}{}", self.path);
        self
    }

    fn of_elements(self) -> Self {
        self.within("[]")
    }

    fn kinds(source: TypeRef<'_>, target: TypeRef<'_>) -> Self {
        Self::new(format!("a {source} cannot be taken for a {target}"))
    }
}

impl Compiler<'_> {
    /// The step for a pair of types.
    fn pair(&mut self, source: TypeRef<'_>, target: TypeRef<'_>, depth: u32) -> Result<usize, Misfit> {
        if depth > DEPTH_MAX {
            return Err(Misfit::new("types within types beyond all measure"));
        }
        let (source, target) = (source.resolved(), target.resolved());
        let key = (source.place(), target.place());
        if let Some(step) = self.met.get(&key) {
            return Ok(*step);
        }
        let index = self.reserve()?;
        self.met.insert(key, index);
        let step = self.step(source, target, depth + 1)?;
        self.place(index, step);
        Ok(index)
    }

    /// The step that skips a type of the source.
    fn pass(&mut self, source: TypeRef<'_>, depth: u32) -> Result<usize, Misfit> {
        let source = source.resolved();
        if let Some(step) = self.passed.get(&source.place()) {
            return Ok(*step);
        }
        let step = self.alone(source, depth)?;
        self.passed.insert(source.place(), step);
        Ok(step)
    }

    /// The step for a type and itself: a separate plan in the same list of steps.
    fn alone(&mut self, of: TypeRef<'_>, depth: u32) -> Result<usize, Misfit> {
        let (plan, met, passed) = (Plan::empty(), HashMap::new(), HashMap::new());
        let mut inner = Self { plan, met, passed, defaults: self.defaults };
        core::mem::swap(&mut inner.plan.steps, &mut self.plan.steps);
        let made = inner.pair(of, of, depth);
        core::mem::swap(&mut inner.plan.steps, &mut self.plan.steps);
        made
    }

    fn reserve(&mut self) -> Result<usize, Misfit> {
        if self.plan.steps.len() >= STEPS_MAX {
            return Err(Misfit::new(format!("the types have more than {STEPS_MAX} parts")));
        }
        self.plan.steps.push(Step::Pending);
        Ok(self.plan.steps.len() - 1)
    }

    fn place(&mut self, index: usize, step: Step) {
        if let Some(place) = self.plan.steps.get_mut(index) {
            *place = step;
        }
    }

    fn step(&mut self, source: TypeRef<'_>, target: TypeRef<'_>, depth: u32) -> Result<Step, Misfit> {
        let (from, to) = (source.kind(), target.kind());
        self.plan.alignment = self.plan.alignment.max(alignment(from));
        if to == Kind::Sequence && target.bound() == Some(1) && !matches!(from, Kind::Sequence | Kind::Array) {
            return self.lift(source, target, depth);
        }
        if let (Some(narrow), Some(wide)) = (Number::of(from), Number::of(to)) {
            return self.number(narrow, wide).ok_or_else(|| Misfit::kinds(source, target));
        }
        match (from, to) {
            (Kind::Null | Kind::Void, Kind::Null | Kind::Void) => Ok(Step::Nothing),
            (Kind::Boolean, Kind::Boolean) => Ok(Step::Bool),
            (Kind::Char, Kind::Char) => {
                self.plan.has_text = true;
                Ok(Step::Char)
            }
            (Kind::Char | Kind::Wchar, Kind::Wchar) => {
                self.plan.is_same &= from == Kind::Wchar;
                self.plan.lies_alike = false;
                self.plan.has_wide |= from == Kind::Wchar;
                Ok(Step::Wchar { from_char: from == Kind::Char })
            }
            (Kind::Char | Kind::Wchar, Kind::String) => {
                self.plan.is_same = false;
                self.plan.has_wide |= from == Kind::Wchar;
                Ok(Step::CharText { from_char: from == Kind::Char, bound: target.bound().unwrap_or(0) })
            }
            (Kind::String | Kind::Wstring, Kind::String | Kind::Wstring) => Ok(self.text(source, target)),
            (Kind::Enum, Kind::Enum) => Ok(self.enumeration(source, target)),
            (Kind::Struct | Kind::Exception, Kind::Struct | Kind::Exception) if from == to => {
                self.structure(source, target, depth)
            }
            (Kind::Sequence | Kind::Array, Kind::Sequence | Kind::Array) => self.elements(source, target, depth),
            (Kind::Union, Kind::Union) => self.union(source, target, depth),
            (Kind::LongDouble, Kind::LongDouble) => Ok(Step::LongDouble),
            (Kind::Fixed, Kind::Fixed) if (source.digits(), source.scale()) == (target.digits(), target.scale()) => {
                self.plan.lies_alike = false;
                Ok(Step::Fixed { octets: usize::from(source.digits()) / 2 + 1 })
            }
            (Kind::Any, Kind::Any) => self.verbatim(Step::Any),
            (Kind::TypeCode, Kind::TypeCode) => self.verbatim(Step::TypeCode),
            (Kind::Object, Kind::Object) => self.verbatim(Step::Object),
            _ if from == to => Err(Misfit::new(format!("values of a {source} are not supported"))),
            _ => Err(Misfit::kinds(source, target)),
        }
    }

    /// A value copied unchanged, but for its encoding.
    fn verbatim(&mut self, step: Step) -> Result<Step, Misfit> {
        self.plan.has_text = true;
        Ok(step)
    }

    fn lift(&mut self, source: TypeRef<'_>, target: TypeRef<'_>, depth: u32) -> Result<Step, Misfit> {
        self.plan.is_same = false;
        let element = target.content().unwrap_or(target);
        Ok(Step::Lift { element: self.pair(source, element, depth)? })
    }

    fn number(&mut self, from: Number, to: Number) -> Option<Step> {
        if from == to {
            return Some(match from {
                Number::U8 => Step::Octet,
                Number::I16 | Number::U16 => Step::Number { size: 2 },
                Number::I32 | Number::U32 | Number::F32 => Step::Number { size: 4 },
                Number::I64 | Number::U64 | Number::F64 => Step::Number { size: 8 },
            });
        }
        self.plan.is_same = false;
        from.widens_to(to).then_some(Step::Widen { from, to })
    }

    fn text(&mut self, source: TypeRef<'_>, target: TypeRef<'_>) -> Step {
        let (from_wide, to_wide) = (source.kind() == Kind::Wstring, target.kind() == Kind::Wstring);
        self.plan.has_text = true;
        self.plan.is_same &= from_wide == to_wide;
        self.plan.lies_alike &= !from_wide;
        self.plan.has_wide |= from_wide;
        Step::Text { from_wide, to_wide, bound: target.bound().unwrap_or(0) }
    }

    fn enumeration(&mut self, source: TypeRef<'_>, target: TypeRef<'_>) -> Step {
        let places: HashMap<&str, u32> = target.members().zip(0..).map(|(member, at)| (member.name(), at)).collect();
        let map: Box<[Option<u32>]> = source.members().map(|member| places.get(member.name()).copied()).collect();
        self.plan.is_same &= map.iter().zip(0..).all(|(to, at)| *to == Some(at));
        let labels = source.members().map(|member| member.name().into()).collect();
        Step::Enum { name: target.name().into(), map, labels }
    }

    fn structure(&mut self, source: TypeRef<'_>, target: TypeRef<'_>, depth: u32) -> Result<Step, Misfit> {
        let mut places = HashMap::new();
        for (member, at) in source.members().zip(0..) {
            places.entry(member.name()).or_insert(at);
        }
        let (mut wanted, mut in_order, mut last) = (Vec::new(), true, None);
        for member in target.members() {
            let found: Option<usize> = places.get(member.name()).copied();
            let step = match found.and_then(|at| source.member(at)) {
                Some(from) => {
                    self.pair(from.type_ref(), member.type_ref(), depth).map_err(|m| m.within(member.name()))?
                }
                None => {
                    let default = self.defaults.of(target.id(), member.name());
                    let made = self.absent(source, member.type_ref(), default, depth);
                    made.map_err(|misfit| misfit.within(member.name()))?
                }
            };
            in_order &= found.is_some() && found > last;
            last = found;
            wanted.push((found, Member { name: member.name().into(), step, is_extra: false }));
        }
        let taken: HashSet<usize> = wanted.iter().filter_map(|(found, _)| *found).collect();
        self.plan.is_same &= in_order && wanted.len() == source.member_count();
        let mut steps: HashMap<usize, usize> = HashMap::new();
        if in_order {
            steps.extend(wanted.iter().filter_map(|(found, member)| found.map(|at| (at, member.step))));
        }
        let mut all = Vec::new();
        for (member, at) in source.members().zip(0..) {
            let step = match steps.get(&at) {
                Some(step) => *step,
                None => self.pass(member.type_ref(), depth).map_err(|misfit| misfit.within(member.name()))?,
            };
            all.push(Member { name: member.name().into(), step, is_extra: !in_order || !taken.contains(&at) });
        }
        let target = (!in_order).then(|| wanted.into());
        Ok(Step::Struct(Box::new(Members { source: all.into(), target })))
    }

    /// The step for a member that the source lacks.
    fn absent(
        &mut self,
        source: TypeRef<'_>,
        member: TypeRef<'_>,
        default: Option<&Arc<[u8]>>,
        depth: u32,
    ) -> Result<usize, Misfit> {
        let member = member.resolved();
        if let Some(octets) = default {
            let value = self.alone(member, depth)?;
            let index = self.reserve()?;
            self.place(index, Step::Default { octets: octets.clone(), value });
            return Ok(index);
        }
        if member.kind() == Kind::Sequence && member.bound() == Some(1) {
            let index = self.reserve()?;
            self.place(index, Step::Absent);
            return Ok(index);
        }
        Err(Misfit::new(format!("missing: {} has no such member", whole(source))))
    }

    fn elements(&mut self, source: TypeRef<'_>, target: TypeRef<'_>, depth: u32) -> Result<Step, Misfit> {
        let count = |of: TypeRef<'_>| match of.kind() {
            Kind::Array => Count::Fixed(of.length()),
            _ => Count::Written { bound: of.bound().unwrap_or(0) },
        };
        let (from, to) = (count(source), count(target));
        match (from, to) {
            (Count::Fixed(a), Count::Fixed(b)) if a != b => {
                return Err(Misfit::new(format!("an array of {a} cannot be taken for one of {b}")));
            }
            (Count::Fixed(a), Count::Written { bound }) if bound > 0 && a > bound => {
                return Err(Misfit::new(format!("an array of {a} is beyond a sequence of at most {bound}")));
            }
            _ => {}
        }
        let same =
            matches!((from, to), (Count::Fixed(_), Count::Fixed(_)) | (Count::Written { .. }, Count::Written { .. }));
        self.plan.is_same &= same;
        let (inner, outer) = (source.content().unwrap_or(source), target.content().unwrap_or(target));
        let element = self.pair(inner, outer, depth).map_err(Misfit::of_elements)?;
        Ok(Step::Elements { element, from, to })
    }

    fn union(&mut self, source: TypeRef<'_>, target: TypeRef<'_>, depth: u32) -> Result<Step, Misfit> {
        let (Some(from), Some(to)) = (source.discriminator(), target.discriminator()) else {
            return Err(Misfit::kinds(source, target));
        };
        let (from, to) = (from.resolved(), to.resolved());
        let discriminator = match from.kind() {
            Kind::Boolean => Discriminator::Bool,
            Kind::Char => Discriminator::Octet,
            Kind::Enum => Discriminator::Enum(u32::try_from(from.member_count()).unwrap_or(u32::MAX)),
            kind => match Number::of(kind) {
                Some(number) if !matches!(number, Number::F32 | Number::F64) => Discriminator::Number(number),
                _ => return Err(Misfit::new(format!("unions discriminated by a {from} are not supported"))),
            },
        };
        let labels = |of: TypeRef<'_>| of.members().map(|member| member.name().to_owned()).collect::<Vec<_>>();
        let same_switch = from.kind() == to.kind() && (from.kind() != Kind::Enum || labels(from) == labels(to));
        let cases = || source.members().zip(target.members());
        let same_cases = source.member_count() == target.member_count()
            && cases().all(|(a, b)| a.name() == b.name() && a.label() == b.label());
        if !same_switch || !same_cases {
            return Err(Misfit::new(format!("{} and {} have other cases", whole(source), whole(target))));
        }
        let mut made = Vec::new();
        for (from, to) in cases() {
            let step = self.pair(from.type_ref(), to.type_ref(), depth).map_err(|misfit| misfit.within(from.name()))?;
            made.push(Case { label: from.label(), name: from.name().into(), step });
        }
        Ok(Step::Union { discriminator, cases: made.into(), default: source.default_index() })
    }
}

/// A type's name in an error message.
fn whole(of: TypeRef<'_>) -> String {
    match of.name() {
        "" => "what came".to_owned(),
        name => name.to_owned(),
    }
}

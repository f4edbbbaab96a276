//! A constraint as a program, and its evaluation.
//!
//! The program works on one value, the *accumulator*; the value of an operator's left side waits on a small stack of
//! fixed size while the right side is computed. The common conditions, a field against a constant, are one instruction
//! and need no stack. `and` and `or` are jumps over what need not be evaluated. There is no recursion and no allocation,
//! and the program only ever runs forward, so that its length bounds the evaluation even without its step budget.

use crate::constraint::{Comparison, Failure, FailureKind, Steps, Verdict};
use crate::number::{Arithmetic, Number};
use crate::path::{Part, Path, Root};
use crate::text::Text;
use crate::value::{Fields, Literal, Value};
use alloc::boxed::Box;

/// Largest stack, in values.
pub(crate) const STACK_MAX: u32 = 64;
/// A stack for nearly every constraint, so that a large one need not be cleared for each evaluation.
const STACK_SMALL: usize = 4;

/// One instruction. Paths and targets are indices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// Compares a field, which is at that offset of the text, with a constant.
    Test {
        path: u32,
        op: Comparison,
        constant: Literal,
        at: u32,
    },
    /// Compares a field with a name by `==` or `!=`: an enumerator beside an enumeration value, otherwise a field.
    TestName {
        path: u32,
        equal: bool,
        name: Box<str>,
        field: u32,
        at: u32,
    },
    /// Compares a field with a name by order: an enumerator of its type if it is an enumeration value, otherwise a field.
    OrderName {
        path: u32,
        op: Comparison,
        /// Path of the name's ordinal in the field's type.
        ordinal: u32,
        field: u32,
        at: u32,
    },
    /// Loads a field into the accumulator.
    Field(u32),
    /// Loads a constant into the accumulator.
    Constant(Literal),
    /// Pushes the accumulator.
    Push,
    /// Compares the popped value with the accumulator.
    Compare(Comparison),
    /// Compares the accumulator with a constant.
    CompareConstant(Comparison, Literal),
    /// Compares the accumulator with a name: an enumerator beside an enumeration value, otherwise a field.
    CompareName(Comparison, u32),
    /// Compares two names by `==` or `!=`: either may be a field, and the other an enumerator of its type.
    CompareNames(Comparison, u32, u32),
    /// Compares two names by order, each with the path of the other's ordinal in its type.
    OrderNames {
        op: Comparison,
        left: u32,
        right: u32,
        in_left: u32,
        in_right: u32,
    },
    /// Calculates with the popped value and the accumulator.
    Calculate(Arithmetic),
    /// Calculates with the accumulator and a constant.
    CalculateConstant(Arithmetic, Literal),
    Negate,
    /// Converts the accumulator to a number.
    Plus,
    Not,
    /// Fails unless the accumulator is true or false.
    Truth,
    JumpIfFalse(u32),
    JumpIfTrue(u32),
    Exist(u32),
    /// Whether a union selects its default member: paths of that member, and of the discriminator.
    Default(u32, u32),
    /// Whether the sequence at this path has an element equal to the accumulator.
    In(u32),
    /// Whether a sequence has an element equal to a name, which is a field or an enumerator.
    NameIn(u32, u32),
    /// Whether the popped text is part of the accumulator.
    Substring,
    /// Whether the constant is part of the accumulator.
    ConstantSubstring(Literal),
}

/// A compiled constraint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Box<[Op]>,
    /// Offset in the text of each instruction.
    pub(crate) offsets: Box<[u32]>,
    pub(crate) paths: Box<[Path]>,
    /// Stack needed, in values.
    pub(crate) stack: u32,
}

/// Reason for which an instruction stopped.
enum Stop {
    Failed(FailureKind),
    /// The event has no such field; offset of the field in the text.
    Missing(u32),
    Cut,
}

impl From<FailureKind> for Stop {
    fn from(kind: FailureKind) -> Self {
        Self::Failed(kind)
    }
}

impl Program {
    pub(crate) fn run<F: Fields + ?Sized>(&self, fields: &F, steps: &mut Steps) -> Verdict {
        match self.stack as usize {
            0 => self.run_with::<F, 0>(fields, steps),
            1..=STACK_SMALL => self.run_with::<F, STACK_SMALL>(fields, steps),
            _ => self.run_with::<F, { STACK_MAX as usize }>(fields, steps),
        }
    }

    fn run_with<F: Fields + ?Sized, const N: usize>(&self, fields: &F, steps: &mut Steps) -> Verdict {
        let (paths, accumulator, stack) = (&*self.paths, Value::Bool(true), [Value::Composite; N]);
        let mut machine = Machine { fields, steps, paths, accumulator, stack, waiting: 0 };
        let mut at = 0;
        while let Some(op) = self.ops.get(at) {
            at += 1;
            if !machine.steps.take(1) {
                return Verdict::Cut;
            }
            // The most frequent instructions are handled here, the rest out of line.
            let done = match op {
                Op::Test { path, op, constant, at } => machine.test(*path, *op, constant, *at),
                Op::TestName { path, equal, name, field, at } => machine.test_name(*path, *equal, name, *field, *at),
                Op::OrderName { path, op, ordinal, field, at } => {
                    machine.order_name((*path, *ordinal), *op, *field, *at)
                }
                Op::JumpIfFalse(target) => {
                    if let Value::Bool(false) = machine.accumulator {
                        at = *target as usize;
                    }
                    Ok(())
                }
                Op::JumpIfTrue(target) => {
                    if let Value::Bool(true) = machine.accumulator {
                        at = *target as usize;
                    }
                    Ok(())
                }
                _ => machine.step(op),
            };
            if let Err(stop) = done {
                return self.stopped(stop, at);
            }
        }
        match machine.accumulator {
            Value::Bool(true) => Verdict::Match,
            _ => Verdict::NoMatch,
        }
    }

    #[cold]
    fn stopped(&self, stop: Stop, next: usize) -> Verdict {
        let here = next.checked_sub(1).and_then(|at| self.offsets.get(at)).copied().unwrap_or_default();
        match stop {
            Stop::Cut => Verdict::Cut,
            Stop::Missing(offset) => Verdict::Failed(Failure { kind: FailureKind::Missing, offset }),
            Stop::Failed(kind) => Verdict::Failed(Failure { kind, offset: here }),
        }
    }
}

struct Machine<'r, 's, F: ?Sized, const N: usize> {
    fields: &'r F,
    steps: &'s mut Steps,
    paths: &'r [Path],
    accumulator: Value<'r>,
    stack: [Value<'r>; N],
    waiting: usize,
}

impl<'r, F: Fields + ?Sized, const N: usize> Machine<'r, '_, F, N> {
    /// Compares a field with a constant. The path is not that of `$curtime`.
    ///
    /// The value is compared in place: moving a [`Value`] costs more than most comparisons.
    #[inline]
    fn test(&mut self, path: u32, op: Comparison, constant: &Literal, at: u32) -> Result<(), Stop> {
        let path = self.paths.get(path as usize).ok_or(Stop::Cut)?;
        let found = self.fields.field(path, self.steps);
        let holds = match (&found, constant) {
            (None, _) if self.steps.is_spent() => return Err(Stop::Cut),
            (None, _) => return Err(Stop::Missing(at)),
            (Some(Value::Bool(field)), Literal::Bool(constant)) if op == Comparison::Eq => field == constant,
            (Some(Value::Int(field)), Literal::Int(constant)) => op.holds(field.cmp(constant)),
            (Some(Value::Text(text)), Literal::Text(constant)) if matches!(op, Comparison::Eq | Comparison::Ne) => {
                self.is_text(text, constant)? == (op == Comparison::Eq)
            }
            (Some(field), constant) => self.compare(field, op, &constant.value())?,
        };
        self.set(holds)
    }

    #[inline]
    fn is_text(&mut self, text: &Text<'_>, constant: &str) -> Result<bool, Stop> {
        let constant = Text::new(constant);
        let cost = text.steps(&constant);
        if cost > 0 && !self.steps.take(cost) { Err(Stop::Cut) } else { Ok(*text == constant) }
    }

    /// Compares a field with a name by `==` or `!=`. The path is not that of `$curtime`.
    #[inline]
    fn test_name(&mut self, path: u32, equal: bool, enumerator: &str, other: u32, at: u32) -> Result<(), Stop> {
        let path = self.paths.get(path as usize).ok_or(Stop::Cut)?;
        let found = self.fields.field(path, self.steps);
        let holds = match &found {
            None if self.steps.is_spent() => return Err(Stop::Cut),
            None => return Err(Stop::Missing(at)),
            Some(Value::Enum { name, .. }) => self.is_text(name, enumerator)? == equal,
            Some(value) => self.compare_name(value, if equal { Comparison::Eq } else { Comparison::Ne }, other)?,
        };
        self.set(holds)
    }

    /// Compares a field with a name by order. The path is not that of `$curtime`.
    fn order_name(&mut self, (path, ordinal): (u32, u32), op: Comparison, other: u32, at: u32) -> Result<(), Stop> {
        let value = self.look(path)?.ok_or(Stop::Missing(at))?;
        let right = if matches!(value, Value::Enum { .. }) { ordinal } else { other };
        let right = self.field(right)?;
        let holds = self.compare(&value, op, &right)?;
        self.set(holds)
    }

    #[inline]
    fn set(&mut self, value: bool) -> Result<(), Stop> {
        self.accumulator = Value::Bool(value);
        Ok(())
    }

    /// Executes an instruction.
    fn step(&mut self, op: &'r Op) -> Result<(), Stop> {
        match op {
            Op::Field(path) => self.accumulator = self.field(*path)?,
            Op::Constant(literal) => self.accumulator = literal.value(),
            Op::Push => {
                *self.stack.get_mut(self.waiting).ok_or(Stop::Cut)? = self.accumulator;
                self.waiting += 1;
            }
            Op::Calculate(op) => {
                let left = self.pop()?;
                self.accumulator = calculate(&left, *op, &self.accumulator)?;
            }
            Op::CalculateConstant(op, constant) => {
                self.accumulator = calculate(&self.accumulator, *op, &constant.value())?;
            }
            Op::Negate => self.accumulator = self.number()?.negate().into(),
            Op::Plus => self.accumulator = self.number()?.into(),
            _ => {
                let truth = self.truth(op)?;
                return self.set(truth);
            }
        }
        Ok(())
    }

    /// Executes an instruction whose result is true or false.
    fn truth(&mut self, op: &'r Op) -> Result<bool, Stop> {
        match op {
            Op::Compare(op) => {
                let left = self.pop()?;
                let right = self.accumulator;
                self.compare(&left, *op, &right)
            }
            Op::CompareConstant(op, constant) => {
                let left = self.accumulator;
                self.compare(&left, *op, &constant.value())
            }
            Op::CompareName(op, name) => {
                let left = self.accumulator;
                self.compare_name(&left, *op, *name)
            }
            Op::CompareNames(op, left, right) => self.compare_names(*op, *left, *right),
            Op::OrderNames { op, left, right, in_left, in_right } => {
                self.order_names(*op, (*left, *in_left), (*right, *in_right))
            }
            Op::Exist(path) => Ok(self.look(*path)?.is_some()),
            Op::Default(member, discriminator) => {
                let selected = self.look(*member)?.is_some();
                if !selected {
                    self.field(*discriminator)?;
                }
                Ok(selected)
            }
            Op::In(path) => {
                let needle = self.accumulator;
                self.contains(*path, &needle)
            }
            Op::NameIn(name, path) => {
                let needle = match self.look(*name)? {
                    Some(value) => value,
                    None => Value::Enum { ordinal: 0, name: Text::new(self.name(*name)) },
                };
                self.contains(*path, &needle)
            }
            Op::Substring => {
                let left = self.pop()?;
                self.is_within(&left)
            }
            Op::ConstantSubstring(constant) => self.is_within(&constant.value()),
            _ => match self.accumulator {
                Value::Bool(value) => Ok(value != matches!(op, Op::Not)),
                _ => Err(FailureKind::WrongType.into()),
            },
        }
    }

    fn number(&self) -> Result<Number, Stop> {
        self.accumulator.number().ok_or(Stop::Failed(FailureKind::WrongType))
    }

    fn pop(&mut self) -> Result<Value<'r>, Stop> {
        // The compiler pairs each pop with a push.
        self.waiting = self.waiting.checked_sub(1).ok_or(Stop::Cut)?;
        self.stack.get(self.waiting).copied().ok_or(Stop::Cut)
    }

    /// The value of a field, if the event has it.
    #[inline]
    fn look(&mut self, path: u32) -> Result<Option<Value<'r>>, Stop> {
        let path = self.paths.get(path as usize).ok_or(Stop::Cut)?;
        let value = match path.root {
            Root::CurrentTime => current_time(self.fields.current_time(), &path.parts),
            _ => self.fields.field(path, self.steps),
        };
        // The field is missing, or the steps were spent before it was found.
        if value.is_none() && self.steps.is_spent() { Err(Stop::Cut) } else { Ok(value) }
    }

    #[inline]
    fn field(&mut self, path: u32) -> Result<Value<'r>, Stop> {
        self.look(path)?.ok_or(Stop::Failed(FailureKind::Missing))
    }

    #[inline]
    fn compare(&mut self, left: &Value<'_>, op: Comparison, right: &Value<'_>) -> Result<bool, Stop> {
        let cost = left.steps(right);
        if cost > 0 && !self.steps.take(cost) {
            return Err(Stop::Cut);
        }
        left.holds(op, right).ok_or(Stop::Failed(FailureKind::WrongType))
    }

    /// Compares a value with a name: an enumerator if the value is an enumeration's, otherwise a field.
    fn compare_name(&mut self, left: &Value<'_>, op: Comparison, name: u32) -> Result<bool, Stop> {
        if let (Value::Enum { .. }, Comparison::Eq | Comparison::Ne) = (left, op) {
            let enumerator = Value::Text(Text::new(self.name(name)));
            return self.compare(left, op, &enumerator);
        }
        let right = self.field(name)?;
        self.compare(left, op, &right)
    }

    /// Compares two names: one is a field, and the other an enumerator of its type or a field too.
    fn compare_names(&mut self, op: Comparison, left: u32, right: u32) -> Result<bool, Stop> {
        if let Some(value) = self.look(left)? {
            return self.compare_name(&value, op, right);
        }
        match (self.look(right)?, op) {
            (Some(value @ Value::Enum { .. }), Comparison::Eq | Comparison::Ne) => self.compare_name(&value, op, left),
            _ => Err(FailureKind::Missing.into()),
        }
    }

    /// Compares two names by order: one is a field, and the other an enumerator of its type or a field too. Each has
    /// the path of the other's ordinal in its type.
    fn order_names(&mut self, op: Comparison, left: (u32, u32), right: (u32, u32)) -> Result<bool, Stop> {
        if let Some(value) = self.look(left.0)? {
            let other = if matches!(value, Value::Enum { .. }) { left.1 } else { right.0 };
            let other = self.field(other)?;
            return self.compare(&value, op, &other);
        }
        match self.look(right.0)? {
            Some(value @ Value::Enum { .. }) => {
                let other = self.field(right.1)?;
                self.compare(&other, op, &value)
            }
            _ => Err(FailureKind::Missing.into()),
        }
    }

    fn name(&self, path: u32) -> &'r str {
        match self.paths.get(path as usize).map(|path| &path.root) {
            Some(Root::Name(name)) => name,
            _ => "curtime",
        }
    }

    fn contains(&mut self, path: u32, needle: &Value<'_>) -> Result<bool, Stop> {
        let path = self.paths.get(path as usize).ok_or(Stop::Cut)?;
        let answer = match path.root {
            Root::CurrentTime => None,
            _ => self.fields.contains(path, needle, self.steps),
        };
        match answer {
            // "Not in it" is only known if the steps sufficed for all elements.
            Some(true) => Ok(true),
            _ if self.steps.is_spent() => Err(Stop::Cut),
            Some(false) => Ok(false),
            None => Err(FailureKind::NotASequence.into()),
        }
    }

    fn is_within(&mut self, needle: &Value<'_>) -> Result<bool, Stop> {
        let (mut one, mut other) = ([0; 4], [0; 4]);
        let needle = needle.text(&mut one).ok_or(FailureKind::WrongType)?;
        let whole = self.accumulator;
        let whole = whole.text(&mut other).ok_or(FailureKind::WrongType)?;
        needle.is_within(&whole, self.steps).ok_or(Stop::Cut)
    }
}

fn calculate<'r>(left: &Value<'_>, op: Arithmetic, right: &Value<'_>) -> Result<Value<'r>, Stop> {
    let left = left.number().ok_or(FailureKind::WrongType)?;
    let right = right.number().ok_or(FailureKind::WrongType)?;
    let failure = if op == Arithmetic::Mask { FailureKind::WrongType } else { FailureKind::DivisionByZero };
    Ok(left.calculate(op, right).ok_or(failure)?.into())
}

/// Value of `$curtime`, a `TimeBase::UtcT` of which only the time is known. Notification Service 1.1, 2.4.
fn current_time(now: u64, parts: &[Part]) -> Option<Value<'static>> {
    let name = |part: Option<&Part>| match part {
        Some(Part::Member(name)) => match &**name {
            "time" => Some(Value::UInt(now)),
            "high" => Some(Value::UInt(now >> 32)),
            "low" => Some(Value::UInt(now & 0xFFFF_FFFF)),
            _ => Some(Value::Int(0)),
        },
        Some(Part::TypeId) => Some(Value::Text(Text::new("UtcT"))),
        Some(Part::ReposId) => Some(Value::Text(Text::new("IDL:omg.org/TimeBase/UtcT:1.0"))),
        Some(_) => None,
        None => Some(Value::UInt(now)),
    };
    name(parts.last())
}

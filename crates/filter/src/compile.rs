//! Compiles a [`Tree`] to a [`Program`]: computes constants, selects instructions, sets jumps, and counts the cost.

use crate::constraint::{Comparison, Cost, Steps};
use crate::error::Reason;
use crate::lexer::{Result, fault};
use crate::number::{Arithmetic, Number};
use crate::path::{Part, Path, Paths, Root};
use crate::program::{Op, Program, STACK_MAX};
use crate::text::Text;
use crate::tree::{Id, Kind, Node, Tree};
use crate::value::Literal;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A compiled constraint, with its conditions and cost.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) program: Program,
    pub(crate) cost: Cost,
    pub(crate) always: Option<bool>,
    pub(crate) conjuncts: Box<[Condition]>,
}

/// One of the conditions that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Compare { path: u32, op: Comparison, constant: Literal },
    Name { path: u32, op: Comparison, name: u32 },
    Other,
}

/// Most steps to compute a constant; beyond it the computation is left to the evaluations.
const CONSTANT_STEPS: u32 = 100_000;

/// Compiles a tree with checked types.
pub(crate) fn compile(tree: &Tree) -> Result<Compiled> {
    let mut compiler = Compiler {
        tree,
        constants: Vec::with_capacity(tree.nodes.len()),
        ops: Vec::new(),
        offsets: Vec::new(),
        paths: Paths::default(),
        waiting: 0,
        stack: 0,
    };
    compiler.calculate_constants();
    let Some(root) = tree.root() else {
        compiler.emit(Op::Constant(Literal::Bool(true)), 0);
        return Ok(compiler.finish(Some(true), Box::default()));
    };
    compiler.expression(root)?;
    compiler.truth(root);
    let always = match compiler.constant(root) {
        Some(Literal::Bool(value)) => Some(*value),
        _ => None,
    };
    let conjuncts = if always.is_some() { Box::default() } else { compiler.conjuncts(root) };
    compiler.thread_jumps();
    Ok(compiler.finish(always, conjuncts))
}

struct Compiler<'t> {
    tree: &'t Tree,
    /// Constant value of each node, if it has one.
    constants: Vec<Option<Literal>>,
    ops: Vec<Op>,
    offsets: Vec<u32>,
    paths: Paths,
    /// Number of values on the stack at the next instruction, and the most so far.
    waiting: u32,
    stack: u32,
}

impl Compiler<'_> {
    fn finish(self, always: Option<bool>, conjuncts: Box<[Condition]>) -> Compiled {
        let program = Program {
            ops: self.ops.into(),
            offsets: self.offsets.into(),
            paths: self.paths.into_boxed_slice(),
            stack: self.stack,
        };
        Compiled { cost: cost(&program), program, always, conjuncts }
    }

    // Constants.

    /// Computes all constants in one pass, since operands precede their operators.
    fn calculate_constants(&mut self) {
        for node in &self.tree.nodes {
            let constant = self.calculate(node);
            self.constants.push(constant);
        }
    }

    fn constant(&self, id: Id) -> Option<&Literal> {
        self.constants.get(id as usize).and_then(Option::as_ref)
    }

    fn boolean(&self, id: Id) -> Option<bool> {
        match self.constant(id) {
            Some(Literal::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    /// The number of a constant in arithmetic. The constant is replaced by it: the character `'A'` becomes 65.
    fn number(&mut self, id: Id) -> Option<Number> {
        let number = self.constant(id)?.number()?;
        if let Some(constant) = self.constants.get_mut(id as usize) {
            *constant = Some(number.into());
        }
        Some(number)
    }

    fn calculate(&mut self, node: &Node) -> Option<Literal> {
        match node {
            Node::Literal(literal) => Some(literal.clone()),
            Node::Not(operand) => self.boolean(*operand).map(|value| Literal::Bool(!value)),
            Node::Negate(operand) => self.number(*operand).map(|number| number.negate().into()),
            Node::Plus(operand) => self.number(*operand).map(Literal::from),
            Node::And(left, right) => match (self.boolean(*left), self.boolean(*right)) {
                (Some(false), _) => Some(Literal::Bool(false)),
                (Some(true), right) => right.map(Literal::Bool),
                (None, _) => None,
            },
            Node::Or(left, right) => match (self.boolean(*left), self.boolean(*right)) {
                (Some(true), _) => Some(Literal::Bool(true)),
                (Some(false), right) => right.map(Literal::Bool),
                (None, _) => None,
            },
            Node::Compare(op, left, right) => self
                .constant(*left)
                .zip(self.constant(*right))
                .and_then(|(left, right)| left.value().holds(*op, &right.value()))
                .map(Literal::Bool),
            Node::Substring(left, right) => match (self.constant(*left), self.constant(*right)) {
                (Some(Literal::Text(left)), Some(Literal::Text(right))) => {
                    Text::new(left).is_within(&Text::new(right), &mut Steps::new(CONSTANT_STEPS)).map(Literal::Bool)
                }
                _ => None,
            },
            Node::Calculate(op, left, right) => {
                let (left, right) = (self.number(*left), self.number(*right));
                left.zip(right).and_then(|(left, right)| left.calculate(*op, right)).map(Literal::from)
            }
            Node::Field(_) | Node::Name(_) | Node::In(..) | Node::Exist(_) | Node::Default(_) => None,
        }
    }

    /// The equivalent simpler node: `TRUE and x` is `x`, if `x` can only be true or false.
    fn same(&self, mut id: Id) -> Id {
        loop {
            let (left, right, neutral) = match self.tree.node(id) {
                Node::And(left, right) => (*left, *right, true),
                Node::Or(left, right) => (*left, *right, false),
                _ => return id,
            };
            id = match (self.boolean(left), self.boolean(right)) {
                (Some(value), None) if value == neutral && self.tree.kind(right) == Kind::Truth => right,
                (None, Some(value)) if value == neutral && self.tree.kind(left) == Kind::Truth => left,
                _ => return id,
            };
        }
    }

    // Instructions.

    fn emit(&mut self, op: Op, offset: u32) {
        self.ops.push(op);
        self.offsets.push(offset);
    }

    fn path(&mut self, index: u32) -> u32 {
        let path = self.tree.paths.get(index).cloned();
        path.map_or(u32::MAX, |path| self.paths.place(path))
    }

    fn is_current_time(&self, path: u32) -> bool {
        self.tree.paths.get(path).is_some_and(|path| path.root == Root::CurrentTime)
    }

    /// A path of the tree, extended by one part.
    fn path_and(&mut self, index: u32, part: Part) -> u32 {
        let Some(path) = self.tree.paths.get(index) else { return u32::MAX };
        let parts = path.parts.iter().cloned().chain([part]).collect();
        let path = Path { root: path.root.clone(), parts };
        self.paths.place(path)
    }

    /// Emits instructions that leave the value of `id` in the accumulator.
    ///
    /// Descends along first operands by a loop and into second ones by recursion: the recursion is as deep as the
    /// parentheses, the loop as long as the text.
    fn expression(&mut self, id: Id) -> Result<()> {
        let mut pending = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            let id = self.same(id);
            next = self.begin(id)?;
            if next.is_some() {
                pending.push(id);
            }
        }
        while let Some(id) = pending.pop() {
            self.complete(id)?;
        }
        Ok(())
    }

    /// Emits a node without operands, or returns the operand that comes first.
    fn begin(&mut self, id: Id) -> Result<Option<Id>> {
        let offset = self.tree.offset(id);
        if let Some(constant) = self.constant(id) {
            let constant = constant.clone();
            self.emit(Op::Constant(constant), offset);
            return Ok(None);
        }
        let op = match self.tree.node(id) {
            Node::Compare(op, left, right) => match self.simple_comparison(*op, *left, *right) {
                Some(op) => op,
                None if self.exchanged(*left, *right) => return Ok(Some(*right)),
                None => return Ok(Some(*left)),
            },
            Node::Substring(left, right) if self.constant(*left).is_some() => return Ok(Some(*right)),
            Node::In(left, path) => match self.tree.node(*left) {
                Node::Name(name) => Op::NameIn(self.path(*name), self.path(*path)),
                _ => return Ok(Some(*left)),
            },
            Node::Or(left, _) | Node::And(left, _) | Node::Substring(left, _) | Node::Calculate(_, left, _) => {
                return Ok(Some(*left));
            }
            Node::Not(operand) | Node::Negate(operand) | Node::Plus(operand) => return Ok(Some(*operand)),
            Node::Field(path) | Node::Name(path) => Op::Field(self.path(*path)),
            Node::Exist(path) => Op::Exist(self.path(*path)),
            Node::Default(path) => {
                Op::Default(self.path_and(*path, Part::Default), self.path_and(*path, Part::Discriminator))
            }
            Node::Literal(literal) => Op::Constant(literal.clone()),
        };
        self.emit(op, offset);
        Ok(None)
    }

    /// The single instruction of a comparison of fields or names with constants, or of two names, if there is one.
    fn simple_comparison(&mut self, op: Comparison, left: Id, right: Id) -> Option<Op> {
        let field = |node: &Node| match node {
            Node::Field(path) | Node::Name(path) if !self.is_current_time(*path) => Some(*path),
            _ => None,
        };
        let (left_node, right_node) = (self.tree.node(left), self.tree.node(right));
        if let (Some(path), Some(constant)) = (field(left_node), self.constant(right)) {
            let constant = constant.clone();
            return Some(Op::Test { path: self.path(path), op, constant, at: self.tree.offset(left) });
        }
        if let (Some(constant), Some(path)) = (self.constant(left), field(right_node)) {
            let constant = constant.clone();
            return Some(Op::Test { path: self.path(path), op: op.mirrored(), constant, at: self.tree.offset(right) });
        }
        match (left_node, right_node) {
            (Node::Name(left), Node::Name(right)) => Some(self.names_test(op, *left, *right)),
            (Node::Field(path), Node::Name(name)) => self.name_test(op, *path, *name, left),
            (Node::Name(name), Node::Field(path)) => self.name_test(op.mirrored(), *path, *name, right),
            _ => None,
        }
    }

    /// A field compared with a name.
    fn name_test(&mut self, op: Comparison, path: u32, name: u32, operand: Id) -> Option<Op> {
        let at = self.tree.offset(operand);
        match &self.tree.paths.get(name)?.root {
            Root::Name(enumerator) if !self.is_current_time(path) => {
                let (place, field) = (self.path(path), self.path(name));
                Some(match op {
                    Comparison::Eq | Comparison::Ne => {
                        Op::TestName { path: place, equal: op == Comparison::Eq, name: enumerator.clone(), field, at }
                    }
                    _ => {
                        let ordinal = self.path_and(path, Part::Ordinal(enumerator.clone()));
                        Op::OrderName { path: place, op, ordinal, field, at }
                    }
                })
            }
            _ => None,
        }
    }

    /// A comparison of two names: either may be a field, and the other one an enumerator of its type.
    fn names_test(&mut self, op: Comparison, left: u32, right: u32) -> Op {
        let name = |path| match self.tree.paths.get(path).map(|path| &path.root) {
            Some(Root::Name(name)) => Part::Ordinal(name.clone()),
            _ => Part::Ordinal(Box::default()),
        };
        let (left_name, right_name) = (name(left), name(right));
        let (left_place, right_place) = (self.path(left), self.path(right));
        if matches!(op, Comparison::Eq | Comparison::Ne) {
            return Op::CompareNames(op, left_place, right_place);
        }
        let in_left = self.path_and(left, right_name);
        let in_right = self.path_and(right, left_name);
        Op::OrderNames { op, left: left_place, right: right_place, in_left, in_right }
    }

    /// Whether a comparison begins with its right side: where the left one is a constant or a name, it then needs no
    /// stack.
    fn exchanged(&self, left: Id, right: Id) -> bool {
        let name = |id| matches!(self.tree.node(id), Node::Name(_));
        (self.constant(left).is_some() || name(left)) && !name(right)
    }

    /// Emits the rest of a node, with the value of its first operand in the accumulator.
    fn complete(&mut self, id: Id) -> Result<()> {
        let offset = self.tree.offset(id);
        match self.tree.node(id) {
            Node::Or(left, right) => self.branch(*left, *right, offset, ("or", Op::JumpIfTrue))?,
            Node::And(left, right) => self.branch(*left, *right, offset, ("and", Op::JumpIfFalse))?,
            Node::Compare(op, left, right) => self.comparison(*op, *left, *right, offset)?,
            Node::Substring(left, right) => match self.constant(*left) {
                Some(constant) => {
                    let constant = constant.clone();
                    self.emit(Op::ConstantSubstring(constant), offset);
                }
                None => self.with_right(*right, Op::Substring, offset)?,
            },
            Node::Calculate(op, _, right) => match self.constant(*right) {
                Some(constant) => {
                    // Any number will do to see whether the operator can divide by this one.
                    let fails = |divisor| Number::Int(0).calculate(*op, divisor).is_none();
                    if constant.number().is_some_and(fails) {
                        let is_mask = *op == Arithmetic::Mask;
                        return fault(
                            offset as usize,
                            if is_mask { Reason::NotInteger } else { Reason::DivisionByZero },
                        );
                    }
                    let constant = constant.clone();
                    self.emit(Op::CalculateConstant(*op, constant), offset);
                }
                None => self.with_right(*right, Op::Calculate(*op), offset)?,
            },
            Node::In(_, path) => {
                let path = self.path(*path);
                self.emit(Op::In(path), offset);
            }
            Node::Not(_) if self.test_last_field(false) => {}
            Node::Not(_) => self.emit(Op::Not, offset),
            Node::Negate(_) => self.emit(Op::Negate, offset),
            Node::Plus(_) => self.emit(Op::Plus, offset),
            // `begin` has emitted these whole.
            Node::Literal(_) | Node::Field(_) | Node::Name(_) | Node::Exist(_) | Node::Default(_) => {}
        }
        Ok(())
    }

    fn comparison(&mut self, op: Comparison, left: Id, right: Id, offset: u32) -> Result<()> {
        let (first, second, op) =
            if self.exchanged(left, right) { (right, left, op.mirrored()) } else { (left, right, op) };
        debug_assert!(self.constant(first).is_none(), "two constants have been compared");
        if let Some(constant) = self.constant(second) {
            let constant = constant.clone();
            self.emit(Op::CompareConstant(op, constant), offset);
        } else if let Node::Name(name) = self.tree.node(second) {
            let name = self.path(*name);
            self.emit(Op::CompareName(op, name), offset);
        } else {
            self.with_right(second, Op::Compare(op), offset)?;
        }
        Ok(())
    }

    /// Emits a push of the accumulator, the right side, and `op`, which takes both.
    fn with_right(&mut self, right: Id, op: Op, offset: u32) -> Result<()> {
        if self.waiting >= STACK_MAX {
            return fault(offset as usize, Reason::TooManyWaiting { operands_max: STACK_MAX });
        }
        self.waiting += 1;
        self.stack = self.stack.max(self.waiting);
        self.emit(Op::Push, offset);
        self.expression(right)?;
        self.waiting -= 1;
        self.emit(op, offset);
        Ok(())
    }

    /// Emits `and` or `or`: the right side is jumped over if the left one decides. Not called if that is known beforehand.
    fn branch(&mut self, left: Id, right: Id, offset: u32, operator: (&'static str, fn(u32) -> Op)) -> Result<()> {
        let (operator, jump) = operator;
        let found = self.tree.kind(right);
        if !matches!(found, Kind::Truth | Kind::Field) {
            return fault(self.tree.offset(right) as usize, Reason::NotTruth { operator: Some(operator), found });
        }
        self.truth(left);
        let at = self.ops.len();
        self.emit(jump(0), offset);
        self.expression(right)?;
        self.truth(right);
        let end = u32::try_from(self.ops.len()).unwrap_or(u32::MAX);
        if let Some(op) = self.ops.get_mut(at) {
            *op = jump(end);
        }
        Ok(())
    }

    /// Emits a check that the accumulator is true or false, where only the event can tell.
    fn truth(&mut self, id: Id) {
        if self.tree.kind(id) != Kind::Truth && !self.test_last_field(true) {
            let offset = self.tree.offset(id);
            self.emit(Op::Truth, offset);
        }
    }

    /// Fuses the field read last and a comparison with `TRUE` or `FALSE` to one instruction. Not if another
    /// instruction was the last.
    fn test_last_field(&mut self, value: bool) -> bool {
        let (Some(last), Some(at)) = (self.ops.last_mut(), self.offsets.last()) else { return false };
        let Op::Field(path) = *last else { return false };
        *last = Op::Test { path, op: Comparison::Eq, constant: Literal::Bool(value), at: *at };
        true
    }

    /// Makes a jump to a jump go to the final target.
    fn thread_jumps(&mut self) {
        for at in (0..self.ops.len()).rev() {
            let (mut target, is_true) = match self.ops.get(at) {
                Some(Op::JumpIfTrue(target)) => (*target, true),
                Some(Op::JumpIfFalse(target)) => (*target, false),
                _ => continue,
            };
            loop {
                target = match self.ops.get(target as usize) {
                    Some(Op::JumpIfTrue(further)) if is_true => *further,
                    Some(Op::JumpIfFalse(further)) if !is_true => *further,
                    Some(Op::JumpIfTrue(_) | Op::JumpIfFalse(_)) => target + 1,
                    _ => break,
                };
            }
            if let Some(op) = self.ops.get_mut(at) {
                *op = if is_true { Op::JumpIfTrue(target) } else { Op::JumpIfFalse(target) };
            }
        }
    }

    // Conjuncts.

    fn conjuncts(&mut self, root: Id) -> Box<[Condition]> {
        let mut conjuncts = Vec::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let id = self.same(id);
            match self.tree.node(id) {
                Node::And(left, right) => open.extend([*right, *left]),
                _ if self.boolean(id) == Some(true) => {}
                node => {
                    let condition = self.condition(node);
                    conjuncts.push(condition);
                }
            }
        }
        conjuncts.into()
    }

    fn condition(&mut self, node: &Node) -> Condition {
        let (op, left, right) = match node {
            Node::Compare(op, left, right) => (*op, *left, *right),
            Node::Field(path) | Node::Name(path) => {
                return Condition::Compare {
                    path: self.path(*path),
                    op: Comparison::Eq,
                    constant: Literal::Bool(true),
                };
            }
            Node::Not(operand) => match self.tree.node(*operand) {
                Node::Field(path) | Node::Name(path) => {
                    let constant = Literal::Bool(false);
                    return Condition::Compare { path: self.path(*path), op: Comparison::Eq, constant };
                }
                _ => return Condition::Other,
            },
            _ => return Condition::Other,
        };
        if let Some(Op::Test { path, op, constant, .. }) = self.simple_comparison(op, left, right) {
            return Condition::Compare { path, op, constant };
        }
        match (self.tree.node(left), self.tree.node(right)) {
            (Node::Field(path), Node::Name(name)) | (Node::Name(name), Node::Field(path))
                if matches!(op, Comparison::Eq | Comparison::Ne) =>
            {
                Condition::Name { path: self.path(*path), op, name: self.path(*name) }
            }
            _ => Condition::Other,
        }
    }
}

/// Cost of the cheapest and of the most expensive way through a program.
fn cost(program: &Program) -> Cost {
    let read = |path: &u32| match program.paths.get(*path as usize) {
        // The current time costs nothing to read.
        None | Some(Path { root: Root::CurrentTime, .. }) => 0,
        Some(path) => u32::try_from(path.parts.len()).unwrap_or(u32::MAX).saturating_add(1),
    };
    // Costs from each instruction to the end; jumps go forward only.
    let mut ahead = vec![Cost { best: 0, worst: 0 }; program.ops.len() + 1];
    for (at, op) in program.ops.iter().enumerate().rev() {
        let next = ahead.get(at + 1).copied().unwrap_or(Cost { best: 0, worst: 0 });
        let mut best = next.best;
        let mut worst = next.worst;
        let (least, most) = match op {
            Op::Test { path, .. } | Op::Field(path) | Op::Exist(path) | Op::In(path) => (read(path), read(path)),
            Op::TestName { path, field, .. } => (read(path), read(path).saturating_add(read(field))),
            Op::OrderName { path, ordinal, .. } => (read(path), read(path).saturating_add(read(ordinal))),
            Op::CompareName(_, name) => (0, read(name)),
            Op::OrderNames { left, in_left, in_right, right, .. } => {
                let most = [right, in_left, in_right].map(read).into_iter().fold(read(left), u32::saturating_add);
                (read(left), most)
            }
            Op::CompareNames(_, left, right) => (read(left), read(left).saturating_add(read(right))),
            Op::NameIn(name, path) => (read(name).saturating_add(read(path)), read(name).saturating_add(read(path))),
            Op::Default(member, discriminator) => (read(member), read(member).saturating_add(read(discriminator))),
            Op::JumpIfFalse(target) | Op::JumpIfTrue(target) => {
                let there = ahead.get(*target as usize).copied().unwrap_or(next);
                best = best.min(there.best);
                worst = worst.max(there.worst);
                (0, 0)
            }
            _ => (0, 0),
        };
        if let Some(here) = ahead.get_mut(at) {
            *here = Cost { best: best.saturating_add(least + 1), worst: worst.saturating_add(most.saturating_add(1)) };
        }
    }
    ahead.first().copied().unwrap_or(Cost { best: 1, worst: 1 })
}

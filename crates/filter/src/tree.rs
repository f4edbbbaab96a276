//! A constraint as a tree, in an arena: each node comes after its operands.

use crate::constraint::Comparison;
use crate::number::Arithmetic;
use crate::path::{Path, Paths, Root, Written};
use crate::value::{Literal, single};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Kind of an operand, as far as it is known without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// True or false.
    Truth,
    /// A number.
    Number,
    /// A string.
    Text,
    /// A string of one character, which may also stand for that character, and in arithmetic for its number.
    Character,
    /// A field of the event, of any kind.
    Field,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truth => "true or false",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Character => "a character",
            Self::Field => "a field",
        })
    }
}

/// A node's index.
pub(crate) type Id = u32;

/// One operand or operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Literal(Literal),
    /// `$path`: an index of the tree's paths.
    Field(u32),
    /// A name without `$`: an enumerator beside an enumeration value, otherwise the field of that name.
    Name(u32),
    Not(Id),
    Negate(Id),
    /// A `+` before its operand.
    Plus(Id),
    Or(Id, Id),
    And(Id, Id),
    Compare(Comparison, Id, Id),
    /// `left in path`.
    In(Id, u32),
    /// `left ~ right`: left is part of right.
    Substring(Id, Id),
    Calculate(Arithmetic, Id, Id),
    Exist(u32),
    Default(u32),
}

/// A parsed constraint. The last node is its root; a tree without nodes is the empty constraint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// Kind of each node.
    pub(crate) kinds: Vec<Kind>,
    /// Offset in the text of each node's operand or operator.
    pub(crate) offsets: Vec<u32>,
    /// Each distinct path once.
    pub(crate) paths: Paths,
}

impl Tree {
    pub(crate) fn root(&self) -> Option<Id> {
        u32::try_from(self.nodes.len()).ok()?.checked_sub(1)
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        const NEVER: &Node = &Node::Literal(Literal::Bool(false));
        self.nodes.get(id as usize).unwrap_or(NEVER)
    }

    pub(crate) fn kind(&self, id: Id) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Field)
    }

    pub(crate) fn offset(&self, id: Id) -> u32 {
        self.offsets.get(id as usize).copied().unwrap_or_default()
    }

    /// Adds a node, whose operands are in the tree already.
    pub(crate) fn push(&mut self, node: Node, offset: u32) -> Id {
        let kind = self.kind_of(&node);
        self.nodes.push(node);
        self.kinds.push(kind);
        self.offsets.push(offset);
        self.root().unwrap_or_default()
    }

    fn kind_of(&self, node: &Node) -> Kind {
        match node {
            Node::Literal(Literal::Bool(_)) => Kind::Truth,
            Node::Literal(Literal::Text(text)) if single(text).is_some() => Kind::Character,
            Node::Literal(Literal::Text(_)) => Kind::Text,
            Node::Literal(_) | Node::Negate(_) | Node::Plus(_) | Node::Calculate(..) => Kind::Number,
            Node::Field(path) => self.paths.get(*path).map_or(Kind::Field, Path::kind),
            Node::Name(_) => Kind::Field,
            _ => Kind::Truth,
        }
    }
}

/// How tightly an operator binds; an operand in parentheses has [`TIGHTEST`].
pub(crate) fn power(node: &Node) -> u8 {
    match node {
        Node::Or(..) => 1,
        Node::And(..) => 2,
        Node::Compare(..) => 3,
        Node::In(..) => 4,
        Node::Substring(..) => 5,
        Node::Calculate(Arithmetic::Add | Arithmetic::Subtract, ..) => 6,
        Node::Calculate(..) => 7,
        _ => TIGHTEST,
    }
}

pub(crate) const TIGHTEST: u8 = 8;

impl Comparison {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }

    /// This comparison with exchanged sides.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            same => same,
        }
    }
}

/// Prints a node as text that is parsed to the same tree, with as few parentheses as possible.
pub(crate) struct Printed<'t>(pub(crate) &'t Tree, pub(crate) Id);

enum Fragment {
    Node(Id),
    /// An operand, in parentheses unless it binds at least as tightly as this.
    Operand(Id, u8),
    Text(&'static str),
    Path(u32),
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tree = self.0;
        // Not by recursion: a sum of thousands is a tree thousands deep.
        let mut fragments = vec![Fragment::Node(self.1)];
        while let Some(fragment) = fragments.pop() {
            match fragment {
                Fragment::Text(text) => f.write_str(text)?,
                Fragment::Path(path) => match tree.paths.get(path) {
                    Some(path) => write!(f, "{path}")?,
                    None => f.write_str("$")?,
                },
                Fragment::Operand(id, at_least) if power(tree.node(id)) < at_least => {
                    fragments.extend([Fragment::Text(")"), Fragment::Node(id), Fragment::Text("(")]);
                }
                Fragment::Operand(id, _) => fragments.push(Fragment::Node(id)),
                Fragment::Node(id) => print_node(tree, tree.node(id), &mut fragments, f)?,
            }
        }
        Ok(())
    }
}

/// Prints `node` or pushes its fragments on the stack, last first.
fn print_node(tree: &Tree, node: &Node, fragments: &mut Vec<Fragment>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let own = power(node);
    let mut binary = |left, left_power, operator, right| {
        fragments.extend([Fragment::Operand(right, own + 1), Fragment::Text(" "), Fragment::Text(operator)]);
        fragments.extend([Fragment::Text(" "), Fragment::Operand(left, left_power)]);
    };
    match node {
        Node::Literal(literal) => write!(f, "{literal}")?,
        Node::Field(path) => fragments.push(Fragment::Path(*path)),
        Node::Name(path) => match tree.paths.get(*path).map(|path| &path.root) {
            Some(Root::Name(name)) => write!(f, "{}", Written(name))?,
            _ => f.write_str("curtime")?,
        },
        Node::Not(operand) => fragments.extend([Fragment::Operand(*operand, TIGHTEST), Fragment::Text("not ")]),
        Node::Negate(operand) => fragments.extend([Fragment::Operand(*operand, TIGHTEST), Fragment::Text("-")]),
        Node::Plus(operand) => fragments.extend([Fragment::Operand(*operand, TIGHTEST), Fragment::Text("+")]),
        Node::Or(left, right) => binary(*left, own, "or", *right),
        Node::And(left, right) => binary(*left, own, "and", *right),
        Node::Substring(left, right) => binary(*left, own + 1, "~", *right),
        Node::Compare(op, left, right) => binary(*left, own + 1, op.text(), *right),
        Node::Calculate(op, left, right) => binary(*left, own, op.text(), *right),
        Node::In(left, path) => {
            fragments.extend([Fragment::Path(*path), Fragment::Text(" in "), Fragment::Operand(*left, own + 1)]);
        }
        Node::Exist(path) => fragments.extend([Fragment::Path(*path), Fragment::Text("exist ")]),
        Node::Default(path) => fragments.extend([Fragment::Path(*path), Fragment::Text("default ")]),
    }
    Ok(())
}

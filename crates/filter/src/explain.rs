//! Explanation of a constraint in text.

use crate::constraint::{Constraint, Limits};
use crate::parser::parse;
use crate::path::Part;
use crate::tree::{Id, Node, Printed, Tree};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Prints the text of [`Constraint::explain`]: the conditions as a tree, the short cuts of the evaluation, the cost,
/// and the fields that are read.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'c> {
    constraint: &'c Constraint,
}

impl<'c> Explanation<'c> {
    pub(crate) fn new(constraint: &'c Constraint) -> Self {
        Self { constraint }
    }
}

/// Nesting depth beyond which a subtree is printed on one line.
const DEPTH_MAX: usize = 32;

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let constraint = self.constraint;
        // Parsed once more rather than kept: an explanation is rare, constraints are many.
        let unlimited = Limits { bytes_max: u32::MAX, nodes_max: u32::MAX, depth_max: u32::MAX };
        let Ok(tree) = parse(constraint.text(), &unlimited) else { return f.write_str(constraint.text()) };
        match tree.root() {
            None => f.write_str("nothing is asked: every event matches\n")?,
            Some(root) => write_tree(&tree, root, f)?,
        }
        match constraint.always() {
            Some(true) => f.write_str("always true: every event matches\n")?,
            Some(false) => f.write_str("always false: no event matches\n")?,
            None => {}
        }
        let cost = constraint.cost();
        write!(f, "{} operands and operators; ", constraint.nodes())?;
        if cost.best == cost.worst {
            writeln!(f, "{} steps", cost.best)?;
        } else {
            writeln!(f, "{} to {} steps", cost.best, cost.worst)?;
        }
        let paths = constraint.paths();
        // An enumerator's ordinal belongs to the field beside it.
        let read = paths.iter().filter(|path| !matches!(path.parts.last(), Some(Part::Ordinal(_))));
        for (index, path) in read.enumerate() {
            write!(f, "{}{path}", if index == 0 { "reads " } else { ", " })?;
        }
        if paths.is_empty() { f.write_str("reads nothing of the event") } else { Ok(()) }
    }
}

/// One line for each condition, under the `and`, `or` and `not` that join them.
fn write_tree(tree: &Tree, root: Id, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut lines = vec![(root, String::new(), String::new())];
    while let Some((id, first, rest)) = lines.pop() {
        let (title, below) = match tree.node(id) {
            _ if rest.chars().count() > 3 * DEPTH_MAX => ("", Vec::new()),
            Node::And(..) => ("all of these, in this order, until one is false", chain(tree, id)),
            Node::Or(..) => ("any of these, in this order, until one is true", chain(tree, id)),
            Node::Not(operand) if is_joined(tree, *operand) => ("not", vec![*operand]),
            _ => ("", Vec::new()),
        };
        if below.is_empty() {
            writeln!(f, "{first}{}", Printed(tree, id))?;
            continue;
        }
        writeln!(f, "{first}{title}")?;
        for (place, operand) in below.iter().enumerate().rev() {
            let (branch, line) = if place + 1 == below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            lines.push((*operand, format!("{rest}{branch}"), format!("{rest}{line}")));
        }
    }
    Ok(())
}

fn is_joined(tree: &Tree, id: Id) -> bool {
    matches!(tree.node(id), Node::And(..) | Node::Or(..) | Node::Not(_))
}

/// The operands of `a and b and c`, in order.
fn chain(tree: &Tree, id: Id) -> Vec<Id> {
    let is_and = matches!(tree.node(id), Node::And(..));
    let (mut operands, mut open) = (Vec::new(), vec![id]);
    while let Some(id) = open.pop() {
        match tree.node(id) {
            Node::And(left, right) if is_and => open.extend([*right, *left]),
            Node::Or(left, right) if !is_and => open.extend([*right, *left]),
            _ => operands.push(id),
        }
    }
    operands
}

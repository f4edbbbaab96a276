//! Equality of types.

use super::{Kind, TypeRef};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Rules of comparison (CORBA 3.3 part 1, 8.11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Everything has to be equal.
    Equal,
    /// Aliases are looked through, names do not count, and repository ids decide where both have one.
    Equivalent,
}

/// Compares two types pair by pair. A pair that recurs is assumed equal: if it is not, its first occurrence shows that. So types that
/// contain themselves terminate, without recursion that they could drive deep.
pub(super) fn same(a: TypeRef<'_>, b: TypeRef<'_>, rule: Rule) -> bool {
    let mut met = BTreeSet::new();
    let mut to_compare = vec![(a, b)];
    while let Some((a, b)) = to_compare.pop() {
        let (a, b) = match rule {
            Rule::Equal => (a, b),
            Rule::Equivalent => (a.resolved(), b.resolved()),
        };
        if met.insert((a.index, b.index)) && !same_here(a, b, rule, &mut to_compare) {
            return false;
        }
    }
    true
}

/// Compares what two types say themselves, and puts what they are made of on the list.
fn same_here<'a>(a: TypeRef<'a>, b: TypeRef<'a>, rule: Rule, to_compare: &mut Vec<(TypeRef<'a>, TypeRef<'a>)>) -> bool {
    let (x, y) = (a.data(), b.data());
    if x.kind != y.kind || x.placeholder != y.placeholder {
        return false;
    }
    match rule {
        Rule::Equal if a.id() != b.id() || a.name() != b.name() => return false,
        Rule::Equivalent if x.kind.is_named() && !a.id().is_empty() && !b.id().is_empty() => return a.id() == b.id(),
        _ => {}
    }
    if x.number != y.number || x.count != y.count || a.default_index() != b.default_index() {
        return false;
    }
    let has_content = a.content().or(a.discriminator()).or(a.concrete_base()).is_some();
    if has_content {
        to_compare.push((a.at(x.content), b.at(y.content)));
    }
    a.members().zip(b.members()).all(|(m, n)| {
        if x.kind != Kind::Enum {
            to_compare.push((m.type_ref(), n.type_ref()));
        }
        let names = rule == Rule::Equivalent || m.name() == n.name();
        names && m.label() == n.label() && m.is_public() == n.is_public()
    })
}

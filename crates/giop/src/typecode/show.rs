//! Display of types as text similar to IDL.

use super::{Kind, TypeCode, TypeRef};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;

/// Beyond this many sequences of sequences the rest is left out.
const NESTING_MAX: u32 = 32;

impl fmt::Display for TypeCode {
    /// The definition of the type in one line, such as `struct Position { double azimuth; string name; }`, in which the
    /// types of members appear by name. With `{:#}` their definitions come in front, each in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            let definitions = definitions(self.root());
            let (last, others) = match definitions.split_last() {
                Some((last, others)) if last.index == 0 => (*last, others),
                _ => (self.root(), definitions.as_slice()),
            };
            for definition in others {
                definition.define(f)?;
                f.write_str(";\n")?;
            }
            return last.define(f);
        }
        self.root().define(f)
    }
}

impl fmt::Display for TypeRef<'_> {
    /// The type as it is referred to: its name, or its structure if it has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refer(f, 0)
    }
}

/// The type and the named types that it contains, each behind its dependencies as far as possible.
fn definitions(root: TypeRef<'_>) -> Vec<TypeRef<'_>> {
    let mut met = BTreeSet::new();
    let mut found = Vec::new();
    // Each entry says whether what the type is made of has been looked at.
    let mut open = Vec::from([(root, false)]);
    while let Some((at, complete)) = open.pop() {
        if complete {
            found.push(at);
        } else if met.insert(at.index) {
            if at.kind().is_named() && at.kind() != Kind::Object {
                open.push((at, true));
            }
            let content = at.content().or(at.discriminator()).or(at.concrete_base());
            let members = at.members().filter(|_| at.kind() != Kind::Enum).map(|member| member.type_ref());
            let before = open.len();
            open.extend(content.into_iter().chain(members).map(|needed| (needed, false)));
            if let Some(needed) = open.get_mut(before..) {
                needed.reverse();
            }
        }
    }
    found
}

impl TypeRef<'_> {
    fn refer(self, f: &mut fmt::Formatter<'_>, nesting: u32) -> fmt::Result {
        if nesting > NESTING_MAX {
            return f.write_str("...");
        }
        let kind = self.kind();
        match (kind, self.content()) {
            (Kind::String | Kind::Wstring, _) => match self.bound() {
                Some(bound) => write!(f, "{kind}<{bound}>"),
                None => write!(f, "{kind}"),
            },
            (Kind::Fixed, _) => write!(f, "fixed<{},{}>", self.digits(), self.scale()),
            (Kind::Sequence, Some(element)) => {
                f.write_str("sequence<")?;
                element.refer(f, nesting + 1)?;
                match self.bound() {
                    Some(bound) => write!(f, ",{bound}>"),
                    None => f.write_str(">"),
                }
            }
            (Kind::Array, Some(_)) => {
                let (element, lengths) = self.dimensions();
                element.refer(f, nesting + 1)?;
                lengths.iter().try_for_each(|length| write!(f, "[{length}]"))
            }
            _ if kind.is_named() => f.write_str(self.label()),
            _ => f.write_str(kind.keyword()),
        }
    }

    /// The name, or the repository id where a sender left the name out, as it may.
    fn label(&self) -> &str {
        match (self.name(), self.id()) {
            ("", "") => self.kind().keyword(),
            ("", id) => id,
            (name, _) => name,
        }
    }

    /// The element type of nested arrays, and the lengths in the order of IDL.
    fn dimensions(self) -> (Self, Vec<u32>) {
        let (mut at, mut lengths) = (self, Vec::new());
        while let (Kind::Array, Some(element)) = (at.kind(), at.content()) {
            lengths.push(at.length());
            at = element;
            if lengths.len() >= NESTING_MAX as usize {
                break;
            }
        }
        (at, lengths)
    }

    /// The type as it is defined, without the semicolon.
    fn define(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        if !kind.is_named() {
            return self.refer(f, 0);
        }
        write!(f, "{kind} ")?;
        match kind {
            Kind::Alias => match self.content() {
                Some(content) => content.declare(f, self.label()),
                None => Ok(()),
            },
            Kind::Enum => {
                write!(f, "{} {{ ", self.label())?;
                for (index, member) in self.members().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, member.name())?;
                }
                f.write_str(" }")
            }
            Kind::Union => self.define_union(f),
            Kind::Struct | Kind::Exception => {
                write!(f, "{} {{ ", self.label())?;
                for member in self.members() {
                    member.type_ref().declare(f, member.name())?;
                    f.write_str("; ")?;
                }
                f.write_str("}")
            }
            Kind::Value | Kind::Event => {
                f.write_str(self.label())?;
                if let Some(base) = self.concrete_base().filter(|base| base.kind() != Kind::Null) {
                    write!(f, " : {base}")?;
                }
                f.write_str(" { ")?;
                for member in self.members() {
                    f.write_str(if member.is_public() { "public " } else { "private " })?;
                    member.type_ref().declare(f, member.name())?;
                    f.write_str("; ")?;
                }
                f.write_str("}")
            }
            _ => f.write_str(self.label()),
        }
    }

    fn define_union(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} switch (", self.label())?;
        let discriminator = self.discriminator().unwrap_or(self);
        write!(f, "{discriminator}) {{ ")?;
        let labels = discriminator.resolved();
        for member in self.members() {
            match member.label() {
                None => f.write_str("default: ")?,
                Some(label) => {
                    f.write_str("case ")?;
                    labels.show_label(f, label)?;
                    f.write_str(": ")?;
                }
            }
            member.type_ref().declare(f, member.name())?;
            f.write_str("; ")?;
        }
        f.write_str("}")
    }

    /// A label of a union discriminated by this type.
    fn show_label(self, f: &mut fmt::Formatter<'_>, label: i64) -> fmt::Result {
        match self.kind() {
            Kind::Boolean => f.write_str(if label == 0 { "FALSE" } else { "TRUE" }),
            Kind::Char | Kind::Wchar => match u32::try_from(label).ok().and_then(char::from_u32) {
                Some(c) => write!(f, "{c:?}"),
                None => write!(f, "{label}"),
            },
            Kind::ULongLong => write!(f, "{}", label.cast_unsigned()),
            Kind::Enum => match usize::try_from(label).ok().and_then(|index| self.member(index)) {
                Some(member) => f.write_str(member.name()),
                None => write!(f, "{label}"),
            },
            _ => write!(f, "{label}"),
        }
    }

    /// Something of this type and that name: arrays have their lengths behind the name.
    fn declare(self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let (element, lengths) = self.dimensions();
        write!(f, "{element} {name}")?;
        lengths.iter().try_for_each(|length| write!(f, "[{length}]"))
    }
}

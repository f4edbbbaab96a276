//! The OMG Naming Service 1.3: a tree of names that stand for objects.

use crate::notify::{read_sequence, stub};
use crate::{InvokeError, ObjectRef};
use core::fmt;
use giop::cdr::{ReadError, Reader, Writer};
use giop::ior::Ior;

stub! {
    /// `CosNaming::NamingContextExt`, and the plain `NamingContext` it extends.
    NamingContext, "IDL:omg.org/CosNaming/NamingContext:1.0"
}

/// `CosNaming::NameComponent`: one step of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameComponent {
    /// The name itself.
    pub id: String,
    /// What kind of thing it names; most often empty.
    pub kind: String,
}

/// `CosNaming::Binding`: an entry of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its name within the context.
    pub name: Vec<NameComponent>,
    /// Whether it is a context itself.
    pub is_context: bool,
}

impl NameComponent {
    /// A component with an empty kind.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), kind: String::new() }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        Ok(Self { id: reader.text()?, kind: reader.text()? })
    }
}

impl fmt::Display for NameComponent {
    /// As the Naming Service writes names: `id.kind`, with `\` before `/`, `.` and `\`. (Naming 1.3, 2.4.)
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.id, f)?;
        if !self.kind.is_empty() || self.id.is_empty() {
            f.write_str(".")?;
            escape(&self.kind, f)?;
        }
        Ok(())
    }
}

fn escape(part: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for c in part.chars() {
        if matches!(c, '/' | '.' | '\\') {
            f.write_str("\\")?;
        }
        write!(f, "{c}")?;
    }
    Ok(())
}

/// Reads a name as the Naming Service writes it: components with `/` between them, each `id` or `id.kind`.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn parse_name(text: &str) -> Result<Vec<NameComponent>, String> {
    let mut name = Vec::new();
    let mut current = [String::new(), String::new()];
    let mut in_kind = false;
    let mut seen_any = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let literal = match c {
            '\\' => match chars.next() {
                Some(escaped @ ('/' | '.' | '\\')) => escaped,
                _ => return Err("a `\\` must stand before `/`, `.` or `\\`".to_owned()),
            },
            '.' if in_kind => return Err("a component has one `.` at most; write others as `\\.`".to_owned()),
            '.' => {
                in_kind = true;
                seen_any = true;
                continue;
            }
            '/' => {
                if !seen_any {
                    return Err("there is an empty component".to_owned());
                }
                let [id, kind] = core::mem::take(&mut current);
                name.push(NameComponent { id, kind });
                in_kind = false;
                seen_any = false;
                continue;
            }
            other => other,
        };
        seen_any = true;
        let [id, kind] = &mut current;
        if in_kind { kind.push(literal) } else { id.push(literal) }
    }
    if !seen_any {
        return Err("it is empty or ends with `/`".to_owned());
    }
    let [id, kind] = current;
    name.push(NameComponent { id, kind });
    Ok(name)
}

impl NamingContext {
    /// The object of that name.
    ///
    /// # Errors
    /// `CosNaming/NamingContext/NotFound`, `…/CannotProceed`, `…/InvalidName`.
    pub fn resolve(&self, name: &[NameComponent]) -> Result<ObjectRef, InvokeError> {
        self.object().call_object("resolve", |w| write_name(name, w))
    }

    /// The object of a name written as `a/b.kind`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and [`InvokeError::BadAddress`] if the text is no name.
    pub fn resolve_text(&self, name: &str) -> Result<ObjectRef, InvokeError> {
        let parsed = parse_name(name).map_err(|reason| InvokeError::BadAddress { text: name.to_owned(), reason })?;
        self.resolve(&parsed)
    }

    /// Gives an object a name.
    ///
    /// # Errors
    /// `CosNaming/NamingContext/AlreadyBound` and as [`resolve`](Self::resolve).
    pub fn bind(&self, name: &[NameComponent], object: &ObjectRef) -> Result<(), InvokeError> {
        self.give("bind", name, object)
    }

    /// Gives an object a name, whatever had it before.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn rebind(&self, name: &[NameComponent], object: &ObjectRef) -> Result<(), InvokeError> {
        self.give("rebind", name, object)
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn unbind(&self, name: &[NameComponent]) -> Result<(), InvokeError> {
        self.object().call_void("unbind", |w| write_name(name, w))
    }

    /// Makes a context with a name in this one.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_new_context(&self, name: &[NameComponent]) -> Result<NamingContext, InvokeError> {
        self.object().call_object("bind_new_context", |w| write_name(name, w)).map(Self::unchecked)
    }

    /// The context's entries, at most `max`, and whether there are more.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn list(&self, max: u32) -> Result<(Vec<Binding>, bool), InvokeError> {
        let (bindings, rest) = self.object().invoke("list", |w| w.u32(max))?.read("list", |r| {
            let bindings = read_sequence(r, 8, |r| {
                let name = read_sequence(r, 8, NameComponent::read)?;
                Ok(Binding { name, is_context: r.u32()? == 1 })
            })?;
            Ok::<_, ReadError>((bindings, Ior::read(r)?))
        })?;
        let more = !rest.is_nil();
        if more {
            // The iterator is the server's resource; only "there are more" is of interest here.
            let _ = self.object().orb().object(rest).invoke("destroy", |_| ());
        }
        Ok((bindings, more))
    }

    fn give(&self, operation: &str, name: &[NameComponent], object: &ObjectRef) -> Result<(), InvokeError> {
        self.object().call_void(operation, |w| {
            write_name(name, w);
            object.ior().write(w);
        })
    }
}

fn write_name(name: &[NameComponent], writer: &mut Writer<'_>) {
    writer.length(name.len());
    for NameComponent { id, kind } in name {
        writer.string(id);
        writer.string(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for text in ["a", "a/b", "a.kind/b", "a\\.b\\/c\\\\/d", ".kind", "."] {
            let name = parse_name(text).unwrap();
            let again: Vec<String> = name.iter().map(ToString::to_string).collect();
            assert_eq!(again.join("/"), text);
        }
    }

    #[test]
    fn malformed_names_are_refused() {
        for text in ["", "/", "a//b", "a/", "a.b.c", "a\\", "a\\b"] {
            assert!(parse_name(text).is_err(), "{text}");
        }
    }
}

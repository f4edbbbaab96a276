//! The OMG Naming Service 1.3: a tree of names that stand for objects.

use crate::typed::{operations, stubs};
use crate::{InvokeError, ObjectRef, idl_struct};
use core::fmt;
use giop::ior::{Ior, Profile};

stubs! {
    /// `CosNaming::NamingContextExt`, and the plain `NamingContext` it extends.
    NamingContext = "IDL:omg.org/CosNaming/NamingContext:1.0";
}

idl_struct! {
    /// `CosNaming::NameComponent`: one step of a name.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct NameComponent {
        /// The name itself.
        pub id: String,
        /// What kind of thing it names; most often empty.
        pub kind: String,
    }
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

operations! { NamingContext: {
    /// The object of that name.
    fn resolve(name: &[NameComponent]) -> [reference]
        raises "`CosNaming/NamingContext/NotFound`, `…/CannotProceed`, `…/InvalidName`.";
    /// Gives an object a name.
    fn bind(name: &[NameComponent], object: &ObjectRef)
        raises "`CosNaming/NamingContext/AlreadyBound` and as [`resolve`](Self::resolve).";
    /// Gives an object a name, whatever had it before.
    fn rebind(name: &[NameComponent], object: &ObjectRef) raises "As [`resolve`](Self::resolve).";
    /// Takes a name away.
    fn unbind(name: &[NameComponent]) raises "As [`resolve`](Self::resolve).";
    /// Makes a context with a name in this one.
    fn bind_new_context(name: &[NameComponent]) -> [object NamingContext] raises "As [`bind`](Self::bind).";
} }

/// The names that a channel's name may be bound to, the likeliest first: `{id "NAME@DOMAIN", kind "channels"}` as in ALMA Common Software,
/// the same without the domain, and the name itself, also as text with kinds and contexts.
#[must_use]
pub fn names_of_channel(name: &str, domain: &str) -> Vec<Vec<NameComponent>> {
    let component = |id: String| vec![NameComponent { id, kind: "channels".to_owned() }];
    let mut all =
        vec![component(format!("{name}@{domain}")), component(name.to_owned()), vec![NameComponent::new(name)]];
    all.extend(parse_name(name));
    all
}

impl NamingContext {
    /// The naming service at another service's address, without a check that it exists.
    #[must_use]
    pub fn beside(service: &ObjectRef) -> Self {
        let mut ior = service.ior().clone();
        ior.type_id.clear();
        for profile in &mut ior.profiles {
            if let Profile::Iiop(profile) = profile {
                profile.key = b"NameService".to_vec();
            }
        }
        Self::unchecked(service.orb().object(ior))
    }

    /// The object of a name written as `a/b.kind`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and [`InvokeError::BadAddress`] if the text is no name.
    pub fn resolve_text(&self, name: &str) -> Result<ObjectRef, InvokeError> {
        let parsed = parse_name(name).map_err(|reason| InvokeError::BadAddress { text: name.to_owned(), reason })?;
        self.resolve(&parsed)
    }

    /// The context's entries, at most `max`, and whether there are more.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn list(&self, max: u32) -> Result<(Vec<Binding>, bool), InvokeError> {
        let (bindings, rest): (Vec<(Vec<NameComponent>, u32)>, Ior) = self.object().request("list", &(max,))?;
        let more = !rest.is_nil();
        if more {
            // The iterator is the server's resource; only "there are more" is of interest here.
            let _ = self.object().orb().object(rest).invoke("destroy", |_| ());
        }
        let binding = |(name, kind)| Binding { name, is_context: kind == 1 };
        Ok((bindings.into_iter().map(binding).collect(), more))
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

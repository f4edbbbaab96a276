//! Names: sequences of components, as they travel and as people write them.
//!
//! The written form is that of Naming Service 1.3, 2.4: components separated by `/`, identifier and kind by `.`, and a `\`
//! in front of each of the three where it is meant literally. A component with empty identifier and kind is a lone `.`; a
//! component that ends in `.` is not a name.

use super::{CHANNELS_KIND, NamingLimits};
use crate::exceptions::{Raised, UserException};
use giop::cdr::{ReadError, Reader, Writer};

/// One component of a name. Both fields count in comparisons.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameComponent {
    /// The identifier, what people take for the name.
    pub id: String,
    /// The kind, usually empty.
    pub kind: String,
}

impl NameComponent {
    /// A component with an empty kind.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self::with_kind(id, "")
    }

    /// A component with a kind.
    #[must_use]
    pub fn with_kind(id: &str, kind: &str) -> Self {
        Self { id: id.into(), kind: kind.into() }
    }

    /// The name of the channel in a component: of an event channel, `{id "Weather@DOMAIN", kind "channels"}`, with or without its naming
    /// domain, or of a declared channel, `Weather`. `None` for another kind.
    pub(crate) fn channel(&self) -> Option<&str> {
        match self.kind.as_str() {
            "" => Some(&self.id),
            CHANNELS_KIND => Some(self.id.rsplit_once('@').map_or(&*self.id, |(name, _)| name)),
            _ => None,
        }
    }

    fn read(args: &mut Reader<'_>) -> Result<Self, ReadError> {
        Ok(Self { id: args.text()?, kind: args.text()? })
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        let Self { id, kind } = self;
        out.string(id);
        out.string(kind);
    }

    /// Octets of text in both fields.
    fn len(&self) -> usize {
        self.id.len() + self.kind.len()
    }
}

/// Reads a `CosNaming::Name`. Only the number of components is checked here, before reading them; [`check`] does the rest.
pub(super) fn read(args: &mut Reader<'_>, limits: &NamingLimits) -> Result<Vec<NameComponent>, Raised> {
    // A component takes at least two lengths; `seq_len` refuses a count that the bytes cannot hold.
    let count = args.seq_len(8)?;
    if usize::try_from(count).is_ok_and(|count| count <= limits.components_max) {
        Ok((0..count).map(|_| NameComponent::read(args)).collect::<Result<_, _>>()?)
    } else {
        Err(UserException::InvalidName.into())
    }
}

/// Writes a `CosNaming::Name`.
pub(crate) fn write(name: &[NameComponent], out: &mut Writer<'_>) {
    out.length(name.len());
    for component in name {
        component.write(out);
    }
}

/// Refuses a name without components, or longer than the limit.
pub(super) fn check(name: &[NameComponent], limits: &NamingLimits) -> Result<(), Raised> {
    let fits = |component: &NameComponent| component.len() <= limits.component_bytes_max;
    if name.is_empty() || name.len() > limits.components_max || !name.iter().all(fits) {
        return Err(UserException::InvalidName.into());
    }
    Ok(())
}

/// The written form of a name.
pub(super) fn to_text(name: &[NameComponent]) -> String {
    let mut text = String::new();
    for (index, NameComponent { id, kind }) in name.iter().enumerate() {
        if index > 0 {
            text.push('/');
        }
        escape(id, &mut text);
        if !kind.is_empty() || id.is_empty() {
            text.push('.');
            escape(kind, &mut text);
        }
    }
    text
}

fn escape(field: &str, text: &mut String) {
    for c in field.chars() {
        if matches!(c, '/' | '.' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
}

/// Parses a name; `None` if the text is not one.
pub(super) fn from_text(text: &str) -> Option<Vec<NameComponent>> {
    let mut name = Vec::new();
    let mut reading = Reading::default();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c @ ('/' | '.' | '\\') => reading.field().push(c),
                _ => return None,
            },
            '.' if reading.dot => return None,
            '.' => reading.dot = true,
            '/' => name.push(core::mem::take(&mut reading).end()?),
            c => reading.field().push(c),
        }
    }
    name.push(reading.end()?);
    Some(name)
}

/// The component being parsed.
#[derive(Default)]
struct Reading {
    component: NameComponent,
    /// Whether the dot between identifier and kind was seen.
    dot: bool,
}

impl Reading {
    fn field(&mut self) -> &mut String {
        if self.dot { &mut self.component.kind } else { &mut self.component.id }
    }

    fn end(self) -> Option<NameComponent> {
        let NameComponent { id, kind } = &self.component;
        // A lone dot is the component with nothing in it; otherwise a dot has to be followed by a kind.
        let valid = if self.dot { !kind.is_empty() || id.is_empty() } else { !id.is_empty() };
        valid.then_some(self.component)
    }
}

/// Escapes text for the part of a `corbaname` URL behind the `#` (Naming Service 1.3, 2.5).
pub(super) fn to_url_text(text: &str) -> String {
    let mut url = String::with_capacity(text.len());
    for &octet in text.as_bytes() {
        if octet.is_ascii_alphanumeric() || b";/:?@&=+$,-_.!~*'()".contains(&octet) {
            url.push(char::from(octet));
        } else {
            url.push_str(&format!("%{octet:02X}"));
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(id: &str, kind: &str) -> NameComponent {
        NameComponent::with_kind(id, kind)
    }

    #[test]
    fn written_names_read_back() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("a/b.c/.", &[("a", ""), ("b", "c"), ("", "")]),
            (".kind", &[("", "kind")]),
            (".", &[("", "")]),
            ("a", &[("a", "")]),
            (r"a\/b.c\.d/\\", &[("a/b", "c.d"), ("\\", "")]),
            ("Größe.ñ", &[("Größe", "ñ")]),
            (" a b . c ", &[(" a b ", " c ")]),
            ("./.k/i", &[("", ""), ("", "k"), ("i", "")]),
        ];
        for (text, components) in cases {
            let name: Vec<_> = components.iter().map(|(id, kind)| component(id, kind)).collect();
            assert_eq!(from_text(text).as_ref(), Some(&name), "{text}");
            assert_eq!(to_text(&name), *text);
        }
    }

    #[test]
    fn malformed_text_is_not_a_name() {
        for text in ["", "/", "a/", "/a", "a//b", "a.", "a.b.c", "a../b", "..", r"a\", r"\a", r"a\b/c", "a./b"] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }

    #[test]
    fn random_names_survive_their_written_form() {
        let seed = 0x5eed_0001;
        let mut rng = fastrand::Rng::with_seed(seed);
        let alphabet = ['a', '.', '/', '\\', ' ', 'é', '%'];
        for round in 0..2_000 {
            let field = |rng: &mut fastrand::Rng| -> String {
                let length = rng.usize(0..4);
                (0..length).map(|_| alphabet[rng.usize(0..alphabet.len())]).collect()
            };
            let count = rng.usize(1..4);
            let name: Vec<_> = (0..count).map(|_| component(&field(&mut rng), &field(&mut rng))).collect();
            assert_eq!(from_text(&to_text(&name)).as_ref(), Some(&name), "seed {seed:#x}, round {round}");
        }
    }

    #[test]
    fn url_text_escapes_what_a_url_reserves() {
        assert_eq!(to_url_text("a/string/path"), "a/string/path");
        assert_eq!(to_url_text(r"a\.b c"), "a%5C.b%20c");
        assert_eq!(to_url_text("<a>.é"), "%3Ca%3E.%C3%A9");
    }
}

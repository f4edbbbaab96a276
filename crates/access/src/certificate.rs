//! Patterns for the names in a client's certificate. Each is for one kind of name, so that a name of another kind never matches it.

use core::fmt;
use core::str::FromStr;
use std::borrow::Cow;

use accounts::CertifiedName;
use engine::wildcard;

/// Replacement for a separator of a distinguished name, in subjects and in patterns. Subjects have control characters
/// only in hexadecimal (`tls`), so that no value includes one of these.
const COMMA: char = '\u{1}';
const PLUS: char = '\u{2}';
const EQUALS: char = '\u{3}';

/// A pattern from a rule: the text after `certificate:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePattern {
    kind: NameKind,
    /// In the form that is compared: a subject with marked separators, other names in lower case where case is not significant.
    pattern: String,
    written: String,
}

/// Kind of name that a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    /// `*`: any certificate, whatever its names.
    Any,
    /// The subject, in the notation of RFC 4514.
    Subject,
    Dns,
    Uri,
    Ip,
    Email,
}

impl NameKind {
    const ALTERNATIVE: [(Self, &'static str); 4] =
        [(Self::Dns, "dns"), (Self::Uri, "uri"), (Self::Ip, "ip"), (Self::Email, "email")];

    /// The kind of alternative name with that prefix, in any case.
    fn of_prefix(prefix: &str) -> Option<Self> {
        let found = Self::ALTERNATIVE.iter().find(|(_, name)| name.eq_ignore_ascii_case(prefix));
        found.map(|(kind, _)| *kind)
    }

    /// A name in the form that is compared: host names and addresses are in lower case.
    fn compared(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Subject => Cow::Owned(marked(name)),
            Self::Dns | Self::Ip => Cow::Owned(name.to_ascii_lowercase()),
            Self::Any | Self::Uri | Self::Email => Cow::Borrowed(name),
        }
    }
}

impl FromStr for CertificatePattern {
    type Err = ();

    fn from_str(written: &str) -> Result<Self, ()> {
        let alternative = written.split_once(':').and_then(|(prefix, name)| Some((NameKind::of_prefix(prefix)?, name)));
        let (kind, name) = match alternative {
            Some((_, "")) => return Err(()),
            Some(alternative) => alternative,
            None if !written.is_empty() && written.bytes().all(|byte| byte == b'*') => (NameKind::Any, written),
            None if marked(written).contains(EQUALS) => (NameKind::Subject, written),
            None => return Err(()),
        };
        Ok(Self { kind, pattern: kind.compared(name).into_owned(), written: written.to_owned() })
    }
}

impl fmt::Display for CertificatePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl CertificatePattern {
    /// Whether a certificate has a name of the pattern's kind that matches.
    #[must_use]
    pub fn matches(&self, certified: &CertifiedName) -> bool {
        let is_it = |name: &str| wildcard::matches(&self.pattern, self.kind.compared(name).as_bytes());
        match self.kind {
            NameKind::Any => true,
            NameKind::Subject => is_it(&certified.subject),
            kind => certified.sans.iter().any(|san| {
                let named = san.split_once(':');
                named.is_some_and(|(prefix, name)| NameKind::of_prefix(prefix) == Some(kind) && is_it(name))
            }),
        }
    }

    /// Whether this pattern matches every certificate that `other` matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.kind == NameKind::Any || self.kind == other.kind && wildcard::covers(&self.pattern, &other.pattern)
    }
}

/// A distinguished name (RFC 4514) with marked separators: unescaped commas and plus signs, and the first equals sign
/// of each part. So a value that a client chose to look like a part does not add one.
fn marked(name: &str) -> String {
    let (mut is_escaped, mut has_type) = (false, false);
    let mark = |char| {
        let separates = !is_escaped;
        is_escaped = separates && char == '\\';
        match char {
            ',' | '+' if separates => {
                has_type = false;
                if char == ',' { COMMA } else { PLUS }
            }
            '=' if separates && !has_type => {
                has_type = true;
                EQUALS
            }
            other => other,
        }
    };
    name.chars().map(mark).collect()
}

//! Lexer of IDL (CORBA 3.3 part 1, 7.2); removes directives and annotations.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::error::IdlError;

/// Maximum octets of a name.
const NAME_MAX: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    Word(&'t str),
    /// A word behind an underscore: a name, even if it is a keyword of IDL.
    Escaped(&'t str),
    Number(u64),
    /// A number with a fraction or an exponent.
    Decimal(&'t str),
    /// The content of a quoted text.
    Text(&'t str),
    Char(char),
    /// `::`
    Scope,
    Mark(char),
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) | Self::Decimal(word) => write!(f, "`{word}`"),
            Self::Escaped(word) => write!(f, "`_{word}`"),
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Text(_) => f.write_str("a text"),
            Self::Char(c) => write!(f, "`{c:?}`"),
            Self::Scope => f.write_str("`::`"),
            Self::Mark(mark) => write!(f, "`{mark}`"),
            Self::End => f.write_str("the end"),
        }
    }
}

pub(crate) struct Lexer<'t> {
    text: &'t str,
    /// Position behind the token.
    at: usize,
    /// The current token.
    pub(crate) token: Token<'t>,
    /// Position where the token begins.
    pub(crate) begin: usize,
    /// The last `#pragma prefix` before the token, until the parser takes it.
    pub(crate) prefix: Option<&'t str>,
    /// Whether an `#include` was seen.
    pub(crate) includes: bool,
}

impl<'t> Lexer<'t> {
    pub(crate) const fn new(text: &'t str) -> Self {
        Self { text, at: 0, token: Token::End, begin: 0, prefix: None, includes: false }
    }

    /// Whether a word occurs anywhere in the text.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.text.contains(word)
    }

    /// Advances to the next token.
    pub(crate) fn advance(&mut self) -> Result<(), IdlError> {
        self.skip_blanks()?;
        self.begin = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        let length = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let word = rest.get(..length).unwrap_or_default();
        self.token = match first {
            '0'..='9' => return self.number(),
            '"' | '\'' => return self.quoted(first),
            '@' => return self.annotation(),
            '_' if word.len() > 1 => Token::Escaped(self.checked(word.get(1..).unwrap_or_default())?),
            c if c.is_ascii_alphabetic() => Token::Word(self.checked(word)?),
            ':' if rest.starts_with("::") => {
                self.at += 2;
                self.token = Token::Scope;
                return Ok(());
            }
            '{' | '}' | '<' | '>' | '[' | ']' | '(' | ')' | ',' | ';' | ':' | '=' | '+' | '-' | '*' | '/' | '%' => {
                Token::Mark(first)
            }
            c => return Err(self.error(format!("`{}` is not expected", c.escape_debug()))),
        };
        self.at += length;
        Ok(())
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn checked(&self, word: &'t str) -> Result<&'t str, IdlError> {
        if word.len() > NAME_MAX { Err(self.error(format!("a name has {NAME_MAX} octets at most"))) } else { Ok(word) }
    }

    fn number(&mut self) -> Result<(), IdlError> {
        let rest = self.rest();
        let length = rest.find(|c| !is_of_word(c) && c != '.').unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        let parsed = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| ()),
            None if word.bytes().all(|octet| octet.is_ascii_digit()) => {
                let radix = if word.len() > 1 && word.starts_with('0') { 8 } else { 10 };
                u64::from_str_radix(word, radix).map_err(|_| ())
            }
            None if word.contains(['.', 'e', 'E', 'd', 'D']) => {
                self.token = Token::Decimal(word);
                self.at += length;
                return Ok(());
            }
            None => Err(()),
        };
        let Ok(number) = parsed else {
            return Err(self.error(format!("`{word}` is no number from 0 to {}", u64::MAX)));
        };
        self.token = Token::Number(number);
        self.at += length;
        Ok(())
    }

    /// Reads a text or a character, beginning at its opening quote.
    fn quoted(&mut self, quote: char) -> Result<(), IdlError> {
        let within = self.rest().get(1..).unwrap_or_default();
        let mut is_escaped = false;
        let end = within.find(|c| {
            let ends = (c == quote && !is_escaped) || c == '\n';
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let Some(end) = end.filter(|end| within.get(*end..).is_some_and(|rest| rest.starts_with(quote))) else {
            return Err(self.error("this has no closing quote in its line".into()));
        };
        let text = within.get(..end).unwrap_or_default();
        self.token = match quote {
            '"' => Token::Text(text),
            _ => Token::Char(character(text).ok_or_else(|| self.error(format!("`'{text}'` is no character")))?),
        };
        self.at += end + 2;
        Ok(())
    }

    /// Skips an annotation such as `@key` or `@id(3)`, and reads the token behind it.
    fn annotation(&mut self) -> Result<(), IdlError> {
        let begin = self.at;
        // A loop, since a thousand of them must not be a thousand calls within each other.
        loop {
            self.at += 1;
            let rest = self.rest();
            let length = rest.find(|c| !is_of_word(c) && c != ':').unwrap_or(rest.len());
            let name = rest.get(..length).unwrap_or_default();
            if matches!(name, "" | "optional" | "default" | "external" | "bit_bound" | "value") {
                return Err(self.error_at(begin, format!("`@{name}` has no place in types that travel with events")));
            }
            self.at += length;
            self.skip_blanks()?;
            if self.rest().starts_with('(') {
                let Some(end) = self.rest().find(')') else {
                    return Err(self.error_at(begin, "this annotation has no end".into()));
                };
                self.at += end + 1;
                self.skip_blanks()?;
            }
            if !self.rest().starts_with('@') {
                return self.advance();
            }
        }
    }

    // ---- what is between tokens ----

    fn skip_blanks(&mut self) -> Result<(), IdlError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            self.at += if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if let Some(behind) = trimmed.strip_prefix("/*") {
                let Some(length) = behind.find("*/") else {
                    return Err(self.error_at(self.at, "this comment has no end".into()));
                };
                length + 4
            } else if trimmed.starts_with('#') {
                self.directive(trimmed.lines().next().unwrap_or_default())?
            } else {
                return Ok(());
            };
        }
    }

    /// Handles a preprocessor line, and returns its length.
    fn directive(&mut self, line: &'t str) -> Result<usize, IdlError> {
        let behind = line.get(1..).unwrap_or_default().trim();
        let (word, argument) = behind.split_once(char::is_whitespace).unwrap_or((behind, ""));
        let argument = argument.trim();
        match word {
            "include" => self.includes = true,
            "pragma" => {
                if let Some(prefix) = argument.strip_prefix("prefix") {
                    let prefix = prefix.trim().strip_prefix('"').and_then(|prefix| prefix.split('"').next());
                    let Some(prefix) = prefix.filter(|prefix| prefix.len() <= NAME_MAX) else {
                        return Err(self.error_at(self.at, "expected `#pragma prefix \"...\"`".into()));
                    };
                    self.prefix = Some(prefix);
                } else if argument.starts_with("ID") || argument.starts_with("version") {
                    return Err(self.error_at(self.at, format!("`#pragma {argument}` is not understood here")));
                }
            }
            // What keeps a file from being included twice.
            "ifndef" | "endif" => {}
            "define" if !argument.contains(char::is_whitespace) => {}
            _ => return Err(self.error_at(self.at, format!("`#{word}` is not understood here"))),
        }
        Ok(line.len())
    }

    // ---- errors ----

    /// An error at the token's position.
    pub(crate) fn error(&self, reason: String) -> IdlError {
        self.error_at(self.begin, reason)
    }

    pub(crate) fn error_at(&self, at: usize, reason: String) -> IdlError {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.bytes().filter(|octet| *octet == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        IdlError { line: number(line), column: number(column), reason }
    }
}

const fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The character between single quotes.
fn character(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first != '\\' {
        return chars.next().is_none().then_some(first);
    }
    let rest = chars.as_str();
    Some(match rest {
        "n" => '\n',
        "t" => '\t',
        "v" => '\u{b}',
        "b" => '\u{8}',
        "r" => '\r',
        "f" => '\u{c}',
        "a" => '\u{7}',
        "\\" | "?" | "'" | "\"" => rest.chars().next()?,
        _ => match (rest.strip_prefix('x'), rest.strip_prefix('u')) {
            (Some(digits), _) | (_, Some(digits)) => char::from_u32(u32::from_str_radix(digits, 16).ok()?)?,
            _ => char::from_u32(u32::from_str_radix(rest, 8).ok()?)?,
        },
    })
}

/// Keywords of IDL, which cannot be names (CORBA 3.3 part 1, 7.2.4).
pub(crate) const KEYWORDS: [&str; 54] = [
    "FALSE",
    "Object",
    "TRUE",
    "ValueBase",
    "abstract",
    "any",
    "attribute",
    "boolean",
    "case",
    "char",
    "const",
    "context",
    "custom",
    "default",
    "double",
    "enum",
    "eventtype",
    "exception",
    "factory",
    "fixed",
    "float",
    "getraises",
    "import",
    "in",
    "inout",
    "interface",
    "local",
    "long",
    "module",
    "native",
    "octet",
    "oneway",
    "out",
    "private",
    "public",
    "raises",
    "readonly",
    "sequence",
    "setraises",
    "short",
    "string",
    "struct",
    "supports",
    "switch",
    "truncatable",
    "typedef",
    "typeid",
    "typeprefix",
    "union",
    "unsigned",
    "valuetype",
    "void",
    "wchar",
    "wstring",
];

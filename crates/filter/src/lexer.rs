//! Tokens of a constraint's text. Trading Object Service 1.0, annex B, with the tokens that Notification Service 1.1,
//! 2.4 adds.

use crate::constraint::Comparison;
use crate::error::Reason;
use crate::number::Arithmetic;
use crate::value::Literal;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// A fault in a text, and its offset.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) reason: Reason,
}

pub(crate) type Result<T> = core::result::Result<T, Box<Fault>>;

/// A fault as an `Err`.
pub(crate) fn fault<T>(offset: usize, reason: Reason) -> Result<T> {
    Err(Box::new(Fault { offset, reason }))
}

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    End,
    /// A name, or a keyword if it is not escaped by a backslash.
    Word {
        word: &'t str,
        escaped: bool,
    },
    Literal(Literal),
    Compare(Comparison),
    Calculate(Arithmetic),
    Tilde,
    Dollar,
    Open,
    Close,
    Dot,
    OpenBracket,
    CloseBracket,
}

/// The text, and the offset read so far.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'t> {
    pub(crate) text: &'t str,
    pub(crate) at: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace() || b == 0x0B) {
            self.at += 1;
        }
    }

    /// Skips white space, and takes `byte` if it is next.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips white space and takes the next token, which begins at `self.at` then.
    pub(crate) fn token(&mut self) -> Result<Token<'t>> {
        let Some(byte) = self.peek() else { return Ok(Token::End) };
        match byte {
            b'\'' => self.string().map(Literal::Text).map(Token::Literal),
            b'0'..=b'9' => self.number().map(Token::Literal),
            b'.' if self.text.as_bytes().get(self.at + 1).is_some_and(u8::is_ascii_digit) => {
                self.number().map(Token::Literal)
            }
            b'\\' | b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.word().map(|(word, escaped)| Token::Word { word, escaped })
            }
            _ => self.symbol(byte),
        }
    }

    fn symbol(&mut self, byte: u8) -> Result<Token<'t>> {
        let start = self.at;
        let second = self.text.as_bytes().get(start + 1).copied();
        let (token, width) = match (byte, second) {
            (b'=', Some(b'=')) => (Token::Compare(Comparison::Eq), 2),
            (b'!', Some(b'=')) => (Token::Compare(Comparison::Ne), 2),
            (b'<', Some(b'=')) => (Token::Compare(Comparison::Le), 2),
            (b'>', Some(b'=')) => (Token::Compare(Comparison::Ge), 2),
            (b'<', Some(b'>')) => return self.spelling(2, "!="),
            (b'<', _) => (Token::Compare(Comparison::Lt), 1),
            (b'>', _) => (Token::Compare(Comparison::Gt), 1),
            (b'=', _) => return self.spelling(1, "=="),
            (b'&', Some(b'&')) => return self.spelling(2, "and"),
            (b'&', _) => (Token::Calculate(Arithmetic::Mask), 1),
            (b'|', Some(b'|')) => return self.spelling(2, "or"),
            (b'!', _) => return self.spelling(1, "not"),
            (b'"', _) => return self.spelling(1, "strings in apostrophes: 'DV01'"),
            (b'+', _) => (Token::Calculate(Arithmetic::Add), 1),
            (b'-', _) => (Token::Calculate(Arithmetic::Subtract), 1),
            (b'*', _) => (Token::Calculate(Arithmetic::Multiply), 1),
            (b'/', _) => (Token::Calculate(Arithmetic::Divide), 1),
            (b'%', _) => (Token::Calculate(Arithmetic::Remainder), 1),
            (b'~', _) => (Token::Tilde, 1),
            (b'$', _) => (Token::Dollar, 1),
            (b'(', _) => (Token::Open, 1),
            (b')', _) => (Token::Close, 1),
            (b'.', _) => (Token::Dot, 1),
            (b'[', _) => (Token::OpenBracket, 1),
            (b']', _) => (Token::CloseBracket, 1),
            _ => return fault(start, Reason::Character(self.char_at(start))),
        };
        self.at += width;
        Ok(token)
    }

    fn spelling<T>(&self, bytes: usize, correct: &'static str) -> Result<T> {
        let written = self.text.get(self.at..self.at + bytes).unwrap_or_default().into();
        fault(self.at, Reason::Spelling { written, correct })
    }

    fn char_at(&self, at: usize) -> char {
        self.text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Takes a name, and returns whether a backslash precedes it.
    pub(crate) fn word(&mut self) -> Result<(&'t str, bool)> {
        let begin = self.at;
        let escaped = self.peek() == Some(b'\\');
        self.at += usize::from(escaped);
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.at += 1;
        }
        let word = self.text.get(start..self.at).unwrap_or_default();
        match word.bytes().next() {
            Some(first) if !first.is_ascii_digit() => Ok((word, escaped)),
            _ if escaped => fault(begin, Reason::Character('\\')),
            _ => fault(begin, Reason::Expected { expected: "a name", found: self.describe(begin) }),
        }
    }

    /// Takes digits as a number; if there are none, the fault names `expected`.
    pub(crate) fn digits(&mut self, expected: &'static str, max: u64) -> Result<u64> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        if digits.is_empty() {
            return fault(start, Reason::Expected { expected, found: self.describe(start) });
        }
        match digits.parse() {
            Ok(number) if number <= max => Ok(number),
            _ => fault(start, Reason::NumberTooLarge { max }),
        }
    }

    /// Takes an integer, or a float if it has a point or an exponent: `3`, `3.`, `.25`, `1e-3`.
    fn number(&mut self) -> Result<Literal> {
        let start = self.at;
        let mut float = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'0'..=b'9' => {}
                b'.' if !float => float = true,
                b'e' | b'E' if self.exponent() > 0 => {
                    self.at += self.exponent();
                    float = true;
                    break;
                }
                _ => break,
            }
            self.at += 1;
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        if self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.') {
            return fault(self.at, Reason::NumberSuffix);
        }
        if float {
            return match digits.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Literal::Float(value)),
                _ => fault(start, Reason::NumberTooLarge { max: u64::MAX }),
            };
        }
        match digits.parse::<i64>() {
            Ok(value) => Ok(Literal::Int(value)),
            Err(_) => match digits.parse::<u64>() {
                Ok(value) => Ok(Literal::UInt(value)),
                Err(_) => fault(start, Reason::NumberTooLarge { max: u64::MAX }),
            },
        }
    }

    /// Length in bytes of the exponent that begins here; 0 if it has no digits.
    fn exponent(&self) -> usize {
        let rest = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
        let digits = rest.iter().skip(sign).take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 { 0 } else { 1 + sign + digits }
    }

    /// Takes a string in apostrophes, with `\'`, `\\`, `\n` and `\t`.
    pub(crate) fn string(&mut self) -> Result<Box<str>> {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\'' => {
                    self.at += at + 1;
                    return Ok(value.into_boxed_str());
                }
                '\\' => match chars.next() {
                    Some((_, c @ ('\'' | '\\'))) => value.push(c),
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, c)) => return fault(self.at + at, Reason::Escape(c)),
                    None => break,
                },
                c => value.push(c),
            }
        }
        fault(start, Reason::UnclosedText)
    }

    /// The text at an offset, for an error.
    pub(crate) fn describe(&self, at: usize) -> Box<str> {
        let mut here = Lexer { text: self.text, at };
        if here.peek().is_none() {
            return "the end".into();
        }
        let end = match here.token() {
            Ok(_) if here.at > at => here.at,
            _ => at + self.char_at(at).len_utf8(),
        };
        shortened(self.text.get(at..end).unwrap_or_default())
    }
}

/// The written text, shortened for an error.
pub(crate) fn shortened(written: &str) -> Box<str> {
    match written.char_indices().nth(WRITTEN_MAX) {
        Some((end, _)) => format!("{}…", written.get(..end).unwrap_or_default()).into(),
        None => written.into(),
    }
}

/// Most characters of a constraint that an error repeats.
const WRITTEN_MAX: usize = 24;

//! Parses the text of a correlation: `spec/8-correlation.md` has the grammar.

use super::error::{CorrelationError, CorrelationReason as Reason, Failed, Result, fail};
use super::{Correlation, CorrelationLimits, KEEP_DEFAULT, Term, Terms};
use crate::constraint::{Constraint, Limits};
use crate::lexer::{Lexer, shortened};
use crate::parser::parse_path;
use crate::path::{Path, Root};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The longest time after `within`: 24 hours.
const WITHIN_MAX_NS: u64 = 24 * 3_600 * 1_000_000_000;

pub(super) fn parse(text: &str, limits: &CorrelationLimits) -> core::result::Result<Correlation, CorrelationError> {
    if text.len() > limits.bytes_max as usize {
        // A text that is too long is not copied into the error.
        let reason = Reason::TooLong { bytes: text.len(), bytes_max: limits.bytes_max };
        return Err(CorrelationError::new("", 0, reason));
    }
    let limits = CorrelationLimits { terms_max: limits.terms_max.min(CorrelationLimits::TERMS), ..*limits };
    let mut parser = Parser { lexer: Lexer { text, at: 0 }, terms: Vec::new(), limits, depth: 0 };
    parser.correlation().map_err(|failed| {
        let Failed { offset, reason } = *failed;
        CorrelationError::new(text, offset, reason)
    })
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    terms: Vec<Term>,
    limits: CorrelationLimits,
    depth: u32,
}

/// What may follow the types, each once and in any order.
#[derive(Default)]
struct Clauses {
    within_ns: Option<u64>,
    same: Vec<Path>,
    keep: Option<u32>,
}

/// Words that are names of event types in apostrophes only.
const KEYWORDS: [&str; 6] = ["and", "or", "not", "within", "same", "keep"];

impl<'t> Parser<'t> {
    fn correlation(&mut self) -> Result<Correlation> {
        let alternatives = self.any()?;
        let largest = alternatives.iter().map(|terms| terms.len()).max().unwrap_or(1);
        let least = u32::try_from(largest).unwrap_or(u32::MAX).saturating_sub(1).max(1);
        let clauses = self.clauses(least)?;
        let keep = clauses.keep.unwrap_or(KEEP_DEFAULT.min(self.limits.keep_max)).max(least);
        Ok(Correlation {
            text: self.lexer.text.into(),
            terms: core::mem::take(&mut self.terms).into(),
            alternatives: alternatives.into(),
            within_ns: clauses.within_ns,
            same: clauses.same.into(),
            keep,
        })
    }

    // ---- types, and, or ----

    /// Alternatives with `or` between them.
    fn any(&mut self) -> Result<Vec<Terms>> {
        let mut alternatives = self.all()?;
        while self.takes_word("or") {
            self.lexer.skip_space();
            let at = self.lexer.at;
            alternatives.extend(self.all()?);
            self.check_count(alternatives.len(), at)?;
        }
        Ok(alternatives)
    }

    /// What `and` combines: each alternative of the left side with each of the right.
    fn all(&mut self) -> Result<Vec<Terms>> {
        let mut alternatives = self.one()?;
        while self.takes_word("and") {
            self.lexer.skip_space();
            let at = self.lexer.at;
            let right = self.one()?;
            self.check_count(alternatives.len() * right.len(), at)?;
            let products = alternatives.iter().flat_map(|left| right.iter().map(|right| left.or(*right)));
            alternatives = products.collect();
        }
        Ok(alternatives)
    }

    fn check_count(&self, alternatives: usize, at: usize) -> Result<()> {
        let alternatives_max = self.limits.alternatives_max;
        if alternatives > alternatives_max as usize {
            return fail(at, Reason::TooManyAlternatives { alternatives_max });
        }
        Ok(())
    }

    /// A type, or what stands in parentheses.
    fn one(&mut self) -> Result<Vec<Terms>> {
        self.lexer.skip_space();
        let at = self.lexer.at;
        if !self.lexer.take(b'(') {
            let term = self.term()?;
            let place = self.terms.len();
            if place >= self.limits.terms_max as usize {
                return fail(at, Reason::TooManyTerms { terms_max: self.limits.terms_max });
            }
            self.terms.push(term);
            return Ok([Terms::of([place])].into());
        }
        if self.depth >= self.limits.depth_max {
            return fail(at, Reason::TooDeep { depth_max: self.limits.depth_max });
        }
        self.depth += 1;
        let alternatives = self.any()?;
        self.depth -= 1;
        if !self.lexer.take(b')') {
            return self.unexpected("and, or or )");
        }
        Ok(alternatives)
    }

    /// `Domain/Type`, or `Type` of any domain, with or without a constraint in brackets.
    fn term(&mut self) -> Result<Term> {
        let first = self.name()?;
        let (domain, name) = if self.lexer.take(b'/') { (first, self.name()?) } else { ("*".into(), first) };
        self.lexer.skip_space();
        let constraint = if self.lexer.peek() == Some(b'[') { Some(self.constraint()?) } else { None };
        Ok(Term { domain, name, constraint })
    }

    fn name(&mut self) -> Result<Box<str>> {
        self.lexer.skip_space();
        if self.lexer.peek() == Some(b'\'') {
            return Ok(self.lexer.string()?);
        }
        let word = self.peek_word();
        if word == "not" {
            return fail(self.lexer.at, Reason::NoNot);
        }
        if word.is_empty() || KEYWORDS.contains(&word) {
            return self.unexpected("an event type");
        }
        self.lexer.at += word.len();
        Ok(word.into())
    }

    /// The constraint in the brackets that begin here.
    fn constraint(&mut self) -> Result<Constraint> {
        let begin = self.lexer.at;
        let Some(end) = closing_bracket(self.lexer.text, begin) else { return fail(begin, Reason::Unclosed) };
        let inner = self.lexer.text.get(begin + 1..end).unwrap_or_default();
        let constraint = Constraint::parse(inner, &Limits::default()).map_err(|error| {
            let (offset, reason) = error.into_parts();
            Box::new(Failed { offset: begin + 1 + offset, reason: Reason::Constraint(reason) })
        })?;
        if constraint.always() == Some(false) {
            return fail(begin + 1, Reason::NeverMatches);
        }
        self.lexer.at = end + 1;
        Ok(constraint)
    }

    // ---- within, same, keep ----

    fn clauses(&mut self, least: u32) -> Result<Clauses> {
        let mut clauses = Clauses::default();
        loop {
            self.lexer.skip_space();
            let at = self.lexer.at;
            let repeated = |word, stands: bool| if stands { fail(at, Reason::Repeated(word)) } else { Ok(()) };
            if self.lexer.peek().is_none() {
                return Ok(clauses);
            } else if self.takes_word("within") {
                repeated("within", clauses.within_ns.is_some())?;
                clauses.within_ns = Some(self.time()?);
            } else if self.takes_word("same") {
                repeated("same", !clauses.same.is_empty())?;
                clauses.same = self.fields()?;
            } else if self.takes_word("keep") {
                repeated("keep", clauses.keep.is_some())?;
                clauses.keep = Some(self.keep(least)?);
            } else {
                return self.unexpected("and, or, within, same, keep or the end");
            }
        }
    }

    fn time(&mut self) -> Result<u64> {
        self.lexer.skip_space();
        let at = self.lexer.at;
        let number = self.lexer.digits("a time, such as 50ms,", u64::MAX)?;
        self.lexer.skip_space();
        let unit = self.peek_word();
        let nanos: u64 = match unit {
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return fail(self.lexer.at, Reason::Unit(self.lexer.describe(self.lexer.at))),
        };
        self.lexer.at += unit.len();
        let time = number.checked_mul(nanos).filter(|time| (1..=WITHIN_MAX_NS).contains(time));
        time.map_or_else(|| fail(at, Reason::TimeRange), Ok)
    }

    fn fields(&mut self) -> Result<Vec<Path>> {
        let mut fields: Vec<Path> = Vec::new();
        loop {
            self.lexer.skip_space();
            let at = self.lexer.at;
            if KEYWORDS.contains(&self.peek_word()) {
                return self.unexpected("a field, such as $antenna,");
            }
            let (path, end) = parse_path(self.lexer.text, at, &Limits::default())?;
            if path.root == Root::CurrentTime {
                return fail(at, Reason::CurrentTime);
            }
            if fields.len() >= self.limits.fields_max as usize {
                return fail(at, Reason::TooManyFields { fields_max: self.limits.fields_max });
            }
            fields.push(path);
            self.lexer.at = end;
            if !self.lexer.take(b',') {
                return Ok(fields);
            }
        }
    }

    fn keep(&mut self, least: u32) -> Result<u32> {
        self.lexer.skip_space();
        let at = self.lexer.at;
        let number = self.lexer.digits("a number of events", u64::MAX)?;
        let most = self.limits.keep_max.max(least);
        match u32::try_from(number) {
            Ok(keep) if (least..=most).contains(&keep) => Ok(keep),
            _ => fail(at, Reason::KeepRange { least, most }),
        }
    }

    // ---- words ----

    /// The name or keyword that begins here; empty if there is none.
    fn peek_word(&self) -> &'t str {
        let rest = self.lexer.text.get(self.lexer.at..).unwrap_or_default();
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'*' | b'-' | b'.' | b':');
        let len = rest.bytes().take_while(is_part).count();
        let word = rest.get(..len).unwrap_or_default();
        if word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '*') {
            word
        } else {
            ""
        }
    }

    /// Skips white space, and takes `word` if it is next.
    fn takes_word(&mut self, word: &str) -> bool {
        self.lexer.skip_space();
        let is_next = self.peek_word() == word;
        self.lexer.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn unexpected<T>(&mut self, expected: &'static str) -> Result<T> {
        self.lexer.skip_space();
        let (at, word) = (self.lexer.at, self.peek_word());
        let rest = self.lexer.text.get(at..).unwrap_or_default();
        let other = KEYWORDS.into_iter().find(|keyword| word.eq_ignore_ascii_case(keyword) && word != *keyword);
        let symbols = [("&", "and"), ("|", "or"), ("\"", "names in apostrophes: 'DV01'"), (",", "and or or")];
        let symbol = symbols.into_iter().find(|(symbol, _)| rest.starts_with(symbol));
        if let Some(correct) = other {
            return fail(at, Reason::Spelling { written: word.into(), correct });
        }
        if let Some((written, correct)) = symbol {
            return fail(at, Reason::Spelling { written: written.into(), correct });
        }
        let found = match rest.chars().next() {
            None => "the end".into(),
            Some(_) if !word.is_empty() => shortened(word),
            Some(first) => shortened(rest.get(..first.len_utf8()).unwrap_or_default()),
        };
        fail(at, Reason::Expected { expected, found })
    }
}

/// Offset of the bracket that closes the one at `begin`. Brackets within are those of elements, or in strings.
fn closing_bracket(text: &str, begin: usize) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for (at, byte) in text.bytes().enumerate().skip(begin) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'\'' => in_string = !in_string,
            b'[' if !in_string => depth += 1,
            b']' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

//! Parses text to a [`Tree`]: the grammar, and the types known without an event.
//!
//! Operators by how tightly they bind, loosest first (Trading Object Service 1.0, annex B): `or`; `and`; the six
//! comparisons; `in`; `~`; `+ -`; `* / %`; `not`, unary `-` and `+`, `exist`, `default`. Those from the comparisons to
//! `~` do not associate; the others associate to the left.

use crate::constraint::{Comparison, Limits};
use crate::error::{ConstraintError, Reason};
use crate::lexer::{Fault, Lexer, Result, Token, fault, shortened};
use crate::number::Arithmetic;
use crate::path::{Label, Part, Path, Root, is_keyword};
use crate::tree::{Id, Kind, Node, TIGHTEST, Tree, power};
use crate::value::{Literal, single};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Parses a constraint within `limits`, and checks its types.
pub(crate) fn parse(text: &str, limits: &Limits) -> core::result::Result<Tree, ConstraintError> {
    if text.len() > limits.bytes_max as usize {
        let reason = Reason::TooLong { bytes: text.len(), bytes_max: limits.bytes_max };
        // A text that is too long is not copied into the error.
        return Err(ConstraintError::new("", 0, reason));
    }
    let lexer = Lexer { text, at: 0 };
    let mut parser = Parser { lexer, token: Token::End, start: 0, tree: Tree::default(), limits: *limits, depth: 0 };
    let parsed = parser.constraint();
    let tree = parser.tree;
    parsed.map(|()| tree).map_err(|fault| {
        let Fault { offset, reason } = *fault;
        ConstraintError::new(text, offset, reason)
    })
}

/// Parses the path at an offset of a longer text: `$path`, or a name. Returns the path and the offset behind it.
pub(crate) fn parse_path(text: &str, at: usize, limits: &Limits) -> Result<(Path, usize)> {
    let lexer = Lexer { text, at };
    let mut parser =
        Parser { lexer, token: Token::Dollar, start: at, tree: Tree::default(), limits: *limits, depth: 0 };
    parser.lexer.skip_space();
    parser.start = parser.lexer.at;
    let path = match parser.lexer.peek() {
        Some(b'$') => {
            parser.lexer.at += 1;
            parser.dollar_path()?
        }
        Some(b'\\' | b'_' | b'a'..=b'z' | b'A'..=b'Z') => {
            let (word, escaped) = parser.lexer.word()?;
            if !escaped && is_keyword(word) {
                return fault(parser.start, Reason::KeywordAsName(word.into()));
            }
            if matches!(parser.lexer.peek(), Some(b'.' | b'[' | b'(')) {
                return fault(parser.start, Reason::PathWithoutDollar(shortened(word)));
            }
            named(word, Vec::new())
        }
        _ => return parser.expected_here("a field, such as $antenna,"),
    };
    Ok((path, parser.lexer.at))
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The next token.
    token: Token<'t>,
    /// Offset of the next token.
    start: usize,
    tree: Tree,
    limits: Limits,
    depth: u32,
}

/// An operator between two operands.
#[derive(Clone, Copy)]
enum Operator {
    Or,
    And,
    Compare(Comparison),
    In,
    Substring,
    Calculate(Arithmetic),
}

impl Operator {
    fn power(self) -> u8 {
        power(&match self {
            Self::Or => Node::Or(0, 0),
            Self::And => Node::And(0, 0),
            Self::Compare(op) => Node::Compare(op, 0, 0),
            Self::In => Node::In(0, 0),
            Self::Substring => Node::Substring(0, 0),
            Self::Calculate(op) => Node::Calculate(op, 0, 0),
        })
    }

    fn text(self) -> &'static str {
        match self {
            Self::Or => "or",
            Self::And => "and",
            Self::Compare(op) => op.text(),
            Self::In => "in",
            Self::Substring => "~",
            Self::Calculate(op) => op.text(),
        }
    }

    fn associates(self) -> bool {
        !matches!(self, Self::Compare(_) | Self::In | Self::Substring)
    }
}

impl<'t> Parser<'t> {
    fn constraint(&mut self) -> Result<()> {
        self.advance()?;
        if self.token == Token::End {
            return Ok(());
        }
        let root = self.expression(0)?;
        if self.token != Token::End {
            return self.unexpected("an operator or the end");
        }
        let kind = self.tree.kind(root);
        self.require(matches!(kind, Kind::Truth | Kind::Field), root, Reason::NotTruth { operator: None, found: kind })
    }

    fn advance(&mut self) -> Result<()> {
        self.lexer.skip_space();
        self.start = self.lexer.at;
        self.token = self.lexer.token()?;
        Ok(())
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T> {
        if let Token::Word { word, escaped: false } = self.token {
            let correct = match word.to_ascii_lowercase().as_str() {
                "and" => Some("and"),
                "or" => Some("or"),
                "in" => Some("in"),
                "not" => Some("not"),
                "exist" | "exists" => Some("exist"),
                "default" => Some("default"),
                _ => None,
            };
            if let Some(correct) = correct.filter(|correct| *correct != word) {
                return fault(self.start, Reason::Spelling { written: word.into(), correct });
            }
        }
        fault(self.start, Reason::Expected { expected, found: self.lexer.describe(self.start) })
    }

    fn require(&self, holds: bool, id: Id, reason: Reason) -> Result<()> {
        if holds { Ok(()) } else { fault(self.tree.offset(id) as usize, reason) }
    }

    fn push(&mut self, node: Node, at: usize) -> Result<Id> {
        if self.tree.nodes.len() >= self.limits.nodes_max as usize {
            return fault(at, Reason::TooManyNodes { nodes_max: self.limits.nodes_max });
        }
        Ok(self.tree.push(node, u32::try_from(at).unwrap_or(u32::MAX)))
    }

    fn operator(&self) -> Option<Operator> {
        match self.token {
            Token::Word { word: "or", escaped: false } => Some(Operator::Or),
            Token::Word { word: "and", escaped: false } => Some(Operator::And),
            Token::Word { word: "in", escaped: false } => Some(Operator::In),
            Token::Compare(op) => Some(Operator::Compare(op)),
            Token::Tilde => Some(Operator::Substring),
            Token::Calculate(op) => Some(Operator::Calculate(op)),
            _ => None,
        }
    }

    /// An expression of operators that bind at least as tightly as `at_least`.
    fn expression(&mut self, at_least: u8) -> Result<Id> {
        let mut left = self.operand()?;
        // The loosest operator that may follow without parentheses: after a comparison, no second one.
        let mut at_most = TIGHTEST;
        while let Some(operator) = self.operator() {
            let own = operator.power();
            if own < at_least {
                break;
            }
            let at = self.start;
            if own > at_most {
                return fault(at, Reason::Chained { operator: operator.text() });
            }
            self.advance()?;
            left = if let Operator::In = operator {
                let path = self.path_operand("after in, a field")?;
                self.push(Node::In(left, path), at)?
            } else {
                let right = self.expression(own + 1)?;
                self.binary(operator, left, right, at)?
            };
            at_most = if operator.associates() { own } else { own - 1 };
        }
        Ok(left)
    }

    fn binary(&mut self, operator: Operator, left: Id, right: Id, at: usize) -> Result<Id> {
        let node = match operator {
            Operator::Or => Node::Or(left, right),
            Operator::And => Node::And(left, right),
            Operator::Compare(op) => Node::Compare(op, left, right),
            Operator::Substring => Node::Substring(left, right),
            Operator::Calculate(op) => Node::Calculate(op, left, right),
            // Its right side is a path; `expression` makes it.
            Operator::In => return Ok(left),
        };
        match operator {
            Operator::Compare(_) => self.comparable(left, right, at)?,
            // The type of the right side does not matter if the left one decides: the compiler handles that.
            Operator::Or | Operator::And => self.takes(operator, left)?,
            _ => {
                self.takes(operator, left)?;
                self.takes(operator, right)?;
            }
        }
        self.push(node, at)
    }

    /// Checks that an operand has a type that the operator takes.
    fn takes(&self, operator: Operator, side: Id) -> Result<()> {
        let found = self.tree.kind(side);
        let (holds, reason) = match operator {
            Operator::Or | Operator::And => (
                matches!(found, Kind::Truth | Kind::Field),
                Reason::NotTruth { operator: Some(operator.text()), found },
            ),
            Operator::Substring => (
                matches!(found, Kind::Text | Kind::Character | Kind::Field),
                Reason::NotText { operator: operator.text(), found },
            ),
            _ => (found != Kind::Text, Reason::NotNumber { operator: operator.text(), found }),
        };
        self.require(holds, side, reason)
    }

    fn comparable(&self, left: Id, right: Id, at: usize) -> Result<()> {
        let group = |kind| if kind == Kind::Character { Kind::Text } else { kind };
        let (one, other) = (self.tree.kind(left), self.tree.kind(right));
        if one == Kind::Field || other == Kind::Field || group(one) == group(other) {
            return Ok(());
        }
        let not = matches!(self.tree.node(left), Node::Not(_));
        fault(at, Reason::Incomparable { left: one, right: other, not })
    }

    /// An operand with its prefix operators.
    fn operand(&mut self) -> Result<Id> {
        let at = self.start;
        match core::mem::replace(&mut self.token, Token::End) {
            Token::Literal(literal) => {
                self.advance()?;
                self.push(Node::Literal(literal), at)
            }
            Token::Dollar => {
                let path = self.dollar()?;
                self.push(Node::Field(path), at)
            }
            Token::Open => {
                let inner = self.nested(at, |parser| parser.expression(0))?;
                if self.token != Token::Close {
                    return self.unexpected("an operator or )");
                }
                self.advance()?;
                Ok(inner)
            }
            Token::Calculate(Arithmetic::Subtract) => self.unary(at, "-", Node::Negate),
            Token::Calculate(Arithmetic::Add) => self.unary(at, "+", Node::Plus),
            Token::Word { word: "not", escaped: false } => self.unary(at, "not", Node::Not),
            Token::Word { word: "exist", escaped: false } => {
                self.advance()?;
                let path = self.path_operand("after exist, a field")?;
                self.push(Node::Exist(path), at)
            }
            Token::Word { word: "default", escaped: false } => {
                self.advance()?;
                let path = self.path_operand("after default, a union")?;
                let path = self.union_of(path, at)?;
                self.push(Node::Default(path), at)
            }
            Token::Word { word, escaped } => self.name(word, escaped, at),
            token => {
                self.token = token;
                self.unexpected("an operand")
            }
        }
    }

    /// Parses one level deeper, after the token just taken.
    fn nested(&mut self, at: usize, inner: impl FnOnce(&mut Self) -> Result<Id>) -> Result<Id> {
        if self.depth >= self.limits.depth_max {
            return fault(at, Reason::TooDeep { depth_max: self.limits.depth_max });
        }
        self.depth += 1;
        self.advance()?;
        let id = inner(self)?;
        self.depth -= 1;
        Ok(id)
    }

    fn unary(&mut self, at: usize, operator: &'static str, node: fn(Id) -> Node) -> Result<Id> {
        let operand = self.nested(at, Self::operand)?;
        let found = self.tree.kind(operand);
        let (holds, reason) = match operator {
            "not" => (matches!(found, Kind::Truth | Kind::Field), Reason::NotTruth { operator: Some(operator), found }),
            _ => (found != Kind::Text, Reason::NotNumber { operator, found }),
        };
        self.require(holds, operand, reason)?;
        self.push(node(operand), at)
    }

    /// A word as an operand: `TRUE` or `FALSE` in any case, otherwise a name without `$`.
    fn name(&mut self, word: &'t str, escaped: bool, at: usize) -> Result<Id> {
        if !escaped && is_keyword(word) {
            if word.eq_ignore_ascii_case("TRUE") || word.eq_ignore_ascii_case("FALSE") {
                self.advance()?;
                return self.push(Node::Literal(Literal::Bool(word.eq_ignore_ascii_case("TRUE"))), at);
            }
            return fault(at, Reason::Expected { expected: "an operand", found: word.into() });
        }
        let after = self.lexer.at;
        self.advance()?;
        match self.token {
            Token::Open => fault(at, Reason::NoFunctions(shortened(word))),
            Token::OpenBracket | Token::Dot => fault(at, Reason::PathWithoutDollar(shortened(word))),
            Token::Literal(Literal::Float(_)) if self.text_at(after) == Some(b'.') => {
                fault(at, Reason::PathWithoutDollar(shortened(word)))
            }
            _ => {
                let path = named(word, Vec::new());
                // The time is not the name of an enumerator.
                let node = if path.root == Root::CurrentTime { Node::Field } else { Node::Name };
                let path = self.tree.paths.place(path);
                self.push(node(path), at)
            }
        }
    }

    fn text_at(&self, at: usize) -> Option<u8> {
        self.lexer.text.as_bytes().get(at).copied()
    }

    /// The path after `exist`, `default` or `in`: `$path` or a name.
    fn path_operand(&mut self, expected: &'static str) -> Result<u32> {
        match self.token {
            Token::Dollar => self.dollar(),
            Token::Word { word, escaped } if escaped || !is_keyword(word) => {
                let at = self.start;
                self.advance()?;
                if matches!(self.token, Token::OpenBracket | Token::Dot | Token::Open) {
                    return fault(at, Reason::PathWithoutDollar(shortened(word)));
                }
                Ok(self.tree.paths.place(named(word, Vec::new())))
            }
            _ => fault(self.start, Reason::Expected { expected, found: self.lexer.describe(self.start) }),
        }
    }

    /// The union `$u` of `default $u._d`, which means the same as `default $u`.
    fn union_of(&mut self, path: u32, at: usize) -> Result<u32> {
        Ok(match self.tree.paths.get(path) {
            Some(Path { root, parts }) if parts.last() == Some(&Part::Discriminator) => {
                let parts = parts.iter().take(parts.len() - 1).cloned().collect();
                let union = Path { root: root.clone(), parts };
                self.tree.paths.place(union)
            }
            Some(Path { parts, .. }) if parts.last().is_some_and(is_last) => return fault(at, Reason::AfterLastPart),
            _ => path,
        })
    }

    /// A path whose `$` was the last token taken.
    fn dollar(&mut self) -> Result<u32> {
        let path = self.dollar_path()?;
        let path = self.tree.paths.place(path);
        self.advance()?;
        Ok(path)
    }

    /// The path itself, up to the token that follows it.
    fn dollar_path(&mut self) -> Result<Path> {
        let at = self.start;
        let beside = self.lexer.at;
        self.lexer.skip_space();
        let mut name = None;
        if self.lexer.peek().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'\\') {
            let start = self.lexer.at;
            let (word, escaped) = self.lexer.word()?;
            if escaped || !is_keyword(word) {
                name = Some(word);
            } else if start == beside {
                return fault(start, Reason::KeywordAsName(word.into()));
            } else {
                // `$ and …`: the whole event, and then an operator.
                self.lexer.at = start;
            }
        }
        let parts = self.parts()?;
        let path = match name {
            Some(name) => named(name, parts),
            None => Path { root: Root::Event, parts: parts.into() },
        };
        if path.root == Root::CurrentTime && !is_current_time(&path.parts) {
            return fault(at, Reason::CurrentTimeMember);
        }
        Ok(path)
    }

    fn parts(&mut self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        loop {
            self.lexer.skip_space();
            let at = self.lexer.at;
            let part = if self.lexer.take(b'.') {
                self.dot_part()?
            } else if self.lexer.take(b'[') {
                self.element()?
            } else if self.lexer.take(b'(') {
                self.named_value()?
            } else {
                return Ok(parts);
            };
            if parts.last().is_some_and(is_last) {
                return fault(at, Reason::AfterLastPart);
            }
            if parts.len() >= self.limits.depth_max as usize {
                return fault(at, Reason::PathTooLong { depth_max: self.limits.depth_max });
            }
            parts.push(part);
        }
    }

    fn dot_part(&mut self) -> Result<Part> {
        if self.lexer.take(b'(') {
            return self.label();
        }
        match self.lexer.peek() {
            Some(b'0'..=b'9') => Ok(Part::Position(self.index("a position")?)),
            Some(b'\\' | b'_' | b'a'..=b'z' | b'A'..=b'Z') => {
                let (word, escaped) = self.lexer.word()?;
                Ok(match word {
                    "_d" if !escaped => Part::Discriminator,
                    "_length" if !escaped => Part::Length,
                    "_type_id" if !escaped => Part::TypeId,
                    "_repos_id" if !escaped => Part::ReposId,
                    _ => Part::Member(word.into()),
                })
            }
            _ => self.expected_here("a member's name or position"),
        }
    }

    fn element(&mut self) -> Result<Part> {
        self.lexer.skip_space();
        let element = self.index("an element's number")?;
        self.close(b']', "]")?;
        Ok(Part::Element(element))
    }

    fn named_value(&mut self) -> Result<Part> {
        self.lexer.skip_space();
        let name = match self.lexer.peek() {
            Some(b'\'') => self.lexer.string()?,
            Some(b'\\' | b'_' | b'a'..=b'z' | b'A'..=b'Z') => self.lexer.word()?.0.into(),
            _ => return self.expected_here("the name of a value"),
        };
        self.close(b')', ")")?;
        Ok(Part::Named(name))
    }

    /// The label in `.( )`, and the closing parenthesis.
    fn label(&mut self) -> Result<Part> {
        self.lexer.skip_space();
        let at = self.lexer.at;
        let label = match self.lexer.peek() {
            Some(b')') => {
                self.lexer.at += 1;
                return Ok(Part::Default);
            }
            Some(b'\'') => match single(&self.lexer.string()?) {
                Some(c) => Label::Char(c),
                None => return fault(at, Reason::LabelText),
            },
            Some(sign @ (b'+' | b'-' | b'0'..=b'9')) => {
                self.lexer.at += usize::from(!sign.is_ascii_digit());
                self.lexer.skip_space();
                let number = self.lexer.digits("a label", i64::MAX.unsigned_abs())?.cast_signed();
                Label::Int(if sign == b'-' { -number } else { number })
            }
            Some(b'\\' | b'_' | b'a'..=b'z' | b'A'..=b'Z') => match self.lexer.word()? {
                (word, false) if word.eq_ignore_ascii_case("TRUE") => Label::Bool(true),
                (word, false) if word.eq_ignore_ascii_case("FALSE") => Label::Bool(false),
                (word, _) => Label::Name(word.into()),
            },
            _ => return self.expected_here("a label"),
        };
        self.close(b')', ")")?;
        Ok(Part::Label(label))
    }

    fn index(&mut self, expected: &'static str) -> Result<u32> {
        self.lexer.digits(expected, u64::from(u32::MAX)).map(|index| u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn close(&mut self, byte: u8, expected: &'static str) -> Result<()> {
        if self.lexer.take(byte) { Ok(()) } else { self.expected_here(expected) }
    }

    fn expected_here<T>(&self, expected: &'static str) -> Result<T> {
        let at = self.lexer.at;
        fault(at, Reason::Expected { expected, found: self.lexer.describe(at) })
    }
}

fn named(name: &str, parts: Vec<Part>) -> Path {
    let root = if name == "curtime" { Root::CurrentTime } else { Root::Name(name.into()) };
    Path { root, parts: parts.into() }
}

/// Whether no part may follow.
fn is_last(part: &Part) -> bool {
    matches!(part, Part::Discriminator | Part::Length | Part::TypeId | Part::ReposId)
}

/// Whether `$curtime` has these parts: it is a `TimeBase::UtcT`, whose `time` has halves as when it was a structure.
fn is_current_time(parts: &[Part]) -> bool {
    let member = |part: &Part| match part {
        Part::Member(name) => Some(Box::<str>::from(&**name)),
        _ => None,
    };
    match parts {
        [] | [Part::TypeId | Part::ReposId] => true,
        [only] => {
            member(only).is_some_and(|name| matches!(&*name, "time" | "high" | "low" | "inacclo" | "inacchi" | "tdf"))
        }
        [time, half] => {
            member(time).as_deref() == Some("time") && member(half).is_some_and(|n| matches!(&*n, "high" | "low"))
        }
        _ => false,
    }
}

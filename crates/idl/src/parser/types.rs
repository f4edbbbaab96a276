//! Types.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use giop::typecode::{Kind, TypeCode, TypeRef};

use super::{Known, Parser, Type};
use crate::error::IdlError;
use crate::lexer::Token;

/// Total parts and nesting levels of the members of a struct or union.
#[derive(Default)]
struct Sum {
    parts: usize,
    levels: u32,
}

impl Sum {
    fn add(&mut self, of: &Type) {
        self.parts += of.parts;
        self.levels = self.levels.max(of.levels);
    }

    const fn of(&self, code: TypeCode) -> Type {
        Type { code, parts: self.parts + 1, levels: self.levels + 1 }
    }
}

impl<'t> Parser<'t> {
    /// Parses a struct, from its opening to its closing brace.
    pub(super) fn structure(&mut self, id: &str, name: &str, begin: usize) -> Result<Type, IdlError> {
        self.mark('{')?;
        let (mut members, mut sum) = (Vec::<(&str, TypeCode)>::new(), Sum::default());
        let mut names = BTreeSet::new();
        while self.lexer.token != Token::Mark('}') {
            let of = self.member_type()?;
            loop {
                let (member, of) = self.declarator(&of, &mut names)?;
                sum.add(&of);
                self.check_sum(&sum)?;
                members.push((member, of.code));
                if !self.take_if(Token::Mark(','))? {
                    break;
                }
            }
            self.mark(';')?;
        }
        if members.is_empty() {
            return Err(self.lexer.error_at(begin, format!("the struct `{name}` has no members")));
        }
        Ok(sum.of(TypeCode::structure(id, name, &members)))
    }

    /// Parses a union, from `switch` to its closing brace.
    pub(super) fn union(&mut self, id: &str, name: &str, begin: usize) -> Result<Type, IdlError> {
        if !self.take_if(Token::Word("switch"))? {
            return Err(self.expected("`switch`"));
        }
        self.mark('(')?;
        let at = self.lexer.begin;
        let discriminator = self.member_type()?;
        let Some(range) = label_range(discriminator.code.root()) else {
            let reason = "a union is switched by a whole number, a `char`, a `boolean` or an enum";
            return Err(self.lexer.error_at(at, reason.into()));
        };
        self.mark(')')?;
        self.mark('{')?;
        let (mut members, mut sum) = (Vec::<(Option<i64>, &str, TypeCode)>::new(), Sum::default());
        sum.add(&discriminator);
        let (mut names, mut labels) = (BTreeSet::new(), BTreeSet::new());
        while self.lexer.token != Token::Mark('}') {
            let own = self.labels(discriminator.code.root(), &range, &mut labels)?;
            let of = self.member_type()?;
            let (member, of) = self.declarator(&of, &mut names)?;
            for label in own {
                sum.add(&of);
                self.check_sum(&sum)?;
                members.push((label, member, of.code.clone()));
            }
            self.mark(';')?;
        }
        if members.is_empty() {
            return Err(self.lexer.error_at(begin, format!("the union `{name}` has no members")));
        }
        Ok(sum.of(TypeCode::union(id, name, discriminator.code, &members)))
    }

    /// The labels in front of a member: those of its cases, and none for the default.
    fn labels(
        &mut self,
        discriminator: TypeRef<'_>,
        range: &core::ops::RangeInclusive<i128>,
        known: &mut BTreeSet<Option<i64>>,
    ) -> Result<Vec<Option<i64>>, IdlError> {
        let mut own = Vec::new();
        loop {
            let begin = self.lexer.begin;
            let label = match self.lexer.token {
                Token::Word("case") => {
                    self.advance()?;
                    let value = match discriminator.resolved() {
                        of if of.kind() == Kind::Enum => self.enumerator(of)?,
                        _ => self.expression()?,
                    };
                    if !range.contains(&value) {
                        let reason = format!("{value} is no value of `{discriminator}`");
                        return Err(self.lexer.error_at(begin, reason));
                    }
                    // Above the largest `long long` there are only those of `unsigned long long`, which go by their bits.
                    i64::try_from(value).ok().or_else(|| u64::try_from(value).ok().map(u64::cast_signed))
                }
                Token::Word("default") => {
                    self.advance()?;
                    None
                }
                _ if own.is_empty() => return Err(self.expected("`case` or `default`")),
                _ => return Ok(own),
            };
            if !known.insert(label) {
                return Err(self.lexer.error_at(begin, "there is such a case already".into()));
            }
            self.mark(':')?;
            own.push(label);
        }
    }

    /// The position of a value in an enum, by its name.
    fn enumerator(&mut self, of: TypeRef<'_>) -> Result<i128, IdlError> {
        let begin = self.lexer.begin;
        let (name, _) = self.known_name()?;
        let last = name.rsplit("::").next().unwrap_or_default();
        match of.members().position(|member| member.name() == last) {
            Some(at) => Ok(i128::try_from(at).unwrap_or(i128::MAX)),
            None => Err(self.lexer.error_at(begin, format!("`{name}` is no value of `{of}`"))),
        }
    }

    pub(super) fn enumeration(&mut self, id: &str, name: &str) -> Result<Type, IdlError> {
        self.mark('{')?;
        let (mut labels, mut known) = (Vec::new(), BTreeSet::new());
        loop {
            let begin = self.lexer.begin;
            let label = self.name("the name of a value")?;
            if !known.insert(label) {
                return Err(self.lexer.error_at(begin, format!("there is a value `{label}` already")));
            }
            labels.push(label);
            self.check_sum(&Sum { parts: labels.len(), levels: 0 })?;
            if !self.take_if(Token::Mark(','))? {
                break;
            }
        }
        self.mark('}')?;
        Ok(Type { code: TypeCode::enumeration(id, name, &labels), parts: 1 + labels.len(), levels: 0 })
    }

    /// Parses a member's name, with the array lengths behind it.
    fn declarator(&mut self, of: &Type, names: &mut BTreeSet<&'t str>) -> Result<(&'t str, Type), IdlError> {
        let begin = self.lexer.begin;
        let member = self.name("the name of the member")?;
        if !names.insert(member) {
            return Err(self.lexer.error_at(begin, format!("there is a member `{member}` already")));
        }
        Ok((member, self.array_of(of.clone())?))
    }

    /// Parses a member's type, which may be defined inline.
    pub(super) fn member_type(&mut self) -> Result<Type, IdlError> {
        let begin = self.lexer.begin;
        match self.lexer.token {
            Token::Word("struct" | "union" | "enum") => self.constructed()?.ok_or_else(|| {
                self.lexer.error_at(begin, "a type that a member has is defined with its members".into())
            }),
            _ => self.simple_type(),
        }
    }

    fn simple_type(&mut self) -> Result<Type, IdlError> {
        let (token, begin) = (self.lexer.token, self.lexer.begin);
        let word = match token {
            Token::Word(word) => word,
            Token::Escaped(_) | Token::Scope => return self.named_type(begin),
            _ => return Err(self.expected("a type")),
        };
        let kind = match word {
            "unsigned" => {
                self.advance()?;
                match self.lexer.token {
                    Token::Word("short") => Kind::UShort,
                    Token::Word("long") => {
                        self.advance()?;
                        let is_long_long = self.take_if(Token::Word("long"))?;
                        return Ok(Type::of(if is_long_long { Kind::ULongLong } else { Kind::ULong }));
                    }
                    _ => return Err(self.expected("`short` or `long` behind `unsigned`")),
                }
            }
            "long" => {
                self.advance()?;
                match self.lexer.token {
                    Token::Word("long") => Kind::LongLong,
                    Token::Word("double") => Kind::LongDouble,
                    _ => return Ok(Type::of(Kind::Long)),
                }
            }
            "Object" => {
                self.advance()?;
                return Ok(Type::plain(TypeCode::object("IDL:omg.org/CORBA/Object:1.0", "Object")));
            }
            "string" | "wstring" => return self.text_type(word == "wstring"),
            "sequence" => return self.sequence(begin),
            "fixed" => return self.fixed(),
            _ => match plain_kind(word) {
                Some(kind) => kind,
                None => return self.named_type(begin),
            },
        };
        self.advance()?;
        Ok(Type::of(kind))
    }

    fn text_type(&mut self, is_wide: bool) -> Result<Type, IdlError> {
        self.advance()?;
        let bound = if self.take_if(Token::Mark('<'))? { self.bound('>')? } else { 0 };
        Ok(Type::plain(if is_wide { TypeCode::bounded_wstring(bound) } else { TypeCode::bounded_string(bound) }))
    }

    fn fixed(&mut self) -> Result<Type, IdlError> {
        self.advance()?;
        self.mark('<')?;
        let begin = self.lexer.begin;
        let digits = self.expression()?;
        self.mark(',')?;
        let scale = self.expression()?;
        self.mark('>')?;
        match (u16::try_from(digits), i16::try_from(scale)) {
            (Ok(digits @ 1..=31), Ok(scale @ 0..=31)) if i128::from(scale) <= i128::from(digits) => {
                Ok(Type::plain(TypeCode::fixed(digits, scale)))
            }
            _ => Err(self.lexer.error_at(begin, "a `fixed` has 1 to 31 digits, some of them behind the point".into())),
        }
    }

    fn named_type(&mut self, begin: usize) -> Result<Type, IdlError> {
        let (name, found) = self.known_name()?;
        let reason = match found {
            Some((_, Known::Type(of))) => return Ok(of),
            found => {
                let path = found.as_ref().map(|(path, _)| path);
                match &self.open {
                    Some((open, id)) if path.is_none_or(|path| path == open) && is_last_of(open, &name) => {
                        if self.sequences > 0 {
                            return Ok(Type::plain(TypeCode::recursive(id)));
                        }
                        format!("`{name}` cannot contain itself but in a sequence")
                    }
                    // CORBA 3.3 part 1, 7.11.1.4: sequences may be of a type that is yet to be defined.
                    _ => match found {
                        Some((_, Known::Forward(id))) if self.sequences > 0 => {
                            return Ok(Type::plain(TypeCode::recursive(&id)));
                        }
                        found => self.no_type(&name, found.map(|(_, known)| known)),
                    },
                }
            }
        };
        Err(self.lexer.error_at(begin, reason))
    }

    fn no_type(&self, name: &str, known: Option<Known>) -> String {
        match known {
            Some(Known::Forward(_)) => format!("`{name}` is used before it is defined, and not in a sequence"),
            Some(Known::Module) => format!("`{name}` is no type, but a module"),
            Some(Known::Other(what)) => format!("`{name}` is {what}, which does not travel with events"),
            Some(Known::Number(_) | Known::Constant) => format!("`{name}` is no type, but a constant"),
            _ if self.lexer.includes => {
                format!("`{name}` is no type; `#include` is not followed: put its definition into this text")
            }
            _ => format!("`{name}` is no type: {TYPES}, or one that is defined before"),
        }
    }

    fn sequence(&mut self, begin: usize) -> Result<Type, IdlError> {
        self.advance()?;
        self.deeper()?;
        self.sequences += 1;
        self.mark('<')?;
        let element = self.simple_type()?;
        // IDL has no arrays here without a name, but types from elsewhere may.
        let element = self.array_of(element)?;
        let bound = if self.take_if(Token::Mark(','))? {
            self.bound('>')?
        } else {
            self.mark('>')?;
            0
        };
        self.depth -= 1;
        self.sequences -= 1;
        let code = TypeCode::bounded_sequence(element.code, bound);
        let of = Type { code, parts: element.parts + 1, levels: element.levels + 1 };
        self.check_size(begin, &of)?;
        Ok(of)
    }

    /// Wraps a type into arrays, for the lengths behind a member's name.
    pub(super) fn array_of(&mut self, of: Type) -> Result<Type, IdlError> {
        let (begin, mut lengths) = (self.lexer.begin, Vec::new());
        let mut levels = of.levels;
        while self.take_if(Token::Mark('['))? {
            lengths.push(self.bound(']')?);
            levels += 1;
            if levels > super::DEPTH_MAX {
                return Err(self.too_deep(begin));
            }
        }
        Ok(lengths.into_iter().rev().fold(of, |of, length| Type {
            code: TypeCode::array(of.code, length),
            parts: of.parts + 1,
            levels: of.levels + 1,
        }))
    }

    /// Parses a number from 1, and the character that ends it.
    fn bound(&mut self, end: char) -> Result<u32, IdlError> {
        let begin = self.lexer.begin;
        let number = self.expression()?;
        match u32::try_from(number) {
            Ok(bound @ 1..) => {
                self.mark(end)?;
                Ok(bound)
            }
            _ => Err(self.lexer.error_at(begin, format!("expected a number from 1 to {}, found {number}", u32::MAX))),
        }
    }

    fn check_sum(&self, sum: &Sum) -> Result<(), IdlError> {
        if sum.parts >= super::PARTS_MAX || sum.levels >= super::DEPTH_MAX {
            let of = Type { parts: sum.parts + 1, levels: sum.levels + 1, code: TypeCode::default() };
            return self.check_size(self.lexer.begin, &of);
        }
        Ok(())
    }
}

/// Whether a name, partly scoped or not, is the end of a fully scoped name.
fn is_last_of(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
}

/// Basic types named by one word.
pub(super) fn plain_kind(word: &str) -> Option<Kind> {
    Some(match word {
        "boolean" => Kind::Boolean,
        "octet" | "uint8" => Kind::Octet,
        "char" => Kind::Char,
        "wchar" => Kind::Wchar,
        "short" | "int16" => Kind::Short,
        "uint16" => Kind::UShort,
        "int32" => Kind::Long,
        "uint32" => Kind::ULong,
        "int64" => Kind::LongLong,
        "uint64" => Kind::ULongLong,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "any" => Kind::Any,
        _ => return None,
    })
}

/// The range of a union's labels.
fn label_range(of: TypeRef<'_>) -> Option<core::ops::RangeInclusive<i128>> {
    match of.resolved().kind() {
        Kind::Enum => Some(0..=i128::from(u32::MAX)),
        kind => super::constants::range(kind),
    }
}

const TYPES: &str = "boolean, octet, char, wchar, [unsigned] short, [unsigned] long, [unsigned] long long, float, double, \
                     long double, string, wstring, fixed, any, sequence";

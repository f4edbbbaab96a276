//! Constants and constant expressions (CORBA 3.3 part 1, 7.4.9).

use alloc::format;
use core::ops::RangeInclusive;

use giop::typecode::Kind;

use super::{Known, Parser};
use crate::error::IdlError;
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn constant(&mut self) -> Result<(), IdlError> {
        self.advance()?;
        let of = self.member_type()?;
        let begin = self.lexer.begin;
        let name = self.name("the name of the constant")?;
        let path = self.path_of(name);
        if self.known.contains_key(&path) {
            return Err(self.lexer.error_at(begin, format!("`{name}` is defined already")));
        }
        self.mark('=')?;
        let at = self.lexer.begin;
        let known = match range(of.code.root().resolved().kind()) {
            Some(range) => {
                let value = self.expression()?;
                if !range.contains(&value) {
                    return Err(self.lexer.error_at(at, format!("{value} is no value of `{}`", of.code.root())));
                }
                Known::Number(value)
            }
            None => {
                // Texts, numbers with fractions and enumerators are of no use for types.
                while !matches!(self.lexer.token, Token::Mark(';') | Token::End) {
                    self.advance()?;
                }
                Known::Constant
            }
        };
        self.known.insert(path, known);
        Ok(())
    }

    /// Parses sums of products of numbers, characters, booleans and constants.
    pub(super) fn expression(&mut self) -> Result<i128, IdlError> {
        self.deeper()?;
        let mut value = self.product()?;
        loop {
            let begin = self.lexer.begin;
            let result = if self.take_if(Token::Mark('+'))? {
                value.checked_add(self.product()?)
            } else if self.take_if(Token::Mark('-'))? {
                value.checked_sub(self.product()?)
            } else {
                self.depth -= 1;
                return Ok(value);
            };
            value = self.calculated(begin, result)?;
        }
    }

    fn product(&mut self) -> Result<i128, IdlError> {
        let mut value = self.factor()?;
        loop {
            let begin = self.lexer.begin;
            let result = if self.take_if(Token::Mark('*'))? {
                value.checked_mul(self.factor()?)
            } else if self.take_if(Token::Mark('/'))? {
                value.checked_div(self.factor()?)
            } else if self.take_if(Token::Mark('%'))? {
                value.checked_rem(self.factor()?)
            } else {
                return Ok(value);
            };
            value = self.calculated(begin, result)?;
        }
    }

    fn factor(&mut self) -> Result<i128, IdlError> {
        let (token, begin) = (self.lexer.token, self.lexer.begin);
        match token {
            Token::Number(number) => self.advance().map(|()| number.into()),
            Token::Char(c) => self.advance().map(|()| u32::from(c).into()),
            Token::Word("TRUE") => self.advance().map(|()| 1),
            Token::Word("FALSE") => self.advance().map(|()| 0),
            Token::Mark('-') => {
                self.advance()?;
                self.deeper()?;
                let value = self.factor()?;
                self.depth -= 1;
                self.calculated(begin, value.checked_neg())
            }
            Token::Mark('(') => {
                self.advance()?;
                let value = self.expression()?;
                self.mark(')')?;
                Ok(value)
            }
            Token::Word(_) | Token::Escaped(_) | Token::Scope => match self.known_name()? {
                (_, Some((_, Known::Number(number)))) => Ok(number),
                (name, _) => Err(self.lexer.error_at(begin, format!("`{name}` is no constant that is a whole number"))),
            },
            _ => Err(self.expected("a number")),
        }
    }

    fn calculated(&self, begin: usize, result: Option<i128>) -> Result<i128, IdlError> {
        result.ok_or_else(|| self.lexer.error_at(begin, "this cannot be calculated".into()))
    }
}

/// The range of a kind's values, for whole numbers, characters and booleans.
pub(super) fn range(kind: Kind) -> Option<RangeInclusive<i128>> {
    Some(match kind {
        Kind::Boolean => 0..=1,
        Kind::Octet | Kind::Char => 0..=i128::from(u8::MAX),
        Kind::Wchar | Kind::UShort => 0..=i128::from(u16::MAX),
        Kind::Short => i128::from(i16::MIN)..=i128::from(i16::MAX),
        Kind::Long => i128::from(i32::MIN)..=i128::from(i32::MAX),
        Kind::ULong => 0..=i128::from(u32::MAX),
        Kind::LongLong => i128::from(i64::MIN)..=i128::from(i64::MAX),
        Kind::ULongLong => 0..=i128::from(u64::MAX),
        _ => return None,
    })
}

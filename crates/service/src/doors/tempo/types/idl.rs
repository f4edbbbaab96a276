//! Types as the configuration declares them: a little of IDL (CORBA 3.3 part 1, 7.11), read into a `TypeCode`.
//!
//! ```text
//! enum State { OK, FAILED };
//! struct Wind { double speed; float direction[3]; string<16> station; sequence<float, 100> samples; State state; };
//! ```
//!
//! A text is one or more definitions, of which the last is the type. Structures and enums may also be defined where they are used. There is
//! no nesting of modules, no alias, no union, no `any`.

use core::fmt;

use giop::typecode::{Kind, TypeCode};

/// Structures, sequences and arrays within each other.
const DEPTH_MAX: u32 = 16;
/// Types and members that a type consists of, each as often as it occurs.
const PARTS_MAX: usize = 4_096;
/// Octets of a name.
const NAME_MAX: usize = 255;
/// Octets of the shortest value.
const OCTETS_MAX: u64 = ::tempo::wire::MESSAGE_MAX as u64;

/// Why a text declares no type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdlError {
    /// Where: the line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
    /// What is the matter.
    pub reason: String,
}

impl fmt::Display for IdlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

impl std::error::Error for IdlError {}

/// Reads the type that a text declares: a structure.
///
/// # Errors
/// The text is none of that, or the type is too large.
pub(crate) fn read(text: &str) -> Result<TypeCode, IdlError> {
    let mut parser = Parser { text, at: 0, token: Token::End, begin: 0, known: Vec::new() };
    parser.advance()?;
    loop {
        let defined = parser.definition("", DEPTH_MAX)?;
        // Behind the last one it may be left out.
        let has_semicolon = parser.take_if(Token::Mark(';'))?;
        match parser.token {
            Token::End if defined.code.kind() == Kind::Struct => return Ok(defined.code),
            Token::End => return Err(parser.error("the last definition has to be a struct".into())),
            _ if has_semicolon => {}
            _ => return Err(parser.expected("`;`")),
        }
        parser.known.push(defined);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Number(u32),
    Mark(char),
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Mark(mark) => write!(f, "`{mark}`"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// A type, and what it comes to.
#[derive(Clone)]
struct Defined {
    code: TypeCode,
    parts: usize,
    /// Octets of the shortest value, without padding.
    octets: u64,
    /// How many levels there are within it.
    levels: u32,
}

impl Defined {
    const fn plain(code: TypeCode, octets: u64) -> Self {
        Self { code, parts: 1, octets, levels: 0 }
    }
}

struct Parser<'t> {
    text: &'t str,
    /// Behind the token.
    at: usize,
    token: Token<'t>,
    /// Where the token begins.
    begin: usize,
    /// What was defined before.
    known: Vec<Defined>,
}

impl<'t> Parser<'t> {
    // ---- types ----

    /// A struct or an enum, at whose keyword the parser stands.
    fn definition(&mut self, scope: &str, depth: u32) -> Result<Defined, IdlError> {
        match self.token {
            Token::Word("struct") => self.structure(scope, depth),
            Token::Word("enum") => self.enumeration(scope),
            _ => Err(self.expected("`struct` or `enum`")),
        }
    }

    fn structure(&mut self, scope: &str, depth: u32) -> Result<Defined, IdlError> {
        self.advance()?;
        let (name, begin) = (self.name("the name of the struct")?, self.begin);
        self.refuse_known(name)?;
        let path = if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") };
        self.mark('{')?;
        let (mut members, mut parts, mut octets, mut levels) = (Vec::<(&str, TypeCode)>::new(), 1, 0_u64, 0);
        while !self.take_if(Token::Mark('}'))? {
            let of = self.member_type(&path, depth.saturating_sub(1))?;
            loop {
                let before = self.begin;
                let member = self.name("the name of the member")?;
                if members.iter().any(|(other, _)| *other == member) {
                    return Err(self.error_at(before, format!("there is a member `{member}` already")));
                }
                let of = self.array_of(of.clone(), depth.saturating_sub(1))?;
                (parts, octets, levels) = (parts + of.parts, octets.saturating_add(of.octets), levels.max(of.levels));
                self.check_size(before, parts, octets)?;
                members.push((member, of.code));
                if !self.take_if(Token::Mark(','))? {
                    break;
                }
            }
            self.mark(';')?;
        }
        if members.is_empty() {
            return Err(self.error_at(begin, format!("the struct `{name}` has no members")));
        }
        self.check_depth(begin, levels + 1, depth)?;
        let code = TypeCode::structure(&format!("IDL:{path}:1.0"), name, &members);
        Ok(Defined { code, parts, octets, levels: levels + 1 })
    }

    fn enumeration(&mut self, scope: &str) -> Result<Defined, IdlError> {
        self.advance()?;
        let name = self.name("the name of the enum")?;
        self.refuse_known(name)?;
        self.mark('{')?;
        let mut labels: Vec<&str> = Vec::new();
        loop {
            let before = self.begin;
            let label = self.name("the name of a value")?;
            if labels.contains(&label) {
                return Err(self.error_at(before, format!("there is a value `{label}` already")));
            }
            labels.push(label);
            self.check_size(before, labels.len(), 0)?;
            if !self.take_if(Token::Mark(','))? {
                break;
            }
        }
        self.mark('}')?;
        let path = if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") };
        let code = TypeCode::enumeration(&format!("IDL:{path}:1.0"), name, &labels);
        Ok(Defined { code, parts: 1 + labels.len(), octets: 4, levels: 0 })
    }

    /// The type of a member, which may be defined in its place.
    fn member_type(&mut self, scope: &str, depth: u32) -> Result<Defined, IdlError> {
        match self.token {
            Token::Word("struct" | "enum") if depth > 0 => self.definition(scope, depth),
            _ => self.simple_type(depth),
        }
    }

    fn simple_type(&mut self, depth: u32) -> Result<Defined, IdlError> {
        let (token, begin) = (self.token, self.begin);
        let Token::Word(word) = token else { return Err(self.expected("a type")) };
        let plain = |kind, octets| Ok(Defined::plain(TypeCode::primitive(kind), octets));
        if word == "unsigned" {
            self.advance()?;
            return match self.token {
                Token::Word("short") => self.advance().and_then(|()| plain(Kind::UShort, 2)),
                Token::Word("long") => {
                    self.advance()?;
                    if self.take_if(Token::Word("long"))? { plain(Kind::ULongLong, 8) } else { plain(Kind::ULong, 4) }
                }
                _ => Err(self.expected("`short` or `long` behind `unsigned`")),
            };
        }
        self.advance()?;
        match word {
            "boolean" => plain(Kind::Boolean, 1),
            "octet" => plain(Kind::Octet, 1),
            "char" => plain(Kind::Char, 1),
            "short" => plain(Kind::Short, 2),
            "long" if self.token == Token::Word("double") => {
                Err(self.error_at(begin, "there is no `long double`".into()))
            }
            "long" if self.take_if(Token::Word("long"))? => plain(Kind::LongLong, 8),
            "long" => plain(Kind::Long, 4),
            "float" => plain(Kind::Float, 4),
            "double" => plain(Kind::Double, 8),
            "string" => {
                let bound = if self.take_if(Token::Mark('<'))? { self.bound('>')? } else { 0 };
                Ok(Defined::plain(TypeCode::bounded_string(bound), 5))
            }
            "sequence" => self.sequence(begin, depth),
            name => match self.known.iter().find(|known| known.code.name() == name) {
                Some(known) => {
                    let known = known.clone();
                    self.check_depth(begin, known.levels, depth)?;
                    Ok(known)
                }
                None => {
                    Err(self.error_at(begin, format!("`{name}` is no type: {TYPES}, or one that is defined before")))
                }
            },
        }
    }

    fn sequence(&mut self, begin: usize, depth: u32) -> Result<Defined, IdlError> {
        let Some(depth) = depth.checked_sub(1) else { return Err(self.too_deep(begin)) };
        self.mark('<')?;
        let element = self.simple_type(depth)?;
        let bound = if self.take_if(Token::Mark(','))? {
            self.bound('>')?
        } else {
            self.mark('>')?;
            0
        };
        let code = TypeCode::bounded_sequence(element.code, bound);
        Ok(Defined { code, parts: element.parts + 1, octets: 4, levels: element.levels + 1 })
    }

    /// A type with the lengths that may stand behind a member's name.
    fn array_of(&mut self, of: Defined, depth: u32) -> Result<Defined, IdlError> {
        let (begin, mut lengths) = (self.begin, Vec::new());
        while self.take_if(Token::Mark('['))? {
            lengths.push(self.bound(']')?);
            self.check_depth(begin, of.levels + u32::try_from(lengths.len()).unwrap_or(u32::MAX), depth)?;
        }
        Ok(lengths.into_iter().rev().fold(of, |of, length| Defined {
            code: TypeCode::array(of.code, length),
            parts: of.parts + 1,
            octets: of.octets.saturating_mul(length.into()),
            levels: of.levels + 1,
        }))
    }

    /// A number from 1, and what ends it.
    fn bound(&mut self, end: char) -> Result<u32, IdlError> {
        match self.token {
            Token::Number(number @ 1..) => {
                self.advance()?;
                self.mark(end)?;
                Ok(number)
            }
            _ => Err(self.expected("a number from 1")),
        }
    }

    // ---- limits ----

    fn check_size(&self, begin: usize, parts: usize, octets: u64) -> Result<(), IdlError> {
        if parts > PARTS_MAX {
            return Err(self.error_at(begin, format!("a type has {PARTS_MAX} parts at most")));
        }
        if octets > OCTETS_MAX {
            return Err(
                self.error_at(begin, format!("no message has room for a value: it has {OCTETS_MAX} octets at most"))
            );
        }
        Ok(())
    }

    fn check_depth(&self, begin: usize, levels: u32, depth: u32) -> Result<(), IdlError> {
        if levels > depth { Err(self.too_deep(begin)) } else { Ok(()) }
    }

    fn too_deep(&self, begin: usize) -> IdlError {
        self.error_at(begin, format!("types lie within each other {DEPTH_MAX} deep at most"))
    }

    // ---- words ----

    fn name(&mut self, what: &str) -> Result<&'t str, IdlError> {
        let Token::Word(word) = self.token else { return Err(self.expected(what)) };
        if KEYWORDS.contains(&word) {
            return Err(self.error(format!("expected {what}; `{word}` is a word of IDL")));
        }
        if word.len() > NAME_MAX {
            return Err(self.error(format!("a name has {NAME_MAX} octets at most")));
        }
        self.advance()?;
        Ok(word)
    }

    fn refuse_known(&self, name: &str) -> Result<(), IdlError> {
        match self.known.iter().any(|known| known.code.name() == name) {
            true => Err(self.error(format!("`{name}` is defined already"))),
            false => Ok(()),
        }
    }

    fn mark(&mut self, mark: char) -> Result<(), IdlError> {
        match self.take_if(Token::Mark(mark))? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{mark}`"))),
        }
    }

    fn take_if(&mut self, token: Token<'_>) -> Result<bool, IdlError> {
        let is_it = self.token == token;
        if is_it {
            self.advance()?;
        }
        Ok(is_it)
    }

    /// Goes to the next token.
    fn advance(&mut self) -> Result<(), IdlError> {
        self.skip_blanks()?;
        self.begin = self.at;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let Some(first) = rest.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c| !of_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let word = rest.get(..length).unwrap_or_default();
        self.at += length;
        self.token = match first {
            '0'..='9' => match word.parse() {
                Ok(number) => Token::Number(number),
                Err(_) => return Err(self.error(format!("`{word}` is no number from 0 to {}", u32::MAX))),
            },
            c if c.is_ascii_alphabetic() => Token::Word(word),
            '{' | '}' | '<' | '>' | '[' | ']' | ',' | ';' => Token::Mark(first),
            c => return Err(self.error(format!("`{}` is not expected", c.escape_debug()))),
        };
        Ok(())
    }

    fn skip_blanks(&mut self) -> Result<(), IdlError> {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let blanks = rest.len() - rest.trim_start().len();
            let rest = rest.trim_start();
            self.at += blanks;
            self.at += if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(behind) = rest.strip_prefix("/*") {
                let Some(length) = behind.find("*/") else {
                    return Err(self.error_at(self.at, "this comment has no end".into()));
                };
                length + 4
            } else {
                return Ok(());
            };
        }
    }

    // ---- errors ----

    fn expected(&self, what: &str) -> IdlError {
        self.error(format!("expected {what}, found {}", self.token))
    }

    /// About the token.
    fn error(&self, reason: String) -> IdlError {
        self.error_at(self.begin, reason)
    }

    fn error_at(&self, at: usize, reason: String) -> IdlError {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.bytes().filter(|octet| *octet == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        IdlError { line: number(line), column: number(column), reason }
    }
}

const TYPES: &str =
    "boolean, octet, char, [unsigned] short, [unsigned] long, [unsigned] long long, float, double, string, sequence";

const KEYWORDS: [&str; 13] = [
    "boolean", "octet", "char", "short", "long", "unsigned", "float", "double", "string", "sequence", "struct", "enum",
    "any",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read(text).expect_err(text).to_string()
    }

    #[test]
    fn a_struct_is_read_with_all_that_it_may_have() {
        let text = "
            enum State { OK, FAILED };  // what it is in
            struct Place { double lat, lon; };
            /* the wind
               as it is measured */
            struct Wind {
                boolean valid; octet o; char c; short s; unsigned short us; long l; unsigned long ul;
                long long ll; unsigned long long ull; float f; double d; string text; string<5> five;
                sequence<float> samples; sequence<sequence<Place, 2>, 3> places; long grid[2][3], one;
                State state; struct Inner { enum Kind { A } kind; } inner;
            };";
        let code = read(text).unwrap();
        let shown = code.to_string();
        for part in [
            "struct Wind {",
            "boolean valid;",
            "unsigned long long ull;",
            "sequence<float> samples;",
            "string<5> five;",
        ] {
            assert!(shown.contains(part), "{shown} lacks {part}");
        }
        let of = |name: &str| code.root().members().find(|member| member.name() == name).unwrap().type_ref();
        assert_eq!((of("grid").length(), of("grid").content().unwrap().length()), (2, 3));
        assert_eq!((of("places").bound(), of("places").content().unwrap().bound()), (Some(3), Some(2)));
        assert_eq!((of("inner").id(), of("state").id()), ("IDL:Wind/Inner:1.0", "IDL:State:1.0"));
        assert_eq!(of("inner").member(0).unwrap().type_ref().id(), "IDL:Wind/Inner/Kind:1.0");
        assert_eq!(code.root().member_count(), 19);
    }

    #[test]
    fn errors_say_where_and_what_is_expected() {
        assert_eq!(error("struct Wind { double speed }"), "line 1, column 28: expected `;`, found `}`");
        assert_eq!(error("struct Wind {\n  doble speed;\n}").split(": ").next().unwrap(), "line 2, column 3");
        assert!(error("struct Wind {\n  doble speed;\n}").contains("`doble` is no type"));
        assert_eq!(error("double x;"), "line 1, column 1: expected `struct` or `enum`, found `double`");
        assert_eq!(error("struct { double x; }"), "line 1, column 8: expected the name of the struct, found `{`");
        for (text, says) in [
            ("", "expected `struct` or `enum`, found the end"),
            ("struct A {}", "the struct `A` has no members"),
            ("struct A { long x; long x; }", "there is a member `x` already"),
            ("struct A { long x, x; }", "there is a member `x` already"),
            ("struct A { long long; }", "expected the name of the member"),
            ("struct A { long short; }", "`short` is a word of IDL"),
            ("struct A { long double x; }", "there is no `long double`"),
            ("struct A { unsigned float x; }", "expected `short` or `long` behind `unsigned`"),
            ("struct A { sequence<float x; }", "expected `>`"),
            ("struct A { sequence<float, 0> x; }", "expected a number from 1"),
            ("struct A { long x[0]; }", "expected a number from 1"),
            ("struct A { long x[99999999999]; }", "is no number"),
            ("struct A { any x; }", "`any` is no type"),
            ("struct A { A x; }", "`A` is no type"),
            ("enum E { A, A }; struct S { E e; }", "there is a value `A` already"),
            ("enum E { A };", "the last definition has to be a struct"),
            ("struct A { long x; }; struct A { long x; };", "`A` is defined already"),
            ("struct A { long x; } struct B { long x; };", "expected `;`"),
            ("struct A { long x; /* }", "this comment has no end"),
            ("struct A { long x; } ; é", "`é` is not expected"),
            ("struct A { octet x[16777217]; }", "no message has room"),
            ("struct A { double x[4000][4000]; }", "no message has room"),
        ] {
            let error = error(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded_whatever_is_written() {
        let nested =
            |levels: usize| format!("struct A {{ {}float{} x; }}", "sequence<".repeat(levels), ">".repeat(levels));
        assert!(read(&nested(15)).is_ok());
        assert!(error(&nested(16)).contains("16 deep at most"));
        assert!(error(&nested(100_000)).contains("16 deep at most"));
        let inline = |levels: usize| format!("{}long x;{}", "struct A { ".repeat(levels), "} x;".repeat(levels));
        assert!(read(&inline(3)).is_err(), "the last of them has a name behind it that is none of a member");
        assert!(read(&"struct A { ".repeat(100_000)).is_err());
        assert!(error(&format!("struct A {{ long x{}; }}", "[1]".repeat(16))).contains("16 deep at most"));
        // Each of them doubles the one before.
        let doubling: String = (1..30).map(|n| format!("struct S{n} {{ S{} a, b; }};", n - 1)).collect();
        assert!(error(&format!("struct S0 {{ long a; }};{doubling}")).contains("at most"));
        let wide: String = (0..5_000).map(|n| format!("long m{n};")).collect();
        assert!(error(&format!("struct A {{ {wide} }}")).contains("4096 parts at most"));
    }

    #[test]
    fn no_text_makes_it_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        let words = [
            "struct", "enum", "A", "B", "x", "{", "}", ";", ",", "<", ">", "[", "]", "3", "long", "sequence", "string",
            "unsigned", " ", "\n", "//", "/*", "*/", "é", "0", "_", "double",
        ];
        for _ in 0..20_000 {
            let text: String = (0..random.usize(0..24))
                .map(|_| words[random.usize(..words.len())])
                .collect::<Vec<_>>()
                .join(if random.bool() { " " } else { "" });
            drop(read(&text));
        }
    }
}

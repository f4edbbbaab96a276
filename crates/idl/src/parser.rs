//! Parser of definitions (CORBA 3.3 part 1, 7.4 and following).

mod constants;
mod types;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use giop::typecode::{Kind, TypeCode};

use crate::error::IdlError;
use crate::lexer::{KEYWORDS, Lexer, Token};
use crate::{Definition, Definitions};

/// Definitions of the OMG's own files for types that travel with events.
const WELL_KNOWN: &str = include_str!("omg.idl");

/// Maximum nesting of modules, types and expressions.
pub const DEPTH_MAX: u32 = 32;
/// Maximum types and members in one type, each counted as often as it occurs.
pub const PARTS_MAX: usize = 4_096;
/// Maximum types and members in all types of a text together.
pub const TOTAL_PARTS_MAX: usize = 1 << 18;

/// Parses a text.
///
/// # Errors
/// The text is not valid IDL, uses unsupported parts of IDL, or exceeds a limit.
pub fn read(text: &str) -> Result<Definitions, IdlError> {
    let mut parser = Parser::new(text);
    parser.well_known()?;
    parser.advance()?;
    while parser.lexer.token != Token::End {
        parser.definition()?;
        // Behind the last one it may be left out.
        if parser.lexer.token != Token::End {
            parser.mark(';')?;
        }
    }
    parser.check_finished()?;
    Ok(Definitions { all: parser.found })
}

/// A type with the number of its parts.
#[derive(Clone)]
struct Type {
    code: TypeCode,
    parts: usize,
    /// Nesting levels within the type.
    levels: u32,
}

impl Type {
    fn plain(code: TypeCode) -> Self {
        Self { code, parts: 1, levels: 0 }
    }

    fn of(kind: Kind) -> Self {
        Self::plain(TypeCode::primitive(kind))
    }
}

/// The meaning of a name.
#[derive(Clone)]
enum Known {
    Type(Type),
    /// A constant that is a whole number, a character or a boolean.
    Number(i128),
    /// A constant of another type.
    Constant,
    /// A type that is declared but not defined yet, with its future repository id.
    Forward(String),
    Module,
    /// An exception or a valuetype; its definition was skipped.
    Other(&'static str),
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The enclosing modules, and structs or unions.
    scopes: Vec<&'t str>,
    /// Prefix of repository ids.
    prefix: Option<&'t str>,
    /// Meanings by scoped name: `weather::Wind`.
    known: BTreeMap<String, Known>,
    /// Definitions of the OMG's own files; those of the text take precedence.
    given: BTreeMap<String, Known>,
    found: Vec<Definition>,
    total_parts: usize,
    /// Current nesting depth.
    depth: u32,
    /// The innermost open struct or union: its scoped name and its repository id.
    open: Option<(String, String)>,
    /// Current nesting of sequences in it.
    sequences: u32,
    /// Types that contain sequences of types which are declared and not defined yet.
    unfinished: Vec<Unfinished>,
}

/// A type that is incomplete until another one is defined.
struct Unfinished {
    /// Position of its definition.
    begin: usize,
    /// Index among the definitions.
    at: usize,
    of: Type,
}

impl<'t> Parser<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            lexer: Lexer::new(text),
            scopes: Vec::new(),
            prefix: None,
            known: BTreeMap::new(),
            given: BTreeMap::new(),
            found: Vec::new(),
            total_parts: 0,
            depth: 0,
            open: None,
            sequences: 0,
            unfinished: Vec::new(),
        }
    }

    /// Defines the types of the OMG's files that users' files include: `orb.idl`, `TimeBase.idl`, `CosNotification.idl`, `CosNaming.idl`. A
    /// text with the files' contents redefines them.
    fn well_known(&mut self) -> Result<(), IdlError> {
        self.given.insert("CORBA".to_owned(), Known::Module);
        self.given.insert("CORBA::TypeCode".to_owned(), Known::Type(Type::of(Kind::TypeCode)));
        if !["TimeBase", "CORBA", "Cos"].iter().any(|name| self.lexer.mentions(name)) {
            return Ok(());
        }
        let mut files = Self::new(WELL_KNOWN);
        files.advance()?;
        while files.lexer.token != Token::End {
            files.definition()?;
            files.mark(';')?;
        }
        self.given.append(&mut files.known);
        Ok(())
    }

    // ---- definitions ----

    fn definition(&mut self) -> Result<(), IdlError> {
        let (token, begin) = (self.lexer.token, self.lexer.begin);
        let Token::Word(word) = token else { return Err(self.expected_definition()) };
        match word {
            "module" => self.module(),
            "struct" | "union" | "enum" => self.constructed().map(drop),
            "typedef" => self.alias(),
            "const" => self.constant(),
            "exception" => self.passed_over("an exception"),
            "interface" => self.interface(),
            "abstract" | "local" => {
                self.advance()?;
                match self.lexer.token {
                    Token::Word("interface") => self.interface(),
                    Token::Word("valuetype") => self.passed_over("a valuetype"),
                    _ => Err(self.expected("`interface` or `valuetype`")),
                }
            }
            "valuetype" | "eventtype" => self.passed_over("a valuetype"),
            "custom" => {
                self.advance()?;
                self.passed_over("a valuetype")
            }
            "native" | "import" | "typeid" | "typeprefix" | "component" | "home" => {
                Err(self.lexer.error_at(begin, format!("`{word}` is not read here: {DEFINITIONS}")))
            }
            _ => Err(self.expected_definition()),
        }
    }

    fn module(&mut self) -> Result<(), IdlError> {
        self.advance()?;
        let begin = self.lexer.begin;
        let name = self.name("the name of the module")?;
        let path = self.path_of(name);
        match self.known.get(&path) {
            None | Some(Known::Module) => self.known.insert(path, Known::Module),
            Some(_) => return Err(self.lexer.error_at(begin, format!("`{name}` is defined already"))),
        };
        self.deeper()?;
        let prefix = self.prefix;
        self.scopes.push(name);
        self.mark('{')?;
        while self.lexer.token != Token::Mark('}') {
            self.definition()?;
            self.mark(';')?;
        }
        // Before the next word is looked at, and with it what stands in front of that.
        self.scopes.pop();
        self.prefix = prefix;
        self.depth -= 1;
        self.mark('}')
    }

    /// Parses a struct, union or enum from its keyword on; `None` for a forward declaration.
    fn constructed(&mut self) -> Result<Option<Type>, IdlError> {
        let Token::Word(keyword) = self.lexer.token else { return Err(self.expected("`struct`, `union` or `enum`")) };
        self.advance()?;
        let begin = self.lexer.begin;
        let name = self.name(&format!("the name of the {keyword}"))?;
        let path = self.path_of(name);
        if !matches!(self.known.get(&path), None | Some(Known::Forward(_))) {
            return Err(self.lexer.error_at(begin, format!("`{name}` is defined already")));
        }
        if keyword != "enum" && self.lexer.token == Token::Mark(';') {
            let id = self.id_of(name);
            self.known.insert(path, Known::Forward(id));
            return Ok(None);
        }
        let id = self.id_of(name);
        if keyword == "enum" {
            let of = self.enumeration(&id, name)?;
            self.define(begin, path, of.clone())?;
            return Ok(Some(of));
        }
        self.deeper()?;
        let around = (self.open.replace((path.clone(), id.clone())), core::mem::take(&mut self.sequences));
        self.scopes.push(name);
        let of = if keyword == "union" { self.union(&id, name, begin)? } else { self.structure(&id, name, begin)? };
        self.scopes.pop();
        (self.open, self.sequences) = around;
        self.depth -= 1;
        self.mark('}')?;
        self.define(begin, path, of.clone())?;
        Ok(Some(of))
    }

    fn alias(&mut self) -> Result<(), IdlError> {
        self.advance()?;
        let original = self.member_type()?;
        loop {
            let begin = self.lexer.begin;
            let name = self.name("the new name")?;
            let path = self.path_of(name);
            if self.known.contains_key(&path) {
                return Err(self.lexer.error_at(begin, format!("`{name}` is defined already")));
            }
            let of = self.array_of(original.clone())?;
            let code = TypeCode::alias(&self.id_of(name), name, of.code);
            self.define(begin, path, Type { code, parts: of.parts + 1, levels: of.levels + 1 })?;
            if !self.take_if(Token::Mark(','))? {
                return Ok(());
            }
        }
    }

    /// Defines an interface as the type of references to its objects. Its body is skipped.
    fn interface(&mut self) -> Result<(), IdlError> {
        self.advance()?;
        let begin = self.lexer.begin;
        let name = self.name("the name of the interface")?;
        let path = self.path_of(name);
        let of = Type::plain(TypeCode::object(&self.id_of(name), name));
        self.pass_over_body()?;
        match self.known.get(&path) {
            // It was said to come.
            Some(Known::Type(known)) if known.code.kind() == Kind::Object => Ok(()),
            Some(_) => Err(self.lexer.error_at(begin, format!("`{name}` is defined already"))),
            None => self.define(begin, path, of),
        }
    }

    fn passed_over(&mut self, what: &'static str) -> Result<(), IdlError> {
        self.advance()?;
        // `custom valuetype`
        self.take_if(Token::Word("valuetype"))?;
        let name = self.name("a name")?;
        let path = self.path_of(name);
        self.known.insert(path, Known::Other(what));
        self.pass_over_body()
    }

    /// Skips to the semicolon behind a definition.
    fn pass_over_body(&mut self) -> Result<(), IdlError> {
        let (begin, mut open) = (self.lexer.begin, 0_u32);
        loop {
            match self.lexer.token {
                Token::Mark('{') => open += 1,
                Token::Mark('}') => match open.checked_sub(1) {
                    Some(left) => open = left,
                    None => return Err(self.expected("`;`")),
                },
                Token::Mark(';') if open == 0 => return Ok(()),
                Token::End if open == 0 => return Ok(()),
                Token::End => return Err(self.lexer.error_at(begin, "this definition has no end".into())),
                _ => {}
            }
            self.advance()?;
        }
    }

    fn define(&mut self, begin: usize, path: String, of: Type) -> Result<(), IdlError> {
        self.total_parts += of.parts;
        if self.total_parts > TOTAL_PARTS_MAX {
            return Err(self.too_many_parts(begin));
        }
        self.check_size(begin, &of)?;
        if of.code.awaits().next().is_some() {
            self.unfinished.push(Unfinished { begin, at: self.found.len(), of: of.clone() });
        }
        self.found.push(Definition { name: path.clone(), code: of.code.clone() });
        let was_declared = matches!(self.known.insert(path, Known::Type(of.clone())), Some(Known::Forward(_)));
        if was_declared { self.finish_with(&of) } else { Ok(()) }
    }

    /// Completes the types that contain sequences of a type declared before.
    fn finish_with(&mut self, whole: &Type) -> Result<(), IdlError> {
        for mut unfinished in core::mem::take(&mut self.unfinished) {
            let Unfinished { begin, at, of } = &mut unfinished;
            if of.code.awaits().any(|id| id == whole.code.id()) && of.code.id() != whole.code.id() {
                self.total_parts += whole.parts;
                if self.total_parts > TOTAL_PARTS_MAX {
                    return Err(self.too_many_parts(*begin));
                }
                of.code = core::mem::take(&mut of.code).completed(&whole.code);
                (of.parts, of.levels) = (of.parts + whole.parts, of.levels + whole.levels);
                self.check_size(*begin, of)?;
                if let Some(definition) = self.found.get_mut(*at) {
                    definition.code = of.code.clone();
                    self.known.insert(definition.name.clone(), Known::Type(of.clone()));
                }
            }
            if of.code.awaits().next().is_some() {
                self.unfinished.push(unfinished);
            }
        }
        Ok(())
    }

    fn check_finished(&self) -> Result<(), IdlError> {
        let Some(Unfinished { begin, of, .. }) = self.unfinished.first() else { return Ok(()) };
        let missing = of.code.awaits().next().unwrap_or_default();
        let reason =
            format!("`{}` holds a sequence of `{missing}`, which is declared and never defined", of.code.name());
        Err(self.lexer.error_at(*begin, reason))
    }

    fn too_many_parts(&self, begin: usize) -> IdlError {
        self.lexer.error_at(begin, format!("the types of a text have {TOTAL_PARTS_MAX} parts at most"))
    }

    // ---- names ----

    /// The scoped name of a name defined here.
    fn path_of(&self, name: &str) -> String {
        let mut path = self.scopes.join("::");
        if !path.is_empty() {
            path.push_str("::");
        }
        path.push_str(name);
        path
    }

    /// The repository id of a name: CORBA 3.3 part 1, 14.7.1 (the format) and 14.7.5.2 (prefixes).
    fn id_of(&self, name: &str) -> String {
        let mut id = String::from("IDL:");
        for part in self.prefix.iter().filter(|prefix| !prefix.is_empty()).chain(&self.scopes) {
            id.push_str(part);
            id.push('/');
        }
        id.push_str(name);
        id.push_str(":1.0");
        id
    }

    /// Reads a name, scoped or not, and looks it up in the scopes from the innermost outwards.
    fn known_name(&mut self) -> Result<(String, Option<(String, Known)>), IdlError> {
        let is_absolute = self.take_if(Token::Scope)?;
        let mut name = self.name("a name")?.to_owned();
        while self.take_if(Token::Scope)? {
            let part = self.name("a name")?;
            name.push_str("::");
            name.push_str(part);
            if name.len() > NAME_MAX {
                return Err(self.lexer.error("this name is too long".into()));
            }
        }
        let around = if is_absolute { 0 } else { self.scopes.len() };
        let found = (0..=around).rev().find_map(|scopes| {
            let mut path = self.scopes.get(..scopes).unwrap_or_default().join("::");
            if !path.is_empty() {
                path.push_str("::");
            }
            path.push_str(&name);
            let known = self.known.get(&path).filter(|known| !matches!(known, Known::Module));
            let known = known.or_else(|| self.given.get(&path)).or_else(|| self.known.get(&path));
            known.cloned().map(|known| (path, known))
        });
        Ok((name, found))
    }

    fn name(&mut self, what: &str) -> Result<&'t str, IdlError> {
        let word = match self.lexer.token {
            Token::Word(word) if KEYWORDS.contains(&word) => {
                return Err(self.lexer.error(format!("expected {what}; `{word}` is a word of IDL")));
            }
            Token::Word(word) | Token::Escaped(word) => word,
            _ => return Err(self.expected(what)),
        };
        self.advance()?;
        Ok(word)
    }

    // ---- limits ----

    fn deeper(&mut self) -> Result<(), IdlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.too_deep(self.lexer.begin)) } else { Ok(()) }
    }

    fn check_size(&self, begin: usize, of: &Type) -> Result<(), IdlError> {
        if of.parts > PARTS_MAX {
            return Err(self.lexer.error_at(begin, format!("a type has {PARTS_MAX} parts at most")));
        }
        if of.levels > DEPTH_MAX { Err(self.too_deep(begin)) } else { Ok(()) }
    }

    fn too_deep(&self, begin: usize) -> IdlError {
        self.lexer.error_at(begin, format!("types lie within each other {DEPTH_MAX} deep at most"))
    }

    // ---- words ----

    fn advance(&mut self) -> Result<(), IdlError> {
        self.lexer.advance()?;
        if let Some(prefix) = self.lexer.prefix.take() {
            self.prefix = Some(prefix);
        }
        Ok(())
    }

    fn mark(&mut self, mark: char) -> Result<(), IdlError> {
        match self.take_if(Token::Mark(mark))? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{mark}`"))),
        }
    }

    fn take_if(&mut self, token: Token<'_>) -> Result<bool, IdlError> {
        let is_it = self.lexer.token == token;
        if is_it {
            self.advance()?;
        }
        Ok(is_it)
    }

    fn expected_definition(&self) -> IdlError {
        self.expected(DEFINITIONS)
    }

    fn expected(&self, what: &str) -> IdlError {
        self.lexer.error(format!("expected {what}, found {}", self.lexer.token))
    }
}

/// Maximum octets of a scoped name.
const NAME_MAX: usize = 4_096;

const DEFINITIONS: &str = "`struct`, `enum`, `union`, `typedef`, `const`, `module` or `interface`";

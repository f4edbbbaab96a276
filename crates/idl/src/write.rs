//! Types to text: a type with all types that it contains, in modules as their repository ids say.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

use giop::typecode::{Kind, Member, TypeCode, TypeRef};

use crate::lexer::KEYWORDS;

/// Maximum nesting of sequences; deeper ones are left out.
const NESTING_MAX: usize = 128;

/// The text of a type with all types that it contains; [`crate::read`] reads it as the same type.
///
/// Comments say what IDL cannot: repository ids that do not follow from modules and names, and kinds of types that [`crate::read`] does not
/// support.
#[must_use]
pub fn text(code: &TypeCode) -> String {
    Text(code).to_string()
}

/// The text of several types with all types that they contain, each once. Of types with the same repository id the first counts.
#[must_use]
pub fn texts<'t>(codes: impl IntoIterator<Item = &'t TypeCode>) -> String {
    struct Texts<'t>(Vec<Definition<'t>>);
    impl fmt::Display for Texts<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            Writer::new(&self.0).write_all(f, &self.0)
        }
    }
    let (mut met, mut found) = (BTreeSet::new(), Vec::new());
    codes.into_iter().for_each(|code| definitions(code.root(), &mut met, &mut found));
    Texts(found).to_string()
}

/// Shows a type as [`text`] does.
#[derive(Debug, Clone, Copy)]
pub struct Text<'t>(pub &'t TypeCode);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.0.root();
        let mut found = Vec::new();
        definitions(root, &mut BTreeSet::new(), &mut found);
        if found.is_empty() {
            return writeln!(f, "{root}");
        }
        Writer::new(&found).write_all(f, &found)
    }
}

/// A named type and its place.
struct Definition<'t> {
    of: TypeRef<'t>,
    place: Place,
}

/// The place of a definition.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    /// The prefix of its repository id, in front of the modules.
    prefix: String,
    scope: Vec<String>,
    name: String,
    /// The repository id, if it does not follow from the rest.
    odd_id: Option<String>,
}

impl Place {
    /// The place of a type, from its repository id (CORBA 3.3 part 1, 14.7.1).
    fn of(of: TypeRef<'_>) -> Self {
        let (id, name) = (of.id(), of.name());
        let parts = || id.strip_prefix("IDL:")?.strip_suffix(":1.0").map(|path| path.split('/').collect::<Vec<_>>());
        if let Some(parts) = parts()
            && let Some((last, around)) = parts.split_last()
            && is_name(last)
            && (*last == name || name.is_empty())
        {
            let prefixes = around.iter().rposition(|part| !is_name(part)).map_or(0, |at| at + 1);
            let (prefix, scope) = around.split_at(prefixes);
            let prefix = prefix.join("/");
            // An empty prefix in front of a slash cannot be written, nor a quote in it.
            if prefixes == 0 || !(prefix.is_empty() || prefix.contains(['"', '\n', '\r'])) {
                return Self {
                    prefix,
                    scope: scope.iter().map(|part| (*part).to_owned()).collect(),
                    name: (*last).to_owned(),
                    odd_id: None,
                };
            }
        }
        let name = if is_name(name) { name.to_owned() } else { "Nameless".to_owned() };
        Self { prefix: String::new(), scope: Vec::new(), name, odd_id: Some(id.to_owned()) }
    }

    fn path(&self) -> Vec<&str> {
        self.scope.iter().map(String::as_str).chain([self.name.as_str()]).collect()
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'_')
}

/// Identity of a named type. A sender may leave out names, and ids of some kinds.
fn key(of: TypeRef<'_>) -> (String, String) {
    (of.id().to_owned(), if of.id().is_empty() { of.name().to_owned() } else { String::new() })
}

/// The types visited, by identity.
type Keys = BTreeSet<(String, String)>;

/// Whether types of this kind have a name by which others refer to them.
const fn is_named(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Object
            | Kind::Struct
            | Kind::Union
            | Kind::Enum
            | Kind::Alias
            | Kind::Exception
            | Kind::Value
            | Kind::ValueBox
            | Kind::Native
            | Kind::AbstractInterface
            | Kind::LocalInterface
            | Kind::Component
            | Kind::Home
            | Kind::Event
    )
}

/// Whether [`crate::read`] predefines the type.
fn is_well_known(of: TypeRef<'_>) -> bool {
    let times = ["TimeT", "InaccuracyT", "TdfT", "UtcT"];
    let time = of.id().strip_prefix("IDL:omg.org/TimeBase/").and_then(|rest| rest.strip_suffix(":1.0"));
    time.is_some_and(|name| times.contains(&name)) || of.id() == "IDL:omg.org/CORBA/Object:1.0"
}

/// The types that a type consists of.
fn parts(of: TypeRef<'_>) -> Vec<TypeRef<'_>> {
    let inner = of.content().or_else(|| of.discriminator()).or_else(|| of.concrete_base());
    let members = of.members().filter(|_| of.kind() != Kind::Enum).map(Member::type_ref);
    inner.into_iter().chain(members).collect()
}

/// The type and the named types that it contains, each behind its dependencies as far as possible.
fn definitions<'t>(root: TypeRef<'t>, met: &mut Keys, found: &mut Vec<Definition<'t>>) {
    // Each entry says whether what the type is made of has been looked at, and in how many nameless types it lies.
    let mut open = Vec::from([(root, false, 0_usize)]);
    // Types with parts that are being looked at: those that the type looked at lies in.
    let mut around = Keys::new();
    while let Some((at, is_complete, nesting)) = open.pop() {
        if is_complete {
            if around.remove(&key(at)) {
                found.push(Definition { of: at, place: Place::of(at) });
            }
            continue;
        }
        let named = is_named(at.kind());
        if named && around.contains(&key(at)) {
            define_ahead(at, &mut around, found);
            continue;
        }
        if (named && (is_well_known(at) || !met.insert(key(at)))) || nesting > NESTING_MAX {
            continue;
        }
        if named {
            around.insert(key(at));
        }
        if named {
            open.push((at, true, 0));
        }
        let nesting = if named { 0 } else { nesting + 1 };
        open.extend(parts(at).into_iter().rev().map(|part| (part, false, nesting)));
    }
}

/// Defines a sequence's alias before the element type that contains the alias: the element type is declared first.
fn define_ahead<'t>(alias: TypeRef<'t>, around: &mut Keys, found: &mut Vec<Definition<'t>>) {
    let (mut names, mut at) = (Vec::new(), alias);
    while at.kind() == Kind::Alias && names.len() < NESTING_MAX && around.contains(&key(at)) {
        names.push(at);
        let Some(content) = at.content() else { return };
        at = element(content);
    }
    for of in names.into_iter().rev() {
        // A name for the type itself cannot stand in front of it.
        let is_sequence =
            of.content().is_some_and(|content| content.kind() != Kind::Struct && content.kind() != Kind::Union);
        if is_sequence && around.remove(&key(of)) {
            found.push(Definition { of, place: Place::of(of) });
        }
    }
}

/// The innermost element of nested sequences and arrays.
fn element(of: TypeRef<'_>) -> TypeRef<'_> {
    let mut at = of;
    for _ in 0..NESTING_MAX {
        match at.content().filter(|_| matches!(at.kind(), Kind::Sequence | Kind::Array)) {
            Some(content) => at = content,
            None => break,
        }
    }
    at
}

/// Writes definitions, knowing the place of each.
struct Writer {
    places: BTreeMap<(String, String), Place>,
    /// Definitions nested in a struct or union, at the first member of that type: by their index in the list.
    within: BTreeMap<(String, String), usize>,
    /// The paths of modules and definitions.
    paths: BTreeSet<Vec<String>>,
}

impl Writer {
    fn new(definitions: &[Definition<'_>]) -> Self {
        let mut places: BTreeMap<_, Place> = BTreeMap::new();
        let mut paths = BTreeSet::new();
        for definition in definitions {
            places.insert(key(definition.of), definition.place.clone());
            let path: Vec<String> = definition.place.path().into_iter().map(str::to_owned).collect();
            for length in 1..=path.len() {
                paths.insert(path.iter().take(length).cloned().collect());
            }
        }
        let mut within = BTreeMap::new();
        let by_path: BTreeMap<Vec<&str>, &Definition<'_>> = definitions
            .iter()
            .filter(|known| matches!(known.of.kind(), Kind::Struct | Kind::Union))
            .map(|known| (known.place.path(), known))
            .collect();
        for (at, definition) in definitions.iter().enumerate() {
            let scope: Vec<&str> = definition.place.scope.iter().map(String::as_str).collect();
            if let Some(outer) = by_path.get(&scope)
                && matches!(definition.of.kind(), Kind::Struct | Kind::Union | Kind::Enum)
                && outer.of.members().any(|member| is_of(member.type_ref(), definition.of))
            {
                within.insert(key(definition.of), at);
            }
        }
        Self { places, within, paths }
    }

    fn write_all(&self, f: &mut fmt::Formatter<'_>, definitions: &[Definition<'_>]) -> fmt::Result {
        let (mut begun, mut defined, mut written) = (Keys::new(), Keys::new(), BTreeSet::new());
        let mut at = At { modules: &[], prefix: "", indent: 0 };
        for definition in definitions.iter().filter(|known| !self.within.contains_key(&key(known.of))) {
            for of in self.needed_ahead(definition, &defined).into_iter().filter(|of| begun.insert(key(*of))) {
                let Some(place) = self.places.get(&key(of)) else { continue };
                at.go_to(f, place)?;
                line(f, at.indent, &format!("{} {};", of.kind().keyword(), escaped(&place.name)))?;
            }
            at.go_to(f, &definition.place)?;
            defined.insert(key(definition.of));
            self.define(f, at.indent, definition, definitions, &mut written)?;
        }
        at.leave(f, 0)
    }

    /// Structs and unions that must be declared ahead: a definition contains sequences of them, and they follow it.
    fn needed_ahead<'t>(&self, definition: &Definition<'t>, defined: &Keys) -> Vec<TypeRef<'t>> {
        let is_written_out = matches!(definition.of.kind(), Kind::Alias | Kind::Struct | Kind::Union | Kind::Exception);
        let parts = if is_written_out { parts(definition.of) } else { Vec::new() };
        let held = parts.into_iter().filter(|part| matches!(part.kind(), Kind::Sequence | Kind::Array)).map(element);
        let behind = held.filter(|of| matches!(of.kind(), Kind::Struct | Kind::Union));
        behind
            .filter(|of| {
                let key = key(*of);
                key != self::key(definition.of) && !defined.contains(&key) && !self.within.contains_key(&key)
            })
            .collect()
    }

    fn define<'t>(
        &self,
        f: &mut fmt::Formatter<'_>,
        indent: usize,
        definition: &Definition<'t>,
        all: &[Definition<'t>],
        written: &mut BTreeSet<usize>,
    ) -> fmt::Result {
        if let Some(id) = &definition.place.odd_id {
            line(f, indent, &format!("// repository id {id:?}"))?;
        }
        let mut text = String::new();
        self.definition(&mut text, definition, all, written)?;
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        if text.lines().count() == 1 {
            return line(f, indent, &format!("{first};"));
        }
        line(f, indent, first)?;
        let rest: Vec<&str> = lines.collect();
        let last = rest.len().saturating_sub(1);
        rest.iter()
            .enumerate()
            .try_for_each(|(at, text)| line(f, indent, &format!("{text}{}", if at == last { ";" } else { "" })))
    }

    /// Writes a definition, without the semicolon.
    fn definition<'t>(
        &self,
        out: &mut String,
        definition: &Definition<'t>,
        all: &[Definition<'t>],
        written: &mut BTreeSet<usize>,
    ) -> fmt::Result {
        let (of, place) = (definition.of, &definition.place);
        let name = escaped(&place.name);
        match of.kind() {
            Kind::Enum => {
                let labels: Vec<String> = of.members().map(|member| escaped(member.name())).collect();
                write!(out, "enum {name} {{ {} }}", labels.join(", "))
            }
            Kind::Alias => {
                let content = of.content().unwrap_or(of);
                write!(out, "typedef {}", self.declared(content, &name, &place.scope))
            }
            Kind::Struct | Kind::Exception => {
                writeln!(out, "{} {name} {{", of.kind().keyword())?;
                for member in of.members() {
                    self.member(out, member, place, all, written)?;
                }
                out.write_char('}')
            }
            Kind::Union => {
                let switch = of.discriminator().unwrap_or(of);
                writeln!(out, "union {name} switch ({}) {{", self.reference(switch, &place.scope, 0))?;
                let members: Vec<Member<'t>> = of.members().collect();
                for (at, member) in members.iter().enumerate() {
                    writeln!(out, "    {}", case(switch.resolved(), *member))?;
                    // Cases of one member come one behind the other.
                    if members.get(at + 1).is_none_or(|next| next.name() != member.name()) {
                        self.member(out, *member, place, all, written)?;
                    }
                }
                out.write_char('}')
            }
            Kind::Object => write!(out, "interface {name}"),
            Kind::LocalInterface => write!(out, "local interface {name}"),
            Kind::AbstractInterface => write!(out, "abstract interface {name}"),
            _ => write!(out, "// {of}\nvaluetype {name}"),
        }
    }

    fn member<'t>(
        &self,
        out: &mut String,
        member: Member<'t>,
        owner: &Place,
        all: &[Definition<'t>],
        written: &mut BTreeSet<usize>,
    ) -> fmt::Result {
        let of = member.type_ref();
        let (element, lengths) = dimensions(of);
        let scope: Vec<String> = owner.path().into_iter().map(str::to_owned).collect();
        let inner = self
            .within
            .get(&key(element))
            .filter(|_| is_named(element.kind()))
            .and_then(|at| Some((*at, all.get(*at)?)));
        if let Some((at, inner)) = inner.filter(|(_, inner)| inner.place.scope == scope)
            && written.insert(at)
        {
            let mut text = String::new();
            self.definition(&mut text, inner, all, written)?;
            let mut lines = text.lines().peekable();
            while let Some(line) = lines.next() {
                write!(out, "    {line}")?;
                if lines.peek().is_some() {
                    out.write_char('\n')?;
                }
            }
            return writeln!(out, " {}{lengths};", escaped(member.name()));
        }
        writeln!(out, "    {};", self.declared(of, &escaped(member.name()), &scope))
    }

    /// A declaration of a name with its type; array lengths follow the name.
    fn declared(&self, of: TypeRef<'_>, name: &str, scope: &[String]) -> String {
        let (element, lengths) = dimensions(of);
        format!("{} {name}{lengths}", self.reference(element, scope, 0))
    }

    fn reference(&self, of: TypeRef<'_>, scope: &[String], nesting: usize) -> String {
        if nesting > NESTING_MAX {
            return "any /* and so on */".to_owned();
        }
        match (of.kind(), of.content()) {
            (Kind::Sequence, Some(element)) => {
                let (inner, lengths) = dimensions(element);
                let bound = of.bound().map_or_else(String::new, |bound| format!(", {bound}"));
                format!("sequence<{}{lengths}{bound}>", self.reference(inner, scope, nesting + 1))
            }
            (kind, _) if !is_named(kind) => of.to_string(),
            _ if of.id() == "IDL:omg.org/CORBA/Object:1.0" => "Object".to_owned(),
            _ if is_well_known(of) => format!("::TimeBase::{}", of.name()),
            _ => match self.places.get(&key(of)) {
                Some(place) => self.path_from(place, scope),
                None => of.to_string(),
            },
        }
    }

    /// The name of a definition as seen from a scope: unscoped if it is in that scope or an enclosing one.
    fn path_from(&self, place: &Place, scope: &[String]) -> String {
        let path: Vec<String> = place.path().into_iter().map(str::to_owned).collect();
        // The innermost scope in which there is something of that name is where a reader looks.
        let reads_as = |first: &String, from: usize| {
            (0..=scope.len()).rev().find(|length| {
                let looked: Vec<String> = scope.iter().take(*length).chain([first]).cloned().collect();
                self.paths.contains(&looked)
            }) == Some(from)
        };
        let common = path.iter().zip(scope).take_while(|(one, other)| one == other).count().min(place.scope.len());
        let full = |from: usize| path.iter().skip(from).map(|part| escaped(part)).collect::<Vec<_>>().join("::");
        // A type in itself has its own scope in common with itself.
        [common, 0]
            .into_iter()
            .find(|from| path.get(*from).is_some_and(|first| reads_as(first, *from)))
            .map_or_else(|| format!("::{}", full(0)), full)
    }
}

/// The current position of the output.
struct At<'p> {
    modules: &'p [String],
    prefix: &'p str,
    indent: usize,
}

impl<'p> At<'p> {
    /// Closes and opens modules to get to that place.
    fn go_to(&mut self, f: &mut fmt::Formatter<'_>, place: &'p Place) -> fmt::Result {
        let shared = match self.prefix == place.prefix {
            true => self.modules.iter().zip(&place.scope).take_while(|(one, other)| one == other).count(),
            false => 0,
        };
        self.leave(f, shared)?;
        if self.prefix != place.prefix {
            writeln!(f, "#pragma prefix \"{}\"", place.prefix)?;
            self.prefix = &place.prefix;
        }
        for module in place.scope.iter().skip(shared) {
            line(f, self.indent, &format!("module {} {{", escaped(module)))?;
            self.indent += 1;
        }
        self.modules = &place.scope;
        Ok(())
    }

    /// Closes all modules but so many.
    fn leave(&mut self, f: &mut fmt::Formatter<'_>, stays: usize) -> fmt::Result {
        for _ in self.modules.iter().skip(stays) {
            self.indent -= 1;
            line(f, self.indent, "};")?;
        }
        self.modules = self.modules.get(..stays).unwrap_or_default();
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, indent: usize, text: &str) -> fmt::Result {
    writeln!(f, "{:width$}{text}", "", width = indent * 4)
}

/// Whether a member has this type, or is an array of it.
fn is_of(member: TypeRef<'_>, of: TypeRef<'_>) -> bool {
    let (element, _) = dimensions(member);
    is_named(element.kind()) && key(element) == key(of)
}

/// The element type of nested arrays, and their lengths as written behind a name.
fn dimensions(of: TypeRef<'_>) -> (TypeRef<'_>, String) {
    let (mut at, mut lengths) = (of, String::new());
    for _ in 0..NESTING_MAX {
        match (at.kind(), at.content()) {
            (Kind::Array, Some(element)) => {
                lengths.push_str(&format!("[{}]", at.length()));
                at = element;
            }
            _ => break,
        }
    }
    (at, lengths)
}

fn case(switch: TypeRef<'_>, member: Member<'_>) -> String {
    let Some(label) = member.label() else { return "default:".to_owned() };
    let label = match switch.kind() {
        Kind::Boolean => if label == 0 { "FALSE" } else { "TRUE" }.to_owned(),
        Kind::Enum => usize::try_from(label)
            .ok()
            .and_then(|at| switch.member(at))
            .map_or_else(|| label.to_string(), |member| escaped(member.name())),
        Kind::Char if (32..127).contains(&label) => match u32::try_from(label).ok().and_then(char::from_u32) {
            Some(c @ ('\'' | '\\')) => format!("'\\{c}'"),
            Some(c) => format!("'{c}'"),
            None => label.to_string(),
        },
        Kind::ULongLong => label.cast_unsigned().to_string(),
        _ => label.to_string(),
    };
    format!("case {label}:")
}

/// Escapes a name that is a keyword of IDL with an underscore.
fn escaped(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("_{name}") } else { name.to_owned() }
}

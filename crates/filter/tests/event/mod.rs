//! Events as the specification's examples write them, and what constraints read of them.
//!
//! ```text
//! structured Domain::Type "name" (HeaderField = value, …) (filterable = value, …) body
//! any value
//!
//! value:  TRUE  -3  3u  3.25  "text"  latin1"text"  wide"text"  'c'  RED/0  [v, v]  (name = v, …)  Type{member = v, …}  any v
//!         Type union(discriminator, another label: member = v)   Type union(discriminator default: member = v)
//!         Type union(discriminator default except 1, 2: member = v)   Type union(discriminator)   nothing
//! ```

use filter::{Chars, Fields, Label, Part, Path, Root, Steps, Text, Value};

/// The time it is in every example: high 3, low 5.
pub(crate) const NOW: u64 = (3 << 32) + 5;

#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Char(char),
    Text(Vec<u8>, Chars),
    /// Ordinal, name, and the names of the type as far as the event tells them.
    Enum(u32, String, Vec<String>),
    Struct(String, Vec<(String, Tree)>),
    Union {
        name: String,
        discriminator: Box<Tree>,
        labels: Vec<Tree>,
        default: bool,
        except: Vec<Tree>,
        member: Option<(String, Box<Tree>)>,
    },
    Sequence(Vec<Tree>),
    Properties(Vec<(String, Tree)>),
    Any(Box<Tree>),
    Nothing,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) structured: bool,
    pub(crate) tree: Tree,
    /// What `$type_name` is of an event that is an `Any`.
    any_type: Tree,
    no_name: Tree,
}

impl Event {
    fn new(structured: bool, tree: Tree) -> Self {
        let text = |text: &str| Tree::Text(text.as_bytes().to_vec(), Chars::Utf8);
        Self { structured, tree, any_type: text("%ANY"), no_name: text("") }
    }

    pub(crate) fn nothing() -> Self {
        Self::new(false, Tree::Nothing)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut reader = Reader { text, at: 0 };
        let event = match reader.word().as_str() {
            "structured" => Self::new(true, reader.structured()),
            "any" => Self::new(false, reader.value()),
            other => panic!("an event is structured or any, not {other:?}"),
        };
        assert_eq!(reader.rest().trim(), "", "left over in the event {text:?}");
        event
    }

    /// `$name`, in the order of the specification's 4.2: the event's own header, then its filterable data; an `Any` event's members or
    /// named values.
    fn named(&self, name: &str) -> Option<&Tree> {
        if !self.structured {
            return match (name, self.tree.inside()) {
                ("type_name", _) => Some(&self.any_type),
                ("domain_name" | "event_name", _) => Some(&self.no_name),
                (_, Tree::Properties(pairs)) => find(pairs, name),
                (_, other) => other.member(name),
            };
        }
        let header = self.tree.member("header")?;
        let fixed = header.member("fixed_header")?;
        let variable = header.member("variable_header")?;
        let runtime = match name {
            "priority" => variable.named("Priority"),
            "timeout" => variable.named("Timeout"),
            _ => None,
        };
        runtime
            .or_else(|| fixed.member("event_type")?.member(name))
            .or_else(|| fixed.member(name))
            .or_else(|| variable.named(name))
            .or_else(|| self.tree.member("filterable_data")?.named(name))
            .or_else(|| self.tree.member(name))
    }

    /// Where a path leads, without its last part if that asks about what stands there.
    fn walk(&self, path: &Path, steps: &mut Steps) -> Option<&Tree> {
        let mut parts = &*path.parts;
        let mut here = match &path.root {
            // A name that the event has no member of is what it would be on its own.
            Root::Event => match parts {
                [Part::Member(name), rest @ ..] if self.tree.member(name).is_none() => {
                    parts = rest;
                    if !steps.take(1) {
                        return None;
                    }
                    self.named(name)?
                }
                _ => &self.tree,
            },
            Root::Name(name) => self.named(name)?,
            Root::CurrentTime => panic!("Fields is not asked for the time"),
        };
        for part in parts {
            if !steps.take(1) {
                return None;
            }
            let inside = here.inside();
            here = match (part, inside) {
                (Part::Member(name), _) => inside.member(name)?,
                (Part::Position(position), Tree::Struct(_, members)) => &members.get(*position as usize)?.1,
                (Part::Element(index), Tree::Sequence(elements)) => elements.get(*index as usize)?,
                (Part::Named(name), _) => inside.named(name)?,
                (Part::Discriminator, Tree::Union { discriminator, .. }) => discriminator,
                (Part::Label(label), Tree::Union { labels, default, except, member, .. }) => {
                    let is_active = match default {
                        true => !except.iter().any(|known| known.is_label(label)),
                        false => labels.iter().any(|known| known.is_label(label)),
                    };
                    member.as_ref().filter(|_| is_active).map(|(_, value)| &**value)?
                }
                (Part::Default, Tree::Union { default, member, .. }) => match member {
                    Some((_, value)) if *default => value,
                    None => inside,
                    _ => return None,
                },
                (Part::Length | Part::TypeId | Part::ReposId | Part::Ordinal(_), _) => inside,
                _ => return None,
            };
        }
        Some(here.inside())
    }
}

impl Fields for Event {
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        if !steps.take(1) {
            return None;
        }
        let tree = self.walk(path, steps)?;
        match path.parts.last() {
            Some(Part::Length) => match tree {
                Tree::Sequence(elements) => Some(Value::UInt(elements.len() as u64)),
                Tree::Properties(pairs) => Some(Value::UInt(pairs.len() as u64)),
                _ => None,
            },
            Some(Part::TypeId) => Some(Value::Text(Text::new(tree.type_id()?))),
            Some(Part::ReposId) => match tree {
                Tree::Struct(name, _) if name == "StructuredEvent" => {
                    Some(Value::Text(Text::new("IDL:omg.org/CosNotification/StructuredEvent:1.0")))
                }
                Tree::Struct(name, _) if name == "Reading" => Some(Value::Text(Text::new("IDL:Reading:1.0"))),
                _ => None,
            },
            Some(Part::Ordinal(name)) => match tree {
                Tree::Enum(_, _, names) => {
                    names.iter().position(|known| **known == **name).map(|at| Value::UInt(at as u64))
                }
                _ => None,
            },
            _ => tree.value(),
        }
    }

    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        if !steps.take(1) {
            return None;
        }
        let Tree::Sequence(elements) = self.walk(path, steps)? else { return None };
        for element in elements {
            if !steps.take(1) {
                return None;
            }
            if element.inside().value()?.equals(needle)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn current_time(&self) -> u64 {
        NOW
    }
}

fn find<'t>(pairs: &'t [(String, Tree)], name: &str) -> Option<&'t Tree> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

impl Tree {
    fn inside(&self) -> &Tree {
        match self {
            Self::Any(inside) => inside.inside(),
            other => other,
        }
    }

    fn member(&self, name: &str) -> Option<&Tree> {
        match self.inside() {
            Self::Struct(_, members) => find(members, name),
            Self::Union { member: Some((known, value)), .. } if known == name => Some(value),
            _ => None,
        }
    }

    fn named(&self, name: &str) -> Option<&Tree> {
        match self.inside() {
            Self::Properties(pairs) => find(pairs, name),
            _ => None,
        }
    }

    fn is_label(&self, label: &Label) -> bool {
        match (self, label) {
            (Self::Int(a), Label::Int(b)) => a == b,
            (Self::Bool(a), Label::Bool(b)) => a == b,
            (Self::Char(a), Label::Char(b)) => a == b,
            (Self::Enum(_, a, _), Label::Name(b)) => **a == **b,
            _ => false,
        }
    }

    fn type_id(&self) -> Option<&str> {
        Some(match self {
            Self::Bool(_) => "boolean",
            Self::Int(_) => "long",
            Self::UInt(_) => "unsigned long",
            Self::Float(_) => "double",
            Self::Char(_) => "char",
            Self::Text(..) => "string",
            Self::Struct(name, _) | Self::Union { name, .. } if !name.is_empty() => name,
            _ => return None,
        })
    }

    fn value(&self) -> Option<Value<'_>> {
        Some(match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::UInt(value) => Value::UInt(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Char(value) => Value::Char(*value),
            Self::Text(bytes, chars) => Value::Text(Text { bytes, chars: *chars }),
            Self::Enum(ordinal, name, _) => Value::Enum { ordinal: *ordinal, name: Text::new(name) },
            Self::Any(inside) => return inside.value(),
            Self::Nothing => return None,
            _ => Value::Composite,
        })
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "{token:?} expected before {:?}", self.rest());
    }

    fn word(&mut self) -> String {
        self.skip();
        let end = self.rest().find(|c: char| !c.is_alphanumeric() && !"_+-.".contains(c)).unwrap_or(self.rest().len());
        let word = self.rest()[..end].to_owned();
        self.at += end;
        word
    }

    fn quoted(&mut self, quote: &str) -> String {
        self.expect(quote);
        let end = self.rest().find(quote).expect("a closing quote");
        let text = self.rest()[..end].to_owned();
        self.at += end + 1;
        text
    }

    fn pairs(&mut self, close: &str) -> Vec<(String, Tree)> {
        let mut pairs = Vec::new();
        while !self.take(close) {
            self.skip();
            let name = if self.rest().starts_with('"') { self.quoted("\"") } else { self.word() };
            self.expect("=");
            pairs.push((name, self.value()));
            self.take(",");
        }
        pairs
    }

    fn structured(&mut self) -> Tree {
        let text = |text: String| Tree::Text(text.into_bytes(), Chars::Utf8);
        let members = |name: &str, members: Vec<(&str, Tree)>| {
            Tree::Struct(name.to_owned(), members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        };
        let domain = self.word();
        self.expect("::");
        let event_type = members("EventType", vec![("domain_name", text(domain)), ("type_name", text(self.word()))]);
        let name = self.quoted("\"");
        self.expect("(");
        let variable = Tree::Properties(self.pairs(")"));
        self.expect("(");
        let filterable = Tree::Properties(self.pairs(")"));
        let body = Tree::Any(Box::new(self.value()));
        let fixed = members("FixedEventHeader", vec![("event_type", event_type), ("event_name", text(name))]);
        let header = members("EventHeader", vec![("fixed_header", fixed), ("variable_header", variable)]);
        members(
            "StructuredEvent",
            vec![("header", header), ("filterable_data", filterable), ("remainder_of_body", body)],
        )
    }

    fn value(&mut self) -> Tree {
        self.skip();
        match self.rest().chars().next().expect("a value") {
            '"' => return Tree::Text(self.quoted("\"").into_bytes(), Chars::Utf8),
            '\'' => return Tree::Char(self.quoted("'").chars().next().expect("a character")),
            '[' => {
                self.expect("[");
                let mut elements = Vec::new();
                while !self.take("]") {
                    elements.push(self.value());
                    self.take(",");
                }
                return Tree::Sequence(elements);
            }
            '(' => {
                self.expect("(");
                return Tree::Properties(self.pairs(")"));
            }
            '{' => {
                self.expect("{");
                return Tree::Struct(String::new(), self.pairs("}"));
            }
            _ => {}
        }
        let word = self.word();
        match word.as_str() {
            "TRUE" => return Tree::Bool(true),
            "FALSE" => return Tree::Bool(false),
            "NaN" => return Tree::Float(f64::NAN),
            "inf" => return Tree::Float(f64::INFINITY),
            "nothing" => return Tree::Nothing,
            "any" => return Tree::Any(Box::new(self.value())),
            "latin1" => {
                let text = self.quoted("\"");
                return Tree::Text(text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect(), Chars::Latin1);
            }
            "wide" => {
                let units = self.quoted("\"").encode_utf16().flat_map(u16::to_be_bytes).collect();
                return Tree::Text(units, Chars::Utf16Be);
            }
            _ => {}
        }
        if let Some(Ok(value)) = word.strip_suffix('u').map(str::parse) {
            return Tree::UInt(value);
        }
        if let Ok(value) = word.parse() {
            return Tree::Int(value);
        }
        if let Ok(value) = word.parse() {
            return Tree::Float(value);
        }
        if self.take("/") {
            let ordinal = self.word().parse().expect("an ordinal");
            let mut names = Vec::new();
            while self.take("|") {
                names.push(self.word());
            }
            return Tree::Enum(ordinal, word, names);
        }
        if self.take("{") {
            return Tree::Struct(word, self.pairs("}"));
        }
        if self.take("union(") {
            return self.union(word);
        }
        panic!("not a value: {word:?} before {:?}", self.rest());
    }

    fn union(&mut self, name: String) -> Tree {
        let discriminator = self.value();
        let mut labels = vec![discriminator.clone()];
        while self.take(",") {
            labels.push(self.value());
        }
        let default = self.take("default");
        let mut except = Vec::new();
        if self.take("except") {
            except.push(self.value());
            while self.take(",") {
                except.push(self.value());
            }
        }
        let mut member = None;
        if self.take(":") {
            let name = self.word();
            self.expect("=");
            member = Some((name, Box::new(self.value())));
        }
        self.expect(")");
        Tree::Union { name, discriminator: Box::new(discriminator), labels, default, except, member }
    }
}

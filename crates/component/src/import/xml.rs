//! A descriptor as a tree of elements, each with its line.
//!
//! Taken is XML 1.0 in UTF-8 or ISO-8859-1, without a document type and with no entity but XML's own five, so that nothing expands and
//! nothing else is read. Size, depth and number of elements are bounded.

use crate::plan::Problem;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use toml::Value;

/// The most octets of a descriptor.
pub(super) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most elements of a descriptor.
const ELEMENTS_MAX: usize = 400_000;

/// The most elements within each other.
const DEPTH_MAX: usize = 64;

/// The most octets of an element's text: what is made of a file may have it often.
const TEXT_MAX: usize = 64 * 1024;

pub(super) struct Element {
    /// The file, or for an element of none where it stands.
    file: Rc<str>,
    /// 0 for an element of no file.
    line: usize,
    pub(super) name: String,
    pub(super) id: Option<String>,
    idref: Option<String>,
    /// Without the spaces between elements.
    pub(super) content: String,
    /// The content without the spaces around it: to look for them at each use would take long for many of them.
    trimmed: Range<usize>,
    pub(super) children: Vec<Element>,
    /// The value of a property that stands in no file, or why it has none in a plan.
    pub(super) value: Option<Box<Result<Value, String>>>,
}

impl Element {
    /// The file, line and element, for people.
    pub(super) fn place(&self) -> String {
        match self.line {
            0 => format!("{}: {}", self.file, self.name),
            line => format!("{}:{line}: {}", self.file, self.name),
        }
    }

    /// An element of no file.
    pub(super) fn made(place: &Rc<str>, name: &str, children: Vec<Self>) -> Self {
        Self { children, ..Self::new(place, 0, name.to_owned()) }
    }

    fn new(file: &Rc<str>, line: usize, name: String) -> Self {
        Self {
            file: file.clone(),
            line,
            name,
            id: None,
            idref: None,
            content: String::new(),
            trimmed: 0..0,
            children: Vec::new(),
            value: None,
        }
    }

    pub(super) fn with_text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.content);
        self.trim();
        self
    }

    pub(super) fn with_id(self, id: String) -> Self {
        Self { id: Some(id), ..self }
    }

    pub(super) fn with_target(self, id: String) -> Self {
        Self { idref: Some(id), ..self }
    }

    pub(super) fn with_value(self, value: Result<Value, String>) -> Self {
        Self { value: Some(Box::new(value)), ..self }
    }

    /// Finds the content without the spaces around it.
    fn trim(&mut self) {
        let start = self.content.len() - self.content.trim_start().len();
        self.trimmed = start..start + self.content.trim().len();
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn local_name(&self) -> &str {
        self.name.rsplit(':').next().unwrap_or_default()
    }

    pub(super) fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    pub(super) fn text(&self) -> &str {
        self.content.get(self.trimmed.clone()).unwrap_or_default()
    }

    /// The text of a child; empty without one.
    pub(super) fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", Self::text)
    }

    /// The id that a reference names: by its attribute, or as text in plans of old tools.
    pub(super) fn target(&self) -> &str {
        self.idref.as_deref().map_or_else(|| self.text(), str::trim)
    }
}

/// Reads a file, whose name is that of all places.
pub(super) fn read(file: &str, octets: &[u8]) -> Result<Element, Problem> {
    let at = |line: usize, reason: String| Problem::new(format!("{file}:{line}"), reason);
    if octets.len() > BYTES_MAX {
        return Err(Problem::new(
            file,
            format!("it has more than {BYTES_MAX} octets, which are the most that are taken"),
        ));
    }
    let text = decode(octets)
        .map_err(|valid| at(line_of(octets, valid), format!("it is not UTF-8: {}", convert("ENCODING"))))?;
    let mut reader = Reader::from_str(&text);
    reader.config_mut().expand_empty_elements = true;
    let octets = text.as_bytes();
    let mut tree = Tree { file: file.into(), is_ascii: text.is_ascii(), ..Tree::default() };
    let mut read = 0;
    loop {
        let from = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        tree.line += line_of(octets.get(read..from).unwrap_or_default(), usize::MAX) - 1;
        read = from;
        let event = reader.read_event().map_err(|error| {
            let position = usize::try_from(reader.error_position()).unwrap_or(usize::MAX);
            at(line_of(octets, position), format!("it is no XML: {error}"))
        })?;
        if matches!(event, Event::Eof) {
            break;
        }
        tree.take(&event).map_err(|reason| {
            let rest = octets.get(from..).unwrap_or_default();
            let blank = rest.iter().take_while(|octet| octet.is_ascii_whitespace()).count();
            at(tree.line + line_of(rest, blank), reason)
        })?;
    }
    let line = tree.line + 1;
    if let Some(open) = tree.open.last() {
        return Err(at(line, format!("{} of line {} has no end: is the file whole?", open.name, open.line)));
    }
    tree.root.ok_or_else(|| at(line, "there is no element: is it the right file?".to_owned()))
}

/// A text: ISO-8859-1 if it is declared, else UTF-8. The error is the number of octets that are.
fn decode(octets: &[u8]) -> Result<Cow<'_, str>, usize> {
    let declaration = octets.split(|octet| *octet == b'>').next().unwrap_or_default();
    let is_latin = |it: &[u8]| matches!(it, b"ISO-8859-1\"" | b"ISO-8859-1'");
    if declaration.starts_with(b"<?xml") && declaration.to_ascii_uppercase().windows(11).any(is_latin) {
        return Ok(octets.iter().copied().map(char::from).collect());
    }
    let octets = octets.strip_prefix(b"\xef\xbb\xbf").unwrap_or(octets);
    std::str::from_utf8(octets).map(Cow::Borrowed).map_err(|error| error.valid_up_to())
}

/// What to do about an encoding.
fn convert(from: &str) -> String {
    format!("convert it, as with iconv -f {from} -t UTF-8, and write encoding=\"UTF-8\" in its first line")
}

/// The line of a place in a text.
fn line_of(octets: &[u8], place: usize) -> usize {
    1 + octets.iter().take(place).filter(|octet| **octet == b'\n').count()
}

/// A tree that is being read.
#[derive(Default)]
struct Tree {
    file: Rc<str>,
    is_ascii: bool,
    /// Lines before what is read.
    line: usize,
    elements: usize,
    ids: BTreeSet<String>,
    open: Vec<Element>,
    root: Option<Element>,
}

impl Tree {
    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(start) => self.begin(start),
            Event::End(_) => self.end(),
            Event::Text(text) => self.append(&text.xml10_content()),
            Event::CData(data) => self.append(&data.xml10_content()),
            Event::GeneralRef(reference) => {
                let resolved = resolve(reference)?;
                self.append(resolved.encode_utf8(&mut [0; 4]))
            }
            Event::DocType(_) => {
                Err("document types are not read, nor the entities that they declare: remove DOCTYPE".to_owned())
            }
            Event::Decl(declaration) => {
                let encoding = declaration.encoding().transpose().map_err(|error| error.to_string())?;
                let is_read = |it: &str| ["UTF-8", "ISO-8859-1"].iter().any(|read| it.eq_ignore_ascii_case(read));
                // ASCII is the same in all encodings that tools write these files in.
                match encoding.as_deref() {
                    Some(encoding) if !is_read(encoding) && !self.is_ascii => {
                        Err(format!("its encoding is {encoding}: {}", convert(encoding)))
                    }
                    _ => Ok(()),
                }
            }
            Event::Comment(_) | Event::PI(_) | Event::Empty(_) | Event::Eof => Ok(()),
        }
    }

    fn begin(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.name().into_inner().to_owned();
        self.elements += 1;
        if self.elements > ELEMENTS_MAX {
            return Err(format!("there are more than {ELEMENTS_MAX} elements, which are the most that are taken"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("{name} is within more than {DEPTH_MAX} elements, which are the most that are taken"));
        }
        if self.open.is_empty() && self.root.is_some() {
            return Err(format!("{name} stands behind the end of the first element"));
        }
        let mut element = Element::new(&self.file, self.line + 1, name);
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| format!("{}: {error}", element.name))?;
            let whole = attribute.key.into_inner();
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| format!("{}, attribute {whole}: {error}", element.name))?;
            match whole.rsplit_once(':').map_or(whole, |(_, local)| local) {
                _ if whole == "xmlns" || whole.starts_with("xmlns:") => {}
                "schemaLocation" | "noNamespaceSchemaLocation" | "version" => {}
                "id" => {
                    if !self.ids.insert(value.to_string()) {
                        return Err(format!("{}: the id {value} is there twice: rename one of them", element.name));
                    }
                    element.id = Some(value.into_owned());
                }
                "idref" => element.idref = Some(value.into_owned()),
                "href" => {
                    return Err(format!(
                        "{} is in another file, {value}, and no other file is read: put its content here",
                        element.name
                    ));
                }
                _ => return Err(format!("{}: the attribute {whole} is not understood: remove it", element.name)),
            }
        }
        self.open.push(element);
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let Some(mut done) = self.open.pop() else { return Ok(()) };
        done.trim();
        if !done.children.is_empty() {
            if !done.text().is_empty() {
                return Err(format!("{} has text between its elements: remove {:?}", done.name, done.text()));
            }
            done.content = String::new();
        }
        match self.open.last_mut() {
            Some(parent) => parent.children.push(done),
            None => self.root = Some(done),
        }
        Ok(())
    }

    fn append(&mut self, text: &str) -> Result<(), String> {
        let is_blank = text.trim().is_empty();
        match self.open.last_mut() {
            Some(element) if is_blank && !element.children.is_empty() => {}
            Some(element) if element.content.len() + text.len() > TEXT_MAX => {
                let name = &element.name;
                return Err(format!(
                    "{name} has more than {TEXT_MAX} octets of text, which are the most that are taken"
                ));
            }
            Some(element) => element.content.push_str(text),
            None if is_blank => {}
            None => return Err("there is text outside of all elements: remove it".to_owned()),
        }
        Ok(())
    }
}

/// The character of a reference: `&#65;`, or one of the five names that XML has.
fn resolve(reference: &BytesRef<'_>) -> Result<char, String> {
    let name: &str = reference;
    match name {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "apos" => Ok('\''),
        "quot" => Ok('"'),
        _ => {
            let of_number = reference.resolve_char_ref().map_err(|error| format!("&{name};: {error}"))?;
            of_number.ok_or_else(|| format!("the entity &{name}; is not known: write what it stands for"))
        }
    }
}

//! Declared types of topics' messages (`[[tempo.types]]` of the configuration).
//!
//! The table is made at the start, shared by all lanes, and never changed. Types are looked up by channel and topic for each translation
//! and each field of a filter: no event and no file refers to a place in the table, so that the next process may declare a type
//! differently.

pub(crate) mod walk;

mod fitness;

use core::fmt;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use engine::ChannelId;
use giop::cdr::{CharSet, Encoding, Endian, ReadError, Reader, Version, Writer};
use giop::typecode::{Kind, TypeCode, TypeRef};
use hashbrown::{DefaultHashBuilder, HashTable};
use idl::IdlError;

pub use self::fitness::Unfit;

/// Encoding of messages of declared types, and of events made of them: as in GIOP 1.2, in UTF-8.
pub(crate) const ENCODING: Encoding = Encoding { endian: Endian::Little, version: Version::V1_2, chars: CharSet::Utf8 };

/// Maximum declared types.
pub(crate) const TYPES_MAX: usize = 1_024;
/// Maximum octets of the text of one type.
pub(crate) const TEXT_MAX: usize = 65_536;

/// Declared types by channel and topic.
#[derive(Debug, Default)]
pub(crate) struct DeclaredTypes {
    all: Vec<DeclaredType>,
    /// Hash table of places in `all`.
    places: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

/// The type of a topic's messages.
#[derive(Debug)]
pub(crate) struct DeclaredType {
    channel: ChannelId,
    domain: Box<str>,
    name: Box<str>,
    code: TypeCode,
    fields: Box<[Field]>,
    /// Names of the fields in order, each with its field's place.
    by_name: Box<[(Box<str>, usize)]>,
}

/// A member of a declared type.
#[derive(Debug)]
pub(crate) struct Field {
    name: Box<str>,
    /// Type of the member, marshalled in [`ENCODING`].
    type_code: Box<[u8]>,
    /// Position of its value in a message, without padding before it, if that is the same in all messages.
    at: Option<usize>,
}

impl Field {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn type_code(&self) -> &[u8] {
        &self.type_code
    }
}

/// Domain and name of the event type for a topic.
pub(crate) fn names_of(topic: &str) -> (&str, &str) {
    topic.split_once('/').unwrap_or(("", topic))
}

/// Why a type cannot be declared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undeclarable {
    /// The text is no valid definition of a type.
    Text(IdlError),
    /// No message can have a value of the type.
    Unfit(Unfit),
    /// The text defines no type.
    Empty,
    /// The text is too long.
    TooLong {
        /// Octets of the text.
        octets: usize,
    },
    /// The topic's name is invalid: empty, too long, or with control characters.
    Topic,
    /// The topic has a type already.
    Twice,
}

impl fmt::Display for Undeclarable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => write!(f, "its type is not understood: {error}"),
            Self::Unfit(why) => write!(f, "its type has no place in messages: {why}"),
            Self::Empty => f.write_str("its text defines no type"),
            Self::TooLong { octets } => write!(f, "its type has {octets} octets; {TEXT_MAX} are the most"),
            Self::Topic => f.write_str("a topic has 1 to 255 octets and no control characters"),
            Self::Twice => f.write_str("it has a type already"),
        }
    }
}

impl std::error::Error for Undeclarable {}

impl DeclaredTypes {
    /// Declares the type of a topic in a channel.
    ///
    /// # Errors
    /// The reason why it cannot be declared.
    pub(crate) fn declare(&mut self, channel: ChannelId, topic: &str, text: &str) -> Result<(), Undeclarable> {
        if topic.is_empty() || topic.len() > ::tempo::wire::NAME_MAX || topic.contains(char::is_control) {
            return Err(Undeclarable::Topic);
        }
        let (domain, name) = names_of(topic);
        if self.find(channel, domain.as_bytes(), name.as_bytes()).is_some() {
            return Err(Undeclarable::Twice);
        }
        if text.len() > TEXT_MAX {
            return Err(Undeclarable::TooLong { octets: text.len() });
        }
        let definitions = idl::read(text).map_err(Undeclarable::Text)?;
        let code = definitions.last().ok_or(Undeclarable::Empty)?.code().clone();
        fitness::check(&code).map_err(Undeclarable::Unfit)?;
        let Self { all, places, hasher } = self;
        let hash_of = |channel: ChannelId, domain: &str, name: &str| {
            hasher.hash_one((channel.0, domain.as_bytes(), name.as_bytes()))
        };
        let place = all.len();
        all.push(DeclaredType::new(channel, (domain, name), code));
        let rehash = |at: &usize| all.get(*at).map_or(0, |known| hash_of(known.channel, &known.domain, &known.name));
        places.insert_unique(hash_of(channel, domain, name), place, rehash);
        Ok(())
    }

    /// The type of a topic's messages, if one is declared.
    #[inline]
    pub(crate) fn find(&self, channel: ChannelId, domain: &[u8], name: &[u8]) -> Option<&DeclaredType> {
        if self.all.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one((channel.0, domain, name));
        let is_it = |at: &usize| {
            self.all.get(*at).is_some_and(|known| {
                known.channel == channel && known.domain.as_bytes() == domain && known.name.as_bytes() == name
            })
        };
        self.places.find(hash, is_it).and_then(|at| self.all.get(*at))
    }
}

impl DeclaredType {
    fn new(channel: ChannelId, (domain, name): (&str, &str), code: TypeCode) -> Self {
        let mut at = Some(0);
        let fields: Box<[Field]> = code
            .root()
            .members()
            .map(|member| {
                let field = Field { name: member.name().into(), type_code: marshalled(member.type_ref()).into(), at };
                at = at.and_then(|at| end_of_fixed(member.type_ref(), at));
                field
            })
            .collect();
        let mut by_name: Box<[_]> = fields.iter().enumerate().map(|(at, field)| (field.name.clone(), at)).collect();
        by_name.sort_unstable();
        Self { channel, domain: domain.into(), name: name.into(), code, fields, by_name }
    }

    /// Members with their types, in order.
    pub(crate) fn fields(&self) -> impl ExactSizeIterator<Item = (&Field, TypeRef<'_>)> {
        self.fields.iter().zip(self.code.root().members().map(giop::typecode::Member::type_ref))
    }

    pub(crate) const fn root(&self) -> TypeRef<'_> {
        self.code.root()
    }

    /// Place of the member of a name.
    pub(crate) fn place_of(&self, name: &[u8]) -> Option<usize> {
        let found = self.by_name.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).ok()?;
        self.by_name.get(found).map(|(_, place)| *place)
    }

    /// A reader over a message.
    pub(crate) const fn reader(message: &[u8]) -> Reader<'_> {
        Reader::new(message, ENCODING)
    }

    /// Checks that a message is one value of the type and nothing more.
    ///
    /// # Errors
    /// The position where it is not.
    pub(crate) fn check(&self, message: &[u8]) -> Result<(), ReadError> {
        let mut reader = Self::reader(message);
        walk::value(self.root(), &mut reader, &mut ())?;
        reader.finish("a message of a declared type")
    }

    /// Writes the members of a message as a `CosNotification::PropertySeq`.
    ///
    /// # Errors
    /// The message is no value of the type. The output keeps the part already written.
    pub(crate) fn write_properties(&self, message: &[u8], out: &mut Writer<'_>) -> Result<(), ReadError> {
        let mut reader = Self::reader(message);
        out.length(self.fields.len());
        for (field, of) in self.fields() {
            out.string_bytes(field.name.as_bytes());
            // A marshalled type has its own order of octets and alignment.
            out.align(4);
            out.raw(&field.type_code);
            walk::value(of, &mut reader, out)?;
        }
        reader.finish("a message of a declared type")
    }

    /// Marshalled type of a member, and a reader in front of its value in a message that was checked. `passed` gets the number of octets
    /// skipped.
    pub(crate) fn field<'e>(
        &'e self,
        message: &'e [u8],
        name: &str,
        passed: impl FnOnce(usize),
    ) -> Option<(Reader<'e>, Reader<'e>)> {
        let place = self.place_of(name.as_bytes())?;
        let mut reader = Self::reader(message);
        let known = self.fields.iter().take(place + 1).rposition(|field| field.at.is_some())?;
        reader.take(self.fields.get(known)?.at?).ok()?;
        let begin = reader.position();
        for (_, of) in self.fields().skip(known).take(place - known) {
            walk::value(of, &mut reader, &mut ()).ok()?;
        }
        passed(reader.position() - begin);
        Some((Reader::new(&self.fields.get(place)?.type_code, ENCODING), reader))
    }
}

/// The type `sequence<octet>`, marshalled in [`ENCODING`].
pub(crate) static OCTETS: LazyLock<Vec<u8>> =
    LazyLock::new(|| marshalled(TypeCode::sequence(TypeCode::primitive(Kind::Octet)).root()));

fn marshalled(of: TypeRef<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    of.write(&mut Writer::new(&mut bytes, ENCODING));
    bytes
}

/// End of a value that begins at `at` (before any padding), if its size is the same in all messages.
fn end_of_fixed(of: TypeRef<'_>, at: usize) -> Option<usize> {
    let of = of.resolved();
    if let Some((size, alignment)) = of.kind().number_layout() {
        return Some(at.next_multiple_of(alignment) + size);
    }
    match of.kind() {
        Kind::Boolean | Kind::Octet | Kind::Char => Some(at + 1),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! Types that travel: `TypeCode`, read, written, compared, built and displayed.
//!
//! CORBA 3.3 part 1, 8.11 and part 2, 9.3.5.1. A [`TypeCode`] owns a type: nodes in one arena, in which a type that contains itself simply
//! points back. [`TypeRef`] is a place in it. All kinds are read and written; values of valuetypes are not (see [`crate::value`]).
//!
//! Walks over types and their values are bounded by [`Work`].

mod build;
mod equal;
mod kind;
mod read;
mod show;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
mod work;
mod write;

pub use kind::Kind;
pub use work::Work;

pub(crate) use kind::Shape;
pub(crate) use write::write_discriminator;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A type, owned.
///
/// ```
/// use campanile_giop::typecode::{Kind, TypeCode};
///
/// let position = TypeCode::structure(
///     "IDL:demo/Position:1.0",
///     "Position",
///     &[("azimuth", TypeCode::primitive(Kind::Double)), ("name", TypeCode::string())],
/// );
/// assert_eq!(position.member(1).unwrap().name(), "name");
/// assert_eq!(position.to_string(), "struct Position { double azimuth; string name; }");
/// ```
#[derive(Clone)]
pub struct TypeCode {
    /// The first is the outermost type. Never empty.
    nodes: Vec<NodeData>,
    members: Vec<MemberData>,
    /// All repository ids and names, concatenated.
    text: String,
}

/// A type in the arena. Fields unused by its kind are 0.
#[derive(Clone, Copy, Debug)]
struct NodeData {
    kind: Kind,
    id: Text,
    name: Text,
    /// Element, aliased, boxed or discriminator's type, or concrete base: an index into the nodes.
    content: u32,
    /// Bound, length, digits and scale, or type modifier.
    number: u32,
    /// Index of a union's default member, or -1.
    default: i32,
    /// Index of the first member, and number of members.
    first: u32,
    count: u32,
    /// Whether it stands for the enclosing type with the repository id `id` until that is built.
    placeholder: bool,
}

#[derive(Clone, Copy, Debug)]
struct MemberData {
    name: Text,
    /// An index into the nodes; 0 for the members of an enum, which have no type.
    content: u32,
    /// A union's label as [`wire::discriminator`] reads it, without meaning for the default member.
    label: u64,
    /// A valuetype's 0 for private and 1 for public.
    visibility: u16,
}

/// A stretch of the text pool.
#[derive(Clone, Copy, Debug, Default)]
struct Text {
    start: u32,
    length: u32,
}

impl NodeData {
    const fn new(kind: Kind) -> Self {
        let none = Text { start: 0, length: 0 };
        Self { kind, id: none, name: none, content: 0, number: 0, default: -1, first: 0, count: 0, placeholder: false }
    }
}

impl Default for TypeCode {
    /// `tk_null`, the type of an `Any` that holds nothing.
    fn default() -> Self {
        Self::primitive(Kind::Null)
    }
}

impl TypeCode {
    /// The outermost type as a place to look around from.
    #[must_use]
    pub const fn root(&self) -> TypeRef<'_> {
        TypeRef { types: self, index: 0 }
    }

    /// The type's kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.root().kind()
    }

    /// The repository id, empty for kinds without one.
    #[must_use]
    pub fn id(&self) -> &str {
        self.root().id()
    }

    /// The name within its scope, empty for kinds without one.
    #[must_use]
    pub fn name(&self) -> &str {
        self.root().name()
    }

    /// The member at `index`, counted from 0.
    #[must_use]
    pub fn member(&self, index: usize) -> Option<Member<'_>> {
        self.root().member(index)
    }

    /// Whether both are the same type by `TypeCode::equal` (CORBA 3.3 part 1, 8.11.1): all ids, names, members, labels and bounds agree.
    /// `==` is the same.
    #[must_use]
    pub fn equal(&self, other: &Self) -> bool {
        equal::same(self.root(), other.root(), equal::Rule::Equal)
    }

    /// Whether both are the same type by `TypeCode::equivalent` (CORBA 3.3 part 1, 8.11.1): aliases are looked through,
    /// repository ids decide where both have one, and names do not matter.
    #[must_use]
    pub fn equivalent(&self, other: &Self) -> bool {
        equal::same(self.root(), other.root(), equal::Rule::Equivalent)
    }

    fn node(&self, index: u32) -> &NodeData {
        const NULL: NodeData = NodeData::new(Kind::Null);
        usize::try_from(index).ok().and_then(|index| self.nodes.get(index)).unwrap_or(&NULL)
    }

    fn node_mut(&mut self, index: u32) -> Option<&mut NodeData> {
        self.nodes.get_mut(usize::try_from(index).ok()?)
    }

    fn text(&self, text: Text) -> &str {
        let range =
            || Some(usize::try_from(text.start).ok()?..usize::try_from(text.start.checked_add(text.length)?).ok()?);
        range().and_then(|range| self.text.get(range)).unwrap_or_default()
    }
}

impl PartialEq for TypeCode {
    fn eq(&self, other: &Self) -> bool {
        self.equal(other)
    }
}

impl Eq for TypeCode {}

impl fmt::Debug for TypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeCode({self})")
    }
}

/// A type within a [`TypeCode`]: the outermost one or a part of it.
#[derive(Clone, Copy)]
pub struct TypeRef<'t> {
    types: &'t TypeCode,
    index: u32,
}

impl<'t> TypeRef<'t> {
    fn data(self) -> &'t NodeData {
        self.types.node(self.index)
    }

    const fn at(self, index: u32) -> Self {
        Self { types: self.types, index }
    }

    /// The type's kind.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.data().kind
    }

    /// A number that this place has alone in its [`TypeCode`]: by it, a type that contains itself is known again.
    #[must_use]
    pub const fn place(self) -> u32 {
        self.index
    }

    /// The repository id, empty for kinds without one.
    #[must_use]
    pub fn id(self) -> &'t str {
        self.types.text(self.data().id)
    }

    /// The name within its scope, empty for kinds without one.
    #[must_use]
    pub fn name(self) -> &'t str {
        self.types.text(self.data().name)
    }

    /// The element type of a sequence or array, what an alias stands for, or what a boxed valuetype boxes.
    #[must_use]
    pub fn content(self) -> Option<Self> {
        let data = self.data();
        let has_content = matches!(data.kind, Kind::Sequence | Kind::Array | Kind::Alias | Kind::ValueBox);
        has_content.then(|| self.at(data.content))
    }

    /// The type that a union is discriminated by, perhaps an alias.
    #[must_use]
    pub fn discriminator(self) -> Option<Self> {
        let data = self.data();
        (data.kind == Kind::Union).then(|| self.at(data.content))
    }

    /// The type that a valuetype or eventtype inherits its state from; `tk_null` where it inherits from none.
    #[must_use]
    pub fn concrete_base(self) -> Option<Self> {
        let data = self.data();
        matches!(data.kind, Kind::Value | Kind::Event).then(|| self.at(data.content))
    }

    /// `CUSTOM`, `ABSTRACT`, `TRUNCATABLE` or none of them (1, 2, 3, 0) for a valuetype or eventtype, else 0.
    #[must_use]
    pub fn modifier(self) -> u16 {
        let data = self.data();
        if matches!(data.kind, Kind::Value | Kind::Event) { low_half(data.number) } else { 0 }
    }

    /// Maximum elements or characters of a sequence or string; `None` if unbounded.
    #[must_use]
    pub fn bound(self) -> Option<u32> {
        let data = self.data();
        let bounded = matches!(data.kind, Kind::Sequence | Kind::String | Kind::Wstring) && data.number != 0;
        bounded.then_some(data.number)
    }

    /// The number of elements of an array, else 0.
    #[must_use]
    pub fn length(self) -> u32 {
        let data = self.data();
        if data.kind == Kind::Array { data.number } else { 0 }
    }

    /// Digits of a `fixed` type, 1 to 31, else 0.
    #[must_use]
    pub fn digits(self) -> u16 {
        let data = self.data();
        if data.kind == Kind::Fixed { low_half(data.number >> 16) } else { 0 }
    }

    /// Digits behind the point of a `fixed` type, else 0.
    #[must_use]
    pub fn scale(self) -> i16 {
        let data = self.data();
        if data.kind == Kind::Fixed { low_half(data.number).cast_signed() } else { 0 }
    }

    /// Number of members of a structure, exception, union, enum or valuetype.
    #[must_use]
    pub fn member_count(self) -> usize {
        usize::try_from(self.data().count).unwrap_or(usize::MAX)
    }

    /// The member at `index`, counted from 0.
    #[must_use]
    pub fn member(self, index: usize) -> Option<Member<'t>> {
        let data = self.data();
        let index = u32::try_from(index).ok().filter(|index| *index < data.count)?;
        let member = self.types.members.get(usize::try_from(data.first.checked_add(index)?).ok()?)?;
        Some(Member { owner: self, index, data: member })
    }

    /// The members in order.
    pub fn members(self) -> impl ExactSizeIterator<Item = Member<'t>> {
        let data = self.data();
        let first = usize::try_from(data.first).unwrap_or(usize::MAX);
        let members = self.types.members.get(first..).unwrap_or_default();
        let members = members.get(..self.member_count()).unwrap_or_default();
        members.iter().zip(0..data.count).map(move |(data, index)| Member { owner: self, index, data })
    }

    /// Index of a union's default member.
    #[must_use]
    pub fn default_index(self) -> Option<usize> {
        usize::try_from(self.data().default).ok().filter(|index| *index < self.member_count())
    }

    /// The type behind any aliases.
    #[must_use]
    pub fn resolved(self) -> Self {
        let mut at = self;
        // An alias that stands for itself is no type, but can be sent.
        for _ in 0..self.types.nodes.len() {
            match at.data().kind {
                Kind::Alias => at = self.at(at.data().content),
                _ => break,
            }
        }
        at
    }

    /// Index of the member that a discriminator chooses: the one with that label, else the default member.
    pub(crate) fn chosen(self, discriminator: u64) -> Option<usize> {
        let default = self.default_index();
        let labelled = |member: &Member<'_>| Some(member.position()) != default && member.data.label == discriminator;
        self.members().find(labelled).map(|member| member.position()).or(default)
    }
}

impl fmt::Debug for TypeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeRef({self})")
    }
}

/// A member of a structure, exception, union, enum or valuetype.
#[derive(Clone, Copy, Debug)]
pub struct Member<'t> {
    owner: TypeRef<'t>,
    index: u32,
    data: &'t MemberData,
}

impl<'t> Member<'t> {
    /// The member's name; in an enum, the label.
    #[must_use]
    pub fn name(self) -> &'t str {
        self.owner.types.text(self.data.name)
    }

    /// The member's type; `tk_null` in an enum.
    #[must_use]
    pub fn type_ref(self) -> TypeRef<'t> {
        const NO_NODE: u32 = u32::MAX;
        self.owner.at(if self.owner.kind() == Kind::Enum { NO_NODE } else { self.data.content })
    }

    /// The discriminator that chooses a union's member, as a number: 0 or 1 for a boolean, the octet of a `char`, the
    /// position in an enum; an `unsigned long long` by its bits. `None` for the default member and outside unions.
    #[must_use]
    pub fn label(self) -> Option<i64> {
        let is_default = self.owner.default_index() == Some(self.position());
        (self.owner.kind() == Kind::Union && !is_default).then(|| self.data.label.cast_signed())
    }

    /// Whether a valuetype's member is public.
    #[must_use]
    pub const fn is_public(self) -> bool {
        self.data.visibility != 0
    }

    fn position(self) -> usize {
        usize::try_from(self.index).unwrap_or(usize::MAX)
    }
}

const fn low_half(number: u32) -> u16 {
    let [_, _, a, b] = number.to_be_bytes();
    u16::from_be_bytes([a, b])
}

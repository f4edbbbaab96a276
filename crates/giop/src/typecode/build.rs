//! Construction of types by a program.

use super::{Kind, MemberData, NodeData, Text, TypeCode};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

impl TypeCode {
    /// A type without parameters, such as `long` or `any`.
    ///
    /// For a kind that has parameters, the type without id, name, bound and members, of nulls.
    #[must_use]
    pub fn primitive(kind: Kind) -> Self {
        let mut code = Self { nodes: vec![NodeData::new(kind)], members: Vec::new(), text: String::new() };
        match kind {
            Kind::Sequence | Kind::Array | Kind::Alias | Kind::ValueBox | Kind::Union | Kind::Value | Kind::Event => {
                code.nodes.push(NodeData::new(Kind::Null));
                code.set_root(|root| root.content = 1);
            }
            Kind::Fixed => code.set_root(|root| root.number = 1 << 16),
            _ => {}
        }
        code
    }

    /// `any`.
    #[must_use]
    pub fn any() -> Self {
        Self::primitive(Kind::Any)
    }

    /// `string` without bound.
    #[must_use]
    pub fn string() -> Self {
        Self::primitive(Kind::String)
    }

    /// `string` of at most `bound` characters; unbounded if `bound` is 0.
    #[must_use]
    pub fn bounded_string(bound: u32) -> Self {
        Self::numbered(Kind::String, bound)
    }

    /// `wstring` without bound.
    #[must_use]
    pub fn wstring() -> Self {
        Self::primitive(Kind::Wstring)
    }

    /// `wstring` of at most `bound` characters; unbounded if `bound` is 0.
    #[must_use]
    pub fn bounded_wstring(bound: u32) -> Self {
        Self::numbered(Kind::Wstring, bound)
    }

    /// `fixed` of that many digits, `scale` of them behind the point. Clamped to the range of CORBA's decimals: 1 to 31 digits, and a scale
    /// of -31 to 31.
    #[must_use]
    pub fn fixed(digits: u16, scale: i16) -> Self {
        let (digits, scale) = (digits.clamp(1, 31), scale.clamp(-31, 31));
        Self::numbered(Kind::Fixed, u32::from(digits) << 16 | u32::from(scale.cast_unsigned()))
    }

    /// `sequence` without bound.
    #[must_use]
    pub fn sequence(element: Self) -> Self {
        Self::bounded_sequence(element, 0)
    }

    /// `sequence` of at most `bound` elements; unbounded if `bound` is 0.
    #[must_use]
    pub fn bounded_sequence(element: Self, bound: u32) -> Self {
        Self::numbered(Kind::Sequence, bound).with_content(&element)
    }

    /// Array of `length` elements. An array of arrays is one of more dimensions.
    #[must_use]
    pub fn array(element: Self, length: u32) -> Self {
        Self::numbered(Kind::Array, length).with_content(&element)
    }

    /// An alias of a type.
    #[must_use]
    pub fn alias(id: &str, name: &str, original: Self) -> Self {
        Self::named(Kind::Alias, id, name).with_content(&original).closed()
    }

    /// Structure with members by name.
    #[must_use]
    pub fn structure(id: &str, name: &str, members: &[(&str, Self)]) -> Self {
        Self::with_members(Kind::Struct, id, name, members)
    }

    /// Exception with members by name.
    #[must_use]
    pub fn exception(id: &str, name: &str, members: &[(&str, Self)]) -> Self {
        Self::with_members(Kind::Exception, id, name, members)
    }

    /// Enum with its labels in order.
    #[must_use]
    pub fn enumeration(id: &str, name: &str, labels: &[&str]) -> Self {
        let mut code = Self::named(Kind::Enum, id, name);
        let members = labels.iter().map(|label| (*label, 0, 0, 0)).collect();
        code.place_members(members);
        code
    }

    /// Union. Each member has the label that selects it (see [`super::Member::label`]), or `None` for the default one. Several labels for
    /// one member are several members of the same name and type.
    #[must_use]
    pub fn union(id: &str, name: &str, discriminator: Self, members: &[(Option<i64>, &str, Self)]) -> Self {
        let mut code = Self::named(Kind::Union, id, name).with_content(&discriminator);
        let placed = members
            .iter()
            .map(|(label, name, content)| (*name, code.append(content), label.unwrap_or_default().cast_unsigned(), 0));
        let placed = placed.collect();
        code.place_members(placed);
        let default = members.iter().position(|(label, ..)| label.is_none());
        code.set_root(|root| root.default = default.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1));
        code.closed()
    }

    /// An object reference, or another type with only a repository id and a name.
    #[must_use]
    pub fn object(id: &str, name: &str) -> Self {
        Self::named(Kind::Object, id, name)
    }

    /// A type of a kind with a repository id and a name, without members and of nulls.
    ///
    /// For [`Kind::Object`] there is [`TypeCode::object`]; the others are `Native`, `AbstractInterface`,
    /// `LocalInterface`, `Component` and `Home`.
    #[must_use]
    pub fn named(kind: Kind, id: &str, name: &str) -> Self {
        let mut code = Self::primitive(kind);
        let (id, name) = (code.add_text(id), code.add_text(name));
        code.set_root(|root| (root.id, root.name) = (id, name));
        code
    }

    /// Valuetype with a modifier (see [`super::TypeRef::modifier`]), the type it inherits state from (`tk_null` for
    /// none), and members by name with whether each is public.
    #[must_use]
    pub fn value(id: &str, name: &str, modifier: u16, base: Self, members: &[(&str, Self, bool)]) -> Self {
        let mut code = Self::named(Kind::Value, id, name).with_content(&base);
        code.set_root(|root| root.number = u32::from(modifier));
        let placed = members.iter().map(|(name, content, public)| (*name, code.append(content), 0, u16::from(*public)));
        let placed = placed.collect();
        code.place_members(placed);
        code.closed()
    }

    /// Valuetype that boxes a value of another type.
    #[must_use]
    pub fn value_box(id: &str, name: &str, boxed: Self) -> Self {
        Self::named(Kind::ValueBox, id, name).with_content(&boxed).closed()
    }

    /// Within a type under construction, a reference to the enclosing type with that repository id, which thereby contains itself. Outside
    /// one it is `tk_null`.
    ///
    /// ```
    /// use campanile_giop::typecode::{Kind, TypeCode};
    ///
    /// let id = "IDL:demo/Tree:1.0";
    /// let children = TypeCode::sequence(TypeCode::recursive(id));
    /// let tree = TypeCode::structure(id, "Tree", &[("value", TypeCode::primitive(Kind::Long)), ("children", children)]);
    /// assert_eq!(tree.member(1).unwrap().type_ref().content().unwrap().id(), id);
    /// ```
    #[must_use]
    pub fn recursive(id: &str) -> Self {
        let mut code = Self::primitive(Kind::Null);
        let id = code.add_text(id);
        code.set_root(|root| (root.id, root.placeholder) = (id, true));
        code
    }

    /// This type with `whole` in place of the references that [`TypeCode::recursive`] makes to its repository id.
    #[must_use]
    pub fn completed(mut self, whole: &Self) -> Self {
        let stands_for_it = |code: &Self, content: u32| {
            let node = code.node(content);
            node.placeholder && code.text(node.id) == whole.id()
        };
        let (nodes, members) = (self.nodes.len(), self.members.len());
        let at = self.append(whole);
        for place in 0..nodes {
            if self.nodes.get(place).is_some_and(|node| stands_for_it(&self, node.content))
                && let Some(node) = self.nodes.get_mut(place)
            {
                node.content = at;
            }
        }
        for place in 0..members {
            if self.members.get(place).is_some_and(|member| stands_for_it(&self, member.content))
                && let Some(member) = self.members.get_mut(place)
            {
                member.content = at;
            }
        }
        self
    }

    /// Repository ids of references in this type to types that do not enclose it: the type is incomplete (see [`TypeCode::completed`]).
    pub fn awaits(&self) -> impl Iterator<Item = &str> {
        let contents =
            self.nodes.iter().map(|node| node.content).chain(self.members.iter().map(|member| member.content));
        let placeholders = contents.map(|content| self.node(content)).filter(|node| node.placeholder);
        placeholders.map(|node| self.text(node.id))
    }

    fn numbered(kind: Kind, number: u32) -> Self {
        let mut code = Self::primitive(kind);
        code.set_root(|root| root.number = number);
        code
    }

    fn with_members(kind: Kind, id: &str, name: &str, members: &[(&str, Self)]) -> Self {
        let mut code = Self::named(kind, id, name);
        let placed = members.iter().map(|(name, content)| (*name, code.append(content), 0, 0)).collect();
        code.place_members(placed);
        code.closed()
    }

    fn with_content(mut self, content: &Self) -> Self {
        // The null that stood for the content is the last node; the content takes its place.
        self.nodes.truncate(1);
        let index = self.append(content);
        self.set_root(|root| root.content = index);
        self
    }

    fn set_root(&mut self, change: impl FnOnce(&mut NodeData)) {
        if let Some(root) = self.nodes.first_mut() {
            change(root);
        }
    }

    fn add_text(&mut self, text: &str) -> Text {
        let start = self.text.len();
        self.text.push_str(text);
        Text { start: index(start), length: index(text.len()) }
    }

    /// Makes the members of the outermost type, each with its name, type, label and visibility.
    fn place_members(&mut self, members: Vec<(&str, u32, u64, u16)>) {
        let first = index(self.members.len());
        let count = index(members.len());
        for (name, content, label, visibility) in members {
            let name = self.add_text(name);
            self.members.push(MemberData { name, content, label, visibility });
        }
        self.set_root(|root| (root.first, root.count) = (first, count));
    }

    /// Copies another type into this arena and returns its index there.
    fn append(&mut self, other: &Self) -> u32 {
        let (nodes, members, text) = (index(self.nodes.len()), index(self.members.len()), index(self.text.len()));
        let moved = |t: Text| Text { start: t.start + text, length: t.length };
        self.text.push_str(&other.text);
        self.nodes.extend(other.nodes.iter().map(|node| NodeData {
            id: moved(node.id),
            name: moved(node.name),
            content: node.content + nodes,
            first: node.first + members,
            ..*node
        }));
        self.members.extend(other.members.iter().map(|member| MemberData {
            name: moved(member.name),
            content: member.content + nodes,
            ..*member
        }));
        nodes
    }

    /// Resolves references to the outermost type's id.
    fn closed(mut self) -> Self {
        let stands_for_root = |code: &Self, content: u32| {
            let node = code.node(content);
            node.placeholder && code.text(node.id) == code.id()
        };
        for at in 0..self.nodes.len() {
            if let Some(content) = self.nodes.get(at).map(|node| node.content).filter(|c| stands_for_root(&self, *c)) {
                debug_assert_ne!(content, 0, "the outermost type is no placeholder");
                if let Some(node) = self.nodes.get_mut(at) {
                    node.content = 0;
                }
            }
        }
        for at in 0..self.members.len() {
            if self.members.get(at).is_some_and(|member| stands_for_root(&self, member.content))
                && let Some(member) = self.members.get_mut(at)
            {
                member.content = 0;
            }
        }
        self
    }
}

/// An index or length in the arena. A program's own types are nowhere near the limit.
fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

//! `TypeCode` to XTypes: the type of a topic, made at run time.
//!
//! Structures and unions become final types with the members' positions as ids, so that a value has the same octets in XCDR1 as in CORBA's
//! CDR 1.2, except for wide characters and strings ([`encoding`](crate::encoding)). Types with other differences are refused: `long
//! double`, `fixed`, types without an XTypes equivalent (`any`, object references, valuetypes), types that contain themselves.

use std::ffi::CString;

use giop::typecode::{Kind, TypeCode, TypeRef};

use crate::error::{Code, Error};
use crate::qos::c_name;
use crate::raw::{Entity, Type};

/// Maximum depth of a type. A type that contains itself exceeds any depth.
const DEPTH_MAX: usize = 32;
/// Maximum number of types in one type.
const TYPES_MAX: usize = 4096;

/// Naming of types in DDS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// As in IDL: `demo::Wind`.
    #[default]
    Idl,
    /// As ROS 2 does: `demo::dds_::Wind_`.
    Ros2,
}

/// The DDS name of a named type: `IDL:demo/Wind:1.0` is `demo::Wind`.
///
/// Parts of the id without a name in IDL (`omg.org`) are left out. For an id of another form it is the type's name.
#[must_use]
pub fn type_name(of: TypeRef<'_>, naming: Naming) -> String {
    let id = of.id().strip_prefix("IDL:").and_then(|id| id.rsplit_once(':')).map_or("", |(path, _version)| path);
    let mut parts: Vec<&str> = id.split('/').filter(|part| is_identifier(part)).collect();
    let last = parts.pop().unwrap_or(of.name());
    if last.is_empty() {
        return String::new();
    }
    let is_mangled = parts.last() == Some(&"dds_");
    match naming {
        Naming::Ros2 if !is_mangled => {
            parts.push("dds_");
            parts.push(last);
            parts.join("::") + "_"
        }
        Naming::Idl | Naming::Ros2 => {
            parts.push(last);
            parts.join("::")
        }
    }
}

/// The repository id of a type with that name in DDS: the reverse of [`type_name`].
pub(crate) fn repository_id(full: &str, naming: Naming) -> String {
    let mut path = full.replace("::", "/");
    if naming == Naming::Ros2
        && let Some((package, name)) = path.rsplit_once("/dds_/")
        && let Some(name) = name.strip_suffix('_')
    {
        path = format!("{package}/{name}");
    }
    format!("IDL:{path}:1.0")
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// Whether values of both types look the same on the wire and their members have the same names. Names and bounds of types do not matter.
#[must_use]
pub fn agree(ours: TypeRef<'_>, theirs: TypeRef<'_>) -> bool {
    agree_below(ours, theirs, DEPTH_MAX)
}

fn agree_below(ours: TypeRef<'_>, theirs: TypeRef<'_>, depth: usize) -> bool {
    let (ours, theirs) = (ours.resolved(), theirs.resolved());
    let below = |ours: Option<TypeRef<'_>>, theirs: Option<TypeRef<'_>>| match (ours, theirs) {
        (Some(ours), Some(theirs)) => depth > 0 && agree_below(ours, theirs, depth - 1),
        (ours, theirs) => ours.is_none() && theirs.is_none(),
    };
    let is_enum = ours.kind() == Kind::Enum;
    ours.kind() == theirs.kind()
        && ours.length() == theirs.length()
        && ours.member_count() == theirs.member_count()
        && below(ours.content(), theirs.content())
        && below(ours.discriminator(), theirs.discriminator())
        && ours.members().zip(theirs.members()).all(|(ours, theirs)| {
            ours.name() == theirs.name()
                && ours.label() == theirs.label()
                && (is_enum || below(Some(ours.type_ref()), Some(theirs.type_ref())))
        })
}

/// Cyclone's type, which the participant owns until a topic is made of it.
pub(crate) fn of_type_code(participant: &Entity, of: &TypeCode, naming: Naming) -> Result<Type, Error> {
    let root = of.root();
    let resolved = root.resolved();
    let mut builder = Builder { participant, naming, path: vec![type_name(resolved, naming)], types: 0 };
    if resolved.kind() != Kind::Struct {
        return Err(builder.refusal(&format!("{:?} is no struct, and the type of a topic is one", resolved.kind())));
    }
    builder.made(resolved)
}

struct Builder<'a> {
    participant: &'a Entity,
    naming: Naming,
    path: Vec<String>,
    types: usize,
}

impl Builder<'_> {
    fn refusal(&self, reason: &str) -> Error {
        Error::Type { path: self.path.concat(), reason: reason.to_owned() }
    }

    fn failed(&self) -> impl FnOnce(Code) -> Error {
        let path = self.path.concat();
        move |code| Error::Type { path, reason: format!("Cyclone DDS has no such type: {code}") }
    }

    fn name(&self, of: TypeRef<'_>) -> Result<CString, Error> {
        let name = type_name(of, self.naming);
        if name.is_empty() {
            return Err(self.refusal("the type has no name, and in DDS it needs one"));
        }
        c_name("type", &name)
    }

    fn below(&mut self, step: String, of: TypeRef<'_>) -> Result<Type, Error> {
        self.path.push(step);
        let made = self.made(of)?;
        self.path.pop();
        Ok(made)
    }

    fn made(&mut self, of: TypeRef<'_>) -> Result<Type, Error> {
        self.types += 1;
        if self.path.len() > DEPTH_MAX {
            return Err(self.refusal("the type contains itself or is nested too deeply"));
        }
        if self.types > TYPES_MAX {
            return Err(self.refusal("the type consists of too many types"));
        }
        match of.kind() {
            Kind::Struct => self.structure(of),
            Kind::Union => self.union(of),
            Kind::Enum => self.enumeration(of),
            Kind::Alias => self.alias(of),
            Kind::Sequence => self.sequence(of),
            Kind::Array => self.array(of),
            Kind::String => Type::string(self.participant, false, of.bound().unwrap_or(0)).map_err(self.failed()),
            Kind::Wstring => Type::string(self.participant, true, of.bound().unwrap_or(0)).map_err(self.failed()),
            kind => match primitive(kind) {
                Some(number) => Type::primitive(number).map_err(self.failed()),
                None => Err(self.refusal(&format!("a {kind} has no place in DDS: {}", instead_of(kind)))),
            },
        }
    }

    fn content<'t>(&self, of: TypeRef<'t>) -> Result<TypeRef<'t>, Error> {
        of.content().ok_or_else(|| self.refusal("the type is incomplete"))
    }

    fn structure(&mut self, of: TypeRef<'_>) -> Result<Type, Error> {
        if of.member_count() == 0 {
            return Err(self.refusal("the struct has no members, and in DDS it needs one"));
        }
        let name = self.name(of)?;
        let mut made = Type::structure(self.participant, &name).map_err(self.failed())?;
        for member in of.members() {
            let content = self.below(format!(".{}", member.name()), member.type_ref())?;
            made.add_member(&c_name("member", member.name())?, content).map_err(self.failed())?;
        }
        Ok(made)
    }

    /// Makes a union. A `TypeCode` lists the labels of one member in a row, each with the member's name.
    fn union(&mut self, of: TypeRef<'_>) -> Result<Type, Error> {
        let discriminator = of.discriminator().ok_or_else(|| self.refusal("the union has no discriminator"))?;
        let discriminator = self.below("(discriminator)".into(), discriminator)?;
        let mut made = Type::union(self.participant, &self.name(of)?, discriminator).map_err(self.failed())?;
        let members: Vec<_> = of.members().collect();
        let mut labels = Vec::new();
        let mut is_default = false;
        for (index, member) in members.iter().enumerate() {
            match member.label() {
                None => is_default = true,
                Some(label) => labels.push(i32::try_from(label).map_err(|_| {
                    self.refusal(&format!("the label {label} of {} has no place in DDS", member.name()))
                })?),
            }
            if members.get(index + 1).is_some_and(|next| next.name() == member.name()) {
                continue;
            }
            let content = self.below(format!(".{}", member.name()), member.type_ref())?;
            let name = c_name("member", member.name())?;
            made.add_case(&name, content, &labels, is_default).map_err(self.failed())?;
            labels.clear();
            is_default = false;
        }
        Ok(made)
    }

    fn enumeration(&mut self, of: TypeRef<'_>) -> Result<Type, Error> {
        let mut made = Type::enumeration(self.participant, &self.name(of)?).map_err(self.failed())?;
        for (value, member) in (0..).zip(of.members()) {
            made.add_literal(&c_name("literal", member.name())?, value).map_err(self.failed())?;
        }
        Ok(made)
    }

    fn alias(&mut self, of: TypeRef<'_>) -> Result<Type, Error> {
        let original = self.content(of)?;
        let original = self.below(String::new(), original)?;
        Type::alias(self.participant, &self.name(of)?, original).map_err(self.failed())
    }

    fn sequence(&mut self, of: TypeRef<'_>) -> Result<Type, Error> {
        let element = self.content(of)?;
        let element = self.below("[]".into(), element)?;
        // Cyclone wants a name of what has none in IDL.
        Type::sequence(self.participant, c"sequence", element, of.bound().unwrap_or(0)).map_err(self.failed())
    }

    /// Makes an array; an array of arrays becomes one with several dimensions.
    fn array(&mut self, of: TypeRef<'_>) -> Result<Type, Error> {
        let mut lengths = vec![of.length()];
        let mut element = self.content(of)?;
        while element.kind() == Kind::Array && lengths.len() < DEPTH_MAX {
            lengths.push(element.length());
            element = self.content(element)?;
        }
        let element = self.below("[]".into(), element)?;
        Type::array(self.participant, c"array", element, &lengths).map_err(self.failed())
    }
}

/// The type to declare instead of one that DDS lacks.
const fn instead_of(kind: Kind) -> &'static str {
    match kind {
        Kind::LongDouble | Kind::Fixed => "declare it as a double or a string",
        Kind::Any | Kind::TypeCode => "declare what is in it, or a union of all that may be",
        Kind::Object => "declare it as a string, with the reference as text",
        _ => "declare it as a struct",
    }
}

/// Cyclone's number of a dynamic type's kind.
fn primitive(kind: Kind) -> Option<u32> {
    Some(match kind {
        Kind::Boolean => 1,
        Kind::Octet => 2,
        Kind::Short => 3,
        Kind::Long => 4,
        Kind::LongLong => 5,
        Kind::UShort => 6,
        Kind::ULong => 7,
        Kind::ULongLong => 8,
        Kind::Float => 9,
        Kind::Double => 10,
        Kind::Char => 14,
        Kind::Wchar => 15,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mangled(id: &str, name: &str, naming: Naming) -> String {
        type_name(TypeCode::structure(id, name, &[("x", TypeCode::primitive(Kind::Long))]).root(), naming)
    }

    fn name_of(id: &str, name: &str) -> String {
        mangled(id, name, Naming::Idl)
    }

    #[test]
    fn names_of_ros_are_mangled_and_back() {
        let id = "IDL:std_msgs/msg/String:1.0";
        assert_eq!(mangled(id, "String", Naming::Ros2), "std_msgs::msg::dds_::String_");
        assert_eq!(repository_id("std_msgs::msg::dds_::String_", Naming::Ros2), id);
        assert_eq!(
            mangled("IDL:std_msgs/msg/dds_/String_:1.0", "String_", Naming::Ros2),
            "std_msgs::msg::dds_::String_"
        );
        assert_eq!(repository_id("demo::Wind", Naming::Ros2), "IDL:demo/Wind:1.0");
    }

    #[test]
    fn a_repository_id_is_a_scoped_name() {
        assert_eq!(name_of("IDL:std_msgs/msg/dds_/String_:1.0", "String_"), "std_msgs::msg::dds_::String_");
        assert_eq!(name_of("IDL:omg.org/CosNotification/Property:1.0", "Property"), "CosNotification::Property");
        assert_eq!(name_of("RMI:something", "Wind"), "Wind");
        assert_eq!(name_of("", "Wind"), "Wind");
    }
}

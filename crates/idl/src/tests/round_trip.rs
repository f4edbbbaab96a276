//! Types to text and back.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fastrand::Rng;
use giop::typecode::{Kind, TypeCode};

use crate::{read, text};

/// The type is what its text is read as.
fn check(code: &TypeCode, about: &str) {
    let text = text(code);
    let definitions = read(&text).unwrap_or_else(|error| panic!("{about}: {error}\n{text}"));
    let found = definitions.find(code.id()).unwrap_or_else(|error| panic!("{about}: {error}\n{text}"));
    assert_eq!(found.code(), code, "{about}\n{text}");
}

#[test]
fn a_type_with_what_it_is_made_of_is_text_that_people_can_read() {
    let idl = "\
#pragma prefix \"alma.cl\"
module weather {
    enum State { OK, _default };
    struct Place {
        double lat;
        double lon;
    };
};
#pragma prefix \"\"
module other {
    union Value switch (::weather::State) {
        case OK:
        case _default:
        long number;
        default:
        string<4> text;
    };
};
#pragma prefix \"alma.cl\"
module weather {
    struct Wind {
        sequence<Place, 3> places;
        long grid[2][3];
        ::other::Value value;
        sequence<Wind> more;
        ::TimeBase::UtcT when;
        struct Inner {
            enum Kind { A } kind;
        } inner[2];
    };
};
";
    let code = read(idl).unwrap().last().unwrap().code().clone();
    assert_eq!(code.id(), "IDL:alma.cl/weather/Wind:1.0");
    let shown = text(&code);
    check(&code, "wind");
    let pressed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let members = pressed(&shown);
    for part in [
        "#pragma prefix \"alma.cl\" module weather { struct Place { double lat; double lon; };",
        "enum State { OK, _default };",
        "case OK: case _default: long number; default: string<4> text; };",
        "struct Wind { sequence<Place, 3> places; long grid[2][3]; other::Value value; sequence<Wind> more; \
         ::TimeBase::UtcT when; struct Inner { enum Kind { A } kind; } inner[2]; }; };",
    ] {
        assert!(members.contains(part), "lacks {part}:\n{shown}");
    }
}

#[test]
fn what_idl_cannot_say_is_said_in_a_comment() {
    for id in ["", "IDL:other/Name:1.0", "IDL:A:2.0", "RMI:x:1", "IDL:/A:1.0", "IDL:\"\n/A:1.0", "IDL:a b/"] {
        let code = TypeCode::structure(id, "A", &[("x", TypeCode::primitive(Kind::Long))]);
        let shown = text(&code);
        assert_eq!(shown, format!("// repository id {id:?}\nstruct A {{\n    long x;\n}};\n"));
        assert_eq!(read(&shown).unwrap().last().unwrap().code().member(0).unwrap().name(), "x");
    }
    let nameless = TypeCode::structure("IDL:m/A:1.0", "", &[("", TypeCode::any())]);
    assert!(text(&nameless).contains("struct A {"));
    let value = TypeCode::value("IDL:V:1.0", "V", 0, TypeCode::default(), &[("x", TypeCode::string(), true)]);
    let holder = TypeCode::structure("IDL:H:1.0", "H", &[("v", value)]);
    assert!(text(&holder).contains("valuetype V;"), "{}", text(&holder));
}

#[test]
fn several_types_share_what_they_are_made_of() {
    let definitions = read("module m { enum E { A }; struct P { E e; }; struct Q { P p; E e; }; };").unwrap();
    let codes: Vec<&TypeCode> = definitions.iter().map(crate::Definition::code).collect();
    let shown = crate::texts(codes.iter().copied().rev().chain(codes.iter().copied()));
    let again = read(&shown).unwrap();
    assert_eq!(again.iter().count(), 3, "{shown}");
    codes.iter().for_each(|code| assert_eq!(again.find(code.id()).unwrap().code(), *code));
}

/// The text of `Bs` had `struct A { Bs b; };` in front of `Bs`, and could not be read; of types that hold each other in sequences
/// without a name, none was declared ahead.
#[test]
fn types_that_hold_each_other_come_back_from_their_text_whichever_it_begins_with() {
    for idl in [
        "struct A; struct B; typedef sequence<A> As; typedef sequence<B> Bs; struct A { Bs b; }; struct B { As a; };",
        "struct A; typedef sequence<A> As; typedef sequence<As, 4> Rows; struct A { Rows rows; As more[2]; };",
        "struct A; struct B { sequence<A> a; }; struct A { long n; sequence<B> b; };",
        "union U; typedef sequence<U> Us; struct S { Us all; };
            union U switch (boolean) { case TRUE: Us more; case FALSE: sequence<S> s; };",
        "module m { struct A; }; module n { typedef sequence<m::A> As; struct B { As a; }; };
            module m { typedef sequence<n::B> Bs; struct A { Bs b; n::As a; }; };",
        "#pragma prefix \"x.y\"
            module m { struct A; typedef sequence<A> As; struct B { As a; }; struct A { sequence<B> b; struct C { As c; } d; }; };",
    ] {
        let definitions = read(idl).unwrap();
        assert!(definitions.iter().count() > 1);
        definitions.iter().for_each(|definition| check(definition.code(), idl));
    }
}

#[test]
fn random_types_come_back_from_their_text() {
    for seed in 0..2_000 {
        let mut random = Random { rng: Rng::with_seed(seed), named: Vec::new(), next: 0 };
        for _ in 0..random.rng.usize(..4) {
            let of = random.named();
            random.named.push(of);
        }
        let code = random.structure();
        check(&code, &format!("seed {seed}"));
    }
}

struct Random {
    rng: Rng,
    named: Vec<TypeCode>,
    next: usize,
}

impl Random {
    /// An id and the name in it.
    fn id(&mut self) -> (String, String) {
        let scopes = ["", "a/", "b/", "a/b/", "b/a/", "omg.org/a/", "x.y/a-b/c/", "a/a/"];
        // A name that is that of a module, too, in another one.
        let name = match self.rng.u8(..6) {
            0 => format!("struct{}", self.next),
            _ => format!("T{}", self.next),
        };
        self.next += 1;
        (format!("IDL:{}{name}:1.0", scopes[self.rng.usize(..scopes.len())]), name)
    }

    fn simple(&mut self) -> TypeCode {
        const KINDS: [Kind; 15] = [
            Kind::Short,
            Kind::Long,
            Kind::UShort,
            Kind::ULong,
            Kind::LongLong,
            Kind::ULongLong,
            Kind::Float,
            Kind::Double,
            Kind::LongDouble,
            Kind::Boolean,
            Kind::Char,
            Kind::Octet,
            Kind::Wchar,
            Kind::Any,
            Kind::String,
        ];
        match self.rng.u8(..8) {
            0 => TypeCode::bounded_string(self.rng.u32(..3)),
            1 => TypeCode::bounded_wstring(self.rng.u32(..3)),
            2 => TypeCode::fixed(self.rng.u16(5..31), self.rng.i16(0..5)),
            3 => TypeCode::object("IDL:omg.org/CORBA/Object:1.0", "Object"),
            _ => TypeCode::primitive(KINDS[self.rng.usize(..KINDS.len())]),
        }
    }

    fn any_type(&mut self, depth: u32) -> TypeCode {
        match self.rng.u8(..10) {
            0 | 1 if depth > 0 => TypeCode::bounded_sequence(self.any_type(depth - 1), self.rng.u32(..3)),
            2 if depth > 0 => TypeCode::array(self.any_type(depth - 1), self.rng.u32(1..4)),
            3..6 if !self.named.is_empty() => self.named[self.rng.usize(..self.named.len())].clone(),
            _ => self.simple(),
        }
    }

    fn named(&mut self) -> TypeCode {
        match self.rng.u8(..5) {
            0 => self.structure(),
            1 => self.union(),
            2 => {
                let (id, name) = self.id();
                TypeCode::alias(&id, &name, self.any_type(2))
            }
            3 => {
                let (id, name) = self.id();
                TypeCode::object(&id, &name)
            }
            _ => self.enumeration(),
        }
    }

    fn enumeration(&mut self) -> TypeCode {
        let (id, name) = self.id();
        TypeCode::enumeration(&id, &name, &["RED", "case", "GREEN"][..self.rng.usize(1..4)])
    }

    fn structure(&mut self) -> TypeCode {
        let (id, name) = self.id();
        let names: Vec<String> =
            (0..self.rng.usize(1..6)).map(|n| if n == 3 { "union".to_string() } else { format!("m{n}") }).collect();
        let members: Vec<(&str, TypeCode)> = names
            .iter()
            .map(|name| {
                let of = match self.rng.u8(..8) {
                    0 => TypeCode::sequence(TypeCode::recursive(&id)),
                    _ => self.any_type(3),
                };
                (name.as_str(), of)
            })
            .collect();
        TypeCode::structure(&id, &name, &members)
    }

    fn union(&mut self) -> TypeCode {
        let (id, name) = self.id();
        let discriminator = match self.rng.u8(..4) {
            0 => TypeCode::primitive(Kind::Char),
            1 => TypeCode::primitive(Kind::ULongLong),
            2 => TypeCode::primitive(Kind::Short),
            _ => self.enumeration(),
        };
        let (first, second) = (self.any_type(2), self.any_type(2));
        let mut members = Vec::from([(Some(0), "a", first.clone())]);
        match discriminator.kind() {
            Kind::Char => {
                members.extend([(Some(i64::from(b'\'')), "a", first), (Some(i64::from(b'x')), "b", second.clone())])
            }
            Kind::ULongLong => members.push((Some(-1), "b", second.clone())),
            Kind::Short => members.push((Some(-32_768), "b", second.clone())),
            _ => {}
        }
        if self.rng.bool() {
            members.push((None, "c", second));
        }
        TypeCode::union(&id, &name, discriminator, &members)
    }
}

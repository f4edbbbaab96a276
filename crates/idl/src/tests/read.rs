//! Texts that are types, and texts that are none.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use giop::typecode::{Kind, TypeCode};

use crate::{FindError, read, text};

fn last(idl: &str) -> TypeCode {
    read(idl).unwrap_or_else(|error| panic!("{idl}: {error}")).last().unwrap().code().clone()
}

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
            wchar wc; wstring<7> wide; long double ld; any value; Object object; fixed<5, 2> money; int64 i64;
        };";
    let code = last(text);
    let shown = code.to_string();
    for part in [
        "struct Wind {",
        "boolean valid;",
        "unsigned long long ull;",
        "sequence<float> samples;",
        "string<5> five;",
        "wstring<7> wide;",
        "fixed<5,2> money;",
        "long long i64;",
    ] {
        assert!(shown.contains(part), "{shown} lacks {part}");
    }
    let of = |name: &str| code.root().members().find(|member| member.name() == name).unwrap().type_ref();
    assert_eq!((of("grid").length(), of("grid").content().unwrap().length()), (2, 3));
    assert_eq!((of("places").bound(), of("places").content().unwrap().bound()), (Some(3), Some(2)));
    assert_eq!((of("inner").id(), of("state").id()), ("IDL:Wind/Inner:1.0", "IDL:State:1.0"));
    assert_eq!(of("inner").member(0).unwrap().type_ref().id(), "IDL:Wind/Inner/Kind:1.0");
    assert_eq!(code.root().member_count(), 26);
}

#[test]
fn a_file_as_users_have_it_is_read() {
    let text = r#"
        #ifndef _WEATHER_IDL_
        #define _WEATHER_IDL_
        #include <acscomponent.idl>
        #pragma prefix "alma"
        module weather {
            const unsigned long SENSORS = (2 + 1) * 4 - 0x0a;
            const string UNIT = "m/s";
            const double LIMIT = 3.5e-2;
            typedef sequence<double, SENSORS> Samples;
            typedef long Grid[SENSORS][2], Number;
            exception Broken { string why; };
            interface Station : ::base::Thing { double speed() raises (Broken); attribute long x; };
            interface Later;
            @final @topic(platform = "x") struct Wind {
                @key Samples samples; ::weather::Grid grid; weather::Number _long; Station where; TimeBase::UtcT when;
            };
            module inner { struct Gust { Wind wind; TimeBase::TimeT at; }; };
        };
        #pragma prefix ""
        module weather { struct Rain { inner::Gust gust; ::weather::Number mm; }; };
        #endif"#;
    let definitions = read(text).unwrap();
    let names: Vec<&str> = definitions.iter().map(crate::Definition::name).collect();
    let expected = "weather::Samples weather::Grid weather::Number weather::Station weather::Later weather::Wind \
                    weather::inner::Gust weather::Rain";
    assert_eq!(names.join(" "), expected);
    let wind = definitions.find("Wind").unwrap().code();
    assert_eq!(wind.id(), "IDL:alma/weather/Wind:1.0");
    let of = |index: usize| wind.member(index).unwrap();
    assert_eq!(of(0).type_ref().content().unwrap().bound(), Some(2));
    assert_eq!((of(1).type_ref().kind(), of(1).type_ref().content().unwrap().length()), (Kind::Alias, 2));
    assert_eq!((of(2).name(), of(3).type_ref().kind()), ("long", Kind::Object));
    assert_eq!(of(4).type_ref().id(), "IDL:omg.org/TimeBase/UtcT:1.0");
    assert_eq!(definitions.find("IDL:weather/Rain:1.0").unwrap().name(), "weather::Rain");
    assert_eq!(definitions.find("weather::inner::Gust").unwrap().code().id(), "IDL:alma/weather/inner/Gust:1.0");
}

#[test]
fn unions_have_their_labels() {
    let code = last(
        "enum Kind { NONE, NUMBER, TEXT };
         union Value switch (Kind) { case NUMBER: case Kind::TEXT: long number; default: string<3> text; };",
    );
    let labels: Vec<_> = code.root().members().map(|member| (member.name(), member.label())).collect();
    assert_eq!(labels, [("number", Some(1)), ("number", Some(2)), ("text", None)]);
    let code = last("union U switch (unsigned long long) { case 18446744073709551615: long a; case 1: long b; };");
    assert_eq!(code.member(0).unwrap().label(), Some(-1));
    let code =
        last("const char C = 'c'; union U switch (char) { case 'a': long a; case C: long b; case '\\n': octet n; };");
    let labels: Vec<_> = code.root().members().filter_map(giop::typecode::Member::label).collect();
    assert_eq!(labels, [97, 99, 10]);
    for (text, says) in [
        ("union U switch (float) { case 1: long a; };", "a union is switched by"),
        ("union U switch (short) { case 40000: long a; };", "40000 is no value of `short`"),
        ("union U switch (boolean) { case TRUE: long a; case 1: long b; };", "there is such a case already"),
        ("union U switch (boolean) { default: long a; default: long b; };", "there is such a case already"),
        ("enum E { A }; union U switch (E) { case B: long a; };", "`B` is no value of `E`"),
        ("union U switch (short) { long a; };", "expected `case` or `default`"),
        ("union U switch (short) { };", "has no members"),
        ("union U (short) { };", "expected `switch`"),
    ] {
        assert!(error(text).contains(says), "{text}: {}", error(text));
    }
}

#[test]
fn a_type_may_hold_sequences_of_itself() {
    let tree = last("struct Tree; struct Tree { long value; sequence<Tree> children; };");
    assert_eq!(tree.member(1).unwrap().type_ref().content().unwrap().id(), "IDL:Tree:1.0");
    let tree = last("module m { union T switch (boolean) { case TRUE: sequence<sequence<m::T>, 2> more; }; };");
    assert_eq!(tree.member(0).unwrap().type_ref().content().unwrap().content().unwrap().id(), "IDL:m/T:1.0");
    assert!(error("struct A { A x; };").contains("`A` cannot contain itself but in a sequence"));
    assert!(error("struct A { sequence<long> s; A x; };").contains("`A` cannot contain itself"));
    assert!(error("struct A { struct B { sequence<A> x; } b; };").contains("`A` is no type"));
}

/// `struct Node; typedef sequence<Node> Nodes; struct Node {…};`, the standard's own way to have a tree, was refused.
#[test]
fn a_sequence_may_have_a_name_before_the_type_of_its_elements_is_defined() {
    let text = "module m { struct Node; typedef sequence<Node> Nodes; struct Held { Nodes all; };
        struct Node { long value; Nodes children; }; };";
    let definitions = read(text).unwrap();
    let of = |name: &str| definitions.find(name).unwrap().code();
    let node = of("Node");
    let children = node.member(1).unwrap().type_ref();
    assert_eq!((children.name(), children.content().unwrap().content().unwrap().id()), ("Nodes", "IDL:m/Node:1.0"));
    // The alias, and what held it before, are whole as well.
    let element = of("Nodes").root().content().unwrap().content().unwrap();
    assert_eq!((element.id(), element.members().count()), ("IDL:m/Node:1.0", 2));
    let held = of("Held").member(0).unwrap().type_ref().content().unwrap().content().unwrap();
    assert_eq!(held.members().count(), 2);
    assert!(definitions.iter().all(|definition| definition.code().awaits().next().is_none()));
    assert_eq!(read(&crate::text(node)).unwrap().find("Node").unwrap().code(), node);
    // Two that hold each other, and a union.
    let both = read(
        "struct A; struct B; typedef sequence<A> As; typedef sequence<B> Bs; struct A { Bs b; }; struct B { As a; };",
    )
    .unwrap();
    assert!(both.iter().all(|definition| definition.code().awaits().next().is_none()));
    let a = both.find("A").unwrap().code();
    let b = a.member(0).unwrap().type_ref().content().unwrap().content().unwrap();
    assert_eq!((b.id(), b.member_count()), ("IDL:B:1.0", 1));
    let union =
        last("union U; typedef sequence<U> Us; union U switch (boolean) { case TRUE: Us more; case FALSE: long n; };");
    assert_eq!(union.member(0).unwrap().type_ref().content().unwrap().content().unwrap().id(), "IDL:U:1.0");
    assert!(error("struct A; struct B { A x; };").contains("`A` is used before it is defined, and not in a sequence"));
    let never = error("struct A;\ntypedef sequence<A> As;");
    assert_eq!(never, "line 2, column 21: `As` holds a sequence of `IDL:A:1.0`, which is declared and never defined");
}

/// Files of users include the OMG's, which lie with their ORB and not beside them.
#[test]
fn what_the_omg_s_own_files_define_is_known_without_them() {
    let text = "#include <orb.idl>\n#include \"CosNotification.idl\"\n#include <TimeBase.idl>
        struct Report { CosNotification::EventType what; CosNotification::PropertySeq more; TimeBase::IntervalT when;
            CORBA::StringSeq names; CosNaming::Name place; CosEventComm::PushConsumer to; CosNotification::StructuredEvent event; };";
    let report = last(text);
    let ids: Vec<String> = report.root().members().map(|member| String::from(member.type_ref().id())).collect();
    assert_eq!(ids[0], "IDL:omg.org/CosNotification/EventType:1.0");
    assert_eq!(ids[2], "IDL:omg.org/TimeBase/IntervalT:1.0");
    assert_eq!(ids[5], "IDL:omg.org/CosEventComm/PushConsumer:1.0");
    assert_eq!(read(text).unwrap().iter().count(), 1, "the OMG's are not among what the text defines");
    // A text with the file's contents is no error.
    let pasted = "#pragma prefix \"omg.org\"\nmodule TimeBase { typedef unsigned long long TimeT; struct UtcT { TimeT time; }; };
        struct S { TimeBase::UtcT when; };";
    assert_eq!(last(pasted).member(0).unwrap().type_ref().member_count(), 1);
}

#[test]
fn errors_say_where_and_what_is_expected() {
    assert_eq!(error("struct Wind { double speed }"), "line 1, column 28: expected `;`, found `}`");
    assert_eq!(error("struct Wind {\n  doble speed;\n}").split(": ").next().unwrap(), "line 2, column 3");
    assert!(error("struct Wind {\n  doble speed;\n}").contains("`doble` is no type"));
    let expected = "`struct`, `enum`, `union`, `typedef`, `const`, `module` or `interface`";
    assert_eq!(error("double x;"), format!("line 1, column 1: expected {expected}, found `double`"));
    assert_eq!(error("struct { double x; }"), "line 1, column 8: expected the name of the struct, found `{`");
    for (text, says) in [
        ("struct A {}", "the struct `A` has no members"),
        ("struct A { long x; long x; }", "there is a member `x` already"),
        ("struct A { long x, x; }", "there is a member `x` already"),
        ("struct A { long long; }", "expected the name of the member"),
        ("struct A { long short; }", "`short` is a word of IDL"),
        ("struct A { unsigned float x; }", "expected `short` or `long` behind `unsigned`"),
        ("struct A { sequence<float x; }", "expected `>`"),
        ("struct A { sequence<float, 0> x; }", "expected a number from 1 to 4294967295, found 0"),
        ("struct A { long x[0]; }", "expected a number from 1"),
        ("struct A { long x[-1]; }", "found -1"),
        ("struct A { long x[99999999999]; }", "found 99999999999"),
        ("struct A { long x[99999999999999999999999]; }", "is no number from 0"),
        ("struct A { long x[1.5]; }", "expected a number, found `1.5`"),
        ("struct A { long x[1/0]; }", "this cannot be calculated"),
        ("struct A { long x[N]; }", "`N` is no constant that is a whole number"),
        ("const string N = \"x\"; struct A { long x[N]; }", "`N` is no constant that is a whole number"),
        ("const octet N = 256;", "256 is no value of `octet`"),
        ("struct A { fixed<40, 2> x; }", "a `fixed` has 1 to 31 digits"),
        ("enum E { A, A }; struct S { E e; }", "there is a value `A` already"),
        ("struct A { long x; }; struct A { long x; };", "`A` is defined already"),
        ("struct A { long x; } struct B { long x; };", "expected `;`"),
        ("module m { struct A { long x; } };", "expected `;`, found `}`"),
        ("module m { struct A { long x; };", "found the end"),
        ("struct A { long x; }; module A { struct B { long x; }; };", "`A` is defined already"),
        ("module m { struct A { long x; }; }; struct B { m x; };", "`m` is no type, but a module"),
        ("exception E { long x; }; struct B { E x; };", "`E` is an exception"),
        ("valuetype V { public long x; }; struct B { V x; };", "`V` is a valuetype"),
        ("#include \"x.idl\"\nstruct B { V x; };", "`#include` is not followed"),
        ("struct A { @optional long x; };", "`@optional` has no place"),
        ("#if 1\nstruct A { long x; };", "`#if` is not understood"),
        ("interface I { void f(); ", "this definition has no end"),
        ("const string X = \"abc;", "this has no closing quote"),
        ("struct A { long x; /* }", "this comment has no end"),
        ("struct A { long x; } ; é", "`é` is not expected"),
    ] {
        let error = error(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_name_that_is_none_or_that_several_have_is_reported_with_those_that_there_are() {
    let definitions =
        read("module a { struct X { long x; }; enum E { P }; }; module b { struct X { long x; }; };").unwrap();
    assert!(matches!(definitions.find("X"), Err(FindError::Ambiguous { among, .. }) if among == ["a::X", "b::X"]));
    assert_eq!(definitions.find("::b::X").unwrap().code().id(), "IDL:b/X:1.0");
    assert_eq!(definitions.find("Y").unwrap_err().to_string(), "there is no type `Y`; the structs are `a::X`, `b::X`");
    assert_eq!(read("").unwrap().find("Y").unwrap_err().to_string(), "there is no type `Y`, nor any struct");
}

#[test]
fn depth_and_size_are_bounded_whatever_is_written() {
    let nested = |levels: usize| format!("struct A {{ {}float{} x; }}", "sequence<".repeat(levels), ">".repeat(levels));
    assert!(read(&nested(31)).is_ok());
    assert!(error(&nested(32)).contains("32 deep at most"));
    assert!(error(&nested(100_000)).contains("32 deep at most"));
    assert!(error(&"struct A { ".repeat(100_000)).contains("32 deep at most"));
    assert!(error(&"module A { ".repeat(100_000)).contains("32 deep at most"));
    assert!(error(&format!("const long X = {}", "(".repeat(100_000))).contains("32 deep at most"));
    assert!(error(&format!("const long X = {}", "-".repeat(100_000))).contains("32 deep at most"));
    assert!(error(&format!("struct A {{ long x{}; }}", "[1]".repeat(32))).contains("32 deep at most"));
    assert!(read(&format!("{}struct A {{ long x; }};", "@key ".repeat(100_000))).is_ok());
    assert!(read(&format!("interface I {{ {}", "{".repeat(100_000))).is_err());
    // Each of them doubles the one before.
    let doubling: String = (1..30).map(|n| format!("struct S{n} {{ S{} a, b; }};", n - 1)).collect();
    assert!(error(&format!("struct S0 {{ long a; }};{doubling}")).contains("at most"));
    let aliases: String = (1..100).map(|n| format!("typedef S{} S{n};", n - 1)).collect();
    assert!(error(&format!("struct S0 {{ long a; }};{aliases}")).contains("32 deep at most"));
    let wide = |count: usize| (0..count).map(|n| format!("long m{n};")).collect::<String>();
    assert!(error(&format!("struct A {{ {} }}", wide(5_000))).contains("4096 parts at most"));
    let many: String = (0..200).map(|n| format!("struct S{n} {{ A x; }};")).collect();
    assert!(error(&format!("struct A {{ {} }};{many}", wide(4_000))).contains("262144 parts at most"));
}

#[test]
fn no_text_makes_it_panic_and_what_is_read_is_shown() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut read_ones = 0;
    for _ in 0..60_000 {
        let text: String = (0..random.usize(0..24))
            .map(|_| WORDS[random.usize(..WORDS.len())])
            .collect::<Vec<_>>()
            .join(if random.bool() { " " } else { "" });
        if let Ok(definitions) = read(&text) {
            read_ones += 1;
            definitions.iter().for_each(|definition| assert!(!crate::text(definition.code()).is_empty()));
        }
    }
    assert!(read_ones > 50, "of all these only {read_ones} were types");
    assert_eq!(text(&TypeCode::string()), "string\n");
}

const WORDS: &[&str] = &[
    "struct",
    "enum",
    "A",
    "B",
    "x",
    "{",
    "}",
    ";",
    ",",
    "<",
    ">",
    "[",
    "]",
    "3",
    "long",
    "sequence",
    "string",
    "unsigned",
    " ",
    "\n",
    "//",
    "/*",
    "*/",
    "é",
    "0",
    "_",
    "double",
    "union",
    "switch",
    "(",
    ")",
    "case",
    ":",
    "::",
    "default",
    "module",
    "typedef",
    "const",
    "=",
    "-",
    "'a'",
    "\"",
    "'",
    "@key",
    "#pragma prefix \"x\"\n",
    "#",
    "\\",
    "interface",
    "exception",
    "A { long x; };",
    "struct A { long x; };",
    "1.5",
    "0x",
    "wstring",
    "fixed",
];

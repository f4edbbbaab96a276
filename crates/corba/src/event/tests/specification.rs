//! The examples by which the filter language is specified, on events as they come through CORBA.
//!
//! The specification's own test runs them on values in memory; what holds there has to hold of the same event in every
//! encoding, and of a structured event in an Any.

#[path = "../../../../filter/tests/event/mod.rs"]
mod event;

use super::{CHARS, ENDIANS, Sample, VERSIONS, encoding, output_form};
use crate::event::types::properties_type;
use crate::event::{FORM_ANY, FORM_STRUCTURED, fields_of_any, fields_of_structured, reader, tag_of};
use event::{Event, NOW, Tree};
use filter::{Chars, Constraint, FailureKind, Limits, Steps, Verdict};
use giop::cdr::{CharSet, Encoding, Version, Writer};
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use std::collections::HashMap;
use std::path::Path;

struct Page {
    name: String,
    text: String,
}

/// A line and where it stands.
type Line<'p> = (String, &'p str);

fn pages() -> Vec<Page> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../filter/spec");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let page = |path: std::path::PathBuf| Page {
        name: path.file_name().unwrap().to_str().unwrap().to_owned(),
        text: std::fs::read_to_string(&path).unwrap(),
    };
    paths.into_iter().map(page).collect()
}

/// Calls `visit` with each fence's kind and name, and its lines with their places.
fn for_each_fence(mut visit: impl FnMut(&str, &str, &[Line<'_>])) {
    for page in &pages() {
        let mut open: Option<(&str, &str, Vec<Line<'_>>)> = None;
        for (number, line) in (1..).zip(page.text.lines()) {
            match (line.strip_prefix("```"), &mut open) {
                (Some(_), Some((kind, name, lines))) => {
                    visit(kind, name, lines);
                    open = None;
                }
                (Some(info), None) => {
                    let (kind, name) = info.split_once(' ').unwrap_or((info, ""));
                    open = Some((kind, name, Vec::new()));
                }
                (None, Some((_, _, lines))) => lines.push((format!("{}:{number}", page.name), line)),
                (None, None) => {}
            }
        }
    }
}

// ---- events as CORBA has them ----

fn primitive(kind: Kind) -> TypeCode {
    TypeCode::primitive(kind)
}

fn id(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("IDL:{name}:1.0") }
}

fn any_of(tree: &Tree) -> AnyValue {
    match tree {
        Tree::Bool(value) => (*value).into(),
        Tree::Int(value) => i32::try_from(*value).map_or_else(|_| (*value).into(), AnyValue::from),
        Tree::UInt(value) => u32::try_from(*value).map_or_else(|_| (*value).into(), AnyValue::from),
        Tree::Float(value) => (*value).into(),
        Tree::Char(c) if c.is_ascii() => AnyValue::new(primitive(Kind::Char), Value::Char(*c)),
        Tree::Char(c) => AnyValue::new(primitive(Kind::Wchar), Value::Wchar(*c)),
        Tree::Text(bytes, chars) => text_of(bytes, *chars),
        Tree::Enum(ordinal, name, names) => enum_of(*ordinal, name, names),
        Tree::Struct(name, members) => {
            let members: Vec<_> = members.iter().map(|(name, tree)| (name.as_str(), any_of(tree))).collect();
            let types: Vec<_> = members.iter().map(|(name, any)| (*name, any.type_code.clone())).collect();
            let fields = members.iter().map(|(name, any)| ((*name).to_owned(), any.value.clone())).collect();
            let code = TypeCode::structure(&id(name), name, &types);
            AnyValue::new(code, Value::Struct { type_name: name.clone(), fields })
        }
        Tree::Union { .. } => union_of(tree),
        Tree::Sequence(trees) => sequence_of(trees),
        Tree::Properties(pairs) => {
            let property = |(name, tree): &(String, Tree)| {
                let value = Value::Any(Box::new(any_of(tree)));
                let fields = vec![("name".into(), Value::String(name.clone())), ("value".into(), value)];
                Value::Struct { type_name: "Property".into(), fields }
            };
            AnyValue::new(properties_type(), Value::Sequence(pairs.iter().map(property).collect()))
        }
        Tree::Any(tree) => AnyValue::new(TypeCode::any(), Value::Any(Box::new(any_of(tree)))),
        Tree::Nothing => AnyValue::default(),
    }
}

fn text_of(bytes: &[u8], chars: Chars) -> AnyValue {
    match chars {
        Chars::Utf16Be => {
            let units: Vec<u16> = bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            AnyValue::new(TypeCode::wstring(), Value::Wstring(String::from_utf16(&units).unwrap()))
        }
        Chars::Latin1 => bytes.iter().copied().map(char::from).collect::<String>().into(),
        _ => String::from_utf8(bytes.to_vec()).unwrap().into(),
    }
}

fn enum_of(ordinal: u32, name: &str, names: &[String]) -> AnyValue {
    let others: Vec<String> = (0..ordinal).map(|n| format!("other_{n}")).collect();
    let made: Vec<&str> = others.iter().map(String::as_str).chain([name]).collect();
    let labels: Vec<&str> = if names.is_empty() { made } else { names.iter().map(String::as_str).collect() };
    let value = Value::Enum { type_name: "E".into(), label: name.into(), index: ordinal };
    AnyValue::new(TypeCode::enumeration("IDL:E:1.0", "E", &labels), value)
}

fn label_of(tree: &Tree) -> i64 {
    match tree {
        Tree::Int(value) => *value,
        Tree::Bool(value) => i64::from(*value),
        Tree::Char(c) => i64::from(u32::from(*c)),
        Tree::Enum(ordinal, ..) => i64::from(*ordinal),
        other => panic!("{other:?} is no label"),
    }
}

fn union_of(tree: &Tree) -> AnyValue {
    let Tree::Union { name, discriminator, labels, default, except, member } = tree else { panic!() };
    let by = any_of(discriminator);
    let mut types: Vec<(Option<i64>, String, TypeCode)> = except
        .iter()
        .map(|label| (Some(label_of(label)), format!("case_{}", label_of(label)), primitive(Kind::Octet)))
        .collect();
    let mut value = None;
    if let Some((name, tree)) = member {
        let any = any_of(tree);
        let labels = if *default { vec![None] } else { labels.iter().map(|label| Some(label_of(label))).collect() };
        types.extend(labels.into_iter().map(|label| (label, name.clone(), any.type_code.clone())));
        value = Some((name.clone(), Box::new(any.value)));
    }
    let members: Vec<_> = types.iter().map(|(label, name, code)| (*label, name.as_str(), code.clone())).collect();
    let code = TypeCode::union(&id(name), name, by.type_code, &members);
    AnyValue::new(code, Value::Union { type_name: name.clone(), discriminator: Box::new(by.value), member: value })
}

fn sequence_of(trees: &[Tree]) -> AnyValue {
    let all: Vec<AnyValue> = trees.iter().map(any_of).collect();
    let alike = all.windows(2).all(|pair| pair[0].type_code == pair[1].type_code);
    match all.first() {
        Some(first) if alike => {
            let code = TypeCode::sequence(first.type_code.clone());
            let octets = |any: AnyValue| any.value;
            AnyValue::new(code, Value::Sequence(all.into_iter().map(octets).collect()))
        }
        _ => {
            let boxed = |any| Value::Any(Box::new(any));
            AnyValue::new(TypeCode::sequence(TypeCode::any()), Value::Sequence(all.into_iter().map(boxed).collect()))
        }
    }
}

fn member<'t>(tree: &'t Tree, name: &str) -> &'t Tree {
    let Tree::Struct(_, members) = tree else { panic!("{tree:?} has no members") };
    &members.iter().find(|(known, _)| known == name).unwrap().1
}

fn write(event: &Event, w: &mut Writer<'_>) {
    if !event.structured {
        return any_of(&event.tree).write(w).unwrap();
    }
    let header = member(&event.tree, "header");
    let fixed = member(header, "fixed_header");
    let kind = member(fixed, "event_type");
    for text in [member(kind, "domain_name"), member(kind, "type_name"), member(fixed, "event_name")] {
        let Value::String(text) = any_of(text).value else { panic!() };
        w.string(&text);
    }
    for list in [member(header, "variable_header"), member(&event.tree, "filterable_data")] {
        any_of(list).value.write(&properties_type(), w).unwrap();
    }
    let Tree::Any(body) = member(&event.tree, "remainder_of_body") else { panic!() };
    any_of(body).write(w).unwrap();
}

fn written(event: &Event, encoding: Encoding) -> Sample {
    let mut bytes = Vec::new();
    write(event, &mut Writer::new(&mut bytes, encoding));
    let form = if event.structured { FORM_STRUCTURED } else { FORM_ANY };
    Sample { name: String::new(), form, tag: tag_of(encoding, 0), bytes }
}

/// The event in every encoding that has all of its characters, and in an Any.
fn every_way(event: &Event) -> Vec<Sample> {
    let utf8 = written(event, encoding(ENDIANS[0], Version::V1_2, CharSet::Utf8)).value();
    let mut ways = Vec::new();
    for endian in ENDIANS {
        for version in VERSIONS {
            for chars in CHARS {
                let sample = written(event, encoding(endian, version, chars));
                // NaN is not even equal to itself, so values are compared as they are shown.
                if format!("{:?}", sample.value()) != format!("{utf8:?}") {
                    continue;
                }
                if sample.form == FORM_STRUCTURED {
                    ways.push(sample.translated(output_form(FORM_ANY, version, &CHARS)));
                }
                ways.push(sample);
            }
        }
    }
    ways
}

// ---- the examples ----

/// What the specification calls the verdict, if it is one that depends on the event alone.
fn verdict(constraint: &Constraint, sample: &Sample) -> String {
    let source = reader(&sample.bytes, sample.tag);
    let fields = if sample.form == FORM_ANY { fields_of_any(source, NOW) } else { fields_of_structured(source, NOW) };
    match constraint.matches(&fields, &mut Steps::new(250_000)) {
        Verdict::Match => "match".into(),
        Verdict::NoMatch => "no match".into(),
        Verdict::Cut => "cut".into(),
        Verdict::Failed(failure) => match failure.kind {
            FailureKind::Missing => "missing".into(),
            FailureKind::WrongType => "wrong type".into(),
            FailureKind::DivisionByZero => "division by zero".into(),
            FailureKind::NotASequence => "not a sequence".into(),
            other => format!("{other:?}"),
        },
    }
}

const VERDICTS: [&str; 6] = ["match", "no match", "missing", "wrong type", "division by zero", "not a sequence"];

#[test]
fn the_examples_of_the_filter_language_hold_of_events_that_come_through_corba() {
    let mut events: HashMap<String, Vec<Sample>> = HashMap::from([(String::new(), every_way(&Event::nothing()))]);
    let (mut examples, mut wrong) = (0, Vec::new());
    for_each_fence(|kind, name, lines| {
        let text: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
        match kind {
            "event" => {
                events.insert(name.to_owned(), every_way(&Event::parse(&text.join("\n"))));
            }
            "filter" => {
                for (place, line) in lines {
                    let Some((text, expected)) = line.rsplit_once("# ") else { continue };
                    let expected = expected.split(" in ").next().unwrap().split(" at column").next().unwrap().trim();
                    let Ok(constraint) = Constraint::parse(text.trim_end(), &Limits::default()) else { continue };
                    if !VERDICTS.contains(&expected) || constraint.always().is_some() {
                        continue;
                    }
                    examples += 1;
                    let found = events[name].iter().find(|sample| verdict(&constraint, sample) != expected);
                    if let Some(sample) = found {
                        let found = verdict(&constraint, sample);
                        wrong.push(format!("{place}: {text}: {found}, not {expected}, in {:?}", sample.tag));
                    }
                }
            }
            _ => {}
        }
    });
    assert!(wrong.is_empty(), "{} of {examples} examples do not hold\n{}", wrong.len(), wrong.join("\n"));
    assert!(examples > 400, "only {examples} examples were found");
}

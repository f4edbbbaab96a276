//! Filters: made, changed, asked, given to admins and proxies, and destroyed.

mod hostile;
mod limits;

use super::dialogue::{
    Body, Dialogue, Expect, STYLES, Thrown, client, key_of, settings, somebody, write_empty_event, write_types,
};
use super::objects::new_channel;
use super::proxies::every_proxy;
use crate::keys::ObjectKey;
use crate::{ClientAnswer, Effect, Exception, ObjectRequest};
use engine::{ChannelLimits, FilterRef, FilterTarget};
use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::exception::Kind;
use giop::ior::Ior;

const SHORT: u32 = 2;
const LONG: u32 = 3;
const STRING: u32 = 18;
const TIME: u32 = 24;

/// A constraint as it travels: event types, expression.
type Expression<'a> = (&'a [(&'a str, &'a str)], &'a str);

fn write_expression((types, text): Expression<'_>, w: &mut Writer<'_>) {
    write_types(types, w);
    w.string(text);
}

fn write_expressions(expressions: &[Expression<'_>], w: &mut Writer<'_>) {
    w.length(expressions.len());
    for expression in expressions {
        write_expression(*expression, w);
    }
}

fn write_short(value: i16, w: &mut Writer<'_>) {
    w.u32(SHORT);
    w.i16(value);
}

fn write_time(value: u64, w: &mut Writer<'_>) {
    w.u32(TIME);
    w.u64(value);
}

fn write_text(value: &str, w: &mut Writer<'_>) {
    w.u32(STRING);
    w.u32(0);
    w.string(value);
}

fn write_ids(ids: &[i32], w: &mut Writer<'_>) {
    w.length(ids.len());
    for id in ids {
        w.i32(*id);
    }
}

fn read_expression(r: &mut Reader<'_>) -> (Vec<(String, String)>, String) {
    let types = (0..r.u32().unwrap()).map(|_| (r.text().unwrap(), r.text().unwrap())).collect();
    (types, r.text().unwrap())
}

/// The ids and texts of a `ConstraintInfoSeq`.
fn infos(body: &Body) -> Vec<(i32, String)> {
    body.read(|r| {
        let info = |r: &mut Reader<'_>| {
            let text = read_expression(r).1;
            (r.i32().unwrap(), text)
        };
        (0..r.u32().unwrap()).map(|_| info(r)).collect()
    })
}

/// The ids, texts and values of a `MappingConstraintInfoSeq` of shorts.
fn mapping_infos(body: &Body) -> Vec<(i32, String, i16)> {
    body.read(|r| {
        let info = |r: &mut Reader<'_>| {
            let text = read_expression(r).1;
            (r.i32().unwrap(), text, read_short(r))
        };
        (0..r.u32().unwrap()).map(|_| info(r)).collect()
    })
}

fn read_short(r: &mut Reader<'_>) -> i16 {
    assert_eq!(r.u32().unwrap(), SHORT);
    r.i16().unwrap()
}

fn factory(d: &mut Dialogue) -> Ior {
    let channel = new_channel(d).0;
    d.object(&channel, "_get_default_filter_factory")
}

fn made_filter(d: &mut Dialogue, factory: &Ior) -> Ior {
    let body = d.call(factory, "create_filter", |w| w.string("EXTENDED_TCL")).unwrap();
    body.read(|r| Ior::read(r).unwrap())
}

fn made_mapping(d: &mut Dialogue, factory: &Ior, default: impl FnOnce(&mut Writer<'_>)) -> Ior {
    let body = d.call(factory, "create_mapping_filter", |w| {
        w.string("EXTENDED_TCL");
        default(w);
    });
    body.unwrap().read(|r| Ior::read(r).unwrap())
}

fn add(d: &mut Dialogue, filter: &Ior, expressions: &[Expression<'_>]) -> Result<Body, Thrown> {
    d.call(filter, "add_constraints", |w| write_expressions(expressions, w))
}

fn add_mapping(d: &mut Dialogue, filter: &Ior, pairs: &[(Expression<'_>, i16)]) -> Result<Body, Thrown> {
    d.call(filter, "add_mapping_constraints", |w| {
        w.length(pairs.len());
        for (expression, value) in pairs {
            write_expression(*expression, w);
            write_short(*value, w);
        }
    })
}

fn modify(d: &mut Dialogue, filter: &Ior, deleted: &[i32], modified: &[(Expression<'_>, i32)]) -> Result<Body, Thrown> {
    d.call(filter, "modify_constraints", |w| {
        write_ids(deleted, w);
        w.length(modified.len());
        for (expression, id) in modified {
            write_expression(*expression, w);
            w.i32(*id);
        }
    })
}

fn all(d: &mut Dialogue, filter: &Ior) -> Vec<(i32, String)> {
    infos(&d.get(filter, "get_all_constraints"))
}

/// Makes a call just as it is, without also trying it damaged: for those that are refused before all of them is read.
fn answered(
    d: &mut Dialogue,
    object: &Ior,
    operation: &str,
    arguments: impl FnOnce(&mut Writer<'_>),
) -> Result<(), Exception> {
    let encoding = Encoding::new(d.style.endian);
    let mut args = Vec::new();
    arguments(&mut Writer::new(&mut args, encoding));
    let key = &object.iiop().unwrap().key;
    let call = ObjectRequest { key, operation, args: Reader::new(&args, encoding), principal: somebody() };
    let outcome = d.protocol.handle(&call, &mut Writer::new(&mut Vec::new(), encoding));
    if let Err(Exception::User { id, .. }) = &outcome {
        d.raised.insert((*id).into());
    }
    outcome
}

/// The system exception that such a call ends in.
fn refused(d: &mut Dialogue, object: &Ior, operation: &str, arguments: impl FnOnce(&mut Writer<'_>)) -> Kind {
    match answered(d, object, operation, arguments) {
        Err(Exception::System(exception)) => exception.kind,
        other => panic!("{operation}: {other:?}"),
    }
}

/// What a client's `match` says.
fn matched(body: Result<Body, Thrown>) -> bool {
    body.unwrap().read(|r| r.bool().unwrap())
}

fn write_event(domain: &str, name: &str, w: &mut Writer<'_>) {
    w.string(domain);
    w.string(name);
    w.string("");
    w.u32(0);
    w.u32(0);
    w.u32(0);
}

fn write_utc(time: u64, w: &mut Writer<'_>) {
    w.u64(time);
    w.u32(0);
    w.u16(0);
    w.i16(0);
}

pub(super) fn factories(d: &mut Dialogue) {
    let channel = new_channel(d).0;
    let factory = d.object(&channel, "_get_default_filter_factory");
    assert_eq!(factory.type_id, "IDL:CosNotifyFilterExt/FilterFactory:1.0");
    assert_eq!(d.object(&channel, "_get_default_filter_factory"), factory);
    let other = new_channel(d).0;
    assert_ne!(d.object(&other, "_get_default_filter_factory"), factory);
    for grammar in ["EXTENDED_TCL", "ETCL", "TCL"] {
        let body = d.call(&factory, "create_filter", |w| w.string(grammar)).unwrap();
        let filter = body.read(|r| Ior::read(r).unwrap());
        assert_eq!(filter.type_id, "IDL:omg.org/CosNotifyFilter/Filter:1.0");
        assert_eq!(d.get(&filter, "_get_constraint_grammar").read(|r| r.text().unwrap()), grammar);
        let body = d.call(&factory, "create_mapping_filter", |w| {
            w.string(grammar);
            write_text("default", w);
        });
        let mapping = body.unwrap().read(|r| Ior::read(r).unwrap());
        assert_eq!(mapping.type_id, "IDL:omg.org/CosNotifyFilter/MappingFilter:1.0");
        assert_eq!(d.get(&mapping, "_get_constraint_grammar").read(|r| r.text().unwrap()), grammar);
        assert_eq!(d.get(&mapping, "_get_value_type").read(|r| (r.u32().unwrap(), r.u32().unwrap())), (STRING, 0));
        let default = d.get(&mapping, "_get_default_value");
        default.read(|r| {
            assert_eq!((r.u32().unwrap(), r.u32().unwrap(), r.text().unwrap()), (STRING, 0, "default".into()));
        });
    }
    for unknown in ["", "extended_tcl", "SQL"] {
        d.call(&factory, "create_filter", |w| w.string(unknown)).raises("InvalidGrammar");
        d.call(&factory, "create_mapping_filter", |w| {
            w.string(unknown);
            write_short(1, w);
        })
        .raises("InvalidGrammar");
    }
    let refused = refused(d, &factory, "create_mapping_filter", |w| {
        w.string("TCL");
        write_text(&"x".repeat(5_000), w);
    });
    assert_eq!(refused, Kind::ImpLimit);
    let filter = made_filter(d, &factory);
    d.get(&channel, "destroy");
    for gone in [&factory, &filter] {
        d.call(gone, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    }
}

pub(super) fn constraints(d: &mut Dialogue) {
    let factory = factory(d);
    let filter = made_filter(d, &factory);
    assert_eq!(all(d, &filter), []);
    let added = add(d, &filter, &[(&[("ALMA", "Temperature"), ("*", "Al*")], "TRUE"), (&[], "")]).unwrap();
    added.read(|r| {
        assert_eq!(r.u32().unwrap(), 2);
        let types = vec![("ALMA".to_owned(), "Temperature".to_owned()), ("*".to_owned(), "Al*".to_owned())];
        assert_eq!((read_expression(r), r.i32().unwrap()), ((types, "TRUE".to_owned()), 1));
        assert_eq!((read_expression(r), r.i32().unwrap()), ((vec![], String::new()), 2));
    });
    assert_eq!(all(d, &filter), [(1, "TRUE".into()), (2, String::new())]);
    let some = d.call(&filter, "get_constraints", |w| write_ids(&[2, 1, 2], w)).unwrap();
    assert_eq!(infos(&some), [(2, String::new()), (1, "TRUE".into()), (2, String::new())]);
    let missing = d.call(&filter, "get_constraints", |w| write_ids(&[1, 3], w)).raises("ConstraintNotFound");
    assert_eq!(missing.read(|r| r.i32().unwrap()), 3);

    // All or nothing, whatever is wrong with a change.
    let bad: Expression<'_> = (&[("ALMA", "b*d")], "FALSE or");
    for wrong in ["$a ==", "1 +", "((TRUE)", "$a === 2", "TRUE FALSE", "unknown($a)", "\u{e9}"] {
        let refused = add(d, &filter, &[(&[], "TRUE"), (&[("a", "b")], wrong)]).raises("InvalidConstraint");
        assert_eq!(refused.read(read_expression), (vec![("a".into(), "b".into())], wrong.to_owned()));
    }
    for _ in 0..2 {
        let refused = add(d, &filter, &[(&[], "TRUE"), bad]).raises("InvalidConstraint");
        let refused = refused.read(read_expression);
        assert_eq!(refused, (vec![("ALMA".to_owned(), "b*d".to_owned())], "FALSE or".to_owned()));
        modify(d, &filter, &[1], &[(bad, 2)]).raises("InvalidConstraint");
        for (deleted, modified, missing) in [(vec![1, 9], vec![], 9), (vec![1], vec![1], 1), (vec![], vec![2, -1], -1)]
        {
            let modified: Vec<_> = modified.into_iter().map(|id| ((&[][..], "FALSE"), id)).collect();
            let members = modify(d, &filter, &deleted, &modified).raises("ConstraintNotFound");
            assert_eq!(members.read(|r| r.i32().unwrap()), missing);
        }
        assert_eq!(all(d, &filter), [(1, "TRUE".into()), (2, String::new())]);
    }
    modify(d, &filter, &[1], &[((&[], "FALSE"), 2)]).unwrap();
    assert_eq!(all(d, &filter), [(2, "FALSE".into())]);
    assert_eq!(infos(&add(d, &filter, &[(&[], "TRUE")]).unwrap())[0].0, 3, "ids are not used again");
    d.get(&filter, "remove_all_constraints");
    assert_eq!(all(d, &filter), []);
    assert_eq!(infos(&add(d, &filter, &[(&[], "TRUE")]).unwrap())[0].0, 4, "not even then");
    d.get(&filter, "destroy");
    d.call(&filter, "get_all_constraints", |_| {}).raises("OBJECT_NOT_EXIST");
}

pub(super) fn mapping_constraints(d: &mut Dialogue) {
    let factory = factory(d);
    let filter = made_mapping(d, &factory, |w| write_short(5, w));
    assert_eq!(d.get(&filter, "_get_value_type").read(|r| r.u32().unwrap()), SHORT);
    assert_eq!(d.get(&filter, "_get_default_value").read(read_short), 5);
    let added = add_mapping(d, &filter, &[((&[], "TRUE"), 7), ((&[("a", "b")], "FALSE"), -7)]).unwrap();
    let both = [(1, "TRUE".to_owned(), 7), (2, "FALSE".to_owned(), -7)];
    assert_eq!(mapping_infos(&added), both);
    assert_eq!(mapping_infos(&d.get(&filter, "get_all_mapping_constraints")), both);
    let one = d.call(&filter, "get_mapping_constraints", |w| write_ids(&[2], w)).unwrap();
    assert_eq!(mapping_infos(&one), both[1..]);
    let missing = d.call(&filter, "get_mapping_constraints", |w| write_ids(&[0], w)).raises("ConstraintNotFound");
    assert_eq!(missing.read(|r| r.i32().unwrap()), 0);

    // A value of another type than the default's.
    let refused = d.call(&filter, "add_mapping_constraints", |w| {
        w.u32(1);
        write_expression((&[], "TRUE"), w);
        w.u32(LONG);
        w.i32(77);
    });
    refused.raises("InvalidValue").read(|r| {
        assert_eq!(read_expression(r), (vec![], "TRUE".to_owned()));
        assert_eq!((r.u32().unwrap(), r.i32().unwrap()), (LONG, 77));
    });
    add_mapping(d, &filter, &[((&[("", "*")], "TRUE TRUE"), 1)]).raises("InvalidConstraint");
    let mut change = |deleted: &[i32], modified: &[(Expression<'_>, i32)], kind: u32| {
        d.call(&filter, "modify_mapping_constraints", |w| {
            write_ids(deleted, w);
            w.length(modified.len());
            for (expression, id) in modified {
                write_expression(*expression, w);
                w.i32(*id);
                w.u32(kind);
                w.i16(9);
            }
        })
    };
    change(&[3], &[], SHORT).raises("ConstraintNotFound");
    change(&[1], &[((&[], ""), 3)], SHORT).raises("ConstraintNotFound");
    change(&[1], &[((&[("", "x*x")], "()"), 2)], SHORT).raises("InvalidConstraint");
    change(&[1], &[((&[], ""), 2)], 4).raises("InvalidValue");
    change(&[1], &[((&[], ""), 2)], SHORT).unwrap();
    assert_eq!(mapping_infos(&d.get(&filter, "get_all_mapping_constraints")), [(2, String::new(), 9)]);
    d.get(&filter, "remove_all_mapping_constraints");
    assert_eq!(mapping_infos(&d.get(&filter, "get_all_mapping_constraints")), []);
    d.get(&filter, "destroy");
    d.call(&filter, "_get_value_type", |_| {}).raises("OBJECT_NOT_EXIST");
}

pub(super) fn matching(d: &mut Dialogue) {
    let factory = factory(d);
    let filter = made_filter(d, &factory);
    assert!(!matched(d.call(&filter, "match_structured", write_empty_event)), "nothing satisfies no constraint");
    add(d, &filter, &[(&[("ALMA", "Temp*")], "TRUE"), (&[("", "%ANY"), ("", "%TYPED")], "FALSE")]).unwrap();
    let mut event =
        |domain: &str, name: &str| matched(d.call(&filter, "match_structured", |w| write_event(domain, name, w)));
    assert!(event("ALMA", "Temperature"));
    assert!(!event("ALMA", "Pressure"));
    assert!(!event("", "Temperature"));
    let any = |w: &mut Writer<'_>| write_short(3, w);
    assert!(!matched(d.call(&filter, "match", any)));
    assert!(!matched(d.call(&filter, "match_typed", |w| w.u32(0))));
    add(d, &filter, &[(&[("*", "%ANY")], "TRUE")]).unwrap();
    assert!(matched(d.call(&filter, "match", any)));
    assert!(!matched(d.call(&filter, "match_typed", |w| w.u32(0))));
    add(d, &filter, &[(&[("", "%TYPED")], "TRUE")]).unwrap();
    let typed = d.call(&filter, "match_typed", |w| {
        w.u32(1);
        w.string("operation");
        write_text("x", w);
    });
    assert!(matched(typed));
    // A value type: nothing here can look into one.
    let unsupported = |w: &mut Writer<'_>| {
        w.u32(30);
        w.encapsulation(|w| {
            w.string("IDL:demo/Boxed:1.0");
            w.string("Boxed");
            w.u32(SHORT);
        });
        w.u32(0);
    };
    let unsupported_in_event = |w: &mut Writer<'_>| {
        for text in ["", "", ""] {
            w.string(text);
        }
        w.u32(0);
        w.u32(0);
        unsupported(w);
    };
    let unsupported_property = |w: &mut Writer<'_>| {
        w.u32(1);
        w.string("x");
        unsupported(w);
    };
    for outcome in [
        answered(d, &filter, "match", unsupported),
        answered(d, &filter, "match_structured", unsupported_in_event),
        answered(d, &filter, "match_typed", unsupported_property),
    ] {
        let Err(Exception::User { id, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(id, "IDL:omg.org/CosNotifyFilter/UnsupportedFilterableData:1.0");
    }
}

/// Writes an event with one property in its filterable data and a struct-free body.
fn write_reading(property: &str, value: impl FnOnce(&mut Writer<'_>), w: &mut Writer<'_>) {
    w.string("ALMA");
    w.string("Reading");
    w.string("one");
    w.u32(0);
    w.u32(1);
    w.string(property);
    value(w);
    write_text("the body", w);
}

fn write_double(value: f64, w: &mut Writer<'_>) {
    w.u32(7);
    w.f64(value);
}

pub(super) fn fields(d: &mut Dialogue) {
    let factory = factory(d);
    let ask = |d: &mut Dialogue, constraint: &str, property: &str, value: f64| {
        let filter = made_filter(d, &factory);
        add(d, &filter, &[(&[], constraint)]).unwrap();
        let structured =
            d.call(&filter, "match_structured", |w| write_reading(property, |w| write_double(value, w), w));
        let typed = d.call(&filter, "match_typed", |w| {
            w.u32(1);
            w.string(property);
            write_double(value, w);
        });
        let answers = [structured, typed].map(|body| body.map(|body| body.read(|r| r.bool().unwrap())));
        let [structured, typed] = answers.map(|answer| answer.map_err(|thrown| thrown.name().to_owned()));
        assert_eq!(structured, typed, "{constraint}");
        structured
    };
    assert_eq!(ask(d, "$value > 3", "value", 3.25), Ok(true));
    assert_eq!(ask(d, "$value > 3", "value", 3.0), Ok(false));
    assert_eq!(ask(d, "$value > 3", "other", 3.25), Ok(false), "what is not there does not match");
    assert_eq!(ask(d, "not exist $other and $value < 4", "value", 3.25), Ok(true));
    assert_eq!(ask(d, "$value == 'three'", "value", 3.0), Err("UnsupportedFilterableData".into()));

    let filter = made_filter(d, &factory);
    add(d, &filter, &[(&[], "$ == 'here'"), (&[], "$.remainder_of_body == 'the body' and $event_name == 'one'")])
        .unwrap();
    assert!(matched(d.call(&filter, "match", |w| write_text("here", w))));
    assert!(!matched(d.call(&filter, "match", |w| write_text("there", w))));
    assert!(matched(d.call(&filter, "match_structured", |w| write_reading("x", |w| write_short(1, w), w))));
    // One constraint that cannot be asked of an event does not keep another from matching it.
    add(d, &filter, &[(&[], "$x == 'two'"), (&[], "$x == 2")]).unwrap();
    let event = |x: i16| {
        move |w: &mut Writer<'_>| {
            w.u32(1);
            w.string("x");
            write_short(x, w);
        }
    };
    assert!(matched(d.call(&filter, "match_typed", event(2))));
    d.call(&filter, "match_typed", event(3)).raises("UnsupportedFilterableData");

    let now = 0x01F1_64F5_4A00_0000;
    d.protocol.objects.handle_utc(now);
    let filter = made_filter(d, &factory);
    add(d, &filter, &[(&[], &format!("$curtime == {now}"))]).unwrap();
    assert!(matched(d.call(&filter, "match", |w| write_short(1, w))));
    d.protocol.objects.handle_utc(now + 1);
    assert!(!matched(d.call(&filter, "match", |w| write_short(1, w))));
}

pub(super) fn mapping(d: &mut Dialogue) {
    let factory = factory(d);
    let filter = made_mapping(d, &factory, |w| write_short(-1, w));
    let map = |d: &mut Dialogue, domain: &str| {
        let body = d.call(&filter, "match_structured", |w| write_event(domain, "x", w)).unwrap();
        body.read(|r| (r.bool().unwrap(), read_short(r)))
    };
    assert_eq!(map(d, "ALMA"), (false, -1), "the default where nothing matches");
    let types: &[(&str, &str)] = &[("ALMA", "*")];
    add_mapping(d, &filter, &[((&[], "TRUE"), 3), ((types, "TRUE"), 8), ((types, "FALSE"), 9)]).unwrap();
    assert_eq!(map(d, "ALMA"), (true, 8), "the best value first, whatever the order");
    assert_eq!(map(d, "other"), (true, 3));
    let any = d.call(&filter, "match", |w| write_text("x", w)).unwrap();
    assert_eq!(any.read(|r| (r.bool().unwrap(), read_short(r))), (true, 3));
    let typed = d.call(&filter, "match_typed", |w| w.u32(0)).unwrap();
    assert_eq!(typed.read(|r| (r.bool().unwrap(), read_short(r))), (true, 3));
}

pub(super) fn time_limits(d: &mut Dialogue) {
    /// 21 November 2026 in 100 ns since 15 October 1582.
    const NOW: u64 = 0x01F1_64F5_4A00_0000;
    let factory = factory(d);
    let filter = made_filter(d, &factory);
    add(d, &filter, &[(&[], "TRUE")]).unwrap();
    d.protocol.objects.handle_utc(NOW);
    let mut asked = |timeout: u64| {
        let structured = matched(d.call(&filter, "match_structured_with_timeout", |w| {
            write_empty_event(w);
            write_utc(timeout, w);
        }));
        let any = matched(d.call(&filter, "match_with_timeout", |w| {
            write_short(1, w);
            write_utc(timeout, w);
        }));
        assert_eq!(any, structured);
        any
    };
    assert!(asked(10_000), "a millisecond from now");
    assert!(asked(NOW + 10_000), "a millisecond from now, as a point in time");
    assert!(asked(u64::MAX));
    assert!(!asked(0), "nothing can be decided in no time");
    assert!(!asked(NOW), "nor in time that is over");
    assert!(!asked(NOW - 1));
    assert!(d.protocol.objects.take_filter_cuts() >= 6 && d.protocol.objects.take_filter_cuts() == 0);
    assert!(
        d.call(&filter, "_is_a", |w| w.string("IDL:Campanile/TimeoutFilter:1.0")).unwrap().read(|r| r.bool().unwrap())
    );
}

pub(super) fn callbacks(d: &mut Dialogue) {
    let factory = factory(d);
    let filter = made_filter(d, &factory);
    assert!(d.ids(&filter, "get_callbacks").is_empty());
    d.give(&filter, "attach_callback", &Ior::nil()).raises("BAD_PARAM");
    let attached = d.give(&filter, "attach_callback", &client("one")).unwrap();
    assert_eq!(attached.read(|r| r.i32().unwrap()), 0);
    d.give(&filter, "attach_callback", &client("two")).unwrap();
    assert_eq!(d.ids(&filter, "get_callbacks"), [0, 1]);
    for unknown in [2, -1] {
        d.call(&filter, "detach_callback", |w| w.i32(unknown)).raises("CallbackNotFound");
    }
    d.call(&filter, "detach_callback", |w| w.i32(1)).unwrap();
    d.call(&filter, "detach_callback", |w| w.i32(1)).raises("CallbackNotFound");
    assert_eq!(d.ids(&filter, "get_callbacks"), [0]);
    let third = d.give(&filter, "attach_callback", &client("three")).unwrap();
    assert_eq!(third.read(|r| r.i32().unwrap()), 2, "ids are not used again");
    d.call(&filter, "detach_callback", |w| w.i32(2)).unwrap();
    d.effects();

    let fine = ClientAnswer::Returned(None);
    add(d, &filter, &[(&[("a", "x"), ("b", "y")], "TRUE")]).unwrap();
    assert_eq!(changes(d, fine), [("one", "a/x b/y", "")]);
    add(d, &filter, &[(&[("a", "x")], "FALSE")]).unwrap();
    assert_eq!(changes(d, fine), [], "the filter's event types are the same as before");
    modify(d, &filter, &[1], &[((&[], "FALSE"), 2)]).unwrap();
    assert_eq!(changes(d, ClientAnswer::TimedOut), [("one", "*/*", "a/x b/y")]);
    d.get(&filter, "remove_all_constraints");
    assert_eq!(changes(d, ClientAnswer::Raised), [("one", "", "a/x b/y")], "with what it may have missed");
    add(d, &filter, &[(&[("", "%ALL"), ("a", "x")], "TRUE")]).unwrap();
    assert_eq!(changes(d, ClientAnswer::NotImplemented), [("one", "*/* a/x", "")]);
    d.get(&filter, "remove_all_constraints");
    assert_eq!(changes(d, fine), [], "it is left in peace");
    assert_eq!(d.ids(&filter, "get_callbacks"), [0]);

    // A slow callback gets in one call what changes meanwhile, and the others are notified at once.
    d.give(&filter, "attach_callback", &client("slow")).unwrap();
    add(d, &filter, &[(&[("a", "x")], "TRUE")]).unwrap();
    let [Effect::Ask { client_call, .. }] = d.effects()[..] else { panic!() };
    d.give(&filter, "attach_callback", &client("quick")).unwrap();
    add(d, &filter, &[(&[("b", "y")], "TRUE")]).unwrap();
    assert_eq!(changes(d, fine), [("quick", "b/y", "")]);
    modify(d, &filter, &[4], &[]).unwrap();
    assert_eq!(changes(d, fine), [("quick", "", "a/x")]);
    add(d, &filter, &[(&[("c", "z")], "TRUE")]).unwrap();
    assert_eq!(changes(d, fine), [("quick", "c/z", "")]);
    d.protocol.handle_answer(client_call, fine);
    assert_eq!(changes(d, fine), [("slow", "b/y c/z", "a/x")]);
    d.get(&filter, "remove_all_constraints");
    assert_eq!(changes(d, ClientAnswer::Gone).len(), 2);
    assert_eq!(d.ids(&filter, "get_callbacks"), [0], "those that do not exist any more are not kept");
}

/// Changes of which callbacks are notified, each answered: callback, event types that came, that went.
fn changes(d: &mut Dialogue, answer: ClientAnswer) -> Vec<(&'static str, &'static str, &'static str)> {
    let list = |r: &mut Reader<'_>| {
        let types = (0..r.u32().unwrap()).map(|_| format!("{}/{}", r.text().unwrap(), r.text().unwrap()));
        types.collect::<Vec<_>>().join(" ")
    };
    let calls = d.effects().into_iter().map(|effect| {
        let Effect::Ask { client_call, to, operation: "subscription_change", body, .. } = effect else {
            panic!("{effect:?}")
        };
        let mut r = Reader::new(&body, Encoding::new(Endian::NATIVE));
        let (added, removed) = (list(&mut r), list(&mut r));
        r.finish("subscription_change").unwrap();
        d.protocol.handle_answer(client_call, answer);
        let key = String::from_utf8(to.iiop().unwrap().key.clone()).unwrap();
        (&*key.leak(), &*added.leak(), &*removed.leak())
    });
    calls.collect()
}

/// A reference to the same object under another name of this host.
fn elsewhere_known(object: &Ior) -> Ior {
    let mut profile = object.iiop().unwrap().clone();
    profile.host = "another.name.example".into();
    Ior::new(&object.type_id, profile)
}

/// Everything that can have filters.
fn holders(d: &mut Dialogue, channel: &Ior) -> Vec<Ior> {
    let mut objects = every_proxy(d, channel);
    objects.extend(["for_consumers", "for_suppliers"].map(|admin| d.object(channel, admin)));
    objects
}

pub(super) fn attachments(d: &mut Dialogue) {
    let channel = new_channel(d).0;
    let factory = d.object(&channel, "_get_default_filter_factory");
    let shared = made_filter(d, &factory);
    let second = made_filter(d, &factory);
    let mapping = made_mapping(d, &factory, |w| write_short(1, w));
    let holders = holders(d, &channel);
    for object in &holders {
        assert!(d.ids(object, "get_all_filters").is_empty());
        let mut added = |filter: &Ior| d.give(object, "add_filter", filter).map(|body| body.read(|r| r.i32().unwrap()));
        assert_eq!(added(&shared).unwrap(), 0);
        assert_eq!(added(&client("their filter")).unwrap(), 1);
        assert_eq!(added(&elsewhere_known(&second)).unwrap(), 2);
        for wrong in [&Ior::nil(), &elsewhere_known(&mapping), &mapping, &factory, &channel, object] {
            d.give(object, "add_filter", wrong).raises("BAD_PARAM");
        }
        assert_eq!(d.ids(object, "get_all_filters"), [0, 1, 2]);
        for (id, filter) in [(0, &shared), (1, &client("their filter")), (2, &second)] {
            assert_eq!(d.look_up(object, "get_filter", id).unwrap(), *filter);
        }
        d.call(object, "remove_filter", |w| w.i32(1)).unwrap();
        for unknown in [1, 3, -1] {
            d.call(object, "remove_filter", |w| w.i32(unknown)).raises("FilterNotFound");
            d.call(object, "get_filter", |w| w.i32(unknown)).raises("FilterNotFound");
        }
        d.give(object, "add_filter", &client("another")).unwrap();
        assert_eq!(d.ids(object, "get_all_filters"), [0, 2, 3], "ids are not used again");
    }
    d.get(&second, "destroy");
    for object in &holders {
        assert_eq!(d.ids(object, "get_all_filters"), [0, 3], "a filter that is destroyed belongs to no proxy");
        d.get(object, "remove_all_filters");
        assert!(d.ids(object, "get_all_filters").is_empty());
        d.give(object, "add_filter", &second).raises("BAD_PARAM");
    }
    assert_eq!(d.protocol.publish().unwrap().directory.peers.len(), 0, "and the peers of what is removed are gone");
}

pub(super) fn mapping_attachments(d: &mut Dialogue) {
    let channel = new_channel(d).0;
    let factory = d.object(&channel, "_get_default_filter_factory");
    let shorts = made_mapping(d, &factory, |w| write_short(1, w));
    let times = made_mapping(d, &factory, |w| write_time(10, w));
    let large = made_mapping(d, &factory, |w| write_time(100_000, w));
    let texts = made_mapping(d, &factory, |w| write_text("x", w));
    let decides = made_filter(d, &factory);
    let has_them = |object: &Ior| object.type_id.contains("ConsumerAdmin") || object.type_id.ends_with("Supplier:1.0");
    let holders: Vec<Ior> = holders(d, &channel).into_iter().filter(|object| has_them(object)).collect();
    assert_eq!(holders.len(), 7);
    for object in &holders {
        for (attribute, good, bad) in [
            ("priority_filter", [&shorts, &times], [&large, &texts]),
            ("lifetime_filter", [&times, &large], [&texts, &decides]),
        ] {
            let (get, set) = (format!("_get_{attribute}"), format!("_set_{attribute}"));
            assert!(d.object(object, &get).is_nil());
            for filter in good {
                d.give(object, &set, filter).unwrap();
                assert_eq!(d.object(object, &get), *filter);
            }
            for filter in bad.into_iter().chain([&client("theirs"), &channel]) {
                d.give(object, &set, filter).raises("BAD_PARAM");
                assert_eq!(d.object(object, &get), *good[1]);
            }
            d.give(object, &set, &Ior::nil()).unwrap();
            assert!(d.object(object, &get).is_nil());
            d.give(object, &set, good[1]).unwrap();
        }
    }
    // It is used for priorities and lifetimes both, and holds what is neither off.
    let refused = d.call(&times, "add_mapping_constraints", |w| {
        w.u32(1);
        write_expression((&[], "TRUE"), w);
        write_time(40_000, w);
    });
    refused.raises("InvalidValue");
    d.get(&times, "destroy");
    for object in &holders {
        assert!(d.object(object, "_get_priority_filter").is_nil());
        assert_eq!(d.object(object, "_get_lifetime_filter"), large);
    }
}

pub(super) fn limits(d: &mut Dialogue) {
    let limits = ChannelLimits {
        constraint_bytes_max: 20,
        constraint_nodes_max: 6,
        constraints_per_filter_max: 3,
        filters_per_object_max: 2,
        filters_max: 4,
        ..ChannelLimits::default()
    };
    let mut d = Dialogue::with(d.style, crate::ProtocolSettings { limits, ..settings(1) });
    let d = &mut d;
    let channel = new_channel(d).0;
    let factory = d.object(&channel, "_get_default_filter_factory");
    let filter = made_filter(d, &factory);
    add(d, &filter, &[(&[], "1 + 1 + 1 == 3")]).raises("InvalidConstraint");
    let long = format!("TRUE{}", " ".repeat(17));
    add(d, &filter, &[(&[], &long)]).raises("InvalidConstraint");
    let four = |w: &mut Writer<'_>| write_expressions(&[(&[][..], "TRUE"); 4], w);
    assert_eq!(refused(d, &filter, "add_constraints", four), Kind::ImpLimit);
    add(d, &filter, &[(&[][..], "TRUE"); 3]).unwrap();
    add(d, &filter, &[(&[], "TRUE")]).raises("IMP_LIMIT");
    assert_eq!(all(d, &filter).len(), 3);
    assert_eq!(refused(d, &filter, "get_constraints", |w| write_ids(&[1, 1, 1, 1], w)), Kind::ImpLimit);

    let admin = d.object(&channel, "for_consumers");
    d.give(&admin, "add_filter", &filter).unwrap();
    d.give(&admin, "add_filter", &client("theirs")).unwrap();
    d.give(&admin, "add_filter", &filter).raises("IMP_LIMIT");
    d.give(&admin, "add_filter", &client("theirs")).raises("IMP_LIMIT");
    assert_eq!(d.protocol.publish().unwrap().directory.peers.len(), 1, "nothing is kept of what was refused");

    let mapping = made_mapping(d, &factory, |w| write_time(1, w));
    made_filter(d, &factory);
    made_filter(d, &factory);
    d.call(&factory, "create_filter", |w| w.string("TCL")).raises("IMP_LIMIT");
    d.give(&admin, "_set_lifetime_filter", &mapping).raises("IMP_LIMIT");
    assert!(d.object(&admin, "_get_lifetime_filter").is_nil());
}

#[test]
fn a_filter_of_another_server_is_published_while_someone_has_it() {
    let mut d = Dialogue::new(STYLES[5]);
    let channel = new_channel(&mut d).0;
    let admin = d.made(&channel, "new_for_consumers", 0).0;
    let proxy = d.made(&admin, "obtain_notification_push_supplier", 1).0;
    let theirs = [("on the admin", &admin), ("on the proxy", &proxy)];
    for (key, object) in theirs {
        d.give(object, "add_filter", &client(key)).unwrap();
    }
    let published = d.protocol.publish().unwrap();
    let mut names: Vec<_> = published.directory.peers.iter().map(|(_, address)| address.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["client.example:4711 on the admin", "client.example:4711 on the proxy"]);
    let ObjectKey::Proxy { channel: id, proxy: number, .. } = key_of(&proxy) else { panic!() };
    let target = FilterTarget::Proxy(engine::ProxyKey { channel: id, proxy: number });
    let [(_, FilterRef::Remote(peer))] = d.protocol.objects.hierarchy().filters(target).unwrap() else { panic!() };
    assert_eq!(published.directory.peers.get(*peer).unwrap().ior, client("on the proxy"));

    d.get(&admin, "destroy");
    assert!(d.protocol.publish().unwrap().directory.peers.is_empty());
    assert_eq!(d.effects().iter().filter(|effect| matches!(effect, Effect::ReleasePeer(_))).count(), 2);

    let admin = d.object(&channel, "for_suppliers");
    d.give(&admin, "add_filter", &client("again")).unwrap();
    assert_eq!(d.protocol.publish().unwrap().directory.peers.len(), 1);
    d.get(&channel, "destroy");
    assert!(d.protocol.publish().unwrap().directory.peers.is_empty());
}

#[test]
fn the_default_channels_filter_factory_survives_a_restart_and_its_filters_do_not() {
    let mut first = Dialogue::new(STYLES[5]);
    let channel = first.bootstrap("DefaultEventChannel");
    let factory = first.object(&channel, "_get_default_filter_factory");
    let filter = made_filter(&mut first, &factory);
    let mut second = Dialogue::with(STYLES[5], settings(2));
    let again = made_filter(&mut second, &factory);
    assert_ne!(again, filter);
    second.call(&filter, "get_all_constraints", |_| {}).raises("OBJECT_NOT_EXIST");
}

#[test]
fn a_mapping_filters_key_does_not_reach_a_filter() {
    let mut d = Dialogue::new(STYLES[5]);
    let factory = factory(&mut d);
    let filter = made_filter(&mut d, &factory);
    let mapping = made_mapping(&mut d, &factory, |w| write_short(1, w));
    for (object, other) in [(&filter, "MappingFilter/"), (&mapping, "Filter/")] {
        let key = String::from_utf8(object.iiop().unwrap().key.clone()).unwrap();
        let forged = d.bootstrap(&format!("{other}{}", key.split_once('/').unwrap().1));
        d.call(&forged, "_non_existent", |_| {}).raises("OBJECT_NOT_EXIST");
    }
}
